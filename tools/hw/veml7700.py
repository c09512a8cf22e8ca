"""Vishay VEML7700: illuminance over I2C, from moonlight to full sun.

Source: Vishay 84286, VEML7700 datasheet; Vishay 84323, Designing the VEML7700 Into an Application.
Run `python3 tools/hw/veml7700.py --help` to read one on the bench.
"""

from typing import NamedTuple

from picoclaw.hw.handles import I2CPart

ADDRESSES = (0x10,)
QUANTITIES = ("light",)
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

CONFIGURATION, LIGHT, IDENTITY = 0x00, 0x04, 0x07
VEML7700 = 0x81
UNUSED, GAIN, TIME, SHUT_DOWN = 0xE000, 0x1800, 0x03C0, 0x0001
# 84286, table Configuration Register #0: codes of gain and of integration time in seconds.
GAINS = {0b00: 1.0, 0b01: 2.0, 0b10: 0.125, 0b11: 0.25}
TIMES_S = {0b1100: 0.025, 0b1000: 0.05, 0b0000: 0.1, 0b0001: 0.2, 0b0010: 0.4, 0b0011: 0.8}
# 84323, table Resolution and Maximum Detection Range: 0.0042 lx for a count at gain 2 and 800 ms.
FINEST_LX, FINEST_GAIN, FINEST_S = 0.0042, 2.0, 0.8
# 84323, correction for more than 1000 lx, from the fourth power down to the first.
CORRECTION, CORRECTED_ABOVE_LX = (6.0135e-13, -9.3924e-9, 8.1488e-5, 1.0023), 1000.0
FULL, MANY, FEW = 0xFFFF, 10_000, 100
START_S = 0.004
HIGHEST_LX = 140_000.0


class Range(NamedTuple):
    """The codes of a gain and an integration time."""

    gain: int
    time: int

    @property
    def seconds(self) -> float:
        """How long one measurement takes."""
        return TIMES_S[self.time]


USUAL, BRIGHT, DIM, DARK = Range(0b10, 0b0000), Range(0b10, 0b1100), Range(0b01, 0b0000), Range(0b01, 0b0011)


def decode(counts: int, chosen: Range) -> float:
    """Turn counts, 0 to 65,535, into lx, and correct them above 1000 lx (84323).

    Raises ValueError when the converter was full, or for more light than the part can measure.
    """
    lux = counts * FINEST_LX * FINEST_GAIN / GAINS[chosen.gain] * FINEST_S / chosen.seconds
    if lux > CORRECTED_ABOVE_LX:
        a, b, c, d = CORRECTION
        lux *= d + lux * (c + lux * (b + lux * a))
    if counts == FULL or lux > HIGHEST_LX:
        raise ValueError("there is more light than the part can measure (140,000 lx): shade it")
    return lux


def identify(part: I2CPart) -> str:
    """Name the part by its ID register, or return an empty string; parts made before it was added have none."""
    return "VEML7700" if part.word(IDENTITY, "little") & 0xFF == VEML7700 else ""


def read(part: I2CPart) -> dict[str, float]:
    """Return lx by quantity, measured in a range in which the part is neither full nor nearly empty.

    A part that measures is only read when its own range suits; otherwise up to three are tried, and its
    configuration is put back. Raises ValueError when the part is not a VEML7700 or there is too much light.
    """
    before = part.word(CONFIGURATION, "little")
    own = Range(before >> 11 & 0b11, before >> 6 & 0b1111)
    if before & UNUSED or own.time not in TIMES_S:
        raise ValueError(f"the part is not a VEML7700: its configuration register (0x00) reads 0x{before:04x}")
    if not before & SHUT_DOWN and FEW < (counts := part.word(LIGHT, "little")) <= MANY:
        return {"light": decode(counts, own)}
    try:
        return {"light": _find_range(part, before)}
    finally:
        part.write_word(CONFIGURATION, before, "little")
        if not before & SHUT_DOWN:  # until its next result, the part shows one of another range
            part.sleep(START_S + 2 * own.seconds)


def _find_range(part: I2CPart, before: int) -> float:
    counts, chosen = _measure_counts(part, before, USUAL), USUAL
    if counts > MANY:
        counts, chosen = _measure_counts(part, before, BRIGHT), BRIGHT
    for finer in (DIM, DARK):
        if counts <= FEW:
            counts, chosen = _measure_counts(part, before, finer), finer
    return decode(counts, chosen)


def _measure_counts(part: I2CPart, before: int, chosen: Range) -> int:
    wanted = before & ~(GAIN | TIME | SHUT_DOWN) | chosen.gain << 11 | chosen.time << 6
    part.write_word(CONFIGURATION, wanted | SHUT_DOWN, "little")
    part.write_word(CONFIGURATION, wanted, "little")
    # The part does not say when it is done, and its clock is not exact: twice the time is waited.
    part.sleep(START_S + 2 * chosen.seconds)
    if part.word(CONFIGURATION, "little") != wanted:
        raise ValueError("the part is not a VEML7700: its configuration register (0x00) does not keep what is written")
    return part.word(LIGHT, "little")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
