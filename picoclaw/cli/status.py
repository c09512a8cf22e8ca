"""`picoclaw status`: how the house is, in one question to the daemon; from the database where none runs."""

import argparse
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from picoclaw.channels.line import asked
from picoclaw.cli.common import json_text, printable
from picoclaw.daemon import lock
from picoclaw.daemon.lines import lines
from picoclaw.errors import PicoclawError
from picoclaw.resources import home_folder

_ANSWER_S = 5.0
_NOT_RUNNING = 3
"""What `systemctl status` exits with then as well."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print it for programs")


def run(given: argparse.Namespace) -> int:
    """Print it; 0 when all is well, 1 when something is not, 3 when picoclaw does not run."""
    home = home_folder(os.environ)
    status = asked(home, {"do": "status"}, _ANSWER_S) or _alone(_silent(home))
    if given.json:
        print(json_text(status))
    else:
        try:
            for line in lines(status, time.time()):
                print(printable(line))
        except (KeyError, TypeError, ValueError):
            raise PicoclawError("the running picoclaw is another version; `picoclaw service restart`") from None
    return _NOT_RUNNING if not status.get("running") else 0 if status.get("ok") else 1


def _silent(home: Path) -> dict[str, Any]:
    """Say of a daemon that lives and says nothing what can be said, nothing where there is none."""
    if not lock.held(home):
        return {}
    why = f"process {lock.holder(home)} runs and does not answer: it has just begun, or is frozen"
    return {"running": True, "pid": lock.holder(home), "problems": [why]}


def _alone(live: dict[str, Any]) -> dict[str, Any]:
    """Look oneself, without making anything."""
    from picoclaw.app import App
    from picoclaw.config import load
    from picoclaw.daemon import status
    from picoclaw.hw import boards

    config = load()
    app = App(config, boards.choose(config.board.kind, config))
    with closing(app):
        database = app.stores.database if (config.home / "state.db").exists() else None
        return status.joined(live, status.house(app.board, config.home, database, app.now()))
