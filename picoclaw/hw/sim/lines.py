"""Simulated GPIO lines, which are requested, held and driven as the kernel's are.

Sources: kernel document Documentation/userspace-api/gpio/chardev.rst; fcntl(2), "Open file description locks".
"""

import errno
import fcntl
import os
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from picoclaw.errors import HardwareError
from picoclaw.hw.board import Bias, Edge, GpioChip, LineHandle, LineInfo, translate_os_error
from picoclaw.hw.linux.gpio import CONSUMER, EVENT_BUFFER_SIZE, check_offset, select_chip, translate_line_error
from picoclaw.hw.sim.script import SimLine

PATH, LABEL = "/dev/gpiochip0", "pinctrl-sim"
_LOCK = struct.Struct("@hhqqi0q")  # struct flock: type, whence, start, length, process
_EXCLUSIVE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class SimLines:
    def __init__(
        self,
        lines: Sequence[SimLine],
        state: Path | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Make the lines; `clock` gives nanoseconds.

        `state` is a folder in which levels outlive the process and other processes see them: line 17 is at the level
        that the file `line17` holds, whoever wrote it. Edges come from `pull` alone, not from another process.
        """
        self._known = {line.offset: line for line in lines}
        self._pins = _FilePins(state) if state else _MemoryPins()
        self._clock = clock
        self._handles: dict[int, _SimLineHandle] = {}

    def chips(self) -> list[GpioChip]:
        return [GpioChip(PATH, LABEL, max(self._known) + 1)] if self._known else []

    def lines(self, chip: str) -> list[LineInfo]:
        count = select_chip(self.chips(), chip).lines
        return [self._listed(self._known.get(offset, SimLine(offset))) for offset in range(count)]

    def _listed(self, line: SimLine) -> LineInfo:
        consumer = line.consumer or (CONSUMER if self._pins.held(line.offset) else "")
        return LineInfo(LABEL, line.offset, line.name, consumer, self._pins.output(line.offset))

    def request_input(
        self, chip: str, offset: int, bias: Bias = "", *, edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        """See Board.line_in; without `bias` and `edges` an output stays one, as behind the Linux door."""
        line = self._line(chip, offset)
        close = self._claim(line)
        if bias or edges:
            self._pins.release(offset)
        biased = line._replace(pull={"pull-up": 1, "pull-down": 0}.get(bias, line.pull))
        self._handles[offset] = _SimLineHandle(self._pins, self._clock, biased, close, debounce_us if edges else None)
        return self._handles[offset]

    def request_output(self, chip: str, offset: int, level: int) -> LineHandle:
        line = self._line(chip, offset)
        close = self._claim(line)
        handle = _SimLineHandle(self._pins, self._clock, line, close, output=True)
        try:
            handle.set(level)
        except HardwareError:
            handle.close()
            raise
        return handle

    def pull(self, offset: int, level: int) -> None:
        """Bring an input to a level from outside, as a button does; whoever watches the line sees the edge."""
        self._pins.put(offset, level)
        if offset in self._handles:
            self._handles[offset].pulled(level)

    def _line(self, chip: str, offset: int) -> SimLine:
        check_offset(select_chip(self.chips(), chip), offset)
        return self._known.get(offset, SimLine(offset))

    def _claim(self, line: SimLine) -> Callable[[], None]:
        with translate_line_error(PATH, line.offset, lambda: line.consumer or CONSUMER):
            close = None if line.consumer else self._pins.claim(line.offset)
            if close is None:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            return close


class _MemoryPins:
    def __init__(self) -> None:
        self._levels: dict[int, int] = {}
        self._outputs: set[int] = set()
        self._held: set[int] = set()

    def get(self, offset: int, at_rest: int) -> int:
        return self._levels.get(offset, at_rest)

    def put(self, offset: int, level: int) -> None:
        self._levels[offset] = level

    def drive(self, offset: int, level: int) -> None:
        self._outputs.add(offset)
        self.put(offset, level)

    def release(self, offset: int) -> None:
        if offset in self._outputs:
            self._outputs.remove(offset)
            del self._levels[offset]

    def output(self, offset: int) -> bool:
        return offset in self._outputs

    def held(self, offset: int) -> bool:
        return offset in self._held

    def claim(self, offset: int) -> Callable[[], None] | None:
        if offset in self._held:
            return None
        self._held.add(offset)
        return lambda: self._held.discard(offset)


class _FilePins:
    """Pins that outlive a process: `lineN` holds a level, `lineN.out` exists while it is driven, `lineN.lock` is held.

    The lock is one of an open file description, which the kernel drops when the process ends in whatever way, and
    which can be looked at without being taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, offset: int, ending: str = "") -> Path:
        return self._folder / f"line{offset}{ending}"

    def get(self, offset: int, at_rest: int) -> int:
        try:
            text = self._file(offset).read_text(errors="replace").strip()
        except OSError:
            return at_rest
        return int(text) if text in {"0", "1"} else at_rest

    def put(self, offset: int, level: int) -> None:
        """One write over what is there, so that no reader finds an empty file."""
        with translate_os_error(str(self._file(offset))):
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._file(offset), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, b"%d\n" % level, 0)
            finally:
                os.close(file)

    def drive(self, offset: int, level: int) -> None:
        self.put(offset, level)
        with translate_os_error(str(self._folder)):
            self._file(offset, ".out").touch()

    def release(self, offset: int) -> None:
        if self.output(offset):
            self._file(offset).unlink(missing_ok=True)
            self._file(offset, ".out").unlink(missing_ok=True)

    def output(self, offset: int) -> bool:
        return self._file(offset, ".out").exists()

    def held(self, offset: int) -> bool:
        path = self._file(offset, ".lock")
        if not path.exists():
            return False
        with path.open("r+b") as file:
            return bool(_LOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _EXCLUSIVE))[0] != fcntl.F_UNLCK)

    def claim(self, offset: int) -> Callable[[], None] | None:
        path = self._file(offset, ".lock")
        with translate_os_error(str(path)):
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _EXCLUSIVE)
        except OSError:
            os.close(file)
            return None
        return lambda: os.close(file)


