"""Thermometers with registers of 16 bits: TMP102 (SBOS397), LM75 (SNIS153) and LM75B (NXP), MCP9808 (DS25095A)."""

import math
from typing import ClassVar

from picoclaw.hw.sim.parts.words import Words, negative, signed
from picoclaw.hw.sim.scene import Scene

_TMP102_OS, _TMP102_SD, _TMP102_POL, _TMP102_AL, _TMP102_EM = 0x8000, 0x0100, 0x0400, 0x0020, 0x0010
_TMP102_CONVERSION_S = 0.026
_TMP102_PERIODS_S = (4.0, 1.0, 0.25, 0.125)


class SimTMP102(Words):
    """A TMP102, which measures four times a second from power-on."""

    power_on: ClassVar = {0: 0x0000, 1: 0x60A0, 2: 0x4B00, 3: 0x5000}
    writable: ClassVar = {1: 0x1FD0, 2: 0xFFF8, 3: 0xFFF8}

    def point(self, register: int) -> int:
        """Look at two bits."""
        return register & 0b11

    def period(self) -> float:
        """By the two bits of the conversion rate; none in shutdown."""
        config = self.registers[1]
        return math.inf if config & _TMP102_SD else _TMP102_PERIODS_S[config >> 6 & 0b11]

    def measure(self) -> None:
        """12 bits to the left, or 13 bits and a mark in the extended mode; the alert is the comparator's."""
        celsius = self.scene.get("temperature", 21.0)
        extended = bool(self.registers[1] & _TMP102_EM)
        self.registers[0] = signed(celsius * 16, 13) << 3 | 1 if extended else signed(celsius * 16, 12) << 4
        low, high = (negative(self.registers[r]) / (128 if extended else 256) for r in (2, 3))
        alert = celsius >= high or (celsius >= low and self._alert())
        self._show(alert=alert)

    def stored(self, register: int, value: int) -> None:
        """Measure anew with a new configuration, or once on demand in shutdown."""
        if register != 1:
            return
        self._show(alert=self._alert())
        if value & _TMP102_SD and not value & _TMP102_OS:
            self.halt()
        else:
            self.begin(_TMP102_CONVERSION_S)

    def load(self, register: int) -> int:
        """The one-shot bit is 1 in shutdown, while nothing is measured."""
        word = super().load(register)
        if register == 1 and word & _TMP102_SD and not self.measuring:
            word |= _TMP102_OS
        return word

    def _alert(self) -> bool:
        return self.registers.get(-1, 0) == 1

    def _show(self, *, alert: bool) -> None:
        self.registers[-1] = int(alert)
        active_high = bool(self.registers[1] & _TMP102_POL)
        bit = _TMP102_AL if alert == active_high else 0
        self.registers[1] = self.registers[1] & ~_TMP102_AL | bit


class SimLM75(Words):
    """National's LM75: 9 bits; registers that do not exist read as what was read last."""

    bits = 9
    conversion_s = 0.1
    power_on: ClassVar = {0: 0x0000, 1: 0x00, 2: 0x4B00, 3: 0x5000}
    writable: ClassVar = {1: 0x1F, 2: 0xFF80, 3: 0xFF80}
    narrow = frozenset({1})

    def __init__(self, scene: Scene) -> None:
        """Measures the scene's temperature from power-on."""
        super().__init__(scene)
        self._last = 0

    def point(self, register: int) -> int:
        """Look at three bits."""
        return register & 0b111

    def period(self) -> float:
        """Ten times a second, but not in shutdown."""
        return math.inf if self.registers[1] & 0x01 else self.conversion_s

    def measure(self) -> None:
        """To the left of the word; the lower bits are 0."""
        self.registers[0] = (
            signed(self.scene.get("temperature", 21.0) * (1 << self.bits - 8), self.bits) << 16 - self.bits
        )

    def stored(self, register: int, value: int) -> None:
        """Shut down, or begin anew."""
        if register == 1 and value & 0x01:
            self.halt()
        elif register == 1 and not self.measuring:
            self.begin(self.conversion_s)

    def load(self, register: int) -> int:
        """Registers 4 to 7 give the last word again."""
        if register <= 3:
            self._last = super().load(register)
        return self._last


class SimLM75B(SimLM75):
    """NXP's LM75B: 11 bits."""

    bits = 11


_MCP9808_SHUTDOWN, _MCP9808_CRITICAL_LOCK, _MCP9808_WINDOW_LOCK = 0x0100, 0x0080, 0x0040
_MCP9808_CONVERSIONS_S = (0.03, 0.065, 0.13, 0.25)


class SimMCP9808(Words):
    """An MCP9808, whose limits are 0 °C from power-on, so that its flags say 'too hot'."""

    power_on: ClassVar = {
        0: 0x001F,
        1: 0x0000,
        2: 0x0000,
        3: 0x0000,
        4: 0x0000,
        5: 0x0000,
        6: 0x0054,
        7: 0x0400,
        8: 0x03,
    }
    writable: ClassVar = {1: 0x07CF, 2: 0x1FFC, 3: 0x1FFC, 4: 0x1FFC, 8: 0b11}
    narrow = frozenset({8})

    def mask(self, register: int) -> int:
        """The locks protect limits and configuration; a locked part can be woken, but not be shut down."""
        config = self.registers[1]
        if register == 1 and config & (_MCP9808_CRITICAL_LOCK | _MCP9808_WINDOW_LOCK):
            return config & _MCP9808_SHUTDOWN
        locks = {2: _MCP9808_WINDOW_LOCK, 3: _MCP9808_WINDOW_LOCK, 4: _MCP9808_CRITICAL_LOCK}
        return 0 if config & locks.get(register, 0) else self.writable.get(register, 0)

    def point(self, register: int) -> int:
        """Look at four bits."""
        return register & 0x0F

    def period(self) -> float:
        """By the resolution; none in shutdown."""
        return math.inf if self.registers[1] & _MCP9808_SHUTDOWN else self._conversion()

    def measure(self) -> None:
        """13 bits, of which the resolution hides up to three, and three flags above them."""
        sixteenths = negative(signed(self.scene.get("temperature", 21.0) * 16, 13), 13)
        sixteenths &= ~((1 << 3 - self.registers[8]) - 1)
        upper, lower, critical = (negative(self.registers[r] & 0x1FFF, 13) for r in (2, 3, 4))
        flags = (sixteenths >= critical) << 15 | (sixteenths > upper) << 14 | (sixteenths < lower) << 13
        self.registers[5] = flags | sixteenths & 0x1FFF

    def stored(self, register: int, value: int) -> None:  # noqa: ARG002
        """Shut down, or begin anew."""
        if register == 1 and self.registers[1] & _MCP9808_SHUTDOWN:
            self.halt()
        elif register == 1 and not self.measuring:
            self.begin(self._conversion())

    def _conversion(self) -> float:
        return _MCP9808_CONVERSIONS_S[self.registers[8]]
