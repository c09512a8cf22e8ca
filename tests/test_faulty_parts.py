"""What has once gone wrong or could: faulty drivers, misnamed places, crossed outputs, odd kernel files, full disks."""

import os
import resource
import subprocess
import sys
import time
from functools import partial

import pytest
from model_server import ModelServer, call, reply
from person import ROOT, Person, environment
from recording import CALLER, Clock, Recorder, ask, bench, complaint, toolset
from rows import each_row

from picoclaw import config, files
from picoclaw.app import App
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.hw import kernel, loader
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import Drivers, RegisterAddresses
from picoclaw.hw.reading import Reading, WiredPart, reject_implausible
from picoclaw.hw.sim import SimBoard, script
from picoclaw.hw.sim.parts.climate import SimBME280
from picoclaw.hw.sim.script import Scene, SimFault
from picoclaw.maintenance.doctor import examine_board
from picoclaw.messages import Inbound, ToolCall
from picoclaw.outputs import supervisor
from picoclaw.outputs.config import load_outputs as declarations
from picoclaw.outputs.config import save_armed
from picoclaw.tools.sensors import SensorAddTool, SensorTools

HW = [find_shipped("tools/hw")]


READ = "def read(part):\n    return {'temperature': 1.0}\n"


def owners(folder, **drivers):
    """Write driver files of the owner's, which win; returns where to look."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in drivers.items():
        (folder / f"{name}.py").write_text(text)
    return [folder, *HW]


def drivers_on(board, where, clock=None):
    clock = clock or Clock(1e9)
    return Drivers(board, lambda part: loader.load_driver(part, where), clock, clock.sleep, clock)


def started(home, board):
    """Start picoclaw in this home, with a person who says yes to everything."""
    return App(config.load_config({"PICOCLAW_HOME": str(home)}), board, lambda _: True)


def told(app, tool, /, **arguments):
    return app.toolset.call(ToolCall("1", tool, arguments), CALLER)


# --- what a driver gives ---


def measured(folder, text):
    """What a driver's readings come to: value by quantity and channel, or what is wrong."""
    where = owners(folder, gauge=f"ADDRESSES = (0x42,)\n{text}\n")
    board, _ = bench({0x42: Recorder()})
    readings = drivers_on(board, where).measure("tank", WiredPart("gauge", 1, 0x42))
    return {r.label: r.problem if r.value is None else r.value for r in readings}


FAILED = "its driver gauge.py failed: "


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("{}", {"temperature": "its driver gauge.py measured nothing"}),
        ("{'level p0': True}", {"temperature": f"{FAILED}TypeError: level p0 is True, not a number"}),
        ("{'level p0': 1.0, 'level p1': False}",
         {"temperature": f"{FAILED}TypeError: level p1 is False, not a number"}),
        (
            "{'voltage a0': 1.5, 'voltage a1': ValueError('a1 is above full scale'), 'voltage a2': 2}",
            {"voltage a0": 1.5, "voltage a1": "a1 is above full scale", "voltage a2": 2},
        ),
        ("{'voltage a0': ValueError('no wire')}", {"voltage a0": "no wire"}),
        ("{'co2': float('nan')}", {"co2": "implausible value nan ppm: check the wiring and the sensor"}),
    ],
)  # fmt: skip
def test_what_a_driver_may_give_and_what_it_may_not(tmp_path, returned, found):
    assert measured(tmp_path, f"def read(part):\n    return {returned}") == found


def test_one_broken_channel_is_no_reason_to_hide_the_others(tmp_path):
    text = "def read(part):\n    return {'voltage a0': 1.5, 'voltage a1': ValueError('a1 is open')}"
    where = owners(tmp_path, gauge=f"ADDRESSES = (0x42,)\n{text}\n")
    board, _ = bench({0x42: Recorder()})
    sensors = SensorTools(board, {"tank": WiredPart("gauge", 1, 0x42)}, drivers_on(board, where), "/")
    line = ask(sensors, "sensor_read", sensor="tank")
    assert line.startswith("tank: voltage a0 1.50 V, voltage a1 not available: a1 is open (gauge on i2c-1 at 0x42")


@pytest.mark.parametrize("quantities", ["3", "None", "True"])
def test_a_faulty_list_of_quantities_loses_no_other_sensor(tmp_path, quantities):
    where = owners(tmp_path, gauge=f"ADDRESSES = (0x42,)\nQUANTITIES = {quantities}\n{READ}")
    board, _ = bench({0x42: Recorder(), 0x43: Recorder()})
    wired = {"tank": WiredPart("gauge", 1, 0x42), "porch": WiredPart("bme280", 1, 0x43)}
    sensors = SensorTools(board, wired, drivers_on(board, where), "/")
    answer = ask(sensors, "sensor_read")
    assert "unexpectedly" not in answer
    assert "tank: " in answer
    assert "porch: " in answer


