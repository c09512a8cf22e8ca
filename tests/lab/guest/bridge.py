"""The process behind the kernel module picosim: picoclaw's simulated parts answer what the kernel sends on its buses.

Message formats: kernel/picosim.c. Control: one JSON object per line on the Unix socket at SOCKET, one answer each:
    {"do": "place", "part": "bme280", "at": ["i2c-1/0x76"], "values": {"temperature": 21.5}}
    {"do": "values", "at": "i2c-1/0x76", "values": {"temperature": 3.0}}
    {"do": "remove", "at": "i2c-1/0x76"}
    {"do": "fault", "kind": "nack", "on": "i2c-1/0x76", "every": 1}     no kind: all faults end
    {"do": "log"}                                                       what was sent since the last time it was asked
"""

import errno
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

from picoclaw.errors import HardwareError
from picoclaw.hw.board import I2CRead, I2CWrite, SpiNode, SpiSettings, SpiTransfer
from picoclaw.hw.sim import SimI2C, SimSpi, parts
from picoclaw.hw.sim.script import Scene, SimFault, SimFaults

SOCKET = "/run/picosim.sock"
I2C_M_RD = 1
SPI_LSB_FIRST = 8
LAB_PARTS = {"loop": "lab_parts.Loop", "memory": "lab_parts.Memory", "ds2482": "onewire_parts.SimDS2482"}


class Buses:
    """What is wired to the two buses, and the messages that have passed."""

    def __init__(self) -> None:
        self.wiring = SimFaults(time.time)
        self.i2c = SimI2C(1, {}, self.wiring)
        self.spi: dict[int, SimSpi] = {}
        self.scenes: dict[str, Scene] = {}
        self.log: deque[dict[str, Any]] = deque(maxlen=2000)

    def i2c_message(self, body: bytes, count: int) -> bytes:
        """Run one I2C transaction; all of its segments go to one address."""
        at, address, segments = 0, 0, []
        for _ in range(count):
            address, flags, length = struct.unpack_from("<HHI", body, at)
            at += 8
            if flags & I2C_M_RD:
                segments.append(I2CRead(length))
            else:
                segments.append(I2CWrite(body[at : at + length]))
                at += length
        told = [s.length if isinstance(s, I2CRead) else s.data.hex() for s in segments]
        self.log.append({"address": address, "segments": told})
        return b"".join(self.i2c.transfer(address, segments))

    def spi_message(self, body: bytes, count: int) -> bytes:
        """Run one SPI message."""
        chip, mode, _ = struct.unpack_from("<BBH", body)
        at, segments, told = 4, [], []
        for _ in range(count):
            length, speed, bits, release, delay = struct.unpack_from("<IIBBH", body, at)
            at += 12
            segments.append(SpiTransfer(body[at : at + length], delay, bool(release)))
            at += length
            told.append({"length": length, "speed": speed, "bits": bits, "release": release, "delay": delay})
        self.log.append({"chip": chip, "mode": mode, "segments": told})
        settings = SpiSettings(mode & 3, told[0]["speed"], bool(mode & SPI_LSB_FIRST))
        device = self.spi.get(chip) or SimSpi(SpiNode(0, chip, ""), None, self.wiring)
        return b"".join(device.transfer(segments, settings))

    def place(self, part: str, at: list[str], values: dict[str, float], pace: float = 1.0) -> None:
        """Wire one part to all of the places, with a scene of its own, in which time passes `pace` times as fast."""
        scene = Scene(lambda: time.time() * pace, values)
        made = parts.make_part(part, scene) if part in parts.PARTS else _made(part, scene)
        for where in at:
            self.scenes[where] = scene
            bus, _, address = where.partition("/")
            if address:
                self.i2c.parts[int(address, 16)] = made
            else:
                node = SpiNode(0, int(bus.partition(".")[2]), where)
                self.spi[node.chip] = SimSpi(node, made, self.wiring)

    def remove(self, at: str) -> None:
        """Take a part away."""
        del self.scenes[at]
        bus, _, address = at.partition("/")
        if address:
            del self.i2c.parts[int(address, 16)]
        else:
            del self.spi[int(bus.partition(".")[2])]

    def control(self, asked: dict[str, Any]) -> object:
        """Do what a test asks for."""
        match asked.pop("do"):
            case "place":
                return self.place(**asked)
            case "remove":
                return self.remove(**asked)
            case "values":
                return self.scenes[asked["at"]].values.update(asked["values"])
            case "fault":
                self.wiring.faults = [SimFault(**asked)] if asked else []
                return None
            case "log":
                told = list(self.log)
                self.log.clear()
                return told
            case other:
                raise ValueError(f"the bridge cannot {other}")


def _made(part: str, scene: Scene) -> object:
    """Make a part of the lab, or a variant that is named by its module and class, `climate.SimAHT10`."""
    module, name = LAB_PARTS.get(part, f"{parts.__name__}.{part}").rsplit(".", 1)
    return getattr(import_module(module), name)(scene)


def answered(buses: Buses, message: bytes) -> bytes | None:
    """Answer one message of the kernel; None leaves it without an answer, as a bus does that hangs."""
    _, sequence, kind, _, count = struct.unpack_from("<IIBBH", message)
    try:
        data = (buses.i2c_message if kind == 1 else buses.spi_message)(message[12:], count)
    except HardwareError as error:
        number = getattr(error.__cause__, "errno", None) or errno.EIO
        return None if number == errno.ETIMEDOUT else struct.pack("<Ii", sequence, -number)
    return struct.pack("<Ii", sequence, 0) + data


def serve_kernel(buses: Buses, device: int) -> None:
    """Answer the message that waits."""
    answer = answered(buses, os.read(device, 1 << 20))
    if answer is not None:
        os.write(device, answer)


def serve_control(buses: Buses, connection: socket.socket) -> None:
    """Answer one request of a test; what is wrong with it is the answer."""
    with connection, connection.makefile("rw") as stream:
        try:
            answer = {"answer": buses.control(json.loads(stream.readline()))}
        except (KeyError, ValueError, TypeError, AttributeError, ImportError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        stream.write(json.dumps(answer) + "\n")


def main() -> None:
    """Serve both until the machine ends."""
    device = os.open("/dev/picosim", os.O_RDWR | os.O_NONBLOCK)
    Path(SOCKET).unlink(missing_ok=True)
    control = socket.socket(socket.AF_UNIX)
    control.bind(SOCKET)
    control.listen()
    buses = Buses()
    chosen = selectors.DefaultSelector()
    chosen.register(device, selectors.EVENT_READ)
    chosen.register(control, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in chosen.select():
            if key.fileobj == device:
                serve_kernel(buses, device)
            else:
                serve_control(buses, control.accept()[0])


if __name__ == "__main__":
    sys.exit(main())
