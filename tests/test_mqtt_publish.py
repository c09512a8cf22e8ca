"""What Home Assistant is told of a board, and what is published of its sensors, outputs and health."""

import json

from daemon_kit import PUMP, Daemon, furnished, until
from mqtt_broker import Broker, Other, needs_mosquitto

from picoclaw.hw.reading import QUANTITIES, Reading
from picoclaw.mqtt.homeassistant import Names, make_discovery, make_identifier, make_values

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
    return {"name": name} | usual | more


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
            with Other(broker.port, "homeassistant/#", "picoclaw/#") as late:
                until(lambda: late.last(topic))
                assert all(retained for heard, _, retained in late.heard if heard == topic)
                before = len(other.heard)
                late.say("homeassistant/status", "online")
                until(lambda: any("health" in heard for heard, *_ in other.heard[before:]))


@needs_mosquitto
def test_nothing_but_its_presence_is_published_where_that_is_not_wanted(tmp_path):
    with Broker(tmp_path / "broker") as broker, Other(broker.port, "#") as other:
        settings = SETTINGS.format(port=broker.port).replace('name = "shed"', 'name = "shed"\ndiscovery = ""')
        folder = furnished(tmp_path, settings)
        (folder / "rules.toml").write_text('[rules.warm]\nwhen = "greenhouse.temperature > -50"\nnotify = "warm"\n')
        with Daemon(tmp_path).ready() as daemon:
            until(lambda: (folder / "history.db").exists() and daemon.asked("status")["outbox"])
        assert {topic for topic, *_ in other.heard} == {"picoclaw/shed/status"}
