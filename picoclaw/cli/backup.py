"""`picoclaw backup`: the home in one file, also while picoclaw runs; `picoclaw restore` brings it back."""

import argparse
import os
import sys
from pathlib import Path

from picoclaw.maintenance import backup
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="where to; - is standard output; else picoclaw-DATE.tar.gz here"
    )
    parser.add_argument("--without-secrets", action="store_true", help="leave secrets.toml out")
    parser.add_argument("--check", action="store_true", help="read FILE whole, and say whether it is a good backup")


def run(given: argparse.Namespace) -> int:
    """Make a backup, or check one; exit code 1 when it could not be made, or is not good."""
    target = given.file or f"picoclaw-{get_owner_time(get_home(os.environ)):%Y%m%d-%H%M%S}.tar.gz"
    if given.check:
        kept = backup.verify_backup(Path(target))
        made_at = get_owner_time(get_home(os.environ), kept.at)
        print(f"{target} is whole: {kept.files} files, made {made_at:%Y-%m-%d %H:%M} by picoclaw {kept.version}")
        return 0
    home = get_home(os.environ)
    if target == "-":
        made = backup.stream_backup(home, sys.stdout.buffer, secrets=not given.without_secrets)
    else:
        made = backup.write_backup(home, Path(target).absolute(), secrets=not given.without_secrets)
        size = Path(target).stat().st_size
        keys = "" if given.without_secrets else "; it holds your keys, keep it to yourself"
        print(f"{target}: {made.files} files, {made.size / 1e6:.1f} MB in {size / 1e6:.1f} MB{keys}")
    for left in made.left:
        print(escape_unprintable(f"not taken: {left}"), file=sys.stderr)
    return 0
