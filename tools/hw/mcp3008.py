"""Microchip MCP3008: eight analogue inputs, single-ended, 10 bits, over SPI.

Source: Microchip MCP3004/3008 datasheet, DS21295. The part has no identification and no checksum, but it sends each
value twice, most significant bit first and then least (section 5.0, figure 5-2), and both must agree: that finds
flipped bits, and a 12-bit MCP3208 in the socket. A data line held high fails at the null bit. A line held low (or an
unpowered part) looks the same as eight grounded inputs, so eight times exactly 0 V is marked as doubtful.
Run `python3 tools/hw/mcp3008.py --help` to read one on the bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picoclaw.hw.handles import SpiPart

# 1.35 MHz is the most at 2.7 V (section 1.0); the part takes modes 0 and 3.
SPI = {"mode": 0, "speed_hz": 1_000_000}
CHANNELS = range(8)
QUANTITIES = tuple(f"voltage a{channel}" for channel in CHANNELS)
# Section 1.0: the reference is from 0.25 V to the supply, which is 5.5 V at most.
OPTIONS = {"vref_v": (3.3, 0.25, 5.5)}

START, SINGLE_ENDED, STEPS = 0x01, 0x80, 1024
WIRING = "check 3V3, MISO, MOSI, SCLK and chip select"


def decode(answer: bytes) -> int:
    """Take the value, 0-1023, out of the 5 bytes of one conversion whose start bit ended the first byte (figure 5-2).

    Raises ValueError when the null bit is set, or the value is not repeated backwards and followed by zeros.
    """
    bits = int.from_bytes(answer, "big")
    if bits >> 26 & 1:
        raise ValueError(f"no MCP3008 answers, its null bit is 1 ({answer.hex(' ')}): {WIRING}")
    value = bits >> 16 & 0x3FF
    backwards = int(f"{value >> 1:09b}"[::-1], 2)
    if bits & 0xFFFF != backwards << 7:
        raise ValueError(f"the value was not repeated as an MCP3008 does ({answer.hex(' ')}): {WIRING}, and the part")
    return value


def read(part: SpiPart) -> dict[str, float]:
    """Convert all eight inputs once and return V by input; 1024 steps are the reference (section 4.2, equation 4-2)."""
    values = [decode(part.exchange(START, SINGLE_ENDED | channel << 4, 0, 0, 0)) for channel in CHANNELS]
    if not any(values):
        part.doubt(f"all eight inputs read exactly 0 V: are they grounded, or does the part not answer? {WIRING}")
    return {name: value * part.options["vref_v"] / STEPS for name, value in zip(QUANTITIES, values, strict=True)}


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
