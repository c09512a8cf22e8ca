"""When something is due: arithmetic on moments that are handed in."""

import re
from datetime import datetime, timedelta

LONGEST = timedelta(days=3660)
_LONGEST_SHOWN = 60
_YEARS_OF_RULES = 20  # beyond, no zone's rules are known, and the ends of the calendar are near
_CLOCK = re.compile(r"(?:at\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FORMS = "'18:30', '6pm', 'tomorrow 07:30', 'friday 9:00' or '2026-12-01 08:00'"


def at(text: str, now: datetime) -> datetime:
    """Find the next moment, after `now`, that a person means by a text; in the zone of `now`.

    A time of day alone is today's, or tomorrow's when it is past. Raises ValueError naming the accepted forms.
    """
    words = " ".join(text.lower().split())
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    if moment := _date(words):
        return _local(moment, now)
    day, _, clock = words.rpartition(" ")
    if clock in {"am", "pm"}:
        day, _, hour = day.rpartition(" ")
        clock = hour + clock
    hour_minute = _clock(clock, text)
    day = f" {day}".removesuffix(" at").strip()
    ahead = _days_ahead(day, now, text)
    moment = _wall(now, ahead or 0, hour_minute)
    if moment <= now and ahead is None:
        return _wall(now, 1, hour_minute)
    return _wall(now, 7, hour_minute) if moment <= now and day in _DAYS else moment


def _date(words: str) -> datetime | None:
    try:
        return datetime.fromisoformat(words.upper().replace(" ", "T", 1))
    except ValueError:
        return None


def _local(moment: datetime, now: datetime) -> datetime:
    """A date without a zone is meant in the zone of `now`, which knows its own summer time."""
    return moment if moment.tzinfo else _zoned(moment, now)


def _zoned(moment: datetime, now: datetime) -> datetime:
    if now.tzinfo is None or hasattr(now.tzinfo, "key") or abs(moment.year - now.year) > _YEARS_OF_RULES:
        return moment.replace(tzinfo=now.tzinfo)
    return moment.astimezone()  # a fixed offset stands for the system's zone, whose rules apply on that day


def _wall(now: datetime, days: int, hour_minute: tuple[int, int]) -> datetime:
    day = now.date() + timedelta(days=days)
    return _zoned(datetime(day.year, day.month, day.day, *hour_minute), now)  # noqa: DTZ001 - zoned at once


def _clock(words: str, text: str) -> tuple[int, int]:
    found = _CLOCK.fullmatch(words)
    if found is None or (found[2] is None and found[3] is None):
        raise ValueError(f"{text!r} is not a time picoclaw knows; write it like {FORMS}")
    hour, minute, half = int(found[1]), int(found[2] or 0), (found[3] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise ValueError(f"{text!r} is not a time of day")
    return hour, minute


def _days_ahead(day: str, now: datetime, text: str) -> int | None:
    """Days until the named one; None when none is named."""
    if not day:
        return None
    known = {"today": 0, "tonight": 0, "tomorrow": 1}
    if day in known:
        return known[day]
    if day.removeprefix("on ") in _DAYS:
        return (_DAYS.index(day.removeprefix("on ")) - now.weekday()) % 7
    raise ValueError(f"{text!r} is not a time picoclaw knows; write it like {FORMS}")


def duration(seconds: float) -> str:
    """Say a time span in its two largest units."""
    parts = [
        (int(seconds // 86_400), "d"),
        (int(seconds // 3600 % 24), "h"),
        (int(seconds // 60 % 60), "min"),
    ]
    shown = [f"{amount} {unit}" for amount, unit in parts if amount][:2]
    return " ".join(shown) or f"{int(seconds)} s"
