"""`picoclaw chat`: one question with -m, a conversation on a terminal, or a line each from a pipe."""

import argparse
import json
import os
import shutil
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from picoclaw.agent.dispatcher import BY_COMMAND, replace_surrogates
from picoclaw.agent.subagents import has_pending_tasks
from picoclaw.app import SIMULATED_MARK, App, is_simulated
from picoclaw.channels import channel
from picoclaw.cli.common import add_board_option, check_conversation, open_app, retry_after_repair
from picoclaw.cli.keyboard import KeyboardReader
from picoclaw.config.credentials import list_stored_secrets
from picoclaw.daemon.background import BackgroundWorker, IdleThread
from picoclaw.daemon.heartbeats import run_heartbeats
from picoclaw.daemon.signals import TurnStopper, block_signals, handle_signals, ignore_signals
from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error
from picoclaw.messages import DEFAULT_SESSION, Inbound, Notice, Text, ToolCall, ToolRun, Turn, TurnHooks
from picoclaw.messages import Event as Happening
from picoclaw.resources import get_home
from picoclaw.security.policy import JOINT_QUESTION
from picoclaw.text import escape_unprintable, format_json
from picoclaw.window import remove_hints

if TYPE_CHECKING:
    from picoclaw.channels.ipc import IpcConnection


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this, print the answer and leave")
    parser.add_argument("--session", default=DEFAULT_SESSION, metavar="S", help="the conversation to go on with")
    parser.add_argument("--json", action="store_true", help="with -m: print the whole turn as JSON")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Answer; exit code 1 when a question had no answer."""
    if given.session != DEFAULT_SESSION:
        retry_after_repair(partial(_check_conversation, given))
    if given.message is None:
        if given.json:
            print("picoclaw chat: --json needs -m", file=sys.stderr)
            return 2
        if line := _connect_to_daemon(given):
            from picoclaw.cli import remote

            return remote.run_remote_chat(line, given, get_home(os.environ))

        return retry_after_repair(lambda: run_local_chat(given, handle_signals()))
    if not given.message.strip():
        print("picoclaw chat: -m needs a text that is not empty", file=sys.stderr)
        return 2
    if line := _connect_to_daemon(given):
        from picoclaw.cli import remote

        return remote.ask_remote_once(line, given)
    return retry_after_repair(partial(_answer_locally, given))


def _check_conversation(given: argparse.Namespace) -> int:
    with open_app(given, make=False) as app:
        check_conversation(app, replace_surrogates(given.session))
    return 0


def _answer_locally(given: argparse.Namespace) -> int:
    """Answer one question in this process."""
    with open_app(given, agent=True) as app:
        leaving = handle_signals()
        code = _answer_once(app, given, leaving)
        if leaving.is_set():
            app.wiring.abandon()
        return code


def _connect_to_daemon(given: argparse.Namespace) -> "IpcConnection | None":
    """Reach the picoclaw that runs on this home; one that a board is named for talks to that board itself."""
    home = get_home(os.environ)
    if given.board or not (home / "run.sock").exists():
        return None
    from picoclaw.channels.ipc import connect

    return connect(home)


def _answer_once(app: App, given: argparse.Namespace, leaving: Event) -> int:
    said: list[str] = []
    say = said.append if given.json else lambda text: print(escape_unprintable(text), flush=True)
    app.changed = lambda asked: say(f"{asked.numbered}\n(it waits: {asked.answers})") if asked.is_new else None
    turn = app.dispatcher.answer(Inbound(given.session, given.message), TurnHooks(say, shield=block_signals, once=True))
    mark = [SIMULATED_MARK] if is_simulated(app, turn) else []
    if given.json:
        shown = turn_to_dict(app, turn, "\n\n".join([*said, turn.reply, *mark]))
        done = print_turn_as_json(app, given.session, shown, leaving)
    elif turn.stopped != "error":
        print(escape_unprintable("\n".join([turn.reply, *mark])), flush=True)
    if not given.json:
        done = wait_for_subagents(app, given.session, say, leaving)
    if done:
        finish_turn(app, given.session, turn)
    ignore_signals()
    return print_notice(turn)


def print_turn_as_json(app: App, session: str, shown: dict[str, Any], leaving: Event | None = None) -> bool:
    """Print a turn as JSON, with the reports of this chat's helpers; see wait_for_helpers."""

    def show(reports: list[str]) -> None:
        print(format_json(shown | ({"helpers": reports} if reports else {})), flush=True)

    if has_pending_tasks(lambda: app.subagent_tasks, session):
        from picoclaw.cli.subagents import run_subagents_then_report

        return run_subagents_then_report(app, session, show, leaving)
    show([])
    return True


