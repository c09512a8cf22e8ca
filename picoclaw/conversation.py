"""What a model is shown: earlier turns and the present one, kept valid and short enough for its window."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from picoclaw.messages import Message, ToolCall
from picoclaw.prompt import BYTES_A_TOKEN, estimated_tokens, fill
from picoclaw.providers.measure import request_bytes

_SHORTEST_RESULT = 500


@dataclass(slots=True)
class Conversation:
    """`history` holds whole turns, oldest first; `messages` are those of the turn in the making.

    `forgotten` counts the turns that were left out since, to fit the window; `relied_on` are parts of them that are
    said again when they are gone.
    """

    history: list[tuple[Message, ...]]
    messages: list[Message] = field(default_factory=list)
    forgotten: int = 0
    relied_on: Sequence[str] = ()

    def shown(self) -> tuple[Message, ...]:
        """Return everything in the order in which it is sent."""
        return (*(m for turn in self.history for m in turn), *self.messages)

    def say(self, text: str) -> None:
        """Add the user's side."""
        self.messages.append(Message("user", text))

    def instruct(self, text: str) -> None:
        """Add a word of ours: to the newest result, because some servers refuse a user's message after one."""
        if self.messages and self.messages[-1].role == "tool":
            newest = self.messages[-1]
            self.messages[-1] = newest._replace(text=f"{newest.text}\n\n{text}")
        else:
            self.say(text)

    def answer(self, text: str, calls: Sequence[ToolCall] = ()) -> None:
        """Add the model's side."""
        self.messages.append(Message("assistant", text, tuple(calls)))

    def result(self, call: ToolCall, text: str) -> None:
        """Add what a call gave."""
        self.messages.append(Message("tool", text, call_id=call.id))

    def settle(self, not_run: str) -> None:
        """Give every call that has no result yet the given one."""
        for call in self._unanswered():
            self.result(call, not_run)

    def _unanswered(self) -> tuple[ToolCall, ...]:
        for i, message in enumerate(reversed(self.messages)):
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
        """Leave out the older half of the earlier turns, or else half of the longest result; False: nothing left."""
        if self.history:
            leave = (len(self.history) + 1) // 2
            self.history, self.forgotten = self.history[leave:], self.forgotten + leave
            self._say_again()
            return True
        results = [i for i, m in enumerate(self.messages) if m.role == "tool"]
        longest = max(results, key=lambda i: len(self.messages[i].text), default=None)
        if longest is None or len(self.messages[longest].text) < _SHORTEST_RESULT:
            return False
        message = self.messages[longest]
        head = message.text[: len(message.text) // 2]
        self.messages[longest] = message._replace(text=fill(template, {"head": head}))
        return True
