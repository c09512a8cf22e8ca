"""What the tests of the SPI, serial and 1-Wire parts share: a clock, wires with one part, and spoilt bytes."""

import random

from part_bench import Clock, driver

from picoclaw.hw.board import SpiNode, SpiSettings
from picoclaw.hw.handles import OneWirePart, SerialPart, SpiPart
from picoclaw.hw.sim import SimSerial, SimSpi
from picoclaw.hw.sim.script import Scene, SimFault, SimFaults


class Answers:
    """Something on SPI that sends fixed bytes."""

    def __init__(self, data):
        self.data = data

    def exchange(self, data, settings):
        return self.data.ljust(len(data), b"\0")[: len(data)]


class Says:
    """A serial peer whose bytes arrive in chunks; the first is there before the driver begins."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)
        self.heard = b""

    def receive(self, data):
        self.heard += data

    def pending(self):
        return self.chunks.pop(0) if self.chunks else b""


def _options(module, options):
    return {name: usual for name, (usual, _, _) in getattr(module, "OPTIONS", {}).items()} | (options or {})


def spi(name, made, values=None, options=None, fault=""):
    """Bind a part made by `made(scene)`, or a ready one, behind spi0.0; None is an empty socket."""
    clock, module = Clock(), driver(name)
    wiring = SimFaults(clock)
    if fault:
        wiring.faults.append(SimFault(fault, "spi0.0"))
    part = made(Scene(clock, values)) if isinstance(made, type) else made
    device = SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), part, wiring)
    return SpiPart(device, SpiSettings(**module.SPI), _options(module, options), clock.sleep, clock)


def sent(part):
    """What has been sent over SPI, message by message."""
    return [b"".join(segment.data for segment in segments) for segments, _ in part.device.log]


def serial(made, values=None, fault=""):
    """Bind a part made by `made(scene)`, or a ready one, to /dev/ttyS0."""
    clock = Clock()
    wiring = SimFaults(clock)
    if fault:
        wiring.faults.append(SimFault(fault, "/dev/ttyS0"))
    peer = made(Scene(clock, values)) if isinstance(made, type) else made
    return SerialPart(SimSerial("/dev/ttyS0", peer, clock.sleep, wiring), {}, clock.sleep, clock)


class Files:
    """The kernel's files of one device."""

    def __init__(self, content):
        self.content = content

    def text(self, path):
        return self.content[path]


def onewire(name, w1_slave):
    return OneWirePart(Files({f"/sys/bus/w1/devices/{name}/w1_slave": w1_slave}), name)


def spoilt(frame, count, seed=7):
    """Spoil a frame in one place, in many ways, the same ones each time; what is left is never the frame."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        at = rng.randrange(len(frame))
        found = rng.choice(
            [
                frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :],
                frame[:at] + rng.randbytes(1) + frame[at + 1 :],
                frame[:at] + frame[at + 1 :],
                frame[:at] + rng.randbytes(rng.randrange(1, 5)) + frame[at:] if at else frame[:-1],
                frame[:at],
                frame[at + 1 :],
                rng.randbytes(len(frame)),
            ]
        )
        if frame not in found:
            made += 1
            yield found
