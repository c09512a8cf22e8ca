"""What a soak has to have kept: every promise once, nothing that grows, nothing left on. Arithmetic."""

import re
import statistics
from typing import NamedTuple

from gauges import Sample, settled, slope

MEGABYTE = 1024.0
GROWTH_KB = 8 * MEGABYTE
"""A daemon adds 8 MB from its 30th to its 600th turn, and nothing afterwards: parts of the matcher's grammar are read when a
sentence first needs them, conversations grow to their first summary, and the table of interned strings is doubled once."""

FILES, THREADS, HOME_FILES = 3.0, 2.0, 10.0
KB_A_TURN = 40.0
LOG_A_FAULT, LOG = 600, 20_000
EARLIER = re.compile(r"(\d+) earlier ones were missed")
TIMES = re.compile(r"(\d+) times, ")


class Row(NamedTuple):
    """One thing that was looked at."""

    good: bool
    what: str
    found: str


def same(what: str, found: object, wanted: object) -> Row:
    """It has to be exactly that."""
    return Row(found == wanted, what, f"{found}" if found == wanted else f"{found}, and not {wanted}")


def none(what: str, found: object) -> Row:
    """There has to be nothing of it."""
    return Row(not found, what, f"{found}" if found else "none")


def about(what: str, found: float, wanted: float, apart: float) -> Row:
    """It has to be as many, give or take."""
    return Row(abs(found - wanted) <= apart, what, f"{found:g} (expected {wanted:.1f}, ± {apart:g})")


def within(what: str, found: int, least: int, limit: int) -> Row:
    """It has to be between two numbers."""
    wanted = f"{least}" if least == limit else f"{least} to {limit}"
    return Row(least <= found <= limit, what, f"{found} (expected {wanted})")


def most(what: str, found: float, limit: float, unit: str = "") -> Row:
    """It has to be no more than that."""
    return Row(found <= limit, what, f"{found:.1f}{unit} (at most {limit:.0f}{unit})")


def each_once(what: str, wanted: list[int], found: list[int]) -> list[Row]:
    """Everything that was promised was done, and nothing twice."""
    lost = sorted(set(wanted) - set(found))
    twice = sorted({one for one in found if found.count(one) > 1})
    counted = Row(not lost, f"{what}: lost", f"{lost}" if lost else f"none of {len(wanted)}")
    return [counted, Row(not twice, f"{what}: twice", f"{twice}" if twice else f"none of {len(found)}")]


def times(texts: list[str], words: str) -> int:
    """How often something was told, or said to have been missed; many letters may have come as one."""
    total = 0
    for line in (line for text in texts for line in text.splitlines() if words in line):
        often = TIMES.search(line)
        missed = EARLIER.search(line)
        total += int(often[1]) if often else 1
        total += int(missed[1]) if missed else 0
    return total


def growth(samples: list[Sample], name: str) -> float:
    """By how much a figure has grown in the longest life, after it had got going."""
    found = settled(samples)
    points = [(one.at, float(getattr(one, name))) for one in found[:: max(1, len(found) // 200)]]
    return slope(points) * (found[-1].at - found[0].at) if len(found) > 1 else 0.0


def a_turn(samples: list[Sample], name: str) -> float:
    """By how much a figure has grown for each turn, from the first to the last look."""
    first, last = samples[len(samples) // 5], samples[-1]
    return (getattr(last, name) - getattr(first, name)) / max(1, last.turns - first.turns)


def steady(samples: list[Sample], *, day: bool, faults: int) -> list[Row]:
    """Nothing grows."""
    found = settled(samples)
    if len(found) < 10:
        return [Row(False, "samples", f"only {len(found)} of a settled daemon")]
    usual = statistics.median(one.rss_kb for one in found) / MEGABYTE
    turns = max(1, found[-1].turns - found[0].turns)
    return [
        Row(True, "resident", f"{usual:.1f} MB, and the supervisor {found[-1].supervisor_kb / MEGABYTE:.1f} MB"),
        most(f"growth over {turns} turns", growth(samples, "rss_kb"), GROWTH_KB, " KB"),
        most("growth of the supervisor", growth(samples, "supervisor_kb"), MEGABYTE, " KB"),
        most("more files open", growth(samples, "files"), FILES),
        most("more sockets open", growth(samples, "sockets"), FILES),
        most("more threads", growth(samples, "threads"), THREADS),
        most("on the disk for a turn", a_turn(samples, "home_kb"), KB_A_TURN, " KB"),
        most("more files in the home", growth(samples, "home_files"), HOME_FILES),
        most("log", found[-1].log_bytes, LOG + LOG_A_FAULT * faults, " bytes"),
    ]
