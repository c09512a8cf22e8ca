"""The time that words mean: how long "10 minutes" are, when "yesterday" or "since monday" was. Pure; English."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from pathlib import Path

from picoclaw.errors import ConfigError, UnknownTime
from picoclaw.records import NamedTuple
from picoclaw.text import fold_accents, pattern, truncate

RANGE_FORMS = "'last 24 hours', 'today', 'yesterday', 'this week', 'last month', 'since monday', '2026-03-01'"
DURATION_FORMS = "'90 seconds', '10 minutes', '2 hours' or '3 days'"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
CRON_WEEKDAYS = ("sunday", *WEEKDAYS[:-1])  # crontab(5): 0 is sunday
DAY_PART_HOURS = {"morning": 8, "noon": 12, "afternoon": 15, "evening": 19, "night": 21}
"""The hour that is meant by a part of the day where no time is given."""
_UNITS = {
    "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600,
    "d": 86_400, "day": 86_400, "night": 86_400, "w": 604_800, "week": 604_800,
    "month": 30 * 86_400, "year": 365 * 86_400,
}  # fmt: skip
_NUMBER_WORDS = {"a": 1, "an": 1, "half an": 0.5, "few": 3, **{word: number for number, word in enumerate(NUMBERS)}}
_PARTS_OF_DAY = {"morning": 6, "afternoon": 12, "evening": 18}
_UNIT_NAMES = "|".join(sorted(_UNITS, key=len, reverse=True))
_DURATION = pattern(
    rf"(\d+(?:\.\d+)?|{'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})?\s*({_UNIT_NAMES})(?:(?<=[a-z]{{2}})s)?(?![a-z])"
)
_MAX_DURATION_S = 3660 * 86_400
_MAX_QUOTED = 60
_MAX_CHARS = 200
"""Characters that are read: a longer text is no time, and reading it would take the square of its length."""
_AGO_TOLERANCE = timedelta(minutes=10)
"""What belongs to "an hour ago", on either side of it."""


class TimeRange(NamedTuple):
    """Some time, from `begin` to before `end`."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length; a day has 23 hours when the clocks are put forward."""
        return self.end.timestamp() - self.begin.timestamp()


def parse_duration(text: str) -> float:
    """Read a length of time, such as "10 minutes" or "1 h 30 min"; a bare number counts seconds. Raises ValueError."""
    words = " ".join(text[:_MAX_CHARS].lower().replace(" and ", " ").split())
    found = float(words) if re.fullmatch(r"(?=.{1,11}\Z)\d+(\.\d+)?", words) else _parse_sum(words)
    if len(text) > _MAX_CHARS or found is None or not 0 < found <= _MAX_DURATION_S:
        raise ValueError(f"{truncate(text, _MAX_QUOTED)!r} is not a length of time; write it like {DURATION_FORMS}")
    return found


def _parse_sum(words: str) -> float | None:
    total, end = 0.0, 0
    for match in _DURATION.finditer(words):
        if words[end : match.start()].strip():
            return None
        total += _parse_part(match)
        end = match.end()
    return None if words[end:].strip() or not words else total


def _parse_part(match: re.Match[str]) -> float:
    count, unit = match[1] or "1", match[2]
    return (_NUMBER_WORDS[count] if count in _NUMBER_WORDS else float(count)) * _UNITS[unit]


def parse_range(text: str, now: datetime) -> TimeRange:
    """Return the time that a text means, in the zone of `now` and never later than it. Raises UnknownTime."""
    words = re.sub(r"\bthe\b|^\s*(?:for|during|in|over|within)\b", " ", text[:_MAX_CHARS].lower())
    words = " ".join(words.split())
    try:
        found = _match_range(words, now) if len(text) <= _MAX_CHARS else None
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise UnknownTime(f"{truncate(text, _MAX_QUOTED)!r} is not a time picoclaw knows; write it like {RANGE_FORMS}")
    found = TimeRange(found.begin, min(found.end, now, key=datetime.timestamp))
    if found.seconds <= 0:
        raise UnknownTime(f"{truncate(text, _MAX_QUOTED)!r} is yet to come; it is {now:%Y-%m-%d %H:%M} now")
    return found


