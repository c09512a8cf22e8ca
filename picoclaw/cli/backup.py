"""`picoclaw backup` and `picoclaw restore`: the home in one file, also while picoclaw runs, and back."""

import os
import sys
from pathlib import Path

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import confirm, format_minute, print_safe, show_progress
from picoclaw.errors import ConfigError
from picoclaw.maintenance import backup
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time


def add_backup_options(parser: Parser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the file to write; - for standard output (default: picoclaw-DATE.tar.gz)",
    )
    parser.add_flag("--without-secrets", help="leave out secrets.toml and the fleet's key")
    parser.add_flag("--check", help="check that FILE is a complete backup")


def run_backup(given: Options) -> int:
    """Make a backup, or check one; exit code 1 when it could not be made, or is not good."""
    home, secrets = get_home(os.environ), not given.without_secrets
    target = given.file or f"picoclaw-{get_owner_time(home):%Y%m%d-%H%M%S}.tar.gz"
    if given.check:
        with show_progress() as draw:
            kept = backup.verify_backup(Path(target), draw)
        made_at = format_minute(home, kept.at)
        print(f"{target} is complete: {kept.files} files, made {made_at} by picoclaw {kept.version}")
        return 0
    if target == "-":
        made = backup.stream_backup(home, sys.stdout.buffer, secrets=secrets)
    else:
        with show_progress() as draw:
            made = backup.write_backup(home, Path(target).absolute(), secrets=secrets, progress=draw)
        size = Path(target).stat().st_size
        keys = "; it holds your keys, keep it to yourself" if secrets else ""
        print(f"{target}: {made.files} files, {_format_size(made.size)} in {_format_size(size)}{keys}")
    for left in made.left:
        print(escape_unprintable(f"not taken: {left}"), file=sys.stderr)
    return 0


def add_restore_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file made by `picoclaw backup`")
    parser.add_flag("--yes", help="do not ask")


def run_restore(given: Options) -> int:
    """Restore after a yes, and keep what was there; exit code 1 when nothing was changed."""
    home = get_home(os.environ)
    if home.exists() and not given.yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"{home} is there already; it takes a terminal, or --yes, to put a backup in its place")
        if not confirm(f"Put the backup in the place of {home}? What is there now is kept beside it."):
            print("Nothing was changed.")
            return 1
    with show_progress() as draw:
        kept, before = backup.restore_backup(Path(given.file), home, draw)
    made = format_minute(home, kept.at)
    print_safe(f"{home} is again as it was at {made}: {kept.files} files, by picoclaw {kept.version}")
    if before:
        print(f"what was there is in {before}; delete it when you do not miss anything")
    return 0


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} KB"
