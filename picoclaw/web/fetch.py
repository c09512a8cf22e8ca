"""Connections that go to an address which was checked, and end in time.

The check is made where the connection is: a name is looked up once, every address that it has is looked at, and the
socket is opened to one of those numbers, so that no second lookup can lead elsewhere.

Web search by SearXNG, Brave or DuckDuckGo. Sources: https://docs.searxng.org/dev/search_api.html,
https://api-dashboard.search.brave.com/app/documentation. DuckDuckGo has no API; its page without scripts is read, which
it may refuse at any time.
"""

import codecs
import html
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urljoin, urlsplit

from picoclaw import __version__
from picoclaw.errors import ToolError, TurnStopped
from picoclaw.http_client import get_ssl_context, httpcore
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, truncate
from picoclaw.web.address import Network, WebAddress, explain_refusal, list_local_networks, parse_url

Resolve = Callable[[str], Sequence[str]]
_CONNECT_S = 10.0
_NEXT_S = 3.0  # where there is another address to try: IPv6 that leads nowhere is common


def resolve_host(host: str) -> list[str]:
    """Ask the system for all addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class PinnedBackend(httpcore.NetworkBackend):
    """Connects only to public addresses, and to one host that the owner has configured."""

    def __init__(
        self,
        deadline: float,
        near: Iterable[Network],
        *,
        resolve: Resolve = resolve_host,
        dial: httpcore.NetworkBackend | None = None,
        own: str = "",
    ) -> None:
        """`deadline` is on the monotonic clock, `near` are the board's own networks; the host `own` need not be public."""
        self._deadline, self._local_networks, self._own = deadline, tuple(near), own
        self._resolve, self._backend = resolve, dial or httpcore.SyncBackend()
        self._ended = threading.Event()
        self._streams: list[_DeadlineStream] = []

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """See httpcore. Raises ToolError for a host of which any address is not public."""
        problem: Exception = httpcore.ConnectError("it has no address")
        numbers = self._resolve_in_thread(host)
        for number in numbers if host != self._own else ():
            if why := explain_refusal(number, self._local_networks):
                raise ToolError(f"{host} leads to {number}, which is not public ({why}); only the public web is read")
        for left, number in zip(reversed(range(len(numbers))), numbers, strict=True):
            wait = min(_NEXT_S if left else timeout or _CONNECT_S, self._time_left())
            try:
                stream = self._backend.connect_tcp(number, port, wait, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
            else:
                self._streams.append(_DeadlineStream(stream, self._time_left))
                return self._streams[-1]
        raise problem

    def cut(self) -> None:
        """Close all connections; from another thread."""
        self._ended.set()
        for stream in self._streams:
            stream.cut()

    def _resolve_in_thread(self, host: str) -> list[str]:
        """Resolve a name in another thread, because getaddrinfo can neither time out nor be stopped."""
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
        thread.join(min(_CONNECT_S, self._time_left()))
        if not answers:
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time")
        if isinstance(answers[0], OSError):
            raise httpcore.ConnectError(f"the name {host} is not known: {answers[0].strerror or answers[0]}")
        return list(answers[0])

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0 or self._ended.is_set():
            raise httpcore.ReadTimeout("its time is up")
        return left


class _DeadlineStream(httpcore.NetworkStream):
    """A stream on which no wait outlasts the deadline, so that a slow server cannot hold us."""

    def __init__(self, inner: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._inner, self._time_left = inner, left

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
        left = self._time_left()
        return left if timeout is None else min(timeout, left)


def _find_proxy(wanted: WebAddress, environment: Mapping[str, str]) -> tuple[WebAddress, tuple[str, str] | None] | None:
    """Find the proxy and its login by the rules that curl and Python share; None for a direct connection.

    Raises ToolError for an unusable one.
    """
    named = {name.lower(): value for name, value in sorted(environment.items()) if value}
    exempt = named.get("no_proxy", "").split(",")
    hosts = [name.strip().lower().removeprefix("*").removeprefix(".") for name in exempt]
    if "*" in exempt or any(wanted.host == name or wanted.host.endswith(f".{name}") for name in hosts if name):
        return None
    url = named.get(f"{wanted.scheme}_proxy") or named.get("all_proxy") or ""
    if not url:
        return None
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        port = f":{parts.port}" if parts.port else ""
        if parts.scheme not in {"http", "https"}:
            raise ToolError(f"the proxy of the environment is of kind {parts.scheme!r}; http and https are understood")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return parse_url(f"{parts.scheme}://{host}{port}/", own=True), login
    except ValueError:
        raise ToolError(
            f"the variable {wanted.scheme}_proxy or all_proxy does not hold the address of a proxy"
        ) from None


# One GET of the public web: every redirect is checked, size and time are limited. No cookies and no referrer are sent,
# and no header that a caller gives goes on to where a redirect leads. Behind a proxy, the proxy looks up a name, so that
# only its spelling can be checked here.

MAX_BYTES = 1_500_000  # a page of that size takes a Zero 2 W half a minute at the very worst
_MAX_REDIRECTS = 5
_READ_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHARSET = pattern(
    r"(utf-?8|utf-?16(le|be)?|us-ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?125\d|cp\d{3,4}|koi8-?[ru]"
    r"|shift[_-]?jis|euc-?(jp|kr)|gb(k|2312|18030)|big5(hkscs)?|iso-?2022-?jp|tis-?620|mac-?roman)",
    re.IGNORECASE,
)
_DECLARED_CHARSET = pattern(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w-]{1,20})", re.IGNORECASE
)
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HTTP_ERRORS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError)
_TEXT = pattern(r"text/.*|application/(?:.*[+-])?(?:json|xml|yaml|toml|javascript|x-ndjson|xhtml)", re.IGNORECASE)


