"""`picoclaw chat`: one question with -m, a conversation on a terminal, or a line each from a pipe."""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from picoclaw.app import SIMULATED, App
from picoclaw.around import Around
from picoclaw.channels import described
from picoclaw.cli.common import board_option, check_conversation, json_text, mended, opened, printable
from picoclaw.cli.keys import heed_no_signals, listen_to_signals, uninterrupted
from picoclaw.config import home_folder
from picoclaw.desk import BY_COMMAND, clean
from picoclaw.errand import pending
from picoclaw.messages import DEFAULT_SESSION, Inbound, Turn

if TYPE_CHECKING:
    from picoclaw.channels.line import Line


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this, print the answer and leave")
    parser.add_argument("--session", default=DEFAULT_SESSION, metavar="S", help="the conversation to go on with")
    parser.add_argument("--json", action="store_true", help="with -m: print the whole turn as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Answer; exit code 1 when a question had no answer."""
    if given.session != DEFAULT_SESSION:
        mended(partial(_check_conversation, given))
    if given.message is None:
        if given.json:
            print("picoclaw chat: --json needs -m", file=sys.stderr)
            return 2
        if line := _daemon(given):
            from picoclaw.cli import attached

            return attached.converse(line, given, home_folder(os.environ))
        from picoclaw.cli.terminal import converse

        return mended(lambda: converse(given, listen_to_signals()))
    if not given.message.strip():
        print("picoclaw chat: -m needs a text that is not empty", file=sys.stderr)
        return 2
    if line := _daemon(given):
        from picoclaw.cli import attached

        return attached.once(line, given)
    return mended(partial(_alone, given))


def _check_conversation(given: argparse.Namespace) -> int:
    with opened(given, make=False) as app:
        check_conversation(app, clean(given.session))
    return 0


def _alone(given: argparse.Namespace) -> int:
    """Answer one question in this process."""
    with opened(given, agent=True) as app:
        leaving = listen_to_signals()
        code = _once(app, given, leaving)
        if leaving.is_set():
            app.wiring.abandon()
        return code


def _daemon(given: argparse.Namespace) -> "Line | None":
    """Reach the picoclaw that runs on this home; one that a board is named for talks to that board itself."""
    home = home_folder(os.environ)
    if given.board or not (home / "run.sock").exists():
        return None
    from picoclaw.channels.line import connect

    return connect(home)


def _once(app: App, given: argparse.Namespace, leaving: Event) -> int:
    said: list[str] = []
    say = said.append if given.json else lambda text: print(printable(text), flush=True)
    app.changed = lambda asked: say(f"{asked.numbered}\n(it waits: {asked.answers})") if asked.is_new else None
    turn = app.answer(Inbound(given.session, given.message), Around(say, shield=uninterrupted, once=True))
    mark = [SIMULATED] if simulated(app, turn) else []
    if given.json:
        shown = as_json(app, turn, "\n\n".join([*said, turn.reply, *mark]))
        done = print_for_programs(app, given.session, shown, leaving)
    elif turn.stopped != "error":
        print(printable("\n".join([turn.reply, *mark])), flush=True)
    if not given.json:
        done = wait_for_helpers(app, given.session, say, leaving)
    if done:
        settle(app, given.session, turn)
    heed_no_signals()
    return report(turn)


def print_for_programs(app: App, session: str, shown: dict[str, Any], leaving: Event | None = None) -> bool:
    """Print a turn as JSON, with the reports of this chat's helpers; see wait_for_helpers."""

    def show(reports: list[str]) -> None:
        print(json_text(shown | ({"helpers": reports} if reports else {})), flush=True)

    if pending(lambda: app.helpers, session):
        from picoclaw.cli.waiting import helped_together

        return helped_together(app, session, show, leaving)
    show([])
    return True


def wait_for_helpers(app: App, session: str, tell: Callable[[str], None], leaving: Event | None = None) -> bool:
    """Have done what helpers of this chat were given, and tell their reports; False when Ctrl-C left some undone.

    When the program is `leaving`, what they have switched on goes off.
    """
    if pending(lambda: app.helpers, session):
        from picoclaw.cli.waiting import helped

        return helped(app, session, tell, leaving)
    return True


def simulated(app: App, turn: Turn) -> bool:
    """Tell whether an answer has to be marked: a command's, or a sign of life, says nothing of the board."""
    return app.board.simulated and turn.provider != BY_COMMAND


def settle(app: App, session: str, turn: Turn) -> None:
    """Do what an answer leaves to do, once it was printed; what goes wrong is said on stderr.

    A command, which takes neither a model nor the network, leaves nothing.
    """
    if turn.provider == BY_COMMAND:
        return
    for line in [*app.settle(session), *_tidied(app)]:
        print(f"picoclaw: {printable(line)}", file=sys.stderr)


def _tidied(app: App) -> list[str]:
    """Let go of old conversations, if any was opened; an open chat does so by itself."""
    return app.chores().daily(app.now()) if "database" in vars(app.stores) else []


def report(turn: Turn) -> int:
    """Say on stderr, in one line, what the person should know about the turn; returns the exit code."""
    interrupted = "the turn was interrupted" if turn.stopped == "stopped" else ""
    notice = turn.unsaid_notice if _is_one_place() else turn.notice.text
    if said := "; ".join(filter(None, [notice, interrupted])):
        print(f"picoclaw: {printable(said)}", file=sys.stderr)
    return 1 if turn.notice.failed or interrupted else 0


def _is_one_place() -> bool:
    """Whether what goes to stderr is read beside the answer, as on a terminal: then nothing need be said twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def as_json(app: App, turn: Turn, reply: str) -> dict[str, Any]:
    """Describe a turn for programs."""
    return described.as_json(turn, reply, simulated=app.board.simulated)
