"""The conversation on a terminal, and from a pipe, which is read a message a line and told the answers alone."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event

from picoclaw.app import App
from picoclaw.cli.chat import report, settle, simulated, wait_for_helpers
from picoclaw.cli.clockwork import Clockwork
from picoclaw.cli.common import opened
from picoclaw.cli.heartbeat import beating
from picoclaw.cli.idle import IdleThread
from picoclaw.cli.screen import Screen
from picoclaw.config.keys import known_secrets
from picoclaw.disk import explain
from picoclaw.errand import pending
from picoclaw.errors import ConfigError
from picoclaw.messages import Inbound, Turn

_HISTORY_LINES = 1000
_OWN = (("quit", "leave; Ctrl-D does the same, and Ctrl-C the same as /stop"),)
_MEANWHILE = "What you type while a turn runs is heeded between two of its steps; commands wait for its end."


def converse(given: argparse.Namespace, leaving: Event) -> int:
    """Talk until the input ends, or `leaving` is set; returns 0, or 1 when an answer to a pipe failed."""
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(leaving, tty=tty)
    with opened(given, screen.ask if tty else None, agent=True) as app:
        if not tty:
            return _piped(app, given.session, screen, leaving)
        screen.stop = partial(app.wiring.stop, who="owner")
        with line_history(app.config.home / "chat_history"), _clockwork(app, given.session, screen, leaving):
            screen.greet(app)
            with beating(app, screen.remind) as resting:
                _talk(app, given.session, screen, resting)
        if leaving.is_set():
            app.wiring.abandon()
    return 0


def _piped(app: App, session: str, screen: Screen, leaving: Event) -> int:
    """Answer line by line; what an answer leaves to do is done before the next line is read."""
    code = 0
    for line in screen.lines():
        code = max(code, _turn(app, session, line, screen))
    wait_for_helpers(app, session, screen.say, leaving)
    return code


@contextmanager
def _clockwork(app: App, session: str, screen: Screen, leaving: Event) -> Iterator[None]:
    try:
        clockwork = Clockwork(app, session, screen.remind, leaving)
    except OSError as error:
        print(f"picoclaw: reminders cannot be told in this chat: {explain(error)}", file=sys.stderr)
        yield
        return
    with clockwork:
        yield
    if pending(lambda: app.helpers, session):
        print("picoclaw: the helpers go on when picoclaw runs again", file=sys.stderr)


def _talk(app: App, session: str, screen: Screen, resting: Callable[[], AbstractContextManager[None]]) -> None:
    idle = IdleThread(app, screen.remind, session)
    idle.start()
    try:
        for line in screen.lines():
            with suppress(KeyboardInterrupt), idle.turn(), resting():  # Ctrl-C again, with nothing left to end
                _turn(app, session, line, screen)
    finally:
        idle.stop()


def _turn(app: App, session: str, line: str, screen: Screen) -> int:
    if screen.tty and helped_at(line):
        return 0
    turn: Turn | None = None
    try:
        with screen.turn() as around:
            turn = app.answer(Inbound(session, line), around)
    except KeyboardInterrupt:
        if turn is None:
            screen.keep()
            print("picoclaw: interrupted before it had begun", file=sys.stderr)
            return 1
    screen.end(turn, simulated=simulated(app, turn))
    code = report(turn._replace(stopped=turn.stopped.replace("stopped", "")) if screen.tty else turn)
    if not screen.tty:
        sys.stdout.flush()
        settle(app, session, turn)
    return code


def helped_at(line: str) -> bool:
    """Tell what can be typed, if a line asks for that; tells whether it did."""
    if line.lower() != "/help":
        return False
    from picoclaw.commands import listed

    print(f"Type a question, or one of:\n{listed(_OWN)}\n{_MEANWHILE}")
    return True


def _keys_in(home: Path) -> frozenset[str]:
    """Read the secrets of a home; none where that is not possible, and what looks like one is known all the same."""
    try:
        return known_secrets(home, os.environ)
    except ConfigError:
        return frozenset()


@contextmanager
def line_history(path: Path) -> Iterator[None]:
    """Keep the typed lines for the next time, readable by the owner alone and without secrets."""
    import readline

    from picoclaw.redact import Redactor

    readline.set_history_length(_HISTORY_LINES)
    try:
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError:
        pass
    try:
        yield
    finally:
        redact = Redactor(_keys_in(path.parent))
        for number in range(readline.get_current_history_length()):
            line = str(readline.get_history_item(number + 1) or "")
            if (masked := redact(line)) != line:
                readline.replace_history_item(number, masked)
        try:
            readline.write_history_file(path)
        except OSError as error:
            print(f"picoclaw: {path} could not be written: {explain(error)}", file=sys.stderr)
