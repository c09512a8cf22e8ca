"""INA219: Texas Instruments' example, the simulated part, and what a driver must not believe."""

import pytest
from part_bench import Fixed, driver, messages, refused, simulated
from rows import each_row

from picoclaw.hw.sim.parts.analog import SimINA219

ina219 = driver("ina219")


def test_the_datasheets_example():
    """SBOS448, table Calculating Current and Power: 20 mV at 2 mΩ, and 11.98 V."""
    assert ina219.decode(0x07D0, 0x5D98, 0.002) == {
        "voltage": pytest.approx(11.98),
        "current": pytest.approx(10),
        "power": pytest.approx(119.8),
    }


@each_row(
    ("word", "millivolts"),
    # SBOS448, table Shunt Voltage Register Format.
    [
        *((0x7D00, 320), (0x7CFF, 319.99), (0x3E80, 160), (0x1F40, 80), (0x0FA0, 40), (0x0001, 0.01), (0x0000, 0)),
        *((0xFFFF, -0.01), (0xF060, -40), (0xE0C0, -80), (0xC180, -160), (0x8300, -320)),
    ],
)
def test_the_datasheets_shunt_voltages(word, millivolts):
    assert ina219.decode(word, 0, 0.1)["current"] == pytest.approx(millivolts / 100)


def test_a_bus_voltage_that_the_part_cannot_give():
    with pytest.raises(ValueError, match="V, outside its 0 to 32:"):
        ina219.decode(0, 8001 << 3, 0.1)


@each_row(("volts", "amperes"), [(0, 0), (3.3, 0.1234), (5, -1.5), (12.004, 3.1999), (26, -0.0004)])
def test_readings_agree_with_the_scene(volts, amperes):
    handle, _, clock = simulated("ina219", SimINA219, {"voltage": volts, "current": amperes})
    values = ina219.read(handle)
    assert values["voltage"] == pytest.approx(volts, abs=0.002)
    assert values["current"] == pytest.approx(amperes, abs=0.00005)
    assert values["power"] == pytest.approx(values["voltage"] * values["current"])
    assert (messages(handle), clock.slept) == (["w 00", "r 2", "w 01", "r 2", "w 02", "r 2"], [])
    assert not handle.doubts()


def test_another_shunt():
    handle, part, _ = simulated("ina219", SimINA219, {"current": 12}, shunt_ohms=0.01)
    part.shunt_ohms = 0.01
    assert ina219.read(handle)["current"] == pytest.approx(12)


@each_row("mode", [0, 3, 4, 5])
def test_a_part_that_does_not_measure_continuously_measures_once_and_is_put_back(mode):
    handle, _, clock = simulated("ina219", SimINA219, {"voltage": lambda now: now - 1_780_000_000})
    handle.write(0, 0x39, 0x98 | mode)
    handle.bus.log.clear()
    clock.sleep(12)
    assert ina219.read(handle)["voltage"] == pytest.approx(12, abs=0.02)
    once = ["w 00399b", "w 02", "r 2", "w 01", "r 2"]
    assert messages(handle) == ["w 00", "r 2", *once, f"w 00399{8 + mode:x}"]
    assert clock.slept[1:] == [0.01]
    assert handle.registers(0, 2) == bytes([0x39, 0x98 | mode])


def test_the_longest_measurement_is_waited_for():
    handle, _, clock = simulated("ina219", SimINA219)
    handle.write(0, 0x3F, 0xF8)  # powered down, 128 samples of each
    assert ina219.read(handle)["voltage"] == 5
    assert sum(clock.slept) == pytest.approx(0.14)


@each_row(("gain", "amperes"), [(0, 0.4), (1, 0.8), (2, -1.6), (3, 3.2)])
def test_a_current_at_the_end_of_the_range(gain, amperes):
    handle, part, _ = simulated("ina219", SimINA219, {"current": 0.999 * amperes})
    handle.write(0, 0x21 | gain << 3, 0x9F)
    handle.sleep(0.01)
    assert ina219.read(handle)["current"] == pytest.approx(0.999 * amperes, abs=0.0001)
    part.scene.values["current"] = 1.01 * amperes
    handle.sleep(0.01)
    values = ina219.read(handle)
    assert values["voltage"] == pytest.approx(5, abs=0.002)
    for key in ("current", "power"):
        assert isinstance(values[key], ValueError)
        assert "the current is too high for this shunt" in str(values[key])


def test_an_overflow_of_the_parts_own_arithmetic_is_noted():
    handle, _, _ = simulated("ina219", SimINA219, {"current": 3, "voltage": 12})
    handle.write(5, 0xFF, 0xFE)
    handle.write(0, 0x39, 0x9F)
    handle.sleep(0.01)
    assert ina219.read(handle)["current"] == pytest.approx(3)
    assert ("OVF" in handle.notes(), handle.doubts()) == (True, "")


def test_a_measurement_that_never_ends_is_given_up_and_put_back():
    part = Fixed({0: b"\x39\x98"})
    refused("ina219", part, "did not finish")
    assert part.written == [b"\0\x39\x9b", b"\0\x39\x98"]


def test_the_simulated_part_reckons_as_the_datasheets_example():
    """SBOS448: calibration 0x5000, current 0x2710, power 0x1766."""
    handle, part, _ = simulated("ina219", SimINA219, {"current": 10, "voltage": 11.98})
    part.shunt_ohms = 0.002
    handle.write(5, 0x50, 0x00)
    handle.write(0, 0x39, 0x9F)
    handle.sleep(0.01)
    assert handle.registers(2, 2) == b"\x5d\x9a"  # with the ready flag
    assert [handle.registers(r, 2).hex() for r in (1, 4, 3)] == ["07d0", "2710", "1766"]
    assert handle.registers(2, 2) == b"\x5d\x98"
    handle.write(0, 0x80, 0x00)
    assert (handle.registers(0, 2), handle.registers(5, 2)) == (b"\x39\x9f", b"\0\0")
