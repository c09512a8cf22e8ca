"""Orders over MQTT: only for outputs that say so, past the same guard, as leases; nothing that was kept, nothing of strangers."""

import json
import time

import pytest
from daemon_kit import PUMP, Daemon, furnished, until
from mqtt_broker import Broker, Other, needs_mosquitto
from person import picoclaw_process
from rows import each_row

from picoclaw.mqtt.discovery import parse_order
from picoclaw.outputs.config import load_outputs
from picoclaw.security.policy import EFFECTS, CallRequest, Policy, ToolCall, VerdictRow, decide

FAN = """
[outputs.fan]
line = "GPIO22"
kind = "motor"
longest_on_s = {longest}
confirm = false
mqtt = true
"""
SETTINGS = """
[mqtt]
host = "127.0.0.1"
port = {port}
name = "shed"
[sensors.porch]
mqtt = "zigbee2mqtt/porch"
field = "temperature"
unit = "°C"
"""
TOPIC = "picoclaw/shed/output"


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path / "broker") as made:
        yield made


class House:
    """A daemon with a pump that takes no orders and a fan that does, and somebody else at the broker."""

    def __init__(self, tmp_path, broker, longest=60):
        self.home, self.broker = tmp_path, broker
        self.folder = furnished(tmp_path, SETTINGS.format(port=broker.port), PUMP + FAN.format(longest=longest))
        self.daemon, self.other = Daemon(tmp_path), Other(broker.port, "picoclaw/#", "homeassistant/#")

    def __enter__(self):
        self.daemon.ready()
        until(lambda: self.state("fan"))
        return self

    def __exit__(self, *_):
        self.other.__exit__()
        self.daemon.__exit__()

    def state(self, name):
        return json.loads(self.other.last(f"{TOPIC}/{name}") or "null")

    def is_on(self, name):
        return self.state(name)["state"] == "ON"

    def level(self, name):
        rows = self.daemon.asked("status")["outputs"]["outputs"]
        return next((row["level"] for row in rows if row["name"] == name), 0)

    def order(self, name, payload, **how):
        self.other.say(f"{TOPIC}/{name}/set", payload, **how)

    def audit(self):
        return picoclaw_process(self.home, "outputs", "audit").stdout

    def log(self):
        return [line["text"] for line in self.daemon.asked("status")["log"]]


# --- what counts as an order ---


@each_row(
    ("payload", "level"),
    [(b"ON", "on"), (b"off", "off"), (b" On\n", "on"), (b"0", "off"), (b"100", "on"), (b"40", "40"), (b"12.5", "12.5")],
)
def test_orders(payload, level):
    assert parse_order(payload) == level


@each_row("payload", [b"", b"101", b"-1", b"nan", b"1e2", b"TOGGLE", b"on; off", b"\xff", b"9" * 99_999])
def test_what_is_no_order(payload):
    with pytest.raises(ValueError, match="is no order") as caught:
        parse_order(payload)
    assert len(str(caught.value)) < 200


# --- who may ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mqtt = true\nconfirm = true", "takes confirm = false"),
        ("mqtt = true", "takes confirm = false"),
        ("mqtt = 1\nconfirm = false", "mqtt"),
        ('who = ["mqtt"]', "takes confirm = false"),
        ('mqtt = "yes"\nconfirm = false', "mqtt"),
    ],
)
def test_declarations_that_cannot_be_meant(tmp_path, text, words):
    file = tmp_path / "outputs.toml"
    file.write_text(f'[outputs.fan]\nline = "GPIO22"\nkind = "motor"\nlongest_on_s = 60\n{text}\n')
    (problem,) = load_outputs(file).problems
    assert words in problem


def test_older_declarations_keep_the_digest_they_were_armed_with(tmp_path):
    file = tmp_path / "outputs.toml"
    plain = '[outputs.fan]\nline = "GPIO22"\nkind = "motor"\nlongest_on_s = 60\nconfirm = false\n'
    file.write_text(plain)
    before = load_outputs(file).outputs["fan"]
    file.write_text(plain + "mqtt = false\n")
    assert load_outputs(file).outputs["fan"].digest == before.digest
    file.write_text(plain + "mqtt = true\n")
    now = load_outputs(file).outputs["fan"]
    assert (now.who, now.digest == before.digest) == (["owner", "mqtt"], False)


def test_the_guard_takes_an_order_for_an_unattended_call():
    asked = CallRequest("switch", ToolCall("1", "output", {}))
    assert decide(Policy(), asked, "mqtt", ()).verdict == "allow"
    decision = decide(Policy({"switch": {"unattended": "refuse"}}), asked, "mqtt", ())
    assert (decision.verdict, "somebody at the MQTT broker" in decision.why) == ("refuse", True)
    assert decide(Policy(), asked._replace(effect="actuate"), "mqtt", ()).verdict == "ask"


