"""A web of a few hosts on a loopback socket: names resolve as a test says, and every address leads here.

    with WebServer({"/page": html("<p>hi")}) as server:
        web = server.web({"example.com": ["93.184.215.14"]})
        web.get("https://...")  # http only, so http://example.com/page
        server.seen, server.dialled

An answer is a function of the request's handler, or what `said` makes. `dialled` are the addresses that a socket was
opened to, before they were led here.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpcore

from picoclaw.web.fetch import WebClient

PUBLIC = "93.184.215.14"


def said(body: bytes | str = b"", status: int = 200, **headers: str) -> Callable[[Any], None]:
    """An answer of known length; `content_type="text/html"` is Content-Type."""
    data = body.encode() if isinstance(body, str) else body

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-").title(), value)
        if "content_length" not in headers:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def html(body: str, **headers: str) -> Callable[[Any], None]:
    return said(body, content_type="text/html; charset=utf-8", **headers)


def leads(to: str, status: int = 302) -> Callable[[Any], None]:
    return said(b"", status, location=to)


class _Dial(httpcore.SyncBackend):
    def __init__(self, server: "WebServer") -> None:
        self._server = server

    def connect_tcp(self, host: str, port: int, *rest: Any, **named: Any) -> httpcore.NetworkStream:
        self._server.dialled.append((host, port))
        if host in self._server.dead:
            raise httpcore.ConnectError("refused")
        return super().connect_tcp("127.0.0.1", self._server.port, *rest, **named)


class WebServer:
    """Answers by path, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, Callable[[Any], None]]) -> None:
        self.answers = dict(answers)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.dialled: list[tuple[str, int]] = []
        self.resolved: list[str] = []
        self.dead: set[str] = set()
        self.closing = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.seen.append((headers.get("host", ""), self.path, headers))
                self.close_connection = True
                path = self.path.split("?")[0]
                with contextlib.suppress(OSError):
                    owner.answers.get(path, said("no", 404))(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_address[1]

    def web(
        self,
        names: Mapping[str, Any] | None = None,
        seconds: float = 5.0,
        environment: Mapping[str, str] | None = None,
        near: Any = list,
    ) -> WebClient:
        """A Web in which names are as given: lists of addresses, or functions that give one."""
        known = {"example.com": [PUBLIC]} | dict(names or {})

        def resolve(host: str) -> list[str]:
            self.resolved.append(host)
            if host not in known:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            found = known[host]
            return found() if callable(found) else found

        return WebClient(environment or {}, seconds, resolve=resolve, dial=_Dial(self), near=near)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
