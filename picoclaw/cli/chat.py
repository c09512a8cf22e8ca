"""`picoclaw chat`: one question with -m, a conversation on a terminal, or a line each from a pipe.

The daemon that runs on the home answers; where none runs, one in this process does.
"""

import json
import os
import pwd
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, product
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from picoclaw.cli.arguments import Options, Parser, fit_to_terminal, get_width
from picoclaw.cli.common import (
    DEFAULT_SESSION,
    add_board_option,
    check_conversation,
    open_app,
    print_note,
    print_safe,
    print_wrapped,
    retry_after_repair,
)
from picoclaw.daemon.process import handle_signals, ignore_signals
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.files import explain_os_error, get_home
from picoclaw.text import escape_unprintable, format_json, pattern, truncate

if TYPE_CHECKING:
    from picoclaw.channels.ipc import IpcConnection
    from picoclaw.daemon.local import LocalDaemon

ChatEvent = dict[str, Any]


def options(parser: Parser) -> None:
    parser.add_argument("-m, --message TEXT", "ask this, print the answer and exit")
    parser.add_argument("--session S", "the conversation to continue", default=DEFAULT_SESSION)
    parser.add_argument(
        "--agent KEY", "the agent to talk to, in its own conversation: see `picoclaw agents`", default=""
    )
    parser.add_argument("--on USER", "talk to the picoclaw that this user of the machine runs", default="")
    parser.add_argument("--json", "with -m: print the whole turn as JSON")
    add_board_option(parser)
    parser.too_much = '; a question goes behind -m, in quotes, such as -m "how warm is it?"'


def run(given: Options, who: str = "") -> int:
    """Answer; exit code 1 when a question had no answer. `who` asks, in this process."""
    other = _find_other_board(given)
    if other:
        if given.agent or given.board:
            raise ConfigError(
                "--agent and --board are for a home of your own; in the chat, /agent KEY chooses an agent"
            )
    elif given.agent:
        retry_after_repair(partial(_choose_agent, given))
    elif given.session != DEFAULT_SESSION:
        retry_after_repair(partial(_check_session, given))
    if given.message is None and given.json:
        print("picoclaw chat: --json needs -m", file=sys.stderr)
        return 2
    if given.message is not None and not given.message.strip():
        print("picoclaw chat: -m needs a text that is not empty", file=sys.stderr)
        return 2
    leaving, home = handle_signals(), get_home(os.environ)
    tty = given.message is None and sys.stdin.isatty() and sys.stdout.isatty()
    terminal = Terminal(leaving) if tty else None
    if other:
        return _talk_as_person(other, given, terminal, leaving)
    if not given.board and (home / "run.sock").exists():  # who names a board talks to that board itself
        from picoclaw.channels.ipc import connect

        if line := connect(home):
            return _talk(RemoteDaemon(line, given, partial(connect, home)), given, terminal, leaving)
    return retry_after_repair(lambda: _talk_locally(given, terminal, leaving, who))


_SERVICE_USER = "picoclaw"


def _find_other_board(given: Options) -> str:
    """Name the user whose picoclaw is talked to, '' for our own: who has no home asks the service of this machine."""
    if given.on or given.board or os.environ.get("PICOCLAW_HOME") or get_home(os.environ).exists():
        return str(given.on)
    from picoclaw.channels.ipc import connect_as_person

    with suppress(KeyError):
        user = pwd.getpwnam(_SERVICE_USER).pw_uid
        if user != os.getuid() and (line := connect_as_person(user)):
            line.close()
            return _SERVICE_USER
    return ""


def _talk_as_person(other: str, given: Options, terminal: "Terminal | None", leaving: threading.Event) -> int:
    from picoclaw.channels.ipc import connect_as_person

    try:
        reach = partial(connect_as_person, pwd.getpwnam(other).pw_uid)
    except KeyError:
        raise ConfigError(f"this machine has no user {other!r}") from None
    if not (line := reach()):
        raise ConfigError(
            f"no picoclaw of {other} listens to other users: it does while `picoclaw run` is running and a"
            " [people.NAME] in its config.toml has a terminal"
        )
    return _talk(RemoteDaemon(line, given, reach, is_own=False), given, terminal, leaving)


