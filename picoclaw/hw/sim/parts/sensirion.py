"""Sensirion's humidity sensors SHT3x and SHT4x, and what all parts of theirs share: commands, words, checksums."""

from collections.abc import Callable, Mapping, Sequence

from picoclaw.hw.sim.buses import Nack
from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

Answer = list[int]
Handler = Callable[[list[int]], Answer]


def _rests() -> bytes:
    """CRC-8 of each byte with the polynomial x^8 + x^5 + x^4 + 1, by long division."""
    rests = []
    for byte in range(256):
        rest = byte << 8
        for bit in range(15, 7, -1):
            rest ^= (rest >> bit & 1) * (0x131 << bit - 8)
        rests.append(rest)
    return bytes(rests)


_REST = _rests()


def checksum(data: bytes, start: int = 0xFF) -> int:
    """Checksum of some bytes; Sensirion's older parts start at 0."""
    for byte in data:
        start = _REST[start ^ byte]
    return start


def framed(words: Sequence[int]) -> bytes:
    """Words, each followed by its checksum."""
    pairs = [word.to_bytes(2, "big") for word in words]
    return b"".join(pair + bytes([checksum(pair)]) for pair in pairs)


def share(value: float, low: float, high: float) -> int:
    """The 16-bit word that stands for a value between the ends of a part's scale."""
    return round(clipped((value - low) / (high - low) * 65_535, 0, 65_535))


class Commanded:
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
        if framed(arguments) != rest:
            raise Nack
        seconds, handler = self.commands()[command]
        self._answer = framed(handler(arguments))
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


def nothing(arguments: list[int]) -> Answer:  # noqa: ARG001
    """Do nothing that could be seen on the bus."""
    return []


_SINGLE = {0x2400: 0.015, 0x240B: 0.006, 0x2416: 0.004}
_STRETCHED = (0x2C06, 0x2C0D, 0x2C10)  # the clock would be held until the result is there, so it is there at once
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


class SimSHT3x(Commanded):
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
            **{command: (seconds, self._measured) for command, seconds in _SINGLE.items()},
            **dict.fromkeys(_STRETCHED, (0.0, self._measured)),
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
        return bool(self._period) and command in {*_SINGLE, *_STRETCHED, *_PERIODS, 0x30A2}

    def _measured(self, _: list[int]) -> Answer:
        temperature = share(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, share(self.scene.get("humidity", 50.0), 0, 100)]

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


class SimSHT4x(Commanded):
    """An SHT4x, whose commands are single bytes; its heater heats nothing here."""

    width = 1

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Command overview" of the SHT4x datasheet."""
        heaters = {0x39: 1.1, 0x32: 0.11, 0x2F: 1.1, 0x24: 0.11, 0x1E: 1.1, 0x15: 0.11}
        times = {0xFD: 0.0083, 0xF6: 0.0045, 0xE0: 0.0016, **heaters}
        return {
            **{command: (seconds, self._measured) for command, seconds in times.items()},
            0x89: (0.0, lambda _: [0x0F0A, 0x1B2C]),
            0x94: (0.001, nothing),
        }

    def _measured(self, _: list[int]) -> Answer:
        temperature = share(self.scene.get("temperature", 21.0), -45, 130)
        return [temperature, share(self.scene.get("humidity", 50.0), -6, 119)]
