"""The doctor: looks at the set-up, the machine and the board, and says what is wrong and the command that mends it.

Nothing is made or changed, and nothing that is wrong ends it.
"""

import os
import platform
import sys
from collections.abc import Iterator

from picoclaw import __version__
from picoclaw.config import Config, home_folder, load
from picoclaw.doctor import board as of_board
from picoclaw.doctor import channels, exposed, home, installed, kept, machine, model, walls
from picoclaw.errors import ConfigError
from picoclaw.hw import boards
from picoclaw.hw.health import Row

__all__ = ["Row", "examine"]


def examine(kind: str, *, offline: bool = False) -> Iterator[Row]:
    """Look at everything in turn, on the board of this kind; `offline` leaves out what asks a server."""
    yield Row("good", "picoclaw", f"{__version__} on Python {platform.python_version()}, {sys.executable}")
    try:
        yield from home.examine(home_folder(os.environ))
        config = load()
    except ConfigError as error:
        yield Row("bad", "settings", str(error), "mend the file named here, or move it aside")
        return
    yield Row("good", "settings", "config.toml, secrets and environment fit")
    yield from kept.examine(config)
    if not offline:
        yield from model.examine(config)
    yield from channels.examine(config, offline=offline)
    yield from installed.examine()
    yield from walls.examine(config)
    yield from _of_the_board(kind, config)


def _of_the_board(kind: str, config: Config) -> Iterator[Row]:
    try:
        board = boards.choose(kind, config)
    except ConfigError as error:
        yield Row("bad", "sim.toml", str(error), "mend it, or move it aside")
        return
    try:
        yield from of_board.examine(board, config)
        yield from machine.examine(board, config.home)
        yield from exposed.examine(board, config)
    finally:
        board.close()
