"""The BME280 driver against Bosch's published example, floating point, and the simulated part it is shipped with."""

import re
import shutil
import struct
import subprocess
import sys
from bisect import bisect_left
from pathlib import Path

import pytest
from rights import ordinary_user
from rows import each_row

from picoclaw.errors import ConfigError, DeviceMissing
from picoclaw.files import find_shipped
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.handles import I2CPart
from picoclaw.hw.loader import list_drivers, list_modules, load_driver, load_module
from picoclaw.hw.sim import SimBoard, SimI2C
from picoclaw.hw.sim.parts import climate
from picoclaw.hw.sim.parts.climate import SimBME280
from picoclaw.hw.sim.script import Scene

TOOLS = find_shipped("tools/hw")
bme280 = load_module("bme280", [TOOLS])

# The worked example of Bosch's BMP280 datasheet, BST-BMP280-DS001, section 3.12; humidity values as read from a part.
T = (27504, 26435, -1000)
P = (36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
H = (75, 370, 0, 313, 50, 30)
MORNING = 1_780_000_000.0


def trimmed(h=H, t=T, p=P):
    return bme280.Calibration(t, p, h)


def floating(raw, trim):
    """Compensate with the datasheet's double-precision formulas (BST-BME280-DS002, section 8.1)."""
    t1, t2, t3 = trim.t
    v1 = (raw.temperature / 16384 - t1 / 1024) * t2
    v2 = (raw.temperature / 131072 - t1 / 8192) ** 2 * t3
    fine = v1 + v2
    return fine / 5120, floating_pressure(raw.pressure, fine, trim.p), floating_humidity(raw.humidity, fine, trim.h)


def floating_pressure(raw, fine, p):
    p1, p2, p3, p4, p5, p6, p7, p8, p9 = p
    v1 = fine / 2 - 64000
    v2 = v1 * v1 * p6 / 32768
    v2 = v2 + v1 * p5 * 2
    v2 = v2 / 4 + p4 * 65536
    v1 = (p3 * v1 * v1 / 524288 + p2 * v1) / 524288
    v1 = (1 + v1 / 32768) * p1
    pressure = 1048576 - raw
    pressure = (pressure - v2 / 4096) * 6250 / v1
    v1 = p9 * pressure * pressure / 2147483648
    v2 = pressure * p8 / 32768
    return (pressure + (v1 + v2 + p7) / 16) / 100


def floating_humidity(raw, fine, h):
    h1, h2, h3, h4, h5, h6 = h
    humidity = fine - 76800
    humidity = (raw - (h4 * 64 + h5 / 16384 * humidity)) * (
        h2 / 65536 * (1 + h6 / 67108864 * humidity * (1 + h3 / 67108864 * humidity))
    )
    humidity *= 1 - h1 * humidity / 524288
    return min(max(humidity, 0.0), 100.0)


class Clock:
    """Seconds since the epoch, moved on by hand or by sleeping."""

    def __init__(self, now=MORNING):
        self.now = now
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Registers:
    """A part that is nothing but registers with memory; the status register says what it is told to say."""

    def __init__(self, identity, content=None, status=0):
        self.memory = bytearray(256)
        self.memory[0xD0], self.memory[0xF3] = identity, status
        for register, data in (content or {}).items():
            self.memory[register : register + len(data)] = data
        self.pointer = 0

    def write(self, data):
        self.pointer = data[0]
        self.memory[data[0] : data[0] + len(data) - 1] = data[1:]

    def read(self, length):
        return bytes(self.memory[self.pointer : self.pointer + length])


def wired(part, clock=None):
    return I2CPart(SimI2C(1, {0x76: part}), 0x76, sleep=(clock or Clock()).sleep)


# --- arithmetic ---


def test_boschs_worked_example():
    values = bme280.decode(bme280.Raw(519888, 415148, 0), trimmed(h=None))
    assert set(values) == {"temperature", "pressure"}
    assert values["temperature"] == 25.08
    assert values["pressure"] * 100 == pytest.approx(100653, abs=1)


# The datasheet's integers round to 0.01 °C and 1/1024 %; pressure is exact to well below a pascal.
@each_row("h", [H, (75, 355, 0, 335, 0, 30), (75, 370, 0, -313, -50, -30), (0, 300, 5, 2047, -2048, 127)])
def test_integers_agree_with_floating_point(h):
    trim = trimmed(h)
    compared = 0
    for temperature in range(350_000, 720_000, 15_013):
        for pressure in range(250_000, 900_000, 35_011):
            humidity = (temperature * 7 + pressure) % 40_000 + 10_000
            raw = bme280.Raw(temperature, pressure, humidity)
            celsius, hectopascal, percent = floating(raw, trim)
            if not (-39.9 < celsius < 84.9 and 300.1 < hectopascal < 1099.9):
                continue
            compared += 1
            values = bme280.decode(raw, trim)
            assert values["temperature"] == pytest.approx(celsius, abs=0.011)
            assert values["pressure"] == pytest.approx(hectopascal, abs=0.01)
            assert values["humidity"] == pytest.approx(percent, abs=0.02)
    assert compared > 200


def packed(h, t=T, p=P):
    """The two calibration blocks as the part holds them (table 16), humidity bit by bit."""
    h1, h2, h3, h4, h5, h6 = h
    bits4, bits5 = h4 & 0xFFF, h5 & 0xFFF
    shared = bits4 & 0xF | (bits5 & 0xF) << 4
    second = struct.pack("<hB", h2, h3) + bytes([bits4 >> 4, shared, bits5 >> 4]) + struct.pack("b", h6)
    return struct.pack("<Hhh Hhhhhhhhh x B", *t, *p, h1), second


@each_row("h4", [0, 1, 15, 16, 313, 2047, -1, -16, -313, -2048])
@each_row("h5", [0, 50, 2047, -1, -50, -2048])
def test_trimming_values_are_taken_apart_with_their_signs(h4, h5):
    h = (255, -370, 255, h4, h5, -128)
    found = bme280.parse_calibration(*packed(h))
    assert found == trimmed(h)


def test_trimming_values_are_unsigned_where_the_datasheet_says_so():
    t, p = (65535, -32768, 32767), (65535, *[-1] * 8)
    assert bme280.parse_calibration(packed(H, t, p)[0], None) == bme280.Calibration(t, p, None)


@each_row(
    ("raw", "said"),
    [
        ((0x80000, 415148, 30000), "0x80000"),
        ((519888, 0x80000, 30000), "0x80000"),
        ((519888, 415148, 0x8000), "0x8000"),
    ],
)
def test_a_converter_that_was_off_is_not_a_measurement(raw, said):
    with pytest.raises(ValueError, match=rf"{said}\)"):
        bme280.decode(bme280.Raw(*raw), trimmed())


def test_a_bmp280_may_leave_humidity_out():
    assert "humidity" not in bme280.decode(bme280.Raw(519888, 415148, 0x8000), trimmed(h=None))


def test_trimming_values_of_nothing_but_zeros_divide_nothing_by_zero():
    with pytest.raises(ValueError, match="reports 0 hPa, outside its 300 to 1100"):
        bme280.decode(bme280.Raw(519888, 415148, 30000), trimmed((0,) * 6, (0,) * 3, (0,) * 9))


@each_row(
    ("raw", "said"),
    [
        ((310_000, 415_148, 30_000), "-41[.0-9]* °C, outside its -40 to 85"),
        ((718_000, 415_148, 30_000), "86[.0-9]* °C, outside its -40 to 85"),
        ((519_888, 840_000, 30_000), "2[0-9.]+ hPa, outside its 300 to 1100"),
        ((519_888, 350_000, 30_000), "11[0-9.]+ hPa, outside its 300 to 1100"),
    ],
)
def test_what_is_beyond_the_operating_range_is_refused(raw, said):
    with pytest.raises(ValueError, match=said):
        bme280.decode(bme280.Raw(*raw), trimmed())


@each_row("byte", [0x00, 0xFF])
@each_row(("register", "length"), [(0x88, 26), (0xE1, 7), (0xF7, 8)])
def test_a_block_of_nothing_but_zeros_or_ones_is_refused(register, length, byte):
    content = {0x88: packed(H)[0], 0xE1: packed(H)[1], 0xF4: b"\x27", 0xF7: bytes.fromhex("655ac0 7eed00 6d60")}
    with pytest.raises(ValueError, match=rf"0x{byte:02x} only: check SDA"):
        bme280.read(wired(Registers(0x60, content | {register: bytes([byte]) * length})))


# --- the driver on a bus ---


@each_row("identity", [0x00, 0x55, 0x61, 0xFF])
def test_another_part_is_refused_before_anything_is_written(identity):
    part = wired(Registers(identity))
    with pytest.raises(ValueError, match="0xD0"):
        bme280.read(part)
    assert list(part.bus.log) == [(0x76, I2CWrite(b"\xd0")), (0x76, I2CRead(1))]


@each_row("identity", [0x56, 0x57, 0x58])
def test_a_bmp280_gives_temperature_and_pressure(identity):
    data = bytes.fromhex("655ac0 7eed00 0000")
    chip = Registers(identity, {0x88: packed(H)[0], 0xF7: data})
    part = wired(chip)
    assert bme280.read(part) == {"temperature": 25.08, "pressure": pytest.approx(1006.53, abs=0.01)}
    assert all(segment.data[0] != 0xF2 for _, segment in part.bus.log if isinstance(segment, I2CWrite))


def test_a_measurement_that_never_ends_is_given_up():
    clock = Clock()
    part = wired(Registers(0x60, {0x88: packed(H)[0], 0xE1: packed(H)[1]}, status=0x08), clock)
    with pytest.raises(ValueError, match="did not finish"):
        bme280.read(part)
    assert 0.0093 <= sum(clock.slept) < 1


def test_a_part_that_measures_continuously_is_only_read():
    clock = Clock()
    content = {0x88: packed(H)[0], 0xE1: packed(H)[1], 0xF4: b"\x27", 0xF7: bytes.fromhex("655ac0 7eed00 6d60")}
    part = wired(Registers(0x60, content), clock)
    assert bme280.read(part)["temperature"] == 25.08
    assert not clock.slept
    assert all(len(segment.data) == 1 for _, segment in part.bus.log if isinstance(segment, I2CWrite))


def test_the_exact_messages_of_one_read():
    clock = Clock()
    board = SimBoard(clock)
    bus = board.i2c(1)
    bme280.read(I2CPart(bus, 0x76, sleep=clock.sleep))
    assert [segment for address, segment in bus.log if address == 0x76] == [
        *(I2CWrite(b"\xd0"), I2CRead(1)),
        *(I2CWrite(b"\x88"), I2CRead(26)),
        *(I2CWrite(b"\xe1"), I2CRead(7)),
        *(I2CWrite(b"\xf4"), I2CRead(1)),
        I2CWrite(b"\xf2\x01"),
        I2CWrite(b"\xf4\x25"),
        *(I2CWrite(b"\xf3"), I2CRead(1)),
        *(I2CWrite(b"\xf7"), I2CRead(8)),
    ]
    assert len(bus.log) == 14
    assert clock.slept == [0.0093]


def test_nothing_at_the_address():
    with pytest.raises(DeviceMissing, match="0x77"):
        bme280.read(I2CPart(SimBoard().i2c(1), 0x77))


@each_row("start", [MORNING, 1_767_225_600.0, 0.0])
def test_a_day_of_readings_agrees_with_the_weather(start):
    clock = Clock(start)
    part = wired(SimBME280(Scene(clock, STEEP)), clock)
    while clock.now < start + 86_400:
        celsius, percent, hectopascal = (STEEP[quantity](clock.now) for quantity in bme280.QUANTITIES)
        values = bme280.read(part)
        assert values["temperature"] == pytest.approx(celsius, abs=0.05)
        assert values["humidity"] == pytest.approx(percent, abs=0.2)
        assert values["pressure"] == pytest.approx(hectopascal, abs=0.2)
        clock.now += 599.0


def of_the_day(seconds):
    return seconds % 86_400 / 86_400


# A day from frost to heat, from dry to dripping, from a mountain to a low-lying high.
STEEP = {
    "temperature": lambda seconds: -20 + 70 * of_the_day(seconds),
    "humidity": lambda seconds: 5 + 90 * of_the_day(seconds),
    "pressure": lambda seconds: 800 + 260 * of_the_day(seconds),
}


# --- the simulated part ---


def registers(part, first, length):
    part.write(bytes([first]))
    return part.read(length)


ASLEEP = bytes.fromhex("800000 800000 8000")


def test_the_simulated_part_sleeps_until_it_is_told_to_measure():
    part = SimBME280(Scene(Clock()))
    assert registers(part, 0xD0, 1) == b"\x60"
    assert registers(part, 0xF7, 8) == ASLEEP
    part.write(b"\xf4\x24")
    assert registers(part, 0xF7, 8) == ASLEEP


@each_row(
    ("writes", "measured"),
    [
        ([b"\xf2\x01", b"\xf4\x25"], (True, True, True)),
        ([b"\xf2\x01\xf4\x25"], (True, True, True)),
        ([b"\xf4\x25"], (True, True, False)),
        ([b"\xf4\x25", b"\xf2\x01"], (True, True, False)),
        ([b"\xf2\x01", b"\xf4\x21"], (True, False, True)),
        ([b"\xf2\x01", b"\xf4\x05"], (False, True, True)),
    ],
)
def test_the_simulated_part_measures_what_was_chosen_beforehand(writes, measured):
    part = SimBME280(Scene(Clock()))
    for data in writes:
        part.write(data)
    raw = bme280.unpack(registers(part, 0xF7, 8))
    assert (raw.temperature != 0x80000, raw.pressure != 0x80000, raw.humidity != 0x8000) == measured


def test_the_simulated_part_is_busy_while_it_measures_and_then_sleeps():
    clock = Clock()
    part = SimBME280(Scene(clock))
    part.write(b"\xf4\x25")
    assert registers(part, 0xF3, 1)[0] & 0x08
    clock.now += 0.0094
    assert not registers(part, 0xF3, 1)[0] & 0x08
    assert registers(part, 0xF4, 1) == b"\x24"


def test_the_simulated_part_keeps_its_results_until_the_next_measurement():
    clock = Clock()
    part = SimBME280(Scene(clock, STEEP))
    part.write(b"\xf4\x25")
    first = registers(part, 0xF7, 8)
    clock.now += 3600
    assert registers(part, 0xF7, 8) == first
    part.write(b"\xf4\x25")
    assert registers(part, 0xF7, 8) != first


def test_the_simulated_part_forgets_on_reset_and_protects_its_trimming():
    part = SimBME280(Scene(Clock()))
    before = registers(part, 0x88, 26)
    part.write(b"\x88\x00")
    part.write(b"\xd0\x00")
    part.write(b"\xf2\x01\xf4\x25")
    part.write(b"\xe0\x00")
    assert registers(part, 0xF7, 8) != ASLEEP
    part.write(b"\xe0\xb6")
    assert registers(part, 0xF7, 8) == ASLEEP
    assert registers(part, 0xF2, 1) == b"\x00"
    assert registers(part, 0x88, 26) == before
    assert registers(part, 0xD0, 1) == b"\x60"


# --- loading ---


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module_anywhere", "cannot be loaded"),
        ("def read(part:", "cannot be loaded"),
        ("1 / 0", "cannot be loaded"),
    ],
)
def test_a_driver_that_cannot_be_loaded_is_named(tmp_path, source, said):
    (tmp_path / "broken.py").write_text(source)
    with pytest.raises(ConfigError, match=f"{re.escape(str(tmp_path))}/broken.py {said}"):
        load_module("broken", [tmp_path])


