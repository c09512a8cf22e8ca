"""Finding out what is wired up, and naming it: no harm to what it might be instead, no guess, and kept for good."""

import os
import re
import subprocess
import sys

import pytest
from recording import CALLER, Clock, Recorder, ask, bench, complaint, toolset
from rows import each_row

from picoclaw import config
from picoclaw.app import App
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, Denied
from picoclaw.files import find_shipped
from picoclaw.hw import detect, kernel, loader
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import Drivers
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim.parts.climate import SimBME280
from picoclaw.hw.sim.script import Scene, SimFault
from picoclaw.messages import ToolCall
from picoclaw.tools.sensors import SensorAddTool, SensorTools

SHIPPED = [find_shipped("tools/hw")]
WEATHER = {"temperature": 21.5, "humidity": 55.25, "pressure": 1013.25}


def asked_gently(bus):
    """Hold every transaction to one register number and a read; return the bytes that were written."""
    for _, *segments in bus.transfers:
        assert len(segments) == 2, segments
        assert len(segments[0].data) == 1, segments
        assert isinstance(segments[1], I2CRead), segments
    return sum(len(segment.data) for _, segment in bus.log if isinstance(segment, I2CWrite))


# --- a bus on which nothing can go wrong ---


@each_row(
    ("segments", "allowed"),
    [
        ([I2CWrite(b"\xd0"), I2CRead(1)], True),
        ([I2CWrite(b"\xd0"), I2CRead(256)], True),
        ([I2CRead(1)], False),
        ([I2CWrite(b"\xd0")], False),
        ([I2CWrite(b""), I2CRead(1)], False),
        ([I2CWrite(b"\xfc\xc9"), I2CRead(6)], False),
        ([I2CWrite(b"\xe0\xb6")], False),
        ([I2CWrite(b"\xd0"), I2CWrite(b"\xd1")], False),
        ([I2CWrite(b"\xd0"), I2CRead(1), I2CWrite(b"\xd1"), I2CRead(1)], False),
        ([I2CRead(1), I2CWrite(b"\xd0")], False),
        ([], False),
    ],
)
def test_only_a_registers_number_is_written_to_a_part_that_nobody_has_named(segments, allowed):
    _, bus = bench({0x76: Recorder()})
    gentle = detect.ReadOnlyI2CBus(bus)
    if allowed:
        assert gentle.transfer(0x76, segments) == [b"\xff" * segments[1].length]
    else:
        with pytest.raises(detect.IdentificationSkipped, match="writes more than a register's number"):
            gentle.transfer(0x76, segments)
    assert bus.transfers == ([(0x76, *segments)] if allowed else [])


def test_the_gentle_bus_looks_as_the_bus_does():
    _, bus = bench({0x76: Recorder()})
    bus.held[0x40] = "ina2xx"
    gentle = detect.ReadOnlyI2CBus(bus)
    assert (gentle.number, gentle.probe(0x76), gentle.probe(0x20)) == (1, "present", "absent")
    assert (gentle.probe(0x40), gentle.holder(0x40), gentle.holder(0x76)) == ("busy", "ina2xx", "")


# --- the shipped drivers ---

ALL = range(detect.FIRST_ADDRESS, 0x78)


def outputs():
    """The addresses at which any byte may become an output."""
    chips = [loader.load_driver(name, SHIPPED) for name in loader.list_drivers(SHIPPED)]
    return {a for c in chips if getattr(c, "ANY_BYTE_IS_OUTPUT", False) for a in getattr(c, "ADDRESSES", ())}


@each_row("fill", [0x00, 0xFF, 0xA5])
def test_a_stranger_is_asked_gently_at_every_address(fill):
    expanders = outputs()
    for address in ALL:
        board, bus = bench({address: Recorder(fill=fill)})
        found = detect.identify_part(board, 1, address, SHIPPED)
        assert found.identified == {}, hex(address)
        written = asked_gently(bus)
        assert address not in expanders or written == 0
        assert not re.search(r"i2c|spi|serial|gpio", " ".join(found.possible))


def test_the_addresses_of_expanders_are_known_as_such():
    assert outputs() >= {*range(0x20, 0x28), *range(0x38, 0x40)}


@each_row("address", [0x20, 0x21, 0x27, 0x38, 0x39, 0x3F])
def test_not_one_byte_goes_where_an_expander_may_be(address):
    board, bus = bench({address: Recorder()})
    assert "pcf8574" in detect.identify_part(board, 1, address, SHIPPED).possible
    said = complaint(ask(adder(board), "sensor_add", name="porch", address=address))
    assert "pcf8574" in said
    assert bus.transfers == []
    assert bus.parts[address].written == []


@each_row("address", [0x40, 0x48, 0x68, 0x76, 0x77, 0x44, 0x23])
@each_row("fill", [0x00, 0xFF, 0xA5])
def test_an_ambiguous_address_is_never_guessed(address, fill):
    board, bus = bench({address: Recorder(fill=fill)})
    wired = {}
    said = complaint(ask(adder(board, wired), "sensor_add", name="porch", address=address))
    assert said.startswith(f"error: 0x{address:02x} on i2c-1 answers, but ")
    assert asked_gently(bus) <= 8
    assert wired == {}


