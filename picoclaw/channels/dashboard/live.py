"""What the page has to be told: its backend, the door to everything that is not a browser, and the feed of what happens.

The feed is for every browser that listens: numbered, kept for a while, so that nothing is missed in between.
"""

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from picoclaw.channels.channel import describe_outcome
from picoclaw.errors import ChannelDown
from picoclaw.files import explain_os_errors, read_file, write_atomic
from picoclaw.messages import Event, Text, ToolRun
from picoclaw.prompts import remove_hints
from picoclaw.records import NamedTuple
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import OutboxMessage
from picoclaw.text import truncate

Point = tuple[float, float, float, float]
"""A moment in seconds since 1970; the lowest value, the mean and the highest around it."""


class SensorValue(NamedTuple):
    """What a sensor says now: `text` is the value with its unit, '' when there is none and `problem` says why.

    `at` is when it was measured, in seconds since 1970, 0 for unknown; `doubt` says why it may be wrong.
    """

    sensor: str
    quantity: str
    unit: str
    value: float | None
    text: str
    problem: str = ""
    doubt: str = ""
    at: float = 0.0


class OutputState(NamedTuple):
    """An output: `left` are the seconds until it goes to its safe level by itself, None when it is there.

    It may be away from that for `longest` seconds; a `graded` one takes percents, and one
    `for_rules` may be switched by rules.
    """

    name: str
    kind: str
    place: str
    level: str
    away: bool
    left: float | None
    armed: bool
    trouble: str = ""
    longest: float = 0.0
    graded: bool = False
    for_rules: bool = False


class OutputStates(NamedTuple):
    """The outputs; `stopped` says who has stopped them all, '' when nobody has."""

    rows: tuple[OutputState, ...] = ()
    stopped: str = ""
    problems: tuple[str, ...] = ()


class ListRow(NamedTuple):
    """A line of a list: a job, a rule, something that went wrong, a figure of the board.

    `command` is what is said in the chat to change it, behind "pause", "resume" or "remove", '' for nothing.
    """

    name: str
    text: str
    good: bool = True
    at: float = 0.0
    command: str = ""
    paused: bool = False


class Figure(NamedTuple):
    """A number for /metrics, with what it is."""

    name: str
    purpose: str
    labels: dict[str, str]
    value: float


class ChatEntry(NamedTuple):
    """Something of the conversation: `role` is "user", "assistant" or "outcome", `at` seconds since 1970."""

    role: str
    text: str
    at: float


class PageQuestion(NamedTuple):
    """A call that needs a yes: `id` is the sign of exactly this one, `call` the whole text, `chat` where it was asked.

    `means` says in plain words what it would do, '' where only the call does, and `summary` in a line of either. It
    ends unanswered at `until`, in seconds since 1970; `outcome` says how it has ended, '' while it is open.
    """

    number: int
    id: str
    call: str
    chat: str
    until: float
    means: str
    summary: str
    outcome: str = ""


def make_question(approval: Approval) -> PageQuestion:
    each = approval.each
    return PageQuestion(
        *(approval.number, approval.nonce, approval.shown, approval.chat, approval.expires),
        means="\n".join(one.plainly for one in each) if all(one.means for one in each) else "",
        summary="\n".join(one.shortly for one in each),
        outcome=describe_outcome(approval),
    )


