"""The real board: files under `/sys` and `/proc`, GPIO lines through `/dev/gpiochipN`, and the buses that have device files.

GPIO is the second version of the character device (Linux 5.10 and later); structures and request numbers are those of ARM,
RISC-V and x86. Sources: adjtimex(2); kernel header include/uapi/linux/gpio.h; kernel documents
Documentation/userspace-api/gpio/chardev.rst and gpio-v2-*.rst.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import re
import select
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import (
    Bias,
    DiskSpace,
    Edge,
    GpioChip,
    I2CAdapter,
    I2CBus,
    LineHandle,
    LineInfo,
    SerialPort,
    SerialPortInfo,
    SerialSettings,
    SpiDevice,
    SpiNode,
    make_hardware_error,
    translate_os_error,
)
from picoclaw.hw.reading import WiredPart

if TYPE_CHECKING:
    from picoclaw.hw.linux.buses import LinuxI2C, LinuxSpi

CONSUMER = "picoclaw"

CHIP_STRUCT = struct.Struct("=32s32sI")  # gpiochip_info: name, label, lines
INFO_STRUCT = struct.Struct(
    "=32s32sIIQ160x16x"
)  # gpio_v2_line_info: name, consumer, offset, number of attributes, flags
REQUEST_STRUCT = struct.Struct("=I252x32sQI20xI4xQQ216xII20xi")
"""gpio_v2_line_request for one line: offset, consumer, flags, number of attributes, the first attribute (id, value,
mask), number of lines, size of the event buffer, descriptor."""
VALUES_STRUCT = struct.Struct("=QQ")  # gpio_v2_line_values: bits, mask
EVENT_STRUCT = struct.Struct("=QIIII24x")  # gpio_v2_line_event: nanoseconds, id, offset, number, number on the line

_READ, _READ_WRITE = 2, 3


def _encode_ioctl(direction: int, number: int, size: int) -> int:
    """Number an ioctl as asm-generic/ioctl.h does."""
    return direction << 30 | size << 16 | 0xB4 << 8 | number


GET_CHIP = _encode_ioctl(_READ, 0x01, CHIP_STRUCT.size)
GET_INFO = _encode_ioctl(_READ_WRITE, 0x05, INFO_STRUCT.size)
GET_LINE = _encode_ioctl(_READ_WRITE, 0x07, REQUEST_STRUCT.size)
GET_VALUES = _encode_ioctl(_READ_WRITE, 0x0E, VALUES_STRUCT.size)
SET_VALUES = _encode_ioctl(_READ_WRITE, 0x0F, VALUES_STRUCT.size)

USED, ACTIVE_LOW, INPUT, OUTPUT, RISING, FALLING = (1 << n for n in range(6))
BIAS_FLAGS: dict[Bias, int] = {"": 0, "pull-up": 1 << 8, "pull-down": 1 << 9, "none": 1 << 10}
_OUTPUT_VALUES, _DEBOUNCE = 2, 3
_RISING_EDGE = 1
EVENT_BUFFER_SIZE = 1024  # events, the most that the kernel keeps

_LINE_ERRORS = {
    errno.ENXIO: "cannot report edges: its controller has no interrupt for it",
    errno.EPERM: "was requested as an input and cannot be driven",
    errno.EBADF: "has been given back: request it again",
}


def list_chip_paths(root: str = "") -> list[str]:
    """List the controllers' device files, also those that this user may not open."""
    nodes = (p for p in Path(f"{root}/dev").glob("gpiochip*") if re.fullmatch(r"gpiochip\d+", p.name))
    return [f"/dev/{p.name}" for p in sorted(nodes, key=lambda p: int(p.name[8:])) if not p.is_symlink()]


def _read_chip(path: str, root: str) -> GpioChip:
    with _open_chip(path, root) as file:
        answer = bytearray(CHIP_STRUCT.size)
        fcntl.ioctl(file, GET_CHIP, answer)
    _, label, count = CHIP_STRUCT.unpack(answer)
    return GpioChip(path, _decode_name(label), count)