# --- a driver or a place that is wrongly named, at each of the four doors ---

SHAPES = {
    "a_number": f"ADDRESSES = (0x76,)\nOPTIONS = 3\n{READ}",
    "a_plain_default": f"ADDRESSES = (0x76,)\nOPTIONS = {{'a': 3}}\n{READ}",
    "two_numbers": f"ADDRESSES = (0x76,)\nOPTIONS = {{'a': (0, 1)}}\n{READ}",
    "words": f"ADDRESSES = (0x76,)\nOPTIONS = {{'a': ('0', '0', '1')}}\n{READ}",
}
SHAPE = "must be names with three numbers: (usual, lowest, highest)"
PLACES = [
    ("gps", "serial0", "gps needs port, such as port = \"/dev/serial0\", not 'serial0'"),
    ("gps", "28-1", "gps needs port, such as port = \"/dev/serial0\", not '28-1'"),
    ("gps", "", "gps needs port, such as port = \"/dev/serial0\", not ''"),
    ("ds18b20", "/dev/ttyS0", "ds18b20 needs port, such as port = \"28-00000a1b2c3d\", not '/dev/ttyS0'"),
    ("ds18b20", "28_1", "ds18b20 needs port, such as port = \"28-00000a1b2c3d\", not '28_1'"),
]


def by_config(home, part, port):
    (home / "config.toml").write_text(f"[sensors.tank]\npart = '{part}'\nport = '{port}'\n")
    with pytest.raises(ConfigError) as refused:
        _ = started(home, SimBoard()).toolset
    return str(refused.value)


def by_tool(home, part, port):
    board, bus = bench({0x76: Recorder()})
    where = loader.list_driver_folders(home)
    group = SensorAddTool(board, {}, drivers_on(board, where), where, partial(loader.add_sensor, home))
    said = complaint(ask(group, "sensor_add", name="tank", part=part, port=port))
    assert not bus.transfers
    assert not (home / "sensors.toml").exists()
    return said


def by_script(home, part, port):
    (home / "sim.toml").write_text(f"[parts.tank]\npart = '{part}'\nport = '{port}'\n")
    with pytest.raises(ConfigError) as refused:
        script.load_script(home / "sim.toml", loader.list_driver_folders(home))
    return str(refused.value)


def by_bench(home, part, port):
    own = home / f"hw/{part}.py"
    file = own if own.exists() else HW[0] / f"{part}.py"
    code = f"import sys; from picoclaw.hw.bench import run; sys.exit(run({str(file)!r}))"
    given = ["--port", port] if port else []
    done = subprocess.run(
        [sys.executable, "-c", code, *given],
        cwd=ROOT,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.rstrip("\n")


DOORS = [by_config, by_tool, by_script, by_bench]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("part", "port", "said"), PLACES)
def test_a_port_that_is_none_of_its_kind_is_refused_in_one_line(tmp_path, door, part, port, said):
    words = door(tmp_path, part, port)
    assert words.endswith(said)
    assert "\n" not in words


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_options_of_a_wrong_shape_are_refused_in_one_line(tmp_path, door, shape):
    owners(tmp_path / "hw", bme280=SHAPES[shape])  # also in the place of a shipped driver
    words = door(tmp_path, "bme280", "")
    assert f"OPTIONS in {tmp_path}/hw/bme280.py {SHAPE}" in words
    assert "\n" not in words


# --- which sensor is read, and which is left asleep ---


def greenhouse(**more):
    """A recorded bus with a BME280 at 0x76, another at 0x77, and what else there is."""
    clock = Clock(1e9, step=0.01)
    scene = Scene(clock, {"temperature": 21.5, "humidity": 55.25, "pressure": 1013.25})
    wired = {"air": WiredPart("bme280", 1, 0x76), "airlock": WiredPart("bme280", 1, 0x77)}
    board, bus = bench({0x76: SimBME280(scene), 0x77: SimBME280(scene)}, clock)
    wired |= {name: part for name, (part, _) in more.items()}
    bus.parts.update({part.address: stands for part, stands in more.values() if stands})
    return SensorTools(board, wired, drivers_on(board, HW, clock), "/"), bus


def lines_of(answer):
    return [line.partition(":")[0] for line in answer.splitlines()]


def asked_at(bus):
    return {address for address, *_ in bus.transfers}


