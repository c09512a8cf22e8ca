"""`picoclaw run`: the daemon, which lives on the board until it is told to end."""

import argparse
import os
import sys
import time
from pathlib import Path

from picoclaw import __version__
from picoclaw.cli.common import add_board_option, ensure_outputs_safe, open_app
from picoclaw.daemon import lock, watchdog
from picoclaw.daemon.service import DaemonService
from picoclaw.daemon.watchdog import MEGABYTE, get_default_memory_limit, get_total_memory
from picoclaw.errors import StoreDamaged
from picoclaw.maintenance import repair
from picoclaw.resources import get_home
from picoclaw.store.database import DAMAGE_DETECTED
from picoclaw.text import escape_unprintable

_MIN_MEMORY_MB, _MAX_MEMORY_MB = 48, 100_000


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    add_board_option(parser)
    parser.add_argument(
        "--memory-mb",
        type=_parse_megabytes,
        default=get_default_memory_limit(get_total_memory()) // MEGABYTE,
        metavar="N",
        help="begin afresh, at a quiet moment, with more than this (a quarter of the memory, from 120 to 400)",
    )


def run(given: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C, or `picoclaw service stop`; 1 when another daemon has this home."""
    watchdog.limit_malloc_arenas()
    ensure_outputs_safe(given)
    home = get_home(os.environ)
    try:
        again = _run_daemon(given, home)
    except StoreDamaged as error:
        if not DAMAGE_DETECTED.is_set() or watchdog.is_crash_loop(home, time.time()):
            raise
        _print_log_line(f"{str(error).partition(';')[0]}: begins afresh, to mend it")
        again = True
    if again:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same words again, in the same process
    return 0


def _run_daemon(given: argparse.Namespace, home: Path) -> bool:
    """Run once; tells whether to begin afresh."""
    if repair.release_reserve(home):
        _print_log_line("the disk is full; what was kept free for that is used now")
    for line in repair.repair_home(home):
        _print_log_line(line)
    with open_app(given) as app:
        held = lock.acquire_lock(app.config.home)
        try:
            if watchdog.has_unclean_end(app.config.home):
                _delete_leftovers(app.config.home)
            safe = watchdog.record_start(app.config.home, time.time())
            app.audit.mention("start", version=__version__, pid=os.getpid())
            _print_log_line(f"audit: the newest record is {app.audit.head()}")
            again = DaemonService(app, _print_log_line, given.memory_mb * MEGABYTE, safe=safe).serve()
            app.audit.mention("stop", again=again)
            watchdog.record_clean_end(app.config.home)
            if not again:
                app.wiring.abandon()
        finally:
            os.close(held)
    return again


def _delete_leftovers(home: Path) -> None:
    """Take away what the cut before this start has left half written."""
    from picoclaw.maintenance import check

    for row in check.check_leftovers(home):
        for said in row.repair() if row.repair else ():
            _print_log_line(f"{row.what}: {said}")


def _print_log_line(text: str) -> None:
    print(f"picoclaw: {escape_unprintable(text)}", file=sys.stderr, flush=True)


def _parse_megabytes(text: str) -> int:
    number = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else 0
    if not _MIN_MEMORY_MB <= number <= _MAX_MEMORY_MB:
        raise argparse.ArgumentTypeError(f"a whole number of megabytes, from {_MIN_MEMORY_MB}")
    return number
