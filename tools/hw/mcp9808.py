"""Microchip MCP9808: temperature over I2C, to a sixteenth of a degree.

Source: Microchip DS25095A, MCP9808; the sections named below are of that datasheet.
Run `python3 tools/hw/mcp9808.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x18, 0x19, 0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F)
QUANTITIES = ("temperature",)
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

CONFIGURATION, CRITICAL, TEMPERATURE, MANUFACTURER, DEVICE = 0x01, 0x04, 0x05, 0x06, 0x07
MICROCHIP, MCP9808 = 0x0054, 0x04
SHUTDOWN, LOCKS, FULL = 0x0100, 0x00C0, 0xFFFF
# Section 5.2.4, resolution: 250 ms (typical) for the finest; a fifth is added, as no longest time is given.
LONGEST_CONVERSION_S = 0.3


def decode(word: int) -> float:
    """Turn the temperature register, 0 to 65,535, into °C (section 5.1.3); its three alarm flags are left out.

    Raises ValueError beyond -40 to 125 °C.
    """
    return within(((word & 0x0FFF) - (word & 0x1000)) / 16, -40, 125, "°C")


def identify(part: I2CPart) -> str:
    """Name the part by its manufacturer and device registers (sections 5.1.4 and 5.1.5), or return an empty string."""
    same = part.word(MANUFACTURER) == MICROCHIP and part.word(DEVICE) >> 8 == MCP9808
    return "MCP9808" if same else ""


def read(part: I2CPart) -> dict[str, float]:
    """Return °C by quantity; a part that was shut down is woken for one measurement.

    Raises ValueError when the part is not an MCP9808, or could not be shut down again.
    """
    if not identify(part):
        raise ValueError("the part's manufacturer and device registers (0x06, 0x07) are not those of an MCP9808")
    configuration = part.word(CONFIGURATION)
    if not configuration & SHUTDOWN:
        return {"temperature": _read_temperature(part)}
    if configuration & LOCKS:  # section 5.2.1: a locked part may be woken, but not be shut down again
        raise ValueError("the part is shut down and its limits are locked, so it would stay awake: power-cycle it")
    part.write_word(CONFIGURATION, configuration & ~SHUTDOWN)
    try:
        part.sleep(LONGEST_CONVERSION_S)
        return {"temperature": _read_temperature(part)}
    finally:
        part.write_word(CONFIGURATION, configuration)


def _read_temperature(part: I2CPart) -> float:
    word = part.word(TEMPERATURE)
    if word == FULL:  # section 5.1.3: the flags of too warm and of too cold at once
        raise ValueError("the temperature register reads as 0xFF only: check SDA, its pull-up and the part's supply")
    # Section 5.1.3: bit 15 is 1 from the critical limit on, which is 0 °C from power-on; 0 °C without it is no result.
    if not word and not part.word(CRITICAL):
        raise ValueError("the temperature register reads as 0x00 only: the part has not measured, or SDA is held low")
    return decode(word)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