@each_row(
    ("address", "answers", "identified"),
    [
        (0x76, {b"\xd0": b"\x60"}, {"bme280": "BME280"}),
        (0x77, {b"\xd0": b"\x58"}, {"bme280": "BMP280"}),
        (0x76, {b"\xd0": b"\x61"}, {}),
        (0x77, {b"\xd0": b"\x00"}, {}),
    ],
)
def test_a_part_that_says_its_name(address, answers, identified):
    board, bus = bench({address: Recorder(answers)})
    assert detect.identify_part(board, 1, address, SHIPPED).identified == identified
    assert asked_gently(bus) <= 4


def test_a_part_that_refuses_the_question_is_another():
    board, bus = bench({0x76: Recorder(nack=[b"\xd0"])})
    assert detect.identify_part(board, 1, 0x76, SHIPPED).identified == {}
    assert bus.parts[0x76].written == [b"\xd0"] * len(bus.parts[0x76].written)


# --- drivers of our own, to know all about ---

GAUGE = "def read(part):\n    return {'temperature': part.registers(0, 1)[0]}\n"
ID = "def identify(part):\n    return 'PART {0}' if part.registers(0x{1}, 1)[0] == 0x{2} else ''\n"
DRIVERS = {
    "mute": "ADDRESSES = (0x48, 0x49)\n" + GAUGE,
    "silent": "ADDRESSES = (0x48,)\n" + GAUGE,
    "lone": "ADDRESSES = (0x50,)\n" + GAUGE,
    "first": "ADDRESSES = (0x40, 0x41)\n" + ID.format("A", "fe", "11") + GAUGE,
    "second": "ADDRESSES = (0x40,)\n" + ID.format("B", "0f", "22") + GAUGE,
    "greedy": "ADDRESSES = (0x42, 0x43)\ndef identify(part):\n    part.write(0xFC, 0xC9)\n    return 'GREEDY'\n"
    + GAUGE,
    "neighbour": "ADDRESSES = (0x43,)\n" + ID.format("N", "0f", "33") + GAUGE,
    "expander": "ADDRESSES = (0x20, 0x21)\nANY_BYTE_IS_OUTPUT = True\ndef read(part):\n    return {'level p0': 1.0}\n",
    "rival": "ADDRESSES = (0x20, 0x22)\n" + ID.format("R", "0f", "44") + GAUGE,
    "broken_file": "ADDRESSES = (0x40,\n",
    "by_wire": "SPI = {'mode': 0}\ndef read(part):\n    return {'voltage': 1.0}\n",
    "talker": "SERIAL = {'baud': 9600}\ndef read(part):\n    return {'co2': 420.0 + len(part.read(1, 0.0))}\n",
    "shunt": "ADDRESSES = (0x4F,)\nOPTIONS = {'ohms': (0.1, 0.001, 10.0)}\n"
    "def read(part):\n    return {'current': 1 / part.options['ohms']}\n",
    "absurd": "ADDRESSES = (0x51,)\ndef read(part):\n    return {'humidity': 300.0}\n",
    "failing": "ADDRESSES = (0x52,)\ndef read(part):\n    return {'humidity': 1 / 0}\n",
    "doubtful": "ADDRESSES = (0x53,)\ndef read(part):\n    part.doubt('cold')\n    return {'humidity': 5.0}\n",
}


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "drivers"
    folder.mkdir()
    for name, text in DRIVERS.items():
        (folder / f"{name}.py").write_text(text)
    return [folder]


def adder(board, wired=None, where=SHIPPED, kept=None):
    clock = Clock(1e9, step=0.01)
    kept = {} if kept is None else kept
    drivers = Drivers(board, lambda name: loader.load_driver(name, where), clock, clock.sleep)
    return SensorAddTool(board, {} if wired is None else wired, drivers, where, kept.__setitem__)


@pytest.mark.parametrize(
    ("address", "answers", "identified", "possible"),
    [
        (0x48, {}, {}, {"mute", "silent"}),
        (0x49, {}, {}, {"mute"}),
        (0x40, {}, {}, set()),
        (0x40, {b"\xfe": b"\x11"}, {"first": "PART A"}, set()),
        (0x40, {b"\x0f": b"\x22"}, {"second": "PART B"}, set()),
        (0x40, {b"\xfe": b"\x11", b"\x0f": b"\x22"}, {"first": "PART A", "second": "PART B"}, set()),
        (0x42, {}, {}, {"greedy"}),
        (0x43, {b"\x0f": b"\x33"}, {"neighbour": "PART N"}, {"greedy"}),
        (0x20, {b"\x0f": b"\x44"}, {}, {"expander", "rival"}),
        (0x21, {}, {}, {"expander"}),
        (0x22, {b"\x0f": b"\x44"}, {"rival": "PART R"}, set()),
        (0x60, {}, {}, set()),
    ],
)
def test_what_may_be_at_an_address(own, address, answers, identified, possible):
    board, bus = bench({address: Recorder(answers)})
    found = detect.identify_part(board, 1, address, own)
    assert found.identified == identified
    assert set(found.possible) == possible
    written = asked_gently(bus)
    assert written == (0 if address in {0x20, 0x21, 0x48, 0x49, 0x42, 0x60} else len(bus.parts[address].written))


