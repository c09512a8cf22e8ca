"""Boards that were paired: they read each other's sensors and stop each other; a stranger does nothing, nor an echo."""

import json
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from daemon_kit import PUMP, Daemon, furnished, until
from mqtt_broker import Broker, Other, needs_mosquitto
from person import PICOCLAW, environment, picoclaw_process

pytest.importorskip("nacl")

from picoclaw import fleet
from picoclaw.config.tables import MqttConfig
from picoclaw.errors import ConfigError
from picoclaw.fleet import Fleet, FleetKeys, make_peer
from picoclaw.mqtt.connection import Heard

SETTINGS = '[mqtt]\nhost = "127.0.0.1"\nport = {port}\nname = "{name}"\nfleet = true\n'


def know(*keys):
    """Pair boards with each other, as the codes do."""
    for one, _ in keys:
        for other, its_name in keys:
            if other is not one:
                one.add(make_peer(its_name, other.public))
    return [one for one, _ in keys]


class Wire:
    """A broker without a socket: whoever has it hears at once; `sent` is what a stranger could record."""

    def __init__(self):
        self.fleets, self.sent = {}, []

    def connect(self, home, name):
        home.mkdir(exist_ok=True)
        return FleetKeys(home), name


class Side:
    """A board: its connection and its host, in one."""

    def __init__(self, wire, keys, name):
        self.wire, self.notes, self.stops, self.reads = wire, [], 0, 0
        self.is_busy = self.is_gone = False
        self.questions = []
        self.fleet = Fleet(keys, MqttConfig(host="x", name=name), self, self, self.notes.append)
        wire.fleets[name] = self

    def publish(self, topic, payload, *, retain=False, qos=0):
        return self.publish_request(topic, payload, 0, b"")

    def publish_request(self, topic, payload, seconds, correlation, reply_to=""):
        heard = Heard(topic, payload.encode(), False, False, reply_to, correlation)
        self.wire.sent.append(heard)
        for side in self.wire.fleets.values():
            if topic in side.fleet.topics and not side.is_gone:
                side.fleet.hear(heard)
        return True

    def subscribe(self, topics): ...

    def describe_board(self):
        return {"version": "1", "sensors": ["porch: temperature"], "outputs": ["pump"], "health": []}

    def stop_outputs(self, who):
        self.stops += 1
        return "stopped"

    def read_for(self, who, sensor):
        if sensor == "nothing":
            raise ConfigError("no sensor 'nothing'")
        self.reads += 1
        return f"{sensor}: 21 °C"

    def post_question(self, peer, number, text):
        self.questions.append((peer.name, text))
        self.fleet.answer_question(peer.number, number, f"you asked: {text}")

    def put(self, task):
        if not self.is_busy:
            task()
        return not self.is_busy


@pytest.fixture
def pair(tmp_path):
    wire = Wire()
    (one, two) = know(wire.connect(tmp_path / "a", "shed"), wire.connect(tmp_path / "b", "workshop"))
    sides = Side(wire, one, "shed"), Side(wire, two, "workshop")
    for side in sides:
        side.fleet.say_presence()
    return SimpleNamespace(wire=wire, one=sides[0], two=sides[1])


def read(side, what="porch", board="workshop"):
    return side.fleet.run({"act": "read", "board": board, "what": what})


def hear_again(side, messages):
    for heard in messages:
        side.fleet.hear(heard)


# --- keys and codes ---


