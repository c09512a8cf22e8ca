"""One MCP server as a client sees it: connected when it is first asked, asked from any thread, ended when it is idle.

The client offers a server nothing: no roots, no sampling, no elicitation. Whatever a server asks for is refused, and one
that goes on asking is ended.
"""

import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Protocol

from picoclaw.errors import TurnStopped
from picoclaw.mcp import wire
from picoclaw.mcp.wire import META, McpError, RpcError, ServerGone, Wire, get_list, get_object
from picoclaw.messages import Stop
from picoclaw.records import dataclass, field

START_S = 60.0
"""Seconds that a server has to start: a package that is run for the first time compiles itself."""
_LONGEST_FACTOR = 10
"""A call whose server reports progress may take so many times its limit."""
_MAX_ASKED = 20
"""What a server may ask of us between two of its answers, all of which is refused; then it is ended."""
_MAX_PAGES, MAX_LISTED = 50, 500
NO_HEADERS: Mapping[str, str] = {}
_LISTS_CHANGED = "notifications/tools/list_changed"


class SessionLost(ServerGone):
    """The server is there and knows nothing of us any more; nothing was done."""


class AuthNeeded(McpError):
    """The server wants a token, or one with more rights; `challenge` is what it says of that."""

    def __init__(self, text: str, challenge: Mapping[str, str]) -> None:
        super().__init__(text)
        self.challenge = challenge


class HttpRefused(ServerGone):
    """A server refuses a request without a word of MCP."""


class NotSent(ServerGone):
    """The server ended before it was asked; nothing was done."""


@dataclass(eq=False)
class PendingReply:
    """A request that waits for its answer; `heard_at` is when the server last said how far it is (monotonic)."""

    done: threading.Event = field(default_factory=threading.Event)
    answer: Wire | None = None
    problem: McpError | None = None
    heard_at: float = field(default_factory=time.monotonic)
    longest_until: float = 0.0
    may_act: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def settle(self, answer: Wire | None = None, problem: McpError | None = None) -> None:
        if not self.done.is_set():
            self.answer, self.problem = answer, problem
            self.done.set()


class Transport(Protocol):
    """How messages reach a server. What it says goes to the client's `receive`, its end to `lose`."""

    def send(self, message: Wire, pending: PendingReply | None, stop: Stop, seconds: float) -> None:
        """Send a message; a request's answer may have come when this returns. Raises McpError, TurnStopped."""

    def use_version(self, version: str) -> None:
        """Speak this revision from here on."""

    def close(self) -> None:
        """End the server or the session; may be called twice, from any thread."""


