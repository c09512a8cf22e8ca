"""The server's two ways: lines on standard input and output, and POSTs at the page's port (`/mcp`).

A call that is asked about waits for its answer within it: over pipes the reader hands the answer over, over HTTP the
question goes out on the call's own stream, and the answer comes in a POST of its own.
"""

import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import BinaryIO

from picoclaw.mcp import wire
from picoclaw.mcp.http import NAMED
from picoclaw.mcp.server import ClientState, McpServer, is_yes
from picoclaw.mcp.wire import MAX_MESSAGE_BYTES, META, Wire, get_object
from picoclaw.records import NamedTuple, dataclass, field

ANSWER_S = 300.0
"""Seconds for which a person may think about a question."""
_KEEPALIVE_S = 10.0
_MAX_SESSIONS = 16


@dataclass(eq=False)
class _Questions:
    """Questions to the person at the other side, by their ids, until they are answered."""

    answers: "dict[str, queue.SimpleQueue[bool]]" = field(default_factory=dict)

    def ask(self, question: Wire, send: Callable[[Wire], None]) -> bool:
        """Send a question, and wait for its answer; no where none comes in time."""
        number = f"ask-{secrets.token_hex(6)}"
        waits = self.answers[number] = queue.SimpleQueue()
        send({"jsonrpc": "2.0", "id": number, **question})
        try:
            return waits.get(timeout=ANSWER_S)
        except queue.Empty:
            self.answers.pop(number, None)
            return False

    def take(self, message: Mapping[str, object]) -> None:
        """Take an answer; one to no question is nothing."""
        if (waits := self.answers.pop(str(message.get("id")), None)) is not None:
            waits.put(is_yes(message.get("result")))

    def end(self) -> None:
        """Answer all with no: nobody is there any more."""
        for number in list(self.answers):
            self.take({"id": number})


class StdioServer:
    """Serves one client over pipes. Calls run in the thread of `serve`, one at a time; a thread reads."""

    def __init__(self, server: McpServer, source: BinaryIO, sink: BinaryIO) -> None:
        self._server, self._source, self._sink = server, source, sink
        self._requests: queue.SimpleQueue[Wire | None] = queue.SimpleQueue()
        self._questions, self._peer = _Questions(), ClientState()
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Answer until the input ends."""
        ask = partial(self._questions.ask, send=self._send)
        threading.Thread(target=self._read, name="mcp-reader", daemon=True).start()
        while (message := self._requests.get()) is not None:
            if (answer := self._server.handle(message, self._peer, ask)) is not None:
                self._send(answer)

    def _read(self) -> None:
        try:
            while line := self._source.readline(MAX_MESSAGE_BYTES + 1):
                if len(line) > MAX_MESSAGE_BYTES:
                    self._send(wire.make_error(None, wire.INVALID_REQUEST, "the message is too long"))
                    break
                if not line.strip():
                    continue
                message = wire.decode(line)
                if message is None:
                    self._send(wire.make_error(None, wire.PARSE_ERROR, "not a JSON-RPC message"))
                elif "method" not in message:
                    self._questions.take(message)
                elif "id" not in message:
                    self._server.handle(message, self._peer)
                else:
                    self._requests.put(message)
        finally:
            for stop in list(self._peer.stops.values()):
                stop.set()
            self._questions.end()
            self._requests.put(None)

    def _send(self, message: Wire) -> None:
        with self._writing:
            self._sink.write(wire.encode(message) + b"\n")
            self._sink.flush()


class HttpAnswer(NamedTuple):
    """The answer to a request: a body, or a stream of events."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: Iterator[bytes] | None = None


@dataclass(eq=False)
class _Session:
    peer: ClientState
    questions: _Questions = field(default_factory=_Questions)
    used_at: float = field(default_factory=time.monotonic)


