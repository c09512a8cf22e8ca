"""Notices that the daemon keeps dying: `run.begun` has a line for each start that no clean end has followed.

A start is a line of seconds since 1970. A board without a clock goes on with about the time that it was cut off at, so
that a relay which pulls the power down at each start is noticed as well.
"""

from contextlib import suppress
from pathlib import Path

from picoclaw.disk import read_file, remove, write_atomic

NAME = "run.begun"
MOST, WITHIN_S = 5, 600.0


def begun(home: Path, now: float) -> bool:
    """Note a start; tells whether so many have come to a bad end lately that only the least is to be run.

    What the disk does not take is not counted.
    """
    recent = [at for at in _starts(home) if abs(now - at) <= WITHIN_S]
    with suppress(OSError):
        _keep(home, [*recent[-MOST:], now])
    return len(recent) >= MOST


def unclean(home: Path) -> bool:
    """Tell whether the last daemon came to no clean end."""
    return (home / NAME).exists()


def often(home: Path, now: float) -> bool:
    """Tell whether so many starts have come to a bad end lately that another would help nothing."""
    return sum(abs(now - at) <= WITHIN_S for at in _starts(home)) >= MOST


def ended(home: Path) -> None:
    """Note a clean end: what came before it is forgiven."""
    with suppress(OSError):
        remove(home / NAME)


def _starts(home: Path) -> list[float]:
    try:
        lines = read_file(home / NAME).decode("ascii", "replace").split()
    except OSError:
        return []
    starts = []
    for line in lines:
        with suppress(ValueError):
            starts.append(float(line))
    return starts


def _keep(home: Path, starts: list[float]) -> None:
    write_atomic(home / NAME, "".join(f"{at:.0f}\n" for at in starts).encode())
