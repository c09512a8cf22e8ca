"""How a server proves who it is: by the certificates that this board trusts, in one context for all connections."""

import math
import os
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Self, cast

from picoclaw import __version__
from picoclaw.errors import ProviderError, TurnStopped
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple

_CA_FOLDER = Path("/etc/ssl/certs")


def get_ssl_context() -> ssl.SSLContext:
    """Give the context of this process, which reads a CA file when a handshake needs it, not the whole bundle.

    Where the owner names a bundle (SSL_CERT_FILE), or there are no hashed certificates, it is read as a whole, once.
    """
    return _make_context(os.environ.get("SSL_CERT_FILE"))


@cache
def _make_context(bundle: str | None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if bundle is None and any(_CA_FOLDER.glob("*.0")):
        made.load_verify_locations(capath=str(_CA_FOLDER))
    else:
        made.load_default_certs()
    return made


# The way to servers: httpx as it is used here, over one TLS context and without what of it nobody asks for.
#
# httpx and httpcore import a command line, two asynchronous frameworks and a list of authorities wherever those happen to
# be installed: 60 ms and 10 MB for nothing.

_UNUSED_MODULES = {"httpx._main": None, "anyio": None, "trio": None, "certifi": ModuleType("certifi")}


@contextmanager
def _skip_unused_imports() -> Iterator[None]:
    """Have what is imported meanwhile do without them, and leave them importable for others."""
    hidden = {name: cast("ModuleType", module) for name, module in _UNUSED_MODULES.items() if name not in sys.modules}
    sys.modules |= hidden
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)  # another thread, which makes a client too, may have been here


with _skip_unused_imports():
    import httpcore as httpcore  # noqa: PLC0414 - for others as well
    import httpx

ConnectError = httpx.ConnectError
ConnectTimeout = httpx.ConnectTimeout
HTTPError = httpx.HTTPError
InvalidURL = httpx.InvalidURL
NetworkError = httpx.NetworkError
ProtocolError = httpx.ProtocolError
ReadTimeout = httpx.ReadTimeout
TimeoutException = httpx.TimeoutException
UnsupportedProtocol = httpx.UnsupportedProtocol
OK = 200
_KEEPALIVE_EXPIRY_S = 5.0
Trace = Callable[[str, Mapping[str, Any]], None]


class Timeout(NamedTuple):
    """The longest wait for one step of an exchange, and for the connection, in seconds."""

    seconds: float
    connect: float


class Response:
    """An answer whose head has come. Names of headers are written small."""

    def __init__(self, raw: httpx.Response) -> None:
        self._raw = raw
        self.status_code = raw.status_code
        self.headers = {name.lower(): value for name, value in raw.headers.items()}

    @property
    def is_redirect(self) -> bool:
        return self.status_code // 100 == 3

    @property
    def is_success(self) -> bool:
        return self.status_code // 100 == 2

    def iter_bytes(self) -> Iterator[bytes]:
        """Give the body as it comes; packed only where a server does that unasked. Raises HTTPError."""
        return self._raw.iter_raw()


