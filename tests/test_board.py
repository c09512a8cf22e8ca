"""The board: kernel files in a tree of real files, the simulated board beside it, and the tools that read them."""

import re
from datetime import UTC, datetime

import pytest
from rights import ordinary_user
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.files import find_shipped
from picoclaw.hw import kernel
from picoclaw.hw.board import I2CAdapter
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import Drivers, load_driver, load_module
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.parts.climate import SimBME280
from picoclaw.hw.sim.script import Scene
from picoclaw.messages import Caller, ToolCall
from picoclaw.times import format_duration
from picoclaw.tools.registry import Toolset
from picoclaw.tools.sensors import SensorTools

HW = [find_shipped("tools/hw")]
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)

ZONE = "/sys/class/thermal/thermal_zone"
HWMON = "/sys/class/hwmon/hwmon"
IIO = "/sys/bus/iio/devices/iio:device"
CO2 = f"{IIO}0/in_concentration_co2"
MLX = {f"{IIO}0/name": "mlx90614", f"{IIO}0/in_temp_object_raw": "15003", f"{IIO}0/in_temp_object_offset": "-13658"}
W1 = "/sys/bus/w1/devices/28-0316a2794cff/temperature"

PI = {
    "/proc/device-tree/model": "Raspberry Pi Zero 2 W Rev 1.0\0",
    "/proc/meminfo": "MemTotal:         437500 kB\nMemFree:  9 kB\nMemAvailable:     262144 kB\n",
    "/proc/loadavg": "0.08 0.05 0.01 1/99 1234\n",
    "/proc/uptime": "90061.23 0.00\n",
    "/sys/devices/platform/soc/soc:firmware/get_throttled": "0\n",
    f"{ZONE}0/type": "cpu-thermal\n",
    f"{ZONE}0/temp": "46540\n",
    f"{HWMON}0/name": "cpu_thermal\n",
    f"{HWMON}0/temp1_input": "46540\n",
}


@pytest.fixture
def tree(tmp_path):
    """Build a board from a table of its kernel files; a value of None makes a folder where a file belongs."""

    def build(files):
        for name, content in files.items():
            path = tmp_path / "root" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if content is None else path.write_text(content)
        return LinuxBoard(tmp_path / "root")

    return build


def measured(board):
    return {(s.name, s.quantity): kernel.read_kernel_sensor(board, s).value for s in kernel.list_kernel_sensors(board)}


def problem(board):
    (sensor,) = kernel.list_kernel_sensors(board)
    reading = kernel.read_kernel_sensor(board, sensor)
    assert reading.value is None
    return reading.problem


# --- sensors of the kernel ---


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({f"{ZONE}0/type": "cpu-thermal\n", f"{ZONE}0/temp": "46540\n"}, {("cpu", "temperature"): 46.54}),
        ({f"{ZONE}0/temp": "-5000"}, {("thermal", "temperature"): -5.0}),
        ({f"{HWMON}3/name": "sht3x\n", f"{HWMON}3/temp1_input": "21450\n"}, {("sht3x", "temperature"): 21.45}),
        ({f"{HWMON}3/name": "sht3x\n", f"{HWMON}3/humidity1_input": "55200"}, {("sht3x", "humidity"): 55.2}),
        ({f"{HWMON}0/name": "ina219", f"{HWMON}0/in1_input": "5012", f"{HWMON}0/power1_input": "2500000"}, {("ina219", "voltage"): 5.012, ("ina219", "power"): 2.5}),
        ({f"{HWMON}0/name": "tmp", f"{HWMON}0/temp1_input": "1000", f"{HWMON}0/temp1_label": "outside wall\n"}, {("tmp outside wall", "temperature"): 1.0}),
        ({f"{HWMON}0/fan1_input": "1200"}, {("hwmon", "fan"): 1200.0}),
        ({f"{HWMON}0/name": "x", f"{HWMON}0/intrusion0_input": "1"}, {}),
        ({f"{IIO}0/name": "dht11", f"{IIO}0/in_temp_input": "21000"}, {("dht11", "temperature"): 21.0}),
        ({f"{IIO}0/name": "bmp280", f"{IIO}0/in_pressure_input": "100.653"}, {("bmp280", "pressure"): 1006.53}),
        ({f"{IIO}0/label": "porch", f"{IIO}0/name": "dht11", f"{IIO}0/in_humidityrelative_input": "55200"}, {("porch", "humidity"): 55.2}),
        ({f"{IIO}0/name": "scd4x", f"{CO2}_raw": "612", f"{CO2}_scale": "0.0001"}, {("scd4x", "co2"): 612.0}),
        ({f"{IIO}0/name": "scd4x", f"{CO2}_raw": "612", f"{IIO}0/in_concentration_scale": "0.0001"}, {("scd4x", "co2"): 612.0}),
        (
            MLX | {f"{IIO}0/in_temp_ambient_input": "20500", f"{IIO}0/in_temp_object_scale": "20"},
            {("mlx90614 object", "temperature"): 26.9, ("mlx90614 ambient", "temperature"): 20.5},
        ),
        (MLX | {f"{IIO}0/in_temp_scale": "20"}, {("mlx90614 object", "temperature"): 26.9}),
        ({f"{IIO}0/in_voltage4_vccint_raw": "100", f"{IIO}0/in_voltage4_vccint_scale": "10"}, {("iio 4 vccint", "voltage"): 1.0}),
        ({f"{IIO}0/in_current0_raw": "1500"}, {("iio 0", "current"): 1.5}),
        ({f"{IIO}0/in_current0_raw": "1500", f"{IIO}0/in_current_scale": "2"}, {("iio 0", "current"): 3.0}),
        ({f"{IIO}0/in_current0_raw": "1500", f"{IIO}0/in_current0_offset": "2"}, {("iio 0", "current"): None}),
        ({f"{IIO}0/in_temp_peak_raw": "77", f"{IIO}0/in_temp_scale": "9", f"{IIO}0/in_temp_mean_raw": "7"}, {}),
        ({f"{IIO}0/in_concentration_nox_raw": "5", f"{IIO}0/in_intensity_ir_raw": "5"}, {}),
        ({f"{IIO}0/in_illuminance_input": "320"}, {("iio", "light"): 320.0}),
    ],
)  # fmt: skip
def test_what_the_kernel_measures(tree, files, expected):
    found = measured(tree(files))
    assert found == {key: value if value is None else pytest.approx(value) for key, value in expected.items()}


