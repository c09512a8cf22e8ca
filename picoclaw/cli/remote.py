"""The daemon that runs on a home, as a chat talks to it over its socket."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from picoclaw.channels.ipc import IpcConnection
from picoclaw.cli.arguments import Options
from picoclaw.cli.chat import ChatEvent, Terminal, format_answer_hint
from picoclaw.cli.common import open_app, print_note
from picoclaw.errors import PicoclawError

_RECONNECT_DELAYS_S = (*[0.25] * 8, *[1.0] * 58)
"""The pauses between two tries to reach it again: a minute, after which each typed line is another try."""
_ATTACH_TIMEOUT_S = 5.0
_GONE = "the running picoclaw has ended before it answered; ask again, or see `picoclaw status`"
_GONE_MESSAGE_SAVED = (
    "the running picoclaw has ended before it answered; it has kept what you asked, and the next one that runs"
    " answers it in the next chat"
)
_DISCONNECTED_TEXT = "(picoclaw has ended; this chat goes on as soon as it runs again, Ctrl-D leaves)"
_INTERRUPTED_TEXT = "(picoclaw has ended in the middle of this; what becomes of it is told as soon as it runs again)"
_RECONNECTED_TEXT = "(picoclaw is back)"
_GAVE_UP_TEXT = (
    "(it does not come back by itself: `picoclaw service status` says why, `picoclaw run` starts it by hand;"
    " what you type here waits)"
)
_QUEUED_TEXT = "(picoclaw does not run: this is sent as soon as it does)"


class RemoteDaemon:
    """Answers one chat, in the process of the daemon; a terminal's goes on when that ends and comes back."""

    def __init__(
        self,
        line: IpcConnection,
        given: Options,
        connect: Callable[[float], IpcConnection | None],
        *,
        is_own: bool = True,
    ) -> None:
        """`connect` reaches it again when it has gone, given the seconds to wait; `is_own`: it runs on our own home."""
        self._line, self._given, self._session, self._connect, self._is_own = (
            line,
            given,
            given.session,
            connect,
            is_own,
        )
        life, numbers = os.urandom(6).hex(), count(1)
        self._ids = (f"{life}.{number}" for number in numbers)  # nobody else's: what is sent twice is answered once
        self._events: SimpleQueue[ChatEvent] = SimpleQueue()
        self._in_turn = self._gone = self._has_tasks = False
        self._early: list[ChatEvent] = []
        self._unsent: dict[str, str] = {}
        self._wanted = threading.Event()

    # --- one question, or lines from a pipe ---

    def ask(self, text: str, show: Callable[[ChatEvent], None], *, once: bool = False) -> ChatEvent:
        """Have a text answered; returns how that ended. Raises PicoclawError when nobody answers."""
        self._say_or_fail({"do": "chat", "session": self._session, "text": text, "id": next(self._ids), "once": once})
        why = _GONE
        while True:
            try:
                event = self._line.next()
            except KeyboardInterrupt:  # Ctrl-C ends the turn, and has its end waited for
                self._say_or_fail({"do": "end", "session": self._session})
                continue
            if event is None:
                raise PicoclawError(why)
            if "error" in event:
                raise PicoclawError(str(event["error"]))
            why = _GONE_MESSAGE_SAVED if "kept" in event else why
            show(event)
            if end := event.get("end"):
                self._has_tasks |= bool(end.get("subagents"))
                return dict(end)

    def _say_or_fail(self, request: dict[str, Any]) -> None:
        try:
            self._line.say(request)
        except OSError:
            raise PicoclawError(_GONE) from None

    def finish(self, tell: Callable[[list[str]], None], *, at_end: bool) -> bool:
        """Wait for the subagents of the chat, which the daemon has work; the answer does not hang on that."""
        if self._has_tasks and self._is_own:
            from picoclaw.daemon.local import finish_subagents

            try:
                with open_app(self._given) as app:
                    return finish_subagents(app, self._session, tell, print_note, at_end=at_end, line=self._line)
            except (PicoclawError, OSError) as error:
                print_note(f"the sub-agents report in the next chat: {error}")
        if at_end:
            tell([])
        return True

    def settle(self, end: ChatEvent) -> None:
        """The daemon does what an answer leaves to do."""

    # --- a person at a terminal ---

    @contextmanager
    def attend(self, terminal: Terminal) -> Iterator[None]:
        """Open the chat, and show what comes in it also while nobody waits for an answer."""
        self._terminal = terminal
        if not (greeting := self._attach(self._line)):
            raise PicoclawError("the running picoclaw takes no further terminal: close one, or see `picoclaw status`")
        terminal.greet(greeting)
        self._show_early()
        threading.Thread(target=self._listen, name="daemon", daemon=True).start()
        yield

    def list_unsent(self) -> list[str]:
        """What was typed in vain."""
        return list(self._unsent.values())

    def answer_line(self, text: str) -> None:
        """Have a line answered, and what is typed meanwhile."""
        self._events = SimpleQueue()
        self._in_turn = True
        try:
            self.send(text)
            if self._gone:
                print(_QUEUED_TEXT)
                self._wanted.set()
                return
            with self._terminal.turn():
                self._follow()
        finally:
            self._in_turn = False
            with suppress(Empty):
                while True:
                    self._show_idle(self._events.get_nowait())

    def _follow(self) -> None:
        """Show turns until nothing of this terminal waits."""
        while True:
            try:
                event = self._events.get()
            except KeyboardInterrupt:  # ends the turn, and with the terminal the waiting for it
                if self._terminal.leaving.is_set():
                    return
                self.end()
                continue
            if "gone" in event:
                self._terminal.say(_INTERRUPTED_TEXT)
                return
            self._terminal.show(event)
            if (end := event.get("end")) and not end.get("waiting") and not self._terminal.ask_question():
                return

    def send(self, text: str) -> None:
        """Send a line, and keep it until it is kept there; from any thread."""
        number = next(self._ids)
        self._unsent[number] = text
        self._send(number, text)

    def _send(self, number: str, text: str) -> None:
        with suppress(OSError):  # that nobody is there is noticed by the thread that listens
            self._line.say({"do": "chat", "session": self._session, "text": text, "id": number})

    def end(self) -> None:
        """End the turn that runs; from any thread."""
        with suppress(OSError):
            self._line.say({"do": "end", "session": self._session})

    def heed(self, answer: str) -> None:
        """Nothing but a yes and /stop is an answer here."""

    # --- what comes from the other side, in a thread of its own ---

    def _listen(self) -> None:
        """Hear what is said, and look for whoever says it when that has ended."""
        while True:
            while (event := self._line.next()) is not None:
                if number := event.get("kept"):
                    self._unsent.pop(str(number), None)
                if self._in_turn:
                    self._events.put(event)
                else:
                    self._show_idle(event)
            self._gone = True
            self._wanted.clear()
            if self._in_turn:
                self._events.put({"gone": True})
            else:
                self._terminal.remind(_DISCONNECTED_TEXT)
            self._line.close()
            self._line = self._reconnect()
            self._gone = False
            self._terminal.remind(_RECONNECTED_TEXT)
            self._show_early()
            for number, text in list(self._unsent.items()):
                self._send(number, text)

    def _reconnect(self) -> IpcConnection:
        """Wait until picoclaw runs again."""
        for pause in _RECONNECT_DELAYS_S:
            if self._wanted.wait(pause):
                self._wanted.clear()
            if line := self._try_connect():
                return line
        self._terminal.remind(_GAVE_UP_TEXT)
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if line := self._try_connect():
                return line

    def _try_connect(self) -> IpcConnection | None:
        with suppress(OSError):
            if line := self._connect(_ATTACH_TIMEOUT_S):
                if self._attach(line):
                    line.connection.settimeout(None)
                    return line
                line.close()
        return None

    def _attach(self, line: IpcConnection) -> str:
        """Open the chat on a line; returns who answers, '' when nobody does. Raises OSError."""
        line.say({"do": "attach", "session": self._session})
        while (event := line.next()) is not None:
            if greeting := event.get("attached"):
                return str(greeting)
            self._early.append(event)
        return ""

    def _show_early(self) -> None:
        """Show what came before the chat was open, now that its first line is there."""
        early, self._early = self._early, []
        for event in early:
            self._show_idle(event)

    def _show_idle(self, event: ChatEvent) -> None:
        """Show what comes while the person types; a question takes a whole command then, which is typed on purpose."""
        if question := event.get("question"):
            self._terminal.remind(f"{question['text']}\n{format_answer_hint(question)}")
        elif text := event.get("message") or event.get("say") or event.get("end", {}).get("spoken"):
            self._terminal.remind(str(text))
