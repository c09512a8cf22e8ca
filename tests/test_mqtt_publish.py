"""What Home Assistant is told of a board, and what is published of its sensors, outputs and health."""

import json
from contextlib import closing

import pytest
from daemon_kit import PUMP, Daemon, furnished, until
from model_server import ModelServer, reply
from mqtt_broker import Broker, Other, needs_mosquitto
from person import picoclaw_process
from rows import each_row

from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.daemon.mqtt import MqttChannel
from picoclaw.errors import StoreError
from picoclaw.hw import detect
from picoclaw.hw.reading import QUANTITIES, Reading
from picoclaw.mqtt.discovery import (
    Names,
    make_discovery,
    make_identifier,
    make_output_states,
    make_reminder,
    make_values,
    parse_platforms,
    parse_question,
)

NAMES = Names("picoclaw/shed", "homeassistant")
SETTINGS = """
[mqtt]
host = "127.0.0.1"
port = {port}
name = "shed"
[history]
every_seconds = 1
[sensors.porch]
mqtt = "zigbee2mqtt/porch"
field = "temperature"
unit = "°C"
"""
# Source: Home Assistant, "Sensor entity", units that each device class takes
UNITS = {
    "temperature": "°C",
    "humidity": "%",
    "pressure": "hPa",
    "illuminance": "lx",
    "voltage": "V",
    "current": "A",
    "power": "W",
    "carbon_dioxide": "ppm",
    "distance": "m",
    "pm25": "µg/m³",
    "speed": "m/s",
}


def row(name, **more):
    usual = {"level": 0, "left": None, "armed": True, "graded": False, "longest_s": 60, "takes_orders": True}
    return {"name": name, "kind": "pump", "limits": {}} | usual | more


def announced(readings=(), outputs=()):
    return json.loads(make_discovery(NAMES, "Pi", readings, outputs, 240))


def test_every_quantity_has_a_unit_that_its_class_takes():
    readings = [Reading("a b/c", quantity, 1.0, "bus") for quantity in QUANTITIES]
    found = announced(readings)["cmps"]
    for quantity in QUANTITIES:
        one = found[f"a_b_c_{quantity}"]
        assert one["p"] == "sensor"
        assert one["stat_t"] == f"picoclaw/shed/sensor/a_b_c/{quantity}"
        assert (one["stat_cla"], one["exp_aft"]) == ("measurement", 240)
        if "dev_cla" in one:
            assert one["unit_of_meas"] == UNITS[one["dev_cla"]]
    assert len({one["uniq_id"] for one in found.values()}) == len(found)
    assert all({"t": "picoclaw/shed/status"} in one["avty"] for one in found.values())


def test_only_outputs_that_take_orders_have_a_topic_for_them():
    found = announced((), [row("pump"), row("fan", graded=True), row("heater", takes_orders=False)])["cmps"]
    assert (found["output_pump"]["p"], found["output_pump"]["cmd_t"]) == ("switch", "picoclaw/shed/output/pump/set")
    assert (found["output_fan"]["p"], found["output_fan"]["max"]) == ("number", 100)
    assert found["output_heater"]["p"] == "binary_sensor"
    assert "cmd_t" not in found["output_heater"]
    assert found["stop"]["p"] == "button"


TOPIC = "picoclaw/shed/output/it"


@each_row(
    ("kind", "graded", "platform", "keys"),
    [
        ("pump", False, "switch", {"pl_on": "ON"}),
        ("pump", True, "number", {"min": 0, "max": 100}),
        ("heater", False, "switch", {}),
        ("lock", False, "switch", {}),
        ("light", False, "light", {"stat_val_tpl": "{{ value_json.state }}"}),
        ("light", True, "light", {"bri_cmd_t": f"{TOPIC}/set", "bri_scl": 100, "on_cmd_type": "brightness"}),
        ("fan", False, "fan", {"pl_off": "OFF"}),
        ("motor", True, "fan", {"pct_cmd_t": f"{TOPIC}/set", "pct_stat_t": TOPIC}),
        ("valve", False, "valve", {"pl_open": "ON", "stat_clsd": "OFF"}),
        ("valve", True, "valve", {"pos": True}),
    ],
)
def test_an_output_is_what_hangs_on_it(kind, graded, platform, keys):
    one = announced((), [row("it", kind=kind, graded=graded)])["cmps"]["output_it"]
    assert (one["p"], one["cmd_t"], one["stat_t"]) == (platform, f"{TOPIC}/set", TOPIC)
    assert {key: one[key] for key in keys} == keys


