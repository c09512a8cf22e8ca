"""The home that is soaked: five sensors, outputs that are armed, rules, a checklist, a page and a bot."""

import socket

from picoclaw.config import load_config
from picoclaw.outputs import config
from picoclaw.workspace import prepare_home

OWNER, GUESTS = 7, (101, 102, 103)
PERIOD_S, BEAT_EVERY_S = 1800, 300
CONFIG = """
[model]
base_url = "{model}"
name = "scripted"
context_tokens = 12000
idle_seconds = {idle}
[limits]
seconds = 3000
[heartbeat]
every_minutes = 5
quiet = ""
tokens_a_day = 100000000
[page]
enabled = true
port = {port}
[telegram]
api_url = "{telegram}"
allow = [{allow}]
[web]
enabled = false
[sensors.greenhouse]
part = "bme280"
bus = 1
address = 0x76
[sensors.cellar]
part = "bme280"
bus = 1
address = 0x77
[sensors.bench]
part = "bh1750"
bus = 1
address = 0x23
"""
SIM = f"""
[parts.greenhouse]
part = "bme280"
bus = 1
address = 0x76
values = {{ temperature = {{ mean = 25, swing = 10, period_s = {PERIOD_S} }}, humidity = 50, pressure = 1000 }}
[parts.cellar]
part = "bme280"
bus = 1
address = 0x77
values = {{ temperature = {{ mean = 12, swing = 2 }}, humidity = 70, pressure = 1001 }}
[parts.bench]
part = "bh1750"
bus = 1
address = 0x23
values = {{ light = 300 }}
[[faults]]
kind = "nack"
on = "cellar"
every = 40
"""
OUTPUTS = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600
[outputs.valve1]
line = "GPIO27"
kind = "valve"
longest_on_s = 300
confirm = false
who = ["owner", "rule"]
"""
LONGEST_ON_S = {"pump": 60, "valve1": 120}
RULES = """
[rules.hot]
when = "greenhouse.temperature > 30"
notify = "soak: it is hot"
margin = 5
[rules.water]
when = "every 10 minutes"
output = "valve1"
lasts = "2 minutes"
"""
LISTED = "- [ ] Look after the soak. (every 5 minutes)\n"


def furnish(folder, model, telegram, token, idle):
    """Make it; returns the page's port."""
    home = folder / "picoclaw"
    prepare_home(load_config({"PICOCLAW_HOME": str(home)}).home)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    allow = ", ".join(map(str, (OWNER, *GUESTS)))
    (home / "config.toml").write_text(CONFIG.format(model=model, telegram=telegram, port=port, allow=allow, idle=idle))
    (home / "secrets.toml").write_text(f'telegram_token = "{token}"\n')
    (home / "secrets.toml").chmod(0o600)
    (home / "sim.toml").write_text(SIM)
    (home / "rules.toml").write_text(RULES)
    # The chats have read pages and reports, after which a reminder would ask; the soak tries the clock, not the guard.
    (home / "policy.toml").write_text('[effects]\nplan = { tainted = "allow" }\n')
    (home / "outputs.toml").write_text(OUTPUTS)
    found = config.load_outputs(home / "outputs.toml").outputs
    config.save_armed(home, {name: output.digest for name, output in found.items()})
    (home / "workspace/HEARTBEAT.md").write_text(LISTED)
    return port