@each_row(
    ("sensor", "names", "woken"),
    [
        ("air", ["air"], {0x76}),
        (" air ", ["air"], {0x76}),
        ("airlock", ["airlock"], {0x77}),
        ("airl", ["airlock"], {0x77}),
        ("ai", ["air", "airlock"], {0x76, 0x77}),
        ("bme280", ["air", "airlock"], {0x76, 0x77}),
    ],
)
def test_a_whole_name_wins_over_a_part_of_one(sensor, names, woken):
    sensors, bus = greenhouse()
    assert lines_of(ask(sensors, "sensor_read", sensor=sensor)) == names
    assert asked_at(bus) == woken


@each_row(
    ("asked", "woken"),
    [
        ({"quantity": "humidity"}, {0x76, 0x77}),
        ({"quantity": "light"}, {0x23}),
        ({"sensor": "light"}, {0x23}),
        ({"quantity": "co2"}, set()),
        ({"sensor": "air", "quantity": "light"}, set()),
        ({}, {0x23, 0x76, 0x77}),
    ],
)
def test_a_part_that_cannot_answer_is_not_woken(asked, woken):
    sensors, bus = greenhouse(window=(WiredPart("bh1750", 1, 0x23), Recorder(fill=0x12)))
    ask(sensors, "sensor_read", **asked)
    assert asked_at(bus) == woken


@each_row(
    ("asked", "named"),
    [({}, "light"), ({"sensor": "window"}, "light"), ({"quantity": "light"}, "light")],
)
def test_a_failure_names_what_the_part_would_have_measured(asked, named):
    sensors, _ = greenhouse(window=(WiredPart("bh1750", 1, 0x23), None))
    answer = ask(sensors, "sensor_read", **asked)
    assert f"window: {named} not available: 0x23 on /dev/i2c-1 does not answer" in answer


@each_row("asked", ["temperature", "humidity", "pressure"])
def test_a_failure_names_what_was_asked_for(asked):
    sensors, _ = greenhouse(porch=(WiredPart("bme280", 2, 0x76), None))
    assert f"porch: {asked} not available: /dev/i2c-2" in ask(sensors, "sensor_read", sensor="porch", quantity=asked)


def owned(tmp_path, text, clock=time.time):
    """The line of one sensor that a driver of the owner's reads."""
    where = owners(tmp_path, gauge=f"ADDRESSES = (0x42,)\n{text}\n")
    board, _ = bench({0x42: Recorder()})
    drivers = Drivers(board, lambda part: loader.load_driver(part, where), clock)
    return ask(SensorTools(board, {"tank": WiredPart("gauge", 1, 0x42)}, drivers, "/"), "sensor_read", sensor="tank")


def test_one_doubt_is_said_once_a_line(tmp_path):
    text = "def read(part):\n    part.doubt('warming up')\n    return {'co2': 400.0, 'tvoc': 5.0, 'humidity': 300.0}"
    assert owned(tmp_path, text) == (
        "tank: co2 400 ppm, tvoc 5 ppb, humidity not available: implausible value 300 %: check the wiring and the"
        " sensor (gauge on i2c-1 at 0x42, read just now; doubtful: warming up)"
    )


@pytest.mark.parametrize(
    ("ago", "said"), [(0, "just now"), (4, "just now"), (10.2, "10 s ago"), (75.2, "1 min ago"), (-60, "just now")]
)
def test_a_reading_says_how_old_it_is(tmp_path, ago, said):
    line = owned(tmp_path, "def read(part):\n    return {'co2': 400.0}", lambda: time.time() - ago)
    assert line == f"tank: co2 400 ppm (gauge on i2c-1 at 0x42, read {said})"


# --- parts that are added ---

GHOSTS = {
    "no driver": ("part = 'bme208'", "there is no driver 'bme208'"),
    "address": ("part = 'bme280'\naddress = 0x23", "bme280 cannot be at 0x23"),
    "option": ("part = 'bme280'\naddress = 0x77\noptions = { a = 1 }", "bme280 has no option 'a'"),
    "port": ("part = 'gps'\nport = 'serial0'", "gps needs port"),
}


@pytest.mark.parametrize("ghost", GHOSTS)
def test_an_added_part_that_cannot_be_wired_loses_no_other(tmp_path, ghost):
    table, _ = GHOSTS[ghost]
    (tmp_path / "sensors.toml").write_text(f"[sensors.ghost]\n{table}\n[sensors.porch]\npart = 'bme280'\n")
    board = SimBoard()
    answer = told(started(tmp_path, board), "sensor_read")
    assert "ghost: " in answer
    assert "not available: " in answer
    assert "porch: temperature " in answer
    assert not any(segment for address, segment in board.i2c(1).log if address != 0x76)


