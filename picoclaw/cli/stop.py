"""`picoclaw stop`: every output to its safe level, now, and nothing on again until a person resumes."""

import argparse
import os

from picoclaw.config import home_folder
from picoclaw.reflex.halt import halt
from picoclaw.reflex.keeper import place
from picoclaw.workspace import outputs_file


def options(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: whoever stops has no time for options."""


def run(_: argparse.Namespace) -> int:
    """Stop; where nothing was ever declared there is nothing to stop."""
    home = home_folder(os.environ)
    if not outputs_file(home).exists() and not (home / place.LIVE).exists():
        print("no output is declared: there is nothing to stop")
        return 0
    print(halt(home, board, "owner"))
    return 0


def board() -> str:
    """Name the board, for the rare case that no keeper has ever said which it is."""
    from picoclaw.config import load
    from picoclaw.hw import boards

    config = load()
    return "sim" if boards.choose(config.board.kind, config).simulated else "linux"
