"""Delivery: takes messages from the outbox to their channel or open terminal, and writes later what a full disk refused."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from picoclaw.channels.channel import Channel
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy, StoreDamaged, StoreError
from picoclaw.records import NamedTuple
from picoclaw.store.inbox_outbox import MERGED, OutboxMessage
from picoclaw.times import format_duration

if TYPE_CHECKING:
    from picoclaw.store.inbox_outbox import Inbox, Outbox

_MAX_PENDING_WRITES, _MAX_KNOWN_IDS = 500, 200
WriteAction = Callable[[], object]


class WriteBehindQueue:
    """Writes that the disk has not taken yet; an answer is worth more than the record of it."""

    def __init__(self, lock: threading.RLock, note: Callable[[str], None]) -> None:
        """`lock` is that of the database, `note` is told in a line what is wrong, once for each trouble."""
        self._lock, self._note = lock, note
        self._writes: deque[WriteAction] = deque(maxlen=_MAX_PENDING_WRITES)
        self._known: deque[tuple[str, str]] = deque(maxlen=_MAX_KNOWN_IDS)
        self.trouble = ""
        """Why the disk takes nothing, '' as far as it is known to."""

    def write(self, act: WriteAction) -> bool:
        """Do a write after the pending ones; returns False if the disk refused it, and it is pending too."""
        with self._lock:
            self._writes.append(act)
            return self.flush()

    def flush(self) -> bool:
        """Do the pending writes; returns whether all succeeded."""
        with self._lock:
            taken = False
            try:
                while self._writes:
                    self._writes[0]()
                    self._writes.popleft()
                    taken = True
            except StoreError as error:
                self._complain(error, f"{error}; kept in memory until the disk can be written again")
                return False
            if self.trouble and taken:
                self.trouble = ""
                self._note("the disk can be written again, and everything missing has been saved")
            return True

    def _complain(self, error: StoreError, text: str) -> None:
        if str(error) != self.trouble:
            self.trouble = str(error)
            self._note(text)

    def replace(self, act: WriteAction | None, other: WriteAction | None) -> bool:
        """Replace or drop a pending write; returns whether it was still pending."""
        with self._lock:
            pending = any(one is act for one in self._writes)
            kept = ((other if one is act else one) for one in self._writes)
            self._writes = deque((one for one in kept if one), _MAX_PENDING_WRITES)
            return pending

    def accept_unsaved(self, key: str, external: str, error: StoreError) -> bool:
        """Remember what is answered without being kept; tells whether it is new. '' is never the same.

        Damage, which a restart repairs, is raised where the other side sends it again.
        """
        with self._lock:
            self._complain(error, f"a message could not be saved, but is answered: {error}")
            if external and isinstance(error, StoreDamaged):
                raise error
            if self.has_answered(key, external):
                return False
            self._known.append((key, external))
            return True

    def has_answered(self, key: str, external: str) -> bool:
        """Tell whether this number of a chat was answered without being kept."""
        return bool(external) and (key, external) in self._known


# Takes the messages of the outbox to their channel: a thread for each, because a network may hang.
#
# What a channel cannot send now stays, and is tried again. What has gathered meanwhile comes together, as few messages as
# hold it: nothing is left out or shortened, and what was to be told many times is told once, with when and how often.

MAX_SEPARATE_MESSAGES = 3
_MAX_MERGED_CHARS, _HEADER_CHARS = 3500, 60
_MAX_UNSAVED = 100
_KNOWN_AGAIN_S = 20 * 3600.0
"""How long the other side is taken to know a message again: Synapse does for a day."""
_FIRST_RETRY_S, _MAX_RETRY_S, _CHECK_INTERVAL_S = 5.0, 60.0, 15.0


class MessageBoxes(NamedTuple):
    """Inbox and outbox on one database connection, used only while holding the `lock`."""

    inbox: Inbox
    outbox: Outbox
    lock: threading.RLock


class DeliveryWorker:
    """Delivers the messages of one channel."""

    def __init__(
        self,
        channel: Channel,
        boxes: MessageBoxes,
        is_mine: Callable[[str], bool],
        note: Callable[[str], None],
        fallback: str = "",
        zone: Callable[[], tzinfo | None] = lambda: None,
        *,
        merges: bool = True,
        is_exact: bool = False,
    ) -> None:
        """`is_mine` tells which sessions' messages go here; `note` is told what could not be delivered, and why.

        With a `fallback`, the name of a terminal's chat, messages of other channels' chats go to the owner's chat here,
        and what the owner was to be told and this channel refuses for good waits for that terminal, not given up.
        `zone` is the owner's time zone, None for the board's. `merges`: what has gathered comes as few messages.
        `is_exact`: the other side knows a message again by its number and moment: none is said to be a repeat, and what is
        merged is one message of the outbox before it is sent.
        """
        self._merges, self._is_exact = merges, is_exact
        self.channel, self._boxes, self._is_mine, self._note = channel, boxes, is_mine, note
        self._fallback, self._zone = fallback, zone
        self._refused: set[int] = set()
        self._doubtful: set[int] = (
            set()
        )  # perhaps told by this process, whose channel remembers that and says so itself
        self._unsaved: deque[OutboxMessage] = deque(maxlen=_MAX_UNSAVED)
        # what is wrong with the disk is said where a message is begun
        self._writes = WriteBehindQueue(boxes.lock, lambda _: None)
        self._wake, self._ending = threading.Event(), threading.Event()
        self._retry_s, self._down = _FIRST_RETRY_S, True  # what waits at the start waited for a start as well
        self._failure: type[Exception] | None = None
        self._since = 0.0
        self._thread = threading.Thread(target=self._run, name=f"{channel.name} delivery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send_unsaved(self, message: OutboxMessage) -> None:
        """Send a message that the disk does not take, as soon as that can be done; from any thread."""
        self._unsaved.append(message)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def leave(self) -> None:
        """Start no other message. If the running one is cut off now, it is later marked as perhaps repeated."""
        self._ending.set()
        self._wake.set()

    def stop(self) -> None:
        """End, and wait a moment for the message in hand."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            try:
                wait = self.deliver()
            except StoreError as error:
                wait = self._fail("delivery", error)
            self._wake.wait(wait)

    def deliver(self) -> float | None:
        """Send what waits; returns after how many seconds to try again, None when everything was sent.

        After a failure nothing is tried, and nothing written to the disk, until the channel says that it is up. What
        was told, or was not, is written down as soon as the disk takes it: until then nobody tells that message.
        """
        name = self.channel.name
        while self._unsaved:
            try:
                self.channel.send(self._readdress(self._unsaved[0]))
            except (ChannelDown, StoreError) as error:
                return self._fail(name, error)
            except ChannelError as error:
                self._note(f"{name} refused a message that is only in memory; it is given up: {error}")
            self._unsaved.popleft()
        if not self._writes.flush():
            return self._next_retry()
        if self._failure and not self.channel.status().up:
            return _CHECK_INTERVAL_S
        with self._boxes.lock:
            every = self._boxes.outbox.waiting()
        waiting = [one for one in every if one.number not in self._refused and self._is_mine(one.session)]
        busy: dict[str, ChannelDown] = {}
        for messages in self._group(waiting):
            if (session := messages[0].session) in busy:
                continue
            try:
                self._send(messages)
            except ChatBusy as error:
                busy[session] = error
            except ChannelDown as error:
                return self._fail(name, error)
        if busy:
            return self._fail(name, next(iter(busy.values())))
        if self._failure:
            self._note(f"{name}: messages are delivered again, after {format_duration(time.monotonic() - self._since)}")
        self._retry_s, self._down, self._failure = _FIRST_RETRY_S, False, None
        return None if self._writes.flush() else self._next_retry()

    def _group(self, waiting: Sequence[OutboxMessage]) -> list[list[OutboxMessage]]:
        """Sort messages into what is sent at once. Raises StoreError."""
        together = self._down and self._merges
        if not self._is_exact:
            return group_for_delivery(waiting, together=together)
        alone = [[one] for one in waiting if one.begun or one.approval]
        groups = group_for_delivery([one for one in waiting if not one.begun and not one.approval], together=together)
        for at, messages in enumerate(groups):
            if len(messages) > 1:
                text = merge_messages(messages, time.time(), self._zone()).text
                with self._boxes.lock:
                    merged = self._boxes.outbox.merge(sorted(messages), text)
                groups[at] = [merged] if merged else []
        return sorted([*alone, *filter(None, groups)], key=lambda group: group[0].number)

    def _readdress(self, message: OutboxMessage) -> OutboxMessage:
        """Send a message for another channel's chat to the owner's chat here."""
        if not self._fallback or self._is_own(message.session) or not (chat := self.channel.owner_chat()):
            return message
        return message._replace(session=chat, text=f"For chat {message.session!r}: {message.text}")

    def _fail(self, what: str, error: ChannelDown | StoreError) -> float:
        """Return how long to wait; one line says what is wrong, and not one for every try."""
        self._down = True
        if not self._failure:
            self._since = time.monotonic()
        if self._failure is not type(error):
            self._failure = type(error)
            self._note(f"{what}: {error}")
        return self._next_retry()

    def _next_retry(self) -> float:
        wait, self._retry_s = self._retry_s, min(self._retry_s * 2, _MAX_RETRY_S)
        return wait

    def _send(self, messages: Sequence[OutboxMessage]) -> None:
        """Send messages as one; those that the channel refuses for good are struck out, and that is noted."""
        outbox = self._boxes.outbox
        begun: list[OutboxMessage] = []
        try:
            with self._boxes.lock:  # all of them or none; what another process sends is left out
                for message in messages:
                    begun += [message] if outbox.begin(message) else []
        except StoreError:
            self._put_back(begun)
            raise
        if not begun:
            return
        session = begun[0].session
        settle: Callable[[OutboxMessage], None] = outbox.strike
        is_sure = self._is_exact and time.time() - begun[0].at < _KNOWN_AGAIN_S
        worded = [
            one._replace(begun="") if is_sure or one.begun == MERGED or one.number in self._doubtful else one
            for one in begun
        ]
        try:
            self.channel.send(self._readdress(merge_messages(worded, time.time(), self._zone())))
        except (ChannelDown, StoreError) as error:
            if not self._ending.is_set():  # what is cut off then may have been told
                if isinstance(error, ChannelDown) and error.unsure:  # written down: this process may be killed
                    self._doubtful.update(one.number for one in begun if not one.begun)
                    begun = [one._replace(begun=one.begun or "perhaps") for one in begun]
                self._put_back(begun)
            raise
        except ChannelError as error:
            if self._fallback and (not self._is_own(session) or session == self.channel.owner_chat()):
                self._note(f"{self.channel.name} refused a message for {session!r}; it waits for a terminal: {error}")
                self._refused.update(message.number for message in begun)
                settle = partial(outbox.readdress, session=self._fallback)
            else:
                self._note(f"{self.channel.name} refused a message for {session!r}; it is given up: {error}")
        for message in begun:
            self._doubtful.discard(message.number)
            self._writes.write(partial(settle, message))

    def _is_own(self, session: str) -> bool:
        return session.partition(":")[0] == self.channel.name

    def _put_back(self, messages: Sequence[OutboxMessage]) -> None:
        for message in messages:
            self._writes.write(partial(self._boxes.outbox.put_back, message))


