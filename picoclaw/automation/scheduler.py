"""The one thread for everything that needs no model: it sleeps until the next thing is due, and never polls.

It calls what it is given at its times: `Scheduler.step` for jobs (what each does, and its words: jobs.py), the sampler (sampler.py), the rules (rule_engine.py).
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from picoclaw.automation import clock
from picoclaw.automation.clock import ClockWatch, Wakeup, is_plausible
from picoclaw.automation.jobs import (
    GRACE_S,
    JobContext,
    JobOutcome,
    decide_job,
    finish_run,
    get_job_wait,
    is_overdue,
    needs_date,
)
from picoclaw.errors import StoreError
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.jobs import Job, JobDecision, Jobs

_LONGEST_SLEEP_S = 86_400.0
_UNWATCHED_SLEEP_S = 600.0
_JOIN_TIMEOUT_S = 5.0
_STEP_LIMIT_S = 120.0
StepFunction = Callable[[float, float], float | None]
"""Takes the date and the clock that nobody can set; returns how long it may sleep, None for until it is woken."""


class SchedulerThread:
    """Runs its steps whenever something is due, another process of its home wakes it or the date is set."""

    def __init__(
        self,
        home: Path,
        opened: Callable[[ExitStack], Sequence[StepFunction]],
        say: Callable[[str], None],
        expect: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        """`opened(stack)` is called in the thread and makes what is stepped; `say` tells a person what is wrong.

        `expect` is told in how many seconds the thread will be heard of again, None for when it is woken. Raises
        OSError when no pipe can be made.
        """
        self._opened = opened
        self._say = say
        self._expect = expect
        self._wakeup = Wakeup(home)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="automation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ring(self) -> None:
        """Wake the thread; may be called from any thread."""
        self._wakeup.ring()

    def stop(self) -> None:
        """End, and wait until the thread has let go of what it opened; one that hangs keeps its pipe."""
        self._ending = True
        self._wakeup.ring()
        self._thread.join(_JOIN_TIMEOUT_S)
        if not self._thread.is_alive():
            self._wakeup.close()

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                steps = self._opened(stack)
            except StoreError as error:
                self._say(f"reminders and jobs cannot be done: {error}")
                return
            watch = clock.open_clock_watch()
            if watch >= 0:
                stack.callback(os.close, watch)
            while not self._ending:
                self._expect(_STEP_LIMIT_S)
                waits = [step(time.time(), clock.boottime()) for step in steps]
                wait = min((wait for wait in waits if wait is not None), default=None)
                if wait is not None:
                    wait = min(max(0.0, wait), _LONGEST_SLEEP_S if watch >= 0 else _UNWATCHED_SLEEP_S)
                self._expect(None if wait is None else wait + _STEP_LIMIT_S)
                self._wakeup.wait(wait, watch)
                if watch >= 0:
                    clock.has_clock_stepped(watch)


# Steps through the jobs of a home: decides what is due, has it done, has it told, and says when to look again.
#
# It looks at clocks that are handed in and never sleeps; SchedulerThread above does.

SPREAD_S = 5.0
RETRY_S = 30.0
_UNTRUSTED_RETRY_S = 60.0
JobRunner = Callable[[Job], JobOutcome | None]
"""Does a job; None when it goes on elsewhere, and `Scheduler.note_end` is called later."""


class Scheduler:
    """The jobs of one home, as one process sees them. Several may work on one database."""

    def __init__(
        self,
        jobs: Jobs,
        watch: ClockWatch,
        run: JobRunner,
        post: Callable[[], None],
        say: Callable[[str], None],
        word: Callable[[Job], Job] | None = None,
    ) -> None:
        """`run` does what is more than a reminder, `post` shows the messages, `say` a person what is wrong.

        `word` gives a reminder the heading that it is told with.
        """
        self._word = word or (lambda job: job)
        self._jobs = jobs
        self._watch = watch
        self._run = run
        self._post = post
        self._say = say
        self._ended: deque[tuple[int, JobOutcome]] = deque()
        self._late_from = float("-inf")
        self._said = ""

    def note_end(self, number: int, outcome: JobOutcome) -> None:
        """Note the end of a run; may be called from any thread."""
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
        now = JobContext(wall, mono, self._watch.boot, trusted, get_process_identity(), is_process_alive)
        if any(self._decide(job, now) for job in jobs):
            self._do(now)
            jobs = self._jobs.all()
        self._post()
        doubt, waits = self._find_untrusted_waits(jobs, now)
        spread = max(1.0, self._late_from + SPREAD_S - mono)  # for what is held back
        waits += [wait if wait > 0 else spread for job in jobs if (wait := get_job_wait(job, now)) is not None]
        wait = min(waits, default=float("inf"))
        return doubt, None if wait == float("inf") else wait

    def _do(self, now: JobContext) -> None:
        for decision in self._jobs.decide(lambda job: self._spread(self._decide(job, now), now)):
            if decision.run and decision.job and (outcome := self._run(decision.job)):
                self.note_end(decision.job.number, outcome)
        self.settle(now.wall)

    def _decide(self, job: Job, now: JobContext) -> JobDecision | None:
        decision = decide_job(job, now)
        return decide_job(self._word(job), now) if decision and decision.message else decision

    def _spread(self, decision: JobDecision | None, now: JobContext) -> JobDecision | None:
        """Start late jobs one at a time, SPREAD_S apart."""
        if decision and decision.run and decision.at < now.wall - GRACE_S:
            if now.mono < self._late_from + SPREAD_S:
                return None
            self._late_from = now.mono
        return decision

    def settle(self, wall: float) -> None:
        """Store the outcomes of the runs that have ended; raises StoreError."""
        while self._ended:
            number, outcome = self._ended[0]
            self._jobs.decide(partial(finish_run, outcome=outcome, wall=wall), number)
            self._ended.popleft()

    def _find_untrusted_waits(self, jobs: Sequence[Job], now: JobContext) -> tuple[str, list[float]]:
        """Describe the jobs that wait for a trusted date, and the seconds until the next check."""
        held = [job for job in jobs if needs_date(job, now.boot)]
        if now.trusted or not held:
            return "", []
        if not is_plausible(now.wall):  # only setting it can help
            return f"the date was never set since power-on: {_format_count(held)} for it", []
        if due := [job for job in held if is_overdue(job, now.wall)]:
            said = f"the date has not been confirmed yet: {_format_count(due)} for it, {self._watch.wait_limit}"
            return said, [min(self._watch.stable_in(now.mono), _UNTRUSTED_RETRY_S)]
        return "", [max(1.0, self._watch.stable_in(now.mono))]


def _format_count(jobs: Sequence[Job]) -> str:
    return f"{len(jobs)} appointment{'s wait' if len(jobs) > 1 else ' waits'}"
