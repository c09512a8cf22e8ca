"""Treats a conversation before each request, so that no server refuses it, and no broken turn breaks the next.

Our words in, our words out: what a provider translates afterwards is sound. What a person said is never left out; of
the rest only results that belong to no call. A sound conversation is changed in nothing but its calls' ids, and one
that grew by a message begins as it did before, so that a server's cache of it stays good.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from picoclaw.errors import ContextOverflow
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.prompts import estimated_tokens
from picoclaw.window import given_up, request_bytes, room, tool_bytes

BRIDGE = "…"
"""Stands where a server wants a word and nobody said any."""


def treated(messages: Iterable[Message], lost: str = "") -> list[Message]:
    """Mend whatever the strictest server would refuse.

    A person has the first word; a person or a tool the last; user and assistant take turns, and each call is followed
    by its result, which is `lost` where there is none. Ids are nine letters and digits, each there only once.
    """
    out: list[Message] = []
    count = 0
    for said, results in _with_results(messages):
        calls = tuple(_sound(call, f"call{count + i:05d}") for i, call in enumerate(said.calls))
        count += len(calls)
        _append(out, said._replace(text=encodable(said.text), calls=calls))
        texts = _paired(said.calls, results, lost)
        out += [Message("tool", encodable(text), call_id=call.id) for call, text in zip(calls, texts, strict=True)]
    if not out or out[-1].role == "assistant":
        _append(out, Message("user", ""))
    return [m if m.text.strip() else m._replace(text="" if m.calls else BRIDGE) for m in out]


def apart(messages: Iterable[Message]) -> list[Message]:
    """Say what a model said along with calls in its next answer instead, for servers that take only one of both."""
    out: list[Message] = []
    held: list[str] = []
    for message in messages:
        if message.calls:
            held.append(message.text)
            out.append(message._replace(text=""))
        elif message.role == "assistant":
            out.append(message._replace(text=_joined(*held, message.text)))
            held.clear()
        else:
            out.append(message)
    return out


def one_by_one(messages: Sequence[Message]) -> list[Message]:
    """Make each of several calls a round of its own, for servers that take only one at once."""
    calls = {call.id: call for message in messages for call in message.calls}
    out: list[Message] = []
    for message in messages:
        if message.role == "tool" and out[-1].role == "tool":
            out.append(Message("assistant", "", (calls[message.call_id],)))
        out.append(message._replace(calls=message.calls[:1]))
    return out


def encodable(text: str) -> str:
    """Replace lone surrogates as the store does, so that a text is the same bytes before and after it was kept."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _with_results(messages: Iterable[Message]) -> list[tuple[Message, list[Message]]]:
    """Everything that was said, each with the results up to the model's next word, also those that came late."""
    said: list[tuple[Message, list[Message]]] = []
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
        elif message.role == "assistant":
            results = []
            said.append((message, results))
        else:
            said.append((Message("user", message.text, images=message.images), []))
    return said


def _paired(calls: Sequence[ToolCall], results: Iterable[Message], lost: str) -> Iterator[str]:
    """Each call's result: the first with its id, or one whose id names no call; a second result is left out."""
    found: dict[int, str] = {}
    nameless: list[str] = []
    for result in results:
        same = [i for i, call in enumerate(calls) if call.id == result.call_id]
        if not same:
            nameless.append(result.text)
        elif free := [i for i in same if i not in found]:
            found[free[0]] = result.text
    rest = iter(nameless)
    return (found[i] if i in found else next(rest, lost) for i in range(len(calls)))


def _append(out: list[Message], said: Message) -> None:
    """Let user and assistant take turns: join two of one role, and put a bridge where the other's word is missing."""
    before = out[-1].role if out else ""
    if before == said.role:
        earlier = out.pop()
        said = said._replace(text=_joined(earlier.text, said.text), images=earlier.images + said.images)
    elif not before and said.role == "assistant":
        out.append(Message("user", ""))
    elif before == "tool" and said.role == "user":
        out.append(Message("assistant", ""))
    out.append(said)


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _sound(call: ToolCall, number: str) -> ToolCall:
    """Give a call a name and arguments that every server reads; what cannot be sent goes back as an empty object."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name) or "unnamed"
    if not re.match(r"[a-zA-Z_]", name):
        name = f"_{name}"
    return ToolCall(number, name[:64], _object(call.arguments))


def _object(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        return {}
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return {}
    sound = encodable(text)
    return arguments if sound == text else dict(json.loads(sound))


# Makes a request fit a smaller window than it was made for: by older turns, then by tools that matter less. Pure.

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
