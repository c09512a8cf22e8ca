"""The ways in which servers of Anthropic's Messages break, beside those that any server has; see broken_server.py."""

import json
from collections.abc import Iterable
from typing import Any

from anthropic_server import events, refusal, said, stream, text, thought, use, whole
from broken_server import GOOD, STREAMED, WHOLE, WORDS, Ends, Shape, sends
from model_server import Answer, Exchange, Json

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
HALF = '{"path": "note.txt", "con'


def shape(does: str, ends: Ends, answer: Answer, modes: tuple[bool, ...] = (True, False)) -> Shape:
    return Shape(f"Messages: {does}", ends, answer, modes, api="anthropic")


def cut(message: Json, until: str) -> list[Json]:
    """The events of an answer before the first of some type."""
    parts = stream(message)
    return parts[: next(i for i, part in enumerate(parts) if part["type"] == until)]


def use_of(given: Any, name: str = "write_file", stop: str = "tool_use") -> Answer:
    """A call with these arguments, as they are: written in a stream, as a value in a whole answer."""

    def answer(exchange: Exchange) -> None:
        if not exchange.streams:
            exchange.whole(json.dumps(whole({**use(name), "input": given}, stop=stop)).encode())
            return
        start, *_, ended, stopped = stream(whole(use(name), stop=stop))
        written = given if isinstance(given, str) else json.dumps(given)
        delta = {"type": "input_json_delta", "partial_json": written}
        block = {"type": "content_block_start", "index": 0, "content_block": use(name)}
        events(start, block, {"type": "content_block_delta", "index": 0, "delta": delta}, ended, stopped)(exchange)

    return answer


def without(parts: Iterable[Json], *kinds: str) -> Answer:
    return events(*(part for part in parts if part["type"] not in kinds))


BEGUN = cut(whole(text("It is")), "content_block_stop")

MESSAGES = [
    shape("a good answer", "answer", said(WORDS)),
    shape("a whole body although a stream was asked for", "answer", said(WORDS, streams=False), STREAMED),
    shape("a stream although a whole body was asked for", "answer", said(WORDS, streams=True), WHOLE),
    shape("a thought and an answer", "answer", said(thought("Rayleigh."), WORDS)),
    shape("a thought alone", "answer", said(thought("Rayleigh."))),
    shape("no content", "answer", said()),
    shape("a block that nobody knows", "answer", said({"type": "server_tool_use", "id": "x"}, WORDS), WHOLE),
    shape("`refusal`", "answer", said("It is", stop="refusal")),
    shape("`max_tokens` in the middle", "answer", said("It is", stop="max_tokens")),
    shape("ends without message_stop", "answer", without(stream(whole(text(WORDS))), "message_stop"), STREAMED),
    shape("ends in the middle of the text", "begun", events(*BEGUN), STREAMED),
    shape("ends before the text", "again", events(*cut(whole(text(WORDS)), "content_block_start")), STREAMED),
    shape("no message_start", "answer", without(stream(whole(text(WORDS))), "message_start"), STREAMED),
    shape("no content_block_start", "answer", without(stream(whole(text(WORDS))), "content_block_start"), STREAMED),
    shape("overloaded as the first event", "again", events(OVERLOADED), STREAMED),
    shape("overloaded in the middle of the text", "begun", events(*BEGUN, OVERLOADED), STREAMED),
    shape("arguments that are no JSON", "told", use_of('{"{"path":'), STREAMED),
    shape("arguments cut off at the limit", "told", use_of(HALF, stop="max_tokens"), STREAMED),
    shape("arguments cut off, and said to be whole", "told", use_of(HALF), STREAMED),
    shape("arguments that are a list", "told", use_of([1])),
    shape("arguments that are a text", "told", use_of("7")),
    shape("arguments that are null", "told", use_of(None)),
    shape("a tool that is not there", "told", use_of(GOOD, "save_file")),
    shape("a good call", "runs", use_of(GOOD)),
    shape("`end_turn` although it calls", "runs", use_of(GOOD, stop="end_turn")),
    shape("the same id twice", "runs", said(use("list_dir"), use("list_dir"), use("write_file", GOOD))),
    shape("a connection lost within the arguments", "again", events(*cut(whole(use("write_file", GOOD)), "content_block_stop")), STREAMED),
    shape("529, overloaded", "again", refusal(529, "overloaded_error", "Overloaded"), WHOLE),
    shape("429", "again", refusal(429, "rate_limit_error", "Slow down", retry_after="1"), WHOLE),
    shape("429, the reset as a date long ago", "again", refusal(429, "rate_limit_error", "Slow down", anthropic_ratelimit_requests_reset="2024-01-01T00:00:00Z"), WHOLE),
    shape("400, too long", "once", refusal(400, "invalid_request_error", "prompt is too long: 9 > 8 maximum"), WHOLE),
    shape("400, no credit", "once", refusal(400, "invalid_request_error", "Your credit balance is too low"), WHOLE),
    shape("401", "once", refusal(401, "authentication_error", "invalid x-api-key"), WHOLE),
    shape("403", "once", refusal(403, "permission_error", "Your key may not use this model"), WHOLE),
    shape("404", "once", refusal(404, "not_found_error", "model: m"), WHOLE),
    shape("413", "once", refusal(413, "request_too_large", "Request exceeds the maximum size"), WHOLE),
    shape("500", "again", refusal(500, "api_error", "Internal server error"), WHOLE),
    shape("the answer of chat completions", "again", sends({"choices": None}), WHOLE),
]  # fmt: skip
