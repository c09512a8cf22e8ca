"""The real board: files under `/sys`, `/proc` and `/dev`, with errno put into words once, here.

Sources: kernel documents Documentation/i2c/dev-interface.rst and Documentation/i2c/fault-codes.rst,
adjtimex(2).
"""

import errno
import fcntl
import glob
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.hw.board import Adapter, I2CBus, Presence, Read, Space, Wired, Write

_I2C_SLAVE = 0x0703
_LONGEST_FILE = 65_536
_TIME_ERROR = 5
_OFF_HEADER = ("hdmi", "ddc", "csi", "cam", "dsi", "mux", "gpu", "smbus")


class LinuxBoard:
    """A board with a Linux kernel. `root` is where its file system begins; only tests move it."""

    simulated = False

    def __init__(self, root: Path = Path("/")) -> None:
        """Remember where to look; opens nothing."""
        self._root = str(root).rstrip("/")
        self._buses: dict[int, LinuxI2C] = {}
        self._lock = threading.Lock()

    def text(self, path: str) -> str:
        """See Board.text."""
        with explained(path):
            handle = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.read(handle, _LONGEST_FILE).decode("utf-8", "replace").strip().rstrip("\0")
            finally:
                os.close(handle)

    def glob(self, pattern: str) -> list[str]:
        """See Board.glob."""
        return sorted(path[len(self._root) :] for path in glob.glob(glob.escape(self._root) + pattern))  # noqa: PTH207

    def space(self, path: str) -> Space:
        """See Board.space."""
        with explained(path):
            disk = os.statvfs(path)
            return Space(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def clock_synchronised(self) -> bool:
        """See Board.clock_synchronised; a call with `modes` 0 only asks."""
        import ctypes

        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
        return 0 <= int(answer) != _TIME_ERROR

    def adapters(self) -> list[Adapter]:
        """See Board.adapters."""
        found = (re.fullmatch(r"/dev/i2c-(\d+)", path) for path in self.glob("/dev/i2c-[0-9]*"))
        return sorted((self._adapter(m[0], int(m[1])) for m in found if m), key=lambda a: a.number)

    def _adapter(self, path: str, number: int) -> Adapter:
        try:
            name = self.text(f"/sys/class/i2c-dev/i2c-{number}/name")
        except HardwareError:
            name = "unknown adapter"
        header = number == 1 and not any(word in name.lower() for word in _OFF_HEADER)
        return Adapter(number, path, name, header)

    def i2c(self, number: int) -> I2CBus:
        """See Board.i2c."""
        with self._lock:
            if number not in self._buses:
                self._buses[number] = LinuxI2C(number, self._root)
            return self._buses[number]

    def wired(self) -> Mapping[str, Wired]:
        """See Board.wired: a real board cannot know."""
        return {}

    def close(self) -> None:
        """See Board.close."""
        with self._lock:
            for bus in self._buses.values():
                bus.close()
            self._buses.clear()


class LinuxI2C:
    """`/dev/i2c-N` through smbus2, one descriptor under one lock."""

    def __init__(self, number: int, root: str = "") -> None:
        """Open the bus; raises DeviceMissing or NoPermission."""
        self.number = number
        self._root = root
        self._path = f"/dev/i2c-{number}"
        self._lock = threading.Lock()
        with explained(self._path):
            os.close(os.open(root + self._path, os.O_RDWR | os.O_CLOEXEC))
            try:
                import smbus2
            except ImportError:
                raise HardwareError(
                    "the package smbus2 is missing: use the Python that picoclaw is installed in"
                ) from None
            self._message = smbus2.i2c_msg
            self._device = smbus2.SMBus(root + self._path)

    def transfer(self, address: int, segments: Sequence[Read | Write]) -> list[bytes]:
        """See I2CBus.transfer."""
        messages = [
            self._message.read(address, part.length)
            if isinstance(part, Read)
            else self._message.write(address, part.data)
            for part in segments
        ]
        with self._lock, explained(self._path, address):
            self._claim(address)
            self._device.i2c_rdwr(*messages)
        return [bytes(m) for m, part in zip(messages, segments, strict=True) if isinstance(part, Read)]

    def probe(self, address: int) -> Presence:
        """See I2CBus.probe. Read-byte where EEPROMs live, quick write elsewhere, as i2cdetect(8) does.

        A quick write can corrupt an AT24RF08 EEPROM (0x50-0x5F) and lock up parts at 0x30-0x37.
        """
        by_reading = 0x30 <= address <= 0x37 or 0x50 <= address <= 0x5F
        with self._lock:
            try:
                with explained(self._path, address):
                    self._claim(address)
                    (self._device.read_byte if by_reading else self._device.write_quick)(address)
            except DeviceMissing:
                return "absent"
            except BusFault as error:
                if error.__cause__ is not None and _errno(error.__cause__) == errno.EBUSY:
                    return "busy"
                raise
        return "present"

    def holder(self, address: int) -> str:
        """See I2CBus.holder."""
        link = f"{self._root}/sys/bus/i2c/devices/{self.number}-{address:04x}/driver"
        try:
            return Path(link).readlink().name
        except OSError:
            return ""

    def _claim(self, address: int) -> None:
        """Without force, so that an address that a kernel driver holds is refused (I2C_RDWR would not look)."""
        fcntl.ioctl(self._device.fd or -1, _I2C_SLAVE, address)

    def close(self) -> None:
        """Close the device file; may be called twice."""
        with self._lock:
            self._device.close()


@contextmanager
def explained(path: str, address: int | None = None) -> Iterator[None]:
    """Turn an OSError of a device or a kernel file into our words, with the path and what to try."""
    try:
        yield
    except OSError as error:
        where = path if address is None else f"0x{address:02x} on {path}"
        faults = _FAULTS if address is not None or path.startswith("/dev/i2c-") else _FILE_FAULTS
        kind, words = faults.get(error.errno or 0, (BusFault, "failed: {text}"))
        raise kind(f"{where} {words.format(text=error.strerror or error, remedy=_remedy(path, kind))}") from error


_NO_ANSWER = (
    DeviceMissing,
    "does not answer: check power (3V3), SDA and SCL not swapped, pull-ups, and the part's address pin",
)
_GONE = (DeviceMissing, "does not exist{remedy}")
_FORBIDDEN = (NoPermission, "may not be opened by this user{remedy}")
_FAULTS: dict[int, tuple[type[HardwareError], str]] = {
    errno.ENOENT: _GONE,
    errno.ENODEV: _GONE,
    errno.ENOTDIR: _GONE,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EREMOTEIO: _NO_ANSWER,
    errno.ENXIO: _NO_ANSWER,
    errno.EBUSY: (BusFault, "is in use by a kernel driver: read it with sensor_read instead"),
    errno.ETIMEDOUT: (
        BusFault,
        "timed out: SDA or SCL may be held low; check the wiring, then power-cycle the part",
    ),
    errno.EAGAIN: (BusFault, "lost arbitration or is not ready: try again"),
    errno.EIO: (BusFault, "reported an I/O error: check the wiring, the cable length and the pull-ups"),
    errno.EOPNOTSUPP: (BusFault, "cannot do this kind of transfer"),
    errno.EINVAL: (BusFault, "refused the request as invalid"),
}
_FILE_FAULTS = _FAULTS | {
    errno.EREMOTEIO: (BusFault, "got no answer from its part: check power and wiring"),
    errno.ETIMEDOUT: (BusFault, "timed out: the part did not answer; check the wiring and try again in 2 seconds"),
    errno.EIO: (BusFault, "could not be measured: no answer, or a checksum that does not fit; check the wiring"),
    errno.EBUSY: (BusFault, "is busy: try again"),
}


def _remedy(path: str, kind: type[HardwareError]) -> str:
    if not path.startswith("/dev/i2c-"):
        return ""
    if kind is DeviceMissing:
        return ": turn I2C on with `sudo raspi-config nonint do_i2c 0` (or `sudo modprobe i2c-dev`), then look again"
    return ": add it to the group that owns it, `sudo usermod -aG i2c $USER`, and log in again"


def _errno(error: BaseException) -> int:
    return (error.errno or 0) if isinstance(error, OSError) else 0
