"""Simulated port expanders, motion sensors, clocks and serial parts.

They are PCF8574, PCA9685 (NXP), MPU-6050 (InvenSense), DS3231 (Maxim), and byte by byte at the speed of the line a GPS
receiver, PMS5003 and MH-Z19.
"""

import math
import struct
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from picoclaw.hw.sim.parts import ByteRegisters, clamp, encode_signed
from picoclaw.hw.sim.script import Scene

# NXP's PCF8574 (eight pins, revision 5 of its data sheet) and PCA9685 (sixteen PWM outputs, revision 4).


class SimPCF8574:
    """A PCF8574: one byte written is its outputs, one byte read its pins; no registers at all.

    A pin is high when its output is and nothing outside pulls it low: `level p3` of the scene is 0.
    """

    def __init__(self, scene: Scene) -> None:
        """All outputs are high from power-on."""
        self._scene = scene
        self.outputs = 0xFF

    def write(self, data: bytes) -> None:
        """Each byte replaces the one before at the outputs."""
        if data:
            self.outputs = data[-1]

    def read(self, length: int) -> bytes:
        """The pins, sampled for each byte."""
        return bytes([self.pins()]) * length

    def pins(self) -> int:
        """The levels at the pins, p0 in the lowest bit."""
        outside = sum((self._scene.get(f"level p{n}", 1.0) >= 0.5) << n for n in range(8))
        return self.outputs & outside


_MODE1, _MODE2, _LED0, _LED_END = 0x00, 0x01, 0x06, 0x46
_ALL_LED, _PRESCALE, _TEST = 0xFA, 0xFE, 0xFF
_RESTART, _AUTO_INCREMENT, _SLEEP = 0x80, 0x20, 0x10


class SimPCA9685(ByteRegisters):
    """A PCA9685, asleep from power-on with all outputs fully off; measures nothing."""

    is_asleep_at_power_on = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.registers[_MODE1], self.registers[_MODE2], self.registers[_PRESCALE] = 0x11, 0x04, 0x1E
        self.registers[0x02:_LED0] = bytes([0xE2, 0xE4, 0xE8, 0xE0])
        self.registers[_LED0:_LED_END] = bytes([0, 0, 0, 0x10]) * 16
        self._held = False  # what was on before a sleep stays off until a restart or a write

    @property
    def frequency(self) -> float:
        """Of all outputs, in Hz."""
        return 25_000_000 / 4096 / (self.registers[_PRESCALE] + 1)

    def duty(self, channel: int) -> float:
        """What an output really does, 0 to 1."""
        first = _LED0 + 4 * channel
        on_low, on_high, off_low, off_high = self.registers[first : first + 4]
        if self.registers[_MODE1] & _SLEEP or self._held or off_high & 0x10:
            return 0.0
        if on_high & 0x10:
            return 1.0
        on, off = (on_high & 0x0F) << 8 | on_low, (off_high & 0x0F) << 8 | off_low
        return (off - on) % 4096 / 4096

    def next(self, register: int) -> int:
        """Stays where it is without auto-increment; rolls over after the last LED register."""
        if not self.registers[_MODE1] & _AUTO_INCREMENT:
            return register
        return 0 if register in {_LED_END - 1, _PRESCALE, _TEST} else register + 1

    def load(self, register: int) -> int:
        """The registers for all outputs at once read as 0."""
        return 0 if _ALL_LED <= register < _PRESCALE else super().load(register)

    def store(self, register: int, value: int) -> None:
        if register == _MODE1:
            self._mode(value)
        elif register == _PRESCALE:
            if self.registers[_MODE1] & _SLEEP:
                self.registers[_PRESCALE] = max(value, 3)
        elif register < _LED0:
            self.registers[register] = value
        elif register < _LED_END:
            self._led(register, value)
        elif _ALL_LED <= register < _PRESCALE:
            for channel in range(16):
                self._led(_LED0 + 4 * channel + register - _ALL_LED, value)

    def _led(self, register: int, value: int) -> None:
        self.registers[register] = value & 0x1F if register & 1 else value
        if self._held:
            self._held = False
            self.registers[_MODE1] &= ~_RESTART

    def _mode(self, value: int) -> None:
        before = self.registers[_MODE1]
        restart = before & _RESTART
        if value & _SLEEP and not before & _SLEEP and any(self.duty(n) for n in range(16)):
            restart, self._held = _RESTART, True
        elif value & _RESTART and not value & _SLEEP:
            restart, self._held = 0, False
        self.registers[_MODE1] = value & ~_RESTART | restart