def group_for_delivery(waiting: Sequence[OutboxMessage], *, together: bool) -> list[list[OutboxMessage]]:
    """Sort messages into what is sent at once: each alone, or, with `together`, many of a chat as few."""
    chats: dict[str, list[OutboxMessage]] = {}
    for message in waiting:
        chats.setdefault(message.session, []).append(message)
    groups: list[list[OutboxMessage]] = []
    for messages in chats.values():
        if not together or len(messages) <= MAX_SEPARATE_MESSAGES:
            groups += ([message] for message in messages)
            continue
        room = 0
        for equal in _group_equal_texts(messages):
            size = len(equal[0].text) + _HEADER_CHARS
            if size > room:
                groups.append([])
                room = _MAX_MERGED_CHARS
            groups[-1] += equal
            room -= size
    return sorted(groups, key=lambda group: group[0].number)


def _group_equal_texts(messages: Sequence[OutboxMessage]) -> list[list[OutboxMessage]]:
    """Put equal texts together, where the first of them is; one that was perhaps told stays by itself."""
    found: dict[tuple[str, int], list[OutboxMessage]] = {}
    for message in messages:
        found.setdefault((message.text, message.number if message.begun else 0), []).append(message)
    return list(found.values())


def merge_messages(messages: Sequence[OutboxMessage], now: float, zone: tzinfo | None = None) -> OutboxMessage:
    """Format one message, or merge many into one, with times in the owner's `zone`."""
    last = max(messages, key=lambda message: message.number)
    if len(messages) == 1:
        return last._replace(text=format_message(last, last.session, now))
    lines = [f"{len(messages)} messages from while this chat could not be reached:"]
    for equal in _group_equal_texts(messages):
        again = " (perhaps a repeat)" if equal[0].begun else ""
        first, final = (
            f"{datetime.fromtimestamp(one.at, UTC).astimezone(zone):%Y-%m-%d %H:%M}" for one in (equal[0], equal[-1])
        )
        when = first if len(equal) == 1 else f"{len(equal)} times, {first} to {final}"
        lines.append(f"{when}: {equal[0].text}{again}")
    return last._replace(text="\n".join(lines))


