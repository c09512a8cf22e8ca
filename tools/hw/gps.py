"""A satellite receiver (GPS, Galileo, GLONASS, BeiDou) that speaks NMEA 0183 over a serial port.

Source: NMEA 0183 sentences GGA, RMC and GSV as in the u-blox 8 / M8 receiver description (UBX-13003221), chapter
"NMEA Protocol". A GGA and an RMC of the same moment make one reading; nothing is sent to the receiver. Its speed is
found out, which takes up to 8 s the first time, unless the option `baud` says it.
Run `python3 tools/hw/gps.py --help` to read one on the bench.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from picoclaw.hw.handles import SerialPart

SERIAL = {"baud": 9600}
OPTIONS = {"baud": (0.0, 0.0, 921_600.0)}
# What receivers are sold with, the usual first: most; newer u-blox; fast modules; plain NMEA 0183; others.
BAUDS = (9600, 38_400, 115_200, 4800, 57_600, 19_200)
QUANTITIES = ("latitude", "longitude", "altitude", "speed", "satellites", "time")

SENTENCE = re.compile(rb"\$((?:G[A-Z]|BD)(?:GGA|RMC|GSV),[ -#%-)+-~]*)\*([0-9A-Fa-f]{2})")
# 4 s or 5120 bytes at most; receivers send once a second, and a second at 9600 baud has 960 bytes.
CHUNKS, CHUNK, CHUNK_S = 40, 128, 0.1
FIRST_CHUNKS = 13  # at a wrong speed something comes, but no sentence within 1.3 s
KNOT = 1852 / 3600
# GGA's quality indicator: no position, and positions that no satellite gave.
NO_FIX = {"", "0"}
GUESSED = {"6": "estimated by dead reckoning", "7": "entered by hand", "8": "simulated by the receiver"}


class Sentence(NamedTuple):
    """One sentence: who speaks (`GP`, `GN`), what it is, and its fields without the checksum."""

    talker: str
    kind: str
    fields: tuple[str, ...]


def parse_sentences(received: bytes) -> list[Sentence]:
    """Find the GGA, RMC and GSV sentences whose checksum, the XOR of all between `$` and `*`, fits."""
    return [
        Sentence(text[:2], text[2:5], tuple(text[6:].split(",")))
        for body, checksum in SENTENCE.findall(received)
        if reduce(xor, body) == int(checksum, 16)
        for text in [body.decode("ascii")]
    ]


def decode(gga: Sequence[str], rmc: Sequence[str]) -> dict[str, float]:
    """Turn the fields of a GGA and an RMC with a fix into degrees, m, m/s, a count and seconds since 1970.

    Altitude (above mean sea level) and speed are left out when the receiver leaves them out. Raises ValueError for a
    field that is not of its form.
    """
    values = {"latitude": _parse_degrees(gga[1], gga[2], "NS"), "longitude": _parse_degrees(gga[3], gga[4], "EW")}
    if gga[8]:
        values["altitude"] = _parse_number(gga[8])
    if rmc[6]:
        values["speed"] = _parse_number(rmc[6]) * KNOT
    return values | {"satellites": _parse_number(gga[6]), "time": _parse_time(rmc[8], rmc[0])}


def _parse_degrees(text: str, side: str, sides: str) -> float:
    digits, most = (2, 90) if sides == "NS" else (3, 180)
    match = re.fullmatch(rf"(\d{{{digits}}})(\d\d(?:\.\d+)?)", text)
    if not match or len(side) != 1 or side not in sides or float(match[2]) >= 60:
        raise _make_malformed(f"{text},{side}", "a latitude" if sides == "NS" else "a longitude")
    value = int(match[1]) + float(match[2]) / 60
    if value > most:
        raise _make_malformed(f"{text},{side}", f"at most {most} degrees")
    return -value if side == sides[1] else value


def _parse_number(text: str) -> float:
    if not re.fullmatch(r"-?\d+(\.\d*)?", text):
        raise _make_malformed(text, "a number")
    return float(text)


def _parse_time(date: str, time: str) -> float:
    days, clock = re.fullmatch(r"(\d\d)(\d\d)(\d\d)", date), re.fullmatch(r"(\d\d)(\d\d)(\d\d(?:\.\d+)?)", time)
    if not days or not clock or float(clock[3]) >= 61:
        raise _make_malformed(f"{date} {time}", "a date (ddmmyy) and a time (hhmmss)")
    day, month, year = map(int, days.groups())
    try:
        moment = datetime(year + (2000 if year < 80 else 1900), month, day, int(clock[1]), int(clock[2]), tzinfo=UTC)
    except ValueError:
        raise _make_malformed(f"{date} {time}", "a date (ddmmyy) and a time (hhmmss)") from None
    return moment.timestamp() + float(clock[3])


def _make_malformed(text: str, wanted: str) -> ValueError:
    return ValueError(
        f"the receiver sent {text!r} where {wanted} belongs: check the cable, and that it speaks NMEA 0183"
    )


def read(part: SerialPart) -> dict[str, float]:
    """Wait for the next position and return it; what was received before is too old.

    Raises ValueError when there is no fix, or no NMEA sentence in 4 seconds, or at any speed.
    """
    wanted = int(part.options.get("baud", 0))
    known = part.memory.get("baud", BAUDS[0])
    bauds = sorted(BAUDS, key=lambda baud: baud != known) if part.can_set_baud else [SERIAL["baud"]]
    bauds = [wanted] if wanted else bauds
    received, tried = b"", []
    for baud in bauds:
        part.set_baud(baud)
        tried.append(baud)
        part.flush()
        received = b""
        for chunk in range(CHUNKS):
            received += part.read(CHUNK, CHUNK_S)
            found = parse_sentences(received)
            if pair := _find_fix(found):
                gga, rmc = pair
                if gga[5] in GUESSED:
                    part.doubt(GUESSED[gga[5]])
                part.memory["baud"] = baud
                return decode(gga, rmc)
            if sum(sentence.kind == "RMC" for sentence in found) > 2:
                break
            if received and not found and chunk >= FIRST_CHUNKS and baud != bauds[-1]:
                break
        if not received or parse_sentences(received):
            break
    raise ValueError(_explain_no_fix(received, parse_sentences(received), tried))


def _find_fix(found: Sequence[Sentence]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the fields of the newest GGA and RMC of one moment that both have a fix."""
    fixes = {
        s.fields[0]: s.fields for s in found if s.kind == "GGA" and len(s.fields) >= 14 and s.fields[5] not in NO_FIX
    }
    for sentence in reversed(found):
        fields = sentence.fields
        if sentence.kind == "RMC" and len(fields) >= 11 and fields[1] == "A" and fields[0] in fixes:
            return fixes[fields[0]], fields
    return None


def _explain_no_fix(received: bytes, found: Sequence[Sentence], tried: Sequence[int]) -> str:
    if not received:
        return "the receiver sends nothing: check its supply, and its TX on our RX"
    kinds = {sentence.kind for sentence in found}
    at = tried[-1] if found or len(tried) == 1 else f"{', '.join(map(str, tried[:-1]))} or {tried[-1]}"
    if missing := [kind for kind in ("GGA", "RMC") if kind not in kinds]:
        return f"no {' and no '.join(missing)} sentence in {len(received)} bytes: NMEA 0183 at {at} baud is expected"
    return f"no fix yet, {_count_in_view(found)} satellites in view: the antenna needs a free view of the sky"


def _count_in_view(found: Sequence[Sentence]) -> int:
    """Add up what each system's GSV says; without one, take GGA's count."""
    views = {s.talker: int(s.fields[2]) for s in found if s.kind == "GSV" and s.fields[2:3] and s.fields[2].isdigit()}
    used = [int(s.fields[6]) for s in found if s.kind == "GGA" and s.fields[6:7] and s.fields[6].isdigit()]
    return sum(views.values()) if views else max(used, default=0)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
