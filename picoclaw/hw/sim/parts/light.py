"""Light meters: ROHM's BH1750FVI (technical note 11046EDT01) and Vishay's VEML7700 (84286, and 84323 for its curve)."""

import math
from typing import ClassVar

from picoclaw.hw.sim.parts.words import Converter, WordRegisters, clamp
from picoclaw.hw.sim.scene import Scene


class SimBH1750(Converter):
    """A BH1750FVI: single bytes are its commands, two bytes its result."""

    # Typical times for a measuring time of 69, by the lower two bits of the mode.
    _TYPICAL_S = (0.12, 0.12, 0.016, 0.016)

    def __init__(self, scene: Scene) -> None:
        """Powered down, with a measuring time of 69."""
        super().__init__(scene)
        self.halt()
        self.mode = 0
        self.time = 69
        self._result = 0

    def write(self, data: bytes) -> None:
        """Follow each command."""
        self.catch_up()
        for command in data:
            self._command(command)

    def _command(self, command: int) -> None:
        if command == 0x00:
            self.mode = 0
            self.halt()
        elif command == 0x07 and self.mode:
            self._result = 0
        elif command >> 3 == 0b01000:
            self.time = self.time & 0x1F | (command & 0b111) << 5
        elif command >> 5 == 0b011:
            self.time = self.time & 0xE0 | command & 0x1F
        elif command in {0x10, 0x11, 0x13, 0x20, 0x21, 0x23}:
            self.mode = command
            self.begin(self._duration())

    def _duration(self) -> float:
        return self._TYPICAL_S[self.mode & 0b11] * self.time / 69

    def period(self) -> float:
        """Again and again in the continuous modes."""
        return self._duration() if self.mode & 0x10 else math.inf

    def measure(self) -> None:
        """1.2 counts for a lux at the usual measuring time, twice as many in mode 2."""
        fine = 2 if self.mode & 0b11 == 1 else 1
        counts = self.scene.get("light", 300.0) * 1.2 * self.time / 69 * fine
        self._result = int(clamp(counts, 0, 0xFFFF))
        if self.mode & 0x20:
            self.mode = 0

    def read(self, length: int) -> bytes:
        """The result of the last measurement."""
        self.catch_up()
        return (self._result.to_bytes(2, "big") * (length // 2 + 1))[:length]


# 84286, table Configuration Register #0, by code.
_GAINS = (1.0, 2.0, 1 / 8, 1 / 4)
_TIMES_S = {0: 0.1, 1: 0.2, 2: 0.4, 3: 0.8, 8: 0.05, 12: 0.025}


class SimVEML7700(WordRegisters):
    """A VEML7700, shut down from power-on; shows less than there is of strong light, as the application note says."""

    order = "little"
    power_on: ClassVar = {0: 0x0001, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0xC481}
    writable: ClassVar = {0: 0x1BF3, 1: 0xFFFF, 2: 0xFFFF, 3: 0x0007}

    def __init__(self, scene: Scene) -> None:
        """Shut down."""
        super().__init__(scene)
        self.halt()

    def _seconds(self) -> float:
        return _TIMES_S.get(self.registers[0] >> 6 & 0xF, 0.1)

    def period(self) -> float:
        """The integration time, and what the power saving mode adds; none while shut down."""
        saving = self.registers[3]
        pause = 0.5 * (1 << (saving >> 1 & 0b11)) if saving & 1 else 0.0
        return math.inf if self.registers[0] & 1 else self._seconds() + pause

    def stored(self, register: int, value: int) -> None:
        """Shut down, or begin anew."""
        if register == 0 and value & 1:
            self.halt()
        elif register == 0:
            self.begin(0.0025 + self._seconds())

    def measure(self) -> None:
        """Counts of the light as the part shows it; the white channel sees twice as much."""
        sensitivity = _GAINS[self.registers[0] >> 11 & 0b11] / 2 * self._seconds() / 0.8 / 0.0042
        counts = _invert_correction(self.scene.get("light", 300.0)) * sensitivity
        self.registers[4], self.registers[5] = (round(clamp(seen, 0, 0xFFFF)) for seen in (counts, 2 * counts))


def _invert_correction(lux: float) -> float:
    """Turn the correction for more than 1000 lx round, by bisection."""
    if lux <= 1000:
        return lux
    low, high = 1000.01, 100_000.0
    while high - low > 0.001:
        middle = (low + high) / 2
        true = 6.0135e-13 * middle**4 - 9.3924e-9 * middle**3 + 8.1488e-5 * middle**2 + 1.0023 * middle
        low, high = (middle, high) if true < lux else (low, middle)
    return low
