"""`picoclaw mqtt discover`: what is published is listed, and what could be a sensor is offered as lines that can be read."""

import json
import tomllib

import pytest
from mqtt_broker import Broker, Other, needs_mosquitto
from person import picoclaw
from rows import each_row
from test_mqtt_sensors import TASMOTA, ZIGBEE

from picoclaw.config.tables import SensorConfig
from picoclaw.hw.loader import format_sensor_table, resolve_part
from picoclaw.hw.reading import Reading
from picoclaw.mqtt.connection import Heard
from picoclaw.mqtt.discovery import (
    MAX_TOPICS,
    Listener,
    Names,
    is_filter,
    list_offers,
    list_topics,
    make_discovery,
    make_values,
)

ESPHOME = {
    "name": "Attic temperature",
    "~": "attic",
    "stat_t": "~/sensor/temperature/state",
    "unit_of_meas": "°C",
    "dev_cla": "temperature",
    "avty_t": "~/status",
    "dev": {"name": "attic", "ids": "a1"},
}
DEVICE = {
    "dev": {"name": "Porch", "ids": "0x1"},
    "o": {"name": "zigbee2mqtt"},
    "state_topic": "zigbee2mqtt/porch",
    "availability": [{"topic": "zigbee2mqtt/porch/availability"}],
    "cmps": {
        "t": {"p": "sensor", "unit_of_measurement": "°C", "value_template": "{{ value_json.temperature }}"},
        "h": {"p": "sensor", "unit_of_measurement": "%", "value_template": "{{ value_json['humidity'] | round(1) }}"},
        "x": {"p": "sensor", "unit_of_measurement": "%", "value_template": "{% if x %}1{% endif %}"},
        "b": {"p": "button"},
        "e": 5,
    },
}


def offers(known=None, **published):
    heard = Listener()
    for topic, payload in published.items():
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        heard.hear(Heard(topic, data, False, False))
    return {one.name: (one.sensor, one.value) for one in list_offers(heard.last, known or {}, "picoclaw/shed/")}


def test_what_is_announced_for_home_assistant_is_understood():
    found = offers(
        **{
            "homeassistant/sensor/attic/temperature/config": ESPHOME,
            "attic/sensor/temperature/state": 21.5,
            "homeassistant/device/0x1/config": DEVICE,
            "zigbee2mqtt/porch": {"temperature": 20, "humidity": 50.5},
        }
    )
    assert found["attic"] == (
        SensorConfig(
            mqtt="attic/sensor/temperature/state", unit="°C", quantity="temperature", availability="attic/status"
        ),
        "21.5 °C",
    )
    away = "zigbee2mqtt/porch/availability"
    assert found["porch"] == (
        SensorConfig(mqtt="zigbee2mqtt/porch", field="temperature", unit="°C", availability=away),
        "20 °C",
    )
    assert found["porch_humidity"][0].field == "humidity"
    assert len(found) == 3


def test_another_board_of_picoclaw_is_offered_and_this_one_is_not():
    reading = Reading("porch", "temperature", 20.0, "bus", at=100.0)
    published = {}
    for name in ("shed", "barn"):
        names = Names(f"picoclaw/{name}", "homeassistant")
        published |= {names.discovery: json.loads(make_discovery(names, "Pi", [reading], [], 240))}
        published |= {topic: json.loads(text) for topic, text in make_values(names, [reading], 100.0).items()}
    topic = "picoclaw/barn/sensor/porch/temperature"
    found = offers(**published)
    assert found["barn"] == (
        SensorConfig(mqtt=topic, field="value", unit="°C", quantity="temperature", availability="picoclaw/barn/status"),
        "20 °C",
    )
    assert not any("shed" in sensor.mqtt for sensor, _ in found.values())


def test_what_looks_like_a_sensor_is_offered():
    found = offers(
        **{"zigbee2mqtt/porch": ZIGBEE, "tele/boiler/SENSOR": TASMOTA, "shed/humidity": 40, "shed/name": "x"}
    )
    fields = {(sensor.mqtt, sensor.field, sensor.unit, value) for sensor, value in found.values()}
    assert ("zigbee2mqtt/porch", "temperature", "°C", "21.43 °C") in fields
    assert ("tele/boiler/SENSOR", "DS18B20-1.Temperature", "°C", "57.7 °C") in fields
    assert ("tele/boiler/SENSOR", "ENERGY.Voltage", "V", "231 V") in fields
    assert ("shed/humidity", "", "%", "40 %") in fields
    assert not any(sensor.mqtt == "shed/name" for sensor, _ in found.values())
    assert "zigbee2mqtt/porch" in {sensor.mqtt for sensor, _ in found.values()}
    known = {"mine": SensorConfig(mqtt="shed/humidity", unit="%")}
    assert not any(sensor.mqtt == "shed/humidity" for sensor, _ in offers(known, **{"shed/humidity": 40}).values())


