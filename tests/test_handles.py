"""What drivers are handed, checksums, the language of steps, parts in places, and what an errno means in words."""

import errno
import os

import pytest
from recording import Clock, RecordedI2C, Recorder, bench
from rights import ordinary_user
from rows import each_row

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import BusFault, ConfigError, DeviceMissing, NoPermission, ToolError
from picoclaw.hw import handles, loader
from picoclaw.hw.board import I2CRead, I2CWrite, SpiNode, SpiSettings, SpiTransfer, translate_os_error
from picoclaw.hw.handles import I2CPart, OneWirePart, Part, SerialPart, SpiPart
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimSerial, SimSpi
from picoclaw.hw.sim.script import SimFault, SimFaults

# --- checksums ---

# Sensirion: SHT3x datasheet, section 4.12, "CRC(0xBEEF) = 0x92". 1-Wire: the ROM of Maxim application note 27.
# The others are the check values of CRC-8/NRSC-5 (Sensirion's), CRC-8/SMBUS and CRC-8/MAXIM-DOW over "123456789".
NINE = b"123456789"


@each_row(
    ("crc", "data", "code"),
    [
        (handles.crc8, "be ef", 0x92),
        (handles.crc8, NINE.hex(), 0xF7),
        (handles.crc8, "", 0xFF),
        (handles.crc8_onewire, "02 1c b8 01 00 00 00", 0xA2),
        (handles.crc8_onewire, "02 1c b8 01 00 00 00 a2", 0),
        (handles.crc8_onewire, NINE.hex(), 0xA1),
        (handles.crc8_onewire, "00 00 00 00", 0),
        (lambda data: handles.crc8(data, 0x07, 0), NINE.hex(), 0xF4),
        (lambda data: handles.crc8(data, 0x07, 0), "b4 07 b5 d2 3a 30", 0),
    ],
)
def test_published_checksums(crc, data, code):
    assert crc(bytes.fromhex(data)) == code


@each_row("crc", [handles.crc8, handles.crc8_onewire, lambda data: handles.crc8(data, 7, 0)])
def test_a_checksum_finds_every_single_flipped_bit(crc):
    data = bytes.fromhex("02 1c b8 01")
    flipped = {crc(bytes(b ^ (bit == i and 1 << n) for i, b in enumerate(data))) for bit in range(4) for n in range(8)}
    assert crc(data) not in flipped
    assert all(0 <= code <= 0xFF for code in flipped)


# --- I2C parts ---


def part_of(answers, clock=None, **named):
    bus = RecordedI2C(1, {0x44: Recorder(answers)})
    return I2CPart(bus, 0x44, None, (clock or Clock()).sleep, **named), bus


WORDS = bytes.fromhex("be ef 92 00 00 81")


@each_row(
    ("command", "count", "sent", "words"),
    [
        (0x2400, 2, b"\x24\x00", [0xBEEF, 0]),
        (0x2400, 1, b"\x24\x00", [0xBEEF]),
        (0xFD, 2, b"\xfd", [0xBEEF, 0]),
        (0x89, 1, b"\x89", [0xBEEF]),
        (0x100, 1, b"\x01\x00", [0xBEEF]),
        (0x30A2, 0, b"\x30\xa2", []),
    ],
)
@each_row("wait", [0.0, 0.015])
def test_a_sensirion_command_and_its_words(command, count, sent, words, wait):
    clock = Clock()
    part, bus = part_of({sent: WORDS}, clock)
    assert part.words(command, count, wait) == words
    assert bus.transfers == [(0x44, I2CWrite(sent))] + [(0x44, I2CRead(3 * count))] * bool(count)
    assert clock.slept == [wait] * bool(wait)


