"""Maxim MAX31865: temperature of a platinum thermometer (PT100, PT1000; 2, 3 or 4 wires) over SPI.

Source: Maxim MAX31865 datasheet, 19-6478, revision 3; "Internal Registers" (tables 1-7) and "Applications Information".
The fault status is cleared before a measurement, so that only what is wrong now is reported.
Run `python3 tools/hw/max31865.py --help` to read one on the bench.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from picoclaw.hw.handles import SpiPart

SPI = {"mode": 1, "speed_hz": 1_000_000}
QUANTITIES = ("temperature",)
LIMITS = {"temperature": (-200.0, 850.0)}
OPTIONS = {
    "reference_ohms": (430.0, 100.0, 10_000.0),
    "nominal_ohms": (100.0, 100.0, 1000.0),
    "wires": (4.0, 2.0, 4.0),
    "mains": (50.0, 50.0, 60.0),
}

# Table 1: register addresses; bit 7 of the address writes. Table 2: configuration register.
CONFIGURATION, COUNT, WRITE = 0x00, 8, 0x80
BIAS, AUTOMATIC, ONE_SHOT, THREE_WIRE, CLEAR_FAULTS, NOTCH_50_HZ = 0x80, 0x40, 0x20, 0x10, 0x02, 0x01
LASTING_BITS = BIAS | AUTOMATIC | THREE_WIRE | NOTCH_50_HZ
# The input filter charges in well under 10 ms; one conversion takes up to 66 ms with the 50 Hz notch.
CHARGE_S, CONVERSION_S = 0.010, 0.066
# Table 7: fault status register.
FAULTS = {
    0x80: "the thermometer's resistance is above the high threshold: it is open, or not connected",
    0x40: "the thermometer's resistance is below the low threshold: it is shorted",
    0x20: "REFIN- is above 0.85 of the bias: the thermometer is open, or its force lines are",
    0x10: "REFIN- is below 0.85 of the bias with FORCE- open: a wire is shorted to ground, or open",
    0x08: "RTDIN- is below 0.85 of the bias with FORCE- open: a wire is shorted to ground, or open",
    0x04: "over- or undervoltage at the inputs: a wire touches another supply",
}
# "Applications Information": Callendar-Van Dusen coefficients of IEC 60751, alpha 0.00385055.
A, B, C = 3.90830e-3, -5.77500e-7, -4.18301e-12
LOWEST, HIGHEST, FULL_SCALE = -200.0, 850.0, 32_768
ROUNDS = 5  # of Newton's method, which doubles the exact digits each time
WIRING = "check 3V3, MISO, MOSI, SCLK and chip select"


def decode(code: int, reference_ohms: float, nominal_ohms: float) -> float:
    """Turn a 15-bit conversion, the ratio of the thermometer to the reference resistor, into °C.

    `nominal_ohms` is the thermometer's resistance at 0 °C. Raises ValueError outside -200 to 850 °C.
    """
    ratio = code * reference_ohms / FULL_SCALE / nominal_ohms
    root = A * A - 4 * B * (1 - ratio)
    celsius = (math.sqrt(root) - A) / (2 * B) if root >= 0 else math.inf
    for _ in range(ROUNDS if ratio < 1 else 0):
        celsius -= (_compute_ratio(celsius) - ratio) / _compute_slope(celsius)
    if not LOWEST - 0.5 <= celsius <= HIGHEST:
        ohms = ratio * nominal_ohms
        raise ValueError(
            f"{ohms:.2f} Ω is no platinum thermometer of {nominal_ohms:g} Ω: check reference_ohms, nominal_ohms, wires"
        )
    return celsius


def _compute_ratio(celsius: float) -> float:
    return 1 + A * celsius + B * celsius**2 + C * (celsius - 100) * celsius**3


def _compute_slope(celsius: float) -> float:
    return A + 2 * B * celsius + C * (4 * celsius - 300) * celsius**2


def read(part: SpiPart) -> dict[str, float]:
    """Measure once and return °C; the configuration is put back as it was, with its passing bits at 0.

    A part that somebody has set to convert continuously is only read, and repeats a fault until somebody clears it,
    as its status register does. Raises ValueError for a fault that the chip reports, an option that does not exist, or
    when no MAX31865 answers.
    """
    wanted = _encode_configuration(part.options)
    before = _read_registers(part)
    if before[0] & (BIAS | AUTOMATIC) == BIAS | AUTOMATIC:
        if (before[0] ^ wanted) & THREE_WIRE:
            part.doubt("somebody has set the part to another number of wires than the option `wires`")
        return {"temperature": _decode_temperature(before, part.options)}
    try:
        after = _measure(part, wanted)
    finally:
        part.exchange(WRITE | CONFIGURATION, before[0] & LASTING_BITS)
    return {"temperature": _decode_temperature(after, part.options)}


def _encode_configuration(options: Mapping[str, float]) -> int:
    if options["wires"] not in {2, 3, 4} or options["mains"] not in {50, 60}:
        raise ValueError("the option `wires` must be 2, 3 or 4, and `mains` must be 50 or 60 (Hz)")
    return (THREE_WIRE if options["wires"] == 3 else 0) | (NOTCH_50_HZ if options["mains"] == 50 else 0)


def _read_registers(part: SpiPart) -> bytes:
    found = part.exchange(CONFIGURATION, *bytes(COUNT))[1:]
    if found in {bytes(COUNT), b"\xff" * COUNT}:
        raise ValueError(f"no MAX31865 answers ({found.hex(' ')}): {WIRING}")
    return found


def _measure(part: SpiPart, wanted: int) -> bytes:
    part.exchange(WRITE | CONFIGURATION, wanted | BIAS | CLEAR_FAULTS)
    part.sleep(CHARGE_S)
    part.exchange(WRITE | CONFIGURATION, wanted | BIAS | ONE_SHOT)
    part.sleep(CONVERSION_S)
    found = _read_registers(part)
    if found[0] & LASTING_BITS != wanted | BIAS:
        raise ValueError(f"the configuration did not stay as written ({found.hex(' ')}): {WIRING}")
    return found


def _decode_temperature(registers: bytes, options: Mapping[str, float]) -> float:
    code, faults = registers[1] << 8 | registers[2], registers[7]
    said = [words for bit, words in FAULTS.items() if faults & bit]
    if said:
        raise ValueError("; ".join(said))
    if code & 1:
        raise ValueError(f"the MAX31865 reports a fault without a name ({registers.hex(' ')}): {WIRING}")
    return decode(code >> 1, options["reference_ohms"], options["nominal_ohms"])


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
