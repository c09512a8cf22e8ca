"""`picoclaw approvals`: what waits for a yes, and the answer of whoever sits at this terminal."""

import argparse
import os
from contextlib import closing

from picoclaw.agent.commands import describe_approval, show_approval
from picoclaw.cli.common import DEFAULT_SESSION, add_board_option, print_safe, require_terminal
from picoclaw.errors import PicoclawError
from picoclaw.resources import get_home
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
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
    if given.act in {"yes", "no", "always"}:
        from picoclaw.cli import chat

        require_terminal("an answer is only taken from a person at a terminal; over ssh, `ssh -t` makes one")
        text = f"/{given.act} {'' if given.number is None else given.number}".rstrip()
        asked = {"session": DEFAULT_SESSION, "message": text, "json": False, "board": given.board, "who": "terminal"}
        return chat.run(argparse.Namespace(**asked))
    if not (home / "state.db").exists():
        print("nothing waits for your yes")
        return 0
    with closing(Database(home / "state.db")) as database:
        approvals = Approvals(database)
        if given.act == "show":
            if not (found := approvals.get(given.number)):
                raise PicoclawError(f"there is no question number {given.number}")
            print_safe(show_approval(found))
            return 0
        for one in (waiting := approvals.waiting()):
            print_safe(describe_approval(one))
        for one in approvals.ended():
            print_safe(f"{one.number}  {one.state}, {get_owner_time(home, one.at):%Y-%m-%d %H:%M}: {one.shortly}")
        if not waiting:
            print("nothing waits for your yes")
    return 0
