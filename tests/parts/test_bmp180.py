"""The BMP180 driver against Bosch's worked example and the simulated part."""

import struct

import pytest
from part_bench import driver, mounted, one_line, sent, slept
from rows import each_row

from picoclaw.errors import DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimBMP180

bmp180 = driver("bmp180")
EXAMPLE = bmp180.Calibration(408, -72, -14383, 32741, 32757, 23153, 6190, 4, -32768, -8711, 2868)
PACKED = struct.pack(">hhhHHHhhhhh", *EXAMPLE)


def test_boschs_worked_example():
    """BST-BMP180-DS000, section 3.5, figure 4: UT = 27898, UP = 23843, oss = 0 are 15.0 °C and 69964 Pa."""
    assert bmp180.decode(27898, 23843, EXAMPLE, 0) == {"temperature": 15.0, "pressure": 699.64}


def test_calibration_is_taken_apart_with_its_signs():
    assert bmp180.parse_calibration(PACKED) == EXAMPLE


@each_row("place", range(0, 22, 2))
@each_row("value", [b"\0\0", b"\xff\xff"])
def test_a_calibration_value_of_zeros_or_ones_is_refused(place, value):
    with pytest.raises(ValueError, match="calibration value"):
        bmp180.parse_calibration(PACKED[:place] + value + PACKED[place + 2 :])


@each_row(
    ("raw", "said"),
    [
        ((0, 300_000), "does not fit"),
        ((65_535, 300_000), "outside"),
        ((27_898, 0), "outside"),
        ((27_898, 2**19), "outside"),
    ],
)
def test_what_the_part_cannot_measure_is_refused(raw, said):
    with pytest.raises(ValueError, match=said):
        bmp180.decode(*raw, EXAMPLE)


def test_calibration_that_would_divide_by_zero_is_refused():
    with pytest.raises(ValueError, match="outside"):
        bmp180.decode(27_898, 300_000, EXAMPLE._replace(ac4=0))


@each_row("celsius", [-39.0, -5.0, 0.0, 21.7, 60.0, 84.0])
@each_row("hectopascal", [310.0, 699.64, 1013.25, 1090.0])
def test_a_reading_agrees_with_the_scene(celsius, hectopascal):
    part = mounted("bmp180", SimBMP180, {"temperature": celsius, "pressure": hectopascal})
    assert bmp180.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.11),
        "pressure": pytest.approx(hectopascal, abs=0.2),
    }


def test_the_exact_messages_of_one_reading():
    part = mounted("bmp180", SimBMP180)
    bmp180.read(part)
    assert sent(part) == [
        *(I2CWrite(b"\xd0"), I2CRead(1)),
        *(I2CWrite(b"\xaa"), I2CRead(22)),
        *(I2CWrite(b"\xf4"), I2CRead(1)),
        I2CWrite(b"\xf4\x2e"),
        *(I2CWrite(b"\xf4"), I2CRead(1)),
        *(I2CWrite(b"\xf6"), I2CRead(2)),
        I2CWrite(b"\xf4\xf4"),
        *(I2CWrite(b"\xf4"), I2CRead(1)),
        *(I2CWrite(b"\xf6"), I2CRead(3)),
    ]
    assert slept(part) == [0.0045, 0.0255]


def test_a_part_that_somebody_else_makes_measure_is_left_alone():
    part = mounted("bmp180", SimBMP180)
    part.write(0xF4, 0xF4)
    sent(part)
    with pytest.raises(ValueError, match="another program"):
        bmp180.read(part)
    assert all(len(segment.data) == 1 for segment in sent(part) if isinstance(segment, I2CWrite))


def test_a_measurement_that_never_ends_is_given_up():
    class Stuck(SimBMP180):
        def catch_up(self):
            pass

    part = mounted("bmp180", Stuck)
    with pytest.raises(ValueError, match="did not finish"):
        bmp180.read(part)
    assert sum(slept(part)) < 1


@each_row(
    ("fault", "kind", "said"),
    [("low", ValueError, "0xD0"), ("high", ValueError, "0xD0"), ("nack", DeviceMissing, "does not answer")],
)
def test_faults_of_the_wiring_are_said_in_one_line_before_anything_is_written(fault, kind, said):
    part = mounted("bmp180", SimBMP180, fault=fault)
    with pytest.raises(kind, match=said) as error:
        bmp180.read(part)
    assert one_line(error)
    assert all(len(segment.data) == 1 for segment in sent(part) if isinstance(segment, I2CWrite))


def test_a_part_is_identified():
    assert bmp180.identify(mounted("bmp180", SimBMP180)) == "BMP180"
    assert not bmp180.identify(mounted("bmp180", SimBMP180, fault="low"))


@each_row("oversampling", [0, 1, 2, 3])
def test_the_simulated_part_takes_as_long_as_the_datasheet_says_and_keeps_the_old_result(oversampling):
    part = mounted("bmp180", SimBMP180)
    assert part.registers(0xF6, 3) == b"\x80\0\0"
    part.write(0xF4, 0x34 | oversampling << 6)
    part.sleep(0.004)
    assert part.registers(0xF4, 1)[0] & 0x20
    assert part.registers(0xF6, 3) == b"\x80\0\0"
    part.sleep(0.022)
    assert not part.registers(0xF4, 1)[0] & 0x20
    up = int.from_bytes(part.registers(0xF6, 3), "big") >> 8 - oversampling
    part.write(0xF4, 0x2E)
    part.sleep(0.005)
    ut = int.from_bytes(part.registers(0xF6, 2), "big")
    assert bmp180.decode(ut, up, EXAMPLE, oversampling)["pressure"] == pytest.approx(1013.25, abs=0.3)
