"""`picoclaw stop`: every output to its safe level, now, and nothing on again until a person resumes."""

import os

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import detect_board_kind
from picoclaw.files import get_home
from picoclaw.outputs import supervisor
from picoclaw.outputs.stop import stop_outputs
from picoclaw.workspace import find_outputs_file


def options(parser: Parser) -> None:
    """Declare nothing: whoever stops has no time for options."""


def run(_: Options) -> int:
    """Stop; where nothing was ever declared there is nothing to stop."""
    home = get_home(os.environ)
    if not find_outputs_file(home).exists() and not (home / supervisor.LIVE_FILE).exists():
        print("no outputs are declared: there is nothing to stop")
        return 0
    print(stop_outputs(home, detect_board_kind, "owner"))
    return 0
