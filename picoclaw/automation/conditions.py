"""What the `when` of a rule says: words in, data out, and back into words. Pure.

greenhouse.temperature > 35 for 10 minutes
greenhouse.humidity falls by 20 in 1 hour
greenhouse.temperature is missing for 15 minutes
every day at 6:00
"""

import re
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from picoclaw import occurrences, times
from picoclaw.hw.reading import QUANTITIES
from picoclaw.occurrences import Plan
from picoclaw.schema import find_nearest
from picoclaw.store.samples import Series

CONDITION_EXAMPLES = (
    "'greenhouse.temperature > 35 for 10 minutes', 'soil.voltage a0 below 1.2', 'tank.distance rises by 0.2 in 1 hour',"
    " 'greenhouse.humidity is missing for 15 minutes', 'every day at 6:00', 'every monday at 7:30'"
)
GATE_EXAMPLES = "'greenhouse.temperature max yesterday > 37' or 'greenhouse.light mean last 2 hours < 500'"
_MAX_VALUE = 1e9
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY_SETS = {"day": "*", "weekday": "1-5", "workday": "1-5", "weekend": "0,6"}


Comparison = Literal[">", ">=", "<", "<="]


class Threshold(NamedTuple):
    """A value beyond a limit, for some seconds."""

    series: Series
    op: Comparison
    limit: float
    hold_s: float = 0.0


class ValueChange(NamedTuple):
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


Condition = Threshold | ValueChange | Missing | Calendar


class Gate(NamedTuple):
    """Something that was so in a past time: the lowest, the highest or the mean value beyond a limit."""

    series: Series
    figure: str
    when: str
    op: Comparison
    limit: float


