"""The chat on a terminal while a turn runs: what is typed then is heard, kept for afterwards, or ends the turn."""

import json
import time
from contextlib import ExitStack
from threading import Event

import pytest
from daemon_kit import PUMP, Daemon, furnished, until
from model_server import ModelServer, call, chunk, comments, drip, refusal, reply, silence
from person import Person, picoclaw_process
from sandbox_kit import needs_walls
from test_stop import unanswered
from validity import check_body

from picoclaw.agent import commands
from picoclaw.cli.chat import Terminal
from picoclaw.daemon.process import TurnStopper

AT_ONCE = 1.0
STOPPED = "[stopped by the user]"
SLEEP = call("exec", {"argv": ["python3", "-c", "open('began', 'w'); import time; time.sleep(30)"], "write": True})
WORK = call("exec", {"argv": ["python3", "-c", "open('began', 'w'); import time; time.sleep(1)"], "write": True})
WRITE = call("i2c", {"action": "write", "address": "0x76", "register": "0xf4", "data": [0x25]})


@pytest.mark.parametrize("runs", [False, True], ids=["by itself", "with a daemon"])
def test_the_first_chat_says_what_can_be_done_here(tmp_path, runs):
    """In a line each, by what this board has; the next chat knows that it has been read."""
    furnished(tmp_path, outputs=PUMP)
    with ExitStack() as stack:
        if runs:
            stack.enter_context(Daemon(tmp_path)).ready()
        for number in range(2):
            words = ("chat",) if runs else ("chat", "--board", "sim")
            with Person(tmp_path, *words) as person:
                shown = person.sees("> ")
                person.types("which reminders are there?\r")
                person.sees("> ")
                person.types("\x04")
                assert person.leaves() == 0
            assert ("Sensors (simulated): greenhouse. Ask: how warm is it?\r\n" in shown) == (not number), shown
            assert ("Outputs (simulated): pump. Say: switch the pump on for 10 seconds\r\n" in shown) == (not number)
            assert ("`picoclaw init` sets one up" in shown) == (not number)


@pytest.mark.parametrize("word", ["quit", "Exit", "/quit"])
def test_a_word_leaves_the_chat_as_elsewhere(tmp_path, word):
    furnished(tmp_path)
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        person.types(f"{word}\r")
        assert person.leaves() == 0


def test_an_answer_is_broken_between_words(tmp_path):
    """Also one that comes in pieces, some of them parts of words."""
    said = "The greenhouse is warm enough for the tomatoes and peppers, so nothing has to be done before evening."
    server = ModelServer([reply(said, pieces=15)])
    furnished(tmp_path)
    with server, Person(tmp_path, "chat", "--board", "sim", columns=60, PICOCLAW_BASE_URL=server.url) as person:
        says(person, "how is it?")
        shown = person.sees("evening.")
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
    assert (
        "The greenhouse is warm enough for the tomatoes and peppers, \r\nso nothing has to be done before evening."
        in shown
    )


def begun(home, server):
    """Wait until the model was asked, and the command of its answer runs."""
    until(lambda: server.requests and (not server.command or (home / "picoclaw/workspace/began").exists()))


def chat(home, url):
    return Person(home, "chat", "--board", "sim", PICOCLAW_BASE_URL=url)


def says(person, line):
    person.sees("> ")
    person.types(f"{line}\r")


STOPS = {
    "is silent": silence(),
    "is silent in the middle": silence(chunk(content="word word")),
    "drips words": reply("word " * 2000, pause=0.03),
    "drips bytes and never ends a line": drip(),
    "keeps the line busy": comments(),
    "has a command run": reply("", SLEEP),
}


@pytest.mark.parametrize("what", STOPS)
@needs_walls
def test_stop_ends_a_turn_within_a_second_while_the_server(tmp_path, what):
    with ModelServer([STOPS[what], reply("Ready again.")]) as server, chat(tmp_path, server.url) as person:
        server.command = "command" in what
        says(person, "tell me a story")
        begun(tmp_path, server)
        time.sleep(0.1)
        said = time.monotonic()
        person.types("/stop\r")
        person.sees(STOPPED)
        assert time.monotonic() - said < AT_ONCE
        says(person, "and now?")
        person.sees("Ready again.")
        check_body(server.requests[1].body)
        assert STOPPED in json.dumps(server.requests[1].body)


def test_stop_ends_a_turn_that_the_word_alone_does_not_end(tmp_path):
    with unanswered() as url, chat(tmp_path, url) as person:
        says(person, "hello")
        person.sees("hello")
        time.sleep(0.3)
        said = time.monotonic()
        person.types("/stop\r")
        person.sees(STOPPED)
        assert time.monotonic() - said < AT_ONCE
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0


@pytest.mark.parametrize("apart_ms", [0, 1, 2, 3, 5])
@needs_walls
def test_ctrl_c_twice_ends_the_turn_and_loses_nothing_of_it(tmp_path, apart_ms):
    script = [silence(chunk(content="word word")), reply("Ready again.")]
    with ModelServer(script) as server, chat(tmp_path, server.url) as person:
        says(person, "tell me a story")
        person.sees("word word")
        person.types("\x03")
        time.sleep(apart_ms / 1000)
        person.types("\x03")
        person.sees(STOPPED)
        says(person, "and now?")
        person.sees("Ready again.")
        assert f"word word\\n{STOPPED}" in json.dumps(server.requests[1].body)