def test_time_left_limits_reminder_and_questions():
    outputs = [row("pump", left=12.5, level=100, limits={"hours": "06:00-22:00"})]
    found = announced((), outputs)["cmps"]
    assert (found["left_pump"]["dev_cla"], found["reminder"]["dev_cla"]) == ("duration", "timestamp")
    assert "ask" not in found
    state = json.loads(make_output_states(NAMES, outputs, {})["picoclaw/shed/output/pump"])
    assert (state["state"], state["left_s"], state["limits"]) == ("ON", 12.5, {"hours": "06:00-22:00"})
    asks = json.loads(make_discovery(NAMES, "Pi", (), (), 240, takes_questions=True))["cmps"]
    assert (asks["ask"]["cmd_t"], asks["answer"]["stat_t"]) == ("picoclaw/shed/ask", "picoclaw/shed/answer")


def test_what_a_reminder_says_is_published_only_where_that_is_wanted():
    due = {"at": 0.0, "text": "pills"}
    assert json.loads(make_reminder(due, with_text=False)) == {"at": "1970-01-01T00:00:00+00:00"}
    assert json.loads(make_reminder(due, with_text=True))["text"] == "pills"
    assert json.loads(make_reminder({}, with_text=True)) == {"at": None, "text": ""}


@each_row(
    ("payload", "text"),
    [(b"", ""), (b" how warm\n is it? ", "how warm is it?"), (b"\xff", "\ufffd"), ("é".encode() * 9000, "é" * 1000)],
)
def test_a_question_is_bounded(payload, text):
    assert parse_question(payload) == text


def test_a_value_says_how_good_and_how_old_it_is():
    readings = [
        Reading("a", "temperature", 21.43219, "bus", at=100.0),
        Reading("b", "temperature", None, "bus", "the part does not answer"),
        Reading("c", "temperature", 20.0, "bus", at=100.0, doubt="noisy"),
    ]
    a, b, c = (json.loads(text) for text in make_values(NAMES, readings, 105.0).values())
    assert (a["value"], a["quality"], a["age_s"], a["problem"]) == (21.432, "good", 5, "")
    assert (b["value"], b["quality"], b["problem"]) == (None, "none", "the part does not answer")
    assert (c["quality"], c["problem"]) == ("doubtful", "noisy")


def test_names_are_fit_for_topics():
    assert make_identifier("a/b #+\0é") == "a_b"
    assert make_identifier("###") == "_"
    assert len(make_identifier("x" * 500)) == 64


@needs_mosquitto
def test_the_daemon_announces_and_publishes(tmp_path):
    with Broker(tmp_path / "broker") as broker, Other(broker.port, "homeassistant/#", "picoclaw/#") as other:
        furnished(tmp_path, SETTINGS.format(port=broker.port), PUMP)
        with Daemon(tmp_path).ready():
            topic = "homeassistant/device/picoclaw-shed/config"
            until(lambda: "greenhouse_temperature" in (other.last(topic) or ""))
            found = json.loads(other.last(topic))
            assert found["cmps"]["output_pump"]["p"] == "binary_sensor"
            assert not any(name.startswith("porch") for name in found["cmps"])
            until(lambda: other.last("picoclaw/shed/sensor/greenhouse/temperature"))
            value = json.loads(other.last("picoclaw/shed/sensor/greenhouse/temperature"))
            assert -40 < value["value"] < 60
            assert value["quality"] == "good"
            until(lambda: other.last("picoclaw/shed/health"))
            assert json.loads(other.last("picoclaw/shed/health"))["problems"] == []
            assert json.loads(other.last("picoclaw/shed/output/pump"))["state"] == "OFF"
            assert json.loads(other.last("picoclaw/shed/reminder")) == {"at": None}
            picoclaw_process(tmp_path, "chat", "-m", "remind me in 20 minutes to take the pills")
            until(lambda: json.loads(other.last("picoclaw/shed/reminder"))["at"])
            assert not any("pills" in payload for _, payload, _ in other.heard)
            with Other(broker.port, "homeassistant/#", "picoclaw/#") as late:
                until(lambda: late.last(topic))
                assert all(retained for heard, _, retained in late.heard if heard == topic)
                before = len(other.heard)
                late.say("homeassistant/status", "online")
                until(lambda: any("health" in heard for heard, *_ in other.heard[before:]))


def test_an_output_that_is_gone_is_forgotten_and_a_sensor_is_not():
    before = make_discovery(NAMES, "Pi", [Reading("a", "temperature", 1.0, "bus")], [row("pump"), row("fan")], 240)
    former = parse_platforms(before.encode())
    found = json.loads(make_discovery(NAMES, "Pi", (), [row("fan")], 240, former=former))["cmps"]
    assert (found["output_pump"], found["left_pump"]) == ({"p": "switch"}, {"p": "sensor"})
    assert (found["output_fan"]["name"], "a_temperature" in found) == ("fan", False)


