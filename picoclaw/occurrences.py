"""Plans of jobs, and the moments that they mean: each has a name, so that none is done twice.

An hour that is named is an hour of the day: where clocks are put forward over it, it is done once, at the end of what
they skip; where they are put back, in the first of two. With `*` for the hour it is every hour that passes.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal, NamedTuple

from picoclaw.text import pattern
from picoclaw.times import format_duration, parse_zone

MIN_JOB_INTERVAL_S = 60.0
_MAX_EXPRESSION = 120
_MAX_COUNTED = 100
_MINUTE = timedelta(minutes=1)
_SEARCH_WINDOWS_S = tuple(days * 86_400.0 for days in (1 / 24, 1, 32, 366, 366 * 9))
_CRON_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SIMPLE_EXPRESSION = pattern(r"(?P<minute>\d\d?) (?P<hours>\d\d?(?:,\d\d?)*) \* \* (?P<days>\*|1-5|[0-6](?:,[0-6])*)")
_DAY_SET_NAMES = {"*": "day", "1-5": "weekday", "0,6": "weekend day"}
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_EXPRESSION_FORM = "five fields: minute hour day month weekday, such as '30 7 * * 1-5'"

DoneSpans = tuple[tuple[float, float], ...]
_MAX_SPANS = 8


class Plan(NamedTuple):
    """When a job is due. `anchor` is in seconds since 1970.

    "at" is due once, at its anchor; "every" at its anchor and then every `text` seconds; "cron" whenever the
    expression `text` says so in the zone of that name, or in the board's own.
    """

    kind: Literal["at", "every", "cron"]
    text: str = ""
    zone: str = ""
    anchor: float = 0.0

    @property
    def seconds(self) -> float:
        """The interval of an "every"."""
        return float(self.text)


class Occurrence(NamedTuple):
    """One moment of a plan; the identity is the local time that was planned, with its offset."""

    moment: datetime
    identity: str


class DueOccurrences(NamedTuple):
    """What has come due: the last slot, and how many others before it, `_MOST_COUNTED` standing for more."""

    last: Occurrence
    others: int

    @property
    def counted(self) -> str:
        """The number of the others in words."""
        return f"more than {_MAX_COUNTED - 1}" if self.others >= _MAX_COUNTED else str(self.others)


class BoardZone(tzinfo):
    """The zone that this machine is set to, with its summer time; `astimezone()` alone knows one offset of it."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """See datetime.tzinfo."""
        plain = (moment or datetime.now(UTC)).replace(tzinfo=None)
        return plain - datetime.fromtimestamp(plain.timestamp(), UTC).replace(tzinfo=None)

    def dst(self, _: datetime | None) -> timedelta | None:
        """See datetime.tzinfo."""
        return None

    def tzname(self, _: datetime | None) -> str:
        """See datetime.tzinfo."""
        return time.tzname[0]

    def fromutc(self, moment: datetime) -> datetime:
        """See datetime.tzinfo."""
        return datetime.fromtimestamp(moment.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006


def get_plan_zone(plan: Plan) -> tzinfo:
    """Find its zone; raises ValueError saying why it cannot be known."""
    return parse_zone(plan.zone) if plan.zone else BoardZone()


def plan_interval(seconds: float, anchor: float) -> Plan:
    """Plan something at an interval; raises ValueError when it is too short."""
    if seconds < MIN_JOB_INTERVAL_S:
        raise ValueError(f"every {seconds:g} s is too often; the shortest interval is {MIN_JOB_INTERVAL_S:g} s")
    return Plan("every", f"{seconds:g}", "", anchor)


def plan_cron(text: str, zone: str, after: datetime) -> Plan:
    """Plan by a cron expression; raises ValueError saying what is wrong with it, or with the zone."""
    words = _CRON_ALIASES.get(text.strip().lower(), " ".join(text.split()))
    if len(words) > _MAX_EXPRESSION or len(words.split()) != 5:
        raise ValueError(f"{text[:60]!r} is not a cron expression; write {_EXPRESSION_FORM}")
    plan = Plan("cron", words, zone, after.timestamp())
    if not list_occurrences(plan, after, 1):
        raise ValueError(f"{words!r} never comes")
    return plan


def list_occurrences(plan: Plan, after: datetime, most: int) -> list[Occurrence]:
    """Give the next slots after a moment; raises ValueError when the expression or the zone cannot be used."""
    return list(islice(_iter_occurrences(plan, after.timestamp()), most))


def _iter_occurrences(plan: Plan, after: float) -> Iterator[Occurrence]:
    zone = get_plan_zone(plan)
    if plan.kind == "cron":
        for moment, named in _iter_cron(plan.text, after, zone):
            yield Occurrence(moment, named.isoformat(timespec="minutes"))
        return
    step = plan.seconds if plan.kind == "every" else 0.0
    first = max(0, int((after - plan.anchor) // step) + 1) if step else int(after >= plan.anchor)
    for number in range(first, _find_last(plan) + 1):
        moment = datetime.fromtimestamp(plan.anchor + number * step, zone)
        yield Occurrence(moment, moment.isoformat(timespec="seconds"))


def _find_last(plan: Plan) -> int:
    return 1 << 40 if plan.kind == "every" else 0


def _iter_cron(text: str, after: float, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    from cronsim import CronSim, CronSimError

    start = datetime.fromtimestamp(after, zone)
    any_hour = text.split()[1] == "*"
    before = after
    try:
        for found in CronSim(text, start if any_hour else start.replace(tzinfo=None, fold=0)):
            named = found.replace(tzinfo=zone)
            moment = named if any_hour else find_shown_time(found, zone)
            if moment.timestamp() > before:
                before = moment.timestamp()
                yield moment, named
    except (CronSimError, ValueError) as error:
        raise ValueError(
            f"{text!r} is not a cron expression ({str(error).lower()}); write {_EXPRESSION_FORM}"
        ) from None
    except OverflowError:  # the end of the calendar
        return


def find_shown_time(plain: datetime, zone: tzinfo) -> datetime:
    """When a clock of the zone first shows a time, or the first one behind it that it does show."""
    while True:
        moment = plain.replace(tzinfo=zone, fold=0)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0) == plain:
            return moment
        plain = plain.replace(second=0) + _MINUTE


def find_due(plan: Plan, after: float, now: float, done: DoneSpans = ()) -> DueOccurrences | None:
    """Tell what of a plan lies after a moment and not in the future, without what was done; None for nothing."""
    found = list(islice(_iter_not_done(plan, after, now, done), _MAX_COUNTED + 1))
    if len(found) <= _MAX_COUNTED:
        return DueOccurrences(found[-1], len(found) - 1) if found else None
    for window_s in _SEARCH_WINDOWS_S:
        found = list(_iter_not_done(plan, max(after, now - window_s), now, done)) or found
        if found[-1].moment.timestamp() >= now - window_s:
            break
    return DueOccurrences(found[-1], _MAX_COUNTED)


def _iter_not_done(plan: Plan, after: float, now: float, done: DoneSpans) -> Iterator[Occurrence]:
    for slot in _iter_occurrences(plan, _skip_done(done, after)):
        moment = slot.moment.timestamp()
        if moment > now:
            return
        if not any(first <= moment <= last for first, last in done):
            yield slot


def find_next(plan: Plan, after: float, done: DoneSpans = ()) -> Occurrence | None:
    """Give the first slot after a moment that was not done."""
    return next(_iter_not_done(plan, after, float("inf"), done), None)


def _skip_done(done: DoneSpans, moment: float) -> float:
    """The end of the span that a moment lies in, or else the moment."""
    return next((last for first, last in done if first <= moment < last), moment)


def add_done(plan: Plan, done: DoneSpans, slot: Occurrence) -> DoneSpans:
    """Add a slot to the spans of time in which every slot was done; clocks that are set leave gaps between them."""
    moment = slot.moment.timestamp()
    for index, (first, last) in enumerate(done):
        following = next(_iter_occurrences(plan, last), None) if last < moment else None
        if following and following.moment.timestamp() == moment:
            return (*done[:index], (first, moment), *done[index + 1 :])
    return (*done, (moment, moment))[-_MAX_SPANS:]


def _describe_expression(expression: str) -> str:
    """Say an expression of plain days and times of day in words; '' for another one."""
    found = _SIMPLE_EXPRESSION.fullmatch(expression)
    if not found:
        return ""
    hours = (f"{int(hour):02}:{int(found['minute']):02}" for hour in found["hours"].split(","))
    days = _DAY_SET_NAMES.get(found["days"]) or " and ".join(_DAYS[int(day)] for day in found["days"].split(","))
    return f"every {days} at {' and '.join(hours)}"


def change_time(plan: Plan, clock: str) -> str:
    """The expression of a plan that comes once on each of its days, with "8:30" for its time; '' for another plan."""
    found = _SIMPLE_EXPRESSION.fullmatch(plan.text) if plan.kind == "cron" else None
    hour, _, minute = clock.partition(":")
    return f"{int(minute)} {int(hour)} * * {found['days']}" if found and "," not in found["hours"] else ""


def describe_plan(plan: Plan) -> str:
    """Say a plan in a few words."""
    where = f" ({plan.zone})" if plan.zone else ""
    if plan.kind == "cron":
        return f"{_describe_expression(plan.text) or f'cron {plan.text}'}{where}"
    if plan.kind == "at":
        return "once"
    return f"every {format_duration(plan.seconds) if plan.seconds % 60 == 0 else f'{plan.seconds:g} s'}"


class JobTime(NamedTuple):
    """The time as it was given; small models send 0 and "" for what they leave out."""

    at_seconds: float = 0.0
    at: str = ""
    every_seconds: float = 0.0
    cron_expr: str = ""
    tz: str = ""
