"""Sums, units and days: "14.5 times 12", "plus 20%", "split 90 between six", "75 f in c", "how many days till 3 may". Pure.

The words are data: those of arithmetic in `sums`, the units in `factors` ("length 0.0254"), holidays and what is asked of
days in `dates`.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from picoclaw.intents.grammar import fill_fields
from picoclaw.intents.sentence import Sentence
from picoclaw.intents.times import TimeReader, WordTables, parse_amount
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import MONTHS, WEEKDAYS, format_duration, parse_moment, parse_range

_MAX_SIZE = 1e15
_MAX_BASE, _MAX_POWER = 1e4, 99
_MAX_FOLLOWING = 5  # tokens, or words, of a question that goes on with the answer before
_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_DAY_S = 86_400
_SIGN = pattern(r"(?<=[\d€£$]) ?([-+*/]) (?=\d)")
"""Between two numbers; "3/4" is one of them."""
_BRACKETS = pattern(r"(?=[^()]*\()[\d(][\d\s.()+*/-]*[\d)]")
_TIMES_SIGN = pattern(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")
_CLOCK = pattern(r"(\d\d?)[:.](\d\d)")
_GLUED = pattern(r"(-?\d{1,12}(?:[.,]\d{1,6})?)(\D+)")
_KEEPS = pattern(r"\b(?:note|remember|remind\w*|write|put|append|save|wake|alarm|timer)\b", re.IGNORECASE)
"""An order whose numbers ask nothing."""
_ASKS = pattern(
    r"\b(?:what|how|which|calculate|compute|work out|split|share|divide|convert)\b|^\W*\d|\?", re.IGNORECASE
)
_TOLD_BEHIND = pattern(r"(?<=\?)\s+[A-ZÀ-Þ][^\d?]*$")
"""A sentence without a number behind a question: "... until 18 December? That day we go on holiday."."""
_ASKED_BEHIND = pattern(r"([^?]+\?)\s+([^?\d]+\??)")
"""A question, and one without a number behind it."""
_SIGNS = ("+", "-", "*", "/")
_CURRENCY = pattern(r"([€£$]) ?(\d[\d.,]*\d|\d)|(?<=\d)([€£$])")
_MONEY = ("op", "money")
_PRICE = pattern(r"\d+[.,]\d\d")
_REST = ("op", "rest")
_DIVIDES = frozenset({"among", "by", "in", "each", "/"})
_PRICES = pattern(r"q*(?:nu?(?:en|ne)e?)+q*")
"""How many, and what one costs: "n each n" or "n n each"; "u" is a unit, "q" asks."""
_BY = frozenset({"*", "by", "among"})
_SIDES = pattern(r"nl?xnl?xnl")
"""A number, maybe a length, and what stands between two sides."""
_BESIDE_CLOCK = ("sum_filler", "plain", "polite", "ignore")


class Sum(NamedTuple):
    """An answer, and what a further question goes on with: a number, the two units, or a day."""

    text: str
    value: float | None = None
    unit: str = ""
    day: date | None = None


class SumBook(NamedTuple):
    """A language: its words, its wording, its times, and what a text is about where that is sure."""

    words: WordTables
    say: Mapping[str, str]
    times: TimeReader
    find_topic: Callable[[str], str]


def answer_sum(text: str, before: Sequence[str], book: SumBook, now: datetime | None) -> Sum | None:
    """Work out what a text asks, None where it is no sum; `before` are the user's last texts, the newest last."""
    text = _TOLD_BEHIND.sub("", text)
    if parted := _ASKED_BEHIND.fullmatch(text):  # "how many minutes are in a week? in hours, please"
        rows = parted[1], parted[2]
        first, further = (answer_sum(one, [*before, *rows[:n]], book, now) for n, one in enumerate(rows))
        if first and further:
            return further._replace(text=f"{first.text}\n{further.text}")
    words, topic = book.words, book.find_topic(text)
    if not words["sums"] or (_KEEPS.search(text) and topic not in {"sum", "calendar"}):
        return None
    signs = {meaning: word for word, meaning in reversed([*words["sums"].items()]) if word.isalpha()}
    plain_text = _CURRENCY.sub(lambda found: f"{found[2] or ''} {found[1] or found[3]}", text)
    s = Sentence(_SIGN.sub(lambda found: f" {signs[found[1]]} ", plain_text), words)
    behind = [i for i in range(2, len(s.words)) if s.words[i - 1] in words["splits"]]
    if any(s.words[i] in words["acts"] or s.longest(words["questions"], i) for i in behind):
        return None  # "take 10 from 55 and double it", "... and how warm is it": it says more than a sum
    tokens, is_whole = _read_tokens(s, words)
    if _REST in tokens:
        if ("op", "split") in tokens:
            return _leave_rest(tokens) if s.asks or ("op", "ask") in tokens else None
        if sum(kind == "number" for kind, _ in tokens) > 1:
            return None  # "what is left over of 30 if I take 12?"
        tokens, is_whole = [token for token in tokens if token != _REST], False
    paid = [token for token, behind in pairwise(tokens) if behind == _MONEY]
    tokens = [token for token in tokens if token != _MONEY]
    priced = {word for word, meaning in words["sums"].items() if meaning in {"price", "each"}} | {*words["at"]}
    prices = (word for before, word in pairwise(s.words) if before in priced)  # "340 litros a 1,42"
    is_paid = bool(paid) or any(map(_PRICE.fullmatch, prices))
    left = {word for word in s.words if word in words["quarters"] or word in words["halves"]}
    is_sum = topic == "sum" and not left and (s.asks or s.words[0] not in words["tells"])  # not "I sold 20 percent"
    asks = is_whole or is_sum or ("op", "ask") in tokens or bool(_ASKS.search(text))
    asks |= tokens[:1] == [("op", "split")] and s.words[0] in words["sums"]
    asks = asks or s.longest(words["questions"], 0) is not None
    numbers = sum(kind in {"number", "percent"} for kind, _ in tokens)
    is_following = before and len(s.words) <= 2 * _MAX_FOLLOWING and len(tokens) <= _MAX_FOLLOWING and numbers < 2
    last = answer_sum(before[-1], before[:-1], book, now) if is_following else None
    if bracketed := _BRACKETS.search(_TIMES_SIGN.sub("*", text)):
        return _evaluate(bracketed[0], bracketed[0]) if asks else None
    found = (
        (_share_out(tokens, paid) or _answer_form(tokens, words, is_paid=is_paid) or _add_prices(tokens))
        if asks
        else None
    )
    is_dated = any(book.times.read_date(s.words[i : i + 8])[1] for i in range(len(s.words)))
    if not found and not is_dated and "what" not in s.list_values(words["dates"]):  # "what day is it in a week"
        found = _convert(tokens, words, last, is_whole=is_whole or is_sum)
    plain = [token for token in tokens if token not in (("op", "ask"), ("op", "in"), ("op", "span"))]
    if plain[:1] == [("op", "&")] and before:
        del plain[0]  # "and divided by 8?"
    if not found and is_whole:
        found = _calculate([("op", "+") if token == ("op", "&") else token for token in plain], last, words)
    if not found and is_sum:  # what stands beside the numbers is passed over, and no number is
        found = _calculate([token for token in plain if token[0] != "unit"], None, words)
    if found or not now:
        return found
    try:
        return _answer_clock(s, book, now) or _answer_day(text, book, now, last.day if last else None)
    except OverflowError:  # a day that no calendar has: "in 999999 weeks"
        return None


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