def _word_duration(seconds: float, words: Mapping[str, str]) -> str:
    return re.sub(
        r"\b(\d+) d\b",
        lambda found: f"{found[1]} {words['day' if found[1] == '1' else 'days']}",
        format_duration(seconds),
    )


def format_message(message: OutboxMessage, session: str, wall: float) -> str:
    """Format a message for the chat `session`, with a note if it is late, perhaps repeated, or for another chat."""
    from picoclaw.automation.jobs import ENGLISH, GRACE_S, find_words

    whose = "" if message.session == session else f"For chat {message.session!r}: "
    late = wall - message.at
    words = find_words(message.text) if late > GRACE_S or message.begun else ENGLISH
    due = words["late"].replace("{time}", _word_duration(late, words)) if late > GRACE_S else ""
    again = words["repeat"] if message.begun else ""
    apart = "\n" if due + again and message.text.endswith(")") else ""  # the line of a file is one by itself
    return f"{whose}{message.text}{apart}{due}{again}"


# The outbox in an open terminal: at least once; a message that may come twice says so.

MessageSender = Callable[[OutboxMessage], None]
"""Shows a message; raises OSError when that cannot be done now."""


def deliver_messages(outbox: Outbox, tell: MessageSender, session: str = "") -> list[OutboxMessage]:
    """Show every message that is waiting; what cannot be shown stays.

    Told in the chat `session`, those for a chat that another process has open are left to it, and are returned.
    """
    waiting = outbox.waiting()
    elsewhere = outbox.elsewhere() - {session} if session and waiting else frozenset()
    for message in waiting:
        if message.session not in elsewhere and outbox.begin(message):
            try:
                tell(message)
            except OSError:
                outbox.put_back(message)
                break
            outbox.strike(message)
    return [message for message in waiting if message.session in elsewhere]


@contextmanager
def open_chat(
    outbox: Outbox, session: str, tell: MessageSender, ring: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """Mark a chat as open; gives the function that delivers its messages, and those of chats that nobody has open.

    `ring` wakes the others on this home: once for each message that is theirs, and when this chat is closed.
    """
    called: set[int] = set()

    def post() -> None:
        nonlocal called
        left = {message.number for message in deliver_messages(outbox, tell, session)}
        if left - called:
            ring()
        called = left

    with suppress(StoreError):  # then any chat may show its messages, as if it were closed
        outbox.attend(session)
    try:
        yield post
    finally:
        with suppress(StoreError):  # it is void with the process
            outbox.leave()
        ring()
