"""The `i2c` tool: list the buses, scan one, read and write the parts on it.

Source: kernel documents Documentation/i2c/i2c-protocol.rst and smbus-protocol.rst; i2cdetect(8).
Run `python3 tools/hw/i2c.py scan --bus 1` on the bench.
"""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from picoclaw.errors import HardwareError, ToolError
from picoclaw.hw.board import Board, Read, Write
from picoclaw.schema import Span, Unfit, check, parameters
from picoclaw.tools.toolset import Effect, tool

FIRST, LAST = 0x08, 0x77
Action = Literal["detect", "scan", "read", "write"]


class I2C:
    """Raw access to the I2C buses of a board."""

    def __init__(self, board: Board, known: Collection[tuple[int, int]] = ()) -> None:
        """Remember the board; opens no bus. `known` are bus and address of the parts that somebody has named."""
        self._board = board
        self._known = known

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Naming a register writes its number, which an expander or a DAC would take for its new output."""
        known = (arguments["bus"], arguments["address"]) in self._known
        points = arguments["action"] == "read" and arguments["register"] is not None
        return "actuate" if arguments["action"] == "write" or (points and not known) else "read"

    @tool(effect=_effect)
    def i2c(
        self,
        action: Action,
        bus: Annotated[int, Span(0, 255)] = 1,
        address: Annotated[int | None, Span(FIRST, LAST), "0x08-0x77"] = None,
        register: Annotated[int | None, Span(0, 255)] = None,
        length: Annotated[int, Span(1, 256), "bytes"] = 1,
        data: Annotated[list[int] | None, Span(0, 255), "bytes to write"] = None,
    ) -> str:
        """Use an I2C bus. detect lists buses, scan finds parts, read and write need address."""
        if action == "detect":
            return self._detect()
        if action == "scan":
            return self._scan(bus)
        if address is None:
            raise ToolError(f"address is missing for {action}; scan shows which addresses answer")
        if action == "read":
            return self._read(bus, address, register, length)
        return self._write(bus, address, register, data or [])

    def _detect(self) -> str:
        rows = [f"i2c-{a.number}: {a.name}{' (the pin header)' if a.header else ''}" for a in self._board.adapters()]
        return "\n".join(rows) or "no I2C bus: turn it on with `sudo raspi-config nonint do_i2c 0`"

    def _scan(self, number: int) -> str:
        bus = self._bus(number)
        rows = []
        for address in range(FIRST, LAST + 1):
            presence = bus.probe(address)
            if presence == "busy":
                rows.append(f"0x{address:02x} in use by kernel driver {bus.holder(address) or '(unnamed)'}")
            elif presence == "present":
                rows.append(f"0x{address:02x} answers")
        return f"i2c-{number}: " + ("; ".join(rows) or "nothing answers: check power, wiring and pull-ups")

    def _read(self, number: int, address: int, register: int | None, length: int) -> str:
        segments: list[Read | Write] = [Read(length)]
        if register is not None:
            segments.insert(0, Write(bytes([register])))
        data = self._bus(number).transfer(address, segments)[0]
        where = "" if register is None else f" from register 0x{register:02x}"
        return f"0x{address:02x} on i2c-{number}{where}: {data.hex(' ')} (hex, {len(data)} bytes)"

    def _write(self, number: int, address: int, register: int | None, data: list[int]) -> str:
        payload = bytes(data if register is None else [register, *data])
        if not data:
            raise ToolError("data is missing: a list of 1 to 256 bytes, such as [0x01, 0xff]")
        if len(data) > 256:
            raise ToolError(f"data holds {len(data)} bytes; one transfer takes at most 256")
        self._bus(number).transfer(address, [Write(payload)])
        return f"wrote {payload.hex(' ')} (hex) to 0x{address:02x} on i2c-{number}"

    def _bus(self, number: int) -> Any:
        known = [a.number for a in self._board.adapters()]
        if known and number not in known:
            raise ToolError(f"there is no i2c-{number}; there are: {', '.join(f'i2c-{n}' for n in known)}")
        return self._board.i2c(number)


def main(arguments: list[str]) -> int:
    """Run one action from the command line; exit code 1 when it fails."""
    import argparse

    from picoclaw.hw.bench import add_board_options, board_from

    parser = argparse.ArgumentParser(prog="i2c.py", description="List I2C buses, scan one, read a part.")
    parser.add_argument("action", choices=["detect", "scan", "read"])
    parser.add_argument("--address", help="0x08 to 0x77")
    parser.add_argument("--register", help="0 to 255")
    parser.add_argument("--length", help="how many bytes to read (default 1)")
    add_board_options(parser)
    options = parser.parse_args(arguments)
    board = board_from(options)
    wanted = ("action", "bus", "address", "register", "length")
    try:
        given = check(parameters(I2C.i2c), {name: getattr(options, name) for name in wanted})
        print(I2C(board).i2c(**given))
    except Unfit as error:
        parser.error(str(error))
    except (HardwareError, ToolError) as error:
        print(f"i2c: {error}", file=sys.stderr)
        return 1
    finally:
        board.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
