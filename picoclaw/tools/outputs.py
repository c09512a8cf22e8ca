"""The `output` tool, and declared outputs by GPIO line for a tool that is asked to switch a line."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.errors import HardwareError, ToolError
from picoclaw.hw.board import Board
from picoclaw.hw.lines import find_line
from picoclaw.messages import Caller, is_guest, is_owner
from picoclaw.outputs import client, config
from picoclaw.outputs.client import OutputsClient
from picoclaw.schema import Span
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.times import format_duration
from picoclaw.tools.registry import tool
from picoclaw.workspace import find_outputs_file


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
    return "user" if is_guest(caller.origin) else caller.origin


# The `output` tool asks the output supervisor, which decides and drives; nothing here touches hardware.


class OutputTool:
    def __init__(self, client: client.OutputsClient) -> None:
        self._client = client

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        if arguments["action"] != "set":
            return "read" if arguments["action"] == "list" else "safe"
        ask = self._client.wants_yes(self._client.meant(arguments["name"]), arguments["level"])
        return "actuate" if ask else "switch"

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
