"""The server below the page: waitress, with a deadline for requests that drip and room for those who come late.

waitress has caps for headers and bodies; it does not mind a request that never ends, nor one address that takes every
connection. Source: https://docs.pylonsproject.org/projects/waitress/en/stable/arguments.html
"""

import ipaddress
import logging
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher
from waitress.wasyncore import close_all, poll2

from picoclaw.errors import ChannelError
from picoclaw.files import explain_os_error
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.channels.dashboard.programs import Programs

MAX_HEAD_BYTES, MAX_BODY_BYTES, MAX_PROGRAM_BODY_BYTES = 16_384, 65_536, 262_144
THREADS, MAX_CONNECTIONS, MAX_PENDING = 8, 60, 4
"""Of the threads, so many more as programs may wait for an answer."""
REQUEST_S, IDLE_S = 15, 60
_CLEANUP_INTERVAL_S = 5
_POLL_TIMEOUT_S = 60
_SHUTDOWN_TIMEOUT_S = 0.8
_TOO_LARGE, _ANSWERED_LATE = 413, "/v1/chat/completions"
_IP_FREEBIND = 15
"""ip(7); Python has no name for it."""
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _PageConnection(HTTPChannel):  # type: ignore[misc]
    """One browser's connection; when there are too many, an idle one of whoever has most of them makes room."""

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        super().__init__(server, sock, addr, adj, map)
        self.began = 0.0
        everyone = list(server.active_channels.values())
        if len(everyone) > MAX_CONNECTIONS:
            greediest = Counter(one.addr[0] for one in everyone).most_common(1)[0][0]
            idle = [one for one in everyone if one.addr[0] == greediest and not one.requests and one is not self]
            for one in sorted(idle, key=lambda one: one.creation_time)[:1]:
                one.handle_close()

    def received(self, data: bytes) -> bool:
        """Note when a request begins to come in, and end one that takes too long."""
        done = bool(super().received(data))
        if self.request is None:
            self.began = 0.0
        elif not self.began:
            self.began = time.monotonic()
        elif time.monotonic() - self.began > REQUEST_S:
            self.will_close = True
        programs = self.server.programs
        for request in list(self.requests) if programs else ():
            is_too_large = request.error and request.error.code == _TOO_LARGE
            if is_too_large and getattr(request, "path", "").startswith(programs.paths):
                programs.complain("size", f"a program at {self.addr[0]} has sent too much for {request.path[:60]}")
        return done

    def readable(self) -> bool:
        """Read on while a program waits for its answer, which is how its hanging up is noticed."""
        waiting = list(self.requests)
        if len(waiting) == 1 and getattr(waiting[0], "path", "") == _ANSWERED_LATE and self.server.programs:
            return not (self.will_close or self.close_when_flushed or self.total_outbufs_len)
        return bool(super().readable())


class _ListeningServer(TcpWSGIServer):  # type: ignore[misc]
    channel_class = _PageConnection
    programs: "Programs | None" = None

    def bind_server_socket(self) -> None:
        """Take also an address that this machine has not got yet: the network may come long after the start."""
        self.socket.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        super().bind_server_socket()

    def maintenance(self, now: float) -> None:
        """Close what is idle, and also requests that were begun and not finished."""
        super().maintenance(now)
        late = time.monotonic() - REQUEST_S
        for one in self.active_channels.values():
            if one.request is not None and one.began < late:
                one.will_close = True