def test_a_driver_that_was_not_allowed_to_ask_stays_possible(own):
    caught = "    try:\n        part.write(0x89, 0)\n    except BusFault:\n        return ''\n    return 'C'\n"
    text = f"from picoclaw.errors import BusFault\nADDRESSES = (0x30,)\ndef identify(part):\n{caught}{GAUGE}"
    (own[0] / "catching.py").write_text(text)
    board, _ = bench({0x30: Recorder()})
    assert detect.identify_part(board, 1, 0x30, own).possible == ["catching"]


# --- adding ---


@pytest.mark.parametrize(
    ("arguments", "answers", "wired", "said"),
    [
        ({"part": "lone"}, {b"\0": b"\x15"}, WiredPart("lone", 1, 0x50), "at 0x50; it measures temperature 21.00 °C"),
        ({"part": " LONE "}, {b"\0": b"\x15"}, WiredPart("lone", 1, 0x50), "added porch: lone on i2c-1"),
        ({"part": "mute", "address": "0x49"}, {}, WiredPart("mute", 1, 0x49), "added porch: mute on i2c-1 at 0x49"),
        ({"address": 0x40}, {b"\xfe": b"\x11"}, WiredPart("first", 1, 0x40), "added porch: first on i2c-1 at 0x40"),
        ({"address": 0x43, "bus": "1"}, {b"\x0f": b"\x33"}, WiredPart("neighbour", 1, 0x43), "added porch: neighbour"),
        ({"part": "greedy", "address": 0x42}, {}, WiredPart("greedy", 1, 0x42), "added porch: greedy"),
        ({"part": "shunt"}, {}, WiredPart("shunt", 1, 0x4F, options={"ohms": 0.1}), "it measures current 10.00 A"),
        (
            {"part": "shunt", "options": {"ohms": 0.5}},
            {},
            WiredPart("shunt", 1, 0x4F, options={"ohms": 0.5}),
            "it measures current 2.00 A",
        ),
        ({"part": "shunt", "options": '{"ohms": 2}'}, {}, WiredPart("shunt", 1, 0x4F, options={"ohms": 2}), "0.50 A"),
        ({"part": "doubtful"}, {}, WiredPart("doubtful", 1, 0x53), "it measures humidity 5.00 %"),
    ],
)  # fmt: skip
def test_what_is_added(own, arguments, answers, wired, said):
    board, _ = bench({address: Recorder(answers, fill=1) for address in (*range(0x40, 0x54),)})
    known, kept = {}, {}
    assert said in ask(adder(board, known, own, kept), "sensor_add", name="porch", **arguments)
    assert known == {"porch": wired}
    assert kept["porch"].part == wired.part