def test_a_key_pair_is_made_once_and_is_nobody_elses(tmp_path):
    keys = FleetKeys(tmp_path)
    assert FleetKeys(tmp_path).number == keys.number
    assert (tmp_path / "fleet.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "00", "starts": 1, "boards": []}', '{"key": 5}'])
def test_a_damaged_file_is_said_and_not_written_over(tmp_path, text):
    (tmp_path / "fleet.json").write_text(text)
    with pytest.raises(ConfigError, match="damaged"):
        FleetKeys(tmp_path)
    assert (tmp_path / "fleet.json").read_text() == text


def test_a_full_disk_keeps_nobody_from_stopping_a_board(tmp_path, pair, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("picoclaw.fleet.write_atomic", fail)
    again = Side(pair.wire, FleetKeys(tmp_path / "b"), "workshop")
    assert pair.one.fleet.run({"act": "stop"})["boards"][0]["ok"]
    assert (again.stops, "cannot be noted" in again.notes[0]) == (1, True)


def test_codes():
    code = fleet.make_code()
    assert fleet.parse_code(code.lower()) == fleet.parse_code(code.replace("-", " ")) == code.replace("-", "").encode()
    for wrong in ("", "ABCD", code + "A", "!" * 16):
        with pytest.raises(ConfigError, match="no pairing code"):
            fleet.parse_code(wrong)


def test_a_meeting_takes_nothing_that_was_written_without_the_code(tmp_path):
    known = [FleetKeys(folder) for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "c") if folder.mkdir() is None]
    host, guest, thief = (
        fleet._Meeting(one, name, code, is_host=is_host)
        for one, name, code, is_host in zip(
            known, "abc", (b"A" * 16, b"A" * 16, b"B" * 16), (True, False, False), strict=True
        )
    )
    assert (host.say(), host.topic == thief.topic) == ("", False)
    for wrong in (thief.say(), guest.say().replace("guest", "host"), "{}", "[]", "", '{"text": 5, "check": "x"}'):
        host.hear(wrong.encode())
        assert host.other is None
    own = guest.say()
    guest.hear(own.encode())
    assert guest.other is None  # its own words, back from a mirror
    host.hear(own.encode())
    guest.hear(host.say().encode())
    host.hear(guest.say().encode())
    assert (host.other.number, guest.other.number) == (known[1].number, known[0].number)
    assert (host.is_done, guest.is_done) == (True, True)


# --- what boards ask each other ---


def test_a_board_reads_another_and_each_knows_what_the_other_has(pair):
    assert read(pair.one) == {"ok": True, "text": "workshop porch: 21 °C"}
    assert read(pair.one, "nothing") == {"ok": False, "text": "workshop: no sensor 'nothing'"}
    (row,) = pair.one.fleet.run({"act": "list"})["boards"]
    assert (row["name"], row["sensors"], row["outputs"], row["answers"]) == (
        "workshop",
        ["porch: temperature"],
        ["pump"],
        True,
    )


def test_a_board_is_found_by_what_it_measures(pair):
    assert read(pair.one, "", "porch")["text"] == "workshop porch: 21 °C"
    assert read(pair.one, "temperature", "Porch")["text"] == "workshop porch temperature: 21 °C"
    assert read(pair.one, "", "workshop porch")["text"] == "workshop porch: 21 °C"
    assert "no board 'attic'" in read(pair.one, "", "attic")["error"]


def test_a_message_that_was_recorded_is_taken_once(pair):
    read(pair.one)
    pair.one.fleet.run({"act": "stop"})
    recorded = list(pair.wire.sent)
    hear_again(pair.two, recorded)
    hear_again(pair.one, recorded)
    assert (pair.two.reads, pair.two.stops, pair.one.stops) == (1, 1, 0)


def test_nor_is_it_taken_after_the_board_has_begun_anew(pair, tmp_path):
    pair.one.fleet.run({"act": "stop"})
    recorded = [heard for heard in pair.wire.sent if heard.topic.endswith("/ask")]
    again = Side(pair.wire, FleetKeys(tmp_path / "b"), "workshop")
    hear_again(again, recorded)
    assert again.stops == 0
    assert read(pair.one)["ok"]  # with a ticket that it is given: its clock is not asked
    assert again.reads == 1


def test_clocks_are_not_asked(pair, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert read(pair.one)["ok"]


def test_an_older_presence_does_not_replace_a_newer_one(pair):
    old = next(
        heard for heard in pair.wire.sent if heard.topic == f"picoclaw-fleet/{pair.two.fleet._keys.number}/presence"
    )
    pair.two.describe_board = lambda: {"version": "2", "sensors": [], "outputs": [], "health": []}
    pair.two.fleet.say_presence()
    pair.one.fleet.hear(old)
    assert pair.one.fleet.describe()[0]["version"] == "2"


def test_an_altered_message_is_ignored_and_said_once(pair):
    read(pair.one)
    for heard in [one for one in pair.wire.sent if b"box" in one.payload or b"signature" in one.payload]:
        given = json.loads(heard.payload)
        key = "box" if "box" in given else "text"
        given[key] = given[key][:-9] + ("A" if given[key][-9] != "A" else "B") + given[key][-8:]
        for side in (pair.one, pair.two):
            for _ in range(3):
                side.fleet.hear(heard._replace(payload=json.dumps(given).encode()))
    assert (pair.two.reads, len(pair.two.notes) <= 3, pair.two.notes != []) == (1, True, True)


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b"[]", b"5", b"\xff", b"[" * 9999, b'{"by": [], "box": 5}', b'{"text": {}, "signature": ""}'],
)
@pytest.mark.parametrize("what", ["ask", "answer", "presence", "", "x/y"])
def test_what_is_no_message_is_ignored(pair, payload, what):
    for number in (pair.two.fleet._keys.number, pair.one.fleet._keys.number, "x"):
        pair.two.fleet.hear(Heard(f"picoclaw-fleet/{number}/{what}", payload, False, False))
    assert (pair.two.reads, pair.two.stops) == (0, 0)


