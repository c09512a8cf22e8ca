"""What several verbs share: options, opening the app, text that is safe for a terminal."""

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from picoclaw.errors import Denied, StoreDamaged

if TYPE_CHECKING:
    from picoclaw.app import App

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


def board_option(parser: argparse.ArgumentParser) -> None:
    """Add --board."""
    parser.add_argument(
        "--board",
        choices=["auto", "linux", "sim"],
        help="which board to use; auto takes the simulated one where there is no sensor and no bus",
    )


@contextmanager
def opened(
    options: argparse.Namespace,
    ask: Callable[[str], bool] | None = None,
    *,
    make: bool = True,
    agent: bool = False,
) -> "Iterator[App]":
    """Build the app for a verb and take it apart afterwards.

    `make` prepares the home folder first; `agent` builds all that a turn needs at once.
    """
    from dataclasses import replace

    from picoclaw import workspace
    from picoclaw.app import App
    from picoclaw.config import BoardConfig, load
    from picoclaw.hw import boards

    config = load()
    if options.board:
        config = replace(config, board=BoardConfig(options.board))
    if make:
        workspace.prepare(config.home)
    app = App(config, boards.choose(config.board.kind, config), ask)
    try:
        if agent:
            _ = app.agent
        gc.enable()
        if app.wiring.outputs:
            app.wiring.outputs.recover()
        yield app
        app.wiring.leave()
    finally:
        app.close()


def mended(act: Callable[[], int]) -> int:
    """Do what begins with looking into `state.db`, and once more when that was damaged and could be mended."""
    try:
        return act()
    except StoreDamaged:
        from picoclaw.care import mend
        from picoclaw.config import home_folder

        if not (lines := mend.whole(home_folder(os.environ), tell=False)):
            raise
    for line in lines:
        print(f"picoclaw: {printable(line)}", file=sys.stderr)
    return act()


def person(why: str) -> None:
    """Raise Denied, saying `why`, where nobody sits: a fence, not a wall, for what has itself made a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Denied(why)


def printable(text: str) -> str:
    """Make control characters and what nobody sees visible, so that a text can neither drive a terminal nor hide."""
    return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
