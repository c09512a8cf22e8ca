"""Sensors from MQTT: payloads as Zigbee2MQTT, Tasmota and ESPHome publish them, and what nobody should."""

import json
import math
import os
import time

import pytest
from daemon_kit import Daemon, furnished, until
from mqtt_broker import Broker, Other, needs_mosquitto
from person import picoclaw_process
from rows import each_row

from picoclaw.automation.clock import boottime
from picoclaw.config import load_config
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.loader import describe_part, resolve_part
from picoclaw.hw.reading import Reading, find_conversion
from picoclaw.mqtt.connection import Heard
from picoclaw.mqtt.discovery import MqttSensors
from picoclaw.outputs.config import RequiredSensor
from picoclaw.outputs.supervisor.sensing import RequiredSensorSampler

ZIGBEE = {
    "battery": 97,
    "humidity": 55.21,
    "linkquality": 87,
    "pressure": 1008.4,
    "temperature": 21.43,
    "voltage": 3005,
}
TASMOTA = {
    "Time": "2026-11-24T09:00:00",
    "SI7021": {"Temperature": 20.6, "Humidity": 48.1},
    "DS18B20-1": {"Id": "01144A0CB2AA", "Temperature": 57.7},
    "ENERGY": {"Power": [12, 0], "Voltage": 231},
    "TempUnit": "C",
}


class Porch:
    """One sensor, its clock and its log."""

    def __init__(self, **settings):
        self.now, self.log = 1000.0, []
        one = SensorConfig(**({"mqtt": "t", "unit": "°C"} | settings))
        self.sensors = MqttSensors({"porch": one}, self.log.append, lambda: self.now)

    def say(self, payload, *, topic="t", retained=False, too_long=False):
        data = payload if isinstance(payload, bytes) else str(payload).encode()
        self.sensors.hear(Heard(topic, data, retained, too_long))
        return self

    def reads(self, flooded_at=None):
        return self.sensors.describe(flooded_at)["porch"]


# --- what others publish ---


@each_row(
    ("payload", "settings", "value"),
    [
        (ZIGBEE, {"field": "temperature"}, 21.43),
        (ZIGBEE, {"field": "humidity", "unit": "%"}, 55.21),
        (ZIGBEE, {"field": "voltage", "unit": "mV"}, 3.005),
        (TASMOTA, {"field": "SI7021.Temperature"}, 20.6),
        (TASMOTA, {"field": "DS18B20-1.Temperature"}, 57.7),
        (TASMOTA, {"field": "ENERGY.Power[0]", "unit": "W"}, 12),
        ("21.5", {}, 21.5),
        (" -3 \n", {}, -3),
        ('"21.5"', {}, 21.5),
        ("70.7", {"unit": "°F"}, 21.5),
        ("101.3", {"unit": "kPa"}, 1013),
        ("ON", {"unit": "", "quantity": "level"}, 1),
        ({"contact": False}, {"unit": "", "quantity": "level", "field": "contact"}, 0),
    ],
)
def test_payloads_of_devices(payload, settings, value):
    found = Porch(**settings).say(json.dumps(payload) if isinstance(payload, dict) else payload).reads()
    assert math.isclose(found.pop("value"), value, rel_tol=1e-9)
    assert found == {"age": 0, "problem": "", "doubt": ""}


HOSTILE = {
    "nan": "no number: nan",
    "NaN": "no number: nan",
    "Infinity": "no number: inf",
    "1e400": "no number: inf",
    "-inf": "no number",
    "": "no number",
    "null": "no number: None",
    "true": "no number: True",
    "[]": "no number",
    '{"temperature": 21}': "no number",
    "21,5": "no number: 21,5",
    "21.5 °C": "no number",
    "0x15": "no number",
    "1" * 5000: "no number",
    "9" * 16: "no number",
    "[" * 60_000: "no number",
    "unavailable": "no number: unavailable",
    "\x1b[2Jok": "no number",
    b"\xff\xfe": "no text",
}


