"""Tells what each line of a Markdown text is, as far as it decides what is code and where a paragraph ends."""

from enum import Enum, auto

from picoclaw.pattern import pattern


class Kind(Enum):
    """What a line begins or is; markup may go on beyond it, and `ALONE` is a paragraph of one line."""

    FENCE = auto()
    CODE = auto()
    BLANK = auto()
    MARKUP = auto()
    DEFINITION = auto()
    PARAGRAPH = auto()
    CONTINUED = auto()
    ALONE = auto()


_QUOTATION = 0  # any other box is an item of a list, by the columns that its lines are indented
_DEEPEST = 100

_BOX = pattern(r" {0,3}(?:>( ?)|(?:[-+*]|(\d{1,9})[.)])(?: {1,4}(?! )| (?= {4})|\Z))")
_OPENING = pattern(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
_CLOSING = pattern(r" {0,3}(`{3,}|~{3,})\Z")
_HEADING = pattern(r" {0,3}#{1,6}(?: |\Z)")
_RULE = pattern(r" {0,3}(?:(?:- *){3,}|(?:_ *){3,}|(?:\* *){3,})\Z")
_UNDERLINE = pattern(r" {0,3}(?:=+|-+)\Z")
_MARKUP = pattern(r" {0,3}<(?:!--|\?|!\[CDATA\[|![A-Za-z])")
_DEFINITION = pattern(r" {0,3}\[")


class Lines:
    """Is told a text line by line, and remembers what they stand in."""

    def __init__(self) -> None:
        """Before the first line."""
        self._boxes: list[int] = []
        self._fence = ""
        self._going = False

    def kind(self, line: str) -> Kind:
        """Tell what the next line is."""
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
        if kind is not Kind.CONTINUED:
            self._boxes[known:] = boxes
        self._going = kind in {Kind.PARAGRAPH, Kind.CONTINUED, Kind.DEFINITION}
        return kind

    def _blank(self) -> Kind:
        if _QUOTATION in self._boxes:
            del self._boxes[self._boxes.index(_QUOTATION) :]
            self._fence = ""
        self._going = False
        return Kind.CODE if self._fence else Kind.BLANK

    def _entered(self, line: str) -> tuple[int, int]:
        """How far a line is indented or quoted like those before it, and how many boxes it stays in."""
        at = 0
        for known, box in enumerate(self._boxes):
            if box == _QUOTATION:
                quoted = _BOX.match(line, at)
                if not quoted or quoted[1] is None:
                    return at, known
                at = quoted.end()
            elif line[at : at + box].strip(" "):
                return at, known
            else:
                at += box
        return at, len(self._boxes)

    def _fenced(self, line: str, at: int) -> Kind:
        closing = _CLOSING.match(line, at)
        if closing and closing[1].startswith(self._fence):
            self._fence = ""
        return Kind.CODE

    def _opened(self, line: str, at: int, *, interrupting: bool) -> tuple[list[int], int]:
        """The boxes that begin in a line. In a paragraph, neither an empty item does nor any number but 1."""
        boxes: list[int] = []
        while len(self._boxes) + len(boxes) < _DEEPEST and not _RULE.match(line, at):
            box = _BOX.match(line, at)
            empty = box is not None and box[1] is None and box.end() == len(line)
            if not box or (interrupting and not boxes and (empty or box[2] not in {None, "1"})):
                break
            boxes.append(_QUOTATION if box[1] is not None else box.end() - at + empty)
            at = box.end()
        return boxes, at

    def _what(self, line: str, at: int, *, going: bool, underlined: bool) -> Kind:
        if line.startswith("    ", at):
            return Kind.CONTINUED if going else Kind.CODE
        if fence := _OPENING.match(line, at):
            self._fence = fence[1]
            return Kind.FENCE
        if _MARKUP.match(line, at):
            return Kind.MARKUP
        alone = _HEADING.match(line, at) or _RULE.match(line, at) or (underlined and _UNDERLINE.match(line, at))
        if alone or at == len(line):
            return Kind.ALONE
        if going:
            return Kind.CONTINUED
        return Kind.DEFINITION if _DEFINITION.match(line, at) else Kind.PARAGRAPH
