"""Starts a command within its walls, here or by the service that may make them, reads what it says, and ends it."""

import contextlib
import errno
import os
import selectors
import shutil
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from picoclaw.errors import HardwareError
from picoclaw.sandbox.launcher import FILTER_FD, end
from picoclaw.sandbox.names import hold, release
from picoclaw.sandbox.seccomp import rules
from picoclaw.sandbox.walls import Ground, Wish, families, walls

if TYPE_CHECKING:
    import socket
    import subprocess

INSTALL = "sudo apt install bubblewrap"
_NEEDED = {"bwrap": "bubblewrap", "prlimit": "prlimit (util-linux)", "choom": "choom (util-linux)"}
_SOCKET = "picoclaw/exec.sock"
LOST = -1000
"""The exit code where the service did not say how it ended."""
_HEAD, _TAIL = 96_000, 32_000  # bytes; what of it is shown is another matter
_CHUNK = 65_536
_PATIENCE_S = 5.0
running: "set[Running]" = set()
"""The commands that run now."""


class SandboxMissing(HardwareError):
    """Commands cannot be run, because this machine makes no walls for them."""


class Output:
    """Keeps the head and the tail of what a command prints, whatever the length between. For any thread."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._lock = threading.Lock()
        self._head, self._tail, self._dropped = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take what came."""
        with self._lock:
            room = max(_HEAD - len(self._head), 0)
            self._head += data[:room]
            self._tail += data[room:]
            if (excess := len(self._tail) - _TAIL) > 0:
                self._dropped += excess
                del self._tail[:excess]

    def take(self) -> str:
        """Show what is kept, and how much is not, and begin anew."""
        with self._lock:
            head, tail, dropped = self._head, self._tail, self._dropped
            self._head, self._tail, self._dropped = bytearray(), bytearray(), 0
        gap = f"\n[cut: {dropped} bytes left out here; send the output to a file to read it all]\n" if dropped else ""
        whole = head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace")
        return whole if not whole or whole.endswith("\n") else whole + "\n"


class _Life(Protocol):
    """A started bwrap, wherever it is: `ended` is readable when it is over."""

    ended: int

    def kill(self) -> None: ...

    def reap(self) -> int: ...


class _Child:
    """One of our own processes; `held` is our end of its lifeline."""

    def __init__(self, process: "subprocess.Popen[bytes]", held: int) -> None:
        self._process, self._held = process, held
        self.ended = os.pidfd_open(process.pid)

    def kill(self) -> None:
        if self._process.returncode is None:
            end(self._process.pid)

    def reap(self) -> int:
        os.close(self.ended)
        os.close(self._held)
        return self._process.wait()


class _Served:
    """A process of the service that makes the walls; it ends with the connection."""

    def __init__(self, connection: "socket.socket") -> None:
        self._connection = connection
        self.ended = connection.fileno()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(1)  # SHUT_WR: it can still say how that ended

    def reap(self) -> int:
        self._connection.settimeout(_PATIENCE_S)
        with self._connection, contextlib.suppress(OSError, ValueError):
            return int(self._connection.recv(32))
        return LOST


class Running:
    """A command that was started. Its methods are for one thread, but for `kill`."""

    def __init__(self, life: _Life, pipe: int, feed: int, held: list[Path]) -> None:
        """`pipe` is where its output comes, `feed` where it reads, -1 for nowhere; `held` ends with it."""
        self._life, self._pipe, self.feed, self._held = life, pipe, feed, held
        self.output, self.code, self._lock = Output(), 0, threading.Lock()
        os.set_blocking(pipe, False)
        self.changes = False
        """Whether it may write or use the network."""
        running.add(self)

    def collect(self, deadline: float) -> bool:
        """Read until the command itself has ended, even when something keeps the pipe open; False at the deadline."""
        selector = selectors.DefaultSelector()
        selector.register(self._life.ended, selectors.EVENT_READ)
        selector.register(self._pipe, selectors.EVENT_READ)
        try:
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(left)}
                if self._pipe in ready and not self._drain():
                    selector.unregister(self._pipe)
                if self._life.ended in ready:
                    self._drain()
                    return True
            return False
        finally:
            selector.close()

    def _drain(self) -> bool:
        """Take what is there, at most a chunk; False when the other end is closed."""
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return True
        self.output.add(data)
        return bool(data)

    def kill(self) -> None:
        """End it with everything that it has started; from any thread."""
        self._life.kill()

    def close(self) -> int:
        """End it if need be, and give back what it held; returns the exit code."""
        running.discard(self)
        self._life.kill()
        self.code = self._life.reap()
        os.close(self._pipe)
        self.hang_up()
        release(self._held)
        return self.code

    def hang_up(self) -> None:
        """Let nothing more come for it to read; from any thread."""
        with self._lock:
            feed, self.feed = self.feed, -1
        if feed >= 0:
            os.close(feed)


