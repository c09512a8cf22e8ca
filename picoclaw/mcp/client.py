"""One MCP server as a client sees it: connected when it is first asked, asked from any thread, ended when it is idle.

The client offers a server nothing: no roots, no sampling, no elicitation. Whatever a server asks for is refused, and one
that goes on asking is ended.

A server that runs here does so inside the walls of commands, with one thread for each, which ends with it. The kernel
ends a sandbox with the thread that started it, so the thread that reads is the one that starts.
"""

import os
import select
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from picoclaw import mcp
from picoclaw.config.tables import McpConfig
from picoclaw.errors import PicoclawError, TurnStopped
from picoclaw.files import explain_os_error
from picoclaw.mcp import MAX_MESSAGE_BYTES, META, McpError, RpcError, ServerGone, Wire, get_list, get_object
from picoclaw.messages import Stop
from picoclaw.records import dataclass, field
from picoclaw.security.sandbox import RunningCommand, SandboxCommand, SandboxLayout, build_environment, start_command

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
        params = {"protocolVersion": mcp.HANDSHAKE_VERSIONS[0], "capabilities": {}, "clientInfo": mcp.IDENTITY}
        try:
            said = self._exchange("initialize", params, stop, START_S)
            self.version = str(said.get("protocolVersion"))
            if self.version == mcp.STATELESS_VERSION:
                raise HttpRefused(f"{self.name} knows no handshake")  # noqa: TRY301
            if self.version not in mcp.HANDSHAKE_VERSIONS:
                raise ServerGone(
                    f"{self.name} speaks version {mcp.clean_line(self.version, 40)!r} of MCP, and picoclaw"
                    f" {', '.join(mcp.VERSIONS)}"
                )
            self._get_transport().use_version(self.version)
            who = get_object(said.get("serverInfo"))
            self._get_transport().send(mcp.make_notification("notifications/initialized"), None, stop, START_S)
        except (RpcError, HttpRefused) as refusal:
            self._is_stateless, self.version = True, mcp.STATELESS_VERSION
            self._get_transport().use_version(self.version)
            try:
                said = self._exchange("server/discover", {}, stop, START_S)
            except (RpcError, HttpRefused):
                raise ServerGone(f"{self.name} cannot be greeted: {refusal}") from None
            who = get_object(get_object(said.get("_meta")).get(f"{META}serverInfo"))
        self.capabilities = get_object(said.get("capabilities"))
        self.instructions = str(said.get("instructions") or "")
        self.identity = mcp.clean_line(f"{who.get('name', '')} {who.get('version', '')}", 80)

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
                f"{META}clientInfo": mcp.IDENTITY,
                f"{META}clientCapabilities": {},
            }
        message = mcp.make_request(number, method, {**params, "_meta": meta} if meta else params)
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
            notice = mcp.make_notification("notifications/cancelled", {"requestId": number, "reason": "not waited for"})
            try:
                transport.send(notice, None, Stop(), 2.0)
            except McpError as error:
                self.lose(error, transport)

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
            answer = mcp.make_result(number, {})
        else:
            answer = mcp.make_error(number, mcp.METHOD_NOT_FOUND, f"picoclaw does not offer {method[:60]}")
        if (transport := self._transport) is not None:
            try:
                transport.send(answer, None, Stop(), 5.0)
            except McpError as error:
                self.lose(error)

    def lose(self, problem: McpError, transport: Transport | None = None) -> None:
        """Note that the server is gone; the next request starts it again. A `transport` of before is no news."""
        if transport is not None and transport is not self._transport:
            return
        waiting, lost = [*self._pending.values()], self._transport
        self._transport = None  # before anybody wakes, who may start it again
        for pending in waiting:
            unsure = "; whether it did anything is not known" if pending.may_act else ""
            pending.settle(problem=ServerGone(f"{problem}{unsure}"))
        if lost is not None:
            lost.close()

    def close(self) -> None:
        """End it; the next request starts it again. From any thread."""
        waiting, transport, self._transport = [*self._pending.values()], self._transport, None
        if transport is not None:
            transport.close()
        for pending in waiting:
            pending.settle(problem=ServerGone(f"{self.name} was ended"))


_CPU_S = 10_000_000
"""The walls limit a command's processor time by its time limit; a server's is as long as it is used."""
_CHUNK_BYTES = 65_536
_END_S, _WRITE_S = 2.0, 10.0
_MAX_SAID, _MAX_NOISE = 2000, 1000
"""What is kept of stderr, and how many lines that are no messages are put up with between two messages."""


def build_layout(home: Path, name: str, config: McpConfig, owner: Path) -> SandboxLayout:
    """What a server sees: the system, a folder of its own in the home, and the folders that its table names."""
    scratch = home / "mcp" / name
    folders, readable = ([Path(one).expanduser() for one in some] for some in (config.write, config.folders))
    return SandboxLayout(home, scratch, owner, tuple(folders), readable=tuple(readable))


