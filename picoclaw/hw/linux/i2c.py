"""I2C through `/dev/i2c-N`. Source: kernel document Documentation/i2c/dev-interface.rst."""

import errno
import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import I2CRead, I2CWrite, Presence
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
        """Close the device file; may be called twice."""
        with self._lock:
            self._device.close()
