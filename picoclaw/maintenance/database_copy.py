"""Copies of databases that are in use or damaged, and what tells whether an older picoclaw can still read them.

A table of a damaged one is read from its beginning up to the damage, from its end back to it, and in growing steps in
between. One that could be read whole is exactly what it was. Of any other, the rows of an older copy stay where nothing
newer was read; what they ask to have done may have been done since, so that they are told as doubtful, and nothing of it
is begun again.

Sources: https://sqlite.org/lang_vacuum.html (INTO gives a consistent copy, without what was erased);
https://sqlite.org/walformat.html (a connection holds byte 128 of the -shm file for as long as it is open).
"""

import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from picoclaw.files import sync_folder
from picoclaw.maintenance import MaintenanceError, translate_os_errors
from picoclaw.records import NamedTuple
from picoclaw.store import database
from picoclaw.store.database import MIGRATIONS, SQLITE_ERROR_TEXTS, Migration, mark_suspect

DATABASE_MIGRATIONS: Mapping[str, Sequence[Migration]] = {
    "state.db": MIGRATIONS,
    database.HISTORY_FILE: database.HISTORY_MIGRATIONS,
}
"""The databases of a home that are copied and repaired, and what has been done to their shape."""

WAL_SUFFIXES = ("-wal", "-shm")
_BUSY_MS = 10_000
_DEAD_MAN_SWITCH = 128
_FLOCK = struct.Struct("hhqqi4x")  # struct flock with 64-bit offsets: type, whence, start, length, pid
_LOCK_HOLDERS = {"run.lock": "the daemon", "outputs.lock": "what drives the outputs"}


def copy_database(source: Path, target: Path, change: Callable[[apsw.Connection], None] = lambda _: None) -> None:
    """Copy a database as it is at one moment, also while it is written; durable. Raises MaintenanceError.

    `change` is done to the copy before it counts as one.
    """
    try:
        connection = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            connection.execute("VACUUM INTO ?", (str(target),))
        finally:
            connection.close()
        young = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            young.execute("PRAGMA synchronous = FULL")
            change(young)
            young.execute("PRAGMA journal_mode = WAL")
        finally:
            young.close()
    except apsw.Error as error:
        target.unlink(missing_ok=True)
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            mark_suspect(source)
        raise MaintenanceError(
            f"{source} cannot be copied: {SQLITE_ERROR_TEXTS.get(type(error), str(error))}"
        ) from None
    with translate_os_errors(target):
        target.chmod(0o600)
        with target.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(target.parent)


def replace_database(young: Path, path: Path) -> None:
    """Put a whole database, which nobody has open, in the place of one of which the same is true. Raises OSError.

    A log beside the old one would be read into the new: it goes first.
    """
    for end in WAL_SUFFIXES:
        path.with_name(path.name + end).unlink(missing_ok=True)
    sync_folder(path.parent)
    young.replace(path)
    sync_folder(path.parent)


def list_migrations(path: Path) -> list[str]:
    """List the migrations that were applied to a database; empty if it cannot be read."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return sorted(str(name) for (name,) in connection.execute("SELECT name FROM migrations"))
        finally:
            connection.close()
    except apsw.Error:
        return []


def list_home_users(home: Path) -> list[str]:
    """Name who uses a home now: the holders of its locks, and the processes that have a database open."""
    return [who for name, who in _LOCK_HOLDERS.items() if _is_locked(home / name)] + [
        f"process {pid} ({name})" for name in DATABASE_MIGRATIONS if (pid := find_opener(home / f"{name}-shm"))
    ]


def _is_locked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def find_opener(path: Path) -> int:
    """Return the process that has the database of a -shm file open, 0 when nobody has."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _DEAD_MAN_SWITCH, 1, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, asked))
        return pid if kind != fcntl.F_UNLCK else 0
    except OSError:
        return 0
    finally:
        os.close(handle)


_READ_ERRORS = (apsw.Error, UnicodeDecodeError)
_SEQUENCE_GAP = 1000
"""Numbers that are skipped where the last one that was given is not known: none is ever given twice."""

