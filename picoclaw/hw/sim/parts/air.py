"""Serial air sensors: Plantower PMS5003 (manual 2016 V2.3) and Winsen MH-Z19B (manual 1.0)."""

from picoclaw.hw.sim.parts.uart import Chatter, Transmitter
from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

_COMMAND = 7
_MOST_DUST = 0xFFFF // 2  # so that the factory's value fits its word as well
_CHANGE_MODE, _READ, _SLEEP = 0xE1, 0xE2, 0xE4


class SimPMS5003(Chatter):
    """Sends a frame every second, or, in passive mode, when asked; sleeps when told to."""

    def __init__(self, scene: Scene) -> None:
        """Measures `dust pm1`, `dust pm2.5` and `dust pm10` in µg/m³."""
        super().__init__(scene)
        self._received = b""
        self.active = True
        self.asleep = False

    def burst(self, second: int) -> bytes:  # noqa: ARG002
        """Return a frame, when one is due."""
        return self._frame() if self.active and not self.asleep else b""

    def receive(self, data: bytes) -> None:
        """Take commands of 7 bytes: 42 4d, command, 2 bytes of data, their sum (appendix II, passive mode)."""
        self._received = (self._received + data)[-_COMMAND:]
        command = self._received
        if len(command) < _COMMAND or command[:2] != b"BM" or sum(command[:5]) != command[5] << 8 | command[6]:
            return
        self._received = b""
        self._obey(command[2], on=bool(command[4]))

    def _obey(self, command: int, *, on: bool) -> None:
        now = self._scene.now()
        if command == _READ and not self.active and not self.asleep:
            self._line.send(self._frame(), now)
        elif command == _CHANGE_MODE:
            self.active = on
            self._line.send(_summed(bytes([0x42, 0x4D, 0, 4, command, on])), now)
        elif command == _SLEEP:
            self.asleep = not on
            if not on:
                self._line.send(_summed(bytes([0x42, 0x4D, 0, 4, command, on])), now)

    def _frame(self) -> bytes:
        dust = [
            round(clipped(self._scene.get(f"dust {size}", 7.0), 0, _MOST_DUST)) for size in ("pm1", "pm2.5", "pm10")
        ]
        factory = [round(value * 1.5) if value > 30 else value for value in dust]
        counts = [dust[1] * 150, dust[1] * 45, dust[1] * 8, dust[1], dust[1] // 8, dust[1] // 20]
        words = [28, *factory, *dust, *(min(count, 0xFFFF) for count in counts), 0x9700]
        return _summed(b"BM" + b"".join(word.to_bytes(2, "big") for word in words))


def _summed(data: bytes) -> bytes:
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
        """Return what has arrived since the last call."""
        return self._line.arrived()

    def _answer(self) -> bytes:
        warm = self._scene.now() >= self._ready_at
        ppm = round(clipped(self._scene.get("co2", 600.0), 0, 5000)) if warm else 410
        case = round(clipped(self._scene.get("temperature", 21.0) + 40, 0, 0xFF))
        body = bytes([0x86, ppm >> 8, ppm & 0xFF, case, 0, 0, 0])
        return b"\xff" + body + bytes([(0x100 - sum(body)) & 0xFF])
