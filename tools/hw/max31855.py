"""Maxim MAX31855: thermocouple temperature, and that of its cold junction inside the chip, over SPI, read-only.

Source: Maxim MAX31855 datasheet, 19-5793, "Memory Map" (tables 2 and 3) and "Temperature data format" (tables 4
and 5). The last letter of the part's name (K, J, N, T, S, R, E) must be the thermocouple's type; that cannot be read.
Run `python3 tools/hw/max31855.py --help` to read one on the bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picoclaw.hw.handles import SpiPart

SPI = {"mode": 0, "speed_hz": 1_000_000}
QUANTITIES = ("temperature", "temperature inside")
LIMITS = {"temperature": (-270.0, 1800.0)}

# Table 3: memory map - bit descriptions.
RESERVED, FAULT = 1 << 17 | 1 << 3, 1 << 16
FAULTS = {
    0b001: "the thermocouple is open: it is not connected, or broken",
    0b010: "the thermocouple is shorted to GND",
    0b100: "the thermocouple is shorted to VCC",
}
# Table 4: what any of the thermocouple types can give; "Operating Temperature Range" for the chip.
LOWEST, HIGHEST, COLDEST, WARMEST = -270, 1800, -40, 125
WIRING = "check 3V3, MISO, SCLK and chip select"


def decode(word: int) -> dict[str, float]:
    """Take a 32-bit answer apart: °C of the thermocouple in steps of 0.25, of the chip in steps of 0.0625.

    Raises ValueError for a fault that the chip reports, or when this cannot be a MAX31855's answer. All zeros would
    be a thermocouple and a chip at exactly 0 °C each; it is far likelier a data line that is held low.
    """
    if word in {0, 0xFFFF_FFFF} or word & RESERVED:
        raise ValueError(f"no MAX31855 answers ({word:08x}): {WIRING}")
    said = [words for bit, words in FAULTS.items() if word & bit]
    if bool(word & FAULT) != bool(said):
        raise ValueError(f"the MAX31855's fault bits contradict each other ({word:08x}): {WIRING}")
    if said:
        raise ValueError("; ".join(said))
    thermocouple, inside = _decode_signed(word >> 18, 14) / 4, _decode_signed(word >> 4 & 0xFFF, 12) / 16
    if not (LOWEST <= thermocouple <= HIGHEST and COLDEST <= inside <= WARMEST):
        raise ValueError(f"{thermocouple:g} °C, chip at {inside:g} °C: more than a MAX31855 can measure; {WIRING}")
    return {"temperature": thermocouple, "temperature inside": inside}


def _decode_signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


def read(part: SpiPart) -> dict[str, float]:
    """Return the newest conversion; the part converts by itself, ten times a second, while it is not being read."""
    return decode(int.from_bytes(part.exchange(0, 0, 0, 0), "big"))


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
