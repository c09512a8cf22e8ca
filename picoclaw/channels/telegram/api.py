"""The Bot API over HTTPS: one call, its errors told apart, and an end to every wait. Knows no update and no chat.

Each call is made in a thread of its own, and is given up when its time is over, whatever it hangs in: looking up a name
has no time limit of its own, and a server that drips a byte a second keeps every other one from passing.
Source: https://core.telegram.org/bots/api, "Making requests".
"""

import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from picoclaw import files as picoclaw_files
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy
from picoclaw.files import RootedPath, explain_os_error
from picoclaw.http_client import OK, Client, HTTPError, InvalidURL, Timeout

_MAX_RESPONSE_BYTES = 4_000_000  # bytes; 40 updates of the longest kind
_MAX_PENDING_CALLS = 4
_CONNECT_S, _QUIET_S, _STALLED_S = 10.0, 60.0, 20.0
_IDLE_CONNECTION_S, _MAX_IDLE_CONNECTIONS = 30.0, 2
"""How long a connection is used again, less than servers keep it, and how many wait for that."""
_SERVER_ERROR = 500
_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{10,200}")


class Unreachable(ChannelDown):
    """The network, or what is in the way of it; `unsure` when the call may have been carried out all the same."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        """`message` says what happened."""
        super().__init__(message)
        self.unsure = unsure


class Busy(ChatBusy):
    """Too many calls; `seconds` is how long to wait."""

    def __init__(self, message: str, seconds: float) -> None:
        """`message` says so."""
        super().__init__(message)
        self.seconds = seconds


class BadToken(ChannelDown):
    """Telegram does not know the token; the owner has to mend it."""


class Conflict(ChannelDown):
    """Somebody else takes this bot's messages."""


class CallRefused(ChannelError):
    """Telegram refuses this call."""

    def __init__(self, message: str, moved_to: int = 0) -> None:
        """`moved_to` is the number that a group has now, 0 otherwise."""
        super().__init__(message)
        self.moved_to = moved_to


class Upload(NamedTuple):
    """A file that goes with a call: the field's name, where it is, and its bytes."""

    field: str
    place: RootedPath
    size: int


class _ApiAnswer(NamedTuple):
    status: int
    data: bytes
    date: str


class _ApiConnection:
    """A client with one connection, and the stream below it once it is connected."""

    def __init__(self, client: Client) -> None:
        """It connects with its first call."""
        self.client = client
        self.stream: Any = None


class _PendingCall:
    """A call that is being made, for those who wait for it and those who end it."""

    def __init__(self, connection: _ApiConnection | None) -> None:
        """`connection` is one that is there already, if there is one."""
        self.done = threading.Event()
        self.sent = False
        self.answer: _ApiAnswer | ChannelError | None = None
        self.connection = connection
        self.ended = False

    def trace(self, event: str, told: Mapping[str, Any]) -> None:
        """Hear how far the request is."""
        self.sent = self.sent or event.endswith(".send_request_body.complete")
        if self.connection and event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self.connection.stream = told["return_value"]
            if self.ended:
                self.cut()

    def cut(self) -> None:
        """Wake the thread that reads, now or as soon as it is connected."""
        self.ended = True
        if self.connection and (stream := self.connection.stream):
            with suppress(OSError):
                socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)


class TelegramApi:
    """Calls one bot's methods; any thread may. What an error says never holds the token."""

    def __init__(self, token: str, base: str = "https://api.telegram.org") -> None:
        """Connect to nothing yet. Calls that follow one another share a connection, those at once have their own."""
        self._token, self._base = token, base.rstrip("/")
        self._guard = threading.Lock()
        self._pending: set[_PendingCall] = set()
        self._closed = False
        self._idle: list[_ApiConnection] = []
        self._era = 0
        self.date = ""
        """The date that Telegram sent with its last answer, as HTTP writes it."""

    def check(self) -> None:
        """Raise BadToken for a token that cannot be one."""
        if not _TOKEN.fullmatch(self._token):
            where = 'put it into secrets.toml as telegram_token = "..."'
            raise BadToken(f"the Telegram token is not one: @BotFather gives it as 123456789:AAH…; {where}")

    def call(self, method: str, fields: Mapping[str, Any], wait: float = 20.0, upload: Upload | None = None) -> Any:
        """Call a method and return its result; over after `wait` seconds.

        Raises Unreachable, Busy, BadToken, Conflict or NotDone.
        """
        answer = self._asked(f"/bot{self._token}/{method}", dict(fields), wait, upload, _MAX_RESPONSE_BYTES)
        self.date = answer.date
        return _parse_result(answer)

    def fetch(self, path: str, most: int, wait: float) -> bytes:
        """Fetch a file of at most `most` bytes by the path that getFile gave. Raises as `call`."""
        answer = self._asked(f"/file/bot{self._token}/{path}", None, wait, None, most)
        if answer.status != OK:
            raise CallRefused(f"Telegram does not give the file (HTTP {answer.status})")
        return answer.data

    def rebuild(self) -> None:
        """Leave every connection and begin with new ones."""
        with self._guard:
            idle, self._idle = self._idle, []
            self._era += 1
        for one in idle:
            one.client.close()

    def close(self) -> None:
        """End whatever is being waited for; may be called twice."""
        with self._guard:
            self._closed = True
            pending = list(self._pending)
        for one in pending:
            one.cut()
            one.done.set()
        self.rebuild()

    def _made(self) -> _ApiConnection:
        try:
            return _ApiConnection(Client({"Content-Type": "application/json"}, kept_s=_IDLE_CONNECTION_S))
        except ValueError as error:
            raise Unreachable(f"Telegram cannot be called: a proxy variable is of no use: {error}") from None

    def _asked(
        self, path: str, fields: dict[str, Any] | None, wait: float, upload: Upload | None, most: int
    ) -> _ApiAnswer:
        self.check()
        with self._guard:
            if self._closed:
                raise Unreachable("Telegram was left")
            if len(self._pending) >= _MAX_PENDING_CALLS:
                raise Unreachable("Telegram's name cannot be looked up: the calls before still wait for that")
            pending, era = _PendingCall(self._idle.pop() if self._idle else None), self._era
            self._pending.add(pending)
        work = partial(self._work, pending, era, lambda: self._request(pending, path, fields, wait, upload, most))
        threading.Thread(target=work, name="telegram-call", daemon=True).start()
        pending.done.wait(wait)
        if pending.answer is None:
            pending.cut()
            raise Unreachable(f"Telegram stayed silent for {wait:g} s", unsure=pending.sent)
        if isinstance(pending.answer, ChannelError):
            raise pending.answer
        return pending.answer

    def _work(self, pending: _PendingCall, era: int, request: Callable[[], _ApiAnswer]) -> None:
        try:
            with _translate_errors(pending, self._token):
                pending.answer = request()
        except ChannelError as error:
            pending.answer = error
        finally:
            used, good = pending.connection, isinstance(pending.answer, _ApiAnswer) and not pending.ended
            with self._guard:
                self._pending.discard(pending)
                if used and good and era == self._era and not self._closed and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                    self._idle.append(used)
                    used = None
            if used:
                used.client.close()
            pending.done.set()

    def _request(
        self,
        pending: _PendingCall,
        path: str,
        fields: dict[str, Any] | None,
        wait: float,
        upload: Upload | None,
        most: int,
    ) -> _ApiAnswer:
        # a large file may take long, each piece of it may not
        quiet = wait if fields is not None and not upload else min(_QUIET_S if upload else _STALLED_S, wait)
        told: dict[str, Any] = {
            "timeout": Timeout(quiet, min(_CONNECT_S, quiet)),
            "trace": pending.trace,
        }
        how, url = "GET" if fields is None else "POST", f"{self._base}{path}"
        if pending.connection is None:
            pending.connection = self._made()
        http = pending.connection.client
        with _encode_body(fields, upload) as body, http.stream(how, url, **told, **body) as response:
            data = _read_bounded(response.iter_bytes(), most)
            return _ApiAnswer(response.status_code, data, response.headers.get("date", ""))