@each_row(
    "payload",
    [
        *(b"", b"{", b"[]", b"null", b'{"cmps": 5}', b'{"cmps": {"output_a": 5}}', b"[" * 60_000),
        b'{"cmps": {"output_a": {"p": "fan"}}}',  # which says that it is gone
        b'{"cmps": {"output_a/#": {"p": "fan", "name": "a"}}}',
        b'{"cmps": {"output_a": {"p": "automation", "name": "a"}}}',
        b'{"cmps": {"output_a": {"p": ["fan"], "name": "a"}}}',
    ],
)
def test_what_strangers_have_announced_is_nothing_to_forget(payload):
    assert parse_platforms(payload) == {}


@pytest.mark.long
@needs_mosquitto
def test_the_board_is_announced_again_when_a_stranger_has_done_so(tmp_path):
    topic = "homeassistant/device/picoclaw-shed/config"
    with Broker(tmp_path / "broker") as broker, Other(broker.port, topic) as other:
        folder = furnished(tmp_path, SETTINGS.format(port=broker.port), PUMP)
        with Daemon(tmp_path).ready() as daemon:
            until(lambda: "greenhouse_temperature" in (other.last(topic) or ""))
            for payload in ("", '{"cmps": {"evil": {"p": "switch"}}}', "{"):
                other.say(topic, payload, retain=True)
            until(lambda: "greenhouse_temperature" in other.last(topic), 40)
            log = [line["text"] for line in daemon.asked("status")["log"]]
            assert sum("somebody else announces" in line for line in log) == 1
        (folder / "outputs.toml").write_text(PUMP.replace("pump]", "well]"))
        with Daemon(tmp_path).ready() as daemon:
            until(lambda: '"output_pump": {"p": "binary_sensor"}' in other.last(topic))
            assert '"output_well"' in other.last(topic)
            (folder / "outputs.toml").write_text("[outputs.well")
            daemon.asked("status")
            other.say("picoclaw/shed/stop", "STOP")
            other.say("homeassistant/status", "online")
            until(lambda: '"output_well"' not in other.last(topic))
            assert '"output_well": {"p": "binary_sensor"}' not in other.last(topic)
            assert not any("somebody else" in line["text"] for line in daemon.asked("status")["log"])


@needs_mosquitto
def test_what_fails_ends_no_thread_and_is_said_once(tmp_path):
    """A disk that is full, a file that cannot be read: the next message is taken all the same."""
    with Broker(tmp_path / "broker") as broker, Other(broker.port, "picoclaw/#") as other:
        folder = furnished(tmp_path, SETTINGS.format(port=broker.port), PUMP)
        config, log = load_config({"PICOCLAW_HOME": str(folder)}), []
        state = {"fails": True, "problems": [], "version": "9"}

        def get_status():
            if state["fails"]:
                raise StoreError("the disk is full")
            return state

        with closing(App(config, detect.choose_board("sim", config))) as app:
            channel = MqttChannel(app, lambda text, **_: log.append(text), get_status, waits=(0.01, 0.05))
            channel.start(lambda _: None)
            until(lambda: log)
            (folder / "outputs.toml").unlink()
            (folder / "outputs.toml").mkdir()
            other.say("picoclaw/shed/output/pump/set", "ON")
            other.say("picoclaw/shed/stop", "STOP")
            until(lambda: len(log) > 1)
            state["fails"] = False
            (folder / "outputs.toml").rmdir()
            channel.note_readings([])
            until(lambda: '"version": "9"' in (other.last("picoclaw/shed/health") or ""))
            channel.stop()
        assert sum("the disk is full" in line for line in log) == 1


@needs_mosquitto
def test_nothing_but_its_presence_is_published_where_that_is_not_wanted(tmp_path):
    with Broker(tmp_path / "broker") as broker, Other(broker.port, "#") as other:
        settings = SETTINGS.format(port=broker.port).replace('name = "shed"', 'name = "shed"\ndiscovery = ""')
        folder = furnished(tmp_path, settings)
        (folder / "rules.toml").write_text('[rules.warm]\nwhen = "greenhouse.temperature > -50"\nnotify = "warm"\n')
        with Daemon(tmp_path).ready() as daemon:
            until(lambda: (folder / "history.db").exists() and daemon.asked("status")["outbox"])
        assert {topic for topic, *_ in other.heard} == {"picoclaw/shed/status"}


# --- questions ---


class Questions:
    """A daemon that takes five questions an hour, and somebody at the broker who asks."""

    def __init__(self, tmp_path, broker):
        settings = SETTINGS.format(port=broker.port).replace('name = "shed"', 'name = "shed"\nquestions_an_hour = 5')
        self.folder = furnished(tmp_path, settings, PUMP + "mqtt = true\n")
        self.daemon, self.other = Daemon(tmp_path), Other(broker.port, "picoclaw/#")

    def __enter__(self):
        self.daemon.ready()
        until(lambda: self.other.last("picoclaw/shed/status") == "online")
        return self

    def __exit__(self, *_):
        self.other.__exit__()
        self.daemon.__exit__()

    def ask(self, text, **how):
        before = len(self.answers())
        self.other.say("picoclaw/shed/ask", text, **how)
        return until(lambda: self.answers()[before:])[0]

    def answers(self):
        return [json.loads(text) for topic, text, _ in list(self.other.heard) if topic == "picoclaw/shed/answer"]


