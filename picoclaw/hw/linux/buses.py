"""I2C through `/dev/i2c-N`, and SPI through `/dev/spidevB.C` by its own ioctls.

Several SPI segments go out as one message, with the chip select held. Sources: kernel documents
Documentation/i2c/dev-interface.rst and Documentation/spi/spidev.rst; kernel header include/uapi/linux/spi/spidev.h; for
what a segment's delay and chip select mean, spi_transfer_one_message() in drivers/spi/spi.c.
"""

import errno
import fcntl
import os
import struct
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import I2CRead, I2CWrite, Presence, SpiNode, SpiSettings, SpiTransfer
from picoclaw.hw.faults import Backoff, make_hardware_error, translate_os_error

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
