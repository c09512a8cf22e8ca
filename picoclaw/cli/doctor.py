"""`picoclaw doctor` and `picoclaw check`: what is wrong with the set-up, and with what is kept."""

import os

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import add_board_option, print_results
from picoclaw.resources import get_home


def add_doctor_options(parser: Parser) -> None:
    parser.add_flag("--json", help="print the findings as JSON")
    parser.add_flag("--offline", help="contact no server, neither of a model nor of a channel")
    add_board_option(parser)


def run_doctor(given: Options) -> int:
    from picoclaw.maintenance import doctor

    rows = doctor.run_doctor("sim" if given.board == "sim" else "linux", offline=given.offline)
    return print_results(rows, as_json=given.json)


def add_check_options(parser: Parser) -> None:
    parser.add_flag("--repair", help="repair what can be repaired, and say what was done")
    parser.add_flag("--json", help="print the findings as JSON")


def run_check(given: Options) -> int:
    """Print the findings; exit code 1 when something is wrong, with --repair when it still is."""
    from picoclaw.maintenance import check

    home = get_home(os.environ)
    done = check.repair_findings(home) if given.repair else []
    rows = list(check.check_home(home))
    print_results([*done, *rows], as_json=given.json)
    return int(any(row.status == "bad" for row in rows))
