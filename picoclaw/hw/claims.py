"""Measurements that a text claims, and those of them that nothing said or measured before bears out.

Deterministic, and rather silent than wrong: only a sentence that names a quantity, says that it is so, and does not
speak of limits, wishes or the general counts.
"""

import re
from collections.abc import Iterable

_QUANTITY = r"temperature|temperatur|humidity|moisture|pressure|light|illuminance|brightness|voltage|current|power|co2"
_UNIT = (
    r"°\s?[CF]\b|degrees?(?: (?:celsius|fahrenheit))?\b|celsius\b|fahrenheit\b|%|percent\b"
    r"|hPa\b|mbar\b|lx\b|lux\b|ppm\b|m?V\b|m?A\b|m?W\b"
)
_VALUE = re.compile(rf"(?<![\w.,:-])(?P<number>-?\d+(?:[.,]\d+)?)\s?(?P<unit>{_UNIT})", re.IGNORECASE)
_CLAIM = re.compile(rf"\b(?:{_QUANTITY}|warm|cold|hot|humid|it)\b", re.IGNORECASE)
_SAYS = re.compile(r"\b(?:is|are|was|reads?|at|shows?|currently|now)\b|[:=]", re.IGNORECASE)
_GENERAL = re.compile(
    r"\b(?:ideal|optim\w+|should|shall|usual\w*|typical\w*|general\w*|average|normal\w*|recommend\w*|standard|absolute"
    r"|between|ranges?|from|above|below|over|under|more than|less than|at least|at most|up to|max\w*|min\w*|limits?"
    r"|thresholds?|about to|when|if|until|unless|would|could|can|may|might|e\.g|example|such as|freez\w*|boil\w*"
    r"|melt\w*|point|zero|sea level|remind\w*|tolerates?|likes?|prefers?|needs?|best|good for|accura\w+|body"
    r"|power[- ]on|plus or minus)\b|±|\d\s?[-–—]\s?\d|\bto -?\d",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")
_BARE_WORDS = 3


def claimed(text: str) -> list[str]:
    """List the measurements that a text claims, as it writes them."""
    found = []
    for sentence in _SENTENCE.split(_DATE.sub("", text)):
        if not _GENERAL.search(sentence) and (_bare(sentence) or (_CLAIM.search(sentence) and _SAYS.search(sentence))):
            found += [value[0] for value in _VALUE.finditer(sentence)]
    return list(dict.fromkeys(found))


def unfounded(answer: str, asked: str, known: Iterable[str]) -> list[str]:
    """List the measurements claimed in an answer whose number stands in none of the known texts, exact or rounded.

    Where it was asked with such a value, the answer may have been worked out from it.
    """
    values = [] if _VALUE.search(asked) else claimed(answer)
    told = {float(number.replace(",", ".")) for text in known for number in _NUMBER.findall(text)} if values else set()
    return [value for value in values if not _stands(value, told)]


def _bare(sentence: str) -> bool:
    """Whether hardly more than a value is said, as in "1013.25 hPa"."""
    return bool(_VALUE.search(sentence)) and len(_VALUE.sub("", sentence).split()) <= _BARE_WORDS


def _stands(value: str, told: Iterable[float]) -> bool:
    """Whether a value is one of those that were told, as precise as it is; one in °F also where °C were."""
    number = _NUMBER.findall(value)[0].replace(",", ".")
    near = 0.51 * 10 ** -len(number.partition(".")[2])
    fahrenheit = "f" in value.lower().removeprefix(number)
    return any(
        abs(float(number) - other) <= near or (fahrenheit and abs(float(number) - other * 1.8 - 32) <= near)
        for other in told
    )
