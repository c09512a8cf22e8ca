"""This board as an MCP server: what a client asks for, answered over pipes and over POSTs at the page's port (`/mcp`).

Both kinds of clients are served: those that shake hands first (up to 2025-11-25), and those that say all with each
request (2026-07-28). Prompts, logging, completion and subscriptions are not offered, and so not declared.

Served are tools of the registry, and sensors and notes as resources. Each call, and each resource that is read, goes
through the registry and its guard, with the origin `mcp`. A yes is asked for through the client where that can ask its
person, else kept for the owner.

A call that is asked about waits for its answer within it: over pipes the reader hands the answer over, over HTTP the
question goes out on the call's own stream, and the answer comes in a POST of its own.
"""

import base64
import hmac
import json
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol
from urllib.parse import quote, unquote

from picoclaw import mcp
from picoclaw.errors import ConfigError, HardwareError, PicoclawError, StoreError
from picoclaw.mcp import MAX_MESSAGE_BYTES, META, Wire, get_object
from picoclaw.mcp.http import NAMED
from picoclaw.memory.files import MemoryFiles
from picoclaw.messages import Caller, Stop, ToolCall
from picoclaw.records import NamedTuple, dataclass, field, replace
from picoclaw.security.guard import format_call_question
from picoclaw.security.policy import compute_digest, decide

if TYPE_CHECKING:
    from picoclaw.app import App

_LIST_TTL_MS = 60_000
_STATE_S = 600.0
"""How long a question may be answered, by a client that asks anew with its answer."""
_ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Do it", "description": "exactly this call, once"}},
    "required": ["approve"],
}


PersonAnswer = bool | None
"""A person's yes or no to a call; None where nobody was asked."""


class Fault(Exception):
    """A request that cannot be answered, as JSON-RPC says it."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code, self.text, self.data = code, text, data


@dataclass(eq=False)
class ClientState:
    """Who asks: what was said in the handshake, or with the request. `stops` are those of the calls that run, by id."""

    key: str = "mcp"
    version: str = ""
    client: str = ""
    elicits: bool = False
    is_stateless: bool = False
    stops: dict[Any, Stop] = field(default_factory=dict)


class PlannedCall(NamedTuple):
    """A call that is about to be made. A person has to be asked where there is a `question`; its answer holds for `digest`."""

    call: Any
    caller: Any
    question: str = ""
    digest: str = ""


class ServerBackend(Protocol):
    """What is served. Its methods may be called from any thread."""

    instructions: str

    def list_tools(self) -> list[dict[str, Any]]: ...

    def plan(self, name: str, arguments: dict[str, Any], peer: ClientState, stop: Stop) -> PlannedCall:
        """Raises Fault for a call that there is no tool for."""

    def run(self, planned: PlannedCall, answer: PersonAnswer) -> dict[str, Any]:
        """Make a call, with the person's `answer` if one was asked; gives its result."""

    def list_resources(self) -> list[dict[str, Any]]: ...

    def list_templates(self) -> list[dict[str, Any]]: ...

    def read_resource(self, uri: str, peer: ClientState) -> list[dict[str, Any]]:
        """Raises Fault for one that is not there."""


