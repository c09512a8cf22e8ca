"""`picoclaw chat` where picoclaw runs already: it answers, and this process is its terminal."""

import argparse
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

from picoclaw.app import SIMULATED
from picoclaw.channels.line import Line
from picoclaw.cli.chat import report
from picoclaw.cli.common import printable
from picoclaw.cli.keys import listen_to_signals
from picoclaw.cli.screen import Screen
from picoclaw.cli.terminal import helped_at, line_history
from picoclaw.errors import PicoclawError
from picoclaw.messages import Notice, Text, ToolCall, ToolRun, Turn, Usage

Words = dict[str, Any]
_HERE = {"/quit", "/exit", "/help"}
_GONE = "the running picoclaw has ended before it answered; ask again, or see `picoclaw status`"


def once(line: Line, given: argparse.Namespace) -> int:
    """Ask one question and print the answer, as `chat -m` does; Ctrl-C ends the turn."""
    listen_to_signals()
    said: list[str] = []
    say = said.append if given.json else lambda text: print(printable(text), flush=True)
    end = _ended(line, given.session, given.message, say)
    if given.json:
        shown = "\n\n".join(filter(None, [*said, str(end.get("reply", "")), str(end.get("mark", ""))]))
        out = {name: end.get(name) for name in ("turn", "provider", "simulated")}
        print(json.dumps({"reply": shown} | out, ensure_ascii=False))
    elif _turn(end).stopped != "error":
        print(printable("\n".join(filter(None, [str(end.get("reply", "")), str(end.get("mark", ""))]))), flush=True)
    return report(_turn(end))


def _ended(line: Line, session: str, text: str, say: Callable[[str], None]) -> Words:
    """Have a text answered; returns how that ended. Raises PicoclawError when nobody answers."""
    _tell(line, {"do": "chat", "session": session, "text": text})
    while (words := _next(line, session)) is not None:
        if "end" in words:
            return dict(words["end"])
        _said(line, words, say)
    raise PicoclawError(_GONE)


def _next(line: Line, session: str) -> Words | None:
    """Wait for the next words; Ctrl-C ends the turn, and has its end waited for."""
    try:
        return line.next()
    except KeyboardInterrupt:
        _tell(line, {"do": "end", "session": session})
        return {}


def _said(line: Line, words: Words, say: Callable[[str], None]) -> None:
    """Deal with what comes ahead of an answer where nobody is there to be asked."""
    if "say" in words:
        say(str(words["say"]))
    elif "ask" in words:
        _tell(line, {"do": "answer", "yes": False})
    elif "error" in words:
        raise PicoclawError(str(words["error"]))


def _tell(line: Line, words: Words) -> None:
    try:
        line.say(words)
    except OSError:
        raise PicoclawError(_GONE) from None


def _turn(end: Words) -> Turn:
    """What is known here of a turn."""
    of = end.get("turn", {})
    notice = Notice(str(end.get("notice", "")), bool(end.get("failed")))
    stopped, provider = str(of.get("stopped", "")), str(end.get("provider", ""))
    return Turn(str(end.get("reply", "")), (), int(of.get("steps", 0)), (), Usage(), stopped, provider, notice)


