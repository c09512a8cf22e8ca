"""A person at a terminal of the running picoclaw: also while that ends and comes back, as after an update."""

import argparse
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

from picoclaw.app import SIMULATED_MARK
from picoclaw.channels.ipc import IpcConnection, connect
from picoclaw.cli.chat import Screen, keep_line_history, print_help_if_asked, print_notice
from picoclaw.cli.common import open_app
from picoclaw.daemon.signals import handle_signals, ignore_signals
from picoclaw.errors import PicoclawError
from picoclaw.messages import Notice, Text, ToolCall, ToolRun, Turn, Usage
from picoclaw.text import escape_unprintable, format_json

RemoteEvent = dict[str, Any]
_LOCAL_COMMANDS = {"/quit", "/exit", "/help"}
_RECONNECT_DELAYS_S = (*[0.25] * 8, *[1.0] * 58)
"""The pauses between two tries to reach it again: a minute, after which each typed line is another try."""
_ATTACH_TIMEOUT_S = 5.0
_DISCONNECTED_TEXT = "(picoclaw has ended; this chat goes on as soon as it runs again, Ctrl-D leaves)"
_INTERRUPTED_TEXT = "(picoclaw has ended in the middle of this; what becomes of it is told as soon as it runs again)"
_RECONNECTED_TEXT = "(picoclaw is back)"
_GAVE_UP_TEXT = (
    "(it does not come back by itself: `picoclaw service status` says why, `picoclaw run` starts it by hand;"
    " what you type here waits)"
)
_QUEUED_TEXT = "(picoclaw does not run: this is sent as soon as it does)"


def generate_message_ids() -> Iterator[str]:
    """Number what is said, as nobody else does: what is sent twice is answered once."""
    life, number = os.urandom(6).hex(), 0
    while True:
        number += 1
        yield f"{life}.{number}"