MAIN = {"name": "porch", "part": "lone"}
NAN, INF, HUGE = float("nan"), float("inf"), 10**40
BAD = {
    "name": ["", " ", "porch ", " porch", "a\nb", "a\tb", "a\x1b[2J", "\0", "x" * 41, "x" * 10_000, "a\u2028b",
             "\u200b", True, [], ["porch"], {}, None],
    "part": ["no_such_part", "../lone", "/etc/passwd", "lone.py", "lone;", "1wire", "i2c", "x" * 5000, "é", "\0", True,
             [], {}, ["lone"], "broken_file"],
    "bus": [-1, 256, 2, 7, 255, 0, 1.5, HUGE, -HUGE, NAN, INF, True, False, "", "one", "i2c-1", "/dev/i2c-1", [1], {}],
    "address": [1, 2, 7, 0x78, 0x7C, 0x7F, 0x80, 0xA0, 0x100, 0x3FF, -1, 80.5, 1e300, HUGE, NAN, INF, True, False, "",
                "0x", "0x07", "0x78", "0x3ff", "first", "nan", "0x50 0x51", [0x50], {}, "9" * 65],
    "chip": [-1, 256, 0.5, HUGE, NAN, True, "", "first", [0], {}],
    "options": [{"ohms": 1}, {"": 1}, {"x" * 50: 1}, "ohms=1", "{", "[1]", [], [1], 5, 0.5, True, NAN],
    "port": [True, [], {}],
    "extra": [1],
    "addr": [0x50],
    "caller": ["me"],
    "": [1],
}  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [MAIN | {k: v} for k, values in BAD.items() for v in values], ids=lambda v: repr(v)[-60:]
)
def test_a_wrong_argument_adds_nothing_and_writes_nothing(own, arguments):
    board, bus = bench({address: Recorder(fill=1) for address in range(128)})
    known, kept = {}, {}
    said = complaint(ask(adder(board, known, own, kept), "sensor_add", **arguments))
    assert len(said) < 600 or len(str(arguments)) > 600
    assert (known, kept, bus.transfers) == ({}, {}, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "porch"}, "part or address is missing: say which part it is, or where"),
        ({"name": "porch", "bus": 1}, "part or address is missing"),
        ({"part": "lone"}, "argument 'name' is missing: a new name, such as porch"),
        ({}, "argument 'name' is missing"),
        (MAIN | {"address": 5}, "'address' is 5, outside 0x08 to 0x77"),
        (MAIN | {"part": "talker"}, 'talker needs port, such as port = "/dev/serial0"'),
        (MAIN | {"part": "shunt", "options": {"ohm": 1}}, "shunt has no option 'ohm'; known: ohms"),
        (MAIN | {"part": "shunt", "options": {"ohms": 0}}, "ohms of shunt must be a number from 0.001 to 10, not 0"),
        (MAIN | {"part": "shunt", "options": {"ohms": NAN}}, "must be a number from 0.001 to 10, not nan"),
        (MAIN | {"part": "shunt", "options": {"ohms": True}}, "must be a number from 0.001 to 10, not True"),
        ({"name": "porch", "address": 0x48}, "0x48 on i2c-1 answers, but may be mute or silent, which cannot"),
        ({"name": "porch", "address": 0x49}, "0x49 on i2c-1 answers, but may be mute, which cannot"),
        ({"name": "porch", "address": 0x60}, "0x60 on i2c-1 answers, but no driver knows a part at that address"),
        ({"name": "porch", "address": 0x21}, "may be expander, which cannot be told apart safely: say which part"),
        ({"name": "porch", "address": 0x20}, "may be expander or rival"),
        ({"name": "porch", "address": 0x42}, "may be greedy"),
    ],
)  # fmt: skip
def test_why_nothing_is_added(own, arguments, said):
    board, bus = bench({address: Recorder(fill=1) for address in range(128)})
    known = {}
    assert said in complaint(ask(adder(board, known, own), "sensor_add", **arguments))
    assert (known, bus.transfers) == ({}, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (MAIN | {"part": "absurd"}, "absurd on i2c-1 at 0x51 was not added: implausible value 300 %"),
        (MAIN | {"part": "failing"}, "failing on i2c-1 at 0x52 was not added: its driver failing.py failed: ZeroDiv"),
        (MAIN | {"part": "first", "address": 0x40}, "what is on i2c-1 at 0x40 is no first: it says that it is PART B"),
        (MAIN | {"part": "first", "address": 0x41}, "what is on i2c-1 at 0x41 is no first"),
        (MAIN | {"part": "by_wire"}, "by_wire on spi0.0 was not added: /dev/spidev0.0 does not exist"),
        (MAIN | {"part": "talker", "port": "/dev/ttyS7"}, "was not added: /dev/ttyS7 does not exist"),
    ],
)
def test_what_is_not_what_it_is_said_to_be_is_not_added(own, arguments, said):
    board, _ = bench({address: Recorder({b"\x0f": b"\x22"}, fill=1) for address in range(0x40, 0x54)})
    known, kept = {}, {}
    assert said in complaint(ask(adder(board, known, own, kept), "sensor_add", **arguments))
    assert (known, kept) == ({}, {})


def test_a_part_that_two_drivers_recognise_is_not_guessed(own):
    board, bus = bench({0x40: Recorder({b"\xfe": b"\x11", b"\x0f": b"\x22"})})
    known = {}
    said = complaint(ask(adder(board, known, own), "sensor_add", name="porch", address=0x40))
    assert "0x40 on i2c-1 answers, but may be first or second, which cannot be told apart safely" in said
    assert (known, asked_gently(bus)) == ({}, 2)


def test_nothing_answers_where_the_part_should_be(own):
    board, _ = bench({})
    assert complaint(ask(adder(board, {}, own), "sensor_add", **MAIN)).startswith(
        "error: lone on i2c-1 at 0x50 was not added: 0x50 on /dev/i2c-1 does not answer"
    )
    said = complaint(ask(adder(board, {}, own), "sensor_add", name="porch", address=0x40))
    assert said == "error: 0x40 on i2c-1 does not answer: check power and wiring"


def test_a_part_that_the_kernel_reads_is_not_asked(own):
    board, bus = bench({0x40: Recorder()})
    bus.held[0x40] = "ina2xx"
    said = complaint(ask(adder(board, {}, own), "sensor_add", name="porch", address=0x40))
    assert said == "error: 0x40 on i2c-1 is read by the kernel's driver ina2xx already: see sensor_list"
    assert "in use by a kernel driver" in complaint(
        ask(adder(board, {}, own), "sensor_add", name="porch", part="first", address=0x40)
    )
    assert not bus.log


