"""This board as an MCP server: what a client asks for, answered message by message; the transports are elsewhere.

Both kinds of clients are served: those that shake hands first (up to 2025-11-25), and those that say all with each
request (2026-07-28). Prompts, logging, completion and subscriptions are not offered, and so not declared.

Served are tools of the registry, and sensors and notes as resources. Each call, and each resource that is read, goes
through the registry and its guard, with the origin `mcp`. A yes is asked for through the client where that can ask its
person, else kept for the owner.
"""

import base64
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

from picoclaw.errors import ConfigError, HardwareError, PicoclawError, StoreError
from picoclaw.mcp import wire
from picoclaw.mcp.wire import META, Wire, get_object
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
            return wire.make_error(
                number if isinstance(number, int | str) else None, wire.INVALID_REQUEST, "not a request"
            )
        params = message.get("params", {})
        if not isinstance(params, dict):
            return wire.make_error(number, wire.INVALID_PARAMS, "params must be an object")
        try:
            result = self._answer(number, method, params, peer, ask)
        except Fault as fault:
            return wire.make_error(number, fault.code, fault.text, fault.data)
        return wire.make_result(number, result)

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
            raise Fault(wire.INVALID_REQUEST, "initialize comes first, or _meta with the protocol's version")
        result = self._serve(number, method, params, peer, ask)
        if peer.is_stateless:
            result = {"resultType": "complete", **result}
            result["_meta"] = {f"{META}serverInfo": wire.IDENTITY}
            if method.endswith(("/list", "/read", "/discover")):
                lasts = 0 if method == "resources/read" else _LIST_TTL_MS  # a reading is old at once
                result |= {"ttlMs": lasts, "cacheScope": "private"}
        return result

    def _greet(self, params: dict[str, Any], peer: ClientState) -> dict[str, Any]:
        wanted, who = params.get("protocolVersion"), get_object(params.get("clientInfo"))
        if not isinstance(wanted, str):
            raise Fault(wire.INVALID_PARAMS, "protocolVersion is missing")
        peer.version = wanted if wanted in wire.HANDSHAKE_VERSIONS else wire.HANDSHAKE_VERSIONS[0]
        peer.client = wire.clean_line(who.get("name", ""), 60)
        peer.elicits = can_elicit(params.get("capabilities"))
        return {
            "protocolVersion": peer.version,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": wire.IDENTITY,
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
                "supportedVersions": list(wire.VERSIONS),
                "capabilities": {"tools": {}, "resources": {}},
                "instructions": backend.instructions,
            }
        raise Fault(wire.METHOD_NOT_FOUND, f"there is no method {method[:60]!r}")

    def _call(
        self, number: Any, params: dict[str, Any], peer: ClientState, ask: Callable[[Wire], PersonAnswer] | None
    ) -> dict[str, Any]:
        name, arguments = _get_text(params, "name"), params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Fault(wire.INVALID_PARAMS, "arguments must be an object")
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
        asked = make_question(planned.question, wire.STATELESS_VERSION)
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
            raise Fault(wire.INVALID_PARAMS, "requestState is not of this call, or too old, or was used: call again")
        if not said:
            return None
        self._used[single] = until
        return is_yes(said)


def read_peer(meta: dict[str, Any], peer: ClientState) -> ClientState:
    """Who asks, by what a request says of itself. Raises Fault."""
    version, can = meta[f"{META}protocolVersion"], meta.get(f"{META}clientCapabilities")
    if version != wire.STATELESS_VERSION:
        supported = {"supported": list(wire.VERSIONS), "requested": version}
        raise Fault(wire.UNSUPPORTED_VERSION, "Unsupported protocol version", supported)
    if not isinstance(can, dict):
        raise Fault(wire.INVALID_PARAMS, f"_meta lacks {META}clientCapabilities")
    client = wire.clean_line(get_object(meta.get(f"{META}clientInfo")).get("name", ""), 60)
    return ClientState(peer.key, wire.STATELESS_VERSION, client, can_elicit(can), is_stateless=True, stops=peer.stops)


def can_elicit(capabilities: Any) -> bool:
    """Whether a client can ask its person with a form; an empty object means that it can."""
    elicits = get_object(capabilities).get("elicitation")
    return isinstance(elicits, dict) and (not elicits or "form" in elicits)


def make_question(text: str, version: str) -> Wire:
    """Write the request by which a client asks its person."""
    params: dict[str, Any] = {"message": text, "requestedSchema": _ANSWER_SCHEMA}
    if version not in wire.HANDSHAKE_VERSIONS[1:]:
        params = {"mode": "form", **params}
    return {"method": "elicitation/create", "params": params}


def is_yes(result: Any) -> bool:
    """Whether the person has said yes: nothing else than that counts for one."""
    said = get_object(result)
    return said.get("action") == "accept" and get_object(said.get("content")).get("approve") is True


def _get_text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise Fault(wire.INVALID_PARAMS, f"{name} is missing")
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
                raise Fault(wire.INVALID_PARAMS, f"there is no tool {name[:60]!r}")
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
            code = wire.INVALID_PARAMS if peer.is_stateless else wire.RESOURCE_NOT_FOUND
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