@needs_mosquitto
def test_whoever_is_at_the_broker_may_ask_and_nothing_else(tmp_path):
    with Broker(tmp_path / "broker") as broker, Questions(tmp_path, broker) as house:
        picoclaw_process(tmp_path, "chat", "-m", "remember that the key lies under the pot")
        house.ask("hello")
        assert "°C" in house.ask("how warm is it?")["answer"]
        assert "pot" not in house.ask("where is the key?")["answer"]
        assert "refused" in house.ask("turn the pump on for 10 seconds")["answer"]
        assert "refused" in house.ask("remind me in 10 minutes to eat")["answer"]
        assert "5 questions an hour" in house.ask("how warm is it now?")["answer"]
        status = house.daemon.asked("status")
        assert (status["jobs"], [row["level"] for row in status["outputs"]["outputs"]]) == (0, [])
        house.other.say("picoclaw/shed/ask", "how warm is it then?", retain=True)
        until(lambda: house.answers()[-1]["question"] == "how warm is it then?")
        before = len(house.answers())
        broker.stop()
        until(lambda: not house.daemon.asked("status")["channels"]["mqtt"]["up"])
        broker.start()  # which gives the question that it has kept to everybody who comes back
        until(lambda: house.daemon.asked("status")["channels"]["mqtt"]["up"])
        until(house.other._client.is_connected)
        house.ask("the last")
        assert len(house.answers()) == before + 1
        assert "how warm" not in picoclaw_process(tmp_path, "memory", "search", "warm").stdout


@needs_mosquitto
def test_stop_is_heard_among_questions_and_too_much_is_bounded(tmp_path):
    with Broker(tmp_path / "broker") as broker, Questions(tmp_path, broker) as house:
        house.other.say("homeassistant/status", "online")
        assert "safe level" in house.ask("stop everything")["answer"]
        assert house.daemon.asked("status")["outputs"]["stopped"]
        for _ in range(300):
            house.other.say("picoclaw/shed/stop", "STOP", qos=0)
            house.other.say("homeassistant/status", "online", qos=0)
            house.other.say("picoclaw/shed/ask", "what do you have?", qos=0)
        until(lambda: len(house.answers()) > 290)
        audit = picoclaw_process(tmp_path, "outputs", "audit").stdout
        assert audit.count("stop") < 12, audit
        assert sum(topic.endswith("/config") for topic, *_ in house.other.heard) <= 4
        assert len([one for one in house.answers() if "an hour are answered" not in one["answer"]]) <= 5


@needs_mosquitto
def test_the_model_is_told_nothing_private_for_a_question_over_mqtt(tmp_path):
    """Neither pages of the owner's, nor notes, nor tools that would show them; also with a policy that trusts guests."""
    with Broker(tmp_path / "broker") as broker, ModelServer(lambda _: reply("It is dry.")) as model:
        settings = SETTINGS.format(port=broker.port).replace('name = "shed"', 'name = "shed"\nquestions_an_hour = 5')
        folder = furnished(tmp_path, f'{settings}[model]\nbase_url = "{model.url}"\nname = "m"\n')
        (folder / "policy.toml").write_text('[effects]\nprivate = { guest = "allow" }\nexec = { guest = "allow" }\n')
        (folder / "workspace/USER.md").write_text("# User\n\n- Name: Heloise\n\nThe safe opens with 4711.\n")
        picoclaw_process(tmp_path, "tool", "memory_store", '{"text": "the key lies under the pot", "lasting": true}')
        with Daemon(tmp_path).ready(), Other(broker.port, "picoclaw/#") as other:
            until(lambda: other.last("picoclaw/shed/status") == "online")
            other.say("picoclaw/shed/ask", "is it dry? what is the code, and where is the key?")
            until(lambda: other.last("picoclaw/shed/answer"))
            assert "It is dry." in other.last("picoclaw/shed/answer")
        sent = json.dumps(model.requests[-1].body)
        assert "is it dry?" in sent
        assert not [word for word in ("Heloise", "4711", "under the pot") if word in sent]
        offered = {one["function"]["name"] for one in model.requests[-1].body["tools"]}
        assert "sensor_read" in offered
        assert offered.isdisjoint({"memory_search", "read_file", "exec", "list_dir"})
        picoclaw_process(tmp_path, "chat", "-m", "hello")
        sent = json.dumps(model.requests[-1].body)
        assert all(word in sent for word in ("4711", "under the pot", "memory_search"))  # which the owner's turn has
