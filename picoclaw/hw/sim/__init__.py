"""The simulated board: parts behind simulated buses and lines, a processor with a temperature, the files of a small Pi.

It ships in the package and says everywhere that it is not real. I2C, SPI and serial buses take and give the same bytes and
the same faults as real ones; GPIO lines are requested, held and driven as the kernel's are.
Sources: kernel document Documentation/userspace-api/gpio/chardev.rst; fcntl(2), "Open file description locks".
"""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import math
import os
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from picoclaw.errors import DeviceMissing, HardwareError
from picoclaw.hw.board import (
    Backoff,
    Bias,
    DiskSpace,
    Edge,
    GpioChip,
    I2CAdapter,
    I2CBus,
    I2CRead,
    I2CWrite,
    LineHandle,
    LineInfo,
    Presence,
    SerialPort,
    SerialPortInfo,
    SerialSettings,
    SpiDevice,
    SpiNode,
    SpiSettings,
    SpiTransfer,
    translate_os_error,
)
from picoclaw.hw.linux import CONSUMER, EVENT_BUFFER_SIZE, check_offset, select_chip, translate_line_error
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim.script import DEFAULT_SCRIPT, Scene, Script, SimFaults, SimLine

_ERRNO = {"unplugged": errno.EREMOTEIO, "nack": errno.EREMOTEIO, "stuck": errno.ETIMEDOUT, "eio": errno.EIO}
_LOG_LENGTH = 1000
_SPI_BUFFER = 4096  # the usual bufsiz of the kernel's spidev
_TTY_BUFFER = 4096  # what a Linux terminal device keeps for its reader


class I2CSlave(Protocol):
    """Something that acknowledges an address: takes written bytes, gives read ones; raises Nack to refuse."""

    def write(self, data: bytes) -> None: ...

    def read(self, length: int) -> bytes: ...


class Nack(Exception):
    """The part does not acknowledge now, as an EEPROM that is writing or a sensor that is measuring."""


