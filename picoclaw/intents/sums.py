"""Sums, units and days: "14.5 times 12", "plus 20%", "split 90 between six", "75 f in c", "how many days till 3 may". Pure.

The words are data: those of arithmetic in `sums`, the units in `factors` ("length 0.0254"), holidays and what is asked of
days in `dates`.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cached_property
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
_MAX_FOLLOWING = 10  # words of a question that goes on with the answer before
_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_DAY_S = 86_400
_DECIMAL_COMMA = pattern(r"(?<![\d.,])(\d+),(\d\d?)(?![\d.,]*\d)")
_SIGN = pattern(r"(?<=[\d€£$]) ?([-+*/]) (?=\d)")
"""Between two numbers; "3/4" is one of them."""
_BRACKETS = pattern(r"(?=[^()]*\()[\d(][\d\s.()+*/-]*[\d)]")
_TIMES_SIGN = pattern(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")
_JOINED = pattern(r"(?<=\d)-([^\W\d]{3,})-?")
"""In "12-litre can" and "12-Liter-Kanne"."""
_CLOCK = pattern(r"(\d\d?):(\d\d)")
_GLUED = pattern(r"(-?\d{1,12}(?:[.,]\d{1,6})?)(\D+)")
_KEEPS = pattern(r"\b(?:note|remember|remind\w*|write|put|append|save|wake|alarms?|timers?)\b", re.IGNORECASE)
"""An order whose numbers ask nothing."""
_ASKS = pattern(
    r"\b(?:what|how|which|calculate|compute|work out|split|share|divide|convert)\b|^\W*\d|\?", re.IGNORECASE
)
_TOLD_BEHIND = pattern(r"(?<=\?)\s+[A-ZÀ-Þ][^\d?]*$")
"""A sentence without a number behind a question: "... until 18 December? That day we go on holiday."."""
_ASKED_BEHIND = pattern(r"([^?]+\?)\s+([^?\d]+\??)")
"""A question, and one without a number behind it."""
_SIGNS = frozenset({"+", "-", "*", "/"})
_CURRENCY = pattern(r"([€£$]) ?(\d[\d.,]*\d|\d)|(?<=\d)([€£$])")
_PRICE = pattern(r"\d+[.,]\d\d")
_DIVIDES = frozenset({"among", "by", "in", "each", "/"})
_PRICED = pattern(r"number(?: unit)? (?:in|price|each) number(?: unit)?")
"""How many, and what one costs: "7,5 horas a 42 euros la hora"."""
_PRICES = pattern(r"(?:ask )*(?:number (?:unit )?(?:each number|number each) (?:unit )?(?:each )?)+(?:ask )*")
"""More than one time how many, and what one costs: "4 at 6.90 and 2 at 3"."""
_RATE = pattern(r"(number(?: unit)?) per unit(?: unit)? number unit|(?:unit )?number unit (number(?: unit)?) per unit")
"""So much for each of a unit, and how many there are of it, in either order."""
_RATE_OF_SEVERAL = pattern(r"number unit (?:(?:per|each|by|among|in) )?number unit (?:in )?number unit")
"""The same for several of them: "15 ml for 2 litres, how much for 10 litres?"."""
_PER = pattern(r"(?<!\S)(?:per|by|among|\*) (?=unit\b)")
_EACH = frozenset({"number number unit each", "number each number unit", "number per number unit"})
_SIDES = pattern(r"number (?:length )?by number (?:length )?by number length ")
_SQUARES = {"length 1": "m²", "length 0.01": "cm²", "length 0.3048": "ft²"}
_KINDS = {"number": "n", "percent": "%", "clock": "c"}
"""What has a value in a sum."""


class Sum(NamedTuple):
    """An answer, and what a further question goes on with: a number, two units and how many of the first it was converted from,
    a day, or the share that was asked for and what it is of.
    """

    text: str
    value: float | None = None
    unit: str = ""
    into: str = ""
    amount: float = 0.0
    day: date | None = None
    percent: float | None = None
    whole: float = 0.0


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
    text = _JOINED.sub(r" \1 ", text)
    text = text if words["decimals"] else _DECIMAL_COMMA.sub(r"\1.\2", text)
    plain_text = _CURRENCY.sub(lambda found: f"{found[2] or ''} {found[1] or found[3]}", text)
    s = Sentence(_SIGN.sub(lambda found: f" {signs[found[1]]} ", plain_text), words)
    behind = [i for i in range(2, len(s.words)) if s.words[i - 1] in words["splits"]]
    if any(s.words[i] in words["acts"] or s.longest(words["questions"], i) for i in behind):
        return None  # "take 10 from 55 and double it", "... and how warm is it": it says more than a sum
    terms = _read_terms(s, words)
    is_following = before and len(s.words) <= _MAX_FOLLOWING and len(terms.shape) < 2
    last = answer_sum(before[-1], before[:-1], book, now) if is_following else None
    if "rest" in terms.ops and len(terms.values) > 1:
        asks = "split" in terms.ops and (s.asks or "ask" in terms.ops)
        return _leave_rest(terms) if asks else None  # not "what is left over of 30 if I take 12?"
    found = _work_out(text, s, terms, book, last, is_sum=topic == "sum")
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


class Terms:
    """The parts of a sum in the order of a text, and whether nothing else stands in it."""

    def __init__(self, tokens: Sequence[Token], *, is_whole: bool) -> None:
        self.paid = [value for (_, value), behind in pairwise(tokens) if behind == ("op", "money")]
        """The numbers that a currency stands behind."""
        self.tokens = [token for token in tokens if token != ("op", "money")]
        self.is_whole = is_whole
        self.kinds = [str(value) if kind == "op" else kind for kind, value in self.tokens]
        self.ops = {str(value) for kind, value in self.tokens if kind == "op"}
        self.units = [str(value) for kind, value in self.tokens if kind == "unit"]
        self.values = [float(value) for kind, value in self.tokens if kind in _KINDS]
        self.shape = "".join(_KINDS.get(kind, "") for kind, _ in self.tokens)

    def line(self, *without: str) -> str:
        """The kinds of the parts in a line: "number unit in unit"."""
        return " ".join(kind for kind in self.kinds if kind not in without)

    @cached_property
    def asks_each(self) -> bool:
        """Whether it is asked what each gets, and not said what each costs: "how much each?"."""
        return ("ask", "each") in {*pairwise(kind for kind in self.kinds if kind != "in")}


def _read_terms(s: Sentence, words: WordTables) -> Terms:
    found: list[Token] = []
    i, is_whole = 0, True
    while i < len(s.words):
        if clock := _CLOCK.fullmatch(s.words[i]):
            found.append(("clock", int(clock[1]) * 60 + int(clock[2])))
            i += 1
        elif _is_article(s, i, words) or _is_each(s, i, words, found):
            i += 1
        elif number := _read_number(s, i, words):
            (kind, value), i = number
            is_hour = kind == "number" and i < len(s.words) and s.words[i] in words["oclock"]
            is_hour = is_hour and s.words[i] not in words["factors"]
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
        elif end := max(s.end_of(words[name], i) for name in ("polite", "plain", "sum_filler")):
            i = end
        else:
            is_whole = False
            i += 1
    if [token for token in found if token != ("op", "of")][:2] == [("number", 1.0), ("op", "price")]:
        del found[0]  # "ein Sack kostet 3,90"
    return Terms(found, is_whole=is_whole)


def _is_article(s: Sentence, i: int, words: WordTables) -> bool:
    """Whether a word that counts 1 does not count here: "un 10 %", "una parcela de 12.4 por 8"."""
    of = s.longest(words["sums"], i + 2)
    number = i + 1 if of is None or of[0] != "of" or s.longest(words["factors"], i + 1) else of[1]
    return words["numbers"].get(s.words[i]) == 1 and s.words[number:][:1] != [] and s.words[number][0].isdigit()


def _is_each(s: Sentence, i: int, words: WordTables, before: Sequence[Token]) -> bool:
    """Whether an "a" stands before a unit that was said before: "7 hours at 12.50 an hour"."""
    unit = s.longest(words["factors"], i + 1) if words["numbers"].get(s.words[i]) == 1 else None
    return unit is not None and ("unit", unit[0]) in before


def _read_number(s: Sentence, i: int, words: WordTables) -> tuple[Token, int] | None:
    """A number or a percentage at word `i`, and where it ends."""
    if (share := s.longest(words["sums"], i)) and share[0].startswith("share "):
        of = s.longest(words["sums"], share[1])
        return (("number", float(share[0].split()[1])), share[1]) if of and of[0] == "of" else None  # "half of 90"
    word, end = s.words[i], i + 1
    if found := re.fullmatch(r"(\d{1,4})/(\d{1,4})", word):
        return (("number", int(found[1]) / int(found[2])), end) if int(found[2]) else None
    while re.fullmatch(r"\d{1,3}", word) and end < len(s.words) and re.fullmatch(r"\d{3}", s.words[end]):
        word, end = word + s.words[end], end + 1  # "1 250"
        if s.raw[s.starts[end - 1] - 1] != " ":
            return None
    plain = word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    if found := re.fullmatch(r"(-?\d{1,12}(?:[.,]\d{1,6})?)(%)?", plain):
        value, is_percent = float(found[1].replace(",", ".")), found[2] is not None
    else:
        value, end = _read_number_words(s.words[i : i + 2], i, words["numbers"])
        is_percent = False
    sign = s.longest(words["sums"], end) if value or found else None
    if sign and sign[0] == "%" and not is_percent:
        is_percent, end = True, sign[1]
    return (("percent" if is_percent else "number", value), end) if value or found else None


def _read_number_words(said: Sequence[str], i: int, numbers: Mapping[str, Any]) -> tuple[float, int]:
    """What one or two words at `i` count, and where they end; 0 for nothing, also for "half" alone."""
    if len(said) > 1 and said[0] in numbers and said[1] in numbers and (value := parse_amount(" ".join(said), numbers)):
        return value, i + 2
    number = numbers.get(said[0], 0)
    return (0.0 if isinstance(number, float) else float(number)), i + 1


def _name_meanings(table: Mapping[str, str]) -> Mapping[str, str]:
    """The first word for each meaning: of a part of a sum, or of a unit."""
    return {meaning: phrase for phrase, meaning in reversed([*table.items()])}


def _work_out(text: str, s: Sentence, terms: Terms, book: SumBook, last: Sum | None, *, is_sum: bool) -> Sum | None:
    """The sum in a text; `is_sum`: the classifier is sure that it is one."""
    words = book.words
    is_sum = is_sum and (s.asks or s.words[0] not in words["tells"])  # not "I sold 20 percent"
    is_told = terms.kinds[:1] == ["split"] and s.words[0] in words["sums"]
    asks = terms.is_whole or is_sum or is_told or "ask" in terms.ops or bool(_ASKS.search(text))
    if bracketed := _BRACKETS.search(_TIMES_SIGN.sub("*", text)):
        return _evaluate(bracketed[0], bracketed[0]) if asks else None
    if asks:
        priced = {word for word, meaning in words["sums"].items() if meaning in {"price", "each"}} | {*words["at"]}
        prices = (word for before, word in pairwise(s.words) if before in priced)  # "340 litros a 1,42"
        is_paid = bool(terms.paid) or any(map(_PRICE.fullmatch, prices))
        is_asked = "ask" in terms.ops or (is_paid and s.words[0][0].isdigit())
        forms = (
            _share_out(terms) or _answer_form(terms, words, is_paid=is_paid) or _take_off(terms, words, is_paid=is_paid)
        )
        if found := forms or (_add_prices(terms, is_paid=is_paid) if is_asked else None):
            return found
    is_dated = any(book.times.read_date(s.words[i : i + 8])[1] for i in range(len(s.words)))
    is_of_days = is_dated or "what" in s.list_values(words["dates"])  # "what day is it in a week"
    if not is_of_days and (found := _convert(terms, words, last, is_whole=terms.is_whole or is_sum)):
        return found
    plain = [token for token in terms.tokens if token not in (("op", "ask"), ("op", "in"), ("op", "span"))]
    plain = [one for one, then in pairwise([*plain, ("", "")]) if one != ("op", "price") or then[0] != "percent"]
    is_more = plain[:1] == [("op", "&")]
    plain = plain[is_more:]  # "and divided by 8?"
    if last and last.percent is not None and is_more and [kind for kind, _ in plain] in (["number"], ["percent"]):
        return _tell_share(terms.values[0], last.whole, words) if terms.is_whole else None  # "and 20 %?"
    if last and last.percent is not None and plain[:1] == [("op", "of")] and terms.shape == "n" and len(plain) == 2:
        return _tell_share(last.percent, terms.values[0], words)  # "and of 120?"
    goes_on = last is not None and _goes_on(plain)
    if "ask" in terms.ops:  # "12,50 de terreau plus 8 de graines"
        kinds = [*(kind for kind, _ in plain), ""]
        plain = [one for n, one in enumerate(plain) if one != ("op", "of") or kinds[n + 1] in _KINDS]
    is_asked = "ask" in terms.ops and _SIGNS.issuperset(value for kind, value in plain if kind == "op")
    if terms.is_whole or goes_on or is_asked:
        chain = [("op", "+") if token == ("op", "&") else token for token in plain]
        if found := _calculate(chain, last, words):
            return found
    # what stands beside the numbers is passed over, and no number is
    return _calculate([token for token in plain if token[0] != "unit"], None, words) if is_sum else None


# Sums that are plain whatever stands around them.


def _answer_form(terms: Terms, words: WordTables, *, is_paid: bool) -> Sum | None:
    """A discount, a share, a power, an area, from one hour to another."""
    ops, values = terms.ops, terms.values
    if "sum" in ops <= {"sum", "&", "+", "in", "ask"} and re.fullmatch("nn+", terms.shape):
        return _tell(" + ".join(f"{value:.12g}" for value in values), sum(values))
    if box := _measure_box(terms, words):
        return box
    match terms.shape, values:
        case "n", [value] if "root" in ops and value >= 0:
            return _tell(f"√{value:g}", math.sqrt(value))
        case "%n", [percent, whole] if "off" in ops:
            return _tell(f"{whole:g} - {percent:g} %", whole * (1 - percent / 100))
        case "%n", [percent, whole] if ops - {"ask", "in"} == {"of"}:
            return _tell_share(percent, whole, words)
        case "cn", [clock, price] if is_paid and "ask" in ops and ops & {"price", "each"}:
            return _tell(f"{_name_clock(clock)} × {price:g}", clock / 60 * price)  # "7:30 at 42 euros, how much?"
        case "cc", [first, last] if ops & {"span", "ask"}:
            length = format_duration((last - first) % 1440 * 60, exact=True)
            return Sum(f"{_name_clock(first)} - {_name_clock(last)}: {length}")
        case "nn", [less, whole] if terms.line().removeprefix("- ") == "number from number":
            return _tell(f"{whole:g} - {less:g}", whole - less)
        case "nn", [one, other] if (unit := _find_rate_unit(terms)) is not None:
            return _tell(f"{one:g} × {other:g}", one * other, _name_meanings(words["factors"]).get(unit, ""))
        case "nnn", [one, each, other] if each and "ask" in ops and _RATE_OF_SEVERAL.fullmatch(terms.line("ask", "&")):
            name = _name_meanings(words["factors"]).get(terms.units[0], "")
            is_alike = terms.units[1] == terms.units[2]
            return _tell(f"{one:g} / {each:g} × {other:g}", one / each * other, name) if is_alike else None
        case "nn", [one, other] if terms.line("ask") in _EACH:  # "12 pots need 0.5 litres each"
            return _tell(f"{one:g} × {other:g}", one * other, _name_meanings(words["factors"])[terms.units[0]])
        case "nn", [one, other] if "multiply" in ops or _is_price(terms, is_paid=is_paid):
            return _tell(f"{one:g} × {other:g}", one * other)
        case "nn", [base, power] if "power" in ops and power in range(_MAX_POWER + 1) and abs(base) <= _MAX_BASE:
            value = int(base) ** int(power) if base == int(base) else base**power
            return Sum(f"{base:g} {_name_meanings(words['sums'])['power']} {power:g} = {value}", float(value))
        case "nn", [part, whole] if whole and "%" in ops and ops - {"%", "in", "ask", "from"} in ({"of"}, {"among"}):
            told = _tell(f"{part:g} / {whole:g}", 100 * part / whole)
            return told and told._replace(text=f"{told.text} %")  # "34 out of 42 as a percentage"
        case "nn", [one, other] if "area" in ops and (ops & {"*", "by"} or ("&" in ops and terms.units)):
            lengths = {unit for unit in terms.units if unit.startswith("length")}
            square = _SQUARES.get(lengths.pop(), "") if len(lengths) == 1 else ""
            return _tell(f"{one:g} × {other:g}", one * other, square)
    return None


def _name_clock(minutes: float) -> str:
    return f"{int(minutes) // 60}:{int(minutes) % 60:02}"


def _find_rate_unit(terms: Terms) -> str | None:
    """The unit of what is so much for each of another one, "35 ml per litre and a 9 litre can"; '' for none, None for no rate."""
    line = terms.line("ask", "&", "of", "in", "each", "price").removeprefix("among ")  # "auf der Packung"
    found = _RATE.match(_PER.sub("per ", line))
    if not found:
        return None
    units = terms.units
    named = "unit" in (found[1] or found[2])
    rate = units[0] if found[1] else units[-2]
    whole, each = (units[-1], units[int(named)]) if found[1] else (units[-2 - named], units[-1])
    return (rate if named else "") if whole == each else None


def _is_price(terms: Terms, *, is_paid: bool) -> bool:
    """Whether it is told how many, and what one costs: "14 bags at 3.79 each", "27 boxes times 4 beans each"."""
    ops, units, line = terms.ops, terms.units, terms.line("ask", "&").removeprefix("in ")
    if line.startswith("number * number") and ops <= {"*", "each", "ask"}:
        return True
    is_bought = {"buy", "ask", "in"} <= ops and "&" not in ops
    is_told = is_bought or {"price", "ask"} <= ops or "each" in ops or ("ask" in ops and "number of number" in line)
    is_told |= is_paid and _PRICED.fullmatch(line) is not None
    is_one_unit = is_paid and len(units) == 1 and not units[0].startswith("time ")
    fits = not units or is_one_unit or (len(units) == 2 and units[0] == units[1])  # "3 kilos at 2.50 a kilo"
    is_else = terms.asks_each or 1 in terms.values  # "an e-mail to say that I come at 18 h"
    return is_told and fits and not is_else and ops <= {"buy", "price", "ask", "in", "&", "each", "of"}


def _measure_box(terms: Terms, words: WordTables) -> Sum | None:
    """What a box holds by its sides: "how many litres are in a tank of 1.2 m by 0.8 m by 0.35 m?"."""
    marks = {"*": "by", "by": "by", "among": "by"} | {unit: unit.split()[0] for unit in terms.units}
    line = "".join(
        f"{marks.get(str(value if kind in {'op', 'unit'} else kind), kind)} " for kind, value in terms.tokens
    )
    found, volumes = _SIDES.search(line), {unit for unit in terms.units if unit.startswith("volume ")}
    if not found or len(volumes) != 1:
        return None
    begin = line[: found.start()].count(" ")
    within = terms.tokens[begin : begin + found[0].count(" ")]
    sides = [float(value) for kind, value in within if kind == "number"]
    lengths = {str(value) for kind, value in within if kind == "unit"}
    if len(lengths) != 1:
        return None
    (length,), (volume,), names = lengths, volumes, _name_meanings(words["factors"])
    litres = 1000 * math.prod(side * float(length.split()[1]) for side in sides)
    shown = f"{' × '.join(f'{side:g}' for side in sides)} {names[length]}"
    return _tell(shown, litres / float(volume.split()[1]), names[volume])


def _share_out(terms: Terms) -> Sum | None:
    """What each gets: "47 euros split in three", "we are 5 and share 82", "60 euros and 4 of us, how much each?"."""
    tokens = terms.tokens
    numbers = [i for i, (kind, value) in enumerate(tokens) if kind == "number" and value != 1]  # not "a bill of 60"
    if len(numbers) != 2 or {"percent", "clock"}.intersection(terms.kinds):
        return None
    split = terms.kinds.index("split") if "split" in terms.ops else None
    if split is None and not terms.asks_each:
        return None
    i, j = numbers
    whole, by = float(tokens[i][1]), float(tokens[j][1])
    if len(terms.paid) == 1 and "ask" in terms.ops:
        whole, by = (whole, by) if terms.paid[0] == whole else (by, whole)
    elif split is None or not ("ask" in terms.ops or _DIVIDES.intersection(terms.kinds[i + 1 : j])):
        return None
    elif i < split < j and terms.kinds[j - 1] not in _DIVIDES:
        whole, by = by, whole
    return _tell(f"{whole:g} / {by:g}", whole / by) if by > 0 else None


def _leave_rest(terms: Terms) -> Sum | None:
    """What is left over where each gets as many: "if I split 28 into teams of 5, how many are left over?"."""
    if terms.shape != "nn" or any(value < 1 or value % 1 for value in terms.values):
        return None
    whole, by = map(int, terms.values)
    return Sum(f"{whole} = {whole // by} × {by} + {whole % by}", float(whole % by))


def _take_off(terms: Terms, words: WordTables, *, is_paid: bool) -> Sum | None:
    """A price with a discount, or with a tax: "a bag is 3.90, how much are seven with 10 % off?"."""
    percents = [float(value) for kind, value in terms.tokens if kind == "percent"]
    is_added = ("op", "+") in (before for before, (kind, _) in pairwise(terms.tokens) if kind == "percent")
    if not (is_added or "off" in terms.ops) or len(percents) != 1 or len(terms.values) < 3:
        return None
    dropped = ("op", "+" if is_added else "off")
    rest = Terms([one for one in terms.tokens if one[0] != "percent" and one != dropped], is_whole=terms.is_whole)
    full = _answer_form(rest, words, is_paid=is_paid) or _add_prices(rest, is_paid=is_paid)
    if full is None or full.value is None:
        return None
    sign, share = ("+", percents[0]) if is_added else ("-", -percents[0])
    return _tell(f"{full.text.partition(' = ')[0]} {sign} {percents[0]:g} %", full.value * (1 + share / 100))


def _add_prices(terms: Terms, *, is_paid: bool) -> Sum | None:
    """What several things cost, so many of each: "4 at 6.90 and 2 at 3, how much?"."""
    passed, values = {"&", "of", "buy"}, terms.values
    line = terms.line(*passed, *(() if is_paid else ("in", "price")))
    line = re.sub(r"\b(?:in|price) (?=number)", "each ", line)  # "3 cajas a 12,50"
    line = re.sub(r"\b(?:in|price) ", "", f"{line} ")
    if terms.ops - {"each", "ask", "in", "price", *passed} or not _PRICES.fullmatch(line):
        return None
    parts = [*zip(values[::2], values[1::2], strict=True)]
    return _tell(" + ".join(f"{n:g} × {one:g}" for n, one in parts), sum(n * one for n, one in parts))


def _goes_on(tokens: list[Token]) -> bool:
    """Whether one more number is added to the answer before, or taken from it, whatever stands beside it; "10 % less" is turned."""
    if tokens[2:] == [("op", "of")]:
        del tokens[2]  # "moins 22 % de charges"
    kinds = [kind for kind, _ in tokens]
    if kinds in (["number", "op"], ["percent", "op"]) and tokens[1][1] in {"+", "-"}:
        tokens.reverse()
    elif kinds[-1:] == ["number"] and {("op", "split"), ("op", "among")}.issuperset(tokens[:-1]) and len(tokens) > 1:
        tokens[:-1] = [("op", "/")]
    is_sign = tokens[:1] != [] and tokens[0][0] == "op" and tokens[0][1] in _SIGNS
    return is_sign and [kind for kind, _ in tokens[1:]] in (["number"], ["percent"])


def _calculate(tokens: Sequence[Token], last: Sum | None, words: WordTables) -> Sum | None:
    """A chain of + - * /, which may go on with the answer before."""
    if last and last.value is not None and tokens and tokens[0][0] == "op" and tokens[0][1] in _SIGNS:
        tokens = [("number", last.value), *tokens]
    if last and last.value is not None and tokens and tokens[-1] == ("op", "of"):  # "half of that"
        tokens = [*tokens, ("number", last.value)]
    shape = "".join({"number": "n", "percent": "%", "op": "o"}.get(kind, "?") for kind, _ in tokens)
    values = [value for _, value in tokens]
    if shape in {"non", "%on"} and values[1] == "of":
        meanings = _name_meanings(words["sums"])
        if shape == "%on":
            return _tell_share(values[0], values[2], words)
        share = meanings.get(f"share {values[0]!r}")
        return _tell(f"{share} {meanings['of']} {values[2]:g}", values[0] * values[2]) if share else None
    if not re.fullmatch(r"n(o[n%])+", shape) or not _SIGNS.issuperset(values[1::2]):
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


def _tell_share(percent: float, whole: float, words: WordTables) -> Sum | None:
    told = _tell(f"{percent:g} % {_name_meanings(words['sums'])['of']} {whole:g}", percent / 100 * whole)
    return told._replace(percent=percent, whole=whole) if told else None


def _format_number(value: float) -> str:
    return f"{value:.{4 if abs(value) < 1 else 2}f}".rstrip("0").rstrip(".")


_FOOT, _INCH = "length 0.3048", "length 0.0254"


def _convert(terms: Terms, words: WordTables, last: Sum | None, *, is_whole: bool) -> Sum | None:
    """A number of one unit in another; a number alone counts 1, as in "minutes in a week"."""
    amounts, units, kinds = _join_lengths(terms)
    goes_on = last is not None and last.into != "" and terms.is_whole and units in ([], [last.unit])  # "and 25?"
    joins = "&" in kinds and not (goes_on and kinds[0] == "&")
    if (
        len(amounts) > 1
        or (amounts and "per" in kinds)
        or {"percent", "clock", *_SIGNS}.intersection(kinds)
        or (amounts and joins)
    ):
        return None
    pairs = {*pairwise(kinds)}
    if "ask" not in kinds and pairs >= {("unit", "of"), ("of", "unit")}:
        return None  # "what day of the week is the 24th"
    if not is_whole and (not amounts or pairs.isdisjoint({("in", "unit"), ("ask", "unit")})):
        return None  # the other words may mean anything
    if goes_on and amounts and last:
        amount, source, target = amounts[0], last.unit, last.into
    elif len(units) == 1 and last and last.unit and not amounts:
        amount, source, target = last.amount, last.unit, units[0]
    elif len(units) == 2:
        is_asked_first = "number" not in kinds or kinds.index("unit") < kinds.index("number")
        source, target = reversed(units) if is_asked_first else units
        amount = amounts[0] if amounts else 1.0
    else:
        return None
    (what, factor, *zero), (other, into, *other_zero) = (unit.split() for unit in (source, target))
    if what != other or source == target:
        return None
    base = amount * float(factor) + float(zero[0] if zero else 0)
    value = (base - float(other_zero[0] if other_zero else 0)) / float(into)
    shown = " = ".join(
        f"{_format_number(number)} {_name_unit(words['factors'], unit, number)}"
        for unit, number in ((source, amount), (target, value))
    )
    return Sum(shown, value, source, target, amount)


def _join_lengths(terms: Terms) -> tuple[list[float], list[str], list[str]]:
    """The numbers, units and kinds of parts; "5 feet 10" and "3 pieds 4 pouces" as one number."""
    numbers = [value for value, shape in zip(terms.values, terms.shape, strict=True) if shape == "n"]
    units, kinds = terms.units, terms.kinds
    if len(numbers) == 2 and len(units) in {2, 3} and kinds[:3] == ["number", "unit", "number"]:
        inner = units[1] if len(units) == 3 and kinds[3:4] == ["unit"] else {_FOOT: _INCH}.get(units[0], "")
        if inner and units[0] != inner and inner.split()[0] == units[0].split()[0]:
            ratio = float(inner.split()[1]) / float(units[0].split()[1])
            return [numbers[0] + numbers[1] * ratio], [units[0], units[-1]], ["number", "unit", "in", "unit"]
    return numbers, units, kinds


def _name_unit(factors: Mapping[str, str], unit: str, amount: float) -> str:
    """The word for a unit, of one or of several."""
    name = _name_meanings(factors)[unit]
    if amount != 1:
        return next((one for ending in ("s", "es", "e", "n") if (one := name + ending) in factors), name)
    single = [word for word, meaning in factors.items() if meaning == unit and word[-1:] != "s"]
    return max((word for word in single if word[:-1] not in single), key=len, default=name)  # "wochen" of "woche"


# Days.

_FEAST = pattern(r"(easter|advent)([+-]\d+)?")
_ENDS = frozenset({"week", "month", "year"})
_DAYS_OF_WEEK = {"weekend": {5, 6}, "weekday": {0, 1, 2, 3, 4}, **{day: {n} for n, day in enumerate(WEEKDAYS)}}
_BESIDE_DAY = ("filler", "polite", "ignore", "tail", "lead", "sum_filler")
_BESIDE_CLOCK = ("sum_filler", "plain", "polite", "ignore")


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
    today, is_past = now.date(), "past" in said
    if told in _ENDS:
        first = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
        ends = {"week": today + timedelta(days=6 - today.weekday()), "year": today.replace(month=12, day=31)}
        return ends.get(told, first - timedelta(days=1))
    if told[0] in "+-":
        return today + timedelta(days=int(told))
    if told in WEEKDAYS:
        apart = WEEKDAYS.index(told) - today.weekday()
        return today + timedelta(days=-(-apart % 7 or 7) if is_past else apart % 7 or 7)
    year_said = next((int(one) for one in told.split() if len(one) == 4 and one.isdecimal()), 0)
    year_said = year_said or ("next" in said and today.year + 1) or ("this" in said and today.year)
    for day in _iter_days(told, year_said, today, -1 if is_past else 1):
        if year_said or (day <= today if is_past else day >= today):
            return day
    return None


def _iter_days(told: str, year_said: int, today: date, step: int) -> Iterator[date]:
    """The days of that name, of a year or of each, a month for "14", from now on or back."""
    feast, (number, *names) = _FEAST.fullmatch(told), told.split()
    is_monthly = not feast and (not names or names[0] not in MONTHS)
    for n in range(100):
        year, month = divmod(12 * today.year + today.month - 1 + n * step * (1 if is_monthly else 12), 12)
        year = year_said or year
        with suppress(ValueError):  # the 31st of each month
            if feast:
                compute_feast = _compute_easter if feast[1] == "easter" else _compute_fourth_advent
                yield compute_feast(year) + timedelta(days=int(feast[2] or 0))
            else:
                yield date(year, month + 1 if is_monthly else MONTHS.index(names[0]) + 1, int(number))


def _answer_clock(s: Sentence, book: SumBook, now: datetime) -> Sum | None:
    """How long it is until a time of day ("how long till 7"), or what time it is "in 3 hours"; None where it asks more."""
    words, asked, i, ahead = book.words, "", 0, 0.0
    while i < len(s.words):
        hit = s.longest(words["dates"], i)
        if hit and hit[0] in {"long", "clock"}:
            asked, i = hit
        elif asked == "clock" and (span := _read_ahead(book.times, s.words[i:])):
            ahead, i = span[0], i + span[1]
        elif asked and (until := s.end_of(words["until"], i)):
            at = [] if s.end_of(words["at"], until) else next(iter(words["at"])).split()
            rest = [*at, *s.words[until:]]
            clocks = (value["at"] for value, count in book.times.once(rest, "") if "at" in value and count == len(rest))
            clock = next(clocks, "")
            return _tell_until(clock, now) if clock else None
        elif end := max(s.end_of(words[name], i) for name in _BESIDE_CLOCK):
            i = end
        else:
            return None
    return _tell_until(f"{now + timedelta(seconds=ahead):%Y-%m-%d %H:%M}", now, is_clock=True) if ahead > 0 else None


def _read_ahead(times: TimeReader, near: Sequence[str]) -> tuple[float, int] | None:
    """The seconds of "in 3 hours", and how many words say so."""
    return next(((one["at_seconds"], count) for one, count in times.once(near, "") if "at_seconds" in one), None)


def _tell_until(at: str, now: datetime, *, is_clock: bool = False) -> Sum | None:
    try:
        end = parse_moment(at, now)
    except ValueError:
        return None
    told = f"{end:%H:%M}" if end.date() == now.date() else f"{end:%Y-%m-%d %H:%M}"
    length = format_duration((end - now).total_seconds(), exact=True)
    return Sum(f"{told} ({length})" if is_clock else f"{length} ({told})")


class _DayReader:
    """The days that a text names, and what else it says."""

    def __init__(self, s: Sentence, book: SumBook, now: datetime) -> None:
        self._s, self._words, self._times, self._now = s, book.words, book.times, now
        self.weekdays: list[str] = []
        self.said: set[str] = set()
        """What is asked ("count", "weeks", "what"), of which days ("past", "next"), and "more" where it says more; "range"
        where so much stands around "this week" that it is no day."""
        self._dates: list[str] = []
        self._feasts: list[str] = []
        self._lengths: list[str] = []
        self.is_of_days, left, i = True, 0, 0
        readings = (self._read_date, self._read_ago, self._read_length, self._read_word, self._read_day)
        while i < len(s.words):
            end = next(filter(None, (read(i) for read in readings)), 0)
            if not end and s.words[i][0].isdigit():
                self.is_of_days = False  # of something else
                return
            if not end and not any(s.longest(self._words[name], i) for name in _BESIDE_DAY):
                self.said.add("more")
                left += 1
            i = end or i + 1
        if left > 1 and not self._dates and _ENDS.issuperset(self._feasts):
            self.said.add("range")  # "was it colder this week than at the weekend?"
        if "when" in self.said and not self._feasts:
            self.said.add("more")
        is_of_year = "this" in self.said and not ("what" in self.said or s.holds(self._words["until"]))
        if is_of_year and not (self._dates or self._feasts or self._lengths or self.weekdays):
            self._feasts = ["year"]

    def list_days(self) -> list[date]:
        """The days that are named by a date, or by what lies between; none where one is none."""
        dates = self._dates or self._feasts  # "the holidays, on 13 May"
        found = [_place(one, self._now, self.said) for one in dates or self._lengths]
        if "what" in self.said and self._lengths and len(dates) + len(self._lengths) > 1 and len(dates) < 2:
            apart = timedelta(days=sum(map(int, self._lengths)))  # "two weeks from tomorrow", "a week before christmas"
            first = found[0] if dates else self._now.date()
            is_back = dates and self._s.holds(self._words["back"])
            found = [first and first + (-apart if is_back else apart)]
        days = [day for day in found if day]
        return days if len(days) == len(found) else []

    def _read_date(self, i: int) -> int:
        near = self._s.words[i : i + 8]
        named, size = self._times.read_date(near)
        if not size and near[0] in self._words["on"] and near[1:] and near[1].isdecimal():  # "qué día es el 24"
            named, size = self._times.read_date([near[0], "dia", *near[1:]])
            size -= size > 0
        if not size or self._s.end_of(self._words["dates"], i) > i + size:
            return 0
        self._dates.append(named)
        return i + size

    def _read_ago(self, i: int) -> int:
        for value, count in self._times.past(self._s.words[i : i + 8]):
            if value.endswith(" ago"):
                with suppress(ValueError):  # "0 days ago"
                    begin = parse_range(value, self._now).begin
                    self._lengths.append(f"{(begin.date() - self._now.date()).days:+}")
                    self.said.add("past")
                    return i + count
        return 0

    def _read_length(self, i: int) -> int:
        seconds, count = _read_ahead(self._times, self._s.words[i : i + 8]) or (0.0, 0)
        behind = self._s.longest(self._words["dates"], i + 1)
        is_later = behind is not None and behind[0][0] in "+-"  # "the day after tomorrow"
        if seconds % _DAY_S or count < 2 or is_later:
            return 0
        self._lengths.append(f"{int(seconds // _DAY_S):+}")
        return i + count

    def _read_word(self, i: int) -> int:
        """What is asked, and holidays, ends and lengths that have a name."""
        told, end = self._s.longest(self._words["dates"], i) or ("", 0)
        if told[:1].isalpha() and told not in _ENDS and not _FEAST.fullmatch(told):
            self.said.update(told.split())
        elif told:
            (self._lengths if told[0] == "+" else self._feasts).append(told)
        return end

    def _read_day(self, i: int) -> int:
        """A day of the week, "tomorrow" and "today"."""
        told, end = self._s.longest(self._words["days"], i) or ("", 0)
        *more, name = told.split() or [""]
        midnight = self._now.replace(hour=0, minute=0)  # so that none of these days is past
        ahead = (parse_moment(f"{told or 'today'} 12:00", midnight).date() - midnight.date()).days if end else 0
        if name in WEEKDAYS and more in ([], ["next"], ["following"]) and not (more and ahead > len(WEEKDAYS)):
            self.weekdays.append(name)
            self.said.update(more[:1] and ["next"])
        elif end:
            self._lengths.append(f"+{ahead}")
        return end


def _answer_day(text: str, book: SumBook, now: datetime, last: date | None) -> Sum | None:
    """What date a day is, and how long it is until then or has been since, by whatever words it is asked."""
    s, say, today = Sentence(text, book.words), book.say, now.date()
    read = _DayReader(s, book, now)
    if not read.is_of_days:
        return None
    days, weekdays, said = read.list_days(), read.weekdays, read.said
    trusts = book.find_topic(text) == "calendar"
    is_question = s.asks or not book.words["questions"].keys().isdisjoint(s.words[:1])
    asks = not said.isdisjoint({"count", "weeks", "what", "number", "weekend", "weekday"})
    asks_more = ("long" in said and (days or last)) or ("when" in said and "more" not in said)  # "when is easter?"
    goes_on = last is not None and "more" not in said and (days or len(weekdays) == 1)  # "and easter?"
    if not (trusts or asks or asks_more or goes_on or (days and weekdays and is_question)):
        return None
    if "number" in said:
        later = 7 * ("next" in s.list_values(book.words["behind_day"]))  # "next week"
        year, week, _ = (days[0] if days else today + timedelta(later)).isocalendar()
        return Sum(fill_fields(say["week_number"], {"week": week, "year": year}))
    asked = [*weekdays, *(said & {"weekend", "weekday"})]
    is_named = len(asked) > 1 and not trusts
    if not days and last and "what" in said:
        days, asked = [last], weekdays
    if not days and len(weekdays) == 1 and ("what" in said or trusts or goes_on):
        days, asked = [day for day in [_place(weekdays[0], now, said)] if day], []
    if not days and asked and (trusts or (is_question and "more" not in said)):
        days = [today]  # not "is there a market at the weekend?"
    if not days and last and said & {"count", "weeks", "what", "long"}:
        days = [last]
    if len(days) == 2:
        return _tell_between(days[0], days[1], say, weeks="weeks" in said)
    if len(days) != 1 or is_named:
        return None
    (day,) = days
    if "what" in said and len(weekdays) == 1 and day > today and (day - today).days % 7 == 0:  # "monday in two weeks"
        day, asked = day + timedelta(days=(WEEKDAYS.index(weekdays[0]) - day.weekday()) % 7), []
    told = {"date": day, "weekday": WEEKDAYS[day.weekday()].capitalize()}
    counts = not said.isdisjoint({"count", "weeks", "long"})
    if len(asked) == 1 and said.isdisjoint({"count", "weeks", "what"}):
        holds = day.weekday() in _DAYS_OF_WEEK[asked[0]]
        answer = f"{say['yes' if holds else 'no']} {fill_fields(say['is_day'], told)}"
        return Sum(answer, day=day) if "range" not in said else None
    if day == today:
        return None  # the clock tells it
    if day < today and not counts:
        return Sum(f"{told['weekday']} {day}", day=day)
    length = _name_length(abs((day - today).days), say, weeks="weeks" in said)
    return Sum(f"{length}: {fill_fields(say['is_day'], told)}", day=day)


def _tell_between(first: date, other: date, say: Mapping[str, str], *, weeks: bool) -> Sum:
    if first > other:
        first = first.replace(year=first.year - 1, day=min(first.day, 28 if first.month == 2 else 31))
    length = _name_length((other - first).days, say, weeks=weeks)
    return Sum(fill_fields(say["between_dates"], {"days": length, "first": first, "other": other}))


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
