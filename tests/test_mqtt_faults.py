"""200 faults of the line to the broker and of the broker, with alarms in the outbox: none is lost, none comes twice."""

import json
import random
import socket
import threading
import time
from collections import Counter
from contextlib import closing, suppress

import pytest
from daemon_kit import furnished, until
from mqtt_broker import Broker, ScriptedBroker, free_port, needs_mosquitto, paho

from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes
from picoclaw.daemon.mqtt import MqttChannel
from picoclaw.hw import detect
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox

FAULTS, RESTARTS, SEED = 200, 6, 20261124


class Line:
    """Between board and broker: each connection is cut after some bytes one way or the other, as long as there are cuts."""

    def __init__(self, port, cuts):
        self._to, self.cuts, self.made = port, list(cuts), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self._to), 2)
                except OSError:
                    here.close()
                    continue
                way, most = self.cuts.pop() if self.cuts else ("", 0)
                self.made += bool(way)
                both = (here, there)
                for name, source, sink in (("up", here, there), ("down", there, here)):
                    given = (source, sink, both, most if way == name else None)
                    threading.Thread(target=self._pass, args=given, daemon=True).start()

    def _pass(self, source, sink, both, left):
        with suppress(OSError):
            while data := source.recv(4096):
                if left is not None and len(data) >= left:
                    sink.sendall(data[:left])
                    break
                left = None if left is None else left - len(data)
                sink.sendall(data)
        for one in both:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()  # the thread of the other way closes the other

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Witness:
    """Hears every alarm once, with a session of its own that survives the broker's restarts."""

    def __init__(self, port):
        self.heard, self._ready = [], threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, "witness", clean_session=False)
        self._client.reconnect_delay_set(0.05, 0.1)
        self._client.on_connect = lambda client, *_: client.subscribe("picoclaw/shed/alarm", 2)
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = lambda _c, _d, message: self.heard.append(json.loads(message.payload))
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(10)

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


def make_cuts():
    drawn = random.Random(SEED)
    return [(way, drawn.randint(1, 700 if way == "up" else 90)) for way in drawn.choices(["up", "down"], k=FAULTS)]


