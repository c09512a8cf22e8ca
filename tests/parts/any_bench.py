"""A bench for any simulated part behind the kind of bus that its driver asks for."""

from part_bench import Clock, driver

from picoclaw.hw.board import SpiNode, SpiSettings
from picoclaw.hw.handles import I2CPart, OneWirePart, SerialPart, SpiPart
from picoclaw.hw.sim import SimI2C, SimSerial, SimSpi
from picoclaw.hw.sim.parts import make_part
from picoclaw.hw.sim.script import Scene, SimFaults


class Kernel:
    """The kernel's files of one 1-Wire device."""

    def __init__(self, files):
        self.files = files

    def text(self, path):
        return self.files[path.rpartition("/")[2]]()


def bound(name, values=None, options=None, around=lambda part: part):
    """A driver's handle of its own simulated part, which `around` may wrap."""
    module, clock = driver(name), Clock()
    part, wiring = around(make_part(name, Scene(clock, values))), SimFaults(clock)
    usual = {key: option[0] for key, option in getattr(module, "OPTIONS", {}).items()}
    common = (usual | (options or {}), clock.sleep, clock)
    if hasattr(module, "ADDRESSES"):
        address = module.ADDRESSES[0]
        return I2CPart(SimI2C(1, {address: part}, wiring), address, *common)
    if hasattr(module, "SPI"):
        return SpiPart(SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), part, wiring), SpiSettings(**module.SPI), *common)
    if hasattr(module, "SERIAL"):
        return SerialPart(SimSerial("/dev/ttyS0", part, clock.sleep, wiring), *common)
    return OneWirePart(Kernel(part.files()), part.name, *common)
