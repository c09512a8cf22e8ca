"""LM75 and LM75B: the makers' tables, the simulated parts, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.temperature import SimLM75, SimLM75B

lm75 = driver("lm75")

# SNIS153, table of the temperature register, 9 bits; NXP LM75B, table Temp register value, 11 bits.
NINE = [(0x0FA, 125), (0x032, 25), (0x001, 0.5), (0x000, 0), (0x1FF, -0.5), (0x1CE, -25), (0x192, -55)]
ELEVEN = [(0x3F8, 127), (0x3F7, 126.875), (0x3F1, 126.125), (0x3E8, 125), (0x0C8, 25), (0x001, 0.125), (0x000, 0)]
ELEVEN += [(0x7FF, -0.125), (0x738, -25), (0x649, -54.875), (0x648, -55)]


@each_row(("word", "celsius"), [(c << 7, t) for c, t in NINE] + [(c << 5, t) for c, t in ELEVEN])
def test_the_datasheets_tables(word, celsius):
    assert lm75.decode(word) == celsius
    assert lm75.decode(word | 0x1F) == celsius


@each_row("word", [0x8000, 0xC8E0])
def test_a_temperature_that_the_part_cannot_give(word):
    with pytest.raises(ValueError, match=r"°C, outside its -55 to 127\.875"):
        lm75.decode(word)


@each_row(("kind", "step"), [(SimLM75, 0.5), (SimLM75B, 0.125)])
@each_row("celsius", [-55, -0.2, 0.4, 21.3, 125])
def test_readings_agree_with_the_scene(kind, step, celsius):
    handle, _, clock = simulated("lm75", kind, {"temperature": celsius})
    assert lm75.read(handle)["temperature"] == pytest.approx(celsius, abs=step / 2)
    assert not clock.slept


def test_the_messages_of_one_read():
    handle, _, _ = simulated("lm75", SimLM75)
    lm75.read(handle)
    assert messages(handle) == ["w 01", "r 1", "w 00", "r 2"]


def test_zero_degrees_is_believed_when_the_limits_are_not_zero():
    handle, _, _ = simulated("lm75", SimLM75, {"temperature": 0})
    assert lm75.read(handle) == {"temperature": 0}
    assert messages(handle)[4:] == ["w 02", "r 2"]


def test_a_part_that_was_shut_down_is_woken_and_shut_down_again():
    handle, _, clock = simulated("lm75", SimLM75, {"temperature": lambda now: now - 1_780_000_000})
    handle.write(1, 0x1B)
    handle.bus.log.clear()
    clock.sleep(40)
    assert lm75.read(handle)["temperature"] == pytest.approx(40, abs=0.5)
    assert messages(handle) == ["w 01", "r 1", "w 011a", "w 00", "r 2", "w 011b"]
    assert clock.slept[1:] == [0.3]
    assert handle.registers(1, 1) == b"\x1b"


def test_it_is_shut_down_again_even_when_the_reading_fails():
    part = Fixed({1: b"\x01", 0: b"\x80\x00"})
    refused("lm75", part, "outside its -55")
    assert part.written == [b"\x01\x00", b"\x01\x01"]


def test_the_simulated_part_is_what_linux_looks_for():
    """The detection of the kernel's lm75 driver: unused registers repeat, addresses cycle every eight."""
    handle, _, _ = simulated("lm75", SimLM75)
    for register in (2, 3):
        limit = handle.registers(register, 1)
        assert [handle.registers(unused, 1) for unused in (4, 5, 6, 7)] == [limit] * 4
        assert handle.registers(register + 48, 1) == limit
    assert handle.registers(1, 1)[0] & 0xE0 == 0
