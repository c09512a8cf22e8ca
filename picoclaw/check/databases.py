"""Whether the databases are whole: every page, every index, every row that refers to another; and their last copy."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw

from picoclaw.care import databases as care
from picoclaw.care import mend
from picoclaw.check.finding import Finding
from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.memory.index import tables
from picoclaw.store.database import COPIES, Database, condition, explained, suspect
from picoclaw.store.salvage import drop_orphans
from picoclaw.workspace.pages import owner_time

_SHOWN = 3


def examine(home: Path) -> Iterator[Finding]:
    """Look through the databases from the first page to the last."""
    for name in mend.SHAPES:
        if os.path.lexists(home / name):
            yield _examined(home / name)
        else:
            yield Finding("note", name, "not made yet")
    copy = home / COPIES / "state.db"
    if not copy.exists():
        return
    try:
        found = condition(copy, mend.SHAPES[copy.name])
    except StoreDamaged as error:
        found = str(error).partition(";")[0]
    except StoreError as error:  # a full disk, say: the copy may be whole, and nothing is taken away for that
        yield Finding("bad", "last copy", f"cannot be looked at: {error}")
        return
    if found == "ok":
        made = owner_time(home, copy.stat().st_mtime)
        yield Finding("good", "last copy", f"of state.db, {made:%d %b %Y %H:%M}")
    else:
        yield Finding("bad", "last copy", found, partial(_dropped, copy))


def _examined(path: Path) -> Finding:
    try:
        found, orphans = _faults(path)
    except StoreDamaged as error:
        return Finding("bad", path.name, str(error).partition(";")[0], partial(_mended, path))
    except StoreError as error:
        return Finding("bad", path.name, str(error))
    if found:
        return Finding("bad", path.name, "; ".join(found), partial(_mended, path))
    if orphans:
        return Finding("bad", path.name, f"there are {', '.join(orphans)}", partial(_without_orphans, path))
    return Finding("good", path.name, "whole")


def _faults(path: Path) -> tuple[list[str], list[str]]:
    """Say what is wrong with a file, and which of its rows refer to nothing. Raises StoreError."""
    condition(path, mend.SHAPES[path.name])
    with explained(path), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        rows = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
        if rows != ["ok"]:
            return rows, []
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [], sorted({f"{table} without their {parent}" for table, _, parent, _ in orphans})


def _mended(path: Path) -> Sequence[str]:
    suspect(path)
    return [line for line in mend.whole(path.parent) if line.startswith(path.name)]


def _without_orphans(path: Path) -> Sequence[str]:
    with closing(Database(path, mend.SHAPES[path.name])) as database, database.transaction() as connection:
        return [f"{drop_orphans(connection)} entries that belong to nothing were taken away"]


def _dropped(copy: Path) -> Sequence[str]:
    for end in ("", *care.BESIDE):
        copy.with_name(copy.name + end).unlink(missing_ok=True)
    return ["the copy, which was damaged itself, was taken away; the next is made within a day"]


def index(home: Path) -> Iterator[Finding]:
    """Look through the index of the notes, which can be made again."""
    path = home / "memory.db"
    if not path.exists():
        return
    try:
        with tables.explained(path), closing(tables.frozen(path)) as connection:
            found = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    except StoreError as error:
        found = [str(error)]
    if found == ["ok"]:
        yield Finding("good", path.name, "whole")
    else:
        yield Finding("bad", path.name, "; ".join(found), partial(_renewed, path))


def _renewed(path: Path) -> Sequence[str]:
    with tables.explained(path):
        tables.connected(path, renew=True).close()
    return ["emptied; the next search makes it again from the notes"]