class McpClient:
    """See above. `name` is the server's in config.toml."""

    def __init__(self, name: str, open_transport: "Callable[[McpClient], Transport]") -> None:
        self.name = name
        self._open_transport = open_transport
        self._transport: Transport | None = None
        self.lock = threading.RLock()
        self._pending: dict[int, PendingReply] = {}
        self._numbers = count(1)
        self._asked = 0
        self._is_stateless = False
        self.has_changed_tools = False
        """The server has said that its tools are others now."""
        self.identity = self.version = ""
        self.capabilities: dict[str, Any] = {}
        self.instructions = ""
        self.used_at = time.monotonic()

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    @property
    def is_busy(self) -> bool:
        return bool(self._pending)

    def connect(self, stop: Stop | None = None) -> bool:
        """Start and greet the server unless it runs; tells whether it did. Raises ServerGone, TurnStopped."""
        with self.lock:
            if self._transport is not None:
                return False
            self._asked, self._is_stateless, self.has_changed_tools = 0, False, False
            self.used_at = time.monotonic()
            self._transport = self._open_transport(self)
            try:
                self._greet(Stop() if stop is None else stop)
            except (McpError, TurnStopped):
                self.close()
                raise
            return True

    def _greet(self, stop: Stop) -> None:
        """Shake hands; a server that knows no handshake is asked without one."""
        params = {
            "protocolVersion": wire.HANDSHAKE_VERSIONS[0],
            "capabilities": {},
            "clientInfo": wire.IDENTITY,
        }
        try:
            said = self._exchange("initialize", params, stop, START_S)
            self.version = str(said.get("protocolVersion"))
            if self.version == wire.STATELESS_VERSION:
                raise HttpRefused(f"{self.name} knows no handshake")  # noqa: TRY301
            if self.version not in wire.HANDSHAKE_VERSIONS:
                raise ServerGone(
                    f"{self.name} speaks version {wire.clean_line(self.version, 40)!r} of MCP, and picoclaw"
                    f" {', '.join(wire.VERSIONS)}"
                )
            self._get_transport().use_version(self.version)
            who = get_object(said.get("serverInfo"))
            self._get_transport().send(wire.make_notification("notifications/initialized"), None, stop, START_S)
        except (RpcError, HttpRefused) as refusal:
            self._is_stateless, self.version = True, wire.STATELESS_VERSION
            self._get_transport().use_version(self.version)
            try:
                said = self._exchange("server/discover", {}, stop, START_S)
            except (RpcError, HttpRefused):
                raise ServerGone(f"{self.name} cannot be greeted: {refusal}") from None
            who = get_object(get_object(said.get("_meta")).get(f"{META}serverInfo"))
        self.capabilities = get_object(said.get("capabilities"))
        self.instructions = str(said.get("instructions") or "")
        self.identity = wire.clean_line(f"{who.get('name', '')} {who.get('version', '')}", 80)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        stop: Stop | None = None,
        seconds: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask the server, which is started if it does not run; returns the result.

        `seconds` is how long it may say nothing; `headers` go along over HTTP. Raises McpError, TurnStopped.
        """
        stop = Stop() if stop is None else stop
        self.connect(stop)
        try:
            return self._exchange(method, params or {}, stop, seconds, headers or {})
        except (SessionLost, NotSent):
            self.close()
            self.connect(stop)
            return self._exchange(method, params or {}, stop, seconds, headers or {})

    def list_all(self, what: str, *, stop: Stop | None = None) -> list[dict[str, Any]]:
        """List `tools`, `resources`, `resourceTemplates` or `prompts`, all pages of it. Raises McpError, TurnStopped."""
        method = "resources/templates/list" if what == "resourceTemplates" else f"{what}/list"
        found: list[dict[str, Any]] = []
        cursor = None
        for _ in range(_MAX_PAGES):
            page = self.request(method, {"cursor": cursor} if cursor else {}, stop=stop)
            found += [one for one in get_list(page.get(what)) if isinstance(one, dict)]
            cursor = page.get("nextCursor")
            if len(found) > MAX_LISTED:
                raise McpError(f"{self.name} lists more than {MAX_LISTED} {what}")
            if not cursor:
                return found
        raise McpError(f"{self.name} does not come to the end of its list of {what}")

    def _exchange(
        self,
        method: str,
        params: Mapping[str, Any],
        stop: Stop,
        seconds: float,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> dict[str, Any]:
        transport, number = self._get_transport(), next(self._numbers)
        pending = self._pending[number] = PendingReply(may_act=method == "tools/call", headers=headers)
        pending.longest_until = pending.heard_at + seconds * _LONGEST_FACTOR
        self.used_at = time.monotonic()
        meta: dict[str, Any] = {"progressToken": number} if pending.may_act else {}
        if self._is_stateless:
            meta |= {
                f"{META}protocolVersion": self.version,
                f"{META}clientInfo": wire.IDENTITY,
                f"{META}clientCapabilities": {},
            }
        message = wire.make_request(number, method, {**params, "_meta": meta} if meta else params)
        try:
            self._send_and_wait(transport, message, pending, stop, seconds)
            return self._read_answer(pending.answer or {}, method)
        except (SessionLost, NotSent):
            raise
        except (McpError, TurnStopped):
            if pending.answer is None and method != "initialize":  # which must not be cancelled
                self._cancel(number)
            raise
        finally:
            self._pending.pop(number, None)
            self.used_at = time.monotonic()

    def _send_and_wait(
        self, transport: Transport, message: Wire, pending: PendingReply, stop: Stop, seconds: float
    ) -> None:
        """Raise McpError or TurnStopped unless the request has an answer."""
        with stop.ends(lambda: pending.settle(problem=McpError("stopped"))):
            if not stop:
                transport.send(message, pending, stop, seconds)
                self._wait(pending, seconds)
        if stop and pending.answer is None:
            raise TurnStopped("interrupted")
        if pending.problem:
            raise pending.problem

    def _wait(self, pending: PendingReply, seconds: float) -> None:
        """Wait for the answer, longer while the server says how far it is. Raises McpError."""
        while not pending.done.is_set():
            now = time.monotonic()
            left = min(pending.heard_at + seconds, pending.longest_until) - now
            if left <= 0:
                raise McpError(
                    f"{self.name} has not answered within {now - pending.heard_at:.0f} s; whether it did anything is"
                    " not known"
                )
            pending.done.wait(left)

    def _read_answer(self, answer: Wire, method: str) -> dict[str, Any]:
        if isinstance(error := answer.get("error"), dict):
            code = error.get("code")
            raise RpcError(self.name, code if isinstance(code, int) else 0, str(error.get("message", "")))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise McpError(f"{self.name} answered {method} with something that is no result")
        if (kind := result.get("resultType", "complete")) != "complete":
            wanted = "an answer of yours in the middle of a call" if kind == "input_required" else f"{kind!r}"[:60]
            raise McpError(f"{self.name} wants {wanted}, which picoclaw does not give")
        return result

    def _cancel(self, number: int) -> None:
        """Tell the server that nobody waits for an answer any more, if it can still be told."""
        if (transport := self._transport) is not None:
            notice = wire.make_notification(
                "notifications/cancelled", {"requestId": number, "reason": "not waited for"}
            )
            try:
                transport.send(notice, None, Stop(), 2.0)
            except McpError:
                self.close()

    def _get_transport(self) -> Transport:
        if (transport := self._transport) is None:
            raise NotSent(f"{self.name} is not connected any more")
        return transport

    # --- what a transport calls, from its thread ---

    def receive(self, message: Wire) -> None:
        """Take what the server says: an answer, a notice, or a request of its own."""
        if "method" not in message:
            number = message.get("id")
            if isinstance(number, int) and (pending := self._pending.get(number)):
                self._asked = 0
                pending.settle(message)
            return
        params = get_object(message.get("params"))
        if message["method"] == "notifications/progress":
            token = params.get("progressToken")
            if isinstance(token, int) and (pending := self._pending.get(token)):
                pending.heard_at = time.monotonic()
        elif message["method"] == _LISTS_CHANGED:
            self.has_changed_tools = True
        elif "id" in message:
            self._refuse(message)

    def _refuse(self, message: Wire) -> None:
        """Answer a ping, and nothing else that a server asks."""
        self._asked += 1
        if self._asked > _MAX_ASKED:
            self.lose(ServerGone(f"{self.name} goes on asking for what it does not get, and was ended"))
            return
        number, method = message["id"], str(message["method"])
        if method == "ping":
            answer = wire.make_result(number, {})
        else:
            answer = wire.make_error(number, wire.METHOD_NOT_FOUND, f"picoclaw does not offer {method[:60]}")
        if (transport := self._transport) is not None:
            try:
                transport.send(answer, None, Stop(), 5.0)
            except McpError as error:
                self.lose(error)

    def lose(self, problem: McpError, transport: Transport | None = None) -> None:
        """Note that the server is gone; the next request starts it again. A `transport` of before is no news."""
        if transport is not None and transport is not self._transport:
            return
        for pending in list(self._pending.values()):
            unsure = "; whether it did anything is not known" if pending.may_act else ""
            pending.settle(problem=ServerGone(f"{problem}{unsure}"))
        self.close()

    def close(self) -> None:
        """End it; the next request starts it again. From any thread."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        for pending in list(self._pending.values()):
            pending.settle(problem=ServerGone(f"{self.name} was ended"))
