"""What the channels of chat services share: calls of an HTTP API, the poll, questions, and the form of a posted message.

A service is asked by one long poll after the other, in a thread of its own; what may fail beside that has a thread too.
Errors are told apart. A call is given up when its time is over, whatever it hangs in: `Connection` looks up a name in
another thread, and ends the wait on a server that drips a byte a second.
"""

import json
import os
import random
import ssl
import threading
import time
from calendar import timegm
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar

from picoclaw.channels.attachments import (
    ArrivedMessage,
    Downloads,
    IncomingFile,
    QuotedMessage,
    check_room,
    make_file_name,
    save_file,
)
from picoclaw.channels.channel import (
    ApprovalWord,
    ChannelStatus,
    FindApproval,
    PostMessage,
    describe_outcome,
    make_answer_command,
)
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.rich_text import AnswerPart
from picoclaw.config import Config
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy, StoreDamaged, StoreError
from picoclaw.files import RootedPath, explain_os_error, open_rooted
from picoclaw.http_client import Client, Connection, HTTPError, InvalidURL, Timeout
from picoclaw.messages import Origin, is_other_person, is_stop_order
from picoclaw.prompts import Templates, fill_template
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage
from picoclaw.times import format_duration

SERVER_ERROR = 500
TOO_LARGE = "too large"
"""The code of a call whose answer is longer than it may be."""

_CONNECT_S = 10.0
_IDLE_CONNECTION_S, _MAX_IDLE_CONNECTIONS = 30.0, 2
"""How long a connection is used again, less than servers keep it, and how many wait for that."""


class Unreachable(ChannelDown):
    """The network, or what is in the way of it; `unsure` when the call may have been carried out all the same."""


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


def open_upload(source: RootedPath | bytes) -> BinaryIO:
    """Open what is sent: a file, or what is in memory. Raises OSError."""
    return BytesIO(source) if isinstance(source, bytes) else os.fdopen(open_rooted(source, alone=True), "rb")


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

    def read_object(self, answer: ApiAnswer, sign: str = "") -> dict[str, Any]:
        """Read an answer of the API, which has a truth value called `sign`; anything else comes from something in the way.

        Raises Unreachable.
        """
        try:
            told = json.loads(answer.data)
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict) and (not sign or isinstance(told.get(sign), bool)):
            return told
        if answer.data.lstrip()[:1] == b"<":
            why = "the network may want a login (captive portal), or the address in config.toml is another server's"
            is_unsure = answer.status >= SERVER_ERROR
            raise Unreachable(f"a web page answered instead of {self._service}: {why}", unsure=is_unsure)
        raise Unreachable(f"{self._service}'s answer (HTTP {answer.status}) is not one of its API", unsure=True)

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


FETCH_WAITS, SHORT_WAIT_S = 6, 5.0
PAIRED = "Paired. What you write here goes to this board."
QUOTED_CHARS = 300
_LATE_S = 600
_MAX_QUESTIONS, _MAX_STRANGERS = 100, 20
_Sender = TypeVar("_Sender")
_Api = TypeVar("_Api", bound=HttpApi)


def format_arrival(
    wording: Templates, text: str, *, notes: Sequence[str], late: float, strange: str, quotes: Sequence[QuotedMessage]
) -> tuple[str, tuple[str, ...]]:
    """Put beside a text what it does not say itself, and name what of it is not the person's word.

    That stands in a block which it cannot close. `late` is how long ago it was sent, in seconds; `strange` says why all
    of it is not their word, '' when it is. `wording` has the templates `arrived` and `untrusted`.
    """
    notes = [*notes, *([f"sent {format_duration(late)} ago"] if late > _LATE_S else ())]
    foreign: tuple[str, ...] = ()
    if quotes or strange:
        template = wording["untrusted"]
        blocks = [untrusted.wrap_untrusted(template, f"in reply to {one.whose}", one.text) for one in quotes]
        if strange and text:
            blocks.append(untrusted.wrap_untrusted(template, strange, text))
        text = "\n".join(filter(None, ["" if strange else text, *blocks]))
        theirs = [f"a message of {one.whose} that was answered" for one in quotes if not one.own]
        foreign = tuple(filter(None, [strange, *theirs]))
    if notes:
        text = fill_template(wording["arrived"], {"notes": "; ".join(notes), "content": text}, "content")
    return text, foreign


