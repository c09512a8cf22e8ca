"""Bosch BME680: temperature, pressure, relative humidity and the resistance of its gas sensor over I2C.

Source: Bosch Sensortec BST-BME680-DS001; the sections named below are of that datasheet.
The gas sensor's resistance falls when there are more organic compounds; alone it is no measure of air quality.
The option `heater_celsius` is the temperature of its hot plate (200-400 °C); 0 leaves it cold and resistance out.
Run `python3 tools/hw/bme680.py --help` to read one on the bench.
"""

import struct
from typing import NamedTuple

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x76, 0x77)
GAS = "resistance gas"
QUANTITIES = ("temperature", "humidity", "pressure", GAS)
OPTIONS = {"heater_celsius": (320.0, 0.0, 400.0)}
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

# Section 5.2, table 16: memory map (I2C).
ID, VARIANT, STATUS, GAS_PLATE, GAS_WAIT = 0xD0, 0xF0, 0x1D, 0x5A, 0x64
CTRL_GAS_0, CTRL_GAS_1, CTRL_HUM, CTRL_MEAS = 0x70, 0x71, 0x72, 0x74
SETTINGS = (GAS_PLATE, GAS_WAIT, CTRL_GAS_0, CTRL_GAS_1, CTRL_HUM, CTRL_MEAS)
TRIMMING_1, TRIMMING_2, TRIMMING_3 = (0x8A, 23), (0xE1, 14), (0x00, 5)
BME680_ID, BME680_VARIANT = 0x61, 0x00
NEW_DATA, MEASURING = 0x80, 0x60
GAS_VALID, PLATE_HOT = 0x20, 0x10
RUN_GAS, OVERSAMPLE_1_FORCED, MODE = 0x10, 0b001_001_01, 0b11
COLDEST_PLATE = 200.0
HEAT_CODE, HEAT_S = 0x65, 0.148  # section 5.3.3.3: 37 times 4 ms
MEASUREMENT_S, STEP_S, CHECKS = 0.013, 0.01, 10
AMBIENT = 25  # °C; 10 K of error here are a few K at the plate
SKIPPED_20_BIT, SKIPPED_16_BIT = 0x80000, 0x8000
# Section 3.4.1: constants of the gas sensor's ranges, for the integer formula.
GAS_1 = (
    *(2_147_483_647, 2_147_483_647, 2_147_483_647, 2_147_483_647, 2_147_483_647, 2_126_008_810, 2_147_483_647),
    *(2_130_303_777, 2_147_483_647, 2_147_483_647, 2_143_188_679, 2_136_746_228, 2_147_483_647, 2_126_008_810),
    *(2_147_483_647, 2_147_483_647),
)
GAS_2 = (
    *(4_096_000_000, 2_048_000_000, 1_024_000_000, 512_000_000, 255_744_255, 127_110_228, 64_000_000, 32_258_064),
    *(16_016_016, 8_000_000, 4_000_000, 2_000_000, 1_000_000, 500_000, 250_000, 125_000),
)


class Calibration(NamedTuple):
    """The factory's calibration values (section 3.3 and 3.4); `plate` are par_g1 to 3, res_heat_range, res_heat_val."""

    t: tuple[int, ...]
    p: tuple[int, ...]
    h: tuple[int, ...]
    plate: tuple[int, ...]
    gas_error: int


class Raw(NamedTuple):
    """What the converters gave; `gas` are 10 bits and the range 0-15, None without a valid measurement."""

    temperature: int
    pressure: int
    humidity: int
    gas: tuple[int, int] | None


def parse_calibration(first: bytes, second: bytes, third: bytes) -> Calibration:
    """Take the calibration values out of registers 0x8A-0xA0, 0xE1-0xEE and 0x00-0x04; H1 and H2 share 0xE2.

    Raises ValueError when all bits of a block are the same, which no part has.
    """
    for block in (first, second, third):
        if block in {bytes(len(block)), b"\xff" * len(block)}:
            raise ValueError(f"calibration values read 0x{block[0]:02x} only: check SDA, its pull-up and the supply")
    t2, t3, p1, p2, p3, p4, p5, p7, p6, p8, p9, p10 = struct.unpack("<hbx Hhbx hhbb xx hhB", first)
    h3, h4, h5, h6, h7, t1, g2, g1, g3 = struct.unpack("<bbbBb Hhbb", second[3:])
    h1, h2 = second[2] << 4 | second[1] & 0x0F, second[0] << 4 | second[1] >> 4
    value, plate_range, error = struct.unpack("bxBxb", third)
    return Calibration(
        (t1, t2, t3),
        (p1, p2, p3, p4, p5, p6, p7, p8, p9, p10),
        (h1, h2, h3, h4, h5, h6, h7),
        (g1, g2, g3, plate_range >> 4 & 0b11, value),
        error >> 4,
    )


