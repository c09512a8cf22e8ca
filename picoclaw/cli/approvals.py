"""`picoclaw approvals`: what waits for a yes, and the answer of whoever sits at this terminal."""

import argparse
import os
from contextlib import closing

from picoclaw.agent.commands import describe_approval, show_approval
from picoclaw.cli.common import add_board_option, open_app, require_terminal
from picoclaw.errors import PicoclawError
from picoclaw.messages import DEFAULT_SESSION, Inbound
from picoclaw.resources import get_home
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT")
    words.add_parser("list", help="what waits, and what became of the newest others (the default)")
    for act, purpose in _SUBCOMMANDS.items():
        word = words.add_parser(act, help=purpose)
        if act in {"yes", "no"}:
            word.add_argument("number", type=int, metavar="N", nargs="?", help="without it, all of the one question")
        else:
            word.add_argument("number", type=int, metavar="N")
        if act != "show":
            add_board_option(word)


_SUBCOMMANDS = {
    "show": "show number N whole",
    "yes": "have it done",
    "no": "leave it",
    "always": "have it done, also whenever exactly the same is wanted again",
}


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when it could not be done, with the reason on stderr."""
    home = get_home(os.environ)
    if given.act not in {"yes", "no", "always"}:
        if not (home / "state.db").exists():
            print("nothing waits for your yes")
            return 0
        with closing(Database(home / "state.db")) as database:
            return _show_approvals(Approvals(database), given.number if given.act == "show" else 0)
    require_terminal("an answer is only taken from a person at a terminal; over ssh, `ssh -t` makes one")
    return _answer_approval(given)


def _show_approvals(approvals: Approvals, number: int) -> int:
    if number:
        if not (found := approvals.get(number)):
            raise PicoclawError(f"there is no question number {number}")
        print(escape_unprintable(show_approval(found)))
        return 0
    for one in (waiting := approvals.waiting()):
        print(escape_unprintable(describe_approval(one)))
    for one in approvals.ended():
        at = f"{get_owner_time(get_home(os.environ), one.at):%Y-%m-%d %H:%M}"
        print(escape_unprintable(f"{one.number}  {one.state}, {at}: {one.shortly}"))
    if not waiting:
        print("nothing waits for your yes")
    return 0


def _answer_approval(given: argparse.Namespace) -> int:
    """Have the picoclaw that runs do it, or do it here."""
    from picoclaw.channels.ipc import connect
    from picoclaw.cli import remote
    from picoclaw.cli.chat import print_notice

    home = get_home(os.environ)
    text = f"/{given.act} {'' if given.number is None else given.number}".rstrip()
    running = not given.board and (home / "run.sock").exists()
    if running and (line := connect(home)):
        return remote.ask_remote_once(line, argparse.Namespace(session=DEFAULT_SESSION, message=text, json=False))
    with open_app(given, agent=True) as app:
        turn = app.dispatcher.answer(Inbound(DEFAULT_SESSION, text, who="terminal"))
        if turn.stopped != "error":
            print(escape_unprintable(turn.reply))
        return print_notice(turn)