@pytest.mark.parametrize("kind", ["nack", "stuck", "eio", "unplugged"])
def test_a_fault_of_the_bus_adds_nothing(own, kind):
    board, _ = bench({0x50: Recorder(), 0x40: Recorder({b"\xfe": b"\x11"})})
    board.wiring.faults = [SimFault(kind, "i2c-1")]
    known, kept = {}, {}
    for arguments in (MAIN, {"name": "porch", "address": 0x40}, MAIN | {"part": "first"}):
        complaint(ask(adder(board, known, own, kept), "sensor_add", **arguments))
    assert (known, kept) == ({}, {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (MAIN | {"name": "attic"}, "there is a sensor 'attic' already: lone on i2c-1 at 0x50; choose another name"),
        (MAIN, "i2c-1 at 0x50 is taken: attic is lone on i2c-1 at 0x50"),
        (MAIN | {"part": "mute", "address": 0x49}, "added porch"),
    ],
)
def test_a_name_and_a_place_are_taken_once(own, arguments, said):
    board, _ = bench({address: Recorder(fill=1) for address in range(128)})
    known = {"attic": WiredPart("lone", 1, 0x50)}
    assert said in ask(adder(board, known, own), "sensor_add", **arguments)
    assert known["attic"] == WiredPart("lone", 1, 0x50)


def test_what_cannot_be_kept_is_not_added(own):
    class FullDisk(dict):
        def __setitem__(self, name, sensor):
            raise OSError(28, os.strerror(28))

    board, _ = bench({0x50: Recorder(fill=1)})
    known = {}
    said = complaint(ask(adder(board, known, own, FullDisk()), "sensor_add", **MAIN))
    assert said == "error: porch could not be saved: the disk is full: free some space"
    assert known == {}


def test_adding_is_guarded_and_written_down_before_anything_is_asked(own):
    board, bus = bench({0x50: Recorder(fill=1)})
    seen = []
    tools = toolset(
        adder(board, {}, own),
        guard=lambda asked, _: seen.append((asked.effect, len(bus.log))),
        journal=lambda call, _: seen.append((call.name, len(bus.log))),
    )
    tools.call(ToolCall("1", "sensor_add", MAIN), CALLER)
    assert seen == [("actuate", 0), ("sensor_add", 0)]


def test_what_a_person_denies_is_not_asked(own):
    def deny(*_):
        raise Denied("no")

    board, bus = bench({0x50: Recorder(fill=1)})
    assert toolset(adder(board, {}, own), guard=deny).call(ToolCall("1", "sensor_add", MAIN), CALLER) == "error: no"
    assert bus.transfers == []


# --- kept for good ---

KEPT = [
    ("porch", SensorConfig("bme280")),
    ("porch", SensorConfig("bme280", 0, 0x77)),
    ('the "old" shed\'s \\ wall', SensorConfig("bme280", 1, 0x76)),
    ("a.b [c] # d = e", SensorConfig("bme280")),
    ("Gewächshaus 🌱 温室", SensorConfig("bme280")),
    ("probe", SensorConfig("max31855", 1, chip=2)),
    ("air", SensorConfig("mhz19", port="/dev/serial/by-id/usb-1a86_USB'\"\\x-if00")),
    ("tank", SensorConfig("ds18b20", port="28-00000a1b2c3d")),
    ("mains", SensorConfig("ina219", 1, 0x40, options={"shunt_ohms": 0.1})),
    ("mains", SensorConfig("ina219", options={"shunt_ohms": 1, "a": 1e-6, "b": 1e22, "c": -0.0, "d": 12345678.9})),
]


@pytest.mark.parametrize(("name", "sensor"), KEPT, ids=lambda v: str(v)[:40])
def test_what_is_kept_is_read_again(tmp_path, name, sensor):
    loader.add_sensor(tmp_path, name, sensor)
    assert config.load_config({"PICOCLAW_HOME": str(tmp_path)}).sensors == {name: sensor}


def test_what_is_kept_joins_what_was_there(tmp_path):
    (tmp_path / "sensors.toml").write_text("# mine\n[sensors.cellar]\npart = 'lm75'")
    for name, sensor in (("porch", SensorConfig("bme280")), ("attic", SensorConfig("bme280", 1, 0x77))):
        loader.add_sensor(tmp_path, name, sensor)
    assert list(config.load_config({"PICOCLAW_HOME": str(tmp_path)}).sensors) == ["cellar", "porch", "attic"]
    assert (tmp_path / "sensors.toml").read_text().startswith("# mine\n[sensors.cellar]\npart = 'lm75'\n")


