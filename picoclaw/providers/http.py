"""A model server over HTTP: its connection, the bytes of an answer, server-sent events, and errors in words."""

import json
import re
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

from picoclaw.config.tables import redact_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable
from picoclaw.http_client import (
    Client,
    ConnectError,
    Connection,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    ProtocolError,
    Response,
    Timeout,
    TimeoutException,
    UnresolvedError,
    UnsupportedProtocol,
)
from picoclaw.prompts import serialize_value
from picoclaw.providers.retry import make_error, parse_retry_after
from picoclaw.security.redaction import StreamMask
from picoclaw.text import pattern

# The bytes of an answer as they come in: unpacked, and ended where no answer is to be expected any more.

MAX_BODY_BYTES = 8_000_000
"""Bytes of an answer that comes whole, and is held whole."""

LARGEST_STREAM, LARGEST_LINE = 64_000_000, 2_000_000
"""Bytes of an answer that streams, of which only a line is held."""

KEEPALIVE_FACTOR = 2.0
"""A server that says that it lives, and nothing else, is waited for so many times as long as a silent one."""

_CHUNK_BYTES = 65_536
_ENCODINGS = {"gzip", "x-gzip", "deflate"}
_GZIP_OR_ZLIB_BITS = 47  # bits of the window, and the head says which
_MAX_LINE_SEEN = 200
_KEEPALIVE = pattern(
    rb"(?:[ \t\r]*|:[^\n]*|event: ?ping\r?|data: ?(?:\{\"type\": ?\"ping\"\})?\r?|(?:id|retry):[^\n]*)(?:\n|\Z)"
)
"""A line by which a server keeps a connection: a comment, an empty one, an event named ping."""

_KEEPALIVES_ONLY = "the model server sent only keep-alives for {seconds:g} s"
_KEEPALIVES = re.compile(rb"(?:" + _KEEPALIVE.pattern + rb")*")


