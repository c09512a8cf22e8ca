"""A server elsewhere, over streamable HTTP: each message is a POST, answered by JSON or by a stream of events.

A stream that breaks is read on where the server gave its events numbers. A session that the server has forgotten is begun
again once.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.config.tables import McpConfig
from picoclaw.errors import TurnStopped
from picoclaw.http_client import (
    Client,
    ConnectError,
    Connection,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    Response,
    Timeout,
    TimeoutException,
)
from picoclaw.mcp import wire
from picoclaw.mcp.client import AuthNeeded, HttpRefused, McpClient, PendingReply, SessionLost
from picoclaw.mcp.wire import MAX_MESSAGE_BYTES, McpError, ServerGone, Wire, clean_line, get_object
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple

if TYPE_CHECKING:
    from picoclaw.mcp.oauth import TokenStore

_CONNECT_S = 15.0
_MAX_STREAM_BYTES = 4 * MAX_MESSAGE_BYTES
_MAX_RESUMES, _LONGEST_RETRY_S = 5, 30.0
_ERROR_BYTES = 65_536
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ACCEPT = "application/json, text/event-stream"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404


class _StreamEvent(NamedTuple):
    """One event: its number, '' for none, what it says, and how long to wait before reading on, None if it is not said."""

    id: str
    data: str
    retry_s: float | None


class HttpTransport:
    """A session with a server; requests are made one after the other."""

    def __init__(self, client: McpClient, home: Path, config: McpConfig, token: str) -> None:
        self._client, self._config, self._home, self._token = client, config, home, token
        self._http, self._aside = Client(), Client()
        self._connection, self._asking = Connection(), threading.Lock()
        self._session = self._version = ""
        self._store: TokenStore | None = None
        if config.client_id or not token:
            from picoclaw.mcp import oauth

            if oauth.get_token_path(home, client.name).exists():
                self._store = oauth.TokenStore(home, client.name)

    def use_version(self, version: str) -> None:
        self._version = version

    def close(self) -> None:
        """See Transport; tell the server that its session is over."""
        session, self._session = self._session, ""
        if session:
            headers = self._headers() | {"Mcp-Session-Id": session}
            try:
                with self._aside.stream("DELETE", self._config.url, timeout=Timeout(2, 2), headers=headers):
                    pass
            except (HTTPError, InvalidURL):
                pass
        self._connection.shut_down()
        self._http.close()
        self._aside.close()

    def _headers(self, message: Wire | None = None) -> dict[str, str]:
        given = {"Accept": _ACCEPT}
        if token := self._bearer():
            given["Authorization"] = f"Bearer {token}"
        if self._version:
            given["MCP-Protocol-Version"] = self._version
        if self._session:
            given["Mcp-Session-Id"] = self._session
        if message is not None:
            given["Content-Type"] = "application/json"
            if "method" in message:  # older servers do not look at it
                given["Mcp-Method"] = message["method"]
                if key := NAMED.get(message["method"]):
                    given["Mcp-Name"] = wire.encode_header(str(get_object(message.get("params")).get(key, "")))
        return given

    def _bearer(self) -> str:
        """The token to send: the owner's own, or the one of a login."""
        if self._store is not None:
            return self._store.bearer()
        return "" if self._config.client_id else self._token

    def send(self, message: Wire, pending: PendingReply | None, stop: Stop, seconds: float) -> None:
        """See Transport; a request has its answer when this returns."""
        if pending is None:
            self._send_aside(message, seconds)
            return
        with self._asking:
            try:
                with self._connection.stopped_by(stop), self._connection.limited(pending.longest_until):
                    try:
                        self._ask(message, pending, stop, seconds)
                    except AuthNeeded:
                        if not (self._store and self._store.renew()):
                            raise
                        self._ask(message, pending, stop, seconds)
            except (HTTPError, InvalidURL) as error:
                if stop:
                    raise TurnStopped("interrupted") from None
                raise self._explain(error, seconds) from None

    def _explain(self, error: Exception, seconds: float) -> McpError:
        name, url = self._client.name, self._config.url
        if isinstance(error, ConnectError | ConnectTimeout | InvalidURL):
            return ServerGone(f"{name} cannot be reached at {url}: {clean_line(error, 200)}")
        if isinstance(error, TimeoutException):
            return McpError(f"{name} has not answered within {seconds:g} s; whether it did anything is not known")
        return McpError(
            f"the connection to {name} broke ({clean_line(error, 200)}); whether it did anything is not known"
        )

    def _send_aside(self, message: Wire, seconds: float) -> None:
        """Send a notice or an answer, also while a request is being answered."""
        data, waits = wire.encode(message), Timeout(seconds, min(seconds, _CONNECT_S))
        headers = self._headers(message)
        try:
            with self._aside.stream("POST", self._config.url, timeout=waits, content=data, headers=headers) as answer:
                if not answer.is_success:
                    raise McpError(f"{self._client.name} does not take a notice (status {answer.status_code})")
        except (HTTPError, InvalidURL) as error:
            raise self._explain(error, seconds) from None

    def _ask(self, message: Wire, pending: PendingReply, stop: Stop, seconds: float) -> None:
        waits, trace = Timeout(seconds, _CONNECT_S), self._connection.trace
        data = wire.encode(message)
        headers = self._headers(message) | dict(pending.headers)
        with self._http.stream(
            "POST", self._config.url, timeout=waits, trace=trace, content=data, headers=headers
        ) as answer:
            self._check(answer, pending)
            if pending.done.is_set():
                return
            if message["method"] == "initialize" and (session := answer.headers.get("mcp-session-id", "")):
                self._session = session if session.isascii() and session.isprintable() else ""
            last, wait_s = self._read(answer, pending)
        for _ in range(_MAX_RESUMES):
            if pending.done.is_set() or not last:
                break
            stop.rest(min(wait_s, _LONGEST_RETRY_S))
            if stop or time.monotonic() > pending.longest_until:
                break
            headers = self._headers() | {"Last-Event-ID": last, "Accept": "text/event-stream"}
            with self._http.stream("GET", self._config.url, timeout=waits, trace=trace, headers=headers) as answer:
                self._check(answer, pending)
                again, wait_s = self._read(answer, pending)
                last = again or last
        if not pending.done.is_set():
            raise McpError(f"{self._client.name} ended its answer in the middle; whether it did anything is not known")

    def _check(self, answer: Response, pending: PendingReply) -> None:
        """Settle what was refused with the server's own error, if it says one. Raises McpError, SessionLost."""
        code, name = answer.status_code, self._client.name
        if answer.is_success:
            return
        if code == NOT_FOUND and self._session:
            self._session = ""
            raise SessionLost(f"{name} has forgotten the session")
        header = answer.headers.get("www-authenticate", "")
        if code == UNAUTHORIZED or (code == FORBIDDEN and "insufficient_scope" in header):
            from picoclaw.mcp import oauth

            challenge = oauth.read_challenge(header)
            if code == FORBIDDEN:
                store = oauth.TokenStore(self._home, name)
                store.save(store.load() | {"wanted": challenge.get("scope", "")})
            why = "wants to know who asks" if code == UNAUTHORIZED else "wants a login with more rights"
            raise AuthNeeded(
                f"{name} {why}: picoclaw mcp login {name}, or mcp_{name} below [keys] in secrets.toml", challenge
            )
        if answer.is_redirect:
            raise ServerGone(
                f"{name} is elsewhere now: {clean_line(answer.headers.get('location', ''), 200)}; change url"
            )
        said = wire.decode(_read_whole(answer, _ERROR_BYTES))
        if said is not None and isinstance(said.get("error"), dict):
            pending.settle(said)
            return
        kind = HttpRefused if code // 100 == 4 else ServerGone
        raise kind(f"{name} answers with status {code}")

    def _read(self, answer: Response, pending: PendingReply) -> tuple[str, float]:
        """Hand on what an answer says; returns the number of the last event, and how long to wait before reading on."""
        if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
            if (message := wire.decode(_read_whole(answer, MAX_MESSAGE_BYTES))) is None:
                raise ServerGone(f"{self._client.name} answers with something that is no message of MCP")
            self._client.receive(message)
            if not pending.done.is_set():
                raise ServerGone(f"{self._client.name} answers something else than what it was asked")
            return "", 0.0
        last, wait_s = "", 1.0
        try:
            for event in _iter_events(answer.iter_bytes()):
                last = event.id or last
                wait_s = wait_s if event.retry_s is None else event.retry_s
                if event.data and (message := wire.decode(event.data)) is not None:
                    self._client.receive(message)
                if pending.done.is_set():
                    break
        except HTTPError:
            if not last or self._connection.is_closed:
                raise
        return last, wait_s


