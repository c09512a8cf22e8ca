"""Measures all sensors every few minutes and keeps what they say; a sensor that fails, or stops answering, is noted here.

Clocks and hardware are handed in. One reading that somebody asks for is hw/loader.py's; the rows are store/samples.py's.
"""

import threading
from collections.abc import Callable, Iterable, Sequence

from picoclaw.automation.rule_engine import RuleEngine
from picoclaw.errors import PicoclawError, StoreError
from picoclaw.hw.reading import Reading
from picoclaw.store.samples import ClockReading, SampleBlock, Samples, SensorFailure, Series
from picoclaw.text import pattern

_COMMIT_S = 60.0
_JITTER_S = 1.0
_MEASURE_TIMEOUT_S = 30.0
_FOLD_S = 3600.0
_MAX_PENDING = 20_000
_NOT_SAMPLED = {"time", "latitude", "longitude"}
"""A date is no measurement, and where somebody was is nothing to be kept unasked."""

_NUMBERS = pattern(r"[\d.]+")
_Points = list[tuple[float, float | None]]


class Sampler:
    def __init__(
        self,
        measure: Callable[[], list[Reading] | None],
        samples: Callable[[], Samples],
        every_s: float,
        rules: RuleEngine | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`measure()` reads every sensor once, one after the other, and is called again when it returns None.

        `samples()` opens the store when it is needed, `rules` have their states kept at a commit; `say` tells the owner, once, that nothing can be kept.
        """
        self._measure = measure
        self._samples = samples
        self.every_s = every_s
        self._rules = rules
        self._say = say
        self._due = -1.0
        self._asked: float | None = None
        self._committed = self._folded = 0.0
        self._pending: dict[Series, _Points] = {}
        self._troubles: dict[str, SensorFailure] = {}
        self._news: dict[tuple[str, float], SensorFailure] = {}
        self._followed: dict[str, set[Series]] = {}
        self._complaint = ""
        self.lost = 0

    def step(self, now: ClockReading) -> list[Reading] | None:
        """Measure when it is time; returns what was measured, None when it was not time or is not finished.

        While it does not finish at all, it returns now and then that nothing was measured.
        """
        if now.mono >= self._due and self._asked is None:
            behind = (now.mono - self._due) % self.every_s if self._due >= 0 else 0.0
            self._due, self._asked = now.mono - behind + self.every_s, now.mono
        if self._asked is None:
            return None
        readings = self._measure()
        if readings is not None:
            self._note(readings, self._asked)
            self._asked = None
            return readings
        if now.mono < max(self._due, self._asked + _MEASURE_TIMEOUT_S):
            return None
        self._due = now.mono + self.every_s
        return []

    def hurry(self) -> None:
        """Measure at the next step, because there is something new to measure."""
        self._due = -1.0

    def wait(self, now: ClockReading, *, wanted: bool = False) -> float | None:
        """Return in how many seconds there is something to do, None when there is nothing to measure.

        `wanted`: a rule follows a sensor, be it there or not. What is being measured rings when it is done.
        """
        if self._asked is not None:
            return max(0.0, max(self._due, self._asked + _MEASURE_TIMEOUT_S) - now.mono)
        return max(0.0, self._due - now.mono) if self._followed or wanted else None

    def pending(self, series: Series) -> Sequence[tuple[float, float | None]]:
        """Return what is not kept yet of a series, by the boot's seconds."""
        return self._pending.get(series, ())

    def commit(self, now: ClockReading, *, all_of_it: bool = False) -> None:
        """Store the samples, at most once a minute unless `all_of_it`."""
        states = self._rules.news() if self._rules else {}
        nothing = not (self._pending or states)
        if nothing or (now.mono - self._committed < _COMMIT_S - _JITTER_S and self._committed and not all_of_it):
            return
        try:
            blocks = [SampleBlock(series, points) for series, points in self._pending.items()]
            self._samples().keep(now, blocks, self._news.values(), states)
            if now.mono - self._folded >= _FOLD_S:
                self._folded = now.mono
                self._samples().fold(now)
        except StoreError as error:
            self._wait_for_the_disk(str(error), now)
            return
        if self._rules:
            self._rules.note_saved(states)
        self._committed, self._pending, self._news, self._complaint = now.mono, {}, {}, ""

    def _wait_for_the_disk(self, problem: str, now: ClockReading) -> None:
        """Try again in a minute; memory is not for ever, so the oldest go when there are too many."""
        self._committed = now.mono
        if problem != self._complaint:
            self._complaint = problem
            self._say(f"measurements are not being kept: {problem}")
        while sum(map(len, self._pending.values())) > _MAX_PENDING:
            for points in self._pending.values():
                self.lost += len(points) // 2
                del points[: len(points) // 2]

    def _note(self, readings: Iterable[Reading], at: float) -> None:
        sensors: dict[str, list[Reading]] = {}
        for reading in readings:
            if reading.quantity not in _NOT_SAMPLED:
                sensors.setdefault(reading.sensor, []).append(reading)
        for sensor, group in sensors.items():
            followed = self._followed.setdefault(sensor, set())
            values = {Series(sensor, reading.label): reading.value for reading in group}
            if not any(value is not None for value in values.values()) and followed:
                values = dict.fromkeys(followed)  # a sensor that fails as a whole names one quantity of it
            followed.update(values)
            for series, value in values.items():
                self._pending.setdefault(series, []).append((at, value))
            self._trouble(sensor, next((r.problem for r in group if r.value is None), ""), at)

    def _trouble(self, sensor: str, problem: str, at: float) -> None:
        """Note why a sensor failed; what differs in its numbers only is the same trouble, and lasts."""
        known = self._troubles.pop(sensor, None)
        if problem:
            lasts = known is not None and _NUMBERS.sub("", known.problem) == _NUMBERS.sub("", problem)
            began, times = (known.began, known.times + 1) if known and lasts else (at, 1)
            self._troubles[sensor] = self._news[sensor, began] = SensorFailure(sensor, began, at, times, problem)


class WorkerThread:
    """Runs slow measurements in a thread of their own, one at a time: a bus that hangs delays no reminder and no rule."""

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
