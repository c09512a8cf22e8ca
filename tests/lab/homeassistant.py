"""A real Home Assistant beside a real mosquitto and a picoclaw on the simulated board: what it shows, and whether it switches.

    python3.13 -m venv ha && ha/bin/pip install homeassistant==2025.4.4 paho-mqtt==2.1.0
    .venv/bin/python tests/lab/homeassistant.py ha [FOLDER]

Home Assistant is set up as a person does it, over its own API: an account, then the MQTT integration. Not part of the tests.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from daemon_kit import PUMP, Daemon, furnished, until  # noqa: E402
from mqtt_broker import Broker, free_port  # noqa: E402
from person import picoclaw  # noqa: E402

SETTINGS = """
[mqtt]
host = "127.0.0.1"
port = {port}
name = "shed"
questions_an_hour = 10
reminder_texts = true

[history]
every_seconds = 2
"""
PARTS = """
[parts.greenhouse]
part = "bme280"
address = 0x76
values = { temperature = { mean = 22, swing = 6, period_s = 86400, noise = 0.1 }, humidity = 60, pressure = 1013 }

[parts.dimmer]
part = "pca9685"
address = 0x40
"""
OUTPUTS = (
    PUMP
    + """
[outputs.fan]
line = "GPIO22"
kind = "motor"
longest_on_s = 5
confirm = false
mqtt = true

[outputs.lamp]
line = "GPIO24"
kind = "light"
longest_on_s = 60
confirm = false
mqtt = true

[outputs.water]
line = "GPIO23"
kind = "valve"
longest_on_s = 60
confirm = false
mqtt = true

[outputs.blower]
part = "pca9685"
address = 0x40
channel = 0
kind = "fan"
longest_on_s = 60
confirm = false
mqtt = true

[outputs.strip]
part = "pca9685"
address = 0x40
channel = 1
kind = "light"
longest_on_s = 60
confirm = false
mqtt = true
"""
)
RULES = '[rules.warm]\nwhen = "greenhouse.temperature > -50"\ncooldown = "12 hours"\nnotify = "It is warm"\n'
CONFIGURATION = """
homeassistant:
  name: house
  unit_system: metric
  time_zone: Europe/Berlin
http:
  server_host: 127.0.0.1
  server_port: {port}
api:
websocket_api:
config:
onboarding:
logger:
  default: warning
