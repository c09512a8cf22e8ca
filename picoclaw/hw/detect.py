"""Finds out which board this is, and what answers at an address, without doing harm to what it might be instead.

Many parts share an address; only an identification register tells them apart. Asking costs a written byte, the
register's number, and a port expander takes any byte for its new output. So a part that nobody has named is asked
with one byte and no more, and not at all where an expander may be.
"""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from picoclaw.config import Config
from picoclaw.errors import BusFault, ConfigError, HardwareError
from picoclaw.hw import kernel, loader
from picoclaw.hw.board import Board, I2CBus, I2CRead, I2CWrite, Presence
from picoclaw.hw.handles import I2CPart
from picoclaw.hw.linux import LinuxBoard
from picoclaw.records import NamedTuple

FIRST_ADDRESS = 0x08


class Candidates(NamedTuple):
    """What may be at an address: drivers whose part has said its name, and drivers that cannot ask."""

    identified: dict[str, str]
    possible: list[str]


class IdentificationSkipped(HardwareError):
    """A part's identification was not tried, because it could do harm to another part."""


class ReadOnlyI2CBus:
    """A bus on which only a register's number may be written, as the first half of reading it."""

    def __init__(self, bus: I2CBus) -> None:
        self.number = bus.number
        self._bus = bus

    def transfer(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        """See I2CBus.transfer; raises IdentificationSkipped for anything that is more than reading a register."""
        match list(segments):
            case [I2CWrite(data), I2CRead()] if len(data) == 1:
                return self._bus.transfer(address, segments)
        raise IdentificationSkipped("this part's identification writes more than a register's number")

    def probe(self, address: int) -> Presence:
        return self._bus.probe(address)

    def holder(self, address: int) -> str:
        return self._bus.holder(address)


def load_drivers_for_address(where: Sequence[Path], address: int) -> dict[str, ModuleType]:
    """Load the drivers of all parts that can have an I2C address."""
    found = {}
    for name in loader.list_drivers(where):
        try:
            chip = loader.load_driver(name, where)
        except ConfigError:
            continue
        if address in getattr(chip, "ADDRESSES", ()):
            found[name] = chip
    return found


def identify_part(board: Board, bus: int, address: int, where: Sequence[Path]) -> Candidates:
    """Ask whatever answers at an address who it is; raises HardwareError when the bus cannot be opened."""
    gentle = ReadOnlyI2CBus(board.i2c(bus))
    identified, possible = {}, []
    known = load_drivers_for_address(where, address)
    harmless = not any(getattr(chip, "ANY_BYTE_IS_OUTPUT", False) for chip in known.values())
    for name, chip in known.items():
        identify = getattr(chip, "identify", None)
        if identify is None or not harmless:
            possible.append(name)
            continue
        try:
            if said := identify(I2CPart(gentle, address)):
                identified[name] = said
        except (IdentificationSkipped, BusFault):
            possible.append(name)
        except (HardwareError, *loader.DRIVER_ERRORS):
            continue
    return Candidates(identified, possible)


def choose_board(kind: str, config: Config) -> Board:
    """Open a board; `kind` is 'auto', 'linux' or 'sim'. Raises ConfigError when sim.toml is wrong."""
    board = LinuxBoard()
    if kind != "sim" and (kind == "linux" or config.sensors or board.adapters() or kernel.list_kernel_sensors(board)):
        return board
    from picoclaw.hw import sim
    from picoclaw.hw.sim.script import DEFAULT_SCRIPT, SIM_FILE, load_script

    script = DEFAULT_SCRIPT
    if (path := config.home / SIM_FILE).exists():
        script = load_script(path, loader.list_driver_folders(config.home))
    return sim.SimBoard(script=script, state=config.home / "sim")
