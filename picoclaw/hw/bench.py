"""Runs one driver file by hand: `python3 tools/hw/bme280.py --bus 1` prints a reading, or why there is none."""

import argparse
import sys
from pathlib import Path

from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw.board import QUANTITIES, Board, I2CPart
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import chip
from picoclaw.hw.sim import SimBoard

FIRST_ADDRESS, LAST_ADDRESS = 0x08, 0x77


def add_board_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a bus, and the simulated board."""
    parser.add_argument("--bus", type=int, default=1, help="the N of /dev/i2c-N (default 1)")
    parser.add_argument("--sim", action="store_true", help="use the simulated board")


def board_from(options: argparse.Namespace) -> Board:
    """Open the board that the options name."""
    return SimBoard() if options.sim else LinuxBoard()


def address(text: str) -> int:
    """Read a 7-bit address from the command line, decimal or hexadecimal."""
    number = int(text, 0)
    if not FIRST_ADDRESS <= number <= LAST_ADDRESS:
        raise argparse.ArgumentTypeError(f"{text} is outside 0x{FIRST_ADDRESS:02x} to 0x{LAST_ADDRESS:02x}")
    return number


def run(file: str) -> int:
    """Read the part that a driver file is for; exit code 1 when that fails, 2 for wrong usage."""
    path = Path(file).resolve()
    try:
        part = chip(path.stem, [path.parent])
    except ConfigError as error:
        print(f"{path.stem}: {error}", file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(prog=path.name, description=(part.__doc__ or path.stem).splitlines()[0])
    parser.add_argument("--address", type=address, default=part.ADDRESSES[0])
    add_board_options(parser)
    options = parser.parse_args()
    board = board_from(options)
    try:
        values = part.read(I2CPart(board.i2c(options.bus), options.address))
    except (HardwareError, ConfigError, ValueError) as error:
        print(f"{path.stem}: {error}", file=sys.stderr)
        return 1
    finally:
        board.close()
    for quantity, value in values.items():
        print(f"{quantity} {value:.2f} {QUANTITIES[quantity].unit}{' (simulated)' if options.sim else ''}")
    return 0