@pytest.mark.parametrize("ghost", ["no driver", "address", "option", "port"])
def test_an_added_part_that_cannot_be_wired_says_why(tmp_path, ghost):
    table, why = GHOSTS[ghost]
    (tmp_path / "sensors.toml").write_text(f"[sensors.ghost]\n{table}\n")
    app = started(tmp_path, SimBoard())
    assert why in told(app, "sensor_read", sensor="ghost")


@pytest.mark.parametrize("ghost", GHOSTS)
def test_doctor_says_why_an_added_part_cannot_be_wired(tmp_path, ghost):
    table, why = GHOSTS[ghost]
    (tmp_path / "sensors.toml").write_text(f"[sensors.ghost]\n{table}\n")
    rows = examine_board(SimBoard(), config.load_config({"PICOCLAW_HOME": str(tmp_path)}))
    (row,) = [row for row in rows if row.name == "ghost"]
    assert row.status == "bad"
    assert why in row.detail


def adder(home):
    """One of several conversations in one home, which does not know what the others have added."""
    clock = Clock(1e9, step=0.01)
    board, bus = bench({a: SimBME280(Scene(clock, {"temperature": 21.5})) for a in (0x76, 0x77)}, clock)
    return SensorAddTool(board, {}, drivers_on(board, HW, clock), HW, partial(loader.add_sensor, home)), bus


def test_two_conversations_cannot_add_one_place_twice(tmp_path):
    first, second = adder(tmp_path)[0], adder(tmp_path)[0]
    assert ask(first, "sensor_add", name="porch", address=0x76).startswith("added porch: ")
    said = complaint(ask(second, "sensor_add", name="attic", part="bme280"))
    assert said.endswith("sensors.toml has a sensor 'porch' already in that place")
    said = complaint(ask(second, "sensor_add", name="porch", address=0x77))
    assert said.endswith("sensors.toml has a sensor 'porch' already")
    assert ask(second, "sensor_add", name="attic", address=0x77).startswith("added attic: ")
    assert list(config.load_added_sensors(tmp_path)) == ["porch", "attic"]


def test_what_was_refused_is_not_read_either(tmp_path):
    first, second = adder(tmp_path)[0], adder(tmp_path)[0]
    ask(first, "sensor_add", name="porch", address=0x76)
    ask(second, "sensor_add", name="attic", address=0x76)
    assert second._wired == {}


NAMELESS = "[parts.greenhouse]\npart = 'bme280'\naddress = 0x76\nnamed = {}\nvalues = {{ temperature = 21.5 }}\n"


def rehearsed(home, named):
    (home / "sim.toml").write_text(NAMELESS.format(named))
    return started(home, SimBoard(script=script.load_script(home / "sim.toml", HW)))


def test_a_part_that_nobody_has_named_is_found_by_adding_it(tmp_path):
    app = rehearsed(tmp_path, "false")
    assert told(app, "sensor_list") == "cpu: temperature (/sys/class/thermal/thermal_zone0)"
    assert told(app, "sensor_read", sensor="greenhouse") == "error: no sensor 'greenhouse'; there are: cpu"
    assert told(app, "i2c", action="scan") == "i2c-1: 0x76 answers"
    said = told(app, "sensor_add", name="porch", address=0x76)
    assert said.startswith("added porch: bme280 on i2c-1 at 0x76; it measures temperature 21.5")
    for running in (app, rehearsed(tmp_path, "false")):
        assert told(running, "sensor_read", sensor="porch", quantity="temperature").startswith(
            "porch: temperature 21.5"
        )


def test_a_part_that_is_named_need_not_be_added(tmp_path):
    app = rehearsed(tmp_path, "true")
    assert told(app, "sensor_read", sensor="greenhouse").startswith("greenhouse: temperature 21.5")
    assert "is taken: greenhouse is" in complaint(told(app, "sensor_add", name="porch", address=0x76, part="bme280"))


@pytest.mark.parametrize("named", ["'false'", "0", "[]"])
def test_named_is_yes_or_no(tmp_path, named):
    with pytest.raises(ConfigError, match=r"\[parts\.greenhouse\]: named must be true, or false"):
        rehearsed(tmp_path, named)


# --- the i2c tool ---

EXPANDER = '[outputs.fan]\npart = "pcf8574"\naddress = 0x20\nchannel = 3\nkind = "motor"\nlongest_on_s = 10\n'


@pytest.fixture
def declared(tmp_path):
    """picoclaw with an expander at 0x20, one of whose channels is a declared output, and a stranger at 0x21."""
    (tmp_path / "outputs.toml").write_text(EXPANDER)
    expander = Recorder(fill=0xFF)
    board = SimBoard()
    board.i2c(1).parts |= {0x20: expander, 0x21: Recorder(fill=0x55)}
    app = started(tmp_path, board)
    yield app, expander
    app.close()


