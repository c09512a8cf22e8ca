"""The connection to a server: another thread can end the wait on it, and it notices when the other side is gone."""

import math
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from picoclaw.courier import ConnectError, ConnectTimeout
from picoclaw.errors import ProviderError, TurnStopped
from picoclaw.messages import Stop

_CONNECTS = ".connect_tcp.started"
_CONNECTED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")
_ANSWERS = ".receive_response_headers.complete"
_LATER_S = 0.3
_SILENT_S, _ASKED_S, _TIMES_ASKED, _GONE_MS = 15, 5, 4, 35_000


class Line:
    """The connection of a client that asks one thing at a time, so that another thread can end the wait on it.

    Shut down, not closed: that wakes who reads from it. A client tells of a connection only when it is made, and may
    use it for the next request as well.
    """

    def __init__(self) -> None:
        """Not connected yet; `answers` once the head of an answer has come."""
        self._stream: Any = None
        self._stop: Stop | None = None
        self._resolved = threading.Event()
        self.answers = False
        self._next = self._last = math.inf
        self._moved = threading.Event()

    def trace(self, event: str, told: Mapping[str, Any]) -> None:
        """Hear how far a request is; raises TurnStopped before a request is sent that nobody waits for."""
        if event.endswith(_CONNECTS):
            self._resolve(told["host"], told["timeout"])
        elif event.endswith(_CONNECTED):
            self._stream = told["return_value"]
            _notice_death(self._stream.get_extra_info("socket"))
        elif event.endswith(_ANSWERS):
            self.answers = True
        elif self._stop and event.endswith(".send_request_headers.started"):
            raise TurnStopped("interrupted")

    @contextmanager
    def held(self, stop: Stop | None) -> Iterator[None]:
        """Give the word to stop power over the requests made within; raises TurnStopped when it was said."""
        if stop is None:
            yield
            return
        self._stop = stop
        try:
            with stop.ends(self._cut):
                yield
        except ProviderError:
            if stop:
                raise TurnStopped("interrupted") from None
            raise
        finally:
            self._stop = None

    @contextmanager
    def over(self, deadline: float, head_s: float = math.inf) -> Iterator[None]:
        """End the wait soon after a moment of the monotonic clock, also on a server that drips its first line.

        Who reads the answer looks at the clock as well, and has the first word. A head that is not whole after
        `head_s` seconds is not waited for.
        """
        self.answers, self._last = False, deadline + _LATER_S
        self._next = min(time.monotonic() + head_s, self._last)
        self._moved = moved = threading.Event()
        threading.Thread(target=self._watch, args=(moved,), name="deadline", daemon=True).start()
        try:
            yield
        finally:
            self._next = math.inf
            moved.set()

    def hurry(self, seconds: float) -> None:
        """Wait no longer than that for the rest of the answer that is being read."""
        self._next = self._last = min(self._last, time.monotonic() + seconds)
        self._moved.set()

    def _watch(self, moved: threading.Event) -> None:
        """Wait for the end of a request, and cut it when it is late."""
        while moved is self._moved and self._next < math.inf:
            left = self._next - time.monotonic()
            if left > 0:
                moved.wait(left)
                moved.clear()
            elif self.answers and self._next < self._last:
                self._next = self._last
            else:
                self._cut()
                return

    def _resolve(self, host: str, seconds: float) -> None:
        """Have a name looked up in another thread first: the lookup itself heeds no signal, and no word to stop."""
        if _is_address(host):
            return
        self._resolved = resolved = threading.Event()
        problems: list[Exception] = []
        threading.Thread(target=_look_up, args=(host, problems, resolved), name="resolver", daemon=True).start()
        found = bool(self._stop) or resolved.wait(seconds)
        if self._stop:
            raise TurnStopped("interrupted")
        if not found:
            raise UnresolvedError(f"cannot be reached: the name {host} was not resolved in {seconds:g} s")
        if problems:
            raise ConnectError(str(problems[0]))

    def _cut(self) -> None:
        self._resolved.set()
        if self._stream:
            with suppress(OSError):  # it is closed already
                # not by the method of a TLS socket, which forgets its state under the reader's hands
                socket.socket.shutdown(self._stream.get_extra_info("socket"), socket.SHUT_RDWR)


def _notice_death(connection: socket.socket) -> None:
    """Have the kernel ask after a silent other side: a slow model's machine answers that, one that is gone does not."""
    with suppress(OSError):  # a Unix socket knows no such thing
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _TIMES_ASKED)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_MS)


class UnresolvedError(ConnectTimeout):
    """Nobody has told the address of a name in time."""


def _is_address(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST))
    except (OSError, UnicodeError):
        return False


def _look_up(host: str, problems: list[Exception], resolved: threading.Event) -> None:
    """Leave the answer with the resolver, whom the connection asks again, and only a failure here."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        problems.append(error)
    finally:
        resolved.set()
