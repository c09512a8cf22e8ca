"""What is read of a process and of its home while it is soaked, and how much it grows. Source: proc(5)."""

import contextlib
import os
import stat
import statistics
from pathlib import Path
from typing import NamedTuple

PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024


class Sample(NamedTuple):
    """One look: kilobytes, counts, and when (seconds of the machine) in which life of the daemon."""

    at: float
    life: int
    rss_kb: float
    files: int
    sockets: int
    threads: int
    supervisor_kb: float
    home_files: int
    home_kb: float
    log_bytes: int
    turns: int


def resident(pid: int) -> float:
    """Resident kilobytes, 0 of a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB
    except (OSError, ValueError, IndexError):
        return 0.0


def opened(pid: int) -> tuple[int, int]:
    """How many files a process has open, and how many of them are sockets."""
    found = []
    try:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                found.append(str(path.readlink()))
    except OSError:
        pass
    return len(found), sum(one.startswith("socket:") for one in found)


def threads(pid: int) -> int:
    """How many threads a process has."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def below(folder: Path) -> tuple[int, float]:
    """How many files there are below a folder, and the kilobytes that they take."""
    sizes = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            sizes += [] if stat.S_ISDIR(found.st_mode) else [found.st_size]
    return len(sizes), sum(sizes) / 1024


def slope(points: list[tuple[float, float]]) -> float:
    """How much a quantity grows for one of the other: the median of the slopes of all pairs (Theil and Sen).

    A few strange points change nothing, which is what tells growth from a peak.
    """
    found = [(y2 - y1) / (x2 - x1) for n, (x1, y1) in enumerate(points) for x2, y2 in points[n + 1 :] if x2 > x1]
    return statistics.median(found) if found else 0.0


def settled(samples: list[Sample], share: float = 0.35) -> list[Sample]:
    """The samples of the longest life, without what it needs to get going."""
    lives: dict[int, list[Sample]] = {}
    for one in samples:
        lives.setdefault(one.life, []).append(one)
    longest = max(lives.values(), key=len, default=[])
    return longest[int(len(longest) * share) :]