def select_chip(found: Sequence[GpioChip], name: str) -> GpioChip:
    """Pick a controller by path or label. Raises DeviceMissing when none, or more than one, has the label."""
    fits = [chip for chip in found if name in {chip.path, chip.label}]
    if len(fits) > 1:
        raise DeviceMissing(
            f"{len(fits)} GPIO chips are labelled {name!r}: {_format_chips(fits)}; name one by its path"
        )
    if not fits:
        raise DeviceMissing(f"there is no GPIO chip {name!r}; there are: {_format_chips(found) or 'none'}")
    return fits[0]


def _format_chips(found: Sequence[GpioChip]) -> str:
    return ", ".join(f"{chip.label} ({chip.path})" for chip in found)


def check_offset(chip: GpioChip, offset: int) -> None:
    """Raise DeviceMissing when the controller has no such line."""
    if not 0 <= offset < chip.lines:
        raise DeviceMissing(f"{chip.label} ({chip.path}) has no line {offset}; its lines are 0 to {chip.lines - 1}")


@contextmanager
def translate_line_error(path: str, offset: int, holder: Callable[[], str] = str) -> Iterator[None]:
    """Turn an OSError of a line into our words; `holder` tells who holds it, should it be busy."""
    try:
        yield
    except OSError as error:
        raise _make_line_error(error, f"{path} line {offset}", holder) from error


def _make_line_error(error: OSError, where: str, holder: Callable[[], str]) -> HardwareError:
    if error.errno in _LINE_ERRORS:
        return BusFault(f"{where} {_LINE_ERRORS[error.errno]}")
    if error.errno == errno.EBUSY:
        where += f" (held by {holder() or 'a kernel driver'})"
    return make_hardware_error(error, where)


