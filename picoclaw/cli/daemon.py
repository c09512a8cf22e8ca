"""`picoclaw run`: the daemon, which lives on the board until it is told to end."""

import os
import sys
import time
from pathlib import Path

from picoclaw import __version__
from picoclaw.cli.arguments import Options, Parser, parse_count
from picoclaw.cli.common import add_board_option, ensure_outputs_safe, open_app, print_note
from picoclaw.daemon import process
from picoclaw.daemon.process import MEGABYTE
from picoclaw.daemon.service import DaemonService
from picoclaw.errors import StoreDamaged
from picoclaw.files import get_home
from picoclaw.maintenance import repair
from picoclaw.store.database import DAMAGE_DETECTED

_MIN_MEMORY_MB, _MAX_MEMORY_MB = 48, 100_000


def options(parser: Parser) -> None:
    add_board_option(parser)
    parser.add_argument(
        "--memory-mb N",
        "restart when idle if it uses more than this (a quarter of the memory, from 120 to 400)",
        type=parse_count(_MIN_MEMORY_MB, _MAX_MEMORY_MB),
        default=process.get_default_memory_limit(process.get_total_memory()) // MEGABYTE,
    )


def run(given: Options) -> int:
    """Run until SIGTERM or Ctrl-C, or `picoclaw service stop`; 1 when another daemon has this home."""
    process.limit_malloc_arenas()
    ensure_outputs_safe(given)
    home = get_home(os.environ)
    try:
        again = _run_daemon(given, home)
    except StoreDamaged as error:
        if not DAMAGE_DETECTED.is_set() or process.is_crash_loop(home, time.time()):
            raise
        print_note(f"{str(error).partition(';')[0]}: restarts to repair it")
        again = True
    if again:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same words again, in the same process
    return 0


def _run_daemon(given: Options, home: Path) -> bool:
    """Run once; tells whether to begin afresh."""
    if repair.release_reserve(home):
        print_note("the disk is full; what was kept free for that is used now")
    for line in repair.repair_home(home):
        print_note(line)
    with open_app(given) as app:
        home = app.config.home
        held = process.acquire_lock(home)
        try:
            if process.has_unclean_end(home):  # what the cut before this start has left half written
                for row in repair.check_leftovers(home):
                    for said in row.repair() if row.repair else ():
                        print_note(f"{row.name}: {said}")
            safe = process.record_start(home, time.time())
            app.audit.mention("start", version=__version__, pid=os.getpid())
            if not sys.stderr.isatty():  # for the log: whoever cuts the end off the audit cannot cut it off there
                print_note(f"audit: the newest record is {app.audit.head()}")
            again = DaemonService(app, print_note, given.memory_mb * MEGABYTE, safe=safe).serve()
            app.audit.mention("stop", again=again)
            process.record_clean_end(home)
            if not again:
                app.wiring.abandon()
        finally:
            os.close(held)
    return again
