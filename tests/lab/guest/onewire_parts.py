"""A DS18B20 that is talked to by time slots (datasheet 19-7487), and the I2C bridge DS2482-100 (19-4930) to such parts."""

from collections.abc import Generator, Mapping, Sequence

from picoclaw.hw.sim import Nack
from picoclaw.hw.sim.parts.temperature import SimDS18B20, append_crc, split_bits
from picoclaw.hw.sim.script import Scene

_SEARCH, _READ_ROM, _MATCH, _SKIP, _ALARM_SEARCH = 0xF0, 0x33, 0x55, 0xCC, 0xEC
_CONVERT, _WRITE, _READ, _COPY, _RECALL, _POWER = 0x44, 0x4E, 0xBE, 0x48, 0xB8, 0xB4
_BUSY = 2  # yielded for a time slot that shows whether a conversion is running
_CONVERSION_S = 0.75  # with 12 bits; half of it for each bit less

TimeSlots = Generator[int, int, bool]


class WireDS18B20(SimDS18B20):
    """A thermometer on a wire."""

    def __init__(self, scene: Scene, serial: int = 1) -> None:
        super().__init__(scene, serial)
        self._kept = bytes.fromhex("4b467f")
        self._conversion: tuple[float, int] | None = None
        self._talk: Generator[int, int, None] | None = None
        self._out = 1

    def raw(self) -> int:
        """See SimDS18B20; bits that the resolution leaves undefined are 0."""
        undefined = 3 - self._resolution()
        return super().raw() >> undefined << undefined

    def reset(self) -> bool:
        """Take a reset pulse; answers with a presence pulse."""
        self._talk = self._conversation()
        self._out = next(self._talk)
        return True

    def slot(self, bit: int) -> int:
        """Take one time slot, in which the master sends a bit, or a 1 to read; returns the level the part leaves."""
        self._settle()
        if self._talk is None:
            return 1
        level = int(self._conversion is None) if self._out == _BUSY else self._out
        try:
            self._out = self._talk.send(bit)
        except StopIteration:
            self._talk = None
        return level

    def _conversation(self) -> Generator[int, int, None]:
        command = yield from _receive_bits(8)
        selected = command == _SKIP
        if command == _SEARCH or (command == _ALARM_SEARCH and self._alarming()):
            selected = yield from self._searched()
        elif command == _MATCH:
            selected = (yield from _receive_bits(64)) == int.from_bytes(self.rom, "little")
        elif command == _READ_ROM:
            selected = yield from _send_bits(self.rom)
        if selected:
            yield from self._function((yield from _receive_bits(8)))

    def _searched(self) -> TimeSlots:
        for bit in split_bits(self.rom):
            yield bit
            yield 1 - bit
            if (yield 1) != bit:
                return False
        return True

    def _function(self, command: int) -> Generator[int, int, None]:
        if command == _CONVERT:
            self._conversion = (self.scene.now() + _CONVERSION_S / (8 >> self._resolution()), self.raw())
        elif command == _WRITE:
            for register in (2, 3, 4):
                value = yield from _receive_bits(8)
                self.scratchpad[register] = value if register < 4 else value & 0x60 | 0x1F
        elif command == _READ:
            yield from _send_bits(append_crc(bytes(self.scratchpad)))
        elif command == _COPY:
            self._kept = bytes(self.scratchpad[2:5])
        elif command == _RECALL:
            self.scratchpad[2:5] = self._kept
        while command in {_CONVERT, _RECALL, _POWER, _COPY}:
            yield _BUSY if command == _CONVERT else 1

    def _resolution(self) -> int:
        """From 0 for 9 bits to 3 for 12."""
        return self.scratchpad[4] >> 5 & 3

    def _settle(self) -> None:
        if self._conversion and self.scene.now() >= self._conversion[0]:
            self.store(self._conversion[1])
            self._conversion = None

    def _alarming(self) -> bool:
        degrees = int.from_bytes(self.scratchpad[:2], "little", signed=True) >> 4
        high, low = (int.from_bytes(self.scratchpad[at : at + 1], signed=True) for at in (2, 3))
        return degrees >= high or degrees <= low


def _receive_bits(count: int) -> Generator[int, int, int]:
    value = 0
    for position in range(count):
        value |= (yield 1) << position
    return value


def _send_bits(data: bytes) -> TimeSlots:
    for bit in split_bits(data):  # noqa: UP028 - a list cannot be sent the master's bits
        yield bit
    return True


