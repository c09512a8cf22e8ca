"""Anthropic's Messages format, to and from our words. Pure translation: no network, no clock.

What a server sends becomes the chunks of chat completions, so that one Assembler makes one list of events of both.
Source: https://platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import Image, Message, Request, ToolCall
from picoclaw.providers import Zone
from picoclaw.providers.http import Server
from picoclaw.providers.openai_wire import COMPLETE, THOUGHT
from picoclaw.providers.retry import failure, status_of_type
from picoclaw.providers.sanitize import treated
from picoclaw.security.untrusted import wrap_result
from picoclaw.text import escape_control_tokens

CACHED, THINKING, TEMPERATURE = "cache_control", "thinking", "temperature"

_WARMEST = 1.0
_THOUGHTS = {"thinking", "redacted_thinking"}
_ENDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""What a prompt consists of; each counts its own part of it."""


def body(
    request: Request,
    model: str,
    *,
    stream: bool,
    temperature: float | None = None,
    images: bool = False,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Build the JSON body; what stays the same comes first, then the messages, and last what ends a turn.

    `model` is used where the request names none; `images` when it is shown pictures, `without` are what `optional`
    names and this server has refused. What comes before the messages is marked to be cached: a turn with a tool asks
    twice.
    """
    name = request.model or model
    out: dict[str, Any] = {"model": name, "max_tokens": request.answer_tokens}
    if temperature is not None and TEMPERATURE not in without:
        out["temperature"] = min(temperature, _WARMEST)
    if stream:
        out["stream"] = True
    if request.tools:
        out["tools"] = list(map(_tool, request.tools))
    if request.system.strip():
        out["system"] = _system(
            escape_control_tokens(request.system), cached=bool(request.tools) and CACHED not in without
        )
    out["messages"] = list(_messages(request, name if THINKING not in without else "", images=images))
    return out if request.calls or not request.tools else out | {"tool_choice": {"type": "none"}}


def optional(body: Mapping[str, Any]) -> set[str]:
    """Name what a server may refuse of a body and be sent without, by the word that it then says."""
    thought = any(block["type"] in _THOUGHTS for message in body["messages"] for block in message["content"])
    found = {TEMPERATURE: TEMPERATURE in body, CACHED: isinstance(body.get("system"), list), THINKING: thought}
    return {word for word, sent in found.items() if sent}


def _tool(definition: Mapping[str, Any]) -> dict[str, Any]:
    told = escape_control_tokens(definition["description"])
    return {"name": definition["name"], "description": told, "input_schema": definition["parameters"]}


def _system(text: str, *, cached: bool) -> Any:
    return [{"type": "text", "text": text, CACHED: {"type": "ephemeral"}}] if cached else text


def _messages(request: Request, thinker: str, *, images: bool) -> Iterator[dict[str, Any]]:
    """Write the conversation, treated: results are the user's, and those of one round are one message."""
    talk = treated(request.messages, request.lost)
    calls = {call.id: call for message in talk for call in message.calls}
    for role, group in groupby(talk, key=lambda message: "assistant" if message.role == "assistant" else "user"):
        blocks = [
            block
            for message in group
            for block in (
                _said(message, thinker)
                if role == "assistant"
                else _heard(message, calls, request.untrusted, images=images)
            )
        ]
        yield {"role": role, "content": blocks}


def _said(message: Message, thinker: str) -> Iterator[dict[str, Any]]:
    """A model's blocks: its own thoughts as they came, else their signature would not hold; text; calls."""
    if message.thought.by == thinker:
        yield from (part for part in message.thought.parts if part.get("type") in _THOUGHTS)
    if message.text.strip():
        yield {"type": "text", "text": escape_control_tokens(message.text)}
    for call in message.calls:
        arguments = json.loads(escape_control_tokens(json.dumps(call.arguments, ensure_ascii=False)))
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _heard(
    message: Message, calls: Mapping[str, ToolCall], untrusted: str, *, images: bool
) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        text = escape_control_tokens(wrap_result(untrusted, calls[message.call_id], message.text))
        yield {"type": "tool_result", "tool_use_id": message.call_id, "content": text}
        return
    yield from map(_image, message.images if images else ())
    yield {"type": "text", "text": escape_control_tokens(message.text)}


def _image(image: Image) -> dict[str, Any]:
    data = b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.kind, "data": data}}


def chunks(objects: Iterator[Any]) -> Iterator[Any]:
    """Turn the events of a stream, or the message of a whole answer, into chunks. Raises ProviderError for an error."""
    reader = _Reader()
    for item in objects:
        kind = item.get("type") if isinstance(item, dict) and item is not COMPLETE else None
        read = _READ.get(kind) if isinstance(kind, str) else None
        if read:
            yield from read(reader, item)
        elif kind is None:
            yield item  # the Assembler says what is wrong with it


@dataclass(slots=True)
class _Block:
    """A block of content on its way; `given` are arguments that came with its beginning."""

    content: dict[str, Any]
    given: Any = None


