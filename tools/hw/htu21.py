"""HTU21D (TE), SHT21 (Sensirion) and Si7021 (Silicon Labs): temperature and relative humidity over I2C.

Sources: TE Connectivity, HTU21D(F) datasheet; Sensirion, Datasheet SHT21, version 4; Silicon Labs, Si7021-A20 data
sheet, revision 1.2. They share commands, checksum and formulas; the waits are those of the slowest, the SHT21.
Run `python3 tools/hw/htu21.py --help` to read one on the bench.
"""

from picoclaw.errors import BusFault
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x40,)
QUANTITIES = ("temperature", "humidity")

# SHT21, section 5.3, table 6: commands without holding the clock; section 5.6: user register.
MEASURE_TEMPERATURE, MEASURE_HUMIDITY, USER_REGISTER = 0xF3, 0xF5, 0xE7
HEATER_ON, SUPPLY_LOW = 0x04, 0x40
# SHT21, table 7: the longest measurements, 14 and 12 bits.
TEMPERATURE_S, HUMIDITY_S = 0.085, 0.029
STATUS_BITS = 0x0003
# Si7021, section 5.6: the second half of the electronic serial number begins with the part's number.
SERIAL_NUMBER = b"\xfc\xc9"
SILICON_LABS = {0x0D: "Si7013", 0x14: "Si7020", 0x15: "Si7021"}


def decode(temperature: int, humidity: int) -> dict[str, float]:
    """Turn the two raw words into °C and % (SHT21, section 6); their two lowest bits are no part of the value.

    Raises ValueError when the temperature is outside what the parts can measure.
    """
    celsius = within(-46.85 + 175.72 * (temperature & ~STATUS_BITS) / 65_536, -40, 125, "°C")
    percent = -6 + 125 * (humidity & ~STATUS_BITS) / 65_536
    return {"temperature": celsius, "humidity": min(max(percent, 0.0), 100.0)}


def identify(part: I2CPart) -> str:
    """Name the part by its electronic serial number, or return an empty string.

    Writes the command of 2 bytes that reads it, which changes nothing in these parts.
    """
    data = part.bus.transfer(part.address, [I2CWrite(SERIAL_NUMBER), I2CRead(6)])[0]
    try:
        _verify(part, data[:3])
    except BusFault:
        return ""
    # The serial number of an HTU21D holds the digits "21"; Sensirion's is a bare number.
    return SILICON_LABS.get(data[0]) or ("HTU21D" if data[:2] == b"21" else "SHT21")


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return °C and %; resolution and heater stay as they are.

    Raises BusFault when a checksum does not fit, DeviceMissing when nothing answers.
    """
    temperature = _measure(part, MEASURE_TEMPERATURE, TEMPERATURE_S)
    humidity = _measure(part, MEASURE_HUMIDITY, HUMIDITY_S)
    values = decode(temperature, humidity)
    user = part.registers(USER_REGISTER, 1)[0]
    if user & HEATER_ON:
        part.doubt("the part's own heater is on")
    if user & SUPPLY_LOW:
        part.doubt("the part's supply is low")
    return values


def _measure(part: I2CPart, command: int, seconds: float) -> int:
    part.write(command)
    part.sleep(seconds)
    return int.from_bytes(_verify(part, part.read(3)), "big")


def _verify(part: I2CPart, answer: bytes) -> bytes:
    if not any(answer):  # their checksum, which begins from 0, would fit
        raise BusFault("the part answers with zeros only: check that SDA is not held low, and the supply")
    return part.checked(answer, initial=0)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
