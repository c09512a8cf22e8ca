"""Loads a driver file of tools/hw by name, when it is wanted and not before.

The owner's own files win over the shipped ones; they lie where the agent's file tools cannot write.
"""

import fcntl
import importlib.util
import json
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from picoclaw.config import Config, load_added_sensors
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.files import find_shipped, write_atomic
from picoclaw.hw import kernel
from picoclaw.hw.board import Board, I2CBus, Presence, SerialPort, SerialSettings, SpiSettings
from picoclaw.hw.handles import BusLock, I2CPart, OneWirePart, Part, SerialPart, SpiPart
from picoclaw.hw.reading import QUANTITIES, Reading, WiredPart, find_conversion, reject_implausible
from picoclaw.records import NamedTuple
from picoclaw.text import pattern

_DRIVER_NAME = pattern(r"[a-z][a-z0-9_]{0,40}")
_TOOL_FILES = {"i2c", "spi", "serial", "gpio", "picoclaw"}  # files of tools/hw that are no chip's driver
BUS_TABLES = {"i2c": "ADDRESSES", "spi": "SPI", "serial": "SERIAL", "onewire": "FAMILIES"}
"""The kinds of bus, and the table in a driver file that says how its part is reached on one."""
_FIRST_ADDRESS, _LAST_ADDRESS = 0x08, 0x77
DRIVER_ERRORS = (
    *(ImportError, SyntaxError, AttributeError, NameError, TypeError, ValueError, AssertionError, struct.error),
    *(ArithmeticError, LookupError, RuntimeError, OSError, EOFError, BufferError, MemoryError, SystemExit),
)
"""What a faulty driver may raise, as it is imported or as it reads; no fault of a driver may end picoclaw."""


def list_driver_folders(home: Path) -> list[Path]:
    """Return where driver files are looked for, the strongest first."""
    return [home / "hw", Path("/etc/picoclaw/hw"), find_shipped("tools/hw")]


def load_module(name: str, where: Sequence[Path]) -> ModuleType:
    """Import `NAME.py` from the first folder that has it; a folder that may not be read has nothing.

    Raises ConfigError when there is none, or when it cannot be imported.
    """
    if not _DRIVER_NAME.fullmatch(name):
        raise ConfigError(f"driver name {name!r} must be lower-case letters, digits and underscores")
    path = next(filter(None, (_find_file(folder, name) for folder in where)), None)
    if path is None:
        raise ConfigError(
            f"there is no driver {name!r}; known: {', '.join(list_drivers(where))}{_describe_unreadable(where)}"
        )
    return _import_module(name, path)


def load_driver(name: str, where: Sequence[Path]) -> ModuleType:
    """Load the driver of a chip: a module with `read(part)` and the table of one of ROUTES.

    Raises ConfigError naming the file and what is missing in it.
    """
    module = load_module(name, where)
    if not callable(getattr(module, "read", None)):
        raise ConfigError(f"{module.__file__} is not the driver of a chip: it has no function read(part)")
    if not any(hasattr(module, attribute) for attribute in BUS_TABLES.values()):
        tables = ", ".join(f"{table} ({bus})" for bus, table in BUS_TABLES.items())
        raise ConfigError(f"{module.__file__} is not the driver of a chip: it needs one table of {tables}")
    addresses = getattr(module, "ADDRESSES", (_FIRST_ADDRESS,))
    if not (isinstance(addresses, tuple | list) and addresses and all(map(_is_address, addresses))):
        raise ConfigError(
            f"{module.__file__} is not the driver of a chip: it needs ADDRESSES, a tuple of the 7-bit addresses"
            " (0x08 to 0x77) that the part can have, the usual one first"
        )
    options = getattr(module, "OPTIONS", {})
    if not isinstance(options, dict) or not all(map(_is_option, options.values())):
        raise ConfigError(f"OPTIONS in {module.__file__} must be names with three numbers: (usual, lowest, highest)")
    return module


def _is_option(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(number, int | float) for number in value)


def list_modules(where: Sequence[Path]) -> list[str]:
    return sorted({name for folder in where for name in _list_files(folder)})


