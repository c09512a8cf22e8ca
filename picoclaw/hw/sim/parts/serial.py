"""Simulated serial parts: a GPS receiver, PMS5003 and MH-Z19, byte by byte at the speed of the line."""

import math
import time
from collections import deque
from collections.abc import Callable

from picoclaw.hw.sim.parts import clamp
from picoclaw.hw.sim.script import Scene

_BYTE_S = 10 / 9600  # ten bits, at the baud rate of all these parts
_BUFFER_SIZE = 4095  # what a kernel keeps for a reader that does not come


class Transmitter:
    """A TX pin with a queue behind it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._free_at = 0.0
        self._queue: deque[tuple[float, int]] = deque(maxlen=_BUFFER_SIZE)

    def send(self, data: bytes, at: float) -> None:
        """Begin to send at a time, or when the line is free."""
        self._free_at = max(self._free_at, at)
        for byte in data:
            self._free_at += _BYTE_S
            self._queue.append((self._free_at, byte))

    def arrived(self) -> bytes:
        """Return, once, the bytes whose last bit has been sent."""
        found = bytearray()
        while self._queue and self._queue[0][0] <= self._clock():
            found.append(self._queue.popleft()[1])
        return bytes(found)


class PeriodicSender:
    """A part that sends something every second by itself."""

    def __init__(self, scene: Scene) -> None:
        """Begins with the next whole second."""
        self._scene = scene
        self._line = Transmitter(scene.now)
        self._next = math.floor(scene.now()) + 1

    def burst(self, second: int) -> bytes:
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Take what is sent to the part; most do not listen."""

    def pending(self) -> bytes:
        """Return what has arrived since the last call; of a long absence, the last seconds."""
        now = math.floor(self._scene.now())
        for second in range(max(self._next, now - 3), now + 1):
            self._line.send(self.burst(second), second)
        self._next = max(self._next, now + 1)
        return self._line.arrived()


# A satellite receiver that sends RMC, VTG, GGA, GSA, GSV and GLL each second, as u-blox' receivers do.

_MIN_SATELLITES = 4  # satellites for a position in three dimensions
# What the sentences can hold, and u-blox' operational limits (NEO-M8 data sheet) for altitude in m and speed in m/s.
_LIMITS = {
    "satellites": (0, 99),
    "latitude": (-90, 90),
    "longitude": (-180, 180),
    "altitude": (-1000, 50_000),
    "speed": (0, 500),
}


class SimGPS(PeriodicSender):
    """Measures `latitude`, `longitude` (°), `altitude` (m), `speed` (m/s) and `satellites`; below four, no fix."""

    talker = "GP"

    def burst(self, second: int) -> bytes:
        seen = round(self._get("satellites", 9))
        clock = time.strftime("%H%M%S.00", time.gmtime(second))
        body = self._fixed(clock, second, seen) if seen >= _MIN_SATELLITES else self._lost(seen)
        return b"".join(_format_sentence(f"{self.talker}{sentence}") for sentence in body)

    def _get(self, quantity: str, default: float) -> float:
        return clamp(self._scene.get(quantity, default), *_LIMITS[quantity])

    def _fixed(self, clock: str, second: int, seen: int) -> list[str]:
        where = f"{_format_angle(self._get('latitude', 51.4779), 2, 'NS')},{_format_angle(self._get('longitude', 0.0), 3, 'EW')}"
        knots = self._get("speed", 0.0) / 0.514444
        return [
            f"RMC,{clock},A,{where},{knots:.3f},,{time.strftime('%d%m%y', time.gmtime(second))},,,A",
            f"VTG,,T,,M,{knots:.3f},N,{knots * 1.852:.3f},K,A",
            f"GGA,{clock},{where},1,{seen:02d},1.01,{self._get('altitude', 46.0):.1f},M,48.0,M,,",
            "GSA,A,3,23,29,07,08,,,,,,,,,1.94,1.18,1.54",
            f"GSV,1,1,{seen:02d}",
            f"GLL,{where},{clock},A,A",
        ]

    def _lost(self, seen: int) -> list[str]:
        return [
            "RMC,,V,,,,,,,,,,N",
            "VTG,,,,,,,,,N",
            "GGA,,,,,,0,00,99.99,,,,,,",
            "GSA,A,1,,,,,,,,,,,,,99.99,99.99,99.99",
            f"GSV,1,1,{seen:02d}",
            "GLL,,,,,,V,N",
        ]


