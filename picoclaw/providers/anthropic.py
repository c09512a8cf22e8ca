"""Anthropic's Messages format, which gateways and local servers speak as well. Pure translation: no network, no clock.

What a server sends becomes the chunks of chat completions, so that one AnswerAssembler makes the events of both.
Source: https://platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from typing import Any

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.providers.openai import COMPLETE_CHUNK, THOUGHT_FIELD, ServerFormat, build_chunk, get_dict, get_index
from picoclaw.providers.retry import get_type_status, make_error
from picoclaw.providers.sanitize import sanitize_history
from picoclaw.records import dataclass
from picoclaw.security.untrusted import wrap_result
from picoclaw.text import escape_control_tokens

CACHED, THINKING, TEMPERATURE = "cache_control", "thinking", "temperature"

_VERSION = "2023-06-01"
_MAX_TEMPERATURE = 1.0
_THINKING_TYPES = {"thinking", "redacted_thinking"}
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""What a prompt consists of; each counts its own part of it."""


def build_messages_body(
    request: Request,
    model: str,
    *,
    stream: bool,
    temperature: float | None = None,
    images: bool = False,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Build the JSON body; what stays the same comes first, then the messages, and last what ends a turn.

    `model` is used where the request names none; `images` when it is shown pictures; `without` are the optional parts
    that this server has refused. What comes before the messages is marked to be cached: a turn with a tool asks
    twice.
    """
    name = request.model or model
    out: dict[str, Any] = {"model": name, "max_tokens": request.answer_tokens}
    if temperature is not None and TEMPERATURE not in without:
        out["temperature"] = min(temperature, _MAX_TEMPERATURE)
    if stream:
        out["stream"] = True
    if request.tools:
        out["tools"] = [
            {
                "name": tool["name"],
                "description": escape_control_tokens(tool["description"]),
                "input_schema": tool["parameters"],
            }
            for tool in request.tools
        ]
    if request.system.strip():
        text = escape_control_tokens(request.system)
        is_cached = bool(request.tools) and CACHED not in without
        out["system"] = [{"type": "text", "text": text, CACHED: {"type": "ephemeral"}}] if is_cached else text
    out["messages"] = list(_build_messages(request, name if THINKING not in without else "", images=images))
    return out if request.calls or not request.tools else out | {"tool_choice": {"type": "none"}}


def find_optional_fields(body: Mapping[str, Any]) -> set[str]:
    """Name what a server may refuse of a body and be sent without, by the word that it then says."""
    thought = any(block["type"] in _THINKING_TYPES for message in body["messages"] for block in message["content"])
    found = {TEMPERATURE: TEMPERATURE in body, CACHED: isinstance(body.get("system"), list), THINKING: thought}
    return {word for word, sent in found.items() if sent}


def _build_messages(request: Request, thinker: str, *, images: bool) -> Iterator[dict[str, Any]]:
    """Write the conversation, treated: results are the user's, and those of one round are one message."""
    talk = sanitize_history(request.messages, request.lost)
    calls = {call.id: call for message in talk for call in message.calls}
    for role, group in groupby(talk, key=lambda message: "assistant" if message.role == "assistant" else "user"):
        blocks: list[dict[str, Any]] = []
        for message in group:
            if role == "assistant":
                blocks += _build_assistant_blocks(message, thinker)
            else:
                blocks += _build_user_blocks(message, calls, request.untrusted, images=images)
        yield {"role": role, "content": blocks}


def _build_assistant_blocks(message: Message, thinker: str) -> Iterator[dict[str, Any]]:
    """A model's blocks: its own thoughts as they came, else their signature would not hold; text; calls."""
    if message.thought.by == thinker:
        yield from (part for part in message.thought.parts if part.get("type") in _THINKING_TYPES)
    if message.text.strip():
        yield {"type": "text", "text": escape_control_tokens(message.text)}
    for call in message.calls:
        arguments = json.loads(escape_control_tokens(json.dumps(call.arguments, ensure_ascii=False)))
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _build_user_blocks(
    message: Message, calls: Mapping[str, ToolCall], untrusted: str, *, images: bool
) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        text = escape_control_tokens(wrap_result(untrusted, calls[message.call_id], message.text))
        yield {"type": "tool_result", "tool_use_id": message.call_id, "content": text}
        return
    for image in message.images if images else ():
        data = b64encode(image.data).decode()
        yield {"type": "image", "source": {"type": "base64", "media_type": image.kind, "data": data}}
    yield {"type": "text", "text": escape_control_tokens(message.text)}


def read_chunks(objects: Iterator[Any]) -> Iterator[Any]:
    """Turn the events of a stream, or the message of a whole answer, into chunks. Raises ProviderError for an error."""
    reader = _Reader()
    for item in objects:
        kind = item.get("type") if isinstance(item, dict) and item is not COMPLETE_CHUNK else None
        read = _EVENT_READERS.get(kind) if isinstance(kind, str) else None
        if read:
            yield from read(reader, item)
        elif kind is None:
            yield item  # the AnswerAssembler says what is wrong with it


@dataclass
class _Block:
    """A block of content on its way; `given` are arguments that came with its beginning."""

    content: dict[str, Any]
    given: Any = None


class _Reader:
    """What has to be remembered from one event to the next."""

    def __init__(self) -> None:
        self.blocks: dict[int, _Block] = {}
        self.counts: dict[str, int] = {}

    def message_start(self, event: dict[str, Any]) -> Iterator[Any]:
        message = get_dict(event.get("message"))
        yield {"choices": [], "usage": self._usage(message)}

    def block_start(self, event: dict[str, Any]) -> Iterator[Any]:
        block, index = get_dict(event.get("content_block")), get_index(event, "index")
        kind = str(block.get("type"))
        if kind == "text" and block.get("text"):
            yield build_chunk({"content": block["text"]})
        elif kind == "tool_use":
            self.blocks[index] = _Block(block, block.get("input") or None)
            yield _build_call_chunk(index, id=block.get("id"), function={"name": block.get("name")})
        elif kind in _THINKING_TYPES:
            self.blocks[index] = _Block(dict(block))

    def block_delta(self, event: dict[str, Any]) -> Iterator[Any]:
        delta, index = get_dict(event.get("delta")), get_index(event, "index")
        block = self.blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                yield build_chunk({"content": delta.get("text")})
            case "input_json_delta" if block and delta.get("partial_json"):  # not those of tools that the server runs
                block.given = None
                yield _build_call_chunk(index, function={"arguments": delta["partial_json"]})
            case "thinking_delta" | "signature_delta" if block:
                name = "thinking" if delta["type"] == "thinking_delta" else "signature"
                block.content[name] = f"{block.content.get(name) or ''}{delta.get(name) or ''}"

    def block_stop(self, event: dict[str, Any]) -> Iterator[Any]:
        index = get_index(event, "index")
        block = self.blocks.pop(index, None)
        if block and block.given is not None:
            yield _build_call_chunk(index, function={"arguments": block.given})
        elif block and block.content.get("type") in _THINKING_TYPES:
            yield build_chunk({THOUGHT_FIELD: block.content})

    def message_delta(self, event: dict[str, Any]) -> Iterator[Any]:
        yield self._end(get_dict(event.get("delta")), event)

    def message_stop(self, _: dict[str, Any]) -> Iterator[Any]:
        yield COMPLETE_CHUNK

    def message(self, whole: dict[str, Any]) -> Iterator[Any]:
        content = whole.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self.block_start({"index": index, "content_block": block})
            yield from self.block_stop({"index": index})
        yield self._end(whole, whole)

    def error(self, event: dict[str, Any]) -> Iterator[Any]:
        raise make_error(get_type_status(event.get("error")), event)

    def _end(self, ended: dict[str, Any], counted: dict[str, Any]) -> dict[str, Any]:
        reason = ended.get("stop_reason")
        finish = _FINISH_REASONS.get(reason, reason) if isinstance(reason, str) else None
        return {"choices": [{"finish_reason": finish}], "usage": self._usage(counted)}

    def _usage(self, told: dict[str, Any]) -> dict[str, Any]:
        """Sum up what has been counted so far; a later count of the same takes the place of the earlier."""
        counts = get_dict(told.get("usage"))
        self.counts |= {name: count for name, count in counts.items() if type(count) is int and count >= 0}
        prompt = sum(self.counts.get(name, 0) for name in _INPUT_COUNTS)
        cached = {"cached_tokens": self.counts.get("cache_read_input_tokens", 0)}
        completion = self.counts.get("output_tokens", 0)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": cached}


_EVENT_READERS: dict[str, Callable[[_Reader, dict[str, Any]], Iterator[Any]]] = {
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


def _build_call_chunk(index: int, **piece: Any) -> dict[str, Any]:
    return build_chunk({"tool_calls": [{"index": index, **piece}]})


class MessagesFormat(ServerFormat):
    """The format of messages, and what one server has turned out not to know."""

    def url(self, base_url: str) -> str:
        """Most name the address without the version, as for Anthropic's own libraries."""
        return f"{base_url.removesuffix('/v1')}/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        body = build_messages_body(**self._list_arguments(request, model), without=self._without)
        self._sent = find_optional_fields(body)
        return body

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        return read_chunks(objects)

    def adapt(self, error: str) -> bool:
        return self._leave_out({word for word in self._sent if word in error})
