"""What a simulated board consists of: parts, what they measure, GPIO lines, faults of the wiring.

Reads `sim.toml` in picoclaw's home, with which an owner rehearses a set-up; docs/howto/rehearse.md has an example.
"""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.config import make_dataclass
from picoclaw.config.files import read_toml
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import ConfigError
from picoclaw.hw import loader
from picoclaw.hw.loader import format_location, resolve_part
from picoclaw.hw.reading import QUANTITIES, WiredPart
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.schema import Span, find_nearest
from picoclaw.text import pattern

Value = float | Callable[[float], float]


class Scene:
    """The physical values around one simulated part, by quantity (`temperature`, `voltage a0`)."""

    def __init__(self, clock: Callable[[], float], values: Mapping[str, Value] | None = None) -> None:
        """`clock` gives seconds since the epoch; a value is a number or a function of them."""
        self.now = clock
        self.values: dict[str, Value] = dict(values or {})

    def get(self, quantity: str, default: Value = 0.0) -> float:
        """Return the value of this moment; without a channel of its own, that of the quantity as a whole."""
        value = self.values.get(quantity)
        if value is None:
            value = self.values.get(quantity.partition(" ")[0], default)
        return value(self.now()) if callable(value) else value


def _compute_day_angle(seconds: float) -> float:
    return math.tau * (seconds % 86_400) / 86_400 - 0.6


def _compute_noise(seconds: float) -> float:
    return math.sin(seconds / 37) * 0.08 + math.sin(seconds / 11) * 0.03


GREENHOUSE: Mapping[str, Value] = {
    "temperature": lambda s: 22.0 - 5.0 * math.cos(_compute_day_angle(s)) + _compute_noise(s),
    "humidity": lambda s: 58.0 + 14.0 * math.cos(_compute_day_angle(s)) - 3 * _compute_noise(s),
    "pressure": lambda s: 1012.0 + 9.0 * math.sin(s / 200_000) + _compute_noise(s) / 4,
    "light": lambda s: max(0.0, -24_000 * math.cos(_compute_day_angle(s) + 0.6)) + 3,
    "co2": lambda s: 620 + 180 * math.cos(_compute_day_angle(s)) + 10 * _compute_noise(s),
}
"""A mild greenhouse: warm and dry after noon UTC, with slow pressure changes and a little flutter."""


class SimFault(NamedTuple):
    """Something wrong with the wiring.

    `on` is a part's name or a place (`i2c-1`, `i2c-1/0x76`, `spi0.0`, `/dev/ttyS0`). `after_s` and `for_s` are seconds
    since the board began; `every` lets it strike on each n-th transfer only.
    Kinds: `unplugged` and `nack` (no answer), `stuck` (the bus hangs), `eio`, `bits` (a bit of each answer flips),
    `low` and `high` (the data line is at 0 or 1 all the time).
    """

    kind: str
    on: str
    after_s: float = 0.0
    for_s: float = math.inf
    every: int = 1


