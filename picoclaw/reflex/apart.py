"""Measuring apart from the thread that everything waits in: a bus that hangs delays no reminder and no rule."""

import threading
from collections.abc import Callable, Iterable

from picoclaw.errors import PicoclawError
from picoclaw.hw.reading import Reading


class Apart:
    """Calls something slow in a thread of its own, once at a time."""

    def __init__(self, measure: Callable[[], Iterable[Reading]], done: Callable[[], None]) -> None:
        """`done()` is called in that thread when a result can be fetched."""
        self._measure = measure
        self._done = done
        self._found: list[Reading] | None = None
        self._thread: threading.Thread | None = None

    def __call__(self) -> list[Reading] | None:
        """Return what was measured since the last call; None when it begins now, or is not finished yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
            self._thread.start()
            return None
        if self._thread.is_alive() and self._found is None:
            return None
        found, self._found, self._thread = self._found, None, None
        return found or []

    def _run(self) -> None:
        try:
            self._found = list(self._measure())
        except PicoclawError:  # nothing can be measured at all; who asks a sensor by its name is told why
            self._found = []
        finally:
            self._done()