ADC = {
    f"{IIO}0/name": "ads1015\n",
    f"{IIO}0/in_voltage0_raw": "1000\n",
    f"{IIO}0/in_voltage1_raw": "500\n",
}


@pytest.mark.parametrize(
    ("attributes", "volts"),
    [
        ({"in_voltage_scale": "2"}, (2.0, 1.0)),
        ({"in_voltage0_scale": "3", "in_voltage_scale": "2"}, (3.0, 1.0)),
        ({"in_voltage_scale": "2", "in_voltage_offset": "-100"}, (1.8, 0.8)),
        ({"in_voltage_scale": "1", "in_voltage1_offset": "500"}, (1.0, 1.0)),
    ],
)
def test_a_raw_channel_is_offset_and_scaled_by_its_own_or_a_shared_attribute(tree, attributes, volts):
    found = measured(tree(ADC | {f"{IIO}0/{name}": value for name, value in attributes.items()}))
    assert found[("ads1015 0", "voltage")] == pytest.approx(volts[0])
    assert found[("ads1015 1", "voltage")] == pytest.approx(volts[1])


def test_a_broken_scale_is_a_problem_and_not_ignored(tree):
    board = tree({f"{IIO}0/in_voltage0_raw": "1000", f"{IIO}0/in_voltage0_scale": "much"})
    assert "holds 'much', not a number" in problem(board)


@pytest.mark.parametrize(
    "channel", ["in_voltage0", "in_temp", "in_temp_object", "in_humidityrelative", "in_pressure", "in_distance"]
)
def test_a_raw_value_without_a_scale_is_not_believed(tree, channel):
    board = tree({f"{IIO}0/{channel}_raw": "100", f"{IIO}0/{channel}_offset": "1"})
    assert problem(board).startswith(f"{IIO}0/{channel}_scale is missing, so 100 has no unit")


@pytest.mark.parametrize(("kind", "value"), [("temp1", "21000"), ("humidity1", "50000"), ("fan1", "0")])
def test_a_fault_that_the_chip_reports_hides_the_value(tree, kind, value):
    files = {f"{HWMON}3/name": "chip", f"{HWMON}3/{kind}_input": value}
    assert measured(tree(files | {f"{HWMON}3/{kind}_fault": "0\n"})) != {}
    assert problem(tree(files | {f"{HWMON}3/{kind}_fault": "1\n"})) == (
        f"the chip reports a fault of its sensor ({HWMON}3/{kind}_fault): check that it is connected and whole"
    )


def test_a_fault_of_one_sensor_is_none_of_another(tree):
    board = tree({f"{HWMON}3/temp{n}_input": "21000" for n in (1, 2)} | {f"{HWMON}3/temp1_fault": "1"})
    assert measured(board) == {("hwmon", "temperature"): None, ("hwmon #2", "temperature"): 21.0}


def test_a_finished_value_is_preferred_to_a_raw_one(tree):
    board = tree({f"{IIO}0/in_temp_input": "21000", f"{IIO}0/in_temp_raw": "77", f"{IIO}0/in_temp_scale": "9"})
    assert measured(board) == {("iio", "temperature"): 21.0}


def test_the_processor_is_not_listed_twice(tree):
    assert measured(tree(PI)) == {("cpu", "temperature"): pytest.approx(46.54)}