_RESET, _POINTER, _CONFIGURE, _BUS_RESET, _BIT, _WRITE_BYTE, _READ_BYTE, _TRIPLET = (
    *(0xF0, 0xE1, 0xD2, 0xB4),
    *(0x87, 0xA5, 0x96, 0x78),
)
_PARAMETERS = {
    _RESET: 0,
    _POINTER: 1,
    _CONFIGURE: 1,
    _BUS_RESET: 0,
    _BIT: 1,
    _WRITE_BYTE: 1,
    _READ_BYTE: 0,
    _TRIPLET: 1,
}
_STATUS, _DATA, _CONFIGURATION = 0xF0, 0xE1, 0xC3
_DIR, _TSB, _SBR, _RST, _LL, _PPD, _1WB = 0x80, 0x40, 0x20, 0x10, 0x08, 0x02, 0x01
_SLOT_S, _BUS_RESET_S = 0.00007, 0.0011


class SimDS2482:
    """The bridge: takes commands over I2C, is busy while it talks on its 1-Wire bus, and shows three registers."""

    def __init__(self, scene: Scene, parts: Sequence[WireDS18B20] | None = None) -> None:
        """`parts` are on the 1-Wire bus; without the argument there is one that measures the same scene."""
        self._clock = scene.now
        self._parts = [WireDS18B20(scene)] if parts is None else list(parts)
        self._busy_until = 0.0
        self._pointer = _STATUS
        self._registers = {_STATUS: _RST, _DATA: 0, _CONFIGURATION: 0}

    def write(self, data: bytes) -> None:
        """Take a command with its parameter; refuses unknown ones, and most while the 1-Wire bus is busy."""
        if not data:
            return
        command, parameters = data[0], data[1:]
        if _PARAMETERS.get(command, -1) != len(parameters):
            raise Nack
        if self._clock() < self._busy_until and command not in {_RESET, _POINTER}:
            raise Nack
        self._obey(command, parameters[0] if parameters else 0)

    def read(self, length: int) -> bytes:
        """Return one register over and over."""
        value = self._registers[self._pointer]
        if self._pointer == _STATUS:
            value |= _LL | (_1WB if self._clock() < self._busy_until else 0)
        return bytes([value]) * length

    def _obey(self, command: int, value: int) -> None:
        if command == _POINTER:
            if value not in self._registers:
                raise Nack
            self._pointer = value
        elif command == _CONFIGURE:
            self._configure(value)
        elif command == _RESET:
            self._pointer, self._busy_until = _STATUS, 0.0
            self._registers.update({_STATUS: _RST, _CONFIGURATION: 0})
        else:
            self._pointer = _STATUS
            self._talk(command, value)
            self._registers[_CONFIGURATION] &= ~0x04  # the strong pull-up is for one command

    def _configure(self, value: int) -> None:
        if value >> 4 != ~value & 0x0F:
            raise Nack
        self._registers[_CONFIGURATION] = value & 0x0F
        self._registers[_STATUS] &= ~_RST
        self._pointer = _CONFIGURATION

    def _talk(self, command: int, value: int) -> None:
        slots = {_BIT: 1, _TRIPLET: 3}.get(command, 8)
        self._busy_until = self._clock() + (_BUS_RESET_S if command == _BUS_RESET else slots * _SLOT_S)
        if command == _BUS_RESET:
            present = [part.reset() for part in self._parts]
            self._show(_PPD, {_PPD: any(present)})
        elif command == _BIT:
            self._show(_SBR, {_SBR: self._slot(value >> 7)})
        elif command == _TRIPLET:
            self._triplet(value >> 7)
        elif command == _WRITE_BYTE:
            for bit in split_bits(bytes([value])):
                self._slot(bit)
        else:
            self._registers[_DATA] = sum(self._slot(1) << position for position in range(8))

    def _triplet(self, direction: int) -> None:
        """Read a bit of a number and its complement, and write the way to go (table 3)."""
        first, second = self._slot(1), self._slot(1)
        way = first if first or second else direction
        self._slot(way)
        self._show(_SBR | _TSB | _DIR, {_SBR: first, _TSB: second, _DIR: way})

    def _show(self, affected: int, bits: Mapping[int, int]) -> None:
        self._registers[_STATUS] &= ~affected
        self._registers[_STATUS] |= sum(bit for bit, on in bits.items() if on)

    def _slot(self, bit: int) -> int:
        """Run one time slot; the wire is low when anybody pulls it down."""
        return min([bit, *(part.slot(bit) for part in self._parts)])
