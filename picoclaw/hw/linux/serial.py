"""Serial ports: which there are and what holds them, from files alone, and one of them opened through pyserial.

Sources: termios(3), ioctl_tty(2), flock(2); kernel documents Documentation/ABI/testing/sysfs-tty and
Documentation/admin-guide/serial-console.rst; systemd-getty-generator(8).
"""

import errno
import fcntl
import glob
import os
import re
import select
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from picoclaw.errors import BusFault, HardwareError
from picoclaw.hw.board import SerialPortInfo, SerialSettings
from picoclaw.hw.faults import translate_os_error
from picoclaw.text import pattern

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
