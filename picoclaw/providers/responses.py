"""OpenAI's Responses format, which some of its models speak alone. Pure translation: no network, no clock.

What a server sends becomes the chunks of chat completions, so that one AnswerAssembler makes the events of both. Nothing
is kept by the server (`store: false`): its thoughts come back encrypted, and go to it again while calls of its are open.
Source: https://platform.openai.com/docs/api-reference/responses and .../responses-streaming.
"""

import json
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from picoclaw.config.tables import ModelConfig
from picoclaw.messages import Request
from picoclaw.providers.openai import COMPLETE_CHUNK, THOUGHT_FIELD, build_chunk, get_dict, get_index
from picoclaw.providers.retry import make_error
from picoclaw.providers.sanitize import sanitize_history
from picoclaw.security.untrusted import wrap_result
from picoclaw.text import escape_control_tokens

THOUGHTS = "reasoning"
_OPTIONAL = ("temperature", "include", THOUGHTS, "store", "text")
"""What a server may refuse of a body and be sent without, by the word that it then says."""

_ERROR_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "server_error": 500,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
}


def build_responses_body(
    request: Request,
    model: str,
    *,
    stream: bool,
    temperature: float | None = None,
    images: bool = False,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Build the JSON body; what stays the same comes first, then the messages, and last what ends a turn."""
    name = request.model or model
    out: dict[str, Any] = {"model": name, "max_output_tokens": request.answer_tokens, "store": False}
    out["include"] = ["reasoning.encrypted_content"]
    if temperature is not None:
        out["temperature"] = temperature
    if stream:
        out["stream"] = True
    if request.system.strip():
        out["instructions"] = escape_control_tokens(request.system)
    if request.tools:
        out["tools"] = [
            {"type": "function", **tool, "description": escape_control_tokens(tool["description"]), "strict": False}
            for tool in request.tools
        ]
    if request.schema:
        out["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": request.schema}}
    out["input"] = list(_build_items(request, name if THOUGHTS not in without else "", images=images))
    if request.tools and not request.calls:
        out["tool_choice"] = "none"
    return {key: value for key, value in out.items() if key not in without}


def _build_items(request: Request, thinker: str, *, images: bool) -> Iterator[dict[str, Any]]:
    """Write the conversation, treated: messages, calls and results are items in a row, and so is what was thought."""
    talk = sanitize_history(request.messages, request.lost)
    calls = {call.id: call for message in talk for call in message.calls}
    for message in talk:
        text = escape_control_tokens(message.text)
        if message.role == "tool":
            shown = escape_control_tokens(wrap_result(request.untrusted, calls[message.call_id], message.text))
            yield {"type": "function_call_output", "call_id": message.call_id, "output": shown}
            continue
        if message.role == "user":
            shown_images = message.images if images else ()
            yield {"role": "user", "content": [*map(_build_image, shown_images), {"type": "input_text", "text": text}]}
            continue
        if message.thought.by == thinker:
            yield from (part for part in message.thought.parts if part.get("type") == THOUGHTS)
        if text.strip():
            yield {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for call in message.calls:
            arguments = escape_control_tokens(json.dumps(call.arguments, ensure_ascii=False))
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _build_image(image: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:{image.kind};base64,{b64encode(image.data).decode()}"}


def read_chunks(objects: Iterator[Any]) -> Iterator[Any]:
    """Turn the events of a stream, or a whole response, into chunks. Raises ProviderError for an error."""
    has_calls, spoken = False, set[Any]()
    for item in objects:
        if not isinstance(item, dict) or item is COMPLETE_CHUNK:
            yield item  # the AnswerAssembler says what is wrong with it
            continue
        kind, index = str(item.get("type") or ""), get_index(item, "output_index")
        if kind in {"response.output_text.delta", "response.refusal.delta"}:
            spoken.add(index)
            yield build_chunk({"content": item.get("delta")})
        elif kind == "response.output_item.added" and get_dict(item.get("item")).get("type") == "function_call":
            has_calls = True
            yield _build_call_chunk(index, item["item"], "")
        elif kind == "response.function_call_arguments.delta":
            spoken.add(index)
            yield _build_call_chunk(index, {}, item.get("delta"))
        elif kind == "response.output_item.done":
            yield from _read_item(index, get_dict(item.get("item")), begun=has_calls, spoken=index in spoken)
        elif kind == "error":
            raise _make_error(item)
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            yield from _read_end(get_dict(item.get("response")), has_calls=has_calls)
            yield COMPLETE_CHUNK
        elif item.get("object") == "response":
            output = item.get("output")
            for place, part in enumerate(output if isinstance(output, list) else []):
                has_calls = has_calls or get_dict(part).get("type") == "function_call"
                yield from _read_item(place, get_dict(part), begun=False, spoken=False)
            yield from _read_end(item, has_calls=has_calls)
        elif not kind:
            yield item


def _read_item(index: int, item: dict[str, Any], *, begun: bool, spoken: bool) -> Iterator[Any]:
    """A whole item: a thought, and of the others what no delta has told before."""
    kind = item.get("type")
    if kind == THOUGHTS:
        yield build_chunk({THOUGHT_FIELD: {name: item[name] for name in item if name != "status"}})
    elif kind == "function_call" and not spoken:
        yield _build_call_chunk(index, {} if begun else item, item.get("arguments"))
    elif kind == "message" and not spoken:
        content = item.get("content")
        parts = map(get_dict, content if isinstance(content, list) else [])
        yield from (build_chunk({"content": part.get("text") or part.get("refusal")}) for part in parts)


def _read_end(response: dict[str, Any], *, has_calls: bool) -> Iterator[Any]:
    if response.get("status") == "failed" or response.get("error"):
        raise _make_error(get_dict(response.get("error")))
    reason = get_dict(response.get("incomplete_details")).get("reason")
    finish = {"max_output_tokens": "length"}.get(str(reason), reason) if reason else None
    counts = get_dict(response.get("usage"))
    usage = {
        "prompt_tokens": counts.get("input_tokens"),
        "completion_tokens": counts.get("output_tokens"),
        "prompt_tokens_details": counts.get("input_tokens_details"),
        "completion_tokens_details": counts.get("output_tokens_details"),
    }
    yield {"choices": [{"finish_reason": finish or ("tool_calls" if has_calls else "stop")}], "usage": usage}


def _make_error(error: dict[str, Any]) -> Exception:
    return make_error(_ERROR_STATUSES.get(str(error.get("code")), 0), {"error": error})


def _build_call_chunk(index: int, call: dict[str, Any], arguments: Any) -> dict[str, Any]:
    known = {"id": call.get("call_id") or call.get("id")} if call else {}
    function = {"name": call.get("name")} if call else {}
    return build_chunk({"tool_calls": [{"index": index, **known, "function": function | {"arguments": arguments}}]})


class ResponsesFormat:
    """The format of responses, and what one server has turned out not to know; its methods are CompletionsFormat's."""

    def __init__(self) -> None:
        self._without: set[str] = set()
        self._sent: set[str] = set()

    def url(self, base_url: str) -> str:
        return f"{base_url}/responses"

    def headers(self, _key: str) -> Mapping[str, str] | None:
        return None

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        body = build_responses_body(
            request,
            model.name or "default",
            stream=model.stream,
            temperature=request.temperature if model.temperature is None else model.temperature,
            images=model.images,
            without=self._without,
        )
        thought = any(item.get("type") == THOUGHTS for item in body["input"])
        self._sent = {name for name in _OPTIONAL if name in body} | ({THOUGHTS} if thought else set())
        return body

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        return read_chunks(objects)

    def adapt(self, error: str) -> bool:
        refused = {word for word in self._sent if f"{word}" in error and len(word) > len("text")}
        refused |= {"text"} & self._sent if "json_schema" in error or "text.format" in error else set()
        self._without |= refused
        return bool(refused)
