"""What a model is shown: earlier turns and the present one, kept valid and short enough for its window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from picoclaw.measure import request_bytes
from picoclaw.messages import UNTHOUGHT, Message, Thought, ToolCall
from picoclaw.prompt import BYTES_A_TOKEN, estimated_tokens, fill, headed
from picoclaw.untrusted import OURS
from picoclaw.window import READ_ON, cut, kept_as, rest

_SHORTEST_RESULT, _SHORTEST_KEPT, _LONG_ARGUMENT, _SHORTEST_SAID = 500, 200, 100, 200


class Earlier(NamedTuple):
    """What a conversation shows of the turns before the present one, and the message that says some of it again."""

    history: list[tuple[Message, ...]]
    forgotten: int
    first: Message


@dataclass(slots=True)
class Conversation:
    """`history` holds whole turns, oldest first; `messages` are those of the turn in the making.

    `forgotten` counts the turns that were left out since, to fit the window; `relied_on` are parts of them that are
    said again when they are gone. `summary` is what came before the history, as it is shown; it is no part of a
    message that is kept. `waiting` are words of the person's that no answer has followed yet.
    `keep_whole(tool, result)` keeps a result that is to be cut and returns its number, 0 when it cannot. Of the
    messages up to `brief_before`, long arguments are shown by their beginnings, and of what the person says now at
    most `longest_said` characters, 0 for all of it.
    """

    history: list[tuple[Message, ...]]
    messages: list[Message] = field(default_factory=list)
    forgotten: int = 0
    relied_on: Sequence[str] = ()
    summary: str = ""
    waiting: list[Message] = field(default_factory=list)
    keep_whole: Callable[[str, str], int] = lambda *_: 0
    brief_before: int = 0
    longest_said: int = 0

    def shown(self) -> tuple[Message, ...]:
        """Return everything in the order in which it is sent."""
        made = [_brief(message) for message in self.messages[: self.brief_before]]
        now = [self._as_shown(m) for m in (*made, *self.messages[self.brief_before :], *self.waiting)]
        shown = [*(m for turn in self.history for m in turn), *now]
        first = next((i for i, message in enumerate(shown) if message.role == "user"), None)
        if self.summary and first is not None:
            shown[first] = shown[first]._replace(text=headed(self.summary, shown[first].text))
        return tuple(shown)

    def say(self, text: str) -> None:
        """Add the user's side."""
        self.messages.append(Message("user", text))

    def instruct(self, text: str) -> None:
        """Add a word of ours: to the newest result, because some servers refuse a user's message after one."""
        if self.messages and self.messages[-1].role == "tool":
            newest = self.messages[-1]
            self.messages[-1] = newest._replace(text=f"{newest.text}\n{OURS}\n{text}")
        else:
            self.say(text)

    def hear(self, text: str) -> None:
        """Add what the user says while the turn runs: it joins what is kept once it is answered."""
        self.waiting.append(Message("user", text))

    def answer(self, text: str, calls: Sequence[ToolCall] = (), thought: Thought = UNTHOUGHT) -> None:
        """Add the model's side; what it thought is of use to it again only while calls of its are open."""
        self.messages += [*self.waiting, Message("assistant", text, tuple(calls), "", thought if calls else UNTHOUGHT)]
        self.waiting.clear()

    def result(self, call: ToolCall, text: str) -> None:
        """Add what a call gave."""
        self.messages.append(Message("tool", text, call_id=call.id))

    def settle(self, instead: str) -> None:
        """Give every call that has no result yet the given one."""
        for call in self.unanswered():
            self.result(call, instead)

    def unanswered(self) -> tuple[ToolCall, ...]:
        """The newest calls that have no result yet."""
        for i, message in enumerate(self.messages[::-1]):
            if message.role != "tool":
                return message.calls[i:]
        return ()

    def tokens(self, system: str, tools: Sequence[Any], bytes_a_token: float = BYTES_A_TOKEN) -> int:
        """Estimate the tokens of a request."""
        return estimated_tokens(request_bytes(system, self.shown(), tools), bytes_a_token)

    def _say_again(self) -> None:
        lost = [part for part in self.relied_on if not any(part in message.text for message in self.shown())]
        if lost and self.messages:
            first = self.messages[0]
            self.messages[0] = first._replace(text="\n".join([*lost, first.text]))

    def shorten(self, template: str) -> bool:
        """Leave out the older half of the earlier turns, or else parts of this one's; False: nothing left."""
        if self.history:
            leave = (len(self.history) + 1) // 2
            self.history, self.forgotten = self.history[leave:], self.forgotten + leave
            self._say_again()
            return True
        results = self._cut_result(template, _SHORTEST_RESULT) or self._brief_calls() or self._cut_result(template, 0)
        return results or self._cut_said()

    def whole(self) -> Earlier:
        """Return what is shown of earlier turns, for `restore`."""
        return Earlier(self.history, self.forgotten, self.messages[0])

    def restore(self, earlier: Earlier | None) -> None:
        """Show earlier turns again that were left out since; with None nothing changes."""
        if earlier:
            self.history, self.forgotten, self.messages[0] = earlier

    def _cut_said(self) -> bool:
        """Show half of the person's longest words, of which nothing is lost: they are kept as they were said."""
        longest = max((len(m.text) for m in (*self.messages, *self.waiting) if m.role == "user"), default=0)
        longest = min(longest, self.longest_said or longest)
        if longest < 2 * _SHORTEST_SAID:
            return False
        self.longest_said = longest // 2
        return True

    def _as_shown(self, message: Message) -> Message:
        if message.role != "user" or not 0 < self.longest_said < len(message.text):
            return message
        return message._replace(text=cut(message.text, self.longest_said, 0))

    def _cut_result(self, template: str, shortest: int) -> bool:
        """Leave out half of the longest result, or all of one that is kept; it is kept before it is cut."""
        results = [i for i, m in enumerate(self.messages) if m.role == "tool"]
        at = max(results, key=lambda i: len(self.messages[i].text), default=None)
        if at is None or len(text := self.messages[at].text) < (shortest or _SHORTEST_KEPT):
            return False
        call = self._call_of(at)
        number = kept_as(text) or self.keep_whole(call.name, text)
        if not (shortest or number):
            return False
        head = text[: len(text) // 2] if shortest else ""
        before = call.arguments.get("start", 0) if call.name == READ_ON else 0
        how = rest(number, before + len(head))
        for shown in (fill(template, {"head": head}), f"{head}…"):  # the template is the owner's, and may be long
            short = "\n".join(filter(None, (shown, how)))
            if len(short) < len(text):
                self.messages[at] = self.messages[at]._replace(text=short)
                return True
        return False

    def _call_of(self, at: int) -> ToolCall:
        """Find the call that a result is of."""
        wanted = self.messages[at].call_id
        calls = (call for message in reversed(self.messages[:at]) for call in message.calls)
        return next((call for call in calls if call.id == wanted), ToolCall(wanted, ""))

    def _brief_calls(self) -> bool:
        """Show the calls before the newest with the beginnings of long arguments; False when they are already."""
        before, self.brief_before = self.brief_before, self._newest_calls()
        return any(_brief(m) != m for m in self.messages[before : self.brief_before])

    def _newest_calls(self) -> int:
        return max((i for i, message in enumerate(self.messages) if message.calls), default=0)


def _brief(message: Message) -> Message:
    """Cut the long arguments of a message's calls."""
    return message._replace(calls=tuple(replace(call, arguments=_shortened(call.arguments)) for call in message.calls))


def _shortened(arguments: dict[str, Any]) -> dict[str, Any]:
    long = {name: value for name, value in arguments.items() if isinstance(value, str) and len(value) > _LONG_ARGUMENT}
    return arguments | {name: f"{value[:_LONG_ARGUMENT]}…" for name, value in long.items()}