def _match_range(words: str, now: datetime) -> TimeRange | None:
    for form, range_of in _RANGE_FORMS:
        if match := form.fullmatch(words):
            return range_of(match, now)
    return None


def _make_last(match: re.Match[str], now: datetime) -> TimeRange:
    length = _parse_sum(match[1])
    if not length or length > _MAX_DURATION_S:
        raise ValueError
    return TimeRange((now.astimezone(UTC) - timedelta(seconds=length)).astimezone(now.tzinfo), now)


def _make_last_before(match: re.Match[str], now: datetime) -> TimeRange:
    """A length of time before another one that ends now: "3 days before last 3 days"."""
    end = _make_last(pattern(r".* last (.+)").match(match[0]), now).begin  # type: ignore[arg-type]  # the form has it
    return TimeRange(_make_last(match, end).begin, end)


def _make_since(match: re.Match[str], now: datetime) -> TimeRange:
    if clock := re.fullmatch(r"(\d{1,2})(?::(\d\d))?", match[1]):
        begin = get_midnight(now.date(), now).replace(hour=int(clock[1]), minute=int(clock[2] or 0))
        return TimeRange(begin if begin <= now else _get_yesterday_at(begin, now), now)
    if at := _DAY_AT.fullmatch(match[1]):
        return TimeRange(_find_clock(_match_day(at[1], now), int(at[2]), int(at[3])), now)
    found = _match_range(match[1], now)
    if found is None:
        raise ValueError
    return TimeRange(found.begin, now)


def _make_around(match: re.Match[str], now: datetime) -> TimeRange:
    """The minutes around the last time that it was so late."""
    at = get_midnight(now.date(), now).replace(hour=int(match[1]), minute=int(match[2]))
    at = at if at <= now else _get_yesterday_at(at, now)
    return TimeRange(at - timedelta(minutes=10), at + timedelta(minutes=10))


def _make_around_of_day(match: re.Match[str], now: datetime) -> TimeRange:
    """The minutes around a time of day, on some day."""
    at = _find_clock(_match_day(match[1], now), int(match[2]), int(match[3]))
    return TimeRange(at - timedelta(minutes=10), at + timedelta(minutes=10))


def _make_clock_range(match: re.Match[str], now: datetime) -> TimeRange:
    """From one time of day to another, over midnight where the second is no later; without a day the latest."""
    hour, minute, last_hour, last_minute = map(int, match.groups()[1:])
    if match[1]:
        begin = _find_clock(_match_day(match[1], now), hour, minute)
    else:
        begin = get_midnight(now.date(), now).replace(hour=hour, minute=minute)
        is_night = (hour, minute) > (last_hour, last_minute)  # the night that is over
        begin = begin if begin < now and not is_night else _get_yesterday_at(begin, now)
    end = begin.replace(hour=last_hour, minute=last_minute)
    return TimeRange(begin, end if end > begin else end + timedelta(days=1))


def _match_day(words: str, now: datetime) -> TimeRange:
    day = _match_range(words, now)
    if day is None or day.seconds > 25 * 3600:
        raise ValueError
    return day


def _find_clock(day: TimeRange, hour: int, minute: int) -> datetime:
    """A time of day within a day, or within a night, where 10:00 is 22:00."""
    for late, days in ((0, 0), (0, 1), (12, 0)):
        if hour + late < 24:
            at = day.begin.replace(hour=hour + late, minute=minute) + timedelta(days=days)
            if day.begin <= at <= day.end:
                return at
    raise ValueError


def _get_yesterday_at(begin: datetime, now: datetime) -> datetime:
    return get_midnight(now.date() - timedelta(1), now).replace(hour=begin.hour, minute=begin.minute)


def _make_between(match: re.Match[str], now: datetime) -> TimeRange:
    first, last = _match_range(match[1], now), _match_range(match[2], now)
    if first is None or last is None:
        raise ValueError
    if first.begin > last.begin and match[1] in WEEKDAYS:  # on Thursday "from Thursday to Saturday" begins a week ago
        first = _make_days(first.begin.date() - timedelta(7), 1, now)
    return TimeRange(first.begin, last.end)


