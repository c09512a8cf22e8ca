"""What a board is: the one door to hardware, as a Protocol with two equals behind it, Linux and the simulation."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol


class Read(NamedTuple):
    """A read segment of an I2C transfer, in bytes."""

    length: int


class Write(NamedTuple):
    """A write segment of an I2C transfer."""

    data: bytes


Presence = Literal["present", "absent", "busy"]


class Adapter(NamedTuple):
    """An I2C bus as the kernel lists it. `header` marks the one on the pin header."""

    number: int
    path: str
    name: str
    header: bool


class Wired(NamedTuple):
    """A part on a bus, read by the driver file of that name in tools/hw."""

    part: str
    bus: int
    address: int


class Space(NamedTuple):
    """A disk's size and free room in bytes."""

    total: int
    free: int


class I2CBus(Protocol):
    """One bus, one object, one lock. Addresses are 7-bit, 0x08 to 0x77."""

    number: int

    def transfer(self, address: int, segments: Sequence[Read | Write]) -> list[bytes]:
        """Run the segments as one transaction with repeated starts; returns the bytes of each Read, in order.

        Raises DeviceMissing when nothing acknowledges, NoPermission, BusFault.
        """
        ...

    def probe(self, address: int) -> Presence:
        """Ask whether a part answers at the address; `busy` means that a kernel driver holds it."""
        ...

    def holder(self, address: int) -> str:
        """Name the kernel driver that holds an address, empty when none does."""
        ...


class Board(Protocol):
    """All of the hardware. Opening it touches nothing; each method touches what it names."""

    simulated: bool

    def text(self, path: str) -> str:
        """Read a small file of the kernel's (`/sys`, `/proc`), stripped.

        Raises DeviceMissing, NoPermission, BusFault (a driver reports a failed measurement as an I/O error).
        """
        ...

    def glob(self, pattern: str) -> list[str]:
        """List the kernel's files that match, sorted."""
        ...

    def space(self, path: str) -> Space:
        """Measure the disk that holds the path."""
        ...

    def clock_synchronised(self) -> bool:
        """Tell whether the kernel's clock is disciplined by a time source (adjtimex(2))."""
        ...

    def adapters(self) -> list[Adapter]:
        """List the I2C buses that have a device file."""
        ...

    def i2c(self, number: int) -> I2CBus:
        """Return the one object of a bus. Raises DeviceMissing (saying how to enable it), NoPermission."""
        ...

    def wired(self) -> Mapping[str, Wired]:
        """Return parts known to be wired without the owner's saying so, by sensor name."""
        ...

    def close(self) -> None:
        """Let go of every device file; may be called twice."""
        ...


class I2CPart:
    """One address on one bus: what a driver in tools/hw is handed."""

    def __init__(self, bus: I2CBus, address: int, sleep: Callable[[float], None] = time.sleep) -> None:
        """Bind an address, 0x08 to 0x77, of a bus; `sleep` is how to wait for a conversion, in seconds."""
        self.bus = bus
        self.address = address
        self.sleep = sleep

    def write(self, *data: int) -> None:
        """Write bytes in one transaction."""
        self.bus.transfer(self.address, [Write(bytes(data))])

    def read(self, length: int) -> bytes:
        """Read bytes without naming a register."""
        return self.bus.transfer(self.address, [Read(length)])[0]

    def registers(self, first: int, length: int) -> bytes:
        """Read consecutive registers from an 8-bit register address on, with a repeated start."""
        return self.bus.transfer(self.address, [Write(bytes([first])), Read(length)])[0]


class Quantity(NamedTuple):
    """Something a part measures: unit and the range beyond which a value is not believed."""

    unit: str
    low: float
    high: float


QUANTITIES: dict[str, Quantity] = {
    "temperature": Quantity("°C", -100, 200),
    "humidity": Quantity("%", 0, 100),
    "pressure": Quantity("hPa", 10, 12_000),
    "light": Quantity("lx", 0, 250_000),
    "voltage": Quantity("V", -1000, 1000),
    "current": Quantity("A", -1000, 1000),
    "power": Quantity("W", -100_000, 100_000),
    "co2": Quantity("ppm", 0, 100_000),
    "distance": Quantity("m", 0, 1000),
    "fan": Quantity("rpm", 0, 100_000),
}


class Reading(NamedTuple):
    """One value of one sensor, or why there is none.

    `value` is in the unit that QUANTITIES gives for `quantity`.
    `inside` marks a sensor of the board itself, such as its processor's temperature.
    """

    sensor: str
    quantity: str
    value: float | None
    source: str
    problem: str = ""
    inside: bool = False

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return QUANTITIES[self.quantity].unit


def believed(reading: Reading) -> Reading:
    """Return the reading, or the same without its value when that is outside what is physically believable."""
    limits = QUANTITIES[reading.quantity]
    if reading.value is None or limits.low <= reading.value <= limits.high:
        return reading
    problem = f"implausible value {reading.value:g} {limits.unit}: check the wiring and the sensor"
    return reading._replace(value=None, problem=problem)
