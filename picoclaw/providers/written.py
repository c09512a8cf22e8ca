"""A conversation written down as servers of OpenAI's format take it, the strict ones and the odd ones."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from picoclaw.chat_markup import neutral
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.providers.doctor import apart, one_by_one, treated
from picoclaw.untrusted import wrapped

ONE_OF_BOTH, ONE_CALL = "content or tool_calls, but not both", "single tool-calls at once"
SIGNED, REASONED = "thought_signature", "reasoning_content"
WANTS = (ONE_OF_BOTH, ONE_CALL, SIGNED, REASONED)
"""Words by which servers refuse text along with calls, several calls at once, and messages without their thought."""

# What Google names for calls whose signature is not known: https://ai.google.dev/gemini-api/docs/thought-signatures
_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}


def written(request: Request, wants: Collection[str] = ()) -> list[dict[str, Any]]:
    """Write down a request's messages, treated, for a server that wants those of WANTS.

    Control tokens of chat templates are broken in every text: also in the model's own, because it may repeat what it
    has read in a file.
    """
    system = neutral(request.system)
    talk = treated(request.messages, request.lost)
    talk = apart(talk) if ONE_OF_BOTH in wants else talk
    talk = one_by_one(talk) if ONE_CALL in wants else talk
    calls = {call.id: call for message in talk for call in message.calls}
    said = [_message(message, calls, wants, request.untrusted) for message in talk]
    return [{"role": "system", "content": system}, *said] if system.strip() else said


def _message(message: Message, calls: Mapping[str, ToolCall], wants: Collection[str], untrusted: str) -> dict[str, Any]:
    """One message; Gemini's server wants a result to name the tool, others do not mind."""
    entry: dict[str, Any] = {"role": message.role}
    text = message.text
    if message.role == "tool":
        call = calls[message.call_id]
        entry |= {"tool_call_id": message.call_id, "name": call.name}
        text = wrapped(untrusted, call, text)
    entry["content"] = neutral(text)
    if message.calls:
        entry["tool_calls"] = [_call(call) | (_SIGNATURE if SIGNED in wants else {}) for call in message.calls]
    if message.role == "assistant" and REASONED in wants:
        entry["reasoning_content"] = ""
    return entry


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = neutral(json.dumps(call.arguments, ensure_ascii=False))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
