"""Bosch's BMP180. It turns its weather into raw values by solving the datasheet's formulas in floating point."""

import math
import struct

from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

# The calibration of the worked example in BST-BMP180-DS000, section 3.5, in the order of registers 0xAA-0xBF.
_TRIMMING = (408, -72, -14_383, 32_741, 32_757, 23_153, 6190, 4, -32_768, -8711, 2868)
_ID, _RESET, _CONTROL, _DATA = 0xD0, 0xE0, 0xF4, 0xF6
_CONVERTING = 0x20
# Well beyond what the part measures, and where its formulas can still be solved.
_CELSIUS, _HECTOPASCAL = (-150.0, 200.0), (0.0, 2000.0)
_TEMPERATURE, _PRESSURE = 0x0E, 0x14
_TEMPERATURE_S, _PRESSURE_S = 0.0045, (0.0045, 0.0075, 0.0135, 0.0255)


class SimBMP180:
    """A BMP180: one conversion after each write of the control register, which holds its state meanwhile."""

    def __init__(self, scene: Scene) -> None:
        """Measures temperature and pressure of the scene."""
        self._scene = scene
        self._pointer = 0
        self._done_at = -math.inf
        self._result = b""
        self._registers = bytearray(256)
        self._reset()

    def write(self, data: bytes) -> None:
        """Register address, and a value for it."""
        if not data:
            return
        self._pointer = data[0]
        self._settle()
        if data[0] == _RESET and data[1:] == b"\xb6":
            self._reset()
        elif data[0] == _CONTROL and len(data) > 1:
            self._convert(data[1])

    def read(self, length: int) -> bytes:
        """Bytes from the register pointer on."""
        self._settle()
        found = bytes(self._registers[(self._pointer + i) & 0xFF] for i in range(length))
        self._pointer = (self._pointer + length) & 0xFF
        return found

    def _reset(self) -> None:
        self._registers[:] = bytes(256)
        self._registers[0xAA:0xC0] = struct.pack(">hhhHHHhhhhh", *_TRIMMING)
        self._registers[_ID], self._registers[0xD1] = 0x55, 0x02
        self._registers[_DATA] = 0x80
        self._result = b""

    def _convert(self, control: int) -> None:
        self._registers[_CONTROL] = control
        if not control & _CONVERTING:
            return
        celsius = clipped(self._scene.get("temperature", 21.0), *_CELSIUS)
        if control & 0x1F == _TEMPERATURE:
            self._done_at = self._scene.now() + _TEMPERATURE_S
            self._result = round(clipped(_raw_temperature(celsius), 0, 0xFFFF)).to_bytes(2, "big") + b"\0"
        elif control & 0x1F == _PRESSURE:
            oversampling = control >> 6
            hectopascal = clipped(self._scene.get("pressure", 1013.25), *_HECTOPASCAL)
            raw = _raw_pressure(hectopascal, celsius, oversampling)
            code = round(clipped(raw, 0, (0x10000 << oversampling) - 1))
            self._done_at = self._scene.now() + _PRESSURE_S[oversampling]
            self._result = (code << 8 - oversampling).to_bytes(3, "big")

    def _settle(self) -> None:
        if self._result and self._scene.now() >= self._done_at:
            self._registers[_DATA : _DATA + 3] = self._result
            self._registers[_CONTROL] &= ~_CONVERTING
            self._result = b""


def _raw_temperature(celsius: float) -> float:
    """Solve T = (B5 + 8) / 160 and B5 = X1 + MC * 2048 / (X1 + MD), a quadratic equation in X1 + MD."""
    ac5, ac6, mc, md = _TRIMMING[4], _TRIMMING[5], _TRIMMING[9], _TRIMMING[10]
    total = celsius * 160 - 8 + md
    x1 = (total + math.sqrt(total * total - 4 * mc * 2048)) / 2 - md
    return x1 * 32_768 / ac5 + ac6


def _raw_pressure(hectopascal: float, celsius: float, oversampling: int) -> float:
    """Solve the last line of the datasheet's algorithm, a quadratic equation in p, and the linear rest."""
    ac1, ac2, ac3, ac4, _, _, b1, b2, *_ = _TRIMMING
    b6 = celsius * 160 - 8 - 4000
    square = b6 * b6 / 4096
    b3 = ((ac1 * 4 + b2 * square / 2048 + ac2 * b6 / 2048) * (1 << oversampling) + 2) / 4
    b4 = ac4 * ((ac3 * b6 / 8192 + b1 * square / 65_536 + 2) / 4 + 32_768) / 32_768
    a, b, c = 3038 / 65_536**2 / 16, 1 - 7357 / 65_536 / 16, 3791 / 16 - hectopascal * 100
    p = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    return p * b4 / 2 / (50_000 / (1 << oversampling)) + b3