def _check_session(given: Options) -> int:
    with open_app(given, make=False) as app:
        check_conversation(app, given.session)
    return 0


def _choose_agent(given: Options) -> int:
    """Hold the conversation with the agent; without --session that is one of the agent's name."""
    from picoclaw.agents import check_agent

    with open_app(given) as app:
        key = check_agent(app.config, given.agent)
        if key and given.session == DEFAULT_SESSION:
            given.session = key
        app.stores.sessions.set_agent(given.session, key, app.now())
    return 0


def _talk_locally(given: Options, terminal: "Terminal | None", leaving: threading.Event, who: str) -> int:
    from picoclaw.daemon.local import LocalDaemon

    with open_app(given, terminal.ask if terminal else None, agent=True) as app:
        daemon = LocalDaemon(app, given.session, leaving, print_note, who)
        code = _talk(daemon, given, terminal, leaving)
        if leaving.is_set():
            app.wiring.abandon()
    return code


def _talk(
    daemon: "LocalDaemon | RemoteDaemon", given: Options, terminal: "Terminal | None", leaving: threading.Event
) -> int:
    if given.message is not None:
        return _ask_once(daemon, given)
    if terminal is None:
        return _answer_piped_lines(daemon, leaving)
    return terminal.run(daemon, get_home(os.environ) / "chat_history")


def _ask_once(daemon: "LocalDaemon | RemoteDaemon", given: Options) -> int:
    """Ask one question and print the answer; Ctrl-C ends the turn."""
    said: list[str] = []
    questions: list[ChatEvent] = []

    def show(event: ChatEvent) -> None:
        if question := event.get("question"):
            questions.append(question)
        else:
            _show_plain(said.append if given.json else print_safe, event)

    end = daemon.ask(given.message, show, once=True)
    for question in questions:  # an answer that asks it itself is enough
        number = question["number"]
        if f"/yes {number} " not in end["reply"]:
            _show_plain(said.append if given.json else print_safe, {"question": question})
        elif not given.json:  # it is read at a shell
            for part, word in product(("reply", "notice"), ("yes", "no")):
                end[part] = end[part].replace(f"/{word} {number} ", f"`picoclaw approvals {word} {number}` ")

    def print_json(reports: list[str]) -> None:
        reply = "\n\n".join(filter(None, [*said, end["reply"], end["mark"]]))
        shown = {"reply": reply} | {name: end.get(name) for name in ("turn", "provider", "simulated")}
        print(format_json(shown | ({"subagents": reports} if reports else {})), flush=True)

    if given.json:
        done = daemon.finish(print_json, at_end=True)
    else:
        _print_answer(end)
        done = daemon.finish(lambda reports: print_safe(*reports), at_end=False)
    if done:
        daemon.settle(end)
    ignore_signals()
    return _print_notice(end)


_LEAVING = {"/quit", "/exit", "quit", "exit"}


def _answer_piped_lines(daemon: "LocalDaemon | RemoteDaemon", leaving: threading.Event) -> int:
    """Answer line by line; what an answer leaves to do is done before the next line is read."""
    code = 0
    while not leaving.is_set():
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            break
        text = line.strip()
        if not line or text.lower() in _LEAVING:
            break
        if text:
            end = daemon.ask(text, partial(_show_plain, print_safe))
            _print_answer(end)
            code = max(code, _print_notice(end))
            daemon.settle(end)
    daemon.finish(lambda reports: print_safe(*reports), at_end=False)
    return code


def _show_plain(say: Callable[[str], None], event: ChatEvent) -> None:
    """Show what comes ahead of an answer where nobody is there to be asked."""
    if "say" in event:
        say(str(event["say"]))
    elif question := event.get("question"):
        say(f"{question['text']}\n{format_answer_hint(question)}")


