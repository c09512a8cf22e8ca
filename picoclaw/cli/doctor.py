"""`picoclaw doctor`: looks at the set-up and the board, says what is wrong and the command that mends it."""

import argparse

from picoclaw.cli.common import add_board_option, print_results
from picoclaw.maintenance.doctor import run_doctor


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--offline", action="store_true", help="ask no server, neither a model's nor a channel's")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    rows = list(run_doctor("sim" if given.board == "sim" else "linux", offline=given.offline))
    print_results(rows, as_json=given.json)
    return 1 if any(row.mark == "bad" for row in rows) else 0
