"""A process and its home: the lock that one daemon has, and what signals ask of it.

Locks by flock(2), which the kernel releases with the process: one daemon for each home, one process that samples it.
"""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from picoclaw.errors import PicoclawError
from picoclaw.files import read_file

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
