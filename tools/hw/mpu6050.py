"""InvenSense MPU-6050: acceleration and rotation in three axes, and the die's temperature, over I2C.

Source: InvenSense RM-MPU-6000A-00, register map, revision 4.2; PS-MPU-6000A-00, product specification, revision 3.4.
Run `python3 tools/hw/mpu6050.py --help` to read one on the bench.
"""

import struct

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x68, 0x69)
QUANTITIES = (
    *("acceleration x", "acceleration y", "acceleration z"),
    *("rotation x", "rotation y", "rotation z"),
    "temperature",
)

# Register map, section 3.
GYRO_CONFIG, DATA, POWER, WHO_AM_I = 0x1B, 0x3B, 0x6B, 0x75
MPU6050 = 0x68
RESETTING, ASLEEP_1, STANDBY_2 = 0x80, 0x68, 0x3F  # DEVICE_RESET; SLEEP, CYCLE and TEMP_DIS; the six axes
LSB_PER_G = 16_384.0
LSB_PER_DEGREE_S = (131.0, 65.5, 32.8, 16.4)  # rounded as the datasheet does, by FS_SEL
G = 9.80665
# Product specification, section 6.1: the gyroscope needs 30 ms from sleep; the low-pass filter settles meanwhile.
WAKE_S = 0.1
ENDS = (-32_768, 32_767)


def decode(data: bytes, gyro_range: int, acceleration_range: int) -> dict[str, float]:
    """Turn registers 0x3B to 0x48 into m/s², °/s and °C (register map, sections 4.17 to 4.19).

    The ranges are the codes 0 to 3 of FS_SEL and AFS_SEL. Raises ValueError for a temperature beyond -40 to 85 °C.
    """
    words = struct.unpack(">7h", data)
    acceleration = (word * G * (1 << acceleration_range) / LSB_PER_G for word in words[:3])
    rotation = (word / LSB_PER_DEGREE_S[gyro_range] for word in words[4:])
    celsius = within(words[3] / 340 + 36.53, -40, 85, "°C")
    return dict(zip(QUANTITIES, (*acceleration, *rotation, celsius), strict=True))


def identify(part: I2CPart) -> str:
    """Name the part by WHO_AM_I (register map, section 4.32), or return an empty string."""
    return "MPU6050" if part.registers(WHO_AM_I, 1)[0] == MPU6050 else ""


def read(part: I2CPart) -> dict[str, float]:
    """Return m/s², °/s and °C by quantity, in the ranges that the part is set to.

    A part that sleeps, wholly or in some axes, is woken and put back. Raises ValueError when the part is not an
    MPU-6050 or has not measured.
    """
    if not identify(part):
        raise ValueError("the part's identification register (0x75) is not that of an MPU-6050")
    before = part.registers(POWER, 2)
    if before[0] & RESETTING:  # never read as 1, and written back it would forget all settings
        raise ValueError(f"the part is resetting, or does not answer: 0x6B reads 0x{before[0]:02x}; check the wiring")
    awake = bytes([before[0] & ~ASLEEP_1, before[1] & ~STANDBY_2])
    if before == awake:
        return _read_values(part)
    part.write(POWER, *awake)
    try:
        part.sleep(WAKE_S)
        return _read_values(part)
    finally:
        part.write(POWER, *before)


def _read_values(part: I2CPart) -> dict[str, float]:
    gyro, acceleration = part.registers(GYRO_CONFIG, 2)
    if gyro == acceleration == 0xFF:  # a self-test of all axes, and bits that do not exist
        raise ValueError("the part's ranges (0x1B, 0x1C) read 0xFF only: check SDA, its pull-up and the part's supply")
    data = part.registers(DATA, 14)
    if data == b"\xff" * 14:
        raise ValueError("all results of the part read 0xFF: check SDA, its pull-up and the part's supply")
    if not any(data):
        raise ValueError("the part has not measured: all of its results are zero; power-cycle it")
    words = struct.unpack(">7h", data)
    if any(word in ENDS for word in (*words[:3], *words[4:])):
        part.note("an axis is at the end of its range: the true value may be larger")
    return decode(data, gyro >> 3 & 0b11, acceleration >> 3 & 0b11)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
