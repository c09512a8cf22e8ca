"""Clocks that leases hang on. Sources: clock_gettime(2), timerfd_create(2), proc_sys_kernel(5) on boot_id."""

import os
import time
from functools import cache
from pathlib import Path

_TFD_TIMER_ABSTIME, _TFD_TIMER_CANCEL_ON_SET = 1, 2
_FAR = 1 << 40  # seconds since 1970: later than any board lives


def boottime() -> float:
    """Seconds since the board began, which go on while it sleeps and which nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """Name this boot; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def step_watch() -> int:
    """Open a descriptor that becomes readable when the date is set, or the board wakes from sleep.

    Returns -1 where the C library has no timerfd.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "timerfd_create"):
        return -1
    file = int(libc.timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC))
    when = (
        (ctypes.c_longlong * 4)(0, 0, _FAR, 0)
        if ctypes.sizeof(ctypes.c_long) == 8
        else (ctypes.c_long * 4)(0, 0, 2**31 - 1, 0)
    )
    if file >= 0 and libc.timerfd_settime(file, _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET, when, None):
        os.close(file)
        return -1
    return file


def steps(file: int) -> bool:
    """Tell whether the date was set since the last call (ECANCELED, as timerfd_create(2) says)."""
    try:
        os.read(file, 8)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
