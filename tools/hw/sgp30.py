"""Sensirion SGP30: CO2 equivalent and total volatile organic compounds over I2C.

Source: Sensirion, Datasheet SGP30; the sections named below are of that datasheet.
`co2` is what the part estimates from hydrogen, not a measurement of CO2. Its algorithm wants one measurement per second
from its start on, so values that are asked for now and then are less exact, which is said with them.
Run `python3 tools/hw/sgp30.py --help` to read one on the bench.
"""

from picoclaw.errors import BusFault, DeviceMissing
from picoclaw.hw.handles import I2CPart, within

ADDRESSES = (0x58,)
QUANTITIES = ("co2", "tvoc")

# Section "Measurement communication sequence", table of commands, with the longest durations; feature set: 10 ms.
START, MEASURE, FEATURES = 0x2003, 0x2008, 0x202F
START_S, MEASURE_S = 0.010, 0.012
# Section "Air quality signals": one measurement per second; for 15 s after the start it answers 400 ppm and 0 ppb.
WARMING_S, PERIOD_S = 15.0, 1.5
SGP30, IDLE = 0, [400, 0]


def decode(co2: int, tvoc: int) -> dict[str, float]:
    """Turn the two words into ppm and ppb, which they are.

    Raises ValueError when one is outside what the part reports: 400 to 60,000 ppm, 0 to 60,000 ppb.
    """
    return {"co2": within(float(co2), 400, 60_000, "ppm"), "tvoc": within(float(tvoc), 0, 60_000, "ppb")}


def identify(part: I2CPart) -> str:
    """Name the part by the product type in its feature set, or return an empty string.

    Writes the command of 2 bytes that reads it, which changes nothing in this part.
    """
    try:
        features = part.words(FEATURES, 1, START_S)[0]
    except BusFault:
        return ""
    return "SGP30" if features >> 12 == SGP30 else ""


def read(part: I2CPart) -> dict[str, float]:
    """Measure once and return ppm and ppb; the first reading of a process starts the part's algorithm, unless it runs.

    Raises BusFault when a checksum does not fit, ValueError when the part is no SGP30.
    """
    started, last = part.memory.pop("started", None), part.memory.pop("last", None)
    if started is None:
        if not identify(part):
            raise ValueError("the part's feature set (command 0x202f) is not that of an SGP30")
        if _is_running(part):  # by another process; to start it anew would throw its baseline away
            part.sleep(MEASURE_S)
            started = part.clock() - WARMING_S - PERIOD_S
        else:
            part.words(START, 0, START_S)
            started = part.clock()
        last = part.clock()
    values = decode(*part.words(MEASURE, 2, MEASURE_S))
    now = part.clock()
    if now - started <= WARMING_S:
        part.doubt("warming up: for 15 s after its start the part answers 400 ppm and 0 ppb")
    if now - last > PERIOD_S:
        part.note("the part is read less often than once per second, so its baseline is not kept")
    # Forgotten above until now: a part that failed may have lost power, and is started anew.
    part.memory.update(started=started, last=now)
    return values


def _is_running(part: I2CPart) -> bool:
    """Tell whether it measures: one that was not started, or has just been, refuses or answers 400 ppm and 0 ppb."""
    try:
        return part.words(MEASURE, 2, MEASURE_S) != IDLE
    except DeviceMissing:
        return False


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