def format_answer_hint(question: ChatEvent) -> str:
    """Say how a question is answered by typing."""
    return f"(it waits: {question['answers']})"


def _print_answer(end: ChatEvent) -> None:
    if end["turn"]["stopped"] != "error":
        print_wrapped(*end["reply"].split("\n"), *filter(None, [end["mark"]]), indent="")


def _print_notice(end: ChatEvent, *, tty: bool = False) -> int:
    """Say on stderr, in one line, what the person should know about the turn; returns the exit code."""
    notice, stopped = str(end["notice"]), end["turn"]["stopped"]
    interrupted = "the turn was interrupted" if stopped == "stopped" and not tty else ""
    if stopped != "error" and _is_same_output():
        notice = "; ".join(part for part in notice.split("; ") if part not in end["reply"])
    if said := "; ".join(filter(None, [notice, interrupted])):
        print_note(said)
    return 1 if end["failed"] or interrupted else 0


def _is_same_output() -> bool:
    """Whether what goes to stderr is read beside the answer, as on a terminal: then nothing need be said twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


# A person at a terminal.

_WORDS = pattern(r"\s+|\S+")
_LONGEST_REST = 16
"""Characters that may still come of a word which is shown before it has ended."""
_DIM_CODE, _RESET_CODE = "\x1b[2m", "\x1b[0m"
_MAX_HISTORY_LINES = 1000
_LOCAL_COMMANDS = {*_LEAVING, "/help"}
_TERMINAL_COMMANDS = (("quit", "leave; Ctrl-D does the same, and Ctrl-C the same as /stop"),)
_TYPE_AHEAD_HELP = "What you type while a turn runs is heeded between two of its steps; commands wait for its end."
_JOINT_QUESTION_END = "one answer for all of them:"


class Terminal:
    """What a person sees, and types meanwhile."""

    def __init__(self, leaving: threading.Event) -> None:
        """`leaving` is set when it is time to end."""
        self.leaving = leaving
        self._waiting: deque[str] = deque()
        self._questions: deque[ChatEvent] = deque()
        self._keyboard = KeyboardReader(self._take)
        self._running = False
        self._streamed = self._word = ""
        self._column = 0
        self._turns = 0
        self._failed: ChatEvent | None = None

    def run(self, daemon: "LocalDaemon | RemoteDaemon", history: Path) -> int:
        """Talk until the input ends; returns 1 when something was typed in vain."""
        self._daemon = daemon
        with keep_line_history(history), daemon.attend(self):
            for line in self._lines():
                if line.lower() == "/help":
                    from picoclaw.agent.commands import format_command_list

                    commands = format_command_list(_TERMINAL_COMMANDS)
                    print(f"Type a question, or one of:\n{commands}\n{_TYPE_AHEAD_HELP}")
                else:
                    daemon.answer_line(line)
        unsent = daemon.list_unsent()
        for text in unsent:
            print(escape_unprintable(f"picoclaw: not sent: {text}"))
        return 1 if unsent else 0

    def greet(self, who: str) -> None:
        first, *offers = who.split("\n")
        line, leave = f"{first}.", "/help for help, Ctrl-D to leave."
        for shown in [f"{line} {leave}"] if len(line + leave) < get_width() - 1 else [line, leave]:
            self._dim(shown)
        print_wrapped(*offers)

    def _lines(self) -> Iterator[str]:
        """What the person types, line by line, without the empty ones."""
        while not self.leaving.is_set():
            try:
                if self._waiting:
                    line = self._waiting.popleft()
                    print(f"> {escape_unprintable(line)}")
                else:
                    line = input("> ").strip()
            except KeyboardInterrupt:
                if self.leaving.is_set():
                    return
                print("\n(Ctrl-D leaves)")
                continue
            except EOFError:
                print()
                return
            if line.lower() in _LEAVING:
                return
            if line:
                yield line

    def _take(self, line: str) -> None:
        """Deal with a line that is typed while a turn runs, in the thread that reads the terminal."""
        if line.lower() == "/stop":
            self._daemon.end()
        elif line.lower() in _LOCAL_COMMANDS:
            self._waiting.append(line)
        else:
            self._daemon.send(line)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Watch what is typed while turns run."""
        self._streamed, self._word, self._column = "", "", 0
        self._turns, self._running = 0, True
        try:
            with self._keyboard:
                yield
        finally:
            self._running = False

    def show(self, event: ChatEvent) -> None:
        """Show what comes of a turn as it happens."""
        if text := event.get("text"):
            self._show_failed(text)
            self._streamed += text
            self._write(text)
        elif call := event.get("tool"):
            self._show_failed()
            self._break()
            if call["result"].startswith("error: "):
                self._failed = call
            else:
                self._show_call(call, call["result"])
        elif "pause" in event:
            self._show_failed(str(event["pause"]))
            self._break()
        elif said := event.get("say") or event.get("message"):
            self.say(str(said))
        elif "begin" in event:
            self._turns += 1
            if self._turns > 1 and not event["begin"].startswith(("/yes ", "/no ")):
                self.say(f"> {event['begin']}")
        elif heard := event.get("heard"):
            self._break()
            self._dim(f"· heard: {heard}")
        elif behind := event.get("behind"):
            self._dim(f"· {behind} is answered first")
        elif question := event.get("question"):
            self._questions.append(question)
        elif end := event.get("end"):
            self._show_end(end)

    def _show_failed(self, next_text: str = "") -> None:
        """Show a call that has failed, shortly where the answer says why as well."""
        if self._failed:
            call, self._failed = self._failed, None
            error = call["result"].removeprefix("error: ")
            self._show_call(call, "failed" if error in next_text else call["result"])

    def _show_call(self, call: ChatEvent, result: str) -> None:
        arguments = json.dumps(call["arguments"], ensure_ascii=False) if call["arguments"] else ""
        self._dim(f"· {call['name']} {arguments} → {result}")

    def _show_end(self, end: ChatEvent) -> None:
        """Show what of the answer was not streamed, and what the board is."""
        self._show_failed()
        if end["turn"]["stopped"] == "error":
            self._break()
        else:
            reply = end["reply"]
            shown = self._streamed.rstrip().endswith(reply.strip())
            rest = "" if shown else reply[len(self._streamed) :] if reply.startswith(self._streamed) else f"\n{reply}"
            self._write(f"{rest}\n")
            self._streamed = ""
            if end["mark"]:
                self._dim(end["mark"])
        _print_notice(end, tty=True)

    def say(self, text: str) -> None:
        """Show a message that comes ahead of the answer."""
        self._break()
        print_wrapped(*text.split("\n"), indent="")

    def remind(self, text: str) -> None:
        """Show a reminder, from another thread, while the person may be typing."""
        import readline

        shown = fit_to_terminal(escape_unprintable(text), sys.stdout, "")
        if self._running:
            above = "" if not self._streamed or self._streamed.endswith("\n") else "\n"
            print(f"{above}{shown}", flush=True)
        else:
            print(f"\r\x1b[K{shown}\n> {readline.get_line_buffer()}", end="", flush=True)

    def ask(self, call: str) -> bool:
        """Ask the person for a yes to exactly this call."""
        self._break()
        with self._keyboard.paused():
            several = call.partition("\n")[0].endswith(_JOINT_QUESTION_END)
            print(f"Allow {'these calls' if several else 'this call'}? {escape_unprintable(call)}", flush=True)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
            try:
                answer = input("[y/N] ").strip().lower()
            except EOFError:
                return False
            if answer == "/stop":
                self._daemon.end()
            elif answer not in {"y", "yes"}:
                self._daemon.heed(answer)
            return answer in {"y", "yes"}

    def ask_question(self) -> bool:
        """Ask the person what a turn has to be told; whether something was answered, and its outcome will come."""
        while self._questions:
            question = self._questions.popleft()
            try:
                word = "yes" if self.ask(str(question["text"])) else "no"
            except KeyboardInterrupt:
                print(f"\n{format_answer_hint(question)}")
                continue
            self._daemon.send(f"/{word} {question['number']} {question['id']}")
            return True
        return False

    def _write(self, text: str) -> None:
        """Write what is streamed, broken between words to the terminal's width.

        A word that may not fit into its line is held back until it ends.
        """
        width = get_width()
        for piece in _WORDS.findall(escape_unprintable(text)):
            if not piece.isspace():
                self._word += piece
                continue
            self._end_word(width)
            for character in piece:
                if character == "\n":
                    self._column = 0
                    print()
                elif self._column < width:
                    self._column += 1
                    print(character, end="")
        if self._column + len(self._word) + _LONGEST_REST <= width:
            self._end_word(width)
        sys.stdout.flush()

    def _end_word(self, width: int) -> None:
        if self._column and self._column + len(self._word) > width:
            self._column = 0
            print()
        print(self._word, end="", flush=True)
        self._column, self._word = self._column + len(self._word), ""

    def _break(self) -> None:
        self._end_word(get_width())
        if self._streamed and not self._streamed.endswith("\n"):
            print()
        self._streamed, self._column = "", 0

    def _dim(self, text: str) -> None:
        import shutil

        width = max(20, shutil.get_terminal_size().columns - 1)
        print(f"{_DIM_CODE}{truncate(' '.join(escape_unprintable(text).split()), width)}{_RESET_CODE}")


