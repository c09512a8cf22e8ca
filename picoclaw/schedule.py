"""When something is due, and in whose time zone: arithmetic on moments that are handed in."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from picoclaw.pattern import pattern

LONGEST = timedelta(days=3660)
_LONGEST_SHOWN = 60
_YEARS_OF_RULES = 20  # beyond, no zone's rules are known, and the ends of the calendar are near
_CLOCK = pattern(r"(?:at\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FORMS = "'18:30', '6pm', 'tomorrow 07:30', 'friday 9:00' or '2026-12-01 08:00'"


def at(text: str, now: datetime) -> datetime:
    """Find the next moment, after `now`, that a person means by a text; in the zone of `now`.

    A time of day alone is today's, or tomorrow's when it is past; one that comes twice, because the clocks are put
    back, is the next of the two; "6:00 o'clock" is 6:00 or 18:00, whichever comes first. Raises ValueError naming the
    accepted forms.
    """
    words = " ".join(text.lower().split())
    text = _cut(text)
    if moment := _date(words):
        return _local(moment, now)
    if words.endswith(" o'clock"):
        return _next_of_two(_clock(words.removesuffix(" o'clock"), text), now)
    day, _, clock = words.rpartition(" ")
    if clock in {"am", "pm"}:
        day, _, hour = day.rpartition(" ")
        clock = hour + clock
    hour_minute = _clock(clock, text)
    day = f" {day}".removesuffix(" at").strip()
    ahead = _days_ahead(day, now, text)
    moment = _wall(now, ahead or 0, hour_minute)
    if seconds_until(moment, now) > 0:
        return moment
    if ahead is None:
        return _wall(now, 1, hour_minute)
    return _wall(now, 7, hour_minute) if day.removeprefix("on ") in _DAYS else moment


def _next_of_two(hour_minute: tuple[int, int], now: datetime) -> datetime:
    """The next moment at which a clock with twelve hours shows a time."""
    hour, minute = hour_minute
    moments = (_wall(now, days, (each, minute)) for days in (0, 1) for each in {hour, (hour + 12) % 24})
    return min((moment for moment in moments if seconds_until(moment, now) > 0), key=datetime.timestamp)


def later(now: datetime, seconds: float) -> datetime:
    """The moment that is so much later than `now`, in its zone; hours that the clocks skip or repeat count as hours."""
    return (now.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(now.tzinfo)


def seconds_until(due: datetime, now: datetime) -> float:
    """Seconds from one moment to another. Python itself subtracts the clocks of one zone, not the moments."""
    return due.timestamp() - now.timestamp()


def _date(words: str) -> datetime | None:
    try:
        return datetime.fromisoformat(words.upper().replace(" ", "T", 1))
    except ValueError:
        return None


def _local(moment: datetime, now: datetime) -> datetime:
    """A date without a zone is meant in the zone of `now`, which knows its own summer time.

    Of two moments that clocks show it at, it is the next, or the first of two that are past. Where clocks are put
    forward over it, it is as much later as they are.
    """
    if moment.tzinfo:
        return moment
    first, second = (_zoned(moment.replace(fold=fold), now) for fold in (0, 1))
    repeated_after = seconds_until(second, first)
    if repeated_after >= 0:
        return second if repeated_after and seconds_until(first, now) <= 0 else first
    shown = first.astimezone(UTC).astimezone(first.tzinfo)
    return second if moment < now.replace(tzinfo=None) < shown.replace(tzinfo=None) else shown


def _zoned(moment: datetime, now: datetime) -> datetime:
    own_rules = hasattr(now.tzinfo, "key") or str(now.tzinfo).startswith("UTC")
    if now.tzinfo is None or own_rules or abs(moment.year - now.year) > _YEARS_OF_RULES:
        return moment.replace(tzinfo=now.tzinfo)
    # an offset called CET stands for the system's zone, whose rules apply on that day
    return datetime.fromtimestamp(moment.timestamp(), UTC).astimezone()


def _wall(now: datetime, days: int, hour_minute: tuple[int, int]) -> datetime:
    day = now.date() + timedelta(days=days)
    return _local(datetime(day.year, day.month, day.day, *hour_minute), now)  # noqa: DTZ001 - zoned at once


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


_OFFSET = pattern(r"(?:utc|gmt|z)?\s*(?:([+-])\s*(\d{1,2})(?::?([0-5]\d))?)?", re.IGNORECASE)
_WIDEST_H = 14
_NAME = pattern(r"(?=.{2,50}\Z)[A-Z][\w+-]*(?:/[\w+-]+)*", re.ASCII)
_MARKS = pattern("[.'’\u0300-\u036f]")
_WORDS = pattern(r"[^\W_]+")
_NOT_A_PLACE = {"EST", "MST", "HST", "Factory"}
"""Zones that know no summer time where people have it, and one that is whatever its board's maker left there."""

