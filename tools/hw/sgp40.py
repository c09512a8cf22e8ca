"""Sensirion SGP40: the raw signal of its gas sensor over I2C, in ticks.

Source: Sensirion, Datasheet SGP40; the sections named below are of that datasheet.
The signal is proportional to the logarithm of the sensor's resistance and falls when there are more organic compounds.
It says nothing by itself, only compared with what it was before. Each reading heats the sensor for a quarter second.
Run `python3 tools/hw/sgp40.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart

ADDRESSES = (0x59,)
QUANTITIES = ("raw",)

# Tables 9, 10 and 14 (version 1.0): commands; 50 % and 25 °C leave the compensation off.
MEASURE, HEATER_OFF, SERIAL_NUMBER = 0x260F, 0x3615, 0x3682
UNCOMPENSATED = 0x8000, 0x6666
MEASURE_S, COMMAND_S = 0.030, 0.001
HEATING_S = 0.170  # what Sensirion's own low-power driver heats before the measurement that counts


def decode(ticks: int) -> dict[str, float]:
    """Return the raw word, which is the value.

    Raises ValueError when it is at an end of its scale, where a broken sensor or heater leaves it.
    """
    if ticks in {0, 0xFFFF}:
        raise ValueError(f"the part's signal is {ticks}, an end of its scale: its gas sensor or heater may be broken")
    return {"raw": float(ticks)}


def identify(part: I2CPart) -> str:
    """Name the part when it answers the command for its serial number with checksums that fit.

    Writes that command, of 2 bytes, which changes nothing in this part.
    """
    return "SGP40" if part.answers(SERIAL_NUMBER, 3, COMMAND_S) else ""


def read(part: I2CPart) -> dict[str, float]:
    """Heat the sensor, measure, turn the heater off, and return ticks, not compensated for humidity and temperature.

    Raises BusFault when a checksum does not fit, ValueError when the sensor may be broken.
    """
    try:
        _measure_ticks(part)  # turns the heater on; section 3.1: the first value is to be discarded
        part.sleep(HEATING_S)
        ticks = _measure_ticks(part)
    finally:
        part.words(HEATER_OFF, 0, COMMAND_S)
    return decode(ticks)


def _measure_ticks(part: I2CPart) -> int:
    return part.words(MEASURE, 1, MEASURE_S, UNCOMPENSATED)[0]


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
