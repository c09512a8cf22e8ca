"""Simulated climate and gas sensors: SHT3x, SHT4x, SCD41, SGP30, SGP40 (Sensirion), AHT20, AHT10 (Aosong), HTU21D (TE), BME280, BME680, BMP180 (Bosch).

Raw values of Bosch's come from the datasheets' floating-point formulas, so that they check the driver's integer ones.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from picoclaw.hw.sim import Nack
from picoclaw.hw.sim.parts import ByteRegisters, clamp
from picoclaw.hw.sim.script import Scene

Words = list[int]
Handler = Callable[[list[int]], Words]


def _make_crc_table() -> bytes:
    """CRC-8 of each byte with the polynomial x^8 + x^5 + x^4 + 1, by long division."""
    rests = []
    for byte in range(256):
        rest = byte << 8
        for bit in range(15, 7, -1):
            rest ^= (rest >> bit & 1) * (0x131 << bit - 8)
        rests.append(rest)
    return bytes(rests)


_CRC_TABLE = _make_crc_table()


def compute_checksum(data: bytes, start: int = 0xFF) -> int:
    """Checksum of some bytes; Sensirion's older parts start at 0."""
    for byte in data:
        start = _CRC_TABLE[start ^ byte]
    return start


def append_checksums(words: Sequence[int]) -> bytes:
    pairs = [word.to_bytes(2, "big") for word in words]
    return b"".join(pair + bytes([compute_checksum(pair)]) for pair in pairs)


def scale_to_word(value: float, low: float, high: float) -> int:
    """The 16-bit word that stands for a value between the ends of a part's scale."""
    return round(clamp((value - low) / (high - low) * 65_535, 0, 65_535))


class _BusyPart:
    """A part that is busy for a while after a command, and then answers it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._busy_until = 0.0
        self._answer = b""

    def read(self, length: int) -> bytes:
        """Answer the last command, once; what is read beyond the answer is a released line."""
        self._free()
        if not self._answer:
            raise Nack
        answer, self._answer = self._answer, b""
        return answer.ljust(length, b"\xff")[:length]

    def _free(self) -> None:
        if self.scene.now() < self._busy_until:
            raise Nack


class CommandPart(_BusyPart):
    """A part that is given commands of `width` bytes and answers with words."""

    width = 2
    power_on: ClassVar[Mapping[Any, int]] = {}
    """Its settings after power-on; see `_keep`."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.period = 0.0
        """Seconds between two measurements, 0 when the part does not measure by itself."""
        self._began = 0.0
        self._fetched = 0
        self._settings = dict(self.power_on)
        self._commands = self.commands()

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """By command: for how many seconds the part is busy, and what it does with its arguments."""
        raise NotImplementedError

    def begin(self, period: float) -> Handler:
        """Return what begins to measure every `period` seconds; 0 ends it."""

        def begin(_: list[int]) -> Words:
            self.period, self._began, self._fetched = period, self.scene.now(), 0
            return []

        return begin

    def has_new(self, *, fetch: bool = False) -> bool:
        """Whether a measurement is over that has not been fetched; `fetch` it."""
        done = int((self.scene.now() - self._began) / self.period) if self.period else 0
        is_new, self._fetched = done > self._fetched, done if fetch else self._fetched
        return is_new

    def _keep(self, name: Hashable) -> Handler:
        """Return what sets a setting to its argument, or without one tells it."""

        def keep(arguments: list[int]) -> Words:
            if arguments:
                self._settings[name] = arguments[0]
                return []
            return [self._settings[name]]

        return keep

    def refuses(self, command: int) -> bool:  # noqa: ARG002
        """Tell whether the part does not take this command in the state that it is in."""
        return False

    def write(self, data: bytes) -> None:
        if not data:
            return
        self._free()
        command = int.from_bytes(data[: self.width], "big")
        if len(data) < self.width or command not in self._commands or self.refuses(command):
            raise Nack
        rest = data[self.width :]
        arguments = [int.from_bytes(rest[i : i + 2], "big") for i in range(0, len(rest), 3)]
        if append_checksums(arguments) != rest:
            raise Nack
        seconds, handler = self._commands[command]
        self._answer = append_checksums(handler(arguments))
        self._busy_until = self.scene.now() + seconds


def do_nothing(arguments: list[int]) -> Words:  # noqa: ARG001
    return []