def test_a_stranger_is_not_heard_and_a_forgotten_board_is_one(pair, tmp_path):
    (stranger,) = know(pair.wire.connect(tmp_path / "c", "thief"))
    stranger.add(make_peer("workshop", pair.two.fleet._keys.public))
    thief = Side(pair.wire, stranger, "thief")
    thief.fleet.ask(list(stranger.peers.values()), "stop", "", 0.05)
    assert pair.two.stops == 0
    pair.two.fleet._keys.forget(pair.one.fleet._keys.number)
    (said,) = pair.one.fleet.ask(list(pair.one.fleet._keys.peers.values()), "stop", "", 0.05)
    assert (pair.two.stops, said.good, said.text) == (0, False, "it did not answer")


def test_a_request_is_for_one_board_and_answered_to_the_one_who_asked(pair, tmp_path):
    read(pair.one)
    asked = next(heard for heard in pair.wire.sent if heard.topic.endswith("/ask"))
    with pytest.raises(ValueError, match="no board"):
        pair.one.fleet._keys.open(asked.payload)  # its own, from a mirror
    pair.two.fleet._taken.clear()
    pair.two.fleet.hear(asked._replace(reply_to="house/of/a/thief"))
    pair.two.fleet.hear(asked._replace(retained=True))
    assert pair.two.reads == 1
    assert b"porch" not in asked.payload


def test_a_storm_is_bounded_and_a_stop_is_heard_in_it(pair, monkeypatch):
    monkeypatch.setattr(fleet, "time", SimpleNamespace(time=time.time, monotonic=lambda: 5.0))
    peers = list(pair.one.fleet._keys.peers.values())
    for _ in range(200):
        pair.one.fleet.ask(peers, "read", "porch", 0.0)
    assert 0 < pair.two.reads <= fleet._MAX_REQUESTS_A_SECOND
    assert pair.one.fleet.run({"act": "stop"})["boards"][0]["ok"]
    assert pair.two.stops == 1


def test_what_is_remembered_of_requests_is_bounded(pair, monkeypatch):
    monkeypatch.setattr(fleet, "_MAX_TAKEN", 5)
    monkeypatch.setattr(fleet, "_MAX_REQUESTS_A_SECOND", 1000)
    for _ in range(12):
        assert read(pair.one)["ok"]
    recorded = list(pair.wire.sent)
    hear_again(pair.two, recorded)
    assert (pair.two.reads, len(pair.two.fleet._taken) <= 5) == (12, True)


def test_a_board_that_has_too_much_to_do_says_so(pair):
    pair.two.is_busy = True
    assert "too much to do" in read(pair.one)["text"]


def test_two_boards_of_one_name_are_told_apart_by_their_numbers(tmp_path):
    wire = Wire()
    made = [wire.connect(tmp_path / name, name) for name in "abc"]
    asks, two, three = know((made[0][0], "shed"), (made[1][0], "barn"), (made[2][0], "Barn"))
    with pytest.raises(ConfigError, match="2 boards are called barn") as caught:
        asks.find("barn")
    assert two.number in str(caught.value)
    assert asks.find(three.number).name == "Barn"
    with pytest.raises(ConfigError, match="there are: Barn, barn"):
        asks.find("attic")


def test_who_does_not_answer_a_stop_is_said_by_name(pair):
    pair.two.is_gone = True
    (row,) = pair.one.fleet.run({"act": "stop"})["boards"]
    assert (row["name"], row["ok"], row["text"]) == ("workshop", False, "it did not answer")


# --- questions to another board's agent ---


def ask(side, text, board="workshop"):
    return side.fleet.run({"act": "ask", "board": board, "what": text})


