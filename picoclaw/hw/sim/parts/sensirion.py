"""Sensirion's humidity sensors SHT3x and SHT4x, and what all parts of theirs share: commands, words, checksums."""

from collections.abc import Callable, Mapping, Sequence

from picoclaw.hw.sim.buses import Nack
from picoclaw.hw.sim.parts.words import clamp
from picoclaw.hw.sim.scene import Scene

Answer = list[int]
Handler = Callable[[list[int]], Answer]


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
    """Words, each followed by its checksum."""
    pairs = [word.to_bytes(2, "big") for word in words]
    return b"".join(pair + bytes([compute_checksum(pair)]) for pair in pairs)


def scale_to_word(value: float, low: float, high: float) -> int:
    """The 16-bit word that stands for a value between the ends of a part's scale."""
    return round(clamp((value - low) / (high - low) * 65_535, 0, 65_535))


class CommandPart:
    """A part that is given commands of `width` bytes, is busy for a while, and then answers with words."""

    width = 2

    def __init__(self, scene: Scene) -> None:
        """Measures the quantities of the scene."""
        self.scene = scene
        self._busy_until = 0.0
        self._answer = b""

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """By command: for how many seconds the part is busy, and what it does with its arguments."""
        raise NotImplementedError

    def refuses(self, command: int) -> bool:  # noqa: ARG002
        """Tell whether the part does not take this command in the state that it is in."""
        return False

    def write(self, data: bytes) -> None:
        """Take a command with its arguments, of which each has a checksum."""
        if not data:
            return
        self._free()
        command = int.from_bytes(data[: self.width], "big")
        if len(data) < self.width or command not in self.commands() or self.refuses(command):
            raise Nack
        rest = data[self.width :]
        arguments = [int.from_bytes(rest[i : i + 2], "big") for i in range(0, len(rest), 3)]
        if append_checksums(arguments) != rest:
            raise Nack
        seconds, handler = self.commands()[command]
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


