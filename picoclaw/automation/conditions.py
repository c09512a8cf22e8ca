"""What the `when` of a rule, or of a line of HEARTBEAT.md, says: words in, data out, and back into words. Pure.

greenhouse.temperature > 35 for 10 minutes
greenhouse.humidity falls by 20 in 1 hour
greenhouse.temperature is missing for 15 minutes
every day at 6:00 (a rule's)
file inbox.txt changed (the checklist's)
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from picoclaw import schedules, times
from picoclaw.hw.reading import QUANTITIES
from picoclaw.records import NamedTuple
from picoclaw.schedules import Plan
from picoclaw.schema import find_nearest
from picoclaw.store.samples import Series
from picoclaw.text import pattern, truncate

CONDITION_EXAMPLES = (
    "'greenhouse.temperature > 35 for 10 minutes', 'soil.voltage a0 below 1.2', 'tank.distance rises by 0.2 in 1 hour',"
    " 'greenhouse.humidity is missing for 15 minutes', 'every day at 6:00', 'every monday at 7:30'"
)
GATE_EXAMPLES = "'greenhouse.temperature max yesterday > 37' or 'greenhouse.light mean last 2 hours < 500'"
CHECK_EXAMPLES = "greenhouse.temperature > 35 for 10 min, greenhouse.humidity missing, file inbox.txt changed"
_MAX_VALUE = 1e9
_ALMOST_ONE = 1 - 1e-9  # 0.3 - 0.1 is a little less than 0.2


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


class FileCondition(NamedTuple):
    """The state of a file; a relative path is below the workspace."""

    path: str
    state: Literal["changed", "exists", "missing"]


SensorCondition = Threshold | ValueChange | Missing
Condition = SensorCondition | Calendar


class Gate(NamedTuple):
    """Something that was so in a past time: the lowest, the highest or the mean value beyond a limit."""

    series: Series
    figure: str
    when: str
    op: Comparison
    limit: float


_IS = "(?:(?:is|was|has been|stays|becomes|goes|gets|rises|climbs|grows|falls|drops|sinks) )?"
_OPERATOR_WORDS: dict[Comparison, str] = {
    ">=": f"{_IS}(?:>=|at least)",
    "<=": f"{_IS}(?:<=|at most)",
    ">": f"{_IS}(?:>|above|over|more than|higher than|hotter than|warmer than|exceeds)",
    "<": f"{_IS}(?:<|below|under|less than|lower than|colder than|cooler than|darker than)",
}
_OPERATOR = "|".join(_OPERATOR_WORDS.values())
_NUMBER = r"(?P<number>[+-]?\d+(?:[.,]\d+)?) ?(?P<unit>[^\d\s]\S*)?"
_HOLD = r"(?: for (?:at least |more than |longer than )?(?P<hold>.+))?"
_LIMIT = pattern(rf"(?P<what>.+?) ?(?P<beyond>{_OPERATOR}) ?{_NUMBER}{_HOLD}", re.IGNORECASE)
_CHANGE = pattern(
    rf"(?P<what>.+?) (?:(?P<up>rises|climbs|grows)|falls|drops|sinks) by {_NUMBER} (?:with)?in (?P<hold>.+)",
    re.IGNORECASE,
)
_MISSING = pattern(rf"(?P<what>.+?) (?:is |are )?(?:missing|not available|implausible|fails){_HOLD}", re.IGNORECASE)
_FILE_STATES: dict[str, Literal["changed", "exists", "missing"]] = {
    "changed": "changed", "changes": "changed", "exists": "exists", "appears": "exists", "is there": "exists",
    "missing": "missing", "is missing": "missing",
}  # fmt: skip
_FILE = pattern(rf"file (?P<path>\"[^\"]+\"|`[^`]+`|\S+) (?P<state>{'|'.join(_FILE_STATES)})", re.IGNORECASE)
_FIGURES = {
    "min": "min", "lowest": "min", "minimum": "min", "max": "max", "highest": "max", "maximum": "max",
    "mean": "mean", "average": "mean",
}  # fmt: skip
_GATE = pattern(
    rf"(?P<what>.+?) (?P<figure>{'|'.join(_FIGURES)}) (?:of |in )?(?P<when>.+?) (?P<beyond>{_OPERATOR}) ?{_NUMBER}"
)
_DEGREES = {"°c": "°C", "c": "°C", "degrees": "°C", "degree": "°C", "celsius": "°C", "percent": "%", "lux": "lx"}


def parse_condition(text: str, zone: str = "") -> Condition:
    """Read what makes a rule fire; `zone` names the owner's time zone. Raises ValueError saying what to write."""
    words = normalize_condition(text)
    if found := _parse_sensor_condition(words):
        return found
    if plan := _parse_calendar(words, zone):
        return Calendar(words, plan)
    raise ValueError(
        f"{truncate(text, _MAX_SHOWN)!r} is not a condition picoclaw knows; write it like {CONDITION_EXAMPLES}"
    )


