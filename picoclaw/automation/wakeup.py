"""How one process wakes the schedulers of the others on the same home: a named pipe each, no polling (fifo(7))."""

import contextlib
import errno
import os
import select
import threading
from pathlib import Path

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
