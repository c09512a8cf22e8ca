"""From the time that a job was given to its plan, and from a job to the words that say when it is due."""

from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from picoclaw import schedule, slots
from picoclaw.errors import ToolError
from picoclaw.reflex.clockwatch import plausible
from picoclaw.slots import Plan
from picoclaw.store.jobs import Job

LONGEST_S = int(schedule.LONGEST.total_seconds())
_SHOWN = 3


class When(NamedTuple):
    """The time as it was given; small models send 0 and "" for what they leave out."""

    at_seconds: float = 0.0
    at: str = ""
    every_seconds: float = 0.0
    cron_expr: str = ""
    tz: str = ""


def timed(job: Job, when: When, now: datetime, mono: float, boot: str) -> Job:
    """Give a job its time; raises ToolError saying what is missing or wrong."""
    if when.at_seconds and when.at:
        raise ToolError("give either at_seconds or at, not both")
    if when.cron_expr and (when.at_seconds or when.at or when.every_seconds):
        raise ToolError("give cron_expr alone, or at, at_seconds and every_seconds without it")
    fresh = job._replace(boot="", mono=0.0, after=0.0, done=())
    try:
        zone = schedule.zone_named(when.tz) if when.tz else None
        if when.cron_expr:
            return _by_expression(fresh, when, str(zone) if zone else _zone_name(now.tzinfo), now)
        due = _first(when, now.astimezone(zone) if zone and when.at else now)
        ahead_s = _checked(due, now)
        plan = Plan("at", anchor=due.timestamp())
        if when.every_seconds:
            plan = slots.every(when.every_seconds, due.timestamp())
    except (ValueError, OverflowError) as error:
        raise ToolError(str(error)) from None
    # What is meant from now on goes by the clock that nobody can set, a time of day by the date.
    counted = bool(when.every_seconds or when.at_seconds)
    return fresh._replace(plan=plan, boot=boot if counted else "", mono=mono + ahead_s if counted else 0.0)


def _by_expression(job: Job, when: When, zone: str, now: datetime) -> Job:
    plan = slots.cron(when.cron_expr, zone, now)
    return job._replace(plan=plan, after=now.timestamp() if plausible(now.timestamp()) else 0.0)


def renewed(job: Job, now: datetime, mono: float, boot: str) -> Job:
    """Begin a job's plan anew from now."""
    fresh = job._replace(enabled=True, failures=0, last_error="")
    if job.plan.kind == "every":
        plan = job.plan._replace(anchor=now.timestamp() + job.plan.seconds)
        return fresh._replace(plan=plan, boot=boot, mono=mono + job.plan.seconds)
    return fresh._replace(after=now.timestamp()) if job.plan.kind == "cron" else fresh


def _zone_name(zone: tzinfo | None) -> str:
    """The name to find a zone by again, '' for the board's own."""
    name = str(getattr(zone, "key", None) or zone)
    try:
        return str(schedule.zone_named(name)) if hasattr(zone, "key") or name.startswith("UTC") else ""
    except ValueError:
        return ""


def _first(when: When, now: datetime) -> datetime:
    if when.at:
        if not plausible(now.timestamp()):
            raise ToolError(f"the date was never set, the clock says {now:%Y-%m-%d %H:%M}; give at_seconds")
        return schedule.at(when.at, now)
    if not when.at_seconds and not when.every_seconds:
        raise ToolError(
            "the time is missing: give at_seconds, which must be more than 0, or at; every_seconds or cron_expr repeats"
        )
    return schedule.later(now, when.at_seconds or when.every_seconds)


def _checked(due: datetime, now: datetime) -> float:
    """Seconds until a moment that can be meant."""
    ahead_s = schedule.seconds_until(due, now)
    if ahead_s <= 0:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is in the past; it is {now:%Y-%m-%d %H:%M} now")
    if ahead_s > LONGEST_S:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is more than ten years ahead; choose an earlier time")
    return ahead_s


def upcoming(job: Job, now: datetime, most: int) -> list[datetime]:
    """The next moments of a job, by the date as it is; raises ValueError when they cannot be known."""
    if job.plan.kind == "cron":
        return [slot.moment for slot in slots.slots(job.plan, max(now, _moment(job.after, now)), most)]
    repeats = job.plan.seconds if job.plan.kind == "every" else 0.0
    return [schedule.later(_moment(job.plan.anchor, now), n * repeats) for n in range(most if repeats else 1)]


def _moment(seconds: float, now: datetime) -> datetime:
    return datetime.fromtimestamp(seconds, now.tzinfo)


def when_words(due: datetime, now: datetime) -> str:
    """Say a moment and how far it is."""
    ahead_s = schedule.seconds_until(due, now)
    shown = shortly(due, now)
    return f"{shown} (in {schedule.duration(ahead_s)})" if ahead_s > 0 else f"{shown} (due)"


def shortly(due: datetime, now: datetime) -> str:
    """Say a moment in its own zone, without the date when that is today."""
    today = now.astimezone(due.tzinfo).date()
    return due.strftime("%H:%M") if due.date() == today else due.strftime("%a %Y-%m-%d %H:%M")


def row(job: Job, now: datetime) -> str:
    """One line that says what a job is, when it is due, and how it went."""
    try:
        due = upcoming(job, now, 1)
        next_ = when_words(due[0], now) if due else "never again"
    except ValueError as error:
        next_ = f"waits: {error}"
    plan = "" if job.plan.kind == "at" else f"{slots.described(job.plan)}, next "
    kind = "" if job.kind == "reminder" else f"{job.kind}: "
    stands = "now" if job.claimed else next_ if job.enabled else "off"
    return f"{job.number}: {plan}{stands} {kind}{job.payload}{_went(job)}"


def _went(job: Job) -> str:
    """How it went the last time, when that is worth saying."""
    if job.last_status in {"", "ok"}:
        return ""
    often = f", {job.failures} times in a row" if job.failures > 1 else ""
    why = f": {job.last_error}" if job.last_error else ""
    return f" [{job.last_status}{often}{why}]"


def details(job: Job, now: datetime) -> str:
    """All that there is to know of a job."""
    try:
        following = ", ".join(shortly(due, now) for due in upcoming(job, now, _SHOWN))
    except ValueError as error:
        following = str(error)
    last = datetime.fromtimestamp(job.last_run, now.tzinfo).strftime("%Y-%m-%d %H:%M") if job.last_run else "never"
    slot = f" ({job.last_slot})" if job.last_slot else ""
    return "\n".join(
        [
            row(job, now),
            f"next: {following if job.enabled else 'off'}",
            f"last: {last}{slot}, {job.last_status or 'not yet'}",
            f"if missed: {job.catch_up}; told: {job.deliver}; failures in a row: {job.failures}",
        ]
    )


def kept(job: Job, now: datetime) -> str:
    """Say when a job that was just planned is due; one that repeats with its next three times."""
    if job.plan.kind == "at":
        return f"is kept for {when_words(upcoming(job, now, 1)[0], now)}"
    following = upcoming(job, now, _SHOWN)
    times = ", ".join(shortly(due, now) for due in following)
    return f"is kept, {slots.described(job.plan)}: {times} (the first in {_ahead(following[0], now)})"


def _ahead(due: datetime, now: datetime) -> str:
    return schedule.duration(timedelta(seconds=schedule.seconds_until(due, now)).total_seconds())
