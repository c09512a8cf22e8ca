"""Sensirion SCD40, SCD41 and SCD43: CO2, temperature and relative humidity over I2C.

Source: Sensirion, Datasheet SCD4x, version 1.3; the sections named below are of that datasheet.
Run `python3 tools/hw/scd4x.py --help` to read one on the bench. No setting of the part is changed or stored, but one
that is idle is left measuring continuously, as the datasheet intends.
"""

from picoclaw.errors import DeviceMissing
from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x62,)
QUANTITIES = ("co2", "temperature", "humidity")

# Section 3.4, table 9: commands, and which of them are taken during a measurement.
START, MEASUREMENT, STOP, DATA_READY, SERIAL_NUMBER = 0x21B1, 0xEC05, 0x3F86, 0xE4B8, 0x3682
COMMAND_S, STOP_S = 0.001, 0.5
READY = 0x07FF  # of the status word: none of these bits is set while there is no measurement
STEP_S, LONGEST_S, LONGEST_LOW_POWER_S = 0.5, 6.0, 31.0
PERIOD_S, SETTLED_S = 5.5, 60.0


def decode(co2: int, temperature: int, humidity: int) -> dict[str, float]:
    """Turn the three raw words into ppm, °C and % (section 3.5.2).

    Raises ValueError for values outside what the part can report: 1 to 40,000 ppm, as 0 stands for no measurement, and
    -10 to 60 °C.
    """
    return {
        "co2": within(float(co2), 1, 40_000, "ppm"),
        "temperature": within(-45 + 175 * temperature / 65_535, -10, 60, "°C"),
        "humidity": 100 * humidity / 65_535,
    }


def identify(part: I2CPart) -> str:
    """Name the part when it answers, idle or measuring, the command for its status with a checksum that fits.

    Writes that command, of 2 bytes, which changes nothing in this part.
    """
    return "SCD4x" if part.answers(DATA_READY, 1, COMMAND_S) else ""


def read(part: I2CPart) -> dict[str, float]:
    """Return ppm, °C and %.

    A part that measures continuously, every 5 or 30 s, is only read; until it has something new, what this process
    read last is the newest there is. An idle one is started first, which takes 6 s once. Raises BusFault when a
    checksum does not fit, ValueError when there is no measurement.
    """
    if not _is_ready(part):
        last = part.memory.get("last")
        if last and part.clock() - last[0] < PERIOD_S:
            return _note_settling(part, last[1])
        if _is_idle(part):
            _start(part)
        else:
            _wait_until_ready(part, LONGEST_LOW_POWER_S, "did not answer twice when asked for its serial number, and ")
    values = decode(*part.words(MEASUREMENT, 3, COMMAND_S))
    part.memory["last"] = part.clock(), values
    return _note_settling(part, values)


def _note_settling(part: I2CPart, values: dict[str, float]) -> dict[str, float]:
    # Table 1: 63 % of a change of CO2 shows after 60 s, and the part's own heat is compensated for when it is settled.
    started = part.memory.get("started")
    if started is not None and part.clock() - started < SETTLED_S:
        part.note("started within the last minute: it is more accurate later")
    return dict(values)


def _start(part: I2CPart) -> None:
    """Have it measure continuously from now on, and wait for the first time; one that does not is stopped again."""
    part.words(START, 0)
    part.memory["started"] = part.clock()
    is_measuring = False
    try:
        _wait_until_ready(part, LONGEST_S)
        is_measuring = True
    finally:
        if not is_measuring:
            _send_command(part, STOP, 0, STOP_S)


def _is_idle(part: I2CPart) -> bool:
    """Ask for the serial number, which a part that measures refuses (table 9)."""
    try:
        return bool(_send_command(part, SERIAL_NUMBER, 3, COMMAND_S))
    except DeviceMissing:
        return False


def _send_command(part: I2CPart, command: int, count: int, wait: float) -> list[int]:
    """Give a command, a second time when it is refused: a single refusal may be a disturbance of the bus."""
    try:
        return part.words(command, count, wait)
    except DeviceMissing:
        return part.words(command, count, wait)


def _is_ready(part: I2CPart) -> bool:
    return bool(part.words(DATA_READY, 1, COMMAND_S)[0] & READY)


def _wait_until_ready(part: I2CPart, longest: float, before: str = "") -> None:
    for _ in range(round(longest / STEP_S)):
        part.sleep(STEP_S)
        if _is_ready(part):
            return
    cause = "check the wiring" if before else "its supply may be too weak"
    raise ValueError(f"the part {before}gave no measurement within {longest:g} s: power-cycle it; {cause}")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