@each_row("effect", EFFECTS)
def test_the_guard_lets_a_question_over_mqtt_read_and_stop_whatever_the_policy_says(effect):
    policy = Policy({one: dict.fromkeys(VerdictRow._fields, "allow") for one in EFFECTS})
    asked = CallRequest(effect, ToolCall("1", "exec", {}))
    wanted = "allow" if effect in {"read", "safe"} else "refuse"
    assert decide(policy, asked, "remote", ()).verdict == wanted
    assert decide(policy, asked._replace(effect="read", other_effects=(effect,)), "remote", ()).verdict == wanted


# --- a real broker, a real daemon, the simulated board and its supervisor ---


@needs_mosquitto
def test_what_is_left_on_goes_off_by_itself_and_says_why(tmp_path, broker):
    with House(tmp_path, broker, longest=3) as house:
        found = json.loads(house.other.last("homeassistant/device/picoclaw-shed/config"))["cmps"]
        assert (found["output_fan"]["p"], found["output_pump"]["p"]) == ("fan", "binary_sensor")
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        assert 0 < house.state("fan")["left_s"] <= 3
        until(lambda: not house.is_on("fan"))
        assert house.state("fan")["why"] == "its time was up"
        assert "mqtt" in house.audit()


@needs_mosquitto
def test_an_order_may_end_it_sooner(tmp_path, broker):
    with House(tmp_path, broker) as house:
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        house.order("fan", "OFF")
        until(lambda: not house.is_on("fan"))
        assert "safe level" in house.state("fan")["why"]
        assert house.level("fan") == 0


@needs_mosquitto
def test_nothing_else_is_obeyed(tmp_path, broker):
    with House(tmp_path, broker) as house:
        house.order("fan", "ON", retain=True)  # it arrives as new where somebody listens already
        until(lambda: house.is_on("fan"))
        house.order("fan", "OFF")
        until(lambda: not house.is_on("fan"))
        for topic in ("pump/set", "nothing/set", "../fan/set", "fan/set/set", "fan", "fan/SET", "/set"):
            house.other.say(f"{TOPIC}/{topic}", "ON")
        for payload in ("TOGGLE", "", "101", "{}", "x" * 70_000):
            house.order("fan", payload)
        house.other.say("homeassistant/device/picoclaw-shed/config", "{}")
        house.other.say("picoclaw/shed/stop", "please")
        until(lambda: any("only outputs with mqtt = true" in line for line in house.log()))
        until(lambda: any("is no order" in line for line in house.log()))
        assert (house.level("pump"), house.level("fan")) == (0, 0)
        assert "pump" not in house.audit()
        house.broker.stop()
        until(lambda: not house.daemon.asked("status")["channels"]["mqtt"]["up"])
        house.broker.start()  # which gives the retained order to everybody who comes back
        until(lambda: any("the broker had kept it" in line for line in house.log()))
        assert house.level("fan") == 0


@needs_mosquitto
def test_stop_is_heard(tmp_path, broker):
    with House(tmp_path, broker) as house:
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        house.other.say("picoclaw/shed/stop", "STOP")
        until(lambda: not house.is_on("fan"))
        until(lambda: house.daemon.asked("status")["outputs"]["stopped"] == "by mqtt")
        house.order("fan", "ON")
        until(lambda: "stop" in house.state("fan")["why"])
        assert house.level("fan") == 0


@needs_mosquitto
def test_a_storm_of_orders_switches_no_more_than_once_a_second(tmp_path, broker):
    with House(tmp_path, broker) as house:
        began = time.monotonic()
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        for number in range(400):
            house.order("fan", ("ON", "OFF")[number % 2], qos=0)
        house.order("fan", "OFF")
        until(lambda: not house.is_on("fan"))
        switched = house.audit().count("mqtt")
        assert switched <= 3 * (time.monotonic() - began + 2)


@needs_mosquitto
def test_a_stranger_fills_no_log(tmp_path, broker):
    with House(tmp_path, broker) as house:
        for number in range(200):
            house.order("fan", f"nonsense {number}", qos=0)
            house.other.say("zigbee2mqtt/porch", ('{"temperature": 20}', "NaN")[number % 2], qos=0)
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        house.daemon.asked("quit")
        lines = list(house.daemon.process.stdout)
        assert len([line for line in lines if "mqtt: " in line]) <= 32
        assert any("30 lines an hour" in line for line in lines)


@needs_mosquitto
def test_the_policy_may_refuse_and_an_end_of_the_daemon_switches_off(tmp_path, broker):
    with House(tmp_path, broker) as house:
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        (house.folder / "policy.toml").write_text('[effects]\nswitch = { unattended = "refuse" }\n')
        house.order("fan", "OFF")
        until(lambda: not house.is_on("fan"))
        house.order("fan", "ON")
        until(lambda: "refused" in house.state("fan")["why"])
        assert house.level("fan") == 0
        (house.folder / "policy.toml").unlink()
        house.order("fan", "ON")
        until(lambda: house.is_on("fan"))
        house.daemon.asked("quit")
        house.daemon.ends()
        assert (
            "fan (motor, gpio GPIO22; at most 1 min): off"
            in picoclaw_process(tmp_path, "outputs", "--board", "sim").stdout
        )
