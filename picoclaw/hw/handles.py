"""What a driver is given: I2C, SPI, serial and 1-Wire handles with checksums, its turn on the bus, and SMBus' frames.

Source of the frames: System Management Bus specification 3.2, sections 6.4 (packet error checking) and 6.5 (bus protocols);
kernel document Documentation/i2c/smbus-protocol.rst.
"""

import fcntl
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from picoclaw.errors import BusFault, ToolError
from picoclaw.hw.board import Board, I2CBus, I2CRead, I2CWrite, SerialPort, SpiDevice, SpiSettings, SpiTransfer
from picoclaw.records import NamedTuple


def crc8(data: bytes, polynomial: int = 0x31, initial: int = 0xFF) -> int:
    """CRC-8, most significant bit first, not reflected; the defaults are Sensirion's (SHT3x datasheet, section 4.12).

    SMBus' packet error code is polynomial 0x07 from 0 (SMBus 3.2, section 6.4.1.3).
    """
    crc = initial
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ polynomial) & 0xFF if crc & 0x80 else crc << 1
    return crc


def crc8_onewire(data: bytes) -> int:
    """CRC-8 of 1-Wire parts: polynomial 0x31, least significant bit first, from 0 (Maxim application note 27)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x8C if crc & 1 else crc >> 1
    return crc


# What a driver of tools/hw is handed: one part on one bus, with the few moves that datasheets describe.


def within(value: float, low: float, high: float, what: str) -> float:
    """Return a value that the part can give; raises ValueError for one outside of its range (`what`: `°C`)."""
    if not low <= value <= high:
        raise ValueError(
            f"the part reports {value:.6g} {what}, outside its {low:g} to {high:g}: check the wiring and that this is"
            " the right part; it may be damaged"
        )
    return value


class Part:
    """What all parts have: options, time, and a memory between two readings of one process."""

    def __init__(
        self,
        options: Mapping[str, float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`options` by the names of the driver's OPTIONS; `sleep` and `clock` are in seconds."""
        self.options: Mapping[str, float] = options or {}
        self.sleep = sleep
        self.clock = clock
        self.memory: dict[str, Any] = {}
        self._doubts: list[str] = []
        self._notes: list[str] = []

    def doubt(self, why: str) -> None:
        """Say, for this reading, why its values cannot be trusted (`still warming up`): no rule goes by them."""
        self._doubts.append(why)

    def note(self, why: str) -> None:
        """Say, for this reading, how exact its values are (`no checksum`): they count, and it is shown with them."""
        self._notes.append(why)

    def notes(self) -> str:
        """Return what has been said by `note` since the last call."""
        said, self._notes = "; ".join(self._notes), []
        return said

    def doubts(self) -> str:
        """Return what has been said by `doubt` since the last call."""
        said, self._doubts = "; ".join(self._doubts), []
        return said


