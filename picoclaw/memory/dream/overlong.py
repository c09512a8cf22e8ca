"""What has grown too long and should be condensed: a model hears of it once, and again when it has grown by a fifth."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ConfigError
from picoclaw.memory.notes.notes import lasting_file
from picoclaw.skills.library import BUILT_IN, FILE
from picoclaw.skills.skill import Skill
from picoclaw.store.marks import Marks
from picoclaw.store.pulse import Pulse
from picoclaw.workspace.reading import text

MEMORY, PULSE, SKILL = 10_000, 5_000, 20_000
"""Characters."""

GROWN = 1.2
_LARGEST = 1_000_000
_ENDLESS = 1_000_000_000


class Part(NamedTuple):
    """Something that is too long: its name, its characters, and how many there should be at most."""

    name: str
    size: int
    most: int

    def __str__(self) -> str:
        """Say it."""
        return f"{self.name} ({self.size} characters, {self.most} are enough)"


def overlong(workspace: Path, pulse: Pulse, skills: Iterable[Skill]) -> list[Part]:
    """Find the parts that are too long; what cannot be read is not. Raises StoreError."""
    memory = lasting_file(workspace)
    sizes = [
        Part(memory, _size(workspace / memory, MEMORY), MEMORY),
        Part("the pulse", len(pulse.shown(_ENDLESS)), PULSE),
    ]
    own = (skill for skill in skills if skill.tier != BUILT_IN)
    sizes += [Part(f"skills/{skill.name}/{FILE}", _size(skill.folder / FILE, SKILL), SKILL) for skill in own]
    return [part for part in sizes if part.size > part.most]


def news(found: Iterable[Part], marks: Marks) -> list[Part]:
    """Leave those that were not heard yet, or have grown since. Raises StoreError."""
    known = _heard(marks)
    return [part for part in found if part.size >= GROWN * int(known.get(part.name, "0"))]


def heard(found: Iterable[Part], marks: Marks) -> None:
    """Remember what a model has heard of all that is too long, and forget what no longer is. Raises StoreError."""
    known, parts = _heard(marks), list(found)
    fresh = {part.name: str(part.size) for part in news(parts, marks)}
    told = {part.name: known.get(part.name, "") for part in parts} | fresh
    marks.set("overlong", "\n".join(f"{name} {size}" for name, size in told.items()))


def _heard(marks: Marks) -> dict[str, str]:
    rows = (row.rpartition(" ") for row in marks.get("overlong").split("\n") if row)
    return {name: size for name, _, size in rows}


def _size(path: Path, most: int) -> int:
    """The characters of a file, 0 when its bytes alone are few enough."""
    try:
        return len(text(path, _LARGEST) or "") if path.stat().st_size > most else 0
    except (OSError, ConfigError):
        return 0
