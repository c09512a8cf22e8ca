"""What a reader sees of a Markdown text: viewers hide comments, and no eye sees some characters; a model reads both.

Follows CommonMark 0.31 as far as it decides what is code, which is shown whatever is in it, and what is hidden. Takes
time in proportion to a text's length, whoever wrote it.
"""

from collections import Counter

from picoclaw.markdown.comments import Gone, gone
from picoclaw.pattern import pattern

__all__ = ["blanked", "hidden", "seen", "visible"]

_SELECTED = "\xa9\xae\u0300-\u1fff\u203c-\u2fff\u3003-\ud7ff\uf900-\ufdff\U0001f000-\U0001faff"
_JOINED = "\u0300-\u1fff\u2070-\u2fff\u3001-\ufdff\ufe10-\U0010ffff"

# Controls, direction marks, fillers, tags, and the selectors of looks that fonts do not have.
_UNSEEN = pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NEAR_UNSEEN = pattern("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad]")
_FAR = pattern("[^\x00-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u22ff]")
"""What is written in Western Europe needs none of the rest, whose tables take 9 ms to make."""

# A joiner belongs between letters of a script that joins them, or emoji; a selector behind what has two looks.
_IDLE = pattern(
    f"(?<![{_JOINED}])(?<![{_SELECTED}][\ufe0e\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
    f"|(?<![{_SELECTED}])[\ufe0e\ufe0f](?!\u20e3)"
)
_BLANKS = pattern(r"[ \t]*(?:\n|\Z)")


def visible(text: str, *, trusting: bool = False) -> str:
    """Leave out what a reader does not see, and the lines that hold nothing else; code stays as it is.

    A text that is `trusting` is its owner's: a comment that is never closed stays, and so does a definition of a
    link that nothing refers to, because its writer sees both and would miss them.
    """
    return seen(_without(*_gone(text, trusting=trusting)))


def blanked(text: str) -> str:
    """Leave out an owner's comments, and every line where it was."""
    plain, left_out = _gone(text, trusting=True)
    kept, at = [], 0
    for start, end, _ in left_out:
        kept += [plain[at:start], "\n" * plain.count("\n", start, end)]
        at = end
    return "".join([*kept, plain[at:]])


def hidden(text: str, *, trusting: bool = False) -> list[str]:
    """Say in words what `visible` leaves out: "1 comment", "3 invisible characters"."""
    plain, left_out = _gone(text, trusting=trusting)
    counted = Counter(what for _, _, what in left_out)
    rest = _without(plain, left_out)
    counted["invisible character"] = len(rest) - len(seen(rest))
    return [f"{number} {what}{'s' if number > 1 else ''}" for what, number in counted.items() if number]


def seen(text: str) -> str:
    """Leave out the characters that nobody sees, wherever they are."""
    return _IDLE.sub("", _UNSEEN.sub("", text)) if _FAR.search(text) else _NEAR_UNSEEN.sub("", text)


def _gone(text: str, *, trusting: bool) -> tuple[str, list[Gone]]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain, gone(plain, trusting=trusting)


def _without(text: str, left_out: list[Gone]) -> str:
    kept: list[str] = []
    at, bare = 0, True
    for start, end, _ in left_out:
        before, newline, last = text[at:start].rpartition("\n")
        bare = (bare or bool(newline)) and not last.strip()
        filled = _BLANKS.match(text, end) if bare else None
        kept += [before, newline, "" if filled else last]
        at = filled.end() if filled else end
    return "".join([*kept, text[at:]])
