"""The ways in which model servers, and what stands before them, were seen to break: one table, played over a socket.

Each shape says what the server does, and how that must end for the person. `tests/test_server_shapes.py` holds each to
it through the real door, and `tests/bench/server_shapes.py` prints what is seen.
"""

import gzip
import json
import socket
import struct
import time
import zlib
from collections.abc import Callable
from email.utils import formatdate
from functools import cache
from typing import Any, Literal

from model_server import (
    Answer,
    Exchange,
    Json,
    ModelServer,
    chunk,
    chunks,
    comments,
    drip,
    drop,
    events,
    page,
    raw,
    refusal,
    reply,
    silence,
    status,
    truncated_body,
    truncated_stream,
    usage_of,
    whole_body,
)

from picoclaw.records import dataclass

WORDS = "It is the air."
FILE = "note.txt"
GOOD = {"path": FILE, "content": "hello"}
KEY = "sk-0123456789abcdef"

Ends = Literal["answer", "adapts", "again", "once", "late", "begun", "runs", "told"]
"""answer: the model's words are shown, after one request. adapts: the same, after it was asked in another form.
again: asked again a few times, which helps when it passes, and else one clear line. once: one clear line at once.
late: ended by the time limit of the turn. begun: what was said stays and is marked as cut off, and nobody says it
again. runs: the call is made. told: no call is made, the model is told why, and goes on."""

FAILS = {"again", "once", "begun"}


@dataclass(frozen=True)
class Shape:
    """What a server `does`; `modes` are those it makes sense in, streamed and whole.

    `always` when it does so after a tool's result as well; `at` gives the address to ask, where the server's own is
    not it. `seconds` has the turn, and
    `patience` are those for which a silent server is waited for.
    """

    does: str
    ends: Ends
    answer: Answer
    modes: tuple[bool, ...] = (True, False)
    always: bool = False
    seconds: float = 30.0
    patience: float = 10.0
    at: Callable[[ModelServer], str] | None = None
    api: Literal["openai", "anthropic"] = "openai"


STREAMED, WHOLE = (True,), (False,)
SOON = 0.4


# --- how they are played


def message(finish: Any = "stop", **said: Any) -> Answer:
    """One message, as the only chunk of a stream or as a whole body."""

    def answer(exchange: Exchange) -> None:
        if exchange.streams:
            events(chunk(**said), chunk(finish))(exchange)
        else:
            choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}
            exchange.whole(json.dumps({"choices": [choice]}).encode())

    return answer


def sends(value: Any) -> Answer:
    """A JSON value in the place of an answer, or of the first chunk of one."""

    def answer(exchange: Exchange) -> None:
        if exchange.streams:
            events("data: " + json.dumps(value))(exchange)
        else:
            exchange.whole(json.dumps(value).encode())

    return answer


def asks(arguments: Any, finish: str = "tool_calls", name: Any = "write_file", **more: Any) -> Answer:
    """A call with these arguments, as they are."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}} | more
    return message(finish, content=None, tool_calls=[{k: v for k, v in call.items() if v is not None}])


def good(exchange: Exchange) -> bytes:
    """The bytes of a good answer."""
    if not exchange.streams:
        return json.dumps(whole_body(WORDS)).encode()
    return b"".join(f"data: {json.dumps(c)}\n\n".encode() for c in chunks(WORDS)) + b"data: [DONE]\n\n"


def kind(exchange: Exchange) -> str:
    return "text/event-stream" if exchange.streams else "application/json"


def wrapped(change: Callable[[bytes], bytes], **headers: str) -> Answer:
    """A good answer whose bytes are changed."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.whole(change(good(exchange)), kind(exchange), 200, named)


def on_the_wire(*lines: bytes, body: Callable[[Exchange], bytes] = good, ends: bool = True) -> Answer:
    """An answer written by hand: its head's lines, with SIZE for the body's length, and the body."""

    def answer(exchange: Exchange) -> None:
        data = body(exchange)
        head = b"\r\n".join(lines).replace(b"SIZE", b"%d" % len(data))
        exchange.raw(head + b"\r\n\r\n" + data)
        if ends:
            exchange.hang_up()

    return answer


OK, JSON, SIZE = b"HTTP/1.1 200 OK", b"Content-Type: application/json", b"Content-Length: SIZE"


def nothing(_: Exchange) -> bytes:
    return b""