class SimFaults:
    """The faults of a simulated board; may be changed while it runs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """No faults; `clock` gives seconds since the epoch."""
        self.clock = clock
        self._began = clock()
        self._transfers: dict[SimFault, int] = {}
        self._random = random.Random(1)  # noqa: S311 - repeatable on purpose
        self.faults: list[SimFault] = []

    def fault(self, *places: str) -> str:
        """Return the kind of fault that strikes a transfer at these places (bus, address, name), or nothing."""
        age = self.clock() - self._began
        for fault in self.faults:
            if fault.on in places and fault.after_s <= age < fault.after_s + fault.for_s:
                count = self._transfers[fault] = self._transfers.get(fault, 0) + 1
                if count % fault.every == 0:
                    return fault.kind
        return ""

    def spoiled(self, kind: str, data: bytes) -> bytes:
        """Return the bytes as they arrive under a fault of the data line."""
        if kind in {"low", "high"}:
            return bytes([0xFF if kind == "high" else 0]) * len(data)
        if kind == "bits" and data:
            bit = self._random.randrange(8 * len(data))
            return bytes(b ^ (1 << bit % 8 if i == bit // 8 else 0) for i, b in enumerate(data))
        return data


class SimLine(NamedTuple):
    """A GPIO line of the simulated controller: its number, its name, and the level that its wiring pulls it to."""

    offset: int
    name: str = ""
    pull: int = 0
    consumer: str = ""


class Script(NamedTuple):
    """A whole set-up: `wired` by sensor name, `values` by sensor name and quantity, `empty` ports without a part.

    `unnamed` are those of the parts that nobody has told picoclaw about.
    """

    wired: Mapping[str, WiredPart]
    values: Mapping[str, Mapping[str, Value]]
    faults: tuple[SimFault, ...] = ()
    lines: tuple[SimLine, ...] = ()
    empty: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()


DEFAULT_LINES = tuple(SimLine(n, f"GPIO{n}", pull=int(n < 9)) for n in range(28))
"""A Raspberry Pi's header: GPIO0-8 are pulled up at power-on, the others down (BCM2835 peripherals, table 6-31)."""
DEFAULT_SCRIPT = Script({"greenhouse": WiredPart("bme280", 1, 0x76)}, {"greenhouse": GREENHOUSE}, lines=DEFAULT_LINES)

SIM_FILE = "sim.toml"


_MAX_VALUE = 1e9


_PLACE_EXAMPLES = "i2c-1, i2c-1/0x76, spi0.0, /dev/ttyS0, 28-000000000001"
_PLACE = pattern(r"i2c-\d+(/0x[0-9a-f]{2})?|spi\d+\.\d+|/dev/\S+|[0-9a-f]{2}-[0-9a-f]{12}")


@dataclass(frozen=True)
class _SwingTable:
    """A value that swings about a mean like a sine, with some noise."""

    mean: float
    swing: float = 0.0
    period_s: Annotated[float, Span(0.001, 1e9)] = 86_400.0
    noise: float = 0.0

    def __call__(self, seconds: float) -> float:
        flutter = math.sin(seconds * 7919) * math.sin(seconds * 104_729)
        return self.mean + self.swing * math.sin(math.tau * seconds / self.period_s) + self.noise * flutter


@dataclass(frozen=True)
class _FaultTable:
    kind: Literal["unplugged", "nack", "stuck", "eio", "bits", "low", "high"]
    on: Annotated[str, "a part's name, or a place such as i2c-1, i2c-1/0x76, spi0.0, /dev/ttyS0"]
    after_s: Annotated[float, Span(0, 1e9)] = 0.0
    for_s: Annotated[float, Span(0, 1e9)] = 1e9
    every: Annotated[int, Span(1, 1_000_000), "strike on each n-th transfer only"] = 1


@dataclass(frozen=True)
class _LineTable:
    offset: Annotated[int, Span(0, 1023)]
    name: str = ""
    pull: Annotated[int, Span(0, 1)] = 0
    consumer: Annotated[str, "who holds it, if anybody"] = ""


@dataclass(frozen=True)
class _ScriptFile:
    parts: dict[str, Any] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    ports: Annotated[list[str], "serial ports without a part"] = field(default_factory=list)


def load_script(path: Path, where: Sequence[Path]) -> Script:
    """Read a script, or return the default one when there is none; `where` are the folders of the drivers.

    Raises ConfigError naming file, table and fix.
    """
    tables = read_toml(path)
    if not tables:
        return DEFAULT_SCRIPT
    whole: _ScriptFile = make_dataclass(_ScriptFile, tables, str(path))
    wired, values = {}, {}
    for name, part in whole.parts.items():
        wired[name], values[name] = _parse_part(part, f"{path}: [parts.{name}]", where)
    faults = [
        make_dataclass(_FaultTable, fault, f"{path}: [[faults]] number {n}") for n, fault in enumerate(whole.faults, 1)
    ]
    lines = [make_dataclass(_LineTable, line, f"{path}: [[lines]] number {n}") for n, line in enumerate(whole.lines, 1)]
    _check_places(wired, lines, str(path))
    if wrong := [port for port in whole.ports if not re.fullmatch(r"/dev/\S+", port)]:
        raise ConfigError(f"{path}: ports: {wrong[0]!r} is not a serial port, such as /dev/ttyUSB0")
    return Script(
        wired,
        values,
        tuple(
            SimFault(f.kind, _resolve_place(f.on, wired, f"{path}: [[faults]]"), f.after_s, f.for_s, f.every)
            for f in faults
        ),
        tuple(SimLine(x.offset, x.name, x.pull, x.consumer) for x in lines) or DEFAULT_LINES,
        tuple(whole.ports),
        frozenset(name for name, part in whole.parts.items() if not part.get("named", True)),
    )