def _make_day(ahead: int) -> Callable[[re.Match[str], datetime], TimeRange]:
    return lambda _, now: _make_days(now.date() + timedelta(ahead), 1, now)


def _make_ago(match: re.Match[str], now: datetime) -> TimeRange:
    length = _parse_sum(match[1])
    if not length:
        raise ValueError
    if length < _UNITS["day"]:
        return _make_moment(timedelta(seconds=length), now)
    return _make_days(now.date() - timedelta(seconds=length), 1, now)


def _make_same_hour(day: TimeRange, now: datetime) -> TimeRange:
    """The time of day that it is now, of another day."""
    return _make_moment(timedelta(days=(now.date() - day.begin.date()).days), now)


def _make_moment(ago: timedelta, now: datetime) -> TimeRange:
    moment = (now.astimezone(UTC) - ago).astimezone(now.tzinfo)
    return TimeRange(moment - _AGO_TOLERANCE, moment + min(_AGO_TOLERANCE, ago))


def _make_weekday(match: re.Match[str], now: datetime) -> TimeRange:
    """The latest such day, which may be today unless it is the last one."""
    back = (now.weekday() - WEEKDAYS.index(match[2])) % 7
    back += 7 if match[1] == "last" and not back else 0
    return _make_days(now.date() - timedelta(back), 1, now)


def _make_day_beside(match: re.Match[str], now: datetime) -> TimeRange:
    back = (now.weekday() - WEEKDAYS.index(match[2])) % 7
    return _make_days(now.date() - timedelta(back + (1 if match[1] == "before" else -1)), 1, now)


def _make_day_of_year(match: re.Match[str], now: datetime) -> TimeRange:
    """The latest such day that has begun."""
    number, month = int(match[1] or match[4]), match[2] or match[3]
    return _make_days(find_latest_day(number, MONTHS.index(month) + 1 if month else 0, now.date()), 1, now)


def find_latest_day(number: int, month: int, today: date) -> date:
    """The latest day of that number in a month, 1 to 12, or in any for 0, up to today. Raises ValueError."""
    for back in range(8 * 12 + 1):  # 29 February may be eight years ago
        year, index = divmod(12 * today.year + today.month - 1 - back, 12)
        if month in {0, index + 1} and (back or number <= today.day):
            with suppress(ValueError):  # there is no 31 June
                return date(year, index + 1, number)
    raise ValueError


def _make_night_after(day: date, now: datetime) -> TimeRange:
    """From six to six."""
    evening = get_midnight(day, now).replace(hour=18)
    return TimeRange(evening, get_midnight(day + timedelta(1), now).replace(hour=6))


def _make_part_of_day(match: re.Match[str], now: datetime) -> TimeRange:
    """Six hours of a day; an evening ends with its day."""
    day = now.date() if match[1] == "this" else _match_day(match[1], now).begin.date()
    begin = _PARTS_OF_DAY[match[2]]
    end = get_midnight(day + timedelta(1), now) if begin == 18 else get_midnight(day, now).replace(hour=begin + 6)
    return TimeRange(get_midnight(day, now).replace(hour=begin), end)