@each_row("name", ["", "../bme280", "BME280", "bme280.py", "a/b", "1wire", "x" * 50, "é"])
def test_a_drivers_name_is_no_path(name):
    with pytest.raises(ConfigError, match="must be lower-case letters, digits and underscores"):
        load_module(name, [TOOLS])


def test_an_unknown_driver_lists_the_known_ones():
    assert {"bme280", "i2c"} <= set(list_modules([TOOLS]))
    with pytest.raises(ConfigError, match=r"no driver 'bme980'; known: .*bme280"):
        load_module("bme980", [TOOLS])


def test_the_owners_driver_wins_over_the_shipped_one(tmp_path):
    (tmp_path / "bme280.py").write_text("ADDRESSES = (0x10,)\n")
    assert load_module("bme280", [tmp_path, TOOLS]).ADDRESSES == (0x10,)
    assert load_module("bme280", [TOOLS]).ADDRESSES == (0x76, 0x77)


# --- on the bench ---


def bench(script, *arguments):
    command = [sys.executable, str(TOOLS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd="/")


def test_reading_the_simulated_part_on_the_bench():
    done = bench("bme280.py", "--sim")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [re.fullmatch(r"(\w+) (-?\d+\.\d\d) (\S+) \(simulated\)", line) for line in done.stdout.splitlines()]
    assert [(row[1], row[3]) for row in rows] == [("temperature", "°C"), ("humidity", "%"), ("pressure", "hPa")]


def test_scanning_the_simulated_bus_on_the_bench():
    done = bench("i2c.py", "scan", "--sim")
    assert (done.returncode, done.stdout, done.stderr) == (0, "i2c-1: 0x76 answers\n", "")


def test_reading_registers_on_the_bench():
    done = bench("i2c.py", "read", "--sim", "--address", "0x76", "--register", "0xd0")
    assert (done.returncode, done.stdout) == (0, "0x76 on i2c-1 from register 0xd0: 60 (hex, 1 bytes)\n")


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("bme280.py", ["--bus", "99"]),
        ("bme280.py", ["--address", "0x77", "--bus", "98"]),
        ("i2c.py", ["scan", "--bus", "99"]),
        ("i2c.py", ["scan", "--sim", "--bus", "3"]),
        ("i2c.py", ["read", "--sim"]),
        ("i2c.py", ["read", "--sim", "--address", "0x20"]),
    ],
)
def test_what_cannot_be_done_on_the_bench_is_said_in_one_line(script, arguments):
    done = bench(script, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"{Path(script).stem}: .+\n", done.stderr)


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("bme280.py", ["--nonsense"]),
        ("bme280.py", ["--address", "first"]),
        ("bme280.py", ["--sim", "--address", "0x200"]),
        ("bme280.py", ["--sim", "--address", "-1"]),
        ("i2c.py", []),
        ("i2c.py", ["erase"]),
        ("i2c.py", ["write", "--sim", "--address", "0x76"]),
        ("i2c.py", ["read", "--sim", "--address", "0x200"]),
        ("i2c.py", ["read", "--sim", "--address", "0x76", "--register", "70000"]),
        ("i2c.py", ["read", "--sim", "--address", "0x76", "--length", "0"]),
        ("i2c.py", ["read", "--sim", "--address", "0x76", "--length", "-1"]),
        ("i2c.py", ["scan", "--sim", "--bus", "one"]),
    ],
)
def test_wrong_usage_on_the_bench(script, arguments):
    done = bench(script, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", ["bme280.py", "i2c.py"])
def test_help_on_the_bench(script):
    done = bench(script, "--help")
    assert done.returncode == 0
    assert "--sim" in done.stdout


# --- finding drivers ---

GOOD = "ADDRESSES = (0x40,)\ndef read(part):\n    return {}\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import sys\nsys.exit(3)\n" + GOOD, "cannot be loaded: SystemExit: 3"),
        ("raise AssertionError('no')\n" + GOOD, "cannot be loaded: AssertionError: no"),
        ("import struct\nstruct.unpack('<H', b'')\n" + GOOD, "cannot be loaded: error: unpack requires"),
        ("import no_such_module_anywhere\n" + GOOD, "cannot be loaded: ModuleNotFoundError"),
        ("def read(part:\n", "cannot be loaded: SyntaxError"),
        ("\0", "cannot be loaded: "),
        ("ADDRESSES = (0x40,)\n", "it has no function read(part)"),
        ("ADDRESSES = (0x40,)\nread = 7\n", "it has no function read(part)"),
        ("def read(part):\n    return {}\n", "it needs one table of ADDRESSES"),
        (GOOD.replace("(0x40,)", "()"), "it needs ADDRESSES"),
        (GOOD.replace("(0x40,)", "0x40"), "it needs ADDRESSES"),
        (GOOD.replace("(0x40,)", "'40'"), "it needs ADDRESSES"),
        (GOOD.replace("(0x40,)", "(0x78,)"), "it needs ADDRESSES"),
        (GOOD.replace("(0x40,)", "(0x40, 'x')"), "it needs ADDRESSES"),
    ],
)
def test_a_file_that_is_no_driver_is_named_with_what_is_missing(tmp_path, content, said):
    path = tmp_path / "odd_part.py"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        load_driver("odd_part", [tmp_path])
    assert str(path) in str(caught.value)


