"""`fleet_list` and `fleet_read`: boards that were paired with this one, asked through the daemon, which alone is connected."""

from pathlib import Path
from typing import Annotated, Any

from picoclaw.channels.ipc import ask_daemon
from picoclaw.errors import ToolError
from picoclaw.tools.registry import tool

_TIMEOUT_S = 10.0


class FleetTools:
    """What a paired board says is untrusted text: somebody else may have taken it over."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @tool(effect="read", brings=True)
    def fleet_list(self) -> str:
        """List the other boards: sensors, outputs, what is wrong, whether they answer now."""
        boards = self._ask({"act": "list"})["boards"]
        return "\n".join(_format_board(board) for board in boards) or "no board is paired with this one"

    @tool(effect="read", brings=True)
    def fleet_read(
        self,
        board: Annotated[str, "a name from fleet_list, or a sensor of one of these boards"],
        sensor: Annotated[str, "sensor or quantity; default: all"] = "",
    ) -> str:
        """Have another board measure now. Returns values with units."""
        said = self._ask({"act": "read", "board": board, "what": sensor})
        if not said["ok"]:
            raise ToolError(said["text"])
        return str(said["text"])

    def _ask(self, words: dict[str, Any]) -> dict[str, Any]:
        said = ask_daemon(self._home, {"do": "fleet", **words}, _TIMEOUT_S)
        if said is None:
            raise ToolError("picoclaw does not run, and it alone is connected to the broker: picoclaw run")
        if "error" in said:
            raise ToolError(str(said["error"]))
        return said


def _format_board(board: dict[str, Any]) -> str:
    known = [f"{key}: {'; '.join(board[key])}" for key in ("sensors", "outputs", "health") if board.get(key)]
    return f"{board['name']} ({'; '.join([*known, 'answers now' if board['answers'] else board['problem']])})"
