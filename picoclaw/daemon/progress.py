"""Whether the threads that matter get on: each says when it will be heard of again, and one that is not is frozen."""

import threading
import time
from collections.abc import Callable


class Progress:
    """The promises of the threads, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody has promised anything."""
        self._clock = clock
        self._until: dict[str, float | None] = {}
        self._lock = threading.Lock()

    def expect(self, thread: str, seconds: float | None) -> None:
        """Promise that it will be heard of within `seconds`; None while it sleeps until somebody wakes it."""
        with self._lock:
            self._until[thread] = None if seconds is None else self._clock() + seconds

    def late(self) -> list[str]:
        """Name the threads that have not kept their promise."""
        now = self._clock()
        with self._lock:
            return [thread for thread, until in self._until.items() if until is not None and now > until]
