"""Which board to use: the real one, or the simulated one, if asked for or if there is nothing real to read."""

from picoclaw.config import Config
from picoclaw.hw import kernel, loader
from picoclaw.hw.board import Board
from picoclaw.hw.linux.board import LinuxBoard


def choose_board(kind: str, config: Config) -> Board:
    """Open a board; `kind` is 'auto', 'linux' or 'sim'. Raises ConfigError when sim.toml is wrong."""
    board = LinuxBoard()
    if kind != "sim" and (kind == "linux" or config.sensors or board.adapters() or kernel.list_kernel_sensors(board)):
        return board
    from picoclaw.hw.sim import board as sim
    from picoclaw.hw.sim import scene

    script = scene.DEFAULT_SCRIPT
    if (path := config.home / scene.SIM_FILE).exists():
        from picoclaw.hw.sim.script import load_script

        script = load_script(path, loader.list_driver_folders(config.home))
    return sim.SimBoard(script=script, state=config.home / "sim")
