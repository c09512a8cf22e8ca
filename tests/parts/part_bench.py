"""A bench for I2C parts: a clock moved by hand, a bus with one part, faults of its wiring, and broken parts."""

import re

import pytest

from picoclaw.errors import DeviceMissing
from picoclaw.files import find_shipped
from picoclaw.hw.board import I2CWrite
from picoclaw.hw.handles import I2CPart
from picoclaw.hw.loader import load_driver
from picoclaw.hw.sim import Nack, SimI2C
from picoclaw.hw.sim.script import Scene, SimFault, SimFaults

MORNING = 1_780_000_000.0


class Clock:
    """Seconds since the epoch, moved on by sleeping."""

    def __init__(self):
        self.now = MORNING
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Stuck:
    """Nothing but one byte, whatever is written: a data line that is held, or an empty socket with an echo."""

    def __init__(self, byte):
        self.byte = byte
        self.written = []

    def write(self, data):
        self.written.append(data)

    def read(self, length):
        return bytes([self.byte]) * length


class Deaf:
    """Acknowledges nothing."""

    def write(self, data):
        raise Nack

    read = write


class Fixed:
    """Registers by number that give the same bytes for ever, and remember what was written to them in between."""

    def __init__(self, registers):
        self.registers = registers
        self.pointer = 0
        self.written = []

    def write(self, data):
        self.pointer = data[0]
        if len(data) > 1:
            self.written.append(data)

    def read(self, length):
        return self.registers.get(self.pointer, b"").ljust(length, b"\0")[:length]


class Refused(SimFaults):
    """A wiring in which the bus's n-th transfers, counted from 1, are not acknowledged; all others are in order."""

    def __init__(self, clock, *which):
        super().__init__(clock)
        self.which = which
        self.transfers = 0

    def fault(self, *places):
        self.transfers += 1
        return "nack" if self.transfers in self.which else ""


class Answers:
    """A part without registers, which answers each reading with the next of some bytes, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def write(self, data):
        """Acknowledge."""

    def read(self, length):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer.ljust(length, b"\xff")[:length]


def driver(name):
    return load_driver(name, [find_shipped("tools/hw")])


def mounted(name, made, values=None, fault="", **options):
    """A driver's handle of a part at its usual address, with its usual options but for those given.

    The part is made by `made(scene)`, or is a ready one, which has no scene.
    """
    module, clock = driver(name), Clock()
    address = module.ADDRESSES[0]
    usual = {key: option[0] for key, option in getattr(module, "OPTIONS", {}).items()}
    wiring = SimFaults(clock)
    if fault:
        wiring.faults.append(SimFault(fault, "i2c-1"))
    part = made(Scene(clock, values)) if callable(made) else made
    return I2CPart(SimI2C(1, {address: part}, wiring), address, usual | options, clock.sleep, clock)


def refusing(handle, *which):
    """The same handle, its n-th transfers from now on refused; what was sent and slept before is forgotten."""
    handle.bus = SimI2C(1, handle.bus.parts, Refused(handle.clock, *which))
    handle.clock.slept.clear()
    return handle


def simulated(name, kind, values=None, **options):
    """The handle, the simulated part and its clock."""
    handle = mounted(name, kind, values, **options)
    return handle, handle.bus.parts[handle.address], handle.clock


def sent(handle):
    """What went over the bus so far, segment by segment; forgets it."""
    found = [segment for _, segment in handle.bus.log]
    handle.bus.log.clear()
    return found


def messages(handle):
    """The same as text: `w 0160a0` and `r 2`."""
    return [f"w {s.data.hex()}" if isinstance(s, I2CWrite) else f"r {s.length}" for s in sent(handle)]


def slept(handle):
    """For how long the driver has waited, time by time, in seconds."""
    return handle.clock.slept


def one_line(error):
    """Whether what was caught is one line that says enough, and not too much."""
    return re.fullmatch(r"[^\n]{31,180}", str(error.value)) is not None


def refused(name, part, said, **options):
    """Reading the part raises one line that says so."""
    with pytest.raises(ValueError, match=said) as caught:
        driver(name).read(mounted(name, part, **options))
    assert one_line(caught)


def unanswered(name):
    """A part that does not acknowledge is missing, by address."""
    module = driver(name)
    with pytest.raises(DeviceMissing, match=f"0x{module.ADDRESSES[0]:02x} on /dev/i2c-1 does not answer"):
        module.read(mounted(name, Deaf()))
