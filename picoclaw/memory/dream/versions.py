"""What dreams did: a line of each, and the versions of MEMORY.md before them, each with what was changed then."""

import re
from datetime import UTC, datetime
from pathlib import Path

from picoclaw.disk import append, create, explain, make_folder, spare, write_atomic
from picoclaw.errors import StoreError
from picoclaw.memory.dream.loss import LONGEST_NAMED
from picoclaw.memory.notes.entries import entries, key, lines_of

MOST = 30
FOLDER = "memory-history"

_LOG = "dreams.log"
_LARGEST_LOG = 64_000


def versions(home: Path) -> list[Path]:
    """List what is kept, the newest first. Raises StoreError."""
    try:
        return sorted((home / FOLDER).glob("MEMORY-*.md"), key=_order, reverse=True)
    except OSError as error:
        raise StoreError(f"{home / FOLDER} cannot be read: {explain(error)}") from None


def _order(path: Path) -> tuple[str, int]:
    """By the stamp, then by the number of those of one second, as `_free` gives it."""
    _, stamp, *number = path.stem.split("-")
    return stamp, int(number[0]) if number and number[0].isdecimal() else 1


def forget(home: Path, text: str) -> None:
    """Take the entries that say exactly this out of what is kept, and the words out of the log. Raises StoreError."""
    for path in [*(home / FOLDER).glob("MEMORY-*"), home / FOLDER / _LOG]:
        try:
            old = path.read_bytes().decode("utf-8", "surrogateescape")
            new = _unlogged(old, text) if path.name == _LOG else _without(old, text, sign=path.suffix == ".diff")
            if new != old:
                write_atomic(path, new.encode("utf-8", "surrogateescape"))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {explain(error)}; delete it by hand") from None


def _without(text: str, said: str, *, sign: bool) -> str:
    """Leave out the entries that say something; `sign`: each line of the text begins with a diff's sign."""
    lines, wanted = lines_of(text), key(said)
    bare = "".join(line[1:] or line for line in lines) if sign else text
    spans = [range(entry.first - 1, entry.last) for entry in entries(bare) if key(entry.body) == wanted]
    gone = {number for span in spans for number in span}
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _unlogged(text: str, said: str) -> str:
    shown = re.escape(" ".join(said.split())[:LONGEST_NAMED])
    return re.sub(rf"(?<=[:;(] ){shown}(?=[…;,)]|$)|(?<=\(){shown}(?=[…;,)])", "[forgotten]", text, flags=re.MULTILINE)


def keep(home: Path, name: str, old: bytes, new: bytes, now: datetime) -> Path:
    """Keep the old bytes of the page `name` and their difference to the new, durably; returns where. Raises OSError."""
    folder = home / FOLDER
    make_folder(folder)
    newest = next(iter(versions(home)), None)
    if newest and newest.read_bytes() == old:
        stem = newest.stem  # the write that this was kept for did not happen
    else:
        stem = _free(folder, f"MEMORY-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}", old)
    diff = folder / f"{stem}.diff"
    diff.unlink(missing_ok=True)
    create(diff, _diff(name, old, new).encode("utf-8", "replace"))
    prune(home, spared=stem)
    return folder / f"{stem}.md"


def _free(folder: Path, stem: str, data: bytes) -> str:
    """Write the data under a name that is free; returns it."""
    numbered = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    for name in numbered:
        if create(folder / f"{name}.md", data):
            return name
    raise FileExistsError(0, f"there are too many versions {stem}", str(folder))


def prune(home: Path, spared: str = "") -> int:
    """Drop the oldest of more than 30, but never `spared`; returns how many. A clock may be wrong. Raises OSError."""
    old = [path for path in versions(home) if path.stem != spared][MOST - bool(spared) :]
    for path in old:
        path.with_suffix(".diff").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(old)


def numbered(home: Path, number: int) -> tuple[Path, bytes]:
    """Read a version by its number, 1 for the newest. Raises StoreError."""
    found = versions(home)
    if not 1 <= number <= len(found):
        known = f"1 to {len(found)}" if found else "none"
        raise StoreError(f"there is no earlier version {number} of MEMORY.md; there is {known}")
    path = found[number - 1]
    try:
        return path, path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {explain(error)}") from None


def record(home: Path, now: datetime, said: str) -> None:
    """Write down what a dream did, durably; when the record is too long its older half goes. Raises OSError."""
    path = home / FOLDER / _LOG
    spare("records", home)
    make_folder(path.parent)
    append(path, f"{now:%Y-%m-%d %H:%M} {' '.join(said.split())}\n".encode("utf-8", "replace"))
    if path.stat().st_size > _LARGEST_LOG:
        write_atomic(path, path.read_bytes()[-_LARGEST_LOG // 2 :].partition(b"\n")[2])


def dreams(home: Path) -> list[str]:
    """List what dreams did, a line each, the newest first. Raises StoreError."""
    path = home / FOLDER / _LOG
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[::-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {explain(error)}") from None


def _diff(name: str, old: bytes, new: bytes) -> str:
    import difflib

    before, after = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (old, new))
    lines = difflib.unified_diff(before, after, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
