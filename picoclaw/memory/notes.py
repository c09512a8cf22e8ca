"""Daily notes `memory/YYYYMM/YYYYMMDD.md`: written a line at a time, found again by their words."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from picoclaw.disk import append, make_folder, write_atomic
from picoclaw.ranking import asked, words

_LARGEST_FILE = 1_000_000


class Hit(NamedTuple):
    """A line that was found; `path` is relative to the workspace, `line` counts from 1."""

    path: str
    line: int
    text: str
    score: float


def add(workspace: Path, text: str, now: datetime) -> Path:
    """Add a line to the note of the local day of `now`; durable when this returns. Raises OSError."""
    path = workspace / "memory" / f"{now:%Y%m}" / f"{now:%Y%m%d}.md"
    if not _inside(workspace, path):
        raise OSError(f"{path.relative_to(workspace)} leads out of the memory folder: a symbolic link is in its way")
    entry = f"- {now:%H:%M} {' '.join(text.split())}\n".encode("utf-8", "replace")
    make_folder(path.parent)
    if path.exists():
        append(path, entry)
    else:
        write_atomic(path, f"# {now:%Y-%m-%d}\n\n".encode() + entry)
    return path


def _inside(workspace: Path, path: Path) -> bool:
    """Tell whether a path is below the memory folder also when every symbolic link on the way is followed."""
    try:
        return path.resolve().is_relative_to(workspace.resolve() / "memory")
    except (OSError, RuntimeError):  # RuntimeError: links that go in a circle
        return False


def search(workspace: Path, query: str, most: int = 6) -> list[Hit]:
    """Find the lines of all notes that share the rarest words with the query, the best first. Raises OSError."""
    lines = list(_lines(workspace))
    known = Counter(word for _, _, text in lines for word in set(words(text)))
    wanted = set(asked(query))
    hits = []
    for path, number, text in lines:
        shared = wanted & set(words(text))
        score = sum(math.log(1 + len(lines) / known[word]) for word in shared)
        if shared:
            hits.append(Hit(path, number, text, score))
    return sorted(hits, key=lambda hit: (-hit.score, hit.path, hit.line))[:most]


def _lines(workspace: Path) -> Iterator[tuple[str, int, str]]:
    for path in sorted((workspace / "memory").rglob("*.md")):
        try:
            if not (path.is_file() and _inside(workspace, path)) or path.stat().st_size > _LARGEST_FILE:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                yield str(path.relative_to(workspace)), number, line.strip()
