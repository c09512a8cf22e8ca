"""The process that alone drives outputs. Here is where it is found: its lock, which tells whether one lives and who it is, and its socket.

Source: flock(2).
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from picoclaw.files import connect_unix, listen_unix
from picoclaw.records import NamedTuple

LOCK_FILE, SOCKET_FILE = "outputs.lock", "outputs.sock"
LIVE_FILE, STOP_FILE = "outputs.live", "outputs.stop"
"""There while something may be away from its safe level; there while nothing may be."""
LONGEST_LINE = 4096


class LockHolder(NamedTuple):
    """Who wrote the lock file last: the pids of watchdog and worker, 0 while unknown, and the board they drive."""

    watchdog: int = 0
    worker: int = 0
    board: str = ""


def take_lock(home: Path, seconds: float) -> int:
    """Become the only one; returns the descriptor that holds the lock, -1 when another still has it. Raises OSError."""
    file = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        if time.monotonic() >= until:
            os.close(file)
            return -1
        time.sleep(0.005)


def write_holder(lock: int, holder: LockHolder) -> None:
    """Write into the lock file who holds it; a full disk only makes us harder to find."""
    with contextlib.suppress(OSError):
        text = " ".join(map(str, holder)).encode()
        os.pwrite(lock, text.ljust(64) + b"\n", 0)


def get_lock_inode(home: Path) -> tuple[int, int] | None:
    """Tell which lock file has the name now: another one than before when the home was moved or replaced."""
    try:
        found = (home / LOCK_FILE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def read_holder(home: Path) -> LockHolder:
    """Read who held the lock last."""
    try:
        watchdog, worker, board = (home / LOCK_FILE).read_text(encoding="ascii", errors="replace").split()[:3]
        return LockHolder(int(watchdog), int(worker), board)
    except (OSError, ValueError):
        return LockHolder()


def listen(home: Path) -> socket.socket:
    """Open the socket anew; only who holds the lock may. Raises OSError."""
    listener = listen_unix(home / SOCKET_FILE)
    listener.setblocking(False)
    return listener


def connect(home: Path, seconds: float) -> socket.socket | None:
    """Reach the supervisor that listens, None when none does."""
    return connect_unix(home / SOCKET_FILE, seconds)


def ask(home: Path, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Exchange one request over a connection of its own; {} when no supervisor answers in time."""
    if connection := connect(home, seconds):
        with connection, contextlib.suppress(OSError, ValueError):
            return exchange(connection, request, seconds)
    return {}


def exchange(connection: socket.socket, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send a request and wait for its answer. Raises OSError (also when the time is over), ValueError."""
    connection.settimeout(seconds)
    connection.sendall(json.dumps(request).encode() + b"\n")
    heard = b""
    while not heard.endswith(b"\n"):
        said = connection.recv(65_536)
        if not said:
            raise ConnectionResetError("it has ended")
        heard += said
    answer = json.loads(heard)
    return answer if isinstance(answer, dict) else {}