def _read_tokens(s: Sentence, words: WordTables) -> tuple[list[Token], bool]:
    """The parts of a sum in a text, and whether nothing else stands in it."""
    found: list[Token] = []
    i, is_whole = 0, True
    while i < len(s.words):
        if clock := _CLOCK.fullmatch(s.words[i]) if ":" in s.words[i] else None:
            found.append(("clock", int(clock[1]) * 60 + int(clock[2])))
            i += 1
        elif number := _read_number(s, i, words):
            (kind, value), i = number
            is_hour = (
                kind == "number" and i < len(s.words) and s.words[i] in words["oclock"].keys() - words["factors"].keys()
            )
            found.append(("clock", int(value * 60)) if is_hour else (kind, value))
            i += is_hour
        elif (glued := _GLUED.fullmatch(s.words[i])) and glued[2] in words["factors"]:  # "68f"
            found += [("number", float(glued[1].replace(",", "."))), ("unit", words["factors"][glued[2]])]
            i += 1
        elif (hit := s.longest(words["sums"], i)) and hit[1] >= s.end_of(words["polite"], i):  # not "por favor"
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


def _read_number(s: Sentence, i: int, words: WordTables) -> tuple[Token, int] | None:
    word, numbers = s.words[i], words["numbers"]
    if (share := s.longest(words["sums"], i)) and share[0].startswith("share "):
        of = s.longest(words["sums"], share[1]) if share[1] < len(s.words) else None
        return (("number", float(share[0].split()[1])), share[1]) if of and of[0] == "of" else None  # "half of 90"
    if found := re.fullmatch(r"(\d{1,4})/(\d{1,4})", word):
        return (("number", int(found[1]) / int(found[2])), i + 1) if int(found[2]) else None
    end = i + 1
    while re.fullmatch(r"\d{1,3}", word) and end < len(s.words) and re.fullmatch(r"\d{3}", s.words[end]):
        word, end = word + s.words[end], end + 1  # "1 250"
        if s.raw[s.starts[end - 1] - 1] != " ":
            return None
    plain = word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    if found := re.fullmatch(r"(-?\d{1,12}(?:[.,]\d{1,6})?)(%)?", plain):
        value = float(found[1].replace(",", "."))
        sign = None if found[2] or end >= len(s.words) else s.longest(words["sums"], end)
        is_percent = bool(found[2] or (sign and sign[0][0] == "%"))
        end = sign[1] if sign and sign[0] == "%" else end
        return ("percent" if is_percent else "number", value), end
    for size in (2, 1):
        phrase = s.words[i : i + size]
        if len(phrase) < size or word not in numbers or (isinstance(numbers[word], float) and size == 1):
            continue
        value = parse_amount(" ".join(phrase), numbers) if phrase[-1] in numbers else 0.0
        if value:
            sign = s.longest(words["sums"], i + size) if i + size < len(s.words) else None
            is_percent = sign is not None and sign[0] == "%"
            return ("percent" if is_percent else "number", value), sign[1] if sign and is_percent else i + size
    return None