class WebPage(NamedTuple):
    """A response. `kind` is the media type, '' if unknown; `cut` when there was more of it."""

    place: WebAddress
    kind: str
    text: str
    cut: bool


class WebClient:
    """Fetches public pages, within `seconds` for a page with all its redirects."""

    def __init__(
        self,
        environment: Mapping[str, str],
        seconds: float,
        *,
        resolve: Resolve = resolve_host,
        dial: httpcore.NetworkBackend | None = None,
        near: Callable[[], list[Network]] = list_local_networks,
    ) -> None:
        """`environment` may name proxies."""
        self._environment, self._seconds = environment, seconds
        self._resolve, self._backend, self._local_networks = resolve, dial, near

    def get(self, url: str, stop: Stop | None = None) -> WebPage:
        """Fetch a page of text, following redirects; raises ToolError."""
        deadline, place = time.monotonic() + self._seconds, parse_url(url)
        for _ in range(_MAX_REDIRECTS + 1):
            answer = self._send(place, deadline, {}, stop)
            if isinstance(answer, WebPage):
                return answer
            place = parse_url(answer)
        raise ToolError(f"{url} redirects more than {_MAX_REDIRECTS} times")

    def ask(self, url: str, headers: Mapping[str, str], stop: Stop | None = None, *, own: bool = False) -> WebPage:
        """Query a service without following redirects, since its key is in `headers`; `own`: the owner's host."""
        place = parse_url(url, own=own)
        answer = self._send(place, time.monotonic() + self._seconds, headers, stop, own=own)
        if not isinstance(answer, WebPage):
            raise ToolError(f"{place.origin} redirects; configure the address that it has now")
        return answer

    def _send(
        self, place: WebAddress, deadline: float, headers: Mapping[str, str], stop: Stop | None, *, own: bool = False
    ) -> WebPage | str:
        """Make one request; returns the page, or the address it redirects to."""
        stop = Stop() if stop is None else stop
        proxy = _find_proxy(place, self._environment)
        free = proxy[0].host if proxy else place.host if own else ""
        backend = PinnedBackend(deadline, self._local_networks(), resolve=self._resolve, dial=self._backend, own=free)
        tls = get_ssl_context() if place.scheme == "https" else None
        pool = (
            httpcore.HTTPProxy(_make_core_url(proxy[0]), proxy[1], ssl_context=tls, network_backend=backend)
            if proxy
            else httpcore.ConnectionPool(ssl_context=tls, network_backend=backend)
        )
        sent: dict[bytes | str, bytes | str] = {
            "Host": place.authority,
            "User-Agent": f"picoclaw/{__version__}",
            "Accept-Encoding": "gzip",
        }
        sent.update(headers)
        waits = {"connect": _READ_S, "read": _READ_S, "write": _READ_S, "pool": _READ_S}
        with (
            _explain_errors(place, stop),
            stop.ends(backend.cut),
            pool,
            pool.stream("GET", _make_core_url(place), headers=sent, extensions={"timeout": waits}) as response,
        ):
            pairs = response.headers
            given = {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in pairs}
            if response.status in _REDIRECTS and "location" in given:
                return urljoin(place.url, given["location"])
            return _parse_response(place, response.status, given, response.iter_stream())


