"""`picoclaw run`: the daemon, which lives on the board until it is told to end."""

import argparse
import os
import sys
import time
from pathlib import Path

from picoclaw import __version__
from picoclaw.care import ballast, mend
from picoclaw.cli.common import board_option, make_safe, opened, printable
from picoclaw.cli.household import Household
from picoclaw.config import home_folder
from picoclaw.daemon import crash, heap, lock
from picoclaw.daemon.memory import MEGABYTE, total, usual_limit
from picoclaw.errors import StoreDamaged
from picoclaw.store.database import SUSPICION

_LEAST_MB, _MOST_MB = 48, 100_000


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    board_option(parser)
    parser.add_argument(
        "--memory-mb",
        type=_megabytes,
        default=usual_limit(total()) // MEGABYTE,
        metavar="N",
        help="begin afresh, at a quiet moment, with more than this (a quarter of the memory, from 120 to 400)",
    )


def run(given: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C, or `picoclaw service stop`; 1 when another daemon has this home."""
    heap.share_one()
    make_safe(given)
    home = home_folder(os.environ)
    try:
        again = _lived(given, home)
    except StoreDamaged as error:
        if not SUSPICION.is_set() or crash.often(home, time.time()):
            raise
        _show(f"{str(error).partition(';')[0]}: begins afresh, to mend it")
        again = True
    if again:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same words again, in the same process
    return 0


def _lived(given: argparse.Namespace, home: Path) -> bool:
    """Run once; tells whether to begin afresh."""
    if ballast.spend(home):
        _show("the disk is full; what was kept free for that is used now")
    for line in mend.whole(home):
        _show(line)
    with opened(given) as app:
        held = lock.hold(app.config.home)
        try:
            if crash.unclean(app.config.home):
                _sweep(app.config.home)
            safe = crash.begun(app.config.home, time.time())
            app.audit.mention("start", version=__version__, pid=os.getpid())
            _show(f"audit: the newest record is {app.audit.head()}")
            again = Household(app, _show, given.memory_mb * MEGABYTE, safe=safe).live()
            app.audit.mention("stop", again=again)
            crash.ended(app.config.home)
            if not again:
                app.wiring.abandon()
        finally:
            os.close(held)
    return again


def _sweep(home: Path) -> None:
    """Take away what the cut before this start has left half written."""
    from picoclaw.check import files

    for finding in files.leftovers(home):
        for said in finding.mend() if finding.mend else ():
            _show(f"{finding.what}: {said}")


def _show(text: str) -> None:
    print(f"picoclaw: {printable(text)}", file=sys.stderr, flush=True)


def _megabytes(text: str) -> int:
    number = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else 0
    if not _LEAST_MB <= number <= _MOST_MB:
        raise argparse.ArgumentTypeError(f"a whole number of megabytes, from {_LEAST_MB}")
    return number
