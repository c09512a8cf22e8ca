"""The tables of `memory.db`: made when they are not there, thrown away when they are not right.

Nothing in the index is the only copy of anything, so damage is not mended. It is a write-ahead log that is synced only
when it is folded in: a power cut can lose the last changes, which the next look at the files brings back, but tears
nothing; a search does not wait for the card after a note was changed, and two processes do not wait for each other.
The words are indexed with external content, so that the text is there once, and can be compared with them.
https://sqlite.org/wal.html, https://sqlite.org/fts5.html#external_content_tables,
https://sqlite.org/c3ref/c_dbconfig_defensive.html (RESET_DATABASE empties a damaged file under SQLite's own locks)
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from picoclaw.disk import check_regular, create, explain, make_folder
from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.pattern import pattern
from picoclaw.store.database import WORDS

DAMAGED = (apsw.CorruptError, apsw.NotADBError, StoreDamaged, UnicodeDecodeError)
"""What SQLite, or a look at what it returned, says of a file that is to be built again."""

_BUSY_MS = 5000
_APPLICATION_ID = 0x7069636F
_VERSION = 2
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
    mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, problem TEXT NOT NULL
) STRICT;
CREATE INDEX files_inode ON files (inode);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    sha BLOB NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE INDEX chunks_file ON chunks (file);
CREATE VIEW spaced_chunks AS SELECT id, spaced(text) AS text, spaced(heading) AS heading FROM chunks;
CREATE VIRTUAL TABLE words USING fts5(
    text, heading, content = 'spaced_chunks', content_rowid = 'id', tokenize = 'porter unicode61'
);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
CREATE TABLE vectors (block INTEGER PRIMARY KEY, there INTEGER NOT NULL, rows BLOB NOT NULL) STRICT;
"""
_MARKS = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_VERSION}"
_NAMES = {"meta", "files", "files_inode", "chunks", "chunks_file", "spaced_chunks", "words", "vectors"}

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER = pattern(f"([{_UNSPACED}]|[\U00020000-\U0003ffff])")
_RUN = pattern(f"(?:[{_UNSPACED}]|[\U00020000-\U0003ffff])+")


def spaced(text: str) -> str:
    """Part the letters of scripts that are written without spaces, so that each is a word to FTS5."""
    return text if text.isascii() else _LETTER.sub(r" \1 ", text)


def _spaced(*values: Any) -> str:
    return spaced(str(values[0]))


def phrases(word: str) -> list[str]:
    """Put a word into FTS5's quotes, whatever is in it; a run of unspaced letters becomes its pairs of letters."""
    word = word.replace("\0", " ").encode("utf-8", "replace").decode()
    runs = [] if word.isascii() else _RUN.findall(word)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = _RUN.sub(" ", word) if runs else word
    return [f'"{spaced(part).replace(chr(34), chr(34) * 2)}"' for part in [*pairs, rest] if part.strip()]


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Put the errors of SQLite and of the system into words. Raises StoreError."""
    try:
        yield
    except DAMAGED as error:
        raise StoreDamaged(f"{path} is damaged: {error}") from None
    except apsw.Error as error:
        raise StoreError(f"{path}: {WORDS.get(type(error), str(error))}") from None
    except OSError as error:
        raise StoreError(f"{path}: {explain(error)}") from None


def connected(path: Path, *, renew: bool = False) -> apsw.Connection:
    """Open the index; make an empty one of what is no index of this version, or of any to `renew`.

    Raises apsw.Error and OSError.
    """
    make_folder(path.parent)
    create(path, b"")
    check_regular(path, path.stat().st_mode)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        _add_spaced(connection)
        if renew or not right(connection):
            _reset(connection)
        connection.execute("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")  # forgotten is forgotten
    except BaseException:
        connection.close()
        raise
    return connection


def frozen(path: Path) -> apsw.Connection:
    """Open the index as it is on a disk that takes nothing: with its log, or if that cannot be, as it was before it.

    Raises apsw.Error, OSError, and StoreDamaged when it is no index of this version.
    """
    check_regular(path, path.stat().st_mode)
    for how in ("mode=ro", "mode=ro&immutable=1"):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.absolute().as_uri()}?{how}", flags=flags)
        _add_spaced(connection)
        with contextlib.suppress(apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
            if right(connection):
                return connection
        connection.close()
    raise StoreDamaged("it cannot be read without being written")


def unwritten() -> apsw.Connection:
    """Open an empty index that is in no file."""
    connection = apsw.Connection(":memory:")
    _add_spaced(connection)
    connection.execute(_SCHEMA)
    connection.execute(_MARKS)
    return connection


def _add_spaced(connection: apsw.Connection) -> None:
    connection.create_scalar_function("spaced", _spaced, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Ask for rows, all of them at once."""
    return connection.execute(sql, values).fetchall()


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All of the block or none of it, also when it is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():
            connection.execute("ROLLBACK")
        raise


def right(connection: apsw.Connection) -> bool:
    """Tell whether the tables are those of this version."""
    try:
        names = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        marks = [connection.execute(f"PRAGMA {mark}").get for mark in ("application_id", "user_version")]
    except DAMAGED:
        return False
    return names >= _NAMES and marks == [_APPLICATION_ID, _VERSION]


def _reset(connection: apsw.Connection) -> None:
    """Empty the file and make the tables."""
    if not _empty(connection):
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        try:
            connection.execute("VACUUM")
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        if not right(connection):  # another process may have been first
            connection.execute(_SCHEMA)
            connection.execute(_MARKS)


def _empty(connection: apsw.Connection) -> bool:
    try:
        return not rows(connection, "SELECT 1 FROM sqlite_schema LIMIT 1")
    except DAMAGED:
        return False