_SINGLE_SHOT = {0x2400: 0.015, 0x240B: 0.006, 0x2416: 0.004}
_CLOCK_STRETCHED = (0x2C06, 0x2C0D, 0x2C10)  # the clock would be held until the result is there, so it is there at once
_PERIODS = {
    **dict.fromkeys((0x2032, 0x2024, 0x202F), 2.0),
    **dict.fromkeys((0x2130, 0x2126, 0x212D), 1.0),
    **dict.fromkeys((0x2236, 0x2220, 0x222B), 0.5),
    **dict.fromkeys((0x2334, 0x2322, 0x2329, 0x2B32), 0.25),
    **dict.fromkeys((0x2737, 0x2721, 0x272A), 0.1),
}
_LIMITS = {(0xE11F, 0x611D): 0xCD33, (0xE114, 0x6116): 0xC92D, (0xE109, 0x610B): 0x3869, (0xE102, 0x6100): 0x3466}
_FETCH, _BREAK, _STATUS = 0xE000, 0x3093, 0xF32D
_ALERT, _HEATER, _WAS_RESET = 1 << 15, 1 << 13, 1 << 4


class SimSHT3x(CommandPart):
    """An SHT3x: measures once or continuously; alert limits are kept, and never exceeded."""

    power_on = _LIMITS

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._status = _ALERT | _WAS_RESET

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section 4 of the SHT3x-DIS datasheet."""
        return {
            **{command: (seconds, self._measured) for command, seconds in _SINGLE_SHOT.items()},
            **dict.fromkeys(_CLOCK_STRETCHED, (0.0, self._measured)),
            **{command: (0.0, self.begin(seconds)) for command, seconds in _PERIODS.items()},
            **{command: (0.0, self._keep(pair)) for pair in _LIMITS for command in pair},
            _FETCH: (0.0, lambda _: self._measured(_) if self.has_new(fetch=True) else []),
            _BREAK: (0.001, self.begin(0.0)),
            _STATUS: (0.0, lambda _: [self._status]),
            0x3041: (0.0, self._mark(0, _ALERT | _WAS_RESET)),
            0x306D: (0.0, self._mark(_HEATER, 0)),
            0x3066: (0.0, self._mark(0, _HEATER)),
            0x30A2: (0.0015, self._reset),
        }

    def refuses(self, command: int) -> bool:
        """A part that measures continuously takes no measuring command and no reset."""
        return bool(self.period) and command in {*_SINGLE_SHOT, *_CLOCK_STRETCHED, *_PERIODS, 0x30A2}

    def _measured(self, _: list[int]) -> Words:
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, scale_to_word(self.scene.get("humidity", 50.0), 0, 100)]

    def _mark(self, bits: int, clear: int) -> Handler:
        def mark(_: list[int]) -> Words:
            self._status = self._status & ~clear | bits
            return []

        return mark

    def _reset(self, _: list[int]) -> Words:
        self._settings, self._status = dict(self.power_on), _ALERT | _WAS_RESET
        return []


class SimSHT4x(CommandPart):
    """An SHT4x, whose commands are single bytes; its heater heats nothing here."""

    width = 1

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Command overview" of the SHT4x datasheet."""
        heaters = {0x39: 1.1, 0x32: 0.11, 0x2F: 1.1, 0x24: 0.11, 0x1E: 1.1, 0x15: 0.11}
        times = {0xFD: 0.0083, 0xF6: 0.0045, 0xE0: 0.0016, **heaters}
        return {
            **{command: (seconds, self._measured) for command, seconds in times.items()},
            0x89: (0.0, lambda _: [0x0F0A, 0x1B2C]),
            0x94: (0.001, do_nothing),
        }

    def _measured(self, _: list[int]) -> Words:
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, scale_to_word(self.scene.get("humidity", 50.0), -6, 119)]


# Sensirion's gas sensors SCD41, SGP30 and SGP40.

_SERIAL = [0xF896, 0x9F07, 0x3BBE]
_SELF_TEST_PASSED = 0xD400


