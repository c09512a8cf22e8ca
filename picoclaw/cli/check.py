"""`picoclaw check`: looks whether anything that is kept was lost or damaged, and mends what can be mended."""

import argparse
import os

from picoclaw.cli.common import print_results
from picoclaw.maintenance import check
from picoclaw.resources import get_home


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--mend", action="store_true", help="mend what can be mended, and say what was done")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when something is wrong, with --mend when it still is."""
    home = get_home(os.environ)
    done = check.repair_findings(home) if given.mend else []
    rows = list(check.check_home(home))
    print_results([*done, *rows], as_json=given.json)
    return 1 if any(row.mark == "bad" for row in rows) else 0
