"""The daemon of one chat, within the chat's process, where no other runs: the same queue, without socket and inbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from picoclaw.agent.dispatcher import BY_COMMAND
from picoclaw.app import App
from picoclaw.automation.clock import Wakeup, wake_all
from picoclaw.daemon.process import TurnStopper, block_signals
from picoclaw.daemon.queue import MessageQueue
from picoclaw.errors import StoreError
from picoclaw.files import explain_os_error
from picoclaw.messages import Event as TurnEvent
from picoclaw.messages import ToolRun, Turn, TurnHooks
from picoclaw.store.conversations import get_process_identity

if TYPE_CHECKING:
    from picoclaw.channels.ipc import IpcConnection
    from picoclaw.store.approvals import Approval
    from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage
    from picoclaw.store.subagent_tasks import Task

ChatEvent = dict[str, Any]


class ChatTerminal(Protocol):
    def greet(self, who: str) -> None:
        """Show who answers here, on which board; further lines say what can be done."""

    def show(self, event: ChatEvent) -> None:
        """Show what comes of a turn."""

    def remind(self, text: str) -> None:
        """Show what comes from another thread, while the person may be typing."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Watch what is typed while a turn runs."""
        yield


class LocalDaemon(MessageQueue):
    """Answers one chat, in the main thread; what it says to its terminal is what a daemon says over its socket."""

    def __init__(self, app: App, session: str, leaving: Event, note: Callable[[str], None], who: str = "") -> None:
        """`leaving` is set when the program ends in a hurry; `note` prints a line on stderr; `who` asks."""
        from picoclaw.daemon.process import ThreadDeadlines

        super().__init__(app, None, TurnStopper(), ThreadDeadlines(), note)
        self.drain()
        self._session, self._who, self._leaving, self._once = session, who, leaving, False
        self._show: Callable[[ChatEvent], None] = lambda _: None
        self._end: ChatEvent = {}

    # --- see MessageQueue ---

    def is_local(self, _key: str, /) -> bool:
        """There is no other channel."""
        return True

    def make_hooks(self, arrived: InboxMessage) -> TurnHooks:
        self._show({"begin": arrived.text})
        return TurnHooks(lambda text: self._show({"say": text}), self._listen, once=self._once)

    def _listen(self, event: TurnEvent | ToolRun) -> None:
        from picoclaw.channels.channel import event_to_json

        if described := event_to_json(event):
            self._show(described)

    def show_heard(self, arrived: InboxMessage) -> None:
        self._show({"heard": arrived.text})

    def show_end(self, _arrived: InboxMessage, turn: Turn, _reply: str, /) -> bool:
        from picoclaw.channels.channel import turn_to_json

        notice = {"mark": self.mark(turn), "notice": turn.notice.text, "failed": turn.notice.failed}
        self._end = turn_to_json(turn, turn.reply, simulated=self.simulated) | notice
        self._show({"end": self._end})
        return True

    # --- one question, or lines from a pipe ---

    def ask(self, text: str, show: Callable[[ChatEvent], None], *, once: bool = False) -> ChatEvent:
        """Answer a text; returns how that ended."""
        self._show, self._once, self.app.changed = show, once, self._show_question
        self.send(text)
        self.answer_waiting()
        return self._end

    def _show_question(self, approval: Approval) -> None:
        from picoclaw.channels.channel import approval_to_json

        if approval.is_new:
            self._show({"question": approval_to_json(approval)})

    def finish(self, tell: Callable[[list[str]], None], *, at_end: bool) -> bool:
        """Finish the sub-agents' tasks of the chat; see finish_subagents."""
        if self.has_tasks(self._session):
            return finish_subagents(self.app, self._session, tell, self.note, at_end=at_end, leaving=self._leaving)
        if at_end:
            tell([])
        return True

    def settle(self, end: ChatEvent) -> None:
        """Do what an answer leaves to do, once it was printed; what goes wrong is noted.

        A command, which takes neither a model nor the network, leaves nothing. Of what is done daily, what needs the
        database is left out where nothing has opened it.
        """
        if end.get("provider") == BY_COMMAND:
            return
        lines, app = self.app.settle(self._session), self.app
        if "database" in vars(app.stores):
            from picoclaw.store.sessions import prune_daily

            try:
                prune_daily(app.stores.database, app.now(), app.config.sessions.keep_days, app.config.sessions.keep_mb)
            except StoreError as error:
                lines.append(f"old conversations could not be deleted: {error}")
        for line in lines:
            self.note(line)

    # --- a person at a terminal ---

    @contextmanager
    def attend(self, terminal: ChatTerminal) -> Iterator[None]:
        """Open the chat, with what goes on beside it."""
        from picoclaw.daemon.background import BackgroundWorker, IdleThread, run_heartbeats

        self._terminal, self._show, app = terminal, terminal.show, self.app
        terminal.greet(self.format_greeting(app.provider.name))
        with ExitStack() as stack:
            try:
                background = BackgroundWorker(app, self._session, terminal.remind, self._leaving)
            except OSError as error:
                self.note(f"reminders cannot be delivered in this chat: {explain_os_error(error)}")
            else:
                stack.callback(self._note_tasks)
                stack.enter_context(background)
            pause_heartbeats = stack.enter_context(run_heartbeats(app, terminal.remind))
            idle = IdleThread(app, terminal.remind)
            idle.start()
            stack.callback(idle.stop)
            self.pauses = [idle.turn, lambda _: pause_heartbeats()]
            yield

    def _note_tasks(self) -> None:
        if self.has_tasks(self._session):
            self.note(_RESUME_LATER_NOTE)

    def answer_line(self, text: str) -> None:
        self.send(text)
        while self.waiting and not self._leaving.is_set():  # also for what is typed in the very end
            with suppress(KeyboardInterrupt), self._terminal.turn():  # Ctrl-C again, with nothing left to end
                self.answer_waiting()

    def send(self, text: str) -> None:
        """Queue a typed line; from any thread."""
        from picoclaw.store.inbox_outbox import InboxMessage

        self.post(InboxMessage(self._session, text, self._who))

    def end(self) -> None:
        """End the turn that runs; from any thread."""
        self.stopper.end_turn()

    def heed(self, answer: str) -> None:
        """Stop the outputs if that is what was typed in answer to a question."""
        if said := self.app.wiring.obey_stop_order(answer, "owner"):
            self._show({"say": said[1]})
            self.end()

    def list_unsent(self) -> list[str]:
        """Nothing is typed in vain here."""
        return []


