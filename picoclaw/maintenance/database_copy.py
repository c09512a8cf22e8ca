"""Copies of databases that are in use, and what tells whether an older picoclaw can still read them.

Sources: https://sqlite.org/lang_vacuum.html (INTO gives a consistent copy, without what was erased);
https://sqlite.org/walformat.html (a connection holds byte 128 of the -shm file for as long as it is open).
"""

import fcntl
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw

from picoclaw.files import sync_folder
from picoclaw.maintenance.install import MaintenanceError, translate_os_errors
from picoclaw.store import migrations
from picoclaw.store.database import SQLITE_ERROR_TEXTS, Migration, mark_suspect
from picoclaw.store.migrations import MIGRATIONS

DATABASE_MIGRATIONS: Mapping[str, Sequence[Migration]] = {
    "state.db": MIGRATIONS,
    migrations.HISTORY_FILE: migrations.HISTORY_MIGRATIONS,
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
