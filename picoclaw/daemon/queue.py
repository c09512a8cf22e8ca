"""The queue of messages: every channel posts here, and messages are answered one by one; what a dead daemon has left comes first.

What is kept of it in `state.db`, and what drops a message that arrives twice, is store/inbox_outbox.py.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

from picoclaw.app import SIMULATED_MARK, App, is_simulated
from picoclaw.daemon.process import TurnStopper
from picoclaw.errors import ChannelError, StoreError
from picoclaw.messages import (
    HOOK_SESSIONS,
    INTERNAL_SESSIONS,
    REQUEST_SESSIONS,
    Inbound,
    Message,
    Notice,
    Turn,
    TurnHooks,
    Usage,
    is_owner,
)
from picoclaw.prompts import escape_closing, fill_template
from picoclaw.providers import describe_provider
from picoclaw.records import replace
from picoclaw.store.conversations import has_open_tasks

if TYPE_CHECKING:
    from picoclaw.channels.channel import Channel, PostMessage
    from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes, WriteAction
    from picoclaw.daemon.process import ThreadDeadlines
    from picoclaw.store.inbox_outbox import Inbox, InboxMessage, InterruptedMessage

_INTERRUPTED_TEXT = "picoclaw was cut off while it answered this: {text!r}. {why}; say it again if it is still wanted."
_MAYBE_SENT_NOTE = "\n(perhaps a repeat: picoclaw stopped while it delivered this)"
_MAX_QUOTED_CHARS = 200
_START_TIMEOUT_S, _SETTLE_TIMEOUT_S = 30.0, 60.0
_MAX_ANSWERED_PEOPLE = 50
"""How many of the last answers count for who comes next."""
_PERSONAL_ORIGINS = frozenset({"owner", "web", "member", "guest", "remote"})
"""Those who type a message themselves: each of them may stop the outputs at once."""


def _settle_interrupted(inbox: Inbox, is_told_live: Callable[[str], bool]) -> None:
    """Settle the messages that a dead process left; in chats that `is_told_live` an answer may have been seen. Raises StoreError."""
    for found in inbox.left_behind():
        if found.arrived.key.startswith(REQUEST_SESSIONS):  # whoever waited has lost the connection
            inbox.done(found.arrived)
        elif found.reply is not None:
            note = _MAYBE_SENT_NOTE if is_told_live(found.arrived.key) else ""
            inbox.done(found.arrived, "" if found.within > 0 else f"{found.reply}{note}")
        elif why := _explain_no_retry(found):
            text = found.arrived.text[:_MAX_QUOTED_CHARS]
            inbox.done(found.arrived, _INTERRUPTED_TEXT.format(text=text, why=why))
        elif found.within:
            inbox.put_back([found.arrived.number])
        else:
            inbox.try_again(found.arrived.number)


def _explain_no_retry(found: InterruptedMessage) -> str:
    """Explain why a message is not answered again, '' if it is."""
    from picoclaw.store.inbox_outbox import RETRIED

    if found.within > 0:
        return ""
    if found.within == RETRIED:
        return "That has happened twice, so it is not tried again"
    if found.arrived.text.lstrip().startswith("/"):
        return "It is not known whether it was done"
    return "It is not known whether an action under way was done" if found.acts else ""


class MessageQueue:
    """Answers what arrives, in the thread that runs it.

    While a turn runs, `/stop` and the order to stop the outputs are heeded in the thread that posts them; what else the
    same chat says is given to the turn between two of its steps.
    """

    def __init__(
        self,
        app: App,
        boxes: MessageBoxes | None,
        stopper: TurnStopper,
        progress: ThreadDeadlines,
        note: Callable[[str], None],
    ) -> None:
        """Without `boxes` nothing that arrives is kept. `note` is told in a line what went wrong."""
        from picoclaw.daemon.delivery import WriteBehindQueue

        self.app, self.stopper, self.progress, self.note = app, stopper, progress, note
        self._boxes = boxes
        self.writes = WriteBehindQueue(boxes.lock if boxes else threading.RLock(), note)
        self.channels: Mapping[str, Channel] = {}
        self.delivery: list[DeliveryWorker] = []
        self.pauses: list[Callable[[str], AbstractContextManager[None]]] = []
        """Each is entered with the session of a turn, to keep all else that needs the model out of its way."""
        self._queue: deque[InboxMessage] = deque()
        self._answered: deque[str] = deque(maxlen=_MAX_ANSWERED_PEOPLE)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self.is_leaving = self.is_draining = False
        self._now: InboxMessage | None = None
        self._heard: list[InboxMessage] = []

    def format_greeting(self, model: str) -> str:
        """Say who answers, on which board; in the first chat also what can be done here, in a line each."""
        from picoclaw.hw import kernel

        return "\n".join([f"{describe_provider(model)} on {kernel.read_model(self.app.board)}", *self._list_offers()])

    def _list_offers(self) -> Iterator[str]:
        from picoclaw.outputs.config import load_outputs
        from picoclaw.workspace import find_outputs_file

        internal = (*INTERNAL_SESSIONS, HOOK_SESSIONS)
        if any(not info.key.startswith(internal) for info in self.app.stores.sessions.listed()):
            return
        wiring, simulated = self.app.wiring, " (simulated)" if self.app.board.simulated else ""
        if wired := ", ".join(wiring.wired):
            yield f"Sensors{simulated}: {wired}. Ask: how warm is it?"
        else:
            yield "No sensor is set up yet: `picoclaw init` finds those that are connected."
        if wiring.outputs and (names := list(load_outputs(find_outputs_file(self.app.config.home)).outputs)):
            yield f"Outputs{simulated}: {', '.join(names)}. Say: switch the {names[0]} on for 10 seconds"
        yield "Notes and reminders. Say: remind me in 10 minutes to water the plants"
        if not self.app.config.model.base_url:
            yield "Plain sentences are understood without a model; `picoclaw init` sets one up, and the page for phones."

    @property
    def simulated(self) -> bool:
        return self.app.board.simulated

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def count_waiting(self, who: str) -> int:
        """How much that somebody has said waits to be answered."""
        with self._lock:
            return sum(one.who == who for one in self._queue)

    @property
    def running(self) -> str:
        """Whose turn it is, '' when nobody is answered."""
        return now.key if (now := self._now) else ""

    def channel_of(self, key: str) -> Channel:
        """The channel of a session: the one that it is named after, else the terminals'."""
        return self.channels.get(key.partition(":")[0]) or self.channels["socket"]

    def is_local(self, key: str, /) -> bool:
        """Whether a chat belongs to terminals, each of which gets only its own answers."""
        return self.channel_of(key) is self.channels["socket"]

    def mark(self, turn: Turn) -> str:
        """What is said with an answer that comes from a simulated board."""
        return SIMULATED_MARK if is_simulated(self.app, turn) else ""

    def has_tasks(self, session: str) -> bool:
        """Tell whether sub-agents of a chat have still to work or to report; no when the disk fails."""
        try:
            return has_open_tasks(self.app.stores.database, session)
        except StoreError:
            return False

    def wake_delivery(self) -> None:
        """Wake all delivery threads; from any thread."""
        for worker in self.delivery:
            worker.wake()

    def log_turn(self, session: str, turn: Turn) -> None:
        """Log how a turn has failed."""

    def make_hooks(self, arrived: InboxMessage) -> TurnHooks:
        return self.channel_of(arrived.key).around(arrived)

    def show_heard(self, arrived: InboxMessage) -> None:
        """Tell a terminal that the turn takes in what was typed meanwhile."""

    def show_end(self, arrived: InboxMessage, turn: Turn, reply: str, /) -> bool:
        """Tell the end of a turn live, if that can be done. Raises ChannelError."""
        return self.channel_of(arrived.key).answered(arrived, turn, reply)

    def post(self, arrived: InboxMessage) -> None:
        by = f"{'owner' if is_owner(arrived.origin) else arrived.who} in {arrived.key}"
        if arrived.origin in _PERSONAL_ORIGINS and (said := self.app.wiring.obey_stop_order(arrived.text.strip(), by)):
            self._end_turn(arrived.key)
            self._tell_end(arrived, _make_reply_turn(arrived.text, *said))
        elif arrived.text.strip().lower() == "/stop" and self._end_turn(arrived.key):
            pass
        elif kept := self._keep(arrived):
            with self._lock:
                self._queue.append(kept)
                if self._now is None:
                    self.progress.expect("agent", _START_TIMEOUT_S)
            self._wake.set()

    def withdraw(self, key: str, external: str) -> None:
        """Take back a message whose answer nobody waits for any more; a turn that answers it is stopped."""
        with self._lock:
            waiting = next((one for one in self._queue if (one.key, one.external) == (key, external)), None)
            if waiting:
                self._queue.remove(waiting)
            is_running = self._now is not None and (self._now.key, self._now.external) == (key, external)
        if waiting and self._boxes:
            self.writes.write(partial(self._boxes.inbox.done, waiting))
        elif is_running:
            self.stopper.end_turn()

    def leave(self) -> None:
        """Stop the running turn, then the loop; from any thread."""
        self.is_leaving = True
        self.stopper.end_turn()
        self._wake.set()

    def drain(self) -> None:
        """Stop the loop as soon as the queue is empty; from any thread."""
        self.is_draining = True
        self._wake.set()

    def run(self) -> None:
        """Answer until it is time to leave; what waits then is answered after the next start."""
        self._take_up()
        self.answer_waiting()
        self.writes.flush()

    def answer_waiting(self) -> None:
        """Answer until it is time to leave, or, draining, until nobody waits."""
        while arrived := self._next():
            self._respond(arrived)

    def _end_turn(self, key: str) -> bool:
        """End the turn of a chat; tells whether there is one."""
        if self.running != key:
            return False
        self.stopper.end_turn()
        return True

    def _keep(self, arrived: InboxMessage) -> InboxMessage | None:
        """Store a message in the inbox; if the disk refuses, it is answered once from memory."""
        if self._boxes is None:
            return arrived
        if self.writes.has_answered(arrived.key, arrived.external):
            return None
        try:
            with self._boxes.lock:
                return self._boxes.inbox.put(arrived)
        except StoreError as error:
            return arrived if self.writes.accept_unsaved(arrived.key, arrived.external, error) else None

    def _take_up(self) -> None:
        """Settle what a dead process has left, and queue what waits."""
        if self._boxes:
            try:
                with self._boxes.lock:
                    _settle_interrupted(self._boxes.inbox, self.is_local)
                    known = {arrived.number for arrived in self._queue}
                    waiting = [one for one in self._boxes.inbox.waiting() if one.number not in known]
                    for one in waiting:
                        if one.key.startswith(REQUEST_SESSIONS):
                            self._boxes.inbox.done(one)
                    waiting = [one for one in waiting if not one.key.startswith(REQUEST_SESSIONS)]
                    self._queue.extendleft(reversed(waiting))
            except StoreError as error:
                self.note(f"earlier messages cannot be read: {error}")
        self.wake_delivery()

    def _next(self) -> InboxMessage | None:
        while True:
            self._wake.clear()
            if self.is_leaving:
                return None
            with self._lock:
                if self._queue:
                    self._now = self._choose()
                    self._queue.remove(self._now)
                    self.progress.expect("agent", self.app.config.limits.seconds + _SETTLE_TIMEOUT_S)
                    return self._now
                self.progress.expect("agent", None)
            if self.is_draining:
                return None
            self._wake.wait()

    def _choose(self) -> InboxMessage:
        """Choose whose message is answered next: of several people, who has not been answered for the longest.

        So one who sends a hundred keeps nobody waiting for a hundred answers. People come before programs, which wait
        for nothing.
        """
        first: dict[tuple[bool, str], InboxMessage] = {}
        for one in self._queue:
            first.setdefault((one.origin == "hook", one.who), one)
        turns = {who: number for number, who in enumerate(self._answered, 1)}
        _, chosen = min(first.items(), key=lambda item: (item[0][0], turns.get(item[0][1], 0)))
        self._answered.append(chosen.who)
        return chosen

    def _respond(self, arrived: InboxMessage) -> None:
        self._begin([arrived])
        self._heard = []
        turn = None
        try:
            hooks = self.make_hooks(arrived)
            with ExitStack() as stack:
                for pause in self.pauses:
                    stack.enter_context(pause(arrived.key))
                stop = stack.enter_context(self.stopper.turn())
                if self.is_leaving:
                    stop.set()
                say = partial(self._say, arrived, hooks)
                hooks = replace(hooks, say=say, typed=self._take_typed, stop=stop, shield=self.stopper.shield)
                turn = self.app.dispatcher.answer(self._make_inbound(arrived), hooks)
                self.log_turn(arrived.key, turn)
        except KeyboardInterrupt:
            if turn is None:
                turn = _make_reply_turn(arrived.text, False, "stopped before it had started")
                turn = turn._replace(stopped="stopped")
        finally:
            self._now = None
        self.progress.expect("agent", _SETTLE_TIMEOUT_S)
        if back := self._heard[
            len(self._heard) - len(turn.unanswered_texts) :
        ]:  # what no model has heard is answered next
            with self._lock:
                self._queue.extendleft(reversed(back))
            self._put_back(back)
        if self.is_leaving and arrived.external and turn.stopped == "stopped" and not turn.tools:
            self._put_back([arrived])  # nobody has stopped it but we, and nothing was done: it waits for the next start
        else:
            self._tell_end(arrived, turn)

    def _make_inbound(self, arrived: InboxMessage) -> Inbound:
        """Name in the text the files that came with it."""
        paths = map(escape_closing, arrived.attachments)
        named = [fill_template(self.app.prompts["attached"], {"path": path}, "path") for path in paths]
        return Inbound(
            arrived.key,
            "\n".join(filter(None, [arrived.text, *named])),
            arrived.origin,
            inbox=arrived.number,
            who=arrived.who,
            foreign=arrived.foreign,
            attachments=arrived.attachments,
        )

    def _say(self, arrived: InboxMessage, hooks: TurnHooks, text: str) -> None:
        """Send a text ahead of the answer, or keep it in the outbox."""
        try:
            hooks.say(text)
        except ChannelError:
            self._put_message(arrived.key, text)

    def _take_typed(self) -> Sequence[str]:
        """Take the messages that the chat has sent during the turn, up to a command.

        Another person, or another terminal, waits for an answer of its own, and so does what is not their word.
        """
        with self._lock:
            taken: list[InboxMessage] = []
            if (now := self._now) is None:
                return ()
            mine = [one for one in self._queue if one.key == now.key]
            if self.is_local(now.key):
                mine = [one for one in mine if one.who == now.who]
            for one in mine:
                if not _can_join_turn(one, now):
                    break
                taken.append(one)
                self._queue.remove(one)
        if taken:
            self._heard += taken
            self._begin(taken, now.number)
            for one in taken:
                self.show_heard(one)
        return [one.text for one in taken]

    def _begin(self, arrived: Sequence[InboxMessage], within: int = 0) -> None:
        if self._boxes and (numbers := [one.number for one in arrived if one.number]):
            self.writes.write(partial(self._boxes.inbox.begin, numbers, within))

    def _put_back(self, arrived: Sequence[InboxMessage]) -> None:
        if self._boxes:
            self.writes.write(partial(self._boxes.inbox.put_back, [one.number for one in arrived]))

    def address(self, arrived: InboxMessage, reply: str) -> tuple[str, str]:
        """Say in which chat an answer is told that could not be shown at once, and how it is worded there."""
        return arrived.key, reply

    def _tell_end(self, arrived: InboxMessage, turn: Turn) -> None:
        """Send an answer live, or put it into the outbox in the transaction that marks its message as done."""
        reply = format_turn(turn, self.mark(turn))
        live = False
        try:
            live = self.show_end(arrived, turn, reply)
        except ChannelError as error:
            self.note(f"{arrived.key}: its answer could not be delivered and waits: {error}")
        chat, text = (arrived.key, "") if live else self.address(arrived, reply)
        if arrived.number and self._boxes:
            done = partial(self._boxes.inbox.done, arrived._replace(key=chat))
            self._write_or_send(chat, text, partial(done, text), done)
        elif not live:
            self._put_message(chat, text)
        if not live:
            self.wake_delivery()

    def _put_message(self, key: str, text: str) -> None:
        if text and self._boxes:
            self._write_or_send(key, text, partial(self._boxes.outbox.put, key, text, time.time()))
        self.wake_delivery()

    def _write_or_send(self, key: str, text: str, keep: WriteAction, told: WriteAction | None = None) -> None:
        """Put a text into the outbox by `keep`; if the disk refuses, send it at once and write `told` later."""
        from picoclaw.store.inbox_outbox import OutboxMessage

        if not self.writes.write(keep) and text:
            self.writes.replace(keep, told)  # first: else the disk may take it meanwhile, and it would be told twice
            try:
                self.channel_of(key).send(OutboxMessage(0, key, text, time.time()))
            except ChannelError:
                if not self.writes.replace(told, keep) and self._boxes:
                    self.writes.write(partial(self._boxes.outbox.put, key, text, time.time()))