def resets(*parts: Json, pause: float = 0.0) -> Answer:
    """Reset the connection, after some chunks if there are any, with `pause` seconds after each."""

    def answer(exchange: Exchange) -> None:
        if parts:
            exchange.begin()
        for part in parts:
            exchange.piece(f"data: {json.dumps(part)}\n\n".encode())
            exchange.rest(pause)
        if parts:
            exchange.rest(0.05)  # what was sent would be thrown away with the rest
        linger = struct.pack("ii", 1, 0)
        exchange._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        exchange._handler.rfile.close()
        exchange._handler.wfile.close()
        exchange._handler.connection.close()
        raise ConnectionResetError

    return answer


def drips_its_head(exchange: Exchange) -> None:
    exchange.raw(OK + b"\r\n")
    while True:
        exchange.raw(b"X-Odd: 1\r\n")
        exchange.rest(0.02)


def informs_for_ever(exchange: Exchange) -> None:
    while True:
        exchange.raw(b"HTTP/1.1 102 Processing\r\n\r\n")
        exchange.rest(0.02)


def blanks(count: int, pause: float) -> Answer:
    """Empty lines before the answer, as a busy server keeps a connection open with."""

    def answer(exchange: Exchange) -> None:
        exchange.begin(kind(exchange))
        for _ in range(count):
            exchange.piece(b"\n")
            exchange.rest(pause)
        exchange.piece(good(exchange))
        exchange.finish()

    return answer


def waits(line: str, count: int, pause: float) -> Answer:
    """A stream that begins with signs of life."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for _ in range(count):
            exchange.piece(line.encode() + b"\n\n")
            exchange.rest(pause)
        exchange.piece(good(exchange))
        exchange.finish()

    return answer


def lives_on(*parts: str, pause: float = 0.02) -> Answer:
    """The parts, and then signs of life for ever."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for part in parts[:-1]:
            exchange.piece(f"{part}\n\n".encode())
        while True:
            exchange.piece(f"{parts[-1]}\n\n".encode())
            exchange.rest(pause)

    return answer


def never_ends(exchange: Exchange) -> None:
    exchange.begin(kind(exchange))
    exchange.piece(good(exchange))
    exchange.rest()


def endless(piece: bytes) -> Answer:
    """The same bytes as fast as they are taken, for ever."""

    def answer(exchange: Exchange) -> None:
        exchange.begin(kind(exchange))
        while True:
            exchange.piece(piece)

    return answer


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * 20_000_000, 1)


def in_a_while(seconds: int) -> Answer:
    """Slow down until a date, by the clock of when that is said."""

    def answer(exchange: Exchange) -> None:
        date = formatdate(time.time() + seconds, usegmt=True)
        refusal(429, "Slow down", retry_after=date)(exchange)

    return answer


