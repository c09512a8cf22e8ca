"""DS3231: Maxim's formats, dates that are none, and the simulated part."""

from datetime import UTC, datetime

import pytest
from part_bench import driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.others import SimDS3231

ds3231 = driver("ds3231")


def registers(time="30 59 23 03 31 12 25", temperature="1940", status=0x08):
    """Registers 0x00 to 0x12 by hexadecimal text: second minute hour weekday day month year."""
    return bytes.fromhex(time) + bytes(7) + bytes([0x1C, status, 0]) + bytes.fromhex(temperature)


@each_row(
    ("word", "celsius"),
    # 19-5170, section Temperature Registers: 00011001 01b is +25.25 °C; two's complement in quarters.
    [("1940", 25.25), ("0000", 0), ("0040", 0.25), ("ffc0", -0.25), ("d800", -40), ("5500", 85), ("193f", 25)],
)
def test_the_datasheets_temperature(word, celsius):
    assert ds3231.decode(registers(temperature=word))["temperature"] == celsius


@each_row(
    ("time", "wanted"),
    [
        ("30 59 23 03 31 12 25", (2025, 12, 31, 23, 59, 30)),
        ("00 00 00 07 29 02 24", (2024, 2, 29, 0, 0, 0)),
        ("00 00 52 07 01 01 24", (2024, 1, 1, 0, 0, 0)),  # 12 o'clock before noon
        ("00 00 72 07 01 01 24", (2024, 1, 1, 12, 0, 0)),
        ("00 05 41 07 01 01 24", (2024, 1, 1, 1, 5, 0)),
        ("00 05 71 07 01 01 24", (2024, 1, 1, 23, 5, 0)),
        ("00 00 00 05 01 81 00", (2100, 1, 1, 0, 0, 0)),
    ],
)
def test_times_in_both_modes_and_centuries(time, wanted):
    assert ds3231.decode(registers(time))["time"] == datetime(*wanted, tzinfo=UTC).timestamp()


@each_row(
    "time",
    [
        "60 00 00 01 01 01 24",
        "5a 00 00 01 01 01 24",
        "00 a0 00 01 01 01 24",
        "00 00 24 01 01 01 24",
        "00 00 53 01 01 01 24",
        "00 00 40 01 01 01 24",
        "00 00 00 01 30 02 24",
        "00 00 00 01 29 02 25",
        "00 00 00 01 01 13 24",
        "00 00 00 01 01 00 24",
        "00 00 00 01 00 01 24",
        "00 00 00 01 01 01 9a",
    ],
)
def test_what_is_no_time(time):
    with pytest.raises(ValueError, match="hold no time"):
        ds3231.decode(registers(time))


@each_row("word", ["7fc0", "8000"])
def test_a_temperature_that_the_part_cannot_give(word):
    with pytest.raises(ValueError, match="°C, outside its -45 to 90"):
        ds3231.decode(registers(temperature=word))


@each_row("at", [946_684_800, 1_780_000_000, 1_709_164_799, 4_102_444_799, 4_102_444_800])
@each_row("twelve", [False, True])
@each_row("celsius", [-40, 21.3])
def test_readings_agree_with_the_scene(at, twelve, celsius):
    handle, part, clock = simulated("ds3231", SimDS3231, {"temperature": celsius})
    part.twelve_hours = twelve
    for clock.now in (at, at + 12 * 3600 + 0.5):
        assert ds3231.read(handle) == {"time": clock.now // 1, "temperature": pytest.approx(celsius, abs=0.125)}


def test_one_read_is_one_transfer_and_writes_nothing():
    handle, _, clock = simulated("ds3231", SimDS3231)
    ds3231.read(handle)
    assert (messages(handle), clock.slept, handle.doubts()) == (["w 00", "r 19"], [], "")


def test_a_clock_that_stopped_has_no_time_and_a_temperature():
    handle, part, _ = simulated("ds3231", SimDS3231)
    part.registers[0x0F] |= 0x80
    values = ds3231.read(handle)
    assert "the clock stopped since it was set (OSF)" in str(values["time"])
    assert (isinstance(values["temperature"], float), handle.doubts()) == (True, "")
    handle.write(0x0F, 0x08)
    assert isinstance(ds3231.read(handle)["time"], float)


def test_another_part():
    class Other:
        write = staticmethod(lambda data: None)
        read = staticmethod(lambda length: registers(status=0x48))

    refused("ds3231", Other(), r"status register \(0x0F\) reads 0x48")


def test_the_simulated_clock_can_be_set_as_linux_does_and_runs_on():
    handle, _, clock = simulated("ds3231", SimDS3231)
    handle.write(0, *bytes.fromhex("30 59 23 03 31 12 25"))
    clock.sleep(45)
    assert handle.registers(0, 7) == bytes.fromhex("15 00 00 04 01 01 26")


def test_the_simulated_thermometer_measures_every_64_seconds_or_on_demand():
    handle, part, clock = simulated("ds3231", SimDS3231, {"temperature": 20})
    assert ds3231.read(handle)["temperature"] == 20
    part.scene.values["temperature"] = 30
    clock.sleep(60)
    assert ds3231.read(handle)["temperature"] == 20
    handle.write(0x0E, 0x3C)
    assert handle.registers(0x0F, 1)[0] & 0x04
    clock.sleep(0.2)
    assert ds3231.read(handle)["temperature"] == 30
    assert handle.registers(0x0E, 2) == b"\x1c\x08"
