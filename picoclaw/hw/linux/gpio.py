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
from picoclaw.hw.board import Bias, Edge, GpioChip, Line, LineHandle
from picoclaw.hw.faults import explained, explanation

CONSUMER = "picoclaw"

CHIP = struct.Struct("=32s32sI")  # gpiochip_info: name, label, lines
INFO = struct.Struct("=32s32sIIQ160x16x")  # gpio_v2_line_info: name, consumer, offset, number of attributes, flags
REQUEST = struct.Struct("=I252x32sQI20xI4xQQ216xII20xi")
"""gpio_v2_line_request for one line: offset, consumer, flags, number of attributes, the first attribute (id, value,
mask), number of lines, size of the event buffer, descriptor."""
VALUES = struct.Struct("=QQ")  # gpio_v2_line_values: bits, mask
EVENT = struct.Struct("=QIIII24x")  # gpio_v2_line_event: nanoseconds, id, offset, number, number on the line

_READ, _READ_WRITE = 2, 3


def _request_number(direction: int, number: int, size: int) -> int:
    """Number an ioctl as asm-generic/ioctl.h does."""
    return direction << 30 | size << 16 | 0xB4 << 8 | number


GET_CHIP = _request_number(_READ, 0x01, CHIP.size)
GET_INFO = _request_number(_READ_WRITE, 0x05, INFO.size)
GET_LINE = _request_number(_READ_WRITE, 0x07, REQUEST.size)
GET_VALUES = _request_number(_READ_WRITE, 0x0E, VALUES.size)
SET_VALUES = _request_number(_READ_WRITE, 0x0F, VALUES.size)

USED, ACTIVE_LOW, INPUT, OUTPUT, RISING, FALLING = (1 << n for n in range(6))
BIAS: dict[Bias, int] = {"": 0, "pull-up": 1 << 8, "pull-down": 1 << 9, "none": 1 << 10}
_OUTPUT_VALUES, _DEBOUNCE = 2, 3
_RISING_EDGE = 1
BUFFER = 1024  # events, the most that the kernel keeps

_WORDS = {
    errno.ENXIO: "cannot report edges: its controller has no interrupt for it",
    errno.EPERM: "was requested as an input and cannot be driven",
    errno.EBADF: "has been given back: request it again",
}


def chips(root: str = "") -> list[GpioChip]:
    """List the controllers that this user may open; a link, such as a Pi 5's `/dev/gpiochip4`, is not another one."""
    found = []
    for path in paths(root):
        with suppress(HardwareError):
            found.append(_chip(path, root))
    return found


def paths(root: str = "") -> list[str]:
    """List the controllers' device files, also those that this user may not open."""
    nodes = (p for p in Path(f"{root}/dev").glob("gpiochip*") if re.fullmatch(r"gpiochip\d+", p.name))
    return [f"/dev/{p.name}" for p in sorted(nodes, key=lambda p: int(p.name[8:])) if not p.is_symlink()]


def _chip(path: str, root: str) -> GpioChip:
    with _opened(path, root) as file:
        answer = bytearray(CHIP.size)
        fcntl.ioctl(file, GET_CHIP, answer)
    _, label, count = CHIP.unpack(answer)
    return GpioChip(path, _text(label), count)


def chosen(found: Sequence[GpioChip], name: str) -> GpioChip:
    """Pick a controller by path or label. Raises DeviceMissing when none, or more than one, has the label."""
    fits = [chip for chip in found if name in {chip.path, chip.label}]
    if len(fits) > 1:
        raise DeviceMissing(f"{len(fits)} GPIO chips are labelled {name!r}: {_listed(fits)}; name one by its path")
    if not fits:
        raise DeviceMissing(f"there is no GPIO chip {name!r}; there are: {_listed(found) or 'none'}")
    return fits[0]


def _listed(found: Sequence[GpioChip]) -> str:
    return ", ".join(f"{chip.label} ({chip.path})" for chip in found)


def within(chip: GpioChip, offset: int) -> None:
    """Raise DeviceMissing when the controller has no such line."""
    if not 0 <= offset < chip.lines:
        raise DeviceMissing(f"{chip.label} ({chip.path}) has no line {offset}; its lines are 0 to {chip.lines - 1}")


@contextmanager
def on_line(path: str, offset: int, holder: Callable[[], str] = str) -> Iterator[None]:
    """Turn an OSError of a line into our words; `holder` tells who holds it, should it be busy."""
    try:
        yield
    except OSError as error:
        raise _refusal(error, f"{path} line {offset}", holder) from error