# What is left to subagents when a command has answered: done before it ends, or left to the next picoclaw.

_CHECK_INTERVAL_S = 60.0
_RESUME_LATER_NOTE = "the sub-agents go on when picoclaw runs again"


def finish_subagents(
    app: App,
    session: str,
    tell: Callable[[list[str]], None],
    note: Callable[[str], None],
    *,
    at_end: bool = False,
    line: IpcConnection | None = None,
    leaving: Event | None = None,
) -> bool:
    """Finish the tasks of a chat, here or in the daemon at the other end of a `line`, and show the reports.

    `tell` is handed each report by itself, or `at_end` all of them; then they count as told. Ctrl-C leaves the tasks for
    later; False when they were left here. What they had switched on goes off when the program is `leaving`. Raises
    StoreError and OSError.
    """
    from picoclaw.daemon.delivery import format_message
    from picoclaw.store.inbox_outbox import Outbox

    outbox = Outbox(app.stores.database)
    held: list[OutboxMessage] = []
    told = 0

    def tell_messages(messages: list[OutboxMessage]) -> None:
        tell([format_message(message, session, time.time()) for message in messages])
        for message in messages:
            outbox.strike(message)

    def report() -> None:
        nonlocal told
        ours = app.subagent_tasks.message_numbers(session)
        for message in outbox.waiting():
            if message.number in ours and outbox.begin(message):  # no other process tells it
                told += 1
                held.append(message) if at_end else tell_messages([message])

    if line:
        done = True
        waiting = app.subagent_tasks.unfinished(session)
        if not _follow(app, session, line, report, note):
            note("the sub-agents go on, and report in the next chat" if not line.ended() else _RESUME_LATER_NOTE)
        elif waiting and not told:
            note("the report of the sub-agents went to another open chat")
    else:
        report()
        done = _run_tasks(app, lambda task: task.session == session, report, note, leaving)
    if at_end:
        tell_messages(held)
    return done


def _follow(
    app: App, session: str, line: IpcConnection, report: Callable[[], None], note: Callable[[str], None]
) -> bool:
    """Wait for the tasks that a daemon has done; False when Ctrl-C or the end of the daemon ends that."""
    with closing(Wakeup(app.config.home)) as wakeup, suppress(KeyboardInterrupt):
        _note_waiting(app.subagent_tasks.unfinished(session), note)
        while True:
            left = app.subagent_tasks.unfinished(session)
            report()
            if not left:
                return True
            wakeup.wait(_CHECK_INTERVAL_S, line.connection.fileno())
            if line.ended():
                return False
    return False


def run_claimed_tasks(app: App, note: Callable[[str], None]) -> None:
    """Do the tasks that this process was asked for; their reports wait for their chats. Raises StoreError, OSError."""
    _run_tasks(app, lambda task: task.claimed == get_process_identity(), lambda: None, note)


def _run_tasks(
    app: App,
    is_wanted: Callable[[Task], bool],
    report: Callable[[], None],
    note: Callable[[str], None],
    leaving: Event | None = None,
) -> bool:
    from picoclaw.agent.subagents import WorkerPool, is_held_elsewhere

    def list_left() -> list[Task]:
        return [task for task in app.subagent_tasks.unfinished() if is_wanted(task) and not is_held_elsewhere(task)]

    if not (waiting := list_left()):
        return True
    _note_waiting(waiting, note)
    with closing(Wakeup(app.config.home)) as wakeup:
        pool = WorkerPool(lambda: App(app.config, app.board), wakeup.ring, app.config.subagents.at_once, is_wanted)
        try:
            while waiting:
                worked, rest = pool.works, pool.step(app.subagent_tasks, time.time())
                if rest is None and not (worked or pool.works):  # nobody is there to end what is left
                    break
                wakeup.wait(rest)
                before, waiting = waiting, list_left()
                report()
                if len(before) > len(waiting):  # not earlier: those who wait would have told what is told here
                    wake_all(app.config.home)
        except KeyboardInterrupt:
            pass
        finally:
            with block_signals():  # an impatient second Ctrl-C finds nothing left to end
                pool.leave(hurry=leaving is not None and leaving.is_set())
    if waiting:
        note(_RESUME_LATER_NOTE)
    return not waiting


def _note_waiting(tasks: Sequence[Task], note: Callable[[str], None]) -> None:
    if tasks:
        note(f"waiting for {len(tasks)} sub-agent{'s' * (len(tasks) > 1)}; Ctrl-C leaves")