def test_a_1_wire_part_is_not_listed_twice(tree):
    board = tree({W1: "21437\n", f"{HWMON}1/name": "w1_slave_temp\n", f"{HWMON}1/temp1_input": "21437\n"})
    assert measured(board) == {("28-0316a2794cff", "temperature"): pytest.approx(21.437)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("85000\n", "power-on or broken-wire"),
        ("-127000\n", "power-on or broken-wire"),
        ("", "holds '', not a number"),
        ("crc=5f NO\n", "not a number"),
        ("x" * 5000, "x', not a number"),
        ("\x1b[2J", "\\x1b[2J"),
        ("nan", "implausible"),
        ("inf", "implausible"),
        ("-1e9", "implausible"),
        ("250000", "implausible value 250 °C: check the wiring"),
        (None, "Is a directory"),
    ],
)
def test_what_is_not_a_measurement_is_a_problem_in_words(tree, content, said):
    words = problem(tree({W1: content}))
    assert said in words
    assert len(words) < 200


@pytest.mark.parametrize("content", ["85001", "-55000", "125000", "0"])
def test_what_is_nearly_a_fault_value_is_measured(tree, content):
    assert measured(tree({W1: content})) == {("28-0316a2794cff", "temperature"): int(content) / 1000}


def test_85_degrees_elsewhere_is_a_temperature(tree):
    board = tree({f"{ZONE}0/type": "cpu-thermal", f"{ZONE}0/temp": "85000"})
    assert measured(board) == {("cpu", "temperature"): 85.0}


def test_a_sensor_that_was_unplugged_after_it_was_listed(tree, tmp_path):
    board = tree({W1: "21000"})
    (sensor,) = kernel.list_kernel_sensors(board)
    (tmp_path / "root" / W1.lstrip("/")).unlink()
    assert kernel.read_kernel_sensor(board, sensor).problem == f"{W1} does not exist"


def test_a_file_that_may_not_be_read(tree, tmp_path):
    board = tree({W1: "21000"})
    (tmp_path / "root" / W1.lstrip("/")).chmod(0)
    with ordinary_user():
        assert problem(board) == f"{W1} may not be opened by this user"


def test_sensors_of_the_same_name_stay_apart(tree):
    files = {}
    for number in range(3):
        files |= {f"{HWMON}{number}/name": "sht3x", f"{HWMON}{number}/temp1_input": f"{number}000"}
        files |= {f"{HWMON}{number}/humidity1_input": f"{number}0000"}
    found = measured(tree(files))
    assert {key: round(value) for key, value in found.items()} == {
        ("sht3x", "temperature"): 0,
        ("sht3x #2", "temperature"): 1,
        ("sht3x #3", "temperature"): 2,
        ("sht3x", "humidity"): 0,
        ("sht3x #2", "humidity"): 10,
        ("sht3x #3", "humidity"): 20,
    }


@pytest.mark.parametrize("name", ["a\x1b[2Jb\n", "a\nb: 99 °C", "a\x00b", "a\x9b2Jb", "a\u0085b"])
def test_a_sensors_name_holds_no_control_characters(tree, name):
    (sensor,) = kernel.list_kernel_sensors(tree({f"{HWMON}0/name": name, f"{HWMON}0/temp1_input": "1"}))
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", sensor.name)
    assert sensor.name.startswith("a ")


# --- one contract, two boards ---


@pytest.fixture(params=["simulated", "linux"])
def board(request, tree):
    simulated = SimBoard(lambda: 1_780_000_000.0)
    if request.param == "simulated":
        return simulated
    paths = list(simulated._files)
    bus = {"/dev/i2c-1": "", "/sys/class/i2c-dev/i2c-1/name": "bcm2835 (i2c@7e804000)\n"}
    return tree({path: simulated.text(path) + "\n" for path in paths} | bus)


CONTRACT = [
    ("text", lambda b: b.text("/proc/meminfo").startswith("MemTotal"), True),
    ("text is stripped", lambda b: b.text("/proc/loadavg"), "0.08 0.05 0.01 1/99 1234"),
    ("missing text", lambda b: b.text("/sys/no/such/file"), DeviceMissing),
    ("glob", lambda b: b.glob("/sys/class/thermal/*/temp"), ["/sys/class/thermal/thermal_zone0/temp"]),
    ("glob stays in one folder", lambda b: b.glob("/sys/*/temp"), []),
    ("glob of several", lambda b: b.glob("/proc/[lu]*"), ["/proc/loadavg", "/proc/uptime"]),
    ("glob of nothing", lambda b: b.glob("/sys/bus/w1/devices/*"), []),
    ("glob without a star", lambda b: b.glob("/proc/uptime"), ["/proc/uptime"]),
    ("space", lambda b: 0 < b.space("/").free <= b.space("/").total, True),
    ("adapters", lambda b: [(a.number, a.path, a.header) for a in b.adapters()], [(1, "/dev/i2c-1", True)]),
    ("missing bus", lambda b: b.i2c(9), DeviceMissing),
    ("sensors", lambda b: [(s.name, s.quantity) for s in kernel.list_kernel_sensors(b)], [("cpu", "temperature")]),
    ("clock", lambda b: b.clock_synchronised() in {True, False}, True),
    ("closed twice", lambda b: [b.close(), b.close()], [None, None]),
]


