"""Sums, units and days of the calendar: "14.5 times 12", "plus 20%", "75 f in c", "how many days till 3 may".

Words are data: `sums` has those of arithmetic, `factors` the units ("length 0.0254"), `days_asked` what asks for days.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from picoclaw.intents.classifier import parse_amount
from picoclaw.intents.sentence import Sentence
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import MONTHS, WEEKDAYS

_MAX_SIZE = 1e15


_SIGN = pattern(r"(?<=\d) ?([-+*/]) (?=\d)")
"""Between two numbers; "3/4" is one of them."""


class Sum(NamedTuple):
    """An answer, and what a further question goes on with: a number, the two units, or a day."""

    text: str
    value: float | None = None
    unit: str = ""
    day: date | None = None


def answer_sum(
    text: str, before: Sequence[str], words: Mapping[str, Mapping[str, Any]], say: Mapping[str, str], today: date | None
) -> Sum | None:
    """Work out what a text asks, None where it is no sum; `before` are the user's last texts, the newest last."""
    if not words["sums"]:
        return None
    signs = {meaning: word for word, meaning in reversed([*words["sums"].items()]) if word.isalpha()}
    s = Sentence(_SIGN.sub(lambda found: f" {signs[found[1]]} ", text), words)
    tokens = _read_tokens(s, words, today)
    if tokens is None:
        return None
    kinds = [kind for kind, _ in tokens]
    last = answer_sum(before[-1], before[:-1], words, say, today) if before and _needs_last(kinds) else None
    return _convert(tokens, words, last) or _calculate(tokens, last) or _count_days(s, tokens, say, today, last)


def _needs_last(kinds: Sequence[str]) -> bool:
    return kinds.count("number") + kinds.count("percent") < 2 and len(kinds) <= _MAX_FOLLOWING


_MAX_FOLLOWING = 5
Token = tuple[str, Any]


def _read_tokens(s: Sentence, words: Mapping[str, Mapping[str, Any]], today: date | None) -> list[Token] | None:
    """What a text is made of; None where a word is no part of a sum."""
    found: list[Token] = []
    i = 0
    while i < len(s.words):
        if day := _read_day(s, i, today):
            found.append(("day", day[0]))
            i = day[1]
        elif number := _read_number(s, i, words["numbers"]):
            found.append(number[0])
            i = number[1]
        elif hit := s.longest(words["sums"], i):
            found.append(("op", hit[0]))
            i = hit[1]
        elif hit := s.longest(words["factors"], i):
            found.append(("unit", hit[0]))
            i = hit[1]
        elif hit := s.longest(words["days_asked"], i):
            found.append(("ask", hit[0]))
            i = hit[1]
        elif hit := s.longest(words["polite"], i) or s.longest(words["plain"], i) or s.longest(words["sum_filler"], i):
            i = hit[1]
        else:
            return None
    return found


def _read_number(s: Sentence, i: int, numbers: Mapping[str, Any]) -> tuple[Token, int] | None:
    word = s.words[i]
    if word in numbers and isinstance(numbers[word], float) and s.words[i + 1 : i + 2] == ["of"] and numbers[word] < 1:
        return ("number", numbers[word]), i + 1  # "half of 90"
    if found := re.fullmatch(r"(\d{1,4})/(\d{1,4})", word):
        return (("number", int(found[1]) / int(found[2])), i + 1) if int(found[2]) else None
    if found := re.fullmatch(
        r"(\d{1,12}(?:[.,]\d{1,6})?)(%)?", word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    ):
        value = float(found[1].replace(",", "."))
        percent = bool(found[2]) or (i + 1 < len(s.words) and s.words[i + 1] in {"percent", "%"})
        return (("percent" if percent else "number"), value), i + 1 + (percent and not found[2])
    for size in (2, 1):
        phrase = s.words[i : i + size]
        if len(phrase) < size or word not in numbers or (isinstance(numbers[word], float) and size == 1):
            continue
        value = parse_amount(" ".join(phrase), numbers) if phrase[-1] in numbers else 0.0
        if value:
            return ("number", value), i + size
    return None