def test_the_owners_file_wins(tmp_path):
    (tmp_path / "config.toml").write_text("[sensors.porch]\npart = 'bme280'\naddress = 0x77\n")
    loader.add_sensor(tmp_path, "porch", SensorConfig("lm75"))
    loader.add_sensor(tmp_path, "attic", SensorConfig("lm75"))
    assert config.load_config({"PICOCLAW_HOME": str(tmp_path)}).sensors == {
        "porch": SensorConfig("bme280", address=0x77),
        "attic": SensorConfig("lm75"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sensors", "sensors.toml is not valid TOML"),
        ("sensors = 5", "sensors.toml: [sensors] must hold one table for each sensor"),
        ("[sensors]\nporch = 5", "sensors.toml: [sensors.porch] must be a table"),
        ("[sensors.porch]", "sensors.toml: [sensors.porch]: 'part' is missing"),
        ("[sensors.porch]\npart = 5.5\nx = 1", "sensors.toml: [sensors.porch]: unknown 'x'"),
        ("[sensors.porch]\npart = 'x'\naddress = 0x3ff", "sensors.toml: [sensors.porch]: 'address' is 1023"),
        ("[sensors.porch]\npart = 'x'\noptions = 5", "sensors.toml: [sensors.porch]: 'options' must be a table"),
        ("[sensors.porch]\npart = 'x'\n[sensors.porch]\npart = 'x'", "sensors.toml is not valid TOML"),
    ],
)
def test_a_file_of_added_parts_that_was_spoilt_is_named(tmp_path, text, said):
    (tmp_path / "sensors.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        config.load_config({"PICOCLAW_HOME": str(tmp_path)})


@pytest.fixture
def home(tmp_path):
    """Start picoclaw in this home, again and again, with one BME280 at 0x76."""
    apps = []
    (tmp_path / "home").mkdir()

    def start():
        clock = Clock(1e9, step=0.01)
        board, _ = bench({0x76: SimBME280(Scene(clock, WEATHER)), 0x48: Recorder(fill=1)}, clock)
        apps.append(App(config.load_config({"PICOCLAW_HOME": str(tmp_path / "home")}), board, lambda _: True))
        return apps[-1]

    yield start
    for app in apps:
        app.close()


def call(app, tool, /, **arguments):
    return app.toolset.call(ToolCall("1", tool, arguments), CALLER)


def test_a_part_is_read_at_once_and_after_a_restart(home, tmp_path):
    app = home()
    assert "error: no sensor 'porch'; there are: cpu" in call(app, "sensor_read", sensor="porch")
    said = call(app, "sensor_add", name="porch", address="0x76")
    assert said.startswith("added porch: bme280 on i2c-1 at 0x76; it measures temperature 21.50 °C, humidity 55.")
    for running in (app, home(), home()):
        assert "porch: temperature, humidity, pressure (bme280 on i2c-1 at 0x76)" in call(running, "sensor_list")
        assert call(running, "sensor_read", sensor="porch").startswith("porch: temperature 21.50 °C, humidity 55.")
    assert (tmp_path / "home/sensors.toml").stat().st_mode & 0o777 == 0o600
    assert "there is a sensor 'porch' already" in call(home(), "sensor_add", name="porch", address=0x76)
    assert "i2c-1 at 0x76 is taken: porch is bme280" in call(home(), "sensor_add", name="attic", part="bme280")


def test_a_part_that_was_not_added_leaves_no_file(home, tmp_path):
    complaint(call(home(), "sensor_add", name="porch", address="0x48"))
    complaint(call(home(), "sensor_add", name="porch", part="bme280", address="0x77"))
    assert not (tmp_path / "home/sensors.toml").exists()


def test_a_register_of_a_part_that_was_named_is_read_without_asking_after_a_restart(home):
    call(home(), "sensor_add", name="porch", address="0x76")
    tool = home().toolset.find("i2c")
    assert tool.effects({"action": "read", "bus": 1, "address": 0x76, "register": 0xD0}) == ("read",)
    assert tool.effects({"action": "read", "bus": 1, "address": 0x48, "register": 0xD0}) == ("actuate",)


# --- parts that the kernel reads ---

DEVICE = "/sys/bus/i2c/devices/1-0076"


@pytest.fixture
def tree(tmp_path):
    """Build a board from a table of its kernel files; a value that begins with `->` is a link."""

    def build(files):
        for name, content in files.items():
            path = tmp_path / "root" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if content.startswith("->"):
                path.symlink_to(content[2:])
            else:
                path.write_text(content)
        return LinuxBoard(tmp_path / "root")

    return build


IIO, HWMON, W1 = "/sys/bus/iio/devices/iio:device", "/sys/class/hwmon/hwmon", "/sys/bus/w1/devices/28-0316a2794cff"
FACES = {
    f"{IIO}0/name": "bme280\n",
    f"{IIO}0/in_temp_input": "21500\n",
    f"{IIO}0/in_humidityrelative_input": "55250\n",
    f"{IIO}1/name": "bme280\n",
    f"{IIO}1/in_temp_input": "5000\n",
    f"{HWMON}4/name": "ina219\n",
    f"{HWMON}4/in1_input": "12000\n",
    f"{W1}/temperature": "8000\n",
    f"{DEVICE}/iio:device0/name": "bme280\n",
    "/sys/bus/i2c/devices/1-0040/hwmon/hwmon4/name": "ina219\n",
    "/sys/bus/spi/devices/spi0.1/iio:device1/name": "bme280\n",
}


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (WiredPart("bme280", 1, 0x76), {"iio:device0"}),
        (WiredPart("bme280", 1, 0x77), set()),
        (WiredPart("bme280", 0, 0x76), set()),
        (WiredPart("bme280", 11, 0x76), set()),
        (WiredPart("ina219", 1, 0x40), {"hwmon4"}),
        (WiredPart("bme280", 0, chip=1), {"iio:device1"}),
        (WiredPart("bme280", 0, chip=0), set()),
        (WiredPart("ds18b20", port="28-0316a2794cff"), {"28-0316a2794cff"}),
        (WiredPart("ds18b20", port="28-0316a2794cf"), set()),
        (WiredPart("mhz19", port="/dev/serial0"), set()),
    ],
)
def test_a_part_that_a_kernel_driver_is_bound_to(tree, part, found):
    board = tree(FACES)
    bound = kernel.find_bound_sensors(board, part, kernel.list_kernel_sensors(board))
    assert {sensor.source.rpartition("/")[2] for sensor in bound} == found


