"""GPIO lines through `/dev/gpiochipN`, the second version of the character device (Linux 5.10 and later).

Sources: kernel header include/uapi/linux/gpio.h; kernel documents Documentation/userspace-api/gpio/chardev.rst and
gpio-v2-*.rst. Structures and request numbers are those of ARM, RISC-V and x86.
"""

import errno
import fcntl
import os
import re
import select
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.hw.board import Bias, Edge, GpioChip, LineHandle, LineInfo, make_hardware_error, translate_os_error

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


def list_chips(root: str = "") -> list[GpioChip]:
    """List the controllers that this user may open; a link, such as a Pi 5's `/dev/gpiochip4`, is not another one."""
    found = []
    for path in list_chip_paths(root):
        with suppress(HardwareError):
            found.append(_read_chip(path, root))
    return found


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


def _find_chip(name: str, root: str) -> GpioChip:
    if re.fullmatch(r"/dev/gpiochip\d+", name):
        return _read_chip(name, root)
    return select_chip(list_chips(root), name)


def list_lines(chip: str, root: str = "") -> list[LineInfo]:
    """List a controller's lines, named by path or label; each costs one ioctl."""
    found = _find_chip(chip, root)
    with _open_chip(found.path, root) as file:
        return [_read_line(file, found.label, offset) for offset in range(found.lines)]


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


def request_input(
    chip: str, offset: int, bias: Bias = "", *, edges: bool = False, debounce_us: int = 0, root: str = ""
) -> LineHandle:
    """See Board.line_in. Without `bias` and `edges` a line that is an output is taken as it is, and stays one."""
    found = _find_chip(chip, root)
    check_offset(found, offset)
    flags = INPUT | BIAS_FLAGS[bias] | (RISING | FALLING if edges else 0)
    attribute = (_DEBOUNCE, debounce_us) if edges and debounce_us else None
    with _open_chip(found.path, root) as file:
        if flags == INPUT and _read_line(file, found.label, offset).output:
            flags = 0
        return _request_line(file, found, offset, flags, attribute)


def request_output(chip: str, offset: int, level: int, root: str = "") -> LineHandle:
    found = _find_chip(chip, root)
    check_offset(found, offset)
    with _open_chip(found.path, root) as file:
        return _request_line(file, found, offset, OUTPUT, (_OUTPUT_VALUES, int(bool(level))))


def _request_line(file: int, chip: GpioChip, offset: int, flags: int, attribute: tuple[int, int] | None) -> "LinuxLine":
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
