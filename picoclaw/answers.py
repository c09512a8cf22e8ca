"""What is looked for in a model's answer: what nothing said or measured before bears out, and the same over and over.

Of measurements and promises: deterministic, and rather silent than wrong: only a value that is told as being so here and now, because that was asked
or because the sentence says it, and of which no limit, wish or general count is told.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from picoclaw.messages import ERROR_PREFIX, Message, ToolCall, strip_context
from picoclaw.text import pattern

_QUANTITY = r"temperature|temperatur|humidity|moisture|pressure|light|illuminance|brightness|voltage|current|power|co2"
_UNIT = (
    r"°\s?[CF]\b|degrees?(?: (?:celsius|fahrenheit))?\b|celsius\b|fahrenheit\b|%|percent\b"
    r"|hPa\b|mbar\b|lx\b|lux\b|ppm\b|m?V\b|m?A\b|m?W\b|mph\b|km/h\b|m/s\b|knots\b"
)
_VALUE_PATTERN = rf"(?<![\w.,:-])(?P<number>-?\d+(?:[.,]\d+)?)\s?(?P<unit>{_UNIT})"
_VALUE = pattern(_VALUE_PATTERN, re.IGNORECASE)
_SUBJECT = pattern(rf"\b(?:{_QUANTITY}|warm|cold|hot|humid|it)\b", re.IGNORECASE)
_STATING_WORD = pattern(r"\b(?:is|are|was|reads?|at|shows?|currently|now)\b|[:=]", re.IGNORECASE)

_AIR_QUANTITY = r"(?:temperature|humidity|pressure|light|illuminance|brightness|co2)(?: levels?)?"
_PLACE = r"(?:(?: (?:in|at|on|inside|outside) (?:the |my |your |this )?\w+| here| inside| outside| now){0,2})"
_PRESENT_STATEMENT = pattern(
    r"\b(?:currently|right now|at the moment|just now)\b"
    rf"|\b(?:the|current|air|room|and) {_AIR_QUANTITY}{_PLACE} (?:now |currently )?(?:is|reads|=)"
    rf"|^\W*(?:current )?{_AIR_QUANTITY}{_PLACE}(?::| is\b| =)"
    rf"|\bit(?:'s|’s| is) (?:now )?(?:{_VALUE_PATTERN.replace('?P<number>', '?:').replace('?P<unit>', '?:')})"
    r"(?: (?:warm|cold|hot))? (?:in|at|on|inside|outside|here|there)\b",
    re.IGNORECASE,
)
"""How a sentence says by itself that it is about here and now."""

_MEASUREMENT_QUESTION = pattern(
    rf"\b(?:{_QUANTITY}|warm|hot|cold|cool|humid|damp|wet|dry|bright|dark|freezing|degrees|celsius|fahrenheit|sensors?"
    r"|measure|reading)\b",
    re.IGNORECASE,
)
_GENERAL_QUESTION = pattern(
    r"\b(?:an|one|two|three|four|five|ten|fifteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
    r"|(?:in|for|of|is|are|has|have|does|can) a|logic|supply|usb|gpio|pins?|rain|chance|forecast|tomorrow|yesterday"
    r"|throttl\w*|convert\w*|how many|right angle|fridge|freezer|refrigerator|sun|moon|earth|sea|ocean|space|mars)\b",
    re.IGNORECASE,
)

_GENERAL_STATEMENT = pattern(
    r"\b(?:ideal\w*|optim\w+|should|shall|usual\w*|typical\w*|general\w*|average|normal\w*|recommend\w*|standard"
    r"|absolute|ranges?|max\w*|min\w*|limits?|thresholds?|would|could|can|may|might|e\.g|example|such as|freez\w*"
    r"|boil\w*|melt\w*|point|zero|sea level|tolerates?|likes?|prefers?|needs?|best|good for|accura\w+|body|power[- ]on"
    r"|plus or minus|throttles?|chance|rated|differ\w*|warmer|colder|cooler|hotter|higher|lower|mean|rose|fell"
    r"|dropped|rise|fall)\b|±|\d\s?[-–—]\s?\d|\bto -?\d",
    re.IGNORECASE,
)
"""What makes the part of a sentence around a value one about something else than what is so."""

_CONDITIONAL = pattern(
    r"\b(?:if|when|until|unless|remind\w*|between|above|below|over|under|more than|less than|at least|at most|up to"
    r"|about to|from(?=\s*(?:-?\d|$)))(?!\w)",
    re.IGNORECASE,
)
"""The same, where it stands before the value."""

_SENTENCE = pattern(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = pattern(r"[,;(]\s|\swhich\s|\s[-–—]\s", re.IGNORECASE)
_CLOCK = pattern(r"\b\d{4}-\d\d-\d\d\b|\b\d\d?:\d\d(?::\d\d)?\b")
_NUMBER = pattern(r"-?\d+(?:[.,]\d+)?")
_PROMISE = pattern(
    r"\bI(?:['’]ll| will| am going to|['’]ve| have| just) (?:now |just |also |already )?(?:remind you\b(?! that you| of (?!it\b|this\b))|wake you|alert you"
    r"|notify you|let you know when|(?:remember|saved?|stored?|noted?) (?:it|that|this|the|your|down|for)\b|set (?:it|an?|the|your|up)\b"
    r"|scheduled? |cancell?ed |deleted? (?:it|that|the|your)|add(?:ed)? .{1,60}? to (?:your|the|my) (?:\w+ ){0,2}?(?:list|checklist|notes?|tasks?|reminders?|calendar)"
    r"|wr(?:ote|itten) (?:it|that|this) (?:down|in|to)|(?:switch|turn)(?:ed)? (?:it|on|off|(?:the|your) [\w-]+ (?:on|off))\b|(?:switch|turn)ed (?:it|the) )"
    r"|^(?:Noted|Saved|Reminder set|Timer set)\b(?= *[.!,:—-])",
    re.IGNORECASE | re.MULTILINE,
)
"""How a text says that something was kept, planned or switched, or will be."""

_NO_PROMISE_ASKED = pattern(
    r"\b(?:poem|story|song|letter|e-?mail|translat\w+|draft|joke|essay|lyrics|did you|have you|sentence|dialogue|say)\b",
    re.IGNORECASE,
)
_ROUNDED = 0.06
_JOINS = pattern(r"[:-](?=\d)")
_LETTERS = pattern(r"[a-z]+")
_NUMBER_WORDS = {
    "a": 1.0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "dozen": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "ninety": 90, "half": 30, "quarter": 15, "quarters": 15, "hour": 60, "hours": 60, "noon": 12, "midnight": 0,
}  # fmt: skip
"""Words for numbers, those of times in minutes."""
_SUM = pattern(
    rf"(?P<one>-?\d+(?:[.,]\d+)?) ?(?:{_UNIT})? ?(?P<sign>[-+*/×−–]) ?(?P<other>\d+(?:[.,]\d+)?) ?(?:{_UNIT})? ?= ?(?P<sum>-?\d+(?:[.,]\d+)?)",
    re.IGNORECASE,
)
_RAW_BYTES = pattern(r"\b(?:0x)?[0-9a-f]{2}(?:[ ,]+(?:0x)?[0-9a-f]{2}){3,}\b", re.IGNORECASE)
_MAX_BARE_WORDS = 3
_MILLI = 1000


def find_claims(text: str, asked: str = "how warm is it?") -> list[str]:
    """List the measurements that an answer claims, as it writes them; a bare value is one where one was asked for."""
    found = []
    for sentence in _SENTENCE.split(_CLOCK.sub("", text)):
        values = _find_current_values(sentence)
        if values and (
            _PRESENT_STATEMENT.search(sentence) or (_asks_for_measurement(asked) and _states_value(sentence))
        ):
            found += values
    return list(dict.fromkeys(found))


def find_unfounded_claims(answer: str, asked: str, shown: Iterable[Message], system: str = "") -> list[str]:
    """List the measurements claimed in an answer whose number stands in nothing that the model was shown, or rounded.

    Any number of a good result or of the owner's own words counts, of a message's head and the system text only one
    with a unit. Where it was `asked` with such a value, or bytes were read, the answer may be worked out from them.
    """
    question = strip_context(asked)
    values = [] if _VALUE.search(question) else find_claims(answer, question)
    texts = [m.text for m in shown if m.role != "assistant" and not m.text.startswith(ERROR_PREFIX)] if values else []
    told = [strip_context(text) for text in texts]
    if not values or any(map(_RAW_BYTES.search, told)):
        return []
    known = _list_known(texts, system) | set(_list_sums(answer))
    return [value for value in values if not _is_supported(value, known)]


def find_unfounded_values(text: str, shown: Iterable[Message], system: str = "") -> list[str]:
    """List the values with a unit, in what is to be kept, that stand in nothing that the model was shown."""
    values = list(dict.fromkeys(value[0] for value in _VALUE.finditer(_CLOCK.sub("", text))))
    texts = [m.text for m in shown if m.role != "assistant"] if values else []
    known = _list_known(texts, system) | set(_list_sums(text))
    return [value for value in values if not _is_supported(value, known)]


def _list_known(texts: Sequence[str], system: str) -> set[float]:
    """The numbers of results and of the owner's words; of heads and the system text only those with a unit."""
    told = [strip_context(text) for text in texts]
    beside = [system, *(text.removesuffix(own) for text, own in zip(texts, told, strict=True))]
    numbers = [number for text in told for number in _NUMBER.findall(_CLOCK.sub("", text))]
    numbers += [value["number"] for text in beside for value in _VALUE.finditer(_CLOCK.sub("", text))]
    return {float(number.replace(",", ".")) for number in numbers}


