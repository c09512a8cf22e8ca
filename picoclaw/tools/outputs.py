"""The `output` tool, and declared outputs by GPIO line for a tool that is asked to switch a line."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from picoclaw.errors import HardwareError, ToolError
from picoclaw.hw.board import Board, find_line
from picoclaw.messages import Caller, is_outsider, is_owner
from picoclaw.outputs import client, config
from picoclaw.outputs.client import OutputsClient
from picoclaw.schema import Span
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.times import format_duration
from picoclaw.tools.registry import tool
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from picoclaw.outputs.audit import OnTime
    from picoclaw.times import TimeRange


class OutputSwitch:
    """Switches a GPIO line that is a declared output through the output supervisor."""

    def __init__(self, client: OutputsClient, board: Board, home: Path) -> None:
        self._client, self._board, self._home = client, board, home

    def names(self) -> Mapping[tuple[str, int], str]:
        """Declared outputs by chip path and line offset; those whose line is missing are left out."""
        found = {}
        for output in config.load_outputs(find_outputs_file(self._home)).outputs.values():
            if output.line:
                with suppress(HardwareError):
                    spot = find_line(self._board, output.line, output.chip)
                    found[spot.chip.path, spot.line.offset] = output.name
        return found

    def switch(self, name: str, level: str, seconds: float | None, caller: Caller | None) -> str:
        """Set an output to `on`, `off` or a duty cycle in percent; returns the result."""
        return self._client.set(name, level, seconds, name_caller(caller))


def name_caller(caller: Caller | None) -> str:
    """Name a caller as outputs.toml does."""
    if caller is None or is_owner(caller.origin):
        return "owner"
    return "user" if is_outsider(caller.origin) else caller.origin


# The `output` tool asks the output supervisor, which decides and drives; nothing here touches hardware.


class OutputTool:
    def __init__(self, client: client.OutputsClient) -> None:
        self._client = client

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        if arguments["action"] != "set":
            return "read" if arguments["action"] == "list" else "safe"
        name = self._client.meant(arguments["name"])
        self._client.check_length(name, arguments.get("seconds", 0))
        return "actuate" if self._client.wants_yes(name, arguments["level"]) else "switch"

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's newest message orders to switch it on, for just this long."""
        is_on = arguments["action"] == "set" and arguments["level"].strip().lower() == "on"
        names = {arguments["name"], self._client.meant(arguments["name"])} if is_on else ()
        return any(orders.is_ordered_output(name, arguments["seconds"], caller) for name in names)

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        if arguments["action"] != "set":
            return ""
        length = f", {format_duration(arguments['seconds'])}" if arguments["seconds"] else ""
        return f"{self._client.meant(arguments['name'])}: {arguments['level']}{length}"

    @tool(effect=_effect, means=_explain, is_requested=_is_requested)
    def output(
        self,
        action: Literal["list", "set", "off", "stop"],
        caller: Caller,
        name: str = "",
        level: Annotated[str, "on (default), or percent"] = "on",
        seconds: Annotated[float, Span(0, 86_400), "then it goes off; default: its longest"] = 0,
    ) -> str:
        """Switch the pumps, lights and valves that the owner declared. stop: all off until a person resumes."""
        if action == "list":
            return "\n".join(client.format_outputs(self._client.list()))
        if action == "stop":
            return self._client.stop(name_caller(caller))
        if not name.strip():
            raise ToolError("name is missing: `list` tells the names")
        name = self._client.meant(name)
        if action == "off":
            return self._client.off(name, name_caller(caller))
        return self._client.set(name, level, seconds or None, name_caller(caller))

    @tool(effect="read")
    def output_history(
        self, caller: Caller, name: str = "", when: Annotated[str, "yesterday, since monday"] = "today"
    ) -> str:
        """Show how often and how long outputs were on, and when and by whose order the last time."""
        from picoclaw.times import parse_range

        known = {str(row["name"]): config.format_level(row["level"]) for row in self._client.list()["outputs"]}
        if name.strip() and (name := self._client.meant(name)) not in known:
            raise ToolError(f"there is no output {name!r}; declared: {', '.join(known)}")
        wanted, times = parse_range(when, caller.now), self._client.list_on_times(caller.now)
        return "\n".join(
            format_on_times(
                one, [t for t in times if t.name == one], wanted, known[one], is_past=wanted.end < caller.now
            )
            for one in ([name] if name else known)
        )


def format_on_times(
    name: str, times: "Sequence[OnTime]", wanted: "TimeRange", level: str = "", *, is_past: bool = False
) -> str:
    """Say how often and how long an output was on in a time, which may have ended, when the last time was, and that it is
    off where that is its `level` now.
    """
    from picoclaw.times import format_duration

    inside = [one for one in times if one.ended > wanted.begin and one.began < wanted.end]
    spent = sum((min(one.ended, wanted.end) - max(one.began, wanted.begin)).total_seconds() for one in inside)
    said = (
        f"{name}: on {len(inside)} x, {format_duration(max(1, round(spent)), exact=True)} in all"
        if inside
        else f"{name}: not on{' then' if is_past else ''}"
    )
    if not times:
        return f"{said}; never switched on so far"
    last, now = times[-1], wanted.end.astimezone(wanted.begin.tzinfo)
    began, ended = (moment.astimezone(now.tzinfo) for moment in (last.began, last.ended))
    day = "" if began.date() == now.date() else f"{began:%a %Y-%m-%d} "
    until = f"{ended:%H:%M}" if not last.is_on else "now"
    return f"{said}; last {day}{began:%H:%M} to {until}, by {last.who}{'; off now' * (level == 'off')}"
