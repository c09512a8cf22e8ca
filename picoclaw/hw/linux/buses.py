"""I2C through `/dev/i2c-N`, SPI through `/dev/spidevB.C` by its own ioctls, and serial ports through pyserial.

Several SPI segments go out as one message, with the chip select held. Sources: kernel documents
Documentation/i2c/dev-interface.rst and Documentation/spi/spidev.rst; kernel header include/uapi/linux/spi/spidev.h; for
what a segment's delay and chip select mean, spi_transfer_one_message() in drivers/spi/spi.c.

Which serial ports there are and what holds them is read from files alone. Sources: termios(3), ioctl_tty(2), flock(2);
kernel documents Documentation/ABI/testing/sysfs-tty and Documentation/admin-guide/serial-console.rst;
systemd-getty-generator(8).
"""

import errno
import fcntl
import glob
import os
import re
import select
import struct
import sys
import termios
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import (
    Backoff,
    I2CRead,
    I2CWrite,
    Presence,
    SerialPortInfo,
    SerialSettings,
    SpiNode,
    SpiSettings,
    SpiTransfer,
    make_hardware_error,
    translate_os_error,
)
from picoclaw.text import pattern

_I2C_SLAVE = 0x0703


class LinuxI2C:
    """`/dev/i2c-N` through smbus2, one descriptor under one lock."""

    def __init__(self, number: int, root: str = "") -> None:
        """Open the bus; raises DeviceMissing or NoPermission."""
        self.number = number
        self._root = root
        self._path = f"/dev/i2c-{number}"
        self._lock = threading.Lock()
        self._backoff = Backoff(self._path)
        with translate_os_error(self._path):
            os.close(os.open(root + self._path, os.O_RDWR | os.O_CLOEXEC))
            try:
                import smbus2
            except ImportError:
                raise HardwareError(
                    "the package smbus2 is missing: use the Python that picoclaw is installed in"
                ) from None
            self._message = smbus2.i2c_msg
            self._device = smbus2.SMBus(root + self._path)

    def transfer(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        messages = [
            self._message.read(address, part.length)
            if isinstance(part, I2CRead)
            else self._message.write(address, part.data)
            for part in segments
        ]
        with self._lock, self._backoff.watched():
            try:
                self._claim(address)
                self._device.i2c_rdwr(*messages)
            except OSError as error:
                raise make_hardware_error(error, self._path, address) from error
        return [bytes(m) for m, part in zip(messages, segments, strict=True) if isinstance(part, I2CRead)]

    def probe(self, address: int) -> Presence:
        """See I2CBus.probe. Read-byte where EEPROMs live, quick write elsewhere, as i2cdetect(8) does.

        A quick write can corrupt an AT24RF08 EEPROM (0x50-0x5F) and lock up parts at 0x30-0x37.
        """
        by_reading = 0x30 <= address <= 0x37 or 0x50 <= address <= 0x5F
        with self._lock:
            try:
                with self._backoff.watched(), translate_os_error(self._path, address):
                    self._claim(address)
                    (self._device.read_byte if by_reading else self._device.write_quick)(address)
            except DeviceMissing:
                return "absent"
            except BusFault as error:
                if error.__cause__ is not None and getattr(error.__cause__, "errno", 0) == errno.EBUSY:
                    return "busy"
                raise
        return "present"

    def holder(self, address: int) -> str:
        link = f"{self._root}/sys/bus/i2c/devices/{self.number}-{address:04x}/driver"
        try:
            return Path(link).readlink().name
        except OSError:
            return ""

    def _claim(self, address: int) -> None:
        """Without force, so that an address that a kernel driver holds is refused (I2C_RDWR would not look)."""
        fcntl.ioctl(self._device.fd or -1, _I2C_SLAVE, address)

    def close(self) -> None:
        with self._lock:
            self._device.close()


_TRANSFER_STRUCT = struct.Struct("=QQIIHBBBBBB")  # struct spi_ioc_transfer
_READ_MODE = 0x80046B05  # SPI_IOC_RD_MODE32
_WRITE_MODE = 0x40046B05  # SPI_IOC_WR_MODE32
_MODE_BITS = 0x01 | 0x02 | 0x08  # SPI_CPHA, SPI_CPOL, SPI_LSB_FIRST
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_BUFSIZ = "/sys/module/spidev/parameters/bufsiz"
_DEFAULT_BUFSIZ = 4096
# A longer argument than 1024 bytes would make fcntl.ioctl hold the interpreter's lock through the transfer; and where
# the kernel begins each segment on a 128-byte boundary (arm64), 32 segments fill the usual buffer anyway.
MAX_SEGMENTS = 32


def encode_message_ioctl(count: int) -> int:
    """Return the number of the ioctl that carries `count` segments, SPI_IOC_MESSAGE(count)."""
    return 0x40006B00 | count * _TRANSFER_STRUCT.size << 16


def pack_message(segments: Sequence[SpiTransfer], speed_hz: int, address: int) -> bytes:
    """Pack the segments, whose bytes lie one after the other at `address`, where the answers are put as well."""
    packed = []
    for index, segment in enumerate(segments):
        length = len(segment.data)
        at = address if length else 0
        # On the last segment cs_change would ask for the opposite: to keep the part selected after the message.
        release = segment.release and index < len(segments) - 1
        packed.append(_TRANSFER_STRUCT.pack(at, at, length, speed_hz, segment.delay_us, 8, release, 0, 0, 0, 0))
        address += length
    return b"".join(packed)


class LinuxSpi:
    """One chip select, one descriptor, one lock.

    Clock and word length are given with each segment, so that only the mode is changed and put back. The order of the
    bits is reversed here, since common controllers (BCM2835) cannot do it.
    """

    def __init__(self, bus: int, chip: int, root: str = "") -> None:
        """Open the device file; raises DeviceMissing or NoPermission."""
        self.node = SpiNode(bus, chip, f"/dev/spidev{bus}.{chip}")
        self._root = root
        self._lock = threading.Lock()
        with translate_os_error(self.node.path):
            self._device = os.open(root + self.node.path, os.O_RDWR | os.O_CLOEXEC)

    def transfer(self, segments: Sequence[SpiTransfer], settings: SpiSettings) -> list[bytes]:
        """See SpiDevice.transfer.

        A delay is waited before the chip select is released, which then lasts 10 microseconds unless the device tree
        says otherwise. Raises BusFault, before anything is sent, for what does not fit in one message.
        """
        if problem := self._problem(segments, settings):
            raise BusFault(f"{self.node.path} {problem}")
        if not segments:
            return []
        sent = b"".join(segment.data for segment in segments)
        buffer = array("B", sent.translate(_REVERSED_BITS) if settings.lsb_first else sent)
        argument = pack_message(segments, settings.speed_hz, buffer.buffer_info()[0])
        with self._lock, translate_os_error(self.node.path), self._in_mode(settings.mode):
            fcntl.ioctl(self._device, encode_message_ioctl(len(segments)), argument)
        received = buffer.tobytes().translate(_REVERSED_BITS) if settings.lsb_first else buffer.tobytes()
        ends = [sum(len(s.data) for s in segments[: i + 1]) for i in range(len(segments))]
        return [received[end - len(s.data) : end] for s, end in zip(segments, ends, strict=True)]

    def _problem(self, segments: Sequence[SpiTransfer], settings: SpiSettings) -> str:
        total, most = sum(len(s.data) for s in segments), self._bufsiz()
        if total > most:
            return f"takes at most {most} bytes in one message (bufsiz of the kernel's spidev), not {total}"
        if len(segments) > MAX_SEGMENTS:
            return f"takes at most {MAX_SEGMENTS} segments in one message, not {len(segments)}"
        if any(not 0 <= s.delay_us <= 0xFFFF for s in segments):
            return "can wait 0 to 65535 microseconds after a segment"
        if not 0 <= settings.mode <= 3:
            return f"has modes 0 to 3, not {settings.mode}"
        if not 0 < settings.speed_hz < 1 << 32:
            return f"cannot have a clock of {settings.speed_hz} Hz"
        return ""

    def _bufsiz(self) -> int:
        with suppress(OSError, ValueError):
            return int(Path(self._root + _BUFSIZ).read_text("ascii"))
        return _DEFAULT_BUFSIZ

    @contextmanager
    def _in_mode(self, mode: int) -> Iterator[None]:
        """Set the mode, which belongs to the chip select and outlives its descriptors, and put it back."""
        (before,) = struct.unpack("=I", fcntl.ioctl(self._device, _READ_MODE, bytes(4)))
        wanted = before & ~_MODE_BITS | mode
        if wanted == before:
            yield
            return
        fcntl.ioctl(self._device, _WRITE_MODE, struct.pack("=I", wanted))
        try:
            yield
        finally:
            fcntl.ioctl(self._device, _WRITE_MODE, struct.pack("=I", before))

    def close(self) -> None:
        with self._lock:
            device, self._device = self._device, -1
            if device >= 0:
                os.close(device)


LOWEST_BAUD, HIGHEST_BAUD = 50, 4_000_000
_LINK_PATTERNS = ("/dev/serial[0-9]", "/dev/serial/by-id/*", "/dev/serial/by-path/*")
_GETTY_CGROUP = "/sys/fs/cgroup/{}system.slice/system-serial*getty.slice/serial-getty@{}.service"
_CONSOLE, _LOGIN = "the Linux console", "a login prompt"
_PARITY = {"none": "N", "even": "E", "odd": "O"}
_TCGETS2, _TERMIOS2 = 0x802C542A, 44  # of arm, arm64, riscv and x86: the ioctl, and the size of its struct
_BAUD_TOLERANCE = 0.03
_WRITE_GRACE_S = 2.0
_SORT_PARTS = pattern(r"(\d+)|(\D+)")


def list_ports(root: str = "") -> list[SerialPortInfo]:
    """List the ports with hardware behind them; an 8250 port of type 0 is only a placeholder of the kernel's."""
    names = _find_stable_names(root)
    found = []
    for device in _glob(root, "/sys/class/tty/*/device"):
        tty = device.parent.name
        if Path(f"{root}/dev/{tty}").exists() and _read_text(device.parent / "type") != "0":
            found.append(
                SerialPortInfo(f"/dev/{tty}", names.get(tty, ()), _describe_device(device), find_port_user(tty, root))
            )
    return found


def find_port_user(tty: str, root: str = "") -> str:
    """Say what of the system itself uses a port, named as in `/sys/class/tty`; empty when nothing does."""
    booted = re.findall(r"(?:^|\s)console=([^\s,]+)", _read_text(Path(f"{root}/proc/cmdline")))
    active = _read_text(Path(f"{root}/sys/class/tty/console/active")).split()
    names = {tty, *(Path(name).name for name in _find_stable_names(root).get(tty, ()))}
    if names & {*booted, *active}:
        return _CONSOLE
    if any(_glob(root, _GETTY_CGROUP.format(version, tty)) for version in ("", "systemd/")):
        return _LOGIN
    return ""


def _find_stable_names(root: str) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for link in (link for place in _LINK_PATTERNS for link in _glob(root, place)):
        with suppress(OSError):
            tty = link.readlink().name
            names[tty] = (*names.get(tty, ()), str(link)[len(root) :])
    return names


def _describe_device(device: Path) -> str:
    """Name a USB adapter as it names itself, or the driver of a built-in port (below its serial-base devices)."""
    real = device.resolve()
    for folder in (real, *real.parents[:5]):
        if product := _read_text(folder / "product"):
            words = f"{_read_text(folder / 'manufacturer')} {product}"
            return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:80]
    for folder in (real, *real.parents[:3]):
        driver = (folder / "driver").resolve()
        if driver.exists() and "serial-base" not in driver.parts:
            return driver.name
    return ""


