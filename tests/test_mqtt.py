"""The connection to a broker: a real mosquitto that is cut, restarted, locked or missing, and servers that are none."""

import subprocess
import time
import tracemalloc
from types import SimpleNamespace

import pytest
from daemon_kit import Daemon, furnished, until
from mqtt_broker import (
    MOSQUITTO,
    Broker,
    FalseBroker,
    Other,
    ScriptedBroker,
    certificate,
    free_port,
    needs_mosquitto,
    seconds_of_cpu,
)
from rows import each_row

from picoclaw.config import Config, load_config
from picoclaw.config.tables import MqttConfig
from picoclaw.errors import ConfigError
from picoclaw.maintenance import doctor
from picoclaw.mqtt import connection
from picoclaw.mqtt.connection import MAX_PAYLOAD_BYTES, MOST_A_SECOND, MqttConnection


class Board:
    """A connection with a memory: what it has heard, and what it has said in the log."""

    def __init__(self, port, *topics, password="", waits=(0.02, 0.2), **settings):
        self.heard, self.log, self.connects = [], [], 0
        config = MqttConfig("127.0.0.1", port, name="shed", **settings)
        self.connection = MqttConnection(
            config, password, self.heard.append, self._note, lambda: topics, self._connected, waits=waits
        )

    def _note(self, text, *, trouble=True):
        self.log.append(text)

    def _connected(self):
        self.connects += 1

    @property
    def up(self):
        return self.connection.status().up

    @property
    def listens(self):
        """Whether the broker has confirmed all that was subscribed to."""
        return self.connects and not self.connection._asked

    def __enter__(self):
        self.connection.start()
        return self

    def __exit__(self, *_):
        self.connection.stop()


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "broker") as made:
        yield made


# --- the settings ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "host must be"),
        ("host = 'a b'", "host must be"),
        ("host = 'mqtt://pi'", "host must be"),
        ("host = 'pi'\nname = 'a/b'", "name must be"),
        ("host = 'pi'\nname = '#'", "name must be"),
        ("host = 'pi'\ntls = true\ncert = '/x'", "belong together"),
        ("host = 'pi'\nca = '/x'", "take tls"),
        ("host = 'pi'\nport = 70000", "port"),
        ("host = 'pi'\npassword = 'x'", "password"),
    ],
)
def test_settings_that_reach_no_broker_are_refused(tmp_path, text, words):
    (tmp_path / "config.toml").write_text(f"[mqtt]\n{text}\n")
    with pytest.raises(ConfigError, match=words):
        load_config({"PICOCLAW_HOME": str(tmp_path)})


def test_the_password_is_a_secret_of_its_own(tmp_path):
    (tmp_path / "config.toml").write_text("[mqtt]\nhost = 'pi'\nuser = 'shed'\n")
    (tmp_path / "secrets.toml").write_text("mqtt_password = 'of the file'\n")
    (tmp_path / "secrets.toml").chmod(0o600)
    config = load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert (config.mqtt_password, config.mqtt.address) == ("of the file", ("pi", 1883))
    assert "of the file" not in repr(config)
    environment = {"PICOCLAW_HOME": str(tmp_path), "PICOCLAW_MQTT_PASSWORD": "of the environment"}
    assert load_config(environment).mqtt_password == "of the environment"
    assert MqttConfig("pi", tls=True).address == ("pi", 8883)
    assert MqttConfig("pi").base.startswith("picoclaw/")


# --- a broker that works ---


@needs_mosquitto
def test_it_says_that_it_is_there_and_hears_what_it_asked_for(broker):
    with Other(broker.port, "picoclaw/#") as other, Board(broker.port, "porch/#") as board:
        until(lambda: board.listens)
        until(lambda: other.last("picoclaw/shed/status") == "online")
        other.say("porch/temperature", "21.5")
        other.say("elsewhere", "1")
        until(lambda: board.heard)
        assert [(one.topic, one.payload, one.retained) for one in board.heard] == [
            ("porch/temperature", b"21.5", False)
        ]
        assert board.connection.publish("picoclaw/shed/x", "y")
        until(lambda: other.last("picoclaw/shed/x") == "y")
        board.connection.stop()
        until(lambda: other.last("picoclaw/shed/status") == "offline")
        assert board.log == []
    assert not board.connection.publish("picoclaw/shed/x", "z")


