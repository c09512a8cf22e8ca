"""Maxim's SPI thermometers: MAX31855 for thermocouples (datasheet 19-5793), MAX31865 for platinum (19-6478)."""

import math

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts.words import clipped, signed
from picoclaw.hw.sim.scene import Scene


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

    def _inside(self) -> float:
        return self._scene.get("temperature inside") if "temperature inside" in self._scene.values else 25.0

    def _conversion(self) -> int:
        word = signed(self._scene.get("temperature", 21.0) * 4, 14) << 18 | signed(self._inside() * 16, 12) << 4
        return word | (0x10000 | self.faults if self.faults else 0)


# Addresses of table 1; bits of table 2.
_CONFIGURATION, _RTD, _STATUS, _WRITABLE = 0, 1, 7, {0, 3, 4, 5, 6}
_BIAS, _AUTOMATIC, _ONE_SHOT, _FAULT_CYCLE, _CLEAR = 0x80, 0x40, 0x20, 0x0C, 0x02
_CHARGED_S = 0.0015
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
        """Bring the results up to now."""
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
        if self._scene.now() - self._biased_at < _CHARGED_S:
            return 0
        ohms = self._scene.get("resistance", -1.0)
        if ohms < 0:
            ohms = self._nominal * _callendar_van_dusen(clipped(self._scene.get("temperature", 21.0), *_CELSIUS))
        return int(clipped(ohms / self._reference * 32_768, 0, 32_767))


def _callendar_van_dusen(celsius: float) -> float:
    """Resistance over that at 0 °C (IEC 60751)."""
    below = -4.18301e-12 * (celsius - 100) * celsius**3 if celsius < 0 else 0.0
    return 1 + 3.9083e-3 * celsius - 5.775e-7 * celsius**2 + below
