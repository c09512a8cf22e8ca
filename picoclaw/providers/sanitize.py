"""Treats a conversation before each request, so that no server refuses it, and no broken turn breaks the next.

Our words in, our words out: what a provider translates afterwards is sound. What a person said is never left out; of
the rest only results that belong to no call. A sound conversation is changed in nothing but its calls' ids, and one
that grew by a message begins as it did before, so that a server's cache of it stays good.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from zlib import crc32

from picoclaw.errors import ContextOverflow
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.prompts import (
    MCP_JOINT,
    NewestResults,
    choose_dropped,
    count_request_bytes,
    count_tool_bytes,
    estimate_tokens,
    split_window,
)
from picoclaw.records import replace
from picoclaw.text import pattern

FILLER_TEXT = "…"
"""Stands where a server wants a word and nobody said any."""


_MAX_NAME_CHARS = 64
_SOUND_NAME = pattern(r"[a-zA-Z_][a-zA-Z0-9_-]*")
_ENCODE_STRICTLY = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def sanitize_history(messages: Iterable[Message], lost: str = "", newest: NewestResults | None = None) -> list[Message]:
    """Repair whatever the strictest server would refuse.

    A person has the first word; a person or a tool the last; user and assistant take turns, and each call is followed
    by its result, which is `lost` where there is none. Ids are nine letters and digits, each there only once. Rounds
    that the request before had as well are taken from its results in `newest`.
    """
    out: list[Message] = []
    count = 0
    get = (newest or NewestResults()).renew(lost)
    for said, results in _collect_results(messages):
        sound: list[Message] = get((said, *results), partial(_repair_round, count, lost), count)
        count += len(sound[0].calls)
        _append_alternating(out, sound[0])
        out += sound[1:]
    if not out or out[-1].role == "assistant":
        _append_alternating(out, Message("user", ""))
    return [m if m.text.strip() else _fill_empty(m) for m in out]


def _repair_round(count: int, lost: str, said: Message, *results: Message) -> list[Message]:
    """What somebody said, and the results of its calls, whose ids go on from `count`."""
    if said.role != "assistant":
        return [Message("user", make_encodable(said.text), images=said.images)]
    calls = tuple(_repair_call(call, f"call{count + i:05d}") for i, call in enumerate(said.calls))
    texts = map(make_encodable, _pair_results(said.calls, results, lost))
    sound = said._replace(text=make_encodable(said.text), calls=calls)
    return [sound, *(Message("tool", text, call_id=call.id) for call, text in zip(calls, texts, strict=True))]


def _fill_empty(message: Message) -> Message:
    text = "" if message.calls else FILLER_TEXT
    return message if message.text == text else message._replace(text=text)


def separate_content_and_calls(messages: Iterable[Message]) -> list[Message]:
    """Say what a model said along with calls in its next answer instead, for servers that take only one of both."""
    out: list[Message] = []
    held: list[str] = []
    for message in messages:
        if message.calls:
            held.append(message.text)
            out.append(message._replace(text=""))
        elif message.role == "assistant":
            out.append(message._replace(text=_join_texts(*held, message.text)))
            held.clear()
        else:
            out.append(message)
    return out


def split_parallel_calls(messages: Sequence[Message]) -> list[Message]:
    """Make each of several calls a round of its own, for servers that take only one at once."""
    calls = {call.id: call for message in messages for call in message.calls}
    out: list[Message] = []
    for message in messages:
        if message.role == "tool" and out[-1].role == "tool":
            out.append(Message("assistant", "", (calls[message.call_id],)))
        out.append(message._replace(calls=message.calls[:1]))
    return out


def make_encodable(text: str) -> str:
    """Replace lone surrogates as the store does, so that a text is the same bytes before and after it was kept."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _collect_results(messages: Iterable[Message]) -> list[tuple[Message, list[Message]]]:
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
            said.append((message, []))
    return said


def _pair_results(calls: Sequence[ToolCall], results: Iterable[Message], lost: str) -> Iterator[str]:
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


def _append_alternating(out: list[Message], said: Message) -> None:
    """Let user and assistant take turns: join two of one role, and put a bridge where the other's word is missing."""
    before = out[-1].role if out else ""
    if before == said.role:
        earlier = out.pop()
        said = said._replace(text=_join_texts(earlier.text, said.text), images=earlier.images + said.images)
    elif not before and said.role == "assistant":
        out.append(Message("user", ""))
    elif before == "tool" and said.role == "user":
        out.append(Message("assistant", ""))
    out.append(said)


