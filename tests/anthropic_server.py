"""A server on a real socket that speaks Anthropic's Messages, and refuses with 400 what theirs refuses.

    with AnthropicServer([said("It is 21 °C.")]) as server:
        Anthropic(ModelConfig(base_url=server.url, api="anthropic")) ...
        server.requests, server.refused

Its rules and words are those of the API's reference, its page of errors, and its errors as they are reported.
"""

import base64
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from model_server import Answer, Exchange, Json, ModelServer, status

_PARTS = {
    "text": {"type", "text", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_BY_ROLE = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
_TOP = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "temperature"}
_MAGIC = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n", "image/gif": b"GIF8", "image/webp": b"RIFF"}
_THOUGHTS = {"thinking", "redacted_thinking"}


def complaints(body: Any) -> list[str]:
    """What the server refuses a body for; the shape first, since the rest relies on it."""
    return list(_shape(body)) or [*_talk(body["messages"]), *_thoughts(body["messages"]), *_tools(body)]


def _shape(body: Any) -> Iterator[str]:
    yield from (f"{name}: Extra inputs are not permitted" for name in sorted(set(body) - _TOP))
    yield from (f"{name}: Field required" for name in ("model", "max_tokens", "messages") if name not in body)
    if not 0 <= body.get("temperature", 1) <= 1:
        yield "temperature: range: 0..1"
    system = body.get("system", "x")
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    yield from (f"system.{i}: {wrong}" for i, block in enumerate(blocks) if (wrong := _block(block, {"text"})))
    if json.dumps(body).count('"cache_control":') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."
    for i, message in enumerate(body.get("messages", [])):
        if set(message) != {"role", "content"} or message["role"] not in _BY_ROLE:
            yield f"messages.{i}: Input should be 'user' or 'assistant'"
        elif not isinstance(message["content"], list) or not message["content"]:
            yield f"messages.{i}: all messages must have non-empty content"
        else:
            allowed = _BY_ROLE[message["role"]]
            yield from (
                f"messages.{i}.content.{j}: {wrong}"
                for j, block in enumerate(message["content"])
                if (wrong := _block(block, allowed))
            )


def _block(block: Json, allowed: set[str]) -> str:
    kind = block.get("type")
    if kind not in allowed:
        return f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
    if extra := set(block) - _PARTS[kind]:
        return f"{kind}.{min(extra)}: Extra inputs are not permitted"
    if kind == "text" and not block["text"].strip():
        return "text content blocks must contain non-whitespace text"
    if kind == "tool_use":
        return "" if isinstance(block["input"], dict) else "tool_use.input: Input should be a valid dictionary"
    return _image(block["source"]) if kind == "image" else ""


def _image(source: Json) -> str:
    data = base64.b64decode(source["data"], validate=True)
    if len(source["data"]) > 5 * 1024 * 1024:
        return f"image exceeds 5 MB maximum: {len(source['data'])} bytes > 5242880 bytes"
    fits = data.startswith(_MAGIC.get(source["media_type"], b"\0"))
    return "" if fits else f"The image was specified using the {source['media_type']} media type, but appears not to be"


def _talk(messages: list[Json]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    if messages[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    for before, after in itertools.pairwise(messages):
        if before["role"] == after["role"]:
            yield 'messages: roles must alternate between "user" and "assistant"'
    yield from _pairs(messages)


def _pairs(messages: list[Json]) -> Iterator[str]:
    called: list[str] = []
    for i, message in enumerate(messages):
        asked = called if message["role"] == "user" else []
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if missing := [number for number in asked if number not in results]:
            yield f"messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        if any(number not in asked for number in results):
            yield f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks"
        if len(results) != len(set(results)):
            yield "each tool_use must have a single result. Found multiple `tool_result` blocks"
        called = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
    numbers = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]
    if len(numbers) != len(set(numbers)):
        yield "messages: `tool_use` ids must be unique"
    yield from (
        f"tool_use.id: '{n}' should match '^[a-zA-Z0-9_-]+$'" for n in numbers if not re.fullmatch(r"[\w-]+", n)
    )


def signature(thought: str) -> str:
    """What this server signs a thought with."""
    return f"signed {len(thought)} {thought[::-1]}"


def _thoughts(messages: list[Json]) -> Iterator[str]:
    for i, message in enumerate(messages):
        kinds = [block["type"] for block in message["content"]]
        if _THOUGHTS & set(kinds) and kinds[0] not in _THOUGHTS:
            yield f"messages.{i}.content.0: the first block must be `thinking` or `redacted_thinking`"
        for block in message["content"]:
            if block["type"] == "thinking" and block["signature"] != signature(block["thinking"]):
                yield f"messages.{i}: Invalid `signature` in `thinking` block"


def _tools(body: Json) -> Iterator[str]:
    if body.get("tool_choice") and not body.get("tools"):
        yield "tool_choice may only be specified while providing tools"
    for i, tool in enumerate(body.get("tools", [])):
        if not {"name", "input_schema"} <= set(tool) <= {"name", "description", "input_schema", "cache_control"}:
            yield f"tools.{i}: Extra inputs are not permitted"
        elif tool["input_schema"].get("type") != "object":
            yield f"tools.{i}.custom.input_schema.type: Field required"
        elif not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            yield f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"


def unthinking(body: Json) -> list[str]:
    """What a model that always thinks refuses besides: calls of the present turn without the thought before them."""
    last = next((m["content"] for m in reversed(body["messages"]) if m["role"] == "assistant"), [])
    calls = any(block["type"] == "tool_use" for block in last)
    in_turn = body["messages"][-1]["content"][0]["type"] == "tool_result"
    if calls and in_turn and last[0]["type"] not in _THOUGHTS:
        return ["Expected `thinking` or `redacted_thinking`, but found `tool_use`."]
    return []


# Answers


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(name: str, given: Json | None = None, number: str = "toolu_01") -> Json:
    return {"type": "tool_use", "id": number, "name": name, "input": given or {}}


def thought(words: str) -> Json:
    return {"type": "thinking", "thinking": words, "signature": signature(words)}


def whole(*blocks: Json, stop: str = "", usage: Json | None = None) -> Json:
    """The message of an answer that is not streamed."""
    reason = stop or ("tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn")
    counted = usage or {"input_tokens": 7, "output_tokens": 3}
    told = {"stop_reason": reason, "stop_sequence": None, "usage": counted}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(blocks)} | told


def stream(message: Json, pieces: int = 4) -> list[Json]:
    """The events of the same answer, in pieces of so many characters."""
    started = message | {"content": [], "stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
    out: list[Json] = [{"type": "message_start", "message": started}]
    for index, block in enumerate(message["content"]):
        empty, deltas = _cut(block, pieces)
        out.append({"type": "content_block_start", "index": index, "content_block": empty})
        out.append({"type": "ping"})
        out += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        out.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    counted = {"output_tokens": message["usage"].get("output_tokens", 0)}
    return [*out, {"type": "message_delta", "delta": ended, "usage": counted}, {"type": "message_stop"}]


def _cut(block: Json, size: int) -> tuple[Json, list[Json]]:
    def parts(words: str) -> Iterable[str]:
        return (words[i : i + size] for i in range(0, len(words), size))

    match block["type"]:
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": part} for part in parts(block["text"])]
        case "tool_use":
            written = json.dumps(block["input"]) if block["input"] else ""
            pieces = ["", *parts(written)]
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in pieces]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts(block["thinking"])]
            return block | {"thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case _:
            return block, []


def said(*blocks: Json | str, stop: str = "", usage: Json | None = None, streams: bool | None = None) -> Answer:
    """A good answer; a text stands for a block of it."""
    message = whole(*(text(b) if isinstance(b, str) else b for b in blocks), stop=stop, usage=usage)

    def answer(exchange: Exchange) -> None:
        if exchange.streams if streams is None else streams:
            events(*stream(message))(exchange)
        else:
            exchange.whole(json.dumps(message).encode())

    return answer


def events(*parts: Json) -> Answer:
    """Server-sent events with their names, as this server sends them."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for part in parts:
            exchange.piece(f"event: {part['type']}\ndata: {json.dumps(part)}\n\n".encode())
        exchange.finish()

    return answer


def refusal(code: int, kind: str, words: str, **headers: str) -> Answer:
    """An error answer."""
    error = {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}
    return status(code, error, **headers)


class AnthropicServer(ModelServer):
    """Answers by a script what it takes, and refuses the rest; `refused` are the complaints so far."""

    def __init__(self, script: Iterable[Answer], *, thinks: bool = False) -> None:
        self.refused: list[str] = []
        self._answers = iter(script)
        self._thinks = thinks
        super().__init__(self._judged)

    def _judged(self, body: Any) -> Answer:
        wrong = complaints(body) or (unthinking(body) if self._thinks else [])
        self.refused += wrong
        over = refusal(501, "api_error", "the script has no further answer")
        return refusal(400, "invalid_request_error", wrong[0]) if wrong else next(self._answers, over)
