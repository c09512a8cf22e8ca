"""Finds what a viewer of Markdown does not show: comments and their like, and definitions that are none's."""

import re
from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from picoclaw.markdown.lines import Kind, Lines
from picoclaw.pattern import pattern

_COMMENT, _LINK = "comment", "unused link"

_ANY = pattern(r"<[!?]|\]:|```|~~~")
_OPENING = r"<!--|<\?|<!\[CDATA\[|<![A-Za-z]"
_CLOSING = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
_MARKUP = pattern(_OPENING)
_INLINE = pattern(rf"\\.|(?P<code>`+)|(?P<markup>{_OPENING})|<[A-Za-z/][^<>]*>", re.DOTALL)
_RUN = pattern(r"`+")

_INFO = pattern(r"[^`~]*[`~]+(?![`~])[ \t]*[^ \t\n]+(?=[ \t])([^\n]*\S)")

# Each alternative begins with another character, so that there is one way to match a text, and no time lost on others.
_GAP = r"[ \t]*(?:\n[ \t>]*(?![ \t>]))?"
_TITLES = "|".join(rf"{a}(?:\\(?:.|(?=\n))|[^{a}{b}\\\n]|\n(?![ \t]*\n))*{b}" for a, b in ('""', "''", (r"\(", r"\)")))
_LABEL = r"\[((?:\\.|[^][\\]){1,999})\]"
_REFERENCE = pattern(rf"{_LABEL}(?!:)")
_DEFINITION = pattern(
    rf"{_LABEL}:{_GAP}(?P<leads><[^<>\n]*>|[^\s<]\S*)(?:(?:[ \t]{_GAP}|\n[ \t>]*)(?:{_TITLES}))?(?=[ \t]*(?:\n|\Z))"
)


class Gone(NamedTuple):
    """Where something begins and ends that is not shown, and what it is, in words for one of its kind."""

    start: int
    end: int
    what: str


def gone(text: str, *, trusting: bool) -> list[Gone]:
    """Find what is not shown, in its order. `trusting`: as said of `visible`."""
    if not _ANY.search(text):
        return []
    viewer = _Viewer(text, trusting=trusting)
    viewer.read()
    return viewer.found


class _Viewer:
    def __init__(self, text: str, *, trusting: bool) -> None:
        self.found: list[Gone] = []
        self._text, self._trusting = text, trusting
        self._lines = Lines()
        self._missing: set[str] = set()
        self._references: set[str] | None = None

    def read(self) -> None:
        at = paragraph = 0
        first = Kind.BLANK
        while at < len(self._text):
            end = self._line_end(at)
            kind = self._lines.kind(self._text[at:end])
            if kind is not Kind.CONTINUED:
                self._read(first, paragraph, at)
                paragraph, first = at, kind
            if kind is Kind.MARKUP:
                end = self._read_markup(self._text.index("<", at), end)
            at = end
        self._read(first, paragraph, at)

    def _read(self, first: Kind, at: int, end: int) -> None:
        """Read some lines, of which the first is of a kind and the others go on with it."""
        if first is Kind.FENCE and not self._trusting and (info := _INFO.match(self._text, at, end)):
            self.found.append(Gone(info.start(1), info.end(1), _COMMENT))
        elif first is Kind.DEFINITION:
            at = self._read_definitions(self._text.index("[", at), end)
        if first in {Kind.PARAGRAPH, Kind.DEFINITION, Kind.ALONE}:
            self._read_paragraph(at, end)

    def _read_markup(self, at: int, end: int) -> int:
        """Comments that begin in a line of nothing but markup; returns where the line ends that the last ends in."""
        while opening := _MARKUP.search(self._text, at, end):
            after = self._after(opening, len(self._text), self._missing)
            if not after and self._trusting:
                at = opening.end()
                continue
            at = after or len(self._text)
            self.found.append(Gone(opening.start(), at, _COMMENT))
            end = end if at <= end else self._line_end(at - 1)
        return end

    def _read_definitions(self, at: int, end: int) -> int:
        """Definitions of links, which are comments if they lead nowhere; returns where the words behind them begin."""
        while (definition := _DEFINITION.match(self._text, at, end)) and not definition[1].startswith("^"):
            if definition["leads"].startswith(("#", "<#", "<>")):
                self.found.append(Gone(at, definition.end(), _COMMENT))
            elif not self._trusting and _folded(definition[1]) not in self._referred():
                self.found.append(Gone(at, definition.end(), _LINK))
            at = self._word(self._line_end(definition.end()))
        return at

    def _read_paragraph(self, at: int, end: int) -> None:
        """Comments in running text; what is in backticks, or behind a backslash, is shown as it is."""
        if not _MARKUP.search(self._text, at, end):
            return
        missing: set[str] = set()
        runs: defaultdict[int, list[int]] = defaultdict(list)
        for run in _RUN.finditer(self._text, at, end):
            runs[len(run[0])].append(run.start())
        while mark := _INLINE.search(self._text, at, end):
            at = mark.end()
            if code := mark["code"]:
                alike = runs[len(code)]
                closing = bisect_left(alike, at)
                at = alike[closing] + len(code) if closing < len(alike) else at
            elif mark["markup"] and (after := self._after(mark, end, missing)):
                self.found.append(Gone(mark.start(), after, _COMMENT))
                at = after

    def _after(self, opening: re.Match[str], limit: int, missing: set[str]) -> int:
        """Where what has been opened ends, 0 if it never does; `missing` remembers for what there is no end.

        In an owner's text the end of a later comment is not that of one that was never closed: the lines between them
        may be rules.
        """
        closing = _CLOSING.get(opening[0], ">")
        if closing in missing:
            return 0
        again = self._text.find(opening[0], opening.end(), limit) if self._trusting else -1
        found = self._text.find(closing, opening.start() + 2, limit if again < 0 else again)
        if found < 0:
            if again < 0:
                missing.add(closing)
            return 0
        return found + len(closing)

    def _word(self, at: int) -> int:
        """Where the words of a line begin that goes on with a paragraph."""
        while self._text.startswith((" ", "\t", ">"), at):
            at += 1
        return at

    def _line_end(self, at: int) -> int:
        return self._text.find("\n", at) + 1 or len(self._text)

    def _referred(self) -> set[str]:
        if self._references is None:
            self._references = {_folded(label) for label in _REFERENCE.findall(self._text)}
        return self._references


def _folded(label: str) -> str:
    return " ".join(label.casefold().split())