class SimSCD4x(CommandPart):
    """An SCD41: idle or measuring each 5 s (30 s with low power); it takes few commands while it measures."""

    power_on = MappingProxyType({"offset": 0x05D9, "altitude": 0, "calibration": 1})

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Digital interface description" of the SCD4x datasheet."""
        settings = {"offset": (0x2318, 0x241D), "altitude": (0x2322, 0x2427), "calibration": (0x2313, 0x2416)}
        return {
            0x21B1: (0.0, self.begin(5.0)),
            0x21AC: (0.0, self.begin(30.0)),
            0x3F86: (0.5, self.begin(0.0)),
            0xEC05: (0.001, self._measurement),
            0xE4B8: (0.001, lambda _: [0x8006 if self.has_new() else 0x8000]),
            0xE000: (0.001, do_nothing),
            0x3682: (0.001, lambda _: _SERIAL),
            0x202F: (0.001, lambda _: [0x1440]),
            **{command: (0.001, self._keep(name)) for name, pair in settings.items() for command in pair},
            0x3646: (0.03, do_nothing),
        }

    def refuses(self, command: int) -> bool:
        """Section 3.5: four commands and no other are taken while the part measures."""
        return bool(self.period) and command not in {0x3F86, 0xEC05, 0xE4B8, 0xE000}

    def _measurement(self, _: list[int]) -> Words:
        if not self.has_new(fetch=True):
            return []
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        co2 = round(clamp(self.scene.get("co2", 600), 0, 40_000))
        return [co2, temperature, scale_to_word(self.scene.get("humidity", 50.0), 0, 100)]


class SimSGP30(CommandPart):
    """An SGP30, which shows 400 ppm and 0 ppb until 15 s after its algorithm was started."""

    def __init__(self, scene: Scene) -> None:
        """Measures CO2 (that is, shows it as its estimate) and tvoc of the scene."""
        super().__init__(scene)
        self._started: float | None = None
        self._baseline = [0x8A3C, 0x8F12]

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Measurement communication sequence" of the SGP30 datasheet."""
        return {
            0x2003: (0.010, self._start),
            0x2008: (0.012, self._measured),
            0x2015: (0.010, lambda _: self._baseline),
            0x201E: (0.010, self._restore),
            0x2061: (0.010, do_nothing),
            0x2032: (0.220, lambda _: [_SELF_TEST_PASSED]),
            0x202F: (0.010, lambda _: [0x0022]),
            0x2050: (0.025, lambda _: [13_119, 18_472]),
            0x3682: (0.0005, lambda _: [0x0000, 0x0123, 0x4567]),
        }

    def _start(self, _: list[int]) -> Words:
        self._started = self.scene.now()
        return []

    def _restore(self, arguments: list[int]) -> Words:
        self._baseline = arguments[::-1]  # they are set in the other order than they are read
        return []

    def _measured(self, _: list[int]) -> Words:
        if self._started is None or self.scene.now() - self._started <= 15:
            return [400, 0]
        co2, tvoc = clamp(self.scene.get("co2", 600), 400, 60_000), clamp(self.scene.get("tvoc", 35), 0, 60_000)
        return [round(co2), round(tvoc)]


