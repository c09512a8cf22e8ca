"""The stop button: an input line whose active level, or a short press, stops everything."""

from collections.abc import Callable

from picoclaw.errors import HardwareError
from picoclaw.hw.board import Bias, Board, LineHandle
from picoclaw.hw.lines import find
from picoclaw.reflex.declared import StopButton


class Button:
    """The line that outputs.toml names now, opened when it is first looked at."""

    def __init__(
        self,
        board: Board,
        hear: Callable[[LineHandle, Callable[[], None]], None],
        forget: Callable[[LineHandle], object],
        pressed: Callable[[], None],
    ) -> None:
        """`hear` calls back when the line has an edge, `forget` ends that; `pressed` is told of a press."""
        self._board = board
        self._hear = hear
        self._forget = forget
        self._pressed = pressed
        self._known: StopButton | None = None
        self._handle: LineHandle | None = None
        self.trouble = ""

    def held(self, wanted: StopButton | None) -> bool:
        """Tell whether the button that is wanted now is at its active level; `trouble` says why that is not known."""
        try:
            if wanted != self._known:
                self._change(wanted)
            return bool(wanted and self._handle and self._handle.get() == int(wanted.active == "high"))
        except HardwareError as error:
            self.trouble = f"the stop button cannot be read: {error}"
            return False

    def _change(self, wanted: StopButton | None) -> None:
        self.trouble = ""
        self._known = wanted
        if self._handle:
            self._forget(self._handle)
            self._handle.close()
            self._handle = None
        if wanted is None:
            return
        bias: Bias = "pull-up" if wanted.active == "low" else "pull-down"
        spot = find(self._board, wanted.line, wanted.chip)
        handle = self._handle = self._board.line_in(spot.chip.path, spot.line.offset, bias=bias, edges=True)
        self._hear(handle, lambda: self._edges(handle, int(wanted.active == "high")))

    def _edges(self, handle: LineHandle, active: int) -> None:
        """Also a press that is over by now counts."""
        if any(edge.level == active for edge in handle.edges(0)):
            self._pressed()
