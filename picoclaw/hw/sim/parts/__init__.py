"""Simulated parts: what the chips behind SimBoard's buses answer, byte by byte.

They know datasheets and a scene, and share no code with the drivers in tools/hw, so that the two really check each
other. A part is a class that is made with its Scene and has the methods of its bus: I2CSlave, SpiSlave, SerialPeer,
or `files()` for a device of the kernel's 1-Wire bus.
"""

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Literal

from picoclaw.hw.sim.script import Scene

PARTS: Mapping[str, str] = {
    "ads1115": "analog.SimADS1115",
    "aht20": "climate.SimAHT20",
    "bh1750": "analog.SimBH1750",
    "bme280": "climate.SimBME280",
    "bme680": "climate.SimBME680",
    "bmp180": "climate.SimBMP180",
    "ds18b20": "temperature.SimDS18B20",
    "ds3231": "others.SimDS3231",
    "gps": "others.SimGPS",
    "htu21": "climate.SimHTU21D",
    "ina219": "analog.SimINA219",
    "ina226": "analog.SimINA226",
    "lm75": "temperature.SimLM75",
    "max31855": "temperature.SimMAX31855",
    "max31865": "temperature.SimMAX31865",
    "mcp3008": "analog.SimMCP3008",
    "mcp9808": "temperature.SimMCP9808",
    "mhz19": "others.SimMHZ19",
    "mpu6050": "others.SimMPU6050",
    "pca9685": "others.SimPCA9685",
    "pcf8574": "others.SimPCF8574",
    "pms5003": "others.SimPMS5003",
    "scd4x": "climate.SimSCD4x",
    "sgp30": "climate.SimSGP30",
    "sgp40": "climate.SimSGP40",
    "sht3x": "climate.SimSHT3x",
    "sht4x": "climate.SimSHT4x",
    "tmp102": "temperature.SimTMP102",
    "veml7700": "analog.SimVEML7700",
}
"""Where the class of each part is: module of this folder, class. Loaded when a board is made that has the part."""


def make_part(part: str, scene: Scene) -> Any:
    """Make a part; raises KeyError when none of that name can be simulated."""
    module, name = PARTS[part].split(".")
    return getattr(import_module(f"{__name__}.{module}"), name)(scene)


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