@pytest.mark.long
@needs_mosquitto
def test_alarms_lost_0_doubled_0(tmp_path):
    with Broker(tmp_path / "broker", port=free_port()) as broker:
        witness, line = Witness(broker.port), Line(broker.port, make_cuts())
        settings = f"[mqtt]\nhost = '127.0.0.1'\nport = {line.port}\nname = 'shed'\n"
        folder = furnished(tmp_path, settings)
        config = load_config({"PICOCLAW_HOME": str(folder)})
        log, put = [], []
        with (
            closing(App(config, detect.choose_board("sim", config))) as app,
            closing(Database(folder / "state.db")) as db,
        ):
            channel = MqttChannel(app, lambda text, **_: log.append(text), dict, waits=(0.01, 0.05))
            boxes = MessageBoxes(Inbox(db), Outbox(db), threading.RLock())
            worker = DeliveryWorker(channel, boxes, lambda _: True, log.append, merges=False)
            channel.start(lambda _: None)
            with closing(line), closing(witness):
                restarts = iter(range(FAULTS, 0, -FAULTS // RESTARTS))
                due, end = next(restarts), time.monotonic() + 240
                while line.cuts or worker.deliver() is not None:
                    assert time.monotonic() < end, (len(line.cuts), log[-3:])
                    if line.cuts and len(boxes.outbox.waiting()) < 2:
                        put.append(boxes.outbox.put(channel.owner_chat(), f"alarm {len(put)}", 1000.0 + len(put)))
                    if len(line.cuts) < due:
                        due = next(restarts, 0)
                        broker.stop()
                        broker.start()
                    worker.deliver()
                until(lambda: len(witness.heard) >= len(put))
            channel.stop()
        assert line.made == FAULTS
        assert len(put) > 20
        counted = Counter(one["number"] for one in witness.heard)
        assert [number for number in put if not counted[number]] == [], "lost"
        assert [one for one in witness.heard if counted[one["number"]] > 1] == [], "doubled"
        assert not any(one["perhaps_a_repeat"] for one in witness.heard)


# --- brokers that refuse, and brokers that forget: MQTT 5, 3.4 to 3.7 ---

CONNECT, PUBLISH, PUBREL, SUBSCRIBE = 1, 3, 6, 8
UNKNOWN, QUOTA_EXCEEDED = 0x92, 0x97


def number_of(body):
    """The packet's number, behind the topic of a PUBLISH."""
    begin = 2 + int.from_bytes(body[:2], "big")
    return body[begin : begin + 2]


def play(answers, *, remembers=False):
    """Answer as a broker does; what is published with QoS 2, and released, by the next of the `answers`."""
    left = iter(answers)

    def answer(nth, kind, body):
        if kind == CONNECT:
            return bytes([0x20, 3, nth > 1 and remembers, 0, 0])
        if kind == SUBSCRIBE:
            return b"\x90\x04" + body[:2] + b"\x00\x00"
        if kind == PUBLISH and body[2:].startswith(b"picoclaw/shed/alarm"):
            reason = next(left)
            return None if reason is None else b"\x50\x03" + number_of(body) + bytes([reason])
        if kind == PUBLISH:
            return b"\x40\x02" + number_of(body)
        if kind == PUBREL:
            reason = next(left)
            return None if reason is None else b"\x70\x03" + body[:2] + bytes([reason])
        return b""

    return answer


def send_alarm(tmp_path, port):
    """Send one alarm until it is delivered; returns the lines of the log."""
    folder = furnished(tmp_path, f"[mqtt]\nhost = '127.0.0.1'\nport = {port}\nname = 'shed'\n")
    config, log = load_config({"PICOCLAW_HOME": str(folder)}), []
    with (
        closing(App(config, detect.choose_board("sim", config))) as app,
        closing(Database(folder / "state.db")) as db,
    ):
        channel = MqttChannel(app, lambda text, **_: log.append(text), dict, waits=(0.01, 0.05))
        boxes = MessageBoxes(Inbox(db), Outbox(db), threading.RLock())
        worker = DeliveryWorker(channel, boxes, lambda _: True, log.append, merges=False)
        boxes.outbox.put(channel.owner_chat(), "it is warm", 1000.0)
        channel.start(lambda _: None)
        until(lambda: worker.deliver() is None)
        channel.stop()
    return log


def alarms(server):
    """What was published, each time, and whether it said that it is perhaps a repeat."""
    bodies = [body for _, kind, body in server.heard if kind == PUBLISH and b"it is warm" in body]
    return [b'"perhaps_a_repeat": true' in body for body in bodies]


@pytest.mark.parametrize(
    ("answers", "remembers", "published"),
    [
        ([0, 0], True, [False]),
        ([0, None, 0], True, [False]),  # PUBREL is said again
        ([0, None, UNKNOWN], True, [False]),  # it had been released: only the answer was lost
        ([0, None, 0, 0], False, [False, True]),  # the broker has begun anew, and knows nothing of it
        ([None, 0, 0], False, [False, False]),  # it was never received
        ([None, 0, 0], True, [False, False]),
        ([QUOTA_EXCEEDED, 0, 0], True, [False, False]),  # a full broker
    ],
)
def test_what_a_broker_refuses_or_forgets_is_published_again(tmp_path, answers, remembers, published):
    with ScriptedBroker(play(answers, remembers=remembers)) as server:
        log = send_alarm(tmp_path, server.port)
        assert alarms(server) == published
        connects, subscribes = ({nth for nth, kind, _ in server.heard if kind == one} for one in (CONNECT, SUBSCRIBE))
        assert connects == subscribes  # also where a broker says that it has kept the session
    assert sum("it refuses what is published: quota exceeded" in line for line in log) == (QUOTA_EXCEEDED in answers)
