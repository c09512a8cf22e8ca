"""The memory index: an SQLite file of chunks, words and vectors, built from the notes, rebuilt when deleted."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.files import (
    check_regular,
    check_reserve,
    create_file,
    explain_os_error,
    make_folder,
    read_file,
    set_aside,
    write_atomic,
)
from picoclaw.markdown import blank_comments
from picoclaw.memory.files import Document, FileContent, MemoryFiles, MemorySource
from picoclaw.store.database import SQLITE_ERROR_TEXTS
from picoclaw.text import pattern

MAX_BOOST = 1.0
_MAX_BOOSTS_BYTES = 10_000_000


def read_file_stamp(path: Path) -> tuple[int, ...]:
    """Tell what the file has last been, () where there is none; another number is another content."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return ()
    return about.st_mtime_ns, about.st_size, about.st_ino


def load_boosts(path: Path) -> dict[str, float]:
    """Read the boosts by what they are given to; none when there are none, or the file is damaged. Raises OSError."""
    try:
        return read_boosts(path)
    except StoreError:
        return {}


def read_boosts(path: Path) -> dict[str, float]:
    """Read the boosts. Raises OSError, and StoreError when the file is damaged."""
    damaged = f"{path} is damaged"
    try:
        found = json.loads(read_file(path, _MAX_BOOSTS_BYTES))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        raise StoreError(damaged) from None
    if not isinstance(found, dict):
        raise StoreError(damaged)
    numbers = ((key, value) for key, value in found.items() if isinstance(value, int | float))
    return {key: max(-MAX_BOOST, min(MAX_BOOST, value)) * 1.0 for key, value in numbers if str(value) != "nan"}


def read_or_set_aside_boosts(path: Path) -> dict[str, float]:
    """Read the boosts that are about to be written again; a damaged file is put aside for its owner. Raises OSError."""
    try:
        return read_boosts(path)
    except StoreError:
        set_aside(path, time.strftime("%Y%m%d-%H%M%S"))
        return {}


def add_boost(path: Path, boosts: Mapping[str, float], key: str, step: float) -> None:
    """Add to a boost, within -1 and 1, durably. Raises OSError."""
    value = max(-MAX_BOOST, min(MAX_BOOST, boosts.get(key, 0.0) + step))
    _write_boosts(path, {**boosts, key: round(value, 6)})


def transfer_boosts(path: Path, heirs: Mapping[str, str], staying: Collection[str]) -> None:
    """Give boosts to what has taken the place of what they were given to, which keeps its own if it is `staying`.

    Where that cannot be, the opinions stay as they are: notes are found without them as well.
    """
    with contextlib.suppress(OSError, StoreError):
        boosts = read_boosts(path)
        heirs = {old: new for old, new in heirs.items() if boosts.get(old)}
        if heirs:
            left = {key: boost for key, boost in boosts.items() if key in staying or key not in heirs}
            _write_boosts(path, {**{new: boosts[old] for old, new in heirs.items()}, **left})


def _write_boosts(path: Path, kept: Mapping[str, float]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {boost}" for name, boost in sorted(kept.items()) if boost)
    write_atomic(path, f"{{\n{lines}\n}}\n".encode())


# The tables of `memory.db`: made when they are not there, thrown away when they are not right.
#
# Nothing in the index is the only copy of anything, so damage is not mended. It is a write-ahead log that is synced only
# when it is folded in: a power cut can lose the last changes, which the next look at the files brings back, but tears
# nothing; a search does not wait for the card after a note was changed, and two processes do not wait for each other.
# The words are indexed with external content, so that the text is there once, and can be compared with them.
# https://sqlite.org/wal.html, https://sqlite.org/fts5.html#external_content_tables,
# https://sqlite.org/c3ref/c_dbconfig_defensive.html (RESET_DATABASE empties a damaged file under SQLite's own locks)

DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, StoreDamaged, UnicodeDecodeError)
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
_VERSION_PRAGMAS = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_VERSION}"
_SCHEMA_NAMES = {"meta", "files", "files_inode", "chunks", "chunks_file", "spaced_chunks", "words", "vectors"}

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED_LETTER = pattern(f"([{_UNSPACED}]|[\U00020000-\U0003ffff])")
_UNSPACED_RUN = pattern(f"(?:[{_UNSPACED}]|[\U00020000-\U0003ffff])+")


def space_out(text: str) -> str:
    """Part the letters of scripts that are written without spaces, so that each is a word to FTS5."""
    return text if text.isascii() else _UNSPACED_LETTER.sub(r" \1 ", text)


def _space_out_sql(*values: Any) -> str:
    return space_out(str(values[0]))