class Client:
    """Asks servers; keeps its connections until it is closed. A `Client` is a context that closes it."""

    def __init__(
        self, headers: Mapping[str, str] | None = None, *, proxies: bool = True, kept_s: float = _KEEPALIVE_EXPIRY_S
    ) -> None:
        """`headers` go with each request; `proxies` are those that the environment names.

        A connection idle for `kept_s` seconds is used no more. Raises ValueError for a proxy that is of no use.
        """
        usual = {"Accept-Encoding": "identity", "User-Agent": f"picoclaw/{__version__}"}  # packed streams are held back
        try:
            with _skip_unused_imports():
                limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=kept_s)
                whole = usual | dict(headers or {})
                self._client = httpx.Client(headers=whole, verify=get_ssl_context(), trust_env=proxies, limits=limits)
        except (ImportError, InvalidURL) as error:
            raise ValueError(str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; may be called twice."""
        self._client.close()

    @contextmanager
    def stream(
        self, method: str, url: str, *, timeout: Timeout, trace: Trace | None = None, **body: Any
    ) -> Iterator[Response]:
        """Ask, and give the answer while its body is still on the way; `trace` hears of each step, as httpcore's does.

        The `body` is given as httpx takes it: content, or data and files, and headers of this request alone. Raises
        HTTPError or InvalidURL.
        """
        waits = httpx.Timeout(timeout.seconds, connect=timeout.connect)
        extensions = {"trace": trace} if trace else None
        with self._client.stream(method, url, timeout=waits, extensions=extensions, **body) as raw:
            yield Response(raw)


# A connection that another thread may end.

_CONNECT_EVENT = ".connect_tcp.started"
_CONNECTED_EVENTS = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")
_ANSWER_EVENT = ".receive_response_headers.complete"
_LOOKUP_RETRY_S = 0.3
_SILENT_S, _ASKED_S, _TIMES_ASKED, _GONE_MS = 15, 5, 4, 35_000


class Connection:
    """The connection of a client that asks one thing at a time, so that another thread can end the wait on it.

    Shut down, not closed: that wakes who reads from it. A client tells of a connection only when it is made, and may
    use it for the next request as well.
    """

    def __init__(self) -> None:
        """Not connected yet; `answers` once the head of an answer has come, `is_sent` once a body began to be sent."""
        self._stream: Any = None
        self._stop: Stop | None = None
        self._resolved = threading.Event()
        self.answers = self.is_sent = self.is_closed = False
        self._next = self._last = math.inf
        self._changed = threading.Condition()
        self._watched_until = 0.0  # when the watching thread looks again; 0 while there is none

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Follow a request as httpcore reports it; raises TurnStopped before a request is sent that nobody waits for."""
        # from the beginning: one that times out between the sending and the end of this event may have arrived
        self.is_sent = self.is_sent or event.endswith(".send_request_body.started")
        if event.endswith(_CONNECT_EVENT):
            self._resolve(info["host"], info["timeout"])
        elif event.endswith(_CONNECTED_EVENTS):
            self._stream = info["return_value"]
            _set_keepalive(self._stream.get_extra_info("socket"))
            if self.is_closed:
                self.shut_down()
        elif event.endswith(_ANSWER_EVENT):
            self.answers = True
        elif self._stop and event.endswith(".send_request_headers.started"):
            raise TurnStopped("interrupted")

    @contextmanager
    def stopped_by(self, stop: Stop | None) -> Iterator[None]:
        """End the requests made within when `stop` is set; raises TurnStopped then."""
        if stop is None:
            yield
            return
        self._stop = stop
        try:
            with stop.ends(self.shut_down):
                yield
        except ProviderError:
            if stop:
                raise TurnStopped("interrupted") from None
            raise
        finally:
            self._stop = None

    @contextmanager
    def limited(self, deadline: float, head_s: float = math.inf) -> Iterator[None]:
        """End the wait soon after a moment of the monotonic clock, also on a server that drips its first line.

        Who reads the answer looks at the clock as well, and has the first word. A head that is not whole after
        `head_s` seconds is not waited for.
        """
        with self._changed:
            self.answers, self.is_sent, self._last = False, False, deadline + _LOOKUP_RETRY_S
            self._next = min(time.monotonic() + head_s, self._last)
            self._have_watched()
        try:
            yield
        finally:
            with self._changed:
                self._next = math.inf

    def hurry(self, seconds: float) -> None:
        """Wait no longer than that for the rest of the answer that is being read."""
        with self._changed:
            self._next = self._last = min(self._last, time.monotonic() + seconds)
            self._have_watched()

    def _have_watched(self) -> None:
        """See that a thread looks at `_next` in time: the one of the request before, which sleeps, or a new one."""
        if not self._watched_until:
            self._watched_until = self._next
            threading.Thread(target=self._watch, name="deadline", daemon=True).start()
        elif self._next < self._watched_until:
            self._changed.notify()

    def _watch(self) -> None:
        """Shut the connection down when a request is late; ends when there is none at a time when one would be."""
        with self._changed:
            while self._next < math.inf:
                self._watched_until = self._next
                left = self._next - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                elif self.answers and self._next < self._last:
                    self._next = self._last
                else:
                    self.shut_down()
                    self._next = math.inf
            self._watched_until = 0.0

    def _resolve(self, host: str, seconds: float) -> None:
        """Have a name looked up in another thread first: the lookup itself heeds no signal, and no stop.

        Its answer stays with the resolver, which the connection asks again; only a failure is needed here.
        """
        with suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
            return  # an address needs no lookup
        self._resolved = resolved = threading.Event()
        problems: list[Exception] = []

        def look_up() -> None:
            try:
                socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                problems.append(error)
            finally:
                resolved.set()

        threading.Thread(target=look_up, name="resolver", daemon=True).start()
        found = bool(self._stop) or resolved.wait(seconds)
        if self._stop:
            raise TurnStopped("interrupted")
        if not found:
            raise UnresolvedError(f"cannot be reached: the name {host} was not resolved in {seconds:g} s")
        if problems:
            raise ConnectError(str(problems[0]))

    def close(self) -> None:
        """Shut it down, as soon as it is connected if it is not."""
        self.is_closed = True
        self.shut_down()

    def shut_down(self) -> None:
        """End whatever is being waited for; the next request makes a new connection."""
        self._resolved.set()
        if self._stream:
            with suppress(OSError):  # it is closed already
                # not by the method of a TLS socket, which forgets its state while another thread reads
                socket.socket.shutdown(self._stream.get_extra_info("socket"), socket.SHUT_RDWR)


def _set_keepalive(connection: socket.socket) -> None:
    """Have the kernel probe a silent other side: a slow model's machine answers that, one that is gone does not."""
    with suppress(OSError):  # a Unix socket knows no such thing
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _TIMES_ASKED)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_MS)


class UnresolvedError(ConnectTimeout):
    """A name was not resolved in time."""


_LINE_END = re.compile(rb"\r\n|\n|\r")


def iter_stream_lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Split at line feeds, carriage returns or both; JSON may hold what else Unicode calls the end of a line."""
    held, returned = bytearray(), False
    for piece in pieces:
        *ended, rest = _LINE_END.split(piece[1:] if returned and piece.startswith(b"\n") else piece)
        returned = piece.endswith(b"\r")
        for end in ended:
            held += end
            yield held.decode("utf-8", "replace")
            held.clear()
        held += rest
    if held:
        yield held.decode("utf-8", "replace")