@needs_mosquitto
def test_a_restart_of_the_broker_is_survived_and_said_once(broker):
    with Board(broker.port, "a") as board:
        until(lambda: board.up)
        board.connection._asked[999] = ["a"]  # what the broker was asked, and had no time to confirm
        broker.stop(hard=True)
        until(lambda: not board.up)
        until(lambda: "refused" in board.connection.status().error)
        assert not board.connection.publish("value", "1")
        assert board.connection.publish("alarm", "2", retain=True, qos=1)
        with Other(broker.start().port, "alarm", "value") as other:
            until(lambda: board.connects == 2 and board.listens)
            until(lambda: other.heard)
            other.say("a", "again")
            until(lambda: board.heard)
        assert [payload for _, payload, _ in other.heard] == ["2"]
    assert [line.rpartition(": ")[2] for line in board.log].count("connected again") == 1
    assert len(board.log) <= 3, board.log


@needs_mosquitto
def test_a_board_that_is_gone_without_a_word_is_said_to_be_offline(broker):
    with Other(broker.port, "picoclaw/#") as other, Board(broker.port) as board:
        until(lambda: other.last("picoclaw/shed/status") == "online")
        board.connection._client._sock.shutdown(2)
        until(lambda: ("picoclaw/shed/status", "offline", False) in other.heard)
        until(lambda: other.last("picoclaw/shed/status") == "online")


@needs_mosquitto
def test_a_password_that_is_wrong_is_said_in_words_and_never_shown(tmp_path):
    words = tmp_path / "words"
    tool = MOSQUITTO.replace("/sbin/", "/bin/") + "_passwd"
    subprocess.run([tool, "-b", "-c", str(words), "shed", "right-secret"], check=True, capture_output=True)
    with Broker(tmp_path / "broker", f"allow_anonymous false\npassword_file {words}") as broker:
        with Board(broker.port, user="shed", password="right-secret") as board:
            until(lambda: board.up)
        with Board(broker.port, user="shed", password="wrong-secret") as board:
            until(lambda: board.log)
            until(lambda: "refuses the user 'shed'" in board.connection.status().error)
        assert len(board.log) == 1
        assert "secret" not in board.log[0]
        rows = list(examined(tmp_path, MqttConfig("127.0.0.1", broker.port, user="shed"), "wrong-secret"))
        assert [(row.status, "refuses the user" in row.detail) for row in rows] == [("bad", True)]
        rows = list(examined(tmp_path, MqttConfig("127.0.0.1", broker.port, user="shed"), "right-secret"))
        assert [row.status for row in rows] == ["good"]


def examined(home, mqtt, password=""):
    config = Config(home, mqtt=mqtt, mqtt_password=password)
    return (row for row in doctor.examine_channels(config, offline=False) if row.name == "mqtt")


@needs_mosquitto
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves a socket to the collector
def test_an_encrypted_connection_trusts_only_what_it_was_told_to(tmp_path):
    cert, key = certificate(tmp_path)
    with Broker(tmp_path / "broker", f"allow_anonymous true\ncertfile {cert}\nkeyfile {key}") as broker:
        with Board(broker.port, tls=True, ca=str(cert)) as board:
            until(lambda: board.up)
        with Board(broker.port, tls=True) as board:
            until(lambda: "certificate" in board.connection.status().error)
        assert len(board.log) == 1
        with Board(broker.port, tls=True, ca=str(tmp_path / "missing")) as board:
            until(lambda: board.log)
            assert not board.up
            assert f"{tmp_path / 'missing'}: " in board.log[0]


@needs_mosquitto
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [
        ("20200101000000Z", "20210101000000Z", "certificate has expired; the clock here says 20"),
        ("20980101000000Z", "20990101000000Z", "certificate is not yet valid; the clock here says 20"),
    ],
)
def test_a_certificate_of_another_time_is_said_with_the_date(tmp_path, begins, ends, words):
    """Also what a board without a clock sees of a good certificate, as long as it is 1970 there."""
    cert, key = certificate(tmp_path, begins, ends)
    settings = f"allow_anonymous true\ncertfile {cert}\nkeyfile {key}"
    with Broker(tmp_path / "broker", settings) as broker, Board(broker.port, tls=True, ca=str(cert)) as board:
        until(lambda: words in board.connection.status().error)
        assert len(board.log) == 1


