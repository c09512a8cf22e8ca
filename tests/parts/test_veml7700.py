"""VEML7700: Vishay's resolutions and correction, the search for a range, and the simulated part."""

import pytest
from part_bench import Fixed, Stuck, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.analog import SimVEML7700

veml7700 = driver("veml7700")
GAINS, TIMES = {2: 1, 1: 0, 0.25: 3, 0.125: 2}, {800: 3, 400: 2, 200: 1, 100: 0, 50: 8, 25: 12}


@each_row(
    ("gain", "milliseconds", "resolution"),
    # 84323, table Resolution and Maximum Detection Range, corners and middle.
    [
        (2, 800, 0.0042),
        (2, 25, 0.1344),
        (1, 100, 0.0672),
        (0.25, 100, 0.2688),
        (0.125, 800, 0.0672),
        (0.125, 25, 2.1504),
    ],
)
def test_the_application_notes_resolutions(gain, milliseconds, resolution):
    chosen = veml7700.Range(GAINS[gain], TIMES[milliseconds])
    assert veml7700.decode(400, chosen) == pytest.approx(400 * resolution)


def test_the_application_notes_correction():
    """84323: 6.0135e-13 x⁴ - 9.3924e-9 x³ + 8.1488e-5 x² + 1.0023 x, here for x of 10,000 lx and of 1000 lx."""
    bright = veml7700.Range(GAINS[0.125], TIMES[25])
    assert veml7700.decode(4650, bright) == pytest.approx(14_793, rel=0.001)
    assert veml7700.decode(465, bright) == pytest.approx(999.9, abs=0.1)


@each_row("lux", [0.05, 0.5, 5, 50, 53, 54, 300, 1000, 1100, 2000, 5370, 5500, 7000, 24_003, 60_000, 120_000, 139_000])
def test_readings_agree_with_the_scene(lux):
    handle, part, _ = simulated("veml7700", SimVEML7700, {"light": lux})
    assert veml7700.read(handle)["light"] == pytest.approx(lux, rel=0.006, abs=0.005)
    assert part.registers[0] == 0x0001


@each_row(
    ("lux", "ranges", "seconds"),
    [
        (300, ["1000"], [0.1]),
        (20_000, ["1000", "1300"], [0.1, 0.025]),
        (20, ["1000", "0800"], [0.1, 0.1]),
        (1, ["1000", "0800", "08c0"], [0.1, 0.1, 0.8]),
    ],
)
def test_the_messages_of_one_read(lux, ranges, seconds):
    handle, _, clock = simulated("veml7700", SimVEML7700, {"light": lux})
    veml7700.read(handle)
    swapped = [int(text, 16) for text in ranges]
    tries = [
        text
        for word in swapped
        for text in (
            f"w 00{(word | 1).to_bytes(2, 'little').hex()}",
            f"w 00{word.to_bytes(2, 'little').hex()}",
            *("w 00", "r 2", "w 04", "r 2"),
        )
    ]
    assert messages(handle) == ["w 00", "r 2", *tries, "w 000100"]
    assert clock.slept == pytest.approx([0.004 + 2 * s for s in seconds])


def test_a_part_that_measures_in_a_range_that_suits_is_only_read():
    handle, _, clock = simulated("veml7700", SimVEML7700, {"light": 300})
    handle.write(0, 0x00, 0x18)
    clock.sleep(0.2)
    handle.bus.log.clear()
    assert veml7700.read(handle)["light"] == pytest.approx(300, abs=0.3)
    assert messages(handle) == ["w 00", "r 2", "w 04", "r 2"]


@each_row(("configuration", "lux"), [(0x08C2, 5000), (0x1332, 1)])
def test_a_part_that_measures_in_another_range_is_put_back_and_shows_its_own_again(configuration, lux):
    handle, part, clock = simulated("veml7700", SimVEML7700, {"light": lux})
    handle.write(0, *configuration.to_bytes(2, "little"))
    clock.sleep(2)
    own = handle.registers(4, 2)
    assert veml7700.read(handle)["light"] == pytest.approx(lux, rel=0.01)
    assert part.registers[0] == configuration
    assert handle.registers(4, 2) == own


def test_too_much_light():
    handle, part, _ = simulated("veml7700", SimVEML7700, {"light": 150_000})
    with pytest.raises(ValueError, match="more light than the part can measure"):
        veml7700.read(handle)
    assert part.registers[0] == 0x0001
    with pytest.raises(ValueError, match="more light than the part can measure"):
        veml7700.decode(0xFFFF, veml7700.DARK)


def test_identification():
    handle, part, _ = simulated("veml7700", SimVEML7700)
    assert veml7700.identify(handle) == "VEML7700"
    part.registers[7] = 0
    assert veml7700.identify(handle) == ""
    assert veml7700.read(handle)["light"] == pytest.approx(300, abs=1)


@each_row("registers", [{0: b"\x01\x40"}, {0: b"\x00\x01"}])
def test_another_part(registers):
    part = Fixed(registers)
    refused("veml7700", part, "not a VEML7700: its configuration")
    assert not part.written


@each_row(("byte", "said"), [(0x00, "does not keep what is written"), (0xFF, "reads 0xffff")])
def test_a_held_data_line(byte, said):
    refused("veml7700", Stuck(byte), said)


def test_the_simulated_part_is_shut_down_at_first_and_takes_its_time():
    handle, _, clock = simulated("veml7700", SimVEML7700, {"light": 300})
    clock.sleep(5)
    assert handle.registers(4, 2) == b"\0\0"
    handle.write(0, 0x00, 0x00)
    clock.sleep(0.1)
    assert handle.registers(4, 2) == b"\0\0"
    clock.sleep(0.003)
    assert handle.registers(4, 2) == round(300 / 0.0672).to_bytes(2, "little")
