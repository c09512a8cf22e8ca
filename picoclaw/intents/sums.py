"""Sums, units and days: "14.5 times 12", "plus 20%", "split 90 between six", "75 f in c", "how many days till 3 may". Pure.

The words of arithmetic and the units are data: `sums`, and `factors` ("length 0.0254"). Days are read in English.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from picoclaw.intents.classifier import parse_amount
from picoclaw.intents.sentence import Sentence
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import MONTHS, WEEKDAYS, format_duration, parse_duration, parse_moment, parse_range

_MAX_SIZE = 1e15
_MAX_BASE, _MAX_POWER = 1e4, 99
_MAX_FOLLOWING = 5  # tokens, or words, of a question that goes on with the answer before
_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_SHARES = {"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "tenth": 1 / 10}
_SIGN = pattern(r"(?<=\d) ?([-+*/]) (?=\d)")
"""Between two numbers; "3/4" is one of them."""
_BRACKETS = pattern(r"(?=[^()]*\()[\d(][\d\s.()+*/-]*[\d)]")
_TIMES_SIGN = pattern(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")
_CLOCK = pattern(r"(\d\d?)[:.](\d\d)")
_KEEPS = pattern(r"\b(?:note|remember|remind\w*|write|put|append|save|wake|alarm|timer)\b", re.IGNORECASE)
"""An order whose numbers ask nothing."""
_ASKS = pattern(
    r"\b(?:what|how|which|calculate|compute|work out|split|share|divide|convert)\b|^\W*\d|\?", re.IGNORECASE
)


class Sum(NamedTuple):
    """An answer, and what a further question goes on with: a number, the two units, or a day."""

    text: str
    value: float | None = None
    unit: str = ""
    day: datetime | None = None


def answer_sum(
    text: str, before: Sequence[str], words: Mapping[str, Mapping[str, Any]], now: datetime | None
) -> Sum | None:
    """Work out what a text asks, None where it is no sum; `before` are the user's last texts, the newest last."""
    if not words["sums"] or _KEEPS.search(text):
        return None
    signs = {meaning: word for word, meaning in reversed([*words["sums"].items()]) if word.isalpha()}
    s = Sentence(_SIGN.sub(lambda found: f" {signs[found[1]]} ", text), words)
    tokens, is_whole = _read_tokens(s, words)
    asks = is_whole or bool(_ASKS.search(text))
    numbers = sum(kind in {"number", "percent"} for kind, _ in tokens)
    is_following = before and len(s.words) <= 2 * _MAX_FOLLOWING and len(tokens) <= _MAX_FOLLOWING and numbers < 2
    last = answer_sum(before[-1], before[:-1], words, now) if is_following else None
    if bracketed := _BRACKETS.search(_TIMES_SIGN.sub("*", text)):
        return _evaluate(bracketed[0], bracketed[0]) if asks else None
    found = (_answer_form(tokens) if asks else None) or _convert(tokens, words, last, is_whole=is_whole)
    found = found or (_calculate([token for token in tokens if token != ("op", "ask")], last) if is_whole else None)
    return found or (_answer_day(text, now, last.day if last else None) if now else None)