@contextmanager
def _open_chip(path: str, root: str) -> Iterator[int]:
    with translate_os_error(path):
        file = os.open(root + path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield file
        finally:
            os.close(file)


def _read_line(file: int, label: str, offset: int) -> LineInfo:
    answer = bytearray(INFO_STRUCT.pack(b"", b"", offset, 0, 0))
    fcntl.ioctl(file, GET_INFO, answer)
    name, consumer, _, _, flags = INFO_STRUCT.unpack(answer)
    holder = (_decode_name(consumer) or "kernel") if flags & USED else ""
    return LineInfo(label, offset, _decode_name(name), holder, bool(flags & OUTPUT), bool(flags & ACTIVE_LOW))


def _decode_name(field: bytes) -> str:
    """Read a name, which any program may have chosen, without control characters."""
    text = field.partition(b"\0")[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _request_line(file: int, chip: GpioChip, offset: int, flags: int, attribute: tuple[int, int] | None) -> LinuxLine:
    kind, value = attribute or (0, 0)
    mask = int(attribute is not None)
    answer = bytearray(
        REQUEST_STRUCT.pack(
            offset, CONSUMER.encode(), flags, mask, kind, value, mask, 1, EVENT_BUFFER_SIZE if flags & RISING else 0, 0
        )
    )
    with translate_line_error(chip.path, offset, lambda: _read_line(file, chip.label, offset).consumer):
        fcntl.ioctl(file, GET_LINE, answer)
    return LinuxLine(chip.path, offset, REQUEST_STRUCT.unpack(answer)[-1], edges=bool(flags & RISING))


class LinuxLine:
    def __init__(self, path: str, offset: int, file: int, *, edges: bool) -> None:
        """`file` is the line's own descriptor; this object closes it."""
        self.lost = 0
        """How many edges the kernel had to throw away, because nobody fetched them."""
        self._path = path
        self._offset = offset
        self._file = file
        self._edges = edges
        self._number = 0

    def get(self) -> int:
        answer = bytearray(VALUES_STRUCT.pack(0, 1))
        with translate_line_error(self._path, self._offset):
            fcntl.ioctl(self._descriptor(), GET_VALUES, answer)
        return int(VALUES_STRUCT.unpack(answer)[0] & 1)

    def set(self, level: int) -> None:
        with translate_line_error(self._path, self._offset):
            fcntl.ioctl(self._descriptor(), SET_VALUES, bytearray(VALUES_STRUCT.pack(int(bool(level)), 1)))

    def edges(self, seconds: float) -> list[Edge]:
        """See LineHandle.edges; what has been lost before one of them is counted in `lost`."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        if not poll.poll(max(0.0, seconds) * 1000):
            return []
        with translate_line_error(self._path, self._offset):
            data = os.read(self._descriptor(), EVENT_STRUCT.size * EVENT_BUFFER_SIZE)
        return [self._edge(*event) for event in EVENT_STRUCT.iter_unpack(data)]

    def _edge(self, at_ns: int, kind: int, _offset: int, _number: int, number: int) -> Edge:
        self.lost += (number - self._number - 1) & 0xFFFFFFFF
        self._number = number
        return Edge(int(kind == _RISING_EDGE), at_ns)

    def fileno(self) -> int:
        with translate_line_error(self._path, self._offset):
            if not self._edges:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return self._descriptor()

    def _descriptor(self) -> int:
        if self._file < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._file

    def close(self) -> None:
        """See LineHandle.close.

        Whether an output keeps its level afterwards is the controller's affair: Raspberry Pi OS keeps it (parameter
        persist_gpio_outputs of pinctrl-bcm2835), other kernels turn the line back into an input.
        """
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


_LONGEST_FILE = 65_536
_TIME_ERROR = 5
_TIMESYNCD = "/run/systemd/timesync/synchronized"
_ADAPTER_USES = {
    **dict.fromkeys(("hdmi", "ddc", "fef04500", "fef09500", "107d508200", "107d508280"), "an HDMI port"),
    **dict.fromkeys(("csi", "cam"), "a camera"),
    "dsi": "a display",
    "mux": "a camera or a display",
    "gpu": "the graphics processor",
    **dict.fromkeys(("gmbus", "aux ", "nvidia", "nvkm", "radeon", "amdgpu"), "the graphics card"),
    "smbus": "the mainboard",
}
"""Words in the names of adapters that are no pin header, and what those are for; the numbers are a Pi 4's and 5's."""
_SYMBOL_USES = {"i2c_arm": "", "i2c_vc": "the HAT's EEPROM and the camera"}


class LinuxBoard:
    """A board with a Linux kernel. `root` is where its file system begins; only tests move it."""

    simulated = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")
        self._buses: dict[int, LinuxI2C] = {}
        self._chip_selects: dict[tuple[int, int], LinuxSpi] = {}
        self._lock = threading.Lock()

    def text(self, path: str) -> str:
        with translate_os_error(path):
            handle = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.read(handle, _LONGEST_FILE).decode("utf-8", "replace").strip().rstrip("\0")
            finally:
                os.close(handle)

    def put(self, path: str, text: str) -> None:
        with translate_os_error(path):
            handle = os.open(self._root + path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.write(handle, text.encode())
            finally:
                os.close(handle)

    def glob(self, pattern: str) -> list[str]:
        return sorted(path[len(self._root) :] for path in glob.glob(glob.escape(self._root) + pattern))  # noqa: PTH207

    def may_open(self, path: str) -> bool:
        return os.access(self._root + path, os.R_OK | os.W_OK)

    def space(self, path: str) -> DiskSpace:
        with translate_os_error(path):
            disk = os.statvfs(path)
            return DiskSpace(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def clock_synchronised(self) -> bool:
        """See Board.clock_synchronised; a call with `modes` 0 only asks.

        A service may not even ask (ProtectClock=); what systemd-timesyncd has left is the answer then.
        """
        import ctypes

        answer = int(ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512)))
        return answer != _TIME_ERROR if answer >= 0 else bool(self.glob(_TIMESYNCD))

    def adapters(self) -> list[I2CAdapter]:
        found = (re.fullmatch(r"/dev/i2c-(\d+)", path) for path in self.glob("/dev/i2c-[0-9]*"))
        return sorted((self._adapter(m[0], int(m[1])) for m in found if m), key=lambda a: a.number)

    def _adapter(self, path: str, number: int) -> I2CAdapter:
        try:
            name = self.text(f"/sys/class/i2c-dev/i2c-{number}/name")
        except HardwareError:
            name = "unknown adapter"
        node = os.path.realpath(f"{self._root}/sys/class/i2c-dev/i2c-{number}/device/of_node")
        use = next((use for word, use in _ADAPTER_USES.items() if word in name.lower()), "")
        for symbol, meant in _SYMBOL_USES.items():
            place = self._symbol(symbol)
            if place and node.endswith(place):
                return I2CAdapter(number, path, name, header=not meant, use=meant)
            if place and not meant and f"{place}/" in node:  # a multiplexer that is wired to the header
                return I2CAdapter(number, path, name, header=False)
        return I2CAdapter(number, path, name, header=number == 1 and not use, use=use)

    def _symbol(self, name: str) -> str:
        """Where the device tree has a node, by the label that Raspberry Pi's overlays use."""
        try:
            return self.text(f"/proc/device-tree/__symbols__/{name}")
        except HardwareError:
            return ""

    def i2c(self, number: int) -> I2CBus:
        from picoclaw.hw.linux.buses import LinuxI2C

        with self._lock:
            if number not in self._buses:
                self._buses[number] = LinuxI2C(number, self._root)
            return self._buses[number]

    def spi_nodes(self) -> list[SpiNode]:
        found = (re.fullmatch(r"/dev/spidev(\d+)\.(\d+)", path) for path in self.glob("/dev/spidev*"))
        return sorted(SpiNode(int(m[1]), int(m[2]), m[0]) for m in found if m)

    def spi(self, bus: int, chip: int) -> SpiDevice:
        from picoclaw.hw.linux.buses import LinuxSpi

        with self._lock:
            if (bus, chip) not in self._chip_selects:
                self._chip_selects[bus, chip] = LinuxSpi(bus, chip, self._root)
            return self._chip_selects[bus, chip]

    def ports(self) -> list[SerialPortInfo]:
        from picoclaw.hw.linux.buses import list_ports

        return list_ports(self._root)

    def serial(self, name: str, settings: SerialSettings) -> SerialPort:
        from picoclaw.hw.linux.buses import LinuxSerial

        return LinuxSerial(name, settings, self._root)

    def gpio_chips(self) -> list[GpioChip]:
        """See Board.gpio_chips; a link, such as a Pi 5's `/dev/gpiochip4`, is not another one."""
        found = []
        for path in list_chip_paths(self._root):
            with suppress(HardwareError):
                found.append(_read_chip(path, self._root))
        return found

    def _find_chip(self, name: str) -> GpioChip:
        if re.fullmatch(r"/dev/gpiochip\d+", name):
            return _read_chip(name, self._root)
        return select_chip(self.gpio_chips(), name)

    def lines(self, chip: str) -> list[LineInfo]:
        """See Board.lines; each costs one ioctl."""
        found = self._find_chip(chip)
        with _open_chip(found.path, self._root) as file:
            return [_read_line(file, found.label, offset) for offset in range(found.lines)]

    def line_in(
        self, chip: str, offset: int, *, bias: Bias = "", edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        found = self._find_chip(chip)
        check_offset(found, offset)
        flags = INPUT | BIAS_FLAGS[bias] | (RISING | FALLING if edges else 0)
        attribute = (_DEBOUNCE, debounce_us) if edges and debounce_us else None
        with _open_chip(found.path, self._root) as file:
            if flags == INPUT and _read_line(file, found.label, offset).output:
                flags = 0
            return _request_line(file, found, offset, flags, attribute)

    def line_out(self, chip: str, offset: int, level: int) -> LineHandle:
        found = self._find_chip(chip)
        check_offset(found, offset)
        with _open_chip(found.path, self._root) as file:
            return _request_line(file, found, offset, OUTPUT, (_OUTPUT_VALUES, int(bool(level))))

    def lock_path(self, part: WiredPart) -> str:
        """See Board.lock_path: the device file itself; of a serial port and of 1-Wire the kernel takes care."""
        nodes = {"i2c": f"/dev/i2c-{part.bus}", "spi": f"/dev/spidev{part.bus}.{part.chip}"}
        return self._root + nodes[part.route] if part.route in nodes else ""

    def wired(self) -> Mapping[str, WiredPart]:
        """See Board.wired: a real board cannot know."""
        return {}

    def close(self) -> None:
        with self._lock:
            opened: list[LinuxI2C | LinuxSpi] = [*self._buses.values(), *self._chip_selects.values()]
            for bus in opened:
                bus.close()
            self._buses.clear()
            self._chip_selects.clear()