OWN = "0x20 on i2c-1 is the declared output fan, which takes what is written for its level: use output"


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "read", "register": 0},
        {"action": "read", "register": 0xFF, "length": 2},
        {"action": "read", "register": 0, "form": "byte"},
        {"action": "read", "register": 0x100, "wide": True},
        {"action": "write", "data": [0]},
        {"action": "write", "register": 0, "data": [0]},
        {"action": "run", "script": "write 0x00"},
        {"action": "run", "script": "read 1"},
    ],
)
def test_nothing_is_written_to_a_declared_output(declared, arguments):
    app, expander = declared
    assert complaint(told(app, "i2c", address=0x20, **arguments)) == f"error: {OWN}"
    assert expander.written == []


def test_a_declared_output_is_no_sensor_to_be_added(declared):
    app, expander = declared
    for part in ("pcf8574", "", "bme280"):
        complaint(told(app, "sensor_add", name="porch", part=part, address=0x20))
    assert expander.written == []


def test_the_pins_of_a_declared_output_can_be_read(declared):
    app, expander = declared
    assert told(app, "i2c", action="read", address=0x20) == "0x20 on i2c-1: ff (hex, 1 bytes)"
    assert told(app, "i2c", action="write", address=0x21, data=[1]) == "wrote 01 (hex) to 0x21 on i2c-1"
    assert expander.written == []


NAMED = {
    "weather": WiredPart("bme280", 1, 0x76),
    "levels": WiredPart("pcf8574", 1, 0x20),
    "quality": WiredPart("scd4x", 1, 0x62),
    "warmth": WiredPart("lm75", 2, 0x48),
    "lost": WiredPart("no_such_part", 1, 0x30),
    "gone": WiredPart("max31855", 0, chip=1),
}


@each_row(
    ("asked", "effect"),
    [
        ({"address": 0x76, "register": 0xD0}, "read"),
        ({"address": 0x76, "register": 0xD0, "form": "byte"}, "read"),
        ({"address": 0x76, "register": 0xD0, "wide": True}, "actuate"),
        ({"address": 0x76, "wide": True}, "read"),
        ({"address": 0x77, "register": 0xD0}, "actuate"),
        ({"address": 0x20, "register": 0}, "actuate"),
        ({"address": 0x62, "register": 0}, "actuate"),
        ({"address": 0x30, "register": 0}, "actuate"),
        ({"address": 0x48, "register": 0}, "actuate"),
        ({"address": 0x48, "register": 0, "bus": 2}, "read"),
        ({"address": 0x20}, "read"),
        ({"address": 0x76, "action": "write", "data": [1]}, "actuate"),
        ({"address": 0x76, "action": "run", "script": "read 1"}, "actuate"),
    ],
)
def test_a_register_is_read_without_asking_only_where_that_changes_nothing(asked, effect):
    known = RegisterAddresses(NAMED, lambda part: loader.load_driver(part, HW))
    tool = toolset(loader.load_module("i2c", HW).I2C(SimBoard(), known)).find("i2c")
    usual = {"action": "read", "bus": 1, "register": None, "wide": False}
    assert tool.effects(usual | asked) == (effect,)


@pytest.mark.parametrize("flag", ["1", "'yes'", "False", "None"])
def test_only_a_plain_yes_says_that_registers_may_be_read(tmp_path, flag):
    where = owners(tmp_path, gauge=f"ADDRESSES = (0x42,)\nREGISTERS = {flag}\n{READ}")
    known = RegisterAddresses({"tank": WiredPart("gauge", 1, 0x42)}, lambda part: loader.load_driver(part, where))
    assert (1, 0x42) not in known


@each_row(
    ("action", "idle", "given", "goes"),
    [
        ("detect", "register", {"register": 1}, "read and write"),
        ("scan", "register", {"register": 0xD0}, "read and write"),
        ("scan", "data", {"data": [1]}, "write"),
        ("read", "data", {"data": [1]}, "write"),
        ("read", "script", {"script": "write 1"}, "run"),
        ("write", "script", {"data": [1], "script": "write 1"}, "run"),
        ("run", "register", {"script": "read 1", "register": 0}, "read and write"),
        ("run", "data", {"script": "read 1", "data": [1]}, "write"),
    ],
)
def test_an_argument_that_an_action_would_pass_over_is_refused(action, idle, given, goes):
    board, bus = bench({0x76: Recorder()})
    said = complaint(ask(loader.load_module("i2c", HW).I2C(board), "i2c", action=action, address=0x76, **given))
    assert said == f"error: {idle} does not go with {action}; it goes with {goes}"
    assert not bus.transfers


