"""LM75 and its relatives LM75A and LM75B: temperature over I2C, 9 bits or, where the part has them, 11.

Source: National Semiconductor (Texas Instruments) SNIS153, LM75; NXP, LM75B product data sheet.
Run `python3 tools/hw/lm75.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x48, 0x49, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E, 0x4F)
QUANTITIES = ("temperature",)
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

TEMPERATURE, CONFIGURATION, HYSTERESIS, LIMIT = 0x00, 0x01, 0x02, 0x03
SHUTDOWN, FULL = 0x01, 0xFFFF
# SNIS153, temperature-to-digital converter characteristics: conversion time 300 ms at most.
LONGEST_CONVERSION_S = 0.3


def decode(word: int) -> float:
    """Turn the temperature register, 0 to 65,535, into °C (NXP LM75B, table Temp register value).

    The lower 5 bits are left out: an LM75 does not define them. Raises ValueError beyond what a part can give.
    """
    # The makers specify up to 125 °C; their tables go on to the end of the register.
    return within((word - 0x10000 * (word >> 15) >> 5) / 8, -55, 127.875, "°C")


def read(part: I2CPart) -> dict[str, float]:
    """Return °C by quantity; a part that was shut down is woken for one measurement.

    Raises ValueError when nothing but zeros or ones is read.
    """
    configuration = part.registers(CONFIGURATION, 1)[0]
    if configuration == 0xFF:
        raise ValueError("the part reads as 0xFF only: check SDA, its pull-up and the part's supply")
    if not configuration & SHUTDOWN:
        return {"temperature": _read_temperature(part)}
    part.write(CONFIGURATION, configuration & ~SHUTDOWN)
    try:
        part.sleep(LONGEST_CONVERSION_S)
        return {"temperature": _read_temperature(part)}
    finally:
        part.write(CONFIGURATION, configuration)


def _read_temperature(part: I2CPart) -> float:
    word = part.word(TEMPERATURE)
    if word == FULL:  # an LM75 may leave the lower 5 bits undefined, but a line held high is likelier than all of them
        raise ValueError("the temperature reads as 0xFF only: check SDA, its pull-up and the part's supply")
    # 0 °C is believed only of a part whose alarm limits, 75 and 80 °C from power-on, are not all zeros as well.
    if not word and not part.word(HYSTERESIS) and not part.word(LIMIT):
        raise ValueError("the part reads as 0x00 only: check SDA for a short circuit, and the part's supply")
    return decode(word)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
