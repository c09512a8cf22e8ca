"""What parts with registers have in common: a pointer, words or bytes behind it, and conversions that take time."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from picoclaw.hw.sim.scene import Scene


class Converter:
    """Something that measures its scene: once after a while, or again and again."""

    is_asleep_at_power_on: ClassVar[bool] = False
    """Whether it measures nothing until it is told to; else the first measurement was over before the first look."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._due = math.inf if self.is_asleep_at_power_on else -math.inf

    def measure(self) -> None: ...

    def period(self) -> float:
        """How long after a measurement the next one is over, in seconds; infinite when there is none."""
        return math.inf

    def begin(self, seconds: float) -> None:
        """Start to measure; it is over after so many seconds."""
        self._due = self.scene.now() + seconds

    def halt(self) -> None:
        self._due = math.inf

    @property
    def measuring(self) -> bool:
        return self.scene.now() < self._due < math.inf

    def catch_up(self) -> None:
        if self.scene.now() >= self._due:
            self.measure()
            self._due = self.scene.now() + self.period()


class WordRegisters(Converter):
    """A part with registers of 16 bits, each read and written by itself (SMBus read word and write word).

    A register is read again when more bytes are read than it has.
    """

    order: ClassVar[Literal["big", "little"]] = "big"
    power_on: ClassVar[Mapping[int, int]] = {}
    writable: ClassVar[Mapping[int, int]] = {}
    narrow: ClassVar[frozenset[int]] = frozenset()
    """Registers of 8 bits."""
    pointer_mask: ClassVar[int] = 0xFF
    """The bits of the pointer that the part looks at."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.registers = dict(self.power_on)
        self._pointer = 0

    def write(self, data: bytes) -> None:
        self.catch_up()
        if not data:
            return
        self._pointer = data[0] & self.pointer_mask
        width = self._width()
        if len(data) > width:
            value = int.from_bytes(data[1 : 1 + width], self.order)
            mask = self.mask(self._pointer)
            kept = self.registers.get(self._pointer, 0) & ~mask
            self.registers[self._pointer] = kept | value & mask
            self.stored(self._pointer, value)

    def read(self, length: int) -> bytes:
        self.catch_up()
        width = self._width()
        word = self.load(self._pointer).to_bytes(width, self.order)
        return bytes(word[i % width] for i in range(length))

    def mask(self, register: int) -> int:
        """Return the bits of a register that can be written now."""
        return self.writable.get(register, 0)

    def stored(self, register: int, value: int) -> None:
        """React to a write; `value` has all of the bits that were sent."""

    def load(self, register: int) -> int:
        return self.registers.get(register, 0)

    def _width(self) -> int:
        return 1 if self._pointer in self.narrow else 2


class ByteRegisters(Converter):
    """A part with registers of 8 bits; the pointer moves on with each byte that is read or written."""

    size: ClassVar[int] = 256

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.registers = bytearray(self.size)
        self.pointer = 0

    def write(self, data: bytes) -> None:
        self.catch_up()
        if not data:
            return
        self.pointer = data[0]
        for value in data[1:]:
            self.store(self.pointer, value)
            self.pointer = self.next(self.pointer)

    def read(self, length: int) -> bytes:
        self.catch_up()
        found = bytearray()
        for _ in range(length):
            found.append(self.load(self.pointer))
            self.pointer = self.next(self.pointer)
        return bytes(found)

    def next(self, register: int) -> int:
        return (register + 1) % self.size

    def store(self, register: int, value: int) -> None:
        self.registers[register % self.size] = value

    def load(self, register: int) -> int:
        return self.registers[register % self.size]


def clamp(value: float, low: float, high: float) -> float:
    """Hold a value to the ends of what a converter can give; to be done before rounding, as a value may be infinite."""
    return min(max(value, low), high)


def encode_signed(value: float, bits: int) -> int:
    """Round to an integer of so many bits, held to its ends, as two's complement."""
    highest = (1 << bits - 1) - 1
    return round(clamp(value, -highest - 1, highest)) & (1 << bits) - 1


def decode_signed(word: int, bits: int = 16) -> int:
    """Return what a two's complement of so many bits stands for."""
    return word - (1 << bits) if word >> bits - 1 else word