class KeyboardReader:
    """Reads the terminal during a turn, and hands on each line as it is typed."""

    def __init__(self, take: Callable[[str], None]) -> None:
        """`take` is called from the thread that reads, with "/quit" at the end of the input."""
        self._take = take
        self._thread: threading.Thread | None = None
        self._end = -1

    def __enter__(self) -> Self:
        """Begin to read, in a thread that sleeps until something is typed."""
        end, self._end = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(end,), name="typing", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal to others; may be called twice."""
        if self._thread is not None:
            os.close(self._end)
            self._thread.join()
            self._thread = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal alone for a question to the person."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def _read(self, end: int) -> None:
        try:
            while end not in (ready := select.select([0, end], [], [])[0]) and ready:
                text = os.read(0, 65_536).decode("utf-8", "replace")
                if not text:
                    self._take("/quit")
                    return
                for line in filter(None, map(str.strip, text.splitlines())):
                    self._take(line)
        finally:
            os.close(end)


@contextmanager
def keep_line_history(path: Path) -> Iterator[None]:
    """Keep the typed lines for the next time, readable by the owner alone and without secrets."""
    import readline

    readline.set_history_length(_MAX_HISTORY_LINES)
    try:
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError:
        pass
    try:
        yield
    finally:
        from picoclaw.config.files import list_stored_secrets
        from picoclaw.security.redaction import Redactor

        try:
            secrets = list_stored_secrets(path.parent, os.environ)
        except ConfigError:  # what looks like a secret is known all the same
            secrets = frozenset()
        redact = Redactor(secrets)
        for number in range(readline.get_current_history_length()):
            line = str(readline.get_history_item(number + 1) or "")
            if (masked := redact(line)) != line:
                readline.replace_history_item(number, masked)
        try:
            readline.write_history_file(path)
        except OSError as error:
            print_note(f"{path} could not be written: {explain_os_error(error)}")


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
        line: "IpcConnection",
        given: Options,
        connect: Callable[[float], "IpcConnection | None"],
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

    def _reconnect(self) -> "IpcConnection":
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

    def _try_connect(self) -> "IpcConnection | None":
        with suppress(OSError):
            if line := self._connect(_ATTACH_TIMEOUT_S):
                if self._attach(line):
                    line.connection.settimeout(None)
                    return line
                line.close()
        return None

    def _attach(self, line: "IpcConnection") -> str:
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
