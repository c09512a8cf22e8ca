"""NXP PCF8574 and PCF8574A: eight inputs or outputs over I2C, each weakly high or strongly low.

Source: NXP PCF8574; PCF8574A product data sheet, revision 5, section 8.1 (quasi-bidirectional I/Os).
The part does not tell which of its pins are inputs. The option `inputs` does: it has a bit for each (p0 is 1, p1 is 2,
p7 is 128; 0 for none), so 3 is p0 and p1. Such a pin stays high, as an input must, and is never driven.
Run `python3 tools/hw/pcf8574.py --help` to read one on the bench.
"""

from picoclaw.hw.handles import I2CPart

# The PCF8574 is at 0x20 to 0x27, the PCF8574A at 0x38 to 0x3F.
ADDRESSES = (*range(0x20, 0x28), *range(0x38, 0x40))
CHANNELS = 8
GRADED = False
QUANTITIES = tuple(f"level p{channel}" for channel in range(CHANNELS))
OPTIONS = {"inputs": (0.0, 0.0, 255.0)}
# Read by picoclaw/hw/detect.py: this part has no registers, so even the number of one would switch what is wired to it.
ANY_BYTE_IS_OUTPUT = True


def decode(port: int) -> dict[str, float]:
    """Turn the port, 0 to 255, into levels, 0 or 1, by quantity and channel."""
    return {key: float(port >> channel & 1) for channel, key in enumerate(QUANTITIES)}


def read(part: I2CPart) -> dict[str, float]:
    """Return the levels at the eight pins. The part cannot be identified, and any byte may be right."""
    return decode(part.read(1)[0])


def drive(part: I2CPart, channel: int, level: float) -> None:
    """Set one output, 0 to 7, to 0 or 1; the others keep the level that their pins have, inputs stay high.

    The part does not tell what was written to it: a pin that is used as an input and is low now would be driven low
    from then on, unless the option `inputs` names it. Raises ValueError for a wrong channel or level.
    """
    _check_channel(channel)
    inputs = int(part.options["inputs"])
    if level not in {0, 1}:
        raise ValueError(f"level {level:g} of channel {channel} is not possible: a PCF8574 knows 0 and 1")
    if inputs >> channel & 1:
        raise ValueError(f"channel {channel} is an input by the option inputs = {inputs}: it is not driven")
    others = part.read(1)[0] & ~(1 << channel) | inputs
    part.write(others | int(level) << channel)


def level(part: I2CPart, channel: int) -> float:
    """Return the level at the pin of one channel, 0 to 7: 0 or 1, which a load may have pulled elsewhere."""
    _check_channel(channel)
    return float(part.read(1)[0] >> channel & 1)


def _check_channel(channel: int) -> None:
    if not 0 <= channel < CHANNELS:
        raise ValueError(f"channel {channel} does not exist: a PCF8574 has 0 to {CHANNELS - 1}")


if __name__ == "__main__":
    from picoclaw.hw.bench import run

    raise SystemExit(run(__file__))
