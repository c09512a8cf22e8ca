"""Parts on a bus: where one is wired, and a measurement with its driver, in which nothing can go wrong unsaid."""

from collections.abc import Callable, Sequence
from pathlib import Path

from picoclaw.config import SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Board, I2CPart, Reading, Wired, believed

Driver = Callable[[I2CPart], dict[str, float]]


def wire(sensor: SensorConfig, where: Sequence[Path]) -> Wired:
    """Say where a configured part is, at its driver's first address if none was given; raises ConfigError."""
    chip = loader.chip(sensor.part, where)
    return Wired(sensor.part, sensor.bus, sensor.address or chip.ADDRESSES[0])


def place(part: Wired) -> str:
    """Name a part and where it is, for people."""
    return f"{part.part} on i2c-{part.bus} at 0x{part.address:02x}"


def measure(
    board: Board, name: str, part: Wired, driver: Callable[[str], Driver], asked: str = "temperature"
) -> list[Reading]:
    """Read a part; whatever fails becomes a Reading of the quantity `asked` for, which says what is wrong."""
    source = place(part)
    try:
        bus = board.i2c(part.bus)
        values = driver(part.part)(I2CPart(bus, part.address))
        return [believed(Reading(name, quantity, value, source)) for quantity, value in values.items()]
    except (HardwareError, ConfigError, ValueError) as error:
        problem = str(error)
    except loader.BROKEN as error:
        problem = f"its driver {part.part}.py failed: {type(error).__name__}: {error}"
    return [Reading(name, asked, None, source, problem)]
