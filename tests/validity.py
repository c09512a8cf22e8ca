"""What a valid conversation is: one strict judge for our messages, and one for what goes over the wire."""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from picoclaw.messages import Message, ToolCall

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_conversation(messages: Sequence[Message]) -> None:
    """Fail unless a turn, or turns, could be kept and shown to a model again."""
    assert messages, "nothing was said"
    assert messages[0].role == "user"
    assert messages[-1].role == "assistant"
    assert not messages[-1].calls
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role in {"user", "assistant"}, f"a result without a call: {message}"
        assert not message.call_id
        message.text.encode()
        if message.role == "user":
            assert not message.calls
            continue
        assert message.text.strip() or message.calls, "an assistant's message with nothing in it"
        for call in message.calls:
            _check_call(call)
            result = rest.pop(0)
            assert (result.role, result.call_id) == ("tool", call.id), f"{call} is followed by {result}"
            assert not result.calls
            result.text.encode()
        assert message.calls or not rest or rest[0].role == "user", "two answers to one question"


def _check_call(call: ToolCall) -> None:
    assert call.id
    assert isinstance(call.arguments, dict)
    assert not (call.broken and call.arguments)
    json.dumps([call.name, call.arguments, call.broken], allow_nan=False, ensure_ascii=False).encode()


def check_body(body: Any) -> None:
    """Fail unless the strictest of servers takes the request: roles, pairs, ids, names, arguments."""
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    roles = [m["role"] for m in body["messages"]]
    assert "system" not in roles[1:]
    talk = [m for m in body["messages"] if m["role"] != "system"]
    assert talk[0]["role"] == "user"
    assert talk[-1]["role"] in {"user", "tool"}
    for before, after in itertools.pairwise(talk):
        assert after["role"] in _follows(before), f"{after['role']} after {before['role']}"
    seen: set[str] = set()
    for i, message in enumerate(talk):
        assert isinstance(message["content"], str)
        calls = message.get("tool_calls", [])
        results = [m.get("tool_call_id") for m in talk[i + 1 : i + 1 + len(calls)]]
        assert [c["id"] for c in calls] == results
        for call in calls:
            _check_sent_call(call, seen)


def _follows(message: Any) -> set[str]:
    if message["role"] == "assistant":
        return {"tool"} if "tool_calls" in message else {"user"}
    return {"user": {"assistant"}, "tool": {"tool", "assistant"}}[message["role"]]


def _check_sent_call(call: Any, seen: set[str]) -> None:
    assert _ID.fullmatch(call["id"])
    assert call["id"] not in seen
    seen.add(call["id"])
    assert call["type"] == "function"
    assert _NAME.fullmatch(call["function"]["name"])
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
