"""InvenSense's MPU-6050 (RM-MPU-6000A-00, revision 4.2): an accelerometer, a gyroscope and a thermometer."""

import struct

from picoclaw.hw.sim.parts.words import ByteRegisters, encode_signed
from picoclaw.hw.sim.scene import Scene

_RATE_DIVIDER, _CONFIG, _GYRO_CONFIG, _ACCEL_CONFIG = 0x19, 0x1A, 0x1B, 0x1C
_STATUS, _DATA, _POWER_1, _POWER_2, _FIFO, _WHO_AM_I = 0x3A, 0x3B, 0x6B, 0x6C, 0x74, 0x75
_READ_ONLY = {*range(_STATUS, 0x49), _WHO_AM_I}
_RESET, _SLEEP, _TEMPERATURE_OFF = 0x80, 0x40, 0x08
_START_S = 0.03
_STANDARD_GRAVITY = 9.80665


class SimMPU6050(ByteRegisters):
    """An MPU-6050, asleep from power-on; lies flat unless the scene says otherwise."""

    size = 0x76

    def __init__(self, scene: Scene) -> None:
        """Has its power-on values."""
        super().__init__(scene)
        self._reset()

    def _reset(self) -> None:
        self.registers[:] = bytes(self.size)
        self.registers[_POWER_1] = _SLEEP
        self.registers[_WHO_AM_I] = 0x68
        self.halt()

    def store(self, register: int, value: int) -> None:
        """Reset, sleep, wake, or just remember."""
        if register == _POWER_1 and value & _RESET:
            self._reset()
            return
        if register >= self.size or register in _READ_ONLY:
            return
        asleep = self.registers[_POWER_1] & _SLEEP
        self.registers[register] = value
        if register == _POWER_1 and value & _SLEEP:
            self.halt()
        elif register == _POWER_1 and asleep:
            self.begin(_START_S)

    def load(self, register: int) -> int:
        """Reading the interrupt status clears it."""
        value = super().load(register)
        if register == _STATUS:
            self.registers[_STATUS] = 0
        return value

    def next(self, register: int) -> int:
        """The FIFO is read without moving on."""
        return register if register == _FIFO else super().next(register)

    def period(self) -> float:
        """8 kHz, or 1 kHz behind the low-pass filter, divided."""
        filtered = self.registers[_CONFIG] & 0b111 not in {0, 7}
        return (1 + self.registers[_RATE_DIVIDER]) / (1000 if filtered else 8000)

    def measure(self) -> None:
        """Take what is not in standby."""
        standby = self.registers[_POWER_2]
        words = list(struct.unpack_from(">7H", self.registers, _DATA))
        for i, axis in enumerate("xyz"):
            if not standby >> 5 - i & 1:
                words[i] = self._acceleration(axis)
            if not standby >> 2 - i & 1:
                words[4 + i] = self._rotation(axis)
        if not self.registers[_POWER_1] & _TEMPERATURE_OFF:
            words[3] = encode_signed((self.scene.get("temperature", 21.0) - 36.53) * 340, 16)
        struct.pack_into(">7H", self.registers, _DATA, *words)
        self.registers[_STATUS] |= 0x01

    def _acceleration(self, axis: str) -> int:
        usual = _STANDARD_GRAVITY if axis == "z" else 0.0
        full_scale = 2 * _STANDARD_GRAVITY * 2 ** (self.registers[_ACCEL_CONFIG] >> 3 & 0b11)
        return encode_signed(self.scene.get(f"acceleration {axis}", usual) / full_scale * 32_768, 16)

    def _rotation(self, axis: str) -> int:
        per_degree = (131.0, 65.5, 32.8, 16.4)[self.registers[_GYRO_CONFIG] >> 3 & 0b11]
        return encode_signed(self.scene.get(f"rotation {axis}", 0.0) * per_degree, 16)
