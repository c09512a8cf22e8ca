"""The world that the checklist speaks of: the sensors of this board, and files by their size and time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from picoclaw.errors import DeviceMissing
from picoclaw.heartbeat.due import Sample
from picoclaw.hw import parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Wired


def _nothing(_sensor: str, _what: str, _seconds: float) -> Sequence[Sample]:
    return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Reads what is wired, and looks at files without opening them. `history` gives samples of the last seconds."""

    board: Board
    wired: Mapping[str, Wired]
    drivers: parts.Drivers
    workspace: Path
    history: Callable[[str, str, float], Sequence[Sample]] = _nothing

    def sensors(self) -> Sequence[str]:
        """Name the sensors."""
        return [found.name for found in survey.sensors(self.board, dict(self.wired))]

    def read(self, sensor: str) -> Mapping[str, float]:
        """Measure now, by quantity and channel. Raises DeviceMissing where no sensor has the name."""
        known = survey.sensors(self.board, dict(self.wired))
        meant = [found for found in known if found.name.casefold() == sensor.casefold()]
        if not meant:
            names = ", ".join(found.name for found in known) or "none"
            raise DeviceMissing(f"there is no sensor {sensor!r}; there are: {names}")
        readings = [reading for found in meant for reading in survey.read(self.board, self.drivers, found)]
        return {reading.what: reading.value for reading in readings if reading.value is not None}

    def measures(self, sensor: str) -> Sequence[str]:
        """Name what it measures, by quantity and channel; none where that is not known."""
        found = [found for found in survey.sensors(self.board, dict(self.wired)) if found.name == sensor]
        by_kernel = [f"{known.quantity} {known.channel}".rstrip() for one in found for known in one.kernel]
        ours = [what for one in found if one.part and not one.kernel for what in self.drivers.channels(one.part)]
        return list(dict.fromkeys([*by_kernel, *ours]))

    def past(self, sensor: str, what: str, seconds: float) -> Sequence[Sample]:
        """Return what the history knows."""
        return self.history(sensor, what, seconds)

    def mark(self, path: str) -> str:
        """Tell a file's state by its size and time; what cannot be looked at is not there."""
        try:
            found = (self.workspace / Path(path).expanduser()).stat()
        except (OSError, ValueError, RuntimeError):
            return ""
        return f"{found.st_size} {found.st_mtime_ns}"