class RemoteChat(Screen):
    """A terminal whose lines are answered elsewhere: what is typed during a turn is sent on at once."""

    def __init__(self, line: IpcConnection, session: str, leaving: Event, home: Path) -> None:
        """See Screen; `home` is where it is looked for when it has gone."""
        super().__init__(leaving, tty=True)
        self._line, self._session, self._home = line, session, home
        self._heard_words: SimpleQueue[RemoteEvent] = SimpleQueue()
        self._in_turn = self._gone = False
        self._turns = 0
        self._questions: deque[RemoteEvent] = deque()
        self._numbers = generate_message_ids()
        self._unkept: dict[str, str] = {}
        self._wanted = Event()

    def attend(self) -> None:
        """Open the chat, and show what comes in it also while nobody waits for an answer."""
        if not (greeting := self._attached(self._line)):
            raise PicoclawError("the running picoclaw takes no further terminal: close one, or see `picoclaw status`")
        self._dim(f"{greeting}. /help for help, Ctrl-D to leave.")
        threading.Thread(target=self._listen, name="daemon", daemon=True).start()

    def left(self) -> int:
        """Say at the end what was typed in vain; returns the exit code."""
        for text in self._unkept.values():
            print(escape_unprintable(f"picoclaw: not sent: {text}"))
        return 1 if self._unkept else 0

    # --- what comes from the other side, in a thread of its own ---

    def _listen(self) -> None:
        """Hear what is said, and look for whoever says it when that has ended."""
        while True:
            while (words := self._line.next()) is not None:
                self._hear_words(words)
            self._gone = True
            self._wanted.clear()
            if self._in_turn:
                self._heard_words.put({"gone": True})
            else:
                self.remind(_DISCONNECTED_TEXT)
            self._line.close()
            self._line = self._found()
            self._gone = False
            self.remind(_RECONNECTED_TEXT)
            for number, text in list(self._unkept.items()):
                self._send(number, text)

    def _found(self) -> IpcConnection:
        """Wait until picoclaw runs again."""
        for pause in _RECONNECT_DELAYS_S:
            if self._wanted.wait(pause):
                self._wanted.clear()
            if line := self._reached():
                return line
        self.remind(_GAVE_UP_TEXT)
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if line := self._reached():
                return line

    def _reached(self) -> IpcConnection | None:
        with suppress(OSError):
            if line := connect(self._home, _ATTACH_TIMEOUT_S):
                if self._attached(line):
                    line.connection.settimeout(None)
                    return line
                line.close()
        return None

    def _attached(self, line: IpcConnection) -> str:
        """Open the chat on a line; returns who answers, '' when nobody does. Raises OSError."""
        line.say({"do": "attach", "session": self._session})
        while (words := line.next()) is not None:
            if greeting := words.get("attached"):
                return str(greeting)
            self._tell_meanwhile(words)
        return ""

    def _hear_words(self, words: RemoteEvent) -> None:
        if number := words.get("kept"):
            self._unkept.pop(str(number), None)
        if self._in_turn:
            self._heard_words.put(words)
        else:
            self._tell_meanwhile(words)

    def _tell_meanwhile(self, words: RemoteEvent) -> None:
        """Show what comes while the person types; a question takes a whole command then, which is typed on purpose."""
        if question := words.get("question"):
            self.remind(f"{question['text']}\n{format_answer_hint(question)}")
        elif text := words.get("letter") or words.get("say") or words.get("end", {}).get("spoken"):
            self.remind(str(text))

    # --- what goes there ---

    def _tell(self, words: RemoteEvent) -> None:
        """Say it, if anybody is there; who is not is missed by the thread that listens."""
        with suppress(OSError):
            self._line.say(words)

    def _send(self, number: str, text: str) -> None:
        self._tell({"do": "chat", "session": self._session, "text": text, "id": number})

    def _ask_for(self, text: str) -> None:
        """Send a line, and keep it until it is kept there."""
        number = next(self._numbers)
        self._unkept[number] = text
        self._send(number, text)

    def _take(self, line: str) -> None:
        if line.lower() == "/stop":
            self._end()
        elif line.lower() in _LOCAL_COMMANDS:
            self._waiting.append(line)
        else:
            self._ask_for(line)

    def _answered_otherwise(self, answer: str) -> None:
        if answer == "/stop":
            self._end()

    def _end(self) -> None:
        self._tell({"do": "end", "session": self._session})

    # --- a turn, in the main thread ---

    def answered(self, text: str) -> None:
        """Have a line answered, and what is typed meanwhile."""
        self._heard_words, self._turns = SimpleQueue(), 0
        self._in_turn = True
        try:
            self._ask_for(text)
            if self._gone:
                print(_QUEUED_TEXT)
                self._wanted.set()
                return
            with self.turn():
                self._followed()
        finally:
            self._in_turn = False
            with suppress(Empty):
                while True:
                    self._tell_meanwhile(self._heard_words.get_nowait())

    def _followed(self) -> None:
        """Show turns until nothing of this terminal waits."""
        while (words := self._next_words()) is not None:
            if "gone" in words:
                self._break()
                print(_INTERRUPTED_TEXT)
                return
            self._show(words)
            if end := words.get("end"):
                self._ended(end)
                if not end.get("waiting") and not self._asked():
                    return

    def _asked(self) -> bool:
        """Ask the person what the turn has to be told; whether something was answered, and its outcome will come."""
        while self._questions:
            question = self._questions.popleft()
            try:
                word = "yes" if self.ask(str(question["text"])) else "no"
            except KeyboardInterrupt:
                print(f"\n{format_answer_hint(question)}")
                continue
            self._ask_for(f"/{word} {question['number']} {question['id']}")
            return True
        return False

    def _next_words(self) -> RemoteEvent | None:
        """Wait for the next; Ctrl-C ends the turn, and a second one, or the end of the terminal, the waiting for it."""
        try:
            return self._heard_words.get()
        except KeyboardInterrupt:
            if self._leaving.is_set():
                return None
            self._end()
            return {}

    def _show(self, words: RemoteEvent) -> None:
        """Show what comes ahead of the end of a turn."""
        if "begin" in words:
            self._begun(str(words["begin"]))
        elif "text" in words:
            self.hear(Text(str(words["text"])))
        elif "tool" in words or "pause" in words:
            self.hear(ToolRun(**words["tool"]) if "tool" in words else ToolCall("", ""))
        elif text := words.get("say") or words.get("letter"):
            self.say(str(text))
        elif heard := words.get("heard"):
            self._break()
            self._dim(f"· heard: {heard}")
        elif behind := words.get("behind"):
            self._dim(f"· {behind} is answered first")
        elif question := words.get("question"):
            self._questions.append(question)

    def _begun(self, text: str) -> None:
        """Show whose turn it is, when it is not the line that was just typed."""
        self._turns += 1
        if self._turns > 1 and not text.startswith(("/yes ", "/no ")):
            print(f"> {escape_unprintable(text)}")

    def _ended(self, end: RemoteEvent) -> None:
        turn = parse_turn(end)
        self.end(turn, simulated=end.get("mark") == SIMULATED_MARK)
        print_notice(turn._replace(stopped=turn.stopped.replace("stopped", "")))


def format_answer_hint(question: RemoteEvent) -> str:
    """Say how a question is answered by typing."""
    return f"(it waits: {question['answers']})"


def parse_turn(end: RemoteEvent) -> Turn:
    """What is known here of a turn."""
    of = end.get("turn", {})
    notice = Notice(str(end.get("notice", "")), bool(end.get("failed")))
    stopped, provider = str(of.get("stopped", "")), str(end.get("provider", ""))
    return Turn(str(end.get("reply", "")), (), int(of.get("steps", 0)), (), Usage(), stopped, provider, notice)


