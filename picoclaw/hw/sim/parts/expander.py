"""NXP's PCF8574 (eight pins, revision 5 of its data sheet) and PCA9685 (sixteen PWM outputs, revision 4)."""

from picoclaw.hw.sim.parts.words import ByteRegisters
from picoclaw.hw.sim.scene import Scene


class SimPCF8574:
    """A PCF8574: one byte written is its outputs, one byte read its pins; no registers at all.

    A pin is high when its output is and nothing outside pulls it low: `level p3` of the scene is 0.
    """

    def __init__(self, scene: Scene) -> None:
        """All outputs are high from power-on."""
        self._scene = scene
        self.outputs = 0xFF

    def write(self, data: bytes) -> None:
        """Each byte replaces the one before at the outputs."""
        if data:
            self.outputs = data[-1]

    def read(self, length: int) -> bytes:
        """The pins, sampled for each byte."""
        return bytes([self.pins()]) * length

    def pins(self) -> int:
        """The levels at the pins, p0 in the lowest bit."""
        outside = sum((self._scene.get(f"level p{n}", 1.0) >= 0.5) << n for n in range(8))
        return self.outputs & outside


_MODE1, _MODE2, _ALL_CALL, _LED0, _LED_END = 0x00, 0x01, 0x05, 0x06, 0x46
_ALL_LED, _PRESCALE, _TEST = 0xFA, 0xFE, 0xFF
_RESTART, _AUTO_INCREMENT, _SLEEP = 0x80, 0x20, 0x10


class SimPCA9685(ByteRegisters):
    """A PCA9685, asleep from power-on with all outputs fully off."""

    def __init__(self, scene: Scene) -> None:
        """Has its power-on values; measures nothing."""
        super().__init__(scene)
        self.halt()
        self.registers[_MODE1], self.registers[_MODE2], self.registers[_PRESCALE] = 0x11, 0x04, 0x1E
        self.registers[0x02:_LED0] = bytes([0xE2, 0xE4, 0xE8, 0xE0])
        self.registers[_LED0:_LED_END] = bytes([0, 0, 0, 0x10]) * 16
        self._held = False  # what was on before a sleep stays off until a restart or a write

    @property
    def frequency(self) -> float:
        """Of all outputs, in Hz."""
        return 25_000_000 / 4096 / (self.registers[_PRESCALE] + 1)

    def duty(self, channel: int) -> float:
        """What an output really does, 0 to 1."""
        first = _LED0 + 4 * channel
        on_low, on_high, off_low, off_high = self.registers[first : first + 4]
        if self.registers[_MODE1] & _SLEEP or self._held or off_high & 0x10:
            return 0.0
        if on_high & 0x10:
            return 1.0
        on, off = (on_high & 0x0F) << 8 | on_low, (off_high & 0x0F) << 8 | off_low
        return (off - on) % 4096 / 4096

    def next(self, register: int) -> int:
        """Stays where it is without auto-increment; rolls over after the last LED register."""
        if not self.registers[_MODE1] & _AUTO_INCREMENT:
            return register
        return 0 if register in {_LED_END - 1, _PRESCALE, _TEST} else register + 1

    def load(self, register: int) -> int:
        """The registers for all outputs at once read as 0."""
        return 0 if _ALL_LED <= register < _PRESCALE else super().load(register)

    def store(self, register: int, value: int) -> None:
        """Follow the rules of each kind of register."""
        if register == _MODE1:
            self._mode(value)
        elif register == _PRESCALE:
            if self.registers[_MODE1] & _SLEEP:
                self.registers[_PRESCALE] = max(value, 3)
        elif register < _LED0:
            self.registers[register] = value
        elif register < _LED_END:
            self._led(register, value)
        elif _ALL_LED <= register < _PRESCALE:
            for channel in range(16):
                self._led(_LED0 + 4 * channel + register - _ALL_LED, value)

    def _led(self, register: int, value: int) -> None:
        self.registers[register] = value & 0x1F if register & 1 else value
        if self._held:
            self._held = False
            self.registers[_MODE1] &= ~_RESTART

    def _mode(self, value: int) -> None:
        before = self.registers[_MODE1]
        restart = before & _RESTART
        if value & _SLEEP and not before & _SLEEP and any(self.duty(n) for n in range(16)):
            restart, self._held = _RESTART, True
        elif value & _RESTART and not value & _SLEEP:
            restart, self._held = 0, False
        self.registers[_MODE1] = value & ~_RESTART | restart