class _SimLineHandle:
    def __init__(
        self,
        pins: _MemoryPins | _FilePins,
        clock: Callable[[], int],
        line: SimLine,
        close: Callable[[], None],
        debounce_us: int | None = None,
        *,
        output: bool = False,
    ) -> None:
        """`debounce_us` is None when no edges are wanted."""
        self.lost = 0
        self.offset = line.offset
        self._pins = pins
        self._clock = clock
        self._at_rest = line.pull
        self._close = close
        self._debounce_ns = None if debounce_us is None else debounce_us * 1000
        self._output = output
        self._lock = threading.Lock()
        self._changes: deque[Edge] = deque()  # not yet reported, one byte each in the pipe
        self._reported = self._newest = self._pins.get(self.offset, line.pull)
        self._pipe: tuple[int, ...] = () if debounce_us is None else os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closed = False

    def get(self) -> int:
        self._usable()
        return self._pins.get(self.offset, self._at_rest)

    def set(self, level: int) -> None:
        self._usable(errno.EPERM if not self._output else 0)
        self._pins.drive(self.offset, int(bool(level)))

    def pulled(self, level: int) -> None:
        with self._lock:
            if self._pipe and level != self._newest:
                self._newest = level
                self._changes.append(Edge(level, self._clock()))
                os.write(self._pipe[1], b"\0")
                if len(self._changes) > EVENT_BUFFER_SIZE:
                    self._drop()
                    self.lost += 1

    def edges(self, seconds: float) -> list[Edge]:
        """See LineHandle.edges; a change counts once it has lasted for the time of debouncing, as in the kernel."""
        reader = self.fileno()
        until = self._clock() + round(seconds * 1e9)
        while True:
            found = self._settled()
            left = until - self._clock()
            if found or left <= 0:
                return found
            if self._changes:
                time.sleep(min(left, self._debounce_ns or 0) / 1e9)
            else:
                select.select([reader], [], [], left / 1e9)

    def _settled(self) -> list[Edge]:
        wait, now, found = self._debounce_ns or 0, self._clock(), []
        with self._lock:
            while self._changes:
                edge = self._changes[0]
                ended = self._changes[1].at_ns if len(self._changes) > 1 else now
                if ended - edge.at_ns < wait and len(self._changes) == 1:
                    break
                self._drop()
                if ended - edge.at_ns >= wait and edge.level != self._reported:
                    self._reported = edge.level
                    found.append(Edge(edge.level, edge.at_ns + wait))
        return found

    def _drop(self) -> None:
        self._changes.popleft()
        os.read(self._pipe[0], 1)

    def fileno(self) -> int:
        """See LineHandle.fileno; readable from the first bounce on."""
        self._usable(errno.EINVAL if not self._pipe else 0)
        return self._pipe[0]

    def _usable(self, refused: int = 0) -> None:
        if number := errno.EBADF if self._closed else refused:
            with translate_line_error(PATH, self.offset):
                raise OSError(number, os.strerror(number))

    def close(self) -> None:
        """See LineHandle.close; what an output drives stays."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for file in self._pipe:
                    os.close(file)
                self._pipe = ()
                self._close()