@needs_mosquitto
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_may_ask_for_the_boards_own_certificate(tmp_path):
    cert, key = certificate(tmp_path / "its")
    own, own_key = certificate(tmp_path / "own")
    stranger, strangers_key = certificate(tmp_path / "stranger")
    settings = f"allow_anonymous true\ncertfile {cert}\nkeyfile {key}\ncafile {own}\nrequire_certificate true"
    with Broker(tmp_path / "broker", settings) as broker:
        tls = {"tls": True, "ca": str(cert)}
        with Board(broker.port, **tls, cert=str(own), key=str(own_key)) as board:
            until(lambda: board.up)
        for more in (
            {},
            {"cert": str(stranger), "key": str(strangers_key)},
            {"cert": str(own), "key": str(strangers_key)},
            {"cert": str(own), "key": str(tmp_path / "missing")},
        ):
            with Board(broker.port, **tls, **more) as board:
                until(lambda board=board: board.log)
                assert not board.up, more


@each_row("version", [4, 5])
def test_a_packet_without_measure_takes_no_memory(version):
    """A broker that speaks 3.1.1, and one that does not keep the limit that it was told."""
    length = 200_000_000
    head, size = b"\x00\x03big", []
    while length or not size:
        size.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
    connack = {4: b"\x20\x02\x00\x00", 5: CONNACK_5}[version]
    piece, sent = bytes(1_000_000), []

    def play(_nth, kind, body):
        if kind != 1:
            return b""
        if version == 4 and body[6] == 5:
            return OLD_BROKER
        return connack + b"\x30" + bytes(size) + head

    with ScriptedBroker(play, more=lambda: sent.append(1) or piece if len(sent) < 200 else b"") as server:
        tracemalloc.start()
        try:
            with Board(server.port, "big") as board:
                until(lambda: board.heard, 60)
            assert board.heard[0].too_long
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()


@needs_mosquitto
def test_two_boards_of_one_name_do_not_chase_each_other(broker):
    with Board(broker.port, waits=(0.001, 60)) as first:  # one that holds for longer than the longest wait is no loss
        until(lambda: first.up)
        with Board(broker.port):
            until(lambda: first.connection._losses > connection._MANY_LOSSES)
            said, seen = len(first.log), first.connects
            assert any("another one may connect as picoclaw/shed" in line for line in first.log)
            until(lambda: first.connects > seen + 3)
            assert len(first.log) == said


@needs_mosquitto
def test_what_is_published_while_the_connection_is_closed_raises_nothing(broker):
    with Board(broker.port) as board:
        until(lambda: board.up)
        board.connection._client._sockpairW.close()  # as its own thread does when the connection is lost
        assert not board.connection.publish("a", "1")
        assert board.connection.publish("a", "1", qos=1)  # kept for the next one


@needs_mosquitto
def test_payloads_are_bounded_and_a_storm_is_slowed_down(broker, monkeypatch):
    now = time.monotonic()  # a slow broker gives all of them in the same second
    monkeypatch.setattr(connection, "time", SimpleNamespace(time=time.time, monotonic=lambda: now))
    with Other(broker.port) as other, Board(broker.port, "big", "storm") as board:
        until(lambda: board.listens)
        other.say("big", b"x" * (MAX_PAYLOAD_BYTES + 1))
        other.say("big", b"x" * 10_000_000)  # which the broker keeps to itself, as it was told to
        other.say("big", b"x" * MAX_PAYLOAD_BYTES)
        until(lambda: len(board.heard) == 2)
        assert [(one.too_long, len(one.payload)) for one in board.heard] == [(True, 0), (False, MAX_PAYLOAD_BYTES)]
        for _ in range(3 * MOST_A_SECOND):
            other.say("storm", "1", qos=0)
        until(lambda: board.connection.flooded_at is not None)
        assert board.up
        assert len(board.heard) <= 3 * MOST_A_SECOND + 2
    assert [line for line in board.log if "messages a second" in line] == board.log


@needs_mosquitto
def test_what_comes_after_a_flood_does_not_wait_for_all_of_it(broker):
    """30,000 messages would be a minute; the connection is not said to be lost, and the board not to be gone."""
    with (
        Other(broker.port) as other,
        Other(broker.port, "picoclaw/shed/status") as watch,
        Board(broker.port, "storm", "stop") as board,
    ):
        until(lambda: board.listens)
        until(lambda: watch.heard)
        for _ in range(30_000):
            other._client.publish("storm", "1" * 50)
        other.say("storm", "the last")
        began = time.monotonic()
        while not any(one.topic == "stop" for one in list(board.heard)):
            assert time.monotonic() - began < 20
            other.say("stop", "1")
            time.sleep(0.2)
        assert {payload for _, payload, _ in watch.heard} == {"online"}
    assert [line for line in board.log if "messages a second" in line] == board.log