class McpServer:
    def __init__(self, backend: ServerBackend) -> None:
        self._backend = backend
        self._key, self._used = secrets.token_bytes(32), dict[str, float]()

    def handle(
        self, message: Mapping[str, Any], peer: ClientState, ask: Callable[[Wire], PersonAnswer] | None = None
    ) -> Wire | None:
        """Answer a request; None for a notice. `ask` puts a question to the person in between, and waits."""
        number, method = message.get("id"), message.get("method")
        if "id" not in message:
            if method == "notifications/cancelled":
                self.cancel(get_object(message.get("params")).get("requestId"), peer)
            return None
        if isinstance(number, bool) or not isinstance(number, int | str) or not isinstance(method, str):
            return mcp.make_error(
                number if isinstance(number, int | str) else None, mcp.INVALID_REQUEST, "not a request"
            )
        params = message.get("params", {})
        if not isinstance(params, dict):
            return mcp.make_error(number, mcp.INVALID_PARAMS, "params must be an object")
        try:
            result = self._answer(number, method, params, peer, ask)
        except Fault as fault:
            return mcp.make_error(number, fault.code, fault.text, fault.data)
        return mcp.make_result(number, result)

    def cancel(self, number: Any, peer: ClientState) -> None:
        """Stop a call that nobody waits for any more."""
        if isinstance(number, int | str) and (stop := peer.stops.get(number)):
            stop.set()

    def _answer(
        self,
        number: Any,
        method: str,
        params: dict[str, Any],
        peer: ClientState,
        ask: Callable[[Wire], PersonAnswer] | None,
    ) -> dict[str, Any]:
        meta = get_object(params.get("_meta"))
        if f"{META}protocolVersion" in meta:
            peer = read_peer(meta, peer)
        elif method == "initialize":
            return self._greet(params, peer)
        elif method == "ping":
            return {}
        elif not peer.version:
            raise Fault(mcp.INVALID_REQUEST, "initialize comes first, or _meta with the protocol's version")
        result = self._serve(number, method, params, peer, ask)
        if peer.is_stateless:
            result = {"resultType": "complete", **result}
            result["_meta"] = {f"{META}serverInfo": mcp.IDENTITY}
            if method.endswith(("/list", "/read", "/discover")):
                lasts = 0 if method == "resources/read" else _LIST_TTL_MS  # a reading is old at once
                result |= {"ttlMs": lasts, "cacheScope": "private"}
        return result

    def _greet(self, params: dict[str, Any], peer: ClientState) -> dict[str, Any]:
        wanted, who = params.get("protocolVersion"), get_object(params.get("clientInfo"))
        if not isinstance(wanted, str):
            raise Fault(mcp.INVALID_PARAMS, "protocolVersion is missing")
        peer.version = wanted if wanted in mcp.HANDSHAKE_VERSIONS else mcp.HANDSHAKE_VERSIONS[0]
        peer.client = mcp.clean_line(who.get("name", ""), 60)
        peer.elicits = can_elicit(params.get("capabilities"))
        return {
            "protocolVersion": peer.version,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": mcp.IDENTITY,
            "instructions": self._backend.instructions,
        }

    def _serve(
        self,
        number: Any,
        method: str,
        params: dict[str, Any],
        peer: ClientState,
        ask: Callable[[Wire], PersonAnswer] | None,
    ) -> dict[str, Any]:
        backend = self._backend
        if method == "tools/list":
            return {"tools": backend.list_tools()}
        if method == "tools/call":
            return self._call(number, params, peer, ask)
        if method == "resources/list":
            return {"resources": backend.list_resources()}
        if method == "resources/templates/list":
            return {"resourceTemplates": backend.list_templates()}
        if method == "resources/read":
            return {"contents": backend.read_resource(_get_text(params, "uri"), peer)}
        if method == "server/discover" and peer.is_stateless:
            return {
                "supportedVersions": list(mcp.VERSIONS),
                "capabilities": {"tools": {}, "resources": {}},
                "instructions": backend.instructions,
            }
        raise Fault(mcp.METHOD_NOT_FOUND, f"there is no method {method[:60]!r}")

    def _call(
        self, number: Any, params: dict[str, Any], peer: ClientState, ask: Callable[[Wire], PersonAnswer] | None
    ) -> dict[str, Any]:
        name, arguments = _get_text(params, "name"), params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Fault(mcp.INVALID_PARAMS, "arguments must be an object")
        stop = peer.stops[number] = Stop()
        try:
            planned = self._backend.plan(name, arguments, peer, stop)
            answer: PersonAnswer = None
            if planned.question and peer.elicits and peer.is_stateless:
                answer = self._read_answer(params, planned.digest)
                if answer is None:
                    return self._require_answer(planned)
            elif planned.question and peer.elicits and ask:
                answer = ask(make_question(planned.question, peer.version)) or False
            return self._backend.run(planned, False if planned.question and stop else answer)
        finally:
            peer.stops.pop(number, None)

    # --- a question to a client without a session: it asks again, with the answer and with what we gave it ---

    def _require_answer(self, planned: PlannedCall) -> dict[str, Any]:
        body = json.dumps([planned.digest, time.time() + _STATE_S, secrets.token_hex(8)]).encode()
        state = f"{base64.urlsafe_b64encode(body).decode()}.{hmac.digest(self._key, body, 'sha256').hex()}"
        asked = make_question(planned.question, mcp.STATELESS_VERSION)
        return {"resultType": "input_required", "inputRequests": {"approve": asked}, "requestState": state}

    def _read_answer(self, params: dict[str, Any], digest: str) -> PersonAnswer:
        """The person's answer to the question about exactly this call, taken once; None where there is none."""
        state = params.get("requestState")
        if state is None:
            return None
        said = get_object(get_object(params.get("inputResponses")).get("approve"))
        text, _, mark = str(state).partition(".")
        try:
            body = base64.urlsafe_b64decode(text)
            is_ours = hmac.compare_digest(hmac.digest(self._key, body, "sha256").hex(), mark)
            asked, until, single = json.loads(body) if is_ours else ("", 0.0, "")
        except ValueError:
            is_ours = False
        now = time.time()
        self._used = {one: at for one, at in self._used.items() if at > now}
        if not is_ours or asked != digest or until < now or single in self._used:
            raise Fault(mcp.INVALID_PARAMS, "requestState is not of this call, or too old, or was used: call again")
        if not said:
            return None
        self._used[single] = until
        return is_yes(said)


