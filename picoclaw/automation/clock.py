"""The clock since the boot, whether the date can be trusted, and how the schedulers of several processes wake each other.

What becomes of a job while the date cannot be trusted is in jobs.py. Sources: clock_gettime(2), timerfd_create(2), proc_sys_kernel(5) on boot_id; fifo(7).
"""

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

_TFD_TIMER_ABSTIME, _TFD_TIMER_CANCEL_ON_SET = 1, 2
_FAR_FUTURE_S = 1 << 40  # seconds since 1970: later than any board lives


def boottime() -> float:
    """Seconds since the board began, which go on while it sleeps and which nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def read_boot_id() -> str:
    """Name this boot; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def open_clock_watch() -> int:
    """Open a descriptor that becomes readable when the date is set, or the board wakes from sleep.

    Returns -1 where the C library has no timerfd.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "timerfd_create"):
        return -1
    file = int(libc.timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC))
    when = (
        (ctypes.c_longlong * 4)(0, 0, _FAR_FUTURE_S, 0)
        if ctypes.sizeof(ctypes.c_long) == 8
        else (ctypes.c_long * 4)(0, 0, 2**31 - 1, 0)
    )
    if file >= 0 and libc.timerfd_settime(file, _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET, when, None):
        os.close(file)
        return -1
    return file


def has_clock_stepped(file: int) -> bool:
    """Tell whether the date was set since the last call (ECANCELED, as timerfd_create(2) says)."""
    try:
        os.read(file, 8)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


# Whether the date can be believed, and whether somebody has set it: arithmetic on two clocks that are handed in.

STEP_S = 2.0
STABLE_S = 600.0
_EARLIEST_DATE = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # nothing of this software is older


class ClockWatch:
    def __init__(self, vouched: Callable[[], bool], boot: str) -> None:
        """`vouched()` asks whether the network or a real-time clock stands for the date; `boot` names this boot."""
        self.boot = boot
        self._vouched = vouched
        self._apart: float | None = None
        self._since = 0.0

    def note(self, wall: float, mono: float) -> float:
        """Compare the clocks; returns by how many seconds the date was set since the last call, 0 if it was not."""
        apart = wall - mono
        step = 0.0 if self._apart is None else apart - self._apart
        if self._apart is None or abs(step) > STEP_S:
            self._since = mono
        self._apart = apart
        return step if abs(step) > STEP_S else 0.0

    def trusted(self, wall: float, mono: float) -> bool:
        """Whether the date can be trusted: plausible, and confirmed or not set for STABLE_S."""
        return is_plausible(wall) and (mono - self._since >= STABLE_S or self._vouched())

    @property
    def wait_limit(self) -> str:
        """How long it takes at most until the date is trusted, in words."""
        return f"at most until the clock has been stable for {STABLE_S / 60:.0f} minutes"

    def stable_in(self, mono: float) -> float:
        """Seconds until the date counts as stable, if nobody sets it."""
        return max(0.0, self._since + STABLE_S - mono)


def is_plausible(wall: float) -> bool:
    """Whether the date is not earlier than this software."""
    return wall >= _EARLIEST_DATE


_PIPE_PREFIX = "wake-"


class Wakeup:
    """Something to sleep on until another thread or process rings."""

    def __init__(self, home: Path, suffix: str = "") -> None:
        """Make its pipe in the home folder, one for each suffix, and remove those of processes that ended.

        Where the disk takes no name for it, only this process can wake it. Raises OSError if it cannot be made.
        """
        wake_all(home)
        self._path = home / f"{_PIPE_PREFIX}{os.getpid()}{suffix}"
        try:
            self._path.unlink(missing_ok=True)
            os.mkfifo(self._path, 0o600)
            # Opened for both directions, so that there is never an end of file.
            self._pipe = self._end = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._pipe, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_open = True
        self._lock = threading.Lock()

    def wait(self, seconds: float | None, other: int = -1) -> None:
        """Sleep until it rings, the other file has something, or the time is over; None waits without an end."""
        files = [self._pipe] if other < 0 else [self._pipe, other]
        if self._pipe in select.select(files, [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe, 4096)

    def fileno(self) -> int:
        """Return the descriptor that is readable when it has rung."""
        return self._pipe

    def ring(self) -> None:
        """Wake whoever waits on this one; may be called from any thread, also when it is closed already."""
        with self._lock, contextlib.suppress(BlockingIOError):  # it is full, so it has rung
            if self._is_open:  # else the number may be another file's by now
                os.write(self._end, b"!")

    def close(self) -> None:
        """Remove the pipe; one that stays on a disk that fails is removed by the next that rings."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        with self._lock:
            self._is_open = False
            for file in {self._pipe, self._end}:
                os.close(file)


def wake_all(home: Path) -> None:
    """Wake all processes of this home; a pipe that nobody reads any more is removed."""
    for path in home.glob(f"{_PIPE_PREFIX}*"):
        with contextlib.suppress(OSError):
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody has it open to read
                    path.unlink(missing_ok=True)
                continue
            try:
                os.write(pipe, b"!")
            finally:
                os.close(pipe)
