"""INA226: Texas Instruments' example, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.analog import SimINA226

ina226 = driver("ina226")
IDENTIFIED = ["w fe", "r 2", "w ff", "r 2"]


def test_the_datasheets_example():
    """SBOS547, table Calculating Current and Power: 20 mV at 2 mΩ, and 11.98 V."""
    assert ina226.decode(0x1F40, 0x2570, 0.002) == {
        "voltage": pytest.approx(11.98),
        "current": pytest.approx(10),
        "power": pytest.approx(119.8),
    }


def test_a_negative_current():
    """SBOS547, section Shunt Voltage Register: -80 mV is 0x8300."""
    assert ina226.decode(0x8300, 0, 0.08)["current"] == pytest.approx(-1)


def test_a_bus_voltage_that_the_part_cannot_give():
    with pytest.raises(ValueError, match="V, outside its 0 to 36:"):
        ina226.decode(0, 28_801, 0.1)


@each_row(("volts", "amperes"), [(0, 0), (3.3, 0.1234), (5, -0.8), (12.0004, 0.8191), (36, -0.0001)])
def test_readings_agree_with_the_scene(volts, amperes):
    handle, _, clock = simulated("ina226", SimINA226, {"voltage": volts, "current": amperes})
    values = ina226.read(handle)
    assert values["voltage"] == pytest.approx(volts, abs=0.0007)
    assert values["current"] == pytest.approx(amperes, abs=0.0000126)
    assert values["power"] == pytest.approx(values["voltage"] * values["current"])
    assert (messages(handle), clock.slept) == ([*IDENTIFIED, "w 00", "r 2", "w 01", "r 2", "w 02", "r 2"], [])


@each_row("mode", [0, 3, 4, 5])
def test_a_part_that_does_not_measure_continuously_measures_once_and_is_put_back(mode):
    handle, _, clock = simulated("ina226", SimINA226, {"voltage": lambda now: now - 1_780_000_000})
    handle.write(0, 0x41, 0x20 | mode)
    handle.bus.log.clear()
    clock.sleep(12)
    assert ina226.read(handle)["voltage"] == pytest.approx(12, abs=0.02)
    once = ["w 004123", "w 06", "r 2", "w 01", "r 2", "w 02", "r 2"]
    assert messages(handle)[4:] == ["w 00", "r 2", *once, f"w 00412{mode}"]
    assert clock.slept[1:] == [pytest.approx(0.00242)]
    assert handle.registers(0, 2) == bytes([0x41, 0x20 | mode])


@each_row(("configuration", "seconds"), [(0x4127, 0.00242), (0x4FFF, 18.57), (0x4000, 0.000308)])
def test_the_longest_measurement(configuration, seconds):
    assert ina226.compute_longest_s(configuration) == pytest.approx(seconds, rel=0.001)


@each_row("amperes", [0.82, -0.82])
def test_a_current_at_the_end_of_the_range(amperes):
    handle, _, _ = simulated("ina226", SimINA226, {"current": amperes})
    values = ina226.read(handle)
    assert values["voltage"] == pytest.approx(5, abs=0.001)
    for key in ("current", "power"):
        assert isinstance(values[key], ValueError)
        assert "the current is too high for this shunt" in str(values[key])


def test_an_overflow_of_the_parts_own_arithmetic_is_noted():
    handle, _, _ = simulated("ina226", SimINA226, {"current": 0.7, "voltage": 12})
    handle.write(5, 0x7F, 0xFF)
    handle.write(0, 0x41, 0x23)
    assert ina226.read(handle)["current"] == pytest.approx(0.7)
    assert ("OVF" in handle.notes(), handle.doubts()) == (True, "")


KNOWN = {0xFE: b"\x54\x49", 0xFF: b"\x22\x60"}


def test_a_measurement_that_never_ends_is_given_up_and_put_back():
    part = Fixed(KNOWN | {0: b"\x41\x20"})
    refused("ina226", part, "did not finish")
    assert part.written == [b"\0\x41\x23", b"\0\x41\x20"]


@each_row("registers", [{0xFE: b"\x54\x49", 0xFF: b"\x22\x70"}, {0xFE: b"\x49\x54", 0xFF: b"\x22\x60"}])
def test_another_part(registers):
    part = Fixed(registers)
    refused("ina226", part, "not those of an INA226")
    assert not part.written


def test_the_simulated_part_reckons_as_the_datasheets_example():
    """SBOS547: calibration 0x0A00, current 0x2710, power 0x12B8."""
    handle, part, _ = simulated("ina226", SimINA226, {"current": 10, "voltage": 11.98})
    part.shunt_ohms = 0.002
    handle.write(5, 0x0A, 0x00)
    handle.write(0, 0x41, 0x27)
    assert handle.registers(6, 2) == b"\0\0"
    handle.sleep(0.0023)
    assert handle.registers(6, 2) == b"\0\x08"
    assert handle.registers(6, 2) == b"\0\0"
    assert [handle.registers(r, 2).hex() for r in (1, 2, 4, 3)] == ["1f40", "2570", "2710", "12b8"]
