"""The `exec` tool: a shell command with a time limit that takes everything it started along with it."""

import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from picoclaw.errors import ToolError
from picoclaw.messages import Caller, Stop
from picoclaw.schema import Span
from picoclaw.tools.toolset import tool

if TYPE_CHECKING:
    import subprocess

_HEAD, _TAIL = 96_000, 32_000  # bytes; what of it is shown is another matter
_KEPT_VARIABLES = ("PATH", "HOME", "PICOCLAW_HOME", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME", "TMPDIR")
_CHUNK = 65_536
_groups: set[int] = set()
"""The commands that run now, by the number of their process group."""


class Shell:
    """Runs commands in the workspace, without the agent's secrets in their environment."""

    def __init__(self, workspace: Path, environment: Mapping[str, str]) -> None:
        """`environment` is ours; only its harmless, named variables are passed on."""
        self._workspace = workspace
        self._environment = passed_on(environment)

    @tool(effect="exec", brings=True)
    def exec(
        self,
        command: str,
        timeout: Annotated[float, Span(0.1, 600), "seconds"] = 30,
        caller: Caller | None = None,
    ) -> str:
        """Run a shell command in the workspace; shows output and exit code."""
        if "\0" in command:
            raise ToolError("command holds a NUL character")
        output, stop = _Output(), caller.stop if caller else Stop()
        with _Signals() as signals:
            process = self._start(command)
            try:
                signals.deliver()
                with _ended_by(stop, process):
                    finished = _collect(process, output, time.monotonic() + timeout)
            finally:
                _end_group(process)
        ending = (
            f"exit code {process.returncode}"
            if finished
            else (f"stopped after {timeout:g} s, with its whole process group; a longer timeout (up to 600) may help")
        )
        return f"{output.text()}[{ending}]"

    def _start(self, command: str) -> "subprocess.Popen[bytes]":
        import subprocess

        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._workspace,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the shell could not be started: {error}") from None
        _groups.add(process.pid)
        return process


def end_commands() -> None:
    """End every command that another thread runs, with its whole group: nobody would be there to time it."""
    for group in list(_groups):
        _kill(group)


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Pick from our environment what a command has as its own."""
    return {name: environment[name] for name in _KEPT_VARIABLES if name in environment}


class _Signals:
    """Holds back what would interrupt the start of a command, and leave it running without anybody who knows it."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._held: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if callable(handler := signal.getsignal(number)):
                    self._before[number] = handler
                    signal.signal(number, lambda which, _: self._held.append(which))
        return self

    def __exit__(self, *_: object) -> None:
        self.deliver()

    def deliver(self) -> None:
        """Let them come again, and give those that came meanwhile."""
        while self._before:
            signal.signal(*self._before.popitem())
        while self._held:
            signal.raise_signal(self._held.pop())


class _Output:
    """Keeps the head and the tail of what a command prints, whatever the length between."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = _HEAD - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        if (excess := len(self._tail) - _TAIL) > 0:
            self._dropped += excess
            del self._tail[:excess]

    def text(self) -> str:
        gap = f"\n[cut: {self._dropped} bytes left out here; send the output to a file to read it all]\n"
        whole = self._head.decode("utf-8", "replace")
        whole += (gap if self._dropped else "") + self._tail.decode("utf-8", "replace")
        return whole if not whole or whole.endswith("\n") else whole + "\n"


def _collect(process: "subprocess.Popen[bytes]", output: _Output, deadline: float) -> bool:
    """Read until the command itself has ended, even when a child of it keeps the pipe open; False at the deadline."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    ended = os.pidfd_open(process.pid)
    selector = selectors.DefaultSelector()
    selector.register(ended, selectors.EVENT_READ)
    selector.register(pipe, selectors.EVENT_READ)
    try:
        while (left := deadline - time.monotonic()) > 0:
            ready = {key.fd for key, _ in selector.select(left)}
            if pipe in ready and not _drain(pipe, output):
                selector.unregister(pipe)
            if ended in ready:
                _drain(pipe, output)
                return True
        return False
    finally:
        selector.close()
        os.close(ended)


def _drain(pipe: int, output: _Output) -> bool:
    """Take what is there, at most a chunk; False when the other end is closed."""
    try:
        data = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return True
    output.add(data)
    return bool(data)


@contextlib.contextmanager
def _ended_by(stop: Stop, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Give the word to stop power over a command, also when it was said while the command started."""
    with stop.ends(lambda: _kill(process.pid)):
        if stop:
            _kill(process.pid)
        yield


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill whatever is left of the process group, and reap the shell."""
    _groups.discard(process.pid)
    _kill(process.pid)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