def split_at(text: str) -> Answer:
    """A stream cut into pieces of single bytes."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        data = b"".join(f"data: {json.dumps(c, ensure_ascii=False)}\n\n".encode() for c in chunks(text))
        for byte in data + b"data: [DONE]\n\n":
            exchange.piece(bytes([byte]))
        exchange.finish()

    return answer


def unless(key: str, words: str, **more: Any) -> Answer:
    """Refuse a request as long as it has a key."""

    def answer(exchange: Exchange) -> None:
        (refusal(400, words, **more) if key in exchange.body else reply(WORDS))(exchange)

    return answer


def text(*pieces: str, finish: Any = "stop", done: bool = True, after: tuple[Any, ...] = ()) -> Answer:
    """A stream of pieces of text."""
    return events(*(chunk(content=piece) for piece in pieces), chunk(finish), *after, done=done)


def closed(server: ModelServer) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def in_tls(server: ModelServer) -> str:
    return server.url.replace("http://", "https://")


HALF = '{"path": "note.txt", "con'
NDJSON = b'{"message": {"role": "assistant", "content": "It is"}, "done": false}\n{"message": {}, "done": true}\n'
CLOUDFLARE = "<!DOCTYPE html>\n<html><head><title>{} | api.example.com</title></head><body>Cloudflare</body></html>"
EDGE = {"cloudflare_error": True, "status": 522, "detail": "Connection timed out", "retryable": True, "retry_after": 5}
FIRST = chunk(content="It is")
ERROR = {"error": {"message": "The engine died", "type": "server_error", "code": 500}}


def cloudflare(code: int) -> Answer:
    return status(code, CLOUDFLARE.format(code), "text/html")


CONNECTION = [
    Shape("nobody listens at the address", "again", drop(), at=closed),
    Shape("speaks http where base_url says https", "again", drop(), at=in_tls),
    Shape("closes the connection without a word", "again", drop()),
    Shape("resets the connection", "again", resets()),
    Shape("resets the connection in the middle of the text", "begun", resets(FIRST), STREAMED),
    Shape("resets the connection after a long answer", "begun", resets(FIRST, *[chunk(content=" long")] * 9, pause=SOON / 4), STREAMED, patience=SOON),
    Shape("accepts the request and stays silent", "again", silence(), patience=SOON),
    Shape("sends its head and stays silent", "again", silence(chunk(role="assistant")), STREAMED, patience=SOON),
    Shape("falls silent in the middle of the text", "begun", silence(FIRST), STREAMED, patience=SOON),
    Shape("speaks another protocol (SSH)", "again", on_the_wire(b"SSH-2.0-OpenSSH_9.2", body=nothing)),
    Shape("sends a status line that is none", "again", on_the_wire(b"HTTP/1.1 fine", SIZE)),
    Shape("answers in HTTP/1.0 and ends with the connection", "answer", on_the_wire(b"HTTP/1.0 200 OK", JSON)),
    Shape("says 100 Continue first", "answer", on_the_wire(b"HTTP/1.1 100 Continue\r\n", OK, SIZE, ends=False)),
    Shape("says 102 Processing for ever", "again", informs_for_ever, STREAMED, patience=SOON),
    Shape("drips its headers for ever", "again", drips_its_head, STREAMED, patience=SOON),
    Shape("sends 200 KB of headers", "again", on_the_wire(OK, b"X-Odd: " + b"x" * 200_000, SIZE)),
    Shape("sends a header without a colon", "again", on_the_wire(OK, b"odd", SIZE)),
    Shape("sends a header of other bytes than ASCII", "answer", on_the_wire(OK, "X-Odd: größe".encode(), SIZE)),
    Shape("names a length that is no number", "again", on_the_wire(OK, b"Content-Length: many")),
    Shape("names two lengths", "again", on_the_wire(OK, SIZE, b"Content-Length: 7")),
    Shape("promises more bytes than come", "again", truncated_body(), WHOLE),
    Shape("promises fewer bytes than come", "again", on_the_wire(OK, b"Content-Length: 40"), WHOLE),
    Shape("names chunked and a length at once", "answer", on_the_wire(OK, SIZE, b"Transfer-Encoding: chunked", body=lambda x: b"%x\r\n%s\r\n0\r\n\r\n" % (len(good(x)), good(x)))),
    Shape("counts its chunks wrongly", "again", on_the_wire(OK, b"Transfer-Encoding: chunked", body=lambda x: b"zz\r\n" + good(x))),
    Shape("ends its chunks with trailers", "answer", on_the_wire(OK, b"Transfer-Encoding: chunked", body=lambda x: b"%x\r\n%s\r\n0\r\nX-Odd: 1\r\n\r\n" % (len(good(x)), good(x)))),
    Shape(
        "goes on after the end of its body",
        "answer",
        on_the_wire(
            OK,
            b"Content-Length: 165",
            body=lambda x: (
                json.dumps({"choices": [{"message": {"content": WORDS}}]}).encode().ljust(165) + b"and then some"
            ),
            ends=False,
        ),
        WHOLE,
    ),
    Shape("closes a connection that it said it would keep", "answer", on_the_wire(OK, SIZE)),
]  # fmt: skip

NO_MODEL_SERVER = [
    Shape("a web page: the network wants a login", "again", page(), STREAMED),
    Shape("a web page that is called JSON", "again", page(kind="application/json"), STREAMED),
    Shape("302 to a login page", "again", status(302, location="http://login.example.com/?back"), STREAMED),
    Shape("301 to another address", "once", status(301, location="https://api.example.com/v1"), STREAMED),
    Shape("308 to another address", "once", status(308, location="/v2/chat/completions"), STREAMED),
    Shape("307 to another address", "again", status(307, location="/busy"), STREAMED),
    Shape("302 to an address that is none", "again", status(302, location="http://[::1"), STREAMED),
    Shape("301 to nowhere", "once", status(301), STREAMED),
    Shape("511 network authentication required", "again", page(511), STREAMED),
    Shape("404 with a web page", "once", page(404), STREAMED),
    Shape("404 page not found", "once", status(404, "404 page not found", "text/plain"), STREAMED),
    Shape("405", "once", status(405, {"detail": "Method Not Allowed"}), STREAMED),
    Shape("200 and 'Ollama is running'", "again", raw(b"Ollama is running", "text/plain")),
    Shape("200 and nothing", "again", raw(b"")),
    Shape("204", "again", status(204), STREAMED),
    Shape("200 and the list of models", "again", sends({"object": "list", "data": [{"id": "m"}]})),
    Shape("200 and a status", "again", sends({"status": "ok"})),
    Shape("200 and Ollama's own lines", "again", raw(NDJSON, "application/x-ndjson")),
    Shape(
        "200 and the answer of another API (responses)",
        "again",
        sends(
            {"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", "text": WORDS}]}]}
        ),
    ),
    Shape(
        "200 and the answer of another API (messages)",
        "again",
        sends(
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": WORDS}],
                "stop_reason": "end_turn",
            }
        ),
    ),
    Shape("the text of the older completions", "answer", sends({"choices": [{"index": 0, "text": WORDS, "finish_reason": "stop"}]})),
]  # fmt: skip

WRAPPINGS = [
    Shape("201 with a good answer", "answer", lambda x: x.whole(good(x), kind(x), 201)),
    Shape("gzip that nobody asked for", "answer", wrapped(gzip.compress, Content_Encoding="gzip")),
    Shape("deflate that nobody asked for", "answer", wrapped(zlib.compress, Content_Encoding="deflate")),
    Shape("gzip that is none", "again", wrapped(lambda data: data, Content_Encoding="gzip")),
    Shape("gzip that is damaged", "again", wrapped(lambda data: gzip.compress(data)[:20] + b"\x00" * 40, Content_Encoding="gzip")),
    Shape("gzip that ends too early", "again", wrapped(lambda data: gzip.compress(data)[: len(gzip.compress(data)) // 2], Content_Encoding="gzip")),
    Shape("20 MB of blanks in 90 KB of gzip", "once", wrapped(lambda _: bomb(), Content_Encoding="gzip")),
    Shape("an encoding that nobody knows", "again", wrapped(lambda data: data[::-1], Content_Encoding="zstd")),
    Shape("a byte order mark first", "answer", wrapped(lambda data: b"\xef\xbb\xbf" + data)),
    Shape("UTF-16", "again", wrapped(lambda data: data.decode().encode("utf-16"))),
    Shape("bytes that are no UTF-8", "answer", wrapped(lambda data: data.replace(b"scripted", b"scr\xe4pted"))),
    Shape("a stream that is called JSON", "answer", events(*chunks(WORDS), kind="application/json"), STREAMED),
    Shape("a whole body although a stream was asked for", "answer", reply(WORDS, stream=False), STREAMED),
    Shape("a stream although a whole body was asked for", "answer", reply(WORDS, stream=True), WHOLE),
    Shape("lines that end with CR LF", "answer", wrapped(lambda data: data.replace(b"\n", b"\r\n")), STREAMED),
    Shape("lines that end with CR alone", "answer", wrapped(lambda data: data.replace(b"\n", b"\r")), STREAMED),
    Shape("one event over several data lines", "answer", wrapped(lambda data: data.replace(b', "choices"', b',\ndata: "choices"')), STREAMED),
    Shape("no blank after `data:`", "answer", wrapped(lambda data: data.replace(b"data: ", b"data:")), STREAMED),
    Shape("ids, event names and retry lines", "answer", wrapped(lambda data: data.replace(b"data: {", b"id: 7\nevent: message\nretry: 100\ndata: {")), STREAMED),
    Shape("a body over many lines", "answer", wrapped(lambda data: json.dumps(json.loads(data), indent=4).encode()), WHOLE),
    Shape("every byte by itself", "answer", split_at("It is 20 °C 🌡."), STREAMED),
    Shape("a single line of 500 KB", "answer", message(content=" ".join(map(str, range(90_000))))),
    Shape("a body of 50 MB", "once", endless(b"x" * 65_536)),
    Shape("a line that never ends", "late", drip(), STREAMED, seconds=0.5),
]  # fmt: skip

BODIES = [
    Shape("`choices: []` (filtered)", "answer", sends({"choices": []})),
    Shape("`choices: null`", "again", sends({"choices": None})),
    Shape("`choices: [null]`", "answer", sends({"choices": [None]})),
    Shape("a plain string", "again", sends(WORDS)),
    Shape("`null`", "again", sends(None)),
    Shape("a list", "again", sends([whole_body(WORDS)])),
    Shape("JSON nested 100,000 deep", "again", raw(b"[" * 100_000)),
    Shape("a number of 10,000 digits", "again", raw(b'{"choices": [], "created": ' + b"9" * 10_000 + b"}")),
    Shape("an object in the place of `choices`", "again", sends({"choices": {"message": {"content": WORDS}}})),
    Shape("`delta: null` at the end", "answer", events(chunk(content=WORDS), {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}), STREAMED),
    Shape("`message: null`", "answer", sends({"choices": [{"message": None, "finish_reason": "stop"}]}), WHOLE),
    Shape("`content: null`", "answer", message(content=None)),
    Shape("an empty text", "answer", message(content="")),
    Shape("nothing but blanks", "answer", message(content=" \n\t")),
    Shape("nothing but reasoning_content", "answer", message(content=None, reasoning_content="Rayleigh, I think.")),
    Shape("nothing but reasoning", "answer", message(content="", reasoning="Rayleigh, I think.")),
    Shape("reasoning and an answer", "answer", message(content=WORDS, reasoning_content="Rayleigh.")),
    Shape("`<think>` before the answer", "answer", message(content=f"<think>Rayleigh.</think>{WORDS}")),
    Shape("`<think>` that is never closed", "answer", message(content="<think>Rayleigh, I think.")),
    Shape("text as a list of parts", "answer", message(content=[{"type": "text", "text": WORDS}])),
    Shape("parts that are no text", "answer", message(content=[{"type": "image_url", "image_url": {"url": "x"}}])),
    Shape("a number as the text", "answer", message(content=7)),
    Shape("a refusal field", "answer", message(content=None, refusal="I cannot help with that.")),
    Shape("`content_filter` in the middle", "answer", message("content_filter", content="It is")),
    Shape("`length` in the middle", "answer", message("length", content="It is")),
    Shape("a finish that nobody knows", "answer", message("eos_token", content=WORDS)),
    Shape("a finish that is a number", "answer", message(7, content=WORDS)),
    Shape("no finish at all", "answer", message(None, content=WORDS)),
    Shape("a last chunk with usage only", "answer", reply(WORDS), STREAMED),
    Shape("usage that is nonsense", "answer", sends(whole_body(WORDS) | {"usage": {"prompt_tokens": -5, "completion_tokens": "many"}})),
    Shape("usage larger than any number that is kept", "answer", sends(whole_body(WORDS) | {"usage": usage_of((10**30, 10**30))})),
    Shape("another model's name", "answer", sends(whole_body(WORDS) | {"model": "something-else"})),
    Shape(
        "two answers at once",
        "answer",
        events(
            chunk(content="It is "),
            {"choices": [{"index": 1, "delta": {"content": "Perhaps "}}]},
            chunk(content="the air."),
            chunk("stop"),
        ),
        STREAMED,
    ),
    Shape("half a character", "answer", message(content="It is \ud83d the air.")),
    Shape("zero bytes in the text", "answer", message(content="It is\0 the air.")),
    Shape("control tokens of its template in the text", "answer", message(content=f"{WORDS}<|im_end|>")),
    Shape("the same sentence for ever", "answer", message(content="It is the air. " * 400)),
    Shape("the key in its text", "answer", message(content=f"Your key is {KEY}.")),
]  # fmt: skip

STREAMS = [
    Shape("ends without a word", "again", events(done=False), STREAMED),
    Shape("ends in the middle of the text", "begun", truncated_stream(FIRST), STREAMED),
    Shape("ends in good order in the middle of the text", "begun", events(FIRST, done=False), STREAMED),
    Shape("ends before the first word", "again", truncated_stream(chunk(role="assistant", content="")), STREAMED),
    Shape("ends without [DONE]", "answer", text(WORDS, done=False), STREAMED),
    Shape("ends with [DONE] alone", "answer", events(FIRST, chunk(content=" the air.")), STREAMED),
    Shape("breaks off after the finish", "answer", truncated_stream(chunk(content=WORDS), chunk("stop")), STREAMED),
    Shape("[DONE] and nothing else", "again", events(), STREAMED),
    Shape("never ends after [DONE]", "answer", never_ends, STREAMED),
    Shape("goes on after [DONE]", "answer", text(WORDS, after=("data: [DONE]", "data: {odd", "x")), STREAMED),
    Shape("an error as the first event", "again", events(ERROR), STREAMED),
    Shape("an error in the middle of the text", "begun", events(FIRST, ERROR), STREAMED),
    Shape("an event named error", "again", events(f"event: error\ndata: {json.dumps(ERROR)}", done=False), STREAMED),
    Shape("an error line", "again", events('error: {"message": "slot died", "code": 500}', done=False), STREAMED),
    Shape("`finish_reason: error`", "begun", events(FIRST, chunk("error")), STREAMED),
    Shape("an error as the first event that says 400", "once", events({"error": {"message": "odd request", "code": 400}}), STREAMED),
    Shape("an error of the rate as the first event", "again", events({"error": {"message": "Rate limit reached, try again in 2s", "code": 429}}), STREAMED),
    Shape("a broken line in the middle of the text", "begun", events(FIRST, "data: {odd"), STREAMED),
    Shape("a broken line before the text", "again", events("data: {odd"), STREAMED),
    Shape("`data: null`", "again", events("data: null"), STREAMED),
    Shape("comments for a while", "answer", waits(": OPENROUTER PROCESSING", 3, 0.02), STREAMED),
    Shape("pings for a while", "answer", waits('event: ping\ndata: {"type": "ping"}', 3, 0.02), STREAMED),
    Shape("blank lines for a while", "answer", blanks(3, 0.02)),
    Shape("nothing but comments", "again", comments(0.02), STREAMED, patience=SOON),
    Shape("nothing but pings", "again", lives_on('event: ping\ndata: {"type": "ping"}'), STREAMED, patience=SOON),
    Shape("nothing but comments after some words", "begun", lives_on(f"data: {json.dumps(FIRST)}", ": wait"), STREAMED, patience=SOON),
    Shape("nothing but blank lines", "again", drip(b"\n", 0.02), WHOLE, patience=SOON),
    Shape("empty chunks for a while", "answer", text("", "", "", WORDS), STREAMED),
    Shape("a token now and then", "answer", reply(WORDS, pieces=2, pause=0.05), STREAMED, patience=SOON),
    Shape("a message in the place of a delta", "answer", events({"choices": [{"index": 0, "message": {"content": WORDS}, "finish_reason": "stop"}]}), STREAMED),
]  # fmt: skip

CALLS = [
    Shape("arguments that are no JSON", "told", asks('{"{"path":')),
    Shape("arguments cut off at the limit", "told", asks(HALF, "length")),
    Shape("arguments cut off, and said to be whole", "told", asks(HALF)),
    Shape(
        "a connection lost within the arguments",
        "again",
        truncated_stream(
            chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "write_file", "arguments": HALF}}])
        ),
        STREAMED,
    ),
    Shape(
        "a connection lost after the arguments",
        "again",
        truncated_stream(
            chunk(
                tool_calls=[{"index": 0, "id": "c", "function": {"name": "write_file", "arguments": json.dumps(GOOD)}}]
            )
        ),
        STREAMED,
    ),
    Shape("`null` as arguments", "told", asks("null")),
    Shape("a list as arguments", "told", asks("[1]")),
    Shape("a number as arguments", "told", asks("7")),
    Shape("a text as arguments", "told", asks('"note.txt"')),
    Shape("no arguments", "told", asks(None)),
    Shape("empty arguments", "told", asks("")),
    Shape("an object that is no text", "runs", asks(GOOD)),
    Shape("arguments encoded twice", "runs", asks(json.dumps(json.dumps(GOOD)))),
    Shape("a trailing comma", "runs", asks('{"path": "note.txt", "content": "hello",}')),
    Shape("single quotes", "told", asks("{'path': 'note.txt', 'content': 'hello'}")),
    Shape("NaN among the arguments", "told", asks('{"path": "note.txt", "content": NaN}')),
    Shape("text after the arguments", "told", asks(json.dumps(GOOD) + " I hope this helps.")),
    Shape("the arguments twice", "told", asks(json.dumps(GOOD) * 2)),
    Shape("a zero byte in a path", "told", asks('{"path": "note.txt\\u0000", "content": "hello"}')),
    Shape("arguments nested 1,000 deep", "told", asks('{"path": ' + "[" * 1000 + "]" * 1000 + "}")),
    Shape("1 MB of arguments", "runs", asks(json.dumps(GOOD | {"content": "x" * 1_000_000}))),
    Shape("arguments of the wrong type", "told", asks('{"path": ["note.txt"], "content": {}}')),
    Shape("arguments that the tool does not know", "told", asks(json.dumps(GOOD | {"encoding": "utf-8"}))),
    Shape("a tool that is not there", "told", asks(json.dumps(GOOD), name="save_file")),
    Shape("a tool with an empty name", "told", asks(json.dumps(GOOD), name="")),
    Shape("a call without a function", "told", message("tool_calls", content=None, tool_calls=[{"id": "c"}])),
    Shape("no id", "runs", asks(json.dumps(GOOD), id=None)),
    Shape("an id of 300 odd characters", "runs", asks(json.dumps(GOOD), id="ö/" * 150)),
    Shape("a number as the id", "runs", asks(json.dumps(GOOD), id=7)),
    Shape(
        "the same id twice",
        "runs",
        message(
            "tool_calls",
            content=None,
            tool_calls=[
                {"index": i, "id": "c", "type": "function", "function": {"name": "list_dir", "arguments": "{}"}}
                for i in (0, 1)
            ]
            + [
                {
                    "index": 2,
                    "id": "c",
                    "type": "function",
                    "function": {"name": "write_file", "arguments": json.dumps(GOOD)},
                }
            ],
        ),
    ),
    Shape("no index", "runs", asks(json.dumps(GOOD), index=None)),
    Shape("`stop` although it calls", "runs", asks(json.dumps(GOOD), "stop")),
    Shape("`tool_calls` although it calls none", "answer", message("tool_calls", content=WORDS)),
    Shape("the same key twice", "runs", asks('{"path": "other.txt", "path": "note.txt", "content": "hello"}')),
    Shape("a list that is no text", "told", asks([1])),
    Shape(
        "a name in two pieces",
        "told",
        events(
            chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "write_", "arguments": ""}}]),
            chunk(tool_calls=[{"index": 0, "function": {"name": "file", "arguments": json.dumps(GOOD)}}]),
            chunk("tool_calls"),
        ),
        STREAMED,
    ),
    Shape(
        "the name and the id with every piece",
        "runs",
        events(
            *(
                chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "write_file", "arguments": part}}])
                for part in ('{"path": "note.txt", ', '"content": "hello"}')
            ),
            chunk("tool_calls"),
        ),
        STREAMED,
    ),
    Shape("an empty list of calls", "answer", message(content=WORDS, tool_calls=[])),
    Shape("`tool_calls: null`", "answer", message(content=WORDS, tool_calls=None)),
    Shape("an object in the place of the list of calls", "answer", message(content=WORDS, tool_calls={"id": "c"})),
    Shape("the older `function_call`", "runs", message("function_call", content=None, function_call={"name": "write_file", "arguments": json.dumps(GOOD)})),
    Shape("a call in a `<tool_call>` tag", "runs", message(content=f"<tool_call>\n{json.dumps({'name': 'write_file', 'arguments': GOOD})}\n</tool_call>")),
    Shape("a call in a fence", "runs", message(content=f"```json\n{json.dumps({'name': 'write_file', 'arguments': GOOD})}\n```")),
    Shape("a call as bare JSON", "runs", message(content=json.dumps({"name": "write_file", "parameters": GOOD}))),
    Shape("a call in a tag, cut off", "answer", message("length", content='<tool_call>\n{"name": "write_file", "argum')),
    Shape("the same call for ever", "told", asks("{}", name="list_dir"), always=True),
    Shape(
        "100 calls at once",
        "told",
        message(
            "tool_calls",
            content=None,
            tool_calls=[
                {"index": i, "id": f"c{i}", "function": {"name": "nosuch", "arguments": "{}"}} for i in range(100)
            ],
        ),
    ),
]  # fmt: skip

LIMITS = [
    Shape("429 without a hint", "again", refusal(429, "Slow down"), STREAMED),
    Shape("429, Retry-After in seconds", "again", refusal(429, "Slow down", retry_after="2"), STREAMED),
    Shape("429, Retry-After as a date", "again", in_a_while(3), WHOLE),
    Shape("429, retry-after-ms", "again", refusal(429, "Slow down", retry_after_ms="1500"), WHOLE),
    Shape("429, the time in its words", "again", refusal(429, "Rate limit: try again in 1.5s."), WHOLE),
    Shape(
        "429, x-ratelimit-reset",
        "again",
        refusal(
            429,
            "Slow down",
            x_ratelimit_remaining_requests="0",
            x_ratelimit_reset_requests="2s",
            x_ratelimit_remaining_tokens="99",
            x_ratelimit_reset_tokens="6m0s",
        ),
        WHOLE,
    ),
    Shape(
        "429, the time in Google's details",
        "again",
        status(
            429,
            [
                {
                    "error": {
                        "code": 429,
                        "message": "Resource has been exhausted",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}],
                    }
                }
            ],
        ),
        WHOLE,
    ),
    Shape("429, for an hour", "once", refusal(429, "Slow down", retry_after="3600"), STREAMED),
    Shape("429, for an hour, by its words", "once", refusal(429, "Please try again in 59m30s."), WHOLE),
    Shape("429, a Retry-After that is nonsense", "again", refusal(429, "Slow down", retry_after="soon"), WHOLE),
    Shape(
        "429, the money is used up",
        "once",
        status(
            429,
            {
                "error": {
                    "message": "You exceeded your current quota",
                    "type": "insufficient_quota",
                    "code": "insufficient_quota",
                }
            },
        ),
        WHOLE,
    ),
    Shape("402, the money is used up", "once", refusal(402, "Insufficient Balance"), WHOLE),
    Shape(
        "400, the conversation is too long",
        "once",
        status(
            400,
            {
                "error": {
                    "message": "This model's maximum context length is 4096 tokens.",
                    "code": "context_length_exceeded",
                }
            },
        ),
    ),
    Shape("413", "once", refusal(413, "Request too large"), WHOLE),
    Shape("500, the conversation is too long (llama.cpp)", "once", refusal(500, "the request exceeds the available context size, try increasing it"), WHOLE),
    Shape("an overflow within a stream", "once", events({"error": {"message": "context length exceeded", "code": 400}}), STREAMED),
    Shape("400, max_tokens has another name", "adapts", unless("max_tokens", "Unsupported parameter: 'max_tokens', use 'max_completion_tokens' instead.")),
    Shape("400, stream_options is not known", "adapts", unless("stream_options", "Unknown field: stream_options"), STREAMED),
    Shape("400, something else", "once", refusal(400, "tools is not supported by this model"), WHOLE),
    Shape("400, the roles do not alternate", "once", refusal(400, "Conversation roles must alternate"), WHOLE),
    Shape("422, a list of details", "once", status(422, {"detail": [{"loc": ["body"], "msg": "extra forbidden"}]}), WHOLE),
    Shape("400, bytes that are no text", "once", status(400, b"\xff\xfe\x00"), WHOLE),
    Shape("401, the key was changed", "once", refusal(401, "Incorrect API key provided"), STREAMED),
    Shape("401, the key within its words", "once", refusal(401, f"Incorrect API key provided: {KEY}"), WHOLE),
    Shape("403, not in this country", "once", refusal(403, "Country, region, or territory not supported"), WHOLE),
    Shape("403, a web page of the edge", "once", cloudflare(403), WHOLE),
    Shape("404, the model is gone", "once", refusal(404, "The model `m` does not exist"), STREAMED),
    Shape("410, the model is gone", "once", refusal(410, "The model m was retired"), WHOLE),
    Shape("408", "again", refusal(408, "Request timed out"), WHOLE),
    Shape("409", "again", refusal(409, "Conflict"), WHOLE),
    Shape("423, locked", "again", refusal(423, "Locked"), WHOLE),
    Shape("424, the model behind it failed", "again", refusal(424, "Failed dependency"), WHOLE),
    Shape("425", "again", refusal(425, "Too early"), WHOLE),
    Shape("431, the headers are too large", "once", refusal(431, "Request header fields too large"), WHOLE),
    Shape("451, for legal reasons", "once", refusal(451, "Unavailable for legal reasons"), WHOLE),
    Shape("499, the proxy hung up", "again", status(499, ""), WHOLE),
    Shape("500 in JSON", "again", refusal(500, "The server had an error"), STREAMED),
    Shape("500 in words", "again", status(500, "Internal\nServer Error", "text/plain"), WHOLE),
    Shape("500 and nothing", "again", status(500, b""), WHOLE),
    Shape("500 and 100 KB", "again", status(500, "x" * 100_000, "text/plain"), WHOLE),
    Shape("500 whose words never end", "again", drip(b"x", 0.02, code=500), WHOLE, patience=SOON),
    Shape("500, the history cannot be read", "again", refusal(500, "no user query found in messages"), WHOLE),
    Shape("501", "again", refusal(501, "Not implemented"), WHOLE),
    Shape("502 with a web page", "again", cloudflare(502), STREAMED),
    Shape("503, the model is being loaded", "again", status(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})),
    Shape("503, Retry-After for a minute", "once", refusal(503, "Maintenance", retry_after="60"), WHOLE),
    Shape("504 with a web page", "again", cloudflare(504), WHOLE),
    Shape("520 with a web page", "again", cloudflare(520), WHOLE),
    Shape("522 in the edge's JSON", "again", status(522, EDGE), WHOLE),
    Shape("524 with a web page", "again", cloudflare(524), WHOLE),
    Shape("529, overloaded", "again", status(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})),
    Shape("530 with a web page", "again", cloudflare(530), WHOLE),
    Shape("999", "again", status(999, "odd", "text/plain"), WHOLE),
    Shape("an error in gzip", "again", status(503, gzip.compress(b'{"error": {"message": "Busy"}}'), Content_Encoding="gzip"), WHOLE),
    Shape("an error that is a text", "again", status(500, {"error": "model runner has unexpectedly stopped"}), WHOLE),
    Shape("an error that is `true`", "again", status(500, {"error": True}), WHOLE),
    Shape("200 and an error", "again", sends({"error": {"message": "The model crashed"}}), WHOLE),
    Shape("200 and an error that is a text", "again", sends({"error": "out of memory"}), WHOLE),
    Shape("200 and a number of its own for what went wrong", "again", sends({"code": 50_001, "msg": "the upstream is busy", "data": None}), WHOLE),
]  # fmt: skip
