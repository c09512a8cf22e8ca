"""MCP9808: Microchip's example, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.temperature import SimMCP9808

mcp9808 = driver("mcp9808")


@each_row(
    ("word", "celsius"),
    # DS25095A, section 5.1.3: upper byte * 16 + lower byte / 16, less 256 when the sign is set; flags are left out.
    [(0xC194, 25.25), (0x0194, 25.25), (0x07D0, 125), (0x0000, 0), (0x1FFF, -0.0625), (0x3D80, -40), (0x0001, 0.0625)],
)
def test_the_datasheets_arithmetic(word, celsius):
    assert mcp9808.decode(word) == celsius


@each_row("word", [0x07D1, 0x1D7F, 0x1000])
def test_a_temperature_that_the_part_cannot_give(word):
    with pytest.raises(ValueError, match="°C, outside its -40 to 125"):
        mcp9808.decode(word)


@each_row("celsius", [-40, -0.02, 0, 0.04, 21.3, 25.25, 125])
def test_readings_agree_with_the_scene(celsius):
    handle, _, clock = simulated("mcp9808", SimMCP9808, {"temperature": celsius})
    assert mcp9808.read(handle)["temperature"] == pytest.approx(celsius, abs=1 / 32)
    assert not clock.slept
    assert messages(handle) == [text for r in ("06", "07", "01", "05") for text in (f"w {r}", "r 2")]


def test_the_simulated_flags_are_those_of_the_datasheets_timing_diagram():
    handle, _, _ = simulated("mcp9808", SimMCP9808, {"temperature": 25.25})
    assert handle.registers(5, 2) == b"\xc1\x94"


def test_a_part_that_was_shut_down_is_woken_and_shut_down_again():
    handle, _, clock = simulated("mcp9808", SimMCP9808, {"temperature": lambda now: now - 1_780_000_000})
    handle.write(1, 0x03, 0x09)
    handle.bus.log.clear()
    clock.sleep(40)
    assert mcp9808.read(handle)["temperature"] == pytest.approx(40, abs=0.5)
    assert messages(handle)[4:] == ["w 01", "r 2", "w 010209", "w 05", "r 2", "w 010309"]
    assert clock.slept[1:] == [0.3]
    assert handle.registers(1, 2) == b"\x03\x09"


@each_row("lock", [0x40, 0x80])
def test_a_part_that_could_not_be_shut_down_again_is_left_asleep(lock):
    handle, _, _ = simulated("mcp9808", SimMCP9808)
    handle.write(1, 0x01, lock)
    with pytest.raises(ValueError, match="would stay awake"):
        mcp9808.read(handle)
    assert handle.registers(1, 2) == bytes([1, lock])
    handle.write(1, 0x00, 0x00)  # the simulated part wakes, and keeps its lock
    handle.write(1, 0x01, lock)
    assert handle.registers(1, 2) == bytes([0, lock])


@each_row(
    "registers",
    [{6: b"\x00\x54", 7: b"\x02\x01"}, {6: b"\x00\x55", 7: b"\x04\x00"}, {6: b"\x54\x00", 7: b"\x04\x00"}],
)
def test_another_part(registers):
    part = Fixed(registers)
    refused("mcp9808", part, "not those of an MCP9808")
    assert not part.written
