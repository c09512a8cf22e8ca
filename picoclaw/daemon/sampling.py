"""Samples the sensors and follows the rules while the daemon runs: puts automation/sampler.py and rule_engine.py to work."""

import contextlib
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import cached_property, partial
from pathlib import Path

from picoclaw.automation import rules
from picoclaw.automation.clock import ClockWatch, wake_all
from picoclaw.automation.rule_engine import RuleActions, RuleEngine
from picoclaw.automation.sampler import Sampler, WorkerThread
from picoclaw.daemon.process import LeaderLock
from picoclaw.errors import ConfigError, PicoclawError, StoreError, ToolError
from picoclaw.hw.loader import list_sensors, read_sensor
from picoclaw.hw.reading import Reading
from picoclaw.records import dataclass, field
from picoclaw.store.database import HISTORY_FILE, HISTORY_MIGRATIONS, Database
from picoclaw.store.samples import ClockReading, RuleLog, Samples, SampleSpan, Series, make_span, merge_spans
from picoclaw.times import TimeRange
from picoclaw.wiring import Wiring

_LOCK_FILE = "history.lock"


@dataclass
class Watch:
    """One process's part in watching; of several on one home, the first does it. Its `step` is for a SchedulerThread.

    `measure()` reads every sensor once, or returns None while that lasts; `actions` do what rules say; `parts()` counts
    what is wired.
    """

    home: Path
    measure: Callable[[], list[Reading] | None]
    actions: RuleActions
    every_s: float
    clock: ClockWatch
    zone: Callable[[], tzinfo | None] = lambda: None
    parts: Callable[[], int] = lambda: 0
    _known_parts: int = 0
    _rules_version: str | None = None
    _has_begun: bool = False
    _has_states: bool = False
    _now: ClockReading = field(init=False)

    @cached_property
    def _lead(self) -> LeaderLock:
        return LeaderLock(self.home / _LOCK_FILE, partial(wake_all, self.home))

    @cached_property
    def database(self) -> Database:
        return Database(self.home / HISTORY_FILE, HISTORY_MIGRATIONS)

    @cached_property
    def engine(self) -> RuleEngine:
        return RuleEngine(lambda: RuleLog(self.database), self.actions, self._sum_up)

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler(self.measure, lambda: Samples(self.database), self.every_s, self.engine, self._say)

    def step(self, wall: float, mono: float) -> float | None:
        """Do what is due; returns how many seconds it may sleep, None for until something changes."""
        if not self._lead.acquire():
            return None
        zone = self.zone()
        local = datetime.fromtimestamp(wall, zone) if zone else datetime.fromtimestamp(wall).astimezone()
        self.clock.note(wall, mono)
        now = self._now = ClockReading(self.clock.boot, mono, local, self.clock.trusted(wall, mono))
        self._follow(now, str(zone or ""))
        if (parts := self.parts()) > self._known_parts:
            self.sampler.hurry()
        self._known_parts = parts
        readings = self.sampler.step(now)
        if readings is not None:
            self.engine.evaluate(readings, now, self.every_s)
        wait = self.engine.tick(now)
        self.sampler.commit(now)
        sample = self.sampler.wait(now, wanted=bool(self.engine.wanted))
        return min((seconds for seconds in (wait, sample) if seconds is not None), default=None)

    def close(self) -> None:
        """Store what is pending, and release the lock; may be called twice."""
        if self._has_begun:
            self.sampler.commit(self._now, all_of_it=True)
        if database := self.__dict__.pop("database", None):
            with contextlib.suppress(StoreError):
                database.close()
        self._has_begun = False
        self._lead.close()

    def _follow(self, now: ClockReading, zone: str) -> None:
        """Read the rules anew when their file is another one."""
        self._has_begun = True
        try:
            found = (self.home / rules.RULES_FILE).stat()
            version = f"{found.st_mtime_ns} {found.st_size} {found.st_ino} {zone}"
        except OSError:
            version = ""
        if version == self._rules_version:
            return
        if not self._has_states and (version or (self.home / HISTORY_FILE).exists()):
            self.engine.begin()
            self._has_states = True
        self.engine.follow(rules.load_rules(self.home, now.wall, zone))
        self._rules_version = version

    def _sum_up(self, series: Series, when: TimeRange) -> SampleSpan | None:
        """Sum up what is kept, and what is not kept yet: a rule that asks for every sample costs no writing."""
        begin, end = when.begin.timestamp(), when.end.timestamp()
        kept = Samples(self.database).whole(series, begin, end)
        offset = self._now.wall.timestamp() - self._now.mono
        pending = (make_span(at + offset, value) for at, value in self.sampler.pending(series))
        return merge_spans([*([kept] if kept else []), *(span for span in pending if begin <= span.at < end)])

    def _say(self, text: str) -> None:
        with contextlib.suppress(PicoclawError):
            self.actions.tell(text)


def read_followed_sensors(wiring: Wiring, wanted: Callable[[], set[Series]]) -> list[Reading]:
    """Read what is followed, one after the other: every sensor outside the board, and what a rule names."""
    named = {series.sensor for series in wanted()}
    try:
        known = list_sensors(wiring.board, dict(wiring.wired))
    except ConfigError:
        return []
    followed = (one for one in known if one.part or not one.kernel[0].is_internal or one.name in named)
    return [reading for sensor in followed for reading in read_sensor(wiring.board, wiring.drivers, sensor)]


def make_switch(wiring: Wiring) -> Callable[[str, str, float | None], str]:
    """Return what asks the supervisor for an output, as a rule."""

    def switch(output: str, level: str, seconds: float | None) -> str:
        if wiring.outputs is None:
            raise ToolError(f"there is no output {output!r}: outputs.toml declares none")
        return wiring.outputs.set(wiring.outputs.meant(output), level, seconds, "rule")

    return switch


def make_watch(
    wiring: Wiring,
    every_s: float,
    clock: ClockWatch,
    zone: Callable[[], tzinfo | None],
    actions: RuleActions,
    ring: Callable[[], None],
    heard: Callable[[list[Reading]], list[Reading]] = list,
) -> Watch:
    """Put a Watch together whose sensors are read in a thread of their own; `ring()` wakes the one that steps it.

    `heard` is told of what was measured, in that thread, and gives it back.
    """
    apart = WorkerThread(lambda: heard(read_followed_sensors(wiring, lambda: watch.engine.wanted)), ring)
    watch = Watch(wiring.config.home, apart, actions, every_s, clock, zone, lambda: len(wiring.wired))
    return watch
