"""Notices when a model says or asks for the same over and over, which small ones do until a limit ends it."""

from collections.abc import Callable, Sequence

from picoclaw.messages import ToolCall

REPEATS = "repeats"
"""Why an answer ended that was nothing but repetition."""

LONGEST_PHRASE = 500
STRETCH = 1000
"""Characters of nothing but one phrase; a dump of a whole part's registers, all zeros, has 768."""

_TIMES = 3
_STEP = 64
_SIGHT = 24


class Repetition:
    """Feed it text as it comes; it tells where to stop. The place does not depend on the pieces."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._tail = ""
        self._length = 0

    def feed(self, text: str) -> int | None:
        """Take a piece; returns how much of it is said before it is nothing but repetition, None for all."""
        taken = 0
        while taken < len(text):
            step = text[taken : taken + _STEP - self._length % _STEP]
            taken += len(step)
            self._length += len(step)
            self._tail = (self._tail + step)[-_TIMES * LONGEST_PHRASE :]
            if self._length % _STEP == 0 and repeated(self._tail):
                return taken
        return None


def repeated(text: str) -> int:
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


def in_a_row(calls: Sequence[ToolCall], idle: Callable[[ToolCall], bool]) -> int:
    """How often the newest call was made without another between.

    Two `idle` ones, which do nothing to the world outside, that take turns count too; a lamp may go on and off.
    """
    last = calls[-4:]
    if len(last) > 3 and _alike(last[0], last[2]) and _alike(last[1], last[3]) and all(map(idle, last[:2])):
        return len(last)
    others = (number for number, call in enumerate(reversed(calls)) if not _alike(call, last[-1]))
    return next(others, len(calls))


def _alike(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments, one.broken) == (other.name, other.arguments, other.broken)
