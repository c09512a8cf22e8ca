"""ROHM BH1750FVI: illuminance over I2C, from half a lux to full sun.

Source: ROHM BH1750FVI technical note 11046EDT01; the sections named below are of that document.
Run `python3 tools/hw/bh1750.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart

ADDRESSES = (0x23, 0x5C)
QUANTITIES = ("light",)

# Instruction Set Architecture: measure once, then power down.
ONCE, ONCE_FINE = 0x20, 0x21
TIME_HIGH, TIME_LOW = 0x40, 0x60
USUAL_TIME, SHORTEST_TIME = 69, 31
# Electrical characteristics: 180 ms at most for either high-resolution mode, at the usual measuring time.
LONGEST_MEASUREMENT_S = 0.18
DIM, FULL = 100, 0xFFFF
DARKEST_AFTER_FULL = FULL * SHORTEST_TIME // USUAL_TIME // 2  # half of what follows from steady light


def decode(raw: int, time: int = USUAL_TIME, *, fine: bool = False) -> float:
    """Turn a result, 0 to 65,535, into lx (sections Measurement sequence and Adjust measurement result).

    `time` is the measuring time register, 31 to 254; `fine` is for high-resolution mode 2.
    """
    return raw / 1.2 * USUAL_TIME / time / (2 if fine else 1)


def read(part: I2CPart) -> dict[str, float]:
    """Measure up to twice and return lx by quantity; the part powers down by itself, at its usual measuring time.

    The part can neither be identified nor asked for its mode, so one that measured continuously stops.
    Raises ValueError when it is too bright, or two results contradict each other. Nothing but zeros is darkness,
    and is said to be what a line that is held low gives as well.
    """
    raw = _measure(part, ONCE, USUAL_TIME)
    if raw == FULL:
        return {"light": _measure_bright(part)}
    if raw >= DIM:
        return {"light": decode(raw)}
    raw = _measure(part, ONCE_FINE, USUAL_TIME)
    if raw == FULL:
        raise ValueError("two results contradict each other (dim, 0xffff): the light changed, or check SDA")
    if not raw:
        part.note("no light at all: it is dark, or SDA is held low, or this is not a BH1750")
    return {"light": decode(raw, fine=True)}


def _measure_bright(part: I2CPart) -> float:
    try:
        raw = _measure(part, ONCE, SHORTEST_TIME)
    finally:
        _set_time(part, USUAL_TIME)
    if raw == FULL:
        raise ValueError("the part reads as 0xFF only: more than 121,000 lx, or SDA is not connected; check the wiring")
    if raw < DARKEST_AFTER_FULL:
        raise ValueError(f"two results contradict each other (0xffff, 0x{raw:04x}): the light changed, or check SDA")
    return decode(raw, SHORTEST_TIME)


def _measure(part: I2CPart, mode: int, time: int) -> int:
    # The measuring time cannot be read back, and a value is wrong by it: it is set each time.
    _set_time(part, time)
    part.write(mode)
    part.sleep(LONGEST_MEASUREMENT_S * time / USUAL_TIME)
    return int.from_bytes(part.read(2), "big")


def _set_time(part: I2CPart, time: int) -> None:
    part.write(TIME_HIGH | time >> 5)
    part.write(TIME_LOW | time & 0x1F)


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
