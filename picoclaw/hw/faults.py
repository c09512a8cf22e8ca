"""What an errno of a device or a kernel file means, in words, once and for both boards: which noun, what to try.

Sources: kernel document Documentation/i2c/fault-codes.rst; errno(3). Controllers differ in what they report for a
part that does not answer, so all of those numbers mean the same here.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission


class Family(NamedTuple):
    """Device files of one kind: how they begin, how one is turned on, and the group that may open them."""

    prefixes: tuple[str, ...]
    enable: str
    group: str


_ON = "`sudo raspi-config nonint {} 0`"
FAMILIES = (
    Family(("/dev/i2c-",), f"turn I2C on with {_ON.format('do_i2c')} (or `sudo modprobe i2c-dev`)", "i2c"),
    Family(("/dev/spidev",), f"turn SPI on with {_ON.format('do_spi')}", "spi"),
    Family(("/dev/gpio",), "this kernel shows no such GPIO chip; `ls /dev/gpiochip*` lists them", "gpio"),
    Family(
        ("/dev/tty", "/dev/serial", "/dev/ama"),
        f"turn the port on with {_ON.format('do_serial_hw')}, or plug the adapter in",
        "dialout",
    ),
)


@contextmanager
def explained(path: str, address: int | None = None) -> Iterator[None]:
    """Turn an OSError of a device or a kernel file into our words, with the path and what to try."""
    try:
        yield
    except OSError as error:
        raise explanation(error, path, address) from error


def explanation(error: OSError, path: str, address: int | None = None) -> HardwareError:
    """Word an OSError; `address` is the part's on an I2C bus."""
    where = path if address is None else f"0x{address:02x} on {path}"
    kind, words = _table(path, address).get(error.errno or 0, (BusFault, "failed: {text}"))
    return kind(f"{where} {words.format(text=error.strerror or error, remedy=_remedy(path, kind))}")


Words = tuple[type[HardwareError], str]
_NO_ANSWER: Words = (
    DeviceMissing,
    "does not answer: check power (3V3), SDA and SCL not swapped, pull-ups, and the part's address pin",
)
_GONE: Words = (DeviceMissing, "does not exist{remedy}")
_FORBIDDEN: Words = (NoPermission, "may not be opened by this user{remedy}")
_EVERYWHERE: dict[int, Words] = {
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
_I2C = _EVERYWHERE | {
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
_FILES = _EVERYWHERE | {
    errno.EREMOTEIO: (BusFault, "got no answer from its part: check power and wiring"),
    errno.ENXIO: (BusFault, "got no answer from its part: check power and wiring"),
    errno.ETIMEDOUT: (BusFault, "timed out: the part did not answer; check the wiring and try again in 2 seconds"),
    errno.EIO: (BusFault, "could not be measured: no answer, or a checksum that does not fit; check the wiring"),
    errno.EBUSY: (BusFault, "is busy: try again"),
    errno.EAGAIN: (BusFault, "has no value yet: try again"),
    errno.EROFS: (NoPermission, "may not be written: it is read-only for this service"),
}
_DEVICES = _EVERYWHERE | {
    errno.EBUSY: (BusFault, "is in use by somebody else: end the other program"),
    errno.EIO: (DeviceMissing, "has gone away or reported an I/O error: check the plug and the wiring"),
    errno.ENXIO: (DeviceMissing, "has gone away: check the plug and the wiring"),
    errno.ESHUTDOWN: (DeviceMissing, "has gone away: check the plug and the wiring"),
    errno.ETIMEDOUT: (BusFault, "timed out: check the wiring"),
    errno.EMSGSIZE: (BusFault, "takes fewer bytes in one message; send less at a time"),
}


def _table(path: str, address: int | None) -> Mapping[int, Words]:
    family = family_of(path)
    if address is not None or (family and family.group == "i2c"):
        return _I2C
    return _DEVICES if family else _FILES


def family_of(path: str) -> Family | None:
    """Return the family that a device file belongs to."""
    return next((f for f in FAMILIES if path.startswith(f.prefixes)), None)


def _remedy(path: str, kind: type[HardwareError]) -> str:
    family = family_of(path)
    if family is None:
        return ""
    if kind is DeviceMissing:
        return f": {family.enable}, then look again"
    return f": add it to the group that owns it, `sudo usermod -aG {family.group} $USER`, and log in again"
