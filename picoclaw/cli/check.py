"""`picoclaw check`: looks whether anything that is kept was lost or damaged, and mends what can be mended."""

import argparse
import os
from collections.abc import Iterable

from picoclaw.maintenance import check
from picoclaw.maintenance.check import Finding
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable, format_json


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--mend", action="store_true", help="mend what can be mended, and say what was done")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when something is wrong, with --mend when it still is."""
    home = get_home(os.environ)
    done = check.repair_findings(home) if given.mend else []
    found = list(check.check_home(home))
    _print_findings([*done, *found], as_json=given.json)
    return 1 if any(finding.mark == "bad" for finding in found) else 0


def _print_findings(findings: Iterable[Finding], *, as_json: bool) -> None:
    if as_json:
        rows = [{**f._asdict(), "mend": f.mend is not None} for f in findings]
        print(format_json(rows))
        return
    for f in findings:
        print(escape_unprintable(f"{f.mark:6} {f.what}: {f.how}"))
        if f.mend:
            print("       → picoclaw check --mend")
