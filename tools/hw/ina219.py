"""Texas Instruments INA219: bus voltage, current through a shunt resistor, and power, over I2C.

Source: Texas Instruments SBOS448, INA219; the sections and tables named below are of that datasheet.
Run `python3 tools/hw/ina219.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = tuple(range(0x40, 0x50))
QUANTITIES = ("voltage", "current", "power")
OPTIONS = {"shunt_ohms": (0.1, 1e-6, 100.0)}

CONFIGURATION, SHUNT, BUS = 0x00, 0x01, 0x02
UNUSED, MODE, TRIGGERED, CONTINUOUS = 0xC000, 0x0007, 0b011, 0b111
READY, OVERFLOW = 0x0002, 0x0001
SHUNT_STEP_V, BUS_STEP_V = 10e-6, 4e-3
SMALLEST_RANGE = 4000  # 40 mV in steps of the shunt register, doubled by each gain (table Shunt Voltage Register)
# Table ADC Settings: 68.1 ms for 128 samples of each of the two voltages; 10 % are added for the part's clock.
STEP_S, CHECKS = 0.01, 15


def decode(shunt: int, bus: int, ohms: float) -> dict[str, float]:
    """Turn the shunt and bus voltage registers, 0 to 65,535, into V, A and W (section Register Details).

    `ohms` is the shunt's resistance; the current is computed from the shunt voltage, so no calibration is needed.
    Raises ValueError for a bus voltage above 32 V, the end of the register's range.
    """
    volts = within((bus >> 3) * BUS_STEP_V, 0, 32, "V")
    current = (shunt - 0x10000 * (shunt >> 15)) * SHUNT_STEP_V / ohms
    return {"voltage": volts, "current": current, "power": volts * current}


def read(part: I2CPart) -> dict[str, float | ValueError]:
    """Return V, A and W by quantity; a part that does not measure both voltages continuously does so once.

    When the shunt voltage is at the end of its range, an error stands in place of A and of W.
    Raises ValueError when the part is not an INA219, or did not finish.
    """
    configuration = part.word(CONFIGURATION)
    if not configuration or configuration & UNUSED:
        raise ValueError(f"the part is not an INA219: its configuration register (0x00) reads 0x{configuration:04x}")
    if configuration & MODE == CONTINUOUS:
        shunt, bus = part.word(SHUNT), part.word(BUS)
    else:
        shunt, bus = _measure_once(part, configuration)
    if not bus:  # a result comes with READY, until the power register is read
        part.doubt("the bus voltage register reads 0x0000, without its mark of a finished conversion")
    if bus & OVERFLOW:
        part.note("the part's own current and power overflowed (OVF): its calibration does not suit the current")
    values: dict[str, float | ValueError] = {**decode(shunt, bus, part.options["shunt_ohms"])}
    if abs(shunt - 0x10000 * (shunt >> 15)) >= SMALLEST_RANGE << (configuration >> 11 & 0b11):
        problem = ValueError("the shunt voltage is at the end of its range: the current is too high for this shunt")
        values["current"] = values["power"] = problem
    return values


def _measure_once(part: I2CPart, configuration: int) -> tuple[int, int]:
    part.write_word(CONFIGURATION, configuration & ~MODE | TRIGGERED)
    try:
        for _ in range(CHECKS):
            part.sleep(STEP_S)
            bus = part.word(BUS)
            if bus & READY:
                return part.word(SHUNT), bus
    finally:
        part.write_word(CONFIGURATION, configuration)
    raise ValueError("the measurement did not finish: power-cycle the part; it may not be an INA219")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
