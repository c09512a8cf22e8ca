"""`picoclaw cron`, and what an open chat does of it: real commands, real pipes, a real terminal."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from daemon_kit import until
from model_server import ModelServer, reply
from person import Person, environment, picoclaw
from sandbox_kit import gone, needs_walls

from picoclaw.automation import clock
from picoclaw.automation import scheduler as thread_module
from picoclaw.automation.clock import Wakeup, wake_all
from picoclaw.automation.scheduler import SchedulerThread


def cron(home, *words, **more):
    done = picoclaw(home, "cron", *words, **more)
    return done.returncode, (done.stdout + done.stderr).strip()


def allow(tmp_path, config=""):
    """Let commands be planned without a yes, as an owner can who has them planned by a script."""
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(config)
    (home / "policy.toml").write_text('[effects]\nexec_planned = "allow"\n')
    (home / "policy.toml").chmod(0o600)


def test_a_job_from_the_command_line_and_back(tmp_path):
    assert cron(tmp_path) == (0, "no reminders")
    code, said = cron(tmp_path, "add", "stand up", "--cron", "30 7 * * 1-5", "--tz", "Berlin", "--late", "skip")
    assert code == 0
    assert said.startswith("reminder 1 is kept, every weekday at 07:30 (Europe/Berlin): ")
    assert said.count("07:30") == 4
    code, said = cron(tmp_path, "add", "tea", "--in", "600", "--session", "shed")
    assert (code, said) == (1, "picoclaw: there is no chat 'shed'; there are: terminal")
    picoclaw(tmp_path, "chat", "--session", "shed", "-m", "hello")
    code, said = cron(tmp_path, "add", "tea", "--in", "600", "--session", "shde")
    assert "there are: shed, terminal" in said
    assert cron(tmp_path, "add", "tea", "--in", "600", "--session", "shed")[0] == 0
    code, said = cron(tmp_path, "list", "--json")
    first, second = json.loads(said)
    assert (first["catch_up"], len(first["next"]), second["session"]) == ("skip", 3, "shed")
    assert (first["plan"]["kind"], first["plan"]["text"], second["plan"]["kind"]) == ("cron", "30 7 * * 1-5", "at")
    assert "(chat 'shed')" in cron(tmp_path)[1]
    assert cron(tmp_path, "disable", "1") == (0, "reminder 1 is off until it is enabled: stand up")
    assert json.loads(cron(tmp_path, "list", "--json")[1])[0]["next"] == []
    assert cron(tmp_path, "enable", "1")[0] == 0
    following = json.loads(cron(tmp_path, "list", "--json")[1])[0]["next"]
    assert cron(tmp_path, "skip", "1")[1].startswith("reminder 1 leaves out ")
    assert json.loads(cron(tmp_path, "list", "--json")[1])[0]["next"][:2] == following[1:]
    assert cron(tmp_path, "skip", "1", "--at", "soonish")[0] == 1
    assert cron(tmp_path, "update", "2", "coffee", "--at", "tomorrow 9:00")[0] == 0
    assert "coffee" in cron(tmp_path, "get", "2")[1]
    assert cron(tmp_path, "remove", "2") == (0, "reminder 2 is removed: coffee")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["remove", "7"], 1, "there is no reminder or job 7"),
        (["add", "tea"], 1, "the time is missing"),
        (["add", "--in", "5"], 1, "message is missing"),
        (["add", "tea", "--cron", "x"], 1, "'x' is not a cron expression"),
        (["add", "tea", "--in", "soon"], 2, "'soon' is not a length of time; write it like 90s, 10m, 2h or 1d"),
        (["add", "dance {}", "--kind", "tool", "--in", "5"], 1, "there is no tool 'dance'"),
        (["remove"], 2, "NUMBER"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, words, code, said):
    found = cron(tmp_path, *words)
    assert found[0] == code
    assert said in found[1]


@pytest.mark.parametrize(
    ("exec_", "said"),
    [
        ("allow", "waits for the owner's yes"),
        ("ask", "waits for the owner's yes"),
        ("off", "commands are switched off"),
    ],
)
def test_a_command_is_planned_by_who_may(tmp_path, exec_, said):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text(f'[tools]\nexec = "{exec_}"\n')
    code, words = cron(tmp_path, "add", "--command", "ls", "--in", "5")
    assert (code, said in words) == (1, True)


@needs_walls
def test_an_open_chat_heeds_it_at_once(tmp_path):
    allow(tmp_path)
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        cron(tmp_path, "add", "--command", "echo hi there", "--in", "1")
        person.sees("Job 1 (echo hi there): hi there", seconds=10)
        cron(tmp_path, "add", "what reminders do I have?", "--kind", "turn", "--in", "1")
        person.sees("2: now turn: what reminders do I have?", seconds=10)
        cron(tmp_path, "add", "board_status {}", "--kind", "tool", "--in", "1")
        person.sees("Job 3 (board_status {}): ", seconds=10)
        cron(tmp_path, "add", "--command", "expr 0", "--every", "3600")
        cron(tmp_path, "run", "4")
        person.sees("Job 5 (expr 0): failed: 0", seconds=10)
        picoclaw(tmp_path, "chat", "--board", "sim", "--session", "shed", "-m", "hello")
        cron(tmp_path, "add", "look up", "--in", "1", "--session", "shed")
        person.sees("For chat 'shed': Reminder: look up", seconds=10)
        person.types("\x04")
        assert person.leaves() == 0
    assert cron(tmp_path)[1].endswith("\n5: off command: expr 0 [failed: 0\n[exit code 1]]")


@needs_walls
def test_a_command_that_the_chat_left_behind_is_said_to_have_been_cut_off(tmp_path):
    allow(tmp_path)
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        cron(tmp_path, "add", "--command", "sleep 20", "--in", "0.1")
        until(lambda: "now command" in cron(tmp_path)[1])
        person.types("\x04")
        assert person.leaves() == 0
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("Job 1 (sleep 20): cut off: picoclaw ended while it ran; it is not repeated")


@needs_walls
def test_a_chat_that_ends_leaves_no_command_behind_and_says_what_has_not_begun(tmp_path):
    work = tmp_path / "picoclaw/workspace"
    allow(tmp_path, "[tools]\nshell = true\n")
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        cron(tmp_path, "add", "--command", "touch number; sleep 6363; true", "--write", "--in", "0.1")
        until((work / "number").exists)
        cron(tmp_path, "add", "--command", "touch second", "--write", "--in", "0.1")
        until(lambda: "2: now command" in cron(tmp_path)[1])
        person.types("\x04")
        assert person.leaves() == 0
    assert (work / "number").exists()
    assert gone("sleep 6363")
    with Person(tmp_path, "chat", "--board", "sim", columns=200) as person:
        said = person.sees("it is not repeated") + person.sees("it is not repeated")
        assert "Job 1 (touch number; sleep 6363; true): cut off: picoclaw ended while it ran" in said
        assert "Job 2 (touch second): failed: picoclaw stopped before it started" in said
    assert not (work / "second").exists()


# --- the thread


def test_the_thread_wakes_when_the_date_is_set_though_nothing_is_due(tmp_path, monkeypatch):
    watch, set_date = os.pipe()
    os.set_blocking(watch, False)
    monkeypatch.setattr(clock, "open_clock_watch", lambda: watch)
    steps = [threading.Event(), threading.Event()]
    waiting = iter(steps)
    thread = SchedulerThread(tmp_path, lambda _: [lambda *_: next(waiting, steps[0]).set()], print)
    thread.start()
    assert steps[0].wait(5)
    assert not steps[1].wait(0.2)
    os.write(set_date, b"12345678")
    assert steps[1].wait(5)
    thread.stop()
    os.close(set_date)


def test_a_bell_that_was_taken_down_writes_into_nobody_elses_file(tmp_path):
    bell = Wakeup(tmp_path)
    bell.close()
    with (tmp_path / "notes").open("wb") as file:  # it has the number now that the bell had
        bell.ring()
        assert (tmp_path / "notes").read_bytes() == b""
        assert file.fileno() == bell._pipe


def test_a_bell_rings_for_its_own_process_where_the_disk_takes_no_name(tmp_path):
    (tmp_path / "full").touch()
    bell = Wakeup(tmp_path / "full")  # no folder: nothing can be made in it
    threading.Timer(0.05, bell.ring).start()
    began = time.monotonic()
    bell.wait(20)
    assert time.monotonic() - began < 10
    bell.close()
    bell.ring()


def test_a_thread_that_hangs_keeps_its_bell_and_makes_no_noise(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(thread_module, "_JOIN_TIMEOUT_S", 0.05)
    go_on, inside = threading.Event(), threading.Event()

    def step(wall, mono):
        inside.set()
        go_on.wait(5)

    thread = SchedulerThread(tmp_path, lambda _: [step], print)
    thread.start()
    inside.wait(5)
    thread.stop()
    go_on.set()
    thread._thread.join(5)
    assert not thread._thread.is_alive()
    assert capfd.readouterr().err == ""


NOISY = """
import sys, threading
import picoclaw.cli
from picoclaw.__main__ import main

