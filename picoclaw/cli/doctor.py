"""`picoclaw doctor`: looks at the set-up and the board, says what is wrong and the command that mends it."""

import argparse

from picoclaw.cli.common import add_board_option
from picoclaw.maintenance.doctor import run_doctor
from picoclaw.text import escape_unprintable, format_json


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--offline", action="store_true", help="ask no server, neither a model's nor a channel's")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    findings = list(run_doctor("sim" if given.board == "sim" else "linux", offline=given.offline))
    if given.json:
        print(format_json([f._asdict() for f in findings]))
    else:
        for f in findings:
            print(
                escape_unprintable(f"{f.mark:5} {f.what}: {f.how}")
                + (f"\n      → {escape_unprintable(f.mend)}" if f.mend else "")
            )
    return 1 if any(f.mark == "bad" for f in findings) else 0