def decompress(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Undo an encoding that nobody asked for, a little at a time: a few bytes can stand for very many.

    Raises Unavailable for what cannot be unpacked.
    """
    if encoding in {"", "identity"}:
        yield from pieces
        return
    if encoding not in _ENCODINGS:
        raise Unavailable(f"the model server sent its answer packed as {encoding[:20]!r}, which was not requested")
    machine = zlib.decompressobj(_GZIP_OR_ZLIB_BITS)
    try:
        for piece in pieces:
            rest = piece
            while rest and not machine.eof:
                yield machine.decompress(rest, _CHUNK_BYTES)
                rest = machine.unconsumed_tail
    except zlib.error as error:
        raise Unavailable(f"the model server packed its answer wrongly ({error})") from None
    if not machine.eof:
        raise Unavailable("the model server packed its answer and sent a part of it")


def limit_stream(
    pieces: Iterator[bytes], *, deadline: float, keepalive_limit: float, streamed: bool
) -> Iterator[bytes]:
    """Pass bytes on, as long as an answer is to be expected.

    Raises Refused when it is too much, DeadlinePassed after `deadline`, by the monotonic clock, and Unavailable when
    only signs of life came for `keepalive_limit` seconds.
    """
    most = LARGEST_STREAM if streamed else MAX_BODY_BYTES
    size = width = 0
    line, idle, asked = b"", 0.0, time.monotonic()
    for piece in pieces:
        size += len(piece)
        kept = piece.rfind(b"\n") + 1
        width = len(piece) - kept + (0 if kept else width)
        if size > most:
            raise Refused(f"the model server sent more than {most} bytes in one answer; check base_url")
        if streamed and width > LARGEST_LINE:
            raise Refused(f"the model server sent more than {LARGEST_LINE} bytes in one line; check base_url")
        now = time.monotonic()
        if now > deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit")
        idle = idle + now - asked if _KEEPALIVES.fullmatch(line + piece[:_CHUNK_BYTES]) else 0.0
        if idle > keepalive_limit:
            raise Unavailable(_KEEPALIVES_ONLY.format(seconds=keepalive_limit))
        line = (piece[kept:] if kept else line + piece)[:_MAX_LINE_SEEN]
        yield piece
        asked = time.monotonic()  # whoever takes the piece may take its time


# How a server is asked over HTTP: a client, its errors in words, and answers that end in size and in time.

_LARGEST_ERROR, _LONGEST_ERROR_S = 20_000, 3.0
_CONNECT_S = 10.0
_KERNEL_TOLERANCE_S = 1.0
_NETWORK_AUTHENTICATION_REQUIRED = 511
_TEMPORARY_REDIRECTS = {302, 303, 307}
_CLOSED = pattern("disconnected|closed connection")
_BYTES = pattern(r"bytearray\(b('.{0,60}).*?('?)\)")
_DRAIN_S = 0.5
_MAX_DRAIN_PIECES = 8  # a short list to its end, so that the connection can be used again
_WEB_PAGE = (
    "{url} answered with a web page instead of JSON: the network may want a login (captive portal),"
    " or base_url is not that of a model server (it usually ends in /v1)"
)


def make_client(key: str, headers: Mapping[str, str] | None = None) -> Client:
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
        reason = redact_url(" ".join(str(error).split()))  # a proxy's address may hold a password as well
        raise Refused(
            f"a proxy variable cannot be used: {reason}; check HTTPS_PROXY, ALL_PROXY and their like"
        ) from None


@contextmanager
def open_stream(
    client: Client,
    url: str,
    body: dict[str, Any],
    mask: StreamMask,
    *,
    wait: float,
    deadline: float,
    connection: Connection | None = None,
) -> Iterator[Iterator[bytes]]:
    """Send a body; gives the answer's bytes, piece by piece. Whatever goes wrong becomes a ProviderError.

    `wait`: the longest silence, in seconds; `deadline`: when it has to be over, by the monotonic clock; `connection`
    follows the request.
    """
    shown = redact_url(url)
    wait = min(wait, max(0.1, deadline - time.monotonic()))
    trace = connection.trace if connection else None
    with (
        _translate_errors(shown, wait, deadline, connection),
        connection.limited(deadline, KEEPALIVE_FACTOR * wait) if connection else nullcontext(),
        client.stream(
            "POST", url, content=encode_body(body), timeout=Timeout(wait, min(_CONNECT_S, wait)), trace=trace
        ) as response,
    ):
        if not response.is_success:
            raise _read_failure(response, shown, mask, min(deadline, time.monotonic() + wait))
        try:
            yield _read_body(response, wait, deadline)
        except BaseException:
            if connection:
                connection.shut_down()  # what is left of an answer that was of no use would come before the next one
            raise


def encode_body(body: dict[str, Any]) -> bytes:
    """Write a body as it is sent: compact, in its own order, so that equal beginnings are equal bytes."""
    return serialize_value(body).encode("utf-8", "replace")


def probe_server(client: Client, base_url: str, connection: Connection, seconds: float) -> str:
    """Ask for the list of models, which needs none of them; says what is wrong, '' when a model server answers.

    A refusal is an answer.
    """
    try:
        read_models(client, base_url, connection, seconds)
    except Refused:
        return ""
    except DeadlinePassed:
        return f"{redact_url(base_url)} stayed silent for {seconds:g} s"
    except ProviderError as error:
        return str(error)
    return ""


def read_models(client: Client, base_url: str, connection: Connection, seconds: float) -> str:
    """Give the beginning of a server's list of models. Raises ProviderError."""
    url = f"{base_url}/models"
    shown, deadline = redact_url(base_url), time.monotonic() + seconds
    with (
        _translate_errors(shown, seconds, deadline),
        connection.limited(deadline),
        client.stream("GET", url, timeout=Timeout(seconds, seconds), trace=connection.trace) as response,
    ):
        if not response.is_success:
            raise _read_failure(response, shown, StreamMask(""), deadline)
        pieces = islice(_read_body(response, seconds, deadline), _MAX_DRAIN_PIECES)
        text = b"".join(pieces).decode("utf-8", "replace")
        refuse_web_page(text, url)
        return text


def drain(pieces: Iterator[Any], connection: Connection) -> None:
    """Read what is left of an answer, so that its connection can be used again; never fails.

    A server that does not end what is whole is not waited for.
    """
    connection.hurry(_DRAIN_S)
    with suppress(HTTPError, ProviderError):
        for _ in pieces:
            pass


def refuse_web_page(begun: str, url: str) -> None:
    """Raise Unavailable when an answer begins as a web page does."""
    if begun.lstrip().startswith("<"):
        raise Unavailable(_WEB_PAGE.format(url=redact_url(url)))


def _read_failure(response: Response, shown: str, mask: StreamMask, deadline: float) -> ProviderError:
    """Read a bounded part of an error answer, until `deadline` at the latest, and say what it means."""
    data, until = b"", min(deadline, time.monotonic() + _LONGEST_ERROR_S)
    with suppress(HTTPError, ProviderError):
        for piece in _read_body(response, _LONGEST_ERROR_S, deadline):
            data += piece
            if len(data) > _LARGEST_ERROR or time.monotonic() > until:
                break
    text = mask.whole(data.decode("utf-8", "replace").strip())
    if response.status_code == _NETWORK_AUTHENTICATION_REQUIRED:
        return Unavailable(f"{shown} is not reached (511): the network wants a login (captive portal)")
    if response.is_redirect:
        target = redact_url(response.headers.get("location", ""))
        if response.status_code in _TEMPORARY_REDIRECTS:
            return Unavailable(f"{shown} redirects to {target} for now: the network may want a login (captive portal)")
        what = f"to {target}: put that in base_url" if target else "and does not say where to; check base_url"
        return Refused(f"{shown} redirects {what}")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = "it sent a web page" if text.startswith("<") else text
    return make_error(response.status_code, answer, parse_retry_after(response.headers, text, time.time()))


def _read_body(response: Response, wait: float, deadline: float) -> Iterator[bytes]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    pieces = decompress(response.iter_bytes(), encoding)
    return limit_stream(pieces, deadline=deadline, keepalive_limit=KEEPALIVE_FACTOR * wait, streamed=streamed)


@contextmanager
def _translate_errors(url: str, wait: float, deadline: float, connection: Connection | None = None) -> Iterator[None]:
    """Put the client's errors into words, with the address and what to try."""
    begun = time.monotonic()
    try:
        yield
    except ConnectError as error:
        raise Unavailable(
            f"{url} cannot be reached ({_get_reason(error)}); is it running, and the address right?"
        ) from None
    except (InvalidURL, UnsupportedProtocol) as error:
        raise Refused(f"base_url cannot be used: {error}") from None
    except (HTTPError, ssl.SSLError) as error:
        took = time.monotonic() - begun
        if time.monotonic() >= deadline:
            raise DeadlinePassed("the answer took longer than the turn's time limit") from None
        if isinstance(error, TimeoutException):
            raise Unavailable(f"{url} {_explain_silence(error, wait, took)}") from None
        if connection is not None and not connection.answers and took > KEEPALIVE_FACTOR * wait:
            raise Unavailable(_KEEPALIVES_ONLY.format(seconds=KEEPALIVE_FACTOR * wait)) from None
        not_http = isinstance(error, ProtocolError) and not _CLOSED.search(str(error))
        how = "sent something that is not HTTP" if not_http else "broke off"
        raise Unavailable(f"{url} {how} ({_get_reason(error)})") from None


def _explain_silence(error: TimeoutException, wait: float, took: float) -> str:
    """Say what did not answer within `wait`; the kernel reports a dead connection by the same error, but earlier."""
    if isinstance(error, UnresolvedError):
        return str(error)
    if isinstance(error, ConnectTimeout):
        return f"did not accept a connection for {min(wait, _CONNECT_S):g} s"
    if took > wait - _KERNEL_TOLERANCE_S:
        return f"stayed silent for {wait:g} s"
    return "is gone: its machine does not answer either"


def _get_reason(error: Exception) -> str:
    text = _BYTES.sub(r"\1", str(error)).rstrip(".") or type(error).__name__
    clock = ": this board's clock is wrong; see `picoclaw doctor`" if "not yet valid" in text else ""
    return f"{text}{clock}"


# Server-sent events (WHATWG HTML, section 9.2) as model servers send them, well or badly. Pure.

DONE_MARK = "[DONE]"
_MAX_QUOTED = 50_000
"""Characters of an event that is written over several lines."""


def read_sse_objects(lines: Iterator[str]) -> Iterator[Any]:
    """The JSON values of a stream's events, up to its last mark, which is given as DONE_MARK.

    An event may be written over several lines, and need not be set apart from the next. Raises Unavailable for what is
    not JSON, and the server's own error.
    """
    begun = ""
    for line in lines:
        field, _, value = line.partition(":")
        if field == "error":
            raise make_error(0, parse_answer_json(value))
        if field == "data" and value.strip() == DONE_MARK:
            yield DONE_MARK
            return
        if field == "data" and (begun := f"{begun}\n{value}".strip()):
            try:
                whole = json.loads(begun)
            except (ValueError, RecursionError):
                pass
            else:
                yield whole
                begun = ""
        if begun and (not line or len(begun) > _MAX_QUOTED):
            break
    if begun:
        raise make_not_json_error(begun)


def parse_answer_json(text: str) -> Any:
    """Read a server's JSON. Raises Unavailable."""
    if not text.strip():
        raise Unavailable("the model server sent an empty answer")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise make_not_json_error(text) from None


def make_not_json_error(text: str) -> Unavailable:
    return Unavailable(f"the model server sent something that is not JSON: {text.strip()[:80]!r}")
