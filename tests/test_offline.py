"""Without a network: what goes on, what waits and says so, and how it all comes back by itself."""

import json
import random
import socket
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import network
import pytest
from model_server import ModelServer, page, raw, refusal, reply, silence, status
from person import picoclaw_process
from rows import each_row
from scripted import CALLER, PROMPTS, Toolbox, toolset_of

from picoclaw.agent.loop import Agent
from picoclaw.channels.channel import ChannelStatus
from picoclaw.channels.polled import BadToken, LinkState, Timing, Unreachable
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes, group_for_delivery, merge_messages
from picoclaw.errors import ChannelDown, DeadlinePassed, KnownDown, Refused, Unavailable
from picoclaw.http_client import Client
from picoclaw.messages import End, Message, Request, Text, TurnContext, Usage
from picoclaw.providers.http import Connection, make_client, probe_server
from picoclaw.providers.model import Chain, ModelLink, ModelProvider
from picoclaw.providers.retry import OutageProbe
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox, OutboxMessage

DOWN = Unavailable("pi stayed silent for 120 s")


def request_of(text="switch on the lamp", seconds=100.0):
    return Request("", (Message("user", text),), (), 100, time.monotonic() + seconds)


# --- a model that is away


class Knocks:
    """Somebody at whose door one can knock; each knock takes `takes` seconds of a clock of its own."""

    def __init__(self, takes=3.0):
        self.now, self.takes, self.away, self.count = 1000.0, takes, True, 0
        self.outage = OutageProbe(self._knock, lambda: self.now, lambda: 1_800_000_000.0 + self.now)

    def _knock(self):
        self.count += 1
        self.now += self.takes
        return "pi stayed silent for 3 s" if self.away else ""

    def asked(self, after=0.0):
        """Whether a request may be made, and how many seconds that took to find out."""
        self.now += after
        begun = self.now
        try:
            self.outage.check()
        except KnownDown:
            return False, self.now - begun
        return True, self.now - begun


def test_nobody_knocks_at_a_server_that_answers():
    knocks = Knocks()
    assert knocks.asked() == (True, 0)
    knocks.outage.record_failure(DOWN)
    knocks.outage.record_answer()
    assert knocks.asked() == (True, 0)
    assert knocks.count == 0


def test_of_many_who_ask_a_silent_server_few_wait_and_none_for_long():
    knocks = Knocks()
    knocks.outage.record_failure(DOWN)
    found = [knocks.asked(1.0) for _ in range(100)]
    assert not any(may for may, _ in found)
    assert max(took for _, took in found) == 3
    assert sum(took for _, took in found) < 0.3 * (knocks.now - 1000)
    knocks.away = False
    assert knocks.asked(9.0) == (True, 3)


def test_a_server_that_refuses_at_once_is_knocked_at_every_time():
    knocks = Knocks(takes=0.0)
    knocks.outage.record_failure(DOWN)
    assert [knocks.asked(), knocks.asked()] == [(False, 0), (False, 0)]
    knocks.away = False
    assert knocks.asked() == (True, 0)


def test_it_stays_away_until_it_has_answered_a_request():
    knocks = Knocks(takes=0.0)
    knocks.away = False
    knocks.outage.record_failure(DOWN)
    assert [knocks.asked(), knocks.asked()] == [(True, 0)] * 2
    assert knocks.count == 2
    knocks.outage.record_answer()
    knocks.asked()
    assert knocks.count == 2


@each_row(("after", "form"), [(60.0, "%H:%M"), (3 * 86_400.0, "%Y-%m-%d %H:%M")], ids=["today", "days later"])
def test_it_is_said_since_when(after, form):
    knocks = Knocks(takes=0.0)
    knocks.outage.record_failure(DOWN)
    begun = time.strftime(form, time.localtime(1_800_000_000.0 + knocks.now))
    knocks.now += after
    with pytest.raises(KnownDown, match=rf"^no answer since {begun}: pi stayed silent for 3 s$"):
        knocks.outage.check()


