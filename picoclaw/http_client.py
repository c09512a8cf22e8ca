"""How a server proves who it is: by the certificates that this board trusts, in one context for all connections."""

import os
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Self, cast

from picoclaw import __version__
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
    import httpcore
    import httpx
    from httpx import (
        ConnectError,
        ConnectTimeout,
        HTTPError,
        InvalidURL,
        NetworkError,
        ProtocolError,
        ReadTimeout,
        TimeoutException,
        UnsupportedProtocol,
    )

__all__ = [
    "OK",
    "Client",
    "ConnectError",
    "ConnectTimeout",
    "HTTPError",
    "InvalidURL",
    "NetworkError",
    "ProtocolError",
    "ReadTimeout",
    "Response",
    "Timeout",
    "TimeoutException",
    "UnsupportedProtocol",
    "httpcore",
]

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