def do_nothing(arguments: list[int]) -> Answer:  # noqa: ARG001
    """Do nothing that could be seen on the bus."""
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
        """Measures temperature and humidity of the scene."""
        super().__init__(scene)
        self._limits = dict(_LIMITS)
        self._period = 0.0
        self._began = 0.0
        self._fetched = 0
        self._status = _ALERT | _WAS_RESET
        self._table: dict[int, tuple[float, Handler]] = {
            **{command: (seconds, self._measured) for command, seconds in _SINGLE_SHOT.items()},
            **dict.fromkeys(_CLOCK_STRETCHED, (0.0, self._measured)),
            **{command: (0.0, self._begin(seconds)) for command, seconds in _PERIODS.items()},
            **{pair[0]: (0.0, self._limit(pair)) for pair in _LIMITS},
            **{pair[1]: (0.0, self._limit(pair)) for pair in _LIMITS},
            _FETCH: (0.0, self._fetch),
            _BREAK: (0.001, self._begin(0.0)),
            _STATUS: (0.0, lambda _: [self._status]),
            0x3041: (0.0, self._mark(0, _ALERT | _WAS_RESET)),
            0x306D: (0.0, self._mark(_HEATER, 0)),
            0x3066: (0.0, self._mark(0, _HEATER)),
            0x30A2: (0.0015, self._reset),
        }

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section 4 of the SHT3x-DIS datasheet."""
        return self._table

    def refuses(self, command: int) -> bool:
        """A part that measures continuously takes no measuring command and no reset."""
        return bool(self._period) and command in {*_SINGLE_SHOT, *_CLOCK_STRETCHED, *_PERIODS, 0x30A2}

    def _measured(self, _: list[int]) -> Answer:
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, scale_to_word(self.scene.get("humidity", 50.0), 0, 100)]

    def _begin(self, period: float) -> Handler:
        def begin(_: list[int]) -> Answer:
            self._period, self._began, self._fetched = period, self.scene.now(), 0
            return []

        return begin

    def _fetch(self, arguments: list[int]) -> Answer:
        done = int((self.scene.now() - self._began) / self._period) if self._period else 0
        if done <= self._fetched:
            return []
        self._fetched = done
        return self._measured(arguments)

    def _limit(self, pair: tuple[int, int]) -> Handler:
        def limit(arguments: list[int]) -> Answer:
            if arguments:
                self._limits[pair] = arguments[0]
            return [self._limits[pair]]

        return limit

    def _mark(self, bits: int, clear: int) -> Handler:
        def mark(_: list[int]) -> Answer:
            self._status = self._status & ~clear | bits
            return []

        return mark

    def _reset(self, _: list[int]) -> Answer:
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

    def _measured(self, _: list[int]) -> Answer:
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, scale_to_word(self.scene.get("humidity", 50.0), -6, 119)]


# Sensirion's gas sensors SCD41, SGP30 and SGP40.

_SERIAL = [0xF896, 0x9F07, 0x3BBE]
_SELF_TEST_PASSED = 0xD400


class SimSCD4x(CommandPart):
    """An SCD41: idle or measuring each 5 s (30 s with low power); it takes few commands while it measures."""

    def __init__(self, scene: Scene) -> None:
        """Measures CO2, temperature and humidity of the scene."""
        super().__init__(scene)
        self._period = 0.0
        self._began = 0.0
        self._fetched = 0
        self._settings = {"offset": 0x05D9, "altitude": 0, "calibration": 1}
        self._table: dict[int, tuple[float, Handler]] = {
            0x21B1: (0.0, self._begin(5.0)),
            0x21AC: (0.0, self._begin(30.0)),
            0x3F86: (0.5, self._begin(0.0)),
            0xEC05: (0.001, self._measurement),
            0xE4B8: (0.001, lambda _: [0x8006 if self._done() > self._fetched else 0x8000]),
            0xE000: (0.001, do_nothing),
            0x3682: (0.001, lambda _: _SERIAL),
            0x202F: (0.001, lambda _: [0x1440]),
            0x2318: (0.001, self._setting("offset")),
            0x241D: (0.001, self._setting("offset")),
            0x2322: (0.001, self._setting("altitude")),
            0x2427: (0.001, self._setting("altitude")),
            0x2313: (0.001, self._setting("calibration")),
            0x2416: (0.001, self._setting("calibration")),
            0x3646: (0.03, do_nothing),
        }

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Digital interface description" of the SCD4x datasheet."""
        return self._table

    def refuses(self, command: int) -> bool:
        """Section 3.5: four commands and no other are taken while the part measures."""
        return bool(self._period) and command not in {0x3F86, 0xEC05, 0xE4B8, 0xE000}

    def _begin(self, period: float) -> Handler:
        def begin(_: list[int]) -> Answer:
            self._period, self._began, self._fetched = period, self.scene.now(), 0
            return []

        return begin

    def _done(self) -> int:
        return int((self.scene.now() - self._began) / self._period) if self._period else 0

    def _measurement(self, _: list[int]) -> Answer:
        if self._done() <= self._fetched:
            return []
        self._fetched = self._done()
        temperature = scale_to_word(self.scene.get("temperature", 21.0), -45, 130)
        co2 = round(clamp(self.scene.get("co2", 600), 0, 40_000))
        return [co2, temperature, scale_to_word(self.scene.get("humidity", 50.0), 0, 100)]

    def _setting(self, name: str) -> Handler:
        def setting(arguments: list[int]) -> Answer:
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

    def _start(self, _: list[int]) -> Answer:
        self._started = self.scene.now()
        return []

    def _restore(self, arguments: list[int]) -> Answer:
        self._baseline = arguments[::-1]  # they are set in the other order than they are read
        return []

    def _measured(self, _: list[int]) -> Answer:
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
        """Whether the heater is on."""
        return self._heated_from is not None

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "I2C commands" of the SGP40 datasheet."""
        return {
            0x260F: (0.030, self._measured),
            0x280E: (0.320, lambda _: [_SELF_TEST_PASSED]),
            0x3615: (0.001, self._cool),
            0x3682: (0.001, lambda _: [0x0000, 0x00B1, 0xC2D3]),
        }

    def _measured(self, arguments: list[int]) -> Answer:
        now = self.scene.now()
        if self._heated_from is None:
            self._heated_from = now
        ticks = round(clamp(self.scene.get("raw", 30_000), 0, 65_535)) if len(arguments) == 2 else 0
        return [ticks if now - self._heated_from >= 0.140 else min(ticks + 8000, 65_535)]

    def _cool(self, _: list[int]) -> Answer:
        self._heated_from = None
        return []
