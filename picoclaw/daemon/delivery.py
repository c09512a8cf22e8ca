"""Delivery: takes messages from the outbox to their channels, and writes down later what a full disk refused."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import NamedTuple

from picoclaw.automation.jobs import format_message
from picoclaw.channels.channel import Channel
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy, StoreDamaged, StoreError
from picoclaw.store.inbox import Inbox
from picoclaw.store.outbox import Outbox, OutboxMessage
from picoclaw.times import format_duration

_MAX_PENDING_WRITES, _MAX_KNOWN_IDS = 500, 200
WriteAction = Callable[[], object]


class WriteBehindQueue:
    """The bookkeeping that one process owes to the disk; an answer is worth more than that."""

    def __init__(self, lock: threading.RLock, note: Callable[[str], None]) -> None:
        """`lock` is that of the database, `note` is told in a line what is wrong, once for each trouble."""
        self._lock, self._note = lock, note
        self._acts: deque[WriteAction] = deque(maxlen=_MAX_PENDING_WRITES)
        self._known: deque[tuple[str, str]] = deque(maxlen=_MAX_KNOWN_IDS)
        self._complaint = ""

    def write(self, act: WriteAction) -> bool:
        """Write something down, after all that is owed; tells whether the disk took it, else it is owed as well."""
        with self._lock:
            self._acts.append(act)
            return self.settle()

    def settle(self) -> bool:
        """Write down what is owed; tells whether nothing is any more."""
        with self._lock:
            taken = False
            try:
                while self._acts:
                    self._acts[0]()
                    self._acts.popleft()
                    taken = True
            except StoreError as error:
                self._complain(error, f"{error}; it goes on from memory until the disk takes it")
                return False
            if self._complaint and taken:
                self._complaint = ""
                self._note("the disk takes everything again, and what was missing is written down")
            return True

    @property
    def trouble(self) -> str:
        """Why the disk takes nothing, '' as far as it is known to."""
        return self._complaint

    def _complain(self, error: StoreError, text: str) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._note(text)

    def swap(self, act: WriteAction | None, other: WriteAction | None) -> bool:
        """Owe something else instead, or nothing any more; tells whether it was still owed."""
        with self._lock:
            owed = any(one is act for one in self._acts)
            kept = ((other if one is act else one) for one in self._acts)
            self._acts = deque((one for one in kept if one), _MAX_PENDING_WRITES)
            return owed

    def begin(self, key: str, external: str, error: StoreError) -> bool:
        """Remember what is answered without being kept; tells whether it is new. '' is never the same.

        Damage, which is mended by beginning afresh, is raised where the other side sends it again.
        """
        with self._lock:
            self._complain(error, f"a message could not be kept, and is answered all the same: {error}")
            if external and isinstance(error, StoreDamaged):
                raise error
            if self.knows(key, external):
                return False
            self._known.append((key, external))
            return True

    def knows(self, key: str, external: str) -> bool:
        """Tell whether this number of a chat was answered without being kept."""
        return bool(external) and (key, external) in self._known


# Takes the letters of the outbox to their channel: a thread for each, because a network may hang.
#
# What a channel cannot send now stays, and is tried again. What has gathered meanwhile comes together, as few messages as
# hold it: nothing is left out or shortened, and what was to be told many times is told once, with when and how often.

MAX_SEPARATE_MESSAGES = 3
_MAX_MERGED_CHARS, _HEADER_CHARS = 3500, 60
_MAX_UNSAVED = 100
_FIRST_RETRY_S, _MAX_RETRY_S, _CHECK_INTERVAL_S = 5.0, 60.0, 15.0


class MessageBoxes(NamedTuple):
    """What comes in and what goes out, over one connection; whoever uses either holds the `lock`."""

    inbox: Inbox
    outbox: Outbox
    lock: threading.RLock


class DeliveryWorker:
    """Delivers the letters of one channel."""

    def __init__(
        self,
        channel: Channel,
        boxes: MessageBoxes,
        mine: Callable[[str], bool],
        note: Callable[[str], None],
        fallback: str = "",
        zone: Callable[[], tzinfo | None] = lambda: None,
    ) -> None:
        """`mine` tells which sessions' letters go here; `note` is told what could not be delivered, and why.

        With a `fallback`, the name of a terminal's chat, letters of other channels' chats go to the owner's chat here,
        and what the owner was to be told and this channel refuses for good waits for that terminal, not given up.
        `zone` is the owner's time zone, None for the board's.
        """
        self._zone = zone
        self._fallback = fallback
        self._refused: set[int] = set()
        self._memory: deque[OutboxMessage] = deque(maxlen=_MAX_UNSAVED)
        self._channel, self._boxes, self._mine, self._note = channel, boxes, mine, note
        self._owed = WriteBehindQueue(
            boxes.lock, lambda _: None
        )  # what is wrong with the disk is said where a letter is begun
        self._wake, self._ending = threading.Event(), threading.Event()
        self._retry_s, self._down = _FIRST_RETRY_S, True  # what waits at the start waited for a start as well
        self._said: type[Exception] | None = None
        self._since = 0.0
        self._thread = threading.Thread(target=self._run, name=f"{channel.name} letters", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def add_unkept(self, letter: OutboxMessage) -> None:
        """Send a letter that the disk does not take, as soon as that can be done; from any thread."""
        self._memory.append(letter)
        self.wake()

    def wake(self) -> None:
        """Have it look; from any thread."""
        self._wake.set()

    def leave(self) -> None:
        """Begin no other letter; the one in hand, if it is cut off now, says later that it may have been told."""
        self._ending.set()
        self._wake.set()

    def stop(self) -> None:
        """End, and wait a moment for the letter in hand."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            try:
                wait = self.deliver()
            except StoreError as error:
                wait = self._later("letters", error)
            self._wake.wait(wait)

    def deliver(self) -> float | None:
        """Send what waits; returns after how many seconds to try again, None when everything was sent.

        After a failure nothing is tried, and nothing written to the disk, until the channel says that it is up. What
        was told, or was not, is written down as soon as the disk takes it: until then nobody tells that letter.
        """
        if self._memory and (wait := self._send_unkept()):
            return wait
        if not self._owed.settle():
            return self._patience()
        if self._said and not self._channel.status().up:
            return _CHECK_INTERVAL_S
        with self._boxes.lock:
            every = self._boxes.outbox.waiting()
        waiting = [one for one in every if one.number not in self._refused and self._mine(one.session)]
        busy: dict[str, ChannelDown] = {}
        for letters in group_for_delivery(waiting, together=self._down):
            if (session := letters[0].session) in busy:
                continue
            try:
                self._send(letters)
            except ChatBusy as error:
                busy[session] = error
            except ChannelDown as error:
                return self._later(self._channel.name, error)
        if busy:
            return self._later(self._channel.name, next(iter(busy.values())))
        return self._done()

    def _send_unkept(self) -> float | None:
        """Send what is only in memory; returns after how many seconds to try again, None when nothing is left."""
        while self._memory:
            try:
                self._channel.send(self._readdressed(self._memory[0]))
            except (ChannelDown, StoreError) as error:
                return self._later(self._channel.name, error)
            except ChannelError as error:
                self._note(f"{self._channel.name} refused what is only in memory, which is given up: {error}")
            self._memory.popleft()
        return None

    def _readdressed(self, letter: OutboxMessage) -> OutboxMessage:
        """Give a letter the owner's chat of this channel where its own chat is of another."""
        if not self._fallback or self._is_own(letter.session) or not (chat := self._channel.owner_chat()):
            return letter
        return letter._replace(session=chat, text=f"For chat {letter.session!r}: {letter.text}")

    def _done(self) -> float | None:
        """Say that letters go out again, if they did not; what the disk does not know yet is to be tried again."""
        if self._said:
            self._note(
                f"{self._channel.name}: letters go out again, after {format_duration(time.monotonic() - self._since)}"
            )
        self._retry_s, self._down, self._said = _FIRST_RETRY_S, False, None
        return None if self._owed.settle() else self._patience()

    def _later(self, what: str, error: ChannelDown | StoreError) -> float:
        """Return how long to wait; one line says what is wrong, and not one for every try."""
        self._down = True
        if not self._said:
            self._since = time.monotonic()
        if self._said is not type(error):
            self._said = type(error)
            self._note(f"{what}: {error}")
        return self._patience()

    def _patience(self) -> float:
        wait, self._retry_s = self._retry_s, min(self._retry_s * 2, _MAX_RETRY_S)
        return wait

    def _send(self, letters: Sequence[OutboxMessage]) -> None:
        """Send letters as one; those that the channel refuses for good are struck out, and that is noted."""
        if not (begun := self._begun(letters)):
            return
        try:
            self._channel.send(self._readdressed(merge_messages(begun, time.time(), self._zone())))
        except (ChannelDown, StoreError):
            if not self._ending.is_set():  # what is cut off then may have been told
                self._put_back(begun)
            raise
        except ChannelError as error:
            if self._left_to_terminal(begun, error):
                return
            self._note(f"{self._channel.name} refused a letter for {begun[0].session!r}, which is given up: {error}")
        for letter in begun:
            self._owed.write(partial(self._boxes.outbox.strike, letter))

    def _left_to_terminal(self, letters: Sequence[OutboxMessage], error: ChannelError) -> bool:
        """Leave what the owner was to be told here, and is not, to the next terminal; tells whether it is theirs."""
        session = letters[0].session
        if not self._fallback or (self._is_own(session) and session != self._channel.owner_chat()):
            return False
        self._note(f"{self._channel.name} refused a letter for {session!r}, which waits for a terminal: {error}")
        self._refused.update(letter.number for letter in letters)
        for letter in letters:
            self._owed.write(partial(self._boxes.outbox.readdress, letter, self._fallback))
        return True

    def _is_own(self, session: str) -> bool:
        return session.partition(":")[0] == self._channel.name

    def _begun(self, letters: Sequence[OutboxMessage]) -> list[OutboxMessage]:
        """Write down that they are about to be sent, all of them or none; leaves out what another process sends."""
        begun: list[OutboxMessage] = []
        try:
            with self._boxes.lock:
                for letter in letters:
                    begun += [letter] if self._boxes.outbox.begin(letter) else []
        except StoreError:
            self._put_back(begun)
            raise
        return begun

    def _put_back(self, letters: Sequence[OutboxMessage]) -> None:
        for letter in letters:
            self._owed.write(partial(self._boxes.outbox.put_back, letter))


