"""Texas Instruments INA226: bus voltage, current through a shunt resistor, and power, over I2C.

Source: Texas Instruments SBOS547, INA226; the sections and tables named below are of that datasheet.
Run `python3 tools/hw/ina226.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart, within

ADDRESSES = tuple(range(0x40, 0x50))
QUANTITIES = ("voltage", "current", "power")
OPTIONS = {"shunt_ohms": (0.1, 1e-6, 100.0)}

CONFIGURATION, SHUNT, BUS, MASK = 0x00, 0x01, 0x02, 0x06
MANUFACTURER, DIE = 0xFE, 0xFF
TEXAS, INA226 = 0x5449, 0x2260
RESET, MODE, TRIGGERED, CONTINUOUS = 0x8000, 0x0007, 0b011, 0b111
READY, OVERFLOW = 0x0008, 0x0004
SHUNT_STEP_V, BUS_STEP_V = 2.5e-6, 1.25e-3
ENDS = (0x7FFF, 0x8000)
# Tables AVG, VBUSCT and VSHCT Bit Settings: samples averaged, and ms for a sample, as a tenth longer than typical.
SAMPLES = (1, 4, 16, 64, 128, 256, 512, 1024)
SAMPLE_S = (154e-6, 224e-6, 365e-6, 646e-6, 1.21e-3, 2.328e-3, 4.572e-3, 9.068e-3)
CHECKS = 3


def decode(shunt: int, bus: int, ohms: float) -> dict[str, float]:
    """Turn the shunt and bus voltage registers, 0 to 65,535, into V, A and W (section Register Maps).

    `ohms` is the shunt's resistance; the current is computed from the shunt voltage, so no calibration is needed.
    Raises ValueError for a bus voltage above 36 V.
    """
    volts = within(bus * BUS_STEP_V, 0, 36, "V")
    current = (shunt - 0x10000 * (shunt >> 15)) * SHUNT_STEP_V / ohms
    return {"voltage": volts, "current": current, "power": volts * current}


def identify(part: I2CPart) -> str:
    """Name the part by its manufacturer and die registers, or return an empty string."""
    return "INA226" if (part.word(MANUFACTURER), part.word(DIE)) == (TEXAS, INA226) else ""


def read(part: I2CPart) -> dict[str, float | ValueError]:
    """Return V, A and W by quantity; a part that does not measure both voltages continuously does so once.

    The Mask/Enable register of a part that measures continuously is not read, as that would clear its alert.
    When the shunt voltage is at the end of its range, an error stands in place of A and of W.
    Raises ValueError when the part is not an INA226, or did not finish.
    """
    if not identify(part):
        raise ValueError("the part's manufacturer and die registers (0xFE, 0xFF) are not those of an INA226")
    configuration = part.word(CONFIGURATION)
    if configuration & RESET:  # clears itself, and written back it would forget all settings
        raise ValueError(f"the configuration register (0x00) reads 0x{configuration:04x}, a reset: check the wiring")
    if configuration & MODE == CONTINUOUS:
        shunt, bus = part.word(SHUNT), part.word(BUS)
    else:
        shunt, bus = _measure_once(part, configuration)
    values: dict[str, float | ValueError] = {**decode(shunt, bus, part.options["shunt_ohms"])}
    if shunt in ENDS:
        problem = ValueError("the shunt voltage is at the end of its range: the current is too high for this shunt")
        values["current"] = values["power"] = problem
    return values


def compute_longest_s(configuration: int) -> float:
    """Return the seconds that one measurement of both voltages takes at most, from the configuration register."""
    both = SAMPLE_S[configuration >> 6 & 0b111] + SAMPLE_S[configuration >> 3 & 0b111]
    return SAMPLES[configuration >> 9 & 0b111] * both


def _measure_once(part: I2CPart, configuration: int) -> tuple[int, int]:
    part.write_word(CONFIGURATION, configuration & ~MODE | TRIGGERED)
    try:
        for _ in range(CHECKS):
            part.sleep(compute_longest_s(configuration))
            flags = part.word(MASK)
            if flags & OVERFLOW:
                part.note("the part's own current and power overflowed (OVF): its calibration does not suit them")
            if flags & READY:
                return part.word(SHUNT), part.word(BUS)
    finally:
        part.write_word(CONFIGURATION, configuration)
    raise ValueError("the measurement did not finish: power-cycle the part; it may be damaged or a clone")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
