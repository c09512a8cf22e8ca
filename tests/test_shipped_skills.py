"""The skills that ship say nothing but what is so: calls, commands, numbers and pins are tried one by one."""

import json
import math
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
from argparse import Namespace
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from rows import each_row
from sandbox_kit import needs_walls

from picoclaw import cli
from picoclaw.cli.common import open_app
from picoclaw.files import find_shipped
from picoclaw.hw import kernel
from picoclaw.hw.loader import list_drivers, load_driver
from picoclaw.messages import Caller, ToolCall
from picoclaw.skills import BUILT_IN, SkillContext, SkillLibrary, describe_unmet_needs, find_triggered, format_listing
from picoclaw.times import parse_moment
from picoclaw.tools.exec import ExecTools, parse_command

FOLDER = find_shipped("templates") / "skills"
NAMES = ["board-care", "greenhouse", "home-automation", "reminders", "wiring", "writing-skills"]


def looked(folder):
    library = SkillLibrary([(BUILT_IN, folder)])
    library.refresh()
    return library


LIBRARY = looked(FOLDER)
TEXTS = {name: LIBRARY.read_body(name) for name in NAMES}

# --- as skills ---


def test_all_load_without_a_remark():
    assert (list(LIBRARY.skills), LIBRARY.broken, LIBRARY.shadowed, LIBRARY.notes) == (NAMES, [], [], [])
    assert [note for skill in LIBRARY.skills.values() for note in skill.notes] == []


def test_their_lines_are_few_bytes_in_every_turn():
    assert max(len(skill.description) for skill in LIBRARY.skills.values()) <= 75
    assert len(format_listing(LIBRARY.skills.values()).encode()) <= 520


@each_row("name", NAMES)
def test_a_text_is_short(name):
    assert 1000 < len((FOLDER / name / "SKILL.md").read_bytes()) <= 4096


@each_row("name", NAMES)
def test_what_a_reader_of_the_file_sees_is_what_a_triggered_turn_sees(name):
    """The file is read with read_file as well, where nothing is put in its placeholders and no comment is cut."""
    assert (FOLDER / name / "SKILL.md").read_text().endswith(TEXTS[name].strip() + "\n")


ORDINARY = """
how warm is the greenhouse?
how warm is it?
how humid is it in the greenhouse right now?
is it too cold for the tomatoes?
what's the temperature on the porch?
what does the soil probe say?
is the soil dry?
how much CO2 is there?
turn the pump on for 5 minutes
water the plants
switch off the fan
stop
what sensors do you have?
list the sensors
add the sensor at 0x76 as greenhouse
scan the i2c bus
read GPIO17
how is the board doing?
how hot is the processor?
is the board throttled?
how full is the sd card?
how long have you been up?
is the clock right?
what time is it?
remind me in 10 minutes to water the plants
remind me tomorrow at 7 to feed the cat
which reminders are there?
delete reminder 3
note that the boiler is at 1.2 bar
what did I note about the boiler?
list files
show me notes.txt
what can you do?
what skills do you have?
thank you
wie warm ist es im Gewächshaus?
is the light on in the kitchen?
update my note about the boiler
""".strip().splitlines()


@each_row("text", ORDINARY)
def test_an_ordinary_question_brings_no_skill(text):
    assert find_triggered(LIBRARY.skills.values(), text) == []


@each_row(
    ("text", "name"),
    [
        ("what is the VPD?", "greenhouse"),
        ("is the vapour pressure deficit alright", "greenhouse"),
        ("what's the dew point in there", "greenhouse"),
        ("should I ventilate?", "greenhouse"),
        ("I want to wire up a BME280", "wiring"),
        ("show me the pinout", "wiring"),
        ("does this one need pull-up resistors?", "wiring"),
        ("is my wiring wrong?", "wiring"),
        ("there is an under-voltage warning", "board-care"),
        ("a lightning bolt is on the screen", "board-care"),
        ("make a backup", "board-care"),
        ("Write a skill for my bees", "writing-skills"),
        ("we need a new skill", "writing-skills"),
        ("publish the temperature over MQTT", "home-automation"),
        ("turn on the porch light in Home Assistant", "home-automation"),
        ("remind me every day at 7 to water", "reminders"),
        ("snooze that", "reminders"),
    ],
)
def test_a_trigger_brings_the_skill_that_it_is_for(text, name):
    assert [skill.name for skill in find_triggered(LIBRARY.skills.values(), text)] == [name]