class StdioTransport:
    """A running server. Its output is read in a thread, which also ends it when it is idle."""

    def __init__(self, client: McpClient, home: Path, config: McpConfig) -> None:
        """Start it. Raises ServerGone."""
        self._client, self._config = client, config
        layout = build_layout(home, client.name, config, Path.home())
        layout.workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = SandboxCommand(
            tuple(config.command), layout.workspace, _CPU_S, write=bool(config.write), network=config.network
        )
        self._start: Callable[[], RunningCommand] = lambda: start_command(
            command, layout, build_environment(os.environ, config.environment), None, apart=True
        )
        self._running: RunningCommand | None = None
        self._problem = ""
        self._said = bytearray()
        self._noise = 0
        self._ended, self._begun = threading.Event(), threading.Event()
        self._writing = threading.Lock()
        self._wake, self._woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._serve, name=f"mcp {client.name}"[:15], daemon=True)
        self._thread.start()
        self._begun.wait(START_S)
        if self._problem:
            raise ServerGone(f"{client.name} cannot be started: {self._problem}")

    def use_version(self, version: str) -> None:
        """Over pipes, nothing depends on it."""

    def send(self, message: Wire, pending: PendingReply | None, stop: Stop, seconds: float) -> None:  # noqa: ARG002
        """See Transport; the answer comes later."""
        data = whole = mcp.encode(message) + b"\n"
        deadline = time.monotonic() + min(seconds, _WRITE_S)
        with self._writing:
            feed = self._running.stdin if self._running else -1
            while data:
                left = deadline - time.monotonic()
                try:
                    if feed < 0 or left <= 0 or self._ended.is_set():
                        raise BrokenPipeError
                    if select.select([], [feed], [], min(left, 0.5))[1]:
                        data = data[os.write(feed, data) :]
                except BlockingIOError:
                    continue
                except (OSError, ValueError):
                    self._ended.wait(_END_S)  # it may be about to say why
                    kind = NotSent if data is whole else ServerGone
                    raise kind(f"{self._client.name} takes no messages{self._quote_last()}") from None

    def close(self) -> None:
        """See Transport: its input ends, and soon afterwards it does."""
        self._ended.set()
        with self._writing, suppress(OSError):
            os.write(self._woken, b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S + 2)

    # --- the thread ---

    def _serve(self) -> None:
        try:
            self._running = self._start()
            os.set_blocking(self._running.stdin, False)
        except (PicoclawError, OSError, ValueError) as error:
            self._problem = explain_os_error(error) if isinstance(error, OSError) else str(error)
            return
        finally:
            self._begun.set()
        problem = self._read()
        self._ended.set()
        with self._writing:
            running, self._running = self._running, None
            running.close_stdin()
        if problem in {"", "ended"}:
            running.wait(time.monotonic() + _END_S)
        code = running.close()
        with self._writing:
            os.close(self._wake)
            os.close(self._woken)
            self._woken = -1
        if problem == "ended":
            problem = f"has ended by itself (exit code {code}){self._quote_last()}"
        if problem:
            self._client.lose(ServerGone(f"{self._client.name} {problem}"), self)

    def _read(self) -> str:
        """Read what the server says until it is to be ended; returns why, '' where that was our wish."""
        running, held = self._running, bytearray()
        assert running is not None
        idle_s = self._config.idle_minutes * 60
        with selectors.DefaultSelector() as selector:
            for file in (running.pipe, running.errors, self._wake):
                selector.register(file, selectors.EVENT_READ)
            while not self._ended.is_set():
                left = self._client.used_at + idle_s - time.monotonic()
                if left <= 0 and not self._client.is_busy and self._client.lock.acquire(blocking=False):
                    self._client.close()  # with nobody about to ask
                    self._client.lock.release()
                    return ""
                for key, _ in selector.select(max(left, 1.0)):
                    if key.fd == self._wake:
                        return ""
                    try:
                        data = os.read(key.fd, _CHUNK_BYTES)
                    except BlockingIOError:
                        continue
                    if key.fd == running.errors:
                        self._keep_said(data)
                        if not data:
                            selector.unregister(key.fd)
                        continue
                    if not data:
                        with suppress(OSError):
                            while said := os.read(running.errors, _CHUNK_BYTES):
                                self._keep_said(said)
                        return "ended"
                    if problem := self._take(held, data):
                        return problem
        return ""

    def _take(self, held: bytearray, data: bytes) -> str:
        """Hand on whole lines; returns what is wrong with them."""
        held += data
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = bytes(held).split(b"\n")
            held[:] = rest
        for line in lines:
            if (message := mcp.decode(line)) is not None:
                self._noise = 0
                self._client.receive(message)
            elif line.strip():
                self._noise += 1
                self._keep_said(line + b"\n")
        if len(held) > MAX_MESSAGE_BYTES or any(len(line) > MAX_MESSAGE_BYTES for line in lines):
            return f"sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB, and was ended"
        return (
            f"writes what is no message of MCP, and was ended{self._quote_last()}" if self._noise > _MAX_NOISE else ""
        )

    def _keep_said(self, data: bytes) -> None:
        self._said += data
        del self._said[:-_MAX_SAID]

    def _quote_last(self) -> str:
        """The last line that the server wrote to its stderr, which mostly says why."""
        lines = [line for line in bytes(self._said).decode("utf-8", "replace").split("\n") if line.strip()]
        return f": {mcp.clean_line(lines[-1], 200)}" if lines else ""
