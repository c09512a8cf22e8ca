"""How one process wakes the clockwork of the others on the same home: a named pipe each, no polling (fifo(7))."""

import contextlib
import errno
import os
import select
import threading
from pathlib import Path

_PREFIX = "bell-"


class Bell:
    """Something to sleep on until it rings. A context manager."""

    def __init__(self, home: Path) -> None:
        """Hang it up in the home folder, and take down those of the dead; raises OSError if it cannot be made."""
        ring(home)
        self._path = home / f"{_PREFIX}{os.getpid()}"
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path, 0o600)
        # Opened for both directions, so that there is never an end of file.
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._hangs = True
        self._lock = threading.Lock()

    def wait(self, seconds: float | None, other: int = -1) -> None:
        """Sleep until it rings, the other file has something, or the time is over; None waits without an end."""
        files = [self._pipe] if other < 0 else [self._pipe, other]
        if self._pipe in select.select(files, [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe, 4096)

    def ring(self) -> None:
        """Wake whoever waits on this one; may be called from any thread, also when it is taken down already."""
        with self._lock, contextlib.suppress(BlockingIOError):  # it is full, so it has rung
            if self._hangs:  # else the number may be another file's by now
                os.write(self._pipe, b"!")

    def close(self) -> None:
        """Take it down."""
        self._path.unlink(missing_ok=True)
        with self._lock:
            self._hangs = False
            os.close(self._pipe)


def ring(home: Path) -> None:
    """Wake everyone who sleeps on a bell of this home; a bell whose owner is dead is taken down."""
    for path in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _ring(path)


def _ring(path: Path) -> None:
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nobody has it open to read
            path.unlink(missing_ok=True)
        return
    try:
        os.write(pipe, b"!")
    finally:
        os.close(pipe)
