"""`picoclaw doctor`: looks at the set-up and the board, says what is wrong and the command that mends it."""

import argparse

from picoclaw.cli.common import board_option, json_text, printable
from picoclaw.doctor import examine


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--offline", action="store_true", help="ask no server, neither a model's nor a channel's")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    findings = list(examine("sim" if given.board == "sim" else "linux", offline=given.offline))
    if given.json:
        print(json_text([f._asdict() for f in findings]))
    else:
        for f in findings:
            print(printable(f"{f.mark:5} {f.what}: {f.how}") + (f"\n      → {printable(f.mend)}" if f.mend else ""))
    return 1 if any(f.mark == "bad" for f in findings) else 0
