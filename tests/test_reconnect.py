"""A chat that is open at a terminal while the daemon ends and comes back: it says so, waits, and loses no line."""

import argparse
import signal
import socket
from types import SimpleNamespace

import pytest
from daemon_kit import Daemon, until
from model_server import ModelServer, chunk, reply, silence
from person import Person

from picoclaw.channels import ipc
from picoclaw.cli import chat
from picoclaw.store.database import Database

GONE, BACK = "picoclaw has ended; this chat goes on as soon as it runs again", "(picoclaw is back)"
CUT_OFF = "picoclaw has ended in the middle of this"


def echo(body):
    return reply(f"You said {body['messages'][-1]['content'].split()[-1]}.")


@pytest.fixture
def server():
    with ModelServer(echo) as server:
        yield server


def asked(server):
    return [request.said.split()[-1] for request in server.requests]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, "restart"])
def test_a_chat_goes_on_when_picoclaw_is_back(tmp_path, server, how):
    with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url).ready() as first, Person(tmp_path, "chat") as person:
        person.sees("> ")
        person.types("one\r")
        person.sees("You said one.")
        person.sees("> ")
        person.types("half a li")
        person.sees("half a li")
        if how == "restart":
            assert first.asked("restart")["ok"]
        else:
            first.process.send_signal(how)
            first.ends()
        person.sees(GONE)
        person.sees("> half a li")
        with first if how == "restart" else Daemon(tmp_path, PICOCLAW_BASE_URL=server.url):
            person.sees(BACK)
            person.sees("> half a li")
            person.types("ne\r")
            person.sees("You said line.")
            person.types("/quit\r")
            assert person.leaves() == 0
    assert asked(server) == ["one", "line"]


def test_what_is_typed_meanwhile_is_answered_once_it_is_back(tmp_path, server):
    with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url).ready() as first, Person(tmp_path, "chat") as person:
        person.sees("> ")
        first.process.kill()
        first.ends()
        person.sees(GONE)
        for text in ("first", "second"):
            person.sees("> ")
            person.types(f"{text}\r")
            person.sees("sent as soon as it does")
        with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url):
            person.sees(BACK)
            person.sees("You said first.")
            person.sees("You said second.")
            person.sees("> ")
            person.types("third\r")
            person.sees("You said third.")
    assert asked(server) == ["first", "second", "third"]


def test_a_kill_in_the_middle_of_an_answer_is_said_and_it_is_answered_later(tmp_path):
    with (
        ModelServer([silence(chunk(content="Half of it")), reply("All of it.")]) as server,
        Daemon(tmp_path, PICOCLAW_BASE_URL=server.url).ready() as first,
        Person(tmp_path, "chat") as person,
    ):
        person.sees("> ")
        person.types("tell me\r")
        person.sees("Half of it")
        first.process.kill()
        first.ends()
        person.sees(CUT_OFF)
        person.sees("> ")
        with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url) as second:
            person.sees(BACK)
            person.sees("All of it.")
            second.ready()
            until(lambda: not second.asked("status")["outbox"])
        assert len(server.requests) == 2


def test_what_comes_before_the_chat_is_open_is_shown_below_its_first_line(tmp_path):
    """A daemon that tells what waits at once, before it says that it is there: the first time, and when it is back."""
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / ipc.SOCKET_NAME))
        listening.listen()
        with Person(tmp_path, "chat") as person:
            for number, first_line in (("one", "Somebody on a board"), ("two", BACK)):
                line = ipc.IpcConnection(listening.accept()[0])
                while not (words := line.next()) or words.get("do") != "attach":
                    pass
                line.say({"message": f"letter {number}"})
                line.say({"attached": "Somebody on a board"})
                assert "letter" not in person.sees(first_line)
                person.sees(f"letter {number}")
                line.close()


def test_a_line_that_was_typed_in_vain_is_named_at_the_end(tmp_path):
    with Daemon(tmp_path).ready() as daemon, Person(tmp_path, "chat") as person:
        person.sees("> ")
        daemon.process.kill()
        daemon.ends()
        person.sees(GONE)
        person.types("how warm is it?\r")
        person.sees("sent as soon as it does")
        person.sees("> ")
        person.types("\x04")
        person.sees("not sent: how warm is it?")
        assert person.leaves() == 1


def test_it_tries_for_a_minute_and_then_says_what_to_do(tmp_path, monkeypatch):
    assert 30 < sum(chat._RECONNECT_DELAYS_S) < 90
    told, found = [], []
    monkeypatch.setattr(chat, "_RECONNECT_DELAYS_S", (0.0, 0.0))
    given = argparse.Namespace(session="terminal")
    daemon = chat.RemoteDaemon(None, given, lambda _: None)
    daemon._terminal = SimpleNamespace(remind=told.append)
    monkeypatch.setattr(daemon, "_try_connect", lambda: found.pop() if found else None)
    daemon._wanted.set()  # by a typed line, which is in vain
    with pytest.raises(KeyboardInterrupt):
        interrupted_after(0.3, daemon._reconnect)
    assert len(told) == 1
    assert "picoclaw service status" in told[0]
    found.append("a line")
    daemon._wanted.set()
    assert daemon._reconnect() == "a line"


def interrupted_after(seconds, act):
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        act()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_question_of_one_line_says_what_becomes_of_it(tmp_path):
    with ModelServer([silence(), reply("Later.")]) as server:
        first = Daemon(tmp_path, PICOCLAW_BASE_URL=server.url).ready()
        with first, Person(tmp_path, "chat", "-m", "hello", columns=300) as person:
            until(lambda: server.requests)
            first.process.kill()
            person.sees("it has kept what you asked")
            assert person.leaves() == 1
        with Daemon(tmp_path, PICOCLAW_BASE_URL=server.url).ready(), Person(tmp_path, "chat") as person:
            person.sees("Later.")
    database = Database(tmp_path / "picoclaw/state.db")
    assert database.connection.execute("SELECT count(*) FROM turns").get == 1
    database.close()
