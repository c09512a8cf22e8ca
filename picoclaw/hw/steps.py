"""A short script for one part on a bus, as text: `write 0x24 0x00, wait 15, read 6`."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from picoclaw.errors import ToolError
from picoclaw.hw.board import Read, Write

# I2C_RDWR_IOCTL_MAX_MSGS of the kernel header include/uapi/linux/i2c-dev.h.
MOST_MESSAGES = 42
MOST_STEPS, MOST_BYTES, LONGEST_WAIT_MS, LONGEST_TEXT = 64, 256, 5000, 20_000
_EXAMPLE = "such as 'write 0x24 0x00, wait 15, read 6'"


class Wait(NamedTuple):
    """A pause between two transfers, in milliseconds."""

    milliseconds: int


Step = Read | Write | Wait


def parse(text: str) -> list[Step]:
    """Read steps that are separated by commas, semicolons or lines; raises ToolError naming the first wrong one.

    At most 64 steps of 1-256 bytes each; all waits together are at most 5,000 ms.
    """
    if len(text) > LONGEST_TEXT:
        raise ToolError(f"script holds {len(text)} characters; one call takes at most {LONGEST_TEXT}")
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    if not parts:
        raise ToolError(f"script is missing: give steps, {_EXAMPLE}")
    if len(parts) > MOST_STEPS:
        raise ToolError(f"steps holds {len(parts)} steps; one call takes at most {MOST_STEPS}")
    found = [_step(part) for part in parts]
    most = max(len(run) for run in transactions(found))
    if most > MOST_MESSAGES:
        raise ToolError(f"{most} steps follow each other without a wait; a transaction takes at most {MOST_MESSAGES}")
    waits = sum(step.milliseconds for step in found if isinstance(step, Wait))
    if waits > LONGEST_WAIT_MS:
        raise ToolError(f"steps wait {waits} ms in all; one call waits at most {LONGEST_WAIT_MS}")
    return found


def transactions(found: Iterable[Step]) -> list[list[Read | Write]]:
    """Split steps at their waits: what stands between two of them is one transaction, with repeated starts."""
    runs: list[list[Read | Write]] = [[]]
    for step in found:
        if isinstance(step, Wait):
            runs.append([])
        else:
            runs[-1].append(step)
    return runs


def _step(text: str) -> Step:
    verb, *words = text.lower().split()
    numbers = [_number(word, text) for word in words]
    if verb == "write" and 1 <= len(numbers) <= MOST_BYTES and max(numbers) <= 0xFF:
        return Write(bytes(numbers))
    if verb == "read" and len(numbers) == 1 and 1 <= numbers[0] <= MOST_BYTES:
        return Read(numbers[0])
    if verb == "wait" and len(numbers) == 1:
        return Wait(numbers[0])
    raise ToolError(
        f"step {text[:60]!r} is none of 'write BYTES' (0-255 each), 'read COUNT' (1-{MOST_BYTES}),"
        f" 'wait MILLISECONDS'; {_EXAMPLE}"
    )


def _number(word: str, text: str) -> int:
    if not re.fullmatch(r"0x[0-9a-f]{1,4}|[0-9]{1,5}", word):
        raise ToolError(f"step {text[:60]!r}: {word[:20]!r} is not a number, decimal or 0x..; {_EXAMPLE}")
    return int(word, 16 if word.startswith("0x") else 10)
