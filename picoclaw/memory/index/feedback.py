"""What the owner said of results, beside the index, because it cannot be made again from the notes."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from picoclaw.disk import write_atomic

FARTHEST = 1.0
_LARGEST = 10_000_000


def stamp(path: Path) -> tuple[int, ...]:
    """Tell what the file has last been, () where there is none; another number is another content."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return ()
    return about.st_mtime_ns, about.st_size, about.st_ino


def load(path: Path) -> dict[str, float]:
    """Read the boosts by what they are given to; none when there are none, or the file is damaged. Raises OSError."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    numbers = ((key, value) for key, value in found.items() if isinstance(value, int | float))
    return {key: max(-FARTHEST, min(FARTHEST, float(value))) for key, value in numbers if isfinite(value)}


def keep(path: Path, boosts: Mapping[str, float], key: str, step: float) -> None:
    """Add to a boost, within -1 and 1, durably. Raises OSError."""
    value = max(-FARTHEST, min(FARTHEST, boosts.get(key, 0.0) + step))
    kept = {**boosts, key: round(value, 6)}
    lines = ",\n".join(f"{json.dumps(name)}: {boost}" for name, boost in sorted(kept.items()) if boost)
    write_atomic(path, f"{{\n{lines}\n}}\n".encode())
