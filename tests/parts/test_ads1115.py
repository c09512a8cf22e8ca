"""ADS1115: Texas Instruments' tables, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.analog import SimADS1115

ads1115 = driver("ads1115")
INPUTS = {"voltage a0": 0.0, "voltage a1": 1.23456, "voltage a2": 3.3, "voltage a3": 4.0}


# SBAS444, table Input Signal versus Ideal Output Code, and table Full-Scale Range and Corresponding LSB Size.
@each_row(
    ("full_scale", "step"),
    [(6.144, 187.5e-6), (4.096, 125e-6), (2.048, 62.5e-6), (1.024, 31.25e-6), (0.512, 15.625e-6), (0.256, 7.8125e-6)],
)
def test_the_datasheets_codes(full_scale, step):
    assert ads1115.decode(0x0001, full_scale) == pytest.approx(step)
    assert ads1115.decode(0xFFFF, full_scale) == pytest.approx(-step)
    assert ads1115.decode(0x0000, full_scale) == 0
    assert ads1115.decode(0x7FFE, full_scale) == pytest.approx(full_scale - 2 * step)
    for end in (0x7FFF, 0x8000):
        with pytest.raises(ValueError, match="full_scale_v"):
            ads1115.decode(end, full_scale)


@each_row(
    ("full_scale", "rate", "codes"),
    [(4.096, 128, (1, 4)), (6.144, 8, (0, 0)), (5, 860, (0, 7)), (0.256, 859, (5, 6)), (0.3, 100, (4, 3))],
)
def test_the_range_holds_what_is_asked_for_and_the_rate_is_not_exceeded(full_scale, rate, codes):
    assert ads1115.choose_settings(full_scale, rate) == codes


@each_row("full_scale", [4.096, 5.0, 6.144])
@each_row("rate", [8, 128, 860])
def test_readings_agree_with_the_scene(full_scale, rate):
    handle, _, clock = simulated("ads1115", SimADS1115, INPUTS, full_scale_v=full_scale, samples_per_s=rate)
    assert ads1115.read(handle) == pytest.approx(INPUTS, abs=0.0001)
    assert clock.slept == [pytest.approx(1.1 / rate, abs=0.0001)] * 4


def test_a_small_range_and_a_voltage_a_little_below_ground():
    small = {"voltage a0": -0.00001, "voltage a1": 0.2559, "voltage a2": 0.1, "voltage a3": -0.2}
    handle, _, _ = simulated("ads1115", SimADS1115, small, full_scale_v=0.256)
    assert ads1115.read(handle) == pytest.approx(small, abs=4e-6)


def test_the_messages_of_one_read():
    handle, _, _ = simulated("ads1115", SimADS1115, INPUTS)
    ads1115.read(handle)
    four = [text for code in "cdef" for text in (f"w 01{code}383", "w 01", "r 2", "w 00", "r 2")]
    assert messages(handle) == ["w 01", "r 2", *four, "w 010583"]


@each_row("configuration", [0x0483, 0x4263, 0x0583, 0x13EB])
def test_the_configuration_is_put_back_and_starts_nothing_in_single_shot_mode(configuration):
    handle, part, _ = simulated("ads1115", SimADS1115, INPUTS)
    handle.write(1, *configuration.to_bytes(2, "big"))
    ads1115.read(handle)
    assert part.registers[1] == configuration
    assert part.measuring == (not configuration & 0x0100)


def test_an_input_beyond_the_range_costs_no_other_input_its_value():
    handle, part, _ = simulated("ads1115", SimADS1115, INPUTS | {"voltage a3": 2.0}, full_scale_v=2.048)
    values = ads1115.read(handle)
    assert tuple(values) == ads1115.QUANTITIES
    problem = values.pop("voltage a2")
    assert isinstance(problem, ValueError)
    assert str(problem).startswith("voltage a2 is beyond 2.048 V: set the option full_scale_v higher")
    assert values == pytest.approx({"voltage a0": 0.0, "voltage a1": 1.23456, "voltage a3": 2.0}, abs=0.0001)
    assert part.registers[1] == 0x0583


def test_a_conversion_that_never_ends_is_given_up_and_put_back():
    part = Fixed({1: b"\x43\x83"})
    refused("ads1115", part, "did not finish")
    assert part.written == [b"\x01\xc3\x83", b"\x01\x43\x83"]


def test_a_part_that_does_not_take_the_configuration():
    refused("ads1115", Fixed({1: b"\x85\x82"}), "its configuration became 0x8582, not 0x4383")


def test_the_simulated_part_subtracts_and_goes_on_by_itself():
    handle, part, clock = simulated("ads1115", SimADS1115, INPUTS)
    assert handle.registers(1, 2) == b"\x85\x83"
    handle.write(1, 0xB4, 0x83)  # a2 less a3, 2.048 V, continuously
    assert handle.registers(1, 2)[0] & 0x80 == 0
    clock.sleep(0.01)
    assert int.from_bytes(handle.registers(0, 2), "big", signed=True) == round(-0.7 / 2.048 * 32_768)
    part.scene.values["voltage a2"] = 4.0
    clock.sleep(0.01)
    assert handle.registers(0, 2) == b"\0\0"
