"""The SHT4x driver against Sensirion's formulas and the simulated part."""

import pytest
from part_bench import Answers, driver, mounted, one_line, sent, slept
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimSHT4x

sht4x = driver("sht4x")


@each_row(
    ("words", "celsius", "percent"),
    [
        ((0x6666, 0x8000), 25.0, 56.5),
        ((0x0751, 0), -40.0, 0.0),
        ((0xF8AE, 65_535), 125.0, 100.0),
        ((0x8000, 0x0C4A), 42.5, 0.0),
    ],
)
def test_the_formulas_of_the_datasheet(words, celsius, percent):
    """Datasheet SHT4x, section "Conversion of signal output", with its cropping to 0-100 %."""
    assert sht4x.decode(*words) == {
        "temperature": pytest.approx(celsius, abs=0.002),
        "humidity": pytest.approx(percent, abs=0.002),
    }


@each_row("raw", [0, 0x0700, 0xF900, 65_535])
def test_a_temperature_that_the_part_cannot_measure_is_refused(raw):
    with pytest.raises(ValueError, match="outside its -40 to 125"):
        sht4x.decode(raw, 30_000)


@each_row("celsius", [-39.9, -0.01, 20.5, 124.9])
@each_row("percent", [0.0, 33.3, 100.0])
def test_a_reading_agrees_with_the_scene(celsius, percent):
    part = mounted("sht4x", SimSHT4x, {"temperature": celsius, "humidity": percent})
    assert sht4x.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.002),
        "humidity": pytest.approx(percent, abs=0.002),
    }


def test_the_exact_messages_of_one_reading_hold_no_heater_command():
    part = mounted("sht4x", SimSHT4x)
    sht4x.read(part)
    assert sent(part) == [I2CWrite(b"\xfd"), I2CRead(6)]
    assert slept(part) == [0.0083]


def test_a_part_is_identified_by_its_serial_number():
    part = mounted("sht4x", SimSHT4x)
    assert sht4x.identify(part) == "SHT4x"
    assert sent(part) == [I2CWrite(b"\x89"), I2CRead(6)]


@each_row("answer", [b"\0" * 6, b"\xff" * 6, b"\x44\x00\x12\x55\x00\x99"])
def test_another_part_is_not_identified(answer):
    assert not sht4x.identify(mounted("sht4x", Answers(answer)))


@each_row(
    ("fault", "kind", "said"),
    [
        ("low", BusFault, "wrong checksum"),
        ("high", BusFault, "wrong checksum"),
        ("bits", BusFault, "wrong checksum"),
        ("nack", DeviceMissing, "does not answer"),
    ],
)
def test_faults_of_the_wiring_are_said_in_one_line(fault, kind, said):
    with pytest.raises(kind, match=said) as error:
        sht4x.read(mounted("sht4x", SimSHT4x, fault=fault))
    assert one_line(error)


def test_the_simulated_part_refuses_to_be_read_while_it_measures():
    part = mounted("sht4x", SimSHT4x)
    part.write(0xFD)
    with pytest.raises(DeviceMissing):
        part.read(6)
