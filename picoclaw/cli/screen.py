"""What a person sees of a chat on a terminal, and what is typed while a turn runs."""

import json
import shutil
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event

from picoclaw.app import SIMULATED, App
from picoclaw.around import Around
from picoclaw.cli.common import printable
from picoclaw.cli.keys import Ending, Typing, uninterrupted
from picoclaw.messages import Event as Happening
from picoclaw.messages import Notice, Text, ToolCall, ToolRun, Turn
from picoclaw.trust.policy import TOGETHER
from picoclaw.window import without_hints

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    """What is shown, and what is typed meanwhile."""

    def __init__(self, leaving: Event, *, tty: bool) -> None:
        """`leaving` is set when it is time to end; `tty`: a person is looking, else only answers are printed."""
        self._leaving = leaving
        self.tty = tty
        self._waiting: deque[str] = deque()
        self._said: deque[str] = deque()
        self._typing = Typing(self._take)
        self._ending = Ending()
        self._running = False
        self.stop: Callable[[str], tuple[bool, str] | None] = lambda _: None
        self._streamed = ""
        self._failed: ToolRun | None = None

    def greet(self, app: App) -> None:
        """Say who answers, on which board."""
        from picoclaw.hw import health

        self._dim(f"{app.provider.name} on {health.model(app.board)}. /help for help, Ctrl-D to leave.")

    def lines(self) -> Iterator[str]:
        """What the person types, line by line, without the empty ones."""
        while not self._leaving.is_set():
            try:
                line = self._next() if self._waiting else self._read()
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

    def _next(self) -> str:
        """Take the first of the lines that wait, and show which one it is."""
        line = self._waiting.popleft()
        print(f"> {printable(line)}")
        return line

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

    def _take(self, line: str) -> None:
        """Deal with a line that is typed while a turn runs, in the thread that reads the terminal.

        A command waits until the turn has ended, and so does what is typed after one.
        """
        if line.lower() == "/stop" or self._stops(line):
            self._ending.say()
        elif line.startswith("/") or self._waiting:
            self._waiting.append(line)
        else:
            self._said.append(line)

    def _heard(self) -> list[str]:
        """Give what was said since this was last asked."""
        said = []
        while self._said:
            said.append(self._said.popleft())
            self._break()
            self._dim(f"· heard: {said[-1]}")
        return said

    def keep(self, unheard: Sequence[str] = ()) -> None:
        """Have answered next what was handed back `unheard`, and then what nobody asked for."""
        self._waiting.extendleft(reversed([*unheard, *self._said]))
        self._said.clear()

    @contextmanager
    def turn(self) -> Iterator[Around]:
        """Show a turn while it runs, and watch what is typed."""
        self._streamed = ""
        if not self.tty:
            yield Around(self.say, self.hear, shield=uninterrupted)
            return
        self._running = True
        try:
            with self._ending.turn() as stop, self._typing:
                yield Around(self.say, self.hear, self._heard, stop, shield=uninterrupted)
        finally:
            self._running = False

    def hear(self, event: Happening | ToolRun) -> None:
        """Show an event of the turn as it happens."""
        if not self.tty:
            return
        if self._failed and isinstance(event, Text | Notice | ToolCall | ToolRun):
            error = self._failed.result.removeprefix("error: ")
            is_next = isinstance(event, Text | Notice) and error in event.text  # the answer says it as well
            self._show_call(self._failed, "failed" if is_next else self._failed.result)
            self._failed = None
        if isinstance(event, Text):
            self._streamed += event.text
            print(printable(event.text), end="", flush=True)
        elif isinstance(event, ToolRun):
            self._break()
            if event.result.startswith("error: "):
                self._failed = event
            else:
                self._show_call(event, without_hints(event.result))
        elif isinstance(event, ToolCall | Notice):
            self._break()

    def _show_call(self, call: ToolRun, result: str) -> None:
        arguments = json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
        self._dim(f"· {call.name} {arguments} → {result}")

    def say(self, text: str) -> None:
        """Show a message that is sent ahead of the answer."""
        self._break()
        print(printable(text), flush=True)

    def remind(self, text: str) -> None:
        """Show a reminder, from another thread, while the person may be typing."""
        import readline

        if self._running:
            above = "" if not self._streamed or self._streamed.endswith("\n") else "\n"
            print(f"{above}{printable(text)}", flush=True)
            return
        print(f"\r\x1b[K{printable(text)}\n> {readline.get_line_buffer()}", end="", flush=True)

    def end(self, turn: Turn, *, simulated: bool) -> None:
        """Show what of the answer was not streamed, and what the board is; what nobody has heard is asked next."""
        self.keep(turn.unheard)
        if self._failed:
            self._show_call(self._failed, self._failed.result)
            self._failed = None
        if turn.stopped == "error":
            self._break()
            return
        reply = turn.reply
        shown = self._streamed.rstrip().endswith(reply.strip())
        rest = "" if shown else reply[len(self._streamed) :] if reply.startswith(self._streamed) else f"\n{reply}"
        print(printable(rest))
        if simulated:
            self._dim(SIMULATED)

    def ask(self, call: str) -> bool:
        """Ask the person for a yes to exactly this call."""
        self._break()
        with self._typing.paused():
            several = call.partition("\n")[0].endswith(TOGETHER)
            print(f"Allow {'these calls' if several else 'this call'}? {printable(call)}", flush=True)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
            try:
                answer = input("[y/N] ").strip().lower()
                if answer not in {"y", "yes"}:
                    self._answered_otherwise(answer)
                return answer in {"y", "yes"}
            except EOFError:
                return False

    def _answered_otherwise(self, answer: str) -> None:
        """Heed what is no yes where it ends the turn as well."""
        if answer == "/stop" or self._stops(answer):
            self._ending.say()

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
