"""`picoclaw doctor` and `picoclaw check`: what is wrong with the set-up, and with what is kept."""

import argparse
import os

from picoclaw.cli.common import add_board_option, print_results
from picoclaw.resources import get_home


def add_doctor_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--offline", action="store_true", help="ask no server, neither a model's nor a channel's")
    add_board_option(parser)


def run_doctor(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    from picoclaw.maintenance import doctor

    rows = doctor.run_doctor("sim" if given.board == "sim" else "linux", offline=given.offline)
    return print_results(rows, as_json=given.json)


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired, and say what was done")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run_check(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when something is wrong, with --repair when it still is."""
    from picoclaw.maintenance import check

    home = get_home(os.environ)
    done = check.repair_findings(home) if given.repair else []
    rows = list(check.check_home(home))
    print_results([*done, *rows], as_json=given.json)
    return int(any(row.status == "bad" for row in rows))
