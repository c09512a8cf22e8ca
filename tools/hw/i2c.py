"""The `i2c` tool: list the buses, scan one, read and write the parts on it.

Source: kernel documents Documentation/i2c/i2c-protocol.rst and smbus-protocol.rst; i2cdetect(8).
Run `python3 tools/hw/i2c.py scan --bus 1` on the bench.
"""

import time
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from picoclaw.errors import HardwareError, ToolError
from picoclaw.hw import handles, loader
from picoclaw.hw.board import Board, I2CBus, I2CRead, I2CWrite
from picoclaw.hw.reading import WiredPart
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.tools.registry import tool

FIRST_ADDRESS, LAST_ADDRESS = 0x08, 0x77
MAX_BYTES = 256
LONGEST_CALL_S = 5.0
Action = Literal["detect", "scan", "read", "write", "run"]
BENCH_ACTIONS = ("detect", "scan", "read")
Form = Literal["bytes", "byte", "word", "block"]


class Register(NamedTuple):
    """Where in a part: a register number of 8 or 16 bits, or none; and SMBus' form and checksum, if it uses them."""

    number: int | None
    wide: bool = False
    form: Form = "bytes"
    pec: bool = False

    def checked(self) -> "Register":
        """Return itself; raises ToolError when its parts do not go together."""
        if self.number is None and (self.form != "bytes" or self.wide):
            raise ToolError("register is missing: SMBus forms and 16-bit registers need one")
        if self.pec and self.form == "bytes":
            raise ToolError("pec goes with form byte, word or block")
        if self.wide and self.form != "bytes":
            raise ToolError("wide goes with form bytes: SMBus command codes have 8 bits")
        if self.number is not None and self.number > 0xFF and not self.wide:
            raise ToolError(f"register 0x{self.number:x} needs wide: true, for parts with 16-bit registers")
        return self

    def pointer(self) -> bytes:
        """The bytes that name the register on the bus."""
        return b"" if self.number is None else self.number.to_bytes(1 + self.wide, "big")

    def __str__(self) -> str:
        """For people."""
        return "" if self.number is None else f" register 0x{self.number:0{2 + 2 * self.wide}x}"


_TAKES = {"register": {"read", "write"}, "data": {"write"}, "script": {"run"}}


def _reject_unused(action: Action, **given: object) -> None:
    """Refuse an argument that the action would pass over: whoever gave it meant something by it.

    Small models fill every place: what is empty means nothing, and neither does register 0 where nothing is reached.
    """
    fillings: tuple[object, ...] = (None, "", [], 0) if action in {"detect", "scan"} else (None, "", [])
    for name, value in given.items():
        if value not in fillings and action not in _TAKES[name]:
            raise ToolError(f"{name} does not go with {action}; it goes with {' and '.join(sorted(_TAKES[name]))}")