@pytest.mark.parametrize(("ask", "expected"), [c[1:] for c in CONTRACT], ids=[c[0] for c in CONTRACT])
def test_both_boards_keep_the_contract(board, ask, expected):
    if isinstance(expected, type):
        with pytest.raises(expected):
            ask(board)
    else:
        assert ask(board) == expected


def test_both_boards_say_what_is_missing(board):
    with pytest.raises(DeviceMissing, match=r"^/dev/i2c-9 does not exist"):
        board.i2c(9)
    with pytest.raises(DeviceMissing, match=r"^/sys/no/such/file does not exist"):
        board.text("/sys/no/such/file")


# --- the real board's buses ---


def test_a_missing_bus_says_how_to_turn_it_on(tree):
    board = tree({})
    assert board.adapters() == []
    with pytest.raises(DeviceMissing, match="sudo raspi-config nonint do_i2c 0"):
        board.i2c(1)


def test_a_forbidden_bus_says_which_group_is_needed(tree, tmp_path):
    board = tree({"/dev/i2c-1": ""})
    (tmp_path / "root/dev/i2c-1").chmod(0)
    with ordinary_user(), pytest.raises(NoPermission, match=r"sudo usermod -aG i2c \$USER"):
        board.i2c(1)


def test_a_file_that_is_no_bus_is_a_fault(tree):
    with pytest.raises(BusFault, match=r"^/dev/i2c-1 failed: Inappropriate ioctl"):
        tree({"/dev/i2c-1": ""}).i2c(1)


def test_adapters_are_listed_by_number_with_the_header_marked(tree):
    files = {f"/dev/i2c-{number}": "" for number in (20, 1, 2)} | {"/dev/i2c-1-porch": "", "/dev/i2c": ""}
    names = {1: "bcm2835 (i2c@7e804000)", 2: "HDMI A DDC"}
    files |= {f"/sys/class/i2c-dev/i2c-{number}/name": f"{name}\n" for number, name in names.items()}
    assert tree(files).adapters() == [
        I2CAdapter(1, "/dev/i2c-1", "bcm2835 (i2c@7e804000)", header=True),
        I2CAdapter(2, "/dev/i2c-2", "HDMI A DDC", header=False, use="an HDMI port"),
        I2CAdapter(20, "/dev/i2c-20", "unknown adapter", header=False),
    ]


def test_a_display_is_never_taken_for_the_header(tree):
    (adapter,) = tree({"/dev/i2c-1": "", "/sys/class/i2c-dev/i2c-1/name": "fef09500.i2c hdmi"}).adapters()
    assert not adapter.header


# --- how the board is ---


def judged(board, what, now=NOON, home="/"):
    """Mark and words of one thing."""
    return next(
        ((row.status, row.detail) for row in kernel.check_health(board, now, home) if row.name == what), (None, None)
    )


def row(board, what, now=NOON):
    return judged(board, what, now)[1]


SINCE_BOOT = "under-voltage has occurred since boot; throttling has occurred since boot"
THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("0", "good: no under-voltage and no throttling since boot"),
        ("0x0", "good: no under-voltage and no throttling since boot"),
        ("1", "under-voltage now"),
        ("50000", SINCE_BOOT),
        ("0x50005", f"under-voltage now; throttled now; {SINCE_BOOT}"),
        ("8", "soft temperature limit active now"),
        ("80002", "processor frequency capped now; the soft temperature limit has been reached since boot"),
        ("20000", "frequency capping has occurred since boot"),
        ("VCHI initialization failed", "not available: not a Raspberry Pi, or its firmware interface is hidden"),
        ("", "not available: not a Raspberry Pi, or its firmware interface is hidden"),
    ],
)
def test_the_firmwares_word_on_power(tree, word, said):
    assert row(tree({THROTTLED: word}), "power and throttling") == said


@pytest.mark.parametrize(
    ("word", "mark"),
    [
        *(("0", "good"), ("1", "bad"), ("4", "bad"), ("5", "bad"), ("50005", "bad"), ("0x80004", "bad")),
        *(("50000", "note"), ("8", "note"), ("2", "note"), ("", "note"), ("garbled", "note")),
    ],
)
def test_only_what_harms_now_is_bad(tree, word, mark):
    assert judged(tree({THROTTLED: word}), "power and throttling")[0] == mark