def _parse_part(given: Any, where: str, folders: Sequence[Path]) -> tuple[WiredPart, dict[str, Value]]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table")
    place = {key: value for key, value in given.items() if key not in {"values", "named"}}
    if not isinstance(given.get("named", True), bool):
        raise ConfigError(f"{where}: named must be true, or false for a part that is still to be added")
    sensor: SensorConfig = make_dataclass(SensorConfig, place, where)
    if "part" not in given:
        raise ConfigError(f"{where}: 'part' is missing")
    from picoclaw.hw.sim.parts import PARTS

    if sensor.part not in PARTS:
        raise ConfigError(f"{where}: no part {sensor.part!r} can be simulated{find_nearest(sensor.part, PARTS)}")
    try:
        wired = resolve_part(sensor, folders)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    values = given.get("values", {})
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: values must be a table of quantities, such as {{ temperature = 21.5 }}")
    found = {key: _parse_value(key, value, f"{where}: values") for key, value in values.items()}
    can = {str(key).partition(" ")[0] for key in getattr(loader.load_driver(wired.part, folders), "QUANTITIES", ())}
    if strange := [key for key in values if can and key.partition(" ")[0] not in can]:
        raise ConfigError(
            f"{where}: {wired.part} does not measure {strange[0]!r}; it measures {', '.join(sorted(can))}"
        )
    return wired, found


def _parse_value(key: str, value: Any, where: str) -> Value:
    quantity = key.partition(" ")[0]
    if quantity not in QUANTITIES:
        raise ConfigError(f"{where}: {key!r} is not a quantity{find_nearest(quantity, QUANTITIES)}")
    if isinstance(value, dict):
        swing: _SwingTable = make_dataclass(_SwingTable, value, f"{where}: {key}")
        return swing
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not -_MAX_VALUE <= value <= _MAX_VALUE:  # neither infinite nor NaN is between
        raise ConfigError(f"{where}: {key} must be a number, or a table such as {{ mean = 21, swing = 4 }}")
    return float(value)


def _check_places(wired: Mapping[str, WiredPart], lines: Sequence[_LineTable], where: str) -> None:
    taken: dict[str, str] = {}
    for name, part in wired.items():
        if format_location(part) in taken:
            raise ConfigError(
                f"{where}: [parts.{name}] is where [parts.{taken[format_location(part)]}] is: {format_location(part)}"
            )
        taken[format_location(part)] = name
    offsets = [line.offset for line in lines]
    if twice := [offset for offset in offsets if offsets.count(offset) > 1]:
        raise ConfigError(f"{where}: there are two [[lines]] with offset {twice[0]}")


def _resolve_place(on: str, wired: Mapping[str, WiredPart], where: str) -> str:
    """Name a part's place as the simulated buses do; raises ConfigError for what is neither a part nor a place."""
    if on not in wired:
        if not _PLACE.fullmatch(on.lower()):
            close = find_nearest(on, dict(wired)) if wired else ""
            raise ConfigError(f"{where}: on = {on!r} is no part and no place{close}; places: {_PLACE_EXAMPLES}")
        return on if on.startswith("/") else on.lower()
    part = wired[on]
    if part.route == "i2c":
        return f"i2c-{part.bus}/0x{part.address:02x}"
    return f"spi{part.bus}.{part.chip}" if part.route == "spi" else part.port
