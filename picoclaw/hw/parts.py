"""Parts that a driver reads: how one is reached, and a measurement in which nothing can go wrong unsaid."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from picoclaw.config import Config, SensorConfig
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader
from picoclaw.hw.board import Board, I2CBus, Presence, SerialPort, SerialSettings, SpiSettings
from picoclaw.hw.bus_lock import Turn
from picoclaw.hw.handles import I2CPart, OneWirePart, Part, SerialPart, SpiPart
from picoclaw.hw.reading import QUANTITIES, Reading, Wired, believed

Load = Callable[[str], ModuleType]


def wire(sensor: SensorConfig, where: Sequence[Path]) -> Wired:
    """Say where a configured part is, with its driver's usual place and options where none is given.

    Raises ConfigError when it cannot be on the bus that is named, or has no such option.
    """
    chip = loader.chip(sensor.part, where)
    options = _options(sensor, chip)
    _check_keys(sensor, route(chip))
    if sensor.address and sensor.address not in chip.ADDRESSES:
        can = ", ".join(f"0x{address:02x}" for address in chip.ADDRESSES)
        raise ConfigError(f"{sensor.part} cannot be at 0x{sensor.address:02x}; its addresses: {can}")
    if route(chip) == "i2c":
        bus = 1 if sensor.bus is None else sensor.bus
        return Wired(sensor.part, bus, sensor.address or chip.ADDRESSES[0], options=options)
    if route(chip) == "spi":
        return Wired(sensor.part, sensor.bus or 0, chip=sensor.chip, options=options)
    shape, example = _PORTS[route(chip)]
    if not re.fullmatch(shape, sensor.port):
        raise ConfigError(f'{sensor.part} needs port, such as port = "{example}", not {sensor.port!r}')
    return Wired(sensor.part, port=sensor.port, options=options)


def wired(config: Config, board: Board) -> dict[str, Wired]:
    """Return the parts that the board knows of and those that the owner has named, which win.

    Raises ConfigError naming the file, the table and what is wrong in it.
    """
    where = loader.folders(config.home)
    found = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            found[name] = wire(sensor, where)
        except ConfigError as error:
            if name in config.added:  # its reading says what is wrong; the others are not to be lost for it
                place = (sensor.part, sensor.bus or 0, sensor.address, sensor.chip, sensor.port)
                found[name] = Wired(*place, problem=f"[sensors.{name}] in sensors.toml: {error}")
                continue
            raise ConfigError(f"{config.home / 'config.toml'}: [sensors.{name}]: {error}") from None
    return found


_PORTS = {"serial": (r"/\S+", "/dev/serial0"), "onewire": (r"[0-9a-f]{2}-[0-9a-f]{1,12}", "28-00000a1b2c3d")}
_KEYS = {"i2c": {"bus", "address"}, "spi": {"bus", "chip"}, "serial": {"port"}, "onewire": {"port"}}


def _check_keys(sensor: SensorConfig, kind: str) -> None:
    for key in ("bus", "address", "chip", "port"):
        if getattr(sensor, key) and key not in _KEYS[kind]:
            takes = " and ".join(sorted(_KEYS[kind]))
            raise ConfigError(f"{sensor.part} is a part for {_BUSES[kind]}: it takes {takes}, not {key}")


_BUSES = {"i2c": "I2C", "spi": "SPI", "serial": "a serial port", "onewire": "1-Wire"}


class Addresses:
    """Where named parts have registers that can be read without a change, as `(bus, address) in addresses`.

    A part without that flag may take the register's number for a command, or for its new output.
    """

    def __init__(self, wired: Mapping[str, Wired], load: Load) -> None:
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


def _options(sensor: SensorConfig, chip: ModuleType) -> dict[str, float]:
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


def route(chip: ModuleType) -> str:
    """Name the kind of bus that a driver's part is on."""
    return next(name for name, attribute in loader.ROUTES.items() if hasattr(chip, attribute))


def place(part: Wired) -> str:
    """Name a part and where it is, for people."""
    return f"{part.part} on {spot(part)}"


def spot(part: Wired) -> str:
    """Name the place of a part, for people."""
    if part.route == "i2c":
        return f"i2c-{part.bus} at 0x{part.address:02x}"
    return f"spi{part.bus}.{part.chip}" if part.route == "spi" else part.port