@pytest.mark.parametrize(
    ("alarm", "mark", "said"), [("0", "good", "good: no under-voltage alarm"), ("1", "bad", "under-voltage")]
)
def test_the_kernels_word_on_power(tree, alarm, mark, said):
    files = {f"{HWMON}1/name": "rpi_volt\n", f"{HWMON}1/in0_lcrit_alarm": f"{alarm}\n"}
    assert judged(tree(files), "power and throttling") == (mark, said)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("board", "Raspberry Pi Zero 2 W Rev 1.0"),
        ("processor temperature", "46.5 °C (cpu)"),
        ("memory", "256 of 427 MB available"),
        ("load", "0.08 0.05 0.01 (1, 5 and 15 minutes)"),
        ("uptime", "1 d 1 h"),
    ],
)
def test_the_status_of_a_pi(tree, what, said):
    assert row(tree(PI), what) == said


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("board", "unknown (no device tree and no DMI name)"),
        ("processor temperature", "not available: this board does not measure it"),
        ("memory", None),
        ("load", None),
        ("uptime", None),
    ],
)
def test_the_status_of_a_machine_that_tells_nothing(tree, what, said):
    assert row(tree({}), what) == said


@pytest.mark.parametrize("meminfo", ["", "MemTotal: many kB\n", "MemTotal: 1000 kB\n"])
def test_an_odd_meminfo_leaves_memory_out(tree, meminfo):
    assert row(tree({"/proc/meminfo": meminfo}), "memory") is None


@pytest.mark.parametrize(
    "content", ["", "garbled", "nan nan nan", "inf", "-1", "9" * 5000, "\xff", "1e400", "²³ 1 1", None]
)
@pytest.mark.parametrize("file", ["/proc/uptime", "/proc/loadavg", "/proc/meminfo", f"{ZONE}0/temp"])
def test_garbled_files_of_the_kernel_lose_no_other_row(tree, file, content):
    left_out = {"/proc/uptime": "uptime", "/proc/loadavg": "load", "/proc/meminfo": "memory"}.get(file)
    rows = [row.name for row in kernel.check_health(tree(PI | {file: content}), NOON, "/")]
    assert set(rows) >= {"board", "processor temperature", "uptime", "load", "memory", "clock"} - {left_out}


def test_a_processor_whose_temperature_cannot_be_read_is_bad(tree):
    assert judged(tree({}), "processor temperature")[0] == "note"
    assert judged(tree({f"{ZONE}0/temp": "hot"}), "processor temperature")[0] == "bad"


def test_a_disk_that_is_not_there_is_said(tree):
    assert judged(tree({}), "disk", home="/no/such/folder") == ("bad", "/no/such/folder does not exist")


@each_row(
    ("year", "mark", "said"),
    [
        (1970, "bad", "NOT trusted"),
        (2025, "bad", "NOT trusted"),
        (2026, "note", "plausible but not synchronised"),
    ],
)
def test_a_clock_of_the_past_is_not_trusted(year, mark, said):
    judgement, words = judged(SimBoard(), "clock", datetime(year, 3, 1, 7, 5, tzinfo=UTC))
    assert judgement == mark
    assert words.startswith(f"{year}-03-01 07:05, {said}")


@each_row(
    ("seconds", "said"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90_061, "1 d 1 h"), (86_400 * 400, "400 d")],
)
def test_time_spans(seconds, said):
    assert format_duration(seconds) == said


# --- the sensor tools ---

CALLER = Caller("test", "owner", NOON, print)


def toolset(*groups):
    return Toolset(groups, guard=lambda *_: None, journal=lambda *_: None, longest_result=20_000)


def sensors(board, wired=None):
    return SensorTools(
        board, board.wired() if wired is None else wired, Drivers(board, lambda part: load_module(part, HW)), "/"
    )


def ask(group, tool, /, **arguments):
    return toolset(group).call(ToolCall("1", tool, arguments), CALLER)


OUTDOOR = {f"{HWMON}5/name": "sht3x", f"{HWMON}5/temp1_input": "9120", f"{HWMON}5/humidity1_input": "81000"}


@pytest.mark.parametrize(
    ("asked", "shown", "hidden"),
    [
        ({}, ["sht3x: humidity 81.00 %, temperature 9.12 °C"], ["cpu"]),
        ({"quantity": "humidity"}, ["sht3x: humidity 81.00 %"], ["temperature", "cpu"]),
        ({"quantity": "temperature"}, ["sht3x: temperature 9.12 °C"], ["humidity", "cpu"]),
        ({"sensor": "cpu"}, ["cpu: temperature 46.54 °C"], ["sht3x"]),
        ({"sensor": " SHT "}, ["temperature 9.12 °C"], ["cpu"]),
        ({"sensor": "hwmon5", "quantity": "Temperature"}, ["sht3x: temperature 9.12 °C"], ["cpu", "humidity"]),
    ],
)
def test_reading_by_name_and_quantity(tree, asked, shown, hidden):
    answer = ask(sensors(tree(PI | OUTDOOR)), "sensor_read", **asked)
    assert all(text in answer for text in shown)
    assert not any(text in answer for text in hidden)


