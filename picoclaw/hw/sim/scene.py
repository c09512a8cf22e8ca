"""What a simulated board consists of: parts, what they measure, GPIO lines, and the faults of the wiring."""

import math
import random
from collections.abc import Callable, Mapping

from picoclaw.hw.reading import WiredPart
from picoclaw.records import NamedTuple

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
