"""What a text that was written anew has lost of the old one, and what it says that nothing before has said. Pure.

A model that joins what belongs together moves words from line to line, so lines are compared by the words they share,
of which rare ones count more, and by their numbers with units. What one denies and the other does not is another fact.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from picoclaw.pattern import pattern
from picoclaw.ranking import words

LEAST_KEPT = 0.7
LEAST_LENGTH = 0.5
_SHARED_OF_ENTRY, _KNOWN_OF_LINE = 0.5, 0.6
_SPARED = 2  # numbers or names: what is outdated is dropped, and the newer one takes its place
_REPEATED = 0.25
_MOST_NAMED, LONGEST_NAMED = 3, 60

_MARKER = pattern(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = pattern(r"#{1,6}\s")
_PLAIN_HEADING = pattern(r"#{1,6}\s+(?:[\w,&/'’()-]{1,24}\s*){1,4}")
_NUMBER = pattern(r"(\d+(?:[.,:/-]\d+)*)\s?([^\W\d_]{1,3}(?![^\W_])|[°%ΩµμΩ℃][^\W\d_]{0,2})?")
_CLAUSE = pattern(r"[,;:.!?()](?=\s|$)|\bbut\b", re.IGNORECASE)
_DENIAL = pattern(r"\b(?:not|no|nor|none|never|nobody|nothing|neither|without|cannot|\w+n['’]t)\b", re.IGNORECASE)
_FEWEST = 2  # words that two clauses share, where one turns the other around
_WORD = pattern(r"[^\W\d_]{2,}")


class Source(NamedTuple):
    """All that a new text may be made of: its words, its numbers, and its numbers with units."""

    words: frozenset[str]
    numbers: frozenset[str]
    measures: frozenset[str]


def source(texts: Iterable[str]) -> Source:
    """Gather what texts say."""
    text = "\n".join(texts)
    numbers = set(_numbers(text))
    parts = {part for number, _ in numbers for part in (number, *(number.split("-") if "-" in number else ()))}
    return Source(frozenset(words(text)), frozenset(parts), frozenset(map("".join, numbers)))


def told(line: str, known: Source) -> bool:
    """Tell whether a line says only what its source says; a short heading may be new."""
    said = _MARKER.sub("", line.strip(), count=1)
    numbers = list(_numbers(said))
    if any(not known.numbers.issuperset({number} & known.numbers or number.split("-")) for number, _ in numbers):
        return False
    if any(unit and number + unit not in known.measures for number, unit in numbers):
        return False
    if _PLAIN_HEADING.fullmatch(line.strip()):
        return True
    used = set(words(said))
    return not used or len(used & known.words) >= _KNOWN_OF_LINE * len(used)


def invented(new: str, known: Source) -> list[str]:
    """List the lines that say what the source does not."""
    return [line for line in new.split("\n") if line.strip() and not told(line, known)]


def entries(text: str) -> list[str]:
    """List what a text says: its lines but headings, without what marks them as items."""
    lines = (line.strip() for line in text.split("\n"))
    return [_MARKER.sub("", line, count=1) for line in lines if words(line) and not _HEADING.match(line)]


def lost(old: str, new: str) -> list[str]:
    """List the entries of the old text that no line of the new one says, or that it turns around."""
    before, after = entries(old), entries(new)
    having = Counter(word for entry in before for word in _telling(entry))
    clauses = [clause for line in after for clause in _clauses(line)]
    lines = [(_telling(line), set(_numbers(line))) for line in after]
    return [entry for entry in before if not _said(entry, lines, having) or _turned(entry, clauses)]


_Numbers = set[tuple[str, str]]


def _telling(line: str) -> set[str]:
    """The words that a line is known by; its numbers only where there is nothing else."""
    used = set(words(line))
    return {word for word in used if not word[0].isdigit()} or used


def _said(entry: str, lines: Iterable[tuple[set[str], _Numbers]], having: Counter[str]) -> bool:
    """Whether the line that shares most with an entry shares enough, and has its numbers."""
    used, numbers = _telling(entry), set(_numbers(entry))
    whole = sum(1 / having[word] for word in used)
    shares = [(sum(1 / having[word] for word in sorted(used & line)), _holds(its, numbers)) for line, its in lines]
    share, whole_numbers = max(shares, default=(0.0, False))
    return share >= _SHARED_OF_ENTRY * whole and whole_numbers


def _holds(there: _Numbers, wanted: _Numbers) -> bool:
    """Whether all numbers are there; a unit may be missing, and may not be another."""
    return all(
        any(number == other and (unit == its or not (unit and its)) for other, its in there) for number, unit in wanted
    )


class _Clause(NamedTuple):
    """Part of a line: the words of what it says, and whether it says that it is not so."""

    words: frozenset[str]
    denies: bool


def _clauses(line: str) -> list[_Clause]:
    parts = _CLAUSE.split(line)
    found = [_Clause(frozenset(words(_DENIAL.sub(" ", part))), bool(_DENIAL.search(part))) for part in parts]
    return [clause for clause in found if clause.words]


def _turned(entry: str, clauses: Sequence[_Clause]) -> bool:
    """Whether the clause that is nearest to one of an entry's denies it, or what it denies is no longer denied."""
    for clause in _clauses(entry):
        near = [(len(clause.words & other.words), other.denies == clause.denies) for other in clauses]
        shared, same = max(near, default=(0, True))
        if not same and shared >= max(min(_FEWEST, len(clause.words)), _SHARED_OF_ENTRY * len(clause.words)):
            return True
    return False


def fault(old: str, new: str, longest: int) -> str:
    """Say why a new text may not take the place of the old one, '' when it may."""
    after = entries(new)
    if not after:
        return "it says nothing that was told"
    if len(after) - len(set(after)) > _REPEATED * len(after):
        return "it repeats itself"
    if len(new) > max(longest, len(old)):
        return f"it has {len(new)} characters of at most {max(longest, len(old))}"
    if len(new) < LEAST_LENGTH * len(old):
        return f"it is shorter than half of what was there: {len(new)} characters of {len(old)}"
    return _missing(old, new)


def _missing(old: str, new: str) -> str:
    """Say what of the old text is gone, when it is more than what may be outdated."""
    gone = lost(old, new)
    if len(gone) > (1 - LEAST_KEPT) * len(entries(old)):
        return f"{len(gone)} of {len(entries(old))} entries would be lost: {named(gone)}"
    for kind, before, kept in (("numbers", _measures(old), _measures(new)), ("names", _names(old), _words(new))):
        away = sorted(before - kept)
        if len(away) > max(_SPARED, (1 - LEAST_KEPT) * len(before)):
            return f"{len(away)} of {len(before)} {kind} would be lost: {named(away)}"
    return ""


def named(lines: Iterable[str]) -> str:
    """Name some of the lines, shortened."""
    every = list(lines)
    shown = [line if len(line) <= LONGEST_NAMED else f"{line[:LONGEST_NAMED]}…" for line in every[:_MOST_NAMED]]
    return "; ".join(shown) + (f"; and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else "")


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    """The numbers, and their units as far as they have one; a little word behind a number is none."""
    for found in _NUMBER.finditer(text):
        unit = found[2] or ""
        yield found[1], unit if unit in {"A", "a"} or words(unit) or not unit.isalpha() else ""


def _measures(text: str) -> set[str]:
    return set(map("".join, _numbers("\n".join(entries(text)))))


def _names(text: str) -> set[str]:
    """Words that begin with a capital, but for the first of each line."""
    found = (word for entry in entries(text) for word in _WORD.findall(entry)[1:])
    return {word.casefold() for word in found if word[0].isupper()}


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