def test_the_agent_of_a_board_is_asked_only_where_that_was_granted_and_so_often(pair):
    keys = pair.two.fleet._keys
    asker = keys.find("shed").number
    said = ask(pair.one, "is it dry?")
    assert (said["ok"], "picoclaw fleet grant shed 20" in said["text"]) == (False, True)
    keys.grant(asker, 2)
    assert ask(pair.one, "is  it\ndry?") == {"ok": True, "text": "you asked: is it dry?"}
    assert ask(pair.one, "x" * 5000)["text"].endswith("x" * 1000)
    assert "2 questions an hour" in ask(pair.one, "and now?")["text"]
    assert pair.two.questions == [("shed", "is it dry?"), ("shed", "x" * 1000)]
    assert read(pair.one)["ok"]
    keys.grant(asker, 0)
    assert "grant shed" in ask(pair.one, "and now?")["text"]
    assert "grant workshop" in ask(pair.two, "and you?", "shed")["text"]  # it was granted one way


def test_a_question_that_was_recorded_is_not_asked_again(pair):
    keys = pair.two.fleet._keys
    keys.grant(keys.find("shed").number, 100)
    assert ask(pair.one, "is it dry?")["ok"]
    hear_again(pair.two, list(pair.wire.sent))
    assert len(pair.two.questions) == 1


def test_what_was_granted_is_kept_and_a_new_pairing_does_not_change_it(tmp_path, pair):
    keys = pair.two.fleet._keys
    peer = keys.find("shed")
    keys.grant(peer.number, 7)
    keys.add(peer._replace(asks=0, name="shed2"))
    assert FleetKeys(tmp_path / "b").find("shed2").asks == 7
    keys.forget(peer.number)
    keys.grant(peer.number, 7)
    assert not keys.peers


# --- real boards at a real broker ---


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "broker") as made:
        yield made


class Boards:
    """Daemons of simulated boards, paired with each other."""

    def __init__(self, tmp_path, broker, *names):
        self.homes = {name: tmp_path / name for name in names}
        self.folders = {}
        for name, home in self.homes.items():
            home.mkdir()
            self.folders[name] = furnished(home, SETTINGS.format(port=broker.port, name=name), PUMP)
        know(*((FleetKeys(folder), name) for name, folder in self.folders.items()))
        self.daemons = {name: Daemon(home) for name, home in self.homes.items()}

    def __enter__(self):
        for daemon in self.daemons.values():
            daemon.ready()
        for name in self.homes:
            until(lambda name=name: self.run(name, "fleet").returncode == 0)
        return self

    def __exit__(self, *_):
        for daemon in self.daemons.values():
            daemon.__exit__()

    def run(self, name, *words):
        return picoclaw_process(self.homes[name], *words)

    def level(self, name):
        rows = self.daemons[name].asked("status")["outputs"]["outputs"]
        return next((row["level"] for row in rows if row["name"] == "pump"), 0)


@pytest.mark.alone
@needs_mosquitto
def test_boards_read_and_stop_each_other(tmp_path, broker):
    with (
        Other(broker.port, "picoclaw-fleet/#") as other,
        Boards(tmp_path, broker, "shed", "workshop", "barn") as boards,
    ):
        listed = boards.run("shed", "fleet").stdout
        assert "workshop (" in listed
        assert "pump" in listed
        said = boards.run("shed", "fleet", "read", "workshop", "greenhouse")
        assert "temperature" in said.stdout
        for topic, payload, _ in list(other.heard):  # somebody says it all again
            other.say(topic, payload)
        assert boards.run("workshop", "outputs", "set", "pump", "on", "60").returncode == 0
        assert boards.level("workshop")
        began = time.monotonic()
        said = boards.run("shed", "fleet", "stop")
        assert said.returncode == 0, said.stdout + said.stderr
        times = [int(row.rpartition("(")[2].split()[0]) for row in said.stdout.splitlines() if row.endswith("ms)")]
        assert len(times) == 2
        assert max(times) < 300
        assert time.monotonic() - began < 10
        assert not boards.level("workshop")
        for topic, payload, _ in list(other.heard):  # the stop too
            other.say(topic, payload)
        assert boards.run("shed", "fleet", "read", "workshop").returncode == 0
        log = [line["text"] for line in boards.daemons["workshop"].asked("status")["log"]]
        assert sum("STOP of shed" in line for line in log) == 1
        boards.daemons["barn"].__exit__()
        said = boards.run("shed", "fleet", "stop")
        assert (said.returncode, "barn: NOT STOPPED: it did not answer" in said.stdout) == (1, True)


