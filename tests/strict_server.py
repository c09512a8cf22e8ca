"""A model server on a real socket that refuses, with 400, whatever any of the real ones would refuse.

    with StrictServer() as server:          # JUDGES, all at once
    with StrictServer(mistral) as server:   # one kind of server
        ModelProvider(ModelConfig(base_url=server.url)) ...
        server.refused                      # what it complained of, in the servers' own words

A judge is a function from a request's body to complaints. Their rules and words are those of:

* OpenAI: the reference of chat completions, and its errors as they are reported;
* Mistral: `mistral_common.protocol.instruct.validator` (serving mode, tokenizers 3 to 11), which its API and vLLM use;
* llama.cpp: the server's own checks, and the `raise_exception` of the chat templates of Mistral, Gemma and Qwen;
* Gemini: the errors that its OpenAI-compatible address gives back;
* Anthropic: the same, and those of the gateways before it;
* ODD: those of one family of models each, which want what others refuse.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from model_server import Answer, Json, ModelServer, refusal, reply

Judge = Callable[[Json], Iterator[str]]
_PARTS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ORPHAN = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
)
_PREFILL = "Assistant response prefill is incompatible with enable_thinking."


def complaints(body: Any, *judges: Judge) -> list[str]:
    """What servers would refuse a body for; the shape first, since the others rely on it."""
    if wrong := list(_unreadable(body)):
        return wrong
    return [said for judge in judges or JUDGES for said in judge(body) if said]


def _unreadable(body: Any) -> Iterator[str]:
    """What no server can read: no JSON, numbers and half characters that JSON has not, a shape of its own."""
    try:
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        yield f"We could not parse the JSON body of your request: {error}"
        return
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not any(message.get("role") != "system" for message in messages):
        yield "Conversation must have at least one message that is not the system's"
        return
    for i, message in enumerate(messages):
        role = message.get("role")
        if extra := set(message) - _PARTS.get(role, set()):
            yield f"messages.{i}: extra inputs are not permitted: {sorted(extra)} in {role!r}"
        elif not isinstance(message.get("content"), str):
            yield f"messages.{i}.content: expected a string"
        elif role == "tool" and not isinstance(message.get("tool_call_id"), str):
            yield f"messages.{i}: missing field tool_call_id"
        else:
            yield from (f"messages.{i}: {said}" for call in _calls(message) if (said := _bad_shape(call)))


def _bad_shape(call: Any) -> str:
    known = {"id", "type", "function", "extra_content"}
    if not isinstance(call, dict) or not {"id", "type", "function"} <= set(call) <= known or call["type"] != "function":
        return "tool_calls: not a call"
    function = call["function"]
    if not isinstance(function, dict) or set(function) != {"name", "arguments"}:
        return "tool_calls.function: not a function"
    texts = (call["id"], function["name"], function["arguments"])
    return "" if all(isinstance(text, str) for text in texts) else "tool_calls: expected strings"


def _calls(message: Json) -> list[Json]:
    return message.get("tool_calls") or []


def _all_calls(body: Json) -> list[Json]:
    return [call for message in body["messages"] for call in _calls(message)]


def _talk(body: Json) -> list[Json]:
    return [m for m in body["messages"] if m["role"] != "system"]


def _rounds(talk: list[Json]) -> Iterator[tuple[Json, list[Json]]]:
    """Each message that is no result, with the results right behind it."""
    for i, message in enumerate(talk):
        if message["role"] != "tool":
            yield message, list(itertools.takewhile(lambda m: m["role"] == "tool", talk[i + 1 :]))


def openai(body: Json) -> Iterator[str]:
    """Pairs, ids and names."""
    talk = _talk(body)
    if talk[0]["role"] == "tool":
        yield _ORPHAN
    for message, results in _rounds(talk):
        asked, answered = {c["id"] for c in _calls(message)}, {r["tool_call_id"] for r in results}
        if missing := asked - answered:
            yield f"{_UNANSWERED} The following tool_call_ids did not have response messages: {sorted(missing)}"
        if answered - asked:
            yield _ORPHAN
        if message.get("tool_calls") == []:
            yield "Invalid 'messages.tool_calls': empty array. Expected an array with minimum length 1"
    yield from map(_bad_call_to_openai, _all_calls(body))


def _bad_call_to_openai(call: Json) -> str:
    if not 1 <= len(call["id"]) <= 40:
        return "Invalid 'messages.tool_calls.id': string too long. Expected a string with maximum length 40"
    named = _NAME.fullmatch(call["function"]["name"])
    return "" if named else "Invalid 'messages.tool_calls.function.name': does not match '^[a-zA-Z0-9_-]+$'"


def mistral(body: Json) -> Iterator[str]:
    """The order of roles, as many results as calls, ids of nine letters and digits, text or calls."""
    yield from _order(body["messages"])
    yield from _counts(body["messages"])
    for message in body["messages"]:
        calls = _calls(message)
        if message["role"] == "assistant" and bool(message["content"]) == bool(calls):
            both = "both" if calls else "none"
            yield f"Assistant message must have either content or tool_calls, but not {both}."
    results = [m for m in body["messages"] if m["role"] == "tool"]
    for number in (*(c["id"] for c in _all_calls(body)), *(r["tool_call_id"] for r in results)):
        if not re.fullmatch(r"[a-zA-Z0-9]{9}", number):
            yield f"Tool call id was {number} but must be a-z, A-Z, 0-9, with a length of 9."
    for name in (*(c["function"]["name"] for c in _all_calls(body)), *(r.get("name", "none") for r in results)):
        if not _NAME.fullmatch(name):
            yield f"Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes"


def _order(messages: list[Json]) -> Iterator[str]:
    after = {
        "system": {"user", "assistant", "system"},
        "user": {"assistant", "system", "user"},
        "assistant": {"assistant", "user", "tool"},
        "tool": {"assistant", "tool"},
    }
    for before, message in itertools.pairwise(messages):
        if message["role"] not in after[before["role"]]:
            yield f"Unexpected role '{message['role']}' after role '{before['role']}'"
    if (last := messages[-1]["role"]) not in {"user", "tool"}:
        yield f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {last}"


def _counts(messages: list[Json]) -> Iterator[str]:
    expected = 0
    for message in messages:
        if message["role"] == "assistant":
            if expected:
                yield "Not the same number of function calls and responses"
            expected = len(_calls(message))
        expected -= message["role"] == "tool"
    if expected:
        yield "Not the same number of function calls and responses"


def llama_cpp(body: Json) -> Iterator[str]:
    """What templates raise, and a template that reads the arguments of earlier calls as objects."""
    talk = _talk(body)
    if any(m["role"] == "system" for m in body["messages"][1:]):
        yield "System message must be at the beginning."
    plain = [m for m in talk if m["role"] != "tool" and not _calls(m)]
    if any((m["role"] == "user") != (i % 2 == 0) for i, m in enumerate(plain)):
        yield "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
    if not any(m["role"] == "user" and m["content"].strip() for m in talk):
        yield "No user query found in messages."
    if talk[-1]["role"] == "assistant":
        yield _PREFILL
    for call in _all_calls(body):
        if len(call["id"]) < 9:
            yield f"Tool call IDs should be alphanumeric strings with length >= 9! {call['id']}"
        if not _is_object(call["function"]["arguments"]):
            yield f"Failed to parse tool call arguments as JSON: {call['function']['arguments']}"


def _is_object(text: str) -> bool:
    try:
        value = json.loads(text, parse_constant=_refused)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def gemini(body: Json) -> Iterator[str]:
    """Where a function call may stand, what answers it, and parts with nothing in them."""
    talk, before = _talk(body), ""
    for message, results in _rounds(talk):
        if _calls(message) and before not in {"user", "tool"}:
            yield "Please ensure that function call turn comes immediately after a user or a function response turn."
        if len(_calls(message)) != len(results):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call parts"
            )
        if any(not r.get("name") or not r["content"].strip() for r in results):
            yield "GenerateContentRequest.contents.parts.function_response.name: Name cannot be empty."
        before = "tool" if results else message["role"]
    if any(not m["content"].strip() and not _calls(m) for m in talk):
        yield "Unable to submit request because it must have a text parameter."
    if before not in {"user", "tool"}:
        yield "Please ensure that multiturn requests end with a user role or a function response."
    yield from map(_bad_call_to_gemini, _all_calls(body))


def _bad_call_to_gemini(call: Json) -> str:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", call["function"]["name"]):
        return "Invalid function name. Must start with a letter or an underscore."
    return "" if _is_object(call["function"]["arguments"]) else "Invalid value at 'function_call.args' (Struct)"


def llama_3(body: Json) -> Iterator[str]:
    """The template of Llama 3.1 to 3.3, which is a server's own error as well."""
    if any(len(_calls(message)) > 1 for message in body["messages"]):
        yield "This model only supports single tool-calls at once!"


