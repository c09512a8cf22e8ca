"""SMBus' frames out of plain I2C segments, with and without a packet error code.

Source: System Management Bus specification 3.2, sections 6.4 (packet error checking) and 6.5 (bus protocols);
kernel document Documentation/i2c/smbus-protocol.rst.
"""

from collections.abc import Sequence

from picoclaw.errors import BusFault, ToolError
from picoclaw.hw.board import I2CBus, Read, Write
from picoclaw.hw.checks import crc8

LONGEST_BLOCK = 32


def read(bus: I2CBus, address: int, command: int, kind: str, *, pec: bool = False) -> bytes:
    """Read a `byte`, a `word` (low byte first) or a `block` (its length comes first) from a command code.

    Raises BusFault when the packet error code or a block's length is wrong.
    """
    body = {"byte": 1, "word": 2, "block": 1 + LONGEST_BLOCK}[kind]
    answer = bus.transfer(address, [Write(bytes([command])), Read(body + pec)])[0]
    if kind == "block":
        body = 1 + answer[0]
        if not 1 <= answer[0] <= LONGEST_BLOCK:
            raise BusFault(f"0x{address:02x} on i2c-{bus.number} gave a block length of {answer[0]}, not 1 to 32")
    if pec:
        sent = bytes([address << 1, command, address << 1 | 1])
        _verify(sent + answer[:body], answer[body], f"0x{address:02x} on i2c-{bus.number}")
    return answer[1:body] if kind == "block" else answer[:body]


def write(address: int, command: int, kind: str, data: Sequence[int], *, pec: bool = False) -> Write:
    """Make the segment that writes a `byte`, a `word` (given low byte first) or a `block`; raises ToolError."""
    wanted = {"byte": (1, 1), "word": (2, 2), "block": (1, LONGEST_BLOCK)}[kind]
    if not wanted[0] <= len(data) <= wanted[1]:
        raise ToolError(f"data holds {len(data)} bytes; an SMBus {kind} takes {wanted[0]} to {wanted[1]}")
    body = bytes([command, *([len(data)] if kind == "block" else []), *data])
    return Write(body + bytes([crc8(bytes([address << 1]) + body, 0x07, 0)] if pec else []))


def _verify(frame: bytes, code: int, where: str) -> None:
    wanted = crc8(frame, 0x07, 0)
    if code != wanted:
        raise BusFault(
            f"{where}: the packet error code is 0x{code:02x}, not 0x{wanted:02x}: the part may not use one (leave pec"
            " out), or the wiring is bad"
        )
