"""Whose turn it is on a bus, among the threads of this process and between processes. Source: fcntl(2), on OFD locks.

The locks are byte ranges of the bus's own device file: whoever may use the bus can take them, whatever user it is, and
the kernel drops them when a process ends in whatever way. A part's lock is held for a whole reading, the bus's only
while bytes are moved: a part that measures for seconds keeps no other part waiting. A part's lock comes before the
bus's, so that two never wait for each other.
"""

import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from picoclaw.errors import BusFault

PART_TIMEOUT_S, BUS_TIMEOUT_S, URGENT_TIMEOUT_S = 10.0, 3.0, 0.1
_RETRY_S = 0.005
_BUS_BYTE = 0x1000  # beyond the addresses, each of which is the byte of its part
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock: type, whence, start, length, process

_LOCKS: dict[str, threading.Lock] = {}


class BusLock:
    """A turn with one part. Entering waits a bounded time for others; raises BusFault when it is over."""

    def __init__(self, bus: str, part: str, path: str, byte: int = 0, *, urgent: bool = False) -> None:
        """`bus` and `part` name both for people, `path` is the bus's device file, '' for none, `byte` is the part's.

        An `urgent` one, which brings an output to its safe level, waits for 0.1 s and goes on then in any case.
        """
        self._bus, self._part, self._path, self._byte, self._urgent = bus, part, path, byte, urgent
        self._file = -1
        self._held: list[tuple[threading.Lock, int]] = []

    def __enter__(self) -> Self:
        """Take the part, then the bus."""
        with suppress(OSError):  # what opens the bus says what is wrong with it
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK) if self._path else -1
        try:
            self._take(self._part, self._byte, PART_TIMEOUT_S)
            if self._bus != self._part:  # a serial port has one part
                self._take(self._bus, _BUS_BYTE, BUS_TIMEOUT_S)
        except BusFault:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give both back."""
        while self._held:
            self._give_back()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def pausing(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        """Return a `sleep` during which others may use the bus, but not the part."""

        def pause(seconds: float) -> None:
            if len(self._held) < 2:  # we went on without
                sleep(seconds)
                return
            self._give_back()
            sleep(seconds)
            self._take(self._bus, _BUS_BYTE, BUS_TIMEOUT_S)

        return pause

    def _take(self, name: str, byte: int, seconds: float) -> None:
        until = time.monotonic() + (URGENT_TIMEOUT_S if self._urgent else seconds)
        lock = _LOCKS.setdefault(name, threading.Lock())
        if lock.acquire(timeout=until - time.monotonic()):
            while not self._locked(byte):
                if time.monotonic() >= until:
                    lock.release()
                    break
                time.sleep(_RETRY_S)
            else:
                self._held.append((lock, byte))
                return
        if not self._urgent:
            raise BusFault(f"{name} has been in use by another program or task for {seconds:g} s: try again")

    def _locked(self, byte: int) -> bool:
        """Take a byte of the file; a file system without such locks keeps nobody from reading."""
        if self._file < 0:
            return True
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True
        return True

    def _give_back(self) -> None:
        lock, byte = self._held.pop()
        if self._file >= 0:
            with suppress(OSError):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0))
        lock.release()
