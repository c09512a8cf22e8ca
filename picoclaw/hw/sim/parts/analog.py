"""Simulated voltmeters and light meters: MCP3008, ADS1115, INA219, INA226, BH1750 and VEML7700."""

import math
from collections.abc import Generator, Sequence
from typing import ClassVar

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts import Converter, WordRegisters, clamp, decode_signed, encode_signed
from picoclaw.hw.sim.script import Scene

# Microchip's MCP3008, clocked bit by bit as its datasheet DS21295 draws it (figures 5-1 and 5-2).

_STEPS = 1024
_HIGH_IMPEDANCE = 1  # what a pulled-up line reads while the part does not drive it


class SimMCP3008:
    """Waits for the start bit, takes four bits of configuration, samples, and sends the value twice."""

    def __init__(self, scene: Scene, reference: float = 3.3) -> None:
        """Measures `voltage a0` to `voltage a7` of the scene in V; `reference` is the voltage at VREF in V."""
        self._scene = scene
        self._reference = reference

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:  # noqa: ARG002
        chip = self._clocked()
        out = next(chip)
        bits = []
        for position in range(8 * len(data)):
            bits.append(out)
            out = chip.send(data[position // 8] >> (7 - position % 8) & 1)
        return bytes(sum(bit << (7 - i) for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))

    def _clocked(self) -> Generator[int, int, None]:
        """Yield the level of DOUT for each clock, and be sent DIN of that clock."""
        while not (yield _HIGH_IMPEDANCE):
            pass
        configuration = 0  # SGL/DIFF, D2, D1, D0
        for _ in range(4):
            configuration = configuration << 1 | (yield _HIGH_IMPEDANCE)
        yield _HIGH_IMPEDANCE
        value = self._convert(configuration & 0b111, single=bool(configuration & 0b1000))
        msb_first = f"{value:010b}"
        for bit in f"0{msb_first}{msb_first[-2::-1]}":
            yield int(bit)
        while True:
            yield 0

    def _convert(self, channel: int, *, single: bool) -> int:
        volts = self._scene.get(f"voltage a{channel}", self._reference / 2)
        if not single:  # table 5-2: the neighbour is IN-
            volts -= self._scene.get(f"voltage a{channel ^ 1}", self._reference / 2)
        return int(clamp(volts / self._reference * _STEPS, 0, _STEPS - 1))


# Texas Instruments' voltmeters: ADS1115 (SBAS444), INA219 (SBOS448) and INA226 (SBOS547).

_FULL_SCALES = (6.144, 4.096, 2.048, 1.024, 0.512, 0.256, 0.256, 0.256)
_RATES = (8, 16, 32, 64, 128, 250, 475, 860)
# Table Config Register Field Descriptions: positive and negative input of each MUX setting; None is ground.
_INPUTS: Sequence[tuple[int, int | None]] = (
    *((0, 1), (0, 3), (1, 3), (2, 3)),
    *((0, None), (1, None), (2, None), (3, None)),
)
_ADS_OS, _ADS_SINGLE = 0x8000, 0x0100


class SimADS1115(WordRegisters):
    """An ADS1115, powered down until a conversion is asked for; `voltage a0` to `voltage a3` are at its inputs."""

    power_on: ClassVar = {0: 0x0000, 1: 0x0583, 2: 0x8000, 3: 0x7FFF}
    writable: ClassVar = {1: 0x7FFF, 2: 0xFFFF, 3: 0xFFFF}
    pointer_mask = 0b11
    is_asleep_at_power_on = True

    def period(self) -> float:
        """By the data rate; none in single-shot mode."""
        config = self.registers[1]
        return math.inf if config & _ADS_SINGLE else 1 / _RATES[config >> 5 & 0b111]

    def measure(self) -> None:
        """A difference of two inputs, in parts of the range."""
        config = self.registers[1]
        plus, minus = _INPUTS[config >> 12 & 0b111]
        volts = self._volts(plus) - (0.0 if minus is None else self._volts(minus))
        self.registers[0] = encode_signed(volts / _FULL_SCALES[config >> 9 & 0b111] * 0x8000, 16)

    def stored(self, register: int, value: int) -> None:
        """Convert continuously, or once when asked to and nothing is under way."""
        if register != 1:
            return
        if not value & _ADS_SINGLE or (value & _ADS_OS and not self.measuring):
            self.begin(1 / _RATES[value >> 5 & 0b111])
        elif not self.measuring:
            self.halt()

    def load(self, register: int) -> int:
        """Bit 15 of the configuration is 1 while nothing is converted."""
        word = super().load(register)
        return word | _ADS_OS if register == 1 and not self.measuring else word

    def _volts(self, channel: int) -> float:
        return self.scene.get(f"voltage a{channel}", 0.5 + 0.5 * channel)


class _PowerMonitor(WordRegisters):
    """What INA219 and INA226 share: a shunt and a bus voltage, and a current and a power worked out from them.

    They take the scene's `voltage` and `current`, and measure from power-on.
    """

    shunt_ohms = 0.1
    ready = overflow = False
    current_divisor: ClassVar[int]
    """Of the shunt voltage times the calibration register."""

    def period(self) -> float:
        """Again and again in the continuous modes, 5 to 7."""
        return self.conversion() if self.registers[0] & 0b111 > 4 else math.inf

    def conversion(self) -> float:
        """How long one measurement takes, in seconds."""
        raise NotImplementedError

    def stored(self, register: int, value: int) -> None:
        if register != 0:
            return
        if value & 0x8000:
            self.registers = dict(self.power_on)
        if self.registers[0] & 0b111 in {0, 4}:
            self.halt()
        else:
            self.ready = False
            self.begin(self.conversion())

    def measure(self) -> None:
        """Take both voltages, as far as the mode wants them; current and power by the calibration."""
        mode = self.registers[0] & 0b111
        if mode & 0b01:
            self.registers[1] = self.shunt(self.scene.get("current", 0.25) * self.shunt_ohms)
        if mode & 0b10:
            self.registers[2] = self.bus(self.scene.get("voltage", 5.0))
        self.ready = True
        current = decode_signed(self.registers[1]) * self.registers[5] / self.current_divisor
        power = self.power(abs(current))
        self.overflow = abs(current) > 0x7FFF or power > 0xFFFF
        self.registers[4], self.registers[3] = encode_signed(current, 16), min(round(power), 0xFFFF)

    def shunt(self, volts: float) -> int:
        raise NotImplementedError

    def bus(self, volts: float) -> int:
        raise NotImplementedError

    def power(self, current: float) -> float:
        raise NotImplementedError


_INA219_SAMPLES_S = (84e-6, 148e-6, 276e-6, 532e-6)


class SimINA219(_PowerMonitor):
    current_divisor = 4096
    power_on: ClassVar = {0: 0x399F, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}
    writable: ClassVar = {0: 0x3FFF, 5: 0xFFFE}

    def conversion(self) -> float:
        """Both times, one after the other; a code with bit 3 is a number of samples, else a resolution."""
        codes = (self.registers[0] >> 7 & 0xF, self.registers[0] >> 3 & 0xF)
        return sum(532e-6 * (1 << (c & 0b111)) if c & 0b1000 else _INA219_SAMPLES_S[c & 0b11] for c in codes)

    def shunt(self, volts: float) -> int:
        """10 µV, held to 40 mV times the gain."""
        end = 4000 << (self.registers[0] >> 11 & 0b11)
        return round(clamp(volts / 10e-6, -end, end)) & 0xFFFF

    def bus(self, volts: float) -> int:
        """4 mV, above three bits of flags, held to 16 or 32 V."""
        end = 8000 if self.registers[0] & 0x2000 else 4000
        return round(clamp(volts / 4e-3, 0, end)) << 3

    def power(self, current: float) -> float:
        return current * (self.registers[2] >> 3) / 5000

    def load(self, register: int) -> int:
        """The bus voltage comes with its flags; reading the power clears 'ready'."""
        word = super().load(register)
        if register == 3:
            self.ready = False
        return word | self.ready << 1 | int(self.overflow) if register == 2 else word


_INA226_AVERAGES = (1, 4, 16, 64, 128, 256, 512, 1024)
_INA226_SAMPLES_S = (140e-6, 204e-6, 332e-6, 588e-6, 1.1e-3, 2.116e-3, 4.156e-3, 8.244e-3)
_INA226_MASK = 6


class SimINA226(_PowerMonitor):
    current_divisor = 2048
    power_on: ClassVar = {0: 0x4127, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, _INA226_MASK: 0, 7: 0, 0xFE: 0x5449, 0xFF: 0x2260}
    writable: ClassVar = {0: 0x0FFF, 5: 0x7FFF, _INA226_MASK: 0xFC03, 7: 0xFFFF}

    def conversion(self) -> float:
        """Both times, for each of the samples that are averaged."""
        config = self.registers[0]
        both = _INA226_SAMPLES_S[config >> 6 & 0b111] + _INA226_SAMPLES_S[config >> 3 & 0b111]
        return _INA226_AVERAGES[config >> 9 & 0b111] * both

    def shunt(self, volts: float) -> int:
        """2.5 µV."""
        return encode_signed(volts / 2.5e-6, 16)

    def bus(self, volts: float) -> int:
        """1.25 mV, held to 15 bits."""
        return round(clamp(volts / 1.25e-3, 0, 0x7FFF))

    def power(self, current: float) -> float:
        return current * self.registers[2] / 20_000

    def load(self, register: int) -> int:
        """Mask/Enable comes with its flags, and reading it clears 'ready'."""
        word = super().load(register)
        if register == _INA226_MASK:
            word |= self.ready << 3 | self.overflow << 2
            self.ready = False
        return word


# Light meters: ROHM's BH1750FVI (technical note 11046EDT01), Vishay's VEML7700 (84286, and 84323 for its curve).


class SimBH1750(Converter):
    """A BH1750FVI: single bytes are its commands, two bytes its result."""

    # Typical times for a measuring time of 69, by the lower two bits of the mode.
    _TYPICAL_S = (0.12, 0.12, 0.016, 0.016)
    is_asleep_at_power_on = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.mode = 0
        self.time = 69
        self._result = 0

    def write(self, data: bytes) -> None:
        self.catch_up()
        for command in data:
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
    is_asleep_at_power_on = True

    def _seconds(self) -> float:
        return _TIMES_S.get(self.registers[0] >> 6 & 0xF, 0.1)

    def period(self) -> float:
        """The integration time, and what the power saving mode adds; none while shut down."""
        saving = self.registers[3]
        pause = 0.5 * (1 << (saving >> 1 & 0b11)) if saving & 1 else 0.0
        return math.inf if self.registers[0] & 1 else self._seconds() + pause

    def stored(self, register: int, value: int) -> None:
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