class SimSGP40(CommandPart):
    """An SGP40, whose signal is far too high until its sensor has been heated for a while."""

    def __init__(self, scene: Scene) -> None:
        """Shows the ticks `raw` of the scene."""
        super().__init__(scene)
        self._heated_from: float | None = None

    @property
    def hot(self) -> bool:
        return self._heated_from is not None

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "I2C commands" of the SGP40 datasheet."""
        return {
            0x260F: (0.030, self._measured),
            0x280E: (0.320, lambda _: [_SELF_TEST_PASSED]),
            0x3615: (0.001, self._cool),
            0x3682: (0.001, lambda _: [0x0000, 0x00B1, 0xC2D3]),
        }

    def _measured(self, arguments: list[int]) -> Words:
        now = self.scene.now()
        if self._heated_from is None:
            self._heated_from = now
        ticks = round(clamp(self.scene.get("raw", 30_000), 0, 65_535)) if len(arguments) == 2 else 0
        return [ticks if now - self._heated_from >= 0.140 else min(ticks + 8000, 65_535)]

    def _cool(self, _: list[int]) -> Words:
        self._heated_from = None
        return []


# Climate sensors of other makers: AHT20 and AHT10 (Aosong), HTU21D (TE).

_BUSY, _CALIBRATED = 0x80, 0x08


class SimAHT20:
    """An AHT20: is told to measure, is busy for 80 ms, then shows status, 40 bits and a checksum."""

    initialisation = 0xBE
    """The command that turns the calibration on."""
    checked = True
    """Whether a checksum follows the measurement."""

    def __init__(self, scene: Scene, status: int = 0x18) -> None:
        """Measures temperature and humidity of the scene; `status` is that after power-on, 0x18 from the factory."""
        self._scene = scene
        self._status = status
        self._done_at = 0.0
        self._data = bytes(5)

    def write(self, data: bytes) -> None:
        now = self._scene.now()
        if data[:1] == b"\xac" and len(data) == 3:
            self._data = self._measured()
            self._done_at = now + 0.075
        elif data[:1] == bytes([self.initialisation]):
            self._status |= _CALIBRATED
            self._done_at = now + 0.01
        elif data[:1] == b"\xba":
            self._done_at = now + 0.02
        elif data[:1] not in {b"", b"\x71"}:
            raise Nack

    def read(self, length: int) -> bytes:
        """Status, measurement, checksum, and then a released line."""
        busy = _BUSY if self._scene.now() < self._done_at else 0
        answer = bytes([self._status | busy]) + self._data
        if self.checked:
            answer += bytes([compute_checksum(answer)])
        return answer.ljust(length, b"\xff")[:length]

    def _measured(self) -> bytes:
        humidity = self._scene.get("humidity", 50.0) / 100
        temperature = (self._scene.get("temperature", 21.0) + 50) / 200
        codes = [round(clamp(part * 2**20, 0, 2**20 - 1)) for part in (humidity, temperature)]
        return (codes[0] << 20 | codes[1]).to_bytes(5, "big")


class SimAHT10(SimAHT20):
    """An AHT10, which has another command for its initialisation and no checksum."""

    initialisation = 0xE1
    checked = False


_TEMPERATURE, _HUMIDITY, _USER, _SERIAL_COMMANDS = (0xF3, 0xE3), (0xF5, 0xE5), 0xE7, (b"\xfa\x0f", b"\xfc\xc9")
_WRITABLE = 0b1000_0111  # of the user register; the others show the supply or are reserved
_POWER_ON = 0x02


class SimHTU21D(_BusyPart):
    """An HTU21D: commands of one byte, words with a checksum that starts at 0, a user register."""

    serial = (bytes.fromhex("0012ab34"), b"21", b"HT")
    """The electronic serial number in the order of its three groups: SNB, SNC, SNA."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._user = _POWER_ON

    def write(self, data: bytes) -> None:
        """Take a command; one that holds the clock has its result at once, the others let the reader be refused."""
        if not data:
            return
        self._free()
        command, now = data[0], self.scene.now()
        if command in _TEMPERATURE:
            self._busy_until = now + (0.05 if command == _TEMPERATURE[0] else 0)
            self._answer = self._word((self.scene.get("temperature", 21.0) + 46.85) / 175.72, 0b00)
        elif command in _HUMIDITY:
            self._busy_until = now + (0.016 if command == _HUMIDITY[0] else 0)
            self._answer = self._word((self.scene.get("humidity", 50.0) + 6) / 125, 0b10)
        elif command == _USER:
            self._answer = bytes([self._user])
        elif command == 0xE6 and len(data) == 2:
            self._user = self._user & ~_WRITABLE | data[1] & _WRITABLE
        elif data in _SERIAL_COMMANDS:
            self._answer = self._number(_SERIAL_COMMANDS.index(data))
        elif command == 0xFE:
            self._user, self._busy_until = _POWER_ON | self._user & 0x04, now + 0.015
        else:
            raise Nack

    @staticmethod
    def _word(part: float, status: int) -> bytes:
        raw = round(clamp(part * 65_536, 0, 65_535)) & ~0b11 | status
        return _append_crc(raw.to_bytes(2, "big"))

    def _number(self, half: int) -> bytes:
        first, *second = self.serial
        groups = [bytes([byte]) for byte in first] if half == 0 else second
        return b"".join(map(_append_crc, groups))


def _append_crc(data: bytes) -> bytes:
    return data + bytes([compute_checksum(data, 0)])


class SimSi7021(SimHTU21D):
    """A Si7021, as far as it is told apart from an HTU21D."""

    serial = (bytes.fromhex("9a8b7c6d"), b"\x15\xff", b"\xff\xff")


# All codes of Bosch's converters but the highest, which is what a search that finds nothing ends at.
_CODES_20, _CODES_16 = range((1 << 20) - 1), range((1 << 16) - 1)


class _BoschPart(ByteRegisters):
    """Writes come in pairs of a register's address and a value (no auto-increment), reads go on from the address.

    A conversion's results appear in the data registers when its time is over; 0xB6 in register 0xE0 is a reset.
    """

    is_asleep_at_power_on = True
    data_at: ClassVar[int]
    """The first data register."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.results = b""
        self.reset()

    def reset(self) -> None:
        """Bring the registers to their power-on values."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        self.catch_up()
        if data:
            self.pointer = data[0]
        for register, value in zip((*data[:1], *data[2::2]), data[1::2], strict=False):
            if register == 0xE0 and value == 0xB6:
                self.results = b""
                self.halt()
                self.registers[:] = bytes(256)
                self.reset()
            else:
                self.store(register, value)

    def measure(self) -> None:
        self.registers[self.data_at : self.data_at + len(self.results)] = self.results


