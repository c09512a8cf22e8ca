"""Notices when a model says or asks for the same over and over, which small ones do until a limit ends it."""

from collections.abc import Callable, Sequence

from picoclaw.messages import ToolCall
from picoclaw.text import pattern

REPEATS = "repeats"
"""Why an answer ended that was nothing but repetition."""

MAX_PHRASE = 500
MIN_REPEATED_CHARS = 1000
"""Characters of nothing but one phrase; a dump of a whole part's registers, all zeros, has 768."""

MIN_REPEATED_CHARS_IN_CODE = 4000
"""The same in code, in a table, and of words that were asked for: an array of zeros, "write it 100 times"."""

_MIN_TIMES = 3
_CHECK_EVERY_CHARS = 64
_SUFFIX_CHARS = 24
_FENCE = "```"
_WORD = pattern(r"\w+")
_ALTERNATING_CALLS = 5


class Repetition:
    """Feed it text as it comes; it tells where to stop. The place does not depend on the pieces."""

    def __init__(self, asked: str = "") -> None:
        """Begin with nothing said; `asked` is what the owner wants."""
        self._asked = frozenset(_WORD.findall(asked.lower()))
        self._tail = ""
        self._length = 0
        self._fenced = False
        self._line = ""

    def feed(self, text: str) -> int | None:
        """Take a piece; returns how much of it is said before it is nothing but repetition, None for all."""
        taken = 0
        while taken < len(text):
            step = text[taken : taken + _CHECK_EVERY_CHARS - self._length % _CHECK_EVERY_CHARS]
            taken += len(step)
            self._length += len(step)
            self._tail = (self._tail + step)[-MIN_REPEATED_CHARS_IN_CODE - _MIN_TIMES * MAX_PHRASE :]
            self._look(step)
            if self._length % _CHECK_EVERY_CHARS == 0 and self._is_stuck():
                return taken
        return None

    def _look(self, step: str) -> None:
        """Keep in mind whether the text is within a fence of code."""
        *lines, self._line = (self._line + step).split("\n")
        if sum(line.lstrip().startswith(_FENCE) for line in lines) % 2:
            self._fenced = not self._fenced
        self._line = self._line[:_CHECK_EVERY_CHARS]  # whether it is a fence stands at its beginning

    def _is_stuck(self) -> bool:
        again = count_repeated(self._tail)
        return again >= MIN_REPEATED_CHARS_IN_CODE or (again > 0 and not self._is_wanted(self._tail[-again:]))

    def _is_wanted(self, again: str) -> bool:
        """Whether what is said again and again is code, a table, or words that the owner said."""
        lines = again.split("\n")[1:-1]
        row = bool(lines) and all(line.lstrip().startswith("|") for line in lines)
        words = _WORD.findall(again.lower())[1:-1]
        return self._fenced or row or (bool(words) and self._asked.issuperset(words))


def count_repeated(text: str) -> int:
    """How many characters at the end of a text only repeat the phrase before them; 0 where none is stuck there."""
    before = text.rfind(text[-_SUFFIX_CHARS:], 0, len(text) - 1) if len(text) >= MIN_REPEATED_CHARS else -1
    phrase = len(text) - _SUFFIX_CHARS - before
    if before < 0 or phrase > MAX_PHRASE:
        return 0
    size = max(MIN_REPEATED_CHARS, _MIN_TIMES * phrase)
    if len(text) < size or text[len(text) - size + phrase :] != text[len(text) - size : len(text) - phrase]:
        return 0
    begin = len(text) - size
    while begin > 0 and text[begin - 1] == text[begin - 1 + phrase]:
        begin -= 1
    return len(text) - begin - phrase


def count_in_a_row(calls: Sequence[ToolCall], idle: Callable[[ToolCall], bool]) -> int:
    """How often the newest call was made without another between.

    Two `idle` ones, which do nothing to the world outside, that take turns count too, when they do so for the third
    time; a lamp may go on and off.
    """
    last = calls[-_ALTERNATING_CALLS:]
    alternate = all(_are_alike(one, other) for one, other in zip(last, last[2:], strict=False))
    if len(last) == _ALTERNATING_CALLS and alternate and all(map(idle, last[:2])):
        return len(last)
    others = (number for number, call in enumerate(reversed(calls)) if not _are_alike(call, last[-1]))
    return next(others, len(calls))


def _are_alike(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments, one.broken) == (other.name, other.arguments, other.broken)
