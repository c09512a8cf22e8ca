"""PCF8574: levels, driving one pin and no other, and the simulated part."""

from types import SimpleNamespace

import pytest
from part_bench import Stuck, driver, messages, simulated
from rows import each_row

from picoclaw.files import find_shipped
from picoclaw.hw import detect
from picoclaw.hw.sim import SimI2C
from picoclaw.hw.sim.parts.others import SimPCF8574

pcf8574 = driver("pcf8574")


def test_decoding():
    assert pcf8574.decode(0b10000010) == {f"level p{n}": float(n in {1, 7}) for n in range(8)}


def test_the_addresses_of_both_parts():
    assert list(pcf8574.ADDRESSES) == [*range(0x20, 0x28), *range(0x38, 0x40)]


@each_row("low", [(), (0,), (7,), (1, 2, 3)])
def test_readings_agree_with_the_scene(low):
    handle, _, _ = simulated("pcf8574", SimPCF8574, {f"level p{n}": 0 for n in low})
    assert pcf8574.read(handle) == {f"level p{n}": float(n not in low) for n in range(8)}
    assert messages(handle) == ["r 1"]


@each_row("byte", [0x00, 0xFF])
def test_any_byte_is_a_reading(byte):
    part = Stuck(byte)
    handle, _, _ = simulated("pcf8574", lambda _: part)
    assert set(pcf8574.read(handle).values()) == {float(byte == 0xFF)}
    assert part.written == []


@each_row("channel", range(8))
@each_row("before", [0x00, 0xFF, 0x5A])
@each_row("level", [0, 1, 0.0, 1.0])
def test_driving_a_pin_keeps_the_others(channel, before, level):
    handle, part, _ = simulated("pcf8574", SimPCF8574)
    part.outputs = before
    pcf8574.drive(handle, channel, level)
    bit = 1 << channel
    assert part.outputs == (before & ~bit | (bit if level else 0))
    assert messages(handle) == ["r 1", f"w {part.outputs:02x}"]
    assert pcf8574.level(handle, channel) == level


def test_the_read_back_shows_the_pin_and_not_the_wish():
    handle, _, _ = simulated("pcf8574", SimPCF8574, {"level p4": 0})
    pcf8574.drive(handle, 4, 1)
    assert pcf8574.level(handle, 4) == 0


def test_inputs_stay_high_while_something_outside_holds_them_low():
    handle, part, _ = simulated("pcf8574", SimPCF8574, {"level p0": 0, "level p5": 0}, inputs=0b100001)
    pcf8574.drive(handle, 2, 0)
    assert part.outputs == 0b11111011
    part._scene.values.clear()
    assert pcf8574.read(handle)["level p0"] == 1


def test_without_the_option_a_pin_that_is_held_low_is_taken_for_an_output():
    handle, part, _ = simulated("pcf8574", SimPCF8574, {"level p0": 0})
    pcf8574.drive(handle, 2, 0)
    assert part.outputs == 0b11111010


@each_row(
    ("channel", "level", "said"),
    [
        (8, 1, "channel 8 does not exist"),
        (-1, 1, "channel -1 does not exist"),
        (0, 0.5, "level 0.5 of channel 0 is not possible"),
        (0, 2, "level 2 of channel 0 is not possible"),
        (0, float("nan"), "level nan of channel 0 is not possible"),
        (5, 1, "channel 5 is an input"),
    ],
)
def test_what_cannot_be_driven_is_refused_before_anything_is_sent(channel, level, said):
    handle, part, _ = simulated("pcf8574", SimPCF8574, inputs=0b100000)
    with pytest.raises(ValueError, match=said):
        pcf8574.drive(handle, channel, level)
    assert (messages(handle), part.outputs) == ([], 0xFF)


@each_row("channel", [-1, 8])
def test_a_channel_that_does_not_exist_has_no_level(channel):
    handle, _, _ = simulated("pcf8574", SimPCF8574)
    with pytest.raises(ValueError, match="does not exist: a PCF8574 has 0 to 7"):
        pcf8574.level(handle, channel)


@pytest.mark.parametrize("address", [0x20, 0x27, 0x38, 0x3F])
def test_a_part_that_nobody_has_named_is_not_asked_who_it_is(tmp_path, address):
    """A part with registers that shares its addresses would be asked by a byte, which is an output here."""
    curious = f"ADDRESSES = ({address},)\nread = dict\ndef identify(part):\n    return part.registers(0, 1).hex()\n"
    (tmp_path / "curious.py").write_text(curious)
    bus = SimI2C(1, {address: Stuck(0xFF)})
    board = SimpleNamespace(i2c=lambda number: bus)
    found = detect.identify_part(board, 1, address, [tmp_path, find_shipped("tools/hw")])
    assert {"curious", "pcf8574"} <= set(found.possible)
    assert (found.identified, list(bus.log)) == ({}, [])