# Trimming values: temperature and pressure from the worked example in Bosch's BMP280 datasheet (BST-BMP280-DS001,
# section 3.12), humidity as read from a part.
_BME280_T = (27_504, 26_435, -1000)
_BME280_P = (36_477, -10_685, 3024, 2855, 140, -7, 15_500, -14_600, 6000)
_BME280_H = (75, 370, 0, 313, 50, 30)

_BME280_ID, _BME280_CTRL_HUM, _BME280_STATUS, _BME280_CTRL_MEAS = 0xD0, 0xF2, 0xF3, 0xF4
_BME280_WRITABLE = {_BME280_CTRL_HUM, _BME280_CTRL_MEAS, 0xF5}
_BME280_MEASUREMENT_S = 0.0093


class SimBME280(_BoschPart):
    """A BME280 that sleeps, measures when told to, and keeps its results until the next measurement."""

    data_at = 0xF7

    def reset(self) -> None:
        self.registers[_BME280_ID] = 0x60
        self.registers[0x88:0xA0] = struct.pack("<Hhh H8h", *_BME280_T, *_BME280_P)
        h1, h2, h3, h4, h5, h6 = _BME280_H
        self.registers[0xA1] = h1
        shared = (h4 & 0x0F) | (h5 & 0x0F) << 4
        self.registers[0xE1:0xE8] = struct.pack("<hBbBbb", h2, h3, h4 >> 4, shared, h5 >> 4, h6)
        self.registers[0xF7:0xFF] = _pack_bme280(0x80000, 0x80000, 0x8000)
        self._oversample_humidity = 0  # taken over by a write of the other control register

    def load(self, register: int) -> int:
        return 0x08 if register == _BME280_STATUS and self.measuring else super().load(register)

    def store(self, register: int, value: int) -> None:
        if register in _BME280_WRITABLE:
            super().store(register, value)
        if register == _BME280_CTRL_MEAS:
            self._oversample_humidity = self.registers[_BME280_CTRL_HUM] & 0b111
            if value & 0b11:
                self._convert(value)

    def _convert(self, control: int) -> None:
        scene = self.scene
        temperature, humidity = scene.get("temperature", 21.0), scene.get("humidity", 50.0)
        pressure = scene.get("pressure", 1013.25)
        raw_t = bisect_left(_CODES_20, temperature, key=lambda raw: _compensate_bme280_temperature(raw)[0])
        fine = _compensate_bme280_temperature(raw_t)[1]
        raw_p = bisect_left(_CODES_20, -pressure, key=lambda raw: -_compensate_bme280_pressure(raw, fine))
        raw_h = bisect_left(_CODES_16, humidity, key=lambda raw: _compensate_bme280_humidity(raw, fine))
        self.results = _pack_bme280(
            raw_t if control >> 5 else 0x80000,
            raw_p if control >> 2 & 0b111 else 0x80000,
            raw_h if self._oversample_humidity else 0x8000,
        )
        self.measure()  # at once, though it says for a while that it is measuring
        self.begin(_BME280_MEASUREMENT_S)
        self.registers[_BME280_CTRL_MEAS] = control & ~0b11 if control & 0b11 != 0b11 else control


def _pack_bme280(temperature: int, pressure: int, humidity: int) -> bytes:
    packed = (pressure << 4).to_bytes(3, "big") + (temperature << 4).to_bytes(3, "big")
    return packed + humidity.to_bytes(2, "big")


def _compensate_bme280_temperature(raw: int) -> tuple[float, float]:
    """Temperature and t_fine (page 53, section 8.1, double precision)."""
    t1, t2, t3 = _BME280_T
    first = (raw / 16_384 - t1 / 1024) * t2
    fine = first + (raw / 131_072 - t1 / 8192) ** 2 * t3
    return fine / 5120, fine


def _compensate_bme280_pressure(raw: int, fine: float) -> float:
    p1, p2, p3, p4, p5, p6, p7, p8, p9 = _BME280_P
    v1 = fine / 2 - 64_000
    v2 = (v1 * v1 * p6 / 32_768 + v1 * p5 * 2) / 4 + p4 * 65_536
    v1 = (1 + (p3 * v1 * v1 / 524_288 + p2 * v1) / 524_288 / 32_768) * p1
    pressure = (1_048_576 - raw - v2 / 4096) * 6250 / v1
    return (pressure + (p9 * pressure * pressure / 2_147_483_648 + pressure * p8 / 32_768 + p7) / 16) / 100


