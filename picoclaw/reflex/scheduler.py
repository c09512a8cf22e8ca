"""Steps through the jobs of a home: decides what is due, has it done, has it told, and says when to look again.

It looks at clocks that are handed in and sleeps nowhere; `picoclaw/reflex/thread.py` is what sleeps.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from picoclaw.errors import StoreError
from picoclaw.reflex.clockwatch import ClockWatch, plausible
from picoclaw.reflex.due import GRACE_S, Now, Outcome, by_date, due_in, finished, judge, overdue
from picoclaw.store.history import alive, process_identity
from picoclaw.store.jobs import Decision, Job, Jobs

SPREAD_S = 5.0
RETRY_S = 30.0
_DOUBT_S = 60.0
Run = Callable[[Job], Outcome | None]
"""Does a job; None when it goes on elsewhere, and `Scheduler.ended` is called later."""


class Scheduler:
    """The jobs of one home, as one process sees them. Several may work on one database."""

    def __init__(
        self, jobs: Jobs, watch: ClockWatch, run: Run, post: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        """`run` does what is more than a reminder, `post` tells the letters, `say` a person what is wrong."""
        self._jobs = jobs
        self._watch = watch
        self._run = run
        self._post = post
        self._say = say
        self._ended: deque[tuple[int, Outcome]] = deque()
        self._late_from = float("-inf")
        self._said = ""

    def ended(self, number: int, outcome: Outcome) -> None:
        """Take note of how a job's run has ended; may be called from any thread."""
        self._ended.append((number, outcome))

    def step(self, wall: float, mono: float) -> float | None:
        """Do what is due; returns how long to sleep in seconds, None for until something happens."""
        self._watch.note(wall, mono)
        try:
            wrong, wait = self._step(wall, mono)
        except StoreError as error:
            wrong, wait = f"reminders and jobs wait: {error}", RETRY_S
        if wrong and wrong != self._said:
            self._say(wrong)
        self._said = wrong
        return wait

    def _step(self, wall: float, mono: float) -> tuple[str, float | None]:
        self.settle(wall)
        jobs = self._jobs.all()
        trusted = bool(jobs) and self._watch.trusted(wall, mono)
        now = Now(wall, mono, self._watch.boot, trusted, process_identity(), alive)
        if any(judge(job, now) for job in jobs):
            self._do(now)
            jobs = self._jobs.all()
        self._post()
        doubt, waits = self._doubt(jobs, now)
        spread = max(1.0, self._late_from + SPREAD_S - mono)  # for what is held back
        waits += [wait if wait > 0 else spread for job in jobs if (wait := due_in(job, now)) is not None]
        wait = min(waits, default=float("inf"))
        return doubt, None if wait == float("inf") else wait

    def _do(self, now: Now) -> None:
        for decision in self._jobs.decide(lambda job: self._spread(judge(job, now), now)):
            if decision.run and decision.job and (outcome := self._run(decision.job)):
                self.ended(decision.job.number, outcome)
        self.settle(now.wall)

    def _spread(self, decision: Decision | None, now: Now) -> Decision | None:
        """Of what comes late and is more than a few words, one thing at a time."""
        if decision and decision.run and decision.at < now.wall - GRACE_S:
            if now.mono < self._late_from + SPREAD_S:
                return None
            self._late_from = now.mono
        return decision

    def settle(self, wall: float) -> None:
        """Keep how the runs have ended that are known to have; raises StoreError."""
        while self._ended:
            number, outcome = self._ended[0]
            self._jobs.decide(partial(finished, outcome=outcome, wall=wall), number)
            self._ended.popleft()

    def _doubt(self, jobs: Sequence[Job], now: Now) -> tuple[str, list[float]]:
        """Say what waits for a date that can be believed, and how long until it may be."""
        held = [job for job in jobs if by_date(job, now.boot)]
        if now.trusted or not held:
            return "", []
        if not plausible(now.wall):  # only setting it can help
            return f"the date was never set since power-on: {_counted(held)} for it", []
        if due := [job for job in held if overdue(job, now.wall)]:
            said = f"nobody has confirmed the date yet: {_counted(due)} for it, {self._watch.patience}"
            return said, [min(self._watch.stable_in(now.mono), _DOUBT_S)]
        return "", [max(1.0, self._watch.stable_in(now.mono))]


def _counted(jobs: Sequence[Job]) -> str:
    return f"{len(jobs)} appointment{'s wait' if len(jobs) > 1 else ' waits'}"
