"""Opens `state.db` and `history.db`: write-ahead logs, synced at every commit, migrated by named functions.

Knows SQLite's settings and its errors; what the tables mean is known to the modules beside this one.
Settings: https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous (FULL syncs the log at
each commit, so a transaction that was reported done survives a power cut).

A log that is there before anybody has opened the file says that the last one was cut off: then, and where damage was
met before, the file is looked through first. What is done about damage is known to maintenance/repair.py.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import apsw

from picoclaw.errors import StoreDamaged, StoreError, StoreNewer
from picoclaw.files import check_regular, create_file, explain_os_error, remove_file, sync_folder
from picoclaw.store.migrations import MIGRATIONS
from picoclaw.text import replace_surrogates

_BUSY_TIMEOUT_MS, _CHECKPOINT_TIMEOUT_MS = 5000, 100
_FILES_PER_DATABASE = 3
Migration = Callable[[apsw.Connection], None]
DAMAGE_ADVICE = (
    "nothing was changed; `picoclaw check --repair` saves what can be read, or move it aside to start with an empty one"
)
COPIES_FOLDER = "last"
"""The folder beside a database that holds its last good copy."""
SUSPECT_SUFFIX = ".suspect"
"""The end of the name of an empty file beside a database in which damage was met."""


def is_valid_row_id(number: int) -> bool:
    """Whether a number that somebody gave can be that of a row; SQLite's have 64 bits."""
    return number.bit_length() < 64


class StoreConnection(apsw.Connection):
    """A connection whose rows are untyped, because the tables are STRICT, and which replaces surrogates in texts."""

    def execute(self, statements: str, bindings: Any = (), **options: Any) -> Any:
        return super().execute(statements, _clean_values(bindings), **options)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], **options: Any) -> Any:
        return super().executemany(statements, map(_clean_values, sequenceofbindings), **options)


def _clean_values(values: Iterable[Any]) -> list[Any]:
    return [replace_surrogates(value) if isinstance(value, str) else value for value in values]