class HttpServer:
    """Answers POST and DELETE at one address. Any thread may call it."""

    def __init__(self, server: McpServer, token: str) -> None:
        """Whoever has the `token` may ask; who serves the address looks at it."""
        self._server, self.token = server, token
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all sessions, and whatever waits in them."""
        for session in list(self._sessions.values()):
            session.questions.end()
        self._sessions.clear()

    def answer(self, method: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Answer a request; names of `headers` are written small."""
        key = headers.get("mcp-session-id", "")
        if method == "DELETE":
            session = self._sessions.pop(key, None)
            if session:
                session.questions.end()
            return HttpAnswer(204 if session else 404)
        if method != "POST":
            return HttpAnswer(405, {"Allow": "POST, DELETE"})
        message = wire.decode(body)
        if message is None:
            return _refuse(400, wire.PARSE_ERROR, "not a JSON-RPC message")
        version = headers.get("mcp-protocol-version", "")
        meta = get_object(get_object(message.get("params")).get("_meta"))
        if f"{META}protocolVersion" in meta or version == wire.STATELESS_VERSION:
            return self._answer_stateless(message, headers, meta)
        if version and version not in wire.HANDSHAKE_VERSIONS:
            return _refuse(400, wire.INVALID_REQUEST, f"MCP-Protocol-Version {version[:20]!r} is not spoken here")
        if message.get("method") == "initialize" and "id" in message:
            return self._begin(message)
        if (session := self._sessions.get(key)) is None:
            why = "the session is over: initialize again" if key else "Mcp-Session-Id is missing"
            return _refuse(404 if key else 400, wire.INVALID_REQUEST, why, message.get("id"))
        session.used_at = time.monotonic()
        if "method" not in message:
            session.questions.take(message)
            return HttpAnswer(202)
        if "id" not in message:
            self._server.handle(message, session.peer)
            return HttpAnswer(202)
        if message["method"] == "tools/call" and session.peer.elicits:
            heads = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            return HttpAnswer(200, heads, stream=self._stream(message, session))
        return _reply(self._server.handle(message, session.peer))

    def _begin(self, message: Wire) -> HttpAnswer:
        session, key = _Session(ClientState()), secrets.token_urlsafe(24)
        answer = self._server.handle(message, session.peer)
        if answer is None or "error" in answer:
            return _reply(answer)
        with self._lock:
            if len(self._sessions) >= _MAX_SESSIONS:
                oldest = min(self._sessions, key=lambda one: self._sessions[one].used_at)
                self._sessions.pop(oldest).questions.end()
            self._sessions[key] = session
        return _reply(answer)._replace(headers={"Content-Type": "application/json", "Mcp-Session-Id": key})

    def _answer_stateless(self, message: Wire, headers: Mapping[str, str], meta: Mapping[str, object]) -> HttpAnswer:
        """Answer by the revision of 2026-07-28, in which headers repeat what is in the body."""
        method, params, number = message.get("method"), get_object(message.get("params")), message.get("id")
        if "id" not in message:
            return HttpAnswer(202)
        if f"{META}protocolVersion" not in meta:
            return _refuse(400, wire.INVALID_PARAMS, f"_meta lacks {META}protocolVersion", number)
        wanted = {"mcp-protocol-version": meta.get(f"{META}protocolVersion"), "mcp-method": method}
        if key := NAMED.get(str(method)):
            wanted["mcp-name"] = wire.encode_header(str(params.get(key, "")))
        for name, value in wanted.items():
            if headers.get(name, "").strip() != value:
                return _refuse(400, wire.HEADER_MISMATCH, f"the header {name} does not say what the body says", number)
        answer = self._server.handle(message, ClientState())
        code = get_object((answer or {}).get("error")).get("code")
        status = {wire.METHOD_NOT_FOUND: 404, wire.UNSUPPORTED_VERSION: 400, wire.INVALID_PARAMS: 400}
        return _reply(answer, status.get(code, 200) if isinstance(code, int) else 200)

    def _stream(self, message: Wire, session: _Session) -> Iterator[bytes]:
        """Make a call in a thread of its own, so that a question can go out, and its answer come in, meanwhile."""
        out: queue.SimpleQueue[Wire | None] = queue.SimpleQueue()

        def call() -> None:
            try:
                ask = partial(session.questions.ask, send=out.put)
                out.put(self._server.handle(message, session.peer, ask))
            finally:
                out.put(None)

        threading.Thread(target=call, name="mcp-call", daemon=True).start()
        try:
            while True:
                try:
                    said = out.get(timeout=_KEEPALIVE_S)
                except queue.Empty:
                    yield b": \n\n"
                    continue
                if said is None:
                    return
                yield b"event: message\ndata: " + wire.encode(said) + b"\n\n"
        finally:  # also when the client hangs up; then nobody is there to say yes
            session.questions.end()


def _reply(answer: Wire | None, status: int = 200) -> HttpAnswer:
    body = wire.encode(answer) if answer is not None else b""
    return HttpAnswer(status if body else 202, {"Content-Type": "application/json"} if body else {}, body)


def _refuse(status: int, code: int, text: str, number: object = None) -> HttpAnswer:
    return _reply(wire.make_error(number, code, text), status)


def serve_pipes(server: McpServer) -> None:
    """Serve standard input and output; whatever else prints goes to standard error."""
    sink = sys.stdout.buffer
    sys.stdout = sys.stderr
    StdioServer(server, sys.stdin.buffer, sink).serve()
