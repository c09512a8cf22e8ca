"""Makes a request fit a smaller window than it was made for: by older turns, then by tools that matter less. Pure."""

from picoclaw.errors import ContextOverflow
from picoclaw.measure import request_bytes, tool_bytes
from picoclaw.messages import Request
from picoclaw.prompt import estimated_tokens
from picoclaw.window import given_up, room

LONG = 4000
"""Bytes of a conversation, about 1,000 tokens: the shortest that a server may have found too long."""

_CAUTIOUS = 3.0
"""Bytes a token, because of another model's vocabulary nothing is known."""


def fitted(request: Request, window: int, answer: int) -> Request:
    """Leave out the oldest turns, and then tools, as far as a window and an answer of so many tokens ask for it.

    It is left out of this request only. Raises ContextOverflow when the present turn does not fit for all that.
    """
    shared = room(window, answer)
    most = int(shared.request * _CAUTIOUS)
    request = request._replace(answer_tokens=min(request.answer_tokens, shared.answer))
    left = request_bytes(request.system, request.messages, request.tools)
    starts = _turns(request)
    begin = starts[0]
    for start in starts[1:]:
        if left <= most:
            break
        left -= request_bytes("", request.messages[begin:start], ())
        begin = start
    request = request._replace(messages=request.messages[begin:])
    if left > most:
        request, left = _with_fewer_tools(request, left, most)
    if left > most:
        raise ContextOverflow(
            f"about {estimated_tokens(left, _CAUTIOUS)} tokens do not fit its window of {window} (context_tokens)"
        )
    return request


def _with_fewer_tools(request: Request, left: int, most: int) -> tuple[Request, int]:
    """Leave out tools of a request of so many bytes, in the order in which a small window is spared them."""
    sizes = {tool["name"]: tool_bytes(tool) for tool in request.tools}
    whole = sum(sizes.values())
    gone = given_up(sizes, whole - (left - most))
    kept = tuple(tool for tool in request.tools if tool["name"] not in gone)
    return request._replace(tools=kept), left - whole + sum(sizes[tool["name"]] for tool in kept)


def shorter(request: Request) -> Request | None:
    """Leave out the older half of the earlier turns; None when there is none."""
    starts = _turns(request)
    return request._replace(messages=request.messages[starts[len(starts) // 2] :]) if len(starts) > 1 else None


def is_long(request: Request) -> bool:
    """Tell whether there are earlier turns, and so much in them that a server may refuse a request because of it."""
    starts = _turns(request)
    return len(starts) > 1 and request_bytes("", request.messages[: starts[-1]], ()) >= LONG


def _turns(request: Request) -> list[int]:
    """Where turns begin; words that were said while tools ran begin none."""
    said = request.messages
    begins = [i for i, m in enumerate(said) if i and m.role == "user" and said[i - 1].role != "tool"]
    return [0, *begins]
