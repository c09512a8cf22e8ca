"""The BME680 driver's integers against the simulated part's floating point, and what it does on the bus."""

import pytest
from part_bench import driver, mounted, one_line, sent, slept
from rows import each_row

from picoclaw.errors import DeviceMissing
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.sim.parts import climate
from picoclaw.hw.sim.parts.climate import SimBME680

bme680 = driver("bme680")
REGISTERS = (0x5A, 0x64, 0x70, 0x71, 0x72, 0x74)


def trimming_of(part):
    blocks = (bme680.TRIMMING_1, bme680.TRIMMING_2, bme680.TRIMMING_3)
    return bme680.parse_calibration(*(part.registers(*block) for block in blocks))


def kept(part):
    return [part.registers(register, 1) for register in REGISTERS]


def test_trimming_values_are_taken_apart_with_their_signs():
    assert trimming_of(mounted("bme680", SimBME680)) == (
        *(climate._BME680_T, climate._BME680_P, climate._BME680_H),
        *((*climate._BME680_G, climate._HEATER_RANGE, climate._HEATER_VALUE), climate._GAS_ERROR),
    )


@each_row("celsius", [-39.0, -5.0, 22.75, 84.0])
@each_row("hectopascal", [310.0, 997.12, 1090.0])
@each_row(("percent", "ohm"), [(0.0, 300.0), (5.0, 12_345.0), (62.3, 82_986.0), (100.0, 4_000_000.0)])
def test_a_reading_agrees_with_the_scene(celsius, hectopascal, percent, ohm):
    """BST-BME680-DS001, sections 3.3 and 3.4: integer and floating-point formulas are the same function."""
    scene = {"temperature": celsius, "pressure": hectopascal, "humidity": percent, "resistance gas": ohm}
    part = mounted("bme680", SimBME680, scene)
    assert bme680.read(part) == {
        "temperature": pytest.approx(celsius, abs=0.02),
        "humidity": pytest.approx(percent, abs=0.1),
        "pressure": pytest.approx(hectopascal, abs=0.1),
        "resistance gas": pytest.approx(ohm, rel=0.005),
    }
    assert not part.doubts()


@each_row("gas_range", range(16))
@each_row("raw", [0, 300, 512, 1023])
def test_resistance_in_every_range(gas_range, raw):
    """Section 3.4.1: the integer constants stand for the per cents of the floating-point ones."""
    v = 1340 * (1 + climate._K1.get(gas_range, 0) / 100)
    scale = (1 + climate._K2.get(gas_range, 0) / 100) * 0.000_000_125 * 2**gas_range
    assert bme680._compute_resistance(raw, gas_range, 0) == pytest.approx(1 / (scale * ((raw - 512) / v + 1)), rel=2e-3)


@each_row("celsius", [200, 320, 400])
def test_the_hot_plates_resistance(celsius):
    trim = trimming_of(mounted("bme680", SimBME680))
    assert bme680.encode_heater(celsius, trim) == pytest.approx(climate._encode_heater(celsius), abs=1)


def test_the_exact_messages_of_one_reading():
    part = mounted("bme680", SimBME680)
    bme680.read(part)
    messages = sent(part)
    assert messages[:10] == [
        *(I2CWrite(b"\xd0"), I2CRead(1), I2CWrite(b"\xf0"), I2CRead(1)),
        *(I2CWrite(b"\x8a"), I2CRead(23), I2CWrite(b"\xe1"), I2CRead(14), I2CWrite(b"\x00"), I2CRead(5)),
    ]
    assert messages[10:22] == [m for register in REGISTERS for m in (I2CWrite(bytes([register])), I2CRead(1))]
    assert messages[22:30] == [
        *(
            I2CWrite(b"\x5a\x76"),
            I2CWrite(b"\x64\x65"),
            I2CWrite(b"\x70\x00"),
            I2CWrite(b"\x71\x10"),
            I2CWrite(b"\x72\x01"),
        ),
        *(I2CWrite(b"\x74\x25"), I2CWrite(b"\x1d"), I2CRead(15)),
    ]
    assert messages[30:] == [I2CWrite(bytes([register, 0])) for register in REGISTERS]
    assert slept(part) == [pytest.approx(0.161)]


def test_without_the_heater_nothing_is_heated_and_no_resistance_given():
    part = mounted("bme680", SimBME680, heater_celsius=0.0)
    assert set(bme680.read(part)) == {"temperature", "humidity", "pressure"}
    assert I2CWrite(b"\x71\x10") not in sent(part)
    assert slept(part) == [0.013]
    assert not part.doubts()


def test_settings_of_somebody_else_are_restored():
    part = mounted("bme680", SimBME680)
    for register, value in zip(REGISTERS, (0x55, 0x59, 0x08, 0x13, 0x05, 0xB4), strict=True):
        part.write(register, value)
    before = kept(part)
    assert "resistance gas" in bme680.read(part)
    assert kept(part) == before


