"""OpenAI's two formats: chat completions, and Responses, which some of its models speak alone. Pure translation.

Many servers speak chat completions, the strict ones and the odd ones. What a server sends in the Responses format becomes
their chunks, so that one AnswerAssembler makes the events of both. Nothing is kept by the server (`store: false`): its
thoughts come back encrypted, and go to it again while calls of its are open.
Sources: https://platform.openai.com/docs/api-reference/chat, .../responses, .../responses-streaming, and what servers
were seen to send.
"""

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from picoclaw.answers import REPEATS, Repetition
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import Unavailable
from picoclaw.messages import End, Event, Image, Message, Request, Text, Thought, ToolCall, Usage
from picoclaw.prompts import NewestResults
from picoclaw.providers.retry import join_surrogates, make_error, read_status
from picoclaw.providers.sanitize import sanitize_history, separate_content_and_calls, split_parallel_calls
from picoclaw.providers.text_calls import TextCallParser, parse_arguments
from picoclaw.records import dataclass
from picoclaw.security.untrusted import wrap_result
from picoclaw.text import escape_control_tokens, pattern

ONE_OF_BOTH, ONE_CALL = "content or tool_calls, but not both", "single tool-calls at once"
SIGNED, REASONED = "thought_signature", "reasoning_content"
QUIRKS = (ONE_OF_BOTH, ONE_CALL, SIGNED, REASONED)
"""Words by which servers refuse text along with calls, several calls at once, and messages without their thought."""

NO_THOUGHTS = "no thoughts"
"""Beside those of QUIRKS: this server refuses messages along with their thought."""

REASONING_FIELDS = (REASONED, "reasoning")
"""The fields in which servers send what a model thought, and take it back in the turn in which it was thought."""

# What Google names for calls whose signature is not known: https://ai.google.dev/gemini-api/docs/thought-signatures
_UNKNOWN_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}


_MAX_TOKENS = 10**12  # so that the sum of a turn fits the database, whatever a server claims
_TRAILING_CALLS = pattern(r"(?<!\s)(?:\s*<tool_call>(?:(?!<tool_call>).)*</tool_call>)+\s*\Z", re.DOTALL)
_MAX_THOUGHT = 200_000  # characters; a longer one is not sent back


def build_messages(
    request: Request,
    wants: Collection[str] = (),
    *,
    model: str = "",
    images: bool = False,
    newest: tuple[NewestResults, NewestResults] | None = None,
) -> list[dict[str, Any]]:
    """Write down a request's messages, treated, for a server that wants those of QUIRKS.

    Control tokens of chat templates are broken in every text: also in the model's own, because it may repeat what it
    has read in a file. `model` gets its own thoughts back, and `images` when it is shown pictures. `newest` are the
    treated and the written messages of the request before.
    """
    system = escape_control_tokens(request.system)
    treated, written = newest or (None, NewestResults())
    talk = sanitize_history(request.messages, request.lost, treated)
    talk = separate_content_and_calls(talk) if ONE_OF_BOTH in wants else talk
    talk = split_parallel_calls(talk) if ONE_CALL in wants else talk
    calls = {call.id: call for message in talk for call in message.calls}
    out: list[dict[str, Any]] = [{"role": "system", "content": system}] if system.strip() else []
    get = written.renew(request.untrusted, model, images, *sorted(wants))

    def write(message: Message, call: ToolCall | None = None) -> dict[str, Any]:
        entry: dict[str, Any] = {"role": message.role}
        text = message.text
        if call:
            entry |= {"tool_call_id": message.call_id, "name": call.name}  # Gemini's server wants the tool's name
            text = wrap_result(request.untrusted, call, text)
        entry["content"] = text = escape_control_tokens(text)
        if message.images and images:
            pictures = [{"type": "image_url", "image_url": {"url": _format_image(one)}} for one in message.images]
            entry["content"] = [*pictures, {"type": "text", "text": text}]
        if message.calls:
            signature = _UNKNOWN_SIGNATURE if SIGNED in wants else {}
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": escape_control_tokens(_ENCODE(call.arguments))},
                    **signature,
                }
                for call in message.calls
            ]
        if message.role == "assistant" and NO_THOUGHTS not in wants:
            # a thought goes back in the field that it came in, as far as the server takes it
            parts = message.thought.parts if message.thought.by == model else ()
            entry |= {REASONED: ""} if REASONED in wants else {}
            entry |= {
                name: escape_control_tokens(part[name])
                for part in parts
                for name in REASONING_FIELDS
                if isinstance(part.get(name), str)
            }
        return entry

    return out + [get((m, calls[m.call_id]) if m.role == "tool" else (m,), write) for m in talk]


