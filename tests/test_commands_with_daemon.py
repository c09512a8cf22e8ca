"""Every other command while the daemon runs: it talks to it, or works beside it; nothing hangs or is done twice."""

import json
import re
import subprocess
import time

import pytest
from daemon_kit import PUMP, Daemon, events_until, furnished, until
from model_server import ModelServer, call, reply, silence
from person import PICOCLAW as PROGRAM
from person import Person, environment, picoclaw_process
from sandbox_kit import needs_walls

from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    furnished(home, outputs=PUMP)
    with Daemon(home) as daemon:
        daemon.ready()
        assert "pump" in picoclaw_process(home, "chat", "-m", "switch on the pump for 500 seconds").stdout
        picoclaw_process(home, "cron", "add", "tea", "--in", "3600")
        yield daemon


def pump(daemon):
    return next(one for one in daemon.asked("status")["outputs"]["outputs"] if one["name"] == "pump")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("chat -m /usage", 0, "No model was used"),
        ("status", 0, "runs on"),
        ("tools", 0, "sensor_read("),
        ("tool sensor_read", 0, "temperature"),
        ('tool output {{"action":"list"}}', 0, "pump"),
        ("heartbeat", 0, "nothing is asked"),
        ("heartbeat --if-due --json", 0, '"beat": false'),
        ("prompt", 0, "--- system"),
        ("memory search tea", 0, "no note"),
        ("memory index --rebuild", 0, "read again"),
        ("memory dream", 0, ""),
        ("sessions list", 0, "terminal (open)"),
        ("sessions search pump", 0, "pump"),
        ("sessions prune --days 1", 0, "nothing is older"),
        ("skills check", 0, "all good"),
        ("cron", 0, "tea"),
        ("cron update 1 --in 1800", 0, "in 30 min"),
        ("cron disable 1", 0, "is off"),
        ("history", 0, ""),
        ("rules", 0, "no rules"),
        ("rules check", 0, "no mistakes"),
        ("rules log", 0, "no rule"),
        ("outputs", 0, "pump"),
        ("outputs audit --verify", 0, "none changed or missing"),
        ("page status", 0, "the page is off"),
        ("telegram status", 1, "no Telegram bot"),
        ("init --keep", 0, "nothing is new"),
        ("init --no-questions", 0, ""),
        ("run --board sim", 1, "already runs"),
        ("backup {home}/copy.tar", 0, "files"),
    ],
)
def test_every_command_beside_the_daemon(daemon, words, code, said):
    began = time.monotonic()
    done = picoclaw_process(daemon.home, *words.format(home=daemon.home).split(), timeout=20)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
    assert said in done.stdout + done.stderr
    assert time.monotonic() - began < 15
    assert pump(daemon)["left"] > 0, "what the daemon has switched on stays on"
    assert daemon.asked("status")["turn"] == ""


def test_a_stop_from_the_command_line_reaches_what_the_daemon_has_switched_on(daemon):
    assert pump(daemon)["left"]
    stopped = picoclaw_process(daemon.home, "stop")
    assert (stopped.returncode, "safe level" in stopped.stdout) == (0, True)
    assert pump(daemon)["left"] is None
    refused = picoclaw_process(daemon.home, "chat", "-m", "switch on the pump for 5 seconds").stdout
    assert "stopped" in refused
    assert pump(daemon)["left"] is None
    log = [line["text"] for line in daemon.asked("status")["log"]]
    assert not [text for text in log if "error" in text.lower()], log


def test_what_a_turn_could_not_do_is_in_the_log_of_the_daemon(daemon):
    before = len(daemon.asked("status")["log"])
    for text, code in (("how warm is it?", 0), ("cancel reminder 99", 1)):
        assert picoclaw_process(daemon.home, "chat", "-m", text).returncode == code
    added = daemon.asked("status")["log"][before:]
    said = [line["text"] for line in added if line["text"].startswith("terminal: ")]
    assert len(said) == 1
    assert "has no reminder 99" in said[0]


def test_a_reminder_from_the_command_line_is_told_once_in_the_open_chat(daemon):
    with Person(daemon.home, "chat") as person:
        person.sees("> ")
        assert picoclaw_process(daemon.home, "cron", "add", "stir the soup", "--in", "0.5").returncode == 0
        person.sees("stir the soup")
        time.sleep(0.5)
        person.types("/usage\r")
        assert "stir" not in person.sees("/usage") + person.sees("> ")


