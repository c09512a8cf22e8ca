"""`sensor_list` and `sensor_read`: what is measured here, in numbers with units, and how the board itself is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

from picoclaw.errors import ToolError
from picoclaw.hw import health, kernel, parts
from picoclaw.hw.board import QUANTITIES, Board, Reading, Wired
from picoclaw.messages import Caller
from picoclaw.tools.toolset import tool

QuantityName = Literal[
    "",
    "temperature",
    "humidity",
    "pressure",
    "light",
    "voltage",
    "current",
    "power",
    "co2",
    "distance",
    "fan",
]


class Sensors:
    """Sensors that the kernel reads, and parts that a driver of ours reads over a bus."""

    def __init__(
        self, board: Board, wired: Mapping[str, Wired], driver: Callable[[str], parts.Driver], home: str
    ) -> None:
        """`wired` by the owner's names; `driver(part)` gives the read function of tools/hw/PART.py."""
        self._board = board
        self._wired = wired
        self._driver = driver
        self._home = home

    @tool(effect="read")
    def sensor_list(self) -> str:
        """List the sensors and what each measures."""
        rows = [f"{name}: {parts.place(part)}" for name, part in self._wired.items()]
        rows += [f"{s.name}: {s.quantity} ({s.source})" for s in kernel.sensors(self._board)]
        return "\n".join(rows) or _NO_SENSOR

    @tool(effect="read")
    def sensor_read(self, sensor: Annotated[str, "its name; empty: all"] = "", quantity: QuantityName = "") -> str:
        """Measure now; gives values with units."""
        wanted: set[str] = {quantity} if quantity else set()
        if sensor.strip().lower() in QUANTITIES:  # what small models write there
            sensor, wanted = "", wanted | {sensor.strip().lower()}
        readings = [r for r in self._readings(sensor, min(wanted, default="")) if not wanted or r.quantity in wanted]
        if not sensor:
            readings = [r for r in readings if not r.inside] or readings
        if not readings:
            raise ToolError(self._nothing(sensor, " or ".join(sorted(wanted))))
        if all(r.value is None for r in readings):
            raise ToolError("\n".join(_lines(readings)))
        return "\n".join(_lines(readings))

    @tool(effect="read")
    def board_status(self, caller: Caller) -> str:
        """Show how the board is: temperature, throttling, memory, disk, load, uptime, clock."""
        return "\n".join(health.lines(health.status(self._board, caller.now, self._home)))

    def _readings(self, sensor: str, quantity: str) -> Iterable[Reading]:
        for name, part in self._wired.items():
            if _meant(sensor, name, part.part):
                yield from parts.measure(self._board, name, part, self._driver, quantity or "temperature")
        for known in kernel.sensors(self._board):
            if _meant(sensor, known.name, known.source):
                yield kernel.read(self._board, known)

    def _nothing(self, sensor: str, quantity: str) -> str:
        names = [*self._wired, *dict.fromkeys(s.name for s in kernel.sensors(self._board))]
        if not names:
            return _NO_SENSOR
        what = f"no sensor {sensor!r}" if sensor else "no sensor"
        return f"{what}{f' measures {quantity}' if quantity else ''}; there are: {', '.join(names)}"


_NO_SENSOR = (
    "this board has no sensor that the kernel knows, and none is configured;"
    " name a part that is wired up in config.toml under [sensors.NAME]"
)


def _meant(asked: str, *names: str) -> bool:
    wanted = asked.strip().lower()
    return not wanted or any(wanted in name.lower() for name in names)


def _lines(readings: Iterable[Reading]) -> Iterable[str]:
    """One line a sensor: `porch: temperature 21.4 °C, humidity 55.2 % (source, read just now)`."""
    by_sensor: dict[str, list[Reading]] = {}
    for reading in readings:
        by_sensor.setdefault(reading.sensor, []).append(reading)
    for name, group in by_sensor.items():
        age = "" if all(r.value is None for r in group) else ", read just now"
        values = ", ".join(_value(r) for r in group)
        yield f"{name}: {values} ({group[0].source}{age})"


def _value(r: Reading) -> str:
    if r.value is None:
        return f"{r.quantity} not available: {r.problem}"
    digits = 0 if QUANTITIES[r.quantity].unit in {"ppm", "rpm"} else 2
    return f"{r.quantity} {r.value:.{digits}f} {r.unit}"