@each_row("action", ["detect", "scan", "read"])
def test_places_that_a_small_model_fills_with_nothing_are_passed_over(action):
    board, _ = bench({0x76: Recorder()})
    filled = {"data": [], "script": "", "pec": False, "wide": False, "form": "bytes"}
    filled |= {"address": 0x76} if action == "read" else {"register": 0}
    said = ask(loader.load_module("i2c", HW).I2C(board), "i2c", action=action, **filled)
    assert said == ask(loader.load_module("i2c", HW).I2C(board), "i2c", action=action, address=0x76)


def scan(fault, *addresses):
    board, _ = bench({address: Recorder() for address in addresses})
    board.wiring.faults.append(fault)
    return ask(loader.load_module("i2c", HW).I2C(board), "i2c", action="scan")


STUCK = "timed out: SDA or SCL may be held low; check the wiring, then power-cycle the part"


def test_a_scan_that_meets_a_stuck_part_says_what_answered_before_it():
    said = scan(SimFault("stuck", "i2c-1/0x40"), 0x20, 0x23, 0x40, 0x76)
    assert said == f"i2c-1: 0x20 answers; 0x23 answers; ended at 0x40: 0x40 on /dev/i2c-1 {STUCK}"


def test_a_scan_of_a_stuck_bus_is_an_error():
    assert complaint(scan(SimFault("stuck", "i2c-1"), 0x20)) == f"error: 0x08 on /dev/i2c-1 {STUCK}"


# --- drivers of the kernel that leave its own document ---

IIO, HWMON = "/sys/bus/iio/devices/iio:device0", "/sys/class/hwmon/hwmon0"


@pytest.mark.parametrize(
    ("name", "files", "found"),
    [
        ("sgp30", {"in_concentration_co2_input": "0.000400"}, {("sgp30", "co2"): 400.0}),
        ("sgp30", {"in_concentration_voc_input": "0.000000005"}, {("sgp30", "tvoc"): 5.0}),
        ("ccs811", {"in_concentration_co2_raw": "450", "in_concentration_co2_scale": "0.0001"},
         {("ccs811", "co2"): 450.0}),
        ("ccs811", {"in_concentration_voc_raw": "7", "in_concentration_voc_scale": "0.0000001"},
         {("ccs811", "tvoc"): 7.0}),
        ("bme680", {"in_humidityrelative_input": "55.2"}, {("bme680", "humidity"): 55.2}),
        ("bme280", {"in_humidityrelative_input": "55200"}, {("bme280", "humidity"): 55.2}),
        ("ina219", {"in_voltage0_shunt_raw": "500", "in_voltage0_shunt_scale": "0.01"},
         {("ina219 shunt", "voltage"): 0.005}),
        ("ina226", {"in_voltage0_raw": "500", "in_voltage0_scale": "0.01", "in_voltage1_raw": "3000",
                    "in_voltage1_scale": "4"}, {("ina226 shunt", "voltage"): 0.005, ("ina226", "voltage"): 12.0}),
        ("ads1015", {"in_voltage0_raw": "3000", "in_voltage0_scale": "1"}, {("ads1015 0", "voltage"): 3.0}),
        ("max31855", {"in_temp_raw": "4800", "in_temp_scale": "250"}, {("max31855", "temperature"): 1200.0}),
        ("max31855", {"in_temp_raw": "-800", "in_temp_scale": "250"}, {("max31855", "temperature"): -200.0}),
        ("maxim_thermocouple", {"in_temp_raw": "4800", "in_temp_scale": "250"},
         {("maxim_thermocouple", "temperature"): 1200.0}),
        ("max31855", {"in_temp_raw": "7600", "in_temp_scale": "250"}, {("max31855", "temperature"): None}),
        ("lm75", {"in_temp_input": "1200000"}, {("lm75", "temperature"): None}),
        ("sgp40", {"in_resistance_raw": "30000"}, {("sgp40", "raw"): 30000.0}),
        ("bme680", {"in_resistance_input": "12500"}, {("bme680", "resistance"): 12500.0}),
        ("other", {"in_resistance_raw": "30000"}, {("other", "resistance"): None}),
    ],
)  # fmt: skip
def test_a_drivers_own_way_is_known(tmp_path, name, files, found):
    folder = tmp_path / IIO.lstrip("/")
    folder.mkdir(parents=True)
    for file, content in {"name": name, **files}.items():
        (folder / file).write_text(f"{content}\n")
    board = LinuxBoard(tmp_path)
    read = {(s.name, s.quantity): kernel.read_kernel_sensor(board, s).value for s in kernel.list_kernel_sensors(board)}
    assert read == {key: value if value is None else pytest.approx(value) for key, value in found.items()}