def parse_check(text: str) -> SensorCondition | FileCondition:
    """Read the `when:` of a line of HEARTBEAT.md. Raises ValueError saying what to write."""
    words = " ".join(text.split()).rstrip(".;")
    if found := _FILE.fullmatch(words):
        return FileCondition(found["path"].strip('"`'), _FILE_STATES[found["state"].lower()])
    if condition := _parse_sensor_condition(normalize_condition(words)):
        return condition
    raise ValueError(
        f"{truncate(words, _MAX_SHOWN)!r} is not a condition picoclaw knows; write it like {CHECK_EXAMPLES}"
    )


def _parse_sensor_condition(words: str) -> SensorCondition | None:
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
    return None


def parse_gate(text: str, now: datetime) -> Gate:
    """Read the words of something that was so, such as 'greenhouse.temperature max yesterday > 37'."""
    match = _GATE.fullmatch(normalize_condition(text))
    if match is None:
        raise ValueError(
            f"{truncate(text, _MAX_SHOWN)!r} is not a comparison with the past; write it like {GATE_EXAMPLES}"
        )
    series = parse_series(match["what"])
    times.parse_range(match["when"], now)
    return Gate(series, _FIGURES[match["figure"]], match["when"], _find_operator(match), _parse_number(match, series))


def normalize_condition(text: str) -> str:
    """Remove words without meaning; the case of a sensor's name is kept."""
    words = re.sub(r"\b(?:[Tt]he|[Ii]f|[Ww]hen)\b", " ", text.replace("≥", ">=").replace("≤", "<=").replace("−", "-"))
    return " ".join(words.split()).rstrip(".")


def _find_operator(match: re.Match[str]) -> Comparison:
    return next(op for op, words in _OPERATOR_WORDS.items() if re.fullmatch(words, match["beyond"], re.IGNORECASE))


def is_beyond(op: Comparison, value: float, limit: float) -> bool:
    return (value == limit and len(op) > 1) or (value > limit if op[0] == ">" else value < limit)


def compute_change(change: ValueChange, values: Sequence[float]) -> float:
    """Return by how much the last of some values has risen above the lowest, or fallen below the highest."""
    return values[-1] - min(values) if change.rises else max(values) - values[-1]


def has_changed(change: ValueChange, values: Sequence[float]) -> bool:
    return compute_change(change, values) >= change.by * _ALMOST_ONE


def _parse_number(match: re.Match[str], series: Series) -> float:
    if re.search(r",\d{3}$", match["number"]):
        raise ValueError(
            f"{match['number']} may be read in two ways; write thousands without a comma, and fractions with a point"
        )
    number, wanted = float(match["number"].replace(",", ".")), get_unit(series)
    given = (match["unit"] or "").rstrip(".,")
    if given and _DEGREES.get(given.lower(), given).lower() != wanted.lower():
        raise ValueError(
            f"{series.quantity} is measured in {wanted or 'no unit'}, not in {given}: write the number in it"
        )
    if abs(number) > _MAX_VALUE:
        raise ValueError(f"{match['number'][:_MAX_SHOWN]} is not a value of a sensor")
    return number


def _parse_hold(match: re.Match[str]) -> float:
    return times.parse_duration(match["hold"]) if match["hold"] else 0.0


def get_unit(series: Series) -> str:
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    return known.unit if known else ""