def _list_sums(text: str) -> Iterator[float]:
    """What arithmetic that is shown comes to, where it is right: 26.5 - 21 = 5.5."""
    for found in _SUM.finditer(text):
        one, other, told = (float(found[name].replace(",", ".")) for name in ("one", "other", "sum"))
        results = {"+": one + other, "*": one * other, "×": one * other, "/": one / other if other else one}
        if abs(results.get(found["sign"], one - other) - told) < _ROUNDED:
            yield told


def list_figures(text: str) -> list[str]:
    """The numbers of a text as it writes them, those of a time or a date one by one."""
    return _NUMBER.findall(_JOINS.sub(" ", text))


def list_number_words(text: str) -> list[float]:
    """The numbers that a text says in words, those of times in minutes."""
    return [_NUMBER_WORDS[word] for word in _LETTERS.findall(text.lower()) if word in _NUMBER_WORDS]


def find_unfounded_numbers(text: str, sources: Iterable[str]) -> list[str]:
    """List the numbers of a text that stand in none of its sources, as figures, in words, or in another unit of time."""
    told = [float(number.replace(",", ".")) for source in sources for number in list_figures(source)]
    told += [number for source in sources for number in list_number_words(source)]
    sums = [a + b for a in told for b in told]
    known = {0.0, 1.0, *told, *sums} | {one * by for one in (*told, *sums) for by in (60, 1 / 60, 0.5, 0.01)}
    known |= {60 - one for one in told} | {one + by for one in told for by in (12, -12, -1)}
    found = dict.fromkeys(list_figures(text))
    return [one for one in found if not any(abs(float(one.replace(",", ".")) - other) < 1e-6 for other in known)]