def _compensate_bme280_humidity(raw: int, fine: float) -> float:
    h1, h2, h3, h4, h5, h6 = _BME280_H
    v = fine - 76_800
    v = (raw - (h4 * 64 + h5 / 16_384 * v)) * (h2 / 65_536 * (1 + h6 / 67_108_864 * v * (1 + h3 / 67_108_864 * v)))
    return min(max(v * (1 - h1 * v / 524_288), 0.0), 100.0)


# Bosch's BME680. Raw values are found by bisection of the datasheet's floating-point formulas.

# Calibration: temperature, pressure and humidity as read from a part; the hot plate's are typical.
_BME680_T = (26_203, 26_519, 3)
_BME680_P = (35_008, -10_284, 88, 9692, -202, 30, 24, -516, -3469, 30)
_BME680_H = (794, 1007, 0, 45, 20, 120, -100)
_BME680_G = (-30, -5969, 18)
_HEATER_RANGE, _HEATER_VALUE, _GAS_ERROR = 1, 46, -2

_BME680_ID, _BME680_STATUS, _HEATER_REGISTER, _HEATER_WAIT = 0xD0, 0x1D, 0x5A, 0x64
_CTRL_GAS_0, _CTRL_GAS_1, _BME680_CTRL_HUM, _BME680_CTRL_MEAS = 0x70, 0x71, 0x72, 0x74
_BME680_WRITABLE = {*range(0x50, 0x6E), *range(0x70, 0x76)}
_NEW_DATA, _GAS_MEASURING, _MEASURING = 0x80, 0x40, 0x20
_AMBIENT, _TIME_TO_HEAT_S = 25.0, 0.03
_LEAST_OHM, _MAX_OHM = 1.0, 1e9
# Per cent by which the gas sensor's ranges deviate.
_K1 = {5: -1.0, 7: -0.8, 10: -0.2, 11: -0.5, 13: -1.0}
_K2 = {4: 0.1, 5: 0.7, 7: -0.8, 8: -0.1}


class SimBME680(_BoschPart):
    """A BME680 that sleeps until it is forced to measure; its plate gets hot when it is told a sensible resistance.

    Takes `temperature`, `humidity`, `pressure` and `resistance gas` of the scene.
    """

    data_at = 0x1F

    def reset(self) -> None:
        p, h = _BME680_P, _BME680_H
        self.registers[_BME680_ID] = 0x61
        self.registers[0x00], self.registers[0x02] = _HEATER_VALUE, _HEATER_RANGE << 4
        self.registers[0x04] = _GAS_ERROR << 4 & 0xFF
        self.registers[0x8A:0x8D] = struct.pack("<hb", *_BME680_T[1:])
        self.registers[0x8E:0x93] = struct.pack("<Hhb", *p[:3])
        self.registers[0x94:0x9A] = struct.pack("<hhbb", p[3], p[4], p[6], p[5])
        self.registers[0x9C:0xA1] = struct.pack("<hhB", *p[7:])
        self.registers[0xE1:0xE4] = bytes([h[1] >> 4, (h[1] & 15) << 4 | h[0] & 15, h[0] >> 4])
        self.registers[0xE4:0xEF] = struct.pack(
            "<bbbBbHhbb", *h[2:], _BME680_T[0], _BME680_G[1], _BME680_G[0], _BME680_G[2]
        )
        self.registers[0x1F], self.registers[0x22], self.registers[0x25] = 0x80, 0x80, 0x80

    def store(self, register: int, value: int) -> None:
        if register in _BME680_WRITABLE:
            super().store(register, value)
        if register == _BME680_CTRL_MEAS and value & 0b11 == 0b01:
            self._force()

    def measure(self) -> None:
        super().measure()
        self.registers[_BME680_STATUS] = _NEW_DATA
        self.registers[_BME680_CTRL_MEAS] &= ~0b11

    def _force(self) -> None:
        gas = bool(self.registers[_CTRL_GAS_1] & 0x10)
        samples = [
            self._samples(_BME680_CTRL_MEAS, 5),
            self._samples(_BME680_CTRL_MEAS, 2),
            self._samples(_BME680_CTRL_HUM, 0),
        ]
        heating = self._heating() if gas else 0.0
        self.begin(0.001963 * sum(samples) + 0.0029 + heating + (0.0024 if gas else 0))
        self.results = self._measured(samples, heating, gas=gas)
        self.registers[_BME680_STATUS] = _MEASURING | (_GAS_MEASURING if gas else 0)

    def _samples(self, register: int, shift: int) -> int:
        return (0, 1, 2, 4, 8, 16, 16, 16)[self.registers[register] >> shift & 0b111]

    def _heating(self) -> float:
        code = self.registers[_HEATER_WAIT + (self.registers[_CTRL_GAS_1] & 0x0F)]
        return ((code & 0x3F) << 2 * (code >> 6)) / 1000

    def _measured(self, samples: list[int], heating: float, *, gas: bool) -> bytes:
        scene = self.scene
        raw_t = bisect_left(
            _CODES_20, scene.get("temperature", 21.0), key=lambda raw: _compensate_bme680_temperature(raw)[0]
        )
        celsius, fine = _compensate_bme680_temperature(raw_t)
        pressure = -scene.get("pressure", 1013.25) * 100
        raw_p = bisect_left(_CODES_20, pressure, key=lambda raw: -_compensate_bme680_pressure(raw, fine))
        raw_h = bisect_left(
            _CODES_16, scene.get("humidity", 50.0), key=lambda raw: _compensate_bme680_humidity(raw, celsius)
        )
        packed = (raw_p if samples[1] else 0x80000) << 4, (raw_t if samples[0] else 0x80000) << 4
        first = b"".join(value.to_bytes(3, "big") for value in packed)
        first += (raw_h if samples[2] else 0x8000).to_bytes(2, "big")
        return first + bytes(3) + self._gas(heating, gas=gas)

    def _gas(self, heating: float, *, gas: bool) -> bytes:
        if not gas:
            return bytes(2)
        code = self.registers[_HEATER_REGISTER + (self.registers[_CTRL_GAS_1] & 0x0F)]
        off = self.registers[_CTRL_GAS_0] & 0x08
        hot = not off and heating >= _TIME_TO_HEAT_S and _encode_heater(200) <= code <= _encode_heater(400) + 1
        raw, gas_range = _encode_gas(self.scene.get("resistance gas", 50_000.0))
        return (raw << 6 | 0x20 | (0x10 if hot else 0) | gas_range).to_bytes(2, "big")


