"""How long something has been so: what `history.db` has of the last minutes, if sensors are followed here."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from picoclaw.errors import StoreError
from picoclaw.heartbeat.due import Sample
from picoclaw.store import chronicle
from picoclaw.store.database import Database
from picoclaw.store.points import Series
from picoclaw.store.samples import Samples

_BEFORE_S = 300.0  # the value before the time that is asked about belongs to it


class Past:
    """Samples out of the history; opened when something is first asked of it."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        """Opens nothing yet. `clock` gives seconds since 1970."""
        self._path = home / chronicle.NAME
        self._clock = clock
        self._database: Database | None = None

    def __call__(self, sensor: str, what: str, seconds: float) -> Sequence[Sample]:
        """Return the values of the last seconds and of the moment before, the oldest first; none where nothing is kept.

        What cannot be read is as if it were not there: then only what was seen counts.
        """
        if seconds <= 0 or not (self._database or self._path.exists()):
            return ()
        now = self._clock()
        try:
            self._database = self._database or Database(self._path, chronicle.MIGRATIONS)
            spans = Samples(self._database).spans(Series(sensor, what), now - seconds - _BEFORE_S, now, 1.0)
        except StoreError:
            return ()
        return [Sample(now - span.at, span.mean) for span in spans]

    def close(self) -> None:
        """Let go of it; may be called twice."""
        if self._database:
            self._database.close()
            self._database = None
