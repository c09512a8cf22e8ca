"""`fleet_list`, `fleet_read`, `fleet_ask`: boards that were paired with this one, by the daemon, which alone is connected."""

from pathlib import Path
from typing import Annotated, Any

from picoclaw.channels.ipc import ask_daemon
from picoclaw.errors import ToolError
from picoclaw.messages import Caller
from picoclaw.tools.registry import tool

_TIMEOUT_S, _ASK_TIMEOUT_S = 10.0, 100.0


class FleetTools:
    """What a paired board says is untrusted text: somebody else may have taken it over."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @tool(effect="read", brings=True)
    def fleet_list(self, caller: Caller) -> str:
        """List the other boards: sensors, outputs, what is wrong, whether they answer now."""
        boards = self._ask({"act": "list"}, caller)["boards"]
        return "\n".join(_format_board(board) for board in boards) or "no board is paired with this one"

    @tool(effect="read", brings=True)
    def fleet_read(
        self,
        board: Annotated[str, "a name from fleet_list, or a sensor of one of these boards"],
        sensor: Annotated[str, "sensor or quantity; default: all"] = "",
        *,
        caller: Caller,
    ) -> str:
        """Have another board measure now. Returns values with units."""
        return _get_text(self._ask({"act": "read", "board": board, "what": sensor}, caller))

    @tool(effect="network", brings=True)
    def fleet_ask(
        self,
        board: Annotated[str, "a name from fleet_list"],
        question: Annotated[str, "what its agent is asked, in full: it knows nothing of this conversation"],
        *,
        caller: Caller,
    ) -> str:
        """Ask another board's agent, which can only look things up there. For values, use fleet_read."""
        return _get_text(self._ask({"act": "ask", "board": board, "what": question}, caller, _ASK_TIMEOUT_S))

    def _ask(self, words: dict[str, Any], caller: Caller, seconds: float = _TIMEOUT_S) -> dict[str, Any]:
        if caller.origin == "remote":  # what a board lets this one see, it has let nobody else see
            raise ToolError("other boards cannot be asked for somebody who is not here")
        said = ask_daemon(self._home, {"do": "fleet", **words}, seconds)
        if said is None:
            raise ToolError("picoclaw does not run, and it alone is connected to the broker: picoclaw run")
        if "error" in said:
            raise ToolError(str(said["error"]))
        return said


def _get_text(said: dict[str, Any]) -> str:
    if not said["ok"]:
        raise ToolError(said["text"])
    return str(said["text"])


def _format_board(board: dict[str, Any]) -> str:
    known = [f"{key}: {'; '.join(board[key])}" for key in ("sensors", "outputs", "health") if board.get(key)]
    return f"{board['name']} ({'; '.join([*known, 'answers now' if board['answers'] else board['problem']])})"