def calculate(expression: str) -> float:
    """Work out + - * / and powers, with brackets. Raises ValueError for anything else, and ZeroDivisionError."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return float(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int() as power)) if 0 <= power <= _MAX_POWER:
                if abs(base := value(node.left)) <= _MAX_BASE:
                    return float(base**power)
            case ast.UnaryOp(op=ast.USub()):
                return -value(node.operand)
        raise ValueError(expression)

    return value(ast.parse(expression[:200].strip(), mode="eval"))


# What a sum is made of.

Token = tuple[str, Any]


def _read_tokens(s: Sentence, words: Mapping[str, Mapping[str, Any]]) -> tuple[list[Token], bool]:
    """The parts of a sum in a text, and whether nothing else stands in it."""
    found: list[Token] = []
    i, is_whole = 0, True
    while i < len(s.words):
        if clock := _CLOCK.fullmatch(s.words[i]) if ":" in s.words[i] else None:
            found.append(("clock", int(clock[1]) * 60 + int(clock[2])))
            i += 1
        elif number := _read_number(s, i, words["numbers"]):
            found.append(number[0])
            i = number[1]
        elif hit := s.longest(words["sums"], i):
            found.append(("op", hit[0]))
            i = hit[1]
        elif hit := s.longest(words["factors"], i):
            found.append(("unit", hit[0]))
            i = hit[1]
        elif hit := s.longest(words["polite"], i) or s.longest(words["plain"], i) or s.longest(words["sum_filler"], i):
            i = hit[1]
        else:
            is_whole = False
            i += 1
    return found, is_whole


def _read_number(s: Sentence, i: int, numbers: Mapping[str, Any]) -> tuple[Token, int] | None:
    word = s.words[i]
    if word in _SHARES and s.words[i + 1 : i + 2] == ["of"]:
        return ("number", _SHARES[word]), i + 1  # "half of 90"
    if found := re.fullmatch(r"(\d{1,4})/(\d{1,4})", word):
        return (("number", int(found[1]) / int(found[2])), i + 1) if int(found[2]) else None
    plain = word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    if found := re.fullmatch(r"(-?\d{1,12}(?:[.,]\d{1,6})?)(%)?", plain):
        value = float(found[1].replace(",", "."))
        is_word = s.words[i + 1 : i + 2] in (["percent"], ["%"]) or s.words[i + 1 : i + 3] == ["per", "cent"]
        end = i + 1 + (is_word and not found[2]) * (2 if s.words[i + 1 : i + 2] == ["per"] else 1)
        return ("percent" if found[2] or is_word else "number", value), end
    for size in (2, 1):
        phrase = s.words[i : i + size]
        if len(phrase) < size or word not in numbers or (isinstance(numbers[word], float) and size == 1):
            continue
        value = parse_amount(" ".join(phrase), numbers) if phrase[-1] in numbers else 0.0
        if value:
            return ("number", value), i + size
    return None


def _answer_form(tokens: Sequence[Token]) -> Sum | None:
    """Answer what is plain whatever stands around it: a discount, a share, a power, an area, from one hour to another."""
    values = [value for kind, value in tokens if kind in {"number", "percent", "clock"}]
    ops = {value for kind, value in tokens if kind == "op"}
    shape = "".join({"number": "n", "percent": "%", "clock": "c"}.get(kind, "") for kind, _ in tokens)
    if shape == "n" and "root" in ops and values[0] >= 0:
        return _tell(f"√{values[0]:g}", math.sqrt(values[0]))
    if len(values) != 2:
        return None
    one, other = values
    if shape == "%n" and "off" in ops:
        return _tell(f"{other:g} - {one:g} %", other * (1 - one / 100))
    if shape == "%n" and ops == {"of"}:
        return _tell(f"{one:g} % of {other:g}", one / 100 * other)
    if shape == "cc" and not ops.isdisjoint({"span", "ask"}):
        begin, end = (f"{clock // 60}:{clock % 60:02}" for clock in values)
        return Sum(f"{begin} to {end} is {format_duration((other - one) % 1440 * 60.0, exact=True)}.")
    if shape == "nn" and "power" in ops and other == int(other) and 0 <= other <= _MAX_POWER and abs(one) <= _MAX_BASE:
        value = int(one) ** int(other) if one == int(one) else one**other
        return Sum(f"{one:g} to the power of {other:g} = {value}", float(value))
    if shape == "nn" and "split" in ops and not ops.isdisjoint({"among", "by"}) and other:
        return _tell(f"{one:g} / {other:g}", one / other)
    if shape == "nn" and "area" in ops and ("*" in ops or "by" in ops):
        units = {value for kind, value in tokens if kind == "unit" and value.startswith("length")}
        names = {"length 1": " m²", "length 0.01": " cm²", "length 0.3048": " ft²"}
        found = _tell(f"{one:g} × {other:g}", one * other)
        return found and found._replace(
            text=found.text + "".join(names.get(one, "") for one in units if len(units) == 1)
        )
    return None


def _calculate(tokens: Sequence[Token], last: Sum | None) -> Sum | None:
    """A chain of + - * /, which may go on with the answer before."""
    signs = ("+", "-", "*", "/")
    if not any(kind == "op" for kind, _ in tokens):
        return None
    if tokens[0][0] == "op" and tokens[0][1] in signs and last and last.value is not None:
        tokens = [("number", last.value), *tokens]
    shape = "".join({"number": "n", "percent": "%", "op": "o"}.get(kind, "?") for kind, _ in tokens)
    values = [value for _, value in tokens]
    if shape == "non" and values[1] == "of":
        share = next((name for name, part in _SHARES.items() if part == values[0]), "")
        return _tell(f"{share} of {values[2]:g}", values[0] * values[2]) if share else None
    if not re.fullmatch(r"n(o[n%])+", shape) or any(op not in signs for op in values[1::2]):
        return None
    expression = shown = f"{values[0]:.12g}"
    for op, (kind, value) in zip(values[1::2], tokens[2::2], strict=True):
        shown += f" {'×' if op == '*' else op} {value:.12g}{' %' if kind == 'percent' else ''}"
        if kind == "percent" and op in {"+", "-"}:
            expression = f"({expression})*(1{op}{value / 100!r})"
        else:
            expression += f"{op}{value / 100 if kind == 'percent' else value!r}"
    return _evaluate(shown, expression)


def _evaluate(shown: str, expression: str) -> Sum | None:
    try:
        return _tell(shown, calculate(expression))
    except (ValueError, ZeroDivisionError, SyntaxError):
        return None


def _tell(shown: str, value: float) -> Sum | None:
    return Sum(f"{shown} = {_format_number(value)}", value) if abs(value) < _MAX_SIZE else None


def _format_number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


def _convert(
    tokens: Sequence[Token], words: Mapping[str, Mapping[str, Any]], last: Sum | None, *, is_whole: bool
) -> Sum | None:
    """A number of one unit in another; a number alone counts 1, as in "minutes in a week"."""
    units = [str(value) for kind, value in tokens if kind == "unit"]
    numbers = [float(value) for kind, value in tokens if kind == "number"]
    kinds = [value if kind == "op" else kind for kind, value in tokens]
    if not {"percent", "clock", "-", "*", "/"}.isdisjoint(kinds) or len(numbers) > 1:
        return None
    at = {kind: n for n, kind in reversed([*enumerate(kinds)])}
    pairs = {*pairwise(kinds)}
    if not is_whole and (not numbers or pairs.isdisjoint({("in", "unit"), ("ask", "unit")})):
        return None  # the other words may mean anything
    if len(units) == 1 and last and last.unit and not numbers:
        amount, source, target = last.value or 0.0, last.unit, units[0]
    elif len(units) == 2:
        asked_first = at.get("number", len(kinds)) > at["unit"]
        source, target = (units[1], units[0]) if asked_first else units
        amount = numbers[0] if numbers else 1.0
    else:
        return None
    (what, factor, *zero), (other, into, *other_zero) = (unit.split() for unit in (source, target))
    if what != other or source == target:
        return None
    base = amount * float(factor) + float(zero[0] if zero else 0)
    value = (base - float(other_zero[0] if other_zero else 0)) / float(into)
    names = {meaning: name for name, meaning in reversed([*words["factors"].items()])}
    single = [name for name, meaning in words["factors"].items() if meaning == source and name[-1:] != "s"]
    named = max(single, key=len, default=names[source]) if amount == 1 else names[source]
    shown = f"{_format_number(amount)} {named} = {_format_number(value)} {names[target]}"
    return Sum(shown, amount, source)


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
_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
_DAY_OF_YEAR = (
    rf"(?:(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b|(?:{_MONTH}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?\b)"
    r"(?:,? \d{4}\b)?"
)
_YEAR = pattern(r",? (\d{4})$")
_DAY = pattern(
    rf"(?P<holiday>{'|'.join(_HOLIDAYS)})|(?P<date>\d{{4}}-\d\d-\d\d|{_DAY_OF_YEAR})"
    rf"|(?P<past>(?:{_COUNTS}) (?:day|week)s? ago|the day before yesterday|yesterday|last (?:{'|'.join(WEEKDAYS)}))"
    r"|(?P<after>the day after tomorrow)|(?P<tomorrow>tomorrow)"
    rf"|(?:in )?(?P<ahead>(?:{_COUNTS}) (?:day|week)s?)(?P<since> from (?:now|today|tomorrow))?"
    rf"|(?:(?P<next>next )|this |on )?(?P<weekday>{'|'.join(WEEKDAYS)})",
    re.IGNORECASE,
)
_DAYS_UNTIL = pattern(
    r"\bhow (?P<unit>many days|many sleeps|many weeks|long|far)\b.*?\b(?:until|till|til|to|before|away is|off is|is|since)\b(?P<day>.*)"
    r"|^\W*(?:and )?(?:the )?days (?:until|till|til|to)\b(?P<other>.*)",
    re.IGNORECASE,
)
_DAYS_LEFT = pattern(r"\bhow many days\b.*\b(?:this|the|of the) (?P<what>week|month|year)\b", re.IGNORECASE)
_HOW_MANY_DAYS = pattern(r"\bhow (?:many (?:days|sleeps)|long)\b", re.IGNORECASE)
_WHICH_WEEK = pattern(r"\b(?:which|what) (?:calendar )?week\b|\bweek number\b", re.IGNORECASE)
_WHICH_DAY = pattern(
    r"\b(?:what|which)(?:'?s| is| was| will)?(?: be)? ?(?:the )?(?:date|day|weekday)\b|\bdate\b|\b(?:what|which) day of the week\b",
    re.IGNORECASE,
)
_IS_DAY = pattern(
    rf"^\W*is (?:it|today)(?: (?:the|a|already|yet))* (?P<what>weekend|weekday|{'|'.join(WEEKDAYS)})\b", re.IGNORECASE
)
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
            return now + timedelta(days=(WEEKDAYS.index(weekday) - now.weekday()) % 7 or 7)
        date, year = words["date"].removeprefix("the "), _YEAR.search(words["date"])
        if year:  # of a day by its month
            date, now = date[: year.start()], now.replace(year=int(year[1]), month=1, day=1, hour=0, minute=0)
        return parse_moment(f"{date} 23:59", now)
    except ValueError:
        return None


def _answer_day(text: str, now: datetime, last: datetime | None) -> Sum | None:
    """What date a day is, or how long it is until then or has been since."""
    if left := _DAYS_LEFT.search(text):
        month = now.replace(day=28) + timedelta(days=4)
        ends = {
            "week": now + timedelta(days=6 - now.weekday()),
            "month": month - timedelta(days=month.day),
            "year": now.replace(month=12, day=31),
        }
        return _count_days(ends[left["what"].lower()], now)
    if until := _DAYS_UNTIL.search(text):
        unit, rest = (until["unit"] or "many days").lower(), until["day"] or until["other"] or ""
        is_near = unit.startswith("many") or _DAY.match(re.sub(r"^\W*(?:the |it |is )*", "", rest))
        day = last if rest.strip(" ?") in {"then", "that"} else find_day(rest, now) if is_near else None
        if day and re.search(r"\b(?:since|ago)\b", text, re.IGNORECASE) and day > now:
            day = day.replace(year=day.year - 1)
        return _count_days(day, now, weeks="weeks" in unit) if day else None
    if is_day := _IS_DAY.search(text):
        what, is_weekend = is_day["what"].lower(), now.weekday() >= _SATURDAY
        holds = {"weekend": is_weekend, "weekday": not is_weekend}.get(what, f"{now:%A}".lower() == what)
        return Sum(f"{'Yes' if holds else 'No'}: it is {now:%A %Y-%m-%d}.")
    if _WHICH_WEEK.search(text):
        return Sum(f"Week {now.isocalendar().week} of {now.isocalendar().year}.")
    if _WHICH_DAY.search(text):
        day = find_day(text, now) or last
        if day and day.date() > now.date():
            return _count_days(day, now)
        return Sum(f"{day:%A %Y-%m-%d}", day=day) if day else None
    return _count_days(last, now) if last and _HOW_MANY_DAYS.search(text) else None


def _count_days(day: datetime, now: datetime, *, weeks: bool = False) -> Sum:
    days = abs((day.date() - now.date()).days)
    told = f"{days} day{'' if days == 1 else 's'}"
    if weeks:
        told = f"{days // 7} weeks and {days % 7} days" if days % 7 else f"{days // 7} weeks"
    return Sum(f"{told}: {day:%Y-%m-%d} is a {day:%A}.", day=day)


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