def test_a_named_part_is_read_by_the_kernel_and_listed_once(tree):
    board = tree(FACES)
    wired = {"porch": WiredPart("bme280", 1, 0x76), "tank": WiredPart("ds18b20", port="28-0316a2794cff")}
    group = SensorTools(board, wired, Drivers(board, lambda name: loader.load_driver(name, SHIPPED)), "/")
    assert ask(group, "sensor_list").splitlines() == [
        f"porch: humidity, temperature (bme280 on i2c-1 at 0x76, read by the kernel ({IIO}0))",
        f"tank: temperature (ds18b20 on 28-0316a2794cff, read by the kernel ({W1}))",
        f"ina219: voltage ({HWMON}4)",
        f"bme280 #2: temperature ({IIO}1)",
    ]
    lines = ask(group, "sensor_read").splitlines()
    assert f"porch: humidity 55.25 %, temperature 21.50 °C ({IIO}0, read just now)" in lines
    assert f"tank: temperature 8.00 °C ({W1}, read just now)" in lines
    assert len(lines) == 4
    assert "28-0316" not in ask(group, "sensor_read", sensor="porch")


# --- whose bus it is ---

NODES = "/sys/firmware/devicetree/base"
ARM, VC = "/soc/i2c@7e804000", "/soc/i2c0mux/i2c@1"
SYMBOLS = {"/proc/device-tree/__symbols__/i2c_arm": f"{ARM}\0", "/proc/device-tree/__symbols__/i2c_vc": f"{VC}\0"}


def adapter(number, name, node=""):
    files = {f"/dev/i2c-{number}": "", f"/sys/class/i2c-dev/i2c-{number}/name": f"{name}\n"}
    if node:
        files[f"/sys/class/i2c-dev/i2c-{number}/device/of_node"] = f"->../../../../firmware/devicetree/base{node}"
        files[f"{NODES}{node}/status"] = "okay"
    return files


@pytest.mark.parametrize(
    ("files", "header", "use"),
    [
        (adapter(1, "bcm2835 (i2c@7e804000)", ARM) | SYMBOLS, True, ""),
        (adapter(0, "bcm2835 (i2c@7e804000)", ARM) | SYMBOLS, True, ""),
        (adapter(7, "an adapter of any name", ARM) | SYMBOLS, True, ""),
        (adapter(1, "bcm2835 (i2c@7e205000)", VC) | SYMBOLS, False, "the HAT's EEPROM and the camera"),
        (adapter(10, "i2c-22-mux (chan_id 1)", VC) | SYMBOLS, False, "the HAT's EEPROM and the camera"),
        (adapter(3, "bcm2835 (i2c@7e205600)", "/soc/i2c@7e205600") | SYMBOLS, False, ""),
        (adapter(1, "bcm2835 (i2c@7e804000)", ARM), True, ""),
        (adapter(1, "bcm2835 (i2c@7e804000)") | SYMBOLS, True, ""),
        (adapter(3, "bcm2835 (i2c@7e205600)"), False, ""),
        (adapter(20, "fef04500.i2c"), False, "an HDMI port"),
        (adapter(21, "fef09500.i2c"), False, "an HDMI port"),
        (adapter(1, "fef04500.i2c"), False, "an HDMI port"),
        (adapter(13, "107d508200.i2c"), False, "an HDMI port"),
        (adapter(2, "HDMI A DDC"), False, "an HDMI port"),
        (adapter(1, "DPDDC-B"), False, "an HDMI port"),
        (adapter(1, "ov5647 CSI"), False, "a camera"),
        (adapter(4, "panel-dsi"), False, "a display"),
        (adapter(1, "SMBus I801 adapter at efa0"), False, "the mainboard"),
        (adapter(0, "SMBus PIIX4 adapter port 0 at 0b00"), False, "the mainboard"),
        (adapter(1, "AMDGPU DM i2c hw bus 0"), False, "the graphics processor"),
    ],
)
def test_whose_bus_it_is(tree, files, header, use):
    (found,) = tree(files).adapters()
    assert (found.header, found.use) == (header, use)


# --- defects that are known ---


@each_row("address", [0x20, 0x38])
def test_a_part_named_at_an_address_that_it_cannot_have_is_not_asked(address):
    board, bus = bench({address: Recorder()})
    complaint(ask(adder(board), "sensor_add", name="porch", part="bme280", address=address))
    assert bus.parts[address].written == []