def count_seconds_since(sent: int, told: str) -> float:
    """Seconds since a message was sent, by the service's own clock: the board's may be wrong. 0 when it does not say."""
    try:
        now = timegm(time.strptime(told, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return 0.0
    return max(0.0, now - sent) if sent else 0.0


_Place = TypeVar("_Place")
_Result = TypeVar("_Result")


SendPart = Callable[[int, AnswerPart, bool], None]
"""Sends a part by its number; tells also whether it is the last."""


class PacedSender(Generic[_Api, _Place]):
    """Sends for one account, one message at a time, from any thread, and keeps the pauses that the service wants."""

    service: ClassVar[str]
    longest_pause_s: ClassVar[float]

    def __init__(
        self, api: _Api, find_workspace: Callable[[_Place], Path | None], ending: threading.Event, timing: Timing
    ) -> None:
        """`find_workspace` gives the folder of the files that a chat may be sent, None for none."""
        self._api, self._find_workspace, self._ending, self._timing = api, find_workspace, ending, timing
        self._guard = threading.RLock()
        self._next: dict[int, float] = {}
        self._begun: tuple[Hashable, list[AnswerPart], int] = ("", [], 0)

    def _send_parts(self, key: Hashable, parts: Iterable[AnswerPart], send: SendPart) -> None:
        """Send the parts of a message by their numbers; the one that broke off last goes on where it did.

        Its parts are those of the first time: a file may be gone. Only this process knows which were told. Raises
        ChannelError.
        """
        begun, left, done = self._begun
        if begun != key:
            left, done = list(parts), 0
        try:
            for at, part in list(enumerate(left))[done:]:
                send(at, part, at == len(left) - 1)
                done = at + 1
        except ChannelDown as error:
            error.unsure |= done > 0
            self._begun = key, left, done
            raise
        self._begun = "", [], 0

    def _pace(self, act: Callable[[], _Result], chat: int = 0) -> _Result:
        """Make one call when the pause of its chat is over, once more after a short one."""
        time_left = self.longest_pause_s
        while True:
            rest = self._next.get(chat, 0.0) - time.monotonic()
            if rest > self.longest_pause_s:
                raise Busy(f"{self.service} asks for a pause, for {rest:.0f} s more", rest)
            if rest > 0 and self._ending.wait(rest):
                raise Unreachable(f"{self.service} was left")
            try:
                return act()
            except Busy as error:
                self._delay(chat, error.seconds)
                time_left -= max(1.0, error.seconds)
                if time_left < 0:
                    raise

    def _delay(self, chat: int, seconds: float) -> None:
        now = time.monotonic()
        self._next = {one: at for one, at in self._next.items() if at > now} | {chat: now + seconds}


class ShownQuestion(NamedTuple):
    """Where a question stands: the service's names of chat and message, that message's text, and the question's sign."""

    chat: str
    message: str
    text: str
    nonce: str = ""


class Questions(Generic[_Sender]):
    """The questions of one channel; any thread may come. A channel says how one is ended."""

    def __init__(self, sender: _Sender, pairing: Pairing, kept: FindApproval, note: Callable[[str], None]) -> None:
        """`kept` looks up a call; `note` is told in a line what the disk did not take."""
        self._sender = sender
        self._pairing, self._kept, self._note = pairing, kept, note
        self._mark = f"{pairing.channel}.questions"
        self._guard = threading.RLock()
        self._known: dict[int, ShownQuestion] | None = None

    def end(self, shown: ShownQuestion, text: str) -> None:
        """Put a text in place of a question's message, which can be answered no more. Raises ChannelError."""
        raise NotImplementedError

    def find(self, number: int) -> Approval | None:
        """Look up a call that still waits for its yes. Raises StoreError."""
        approval = self._kept(number)
        return approval if approval and approval.state == "waiting" else None

    def describe_ended(self, number: int, text: str) -> str:
        """Word a question that is no longer open when it comes to be asked."""
        approval = self._kept(number)
        return "\n\n".join(filter(None, [text, describe_outcome(approval) if approval else ""]))

    def remember(self, number: int, shown: ShownQuestion) -> None:
        """Keep which message asks, and end it at once where that is over meanwhile."""
        try:
            with self._guard:
                self._save(dict(list((self._open() | {number: shown}).items())[-_MAX_QUESTIONS:]))
        except (
            StoreError
        ) as error:  # it was shown, and can be answered; how it ends is not written there after a restart
            self._note(f"{self._pairing.channel}: which message asks about number {number} is not kept: {error}")
        self.settle()

    def all(self) -> dict[int, ShownQuestion]:
        """List where the questions stand, by the number of each. Raises StoreError."""
        with self._guard:
            return dict(self._open())

    def settle(self) -> None:
        """Write below the questions that are no longer open how they have ended, as far as the service can be reached."""
        with self._guard, suppress(ChannelDown):
            try:
                for number, shown in list(self._open().items()):
                    approval = self._kept(number)
                    if ended := describe_outcome(approval) if approval else "This is no longer known.":
                        self._mark_ended(shown, ended)
                        self._save({n: one for n, one in self._open().items() if n != number})
            except StoreError as error:
                self._note(f"{self._pairing.channel}: questions cannot be looked up: {error}")

    def _mark_ended(self, shown: ShownQuestion, ended: str) -> None:
        try:
            self.end(shown, f"{shown.text}\n\n{ended}")
        except ChannelDown:
            raise
        except ChannelError as error:  # the message may be gone, or be too old
            self._note(f"{self._pairing.channel}: a question cannot be marked as ended: {error}")

    def _open(self) -> dict[int, ShownQuestion]:
        if self._known is None:
            with self._pairing.marks() as marks:
                text = marks.get(self._mark)
            try:
                found: Any = json.loads(text or "{}").items()
                self._known = {int(n): ShownQuestion(str(q[0]), str(q[1]), *map(str, q[2:4])) for n, q in found}
            except (ValueError, TypeError, IndexError, AttributeError, KeyError, RecursionError):
                self._known = {}
        return self._known

    def _save(self, shown: dict[int, ShownQuestion]) -> None:
        self._known = shown
        with self._pairing.marks() as marks:
            marks.set(self._mark, json.dumps(shown))


class PolledChannel(Generic[_Api]):
    """A chat service's account, which a home's people talk to. Each service says how it is polled, and how it sends."""

    name: ClassVar[str]
    _questions: Questions[Any]

    def __init__(
        self,
        config: Config,
        wording: Templates,
        timing: Timing,
        note: Callable[[str], None],
        pairing: Pairing,
        make_api: Callable[[], _Api],
    ) -> None:
        """Nothing is connected yet; `wording` has the templates `arrived` and `untrusted`; `note` tells of outages."""
        self._wording, self._timing, self._note, self._pairing = wording, timing, note, pairing
        self._workspace = config.workspace
        self._ending = threading.Event()
        self._poll_api, self._api, self._files = make_api(), make_api(), make_api()
        self._link = LinkState(self.name, timing, note=note)
        self._downloads = Downloads(pairing, self._fetch, self._post_message, self._ending, timing.first)
        self._thread = threading.Thread(target=self._poll, name=self.name, daemon=True)
        self._post: PostMessage = lambda _: None
        self._strangers: set[str] = set()
        self._may_hold = False

    def start(self, post: PostMessage) -> None:
        self._post = post
        try:
            self._poll_api.check()
            self._load_state()
        except (ChannelError, StoreError) as error:
            self._link.failed(error)
            raise ChannelError(str(error)) from None
        try:
            self._downloads.begin()
        except StoreError as error:
            self._note(f"{self.name}: messages whose files were being fetched cannot be read: {error}")
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        for api in (self._poll_api, self._api, self._files):
            api.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.5)
        self._pairing.close()

    def status(self) -> ChannelStatus:
        status = self._link.status
        if self._thread.ident and not self._thread.is_alive() and not self._ending.is_set():
            return status._replace(up=False, error="its thread has ended: restart picoclaw, and report this")
        return status

    def changed(self, approval: Approval) -> None:
        """See Channel. What the service cannot be told now is written there with the next message."""
        if describe_outcome(approval) and self._thread.ident and not self._ending.is_set():
            threading.Thread(target=self._questions.settle, name=f"{self.name}-asking", daemon=True).start()

    def _load_state(self) -> None:
        """Read what a former process has left. Raises StoreError."""

    def _poll_once(self) -> None:
        """Take what is there, waiting for more when `_may_hold`. Raises ChannelError, StoreError."""
        raise NotImplementedError

    def _say(self, message: ArrivedMessage, text: str) -> None:
        """Write to where a message stands. Raises ChannelError."""
        raise NotImplementedError

    def _download(self, file: IncomingFile) -> tuple[str, bytes]:
        """Fetch a file of at most MAX_DOWNLOAD_BYTES; returns its name there, and what it holds. Raises ChannelError."""
        raise NotImplementedError

    def _poll(self) -> None:
        """Poll until the end; whatever goes wrong, it goes on later."""
        while not self._ending.is_set():
            try:
                self._poll_once()
            except (ChannelError, StoreError) as error:
                self._may_hold = False
                if self._ending.is_set():
                    return
                pause = self._link.failed(error)
                if isinstance(error, Unreachable):
                    self._poll_api.rebuild()
                self._ending.wait(pause)

    def _redeem(self, message: ArrivedMessage) -> bool:
        """Pair whoever has the code; tells whether it was the code."""
        is_paired = self._pairing.redeem(message.text, message.sender, message.who)
        if is_paired:
            self._start_beside(partial(self._say, message, PAIRED))
        return is_paired

    def _refuse_once(self, message: ArrivedMessage, text: str) -> None:
        if message.sender not in self._strangers and len(self._strangers) < _MAX_STRANGERS:
            self._strangers.add(message.sender)
            self._start_beside(partial(self._say, message, text))

    def _take_message(self, message: ArrivedMessage) -> None:
        """Post a message, behind those of its chat whose files are being fetched, and when its own are there."""
        if not message.files and not self._downloads.has(message):
            self._post_message(message, (), [])
            return
        try:
            problem = "" if self._downloads.add(message) else "too many files wait to be fetched"
        except StoreDamaged:
            raise
        except StoreError as error:
            problem = str(error)
        if problem:
            problems = [f"I could not take what came with this: {problem}"] if message.files else []
            self._post_message(message, (), problems)

    def _post_message(self, message: ArrivedMessage, attached: tuple[str, ...], problems: list[str]) -> None:
        if problems:
            self._start_beside(partial(self._say, message, "\n".join(problems)))
        if message.text or attached:
            origin = self._pairing.origin(message.sender)
            text, foreign = self._format_text(message, origin)
            who = f"{self.name}:{message.sender}"
            self._post(
                InboxMessage(
                    message.key,
                    text,
                    who,
                    origin,
                    message.external,
                    attached,
                    foreign=foreign,
                    workspace=str(self._find_inbox(message)) if attached else "",
                )
            )

    def _post_answer(self, approval: Approval, word: ApprovalWord, user: str, external: str) -> None:
        """Post what the owner has answered by a press, as the command that they would type."""
        command, who = make_answer_command(approval, word), f"{self.name}:{user}"
        self._post(InboxMessage(approval.chat, command, who, external=external))

    def _find_inbox(self, message: ArrivedMessage) -> Path:
        """The workspace that files of a message are kept in."""
        return self._pairing.find_workspace([message.sender], message.key) or self._workspace

    def _fetch(self, message: ArrivedMessage, file: IncomingFile, number: int) -> str:
        workspace = self._find_inbox(message)
        check_room(workspace, file.size)
        name, data = self._download(file)
        check_room(workspace, len(data))
        return save_file(
            workspace, make_file_name(message.stem, file.kind, f"{number}_{name}" if number else name), data
        )

    def _format_text(self, message: ArrivedMessage, origin: Origin) -> tuple[str, tuple[str, ...]]:
        """See format_arrival. Commands, and the words that stop, stay bare."""
        if (message.text.startswith("/") or is_stop_order(message.text)) and not message.strange:
            return message.text, ()
        sender = [f"from {message.who}"] if is_other_person(origin) else []
        return format_arrival(
            self._wording,
            message.text,
            notes=[*sender, *message.notes],
            late=count_seconds_since(message.date, self._poll_api.date),
            strange=message.strange,
            quotes=message.quotes,
        )

    def _start_beside(self, act: Callable[[], object]) -> None:
        """Do what may fail without keeping the poll waiting: the next message may be the order to stop."""

        def run() -> None:
            with suppress(ChannelError):
                act()

        threading.Thread(target=run, name=f"{self.name}-telling", daemon=True).start()