class DashboardBackend(Protocol):
    """A running picoclaw, as the page needs it. Every method may be called from any thread; raises PicoclawError."""

    @property
    def name(self) -> str:
        """The board's name."""

    @property
    def mark(self) -> str:
        """What is said with the values of a simulated board, '' for a real one."""

    @property
    def zone(self) -> str:
        """The owner's time zone, such as "Europe/Berlin", '' when it is not known."""

    def view(self, person: str) -> "DashboardBackend":
        """The page as a member or guest of the household has it: the board, and of plans and notes their own alone."""

    def readings(self) -> list[SensorValue]:
        """Give what the sensors say; measures anew when the last time was more than a few seconds ago."""

    def history(self, sensor: str, quantity: str, begin: float, end: float, most: int) -> list[Point]:
        """Give what was measured between two moments, in no more points than `most`."""

    def outputs(self) -> OutputStates: ...

    def stop(self) -> str:
        """Bring every output to its safe level; without a model, the network or the database."""

    def off(self, name: str) -> str: ...

    def resume(self) -> str: ...

    def jobs(self) -> list[ListRow]: ...

    def rules(self) -> list[ListRow]: ...

    def agents(self, session: str) -> list[ListRow]:
        """Give the agents; `command` chooses one for a conversation, and is '' for the one that answers there."""

    def errors(self) -> list[ListRow]:
        """Give what has gone wrong lately, the newest first."""

    def facts(self) -> list[ListRow]: ...

    def said(self, session: str, most: int) -> list[ChatEntry]:
        """Give the end of a conversation, with what waits for its answer."""

    def outcomes(self, most: int) -> list[ChatEntry]:
        """Give how the last calls have ended that needed a yes, in whatever chat."""

    def questions(self) -> list[PageQuestion]:
        """Give the calls that wait for a yes, in whatever chat, behind those that have ended lately."""

    def notes(self, words: str) -> list[ListRow]:
        """Find notes, the best first: `name` is the file, `text` the lines that match."""

    def note(self, path: str) -> str: ...

    def list_household(self) -> Sequence[tuple[Any, ...]]:
        """Give the people, agents, links, teams and grants, and what their forms have: a TableForm for each of these."""

    def change_household(self, kind: str, act: str, key: str, values: Mapping[str, str], who: str) -> list[str]:
        """Add, edit or remove one of them, for a browser called `who`; returns what was done."""

    def figures(self) -> list[Figure]: ...

    def knows_date(self) -> bool: ...

    def find_message(self, key: str, externals: list[str]) -> int: ...

    def begin_conversation(self, key: str) -> None:
        """End the open conversation of a session, which is kept."""

    def troubles(self) -> list[str]:
        """Name what does not work, in a word or two each and without a secret; [] while everything does."""


MAX_STREAM_CLIENTS = 5
_MAX_EVENTS = 400


class ServerSentEvent(NamedTuple):
    """An event as server-sent events have it: `data` is JSON; '' as `mark` is not counted."""

    mark: str
    kind: str
    data: str


class EventStream:
    """Takes events from any thread and gives each to every follower."""

    def __init__(self) -> None:
        self._kept: deque[ServerSentEvent] = deque(maxlen=_MAX_EVENTS)
        self._era = secrets.token_hex(4)
        self._count = 0
        self._turn = threading.Condition()
        self._followers: list[StreamClient] = []

    def publish(self, kind: str, data: Any) -> int:
        """Tell everybody; returns how many that were."""
        with self._turn:
            self._count += 1
            self._kept.append(ServerSentEvent(f"{self._era}-{self._count}", kind, json.dumps(data)))
            self._turn.notify_all()
            return len(self._followers)

    def follow(self, after: str = "") -> "StreamClient":
        """Begin to listen, behind an event that was seen; the one who has listened longest makes room."""
        with self._turn:
            era, _, number = after.partition("-")
            known = era == self._era and number.isascii() and number.isdecimal() and len(number) < 12
            seen = int(number) if known and int(number) <= self._count else -1
            follower = StreamClient(seen if after else self._count)
            self._followers.append(follower)
            for old in self._followers[:-MAX_STREAM_CLIENTS]:
                old.ended = old.displaced = True
            del self._followers[:-MAX_STREAM_CLIENTS]
            self._turn.notify_all()
            return follower

    def end(self) -> None:
        """Send everybody away; whoever may come again will."""
        with self._turn:
            for follower in self._followers:
                follower.ended = True
            self._followers.clear()
            self._turn.notify_all()

    def leave(self, follower: "StreamClient") -> None:
        """Listen no more; may be called twice."""
        with self._turn:
            follower.ended = True
            if follower in self._followers:
                self._followers.remove(follower)

    def wait(self, follower: "StreamClient", seconds: float) -> list[ServerSentEvent] | None:
        """Wait until something happens; nothing when the time is over, None when it is all over."""
        with self._turn:
            self._turn.wait_for(lambda: follower.ended or follower.seen != self._count, seconds)
            if follower.ended:
                return None
            missed = self._count - follower.seen if follower.seen >= 0 else len(self._kept) + 1
            follower.seen = self._count
            if missed > len(self._kept):
                return [ServerSentEvent(self.mark, "anew", "{}")]
            return list(self._kept)[len(self._kept) - missed :] if missed else []

    @property
    def mark(self) -> str:
        """Where it stands now; see `follow`."""
        with self._turn:
            return f"{self._era}-{self._count}"


class StreamClient:
    """One browser that listens; `displaced` when another has taken its place."""

    def __init__(self, seen: int) -> None:
        """`seen` is the number of the last event it knows, -1 when that is not known."""
        self.seen, self.ended, self.displaced = seen, False, False


# The conversation while it goes on: what a turn has said so far.

_MAX_RESULT_CHARS = 300