def _join_texts(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def encode_tool_names(request: Request) -> tuple[Request, dict[str, str]]:
    """Write the names of MCP servers' tools, which hold a dot, as every server takes them.

    Returns the request, and the names by what they are called there.
    """
    called = (call.name for message in request.messages for call in message.calls)
    dotted = dict.fromkeys(name for name in (*(t["name"] for t in request.tools), *called) if "." in name)
    if not dotted:
        return request, {}
    plain = {name: _encode_name(name) for name in dotted}
    tools = tuple({**one, "name": plain.get(one["name"], one["name"])} for one in request.tools)
    messages = tuple(
        message._replace(calls=tuple(replace(call, name=plain.get(call.name, call.name)) for call in message.calls))
        if message.calls
        else message
        for message in request.messages
    )
    return request._replace(tools=tools, messages=messages), {sent: name for name, sent in plain.items()}


def _encode_name(name: str) -> str:
    """Of two names that would be the same or are too long, each has a number of its own."""
    sent = name.replace(".", MCP_JOINT, 1)
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", sent)
    is_alone = plain == sent and MCP_JOINT not in name and len(plain) <= _MAX_NAME_CHARS
    return plain if is_alone else f"{plain[: _MAX_NAME_CHARS - 9]}_{crc32(name.encode()):08x}"


def _repair_call(call: ToolCall, number: str) -> ToolCall:
    """Give a call a name and arguments that every server reads; what cannot be sent goes back as an empty object."""
    name = call.name
    if not _SOUND_NAME.fullmatch(name):
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", name) or "unnamed"
        name = name if re.match(r"[a-zA-Z_]", name) else f"_{name}"
    arguments: Any = call.arguments
    try:
        text = _ENCODE_STRICTLY(arguments)
        if (sound := make_encodable(text)) != text:
            arguments = json.loads(sound)
    except (ValueError, TypeError, RecursionError):
        arguments = {}
    return ToolCall(number, name[:_MAX_NAME_CHARS], arguments if isinstance(arguments, dict) else {})


# Makes a request fit a smaller window than it was made for: by older turns, then by tools that matter less. Pure.

LONG_RESULT = 4000
"""Bytes of a conversation, about 1,000 tokens: the shortest that a server may have found too long."""

_MIN_BYTES_A_TOKEN = 3.0
"""Bytes a token, because of another model's vocabulary nothing is known."""


def fit_window(request: Request, window: int, answer: int) -> Request:
    """Leave out the oldest turns, and then tools, as far as a window and an answer of so many tokens ask for it.

    It is left out of this request only. Raises ContextOverflow when the present turn does not fit for all that.
    """
    shared = split_window(window, answer)
    most = int(shared.request * _MIN_BYTES_A_TOKEN)
    request = request._replace(answer_tokens=min(request.answer_tokens, shared.answer))
    left = count_request_bytes(request.system, request.messages, request.tools)
    starts = _find_turns(request)
    begin = starts[0]
    for start in starts[1:]:
        if left <= most:
            break
        left -= count_request_bytes("", request.messages[begin:start], ())
        begin = start
    request = request._replace(messages=request.messages[begin:])
    if left > most:  # by tools, in the order in which a small window is spared them
        sizes = {tool["name"]: count_tool_bytes(tool) for tool in request.tools}
        dropped = choose_dropped(sizes, sum(sizes.values()) - (left - most))
        request = request._replace(tools=tuple(tool for tool in request.tools if tool["name"] not in dropped))
        left -= sum(sizes[name] for name in dropped)
    if left > most:
        raise ContextOverflow(
            f"about {estimate_tokens(left, _MIN_BYTES_A_TOKEN)} tokens do not fit its window of {window} (context_tokens)"
        )
    return request


def shorten_request(request: Request) -> Request | None:
    """Leave out the older half of the earlier turns; None when there is none."""
    starts = _find_turns(request)
    return request._replace(messages=request.messages[starts[len(starts) // 2] :]) if len(starts) > 1 else None


def is_long(request: Request) -> bool:
    """Tell whether there are earlier turns, and so much in them that a server may refuse a request because of it."""
    newest = _find_turns(request)[-1]
    return newest > 0 and count_request_bytes("", request.messages[:newest], ()) >= LONG_RESULT


def _find_turns(request: Request) -> list[int]:
    """Where turns begin; words that were said while tools ran begin none."""
    said = request.messages
    begins = [i for i, m in enumerate(said) if i and m.role == "user" and said[i - 1].role != "tool"]
    return [0, *begins]
