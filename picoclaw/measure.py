"""How large a request is: one measure for the estimate before it is sent and for what is learned from it after.

Most vocabularies have a token for each digit, often one more for the blank before it, and take four bytes of prose or
JSON for one. A table of readings or a dump of registers has three times the tokens of a letter of that length.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from picoclaw.messages import Message
from picoclaw.prompt import written

_AROUND_A_MESSAGE, _AROUND_A_CALL, _AROUND_A_TOOL, _AROUND_A_DIGIT = 16, 60, 75, 5
_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


def request_bytes(system: str, messages: Iterable[Message], tools: Sequence[Any]) -> int:
    """Bytes of what a model reads: the texts, digits for more, and about what a server's template puts around them."""
    said = sum(
        weight(m.text) + _AROUND_A_MESSAGE + sum(weight(c.arguments) + _AROUND_A_CALL for c in m.calls)
        for m in messages
    )
    return said + weight(system) + sum(tool_bytes(tool) for tool in tools)


def tool_bytes(definition: Any) -> int:
    """Bytes of a tool's description, with what is put around it."""
    return weight(definition) + _AROUND_A_TOOL


def weight(value: Any) -> int:
    """Bytes of a value as it travels, as many as its tokens suggest: a digit counts as six."""
    data = written(value).encode("utf-8", "replace")
    return len(data) + _AROUND_A_DIGIT * len(data.translate(None, _NO_DIGITS))
