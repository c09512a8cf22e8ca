"""Thermometers: Maxim's MAX31855 for thermocouples (datasheet 19-5793), MAX31865 for platinum (19-6478) and the 1-Wire
DS18B20 (19-7487), this as it is seen through the files of the kernel's driver, and parts on I2C.
"""

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts import WordRegisters, clamp, decode_signed, encode_signed
from picoclaw.hw.sim.script import Scene


class SimMAX31855:
    """Converts by itself every 0.1 s and sends 32 bits, whatever it is sent."""

    def __init__(self, scene: Scene) -> None:
        """Measures `temperature`, and `temperature inside` of the chip, in °C."""
        self._scene = scene
        self._converted_at = -math.inf
        self._answer = 0
        self.faults = 0  # bit 0 open, bit 1 short to GND, bit 2 short to VCC

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:  # noqa: ARG002
        """Shift the newest conversion out, most significant bit first, then zeros (table 2)."""
        now = self._scene.now()
        if now - self._converted_at >= 0.1:
            self._converted_at, self._answer = now, self._conversion()
        return (self._answer.to_bytes(4, "big") + bytes(len(data)))[: len(data)]

    def _conversion(self) -> int:
        inside = self._scene.get("temperature inside") if "temperature inside" in self._scene.values else 25.0
        outside = self._scene.get("temperature", 21.0)
        word = encode_signed(outside * 4, 14) << 18 | encode_signed(inside * 16, 12) << 4
        return word | (0x10000 | self.faults if self.faults else 0)


# Addresses of table 1; bits of table 2.
_CONFIGURATION, _RTD, _STATUS, _WRITABLE = 0, 1, 7, {0, 3, 4, 5, 6}
_BIAS, _AUTOMATIC, _ONE_SHOT, _FAULT_CYCLE, _CLEAR = 0x80, 0x40, 0x20, 0x0C, 0x02
_BIAS_SETTLING_S = 0.0015
_CELSIUS = (-273.15, 1500.0)  # in which the resistance of platinum rises with the temperature


class SimMAX31865:
    """Measures the ratio of a platinum thermometer to a reference resistor, on demand or continuously."""

    def __init__(self, scene: Scene, reference: float = 430.0, nominal: float = 100.0) -> None:
        """Measures `temperature` in °C, or, where the scene has one, `resistance` in ohms (0 short, inf open).

        `reference` and `nominal` (at 0 °C) are in ohms.
        """
        self._scene = scene
        self._reference, self._nominal = reference, nominal
        self._registers = bytearray.fromhex("00 0000 ffff 0000 00")
        self._biased_at = math.inf
        self._pending: tuple[float, int] | None = None
        self.input_faults = 0  # bits 5 to 2 of the fault status register, latched by the next conversion

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:
        """Address, then registers with the address counting up; a conversion starts when the selection ends."""
        if not settings.mode & 1 or not data:
            return b"\xff" * len(data)
        self._settle()
        address, answer = data[0], bytearray(b"\xff")
        written = None
        for offset, value in enumerate(data[1:]):
            register = (address + offset) & 0x7F
            if address & 0x80 and register in _WRITABLE:
                self._registers[register] = value
                written = value if register == _CONFIGURATION else written
            answer.append(self._registers[register] if not address & 0x80 and register < 8 else 0xFF)
        if written is not None:
            self._configure(written)
        return bytes(answer)

    def _configure(self, value: int) -> None:
        """Take over a configuration; bits 5 and 3 to 1 clear themselves."""
        now = self._scene.now()
        self._registers[_CONFIGURATION] = value & ~(_ONE_SHOT | _FAULT_CYCLE | _CLEAR)
        if not value & _BIAS:
            self._biased_at = math.inf
        elif self._biased_at == math.inf:
            self._biased_at = now
        if value & _CLEAR and not value & (_ONE_SHOT | _FAULT_CYCLE):
            self._faulty(0)
        elif value & _FAULT_CYCLE:
            self._faulty(self._registers[_STATUS] | self.input_faults & 0x38)
        if value & _ONE_SHOT and not value & _AUTOMATIC:
            self._pending = (now + (0.0625 if value & 1 else 0.052), self._ratio())

    def _settle(self) -> None:
        if self._registers[_CONFIGURATION] & _AUTOMATIC:
            self._pending = (self._scene.now(), self._ratio())
        if self._pending and self._scene.now() >= self._pending[0]:
            self._store(self._pending[1])
            self._pending = None

    def _store(self, code: int) -> None:
        high, low = (int.from_bytes(self._registers[at : at + 2], "big") >> 1 for at in (3, 5))
        self._registers[_RTD : _RTD + 2] = (code << 1).to_bytes(2, "big")
        thresholds = (0x80 if code >= high else 0) | (0x40 if code <= low else 0)
        self._faulty(self._registers[_STATUS] | thresholds | self.input_faults)

    def _faulty(self, status: int) -> None:
        """Set the fault status; bit 0 of the result shows whether there is any."""
        self._registers[_STATUS] = status
        self._registers[_RTD + 1] = self._registers[_RTD + 1] & 0xFE | (1 if status else 0)

    def _ratio(self) -> int:
        """The 15-bit code; without bias there is no voltage, and the input filter needs its time."""
        if self._scene.now() - self._biased_at < _BIAS_SETTLING_S:
            return 0
        ohms = self._scene.get("resistance", -1.0)
        if ohms < 0:
            ohms = self._nominal * _callendar_van_dusen(clamp(self._scene.get("temperature", 21.0), *_CELSIUS))
        return int(clamp(ohms / self._reference * 32_768, 0, 32_767))


