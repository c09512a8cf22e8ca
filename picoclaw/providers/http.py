"""How a server is asked over HTTP: a client, its errors in words, and answers that end in size and in time."""

import json
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

from picoclaw.config import shown_url
from picoclaw.courier import (
    Client,
    ConnectError,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    ProtocolError,
    Response,
    Timeout,
    TimeoutException,
    UnsupportedProtocol,
)
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable
from picoclaw.providers import wire
from picoclaw.providers.failure import failure
from picoclaw.providers.line import Line, UnresolvedError
from picoclaw.providers.mask import Mask
from picoclaw.providers.pieces import SIGNS, bounded, only_signs, unpacked

_LARGEST_ERROR, _LONGEST_ERROR_S = 20_000, 3.0
_CONNECT_S = 10.0
_KERNEL_S = 1.0
_NETWORK_WANTS_A_LOGIN = 511
_FOR_NOW = {302, 303, 307}
_CLOSED = re.compile("disconnected|closed connection")
_BYTES = re.compile(r"bytearray\(b('.{0,60}).*?('?)\)")
_REST_S = 0.5
_FEW_PIECES = 8  # a short list to its end, so that the connection can be used again
_WEB_PAGE = (
    "{url} answered with a web page instead of JSON: the network may want a login (captive portal),"
    " or base_url is not that of a model server (it usually ends in /v1)"
)


def client(key: str, headers: Mapping[str, str] | None = None) -> Client:
    """Make a client that keeps its connection; `headers` show the key another way than as a bearer's.

    Raises Refused for a key or a proxy that cannot be used.
    """
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise Refused(
            "the key holds a line break, a blank or another character that no server takes;"
            " check PICOCLAW_API_KEY or secrets.toml"
        )
    shown = {"Authorization": f"Bearer {key}"} if key and headers is None else {}
    sent = {"Content-Type": "application/json", **shown, **(headers or {})}
    try:
        return Client(sent)
    except ValueError as error:
        reason = shown_url(" ".join(str(error).split()))  # a proxy's address may hold a password as well
        raise Refused(
            f"a proxy variable cannot be used: {reason}; check HTTPS_PROXY, ALL_PROXY and their like"
        ) from None


