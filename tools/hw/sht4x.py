"""Sensirion SHT40, SHT41, SHT43 and SHT45: temperature and relative humidity over I2C.

Source: Sensirion, Datasheet SHT4x; the sections named below are of that datasheet.
Run `python3 tools/hw/sht4x.py --help` to read one on the bench. The part's heater is never turned on.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x44, 0x45, 0x46)
QUANTITIES = ("temperature", "humidity")

# Section "Command overview": measure with high precision, read the serial number.
MEASURE, SERIAL_NUMBER = 0xFD, 0x89
# Section "Timings": at most 8.3 ms with high precision; 1 ms for the serial number.
LONGEST_MEASUREMENT_S, SERIAL_NUMBER_S = 0.0083, 0.001


def decode(temperature: int, humidity: int) -> dict[str, float]:
    """Turn the two raw words, 0 to 65,535, into °C and % (section "Conversion of signal output").

    The part's humidity reaches from -6 to 119 %, and is held to 0-100 as the datasheet asks for.
    Raises ValueError when the temperature is outside what the part can measure.
    """
    celsius = within(-45 + 175 * temperature / 65_535, -40, 125, "°C")
    return {"temperature": celsius, "humidity": min(max(-6 + 125 * humidity / 65_535, 0.0), 100.0)}


def identify(part: I2CPart) -> str:
    """Name the part when it answers the command for its serial number with checksums that fit.

    Writes that command, of 1 byte, which changes nothing in this part, and reads after a wait.
    """
    return "SHT4x" if part.answers(SERIAL_NUMBER, 2, SERIAL_NUMBER_S) else ""


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return °C and %.

    Raises BusFault when a checksum does not fit, DeviceMissing when nothing answers.
    """
    return decode(*part.words(MEASURE, 2, LONGEST_MEASUREMENT_S))


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