class I2C:
    """Raw access to the I2C buses of a board."""

    def __init__(
        self,
        board: Board,
        known: Container[tuple[int, int]] = (),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        owned: Mapping[tuple[int, int], str] = MappingProxyType({}),
    ) -> None:
        """Remember the board; opens no bus.

        `known` are bus and address of the named parts whose registers can be read without a change of anything;
        `owned` names the declared output at a bus and address, which only its supervisor may write to.
        """
        self._board = board
        self._known = known
        self._owned = owned
        self._sleep = sleep
        self._clock = clock

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Naming a register writes its number, which an expander or a DAC would take for its new output."""
        known = (arguments["bus"], arguments["address"]) in self._known and not arguments.get("wide")
        points = arguments["action"] == "read" and arguments["register"] is not None
        return "actuate" if arguments["action"] in {"write", "run"} or (points and not known) else "read"

    @tool(effect=_effect)
    def i2c(
        self,
        action: Action,
        bus: Annotated[int, Span(0, 255)] = 1,
        address: Annotated[int | None, Span(FIRST_ADDRESS, LAST_ADDRESS), "0x08 to 0x77"] = None,
        register: Annotated[int | None, Span(0, 65_535)] = None,
        length: Annotated[int, Span(1, MAX_BYTES), "bytes to read, default 1"] = 1,
        data: Annotated[list[int] | None, Span(0, 255)] = None,
        form: Annotated[Form, "SMBus; default bytes"] = "bytes",
        pec: Annotated[bool, "SMBus checksum"] = False,
        wide: Annotated[bool, "16-bit register"] = False,
        script: Annotated[str, "for run: write 0x24 0, wait 15, read 6 (ms)"] = "",
    ) -> str:
        """Use an I2C bus: detect lists the buses, scan the addresses that answer; read, write and run take an address."""
        _reject_unused(action, register=register, data=data, script=script)
        if action == "detect":
            return self._detect()
        if action == "scan":
            return self._scan(bus)
        if address is None:
            raise ToolError(f"address is missing for {action}; scan shows which addresses answer")
        at = Register(register, wide, form, pec).checked()
        if (bus, address) in self._owned and not (action == "read" and register is None):
            raise ToolError(
                f"0x{address:02x} on i2c-{bus} is the declared output {self._owned[bus, address]}, which takes what is"
                " written for its level: use output"
            )
        if action == "run":
            return self._run(bus, address, handles.parse_script(script))
        with loader.lock_part(self._board, WiredPart("", bus, address)):
            return (
                self._read(bus, address, at, length) if action == "read" else self._write(bus, address, at, data or [])
            )

    def _detect(self) -> str:
        rows = [
            f"i2c-{a.number}: {a.name}" + (" (the pin header)" if a.header else f" ({a.use})" if a.use else "")
            for a in self._board.adapters()
        ]
        return "\n".join(rows) or "no I2C bus: turn it on with `sudo raspi-config nonint do_i2c 0`"

    def _scan(self, number: int) -> str:
        bus = self._bus(number)
        rows = []
        for address in range(FIRST_ADDRESS, LAST_ADDRESS + 1):
            try:
                presence = loader.probe(self._board, bus, address)
            except HardwareError as error:
                rows.append(f"ended at 0x{address:02x}: {error}")
                if len(rows) == 1:
                    raise
                break
            if presence == "busy":
                rows.append(f"0x{address:02x} in use by kernel driver {bus.holder(address) or '(unnamed)'}")
            elif presence == "present":
                rows.append(f"0x{address:02x} answers")
        return f"i2c-{number}: " + ("; ".join(rows) or "nothing answers: check power, wiring and pull-ups")

    def _read(self, number: int, address: int, at: Register, length: int) -> str:
        bus = self._writable(number) if at.wide else self._bus(number)
        if at.form != "bytes" and at.number is not None:
            data = handles.read_smbus(bus, address, at.number, at.form, pec=at.pec)
        else:
            pointer = at.pointer()
            data = bus.transfer(address, [*([I2CWrite(pointer)] if pointer else []), I2CRead(length)])[0]
        value = f" = {int.from_bytes(data, 'little')}" if at.form in {"byte", "word"} else ""
        where = f" from{at}" if at.number is not None else ""
        return f"0x{address:02x} on i2c-{number}{where}: {data.hex(' ')} (hex, {len(data)} bytes){value}"

    def _write(self, number: int, address: int, at: Register, data: list[int]) -> str:
        if not data:
            raise ToolError("data is missing: a list of 1 to 256 bytes, such as [0x01, 0xff]")
        if len(data) > MAX_BYTES:
            raise ToolError(f"data holds {len(data)} bytes; one transfer takes at most {MAX_BYTES}")
        if at.form != "bytes" and at.number is not None:
            segment = handles.make_smbus_write(address, at.number, at.form, data, pec=at.pec)
        else:
            segment = I2CWrite(at.pointer() + bytes(data))
        self._writable(number).transfer(address, [segment])
        return f"wrote {segment.data.hex(' ')} (hex) to 0x{address:02x} on i2c-{number}"

    def _run(self, number: int, address: int, script: list[handles.ScriptStep]) -> str:
        """Steps without a wait between them are one transaction, with repeated starts."""
        writes = any(isinstance(step, I2CWrite) for step in script)
        bus = self._writable(number) if writes else self._bus(number)
        waits = [step.milliseconds / 1000 for step in script if isinstance(step, handles.ScriptWait)]
        busy = 0.0
        answers: list[bytes] = []
        with loader.lock_part(self._board, WiredPart("", number, address)) as turn:
            sleep = turn.pausing(self._sleep)
            for transaction, wait in zip(handles.split_transactions(script), [*waits, 0.0], strict=True):
                if busy > LONGEST_CALL_S:
                    raise ToolError(
                        f"the transfers took longer than {LONGEST_CALL_S:g} s and were ended; {_format_answers(answers)}"
                    )
                began = self._clock()
                try:
                    answers += bus.transfer(address, transaction) if transaction else []
                except HardwareError as error:
                    raise ToolError(f"{error}; {_format_answers(answers)}") from None
                busy += self._clock() - began
                sleep(wait)
        return f"0x{address:02x} on i2c-{number}: {_format_answers(answers)}"

    def _bus(self, number: int) -> I2CBus:
        known = [a.number for a in self._board.adapters()]
        if known and number not in known:
            raise ToolError(f"there is no i2c-{number}; there are: {', '.join(f'i2c-{n}' for n in known)}")
        return self._board.i2c(number)

    def _writable(self, number: int) -> I2CBus:
        """A bus of the board's own parts is only read: a wrong byte there costs a monitor, a HAT or the mainboard."""
        use = next((a.use for a in self._board.adapters() if a.number == number), "")
        if use:
            raise ToolError(f"i2c-{number} is not written to: it belongs to {use}; wire parts to the pin header's bus")
        return self._bus(number)


def _format_answers(answers: list[bytes]) -> str:
    read = "; ".join(f"{data.hex(' ')} (hex, {len(data)} bytes)" for data in answers)
    return f"read {read}" if read else "nothing was read"


if __name__ == "__main__":
    from picoclaw.hw.bench import run_tool

    raise SystemExit(run_tool(I2C, "i2c", BENCH_ACTIONS))