def _format_angle(degrees: float, digits: int, sides: str) -> str:
    whole, minutes = divmod(round(abs(degrees) * 60, 5), 60)
    return f"{int(whole):0{digits}d}{minutes:08.5f},{sides[degrees < 0]}"


def _format_sentence(body: str) -> bytes:
    check = 0
    for byte in body.encode("ascii"):
        check ^= byte
    return f"${body}*{check:02X}\r\n".encode("ascii")


# Serial air sensors: Plantower PMS5003 (manual 2016 V2.3) and Winsen MH-Z19B (manual 1.0).

_PMS_COMMAND = 7
_MAX_DUST = 0xFFFF // 2  # so that the factory's value fits its word as well
_PMS_CHANGE_MODE, _PMS_READ, _PMS_SLEEP = 0xE1, 0xE2, 0xE4


class SimPMS5003(PeriodicSender):
    """Sends a frame every second, or, in passive mode, when asked; sleeps when told to."""

    def __init__(self, scene: Scene) -> None:
        """Measures `dust pm1`, `dust pm2.5` and `dust pm10` in µg/m³."""
        super().__init__(scene)
        self._received = b""
        self.active = True
        self.asleep = False

    def burst(self, second: int) -> bytes:  # noqa: ARG002
        return self._frame() if self.active and not self.asleep else b""

    def receive(self, data: bytes) -> None:
        """Take commands of 7 bytes: 42 4d, command, 2 bytes of data, their sum (appendix II, passive mode)."""
        self._received = (self._received + data)[-_PMS_COMMAND:]
        command = self._received
        if len(command) < _PMS_COMMAND or command[:2] != b"BM" or sum(command[:5]) != command[5] << 8 | command[6]:
            return
        self._received = b""
        self._obey(command[2], on=bool(command[4]))

    def _obey(self, command: int, *, on: bool) -> None:
        now = self._scene.now()
        if command == _PMS_READ and not self.active and not self.asleep:
            self._line.send(self._frame(), now)
        elif command == _PMS_CHANGE_MODE:
            self.active = on
            self._line.send(_append_sum(bytes([0x42, 0x4D, 0, 4, command, on])), now)
        elif command == _PMS_SLEEP:
            self.asleep = not on
            if not on:
                self._line.send(_append_sum(bytes([0x42, 0x4D, 0, 4, command, on])), now)

    def _frame(self) -> bytes:
        dust = [round(clamp(self._scene.get(f"dust {size}", 7.0), 0, _MAX_DUST)) for size in ("pm1", "pm2.5", "pm10")]
        factory = [round(value * 1.5) if value > 30 else value for value in dust]
        counts = [dust[1] * 150, dust[1] * 45, dust[1] * 8, dust[1], dust[1] // 8, dust[1] // 20]
        words = [28, *factory, *dust, *(min(count, 0xFFFF) for count in counts), 0x9700]
        return _append_sum(b"BM" + b"".join(word.to_bytes(2, "big") for word in words))


def _append_sum(data: bytes) -> bytes:
    return data + (sum(data) & 0xFFFF).to_bytes(2, "big")


class SimMHZ19:
    """Answers command 0x86; takes the others, which have no answer, and remembers them."""

    def __init__(self, scene: Scene, warm_up_s: float = 0.0) -> None:
        """Measures `co2` in ppm; says 410 for the first `warm_up_s` seconds."""
        self._scene = scene
        self._line = Transmitter(scene.now)
        self._ready_at = scene.now() + warm_up_s
        self._received = b""
        self.commands: list[int] = []

    def receive(self, data: bytes) -> None:
        """Take commands of 9 bytes: ff 01, command, data, checksum."""
        self._received = (self._received + data)[-9:]
        frame = self._received
        if len(frame) < 9 or frame[:2] != b"\xff\x01" or sum(frame[1:]) & 0xFF:
            return
        self._received = b""
        self.commands.append(frame[2])
        if frame[2] == 0x86:
            self._line.send(self._answer(), self._scene.now() + 0.01)

    def pending(self) -> bytes:
        return self._line.arrived()

    def _answer(self) -> bytes:
        warm = self._scene.now() >= self._ready_at
        ppm = round(clamp(self._scene.get("co2", 600.0), 0, 5000)) if warm else 410
        case = round(clamp(self._scene.get("temperature", 21.0) + 40, 0, 0xFF))
        body = bytes([0x86, ppm >> 8, ppm & 0xFF, case, 0, 0, 0])
        return b"\xff" + body + bytes([(0x100 - sum(body)) & 0xFF])
