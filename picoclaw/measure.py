"""How large a request is: one measure for the estimate before it is sent and for what is learned from it after.

Most vocabularies have a token for each digit, often one more for the blank before it, and take four bytes of prose or
JSON for one. A table of readings or a dump of registers has three times the tokens of a letter of that length.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from picoclaw.messages import Message
from picoclaw.prompt import written

_AROUND_A_MESSAGE, _AROUND_A_CALL, _AROUND_A_TOOL, _AROUND_A_DIGIT = 16, 60, 75, 5
_AN_IMAGE = 6400  # 1,600 tokens, the most that servers count for one they have scaled down
_measured: list[tuple[Sequence[Any], int]] = [((), 0)]
_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


def request_bytes(system: str, messages: Iterable[Message], tools: Sequence[Any]) -> int:
    """Bytes of what a model reads: the texts, digits for more, and about what a server's template puts around them."""
    return sum(map(message_bytes, messages)) + weight(system) + tools_bytes(tools)


def message_bytes(message: Message) -> int:
    """Bytes of one message, with what is put around it."""
    beside = _AN_IMAGE * len(message.images) + sum(map(weight, message.thought.parts))
    return (
        weight(message.text)
        + _AROUND_A_MESSAGE
        + beside
        + sum(weight(call.arguments) + _AROUND_A_CALL for call in message.calls)
    )


def tools_bytes(tools: Sequence[Any]) -> int:
    """Bytes of the tools of a request; the same ones go with each request of a turn, and are measured once."""
    known, total = _measured[0]
    if known is not tools:
        total = sum(map(tool_bytes, tools))
        _measured[0] = tools, total
    return total


def tool_bytes(definition: Any) -> int:
    """Bytes of a tool's description, with what is put around it."""
    return weight(definition) + _AROUND_A_TOOL


def weight(value: Any) -> int:
    """Bytes of a value as it travels, as many as its tokens suggest: a digit counts as six."""
    data = written(value).encode("utf-8", "replace")
    return len(data) + _AROUND_A_DIGIT * len(data.translate(None, _NO_DIGITS))