def decode(raw: Raw, trim: Calibration) -> dict[str, float]:
    """Compensate raw values to °C, %, hPa and Ω with Bosch's integer arithmetic (sections 3.3 and 3.4).

    Raises ValueError when a converter was off, or for what the part cannot measure.
    """
    if SKIPPED_20_BIT in {raw.temperature, raw.pressure} or raw.humidity == SKIPPED_16_BIT:
        raise ValueError("the part did not measure (0x8000): it may have been reset or lost power; try again")
    fine = _compute_t_fine(raw.temperature, trim.t)
    centi = fine * 5 + 128 >> 8
    values = {
        "temperature": within(centi / 100, -40, 85, "°C"),
        "humidity": _compensate_humidity(raw.humidity, centi, trim.h),
        "pressure": within(_compensate_pressure(raw.pressure, fine, trim.p) / 100, 300, 1100, "hPa"),
    }
    if raw.gas is not None:
        values[GAS] = float(_compute_resistance(*raw.gas, trim.gas_error))
    return values


def _compute_t_fine(raw: int, t: tuple[int, ...]) -> int:
    v1 = (raw >> 3) - (t[0] << 1)
    return (v1 * t[1] >> 11) + (((v1 >> 1) ** 2 >> 12) * (t[2] << 4) >> 14)


def _compensate_pressure(raw: int, fine: int, p: tuple[int, ...]) -> int:
    """Pascal; 0 when the calibration values would divide by zero."""
    v1 = (fine >> 1) - 64_000
    square = (v1 >> 2) ** 2
    v2 = ((square >> 11) * p[5] >> 2) + (v1 * p[4] << 1)
    v2 = (v2 >> 2) + (p[3] << 16)
    v1 = ((square >> 13) * (p[2] << 5) >> 3) + (p[1] * v1 >> 1) >> 18
    v1 = (32_768 + v1) * p[0] >> 15
    if v1 == 0:
        return 0
    # The datasheet divides before it doubles when 32 bits would overflow; these integers have no such limit.
    value = (1_048_576 - raw - (v2 >> 12)) * 3125 * 2 // v1
    v1 = p[8] * ((value >> 3) ** 2 >> 13) >> 12
    v2 = (value >> 2) * p[7] >> 13
    v3 = (value >> 8) ** 3 * p[9] >> 17
    return value + (v1 + v2 + v3 + (p[6] << 7) >> 4)