class LiveTurn:
    """What the browsers see of a turn; written by the agent's thread, read by those of the server."""

    def __init__(self, feed: EventStream) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._begun = 0.0

    def now(self) -> dict[str, Any]:
        """Give what a browser has to know that comes in the middle."""
        with self._lock:
            return {"live": {"text": "".join(self._said), "since": self._begun} if self._begun else None}

    def begin(self, text: str) -> None:
        with self._lock:
            self._said, self._begun = [], time.time()
        self._feed.publish("begun", {"text": text})

    def listen(self, event: Event | ToolRun) -> None:
        if isinstance(event, Text):
            with self._lock:
                self._said.append(event.text)
            self._feed.publish("text", {"text": event.text})
        elif isinstance(event, ToolRun):
            cut = truncate(" ".join(remove_hints(event.result).split()), _MAX_RESULT_CHARS)
            self._feed.publish("tool", {"name": event.name, "arguments": str(event.arguments), "result": cut})

    def say(self, text: str) -> None:
        """Pass on a message that comes ahead of the answer."""
        self._feed.publish("said", {"role": "assistant", "text": text, "at": time.time()})

    def end(self, reply: str, problem: str) -> int:
        """A turn has ended; returns how many browsers were told."""
        with self._lock:
            self._said, self._begun = [], 0.0
        return self._feed.publish("ended", {"text": reply, "problem": problem, "at": time.time()})


# What was told on the page without being asked: reminders, warnings, answers that nobody was there to see.

PAGE_OUTBOX_FILE = "page_letters.json"
_MAX_MESSAGES = 60


OWNER_CHAT, PERSONS_CHAT = "page:home", "page:person/"
"""The sessions of the owner's chat on the page, and what those of others who log in begin with."""


class PageChat:
    """One conversation on the page: the owner's, or that of a person who has logged in."""

    def __init__(self, home: Path, person: str = "") -> None:
        self.session = f"{PERSONS_CHAT}{person}" if person else OWNER_CHAT
        self.events = EventStream()
        self.live_turn = LiveTurn(self.events)
        file = Path(PAGE_OUTBOX_FILE)
        self.outbox = PageOutbox(home / (f"{file.stem}-{person}{file.suffix}" if person else file))


def find_page_person(session: str) -> str:
    """Whose chat on the page a session is, '' for the owner's."""
    person = session.removeprefix(PERSONS_CHAT)
    return "" if person == session else person


class PageOutbox:
    """The last messages, in a file of their own: a browser that comes later has to see them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] | None = None

    def keep(self, message: OutboxMessage) -> bool:
        """Keep a message durably; False for one that was kept before. Raises ChannelDown."""
        with self._lock:
            rows = self._read()
            if any(row["number"] == message.number and row["text"] == message.text for row in rows):
                return False
            self._write([*rows, {"number": message.number, "text": message.text, "at": message.at}])
            return True

    def note(self, *said: ChatEntry) -> None:
        """Keep what is no part of the conversation in `state.db`: commands, and answers that say what went wrong."""
        rows = [{"number": 0, "role": one.role, "text": one.text, "at": one.at} for one in said if one.text]
        with self._lock, suppress(ChannelDown):
            self._write([*self._read(), *rows])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        rows = rows[-_MAX_MESSAGES:]
        with explain_os_errors(ChannelDown, f"{self._path} cannot be written"):
            write_atomic(self._path, json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace"))
        self._rows = rows

    def all(self) -> list[ChatEntry]:
        with self._lock:
            rows = self._read()
            return [ChatEntry(str(row.get("role", "assistant")), str(row["text"]), float(row["at"])) for row in rows]

    def _read(self) -> list[dict[str, Any]]:
        if self._rows is None:
            try:
                rows = json.loads(read_file(self._path))
                self._rows = [row for row in rows if {"number", "text", "at"} <= row.keys()]
            except (OSError, ValueError, AttributeError, TypeError, RecursionError):
                self._rows = []
        return self._rows


def merge_messages(said: list[ChatEntry], delivered: list[ChatEntry], mark: str, most: int) -> list[ChatEntry]:
    """Put messages where they belong by time, but for those that the conversation has as an answer, without the mark.

    Of a conversation with more than `most` lines only the end is `said`, and messages from before that are left out.
    """
    answers = {line.text.strip() for line in said if line.role == "assistant"}
    news = [message for message in delivered if message.text.strip().removesuffix(mark).strip() not in answers]
    begin = said[0].at if len(said) >= most else 0.0
    return sorted([*said, *(message for message in news if message.at >= begin)], key=lambda line: line.at)