class I2CPart(Part):
    """One address on one I2C bus."""

    def __init__(self, bus: I2CBus, address: int, *more: Any, **named: Any) -> None:
        """Bind an address, 0x08 to 0x77, of a bus; the rest is Part's."""
        super().__init__(*more, **named)
        self.bus = bus
        self.address = address

    def write(self, *data: int) -> None:
        """Write bytes in one transaction."""
        self.bus.transfer(self.address, [I2CWrite(bytes(data))])

    def read(self, length: int) -> bytes:
        """Read bytes without naming a register."""
        return self.bus.transfer(self.address, [I2CRead(length)])[0]

    def registers(self, first: int, length: int) -> bytes:
        """Read consecutive registers from an 8-bit register address on, with a repeated start."""
        return self.bus.transfer(self.address, [I2CWrite(bytes([first])), I2CRead(length)])[0]

    def word(self, register: int, order: Literal["big", "little"] = "big") -> int:
        """Read a register of 16 bits."""
        return int.from_bytes(self.registers(register, 2), order)

    def write_word(self, register: int, value: int, order: Literal["big", "little"] = "big") -> None:
        self.write(register, *value.to_bytes(2, order))

    def words(self, command: int, count: int, wait: float = 0.0, arguments: Sequence[int] = ()) -> list[int]:
        """Send a Sensirion command (16 bits; 8 when below 0x100), wait in seconds, read 16-bit words with their CRCs.

        `arguments` are 16-bit words that go with the command, each followed by its CRC. With a count of 0 nothing is
        read. Raises BusFault when a checksum does not fit.
        """
        sent = [word.to_bytes(2, "big") for word in arguments]
        self.write(*command.to_bytes(2 if command > 0xFF else 1, "big"), *b"".join(w + bytes([crc8(w)]) for w in sent))
        if wait:
            self.sleep(wait)
        if not count:
            return []
        answer = self.read(3 * count)
        return [int.from_bytes(self.checked(answer[i : i + 3]), "big") for i in range(0, len(answer), 3)]

    def answers(self, command: int, count: int, wait: float) -> bool:
        """Whether it answers a command with checksums that fit; see `words`. Raises HardwareError when nothing answers."""
        try:
            return bool(self.words(command, count, wait))
        except BusFault:
            return False

    def checked(self, answer: bytes, initial: int = 0xFF) -> bytes:
        """Return an answer without its last byte, the CRC-8 of the others (polynomial 0x31, from `initial`).

        Raises BusFault when it does not fit, or when all is zeros, for which a CRC that begins at 0 would fit.
        """
        if not any(answer) or crc8(answer[:-1], initial=initial) != answer[-1]:
            raise BusFault(
                f"0x{self.address:02x} on i2c-{self.bus.number} sent a wrong checksum ({answer.hex(' ')}):"
                " check the cable's length, the pull-ups and the supply"
            )
        return answer[:-1]


class SpiPart(Part):
    """One chip select of an SPI bus, spoken to as its driver's SPI table says."""

    def __init__(self, device: SpiDevice, settings: SpiSettings, *more: Any, **named: Any) -> None:
        super().__init__(*more, **named)
        self.device = device
        self.settings = settings

    def exchange(self, *data: int) -> bytes:
        """Send bytes and return what came back, in one message."""
        return self.device.transfer([SpiTransfer(bytes(data))], self.settings)[0]


class SerialPart(Part):
    def __init__(
        self,
        port: SerialPort,
        *more: Any,
        baud: int = 9600,
        reopen: Callable[[int], SerialPort] | None = None,
        **named: Any,
    ) -> None:
        """Bind a port that is open at `baud`; `reopen(baud)` opens it at another speed. The rest is Part's."""
        super().__init__(*more, **named)
        self.port = port
        self._baud = baud
        self._reopen = reopen

    @property
    def can_set_baud(self) -> bool:
        return self._reopen is not None

    def set_baud(self, baud: int) -> None:
        """Go on at another speed, without what was received so far. Raises as Board.serial does."""
        if baud != self._baud and self._reopen is not None:
            self.port.close()
            self.port = self._reopen(baud)
            self._baud = baud

    def write(self, data: bytes) -> None:
        self.port.write(data)

    def read(self, most: int, seconds: float) -> bytes:
        """Return up to `most` bytes, waiting no longer than `seconds`."""
        return self.port.read(most, seconds)

    def flush(self) -> None:
        """Throw away what has been received and not been read."""
        self.port.flush()


class OneWirePart(Part):
    """A device of the kernel's 1-Wire bus, by its name there, such as `28-00000a1b2c3d`."""

    def __init__(self, board: Board, name: str, *more: Any, **named: Any) -> None:
        super().__init__(*more, **named)
        self._board = board
        self.name = name

    def text(self, attribute: str) -> str:
        """Read an attribute of the device, such as `w1_slave`."""
        return self._board.text(f"/sys/bus/w1/devices/{self.name}/{attribute}")


# Whose turn it is on a bus, among the threads of this process and between processes. Source: fcntl(2), on OFD locks.
#
# The locks are byte ranges of the bus's own device file: whoever may use the bus can take them, whatever user it is, and
# the kernel drops them when a process ends in whatever way. A part's lock is held for a whole reading, the bus's only
# while bytes are moved: a part that measures for seconds keeps no other part waiting. A part's lock comes before the
# bus's, so that two never wait for each other.