class Database:
    """One connection to one file. Every write goes through `transaction()`."""

    def __init__(self, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Open the file, or make it; raises StoreDamaged, StoreNewer or StoreError, having changed nothing."""
        self.path = path
        with self._explained():
            if not path.exists():
                _create_database(path, migrations)
            check_regular(path, path.stat().st_mode)
            _check_not_empty(path)
            mark = path.with_name(path.name + SUSPECT_SUFFIX)
            unclean = mark.exists() or (path.with_name(path.name + "-wal").exists() and not _is_open(path))
            self.connection = _connect(path)
            try:
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, unclean)
                _check_schema(self.connection, path, migrations, thorough=unclean)
                if mark.exists():
                    _check_integrity(self.connection, path, "integrity_check")  # the tables' indexes as well
                    remove_file(mark)
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                _migrate(self.connection, migrations)
            except BaseException:
                self.connection.close()
                raise
            with _OPEN_DATABASES_LOCK:
                _OPEN_DATABASES.add(self)

    def close(self) -> None:
        """Fold the log into the file and let go of it; may be called twice."""
        with _OPEN_DATABASES_LOCK:
            _OPEN_DATABASES.discard(self)
        with self._explained():
            self.connection.close()

    def select(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query. Raises StoreError."""
        with self._explained():
            return list(self.connection.execute(sql, values))

    def select_value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row of a query, None when there is none. Raises StoreError."""
        return next((row[0] for row in self.select(sql, *values)), None)

    def write(self, sql: str, *values: Any) -> int:
        """Execute one statement durably; returns how many rows it has changed. Raises StoreError."""
        with self.transaction() as connection:
            connection.execute(sql, values)
            return connection.changes()

    @contextlib.contextmanager
    def transaction(self, *, sync: bool = True) -> Iterator[StoreConnection]:
        """All of the block or none of it, durable when the block is left. Raises StoreError.

        Without `sync` the end of the process takes nothing from it, but a power cut may, until the next one is synced.
        """
        with self._explained():
            if not sync:
                self.connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with transact(self.connection):
                    yield self.connection
            finally:
                if not sync:
                    self.connection.execute("PRAGMA synchronous = FULL")

    @contextlib.contextmanager
    def erasure(self) -> Iterator[StoreConnection]:
        """A transaction whose deleted content is gone from the file and, unless it is read, from the log.

        The copy that may hold it still goes as well. Raises StoreError.
        """
        with self._explained():
            with self.transaction() as connection:
                yield connection
            self._fold()
            remove_file(self.path.parent / COPIES_FOLDER / self.path.name)

    def shrink(self) -> None:
        """Write the file anew without its empty pages; others wait meanwhile. Raises StoreError."""
        with self._explained():
            self.connection.execute("VACUUM")
            self._fold()

    def _fold(self) -> None:
        """Empty the log into the file, but wait shortly for a reader: writers wait meanwhile."""
        self.connection.set_busy_timeout(_CHECKPOINT_TIMEOUT_MS)
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.connection.set_busy_timeout(_BUSY_TIMEOUT_MS)

    @contextlib.contextmanager
    def reading(self) -> Iterator[StoreConnection]:
        """Give the connection for queries, with SQLite's errors put into words."""
        with self._explained():
            yield self.connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with translate_sqlite_errors(self.path):
                yield
        except StoreDamaged:
            if self in _OPEN_DATABASES:
                mark_suspect(self.path)
            raise


class Table:
    """Something that is kept in an open database. All methods raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database


@contextlib.contextmanager
def transact(connection: apsw.Connection) -> Iterator[None]:
    """All of the block or none of it, also when it is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Put SQLite's errors about a file into words."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{path} is damaged ({error}); {DAMAGE_ADVICE}") from None
    except apsw.Error as error:
        raise StoreError(
            f"{path}: {_explain_disk_error(path, error) or SQLITE_ERROR_TEXTS.get(type(error), str(error))}"
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: {explain_os_error(error)}") from None


def _explain_disk_error(path: Path, error: apsw.Error) -> str:
    """Say what is wrong with the disk itself, which SQLite often cannot tell; '' for nothing that can be seen."""
    if not isinstance(error, apsw.FullError | apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError):
        return ""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return explain_os_error(OSError(errno.EROFS, ""))
    return explain_os_error(OSError(errno.ENOSPC, "")) if not disk.f_bavail else _explain_file_limit()


def _explain_file_limit() -> str:
    """Say that hardly a file can be opened any more, where that is what is wrong; a database takes three."""
    try:
        left = os.sysconf("SC_OPEN_MAX") - sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError as error:
        return explain_os_error(error) if error.errno in {errno.EMFILE, errno.ENFILE} else ""
    return explain_os_error(OSError(errno.EMFILE, "")) if left <= _FILES_PER_DATABASE else ""


def run_quick_check(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> str:
    """Look whether a file is whole, and change nothing: `ok`, or what SQLite found. Raises as Database does."""
    with translate_sqlite_errors(path):
        _check_not_empty(path)
        with contextlib.closing(_connect(path)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _check_schema(connection, path, migrations, thorough=False)
            return str(connection.execute("PRAGMA quick_check(1)").get)


def _check_not_empty(path: Path) -> None:
    if path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is empty, and a database never is; {DAMAGE_ADVICE}")


def mark_suspect(path: Path) -> None:
    """Remember that damage was met, as far as the disk lets us: the next to open the file looks it through."""
    DAMAGE_DETECTED.set()
    with contextlib.suppress(OSError):
        create_file(path.with_name(path.name + SUSPECT_SUFFIX), b"")


def _check_integrity(connection: apsw.Connection, path: Path, check: str) -> None:
    if (found := connection.execute(f"PRAGMA {check}(1)").get) != "ok":
        finding = " ".join(str(found).removeprefix("*** in database main ***").split())
        raise StoreDamaged(f"{path} is damaged ({finding}); {DAMAGE_ADVICE}")


DAMAGE_DETECTED = threading.Event()
"""Set as soon as this process has met damage in a database that it had opened."""

_OPEN_DATABASES_LOCK = threading.Lock()
_OPEN_DATABASES: WeakSet[Database] = WeakSet()
"""What this process has open: a log that is there because of that is no sign of a power cut, and nothing is checked."""


def _is_open(path: Path) -> bool:
    with _OPEN_DATABASES_LOCK:
        return any(one.path.exists() and one.path.samefile(path) for one in _OPEN_DATABASES)


SQLITE_ERROR_TEXTS: dict[type[apsw.Error], str] = {
    apsw.FullError: "the disk is full: free some space",
    apsw.ReadOnlyError: "it cannot be written: check the owner, the mode, and whether the disk is read-only",
    apsw.CantOpenError: "it cannot be opened: check the owner and mode of the file and its folder",
    apsw.BusyError: "another picoclaw has kept it locked for 5 seconds; stop the other one",
    apsw.IOError: "the disk reported an error: it may be full, or the card may be failing (see dmesg)",
}


def _connect(path: Path) -> StoreConnection:
    """Open a file; on a disk that is read-only as it is there, since SQLite can make no index of its log beside it."""
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY and not path.with_name(f"{path.name}-wal").exists():
        name, flags = f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = StoreConnection(name, flags=flags)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    return connection


def _create_database(path: Path, migrations: Sequence[Migration]) -> None:
    """Build the file with its tables under another name first: under its own name it is never half made."""
    young = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    young.unlink(missing_ok=True)
    handle = os.open(young, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with contextlib.closing(_connect(young)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # synced once, below
            connection.execute("PRAGMA journal_mode = MEMORY")
            with transact(connection):
                connection.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT")
                for migration in migrations:
                    _run_migration(connection, migration)
            connection.execute("PRAGMA journal_mode = WAL")
        os.fsync(handle)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(young)
    finally:
        os.close(handle)
        for leftover in path.parent.glob(young.name + "*"):
            leftover.unlink(missing_ok=True)
    sync_folder(path.parent)


def _run_migration(connection: apsw.Connection, migration: Migration) -> None:
    migration(connection)
    connection.execute("INSERT INTO migrations VALUES (?, datetime('now'))", (migration.__name__,))


def _check_schema(connection: apsw.Connection, path: Path, migrations: Sequence[Migration], *, thorough: bool) -> None:
    known = {migration.__name__ for migration in migrations}
    columns = {str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info('migrations')")}
    if columns != {"name", "at"}:
        raise StoreDamaged(f"{path} is not picoclaw's database; {DAMAGE_ADVICE}")
    done = {str(name) for (name,) in connection.execute("SELECT name FROM migrations")}
    first = min(known, default="")  # it replaced those whose names stand before it
    if newer := sorted(name for name in done - known if name > first):
        raise StoreNewer(
            f"{path} was written by a newer picoclaw (it holds {newer[-1]}); nothing was changed; update picoclaw"
        )
    if thorough:
        _check_integrity(connection, path, "quick_check")


def _migrate(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # overwritten with zeros: a deleted message was somebody's words
    connection.execute("PRAGMA cache_size = -400")  # KiB of pages kept in memory
    connection.execute("PRAGMA foreign_keys = OFF")  # a table that is made anew is missing for a moment
    done = {str(name) for (name,) in connection.execute("SELECT name FROM migrations")}
    missing = [migration for migration in migrations if migration.__name__ not in done]
    for migration in missing:
        with transact(connection):  # another process may have done it meanwhile
            if not connection.execute("SELECT 1 FROM migrations WHERE name = ?", (migration.__name__,)).get:
                _run_migration(connection, migration)
    if missing:  # a log that begins anew takes less of a small disk; waits for nobody
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("PRAGMA foreign_keys = ON")


# Small facts in `state.db` that outlast the process, by name: when something was last done, and with what.


LAST_CHAT_MARK = "chat.last"
"""The mark that names the conversation which the owner has spoken in last."""


class Marks(Table):
    def get(self, name: str) -> str:
        """Return what a mark says, '' when it was never set."""
        with self._database.reading() as connection:
            return get_mark(connection, name)

    def set(self, name: str, value: str) -> None:
        """Set a mark durably; one that says the same already is not written."""
        if self.get(name) != value:
            with self._database.transaction() as connection:
                set_mark(connection, name, value)

    def moved(self, name: str, before: str, value: str) -> bool:
        """Set a mark that still says `before`; tells whether it did, which one of several processes does."""
        with self._database.transaction() as connection:
            if get_mark(connection, name) != before:
                return False
            set_mark(connection, name, value)
            return True


def get_mark(connection: StoreConnection, name: str) -> str:
    """Return what a mark says, within the caller's reading."""
    return connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).get or ""


def set_mark(connection: StoreConnection, name: str, value: str) -> None:
    """Set a mark, within the caller's transaction."""
    connection.execute("INSERT INTO marks VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", (name, value))
