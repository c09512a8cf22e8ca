"""What an errno of a device or a kernel file means, in words, once and for both boards: which noun, what to try.

Sources: kernel document Documentation/i2c/fault-codes.rst; errno(3). Controllers differ in what they report for a
part that does not answer, so all of those numbers mean the same here.
"""

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.records import NamedTuple


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
    errno.ETIMEDOUT: (
        BusFault,
        "timed out: SDA or SCL may be held low; check the wiring, then power-cycle the part",
    ),
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