def read_peer(meta: dict[str, Any], peer: ClientState) -> ClientState:
    """Who asks, by what a request says of itself. Raises Fault."""
    version, can = meta[f"{META}protocolVersion"], meta.get(f"{META}clientCapabilities")
    if version != mcp.STATELESS_VERSION:
        supported = {"supported": list(mcp.VERSIONS), "requested": version}
        raise Fault(mcp.UNSUPPORTED_VERSION, "Unsupported protocol version", supported)
    if not isinstance(can, dict):
        raise Fault(mcp.INVALID_PARAMS, f"_meta lacks {META}clientCapabilities")
    client = mcp.clean_line(get_object(meta.get(f"{META}clientInfo")).get("name", ""), 60)
    return ClientState(peer.key, mcp.STATELESS_VERSION, client, can_elicit(can), is_stateless=True, stops=peer.stops)


def can_elicit(capabilities: Any) -> bool:
    """Whether a client can ask its person with a form; an empty object means that it can."""
    elicits = get_object(capabilities).get("elicitation")
    return isinstance(elicits, dict) and (not elicits or "form" in elicits)


def make_question(text: str, version: str) -> Wire:
    """Write the request by which a client asks its person."""
    params: dict[str, Any] = {"message": text, "requestedSchema": _ANSWER_SCHEMA}
    if version not in mcp.HANDSHAKE_VERSIONS[1:]:
        params = {"mode": "form", **params}
    return {"method": "elicitation/create", "params": params}


def is_yes(result: Any) -> bool:
    """Whether the person has said yes: nothing else than that counts for one."""
    said = get_object(result)
    return said.get("action") == "accept" and get_object(said.get("content")).get("approve") is True


def _get_text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise Fault(mcp.INVALID_PARAMS, f"{name} is missing")
    return value


TOOLS = (
    *("sensor_list", "sensor_read", "sensor_history", "board_status", "output", "output_history", "rule", "cron"),
    *("memory_search", "memory_get", "memory_store", "memory_update", "memory_forget"),
)
"""What is served: to measure, to look back, to switch, to plan, to remember. No commands, files or pages."""
_SENSOR, _NOTE = "sensor://", "note://"
_SESSION = "mcp"
_INSTRUCTIONS = (
    "A board with sensors and outputs, run by picoclaw. What switches or changes something is asked about; a call that"
    " waits for the owner's yes has not been done."
)
_MAX_NOTE_LINES = 1000