def test_since_when_is_right_on_a_board_that_learns_the_date_meanwhile():
    wall = [100.0]
    outage = OutageProbe(lambda: "gone", lambda: 50.0, lambda: wall[0])
    outage.record_failure(DOWN)
    wall[0] = 1_800_000_000.0
    with pytest.raises(KnownDown, match=time.strftime("%H:%M", time.localtime(wall[0]))):
        outage.check()


def test_since_when_is_said_in_the_owners_zone(tmp_path):
    user = tmp_path / "picoclaw/workspace/USER.md"
    user.parent.mkdir(parents=True)
    user.write_text("- Time zone: Asia/Kolkata\n")  # no machine of a test is 5:30 from Greenwich
    with silent() as (url, _):
        (tmp_path / "picoclaw/config.toml").write_text(f'[model]\nbase_url = "{url}"\nidle_seconds = 1\n')
        begun = time.time()
        asked = "how warm is it?\nhow humid is it?\n"
        said = picoclaw_process(tmp_path, "chat", "--board", "sim", stdin=asked, TZ="UTC").stderr
    moments = [datetime.fromtimestamp(at, ZoneInfo("Asia/Kolkata")) for at in range(int(begun), int(time.time()) + 1)]
    assert any(f"no answer since {at:%H:%M}" in said for at in moments), said