# `picoclaw chat` where picoclaw runs already: it answers, and this is its terminal. A person has remote.py.

_DAEMON_GONE = "the running picoclaw has ended before it answered; ask again, or see `picoclaw status`"
_DAEMON_GONE_MESSAGE_SAVED = (
    "the running picoclaw has ended before it answered; it has kept what you asked, and the next one that runs"
    " answers it in the next chat"
)


def ask_remote_once(line: IpcConnection, given: argparse.Namespace) -> int:
    """Ask one question and print the answer, as `chat -m` does; Ctrl-C ends the turn."""
    handle_signals()
    said: list[str] = []
    say = said.append if given.json else lambda text: print(escape_unprintable(text), flush=True)
    end = _wait_for_end(line, given.session, given.message, say, once=True)
    reports: list[str] = []
    if not given.json and parse_turn(end).stopped != "error":
        print(
            escape_unprintable("\n".join(filter(None, [str(end.get("reply", "")), str(end.get("mark", ""))]))),
            flush=True,
        )
    if end.get("helpers"):
        _wait_for_remote_subagents(line, given, reports.append if given.json else say)
    if given.json:
        shown = "\n\n".join(filter(None, [*said, str(end.get("reply", "")), str(end.get("mark", ""))]))
        out: RemoteEvent = {"reply": shown} | {name: end.get(name) for name in ("turn", "provider", "simulated")}
        print(format_json(out | ({"helpers": reports} if reports else {})), flush=True)
    ignore_signals()
    return print_notice(parse_turn(end))


def _wait_for_remote_subagents(line: IpcConnection, given: argparse.Namespace, tell: Callable[[str], None]) -> None:
    """Wait for the helpers of the chat, which the running picoclaw has work; the answer does not hang on that."""
    from picoclaw.cli.subagents import follow_remote_subagents

    try:
        with open_app(given) as app:
            follow_remote_subagents(app, given.session, line, tell)
    except (PicoclawError, OSError) as error:
        print(f"picoclaw: the helpers report in the next chat: {escape_unprintable(str(error))}", file=sys.stderr)


def _wait_for_end(
    line: IpcConnection, session: str, text: str, say: Callable[[str], None], *, once: bool = False
) -> RemoteEvent:
    """Have a text answered; returns how that ended. Raises PicoclawError when nobody answers."""
    _send(line, {"do": "chat", "session": session, "text": text, "id": next(generate_message_ids()), "once": once})
    why = _DAEMON_GONE
    while (words := _receive_event(line, session)) is not None:
        if "end" in words:
            return dict(words["end"])
        if "kept" in words:
            why = _DAEMON_GONE_MESSAGE_SAVED
        _handle_event(words, say)
    raise PicoclawError(why)


def _receive_event(line: IpcConnection, session: str) -> RemoteEvent | None:
    """Wait for the next words; Ctrl-C ends the turn, and has its end waited for."""
    try:
        return line.next()
    except KeyboardInterrupt:
        _send(line, {"do": "end", "session": session})
        return {}


def _handle_event(words: RemoteEvent, say: Callable[[str], None]) -> None:
    """Deal with what comes ahead of an answer where nobody is there to be asked."""
    if "say" in words:
        say(str(words["say"]))
    elif question := words.get("question"):
        say(f"{question['text']}\n{format_answer_hint(question)}")
    elif "error" in words:
        raise PicoclawError(str(words["error"]))


def _send(line: IpcConnection, words: dict[str, Any]) -> None:
    try:
        line.say(words)
    except OSError:
        raise PicoclawError(_DAEMON_GONE) from None


def run_remote_chat(line: IpcConnection, given: argparse.Namespace, home: Path) -> int:
    """Talk until the input ends; returns 0, or 1 when an answer to a pipe failed."""
    leaving = handle_signals()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _answer_piped_lines(Screen(leaving, tty=False), line, given)
    screen = RemoteChat(line, given.session, leaving, home)
    screen.attend()
    with keep_line_history(home / "chat_history"):
        for text in screen.lines():
            if not print_help_if_asked(text):
                screen.answered(text)
    return screen.left()


def _answer_piped_lines(screen: Screen, line: IpcConnection, given: argparse.Namespace) -> int:
    code, helpers = 0, False
    for text in screen.lines():
        end = _wait_for_end(line, given.session, text, screen.say)
        screen.end(parse_turn(end), simulated=bool(end.get("mark")))
        code, helpers = max(code, print_notice(parse_turn(end))), helpers or bool(end.get("helpers"))
        sys.stdout.flush()
    if helpers:
        _wait_for_remote_subagents(line, given, screen.say)
    return code
