"""Commands at the desk: what is said, what becomes of the conversation, and that no model is asked."""

import select
import sqlite3
import time
from contextlib import closing
from datetime import timedelta

import pytest
from model_server import ModelServer, call, refusal, reply
from rows import each_row
from validity import check_body

from picoclaw.agent import commands
from picoclaw.app import App
from picoclaw.automation.clock import Wakeup
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import DEFAULT_SESSION, Inbound, Message, ToolCall, TurnHooks
from picoclaw.outputs import config as outputs_config
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.subagent_tasks import Task, TaskUsage
from picoclaw.workspace import prepare_home


class Chat:
    """A chat with a home of its own; `said` and `undone` are what its database holds of the person's words."""

    def __init__(self, home, server=None, **more):
        prepare_home(home)
        (home / "workspace/BOOTSTRAP.md").unlink()  # the first meeting is over
        model = ModelConfig(base_url=server.url, name="qwen", retries=0, **more) if server else ModelConfig()
        self.server = server
        self.app = App(Config(home, model), SimBoard())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.app.close()

    def turn(self, text, session=DEFAULT_SESSION, origin="owner", **around):
        return self.app.dispatcher.answer(Inbound(session, text, origin), TurnHooks(**around))

    def __call__(self, text, session=DEFAULT_SESSION):
        """What a command says, or what was wrong with it."""
        turn = self.turn(text, session)
        assert (turn.provider, turn.steps, bool(turn.stopped)) == ("command", 0, turn.notice.failed)
        return f"error: {turn.notice.text}" if turn.notice.failed else turn.reply

    def shown(self, session=DEFAULT_SESSION):
        """What a model would be shown of what was said."""
        return [m.text.rpartition("</moment>")[2].strip() for t in self.app.stores.history.turns(session) for m in t]


@pytest.fixture
def chat(tmp_path):
    """A chat whose model says `one`, `two` and so on."""
    words = ["one", "two", "three", "four", "five", "six"]
    with ModelServer([reply(word) for word in words]) as server, Chat(tmp_path / "home", server) as chat:
        yield chat


@pytest.fixture
def bare(tmp_path):
    """A chat without a model."""
    with Chat(tmp_path / "home") as chat:
        yield chat


def test_a_defect_of_ours_in_a_command_ends_neither_the_process_nor_the_chat(bare, monkeypatch, capsys):
    with monkeypatch.context() as broken:
        broken.setattr(commands, "parse_chat_command", lambda _: {}["/help"])
        assert "by a defect of its own (KeyError in test_chat_commands.py, line " in bare("/help")
    assert "KeyError, a defect:" in capsys.readouterr().err
    assert "this list" in bare("/help")


UNDERSTOOD = [
    ("/new", ("new", "")),
    ("  /New \n", ("new", "")),
    ("/new@picoclaw_bot", ("new", "")),
    ("/clear@bot  yes ", ("clear", "yes")),
    ("/sessions 12", ("sessions", "12")),
    ("/tasks\ncancel 3", ("tasks", "cancel 3")),
    ("/", ("", "")),
    ("/tmp is full", ("tmp", "is full")),
    ("/dev/ttyUSB0 is gone", None),
    ("/etc", ("etc", "")),
    ("/home/pi/", None),
    ("//", None),
    ("/?", None),
    ("/new.", None),
    ("new", None),
    ("say /new", None),
    ("", None),
]


@each_row(("text", "given"), UNDERSTOOD)
def test_what_is_a_command(text, given):
    assert commands.parse_chat_command(text) == given


@pytest.mark.parametrize("word", commands.COMMANDS)
def test_every_command_is_listed_answers_and_asks_no_model(chat, word):
    listed = chat("/help").splitlines()
    assert any(line.startswith(f"/{word} ") for line in listed)
    chat(f"/{word}")
    assert chat.server.requests == []
    assert chat("/help") == "\n".join(listed)


