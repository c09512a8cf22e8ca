"""What a viewer of Markdown shows: comments, unused definitions and invisible characters are found and left out."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from enum import Enum, auto

from picoclaw.records import NamedTuple
from picoclaw.text import pattern, remove_invisible


class LineKind(Enum):
    """What a line begins or is; markup may go on beyond it, and `ALONE` is a paragraph of one line."""

    FENCE = auto()
    CODE = auto()
    BLANK = auto()
    MARKUP = auto()
    DEFINITION = auto()
    PARAGRAPH = auto()
    CONTINUED = auto()
    ALONE = auto()


_BLOCK_QUOTE = 0  # any other box is an item of a list, by the columns that its lines are indented
_MAX_NESTING = 100

_CONTAINER = pattern(r" {0,3}(?:>( ?)|(?:[-+*]|(\d{1,9})[.)])(?: {1,4}(?! )| (?= {4})|\Z))")
_OPENING_FENCE = pattern(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
_CLOSING_FENCE = pattern(r" {0,3}(`{3,}|~{3,})\Z")
_HEADING = pattern(r" {0,3}#{1,6}(?: |\Z)")
_THEMATIC_BREAK = pattern(r" {0,3}(?:(?:- *){3,}|(?:_ *){3,}|(?:\* *){3,})\Z")
_SETEXT_UNDERLINE = pattern(r" {0,3}(?:=+|-+)\Z")
_HTML_BLOCK = pattern(r" {0,3}<(?:!--|\?|!\[CDATA\[|![A-Za-z])")
_DEFINITION_START = pattern(r" {0,3}\[")


class LineParser:
    """Is told a text line by line, and remembers what they stand in."""

    def __init__(self) -> None:
        self._boxes: list[int] = []
        self._fence = ""
        self._going = False

    def kind(self, line: str) -> LineKind:
        line = line.expandtabs(4).rstrip(" \n")
        if not line:
            return self._blank()
        at, known = self._entered(line)
        inside = known == len(self._boxes)
        if self._fence and inside:
            return self._fenced(line, at)
        self._fence = ""
        boxes, at = self._opened(line, at, interrupting=self._going and inside)
        going = self._going and not boxes
        kind = self._what(line, at, going=going, underlined=going and inside)
        if kind is not LineKind.CONTINUED:
            self._boxes[known:] = boxes
        self._going = kind in {LineKind.PARAGRAPH, LineKind.CONTINUED, LineKind.DEFINITION}
        return kind

    def _blank(self) -> LineKind:
        if _BLOCK_QUOTE in self._boxes:
            del self._boxes[self._boxes.index(_BLOCK_QUOTE) :]
            self._fence = ""
        self._going = False
        return LineKind.CODE if self._fence else LineKind.BLANK

    def _entered(self, line: str) -> tuple[int, int]:
        """How far a line is indented or quoted like those before it, and how many boxes it stays in."""
        at = 0
        for known, box in enumerate(self._boxes):
            if box == _BLOCK_QUOTE:
                quoted = _CONTAINER.match(line, at)
                if not quoted or quoted[1] is None:
                    return at, known
                at = quoted.end()
            elif line[at : at + box].strip(" "):
                return at, known
            else:
                at += box
        return at, len(self._boxes)

    def _fenced(self, line: str, at: int) -> LineKind:
        closing = _CLOSING_FENCE.match(line, at)
        if closing and closing[1].startswith(self._fence):
            self._fence = ""
        return LineKind.CODE

    def _opened(self, line: str, at: int, *, interrupting: bool) -> tuple[list[int], int]:
        """The boxes that begin in a line. In a paragraph, neither an empty item does nor any number but 1."""
        boxes: list[int] = []
        while len(self._boxes) + len(boxes) < _MAX_NESTING and not _THEMATIC_BREAK.match(line, at):
            box = _CONTAINER.match(line, at)
            empty = box is not None and box[1] is None and box.end() == len(line)
            if not box or (interrupting and not boxes and (empty or box[2] not in {None, "1"})):
                break
            boxes.append(_BLOCK_QUOTE if box[1] is not None else box.end() - at + empty)
            at = box.end()
        return boxes, at

    def _what(self, line: str, at: int, *, going: bool, underlined: bool) -> LineKind:
        if line.startswith("    ", at):
            return LineKind.CONTINUED if going else LineKind.CODE
        if fence := _OPENING_FENCE.match(line, at):
            self._fence = fence[1]
            return LineKind.FENCE
        if _HTML_BLOCK.match(line, at):
            return LineKind.MARKUP
        alone = (
            _HEADING.match(line, at)
            or _THEMATIC_BREAK.match(line, at)
            or (underlined and _SETEXT_UNDERLINE.match(line, at))
        )
        if alone or at == len(line):
            return LineKind.ALONE
        if going:
            return LineKind.CONTINUED
        return LineKind.DEFINITION if _DEFINITION_START.match(line, at) else LineKind.PARAGRAPH


# Finds what a viewer of Markdown does not show: comments and their like, and definitions that are none's.

_COMMENT, _LINK = "comment", "unused link"

_MAYBE_HIDDEN = pattern(r"<[!?]|\]:|```|~~~")
_HTML_OPENINGS = r"<!--|<\?|<!\[CDATA\[|<![A-Za-z]"
_HTML_CLOSINGS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
_HTML_OPENING = pattern(_HTML_OPENINGS)
_INLINE = pattern(rf"\\.|(?P<code>`+)|(?P<markup>{_HTML_OPENINGS})|<[A-Za-z/][^<>]*>", re.DOTALL)
_BACKTICKS = pattern(r"`+")

_FENCE_INFO = pattern(r"[^`~]*[`~]+(?![`~])[ \t]*[^ \t\n]+(?=[ \t])([^\n]*\S)")

# Each alternative begins with another character, so that there is one way to match a text, and no time lost on others.
_OPTIONAL_NEWLINE = r"[ \t]*(?:\n[ \t>]*(?![ \t>]))?"
_LINK_TITLE = "|".join(
    rf"{a}(?:\\(?:.|(?=\n))|[^{a}{b}\\\n]|\n(?![ \t]*\n))*{b}" for a, b in ('""', "''", (r"\(", r"\)"))
)
_LINK_LABEL = r"\[((?:\\.|[^][\\]){1,999})\]"
_REFERENCE = pattern(rf"{_LINK_LABEL}(?!:)")
_LINK_DEFINITION = pattern(
    rf"{_LINK_LABEL}:{_OPTIONAL_NEWLINE}(?P<leads><[^<>\n]*>|[^\s<]\S*)(?:(?:[ \t]{_OPTIONAL_NEWLINE}|\n[ \t>]*)(?:{_LINK_TITLE}))?(?=[ \t]*(?:\n|\Z))"
)


class HiddenSpan(NamedTuple):
    """Where something begins and ends that is not shown, and what it is, in words for one of its kind."""

    start: int
    end: int
    what: str


def find_hidden(text: str, *, trusting: bool) -> list[HiddenSpan]:
    """Find what is not shown, in its order. `trusting`: as in `remove_hidden`."""
    if not _MAYBE_HIDDEN.search(text):
        return []
    viewer = _HiddenFinder(text, trusting=trusting)
    viewer.read()
    return viewer.found


class _HiddenFinder:
    def __init__(self, text: str, *, trusting: bool) -> None:
        self.found: list[HiddenSpan] = []
        self._text, self._trusting = text, trusting
        self._lines = LineParser()
        self._missing: set[str] = set()
        self._references: set[str] | None = None

    def read(self) -> None:
        at = paragraph = 0
        first = LineKind.BLANK
        while at < len(self._text):
            end = self._line_end(at)
            kind = self._lines.kind(self._text[at:end])
            if kind is not LineKind.CONTINUED:
                self._read(first, paragraph, at)
                paragraph, first = at, kind
            if kind is LineKind.MARKUP:
                end = self._read_markup(self._text.index("<", at), end)
            at = end
        self._read(first, paragraph, at)

    def _read(self, first: LineKind, at: int, end: int) -> None:
        """Read some lines, of which the first is of a kind and the others go on with it."""
        if first is LineKind.FENCE and not self._trusting and (info := _FENCE_INFO.match(self._text, at, end)):
            self.found.append(HiddenSpan(info.start(1), info.end(1), _COMMENT))
        elif first is LineKind.DEFINITION:
            at = self._read_definitions(self._text.index("[", at), end)
        if first in {LineKind.PARAGRAPH, LineKind.DEFINITION, LineKind.ALONE}:
            self._read_paragraph(at, end)

    def _read_markup(self, at: int, end: int) -> int:
        """Comments that begin in a line of nothing but markup; returns where the line ends that the last ends in."""
        while opening := _HTML_OPENING.search(self._text, at, end):
            after = self._after(opening, len(self._text), self._missing)
            if not after and self._trusting:
                at = opening.end()
                continue
            at = after or len(self._text)
            self.found.append(HiddenSpan(opening.start(), at, _COMMENT))
            end = end if at <= end else self._line_end(at - 1)
        return end

    def _read_definitions(self, at: int, end: int) -> int:
        """Definitions of links, which are comments if they lead nowhere; returns where the words behind them begin."""
        while (definition := _LINK_DEFINITION.match(self._text, at, end)) and not definition[1].startswith("^"):
            if definition["leads"].startswith(("#", "<#", "<>")):
                self.found.append(HiddenSpan(at, definition.end(), _COMMENT))
            elif not self._trusting and _fold_label(definition[1]) not in self._referred():
                self.found.append(HiddenSpan(at, definition.end(), _LINK))
            at = self._word(self._line_end(definition.end()))
        return at

    def _read_paragraph(self, at: int, end: int) -> None:
        """Comments in running text; what is in backticks, or behind a backslash, is shown as it is."""
        if not _HTML_OPENING.search(self._text, at, end):
            return
        missing: set[str] = set()
        runs: defaultdict[int, list[int]] = defaultdict(list)
        for run in _BACKTICKS.finditer(self._text, at, end):
            runs[len(run[0])].append(run.start())
        while mark := _INLINE.search(self._text, at, end):
            at = mark.end()
            if code := mark["code"]:
                alike = runs[len(code)]
                closing = bisect_left(alike, at)
                at = alike[closing] + len(code) if closing < len(alike) else at
            elif mark["markup"] and (after := self._after(mark, end, missing)):
                self.found.append(HiddenSpan(mark.start(), after, _COMMENT))
                at = after

    def _after(self, opening: re.Match[str], limit: int, missing: set[str]) -> int:
        """Where what has been opened ends, 0 if it never does; `missing` remembers for what there is no end.

        In an owner's text the end of a later comment is not that of one that was never closed: the lines between them
        may be rules.
        """
        closing = _HTML_CLOSINGS.get(opening[0], ">")
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
            self._references = {_fold_label(label) for label in _REFERENCE.findall(self._text)}
        return self._references


def _fold_label(label: str) -> str:
    return " ".join(label.casefold().split())


# What a reader sees of a Markdown text: viewers hide comments, and no eye sees some characters; a model reads both.
#
# Follows CommonMark 0.31 as far as it decides what is code, which is shown whatever is in it, and what is hidden. Takes
# time in proportion to a text's length, whoever wrote it.

_REST_OF_LINE = pattern(r"[ \t]*(?:\n|\Z)")


def remove_hidden(text: str, *, trusting: bool = False) -> str:
    """Leave out what a reader does not see, and the lines that hold nothing else; code stays as it is.

    A text that is `trusting` is its owner's: a comment that is never closed stays, and so does a definition of a
    link that nothing refers to, because its writer sees both and would miss them.
    """
    return remove_invisible(_remove_spans(*_normalize_and_find_hidden(text, trusting=trusting)))


def blank_comments(text: str) -> str:
    """Leave out an owner's comments, and every line where it was."""
    plain, left_out = _normalize_and_find_hidden(text, trusting=True)
    kept, at = [], 0
    for start, end, _ in left_out:
        kept += [plain[at:start], "\n" * plain.count("\n", start, end)]
        at = end
    return "".join([*kept, plain[at:]])


def describe_hidden(text: str, *, trusting: bool = False) -> list[str]:
    """Say in words what `remove_hidden` leaves out: "1 comment", "3 invisible characters"."""
    plain, left_out = _normalize_and_find_hidden(text, trusting=trusting)
    counted = Counter(what for _, _, what in left_out)
    rest = _remove_spans(plain, left_out)
    counted["invisible character"] = len(rest) - len(remove_invisible(rest))
    return [f"{number} {what}{'s' if number > 1 else ''}" for what, number in counted.items() if number]


def _normalize_and_find_hidden(text: str, *, trusting: bool) -> tuple[str, list[HiddenSpan]]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain, find_hidden(plain, trusting=trusting)


def _remove_spans(text: str, left_out: list[HiddenSpan]) -> str:
    kept: list[str] = []
    at, bare = 0, True
    for start, end, _ in left_out:
        before, newline, last = text[at:start].rpartition("\n")
        bare = (bare or bool(newline)) and not last.strip()
        filled = _REST_OF_LINE.match(text, end) if bare else None
        kept += [before, newline, "" if filled else last]
        at = filled.end() if filled else end
    return "".join([*kept, text[at:]])
