"""Tells the service manager how the daemon is, notices frozen threads, crash loops and leaks.

Source: sd_notify(3), over its datagram socket, without a library. The manager is told that all is well only while every
thread is heard of when it has said that it would be.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from picoclaw.files import read_file, remove_file, write_atomic
from picoclaw.records import NamedTuple


def notify_systemd(environment: Mapping[str, str], *words: str) -> bool:
    """Send assignments such as READY=1; tells whether there was somebody to take them."""
    import socket

    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(1)
        connection.sendto("\n".join(words).encode(), name)
        return True
    return False


def get_watchdog_interval(environment: Mapping[str, str], pid: int) -> float:
    """Return how often the manager wants to hear from us, in seconds; 0 when it does not (sd_watchdog_enabled(3))."""
    with suppress(ValueError):
        if int(environment.get("WATCHDOG_PID") or pid) == pid:
            return max(0, int(environment.get("WATCHDOG_USEC", "0"))) / 1e6
    return 0.0


class Watchdog:
    """A thread that tells the manager twice in each of its intervals that we live, as long as it is true."""

    def __init__(self, late: Callable[[], Sequence[str]], note: Callable[[str], None]) -> None:
        """`late()` names the threads that are frozen; `note` is told of them once."""
        self._late, self._note = late, note
        self._ending = threading.Event()
        self._every_s = get_watchdog_interval(os.environ, os.getpid()) / 2

    def start(self) -> None:
        """Begin, if the manager wants it."""
        if self._every_s:
            threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()

    def _run(self) -> None:
        noted: Sequence[str] = ()
        while not self._ending.is_set():
            frozen = self._late()
            if not frozen:
                notify_systemd(os.environ, "WATCHDOG=1")
            elif frozen != noted:
                self._note(f"frozen: {', '.join(frozen)}; systemd's watchdog is no longer notified")
            noted = frozen
            self._ending.wait(self._every_s)


class ThreadDeadlines:
    """When each thread that matters will be heard of again; one that is not is frozen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float | None] = {}
        self._lock = threading.Lock()

    def expect(self, thread: str, seconds: float | None) -> None:
        """Expect to hear of it within `seconds`; None while it sleeps until somebody wakes it."""
        with self._lock:
            self._until[thread] = None if seconds is None else self._clock() + seconds

    def late(self) -> list[str]:
        """Name the threads that have missed their deadline."""
        now = self._clock()
        with self._lock:
            return [thread for thread, until in self._until.items() if until is not None and now > until]


# Notices that the daemon keeps dying: `run.begun` has a line for each start that no clean end has followed.
#
# A start is a line of seconds since 1970. A board without a clock goes on with about the time that it was cut off at, so
# that a relay which pulls the power down at each start is noticed as well.

STARTS_FILE = "run.begun"
MAX_CRASHES, CRASH_WINDOW_S = 5, 600.0


def record_start(home: Path, now: float) -> bool:
    """Note a start; tells whether so many have come to a bad end lately that only the least is to be run.

    What the disk does not take is not counted.
    """
    recent = _read_recent_starts(home, now)
    with suppress(OSError):
        lines = (f"{at:.0f}\n" for at in [*recent[-MAX_CRASHES:], now])
        write_atomic(home / STARTS_FILE, "".join(lines).encode())
    return len(recent) >= MAX_CRASHES


def has_unclean_end(home: Path) -> bool:
    """Whether the last daemon did not end cleanly."""
    return (home / STARTS_FILE).exists()


def is_crash_loop(home: Path, now: float) -> bool:
    """Whether the last starts have crashed so often that another makes no sense."""
    return len(_read_recent_starts(home, now)) >= MAX_CRASHES


def record_clean_end(home: Path) -> None:
    """Note a clean end, which clears the record of crashes."""
    with suppress(OSError):
        remove_file(home / STARTS_FILE)


def _read_recent_starts(home: Path, now: float) -> list[float]:
    starts = []
    with suppress(OSError):
        for line in read_file(home / STARTS_FILE).decode("ascii", "replace").split():
            with suppress(ValueError):
                starts.append(float(line))
    return [at for at in starts if abs(now - at) <= CRASH_WINDOW_S]


# What this process holds of its machine, and when that is so much that it begins afresh at a quiet moment.
#
# Memory, open files and threads: each of them is given back by beginning afresh, whatever has kept it.
#
# A stock Raspberry Pi OS takes every MemoryMax= and enforces none, because its firmware switches that part of the kernel
# off. Whoever waits for the kernel is ended by it, in the middle of something.

MEGABYTE = 1 << 20
_MIN_LIMIT_MB, _MAX_LIMIT_MB, _MEMORY_DIVISOR = 120, 400, 4
_MIN_AGE_S = 600.0
_MAX_FILES, _MAX_THREADS = 400, 100
"""A page with all the browsers that it lets in, and Telegram, hold half of that."""


class ResourceUsage(NamedTuple):
    """Bytes of memory, open files (sockets are among them) and threads."""

    memory: int
    files: int
    threads: int


def measure_usage() -> ResourceUsage:
    """Count what this process holds (proc(5)); 0 of what cannot be known."""
    proc = Path("/proc/self")
    try:
        os.close(os.open(proc / "fd", os.O_RDONLY))
        files = _count_entries(proc / "fd")
    except OSError as error:  # where not even these can be listed, there are as many as there may be
        files = os.sysconf("SC_OPEN_MAX") if error.errno == errno.EMFILE else 0
    return ResourceUsage(get_resident_bytes(proc / "statm"), files, _count_entries(proc / "task"))


def get_resource_limits(memory: int) -> ResourceUsage:
    """Return what a daemon may hold: so many bytes, and no more than half the files that the system lets it open."""
    allowed = os.sysconf("SC_OPEN_MAX")
    return ResourceUsage(memory, min(allowed // 2, _MAX_FILES) if allowed > 0 else _MAX_FILES, _MAX_THREADS)


def _count_entries(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208 - no path is made of each, this is asked often
    except OSError:
        return 0


def get_resident_bytes(path: Path = Path("/proc/self/statm")) -> int:
    """Return the resident bytes of this process (proc(5)), 0 where that cannot be known."""
    try:
        return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def get_default_memory_limit(total: int) -> int:
    """Return the bytes that a daemon may take on a machine that has so many: a quarter, within bounds."""
    return min(max(total // _MEMORY_DIVISOR, _MIN_LIMIT_MB * MEGABYTE), _MAX_LIMIT_MB * MEGABYTE)


def get_total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def list_exceeded_limits(now: ResourceUsage, limits: ResourceUsage, age_s: float = _MIN_AGE_S) -> list[str]:
    """Name the exceeded limits that call for a restart; none soon after a start."""
    texts = (
        f"more than {limits.memory // MEGABYTE} MB of memory",
        f"more than {limits.files} open files",
        f"more than {limits.threads} threads",
    )
    exceeded = [text for text, have, limit in zip(texts, now, limits, strict=True) if have > limit]
    return exceeded if age_s >= _MIN_AGE_S else []


_M_ARENA_MAX = -8


def limit_malloc_arenas() -> bool:
    """Let further threads share the heap of the first; returns whether this C library can.

    Source: mallopt(3). The GNU library gives threads heaps of their own, up to eight for each core, so that they need
    not wait for each other; Python's threads wait for each other anyway. What one heap has free no other can use: a
    daemon of twenty threads grew by 6 MB in 450 turns, and by 2 MB with a single heap.
    """
    import ctypes

    library = ctypes.CDLL(None)
    return hasattr(library, "mallopt") and bool(library.mallopt(_M_ARENA_MAX, 1))
