"""The daemon of one chat, within the chat's process, where no other runs: the same queue, without socket and inbox."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event
from typing import Any, Protocol

from picoclaw.agent.dispatcher import BY_COMMAND
from picoclaw.app import App
from picoclaw.channels.channel import approval_to_json, event_to_json, turn_to_json
from picoclaw.daemon.queue import MessageQueue
from picoclaw.daemon.signals import TurnStopper
from picoclaw.daemon.watchdog import ThreadDeadlines
from picoclaw.files import explain_os_error
from picoclaw.hw import health
from picoclaw.messages import Event as TurnEvent
from picoclaw.messages import ToolRun, Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox import InboxMessage

ChatEvent = dict[str, Any]


class ChatTerminal(Protocol):
    """The terminal of a person who chats."""

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
        """Show a turn at the terminal."""
        self._show({"begin": arrived.text})
        return TurnHooks(lambda text: self._show({"say": text}), self._listen, once=self._once)

    def _listen(self, event: TurnEvent | ToolRun) -> None:
        if described := event_to_json(event):
            self._show(described)

    def show_heard(self, arrived: InboxMessage) -> None:
        """Show that the turn takes in what was typed meanwhile."""
        self._show({"heard": arrived.text})

    def show_end(self, _arrived: InboxMessage, turn: Turn, _reply: str, /) -> bool:
        """Show how a turn has ended."""
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
        if approval.is_new:
            self._show({"question": approval_to_json(approval)})

    def finish(self, tell: Callable[[list[str]], None], *, at_end: bool) -> bool:
        """Have done what subagents of the chat were given; see finish_subagents."""
        if self.has_tasks(self._session):
            from picoclaw.daemon.subagents import finish_subagents

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
        app = self.app
        daily = app.chores().daily(app.now()) if "database" in vars(app.stores) else []
        for line in [*app.settle(self._session), *daily]:
            self.note(line)

    # --- a person at a terminal ---

    @contextmanager
    def attend(self, terminal: ChatTerminal) -> Iterator[str]:
        """Open the chat, with what goes on beside it; gives who answers, on which board."""
        from picoclaw.daemon.background import BackgroundWorker, IdleThread
        from picoclaw.daemon.heartbeats import run_heartbeats

        self._terminal, self._show, app = terminal, terminal.show, self.app
        with ExitStack() as stack:
            try:
                background = BackgroundWorker(app, self._session, terminal.remind, self._leaving)
            except OSError as error:
                self.note(f"reminders cannot be told in this chat: {explain_os_error(error)}")
            else:
                stack.callback(self._note_tasks)
                stack.enter_context(background)
            pause_heartbeats = stack.enter_context(run_heartbeats(app, terminal.remind))
            idle = IdleThread(app, terminal.remind)
            idle.start()
            stack.callback(idle.stop)
            self.pauses = [idle.turn, lambda _: pause_heartbeats()]
            yield f"{app.provider.name} on {health.read_model(app.board)}"

    def _note_tasks(self) -> None:
        if self.has_tasks(self._session):
            from picoclaw.daemon.subagents import RESUME_LATER_NOTE

            self.note(RESUME_LATER_NOTE)

    def answer_line(self, text: str) -> None:
        """Have a line answered, and what is typed meanwhile."""
        with suppress(KeyboardInterrupt), self._terminal.turn():  # Ctrl-C again, with nothing left to end
            self.send(text)
            self.answer_waiting()

    def send(self, text: str) -> None:
        """Take a line that is typed; from any thread."""
        self.post(InboxMessage(self._session, text, self._who))

    def end(self) -> None:
        """End the turn that runs; from any thread."""
        self.stopper.say()

    def heed(self, answer: str) -> None:
        """Heed what is typed instead of a yes or a no where it stops the outputs."""
        if said := self.app.wiring.stop(answer, "owner"):
            self._show({"say": said[1]})
            self.end()

    def list_unsent(self) -> list[str]:
        """Nothing is typed in vain here."""
        return []