def test_a_tool_is_no_chip():
    with pytest.raises(ConfigError, match=r"i2c\.py is not the driver of a chip"):
        load_driver("i2c", [TOOLS])
    assert "i2c" in list_modules([TOOLS])
    assert not {"i2c", "spi", "serial", "gpio"} & set(list_drivers([TOOLS]))
    assert {"bme280", "mcp3008", "pms5003", "ds18b20"} < set(list_drivers([TOOLS]))
    assert load_driver("bme280", [TOOLS]).ADDRESSES == (0x76, 0x77)


def test_an_owners_own_driver_on_the_bench_needs_no_docstring(tmp_path):
    shutil.copy(TOOLS / "bme280.py", tmp_path / "plain.py")
    text = (tmp_path / "plain.py").read_text()
    (tmp_path / "plain.py").write_text(text.split('"""', 2)[2])
    code = f"from picoclaw.hw.bench import run; raise SystemExit(run({str(tmp_path / 'plain.py')!r}))"
    done = subprocess.run([sys.executable, "-c", code, "--sim"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "plain.py").write_text("")
    done = subprocess.run([sys.executable, "-c", code, "--sim"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"plain: .*is not the driver of a chip.*\n", done.stderr)


@pytest.mark.parametrize("closed", ["etc", "etc/hw"])
def test_a_folder_that_may_not_be_read_is_passed_over(tmp_path, closed):
    theirs = tmp_path / "etc/hw"
    theirs.mkdir(parents=True)
    (theirs / "secret_part.py").write_text(GOOD)
    (tmp_path / closed).chmod(0)
    with ordinary_user():
        assert load_driver("bme280", [theirs, TOOLS]).ADDRESSES == (0x76, 0x77)
        assert list_drivers([theirs, TOOLS]) == list_drivers([TOOLS])
        with pytest.raises(
            ConfigError, match=f"there is no driver 'secret_part'; known: .*, bme280, .*; {theirs} may not be"
        ):
            load_module("secret_part", [theirs, TOOLS])
    (tmp_path / closed).chmod(0o700)


def test_a_driver_that_may_not_be_read_is_named(tmp_path):
    (tmp_path / "closed_part.py").write_text(GOOD)
    (tmp_path / "closed_part.py").chmod(0)
    with ordinary_user(), pytest.raises(ConfigError, match=r"closed_part\.py cannot be loaded: PermissionError"):
        load_driver("closed_part", [tmp_path])


def test_a_humidity_that_happens_to_read_as_off_is_measured():
    """The raw value 0x8000 is also what a converter says that is off; the simulated weather came by it."""
    raw = bisect_left(climate._CODES_20, 21.0, key=lambda code: climate._compensate_bme280_temperature(code)[0])
    humidity = climate._compensate_bme280_humidity(0x8000, climate._compensate_bme280_temperature(raw)[1])
    clock = Clock()
    part = SimBME280(Scene(clock, {"temperature": 21.0, "pressure": 1013.25, "humidity": humidity}))
    assert bme280.read(wired(part, clock))["humidity"] == pytest.approx(humidity, abs=0.05)
    assert registers(part, 0xFD, 2) == b"\x80\x00"


def test_a_temperature_and_a_pressure_that_happen_to_read_as_off_are_measured():
    """The raw value 0x80000, too: 26.46 °C with the trimming values of the datasheet."""
    temperature, fine = climate._compensate_bme280_temperature(0x80000)
    pressure = climate._compensate_bme280_pressure(0x80000, fine)
    clock = Clock()
    part = SimBME280(Scene(clock, {"temperature": temperature, "pressure": pressure, "humidity": 50.0}))
    values = bme280.read(wired(part, clock))
    assert registers(part, 0xF7, 6) == bytes.fromhex("800000 800000")
    assert values["temperature"] == pytest.approx(temperature, abs=0.01)
    assert values["pressure"] == pytest.approx(pressure, abs=0.05)