def list_drivers(where: Sequence[Path]) -> list[str]:
    """List the drivers of parts: all modules but the tools for whole buses."""
    return [name for name in list_modules(where) if name not in _TOOL_FILES]


def _find_file(folder: Path, name: str) -> Path | None:
    path = folder / f"{name}.py"
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _list_files(folder).get(name)
    return path


def _list_files(folder: Path) -> dict[str, Path]:
    try:
        return {
            path.stem: path for path in folder.iterdir() if path.suffix == ".py" and _DRIVER_NAME.fullmatch(path.stem)
        }
    except OSError:
        return {}


def _describe_unreadable(where: Sequence[Path]) -> str:
    closed = []
    for folder in where:
        try:
            next(folder.iterdir(), None)
        except PermissionError:
            closed.append(f"; {folder} may not be read by this user")
        except OSError:
            continue
    return "".join(closed)


def _is_address(value: object) -> bool:
    return isinstance(value, int) and _FIRST_ADDRESS <= value <= _LAST_ADDRESS


def _import_module(name: str, path: Path) -> ModuleType:
    full = f"picoclaw_hw_{name}"
    loaded = sys.modules.get(full)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(full, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported as a driver")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except DRIVER_ERRORS as error:
        raise ConfigError(f"driver {path} cannot be loaded: {type(error).__name__}: {error}") from error
    sys.modules[full] = module
    return module


# Parts that a driver reads: how one is reached, and a measurement in which nothing can go wrong unsaid.

DriverLoader = Callable[[str], ModuleType]


def resolve_part(sensor: SensorConfig, where: Sequence[Path]) -> WiredPart:
    """Say where a configured part is, with its driver's usual place and options where none is given.

    Raises ConfigError when it cannot be on the bus that is named, or has no such option.
    """
    if sensor.mqtt:
        try:
            quantity = find_conversion(sensor.unit, sensor.quantity, sensor.field).quantity
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return WiredPart("mqtt", port=sensor.mqtt, quantity=quantity)
    chip = load_driver(sensor.part, where)
    options = _resolve_options(sensor, chip)
    _check_keys(sensor, get_bus_kind(chip))
    if sensor.address and sensor.address not in chip.ADDRESSES:
        can = ", ".join(f"0x{address:02x}" for address in chip.ADDRESSES)
        raise ConfigError(f"{sensor.part} cannot be at 0x{sensor.address:02x}; its addresses: {can}")
    if get_bus_kind(chip) == "i2c":
        bus = 1 if sensor.bus is None else sensor.bus
        return WiredPart(sensor.part, bus, sensor.address or chip.ADDRESSES[0], options=options)
    if get_bus_kind(chip) == "spi":
        return WiredPart(sensor.part, sensor.bus or 0, chip=sensor.chip, options=options)
    shape, example = _PORT_FORMATS[get_bus_kind(chip)]
    if not re.fullmatch(shape, sensor.port):
        raise ConfigError(f'{sensor.part} needs port, such as port = "{example}", not {sensor.port!r}')
    return WiredPart(sensor.part, port=sensor.port, options=options)


def resolve_parts(config: Config, board: Board) -> dict[str, WiredPart]:
    """Return the parts that the board knows of and those that the owner has named, which win.

    Raises ConfigError naming the file, the table and what is wrong in it.
    """
    where = list_driver_folders(config.home)
    found = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            found[name] = resolve_part(sensor, where)
        except ConfigError as error:
            if name in config.added:  # its reading says what is wrong; the others are not to be lost for it
                place = (sensor.part, sensor.bus or 0, sensor.address, sensor.chip, sensor.port)
                found[name] = WiredPart(*place, problem=f"[sensors.{name}] in sensors.toml: {error}")
                continue
            raise ConfigError(f"{config.home / 'config.toml'}: [sensors.{name}]: {error}") from None
    return found


_PORT_FORMATS = {"serial": (r"/\S+", "/dev/serial0"), "onewire": (r"[0-9a-f]{2}-[0-9a-f]{1,12}", "28-00000a1b2c3d")}
_BUS_KEYS = {"i2c": {"bus", "address"}, "spi": {"bus", "chip"}, "serial": {"port"}, "onewire": {"port"}}


def _check_keys(sensor: SensorConfig, kind: str) -> None:
    for key in ("bus", "address", "chip", "port"):
        if getattr(sensor, key) and key not in _BUS_KEYS[kind]:
            takes = " and ".join(sorted(_BUS_KEYS[kind]))
            raise ConfigError(f"{sensor.part} is a part for {_BUS_LABELS[kind]}: it takes {takes}, not {key}")


_BUS_LABELS = {"i2c": "I2C", "spi": "SPI", "serial": "a serial port", "onewire": "1-Wire"}


class RegisterAddresses:
    """Where named parts have registers that can be read without a change, as `(bus, address) in addresses`.

    A part without that flag may take the register's number for a command, or for its new output.
    """

    def __init__(self, wired: Mapping[str, WiredPart], load: DriverLoader) -> None:
        """Look at the parts each time anew, because some are added; `load(part)` gives a driver's module."""
        self._wired = wired
        self._load = load

    def __contains__(self, place: object) -> bool:
        """Tell whether somebody has named such a part at this bus and address."""
        for part in self._wired.values():
            if part.route == "i2c" and (part.bus, part.address) == place:
                with suppress(ConfigError):
                    return getattr(self._load(part.part), "REGISTERS", False) is True
        return False


def _resolve_options(sensor: SensorConfig, chip: ModuleType) -> dict[str, float]:
    known: Mapping[str, tuple[float, float, float]] = getattr(chip, "OPTIONS", {})
    for name, value in sensor.options.items():
        if name not in known:
            raise ConfigError(f"{sensor.part} has no option {name!r}; known: {', '.join(known) or 'none'}")
        _, low, high = known[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(
                f"option {name} of {sensor.part} must be a number from {low:g} to {high:g}, not {value!r}"
            )
    return {name: sensor.options.get(name, usual) for name, (usual, _, _) in known.items()}


def get_bus_kind(chip: ModuleType) -> str:
    return next(name for name, attribute in BUS_TABLES.items() if hasattr(chip, attribute))


def describe_part(part: WiredPart) -> str:
    return f"{part.part} on {format_location(part)}"


def format_location(part: WiredPart) -> str:
    if part.route == "i2c":
        return f"i2c-{part.bus} at 0x{part.address:02x}"
    return f"spi{part.bus}.{part.chip}" if part.route == "spi" else part.port


class Drivers:
    """The drivers of one board, with what they remember between two readings."""

    def __init__(
        self,
        board: Board,
        load: DriverLoader,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        ticks: Callable[[], float] = time.monotonic,
        remote: Callable[[str, WiredPart], Reading] | None = None,
    ) -> None:
        """`load(part)` gives the module of tools/hw/PART.py; `remote(name, part)` reads what comes over MQTT.

        `clock` gives seconds since the epoch, for the times of readings; `ticks` seconds that no clock change moves.
        """
        self._board = board
        self._load = load
        self._remote = remote
        self._clock = clock
        self._times = (sleep, ticks)
        self._memories: dict[str, dict[str, Any]] = {}

    def measure(self, name: str, part: WiredPart, asked: str = "temperature") -> list[Reading]:
        """Read a part; whatever fails becomes a Reading of the quantity `asked` for, which says what is wrong."""
        source = describe_part(part)
        if part.problem:
            return [Reading(name, asked, None, source, part.problem)]
        if part.route == "mqtt":
            if self._remote is None:
                return [Reading(name, part.quantity, None, source, "it cannot be read here")]
            return [reject_implausible(self._remote(name, part))]
        measured = self.quantities(part)
        asked = asked if asked in measured or not measured else measured[0]
        try:
            chip = self._load(part.part)
            with self.opened(part, chip) as handle:
                values = chip.read(handle)
                doubt, note = handle.doubts(), handle.notes()
            limits = getattr(chip, "LIMITS", {})
            found = [
                _make_reading(name, key, value, source, doubt)._replace(note=note) for key, value in values.items()
            ]
            readings = [reject_implausible(r, limits.get(r.quantity))._replace(at=self._clock()) for r in found]
        except (HardwareError, ConfigError, ValueError) as error:
            problem = str(error)
        except DRIVER_ERRORS as error:
            problem = f"its driver {part.part}.py failed: {type(error).__name__}: {error}"
        else:
            if readings:
                return readings
            problem = f"its driver {part.part}.py measured nothing"
        return [Reading(name, asked, None, source, problem)]

    def quantities(self, part: WiredPart) -> list[str]:
        """Name what a part measures, as far as its driver can be loaded and says so."""
        return [key.partition(" ")[0] for key in self.channels(part)]

    def channels(self, part: WiredPart) -> list[str]:
        """Name what a part measures, with the channel where it has several: 'voltage a0'."""
        if part.route == "mqtt":
            return [part.quantity]
        with suppress(ConfigError):
            keys = getattr(self._load(part.part), "QUANTITIES", ())
            keys = map(str, keys) if isinstance(keys, tuple | list) else ()
            return [key for key in keys if key.partition(" ")[0] in QUANTITIES]
        return []

    @contextmanager
    def opened(self, part: WiredPart, chip: ModuleType, *, urgent: bool = False) -> Iterator[Part]:
        """Hand out the handle that a driver moves its part with; nobody else's driver uses the same part meanwhile.

        Nor the same bus, but for while the driver sleeps. Raises BusFault when somebody has it for too long; an
        `urgent` one goes on then.
        """
        with lock_part(self._board, part, urgent=urgent) as mine:
            handle = self._handle(part, chip)
            if part.route in {"i2c", "spi"}:
                handle.sleep = mine.pausing(handle.sleep)
            handle.memory = self._memories.setdefault(describe_part(part), {})
            try:
                yield handle
            finally:
                if isinstance(handle, SerialPart):
                    handle.port.close()

    def _handle(self, part: WiredPart, chip: ModuleType) -> Part:
        usual = {name: option[0] for name, option in getattr(chip, "OPTIONS", {}).items()}
        options = usual | dict(part.options)
        if part.route == "i2c":
            return I2CPart(self._board.i2c(part.bus), part.address, options, *self._times)
        if part.route == "spi":
            return SpiPart(self._board.spi(part.bus, part.chip), SpiSettings(**chip.SPI), options, *self._times)
        if part.route == "serial":
            settings = SerialSettings(**chip.SERIAL)

            def reopen(baud: int) -> SerialPort:
                return self._board.serial(part.port, settings._replace(baud=baud))

            port = self._board.serial(part.port, settings)
            return SerialPart(port, options, *self._times, baud=settings.baud, reopen=reopen)
        return OneWirePart(self._board, part.port, options, *self._times)


def lock_part(board: Board, part: WiredPart, *, urgent: bool = False) -> BusLock:
    bus = f"{part.route}-{part.bus}" if part.route in {"i2c", "spi"} else part.port or part.route
    return BusLock(bus, format_location(part), board.lock_path(part), part.address, urgent=urgent)


def probe(board: Board, bus: I2CBus, address: int) -> Presence:
    """See I2CBus.probe, in a turn with what is at the address. Raises BusFault when somebody has it for too long."""
    with lock_part(board, WiredPart("", bus.number, address)):
        return bus.probe(address)


def _make_reading(name: str, key: str, value: float | ValueError, source: str, doubt: str) -> Reading:
    """Make a reading of what a driver gave for a key: a number, or an error when only this one cannot be had."""
    quantity, _, channel = key.partition(" ")
    if isinstance(value, bool):
        raise TypeError(f"{key} is {value}, not a number")
    if quantity not in QUANTITIES:
        raise LookupError(f"{key!r} is not a quantity; known: {', '.join(QUANTITIES)}")
    if isinstance(value, ValueError):
        return Reading(name, quantity, None, source, str(value) or "the driver does not say why", channel=channel)
    return Reading(name, quantity, value, source, channel=channel, doubt=doubt)


# `sensors.toml` in picoclaw's home: the parts that were added in conversation. config.toml, the owner's, wins.

ADDED_SENSORS_FILE = "sensors.toml"
_ADDED_SENSORS_HEADER = (
    "# Parts that were added in conversation. Change or delete them freely; config.toml wins over this file.\n"
)


def add_sensor(home: Path, name: str, sensor: SensorConfig) -> None:
    """Add a part durably; raises OSError, and ConfigError when the name is taken or the file is damaged."""
    import tomllib

    path = home / ADDED_SENSORS_FILE
    folder = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another picoclaw may be adding one
        for other, there in load_added_sensors(home).items():
            if other == name or _get_location(there) == _get_location(sensor) != _NO_LOCATION:
                raise ConfigError(f"{path} has a sensor {other!r} already{'' if other == name else ' in that place'}")
        before = path.read_text(encoding="utf-8") if path.exists() else _ADDED_SENSORS_HEADER
        text = f"{before}\n{format_sensor_table(name, sensor)}"
        try:
            tomllib.loads(text)
        except (ValueError, RecursionError):
            raise ConfigError(f"{path} has its sensors in braces: write each below a [sensors.NAME]") from None
        write_atomic(path, text.encode())
    finally:
        os.close(folder)


_NO_LOCATION = (None, 0, 0, "")


def _get_location(sensor: SensorConfig) -> tuple[int | None, int, int, str]:
    return sensor.bus, sensor.address, sensor.chip, sensor.port


def format_sensor_table(name: str, sensor: SensorConfig) -> str:
    """Write a part as a table of TOML, whose strings are those of JSON."""
    rows = [f"[sensors.{_quote_toml(name)}]"]
    keys = ("part", "mqtt", "field", "unit", "quantity", "availability")
    rows += [f"{key} = {_quote_toml(getattr(sensor, key))}" for key in keys if getattr(sensor, key)]
    if sensor.bus is not None:
        rows.append(f"bus = {sensor.bus}")
    if sensor.address:
        rows.append(f"address = 0x{sensor.address:02x}")
    if sensor.chip:
        rows.append(f"chip = {sensor.chip}")
    if sensor.port:
        rows.append(f"port = {_quote_toml(sensor.port)}")
    if sensor.options:
        pairs = ", ".join(f"{key} = {float(value)}" for key, value in sensor.options.items())
        rows.append(f"options = {{ {pairs} }}")
    return "\n".join(rows) + "\n"


def _quote_toml(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


# Everything that can be measured here: the parts that somebody has named, and what the kernel knows besides.


class Sensor(NamedTuple):
    """A sensor: a part that has been named, or one that only the kernel knows, with what the kernel reads from it."""

    name: str
    part: WiredPart | None
    kernel: list[kernel.KernelSensor]

    @property
    def source(self) -> str:
        if self.part is None:
            return self.kernel[0].source
        by = f", read by the kernel ({self.kernel[0].source})" if self.kernel else ""
        return f"{describe_part(self.part)}{by}"


def list_sensors(board: Board, wired: Mapping[str, WiredPart]) -> list[Sensor]:
    """List the sensors without reading any; a part that the kernel reads is listed once, by its name here."""
    known = kernel.list_kernel_sensors(board)
    found = []
    for name, part in wired.items():
        bound = kernel.find_bound_sensors(board, part, known)
        known = [sensor for sensor in known if sensor not in bound]
        found.append(Sensor(name, part, bound))
    return [*found, *(Sensor(sensor.name, None, [sensor]) for sensor in known)]


def list_measured(board: Board, wired: Mapping[str, WiredPart], drivers: Drivers) -> dict[str, list[str]]:
    """List the sensors and what each measures, with its channels, without reading any."""
    found: dict[str, list[str]] = {}
    for sensor in list_sensors(board, wired):
        by_kernel = [f"{known.quantity} {known.channel}".rstrip() for known in sensor.kernel]
        ours = drivers.channels(sensor.part) if sensor.part and not by_kernel else []
        found.setdefault(sensor.name, []).extend(dict.fromkeys([*by_kernel, *ours]))
    return found


def read_sensor(board: Board, drivers: Drivers, sensor: Sensor, asked: str = "temperature") -> list[Reading]:
    """Measure: by the kernel's driver where one is bound, else by ours; a failure names the quantity `asked` for."""
    if sensor.part is None:
        return [kernel.read_kernel_sensor(board, sensor.kernel[0])]
    if sensor.kernel:
        return [kernel.read_kernel_sensor(board, known, sensor.name) for known in sensor.kernel]
    return drivers.measure(sensor.name, sensor.part, asked)
