"""`sensor_list`, `sensor_read`, `board_status` and `sensor_add`: readings with units, and parts that are added."""

import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError, ToolError
from picoclaw.files import explain_os_error
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.reading import QUANTITIES, Reading, WiredPart, format_reading
from picoclaw.messages import Caller
from picoclaw.records import replace
from picoclaw.schema import Span, find_nearest
from picoclaw.text import pattern
from picoclaw.times import format_duration
from picoclaw.tools.registry import tool


class SensorTools:
    """Kernel sensors, and parts that our drivers read over a bus."""

    def __init__(self, board: Board, wired: Mapping[str, WiredPart], drivers: loader.Drivers, home: str) -> None:
        """`wired` are the configured parts by name; looked up at each call, because parts are added."""
        self._board, self._wired, self._drivers, self._home = board, wired, drivers, home

    @tool(effect="read")
    def sensor_list(self) -> str:
        """List the sensors and what each measures."""
        rows = []
        for found in loader.list_sensors(self._board, self._wired):
            ours = self._drivers.channels(found.part) if found.part else []
            measured = dict.fromkeys([known.quantity for known in found.kernel] or ours)
            rows.append(
                f"{found.name}: {', '.join(measured)} ({found.source})" if measured else f"{found.name}: {found.source}"
            )
        return "\n".join(rows) or _NO_SENSOR

    def _check_reading(self, arguments: Mapping[str, Any]) -> Literal["read"]:
        """Refuse a reading of a missing sensor now: a planned one would fail each time it is due."""
        asked = parse_quantities(arguments["quantity"])
        name, wanted = self._parse_request(
            arguments["sensor"] or self._find_qualifier(arguments["quantity"], asked), asked
        )
        measured = [self._list_quantities(found) for found in self._find_sensors(name)]
        if not any(not wanted or not each or wanted & each for each in measured):
            raise ToolError(self._explain_missing(name, wanted))
        return "read"

    @tool(effect=_check_reading)
    def sensor_read(
        self,
        sensor: Annotated[str, "a name from sensor_list; default: all"] = "",
        quantity: Annotated[str, "such as temperature; default: all"] = "",
    ) -> str:
        """Measure now. Returns values with units."""
        wanted = parse_quantities(quantity)
        named = self._find_qualifier(quantity, wanted)
        readings = self.read(sensor or named, wanted)
        rows = "\n".join(_format_readings(readings, time.time()))
        if all(r.value is None for r in readings):
            raise ToolError(rows)
        return rows

    def read(self, sensor: str = "", wanted: frozenset[str] = frozenset()) -> list[Reading]:
        """Measure now: one sensor or all, and of these the `wanted` quantities. Raises ToolError where there is none."""
        name, wanted = self._parse_request(sensor, wanted)
        readings = [r for r in self._read(name, wanted) if not wanted or r.quantity in wanted]
        if not name:
            readings = [r for r in readings if not r.is_internal] or readings
        if not readings:
            raise ToolError(self._explain_missing(name, wanted))
        return readings

    @tool(effect="read")
    def board_status(self, caller: Caller) -> str:
        """Show the state of this computer: temperature, throttling, memory, disk, load, uptime, clock, address."""
        from picoclaw.hw import health

        rows = health.check_health(self._board, caller.now, self._home)
        return "\n".join([*health.format_results(rows), f"address: {' or '.join(health.list_addresses())}"])

    def _parse_request(self, asked: str, wanted: frozenset[str]) -> tuple[str, frozenset[str]]:
        """Split a request such as "greenhouse temperature" into the sensor's name and the quantities."""
        asked, known = asked.strip(), loader.list_sensors(self._board, self._wired)
        if any(asked == s.name or (_is_part_of_name(asked, s) and not _find_quantities(asked)) for s in known):
            return asked, wanted
        told = {word: _find_quantities(word) for word in _split_words(asked)}
        both = frozenset[str]().union(*told.values())
        others = [word for word, meant in told.items() if not meant and word not in _SENSORS]
        if both:  # in "air pressure" the air names no sensor, unless one is called that
            others = [
                word
                for word in others
                if any(_is_part_of_name(word, found) for found in known)
                or not (word.isalpha() and _QUALIFIES.fullmatch(word))
            ]
        return " ".join(others), (wanted & both) or (wanted | both)

    def _find_qualifier(self, quantity: str, wanted: frozenset[str]) -> str:
        """The sensor in "cpu temperature", '' for none; raises ToolError for words that name nothing here."""
        if _find_quantities(quantity):
            return ""
        others = [word for word in _split_words(quantity) if not (_find_quantities(word) or _QUALIFIES.fullmatch(word))]
        known = loader.list_sensors(self._board, self._wired)
        strange = [word for word in others if not any(_is_part_of_name(word, found) for found in known)]
        if strange:
            raise ToolError(self._explain_missing(" ".join(strange), wanted))
        return " ".join(others)

    def _find_sensors(self, name: str) -> list[loader.Sensor]:
        known = loader.list_sensors(self._board, self._wired)
        meant = [found for found in known if found.name == name] or [
            found for found in known if _is_part_of_name(name, found)
        ]
        return meant or [found for found in known if all(_is_part_of_name(word, found) for word in _split_words(name))]

    def _list_quantities(self, found: loader.Sensor) -> frozenset[str]:
        """What a sensor measures; empty where that is unknown before it is read."""
        if found.kernel:
            return frozenset(known.quantity for known in found.kernel)
        return frozenset(self._drivers.quantities(found.part)) if found.part else frozenset()

    def _read(self, name: str, wanted: frozenset[str]) -> Iterable[Reading]:
        for found in self._find_sensors(name):
            ours = self._drivers.quantities(found.part) if found.part and not found.kernel else []
            if not wanted or not ours or wanted.intersection(ours):  # what cannot answer need not be woken
                asked = min(wanted.intersection(ours) or wanted, default="temperature")
                yield from loader.read_sensor(self._board, self._drivers, found, asked)

    def _explain_missing(self, sensor: str, wanted: Iterable[str]) -> str:
        names = list(dict.fromkeys(found.name for found in loader.list_sensors(self._board, self._wired)))
        if not names:
            return _NO_SENSOR
        what = f"no sensor {sensor!r}" if sensor else "no sensor"
        quantity = " or ".join(sorted(wanted))
        return f"{what}{f' measures {quantity}' if quantity else ''}; there are: {', '.join(names)}"


