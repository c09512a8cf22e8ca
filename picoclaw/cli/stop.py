"""`picoclaw stop`: every output to its safe level, now, and nothing on again until a person resumes."""

import argparse
import os

from picoclaw.outputs.stop import stop_outputs
from picoclaw.outputs.supervisor import endpoint
from picoclaw.resources import get_home
from picoclaw.workspace import find_outputs_file


def options(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: whoever stops has no time for options."""


def run(_: argparse.Namespace) -> int:
    """Stop; where nothing was ever declared there is nothing to stop."""
    home = get_home(os.environ)
    if not find_outputs_file(home).exists() and not (home / endpoint.LIVE_FILE).exists():
        print("no output is declared: there is nothing to stop")
        return 0
    print(stop_outputs(home, detect_board_kind, "owner"))
    return 0


def detect_board_kind() -> str:
    """Name the board, for the rare case that no keeper has ever said which it is."""
    from picoclaw.config import load_config
    from picoclaw.hw import boards

    config = load_config()
    return "sim" if boards.choose_board(config.board.kind, config).simulated else "linux"
