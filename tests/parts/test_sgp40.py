"""The SGP40 driver against the simulated part."""

import pytest
from part_bench import Answers, driver, mounted, one_line, sent, slept
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimSGP40, append_checksums

sgp40 = driver("sgp40")
MEASURE, OFF = I2CWrite(bytes.fromhex("260f 8000a2 666693")), I2CWrite(b"\x36\x15")


def test_the_datasheets_default_words():
    """Datasheet SGP40, version 1.0, table 10: 50 % is 0x8000 0xA2, 25 °C is 0x6666 0x93."""
    assert append_checksums(sgp40.UNCOMPENSATED) == bytes.fromhex("8000a2 666693")


@each_row("ticks", [1, 20_001, 30_000, 52_767, 65_534])
def test_a_reading_agrees_with_the_scene(ticks):
    assert sgp40.read(mounted("sgp40", SimSGP40, {"raw": ticks})) == {"raw": ticks}


@each_row("ticks", [0, 65_535])
def test_an_end_of_the_scale_is_no_reading(ticks):
    with pytest.raises(ValueError, match="an end of its scale"):
        sgp40.decode(ticks)


def test_the_exact_messages_of_one_reading():
    part = mounted("sgp40", SimSGP40)
    sgp40.read(part)
    assert sent(part) == [MEASURE, I2CRead(3), MEASURE, I2CRead(3), OFF]
    assert slept(part) == [0.030, 0.170, 0.030, 0.001]
    assert not part.bus.parts[0x59].hot


@each_row("fault", ["low", "high", "bits"])
def test_the_heater_is_off_after_a_wrong_checksum(fault):
    part = mounted("sgp40", SimSGP40, fault=fault)
    with pytest.raises(BusFault, match="wrong checksum") as error:
        sgp40.read(part)
    assert one_line(error)
    assert sent(part)[-1] == OFF
    assert not part.bus.parts[0x59].hot


def test_nothing_at_the_address():
    with pytest.raises(DeviceMissing, match="does not answer"):
        sgp40.read(mounted("sgp40", SimSGP40, fault="nack"))


def test_a_part_is_identified_by_its_serial_number():
    part = mounted("sgp40", SimSGP40)
    assert sgp40.identify(part) == "SGP40"
    assert sent(part) == [I2CWrite(b"\x36\x82"), I2CRead(9)]
    assert not sgp40.identify(mounted("sgp40", Answers(b"\xff" * 9)))


def test_the_simulated_part_refuses_arguments_with_a_wrong_checksum_and_needs_to_be_heated():
    part = mounted("sgp40", SimSGP40, {"raw": 30_000})
    with pytest.raises(DeviceMissing):
        part.write(0x26, 0x0F, 0x80, 0x00, 0x00, 0x66, 0x66, 0x93)
    part.write(*MEASURE.data)
    with pytest.raises(DeviceMissing):
        part.read(3)
    part.sleep(0.030)
    assert part.read(3) == append_checksums([38_000])