def _make_core_url(place: WebAddress) -> httpcore.URL:
    """Pass the parsed parts on, so that no second parser can disagree."""
    port = None if place.is_usual else place.port
    return httpcore.URL(scheme=place.scheme, host=place.host, port=port, target=place.path)


def _parse_response(place: WebAddress, status: int, given: Mapping[str, str], pieces: Iterator[bytes]) -> WebPage:
    kind, _, rest = given.get("content-type", "").partition(";")
    kind = kind.strip().lower()[:100]
    if status >= 400:
        raise ToolError(f"{place.url} answered with status {status}")
    if kind and not _TEXT.fullmatch(kind):
        raise ToolError(f"{place.url} is {kind}, not text; only text is read")
    data, cut = _read_body(pieces, given.get("content-encoding", "").strip().lower())
    if b"\0" in data[:1024] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ToolError(f"{place.url} is not text; only text is read")
    return WebPage(place, kind, _decode_text(data, rest), cut)


def _read_body(pieces: Iterator[bytes], coding: str) -> tuple[bytes, bool]:
    """Read and decompress, never holding more than MAX_BYTES."""
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise ToolError(f"the answer is packed as {coding[:20]!r}, which was not asked for")
    unpack = zlib.decompressobj(31) if coding.endswith("gzip") else None
    data, received = bytearray(), 0
    for piece in pieces:
        received += len(piece)
        room = MAX_BYTES + 1 - len(data)
        try:
            data += unpack.decompress(piece, room) if unpack else piece[:room]
        except zlib.error:
            raise ToolError("the answer is packed wrongly") from None
        if max(received, len(data)) > MAX_BYTES:
            return bytes(data[:MAX_BYTES]), True
    return bytes(data), False


