"""Aosong AHT20, AHT21 and AHT25, and the older AHT10: temperature and relative humidity over I2C.

Sources: Aosong, AHT20 product manuals (section 5.4, sensor reading process; section 6, signal conversion); AHT10
technical manual. An AHT10 sends no checksum: set the option `crc` to 0 for it.
Run `python3 tools/hw/aht20.py --help` to read one on the bench.
"""

from picoclaw.errors import BusFault
from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x38, 0x39)  # 0x39: an AHT10 with its address pin high
QUANTITIES = ("temperature", "humidity")
OPTIONS = {"crc": (1.0, 0.0, 1.0)}

# Section 5.3: commands and status bits; the AHT10 is initialised by another command.
MEASURE, INITIALISE_AHT20, INITIALISE_AHT10 = (0xAC, 0x33, 0x00), (0xBE, 0x08, 0x00), (0xE1, 0x08, 0x00)
BUSY, CALIBRATED = 0x80, 0x08
MEASUREMENT_S, CHECKS = 0.08, 4
INITIALISATION_S = 0.35  # the manuals say 10 ms; kernel driver aht10 found that some parts need this long


def decode(data: bytes) -> dict[str, float]:
    """Turn the status byte and the five bytes of a measurement into °C and % (section 6).

    Raises ValueError when the temperature is outside what the part can measure.
    """
    humidity = data[1] << 12 | data[2] << 4 | data[3] >> 4
    temperature = (data[3] & 0x0F) << 16 | data[4] << 8 | data[5]
    celsius = within(temperature / 2**20 * 200 - 50, -40, 85, "°C")
    return {"temperature": celsius, "humidity": humidity / 2**20 * 100}


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return °C and %; a part that has lost its calibration is initialised before.

    Raises ValueError when the part cannot be initialised or did not finish, BusFault when the checksum does not fit.
    """
    checked = bool(part.options.get("crc", 1))
    status = part.read(1)[0]
    if status == 0xFF:
        raise ValueError("the part's status is 0xFF: check that SDA is not held high and that this is an AHT20")
    if not status & CALIBRATED:
        _initialise(part, INITIALISE_AHT20 if checked else INITIALISE_AHT10)
    part.write(*MEASURE)
    data = _wait_for_data(part, 7 if checked else 6)
    if not checked:
        part.note("an AHT10 sends no checksum, a disturbed reading cannot be recognised")
        return decode(data)
    try:
        return decode(part.checked(data))
    except BusFault as error:
        raise BusFault(f"{error}; an AHT10 has no checksum, it needs the option crc = 0") from error


def _initialise(part: I2CPart, command: tuple[int, ...]) -> None:
    part.write(*command)
    part.sleep(INITIALISATION_S)
    if not part.read(1)[0] & CALIBRATED:
        raise ValueError("the part stays uncalibrated after its initialisation: power-cycle it, check the option crc")


def _wait_for_data(part: I2CPart, length: int) -> bytes:
    for _ in range(CHECKS):
        part.sleep(MEASUREMENT_S)
        data = part.read(length)
        if not data[0] & BUSY:
            return data
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