def test_many_commands_at_once_wait_for_each_other(daemon):
    verbs = ["cron", "sessions", "memory stats", "status", "chat -m /usage", "cron add x --in 4000", "rules", "history"]
    running = [
        subprocess.Popen(
            [*PROGRAM, *words.split()],
            env=environment(daemon.home),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words in verbs
    ]
    said = [(process.communicate(timeout=60)[0], process.returncode) for process in running]
    assert [code for _, code in said] == [0] * len(verbs), said
    assert picoclaw_process(daemon.home, "cron").stdout.count(" x") == 1


# --- sub-agents


def is_subagents(body):
    return "have the spoons" not in str(body["messages"])


def helping(body):
    """A main turn gives work to a sub-agent; the sub-agent takes a moment to report."""
    if is_subagents(body):
        return reply("There are nine spoons.", pause=0.05)
    if body["messages"][-1]["role"] == "tool":
        return reply("Somebody counts them.")
    if "and again" in body["messages"][-1]["content"]:
        return reply("Nothing more.")
    return reply("", call("spawn", {"task": "count the spoons", "name": "spoons"}))


@pytest.fixture(params=[False, True], ids=["alone", "by the daemon"])
def kitchen(request, tmp_path):
    """A home with a model, where a daemon runs or not."""
    with ModelServer(helping) as server:
        if not request.param:
            yield tmp_path, server.url
            return
        with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon:
            daemon.ready()
            yield tmp_path, server.url


def ask(kitchen, *words, **more):
    home, url = kitchen
    return picoclaw_process(home, "chat", *words, PICOCLAW_BASE_URL=url, **more)


def without_mark(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("[simulated board"))


def test_a_question_waits_for_the_subagents_that_it_has_set_to_work(kitchen):
    asked = ask(kitchen, "-m", "have the spoons counted")
    first, second = without_mark(asked.stdout).splitlines()
    assert first == "Somebody counts them."
    assert second.startswith("Sub-agent spoons (1): There are nine spoons.")
    assert (asked.returncode, asked.stderr) == (0, "picoclaw: waiting for 1 sub-agent; Ctrl-C leaves\n")
    assert Outbox(Database(kitchen[0] / "picoclaw/state.db")).waiting() == []


def test_programs_get_the_reports_with_the_answer(kitchen):
    told = json.loads(ask(kitchen, "-m", "have the spoons counted", "--json").stdout)
    assert without_mark(told["reply"]).strip() == "Somebody counts them."
    assert [report.startswith("Sub-agent spoons (1): There are nine") for report in told["subagents"]] == [True]


def test_a_pipe_waits_for_subagents_at_its_end(kitchen):
    piped = ask(kitchen, stdin="have the spoons counted\nand again\n")
    assert piped.stdout.index("Somebody") < piped.stdout.index("Nothing more") < piped.stdout.index("nine spoons")
    assert piped.stdout.count("nine spoons") == 1


def test_ctrl_c_leaves_the_report_to_the_next_chat(tmp_path):
    def slow(body):
        return reply("There are nine spoons.", pause=0.3) if is_subagents(body) else helping(body)

    with ModelServer(slow) as server, Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon:
        daemon.ready()
        with Person(tmp_path, "chat", "-m", "have the spoons counted", PICOCLAW_BASE_URL=server.url) as person:
            person.sees("Ctrl-C leaves")
            person.types("\x03")
            person.sees("report in the next chat")
            assert person.leaves() == 0
        with Person(tmp_path, "chat") as person:
            person.sees("There are nine spoons.")


def test_a_daemon_that_dies_leaves_nobody_waiting_for_its_subagents(tmp_path):
    def never(body):
        return silence() if is_subagents(body) else helping(body)

    with ModelServer(never) as server, Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon:
        daemon.ready()
        with Person(tmp_path, "chat", "-m", "have the spoons counted", PICOCLAW_BASE_URL=server.url) as person:
            person.sees("Ctrl-C leaves")
            daemon.process.kill()
            person.sees("go on when picoclaw runs again")
            assert person.leaves() == 0


# --- several terminals


def test_a_question_beside_a_turn_of_the_same_chat_is_answered_by_itself(tmp_path):
    def script(body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return reply("The long one is done.")
        return reply("Short.") if "short" in last["content"] else reply("", call("exec", {"command": "sleep 1"}))

    with ModelServer(script) as server, Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon:
        daemon.ready()
        with Person(tmp_path, "chat") as person:
            person.sees("> ")
            person.types("do the long one\r")
            until(lambda: daemon.asked("status")["turn"])
            asked = picoclaw_process(tmp_path, "chat", "-m", "a short one", timeout=30)
            assert (without_mark(asked.stdout), asked.returncode) == ("Short.", 0)
            seen = person.sees("The long one is done.")
            assert "Short" not in seen
            person.sees("> ")
            person.types("short\r")
            person.sees("Short.")


def test_who_waits_for_another_chat_is_told_so_and_anyone_can_stop_the_outputs(tmp_path):
    furnished(tmp_path, "", PUMP)

    def script(body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return reply("So be it.")
        return reply("Hello.") if "hello" in last["content"] else reply("", call("exec", {"command": "sleep 3"}))

    with ModelServer(script) as server, Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon:
        daemon.ready()
        with Person(tmp_path, "chat", "--session", "shed") as shed, Person(tmp_path, "chat") as person:
            shed.sees("> ")
            person.sees("> ")
            shed.types("run it\r")
            until(lambda: daemon.asked("status")["turn"] == "shed")
            person.types("hello\r")
            person.sees("shed is answered first")
            person.types("stop\r")
            person.sees("safe level")
            shed.sees("So be it.")
            person.sees("Hello.")


# --- the same look


def screens(home, url, *, beside):
    """What a person sees of the same conversation, without colours, figures and what was typed."""
    with (
        Person(home, "chat", "--board", "sim", PICOCLAW_BASE_URL=url) if not beside else Person(home, "chat") as person
    ):
        seen = person.sees("> ")
        for line in ("how warm is it?", "/help", "/usage"):
            person.types(f"{line}\r")
            seen += person.sees("\n> ")
        person.types("do it slowly\r")
        time.sleep(0.3)
        person.types("and then tea\r")
        seen += person.sees("It is done.") + person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", re.sub(r"\d+(\.\d+)?", "0", seen))


@needs_walls
def test_a_chat_with_the_daemon_looks_like_one_of_its_own(tmp_path):
    def script(body):
        said = [m["content"] for m in body["messages"] if m["role"] == "user"][-1]
        tooled = body["messages"][-1]["role"] == "tool"
        if "warm" in said:
            return reply("It is warm.") if tooled else reply("", call("sensor_read", {"quantity": "temperature"}))
        return reply("It is done.") if tooled or "tea" in said else reply("", call("exec", {"command": "sleep 0.8"}))

    seen = []
    for beside in (False, True):
        home = tmp_path / str(beside)
        home.mkdir()
        with ModelServer(script) as server:
            if not beside:
                seen.append(screens(home, server.url, beside=False))
                continue
            with Daemon(home, PICOCLAW_BASE_URL=server.url) as daemon:
                daemon.ready()
                seen.append(screens(home, server.url, beside=True))
    alone, attached = ([line.strip() for line in text.split("\n") if line.strip()] for text in seen)
    assert "· heard: and then tea" in alone
    assert attached == alone


def test_an_end_of_a_turn_tells_of_subagents_and_of_what_waits_of_this_terminal_alone(daemon):
    one, other = daemon.line(), daemon.line()
    one.say({"do": "chat", "session": "x", "text": "/usage", "id": "a"})
    other.say({"do": "chat", "session": "x", "text": "/usage"})
    end = events_until(one, "end")
    assert {"kept": "a", "behind": ""} in end
    assert (end[-1]["end"]["waiting"], end[-1]["end"]["subagents"]) == (0, False)
    one.say({"do": "chat", "session": "x", "text": "/usage", "id": "a"})
    assert one.next()["kept"] == "a"
    one.say({"do": "status"})
    assert "end" not in one.next(), "what is sent twice is answered once"
    events_until(other, "end")
    one.close()
    other.close()


# --- connections that nobody uses


def test_connections_that_say_nothing_keep_nobody_from_asking_how_it_is(tmp_path):
    furnished(tmp_path)
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        chat = daemon.line()
        chat.say({"do": "attach", "session": "shed"})
        assert "attached" in chat.next()
        silent = [daemon.line() for _ in range(40)]
        found = picoclaw_process(tmp_path, "status")
        assert (found.returncode, "frozen" in found.stdout) == (0, False)
        assert silent[0].next() is None  # the one that has been silent for the longest made room
        chat.say({"do": "status"})
        assert chat.next()["running"]
        for line in [chat, *silent]:
            line.close()


def test_a_chat_too_many_is_refused_in_words_and_status_is_not(tmp_path):
    furnished(tmp_path)
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        chats = [daemon.line() for _ in range(17)]
        told = []
        for one in chats:
            one.say({"do": "attach"})
            told.append(one.next())
        assert [next(iter(words)) for words in told] == ["attached"] * 16 + ["error"]
        assert picoclaw_process(tmp_path, "status").returncode == 0
        refused = picoclaw_process(tmp_path, "chat", "-m", "hello")
        assert refused.returncode == 1
        assert "16 terminals have a chat open" in refused.stderr
        for one in chats:
            one.close()
