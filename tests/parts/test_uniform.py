"""Every driver, every single answer of a reading replaced by zeros or ones only: it is never shown as a measurement.

Such a reading is refused, or doubtful, or the same as without the replacement, or in the table of what is legal.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest
from any_bench import bound
from part_bench import Stuck, driver, refused, unanswered
from rows import each_row

from picoclaw.errors import HardwareError
from picoclaw.files import find_shipped
from picoclaw.hw.board import I2CWrite
from picoclaw.hw.loader import list_drivers
from picoclaw.hw.sim.parts import PARTS


class State(NamedTuple):
    """A part's state before the reading: the scene, what was written to it (hex) a while ago, options."""

    name: str
    values: Mapping[str, float] = MappingProxyType({})
    written: str = ""
    options: Mapping[str, float] = MappingProxyType({})


STATES = [
    *map(State, PARTS),
    State("aht20", options={"crc": 0}),
    State("bh1750", {"light": 5}),
    State("bh1750", {"light": 24_000}),
    State("bh1750", {"light": 60_000}),
    State("bme280", written="f201f427"),  # measures continuously
    State("bme680", options={"heater_celsius": 0}),
    State("ina219", written="00399b"),  # triggered
    State("ina226", written="004123"),
    State("lm75", written="0101"),  # shut down
    State("lm75", {"temperature": 0}),
    State("max31865", written="80c1"),  # converts continuously
    State("mcp9808", written="010100"),  # shut down
    State("mpu6050", written="6b00"),  # awake
    State("pca9685", written="0908"),  # c0 at a half
    State("pca9685", written="002104e2e4e8e000000008"),  # c0 at a half, awake, with auto-increment
    State("pcf8574", {"level p3": 0}),
    State("scd4x", written="21b1"),  # measures continuously
    State("sht3x", written="2126"),
    State("tmp102", written="0161a0"),  # shut down
    State("veml7700", {"light": 0.05}),
    State("veml7700", {"light": 100_000}),
    State("veml7700", written="000000"),  # measures continuously
]

# Driver, what was sent before the answer (hex), the answer's byte, why such an answer can be true.
LEGAL = [
    ("bh1750", "2[01]", 0x00, "0 lx: it is dark, and it is said what it could be besides"),
    ("ads1115", "00", 0x00, "0 V; the configuration before and after it was checked"),
    ("ads1115", "00", 0xFF, "one step below 0 V, which an offset of a grounded input gives"),
    ("ina219", "01", 0x00, "no current"),
    ("ina219", "01", 0xFF, "one step of current the other way, within the part's offset"),
    ("ina226", "01", 0x00, "no current"),
    ("ina226", "01", 0xFF, "one step of current the other way, within the part's offset"),
    ("ina226", "02", 0x00, "0 V; the identification was checked"),
    ("lm75", "00", 0x00, "0 °C; its alarm limits are read then, and are not zero"),
    ("mcp3008", "01[89a-f]0000000", 0x00, "0 V at one input; at all of them it is doubtful"),
    ("pca9685", "00", 0x00, "MODE1 of a part that is awake; PRE_SCALE is checked"),
    ("pca9685", "06", 0x00, "all outputs at a duty of 0"),
    ("pca9685", "[0-4][02468ace]", 0xFF, "the lower eight bits of a count; without auto-increment, one by one"),
    ("pca9685", "[0-4][13579bdf]", 0x00, "the upper bits of a count, likewise"),
    ("pcf8574", "", 0x00, "all pins low"),
    ("pcf8574", "", 0xFF, "all pins high"),
    ("tmp102", "00", 0x00, "0 °C; the configuration before it was checked"),
    ("veml7700", "04", 0x00, "darker than one count; the configuration before it was checked"),
]


class Spoiled:
    """A bus, port or kernel that hands on what it is asked, but for one answer, which is nothing but one byte."""

    def __init__(self, inner, position=-1, byte=0):
        self.inner = inner
        self.position = position
        self.byte = byte
        self.before = []  # what was sent before each answer
        self._sent = ""

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def transfer(self, where, what):
        for segment in where if isinstance(where, list) else what:
            self._sent = getattr(segment, "data", b"").hex() or self._sent
        return [self._answer(answer) for answer in self.inner.transfer(where, what)]

    def read(self, most, seconds):
        received = self.inner.read(most, seconds)
        return self._answer(received) if received else received

    def text(self, path):
        text = self.inner.text(path)
        spoiled = self._answer(bytes.fromhex(text[:27]))
        return re.sub(text[:26], spoiled.hex(" "), text)

    def _answer(self, answer):
        self.before.append(self._sent)
        return bytes([self.byte]) * len(answer) if len(self.before) == self.position + 1 else answer