def _format_image(image: Image) -> str:
    return f"data:{image.kind};base64,{b64encode(image.data).decode()}"


_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def build_body(
    request: Request,
    model: str,
    *,
    stream: bool,
    cap: str = "max_tokens",
    temperature: float | None = None,
    wants: Collection[str] = (),
    images: bool = False,
    newest: tuple[NewestResults, NewestResults] | None = None,
) -> dict[str, Any]:
    """Build the JSON body; what stays the same comes first, then the messages, and last what ends a turn.

    `model` is used where the request names none; `cap` is what this server calls the limit of the answer; `wants` are
    those of QUIRKS that it has refused a request with; `images` when it is shown pictures.
    """
    name = request.model or model
    out: dict[str, Any] = {"model": name, cap: request.answer_tokens}
    if temperature is not None:
        out["temperature"] = temperature
    if stream:
        out |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        out["tools"] = [
            {"type": "function", "function": t | {"description": escape_control_tokens(t["description"])}}
            for t in request.tools
        ]
    if request.schema:
        wanted = {"name": "answer", "strict": True, "schema": request.schema}
        out["response_format"] = {"type": "json_schema", "json_schema": wanted}
    out["messages"] = build_messages(request, wants, model=name, images=images, newest=newest)
    return out if request.calls or not request.tools else out | {"tool_choice": "none"}


