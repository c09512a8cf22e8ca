"""What becomes of a job at a moment, and the words of reminders by language.

Intervals and "in ten minutes" go by the monotonic clock of this boot, appointments by the date, and only while that
is trusted. An occurrence is decided on once: done, or reported as missed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from zlib import crc32

from picoclaw.config.files import read_toml
from picoclaw.files import find_shipped
from picoclaw.records import NamedTuple
from picoclaw.schedules import add_done, find_due, find_next, is_over, is_paused
from picoclaw.store.jobs import Job, JobDecision
from picoclaw.text import truncate
from picoclaw.times import format_duration

GRACE_S = 60.0
_DATE_TOLERANCE_S = 60.0  # an anchor this far from what it stands for is written anew
_LONGEST_ERROR = 500
_LONGEST_NAME = 60
RUNNING, OK, FAILED, SKIPPED, CUT_OFF, WAITING = "running", "ok", "failed", "skipped", "cut off", "waiting"


class JobContext(NamedTuple):
    """A moment: the date, the clock that nobody can set, whose boot that is, whether the date is to be believed.

    `process` is who decides, `alive` tells whether another still runs.
    """

    wall: float
    mono: float
    boot: str
    trusted: bool
    process: str
    alive: Callable[[str], bool]


class JobOutcome(NamedTuple):
    """The result of a run: whether it was successful, and its text."""

    good: bool
    text: str


class _Occurrence(NamedTuple):
    slot: str
    late_s: float
    others: str = ""


def decide_job(job: Job, now: JobContext) -> JobDecision | None:
    """Decide what becomes of a job now; None for nothing."""
    if job.claimed and not now.alive(job.claimed):
        return _record_failure(
            job._replace(claimed=""), CUT_OFF, "picoclaw ended while it ran; it is not repeated", now.wall
        )
    if not job.enabled:
        return None
    try:
        ahead, come = _CHECKS[job.plan.kind](job, now)
    except ValueError as error:
        said = str(error)
        again = (job.last_status, job.last_error) == (WAITING, said)
        waiting = job._replace(last_status=WAITING, last_error=said)
        return None if again else JobDecision(waiting, f"{_describe_job(job)} waits: {said}", now.wall)
    if come is None:
        return JobDecision(ahead) if ahead != job else None
    if is_paused(job.paused, now.wall - come.late_s):
        return JobDecision(None if is_over(ahead.plan, ahead.after, ahead.done) else ahead)
    return _decide_occurrence(ahead._replace(last_slot=come.slot), come, now)


def _decide_occurrence(job: Job, come: _Occurrence, now: JobContext) -> JobDecision:
    at = now.wall - come.late_s
    others = word_missed(job.heading, come.others) if come.others else ""
    if job.claimed:
        message = "" if job.last_status == SKIPPED else f"{_describe_job(job)} is skipped: it still runs{others}"
        return JobDecision(_disable_one_off(job._replace(last_status=SKIPPED)), message, now.wall)
    if come.late_s > GRACE_S and job.catch_up == "skip":
        skipped = f"{_describe_job(job)} was not done: it was due {format_duration(come.late_s)} ago{others}"
        return JobDecision(_disable_one_off(job._replace(last_status=SKIPPED, last_error=skipped)), skipped, now.wall)
    if job.kind == "reminder":
        told = job._replace(last_run=now.wall, last_status=OK, last_error="")
        over = job.plan.kind == "at" or is_over(job.plan, job.after, job.done)
        return JobDecision(None if over else told, f"{job.heading} {job.payload}{others}", at)
    started = _disable_one_off(job._replace(claimed=now.process, last_run=now.wall, last_status=RUNNING))
    missed = f"{_describe_job(job)}: {come.others} earlier ones were missed" if come.others else ""
    return JobDecision(started, missed, at, run=True)


def _disable_one_off(job: Job) -> Job:
    """Disable a one-off job; it is deleted when it is known to be done."""
    return job._replace(enabled=False) if job.plan.kind == "at" else job


def finish_run(job: Job, outcome: JobOutcome, wall: float) -> JobDecision:
    """Decide what is told of a run that has ended, and what is kept of it."""
    job = job._replace(claimed="")
    if not outcome.good:
        return _record_failure(job, FAILED, outcome.text, wall)
    mark = f"{crc32(outcome.text.encode('utf-8', 'replace')):08x}"
    tells = job.deliver == "always" or (job.deliver == "change" and mark != job.told)
    text = (
        outcome.text if job.kind in {"turn", "fresh"} or not outcome.text else f"{_describe_job(job)}: {outcome.text}"
    )
    message = text if tells else f"{_describe_job(job)} works again" if job.failures else ""
    kept = job._replace(last_status=OK, last_error="", failures=0, told=mark)
    over = job.plan.kind == "at" and not job.enabled  # it may have been given another time meanwhile
    over = over or is_over(job.plan, job.after, job.done)
    return JobDecision(None if over else kept, message, wall)


def _record_failure(job: Job, status: str, why: str, wall: float) -> JobDecision:
    """A failure is told once, until it has worked again."""
    why = why[:_LONGEST_ERROR]
    message = "" if job.failures else f"{_describe_job(job)}: {status}: {why}"
    return JobDecision(job._replace(last_status=status, last_error=why, failures=job.failures + 1), message, wall)


def _describe_job(job: Job) -> str:
    return f"Job {job.number} ({truncate(' '.join(job.payload.split()), _LONGEST_NAME)})"


def _check_at(job: Job, now: JobContext) -> tuple[Job, _Occurrence | None]:
    if job.boot != now.boot:
        late = now.wall - job.plan.anchor if now.trusted else -1.0
        return job, _Occurrence(f"{job.plan.anchor:.0f}", late) if late >= 0 else None
    late = now.mono - job.mono
    return _update_date(job, now), _Occurrence(f"{job.plan.anchor:.0f}", late) if late >= 0 else None


def _check_every(job: Job, now: JobContext) -> tuple[Job, _Occurrence | None]:
    seconds, ahead = job.plan.seconds, job.plan.anchor - now.wall
    if job.boot == now.boot or (job.boot == _mark_unsure(now.boot) and not now.trusted):
        late = now.mono - job.mono
    elif now.trusted and ahead < 0:
        late = -ahead
    else:  # a new boot; whether the date is right or not, it is never longer than the interval
        begun = _schedule_in(job, now, ahead if 0 <= ahead <= seconds else seconds)
        return begun if now.trusted else begun._replace(boot=_mark_unsure(now.boot), plan=job.plan), None
    if late < 0:
        return _update_date(job, now), None
    missed = int(late // seconds)
    rounds = job.rounds + missed + 1
    following = _schedule_in(job, now, (missed + 1) * seconds - late)._replace(rounds=rounds)
    return following, _Occurrence(f"round {rounds}", late - missed * seconds, str(missed) if missed else "")


def _mark_unsure(boot: str) -> str:
    """The mark of an interval that goes by this boot's clock until the date says how far the last boot had come."""
    return f"{boot}?"


