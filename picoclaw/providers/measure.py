"""How large a request is: one measure for the estimate before it is sent and for what is learned from it after."""

from collections.abc import Iterable, Sequence
from typing import Any

from picoclaw.messages import Message
from picoclaw.prompt import size

_AROUND_A_MESSAGE, _AROUND_A_CALL = 16, 60


def request_bytes(system: str, messages: Iterable[Message], tools: Sequence[Any]) -> int:
    """Bytes of what a model reads: the texts as they are, and about what a server's template puts around them."""
    said = sum(
        size(m.text) + _AROUND_A_MESSAGE + sum(size(c.arguments) + _AROUND_A_CALL for c in m.calls) for m in messages
    )
    return said + size(system) + size(list(tools))