def noise():
    while True:
        print("x", file=sys.stderr)

for _ in range(3):
    threading.Thread(target=noise, daemon=True).start()
picoclaw.cli.run = lambda _: 0
sys.exit(main())
"""


def test_a_thread_that_is_printing_does_not_make_the_end_a_crash(tmp_path):
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", NOISY], env=environment(tmp_path), stderr=subprocess.DEVNULL, timeout=20, check=False
        )
        assert done.returncode == 0


def test_the_thread_sleeps_until_something_is_due_or_the_bell_rings(tmp_path):
    steps, seen = [], threading.Semaphore(0)

    def step(wall, mono):
        steps.append(mono)
        seen.release()
        return 0.05 if len(steps) == 1 else None

    thread = SchedulerThread(tmp_path, lambda _: [step], print)
    thread.start()
    assert seen.acquire(timeout=10)
    assert seen.acquire(timeout=10)
    assert steps[1] - steps[0] > 0.04
    assert not seen.acquire(timeout=0.3), "nothing is due"
    wake_all(tmp_path)
    assert seen.acquire(timeout=10)
    thread.stop()
    assert list(tmp_path.glob("wake-*")) == []


@needs_walls
def test_a_command_that_a_person_agreed_to_runs_where_commands_are_asked_for(tmp_path):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text('[tools]\nexec = "ask"\n')
    with Person(tmp_path, "cron", "add", "--command", "echo agreed", "--in", "3") as person:
        person.sees("job 1 is kept")
        assert person.leaves() == 0
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("Job 1 (echo agreed): agreed", seconds=10)
        assert (
            "exec may need a person's yes"
            in cron(tmp_path, "add", 'exec {"argv": ["touch", "x"], "write": true}', "--kind", "tool", "--in", "1")[1]
        )


@pytest.mark.parametrize(("kind", "knows"), [("turn", True), ("fresh", False)])
def test_a_turn_knows_the_conversation_and_a_fresh_one_does_not(tmp_path, kind, knows):
    with ModelServer([reply("Hello."), reply("All is well.")]) as server:
        given = {"PICOCLAW_BASE_URL": server.url}
        with Person(tmp_path, "chat", "--board", "sim", **given) as person:
            person.sees("> ")
            person.types("my name is Ada\r")
            person.sees("Hello.", seconds=20)
            cron(tmp_path, "add", "look at the tank", "--kind", kind, "--in", "1", **given)
            person.sees("All is well.", seconds=20)
            person.types("\x04")
            assert person.leaves() == 0
    sent = json.dumps(server.requests[1].body["messages"])
    assert "look at the tank" in sent
    assert ("Ada" in sent) == knows


@pytest.mark.parametrize("session", ["telegram:7", "telegrm:7", "page:hme", "page:home"])
def test_a_chat_of_a_channel_that_is_not_there_is_no_chat(tmp_path, session):
    for words in (("cron", "add", "tea", "--in", "60"), ("chat", "-m", "hello"), ("prompt",)):
        done = picoclaw(tmp_path, *words, "--session", session)
        assert (done.returncode, f"there is no chat {session!r}" in done.stderr) == (1, True)
