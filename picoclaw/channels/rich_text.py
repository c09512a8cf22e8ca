"""From Markdown, as models write it, to a text with entities, which a chat shows as they are and cannot misread.

Pure, takes time in proportion to the text, and knows no wrong Markdown: what is not markup stays text.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from picoclaw.channels.attachments import Attachment, split_attachments
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, remove_invisible


class Entity(NamedTuple):
    """A stretch of a text, by its characters; `more` is a link's address or the language of a block of code."""

    kind: str
    start: int
    end: int
    more: str = ""


class RichText(NamedTuple):
    text: str
    entities: tuple[Entity, ...] = ()


class ChartPicture(NamedTuple):
    """A chart to be sent as a picture with what was said before it; `instead` is all of it as text."""

    data: bytes
    caption: RichText
    instead: RichText


_FENCE = pattern(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[\w+#-]{0,30})[^`\n]*$")
_HEADING = pattern(r" {0,3}#{1,6}[ \t]+(.*)$")
_RULE = pattern(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,200}$")
_BULLET = pattern(r"([ \t]*)[-*+][ \t]+(?=\S)")
_QUOTE = pattern(r" {0,3}>[ \t]?")
_TABLE = pattern(r"[ \t]*\|")
_DIVIDER = pattern(r"[ \t]*\|[ \t:|-]*-[ \t:|-]*$")

_LINK = r"!?\[(?P<label>[^\]\[\n]{1,300})\]\((?P<url>[^\s()<>]{1,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?)\)"
_TOKEN = pattern(rf"\\(?P<plain>[!-/:-@\[-`{{-~])|(?P<ticks>`+)|{_LINK}|(?P<mark>\*\*|__|~~|\*|_)")
_KINDS = {"**": "bold", "__": "bold", "*": "italic", "_": "italic", "~~": "strikethrough"}
_ADDRESS = pattern(r"(?:https?://|mailto:|tg://)", re.IGNORECASE)


def render_rich(markdown: str) -> RichText:
    """Render a whole text; what nobody would see is left out."""
    out = _Writer()
    lines = remove_invisible(markdown.replace("\r\n", "\n").replace("\t", "    ")).strip("\n").split("\n")
    at = 0
    while at < len(lines):
        at = _write_block(out, lines, at)
        out.add("\n")
    return RichText("".join(out.parts).rstrip("\n"), tuple(sorted(out.entities, key=lambda e: (e.start, -e.end))))


class _Writer:
    def __init__(self) -> None:
        self.entities: list[Entity] = []
        self.parts: list[str] = []
        self.length = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def mark(self, kind: str, start: int, more: str = "") -> None:
        if self.length > start:
            self.entities.append(Entity(kind, start, self.length, more))


def _write_block(out: _Writer, lines: list[str], at: int) -> int:
    """Write the block that begins in a line; returns the line after it."""
    line, start = lines[at], out.length
    if fence := _FENCE.match(line):
        return _write_code(out, lines, at + 1, fence)
    is_table = bool(_TABLE.match(line)) and at + 1 < len(lines) and bool(_DIVIDER.match(lines[at + 1]))
    if is_table or _QUOTE.match(line):  # the lines that begin alike are one stretch
        begun = _TABLE if is_table else _QUOTE
        while at < len(lines) and (found := begun.match(lines[at])):
            if out.length > start:
                out.add("\n")
            if is_table:
                out.add(lines[at])
            else:
                _write_inline(out, lines[at][found.end() :])
            at += 1
        out.mark("pre" if is_table else "blockquote", start)
        return at
    if heading := _HEADING.match(line):
        _write_inline(out, heading[1].rstrip().rstrip("#").rstrip())
        out.entities[:] = [e for e in out.entities if e.start < start or e.kind != "bold"]
        out.mark("bold", start)
    elif _RULE.match(line):
        out.add("———")
    elif bullet := _BULLET.match(line):
        out.add(f"{bullet[1]}• ")
        _write_inline(out, line[bullet.end() :])
    else:
        _write_inline(out, line)
    return at + 1


def _write_code(out: _Writer, lines: list[str], at: int, fence: re.Match[str]) -> int:
    start, closing = out.length, fence["fence"]
    while at < len(lines):
        bare = lines[at].strip()
        if len(bare) >= len(closing) and set(bare) == {closing[0]}:
            at += 1
            break
        out.add(f"\n{lines[at]}" if out.length > start else lines[at])
        at += 1
    out.mark("pre", start, fence["lang"])
    return at


def _write_inline(out: _Writer, line: str) -> None:
    """Write a line; a mark that nothing closes stays as it was typed."""
    pieces: list[str] = []
    looks: list[tuple[str, int, int, str]] = []
    opened: dict[str, int] = {}
    at = 0
    for start, end, token, closing in _find_tokens(line):
        pieces.append(line[at:start])
        at = end
        if closing:
            code = line[token.end() : closing]
            pieces.append(code[1:-1] if code[:1] == code[-1:] == " " and code.strip() else code)
            looks.append(("code", len(pieces) - 1, len(pieces), ""))
        elif (url := token["url"]) and _ADDRESS.match(url):
            pieces.append(token["label"])
            looks.append(("text_link", len(pieces) - 1, len(pieces), url))
        elif url:
            pieces.append(f"{token['label']} ({url})")
        else:
            pieces.append(token["plain"] or token[0])
            if token["mark"]:
                _match_pair(line, token, pieces, looks, opened)
    pieces.append(line[at:])
    places = [out.length]
    for piece in pieces:
        out.add(piece)
        places.append(out.length)
    out.entities += [Entity(kind, places[a], places[b], more) for kind, a, b, more in looks if places[b] > places[a]]


def _find_tokens(line: str) -> Iterator[tuple[int, int, re.Match[str], int]]:
    """Find what may be markup: where it begins and ends, and for code where the closing ticks begin, else 0."""
    runs: defaultdict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", line):
        runs[len(run[0])].append(run.start())
    at = 0
    while token := _TOKEN.search(line, at):
        at, closing = token.end(), 0
        if ticks := token["ticks"]:
            same = runs[len(ticks)]
            after = bisect_right(same, token.start())
            if after < len(same):
                closing = same[after]
                at = closing + len(ticks)
        yield token.start(), at, token, closing


def _match_pair(
    line: str, token: re.Match[str], pieces: list[str], looks: list[tuple[str, int, int, str]], opened: dict[str, int]
) -> None:
    """Close what such a mark has opened, or open it; those opened in between are none."""
    mark = token["mark"]
    before = line[max(0, token.start() - 1) : token.start()]
    after = line[token.end() : token.end() + 1]
    inside = mark in {"*", "_", "__"} and before.isalnum() and after.isalnum()  # 2*3*4, snake_case
    here = len(pieces) - 1
    if mark in opened and before.strip() and not inside and opened[mark] < here - 1:
        start = opened.pop(mark)
        pieces[start] = pieces[here] = ""
        looks.append((_KINDS[mark], start, here, ""))
        for other in [m for m, place in opened.items() if place > start]:
            del opened[other]
    elif after.strip() and not inside:
        opened[mark] = here


# Cuts a text with entities into messages of a size that the service takes, broken where a reader would.

_BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "; ", ", ", " ")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f", "\u20e3"}


def count_units(text: str) -> int:
    """Count UTF-16 units: a character beyond U+FFFF is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def split_message(whole: RichText, most: int) -> list[RichText]:
    """Cut a text into messages of at most `most` UTF-16 units, in their order; no word is lost, and what is bold or code goes on being so."""
    parts, start, text = [], 0, whole.text
    while start < len(text):
        end = _find_end(text, start, most)
        shown = text[start:end].rstrip()
        if shown:
            parts.append(_slice(whole, start, start + len(shown)))
        start = end
        while start < len(text) and text[start] == "\n":
            start += 1
    return parts


def _find_end(text: str, start: int, most: int) -> int:
    end, room = start, most
    while end < len(text) and room > (text[end] > "\uffff"):
        room -= 1 + (text[end] > "\uffff")
        end += 1
    if end == len(text):
        return end
    lowest = start + (end - start) // 2
    for mark in _BREAKS:
        found = text.rfind(mark, lowest, end)
        if found >= 0:
            return found + len(mark)
    cut = end
    while cut > max(start + 1, end - 32) and _is_combining(text, cut):
        cut -= 1
    return end if _is_combining(text, cut) else cut


def _is_combining(text: str, at: int) -> bool:
    """Whether a character belongs to the one before it: an accent, or a part of an emoji."""
    char = text[at]
    return bool(
        unicodedata.combining(char)
        or char in _JOINERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or text[at - 1] == "\u200d"
    )


def _slice(whole: RichText, start: int, end: int) -> RichText:
    within = [
        e._replace(start=max(e.start, start) - start, end=min(e.end, end) - start)
        for e in whole.entities
        if e.start < end and e.end > start
    ]
    return RichText(whole.text[start:end], tuple(e for e in within if e.end > e.start))


# The parts of an answer: its texts, the files that it names, and the charts that it has drawn, as pictures.

_CHART = pattern(r"^```\n((?:[^\n`]*┤[^\n]*\n){3,40}[^\n`]*)\n```$", re.MULTILINE)


AnswerPart = RichText | Attachment | ChartPicture


def split_answer(
    text: str,
    workspace: Path | None,
    caption_units: int,
    whole_units: int,
    most: int,
    fold: Callable[[RichText], RichText] = lambda whole: whole,
) -> Iterator[AnswerPart]:
    """Give the parts in their order, texts of at most `most` units; `fold` is given a text before it is cut.

    A chart is a picture where what is said before it has at most `caption_units`, and all of it as text `whole_units`.
    """
    for piece in split_attachments(text, workspace):
        if isinstance(piece, Attachment):
            yield piece
            continue
        start = 0
        for chart in _CHART.finditer(piece):
            picture = _draw_chart(piece[start : chart.start()], chart[0])
            if (
                picture
                and count_units(picture.caption.text) <= caption_units
                and count_units(picture.instead.text) <= whole_units
            ):
                yield picture
                start = chart.end()
        yield from split_message(fold(render_rich(piece[start:])), most)


def _draw_chart(before: str, drawn: str) -> ChartPicture | None:
    """Draw a chart of blocks as a picture; None for one that is none."""
    from picoclaw import chart

    found = chart.parse_text(drawn.split("\n")[1:-1])
    if not found or not any(value is not None for value in found[0]):
        return None
    return ChartPicture(chart.draw_png(found[0], found[1:]), render_rich(before), render_rich(before + drawn))
