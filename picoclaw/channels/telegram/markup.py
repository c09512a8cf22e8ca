"""From Markdown, as models write it, to a text with entities, which Telegram shows as they are and cannot misread.

Pure, takes time in proportion to the text, and knows no wrong Markdown: what is not markup stays text.
Source: https://core.telegram.org/bots/api#messageentity.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from picoclaw.markdown import seen


class Entity(NamedTuple):
    """A stretch of a text, by its characters; `more` is a link's address or the language of a block of code."""

    kind: str
    start: int
    end: int
    more: str = ""


class Rich(NamedTuple):
    """A text, and how parts of it look."""

    text: str
    entities: tuple[Entity, ...] = ()


_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[\w+#-]{0,30})[^`\n]*$")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)$")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,200}$")
_BULLET = re.compile(r"([ \t]*)[-*+][ \t]+(?=\S)")
_QUOTE = re.compile(r" {0,3}>[ \t]?")
_TABLE = re.compile(r"[ \t]*\|")
_DIVIDER = re.compile(r"[ \t]*\|[ \t:|-]*-[ \t:|-]*$")

_LINK = r"!?\[(?P<label>[^\]\[\n]{1,300})\]\((?P<url>[^\s()<>]{1,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?)\)"
_TOKEN = re.compile(rf"\\(?P<plain>[!-/:-@\[-`{{-~])|(?P<ticks>`+)|{_LINK}|(?P<mark>\*\*|__|~~|\*|_)")
_KINDS = {"**": "bold", "__": "bold", "*": "italic", "_": "italic", "~~": "strikethrough"}
_ADDRESS = re.compile(r"(?:https?://|mailto:|tg://)", re.IGNORECASE)


def rich(markdown: str) -> Rich:
    """Render a whole text; what nobody would see is left out."""
    out = _Writer()
    lines = seen(markdown.replace("\r\n", "\n").replace("\t", "    ")).strip("\n").split("\n")
    at = 0
    while at < len(lines):
        at = _block(out, lines, at)
    text = out.text()
    return Rich(text.rstrip("\n"), tuple(sorted(out.entities, key=lambda e: (e.start, -e.end))))


class _Writer:
    """A text in the making."""

    def __init__(self) -> None:
        self.entities: list[Entity] = []
        self._parts: list[str] = []
        self.length = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)

    def mark(self, kind: str, start: int, more: str = "") -> None:
        """Give what was written since `start` a look."""
        if self.length > start:
            self.entities.append(Entity(kind, start, self.length, more))

    def text(self) -> str:
        return "".join(self._parts)


def _block(out: _Writer, lines: list[str], at: int) -> int:
    """Write the block that begins in a line; returns the line after it."""
    line = lines[at]
    if fence := _FENCE.match(line):
        return _code(out, lines, at + 1, fence)
    if _TABLE.match(line) and at + 1 < len(lines) and _DIVIDER.match(lines[at + 1]):
        return _run(out, lines, at, _TABLE, "pre")
    if _QUOTE.match(line):
        return _run(out, lines, at, _QUOTE, "blockquote")
    start = out.length
    if heading := _HEADING.match(line):
        _inline(out, heading[1].rstrip().rstrip("#").rstrip())
        out.entities[:] = [e for e in out.entities if e.start < start or e.kind != "bold"]
        out.mark("bold", start)
    elif _RULE.match(line):
        out.add("———")
    elif bullet := _BULLET.match(line):
        out.add(f"{bullet[1]}• ")
        _inline(out, line[bullet.end() :])
    else:
        _inline(out, line)
    out.add("\n")
    return at + 1


def _code(out: _Writer, lines: list[str], at: int, fence: re.Match[str]) -> int:
    start, closing = out.length, fence["fence"]
    while at < len(lines):
        bare = lines[at].strip()
        if len(bare) >= len(closing) and set(bare) == {closing[0]}:
            at += 1
            break
        out.add(f"\n{lines[at]}" if out.length > start else lines[at])
        at += 1
    out.mark("pre", start, fence["lang"])
    out.add("\n")
    return at


def _run(out: _Writer, lines: list[str], at: int, begun: re.Pattern[str], kind: str) -> int:
    """Write the lines that begin alike as one stretch: a table as it is, a quotation without its marks."""
    start = out.length
    while at < len(lines) and (found := begun.match(lines[at])):
        if out.length > start:
            out.add("\n")
        if kind == "pre":
            out.add(lines[at])
        else:
            _inline(out, lines[at][found.end() :])
        at += 1
    out.mark(kind, start)
    out.add("\n")
    return at


def _inline(out: _Writer, line: str) -> None:
    """Write a line; a mark that nothing closes stays as it was typed."""
    pieces: list[str] = []
    looks: list[tuple[str, int, int, str]] = []
    opened: dict[str, int] = {}
    at = 0
    for start, end, token, closing in _tokens(line):
        pieces.append(line[at:start])
        at = end
        if closing or token["url"]:
            shown, kind, more = _whole(line, token, closing)
            pieces.append(shown)
            if kind:
                looks.append((kind, len(pieces) - 1, len(pieces), more))
            continue
        pieces.append(token["plain"] or token[0])
        if mark := token["mark"]:
            _pair(line, token, mark, pieces, looks, opened)
    pieces.append(line[at:])
    _write(out, pieces, looks)


def _tokens(line: str) -> Iterator[tuple[int, int, re.Match[str], int]]:
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


def _whole(line: str, token: re.Match[str], closing: int) -> tuple[str, str, str]:
    """Tell how code or a link is shown: text, kind and address."""
    if closing:
        code = line[token.end() : closing]
        return (code[1:-1] if code[:1] == code[-1:] == " " and code.strip() else code), "code", ""
    label, url = token["label"], token["url"]
    if _ADDRESS.match(url):
        return label, "text_link", url
    return f"{label} ({url})", "", ""


def _pair(
    line: str,
    token: re.Match[str],
    mark: str,
    pieces: list[str],
    looks: list[tuple[str, int, int, str]],
    opened: dict[str, int],
) -> None:
    """Close what such a mark has opened, or open it; those opened in between are none."""
    before = line[token.start() - 1 : token.start()] if token.start() else ""
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


def _write(out: _Writer, pieces: list[str], looks: list[tuple[str, int, int, str]]) -> None:
    places = [out.length]
    for piece in pieces:
        out.add(piece)
        places.append(out.length)
    out.entities += [Entity(kind, places[a], places[b], more) for kind, a, b, more in looks if places[b] > places[a]]