LABELLED = [
    ("sgp30", {"in_concentration_co2_input": "0.000400"}, {("porch", "co2"): 400.0}),
    ("bme680", {"in_humidityrelative_input": "55.2"}, {("porch", "humidity"): 55.2}),
    ("ina226", {"in_voltage0_raw": "500", "in_voltage0_scale": "0.01"}, {("porch shunt", "voltage"): 0.005}),
    ("max31855", {"in_temp_raw": "4800", "in_temp_scale": "250"}, {("porch", "temperature"): 1200.0}),
]


@pytest.mark.parametrize(("name", "files", "found"), LABELLED)
def test_a_drivers_own_way_is_known_under_a_label(tmp_path, name, files, found):
    test_a_drivers_own_way_is_known(tmp_path, name, files | {"label": "porch"}, found)


@pytest.mark.parametrize(
    ("chip", "named"), [("ina219", "ina219 shunt"), ("ina226", "ina226 shunt"), ("other", "other")]
)
def test_the_shunt_of_a_power_monitor_is_not_the_voltage_of_its_supply(tmp_path, chip, named):
    folder = tmp_path / HWMON.lstrip("/")
    folder.mkdir(parents=True)
    for file, content in {"name": chip, "in0_input": "5", "in1_input": "12000"}.items():
        (folder / file).write_text(f"{content}\n")
    board = LinuxBoard(tmp_path)
    volts = {s.name: kernel.read_kernel_sensor(board, s).value for s in kernel.list_kernel_sensors(board)}
    assert volts[named] == pytest.approx(0.005)
    assert pytest.approx(12.0) in volts.values()


def test_a_channel_keeps_its_own_limits():
    (sensor,) = [kernel.KernelSensor("oven", "temperature", "/x/y", 1e-3, False, limits=(-270.0, 1800.0))]
    hot = Reading("oven", "temperature", 1200.0, "/x")
    assert reject_implausible(hot, sensor.limits).value == 1200.0
    assert reject_implausible(hot).value is None


# --- the disk ---


def test_a_short_write_leaves_no_half_line(tmp_path):
    path = tmp_path / "audit"
    path.write_bytes(b"whole\n")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        try:
            files.append_line(path, b"half of a line\n")
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.read_bytes() == b"whole\n"
    files.append_line(path, b"next\n")
    assert path.read_bytes() == b"whole\nnext\n"


# --- to stop ---

PUMP = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\n'


@pytest.fixture
def pumping(tmp_path):
    """picoclaw with a pump that is armed, and that somebody has left running."""
    (tmp_path / "outputs.toml").write_text(PUMP)
    save_armed(tmp_path, {"pump": declarations(tmp_path / "outputs.toml").outputs["pump"].digest})
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim/line17").write_text("1")
    app = started(tmp_path, SimBoard(state=tmp_path / "sim"))
    yield app
    app.close()


def runs(app):
    """Whether the pump does, and whether it could be switched on."""
    home = app.config.home
    return (home / "sim/line17").read_text().strip(), (home / supervisor.STOP_FILE).exists()


SAFE = "everything is at its safe level; nothing is switched on until you type /resume, or `picoclaw outputs resume` on the board"


@pytest.mark.parametrize(
    "text",
    [
        *("STOP", "stop", " Stop! ", "stop...", "please  stop", "Please stop!", "EMERGENCY STOP!!", "stop, all off"),
        *("stop\r\n", "stop now", "stop all", "STOP EVERYTHING NOW", "stop it all", "stop stop", "everything off, stop", "halt", "Stopp!!"),
        *("ＳＴＯＰ", "halt, stopp!", "alto", "para todo", "corta corta", "arrête tout !!!", "tout arrêter, vite", "stop please"),
        *("no no stop", "stop pls", "ok stop it all thanks", "No, stop!", "nein, halt", "no, para", "non, arrête"),
        *("para para q se sale el agua", "Stop, stop! The hose came off.", "halt halt das Wasser läuft über"),
    ],
)  # fmt: skip
def test_the_order_to_stop(pumping, text):
    assert runs(pumping) == ("1", False)
    assert pumping.wiring.obey_stop_order(text, "owner") == (True, SAFE)
    assert runs(pumping) == ("0", True)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "all\toff",
            "everything off",
            "turn everything off",
            "switch everything off now",
            "everything off, im going to bed",
        ),
        *("Alles aus", "alles ausschalten", "mach alles aus", "alles aus, ich geh schlafen", "apágalo todo"),
        *(
            "apaga todo, me piro",
            "éteins tout",
            "alles aus, da stimmt was nicht",
            "alles aus, um Gottes willen",
            "alles aus, es geht nicht",
            "apaga todo, no hay nadie",
            "éteins tout, ça va pas",
        ),
        *(
            "kill everything im off out",
            "turn everything off it's on fire",
            "alles aus ich geh jetzt",
            "mach alles aus bin weg",
        ),
        *(
            "apaga todo me piro ya",
            "apaga todo q me voy para casa",
            "coupe tout stp jme casse",
            "éteins tout on s'en va",
        ),
    ],
)
def test_everything_off_stops_no_rule(pumping, text):
    good, said = pumping.wiring.obey_stop_order(text, "owner")
    assert (good, said.partition(";")[0]) == (True, SAFE.partition(";")[0])
    assert runs(pumping) == ("0", False)
    assert pumping.wiring.outputs.set("pump", "on", 30, "owner").startswith("pump is on")
    pumping.wiring.outputs.stop("owner")
    assert pumping.wiring.obey_stop_order(text, "owner") == (True, f"stopped: {SAFE}")  # it does not end a stop


