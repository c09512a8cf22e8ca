"""What a board is: the one door to hardware, as Protocols with two equals behind them, Linux and the simulation.

Also what an errno of a device or a kernel file means, in words, once for both: which noun, what to try. Sources: kernel
document Documentation/i2c/fault-codes.rst; errno(3). Controllers differ in what they report for a part that does not
answer, so all of those numbers mean the same here.
"""

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol, Self

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.hw.reading import WiredPart
from picoclaw.records import NamedTuple


class I2CRead(NamedTuple):
    """A read segment of an I2C transfer, in bytes."""

    length: int


class I2CWrite(NamedTuple):
    """A write segment of an I2C transfer."""

    data: bytes


Presence = Literal["present", "absent", "busy"]


class I2CAdapter(NamedTuple):
    """An I2C bus as the kernel lists it. `header` marks the one on the pin header; `use` says what another is for."""

    number: int
    path: str
    name: str
    header: bool
    use: str = ""


class DiskSpace(NamedTuple):
    """A disk's size and free room in bytes."""

    total: int
    free: int


class I2CBus(Protocol):
    """One bus, one object, one lock. Addresses are 7-bit, 0x08 to 0x77."""

    number: int

    def transfer(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        """Run the segments as one transaction with repeated starts; returns the bytes of each Read, in order.

        Raises DeviceMissing when nothing acknowledges, NoPermission, BusFault.
        """

    def probe(self, address: int) -> Presence:
        """Ask whether a part answers at the address; `busy` means that a kernel driver holds it."""

    def holder(self, address: int) -> str:
        """Name the kernel driver that holds an address, empty when none does."""


class SpiNode(NamedTuple):
    """An SPI device file, `/dev/spidevBUS.CHIP`."""

    bus: int
    chip: int
    path: str


class SpiTransfer(NamedTuple):
    """A segment of an SPI message: as many bytes come back as are sent.

    After it `delay_us` (0-65,535) is waited, and then the chip select stays asserted unless `release`.
    """

    data: bytes
    delay_us: int = 0
    release: bool = False


class SpiSettings(NamedTuple):
    """How a part wants to be spoken to: mode 0-3 (CPOL * 2 + CPHA), clock in Hz, order of the bits."""

    mode: int = 0
    speed_hz: int = 500_000
    lsb_first: bool = False


class SpiDevice(Protocol):
    """One chip select of an SPI bus."""

    node: SpiNode

    def transfer(self, segments: Sequence[SpiTransfer], settings: SpiSettings) -> list[bytes]:
        """Run the segments as one message, in which the chip select is held; returns what came back for each.

        The settings that the device file had before are restored. Raises DeviceMissing, NoPermission, BusFault.
        """


class SerialPortInfo(NamedTuple):
    """A serial port: its device file, its lasting names (`/dev/serial/by-id/...`), and what holds it, if anything."""

    path: str
    names: tuple[str, ...] = ()
    description: str = ""
    used_by: str = ""


class SerialSettings(NamedTuple):
    baud: int = 9600
    bits: int = 8
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: int = 1


class SerialPort(Protocol):
    """An open serial port; DTR and RTS are left as they are. Raises DeviceMissing when it has been unplugged."""

    path: str

    def write(self, data: bytes) -> None:
        """Send, and wait until the kernel has taken all of it."""

    def read(self, most: int, seconds: float) -> bytes:
        """Return up to `most` bytes; fewer, or none, when `seconds` are over."""

    def flush(self) -> None:
        """Throw away what has been received and not been read."""

    def close(self) -> None:
        """Let go of the port; may be called twice."""


class GpioChip(NamedTuple):
    """A GPIO controller; its label lasts (`pinctrl-rp1`), its number does not."""

    path: str
    label: str
    lines: int


class LineInfo(NamedTuple):
    """A GPIO line as the kernel lists it. `consumer` is who holds it, empty when it is free."""

    chip: str
    offset: int
    name: str
    consumer: str
    output: bool
    active_low: bool = False


class Edge(NamedTuple):
    """A change of an input line: its new physical level, and when, in nanoseconds of CLOCK_MONOTONIC."""

    level: int
    at_ns: int


Bias = Literal["", "pull-up", "pull-down", "none"]


class LineHandle(Protocol):
    """A requested GPIO line; levels are physical, 0 or 1. Closing it gives the line back to the kernel.

    `lost` counts the edges that were thrown away because nobody fetched them.
    """

    lost: int

    def get(self) -> int: ...

    def set(self, level: int) -> None: ...

    def edges(self, seconds: float) -> list[Edge]:
        """Wait for edges of an input that was requested with them; none when the time is over."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with an edge."""

    def close(self) -> None:
        """Give the line back; may be called twice."""


class Board(Protocol):
    """All of the hardware. Opening it touches nothing; each method touches what it names."""

    simulated: bool

    def text(self, path: str) -> str:
        """Read a small file of the kernel's (`/sys`, `/proc`), stripped.

        Raises DeviceMissing, NoPermission, BusFault (a driver reports a failed measurement as an I/O error).
        """

    def put(self, path: str, text: str) -> None:
        """Write a small file of the kernel's, such as one of `/sys/class/pwm`; raises as `text` does."""

    def glob(self, pattern: str) -> list[str]:
        """List the kernel's files that match, sorted."""

    def may_open(self, path: str) -> bool:
        """Tell whether this user may read and write a device file, without opening it."""

    def space(self, path: str) -> DiskSpace:
        """Measure the disk that holds the path."""

    def clock_synchronised(self) -> bool:
        """Tell whether the kernel's clock is disciplined by a time source (adjtimex(2))."""

    def adapters(self) -> list[I2CAdapter]:
        """List the I2C buses that have a device file."""

    def i2c(self, number: int) -> I2CBus:
        """Return the one object of a bus. Raises DeviceMissing (saying how to enable it), NoPermission."""

    def spi_nodes(self) -> list[SpiNode]: ...

    def spi(self, bus: int, chip: int) -> SpiDevice:
        """Return the one object of a chip select. Raises DeviceMissing, NoPermission."""

    def ports(self) -> list[SerialPortInfo]:
        """List the serial ports that something may be wired to."""

    def serial(self, name: str, settings: SerialSettings) -> SerialPort:
        """Open a serial port by its path or one of its names, exclusively.

        Raises DeviceMissing, NoPermission, BusFault.
        """

    def gpio_chips(self) -> list[GpioChip]: ...

    def lines(self, chip: str) -> list[LineInfo]:
        """List the lines of a controller, named by its path or its label."""

    def line_in(
        self, chip: str, offset: int, *, bias: Bias = "", edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        """Request a line as an input; without bias and edges, one that is an output is taken as it is and stays one.

        Raises DeviceMissing, NoPermission, BusFault (naming who holds it).
        """

    def line_out(self, chip: str, offset: int, level: int) -> LineHandle:
        """Request a line as an output that is driven to `level` at once. Raises as line_in does."""

    def lock_path(self, part: WiredPart) -> str:
        """Return the file whose locks say, between processes, who uses a part and its bus; '' for none."""

    def wired(self) -> Mapping[str, WiredPart]:
        """Return parts known to be wired without the owner's saying so, by sensor name."""

    def close(self) -> None:
        """Let go of every device file; may be called twice."""


# A GPIO line by what people call it.

HEADER_LABELS = ("pinctrl-bcm", "pinctrl-rp1")
"""How the labels of the controllers begin that a Raspberry Pi's pin header is on."""
HEADER_BUSES: tuple[tuple[str, str, frozenset[int]], ...] = (
    ("", "/dev/i2c-1", frozenset({2, 3})),
    ("", "/dev/spidev0.*", frozenset({7, 8, 9, 10, 11})),
    ("", "/dev/spidev1.*", frozenset({16, 17, 18, 19, 20, 21})),
    ("pinctrl-bcm", "/dev/serial0", frozenset({14, 15})),
    ("pinctrl-rp1", "/dev/ttyAMA0", frozenset({14, 15})),
)
"""Header lines that a bus has taken: label, the bus's device file, lines.

The kernel lists them as free inputs, but a line that is given back becomes an input, and the bus is dead until the
next boot (bcm2835_pmx_free, rp1_pmx_gpio_disable_free). With a second bus of SPI, lines 16-18 are only chip selects.
Source: BCM2835 ARM Peripherals, section 6.2, "Alternative Function Assignments".
"""


class LineLocation(NamedTuple):
    chip: GpioChip
    line: LineInfo

    def __str__(self) -> str:
        """`pinctrl-rp1:17 GPIO17`."""
        return f"{self.chip.label}:{self.line.offset} {self.line.name}".rstrip()


def find_line(board: Board, wanted: str, chip: str = "") -> LineLocation:
    """Find a line by its name or number, on a chip named by label or path, or on any.

    A number without a chip means the controller of the pin header, if there is one.
    Raises DeviceMissing when there is none, or when several fit.
    """
    known = board.gpio_chips()
    chips = [c for c in known if chip in {"", c.label, c.path}]
    if not chips:
        there = ", ".join(c.label for c in known)
        raise DeviceMissing(f"there is no GPIO chip {chip[:60]!r}; there are: {there or 'none that may be opened'}")
    spots = [LineLocation(c, line) for c in chips for line in board.lines(c.path)]
    fits = [s for s in spots if wanted and s.line.name.lower() == wanted.lower()] or _match_offset(spots, wanted)
    if len(fits) == 1:
        return fits[0]
    if fits:
        places = ", ".join(f"{s.chip.path}:{s.line.offset} ({s.chip.label})" for s in fits)
        raise DeviceMissing(f"line {wanted!r} could be {places}: name its chip")
    raise DeviceMissing(f"there is no GPIO line {wanted[:60]!r} on {', '.join(c.label for c in chips)}")


def _match_offset(spots: list[LineLocation], number: str) -> list[LineLocation]:
    fits = [spot for spot in spots if str(spot.line.offset) == number]
    return [spot for spot in fits if spot.chip.label.startswith(HEADER_LABELS)] or fits


def find_bus_using(board: Board, spot: LineLocation) -> str:
    """Name the device file of the bus that needs this line of the pin header and is turned on, if there is one."""
    for label, device, offsets in HEADER_BUSES:
        header = spot.chip.label.startswith(HEADER_LABELS) and spot.chip.label.startswith(label)
        if header and spot.line.offset in offsets and (found := board.glob(device)):
            return found[0]
    return ""


class DeviceFamily(NamedTuple):
    """Device files of one kind: how they begin, how one is turned on, and the group that may open them."""

    prefixes: tuple[str, ...]
    enable: str
    group: str


_RASPI_CONFIG = "`sudo raspi-config nonint {} 0`"
DEVICE_FAMILIES = (
    DeviceFamily(
        ("/dev/i2c-",), f"turn I2C on with {_RASPI_CONFIG.format('do_i2c')} (or `sudo modprobe i2c-dev`)", "i2c"
    ),
    DeviceFamily(("/dev/spidev",), f"turn SPI on with {_RASPI_CONFIG.format('do_spi')}", "spi"),
    DeviceFamily(("/dev/gpio",), "this kernel shows no such GPIO chip; `ls /dev/gpiochip*` lists them", "gpio"),
    DeviceFamily(
        ("/dev/tty", "/dev/serial", "/dev/ama"),
        f"turn the port on with {_RASPI_CONFIG.format('do_serial_hw')}, or plug the adapter in",
        "dialout",
    ),
)


@contextmanager
def translate_os_error(path: str, address: int | None = None) -> Iterator[None]:
    """Turn an OSError of a device or a kernel file into our words, with the path and what to try."""
    try:
        yield
    except OSError as error:
        raise make_hardware_error(error, path, address) from error


def make_hardware_error(error: OSError, path: str, address: int | None = None) -> HardwareError:
    """Word an OSError; `address` is the part's on an I2C bus."""
    where = path if address is None else f"0x{address:02x} on {path}"
    kind, words = _select_errors(path, address).get(error.errno or 0, (BusFault, "failed: {text}"))
    return kind(f"{where} {words.format(text=error.strerror or error, remedy=_format_remedy(path, kind))}")


ErrorWording = tuple[type[HardwareError], str]
_NO_ANSWER: ErrorWording = (
    DeviceMissing,
    "does not answer: check power (3V3), SDA and SCL not swapped, pull-ups, and the part's address pin",
)
_GONE: ErrorWording = (DeviceMissing, "does not exist{remedy}")
_FORBIDDEN: ErrorWording = (NoPermission, "may not be opened by this user{remedy}")
_COMMON_ERRORS: dict[int, ErrorWording] = {
    errno.ENOENT: _GONE,
    errno.ENODEV: _GONE,
    errno.ENOTDIR: _GONE,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EAGAIN: (BusFault, "lost arbitration or is not ready: try again"),
    errno.EOPNOTSUPP: (BusFault, "cannot do this kind of transfer"),
    errno.EINVAL: (BusFault, "refused the request as invalid"),
    errno.EMFILE: (BusFault, "cannot be opened: this process has too many files open"),
}
_I2C_ERRORS = _COMMON_ERRORS | {
    errno.EOPNOTSUPP: (
        BusFault,
        "cannot do this transfer: a Raspberry Pi's controller takes one read, as the last segment; put waits between",
    ),
    errno.EREMOTEIO: _NO_ANSWER,
    errno.ENXIO: _NO_ANSWER,
    errno.EBUSY: (BusFault, "is in use by a kernel driver: read it with sensor_read instead"),
    errno.ETIMEDOUT: (BusFault, "timed out: SDA or SCL may be held low; check the wiring, then power-cycle the part"),
    errno.EIO: (BusFault, "reported an I/O error: check the wiring, the cable length and the pull-ups"),
}
_FILE_ERRORS = _COMMON_ERRORS | {
    errno.EREMOTEIO: (BusFault, "got no answer from its part: check power and wiring"),
    errno.ENXIO: (BusFault, "got no answer from its part: check power and wiring"),
    errno.ETIMEDOUT: (BusFault, "timed out: the part did not answer; check the wiring and try again in 2 seconds"),
    errno.EIO: (BusFault, "could not be measured: no answer, or a checksum that does not fit; check the wiring"),
    errno.EBUSY: (BusFault, "is busy: try again"),
    errno.EAGAIN: (BusFault, "has no value yet: try again"),
    errno.EROFS: (NoPermission, "may not be written: it is read-only for this service"),
}
_DEVICE_ERRORS = _COMMON_ERRORS | {
    errno.EBUSY: (BusFault, "is in use by another program: end that program"),
    errno.EIO: (DeviceMissing, "has gone away or reported an I/O error: check the plug and the wiring"),
    errno.ENXIO: (DeviceMissing, "has gone away: check the plug and the wiring"),
    errno.ESHUTDOWN: (DeviceMissing, "has gone away: check the plug and the wiring"),
    errno.ETIMEDOUT: (BusFault, "timed out: check the wiring"),
    errno.EMSGSIZE: (BusFault, "takes fewer bytes in one message; send less at a time"),
}


def _select_errors(path: str, address: int | None) -> Mapping[int, ErrorWording]:
    family = find_family(path)
    if address is not None or (family and family.group == "i2c"):
        return _I2C_ERRORS
    return _DEVICE_ERRORS if family else _FILE_ERRORS


def find_family(path: str) -> DeviceFamily | None:
    return next((f for f in DEVICE_FAMILIES if path.startswith(f.prefixes)), None)


def _format_remedy(path: str, kind: type[HardwareError]) -> str:
    family = find_family(path)
    if family is None:
        return ""
    if kind is DeviceMissing:
        return f": {family.enable}, then look again"
    return f": add it to the group that owns it, `sudo usermod -aG {family.group} $USER`, and log in again"


# Leaving a bus that hangs alone for a while, longer each time: hammering on it helps nobody, and blocks everything.

_TOLERATED = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _MAX_DOUBLINGS = 1.0, 60.0, 6


class Backoff:
    """Counts the transfers in a row that timed out on one bus."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`path` names the bus; `clock` is in seconds."""
        self._path = path
        self._clock = clock
        self._hung = 0
        self._until = 0.0

    def watched(self) -> Self:
        """Run a transfer in a `with`, or refuse to: raises BusFault while the bus is left alone."""
        return self

    def __enter__(self) -> None:
        """See watched. No generator: it is entered for every byte that is read."""
        left = self._until - self._clock()
        if left > 0:
            raise BusFault(
                f"{self._path} hung {self._hung} times in a row and is left alone for {left:.0f} s: SDA or SCL is"
                " probably held low; unplug the parts one by one, or power-cycle the board"
            )

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Count what timed out; whatever else went wrong, the bus is alive."""
        if isinstance(error, HardwareError) and getattr(error.__cause__, "errno", 0) == errno.ETIMEDOUT:
            self._count()
        elif error is None or isinstance(error, HardwareError):
            self._hung = 0

    def _count(self) -> None:
        self._hung += 1
        if self._hung >= _TOLERATED:
            pause = _FIRST_PAUSE_S * 2 ** min(self._hung - _TOLERATED, _MAX_DOUBLINGS)
            self._until = self._clock() + min(pause, _LONGEST_PAUSE_S)
