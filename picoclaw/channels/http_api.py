"""Calls of a chat service's HTTP API: its errors told apart, an end to every wait, and how the connection is.

A call is given up when its time is over, whatever it hangs in: `Connection` looks up a name in another thread, and ends
the wait on a server that drips a byte a second.
"""

import random
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from picoclaw.channels.channel import ChannelStatus
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy
from picoclaw.files import explain_os_error
from picoclaw.http_client import Client, Connection, HTTPError, InvalidURL, Timeout
from picoclaw.records import NamedTuple
from picoclaw.times import format_duration

TOO_LARGE = "too large"
"""The code of a call whose answer is longer than it may be."""

_CONNECT_S = 10.0
_IDLE_CONNECTION_S, _MAX_IDLE_CONNECTIONS = 30.0, 2
"""How long a connection is used again, less than servers keep it, and how many wait for that."""


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


class OwnerMustAct(ChannelDown):
    """The owner has to correct something; it is tried again every `retry_s` seconds."""

    retry_s = 30.0


class BadToken(OwnerMustAct):
    """The service does not know the token."""

    retry_s = 600.0


class CallRefused(ChannelError):
    def __init__(self, message: str, *, code: str = "", moved_to: int = 0) -> None:
        """`code` is the service's word for why, `moved_to` the number that a group has now, 0 otherwise."""
        super().__init__(message)
        self.code, self.moved_to = code, moved_to


class ApiAnswer(NamedTuple):
    """An answer whole; `date` is when the service sent it, as HTTP writes it."""

    status: int
    data: bytes
    date: str


class _ApiConnection(Connection):
    def __init__(self, service: str) -> None:
        super().__init__()
        try:
            self.client = Client({"Content-Type": "application/json"}, kept_s=_IDLE_CONNECTION_S)
        except ValueError as error:
            raise Unreachable(
                f"{service} cannot be called: the proxy that is set in the environment cannot be used: {error}"
            ) from None


class HttpApi:
    """Calls one service; any thread may. What an error says never holds the token."""

    def __init__(self, service: str, token: str, base: str) -> None:
        """Connect to nothing yet. Calls that follow one another share a connection, those at once have their own."""
        self._service, self._token, self._base = service, token, base.rstrip("/")
        self._guard = threading.Lock()
        self._pending: set[_ApiConnection] = set()
        self._closed = False
        self._idle: list[_ApiConnection] = []
        self._era = 0
        self.date = ""
        """The date that the service sent with its last answer, as HTTP writes it."""

    def check(self) -> None:
        """Raise BadToken for a token that cannot be one."""
        raise NotImplementedError

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

    def request(
        self,
        method: str,
        path: str,
        body: AbstractContextManager[dict[str, Any]],
        *,
        wait: float,
        quiet: float,
        most: int,
    ) -> ApiAnswer:
        """Make a call, over after `wait` seconds, or `quiet` seconds in which nothing comes.

        `body` gives what is sent as Client.stream takes it; an answer has `most` bytes. Raises Unreachable, CallRefused.
        """
        with self._guard:
            if self._closed:
                raise Unreachable(f"{self._service} was left")
            connection, era = self._idle.pop() if self._idle else _ApiConnection(self._service), self._era
            self._pending.add(connection)
        deadline, answer = time.monotonic() + wait, None
        try:
            with connection.limited(deadline):
                answer = self._exchange(connection, method, path, body, quiet, most)
        except (HTTPError, InvalidURL, ssl.SSLError, RuntimeError) as error:
            reason = str(error) or type(error).__name__
            reason = reason.replace(self._token, "TOKEN") if self._token else reason
            if "not yet valid" in reason or "has expired" in reason:
                reason = f"{reason}; this board's clock may be wrong: see `picoclaw doctor`"
            reason = f"cannot be reached ({reason})" if time.monotonic() < deadline else f"stayed silent for {wait:g} s"
            raise Unreachable(f"{self._service} {reason}", unsure=connection.is_sent) from None
        except OSError as error:
            raise CallRefused(f"the file cannot be sent: {explain_os_error(error)}") from None
        finally:
            self._release(connection, era, is_good=answer is not None)
        self.date = answer.date
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
        method: str,
        path: str,
        body: AbstractContextManager[dict[str, Any]],
        quiet: float,
        most: int,
    ) -> ApiAnswer:
        stream, timeout = connection.client.stream, Timeout(quiet, min(_CONNECT_S, quiet))
        data = bytearray()
        with (
            body as content,
            stream(method, f"{self._base}{path}", timeout=timeout, trace=connection.trace, **content) as response,
        ):
            for piece in response.iter_bytes():
                data += piece
                if len(data) > most:
                    raise CallRefused(f"{self._service} sent more than {most} bytes", code=TOO_LARGE)
            return ApiAnswer(response.status_code, bytes(data), response.headers.get("date", ""))


# How the connection is, for those who ask: up or down since when, what is wrong, when the service was last heard.

_SHORT_OUTAGE_S = 30.0


class Timing(NamedTuple):
    """How long things take, in seconds.

    `hold`: for how long the service may keep a poll that brings nothing, `grace`: how much later it is given up. `first`
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


class LinkState:
    """The state of one connection; any thread may ask and tell.

    Moments are kept by the monotonic clock: a board without a battery learns the date from the network that is down.
    """

    def __init__(
        self,
        name: str,
        timing: Timing,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Not connected yet; `name` is the channel's. `wall` gives seconds since 1970, `clock` seconds; `note` hears of an outage in a line."""
        self._name, self._timing, self._wall, self._clock, self._note = name, timing, wall, clock, note
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
            self._note(f"{self._name}: back after {format_duration(down)}")

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
            self._note(f"{self._name}: down: {error}")
        if isinstance(error, Busy):
            return error.seconds
        fixed = error.retry_s if isinstance(error, OwnerMustAct) else pause
        return fixed * random.uniform(0.7, 1.0)  # noqa: S311 - many boards behind one router should not call at once


# What comes may hold anything.


def get(value: Any, *keys: str) -> Any:
    """Look up a key of a key's value; None where anything on the way is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def as_int(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 63
    return value if fits else 0
