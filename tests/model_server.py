"""A model server on a real loopback socket that answers by a script, well or badly.

    with ModelServer([reply("", call("sensor_read")), reply("It is 21 °C.")]) as server:
        ModelProvider(ModelConfig(base_url=server.url)) ...
        server.requests, server.connections, server.hung_up

A script is a list of answers, or a function from a request's body to an answer. An answer is a function of an
Exchange; those below are the common ones. Unless told otherwise they stream when the request asked for it.

By hand: `python tests/model_server.py --port 8080`, then PICOCLAW_BASE_URL=http://127.0.0.1:8080/v1.
"""

import argparse
import contextlib
import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from picoclaw.records import dataclass

Json = dict[str, Any]
STREAM = "text/event-stream"
NO_USAGE = (0, 0)


class HungUpError(Exception):
    """The client went away, or the server is being closed."""


@dataclass(frozen=True)
class Received:
    """A request as it came in; header names in small letters."""

    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int

    @property
    def said(self) -> str:
        """The text of the newest message."""
        return str(self.body["messages"][-1]["content"])


class Exchange:
    """One request and the socket to answer it on, at the level of bytes."""

    def __init__(self, handler: "_Handler", body: Any) -> None:
        self.body = body
        self.server = handler.server.owner
        self._handler = handler

    @property
    def streams(self) -> bool:
        return bool(isinstance(self.body, dict) and self.body.get("stream"))

    def head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def whole(
        self, data: bytes, kind: str = "application/json", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a complete answer of known length."""
        self.head(status, kind, {"Content-Length": str(len(data)), **(headers or {})})
        self.raw(data)

    def begin(self, kind: str = STREAM, status: int = 200) -> None:
        """Begin an answer of unknown length (chunked)."""
        self.head(status, kind, {"Transfer-Encoding": "chunked"})

    def piece(self, data: bytes) -> None:
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def finish(self) -> None:
        self.raw(b"0\r\n\r\n")

    def raw(self, data: bytes) -> None:
        self.rest(0)
        self._handler.wfile.write(data)

    def rest(self, seconds: float = 3600.0) -> None:
        """Wait; HungUpError as soon as the client has gone or the server is to close."""
        until = time.monotonic() + seconds
        while True:
            if self._gone() or self.server.closing.is_set():
                raise HungUpError
            left = until - time.monotonic()
            if left <= 0:
                return
            select.select([self._handler.connection], [], [], min(left, 0.02))

    def _gone(self) -> bool:
        if not select.select([self._handler.connection], [], [], 0)[0]:
            return False
        return not self._handler.connection.recv(1, socket.MSG_PEEK)

    def hang_up(self) -> None:
        self._handler.close_connection = True


Answer = Callable[[Exchange], None]


def call(name: str, arguments: Any = "{}", number: str = "call_1", **more: Any) -> Json:
    """A tool call on the wire; arguments that are not text are encoded, as a decent server does."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": number, "type": "function", "function": {"name": name, "arguments": text}, **more}


def usage_of(usage: tuple[int, int]) -> Json:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def whole_body(
    text: Any = "", calls: Iterable[Json] = (), finish: str = "", usage: tuple[int, int] = (7, 3), **message: Any
) -> Json:
    """The body of an answer that is not streamed."""
    calls = list(calls)
    said = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {}) | message
    choice = {"index": 0, "message": said, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    counted = {} if usage == NO_USAGE else {"usage": usage_of(usage)}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "scripted", "choices": [choice]} | counted


def chunk(finish: str | None = None, **delta: Any) -> Json:
    """One chunk of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


def chunks(
    text: str = "",
    calls: Iterable[Json] = (),
    finish: str = "",
    usage: tuple[int, int] = (7, 3),
    pieces: int = 4,
    **message: Any,
) -> list[Json]:
    """The same answer as chunks of `pieces` characters."""
    calls = list(calls)
    out = [chunk(role="assistant", content="", **message)]
    out += [chunk(content=part) for part in _cut(text, pieces)]
    for index, one in enumerate(calls):
        function = one["function"]
        out.append(chunk(tool_calls=[one | {"index": index, "function": function | {"arguments": ""}}]))
        for part in _cut(function["arguments"], pieces):
            out.append(chunk(tool_calls=[{"index": index, "function": {"arguments": part}}]))
    out.append(chunk(finish or ("tool_calls" if calls else "stop")))
    return out if usage == NO_USAGE else [*out, {"choices": [], "usage": usage_of(usage)}]


def _cut(text: str, length: int) -> list[str]:
    return [text[i : i + length] for i in range(0, len(text), length)]


def reply(
    text: str = "",
    *calls: Json,
    finish: str = "",
    usage: tuple[int, int] = (7, 3),
    stream: bool | None = None,
    pieces: int = 4,
    pause: float = 0.0,
    **message: Any,
) -> Answer:
    """A good answer; `pause` seconds between the chunks, and before the whole."""

    def answer(exchange: Exchange) -> None:
        if exchange.streams if stream is None else stream:
            events(*chunks(text, calls, finish, usage, pieces, **message), pause=pause)(exchange)
        else:
            exchange.rest(pause)
            exchange.whole(json.dumps(whole_body(text, calls, finish, usage, **message)).encode())

    return answer


def events(*parts: Json | str, done: bool = True, pause: float = 0.0, kind: str = STREAM) -> Answer:
    """Server-sent events: an object becomes a `data:` line, a text goes out as the line it is."""

    def answer(exchange: Exchange) -> None:
        exchange.begin(kind)
        for part in (*parts, *(["data: [DONE]"] if done else [])):
            line = part if isinstance(part, str) else f"data: {json.dumps(part)}"
            exchange.piece(f"{line}\n\n".encode())
            exchange.rest(pause)
        exchange.finish()

    return answer


def status(code: int, body: Any = "", kind: str = "application/json", **headers: str) -> Answer:
    """An error answer; `retry_after="2"` becomes the header retry-after."""
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.whole(data, kind, code, named)


def refusal(code: int, message: str, **headers: str) -> Answer:
    """An error answer in the usual shape."""
    return status(code, {"error": {"message": message, "type": "error"}}, **headers)


def page(code: int = 200, kind: str = "text/html; charset=utf-8") -> Answer:
    """A web page, as captive portals and proxies send it."""
    return status(code, "<!DOCTYPE html>\n<html><title>Sign in</title><p>Welcome.</p></html>", kind)


def raw(data: bytes, kind: str = "application/json") -> Answer:
    """Any bytes as a complete answer."""
    return lambda exchange: exchange.whole(data, kind)


def truncated_stream(*parts: Json | str) -> Answer:
    """A stream whose connection breaks after the parts."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for part in parts or (chunk(content="It is 2"),):
            exchange.piece(f"data: {json.dumps(part)}\n\n".encode())
        exchange.hang_up()

    return answer


