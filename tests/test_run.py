"""`picoclaw run`: a real daemon, real terminals, real signals."""

import json
import os
import resource
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from daemon_kit import Daemon, events_until
from model_server import ModelServer, call, chunk, reply, silence
from person import PICOCLAW, Person, environment, picoclaw, picoclaw_process
from rows import each_row
from sandbox_kit import needs_walls

from picoclaw.channels import ipc
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, InboxMessage, Outbox


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon.ready()


def test_questions_of_every_kind_go_to_the_daemon(shared):
    asked = picoclaw_process(shared.home, "chat", "-m", "how warm is it?")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "temperature" in asked.stdout
    assert "[simulated board" in asked.stdout
    told = json.loads(picoclaw_process(shared.home, "chat", "-m", "how warm is it?", "--json").stdout)
    assert told["provider"] == "intents"
    assert told["simulated"]
    assert [tool["name"] for tool in told["turn"]["tools"]] == ["sensor_read"]
    piped = picoclaw_process(shared.home, "chat", stdin="how warm is it?\n/usage\n")
    assert piped.stdout.count("temperature") >= 1
    assert piped.returncode == 0
    history = Database(shared.folder / "state.db")
    assert history.connection.execute("SELECT count(*) FROM turns WHERE inbox > 0").get >= 3
    history.close()


def test_whoever_knocks_while_no_file_can_be_opened_is_let_in_as_soon_as_one_can(shared):
    pid = shared.process.pid
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocks:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        try:
            knocks.connect(str(shared.folder / ipc.SOCKET_NAME))
            time.sleep(0.2)
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    assert shared.asked("status")["running"]


def test_a_named_board_is_talked_to_without_the_daemon(shared):
    before = shared.asked("status")["channels"]["socket"]["last_contact"]
    assert "temperature" in picoclaw_process(shared.home, "chat", "--board", "sim", "-m", "how warm is it?").stdout
    connection = shared.line()
    connection.say({"do": "status"})
    assert connection.next()["channels"]["socket"]["last_contact"] > before
    connection.close()


def test_status_is_true_and_quick(shared):
    status = json.loads(picoclaw_process(shared.home, "status", "--json").stdout)
    assert status["running"]
    assert status["pid"] == shared.process.pid
    assert not status["safe_mode"]
    assert 5 < status["memory_mb"] < status["memory_limit_mb"]
    assert status["channels"]["socket"]["up"]
    worded = picoclaw_process(shared.home, "status")
    assert worded.returncode == (0 if status["ok"] else 1)
    assert f"(process {shared.process.pid})" in worded.stdout
    began = time.monotonic()
    assert shared.asked("status")["running"]
    assert time.monotonic() - began < 0.5


def test_a_second_daemon_is_refused(shared):
    second = picoclaw_process(shared.home, "run", "--board", "sim")
    assert second.returncode == 1
    assert f"already runs for {shared.folder} (process {shared.process.pid})" in second.stderr
    assert shared.asked("status")["running"]


def test_a_reminder_is_told_in_the_chat_that_is_open(shared):
    with Person(shared.home, "chat") as person:
        person.sees("> ")
        person.types("remind me in 1 second to stir\r")
        person.sees("comes at")
        person.sees("stir")
        person.types("/help\r")
        person.sees("/quit")
        person.types("/quit\r")
        assert person.leaves() == 0


def test_a_letter_waits_until_a_terminal_is_there(shared):
    database = Database(shared.folder / "state.db")
    Outbox(database).put("shed", "the tank is full", time.time())
    assert [letter.text for letter in Outbox(database).waiting()] == ["the tank is full"]
    with Person(shared.home, "chat") as person:
        person.sees("For chat 'shed': the tank is full")
        until = time.monotonic() + 5
        while Outbox(database).waiting():
            assert time.monotonic() < until
            time.sleep(0.02)
    database.close()


