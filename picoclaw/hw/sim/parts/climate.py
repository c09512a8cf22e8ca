"""Climate sensors of other makers: AHT20 and AHT10 (Aosong), HTU21D (TE)."""

from picoclaw.hw.sim.buses import Nack
from picoclaw.hw.sim.parts.sensirion import compute_checksum
from picoclaw.hw.sim.parts.words import clamp
from picoclaw.hw.sim.scene import Scene

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
        """Take a command of one byte or three."""
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


_TEMPERATURE, _HUMIDITY, _USER, _SERIAL = (0xF3, 0xE3), (0xF5, 0xE5), 0xE7, (b"\xfa\x0f", b"\xfc\xc9")
_WRITABLE = 0b1000_0111  # of the user register; the others show the supply or are reserved
_POWER_ON = 0x02


class SimHTU21D:
    """An HTU21D: commands of one byte, words with a checksum that starts at 0, a user register."""

    serial = (bytes.fromhex("0012ab34"), b"21", b"HT")
    """The electronic serial number in the order of its three groups: SNB, SNC, SNA."""

    def __init__(self, scene: Scene) -> None:
        """Measures temperature and humidity of the scene."""
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
        elif data in _SERIAL:
            self._answer = self._number(_SERIAL.index(data))
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
