"""Bosch's BME680. Raw values are found by bisection of the datasheet's floating-point formulas."""

import math
import struct
from bisect import bisect_left

from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

# Calibration: temperature, pressure and humidity as read from a part; the hot plate's are typical.
_T = (26_203, 26_519, 3)
_P = (35_008, -10_284, 88, 9692, -202, 30, 24, -516, -3469, 30)
_H = (794, 1007, 0, 45, 20, 120, -100)
_G = (-30, -5969, 18)
_PLATE_RANGE, _PLATE_VALUE, _GAS_ERROR = 1, 46, -2

_ID, _RESET, _STATUS, _PLATE, _WAIT = 0xD0, 0xE0, 0x1D, 0x5A, 0x64
_CTRL_GAS_0, _CTRL_GAS_1, _CTRL_HUM, _CTRL_MEAS = 0x70, 0x71, 0x72, 0x74
_WRITABLE = {*range(0x50, 0x6E), *range(0x70, 0x76)}
_NEW, _GAS_MEASURING, _MEASURING = 0x80, 0x40, 0x20
_AMBIENT, _TIME_TO_HEAT_S = 25.0, 0.03
# All but the highest code, which is what a search that finds nothing ends at.
_CODES_20, _CODES_16 = range((1 << 20) - 1), range((1 << 16) - 1)
_LEAST_OHM, _MOST_OHM = 1.0, 1e9
# Per cent by which the gas sensor's ranges deviate.
_K1 = {5: -1.0, 7: -0.8, 10: -0.2, 11: -0.5, 13: -1.0}
_K2 = {4: 0.1, 5: 0.7, 7: -0.8, 8: -0.1}


class SimBME680:
    """A BME680 that sleeps until it is forced to measure; its plate gets hot when it is told a sensible resistance."""

    def __init__(self, scene: Scene) -> None:
        """Measures temperature, humidity, pressure and `resistance gas` of the scene."""
        self._scene = scene
        self._pointer = 0
        self._done_at = math.inf
        self._results = b""
        self._registers = bytearray(256)
        self._reset()

    def write(self, data: bytes) -> None:
        """Register address, then pairs of value and further register address (section 6.2.1, no auto-increment)."""
        if not data:
            return
        self._settle()
        self._pointer = data[0]
        for register, value in zip((data[0], *data[2::2]), data[1::2], strict=False):
            self._store(register, value)

    def read(self, length: int) -> bytes:
        """Bytes from the register pointer on."""
        self._settle()
        found = bytes(self._registers[(self._pointer + i) & 0xFF] for i in range(length))
        self._pointer = (self._pointer + length) & 0xFF
        return found

    def _reset(self) -> None:
        p, h = _P, _H
        self._registers[:] = bytes(256)
        self._registers[_ID] = 0x61
        self._registers[0x00], self._registers[0x02] = _PLATE_VALUE, _PLATE_RANGE << 4
        self._registers[0x04] = _GAS_ERROR << 4 & 0xFF
        self._registers[0x8A:0x8D] = struct.pack("<hb", *_T[1:])
        self._registers[0x8E:0x93] = struct.pack("<Hhb", *p[:3])
        self._registers[0x94:0x9A] = struct.pack("<hhbb", p[3], p[4], p[6], p[5])
        self._registers[0x9C:0xA1] = struct.pack("<hhB", *p[7:])
        self._registers[0xE1:0xE4] = bytes([h[1] >> 4, (h[1] & 15) << 4 | h[0] & 15, h[0] >> 4])
        self._registers[0xE4:0xEF] = struct.pack("<bbbBbHhbb", *h[2:], _T[0], _G[1], _G[0], _G[2])
        self._registers[0x1F], self._registers[0x22], self._registers[0x25] = 0x80, 0x80, 0x80
        self._results = b""

    def _store(self, register: int, value: int) -> None:
        if register == _RESET and value == 0xB6:
            self._reset()
        elif register in _WRITABLE:
            self._registers[register] = value
        if register == _CTRL_MEAS and value & 0b11 == 0b01:
            self._force()

    def _force(self) -> None:
        gas = bool(self._registers[_CTRL_GAS_1] & 0x10)
        samples = [self._samples(_CTRL_MEAS, 5), self._samples(_CTRL_MEAS, 2), self._samples(_CTRL_HUM, 0)]
        heating = self._heating() if gas else 0.0
        self._done_at = self._scene.now() + 0.001963 * sum(samples) + 0.0029 + heating + (0.0024 if gas else 0)
        self._results = self._measured(samples, heating, gas=gas)
        self._registers[_STATUS] = _MEASURING | (_GAS_MEASURING if gas else 0)

    def _samples(self, register: int, shift: int) -> int:
        return (0, 1, 2, 4, 8, 16, 16, 16)[self._registers[register] >> shift & 0b111]

    def _heating(self) -> float:
        code = self._registers[_WAIT + (self._registers[_CTRL_GAS_1] & 0x0F)]
        return ((code & 0x3F) << 2 * (code >> 6)) / 1000

    def _measured(self, samples: list[int], heating: float, *, gas: bool) -> bytes:
        scene = self._scene
        raw_t = bisect_left(_CODES_20, scene.get("temperature", 21.0), key=lambda raw: _celsius(raw)[0])
        celsius, fine = _celsius(raw_t)
        pressure = -scene.get("pressure", 1013.25) * 100
        raw_p = bisect_left(_CODES_20, pressure, key=lambda raw: -_pascal(raw, fine))
        raw_h = bisect_left(_CODES_16, scene.get("humidity", 50.0), key=lambda raw: _percent(raw, celsius))
        packed = (raw_p if samples[1] else 0x80000) << 4, (raw_t if samples[0] else 0x80000) << 4
        first = b"".join(value.to_bytes(3, "big") for value in packed)
        first += (raw_h if samples[2] else 0x8000).to_bytes(2, "big")
        return first + bytes(3) + self._gas(heating, gas=gas)

    def _gas(self, heating: float, *, gas: bool) -> bytes:
        if not gas:
            return bytes(2)
        code = self._registers[_PLATE + (self._registers[_CTRL_GAS_1] & 0x0F)]
        off = self._registers[_CTRL_GAS_0] & 0x08
        hot = not off and heating >= _TIME_TO_HEAT_S and _plate(200) <= code <= _plate(400) + 1
        raw, gas_range = _raw_gas(self._scene.get("resistance gas", 50_000.0))
        return (raw << 6 | 0x20 | (0x10 if hot else 0) | gas_range).to_bytes(2, "big")

    def _settle(self) -> None:
        if self._results and self._scene.now() >= self._done_at:
            self._registers[0x1F:0x2C] = self._results
            self._registers[_STATUS] = _NEW
            self._registers[_CTRL_MEAS] &= ~0b11
            self._results = b""