def handle_of(state, position=-1, byte=0):
    """The handle of a part in a state, and what stands between the two."""
    handle = bound(state.name, state.values, state.options)
    if state.written:
        data = bytes.fromhex(state.written)
        handle.exchange(*data) if hasattr(handle, "exchange") else handle.bus.transfer(handle.address, [I2CWrite(data)])
        handle.sleep(7)
    inner = next(name for name in ("bus", "device", "port", "_board") if hasattr(handle, name))
    between = Spoiled(getattr(handle, inner), position, byte)
    setattr(handle, inner, between)
    return handle, between


def same(values, usual):
    """Whether what is shown as a measurement is what it would have been; a clock may have gone on."""
    shown = {key: value for key, value in values.items() if not isinstance(value, ValueError)}
    clock = shown.pop("time", usual.get("time", 0)) - usual.get("time", 0)
    return abs(clock) < 10 and shown == pytest.approx({key: usual[key] for key in shown}, rel=0.01, abs=1e-3)


def accepted(state, byte):
    """Each answer that may be replaced by such bytes and still gives another measurement, by what was sent before."""
    handle, between = handle_of(state)
    usual, doubts = driver(state.name).read(handle), handle.doubts()
    assert between.before
    found = {}
    for position, before in enumerate(between.before):
        handle, _ = handle_of(state, position, byte)
        try:
            values = driver(state.name).read(handle)
        except (ValueError, HardwareError) as error:
            assert re.fullmatch(r"[^\n]{31,250}", str(error))  # noqa: PT017 - either outcome is right
            continue
        said = handle.doubts()
        if said == doubts and same(values, usual):
            continue
        if not said or said == doubts:
            found[before] = values
    return found


def test_every_driver_is_looked_at():
    assert set(PARTS) == set(list_drivers([find_shipped("tools/hw")]))


@each_row("byte", [0x00, 0xFF])
@each_row("state", STATES, ids=lambda state: f"{state.name}-{state.written}{dict(state.values) or ''}")
def test_no_answer_of_one_byte_only_becomes_a_measurement(state, byte):
    legal = [sent for name, sent, legal_byte, _ in LEGAL if (name, legal_byte) == (state.name, byte)]
    found = accepted(state, byte)
    assert not {before: found[before] for before in found if not any(re.fullmatch(sent, before) for sent in legal)}


@each_row("entry", LEGAL, ids=lambda entry: f"{entry[0]}-{entry[1]}-{entry[2]:02x}")
def test_the_table_holds_nothing_that_is_not_needed(entry):
    name, sent, byte, why = entry
    assert why
    found = [before for state in STATES if state.name == name for before in accepted(state, byte)]
    assert any(re.fullmatch(sent, before) for before in found)


@each_row("name", [name for name in list_drivers([find_shipped("tools/hw")]) if hasattr(driver(name), "ADDRESSES")])
def test_a_part_that_does_not_acknowledge_is_missing(name):
    unanswered(name)


@each_row(
    ("name", "said", "asked", "others"),
    [
        ("ads1115", "not an ADS1115", {b"\x01"}, ()),
        ("ds3231", "hold no time", {b"\0"}, ()),
        ("ina219", "not an INA219", {b"\0"}, ()),
        ("ina226", "not those of an INA226", {b"\xfe", b"\xff"}, ()),
        ("lm75", "only", None, ()),
        ("mcp9808", "not those of an MCP9808", {b"\x06"}, ()),
        ("mpu6050", "not that of an MPU-6050", {b"\x75"}, (0x70, 0x71)),
        ("tmp102", "not a TMP102", {b"\x01"}, ()),
    ],
)
def test_a_held_data_line_is_no_part_and_nothing_is_set_there(name, said, asked, others):
    """`others` are what further parts at the address would answer."""
    for byte in (0x00, 0xFF, *others):
        part = Stuck(byte)
        refused(name, part, f"0x{byte:02X} only" if name == "lm75" else said)
        assert asked is None or set(part.written) == asked
        assert all(len(data) == 1 for data in part.written)
