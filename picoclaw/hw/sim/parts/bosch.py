"""Bosch's parts. Each turns its weather into raw values with the datasheet's *floating-point* formulas, so that the
driver's integer ones are really put to work, and checked.
"""

import struct
from collections.abc import Callable

from picoclaw.hw.sim.scene import Scene

# Trimming values: temperature and pressure from the worked example in Bosch's BMP280 datasheet (BST-BMP280-DS001,
# section 3.12), humidity as read from a part.
_T = (27_504, 26_435, -1000)
_P = (36_477, -10_685, 3024, 2855, 140, -7, 15_500, -14_600, 6000)
_H = (75, 370, 0, 313, 50, 30)

_ID, _RESET, _CTRL_HUM, _STATUS, _CTRL_MEAS = 0xD0, 0xE0, 0xF2, 0xF3, 0xF4
_WRITABLE = {_CTRL_HUM, _CTRL_MEAS, 0xF5}
_MEASUREMENT_S = 0.0093


class SimBME280:
    """A BME280 that sleeps, measures when told to, and keeps its results until the next measurement."""

    def __init__(self, scene: Scene) -> None:
        """Measures temperature, humidity and pressure of the scene."""
        self._clock = scene.now
        self._scene = scene
        self._pointer = 0
        self._registers = bytearray(256)
        self._oversample_humidity = 0
        self._done_at = 0.0
        self._reset()

    def write(self, data: bytes) -> None:
        """Register address, then pairs of value and further register address (page 34, no auto-increment)."""
        if not data:
            return
        self._pointer = data[0]
        for register, value in zip((data[0], *data[2::2]), data[1::2], strict=False):
            self._store(register, value)

    def read(self, length: int) -> bytes:
        """Bytes from the register pointer on."""
        self._registers[_STATUS] = 0x08 if self._clock() < self._done_at else 0
        found = bytes(self._registers[(self._pointer + i) & 0xFF] for i in range(length))
        self._pointer = (self._pointer + length) & 0xFF
        return found

    def _reset(self) -> None:
        self._registers[:] = bytes(256)
        self._registers[_ID] = 0x60
        self._registers[0x88:0xA0] = struct.pack("<Hhh H8h", *_T, *_P)
        self._registers[0xA1] = _H[0]
        h4, h5 = _H[3], _H[4]
        shared = (h4 & 0x0F) | (h5 & 0x0F) << 4
        self._registers[0xE1:0xE8] = struct.pack("<hBbBbb", _H[1], _H[2], h4 >> 4, shared, h5 >> 4, _H[5])
        self._results(0x80000, 0x80000, 0x8000)
        self._oversample_humidity = 0

    def _store(self, register: int, value: int) -> None:
        if register == _RESET and value == 0xB6:
            self._reset()
        elif register in _WRITABLE:
            self._registers[register] = value
        if register == _CTRL_MEAS:
            self._oversample_humidity = self._registers[_CTRL_HUM] & 0b111
            self._measure(value)

    def _measure(self, control: int) -> None:
        if not control & 0b11:
            return
        scene = self._scene
        temperature, humidity = scene.get("temperature", 21.0), scene.get("humidity", 50.0)
        pressure = scene.get("pressure", 1013.25)
        raw_t = _invert(lambda raw: _celsius(raw)[0], temperature, 20)
        fine = _celsius(raw_t)[1]
        raw_p = _invert(lambda raw: -_hectopascal(raw, fine), -pressure, 20)
        raw_h = _invert(lambda raw: _relative(raw, fine), humidity, 16)
        self._results(
            raw_t if control >> 5 else 0x80000,
            raw_p if control >> 2 & 0b111 else 0x80000,
            raw_h if self._oversample_humidity else 0x8000,
        )
        self._done_at = self._clock() + _MEASUREMENT_S
        self._registers[_CTRL_MEAS] = control & ~0b11 if control & 0b11 != 0b11 else control

    def _results(self, temperature: int, pressure: int, humidity: int) -> None:
        packed = (pressure << 4).to_bytes(3, "big") + (temperature << 4).to_bytes(3, "big")
        self._registers[0xF7:0xFF] = packed + humidity.to_bytes(2, "big")


def _invert(rising: Callable[[int], float], wanted: float, bits: int) -> int:
    """Find the raw value whose compensated value is the wanted one, by bisection of a rising function."""
    low, high = 0, (1 << bits) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rising(middle) < wanted else (low, middle)
    return low


def _celsius(raw: int) -> tuple[float, float]:
    """Temperature and t_fine (page 53, section 8.1, double precision)."""
    t1, t2, t3 = _T
    first = (raw / 16_384 - t1 / 1024) * t2
    fine = first + (raw / 131_072 - t1 / 8192) ** 2 * t3
    return fine / 5120, fine


def _hectopascal(raw: int, fine: float) -> float:
    p1, p2, p3, p4, p5, p6, p7, p8, p9 = _P
    v1 = fine / 2 - 64_000
    v2 = (v1 * v1 * p6 / 32_768 + v1 * p5 * 2) / 4 + p4 * 65_536
    v1 = (1 + (p3 * v1 * v1 / 524_288 + p2 * v1) / 524_288 / 32_768) * p1
    pressure = (1_048_576 - raw - v2 / 4096) * 6250 / v1
    return (pressure + (p9 * pressure * pressure / 2_147_483_648 + pressure * p8 / 32_768 + p7) / 16) / 100


def _relative(raw: int, fine: float) -> float:
    h1, h2, h3, h4, h5, h6 = _H
    v = fine - 76_800
    v = (raw - (h4 * 64 + h5 / 16_384 * v)) * (h2 / 65_536 * (1 + h6 / 67_108_864 * v * (1 + h3 / 67_108_864 * v)))
    return min(max(v * (1 - h1 * v / 524_288), 0.0), 100.0)
