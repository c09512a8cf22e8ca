"""What the `when` of a rule says: words in, data out, and back into words. Pure.

greenhouse.temperature > 35 for 10 minutes
greenhouse.humidity falls by 20 in 1 hour
greenhouse.temperature is missing for 15 minutes
every day at 6:00
"""

import re
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from picoclaw import ranges, slots
from picoclaw.hw.reading import QUANTITIES
from picoclaw.schema import nearest
from picoclaw.slots import Plan
from picoclaw.store.points import Series

FORMS = (
    "'greenhouse.temperature > 35 for 10 minutes', 'soil.voltage a0 below 1.2', 'tank.distance rises by 0.2 in 1 hour',"
    " 'greenhouse.humidity is missing for 15 minutes', 'every day at 6:00', 'every monday at 7:30'"
)
GATES = "'greenhouse.temperature max yesterday > 37' or 'greenhouse.light mean last 2 hours < 500'"
_LARGEST = 1e9
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SETS = {"day": "*", "weekday": "1-5", "workday": "1-5", "weekend": "0,6"}


Op = Literal[">", ">=", "<", "<="]


class Threshold(NamedTuple):
    """A value beyond a limit, for some seconds."""

    series: Series
    op: Op
    limit: float
    hold_s: float = 0.0


class Change(NamedTuple):
    """A value that has risen or fallen by so much within some seconds."""

    series: Series
    rises: bool
    by: float
    within_s: float


class Missing(NamedTuple):
    """No value to be believed, for some seconds."""

    series: Series
    hold_s: float = 0.0


class Calendar(NamedTuple):
    """A time of day on some days, by the owner's words and as a plan."""

    text: str
    plan: Plan


Condition = Threshold | Change | Missing | Calendar


class Gate(NamedTuple):
    """Something that was so in a past time: the lowest, the highest or the mean value beyond a limit."""

    series: Series
    figure: str
    when: str
    op: Op
    limit: float