_IS = "(?:(?:is|was|has been|stays|becomes|goes|gets|rises|climbs|grows|falls|drops|sinks) )?"
_OPERATOR_WORDS = {
    ">=": f"{_IS}(?:>=|at least)",
    "<=": f"{_IS}(?:<=|at most)",
    ">": f"{_IS}(?:>|above|over|more than|higher than|hotter than|warmer than)",
    "<": f"{_IS}(?:<|below|under|less than|lower than|colder than|cooler than|darker than)",
}
_OPERATOR = "|".join(_OPERATOR_WORDS.values())
_NUMBER = r"(?P<number>[+-]?\d+(?:\.\d+)?) ?(?P<unit>[^\d\s]\S*)?"
_HOLD = r"(?: for (?:at least |more than |longer than )?(?P<hold>.+))?"
_LIMIT = re.compile(rf"(?P<what>.+?) ?(?P<beyond>{_OPERATOR}) ?{_NUMBER}{_HOLD}")
_CHANGE = re.compile(
    rf"(?P<what>.+?) (?:(?P<up>rises|climbs|grows)|falls|drops|sinks) by {_NUMBER} (?:with)?in (?P<hold>.+)"
)
_MISSING = re.compile(rf"(?P<what>.+?) (?:is |are )?(?:missing|not available|implausible|fails){_HOLD}")
_FIGURES = {
    "min": "min", "lowest": "min", "minimum": "min", "max": "max", "highest": "max", "maximum": "max",
    "mean": "mean", "average": "mean",
}  # fmt: skip
_GATE = re.compile(
    rf"(?P<what>.+?) (?P<figure>{'|'.join(_FIGURES)}) (?:of |in )?(?P<when>.+?) (?P<beyond>{_OPERATOR}) ?{_NUMBER}"
)
_EVERY = re.compile(
    r"(?:(?P<daily>daily)|every (?P<days>[a-z, ]+?)s?|(?:on )?(?P<plural>[a-z]+days|weekends))"
    r"(?: at)? (?P<times>(?:\d|noon|midnight).*)"
)
_OFTEN = re.compile(r"every (?:(\d{1,2}) )?(minute|hour)s?")
_TIMED = re.compile(rf"(?:every|daily|hourly|cron|on|weekdays|weekends|(?:{'|'.join(_DAYS)})s?)\b|@", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?\s*(am|pm)?")
_DEGREES = {"°c": "°C", "c": "°C", "degrees": "°C", "degree": "°C", "celsius": "°C", "percent": "%", "lux": "lx"}


def parse_condition(text: str, zone: str = "") -> Condition:
    """Read the words of a condition; `zone` names the owner's time zone. Raises ValueError saying what to write."""
    words = normalize_condition(text)
    if match := _CHANGE.fullmatch(words):
        series = parse_series(match["what"])
        by = _parse_number(match, series)
        if by <= 0:
            raise ValueError(f"a change has to be more than 0, not {by:g}")
        return ValueChange(series, match["up"] is not None, by, times.parse_duration(match["hold"]))
    if match := _LIMIT.fullmatch(words):
        series = parse_series(match["what"])
        return Threshold(series, _find_operator(match), _parse_number(match, series), _parse_hold(match))
    if match := _MISSING.fullmatch(words):
        return Missing(parse_series(match["what"]), _parse_hold(match))
    if _TIMED.match(words):
        return Calendar(words, parse_calendar(words, zone))
    raise ValueError(f"{_truncate(text)!r} is no condition picoclaw knows; write it like {CONDITION_EXAMPLES}")


def parse_gate(text: str, now: datetime) -> Gate:
    """Read the words of something that was so, such as 'greenhouse.temperature max yesterday > 37'."""
    match = _GATE.fullmatch(normalize_condition(text))
    if match is None:
        raise ValueError(f"{_truncate(text)!r} is no comparison with the past; write it like {GATE_EXAMPLES}")
    series = parse_series(match["what"])
    times.parse_range(match["when"], now)
    return Gate(series, _FIGURES[match["figure"]], match["when"], _find_operator(match), _parse_number(match, series))


def normalize_condition(text: str) -> str:
    """Without what carries no meaning; the case of a sensor's name is kept."""
    words = re.sub(r"\b(?:[Tt]he|[Ii]f|[Ww]hen)\b", " ", text.replace("≥", ">=").replace("≤", "<="))
    return " ".join(words.split()).rstrip(".")


def _find_operator(match: re.Match[str]) -> Comparison:
    return next(op for op in _OPERATORS if re.fullmatch(_OPERATOR_WORDS[op], match["beyond"]))


_OPERATORS: tuple[Comparison, ...] = (">=", "<=", ">", "<")


def is_beyond(op: Comparison, value: float, limit: float) -> bool:
    """Tell whether a value is beyond a limit."""
    return (value == limit and len(op) > 1) or (value > limit if op[0] == ">" else value < limit)


def _parse_number(match: re.Match[str], series: Series) -> float:
    number, wanted = float(match["number"]), get_unit(series)
    given = (match["unit"] or "").rstrip(".,")
    if given and _DEGREES.get(given.lower(), given).lower() != wanted.lower():
        raise ValueError(
            f"{series.quantity} is measured in {wanted or 'no unit'}, not in {given}: write the number in it"
        )
    if abs(number) > _MAX_VALUE:
        raise ValueError(f"{match['number'][:_MAX_SHOWN]} is no value of a sensor")
    return number


def _parse_hold(match: re.Match[str]) -> float:
    return times.parse_duration(match["hold"]) if match["hold"] else 0.0


def get_unit(series: Series) -> str:
    """Return the unit of what is followed."""
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    return known.unit if known else ""


_QUANTITY = "|".join(QUANTITIES)
_QUANTITY_LAST = re.compile(rf"(?P<sensor>.+?)[. ](?P<quantity>(?:{_QUANTITY})(?: \S+)?)")
_QUANTITY_FIRST = re.compile(rf"(?P<quantity>(?:{_QUANTITY})(?: \S+)??) (?:of|in|at) (?P<sensor>.+)")


_NO_NAME = re.compile(r"[<>=]|\b(?:not|never|and|or)\b")
"""In no name of a sensor or a channel: what is meant with it would not be followed."""


def parse_series(text: str) -> Series:
    """Read "greenhouse.temperature", "greenhouse temperature" or "temperature of greenhouse". Raises ValueError."""
    match = _QUANTITY_FIRST.fullmatch(text.strip()) or _QUANTITY_LAST.fullmatch(text.strip())
    if match and not _NO_NAME.search(text):
        return Series(match["sensor"], match["quantity"])
    last = re.split(r"[. ]", text.strip())[-1]
    raise ValueError(
        f"{_truncate(text)!r} names no sensor with a quantity, such as greenhouse.temperature{find_nearest(last, QUANTITIES)}"
    )


def find_bare_quantity(text: str) -> str:
    """Return the quantity that a condition begins with where it names no sensor, as in "humidity above 80"; else ''."""
    words = normalize_condition(text)
    found = next((match for form in (_CHANGE, _LIMIT, _MISSING) if (match := form.fullmatch(words))), None)
    return found["what"] if found and found["what"] in QUANTITIES else ""


def parse_calendar(words: str, zone: str) -> Plan:
    """Plan "every day at 6:00", "every monday and friday at 7:30", "hourly", "every 10 minutes" or "cron 0 6 * * 1"."""
    text = words.lower()
    if text.startswith(("cron ", "@")):
        return occurrences.plan_cron(text.removeprefix("cron "), zone, _EPOCH)
    if match := _OFTEN.fullmatch("every hour" if text == "hourly" else text):
        return occurrences.plan_cron(_make_interval_cron(int(match[1] or 1), match[2]), zone, _EPOCH)
    match = _EVERY.fullmatch(text)
    if match is None:
        raise ValueError(f"{_truncate(words)!r} is no time picoclaw knows; write it like {CONDITION_EXAMPLES}")
    days = _parse_days("day" if match["daily"] else match["days"] or match["plural"].removesuffix("s"))
    times = [_parse_time(part) for part in re.split(r",\s*|\s+and\s+", match["times"])]
    if len({minute for _, minute in times}) > 1:
        raise ValueError("the times of one rule need the same minute; write a rule for each")
    hours = ",".join(str(hour) for hour, _ in sorted(times))
    return occurrences.plan_cron(f"{times[0][1]} {hours} * * {days}", zone, _EPOCH)


def _make_interval_cron(count: int, unit_name: str) -> str:
    of = 60 if unit_name == "minute" else 24
    if not 0 < count < of or of % count:
        raise ValueError(f"every {count} {unit_name}s do not fit into {'an hour' if of == 60 else 'a day'} evenly")
    step = f"*/{count}" if count > 1 else "*"
    return f"{step} * * * *" if of == 60 else f"0 {step} * * *"


_EPOCH = datetime.fromtimestamp(0, UTC)


def _parse_days(words: str) -> str:
    if words in _DAY_SETS:
        return _DAY_SETS[words]
    names = [name.removesuffix("s") for name in re.split(r",\s*|\s+and\s+", words)]
    if unknown := [name for name in names if name not in _DAYS]:
        raise ValueError(f"{unknown[0]!r} is no day{find_nearest(unknown[0], dict.fromkeys([*_DAY_SETS, *_DAYS]))}")
    return ",".join(str(_DAYS.index(name)) for name in names)


def _parse_time(text: str) -> tuple[int, int]:
    words = {"noon": "12:00", "midnight": "0:00"}.get(text.strip(), text.strip())
    match = _CLOCK.fullmatch(words)
    hour, minute = (int(match[1]), int(match[2] or 0)) if match else (99, 0)
    if match and match[3]:
        hour = hour % 12 + (12 if match[3] == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise ValueError(f"{_truncate(text)!r} is no time of day, such as 6:00 or 18:30")
    return hour, minute


_MAX_SHOWN = 60


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


_OPERATOR_NAMES: dict[Comparison, str] = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}


def format_condition(found: Condition) -> str:
    """Say a condition as a person would."""
    if isinstance(found, Calendar):
        return found.text
    what = f"the {found.series.quantity} of {found.series.sensor}"
    held = (
        f" for {times.format_exact_duration(found.hold_s)}"
        if not isinstance(found, ValueChange) and found.hold_s
        else ""
    )
    if isinstance(found, Threshold):
        return f"{what} is {_OPERATOR_NAMES[found.op]} {format_amount(found.limit, found.series)}{held}"
    if isinstance(found, ValueChange):
        way = "rises" if found.rises else "falls"
        return f"{what} {way} by {format_amount(found.by, found.series)} within {times.format_exact_duration(found.within_s)}"
    return f"{what} gives no value to be believed{held}"


def format_gate(found: Gate) -> str:
    """Say what has to have been so."""
    figure = {"min": "lowest value", "max": "highest value", "mean": "mean"}[found.figure]
    what = f"the {figure} of {found.series.sensor}'s {found.series.quantity}"
    return f"{what} {found.when} was {_OPERATOR_NAMES[found.op]} {format_amount(found.limit, found.series)}"


def format_amount(value: float, series: Series) -> str:
    """Write a value with its unit."""
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    text = f"{value:.{known.digits}f}".rstrip("0").rstrip(".") if known and known.digits else f"{value:g}"
    return f"{text} {get_unit(series)}".rstrip()
