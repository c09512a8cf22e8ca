"""`sensor_add`: configures a wired part, after checking that it is there and is what it is said to be."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError, ToolError
from picoclaw.files import explain_os_error
from picoclaw.hw import detect, drivers
from picoclaw.hw.board import Board
from picoclaw.hw.reading import WiredPart, format_reading
from picoclaw.schema import Span
from picoclaw.tools.registry import tool

_MAX_NAME_CHARS = 40


class SensorAddTool:
    def __init__(
        self,
        board: Board,
        wired: MutableMapping[str, WiredPart],
        drivers: drivers.Drivers,
        where: Sequence[Path],
        keep: Callable[[str, SensorConfig], None],
        owned: Mapping[tuple[int, int], str] = MappingProxyType({}),
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        """`wired` grows by what is added; `keep(name, sensor)` makes it durable, raising OSError.

        `owned` names the declared output at a bus and address, which is left alone; `ring()` wakes what samples.
        """
        self._board, self._wired, self._drivers, self._where = board, wired, drivers, where
        self._save, self._owned, self._wake = keep, owned, ring

    @tool(effect="actuate", later=("bus", "chip", "port", "options"))
    def sensor_add(
        self,
        name: Annotated[str, "such as porch"],
        part: Annotated[str, "empty: find out"] = "",
        bus: Annotated[int | None, Span(0, 255)] = None,
        address: Annotated[int, Span(0, 0x77), "I2C, 0x08-0x77"] = 0,
        chip: Annotated[int, Span(0, 255), "SPI chip select"] = 0,
        port: Annotated[str, "serial or 1-Wire"] = "",
        options: Annotated[dict[str, Any] | None, "such as shunt_ohms"] = None,
    ) -> str:
        """Add a wired part, after checking that it is there."""
        if not name.strip() or len(name) > _MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
            raise ToolError(f"name must be 1 to {_MAX_NAME_CHARS} printable characters, such as porch")
        if name in self._wired:
            raise ToolError(
                f"there is a sensor {name!r} already: {drivers.describe_part(self._wired[name])}; choose another name"
            )
        if address and address < detect.FIRST_ADDRESS:
            raise ToolError(f"'address' is {address}, outside 0x08 to 0x77")
        if not part:
            self._check_bus(1 if bus is None else bus, address)
            part = self._detect_part(1 if bus is None else bus, address)
        sensor = SensorConfig(part.strip().lower(), bus, address, chip, port, options or {})
        try:
            wired = drivers.resolve_part(sensor, self._where)
        except ConfigError as error:
            raise ToolError(str(error)) from None
        for known, other in self._wired.items():
            if drivers.format_location(other) == drivers.format_location(wired):
                raise ToolError(f"{drivers.format_location(wired)} is taken: {known} is {drivers.describe_part(other)}")
        if wired.route == "i2c":
            self._check_bus(wired.bus, wired.address)
        seen = self._verify_part(name, wired)
        try:
            # the full location, so that another driver's default cannot move the part
            self._save(
                name, replace(sensor, bus=wired.bus if wired.route in {"i2c", "spi"} else None, address=wired.address)
            )
        except ConfigError as error:
            raise ToolError(str(error)) from None
        except OSError as error:
            raise ToolError(f"{name} could not be kept: {explain_os_error(error)}") from None
        self._wired[name] = wired
        self._wake()
        return f"added {name}: {drivers.describe_part(wired)}; it measures {seen}"

    def _check_bus(self, bus: int, address: int) -> None:
        """Refuse buses of the board itself and declared outputs: even a probe writes to a part."""
        if (bus, address) in self._owned:
            raise ToolError(f"0x{address:02x} on i2c-{bus} is the declared output {self._owned[bus, address]}")
        use = next((a.use for a in self._board.adapters() if a.number == bus), "")
        if use:
            raise ToolError(f"i2c-{bus} belongs to {use}: wire parts to the pin header's bus")

    def _detect_part(self, bus: int, address: int) -> str:
        """Identify the part at an address; raises ToolError if that is not certain."""
        if not address:
            raise ToolError(
                "part or address is missing: say which part it is, or where (`i2c` with scan lists addresses)"
            )
        where = f"0x{address:02x} on i2c-{bus}"
        if (presence := drivers.probe(self._board, self._board.i2c(bus), address)) != "present":
            held = f"is read by the kernel's driver {self._board.i2c(bus).holder(address)} already: see sensor_list"
            raise ToolError(f"{where} {held if presence == 'busy' else 'does not answer: check power and wiring'}")
        found = detect.identify_part(self._board, bus, address, self._where)
        if len(found.identified) == 1:
            return next(iter(found.identified))
        choices = list(found.identified) or found.possible
        if not choices:
            raise ToolError(
                f"{where} answers, but no driver knows a part at that address; use the i2c tool, or add a driver"
            )
        raise ToolError(
            f"{where} answers, but may be {' or '.join(choices)}, which cannot be told apart safely:"
            " say which part it is, by what is printed on it"
        )

    def _verify_part(self, name: str, wired: WiredPart) -> str:
        """Measure once; raises ToolError if it is another part, or gives no plausible value."""
        chip = drivers.load_driver(wired.part, self._where)
        identify = getattr(chip, "identify", None)
        try:
            if identify is not None:
                with self._drivers.opened(wired, chip) as handle:
                    said = identify(handle)
                if not said:
                    raise ToolError(self._explain_other_part(wired))
        except (HardwareError, ValueError) as error:
            raise ToolError(str(error)) from None
        except drivers.DRIVER_ERRORS as error:
            raise ToolError(f"its driver {wired.part}.py failed: {type(error).__name__}: {error}") from None
        readings = self._drivers.measure(name, wired)
        if all(reading.value is None for reading in readings):
            raise ToolError(f"{drivers.describe_part(wired)} was not added: {readings[0].problem}")
        return ", ".join(format_reading(reading) for reading in readings if reading.value is not None)

    def _explain_other_part(self, wired: WiredPart) -> str:
        problem, others = f"what is on {drivers.format_location(wired)} is no {wired.part}", {}
        if wired.route == "i2c":
            others = detect.identify_part(self._board, wired.bus, wired.address, self._where).identified
        return f"{problem}: it says that it is {' or '.join(others.values())}" if others else problem