class SimI2C:
    def __init__(self, number: int, parts: Mapping[int, I2CSlave], wiring: SimFaults | None = None) -> None:
        """`parts` by 7-bit address."""
        self.number = number
        self.parts = dict(parts)
        self.held: dict[int, str] = {}  # address -> kernel driver that holds it
        self.log: deque[tuple[int, I2CRead | I2CWrite]] = deque(maxlen=_LOG_LENGTH)
        self._wiring = wiring or SimFaults(lambda: 0.0)
        self._path = f"/dev/i2c-{number}"
        self._backoff = Backoff(self._path, self._wiring.clock)

    def transfer(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        with self._backoff.watched(), translate_os_error(self._path, address):
            kind = self._fault(address)
            if address in self.held:
                raise _make_os_error(errno.EBUSY)
            if number := _ERRNO.get(kind):
                raise _make_os_error(number)
            return [self._wiring.spoiled(kind, answer) for answer in self._run(address, segments)]

    def _run(self, address: int, segments: Sequence[I2CRead | I2CWrite]) -> list[bytes]:
        part = self.parts.get(address)
        answers = []
        for segment in segments:
            if part is None:
                raise _make_os_error(errno.EREMOTEIO)
            self.log.append((address, segment))
            try:
                if isinstance(segment, I2CWrite):
                    part.write(segment.data)
                else:
                    answers.append(part.read(segment.length))
            except Nack:
                raise _make_os_error(errno.EREMOTEIO) from None
        return answers

    def probe(self, address: int) -> Presence:
        kind = self._fault(address)
        if kind in {"stuck", "eio"}:
            with self._backoff.watched(), translate_os_error(self._path, address):
                raise _make_os_error(_ERRNO[kind])
        if address in self.held:
            return "busy"
        if kind == "low":  # what holds the data line low looks like an acknowledgement
            return "present"
        return "present" if address in self.parts and kind not in _ERRNO else "absent"

    def holder(self, address: int) -> str:
        return self.held.get(address, "")

    def _fault(self, address: int) -> str:
        return self._wiring.fault(f"i2c-{self.number}", f"i2c-{self.number}/0x{address:02x}")


class SpiSlave(Protocol):
    """Something behind a chip select."""

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:
        """Answer the bytes of one selection, from the chip select's falling to its rising, with as many bytes."""


class SimSpi:
    """A chip select with a simulated part, or with nothing, which reads as all ones."""

    def __init__(self, node: SpiNode, part: SpiSlave | None, wiring: SimFaults | None = None) -> None:
        """`part` is None when nothing is wired."""
        self.node = node
        self.part = part
        self.log: deque[tuple[tuple[SpiTransfer, ...], SpiSettings]] = deque(maxlen=_LOG_LENGTH)
        self._wiring = wiring or SimFaults(lambda: 0.0)

    def transfer(self, segments: Sequence[SpiTransfer], settings: SpiSettings) -> list[bytes]:
        self.log.append((tuple(segments), settings))
        kind = self._wiring.fault(f"spi{self.node.bus}.{self.node.chip}")
        with translate_os_error(self.node.path):
            if sum(len(s.data) for s in segments) > _SPI_BUFFER:
                raise _make_os_error(errno.EMSGSIZE)
            if kind in {"stuck", "eio"}:
                raise _make_os_error(_ERRNO[kind])
        answers: list[bytes] = []
        selection: list[SpiTransfer] = []
        for segment in segments:
            selection.append(segment)
            if segment.release:
                answers += self._selected(selection, settings, kind)
                selection = []
        return answers + (self._selected(selection, settings, kind) if selection else [])

    def _selected(self, segments: list[SpiTransfer], settings: SpiSettings, kind: str) -> list[bytes]:
        data = b"".join(s.data for s in segments)
        gone = self.part is None or kind in {"unplugged", "nack"}
        answer = b"\xff" * len(data) if self.part is None or gone else self.part.exchange(data, settings)
        answer = self._wiring.spoiled(kind, answer)
        ends = [sum(len(s.data) for s in segments[: i + 1]) for i in range(len(segments))]
        return [answer[end - len(s.data) : end] for s, end in zip(segments, ends, strict=True)]


class SerialPeer(Protocol):
    """Something at the other end of a serial cable."""

    def receive(self, data: bytes) -> None: ...

    def pending(self) -> bytes:
        """Return, once, what it has sent until now."""


class SimSerial:
    """An open port with a simulated part at its other end; time passes by `sleep`."""

    def __init__(
        self,
        path: str,
        peer: SerialPeer | None,
        sleep: Callable[[float], None],
        wiring: SimFaults,
        taken: set[str] | None = None,
    ) -> None:
        """`peer` is None when nothing is wired; `taken` are the ports that are open, which it joins until closed."""
        self._taken = set() if taken is None else taken
        with translate_os_error(path):
            if path in self._taken:
                raise _make_os_error(errno.EBUSY)
        self._taken.add(path)
        self.path = path
        self._peer = peer
        self._sleep = sleep
        self._wiring = wiring
        self._received = b""

    def write(self, data: bytes) -> None:
        if self._fault() != "silent" and self._peer:
            self._peer.receive(data)

    def read(self, most: int, seconds: float) -> bytes:
        waited = 0.0
        self._listen()
        while len(self._received) < most and waited < seconds:
            step = min(0.01, seconds - waited)
            self._sleep(step)
            waited += step
            self._listen()
        answer, self._received = self._received[:most], self._received[most:]
        return answer

    def flush(self) -> None:
        self._listen()
        self._received = b""

    def close(self) -> None:
        self._taken.discard(self.path)

    def _fault(self) -> str:
        """A cable whose adapter is gone, or one over which nothing comes, or bytes that are spoiled."""
        kind = self._wiring.fault(self.path)
        with translate_os_error(self.path):
            if kind in {"unplugged", "eio"}:
                raise _make_os_error(errno.EIO)
        return "silent" if kind in {"nack", "stuck"} else kind

    def _listen(self) -> None:
        kind = self._fault()
        if self._peer:
            heard = self._wiring.spoiled(kind, self._peer.pending()) if kind != "silent" else b""
            self._received = (self._received + heard)[:_TTY_BUFFER]


def _make_os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


PATH, LABEL = "/dev/gpiochip0", "pinctrl-sim"
_LOCK = struct.Struct("@hhqqi0q")  # struct flock: type, whence, start, length, process
_EXCLUSIVE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class SimLines:
    """The GPIO part of a board; see Board."""

    def __init__(
        self, lines: Sequence[SimLine], state: Path | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Make the lines; `clock` gives nanoseconds.

        `state` is a folder in which levels outlive the process and other processes see them: line 17 is at the level
        that the file `line17` holds, whoever wrote it. Edges come from `pull` alone, not from another process.
        """
        self._known = {line.offset: line for line in lines}
        self._pins = _FilePins(state) if state else _MemoryPins()
        self._clock = clock
        self._handles: dict[int, _SimLineHandle] = {}

    def gpio_chips(self) -> list[GpioChip]:
        return [GpioChip(PATH, LABEL, max(self._known) + 1)] if self._known else []

    def lines(self, chip: str) -> list[LineInfo]:
        count = select_chip(self.gpio_chips(), chip).lines
        return [self._listed(self._known.get(offset, SimLine(offset))) for offset in range(count)]

    def _listed(self, line: SimLine) -> LineInfo:
        consumer = line.consumer or (CONSUMER if self._pins.held(line.offset) else "")
        return LineInfo(LABEL, line.offset, line.name, consumer, self._pins.output(line.offset))

    def line_in(
        self, chip: str, offset: int, *, bias: Bias = "", edges: bool = False, debounce_us: int = 0
    ) -> LineHandle:
        """See Board.line_in; without `bias` and `edges` an output stays one, as behind the Linux door."""
        line = self._line(chip, offset)
        close = self._claim(line)
        if bias or edges:
            self._pins.release(offset)
        biased = line._replace(pull={"pull-up": 1, "pull-down": 0}.get(bias, line.pull))
        self._handles[offset] = _SimLineHandle(self._pins, self._clock, biased, close, debounce_us if edges else None)
        return self._handles[offset]

    def line_out(self, chip: str, offset: int, level: int) -> LineHandle:
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
        check_offset(select_chip(self.gpio_chips(), chip), offset)
        return self._known.get(offset, SimLine(offset))

    def _claim(self, line: SimLine) -> Callable[[], None]:
        with translate_line_error(PATH, line.offset, lambda: line.consumer or CONSUMER):
            close = None if line.consumer else self._pins.claim(line.offset)
            if close is None:
                raise _make_os_error(errno.EBUSY)
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
                raise _make_os_error(number)

    def close(self) -> None:
        """See LineHandle.close; what an output drives stays."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for file in self._pipe:
                    os.close(file)
                self._pipe = ()
                self._close()


_BOOTED_BEFORE_S = 90_061


class SimBoard(SimLines):
    """A board made of arithmetic; tests turn the hands of its clock."""

    simulated = True

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        script: Script = DEFAULT_SCRIPT,
        *,
        sleep: Callable[[float], None] = time.sleep,
        state: Path | None = None,
    ) -> None:
        """Wire the parts up.

        `clock` gives seconds since the epoch, `sleep` lets them pass; `state` is a folder in which the levels of the
        GPIO lines outlive the process, as on a board's pins; without it nothing outside this object is touched.
        """
        super().__init__(script.lines, state)
        self._sleep = sleep
        self._script = script
        self.wiring = SimFaults(clock)
        self.wiring.faults += script.faults
        self.scenes = {name: Scene(clock, script.values.get(name)) for name in script.wired}
        self._open_ports: set[str] = set()
        self._state = state
        self._files: dict[str, Callable[[], str]] = {
            "/proc/device-tree/model": lambda: "Simulated board (no hardware is attached)",
            "/proc/meminfo": lambda: "MemTotal: 437500 kB\nMemAvailable: 262144 kB",
            "/proc/loadavg": lambda: "0.08 0.05 0.01 1/99 1234",
            "/proc/uptime": lambda: f"{_BOOTED_BEFORE_S}.00 0.00",
            "/sys/class/thermal/thermal_zone0/type": lambda: "cpu-thermal",
            "/sys/class/thermal/thermal_zone0/temp": lambda: str(round(46_000 + 3000 * math.sin(clock() / 300))),
            "/sys/devices/platform/soc/soc:firmware/get_throttled": lambda: "0",
        }
        for wired, part in self._make_parts("onewire"):
            for file, content in part.files().items():
                path = f"/sys/bus/w1/devices/{wired.port}/{file}"
                self._files[path] = partial(self._onewire, wired.port, content)

    def _make_parts(self, route: str) -> Iterator[tuple[WiredPart, Any]]:
        """Make the parts on one kind of bus, whose modules a board that nobody asks for them need not load."""
        for name, wired in self._script.wired.items():
            if wired.route == route:
                from picoclaw.hw.sim.parts import make_part

                yield wired, make_part(wired.part, self.scenes[name])

    @cached_property
    def _buses(self) -> dict[int, SimI2C]:
        buses = {1: SimI2C(1, {}, self.wiring)}
        for wired, part in self._make_parts("i2c"):
            buses.setdefault(wired.bus, SimI2C(wired.bus, {}, self.wiring)).parts[wired.address] = part
        return buses

    @cached_property
    def _chip_selects(self) -> dict[tuple[int, int], SimSpi]:
        nodes = {(node.bus, node.chip): node for node in self.spi_nodes()}
        parts = self._make_parts("spi")
        return {(w.bus, w.chip): SimSpi(nodes[w.bus, w.chip], part, self.wiring) for w, part in parts}

    @cached_property
    def _peers(self) -> dict[str, SerialPeer | None]:
        wired = {wired.port: part for wired, part in self._make_parts("serial")}
        return dict.fromkeys(self._script.empty) | wired

    def _onewire(self, name: str, content: Callable[[], str]) -> str:
        """What the kernel says of a 1-Wire device whose plug may be loose."""
        with translate_os_error(f"/sys/bus/w1/devices/{name}"):
            if self.wiring.fault(name):
                raise _make_os_error(errno.EIO)
        return content()

    def text(self, path: str) -> str:
        if path not in self._files:
            raise DeviceMissing(f"{path} does not exist on the simulated board")
        return self._files[path]()

    def put(self, path: str, text: str) -> None:
        if path not in self._files:
            raise DeviceMissing(f"{path} does not exist on the simulated board")
        self._files[path] = lambda: text

    def glob(self, pattern: str) -> list[str]:
        """See Board.glob; like a shell's, `*` stays inside one folder."""
        depth = pattern.count("/")
        found = {"/".join(p.split("/")[: depth + 1]) for p in self._files if p.count("/") >= depth}
        return sorted(p for p in found if fnmatch.fnmatchcase(p, pattern))

    def may_open(self, path: str) -> bool:  # noqa: ARG002
        return True

    def space(self, path: str) -> DiskSpace:  # noqa: ARG002
        return DiskSpace(31_000_000_000, 24_800_000_000)

    def clock_synchronised(self) -> bool:
        return False

    def adapters(self) -> list[I2CAdapter]:
        return [I2CAdapter(n, f"/dev/i2c-{n}", "simulated adapter", header=n == 1) for n in sorted(self._buses)]

    def i2c(self, number: int) -> I2CBus:
        if number not in self._buses:
            _raise_missing(f"/dev/i2c-{number}")
        return self._buses[number]

    def spi_nodes(self) -> list[SpiNode]:
        places = {(part.bus, part.chip) for part in self._script.wired.values() if part.route == "spi"}
        return [SpiNode(bus, chip, f"/dev/spidev{bus}.{chip}") for bus, chip in sorted(places)]

    def spi(self, bus: int, chip: int) -> SpiDevice:
        if (bus, chip) not in self._chip_selects:
            _raise_missing(f"/dev/spidev{bus}.{chip}")
        return self._chip_selects[bus, chip]

    def ports(self) -> list[SerialPortInfo]:
        wired = {part.port for part in self._script.wired.values() if part.route == "serial"}
        return [SerialPortInfo(path, description="simulated port") for path in sorted({*wired, *self._script.empty})]

    def serial(self, name: str, settings: SerialSettings) -> SerialPort:  # noqa: ARG002
        if name not in self._peers:
            _raise_missing(name)
        return SimSerial(name, self._peers[name], self._sleep, self.wiring, self._open_ports)

    def lock_path(self, part: WiredPart) -> str:
        """See Board.lock_path: a file beside those of the lines, where there are any."""
        if self._state is None or not self._state.is_dir() or part.route not in {"i2c", "spi"}:
            return ""
        path = self._state / f"{part.route}-{part.bus}"
        with suppress(OSError):
            path.touch(mode=0o600)
        return str(path)

    def wired(self) -> Mapping[str, WiredPart]:
        return {name: part for name, part in self._script.wired.items() if name not in self._script.unnamed}

    def close(self) -> None: ...


def _raise_missing(path: str) -> None:
    with translate_os_error(path):
        raise _make_os_error(errno.ENOENT)
