"""`picoclaw status`: how picoclaw is, in one question to the daemon; from the database where none runs."""

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from picoclaw import __version__
from picoclaw.channels.ipc import ask_daemon
from picoclaw.cli.arguments import Options, Parser, bold, format_table
from picoclaw.cli.common import print_wrapped
from picoclaw.daemon import process
from picoclaw.daemon.status_text import format_status
from picoclaw.errors import PicoclawError
from picoclaw.files import get_home
from picoclaw.text import format_json

_STATUS_TIMEOUT_S = 5.0
_EXIT_NOT_RUNNING = 3
"""What `systemctl status` exits with then as well."""


def options(parser: Parser) -> None:
    parser.add_argument("--json", "print JSON")


def run(given: Options) -> int:
    """Print it; 0 when all is well, 1 when something is not, 3 when picoclaw does not run."""
    status = _get_status(get_home(os.environ))
    if given.json:
        print(format_json(status))
    else:
        try:
            print_wrapped(*format_status(status, time.time()))
        except (KeyError, TypeError, ValueError):
            raise PicoclawError("the running picoclaw is another version; `picoclaw restart`") from None
    return _EXIT_NOT_RUNNING if not status.get("running") else 0 if status.get("ok") else 1


def print_overview() -> None:
    """Say in a few lines how picoclaw is and what can be done next: what `picoclaw` alone prints."""
    home = get_home(os.environ)
    if (home / "config.toml").exists():
        status = _get_status(home)
        is_running = bool(status.get("running"))
        lines = list(format_status(status, time.time()))
        print_wrapped(lines[0], *(line for line in lines if line.startswith("NOT OK")))
        start = {
            "picoclaw run": "run it here",
            "sudo picoclaw service install --as $USER": "have it start with the board",
        }
        steps = {"picoclaw status": "see more of how it is"} if is_running else start
    else:
        print_wrapped(f"picoclaw {__version__} is installed, and not set up yet: it can be tried as it is.")
        steps = {"picoclaw init": "choose a model, your time zone, Telegram, the web page"}
    print(
        "\n".join(
            [
                "",
                bold("What you can do next"),
                *format_table({"picoclaw chat": "talk to it", **steps, "picoclaw --help": "all commands"}),
            ]
        )
    )


def _get_status(home: Path) -> dict[str, Any]:
    if status := ask_daemon(home, {"do": "status"}, _STATUS_TIMEOUT_S):
        return status
    live: dict[str, Any] = {}
    if process.is_lock_held(home):
        pid = process.get_lock_holder(home)
        why = f"process {pid} runs and does not answer: it has just begun, or is frozen"
        live = {"running": True, "pid": pid, "problems": [why]}
    return _collect_without_daemon(live)


def _collect_without_daemon(live: dict[str, Any]) -> dict[str, Any]:
    """Look oneself, without making anything."""
    from picoclaw.app import App
    from picoclaw.config import load_config
    from picoclaw.daemon import status
    from picoclaw.hw import detect

    config = load_config()
    app = App(config, detect.choose_board(config.board.kind, config))
    with closing(app):
        database = app.stores.database if (config.home / "state.db").exists() else None
        return status.merge_status(live, status.collect_offline_status(app.board, config.home, database, app.now()))
