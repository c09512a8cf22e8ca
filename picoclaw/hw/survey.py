"""Everything that can be measured here: the parts that somebody has named, and what the kernel knows besides."""

from collections.abc import Mapping
from typing import NamedTuple

from picoclaw.hw import kernel, parts
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Reading, Wired


class Found(NamedTuple):
    """A sensor: a part that has been named, or one that only the kernel knows, with what the kernel reads from it."""

    name: str
    part: Wired | None
    kernel: list[kernel.KernelSensor]

    @property
    def source(self) -> str:
        """Where it is, for people."""
        if self.part is None:
            return self.kernel[0].source
        by = f", read by the kernel ({self.kernel[0].source})" if self.kernel else ""
        return f"{parts.place(self.part)}{by}"


def sensors(board: Board, wired: Mapping[str, Wired]) -> list[Found]:
    """List the sensors without reading any; a part that the kernel reads is listed once, by its name here."""
    known = kernel.sensors(board)
    found = []
    for name, part in wired.items():
        bound = kernel.bound(board, part, known)
        known = [sensor for sensor in known if sensor not in bound]
        found.append(Found(name, part, bound))
    return [*found, *(Found(sensor.name, None, [sensor]) for sensor in known)]


def read(board: Board, drivers: parts.Drivers, sensor: Found, asked: str = "temperature") -> list[Reading]:
    """Measure: by the kernel's driver where one is bound, else by ours; a failure names the quantity `asked` for."""
    if sensor.part is None:
        return [kernel.read(board, sensor.kernel[0])]
    if sensor.kernel:
        return [kernel.read(board, known, sensor.name) for known in sensor.kernel]
    return drivers.measure(sensor.name, sensor.part, asked)
