"""Locks by flock(2), which the kernel releases with the process: one daemon for each home, one process that samples it."""

import fcntl
import os
import threading
from collections.abc import Callable
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
