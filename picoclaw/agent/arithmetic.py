"""What is worked out rather than asked of a small model: sums, units, days, comparisons, what a list has. Pure."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from picoclaw.messages import ERROR_PREFIX
from picoclaw.text import list_terms, pattern
from picoclaw.times import MONTHS, WEEKDAYS, format_duration, parse_duration, parse_moment, parse_range

_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(expression: str) -> float:
    """Work out + - * / with brackets. Raises ValueError for anything else."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return float(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
                return value(node.left) * value(node.left)
            case ast.UnaryOp(op=ast.USub()):
                return -value(node.operand)
        raise ValueError(expression)

    return value(ast.parse(expression[:200].strip(), mode="eval"))


# Units: what one is of the first of its group.

_UNITS: Mapping[str, tuple[str, float]] = {
    **dict.fromkeys(["mm", "millimetre", "millimeter"], ("m", 0.001)),
    **dict.fromkeys(["cm", "centimetre", "centimeter"], ("m", 0.01)),
    **dict.fromkeys(["m", "metre", "meter"], ("m", 1.0)),
    **dict.fromkeys(["km", "kilometre", "kilometer"], ("m", 1000.0)),
    **dict.fromkeys(["inch", "inche"], ("m", 0.0254)),
    **dict.fromkeys(["ft", "foot", "feet"], ("m", 0.3048)),
    **dict.fromkeys(["yard", "yd"], ("m", 0.9144)),
    **dict.fromkeys(["mile", "mi"], ("m", 1609.344)),
    **dict.fromkeys(["g", "gram", "gramme"], ("g", 1.0)),
    **dict.fromkeys(["kg", "kilo", "kilogram"], ("g", 1000.0)),
    **dict.fromkeys(["lb", "pound"], ("g", 453.59237)),
    **dict.fromkeys(["oz", "ounce"], ("g", 28.349523125)),
    **dict.fromkeys(["ml", "millilitre", "milliliter"], ("l", 0.001)),
    **dict.fromkeys(["l", "litre", "liter"], ("l", 1.0)),
    **dict.fromkeys(["gallon"], ("l", 3.785411784)),
    **dict.fromkeys(["pint"], ("l", 0.473176473)),
    **dict.fromkeys(["second", "sec"], ("s", 1.0)),
    **dict.fromkeys(["minute", "min"], ("s", 60.0)),
    **dict.fromkeys(["hour"], ("s", 3600.0)),
    **dict.fromkeys(["day"], ("s", 86_400.0)),
    **dict.fromkeys(["week"], ("s", 604_800.0)),
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_AMOUNT = r"(?P<value>-?\d+(?:[.,]\d+)?)"
_CONVERSION = (
    pattern(
        rf"{_AMOUNT}\s*(?P<one>(?:{_UNIT})s?)\b.*?\b(?:in|into|to|as|are|is)\b(?: how many)?\s+(?P<other>(?:{_UNIT})s?)\b",
        re.IGNORECASE,
    ),
    pattern(rf"\bhow (?:many|much) (?P<other>(?:{_UNIT})s?)\b.*?\b{_AMOUNT}\s*(?P<one>(?:{_UNIT})s?)\b", re.IGNORECASE),
)
_DEGREE = r"(?:°\s*|degrees?\s+|deg\s+)?"
_DEGREES = pattern(
    rf"{_AMOUNT}\s*{_DEGREE}(?P<one>c|f|celsius|fahrenheit|centigrade)\b.*?\b(?:in|into|to|as)\b\W+(?:\w+\W+){{0,3}}?{_DEGREE}"
    r"(?P<other>c|f|celsius|fahrenheit|centigrade)\b",
    re.IGNORECASE,
)


_PERCENT_OFF = pattern(
    r"(?P<share>\d+(?:[.,]\d+)?)\s*(?:%|per ?cent) (?:off|discount on|less than)\s+(?:of\s+)?\D{0,3}(?P<whole>\d+(?:[.,]\d+)?)",
    re.IGNORECASE,
)
_NUMBER = r"\d+(?:[.,]\d+)?"
_PERCENT_OF = pattern(
    rf"(?P<one>{_NUMBER})\s*(?:%|per ?cent) of\s+\D{{0,3}}(?P<other>{_NUMBER})(?!\s*[-+*/x×])", re.IGNORECASE
)
_POWER = pattern(r"(?P<one>\d+) (?:to the power(?: of)?|to the|raised to) (?P<other>\d{1,2})\b", re.IGNORECASE)
_COUNT_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SHARED = pattern(
    rf"(?:split|share|divide)\s+\D{{0,3}}(?P<one>{_NUMBER})\D{{0,12}}?\s(?:between|among|amongst|by|over|across)\s+(?:the )?(?P<other>\d+|{'|'.join(_COUNT_WORDS)})\b",
    re.IGNORECASE,
)
_AREA = pattern(
    rf"(?P<one>{_NUMBER})\s*(?:cm|m|ft|metres|meters)?\s*(?:by|x|×|times)\s*(?P<other>{_NUMBER})\s*(?P<unit>cm|m|ft|metres|meters)?\b",
    re.IGNORECASE,
)
_KEEPS = pattern(r"\b(?:note|remember|remind|write|add|put|append|save)\b", re.IGNORECASE)
_ASKS_SUM = pattern(
    r"\W*(?:(?:and|so|ok|hey|please) )*(?:what(?:'?s| is| are| would| does)?|how (?:much|many)|calculate|compute|work out|split|share|divide|\d)\b",
    re.IGNORECASE,
)
_CLOCK = r"\d\d?[:.]\d\d"
_BETWEEN_CLOCKS = pattern(
    rf"\bhow (?:long|many (?:hours|minutes))\b.*?\b(?:between|from)\s+(?P<begin>{_CLOCK})\s+(?:and|to|until|till)\s+(?P<end>{_CLOCK})",
    re.IGNORECASE,
)


def answer_sum(text: str) -> str:
    """Answer "30 percent off 250" and "how long is it from 9:15 to 17:45", which small models do not; '' for others."""
    if found := _PERCENT_OFF.search(text):
        share, whole = _read_number(found["share"]), _read_number(found["whole"])
        return f"{whole:g} - {share:g} % = {float(f'{whole * (1 - share / 100):.10g}'):g}"
    if worked := _work_out_words(text):
        return worked
    if found := _BETWEEN_CLOCKS.search(text):
        begin, end = (int(clock[:-3]) * 60 + int(clock[-2:]) for clock in (found["begin"], found["end"]))
        return f"{found['begin']} to {found['end']} is {format_duration((end - begin) % 1440 * 60.0, exact=True)}."
    return convert_units(text)


def _work_out_words(text: str) -> str:
    """Answer "17.5 percent of 460", "2 to the power of 15", "split 90 between six", "3.6 by 1.25 m, area?"."""
    if _KEEPS.search(text):
        return ""
    if re.search(r"\barea\b|\bsquare (?:metres|meters|feet)\b", text, re.IGNORECASE) and (found := _AREA.search(text)):
        unit = f" {found['unit'].lower().replace('metres', 'm').replace('meters', 'm')}²" if found["unit"] else ""
        one, other = _read_number(found["one"]), _read_number(found["other"])
        return f"{one:g} × {other:g} = {one * other:.10g}{unit}"
    if not _ASKS_SUM.match(text) or re.search(r"\d.*\band\b.*\d", text):
        return ""
    if found := _PERCENT_OF.search(text):
        one, other = _read_number(found["one"]), _read_number(found["other"])
        return f"{one:g} % of {other:g} = {one * other / 100:.10g}"
    if found := _POWER.search(text):
        return f"{found['one']} to the power of {found['other']} = {int(found['one']) ** int(found['other'])}"
    if found := _SHARED.search(text):
        by = found["other"].lower()
        one, other = _read_number(found["one"]), int(by) if by.isdigit() else _COUNT_WORDS.index(by) + 1
        return f"{one:g} / {other} = {one / other:.10g}" if other else ""
    return ""


def convert_units(text: str) -> str:
    """Answer "how many inches are 30 cm"; '' where that is not what was asked."""
    if found := _DEGREES.search(text):
        value, is_f = _read_number(found["value"]), found["one"][0].lower() == "f"
        if is_f == (found["other"][0].lower() == "f"):
            return ""
        told = (value - 32) / 1.8 if is_f else value * 1.8 + 32
        return f"{value:g} °{'F' if is_f else 'C'} = {round(told, 1):g} °{'C' if is_f else 'F'}"
    for expression in _CONVERSION:
        if found := expression.search(text):
            one, other = found["one"].lower(), found["other"].lower()
            (kind, factor), (other_kind, divisor) = (_UNITS.get(unit) or _UNITS[unit[:-1]] for unit in (one, other))
            if kind == other_kind and factor != divisor:
                value = _read_number(found["value"])
                return f"{value:g} {one} = {float(f'{value * factor / divisor:.6g}'):g} {other}"
    return ""


def _read_number(text: str) -> float:
    return float(text.replace(",", "."))


# Days.

_COUNTS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a|an|\\d+"
_HOLIDAYS = {
    "christmas eve": "24 december",
    "christmas": "25 december",
    "new year's eve": "31 december",
    "new year's day": "1 january",
    "new year": "1 january",
    "valentine's day": "14 february",
    "halloween": "31 october",
}
_DAY_OF_YEAR = rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{'|'.join(MONTHS)})|(?:{'|'.join(MONTHS)}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?"
_DAY = pattern(
    rf"(?P<holiday>{'|'.join(_HOLIDAYS)})|(?P<date>\d{{4}}-\d\d-\d\d|{_DAY_OF_YEAR})"
    rf"|(?P<past>(?:{_COUNTS}) (?:day|week)s? ago|the day before yesterday|yesterday|last (?:{'|'.join(WEEKDAYS)}))"
    r"|(?P<after>the day after tomorrow)|(?P<tomorrow>tomorrow)"
    rf"|(?:in )?(?P<ahead>(?:{_COUNTS}) (?:day|week)s?)(?P<since> from (?:now|today|tomorrow))?"
    rf"|(?:(?P<next>next )|this |on )?(?P<weekday>{'|'.join(WEEKDAYS)})",
    re.IGNORECASE,
)
_DAYS_UNTIL = pattern(
    r"\bhow (?P<unit>many days|many weeks|long|far)\b.*?\b(?:until|till|til|to|before|away is|off is|is)\b(?P<day>.*)",
    re.IGNORECASE,
)
_DAYS_LEFT = pattern(r"\bhow many days\b.*\b(?:this|the|of the) (?P<what>week|month|year)\b", re.IGNORECASE)
_WHICH_WEEK = pattern(r"\b(?:which|what) (?:calendar )?week\b|\bweek number\b", re.IGNORECASE)
_WHICH_DAY = pattern(
    r"\b(?:what|which)(?:'s| is| was| will)?(?: be)? ?(?:the )?(?:date|day|weekday)\b|\bdate\b|\b(?:what|which) day of the week\b",
    re.IGNORECASE,
)
_IS_DAY = pattern(
    rf"^\W*is (?:it|today)(?: (?:the|a|already|yet))* (?P<what>weekend|weekday|{'|'.join(WEEKDAYS)})\b", re.IGNORECASE
)
_REMINDS = pattern(r"\bremind|\bwake\b|\balarm\b|\btimer\b|\bnote\b", re.IGNORECASE)
_SATURDAY = 5


def find_day(text: str, now: datetime) -> datetime | None:
    """The day that a text names: 24 december, next friday, three weeks ago."""
    found = _DAY.search(text)
    if not found:
        return None
    words = {name: value.lower() for name, value in found.groupdict().items() if value}
    try:
        if past := words.get("past"):
            return parse_range(past.removeprefix("the "), now).begin
        if ahead := words.get("ahead"):
            count, unit = ahead.split()
            count = {"a": "1", "an": "1"}.get(count, count)
            begin = now + timedelta(days=words.get("since", "").endswith("tomorrow"))
            return begin + timedelta(seconds=parse_duration(f"{count} {unit}"))
        if "after" in words or "tomorrow" in words:
            return now + timedelta(days=2 if "after" in words else 1)
        if holiday := words.get("holiday"):
            words["date"] = _HOLIDAYS[holiday]
        if weekday := words.get("weekday"):
            ahead_days = (WEEKDAYS.index(weekday) - now.weekday()) % 7 or 7
            return now + timedelta(days=ahead_days)
        return parse_moment(f"{words['date'].removeprefix('the ')} 23:59", now)
    except ValueError:
        return None


def answer_day(text: str, now: datetime) -> str:
    """Answer what date a day is, or how long it is until then; '' where that is not what was asked."""
    if _REMINDS.search(text):
        return ""
    if left := _DAYS_LEFT.search(text):
        what = left["what"].lower()
        month = now.replace(day=28) + timedelta(days=4)
        ends = {
            "week": now + timedelta(days=6 - now.weekday()),
            "month": month - timedelta(days=month.day),
            "year": now.replace(month=12, day=31),
        }
        return _count_days(ends[what], now)
    if until := _DAYS_UNTIL.search(text):
        day = find_day(until["day"], now)
        return _count_days(day, now, weeks="weeks" in until["unit"].lower()) if day else ""
    if is_day := _IS_DAY.search(text):
        what = is_day["what"].lower()
        is_weekend = now.weekday() >= _SATURDAY
        holds = {"weekend": is_weekend, "weekday": not is_weekend}.get(what, f"{now:%A}".lower() == what)
        return f"{'Yes' if holds else 'No'}: it is {now:%A %Y-%m-%d}."
    if _WHICH_WEEK.search(text):
        return f"Week {now.isocalendar().week} of {now.isocalendar().year}."
    day = find_day(text, now) if _WHICH_DAY.search(text) else None
    return f"{day:%A %Y-%m-%d}" if day else ""


def _count_days(day: datetime, now: datetime, *, weeks: bool = False) -> str:
    days = (day.date() - now.date()).days
    told = f"{days} day{'' if days == 1 else 's'}"
    if weeks:
        told = f"{days // 7} weeks and {days % 7} days" if days % 7 else f"{days // 7} weeks"
    return f"{told} until {day:%A %Y-%m-%d}."


_BESIDE = pattern(
    r"\b(?:the |one )?(?P<how>(?:day|week) (?:before|after)|same day|that day|eve)\b(?! yesterday)", re.IGNORECASE
)


def name_day(wish: str, known: str, now: datetime) -> str:
    """Name the day in "remind me the day before" by the one date that was found before; '' where there is none."""
    beside, days = _BESIDE.search(wish), [found for found in _DAY.finditer(known) if found["date"]]
    # a note is marked with the day on which it was made
    dates = {day.date(): day for found in days if not found[0].startswith("20") and (day := find_day(found[0], now))}
    if not beside or len(dates) != 1:
        return ""
    (day,) = dates.values()
    by = {"day before": -1, "eve": -1, "day after": 1, "week before": -7, "week after": 7}.get(beside["how"].lower(), 0)
    day += timedelta(days=by)
    begin, end = wish[: beside.start()].removesuffix("on ").removesuffix("for "), wish[beside.end() :]
    return f"{begin}on {day.day} {MONTHS[day.month - 1].capitalize()}{end}"


# What a result says about the question: a comparison, a count, whether something is in a list.

_COMPARISON = pattern(
    r"^\W*(?:is|are|does|do|has|will)\b.*?\b(?P<how>below|under|less than|colder than|cooler than|lower than|above|over|more than"
    r"|warmer than|hotter than|higher than|at least|at most)\s+(?P<limit>-?\d+(?:[.,]\d+)?)",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = pattern(r"(?P<quantity>\w+) (?P<value>-?\d+(?:\.\d+)?) (?P<unit>°C|%|hPa|lx|ppm|V|A|W)")
_ROW = pattern(r"^(?P<number>\d+)(?::| \[p\d+\]) (?P<text>.*)$", re.MULTILINE)
"""A line of the list of reminders or of tasks."""
_HOW_MANY = pattern(r"\bhow many\b|\bcount\b|\bnumber of\b|\bhow long is\b", re.IGNORECASE)
_IS_THERE = pattern(
    r"^\W*(?:(?:please|can you|could you|just) )*(?:is|are|does|do (?:i|we)|did (?:i|we)|have (?:i|we)|has|check|see|look)\b"
    r"|\b(?:tell me|say|check|see) (?:if|whether)\b(?P<rest>.*)",
    re.IGNORECASE,
)
_LIST_WORDS = frozenset(
    list_terms(
        "list file note txt md csv mention mentions say says anything something about contain contains on in there still already got get "
        "have has need needs buy check see look whether tell me find found line lines item items entry task tasks todo to do "
        "reminder reminders open my our the any some yes no now please left thing things word words read show be been it this that"
    )
)


def find_rows(result: str) -> Iterator[tuple[int, str]]:
    """The numbered rows of the list of reminders or of tasks."""
    for row in _ROW.finditer(result):
        yield int(row["number"]), row["text"]


def asks_count(question: str) -> bool:
    return bool(_HOW_MANY.search(question))


def count_lines(path: str, text: str) -> str:
    """Say how many lines a file has that are not empty."""
    count = sum(bool(line.strip()) for line in text.splitlines())
    return f"{path} has {count} line{'' if count == 1 else 's'}."


def list_sought(question: str, path: str = "") -> list[str]:
    """What a question asks to be in a list, by the stems of its words; empty where it asks for something else."""
    asked = _IS_THERE.search(question)
    if not asked:
        return []
    words = (asked["rest"] or question).replace(path, " ") if path else asked["rest"] or question
    ignored = _LIST_WORDS | set(list_terms(path))
    return [word for word in dict.fromkeys(list_terms(words)) if word not in ignored]


def judge_list(question: str, text: str, path: str = "") -> str:
    """Answer "is milk on it?" by the lines of a list; '' where that is not what was asked."""
    sought = set(list_sought(question, path))
    if not sought:
        return ""
    hits = [line.strip() for line in text.splitlines() if sought <= set(list_terms(line))]
    some = [line.strip() for line in text.splitlines() if not sought.isdisjoint(list_terms(line))]
    if some and not hits:  # eggs or butter; of "eggs from the shop" whoever asks sees the list
        return f"Yes: {'; '.join(some[:3])}" if re.search(r"\bor\b", question, re.IGNORECASE) else ""
    return f"Yes: {'; '.join(hits[:3])}" if hits else f"No, not in {path or 'it'}."


def judge(question: str, result: str) -> str:
    """Answer "is it below 5?" by the one value that a result has; '' where that is not what was asked."""
    asked, values = _COMPARISON.search(question), list(_VALUE.finditer(result))
    if not asked or result.startswith(ERROR_PREFIX):
        return ""
    unit = {"temperature": "°C", "humidity": "%", "pressure": "hPa"}
    told = [one for one in values if one["quantity"].lower() in question.lower()] or [
        one
        for one in values
        if one["unit"] == ("%" if "%" in question or "percent" in question else unit["temperature"])
    ]
    if len(told) != 1:
        return ""
    value, limit = float(told[0]["value"]), float(asked["limit"].replace(",", "."))
    how = asked["how"].lower()
    is_below = how in {"below", "under", "at most"} or how.startswith(("less", "cold", "cool", "low"))
    holds = value < limit if is_below else value > limit
    if value == limit and how in {"at least", "at most"}:
        holds = True
    relation = "below" if value < limit else "above" if value > limit else "exactly"
    return f"{'Yes' if holds else 'No'}: {value:g} {told[0]['unit']} is {relation} {limit:g}."
