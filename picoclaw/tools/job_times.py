"""From the time that a job was given to its plan, and from a job to the words that say when it is due."""

import re
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from picoclaw import schedule, slots
from picoclaw.errors import ToolError
from picoclaw.pattern import pattern
from picoclaw.reflex.clockwatch import plausible
from picoclaw.slots import Plan
from picoclaw.store.jobs import Job, Jobs

LONGEST_S = int(schedule.LONGEST.total_seconds())
_SHOWN = 3
_MOST_TOLD = 5
_TIME_OF_DAY = pattern(r"\d?\d:\d\d")
_DAY = pattern(r"(?:on )?[a-z]+day|tomorrow|\d{4}-\d\d-\d\d", re.IGNORECASE)


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


def moved(job: Job, when: When, now: datetime) -> When:
    """The time a job is moved to: a day alone keeps its time, a time of day alone keeps its day or its days.

    Raises ToolError for a time that would end the repeating of a job.
    """
    clock = when.at.removesuffix(" o'clock")
    if job.plan.kind == "at":
        due = _moment(job.plan.anchor, now)
        if _DAY.fullmatch(when.at):
            return when._replace(at=f"{when.at} {due:%H:%M}")
        own_day = _TIME_OF_DAY.fullmatch(clock) and not when.every_seconds and due.date() > now.date()
        return when._replace(at=f"{due:%Y-%m-%d} {clock.zfill(5)}") if own_day else when
    if when.cron_expr or when.every_seconds:
        return when
    if _TIME_OF_DAY.fullmatch(clock) and (expression := slots.at_time(job.plan, clock)):
        return When(cron_expr=expression, tz=when.tz or job.plan.zone)
    raise ToolError(
        f"job {job.number} repeats, {slots.described(job.plan)}, and was left as it is; say how often it is to come"
        f" instead, as in: move reminder {job.number} to every day at 8"
    )


def later(job: Job, seconds: float, now: datetime, mono: float, boot: str) -> Job:
    """The same job, due once, so much later than it is due, or than now if that is past; raises ToolError."""
    anchor = job.plan.anchor + seconds
    if job.plan.anchor <= now.timestamp():
        return timed(job, When(at_seconds=seconds), now, mono, boot)
    _checked(_moment(anchor, now), now)
    return job._replace(plan=job.plan._replace(anchor=anchor), mono=job.mono + seconds if job.boot else 0.0)


def in_zone(job: Job, old: tzinfo | None, new: tzinfo | None, now: datetime) -> Job:
    """The same job at the same time of day in another zone, None for the board's own.

    One that goes by intervals, or by a zone of its own, stays as it is. A moment that would be past is a day later.
    """
    if job.plan.kind == "cron" and job.plan.zone in ({str(old)} if old else {"", _zone_name(now.astimezone().tzinfo)}):
        plan = job.plan._replace(zone=_zone_name(new))
        return job._replace(plan=plan, after=now.timestamp() if plausible(now.timestamp()) else job.after, done=())
    if job.plan.kind == "at" and not job.boot and job.plan.anchor > now.timestamp():
        wall = datetime.fromtimestamp(job.plan.anchor, old or slots.BoardZone()).replace(tzinfo=None)
        zone = new or slots.BoardZone()
        due = slots.shown(wall, zone)
        due = due if due.timestamp() > now.timestamp() else slots.shown(wall + timedelta(days=1), zone)
        return job._replace(plan=job.plan._replace(anchor=due.timestamp()))
    return job


def move_to_zone(jobs: Jobs, old: tzinfo | None, new: tzinfo | None, now: datetime) -> list[str]:
    """Let what was planned by the clock keep its time of day in the zone that is now known; say what, in a line."""
    told = []
    for job in jobs.all():
        if job.claimed or in_zone(job, old, new, now) == job:
            continue
        if moved_ := jobs.change(job.session, job.number, lambda job: in_zone(job, old, new, now)):
            due = datetime.fromtimestamp(moved_.plan.anchor, new or slots.BoardZone())
            when = f"{due:%a %Y-%m-%d %H:%M}" if moved_.plan.kind == "at" else slots.described(moved_.plan)
            told.append(f"{job.number} {when}")
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    where = new or "the board's own zone"
    return [f"What was planned keeps its time of day in {where}: {'; '.join(told[:_MOST_TOLD])}{more}."] if told else []


def renewed(job: Job, now: datetime, mono: float, boot: str) -> Job:
    """Begin a job's plan anew from now."""
    fresh = job._replace(enabled=True, failures=0, last_error="")
    if job.plan.kind == "every":
        plan = job.plan._replace(anchor=now.timestamp() + job.plan.seconds)
        return fresh._replace(plan=plan, boot=boot, mono=mono + job.plan.seconds)
    return fresh._replace(after=now.timestamp()) if job.plan.kind == "cron" else fresh


def _zone_name(zone: tzinfo | None) -> str:
    """The name to find a zone by again, '' for the board's own."""
    if zone is None:
        return ""
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


def _next(job: Job, now: datetime, most: int) -> list[datetime]:
    """The next moments in the owner's zone, whatever zone the job was planned in: a list is read by one clock."""
    name = _zone_name(now.tzinfo)
    zone = schedule.zone_named(name) if name else slots.BoardZone()
    return [due.astimezone(zone) for due in upcoming(job, now, most)]


def row(job: Job, now: datetime) -> str:
    """One line that says what a job is, when it is due, and how it went."""
    try:
        due = _next(job, now, 1)
        next_ = when_words(due[0], now) if due else "never again"
    except ValueError as error:
        next_ = f"waits: {error}"
    plan = "" if job.plan.kind == "at" else f"{slots.described(job.plan)}, next "
    kind = "" if job.kind == "reminder" else f"{job.kind}{shown_rights(job)}: "
    stands = "now" if job.claimed else next_ if job.enabled else "off"
    return f"{job.number}: {plan}{stands} {kind}{job.payload}{_went(job)}"


def shown_rights(job: Job) -> str:
    """Say what a command may do besides looking, '' for nothing."""
    given = [name for name in ("write", "network") if getattr(job, name)]
    return f" ({', '.join(given)})" if job.kind == "command" and given else ""


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
        following = ", ".join(shortly(due, now) for due in _next(job, now, _SHOWN))
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