def _name_meaning(words: WordTables) -> Mapping[str, str]:
    """The first word for each part of a sum."""
    return {meaning: phrase for phrase, meaning in reversed([*words["sums"].items()])}


def _answer_form(tokens: Sequence[Token], words: WordTables, *, is_paid: bool) -> Sum | None:
    """Answer what is plain whatever stands around it: a discount, a share, a power, an area, from one hour to another."""
    values = [value for kind, value in tokens if kind in {"number", "percent", "clock"}]
    ops = {value for kind, value in tokens if kind == "op"}
    shape = "".join({"number": "n", "percent": "%", "clock": "c"}.get(kind, "") for kind, _ in tokens)
    if shape == "n" and "root" in ops and values[0] >= 0:
        return _tell(f"√{values[0]:g}", math.sqrt(values[0]))
    if len(shape) > 1 and "sum" in ops and {*shape} == {"n"} and ops <= {"sum", "&", "+", "in", "ask"}:
        return _tell(" + ".join(f"{value:.12g}" for value in values), sum(values))
    if box := _measure_box(tokens, words):
        return box
    if len(values) != 2:
        return None
    one, other = values
    names = [kind if kind in {"number", "unit"} else str(value) for kind, value in tokens if value != "&"]
    if (
        shape == "nn"
        and " ".join(one for one in names if one != "ask").startswith("number unit per unit number unit")
        and tokens[3] == tokens[-1 - names[::-1].index("unit")]
    ):
        named = next((word for word, unit in words["factors"].items() if ("unit", unit) == tokens[1]), "")
        return _tell(f"{one:g} × {other:g}", one * other, named)  # "35 ml per litre and a 9 litre can"
    if shape == "nn" and " ".join(names).removeprefix("- ") == "number from number":
        return _tell(f"{other:g} - {one:g}", other - one)
    if shape == "%n" and "off" in ops:
        return _tell(f"{other:g} - {one:g} %", other * (1 - one / 100))
    if shape == "%n" and ops - {"ask", "in"} == {"of"}:
        return _tell(f"{one:g} % {_name_meaning(words)['of']} {other:g}", one / 100 * other)
    if shape == "cn" and is_paid and "ask" in ops and not ops.isdisjoint({"price", "each"}):
        return _tell(f"{one // 60}:{one % 60:02} × {other:g}", one / 60 * other)  # "7:30 at 42 euros, how much?"
    if shape == "cc" and not ops.isdisjoint({"span", "ask"}):
        begin, end = (f"{clock // 60}:{clock % 60:02}" for clock in values)
        return Sum(f"{begin} - {end}: {format_duration((other - one) % 1440 * 60.0, exact=True)}")
    measures = [value for kind, value in tokens if kind == "unit"]
    is_price = {"price", "ask"} <= ops or "each" in ops or ({"buy", "ask", "in"} <= ops and "&" not in ops)
    is_price |= "ask" in ops and "number of number" in " ".join(one for one in names if one != "ask")
    is_price |= is_paid and names == ["number", "unit", "in", "number", "unit", "ask"]  # "7,5 horas a 42 euros la hora"
    said = " ".join(one for one in names if one != "ask").removeprefix("in ")
    is_price |= is_paid and re.fullmatch("number unit (in|price|each) number", said) is not None
    is_price &= not _asks_each(tokens) and ops <= {"buy", "price", "ask", "in", "&", "each", "of"}
    is_price &= 1 not in values  # "an e-mail to say that I come at 18 h"
    is_single = is_paid and len(measures) == 1 and not measures[0].startswith("time ")
    is_price &= not measures or is_single or (len(measures) == 2 and len({*measures}) == 1)  # "3 kilos at 2.50 a kilo"
    is_price |= names[:3] == ["number", "*", "number"] and ops <= {"*", "each", "ask"}  # "27 boxes times 4 beans each"
    if shape == "nn" and ("multiply" in ops or is_price):
        return _tell(f"{one:g} × {other:g}", one * other)  # "14 bags at 3.79 each"
    if shape == "nn" and "power" in ops and other == int(other) and 0 <= other <= _MAX_POWER and abs(one) <= _MAX_BASE:
        value = int(one) ** int(other) if one == int(one) else one**other
        return Sum(f"{one:g} {_name_meaning(words)['power']} {other:g} = {value}", float(value))
    if shape == "nn" and "area" in ops and ("*" in ops or "by" in ops):
        units = {value for kind, value in tokens if kind == "unit" and value.startswith("length")}
        squares = {"length 1": " m²", "length 0.01": " cm²", "length 0.3048": " ft²"}
        found = _tell(f"{one:g} × {other:g}", one * other)
        square = "".join(squares.get(one, "") for one in units if len(units) == 1)
        return found and found._replace(text=found.text + square)
    return None