@pytest.mark.parametrize("word", commands.COMMANDS)
def test_no_command_is_thrown_by_what_follows_it(chat, word):
    chat.turn("hello")
    for more in ("zzz", "\ud800", "9" * 5000, "-1", "cancel -3", "cancel " + "9" * 50, "²", "yes no"):
        chat.turn(f"/{word} {more}")
        assert chat.shown() == ["hello", "one"], more


WRONG = [
    ("/usag", "/usag is no command; did you mean '/usage'?"),
    ("/us", "/us is no command; did you mean '/usage'?"),
    ("/clean", "/clean is no command; did you mean '/clear'?"),
    ("/tmp is full", "/tmp is no command; known: /new, /clear, /undo, /retry, /sessions, /context, /usage, /model,"),
    ("/new now", "Nothing was done: /new takes no arguments."),
    ("/undo 2", "Nothing was done: /undo takes no arguments."),
    ("/undo", "There is nothing to take back: a model is shown no earlier turn."),
    ("/retry", "There is nothing to ask again: a model is shown no earlier turn."),
    ("/clear no", "Nothing was deleted. /clear shows what it would delete, /clear yes does it."),
    ("/sessions 7", "7 is no conversation of this chat; it has none yet."),
    ("/sessions -1", "-1 is no conversation of this chat; it has none yet."),
    ("/model two words", "'two words' is no name of a model: that is one word."),
    (f"/model {'m' * 201}", f"'{'m' * 39}…' is no name of a model: that is one word."),
    ("/tasks 3", "'3' is not understood; /tasks cancel NUMBER cancels one."),
    ("/tasks cancel 3", "There is no open task 3 in this chat: none is open."),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_cannot_be_done_is_said(chat, text, said):
    assert chat(text).startswith(f"error: {said}")
    assert not chat.app.stores.sessions.listed()
    assert chat.server.requests == []


RIGHT = [
    ("/new", "This conversation has no messages yet."),
    ("/clear", "There is nothing to delete: this conversation has no messages yet."),
    ("/clear yes", "There is nothing to delete: this conversation has no messages yet."),
    ("/sessions", "This chat has no messages yet."),
    ("/usage", "No model was used yet."),
    ("/model", "qwen."),
    ("/model default", "This conversation goes on with qwen."),
    ("/tasks", "No sub-agent has had a task in this chat."),
    ("/stop", "Nothing is running. STOP, without the slash, brings the outputs to safety."),
    ("/Help", "/new "),
]


@pytest.mark.parametrize(("text", "said"), RIGHT)
def test_before_anything_was_said(chat, text, said):
    assert chat(text).startswith(said)
    assert not chat.app.stores.sessions.listed()


@pytest.mark.parametrize("origin", ["cron", "heartbeat", "subagent"])
def test_only_a_person_gives_commands(chat, origin):
    chat.turn("hello")
    turn = chat.turn("/clear yes", origin=origin)
    assert (turn.reply, turn.provider) == ("two", "openai:qwen")
    assert chat.server.requests[-1].said.endswith("/clear yes")


@pytest.mark.parametrize("text", ["/dev/sda1 is full, why?", "//", "what does /new do?"])
def test_a_path_is_no_command(chat, text):
    assert chat.turn(text).reply == "one"
    assert chat.shown() == [text, "one"]


def test_a_command_is_no_part_of_the_conversation(chat):
    chat.turn("hello")
    before = chat("/context")
    chat("/help")
    chat("/usage")
    assert chat("/context") == before
    assert chat.shown() == ["hello", "one"]


# --- new, clear, sessions


def test_new_keeps_the_old_one_and_sessions_goes_back_to_it(chat):
    chat.turn("how tall are ferns?")
    assert chat("/new") == "A new conversation begins. The one before is kept: /sessions 1 goes on with it."
    chat.turn("how old is the moon?")
    assert chat.shown() == ["how old is the moon?", "two"]
    first, second, hint = chat("/sessions").splitlines()
    assert first.startswith("2* 2")
    assert first.endswith(", 1 turn: how old is the moon?")
    assert second.startswith("1  2")
    assert second.endswith(", 1 turn: how tall are ferns?")
    assert "/sessions NUMBER" in hint
    assert chat("/sessions 1").startswith("Conversation 1 goes on. 2")
    assert chat.turn("and mosses?").reply == "three"
    assert chat.shown() == ["how tall are ferns?", "one", "and mosses?", "three"]


def test_a_chat_sees_its_own_conversations_alone(chat):
    chat.turn("a secret", session="telegram:1")
    assert chat("/sessions") == "This chat has no messages yet."
    assert chat("/sessions 1") == "error: 1 is no conversation of this chat; it has none yet."
    chat.turn("hello")
    assert chat("/clear yes") == "Deleted for good: 2 messages. Notes, memory and reminders stay."
    assert chat.shown("telegram:1") == ["a secret", "one"]


def test_clear_asks_and_then_deletes_for_good(chat, tmp_path):
    chat.turn("the code is xyzzy")
    chat.turn("hello")
    chat("/undo")
    asked = chat("/clear")
    assert asked.startswith("This would delete conversation 1 for good, 4 messages; 2")
    assert "the code is xyzzy" in asked
    assert chat.shown() == ["the code is xyzzy", "one"]
    assert chat("/clear yes") == "Deleted for good: 4 messages. Notes, memory and reminders stay."
    assert chat.shown() == []
    chat.app.close()
    assert not [path for path in (tmp_path / "home").glob("state.db*") if b"xyzzy" in path.read_bytes()]


def test_clear_takes_what_subagents_were_told(chat, tmp_path):
    def task(name, text):
        return Task(0, DEFAULT_SESSION, name, text, TaskUsage(20, 600.0, 1000))

    subagents, stores = chat.app.subagent_tasks, chat.app.stores
    chat.turn("hello")
    subagents.add([task("ferns", "the code is xyzzy"), task("moss", "count the moss")], 1.0)
    subagents.add([task("fungi", "count the fungi")], 1.0)
    ferns, moss = subagents.claim(1.0), subagents.claim(1.0)
    subagents.progress(ferns, [Message("user", "xyzzy again")], TaskUsage())
    assert subagents.finish(ferns, "done", "xyzzy it is", 2.0)
    assert subagents.finish(moss, "done", "much", 2.0)
    stores.history.begin_act(DEFAULT_SESSION, ToolCall("c", "exec", {"command": "xyzzy"}), chat.app.now())
    assert chat("/clear").startswith("This would delete conversation 1 for good, 2 messages; 2")  # not told yet
    for letter in Outbox(stores.database).waiting():
        Outbox(stores.database).strike(letter)
    assert chat("/clear").startswith("This would delete conversation 1 for good, 2 messages, 2 tasks of sub-agents; 2")
    assert chat("/clear yes").splitlines() == [
        "Deleted for good: 2 messages, 2 tasks of sub-agents. Notes, memory and reminders stay.",
        "Sub-agents still have fungi (3); /tasks shows it.",
    ]
    assert chat("/tasks").startswith("fungi (3): waiting")
    assert "\n" not in chat("/tasks")
    assert chat("/clear yes").startswith("There is nothing to delete")
    chat.app.close()
    assert not [path for path in (tmp_path / "home").glob("state.db*") if b"xyzzy" in path.read_bytes()]


def test_clear_names_a_call_that_was_cut_off(chat):
    chat.turn("hello")
    chat.app.stores.history.begin_act(DEFAULT_SESSION, ToolCall("c", "exec", {"command": "x"}), chat.app.now())
    with chat.app.stores.database.transaction() as connection:
        connection.execute("UPDATE acts SET process = '1:0:0'")
    assert chat("/clear yes").endswith("\nA call was cut off, its outcome is unknown: exec.")
    assert chat.app.stores.history.unknown_acts(DEFAULT_SESSION) == []


# --- undo, retry


def test_undo_takes_back_turn_by_turn(chat):
    for word in ("first", "second"):
        chat.turn(word)
    assert chat("/undo") == "Taken back: second"
    assert chat.shown() == ["first", "one"]
    chat.turn("third")
    assert "second" not in str(chat.server.requests[-1].body["messages"])
    assert [chat("/undo"), chat("/undo")] == ["Taken back: third", "Taken back: first"]
    assert chat("/undo").startswith("error: There is nothing to take back")


def test_retry_asks_the_same_again(chat):
    chat.turn("hello")
    chat.turn("tell me\na number")
    turn = chat.turn("/retry")
    assert (turn.reply, turn.provider, turn.notice.text) == ("three", "openai:qwen", "")
    assert chat.shown() == ["hello", "one", "tell me\na number", "three"]
    bodies = [request.body["messages"] for request in chat.server.requests[-2:]]
    assert len(bodies[0]) == len(bodies[1])


def test_while_it_is_asked_again_nothing_is_taken_back_yet(tmp_path):
    """Whatever ends the process then, the question is still there."""
    state = tmp_path / "home/state.db"
    undone = []

    def answer(_):
        with closing(sqlite3.connect(state)) as connection:
            undone.append(connection.execute("SELECT count(*) FROM turns WHERE undone").fetchone()[0])
        return reply("a fern")

    with ModelServer(answer) as server, Chat(tmp_path / "home", server) as chat:
        chat.turn("what is green?")
        assert chat.turn("/retry").reply == "a fern"
        assert undone == [0, 0]
        assert str(server.requests[-1].body["messages"]).count("what is green?") == 1
        assert "a fern" not in str(server.requests[-1].body["messages"])
        assert chat.shown() == ["what is green?", "a fern"]


def test_what_cannot_be_read_stops_no_chat(tmp_path):
    script = [reply("", call("sensor_read")), reply("22 °C."), *(reply(word) for word in ("one", "two", "three"))]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        chat.turn("look around")
        with chat.app.stores.database.transaction() as connection:
            connection.execute("""UPDATE messages SET calls = '[["a"]]' WHERE calls != '[]'""")
        turn = chat.turn("hello")
        assert (turn.reply, "turn 1 of this chat cannot be read whole" in turn.notice.text) == ("one", True)
        check_body(server.requests[-1].body)
        assert chat.turn("and on").notice.text == ""
        assert chat("/context")
        assert chat.turn("/retry").reply == "three"
        assert chat("/undo") == "Taken back: and on"
        assert chat("/undo") == "Taken back: hello"
        assert chat("/undo") == "Taken back: look around"
        assert chat("/undo").startswith("error: There is nothing to take back")


def test_what_another_process_says_just_then_is_not_taken_back_unsaid(chat, monkeypatch):
    history = chat.app.stores.history
    look = type(history).numbered

    def looked_and_beaten(self, session):
        found = look(self, session)
        monkeypatch.undo()
        chat.turn("of another process")
        return found

    monkeypatch.setattr(type(history), "numbered", looked_and_beaten)
    said = chat("/undo")
    with chat.app.stores.database.reading() as connection:
        undone = connection.execute("SELECT count(*) FROM turns WHERE undone").get
    assert bool(undone) == said.startswith("Taken back")


def test_a_turn_of_nobody_is_taken_back_too(chat):
    chat.turn("hello")
    with chat.app.stores.database.transaction() as connection:
        connection.execute("UPDATE messages SET role = 'narrator'")
    assert chat("/retry").startswith("error: There is nothing to ask again")
    assert chat("/undo") == "Taken back: what cannot be read"
    assert chat("/undo").startswith("error: There is nothing to take back")


def test_what_a_turn_has_done_is_said_when_it_is_taken_back(tmp_path):
    wrote = call("write_file", {"path": "a.txt", "content": "x"})
    script = [reply("", call("sensor_read"), wrote), reply("Done."), reply("Again.")]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        chat.turn("write it")
        turn = chat.turn("/retry")
        assert (turn.reply, turn.notice.text) == ("Again.", "What was done stays done: write_file.")
        assert chat("/undo") == "Taken back: write it"


@pytest.mark.parametrize("command", ["/undo", "/retry"])
def test_what_was_said_while_a_turn_ran_belongs_to_it(tmp_path, command):
    script = [reply("", call("sensor_read")), reply("It is cool there."), reply("Still cool.")]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        typed = ["in the cellar,", "please"]
        chat.turn("how warm is it?", typed=lambda: [typed.pop(0)] if typed else [])
        turn = chat.turn(command)
        if command == "/retry":
            assert chat.shown() == ["how warm is it?\nin the cellar,\nplease", turn.reply]
        else:
            assert turn.reply == "Taken back: how warm is it? in the cellar, please"
            assert chat.shown() == []


def test_a_word_of_ours_is_not_asked_again(tmp_path):
    """A model that does not measure is told to, in a message that is not the person's."""
    script = [reply("It is 21.5 °C."), reply("", call("sensor_read")), reply("22 °C."), reply("Fine.")]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        chat.turn("how warm is it?")
        assert chat.shown().count("how warm is it?\nCall the tool.") == 1
        assert chat("/undo").startswith("Taken back: how warm is it?")
        chat.turn("how warm is it?")
        assert chat("/undo") == "Taken back: how warm is it?"


def test_a_retry_that_fails_loses_no_words(tmp_path):
    script = [reply("one"), refusal(400, "no"), reply("two")]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        chat.turn("tell me a number")
        assert chat.turn("/retry").notice.failed
        assert chat.shown()[0] == "tell me a number"
        assert chat.turn("/retry").reply == "two"


def test_what_is_summed_up_is_not_taken_back(chat):
    for word in ("first", "second"):
        chat.turn(word)
    [(number, _), _] = chat.app.stores.sessions.unsummarised(DEFAULT_SESSION)
    assert chat.app.stores.sessions.add_summary(DEFAULT_SESSION, "They greeted.", number, chat.app.now(), 0)
    assert chat("/undo") == "Taken back: second"
    assert chat("/undo").startswith("error: There is nothing to take back")


# --- context, usage, model


def rows_of(text):
    head, *rows = text.splitlines()
    return head, {what: int(tokens.replace(",", "")) for tokens, what in (row.split(maxsplit=1) for row in rows)}


def test_context_adds_up(chat):
    chat.turn("hello " * 400)
    head, rows = rows_of(chat("/context"))
    assert head.endswith(" bytes a token; qwen:")
    assert sum(rows.values()) == 32_768
    assert rows["room for the answer"] == 1024
    assert rows["2 messages of this conversation"] > 500
    system = next(what for what in rows if what.startswith("system text: "))
    parts = dict(reversed(part.split()) for part in system.removeprefix("system text: ").split(", "))
    assert {"safety", "tooling", "SOUL.md"} <= set(parts)
    assert abs(sum(map(int, parts.values())) - rows[system]) <= len(parts)


def test_context_agrees_with_what_is_sent(chat):
    chat.turn("hello")
    _, rows = rows_of(chat("/context"))
    said = sum(count for what, count in rows.items() if not what.startswith(("free", "room", "kept free")))
    chat.turn("x")
    sent = len(str(chat.server.requests[-1].body["messages"])) + len(str(chat.server.requests[-1].body["tools"]))
    ratio = chat.app.stores.bytes_a_token("qwen")
    assert said == pytest.approx(sent / ratio, rel=0.15)


def test_context_shows_the_summary_and_what_has_no_room(tmp_path):
    with (
        ModelServer(lambda _: reply("ok " * 300)) as server,
        Chat(tmp_path / "home", server, context_tokens=5000) as chat,
    ):
        for number in range(12):
            chat.turn(f"{number} " + "word " * 100)
        numbered = chat.app.stores.sessions.unsummarised(DEFAULT_SESSION)
        chat.app.stores.sessions.add_summary(DEFAULT_SESSION, "Much was said. " * 20, numbered[0][0], chat.app.now(), 0)
        head, rows = rows_of(chat("/context"))
        assert rows["summary of what was said before"] > 50
        assert "of 5,000 tokens" in head
        assert sum(rows.values()) <= 5000


def test_context_changes_nothing_and_needs_no_model(bare):
    bare.turn("how warm is it?")
    with closing(sqlite3.connect(bare.app.config.home / "state.db")) as connection:
        before = list(connection.iterdump())
        assert "no model, so nothing is sent" in bare("/context")
        assert list(connection.iterdump()) == before


def test_usage_by_model_and_chat(chat):
    chat.turn("hello")
    chat.turn("hello", session="telegram:1")
    chat.app.subagent_tasks.add(
        [Task(0, DEFAULT_SESSION, "x", "y", TaskUsage(1, 1, 1), used=TaskUsage(1, 1.0, 4321))], time.time()
    )
    assert chat("/usage").splitlines() == [
        "Tokens in + out:",
        "this chat: today 7 + 3, 30 days 7 + 3, ever 7 + 3",
        "openai:qwen, all chats: today 14 + 6, 30 days 14 + 6, ever 14 + 6",
        "sub-agents of this chat, recently: 4,321",
        "today 20 tokens: chat 20",
    ]


def test_another_model_for_a_conversation(chat):
    assert chat("/model llama") == "This conversation goes on with llama. /model default goes back to qwen."
    assert chat("/model") == "llama for this conversation; /model default goes back to qwen."
    chat.turn("hello")
    chat.turn("hello", session="telegram:1")
    assert [request.body["model"] for request in chat.server.requests] == ["llama", "qwen"]
    assert "; llama:" in chat("/context")
    assert chat("/new").startswith("A new conversation begins, with qwen again.")
    chat.turn("hello")
    chat("/sessions 1")
    chat.turn("hello")
    assert chat("/model default") == "This conversation goes on with qwen."
    chat.turn("hello")
    assert [request.body["model"] for request in chat.server.requests[2:]] == ["qwen", "llama", "qwen"]
    assert chat("/model qwen") == "This conversation goes on with qwen."


def test_a_model_that_the_server_does_not_have_is_said_and_the_usual_one_answers(tmp_path):
    script = [refusal(404, "no such model"), reply("I am here.")]
    with ModelServer(script) as server, Chat(tmp_path / "home", server) as chat:
        chat("/model lama")
        turn = chat.turn("hello")
        assert turn.reply == "I am here."
        assert "the model 'lama' did not answer" in turn.notice.text


def test_there_is_no_model_to_choose(bare):
    assert bare("/model llama").startswith("error: No model is configured")
    assert not bare.app.stores.history.model(DEFAULT_SESSION)


# --- tasks


def test_tasks_of_this_chat_are_listed_and_cancelled(chat):
    def task(session, name):
        return Task(0, session, name, "count the ferns", TaskUsage(20, 600.0, 1000))

    asked = (chat.app.now() - timedelta(minutes=5)).timestamp()
    chat.app.subagent_tasks.add([task(DEFAULT_SESSION, "ferns"), task("telegram:1", "moss")], asked)
    assert chat("/tasks") == "ferns (1): waiting, asked 5 min ago: count the ferns"
    assert chat("/tasks cancel 2") == "error: There is no open task 2 in this chat: open: 1."
    assert chat("/tasks Cancel 1") == "Cancelled: ferns (1)."
    assert "cancelled" in chat("/tasks")
    assert [task.number for task in chat.app.subagent_tasks.unfinished()] == [2]


# --- when the disk fails


@pytest.mark.parametrize("word", ["new", "clear", "undo", "retry", "sessions", "usage", "tasks"])
def test_a_damaged_database_is_said(tmp_path, word):
    home = tmp_path / "home"
    prepare_home(home)
    (home / "state.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with Chat(home) as chat:
        assert f"error: /{word} was not done: " in chat(f"/{word}")
        assert chat("/help")


OUTPUTS = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600
confirm = false

[outputs.valve]
line = "GPIO22"
kind = "valve"
longest_on_s = 600
"""
RULES = """# mine
[rules.hot]
when = "greenhouse.temperature > 35"  # or so
notify = "hot"
# the next one
[rules.water]
enabled = false # for now
when = "every day at 6:00"
output = "pump"
"""


@pytest.fixture
def board(tmp_path):
    """A chat on a board with outputs, one of them armed without a yes, and rules."""
    home = tmp_path / "home"
    prepare_home(home)
    (home / "outputs.toml").write_text(OUTPUTS)
    (home / "rules.toml").write_text(RULES)
    found = outputs_config.load_outputs(home / "outputs.toml").outputs
    outputs_config.save_armed(home, {name: one.digest for name, one in found.items()})
    with Chat(home) as chat:
        yield chat


def test_an_output_is_switched_past_the_same_guard_as_by_a_model(board):
    assert board("/set pump on 30s").startswith("pump is on")
    assert 25 < board.app.wiring.outputs.list()["outputs"][0]["left"] <= 30
    assert "pump" in board("/set pump off")
    assert board("/set valve on for 1m") == "It waits for your approval: /yes 1 does it, /no 1 leaves it."
    assert board.app.wiring.outputs.list()["outputs"][1]["left"] is None
    assert "valve is on" in board("/yes 1")
    for text, said in (
        ("/set", "/set takes an output"),
        ("/set pump", "/set takes an output"),
        ("/set pump on soon", "'soon' is not a length of time"),
        ("/set fan on", "fan"),
        ("/set pump on 2h", "600"),
    ):
        assert said in board(text).removeprefix("error: Nothing was done: "), text
    assert board("/set pump on 30s").startswith("pump is on")
    assert "until you type /resume" in board.turn("STOP").reply
    assert "/resume" in board("/set pump on 30s")
    assert board("/resume") == "resumed: outputs may be switched on again"
    assert board("/set pump on 30s").startswith("pump is on")
    board("/set pump off")


def test_without_outputs_that_is_said(bare):
    for text in ("/set pump on", "/resume"):
        assert bare(text) == "error: Nothing was done: no output is declared in outputs.toml."


def test_reminders_of_any_chat_are_paused_resumed_and_removed(board):
    board.turn("remind me in 40 minutes to water the tomatoes", "telegram:7")
    assert "off" in board("/job pause 1")
    assert not board.app.stores.jobs.all()[0].enabled
    board("/job resume 1")
    assert board.app.stores.jobs.all()[0].enabled
    assert "removed" in board("/job remove 1")
    assert not board.app.stores.jobs.all()
    assert board("/job remove 1") == "error: Nothing was done: there is no reminder or job 1."
    assert board("/job stop 1").startswith("error: Nothing was done: /job takes pause")


def test_a_rule_is_paused_resumed_and_removed_and_the_rest_of_the_file_stays(board):
    path = board.app.config.home / "rules.toml"
    paused = RULES.replace("[rules.hot]\n", "[rules.hot]\nenabled = false\n")
    for text, said, left in (
        ("/rule pause hot", "Rule hot is paused; /rule resume hot goes on with it.", paused),
        ("/rule pause hot", "Rule hot is paused; /rule resume hot goes on with it.", paused),
        ("/rule resume hot", "Rule hot is followed again.", RULES),
        ("/rule resume water", "Rule water is followed again.", RULES.replace("enabled = false # for now\n", "")),
        ("/rule remove nothing", f"error: Nothing was done: {path} has no rule 'nothing'; there are: hot, water", None),
        ("/rule pause nothing", f"error: Nothing was done: {path} has no rule 'nothing'; there are: hot, water", None),
        ("/rule water", "error: Nothing was done: /rule takes pause, resume or remove, and a name.", None),
    ):
        with closing(Wakeup(board.app.config.home)) as scheduler:
            assert board(text) == said
            assert bool(select.select([scheduler], [], [], 0)[0]) == said.startswith("Rule "), "it is followed at once"
        assert left is None or path.read_text() == left
    assert board("/rule remove hot") == "Rule hot is removed."
    assert "[rules.hot]" not in path.read_text()
    path.write_text('rules.hot = {when = "every day at 6:00", notify = "x"}\n')
    assert "write enabled = false there by hand" in board("/rule pause hot")
