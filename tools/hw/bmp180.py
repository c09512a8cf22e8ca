"""Bosch BMP180 (and its forerunner BMP085): temperature and pressure over I2C.

Source: Bosch Sensortec BST-BMP180-DS000, revision 2.5; the sections named below are of that datasheet.
Run `python3 tools/hw/bmp180.py --help` to read one on the bench.
"""

import struct
from typing import NamedTuple

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x77,)
QUANTITIES = ("temperature", "pressure")
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

# Section 4, global memory map; section 3.3, table 3: control values and conversion times.
TRIMMING, ID, CONTROL, DATA = 0xAA, 0xD0, 0xF4, 0xF6
BMP180_ID, CONVERTING = 0x55, 0x20
MEASURE_TEMPERATURE, TEMPERATURE_S = 0x2E, 0.0045
OVERSAMPLING = 3  # eight samples, the most precise
MEASURE_PRESSURE, PRESSURE_S = 0x34 | OVERSAMPLING << 6, 0.0255
CHECKS = 5


class Calibration(NamedTuple):
    """The factory's calibration values (section 3.4, table 5)."""

    ac1: int
    ac2: int
    ac3: int
    ac4: int
    ac5: int
    ac6: int
    b1: int
    b2: int
    mb: int
    mc: int
    md: int


def parse_calibration(data: bytes) -> Calibration:
    """Take the calibration values out of registers 0xAA-0xBF.

    Raises ValueError when one is 0 or 0xFFFF, which section 3.4 names as the sign of failed communication.
    """
    if {b"\0\0", b"\xff\xff"} & {data[i : i + 2] for i in range(0, len(data), 2)}:
        raise ValueError("a calibration value of the part is 0x0000 or 0xFFFF: check the wiring; it may be damaged")
    return Calibration(*struct.unpack(">hhhHHHhhhhh", data))


def decode(temperature: int, pressure: int, trim: Calibration, oversampling: int = OVERSAMPLING) -> dict[str, float]:
    """Compensate raw values to °C and hPa with Bosch's integer arithmetic (section 3.5, figure 4).

    `temperature` has 16 bits, `pressure` 16 + `oversampling` (0-3) bits. Raises ValueError for what cannot be measured.
    """
    x1 = (temperature - trim.ac6) * trim.ac5 >> 15
    if x1 + trim.md <= 0:
        raise ValueError(f"the raw temperature {temperature} does not fit the part's calibration: it may be damaged")
    b5 = x1 + (trim.mc << 11) // (x1 + trim.md)
    pascal = _compensate_pressure(pressure, b5 - 4000, trim, oversampling)
    return {
        "temperature": within((b5 + 8 >> 4) / 10, -40, 85, "°C"),
        "pressure": within(pascal / 100, 300, 1100, "hPa"),
    }


def _compensate_pressure(raw: int, b6: int, trim: Calibration, oversampling: int) -> int:
    """Pascal; 0 when the calibration values would divide by zero."""
    square = b6 * b6 >> 12
    b3 = ((trim.ac1 * 4 + (trim.b2 * square >> 11) + (trim.ac2 * b6 >> 11) << oversampling) + 2) // 4
    x3 = (trim.ac3 * b6 >> 13) + (trim.b1 * square >> 16) + 2 >> 2
    b4 = trim.ac4 * (x3 + 32_768) >> 15
    if b4 <= 0:
        return 0
    # Figure 4 divides before it multiplies when 32 bits would overflow; these integers have no such limit.
    p = (raw - b3) * (50_000 >> oversampling) * 2 // b4
    return p + (((p >> 8) ** 2 * 3038 >> 16) + (-7357 * p >> 16) + 3791 >> 4)


def identify(part: I2CPart) -> str:
    """Name the part by its identification register, or return an empty string; a BMP085 calls itself the same."""
    return "BMP180" if part.registers(ID, 1)[0] == BMP180_ID else ""


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return °C and hPa; the part sleeps by itself afterwards.

    Raises ValueError when the part is not a BMP180, is measuring for somebody else, or did not finish.
    """
    if not identify(part):
        raise ValueError("the part's identification register (0xD0) is not that of a BMP180 (0x55)")
    trim = parse_calibration(part.registers(TRIMMING, 22))
    if part.registers(CONTROL, 1)[0] & CONVERTING:
        raise ValueError("the part is measuring for another program: end that program, or try again")
    raw_temperature = _convert(part, MEASURE_TEMPERATURE, TEMPERATURE_S, 2)
    raw_pressure = _convert(part, MEASURE_PRESSURE, PRESSURE_S, 3) >> 8 - OVERSAMPLING
    return decode(raw_temperature, raw_pressure, trim)


def _convert(part: I2CPart, control: int, seconds: float, length: int) -> int:
    part.write(CONTROL, control)
    for _ in range(CHECKS):
        part.sleep(seconds)
        if not part.registers(CONTROL, 1)[0] & CONVERTING:
            return int.from_bytes(part.registers(DATA, length), "big")
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged or a clone")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