def _refusal(error: OSError, where: str, holder: Callable[[], str]) -> HardwareError:
    if error.errno in _WORDS:
        return BusFault(f"{where} {_WORDS[error.errno]}")
    if error.errno == errno.EBUSY:
        where += f" (held by {holder() or 'a kernel driver'})"
    return explanation(error, where)


@contextmanager
def _opened(path: str, root: str) -> Iterator[int]:
    with explained(path):
        file = os.open(root + path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield file
        finally:
            os.close(file)


def _found(name: str, root: str) -> GpioChip:
    if re.fullmatch(r"/dev/gpiochip\d+", name):
        return _chip(name, root)
    return chosen(chips(root), name)


def lines(chip: str, root: str = "") -> list[Line]:
    """List a controller's lines, named by path or label; each costs one ioctl."""
    found = _found(chip, root)
    with _opened(found.path, root) as file:
        return [_line(file, found.label, offset) for offset in range(found.lines)]


def _line(file: int, label: str, offset: int) -> Line:
    answer = bytearray(INFO.pack(b"", b"", offset, 0, 0))
    fcntl.ioctl(file, GET_INFO, answer)
    name, consumer, _, _, flags = INFO.unpack(answer)
    holder = (_text(consumer) or "kernel") if flags & USED else ""
    return Line(label, offset, _text(name), holder, bool(flags & OUTPUT), bool(flags & ACTIVE_LOW))


def _text(field: bytes) -> str:
    """Read a name, which any program may have chosen, without control characters."""
    text = field.partition(b"\0")[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()


def request_input(
    chip: str, offset: int, bias: Bias = "", *, edges: bool = False, debounce_us: int = 0, root: str = ""
) -> LineHandle:
    """See Board.line_in. Without `bias` and `edges` a line that is an output is taken as it is, and stays one."""
    found = _found(chip, root)
    within(found, offset)
    flags = INPUT | BIAS[bias] | (RISING | FALLING if edges else 0)
    attribute = (_DEBOUNCE, debounce_us) if edges and debounce_us else None
    with _opened(found.path, root) as file:
        if flags == INPUT and _line(file, found.label, offset).output:
            flags = 0
        return _requested(file, found, offset, flags, attribute)


def request_output(chip: str, offset: int, level: int, root: str = "") -> LineHandle:
    """See Board.line_out."""
    found = _found(chip, root)
    within(found, offset)
    with _opened(found.path, root) as file:
        return _requested(file, found, offset, OUTPUT, (_OUTPUT_VALUES, int(bool(level))))


def _requested(file: int, chip: GpioChip, offset: int, flags: int, attribute: tuple[int, int] | None) -> "LinuxLine":
    kind, value = attribute or (0, 0)
    mask = int(attribute is not None)
    answer = bytearray(
        REQUEST.pack(offset, CONSUMER.encode(), flags, mask, kind, value, mask, 1, BUFFER if flags & RISING else 0, 0)
    )
    with on_line(chip.path, offset, lambda: _line(file, chip.label, offset).consumer):
        fcntl.ioctl(file, GET_LINE, answer)
    return LinuxLine(chip.path, offset, REQUEST.unpack(answer)[-1], edges=bool(flags & RISING))


class LinuxLine:
    """A requested line."""

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
        """See LineHandle.get."""
        answer = bytearray(VALUES.pack(0, 1))
        with on_line(self._path, self._offset):
            fcntl.ioctl(self._descriptor(), GET_VALUES, answer)
        return int(VALUES.unpack(answer)[0] & 1)

    def set(self, level: int) -> None:
        """See LineHandle.set."""
        with on_line(self._path, self._offset):
            fcntl.ioctl(self._descriptor(), SET_VALUES, bytearray(VALUES.pack(int(bool(level)), 1)))

    def edges(self, seconds: float) -> list[Edge]:
        """See LineHandle.edges; what has been lost before one of them is counted in `lost`."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        if not poll.poll(max(0.0, seconds) * 1000):
            return []
        with on_line(self._path, self._offset):
            data = os.read(self._descriptor(), EVENT.size * BUFFER)
        return [self._edge(*event) for event in EVENT.iter_unpack(data)]

    def _edge(self, at_ns: int, kind: int, _offset: int, _number: int, number: int) -> Edge:
        self.lost += (number - self._number - 1) & 0xFFFFFFFF
        self._number = number
        return Edge(int(kind == _RISING_EDGE), at_ns)

    def fileno(self) -> int:
        """See LineHandle.fileno."""
        with on_line(self._path, self._offset):
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
