"""Everything that can be measured here: the parts that somebody has named, and what the kernel knows besides."""

from collections.abc import Mapping

from picoclaw.hw import kernel as hw_kernel
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Reading, WiredPart
from picoclaw.records import NamedTuple


class Sensor(NamedTuple):
    """A sensor: a part that has been named, or one that only the kernel knows, with what the kernel reads from it."""

    name: str
    part: WiredPart | None
    kernel: list[hw_kernel.KernelSensor]

    @property
    def source(self) -> str:
        """Where it is, for people."""
        if self.part is None:
            return self.kernel[0].source
        by = f", read by the kernel ({self.kernel[0].source})" if self.kernel else ""
        return f"{loader.describe_part(self.part)}{by}"


def list_sensors(board: Board, wired: Mapping[str, WiredPart]) -> list[Sensor]:
    """List the sensors without reading any; a part that the kernel reads is listed once, by its name here."""
    known = hw_kernel.list_kernel_sensors(board)
    found = []
    for name, part in wired.items():
        bound = hw_kernel.find_bound_sensors(board, part, known)
        known = [sensor for sensor in known if sensor not in bound]
        found.append(Sensor(name, part, bound))
    return [*found, *(Sensor(sensor.name, None, [sensor]) for sensor in known)]


def read_sensor(board: Board, drivers: loader.Drivers, sensor: Sensor, asked: str = "temperature") -> list[Reading]:
    """Measure: by the kernel's driver where one is bound, else by ours; a failure names the quantity `asked` for."""
    if sensor.part is None:
        return [hw_kernel.read_kernel_sensor(board, sensor.kernel[0])]
    if sensor.kernel:
        return [hw_kernel.read_kernel_sensor(board, known, sensor.name) for known in sensor.kernel]
    return drivers.measure(sensor.name, sensor.part, asked)