def format_turn(turn: Turn, mark: str) -> str:
    """Format a turn for a text-only channel: the answer, its mark and its notice."""
    if turn.stopped == "error":
        return turn.notice.text or turn.reply
    told = turn.unsaid_notice
    return "\n".join(filter(None, [turn.reply, mark, f"({told})" if told else ""]))


def _can_join_turn(one: InboxMessage, now: InboxMessage) -> bool:
    """Whether a message may join the running turn: from the same person, and no command."""
    same = (one.who, one.origin) == (now.who, now.origin) and not one.key.startswith(REQUEST_SESSIONS)
    return same and not one.attachments and not one.foreign and not one.text.lstrip().startswith("/")


def _make_reply_turn(asked: str, good: bool, text: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", asked), Message("assistant", text))
    return Turn(text, messages, 0, (), Usage(), "", "stop", Notice("" if good else text, failed=not good))


_FIRST_RETRY_S, _MAX_RETRY_S, _JOIN_TIMEOUT_S = 5.0, 60.0, 2.0


def retry_channel_start(
    channel: Channel, post: PostMessage, note: Callable[[str], None], seconds: float = _FIRST_RETRY_S
) -> Callable[[], None]:
    """Start a channel later: an address may come minutes after the board, a port become free.

    Tries after `seconds`, then less and less often, down to once a minute; returns what gives that up.
    """
    ending = threading.Event()

    def retry() -> None:
        wait = seconds
        while not ending.wait(wait):
            try:
                channel.start(post)
            except ChannelError:
                wait = min(2 * wait, _MAX_RETRY_S)
            else:
                note(f"{channel.name}: up now")
                return

    thread = threading.Thread(target=retry, name=f"{channel.name} later", daemon=True)
    thread.start()

    def give_up() -> None:
        ending.set()
        thread.join(_JOIN_TIMEOUT_S)

    return give_up