def _glob(root: str, pattern: str) -> list[Path]:
    found = glob.glob(glob.escape(root) + pattern)  # noqa: PTH207 - Path.glob does not take absolute patterns
    return sorted(map(Path, found), key=lambda path: [(int(d or 0), w) for d, w in _SORT_PARTS.findall(str(path))])


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _suggest_remedy(used_by: str, tty: str) -> str:
    end = f"`sudo systemctl disable --now serial-getty@{tty}`"
    if used_by == _LOGIN:
        return f"end that with {end}"
    return (
        f"end that with `sudo raspi-config nonint do_serial_cons 1`, or {end} and without console={tty} in cmdline.txt"
    )


def _open_port(path: str, name: str, settings: SerialSettings) -> Any:
    try:
        import serial  # type: ignore[import-untyped]
    except ImportError:
        raise HardwareError("the package pyserial is missing: use the Python that picoclaw is installed in") from None
    frame = (settings.baud, settings.bits, _PARITY.get(settings.parity), settings.stop_bits)
    try:
        # With dsrdtr pyserial leaves DTR alone, and nothing else follows from it; it raises RTS, which is up already.
        return serial.Serial(path, *frame, timeout=0, exclusive=True, dsrdtr=True)
    except ValueError as error:
        raise BusFault(f"{name} refused its settings: {error}") from None


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Find the error number in what pyserial and termios raise, some of which are no OSErrors or have none."""
    try:
        yield
    except (OSError, termios.error) as error:
        numbers = (getattr(e, "args", ()) for e in (error, error.__context__))
        number = next((args[0] for args in numbers if args and isinstance(args[0], int)), errno.EIO)
        number = errno.EBUSY if number == errno.EAGAIN else number  # flock(2): somebody else has it
        raise OSError(number, os.strerror(number)) from error


class LinuxSerial:
    """An open port, exclusive by flock(2) against programs that ask for it, and by TIOCEXCL against all but root's.

    DTR and RTS are not touched here, and HUPCL is cleared, so that closing leaves them up. The kernel itself raises
    both whenever it opens a port: a board that resets on DTR does so at the first opening, and not at later ones.
    """

    def __init__(self, name: str, settings: SerialSettings, root: str = "") -> None:
        """Open it and throw away what had been received. Raises DeviceMissing, NoPermission, BusFault.

        The baud rate is 50 to 4,000,000 per second, standard or not; one that the port cannot do is refused.
        """
        self.path = name
        self._baud = settings.baud
        if not LOWEST_BAUD <= settings.baud <= HIGHEST_BAUD:
            raise BusFault(f"{name} cannot have {settings.baud} baud: {LOWEST_BAUD} to {HIGHEST_BAUD} are possible")
        tty = Path(root + name).resolve().name
        if used_by := find_port_user(tty, root):
            raise BusFault(f"{name} is in use by {used_by}: {_suggest_remedy(used_by, tty)}")
        with translate_os_error(name), _convert_errors():
            self._device = _open_port(root + name, name, settings)
        self._fd: int = self._device.fileno()
        try:
            with translate_os_error(name), _convert_errors():
                fcntl.ioctl(self._fd, termios.TIOCEXCL)
                state = termios.tcgetattr(self._fd)
                state[2] &= ~termios.HUPCL
                termios.tcsetattr(self._fd, termios.TCSANOW, state)
                # ask what the driver has made of the baud rate: it takes one that it can do, and reports no error
                real = int.from_bytes(fcntl.ioctl(self._fd, _TCGETS2, bytes(_TERMIOS2))[-4:], sys.byteorder)
                if abs(real - self._baud) > self._baud * _BAUD_TOLERANCE:
                    raise BusFault(f"{self.path} cannot have {self._baud} baud: its driver offers {real}")
        except HardwareError:
            self.close()
            raise

    def write(self, data: bytes) -> None:
        """See SerialPort.write; waits as long as the bytes need on the wire, and 2 seconds.

        Raises BusFault when that is over, after throwing away what the kernel had taken and not sent.
        """
        ends = time.monotonic() + _WRITE_GRACE_S + 12 * len(data) / self._baud
        left = memoryview(data)
        with translate_os_error(self.path), _convert_errors():
            while left:
                if not self._ready(select.POLLOUT, ends) or time.monotonic() > ends:
                    termios.tcflush(self._fd, termios.TCOFLUSH)
                    raise BusFault(f"{self.path} took only {len(data) - len(left)} of {len(data)} bytes in time")
                with suppress(BlockingIOError):
                    left = left[os.write(self._fd, left) :]

    def read(self, most: int, seconds: float) -> bytes:
        """See SerialPort.read; what came before the port was unplugged is still returned."""
        ends = time.monotonic() + seconds
        received = bytearray()
        with translate_os_error(self.path):
            while len(received) < most and self._ready(select.POLLIN, ends):
                chunk = self._chunk(most - len(received), had=bool(received))
                if not chunk:
                    break
                received += chunk
        return bytes(received)

    def _chunk(self, most: int, *, had: bool) -> bytes:
        """Read what is there; a port that is ready and has nothing has been unplugged."""
        try:
            chunk = os.read(self._fd, most)
        except OSError:
            if had:
                return b""
            raise
        if not chunk and not had:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return chunk

    def _ready(self, wanted: int, ends: float) -> bool:
        poll = select.poll()
        poll.register(self._handle(), wanted)
        return bool(poll.poll(max(0.0, ends - time.monotonic()) * 1000))

    def _handle(self) -> int:
        if self._fd < 0:
            raise OSError(errno.EBADF, "it has been closed")
        return self._fd

    def flush(self) -> None:
        with translate_os_error(self.path), _convert_errors():
            termios.tcflush(self._handle(), termios.TCIFLUSH)

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                fcntl.ioctl(self._fd, termios.TIOCNXCL)
        self._fd = -1
        self._device.close()
