"""Maxim DS3231: a clock with a battery, and its own temperature, over I2C; nothing is ever written to it.

Source: Maxim 19-5170, DS3231, revision 10; the figures and sections named below are of that datasheet.
Run `python3 tools/hw/ds3231.py --help` to read one on the bench.
"""

from datetime import UTC, datetime

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x68,)
QUANTITIES = ("time", "temperature")
# Read by picoclaw/hw/loader.py: a register's number only moves the pointer here, so one may be read without asking.
REGISTERS = True

# Figure 1, timekeeping registers: 0x00-0x06 time, 0x0E control, 0x0F status, 0x11-0x12 temperature.
LENGTH, STATUS, TEMPERATURE = 0x13, 0x0F, 0x11
CENTURY, TWELVE_HOURS, AFTERNOON, STOPPED, STATUS_UNUSED = 0x80, 0x40, 0x20, 0x80, 0x70


def decode(data: bytes) -> dict[str, float]:
    """Turn registers 0x00 to 0x12 into seconds since 1970 (the clock being set to UTC) and °C (figure 1).

    A set century bit means 2100 to 2199. Raises ValueError for what is no date, no time or no such temperature.
    """
    second, minute, hour, _, day, month, year = data[:7]
    try:
        at = datetime(
            2000 + _decode_bcd(year) + (100 if month & CENTURY else 0),
            _decode_bcd(month & ~CENTURY),
            _decode_bcd(day),
            _decode_hour(hour),
            _decode_bcd(minute),
            _decode_bcd(second),
            tzinfo=UTC,
        )
    except ValueError as error:
        raise ValueError(
            f"the time registers hold no time ({data[:7].hex(' ')}): not a DS3231, or never set"
        ) from error
    quarters = int.from_bytes(data[TEMPERATURE : TEMPERATURE + 2], "big", signed=True) >> 6
    # Specified for -40 to 85 °C, and accurate to 3 °C: a good part may report a little more.
    return {"time": at.timestamp(), "temperature": within(quarters / 4, -45, 90, "°C")}


def read(part: I2CPart) -> dict[str, float | ValueError]:
    """Return UTC in seconds since 1970 and °C by quantity, all of one moment (section Clock and Calendar).

    There is no time when the clock has stopped since it was set. Raises ValueError when the part is no DS3231.
    """
    data = part.registers(0x00, LENGTH)
    values: dict[str, float | ValueError] = {**decode(data)}
    if data[STATUS] & STATUS_UNUSED:
        raise ValueError(f"the part is not a DS3231: its status register (0x0F) reads 0x{data[STATUS]:02x}")
    if data[STATUS] & STOPPED:
        values["time"] = ValueError("the clock stopped since it was set (OSF): set it, and check its battery")
    return values


def _decode_hour(register: int) -> int:
    if not register & TWELVE_HOURS:
        return _decode_bcd(register)
    hour = _decode_bcd(register & 0x1F)
    if not 1 <= hour <= 12:
        raise ValueError(f"no hour: 0x{register:02x}")
    return hour % 12 + (12 if register & AFTERNOON else 0)


def _decode_bcd(register: int) -> int:
    tens, units = divmod(register, 16)
    if tens > 9 or units > 9:
        raise ValueError(f"no decimal digits: 0x{register:02x}")
    return 10 * tens + units


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
