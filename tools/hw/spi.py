"""The `spi` tool: list the chip selects, exchange bytes with the part on one.

Source: kernel document Documentation/spi/spidev.rst.
Run `python3 tools/hw/spi.py transfer --script "write 0x9f, read 3"` on the bench.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from picoclaw.errors import ToolError
from picoclaw.hw import loader
from picoclaw.hw.board import Board, SpiDevice, SpiSettings, SpiTransfer
from picoclaw.hw.reading import WiredPart
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.tools.registry import tool

MAX_BYTES = 4096
LONGEST_WAIT_US = 65_535
MAX_SEGMENTS = 32
LONGEST_CALL_S = 5.0
MAX_SCRIPT = 24_000
_NUMBER = re.compile(r"0x[0-9a-f]{1,4}|0|[1-9][0-9]{0,4}")
_WAIT = re.compile(r"([0-9]{1,6})(us|ms)")
_EXAMPLE = "such as 'write 0x9f, wait 10us, read 3, release, write 0x05'"
Action = Literal["list", "read", "transfer"]
BENCH_ACTIONS = ("list", "read", "transfer")


class Spi:
    """Raw access to the SPI buses of a board."""

    def __init__(self, board: Board) -> None:
        """Remember the board; opens nothing."""
        self._board = board

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Even a read sends bytes, which a DAC or a display would take for its new output."""
        return "read" if arguments["action"] == "list" else "actuate"

    @tool(effect=_effect)
    def spi(
        self,
        action: Action,
        bus: Annotated[int, Span(0, 255)] = 0,
        chip: Annotated[int, Span(0, 255)] = 0,
        length: Annotated[int | None, Span(1, MAX_BYTES)] = None,
        data: Annotated[list[int] | None, Span(0, 255)] = None,
        script: Annotated[str, "'write 0x9f 0, wait 10us, read 3, release, write 5'"] = "",
        mode: Annotated[int, Span(0, 3)] = 0,
        speed_hz: Annotated[int, Span(1, 125_000_000)] = 500_000,
        lsb_first: bool = False,  # noqa: FBT001 - the same
    ) -> str:
        """Use an SPI bus: list shows the chip selects, read reads length bytes, transfer sends data or a script."""
        if action == "list":
            return self._list()
        segments = _check_limits(self._segments(action, length, data, script), speed_hz)
        device = self._device(bus, chip)
        with loader.lock_part(self._board, WiredPart("", bus, chip=chip)):
            answers = device.transfer(segments, SpiSettings(mode, speed_hz, lsb_first))
        shown = [f"sent {s.data.hex(' ')}, received {a.hex(' ')}" for s, a in zip(segments, answers, strict=True)]
        if not any(any(s.data) for s in segments):
            shown = [f"received {answer.hex(' ')}" for answer in answers]
        total = sum(map(len, answers))
        return f"spidev{bus}.{chip}: {'; '.join(shown)} (hex, {total} bytes){_explain_doubt(b''.join(answers))}"

    def _list(self) -> str:
        nodes = self._board.spi_nodes()
        rows = [f"{n.path}: bus {n.bus}, chip {n.chip}" for n in nodes]
        return "\n".join(rows) or "no SPI chip select: turn SPI on with `sudo raspi-config nonint do_spi 0`"

    def _segments(self, action: Action, length: int | None, data: list[int] | None, script: str) -> list[SpiTransfer]:
        if action == "read":
            if data or script:
                raise ToolError("read sends zeros only; to send data or a script use transfer")
            return [SpiTransfer(bytes(length or 1))]
        if length is not None:
            raise ToolError("length belongs to read; for transfer give a script, " + _EXAMPLE)
        if bool(data) == bool(script.strip(" ,;\n")):
            raise ToolError("transfer needs either data, a list of bytes such as [0x9f, 0], or a script, " + _EXAMPLE)
        if len(script) > MAX_SCRIPT:
            raise ToolError(f"script holds {len(script)} characters; at most {MAX_SCRIPT} are taken")
        return [SpiTransfer(bytes(data))] if data else parse_script(script)

    def _device(self, bus: int, chip: int) -> SpiDevice:
        nodes = self._board.spi_nodes()
        if nodes and not any((n.bus, n.chip) == (bus, chip) for n in nodes):
            there = ", ".join(f"spidev{n.bus}.{n.chip}" for n in nodes)
            raise ToolError(f"there is no spidev{bus}.{chip}; there are: {there}")
        return self._board.spi(bus, chip)


