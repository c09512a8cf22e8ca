"""`sensor_list` and `sensor_read`: what is measured here, in numbers with units, and how the board itself is."""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated

from picoclaw.errors import ToolError
from picoclaw.hw import health, parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.reading import QUANTITIES, Reading, Wired, worded
from picoclaw.messages import Caller
from picoclaw.schedule import duration
from picoclaw.schema import nearest
from picoclaw.tools.toolset import tool


class Sensors:
    """Sensors that the kernel reads, and parts that a driver of ours reads over a bus."""

    def __init__(self, board: Board, wired: Mapping[str, Wired], drivers: parts.Drivers, home: str) -> None:
        """`wired` by the owner's names; looked up anew each time, because parts are added."""
        self._board = board
        self._wired = wired
        self._drivers = drivers
        self._home = home

    @tool(effect="read")
    def sensor_list(self) -> str:
        """List the sensors and what each measures."""
        found = survey.sensors(self._board, self._wired)
        rows = [f"{s.name}: {'' if s.part else s.kernel[0].quantity + ' '}{_placed(s)}" for s in found]
        return "\n".join(rows) or _NO_SENSOR

    @tool(effect="read")
    def sensor_read(
        self, sensor: Annotated[str, "its name; empty: all"] = "", quantity: Annotated[str, "such as humidity"] = ""
    ) -> str:
        """Measure now; gives values with units."""
        quantity = _known_quantity(quantity)
        wanted: set[str] = {quantity} if quantity else set()
        if sensor.strip().lower() in QUANTITIES:  # what small models write there
            sensor, wanted = "", wanted | {sensor.strip().lower()}
        readings = [r for r in self._readings(sensor, min(wanted, default="")) if not wanted or r.quantity in wanted]
        if not sensor:
            readings = [r for r in readings if not r.inside] or readings
        if not readings:
            raise ToolError(self._nothing(sensor, " or ".join(sorted(wanted))))
        rows = "\n".join(_lines(readings, time.time()))
        if all(r.value is None for r in readings):
            raise ToolError(rows)
        return rows

    @tool(effect="read")
    def board_status(self, caller: Caller) -> str:
        """Show how the board is: temperature, throttling, memory, disk, load, uptime, clock."""
        return "\n".join(health.lines(health.status(self._board, caller.now, self._home)))

    def _readings(self, sensor: str, quantity: str) -> Iterable[Reading]:
        known = survey.sensors(self._board, self._wired)
        meant = [s for s in known if s.name == sensor.strip()]
        meant = meant or [s for s in known if _meant(sensor, s.name, s.part.part if s.part else s.source)]
        for found in meant:
            ours = self._drivers.quantities(found.part) if found.part and not found.kernel else []
            if not quantity or not ours or quantity in ours:  # what cannot answer need not be woken
                yield from survey.read(self._board, self._drivers, found, quantity or "temperature")

    def _nothing(self, sensor: str, quantity: str) -> str:
        names = list(dict.fromkeys(found.name for found in survey.sensors(self._board, self._wired)))
        if not names:
            return _NO_SENSOR
        what = f"no sensor {sensor!r}" if sensor else "no sensor"
        return f"{what}{f' measures {quantity}' if quantity else ''}; there are: {', '.join(names)}"


_NO_SENSOR = (
    "this board has no sensor that the kernel knows, and none is configured;"
    " name a part that is wired up in config.toml under [sensors.NAME]"
)


def _placed(found: survey.Found) -> str:
    return found.source if found.part else f"({found.source})"


def _known_quantity(asked: str) -> str:
    quantity = asked.strip().lower()
    if quantity and quantity not in QUANTITIES:
        raise ToolError(f"there is no quantity {asked!r}{nearest(quantity, QUANTITIES)}")
    return quantity


def _meant(asked: str, *names: str) -> bool:
    wanted = asked.strip().lower()
    return not wanted or any(wanted in name.lower() for name in names)


_JUST_NOW_S = 5.0


def _lines(readings: Iterable[Reading], now: float) -> Iterable[str]:
    """One line a sensor: `porch: temperature 21.4 °C, humidity 55.2 % (source, read just now)`."""
    by_sensor: dict[str, list[Reading]] = {}
    for reading in readings:
        by_sensor.setdefault(reading.sensor, []).append(reading)
    for name, group in by_sensor.items():
        values = ", ".join(worded(r) if r.value is not None else f"{r.what} not available: {r.problem}" for r in group)
        doubts = "; ".join(dict.fromkeys(r.doubt for r in group if r.quality == "doubtful"))
        yield f"{name}: {values} ({group[0].source}{_age(group, now)}{f'; doubtful: {doubts}' if doubts else ''})"


def _age(group: Iterable[Reading], now: float) -> str:
    moments = [r.at for r in group if r.value is not None]
    if not moments:
        return ""
    seconds = max(0.0, now - min(moments))
    return ", read just now" if seconds < _JUST_NOW_S else f", read {duration(seconds)} ago"