@dataclass(slots=True)
class _Reader:
    """What has to be remembered from one event to the next."""

    blocks: dict[int, _Block] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def message_start(self, event: dict[str, Any]) -> Iterator[Any]:
        message = _dict(event.get("message"))
        yield {"choices": [], "usage": self._usage(message)}

    def block_start(self, event: dict[str, Any]) -> Iterator[Any]:
        block, index = _dict(event.get("content_block")), _index(event)
        kind = str(block.get("type"))
        if kind == "text" and block.get("text"):
            yield _delta({"content": block["text"]})
        elif kind == "tool_use":
            self.blocks[index] = _Block(block, block.get("input") or None)
            yield _call(index, id=block.get("id"), function={"name": block.get("name")})
        elif kind in _THOUGHTS:
            self.blocks[index] = _Block(dict(block))

    def block_delta(self, event: dict[str, Any]) -> Iterator[Any]:
        delta, index = _dict(event.get("delta")), _index(event)
        block = self.blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                yield _delta({"content": delta.get("text")})
            case "input_json_delta" if delta.get("partial_json"):
                if block:
                    block.given = None
                yield _call(index, function={"arguments": delta["partial_json"]})
            case "thinking_delta" | "signature_delta" if block:
                name = "thinking" if delta["type"] == "thinking_delta" else "signature"
                block.content[name] = f"{block.content.get(name) or ''}{delta.get(name) or ''}"

    def block_stop(self, event: dict[str, Any]) -> Iterator[Any]:
        index = _index(event)
        block = self.blocks.pop(index, None)
        if block and block.given is not None:
            yield _call(index, function={"arguments": block.given})
        elif block and block.content.get("type") in _THOUGHTS:
            yield _delta({THOUGHT: block.content})

    def message_delta(self, event: dict[str, Any]) -> Iterator[Any]:
        yield self._end(_dict(event.get("delta")), event)

    def message_stop(self, _: dict[str, Any]) -> Iterator[Any]:
        yield COMPLETE

    def message(self, whole: dict[str, Any]) -> Iterator[Any]:
        content = whole.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self.block_start({"index": index, "content_block": block})
            yield from self.block_stop({"index": index})
        yield self._end(whole, whole)

    def error(self, event: dict[str, Any]) -> Iterator[Any]:
        raise failure(status_of_type(event.get("error")), event)

    def _end(self, ended: dict[str, Any], counted: dict[str, Any]) -> dict[str, Any]:
        reason = ended.get("stop_reason")
        finish = _ENDS.get(reason, reason) if isinstance(reason, str) else None
        return {"choices": [{"finish_reason": finish}], "usage": self._usage(counted)}

    def _usage(self, told: dict[str, Any]) -> dict[str, int]:
        """Sum up what has been counted so far; a later count of the same takes the place of the earlier."""
        counts = _dict(told.get("usage"))
        self.counts |= {name: count for name, count in counts.items() if _is_count(count)}
        prompt = sum(self.counts.get(name, 0) for name in _COUNTED)
        return {"prompt_tokens": prompt, "completion_tokens": self.counts.get("output_tokens", 0)}


_READ: dict[str, Callable[[_Reader, dict[str, Any]], Iterator[Any]]] = {
    "message_start": _Reader.message_start,
    "content_block_start": _Reader.block_start,
    "content_block_delta": _Reader.block_delta,
    "content_block_stop": _Reader.block_stop,
    "message_delta": _Reader.message_delta,
    "message_stop": _Reader.message_stop,
    "message": _Reader.message,
    "error": _Reader.error,
}
"""By the type of what comes; others, such as `ping`, say nothing."""


def _delta(part: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": part}]}


def _call(index: int, **piece: Any) -> dict[str, Any]:
    return _delta({"tool_calls": [{"index": index, **piece}]})


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Any server that speaks Anthropic's Messages API: their own, gateways, and local servers that speak it beside others.
#
# Source: https://platform.claude.com/docs/en/api/overview.

_VERSION = "2023-06-01"


class Anthropic(Server):
    """A provider that asks such a server."""

    def __init__(self, model: ModelConfig, key: str = "", zone: Zone = lambda: None) -> None:
        """See Server."""
        super().__init__(Messages(), model, key, zone)


class Messages:
    """The format of messages, as one server wants it."""

    kind = "anthropic"

    def __init__(self) -> None:
        """Nothing is known of the server yet."""
        self._without: set[str] = set()
        self._sent: set[str] = set()

    def url(self, base_url: str) -> str:
        """See Format; most name the address without the version, as for Anthropic's own libraries."""
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        """See Format."""
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        """See Format."""
        body_ = body(
            request,
            model.name or "default",
            stream=model.stream,
            temperature=model.temperature,
            images=model.images,
            without=self._without,
        )
        self._sent = optional(body_)
        return body_

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        """See Format."""
        return chunks(objects)

    def adapted(self, said: str) -> bool:
        """See Format."""
        away = {word for word in self._sent if word in said}
        self._without |= away
        return bool(away)