def _celsius(raw: int) -> tuple[float, float]:
    """Temperature and t_fine (section 3.3.1, floating point)."""
    t1, t2, t3 = _T
    fine = (raw / 16_384 - t1 / 1024) * t2 + (raw / 131_072 - t1 / 8192) ** 2 * t3 * 16
    return fine / 5120, fine


def _pascal(raw: int, fine: float) -> float:
    p1, p2, p3, p4, p5, p6, p7, p8, p9, p10 = _P
    v1 = fine / 2 - 64_000
    v2 = (v1 * v1 * p6 / 131_072 + v1 * p5 * 2) / 4 + p4 * 65_536
    v1 = (1 + (p3 * v1 * v1 / 16_384 + p2 * v1) / 524_288 / 32_768) * p1
    pressure = (1_048_576 - raw - v2 / 4096) * 6250 / v1
    v1, v2 = p9 * pressure * pressure / 2_147_483_648, pressure * p8 / 32_768
    return pressure + (v1 + v2 + (pressure / 256) ** 3 * p10 / 131_072 + p7 * 128) / 16


def _percent(raw: int, celsius: float) -> float:
    h1, h2, h3, h4, h5, h6, h7 = _H
    v1 = raw - (h1 * 16 + h3 / 2 * celsius)
    v2 = v1 * (h2 / 262_144 * (1 + h4 / 16_384 * celsius + h5 / 1_048_576 * celsius * celsius))
    return v2 + (h6 / 16_384 + h7 / 2_097_152 * celsius) * v2 * v2


def _raw_gas(ohm: float) -> tuple[int, int]:
    """The converter's 10 bits in the most sensitive range that holds the resistance (section 3.4.1, solved for it).

    A resistance that is too large or too small for any range shows as the end of the first or the last.
    """
    ohm = clipped(ohm, _LEAST_OHM, _MOST_OHM)
    for gas_range in range(16):
        v = (1340 + 5 * _GAS_ERROR) * (1 + _K1.get(gas_range, 0) / 100)
        scale = (1 + _K2.get(gas_range, 0) / 100) * 0.000_000_125 * (1 << gas_range)
        raw = round((1 / (ohm * scale) - 1) * v + 512)
        if raw <= 1023:
            return max(raw, 0), gas_range
    return 1023, 15


def _plate(celsius: float) -> float:
    """The register's value for a temperature of the hot plate (section 3.3.5, floating point)."""
    g1, g2, g3 = _G
    v4 = (g1 / 16 + 49) * (1 + (g2 / 32_768 * 0.0005 + 0.00235) * celsius)
    v5 = v4 + g3 / 1024 * _AMBIENT
    return 3.4 * (v5 * 4 / (4 + _PLATE_RANGE) / (1 + _PLATE_VALUE * 0.002) - 25)