def end_all() -> None:
    """End every command that another thread runs: nobody would be there to time it."""
    for one in list(running):
        one.kill()


def start(wish: Wish, ground: Ground, variables: Mapping[str, str], given: str | None = "") -> Running:
    """Start a command that reads `given`, or with None what is written to its `feed`.

    Raises SandboxMissing where no walls can be made, OSError and ToolError when the command cannot be started.
    """
    with contextlib.ExitStack() as stack:
        source, feed = _given(given, stack)
        pipe, out = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, out)
        held: list[Path] = []
        try:
            held = hold(page for page in ground.pages() if ground.works_in(page.parent)) if wish.write else []
            life = _begun(wish, ground, variables, (source, out))
        except BaseException:
            os.close(pipe)
            if feed >= 0:
                os.close(feed)
            release(held)
            raise
    begun = Running(life, pipe, feed, held)
    begun.changes = wish.write or wish.network
    return begun


def _given(text: str | None, stack: contextlib.ExitStack) -> tuple[int, int]:
    """Make what a command reads, and our end of it."""
    if text is None:
        source, feed = os.pipe2(os.O_CLOEXEC)
    else:
        source, feed = os.memfd_create("stdin") if text else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
    stack.callback(os.close, source)
    if text:
        _fill(source, text.encode())
    return source, feed


def _fill(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)


def _begun(wish: Wish, ground: Ground, variables: Mapping[str, str], streams: tuple[int, int]) -> _Life:
    filter_ = os.memfd_create("filter")
    try:
        program = rules(families(wish))
        _fill(filter_, program)
        if door := service(os.environ):
            words = walls(wish, ground, variables, filter_fd=FILTER_FD if program else 0)
            return _served(door, words, (*streams, filter_))
        if missing := lacking():
            raise SandboxMissing(
                f"{missing} is not installed, and no command is run without the walls it makes: {INSTALL}"
            )
        return _alive(wish, ground, variables, streams, filter_ if program else 0)
    finally:
        os.close(filter_)


def _alive(wish: Wish, ground: Ground, variables: Mapping[str, str], streams: tuple[int, int], filter_: int) -> _Child:
    """Start a child with a lifeline: a pipe that tells its reader when we end, however that happens.

    Each has its own: a command that opens it to write can cut itself off, but no other.
    """
    line, held = os.pipe2(os.O_CLOEXEC)
    try:
        words = walls(wish, ground, variables, filter_fd=filter_, lifeline=line)
        return _Child(_child(words, streams, (filter_, line) if filter_ else (line,)), held)
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(line)


def _child(words: list[str], streams: tuple[int, int], more: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    import subprocess

    return subprocess.Popen(
        ["choom", "-n", "1000", "--", *words],
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[1],
        pass_fds=more,
        start_new_session=True,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )


def _served(door: str, words: list[str], fds: tuple[int, int, int]) -> _Served:
    """Ask the service; it gets the descriptors themselves, so that output goes the same way as from a child."""
    import socket

    text = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    if len(text) > 2_000_000:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.connect(door)
        socket.send_fds(connection, [b"%08d" % len(text)], fds)
        connection.sendall(text)
    except OSError as error:
        connection.close()
        raise SandboxMissing(
            f"{door} does not answer ({error.strerror}): systemctl status picoclaw-exec.socket"
        ) from None
    return _Served(connection)


def service(environment: Mapping[str, str]) -> str:
    """Find the socket of the service that makes walls for this very user; '' where we make them ourselves."""
    named = environment.get("PICOCLAW_EXEC_SOCKET")
    folders = ("/run", environment.get("XDG_RUNTIME_DIR") or "/run")
    for door in (named,) if named else (f"{folder}/{_SOCKET}" for folder in folders):
        with contextlib.suppress(OSError):
            found = Path(door).stat()
            if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid():
                return door
    return ""


def lacking() -> str:
    """Name the program that is missing, '' when all are there."""
    return next((package for name, package in _NEEDED.items() if not shutil.which(name)), "")
