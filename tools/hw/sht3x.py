"""Sensirion SHT30, SHT31 and SHT35: temperature and relative humidity over I2C.

Source: Sensirion, Datasheet SHT3x-DIS; the sections named below are of that datasheet.
Run `python3 tools/hw/sht3x.py --help` to read one on the bench.
"""

from contextlib import suppress

from picoclaw.errors import DeviceMissing
from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x44, 0x45)
QUANTITIES = ("temperature", "humidity")

# Sections 4.3 (single shot, high repeatability, no clock stretching), 4.6 (fetch data) and 4.11 (status register).
MEASURE, FETCH, STATUS = 0x2400, 0xE000, 0xF32D
HEATER_ON = 1 << 13
# Section 2.2, timing: at most 15.5 ms for a measurement of high repeatability.
LONGEST_MEASUREMENT_S = 0.0155
# Section 4.5: the slowest continuous mode measures each 2 s.
LONGEST_PERIOD_S, STEP_S = 2.2, 0.1


def decode(temperature: int, humidity: int) -> dict[str, float]:
    """Turn the two raw words, 0 to 65,535, into °C and % (section 4.13).

    Raises ValueError when the temperature is outside what the part can measure.
    """
    celsius = within(-45 + 175 * temperature / 65_535, -40, 125, "°C")
    return {"temperature": celsius, "humidity": 100 * humidity / 65_535}


def read(part: I2CPart) -> dict[str, float]:
    """Return °C and %, measured once; a part that measures continuously is only read.

    Raises BusFault when a checksum does not fit, DeviceMissing when nothing answers.
    """
    if part.words(STATUS, 1)[0] & HEATER_ON:
        part.doubt("the part's own heater is on")
    return decode(*(_fetch(part) or _measure(part)))


def _fetch(part: I2CPart) -> list[int]:
    """Return what a continuous measurement has ready; a part that has nothing refuses to be read (section 4.6).

    It has just answered with its status, so a refusal does not mean that it is missing.
    """
    try:
        return part.words(FETCH, 2)
    except DeviceMissing:
        return []


def _measure(part: I2CPart) -> list[int]:
    for _ in range(2):  # a single refusal may be a disturbance of the bus
        with suppress(DeviceMissing):
            return part.words(MEASURE, 2, LONGEST_MEASUREMENT_S)
    return _wait_for_data(part)  # it measures continuously, and somebody else has just fetched


def _wait_for_data(part: I2CPart) -> list[int]:
    for _ in range(round(LONGEST_PERIOD_S / STEP_S)):
        part.sleep(STEP_S)
        if words := _fetch(part):
            return words
    raise ValueError(
        "the part did not answer twice when told to measure, and has no continuous measurement: check the wiring,"
        " then power-cycle it"
    )


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