def wait_for_subagents(app: App, session: str, tell: Callable[[str], None], leaving: Event | None = None) -> bool:
    """Have done what helpers of this chat were given, and tell their reports; False when Ctrl-C left some undone.

    When the program is `leaving`, what they have switched on goes off.
    """
    if has_pending_tasks(lambda: app.subagent_tasks, session):
        from picoclaw.cli.subagents import run_subagents

        return run_subagents(app, session, tell, leaving)
    return True


def finish_turn(app: App, session: str, turn: Turn) -> None:
    """Do what an answer leaves to do, once it was printed; what goes wrong is said on stderr.

    A command, which takes neither a model nor the network, leaves nothing.
    """
    if turn.provider == BY_COMMAND:
        return
    for line in [*app.settle(session), *_run_daily_maintenance(app)]:
        print(f"picoclaw: {escape_unprintable(line)}", file=sys.stderr)


def _run_daily_maintenance(app: App) -> list[str]:
    """Let go of old conversations, if any was opened; an open chat does so by itself."""
    return app.chores().daily(app.now()) if "database" in vars(app.stores) else []


def print_notice(turn: Turn) -> int:
    """Say on stderr, in one line, what the person should know about the turn; returns the exit code."""
    interrupted = "the turn was interrupted" if turn.stopped == "stopped" else ""
    notice = turn.unsaid_notice if _is_same_output() else turn.notice.text
    if said := "; ".join(filter(None, [notice, interrupted])):
        print(f"picoclaw: {escape_unprintable(said)}", file=sys.stderr)
    return 1 if turn.notice.failed or interrupted else 0