def _callendar_van_dusen(celsius: float) -> float:
    """Resistance over that at 0 °C (IEC 60751)."""
    below = -4.18301e-12 * (celsius - 100) * celsius**3 if celsius < 0 else 0.0
    return 1 + 3.9083e-3 * celsius - 5.775e-7 * celsius**2 + below


# Thermometers with registers of 16 bits: TMP102 (SBOS397), LM75 (SNIS153) and LM75B (NXP), MCP9808 (DS25095A).

_TMP102_OS, _TMP102_SD, _TMP102_POL, _TMP102_AL, _TMP102_EM = 0x8000, 0x0100, 0x0400, 0x0020, 0x0010
_TMP102_CONVERSION_S = 0.026
_TMP102_PERIODS_S = (4.0, 1.0, 0.25, 0.125)


class SimTMP102(WordRegisters):
    """A TMP102, which measures four times a second from power-on."""

    power_on: ClassVar = {0: 0x0000, 1: 0x60A0, 2: 0x4B00, 3: 0x5000}
    writable: ClassVar = {1: 0x1FD0, 2: 0xFFF8, 3: 0xFFF8}
    pointer_mask = 0b11

    def period(self) -> float:
        config = self.registers[1]
        return math.inf if config & _TMP102_SD else _TMP102_PERIODS_S[config >> 6 & 0b11]

    def measure(self) -> None:
        """12 bits to the left, or 13 bits and a mark in the extended mode; the alert is the comparator's."""
        celsius = self.scene.get("temperature", 21.0)
        extended = bool(self.registers[1] & _TMP102_EM)
        self.registers[0] = (
            encode_signed(celsius * 16, 13) << 3 | 1 if extended else encode_signed(celsius * 16, 12) << 4
        )
        low, high = (decode_signed(self.registers[r]) / (128 if extended else 256) for r in (2, 3))
        alert = celsius >= high or (celsius >= low and self._alert())
        self._show(alert=alert)

    def stored(self, register: int, value: int) -> None:
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


class SimLM75(WordRegisters):
    """National's LM75: 9 bits; registers that do not exist read as what was read last."""

    bits = 9
    conversion_s = 0.1
    power_on: ClassVar = {0: 0x0000, 1: 0x00, 2: 0x4B00, 3: 0x5000}
    writable: ClassVar = {1: 0x1F, 2: 0xFF80, 3: 0xFF80}
    narrow = frozenset({1})
    pointer_mask = 0b111

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._last = 0

    def period(self) -> float:
        """Ten times a second, but not in shutdown."""
        return math.inf if self.registers[1] & 0x01 else self.conversion_s

    def measure(self) -> None:
        """To the left of the word; the lower bits are 0."""
        self.registers[0] = (
            encode_signed(self.scene.get("temperature", 21.0) * (1 << self.bits - 8), self.bits) << 16 - self.bits
        )

    def stored(self, register: int, value: int) -> None:
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