def find_promise(answer: str, asked: str) -> str:
    """What an answer says was done, or will be, that only a call can do; '' for none, and where it was to be written."""
    found = None if _NO_PROMISE_ASKED.search(strip_context(asked)) else _PROMISE.search(answer)
    return found[0] if found else ""


def _asks_for_measurement(question: str) -> bool:
    return bool(_MEASUREMENT_QUESTION.search(question)) and not (
        _GENERAL_QUESTION.search(question) or _GENERAL_STATEMENT.search(question)
    )


def _states_value(sentence: str) -> bool:
    """Whether a sentence says that something is so, or hardly more than a value, as in "1013.25 hPa"."""
    bare = len(_VALUE.sub("", sentence).split()) <= _MAX_BARE_WORDS
    return bare or bool(_SUBJECT.search(sentence) and _STATING_WORD.search(sentence))


def _find_current_values(sentence: str) -> list[str]:
    """List the values of which neither their part of the sentence nor what stands before tells something else."""
    before = _CONDITIONAL.search(sentence)
    limit = before.start() if before else len(sentence)
    cuts = [0, *(cut.end() for cut in _CLAUSE.finditer(sentence)), len(sentence)]
    parts = [part for part in pairwise(cuts) if part[0] < limit and not _GENERAL_STATEMENT.search(sentence, *part)]
    return [value[0] for part in parts for value in _VALUE.finditer(sentence, *part) if value.start() < limit]


def _is_supported(value: str, known: Iterable[float]) -> bool:
    """Whether a value is a known one, as precise as it is; in °F also where °C were told, in mV where V were."""
    text = _NUMBER.findall(value)[0].replace(",", ".")
    number, near = float(text), 0.51 * 10 ** -len(text.partition(".")[2])
    unit = value.lower().removeprefix(text).strip()
    factors: tuple[float, ...] = (1, 1 / _MILLI, _MILLI) if unit in {"v", "a", "w", "mv", "ma", "mw"} else (1,)
    return any(
        any(abs(number - other * factor) <= near for factor in factors)
        or ("f" in unit and abs(number - (other * 1.8 + 32)) <= near)
        for other in known
    )


