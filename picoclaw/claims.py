"""Measurements that a text claims, and those of them that nothing said or measured before bears out.

Deterministic, and rather silent than wrong: only a value that is told as being so here and now, because that was asked
or because the sentence says it, and of which no limit, wish or general count is told.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from picoclaw.messages import ERROR_PREFIX, Message
from picoclaw.text import pattern

_CONTEXT_END = "</moment>"
_QUANTITY = r"temperature|temperatur|humidity|moisture|pressure|light|illuminance|brightness|voltage|current|power|co2"
_UNIT = (
    r"°\s?[CF]\b|degrees?(?: (?:celsius|fahrenheit))?\b|celsius\b|fahrenheit\b|%|percent\b"
    r"|hPa\b|mbar\b|lx\b|lux\b|ppm\b|m?V\b|m?A\b|m?W\b"
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
_DIGITS = pattern(r"[:-](?=\d)")
_LETTERS = pattern(r"[a-z]+")
_WORDS: dict[str, float] = {
    **{
        word: at + 1
        for at, word in enumerate(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
        )
    },
    "a": 1,
    "half": 30,
    "quarter": 15,
    "quarters": 15,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
    "hour": 60,
    "hours": 60,
    "noon": 12,
    "midnight": 0,
    "dozen": 12,
}
_PROMISE = pattern(
    r"\bI(?:'ll| will| am going to|'ve| have| just)? (?:now |just |also )?(?:remind|wake|alert|notify|noted?|saved?|stored?"
    r"|added|set|scheduled?|remember(?:ed)?|written|deleted|removed|cancell?ed|switched|turned)\b(?! of| me of)",
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
    beside = [system, *(text.removesuffix(own) for text, own in zip(texts, told, strict=True))]
    numbers = [number for text in told for number in _NUMBER.findall(_CLOCK.sub("", text))]
    numbers += [value["number"] for text in beside for value in _VALUE.finditer(_CLOCK.sub("", text))]
    known = {float(number.replace(",", ".")) for number in numbers}
    return [value for value in values if not _is_supported(value, known)]


def find_unfounded_numbers(text: str, sources: Iterable[str]) -> list[str]:
    """List the numbers of a text that stand in none of its sources, as figures, in words, or in another unit of time."""
    told = [
        float(number.replace(",", ".")) for source in sources for number in _NUMBER.findall(_DIGITS.sub(" ", source))
    ]
    told += [_WORDS[word] for source in sources for word in _LETTERS.findall(source.lower()) if word in _WORDS]
    sums = [a + b for a in told for b in told]
    known = {0.0, 1.0, *told, *sums} | {one * by for one in (*told, *sums) for by in (60, 1 / 60, 0.5, 0.01)}
    known |= {one + by for one in told for by in (12, -12, -1)}
    found = _NUMBER.findall(_DIGITS.sub(" ", text))
    return [one for one in dict.fromkeys(found) if not any(abs(float(one.replace(",", ".")) - k) < 1e-6 for k in known)]


def find_promise(text: str) -> str:
    """What a text says was done, or will be, that only a tool can do; '' for none."""
    found = _PROMISE.search(text)
    return found[0] if found else ""


def strip_context(text: str) -> str:
    """A message's own words, without its head."""
    return text.rpartition(_CONTEXT_END)[2].strip()


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
