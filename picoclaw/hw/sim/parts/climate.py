"""Simulated climate and gas sensors: SHT3x, SHT4x, SCD41, SGP30, SGP40 (Sensirion), AHT20, AHT10 (Aosong), HTU21D (TE)."""

from collections.abc import Callable, Mapping, Sequence

from picoclaw.hw.sim import Nack
from picoclaw.hw.sim.parts import clamp
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


class CommandPart:
    """A part that is given commands of `width` bytes, is busy for a while, and then answers with words."""

    width = 2

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.period = 0.0
        """Seconds between two measurements, 0 when the part does not measure by itself."""
        self._began = 0.0
        self._fetched = 0
        self._busy_until = 0.0
        self._answer = b""
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

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._limits = dict(_LIMITS)
        self._status = _ALERT | _WAS_RESET

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section 4 of the SHT3x-DIS datasheet."""
        return {
            **{command: (seconds, self._measured) for command, seconds in _SINGLE_SHOT.items()},
            **dict.fromkeys(_CLOCK_STRETCHED, (0.0, self._measured)),
            **{command: (0.0, self.begin(seconds)) for command, seconds in _PERIODS.items()},
            **{command: (0.0, self._limit(pair)) for pair in _LIMITS for command in pair},
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

    def _limit(self, pair: tuple[int, int]) -> Handler:
        def limit(arguments: list[int]) -> Words:
            if arguments:
                self._limits[pair] = arguments[0]
            return [self._limits[pair]]

        return limit

    def _mark(self, bits: int, clear: int) -> Handler:
        def mark(_: list[int]) -> Words:
            self._status = self._status & ~clear | bits
            return []

        return mark

    def _reset(self, _: list[int]) -> Words:
        self._limits, self._status = dict(_LIMITS), _ALERT | _WAS_RESET
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

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._settings = {"offset": 0x05D9, "altitude": 0, "calibration": 1}

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
            **{command: (0.001, self._setting(name)) for name, pair in settings.items() for command in pair},
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

    def _setting(self, name: str) -> Handler:
        def setting(arguments: list[int]) -> Words:
            if arguments:
                self._settings[name] = arguments[0]
                return []
            return [self._settings[name]]

        return setting


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


class SimHTU21D:
    """An HTU21D: commands of one byte, words with a checksum that starts at 0, a user register."""

    serial = (bytes.fromhex("0012ab34"), b"21", b"HT")
    """The electronic serial number in the order of its three groups: SNB, SNC, SNA."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._user = _POWER_ON
        self._answer = b""
        self._ready_at = 0.0

    def write(self, data: bytes) -> None:
        """Take a command; one that holds the clock has its result at once, the others let the reader be refused."""
        if not data:
            return
        self._busy()
        command, now = data[0], self._scene.now()
        if command in _TEMPERATURE:
            self._ready_at = now + (0.05 if command == _TEMPERATURE[0] else 0)
            self._answer = self._word((self._scene.get("temperature", 21.0) + 46.85) / 175.72, 0b00)
        elif command in _HUMIDITY:
            self._ready_at = now + (0.016 if command == _HUMIDITY[0] else 0)
            self._answer = self._word((self._scene.get("humidity", 50.0) + 6) / 125, 0b10)
        elif command == _USER:
            self._answer = bytes([self._user])
        elif command == 0xE6 and len(data) == 2:
            self._user = self._user & ~_WRITABLE | data[1] & _WRITABLE
        elif data in _SERIAL_COMMANDS:
            self._answer = self._number(_SERIAL_COMMANDS.index(data))
        elif command == 0xFE:
            self._user, self._ready_at = _POWER_ON | self._user & 0x04, now + 0.015
        else:
            raise Nack

    def read(self, length: int) -> bytes:
        """Answer the last command; what is read beyond the answer is a released line."""
        self._busy()
        if not self._answer:
            raise Nack
        answer, self._answer = self._answer, b""
        return answer.ljust(length, b"\xff")[:length]

    def _busy(self) -> None:
        if self._scene.now() < self._ready_at:
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