def test_the_inside_of_the_board_is_shown_where_there_is_nothing_else(tree):
    assert ask(sensors(tree(PI)), "sensor_read").startswith("cpu: temperature 46.54 °C")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sensor": "attic"}, "error: no sensor 'attic'; there are: cpu, sht3x"),
        ({"quantity": "co2"}, "error: no sensor measures co2; there are: cpu, sht3x"),
        ({"sensor": "co2"}, "error: no sensor measures co2; there are: cpu, sht3x"),
        ({"sensor": "cpu", "quantity": "fan"}, "error: no sensor 'cpu' measures fan; there are: cpu, sht3x"),
        ({"sensor": "attic thermometer"}, "error: no sensor 'attic' measures temperature; there are: cpu, sht3x"),
        ({"sensor": "soil moisture"}, "error: no sensor 'soil moisture'; there are: cpu, sht3x"),
        ({"quantity": "water temperature"}, "error: no sensor 'water' measures temperature; there are: cpu, sht3x"),
        (
            {"sensor": "sht3x", "quantity": "soil humidity"},
            "error: no sensor 'soil' measures humidity; there are: cpu, sht3x",
        ),
        ({"quantity": "outside temperature"}, "error: no sensor 'outside' measures temperature; there are: cpu, sht3x"),
        ({"sensor": "current"}, "error: no sensor measures current; there are: cpu, sht3x"),
    ],
)
def test_an_unknown_sensor_lists_the_known_ones(tree, asked, said):
    assert ask(sensors(tree(PI | OUTDOOR)), "sensor_read", **asked) == said


def test_the_moisture_of_soil_is_not_the_humidity_of_air(tree):
    answer = ask(sensors(tree(PI | OUTDOOR)), "sensor_read", quantity="soil moisture")
    assert answer.startswith("error: there is no quantity 'soil moisture'; known: temperature, humidity,")


def test_a_sensor_whose_name_is_a_quantity_is_found_by_it(tree):
    wired = {"light": WiredPart("bme280", 1, 0x76), **SimBoard().wired()}
    assert ask(sensors(SimBoard(), wired), "sensor_read", sensor="light").startswith("light: temperature ")


def test_a_board_without_any_sensor_says_so(tree):
    for tool in ("sensor_read", "sensor_list"):
        assert "this board has no sensor that the kernel knows" in ask(sensors(tree({})), tool)


def test_one_failed_sensor_does_not_hide_the_others(tree):
    answer = ask(sensors(tree(OUTDOOR | {W1: "85000"})), "sensor_read")
    assert "temperature 9.12 °C" in answer
    assert "28-0316a2794cff: temperature not available: 85 °C is a power-on" in answer
    assert not answer.startswith("error:")


def test_it_is_an_error_when_all_have_failed(tree):
    answer = ask(sensors(tree(PI | {W1: "85000"})), "sensor_read")
    assert answer.startswith("error: 28-0316a2794cff: temperature not available:")
    assert "just now" not in answer
    assert "cpu" not in answer


def test_the_list_names_what_is_wired_and_what_the_kernel_reads(tree):
    answer = ask(sensors(tree(PI | OUTDOOR), {"porch": WiredPart("bme280", 1, 0x76)}), "sensor_list")
    assert answer.splitlines() == [
        "porch: temperature, humidity, pressure (bme280 on i2c-1 at 0x76)",
        "cpu: temperature (/sys/class/thermal/thermal_zone0)",
        "sht3x: humidity (/sys/class/hwmon/hwmon5)",
        "sht3x: temperature (/sys/class/hwmon/hwmon5)",
    ]


def test_the_source_of_several_quantities_is_what_they_share(tree):
    (line,) = ask(sensors(tree(OUTDOOR)), "sensor_read").splitlines()
    assert line.endswith("°C (/sys/class/hwmon/hwmon5, read just now)")


DRIVERS = {
    "short_answer": "import struct\ndef read(part):\n    return {'temperature': struct.unpack('<H', b'1')[0]}",
    "division": "def read(part):\n    return {'temperature': 1 / 0}",
    "index": "def read(part):\n    return {'temperature': [][1]}",
    "unknown_quantity": "def read(part):\n    return {'radiation': 1.0}",
    "no_number": "def read(part):\n    return {'temperature': 'warm'}",
    "nothing": "def read(part):\n    pass",
    "name": "def read(part):\n    return undefined",
    "assertion": "def read(part):\n    assert False",
    "exits": "import sys\ndef read(part):\n    sys.exit(3)",
    "late_import": "def read(part):\n    import no_such_module_anywhere",
    "recursion": "def read(part):\n    return read(part)",
    "end_of_file": "def read(part):\n    raise EOFError",
}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_faulty_driver_loses_no_other_sensor(tmp_path, name):
    (tmp_path / f"faulty_{name}.py").write_text(f"ADDRESSES = (0x76,)\n{DRIVERS[name]}\n")
    wired = {"attic": WiredPart(f"faulty_{name}", 1, 0x76), **SimBoard().wired()}
    group = SensorTools(SimBoard(), wired, Drivers(SimBoard(), lambda part: load_driver(part, [tmp_path, *HW])), "/")
    broken, whole = ask(group, "sensor_read").splitlines()
    assert broken.startswith(f"attic: temperature not available: its driver faulty_{name}.py failed: ")
    assert whole.startswith("greenhouse: temperature ")


