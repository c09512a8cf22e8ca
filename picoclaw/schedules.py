"""Plans of jobs, and the moments that they mean: each has a name, so that none is done twice.

An hour that is named is an hour of the day: where clocks are put forward over it, it is done once, at the end of what
they skip; where they are put back, in the first of two. With `*` for the hour it is every hour that passes.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal

from picoclaw.records import NamedTuple
from picoclaw.schema import find_nearest
from picoclaw.text import pattern, truncate
from picoclaw.times import (
    CRON_WEEKDAYS,
    DAY_PART_HOURS,
    MONTHS,
    WEEKDAYS,
    add_seconds,
    format_duration,
    get_midnight,
    make_time_of_day,
    parse_duration,
    parse_moment,
    parse_zone,
)

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
_MONTHLY_EXPRESSION = pattern(
    r"(?P<minute>\d\d?) (?P<hours>\d\d?(?:,\d\d?)*) (?P<dates>\d\d?(?:,\d\d?)*) (?P<month>\d\d?|\*) \*"
)
_DAY_SET_NAMES = {"*": "day", "1-5": "weekday", "0,6": "weekend day"}
_EXPRESSION_FORM = "five fields: minute hour day month weekday, such as '30 7 * * 1-5'"

UNTIL = " until "
"""Stands between an expression and the last day on which it counts."""
DoneSpans = tuple[tuple[float, float], ...]
_MAX_SPANS = 8


Pauses = tuple[tuple[float, float], ...]
"""Spans of time in which what is planned is left out, in seconds since 1970, without their ends."""
PAUSE_FORMS = (
    "'next', 'tomorrow', 'friday', '2026-12-24', 'until monday', 'until 18:00', '3 days', 'this week' or 'next week'"
)
SOON_S = 30.0
"""Seconds behind one time within which the next one never lies."""


class Plan(NamedTuple):
    """When a job is due. `anchor` is in seconds since 1970.

    "at" is due once, at its anchor; "every" at its anchor and then every `text` seconds; "cron" whenever the
    expression `text` says so in the zone of that name, or in the board's own; " until 2026-12-31" may follow it.
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
    """What has come due: the last slot, and how many others before it, `_MAX_COUNTED` standing for more."""

    last: Occurrence
    others: int

    @property
    def counted(self) -> str:
        """The number of the others in words."""
        return f"more than {_MAX_COUNTED - 1}" if self.others >= _MAX_COUNTED else str(self.others)


