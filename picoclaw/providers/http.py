"""How a server is asked over HTTP: a client, its errors in words, and answers that end in size and in time."""

import json
import re
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from types import ModuleType
from typing import Any, cast

from picoclaw.config import shown_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable
from picoclaw.providers import wire
from picoclaw.providers.line import Line, UnresolvedError
from picoclaw.providers.mask import Mask
from picoclaw.tls import context

# httpx imports its command line whenever click and rich happen to be installed: 44 ms and 6 MB for nothing.
sys.modules.setdefault("httpx._main", cast("ModuleType", None))
import httpx  # noqa: E402

_LARGEST_BODY = 8_000_000
_LARGEST_ERROR = 20_000
_CONNECT_S = 10.0
_KERNEL_S = 1.0
_FOR_NOW = {302, 303, 307}
_FEW_PIECES = 8  # a short list to its end, so that the connection can be used again
_WEB_PAGE = (
    "{url} answered with a web page instead of JSON: the network may want a login (captive portal),"
    " or base_url is not that of a model server (it usually ends in /v1)"
)


def client(base_url: str, key: str, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """Make a client that keeps its connection. Raises Refused for a key or a proxy that cannot be used."""
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise Refused(
            "the key holds a line break, a blank or another character that no server takes;"
            " check PICOCLAW_API_KEY or secrets.toml"
        )
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        verify = context() if base_url.startswith("https") else False
        return httpx.Client(headers=headers, verify=verify, transport=transport)
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        reason = shown_url(" ".join(str(error).split()))  # a proxy's address may hold a password as well
        raise Refused(
            f"a proxy variable cannot be used: {reason}; check HTTPS_PROXY, ALL_PROXY and their like"
        ) from None


@contextmanager
def posted(
    client: httpx.Client,
    url: str,
    body: dict[str, Any],
    mask: Mask,
    *,
    wait: float,
    deadline: float,
    line: Line | None = None,
) -> Iterator[Iterator[bytes]]:
    """Send a body; gives the answer's bytes, piece by piece. Whatever goes wrong becomes a ProviderError.

    `wait`: the longest silence, in seconds; `deadline`: when it has to be over, by the monotonic clock; `line` is told
    over which connection it goes.
    """
    shown = shown_url(url)
    wait = min(wait, max(0.1, deadline - time.monotonic()))
    timeout = httpx.Timeout(wait, connect=min(_CONNECT_S, wait))
    traced = {"trace": line.trace} if line else {}
    with (
        _explained(shown, wait, deadline),
        line.over(deadline) if line else nullcontext(),
        client.stream("POST", url, content=wire.encoded(body), timeout=timeout, extensions=traced) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise _failure(response, shown, mask, deadline)
        yield _bounded(response.iter_bytes(), deadline)


def knocked(client: httpx.Client, base_url: str, line: Line, seconds: float) -> str:
    """Ask for the list of models, which needs none of them; says what is wrong, '' when a model server answers.

    A refusal is an answer.
    """
    url = f"{base_url}/models"
    shown, deadline = shown_url(base_url), time.monotonic() + seconds
    told: dict[str, Any] = {"timeout": seconds, "extensions": {"trace": line.trace}}
    try:
        with (
            _explained(shown, seconds, deadline),
            line.over(deadline),
            client.stream("GET", url, **told) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise _failure(response, shown, Mask(""), deadline)
            pieces = islice(_bounded(response.iter_bytes(), deadline), _FEW_PIECES)
            refuse_web_page(b"".join(pieces).decode("utf-8", "replace"), url)
    except Refused:
        return ""
    except DeadlinePassed:
        return f"{shown} stayed silent for {seconds:g} s"
    except ProviderError as error:
        return str(error)
    return ""


def drained(pieces: Iterator[Any]) -> None:
    """Read what is left of an answer, so that its connection can be used again; never fails."""
    with suppress(httpx.HTTPError, ProviderError):
        for _ in pieces:
            pass


def refuse_web_page(begun: str, url: str) -> None:
    """Raise Unavailable when an answer begins as a web page does."""
    if begun.lstrip().startswith("<"):
        raise Unavailable(_WEB_PAGE.format(url=shown_url(url)))


def parsed(text: str) -> Any:
    """Read a server's JSON. Raises Unavailable."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Unavailable(f"the model server sent something that is not JSON: {text.strip()[:80]!r}") from None


def _failure(response: httpx.Response, shown: str, mask: Mask, deadline: float) -> ProviderError:
    """Read a bounded part of an error answer and say what it means."""
    data = b""
    with suppress(httpx.HTTPError):
        for piece in _bounded(response.iter_bytes(), deadline):
            data += piece
            if len(data) > _LARGEST_ERROR:
                break
    text = mask.whole(data.decode("utf-8", "replace").strip())
    if response.is_redirect:
        target = shown_url(response.headers.get("location", "?"))
        if response.status_code in _FOR_NOW:
            return Unavailable(f"{shown} redirects to {target} for now: the network may want a login (captive portal)")
        return Refused(f"{shown} redirects to {target}: put that in base_url")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = "it sent a web page" if text.startswith("<") else text
    return wire.failure(response.status_code, answer, _retry_after(response.headers))


def _bounded(pieces: Iterator[bytes], deadline: float) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _LARGEST_BODY:
            raise Unavailable(f"the model server sent more than {_LARGEST_BODY} bytes in one answer")
        if time.monotonic() > deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit")
        yield piece


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds to wait: `retry-after-ms`, or Retry-After as a number or a date (RFC 9110, section 10.2.3)."""
    if re.fullmatch(r"\d{1,9}(\.\d+)?", milliseconds := headers.get("retry-after-ms", "")):
        return float(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


@contextmanager
def _explained(url: str, wait: float, deadline: float) -> Iterator[None]:
    """Put httpx's errors into words, with the address and what to try."""
    begun = time.monotonic()
    try:
        yield
    except httpx.TimeoutException as error:
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        what = _silence(error, wait, time.monotonic() - begun)
        raise Unavailable(f"{url} {what}") from None
    except httpx.ConnectError as error:
        raise Unavailable(
            f"{url} cannot be reached ({_reason(error)}); is it running, and the address right?"
        ) from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Refused(f"base_url cannot be used: {error}") from None
    except (httpx.HTTPError, httpx.StreamError, ssl.SSLError) as error:
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        raise Unavailable(f"{url} broke off ({_reason(error)})") from None


def _silence(error: httpx.TimeoutException, wait: float, took: float) -> str:
    """Word what did not answer within `wait`; the kernel tells of a dead connection by the same error, but earlier."""
    if isinstance(error, UnresolvedError):
        return str(error)
    if isinstance(error, httpx.ConnectTimeout):
        return f"did not accept a connection for {min(wait, _CONNECT_S):g} s"
    return f"stayed silent for {wait:g} s" if took > wait - _KERNEL_S else "is gone: its machine does not answer either"


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "not yet valid" in text:
        return f"{text}: this board's clock is wrong; see `picoclaw doctor`"
    return text