def _schedule_in(job: Job, now: JobContext, seconds: float) -> Job:
    return job._replace(boot=now.boot, mono=now.mono + seconds, plan=job.plan._replace(anchor=now.wall + seconds))


def _update_date(job: Job, now: JobContext) -> Job:
    """Correct the date of a job that goes by the boot's clock, after the date was set."""
    anchor = now.wall + job.mono - now.mono
    far = now.trusted and abs(anchor - job.plan.anchor) > _DATE_TOLERANCE_S
    return job._replace(plan=job.plan._replace(anchor=anchor)) if far else job


def _check_cron(job: Job, now: JobContext) -> tuple[Job, _Occurrence | None]:
    if not now.trusted:
        return job, None
    if not job.after or job.after > now.wall + GRACE_S:
        # it was planned when nobody knew the date, or the date was put back: what was not done then comes again
        job = job._replace(after=now.wall)
    found = find_due(job.plan, job.after, now.wall, job.done)
    if found is None:
        return job, None
    late = now.wall - found.last.moment.timestamp()
    runs = (late <= GRACE_S or job.catch_up == "once") and not job.claimed
    done = add_done(job.plan, job.done, found.last) if runs else job.done
    ahead = job._replace(after=found.last.moment.timestamp(), done=done)
    return ahead, _Occurrence(found.last.identity, late, found.counted if found.others else "")


_CHECKS: dict[str, Callable[[Job, JobContext], tuple[Job, _Occurrence | None]]] = {
    "at": _check_at,
    "every": _check_every,
    "cron": _check_cron,
}


def needs_date(job: Job, boot: str) -> bool:
    """Whether the job can only be done on time when the date is known."""
    return job.enabled and (job.plan.kind == "cron" or job.boot not in {boot, _mark_unsure(boot)})


def get_job_wait(job: Job, now: JobContext) -> float | None:
    """Seconds until there is something to decide on; None when that takes a wake-up, or the date to be set."""
    if not job.enabled:
        return None
    if job.plan.kind != "cron" and job.boot in {now.boot, _mark_unsure(now.boot)}:
        return job.mono - now.mono
    if not now.trusted:
        return None
    return _get_due_time(job) - now.wall


def _get_due_time(job: Job) -> float:
    if job.plan.kind != "cron":
        return job.plan.anchor
    try:
        slot = find_next(job.plan, job.after, job.done)
    except ValueError:  # it was reported
        return float("inf")
    return slot.moment.timestamp() if slot else float("inf")


def is_overdue(job: Job, wall: float) -> bool:
    """Whether the job would be due if the date were trusted."""
    return _get_due_time(job) <= wall


ENGLISH = {
    "heading": "Reminder:",
    "late": " (was due {time} ago)",
    "missed": " ({count} earlier ones were missed)",
    "repeat": " (perhaps a repeat: picoclaw stopped while it delivered this)",
    "day": "d",
    "days": "d",
}


@cache
def _load_words() -> dict[str, dict[str, str]]:
    """What a reminder says besides its own words, by language, without English."""
    return read_toml(find_shipped("templates") / "reminders.toml")


def get_heading(language: str) -> str:
    return _load_words().get(language, ENGLISH)["heading"] if language != "en" else ENGLISH["heading"]


def find_words(text: str) -> Mapping[str, str]:
    """The words of the language that a text begins in, if it is a reminder's; English, for which no file is read."""
    if not text or text.startswith(ENGLISH["heading"]):
        return ENGLISH
    return next((words for words in _load_words().values() if text.startswith(words["heading"])), ENGLISH)


def word_missed(heading: str, count: str) -> str:
    return find_words(heading)["missed"].replace("{count}", count)
