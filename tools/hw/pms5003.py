"""Plantower PMS5003 (and PMS7003, PMSA003): fine dust over a serial port.

Source: Plantower "Digital universal particle concentration sensor, PMS5003 series data manual", 2016 V2.3, appendix I.
The values are those "under atmospheric environment" (data 4-6), not the factory's CF=1. The part sends a frame every
0.2 to 2.3 s by itself; one in passive mode is asked for a frame, and stays in that mode.
Run `python3 tools/hw/pms5003.py --help` to read one on the bench.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picoclaw.hw.handles import SerialPart

SERIAL = {"baud": 9600}
QUANTITIES = ("dust pm1", "dust pm2.5", "dust pm10")

# 2 bytes of start, 2 of length (28), 13 words of data, the sum of all that.
HEAD, FRAME = bytes.fromhex("424d001c"), 32
READ_IN_PASSIVE_MODE = bytes.fromhex("424de200000171")
# 4.8 s of silence or 512 bytes at most; after 3 s nothing more will come by itself.
CHUNKS, CHUNK_S, ASK_AT = 16, 0.3, 10
# "Technical Index": particle effective range (PM2.5 standard).
EFFECTIVE = 500


def decode(frame: bytes) -> dict[str, float]:
    """Take µg/m³ of PM1, PM2.5 and PM10 out of a whole frame of 32 bytes."""
    return {name: int.from_bytes(frame[at : at + 2], "big") for name, at in zip(QUANTITIES, (10, 12, 14), strict=True)}


def find_frame(received: bytes) -> bytes:
    """Find the last whole frame whose sum fits, whatever lies around it; empty when there is none."""
    at = received.rfind(HEAD)
    while at >= 0:
        frame = received[at : at + FRAME]
        if len(frame) == FRAME and sum(frame[:-2]) == int.from_bytes(frame[-2:], "big"):
            return frame
        at = received.rfind(HEAD, 0, at)
    return b""


def read(part: SerialPart) -> dict[str, float]:
    """Wait for the next frame and return µg/m³ by size of the particles; what was received before is too old.

    Raises ValueError when the part is silent, or something else is at the other end.
    """
    part.flush()
    received = b""
    for chunk in range(CHUNKS):
        if chunk == ASK_AT and not received:
            part.write(READ_IN_PASSIVE_MODE)
        received += part.read(FRAME, CHUNK_S)
        if frame := find_frame(received):
            return _note_range(part, decode(frame))
    if not received:
        raise ValueError("the PMS5003 sends nothing: check 5 V, its TX on our RX, SET not low; it may be asleep")
    raise ValueError(
        f"{len(received)} bytes came, but no whole frame of a PMS5003: check that the part is one, the cable and noise"
    )


def _note_range(part: SerialPart, values: dict[str, float]) -> dict[str, float]:
    if max(values.values()) > EFFECTIVE:
        part.note(f"above the {EFFECTIVE} µg/m³ that the part is specified for")
    return values


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
