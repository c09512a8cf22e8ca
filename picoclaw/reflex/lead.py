"""Which of several processes on one home does what only one may do: the one that holds the lock (flock(2))."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path


class Lead:
    """One process's wish for it. The next one has it as soon as the first ends, however it ends."""

    def __init__(self, path: Path, ring: Callable[[], None]) -> None:
        """`ring()` is called in a thread of its own when another process has let go and it is this one's turn."""
        self._path = path
        self._ring = ring
        self._turn = threading.Lock()
        self._file: int | None = None
        self._waits = self._ended = False

    def mine(self) -> bool:
        """Take it unless another process has it; where no file can be locked, better two than none."""
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
        """Let the next one have it, or wait for it no longer; may be called twice."""
        with self._turn:
            self._ended = True
            if self._file is not None and self._file >= 0:
                os.close(self._file)
            self._file = None
