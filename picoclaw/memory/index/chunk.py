"""Cuts a text into pieces that are found one by one, where a reader would cut it. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_HEADING = 200

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(?=\S)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Chunk(NamedTuple):
    """A part of a text: its lines, counted from 1, both included, and the headings that it stands under."""

    start: int
    end: int
    heading: str
    text: str


class Piece(NamedTuple):
    """A line of a text, or a part of one that is too long, and the headings that it stands under."""

    line: int
    text: str
    heading: str
    opens: bool  # it is a heading itself


def chunks(text: str, most: int = 1000) -> list[Chunk]:
    """Cut a text into chunks of at most `most` characters, after half of that if it can be at a blank line.

    The last heading or blank line that fits is taken, or else the last line that fits. A line that is longer is cut
    itself, at a space if there is one. What is blank is in no chunk.
    """
    found: list[Chunk] = []
    held: list[Piece] = []
    for piece in each_line(text, most):
        while held and _size(held) + 1 + len(piece.text) > most:
            cut = _cut([*held, piece], most // 2)
            found += _chunk(held[:cut])
            held = _without_blanks(held[cut:])
        held = _without_blanks([*held, piece]) if not held else [*held, piece]
    return found + _chunk(held)


def _size(pieces: list[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces) + len(pieces) - 1


def _cut(pieces: list[Piece], least: int) -> int:
    """How many pieces to take, all but the last at most."""
    size = _size(pieces[:-1])
    for count in range(len(pieces) - 1, 0, -1):
        if size < least:
            break
        if pieces[count].opens or not pieces[count].text.strip():
            return count
        size -= len(pieces[count - 1].text) + 1
    count = len(pieces) - 1
    while count > 1 and (pieces[count - 1].opens or not pieces[count - 1].text.strip()):
        count -= 1  # a heading goes with what stands under it
    return count


def _without_blanks(pieces: list[Piece]) -> list[Piece]:
    """Leave out what is blank at the head."""
    first = next((i for i, piece in enumerate(pieces) if piece.text.strip()), len(pieces))
    return pieces[first:]


def _chunk(pieces: list[Piece]) -> list[Chunk]:
    kept = _without_blanks(_without_blanks(pieces)[::-1])[::-1]
    if not kept:
        return []
    return [Chunk(kept[0].line, kept[-1].line, kept[0].heading, "\n".join(piece.text for piece in kept))]


def each_line(text: str, most: int = 1000) -> Iterator[Piece]:
    """Give a text's lines, those that are too long in several pieces, each with the heading it stands under."""
    titles: list[tuple[int, str]] = []
    heading = fence = ""
    for number, line in enumerate(_lines(text), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        opening = None if fence else _HEADING.match(line)
        if opening:
            level = len(opening[1])
            title = line[opening.end() : opening.end() + LONGEST_HEADING].strip().rstrip("#").rstrip()
            titles = [*((above, name) for above, name in titles if above < level), (level, title)]
            heading = " > ".join(name for _, name in titles if name)[-LONGEST_HEADING:]
        for i, part in enumerate(_parts(line, most)):
            yield Piece(number, part, heading, opens=bool(opening) and i == 0)


def _lines(text: str) -> Iterator[str]:
    """Split at the line ends that an editor counts."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _parts(line: str, most: int) -> Iterator[str]:
    start = 0
    while len(line) - start > most:
        space = line.rfind(" ", start + most // 2, start + most)
        end = space + 1 if space >= 0 else start + most
        yield line[start:end]
        start = end
    yield line[start:]
