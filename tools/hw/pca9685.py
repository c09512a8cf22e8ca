"""NXP PCA9685: sixteen PWM outputs over I2C, 12 bits, all of one frequency.

Source: NXP PCA9685 product data sheet, revision 4; the sections named below are of that datasheet.
Run `python3 tools/hw/pca9685.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart

ADDRESSES = tuple(address for address in range(0x40, 0x78) if address != 0x70)
CHANNELS = 16
GRADED = True
QUANTITIES = tuple(f"duty c{channel}" for channel in range(CHANNELS))
OPTIONS = {"frequency_hz": (200.0, 24.0, 1526.0)}
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

MODE1, FIRST_LED, PRESCALE = 0x00, 0x06, 0xFE
RESTART, AUTO_INCREMENT, SLEEP = 0x80, 0x20, 0x10
STEPS, FULL, RESERVED = 4096, 0x1000, 0xE000
OSCILLATOR_HZ, START_S = 25_000_000, 0.0005
LOWEST_PRESCALE, HIGHEST_PRESCALE = 3, 255


def decode(on: int, off: int) -> float:
    """Turn the two counts of a channel into its duty, 0 to 1 (section 7.3.3, with the full-ON and full-OFF bits)."""
    if off & FULL:
        return 0.0
    return 1.0 if on & FULL else (off - on) % STEPS / STEPS


def encode(level: float) -> tuple[int, int]:
    """Turn a duty, 0 to 1, into the two counts of a channel; 0 and 1 become full-OFF and full-ON (section 7.3.3)."""
    steps = round(level * STEPS)
    if steps <= 0:
        return 0, FULL
    return (FULL, 0) if steps >= STEPS else (0, steps)


def compute_prescale(frequency: float) -> int:
    """Return the prescaler for a frequency in Hz, 24 to 1526 (section 7.3.5), held to 3 to 255."""
    return min(max(round(OSCILLATOR_HZ / (STEPS * frequency)) - 1, LOWEST_PRESCALE), HIGHEST_PRESCALE)


def read(part: I2CPart) -> dict[str, float]:
    """Return the duties in % by quantity and channel; nothing is written.

    They are doubtful when the part sleeps. Raises ValueError when the part is not a PCA9685.
    """
    mode = _read_mode(part)
    if mode & SLEEP:
        part.doubt("the part sleeps: the outputs do not show these duties")
    data = _read_registers(part, mode, FIRST_LED, 4 * CHANNELS)
    return {key: 100 * _decode_duty(data[4 * channel : 4 * channel + 4]) for channel, key in enumerate(QUANTITIES)}


def drive(part: I2CPart, channel: int, level: float) -> None:
    """Give one output, 0 to 15, a duty of 0 to 1; the others keep theirs.

    A part that sleeps gets its frequency and is woken; what others of its outputs did before may go on then.
    Raises ValueError for a wrong channel or level, or when the part is not a PCA9685.
    """
    _check_channel(channel)
    if not 0 <= level <= 1:
        raise ValueError(f"level {level:g} of channel {channel} is not possible: a duty is 0 to 1")
    mode = _read_mode(part)
    awake = mode & ~(RESTART | SLEEP) | AUTO_INCREMENT
    if mode & SLEEP:  # section 7.3.5: the prescaler can be written in sleep only
        part.write(PRESCALE, compute_prescale(part.options["frequency_hz"]))
    if not mode & AUTO_INCREMENT:
        part.write(MODE1, awake | mode & SLEEP)
    on, off = encode(level)
    part.write(FIRST_LED + 4 * channel, *on.to_bytes(2, "little"), *off.to_bytes(2, "little"))
    if mode & SLEEP:
        part.write(MODE1, awake)
        part.sleep(START_S)


def level(part: I2CPart, channel: int) -> float:
    """Return the duty of one output, 0 to 15, as 0 to 1.

    Raises ValueError for a wrong channel, when the part is not a PCA9685, or sleeps though the duty is not 0.
    """
    _check_channel(channel)
    mode = _read_mode(part)
    found = _decode_duty(_read_registers(part, mode, FIRST_LED + 4 * channel, 4))
    if mode & SLEEP and found:
        raise ValueError(f"the part sleeps, so channel {channel} does not show its duty of {found:.3f}: drive it anew")
    return found


def _decode_duty(data: bytes) -> float:
    on, off = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:], "little")
    if (on | off) & RESERVED:
        raise ValueError(f"the part is not a PCA9685: a channel's registers read {data.hex(' ')}")
    return decode(on, off)


def _read_mode(part: I2CPart) -> int:
    mode, scale = part.registers(MODE1, 1)[0], part.registers(PRESCALE, 1)[0]
    if scale < LOWEST_PRESCALE or mode == 0xFF:
        raise ValueError(f"the part is not a PCA9685: MODE1 reads 0x{mode:02x} and PRE_SCALE 0x{scale:02x}")
    return mode


def _read_registers(part: I2CPart, mode: int, first: int, length: int) -> bytes:
    if mode & AUTO_INCREMENT:
        return part.registers(first, length)
    return b"".join(part.registers(first + i, 1) for i in range(length))


def _check_channel(channel: int) -> None:
    if not 0 <= channel < CHANNELS:
        raise ValueError(f"channel {channel} does not exist: a PCA9685 has 0 to {CHANNELS - 1}")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
