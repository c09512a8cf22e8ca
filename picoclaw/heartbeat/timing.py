"""The times that a line of the checklist may give: in brackets, (mondays 9:00), or "every morning" at either end."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from picoclaw.slots import Plan, slots

SHORTEST_S = 300.0
FORMS = "(hourly), (every 2 hours), (every morning), (daily 07:30), (weekdays 8:00) or (mondays and fridays 18:30)"

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_ALL = frozenset(range(7))
_SETS = {
    "day": _ALL,
    "daily": _ALL,
    "days": _ALL,
    "weekday": frozenset(range(1, 6)),
    "weekend": frozenset({0, 6}),
    "week": frozenset({1}),
    "weekly": frozenset({1}),
}
_HOURS = {"morning": 8, "noon": 12, "afternoon": 15, "evening": 19, "night": 21, "nightly": 21}
_UNITS = {"min": 60.0, "minute": 60.0, "hour": 3600.0, "h": 3600.0, "day": 86_400.0}
_USUAL = (8, 0)

_SPAN = re.compile(r"every (?:(\d{1,4}|half(?: an?)?|an?) ?)?(min|minute|hour|h|day)s?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:\bat )?\b(\d{1,2})(?::(\d\d))? ?(am|pm)?$|\bat (\d{1,2})$")
_MEANT = re.compile(
    r"every|each|daily|hourly|nightly|weekly|monthly|yearly|(?:week)?(?:day|end)s?|\d\d?:\d\d", re.IGNORECASE
)


def parse(text: str) -> Plan | None:
    """Read what stands in brackets; None when it is no time at all. Raises ValueError when it is a wrong one."""
    words = " ".join(text.lower().replace(",", " ").split())
    if words in {"hourly", "every hour"}:
        return Plan("every", "3600")
    if (span := _SPAN.fullmatch(words)) and words != "every day":
        return _every(span)
    clock = _CLOCK.search(words)
    hour_minute = _time(clock, text) if clock else None
    names = [name for name in re.findall(r"[a-z]+", words[: clock.start()] if clock else words) if name not in _FILLERS]
    days, hours = _days(names), [_HOURS[_one(name)] for name in names if _one(name) in _HOURS]
    known = bool(names) and len(names) == sum(_one(name) in {*_HOURS, *_SETS, *_DAYS} for name in names)
    if known and re.search(r"\d|-", words[: clock.start()] if clock else words):
        raise ValueError(f"({text}) says more than one time or a span; write a line for each, like {FORMS}")
    if not (known or (hour_minute and words.startswith("at "))) or len(hours) > 1:
        if _MEANT.match(words):
            raise ValueError(f"({text}) is no time that picoclaw knows; write it like {FORMS}")
        return None
    hour, minute = hour_minute or ((hours[0], 0) if hours else _USUAL)
    if hour_minute and hours and not (clock and clock[3]):
        hour = _of_the_day(hour, hours[0])
    return Plan("cron", f"{minute} {hour} * * {'*' if days == _ALL else ','.join(map(str, sorted(days)))}")


_REPEATS = re.compile(r"(?:every|each|hourly|daily|nightly|weekly)\b", re.IGNORECASE)
_MORE = re.compile(r"(?:and|or|to|until|till|except|but|from)\b|[\d&/+-]", re.IGNORECASE)
_LONGEST_PHRASE = 8  # words
_MARKS = " \t.,:;–—-"


def split(text: str) -> tuple[str, Plan | None]:
    """Split off a repeating time that a text begins or ends with: "Every morning: look", "look every 2 hours".

    Raises ValueError where more than one time follows.
    """
    words = text.split()
    starts = [at for at in range(max(0, len(words) - _LONGEST_PHRASE), len(words)) if _REPEATS.match(words[at])]
    for start in dict.fromkeys([0, *starts[-1:]]) if words else ():
        end, plan = _longest(words, start)
        if plan is None:
            continue
        if end < len(words) and _MORE.match(words[end]):
            raise ValueError(f"{text!r} says more than one time or a span; write a line for each, like {FORMS}")
        if start == 0 or end == len(words):
            return " ".join([*words[:start], *words[end:]]).strip(_MARKS) or text, plan
    return text, None


def _longest(words: Sequence[str], start: int) -> tuple[int, Plan | None]:
    """The longest time that begins at a word, and the word after it."""
    if _REPEATS.match(words[start]):
        for end in range(min(len(words), start + _LONGEST_PHRASE), start, -1):
            if words[end - 1].lower().strip(_MARKS) in _FILLERS:
                continue
            with suppress(ValueError):
                if plan := parse(" ".join(words[start:end]).strip(_MARKS)):
                    return end, plan
    return start, None


_FILLERS = {"every", "each", "and", "on", "in", "the", "at", "o", "clock"}


def _one(name: str) -> str:
    return name.removesuffix("s")


def _days(names: list[str]) -> frozenset[int]:
    found = frozenset(_DAYS.index(_one(name)) for name in names if _one(name) in _DAYS)
    sets = [_SETS.get(_one(name)) or _SETS.get(name) or frozenset[int]() for name in names]
    return found.union(*sets) or _ALL


def _every(span: re.Match[str]) -> Plan:
    count = span[1] or "1"
    number = 0.5 if count.startswith("half") else float(count) if count.isdecimal() else 1.0
    seconds = number * _UNITS[span[2].lower()]
    if seconds < SHORTEST_S:
        raise ValueError(f"({span[0]}) is too often: every 5 minutes at most")
    return Plan("every", f"{seconds:g}")


def _time(found: re.Match[str], text: str) -> tuple[int, int] | None:
    hour, minute, half = int(found[1] or found[4]), int(found[2] or 0), found[3]
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise ValueError(f"({text}) holds no time of day; write it like {FORMS}")
    return hour, minute


def _of_the_day(hour: int, part: int) -> int:
    """Count an hour as the part of the day means it: 8 in the evening is 20, but 1 in the night is 1."""
    late = 12 if part > _HOURS["noon"] and (hour >= 6 or part < _HOURS["night"]) else 0
    return hour + late if 0 < hour < 12 else hour


def following(plan: Plan, after: datetime) -> datetime:
    """Find the first due moment after one that is handed in, in its zone; raises ValueError when that is not known."""
    zone = after.tzinfo
    name = getattr(zone, "key", None) or (str(zone) if str(zone).startswith("UTC") else "")  # CET is the board's own
    slot = slots(plan._replace(zone=name, anchor=after.timestamp()), after, 1)[0]
    return slot.moment.astimezone(zone)
