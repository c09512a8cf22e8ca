"""How much memory this process has, and when that is so much that it begins afresh at a quiet moment.

A stock Raspberry Pi OS takes every MemoryMax= and enforces none, because its firmware switches that part of the kernel
off. Whoever waits for the kernel is ended by it, in the middle of something.
"""

import os
from pathlib import Path

MEGABYTE = 1 << 20
_LEAST_MB, _MOST_MB, _SHARE = 120, 400, 4
_SETTLED_S = 600.0


def resident(path: Path = Path("/proc/self/statm")) -> int:
    """Return the resident bytes of this process (proc(5)), 0 where that cannot be known."""
    try:
        return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def usual_limit(total: int) -> int:
    """Return the bytes that a daemon may take on a machine that has so many: a quarter, within bounds."""
    return min(max(total // _SHARE, _LEAST_MB * MEGABYTE), _MOST_MB * MEGABYTE)


def total() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def too_much(now: int, limit: int, age_s: float) -> bool:
    """Tell whether it is time to begin afresh; not soon after a start, which would help nothing."""
    return now > limit and age_s >= _SETTLED_S