def _compensate_bme680_temperature(raw: int) -> tuple[float, float]:
    """Temperature and t_fine (section 3.3.1, floating point)."""
    t1, t2, t3 = _BME680_T
    fine = (raw / 16_384 - t1 / 1024) * t2 + (raw / 131_072 - t1 / 8192) ** 2 * t3 * 16
    return fine / 5120, fine


def _compensate_bme680_pressure(raw: int, fine: float) -> float:
    p1, p2, p3, p4, p5, p6, p7, p8, p9, p10 = _BME680_P
    v1 = fine / 2 - 64_000
    v2 = (v1 * v1 * p6 / 131_072 + v1 * p5 * 2) / 4 + p4 * 65_536
    v1 = (1 + (p3 * v1 * v1 / 16_384 + p2 * v1) / 524_288 / 32_768) * p1
    pressure = (1_048_576 - raw - v2 / 4096) * 6250 / v1
    v1, v2 = p9 * pressure * pressure / 2_147_483_648, pressure * p8 / 32_768
    return pressure + (v1 + v2 + (pressure / 256) ** 3 * p10 / 131_072 + p7 * 128) / 16


def _compensate_bme680_humidity(raw: int, celsius: float) -> float:
    h1, h2, h3, h4, h5, h6, h7 = _BME680_H
    v1 = raw - (h1 * 16 + h3 / 2 * celsius)
    v2 = v1 * (h2 / 262_144 * (1 + h4 / 16_384 * celsius + h5 / 1_048_576 * celsius * celsius))
    return v2 + (h6 / 16_384 + h7 / 2_097_152 * celsius) * v2 * v2


def _encode_gas(ohm: float) -> tuple[int, int]:
    """The converter's 10 bits in the most sensitive range that holds the resistance (section 3.4.1, solved for it).

    A resistance that is too large or too small for any range shows as the end of the first or the last.
    """
    ohm = clamp(ohm, _LEAST_OHM, _MAX_OHM)
    for gas_range in range(16):
        v = (1340 + 5 * _GAS_ERROR) * (1 + _K1.get(gas_range, 0) / 100)
        scale = (1 + _K2.get(gas_range, 0) / 100) * 0.000_000_125 * (1 << gas_range)
        raw = round((1 / (ohm * scale) - 1) * v + 512)
        if raw <= 1023:
            return max(raw, 0), gas_range
    return 1023, 15


