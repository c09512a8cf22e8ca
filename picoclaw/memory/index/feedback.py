"""What the owner said of results, beside the index, because it cannot be made again from the notes."""

import contextlib
import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from picoclaw.disk import read_file, set_aside, write_atomic
from picoclaw.errors import StoreError

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
        return loaded(path)
    except StoreError:
        return {}


def loaded(path: Path) -> dict[str, float]:
    """Read the boosts. Raises OSError, and StoreError when the file is damaged."""
    damaged = f"{path} is damaged"
    try:
        found = json.loads(read_file(path, _LARGEST))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        raise StoreError(damaged) from None
    if not isinstance(found, dict):
        raise StoreError(damaged)
    numbers = ((key, value) for key, value in found.items() if isinstance(value, int | float))
    return {key: max(-FARTHEST, min(FARTHEST, value)) * 1.0 for key, value in numbers if str(value) != "nan"}


def rescued(path: Path) -> dict[str, float]:
    """Read the boosts that are about to be written again; a damaged file is put aside for its owner. Raises OSError."""
    try:
        return loaded(path)
    except StoreError:
        set_aside(path, time.strftime("%Y%m%d-%H%M%S"))
        return {}


def keep(path: Path, boosts: Mapping[str, float], key: str, step: float) -> None:
    """Add to a boost, within -1 and 1, durably. Raises OSError."""
    value = max(-FARTHEST, min(FARTHEST, boosts.get(key, 0.0) + step))
    _write(path, {**boosts, key: round(value, 6)})


def carry(path: Path, heirs: Mapping[str, str], staying: Collection[str]) -> None:
    """Give boosts to what has taken the place of what they were given to, which keeps its own if it is `staying`.

    Where that cannot be, the opinions stay as they are: notes are found without them as well.
    """
    with contextlib.suppress(OSError, StoreError):
        boosts = loaded(path)
        heirs = {old: new for old, new in heirs.items() if boosts.get(old)}
        if heirs:
            left = {key: boost for key, boost in boosts.items() if key in staying or key not in heirs}
            _write(path, {**{new: boosts[old] for old, new in heirs.items()}, **left})


def _write(path: Path, kept: Mapping[str, float]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {boost}" for name, boost in sorted(kept.items()) if boost)
    write_atomic(path, f"{{\n{lines}\n}}\n".encode())
