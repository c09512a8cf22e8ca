"""Bosch BME280 (and BMP280, which has no humidity): temperature, pressure and relative humidity over I2C.

Source: Bosch Sensortec BST-BME280-DS002, revision 1.6; the pages named below are of that datasheet.
Run `python3 tools/hw/bme280.py --help` to read one on the bench.
"""

import struct
from typing import NamedTuple

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x76, 0x77)
QUANTITIES = ("temperature", "humidity", "pressure")
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

# Page 26, table 18: memory map.
ID, CTRL_HUM, STATUS, CTRL_MEAS, DATA = 0xD0, 0xF2, 0xF3, 0xF4, 0xF7
CALIBRATION_1, CALIBRATION_2 = (0x88, 26), (0xE1, 7)
BME280_ID, BMP280_IDS = 0x60, (0x56, 0x57, 0x58)
MEASURING = 0x08
OVERSAMPLE_1_FORCED, NORMAL_MODE = 0b001_001_01, 0b11
# Page 51, section 9.1: at most 9.3 ms for one sample of each of the three; doubled for slow clones.
LONGEST_MEASUREMENT_S, CHECKS = 0.0093, 5
SKIPPED_20_BIT, SKIPPED_16_BIT = 0x80000, 0x8000


class Calibration(NamedTuple):
    """The factory's trimming values (page 24, table 16); the humidity ones are None on a BMP280."""

    t: tuple[int, int, int]
    p: tuple[int, int, int, int, int, int, int, int, int]
    h: tuple[int, int, int, int, int, int] | None


class Raw(NamedTuple):
    """What the converters gave: 20, 20 and 16 bits (pages 31 and 32)."""

    temperature: int
    pressure: int
    humidity: int


def parse_calibration(first: bytes, second: bytes | None) -> Calibration:
    """Take the trimming values out of registers 0x88-0xA1 and 0xE1-0xE7 (page 24, table 16).

    dig_H4 and dig_H5 are 12-bit two's complement and share register 0xE5. Raises ValueError when all bits of a block
    are the same, which no part has.
    """
    for block in (first, second or b""):
        _reject_uniform(block, "trimming values")
    t1, t2, t3, *p = struct.unpack_from("<Hhh H8h", first)
    h = None
    if second is not None:
        h2, h3, e4, e5, e6, h6 = struct.unpack("<hBbBbb", second)
        h = (first[25], h2, h3, e4 * 16 + (e5 & 0x0F), e6 * 16 + (e5 >> 4), h6)
    return Calibration((t1, t2, t3), tuple(p), h)


def decode(raw: Raw, trim: Calibration) -> dict[str, float]:
    """Compensate raw values to °C, hPa and % with Bosch's integer arithmetic (pages 25 and 26, section 4.2.3).

    Raises ValueError when a converter was off, which it reports as a fixed value (page 31), and outside of the
    operating range, -40 to 85 °C and 300 to 1100 hPa (sections 1.3 and 1.4).
    """
    if SKIPPED_20_BIT in {raw.temperature, raw.pressure}:
        raise ValueError("the part did not measure (0x80000): it may have been reset or lost power; try again")
    fine = _compute_t_fine(raw.temperature, trim.t)
    values = {"temperature": within(((fine * 5 + 128) >> 8) / 100, -40, 85, "°C")}
    if trim.h is not None:
        if raw.humidity == SKIPPED_16_BIT:
            raise ValueError("the humidity converter was off (0x8000): the part may have been reset; try again")
        values["humidity"] = _compensate_humidity(raw.humidity, fine, trim.h) / 1024
    values["pressure"] = within(_compensate_pressure(raw.pressure, fine, trim.p) / 256 / 100, 300, 1100, "hPa")
    return values


def _reject_uniform(data: bytes, what: str) -> None:
    if data and data in {bytes(len(data)), b"\xff" * len(data)}:
        raise ValueError(f"the part's {what} read 0x{data[0]:02x} only: check SDA, its pull-up and the part's supply")


def _compute_t_fine(raw: int, t: tuple[int, int, int]) -> int:
    first = (((raw >> 3) - (t[0] << 1)) * t[1]) >> 11
    difference = (raw >> 4) - t[0]
    return first + ((((difference * difference) >> 12) * t[2]) >> 14)


