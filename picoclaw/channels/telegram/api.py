"""The Bot API over HTTPS: one call, its errors told apart, and an end to every wait. Knows no update and no chat.

A call is given up when its time is over, whatever it hangs in: `Connection` looks up a name in another thread, and ends
the wait on a server that drips a byte a second.
Source: https://core.telegram.org/bots/api, "Making requests".
"""

import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

from picoclaw import files as picoclaw_files
from picoclaw.channels.channel import ChannelStatus
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy
from picoclaw.files import RootedPath, explain_os_error
from picoclaw.http_client import OK, Client, Connection, HTTPError, InvalidURL, Timeout
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import format_duration

_MAX_RESPONSE_BYTES = 4_000_000  # bytes; 40 updates of the longest kind
_CONNECT_S, _QUIET_S, _STALLED_S = 10.0, 60.0, 20.0
_IDLE_CONNECTION_S, _MAX_IDLE_CONNECTIONS = 30.0, 2
"""How long a connection is used again, less than servers keep it, and how many wait for that."""
_SERVER_ERROR = 500
_TOKEN = pattern(r"\d{1,20}:[A-Za-z0-9_-]{10,200}")


class Unreachable(ChannelDown):
    """The network, or what is in the way of it; `unsure` when the call may have been carried out all the same."""

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class Busy(ChatBusy):
    """Too many calls; `seconds` is how long to wait."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class BadToken(ChannelDown):
    """Telegram does not know the token; the owner has to correct it."""


class Conflict(ChannelDown):
    """Somebody else takes this bot's messages."""


class CallRefused(ChannelError):
    def __init__(self, message: str, moved_to: int = 0) -> None:
        """`moved_to` is the number that a group has now, 0 otherwise."""
        super().__init__(message)
        self.moved_to = moved_to


class Upload(NamedTuple):
    """A file that goes with a call: the field's name, where it is, or the picture itself, and how many bytes it has."""

    field: str
    place: RootedPath | bytes
    size: int


class _ApiAnswer(NamedTuple):
    status: int
    data: bytes
    date: str


class _ApiConnection(Connection):
    """A client with one connection."""

    def __init__(self) -> None:
        super().__init__()
        try:
            self.client = Client({"Content-Type": "application/json"}, kept_s=_IDLE_CONNECTION_S)
        except ValueError as error:
            raise Unreachable(f"Telegram cannot be called: a proxy variable is of no use: {error}") from None


class TelegramApi:
    """Calls one bot's methods; any thread may. What an error says never holds the token."""

    def __init__(self, token: str, base: str = "https://api.telegram.org") -> None:
        """Connect to nothing yet. Calls that follow one another share a connection, those at once have their own."""
        self._token, self._base = token, base.rstrip("/")
        self._guard = threading.Lock()
        self._pending: set[_ApiConnection] = set()
        self._closed = False
        self._idle: list[_ApiConnection] = []
        self._era = 0
        self.date = ""
        """The date that Telegram sent with its last answer, as HTTP writes it."""

    def check(self) -> None:
        """Raise BadToken for a token that cannot be one."""
        if not _TOKEN.fullmatch(self._token):
            where = 'put it into secrets.toml as telegram_token = "..."'
            raise BadToken(f"the Telegram token is not valid: @BotFather gives it as 123456789:AAH…; {where}")

    def call(self, method: str, fields: Mapping[str, Any], wait: float = 20.0, upload: Upload | None = None) -> Any:
        """Call a method and return its result; over after `wait` seconds.

        Raises Unreachable, Busy, BadToken, Conflict or CallRefused.
        """
        answer = self._request(f"/bot{self._token}/{method}", dict(fields), wait, upload, _MAX_RESPONSE_BYTES)
        self.date = answer.date
        return _parse_result(answer)

    def fetch(self, path: str, most: int, wait: float) -> bytes:
        """Fetch a file of at most `most` bytes by the path that getFile gave. Raises as `call`."""
        answer = self._request(f"/file/bot{self._token}/{path}", None, wait, None, most)
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
            one.close()
        self.rebuild()

    def _request(
        self, path: str, fields: dict[str, Any] | None, wait: float, upload: Upload | None, most: int
    ) -> _ApiAnswer:
        self.check()
        with self._guard:
            if self._closed:
                raise Unreachable("Telegram was left")
            connection, era = self._idle.pop() if self._idle else _ApiConnection(), self._era
            self._pending.add(connection)
        # a large file may take long, each piece of it may not
        quiet = wait if fields is not None and not upload else min(_QUIET_S if upload else _STALLED_S, wait)
        deadline, answer = time.monotonic() + wait, None
        try:
            with connection.limited(deadline):
                answer = self._exchange(connection, path, fields, quiet, upload, most)
        except (HTTPError, InvalidURL, ssl.SSLError, RuntimeError) as error:
            reason = (str(error) or type(error).__name__).replace(self._token, "TOKEN")
            if "not yet valid" in reason or "has expired" in reason:
                reason = f"{reason}; this board's clock may be wrong: see `picoclaw doctor`"
            reason = f"cannot be reached ({reason})" if time.monotonic() < deadline else f"stayed silent for {wait:g} s"
            raise Unreachable(f"Telegram {reason}", unsure=connection.is_sent) from None
        except OSError as error:
            raise CallRefused(f"the file cannot be sent: {explain_os_error(error)}") from None
        finally:
            self._release(connection, era, is_good=answer is not None)
        return answer

    def _release(self, used: _ApiConnection, era: int, *, is_good: bool) -> None:
        """Keep the connection of a call that has ended well for the next; close any other."""
        with self._guard:
            self._pending.discard(used)
            if is_good and era == self._era and not self._closed and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                self._idle.append(used)
                return
        used.client.close()

    def _exchange(
        self,
        connection: _ApiConnection,
        path: str,
        fields: dict[str, Any] | None,
        quiet: float,
        upload: Upload | None,
        most: int,
    ) -> _ApiAnswer:
        stream, timeout = connection.client.stream, Timeout(quiet, min(_CONNECT_S, quiet))
        method, data = "GET" if fields is None else "POST", bytearray()
        with (
            _encode_body(fields, upload) as body,
            stream(method, f"{self._base}{path}", timeout=timeout, trace=connection.trace, **body) as response,
        ):
            for piece in response.iter_bytes():
                data += piece
                if len(data) > most:
                    raise CallRefused(f"Telegram sent more than {most} bytes")
            return _ApiAnswer(response.status_code, bytes(data), response.headers.get("date", ""))


