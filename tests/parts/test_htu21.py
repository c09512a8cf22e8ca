"""The driver of HTU21D, SHT21 and Si7021 against published examples and the simulated parts."""

import pytest
from part_bench import Answers, driver, mounted, one_line, sent, slept
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimHTU21D, SimSi7021, compute_checksum

htu21 = driver("htu21")


@each_row(("data", "expected"), [(b"\xdc", 0x79), (b"\x68\x3a", 0x7C), (b"\x4e\x85", 0x6B)])
def test_the_checksums_of_the_datasheet(data, expected):
    """HTU21D(F), section "CRC checksum": its three examples."""
    assert compute_checksum(data, 0) == expected


def test_the_datasheets_examples_of_conversion():
    """SHT21, figure 15: 0x6352 is 42.5 %. HTU21D(F), sections on conversion: 0x7C80 is 54.8 %, 0x683A is 24.7 °C."""
    assert htu21.decode(0x683A, 0x6352)["humidity"] == pytest.approx(42.5, abs=0.05)
    assert htu21.decode(0x683A, 0x7C80) == {
        "temperature": pytest.approx(24.7, abs=0.05),
        "humidity": pytest.approx(54.8, abs=0.05),
    }


def test_the_two_status_bits_are_no_part_of_the_value():
    assert htu21.decode(0x683B, 0x7C83) == htu21.decode(0x6838, 0x7C80)


@each_row("celsius", [-39.9, 0.0, 20.5, 124.9])
@each_row("percent", [0.0, 33.3, 100.0])
def test_a_reading_agrees_with_the_scene(celsius, percent):
    part = mounted("htu21", SimHTU21D, {"temperature": celsius, "humidity": percent})
    assert htu21.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.011),
        "humidity": pytest.approx(percent, abs=0.008),
    }
    assert not part.doubts()


def test_the_exact_messages_of_one_reading():
    part = mounted("htu21", SimHTU21D)
    htu21.read(part)
    assert sent(part) == [I2CWrite(b"\xf3"), I2CRead(3), I2CWrite(b"\xf5"), I2CRead(3), I2CWrite(b"\xe7"), I2CRead(1)]
    assert slept(part) == [0.085, 0.029]


@each_row(("make", "name"), [(SimHTU21D, "HTU21D"), (SimSi7021, "Si7021")])
def test_the_parts_are_told_apart_by_their_serial_number(make, name):
    part = mounted("htu21", make)
    assert htu21.identify(part) == name
    assert sent(part) == [I2CWrite(b"\xfc\xc9"), I2CRead(6)]


@each_row("answer", [b"\0" * 6, b"\xff" * 6, b"\x39\x9f\x00\x00\x00\x00"])
def test_another_part_is_not_identified(answer):
    assert not htu21.identify(mounted("htu21", Answers(answer)))


def test_heater_and_resolution_are_left_as_they_are():
    part = mounted("htu21", SimHTU21D)
    part.write(0xE6, 0x87)
    htu21.read(part)
    assert part.doubts() == "the part's own heater is on"
    assert part.registers(0xE7, 1) == b"\x87"


@each_row(
    ("fault", "kind", "said"),
    [
        ("low", BusFault, "zeros only"),
        ("high", BusFault, "wrong checksum"),
        ("bits", BusFault, "wrong checksum"),
        ("nack", DeviceMissing, "does not answer"),
    ],
)
def test_faults_of_the_wiring_are_said_in_one_line(fault, kind, said):
    with pytest.raises(kind, match=said) as error:
        htu21.read(mounted("htu21", SimHTU21D, fault=fault))
    assert one_line(error)


@each_row("raw", [0x0000, 0x0100, 0xFFFC])
def test_a_temperature_that_the_part_cannot_measure_is_refused(raw):
    with pytest.raises(ValueError, match="outside its -40 to 125"):
        htu21.decode(raw, 0x7C80)


def test_the_simulated_part_refuses_to_be_read_while_it_measures():
    part = mounted("htu21", SimHTU21D)
    part.write(0xF3)
    with pytest.raises(DeviceMissing):
        part.read(3)
    part.sleep(0.05)
    assert len(part.read(3)) == 3


def test_the_simulated_part_answers_both_halves_of_its_serial_number():
    part = mounted("htu21", SimHTU21D)
    part.write(0xFA, 0x0F)
    first = part.read(8)
    assert all(compute_checksum(first[i : i + 1], 0) == first[i + 1] for i in range(0, 8, 2))
    part.write(0xFC, 0xC9)
    second = part.read(6)
    assert all(compute_checksum(second[i : i + 2], 0) == second[i + 2] for i in (0, 3))
