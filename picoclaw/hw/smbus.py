"""SMBus' frames out of plain I2C segments, with and without a packet error code.

Source: System Management Bus specification 3.2, sections 6.4 (packet error checking) and 6.5 (bus protocols);
kernel document Documentation/i2c/smbus-protocol.rst.
"""

import re
from collections.abc import Iterable, Sequence

from picoclaw.errors import BusFault, ToolError
from picoclaw.hw.board import I2CBus, I2CRead, I2CWrite
from picoclaw.hw.handles import crc8
from picoclaw.records import NamedTuple

LONGEST_BLOCK = 32


def read_smbus(bus: I2CBus, address: int, command: int, kind: str, *, pec: bool = False) -> bytes:
    """Read a `byte`, a `word` (low byte first) or a `block` (its length comes first) from a command code.

    Raises BusFault when the packet error code or a block's length is wrong.
    """
    body = {"byte": 1, "word": 2, "block": 1 + LONGEST_BLOCK}[kind]
    answer = bus.transfer(address, [I2CWrite(bytes([command])), I2CRead(body + pec)])[0]
    if kind == "block":
        body = 1 + answer[0]
        if not 1 <= answer[0] <= LONGEST_BLOCK:
            raise BusFault(f"0x{address:02x} on i2c-{bus.number} gave a block length of {answer[0]}, not 1 to 32")
    if pec:
        sent = bytes([address << 1, command, address << 1 | 1])
        _verify_pec(sent + answer[:body], answer[body], f"0x{address:02x} on i2c-{bus.number}")
    return answer[1:body] if kind == "block" else answer[:body]


def make_smbus_write(address: int, command: int, kind: str, data: Sequence[int], *, pec: bool = False) -> I2CWrite:
    """Make the segment that writes a `byte`, a `word` (given low byte first) or a `block`; raises ToolError."""
    wanted = {"byte": (1, 1), "word": (2, 2), "block": (1, LONGEST_BLOCK)}[kind]
    if not wanted[0] <= len(data) <= wanted[1]:
        raise ToolError(f"data holds {len(data)} bytes; an SMBus {kind} takes {wanted[0]} to {wanted[1]}")
    body = bytes([command, *([len(data)] if kind == "block" else []), *data])
    return I2CWrite(body + bytes([crc8(bytes([address << 1]) + body, 0x07, 0)] if pec else []))


def _verify_pec(frame: bytes, code: int, where: str) -> None:
    wanted = crc8(frame, 0x07, 0)
    if code != wanted:
        raise BusFault(
            f"{where}: the packet error code is 0x{code:02x}, not 0x{wanted:02x}: the part may not use one (leave pec"
            " out), or the wiring is bad"
        )


# A short script for one part on a bus, as text: `write 0x24 0x00, wait 15, read 6`.

# I2C_RDWR_IOCTL_MAX_MSGS of the kernel header include/uapi/linux/i2c-dev.h.
MAX_MESSAGES = 42
MAX_STEPS, MAX_BYTES, LONGEST_WAIT_MS, LONGEST_TEXT = 64, 256, 5000, 20_000
_EXAMPLE = "such as 'write 0x24 0x00, wait 15, read 6'"


class ScriptWait(NamedTuple):
    """A pause between two transfers, in milliseconds."""

    milliseconds: int


ScriptStep = I2CRead | I2CWrite | ScriptWait


def parse_script(text: str) -> list[ScriptStep]:
    """Read steps that are separated by commas, semicolons or lines; raises ToolError naming the first wrong one.

    At most 64 steps of 1-256 bytes each; all waits together are at most 5,000 ms.
    """
    if len(text) > LONGEST_TEXT:
        raise ToolError(f"script holds {len(text)} characters; one call takes at most {LONGEST_TEXT}")
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    if not parts:
        raise ToolError(f"script is missing: give steps, {_EXAMPLE}")
    if len(parts) > MAX_STEPS:
        raise ToolError(f"steps holds {len(parts)} steps; one call takes at most {MAX_STEPS}")
    found = [_parse_step(part) for part in parts]
    most = max(len(run) for run in split_transactions(found))
    if most > MAX_MESSAGES:
        raise ToolError(f"{most} steps follow each other without a wait; a transaction takes at most {MAX_MESSAGES}")
    waits = sum(step.milliseconds for step in found if isinstance(step, ScriptWait))
    if waits > LONGEST_WAIT_MS:
        raise ToolError(f"steps wait {waits} ms in all; one call waits at most {LONGEST_WAIT_MS}")
    return found


def split_transactions(found: Iterable[ScriptStep]) -> list[list[I2CRead | I2CWrite]]:
    """Split steps at their waits: what stands between two of them is one transaction, with repeated starts."""
    runs: list[list[I2CRead | I2CWrite]] = [[]]
    for step in found:
        if isinstance(step, ScriptWait):
            runs.append([])
        else:
            runs[-1].append(step)
    return runs


def _parse_step(text: str) -> ScriptStep:
    verb, *words = text.lower().split()
    numbers = [_parse_number(word, text) for word in words]
    if verb == "write" and 1 <= len(numbers) <= MAX_BYTES and max(numbers) <= 0xFF:
        return I2CWrite(bytes(numbers))
    if verb == "read" and len(numbers) == 1 and 1 <= numbers[0] <= MAX_BYTES:
        return I2CRead(numbers[0])
    if verb == "wait" and len(numbers) == 1:
        return ScriptWait(numbers[0])
    raise ToolError(
        f"step {text[:60]!r} is not one of 'write BYTES' (0-255 each), 'read COUNT' (1-{MAX_BYTES}),"
        f" 'wait MILLISECONDS'; {_EXAMPLE}"
    )


def _parse_number(word: str, text: str) -> int:
    if not re.fullmatch(r"0x[0-9a-f]{1,4}|[0-9]{1,5}", word):
        raise ToolError(f"step {text[:60]!r}: {word[:20]!r} is not a number, decimal or 0x..; {_EXAMPLE}")
    return int(word, 16 if word.startswith("0x") else 10)
