"""Microchip's MCP3008, clocked bit by bit as its datasheet DS21295 draws it (figures 5-1 and 5-2)."""

from collections.abc import Generator

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

_STEPS = 1024
_HIGH_IMPEDANCE = 1  # what a pulled-up line reads while the part does not drive it


class SimMCP3008:
    """Waits for the start bit, takes four bits of configuration, samples, and sends the value twice."""

    def __init__(self, scene: Scene, reference: float = 3.3) -> None:
        """Measures `voltage a0` to `voltage a7` of the scene in V; `reference` is the voltage at VREF in V."""
        self._scene = scene
        self._reference = reference

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:  # noqa: ARG002
        """Shift one selection's bits through the part."""
        chip = self._clocked()
        out = next(chip)
        bits = []
        for position in range(8 * len(data)):
            bits.append(out)
            out = chip.send(data[position // 8] >> (7 - position % 8) & 1)
        return bytes(sum(bit << (7 - i) for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))

    def _clocked(self) -> Generator[int, int, None]:
        """Yield the level of DOUT for each clock, and be sent DIN of that clock."""
        while not (yield _HIGH_IMPEDANCE):
            pass
        configuration = 0  # SGL/DIFF, D2, D1, D0
        for _ in range(4):
            configuration = configuration << 1 | (yield _HIGH_IMPEDANCE)
        yield _HIGH_IMPEDANCE
        value = self._convert(configuration & 0b111, single=bool(configuration & 0b1000))
        msb_first = f"{value:010b}"
        for bit in f"0{msb_first}{msb_first[-2::-1]}":
            yield int(bit)
        while True:
            yield 0

    def _convert(self, channel: int, *, single: bool) -> int:
        volts = self._scene.get(f"voltage a{channel}", self._reference / 2)
        if not single:  # table 5-2: the neighbour is IN-
            volts -= self._scene.get(f"voltage a{channel ^ 1}", self._reference / 2)
        return int(clipped(volts / self._reference * _STEPS, 0, _STEPS - 1))