class Drivers:
    """The drivers of one board, with what they remember between two readings."""

    def __init__(
        self,
        board: Board,
        load: Load,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`load(part)` gives the module of tools/hw/PART.py.

        `clock` gives seconds since the epoch, for the times of readings; `ticks` seconds that no clock change moves.
        """
        self._board = board
        self._load = load
        self._clock = clock
        self._times = (sleep, ticks)
        self._memories: dict[str, dict[str, Any]] = {}

    def measure(self, name: str, part: Wired, asked: str = "temperature") -> list[Reading]:
        """Read a part; whatever fails becomes a Reading of the quantity `asked` for, which says what is wrong."""
        source = place(part)
        if part.problem:
            return [Reading(name, asked, None, source, part.problem)]
        measured = self.quantities(part)
        asked = asked if asked in measured or not measured else measured[0]
        try:
            chip = self._load(part.part)
            with self.opened(part, chip) as handle:
                values = chip.read(handle)
                doubt, note = handle.doubts(), handle.notes()
            limits = getattr(chip, "LIMITS", {})
            found = [_reading(name, key, value, source, doubt)._replace(note=note) for key, value in values.items()]
            readings = [believed(r, limits.get(r.quantity))._replace(at=self._clock()) for r in found]
        except (HardwareError, ConfigError, ValueError) as error:
            problem = str(error)
        except loader.BROKEN as error:
            problem = f"its driver {part.part}.py failed: {type(error).__name__}: {error}"
        else:
            if readings:
                return readings
            problem = f"its driver {part.part}.py measured nothing"
        return [Reading(name, asked, None, source, problem)]

    def quantities(self, part: Wired) -> list[str]:
        """Name what a part measures, as far as its driver can be loaded and says so."""
        return [key.partition(" ")[0] for key in self.channels(part)]

    def channels(self, part: Wired) -> list[str]:
        """Name what a part measures, with the channel where it has several: 'voltage a0'."""
        with suppress(ConfigError):
            keys = getattr(self._load(part.part), "QUANTITIES", ())
            keys = map(str, keys) if isinstance(keys, tuple | list) else ()
            return [key for key in keys if key.partition(" ")[0] in QUANTITIES]
        return []

    @contextmanager
    def opened(self, part: Wired, chip: ModuleType, *, urgent: bool = False) -> Iterator[Part]:
        """Hand out the handle that a driver moves its part with; nobody else's driver uses the same part meanwhile.

        Nor the same bus, but for while the driver sleeps. Raises BusFault when somebody has it for too long; an
        `urgent` one goes on then.
        """
        with turn(self._board, part, urgent=urgent) as mine:
            handle = self._handle(part, chip)
            if part.route in {"i2c", "spi"}:
                handle.sleep = mine.pausing(handle.sleep)
            handle.memory = self._memories.setdefault(place(part), {})
            try:
                yield handle
            finally:
                if isinstance(handle, SerialPart):
                    handle.port.close()

    def _handle(self, part: Wired, chip: ModuleType) -> Part:
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


def turn(board: Board, part: Wired, *, urgent: bool = False) -> Turn:
    """Return a turn with a part on its bus, to be entered."""
    return Turn(_bus(part), spot(part), board.lock_path(part), part.address, urgent=urgent)


def probe(board: Board, bus: I2CBus, address: int) -> Presence:
    """See I2CBus.probe, in a turn with what is at the address. Raises BusFault when somebody has it for too long."""
    with turn(board, Wired("", bus.number, address)):
        return bus.probe(address)


def _bus(part: Wired) -> str:
    return f"{part.route}-{part.bus}" if part.route in {"i2c", "spi"} else part.port or part.route


def _reading(name: str, key: str, value: float | ValueError, source: str, doubt: str) -> Reading:
    """Make a reading of what a driver gave for a key: a number, or an error when only this one cannot be had."""
    quantity, _, channel = key.partition(" ")
    if isinstance(value, bool):
        raise TypeError(f"{key} is {value}, not a number")
    if quantity not in QUANTITIES:
        raise LookupError(f"{key!r} is no quantity; known: {', '.join(QUANTITIES)}")
    if isinstance(value, ValueError):
        return Reading(name, quantity, None, source, str(value) or "the driver does not say why", channel=channel)
    return Reading(name, quantity, value, source, channel=channel, doubt=doubt)