@needs_mosquitto
def test_a_question_is_answered_by_the_board_that_knows(tmp_path, broker):
    with Boards(tmp_path, broker, "shed", "workshop") as boards:
        tools = boards.run("shed", "tools").stdout
        assert "fleet_list" in tools
        assert "fleet_read" in tools
        said = boards.run("shed", "chat", "-m", "how warm is it in the workshop?").stdout
        assert "workshop greenhouse" in said
        assert "°C" in said
        assert "No sensor here measures the temperature of 'attic'" in (
            boards.run("shed", "chat", "-m", "how warm is it in the attic?").stderr
        )
        boards.daemons["workshop"].__exit__()
        assert (
            "workshop: it did not answer" in boards.run("shed", "chat", "-m", "how warm is it in the workshop?").stderr
        )


@needs_mosquitto
def test_the_agent_of_another_board_is_asked_and_can_only_look_things_up(tmp_path, broker):
    with Boards(tmp_path, broker, "shed", "workshop") as boards:
        said = boards.run("shed", "fleet", "ask", "workshop", "how warm is it?")
        assert (said.returncode, "picoclaw fleet grant shed 20" in " ".join(said.stderr.split())) == (1, True)
        granted = boards.run("workshop", "fleet", "grant", "shed", "5")
        assert "shed (" in granted.stdout
        assert "times an hour" in boards.run("workshop", "fleet").stdout
        said = boards.run("shed", "fleet", "ask", "workshop", "how warm is it?")
        assert "°C" in said.stdout, said.stderr
        boards.run("workshop", "chat", "-m", "remember that the key lies under the pot")
        for words in ("where is the key?", "turn the pump on for 10 seconds", "how warm is it in the shed?"):
            said = boards.run("shed", "fleet", "ask", "workshop", words)
            assert "pot" not in said.stdout
            assert "°C" not in said.stdout
        assert not boards.level("workshop")
        said = boards.run("shed", "tool", "fleet_ask", '{"board": "workshop", "question": "how warm is it?"}')
        assert "°C" in said.stdout, said.stderr
        said = boards.run("shed", "fleet", "ask", "workshop", "how warm is it?")
        assert "5 questions an hour" in said.stderr
        assert boards.run("workshop", "fleet", "grant", "shed", "-1").returncode


@needs_mosquitto
def test_two_boards_are_paired_by_a_code(tmp_path, broker):
    found = {}
    made = {}
    for name in ("shed", "barn"):
        (tmp_path / name).mkdir()
        made[name] = FleetKeys(tmp_path / name)
    code = fleet.make_code()

    def meet(name, *, is_host):
        config = MqttConfig(host="127.0.0.1", port=broker.port, name=name)
        found[name] = fleet.pair(config, "", made[name], code, 10, is_host=is_host)

    host = threading.Thread(target=meet, args=("shed",), kwargs={"is_host": True})
    host.start()
    meet("barn", is_host=False)
    host.join()
    assert (found["shed"].name, found["barn"].name) == ("barn", "shed")
    assert FleetKeys(tmp_path / "shed").find("barn").number == made["barn"].number
    with pytest.raises(ConfigError, match="no other board came"):
        fleet.pair(MqttConfig(host="127.0.0.1", port=broker.port), "", made["shed"], code, 0.5, is_host=False)


@needs_mosquitto
def test_two_daemons_are_paired_by_the_commands(tmp_path, broker):
    homes = [tmp_path / name for name in ("shed", "barn")]
    for home in homes:
        home.mkdir()
        furnished(home, SETTINGS.format(port=broker.port, name=home.name))
    with Daemon(homes[0]).ready(), Daemon(homes[1]).ready():
        assert "no board is paired" in picoclaw_process(homes[0], "fleet").stdout
        words = [*PICOCLAW, "fleet", "pair"]
        with subprocess.Popen(words, env=environment(homes[0]), cwd="/", stdout=subprocess.PIPE, text=True) as host:
            code = next(row.split()[-1] for row in host.stdout if "picoclaw fleet pair " in row)
            assert "paired with shed (" in picoclaw_process(homes[1], "fleet", "pair", code.lower()).stdout
            assert "paired with barn (" in host.stdout.read()
        for one, other in (homes, homes[::-1]):
            said = picoclaw_process(one, "fleet")
            assert (said.returncode, f"{other.name} (" in said.stdout, "answers" in said.stdout) == (0, True, True)
        assert picoclaw_process(homes[0], "fleet", "forget", "barn").returncode == 0
        assert "shed" in picoclaw_process(homes[1], "fleet", "read", "shed").stderr