@pytest.mark.parametrize("answer", ["/stop", "/STOP"])
def test_stop_is_an_answer_to_a_question(tmp_path, answer):
    with ModelServer([reply("", WRITE), reply("Ready again.")]) as server, chat(tmp_path, server.url) as person:
        says(person, "start it")
        person.sees("[y/N] ")
        person.types(f"{answer}\r")
        person.sees(STOPPED, 3)
        says(person, "and now?")
        person.sees("Ready again.")
        assert "the answer was no" in json.dumps(server.requests[1].body)


@needs_walls
def test_what_is_typed_while_a_tool_runs_is_heard_at_once(tmp_path):
    script = [reply("", WORK), reply("In the cellar, then.")]
    with ModelServer(script) as server, chat(tmp_path, server.url) as person:
        server.command = True
        says(person, "look around")
        begun(tmp_path, server)
        person.types("in the cellar, please\r")
        person.sees("· heard: in the cellar, please")
        person.sees("In the cellar, then.")
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
    assert server.requests[1].said.endswith("in the cellar, please")
    assert len(server.requests) == 2
    assert "in the cellar, please" in picoclaw_process(tmp_path, "sessions", "show", "1").stdout


def test_what_is_typed_too_late_is_answered_next_and_in_its_order(tmp_path):
    script = [reply("One it is. " * 20, pause=0.02), reply("Two."), reply("Three.")]
    with ModelServer(script) as server, chat(tmp_path, server.url) as person:
        says(person, "say one")
        person.sees("One it is.")
        person.types("say two\rsay three\r")
        person.sees("> say two")
        person.sees("Two.")
        person.sees("> say three")
        person.sees("Three.")
        assert [request.said.rpartition(">")[2].strip() for request in server.requests] == [
            *("say one", "say two", "say three")
        ]


@needs_walls
def test_a_command_waits_for_the_end_of_the_turn_and_so_does_what_follows_it(tmp_path):
    script = [reply("", WORK), reply("Done."), reply("Anew.")]
    with ModelServer(script) as server, chat(tmp_path, server.url) as person:
        server.command = True
        says(person, "work")
        begun(tmp_path, server)
        person.types("/new\rhow are you?\r")
        person.sees("Done.")
        person.sees("> /new")
        person.sees("A new conversation begins.")
        person.sees("> how are you?")
        person.sees("Anew.")
        assert [message["role"] for message in server.requests[2].body["messages"]] == ["system", "user"]


@needs_walls
def test_what_nobody_has_heard_is_asked_again(tmp_path):
    """The server gives up after the words were taken in: they are not lost, and not answered twice."""
    script = [
        reply("", WORK),
        refusal(400, "maximum context length exceeded"),
        reply("In the cellar, then."),
    ]
    with ModelServer(script) as server, chat(tmp_path, server.url) as person:
        server.command = True
        says(person, "look around")
        begun(tmp_path, server)
        person.types("in the cellar, please\r")
        person.sees("context length")
        person.sees("> in the cellar, please")
        person.sees("In the cellar, then.")
        assert len(server.requests) == 3


def test_help_lists_what_is_understood_here(tmp_path):
    with Person(tmp_path, "chat", "--board", "sim") as person:
        says(person, "/help")
        shown = person.sees("> ")
        assert all(f"/{word}" in shown for word in [*commands.COMMANDS, "quit"])
        person.types("/stop\r")
        person.sees("Nothing is running.")
        says(person, "/quti")
        person.sees("/quti is no command")
        says(person, "/quit")
        assert person.leaves() == 0


def test_commands_from_a_pipe_and_in_one_question(tmp_path):
    done = picoclaw_process(tmp_path, "chat", "--board", "sim", stdin="how warm is it?\n/undo\n/undo\n")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "Taken back: how warm is it?"
    assert done.stderr == "picoclaw: There is nothing to take back: a model is shown no earlier turn.\n"
    one = picoclaw_process(tmp_path, "chat", "--board", "sim", "-m", "/sessions", "--json")
    assert "0 turns: everything was undone" in json.loads(one.stdout)["reply"]
    assert one.returncode == 0


# --- the screen, without one


@pytest.fixture
def screen(capsys):
    shown = Terminal(Event())
    shown.printed = lambda: capsys.readouterr().out.replace("\x1b[2m", "").replace("\x1b[0m", "")
    return shown


def end(reply):
    return {"reply": reply, "turn": {"stopped": ""}, "mark": "", "notice": "", "failed": False}


def test_a_reminder_in_the_middle_of_an_answer_repeats_nothing_of_it(screen, monkeypatch):
    monkeypatch.setattr(screen, "_running", True)
    screen.show({"text": "It is "})
    screen.remind("Reminder: mist")
    screen.show({"text": "22 °C."})
    screen.show({"end": end("It is 22 °C.")})
    assert screen.printed() == "It is \nReminder: mist\n22 °C.\n"


def test_the_words_of_a_tool_cannot_drive_the_terminal(screen):
    screen.show({"tool": {"name": "exec", "arguments": {}, "result": "\x1b[2J", "ms": 1.0}})
    screen.show({"heard": "\x1b[2Jhello"})
    assert "\x1b" not in screen.printed()


# --- the word, and Ctrl-C behind it


def test_the_word_comes_first_and_ctrl_c_where_it_is_not_heard():
    ending, took = TurnStopper(0.05), time.monotonic()

    def work():
        with ending.turn() as stop:
            ending.end_turn()
            assert stop
            ending.end_turn()
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert 0.05 <= time.monotonic() - took < AT_ONCE


def test_no_ctrl_c_comes_after_the_turn():
    ending = TurnStopper(0.02)
    for _ in range(3):
        with ending.turn() as stop:
            assert not stop
            ending.end_turn()
    ending.end_turn()
    time.sleep(0.1)  # a Ctrl-C would end the test
    with ending.turn() as stop:
        assert not stop