WEATHER = {"temperature": 21.5, "humidity": 55.25, "pressure": 1013.25}


def simulated_at(seconds):
    clock = [seconds]

    def ticking():
        clock[0] += 0.01
        return clock[0]

    board = SimBoard(ticking)
    board.i2c(1).parts[0x76] = SimBME280(Scene(ticking, WEATHER))
    return board


@each_row(
    ("asked", "said"),
    [
        ({}, r"greenhouse: temperature 21.50 °C, humidity 55.2\d %, pressure 1013.2\d hPa \("),
        ({"quantity": "humidity"}, r"greenhouse: humidity 55.2\d % \("),
        ({"sensor": " Humidity"}, r"greenhouse: humidity 55.2\d % \("),
        ({"sensor": "bme280"}, r"greenhouse: temperature 21.50 °C"),
        ({"sensor": "thermometer"}, r"greenhouse: temperature 21.50 °C \("),
        ({"sensor": "greenhouse_temperature"}, r"greenhouse: temperature 21.50 °C \("),
        ({"sensor": "Greenhouse sensor"}, r"greenhouse: temperature 21.50 °C, humidity"),
        ({"sensor": "the temperature sensor", "quantity": "Celsius"}, r"greenhouse: temperature 21.50 °C \("),
        ({"sensor": "bme280", "quantity": "hPa"}, r"greenhouse: pressure 1013.2\d hPa \("),
        ({"sensor": "greenhouse", "quantity": "%"}, r"greenhouse: humidity 55.2\d % \("),
        ({"sensor": "humidity", "quantity": "%"}, r"greenhouse: humidity 55.2\d % \("),
        ({"quantity": "°C"}, r"greenhouse: temperature 21.50 °C \("),
        ({"quantity": "relative humidity"}, r"greenhouse: humidity 55.2\d % \("),
        ({"quantity": "air pressure"}, r"greenhouse: pressure 1013.2\d hPa \("),
        ({"sensor": "air pressure"}, r"greenhouse: pressure 1013.2\d hPa \("),
        ({"sensor": "ambient air temperature", "quantity": "air temperature"}, r"greenhouse: temperature 21.50 °C \("),
        ({"sensor": "attic air pressure"}, "error: no sensor 'attic' measures pressure"),
        ({"quantity": "the air temperature now"}, r"greenhouse: temperature 21.50 °C \("),
        ({"quantity": "greenhouse temperature"}, r"greenhouse: temperature 21.50 °C \("),
        ({"quantity": "temperature and humidity"}, r"greenhouse: temperature 21.50 °C, humidity 55.2\d % \("),
        ({"sensor": "all", "quantity": "all"}, r"greenhouse: temperature 21.50 °C, humidity 55.2\d %, pressure"),
        ({"sensor": "cpu"}, r"cpu: temperature 4\d.\d\d °C"),
    ],
)
def test_reading_the_simulated_greenhouse(asked, said):
    assert re.match(said, ask(sensors(simulated_at(1e9)), "sensor_read", **asked))


@each_row("quantity", ["", "temperature", "humidity", "pressure"])
def test_a_part_that_does_not_answer_is_an_error_with_its_reason(quantity):
    board = SimBoard()
    board.i2c(1).parts.clear()
    answer = ask(sensors(board), "sensor_read", quantity=quantity)
    assert answer.startswith(f"error: greenhouse: {quantity or 'temperature'} not available: 0x76 on /dev/i2c-1")


@each_row(
    ("wired", "said"),
    [
        (WiredPart("bme280", 7, 0x76), "/dev/i2c-7 does not exist"),
        (WiredPart("no_such_part", 1, 0x76), "there is no driver 'no_such_part'"),
    ],
)
def test_a_part_that_cannot_be_reached_is_an_error_with_its_reason(wired, said):
    assert said in ask(sensors(SimBoard(), {"porch": wired}), "sensor_read")


def test_board_status_has_a_line_for_each_thing():
    answer = ask(sensors(SimBoard()), "board_status")
    assert [line.partition(":")[0] for line in answer.splitlines()] == [
        *(
            "board",
            "processor temperature",
            "power and throttling",
            "memory",
            "disk",
            "load",
            "uptime",
            "clock",
            "address",
        ),
    ]


# --- the i2c tool ---


def i2c(board, /, **arguments):
    return ask(load_module("i2c", HW).I2C(board), "i2c", **arguments)