def _is_same_output() -> bool:
    """Whether what goes to stderr is read beside the answer, as on a terminal: then nothing need be said twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def turn_to_dict(app: App, turn: Turn, reply: str) -> dict[str, Any]:
    """Describe a turn for programs."""
    return channel.turn_to_json(turn, reply, simulated=app.board.simulated)


# What a person sees of a chat on a terminal, and what is typed while a turn runs.

_DIM_CODE, _RESET_CODE = "\x1b[2m", "\x1b[0m"


class Screen:
    """What is shown, and what is typed meanwhile."""

    def __init__(self, leaving: Event, *, tty: bool) -> None:
        """`leaving` is set when it is time to end; `tty`: a person is looking, else only answers are printed."""
        self._leaving = leaving
        self.tty = tty
        self._waiting: deque[str] = deque()
        self._said: deque[str] = deque()
        self._typing = KeyboardReader(self._take)
        self._ending = TurnStopper()
        self._running = False
        self.stop: Callable[[str], tuple[bool, str] | None] = lambda _: None
        self._streamed = ""
        self._failed: ToolRun | None = None

    def greet(self, app: App) -> None:
        """Say who answers, on which board."""
        from picoclaw.hw import health

        self._dim(f"{app.provider.name} on {health.read_model(app.board)}. /help for help, Ctrl-D to leave.")

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
        print(f"> {escape_unprintable(line)}")
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
            print(f"\n{escape_unprintable(said[1])}", flush=True)
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
    def turn(self) -> Iterator[TurnHooks]:
        """Show a turn while it runs, and watch what is typed."""
        self._streamed = ""
        if not self.tty:
            yield TurnHooks(self.say, self.hear, shield=block_signals)
            return
        self._running = True
        try:
            with self._ending.turn() as stop, self._typing:
                yield TurnHooks(self.say, self.hear, self._heard, stop, shield=block_signals)
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
            print(escape_unprintable(event.text), end="", flush=True)
        elif isinstance(event, ToolRun):
            self._break()
            if event.result.startswith("error: "):
                self._failed = event
            else:
                self._show_call(event, remove_hints(event.result))
        elif isinstance(event, ToolCall | Notice):
            self._break()

    def _show_call(self, call: ToolRun, result: str) -> None:
        arguments = json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
        self._dim(f"· {call.name} {arguments} → {result}")

    def say(self, text: str) -> None:
        """Show a message that is sent ahead of the answer."""
        self._break()
        print(escape_unprintable(text), flush=True)

    def remind(self, text: str) -> None:
        """Show a reminder, from another thread, while the person may be typing."""
        import readline

        if self._running:
            above = "" if not self._streamed or self._streamed.endswith("\n") else "\n"
            print(f"{above}{escape_unprintable(text)}", flush=True)
            return
        print(f"\r\x1b[K{escape_unprintable(text)}\n> {readline.get_line_buffer()}", end="", flush=True)

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
        print(escape_unprintable(rest))
        if simulated:
            self._dim(SIMULATED_MARK)

    def ask(self, call: str) -> bool:
        """Ask the person for a yes to exactly this call."""
        self._break()
        with self._typing.paused():
            several = call.partition("\n")[0].endswith(JOINT_QUESTION)
            print(f"Allow {'these calls' if several else 'this call'}? {escape_unprintable(call)}", flush=True)
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
        line = " ".join(escape_unprintable(text).split())
        print(f"{_DIM_CODE}{line if len(line) <= width else line[: width - 1] + '…'}{_RESET_CODE}")


# The conversation on a terminal, and from a pipe, which is read a message a line and told the answers alone.

_MAX_HISTORY_LINES = 1000
_TERMINAL_COMMANDS = (("quit", "leave; Ctrl-D does the same, and Ctrl-C the same as /stop"),)
_TYPE_AHEAD_HELP = "What you type while a turn runs is heeded between two of its steps; commands wait for its end."


def run_local_chat(given: argparse.Namespace, leaving: Event) -> int:
    """Talk until the input ends, or `leaving` is set; returns 0, or 1 when an answer to a pipe failed."""
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(leaving, tty=tty)
    with open_app(given, screen.ask if tty else None, agent=True) as app:
        if not tty:
            return _answer_piped_lines(app, given.session, screen, leaving)
        screen.stop = partial(app.wiring.stop, who="owner")
        with keep_line_history(app.config.home / "chat_history"), _run_background(app, given.session, screen, leaving):
            screen.greet(app)
            with run_heartbeats(app, screen.remind) as resting:
                _answer_typed_lines(app, given.session, screen, resting)
        if leaving.is_set():
            app.wiring.abandon()
    return 0


def _answer_piped_lines(app: App, session: str, screen: Screen, leaving: Event) -> int:
    """Answer line by line; what an answer leaves to do is done before the next line is read."""
    code = 0
    for line in screen.lines():
        code = max(code, _answer_line(app, session, line, screen))
    wait_for_subagents(app, session, screen.say, leaving)
    return code


@contextmanager
def _run_background(app: App, session: str, screen: Screen, leaving: Event) -> Iterator[None]:
    try:
        clockwork = BackgroundWorker(app, session, screen.remind, leaving)
    except OSError as error:
        print(f"picoclaw: reminders cannot be told in this chat: {explain_os_error(error)}", file=sys.stderr)
        yield
        return
    with clockwork:
        yield
    if has_pending_tasks(lambda: app.subagent_tasks, session):
        print("picoclaw: the helpers go on when picoclaw runs again", file=sys.stderr)


def _answer_typed_lines(
    app: App, session: str, screen: Screen, resting: Callable[[], AbstractContextManager[None]]
) -> None:
    idle = IdleThread(app, screen.remind)
    idle.start()
    try:
        for line in screen.lines():
            with suppress(KeyboardInterrupt), idle.turn(session), resting():  # Ctrl-C again, with nothing left to end
                _answer_line(app, session, line, screen)
    finally:
        idle.stop()


def _answer_line(app: App, session: str, line: str, screen: Screen) -> int:
    if screen.tty and print_help_if_asked(line):
        return 0
    turn: Turn | None = None
    try:
        with screen.turn() as around:
            turn = app.dispatcher.answer(Inbound(session, line), around)
    except KeyboardInterrupt:
        if turn is None:
            screen.keep()
            print("picoclaw: interrupted before it had begun", file=sys.stderr)
            return 1
    screen.end(turn, simulated=is_simulated(app, turn))
    code = print_notice(turn._replace(stopped=turn.stopped.replace("stopped", "")) if screen.tty else turn)
    if not screen.tty:
        sys.stdout.flush()
        finish_turn(app, session, turn)
    return code


def print_help_if_asked(line: str) -> bool:
    """Tell what can be typed, if a line asks for that; tells whether it did."""
    if line.lower() != "/help":
        return False
    from picoclaw.agent.commands import format_command_list

    print(f"Type a question, or one of:\n{format_command_list(_TERMINAL_COMMANDS)}\n{_TYPE_AHEAD_HELP}")
    return True


def _load_known_secrets(home: Path) -> frozenset[str]:
    """Read the secrets of a home; none where that is not possible, and what looks like one is known all the same."""
    try:
        return list_stored_secrets(home, os.environ)
    except ConfigError:
        return frozenset()


@contextmanager
def keep_line_history(path: Path) -> Iterator[None]:
    """Keep the typed lines for the next time, readable by the owner alone and without secrets."""
    import readline

    from picoclaw.security.redaction import Redactor

    readline.set_history_length(_MAX_HISTORY_LINES)
    try:
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError:
        pass
    try:
        yield
    finally:
        redact = Redactor(_load_known_secrets(path.parent))
        for number in range(readline.get_current_history_length()):
            line = str(readline.get_history_item(number + 1) or "")
            if (masked := redact(line)) != line:
                readline.replace_history_item(number, masked)
        try:
            readline.write_history_file(path)
        except OSError as error:
            print(f"picoclaw: {path} could not be written: {explain_os_error(error)}", file=sys.stderr)
