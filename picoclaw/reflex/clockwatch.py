"""Whether the date can be believed, and whether somebody has set it: arithmetic on two clocks that are handed in."""

from collections.abc import Callable
from datetime import UTC, datetime

STEP_S = 2.0
STABLE_S = 600.0
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # nothing of this software is older


class ClockWatch:
    """Compares the date with a clock that nobody can set."""

    def __init__(self, vouched: Callable[[], bool], boot: str) -> None:
        """`vouched()` asks whether the network or a real-time clock stands for the date; `boot` names this boot."""
        self.boot = boot
        self._vouched = vouched
        self._apart: float | None = None
        self._since = 0.0

    def note(self, wall: float, mono: float) -> float:
        """Look at both clocks; returns by how many seconds the date was set since the last time, 0 for not."""
        apart = wall - mono
        step = 0.0 if self._apart is None else apart - self._apart
        if self._apart is None or abs(step) > STEP_S:
            self._since = mono
        self._apart = apart
        return step if abs(step) > STEP_S else 0.0

    def trusted(self, wall: float, mono: float) -> bool:
        """Tell whether the date is vouched for, or is plausible and was not set for a while."""
        return plausible(wall) and (mono - self._since >= STABLE_S or self._vouched())

    @property
    def patience(self) -> str:
        """What it takes until the date is believed, in words."""
        return f"at most until it has not been set for {STABLE_S / 60:.0f} minutes"

    def stable_in(self, mono: float) -> float:
        """Seconds until the date counts as stable, if nobody sets it."""
        return max(0.0, self._since + STABLE_S - mono)


def plausible(wall: float) -> bool:
    """Tell whether the date is not before this software."""
    return wall >= _BEGIN
