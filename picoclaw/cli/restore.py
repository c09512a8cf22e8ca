"""`picoclaw restore`: puts a backup in the place of the home, and keeps what was there."""

import argparse
import os
import sys
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.maintenance import backup
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("file", metavar="FILE", help="what `picoclaw backup` has made")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(given: argparse.Namespace) -> int:
    """Restore after a yes; exit code 1 when nothing was changed."""
    home = get_home(os.environ)
    if not given.yes and not _confirm(home):
        print("Nothing was changed.")
        return 1
    kept, before = backup.restore_backup(Path(given.file), home)
    made = f"{get_owner_time(home, kept.at):%Y-%m-%d %H:%M}"
    print(escape_unprintable(f"{home} is what it was at {made}: {kept.files} files, by picoclaw {kept.version}"))
    if before:
        print(f"what was there is in {before}; delete it when you do not miss anything")
    return 0


def _confirm(home: Path) -> bool:
    if not home.exists():
        return True
    if not sys.stdin.isatty():
        raise ConfigError(f"{home} is there already; it takes a terminal, or --yes, to put a backup in its place")
    return input(
        f"Put the backup in the place of {home}? What is there now is kept beside it. [y/N] "
    ).strip().lower() in {
        "y",
        "yes",
    }
