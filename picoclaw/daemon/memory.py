"""What this process holds of its machine, and when that is so much that it begins afresh at a quiet moment.

Memory, open files and threads: each of them is given back by beginning afresh, whatever has kept it.

A stock Raspberry Pi OS takes every MemoryMax= and enforces none, because its firmware switches that part of the kernel
off. Whoever waits for the kernel is ended by it, in the middle of something.
"""

import errno
import os
from pathlib import Path
from typing import NamedTuple

MEGABYTE = 1 << 20
_LEAST_MB, _MOST_MB, _SHARE = 120, 400, 4
_SETTLED_S = 600.0
_MOST_FILES, _MOST_THREADS = 400, 100
"""A page with all the browsers that it lets in, and Telegram, hold half of that."""


class Held(NamedTuple):
    """Bytes of memory, open files (sockets are among them) and threads."""

    memory: int
    files: int
    threads: int


def held(proc: Path = Path("/proc/self")) -> Held:
    """Count what this process holds (proc(5)); 0 of what cannot be known."""
    return Held(resident(proc / "statm"), _files(proc / "fd"), _entries(proc / "task"))


def most(memory: int) -> Held:
    """Return what a daemon may hold: so many bytes, and no more than half the files that the system lets it open."""
    allowed = os.sysconf("SC_OPEN_MAX")
    return Held(memory, min(allowed // 2, _MOST_FILES) if allowed > 0 else _MOST_FILES, _MOST_THREADS)


def _files(folder: Path) -> int:
    """Count the open files; where not even these can be listed, there are as many as there may be."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except OSError as error:
        return os.sysconf("SC_OPEN_MAX") if error.errno == errno.EMFILE else 0
    return _entries(folder)


def _entries(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208 - no path is made of each, this is asked often
    except OSError:
        return 0


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


def leaks(now: Held, limits: Held, age_s: float = _SETTLED_S) -> list[str]:
    """Say what it is time to begin afresh for, nothing soon after a start, which would help nothing."""
    if age_s < _SETTLED_S:
        return []
    words = (
        f"more than {limits.memory // MEGABYTE} MB of memory",
        f"more than {limits.files} open files",
        f"more than {limits.threads} threads",
    )
    return [text for text, have, limit in zip(words, now, limits, strict=True) if have > limit]
