"""Finds out what answers at an address, without doing harm to what it might be instead.

Many parts share an address; only an identification register tells them apart. Asking costs a written byte, the
register's number, and a port expander takes any byte for its new output. So a part that nobody has named is asked
with one byte and no more, and not at all where an expander may be.
"""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from picoclaw.errors import BusFault, ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Board, I2CBus, Presence, Read, Write
from picoclaw.hw.handles import I2CPart

FIRST_ADDRESS = 0x08


class Candidates(NamedTuple):
    """What may be at an address: drivers whose part has said its name, and drivers that cannot ask."""

    identified: dict[str, str]
    possible: list[str]


class NotAsked(HardwareError):
    """A part's identification was not tried, because it could do harm to another part."""


class GentleBus:
    """A bus on which only a register's number may be written, as the first half of reading it."""

    def __init__(self, bus: I2CBus) -> None:
        """Wrap a bus."""
        self.number = bus.number
        self._bus = bus

    def transfer(self, address: int, segments: Sequence[Read | Write]) -> list[bytes]:
        """See I2CBus.transfer; raises NotAsked for anything that is more than reading a register."""
        match list(segments):
            case [Write(data), Read()] if len(data) == 1:
                return self._bus.transfer(address, segments)
        raise NotAsked("this part's identification writes more than a register's number")

    def probe(self, address: int) -> Presence:
        """See I2CBus.probe."""
        return self._bus.probe(address)

    def holder(self, address: int) -> str:
        """See I2CBus.holder."""
        return self._bus.holder(address)


def drivers(where: Sequence[Path], address: int) -> dict[str, ModuleType]:
    """Load the drivers of all parts that can have an I2C address."""
    found = {}
    for name in loader.chips(where):
        try:
            chip = loader.chip(name, where)
        except ConfigError:
            continue
        if address in getattr(chip, "ADDRESSES", ()):
            found[name] = chip
    return found


def ask(board: Board, bus: int, address: int, where: Sequence[Path]) -> Candidates:
    """Ask whatever answers at an address who it is; raises HardwareError when the bus cannot be opened."""
    gentle = GentleBus(board.i2c(bus))
    identified, possible = {}, []
    known = drivers(where, address)
    harmless = not any(getattr(chip, "ANY_BYTE_IS_OUTPUT", False) for chip in known.values())
    for name, chip in known.items():
        identify = getattr(chip, "identify", None)
        if identify is None or not harmless:
            possible.append(name)
            continue
        try:
            if said := identify(I2CPart(gentle, address)):
                identified[name] = said
        except (NotAsked, BusFault):
            possible.append(name)
        except (HardwareError, *loader.BROKEN):
            continue
    return Candidates(identified, possible)