class ServerFormat:
    """A format, and what one server has refused in it; its methods are CompletionsFormat's."""

    def __init__(self) -> None:
        self._without: set[str] = set()
        self._sent: set[str] = set()

    def headers(self, _key: str) -> Mapping[str, str] | None:
        """The headers that show the key; None where a bearer's header does."""
        return None

    def _list_arguments(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        """What every body is built of."""
        temperature = request.temperature if model.temperature is None else model.temperature
        values = {"stream": model.stream, "temperature": temperature, "images": model.images}
        return {"request": request, "model": model.name or "default", **values}

    def _leave_out(self, refused: Collection[str]) -> bool:
        self._without.update(refused)
        return bool(refused)


class CompletionsFormat(ServerFormat):
    """The format of chat completions, and what one server has turned out to want."""

    def __init__(self) -> None:
        super().__init__()
        self._cap = "max_tokens"
        self._wants: set[str] = set()
        self._newest = NewestResults(), NewestResults()

    def url(self, base_url: str) -> str:
        """Where requests go."""
        return f"{base_url}/chat/completions"

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        arguments = self._list_arguments(request, model)
        body = build_body(**arguments, cap=self._cap, wants=self._wants, newest=self._newest)
        sent = {name: value for name, value in body.items() if name not in self._without}
        self._sent = {*sent, *(name for message in sent["messages"] for name in REASONING_FIELDS if name in message)}
        return sent

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        """Give what the server sends as chunks for the AnswerAssembler, and at last COMPLETE_CHUNK."""
        return objects

    def adapt(self, error: str) -> bool:
        """Leave out what the server does not know, and do what it wants; False when there is nothing new in that."""
        if self._cap == "max_tokens" and "max_completion_tokens" in error:
            self._cap = "max_completion_tokens"
            return True
        refused = {
            word
            for word in ("stream_options", "temperature", "response_format")
            if word in error and word in self._sent
        }
        has_refused = self._leave_out(refused)
        wanted = {word for word in QUIRKS if word in error} - self._wants
        if not wanted and any(name in error for name in self._sent.intersection(REASONING_FIELDS)):
            wanted = {NO_THOUGHTS} - self._wants
        self._wants |= wanted
        return has_refused or bool(wanted)


def get_tool_names(request: Request) -> frozenset[str]:
    """Name the tools a model may write a call of: those offered, and those it has called, when none is any more."""
    called = (call.name for message in request.messages for call in message.calls)
    return frozenset((*(t["name"] for t in request.tools), *called))


THOUGHT_FIELD = "thought"
"""The name, in a chunk of ours, of a whole thought that goes back as it came."""

COMPLETE_CHUNK: dict[str, Any] = {"complete": True}
"""Stands for the mark by which a server says that its answer is whole: [DONE], or the end of a whole body."""


@dataclass
class _PartialCall:
    """A tool call as it comes in."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def is_another(self, number: str, name: str) -> bool:
        """Tell whether a piece begins a call of its own, from a server that does not number its calls."""
        if not name or not self.name:
            return False
        if number and self.id:
            return number != self.id
        return bool(self.arguments.strip()) and not parse_arguments(self.arguments)[1]

    def finish(self, number: str, *, cut: bool) -> ToolCall:
        """Make the call; one that was `cut` before its arguments began is not one without arguments."""
        arguments, broken = parse_arguments(join_surrogates(self.arguments))
        if cut and not self.arguments.strip():
            broken = "cut off before the arguments"
        call_id, name = join_surrogates(self.id) or number, join_surrogates(self.name)
        return ToolCall(call_id, name, arguments, join_surrogates(broken))


def build_chunk(delta: dict[str, Any]) -> dict[str, Any]:
    """What other formats send, as a chunk of this one."""
    return {"choices": [{"delta": delta}]}


def get_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def get_index(given: dict[str, Any], key: str) -> int:
    index = given.get(key)
    return index if isinstance(index, int) else 0


class AnswerAssembler:
    """Puts an answer together from chunks; a whole body is one big chunk."""

    def __init__(self, known: frozenset[str], asked: str = "") -> None:
        """`known` are the names of the tools offered, for calls that a model writes into its text.

        `asked` is what the owner said, by which tags and repetition may be wanted.
        """
        self._known = known
        self._text_calls = TextCallParser(known, asked)
        self._repetition = Repetition(asked)
        self.finish = ""
        self.usage = Usage()
        self.spoke = False
        self._calls: list[_PartialCall] = []
        self._open: dict[int, _PartialCall] = {}
        self._ended = self._has_choices = False
        self._half = ""
        self._number: Any = None
        self._thoughts: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._reasoning_field = ""

    def feed(self, chunk: Any) -> Iterator[Event]:
        """Take one chunk (a `delta`) or a body (a `message`); gives the text that may be shown already.

        An answer that only repeats itself is ended here, with an End of its own; nothing after it counts.
        """
        if self._ended:
            return
        if not isinstance(chunk, dict):
            raise Unavailable(f"the model server sent {type(chunk).__name__} where an object belongs")
        if chunk is COMPLETE_CHUNK:
            if not self._has_choices:
                raise Unavailable("the model server sent JSON with no answer in it (no choices); check base_url")
            self.finish = self.finish or "stop"
            return
        choice: dict[str, Any] = {}
        if isinstance(choices := chunk.get("choices"), list):
            self._has_choices = True
            found = [each for each in choices if isinstance(each, dict)]
            if self._number is None and found:
                self._number = found[0].get("index") or 0
            # the answer that was begun first; another that comes in turns with it is left out
            choice = next((each for each in found if (each.get("index") or 0) == self._number), {})
        self.finish = str(choice.get("finish_reason") or self.finish)
        if error := _find_error(chunk, choice):
            self.finish = ""
            raise make_error(read_status(error), error)
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = _read_usage(usage)
        part = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
        if isinstance(part, dict):
            yield from self._take(part)

    def _take(self, part: dict[str, Any]) -> Iterator[Event]:
        if isinstance(thought := part.get(THOUGHT_FIELD), dict):
            self._thoughts.append(thought)
        name = self._reasoning_field or next((name for name in REASONING_FIELDS if part.get(name)), "")
        if name and isinstance(reasoning := part.get(name), str):
            self._reasoning_field = name
            self._reasoning.append(reasoning)
        text = self._half + (_get_text(part.get("content")) or _get_text(part.get("refusal")))
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""  # its other half comes next
        text = join_surrogates(text[: len(text) - len(self._half)])
        stuck = self._repetition.feed(text)
        if shown := self._text_calls.feed(text[:stuck]):
            self.spoke = True
            yield Text(shown)
        if stuck is not None:
            self.finish, self._half = REPEATS, ""
            yield from self.end()
            return
        calls = part.get("tool_calls")
        if not calls and isinstance(legacy := part.get("function_call"), dict) and any(legacy.values()):
            calls = [{"index": 0, "function": legacy}]
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                self._take_call(call, position)

    def _take_call(self, call: dict[str, Any], position: int) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        number, name = str(call.get("id") or ""), str(function.get("name") or "")
        index = call.get("index")
        index = index if isinstance(index, int) else position
        partial = self._open.get(index)
        if partial is None or partial.is_another(number, name):
            partial = self._open[index] = _PartialCall()
            self._calls.append(partial)
        partial.id = partial.id or number
        partial.name = partial.name or name
        arguments = function.get("arguments")
        if arguments is not None:
            partial.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def end(self) -> Iterator[Event]:
        """Give what was held back, the tool calls in order, and the End; nothing when they were given."""
        if self._ended:
            return
        self._ended = True
        cut = self.finish in {"length", REPEATS}
        shown = self._text_calls.feed(join_surrogates(self._half))
        rest, written = self._text_calls.end(cut=cut)
        self.spoke = self.spoke or bool(shown + rest or self._calls or written)
        reasoning = "".join(self._reasoning)
        if not (self.spoke or cut) and (last := _TRAILING_CALLS.search(reasoning)):
            # calls at the end of a thought that nothing follows: some servers take them for a part of it
            parser = TextCallParser(self._known)
            parser.feed(last[0].strip())
            written = parser.end(cut=False)[1]
        if shown + rest:
            yield Text(shown + rest)
        for i, partial in enumerate(self._calls):
            yield partial.finish(f"c{i}", cut=cut and partial is self._calls[-1])
        if not self._calls:
            yield from (ToolCall(f"t{i}", name, arguments) for i, (name, arguments) in enumerate(written))
        thoughts = [*self._thoughts, *([{self._reasoning_field: join_surrogates(reasoning)}] if reasoning else [])]
        thought = Thought("", tuple(thoughts) if len(json.dumps(thoughts)) <= _MAX_THOUGHT else ())
        yield End(self.finish or "stop", self.usage, thought)


def _get_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, dict))
    return ""


def _read_usage(usage: dict[str, Any]) -> Usage:
    """The counts of a server; DeepSeek has a word of its own for what was cached."""
    prompt, completion = _get_count(usage.get("prompt_tokens")), _get_count(usage.get("completion_tokens"))
    sent, said = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = sent.get("cached_tokens") if isinstance(sent, dict) else usage.get("prompt_cache_hit_tokens")
    reasoning = said.get("reasoning_tokens") if isinstance(said, dict) else 0
    return Usage(prompt, completion, (), min(_get_count(cached), prompt), min(_get_count(reasoning), completion))


def _get_count(value: Any) -> int:
    return min(max(value, 0), _MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _find_error(chunk: dict[str, Any], choice: dict[str, Any]) -> Any:
    """What went wrong according to the answer itself, in any of the places where servers say it."""
    marked = "error" in {str(choice.get("finish_reason")), str(chunk.get("object"))}
    other = "choices" not in chunk and isinstance(chunk.get("msg"), str)  # a gateway's own form
    return chunk.get("error") or choice.get("error") or (chunk if marked or other else None)


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
            seen = message.images if images else ()
            pictures = [{"type": "input_image", "image_url": _format_image(one)} for one in seen]
            yield {"role": "user", "content": [*pictures, {"type": "input_text", "text": text}]}
            continue
        if message.thought.by == thinker:
            yield from (part for part in message.thought.parts if part.get("type") == THOUGHTS)
        if text.strip():
            yield {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for call in message.calls:
            arguments = escape_control_tokens(_ENCODE(call.arguments))
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


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


class ResponsesFormat(ServerFormat):
    """The format of responses, and what one server has turned out not to know."""

    def url(self, base_url: str) -> str:
        return f"{base_url}/responses"

    def body(self, request: Request, model: ModelConfig) -> dict[str, Any]:
        body = build_responses_body(**self._list_arguments(request, model), without=self._without)
        thought = any(item.get("type") == THOUGHTS for item in body["input"])
        self._sent = {name for name in _OPTIONAL if name in body} | ({THOUGHTS} if thought else set())
        return body

    def chunks(self, objects: Iterator[Any]) -> Iterator[Any]:
        return read_chunks(objects)

    def adapt(self, error: str) -> bool:
        refused = {word for word in self._sent if f"{word}" in error and len(word) > len("text")}
        refused |= {"text"} & self._sent if "json_schema" in error or "text.format" in error else set()
        return self._leave_out(refused)