def _measure_box(tokens: Sequence[Token], words: WordTables) -> Sum | None:
    """What a box holds by its sides: "how many litres are in a tank of 1.2 m by 0.8 m by 0.35 m?"."""
    kinds = "".join(
        "l" if kind == "unit" and str(value).startswith("length ") else "x" if value in _BY else kind[0]
        for kind, value in tokens
    )
    volumes = {str(value) for kind, value in tokens if kind == "unit" and str(value).startswith("volume ")}
    found = _SIDES.search(kinds)
    if not found or len(volumes) != 1:
        return None
    (volume,), within = volumes, tokens[found.start() : found.end()]
    sides = [float(value) for kind, value in within if kind == "number"]
    lengths = {str(value) for kind, value in within if kind == "unit"}
    if len(lengths) != 1:
        return None
    (length,) = lengths
    length_name, volume_name = (
        next(word for word, unit in words["factors"].items() if unit == one) for one in (length, volume)
    )
    litres = 1000 * math.prod(side * float(length.split()[1]) for side in sides)
    shown = " × ".join(f"{side:g}" for side in sides)
    return _tell(f"{shown} {length_name}", litres / float(volume.split()[1]), volume_name)


def _asks_each(tokens: Sequence[Token]) -> bool:
    """Whether it is asked what each gets, and not said what each costs: "how much each?"."""
    return (("op", "ask"), ("op", "each")) in {*pairwise(token for token in tokens if token != ("op", "in"))}


def _share_out(tokens: Sequence[Token], paid: Sequence[Token]) -> Sum | None:
    """What each gets: "47 euros split in three", "we are 5 and share 82", "60 euros and 4 of us, how much each?"."""
    numbers = [i for i, (kind, value) in enumerate(tokens) if kind == "number" and value != 1]  # not "a bill of 60"
    if len(numbers) != 2 or any(kind in {"percent", "clock"} for kind, _ in tokens):
        return None
    i, j = numbers
    split = tokens.index(("op", "split")) if ("op", "split") in tokens else None
    asks_each = _asks_each(tokens)
    whole, by = float(tokens[i][1]), float(tokens[j][1])
    between = {value for kind, value in tokens[i + 1 : j] if kind == "op"}
    if split is None and not asks_each:
        return None
    if len(paid) == 1 and ("op", "ask") in tokens:
        whole, by = (whole, by) if paid[0] == tokens[i] else (by, whole)
    elif split is None or not (between & _DIVIDES or ("op", "ask") in tokens):
        return None
    elif i < split < j and tokens[j - 1][1] not in _DIVIDES:
        whole, by = by, whole
    return _tell(f"{whole:g} / {by:g}", whole / by) if by > 0 else None


