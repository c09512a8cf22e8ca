"""A conversation written down as servers of OpenAI's format take it, the strict ones and the odd ones."""

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from picoclaw.errors import Unavailable
from picoclaw.messages import End, Event, Image, Message, Request, Text, Thought, ToolCall, Usage
from picoclaw.providers.retry import join_surrogates, make_error, read_status
from picoclaw.providers.sanitize import sanitize_history, separate_content_and_calls, split_parallel_calls
from picoclaw.providers.text_calls import ParsedCall, TextCallParser, parse_arguments
from picoclaw.repetition import REPEATS, Repetition
from picoclaw.security.untrusted import wrap_result
from picoclaw.text import escape_control_tokens

ONE_OF_BOTH, ONE_CALL = "content or tool_calls, but not both", "single tool-calls at once"
SIGNED, REASONED = "thought_signature", "reasoning_content"
QUIRKS = (ONE_OF_BOTH, ONE_CALL, SIGNED, REASONED)
"""Words by which servers refuse text along with calls, several calls at once, and messages without their thought."""

NO_THOUGHTS = "no thoughts"
"""Beside those of WANTS: this server refuses messages along with their thought."""

REASONING_FIELDS = (REASONED, "reasoning")
"""The fields in which servers send what a model thought, and take it back in the turn in which it was thought."""

# What Google names for calls whose signature is not known: https://ai.google.dev/gemini-api/docs/thought-signatures
_UNKNOWN_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}


class _Target(NamedTuple):
    """Whom messages are written for: a model that wants those of WANTS, and may see."""

    model: str
    wants: Collection[str]
    untrusted: str
    images: bool


def build_messages(
    request: Request, wants: Collection[str] = (), *, model: str = "", images: bool = False
) -> list[dict[str, Any]]:
    """Write down a request's messages, treated, for a server that wants those of WANTS.

    Control tokens of chat templates are broken in every text: also in the model's own, because it may repeat what it
    has read in a file. `model` gets its own thoughts back, and `images` when it is shown pictures.
    """
    system = escape_control_tokens(request.system)
    talk = sanitize_history(request.messages, request.lost)
    talk = separate_content_and_calls(talk) if ONE_OF_BOTH in wants else talk
    talk = split_parallel_calls(talk) if ONE_CALL in wants else talk
    calls = {call.id: call for message in talk for call in message.calls}
    reader = _Target(model, wants, request.untrusted, images)
    said = [_build_message(message, calls, reader) for message in talk]
    return [{"role": "system", "content": system}, *said] if system.strip() else said


def _build_message(message: Message, calls: Mapping[str, ToolCall], reader: _Target) -> dict[str, Any]:
    """One message; Gemini's server wants a result to name the tool, others do not mind."""
    entry: dict[str, Any] = {"role": message.role}
    text = message.text
    if message.role == "tool":
        call = calls[message.call_id]
        entry |= {"tool_call_id": message.call_id, "name": call.name}
        text = wrap_result(reader.untrusted, call, text)
    entry["content"] = escape_control_tokens(text)
    if message.images and reader.images:
        entry["content"] = [*map(_build_image, message.images), {"type": "text", "text": escape_control_tokens(text)}]
    if message.calls:
        entry["tool_calls"] = [
            _build_call(call) | (_UNKNOWN_SIGNATURE if SIGNED in reader.wants else {}) for call in message.calls
        ]
    if message.role == "assistant":
        entry |= _build_thought(message.thought, reader)
    return entry


def _build_thought(thought: Thought, reader: _Target) -> dict[str, str]:
    """Give a thought back in the field that it came in, as far as the server takes it."""
    if NO_THOUGHTS in reader.wants:
        return {}
    parts = thought.parts if thought.by == reader.model else ()
    own = {
        name: escape_control_tokens(part[name])
        for part in parts
        for name in REASONING_FIELDS
        if isinstance(part.get(name), str)
    }
    return {REASONED: "", **own} if REASONED in reader.wants else own


def _build_image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.kind};base64,{b64encode(image.data).decode()}"}}


def _build_call(call: ToolCall) -> dict[str, Any]:
    arguments = escape_control_tokens(json.dumps(call.arguments, ensure_ascii=False))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# OpenAI's chat completions format, to and from our words. Pure translation: no network, no clock.
#
# Source: https://platform.openai.com/docs/api-reference/chat and what servers of that kind were seen to send.