"""


class HomeAssistant:
    """The process, and its API as a client that is logged in sees it."""

    def __init__(self, venv, folder):
        self.port, self.folder, self._token = free_port(), folder, ""
        folder.mkdir()
        (folder / "configuration.yaml").write_text(CONFIGURATION.format(port=self.port))
        path = f"{venv / 'bin'}:{os.environ['PATH']}"
        words = [venv / "bin/hass", "-c", folder]
        with (folder / "out").open("w") as out:
            self.process = subprocess.Popen(words, env={**os.environ, "PATH": path}, stdout=out, stderr=out)

    def ask(self, path, given=None, *, form=False):
        data = None if given is None else json.dumps(given).encode()
        headers = {"Content-Type": "application/json"}
        if form:
            data = urllib.parse.urlencode(given).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        address = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def is_up(self):
        assert self.process.poll() is None, (self.folder / "out").read_text()[-3000:]
        try:
            return self.ask("/api/onboarding")
        except (urllib.error.URLError, ConnectionError):
            return None

    def set_up(self, broker):
        until(self.is_up, 300)
        client = f"http://127.0.0.1:{self.port}/"
        person = {"name": "Sam", "username": "sam", "password": "not-a-secret", "language": "en", "client_id": client}
        code = self.ask("/api/onboarding/users", person)["auth_code"]
        words = {"grant_type": "authorization_code", "code": code, "client_id": client}
        self._token = self.ask("/auth/token", words, form=True)["access_token"]
        flow = self.ask("/api/config/config_entries/flow", {"handler": "mqtt"})
        made = self.ask(f"/api/config/config_entries/flow/{flow['flow_id']}", {"broker": "127.0.0.1", "port": broker})
        assert made["type"] == "create_entry", made

    def states(self):
        return {one["entity_id"]: one for one in self.ask("/api/states")}

    def call(self, service, **given):
        self.ask(f"/api/services/{service.replace('.', '/')}", given)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def show(states):
    for name, one in sorted(states.items()):
        if "shed" in name:
            more = {
                key: value
                for key, value in one["attributes"].items()
                if key not in {"friendly_name", "supported_features"}
            }
            print(
                f"  {name}: {one['state']} {more.pop('unit_of_measurement', '')}  {json.dumps(more, ensure_ascii=False)}"
            )


def follow(house, name, act, wanted, seconds):
    """Call a service, and print the states that follow until one is wanted."""
    print(f"{act[0]} {act[1]}")
    began, seen = time.monotonic(), None
    house.call(act[0], entity_id=name, **act[1])
    while time.monotonic() - began < seconds:
        one = house.states()[name]
        now = one["state"], one["attributes"].get("why")
        if now != seen:
            seen = now
            print(f"  {time.monotonic() - began:5.1f} s  {name}: {now[0]}  why: {now[1]}")
        if one["state"] == wanted:
            return
        time.sleep(0.2)
    print(f"  NOT {wanted} within {seconds} s")


def main(venv, folder):
    with Broker(folder / "broker") as broker, HomeAssistant(venv, folder / "ha") as house:
        house.set_up(broker.port)
        print("Home Assistant", house.ask("/api/config")["version"], "with its MQTT integration is set up")
        home = furnished(folder, SETTINGS.format(port=broker.port), OUTPUTS)
        (home / "sim.toml").write_text(PARTS)
        with Daemon(folder).ready() as daemon:
            until(lambda: any("greenhouse" in name for name in house.states()), 60)
            picoclaw(folder, "chat", "-m", "remind me in 20 minutes to water the plants")
            (home / "rules.toml").write_text(RULES)
            time.sleep(8)
            show(house.states())
            names = {one["attributes"].get("friendly_name", ""): name for name, one in house.states().items()}

            def find(text):
                return next(name for words, name in names.items() if words == f"shed {text}")

            print("\nswitched on, and left on")
            follow(house, find("fan"), (f"{find('fan').partition('.')[0]}.turn_on", {}), "on", 10)
            follow(house, find("fan"), ("homeassistant.update_entity", {}), "off", 20)
            for text, service, more, wanted in (
                ("lamp", "light.turn_on", {}, "on"),
                ("lamp", "light.turn_off", {}, "off"),
                ("water", "valve.open_valve", {}, "open"),
                ("water", "valve.close_valve", {}, "closed"),
                ("strip", "light.turn_on", {"brightness_pct": 40}, "on"),
                ("blower", "fan.set_percentage", {"percentage": 30}, "on"),
            ):
                print()
                follow(house, find(text), (service, more), wanted, 10)
            show({name: one for name, one in house.states().items() if name in {find("strip"), find("blower")}})
            print("\na question")
            house.call("text.set_value", entity_id=find("ask"), value="how warm is it?")
            time.sleep(3)
            show({name: one for name, one in house.states().items() if name in {find("ask"), find("answer")}})
            print("\nSTOP")
            house.call("button.press", entity_id=find("STOP"))
            time.sleep(2)
            show({name: one for name, one in house.states().items() if name in {find("strip"), find("blower")}})
            daemon.asked("quit")
            daemon.ends()
            time.sleep(2)
            states = [one["state"] for name, one in house.states().items() if "shed" in name]
            print(f"\npicoclaw has ended: {states.count('unavailable')} of {len(states)} entities are unavailable")
        log = (folder / "ha/home-assistant.log").read_text().splitlines()
        print(
            "\nwarnings and errors of Home Assistant about MQTT:",
            *[row for row in log if "mqtt" in row.lower()] or ["none"],
            sep="\n  ",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2] if sys.argv[2:] else tempfile.mkdtemp()))
