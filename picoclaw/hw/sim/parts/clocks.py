"""Maxim's DS3231 (19-5170): a clock that goes on by the scene's, from where it was set."""

from datetime import UTC, datetime, timedelta

from picoclaw.hw.sim.parts.words import ByteRegisters, encode_signed
from picoclaw.hw.sim.scene import Scene

_CONTROL, _STATUS, _AGING, _TEMPERATURE = 0x0E, 0x0F, 0x10, 0x11
_CENTURY, _TWELVE_HOURS, _AFTERNOON = 0x80, 0x40, 0x20
_CONVERT, _OSCILLATOR_STOPPED, _BUSY = 0x20, 0x80, 0x04
_CONVERSION_S, _EVERY_S = 0.125, 64.0


class SimDS3231(ByteRegisters):
    """A DS3231 that was set to UTC once, and has run since."""

    size = 0x13

    def __init__(self, scene: Scene) -> None:
        """Runs by the scene's clock."""
        super().__init__(scene)
        self.registers[_CONTROL], self.registers[_STATUS] = 0x1C, 0x08
        self.ahead = timedelta()
        self.twelve_hours = False

    def period(self) -> float:
        """The thermometer measures every 64 seconds."""
        return _EVERY_S

    def measure(self) -> None:
        """Ten bits, to the left; the conversion bit is cleared."""
        word = encode_signed(self.scene.get("temperature", 21.0) * 4, 10) << 6
        self.registers[_TEMPERATURE : _TEMPERATURE + 2] = word.to_bytes(2, "big")
        self.registers[_CONTROL] &= ~_CONVERT

    def read(self, length: int) -> bytes:
        """The time is taken at the start, so that it cannot change within one transfer."""
        self._tick()
        return super().read(length)

    def write(self, data: bytes) -> None:
        """Take the time as it is before, and set the clock when its registers were written."""
        self._tick()
        super().write(data)
        if len(data) > 1 and data[0] <= 6:
            self._set()

    def load(self, register: int) -> int:
        """Busy while a temperature is converted on demand."""
        value = super().load(register)
        return value | _BUSY if register == _STATUS and self.registers[_CONTROL] & _CONVERT else value

    def store(self, register: int, value: int) -> None:
        """Temperature is read-only; of the status, two flags and OSF can only be cleared."""
        if register in {_TEMPERATURE, _TEMPERATURE + 1}:
            return
        if register == _STATUS:
            old = self.registers[_STATUS]
            value = value & 0x08 | old & value & (_OSCILLATOR_STOPPED | 0b11)
        super().store(register, value)
        if register == _CONTROL and value & _CONVERT:
            self.begin(_CONVERSION_S)

    def _tick(self) -> None:
        now = datetime.fromtimestamp(self.scene.now(), UTC) + self.ahead
        hour = _to_bcd(now.hour)
        if self.twelve_hours:
            hour = _TWELVE_HOURS | (_AFTERNOON if now.hour >= 12 else 0) | _to_bcd((now.hour + 11) % 12 + 1)
        month = _to_bcd(now.month) | (_CENTURY if now.year >= 2100 else 0)
        fields = (_to_bcd(now.second), _to_bcd(now.minute), hour, now.isoweekday(), _to_bcd(now.day), month)
        self.registers[:7] = bytes((*fields, _to_bcd(now.year % 100)))

    def _set(self) -> None:
        second, minute, hour, _, day, month, year = self.registers[:7]
        self.twelve_hours = bool(hour & _TWELVE_HOURS)
        if self.twelve_hours:
            hours = _from_bcd(hour & 0x1F) % 12 + (12 if hour & _AFTERNOON else 0)
        else:
            hours = _from_bcd(hour & 0x3F)
        years = 2000 + _from_bcd(year) + (100 if month & _CENTURY else 0)
        wanted = datetime(
            years, _from_bcd(month & 0x1F), _from_bcd(day), hours, _from_bcd(minute), _from_bcd(second), tzinfo=UTC
        )
        self.ahead = wanted - datetime.fromtimestamp(self.scene.now() // 1, UTC)


def _to_bcd(number: int) -> int:
    return number // 10 * 16 + number % 10


def _from_bcd(register: int) -> int:
    return register // 16 * 10 + register % 16
