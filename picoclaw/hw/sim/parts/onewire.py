"""Maxim's 1-Wire thermometer DS18B20 (datasheet 19-7487), as it is seen through the files of the kernel's driver."""

from collections.abc import Callable, Mapping

from picoclaw.hw.sim.parts.words import clamp
from picoclaw.hw.sim.scene import Scene


class SimDS18B20:
    """A thermometer of 12 bits, with the alarm limits and the reserved bytes that it has after power-on."""

    def __init__(self, scene: Scene, serial: int = 1) -> None:
        """Measures `temperature` in °C; `serial` is the 48-bit number of the part."""
        self.scene = scene
        self.rom = append_crc(b"\x28" + serial.to_bytes(6, "little"))
        self.name = f"28-{serial:012x}"
        self.scratchpad = bytearray.fromhex("5005 4b467f ff0c10")

    def files(self) -> Mapping[str, Callable[[], str]]:
        """What the kernel shows in /sys/bus/w1/devices/NAME; a reading measures and waits for its end."""
        return {"w1_slave": self._w1_slave, "temperature": self._millidegrees, "name": lambda: self.name}

    def raw(self) -> int:
        """What it would measure now, in sixteenths of °C."""
        return round(clamp(self.scene.get("temperature", 21.0), -55, 125) * 16)

    def store(self, raw: int) -> None:
        """Put the outcome of a conversion into the scratchpad."""
        self.scratchpad[0:2] = (raw & 0xFFFF).to_bytes(2, "little")
        self.scratchpad[6] = 0x10 - (raw & 0x0F)

    def _measured(self) -> bytes:
        self.store(self.raw())
        return append_crc(bytes(self.scratchpad))

    def _millidegrees(self) -> str:
        return str(int(int.from_bytes(self._measured()[:2], "little", signed=True) * 1000 / 16))

    def _w1_slave(self) -> str:
        scratchpad = self._measured()
        shown = scratchpad.hex(" ")
        millidegrees = int(int.from_bytes(scratchpad[:2], "little", signed=True) * 1000 / 16)
        return f"{shown} : crc={scratchpad[8]:02x} YES\n{shown} t={millidegrees}"


def append_crc(data: bytes) -> bytes:
    """Append the CRC of x^8 + x^5 + x^4 + 1, computed bit by bit as the shift register of the datasheet does."""
    register = [0] * 8
    for bit in split_bits(data):
        feedback = bit ^ register[7]
        register = [feedback, *register[:7]]
        register[4] ^= feedback
        register[5] ^= feedback
    return data + bytes([sum(bit << (7 - position) for position, bit in enumerate(register))])


def split_bits(data: bytes) -> list[int]:
    """The bits of bytes, the lowest of each first."""
    return [byte >> position & 1 for byte in data for position in range(8)]