class BoardZone(tzinfo):
    """The zone that this machine is set to, with its summer time; `astimezone()` alone knows one offset of it."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        plain = (moment or datetime.now(UTC)).replace(tzinfo=None)
        return plain - datetime.fromtimestamp(plain.timestamp(), UTC).replace(tzinfo=None)

    def dst(self, _: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return time.tzname[0]

    def fromutc(self, moment: datetime) -> datetime:
        return datetime.fromtimestamp(moment.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006


def plan_interval(seconds: float, anchor: float) -> Plan:
    """Plan something at an interval; raises ValueError when it is too short."""
    if seconds < MIN_JOB_INTERVAL_S:
        raise ValueError(f"every {seconds:g} s is too often; the shortest interval is {MIN_JOB_INTERVAL_S:g} s")
    return Plan("every", f"{seconds:g}", "", anchor)


def plan_cron(text: str, zone: str, after: datetime) -> Plan:
    """Plan by a cron expression; raises ValueError saying what is wrong with it, or with the zone."""
    said, _, last = text.partition(UNTIL)
    words = _CRON_ALIASES.get(said.strip().lower(), " ".join(said.split()))
    if len(words) > _MAX_EXPRESSION or len(words.split()) != 5:
        raise ValueError(f"{text[:60]!r} is not a cron expression; write {_EXPRESSION_FORM}")
    end = parse_moment(f"{last.strip()} 23:59", after) if last else after
    # On a Friday whose times are over, "until friday" is the next one.
    ends = [end, end + timedelta(7)] if last.strip().lower() in WEEKDAYS else [end]
    plans = (Plan("cron", f"{words}{UNTIL}{day:%Y-%m-%d}" if last else words, zone, after.timestamp()) for day in ends)
    if plan := next((one for one in plans if list_occurrences(one, after, 1)), None):
        return plan
    said = f"{words}{UNTIL}{end:%Y-%m-%d}" if last else words
    raise ValueError(f"{_describe_expression(said) or repr(said)} never comes")


def is_over(plan: Plan, after: float, done: DoneSpans = ()) -> bool:
    return UNTIL in plan.text and find_next(plan, after, done) is None


REPEAT_EXAMPLES = (
    "hourly, every 2 hours, every morning, daily 07:30, weekdays 8:00, every day at 6:00 and 18:00 or mondays and"
    " fridays 18:30"
)
_INTERVAL = pattern(r"every (?:(\d{1,4}|half(?: an?)?|an?) ?)?(min|minute|hour|h|day)s?")
_INTERVAL_S = {"min": 60.0, "minute": 60.0, "hour": 3600.0, "h": 3600.0, "day": 86_400.0}
_TIME = r"(?:noon|midnight|\d{1,2}(?::\d\d)?(?: ?[ap]m)?)"
_TIMES = rf"(?:at )?{_TIME}(?:(?: and| at)* {_TIME})*"
_REPEAT = pattern(rf"(?:(?P<days>[a-z ]+?)(?: (?P<times>{_TIMES}))?|(?P<first>{_TIMES})(?P<rest> [a-z ]+)?)")
_ONE_TIME = pattern(r"(?P<named>noon|midnight)|(?P<hour>\d+)(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?")
_FILLERS = frozenset({"every", "each", "and", "on", "in", "the", "at", "o", "clock", "of"})
_DAY_SETS = {
    **{day: frozenset({number}) for number, day in enumerate(CRON_WEEKDAYS)},
    **dict.fromkeys(("day", "daily"), frozenset(range(7))),
    **dict.fromkeys(("weekday", "workday"), frozenset(range(1, 6))),
    **dict.fromkeys(("week", "weekly"), frozenset({1})),
    "weekend": frozenset({0, 6}),
}
_DAY_PARTS = {**DAY_PART_HOURS, "nightly": DAY_PART_HOURS["night"]}
_TIME_WORD = pattern(r"(?:every|each|daily|hourly|nightly|weekly|monthly|yearly|(?:week)?(?:day|end)s?|\d\d?:\d\d)\b.*")


def parse_repeat(text: str) -> Plan | None:
    """Read what repeats, such as "every 2 hours", "every evening" or "mondays and fridays at 7:00 and 18:00".

    Returns an "every" without an anchor, or a "cron" without a zone; None for text that is no time. Raises ValueError
    for a time that is wrong, or that one plan cannot hold.
    """
    words = " ".join(text.lower().replace(",", " ").split())
    if words == "hourly":
        words = "every hour"
    if (interval := _INTERVAL.fullmatch(words)) and words != "every day":
        count = interval[1] or "1"
        number = 0.5 if count.startswith("half") else float(count) if count.isdecimal() else 1.0
        return Plan("every", f"{number * _INTERVAL_S[interval[2]]:g}")
    found = _REPEAT.fullmatch(words)
    said = (found["days"] or found["rest"] or "") if found else words
    names = [name for word in re.findall(r"[a-z]+", said) if (name := word.removesuffix("s")) not in _FILLERS]
    times = (found["times"] or found["first"] or "") if found else ""
    parts = [_DAY_PARTS[name] for name in names if name in _DAY_PARTS]
    unknown = [name for name in names if name not in _DAY_SETS and name not in _DAY_PARTS]
    if (found is None and names and set(unknown) <= {"am", "pm", "midnight"}) or (times and len(parts) > 1):
        raise ValueError(f"{text!r} says more than one time or a span; write one for each, like {REPEAT_EXAMPLES}")
    is_time = names or words.startswith("at ") or times.startswith(("at ", "noon", "midnight"))
    if unknown or not found or not is_time:
        if _TIME_WORD.fullmatch(words):
            hint = find_nearest(unknown[0], _DAY_SETS) if unknown else ""
            hint = hint if "did you mean" in hint else ""
            raise ValueError(f"{text!r} is not a time picoclaw knows{hint}; write it like {REPEAT_EXAMPLES}")
        return None
    moments = sorted(_read_time(moment, parts, text) for moment in _ONE_TIME.finditer(times))
    moments = moments or sorted((hour, 0) for hour in parts) or [(DAY_PART_HOURS["morning"], 0)]
    if len({minute for _, minute in moments}) > 1:
        raise ValueError(f"the times of {text!r} need the same minute; write one for each")
    days = frozenset[int]().union(*(_DAY_SETS[name] for name in names if name in _DAY_SETS)) or _DAY_SETS["day"]
    numbers = {_DAY_SETS["day"]: "*", _DAY_SETS["weekday"]: "1-5"}.get(days) or ",".join(map(str, sorted(days)))
    return Plan("cron", f"{moments[0][1]} {','.join(str(hour) for hour, _ in moments)} * * {numbers}")


def _read_time(found: re.Match[str], parts: Sequence[int], text: str) -> tuple[int, int]:
    """Read one time of day; a bare hour is counted as the part of the day means it: 8 in the evening is 20."""
    if found["named"]:
        return (12 if found["named"] == "noon" else 0), 0
    hour, minute = make_time_of_day(found["hour"], found["minute"], found["half"], text)
    if parts and not found["half"] and 0 < hour < 12:
        is_late = parts[0] > DAY_PART_HOURS["noon"] and (hour >= 6 or parts[0] < DAY_PART_HOURS["night"])
        hour += 12 if is_late else 0  # 1 in the night is 1
    return hour, minute


def list_occurrences(plan: Plan, after: datetime, most: int) -> list[Occurrence]:
    """Give the next slots after a moment; raises ValueError when the expression or the zone cannot be used."""
    return list(islice(_iter_occurrences(plan, after.timestamp()), most))


def _iter_occurrences(plan: Plan, after: float) -> Iterator[Occurrence]:
    zone = parse_zone(plan.zone) if plan.zone else BoardZone()
    if plan.kind == "cron":
        for moment, named in _iter_cron(plan.text, after, zone):
            yield Occurrence(moment, named.isoformat(timespec="minutes"))
        return
    step = plan.seconds if plan.kind == "every" else 0.0
    first = max(0, int((after - plan.anchor) // step) + 1) if step else int(after >= plan.anchor)
    for number in range(first, (1 << 40 if step else 0) + 1):
        moment = datetime.fromtimestamp(plan.anchor + number * step, zone)
        yield Occurrence(moment, moment.isoformat(timespec="seconds"))


def _iter_cron(text: str, after: float, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    from cronsim import CronSim, CronSimError

    text, _, last = text.partition(UNTIL)
    start = datetime.fromtimestamp(after, zone)
    any_hour = text.split()[1] == "*"
    before = after
    try:
        for found in CronSim(text, start if any_hour else start.replace(tzinfo=None, fold=0)):
            named = found.replace(tzinfo=zone)
            if last and f"{named:%Y-%m-%d}" > last:
                return
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
    after = next((last for first, last in done if first <= after < last), after)
    for slot in _iter_occurrences(plan, after):
        moment = slot.moment.timestamp()
        if moment > now:
            return
        if not any(first <= moment <= last for first, last in done):
            yield slot


def find_next(plan: Plan, after: float, done: DoneSpans = (), pauses: Pauses = ()) -> Occurrence | None:
    """Give the first slot after a moment that was not done, and is not left out."""
    slot = next(_iter_not_done(plan, after, float("inf"), done), None)
    while slot and (ends := [last for first, last in pauses if first <= slot.moment.timestamp() < last]):
        slot = next(_iter_not_done(plan, max(ends) - 1e-3, float("inf"), done), None)
    return slot


def add_done(plan: Plan, done: DoneSpans, slot: Occurrence) -> DoneSpans:
    """Add a slot to the spans of time in which every slot was done; clocks that are set leave gaps between them."""
    moment = slot.moment.timestamp()
    for index, (first, last) in enumerate(done):
        following = next(_iter_occurrences(plan, last), None) if last < moment else None
        if following and following.moment.timestamp() == moment:
            return (*done[:index], (first, moment), *done[index + 1 :])
    return (*done, (moment, moment))[-_MAX_SPANS:]


def is_paused(pauses: Pauses, moment: float) -> bool:
    return any(first <= moment < last for first, last in pauses)


ListTimes = Callable[[datetime, int], list[datetime]]
"""Give so many of the planned times behind a moment."""


def list_coming(pauses: Pauses, after: datetime, most: int, list_times: ListTimes) -> list[datetime]:
    """Give the next planned times that are not left out, also one at the very end of a pause."""
    ends = (datetime.fromtimestamp(last - 1e-3, after.tzinfo) for _, last in pauses if last > after.timestamp())
    planned = (one for begin in (after, *ends) for one in list_times(begin, most))
    found = {one.timestamp(): one for one in planned if not is_paused(pauses, one.timestamp())}
    return [found[at] for at in sorted(found)][:most]


def add_pause(pauses: Pauses, pause: tuple[float, float], now: float) -> Pauses:
    """Add a pause: one that begins now takes the place of those that it meets, another one is joined with them.

    Those that are over go. Raises ValueError where there are too many.
    """
    met = [one for one in pauses if one[0] < pause[1] and pause[0] < one[1]]
    if pause[0] > now:
        met += [one for one in pauses if one[1] == pause[0] or one[0] == pause[1]]
        pause = min(one[0] for one in (*met, pause)), max(one[1] for one in (*met, pause))
    kept = (*(one for one in pauses if one[1] > now and one not in met), pause)
    if len(kept) > _MAX_SPANS:
        raise ValueError(f"{_MAX_SPANS} pauses are planned already; resume it first")
    return tuple(sorted(kept))


def parse_pause(text: str, now: datetime, list_times: ListTimes) -> tuple[float, float]:
    """Return the span of time that is meant by one of PAUSE_FORMS.

    `list_times` gives the times that come: "next" is the first of them, "tomorrow 8:00" the
    one of that day that is nearest to that time. Raises ValueError.
    """
    words = " ".join(text.lower().split()).removeprefix("for ")
    if words in {"", "next"}:
        if not (found := list_times(now, 1)):
            raise ValueError(f"it has no time that can be left out; say until when, as in {PAUSE_FORMS}")
        return found[0].timestamp() - SOON_S, found[0].timestamp() + SOON_S
    today, monday = now.date(), now.date() + timedelta(7 - now.weekday())
    if words.startswith("until "):
        end = _parse_day_or_moment(words.removeprefix("until "), now)
        end = end if end > now else get_midnight(today + timedelta(7), now)  # "until friday", said on one
        return now.timestamp(), end.timestamp()
    if words in _WEEKS:
        first, last = (get_midnight(monday + timedelta(days), now).timestamp() for days in _WEEKS[words])
        return max(now.timestamp(), first), last
    with suppress(ValueError):
        return now.timestamp(), add_seconds(now, parse_duration(words)).timestamp()
    moment = _parse_day_or_moment(words, now)
    begin, end = get_midnight(moment.date(), now), get_midnight(moment.date() + timedelta(1), now)
    if moment == begin:
        return begin.timestamp(), end.timestamp()
    found = [one for one in list_times(begin, _MAX_COUNTED) if one < end]
    if not found:
        raise ValueError(f"nothing of it is planned on {begin:%a %Y-%m-%d}")
    nearest = min((one.timestamp() for one in found), key=lambda one: abs(one - moment.timestamp()))
    return nearest - SOON_S, nearest + SOON_S


_WEEKS = {"this week": (-7, 0), "weekend": (-2, 0), "this weekend": (-2, 0), "next week": (0, 7)}
"""From which day on until which, counted from the next Monday."""


def _parse_day_or_moment(words: str, now: datetime) -> datetime:
    """A day as its midnight; a moment as `parse_moment` has it. Raises ValueError."""
    with suppress(ValueError):
        return parse_moment(words, now)
    try:
        return get_midnight(parse_moment(f"{words} 23:59", now).date(), now)
    except ValueError:
        raise ValueError(
            f"{truncate(words, 60)!r} is no time to leave something out; write it like {PAUSE_FORMS}"
        ) from None


def _describe_expression(expression: str) -> str:
    """Say an expression of plain days, or of days of the month, and times of day in words; '' for another one."""
    expression, until, last = expression.partition(UNTIL)
    found = _SIMPLE_EXPRESSION.fullmatch(expression)
    monthly = None if found else _MONTHLY_EXPRESSION.fullmatch(expression)
    times = found or monthly
    if not times:
        return ""
    hours = " and ".join(f"{int(hour):02}:{int(times['minute']):02}" for hour in times["hours"].split(","))
    if monthly:
        dates = " and ".join(monthly["dates"].split(","))
        month = monthly["month"].strip("*")
        days = f"year on {dates} {MONTHS[int(month) - 1].capitalize()}" if month else f"month on day {dates}"
        return f"every {days} at {hours}{until}{last}"
    days = _DAY_SET_NAMES.get(times["days"]) or " and ".join(
        CRON_WEEKDAYS[int(day)] for day in times["days"].split(",")
    )
    return f"every {days} at {hours}{until}{last}"


def change_time(plan: Plan, clock: str, day: str = "") -> str:
    """The expression of a plan that comes once on each of its days with another time, or of a monthly one with another day.

    `clock`: the time, "8:30", '' for as it is; `day`: of the month, '' for as it is. Returns '' for any other plan.
    """
    expression, until, last = plan.text.partition(UNTIL)
    fields = expression.split() if plan.kind == "cron" else []
    if len(fields) != 5 or not (fields[0] + fields[1]).isdecimal():
        return ""
    if day and not (fields[2].isdecimal() and fields[3:] == ["*", "*"]):
        return ""
    hour, _, minute = clock.partition(":") if clock else (fields[1], "", fields[0])
    return f"{int(minute)} {int(hour)} {' '.join([day or fields[2], *fields[3:]])}{until}{last}"


def describe_plan(plan: Plan) -> str:
    where = f" ({plan.zone})" if plan.zone else ""
    if plan.kind == "cron":
        return f"{_describe_expression(plan.text) or f'cron {plan.text}'}{where}"
    if plan.kind == "at":
        return "once"
    return f"every {format_duration(plan.seconds, exact=True)}"


class JobTime(NamedTuple):
    """The time as it was given; small models send 0 and "" for what they leave out."""

    at_seconds: float = 0.0
    at: str = ""
    every_seconds: float = 0.0
    cron_expr: str = ""
    tz: str = ""