def truncated_body(text: str = "It is 21.") -> Answer:
    """A whole answer that promises more bytes than come."""

    def answer(exchange: Exchange) -> None:
        data = json.dumps(whole_body(text)).encode()
        exchange.head(200, "application/json", {"Content-Length": str(len(data))})
        exchange.raw(data[: len(data) // 2])
        exchange.hang_up()

    return answer


def drop() -> Answer:
    """Close the connection without a word."""
    return lambda exchange: exchange.hang_up()


def silence(*parts: Json | str) -> Answer:
    """The parts, if any, then nothing more for ever."""

    def answer(exchange: Exchange) -> None:
        if parts:
            exchange.begin()
            for part in parts:
                exchange.piece(f"data: {json.dumps(part)}\n\n".encode())
        exchange.rest()

    return answer


def comments(pause: float = 0.03) -> Answer:
    """Nothing but comment lines, for ever."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        while True:
            exchange.piece(b": still working\n\n")
            exchange.rest(pause)

    return answer


def drip(byte: bytes = b"x", pause: float = 0.03, kind: str = STREAM, code: int = 200) -> Answer:
    """The same byte again and again, for ever, and never the end of a line."""

    def answer(exchange: Exchange) -> None:
        exchange.begin(kind, code)
        while True:
            exchange.piece(byte)
            exchange.rest(pause)

    return answer


def canned(body: Any) -> Answer:
    """What the server says when it is run by hand."""
    newest = body["messages"][-1]
    text = re.sub(r"\A<moment>.*?</moment>\s*", "", str(newest["content"]), flags=re.DOTALL)
    if newest["role"] == "tool":
        return reply(f"The tool says: {text}")
    if "warm" in text and body.get("tools"):
        return reply("", call("sensor_read", {"quantity": "temperature"}))
    return reply(f"You said: {text}")


class ModelServer:
    """Serves one script; a context manager. `requests` are in the order in which they came."""

    def __init__(self, script: Iterable[Answer] | Callable[[Any], Answer] = canned, port: int = 0) -> None:
        self._script = script if callable(script) else _from_list(iter(script))
        self._http = _HTTP(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._lock = threading.Lock()
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.requests: list[Received] = []
        self.connections = 0
        self.size = 0  # parameters of the model, as llama.cpp tells them; 0 is not told
        self.hung_up = threading.Event()
        self.closing = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.hang_up()
        self._http.server_close()
        self._thread.join()

    def connected(self) -> int:
        with self._lock:
            self.connections += 1
            return self.connections

    def take(self, received: Received) -> Answer:
        """Note a request and find the answer to it."""
        with self._lock:
            self.requests.append(received)
            return self._script(received.body)


def _from_list(script: Iterator[Answer]) -> Callable[[Any], Answer]:
    over = refusal(501, "the script has no further answer")
    return lambda _body: next(script, over)


class _HTTP(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the threads and no socket outlives a test
    owner: ModelServer

    def __init__(self, *given: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # its thread was quicker
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTP

    def setup(self) -> None:
        super().setup()
        self.number = self.server.owner.connected()

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(data)
        except ValueError:
            body = data
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.owner.take(Received(self.path, headers, body, self.number))
        try:
            answer(Exchange(self, body))
        except (HungUpError, ConnectionError):
            self.close_connection = True
            if not self.server.owner.closing.is_set():
                self.server.owner.hung_up.set()

    def do_GET(self) -> None:
        size = self.server.owner.size
        model = {"id": "scripted", "object": "model"} | ({"meta": {"n_params": size}} if size else {})
        models = {"object": "list", "data": [model]}
        Exchange(self, {}).whole(json.dumps(models).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has in the base class
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description="A model server that gives canned answers.")
    parser.add_argument("--port", type=int, default=8080)
    with ModelServer(canned, parser.parse_args().port) as server:
        print(f"listening; export PICOCLAW_BASE_URL={server.url} PICOCLAW_MODEL=scripted")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