_UNKNOWN_OUTCOME = "state.db was damaged, and whether it was done is not known"
_CAUTION_UPDATES = {
    "outbox": "UPDATE outbox SET begun = 'before the damage'",
    "inbox": "UPDATE inbox SET done = 1, text = ''",
    "jobs": "UPDATE jobs SET enabled = 0 WHERE plan = 'at' AND kind != 'reminder' AND due < unixepoch()",
    "approvals": "UPDATE approvals SET state = 'unknown', outcome = ?1 WHERE state IN ('waiting', 'running')",
    "tasks": "UPDATE tasks SET status = 'lost', result = ?1 WHERE status IN ('waiting', 'running')",
    "always": "DELETE FROM always",
}
"""What is done to the rows of a copy where newer ones may be lost. A permission may have been taken back."""


class CopiedTable(NamedTuple):
    """One table: how many rows could be read, whether that was all of it, and how many are as they were in the copy."""

    table: str
    rows: int
    whole: bool
    older: int


def copy_readable_rows(damaged: apsw.Connection, target: apsw.Connection) -> list[CopiedTable]:
    """Bring the rows of a damaged database into one that is whole: a copy, or a new one. Raises apsw.Error of `target`.

    What refers to a row that is lost goes with it.
    """
    with suppress(*_READ_ERRORS):  # then nothing of it can be read
        damaged.execute("PRAGMA writable_schema = ON; PRAGMA cell_size_check = ON")
    target.execute("PRAGMA foreign_keys = OFF")
    target.execute("BEGIN IMMEDIATE")
    saved = [_copy_table(damaged, target, name) for name in _list_tables(target)]
    _restore_sequences(damaged, target, sure=all(one.whole for one in saved))
    delete_orphans(target)
    target.execute("COMMIT")
    return saved


def delete_orphans(target: apsw.Connection) -> int:
    """Take away what refers to a row that is not there, within the caller's transaction; returns how much."""
    count = 0
    while orphans := target.execute("PRAGMA foreign_key_check").fetchall():
        for table, row, *_ in orphans:
            _delete_orphan(target, str(table), row)
        count += len(orphans)
    return count


def _list_tables(target: apsw.Connection) -> list[str]:
    rows = target.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    return sorted(str(name) for (name,) in rows if not str(name).startswith("sqlite_") and name != "migrations")


def _delete_orphan(target: apsw.Connection, table: str, row: Any) -> None:
    """Take away a row that refers to none; a table without row numbers is known by its parents alone."""
    if row is not None:
        target.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))  # noqa: S608
        return
    for column, parent in target.execute('SELECT "from", "table" FROM pragma_foreign_key_list(?)', (table,)).fetchall():
        target.execute(f'DELETE FROM "{table}" WHERE "{column}" NOT IN (SELECT rowid FROM "{parent}")')  # noqa: S608


def _copy_table(damaged: apsw.Connection, target: apsw.Connection, name: str) -> CopiedTable:
    """Read one table; what the copy has of it goes when all of it could be read."""
    columns = _list_shared_columns(damaged, target, name)
    target.execute("SAVEPOINT one_table")
    before = _count_rows(target, name)
    target.execute(f'DELETE FROM "{name}"')  # noqa: S608
    reader = _DamagedTableReader(damaged, name, columns, _list_key_columns(target, name))
    done = _insert_rows(target, name, columns, reader)
    if reader.whole and done == reader.found:
        target.execute("RELEASE one_table")
        return CopiedTable(name, done, whole=True, older=0)
    target.execute("ROLLBACK TO one_table")
    if name in _CAUTION_UPDATES and before:
        target.execute(_CAUTION_UPDATES[name], (_UNKNOWN_OUTCOME,) if "?1" in _CAUTION_UPDATES[name] else ())
    done = _insert_rows(
        target, name, columns, _DamagedTableReader(damaged, name, columns, _list_key_columns(target, name))
    )
    target.execute("RELEASE one_table")
    return CopiedTable(name, done, whole=False, older=max(0, _count_rows(target, name) - done))