@contextmanager
def posted(
    client: Client,
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
    told: dict[str, Any] = {"timeout": Timeout(wait, min(_CONNECT_S, wait)), "trace": line.trace if line else None}
    with (
        _explained(shown, wait, deadline, line),
        line.over(deadline, SIGNS * wait) if line else nullcontext(),
        client.stream("POST", url, content=wire.encoded(body), **told) as response,
    ):
        if not response.is_success:
            raise _failure(response, shown, mask, min(deadline, time.monotonic() + wait))
        yield _body(response, wait, deadline)


def knocked(client: Client, base_url: str, line: Line, seconds: float) -> str:
    """Ask for the list of models, which needs none of them; says what is wrong, '' when a model server answers.

    A refusal is an answer.
    """
    url = f"{base_url}/models"
    shown, deadline = shown_url(base_url), time.monotonic() + seconds
    try:
        with (
            _explained(shown, seconds, deadline),
            line.over(deadline),
            client.stream("GET", url, timeout=Timeout(seconds, seconds), trace=line.trace) as response,
        ):
            if not response.is_success:
                raise _failure(response, shown, Mask(""), deadline)
            pieces = islice(_body(response, seconds, deadline), _FEW_PIECES)
            refuse_web_page(b"".join(pieces).decode("utf-8", "replace"), url)
    except Refused:
        return ""
    except DeadlinePassed:
        return f"{shown} stayed silent for {seconds:g} s"
    except ProviderError as error:
        return str(error)
    return ""


def drained(pieces: Iterator[Any], line: Line | None = None) -> None:
    """Read what is left of an answer, so that its connection can be used again; never fails.

    A server that does not end what is whole is waited for no longer, where it is asked over a `line`.
    """
    if line:
        line.hurry(_REST_S)
    with suppress(HTTPError, ProviderError):
        for _ in pieces:
            pass


def refuse_web_page(begun: str, url: str) -> None:
    """Raise Unavailable when an answer begins as a web page does."""
    if begun.lstrip().startswith("<"):
        raise Unavailable(_WEB_PAGE.format(url=shown_url(url)))


def _failure(response: Response, shown: str, mask: Mask, deadline: float) -> ProviderError:
    """Read a bounded part of an error answer, until `deadline` at the latest, and say what it means."""
    data, until = b"", min(deadline, time.monotonic() + _LONGEST_ERROR_S)
    with suppress(HTTPError, ProviderError):
        for piece in _body(response, _LONGEST_ERROR_S, deadline):
            data += piece
            if len(data) > _LARGEST_ERROR or time.monotonic() > until:
                break
    text = mask.whole(data.decode("utf-8", "replace").strip())
    if response.status_code == _NETWORK_WANTS_A_LOGIN:
        return Unavailable(f"{shown} is not reached (511): the network wants a login (captive portal)")
    if response.is_redirect:
        target = shown_url(response.headers.get("location", ""))
        if response.status_code in _FOR_NOW:
            return Unavailable(f"{shown} redirects to {target} for now: the network may want a login (captive portal)")
        what = f"to {target}: put that in base_url" if target else "and does not say where to; check base_url"
        return Refused(f"{shown} redirects {what}")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = "it sent a web page" if text.startswith("<") else text
    from picoclaw.providers.patience import asked_for

    return failure(response.status_code, answer, asked_for(response.headers, text, time.time()))


def _body(response: Response, wait: float, deadline: float) -> Iterator[bytes]:
    """The bytes of an answer, as far as they are to be waited for."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    pieces = unpacked(response.iter_bytes(), encoding)
    return bounded(pieces, deadline=deadline, patience=SIGNS * wait, streamed=streamed)


@contextmanager
def _explained(url: str, wait: float, deadline: float, line: Line | None = None) -> Iterator[None]:
    """Put the client's errors into words, with the address and what to try."""
    begun = time.monotonic()
    try:
        yield
    except TimeoutException as error:
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        what = _silence(error, wait, time.monotonic() - begun)
        raise Unavailable(f"{url} {what}") from None
    except ConnectError as error:
        raise Unavailable(
            f"{url} cannot be reached ({_reason(error)}); is it running, and the address right?"
        ) from None
    except (InvalidURL, UnsupportedProtocol) as error:
        raise Refused(f"base_url cannot be used: {error}") from None
    except (HTTPError, ssl.SSLError) as error:
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        late = line is not None and not line.answers and time.monotonic() - begun > SIGNS * wait
        raise Unavailable(only_signs(SIGNS * wait) if late else f"{url} {_broken(error)}") from None


def _silence(error: TimeoutException, wait: float, took: float) -> str:
    """Word what did not answer within `wait`; the kernel tells of a dead connection by the same error, but earlier."""
    if isinstance(error, UnresolvedError):
        return str(error)
    if isinstance(error, ConnectTimeout):
        return f"did not accept a connection for {min(wait, _CONNECT_S):g} s"
    return f"stayed silent for {wait:g} s" if took > wait - _KERNEL_S else "is gone: its machine does not answer either"


def _broken(error: Exception) -> str:
    """Word how an answer ended before its end, or was none."""
    if isinstance(error, ProtocolError) and not _CLOSED.search(str(error)):
        return f"sent something that is not HTTP ({_reason(error)})"
    return f"broke off ({_reason(error)})"


def _reason(error: Exception) -> str:
    text = _BYTES.sub(r"\1", str(error)).rstrip(".") or type(error).__name__
    if "not yet valid" in text:
        return f"{text}: this board's clock is wrong; see `picoclaw doctor`"
    return text