@needs_mosquitto
def test_what_an_earlier_process_has_subscribed_to_is_not_heard(broker):
    with Other(broker.port) as other:
        with Board(broker.port, "a", "old") as board:
            until(lambda: board.listens)
            other.say("old", "1")
            until(lambda: board.heard)
        with Board(broker.port, "a") as board:
            until(lambda: board.listens)
            for topic in ("old", "a"):
                other.say(topic, "2")
            until(lambda: board.heard)
            assert [one.topic for one in board.heard] == ["a"]


@needs_mosquitto
def test_what_a_broker_does_not_allow_is_said(tmp_path):
    rights = tmp_path / "rights"
    rights.write_text("topic read #\n")
    with (
        Broker(tmp_path / "broker", f"allow_anonymous true\nacl_file {rights}") as broker,
        Board(broker.port, "a") as board,
    ):
        until(lambda: board.log)
        assert "it refuses what is published: not authorized" in board.log[0]


def test_topics_that_may_not_be_listened_to_are_named_once():
    codes = {1: b"\x00\x87", 2: b"\x87\x00"}

    def play(nth, kind, body):
        if kind == 8:
            return None if nth == 2 else b"\x90\x05" + body[:2] + b"\x00" + codes[min(nth, 2)]
        return CONNACK_5 if kind == 1 else b""

    with ScriptedBroker(play) as server, Board(server.port, "mine", "theirs") as board:
        until(lambda: any("does not let this board listen to theirs" in line for line in board.log))
        assert "mine" not in board.log[-1]


# --- servers that are no broker, and none ---

CONNACK_5, CONNACK_3 = b"\x20\x03\x00\x00\x00", b"\x20\x02\x00\x00"
OLD_BROKER = b"\x20\x02\x00\x01"
NO_BROKERS = {
    "a page": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "nothing": b"",
    "zeros": bytes(64),
    "a packet without end": CONNACK_5 + b"\x30\xff\xff\xff\xff\xff\xff",
    "a topic that is no text": CONNACK_5 + b"\x30\x06\x00\x02\xff\xfe\x001",
    "a topic longer than its packet": CONNACK_5 + b"\x30\x04\xff\xff\x00\x00",
    "an answer that nobody wants": CONNACK_5 + b"\x90\x04\x00\x07\x00\x00",
    "properties that lie": b"\x20\x05\x00\x00\x7f\x11\x22",
    "an unknown reason": b"\x20\x03\x00\xee\x00",
}


@each_row("name", NO_BROKERS)
def test_what_is_no_broker_is_tried_again_with_patience(name):
    """What is said ends, however often it is tried: each of three losses, each time that it is connected again, and then once."""
    with FalseBroker(NO_BROKERS[name]) as server, Board(server.port, waits=(0.001, 5)) as board:
        until(lambda: server.met >= 10)
        assert board.connection._thread.is_alive()
        until(lambda: board.log)
        assert len(board.log) <= 7, board.log


def test_a_broker_that_only_speaks_an_older_mqtt_is_asked_in_it():
    with FalseBroker(OLD_BROKER) as server, Board(server.port) as board:
        until(lambda: server.met >= 3)
        assert board.connection._protocol == 4


def test_nobody_there_costs_nothing_and_is_said_once():
    with Board(free_port()) as board:
        until(lambda: board.log)
        began, used = time.monotonic(), seconds_of_cpu()
        until(lambda: time.monotonic() - began > 1)
        assert seconds_of_cpu() - used < 0.5
        assert len(board.log) == 1
        board.connection.stop()
        assert not board.connection._thread.is_alive()


# --- in the daemon ---


@needs_mosquitto
def test_the_daemon_shows_it(tmp_path, broker):
    folder = furnished(tmp_path, f"[mqtt]\nhost = '127.0.0.1'\nport = {broker.port}\nname = 'shed'\n")
    with Other(broker.port, "picoclaw/#") as other, Daemon(tmp_path).ready() as daemon:
        until(lambda: daemon.asked("status")["channels"]["mqtt"]["up"])
        until(lambda: other.last("picoclaw/shed/status") == "online")
        broker.stop()
        until(lambda: any("mqtt is down" in problem for problem in daemon.asked("status")["problems"]))
        assert folder.exists()