_ALSO_CALLED = {
    "buenos_aires": "america/argentina/buenos_aires",
    "calcutta": "kolkata",
    "canberra": "sydney",
    "ho_chi_minh_city": "ho_chi_minh",
    "indianapolis": "america/indiana/indianapolis",
    "kiev": "kyiv",
    "louisville": "america/kentucky/louisville",
    "montreal": "toronto",
    "new_york_city": "new_york",
    "rangoon": "yangon",
    "saigon": "ho_chi_minh",
    "tel_aviv": "jerusalem",
}
_COUNTRY_ALSO_CALLED = {
    "britain": "GB",
    "czechia": "CZ",
    "england": "GB",
    "great_britain": "GB",
    "scotland": "GB",
    "south_korea": "KR",
    "the_netherlands": "NL",
    "turkiye": "TR",
    "uk": "GB",
    "united_kingdom": "GB",
    "us": "US",
    "usa": "US",
}
_ALSO_A_STATE = "georgia"
_UNSET = {"", "-"}
_SHORT = 4  # letters; EST is no misspelt West, nor East a misspelt Easter
_MOST_NAMED = 4
ZONE_FORMS = "a city such as Berlin, the biggest one that has your time, or an offset such as UTC+1"


class _Zone(NamedTuple):
    """A row of the time zone database: whose land it is on, by the country's code, and what it is called."""

    country: str
    name: str
    parts: list[str]


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
    """Find the zone that a person means; `str()` of it is the name to keep. Raises ValueError saying what to write.

    A city is the one that the time zone database calls so; with a country or a state behind a comma it has to lie
    there. A country means its time, where it has only one.
    """
    text = " ".join(text.replace("−", "-").split())
    offset = _OFFSET.fullmatch(text) if text else None
    if offset and int(offset[2] or 0) <= _WIDEST_H:
        east = timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        return timezone(-east if offset[1] == "-" else east)
    try:
        return _from_database(text)
    except OSError as error:
        raise ValueError(f"this board's time zones cannot be read ({error}); give an offset such as UTC+1") from None


def _from_database(text: str) -> tzinfo:
    from zoneinfo import TZPATH, ZoneInfo

    for name in (text, text.upper()):
        if _NAME.fullmatch(name) and name not in _NOT_A_PLACE and any(Path(top, name).is_file() for top in TZPATH):
            return ZoneInfo(name)
    zones = _zones(TZPATH)
    if not zones:
        raise ValueError("this board has no time zones: `sudo apt install tzdata`, or give an offset such as UTC+1")
    found = _meant(text, zones, TZPATH)
    if not found:
        raise ValueError(f"{_cut(text)!r} is not a time zone picoclaw knows{_alike(text, zones)}; write {ZONE_FORMS}")
    if any(_rules(name) != _rules(found[0]) for name in found[1:]):
        which = f"may be {' or '.join(found)}" if len(found) <= _MOST_NAMED else "has several time zones"
        raise ValueError(f"{_cut(text)!r} {which}; write {ZONE_FORMS}")
    return ZoneInfo(found[0])


def _zones(folders: Iterable[str]) -> list[_Zone]:
    rows = (row.split("\t") for row in _table(folders, "zone.tab"))
    return [_Zone(row[0], row[2], _key(row[2]).split("/")) for row in rows]


def _table(folders: Iterable[str], name: str) -> list[str]:
    """The rows of one of the database's tables, none where it is not installed."""
    path = next((path for top in folders if (path := Path(top, name)).is_file()), None)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    return [line for line in lines if line and not line.startswith("#")]


def _meant(text: str, zones: Sequence[_Zone], folders: Iterable[str]) -> list[str]:
    """The names of the zones that a text may mean: those of a city, or else those of a country."""
    before, comma, last = text.rpartition(",")
    city, place = (_key(before), _key(last)) if comma else (_key(last), "")
    named = [zone for zone in zones if _is_called(zone, _ALSO_CALLED.get(city, city))]
    if named and not place:
        return [zone.name for zone in named]
    country = _country(place or city, folders)
    there = [zone.name for zone in named if zone.country == country]
    there += [zone.name for zone in zones if zone.parts[-1] == city and place in zone.parts[1:-1]]
    if there or (place or city) == _ALSO_A_STATE:
        return there
    return [zone.name for zone in zones if zone.country == country]


def _is_called(zone: _Zone, city: str) -> bool:
    """Whether it is the city's. Below a state's name the city alone is no name, because there are others."""
    return city == "/".join(zone.parts) or zone.parts[1:] == [city]


def _country(words: str, folders: Iterable[str]) -> str:
    """A country's code, '' for what is none; the code itself is not understood, because CA is California as well."""
    rows = (row.partition("\t") for row in _table(folders, "iso3166.tab"))
    return _COUNTRY_ALSO_CALLED.get(words) or next((code for code, _, name in rows if _key(name) == words), "")


def _key(name: str) -> str:
    """A name without case and accents; what is between its words does not matter."""
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", name)).casefold()
    return "/".join("_".join(_WORDS.findall(part)) for part in plain.split("/"))


def _rules(name: str) -> tuple[timedelta | None, ...]:
    """What tells one zone from another that is only called differently: its offsets in the months of some years."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(name)
    months = (datetime(2024 + i // 12, i % 12 + 1, 1, tzinfo=UTC) for i in range(120))
    return tuple(month.astimezone(zone).utcoffset() for month in months)


def _alike(text: str, zones: Sequence[_Zone]) -> str:
    """A city that is written nearly like this; a place behind a comma says that another one was meant."""
    wanted = _key(text[:_LONGEST_SHOWN])
    if "," in text or len(wanted) <= _SHORT:
        return ""
    import difflib

    cities = {zone.parts[-1]: zone.name for zone in zones if len(zone.parts) == len(("region", "city"))}
    close = difflib.get_close_matches(wanted.rpartition("/")[2], cities, n=1, cutoff=0.8)
    return f"; did you mean {cities[close[0]]}?" if close else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