@each_row(
    "payload",
    [
        b"",
        b"\xff",
        b"[" * 60_000,
        b'{"cmps": 5}',
        b'{"dev": 5, "cmps": {"a": {"stat_t": 5, "unit_of_meas": [], "val_tpl": {}}}}',
        b'{"stat_t": "a/#", "unit_of_meas": "%"}',
        b'{"stat_t": "a", "unit_of_meas": "furlong"}',
        b'{"stat_t": "a", "unit_of_meas": "%", "avty": [5]}',
    ],
)
def test_what_strangers_announce_breaks_nothing(payload):
    assert len(offers(**{"homeassistant/sensor/x/config": payload, "homeassistant/device/x/config": payload})) <= 1


def test_topics_are_bounded_and_nothing_reaches_the_terminal_unseen():
    heard = Listener()
    for number in range(MAX_TOPICS + 10):
        heard.hear(Heard(f"t/{number}\x1b[2J", b"\x1b]0;x\x07" + b"a" * 500, False, False))
    assert (len(heard.last), heard.missed) == (MAX_TOPICS, True)
    assert not any("\x1b" in line or len(line) > 250 for line in list_topics(heard.last))


@needs_mosquitto
def test_the_command_prints_lines_that_can_be_added(tmp_path):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    refused = picoclaw(tmp_path, "mqtt", "discover")
    assert (refused.returncode, "there is no broker" in refused.stderr) == (1, True)
    with Broker(tmp_path / "broker") as broker, Other(broker.port) as other:
        settings = f"[mqtt]\nhost = '127.0.0.1'\nport = {broker.port}\n"
        (home / "config.toml").write_text(settings)
        other.say("zigbee2mqtt/porch", json.dumps(ZIGBEE), retain=True)
        other.say("homeassistant/device/0x1/config", json.dumps(DEVICE), retain=True)
        done = picoclaw(tmp_path, "mqtt", "discover", "--seconds", "1")
        assert (done.returncode, done.stderr) == (0, "")
        assert "zigbee2mqtt/porch: {" in done.stdout
        lines = done.stdout[done.stdout.index("# To add") :]
        tables = tomllib.loads(lines)["sensors"]
        assert tables["porch"] == {
            "mqtt": "zigbee2mqtt/porch",
            "field": "temperature",
            "unit": "°C",
            "availability": "zigbee2mqtt/porch/availability",
        }
        (home / "config.toml").write_text(settings + lines)
        done = picoclaw(tmp_path, "mqtt", "discover", "--seconds", "1")
        assert "[sensors" not in done.stdout
    done = picoclaw(tmp_path, "mqtt", "discover", "--seconds", "1")
    assert (done.returncode, "refused" in done.stderr) == (1, True)


@each_row("topic", ["#", "+", "a", "a/#", "+/b", "a/+/#", "$SYS/#", "ä b"])
def test_what_can_be_listened_to(topic):
    assert is_filter(topic)


@pytest.mark.parametrize(
    "topic", ["", "a/#/b", "#/a", "a+", "a#", "a/b#", "\0", "a\n", "x" * 66_000, "\udc80" * 66_000]
)
def test_what_cannot_be_listened_to(topic, tmp_path):
    (tmp_path / "picoclaw").mkdir()
    (tmp_path / "picoclaw/config.toml").write_text('[mqtt]\nhost = "127.0.0.1"\nport = 9\n')
    said = picoclaw(tmp_path, "mqtt", "discover", "--topic", topic)
    assert (said.returncode, "is no topic to listen to" in said.stderr) == (1, True)
    assert len(said.stderr) < 400


def test_the_lines_of_a_wired_sensor_are_as_before():
    assert format_sensor_table("a", SensorConfig("bme280", 1, 0x76)) == (
        '[sensors."a"]\npart = "bme280"\nbus = 1\naddress = 0x76\n'
    )
    assert resolve_part(SensorConfig(mqtt="t", unit="%"), []).quantity == "humidity"