# InvenSense's MPU-6050 (RM-MPU-6000A-00, revision 4.2): an accelerometer, a gyroscope and a thermometer.

_RATE_DIVIDER, _CONFIG, _GYRO_CONFIG, _ACCEL_CONFIG = 0x19, 0x1A, 0x1B, 0x1C
_INT_STATUS, _DATA, _POWER_1, _POWER_2, _FIFO, _WHO_AM_I = 0x3A, 0x3B, 0x6B, 0x6C, 0x74, 0x75
_READ_ONLY = {*range(_INT_STATUS, 0x49), _WHO_AM_I}
_RESET, _SLEEPING, _TEMPERATURE_OFF = 0x80, 0x40, 0x08
_START_S = 0.03
_STANDARD_GRAVITY = 9.80665


class SimMPU6050(ByteRegisters):
    """An MPU-6050, asleep from power-on; lies flat unless the scene says otherwise."""

    size = 0x76

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._reset()

    def _reset(self) -> None:
        self.registers[:] = bytes(self.size)
        self.registers[_POWER_1] = _SLEEPING
        self.registers[_WHO_AM_I] = 0x68
        self.halt()

    def store(self, register: int, value: int) -> None:
        if register == _POWER_1 and value & _RESET:
            self._reset()
            return
        if register >= self.size or register in _READ_ONLY:
            return
        asleep = self.registers[_POWER_1] & _SLEEPING
        self.registers[register] = value
        if register == _POWER_1 and value & _SLEEPING:
            self.halt()
        elif register == _POWER_1 and asleep:
            self.begin(_START_S)

    def load(self, register: int) -> int:
        """Reading the interrupt status clears it."""
        value = super().load(register)
        if register == _INT_STATUS:
            self.registers[_INT_STATUS] = 0
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
                usual = _STANDARD_GRAVITY if axis == "z" else 0.0
                full_scale = 2 * _STANDARD_GRAVITY * 2 ** (self.registers[_ACCEL_CONFIG] >> 3 & 0b11)
                words[i] = encode_signed(self.scene.get(f"acceleration {axis}", usual) / full_scale * 32_768, 16)
            if not standby >> 2 - i & 1:
                per_degree = (131.0, 65.5, 32.8, 16.4)[self.registers[_GYRO_CONFIG] >> 3 & 0b11]
                words[4 + i] = encode_signed(self.scene.get(f"rotation {axis}", 0.0) * per_degree, 16)
        if not self.registers[_POWER_1] & _TEMPERATURE_OFF:
            words[3] = encode_signed((self.scene.get("temperature", 21.0) - 36.53) * 340, 16)
        struct.pack_into(">7H", self.registers, _DATA, *words)
        self.registers[_INT_STATUS] |= 0x01


# Maxim's DS3231 (19-5170): a clock that goes on by the scene's, from where it was set.

_CONTROL, _STATUS, _TEMPERATURE = 0x0E, 0x0F, 0x11
_CENTURY, _TWELVE_HOURS, _AFTERNOON = 0x80, 0x40, 0x20
_CONVERT, _OSCILLATOR_STOPPED, _BUSY = 0x20, 0x80, 0x04
_CONVERSION_S, _EVERY_S = 0.125, 64.0


class SimDS3231(ByteRegisters):
    """A DS3231 that was set to UTC once, and has run since."""

    size = 0x13

    def __init__(self, scene: Scene) -> None:
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