def _encode_heater(celsius: float) -> float:
    """The register's value for a temperature of the hot plate (section 3.3.5, floating point)."""
    g1, g2, g3 = _BME680_G
    v4 = (g1 / 16 + 49) * (1 + (g2 / 32_768 * 0.0005 + 0.00235) * celsius)
    v5 = v4 + g3 / 1024 * _AMBIENT
    return 3.4 * (v5 * 4 / (4 + _HEATER_RANGE) / (1 + _HEATER_VALUE * 0.002) - 25)


# Bosch's BMP180. It turns its weather into raw values by solving the datasheet's formulas in floating point.

# The calibration of the worked example in BST-BMP180-DS000, section 3.5, in the order of registers 0xAA-0xBF.
_BMP180_TRIMMING = (408, -72, -14_383, 32_741, 32_757, 23_153, 6190, 4, -32_768, -8711, 2868)
_BMP180_ID, _BMP180_CONTROL, _BMP180_DATA = 0xD0, 0xF4, 0xF6
_BMP180_CONVERTING = 0x20
# Well beyond what the part measures, and where its formulas can still be solved.
_BMP180_CELSIUS, _BMP180_HECTOPASCAL = (-150.0, 200.0), (0.0, 2000.0)
_BMP180_TEMPERATURE, _BMP180_PRESSURE = 0x0E, 0x14
_BMP180_TEMPERATURE_S, _BMP180_PRESSURE_S = 0.0045, (0.0045, 0.0075, 0.0135, 0.0255)


class SimBMP180(_BoschPart):
    """A BMP180: one conversion after each write of the control register, which holds its state meanwhile."""

    data_at = _BMP180_DATA

    def reset(self) -> None:
        self.registers[0xAA:0xC0] = struct.pack(">hhhHHHhhhhh", *_BMP180_TRIMMING)
        self.registers[_BMP180_ID], self.registers[0xD1] = 0x55, 0x02
        self.registers[_BMP180_DATA] = 0x80

    def measure(self) -> None:
        super().measure()
        self.registers[_BMP180_CONTROL] &= ~_BMP180_CONVERTING

    def store(self, register: int, value: int) -> None:
        if register != _BMP180_CONTROL:
            return
        super().store(register, value)
        if not value & _BMP180_CONVERTING:
            return
        celsius = clamp(self.scene.get("temperature", 21.0), *_BMP180_CELSIUS)
        if value & 0x1F == _BMP180_TEMPERATURE:
            self.results = round(clamp(_solve_raw_temperature(celsius), 0, 0xFFFF)).to_bytes(2, "big") + b"\0"
            self.begin(_BMP180_TEMPERATURE_S)
        elif value & 0x1F == _BMP180_PRESSURE:
            oversampling = value >> 6
            hectopascal = clamp(self.scene.get("pressure", 1013.25), *_BMP180_HECTOPASCAL)
            raw = _solve_raw_pressure(hectopascal, celsius, oversampling)
            code = round(clamp(raw, 0, (0x10000 << oversampling) - 1))
            self.results = (code << 8 - oversampling).to_bytes(3, "big")
            self.begin(_BMP180_PRESSURE_S[oversampling])


def _solve_raw_temperature(celsius: float) -> float:
    """Solve T = (B5 + 8) / 160 and B5 = X1 + MC * 2048 / (X1 + MD), a quadratic equation in X1 + MD."""
    ac5, ac6, mc, md = _BMP180_TRIMMING[4], _BMP180_TRIMMING[5], _BMP180_TRIMMING[9], _BMP180_TRIMMING[10]
    total = celsius * 160 - 8 + md
    x1 = (total + math.sqrt(total * total - 4 * mc * 2048)) / 2 - md
    return x1 * 32_768 / ac5 + ac6


def _solve_raw_pressure(hectopascal: float, celsius: float, oversampling: int) -> float:
    """Solve the last line of the datasheet's algorithm, a quadratic equation in p, and the linear rest."""
    ac1, ac2, ac3, ac4, _, _, b1, b2, *_ = _BMP180_TRIMMING
    b6 = celsius * 160 - 8 - 4000
    square = b6 * b6 / 4096
    b3 = ((ac1 * 4 + b2 * square / 2048 + ac2 * b6 / 2048) * (1 << oversampling) + 2) / 4
    b4 = ac4 * ((ac3 * b6 / 8192 + b1 * square / 65_536 + 2) / 4 + 32_768) / 32_768
    a, b, c = 3038 / 65_536**2 / 16, 1 - 7357 / 65_536 / 16, 3791 / 16 - hectopascal * 100
    p = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    return p * b4 / 2 / (50_000 / (1 << oversampling)) + b3