@pytest.mark.parametrize(
    "text",
    [
        "stop it",
        "Stop it now!",
        "ok stop",
        "ok stop it now pls",
        "stop it, thanks",
        "páralo",
        "arrête ça",
        "no no stop it",
        "no, páralo",
    ],
)
def test_stop_it_is_the_one_that_is_on(pumping, text):
    pumping.wiring.outputs.set("pump", "on", 30, "owner")
    assert pumping.wiring.obey_stop_order(text, "owner") == (True, "pump is at its safe level, off")
    assert runs(pumping) == ("0", False)
    assert pumping.wiring.obey_stop_order(text, "owner") == (True, f"stopped: {SAFE}")  # nothing is on: it means all


@pytest.mark.parametrize(
    "text",
    [
        *("", "!", "stop the pump", "don't stop", "how do I stop it", "/stop", "stopped", "st op"),
        *("stop, please tell me why", "stop?", "turn off all reminders", "stop the reminders", "everything is off", "all good"),
        *("para mañana", "para las tomateras", "halt mal die Pumpe", "aus", "alles gut", "todo bien", "tout va bien", "off"),
        *("is everything off, or not", "all off at ten", "turn it off", "pump off, and tell me all", "everything off, or not?"),
        *("everything off, but not the fan", "alles aus, nur die Pumpe nicht", "apaga todo, la bomba no", "éteins tout, sauf la pompe"),
        *("everything off, not now", "alles aus, aber erst um 8", "apaga todo, a las 8", "alles aus, die Pumpe bleibt an"),
        *("turn off everything i dont need", "everything off im leaving in 10 minutes", "everything off on friday", "kill it"),
        *("alles aus ich brauch nur die lampe", "alles aus wenn ich gehe", "ich geh jetzt ist alles aus", "mach alles aus was an ist"),
        *("apaga todo que no sea la bomba", "apaga todo cuando me voy", "coupe tout quand je sors", "tout est coupé je sors"),
        *("no para", "no basta", "no apaga todo", "no", "no no", "no, thanks", "no stop the pump"),
    ],
)  # fmt: skip
def test_what_only_speaks_of_stopping_stops_nothing(pumping, text):
    assert pumping.wiring.obey_stop_order(text, "owner") is None
    assert runs(pumping) == ("1", False)


def test_a_message_that_is_the_order_needs_no_model_and_no_database(pumping):
    turn = pumping.dispatcher.answer(Inbound("s", "STOP!"))
    assert (turn.reply, turn.provider, turn.steps) == (SAFE, "stop", 0)
    assert runs(pumping) == ("0", True)
    assert not (pumping.config.home / "state.db").exists()


def test_without_a_declared_output_stop_is_a_word_like_any_other(tmp_path):
    assert started(tmp_path, SimBoard()).wiring.obey_stop_order("STOP", "owner") is None


WRITE = call("i2c", {"action": "write", "address": "0x76", "register": "0xf4", "data": [0x25]})


@pytest.mark.parametrize("answer", ["STOP", "stop!", "Please stop"])
def test_stop_is_an_answer_to_the_question(tmp_path, answer):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    (home / "outputs.toml").write_text(PUMP)
    with ModelServer([reply("", WRITE), reply("Done.")]) as server:
        with Person(tmp_path, "chat", "--board", "sim", columns=200, PICOCLAW_BASE_URL=server.url) as person:
            person.sees("> ")
            person.types("start it\r")
            person.sees("[y/N] ")
            person.types(f"{answer}\r")
            person.sees("everything is at its safe level")
            person.sees("i2c was refused: the answer was no")
            person.sees("[stopped by the user]")
        assert len(server.requests) == 1
    assert (home / supervisor.STOP_FILE).exists()