def _read_day(s: Sentence, i: int, today: date | None) -> tuple[tuple[int, int], int] | None:
    """A day of a month: "3 may", "may the 3rd", "christmas"."""
    if (s.words[i] in WEEKDAYS or s.words[i] == "tomorrow") and today:
        ahead = 1 if s.words[i] == "tomorrow" else (WEEKDAYS.index(s.words[i]) - today.weekday() - 1) % 7 + 1
        day = today + timedelta(days=ahead)
        return (day.month, day.day), i + 1
    months = {**{name: n for n, name in enumerate(MONTHS, 1)}, **{name[:3]: n for n, name in enumerate(MONTHS, 1)}}
    words = s.words[i : i + 4]
    picked = [(at, word) for at, word in enumerate(words) if word not in {"the", "of"}][:2]
    if len(picked) == 2:
        (_, first), (at, second) = picked
        for month, number in ((first, second), (second, first)):
            found = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", number)
            if month in months and found and 1 <= int(found[1]) <= 31:
                return (months[month], int(found[1])), i + at + 1
    feasts = {"christmas eve": (12, 24), "new year's eve": (12, 31), "christmas day": (12, 25), "christmas": (12, 25)}
    for feast, day_of in feasts.items():
        if words[: len(feast.split())] == feast.split():
            return day_of, i + len(feast.split())
    return None


def _calculate(tokens: Sequence[Token], last: Sum | None) -> Sum | None:
    parts = [token for token in tokens if token[0] != "ask"]
    if any(kind in {"unit", "day"} for kind, _ in parts) or not any(kind == "op" for kind, _ in parts):
        return None
    if parts and parts[0][0] == "op" and parts[0][1] in {"+", "-", "*", "/"} and last and last.value is not None:
        parts = [("number", last.value), *parts]
    kinds = "".join({"number": "n", "percent": "%", "op": "o"}[kind] for kind, _ in parts)
    values = [value for _, value in parts]
    if kinds == "%on" and values[1] == "of":
        return _tell_number(values[0] / 100 * values[2])
    if kinds == "non" and values[1] == "of":
        return _tell_number(values[0] * values[2])
    if not re.fullmatch(r"n(o[n%])+", kinds) or any(op not in {"+", "-", "*", "/"} for op in values[1::2]):
        return None
    total = [float(values[0])]
    signs = ["+"]
    for op, (kind, value) in zip(values[1::2], parts[2::2], strict=True):
        amount = float(value)
        if kind == "percent":
            amount = (total[-1] if op in {"+", "-"} and len(total) == 1 else 1.0) * amount / 100
        if op in {"*", "/"}:
            if op == "/" and not amount:
                return None
            total[-1] = total[-1] * amount if op == "*" else total[-1] / amount
        else:
            signs.append(op)
            total.append(amount)
    return _tell_number(sum(one if sign == "+" else -one for sign, one in zip(signs, total, strict=True)))


def _tell_number(value: float) -> Sum | None:
    return Sum(_format_number(value), value) if abs(value) < _MAX_SIZE else None


def _format_number(value: float) -> str:
    rounded = round(value, 4 if abs(value) < 1 else 2)
    return (
        f"{rounded:.4f}".rstrip("0").rstrip(".")
        if abs(rounded) < 1
        else f"{rounded:,.2f}".rstrip("0").rstrip(".").replace(",", "")
    )


def _convert(tokens: Sequence[Token], words: Mapping[str, Mapping[str, Any]], last: Sum | None) -> Sum | None:
    """A number of one unit in another; a number alone counts 1, as in "minutes in a week"."""
    units = [str(value) for kind, value in tokens if kind == "unit"]
    numbers = [float(value) for kind, value in tokens if kind == "number"]
    ops = {value for kind, value in tokens if kind == "op"}
    if any(kind in {"day", "percent"} for kind, _ in tokens) or ops - {"in", "of", "+"} or len(numbers) > 1:
        return None
    if len(units) == 1 and last and last.unit and not numbers:
        amount, source, target = last.value or 0.0, last.unit, units[0]
    elif len(units) == 2:
        first = next(n for n, (kind, _) in enumerate(tokens) if kind == "unit")
        counted = next((n for n, (kind, _) in enumerate(tokens) if kind == "number"), None)
        asked_first = counted is None or counted > first
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


def _count_days(
    s: Sentence, tokens: Sequence[Token], say: Mapping[str, str], today: date | None, last: Sum | None
) -> Sum | None:
    """How many days until a day of the year, and which weekday it is."""
    asked = {value for kind, value in tokens if kind == "ask"}
    days = [value for kind, value in tokens if kind == "day"]
    if not today or not asked or len(days) > 1 or any(kind in {"number", "percent"} for kind, _ in tokens):
        return None
    if days:
        month, number = days[0]
        try:
            day = date(today.year, month, number)
            is_since = any(word in s.words for word in ("since", "ago"))
            day = day if day >= today or is_since else date(today.year + 1, month, number)
            day = date(today.year - 1, month, number) if is_since and day > today else day
        except ValueError:
            return None
    elif last and last.day:
        day = last.day
    else:
        return None
    fields = {
        "days": abs((day - today).days),
        "date": f"{day:%Y-%m-%d}",
        "weekday": WEEKDAYS[day.weekday()].capitalize(),
    }
    return Sum(say["days_until"].format_map(fields), day=day)