def _leave_rest(tokens: Sequence[Token]) -> Sum | None:
    """What is left over where each gets as many: "if I split 28 into teams of 5, how many are left over?"."""
    values = [value for kind, value in tokens if kind not in {"op", "unit"}]
    if len(values) != 2 or any(value < 1 or value % 1 for value in values) or {"percent", "clock"} & {*dict(tokens)}:
        return None
    whole, by = map(int, values)
    return Sum(f"{whole} = {whole // by} × {by} + {whole % by}", float(whole % by))


def _add_prices(tokens: Sequence[Token]) -> Sum | None:
    """What several things cost, so many of each: "4 at 6.90 and 2 at 3, how much?"."""
    ops = {value for kind, value in tokens if kind == "op"}
    marks = {"number": "n", "unit": "u", "each": "e", "ask": "q"}
    told = "".join(marks.get(value if kind == "op" else kind, "" if kind == "op" else "?") for kind, value in tokens)
    values = [float(value) for kind, value in tokens if kind == "number"]
    if "ask" not in ops or ops - {"each", "ask", "in", "&", "of", "price", "buy"} or not _PRICES.fullmatch(told):
        return None
    parts = [*zip(values[::2], values[1::2], strict=True)]
    return _tell(" + ".join(f"{n:g} × {one:g}" for n, one in parts), sum(n * one for n, one in parts))


def _calculate(tokens: Sequence[Token], last: Sum | None, words: WordTables) -> Sum | None:
    """A chain of + - * /, which may go on with the answer before."""
    if not any(kind == "op" for kind, _ in tokens):
        return None
    if tokens[0][0] == "op" and tokens[0][1] in _SIGNS and last and last.value is not None:
        tokens = [("number", last.value), *tokens]
    if tokens[-1] == ("op", "of") and last and last.value is not None:  # "half of that"
        tokens = [*tokens, ("number", last.value)]
    shape = "".join({"number": "n", "percent": "%", "op": "o"}.get(kind, "?") for kind, _ in tokens)
    values = [value for _, value in tokens]
    if shape in {"non", "%on"} and values[1] == "of":
        meanings = _name_meaning(words)
        share = meanings.get(f"share {values[0]!r}") if shape == "non" else f"{values[0]:g} %"
        value = values[0] * values[2] / (1 if shape == "non" else 100)
        return _tell(f"{share} {meanings['of']} {values[2]:g}", value) if share else None
    if not re.fullmatch(r"n(o[n%])+", shape) or any(op not in _SIGNS for op in values[1::2]):
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


def _tell(shown: str, value: float, unit: str = "") -> Sum | None:
    return Sum(f"{shown} = {_format_number(value)} {unit}".rstrip(), value) if abs(value) < _MAX_SIZE else None


def _format_number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


_FOOT, _INCH = "length 0.3048", "length 0.0254"


def _convert(tokens: Sequence[Token], words: WordTables, last: Sum | None, *, is_whole: bool) -> Sum | None:
    """A number of one unit in another; a number alone counts 1, as in "minutes in a week"."""
    units = [str(value) for kind, value in tokens if kind == "unit"]
    numbers = [float(value) for kind, value in tokens if kind == "number"]
    kinds = [value if kind == "op" else kind for kind, value in tokens]
    if len(numbers) == 2 and len(units) in {2, 3} and "".join(kind[0] for kind, _ in tokens[:3]) == "nun":
        inner = units[1] if len(units) == 3 and kinds[3:4] == ["unit"] else {_FOOT: _INCH}.get(units[0], "")
        if inner and units[0] != inner and inner.split()[0] == units[0].split()[0]:  # "5 feet 10"
            ratio = float(inner.split()[1]) / float(units[0].split()[1])
            numbers, units = [numbers[0] + numbers[1] * ratio], [units[0], units[-1]]
            kinds = ["number", "unit", "in", "unit"]
    if not {"percent", "clock", "-", "*", "/", "+"}.isdisjoint(kinds) or len(numbers) > 1 or (numbers and "&" in kinds):
        return None
    at = {kind: n for n, kind in reversed([*enumerate(kinds)])}
    pairs = {*pairwise(kinds)}
    if "ask" not in kinds and pairs >= {("unit", "of"), ("of", "unit")}:
        return None  # "what day of the week is the 24th"
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
    single = [name for name in single if name[:-1] not in single]  # "wochen" of "woche"
    named = max(single, key=len, default=names[source]) if amount == 1 else names[source]
    named, into_named = (
        next(
            (
                one
                for one in (f"{name}s", f"{name}es", f"{name}e", f"{name}n")
                if number != 1 and one in words["factors"]
            ),
            name,
        )
        for name, number in ((named, amount), (names[target], value))
    )
    shown = f"{_format_number(amount)} {named} = {_format_number(value)} {into_named}"
    return Sum(shown, amount, source)