def gemini_3(body: Json) -> Iterator[str]:
    """The same, and no call without the signature of the thought behind it."""
    yield from gemini(body)
    for call in _all_calls(body):
        if not call.get("extra_content", {}).get("google", {}).get("thought_signature"):
            yield "Function call is missing a thought_signature in functionCall parts. This is required for tools"


def anthropic(body: Json) -> Iterator[str]:
    """Texts with something in them, ids that are there once, a first and a last word that are the user's."""
    talk = _talk(body)
    if talk[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    if talk[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    if any(not m["content"].strip() and (m["content"] or not _calls(m)) for m in body["messages"]):
        yield "messages: text content blocks must contain non-whitespace text"
    numbers = [call["id"] for call in _all_calls(body)]
    if len(numbers) != len(set(numbers)):
        yield "messages: `tool_use` ids must be unique"
    for message, results in _rounds(talk):
        answered = [r["tool_call_id"] for r in results]
        if len(answered) != len(set(answered)):
            yield "each tool_use must have a single result. Found multiple `tool_result` blocks"
        if not {call["id"] for call in _calls(message)} <= set(answered):
            yield "`tool_use` ids were found without `tool_result` blocks immediately after"


def deepseek(body: Json) -> Iterator[str]:
    """A model that thinks wants its thoughts back, and takes an empty one."""
    for i, message in enumerate(body["messages"]):
        if message["role"] == "assistant" and not isinstance(message.get("reasoning_content"), str):
            yield f"Missing `reasoning_content` field in the assistant message at message index {i}."


JUDGES: tuple[Judge, ...] = (openai, mistral, llama_cpp, gemini, anthropic)
ODD: tuple[Judge, ...] = (gemini_3, llama_3, deepseek)


class StrictServer(ModelServer):
    """Answers what every judge takes, and refuses the rest; `refused` are the complaints so far."""

    def __init__(self, *judges: Judge, answer: Answer | None = None, status: int = 400) -> None:
        self.refused: list[str] = []
        self._judges, self._answer, self._status = judges, answer or reply("Good."), status
        super().__init__(self._judged)

    def _judged(self, body: Any) -> Answer:
        wrong = complaints(body, *self._judges)
        self.refused += wrong
        return refusal(self._status, wrong[0]) if wrong else self._answer