_QUANTITY = "|".join(QUANTITIES)
_QUANTITY_LAST = pattern(rf"(?P<sensor>.+?)[. ](?P<quantity>(?:{_QUANTITY})(?: \S+)?)", re.IGNORECASE)
_QUANTITY_FIRST = pattern(rf"(?P<quantity>(?:{_QUANTITY})(?: \S+)??) (?:of|in|at) (?P<sensor>.+)", re.IGNORECASE)


_NO_NAME = pattern(r"[<>=]|\b(?:not|never|and|or)\b")
"""In no name of a sensor or a channel: what is meant with it would not be followed."""


def parse_series(text: str) -> Series:
    """Read "greenhouse.temperature", "greenhouse temperature" or "temperature of greenhouse". Raises ValueError."""
    match = _QUANTITY_FIRST.fullmatch(text.strip()) or _QUANTITY_LAST.fullmatch(text.strip())
    if match and not _NO_NAME.search(text):
        return Series(match["sensor"], match["quantity"].lower())
    hint = find_nearest(re.split(r"[. ]", text.strip())[-1], QUANTITIES)
    raise ValueError(
        f"{truncate(text, _MAX_SHOWN)!r} names no sensor with a quantity, such as greenhouse.temperature{hint}"
    )


def find_bare_quantity(text: str) -> str:
    """Return the quantity that a condition begins with where it names no sensor, as in "humidity above 80"; else ''."""
    words = normalize_condition(text)
    found = next((match for form in (_CHANGE, _LIMIT, _MISSING) if (match := form.fullmatch(words))), None)
    return found["what"] if found and found["what"] in QUANTITIES else ""


_EPOCH = datetime.fromtimestamp(0, UTC)


def _parse_calendar(words: str, zone: str) -> Plan | None:
    """Plan "every day at 6:00", "every monday and friday at 7:30", "hourly", "every 10 minutes" or "cron 0 6 * * 1"."""
    text = words.lower()
    if text.startswith(("cron ", "@")):
        return schedules.plan_cron(text.removeprefix("cron "), zone, _EPOCH)
    plan = schedules.parse_repeat(text)
    if plan is None:
        return None
    expression = _make_interval_cron(text, round(plan.seconds)) if plan.kind == "every" else plan.text
    return schedules.plan_cron(expression, zone, _EPOCH)


def _make_interval_cron(text: str, seconds: int) -> str:
    """An interval as the clock shows it: every 10 minutes is at 0, 10, 20 … minutes past the hour."""
    size, whole, name = (60, 3600, "an hour") if seconds < 3600 else (3600, 86_400, "a day")
    if not seconds or seconds % size or whole % seconds:
        raise ValueError(f"{text!r} does not fit into {name} evenly")
    step = f"*/{seconds // size}" if seconds > size else "*"
    return f"{step} * * * *" if size == 60 else f"0 {step} * * *"


_MAX_SHOWN = 60


_OPERATOR_NAMES: dict[Comparison, str] = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}


def format_condition(found: Condition) -> str:
    if isinstance(found, Calendar):
        return found.text
    what = f"the {found.series.quantity} of {found.series.sensor}"
    held = (
        f" for {times.format_duration(found.hold_s, exact=True)}"
        if not isinstance(found, ValueChange) and found.hold_s
        else ""
    )
    if isinstance(found, Threshold):
        return f"{what} is {_OPERATOR_NAMES[found.op]} {format_amount(found.limit, found.series)}{held}"
    if isinstance(found, ValueChange):
        way = "rises" if found.rises else "falls"
        return f"{what} {way} by {format_amount(found.by, found.series)} within {times.format_duration(found.within_s, exact=True)}"
    return f"{what} has had no valid value{held}"


def format_gate(found: Gate) -> str:
    figure = {"min": "lowest value", "max": "highest value", "mean": "mean"}[found.figure]
    what = f"the {figure} of {found.series.sensor}'s {found.series.quantity}"
    return f"{what} {found.when} was {_OPERATOR_NAMES[found.op]} {format_amount(found.limit, found.series)}"


def format_amount(value: float, series: Series) -> str:
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    text = f"{value:.{known.digits}f}".rstrip("0").rstrip(".") if known and known.digits else f"{value:g}"
    return f"{text} {get_unit(series)}".rstrip()