_NO_SENSOR = (
    "this board has no sensor that the kernel knows, and none is configured;"
    " name a part that is wired up in config.toml under [sensors.NAME]"
)


_WORD = pattern(r"[^\s,;/()_-]+")
_SAYS_NOTHING = frozenset(
    {"a", "all", "an", "and", "any", "at", "each", "every", "everything", "in", "my", "of", "on", "or", "the"}
)
_SENSORS = frozenset({"sensor", "sensors", "value", "values", "reading", "readings", "measurement", "measurements"})
_QUALIFIES = pattern(
    r"sensors?|values?|readings?|measurements?|levels?|degrees?|units?|now|right|latest|present|is|it|what|how|here|for"
    r"|relative|absolute|air|ambient|atmospheric|barometric|.*\d.*"
)
"""Words beside a quantity's that name no sensor; one with a digit is a channel."""

_SYNONYMS = {
    **dict.fromkeys(["temp", "temperatures", "thermometer", "celsius", "centigrade", "c", "fahrenheit"], "temperature"),
    **dict.fromkeys(["heat", "warmth"], "temperature"),
    **dict.fromkeys(["hygrometer", "rh", "%rh", "percent"], "humidity"),
    **dict.fromkeys(["barometer", "mbar", "millibar", "hectopascal", "pascal", "pa"], "pressure"),
    **dict.fromkeys(["brightness", "illuminance", "lux"], "light"),
    **dict.fromkeys(["volt", "volts"], "voltage"),
    **dict.fromkeys(["ampere", "amperes", "amps"], "current"),
    **dict.fromkeys(["watt", "watts"], "power"),
}
"""Words that stand for a quantity, beside its own name and its unit."""


def _split_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _SAYS_NOTHING]


def _find_quantities(text: str) -> frozenset[str]:
    """The quantities that a name, unit or synonym stands for."""
    asked = text.strip().lower()
    asked = _SYNONYMS.get(asked, asked)
    units = (name for name, each in QUANTITIES.items() if asked and each.unit.lower() == asked)
    return frozenset({asked}) if asked in QUANTITIES else frozenset(units)


def parse_quantities(asked: str) -> frozenset[str]:
    """The requested quantities; none means all."""
    words = _split_words(asked)
    found = _find_quantities(asked) or frozenset[str]().union(*map(_find_quantities, words))
    if not found and not _SENSORS.issuperset(words):
        raise ToolError(f"there is no quantity {asked!r}{find_nearest(words[0], QUANTITIES)}")
    return found


def _is_part_of_name(asked: str, found: loader.Sensor) -> bool:
    """Whether a text is part of a sensor's name, part or source."""
    names = (found.name, found.part.part if found.part else found.source)
    return any(asked.lower() in name.lower() for name in names)


_JUST_NOW_S = 5.0


def _format_readings(readings: Iterable[Reading], now: float) -> Iterable[str]:
    """One line per sensor: `porch: temperature 21.4 °C, humidity 55.2 % (source, read just now)`."""
    by_sensor: dict[str, list[Reading]] = {}
    for reading in readings:
        by_sensor.setdefault(reading.sensor, []).append(reading)
    for name, group in by_sensor.items():
        values = ", ".join(
            format_reading(r) if r.value is not None else f"{r.label} not available: {r.problem}" for r in group
        )
        doubts = "; ".join(dict.fromkeys(r.doubt for r in group if r.quality == "doubtful"))
        notes = "".join(f"; {note}" for note in dict.fromkeys(r.note for r in group if r.value is not None and r.note))
        doubtful = f"; doubtful: {doubts}" if doubts else ""
        age, moments = "", [r.at for r in group if r.value is not None]
        if moments:
            seconds = max(0.0, now - min(moments))
            age = ", read just now" if seconds < _JUST_NOW_S else f", read {format_duration(seconds)} ago"
        yield f"{name}: {values} ({group[0].source}{age}{doubtful}{notes})"


