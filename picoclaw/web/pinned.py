"""Connections that go to an address which was checked, and end in time.

The check is made where the connection is: a name is looked up once, every address that it has is looked at, and the
socket is opened to one of those numbers, so that no second lookup can lead elsewhere.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from picoclaw.courier import httpcore
from picoclaw.errors import ToolError
from picoclaw.web.address import Network, refused

Resolve = Callable[[str], Sequence[str]]
_CONNECT_S = 10.0
_NEXT_S = 3.0  # where there is another address to try: IPv6 that leads nowhere is common


def looked_up(host: str) -> list[str]:
    """Ask the system for all addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Pinned(httpcore.NetworkBackend):
    """Opens sockets to public addresses only, and to the one host that the owner has configured."""

    def __init__(
        self,
        deadline: float,
        near: Iterable[Network],
        *,
        resolve: Resolve = looked_up,
        dial: httpcore.NetworkBackend | None = None,
        own: str = "",
    ) -> None:
        """`deadline` is when all has to be over, by the monotonic clock; `near` are networks of this board's own.

        `own` is a host that need not be public. `resolve` and `dial` are the system's unless given.
        """
        self._deadline, self._near, self._own = deadline, tuple(near), own
        self._resolve, self._dial = resolve, dial or httpcore.SyncBackend()
        self._ended = threading.Event()
        self._streams: list[_Timed] = []

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """See httpcore. Raises ToolError for a host that is not public."""
        problem: Exception = httpcore.ConnectError("it has no address")
        numbers = self.addresses(host)
        for left, number in zip(reversed(range(len(numbers))), numbers, strict=True):
            wait = min(_NEXT_S if left else timeout or _CONNECT_S, self._left())
            try:
                stream = self._dial.connect_tcp(number, port, wait, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
            else:
                self._streams.append(_Timed(stream, self._left))
                return self._streams[-1]
        raise problem

    def addresses(self, host: str) -> list[str]:
        """Look a host up; raises ToolError when one of its addresses is not public, for all of them are its word."""
        found = self._answer(host)
        if host == self._own:
            return found
        for number in found:
            if why := refused(number, self._near):
                raise ToolError(f"{host} leads to {number}, which is not public ({why}); only the public web is read")
        return found

    def cut(self) -> None:
        """End every wait; from another thread."""
        self._ended.set()
        for stream in self._streams:
            stream.cut()

    def _answer(self, host: str) -> list[str]:
        """Have a name looked up in another thread: the lookup itself heeds no time limit, and no word to stop."""
        with suppress(ValueError):
            return [str(ip_address(host))]
        answers: list[Sequence[str] | OSError] = []

        def look_up() -> None:
            try:
                answers.append(self._resolve(host))
            except (OSError, UnicodeError) as error:
                answers.append(error if isinstance(error, OSError) else OSError(str(error)))

        thread = threading.Thread(target=look_up, name="resolver", daemon=True)
        thread.start()
        thread.join(min(_CONNECT_S, self._left()))
        if not answers:
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time")
        if isinstance(answers[0], OSError):
            raise httpcore.ConnectError(f"the name {host} is not known: {answers[0].strerror or answers[0]}")
        return list(answers[0])

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0 or self._ended.is_set():
            raise httpcore.ReadTimeout("its time is up")
        return left


class _Timed(httpcore.NetworkStream):
    """A stream on which no single wait is longer than what is left, so that a server cannot drip for ever."""

    def __init__(self, inner: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._inner, self._left = inner, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._within(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._inner = self._inner.start_tls(ssl_context, server_hostname, self._within(timeout))
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def cut(self) -> None:
        with suppress(OSError):  # it is closed already
            # not by the method of a TLS socket, which forgets its state under the reader's hands
            socket.socket.shutdown(self._inner.get_extra_info("socket"), socket.SHUT_RDWR)

    def _within(self, timeout: float | None) -> float:
        left = self._left()
        return left if timeout is None else min(timeout, left)
