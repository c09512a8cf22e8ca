"""A server that runs here, inside the walls of commands: one thread for each, which ends with it.

The kernel ends a sandbox with the thread that started it, so the thread that reads is the one that starts.
"""

import os
import select
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from picoclaw.config.tables import McpConfig
from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error
from picoclaw.mcp import wire
from picoclaw.mcp.client import START_S, McpClient, NotSent, PendingReply
from picoclaw.mcp.wire import MAX_MESSAGE_BYTES, ServerGone, Wire
from picoclaw.messages import Stop
from picoclaw.security.sandbox import (
    RunningCommand,
    SandboxCommand,
    SandboxLayout,
    build_environment,
    start_command,
)

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
        data = whole = wire.encode(message) + b"\n"
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
            if (message := wire.decode(line)) is not None:
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
        return f": {wire.clean_line(lines[-1], 200)}" if lines else ""
