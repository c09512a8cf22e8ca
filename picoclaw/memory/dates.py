"""The days that a question means: "last Tuesday", "in March", "on 3 May", "2026-03-01". English; pure.

Notes tell of what was, so a day without a year is the latest one that is not after today.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from picoclaw.text import pattern


class DateRange(NamedTuple):
    """Some days in a row, both ends included."""

    first: date
    last: date


_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_VAGUE_COUNTS = {"a": 1, "an": 1, "couple of": 2, "few": 3}
_RANGE_WORDS = {"and", "to", "until", "till", "-", "–"}
_find_range_start = re.compile(r"\b(?:between|from)\b").search

_WEEKDAY = rf"(?P<weekday>{'|'.join(_WEEKDAYS)})"
_MONTH_NAMES = "|".join(sorted([*MONTHS, *(m[:3] for m in MONTHS), "sept"], key=len, reverse=True))
_MONTH = rf"(?P<month>{_MONTH_NAMES})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join([*_NUMBERS, *_VAGUE_COUNTS])})"
_UNIT = r"(?P<unit>day|night|week|month|year)s?"
_BEFORE_MONTHS = "in of during since from to until till by around for early mid late last".split()  # noqa: SIM905
_BEFORE_MONTH = "|".join(rf"(?<=\b{word} )" for word in _BEFORE_MONTHS)
_DAY_FIRST = rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s*{_YEAR})?"
_MONTH_FIRST = rf"{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s*{_YEAR})?"
_TWO_DAYS = pattern(rf"\b(\d{{1,2}}) (and|to|until|till|-|–) (\d{{1,2}}) ({_MONTH_NAMES})\b")


def extract_days(text: str, now: datetime) -> tuple[list[DateRange], str]:
    """Return the days that a text speaks of, in its order, and what it says besides."""
    text = _TWO_DAYS.sub(r"\1 \4 \2 \3 \4", " ".join(text.lower().replace("mid-", "mid ").split()))
    left, found = text.replace("\0", " "), []
    for form, read in _FORMS:
        for match in form.finditer(left):
            try:
                found.append((match.span(), read(match, now.date())))
            except (ValueError, OverflowError):  # 31 February, or beyond the calendar's ends
                continue
        left = form.sub(lambda match: "\0" * len(match[0]), left)
    return _join_ranges(sorted(found), text, now.date()), left.replace("\0", "")


def _join_ranges(found: list[tuple[tuple[int, int], DateRange]], text: str, today: date) -> list[DateRange]:
    """Make one row of days of "from 3 to 5 May" and of "since Monday"."""
    result: list[DateRange] = []
    end = 0
    for (start, after), days in found:
        lead = text[end:start].split()
        if result and " ".join(lead) in _RANGE_WORDS and _find_range_start(text[:end]):
            first = result[-1].first
            if first > days.last and (first.month, first.day) <= (days.last.month, days.last.day):
                first = first.replace(year=days.last.year)  # "between 11 August and 15 August 2023"
            if first <= days.last:
                result[-1], end = DateRange(first, days.last), after
                continue
        since = bool(lead) and lead[-1] == "since" and days.first <= today
        result.append(DateRange(days.first, today) if since else days)
        end = after
    return list(dict.fromkeys(result))


def _make_day(day: date) -> DateRange:
    return DateRange(day, day)


def _make_month(year: int, month: int) -> DateRange:
    return DateRange(date(year, month, 1), date(year, month, monthrange(year, month)[1]))


def _make_year(year: int) -> DateRange:
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def _make_period(unit: str, back: int, today: date) -> DateRange:
    """The calendar week, weekend, month or year so many before this one."""
    if unit in {"week", "weekend"}:
        monday = today - timedelta(today.weekday() + 7 * back)
        return DateRange(monday + timedelta(5 if unit == "weekend" else 0), monday + timedelta(6))
    if unit == "month":
        return _make_month(*_subtract_months(today.year, today.month, back))
    return _make_year(today.year - back)


def _subtract_months(year: int, month: int, count: int) -> tuple[int, int]:
    years, index = divmod(12 * year + month - 1 - count, 12)
    return years, index + 1


def _parse_month(match: re.Match[str]) -> int:
    return next(i for i, month in enumerate(MONTHS, 1) if month.startswith(match["month"][:3]))


def _parse_count(word: str) -> int:
    return int(word) if word.isdecimal() else _VAGUE_COUNTS.get(word, 0) or _NUMBERS.index(word)


def _read_iso(match: re.Match[str], _: date) -> DateRange:
    year, month = int(match["year"]), int(match["month"])
    return _make_day(date(year, month, int(match["day"]))) if match["day"] else _make_month(year, month)


def _read_day_of_month(match: re.Match[str], today: date) -> DateRange:
    month, day = _parse_month(match), int(match["day"])
    if match["year"]:
        return _make_day(date(int(match["year"]), month, day))
    for year in range(today.year, today.year - 9, -1):
        is_leap_day = (month, day) == (2, 29) and monthrange(year, 2)[1] == 28
        if not is_leap_day and (found := date(year, month, day)) <= today:
            return _make_day(found)
    raise ValueError("no such day")


def _read_month(match: re.Match[str], today: date) -> DateRange:
    month = _parse_month(match)
    return _make_month(int(match["year"] or (today.year if month <= today.month else today.year - 1)), month)


def _read_nth(match: re.Match[str], today: date) -> DateRange:
    """The latest day with that number in its month: "on the 3rd"."""
    year, month = today.year, today.month
    for _ in range(12):
        day = int(match["day"])
        if day <= monthrange(year, month)[1] and (found := date(year, month, day)) <= today:
            return _make_day(found)
        year, month = _subtract_months(year, month, 1)
    raise ValueError("no month has so many days")


def _read_ago(match: re.Match[str], today: date) -> DateRange:
    count, unit = _parse_count(match["count"]), match["unit"]
    if unit in {"month", "year"}:
        return _make_period(unit, count, today)
    day = today - timedelta(count * (7 if unit == "week" else 1))
    vague = timedelta(3 if unit == "week" else 2 if match["count"] == "few" else 0)
    return DateRange(day - vague, min(day + vague, today))


def _read_past(match: re.Match[str], today: date) -> DateRange:
    """Back from today: "in the last three weeks"."""
    length = {"day": 1, "night": 1, "week": 7, "month": 31, "year": 366}[match["unit"]]
    return DateRange(today - timedelta(length * _parse_count(match["count"])), today)


def _read_weekday(match: re.Match[str], today: date) -> DateRange:
    """The latest such day before today."""
    return _make_day(today - timedelta((today.weekday() - _WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1))


def _read_week_before(match: re.Match[str], today: date) -> DateRange:
    """The seven days before a day: "the week before 16 November"."""
    before = _read_day_of_month(match, today).first
    return DateRange(before - timedelta(7), before - timedelta(1))


def _compile_form(text: str) -> re.Pattern[str]:
    return pattern(rf"(?<![\w-]){text}(?![\w-])")


# In this order: what an earlier form has read is not read again.
_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str], date], DateRange]]] = [
    (_compile_form(r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?:t[\d:.]+z?)?"), _read_iso),
    (_compile_form(rf"week\s+before\s+(?:the\s+)?{_DAY_FIRST}"), _read_week_before),
    (_compile_form(rf"week\s+before\s+{_MONTH_FIRST}"), _read_week_before),
    (_compile_form(_DAY_FIRST), _read_day_of_month),
    (_compile_form(_MONTH_FIRST), _read_day_of_month),
    (_compile_form(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}"), _read_month),
    (_compile_form(rf"(?:{_BEFORE_MONTH})(?P<month>{_MONTH_NAMES})(?P<year>)"), _read_month),
    (_compile_form(rf"(?P<month>{'|'.join(m for m in MONTHS if m not in {'march', 'may'})})(?P<year>)"), _read_month),
    (_compile_form(r"(?:the\s+)?day\s+before\s+yesterday"), lambda _, today: _make_day(today - timedelta(2))),
    (_compile_form(r"yesterday|last\s+night"), lambda _, today: _make_day(today - timedelta(1))),
    (_compile_form(r"today|tonight|this\s+(?:morning|afternoon|evening)"), lambda _, today: _make_day(today)),
    (_compile_form(rf"(?:a\s+)?{_COUNT}\s+{_UNIT}\s+ago"), _read_ago),
    (_compile_form(rf"(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}"), _read_past),
    (
        _compile_form(r"(?P<which>last|past|previous|this)\s+(?P<unit>weekend|week|month|year)"),
        lambda match, today: _make_period(match["unit"], int(match["which"] != "this"), today),
    ),
    (_compile_form(rf"(?:(?:last|this|past|on)\s+)?{_WEEKDAY}"), _read_weekday),
    (_compile_form(r"on\s+the\s+(?P<day>\d{1,2})(?:st|nd|rd|th)"), _read_nth),
    (_compile_form(rf"(?:(?:in|of|during|since|year)\s+){_YEAR}"), lambda match, _: _make_year(int(match["year"]))),
]
