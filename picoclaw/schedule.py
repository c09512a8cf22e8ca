"""When something is due, and in whose time zone: arithmetic on moments that are handed in."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

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
    text = _cut(text)
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
    own_rules = hasattr(now.tzinfo, "key") or str(now.tzinfo).startswith("UTC")
    if now.tzinfo is None or own_rules or abs(moment.year - now.year) > _YEARS_OF_RULES:
        return moment.replace(tzinfo=now.tzinfo)
    return moment.astimezone()  # an offset called CET stands for the system's zone, whose rules apply on that day


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


_OFFSET = re.compile(r"(?:utc|gmt|z)?\s*(?:([+-])\s*(\d{1,2})(?::?([0-5]\d))?)?", re.IGNORECASE)
_WIDEST_H = 14
_NOT_A_PLACE = {"EST", "MST", "HST", "Factory", "localtime"}
"""Zones that know no summer time where people have it, or that are whatever the machine says."""

_UNSET = {"", "-"}
_SHORT = 3  # letters; EST is no misspelt West
ZONE_FORMS = "a city such as Berlin, a name such as America/New_York, or an offset such as UTC+1"


def zone_of(fields: Mapping[str, str]) -> tuple[tzinfo | None, str]:
    """Return the zone that the owner's fields name, and what is wrong with it; None for the board's own zone."""
    text = next((value.strip() for label, value in fields.items() if label.lower() == "time zone"), "")
    return (None, "") if text in _UNSET else _zone_or_problem(text)


@lru_cache(maxsize=4)
def _zone_or_problem(text: str) -> tuple[tzinfo | None, str]:
    try:
        return zone_named(text), ""
    except ValueError as error:
        return None, f"the time zone: {error}"


def zone_named(text: str) -> tzinfo:
    """Find the zone that a person means; `str()` of it is the name to keep. Raises ValueError saying what to write."""
    text = " ".join(text.replace("−", "-").split())
    offset = _OFFSET.fullmatch(text) if text else None
    if offset and int(offset[2] or 0) <= _WIDEST_H:
        east = timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        return timezone(-east if offset[1] == "-" else east)
    from zoneinfo import ZoneInfo, available_timezones

    if re.fullmatch(r"[A-Z]\w+/[\w/+-]+", text, re.ASCII):
        try:
            return ZoneInfo(text)
        except (OSError, ValueError, KeyError):
            pass  # its spelling may be mended below
    names = available_timezones() - _NOT_A_PLACE
    if not names:
        raise ValueError("this board has no time zones: `sudo apt install tzdata`, or give an offset such as UTC+1")
    return ZoneInfo(_place(text, names))


def _place(text: str, names: set[str]) -> str:
    """The name that is meant by a name in any spelling, or by the city at its end; "Berlin, Germany" is Berlin."""
    for words in (text, text.partition(",")[0]):
        wanted = words.strip().replace(" / ", "/").replace(" ", "_").casefold()
        whole = [name for name in names if name.casefold() == wanted]
        found = whole or sorted((n for n in names if _city(n) == wanted), key=lambda name: (len(name), name))
        if found and len({_rules(name) for name in found}) == 1:
            return found[0]
        if found:
            raise ValueError(f"{text!r} may be {' or '.join(found)}; say which")
    raise ValueError(f"{_cut(text)!r} is not a time zone picoclaw knows{_alike(text, names)}; write {ZONE_FORMS}")


def _city(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def _rules(name: str) -> tuple[timedelta | None, ...]:
    """What tells one zone from another that is only called differently: its offsets in the months of some years."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(name)
    months = (datetime(2015 + i // 12, i % 12 + 1, 1, tzinfo=UTC) for i in range(240))
    return tuple(month.astimezone(zone).utcoffset() for month in months)


def _alike(text: str, names: set[str]) -> str:
    import difflib

    cities = {_city(name): name for name in sorted(names) if "/" in name}
    wanted = text[:_LONGEST_SHOWN].rpartition("/")[2].replace(" ", "_").casefold()
    close = difflib.get_close_matches(wanted, cities, n=1, cutoff=0.75) if len(wanted) > _SHORT else []
    return f"; did you mean {cities[close[0]]}?" if close else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
