"""The HTTP client over real sockets: what it sends, which way, and what its errors are."""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rows import each_row

from picoclaw.http_client import (
    Client,
    ConnectError,
    InvalidURL,
    NetworkError,
    ProtocolError,
    ReadTimeout,
    Timeout,
    UnsupportedProtocol,
)

SOON = Timeout(5.0, 5.0)


class _Echo(BaseHTTPRequestHandler):
    """Says back what it was sent."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = {"line": self.requestline, "headers": dict(self.headers.items()), "body": body.decode("latin-1")}
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@contextmanager
def echo():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        server.connections = 0
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def ask(client, url, method="GET", **more):
    with client.stream(method, url, timeout=SOON, **more) as answer:
        return json.loads(b"".join(answer.iter_bytes()))


def test_requests_go_over_one_connection_with_what_servers_want_to_see():
    with echo() as server, Client({"Authorization": "Bearer k"}, proxies=False) as client:
        url = f"http://127.0.0.1:{server.server_port}"
        for number in range(5):
            told = ask(client, f"{url}/a b?n={number}", "POST", content=b"{}")
        assert server.connections == 1
    assert told["line"] == "POST /a%20b?n=4 HTTP/1.1"
    headers = {name.lower(): value for name, value in told["headers"].items()}
    assert headers["host"] == f"127.0.0.1:{server.server_port}"
    assert headers["content-length"] == "2"
    assert headers["authorization"] == "Bearer k"
    assert headers["accept-encoding"] == "identity"
    assert headers["user-agent"].startswith("picoclaw/")


def test_a_proxy_of_the_environment_is_what_is_connected_to(monkeypatch):
    with echo() as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{server.server_port}")
        with Client() as client:
            told = ask(client, "http://model.test/v1/models")
    assert told["line"] == "GET http://model.test/v1/models HTTP/1.1"
    assert told["headers"]["Proxy-Authorization"] == "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize("proxy", ["socks5://p:1", "gopher://p:1", "http://me:se/cret@p:x"])
def test_a_proxy_that_is_of_no_use_is_refused_at_once(proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ValueError, match=r"."):
        Client()


@each_row(
    ("url", "error"),
    [
        ("ftp://a.org/", UnsupportedProtocol),
        ("a.org", UnsupportedProtocol),
        ("http://", UnsupportedProtocol),
        ("http://a.org:x/", InvalidURL),
        ("http://[::1/", InvalidURL),
    ],
)
def test_what_is_no_address_is_said_before_anything_is_sent(url, error):
    with pytest.raises(error), Client(proxies=False) as client, client.stream("GET", url, timeout=SOON):
        pass


@each_row(
    ("sent", "error"),
    [(b"", ProtocolError), (b"SSH-2.0\r\n\r\n", ProtocolError), (None, ReadTimeout), ("reset", NetworkError)],
    ids=["nothing", "another protocol", "silence", "reset"],
)
def test_each_way_to_fail_has_its_error(sent, error):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            there, _ = listening.accept()
            there.recv(65_536)
            if sent == "reset":
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif sent is None:
                there.recv(1)  # until the client goes
            else:
                there.sendall(sent)
            there.close()

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        soon = Timeout(0.2, 0.2)
        with Client(proxies=False) as client, pytest.raises(error), client.stream("GET", url, timeout=soon):
            pass


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with Client(proxies=False) as client, pytest.raises(ConnectError), client.stream("GET", url, timeout=SOON):
        pass


def test_what_nobody_asks_for_is_not_imported_and_stays_importable():
    """httpx's command line, two asynchronous frameworks, and a list of authorities."""
    code = "import sys, picoclaw.http_client; print(*sorted(sys.modules)); import anyio, certifi; certifi.where()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"httpx._main", "anyio", "certifi", "rich", "click", "asyncio"}
