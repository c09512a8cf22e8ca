"""What is measured: quantities with their units, where a part is wired, and a reading."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from picoclaw.records import NamedTuple

BusKind = Literal["i2c", "spi", "serial", "onewire", "mqtt"]


class WiredPart(NamedTuple):
    """A part and how it is reached, read by the driver file of that name in tools/hw.

    I2C: `bus` and `address`; SPI: `bus` and `chip` (chip select); serial: `port`; 1-Wire: `port` is the device's name.
    MQTT: `port` is the topic, and `quantity` what is measured. `problem` says why it cannot be read there.
    """

    part: str
    bus: int = 1
    address: int = 0
    chip: int = 0
    port: str = ""
    options: Mapping[str, float] = {}
    problem: str = ""
    quantity: str = ""

    @property
    def route(self) -> BusKind:
        if self.quantity:
            return "mqtt"
        if self.address:
            return "i2c"
        return "serial" if self.port.startswith("/") else "onewire" if self.port else "spi"


class Quantity(NamedTuple):
    """Something a part measures: unit, the range beyond which a value is not believed, and decimals worth showing."""

    unit: str
    low: float
    high: float
    digits: int = 2


QUANTITIES: dict[str, Quantity] = {
    "temperature": Quantity("°C", -100, 200),
    "humidity": Quantity("%", 0, 100),
    "pressure": Quantity("hPa", 10, 12_000),
    "light": Quantity("lx", 0, 250_000),
    "voltage": Quantity("V", -1000, 1000),
    "current": Quantity("A", -1000, 1000),
    "power": Quantity("W", -100_000, 100_000),
    "co2": Quantity("ppm", 0, 100_000, 0),
    "distance": Quantity("m", 0, 1000),
    "fan": Quantity("rpm", 0, 100_000, 0),
    "resistance": Quantity("Ω", 0, 1e9, 1),
    "dust": Quantity("µg/m³", 0, 10_000, 0),
    "tvoc": Quantity("ppb", 0, 60_000, 0),
    "acceleration": Quantity("m/s²", -2000, 2000, 3),
    "rotation": Quantity("°/s", -5000, 5000),
    "latitude": Quantity("°", -90, 90, 5),
    "longitude": Quantity("°", -180, 180, 5),
    "altitude": Quantity("m", -500, 50_000, 1),
    "speed": Quantity("m/s", 0, 10_000),
    "satellites": Quantity("", 0, 100, 0),
    "time": Quantity("UTC", 946_684_800, 4_102_444_800, 0),
    "level": Quantity("", 0, 1, 0),
    "duty": Quantity("%", 0, 100, 1),
    "raw": Quantity("ticks", 0, 65_535, 0),
}
"""By name. A driver's value is keyed by such a name, alone or followed by a space and a channel: `voltage a0`.

`time` is a clock's reading in seconds since 1970, shown as a date; `raw` has no unit by itself.
"""

UNITS = frozenset(one.unit for one in QUANTITIES.values() if one.unit)

_OTHER_UNITS: dict[str, tuple[str, float, float]] = {
    "°F": ("temperature", 5 / 9, -160 / 9),
    "K": ("temperature", 1, -273.15),
    "Pa": ("pressure", 0.01, 0),
    "kPa": ("pressure", 10, 0),
    "mbar": ("pressure", 1, 0),
    "bar": ("pressure", 1000, 0),
    "mV": ("voltage", 0.001, 0),
    "mA": ("current", 0.001, 0),
    "mW": ("power", 0.001, 0),
    "kW": ("power", 1000, 0),
    "mm": ("distance", 0.001, 0),
    "cm": ("distance", 0.01, 0),
    "kΩ": ("resistance", 1000, 0),
    "km/h": ("speed", 1 / 3.6, 0),
}
"""Units in which others publish: the quantity, and by what a value is multiplied and then increased."""


class Conversion(NamedTuple):
    """What a published number says: its quantity, and how it becomes a value in our unit."""

    quantity: str
    factor: float = 1.0
    offset: float = 0.0


def find_conversion(unit: str, quantity: str = "", field: str = "") -> Conversion:
    """Find what is measured by the unit, the named quantity, or the last name of a field. Raises ValueError."""
    last = field.rpartition(".")[2].partition("[")[0].lower()
    named = quantity or (last if last in QUANTITIES else "")
    if quantity and quantity not in QUANTITIES:
        raise ValueError(f"there is no quantity {quantity!r}; known: {', '.join(QUANTITIES)}")
    if unit in _OTHER_UNITS and named in {"", _OTHER_UNITS[unit][0]}:
        return Conversion(*_OTHER_UNITS[unit])
    fitting = [name for name, known in QUANTITIES.items() if (known.unit == unit if unit else name == named)]
    if named in fitting:
        return Conversion(named)
    if not fitting:
        units = ", ".join(sorted({*UNITS, *_OTHER_UNITS}))
        wrong = f"the unit {unit!r} is not known" if unit else "neither unit nor quantity says what is measured"
        raise ValueError(f"{wrong}; units: {units}; quantities: {', '.join(QUANTITIES)}")
    if quantity:
        raise ValueError(f"{quantity} is not measured in {unit}, but in {QUANTITIES[quantity].unit or 'no unit'}")
    return Conversion(fitting[0])


Quality = Literal["good", "doubtful", "none"]


class Reading(NamedTuple):
    """One value of one sensor, or why there is none.

    `value` is in the unit that QUANTITIES gives for `quantity`; `channel` tells apart several of one quantity.
    `at` is when it was measured, in seconds since 1970, 0 for unknown; `doubt` says why it cannot be trusted, and no
    rule goes by it then; `note` says how exact it is, which every value may have.
    `is_internal` marks a sensor of the board itself, such as its processor's temperature.
    """

    sensor: str
    quantity: str
    value: float | None
    source: str
    problem: str = ""
    is_internal: bool = False
    channel: str = ""
    at: float = 0.0
    doubt: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """The quantity, and the channel if there are several."""
        return f"{self.quantity} {self.channel}".rstrip()

    @property
    def unit(self) -> str:
        return QUANTITIES[self.quantity].unit

    @property
    def quality(self) -> Quality:
        return "none" if self.value is None else "doubtful" if self.doubt else "good"


def reject_implausible(reading: Reading, limits: tuple[float, float] | None = None) -> Reading:
    """Return the reading, or the same without its value when that is outside what is physically believable.

    `limits` are those of a part that reaches further than usual, such as a thermocouple.
    """
    usual = QUANTITIES[reading.quantity]
    low, high = limits or (usual.low, usual.high)
    if reading.value is None or low <= reading.value <= high:
        return reading
    problem = f"implausible value {reading.value:g} {usual.unit}: check the wiring and the sensor"
    return reading._replace(value=None, problem=problem)


def format_reading(reading: Reading) -> str:
    """Format a reading that has a value: quantity, channel, value, unit."""
    if reading.quantity == "time":
        return f"{reading.label} {datetime.fromtimestamp(reading.value or 0, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{reading.label} {reading.value:.{QUANTITIES[reading.quantity].digits}f} {reading.unit}".rstrip()