class BoardBackend:
    """The board. One call runs at a time; `open_app` makes the app with the first of them."""

    def __init__(self, open_app: "Callable[[], App]", name: str) -> None:
        """`name` is the board's, which questions begin with."""
        self._open, self._name = open_app, name
        self._made: App | None = None
        self._lock = threading.Lock()
        self.instructions = _INSTRUCTIONS

    @property
    def _app(self) -> "App":
        if self._made is None:
            self._made = self._open()
        return self._made

    def list_tools(self) -> list[dict[str, Any]]:
        with self._lock:
            toolset = self._app.toolset
            return [
                {
                    "name": one["name"],
                    "description": one["description"],
                    "inputSchema": one["parameters"],
                    "annotations": {
                        "readOnlyHint": (reads := toolset.only_reads(one["name"])),
                        "destructiveHint": not reads,
                        "openWorldHint": False,
                    },
                }
                for one in toolset.definitions(frozenset(TOOLS) & toolset.names)
            ]

    def plan(self, name: str, arguments: dict[str, Any], peer: ClientState, stop: Stop) -> PlannedCall:
        with self._lock:
            app = self._app
            if name not in TOOLS or name not in app.toolset.names:
                raise Fault(mcp.INVALID_PARAMS, f"there is no tool {name[:60]!r}")
            call, caller = ToolCall("mcp", name, arguments), self._make_caller(peer, stop)
            try:
                asked = app.toolset.asked(call, caller)
            except PicoclawError:
                return PlannedCall(call, caller)  # what is wrong with it is said when it is made
            if decide(app.rights.policy(), asked, caller.origin, caller.taints).verdict != "ask":
                return PlannedCall(call, caller)
            question = f"picoclaw on {self._name}: {format_call_question(asked)}"
            return PlannedCall(call, caller, question, compute_digest(asked))

    def run(self, planned: PlannedCall, answer: PersonAnswer) -> dict[str, Any]:
        with self._lock:
            app, caller = self._app, planned.caller
            if answer is not None:
                caller.agreed[planned.digest] = answer
            good, text = app.toolset.run(planned.call, caller)
            app.stores.settle(_SESSION)
            shown = f"{text}\n{app.mark}".strip() if good else text
            return {"content": [{"type": "text", "text": shown}], "isError": not good}

    def _make_caller(self, peer: ClientState, stop: Stop) -> Caller:
        return Caller(_SESSION, "mcp", self._app.now(), lambda _: None, stop=stop, who=f"mcp:{peer.client or 'client'}")

    def list_resources(self) -> list[dict[str, Any]]:
        with self._lock:
            found = []
            try:
                measured = self._app.wiring.measured()
            except (ConfigError, HardwareError):
                measured = {}
            for name, quantities in measured.items():
                text = f"measured when it is read: {', '.join(quantities)}"
                found.append(_describe(f"{_SENSOR}{quote(name)}", name, text))
            for _, sources in MemoryFiles(self._app.config.workspace).folders():
                found += [_describe(f"{_NOTE}{quote(one.path)}", one.path, "notes") for one in sources]
            return found

    def list_templates(self) -> list[dict[str, Any]]:
        sensor = {"uriTemplate": f"{_SENSOR}{{name}}", "name": "sensor", "description": "a sensor's values now"}
        note = {"uriTemplate": f"{_NOTE}{{+path}}", "name": "note", "description": "a file of notes"}
        return [one | {"mimeType": "text/plain"} for one in (sensor, note)]

    def read_resource(self, uri: str, peer: ClientState) -> list[dict[str, Any]]:
        kind = next((one for one in (_SENSOR, _NOTE) if uri.startswith(one)), "")
        name = unquote(uri.removeprefix(kind))
        call = ToolCall("mcp", "sensor_read", {"sensor": name})
        if kind == _NOTE:
            call = ToolCall("mcp", "memory_get", {"path": name, "lines": _MAX_NOTE_LINES})
        with self._lock:
            good, text = False, "there is no such resource"
            if kind and name:
                app = self._app
                good, text = app.toolset.run(call, self._make_caller(peer, Stop()))
                app.stores.settle(_SESSION)
                text = f"{text}\n{app.mark}".strip() if good and kind == _SENSOR else text
        if not good:
            code = mcp.INVALID_PARAMS if peer.is_stateless else mcp.RESOURCE_NOT_FOUND
            raise Fault(code, f"{uri[:200]} cannot be read: {text[:500]}", {"uri": uri[:200]})
        return [{"uri": uri, "mimeType": "text/plain", "text": text}]

    def close(self) -> None:
        """Let go of an app that shares its board with another."""
        with self._lock:
            if self._made is not None:
                try:
                    self._made.wiring.leave()
                    self._made.close_own()
                except StoreError:
                    pass  # nothing was promised that is not kept
                self._made = None