def _read_whole(answer: Response, most: int) -> bytes:
    """Read a body. Raises ServerGone for one that is too long."""
    body = bytearray()
    for piece in answer.iter_bytes():
        body += piece
        if len(body) > most:
            raise ServerGone(f"it sends more than {most:,} bytes in one answer, and is not listened to any more")
    return bytes(body)


def _iter_events(pieces: Iterator[bytes]) -> Iterator[_StreamEvent]:
    """Read server-sent events (https://html.spec.whatwg.org/#parsing-an-event-stream). Raises ServerGone for too much."""
    event: dict[str, Any] = {"id": "", "data": [], "retry": None}
    total = 0
    for line in _iter_lines(pieces):
        total += len(line)
        if total > _MAX_STREAM_BYTES:
            raise ServerGone(f"it sends more than {_MAX_STREAM_BYTES >> 20} MB, and is not listened to any more")
        if not line:
            yield _StreamEvent(event["id"], "\n".join(event["data"]), event["retry"])
            event = {"id": "", "data": [], "retry": None}
            continue
        key, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            event["data"].append(value)
        elif key == "id" and "\0" not in value and len(value) <= 1000 and value.isascii() and value.isprintable():
            event["id"] = value
        elif key == "retry" and value.isdecimal() and len(value) < 9:
            event["retry"] = int(value) / 1000
    if event["data"]:  # some servers leave out the last empty line
        yield _StreamEvent(event["id"], "\n".join(event["data"]), event["retry"])


def _iter_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        if b"\n" in piece or b"\r" in piece:
            *lines, rest = bytes(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            held = bytearray(rest)
            yield from lines
        if len(held) > MAX_MESSAGE_BYTES:
            raise ServerGone(f"it sends a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
    if held:
        yield bytes(held)