PART_TIMEOUT_S, BUS_TIMEOUT_S, URGENT_TIMEOUT_S = 10.0, 3.0, 0.1
_RETRY_S = 0.005
_BUS_BYTE = 0x1000  # beyond the addresses, each of which is the byte of its part
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock: type, whence, start, length, process

_LOCKS: dict[str, threading.Lock] = {}


class BusLock:
    """A turn with one part. Entering waits a bounded time for others; raises BusFault when it is over."""

    def __init__(self, bus: str, part: str, path: str, byte: int = 0, *, urgent: bool = False) -> None:
        """`bus` and `part` name both for people, `path` is the bus's device file, '' for none, `byte` is the part's.

        An `urgent` one, which brings an output to its safe level, waits for 0.1 s and goes on then in any case.
        """
        self._bus, self._part, self._path, self._byte, self._urgent = bus, part, path, byte, urgent
        self._file = -1
        self._held: list[tuple[threading.Lock, int]] = []

    def __enter__(self) -> Self:
        """Take the part, then the bus."""
        with suppress(OSError):  # what opens the bus says what is wrong with it
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK) if self._path else -1
        try:
            self._take(self._part, self._byte, PART_TIMEOUT_S)
            if self._bus != self._part:  # a serial port has one part
                self._take(self._bus, _BUS_BYTE, BUS_TIMEOUT_S)
        except BusFault:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        while self._held:
            self._give_back()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def pausing(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        """Return a `sleep` during which others may use the bus, but not the part."""

        def pause(seconds: float) -> None:
            if len(self._held) < 2:  # we went on without
                sleep(seconds)
                return
            self._give_back()
            sleep(seconds)
            self._take(self._bus, _BUS_BYTE, BUS_TIMEOUT_S)

        return pause

    def _take(self, name: str, byte: int, seconds: float) -> None:
        until = time.monotonic() + (URGENT_TIMEOUT_S if self._urgent else seconds)
        lock = _LOCKS.setdefault(name, threading.Lock())
        if lock.acquire(timeout=until - time.monotonic()):
            while not self._locked(byte):
                if time.monotonic() >= until:
                    lock.release()
                    break
                time.sleep(_RETRY_S)
            else:
                self._held.append((lock, byte))
                return
        if not self._urgent:
            raise BusFault(f"{name} has been in use by another program or task for {seconds:g} s: try again")

    def _locked(self, byte: int) -> bool:
        """Take a byte of the file; a file system without such locks keeps nobody from reading."""
        if self._file < 0:
            return True
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True
        return True

    def _give_back(self) -> None:
        lock, byte = self._held.pop()
        if self._file >= 0:
            with suppress(OSError):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0))
        lock.release()


LONGEST_BLOCK = 32


def read_smbus(bus: I2CBus, address: int, command: int, kind: str, *, pec: bool = False) -> bytes:
    """Read a `byte`, a `word` (low byte first) or a `block` (its length comes first) from a command code.

    Raises BusFault when the packet error code or a block's length is wrong.
    """
    body = {"byte": 1, "word": 2, "block": 1 + LONGEST_BLOCK}[kind]
    answer = bus.transfer(address, [I2CWrite(bytes([command])), I2CRead(body + pec)])[0]
    if kind == "block":
        body = 1 + answer[0]
        if not 1 <= answer[0] <= LONGEST_BLOCK:
            raise BusFault(f"0x{address:02x} on i2c-{bus.number} gave a block length of {answer[0]}, not 1 to 32")
    if pec:
        sent = bytes([address << 1, command, address << 1 | 1])
        _verify_pec(sent + answer[:body], answer[body], f"0x{address:02x} on i2c-{bus.number}")
    return answer[1:body] if kind == "block" else answer[:body]


