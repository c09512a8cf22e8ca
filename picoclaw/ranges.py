"""The time that words mean: how long "10 minutes" are, when "yesterday" or "since monday" was. Pure; English."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

FORMS = "'last 24 hours', 'today', 'yesterday', 'this week', 'last month', 'since monday', '2026-03-01'"
DURATIONS = "'90 seconds', '10 minutes', '2 hours' or '3 days'"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {
    "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600,
    "d": 86_400, "day": 86_400, "night": 86_400, "w": 604_800, "week": 604_800,
    "month": 30 * 86_400, "year": 365 * 86_400,
}  # fmt: skip
_FEW = {"a": 1, "an": 1, "one": 1, "half an": 0.5, "two": 2, "three": 3, "few": 3, "five": 5, "ten": 10, "twelve": 12}
_PARTS = {"morning": 6, "afternoon": 12, "evening": 18}
_NAMES = "|".join(sorted(_UNITS, key=len, reverse=True))
_LENGTH = re.compile(
    rf"(\d+(?:\.\d+)?|{'|'.join(sorted(_FEW, key=len, reverse=True))})?\s*({_NAMES})(?:(?<=[a-z]{{2}})s)?(?![a-z])"
)
_LONGEST_S = 3660 * 86_400
_LONGEST_SHOWN = 60
_LONGEST = 200
"""Characters that are read: a longer text is no time, and reading it would take the square of its length."""
_AROUND = timedelta(minutes=10)
"""What belongs to "an hour ago", on either side of it."""


class Range(NamedTuple):
    """Some time, from `begin` to before `end`."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length; a day has 23 hours when the clocks are put forward."""
        return self.end.timestamp() - self.begin.timestamp()


def seconds(text: str) -> float:
    """Read a length of time, such as "10 minutes" or "1 h 30 min"; a bare number counts seconds. Raises ValueError."""
    words = " ".join(text[:_LONGEST].lower().replace(" and ", " ").split())
    found = _bare(words) if re.fullmatch(r"\d+(\.\d+)?", words) else _sum(words)
    if len(text) > _LONGEST or found is None or not 0 < found <= _LONGEST_S:
        raise ValueError(f"{_cut(text)!r} is no length of time; write it like {DURATIONS}")
    return found


def _bare(words: str) -> float:
    return float(words) if len(words) < 12 else 0.0


def _sum(words: str) -> float | None:
    total, end = 0.0, 0
    for match in _LENGTH.finditer(words):
        if words[end : match.start()].strip():
            return None
        total += _length(match)
        end = match.end()
    return None if words[end:].strip() or not words else total


def _length(match: re.Match[str]) -> float:
    count, unit = match[1] or "1", match[2]
    return (_FEW[count] if count in _FEW else float(count)) * _UNITS[unit]


def shown(length: float) -> str:
    """Say a length of time as a person would, exactly."""
    for unit in ("week", "day", "hour", "minute"):
        if length >= _UNITS[unit] and length % _UNITS[unit] == 0:
            return _counted(length / _UNITS[unit], unit)
    return _counted(length, "second")


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"


def meant(text: str, now: datetime) -> Range:
    """Return the time that a text means, in the zone of `now` and never later than it. Raises ValueError."""
    words = re.sub(r"\bthe\b|^\s*(?:for|during|in|over|within)\b", " ", text[:_LONGEST].lower())
    words = " ".join(words.split())
    try:
        found = _found(words, now) if len(text) <= _LONGEST else None
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise ValueError(f"{_cut(text)!r} is no time picoclaw knows; write it like {FORMS}")
    found = Range(found.begin, min(found.end, now, key=datetime.timestamp))
    if found.seconds <= 0:
        raise ValueError(f"{_cut(text)!r} is yet to come; it is {now:%Y-%m-%d %H:%M} now")
    return found


def _found(words: str, now: datetime) -> Range | None:
    for pattern, range_of in _KNOWN:
        if match := pattern.fullmatch(words):
            return range_of(match, now)
    return None


def _back(match: re.Match[str], now: datetime) -> Range:
    length = _sum(match[1])
    if not length or length > _LONGEST_S:
        raise ValueError
    return Range((now.astimezone(UTC) - timedelta(seconds=length)).astimezone(now.tzinfo), now)