@each_row("bit", range(48))
def test_a_word_whose_checksum_does_not_fit_is_no_word(bit):
    spoiled = bytes(b ^ (i == bit // 8 and 1 << bit % 8) for i, b in enumerate(WORDS))
    group = spoiled[bit // 24 * 3 :][:3]
    part, _ = part_of({b"\x24\x00": spoiled})
    with pytest.raises(BusFault, match=rf"^0x44 on i2c-1 sent a wrong checksum \({group.hex(' ')}\): check the cable"):
        part.words(0x2400, 2)


def test_the_arguments_of_a_sensirion_command_have_checksums():
    """SGP40 datasheet, sgp40_measure_raw_signal: the defaults 0x8000 and 0x6666 have the CRCs 0xA2 and 0x93."""
    part, bus = part_of({})
    assert part.words(0x260F, 0, arguments=[0x8000, 0x6666]) == []
    assert bus.transfers == [(0x44, I2CWrite(bytes.fromhex("26 0f 80 00 a2 66 66 93")))]


@each_row("value", [-1, 0x10000])
def test_an_argument_of_more_than_16_bits_does_not_go_out(value):
    part, bus = part_of({})
    with pytest.raises(OverflowError):
        part.words(0x260F, 0, arguments=[value])
    with pytest.raises(OverflowError):
        part.write_word(0, value)
    assert bus.transfers == []


@each_row(("order", "value"), [("big", 0x1234), ("little", 0x3412)])
def test_registers_of_16_bits(order, value):
    part, bus = part_of({b"\x05": b"\x12\x34"})
    assert part.word(5, order) == value
    part.write_word(5, value, order)
    assert bus.transfers == [(0x44, I2CWrite(b"\x05"), I2CRead(2)), (0x44, I2CWrite(b"\x05\x12\x34"))]


@each_row(("answer", "initial"), [("be ef 92", 0xFF), ("31 32 33 34 35 36 37 38 39 f7", 0xFF), ("683a7c", 0)])
def test_an_answer_with_its_checksum(answer, initial):
    part, _ = part_of({})
    data = bytes.fromhex(answer)
    assert part.checked(data, initial) == data[:-1]
    with pytest.raises(BusFault, match="wrong checksum"):
        part.checked(data[:-1] + bytes([data[-1] ^ 1]), initial)


@each_row("fill", [0x00, 0xFF])
def test_a_bus_that_is_stuck_gives_no_words(fill):
    part, bus = part_of({})
    bus.parts[0x44].fill = fill
    with pytest.raises(BusFault, match="wrong checksum"):
        part.words(0x2400, 2)


@each_row(
    ("move", "transfers"),
    [
        (lambda p: p.write(), [(I2CWrite(b""),)]),
        (lambda p: p.write(0xF4, 0x25), [(I2CWrite(b"\xf4\x25"),)]),
        (lambda p: p.read(3), [(I2CRead(3),)]),
        (lambda p: p.registers(0, 1), [(I2CWrite(b"\0"), I2CRead(1))]),
        (lambda p: p.registers(0xFF, 8), [(I2CWrite(b"\xff"), I2CRead(8))]),
    ],
)
def test_the_moves_of_an_i2c_part(move, transfers):
    part, bus = part_of({})
    move(part)
    assert bus.transfers == [(0x44, *segments) for segments in transfers]


@each_row("data", [(256,), (-1,), (1.5,), ("1",)])
def test_what_is_no_byte_does_not_go_out(data):
    part, bus = part_of({})
    with pytest.raises((ValueError, TypeError)):
        part.write(*data)
    assert bus.transfers == []


def test_doubts_are_said_once():
    part = Part()
    assert part.doubts() == ""
    part.doubt("still warming up")
    part.doubt("supply is low")
    assert (part.doubts(), part.doubts()) == ("still warming up; supply is low", "")


def test_parts_share_no_memory_and_no_doubts():
    one, other = Part(), Part()
    one.memory["x"] = 1
    one.doubt("cold")
    assert (other.memory, other.doubts(), dict(other.options)) == ({}, "", {})


# --- the other buses ---


class Echo:
    """A part on SPI that answers with what it got, plus one; a part on a serial line that repeats what it hears."""

    def __init__(self):
        self.seen = []
        self.heard = b""

    def exchange(self, data, settings):
        self.seen.append((data, settings))
        return bytes((b + 1) & 0xFF for b in data)

    def receive(self, data):
        self.heard += data

    def pending(self):
        said, self.heard = self.heard, b""
        return said


def test_an_spi_part_sends_one_message_with_its_settings():
    echo = Echo()
    device = SimSpi(SpiNode(0, 1, "/dev/spidev0.1"), echo)
    settings = SpiSettings(mode=3, speed_hz=1_000_000)
    assert SpiPart(device, settings).exchange(0x80, 0xFF) == b"\x81\x00"
    assert echo.seen == [(b"\x80\xff", settings)]
    assert list(device.log) == [((SpiTransfer(b"\x80\xff"),), settings)]


def test_a_serial_part_reads_what_was_sent_and_stops_waiting():
    clock = Clock()
    part = SerialPart(SimSerial("/dev/ttyS0", Echo(), clock.sleep, SimFaults(clock)))
    part.write(b"hello")
    assert part.read(3, 1.0) == b"hel"
    assert clock.now == 0
    assert part.read(10, 0.5) == b"lo"
    assert clock.now == pytest.approx(0.5)
    part.write(b"old")
    part.flush()
    assert part.read(10, 0.1) == b""


def test_a_1_wire_part_reads_its_own_files_only():
    board, _ = bench({})
    board._files["/sys/bus/w1/devices/28-00000a1b2c3d/w1_slave"] = lambda: "t=21500"
    assert OneWirePart(board, "28-00000a1b2c3d").text("w1_slave") == "t=21500"
    with pytest.raises(DeviceMissing, match="28-00000a1b2c3d/temperature does not exist"):
        OneWirePart(board, "28-00000a1b2c3d").text("temperature")


# --- steps ---


@each_row(
    ("text", "found"),
    [
        ("write 0x24 0x00, wait 15, read 6", [I2CWrite(b"\x24\x00"), handles.ScriptWait(15), I2CRead(6)]),
        ("write 36 0", [I2CWrite(b"\x24\x00")]),
        (" READ  0x06 ;\n\n WaiT 0 ,,", [I2CRead(6), handles.ScriptWait(0)]),
        ("write 255 0xff 0xFF 0x00ff", [I2CWrite(b"\xff\xff\xff\xff")]),
        ("read 1\nread 256", [I2CRead(1), I2CRead(256)]),
        ("\twrite\t1\t2\t", [I2CWrite(b"\x01\x02")]),
        ("write " + "7 " * 256, [I2CWrite(b"\x07" * 256)]),
        (", ".join(["wait 2500"] * 2), [handles.ScriptWait(2500)] * 2),
        (", ".join(["read 1"] * 42), [I2CRead(1)] * 42),
        ("write 0", [I2CWrite(b"\0")]),
        ("write 00", [I2CWrite(b"\0")]),
    ],
)
def test_steps_in_words(text, found):
    assert handles.parse_script(text) == found


@each_row(
    ("text", "said"),
    [
        ("", "is missing"),
        (" ,; ,\n", "is missing"),
        ("read", "'read' is not one of"),
        ("read 0", "'read 0' is not one of"),
        ("read 257", "not one of"),
        ("write", "not one of"),
        ("write 256", "not one of"),
        ("write " + "1 " * 257, "not one of"),
        ("wait", "not one of"),
        ("sleep 5", "'sleep 5' is not one of"),
        ("read six", "'six' is not a number"),
        ("read 1.0", "'1.0' is not a number"),
        ("write -1", "'-1' is not a number"),
        ("write ١", "'١' is not a number"),
        ("write 0b1", "'0b1' is not a number"),
        ("write 0x12345", "'0x12345' is not a number"),
        ("wait 123456", "'123456' is not a number"),
        ("wait 4000, wait 1001", "wait 5001 ms in all; one call waits at most 5000"),
        (", ".join(["read 1"] * 65), "65 steps; one call takes at most 64"),
    ],
)
def test_a_wrong_step_is_named(text, said):
    with pytest.raises(ToolError) as caught:
        handles.parse_script(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@each_row(
    ("kind", "data", "segment"),
    [
        ("byte", [1], b"\x05\x01"),
        ("word", [1, 2], b"\x05\x01\x02"),
        ("block", [1, 2, 3], b"\x05\x03\x01\x02\x03"),
        ("block", [0] * 32, b"\x05\x20" + bytes(32)),
    ],
)
def test_smbus_writes(kind, data, segment):
    assert handles.make_smbus_write(0x5A, 5, kind, data) == I2CWrite(segment)
    guarded = handles.make_smbus_write(0x5A, 5, kind, data, pec=True).data
    assert guarded[:-1] == segment
    assert handles.crc8(bytes([0x5A << 1]) + guarded, 0x07, 0) == 0


# --- where parts are ---

HW = {
    "on_i2c": "ADDRESSES = (0x40, 0x41)\nOPTIONS = {'shunt_ohms': (0.1, 1e-6, 100.0), 'gain': (1, 1, 8)}",
    "on_spi": "SPI = {'mode': 1}",
    "on_serial": "SERIAL = {'baud': 9600}",
    "on_onewire": "FAMILIES = (0x28,)",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in HW.items():
        (tmp_path / f"{name}.py").write_text(f"{text}\ndef read(part):\n    return {{}}\n")
    return tmp_path


USUAL = {"shunt_ohms": 0.1, "gain": 1}


@pytest.mark.parametrize(
    ("sensor", "wired", "place"),
    [
        (SensorConfig("on_i2c"), WiredPart("on_i2c", 1, 0x40, options=USUAL), "on_i2c on i2c-1 at 0x40"),
        (SensorConfig("on_i2c", 0, 0x41), WiredPart("on_i2c", 0, 0x41, options=USUAL), "on_i2c on i2c-0 at 0x41"),
        (SensorConfig("on_i2c", options={"shunt_ohms": 0.01}), WiredPart("on_i2c", 1, 0x40, options=USUAL | {"shunt_ohms": 0.01}), "on_i2c on i2c-1 at 0x40"),
        (SensorConfig("on_spi"), WiredPart("on_spi", 0), "on_spi on spi0.0"),
        (SensorConfig("on_spi", 1, chip=2), WiredPart("on_spi", 1, chip=2), "on_spi on spi1.2"),
        (SensorConfig("on_serial", port="/dev/ttyS0"), WiredPart("on_serial", port="/dev/ttyS0"), "on_serial on /dev/ttyS0"),
        (SensorConfig("on_onewire", port="28-01"), WiredPart("on_onewire", port="28-01"), "on_onewire on 28-01"),
    ],
)  # fmt: skip
def test_where_a_configured_part_is(folder, sensor, wired, place):
    found = loader.resolve_part(sensor, [folder])
    assert found == wired
    assert loader.describe_part(found) == place
    assert found.route == sensor.part.removeprefix("on_")


@pytest.mark.parametrize("value", [1e-6, 100, 100.0, 0.1])
def test_an_option_may_be_at_the_end_of_its_range(folder, value):
    assert (
        loader.resolve_part(SensorConfig("on_i2c", options={"shunt_ohms": value}), [folder]).options["shunt_ohms"]
        == value
    )


@pytest.mark.parametrize(
    ("sensor", "said"),
    [
        (SensorConfig("nowhere"), "there is no driver 'nowhere'"),
        (SensorConfig("../on_i2c"), "must be lower-case letters"),
        (SensorConfig("on_serial"), 'on_serial needs port, such as port = "/dev/serial0"'),
        (SensorConfig("on_onewire"), 'on_onewire needs port, such as port = "28-00000a1b2c3d"'),
        (SensorConfig("on_i2c", options={"ohms": 1}), "on_i2c has no option 'ohms'; known: shunt_ohms, gain"),
        (SensorConfig("on_spi", options={"x": 1}), "on_spi has no option 'x'; known: none"),
        *(
            (
                SensorConfig("on_i2c", options={"gain": value}),
                "option gain of on_i2c must be a number from 1 to 8, not",
            )
            for value in (0, 0.99, 9, -1, 1e300, float("nan"), float("inf"), True, "2", None, [2], {}, 10**40)
        ),
    ],
)
def test_a_part_that_cannot_be_there_is_said(folder, sensor, said):
    with pytest.raises(ConfigError) as caught:
        loader.resolve_part(sensor, [folder])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", [0x08, 0x20, 0x42, 0x77])
def test_a_part_is_only_at_an_address_that_it_can_have(folder, address):
    with pytest.raises(ConfigError, match="on_i2c"):
        loader.resolve_part(SensorConfig("on_i2c", 1, address), [folder])


def test_a_part_on_i2c_has_no_port(folder):
    with pytest.raises(ConfigError, match="port"):
        loader.resolve_part(SensorConfig("on_i2c", port="/dev/ttyS0"), [folder])


DRIVER = "ADDRESSES = (0x40,)\nOPTIONS = {'gain': (2.0, 1.0, 8.0)}\ndef read(part):\n"
BODIES = [
    ("    return {'voltage a0': part.read(1)[0] * part.options['gain'] / 100}", (0.02, "")),
    ("    part.doubt('warming up')\n    return {'temperature': 1.0}", (1.0, "")),
    ("    return {'humidity': 101.0}", (None, "implausible value 101 %")),
    ("    return {'temperature': float('nan')}", (None, "implausible value nan °C")),
    ("    raise ValueError('did not finish')", (None, "did not finish")),
    ("    return part.registers(1, 2)[9]", (None, "failed: IndexError: index out of range")),
    ("    return {'warmth': 1.0}", (None, "failed: LookupError: 'warmth' is not a quantity")),
    ("    part.bus.transfer(0x41, [])\n    part.write(300)", (None, "bytes must be in range")),
]


@pytest.mark.parametrize(("body", "result"), BODIES, ids=[b[0].strip()[:40] for b in BODIES])
def test_a_measurement_gives_a_value_or_says_why_not(tmp_path, body, result):
    (tmp_path / "gauge.py").write_text(f"{DRIVER}{body}\n")
    board, _ = bench({0x40: Recorder(fill=1)})
    drivers = loader.Drivers(board, lambda name: loader.load_driver(name, [tmp_path]), Clock(5.0), Clock().sleep)
    (reading,) = drivers.measure("porch", WiredPart("gauge", 1, 0x40))
    value, problem = result
    assert reading.value == value
    assert problem in reading.problem
    assert "\n" not in reading.problem
    assert value is None or reading.at == 5.0


@pytest.mark.parametrize("kind", ["nack", "stuck", "eio", "unplugged"])
def test_a_fault_of_the_bus_becomes_a_reading_without_a_value(tmp_path, kind):
    (tmp_path / "gauge.py").write_text(f"{DRIVER}    return {{'temperature': part.read(1)[0]}}\n")
    board, _ = bench({0x40: Recorder(fill=1)})
    board.wiring.faults = [SimFault(kind, "i2c-1/0x40")]
    drivers = loader.Drivers(board, lambda name: loader.load_driver(name, [tmp_path]))
    (reading,) = drivers.measure("porch", WiredPart("gauge", 1, 0x40), "humidity")
    assert (reading.value, reading.quantity, reading.quality) == (None, "humidity", "none")
    assert reading.problem.startswith("0x40 on /dev/i2c-1 ")


def test_a_driver_remembers_between_two_readings_of_one_part(tmp_path):
    body = "    part.memory['n'] = part.memory.get('n', 0) + 1\n    return {'raw': part.memory['n']}\n"
    (tmp_path / "gauge.py").write_text(f"{DRIVER}{body}")
    board, _ = bench({0x40: Recorder(), 0x41: Recorder()})
    drivers = loader.Drivers(board, lambda name: loader.load_driver(name, [tmp_path]))
    one, other = WiredPart("gauge", 1, 0x40), WiredPart("gauge", 1, 0x41)
    assert [drivers.measure("x", part)[0].value for part in (one, one, other, one)] == [1, 2, 1, 3]


def test_a_serial_port_is_closed_even_when_the_driver_fails(tmp_path):
    (tmp_path / "talker.py").write_text("SERIAL = {'baud': 9600}\ndef read(part):\n    raise ValueError('silence')\n")
    board, _ = bench({})
    closed = []

    class Port:
        def close(self):
            closed.append(True)

    board.serial = lambda name, settings: Port()
    drivers = loader.Drivers(board, lambda name: loader.load_driver(name, [tmp_path]))
    (reading,) = drivers.measure("gps", WiredPart("talker", port="/dev/ttyS0"))
    assert (reading.problem, closed) == ("silence", [True])


@pytest.mark.parametrize(("mode", "used"), [(0o700, "own"), (0, "shipped"), (0o400, "cannot be loaded")])
def test_a_drivers_folder_that_may_not_be_read_has_nothing(tmp_path, mode, used):
    """One whose names can be listed holds the driver, also where that cannot be opened."""
    for folder in ("own", "shipped"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "gauge.py").write_text(f"{DRIVER}    return {{}}\n")
    (tmp_path / "own").chmod(mode)
    with ordinary_user():
        try:
            found = str(
                loader.load_driver("gauge", [tmp_path / "none", tmp_path / "own", tmp_path / "shipped"]).__file__
            )
        except ConfigError as error:
            found = str(error)
    (tmp_path / "own").chmod(0o700)
    assert used in found.removeprefix(str(tmp_path))


# --- errors in words ---

I2C, SPI, TTY, GPIO, SYS = "/dev/i2c-1", "/dev/spidev0.0", "/dev/ttyUSB0", "/dev/gpiochip0", "/sys/class/hwmon/hwmon0/x"


@each_row(
    ("path", "address", "number", "kind", "said"),
    [
        (I2C, None, errno.ENOENT, DeviceMissing, "/dev/i2c-1 does not exist: turn I2C on with `sudo raspi-config"),
        (SPI, None, errno.ENOENT, DeviceMissing, "nonint do_spi 0`, then look again"),
        (TTY, None, errno.ENOENT, DeviceMissing, "/dev/ttyUSB0 does not exist: turn the port on"),
        (GPIO, None, errno.ENOENT, DeviceMissing, "ls /dev/gpiochip*"),
        (SYS, None, errno.ENOENT, DeviceMissing, f"{SYS} does not exist"),
        (I2C, None, errno.EACCES, NoPermission, "sudo usermod -aG i2c $USER"),
        (SPI, None, errno.EACCES, NoPermission, "sudo usermod -aG spi $USER"),
        (TTY, None, errno.EPERM, NoPermission, "sudo usermod -aG dialout $USER"),
        (GPIO, None, errno.EACCES, NoPermission, "sudo usermod -aG gpio $USER"),
        (SYS, None, errno.EACCES, NoPermission, f"{SYS} may not be opened by this user"),
        (I2C, 0x76, errno.EREMOTEIO, DeviceMissing, "0x76 on /dev/i2c-1 does not answer: check power (3V3)"),
        (I2C, 0x76, errno.ENXIO, DeviceMissing, "0x76 on /dev/i2c-1 does not answer"),
        (I2C, 0x08, errno.EBUSY, BusFault, "0x08 on /dev/i2c-1 is in use by a kernel driver"),
        (I2C, 0x76, errno.ETIMEDOUT, BusFault, "timed out: SDA or SCL may be held low"),
        (I2C, 0x76, errno.EIO, BusFault, "reported an I/O error"),
        (I2C, 0x76, errno.EAGAIN, BusFault, "lost arbitration"),
        (I2C, 0x76, errno.EOPNOTSUPP, BusFault, "cannot do this transfer"),
        (I2C, 0x76, errno.EINVAL, BusFault, "refused the request as invalid"),
        (I2C, 0x76, errno.ENOSPC, BusFault, "0x76 on /dev/i2c-1 failed: No space left on device"),
        (SPI, None, errno.EMSGSIZE, BusFault, "takes fewer bytes in one message"),
        (SPI, None, errno.EBUSY, BusFault, "is in use by another program"),
        (TTY, None, errno.EIO, DeviceMissing, "/dev/ttyUSB0 has gone away or reported an I/O error"),
        (TTY, None, errno.ENXIO, DeviceMissing, "has gone away"),
        (SYS, None, errno.EIO, BusFault, "could not be measured: no answer, or a checksum"),
        (SYS, None, errno.ETIMEDOUT, BusFault, "timed out: the part did not answer"),
        (SYS, None, errno.EROFS, NoPermission, "read-only for this service"),
    ],
)
def test_an_errno_in_words(path, address, number, kind, said):
    with pytest.raises(kind) as caught, translate_os_error(path, address):
        raise OSError(number, os.strerror(number))
    assert said in str(caught.value)
    assert type(caught.value) is kind
    assert "{" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_errors_are_not_explained_away():
    with pytest.raises(ZeroDivisionError), translate_os_error("/dev/i2c-1"):
        raise ZeroDivisionError