@each_row("payload", HOSTILE)
def test_what_is_no_value_is_refused_and_said_once(payload):
    porch = Porch().say("20")
    for _ in range(50):
        porch.say(payload)
    found = porch.reads()
    assert found["value"] is None
    assert HOSTILE[payload] in found["problem"]
    assert len(found["problem"]) < 120
    assert "\x1b" not in found["problem"]
    assert len(porch.log) == 1
    assert porch.say("21").reads()["value"] == 21
    porch.say(payload)
    assert len(porch.log) == 2


def test_a_payload_that_is_too_long_is_refused():
    assert "longer than 65536 bytes" in Porch().say("", too_long=True).reads()["problem"]


def test_a_field_that_is_missing_leaves_the_last_value_and_is_named_when_there_was_none():
    porch = Porch(field="temperature")
    assert porch.reads()["problem"] == "nothing has been published yet"
    porch.say('{"battery": 97, "action": "x"}')
    assert porch.reads()["problem"] == "what it publishes has no field 'temperature'; it has: battery, action"
    porch.say('{"battery": 96}')
    assert len(porch.log) == 1
    assert porch.say('{"temperature": 20}').say('{"battery": 95}').reads()["value"] == 20
    assert Porch(field="a[3].b").say("[1]").reads()["value"] is None
    assert Porch(field="a[0]").say('{"a": {"0": 5}}').reads()["value"] is None


# --- age, availability, what the broker has kept ---


def test_a_value_becomes_stale():
    porch = Porch(stale_minutes=10).say("20")
    porch.now += 599
    assert (porch.reads()["value"], porch.reads()["age"], porch.reads()["problem"]) == (20, 599, "")
    porch.now += 2
    assert porch.reads()["problem"] == "nothing has been published for 10 min"


def test_what_the_broker_had_kept_is_doubtful_until_it_is_said_anew():
    porch = Porch().say("20", retained=True)
    assert "nobody knows how old" in porch.reads()["doubt"]
    assert porch.say("20").reads()["doubt"] == ""
    porch.now += 60
    porch.say("20", retained=True)  # again after the connection was lost
    assert (porch.reads()["doubt"], porch.reads()["age"]) == ("", 60)
    assert "nobody knows" in porch.say("25", retained=True).reads()["doubt"]


@each_row(
    ("payload", "problem"),
    [
        ("offline", "it is offline"),
        ('{"state": "offline"}', "it is offline"),
        ("Offline", "it is offline"),
        ("online", ""),
        ('{"state": "online"}', ""),
        ("[[", ""),
    ],
)
def test_availability(payload, problem):
    porch = Porch(availability="t/availability").say("20").say(payload, topic="t/availability", retained=True)
    assert porch.reads()["problem"] == problem
    assert porch.say("online", topic="t/availability").reads()["problem"] == ""


def test_values_are_doubtful_in_a_storm():
    porch = Porch().say("20")
    assert "more is published than can be read" in porch.reads(flooded_at=porch.now - 5)["doubt"]
    assert porch.reads(flooded_at=porch.now - 100)["doubt"] == ""


# --- settings ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mqtt = 'a/+'", "one topic"),
        ("mqtt = '#'", "one topic"),
        ("mqtt = 'a'\npart = 'bme280'", "exclude each other"),
        ("field = 'a'", "'part' is missing"),
        ("part = 'bme280'\nunit = '°C'", "belong to mqtt"),
        ("mqtt = 'a'\nbus = 1", "belong to a part"),
        ("mqtt = 'a'\navailability = 'x/#'", "one topic"),
        ("mqtt = 'a'\nstale_minutes = 0", "stale_minutes"),
    ],
)
def test_settings_that_are_wrong_are_refused(tmp_path, text, words):
    (tmp_path / "config.toml").write_text(f"[mqtt]\nhost = 'pi'\n[sensors.porch]\n{text}\n")
    with pytest.raises(ConfigError, match=words):
        load_config({"PICOCLAW_HOME": str(tmp_path)})


