"""What is done unasked when nobody waits: the index kept up to date, the tasks gone through, the nightly dream,
conversations that are kept no longer, and copies of what must not be lost. The owner's jobs are automation/jobs.py.

Knows when each is due, and does it once: what was begun is written down first, so that neither a power cut nor a clock
that is put back has it done twice, and what fails waits for its next time.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from picoclaw import times
from picoclaw.config import Config
from picoclaw.errors import ConfigError, ProviderError, StoreError, TurnStopped
from picoclaw.files import explain_os_error
from picoclaw.memory import versions
from picoclaw.memory.dream import DreamStep
from picoclaw.memory.memory import MemoryIndex
from picoclaw.messages import Purpose, Usage
from picoclaw.prompts import Templates
from picoclaw.records import dataclass, field
from picoclaw.security.redaction import Redactor
from picoclaw.skills import Skill
from picoclaw.store.database import Database, Marks
from picoclaw.store.pulse import Pulse
from picoclaw.store.sessions import FIRST_PLAUSIBLE_YEAR, prune

if TYPE_CHECKING:
    from picoclaw.memory.dream import Dream, DreamModel

_NIGHT, _REVIEWED = "dream.day", "review.at"
_REST_S = 60.0
_REFRESH_S, _REFRESH_LEFT_S = 900.0, 120.0
_LONGEST_REFRESH_S = 5.0
_FIRST_WARMING_S = 60.0
_PRUNE_S = 86_400.0

_MaintenanceJob = Callable[["DreamModel", datetime], DreamStep]


@dataclass
class MaintenanceJobs:
    """The maintenance jobs of one home. `model` is there when one is configured; each part is made when it is first used.

    `warm` has a small model's server read the prompt ahead, and tells whether it did. It is tried again, ever more
    rarely, until it does, and anew when the server has failed since, as `failed_at` tells in seconds of the epoch, 0
    for never: one that was started anew has forgotten the prompt. `index_skills` gives vectors to the skills that have
    none, for so many seconds.
    """

    config: Config
    prompts: Templates
    database: Callable[[], Database]
    memory: Callable[[], MemoryIndex]
    skills: Callable[[], Iterable[Skill]]
    model: "Callable[[], DreamModel] | None"
    redact: Redactor | None = None
    warm: Callable[[], bool] | None = None
    failed_at: Callable[[], float] = lambda: 0.0
    index_skills: Callable[[float], object] = lambda _: None
    _warmed: bool = field(default=False, init=False)
    _warm_tried: datetime | None = field(default=None, init=False)
    _warm_tries: int = field(default=0, init=False)
    _failed_at: float = field(default=0.0, init=False)
    _rested: datetime | None = field(default=None, init=False)
    _refreshed: datetime | None = field(default=None, init=False)
    _pruned: datetime | None = field(default=None, init=False)
    _copied: datetime | None = field(default=None, init=False)
    _left: int = field(default=0, init=False)
    _said: set[str] = field(default_factory=set, init=False)

    @cached_property
    def _marks(self) -> Marks:
        return Marks(self.database())

    @cached_property
    def _dream(self) -> "Dream":
        from picoclaw.memory.dream import Dream

        home, pulse = self.config.home, Pulse(self.database())
        return Dream(home, self.config.workspace, self.prompts, pulse, self._marks, self.skills)

    def next_due(self, now: datetime) -> datetime:
        """Return when the next job may be due, `now` if one is. Raises StoreError."""
        found = [self._index_due(now)]
        if self._needs_warming():
            found.append(self._warming_due(now))
        if now.year >= FIRST_PLAUSIBLE_YEAR:
            found += filter(None, [self._review_due(now), self._night_due(now), _later(self._pruned, _PRUNE_S, now)])
        due = min(found, key=lambda moment: moment.timestamp())
        rest = _later(self._rested, _REST_S, now)
        return max(due, rest, key=lambda moment: moment.timestamp())

    def run(self, now: datetime) -> list[str]:
        """Do the due jobs; returns lines for the owner on what was done or failed. Raises TurnStopped, nothing else."""
        self._rested = now
        told: list[str] = []
        try:
            told += self._index(now)
            if now.year >= FIRST_PLAUSIBLE_YEAR:
                told += self._night(now)
                told += self._review(now)
                told += self._prune(now)
            told += self._copy(now)
            if self.warm and self._needs_warming() and _is_due(self._warming_due(now), now):
                self._warm_tried, self._warm_tries = now, self._warm_tries + 1
                self._warmed = self.warm()
                self._failed_at = self.failed_at()  # its own failure does not begin the tries anew
        except StoreError as error:
            told += self._once(f"the memory could not be looked after: {error}")
        return told

    def _needs_warming(self) -> bool:
        if self.warm is None:
            return False
        if (failed := self.failed_at()) > self._failed_at:
            self._warmed, self._warm_tries, self._failed_at = False, 0, failed
        return not self._warmed

    def _warming_due(self, now: datetime) -> datetime:
        pause = min(_FIRST_WARMING_S * 2 ** (self._warm_tries - 1), _REFRESH_S) if self._warm_tries else 0.0
        return _later(self._warm_tried, pause, now)

    def _prune(self, now: datetime) -> list[str]:
        """Delete conversations that are older or larger than the settings allow."""
        if not _is_due(_later(self._pruned, _PRUNE_S, now), now):
            return []
        self._pruned, limits = now, self.config.sessions
        try:
            prune(self.database(), now, limits.keep_days, limits.keep_mb)
        except StoreError as error:
            return self._once(f"old conversations could not be deleted: {error}")
        return []

    def _copy(self, now: datetime) -> list[str]:
        """Copy what has changed of the settings, and `state.db` once a day; as far as the disk lets us."""
        if not _is_due(_later(self._copied, _REFRESH_S, now), now):
            return []
        from picoclaw.maintenance import MaintenanceError, repair

        self._copied = now
        try:
            repair.copy_changed_files(self.config.home)
            repair.copy_state_database(self.config.home, now.timestamp(), self.redact)
            repair.create_reserve(self.config.home)
        except OSError as error:
            return self._once(f"copies in case of damage: {explain_os_error(error)}")
        except MaintenanceError as error:
            return self._once(str(error))
        return []

    def _index_due(self, now: datetime) -> datetime:
        return _later(self._refreshed, _REFRESH_LEFT_S if self._left else _REFRESH_S, now)

    def _index(self, now: datetime) -> Iterator[str]:
        if _is_due(self._index_due(now), now):
            self._refreshed, self._left = now, 0
            try:
                # a table embeds in no time when something is searched, and takes numpy to do it
                embeddings = self.config.memory.embeddings
                ahead = embeddings == "server"
                done = self.memory().refresh(seconds=_LONGEST_REFRESH_S if ahead else 0.0)
                if embeddings == "local":
                    from picoclaw.memory.embedding import find_minilm

                    ahead = find_minilm() is not None
                    if ahead and (done.chunks or done.left):
                        done = self.memory().refresh(seconds=_LONGEST_REFRESH_S)
                if ahead:
                    self.index_skills(_LONGEST_REFRESH_S)
            except StoreError as error:
                yield from self._once(f"the memory's index: {error}")
            else:
                self._left = 0 if done.problem else done.left
                yield from self._once(done.problem)

    def _review_due(self, now: datetime) -> datetime | None:
        minutes = self.config.memory.review_minutes
        if not (minutes and self.model and self._dream.unreviewed(now.date())):
            return None
        last = self._marks.get(_REVIEWED)
        return _later(datetime.fromisoformat(last) if last else None, minutes * 60, now)

    def _review(self, now: datetime) -> list[str]:
        due = self._review_due(now)
        if due is None or not _is_due(due, now):
            return []
        before = self._marks.get(_REVIEWED)
        if not self._marks.moved(_REVIEWED, before, now.isoformat(timespec="seconds")):
            return []  # another chat does it
        try:
            step = self._do(self._dream.review, now, "review")
        except TurnStopped:
            self._marks.set(_REVIEWED, before)
            raise
        said = self._format_steps([step], "review") if step.said else []
        return said if step.answered else self._once(said[0])

    def _night_due(self, now: datetime) -> datetime | None:
        """When the next nightly dream is due; a missed one is made up for, but not before the first night."""
        hour, last = self.config.memory.dream_hour, self._marks.get(_NIGHT)
        if hour < 0:
            return None
        if not last:
            return now
        day = date.fromisoformat(last)
        if day > now.date() + timedelta(days=1):
            day = date.min  # the clock was wrong then
        if day < now.date() and now.hour >= hour:
            return now
        due = times.parse_moment(f"{hour:02}:00", now)
        return due if due.date() > day else times.parse_moment(f"tomorrow {hour:02}:00", now)

    def _night(self, now: datetime) -> list[str]:
        due, last, today = self._night_due(now), self._marks.get(_NIGHT), now.date()
        if due is None or not _is_due(due, now):
            return []
        if not last:
            begun = now.hour >= self.config.memory.dream_hour
            self._marks.set(_NIGHT, str(today if begun else today - timedelta(days=1)))
            return []
        if not self._marks.moved(_NIGHT, last, str(today)):
            return []  # another chat does it
        try:
            said, _ = self.run_dream(now)
            return [*said, *self.log_dream(said, now)]
        except TurnStopped:
            self._marks.set(_NIGHT, last)
            raise

    def run_dream(self, now: datetime) -> tuple[list[str], bool]:
        """Dream now, whatever the hour; returns what was done, and whether the model answered. Raises TurnStopped."""
        steps: list[DreamStep] = []
        for job in (self._dream.memory, self._dream.tasks):
            steps.append(self._do(job, now))
            if not steps[-1].answered:
                break
        answered = all(step.answered for step in steps)
        try:
            steps.append(self._dream.housekeeping(now))
        except StoreError as error:
            steps.append(DreamStep(str(error)))
        return self._format_steps(steps, "dream"), answered

    def _do(self, job: _MaintenanceJob, now: datetime, cause: str = "dream") -> DreamStep:
        """Run a job that needs a model; without one it does nothing."""
        if self.model is None:
            return DreamStep()
        try:
            return job(self.model()._replace(purpose=Purpose(cause)), now)
        except ProviderError as error:
            return DreamStep(f"the model did not answer: {' '.join(str(error).split())}", answered=False)
        except (StoreError, ConfigError) as error:
            return DreamStep(str(error))

    @staticmethod
    def _format_steps(steps: Iterable[DreamStep], name: str) -> list[str]:
        every = list(steps)
        used = sum((step.usage for step in every), Usage())
        said = [f"{name}: {step.said}" for step in every if step.said]
        return [*said, f"{name}: {used.total} tokens"] if used.total else said

    def log_dream(self, said: list[str], now: datetime) -> list[str]:
        """Log what a dream did, if anything; returns the problem if that fails."""
        try:
            if said:
                versions.log_dream(self.config.home, now, "; ".join(line.removeprefix("dream: ") for line in said))
        except OSError as error:
            return [f"dream: {self.config.home / versions.HISTORY_FOLDER} cannot be written: {explain_os_error(error)}"]
        return []

    def _once(self, problem: str) -> list[str]:
        new = bool(problem) and problem not in self._said
        self._said.add(problem)
        return [problem] if new else []


def _later(last: datetime | None, seconds: float, now: datetime) -> datetime:
    """When a job is due again; now, if it was never done or the clock was set back since."""
    if last is None or last.timestamp() > now.timestamp():
        return now
    return times.add_seconds(last.astimezone(now.tzinfo), seconds)


def _is_due(due: datetime, now: datetime) -> bool:
    return due.timestamp() <= now.timestamp()
