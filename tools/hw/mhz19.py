"""Winsen MH-Z19 (MH-Z19B, MH-Z19C): carbon dioxide over a serial port.

Source: Winsen "Intelligent Infrared CO2 Module, Model: MH-Z19B, User's Manual", version 1.0, section "Commands".
Only command 0x86 is ever sent: the others calibrate, change the range or the self-calibration, and last. The byte
after the value is known as the temperature inside the case plus 40, but no manual says so: it is not reported.
Run `python3 tools/hw/mhz19.py --help` to read one on the bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picoclaw.hw.handles import SerialPart

SERIAL = {"baud": 9600}
QUANTITIES = ("co2",)

READ_CO2 = bytes.fromhex("ff0186000000000079")
ANSWER, FRAME = bytes.fromhex("ff86"), 9
# 1 s of silence or 90 bytes at most.
CHUNKS, CHUNK_S = 10, 0.1
# The manual's "Preheat time" is 3 min; until then firmwares send one of these fixed values.
PREHEAT_S, FIXED = 180.0, {400, 410, 500}
# The largest range that is sold.
HIGHEST = 10_000


def compute_checksum(frame: bytes) -> int:
    """Sum up bytes 1 to 7 and negate the sum (section "Checksum calculation method")."""
    return -sum(frame[1:8]) & 0xFF


def decode(frame: bytes) -> int:
    """Take the ppm out of a whole answer of 9 bytes. Raises ValueError for what no MH-Z19 measures."""
    ppm = frame[2] << 8 | frame[3]
    if not 0 < ppm <= HIGHEST:
        raise ValueError(f"{ppm} ppm is no measurement of an MH-Z19: it may be starting, or its zero point is wrong")
    return ppm


def find_answer(received: bytes) -> bytes:
    """Find the last whole answer whose checksum fits, whatever lies around it; empty when there is none."""
    at = received.rfind(ANSWER)
    while at >= 0:
        frame = received[at : at + FRAME]
        if len(frame) == FRAME and frame[8] == compute_checksum(frame):
            return frame
        at = received.rfind(ANSWER, 0, at)
    return b""


def read(part: SerialPart) -> dict[str, float]:
    """Ask once and return ppm; a start-up value in the first minutes is marked as doubtful.

    When the part was switched on is not known; the first contact of this process stands for it. Raises ValueError
    when no answer comes or nothing in it fits.
    """
    since = part.memory.setdefault("first contact", part.clock())
    part.flush()
    part.write(READ_CO2)
    received = b""
    for _ in range(CHUNKS):
        received += part.read(FRAME, CHUNK_S)
        if frame := find_answer(received):
            ppm = decode(frame)
            if ppm in FIXED and part.clock() - since < PREHEAT_S:
                part.doubt(f"{ppm} ppm is also what the part says while it warms up, for 3 minutes")
            return {"co2": ppm}
    if not received:
        raise ValueError("the MH-Z19 does not answer: check 5 V, its TX on our RX and its RX on our TX")
    raise ValueError(
        f"no answer of an MH-Z19 in {received[:FRAME].hex(' ')}: check that the part is one, and the cable"
    )


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