_MAX_TOKENS = 10**12  # so that the sum of a turn fits the database, whatever a server claims
_TRAILING_CALLS = re.compile(r"(?<!\s)(?:\s*<tool_call>(?:(?!<tool_call>).)*</tool_call>)+\s*\Z", re.DOTALL)
_MAX_THOUGHT = 200_000  # characters; a longer one is not sent back


def build_body(
    request: Request,
    model: str,
    *,
    stream: bool,
    cap: str = "max_tokens",
    temperature: float | None = None,
    wants: Collection[str] = (),
    images: bool = False,
) -> dict[str, Any]:
    """Build the JSON body; what stays the same comes first, then the messages, and last what ends a turn.

    `model` is used where the request names none; `cap` is what this server calls the limit of the answer; `wants` are
    those of WANTS that it has refused a request with; `images` when it is shown pictures.
    """
    out: dict[str, Any] = {"model": request.model or model, cap: request.answer_tokens}
    if temperature is not None:
        out["temperature"] = temperature
    if stream:
        out |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        out["tools"] = [
            {"type": "function", "function": t | {"description": escape_control_tokens(t["description"])}}
            for t in request.tools
        ]
    out["messages"] = build_messages(request, wants, model=request.model or model, images=images)
    return out if request.calls or not request.tools else out | {"tool_choice": "none"}


