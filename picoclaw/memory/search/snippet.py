"""Which lines of a chunk say what was asked, and whether a text has a word in any of its forms. Pure."""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from picoclaw.memory.index.chunk import each_line
from picoclaw.memory.notes.entries import FOREIGN, entries
from picoclaw.pattern import pattern
from picoclaw.ranking import asked

LONGEST = 300

_ENOUGH = 0.7
"""Of what the best line has: lines with less of the question's words are about something else."""

_LENT = 0.5
"""What a word of its heading counts for a line."""

_WRAPPED = 50
"""Characters of a line that an editor may have broken; shorter ones are meant so."""

_SURE = 5
"""Letters that a word and its forms share; where they are fewer, only these endings make a form of it."""

_ENDINGS = frozenset(("", "s", "e", "es", "ed", "ing", "ings", "y", "i", "ies", "ied"))
_LETTERS = pattern(r"[^\W_]*")
_JOINT = pattern(r"\s+([/…])\s+")
_MARK = pattern(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


class Snippet(NamedTuple):
    """The lines of a chunk that match; `line` is the first of them, and `heading` what that one stands under."""

    text: str
    line: int
    heading: str


class _Entry(NamedTuple):
    """A line with those that go on with it."""

    line: int
    last: int
    heading: str
    text: str


def words_in(text: str, words: Sequence[str]) -> list[str]:
    """Tell which of the words a text has in any of their forms."""
    folded = _folded(text)
    return [word for word in words if _place(folded, word) >= 0]


def snippet(text: str, start: int, words: Mapping[str, float], most: int = LONGEST) -> Snippet:
    """Take the lines out of a chunk that have most of the words, by their weights; the first ones where none has any.

    `start`: the line of its file on which the chunk begins. A heading's words count for what stands under it.
    """
    parts = _entries(text)
    values = [_value(entry, words) for entry in parts]
    best = max(values, default=0.0)
    order = sorted(range(len(parts)), key=lambda i: (-values[i], i))
    taken: list[int] = []
    room = most + 3
    for i in order:
        if taken and (values[i] < _ENOUGH * best or len(parts[i].text) + 3 > room):
            break
        taken.append(i)
        room -= len(parts[i].text) + 3
    if not taken:
        return Snippet("", start, "")
    first = parts[min(taken)]
    return Snippet(_joined([parts[i] for i in sorted(taken)], list(words), most), start + first.line - 1, first.heading)


def _value(entry: _Entry, words: Mapping[str, float]) -> float:
    own = {*words_in(entry.text, [*words])}
    lent = {*words_in(entry.heading, [*words])} - own
    return sum(words[word] for word in own) + _LENT * sum(words[word] for word in lent)


def _joined(entries: Sequence[_Entry], words: Sequence[str], most: int) -> str:
    if len(entries) == 1:
        return _around(entries[0].text, words, most)
    out = entries[0].text
    for above, entry in pairwise(entries):
        out += f"{' / ' if entry.line == above.last + 1 else ' … '}{entry.text}"
    return out


def _around(text: str, words: Sequence[str], most: int) -> str:
    """Cut a text that is too long, so that the first of the words stays, and the mark of what is not the owner's."""
    if len(text) <= most:
        return text
    told = next((f"({entry.source}) " for entry in entries(text) if FOREIGN in entry.source), "")
    most -= len(told)
    folded = _folded(text)
    places = [at for word in words if (at := _place(folded, word)) >= 0] if len(folded) == len(text) else []
    at = min(places, default=0)
    begin = 0 if at < most * 2 // 3 else text.rfind(" ", 0, at - most // 3) + 1
    head = f"{told}…" if begin else ""
    part = text[begin : begin + most - len(head.removeprefix(told))]
    return f"{head}{part}" if begin + len(part) == len(text) else f"{head}{part[:-1]}…"


def _entries(text: str) -> list[_Entry]:
    """Put lines together that are one sentence or one item of a list; headings only where there is nothing else."""
    pieces = [piece for piece in each_line(text, len(text) + 1) if piece.text.strip()]
    plain = [piece for piece in pieces if not piece.opens] or pieces
    found: list[_Entry] = []
    for above, piece in zip([None, *plain], plain, strict=False):
        words = " ".join(piece.text.split())
        if above and above.line == piece.line - 1 and _goes_on(above.text, piece.text):
            found[-1] = found[-1]._replace(last=piece.line, text=f"{found[-1].text} {words}")
        else:
            found.append(_Entry(piece.line, piece.line, piece.heading, words))
    return [entry._replace(text=_whole(entry.text)) for entry in found]


def _whole(text: str) -> str:
    """What is not the owner's word looks like one entry, also beside others."""
    return _JOINT.sub(r"\1", text) if FOREIGN in text else text


def _goes_on(above: str, line: str) -> bool:
    if _MARK.match(line):
        return False
    return line[0].isspace() or (len(above) > _WRAPPED and line[0].islower() and above[-1] not in ".!?:;")


def _folded(text: str) -> str:
    """Write a text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


@lru_cache(maxsize=256)
def _stem(word: str) -> str:
    """What the forms of a word begin with."""
    forms = asked(_folded(word))
    stem = forms[0] if len(forms) == 1 else _folded(word)
    return stem[:-1] if len(stem) > 4 and stem[-1] in "iy" else stem


def _place(text: str, word: str) -> int:
    """Find a form of a word, -1 for nowhere; letters that are written without spaces need no beginning and no end."""
    stem = _stem(word)
    at = text.find(stem) if stem else -1
    while (
        at >= 0 and stem.isascii() and (text[at - 1 : at].isalnum() or not _is_form(text, at + len(stem), stem, word))
    ):
        at = text.find(stem, at + 1)
    return at


def _is_form(text: str, end: int, stem: str, word: str) -> bool:
    """Tell whether what follows a stem makes a form of the word: notes, noted, but neither not nor nothing."""
    if len(stem) >= _SURE:
        return True
    found = _LETTERS.match(text, end)
    rest = found[0] if found else ""
    doubled = rest.removeprefix(stem[-1]) in {"ed", "ing"}
    return (rest in _ENDINGS or doubled) and bool(rest or not word.endswith(f"{stem}e"))