def _since(match: re.Match[str], now: datetime) -> Range:
    if clock := re.fullmatch(r"(\d{1,2})(?::(\d\d))?", match[1]):
        begin = _midnight(now.date(), now).replace(hour=int(clock[1]), minute=int(clock[2] or 0))
        return Range(begin if begin <= now else _yesterday_at(begin, now), now)
    found = _found(match[1], now)
    if found is None:
        raise ValueError
    return Range(found.begin, now)


def _yesterday_at(begin: datetime, now: datetime) -> datetime:
    return _midnight(now.date() - timedelta(1), now).replace(hour=begin.hour, minute=begin.minute)


def _between(match: re.Match[str], now: datetime) -> Range:
    first, last = _found(match[1], now), _found(match[2], now)
    if first is None or last is None:
        raise ValueError
    return Range(first.begin, last.end)


def _day(ahead: int) -> Callable[[re.Match[str], datetime], Range]:
    return lambda _, now: _days(now.date() + timedelta(ahead), 1, now)


def _ago(match: re.Match[str], now: datetime) -> Range:
    length = _sum(match[1])
    if not length:
        raise ValueError
    if length < _UNITS["day"]:
        moment = (now.astimezone(UTC) - timedelta(seconds=length)).astimezone(now.tzinfo)
        return Range(moment - _AROUND, moment + min(_AROUND, timedelta(seconds=length)))
    return _days(now.date() - timedelta(seconds=length), 1, now)


def _weekday(match: re.Match[str], now: datetime) -> Range:
    """The latest such day, which may be today unless it is the last one."""
    back = (now.weekday() - _DAYS.index(match[2])) % 7
    back += 7 if match[1] == "last" and not back else 0
    return _days(now.date() - timedelta(back), 1, now)


def _date(match: re.Match[str], now: datetime) -> Range:
    return _days(date.fromisoformat(match[1]), 1, now)


def _night(_: re.Match[str], now: datetime) -> Range:
    """From six to six."""
    evening = _midnight(now.date() - timedelta(1), now).replace(hour=18)
    return Range(evening, _midnight(now.date(), now).replace(hour=6))


def _part(match: re.Match[str], now: datetime) -> Range:
    """Six hours of a day; an evening ends with its day."""
    day = now.date() - timedelta(match[1] == "yesterday")
    begin = _PARTS[match[2]]
    end = _midnight(day + timedelta(1), now) if begin == 18 else _midnight(day, now).replace(hour=begin + 6)
    return Range(_midnight(day, now).replace(hour=begin), end)


def _calendar(match: re.Match[str], now: datetime) -> Range:
    today, back = now.date(), match[1] in {"last", "previous"}
    if match[2] == "week":
        return _days(today - timedelta(today.weekday() + (7 if back else 0)), 7, now)
    if match[2] == "year":
        year = today.year - back
        return Range(_midnight(date(year, 1, 1), now), _midnight(date(year + 1, 1, 1), now))
    month = 12 * today.year + today.month - 1 - back
    return Range(*(_midnight(date(m // 12, m % 12 + 1, 1), now) for m in (month, month + 1)))


def _days(first: date, count: int, now: datetime) -> Range:
    return Range(_midnight(first, now), _midnight(first + timedelta(count), now))


def _midnight(day: date, now: datetime) -> datetime:
    """The first moment of a day in the zone of `now`; an offset alone stands for the board's own."""
    start = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - zoned at once
    named = hasattr(now.tzinfo, "key") or str(now.tzinfo).startswith("UTC")
    return start.replace(tzinfo=now.tzinfo) if named else start.astimezone()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


_Form = tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Range]]
_KNOWN: list[_Form] = [
    (re.compile(r"today|so far today"), _day(0)),
    (re.compile(r"yesterday"), _day(-1)),
    (re.compile(r"day before yesterday|day before"), _day(-2)),
    (re.compile(r"last night"), _night),
    (re.compile(r"(this|last|previous) (week|month|year)"), _calendar),
    (re.compile(rf"(this|yesterday) ({'|'.join(_PARTS)})"), _part),
    (re.compile(r"(\S+ (?:minute|hour|day|week)s?) ago"), _ago),
    (re.compile(rf"(?:(last|on|this) )?({'|'.join(_DAYS)})"), _weekday),
    (re.compile(r"(?:on )?(\d{4}-\d\d-\d\d)"), _date),
    (re.compile(r"since (.+)"), _since),
    (re.compile(r"(?:from |between )?(\S.*) (?:to|until|till|and|-|–) (.+)"), _between),
    (re.compile(r"(?:last |past |previous )?(.+)"), _back),
]