def encode_body(body: dict[str, Any]) -> bytes:
    """Write a body as it is sent: compact, in its own order, so that equal beginnings are equal bytes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def get_tool_names(request: Request) -> frozenset[str]:
    """Name the tools a model may write a call of: those offered, and those it has called, when none is any more."""
    called = (call.name for message in request.messages for call in message.calls)
    return frozenset((*(t["name"] for t in request.tools), *called))


THOUGHT_FIELD = "thought"
"""The name, in a chunk of ours, of a whole thought that goes back as it came."""

COMPLETE_CHUNK: dict[str, Any] = {"complete": True}
"""Stands for the mark by which a server says that its answer is whole: [DONE], or the end of a whole body."""


@dataclass(slots=True)
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

    def finished(self, number: str, *, cut: bool) -> ToolCall:
        """Make the call; one that was `cut` before its arguments began is not one without arguments."""
        arguments, broken = parse_arguments(join_surrogates(self.arguments))
        if cut and not self.arguments.strip():
            broken = "cut off before the arguments"
        return ToolCall(
            join_surrogates(self.id) or number, join_surrogates(self.name), arguments, join_surrogates(broken)
        )


@dataclass(slots=True)
class AnswerAssembler:
    """Puts an answer together from chunks; a whole body is one big chunk.

    `known` are the names of the tools offered, for calls that a model writes into its text; `asked` is what the owner
    said, by which tags and repetition may be wanted.
    """

    known: frozenset[str]
    asked: str = ""
    inline: TextCallParser = field(init=False)
    repetition: Repetition = field(init=False)
    finish: str = ""
    usage: Usage = field(default_factory=Usage)
    calls: list[_PartialCall] = field(default_factory=list)
    ended: bool = False
    answered: bool = False
    _open: dict[int, _PartialCall] = field(default_factory=dict)
    spoke: bool = False
    _half: str = ""
    _number: Any = None
    _thoughts: list[dict[str, Any]] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _reasoned_in: str = ""

    def __post_init__(self) -> None:
        """Prepare what looks at the text."""
        self.inline = TextCallParser(self.known, self.asked)
        self.repetition = Repetition(self.asked)

    def feed(self, chunk: Any) -> Iterator[Event]:
        """Take one chunk (a `delta`) or a body (a `message`); gives the text that may be shown already.

        An answer that only repeats itself is ended here, with an End of its own; nothing after it counts.
        """
        if self.ended:
            return
        if not isinstance(chunk, dict):
            raise Unavailable(f"the model server sent {type(chunk).__name__} where an object belongs")
        if chunk is COMPLETE_CHUNK:
            self._complete()
            return
        choices = chunk.get("choices")
        self.answered = self.answered or isinstance(choices, list)
        choice = self._begun(choices) if isinstance(choices, list) else {}
        self.finish = str(choice.get("finish_reason") or self.finish)
        if wrong := _find_error(chunk, choice):
            self.finish = ""
            raise make_error(read_status(wrong), wrong)
        self._count(chunk.get("usage"))
        part = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
        if isinstance(part, dict):
            yield from self._part(part)

    def _begun(self, choices: list[Any]) -> dict[str, Any]:
        """The answer that was begun first; another that comes in turns with it is left out."""
        found = [choice for choice in choices if isinstance(choice, dict)]
        if self._number is None and found:
            self._number = found[0].get("index") or 0
        return next((choice for choice in found if (choice.get("index") or 0) == self._number), {})

    def _complete(self) -> None:
        if not self.answered:
            raise Unavailable("the model server sent JSON with no answer in it (no choices); check base_url")
        self.finish = self.finish or "stop"

    def _part(self, part: dict[str, Any]) -> Iterator[Event]:
        self._think(part)
        text = self._half + (_get_text(part.get("content")) or _get_text(part.get("refusal")))
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""  # its other half comes next
        text = join_surrogates(text[: len(text) - len(self._half)])
        stuck = self.repetition.feed(text)
        if shown := self.inline.feed(text[:stuck]):
            self.spoke = True
            yield Text(shown)
        if stuck is not None:
            self.finish, self._half = REPEATS, ""
            yield from self.end()
            return
        calls = part.get("tool_calls")
        legacy = part.get("function_call")
        if isinstance(legacy, dict):
            calls = [{"index": 0, "function": legacy}]
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                self._call(call, position)

    def _think(self, part: dict[str, Any]) -> None:
        """Put a thought aside, by the name of the field that it came in."""
        if isinstance(thought := part.get(THOUGHT_FIELD), dict):
            self._thoughts.append(thought)
        name = self._reasoned_in or next((name for name in REASONING_FIELDS if part.get(name)), "")
        if name and isinstance(text := part.get(name), str):
            self._reasoned_in = name
            self._reasoning.append(text)

    def _thought_calls(self) -> list[ParsedCall]:
        """The calls at the end of a thought that nothing follows: some servers take them for a part of it."""
        if not (meant := _TRAILING_CALLS.search("".join(self._reasoning))):
            return []
        inline = TextCallParser(self.known)
        inline.feed(meant[0].strip())
        return inline.end(cut=False)[1]

    def _thought(self) -> Thought:
        parts = [*self._thoughts]
        if self._reasoning:
            parts.append({self._reasoned_in: join_surrogates("".join(self._reasoning))})
        return Thought("", tuple(parts) if len(json.dumps(parts)) <= _MAX_THOUGHT else ())

    def _call(self, call: dict[str, Any], position: int) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        number, name = str(call.get("id") or ""), str(function.get("name") or "")
        index = call.get("index")
        index = index if isinstance(index, int) else position
        pieces = self._open.get(index)
        if pieces is None or pieces.is_another(number, name):
            pieces = self._open[index] = _PartialCall()
            self.calls.append(pieces)
        pieces.id = pieces.id or number
        pieces.name = pieces.name or name
        arguments = function.get("arguments")
        if arguments is not None:
            pieces.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.usage = Usage(_get_count(usage.get("prompt_tokens")), _get_count(usage.get("completion_tokens")))

    def end(self) -> Iterator[Event]:
        """Give what was held back, the tool calls in order, and the End; nothing when they were given."""
        if self.ended:
            return
        self.ended = True
        cut = self.finish in {"length", REPEATS}
        shown = self.inline.feed(join_surrogates(self._half))
        rest, written = self.inline.end(cut=cut)
        self.spoke = self.spoke or bool(shown + rest or self.calls or written)
        if not (self.spoke or cut):
            written = self._thought_calls()
        if shown + rest:
            yield Text(shown + rest)
        for i, pieces in enumerate(self.calls):
            yield pieces.finished(f"c{i}", cut=cut and pieces is self.calls[-1])
        if not self.calls:
            yield from (ToolCall(f"t{i}", name, arguments) for i, (name, arguments) in enumerate(written))
        yield End(self.finish or "stop", self.usage, self._thought())


def _get_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, dict))
    return ""


def _get_count(value: Any) -> int:
    return min(max(value, 0), _MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _find_error(chunk: dict[str, Any], choice: dict[str, Any]) -> Any:
    """What went wrong according to the answer itself, in any of the places where servers say it."""
    marked = "error" in {str(choice.get("finish_reason")), str(chunk.get("object"))}
    other = "choices" not in chunk and isinstance(chunk.get("msg"), str)  # a gateway's own form
    return chunk.get("error") or choice.get("error") or (chunk if marked or other else None)