def group_for_delivery(waiting: Sequence[OutboxMessage], *, together: bool) -> list[list[OutboxMessage]]:
    """Sort letters into what is sent at once: each alone, or, with `together`, many of a chat as few."""
    chats: dict[str, list[OutboxMessage]] = {}
    for letter in waiting:
        chats.setdefault(letter.session, []).append(letter)
    out: list[list[OutboxMessage]] = []
    for letters in chats.values():
        out += (
            _fill_groups(letters)
            if together and len(letters) > MAX_SEPARATE_MESSAGES
            else [[letter] for letter in letters]
        )
    return sorted(out, key=lambda parcel: parcel[0].number)


def _fill_groups(letters: Sequence[OutboxMessage]) -> list[list[OutboxMessage]]:
    """Fill as few parcels as take all, each with what one message holds; equal texts go into one."""
    out: list[list[OutboxMessage]] = []
    room = 0
    for alike in _group_equal_texts(letters):
        size = len(alike[0].text) + _HEADER_CHARS
        if size > room:
            out.append([])
            room = _MAX_MERGED_CHARS
        out[-1] += alike
        room -= size
    return out


def _group_equal_texts(letters: Sequence[OutboxMessage]) -> list[list[OutboxMessage]]:
    """Put equal texts together, where the first of them is; one that was perhaps told stays by itself."""
    found: dict[tuple[str, int], list[OutboxMessage]] = {}
    for letter in letters:
        found.setdefault((letter.text, letter.number if letter.begun else 0), []).append(letter)
    return list(found.values())


def merge_messages(letters: Sequence[OutboxMessage], now: float, zone: tzinfo | None = None) -> OutboxMessage:
    """Word one letter, or make one of many, with times in the owner's `zone`."""
    last = max(letters, key=lambda letter: letter.number)
    if len(letters) == 1:
        return last._replace(text=format_message(last, last.session, now))
    lines = [f"{len(letters)} messages from while this chat could not be reached:"]
    for alike in _group_equal_texts(letters):
        again = " (perhaps told before)" if alike[0].begun else ""
        first, final = (
            f"{datetime.fromtimestamp(one.at, UTC).astimezone(zone):%d %b %H:%M}" for one in (alike[0], alike[-1])
        )
        when = first if len(alike) == 1 else f"{len(alike)} times, {first} to {final}"
        lines.append(f"{when}: {alike[0].text}{again}")
    return last._replace(text="\n".join(lines))