def share_board(app: "App") -> "Callable[[], App]":
    """Give what makes an app of its own on the board of another; it asks no other server and no other board."""
    from picoclaw.app import App

    config = replace(app.config, mcp={}, mqtt=replace(app.config.mqtt, fleet=False))
    return lambda: App(config, app.board, changed=app.changed)


def _describe(uri: str, name: str, text: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "description": text, "mimeType": "text/plain"}


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
                    self._send(mcp.make_error(None, mcp.INVALID_REQUEST, "the message is too long"))
                    break
                if not line.strip():
                    continue
                message = mcp.decode(line)
                if message is None:
                    self._send(mcp.make_error(None, mcp.PARSE_ERROR, "not a JSON-RPC message"))
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
            self._sink.write(mcp.encode(message) + b"\n")
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
        message = mcp.decode(body)
        if message is None:
            return _refuse(400, mcp.PARSE_ERROR, "not a JSON-RPC message")
        version = headers.get("mcp-protocol-version", "")
        meta = get_object(get_object(message.get("params")).get("_meta"))
        if f"{META}protocolVersion" in meta or version == mcp.STATELESS_VERSION:
            return self._answer_stateless(message, headers, meta)
        if version and version not in mcp.HANDSHAKE_VERSIONS:
            return _refuse(400, mcp.INVALID_REQUEST, f"MCP-Protocol-Version {version[:20]!r} is not spoken here")
        if message.get("method") == "initialize" and "id" in message:
            return self._begin(message)
        if (session := self._sessions.get(key)) is None:
            why = "the session is over: initialize again" if key else "Mcp-Session-Id is missing"
            return _refuse(404 if key else 400, mcp.INVALID_REQUEST, why, message.get("id"))
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
            return _refuse(400, mcp.INVALID_PARAMS, f"_meta lacks {META}protocolVersion", number)
        wanted = {"mcp-protocol-version": meta.get(f"{META}protocolVersion"), "mcp-method": method}
        if key := NAMED.get(str(method)):
            wanted["mcp-name"] = mcp.encode_header(str(params.get(key, "")))
        for name, value in wanted.items():
            if headers.get(name, "").strip() != value:
                return _refuse(400, mcp.HEADER_MISMATCH, f"the header {name} does not say what the body says", number)
        answer = self._server.handle(message, ClientState())
        code = get_object((answer or {}).get("error")).get("code")
        status = {mcp.METHOD_NOT_FOUND: 404, mcp.UNSUPPORTED_VERSION: 400, mcp.INVALID_PARAMS: 400}
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
                yield b"event: message\ndata: " + mcp.encode(said) + b"\n\n"
        finally:  # also when the client hangs up; then nobody is there to say yes
            session.questions.end()


def _reply(answer: Wire | None, status: int = 200) -> HttpAnswer:
    body = mcp.encode(answer) if answer is not None else b""
    return HttpAnswer(status if body else 202, {"Content-Type": "application/json"} if body else {}, body)


def _refuse(status: int, code: int, text: str, number: object = None) -> HttpAnswer:
    return _reply(mcp.make_error(number, code, text), status)


def serve_pipes(server: McpServer) -> None:
    """Serve standard input and output; whatever else prints goes to standard error."""
    sink = sys.stdout.buffer
    sys.stdout = sys.stderr
    StdioServer(server, sys.stdin.buffer, sink).serve()
