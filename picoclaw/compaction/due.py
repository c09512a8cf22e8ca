"""When the older part of a conversation is to be summarised, and which turns that is. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from picoclaw.messages import Message

KEPT_MESSAGES = 4
"""The newest messages stay as they are, with the rest of their turn."""

_RESERVE, _LARGE = 24_000, 48_000
_SOFT_SHARE, _LEAST_SHARE = 0.5, 0.25
_LONGEST_REST = 16  # turns

Why = Literal["", "messages", "window"]
Numbered = Sequence[tuple[int, tuple[Message, ...]]]


class Held(NamedTuple):
    """An open conversation: the turns that no summary holds, and the summary of those before, up to the turn `upto`.

    Of the turns, the newest `shown` are those that a model still sees.
    """

    turns: Numbered
    shown: int
    summary: str = ""
    upto: int = 0

    @property
    def numbered(self) -> Numbered:
        """The turns that a model sees, with their numbers."""
        return self.turns[len(self.turns) - self.shown :]

    @property
    def visible(self) -> list[tuple[Message, ...]]:
        """The turns that a model sees."""
        return [messages for _, messages in self.numbered]

    @property
    def left_out(self) -> int:
        """How many turns are neither shown nor summarised."""
        return len(self.turns) - self.shown

    @property
    def older(self) -> Numbered:
        """The turns to summarise: those left out, and all but the newest messages."""
        kept, first = 0, len(self.turns)
        while first > self.left_out and kept < KEPT_MESSAGES:
            first -= 1
            kept += len(self.turns[first][1])
        return self.turns[:first]


class Rest(NamedTuple):
    """A summary that failed: the `oldest` turn that it was of, how many turns there were, how many are awaited."""

    oldest: int = 0
    turns: int = 0
    awaited: int = 0

    def over(self, held: Held) -> bool:
        """Tell whether it may be tried again. Whatever else has become of the conversation ends the rest as well."""
        more = len(held.turns) - self.turns
        return held.turns[0][0] != self.oldest or not 0 <= more < self.awaited

    def after(self, held: Held) -> "Rest":
        """The rest after one more failure: twice as long, and one turn after the first."""
        oldest = held.turns[0][0]
        awaited = min(self.awaited * 2, _LONGEST_REST) if oldest == self.oldest else 1
        return Rest(oldest, len(held.turns), awaited)


class Load(NamedTuple):
    """What the next request takes of a window, in tokens: the turns in `talk`, and what is `fixed` beside them."""

    talk: int
    fixed: int
    window: int

    def passes(self, threshold: float) -> bool:
        """Tell whether a request is longer than so many tokens, and the turns have a part in that.

        Where system text, tools and summary fill a small window, another summary after each turn would not help.
        """
        return self.talk > max(threshold - self.fixed, self.window * _LEAST_SHARE)


def may_be_long(load: Load) -> bool:
    """Tell whether a conversation can be due because of the window, whatever is beside it."""
    return load._replace(fixed=load.window).passes(load.window)


def why(held: Held, load: Load, most_messages: int, share: float) -> Why:
    """Say why the older part is to be summarised, '' when it is not; `share` is that of the window."""
    if not held.older:
        return ""
    if held.left_out or load.passes(load.window * share):
        return "window"
    messages = sum(len(turn) for turn in held.visible)
    return "messages" if 0 < most_messages < messages else ""


def near_the_limit(load: Load) -> bool:
    """Tell whether there is little room left, so that what must outlast the conversation is written down."""
    return load.passes(load.window - _RESERVE if load.window >= _LARGE else load.window * _SOFT_SHARE)
