"""Whether the clock of the day can be believed, for rules that speak of hours. Source: adjtimex(2), rtc(4)."""

from datetime import datetime
from pathlib import Path

from picoclaw.errors import HardwareError
from picoclaw.hw.board import Board
from picoclaw.reflex.audit import NAME

_OLDEST_YEAR = 2026
_APART_S = 60.0


def trusted_wall(board: Board, home: Path) -> datetime | None:
    """Return local time, None when nothing vouches for it: neither the network's time nor a real-time clock.

    A date before the last record of the audit, or before this software was written, is not believed either.
    """
    now = datetime.now().astimezone()
    try:
        last = (home / NAME).stat().st_mtime
    except OSError:
        last = 0.0
    if now.year < _OLDEST_YEAR or now.timestamp() < last - _APART_S:
        return None
    return now if board.simulated or board.clock_synchronised() or _agrees(board, now.timestamp()) else None


def _agrees(board: Board, now: float) -> bool:
    """A real-time clock that was set from a wrong date agrees with it; without a battery it does not survive."""
    try:
        return any(
            abs(int(board.text(path)) - now) <= _APART_S for path in board.glob("/sys/class/rtc/rtc*/since_epoch")
        )
    except (HardwareError, ValueError):
        return False