class SimMCP9808(WordRegisters):
    """An MCP9808, whose limits are 0 °C from power-on, so that its flags say 'too hot'."""

    power_on: ClassVar = dict(enumerate((0x001F, 0, 0, 0, 0, 0, 0x0054, 0x0400, 0x03)))
    writable: ClassVar = {1: 0x07CF, 2: 0x1FFC, 3: 0x1FFC, 4: 0x1FFC, 8: 0b11}
    narrow = frozenset({8})
    pointer_mask = 0x0F

    def mask(self, register: int) -> int:
        """The locks protect limits and configuration; a locked part can be woken, but not be shut down."""
        config = self.registers[1]
        if register == 1 and config & (_MCP9808_CRITICAL_LOCK | _MCP9808_WINDOW_LOCK):
            return config & _MCP9808_SHUTDOWN
        locks = {2: _MCP9808_WINDOW_LOCK, 3: _MCP9808_WINDOW_LOCK, 4: _MCP9808_CRITICAL_LOCK}
        return 0 if config & locks.get(register, 0) else self.writable.get(register, 0)

    def period(self) -> float:
        return math.inf if self.registers[1] & _MCP9808_SHUTDOWN else self._conversion()

    def measure(self) -> None:
        """13 bits, of which the resolution hides up to three, and three flags above them."""
        sixteenths = decode_signed(encode_signed(self.scene.get("temperature", 21.0) * 16, 13), 13)
        sixteenths &= ~((1 << 3 - self.registers[8]) - 1)
        upper, lower, critical = (decode_signed(self.registers[r] & 0x1FFF, 13) for r in (2, 3, 4))
        flags = (sixteenths >= critical) << 15 | (sixteenths > upper) << 14 | (sixteenths < lower) << 13
        self.registers[5] = flags | sixteenths & 0x1FFF

    def stored(self, register: int, value: int) -> None:  # noqa: ARG002
        if register == 1 and self.registers[1] & _MCP9808_SHUTDOWN:
            self.halt()
        elif register == 1 and not self.measuring:
            self.begin(self._conversion())

    def _conversion(self) -> float:
        return _MCP9808_CONVERSIONS_S[self.registers[8]]


class SimDS18B20:
    """A thermometer of 12 bits, with the alarm limits and the reserved bytes that it has after power-on."""

    def __init__(self, scene: Scene, serial: int = 1) -> None:
        """Measures `temperature` in °C; `serial` is the 48-bit number of the part."""
        self.scene = scene
        self.rom = append_crc(b"\x28" + serial.to_bytes(6, "little"))
        self.name = f"28-{serial:012x}"
        self.scratchpad = bytearray.fromhex("5005 4b467f ff0c10")

    def files(self) -> Mapping[str, Callable[[], str]]:
        """What the kernel shows in /sys/bus/w1/devices/NAME; a reading measures and waits for its end."""
        return {"w1_slave": self._w1_slave, "temperature": self._millidegrees, "name": lambda: self.name}

    def raw(self) -> int:
        """What it would measure now, in sixteenths of °C."""
        return round(clamp(self.scene.get("temperature", 21.0), -55, 125) * 16)

    def store(self, raw: int) -> None:
        """Put the outcome of a conversion into the scratchpad."""
        self.scratchpad[0:2] = (raw & 0xFFFF).to_bytes(2, "little")
        self.scratchpad[6] = 0x10 - (raw & 0x0F)

    def _measured(self) -> bytes:
        self.store(self.raw())
        return append_crc(bytes(self.scratchpad))

    def _millidegrees(self) -> str:
        return str(int(int.from_bytes(self._measured()[:2], "little", signed=True) * 1000 / 16))

    def _w1_slave(self) -> str:
        scratchpad = self._measured()
        shown = scratchpad.hex(" ")
        millidegrees = int(int.from_bytes(scratchpad[:2], "little", signed=True) * 1000 / 16)
        return f"{shown} : crc={scratchpad[8]:02x} YES\n{shown} t={millidegrees}"


def append_crc(data: bytes) -> bytes:
    """Append the CRC of x^8 + x^5 + x^4 + 1, computed bit by bit as the shift register of the datasheet does."""
    register = [0] * 8
    for bit in split_bits(data):
        feedback = bit ^ register[7]
        register = [feedback, *register[:7]]
        register[4] ^= feedback
        register[5] ^= feedback
    return data + bytes([sum(bit << (7 - position) for position, bit in enumerate(register))])


def split_bits(data: bytes) -> list[int]:
    """The bits of bytes, the lowest of each first."""
    return [byte >> position & 1 for byte in data for position in range(8)]
