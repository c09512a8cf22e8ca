"""Texas Instruments ADS1115: four voltages against ground over I2C, 16 bits.

Source: Texas Instruments SBAS444, ADS111x; the sections and tables named below are of that datasheet.
Run `python3 tools/hw/ads1115.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart

ADDRESSES = (0x48, 0x49, 0x4A, 0x4B)
QUANTITIES = ("voltage a0", "voltage a1", "voltage a2", "voltage a3")
OPTIONS = {"full_scale_v": (4.096, 0.256, 6.144), "samples_per_s": (128.0, 8.0, 860.0)}
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

CONVERSION, CONFIGURATION = 0x00, 0x01
# Table Config Register Field Descriptions.
IDLE, FIRST_SINGLE_ENDED, ONCE, NO_COMPARATOR = 0x8000, 4, 0x0100, 0x0003
RANGES_V = (6.144, 4.096, 2.048, 1.024, 0.512, 0.256)
RATES = (8, 16, 32, 64, 128, 250, 475, 860)
CLOCK_TOLERANCE, WAKE_S, CHECKS = 1.1, 50e-6, 3
HIGHEST, LOWEST = 0x7FFF, 0x8000


def decode(word: int, full_scale: float) -> float:
    """Turn the conversion register, 0 to 65,535, into V; `full_scale` is one of RANGES_V (section Data Format).

    Raises ValueError at either end of the range, where the input may be beyond it.
    """
    if word in {HIGHEST, LOWEST}:
        raise ValueError(f"beyond {full_scale:g} V: set the option full_scale_v higher, or check the input")
    return (word - 0x10000 * (word >> 15)) * full_scale / 0x8000


def choose_settings(full_scale: float, rate: float) -> tuple[int, int]:
    """Choose the codes of the smallest range that holds `full_scale` V, and of the fastest rate not above `rate`."""
    gain = max(code for code, volts in enumerate(RANGES_V) if volts >= full_scale)
    return gain, max(code for code, samples in enumerate(RATES) if samples <= rate)


def read(part: I2CPart) -> dict[str, float | ValueError]:
    """Measure the four inputs one after the other and return V by quantity and channel.

    An input that is beyond the range has an error in place of its V; the others have theirs.
    The configuration is put back, with which a part that measured continuously goes on to do so.
    Raises ValueError when the part is not an ADS1115, or did not finish.
    """
    before = part.word(CONFIGURATION)
    if before in {0x0000, 0xFFFF}:
        raise ValueError(f"the part is not an ADS1115: its configuration register (0x01) reads 0x{before:04x}")
    gain, rate = choose_settings(part.options["full_scale_v"], part.options["samples_per_s"])
    values: dict[str, float | ValueError] = {}
    try:
        for channel, key in enumerate(QUANTITIES):
            wanted = FIRST_SINGLE_ENDED + channel << 12 | gain << 9 | ONCE | rate << 5 | NO_COMPARATOR
            values[key] = _decode_volts(key, _measure(part, wanted, rate), RANGES_V[gain])
    finally:
        part.write_word(CONFIGURATION, before & ~IDLE)  # with bit 15 it would measure again
    return values


def _decode_volts(key: str, word: int, full_scale: float) -> float | ValueError:
    try:
        return decode(word, full_scale)
    except ValueError as error:
        return ValueError(f"{key} is {error}")


def _measure(part: I2CPart, wanted: int, rate: int) -> int:
    part.write_word(CONFIGURATION, wanted | IDLE)
    for _ in range(CHECKS):
        part.sleep(CLOCK_TOLERANCE / RATES[rate] + WAKE_S)
        found = part.word(CONFIGURATION)
        if found & ~IDLE != wanted:
            raise ValueError(f"the part is not an ADS1115: its configuration became 0x{found:04x}, not 0x{wanted:04x}")
        if found & IDLE:
            return part.word(CONVERSION)
    raise ValueError("the conversion did not finish: power-cycle the part; it may be damaged or a clone")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