class Remote(Screen):
    """A terminal whose lines are answered elsewhere: what is typed during a turn is sent on at once."""

    def __init__(self, line: Line, session: str, leaving: Event, *, tty: bool) -> None:
        """See Screen."""
        super().__init__(leaving, tty=tty)
        self._line, self._session = line, session
        self.heard: SimpleQueue[Words] = SimpleQueue()
        self._in_turn = self.gone = False
        self._turns = 0

    def attend(self) -> None:
        """Open the chat, and show what comes in it also while nobody waits for an answer."""
        _tell(self._line, {"do": "attach", "session": self._session})
        threading.Thread(target=self._listen, name="daemon", daemon=True).start()
        self._dim(f"{self.heard.get().get('attached', 'picoclaw')}. /help for help, Ctrl-D to leave.")

    def _listen(self) -> None:
        while (words := self._line.next()) is not None:
            if self._in_turn or "attached" in words:
                self.heard.put(words)
            elif "ask" in words:
                _tell(self._line, {"do": "answer", "yes": False})
            elif text := words.get("letter") or words.get("end", {}).get("spoken"):
                self.remind(str(text))
        self.gone = True
        self.heard.put({"gone": True})
        if not self._in_turn:
            self.remind("the running picoclaw has ended; Ctrl-D leaves, and `picoclaw chat` begins anew")

    def _take(self, line: str) -> None:
        if line.lower() == "/stop":
            self._end()
        elif line.lower() in _HERE:
            self._waiting.append(line)
        else:
            _tell(self._line, {"do": "chat", "session": self._session, "text": line})

    def _answered_otherwise(self, answer: str) -> None:
        if answer == "/stop":
            self._end()

    def _end(self) -> None:
        _tell(self._line, {"do": "end", "session": self._session})

    def answered(self, text: str) -> int:
        """Have a line answered, and what is typed meanwhile; returns the exit code of it."""
        if self.gone:
            raise PicoclawError(_GONE)
        self._in_turn, self._turns = True, 0
        try:
            _tell(self._line, {"do": "chat", "session": self._session, "text": text})
            with self.turn():
                return self._followed()
        finally:
            self._in_turn = False

    def _followed(self) -> int:
        """Show turns until nothing of this chat waits."""
        code = 0
        while (words := self._next_words()) is not None:
            self._show(words)
            if end := words.get("end"):
                code = max(code, self._ended(end))
                if not end.get("waiting"):
                    break
        return code

    def _next_words(self) -> Words | None:
        """Wait for the next; Ctrl-C ends the turn, and a second one, or the end of the terminal, the waiting for it."""
        try:
            return self.heard.get()
        except KeyboardInterrupt:
            if self._leaving.is_set():
                return None
            self._end()
            return {}

    def _show(self, words: Words) -> None:
        """Show what comes ahead of the end of a turn."""
        if "gone" in words or "error" in words:
            raise PicoclawError(str(words.get("error", _GONE)))
        if "begin" in words:
            self._begun(str(words["begin"]))
        elif "text" in words:
            self.hear(Text(str(words["text"])))
        elif "tool" in words or "pause" in words:
            self.hear(ToolRun(**words["tool"]) if "tool" in words else ToolCall("", ""))
        elif text := words.get("say") or words.get("letter"):
            self.say(str(text))
        elif "ask" in words:
            yes = self.tty and self.ask(str(words["ask"]))
            _tell(self._line, {"do": "answer", "yes": yes})

    def _begun(self, text: str) -> None:
        """Show whose turn it is, when it is not the line that was just typed."""
        self._turns += 1
        if self._turns > 1:
            print(f"> {printable(text)}")

    def _ended(self, end: Words) -> int:
        turn = _turn(end)
        self.end(turn, simulated=end.get("mark") == SIMULATED)
        return report(turn._replace(stopped="") if self.tty else turn)


def converse(line: Line, given: argparse.Namespace, home: Path) -> int:
    """Talk until the input ends; returns 0, or 1 when an answer to a pipe failed."""
    leaving = listen_to_signals()
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Remote(line, given.session, leaving, tty=tty)
    if not tty:
        return _piped(screen, line, given.session)
    screen.attend()
    with line_history(home / "chat_history"):
        for text in screen.lines():
            if not helped_at(text):
                screen.answered(text)
    return 0


def _piped(screen: Remote, line: Line, session: str) -> int:
    code = 0
    for text in screen.lines():
        end = _ended(line, session, text, screen.say)
        screen.end(_turn(end), simulated=end.get("mark") == SIMULATED)
        code = max(code, report(_turn(end)))
        sys.stdout.flush()
    return code
