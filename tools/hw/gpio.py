"""The `gpio` tool: list the GPIO lines, read one, watch it, count its edges, and switch the declared outputs.

Sources: kernel document Documentation/userspace-api/gpio/chardev.rst; BCM2835 ARM Peripherals, section 6.2,
"Alternative Function Assignments"; the free functions of the kernel's drivers pinctrl-bcm2835 and pinctrl-rp1.
Run `python3 tools/hw/gpio.py list` on the bench.
"""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

from picoclaw.errors import ToolError
from picoclaw.hw.board import HEADER_LABELS, Bias, Board, LineHandle, LineLocation, find_bus_using, find_line
from picoclaw.messages import Caller
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.tools.registry import tool

LONGEST_WAIT_S = 60
LONGEST_SWITCH_S = 86_400
WATCH_S, COUNT_S = 10.0, 1.0
MAX_SHOWN_EDGES = 20
PERSIST_PARAMETER = "/sys/module/pinctrl_*/parameters/persist_gpio_outputs"
NO_CHIP = "there is no GPIO chip: this kernel shows no /dev/gpiochip*"
Action = Literal["list", "read", "watch", "count", "set", "pulse", "pwm"]
BENCH_ACTIONS = ("list", "read", "watch", "count")


class OutputSwitch(Protocol):
    """The door to the declared outputs."""

    def names(self) -> Mapping[tuple[str, int], str]:
        """Return the declared outputs' names by chip (label or path) and offset."""
        ...

    def switch(self, name: str, level: str, seconds: float | None, caller: Caller | None) -> str:
        """Bring an output to `on`, `off` or a duty in percent, for `seconds`; returns what came of it."""
        ...


class Gpio:
    """The GPIO lines of a board."""

    def __init__(self, board: Board, outputs: OutputSwitch | None = None) -> None:
        """Remember the board; opens nothing. `outputs` are the declared ones."""
        self._board = board
        self._outputs = outputs

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "actuate" if arguments["action"] in {"set", "pulse", "pwm"} else "read"

    @tool(effect=_effect)
    def gpio(
        self,
        action: Action,
        line: Annotated[str, "GPIO17, 17 or pinctrl-rp1:17; for list a filter"] = "",
        level: Annotated[str, "for set: on or off; for pwm: percent"] = "",
        seconds: Annotated[float | None, Span(0, LONGEST_SWITCH_S)] = None,
        debounce_ms: Annotated[float, Span(0, 1000)] = 0.0,
        bias: Literal["pull-up", "pull-down", "none"] | None = None,
        caller: Caller | None = None,
    ) -> str:
        """Use GPIO lines. watch waits for an edge, count counts edges; set, pulse and pwm work on declared outputs only."""
        if action == "list":
            return self._list(line.strip())
        if not line.strip():
            raise ToolError(f"line is missing for {action}; list shows the lines")
        if action in {"set", "pulse", "pwm"}:
            return self._switch(action, line.strip(), level.strip(), seconds, caller)
        spot = self._free(self._spot(line.strip()))
        if action == "read":
            return self._read(spot, bias or "")
        wait = (WATCH_S if action == "watch" else COUNT_S) if seconds is None else seconds
        if not 0 < wait <= LONGEST_WAIT_S:
            raise ToolError(f"seconds is {wait:g}; {action} takes more than 0 and at most {LONGEST_WAIT_S}")
        work = _watch_edges if action == "watch" else _count_edges
        return self._with_edges(spot, bias or "", debounce_ms, lambda handle: work(str(spot), handle, wait))

    def _list(self, wanted: str) -> str:
        chips = self._board.gpio_chips()
        rows = []
        for chip in chips:
            spots = [LineLocation(chip, each) for each in self._board.lines(chip.path)]
            rows.append(f"{chip.label} ({chip.path}): {chip.lines} lines")
            named = [s for s in spots if s.line.name or s.line.consumer]
            rows += [row for row in map(self._row, named if not wanted else spots) if wanted.lower() in row.lower()]
            if not wanted and len(named) < len(spots):
                rows.append(f"and {len(spots) - len(named)} free lines without a name")
        if not chips:
            return NO_CHIP
        if wanted and len(rows) == len(chips):
            return f"no line fits {wanted!r}; list without line shows all"
        return "\n".join(rows)

    def _row(self, spot: LineLocation) -> str:
        name = self._declared(spot)
        direction = "output" if spot.line.output else "input"
        held = f"held by {spot.line.consumer}" if spot.line.consumer else "free"
        return f"{spot} {direction}, {held}{f', declared output {name}' if name else ''}"

    def _read(self, spot: LineLocation, bias: Bias) -> str:
        handle = self._board.line_in(spot.chip.path, spot.line.offset, bias="" if spot.line.output else bias)
        try:
            level = handle.get()
        finally:
            handle.close()
        return f"{spot} ({'output' if spot.line.output else 'input'}) is {level} ({'high' if level else 'low'})"

    def _with_edges(self, spot: LineLocation, bias: Bias, debounce_ms: float, work: Callable[[LineHandle], str]) -> str:
        if spot.line.output:
            raise ToolError(f"{spot} is an output; edges of it would have to be watched as those of an input")
        handle = self._board.line_in(
            spot.chip.path, spot.line.offset, bias=bias, edges=True, debounce_us=round(debounce_ms * 1000)
        )
        try:
            return work(handle)
        finally:
            handle.close()

    def _switch(self, action: str, line: str, level: str, seconds: float | None, caller: Caller | None) -> str:
        wanted = _parse_level(action, level, seconds)
        names = self._outputs.names() if self._outputs else {}
        name = line if line in names.values() else self._output(line)
        return self._outputs.switch(name, wanted, seconds, caller) if self._outputs else ""

    def _output(self, line: str) -> str:
        spot = self._spot(line)
        name = self._declared(spot)
        if not name:
            raise ToolError(
                f"{spot} is not a declared output: the owner puts it into outputs.toml as [outputs.NAME] with"
                f' chip = "{spot.chip.label}", line = "{spot.line.name or spot.line.offset}", then runs'
                " `picoclaw outputs arm NAME`"
            )
        return name

    def _declared(self, spot: LineLocation) -> str:
        names = self._outputs.names() if self._outputs else {}
        places = ((chip, spot.line.offset) for chip in (spot.chip.label, spot.chip.path))
        return next((names[place] for place in places if place in names), "")

    def _free(self, spot: LineLocation) -> LineLocation:
        """Let only a line pass that can be requested and given back without harm."""
        name = self._declared(spot)
        if spot.line.consumer:
            hint = f"it is the declared output {name}" if name else "only its holder can use it; end that program first"
            raise ToolError(f"{spot} is held by {spot.line.consumer}: {hint}")
        if bus := find_bus_using(self._board, spot):
            raise ToolError(f"{spot} belongs to {bus}, which is turned on: using it here would stop that bus")
        if spot.line.output and not (spot.chip.label.startswith(HEADER_LABELS) and self._persists()):
            raise ToolError(
                f"{spot} is an output that nobody holds: reading it could release what it drives"
                f"{f'; it is the declared output {name}' if name else ''}"
            )
        return spot

    def _persists(self) -> bool:
        """Tell whether this kernel leaves an output as it is when its line is given back."""
        answers = [self._board.text(path) for path in self._board.glob(PERSIST_PARAMETER)]
        return bool(answers) and all(answer == "Y" for answer in answers)

    def _spot(self, wanted: str) -> LineLocation:
        label, _, name = wanted.rpartition(":")
        if not self._board.gpio_chips():
            raise ToolError(NO_CHIP)
        return find_line(self._board, name, label)


