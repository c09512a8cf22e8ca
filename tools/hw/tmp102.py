"""Texas Instruments TMP102: temperature over I2C, 12 bits, or 13 in its extended mode (to 150 °C).

Source: Texas Instruments SBOS397, TMP102; the tables named below are of that datasheet.
Run `python3 tools/hw/tmp102.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x48, 0x49, 0x4A, 0x4B)
QUANTITIES = ("temperature",)
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

TEMPERATURE, CONFIGURATION = 0x00, 0x01
ONE_SHOT, RESOLUTION, SHUTDOWN, UNUSED = 0x8000, 0x6000, 0x0100, 0x000F
EXTENDED = 0x0001
ALWAYS_0 = (0x000F, 0x0006)  # of the temperature register, by format
# Electrical characteristics: conversion time 26 ms typical, 35 ms at most.
LONGEST_CONVERSION_S, CHECKS = 0.035, 3


def decode(word: int) -> float:
    """Turn the temperature register, 0 to 65,535, into °C (tables 12-Bit and 13-Bit Temperature Data Format).

    Its lowest bit tells which of the two formats it is in. Raises ValueError beyond -55 to 150 °C, and for bits that
    neither format has.
    """
    if word & ALWAYS_0[word & EXTENDED]:
        raise ValueError(f"the temperature register reads 0x{word:04x}, in no format of a TMP102: check the wiring")
    shift = 3 if word & EXTENDED else 4
    return within((word - 0x10000 * (word >> 15) >> shift) / 16, -55, 150, "°C")


def read(part: I2CPart) -> dict[str, float]:
    """Return °C by quantity; a part that was shut down measures once and is shut down again by itself.

    Raises ValueError when the part is not a TMP102, or did not finish.
    """
    configuration = part.word(CONFIGURATION)
    if configuration & RESOLUTION != RESOLUTION or configuration & UNUSED:
        raise ValueError(
            f"the part is not a TMP102: its configuration register (0x01) reads 0x{configuration:04x},"
            " whose bits 14 and 13 should be 1 and bits 3 to 0 be 0"
        )
    if configuration & SHUTDOWN:
        _measure_once(part, configuration)
    return {"temperature": decode(part.word(TEMPERATURE))}


def _measure_once(part: I2CPart, configuration: int) -> None:
    part.write_word(CONFIGURATION, configuration | ONE_SHOT)
    for _ in range(CHECKS):
        part.sleep(LONGEST_CONVERSION_S)
        if part.word(CONFIGURATION) & ONE_SHOT:
            return
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged or a clone")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
