"""What a dead daemon has left in the inbox: answered again where that repeats nothing, and the rest told as it is."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from picoclaw.channels.channel import Channel, PostMessage
from picoclaw.daemon.delivery import MessageBoxes, WriteAction, WriteBehindQueue
from picoclaw.daemon.watchdog import ThreadDeadlines
from picoclaw.errors import ChannelError, StoreError
from picoclaw.messages import Inbound, Message, Notice, Stop, Turn, TurnHooks, Usage, is_owner
from picoclaw.store.inbox import RETRIED, Inbox, InboxMessage, InterruptedMessage
from picoclaw.store.outbox import OutboxMessage

_INTERRUPTED_TEXT = "picoclaw was cut off while it answered this: {text!r}. {why}; say it again if it is still wanted."
_MAYBE_SENT_NOTE = "\n(perhaps told before: picoclaw ended while it told this)"
_MAX_QUOTED_CHARS = 200


def settle_interrupted(inbox: Inbox, told_live: Callable[[str], bool]) -> None:
    """Decide on all that was begun; `told_live(key)`: an answer of that chat may have been seen. Raises StoreError."""
    for found in inbox.left_behind():
        if found.reply is not None:
            perhaps = _MAYBE_SENT_NOTE if told_live(found.arrived.key) else ""
            inbox.done(found.arrived, "" if found.within > 0 else f"{found.reply}{perhaps}")
        elif why := _explain_no_retry(found):
            text = found.arrived.text[:_MAX_QUOTED_CHARS]
            inbox.done(found.arrived, _INTERRUPTED_TEXT.format(text=text, why=why))
        elif found.within:
            inbox.put_back([found.arrived.number])
        else:
            inbox.try_again(found.arrived.number)


def _explain_no_retry(found: InterruptedMessage) -> str:
    """Say why it must not be answered a second time, '' when it may."""
    if found.within > 0:
        return ""
    if found.within == RETRIED:
        return "That has happened twice, so that it is not tried again by itself"
    if found.arrived.text.lstrip().startswith("/"):
        return "It may have been done or not"
    return "Something that it was doing may have been done or not" if found.acts else ""


# The queue in front of the desk: what the channels post is answered one by one, and what cannot wait is heard at once.
#
# While a turn runs, the order to stop the outputs and `/stop` are heeded in the thread that posts them; what else the
# same chat says is given to the turn between two of its steps.

_START_TIMEOUT_S, _SETTLE_TIMEOUT_S = 30.0, 60.0
STOPPED = "stopped"
PERSONAL_ORIGINS = frozenset({"owner", "web", "guest"})
"""Those who type a message themselves: each of them may stop the outputs at once."""


class QueueHandlers(NamedTuple):
    """What the loop has things done with.

    `answer` is the desk, `halt` stops the outputs if that is what a text says, `text` words what has arrived for the
    model, `mark` is said with an answer. `quiet(session)` keeps all else that needs the model out of a turn's way,
    `turn()` gives the word to end it, `end()` says that, `shield` holds off interruptions. A turn takes at most
    `seconds`. `letters()` has the outbox looked at. `heard` is told what a turn takes in that arrived meanwhile.
    """

    answer: Callable[[Inbound, TurnHooks], Turn]
    halt: Callable[[str, str], tuple[bool, str] | None]
    text: Callable[[InboxMessage], str]
    mark: Callable[[Turn], str]
    quiet: Callable[[str], AbstractContextManager[None]]
    turn: Callable[[], AbstractContextManager[Stop]]
    end: Callable[[], None]
    shield: Callable[[], AbstractContextManager[None]]
    seconds: float
    letters: Callable[[], None]
    heard: Callable[[InboxMessage], None]


class MessageQueue:
    """Answers what arrives, in the thread that runs it."""

    def __init__(
        self, boxes: MessageBoxes, hands: QueueHandlers, progress: ThreadDeadlines, note: Callable[[str], None]
    ) -> None:
        """`note` is told in a line what went wrong."""
        self._boxes, self._hands, self._progress, self._note = boxes, hands, progress, note
        self.owed = WriteBehindQueue(boxes.lock, note)
        self.channels: Mapping[str, Channel] = {}
        self._queue: deque[InboxMessage] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self.leaving = self._resting = False
        self._now: InboxMessage | None = None
        self._heard: list[InboxMessage] = []
        self.last: Turn | None = None

    @property
    def waiting(self) -> int:
        """How many wait to be answered."""
        return len(self._queue)

    def waiting_for(self, who: str) -> int:
        """How much that somebody has said waits to be answered."""
        with self._lock:
            return sum(one.who == who for one in self._queue)

    @property
    def running(self) -> str:
        """Whose turn it is, '' when nobody is answered."""
        now = self._now
        return now.key if now else ""

    def channel_of(self, key: str) -> Channel:
        """The channel of a session: the one that it is named after, else the local socket."""
        return self.channels.get(key.partition(":")[0]) or self.channels["socket"]

    def _is_local(self, key: str) -> bool:
        """Tell whether a chat is one of terminals, each of which is told its own answers and no others'."""
        return self.channel_of(key) is self.channels["socket"]

    def post(self, arrived: InboxMessage) -> None:
        """See Post."""
        text = arrived.text.strip()
        if arrived.origin in PERSONAL_ORIGINS and (said := self._hands.halt(text, _describe_sender(arrived))):
            self._end(arrived.key)
            self._answered(arrived, _make_reply_turn(arrived.text, *said))
            return
        if text.lower() == "/stop" and self._end(arrived.key):
            return
        if kept := self._kept(arrived):
            with self._lock:
                self._queue.append(kept)
                if self._now is None:
                    self._progress.expect("desk", _START_TIMEOUT_S)
            self._wake.set()

    def leave(self) -> None:
        """End the turn in hand and then the loop; from any thread."""
        self.leaving = True
        self._hands.end()
        self._wake.set()

    def rest(self) -> None:
        """End the loop as soon as nobody waits for an answer; from any thread."""
        self._resting = True
        self._wake.set()

    def run(self) -> None:
        """Answer until it is time to leave; what waits then is answered after the next start."""
        self._gone_on_with()
        while arrived := self._next():
            self._do(arrived)
        self.owed.settle()

    def _end(self, key: str) -> bool:
        """End the turn of a chat; tells whether there is one."""
        if self.running == key:
            self._hands.end()
            return True
        return False

    def _kept(self, arrived: InboxMessage) -> InboxMessage | None:
        """Put it into the inbox; where the disk takes nothing, it is answered from memory, once."""
        if self.owed.knows(arrived.key, arrived.external):
            return None
        try:
            with self._boxes.lock:
                return self._boxes.inbox.put(arrived)
        except StoreError as error:
            return arrived if self.owed.begin(arrived.key, arrived.external, error) else None

    def _gone_on_with(self) -> None:
        """Settle what a dead process has left, and take up what waits."""
        try:
            with self._boxes.lock:
                settle_interrupted(self._boxes.inbox, self._is_local)
                known = {arrived.number for arrived in self._queue}
                self._queue.extendleft(
                    arrived for arrived in reversed(self._boxes.inbox.waiting()) if arrived.number not in known
                )
        except StoreError as error:
            self._note(f"what came in before cannot be read: {error}")
        self._hands.letters()

    def _next(self) -> InboxMessage | None:
        while True:
            self._wake.clear()
            if self.leaving:
                return None
            with self._lock:
                if self._queue:
                    self._now = self._queue.popleft()
                    self._progress.expect("desk", self._hands.seconds + _SETTLE_TIMEOUT_S)
                    return self._now
                self._progress.expect("desk", None)
            if self._resting:
                return None
            self._wake.wait()

    def _do(self, arrived: InboxMessage) -> None:
        """Answer one, and say so."""
        self._begin([arrived])
        self._heard = []
        try:
            turn = self._turn(arrived)
        finally:
            self._now = None
        self._progress.expect("desk", _SETTLE_TIMEOUT_S)
        self._hand_back(turn.unheard)
        self.last = turn
        if self.leaving and arrived.external and turn.stopped == STOPPED and not turn.tools:
            # nobody has stopped it but we, and nothing was done: it waits for the next start
            self.owed.write(partial(self._boxes.inbox.put_back, [arrived.number]))
            return
        self._answered(arrived, turn)

    def _turn(self, arrived: InboxMessage) -> Turn:
        hands, turn = self._hands, None
        key, text, number, files = arrived.key, hands.text(arrived), arrived.number, arrived.attachments
        inbound = Inbound(key, text, arrived.origin, "", number, arrived.who, arrived.foreign, attachments=files)
        try:
            seen = self.channel_of(arrived.key).around(arrived)
            with hands.quiet(arrived.key), hands.turn() as stop:
                if self.leaving:
                    stop.say()
                around = replace(seen, say=lambda text: self._say(arrived, seen, text), typed=self._typed, stop=stop)
                turn = hands.answer(inbound, replace(around, shield=hands.shield))
        except KeyboardInterrupt:
            if turn is None:
                return _make_reply_turn(arrived.text, False, "interrupted before it had begun")._replace(
                    stopped=STOPPED
                )
        return turn

    def _say(self, arrived: InboxMessage, seen: TurnHooks, text: str) -> None:
        """Say something ahead of the answer; what cannot be said now is kept."""
        try:
            seen.say(text)
        except ChannelError:
            self._letter(arrived.key, text)

    def _typed(self) -> Sequence[str]:
        """What the chat has said meanwhile, up to a command, which is none of the turn's.

        Another person, or another terminal, waits for an answer of its own, and so does what is not their word.
        """
        with self._lock:
            now, taken = self._now, []
            mine = [one for one in self._queue if now and one.key == now.key]
            if now and self._is_local(now.key):
                mine = [one for one in mine if one.who == now.who]
            for one in mine:
                if not now or not _can_join_turn(one, now):
                    break
                taken.append(one)
                self._queue.remove(one)
        if taken and now:
            self._heard += taken
            self._begin(taken, now.number)
            for one in taken:
                self._hands.heard(one)
        return [one.text for one in taken]

    def _hand_back(self, unheard: Sequence[str]) -> None:
        """Have answered next what no model has heard."""
        if not (back := self._heard[len(self._heard) - len(unheard) :] if unheard else []):
            return
        with self._lock:
            self._queue.extendleft(reversed(back))
        self.owed.write(partial(self._boxes.inbox.put_back, [one.number for one in back]))

    def _begin(self, arrived: Sequence[InboxMessage], within: int = 0) -> None:
        if numbers := [one.number for one in arrived if one.number]:
            self.owed.write(partial(self._boxes.inbox.begin, numbers, within))

    def _answered(self, arrived: InboxMessage, turn: Turn) -> None:
        """Tell an answer live or have it told as a letter, which goes out in the moment that settles it."""
        reply = format_turn(turn, self._hands.mark(turn))
        live = False
        try:
            live = self.channel_of(arrived.key).answered(arrived, turn, reply)
        except ChannelError as error:
            self._note(f"{arrived.key} could not be told its answer, which waits: {error}")
        if arrived.number:
            text, done = "" if live else reply, partial(self._boxes.inbox.done, arrived)
            self._told(arrived.key, text, partial(done, text), done)
        elif not live:
            self._letter(arrived.key, reply)
        if not live:
            self._hands.letters()

    def _letter(self, key: str, text: str) -> None:
        if text:
            self._told(key, text, partial(self._boxes.outbox.put, key, text, time.time()))
        self._hands.letters()

    def _told(self, key: str, text: str, keep: WriteAction, told: WriteAction | None = None) -> None:
        """Have a text told as the letter that `keep` makes; at once where the disk takes none, and `told` is kept."""
        if not self.owed.write(keep) and text:
            self.owed.swap(keep, told)  # first: else the disk may take it meanwhile, and it would be told twice
            try:
                self.channel_of(key).send(OutboxMessage(0, key, text, time.time()))
            except ChannelError:
                if not self.owed.swap(told, keep):
                    self.owed.write(partial(self._boxes.outbox.put, key, text, time.time()))