@each_row(
    ("arguments", "said"),
    [
        ({"action": "detect"}, "i2c-1: simulated adapter (the pin header)"),
        ({"action": "scan"}, "i2c-1: 0x76 answers"),
        ({"action": "Scan", "bus": "1"}, "i2c-1: 0x76 answers"),
        ({"action": "read", "address": "0x76", "register": 0xD0}, "0x76 on i2c-1 from register 0xd0: 60 (hex, 1 bytes)"),
        ({"action": "read", "address": 118, "register": "0xF7", "length": 8.0}, "0x76 on i2c-1 from register 0xf7: 80 00 00 80 00 00 80 00 (hex, 8 bytes)"),
        ({"action": "read", "address": 118, "length": 2}, "0x76 on i2c-1: 00 00 (hex, 2 bytes)"),
        ({"action": "write", "address": "118", "register": 242, "data": [1]}, "wrote f2 01 (hex) to 0x76 on i2c-1"),
        ({"action": "write", "address": 118, "data": "[0xf2, 1]"}, "error: argument 'data' must be a list, not"),
        ({"action": "write", "address": 118, "data": '["0xf2", 1]'}, "wrote f2 01 (hex) to 0x76 on i2c-1"),
    ],
)  # fmt: skip
def test_every_action_of_the_i2c_tool(arguments, said):
    assert i2c(SimBoard(), **arguments).startswith(said)


READ, WRITE = {"action": "read", "address": 0x76}, {"action": "write", "address": 0x76}


@each_row(
    ("arguments", "said"),
    [
        ({}, "'action' is missing"),
        ({"action": "erase"}, "'action' must be one of 'detect', 'scan', 'read', 'write'"),
        ({"action": "read"}, "address is missing for read"),
        ({"action": "write", "data": [1]}, "address is missing for write"),
        (READ | {"address": 0}, "'address' is 0, outside 8 to 119"),
        (READ | {"address": 0x78}, "'address' is 120, outside 8 to 119"),
        (READ | {"address": "0x07"}, "'address' is 7, outside 8 to 119"),
        (READ | {"address": "first"}, "'address' must be a whole number"),
        (READ | {"address": True}, "'address' must be a whole number"),
        (READ | {"addr": 1}, "unknown 'addr'; did you mean 'address'?"),
        (READ | {"length": 0}, "'length' is 0, outside 1 to 256"),
        (READ | {"length": 257}, "'length' is 257, outside 1 to 256"),
        (READ | {"register": 256}, "register 0x100 needs wide"),
        (READ | {"register": -1}, "'register' is -1, outside 0 to 65535"),
        (READ | {"bus": 256}, "'bus' is 256, outside 0 to 255"),
        (READ | {"bus": 2}, "there is no i2c-2; there are: i2c-1"),
        ({"action": "scan", "bus": 2}, "there is no i2c-2; there are: i2c-1"),
        (WRITE, "data is missing"),
        (WRITE | {"data": []}, "data is missing"),
        (WRITE | {"data": [], "register": 1}, "data is missing"),
        (WRITE | {"data": [0] * 257}, "at most 256"),
        (WRITE | {"data": [256]}, "'data' is 256, outside 0 to 255"),
        (WRITE | {"data": [-1]}, "'data' is -1, outside 0 to 255"),
        (WRITE | {"data": ["one"]}, "'data[0]' must be a whole number"),
        (WRITE | {"data": 7}, "'data' must be a list"),
    ],
)
def test_no_message_goes_out_unless_every_argument_fits(arguments, said):
    board = SimBoard()
    answer = i2c(board, **arguments)
    assert answer.startswith("error: ")
    assert said in answer
    assert not board.i2c(1).log


def test_the_longest_write_goes_out_whole():
    board = SimBoard()
    i2c(board, **WRITE, data=[0] * 256)
    ((address, segment),) = board.i2c(1).log
    assert (address, segment.data) == (0x76, bytes(256))


def test_an_address_where_nothing_is_wired():
    assert i2c(SimBoard(), action="read", address=0x20).startswith("error: 0x20 on /dev/i2c-1 does not answer")


def test_an_empty_bus_says_what_to_check():
    board = SimBoard()
    board.i2c(1).parts.clear()
    assert i2c(board, action="scan") == "i2c-1: nothing answers: check power, wiring and pull-ups"


def test_a_board_without_a_bus_says_how_to_turn_it_on(tree):
    assert "raspi-config nonint do_i2c 0" in i2c(tree({}), action="detect")
    assert "raspi-config nonint do_i2c 0" in i2c(tree({}), action="scan")


@each_row(
    ("action", "register", "known", "effect"),
    [
        ("detect", None, False, "read"),
        ("scan", None, False, "read"),
        ("read", None, False, "read"),
        ("read", 0xD0, True, "read"),
        ("read", 0xD0, False, "actuate"),
        ("write", None, True, "actuate"),
    ],
)
def test_only_what_may_move_something_actuates(action, register, known, effect):
    tool = toolset(load_module("i2c", HW).I2C(SimBoard(), {(1, 0x76)} if known else ())).find("i2c")
    assert tool.effects({"action": action, "bus": 1, "address": 0x76, "register": register}) == (effect,)


def test_errors_of_the_board_are_hardware_errors():
    assert all(issubclass(kind, HardwareError) for kind in (DeviceMissing, NoPermission, BusFault))