@pytest.mark.parametrize("body", ["return part.registers(1, 1)[5]", "return undefined", "return {}['x']", "1 / 0"])
def test_a_broken_identification_loses_no_other_driver(own, body):
    (own[0] / "zz_broken.py").write_text(f"ADDRESSES = (0x40,)\ndef identify(part):\n    {body}\n{GAUGE}")
    board, _ = bench({0x40: Recorder({b"\xfe": b"\x11"}, fill=1)})
    assert ask(adder(board, {}, own), "sensor_add", name="porch", address=0x40).startswith("added porch")


@pytest.mark.parametrize("body", ["return part.registers(1, 1)[5]", "return undefined", "1 / 0"])
def test_a_broken_identification_of_a_named_part_is_said(own, body):
    (own[0] / "zz_broken.py").write_text(f"ADDRESSES = (0x40,)\ndef identify(part):\n    {body}\n{GAUGE}")
    board, _ = bench({0x40: Recorder()})
    assert "zz_broken" in complaint(ask(adder(board, {}, own), "sensor_add", name="porch", part="zz_broken"))


@pytest.mark.parametrize("arguments", [{"address": 0x40}, {"part": "first", "address": 0x40}, {"part": "lone"}])
def test_no_part_is_looked_for_on_a_bus_of_the_boards_own(own, arguments):
    board, _ = bench({0x40: Recorder({b"\xfe": b"\x11"}), 0x50: Recorder(fill=1)}, uses={2: "an HDMI port"})
    complaint(ask(adder(board, {}, own), "sensor_add", name="porch", bus=2, **arguments))
    assert board.i2c(2).transfers == []


def test_a_name_that_is_given_in_two_running_picoclaws_is_kept_once(home):
    one, other = home(), home()
    assert [call(app, "sensor_list").count("porch") for app in (one, other)] == [0, 0]
    for app in (one, other):
        call(app, "sensor_add", name="porch", address="0x76")
    assert call(home(), "sensor_list").count("porch") == 1


def test_what_was_kept_does_not_depend_on_the_locale(tmp_path):
    loader.add_sensor(tmp_path, "Gewächshaus", SensorConfig("bme280"))
    code = (
        "import sys; from pathlib import Path; from picoclaw.hw import loader; from picoclaw.config.tables import SensorConfig;"
        "loader.add_sensor(Path(sys.argv[1]), 'attic', SensorConfig('lm75'))"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_added_part_that_cannot_be_wired_loses_no_other(home, tmp_path):
    attic = "[sensors.attic]\npart = 'bme280'\naddress = 0x76\n"
    (tmp_path / "home/sensors.toml").write_text(f"[sensors.porch]\npart = 'no_such_part'\n{attic}")
    porch, other = call(home(), "sensor_read").splitlines()
    assert porch.startswith("porch: temperature not available: [sensors.porch] in sensors.toml: there is no driver")
    assert other.startswith("attic: temperature 2")


def test_a_part_of_the_owners_that_cannot_be_wired_is_said_with_its_file(home, tmp_path):
    (tmp_path / "home/config.toml").write_text("[sensors.porch]\npart = 'no_such_part'\n")
    with pytest.raises(ConfigError, match=r"config\.toml: \[sensors\.porch\]"):
        _ = home().toolset


@pytest.mark.parametrize("text", ["[sensor.porch]\npart = 'bme280'\n", "[model]\nname = 'x'\n", "porch = 1\n"])
def test_a_strange_table_among_the_added_parts_is_named(tmp_path, text):
    (tmp_path / "sensors.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"sensors\.toml"):
        config.load_config({"PICOCLAW_HOME": str(tmp_path)})


def test_a_register_of_a_part_that_was_named_is_read_without_asking_at_once(home):
    app = home()
    call(app, "sensor_add", name="porch", address="0x76")
    tool = app.toolset.find("i2c")
    assert tool.effects({"action": "read", "bus": 1, "address": 0x76, "register": 0xD0}) == ("read",)


@pytest.mark.parametrize(
    "name", ["i915 gmbus dpb", "AUX A/DDI A/PHY A", "NVIDIA i2c adapter 1 at 1:00.0", "Radeon i2c bit bus 0x90"]
)
def test_a_bus_of_a_graphics_card_is_no_pin_header(tree, name):
    (found,) = tree(adapter(1, name)).adapters()
    assert not found.header
    assert found.use


def test_a_multiplexer_on_the_pin_header_is_the_owners(tree):
    files = adapter(1, "bcm2835 (i2c@7e804000)", ARM) | adapter(11, "i2c-1-mux (chan_id 3)", f"{ARM}/mux@70/i2c@3")
    assert [a.use for a in tree(files | SYMBOLS).adapters()] == ["", ""]


def test_a_part_is_not_added_to_sensors_in_braces(tmp_path):
    text = 'sensors = { porch = { part = "lm75" } }\n'
    (tmp_path / "sensors.toml").write_text(text)
    with pytest.raises(ConfigError, match="has its sensors in braces"):
        loader.add_sensor(tmp_path, "attic", SensorConfig("lm75", address=0x49))
    assert (tmp_path / "sensors.toml").read_text() == text
