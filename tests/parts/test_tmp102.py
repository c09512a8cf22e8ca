"""TMP102: Texas Instruments' tables, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.temperature import SimTMP102

tmp102 = driver("tmp102")

# SBOS397, tables 12-Bit and 13-Bit Temperature Data Format.
NORMAL = [(0x7FF, 127.9375), (0x640, 100), (0x500, 80), (0x4B0, 75), (0x320, 50), (0x190, 25), (0x004, 0.25)]
NORMAL += [(0x000, 0), (0xFFC, -0.25), (0xE70, -25), (0xC90, -55)]
EXTENDED = [(0x0960, 150), (0x0800, 128), (0x07FF, 127.9375), (0x0640, 100), (0x0190, 25), (0x0004, 0.25)]
EXTENDED += [(0x0000, 0), (0x1FFC, -0.25), (0x1E70, -25), (0x1C90, -55)]


@each_row(("code", "celsius"), NORMAL)
def test_the_datasheets_12_bit_table(code, celsius):
    assert tmp102.decode(code << 4) == celsius


@each_row(("code", "celsius"), EXTENDED)
def test_the_datasheets_13_bit_table(code, celsius):
    assert tmp102.decode(code << 3 | 1) == celsius


@each_row("word", [0x8000, 0xC8F0, 0x4B11 | 8])
def test_a_temperature_that_the_part_cannot_give(word):
    with pytest.raises(ValueError, match="°C, outside its -55 to 150"):
        tmp102.decode(word)


@each_row("celsius", [-55, -40.03, -0.06, 0, 0.04, 21.3, 99.99, 127.9])
def test_readings_agree_with_the_scene(celsius):
    handle, _, clock = simulated("tmp102", SimTMP102, {"temperature": celsius})
    assert tmp102.read(handle)["temperature"] == pytest.approx(celsius, abs=1 / 32)
    assert messages(handle) == ["w 01", "r 2", "w 00", "r 2"]
    assert not clock.slept


@each_row("celsius", [-55, 21.3, 128.5, 150])
def test_extended_mode(celsius):
    handle, _, clock = simulated("tmp102", SimTMP102, {"temperature": celsius})
    handle.write(1, 0x60, 0xB0)
    clock.sleep(0.026)
    assert tmp102.read(handle)["temperature"] == pytest.approx(celsius, abs=1 / 32)


def test_a_part_that_was_shut_down_measures_once_and_stays_so():
    handle, _, clock = simulated("tmp102", SimTMP102, {"temperature": lambda now: now - 1_780_000_000})
    handle.write(1, 0x61, 0xA0)
    handle.bus.log.clear()
    clock.sleep(40)
    assert tmp102.read(handle)["temperature"] == pytest.approx(40, abs=0.1)
    assert messages(handle) == ["w 01", "r 2", "w 01e1a0", "w 01", "r 2", "w 00", "r 2"]
    assert clock.slept[1:] == [0.035]
    assert handle.registers(1, 2) == bytes.fromhex("e1a0")
    clock.sleep(5)
    assert tmp102.decode(int.from_bytes(handle.registers(0, 2), "big")) == pytest.approx(40, abs=0.1)


def test_a_one_shot_that_never_ends():
    refused("tmp102", Fixed({1: b"\x61\xa0"}), "did not finish")


def test_the_simulated_alert_and_what_can_be_written():
    handle, _, clock = simulated("tmp102", SimTMP102, {"temperature": 85})
    assert handle.registers(1, 2) == bytes.fromhex("6080")  # AL is 0: above 80 °C, active low
    handle.write(1, 0x02, 0x90)  # what Linux writes: interrupt mode, extended, 4 Hz
    clock.sleep(0.3)
    assert handle.registers(1, 2) == bytes.fromhex("62b0")  # 0x5000 is 160 °C now
    assert handle.registers(3, 2) == bytes.fromhex("5000")
    handle.write(3, 0x7F, 0xFF)
    assert handle.registers(3, 2) == bytes.fromhex("7ff8")
