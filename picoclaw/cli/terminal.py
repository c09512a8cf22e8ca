"""The conversation on a terminal: answers as they come, tool calls in a dim line each, Ctrl-C and /stop.

From a pipe it reads a message a line, and prints nothing but the answers.
"""

import argparse
import json
import shutil
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event

from picoclaw.app import SIMULATED, App
from picoclaw.cli.chat import report, simulated
from picoclaw.cli.clockwork import Clockwork
from picoclaw.cli.common import opened, printable
from picoclaw.cli.heartbeat import beating
from picoclaw.cli.idle import IdleThread
from picoclaw.cli.keys import Typing, uninterrupted
from picoclaw.disk import explain
from picoclaw.messages import Event as Happening
from picoclaw.messages import Inbound, Notice, Text, ToolCall, ToolRun

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_HISTORY_LINES = 1000
_HELP = """\
Type a question, or one of:
  /help  this list
  /stop  end the turn that is running (Ctrl-C does the same)
  /quit  leave (Ctrl-D does the same)"""


def converse(given: argparse.Namespace, leaving: Event) -> int:
    """Talk until the input ends, or `leaving` is set; returns 0, or 1 when an answer to a pipe failed."""
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(leaving, tty=tty)
    with opened(given, screen.ask if tty else None, agent=True) as app:
        if not tty:
            return max([_turn(app, given.session, line, screen) for line in screen.lines()], default=0)
        screen.stop = partial(app.wiring.stop, who="owner")
        with _line_history(app.config.home / "chat_history"), _clockwork(app, given.session, screen):
            screen.greet(app)
            with beating(app, screen.remind) as resting:
                _talk(app, given.session, screen, resting)
        if leaving.is_set():
            app.wiring.abandon()
    return 0


@contextmanager
def _clockwork(app: App, session: str, screen: "Screen") -> Iterator[None]:
    try:
        clockwork = Clockwork(app, session, screen.remind)
    except OSError as error:
        print(f"picoclaw: reminders cannot be told in this chat: {explain(error)}", file=sys.stderr)
        yield
        return
    with clockwork:
        yield


def _talk(app: App, session: str, screen: "Screen", resting: Callable[[], AbstractContextManager[None]]) -> None:
    idle = IdleThread(app, screen.remind)
    idle.start()
    try:
        for line in screen.lines():
            with idle.turn(), resting():
                _turn(app, session, line, screen)
    finally:
        idle.stop()


def _turn(app: App, session: str, line: str, screen: "Screen") -> int:
    if line.startswith("/"):
        known = {"/help": _HELP, "/stop": "Nothing is running. STOP, without the slash, brings the outputs to safety."}
        print(known.get(line, f"{printable(line)} is not a command; /help lists them."))
        return 0
    with screen.turn():
        turn = app.answer(Inbound(session, line), screen.say, screen.hear, uninterrupted)
    screen.end(turn.reply, simulated=simulated(app, turn), failed=turn.stopped == "error")
    return report(turn._replace(stopped="") if screen.tty else turn)


class Screen:
    """What is shown, and what is typed meanwhile."""

    def __init__(self, leaving: Event, *, tty: bool) -> None:
        """`leaving` is set when it is time to end; `tty`: a person is looking, else only answers are printed."""
        self._leaving = leaving
        self.tty = tty
        self._typed: deque[str] = deque()
        self._typing = Typing(self._typed, self._stops)
        self.stop: Callable[[str], tuple[bool, str] | None] = lambda _: None
        self._streamed = ""
        self._answering = False

    def greet(self, app: App) -> None:
        """Say who answers, on which board."""
        from picoclaw.hw import health

        self._dim(f"{app.provider.name} on {health.model(app.board)}. /help for help, Ctrl-D to leave.")

    def lines(self) -> Iterator[str]:
        """What the person types, line by line, without the empty ones."""
        while not self._leaving.is_set():
            try:
                line = self._typed.popleft() if self._typed else self._read()
            except KeyboardInterrupt:
                if not self.tty or self._leaving.is_set():
                    return
                print("\n(Ctrl-D leaves)")
                continue
            except EOFError:
                if self.tty:
                    print()
                return
            if line in {"/quit", "/exit"}:
                return
            if line:
                yield line

    def _read(self) -> str:
        if self.tty:
            return input("> ").strip()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    def _stops(self, line: str) -> bool:
        """Heed the order to stop the outputs while a turn runs, from the thread that reads the terminal."""
        said = self.stop(line)
        if said:
            print(f"\n{printable(said[1])}", flush=True)
        return said is not None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Watch what is typed while a turn runs."""
        self._streamed, self._answering = "", True
        try:
            with self._typing if self.tty else nullcontext():
                yield
        finally:
            self._answering = False

    def hear(self, event: Happening | ToolRun) -> None:
        """Show an event of the turn as it happens."""
        if not self.tty:
            return
        if isinstance(event, Text):
            self._streamed += event.text
            print(printable(event.text), end="", flush=True)
        elif isinstance(event, ToolRun):
            self._break()
            arguments = json.dumps(event.arguments, ensure_ascii=False) if event.arguments else ""
            self._dim(f"· {event.name} {arguments} → {event.result}")
        elif isinstance(event, ToolCall | Notice):
            self._break()

    def say(self, text: str) -> None:
        """Show a message that is sent ahead of the answer."""
        self._break()
        print(printable(text), flush=True)

    def remind(self, text: str) -> None:
        """Show a reminder, from another thread, while the person may be typing."""
        import readline

        if self._answering:  # what stands in the line is not typed, and would be gone
            print(f"\n{printable(text)}", flush=True)
            return
        print(f"\r\x1b[K{printable(text)}\n> {readline.get_line_buffer()}", end="", flush=True)

    def end(self, reply: str, *, simulated: bool, failed: bool) -> None:
        """Show what of the answer was not streamed, and what the board is."""
        if not failed:
            shown = self._streamed.rstrip().endswith(reply.strip())
            rest = "" if shown else reply[len(self._streamed) :] if reply.startswith(self._streamed) else f"\n{reply}"
            print(printable(rest))
            if simulated:
                self._dim(SIMULATED)
        else:
            self._break()

    def ask(self, call: str) -> bool:
        """Ask the person for a yes to exactly this call."""
        self._break()
        with self._typing.paused():
            print(f"Allow this call? {printable(call)}", flush=True)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
            try:
                answer = input("[y/N] ").strip().lower()
                return not self._stops(answer) and answer in {"y", "yes"}
            except EOFError:
                return False

    def _break(self) -> None:
        if self._streamed and not self._streamed.endswith("\n") and self.tty:
            print()
        self._streamed = ""

    def _dim(self, text: str) -> None:
        if not self.tty:
            print(text)
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        line = " ".join(printable(text).split())
        print(f"{_DIM}{line if len(line) <= width else line[: width - 1] + '…'}{_PLAIN}")


@contextmanager
def _line_history(path: Path) -> Iterator[None]:
    """Keep the typed lines for the next time, readable by the owner alone."""
    import readline

    readline.set_history_length(_HISTORY_LINES)
    try:
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError:
        pass
    try:
        yield
    finally:
        try:
            readline.write_history_file(path)
        except OSError as error:
            print(f"picoclaw: {path} could not be written: {explain(error)}", file=sys.stderr)