def raw(daemon):
    """A connection that speaks bytes."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(daemon.folder, os.O_RDONLY)
    connection.connect(f"/proc/self/fd/{folder}/{ipc.SOCKET_NAME}")
    os.close(folder)
    connection.settimeout(5)
    return connection


@each_row(
    "said",
    [
        b"nonsense\n",
        b'{"do": 7}\n',
        b'{"do": ["chat"]}\n',
        b'{"do": "launch"}\n',
        b"[" * 5000 + b"\n",
        b'"\xff\xfe"\n',
    ],
)
def test_what_is_not_understood_is_said_so(shared, said):
    with raw(shared) as connection:
        connection.sendall(said)
        assert b"is not understood" in connection.recv(4096)
    assert shared.asked("status")["running"]


def hung_up(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_line_without_an_end_is_hung_up_on(shared):
    with raw(shared) as connection:
        with suppress(ConnectionError):
            connection.sendall(b"x" * (ipc.MAX_LINE_BYTES + 200_000))
        assert hung_up(connection)
    assert shared.asked("status")["running"]


def test_too_many_terminals_are_turned_away_and_the_rest_served(shared):
    lines = [shared.line() for _ in range(40)]
    assert shared.asked("status")["running"]  # so that all of them have been let in
    refused = 0
    for one in lines:
        try:
            one.say({"do": "status"})
            refused += one.next() is None
        except OSError:
            refused += 1
    assert refused >= 8
    for one in lines:
        one.close()
    assert shared.asked("status")["running"]


# --- with a model


@needs_walls
def test_an_answer_is_streamed_steered_and_stopped(tmp_path):
    slow = call("exec", {"argv": ["python3", "-c", "open('began', 'w'); import time; time.sleep(30)"], "write": True})
    with (
        ModelServer([reply("", slow), reply("Heard you.")]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        with Person(tmp_path, "chat") as person:
            person.sees("> ")
            person.types("wait for it\r")
            until = time.monotonic() + 10
            while not (daemon.folder / "workspace/began").exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            assert daemon.asked("status")["turn"] == "terminal"
            began = time.monotonic()
            person.types("/stop\r")
            person.sees("[stopped by the user]")
            assert time.monotonic() - began < 2
            person.types("are you there\r")
            person.sees("Heard you.")


def test_ctrl_c_of_a_question_ends_its_turn(tmp_path):
    with (
        ModelServer([silence(chunk(content="word "))]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        asked = subprocess.Popen(
            [*PICOCLAW, "chat", "-m", "hello"],
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until = time.monotonic() + 10
        while not server.requests:
            assert time.monotonic() < until
            time.sleep(0.02)
        asked.send_signal(signal.SIGINT)
        out, err = asked.communicate(timeout=10)
        assert (asked.returncode, b"interrupted" in err) == (1, True), (out, err)
        assert daemon.asked("status")["turn"] == ""


@needs_walls
def test_a_person_is_asked_at_the_terminal(tmp_path):
    (tmp_path / "picoclaw").mkdir()
    (tmp_path / "picoclaw/config.toml").write_text('[tools]\nexec = "ask"\n')
    wants = call("exec", {"argv": ["python3", "-c", "print('done', file=open('file', 'w'))"], "write": True})
    with (
        ModelServer([reply("", wants), reply("It waits."), reply("It is written.")]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        with Person(tmp_path, "chat") as person:
            person.sees("> ")
            person.types("write it\r")
            person.sees("[y/N] ")
            person.types("y\r")
            person.sees("It is written.")
        assert (daemon.folder / "workspace/file").read_text() == "done\n"


def test_the_answer_to_a_terminal_that_went_away_waits_as_a_letter(tmp_path):
    with (
        ModelServer([reply("word " * 20, pause=0.03)]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        connection = daemon.line()
        connection.say({"do": "chat", "session": "terminal", "text": "tell me"})
        events_until(connection, "text")
        connection.close()
        with Person(tmp_path, "chat") as person:
            person.sees("word word")


# --- its end


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "quit"])
def test_it_ends_cleanly_in_the_middle_of_a_turn(tmp_path, how):
    with (
        ModelServer([silence(chunk(content="half an answer"))]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        connection = daemon.line()
        connection.say({"do": "chat", "session": "terminal", "text": "hello"})
        events_until(connection, "text")
        began = time.monotonic()
        if how == "quit":
            assert daemon.asked("quit")["ok"]
        else:
            daemon.process.send_signal(how)
        end = events_until(connection, "end")[-1]["end"]
        connection.close()
        assert end["turn"]["stopped"] == "stopped"
        assert daemon.ends() == 0
        assert time.monotonic() - began < 4
        assert not (daemon.folder / ipc.SOCKET_NAME).exists()
        assert not (daemon.folder / "run.begun").exists()
    database = Database(tmp_path / "picoclaw/state.db")
    assert database.connection.execute("SELECT stopped, inbox FROM turns").fetchall() == [("stopped", 1)]
    assert Inbox(database).waiting() == []
    database.close()


def test_a_kill_loses_nothing_and_repeats_nothing(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        daemon.process.kill()
        daemon.ends()
    database = Database(tmp_path / "picoclaw/state.db")
    inbox = Inbox(database)
    assert inbox.put(InboxMessage("terminal", "how warm is it?", external="5"))
    assert inbox.put(InboxMessage("terminal", "how warm is it?", external="5")) is None
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        until = time.monotonic() + 10
        while not Outbox(database).waiting():
            assert time.monotonic() < until
            time.sleep(0.05)
    (letter,) = Outbox(database).waiting()
    assert "temperature" in letter.text
    database.close()


def test_after_five_crashes_there_is_chat_and_status_only(tmp_path):
    folder = tmp_path / "picoclaw"
    folder.mkdir()
    (folder / "run.begun").write_text("".join(f"{time.time() - n:.0f}\n" for n in range(5)))
    with Daemon(tmp_path) as daemon:
        assert "safe mode" in daemon.says("channels: ")
        status = picoclaw_process(tmp_path, "status")
        assert "NOT OK: safe mode" in status.stdout
        assert status.returncode == 1
        assert "temperature" in picoclaw_process(tmp_path, "chat", "-m", "how warm is it?").stdout
        assert not list(folder.glob("wake-*[0-9]")), "no clockwork"
        daemon.process.terminate()
        assert daemon.ends() == 0
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        assert not daemon.asked("status")["safe_mode"]


def test_it_begins_afresh_in_the_same_process(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        before = daemon.asked("status")
        assert daemon.asked("restart")["ok"]
        daemon.ready()
        after = daemon.asked("status")
        assert after["pid"] == before["pid"]
        assert after["since"] > before["since"]
        daemon.process.terminate()
        assert daemon.ends() == 0


def test_who_begins_afresh_does_not_tell_the_manager_that_it_stops(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10)
        with Daemon(tmp_path, NOTIFY_SOCKET=str(path)) as daemon:
            assert manager.recv(1000) == b"READY=1\nSTATUS=ready"
            assert daemon.asked("restart")["ok"]
            assert manager.recv(1000) == b"READY=1\nSTATUS=ready"
            daemon.process.terminate()
            assert manager.recv(1000) == b"STOPPING=1"
            assert daemon.ends() == 0


def test_who_is_to_begin_afresh_and_is_told_to_end_ends(tmp_path):
    with (
        ModelServer([silence(chunk(content="word "))]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as daemon,
    ):
        daemon.ready()
        chat = daemon.line()
        with chat.connection:
            chat.say({"do": "chat", "session": "main", "text": "think"})
            assert "begin" in chat.next()
            assert daemon.asked("restart")["ok"]
            daemon.process.terminate()
            assert daemon.ends() == 0
        assert "ready" not in daemon.process.stdout.read()


def test_status_tells_a_silent_daemon_from_none(tmp_path, monkeypatch):
    monkeypatch.setattr("picoclaw.cli.status._STATUS_TIMEOUT_S", 0.2)
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        daemon.process.send_signal(signal.SIGSTOP)
        told = picoclaw(tmp_path, "status")
        daemon.process.send_signal(signal.SIGCONT)
        assert told.returncode == 1
        assert f"(process {daemon.process.pid})" in told.stdout
        assert "runs and does not answer" in told.stdout
        assert "does not run" not in told.stdout


def test_a_chat_whose_name_is_no_text_ends_nothing(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        made = daemon.line()
        with made.connection:
            made.connection.sendall(b'{"do": "chat", "session": "\\ud800", "text": "how warm is it \\ud800"}\n')
            assert events_until(made, "end")[-1]["end"]["reply"]
        assert daemon.asked("status")["running"]


def test_the_manager_is_told_when_it_is_ready_lives_and_ends(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10)
        with Daemon(tmp_path, NOTIFY_SOCKET=str(path), WATCHDOG_USEC="200000") as daemon:
            said = [manager.recv(1000).split(b"\n") for _ in range(4)]
            assert [b"READY=1", b"STATUS=ready"] in said
            assert [b"WATCHDOG=1"] in said
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            manager.settimeout(0.01)
            quiet = [drained(manager) for _ in range(2)][-1]
            assert quiet == 0
            daemon.process.send_signal(signal.SIGCONT)
            manager.settimeout(5)
            assert manager.recv(1000) == b"WATCHDOG=1"
            daemon.process.terminate()
            assert b"STOPPING=1" in iter(lambda: manager.recv(1000), b"")
            assert daemon.ends() == 0


def drained(manager):
    """Count what was said in half a second."""
    count, until = 0, time.monotonic() + 0.5
    while time.monotonic() < until:
        try:
            manager.recv(1000)
            count += 1
        except TimeoutError:
            pass
    return count


def test_status_without_a_daemon_makes_nothing(tmp_path):
    told = picoclaw_process(tmp_path, "status", "--json")
    status = json.loads(told.stdout)
    assert told.returncode == 3
    assert not status["running"]
    assert not Path(tmp_path / "picoclaw").exists()
    assert "is not running" in picoclaw_process(tmp_path, "status").stdout


@pytest.mark.parametrize("words", [["--memory-mb", "1"], ["--memory-mb", "lots"], ["--memory-mb", "9" * 30]])
def test_a_limit_that_is_none_is_refused(tmp_path, words):
    refused = picoclaw_process(tmp_path, "run", *words)
    assert refused.returncode == 2
    assert "--memory-mb" in refused.stderr


def test_the_doctor_does_not_call_a_frozen_daemon_absent(tmp_path, monkeypatch):
    monkeypatch.setattr("picoclaw.maintenance.doctor._STATUS_TIMEOUT_S", 0.2)
    with Daemon(tmp_path).ready() as daemon:
        daemon.process.send_signal(signal.SIGSTOP)
        found = json.loads(picoclaw(tmp_path, "doctor", "--offline", "--json").stdout)
    assert [(row["status"], "no answer" in row["detail"]) for row in found if row["name"] == "daemon"] == [
        ("bad", True)
    ]


@needs_walls
def test_keys_from_systemd_reach_the_servers_and_no_command(tmp_path):
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o700)
    for name, value in (("api_key", "sk-credential"), ("telegram_token", "123456:credential")):
        (folder / name).write_text(f"{value}\n")
        (folder / name).chmod(0o400)
    shows = call("exec", {"argv": "cat /proc/self/environ"})
    with (
        ModelServer([reply("", shows), reply("Seen.")]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url, CREDENTIALS_DIRECTORY=str(folder)) as daemon,
    ):
        daemon.ready()
        assert "telegram" in daemon.asked("status")["channels"]
        told = json.loads(picoclaw_process(tmp_path, "chat", "-m", "show", "--json").stdout)
        (seen,) = [tool["result"] for tool in told["turn"]["tools"]]
        assert "HOME=" in seen
        assert not [word for word in ("credential", "CREDENTIALS", "sk-") if word in seen]
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-credential"}
