"""Finds a GPIO line by what people call it."""

from picoclaw.errors import DeviceMissing
from picoclaw.hw.board import Board, GpioChip, LineInfo
from picoclaw.records import NamedTuple

HEADER_LABELS = ("pinctrl-bcm", "pinctrl-rp1")
"""How the labels of the controllers begin that a Raspberry Pi's pin header is on."""
HEADER_BUSES: tuple[tuple[str, str, frozenset[int]], ...] = (
    ("", "/dev/i2c-1", frozenset({2, 3})),
    ("", "/dev/spidev0.*", frozenset({7, 8, 9, 10, 11})),
    ("", "/dev/spidev1.*", frozenset({16, 17, 18, 19, 20, 21})),
    ("pinctrl-bcm", "/dev/serial0", frozenset({14, 15})),
    ("pinctrl-rp1", "/dev/ttyAMA0", frozenset({14, 15})),
)
"""Header lines that a bus has taken: label, the bus's device file, lines.

The kernel lists them as free inputs, but a line that is given back becomes an input, and the bus is dead until the
next boot (bcm2835_pmx_free, rp1_pmx_gpio_disable_free). With a second bus of SPI, lines 16-18 are only chip selects.
Source: BCM2835 ARM Peripherals, section 6.2, "Alternative Function Assignments".
"""


class LineLocation(NamedTuple):
    """A line and the controller that it belongs to."""

    chip: GpioChip
    line: LineInfo

    def __str__(self) -> str:
        """`pinctrl-rp1:17 GPIO17`."""
        return f"{self.chip.label}:{self.line.offset} {self.line.name}".rstrip()


def find_line(board: Board, wanted: str, chip: str = "") -> LineLocation:
    """Find a line by its name or number, on a chip named by label or path, or on any.

    A number without a chip means the controller of the pin header, if there is one.
    Raises DeviceMissing when there is none, or when several fit.
    """
    known = board.gpio_chips()
    chips = [c for c in known if chip in {"", c.label, c.path}]
    if not chips:
        there = ", ".join(c.label for c in known)
        raise DeviceMissing(f"there is no GPIO chip {chip[:60]!r}; there are: {there or 'none that may be opened'}")
    spots = [LineLocation(c, line) for c in chips for line in board.lines(c.path)]
    fits = [s for s in spots if wanted and s.line.name.lower() == wanted.lower()] or _match_offset(spots, wanted)
    if len(fits) == 1:
        return fits[0]
    if fits:
        places = ", ".join(f"{s.chip.path}:{s.line.offset} ({s.chip.label})" for s in fits)
        raise DeviceMissing(f"line {wanted!r} could be {places}: name its chip")
    raise DeviceMissing(f"there is no GPIO line {wanted[:60]!r} on {', '.join(c.label for c in chips)}")


def _match_offset(spots: list[LineLocation], number: str) -> list[LineLocation]:
    fits = [spot for spot in spots if str(spot.line.offset) == number]
    return [spot for spot in fits if spot.chip.label.startswith(HEADER_LABELS)] or fits


def find_bus_using(board: Board, spot: LineLocation) -> str:
    """Name the device file of the bus that needs this line of the pin header and is turned on, if there is one."""
    for label, device, offsets in HEADER_BUSES:
        header = spot.chip.label.startswith(HEADER_LABELS) and spot.chip.label.startswith(label)
        if header and spot.line.offset in offsets and (found := board.glob(device)):
            return found[0]
    return ""