_IS = "(?:(?:is|was|has been|stays|becomes|goes|gets|rises|climbs|grows|falls|drops|sinks) )?"
_WORDS = {
    ">=": f"{_IS}(?:>=|at least)",
    "<=": f"{_IS}(?:<=|at most)",
    ">": f"{_IS}(?:>|above|over|more than|higher than|hotter than|warmer than)",
    "<": f"{_IS}(?:<|below|under|less than|lower than|colder than|cooler than|darker than)",
}
_BEYOND = "|".join(_WORDS.values())
_NUMBER = r"(?P<number>[+-]?\d+(?:\.\d+)?) ?(?P<unit>[^\d\s]\S*)?"
_HOLD = r"(?: for (?:at least |more than |longer than )?(?P<hold>.+))?"
_LIMIT = re.compile(rf"(?P<what>.+?) ?(?P<beyond>{_BEYOND}) ?{_NUMBER}{_HOLD}")
_CHANGE = re.compile(
    rf"(?P<what>.+?) (?:(?P<up>rises|climbs|grows)|falls|drops|sinks) by {_NUMBER} (?:with)?in (?P<hold>.+)"
)
_MISSING = re.compile(rf"(?P<what>.+?) (?:is |are )?(?:missing|not available|implausible|fails){_HOLD}")
_FIGURES = {
    "min": "min", "lowest": "min", "minimum": "min", "max": "max", "highest": "max", "maximum": "max",
    "mean": "mean", "average": "mean",
}  # fmt: skip
_GATE = re.compile(
    rf"(?P<what>.+?) (?P<figure>{'|'.join(_FIGURES)}) (?:of |in )?(?P<when>.+?) (?P<beyond>{_BEYOND}) ?{_NUMBER}"
)
_EVERY = re.compile(
    r"(?:(?P<daily>daily)|every (?P<days>[a-z, ]+?)s?|(?:on )?(?P<plural>[a-z]+days|weekends))"
    r"(?: at)? (?P<times>(?:\d|noon|midnight).*)"
)
_OFTEN = re.compile(r"every (?:(\d{1,2}) )?(minute|hour)s?")
_TIMED = re.compile(rf"(?:every|daily|hourly|cron|on|weekdays|weekends|(?:{'|'.join(_DAYS)})s?)\b|@", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?\s*(am|pm)?")
_DEGREES = {"°c": "°C", "c": "°C", "degrees": "°C", "degree": "°C", "celsius": "°C", "percent": "%", "lux": "lx"}


def condition(text: str, zone: str = "") -> Condition:
    """Read the words of a condition; `zone` names the owner's time zone. Raises ValueError saying what to write."""
    words = plain(text)
    if match := _CHANGE.fullmatch(words):
        series = series_named(match["what"])
        by = _number(match, series)
        if by <= 0:
            raise ValueError(f"a change has to be more than 0, not {by:g}")
        return Change(series, match["up"] is not None, by, ranges.seconds(match["hold"]))
    if match := _LIMIT.fullmatch(words):
        series = series_named(match["what"])
        return Threshold(series, _op(match), _number(match, series), _hold(match))
    if match := _MISSING.fullmatch(words):
        return Missing(series_named(match["what"]), _hold(match))
    if _TIMED.match(words):
        return Calendar(words, calendar(words, zone))
    raise ValueError(f"{_cut(text)!r} is no condition picoclaw knows; write it like {FORMS}")


def gate(text: str, now: datetime) -> Gate:
    """Read the words of something that was so, such as 'greenhouse.temperature max yesterday > 37'."""
    match = _GATE.fullmatch(plain(text))
    if match is None:
        raise ValueError(f"{_cut(text)!r} is no comparison with the past; write it like {GATES}")
    series = series_named(match["what"])
    ranges.meant(match["when"], now)
    return Gate(series, _FIGURES[match["figure"]], match["when"], _op(match), _number(match, series))


def plain(text: str) -> str:
    """Without what carries no meaning; the case of a sensor's name is kept."""
    words = re.sub(r"\b(?:[Tt]he|[Ii]f|[Ww]hen)\b", " ", text.replace("≥", ">=").replace("≤", "<="))
    return " ".join(words.split()).rstrip(".")


def _op(match: re.Match[str]) -> Op:
    return next(op for op in _OPS if re.fullmatch(_WORDS[op], match["beyond"]))


_OPS: tuple[Op, ...] = (">=", "<=", ">", "<")


def beyond(op: Op, value: float, limit: float) -> bool:
    """Tell whether a value is beyond a limit."""
    return (value == limit and len(op) > 1) or (value > limit if op[0] == ">" else value < limit)


def _number(match: re.Match[str], series: Series) -> float:
    number, wanted = float(match["number"]), unit(series)
    given = (match["unit"] or "").rstrip(".,")
    if given and _DEGREES.get(given.lower(), given).lower() != wanted.lower():
        raise ValueError(
            f"{series.quantity} is measured in {wanted or 'no unit'}, not in {given}: write the number in it"
        )
    if abs(number) > _LARGEST:
        raise ValueError(f"{match['number'][:_SHOWN]} is no value of a sensor")
    return number


def _hold(match: re.Match[str]) -> float:
    return ranges.seconds(match["hold"]) if match["hold"] else 0.0


def unit(series: Series) -> str:
    """Return the unit of what is followed."""
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    return known.unit if known else ""


_QUANTITY = "|".join(QUANTITIES)
_BEHIND = re.compile(rf"(?P<sensor>.+?)[. ](?P<quantity>(?:{_QUANTITY})(?: \S+)?)")
_AHEAD = re.compile(rf"(?P<quantity>(?:{_QUANTITY})(?: \S+)??) (?:of|in|at) (?P<sensor>.+)")


_NO_NAME = re.compile(r"[<>=]|\b(?:not|never|and|or)\b")
"""In no name of a sensor or a channel: what is meant with it would not be followed."""


def series_named(text: str) -> Series:
    """Read "greenhouse.temperature", "greenhouse temperature" or "temperature of greenhouse". Raises ValueError."""
    match = _AHEAD.fullmatch(text.strip()) or _BEHIND.fullmatch(text.strip())
    if match and not _NO_NAME.search(text):
        return Series(match["sensor"], match["quantity"])
    last = re.split(r"[. ]", text.strip())[-1]
    raise ValueError(
        f"{_cut(text)!r} names no sensor with a quantity, such as greenhouse.temperature{nearest(last, QUANTITIES)}"
    )


def bare_quantity(text: str) -> str:
    """Return the quantity that a condition begins with where it names no sensor, as in "humidity above 80"; else ''."""
    words = plain(text)
    found = next((match for form in (_CHANGE, _LIMIT, _MISSING) if (match := form.fullmatch(words))), None)
    return found["what"] if found and found["what"] in QUANTITIES else ""


def calendar(words: str, zone: str) -> Plan:
    """Plan "every day at 6:00", "every monday and friday at 7:30", "hourly", "every 10 minutes" or "cron 0 6 * * 1"."""
    text = words.lower()
    if text.startswith(("cron ", "@")):
        return slots.cron(text.removeprefix("cron "), zone, _EPOCH)
    if match := _OFTEN.fullmatch("every hour" if text == "hourly" else text):
        return slots.cron(_often(int(match[1] or 1), match[2]), zone, _EPOCH)
    match = _EVERY.fullmatch(text)
    if match is None:
        raise ValueError(f"{_cut(words)!r} is no time picoclaw knows; write it like {FORMS}")
    days = _days("day" if match["daily"] else match["days"] or match["plural"].removesuffix("s"))
    times = [_clock(part) for part in re.split(r",\s*|\s+and\s+", match["times"])]
    if len({minute for _, minute in times}) > 1:
        raise ValueError("the times of one rule need the same minute; write a rule for each")
    hours = ",".join(str(hour) for hour, _ in sorted(times))
    return slots.cron(f"{times[0][1]} {hours} * * {days}", zone, _EPOCH)


def _often(count: int, unit_name: str) -> str:
    of = 60 if unit_name == "minute" else 24
    if not 0 < count < of or of % count:
        raise ValueError(f"every {count} {unit_name}s do not fit into {'an hour' if of == 60 else 'a day'} evenly")
    step = f"*/{count}" if count > 1 else "*"
    return f"{step} * * * *" if of == 60 else f"0 {step} * * *"


_EPOCH = datetime.fromtimestamp(0, UTC)


def _days(words: str) -> str:
    if words in _SETS:
        return _SETS[words]
    names = [name.removesuffix("s") for name in re.split(r",\s*|\s+and\s+", words)]
    if unknown := [name for name in names if name not in _DAYS]:
        raise ValueError(f"{unknown[0]!r} is no day{nearest(unknown[0], dict.fromkeys([*_SETS, *_DAYS]))}")
    return ",".join(str(_DAYS.index(name)) for name in names)


def _clock(text: str) -> tuple[int, int]:
    words = {"noon": "12:00", "midnight": "0:00"}.get(text.strip(), text.strip())
    match = _CLOCK.fullmatch(words)
    hour, minute = (int(match[1]), int(match[2] or 0)) if match else (99, 0)
    if match and match[3]:
        hour = hour % 12 + (12 if match[3] == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise ValueError(f"{_cut(text)!r} is no time of day, such as 6:00 or 18:30")
    return hour, minute


_SHOWN = 60


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SAID: dict[Op, str] = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}


def worded(found: Condition) -> str:
    """Say a condition as a person would."""
    if isinstance(found, Calendar):
        return found.text
    what = f"the {found.series.quantity} of {found.series.sensor}"
    held = f" for {ranges.shown(found.hold_s)}" if not isinstance(found, Change) and found.hold_s else ""
    if isinstance(found, Threshold):
        return f"{what} is {_SAID[found.op]} {amount(found.limit, found.series)}{held}"
    if isinstance(found, Change):
        way = "rises" if found.rises else "falls"
        return f"{what} {way} by {amount(found.by, found.series)} within {ranges.shown(found.within_s)}"
    return f"{what} gives no value to be believed{held}"


def gate_worded(found: Gate) -> str:
    """Say what has to have been so."""
    figure = {"min": "lowest value", "max": "highest value", "mean": "mean"}[found.figure]
    what = f"the {figure} of {found.series.sensor}'s {found.series.quantity}"
    return f"{what} {found.when} was {_SAID[found.op]} {amount(found.limit, found.series)}"


def amount(value: float, series: Series) -> str:
    """Write a value with its unit."""
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    text = f"{value:.{known.digits}f}".rstrip("0").rstrip(".") if known and known.digits else f"{value:g}"
    return f"{text} {unit(series)}".rstrip()
