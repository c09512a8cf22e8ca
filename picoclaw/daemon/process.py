"""A process and its home: the lock that one daemon has, what signals ask of it, and what systemd is told.

Locks by flock(2), which the kernel releases with the process: one daemon for each home, one process that samples it.
The service manager is told, as in sd_notify(3), that all is well only while every thread is heard of when it has said that
it would be. Crash loops and leaks are noticed here.
"""

import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from picoclaw.errors import PicoclawError
from picoclaw.files import read_file, remove_file, write_atomic
from picoclaw.records import NamedTuple

if TYPE_CHECKING:
    from picoclaw.messages import Stop

LOCK_FILE = "run.lock"


def acquire_lock(home: Path) -> int:
    """Become the daemon of a home; returns the descriptor that holds the lock. Raises PicoclawError, OSError."""
    file = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        who = f" (process {pid})" if (pid := get_lock_holder(home)) else ""
        raise PicoclawError(f"picoclaw already runs for {home}{who}; `picoclaw status` shows its state") from None
    with suppress(OSError):  # a full disk only makes us harder to find
        os.pwrite(file, b"%-10d\n" % os.getpid(), 0)
    return file


def is_lock_held(home: Path) -> bool:
    """Whether a daemon runs on a home, without taking the lock even for a moment (proc_locks(5))."""
    try:
        file = f":{(home / LOCK_FILE).stat().st_ino} "
        return any(" FLOCK " in line and file in line for line in Path("/proc/locks").read_text("ascii").splitlines())
    except OSError:
        return False


def get_lock_holder(home: Path) -> int:
    """Return the process that held the lock last, 0 while unknown."""
    try:
        return int(read_file(home / LOCK_FILE))
    except (OSError, ValueError):
        return 0


class LeaderLock:
    """A lock that one process holds; the next waiting one gets it as soon as the holder ends, however it ends."""

    def __init__(self, path: Path, ring: Callable[[], None]) -> None:
        """`ring()` is called in a thread of its own when another process has let go and it is this one's turn."""
        self._path = path
        self._ring = ring
        self._turn = threading.Lock()
        self._file: int | None = None
        self._waits = self._ended = False

    def acquire(self) -> bool:
        """Take the lock unless another process holds it; True also where no file can be locked."""
        with self._turn:
            if self._file is None and not self._waits:
                self._take()
            return self._file is not None

    def _take(self) -> None:
        self._file = -1
        try:
            flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = file = os.open(self._path, flags, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file, self._waits = None, True
            threading.Thread(target=self._wait, args=(file,), name="next to lead", daemon=True).start()
        except OSError:
            return

    def _wait(self, file: int) -> None:
        """Sleep in the kernel until the other process lets go, or dies."""
        fcntl.flock(file, fcntl.LOCK_EX)
        with self._turn:
            if self._ended:
                os.close(file)
                return
            self._file = file
        self._ring()

    def close(self) -> None:
        """Release the lock, or stop waiting for it; may be called twice."""
        with self._turn:
            self._ended = True
            if self._file is not None and self._file >= 0:
                os.close(self._file)
            self._file = None


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPEAT_WINDOW_S = 0.4
"""Who presses Ctrl-C again within this time means the same; what the first ends is being kept meanwhile."""


class TurnStopper:
    """Ends a turn by its Stop, and by Ctrl-C where that alone has not done it after a while."""

    def __init__(self, delay: float = 0.5, signals: tuple[int, ...] = _SIGNALS) -> None:
        """`delay` is that while, in seconds: what neither reads nor waits for the Stop takes longer.

        The first of `signals` interrupts the main thread like Ctrl-C; none of them does while a turn is being kept.
        """
        self._delay, self._signals = delay, signals
        self._stop: Stop | None = None
        self._lock = threading.Lock()
        self._running = False
        self._late: threading.Timer | None = None

    @contextmanager
    def turn(self) -> "Iterator[Stop]":
        """Give the Stop of one turn; calls of `end_turn` before and after it have no effect."""
        from picoclaw.messages import Stop  # not before: a chat with a daemon that runs takes only the handlers

        self._stop = stop = Stop()
        with self._lock:
            self._running = True
        try:
            yield stop
        finally:
            with self._lock:
                self._running = False
                late, self._late = self._late, None
            if late is not None:
                late.cancel()

    def shield(self) -> AbstractContextManager[None]:
        """Block interrupting signals while a turn is being stored."""
        return block_signals(self._signals)

    @property
    def is_ending(self) -> bool:
        """Whether the running turn has been told to end."""
        return self._late is not None

    def end_turn(self) -> None:
        """End the turn that runs, if one does; from any thread."""
        with self._lock:
            if not self._running or self._late is not None or self._stop is None:
                return
            self._late = threading.Timer(self._delay, self._interrupt)
            self._late.daemon = True
            self._late.start()
        self._stop.set()

    def _interrupt(self) -> None:
        with self._lock:
            if self._running:
                # to that thread, because the kernel may give a signal of the process to another, which wakes nobody
                signal.pthread_kill(threading.main_thread().ident or 0, self._signals[0])


def handle_signals() -> threading.Event:
    """Let Ctrl-C, SIGTERM and a lost connection end the turn; returns what is set when the program is to end too.

    A program that was started in the background of a script has SIGINT ignored; it is heeded again.
    """
    leaving, last = threading.Event(), -_REPEAT_WINDOW_S

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        if number != signal.SIGINT:
            leaving.set()
        elif time.monotonic() - last < _REPEAT_WINDOW_S:
            return
        last = time.monotonic()
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    return leaving


def ignore_signals() -> None:
    """Ignore further signals: everything is stored, and the process is about to end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def block_signals(signals: tuple[int, ...] = _SIGNALS) -> Iterator[None]:
    """Ignore signals while a turn is being stored."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
