"""What dreams did: a line of each, and the versions of MEMORY.md before them, each with what was changed then.

Beside them lies what a correction of a note has replaced.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from picoclaw.errors import StoreError
from picoclaw.files import append_line, check_reserve, create_file, make_folder, read_file, remove_file, write_atomic
from picoclaw.memory.fact_check import MAX_QUOTED_CHARS
from picoclaw.memory.files import explain_failure, make_comparison_key, parse_entries, split_lines
from picoclaw.records import NamedTuple
from picoclaw.text import truncate

MAX_VERSIONS, MAX_CORRECTIONS = 30, 70
HISTORY_FOLDER = "memory-history"
FORGOTTEN_FILE = f"{HISTORY_FOLDER}/forgotten"
"""Written whenever something was forgotten: from then on no earlier version may have it."""

_LOG = "dreams.log"
_MAX_LOG_BYTES = 64_000


class Correction(NamedTuple):
    """The lines of an entry of the note at `path`, before and after it was corrected."""

    path: str
    before: str
    after: str


def list_versions(home: Path) -> list[Path]:
    """List the earlier versions of MEMORY.md, the newest first. Raises StoreError."""
    return _list_newest(home, "MEMORY-*.md")


def list_corrections(home: Path) -> list[Path]:
    """List the corrections of notes, the newest first. Raises StoreError."""
    return _list_newest(home, "NOTE-*.json")


def list_restorable(home: Path) -> list[Path]:
    """List all that can be taken back, the newest first. Raises StoreError."""
    return _list_newest(home, "MEMORY-*.md", "NOTE-*.json")


def _list_newest(home: Path, *names: str) -> list[Path]:
    def get_key(path: Path) -> tuple[str, int]:
        """The stamp, and the number of those of one second."""
        _, stamp, *number = path.stem.split("-")
        return stamp, int(number[0]) if number and number[0].isdecimal() else 1

    folder = home / HISTORY_FOLDER
    with explain_failure(f"{folder} cannot be read"):
        return sorted((path for name in names for path in folder.glob(name)), key=get_key, reverse=True)


def find_version(home: Path, number: int) -> Path:
    """Find what can be taken back by its number, 1 for the newest. Raises StoreError."""
    found = list_restorable(home)
    if not 1 <= number <= len(found):
        known = f"1 to {len(found)}" if found else "none"
        raise StoreError(f"there is no earlier version {number} of MEMORY.md; there is {known}")
    return found[number - 1]


def forget_versions(home: Path, text: str) -> None:
    """Take the entries that say exactly this out of what is kept, and the words out of the log. Raises StoreError.

    With an entry goes what it said before it was corrected.
    """
    gone = {make_comparison_key(text): text}
    left = {path: _map_entries(read_correction(path)) for path in list_corrections(home)}
    while hit := next((path for path, said in left.items() if not gone.keys().isdisjoint(said)), None):
        gone |= left.pop(hit)
        with explain_failure(f"{hit} cannot be deleted", "; delete it by hand"):
            remove_file(hit)
    for said in dict.fromkeys([text, *gone.values()]):
        _forget_text(home, said)
    with explain_failure(f"{home / FORGOTTEN_FILE} cannot be written"):
        make_folder(home / HISTORY_FOLDER)
        write_atomic(home / FORGOTTEN_FILE, b"")  # a store that is shared has its own earlier versions


def _map_entries(correction: Correction) -> dict[str, str]:
    bodies = [entry.body for text in correction[1:] for entry in parse_entries(text)]
    return {make_comparison_key(body): body for body in bodies}


def _forget_text(home: Path, said: str) -> None:
    for path in [*(home / HISTORY_FOLDER).glob("MEMORY-*"), home / HISTORY_FOLDER / _LOG]:
        with explain_failure(f"{path} cannot be written", "; delete it by hand"):
            try:
                old = read_file(path).decode("utf-8", "surrogateescape")
            except FileNotFoundError:
                continue
            if path.name == _LOG:
                whole = " ".join(said.split())
                shown = re.escape(truncate(whole, MAX_QUOTED_CHARS).removesuffix("…"))
                shown += "[^…]{0,2}" * (len(whole) > MAX_QUOTED_CHARS)  # lines of earlier versions hold that much more
                quoted = rf"(?<=[:;(] ){shown}(?=[…;,)]|$)|(?<=\(){shown}(?=[…;,)])"
                new = re.sub(quoted, "[forgotten]", old, flags=re.MULTILINE)
            else:
                new = _remove_entries(old, said, is_diff=path.suffix == ".diff")
            if new != old:
                write_atomic(path, new.encode("utf-8", "surrogateescape"))


def _remove_entries(text: str, said: str, *, is_diff: bool) -> str:
    """Leave out the entries that say something; each line of a diff begins with a sign."""
    lines, wanted = split_lines(text), make_comparison_key(said)
    bare = "".join(line[1:] or line for line in lines) if is_diff else text
    entries = [entry for entry in parse_entries(bare) if make_comparison_key(entry.body) == wanted]
    gone = {number for entry in entries for number in range(entry.first, entry.last + 1)}
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def keep_version(home: Path, name: str, old: bytes, new: bytes, now: datetime) -> Path:
    """Keep the old bytes of the page `name` and their difference to the new, durably; returns where. Raises OSError."""
    import difflib

    folder = home / HISTORY_FOLDER
    make_folder(folder)
    newest = next(iter(list_versions(home)), None)
    is_kept = newest is not None and read_file(newest) == old  # the write that this was kept for did not happen
    stem = newest.stem if newest and is_kept else _create_numbered(folder, "MEMORY", now, old, ".md")
    before, after = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (old, new))
    lines = difflib.unified_diff(before, after, name, name)
    diff = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    (folder / f"{stem}.diff").unlink(missing_ok=True)
    create_file(folder / f"{stem}.diff", diff.encode("utf-8", "replace"))
    prune_versions(home, spared=stem)
    return folder / f"{stem}.md"


def _create_numbered(folder: Path, kind: str, now: datetime, data: bytes, suffix: str) -> str:
    """Write the data under a name that is free; returns it."""
    stem = f"{kind}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    for name in [stem, *(f"{stem}-{number}" for number in range(2, 1000))]:
        if create_file(folder / f"{name}{suffix}", data):
            return name
    raise FileExistsError(0, f"there are too many versions {stem}", str(folder))


def prune_versions(home: Path, spared: str = "") -> int:
    """Drop the oldest of more than 30, but never `spared`; returns how many. A clock may be wrong. Raises OSError."""
    old = [path for path in list_versions(home) if path.stem != spared][MAX_VERSIONS - bool(spared) :]
    for path in old:
        path.with_suffix(".diff").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(old)


def keep_correction(home: Path, correction: Correction, now: datetime) -> None:
    """Keep what a correction replaces, durably; the oldest of more than 70 go. Raises OSError."""
    folder = home / HISTORY_FOLDER
    make_folder(folder)
    data = json.dumps(correction._asdict(), ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape")
    _create_numbered(folder, "NOTE", now, data, ".json")
    for path in list_corrections(home)[MAX_CORRECTIONS:]:
        path.unlink(missing_ok=True)


def read_correction(path: Path) -> Correction:
    """Read what a correction has replaced. Raises StoreError."""
    try:
        with explain_failure(f"{path} cannot be read"):
            found = json.loads(read_file(path).decode("utf-8", "surrogateescape"))
        return Correction(str(found["path"]), str(found["before"]), str(found["after"]))
    except (ValueError, LookupError, TypeError):
        raise StoreError(f"{path} is damaged; it can be deleted") from None


def log_dream(home: Path, now: datetime, said: str) -> None:
    """Write down what a dream did, durably; when the record is too long its older half goes. Raises OSError."""
    path = home / HISTORY_FOLDER / _LOG
    check_reserve("records", home)
    make_folder(path.parent)
    append_line(path, f"{now:%Y-%m-%d %H:%M} {' '.join(said.split())}\n".encode("utf-8", "replace"))
    if path.stat().st_size > _MAX_LOG_BYTES:
        write_atomic(path, read_file(path)[-_MAX_LOG_BYTES // 2 :].partition(b"\n")[2])


def read_dream_log(home: Path) -> list[str]:
    """List what dreams did, a line each, the newest first. Raises StoreError."""
    path = home / HISTORY_FOLDER / _LOG
    with explain_failure(f"{path} cannot be read"):
        try:
            return read_file(path).decode("utf-8", "replace").splitlines()[::-1]
        except FileNotFoundError:
            return []