# --- on the simulated board, with every bus and an output ---

SIM = """
parts.greenhouse = { part = "sht3x", address = 0x44 }
parts.hive = { part = "ds18b20", port = "28-00000a1b2c3e" }
parts.porch = { part = "bme280", address = 0x76, named = false }
parts.tank = { part = "mcp3008", bus = 0, chip = 0, named = false, values = { voltage = 1.2 } }
parts.air = { part = "pms5003", port = "/dev/serial0", named = false }
parts.soil = { part = "ds18b20", port = "28-00000a1b2c3d", named = false }
"""
OUTPUTS = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600

[outputs.fan]
pwm = "pwmchip0/0"
period_us = 1000
kind = "motor"
longest_on_s = 3600
"""
ACTS_ELSEWHERE = {"exec"}
"""Tools of which only the arguments are checked; so are those of `output`, unless it only looks."""


@contextmanager
def app(home):
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "sim.toml").write_text(SIM)
    (home / "outputs.toml").write_text(OUTPUTS)
    with open_app(Namespace(board="sim"), lambda _: True) as made:
        made.library.refresh()
        yield made


@pytest.fixture
def picoclaw(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    with app(tmp_path / "home") as made:
        yield made


CALL = re.compile(r"([a-z0-9_]+) (\{.*\})")


def fenced(text, kind):
    return re.findall(rf"^ *```{kind}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def inline(text):
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


def calls(text):
    """Inline code anywhere, in an example as well, and whole lines of a plain block."""
    lines = [line for block in fenced(text, "") for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", text)
    return [(found[1], json.loads(found[2])) for found in map(CALL.fullmatch, lines) if found]


WEDNESDAY = datetime.fromisoformat("2026-11-18T12:00+00:00")


def caller():
    return Caller("cli", "owner", WEDNESDAY, lambda _: None)


@pytest.mark.parametrize("name", NAMES)
def test_every_call_in_it_works(picoclaw, name):
    """In the order of the text, as the owner's yes would let them happen."""
    written = calls(TEXTS[name])
    assert len(written) >= 1
    toolset = picoclaw.toolset
    for tool, arguments in written:
        call = ToolCall("1", tool, arguments)
        toolset._find(call)
        if tool in ACTS_ELSEWHERE or (tool == "output" and arguments["action"] != "list"):
            continue
        result = toolset.call(call, caller())
        assert not result.startswith("error:"), f"{tool} {arguments}: {result}"