# Days.

_FEAST = pattern(r"(easter|advent)([+-]\d+)?")
_ENDS = frozenset({"week", "month", "year"})
_DAYS_OF_WEEK = {"weekend": {5, 6}, "weekday": {0, 1, 2, 3, 4}, **{day: {n} for n, day in enumerate(WEEKDAYS)}}


def _compute_easter(year: int) -> date:
    """Easter Sunday, by the rule of Meeus, Jones and Butcher."""
    century, rest = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    sunday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    month, day = divmod(epact + sunday - 7 * ((golden + 11 * epact + 22 * sunday) // 451) + 114, 31)
    return date(year, month, day + 1)


def _compute_fourth_advent(year: int) -> date:
    """The last Sunday before Christmas Day."""
    return date(year, 12, 24) - timedelta(days=date(year, 12, 25).weekday())


def _place(told: str, now: datetime, said: Collection[str]) -> date | None:
    """The day told as "25 december", "14", "easter-2", "+1" or "month" (its last), after now, of the past before it."""
    today = now.date()
    if told in _ENDS:
        first = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
        ends = {"week": today + timedelta(days=6 - today.weekday()), "year": today.replace(month=12, day=31)}
        return ends.get(told, first - timedelta(days=1))
    if told[0] in "+-":
        return today + timedelta(days=int(told))
    is_past = "past" in said
    if told in WEEKDAYS:
        apart = WEEKDAYS.index(told) - today.weekday()
        return today - timedelta(days=-apart % 7 or 7) if is_past else today + timedelta(days=apart % 7 or 7)
    years = [int(one) for one in told.split() if len(one) == 4 and one.isdecimal()]
    years = years or [today.year + 1] * ("next" in said) or [today.year] * ("this" in said)
    moved = _FEAST.fullmatch(told)
    for n in range(100):  # months, or years where a month is said
        number, *names = told.split()
        by_month = not moved and (not names or names[0] not in MONTHS)
        index = 12 * today.year + today.month - 1 + (-n if is_past else n) * (1 if by_month else 12)
        year = years[0] if years else index // 12
        month = index % 12 + 1 if by_month else 0 if moved else MONTHS.index(names[0]) + 1
        try:
            compute_feast = _compute_easter if told.startswith("easter") else _compute_fourth_advent
            day = compute_feast(year) if moved else date(year, month, int(number))
            day += timedelta(days=int(moved[2] or 0) if moved else 0)
        except ValueError:
            continue
        if years or (day <= today if is_past else day >= today):
            return day
    return None


def _answer_clock(s: Sentence, book: SumBook, now: datetime) -> Sum | None:
    """How long it is until a time of day ("how long till 7"), or what time it is "in 3 hours"; None where it asks more."""
    words, begin, i, ahead = book.words, 0, 0, 0.0
    while i < len(s.words):
        hit = s.longest(words["dates"], i)
        if hit and hit[0] in {"long", "clock"}:
            begin = i = hit[1]
            ahead = ahead if hit[0] == "long" else -1.0
        elif ahead and (
            span := next((one for one in book.times.once(s.words[i:], "") if "at_seconds" in one[0]), None)
        ):
            ahead, i = span[0]["at_seconds"], i + span[1]
        elif begin and (until := s.longest(words["until"], i)) and until[1] < len(s.words):
            at = [] if s.longest(words["at"], until[1]) else next(iter(words["at"])).split()
            for value, count in book.times.once([*at, *s.words[until[1] :]], ""):
                if "at" in value and count == len(at) + len(s.words) - until[1]:
                    return _tell_until(value["at"], now)
            return None
        elif hit := next(filter(None, (s.longest(words[name], i) for name in _BESIDE_CLOCK)), None):
            i = hit[1]
        else:
            return None
    return _tell_until(f"{now + timedelta(seconds=ahead):%Y-%m-%d %H:%M}", now, is_clock=True) if ahead > 0 else None


def _tell_until(at: str, now: datetime, *, is_clock: bool = False) -> Sum | None:
    try:
        end = parse_moment(at, now)
    except ValueError:
        return None
    told = f"{end:%H:%M}" if end.date() == now.date() else f"{end:%Y-%m-%d %H:%M}"
    length = format_duration((end - now).total_seconds(), exact=True)
    return Sum(f"{told} ({length})" if is_clock else f"{length} ({told})")


def _read_days(
    s: Sentence, words: WordTables, times: TimeReader, now: datetime
) -> tuple[list[date], list[str], set[str]]:
    """The days that a text names by date, those of a week, and what else it says: "count", "weeks", "what", "past"; "range"
    where so much stands around "this week" that it is no day.
    """
    told, weekdays, said, i, left = list[str](), list[str](), set[str](), 0, 0
    lengths, feasts = list[str](), list[str]()
    while i < len(s.words):
        near = s.words[i : i + 8]
        named, size = times.read_date(near)
        if not size and near[0] in words["on"] and near[1:] and near[1].isdecimal():  # "qué día es el 24"
            named, size = times.read_date([near[0], "dia", *near[1:]])
            size -= size > 0
        hit = s.longest(words["dates"], i)
        day = s.longest(words["days"], i)
        ago = next(((value, count) for value, count in times.past(near) if value.endswith(" ago")), None)
        begin = None
        with suppress(ValueError):  # "0 days ago"
            begin = parse_range(ago[0], now).begin if ago else None
        lengths_ahead = ((one["at_seconds"], count) for one, count in times.once(near, "") if "at_seconds" in one)
        ahead = next(lengths_ahead, None)
        is_later = (s.longest(words["dates"], i + 1) or ("?", 0))[0][0] in "+-"  # "the day after tomorrow"
        if size and not (hit and hit[1] - i > size):
            told, i = [*told, named], i + size
        elif ago and begin:
            lengths, i = [*lengths, f"{(begin.date() - now.date()).days:+}"], i + ago[1]
            said.add("past")
        elif ahead and ahead[0] % _DAY_S == 0 and ahead[1] > 1 and not is_later:
            lengths, i = [*lengths, f"{int(ahead[0] // _DAY_S):+}"], i + ahead[1]
        elif hit and hit[0][:1].isalpha() and hit[0] not in _ENDS and not _FEAST.fullmatch(hit[0]):
            said, i = said.union(hit[0].split()), hit[1]
        elif hit:
            (lengths if hit[0][0] == "+" else feasts).append(hit[0])
            i = hit[1]
        elif day and (name := day[0].removeprefix("next ")) in WEEKDAYS:
            weekdays, said, i = [*weekdays, name], said | {*day[0].split()} - {name}, day[1]
        elif day:
            lengths, i = [*lengths, "+1" if day[0] == "tomorrow" else "+0"], day[1]
        elif s.words[i][0].isdigit():
            return [], [], set()  # of something else
        else:
            beside = ("filler", "polite", "ignore", "tail", "lead", "sum_filler")
            is_beside = any(s.longest(words[name], i) for name in beside)
            said, left = (said, left) if is_beside else (said | {"more"}, left + 1)
            i += 1
    if left > 1 and not told and _ENDS.issuperset(feasts):  # "was it colder this week than at the weekend?"
        said.add("range")
    if "when" in said and not feasts:
        said.add("more")
    is_of_year = "this" in said and not ("what" in said or s.holds(words["until"]))  # of a feast that is not known
    if is_of_year and not (told or feasts or lengths or weekdays):
        feasts = ["year"]
    dates = told or feasts
    found = [_place(one, now, said) for one in dates or lengths]  # "the holidays, on 13 May"
    if "what" in said and lengths and len(dates) + len(lengths) > 1 and len(dates) < 2:
        apart = timedelta(days=sum(map(int, lengths)))  # "two weeks from tomorrow", "a week before christmas"
        first = found[0] if dates else now.date()
        found = [first and first + (-apart if dates and s.holds(words["back"]) else apart)]
    return ([day for day in found if day] if all(found) else []), weekdays, said


def _answer_day(text: str, book: SumBook, now: datetime, last: date | None) -> Sum | None:
    """What date a day is, and how long it is until then or has been since, by whatever words it is asked."""
    s, say, today = Sentence(text, book.words), book.say, now.date()
    days, weekdays, said = _read_days(s, book.words, book.times, now)
    trusts = book.find_topic(text) == "calendar"
    is_question = s.asks or not book.words["questions"].keys().isdisjoint(s.words[:1])
    asks = not said.isdisjoint({"count", "weeks", "what", "number", "weekend", "weekday"})
    asks |= "long" in said and bool(days or last)
    asks |= "when" in said and "more" not in said  # "when is easter?"
    if not (trusts or asks or (days and weekdays and is_question)):
        return None
    if "number" in said:
        year, week, _ = (days[0] if days else today).isocalendar()
        return Sum(fill_fields(say["week_number"], {"week": week, "year": year}))
    asked = [*weekdays, *(said & {"weekend", "weekday"})]
    if not days and len(weekdays) == 1 and ("what" in said or trusts):
        days, asked = [day for day in [_place(weekdays[0], now, said)] if day], []
    if (
        not days and asked and (trusts or (is_question and "more" not in said))
    ):  # not "is there a market at the weekend?"
        days = [today]
    if not days and last and said & {"count", "weeks", "what", "long"}:
        days = [last]
    if not 0 < len(days) <= 2 or (
        len(days) == 1 and len(said & {"weekend", "weekday"}) + len(weekdays) > 1 and not trusts
    ):
        return None
    if len(days) == 2:
        first, other = days
        if first > other:
            first = first.replace(year=first.year - 1, day=min(first.day, 28 if first.month == 2 else 31))
        length = _name_length((other - first).days, say, weeks="weeks" in said)
        return Sum(fill_fields(say["between_dates"], {"days": length, "first": first, "other": other}))
    (day,) = days
    if "what" in said and len(weekdays) == 1 and day > today and (day - today).days % 7 == 0:  # "monday in two weeks"
        day, asked = day + timedelta(days=(WEEKDAYS.index(weekdays[0]) - day.weekday()) % 7), []
    weekday = WEEKDAYS[day.weekday()].capitalize()
    if len(asked) == 1 and said.isdisjoint({"count", "weeks", "what"}):
        if "range" in said:
            return None
        holds = day.weekday() in _DAYS_OF_WEEK[asked[0]]
        told = fill_fields(say["is_day"], {"date": day, "weekday": weekday})
        return Sum(f"{say['yes' if holds else 'no']} {told}", day=day)
    counts = not said.isdisjoint({"count", "weeks", "long"})
    if day == today:
        return None  # the clock tells it
    if day < today and not counts:
        return Sum(f"{weekday} {day}", day=day)
    length = _name_length(abs((day - today).days), say, weeks="weeks" in said)
    return Sum(f"{length}: {fill_fields(say['is_day'], {'date': day, 'weekday': weekday})}", day=day)


def _name_length(days: int, say: Mapping[str, str], *, weeks: bool) -> str:
    day, plural, week, many, joint = say["days"].split()
    told = [f"{days // 7} {week if days // 7 == 1 else many}"] if weeks and days > 6 else []
    left = days % 7 if told else days
    told += [f"{left} {day if left == 1 else plural}"] if left or not told else []
    return f" {joint} ".join(told)


_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
_DAY = pattern(
    rf"(?P<date>(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b|(?:{_MONTH}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?\b)",
    re.IGNORECASE,
)
_BESIDE = pattern(
    r"\b(?:the |one )?(?P<how>(?:day|week) (?:before|after)|same day|that day|eve)\b(?! yesterday)", re.IGNORECASE
)


def name_day(wish: str, known: str, now: datetime) -> str:
    """Name the day in "remind me the day before" by the one date that was found before; '' where there is none."""
    beside = _BESIDE.search(wish)
    found = [parse_moment(f"{one['date'].lower().removeprefix('the ')} 23:59", now) for one in _DAY.finditer(known)]
    dates = {day.date(): day for day in found}
    if not beside or len(dates) != 1:
        return ""
    (day,) = dates.values()
    by = {"day before": -1, "eve": -1, "day after": 1, "week before": -7, "week after": 7}.get(beside["how"].lower(), 0)
    day += timedelta(days=by)
    begin, end = wish[: beside.start()].removesuffix("on ").removesuffix("for "), wish[beside.end() :]
    return f"{begin}on {day.day} {MONTHS[day.month - 1].capitalize()}{end}"
