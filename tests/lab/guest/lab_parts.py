"""Parts that only the lab has: a wire from MOSI to MISO, and a small EEPROM."""

from picoclaw.hw.board import SpiSettings
from picoclaw.hw.sim import Nack
from picoclaw.hw.sim.script import Scene


class Loop:
    """MISO wired to MOSI: what is sent comes back."""

    def __init__(self, scene: Scene) -> None:
        """Has no use for a scene."""

    def exchange(self, data: bytes, settings: SpiSettings) -> bytes:
        """See SpiSlave.exchange."""
        return data


class Memory:
    """An EEPROM as the 24C32: 16-bit addresses, pages of 32 bytes, deaf to three calls while it programs."""

    def __init__(self, scene: Scene) -> None:
        """All bytes are erased."""
        self._cells = bytearray(b"\xff" * 4096)
        self._at = 0
        self._deaf = 0

    def write(self, data: bytes) -> None:
        """See I2CSlave.write: an address, then bytes that wrap inside their page."""
        self._listen()
        if len(data) < 2:
            return
        self._at = (data[0] << 8 | data[1]) & 0xFFF
        for byte in data[2:]:
            self._cells[self._at] = byte
            self._at = self._at & ~31 | (self._at + 1) & 31
            self._deaf = 3

    def read(self, length: int) -> bytes:
        """See I2CSlave.read: sequential bytes."""
        self._listen()
        found = bytes(self._cells[(self._at + i) & 0xFFF] for i in range(length))
        self._at = (self._at + length) & 0xFFF
        return found

    def _listen(self) -> None:
        if self._deaf:
            self._deaf -= 1
            raise Nack
