"""The server below the page: waitress, with a deadline for requests that drip and room for those who come late.

waitress has caps for headers and bodies; it does not mind a request that never ends, nor one address that takes every
connection. Source: https://docs.pylonsproject.org/projects/waitress/en/stable/arguments.html
"""

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from waitress.adjustments import Adjustments  # type: ignore[import-untyped]
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]
from waitress.wasyncore import close_all, poll2  # type: ignore[import-untyped]

from picoclaw.disk import explain
from picoclaw.errors import ChannelError

LONGEST_HEAD, LONGEST_BODY = 16_384, 65_536
THREADS, CONNECTIONS = 8, 60
REQUEST_S, IDLE_S = 15, 60
_LOOK_S = 5
_ASLEEP_S = 60
_PATIENCE_S = 0.8
_IP_FREEBIND = 15
"""ip(7); Python has no name for it."""
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Connection(HTTPChannel):  # type: ignore[misc]
    """One browser's connection; when there are too many, an idle one of whoever has most of them makes room."""

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        """As waitress has it."""
        super().__init__(server, sock, addr, adj, map)
        self.began = 0.0
        everyone = list(server.active_channels.values())
        if len(everyone) > CONNECTIONS:
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
        return done


class _Server(TcpWSGIServer):  # type: ignore[misc]
    """The listening side."""

    channel_class = _Connection

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


class Server:
    """A server that runs until it is stopped."""

    def __init__(self, application: Application, host: str, port: int) -> None:
        """Listen at an address; port 0 is any. Raises ChannelError."""
        logging.getLogger("waitress").setLevel(logging.ERROR)  # a browser that leaves is no news
        settings = Adjustments(
            host=host,
            port=port,
            threads=THREADS,
            ident="",
            backlog=256,
            connection_limit=2 * CONNECTIONS,
            cleanup_interval=_LOOK_S,
            channel_timeout=IDLE_S,
            log_socket_errors=False,
            max_request_header_size=LONGEST_HEAD,
            max_request_body_size=LONGEST_BODY,
            inbuf_overflow=2 * LONGEST_BODY,
            asyncore_loop_timeout=_ASLEEP_S,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=False,  # the site believes those of the owner's own proxies, see client_of
        )
        self._map: dict[int, Any] = {}
        self._ending = False
        try:
            self._server = _Server(application, map=self._map, adj=settings)
        except OSError as error:
            close_all(self._map, ignore_all=True)
            where = f"{host} port {port} ({explain(error)})"
            raise ChannelError(f"the page cannot listen at {where}: choose others in [page] of config.toml") from None
        self.port = int(self._server.effective_port)

    def run(self) -> None:
        """Serve until `stop`."""
        while not self._ending:
            poll2(_ASLEEP_S, self._map)

    def stop(self, loop: threading.Thread) -> None:
        """End what is answered and the thread that runs `run`; from any other one."""
        self._ending = True
        self._server.pull_trigger()
        self._server.task_dispatcher.shutdown(timeout=_PATIENCE_S)
        loop.join(_PATIENCE_S)
        late = bool(self._server.task_dispatcher.threads)  # which will still want to wake the loop: not by a number
        left = {n: one for n, one in self._map.items() if not (late and one is self._server.trigger)}  # of another file
        close_all(left, ignore_all=True)