def test_a_topic_takes_a_broker(tmp_path):
    (tmp_path / "config.toml").write_text("[sensors.porch]\nmqtt = 'a'\nunit = '°C'\n")
    with pytest.raises(ConfigError, match=r"takes a table \[mqtt\]"):
        load_config({"PICOCLAW_HOME": str(tmp_path)})


@each_row(
    ("given", "quantity"),
    [
        (("°C",), "temperature"),
        (("%",), "humidity"),
        (("", "", "SI7021.Temperature"), "temperature"),
        (("%", "", "duty"), "duty"),
        (("W", "", "ENERGY.Power[0]"), "power"),
        (("m", "altitude"), "altitude"),
        (("", "co2"), "co2"),
    ],
)
def test_what_is_measured_is_found_by_unit_quantity_or_field(given, quantity):
    assert find_conversion(*given).quantity == quantity


@each_row("given", [("",), ("furlong",), ("°C", "pressure"), ("", "warmth"), ("kPa", "temperature")])
def test_what_is_measured_has_to_be_said(given):
    with pytest.raises(ValueError, match=r"unit|quantit|measured"):
        find_conversion(*given)
    with pytest.raises(ConfigError):
        resolve_part(SensorConfig(mqtt="t", **dict(zip(("unit", "quantity"), given, strict=False))), [])


def test_it_is_described_by_its_topic():
    assert describe_part(resolve_part(SensorConfig(mqtt="a/b", unit="°C"), [])) == "mqtt on a/b"


# --- as wired ones ---

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


RULES = """
[rules.warm]
when = "porch.temperature > 21"
cooldown = "12 hours"
notify = "It is warm"
"""


def said(home, *words):
    done = picoclaw_process(home, *words, "--board", "sim")
    return done.returncode, done.stdout + done.stderr


def test_an_old_value_is_an_old_sample_for_an_output_that_requires_it():
    read, write = os.pipe()
    reading = Reading("porch", "temperature", 20.0, "mqtt on t", at=time.time() - 300)
    sampler = RequiredSensorSampler(lambda *_: reading, write)
    needs = RequiredSensor("porch", "temperature", None, None, 60.0)
    sampler.want(needs)
    os.read(read, 1)
    assert 299 < boottime() - sampler.latest(needs).at < 330
    os.close(read)


@needs_mosquitto
def test_it_is_read_and_remembered_like_a_wired_one(tmp_path):
    with Broker(tmp_path / "broker") as broker, Other(broker.port) as other:
        folder = furnished(tmp_path, SETTINGS.format(port=broker.port))
        (folder / "rules.toml").write_text(RULES)
        home = tmp_path
        code, text = said(home, "sensors", "porch")
        assert code == 1
        assert "picoclaw does not run" in text
        with Daemon(home).ready() as daemon:
            until(lambda: daemon.asked("status")["channels"]["mqtt"]["up"])
            until(
                lambda: (
                    other.say("zigbee2mqtt/porch", json.dumps(ZIGBEE))
                    or daemon.asked("mqtt")["sensors"]["porch"]["value"] == 21.43
                )
            )
            code, text = said(home, "sensors", "porch")
            assert (code, "porch: temperature 21.43 °C (mqtt on zigbee2mqtt/porch, read just now)" in text) == (0, True)
            code, text = said(home, "chat", "-m", "how warm is it on the porch?")
            assert "21.4" in text
            until(lambda: "warm: porch temperature 21.43 °C" in said(home, "rules", "log")[1])
            other.say("zigbee2mqtt/porch", '{"temperature": NaN}')
            until(lambda: daemon.asked("mqtt")["sensors"]["porch"]["problem"])
            code, text = said(home, "sensors", "porch")
            assert (code, "no number" in text) == (1, True)
            daemon.asked("quit")
            daemon.ends()
        assert "21.4" in said(home, "history", "porch.temperature", "today")[1]
