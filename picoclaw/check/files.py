"""Whether the files of a home can be read, by nobody else, and what a cut has left lying about."""

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from picoclaw.care import databases, last, mend
from picoclaw.check.finding import Finding
from picoclaw.config import load
from picoclaw.disk import DAMAGED, explain
from picoclaw.errors import ConfigError
from picoclaw.store.database import COPIES

_PRIVATE = (
    "secrets.toml",
    "state.db",
    "history.db",
    "audit.log",
    "audit.head",
    "page_logins.json",
    "memory.db",
    "outputs.audit",
    "last/state.db",
)
_LEFT = re.compile(r"\.[^/]*\.(\d+)\.\d+(-wal|-shm|-journal)?|\.backup-.*")
_YOUNG_S = 3600.0
_LARGEST = 10_000_000


def permissions(home: Path) -> Iterator[Finding]:
    """Look whether others may read what is nobody's business."""
    files = [home / name for name in _PRIVATE if (home / name).is_file()]
    wrong = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    for path in wrong:
        yield Finding("bad", path.name, f"{path} can be read by others", partial(_closed, path, 0o600))
    if opened := stat.S_IMODE(home.stat().st_mode) & 0o077:
        mark: Literal["bad", "note"] = "bad" if opened & 0o022 else "note"  # whoever writes to it can replace any file
        may = "written" if opened & 0o022 else "listed"
        yield Finding(mark, "home", f"{home} can be {may} by others", partial(_closed, home, 0o700))
    elif not wrong:
        yield Finding("good", "permissions", f"{home} and what is private in it are the owner's alone")


def _closed(path: Path, mode: int) -> Sequence[str]:
    path.chmod(mode)
    return [f"{path} is the owner's alone now (mode {mode:04o})"]


def settings(home: Path) -> Iterator[Finding]:
    """Read the settings, and look for damage in the small files."""
    torn = [name for name in last.FILES if last.damaged(home, name)]
    for name in torn:
        copied = (home / COPIES / name).exists() or name.endswith(".json")
        put_back = partial(mend.whole, home) if copied else None
        better = "" if copied else "; there is no copy of it: write it anew"
        yield Finding("bad", name, f"damaged, as a failing card leaves files{better}", put_back)
    if torn:
        return
    try:
        load({**os.environ, "PICOCLAW_HOME": str(home)})
    except ConfigError as error:
        yield Finding("bad", "settings", str(error))
    else:
        yield Finding("good", "settings", "can be read")


def pages(home: Path) -> Iterator[Finding]:
    """Look for damage in the owner's pages and notes, of which there is one copy only: theirs."""
    found = 0
    for path in sorted((home / "workspace").rglob("*.md")):
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST else b""
        except OSError as error:
            yield Finding("bad", "notes", f"{path} cannot be read: {explain(error)}")
            continue
        found += 1
        if b"\0" in data:
            yield Finding("bad", "notes", f"{path} holds zeros, as a failing card leaves them: bring it from a backup")
    yield Finding("good", "notes", f"{found} pages can be read")


def leftovers(home: Path) -> Iterator[Finding]:
    """Look for what a cut has left half made, and for damaged files that are kept to be looked at."""
    old = time.time() - _YOUNG_S
    left = [p for p in home.rglob(".*") if (m := _LEFT.fullmatch(p.name)) and (_dead(m[1]) or p.lstat().st_mtime < old)]
    if left:
        named = ", ".join(path.name for path in left[:3])
        yield Finding("note", "leftovers", f"{len(left)} of writing that was cut off: {named}", partial(_swept, left))
    aside = sorted(p.name for p in home.glob(f"*{DAMAGED}*") if not p.name.endswith(databases.BESIDE))
    if aside:
        yield Finding("note", "damaged files", f"kept to be looked at, and yours to delete: {', '.join(aside)}")


def _dead(writer: str | None) -> bool:
    """Tell whether the process that a half-written file is named after lives no more; what names none is not known."""
    return bool(writer and int(writer)) and not Path("/proc", str(writer)).exists()


def _swept(left: Sequence[Path]) -> Sequence[str]:
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return [f"{len(left)} taken away"]