@contextmanager
def silent():
    """A server that takes connections and never answers; gives its address, and a list of the methods it was sent."""
    methods, lines = [], []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        thread = threading.Thread(target=listens, args=(server, methods, lines), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", methods
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for line in lines:
            line.close()


def listens(server, methods, lines):
    with suppress(OSError):
        while True:
            line, _ = server.accept()
            lines.append(line)
            methods.append(line.recv(65_536).partition(b" ")[0])


class Here:
    """What answers without a model."""

    name = "matcher"

    def answers(self, text):
        return "lamp" in text

    def events(self, request):
        yield Text("It is on.")
        yield End("stop", Usage())

    def close(self):
        pass


def test_a_silent_model_is_waited_for_once(monkeypatch):
    monkeypatch.setattr("picoclaw.providers.model.PROBE_S", 0.2)
    with (
        silent() as (url, methods),
        closing(ModelProvider(ModelConfig(base_url=url, name="qwen", idle_seconds=1.0))) as model,
    ):
        agent = Agent(Chain(ModelLink("", model, 0), Here), toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 32_768, 100)
        begun = time.monotonic()
        turns = [agent.turn(TurnContext("", "switch on the lamp"), (), CALLER) for _ in range(5)]
        took = time.monotonic() - begun
    assert [turn.reply for turn in turns] == ["It is on."] * 5
    assert "stayed silent for 1 s" in turns[0].notice.text
    assert all("no answer since" in turn.notice.text for turn in turns[1:])
    assert not any(turn.notice.failed for turn in turns)
    assert methods.count(b"POST") == 1  # the rest were knocks, of 0.2 s, and a pause of three times as long after each
    assert 1 <= methods.count(b"GET") <= 1 + took / 0.8


def test_a_model_that_comes_back_is_asked_again_at_once():
    script = [refusal(503, "busy"), reply("Here I am."), reply("And again.")]
    with ModelServer(script) as server, closing(ModelProvider(ModelConfig(base_url=server.url, name="qwen"))) as model:
        agent = Agent(Chain(ModelLink("", model, 0), Here), toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 32_768, 100)
        said = [agent.turn(TurnContext("", "switch on the lamp"), (), CALLER).reply for _ in script]
    assert said == ["It is on.", "Here I am.", "And again."]


def test_a_long_silence_is_not_tried_again(monkeypatch):
    monkeypatch.setattr("picoclaw.providers.retry._MAX_FAILED_REQUEST_S", 0.3)
    with ModelServer([silence()] * 3) as server:
        model = ModelProvider(ModelConfig(base_url=server.url, name="qwen", idle_seconds=1.0))
        with closing(Chain(ModelLink("", model, 2), Here, sleep=lambda _: None)) as chain:
            list(chain.events(request_of()))
        assert len(server.requests) == 1


def answering(data, kind=b"application/json", code=b"200 OK", more=b""):
    return [b"HTTP/1.1 %s\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (code, more, kind, len(data), data)]


@contextmanager
def said_by(data):
    """A server that says the same to everybody, a piece each 50 ms."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        thread = threading.Thread(target=says, args=(server, data), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def says(server, pieces):
    while True:
        try:
            line, _ = server.accept()
        except OSError:
            return
        with line, suppress(OSError):
            line.recv(65_536)
            for piece in pieces:
                line.sendall(piece)
                time.sleep(0.05)


def dripping(data):
    return [bytes([byte]) for byte in data]


LOGIN = b"<!DOCTYPE html><title>Welcome to Hotel WiFi</title>"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (answering(b'{"data": []}'), ""),
        (answering(b"not found", b"text/plain", b"404 Not Found"), ""),
        (answering(b"<html>no such path</html>", b"text/html", b"404 Not Found"), ""),
        (answering(b'{"error": "key"}', code=b"401 Unauthorized"), ""),
        (answering(b"{}", code=b"503 Service Unavailable"), "cannot answer now (503)"),
        (answering(LOGIN, b"text/html"), "captive portal"),
        (answering(b"", code=b"302 Found", more=b"Location: http://login.test/\r\n"), "captive portal"),
        (answering(LOGIN, b"text/html", b"511 Network Authentication Required"), "(511)"),
        ([], "broke off"),
        (dripping(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400), "stayed silent for 0.5 s"),
    ],
)
def test_who_is_there_when_one_knocks(data, problem):
    with said_by(data) as url, make_client(url, "") as http:
        found = probe_server(http, url, Connection(), 0.5 if "silent" in problem else 30.0)
    assert problem in found
    assert bool(problem) == bool(found)


def test_a_first_line_that_drips_ends_with_the_turn():
    with said_by(dripping(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400)) as url:
        model = ModelProvider(ModelConfig(base_url=url, name="qwen", idle_seconds=5.0))
        begun = time.monotonic()
        with closing(model), pytest.raises(DeadlinePassed):
            list(model.events(request_of(seconds=0.5)))
        assert time.monotonic() - begun < 10  # the whole line takes 21 s


@each_row(
    ("answer", "error"),
    [
        (status(302, location="http://login.test/"), Unavailable),
        (status(307, location="http://login.test/"), Unavailable),
        (status(308, location="http://new.test/v1"), Refused),
        (page(), Unavailable),
        (raw(b"nothing"), Unavailable),
    ],
)
def test_a_network_that_wants_a_login_is_no_fault_of_the_owners(answer, error):
    with ModelServer(lambda _: answer) as server:
        model = ModelProvider(ModelConfig(base_url=server.url, name="qwen"))
        with closing(model), pytest.raises(error):
            list(model.events(request_of()))


def test_the_kernel_is_told_to_ask_after_a_silent_server():
    seen = []

    class Told(Connection):
        def trace(self, event, told):
            super().trace(event, told)
            if event.endswith(".connect_tcp.complete"):
                line = told["return_value"].get_extra_info("socket")
                seen.append([line.getsockopt(socket.IPPROTO_TCP, option) for option in (4, 5, 6, 18)])
                seen.append(line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    with ModelServer() as server, Client() as http:
        assert probe_server(http, server.url, Told(), 5.0) == ""
    idle, every, times, gone = seen[0]
    assert seen[1] == 1
    assert idle + every * times <= 60
    assert gone <= 60_000


# --- letters that wait for days


def letters(*texts, session="telegram:7", hour=3600.0):
    return [OutboxMessage(n, session, text, 1_700_000_000.0 + n * hour) for n, text in enumerate(texts, 1)]


def delivered(waiting):
    return [merge_messages(parcel, 1_701_000_000.0).text for parcel in group_for_delivery(waiting, together=True)]


@each_row(
    ("waiting", "most"),
    [
        (letters(*(f"reading {n}." for n in range(72))), 2),
        (letters(*(f"reading {n}." for n in range(2000))), 60),
        (letters(*["Reminder: water the beans."] * 2000), 1),
        (letters(*(f"{n}. " + "long " * 500 for n in range(9))), 9),
        (letters(*(f"{n}. " + "long " * 5000 for n in range(9))), 9),
        (letters("one.", "x" * 9000, *(f"reading {n}." for n in range(9))), 3),
    ],
    ids=["three days", "months", "one reminder again and again", "long answers", "longer than a message", "both"],
)
def test_of_days_nothing_is_left_out_and_few_messages_come(waiting, most):
    said = delivered(waiting)
    assert len(said) <= most
    for letter in waiting:
        assert sum(letter.text in text for text in said) == 1
    assert Counter(n.number for p in group_for_delivery(waiting, together=True) for n in p) == Counter(
        n.number for n in waiting
    )
    assert all(len(text) < 4000 for text in said if len(max((w.text for w in waiting), key=len)) < 3000)


def test_what_came_many_times_is_told_with_when_and_how_often():
    (said,) = delivered(letters(*["Reminder: water the beans."] * 48, "the tank is full"))
    first, last = (time.strftime("%Y-%m-%d %H:%M", time.localtime(1_700_000_000.0 + n * 3600)) for n in (1, 48))
    assert said.splitlines()[0] == "49 messages from while this chat could not be reached:"
    assert said.splitlines()[1] == f"48 times, {first} to {last}: Reminder: water the beans."
    assert said.endswith(": the tank is full")


def test_what_was_perhaps_told_says_so_among_others():
    told = letters("a", "b", "a", "a")
    told[0] = told[0]._replace(begun="another process")
    (said,) = delivered(told)
    assert [line.partition(" (")[2] for line in said.splitlines()[1:]] == ["perhaps a repeat)", "", ""]


class Wire:
    """A channel that is up or not."""

    name = "wire"

    def __init__(self):
        self.told, self.error, self.up, self.tries = [], None, True, 0

    def send(self, letter):
        self.tries += 1
        if self.error:
            raise self.error
        self.told.append(letter.text)

    def status(self):
        return ChannelStatus(up=self.up, since=0.0)


@pytest.fixture
def post(tmp_path):
    """A channel, its postman, an outbox, and what the log says."""
    wire, notes = Wire(), []
    with closing(Database(tmp_path / "state.db")) as database:
        boxes = MessageBoxes(Inbox(database), Outbox(database), threading.RLock())
        yield wire, DeliveryWorker(wire, boxes, lambda _: True, notes.append), boxes.outbox, notes


def test_an_outage_of_days_is_a_line_in_the_log_and_its_end_another(post):
    wire, postman, outbox, notes = post
    dice, waits = random.Random(1), []
    for n in range(60):
        wire.error = ChannelDown(dice.choice(["no route to host", "silent for 20 s", "captive portal"]))
        outbox.put("wire:1", f"reading {n}.", 1000.0 + n)
        waits.append(postman.deliver())
    assert len(notes) == 1
    assert max(waits) <= 60
    wire.error = None
    assert postman.deliver() is None
    assert len(notes) == 2
    assert notes[1].startswith("wire: messages are delivered again, after ")
    assert all(sum(f"reading {n}." in text for text in wire.told) == 1 for n in range(60))
    assert outbox.waiting() == []


def test_a_channel_that_says_it_is_down_is_not_tried_and_the_disk_left_alone(post):
    wire, postman, outbox, _ = post
    wire.error = ChannelDown("no route to host")
    for n in range(30):
        outbox.put("wire:1", f"reading {n}.", 1000.0 + n)
    postman.deliver()
    wire.up = False
    before = outbox._database.connection.total_changes()
    assert [postman.deliver() for _ in range(1000)] == [15] * 1000
    assert wire.tries == 1
    assert outbox._database.connection.total_changes() == before
    wire.up, wire.error = True, None
    assert postman.deliver() is None
    assert len(wire.told) == 1


def test_what_waits_at_the_start_is_no_flood(post):
    wire, postman, outbox, _ = post
    for n in range(30):
        outbox.put("wire:1", f"reading {n}.", 1000.0 + n)
    assert postman.deliver() is None
    assert len(wire.told) == 1
    for n in range(5):
        outbox.put("wire:1", f"later {n}", time.time())
    assert postman.deliver() is None
    assert wire.told[1:] == [f"later {n}" for n in range(5)]


# --- Telegram that is away


def test_days_without_telegram_are_two_lines_and_short_pauses():
    now, notes = [0.0], []
    link = LinkState("telegram", Timing(), lambda: now[0], lambda: now[0], notes.append)
    dice = random.Random(1)
    while now[0] < 3 * 86_400:
        pause = link.failed(Unreachable(dice.choice(["silent for 40 s", "no route", "name not known"])))
        assert pause <= 60
        now[0] += pause + 10
    assert len(notes) == 1
    assert notes[0].startswith("telegram: down: ")
    now[0] = 3 * 86_400  # the last pause has ended somewhat later
    link.heard()
    assert notes[1:] == ["telegram: back after 3 d"]


def test_a_blip_is_no_line_and_what_the_owner_has_to_mend_is_one_at_once():
    now, notes = [0.0], []
    link = LinkState("telegram", Timing(), lambda: now[0], lambda: now[0], notes.append)
    for _ in range(20):
        link.heard()
        now[0] += 100
        link.failed(Unreachable("reset"))
        now[0] += 1
    assert notes == []
    link.failed(BadToken("Telegram does not know the token"))
    assert notes == ["telegram: down: Telegram does not know the token"]


def test_since_when_telegram_is_away_is_right_when_the_date_is_learnt_from_the_network():
    wall, clock = [100.0], [5.0]
    link = LinkState("telegram", Timing(), lambda: wall[0], lambda: clock[0])
    link.failed(Unreachable("no route"))
    wall[0], clock[0] = 1_800_000_060.0, 65.0
    assert link.status == ChannelStatus(up=False, since=1_800_000_000.0, error="no route")


# --- a real daemon without a network


@pytest.mark.long
@pytest.mark.skipif(not network.possible(), reason="nobody is given a network namespace here")
def test_a_board_without_a_network_goes_on_and_comes_back_by_itself():
    """No interface at first, then a dead name server, then another one in resolv.conf; see offline_days.py."""
    process = network.apart(str(network.HERE / "offline_days.py"))
    seen = json.loads(process.communicate(timeout=580)[0])
    for when in ("no network", "no names"):
        alone, start = seen[when], 5 * seen[when]["start"]  # a command that asks nobody, on this machine at this time
        assert "no answer since" in alone["first"]["said"] + alone["second"]["said"]
        assert "greenhouse: temperature" in alone["second"]["said"]
        assert alone["second"]["took"] < 4 + start
        assert alone["first"]["took"] < 13 + start
        assert "telegram: DOWN since" in alone["status"]
        assert "not answering" in alone["status"]
        assert "everything is at its safe level" in alone["stop"]["said"]
        assert alone["stop"]["took"] < 2 + start
    assert seen["page"] == 200
    assert seen["page took"] < 2 + start
    assert seen["answered after"] < 120
    assert seen["letters after"] < 120
    told = "\n".join(seen["texts"])
    assert all(told.count(f": reading {n}\n") + told.endswith(f": reading {n}") == 1 for n in range(71))
    assert told.count("Reminder: water the beans") == 1
    # what was said meanwhile, the answer and the rule may each come by themselves; the 144 of the days may not
    assert sum("reading" in text for text in seen["texts"]) <= 3, seen["texts"]
    assert seen["modelled"]["said"].startswith("Goethe.")
    assert "telegram: up" in seen["status"]
    assert seen["code"] == 0
