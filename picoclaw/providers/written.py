"""A conversation written down as servers of OpenAI's format take it, the strict ones and the odd ones."""

import json
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from picoclaw.chat_markup import neutral
from picoclaw.messages import Image, Message, Request, Thought, ToolCall
from picoclaw.providers.doctor import apart, one_by_one, treated
from picoclaw.untrusted import wrapped

ONE_OF_BOTH, ONE_CALL = "content or tool_calls, but not both", "single tool-calls at once"
SIGNED, REASONED = "thought_signature", "reasoning_content"
WANTS = (ONE_OF_BOTH, ONE_CALL, SIGNED, REASONED)
"""Words by which servers refuse text along with calls, several calls at once, and messages without their thought."""

THOUGHTLESS = "no thoughts"
"""Beside those of WANTS: this server refuses messages along with their thought."""

REASONING = (REASONED, "reasoning")
"""The fields in which servers send what a model thought, and take it back in the turn in which it was thought."""

# What Google names for calls whose signature is not known: https://ai.google.dev/gemini-api/docs/thought-signatures
_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}


class _For(NamedTuple):
    """Whom messages are written for: a model that wants those of WANTS, and may see."""

    model: str
    wants: Collection[str]
    untrusted: str
    images: bool


def written(
    request: Request, wants: Collection[str] = (), *, model: str = "", images: bool = False
) -> list[dict[str, Any]]:
    """Write down a request's messages, treated, for a server that wants those of WANTS.

    Control tokens of chat templates are broken in every text: also in the model's own, because it may repeat what it
    has read in a file. `model` gets its own thoughts back, and `images` when it is shown pictures.
    """
    system = neutral(request.system)
    talk = treated(request.messages, request.lost)
    talk = apart(talk) if ONE_OF_BOTH in wants else talk
    talk = one_by_one(talk) if ONE_CALL in wants else talk
    calls = {call.id: call for message in talk for call in message.calls}
    reader = _For(model, wants, request.untrusted, images)
    said = [_message(message, calls, reader) for message in talk]
    return [{"role": "system", "content": system}, *said] if system.strip() else said


def _message(message: Message, calls: Mapping[str, ToolCall], reader: _For) -> dict[str, Any]:
    """One message; Gemini's server wants a result to name the tool, others do not mind."""
    entry: dict[str, Any] = {"role": message.role}
    text = message.text
    if message.role == "tool":
        call = calls[message.call_id]
        entry |= {"tool_call_id": message.call_id, "name": call.name}
        text = wrapped(reader.untrusted, call, text)
    entry["content"] = neutral(text)
    if message.images and reader.images:
        entry["content"] = [*map(_image, message.images), {"type": "text", "text": neutral(text)}]
    if message.calls:
        entry["tool_calls"] = [_call(call) | (_SIGNATURE if SIGNED in reader.wants else {}) for call in message.calls]
    if message.role == "assistant":
        entry |= _thought(message.thought, reader)
    return entry


def _thought(thought: Thought, reader: _For) -> dict[str, str]:
    """Give a thought back in the field that it came in, as far as the server takes it."""
    if THOUGHTLESS in reader.wants:
        return {}
    parts = thought.parts if thought.by == reader.model else ()
    own = {name: neutral(part[name]) for part in parts for name in REASONING if isinstance(part.get(name), str)}
    return {REASONED: "", **own} if REASONED in reader.wants else own


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.kind};base64,{b64encode(image.data).decode()}"}}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = neutral(json.dumps(call.arguments, ensure_ascii=False))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