def _decode_text(data: bytes, parameters: str) -> str:
    """Decode by byte order mark, header, or the page's own declaration; else UTF-8."""
    named = re.search(r"charset\s*=\s*[\"']?([\w-]{1,20})", parameters, re.IGNORECASE)
    within = _DECLARED_CHARSET.search(data[:2048])
    wanted = named[1] if named else within[1].decode() if within else ""
    marked = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "")
    name = marked or (wanted if _CHARSET.fullmatch(wanted) else "utf-8")
    try:
        return data.decode(name, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


@contextmanager
def _explain_errors(place: WebAddress, stop: Stop) -> Iterator[None]:
    try:
        yield
    except (*_HTTP_ERRORS, OSError, ValueError) as error:
        if stop and isinstance(error, _HTTP_ERRORS):
            raise TurnStopped("interrupted") from None
        why = str(error) or type(error).__name__
        if isinstance(error, httpcore.TimeoutException) and "time" not in why:
            why = f"it stayed silent, or took too long ({type(error).__name__})"
        elif "not yet valid" in why:
            why += ": this board's clock is wrong; see `picoclaw doctor`"
        raise ToolError(f"{place.origin} could not be read: {why}") from None


_MAX_RESULTS = 10
_BRAVE = "https://api.search.brave.com/res/v1/web/search"
_DUCKDUCKGO = "https://html.duckduckgo.com/html/"
_TITLE, _SNIPPET = 150, 300  # characters


class SearchResult(NamedTuple):
    title: str
    url: str
    snippet: str


def search_web(
    web: WebClient, engine: str, query: str, stop: Stop | None = None, *, searxng_url: str = "", key: str = ""
) -> list[SearchResult]:
    """Query an engine, named as in [web]: search; `key` is Brave's. Raises ToolError."""
    if engine == "searxng":
        raw = _search_searxng(web, searxng_url, query, stop)
    elif engine == "brave":
        raw = _search_brave(web, key, query, stop)
    else:
        raw = _search_duckduckgo(web, query, stop)
    found: dict[SearchResult, None] = {}
    for one in raw:
        with suppress(ToolError):
            url = parse_url(one.url).url
            found[SearchResult(_clean_text(one.title, _TITLE), url, _clean_text(one.snippet, _SNIPPET))] = None
    return list(found)[:_MAX_RESULTS]


def _search_searxng(web: WebClient, searxng_url: str, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    if not searxng_url:
        raise ToolError("there is no SearXNG to ask: searxng_url is missing under [web] in config.toml")
    asked = f"{searxng_url.rstrip('/')}/search?{urlencode({'q': query, 'format': 'json'})}"
    page = web.ask(asked, {}, stop, own=True)
    answer = _parse_json(page, "SearXNG", "allow `json` under search: formats in its settings")
    return _parse_results(answer.get("results"), "content")


def _search_brave(web: WebClient, key: str, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    if not key:
        raise ToolError('Brave wants a key: put brave_key = "..." into secrets.toml')
    url = f"{_BRAVE}?{urlencode({'q': query, 'count': _MAX_RESULTS, 'text_decorations': 'false'})}"
    answer = _parse_json(web.ask(url, {"X-Subscription-Token": key}, stop), "Brave", "try again later")
    pages = answer.get("web")
    return _parse_results(pages.get("results") if isinstance(pages, dict) else None, "description")


def _search_duckduckgo(web: WebClient, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    from picoclaw.web.readable import parse_html

    page = web.ask(f"{_DUCKDUCKGO}?{urlencode({'q': query})}", {"Accept-Language": "en"}, stop)
    root = parse_html(page.text)
    links = root.findall(".//a[@class='result__a']")
    if not links and "no-results" not in page.text:
        raise ToolError(
            "DuckDuckGo wants to know whether a person asks, and gives programs nothing now; try later, or have"
            " searxng or brave under [web] in config.toml"
        )
    for link in links:
        around = next(link.iterancestors("div"), None)
        snippets = [] if around is None else around.getparent().findall(".//*[@class='result__snippet']")
        said = snippets[0].text_content() if snippets else ""
        try:
            address = urlsplit(urljoin(_DUCKDUCKGO, link.get("href") or ""))
        except ValueError:
            continue
        url = parse_qs(address.query).get("uddg", [address.geturl()])[0]  # what its redirector leads to
        yield SearchResult(link.text_content(), url, said)


def _parse_json(page: WebPage, name: str, remedy: str) -> dict[str, Any]:
    try:
        answer = json.loads(page.text)
    except (ValueError, RecursionError):
        raise ToolError(f"{name} did not answer with JSON; {remedy}") from None
    if not isinstance(answer, dict):
        raise ToolError(f"{name} answered with something else than results; {remedy}")
    return answer


def _parse_results(results: Any, snippet: str) -> Iterator[SearchResult]:
    for one in results if isinstance(results, list) else ():
        if isinstance(one, dict):
            yield SearchResult(str(one.get("title") or ""), str(one.get("url") or ""), str(one.get(snippet) or ""))


def _clean_text(text: str, most: int) -> str:
    text = " ".join(html.unescape(re.sub(r"<[^<>]{0,200}>", "", text)).split())
    return truncate(text, most)