@contextmanager
def _encode_body(fields: dict[str, Any] | None, upload: Upload | None) -> Iterator[dict[str, Any]]:
    """Give what is sent: JSON, or a form when a file goes with it, which is read as it is sent."""
    if fields is None:
        yield {}
    elif upload is None:
        yield {"content": json.dumps(fields).encode()}
    else:
        plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in fields.items()}
        opened: BinaryIO
        if isinstance(upload.place, bytes):
            name, opened = "chart.png", BytesIO(upload.place)
        else:
            name = upload.place.path.name
            opened = os.fdopen(picoclaw_files.open_rooted(upload.place, alone=True), "rb")
        with opened as file:
            kind = f"multipart/form-data; boundary={os.urandom(16).hex()}"
            files = {upload.field: (name, file)}
            yield {"data": plain, "files": files, "headers": {"Content-Type": kind}}


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
    code = told.get("error_code") if isinstance(told.get("error_code"), int) else answer.status
    said = " ".join(str(told.get("description") or f"error {code}").split())[:300]
    more: dict[str, Any] = told["parameters"] if isinstance(told.get("parameters"), dict) else {}
    match code:
        case 401 | 404:
            raise BadToken(
                f"Telegram does not know the token ({said}): ask @BotFather, then correct it in secrets.toml"
            )
        case 409 if "webhook" in said.lower():
            raise Conflict("this bot's messages go to a webhook: `picoclaw telegram unhook` takes it off")
        case 409:
            raise Conflict("another program polls this bot: end it, or give each its own bot")
        case 429:
            seconds = more.get("retry_after")
            pause = float(min(max(seconds, 0), 3600)) if isinstance(seconds, int) else 5.0
            raise Busy(f"Telegram asks for a pause ({said})", pause)
        case int() if code >= _SERVER_ERROR:
            raise Unreachable(f"Telegram has a server error ({code}: {said})", unsure=True)
    moved = more.get("migrate_to_chat_id")
    raise CallRefused(f"Telegram refused: {said}", moved if isinstance(moved, int) else 0)


# How the connection is, for those who ask: up or down since when, what is wrong, when Telegram was last heard.

_BAD_TOKEN_S, _CONFLICT_S = 600.0, 30.0
_SHORT_OUTAGE_S = 30.0


class Timing(NamedTuple):
    """How long things take, in seconds.

    `hold`: for how long Telegram may keep a poll that brings nothing, `grace`: how much later it is given up. `first`
    and `longest`: between two tries when it cannot be reached. `wait`: the longest of any other call. `between` and
    `in_groups`: from one message to the next to a person, and to a group (https://core.telegram.org/bots/faq, "My bot
    is hitting limits"). `album`: for the rest of the files that were sent together.
    """

    hold: int = 30
    grace: float = 10.0
    first: float = 1.0
    longest: float = 60.0
    wait: float = 20.0
    between: float = 1.0
    in_groups: float = 3.0
    album: float = 1.0


DEFAULT_TIMING = Timing()


class TelegramConnection:
    """The state of one bot's connection; any thread may ask and tell.

    Moments are kept by the monotonic clock: a board without a battery learns the date from the network that is down.
    """

    def __init__(
        self,
        timing: Timing,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Not connected yet. `wall` gives seconds since 1970, `clock` seconds; `note` hears of an outage in a line."""
        self._timing, self._wall, self._clock, self._note = timing, wall, clock, note
        self._guard = threading.Lock()
        self._error = "not connected yet"
        self._since = clock()
        self._contact: float | None = None
        self._noted: type[Exception] | None = None
        self._pause = self._timing.first

    @property
    def status(self) -> ChannelStatus:
        with self._guard:
            begun = self._wall() - self._clock()
            contact = 0.0 if self._contact is None else begun + self._contact
            return ChannelStatus(not self._error, begun + self._since, self._error, contact)

    def heard(self) -> None:
        with self._guard:
            now, noted, self._noted = self._clock(), self._noted, None
            down = now - self._since
            if self._error:
                self._error, self._since = "", now
            self._contact, self._pause = now, self._timing.first
        if noted:
            self._note(f"telegram: back after {format_duration(down)}")

    def failed(self, error: Exception) -> float:
        """Note what went wrong; returns how long to wait before the next try, in seconds."""
        with self._guard:
            now = self._clock()
            if not self._error:
                self._since = now
            self._error = str(error)
            lasts = now - self._since >= _SHORT_OUTAGE_S or not isinstance(error, Unreachable)
            new = lasts and self._noted is not type(error)
            if new:
                self._noted = type(error)
            pause, self._pause = self._pause, min(self._pause * 2, self._timing.longest)
        if new:
            self._note(f"telegram: down: {error}")
        if isinstance(error, Busy):
            return error.seconds
        fixed = _BAD_TOKEN_S if isinstance(error, BadToken) else _CONFLICT_S if isinstance(error, Conflict) else pause
        return fixed * random.uniform(0.7, 1.0)  # noqa: S311 - many boards behind one router should not call at once