def quote_phrases(word: str) -> list[str]:
    """Put a word into FTS5's quotes, whatever is in it; a run of unspaced letters becomes its pairs of letters."""
    word = word.replace("\0", " ").encode("utf-8", "replace").decode()
    runs = [] if word.isascii() else _UNSPACED_RUN.findall(word)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = _UNSPACED_RUN.sub(" ", word) if runs else word
    return [f'"{space_out(part).replace(chr(34), chr(34) * 2)}"' for part in [*pairs, rest] if part.strip()]


@contextlib.contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Put the errors of SQLite and of the system into words. Raises StoreError."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        raise StoreDamaged(f"{path} is damaged: {error}") from None
    except apsw.Error as error:
        raise StoreError(f"{path}: {SQLITE_ERROR_TEXTS.get(type(error), str(error))}") from None
    except OSError as error:
        raise StoreError(f"{path}: {explain_os_error(error)}") from None


def open_index(path: Path, *, renew: bool = False) -> apsw.Connection:
    """Open the index; make an empty one of what is no index of this version, or of any to `renew`.

    Raises apsw.Error and OSError.
    """
    make_folder(path.parent)
    create_file(path, b"")
    check_regular(path, path.stat().st_mode)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        _add_function(connection)
        if renew or not has_current_schema(connection):
            _reset(connection)
        connection.execute("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")  # forgotten is forgotten
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(path: Path) -> apsw.Connection:
    """Open the index as it is on a disk that takes nothing: with its log, or if that cannot be, as it was before it.

    Raises apsw.Error, OSError, and StoreDamaged when it is no index of this version.
    """
    check_regular(path, path.stat().st_mode)
    for how in ("mode=ro", "mode=ro&immutable=1"):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.absolute().as_uri()}?{how}", flags=flags)
        _add_function(connection)
        with contextlib.suppress(apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
            if has_current_schema(connection):
                return connection
        connection.close()
    raise StoreDamaged("it cannot be read without being written")


def open_in_memory() -> apsw.Connection:
    """Open an empty index that is in no file."""
    connection = apsw.Connection(":memory:")
    _add_function(connection)
    connection.execute(_SCHEMA)
    connection.execute(_VERSION_PRAGMAS)
    return connection


def _add_function(connection: apsw.Connection) -> None:
    connection.create_scalar_function("spaced", _space_out_sql, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def fetch_rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
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


def has_current_schema(connection: apsw.Connection) -> bool:
    """Tell whether the tables are those of this version."""
    try:
        names = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        marks = [connection.execute(f"PRAGMA {mark}").get for mark in ("application_id", "user_version")]
    except DAMAGE_ERRORS:
        return False
    return names >= _SCHEMA_NAMES and marks == [_APPLICATION_ID, _VERSION]


def _reset(connection: apsw.Connection) -> None:
    """Empty the file and make the tables."""
    if not _is_empty(connection):
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        try:
            connection.execute("VACUUM")
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        if not has_current_schema(connection):  # another process may have been first
            connection.execute(_SCHEMA)
            connection.execute(_VERSION_PRAGMAS)


def _is_empty(connection: apsw.Connection) -> bool:
    try:
        return not fetch_rows(connection, "SELECT 1 FROM sqlite_schema LIMIT 1")
    except DAMAGE_ERRORS:
        return False


# The vectors of chunks: signed bytes, 60 in a row of their table, because one in a row is read ten times as slowly.

SLOTS_PER_BLOCK = 60
"""Vectors in a row: that of chunk `id` is the `id % SLOTS`-th of row `id // SLOTS`, if the row's mask says so."""


def read_vector_model(connection: apsw.Connection) -> tuple[str, int]:
    """Say whose vectors there are, and how long they are; '' and 0 before there were any."""
    found: dict[str, str] = dict(fetch_rows(connection, "SELECT key, value FROM meta"))
    return found.get("model", ""), int(found.get("dims", 0))


def _is_model(connection: apsw.Connection, model: tuple[str, int]) -> bool:
    """Tell whether the vectors are those of a model; its length may not be known yet."""
    name, dims = read_vector_model(connection)
    return name == model[0] and model[1] in {0, dims}


def select_unembedded(
    connection: apsw.Connection, model: tuple[str, int], after: int, most: int
) -> list[tuple[Any, ...]]:
    """Return the ids, texts and hashes of chunks, from an id on, that have no vector of this model."""
    return fetch_rows(
        connection,
        "SELECT chunks.id, text, sha FROM chunks LEFT JOIN vectors ON block = chunks.id / ?1"
        " WHERE chunks.id > ?4 AND (NOT ?2 OR there IS NULL OR NOT there & (1 << (chunks.id % ?1)))"
        " ORDER BY chunks.id LIMIT ?3",
        (SLOTS_PER_BLOCK, _is_model(connection, model), most, after),
    )


def count_unembedded(connection: apsw.Connection, model: tuple[str, int]) -> int:
    """Count the chunks that have no vector of this model."""
    chunks = int(connection.execute("SELECT count(*) FROM chunks").get)
    return chunks - count_vectors(connection) if _is_model(connection, model) else chunks


def store_vectors(connection: apsw.Connection, model: str, dims: int, new: Sequence[tuple[int, bytes]]) -> None:
    """Keep vectors by the ids of their chunks; those of another model go."""
    if read_vector_model(connection) != (model, dims):
        connection.execute("DELETE FROM vectors")
        pairs = (("model", model), ("dims", str(dims)))
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", pairs)
    for block, some in groupby(sorted(new), lambda row: row[0] // SLOTS_PER_BLOCK):
        _store_block(connection, block, dims, some)


def _store_block(connection: apsw.Connection, block: int, dims: int, some: Iterable[tuple[int, bytes]]) -> None:
    there, held = 0, bytes(SLOTS_PER_BLOCK * dims)
    for found in fetch_rows(connection, "SELECT there, rows FROM vectors WHERE block = ?", (block,)):
        there, held = found
    new = bytearray(held)
    for number, row in some:
        slot = number % SLOTS_PER_BLOCK
        there |= 1 << slot
        new[slot * dims : (slot + 1) * dims] = row
    connection.execute(
        "INSERT INTO vectors VALUES (?, ?, ?)"
        " ON CONFLICT (block) DO UPDATE SET there = excluded.there, rows = excluded.rows",
        (block, there, bytes(new)),
    )


def delete_vector(connection: apsw.Connection, number: int) -> None:
    """Forget a chunk's vector, if it has one."""
    sql = "UPDATE vectors SET there = there & ~(1 << ?) WHERE block = ? AND there & (1 << ?)"
    connection.execute(sql, (number % SLOTS_PER_BLOCK, number // SLOTS_PER_BLOCK, number % SLOTS_PER_BLOCK))


def select_blocks(connection: apsw.Connection, after: int, most: int) -> list[tuple[Any, ...]]:
    """Return rows of the table, as they are and in order, that follow one: their numbers, masks and vectors."""
    sql = "SELECT block, there, rows FROM vectors WHERE block > ? ORDER BY block LIMIT ?"
    return fetch_rows(connection, sql, (after, most))


def count_vectors(connection: apsw.Connection) -> int:
    """Count the vectors."""
    return sum(int(there).bit_count() for (there,) in connection.execute("SELECT there FROM vectors"))


# Cuts a text into pieces that are found one by one, where a reader would cut it. Pure.

MAX_HEADING_CHARS = 200

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(?=\S)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Chunk(NamedTuple):
    """A part of a text: its lines, counted from 1, both included, and the headings that it stands under."""

    start: int
    end: int
    heading: str
    text: str


class LinePart(NamedTuple):
    """A line of a text, or a part of one that is too long, and the headings that it stands under."""

    line: int
    text: str
    heading: str
    opens: bool  # it is a heading itself


def split_chunks(text: str, most: int = 1000) -> list[Chunk]:
    """Cut a text into chunks of at most `most` characters, after half of that if it can be at a blank line.

    The last heading or blank line that fits is taken, or else the last line that fits. A line that is longer is cut
    itself, at a space if there is one. What is blank is in no chunk.
    """
    found: list[Chunk] = []
    held: list[LinePart] = []
    for piece in iter_lines(text, most):
        while held and _measure_parts(held) + 1 + len(piece.text) > most:
            cut = _find_cut([*held, piece], most // 2)
            found += _make_chunk(held[:cut])
            held = _strip_blank(held[cut:])
        held = _strip_blank([*held, piece]) if not held else [*held, piece]
    return found + _make_chunk(held)


def _measure_parts(pieces: list[LinePart]) -> int:
    return sum(len(piece.text) for piece in pieces) + len(pieces) - 1


def _find_cut(pieces: list[LinePart], least: int) -> int:
    """How many pieces to take, all but the last at most."""
    size = _measure_parts(pieces[:-1])
    for count in range(len(pieces) - 1, 0, -1):
        if size < least:
            break
        if pieces[count].opens or not pieces[count].text.strip():
            return count
        size -= len(pieces[count - 1].text) + 1
    count = len(pieces) - 1
    while count > 1 and (pieces[count - 1].opens or not pieces[count - 1].text.strip()):
        count -= 1  # a heading goes with what stands under it
    return count


def _strip_blank(pieces: list[LinePart]) -> list[LinePart]:
    """Leave out what is blank at the head."""
    first = next((i for i, piece in enumerate(pieces) if piece.text.strip()), len(pieces))
    return pieces[first:]


def _make_chunk(pieces: list[LinePart]) -> list[Chunk]:
    kept = _strip_blank(_strip_blank(pieces)[::-1])[::-1]
    if not kept:
        return []
    return [Chunk(kept[0].line, kept[-1].line, kept[0].heading, "\n".join(piece.text for piece in kept))]


def iter_lines(text: str, most: int = 1000) -> Iterator[LinePart]:
    """Give a text's lines, those that are too long in several pieces, each with the heading it stands under."""
    titles: list[tuple[int, str]] = []
    heading = fence = ""
    for number, line in enumerate(_split_lines(text), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        opening = None if fence else _HEADING.match(line)
        if opening:
            level = len(opening[1])
            title = line[opening.end() : opening.end() + MAX_HEADING_CHARS].strip().rstrip("#").rstrip()
            titles = [*((above, name) for above, name in titles if above < level), (level, title)]
            heading = " > ".join(name for _, name in titles if name)[-MAX_HEADING_CHARS:]
        for i, part in enumerate(_split_long_line(line, most)):
            yield LinePart(number, part, heading, opens=bool(opening) and i == 0)


def _split_lines(text: str) -> Iterator[str]:
    """Split at the line ends that an editor counts."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _split_long_line(line: str, most: int) -> Iterator[str]:
    start = 0
    while len(line) - start > most:
        space = line.rfind(" ", start + most // 2, start + most)
        end = space + 1 if space >= 0 else start + most
        yield line[start:end]
        start = end
    yield line[start:]


# Brings the index up to the files: all are looked at, those that changed are read, what differs is written.

Progress = Callable[[int, int], None]

_DAY_NOTE_PATH = re.compile(r"memory/\d{6}/(\d{4})(\d\d)(\d\d)\.md")
_ISO_DAY = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_BATCH_FILES, _BATCH_CHARACTERS = 1000, 1_000_000  # in one transaction: fewer of them write less, and block longer
_INHERIT_DIVISOR = 3  # a chunk with one word in so many of an earlier one has taken its place
_MAX_FILE_ID = 10_000_000  # numbers of files are taken again; a larger one is damage


class SyncResult(NamedTuple):
    """What a look at the files came to. `chunks` counts those that were written; `problems` are for the owner."""

    files: int
    read: int
    renamed: int
    removed: int
    chunks: int
    problems: tuple[str, ...]


@dataclass(slots=True)
class IndexSync:
    """One look at the files."""

    connection: apsw.Connection
    files: MemoryFiles
    progress: Progress
    opinions: Path | None = None  # the file of feedback.py that follows the chunks
    read: int = 0
    renamed: int = 0
    removed: int = 0
    chunks: int = 0
    _boosts: Mapping[str, float] = field(default_factory=dict)
    _heirs: dict[str, str] = field(default_factory=dict)

    def run(self) -> SyncResult:
        """Follow what was renamed, forget what is gone, read what is new. Raises apsw.Error, having lost nothing."""
        count, changed, gone = self._look()
        if gone:
            changed, gone = self._rename(changed, gone)
            self._remove(gone)
        if changed and (name := self.connection.filename):
            check_reserve("the notes' index", Path(name).parent)
        self._update(changed)
        return SyncResult(count, self.read, self.renamed, self.removed, self.chunks, tuple(self.files.problems))

    def _look(self) -> tuple[int, list[str], dict[int, str]]:
        """Count the files, and tell which are new or changed, and which rows have none any more."""
        last = self.connection.execute("SELECT coalesce(max(id), 0) FROM files").get
        if last > _MAX_FILE_ID:
            raise StoreDamaged(f"a file has the number {last}")
        seen, count, changed = bytearray(last + 1), 0, []
        for folder, sources in self.files.folders():
            known = self._rows_in(folder)
            for source in sources:
                count += 1
                row = known.get(source.path, (last + 1,))
                if row[0] <= last:
                    seen[row[0]] = 1
                if row[1:] != source:
                    changed.append(source.path)
        gone: dict[int, str] = {}
        if seen.count(1) < self.connection.execute("SELECT count(*) FROM files WHERE id <= ?", (last,)).get:
            kept = self.connection.execute("SELECT id, path FROM files WHERE id <= ?", (last,))
            gone = {file: path for file, path in kept if not seen[file] and self._is_gone(path)}
        return count, sorted(changed), gone

    def _rows_in(self, folder: str) -> dict[str, tuple[Any, ...]]:
        """Know the files of one folder, those below it left out: one question is faster than one for each file."""
        first, end = (f"{folder}/", f"{folder}0") if folder else ("", "\U0010ffff")  # 0 comes after /
        sql = (
            "SELECT id, path, mtime_ns, size, inode FROM files"
            " WHERE path >= ? AND path < ? AND NOT instr(substr(path, ?), '/')"
        )
        return {row[1]: row for row in fetch_rows(self.connection, sql, (first, end, len(first) + 1))}

    def _row(self, path: str) -> tuple[Any, ...] | None:
        sql = "SELECT id, mtime_ns, size, inode FROM files WHERE path = ?"
        return self.connection.execute(sql, (path,)).fetchone()

    def _is_gone(self, path: str) -> bool:
        return not path.startswith(tuple(self.files.unread)) and self.files.source(path) is None

    def _rename(self, changed: Sequence[str], gone: dict[int, str]) -> tuple[list[str], dict[int, str]]:
        """Give what is gone the name under which it is there again; returns what is left of both."""
        left, gone = [], dict(gone)
        with transaction(self.connection):
            for path in changed:
                source = self.files.source(path)
                file = self._same(source, gone) if source and source.inode and self._row(path) is None else None
                if file is None:
                    left.append(path)
                    continue
                self.connection.execute("UPDATE files SET path = ? WHERE id = ?", (path, file))
                self.renamed += 1
                del gone[file]
        return left, gone

    def _same(self, source: MemorySource, gone: dict[int, str]) -> int | None:
        sql = "SELECT id, path FROM files WHERE inode = ? AND mtime_ns IN (?, ?) AND size = ?"
        found = fetch_rows(self.connection, sql, (source.inode, source.mtime_ns, source.mtime_ns - 1, source.size))
        return next((int(file) for file, path in found if gone.get(file) == path), None)

    def _remove(self, gone: dict[int, str]) -> None:
        files = sorted(gone)
        for first in range(0, len(files), _BATCH_FILES):
            with transaction(self.connection):
                for file in files[first : first + _BATCH_FILES]:
                    self._remove_one(file, gone[file])

    def _remove_one(self, file: int, path: str) -> None:
        row = self._row(path)
        if row is None or row[0] != file:  # another process was faster
            return
        found = fetch_rows(self.connection, "SELECT id FROM chunks WHERE file = ?", (file,))
        _delete_chunks(self.connection, [number for (number,) in found])
        self.connection.execute("DELETE FROM files WHERE id = ?", (file,))
        self.removed += 1

    def _update(self, changed: Sequence[str]) -> None:
        done = 0
        if changed and self.opinions:
            with contextlib.suppress(OSError):
                self._boosts = load_boosts(self.opinions)
        for contents, taken in self._batches(changed):
            with transaction(self.connection):
                for content in contents:
                    self._put(content)
                self._carry()
            done += taken
            self.progress(done, len(changed))

    def _batches(self, changed: Sequence[str]) -> Iterator[tuple[list[FileContent], int]]:
        """Read files, as many at once as memory bears; with how many were tried."""
        contents: list[FileContent] = []
        taken = size = 0
        for path in changed:
            taken += 1
            if content := self.files.read(path):
                contents.append(content)
                size += len(content.text)
            if size >= _BATCH_CHARACTERS or taken == _BATCH_FILES:
                yield contents, taken
                contents, taken, size = [], 0, 0
        if taken:
            yield contents, taken

    def _put(self, content: FileContent) -> None:
        """Make the rows of a file what it holds; another process may have done so already."""
        source, known = content.source, self._row(content.source.path)
        file = known[0] if known else None
        if known is None or known[1:] != source[1:]:
            self.read += 1
            ((file,),) = fetch_rows(
                self.connection,
                "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " mtime_ns = excluded.mtime_ns, size = excluded.size, inode = excluded.inode,"
                " problem = excluded.problem RETURNING id",
                (file, *source, content.problem),
            )
        wanted = split_chunks(content.text if source.path in self.files.documents else blank_comments(content.text))
        if day := content.day or find_day(source.path, ""):
            wanted = [chunk if day in chunk.heading else _add_day(chunk, day) for chunk in wanted]
        self._put_chunks(file, wanted)

    def _put_chunks(self, file: Any, wanted: Sequence[Chunk]) -> None:
        """Leave chunks as they are whose text is the same; the others' ids go to the new ones, in their order."""
        new, spare = self._matched(file, wanted)
        if new and spare and self._boosts:
            self._inherit(new, spare)
        _delete_chunks(self.connection, spare[len(new) :])
        for chunk, old in zip(new, [*spare, *[None] * len(new)], strict=False):
            if old is not None:
                _delete_words(self.connection, old)
            ((number,),) = fetch_rows(
                self.connection,
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET start = excluded.start,"
                ' "end" = excluded."end", sha = excluded.sha, heading = excluded.heading, text = excluded.text'
                " RETURNING id",
                (old, file, chunk.start, chunk.end, hash_chunk(chunk.heading, chunk.text), chunk.heading, chunk.text),
            )
            self.connection.execute(
                "INSERT INTO words (rowid, text, heading) SELECT * FROM spaced_chunks WHERE id = ?", (number,)
            )
        self.chunks += len(new)

    def _inherit(self, new: Sequence[Chunk], spare: Sequence[int]) -> None:
        """Note for the chunks that go and have an opinion which of the new ones has most of their words."""
        for number in spare:
            ((key, text),) = fetch_rows(self.connection, "SELECT sha, text FROM chunks WHERE id = ?", (number,))
            if not self._boosts.get(key.hex()):
                continue
            had = {*text.split()}
            heir = max(new, key=lambda chunk: len(had.intersection(chunk.text.split())))
            if len(had.intersection(heir.text.split())) * _INHERIT_DIVISOR >= len(had):
                self._heirs[key.hex()] = hash_chunk(heir.heading, heir.text).hex()

    def _carry(self) -> None:
        """Keep the opinions of chunks that have changed, before it is known for good that they have."""
        if self._heirs and self.opinions:
            sql = "SELECT 1 FROM chunks WHERE sha = ? LIMIT 1"
            staying = [key for key in self._heirs if fetch_rows(self.connection, sql, (bytes.fromhex(key),))]
            transfer_boosts(self.opinions, self._heirs, staying)
        self._heirs = {}

    def _matched(self, file: int, wanted: Sequence[Chunk]) -> tuple[list[Chunk], list[int]]:
        """Find the chunks that are new, and the ids whose text is not there any more."""
        found = fetch_rows(
            self.connection, 'SELECT id, sha, start, "end" FROM chunks WHERE file = ? ORDER BY id', (file,)
        )
        old: dict[bytes, list[tuple[int, int, int]]] = {}
        for number, key, start, end in found:
            old.setdefault(key, []).append((number, start, end))
        new = []
        for chunk in wanted:
            same = old.get(hash_chunk(chunk.heading, chunk.text))
            if not same:
                new.append(chunk)
                continue
            number, *lines = same.pop(0)
            if lines != [chunk.start, chunk.end]:
                sql = 'UPDATE chunks SET start = ?, "end" = ? WHERE id = ?'
                self.connection.execute(sql, (chunk.start, chunk.end, number))
        return new, sorted(number for rest in old.values() for number, _, _ in rest)


def find_day(path: str, heading: str) -> str:
    """Tell the day that a chunk is about, '' when neither its file's name nor its heading says it."""
    for found in (_DAY_NOTE_PATH.fullmatch(path), *reversed([*_ISO_DAY.finditer(heading)])):
        if found:
            with contextlib.suppress(ValueError):
                return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    return ""


def _add_day(chunk: Chunk, day: str) -> Chunk:
    return chunk._replace(heading=f"{day} > {chunk.heading}".strip(" >"))


def hash_chunk(heading: str, text: str) -> bytes:
    """Half a SHA-256 of what is searched in a chunk."""
    import hashlib

    return hashlib.sha256(f"{heading}\0{text}".encode()).digest()[:16]


def _delete_chunks(connection: apsw.Connection, ids: Iterable[int]) -> None:
    for number in ids:
        _delete_words(connection, number)
        connection.execute("DELETE FROM chunks WHERE id = ?", (number,))


def _delete_words(connection: apsw.Connection, number: int) -> None:
    """Take a chunk's words and vector away, while its text is still there."""
    connection.execute(
        "INSERT INTO words (words, rowid, text, heading) SELECT 'delete', * FROM spaced_chunks WHERE id = ?", (number,)
    )
    delete_vector(connection, number)


# --- the index ---

MAX_MATCH_WORDS = 100
"""Of a question; what is more would take long and find everything."""


_T = TypeVar("_T")


def _ignore_progress(done: int, total: int) -> None:
    """Nobody is looking."""


class MemoryRow(NamedTuple):
    """A chunk as it is shown; `day` is that of its note or of a date in its heading, `boost` the owner's opinion."""

    id: int
    path: str
    start: int
    end: int
    heading: str
    text: str
    day: str
    boost: float


class IndexFile:
    """The index of one workspace. Every method raises StoreError when the file cannot be used; damage is mended."""

    def __init__(
        self,
        path: Path,
        workspace: Path,
        documents: Callable[[], Iterable[Document]] = tuple,
        *,
        kept: bool = True,
        frozen: bool = False,
    ) -> None:
        """Take the index's file, usually `memory.db`, the workspace, and what to find besides; opens nothing yet.

        One that is not `kept` is not written to its file, but held in this process's memory, or else `frozen`: the
        file as it was when it could still be written, for questions only.
        """
        self._path = path
        self._kept = kept and not frozen
        self.frozen = frozen
        self._documents = documents
        self._feedback = path.with_name(f"{path.stem}-feedback.json")
        self._workspace = workspace
        self._connection: apsw.Connection | None = None
        self._file = (0, 0)
        self._openings = 0
        self._opinions: tuple[tuple[int, ...], dict[str, float]] = (), {}
        self._handed: dict[int, bytes] = {}

    def close(self) -> None:
        """Let go of the file; may be called twice, and the index be used again."""
        with explain_errors(self._path):
            if self._connection:
                self._connection.close()
            self._connection = None

    def sync(self, progress: Progress = _ignore_progress) -> SyncResult:
        """Bring the index up to the files; `progress` is told how many of those that changed are done."""
        return self._run(lambda connection: self._sync_files(connection, progress), fill=False)

    def match(self, words: Sequence[str], most: int) -> list[tuple[int, float]]:
        """Find the chunks that have any of the words, with how well they fit, the best first."""
        phrases_ = list(dict.fromkeys(phrase for word in words for phrase in quote_phrases(word)))[:MAX_MATCH_WORDS]
        if not phrases_:
            return []
        sql = "SELECT rowid, bm25(words) AS worth FROM words WHERE words MATCH ? ORDER BY worth LIMIT ?"
        found = self._run(lambda connection: fetch_rows(connection, sql, (" OR ".join(phrases_), most)))
        return [(number, -worth) for number, worth in found]

    def document_frequencies(self, words: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Count the chunks, and those in which `match` would find each of the words."""
        sql = "SELECT count(*) FROM words WHERE words MATCH ?"

        def counted(connection: apsw.Connection) -> tuple[int, dict[str, int]]:
            total = int(connection.execute("SELECT count(*) FROM chunks").get)
            asked = {word: " OR ".join(quote_phrases(word)[:MAX_MATCH_WORDS]) for word in dict.fromkeys(words)}
            return total, {word: int(connection.execute(sql, (q,)).get) if q else 0 for word, q in asked.items()}

        return self._run(counted)

    def rows(self, ids: Sequence[int]) -> list[MemoryRow]:
        """Return chunks in the order of their ids as given; those that are not there any more are left out."""
        sql = (
            'SELECT chunks.id, path, start, "end", heading, text, sha FROM chunks JOIN files ON files.id = file'
            " WHERE chunks.id IN (SELECT value FROM json_each(?))"
        )
        if not ids:
            return []
        boosts = self._boosts()

        def read(connection: apsw.Connection) -> dict[int, MemoryRow]:
            return {found[0]: _make_row(found, boosts) for found in fetch_rows(connection, sql, (str([*ids]),))}

        found = self._run(read)
        return [found[number] for number in ids if number in found]

    def feedback(self, number: int, step: float) -> None:
        """Raise or lower the boost of a chunk, by its id; it is kept for its text, whatever becomes of the index."""

        def kept(connection: apsw.Connection) -> None:
            with transaction(connection):  # it holds other processes off the file as well
                key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
                if key is None:
                    raise StoreError(f"nothing that is remembered has the id {number}; search again")
                add_boost(self._feedback, read_or_set_aside_boosts(self._feedback), key.hex(), step)

        self._run(kept)

    def unembedded(self, model: str, most: int, dims: int = 0, after: int = 0) -> list[tuple[int, str]]:
        """Return chunks, from an id on, that have no vector of this model, of this length if that is known."""
        rows = self._run(lambda connection: select_unembedded(connection, (model, dims), after, most))
        self._handed = {number: key for number, _, key in rows}
        return [(number, text) for number, text, _ in rows]

    def count_unembedded(self, model: str, dims: int = 0) -> int:
        """Count the chunks that have no vector of this model."""
        return self._run(lambda connection: count_unembedded(connection, (model, dims)))

    def keep_vectors(self, model: str, dims: int, rows: Sequence[tuple[int, bytes, float]]) -> None:
        """Keep the vectors of chunks, `dims` signed bytes each; those of another model go.

        A chunk whose text has changed since `unembedded` gave it gets none. What a vector's bytes are to be multiplied
        by is not kept: their directions are what is compared.
        """
        if wrong := next((row for _, row, _ in rows if len(row) != dims), None):
            raise ValueError(f"a vector has {len(wrong)} bytes instead of {dims}")

        def kept(connection: apsw.Connection) -> None:
            with transaction(connection):
                fresh = [(number, row) for number, row, _ in rows if self._unchanged(connection, number)]
                store_vectors(connection, model, dims, fresh)

        self._run(kept)

    def _unchanged(self, connection: apsw.Connection, number: int) -> bool:
        key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
        return key is not None and bool(self._handed.get(number, key) == key)

    def vectors(self, most: int = 34) -> Iterator[list[tuple[int, int, bytes]]]:
        """Give the rows of vectors.py's table, `most` at a time: the row's number, its mask, its vectors."""
        last = -1
        while found := self._run(partial(select_blocks, after=last, most=most)):
            last = found[-1][0]
            yield found

    def model(self) -> tuple[str, int]:
        """Say whose vectors there are, and how long they are; '' and 0 before there were any."""
        return self._run(read_vector_model)

    def version(self) -> tuple[int, ...]:
        """Give numbers that change whenever this process or another one has written to the index."""

        def counted(connection: apsw.Connection) -> tuple[int, ...]:
            return self._openings, connection.total_changes(), int(connection.execute("PRAGMA data_version").get)

        return self._run(counted)

    def purge(self) -> None:
        """Bring the index up to the files, and leave nothing of what has gone in its own."""
        self.sync()
        self._run(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def stats(self) -> dict[str, int]:
        """Count what is in the index, and its bytes against those of the notes."""

        def counted(connection: apsw.Connection) -> dict[str, int]:
            ((files, size),) = fetch_rows(connection, "SELECT count(*), coalesce(sum(size), 0) FROM files")
            chunks = connection.execute("SELECT count(*) FROM chunks").get
            pages = connection.execute("PRAGMA page_count").get * connection.execute("PRAGMA page_size").get
            embedded = count_vectors(connection)
            return {"files": files, "bytes": size, "chunks": chunks, "vectors": embedded, "index_bytes": pages}

        return self._run(counted)

    def check(self) -> list[str]:
        """Look through the whole index and the files: what is damaged is built again; returns what was wrong."""
        found = list(self.sync().problems)
        try:
            self._run_once(_check_integrity)
        except StoreDamaged as error:
            self._rebuild()
            found.append(f"{error}; it has been built again")
        left_out = self._run(_list_problems)
        return found + [line for line in left_out if line not in found]

    # --- the file ---

    def _run(self, work: Callable[[apsw.Connection], _T], *, fill: bool = True) -> _T:
        """Do something with the index, after building it again if it is not there or turns out to be damaged."""
        try:
            return self._run_once(work, fill=fill)
        except StoreDamaged:
            self._rebuild()
            return self._run_once(work, fill=fill)

    def _run_once(self, work: Callable[[apsw.Connection], _T], *, fill: bool = True) -> _T:
        with explain_errors(self._path):
            try:
                return work(self._open(fill=fill))
            except apsw.SQLError as error:
                if self._connection and has_current_schema(self._connection):
                    raise
                raise StoreDamaged(str(error)) from None  # a table is gone

    def _open(self, *, fill: bool = True) -> apsw.Connection:
        if self._connection is None or (self._kept and self._file != _get_file_identity(self._path)):
            self.close()
            self._connection = self._connect()
            self._openings += 1
            self._file = _get_file_identity(self._path) if self._kept else (0, 0)
        if fill and not self.frozen and self._connection.execute("SELECT 1 FROM files LIMIT 1").get is None:
            self._sync_files(self._connection)
        return self._connection

    def _connect(self) -> apsw.Connection:
        if self.frozen:
            return open_read_only(self._path)
        return open_index(self._path) if self._kept else open_in_memory()

    def _rebuild(self) -> None:
        self.close()
        with explain_errors(self._path):
            if self._kept:
                open_index(self._path, renew=True).close()

    def _sync_files(self, connection: apsw.Connection, progress: Progress = _ignore_progress) -> SyncResult:
        opinions = self._feedback if self._kept else None
        return IndexSync(connection, MemoryFiles.of(self._workspace, self._documents()), progress, opinions).run()

    def _boosts(self) -> dict[str, float]:
        with contextlib.suppress(OSError):  # notes are found without opinions as well
            changed = read_file_stamp(self._feedback)
            if changed != self._opinions[0]:
                self._opinions = changed, load_boosts(self._feedback)
        return self._opinions[1]


def _get_file_identity(path: Path) -> tuple[int, int]:
    """Tell one file of a name from the next; nobody has the one that was deleted."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return -1, -1
    return about.st_dev, about.st_ino


def _make_row(found: Sequence[Any], boosts: Mapping[str, float]) -> MemoryRow:
    number, path, start, end, heading, text, key = found
    if key != hash_chunk(heading, text):
        raise StoreDamaged(f"chunk {number} is not what was written")
    return MemoryRow(number, path, start, end, heading, text, find_day(path, heading), boosts.get(key.hex(), 0.0))


def _check_integrity(connection: apsw.Connection) -> None:
    """Raise what shows damage: SQLite's own look at the pages, and a comparison of the words with the texts."""
    if (found := connection.execute("PRAGMA integrity_check(1)").get) != "ok":
        raise StoreDamaged(str(found))
    connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


def _list_problems(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT path, problem FROM files WHERE problem <> '' ORDER BY path")
    return [f"{path}: {problem}" for path, problem in rows]