def format_turn(turn: Turn, mark: str) -> str:
    """Word a turn for a channel that shows nothing but texts: the answer, its mark, and what should be known of it."""
    if turn.stopped == "error":
        return turn.notice.text or turn.reply
    told = turn.unsaid_notice
    return "\n".join(filter(None, [turn.reply, mark, f"({told})" if told else ""]))


def _can_join_turn(one: InboxMessage, now: InboxMessage) -> bool:
    """Tell whether a turn may take in what somebody has said meanwhile: nobody else's word, and no command."""
    same = (one.who, one.origin) == (now.who, now.origin)
    return same and not one.attachments and not one.foreign and not one.text.lstrip().startswith("/")


def _describe_sender(arrived: InboxMessage) -> str:
    who = "owner" if is_owner(arrived.origin) else arrived.who
    return f"{who} in {arrived.key}"


def _make_reply_turn(asked: str, good: bool, text: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", asked), Message("assistant", text))
    return Turn(text, messages, 0, (), Usage(), "", "stop", Notice("" if good else text, failed=not good))


# Begins a channel later that cannot be begun now: an address may come minutes after the board, a port become free.

_FIRST_RETRY_S, _MAX_RETRY_S, _JOIN_TIMEOUT_S = 5.0, 60.0, 2.0


def retry_channel_start(
    channel: Channel, post: PostMessage, note: Callable[[str], None], seconds: float = _FIRST_RETRY_S
) -> Callable[[], None]:
    """Try after `seconds`, then less and less often, down to once a minute; returns what gives that up."""
    ending = threading.Event()

    def tried() -> None:
        wait = seconds
        while not ending.wait(wait):
            try:
                channel.start(post)
            except ChannelError:
                wait = min(2 * wait, _MAX_RETRY_S)
            else:
                note(f"{channel.name}: up now")
                return

    thread = threading.Thread(target=tried, name=f"{channel.name} later", daemon=True)
    thread.start()

    def given_up() -> None:
        ending.set()
        thread.join(_JOIN_TIMEOUT_S)

    return given_up
