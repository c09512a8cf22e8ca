"""One daemon for each home: flock(2) on `run.lock`, which the kernel lets go of with the process, however it ends."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from picoclaw.errors import PicoclawError
from picoclaw.files import read_file

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
