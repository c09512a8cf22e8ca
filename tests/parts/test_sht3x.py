"""The SHT3x driver against Sensirion's formulas and the simulated part."""

import pytest
from part_bench import driver, mounted, one_line, refusing, sent, slept
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts.climate import SimSHT3x, compute_checksum

sht3x = driver("sht3x")
STATUS, FETCH = (I2CWrite(b"\xf3\x2d"), I2CRead(3)), (I2CWrite(b"\xe0\x00"), I2CRead(6))


def test_the_checksum_of_the_datasheet():
    """Datasheet SHT3x-DIS, section 4.12: CRC(0xBEEF) = 0x92."""
    assert compute_checksum(b"\xbe\xef") == 0x92


@each_row(
    ("words", "celsius", "percent"),
    [((0x6666, 0x8000), 25.0, 50.0), ((0x0751, 0), -40.0, 0.0), ((0xF8AE, 65_535), 125.0, 100.0)],
)
def test_the_formulas_of_section_4_13(words, celsius, percent):
    assert sht3x.decode(*words) == {
        "temperature": pytest.approx(celsius, abs=0.002),
        "humidity": pytest.approx(percent, abs=0.001),
    }


@each_row("raw", [0, 0x0700, 0xF900, 65_535])
def test_a_temperature_that_the_part_cannot_measure_is_refused(raw):
    with pytest.raises(ValueError, match="outside its -40 to 125"):
        sht3x.decode(raw, 30_000)


@each_row("celsius", [-39.9, -0.01, 0.0, 20.5, 99.9, 124.9])
@each_row("percent", [0.0, 33.3, 100.0])
def test_a_reading_agrees_with_the_scene(celsius, percent):
    part = mounted("sht3x", SimSHT3x, {"temperature": celsius, "humidity": percent})
    assert sht3x.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.002),
        "humidity": pytest.approx(percent, abs=0.001),
    }
    assert not part.doubts()


def test_the_exact_messages_of_one_reading():
    part = mounted("sht3x", SimSHT3x)
    sht3x.read(part)
    assert sent(part) == [*STATUS, *FETCH, I2CWrite(b"\x24\x00"), I2CRead(6)]
    assert slept(part) == [0.0155]


@each_row(("command", "period"), [(b"\x20\x32", 2.0), (b"\x21\x26", 1.0), (b"\x23\x29", 0.25), (b"\x27\x37", 0.1)])
def test_a_part_that_measures_continuously_is_only_read(command, period):
    part = mounted("sht3x", SimSHT3x, {"temperature": 30.0})
    part.write(*command)
    part.sleep(period * 1.01)
    sent(part)
    assert sht3x.read(part)["temperature"] == pytest.approx(30, abs=0.01)
    assert sent(part) == [*STATUS, *FETCH]
    assert sht3x.read(part)["temperature"] == pytest.approx(30, abs=0.01)  # waits for the next
    assert all(segment in {*STATUS, *FETCH, I2CWrite(b"\x24\x00")} for segment in sent(part))
    part.sleep(period * 1.01)
    assert part.words(0xE000, 2)


def test_the_heater_of_somebody_else_is_said_and_left_alone():
    part = mounted("sht3x", SimSHT3x)
    part.write(0x30, 0x6D)
    sht3x.read(part)
    assert part.doubts() == "the part's own heater is on"
    assert part.words(0xF32D, 1)[0] & 1 << 13


@each_row(
    ("fault", "kind", "said"),
    [
        ("low", BusFault, "wrong checksum"),
        ("high", BusFault, "wrong checksum"),
        ("bits", BusFault, "wrong checksum"),
        ("nack", DeviceMissing, "does not answer"),
        ("stuck", HardwareError, "timed out"),
    ],
)
def test_faults_of_the_wiring_are_said_in_one_line(fault, kind, said):
    with pytest.raises(kind, match=said) as error:
        sht3x.read(mounted("sht3x", SimSHT3x, fault=fault))
    assert one_line(error)


@each_row("measuring", [False, True])
@each_row("refused", range(1, 9))
def test_a_single_refusal_gives_no_wrong_diagnosis(refused, measuring):
    part = mounted("sht3x", SimSHT3x, {"temperature": 20.5})
    if measuring:
        part.write(0x21, 0x26)
        part.sleep(1.01)
    try:
        assert sht3x.read(refusing(part, refused))["temperature"] == pytest.approx(20.5, abs=0.002)
    except DeviceMissing as error:
        assert refused in {1, 2}  # its status, without which nothing is known of it
        assert "does not answer" in str(error)  # noqa: PT017
    assert sum(slept(part)) < (1.2 if measuring else 0.1)


def test_a_part_that_never_has_a_result_is_given_up():
    class Silent(SimSHT3x):
        def refuses(self, command):
            return command not in {0xF32D, 0xE000}

    part = mounted("sht3x", Silent)
    with pytest.raises(ValueError, match=r"did not answer twice when told to measure.*power-cycle") as error:
        sht3x.read(part)
    assert one_line(error)
    assert sum(slept(part)) < 3


def test_the_simulated_part_refuses_to_be_read_while_it_measures():
    part = mounted("sht3x", SimSHT3x)
    part.write(0x24, 0x00)
    part.sleep(0.010)
    with pytest.raises(DeviceMissing):
        part.read(6)
    part.sleep(0.006)
    assert part.read(6)


def test_the_simulated_part_keeps_alert_limits_and_its_status():
    part = mounted("sht3x", SimSHT3x)
    assert part.words(0xF32D, 1) == [0x8010]
    part.write(0x30, 0x41)
    assert part.words(0xF32D, 1) == [0]
    part.write(0x61, 0x1D, 0x12, 0x34, compute_checksum(b"\x12\x34"))
    assert part.words(0xE11F, 1) == [0x1234]
    with pytest.raises(DeviceMissing):
        part.write(0x61, 0x1D, 0x12, 0x34, 0)
    part.write(0x30, 0xA2)
    part.sleep(0.002)
    assert part.words(0xE11F, 1) == [0xCD33]
