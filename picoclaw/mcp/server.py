"""This board as an MCP server: what a client asks for, answered message by message; the transports are elsewhere.

Both kinds of clients are served: those that shake hands first (up to 2025-11-25), and those that say all with each
request (2026-07-28). Prompts, logging, completion and subscriptions are not offered, and so not declared.
"""

import base64
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from picoclaw.mcp import wire
from picoclaw.mcp.wire import META, Wire, get_object
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple, dataclass, field

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