def make_smbus_write(address: int, command: int, kind: str, data: Sequence[int], *, pec: bool = False) -> I2CWrite:
    """Make the segment that writes a `byte`, a `word` (given low byte first) or a `block`; raises ToolError."""
    wanted = {"byte": (1, 1), "word": (2, 2), "block": (1, LONGEST_BLOCK)}[kind]
    if not wanted[0] <= len(data) <= wanted[1]:
        raise ToolError(f"data holds {len(data)} bytes; an SMBus {kind} takes {wanted[0]} to {wanted[1]}")
    body = bytes([command, *([len(data)] if kind == "block" else []), *data])
    return I2CWrite(body + bytes([crc8(bytes([address << 1]) + body, 0x07, 0)] if pec else []))


def _verify_pec(frame: bytes, code: int, where: str) -> None:
    wanted = crc8(frame, 0x07, 0)
    if code != wanted:
        raise BusFault(
            f"{where}: the packet error code is 0x{code:02x}, not 0x{wanted:02x}: the part may not use one (leave pec"
            " out), or the wiring is bad"
        )


# A short script for one part on a bus, as text: `write 0x24 0x00, wait 15, read 6`.

# I2C_RDWR_IOCTL_MAX_MSGS of the kernel header include/uapi/linux/i2c-dev.h.
MAX_MESSAGES = 42
MAX_STEPS, MAX_BYTES, LONGEST_WAIT_MS, LONGEST_TEXT = 64, 256, 5000, 20_000
_EXAMPLE = "such as 'write 0x24 0x00, wait 15, read 6'"


class ScriptWait(NamedTuple):
    """A pause between two transfers, in milliseconds."""

    milliseconds: int


ScriptStep = I2CRead | I2CWrite | ScriptWait


def parse_script(text: str) -> list[ScriptStep]:
    """Read steps that are separated by commas, semicolons or lines; raises ToolError naming the first wrong one.

    At most 64 steps of 1-256 bytes each; all waits together are at most 5,000 ms.
    """
    if len(text) > LONGEST_TEXT:
        raise ToolError(f"script holds {len(text)} characters; one call takes at most {LONGEST_TEXT}")
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    if not parts:
        raise ToolError(f"script is missing: give steps, {_EXAMPLE}")
    if len(parts) > MAX_STEPS:
        raise ToolError(f"steps holds {len(parts)} steps; one call takes at most {MAX_STEPS}")
    found = [_parse_step(part) for part in parts]
    most = max(len(run) for run in split_transactions(found))
    if most > MAX_MESSAGES:
        raise ToolError(f"{most} steps follow each other without a wait; a transaction takes at most {MAX_MESSAGES}")
    waits = sum(step.milliseconds for step in found if isinstance(step, ScriptWait))
    if waits > LONGEST_WAIT_MS:
        raise ToolError(f"steps wait {waits} ms in all; one call waits at most {LONGEST_WAIT_MS}")
    return found


def split_transactions(found: Iterable[ScriptStep]) -> list[list[I2CRead | I2CWrite]]:
    """Split steps at their waits: what stands between two of them is one transaction, with repeated starts."""
    runs: list[list[I2CRead | I2CWrite]] = [[]]
    for step in found:
        if isinstance(step, ScriptWait):
            runs.append([])
        else:
            runs[-1].append(step)
    return runs


def _parse_step(text: str) -> ScriptStep:
    verb, *words = text.lower().split()
    numbers = [_parse_number(word, text) for word in words]
    if verb == "write" and 1 <= len(numbers) <= MAX_BYTES and max(numbers) <= 0xFF:
        return I2CWrite(bytes(numbers))
    if verb == "read" and len(numbers) == 1 and 1 <= numbers[0] <= MAX_BYTES:
        return I2CRead(numbers[0])
    if verb == "wait" and len(numbers) == 1:
        return ScriptWait(numbers[0])
    raise ToolError(
        f"step {text[:60]!r} is not one of 'write BYTES' (0-255 each), 'read COUNT' (1-{MAX_BYTES}),"
        f" 'wait MILLISECONDS'; {_EXAMPLE}"
    )


def _parse_number(word: str, text: str) -> int:
    if not re.fullmatch(r"0x[0-9a-f]{1,4}|[0-9]{1,5}", word):
        raise ToolError(f"step {text[:60]!r}: {word[:20]!r} is not a number, decimal or 0x..; {_EXAMPLE}")
    return int(word, 16 if word.startswith("0x") else 10)