def _check_limits(segments: list[SpiTransfer], speed_hz: int) -> list[SpiTransfer]:
    total = sum(len(s.data) for s in segments)
    seconds = 8 * total / speed_hz + sum(s.delay_us for s in segments) / 1e6
    if total > MAX_BYTES:
        raise ToolError(f"a message of {total} bytes is too long: at most {MAX_BYTES} go at a time")
    if len(segments) > MAX_SEGMENTS:
        raise ToolError(f"a script of {len(segments)} writes and reads is too long: at most {MAX_SEGMENTS} at a time")
    if seconds > LONGEST_CALL_S:
        raise ToolError(f"the message would take {seconds:.0f} s, longer than {LONGEST_CALL_S:g} s: raise speed_hz")
    return segments


def parse_script(script: str) -> list[SpiTransfer]:
    """Read steps separated by commas, semicolons or lines; raises ToolError naming the first wrong one.

    `write` bytes, `read` a number of them, `wait` up to 65,535 microseconds with the part selected, `release` it.
    """
    segments: list[SpiTransfer] = []
    for step in (part.strip().lower() for part in re.split(r"[,;\n]", script) if part.strip()):
        verb, *words = step.split()
        if verb == "write":
            segments.append(SpiTransfer(bytes(_parse_numbers(step, words, 0, 0xFF, MAX_BYTES))))
        elif verb == "read":
            segments.append(SpiTransfer(bytes(_parse_numbers(step, words, 1, MAX_BYTES, 1)[0])))
        elif verb not in {"wait", "release"}:
            raise ToolError(f"step {step[:60]!r} is none of write, read, wait and release; {_EXAMPLE}")
        elif not segments or segments[-1].release:
            raise ToolError(f"step {step[:60]!r} must follow a write or a read: waiting comes before releasing")
        else:
            segments.append(_apply_wait(segments.pop(), step, verb, words))
    return segments


def _parse_numbers(step: str, words: list[str], low: int, high: int, most: int) -> list[int]:
    numbers = [int(word, 0) for word in words if _NUMBER.fullmatch(word)]
    if not 1 <= len(numbers) <= most or len(numbers) < len(words) or not all(low <= n <= high for n in numbers):
        what = "a number" if most == 1 else "bytes"
        raise ToolError(f"step {step[:60]!r} needs {what}, decimal or 0x.., from {low} to {high}; {_EXAMPLE}")
    return numbers


def _apply_wait(segment: SpiTransfer, step: str, verb: str, words: list[str]) -> SpiTransfer:
    if verb == "release":
        if words:
            raise ToolError(f"step {step[:60]!r} is too much: after release comes a comma")
        return segment._replace(release=True)
    found = _WAIT.fullmatch("".join(words))
    delay = segment.delay_us + (int(found[1]) * (1000 if found[2] == "ms" else 1) if found else 0)
    if not found or delay > LONGEST_WAIT_US:
        raise ToolError(f"step {step[:60]!r} needs up to {LONGEST_WAIT_US}us, such as 'wait 10us' or 'wait 2ms'")
    return segment._replace(delay_us=delay)


def _explain_doubt(received: bytes) -> str:
    if len(received) > 1 and received in {bytes(len(received)), b"\xff" * len(received)}:
        return "; all bits are equal, as they are when nothing answers: check power, wiring and chip select"
    return ""


if __name__ == "__main__":
    from picoclaw.hw.bench import run_tool

    raise SystemExit(run_tool(Spi, "spi", BENCH_ACTIONS))
