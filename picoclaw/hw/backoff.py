"""Leaving a bus that hangs alone for a while, longer each time: hammering on it helps nobody, and blocks everything."""

import errno
import time
from collections.abc import Callable
from typing import Self

from picoclaw.errors import BusFault, HardwareError

_TOLERATED = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _MOST_DOUBLINGS = 1.0, 60.0, 6


class Backoff:
    """Counts the transfers in a row that timed out on one bus."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`path` names the bus; `clock` is in seconds."""
        self._path = path
        self._clock = clock
        self._hung = 0
        self._until = 0.0

    def watched(self) -> Self:
        """Run a transfer in a `with`, or refuse to: raises BusFault while the bus is left alone."""
        return self

    def __enter__(self) -> None:
        """See watched. No generator: it is entered for every byte that is read."""
        left = self._until - self._clock()
        if left > 0:
            raise BusFault(
                f"{self._path} hung {self._hung} times in a row and is left alone for {left:.0f} s: SDA or SCL is"
                " probably held low; unplug the parts one by one, or power-cycle the board"
            )

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Count what timed out; whatever else went wrong, the bus is alive."""
        if isinstance(error, HardwareError) and getattr(error.__cause__, "errno", 0) == errno.ETIMEDOUT:
            self._count()
        elif error is None or isinstance(error, HardwareError):
            self._hung = 0

    def _count(self) -> None:
        self._hung += 1
        if self._hung >= _TOLERATED:
            pause = _FIRST_PAUSE_S * 2 ** min(self._hung - _TOLERATED, _MOST_DOUBLINGS)
            self._until = self._clock() + min(pause, _LONGEST_PAUSE_S)