def _insert_rows(target: apsw.Connection, name: str, columns: Sequence[str], rows: "_DamagedTableReader") -> int:
    if not columns:
        return 0
    names, marks, done = ", ".join(f'"{c}"' for c in columns), ", ".join("?" * len(columns)), 0
    sql = f'INSERT OR REPLACE INTO "{name}" ({names}) VALUES ({marks})'  # noqa: S608
    for row in rows.read():
        try:
            target.execute(sql, row)
            done += 1
        except apsw.ConstraintError:  # what was read is none of ours
            continue
    return done


def _list_shared_columns(damaged: apsw.Connection, target: apsw.Connection, name: str) -> list[str]:
    """Name the columns that both have, none where the damaged one cannot say."""
    sql = "SELECT name FROM pragma_table_info(?)"
    try:
        there = {str(column) for (column,) in damaged.execute(sql, (name,))}
    except _READ_ERRORS:
        return []
    return [str(column) for (column,) in target.execute(sql, (name,)) if column in there]


def _list_key_columns(target: apsw.Connection, name: str) -> list[str]:
    """Name what the rows are in order by: their number, or the columns of their key."""
    if target.execute("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", (name,)).get:
        rows = target.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (name,))
        return [str(column) for (column,) in rows]
    return ["rowid"]


def _count_rows(target: apsw.Connection, name: str) -> int:
    return int(str(target.execute(f'SELECT count(*) FROM "{name}"').get))  # noqa: S608


class _DamagedTableReader:
    """The rows of a table that can be read; afterwards `whole` tells whether that was all, `found` how many."""

    def __init__(self, damaged: apsw.Connection, name: str, columns: Sequence[str], key: Sequence[str]) -> None:
        self._damaged, self._key, self._numbered = damaged, key, list(key) == ["rowid"]
        shown = ", ".join(f'"{column}"' for column in columns)
        first = "rowid" if self._numbered else "0"
        self._sql = f'SELECT {first}, {shown} FROM "{name}" NOT INDEXED' if columns else ""  # noqa: S608
        self.whole, self.found = bool(columns), 0
        self._last = -(2**63)

    def read(self) -> Iterator[Sequence[Any]]:
        """Give the rows, from both ends and from what lies between."""
        if not self._sql:
            return
        yield from self._run("ASC", "")
        if self.whole:
            return
        below, top = self._last, None
        upper = list(self._run("DESC", f"WHERE rowid > {below}" if self._numbered else ""))
        if self._numbered:
            top = self._last if upper else None
            yield from self._between(below, top)
        yield from upper

    def _run(self, order: str, where: str) -> Iterator[Sequence[Any]]:
        by = ", ".join(f'"{column}" {order}' if column != "rowid" else f"rowid {order}" for column in self._key)
        try:
            for number, *row in self._damaged.execute(f"{self._sql} {where} ORDER BY {by}"):
                self._last = int(str(number))
                self.found += 1
                yield row
        except _READ_ERRORS:
            self.whole = False

    def _between(self, below: int, top: int | None) -> Iterator[Sequence[Any]]:
        """Go on behind the damage in steps that double until a row can be read again."""
        at, step, last = max(below, 0), 1, top if top is not None else max(below, 0) + 2**32
        while (at := at + step) < last:
            self._last = at
            before = self.found
            yield from self._run("ASC", f"WHERE rowid >= {at} AND rowid < {last}")
            step = 1 if self.found > before else step * 2
            at = self._last


def _restore_sequences(damaged: apsw.Connection, target: apsw.Connection, *, sure: bool) -> None:
    """Keep any number from being given a second time."""
    try:
        rows = damaged.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
        known = {str(name): int(str(seq)) for name, seq in rows}
    except _READ_ERRORS:
        known, sure = {}, False
    for name in _list_tables(target):
        if "AUTOINCREMENT" not in str(target.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get):
            continue
        here = target.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).get
        seq = max(int(str(here or 0)), known.get(name, 0)) + (0 if sure else _SEQUENCE_GAP)
        target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, seq))