def _compensate_pressure(raw: int, fine: int, p: tuple[int, ...]) -> int:
    """Pascal in Q24.8; 0 when the trimming values would divide by zero."""
    v1 = fine - 128_000
    v2 = v1 * v1 * p[5] + ((v1 * p[4]) << 17) + (p[3] << 35)
    v1 = ((v1 * v1 * p[2]) >> 8) + ((v1 * p[1]) << 12)
    v1 = (((1 << 47) + v1) * p[0]) >> 33
    if v1 == 0:
        return 0
    value = (((1_048_576 - raw) << 31) - v2) * 3125 // v1
    v1 = (p[8] * (value >> 13) * (value >> 13)) >> 25
    return ((value + v1 + ((p[7] * value) >> 19)) >> 8) + (p[6] << 4)


def _compensate_humidity(raw: int, fine: int, h: tuple[int, ...]) -> int:
    """Per cent in Q22.10, held to 0-100 as the datasheet does."""
    v = fine - 76_800
    offset = ((raw << 14) - (h[3] << 20) - h[4] * v + 16_384) >> 15
    scale = (((((v * h[5]) >> 10) * (((v * h[2]) >> 11) + 32_768)) >> 10) + 2_097_152) * h[1] + 8192
    v = offset * (scale >> 14)
    v -= ((((v >> 15) * (v >> 15)) >> 7) * h[0]) >> 4
    return min(max(v, 0), 419_430_400) >> 12


def identify(part: I2CPart) -> str:
    """Name the part by its identification register, or return an empty string."""
    number = part.registers(ID, 1)[0]
    return "BME280" if number == BME280_ID else "BMP280" if number in BMP280_IDS else ""


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return °C, % and hPa by quantity.

    A part that somebody has set to measure continuously is only read; any other sleeps again afterwards.
    Raises ValueError when the part is not a BME280 or BMP280, did not finish, or gives what no measurement can be.
    """
    name = identify(part)
    if not name:
        raise ValueError("the part's identification register (0xD0) is not that of a BME280 or a BMP280")
    humid = name == "BME280"
    trim = parse_calibration(part.registers(*CALIBRATION_1), part.registers(*CALIBRATION_2) if humid else None)
    if part.registers(CTRL_MEAS, 1)[0] & NORMAL_MODE != NORMAL_MODE:
        _measure_once(part, humid=humid)
    raw = unpack(part.registers(DATA, 8))
    return decode(_nudge_skipped_values(part, raw, humid=humid), trim)


def _nudge_skipped_values(part: I2CPart, raw: Raw, *, humid: bool) -> Raw:
    """Move a measured 0x80000 or 0x8000 by one step (26.46 °C may be one): it is also what a converter says that is off."""
    temperature, pressure, humidity = raw
    if SKIPPED_20_BIT in {temperature, pressure}:
        control = part.registers(CTRL_MEAS, 1)[0]
        temperature += temperature == SKIPPED_20_BIT and control >> 5 != 0
        pressure += pressure == SKIPPED_20_BIT and control >> 2 & 0b111 != 0
    if humid and humidity == SKIPPED_16_BIT and part.registers(CTRL_HUM, 1)[0] & 0b111:
        humidity += 1
    return Raw(temperature, pressure, humidity)


def _measure_once(part: I2CPart, *, humid: bool) -> None:
    if humid:
        part.write(CTRL_HUM, 0b001)  # takes effect with the next write of CTRL_MEAS (page 28)
    part.write(CTRL_MEAS, OVERSAMPLE_1_FORCED)
    for _ in range(CHECKS):
        part.sleep(LONGEST_MEASUREMENT_S)
        if not part.registers(STATUS, 1)[0] & MEASURING:
            return
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged or a clone")


def unpack(data: bytes) -> Raw:
    """Take the burst of registers 0xF7-0xFE apart (page 31).

    Raises ValueError when all bits of temperature and pressure are the same, which no measurement gives.
    """
    _reject_uniform(data[:6], "results")
    return Raw(
        data[3] << 12 | data[4] << 4 | data[5] >> 4,
        data[0] << 12 | data[1] << 4 | data[2] >> 4,
        data[6] << 8 | data[7],
    )


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
