"""Treats a conversation before each request, so that no server refuses it, and no broken turn breaks the next.

Our words in, our words out: what a provider translates afterwards is sound. What a person said is never left out; of
the rest only results that belong to no call. A sound conversation is changed in nothing but its calls' ids, and one
that grew by a message begins as it did before, so that a server's cache of it stays good.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from picoclaw.messages import Message, ToolCall

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
