"""`picoclaw status`: how picoclaw is, in one question to the daemon; from the database where none runs."""

import argparse
import os
import time
from contextlib import closing
from typing import Any

from picoclaw.channels.ipc import ask_daemon
from picoclaw.cli.common import print_safe
from picoclaw.daemon import lock
from picoclaw.daemon.status_text import format_status
from picoclaw.errors import PicoclawError
from picoclaw.resources import get_home
from picoclaw.text import format_json

_STATUS_TIMEOUT_S = 5.0
_EXIT_NOT_RUNNING = 3
"""What `systemctl status` exits with then as well."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print it for programs")


def run(given: argparse.Namespace) -> int:
    """Print it; 0 when all is well, 1 when something is not, 3 when picoclaw does not run."""
    home = get_home(os.environ)
    status = ask_daemon(home, {"do": "status"}, _STATUS_TIMEOUT_S)
    if not status:
        live: dict[str, Any] = {}
        if lock.is_lock_held(home):
            pid = lock.get_lock_holder(home)
            why = f"process {pid} runs and does not answer: it has just begun, or is frozen"
            live = {"running": True, "pid": pid, "problems": [why]}
        status = _collect_without_daemon(live)
    if given.json:
        print(format_json(status))
    else:
        try:
            print_safe(*format_status(status, time.time()))
        except (KeyError, TypeError, ValueError):
            raise PicoclawError("the running picoclaw is another version; `picoclaw service restart`") from None
    return _EXIT_NOT_RUNNING if not status.get("running") else 0 if status.get("ok") else 1


def _collect_without_daemon(live: dict[str, Any]) -> dict[str, Any]:
    """Look oneself, without making anything."""
    from picoclaw.app import App
    from picoclaw.config import load_config
    from picoclaw.daemon import status
    from picoclaw.hw import boards

    config = load_config()
    app = App(config, boards.choose_board(config.board.kind, config))
    with closing(app):
        database = app.stores.database if (config.home / "state.db").exists() else None
        return status.merge_status(live, status.collect_offline_status(app.board, config.home, database, app.now()))