@contextmanager
def _encode_body(fields: dict[str, Any] | None, upload: Upload | None) -> Iterator[dict[str, Any]]:
    """Give what is sent: JSON, or a form when a file goes with it, which is read as it is sent."""
    if fields is None:
        yield {}
    elif upload is None:
        yield {"content": json.dumps(fields).encode()}
    else:
        plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in fields.items()}
        with os.fdopen(picoclaw_files.open_rooted(upload.place, alone=True), "rb") as file:
            kind = f"multipart/form-data; boundary={os.urandom(16).hex()}"
            files = {upload.field: (upload.place.path.name, file)}
            yield {"data": plain, "files": files, "headers": {"Content-Type": kind}}


def _read_bounded(pieces: Iterator[bytes], most: int) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > most:
            raise CallRefused(f"Telegram sent more than {most} bytes")
    return bytes(data)


@contextmanager
def _translate_errors(pending: _PendingCall, token: str) -> Iterator[None]:
    """Put what can go wrong on the way into words."""
    try:
        yield
    except (HTTPError, InvalidURL, ssl.SSLError, RuntimeError) as error:
        reason = (str(error) or type(error).__name__).replace(token, "TOKEN")
        if "not yet valid" in reason or "has expired" in reason:
            reason = f"{reason}; this board's clock may be wrong: see `picoclaw doctor`"
        raise Unreachable(f"Telegram cannot be reached ({reason})", unsure=pending.sent) from None
    except OSError as error:
        raise CallRefused(f"the file cannot be sent: {explain_os_error(error)}") from None


def _parse_result(answer: _ApiAnswer) -> Any:
    """Read an answer of the API; anything that is none comes from something in the way."""
    try:
        told = json.loads(answer.data)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
        if answer.data.lstrip()[:1] == b"<":
            raise Unreachable(
                "a web page answered instead of Telegram: the network may want a login (captive portal)",
                unsure=answer.status >= _SERVER_ERROR,
            )
        raise Unreachable(f"Telegram's answer (HTTP {answer.status}) is not one of its API", unsure=True)
    if told["ok"]:
        return told.get("result")
    raise _make_error(told, answer.status)


def _make_error(told: dict[str, Any], status: int) -> ChannelError:
    code = told.get("error_code") if isinstance(told.get("error_code"), int) else status
    said = " ".join(str(told.get("description") or f"error {code}").split())[:300]
    more: dict[str, Any] = told["parameters"] if isinstance(told.get("parameters"), dict) else {}
    match code:
        case 401 | 404:
            return BadToken(f"Telegram does not know the token ({said}): ask @BotFather, then mend secrets.toml")
        case 409 if "webhook" in said.lower():
            return Conflict("this bot's messages go to a webhook: `picoclaw telegram unhook` takes it off")
        case 409:
            return Conflict("another program polls this bot: end it, or give each its own bot")
        case 429:
            seconds = more.get("retry_after")
            pause = float(min(max(seconds, 0), 3600)) if isinstance(seconds, int) else 5.0
            return Busy(f"Telegram wants a pause ({said})", pause)
        case int() if code >= _SERVER_ERROR:
            return Unreachable(f"Telegram is out of order ({code}: {said})", unsure=True)
    moved = more.get("migrate_to_chat_id")
    return CallRefused(f"Telegram refused: {said}", moved if isinstance(moved, int) else 0)