def _make_month(match: re.Match[str], now: datetime) -> TimeRange:
    today, back = now.date(), match[1] in {"last", "previous"}
    if match[2] == "week":
        return _make_days(today - timedelta(today.weekday() + (7 if back else 0)), 7, now)
    if match[2] == "year":
        year = today.year - back
        return TimeRange(get_midnight(date(year, 1, 1), now), get_midnight(date(year + 1, 1, 1), now))
    month = 12 * today.year + today.month - 1 - back
    return TimeRange(*(get_midnight(date(m // 12, m % 12 + 1, 1), now) for m in (month, month + 1)))


def _make_days(first: date, count: int, now: datetime) -> TimeRange:
    return TimeRange(get_midnight(first, now), get_midnight(first + timedelta(count), now))


def get_midnight(day: date, now: datetime) -> datetime:
    """The first moment of a day in the zone of `now`; an offset alone stands for the board's own."""
    start = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - zoned at once
    named = hasattr(now.tzinfo, "key") or str(now.tzinfo).startswith("UTC")
    return start.replace(tzinfo=now.tzinfo) if named else start.astimezone()


_DATE = rf"(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({'|'.join(MONTHS)})|({'|'.join(MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?"
_DAY = (
    r"(?:last |on |day before |day after )?\w+day|\d{4}-\d\d-\d\d|\S+ days ago|\d{1,2}(?:st|nd|rd|th)"
    rf"|\d{{1,2}} (?:{'|'.join(MONTHS)})"
)
_DAY_AT = pattern(r"(\S.*?) at (\d{1,2}):(\d\d)")
_RangeForm = tuple[re.Pattern[str], Callable[[re.Match[str], datetime], TimeRange]]
_RANGE_FORMS: list[_RangeForm] = [
    (pattern(r"today|so far today"), _make_day(0)),
    (pattern(r"yesterday"), _make_day(-1)),
    (pattern(r"this time last week"), lambda _, now: _make_moment(timedelta(days=7), now)),
    (pattern(r"this time (.+)"), lambda found, now: _make_same_hour(_match_day(found[1], now), now)),
    (pattern(r"day before yesterday|day before"), _make_day(-2)),
    (pattern(r"last night"), lambda _, now: _make_night_after(now.date() - timedelta(1), now)),
    (pattern(r"night before last"), lambda _, now: _make_night_after(now.date() - timedelta(2), now)),
    (pattern(rf"({_DAY}) night"), lambda found, now: _make_night_after(_match_day(found[1], now).begin.date(), now)),
    (pattern(r"(this|last|previous) (week|month|year)"), _make_month),
    (pattern(rf"(this|{_DAY}) ({'|'.join(_PARTS_OF_DAY)})"), _make_part_of_day),
    (pattern(r"(\S+ (?:minute|hour|day|week)s?) ago"), _make_ago),
    (pattern(rf"(?:(last|on|this) )?({'|'.join(WEEKDAYS)})"), _make_weekday),
    (pattern(rf"day (before|after) ({'|'.join(WEEKDAYS)})"), _make_day_beside),
    (pattern(r"(?:on )?(\d{4}-\d\d-\d\d)"), lambda match, now: _make_days(date.fromisoformat(match[1]), 1, now)),
    (pattern(rf"(?:on )?(?:{_DATE})"), _make_day_of_year),
    (pattern(r"(?:on )?(\d{1,2})(?:st|nd|rd|th)()()()"), _make_day_of_year),
    (pattern(r"(?:(\S.*?) )?from (\d{1,2}):(\d\d) to (\d{1,2}):(\d\d)"), _make_clock_range),
    (pattern(r"at (\d{1,2}):(\d\d)"), _make_around),
    (pattern(r"since (.+)"), _make_since),
    (_DAY_AT, _make_around_of_day),
    (pattern(r"(.+) before last .+"), _make_last_before),
    (pattern(r"(?:from |between )?(\S.*) (?:to|until|till|and|-|–) (.+)"), _make_between),
    (pattern(r"(?:last |past |previous )?(.+)"), _make_last),
]

# When something is due, and in whose time zone: arithmetic on moments that are handed in.

MAX_AHEAD = timedelta(days=3660)
_MAX_DAYS_TO_DATE = 8 * 366  # 29 February is eight years away around a century that is no leap year
_MAX_YEARS_OF_RULES = 20  # beyond, no zone's rules are known, and the ends of the calendar are near
EARLIEST_HOUR, _MAX_TO_NIGHT_S = 6, 6 * 3600
"""Nobody plans for an hour before it without saying that it is in the night."""
_CLOCK = pattern(r"(?:at\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)
MOMENT_FORMS = "'18:30', '6pm', 'tomorrow 07:30', 'friday 9:00', '24 december 9:00' or '2026-12-01 08:00'"
_DAYS_AHEAD, _ORDINAL = pattern(r"in (\d{1,4}) days?"), "st|nd|rd|th"
DAYS_FROM = pattern(r"(.+) ([+-]\d{1,3}) days")
"""A day so far from another one: "tuesday +7 days"."""
_LAST_OF_MONTH = pattern(rf"last (day|{'|'.join(WEEKDAYS)}) of month")
DAY_OF_YEAR = pattern(
    rf"(?:on )?(?:the )?(?:(?P<day>\d{{1,2}})(?:(?:{_ORDINAL})?(?: of)? (?P<month>{'|'.join(MONTHS)})|(?:{_ORDINAL}))"
    rf"|(?P<first>{'|'.join(MONTHS)}) (?P<then>\d{{1,2}})(?:{_ORDINAL})?)"
)


def parse_moment(text: str, now: datetime) -> datetime:
    """Find the next moment, after `now`, that a person means by a text; in the zone of `now`.

    A time of day alone is today's, or tomorrow's when it is past; one that comes twice, because the clocks are put
    back, is the next of the two; "6:00 o'clock" is 6:00 or 18:00, whichever comes first, and "today 6:00 o'clock" none
    of tomorrow. Raises ValueError naming the accepted forms.
    """
    words = " ".join(text.lower().split())
    text = truncate(text, _MAX_QUOTED)
    if moment := _parse_iso(words):
        return _localize(moment, now)
    if words.endswith(" o'clock"):
        hour_minute = _parse_clock(words.removesuffix(" o'clock").removeprefix("today "), text)
        moment = _get_next_half_day(hour_minute, now)
        is_past = words.startswith("today ") and moment.date() != now.date()
        return _make_wall_time(now, 0, (hour_minute[0] % 12 + 12, hour_minute[1])) if is_past else moment
    day, _, clock = words.rpartition(" ")
    if clock in {"am", "pm"}:
        day, _, hour = day.rpartition(" ")
        clock = hour + clock
    hour_minute = _parse_clock(clock, text)
    day = f" {day}".removesuffix(" at").strip()
    ahead = _count_days_ahead(day, now, text)
    moment = _make_wall_time(now, ahead or 0, hour_minute)
    if get_seconds_until(moment, now) > 0:
        return moment
    if ahead is None:
        return _make_wall_time(now, 1, hour_minute)
    return _make_wall_time(now, 7, hour_minute) if day.removeprefix("on ") in WEEKDAYS else moment


def _get_next_half_day(hour_minute: tuple[int, int], now: datetime) -> datetime:
    """The next moment at which a clock with twelve hours shows a time; by day, none of the coming night."""
    hour, minute = hour_minute
    moments = (_make_wall_time(now, days, (each, minute)) for days in (0, 1) for each in {hour, (hour + 12) % 24})
    first, *later = sorted((one for one in moments if get_seconds_until(one, now) > 0), key=datetime.timestamp)
    is_night = first.hour < EARLIEST_HOUR and get_seconds_until(first, now) > _MAX_TO_NIGHT_S
    return later[0] if is_night else first


def add_seconds(now: datetime, seconds: float) -> datetime:
    """The moment that is so much later than `now`, in its zone; hours that the clocks skip or repeat count as hours."""
    return (now.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(now.tzinfo)


def get_seconds_until(due: datetime, now: datetime) -> float:
    """Seconds from one moment to another. Python itself subtracts the clocks of one zone, not the moments."""
    return due.timestamp() - now.timestamp()


def _parse_iso(words: str) -> datetime | None:
    try:
        return datetime.fromisoformat(words.upper().replace(" ", "T", 1))
    except ValueError:
        return None


def _localize(moment: datetime, now: datetime) -> datetime:
    """A date without a zone is meant in the zone of `now`, which knows its own summer time.

    Of two moments that clocks show it at, it is the next, or the first of two that are past. Where clocks are put
    forward over it, it is as much later as they are.
    """
    if moment.tzinfo:
        return moment
    first, second = (_localize_to_board(moment.replace(fold=fold), now) for fold in (0, 1))
    repeated_after = get_seconds_until(second, first)
    if repeated_after >= 0:
        return second if repeated_after and get_seconds_until(first, now) <= 0 else first
    shown = first.astimezone(UTC).astimezone(first.tzinfo)
    return second if moment < now.replace(tzinfo=None) < shown.replace(tzinfo=None) else shown


def _localize_to_board(moment: datetime, now: datetime) -> datetime:
    own_rules = hasattr(now.tzinfo, "key") or str(now.tzinfo).startswith("UTC")
    if now.tzinfo is None or own_rules or abs(moment.year - now.year) > _MAX_YEARS_OF_RULES:
        return moment.replace(tzinfo=now.tzinfo)
    # an offset called CET stands for the system's zone, whose rules apply on that day
    return datetime.fromtimestamp(moment.timestamp(), UTC).astimezone()


def _make_wall_time(now: datetime, days: int, hour_minute: tuple[int, int]) -> datetime:
    day = now.date() + timedelta(days=days)
    return _localize(datetime(day.year, day.month, day.day, *hour_minute), now)  # noqa: DTZ001 - zoned at once


def _parse_clock(words: str, text: str) -> tuple[int, int]:
    found = _CLOCK.fullmatch(words)
    if found is None or (found[2] is None and found[3] is None):
        raise ValueError(f"{text!r} is not a time picoclaw knows; write it like {MOMENT_FORMS}")
    return make_time_of_day(found[1], found[2], found[3], text)


def make_time_of_day(hour: str, minute: str | None, half: str | None, text: str) -> tuple[int, int]:
    """Return hour (0 to 23) and minute of "6", "30" and "pm"; raises ValueError, which quotes the whole `text`."""
    hours, minutes = int(hour), int(minute or 0)
    if half:
        hours = hours % 12 + (12 if half.lower() == "pm" else 0) if 1 <= hours <= 12 else 99
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text!r} is not a time of day, such as 6:00, 18:30 or 6pm")
    return hours, minutes


def _count_days_ahead(day: str, now: datetime, text: str) -> int | None:
    """Days until the named one; None when none is named."""
    if not day:
        return None
    known = {"today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2}
    if day in known:
        return known[day]
    if shifted := DAYS_FROM.fullmatch(day):
        return (_count_days_ahead(shifted[1], now, text) or 0) + int(shifted[2])
    if counted := _DAYS_AHEAD.fullmatch(day):
        return int(counted[1])
    if (name := day.removeprefix("on ").removeprefix("next ").removeprefix("following ")) in WEEKDAYS:
        ahead = WEEKDAYS.index(name) - now.weekday()
        is_later = ("next " in day and ahead >= 0) or ("following " in day and ahead % 7 <= 1)
        return ahead % 7 + 7 * is_later  # "next friday" is none of this week; "nächsten Freitag" is not tomorrow
    if found := _LAST_OF_MONTH.fullmatch(day):
        return _count_days_to_last(found[1], now.date())
    if found := DAY_OF_YEAR.fullmatch(day):
        month = found["month"] or found["first"]
        return _count_days_to_date(
            int(found["day"] or found["then"]), MONTHS.index(month) + 1 if month else 0, now, text
        )
    raise ValueError(f"{text!r} is not a time picoclaw knows; write it like {MOMENT_FORMS}")


def _count_days_to_last(weekday: str, today: date) -> int:
    """Days until the last such day of this month, or of the next one where it is over; "day" is any."""
    for month in (today.replace(day=1), (today.replace(day=28) + timedelta(4)).replace(day=1)):
        last = (month.replace(day=28) + timedelta(4)).replace(day=1) - timedelta(1)
        back = 0 if weekday == "day" else (last.weekday() - WEEKDAYS.index(weekday)) % len(WEEKDAYS)
        if last - timedelta(back) >= today:
            break
    return (last - timedelta(back) - today).days


def _count_days_to_date(day: int, month: int, now: datetime, text: str) -> int:
    """Days until the next such day of a month, 1 to 12, or of any month for 0; today's is 0 days away."""
    for ahead in range(_MAX_DAYS_TO_DATE):
        one = now.date() + timedelta(days=ahead)
        if one.day == day and month in {0, one.month}:
            return ahead
    raise ValueError(f"{text!r} names a day that no month has")


def format_duration(seconds: float, *, exact: bool = False) -> str:
    """Format a length of time, such as 1 h 30 min: in its two largest units from minutes on, or whole if `exact`."""
    seconds = round(seconds, 3)
    parts = ((seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    shown = [f"{amount:g} {unit}" for amount, unit in parts if amount]
    if not exact:
        shown = [part for part in shown if not part.endswith(" s")][:2] or [f"{int(seconds)} s"]
    return " ".join(shown) or "0 s"


_OFFSET = pattern(r"(?:utc|gmt|z)?\s*(?:([+-])\s*(\d{1,2})(?::?([0-5]\d))?)?", re.IGNORECASE)
_MAX_OFFSET_H = 14
_NAME = pattern(r"(?=.{2,50}\Z)[A-Z][\w+-]*(?:/[\w+-]+)*", re.ASCII)
_NAME_MARKS = pattern("[.'’]")
_WORDS = pattern(r"[^\W_]+")
_NOT_A_PLACE = {"EST", "MST", "HST", "Factory"}
"""Zones that know no summer time where people have it, and one that is whatever its board's maker left there."""

_CITY_ALIASES = {
    "buenos_aires": "america/argentina/buenos_aires", "calcutta": "kolkata", "canberra": "sydney", "kiev": "kyiv",
    "ho_chi_minh_city": "ho_chi_minh", "indianapolis": "america/indiana/indianapolis", "montreal": "toronto",
    "louisville": "america/kentucky/louisville", "new_york_city": "new_york", "rangoon": "yangon", "saigon": "ho_chi_minh",
    "tel_aviv": "jerusalem",
}  # fmt: skip
_COUNTRY_ALIASES = {
    "britain": "GB", "czechia": "CZ", "england": "GB", "great_britain": "GB", "scotland": "GB", "south_korea": "KR",
    "the_netherlands": "NL", "turkiye": "TR", "uk": "GB", "united_kingdom": "GB", "us": "US", "usa": "US",
}  # fmt: skip
_AMBIGUOUS_COUNTRY = "georgia"
_UNSET = {"", "-"}
_MAX_SHORT_NAME = 4  # letters; EST is no misspelt West, nor East a misspelt Easter
_MAX_NAMED = 4
ZONE_FORMS = "a city such as Berlin, the biggest one that has your time, or an offset such as UTC+1"


class _ZoneRow(NamedTuple):
    """A row of the time zone database: whose land it is on, by the country's code, and what it is called."""

    country: str
    name: str
    parts: list[str]


def find_zone(fields: Mapping[str, str]) -> tuple[tzinfo | None, str]:
    """Return the zone that the owner's fields name, and what is wrong with it; None for the board's own zone."""
    text = next((value.strip() for label, value in fields.items() if label.lower() == "time zone"), "")
    return (None, "") if text in _UNSET else _parse_zone(text)


@lru_cache(maxsize=4)
def _parse_zone(text: str) -> tuple[tzinfo | None, str]:
    try:
        return parse_zone(text), ""
    except ValueError as error:
        return None, f"the time zone: {error}"


def parse_zone(text: str) -> tzinfo:
    """Find the zone that a person means; `str()` of it is the name to keep. Raises ValueError saying what to write.

    A city is the one that the time zone database calls so; with a country or a state behind a comma it has to lie
    there. A country means its time, where it has only one.
    """
    text = " ".join(text.replace("−", "-").split())
    offset = _OFFSET.fullmatch(text) if text else None
    if offset and int(offset[2] or 0) <= _MAX_OFFSET_H:
        east = timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        return timezone(-east if offset[1] == "-" else east)
    try:
        return _find_in_database(text)
    except OSError as error:
        raise ValueError(f"this board's time zones cannot be read ({error}); give an offset such as UTC+1") from None


def _find_in_database(text: str) -> tzinfo:
    from zoneinfo import TZPATH, ZoneInfo

    for name in (text, text.upper()):
        if _NAME.fullmatch(name) and name not in _NOT_A_PLACE and any(Path(top, name).is_file() for top in TZPATH):
            return ZoneInfo(name)
    rows = (row.split("\t") for row in _load_table(TZPATH, "zone.tab"))
    zones = [_ZoneRow(row[0], row[2], _normalize_name(row[2]).split("/")) for row in rows]
    if not zones:
        raise ValueError("this board has no time zones: `sudo apt install tzdata`, or give an offset such as UTC+1")
    found = _find_names(text, zones, TZPATH)
    if not found:
        raise ValueError(
            f"{truncate(text, _MAX_QUOTED)!r} is not a time zone picoclaw knows{_suggest_city(text, zones)}; write {ZONE_FORMS}"
        )
    if any(_compute_offsets(name) != _compute_offsets(found[0]) for name in found[1:]):
        which = f"may be {' or '.join(found)}" if len(found) <= _MAX_NAMED else "has several time zones"
        raise ValueError(f"{truncate(text, _MAX_QUOTED)!r} {which}; write {ZONE_FORMS}")
    return ZoneInfo(found[0])


def _load_table(folders: Iterable[str], name: str) -> list[str]:
    """The rows of one of the database's tables, none where it is not installed."""
    path = next((path for top in folders if (path := Path(top, name)).is_file()), None)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    return [line for line in lines if line and not line.startswith("#")]


def _find_names(text: str, zones: Sequence[_ZoneRow], folders: Iterable[str]) -> list[str]:
    """The names of the zones that a text may mean: those of a city, or else those of a country."""
    before, comma, last = text.rpartition(",")
    city, place = (_normalize_name(before), _normalize_name(last)) if comma else (_normalize_name(last), "")
    named = [zone for zone in zones if _is_called(zone, _CITY_ALIASES.get(city, city))]
    if named and not place:
        return [zone.name for zone in named]
    # a country's code, '' for what is none; the code itself is not understood, because CA is California as well
    words = place or city
    rows = (row.partition("\t") for row in _load_table(folders, "iso3166.tab"))
    country = _COUNTRY_ALIASES.get(words) or next(
        (code for code, _, name in rows if _normalize_name(name) == words), ""
    )
    there = [zone.name for zone in named if zone.country == country]
    there += [zone.name for zone in zones if zone.parts[-1] == city and place in zone.parts[1:-1]]
    if there or (place or city) == _AMBIGUOUS_COUNTRY:
        return there
    return [zone.name for zone in zones if zone.country == country]


def _is_called(zone: _ZoneRow, city: str) -> bool:
    """Whether it is the city's. Below a state's name the city alone is no name, because there are others."""
    return city == "/".join(zone.parts) or zone.parts[1:] == [city]


def _normalize_name(name: str) -> str:
    """A name without case and accents; what is between its words does not matter."""
    plain = _NAME_MARKS.sub("", fold_accents(name))
    return "/".join("_".join(_WORDS.findall(part)) for part in plain.split("/"))


def _compute_offsets(name: str) -> tuple[timedelta | None, ...]:
    """What tells one zone from another that is only called differently: its offsets in the months of some years."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(name)
    months = (datetime(2024 + i // 12, i % 12 + 1, 1, tzinfo=UTC) for i in range(120))
    return tuple(month.astimezone(zone).utcoffset() for month in months)


def _suggest_city(text: str, zones: Sequence[_ZoneRow]) -> str:
    """A city that is written nearly like this; a place behind a comma says that another one was meant."""
    wanted = _normalize_name(text[:_MAX_QUOTED])
    if "," in text or len(wanted) <= _MAX_SHORT_NAME:
        return ""
    import difflib

    cities = {zone.parts[-1]: zone.name for zone in zones if len(zone.parts) == len(("region", "city"))}
    close = difflib.get_close_matches(wanted.rpartition("/")[2], cities, n=1, cutoff=0.8)
    return f" (did you mean {cities[close[0]]}?)" if close else ""


# Hours of the day as an owner writes them: "22:00-07:00".

_HOURS = pattern(r"(\d{1,2}):(\d\d)\s*[-–—]\s*(\d{1,2}):(\d\d)")


def parse_hour_span(text: str, where: str) -> tuple[time, time] | None:
    """Read a span of hours, which may go over midnight; None for an empty one. Raises ConfigError naming `where`."""
    if not text.strip():
        return None
    found = _HOURS.fullmatch(text.strip())
    try:
        start, end = (time(int(found[i]), int(found[i + 1])) for i in (1, 3)) if found else (time(), time())
    except ValueError:
        start = end = time()
    if start == end:
        raise ConfigError(f'{where} is {text!r}; write it like "22:00-07:00", or "" for none')
    return start, end


def is_quiet(quiet: tuple[time, time] | None, now: datetime) -> bool:
    """Whether a local time is in the quiet hours, which may cross midnight."""
    if quiet is None:
        return False
    (start, end), clock = quiet, now.time()
    return start <= clock < end if start < end else clock >= start or clock < end