# `sensor_add`: configures a wired part, after checking that it is there and is what it is said to be.

_MAX_NAME_CHARS = 40


class SensorAddTool:
    def __init__(
        self,
        board: Board,
        wired: MutableMapping[str, WiredPart],
        drivers: loader.Drivers,
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

    def _explain_adding(self, arguments: Mapping[str, Any]) -> str:
        bus, address = arguments["bus"], arguments["address"]
        where = arguments["port"] or (f"i2c-{1 if bus is None else bus} 0x{address:02x}" if address else "")
        known = ", ".join(filter(None, [arguments["part"], where]))
        return f"{arguments['name']}: {known}" if known else ""

    @tool(effect="actuate", means=_explain_adding)
    def sensor_add(
        self,
        name: Annotated[str, "a new name, such as porch"],
        part: Annotated[str, "such as bme280; default: detect it"] = "",
        bus: Annotated[int | None, Span(0, 255)] = None,
        address: Annotated[int, Span(0, 0x77), "I2C address, 0x08 to 0x77"] = 0,
        chip: Annotated[int, Span(0, 255), "SPI chip select"] = 0,
        port: Annotated[str, "serial port, or 1-Wire id"] = "",
        options: Annotated[dict[str, Any] | None, "such as shunt_ohms"] = None,
    ) -> str:
        """Set up a wired sensor, after checking that it answers."""
        from picoclaw.hw import detect

        if not name.strip() or len(name) > _MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
            raise ToolError(f"name must be 1 to {_MAX_NAME_CHARS} printable characters, such as porch")
        if name in self._wired:
            raise ToolError(
                f"there is a sensor {name!r} already: {loader.describe_part(self._wired[name])}; choose another name"
            )
        if address and address < detect.FIRST_ADDRESS:
            raise ToolError(f"'address' is {address}, outside 0x08 to 0x77")
        if not part:
            self._check_bus(1 if bus is None else bus, address)
            part = self._detect_part(1 if bus is None else bus, address)
        sensor = SensorConfig(part.strip().lower(), bus, address, chip, port, options or {})
        try:
            wired = loader.resolve_part(sensor, self._where)
        except ConfigError as error:
            raise ToolError(str(error)) from None
        for known, other in self._wired.items():
            if loader.format_location(other) == loader.format_location(wired):
                raise ToolError(f"{loader.format_location(wired)} is taken: {known} is {loader.describe_part(other)}")
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
            raise ToolError(f"{name} could not be saved: {explain_os_error(error)}") from None
        self._wired[name] = wired
        self._wake()
        return f"added {name}: {loader.describe_part(wired)}; it measures {seen}"

    def _check_bus(self, bus: int, address: int) -> None:
        """Refuse buses of the board itself and declared outputs: even a probe writes to a part."""
        if (bus, address) in self._owned:
            raise ToolError(f"0x{address:02x} on i2c-{bus} is the declared output {self._owned[bus, address]}")
        use = next((a.use for a in self._board.adapters() if a.number == bus), "")
        if use:
            raise ToolError(f"i2c-{bus} belongs to {use}: wire parts to the pin header's bus")

    def _detect_part(self, bus: int, address: int) -> str:
        """Identify the part at an address; raises ToolError if that is not certain."""
        from picoclaw.hw import detect

        if not address:
            raise ToolError(
                "part or address is missing: say which part it is, or where (`i2c` with scan lists addresses)"
            )
        where = f"0x{address:02x} on i2c-{bus}"
        if (presence := loader.probe(self._board, self._board.i2c(bus), address)) != "present":
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
        chip = loader.load_driver(wired.part, self._where)
        identify = getattr(chip, "identify", None)
        try:
            if identify is not None:
                with self._drivers.opened(wired, chip) as handle:
                    said = identify(handle)
                if not said:
                    raise ToolError(self._explain_other_part(wired))
        except (HardwareError, ValueError) as error:
            raise ToolError(str(error)) from None
        except loader.DRIVER_ERRORS as error:
            raise ToolError(f"its driver {wired.part}.py failed: {type(error).__name__}: {error}") from None
        readings = self._drivers.measure(name, wired)
        if all(reading.value is None for reading in readings):
            raise ToolError(f"{loader.describe_part(wired)} was not added: {readings[0].problem}")
        return ", ".join(format_reading(reading) for reading in readings if reading.value is not None)

    def _explain_other_part(self, wired: WiredPart) -> str:
        from picoclaw.hw import detect

        problem, others = f"what is on {loader.format_location(wired)} is no {wired.part}", {}
        if wired.route == "i2c":
            others = detect.identify_part(self._board, wired.bus, wired.address, self._where).identified
        return f"{problem}: it says that it is {' or '.join(others.values())}" if others else problem