def _parse_level(action: str, level: str, seconds: float | None) -> str:
    """Return the level that an output is asked for: `on`, `off`, or a duty in percent."""
    if action == "pulse":
        if not seconds:
            raise ToolError("seconds is missing for pulse: how long the output is on")
        return "on"
    if action == "set":
        if level.lower() not in {"on", "off"}:
            raise ToolError(f"level is {level!r}; set takes on or off (outputs.toml says which of them is high)")
        return level.lower()
    try:
        duty = float(level.removesuffix("%"))
    except ValueError:
        duty = -1.0
    if not 0 <= duty <= 100:
        raise ToolError(f"level is {level!r}; pwm takes a duty of 0 to 100 percent")
    return f"{duty:g}"


def _watch_edges(where: str, handle: LineHandle, seconds: float) -> str:
    level, began = handle.get(), time.monotonic_ns()
    edges = handle.edges(seconds)
    if not edges:
        return f"{where}: no edge in {seconds:g} s; it is {handle.get()}"
    rows = [f"{'rose to 1' if e.level else 'fell to 0'} after {(e.at_ns - began) / 1e9:.3f} s" for e in edges]
    more = [f"and {len(rows) - MAX_SHOWN_EDGES} more edges"] if len(rows) > MAX_SHOWN_EDGES else []
    return "\n".join([f"{where} was {level}", *rows[:MAX_SHOWN_EDGES], *more, *_format_lost(handle)])


def _count_edges(where: str, handle: LineHandle, seconds: float) -> str:
    until, total, rising = time.monotonic() + seconds, 0, 0
    first = last = 0
    while (left := until - time.monotonic()) > 0:
        for edge in handle.edges(left):
            total += 1
            if edge.level:
                first, last, rising = first or edge.at_ns, edge.at_ns, rising + 1
    words = f"{where}: {total} edges in {seconds:g} s, {rising} of them rising"
    if last > first:
        words += f"; {(rising - 1) * 1e9 / (last - first):.2f} Hz between the first and the last of these"
    return "\n".join([words, *_format_lost(handle)])


def _format_lost(handle: LineHandle) -> list[str]:
    lost = handle.lost
    return [f"{lost} edges were too fast and were lost"] if lost else []


if __name__ == "__main__":
    from picoclaw.hw.bench import run_tool

    raise SystemExit(run_tool(Gpio, "gpio", BENCH_ACTIONS))
