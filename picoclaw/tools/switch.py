"""Declared outputs by the GPIO line that they are on, for a tool that is asked to switch a line."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from picoclaw.errors import HardwareError
from picoclaw.hw.board import Board
from picoclaw.hw.lines import find
from picoclaw.messages import Caller, is_owner
from picoclaw.reflex import declared
from picoclaw.reflex.outputs import Outputs
from picoclaw.workspace import outputs_file


class Switch:
    """Hands a wish for a line on to the keeper of the outputs."""

    def __init__(self, client: Outputs, board: Board, home: Path) -> None:
        """`home` is where outputs.toml is looked for."""
        self._client = client
        self._board = board
        self._home = home

    def names(self) -> Mapping[tuple[str, int], str]:
        """Return the declared outputs' names by chip (its path) and offset; one whose line is not there is left out."""
        found = {}
        for output in declared.load(outputs_file(self._home)).outputs.values():
            if output.line:
                with suppress(HardwareError):
                    spot = find(self._board, output.line, output.chip)
                    found[spot.chip.path, spot.line.offset] = output.name
        return found

    def switch(self, name: str, level: str, seconds: float | None, caller: Caller | None) -> str:
        """Bring an output to `on`, `off` or a duty in percent; returns what came of it."""
        return self._client.set(name, level, seconds, declared_who(caller))


def declared_who(caller: Caller | None) -> str:
    """Name a caller as the declarations of outputs do."""
    if caller is None or is_owner(caller.origin):
        return "owner"
    return "user" if caller.origin == "guest" else caller.origin