def test_settings_are_restored_after_a_measurement_that_never_ends():
    class Stuck(SimBME680):
        def catch_up(self):
            pass

    part = mounted("bme680", Stuck)
    before = kept(part)
    with pytest.raises(ValueError, match="did not finish"):
        bme680.read(part)
    assert kept(part) == before
    assert sum(slept(part)) < 1


def test_a_plate_that_does_not_get_hot_costs_the_resistance_only():
    class Cold(SimBME680):
        def _heating(self):
            return 0.001

    part = mounted("bme680", Cold, {"temperature": 21.0, "pressure": 990.0})
    values = bme680.read(part)
    assert tuple(values) == bme680.QUANTITIES
    problem = values.pop("resistance gas")
    assert isinstance(problem, ValueError)
    assert "hot enough" in str(problem)
    assert values["temperature"] == pytest.approx(21, abs=0.02)
    assert values["pressure"] == pytest.approx(990, abs=0.1)
    assert not part.doubts()


@each_row("celsius", [1.0, 199.0])
def test_a_heater_temperature_that_is_too_low_is_refused_before_anything_is_written(celsius):
    part = mounted("bme680", SimBME680, heater_celsius=celsius)
    with pytest.raises(ValueError, match="heater_celsius"):
        bme680.read(part)
    assert all(len(segment.data) == 1 for segment in sent(part) if isinstance(segment, I2CWrite))


def test_a_part_that_somebody_else_makes_measure_is_left_alone():
    part = mounted("bme680", SimBME680)
    part.write(0x74, 0x25)
    with pytest.raises(ValueError, match="another program"):
        bme680.read(part)


@each_row(
    ("fault", "kind", "said"),
    [("low", ValueError, "0xD0"), ("high", ValueError, "0xD0"), ("nack", DeviceMissing, "does not answer")],
)
def test_faults_of_the_wiring_are_said_in_one_line_before_anything_is_written(fault, kind, said):
    part = mounted("bme680", SimBME680, fault=fault)
    with pytest.raises(kind, match=said) as error:
        bme680.read(part)
    assert one_line(error)
    assert all(len(segment.data) == 1 for segment in sent(part) if isinstance(segment, I2CWrite))


def test_a_bme688_is_another_part():
    part = mounted("bme680", SimBME680)
    assert bme680.identify(part) == "BME680"
    part.bus.parts[0x76].registers[0xF0] = 0x01
    assert not bme680.identify(part)


@each_row("raw", [(0x80000, 400_000, 20_000, None), (480_000, 0x80000, 20_000, None), (480_000, 400_000, 0x8000, None)])
def test_a_converter_that_was_off_is_not_a_measurement(raw):
    with pytest.raises(ValueError, match="did not measure"):
        bme680.decode(bme680.Raw(*raw), trimming_of(mounted("bme680", SimBME680)))


@each_row("raw", [(0, 400_000, 20_000, None), (480_000, 0, 20_000, None), (480_000, 2**20 - 1, 0, None)])
def test_what_the_part_cannot_measure_is_refused(raw):
    with pytest.raises(ValueError, match="outside its"):
        bme680.decode(bme680.Raw(*raw), trimming_of(mounted("bme680", SimBME680)))


def test_the_simulated_part_shows_power_on_values_is_busy_and_then_sleeps():
    part = mounted("bme680", SimBME680)
    assert part.registers(0x1F, 8) == bytes.fromhex("800000 800000 8000")
    part.write(0x72, 0x01)
    part.write(0x74, 0x25)
    assert part.registers(0x1D, 1)[0] & 0x20
    part.sleep(0.010)
    assert part.registers(0x1D, 1) == b"\x80"
    assert part.registers(0x74, 1) == b"\x24"
    part.write(0xE0, 0xB6)
    assert part.registers(0x1F, 8) == bytes.fromhex("800000 800000 8000")


def test_a_humidity_that_happens_to_read_as_off_is_measured():
    raw = climate.bisect_left(climate._CODES_20, 21.0, key=lambda code: climate._compensate_bme680_temperature(code)[0])
    humidity = climate._compensate_bme680_humidity(0x8000, climate._compensate_bme680_temperature(raw)[0])
    part = mounted("bme680", SimBME680, {"temperature": 21.0, "humidity": humidity})
    assert bme680.read(part)["humidity"] == pytest.approx(min(humidity, 100.0), abs=0.05)


def test_a_temperature_and_a_pressure_that_happen_to_read_as_off_are_measured():
    temperature, fine = climate._compensate_bme680_temperature(0x80000)
    pressure = climate._compensate_bme680_pressure(0x80000, fine) / 100
    values = bme680.read(mounted("bme680", SimBME680, {"temperature": temperature, "pressure": pressure}))
    assert values["temperature"] == pytest.approx(temperature, abs=0.02)
    assert values["pressure"] == pytest.approx(pressure, abs=0.05)
