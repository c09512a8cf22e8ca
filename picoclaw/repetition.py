"""Notices when a model says or asks for the same over and over, which small ones do until a limit ends it."""

import re
from collections.abc import Callable, Sequence

from picoclaw.messages import ToolCall

REPEATS = "repeats"
"""Why an answer ended that was nothing but repetition."""

LONGEST_PHRASE = 500
STRETCH = 1000
"""Characters of nothing but one phrase; a dump of a whole part's registers, all zeros, has 768."""

LONG_STRETCH = 4000
"""The same in code, in a table, and of words that were asked for: an array of zeros, "write it 100 times"."""

_TIMES = 3
_STEP = 64
_SIGHT = 24
_FENCE = "```"
_WORD = re.compile(r"\w+")
_IN_TURNS = 5


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
            step = text[taken : taken + _STEP - self._length % _STEP]
            taken += len(step)
            self._length += len(step)
            self._tail = (self._tail + step)[-LONG_STRETCH - _TIMES * LONGEST_PHRASE :]
            self._look(step)
            if self._length % _STEP == 0 and self._is_stuck():
                return taken
        return None

    def _look(self, step: str) -> None:
        """Keep in mind whether the text is within a fence of code."""
        *lines, self._line = (self._line + step).split("\n")
        if sum(line.lstrip().startswith(_FENCE) for line in lines) % 2:
            self._fenced = not self._fenced
        self._line = self._line[:_STEP]  # whether it is a fence stands at its beginning

    def _is_stuck(self) -> bool:
        again = count_repeated(self._tail)
        return again >= LONG_STRETCH or (again > 0 and not self._is_wanted(self._tail[-again:]))

    def _is_wanted(self, again: str) -> bool:
        """Whether what is said again and again is code, a table, or words that the owner said."""
        lines = again.split("\n")[1:-1]
        row = bool(lines) and all(line.lstrip().startswith("|") for line in lines)
        words = _WORD.findall(again.lower())[1:-1]
        return self._fenced or row or (bool(words) and self._asked.issuperset(words))


def count_repeated(text: str) -> int:
    """How many characters at the end of a text only repeat the phrase before them; 0 where none is stuck there."""
    before = text.rfind(text[-_SIGHT:], 0, len(text) - 1) if len(text) >= STRETCH else -1
    phrase = len(text) - _SIGHT - before
    if before < 0 or phrase > LONGEST_PHRASE:
        return 0
    size = max(STRETCH, _TIMES * phrase)
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
    last = calls[-_IN_TURNS:]
    alternate = all(_are_alike(one, other) for one, other in zip(last, last[2:], strict=False))
    if len(last) == _IN_TURNS and alternate and all(map(idle, last[:2])):
        return len(last)
    others = (number for number, call in enumerate(reversed(calls)) if not _are_alike(call, last[-1]))
    return next(others, len(calls))


def _are_alike(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments, one.broken) == (other.name, other.arguments, other.broken)