# Notices when a model says or asks for the same over and over, which small ones do until a limit ends it.

REPEATS = "repeats"
"""Why an answer ended that was nothing but repetition."""

MAX_PHRASE = 500
MIN_REPEATED_CHARS = 1000
"""Characters of nothing but one phrase; a dump of a whole part's registers, all zeros, has 768."""

MIN_REPEATED_CHARS_IN_CODE = 4000
"""The same in code, in a table, and of words that were asked for: an array of zeros, "write it 100 times"."""

_MIN_TIMES = 3
_CHECK_EVERY_CHARS = 64
_SUFFIX_CHARS = 24
_FENCE = "```"
_WORD = pattern(r"\w+")
_ALTERNATING_CALLS = 5


class Repetition:
    """Feed it text as it comes; it tells where to stop. The place does not depend on the pieces."""

    def __init__(self, asked: str = "") -> None:
        """Begin with nothing said; `asked` is what the owner wants."""
        self._asked = frozenset(_WORD.findall(asked.lower()))
        self._tail = ""
        self._length = 0
        self._fenced = False
        self._line = ""

    def feed(self, text: str) -> int | None:
        """Take a piece; returns how much of it is said before it is nothing but repetition, None for all."""
        taken = 0
        while taken < len(text):
            step = text[taken : taken + _CHECK_EVERY_CHARS - self._length % _CHECK_EVERY_CHARS]
            taken += len(step)
            self._length += len(step)
            self._tail = (self._tail + step)[-MIN_REPEATED_CHARS_IN_CODE - _MIN_TIMES * MAX_PHRASE :]
            self._look(step)
            if self._length % _CHECK_EVERY_CHARS == 0 and self._is_stuck():
                return taken
        return None

    def _look(self, step: str) -> None:
        """Keep in mind whether the text is within a fence of code."""
        *lines, self._line = (self._line + step).split("\n")
        if sum(line.lstrip().startswith(_FENCE) for line in lines) % 2:
            self._fenced = not self._fenced
        self._line = self._line[:_CHECK_EVERY_CHARS]  # whether it is a fence stands at its beginning

    def _is_stuck(self) -> bool:
        again = count_repeated(self._tail)
        return again >= MIN_REPEATED_CHARS_IN_CODE or (again > 0 and not self._is_wanted(self._tail[-again:]))

    def _is_wanted(self, again: str) -> bool:
        """Whether what is said again and again is code, a table, or words that the owner said."""
        lines = again.split("\n")[1:-1]
        row = bool(lines) and all(line.lstrip().startswith("|") for line in lines)
        words = _WORD.findall(again.lower())[1:-1]
        return self._fenced or row or (bool(words) and self._asked.issuperset(words))


def count_repeated(text: str) -> int:
    """How many characters at the end of a text only repeat the phrase before them; 0 where none is stuck there."""
    before = text.rfind(text[-_SUFFIX_CHARS:], 0, len(text) - 1) if len(text) >= MIN_REPEATED_CHARS else -1
    phrase = len(text) - _SUFFIX_CHARS - before
    if before < 0 or phrase > MAX_PHRASE:
        return 0
    size = max(MIN_REPEATED_CHARS, _MIN_TIMES * phrase)
    if len(text) < size or text[len(text) - size + phrase :] != text[len(text) - size : len(text) - phrase]:
        return 0
    begin = len(text) - size
    while begin > 0 and text[begin - 1] == text[begin - 1 + phrase]:
        begin -= 1
    return len(text) - begin - phrase


def count_in_a_row(calls: Sequence[ToolCall], idle: Callable[[ToolCall], bool]) -> int:
    """How often the newest call was made without another between.

    Two `idle` ones, which do nothing to the world outside, that take turns count too, when they do so for the third
    time; a lamp may go on and off.
    """
    last = calls[-_ALTERNATING_CALLS:]
    alternate = all(_are_alike(one, other) for one, other in zip(last, last[2:], strict=False))
    if len(last) == _ALTERNATING_CALLS and alternate and all(map(idle, last[:2])):
        return len(last)
    others = (number for number, call in enumerate(reversed(calls)) if not _are_alike(call, last[-1]))
    return next(others, len(calls))


def _are_alike(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments, one.broken) == (other.name, other.arguments, other.broken)
