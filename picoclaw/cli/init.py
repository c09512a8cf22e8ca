"""`picoclaw init`: makes the home folder and what belongs into it; a second time it changes nothing."""

import argparse
import sys
from pathlib import Path

from picoclaw import workspace
from picoclaw.cli.common import printable
from picoclaw.config import load
from picoclaw.errors import ConfigError


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--diff", action="store_true", help="only show what is new in the pages' templates, as a patch")
    choice.add_argument("--keep", action="store_true", help="only note that the pages stay as they are without it")
    choice.add_argument("--first-meeting", action="store_true", help="bring back BOOTSTRAP.md, to be asked once more")


def run(given: argparse.Namespace) -> int:
    """Make what is missing, say what was made and what the owner should know."""
    home = load().home
    if given.diff:
        return _show_diff(home)
    if given.keep:
        return _keep(home)
    made, problem = workspace.prepare(home, restore=True, meeting=given.first_meeting)
    for path in made:
        print(f"made {path}")
    if not made and not problem:
        print(f"{home} is complete; nothing was changed")
    for what, mend in workspace.examine(home):
        print(printable(f"note: {what}\n      → {mend}" if mend else f"note: {what}"))
    if problem:
        raise ConfigError(problem)
    print(f"Settings are in {home / 'config.toml'}; `picoclaw doctor` checks them.")
    return 0


def _show_diff(home: Path) -> int:
    """Print what `patch -p0` in the workspace takes; to a person's terminal so that it cannot drive it."""
    shown = workspace.newer(home)
    if sys.stdout.isatty():
        print(printable(shown.decode(errors="replace")), end="")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(shown)
    take = f"`picoclaw init --diff | patch -p0 -d {home / 'workspace'}` takes it, `picoclaw init --keep` leaves it"
    print(take if shown else "nothing is new in the templates of your pages", file=sys.stderr)
    return 0


def _keep(home: Path) -> int:
    kept = workspace.keep(home)
    print(f"{', '.join(kept)}: kept as they are" if kept else "nothing is new in the templates of your pages")
    return 0
