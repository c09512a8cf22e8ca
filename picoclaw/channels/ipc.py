"""The daemon's local socket, `run.sock` in the home: lines of JSON between two processes of one user.

Source: unix(7) on SO_PEERCRED.
"""

import contextlib
import json
import os
import socket
import struct
import threading
from collections import deque
from pathlib import Path
from typing import Any

from picoclaw.files import connect_unix
from picoclaw.text import parse_json_object

SOCKET_NAME = "run.sock"
MAX_LINE_BYTES = 1 << 20
_SEND_TIMEOUT_S = 2.0


class IpcConnection:
    def __init__(self, connection: socket.socket) -> None:
        """A peer that takes nothing for two seconds is as good as gone."""
        self.connection = connection
        seconds = struct.pack("ll", int(_SEND_TIMEOUT_S), 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        self._lock = threading.Lock()
        self._heard = b""
        self._ready: deque[dict[str, Any]] = deque()
        self._closed = False

    def say(self, words: dict[str, Any]) -> None:
        """Send a line, from any thread. Raises OSError when the other end is gone."""
        data = json.dumps(words, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock:
            if self._closed:
                raise BrokenPipeError
            try:
                self.connection.sendall(data)
            except OSError:
                self.hang_up()
                raise

    def hear(self) -> list[dict[str, Any]] | None:
        """Read what has come, whole lines only; None at the end, or after a line that is too long."""
        try:
            said = self.connection.recv(65_536)
        except OSError:
            return None
        *lines, self._heard = (self._heard + said).split(b"\n")
        if not said or len(self._heard) > MAX_LINE_BYTES:
            return None
        return [parse_json_object(line) for line in lines]

    def next(self) -> dict[str, Any] | None:
        """Wait for the next line; None at the end, or after a time-out. An interruption loses nothing."""
        while not self._ready:
            if (heard := self.hear()) is None:
                return None
            self._ready.extend(heard)
        return self._ready.popleft()

    def ended(self) -> bool:
        """Tell, without waiting, whether the other end is gone."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def hang_up(self) -> None:
        """End it, and what waits for it; may be called twice."""
        self._closed = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and let go of it; nobody may wait for it any more."""
        self.hang_up()
        self.connection.close()


def connect(home: Path, seconds: float | None = None) -> IpcConnection | None:
    """Reach the daemon of a home, None when none listens; `seconds` is how long to wait for each of its words."""
    client = connect_unix(home / SOCKET_NAME, seconds)
    return IpcConnection(client) if client else None


def ask_daemon(home: Path, words: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """Ask the daemon one thing; None when none answers in time."""
    if (line := connect(home, seconds)) is None:
        return None
    with line.connection, contextlib.suppress(OSError):
        line.say(words)
        return line.next()
    return None


def is_daemon_silent(home: Path, seconds: float) -> bool:
    """Tell whether a daemon is there that says nothing: the kernel connects also to one that is frozen."""
    if (line := connect(home, seconds)) is None:
        return False
    line.close()
    return True


def get_peer_user(connection: socket.socket) -> int:
    """The number of the user at the other end: who has connected, or who began to listen."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", data)[1])


def is_same_user(connection: socket.socket) -> bool:
    return get_peer_user(connection) in {os.getuid(), 0}


# Other users of the machine reach no file of the home. For those whom [people] names there is a socket without a file: in
# the abstract namespace of unix(7) anybody may connect, and anybody may have taken the name before, so both ends ask the
# kernel who the other is.


def listen_for_people() -> socket.socket:
    """Listen for other users of this machine. Raises OSError where another picoclaw of this user does."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(_name_people_socket(os.getuid()))
        listener.listen(16)
    except OSError:
        listener.close()
        raise
    return listener


def connect_as_person(user: int, seconds: float | None = None) -> IpcConnection | None:
    """Reach the daemon that a user runs, as the person of [people] whom it knows us for; None when none listens."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    client.settimeout(seconds)
    with contextlib.suppress(OSError):
        client.connect(_name_people_socket(user))
        if get_peer_user(client) == user:
            return IpcConnection(client)
    client.close()
    return None


def _name_people_socket(user: int) -> str:
    return f"\0picoclaw/{user}"