def _compensate_humidity(raw: int, centi: int, h: tuple[int, ...]) -> float:
    """Per cent, held to 0-100 as the datasheet does."""
    v1 = raw - h[0] * 16 - (centi * h[2] // 100 >> 1)
    v2 = h[1] * (centi * h[3] // 100 + ((centi * (centi * h[4] // 100) >> 6) // 100) + 16_384) >> 10
    v3 = v1 * v2
    v4 = (h[5] << 7) + centi * h[6] // 100 >> 4
    v6 = v4 * ((v3 >> 14) ** 2 >> 10) >> 1
    return min(max((v3 + v6 >> 10) * 1000 >> 12, 0), 100_000) / 1000


def _compute_resistance(raw: int, gas_range: int, error: int) -> int:
    v1 = (1340 + 5 * error) * GAS_1[gas_range] >> 16
    v2 = (raw << 15) - 16_777_216 + v1
    return ((GAS_2[gas_range] * v1 >> 9) + (v2 >> 1)) // v2


def encode_heater(celsius: float, trim: Calibration) -> int:
    """Return the value of the register that sets the hot plate's resistance for a temperature (section 3.3.5)."""
    g1, g2, g3, plate_range, value = trim.plate
    # Ambient is in hundredths of a degree here: only then the integer formula agrees with the floating-point one.
    v1 = (AMBIENT * 100 * g3 // 10) * 256
    v2 = (g1 + 784) * (((g2 + 154_009) * round(celsius) * 5 // 100 + 3_276_800) // 10)
    v4 = (v1 + v2 // 2) // (plate_range + 4)
    return (((v4 // (131 * value + 65_536)) - 250) * 34 + 50) // 100 & 0xFF


def unpack(data: bytes) -> Raw:
    """Take the burst of registers 0x1D-0x2B apart."""
    gas = data[13] << 2 | data[14] >> 6, data[14] & 0x0F
    return Raw(
        int.from_bytes(data[5:8], "big") >> 4,
        int.from_bytes(data[2:5], "big") >> 4,
        int.from_bytes(data[8:10], "big"),
        gas if data[14] & GAS_VALID and data[14] & PLATE_HOT else None,
    )


def identify(part: I2CPart) -> str:
    """Name the part by its identification registers, or return an empty string; a BME688 is another part."""
    if part.registers(ID, 1)[0] != BME680_ID:
        return ""
    return "BME680" if part.registers(VARIANT, 1)[0] == BME680_VARIANT else ""


def read(part: I2CPart) -> dict[str, float | ValueError]:
    """Measure once and return °C, %, hPa and Ω by quantity; settings are as before afterwards, and the plate is cold.

    Instead of Ω there is an error when the gas sensor alone did not measure. Raises ValueError when the part is not a
    BME680, is measuring for somebody else, or did not finish.
    """
    if not identify(part):
        raise ValueError("the part's identification registers (0xD0, 0xF0) are not those of a BME680")
    trim = parse_calibration(*(part.registers(*block) for block in (TRIMMING_1, TRIMMING_2, TRIMMING_3)))
    before = {register: part.registers(register, 1)[0] for register in SETTINGS}
    if before[CTRL_MEAS] & MODE:
        raise ValueError("the part is measuring for another program: end that program, or try again")
    plate = float(part.options.get("heater_celsius", 320.0))
    if 0 < plate < COLDEST_PLATE:
        raise ValueError("option heater_celsius must be 0, or from 200 to 400")
    try:
        raw = _nudge_skipped_values(part, unpack(_measure(part, encode_heater(plate, trim) if plate else None)))
    finally:
        for register, value in before.items():
            part.write(register, value)
    values: dict[str, float | ValueError] = {**decode(raw, trim)}
    if plate and raw.gas is None:
        values[GAS] = ValueError("the gas sensor's plate did not get hot enough: check the part's supply")
    return values


def _nudge_skipped_values(part: I2CPart, raw: Raw) -> Raw:
    """Move a measured 0x80000 or 0x8000 by one step: it is also what a converter says that is off."""
    temperature, pressure, humidity = raw.temperature, raw.pressure, raw.humidity
    if SKIPPED_20_BIT in {temperature, pressure}:
        control = part.registers(CTRL_MEAS, 1)[0]
        temperature += temperature == SKIPPED_20_BIT and control >> 5 != 0
        pressure += pressure == SKIPPED_20_BIT and control >> 2 & 0b111 != 0
    if humidity == SKIPPED_16_BIT and part.registers(CTRL_HUM, 1)[0] & 0b111:
        humidity += 1
    return raw._replace(temperature=temperature, pressure=pressure, humidity=humidity)


def _measure(part: I2CPart, code: int | None) -> bytes:
    if code is not None:
        part.write(GAS_PLATE, code)
        part.write(GAS_WAIT, HEAT_CODE)
        part.write(CTRL_GAS_0, 0)
    part.write(CTRL_GAS_1, 0 if code is None else RUN_GAS)
    part.write(CTRL_HUM, 0b001)
    part.write(CTRL_MEAS, OVERSAMPLE_1_FORCED)
    part.sleep(MEASUREMENT_S if code is None else MEASUREMENT_S + HEAT_S)
    for _ in range(CHECKS):
        data = part.registers(STATUS, 15)
        if data[0] & NEW_DATA and not data[0] & MEASURING:
            return data
        part.sleep(STEP_S)
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged or a clone")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