class _GrowingThreads(ThreadedTaskDispatcher):  # type: ignore[misc]
    """Starts a thread where a request finds none idle, up to a number: most of the time nobody looks at the page."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._growing = threading.Lock()

    def add_task(self, task: Any) -> None:
        with self._growing:
            wanted = min(self._most, self.active_count + len(self.queue) + 1)
            if wanted > len(self.threads):
                self.set_thread_count(wanted)
        super().add_task(task)

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:  # noqa: FBT001 (as waitress has it)
        with self._growing:
            self._most = 0
        return bool(super().shutdown(cancel_pending, timeout))


class PageServer:
    def __init__(self, application: Application, host: str, port: int, programs: "Programs | None" = None) -> None:
        """Listen at an address; port 0 is any. `programs` may send longer bodies. Raises ChannelError."""
        logging.getLogger("waitress").setLevel(logging.ERROR)  # a browser that leaves is no news
        settings = Adjustments(
            host=host,
            port=port,
            ident="",
            backlog=256,
            connection_limit=2 * MAX_CONNECTIONS,
            cleanup_interval=_CLEANUP_INTERVAL_S,
            channel_timeout=IDLE_S,
            log_socket_errors=False,
            max_request_header_size=MAX_HEAD_BYTES,
            max_request_body_size=MAX_PROGRAM_BODY_BYTES if programs else MAX_BODY_BYTES,
            inbuf_overflow=2 * MAX_PROGRAM_BODY_BYTES,
            asyncore_loop_timeout=_POLL_TIMEOUT_S,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=False,  # the site believes those of the owner's own proxies, see client_of
        )
        threads = THREADS + MAX_PENDING if programs else THREADS
        self._map: dict[int, Any] = {}
        self._ending = False
        try:
            self._server = _ListeningServer(
                application, map=self._map, adj=settings, dispatcher=_GrowingThreads(threads)
            )
            self._server.programs = programs
        except OSError as error:
            close_all(self._map, ignore_all=True)
            where = f"{host} port {port} ({explain_os_error(error)})"
            raise ChannelError(f"the page cannot listen at {where}: choose others in [page] of config.toml") from None
        self.port = int(self._server.effective_port)

    def run(self) -> None:
        while not self._ending:
            poll2(_POLL_TIMEOUT_S, self._map)

    def stop(self, loop: threading.Thread) -> None:
        """End what is answered and the thread that runs `run`; from any other one."""
        self._ending = True
        self._server.pull_trigger()
        self._server.task_dispatcher.shutdown(timeout=_SHUTDOWN_TIMEOUT_S)
        loop.join(_SHUTDOWN_TIMEOUT_S)
        late = bool(self._server.task_dispatcher.threads)  # which will still want to wake the loop: not by a number
        left = {n: one for n, one in self._map.items() if not (late and one is self._server.trigger)}  # of another file
        close_all(left, ignore_all=True)


# What a request has to be before anybody looks at what it wants: for this host, from this page, not too often. Pure.
#
# Sources: https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/, and on DNS rebinding,
# where a name of the attacker's comes to mean our address: the Host header then still has the attacker's name.

_HOST = pattern(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(:\d{1,5})?", re.IGNORECASE)
_ALLOWED_FETCH_SITES = {"", "same-origin", "none"}

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " manifest-src 'self'; worker-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
)


def list_host_names(hostname: str, more: Collection[str], origins: Collection[str] = ()) -> frozenset[str]:
    """The names that the page may be reached by, beside any address: its own, `more`, and the hosts of `origins`."""
    own = hostname.lower().partition(".")[0]
    public = {urlsplit(origin).hostname or "" for origin in origins}
    names = {"localhost", own, f"{own}.local", f"{own}.lan", hostname.lower(), *map(str.lower, more), *public}
    return frozenset(names - {""})


def is_our_host(host: str, names: Collection[str]) -> bool:
    """Whether a Host header means us: an address, which no foreign page can have for its name, or a name of ours."""
    match = _HOST.fullmatch(host)
    if not match:
        return False
    name = match[1].lower().strip("[]").rstrip(".")
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def find_foreign_origin(
    environ: Mapping[str, str], origins: Collection[str] = (), *, from_program: bool = False
) -> str:
    """Say why a request does not come from our own page, '' when it does.

    What only reads may come without an Origin, as browsers send it; what changes something may not. `origins` are the
    page's own beside the host that was asked for: a proxy may ask us by another name than the browser asked it. What is
    asked `from_program` takes a secret that no foreign page has, and no browser sends by itself.
    """
    host, origin = environ.get("HTTP_HOST", "").lower(), environ.get("HTTP_ORIGIN", "").lower()
    if environ.get("HTTP_SEC_FETCH_SITE", "") not in _ALLOWED_FETCH_SITES and environ.get("PATH_INFO") != "/":
        return "another page has sent this"
    if origin and origin not in {f"http://{host}", f"https://{host}", *origins}:
        return "another page has sent this; behind a proxy, name the page's address in origins in [page] of config.toml"
    if not (origin or from_program) and environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
        return "a request that changes something needs its Origin"
    return ""


def get_client_address(environ: Mapping[str, str], proxies: Collection[str]) -> str:
    """The address of whoever asks: the one that the nearest of our own `proxies` has added, where one passed it on.

    Only the end of X-Forwarded-For is a proxy's word; what stands before it may have been sent by anybody.
    """
    address = environ.get("REMOTE_ADDR", "")
    forwarded = [one.strip() for one in environ.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    while address in proxies and forwarded and forwarded[-1]:
        address = forwarded.pop()
    return address


class RateLimiter:
    """So many at once, and then so many a second, for each who asks; any thread may ask, time is handed in."""

    def __init__(self, burst: float, a_second: float, most: int = 500) -> None:
        """`most` askers are remembered; who has asked for nothing for the longest is forgotten."""
        self._burst, self._a_second, self._most = burst, a_second, most
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was
        self._lock = threading.Lock()

    def take(self, who: str, now: float) -> float:
        """Take one; returns 0, or for how many seconds there is none."""
        with self._lock:
            left, at = self._buckets.pop(who, (self._burst, now))
            left = min(self._burst, left + max(0.0, now - at) * self._a_second)
            granted = left >= 1
            self._buckets[who] = left - granted, now
            if len(self._buckets) > self._most:
                del self._buckets[next(iter(self._buckets))]
        return 0.0 if granted else (1 - left) / self._a_second