def test_enough_calls_are_found():
    assert {name: len(calls(TEXTS[name])) for name in NAMES} == {
        "board-care": 2,
        "greenhouse": 10,
        "home-automation": 2,
        "reminders": 14,
        "wiring": 13,
        "writing-skills": 4,
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_looks_like_a_call_is_one(picoclaw, name):
    tools = {each["name"] for each in picoclaw.toolset.definitions()}
    for code in inline(TEXTS[name]):
        tool, _, rest = code.partition(" ")
        assert tool not in tools or not rest or CALL.fullmatch(code), code


def test_all_can_be_used_where_their_programs_are(picoclaw, tmp_path):
    program = tmp_path / "curl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path, lacking in ((tmp_path, {}), (tmp_path / "none", {"home-automation": "mosquitto_pub or curl"})):
        here = SkillContext(picoclaw.skill_context().tools, frozenset(), {"PATH": str(path)})
        told = {name: describe_unmet_needs(skill, here) for name, skill in LIBRARY.skills.items()}
        assert {name for name, why in told.items() if why} == set(lacking)
        assert all(lacking[name] in told[name] for name in lacking)


def test_the_example_of_a_skill_is_one(tmp_path):
    (text,) = fenced(TEXTS["writing-skills"], "markdown")
    (tmp_path / "bee-hives").mkdir()
    (tmp_path / "bee-hives/SKILL.md").write_text(text)
    library = looked(tmp_path)
    (skill,) = library.skills.values()
    assert (skill.name, skill.triggers, skill.notes) == ("bee-hives", ("bee hive", "beehive"), ())
    assert (skill.needs.tools, skill.needs.parts) == (("sensor_read",), ("ds18b20",))
    assert [each.name for each in find_triggered([skill], "how is the bee hive?")] == ["bee-hives"]


def test_the_keys_that_writing_skills_lists_mean_something(tmp_path):
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", TEXTS["writing-skills"], re.MULTILINE)
    needs = re.findall(r"`(\w+)`(?:,| \()", dict(rows)["requires"])
    assert [key for key, _ in rows] == ["name", "description", "triggers", "requires", "tools", "model"]
    assert needs == ["tools", "programs", "devices", "parts", "environment", "os"]
    requires = "".join(f"  {key}: {'/dev/null' if key == 'devices' else 'x|y'}\n" for key in needs)
    (tmp_path / "all").mkdir()
    (tmp_path / "all/SKILL.md").write_text(
        f"---\nname: all\ndescription: x\ntriggers: x\nrequires:\n{requires}tools: x\nmodel: m\n---\nx\n"
    )
    (skill,) = looked(tmp_path).skills.values()
    assert skill.notes == ()
    assert skill.needs[:6] == (("x|y",), (("x", "y"),), ("/dev/null",), ("x|y",), ("x|y",), ("x|y",))
    assert (skill.tools, skill.model) == (("x",), "m")


def test_the_files_of_the_shipped_skills_say_where_their_folder_is_put(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/SKILL.md").write_text("---\nname: x\ndescription: x\n---\nrun {baseDir}/x.sh\n")
    assert "`baseDir` in curly brackets" in TEXTS["writing-skills"]
    assert looked(tmp_path).read_body("x").strip() == f"run {tmp_path / 'x'}/x.sh"


# --- picoclaw's own commands ---

COMMANDS = sorted({code for name in NAMES for code in inline(TEXTS[name]) if re.match(r"picoclaw [a-z]", code)})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_understood(command, monkeypatch, capsys):
    words = shlex.split(command)[1:]
    ran = []
    add_options, _ = cli.load_verb(words[0])
    monkeypatch.setattr(cli, "load_verb", lambda _: (add_options, lambda given: ran.append(given) or 0))
    assert cli.run(words) == 0, capsys.readouterr().err
    assert len(ran) == 1


def test_the_commands_are_found():
    assert {command.split()[1] for command in COMMANDS} == {"backup", "chat", "doctor", "outputs", "restore", "skills"}


# --- commands of the shell ---

BLOCKS = [(name, block) for name in NAMES for block in fenced(TEXTS[name], "sh")]
SINGLE = [code for name in NAMES for code in inline(TEXTS[name]) if re.match(r"(sudo|findmnt|vcgencmd) ", code)]
_PROGRAMS = "apt apt-get curl df du findmnt journalctl mosquitto_pub mosquitto_sub"
EXPLAINED = {*_PROGRAMS.split(), "timedatectl", "timeout"}
"""Programs whose --help lists their options."""


@each_row(("name", "block"), BLOCKS)
def test_a_block_can_be_parsed_by_a_plain_shell(name, block):
    done = subprocess.run(["sh", "-n"], input=block, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


_OF_THE_SHELL = {"(", ")", "if", "then", "fi", "sudo"}


def simple_commands(block):
    """The programs of a block with their arguments; what is the shell's own, `sudo` and `timeout 10` are taken off."""
    lexer = shlex.shlex(block.replace("\n", " ; "), posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    command, found = [], []
    for token in [*lexer, ";"]:
        if not set(token) <= set(";|&"):
            command.append(token)
        else:
            while command and (command[0] in _OF_THE_SHELL or re.match(r"\w+=", command[0])):
                del command[0]
            found += [command] if command else []
            command = []
    for each in found:
        yield each[:2] if each[0] == "timeout" else each
        if each[0] == "timeout":
            yield each[2:]


ALL_COMMANDS = [words for block in [*(block for _, block in BLOCKS), *SINGLE] for words in simple_commands(block)]


@pytest.mark.parametrize("program", sorted(EXPLAINED))
def test_the_options_exist(program):
    used = {
        word for words in ALL_COMMANDS if words[0] == program for word in words[1:] if re.match("-{1,2}[a-zA-Z]", word)
    }
    options = {o for word in used for o in ([word.partition("=")[0]] if word.startswith("--") else _letters(word))}
    if not shutil.which(program):
        pytest.skip(f"{program} is not here")
    asked = [program, "--help", *(["all"] if program == "curl" else [])]
    told = subprocess.run(asked, capture_output=True, text=True)
    missing = [o for o in options if not re.search(rf"(?<![\w-]){o}(?![\w-])", told.stdout + told.stderr)]
    assert missing == []


def _letters(word):
    return [f"-{letter}" for letter in word[1:] if letter.isalpha()]


def test_every_program_is_known_to_these_tests():
    elsewhere = {"awk", "vcgencmd", "poweroff", "reboot"}
    assert {words[0] for words in ALL_COMMANDS} == EXPLAINED | elsewhere


def test_nothing_waits_for_ever_and_no_command_holds_a_secret():
    commands = list(ALL_COMMANDS)
    for before, words in pairwise([[""], *commands]):
        if words[0] == "curl":
            assert words[words.index("-m") + 1] == "10"
        if words[0] == "mosquitto_sub":
            assert words[words.index("-W") + 1] == "5"
        if words[0] == "mosquitto_pub":
            assert before == ["timeout", "10"]
        assert not {"-u", "-P"} & set(words) or not words[0].startswith("mosquitto"), words
        assert "Bearer" not in " ".join(words)


def mqtt_lines():
    return [line for name, block in BLOCKS for line in block.splitlines() if "mosquitto_" in line]


@pytest.mark.parametrize("line", mqtt_lines())
def test_an_mqtt_command_gets_as_far_as_the_broker(line, tmp_path):
    """Options are understood and the options' files are read: what is missing is only somebody who listens."""
    program = re.search(r"mosquitto_\w+", line)[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not here")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can
        (tmp_path / ".config").mkdir()
        (tmp_path / ".config" / program).write_text(f"-h 127.0.0.1\n-p {taken.getsockname()[1]}\n")
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, env=os.environ | {"HOME": str(tmp_path)}
        )
    assert "refused" in done.stderr


def test_what_is_announced_is_json_with_what_home_assistant_asks_for():
    (line,) = [line for line in mqtt_lines() if " -m '{" in line]
    told = json.loads(shlex.split(line)[-1])
    assert {"unique_id", "state_topic", "device"} < set(told)
    assert f"homeassistant/sensor/{told['unique_id']}/config" in shlex.split(line)
    assert any(told["state_topic"] in other and " -r" in other for other in mqtt_lines() if other != line)


class HomeAssistant(BaseHTTPRequestHandler):
    """What the real one answers to the four requests."""

    seen: list[tuple[str, str, str, str]] = []  # noqa: RUF012 - of this test run

    def _answer(self, sent=""):
        self.seen.append((self.command, self.path, self.headers["Authorization"], sent))
        states = [{"entity_id": "light.porch", "state": "on"}, {"entity_id": "sensor.porch_temperature", "state": "3"}]
        one = [state for state in states if self.path.endswith(state["entity_id"])]
        body = json.dumps(one[0] if one else states, separators=(",", ":")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self._answer()

    def do_POST(self):
        assert self.headers["Content-Type"] == "application/json"
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def log_message(self, *_):
        """Say nothing."""


@needs_walls
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not here")
def test_home_assistant_is_asked_as_it_wants_to_be(tmp_path):
    HomeAssistant.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), HomeAssistant)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    (block,) = [block for name, block in BLOCKS if "curl" in block]
    (tmp_path / ".homeassistant-header").write_text("Authorization: Bearer abc\n")
    try:
        told = [
            run(line.replace("homeassistant.local:8123", f"127.0.0.1:{server.server_port}"), tmp_path)
            for line in block.splitlines()
        ]
    finally:
        server.shutdown()
        server.server_close()
    assert json.loads(told[1]) == {"entity_id": "sensor.porch_temperature", "state": "3"}
    assert "entity_id" in json.loads(HomeAssistant.seen[0][3])["template"]
    assert [(method, path) for method, path, _, _ in HomeAssistant.seen] == [
        ("POST", "/api/template"),
        ("GET", "/api/states/sensor.porch_temperature"),
        ("POST", "/api/services/light/turn_on"),
        ("GET", "/api/states/light.porch"),
    ]
    assert {header for _, _, header, _ in HomeAssistant.seen} == {"Bearer abc"}
    assert json.loads(HomeAssistant.seen[2][3]) == {"entity_id": "light.porch"}


@each_row("line", [line for _, block in BLOCKS for line in block.splitlines()])
def test_each_line_of_a_block_is_one_command_that_needs_no_shell(line):
    assert list(parse_command((), line, shell=False)) == shlex.split(line)
    assert list(parse_command([line], "", shell=False)) == shlex.split(line)


def run(line, home):
    """Run a line as `exec` does, with a network; returns what it printed."""
    (home / "claw/workspace").mkdir(parents=True, exist_ok=True)
    printed = ExecTools(home / "claw/workspace", {"HOME": str(home)}).exec(command=line, network=True)
    assert printed.endswith("[exit code 0]"), printed
    return printed.removesuffix("[exit code 0]")


# --- numbers ---


def saturation(celsius):
    """FAO Irrigation and Drainage Paper 56, equation 11, in kPa."""
    return 0.6108 * math.exp(17.27 * celsius / (celsius + 237.3))


def dew_point(celsius, humidity):
    x = math.log(humidity / 100 * saturation(celsius) / 0.6108)
    return 237.3 * x / (17.27 - x)


GREENHOUSE = TEXTS["greenhouse"]


def row(beginning):
    return [cell.strip() for cell in re.search(rf"^\| {beginning} \|(.*)\|$", GREENHOUSE, re.MULTILINE)[1].split("|")]


def test_the_table_of_saturation():
    assert row("S") == [f"{saturation(float(t)):.2f}" for t in row("T")]
    assert len(row("T")) == 9


def test_the_formula_of_saturation():
    a, b, c = map(float, re.search(r"S = ([\d.]+) × exp\(([\d.]+) × T / \(T \+ ([\d.]+)\)\)", GREENHOUSE).groups())
    assert a * math.exp(b * 25 / (25 + c)) == pytest.approx(saturation(25))


def test_the_example_of_the_vpd():
    found = re.search(r"(\d+) °C and (\d+) %: ([\d.]+) × \(1 − ([\d.]+)\) = ([\d.]+) kPa", GREENHOUSE).groups()
    celsius, humidity, s, share, vpd = map(float, found)
    assert (s, share, vpd) == (
        round(saturation(celsius), 2),
        humidity / 100,
        round(saturation(celsius) * (1 - humidity / 100), 2),
    )
    assert float(re.search(r"dew point there is ([\d.]+) °C", GREENHOUSE)[1]) == round(dew_point(celsius, humidity), 1)


@needs_walls
@pytest.mark.parametrize(("celsius", "humidity"), [(25, 60), (17.42, 70.83), (-3, 90), (38, 22)])
def test_the_command_for_the_vpd(celsius, humidity, tmp_path):
    (block,) = [block for name, block in BLOCKS if name == "greenhouse"]
    printed = run(block.replace("t=25", f"t={celsius}").replace("h=60", f"h={humidity}"), tmp_path)
    expected = f"{saturation(celsius) * (1 - humidity / 100):.2f} {dew_point(celsius, humidity):.1f}\n"
    assert printed == expected


def test_the_examples_of_soil_and_light():
    dry, wet, now, percent = map(
        float, re.search(r"Dry ([\d.]+) V, wet\s+([\d.]+) V, now ([\d.]+) V: ([\d.]+) %", GREENHOUSE).groups()
    )
    assert percent == pytest.approx((dry - now) / (dry - wet) * 100)
    per, lux, micro = map(float, re.search(r"lux / (\d+) = .*; (\d+) lx are about (\d+)", GREENHOUSE).groups())
    assert micro == round(lux / per)
    used, hours, moles = map(float, re.search(r"(\d+) for (\d+) hours\s+gives ([\d.]+)\.", GREENHOUSE).groups())
    assert (used, moles) == (micro, round(micro * 3600 * hours / 1e6, 1))


ROWS = {
    what: (
        [float(each) for each in re.findall(r"\d+(?:\.\d+)?", good)],
        re.findall(r"(under|over) (\d+(?:\.\d+)?)", act),
    )
    for what, good, act in re.findall(
        r"^\| ([\w ]+) \| ([^|]*\d[^|]*) \| ([^|]*\d[^|]*) \|", GREENHOUSE.partition("## VPD")[0], re.MULTILINE
    )
}


def test_what_to_act_at_lies_outside_what_is_good():
    assert len(ROWS) == 8
    for what, (numbers, limits) in ROWS.items():
        assert limits, what
        for side, limit in limits:
            assert float(limit) < min(numbers) if side == "under" else float(limit) > max(numbers), what


def field(row, steps=50):
    low, high = ROWS[row][0]
    return [low + (high - low) * step / steps for step in range(steps + 1)]


def test_what_is_good_by_one_row_is_good_by_the_others():
    """Over the whole field of good temperatures and humidities, by day and by night."""
    low, high = ROWS["VPD in daylight"][0]
    by_day = [saturation(t) * (1 - h / 100) for t in field("air by day") for h in field("humidity")]
    assert low <= min(by_day)
    assert max(by_day) <= high
    ((nearest,), ((_, too_near),)) = ROWS["dew point by night"]
    nights = field("air by night")
    assert min(t - dew_point(t, h) for t in nights for h in field("humidity")) >= nearest
    ((_, too_humid),) = ROWS["humidity"][1]
    assert min(t - dew_point(t, float(too_humid)) for t in nights) > float(too_near)  # the slower alarm comes first
    assert min(nights) > max(ROWS["frost"][0])
    assert min(ROWS["CO2 for people"][0]) > max(ROWS["CO2 in sunshine"][0])


def test_the_flags_of_throttling():
    text = TEXTS["board-care"]
    (bits,) = re.findall(r"gives bits: (.*?), all of them now", text, re.DOTALL)
    named = {int(bit, 16): words for bit, words in re.findall(r"(0x\d) ([\w -]+)", bits)}
    assert {bit: kernel.decode_throttling(bit)[0] for bit in named} == {
        1: "under-voltage now",
        2: "processor frequency capped now",
        4: "throttled now",
        8: "soft temperature limit active now",
    }
    assert list(named.values()) == ["under-voltage", "frequency capped", "throttled", "warm"]
    shown = int(re.search(r"(0x[0-9a-f]{5}) is under-voltage and throttled, now and before", text)[1], 16)
    assert shown == 0b101 | 0b101 << 16


# By https://www.raspberrypi.com/documentation/computers/raspberry-pi.html, "GPIO and the 40-pin header".
PINS = {
    27: 0,
    28: 1,
    3: 2,
    5: 3,
    7: 4,
    29: 5,
    31: 6,
    26: 7,
    24: 8,
    21: 9,
    19: 10,
    23: 11,
    32: 12,
    33: 13,
    8: 14,
    10: 15,
}
PINS |= {36: 16, 11: 17, 12: 18, 35: 19, 38: 20, 40: 21, 15: 22, 16: 23, 18: 24, 22: 25, 37: 26, 13: 27}
SUPPLIES = {"3.3 V": {1, 17}, "5 V": {2, 4}, "ground": {6, 9, 14, 20, 25, 30, 34, 39}}
FUNCTIONS = {"SDA": 2, "SCL": 3, "MOSI": 10, "MISO": 9, "SCLK": 11, "chip 0": 8, "chip 1": 7, "TXD": 14, "RXD": 15}


def test_the_pins_are_those_of_the_header():
    assert set(PINS) | set.union(*SUPPLIES.values()) == set(range(1, 41))
    named = [(int(pin), int(line)) for pin, line in re.findall(r"pin (\d+) \(GPIO(\d+)\)", TEXTS["wiring"])]
    assert len(named) == TEXTS["wiring"].count("(GPIO") == 12
    assert [pin for pin, line in named if PINS[pin] != line] == []


@each_row("what", SUPPLIES)
def test_the_pins_of_the_supplies(what):
    cells = re.search(rf"^\| {what} \| ([\d, ]+) \|$", TEXTS["wiring"], re.MULTILINE)[1]
    assert {int(pin) for pin in cells.split(",")} == SUPPLIES[what]


@each_row("what", FUNCTIONS)
def test_the_lines_of_the_buses(what):
    assert re.findall(rf"{what} pin \d+ \(GPIO(\d+)\)", TEXTS["wiring"]) == [str(FUNCTIONS[what])]


def test_the_addresses_are_the_usual_ones_of_all_drivers():
    """The first one of each, and the other one of those that have two."""
    (listed,) = re.findall(r"## Usual I2C addresses\s+(.*?)\.\n", TEXTS["wiring"], re.DOTALL)
    told = {}
    for entry in listed.split(";"):
        address, names = entry.split(maxsplit=1)
        told[int(address, 16)] = {name.strip() for name in names.split(",")}
    usual = {}
    where = [find_shipped("tools/hw")]
    for name in list_drivers(where):
        addresses = getattr(load_driver(name, where), "ADDRESSES", ())
        for address in addresses if len(addresses) == 2 else addresses[:1]:
            usual.setdefault(address, set()).add(name)
    assert told == usual


def test_the_parts_and_their_buses_are_those_of_the_drivers():
    where = [find_shipped("tools/hw")]
    added = [arguments for tool, arguments in calls(TEXTS["wiring"]) if tool == "sensor_add"]
    assert [each["part"] for each in added] == ["bme280", "mcp3008", "pms5003", "ds18b20"]
    assert "0x76 is 118" in TEXTS["wiring"]
    assert added[0]["address"] == 0x76
    assert 0x77 in load_driver("bme280", where).ADDRESSES


@each_row(("asked", "seconds"), [("in 20 minutes", 20 * 60), ("in an hour and a half", 90 * 60)])
def test_the_seconds_of_a_reminder(asked, seconds):
    assert reminder(asked)["at_seconds"] == seconds


@each_row(
    ("asked", "then"),
    [
        ("at half past six in the evening", "2026-11-18 18:30"),
        ("tomorrow at 7:30", "2026-11-19 07:30"),
        ("on Friday at 9", "2026-11-20 09:00"),
        ("on a date", "2027-02-01 08:00"),
    ],
)
def test_the_time_of_a_reminder(asked, then):
    assert f"{parse_moment(reminder(asked)['at'], WEDNESDAY):%Y-%m-%d %H:%M}" == then


def reminder(asked):
    (line,) = [line for line in TEXTS["reminders"].splitlines() if line.startswith(f"| {asked} |")]
    ((_, arguments),) = calls(line)
    return arguments


@each_row("text", ["next week", "in the evening", "every day", "tomorrow evening"])
def test_what_is_said_not_to_be_understood_is_not(text):
    with pytest.raises(ValueError, match="not a time"):
        parse_moment(text, WEDNESDAY)
