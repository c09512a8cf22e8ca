"""The memory index: an SQLite file of chunks, words and vectors, built from the notes, rebuilt when deleted."""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any, TypeVar

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
from picoclaw.memory.files import Document, FileContent, MemoryFiles
from picoclaw.records import NamedTuple
from picoclaw.store.database import SQLITE_ERROR_TEXTS, transact
from picoclaw.text import pattern

_T = TypeVar("_T")
Progress = Callable[[int, int], None]
"""Is told how many are done, of how many."""


def ignore_progress(done: int, total: int) -> None:
    pass


def _stat(path: Path, *fields: str) -> tuple[Any, ...]:
    """Those fields of a file's status, () where there is no file."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return ()
    return tuple(getattr(about, field) for field in fields)


# The owner's opinions, from -1 to 1, by the hashes of chunks in hex: a JSON file beside the index.

_MAX_BOOSTS_BYTES = 10_000_000


def _read_boosts(path: Path) -> dict[str, float]:
    """Read the boosts. Raises OSError, and StoreError when the file is damaged."""
    try:
        found = json.loads(read_file(path, _MAX_BOOSTS_BYTES))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StoreError(f"{path} is damaged")
    numbers = ((key, value) for key, value in found.items() if isinstance(value, int | float))
    return {key: max(-1.0, min(1.0, value)) for key, value in numbers if str(value) != "nan"}


def _write_boosts(path: Path, kept: Mapping[str, float]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {boost}" for name, boost in sorted(kept.items()) if boost)
    write_atomic(path, f"{{\n{lines}\n}}\n".encode())


# The tables of `memory.db`: made when they are not there, thrown away when they are not right.
#
# The index can be rebuilt, so a damaged one is deleted. It has a write-ahead log that is synced at checkpoints only: a power
# cut can lose the last changes, which the next look at the files brings back, but damages nothing; a search does not wait
# for the card after a note was changed, and two processes do not wait for each other.
# The words are indexed with external content, so that the text is there once, and can be compared with them.
# Vectors are signed bytes, 60 in a row of their table, because one in a row is read ten times as slowly.
# https://sqlite.org/wal.html, https://sqlite.org/fts5.html#external_content_tables,
# https://sqlite.org/c3ref/c_dbconfig_defensive.html (RESET_DATABASE empties a damaged file under SQLite's own locks)

_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, StoreDamaged, UnicodeDecodeError)
SLOTS_PER_BLOCK = 60
"""Vectors in a block: chunk `id` has number `id % SLOTS_PER_BLOCK` of block `id // SLOTS_PER_BLOCK`, if its mask says so."""

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
_SCHEMA += f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_VERSION};"
_SCHEMA_NAMES = {"meta", "files", "files_inode", "chunks", "chunks_file", "spaced_chunks", "words", "vectors"}

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED_LETTER = pattern(f"([{_UNSPACED}]|[\U00020000-\U0003ffff])")
_UNSPACED_RUN = pattern(f"(?:[{_UNSPACED}]|[\U00020000-\U0003ffff])+")


def _space_out(*values: Any) -> str:
    """Separate the letters of scripts that are written without spaces, so that each is a word to FTS5."""
    text = str(values[0])
    return text if text.isascii() else _UNSPACED_LETTER.sub(r" \1 ", text)


def quote_phrases(word: str) -> list[str]:
    """Put a word into FTS5's quotes, whatever is in it; a run of unspaced letters becomes its pairs of letters.

    A "*" behind it looks for words that begin so.
    """
    word = word.replace("\0", " ").encode("utf-8", "replace").decode()
    runs = [] if word.isascii() else _UNSPACED_RUN.findall(word)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = _UNSPACED_RUN.sub(" ", word) if runs else word
    ahead = "*" * (len(word) > 1 and word.endswith("*"))
    return [f'"{_space_out(part).replace(chr(34), chr(34) * 2)}"{ahead}' for part in [*pairs, rest] if part.strip()]


@contextlib.contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Put the errors of SQLite and of the system into words. Raises StoreError."""
    try:
        yield
    except _DAMAGE_ERRORS as error:
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
    connection = _connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(_BUSY_MS)
        if renew or not _has_current_schema(connection):
            _reset(connection)
        connection.execute("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON")  # forgotten is forgotten
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(path: Path) -> apsw.Connection:
    """Open the index on a read-only disk: with its write-ahead log, or without the latest changes where that cannot be read.

    Raises apsw.Error, OSError, and StoreDamaged when it is no index of this version.
    """
    check_regular(path, path.stat().st_mode)
    for how in ("mode=ro", "mode=ro&immutable=1"):
        connection = _connect(f"{path.absolute().as_uri()}?{how}", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        with contextlib.suppress(apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
            if _has_current_schema(connection):
                return connection
        connection.close()
    raise StoreDamaged("it cannot be read without being written")


def is_unfilled(path: Path) -> bool:
    """Whether a first start was cut off before it had made the tables: the next one makes them."""
    check_regular(path, path.stat().st_mode)
    with contextlib.suppress(*_DAMAGE_ERRORS), contextlib.closing(_connect(str(path), apsw.SQLITE_OPEN_READONLY)) as it:
        return (
            it.execute("SELECT 1 FROM sqlite_schema UNION SELECT 1 FROM pragma_user_version WHERE user_version").get
            is None
        )
    return False


def _connect(name: str, flags: int) -> apsw.Connection:
    connection = apsw.Connection(name, flags=flags)
    connection.create_scalar_function("spaced", _space_out, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)
    return connection


def _has_current_schema(connection: apsw.Connection) -> bool:
    try:
        names = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        marks = [connection.execute(f"PRAGMA {mark}").get for mark in ("application_id", "user_version")]
    except _DAMAGE_ERRORS:
        return False
    return names >= _SCHEMA_NAMES and marks == [_APPLICATION_ID, _VERSION]


def _reset(connection: apsw.Connection) -> None:
    """Empty the file and make the tables."""
    try:
        is_empty = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None
    except _DAMAGE_ERRORS:
        is_empty = False
    if not is_empty:
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        try:
            connection.execute("VACUUM")
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    _begin_log(connection)
    with transact(connection):
        if not _has_current_schema(connection):  # another process may have been first
            connection.execute(_SCHEMA)


def _begin_log(connection: apsw.Connection) -> None:
    """Give the file a write-ahead log. SQLite does not wait by itself where two processes do that at once."""
    until = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _fetch(connection: apsw.Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(sql, values).fetchall()


def _read_model(connection: apsw.Connection) -> tuple[str, int]:
    """Whose vectors there are, and how long they are; '' and 0 before there were any."""
    found: dict[str, str] = dict(_fetch(connection, "SELECT key, value FROM meta"))
    return found.get("model", ""), int(found.get("dims", 0))


def _is_model(connection: apsw.Connection, name: str, dims: int) -> bool:
    """Whether the vectors are those of a model; `dims` is 0 where its length is not known yet."""
    known, length = _read_model(connection)
    return known == name and dims in {0, length}


def _count_vectors(connection: apsw.Connection) -> int:
    return sum(int(there).bit_count() for (there,) in connection.execute("SELECT there FROM vectors"))


# Cuts a text into pieces that are found one by one, where a reader would cut it. Pure.

MAX_HEADING_CHARS = 200
_HEADING = pattern(r" {0,3}(#{1,6})[ \t]+(?=\S)")
_FENCE = pattern(r" {0,3}(`{3,}|~{3,})")


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
    is_heading: bool


def split_chunks(text: str, most: int = 1000) -> list[Chunk]:
    """Cut a text into chunks of at most `most` characters, after half of that if it can be at a blank line.

    The last heading or blank line that fits is taken, or else the last line that fits. A line that is longer is cut
    itself, at a space if there is one. What is blank is in no chunk.
    """
    found: list[Chunk] = []
    held: list[LinePart] = []
    for part in iter_lines(text, most):
        while held and _measure_parts(held) + 1 + len(part.text) > most:
            cut = _find_cut([*held, part], most // 2)
            found += _make_chunk(held[:cut])
            held = _strip_blank(held[cut:])
        held = _strip_blank([*held, part])
    return found + _make_chunk(held)


def _measure_parts(parts: Sequence[LinePart]) -> int:
    return sum(len(part.text) for part in parts) + len(parts) - 1


def _find_cut(parts: Sequence[LinePart], least: int) -> int:
    """How many parts to take, all but the last at most."""

    def may_begin(part: LinePart) -> bool:
        return part.is_heading or not part.text.strip()

    size = _measure_parts(parts[:-1])
    for count in range(len(parts) - 1, 0, -1):
        if size < least:
            break
        if may_begin(parts[count]):
            return count
        size -= len(parts[count - 1].text) + 1
    count = len(parts) - 1
    while count > 1 and may_begin(parts[count - 1]):
        count -= 1  # a heading goes with what stands under it
    return count


def _strip_blank(parts: Iterable[LinePart]) -> list[LinePart]:
    return list(dropwhile(lambda part: not part.text.strip(), parts))


def _make_chunk(parts: Sequence[LinePart]) -> list[Chunk]:
    kept = _strip_blank(_strip_blank(parts)[::-1])[::-1]
    if not kept:
        return []
    return [Chunk(kept[0].line, kept[-1].line, kept[0].heading, "\n".join(part.text for part in kept))]


def iter_lines(text: str, most: int = 1000) -> Iterator[LinePart]:
    """Give a text's lines, those that are too long in several pieces, each with the heading it stands under."""
    titles: list[tuple[int, str]] = []
    heading = fence = ""
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        opening = None if fence else _HEADING.match(line)
        if opening:
            level = len(opening[1])
            title = line[opening.end() : opening.end() + MAX_HEADING_CHARS].strip().rstrip("#").rstrip()
            titles = [*((above, name) for above, name in titles if above < level), (level, title)]
            heading = " > ".join(name for _, name in titles if name)[-MAX_HEADING_CHARS:]
        start = 0
        while len(line) - start > most:
            space = line.rfind(" ", start + most // 2, start + most)
            end = space + 1 if space >= 0 else start + most
            yield LinePart(number, line[start:end], heading, bool(opening) and start == 0)
            start = end
        yield LinePart(number, line[start:], heading, bool(opening) and start == 0)


# Brings the index up to the files: all are looked at, those that changed are read, what differs is written.

_DAY_NOTE_PATH = pattern(r"memory/\d{6}/(\d{4})(\d\d)(\d\d)\.md")
_ISO_DAY = pattern(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_BATCH_FILES, _BATCH_CHARACTERS = 1000, 1_000_000  # in one transaction: fewer of them write less, and block longer
_INHERIT_DIVISOR = 3  # a chunk with one word in so many of an earlier one has taken its place


class SyncResult(NamedTuple):
    """What a look at the files came to. `chunks` counts those that were written; `problems` are for the owner.

    `embedded` counts the vectors that were made, `left` those still to make; `problem` is why they cannot be made.
    """

    files: int
    read: int
    renamed: int
    removed: int
    chunks: int
    problems: tuple[str, ...]
    embedded: int = 0
    left: int = 0
    problem: str = ""


class _IndexSync:
    """One look at the files. `opinions` is the file of boosts that follow the chunks."""

    def __init__(
        self, connection: apsw.Connection, files: MemoryFiles, progress: Progress, opinions: Path | None
    ) -> None:
        self.connection, self.files, self.progress, self.opinions = connection, files, progress, opinions
        self.read = self.renamed = self.removed = self.chunks = 0
        self._boosts: dict[str, float] = {}
        self._successors: dict[str, str] = {}

    def run(self) -> SyncResult:
        """Follow what was renamed, forget what is gone, read what is new. Raises apsw.Error, having lost nothing."""
        count, changed, gone = self._look()
        if gone:
            changed = self._rename(changed, gone)
            self._remove(gone)
        if changed and (name := self.connection.filename):
            check_reserve("the notes' index", Path(name).parent)
        if changed:
            self._update(changed)
        return SyncResult(count, self.read, self.renamed, self.removed, self.chunks, tuple(self.files.problems))

    def _look(self) -> tuple[int, list[str], dict[int, str]]:
        """Count the files, and tell which are new or changed, and which rows have none any more."""
        count, changed, seen = 0, [], set[int]()
        for folder, sources in self.files.folders():
            # one question for a folder, those below it left out, is faster than one for each file; 0 comes after /
            first, end = (f"{folder}/", f"{folder}0") if folder else ("", "\U0010ffff")
            rows = _fetch(
                self.connection,
                "SELECT id, path, mtime_ns, size, inode FROM files"
                " WHERE path >= ? AND path < ? AND NOT instr(substr(path, ?), '/')",
                *(first, end, len(first) + 1),
            )
            known = {row[1]: row for row in rows}
            for source in sources:
                count += 1
                row = known.get(source.path)
                if row:
                    seen.add(row[0])
                if not row or row[1:] != source:
                    changed.append(source.path)
        gone = {}
        if len(seen) < self.connection.execute("SELECT count(*) FROM files").get:
            unread = tuple(self.files.unread)
            kept = _fetch(self.connection, "SELECT id, path FROM files")
            left = ((file, path) for file, path in kept if file not in seen and not path.startswith(unread))
            gone = {file: path for file, path in left if self.files.source(path) is None}
        return count, sorted(changed), gone

    def _row(self, path: str) -> tuple[Any, ...] | None:
        sql = "SELECT id, mtime_ns, size, inode FROM files WHERE path = ?"
        return self.connection.execute(sql, (path,)).fetchone()

    def _rename(self, changed: Sequence[str], gone: dict[int, str]) -> list[str]:
        """Give what is gone the name under which it is there again; returns what is left of `changed`."""
        left = []
        with transact(self.connection):
            for path in changed:
                source = self.files.source(path)
                file = None
                if source and source.inode and self._row(path) is None:
                    found = _fetch(
                        self.connection,
                        "SELECT id, path FROM files WHERE inode = ? AND mtime_ns IN (?, ?) AND size = ?",
                        *(source.inode, source.mtime_ns, source.mtime_ns - 1, source.size),
                    )
                    file = next((int(number) for number, old in found if gone.get(number) == old), None)
                if file is None:
                    left.append(path)
                else:
                    self.connection.execute("UPDATE files SET path = ? WHERE id = ?", (path, file))
                    self.renamed += 1
                    del gone[file]
        return left

    def _remove(self, gone: Mapping[int, str]) -> None:
        files = sorted(gone)
        for first in range(0, len(files), _BATCH_FILES):
            with transact(self.connection):
                for file in files[first : first + _BATCH_FILES]:
                    row = self._row(gone[file])
                    if row and row[0] == file:  # or another process was faster
                        for (number,) in _fetch(self.connection, "SELECT id FROM chunks WHERE file = ?", file):
                            self._delete_chunk(number)
                        self.connection.execute("DELETE FROM files WHERE id = ?", (file,))
                        self.removed += 1

    def _update(self, changed: Sequence[str]) -> None:
        if self.opinions:
            with contextlib.suppress(OSError, StoreError):
                self._boosts = _read_boosts(self.opinions)
        done = 0
        while done < len(changed):
            first, size, contents = done, 0, list[FileContent]()
            while done < len(changed) and done - first < _BATCH_FILES and size < _BATCH_CHARACTERS:
                if content := self.files.read(changed[done]):
                    contents.append(content)
                    size += len(content.text)
                done += 1
            with transact(self.connection):
                for content in contents:
                    # what was read before another process wrote must not take the place of what that one has read
                    current = content if self.files.is_current(content) else self.files.read(content.source.path)
                    if current:
                        self._put(current)
                self._move_boosts()
            self.progress(done, len(changed))

    def _put(self, content: FileContent) -> None:
        """Make the rows of a file what it holds; another process may have done so already."""
        source, known = content.source, self._row(content.source.path)
        file = known[0] if known else None
        if known is None or known[1:] != source[1:]:
            self.read += 1
            file = self.connection.execute(
                "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " mtime_ns = excluded.mtime_ns, size = excluded.size, inode = excluded.inode,"
                " problem = excluded.problem RETURNING id",
                (file, *source, content.problem),
            ).get
        wanted = split_chunks(content.text if source.path in self.files.documents else blank_comments(content.text))
        if day := content.day or find_note_day(source.path, ""):
            wanted = [
                chunk if day in chunk.heading else chunk._replace(heading=f"{day} > {chunk.heading}".strip(" >"))
                for chunk in wanted
            ]
        self._put_chunks(file, wanted)

    def _put_chunks(self, file: Any, wanted: Iterable[Chunk]) -> None:
        """Leave chunks as they are whose text is the same; the others' ids go to the new ones, in their order."""
        old: dict[bytes, list[tuple[int, int, int]]] = {}
        sql = 'SELECT id, sha, start, "end" FROM chunks WHERE file = ? ORDER BY id'
        for number, key, start, end in _fetch(self.connection, sql, file):
            old.setdefault(key, []).append((number, start, end))
        new = []
        for chunk in wanted:
            same = old.get(_hash_chunk(chunk.heading, chunk.text))
            if not same:
                new.append(chunk)
                continue
            number, *lines = same.pop(0)
            if lines != [chunk.start, chunk.end]:
                sql = 'UPDATE chunks SET start = ?, "end" = ? WHERE id = ?'
                self.connection.execute(sql, (chunk.start, chunk.end, number))
        spare = sorted(number for rest in old.values() for number, _, _ in rest)
        if new and self._boosts:
            self._find_successors(new, spare)
        for number in spare[len(new) :]:
            self._delete_chunk(number)
        for chunk, reused in zip(new, [*spare, *[None] * len(new)], strict=False):
            if reused is not None:
                self._delete_words(reused)
            key = _hash_chunk(chunk.heading, chunk.text)
            number = self.connection.execute(
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET start = excluded.start,"
                ' "end" = excluded."end", sha = excluded.sha, heading = excluded.heading, text = excluded.text'
                " RETURNING id",
                (reused, file, chunk.start, chunk.end, key, chunk.heading, chunk.text),
            ).get
            sql = "INSERT INTO words (rowid, text, heading) SELECT * FROM spaced_chunks WHERE id = ?"
            self.connection.execute(sql, (number,))
        self.chunks += len(new)

    def _delete_chunk(self, number: int) -> None:
        self._delete_words(number)
        self.connection.execute("DELETE FROM chunks WHERE id = ?", (number,))

    def _delete_words(self, number: int) -> None:
        """Take a chunk's words and vector away, while its text is still there."""
        sql = "INSERT INTO words (words, rowid, text, heading) SELECT 'delete', * FROM spaced_chunks WHERE id = ?"
        self.connection.execute(sql, (number,))
        block, slot = divmod(number, SLOTS_PER_BLOCK)
        sql = "UPDATE vectors SET there = there & ~(1 << ?1) WHERE block = ?2 AND there & (1 << ?1)"
        self.connection.execute(sql, (slot, block))

    def _find_successors(self, new: Sequence[Chunk], spare: Iterable[int]) -> None:
        """Note for the chunks that go and have a boost which of the new ones has most of their words."""
        for number in spare:
            sql = "SELECT sha, text FROM chunks WHERE id = ?"
            key, text = self.connection.execute(sql, (number,)).get
            if self._boosts.get(key.hex()):
                had = {*text.split()}
                successor = max(new, key=lambda chunk: len(had.intersection(chunk.text.split())))
                if len(had.intersection(successor.text.split())) * _INHERIT_DIVISOR >= len(had):
                    self._successors[key.hex()] = _hash_chunk(successor.heading, successor.text).hex()

    def _move_boosts(self) -> None:
        """Give the boosts of chunks that have changed to their successors, before it is known for good that they have.

        A chunk whose text still stands somewhere keeps its own. Where the file cannot be read or written, the boosts
        stay as they are: notes are found without them as well.
        """
        if self._successors and self.opinions:
            with contextlib.suppress(OSError, StoreError):
                boosts = _read_boosts(self.opinions)
                successors = {old: new for old, new in self._successors.items() if boosts.get(old)}
                sql = "SELECT 1 FROM chunks WHERE sha = ? LIMIT 1"
                gone = {key for key in successors if self.connection.execute(sql, (bytes.fromhex(key),)).get is None}
                left = {key: boost for key, boost in boosts.items() if key not in gone}
                if successors:
                    _write_boosts(self.opinions, {**{new: boosts[old] for old, new in successors.items()}, **left})
        self._successors = {}


def find_note_day(path: str, heading: str) -> str:
    """Tell the day that a chunk is about, '' when neither its file's name nor its heading says it."""
    for found in (_DAY_NOTE_PATH.fullmatch(path), *reversed([*_ISO_DAY.finditer(heading)])):
        if found:
            with contextlib.suppress(ValueError):
                return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    return ""


def _hash_chunk(heading: str, text: str) -> bytes:
    """Half a SHA-256 of what is searched in a chunk."""
    import hashlib

    return hashlib.sha256(f"{heading}\0{text}".encode()).digest()[:16]


_MAX_MATCH_WORDS = 100  # of a question; more of them would take long and find everything


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
    """The index of one workspace. Every method raises StoreError when the file cannot be used; damage is repaired."""

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

        Without `kept` it is in this process's memory and not in its file. `frozen`: the existing file, read-only.
        """
        self._path, self._workspace, self._documents = path, workspace, documents
        self._kept, self.frozen = kept and not frozen, frozen
        self._feedback = path.with_name(f"{path.stem}-feedback.json")
        self._connection: apsw.Connection | None = None
        self._file: tuple[Any, ...] = ()
        self._openings = 0
        self._boosts_stamp: tuple[Any, ...] = ()
        self._boosts: dict[str, float] = {}
        self._handed: dict[int, bytes] = {}

    def close(self) -> None:
        """Let go of the file; may be called twice, and the index be used again."""
        with explain_errors(self._path):
            if self._connection:
                self._connection.close()
            self._connection = None

    def sync(self, progress: Progress = ignore_progress) -> SyncResult:
        """Bring the index up to the files; `progress` is told how many of those that changed are done."""
        return self._run(lambda connection: self._sync_files(connection, progress), fill=False)

    def match(self, words: Iterable[str], most: int) -> list[tuple[int, float]]:
        """Find the chunks that have any of the words, with how well they fit, the best first."""
        phrases = list(dict.fromkeys(phrase for word in words for phrase in quote_phrases(word)))[:_MAX_MATCH_WORDS]
        if not phrases:
            return []
        sql = "SELECT rowid, bm25(words) AS worth FROM words WHERE words MATCH ? ORDER BY worth LIMIT ?"
        return [(number, -worth) for number, worth in self._select(sql, " OR ".join(phrases), most)]

    def document_frequencies(self, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]:
        """Count the chunks, and those in which `match` would find any of the forms of each word."""

        def count(connection: apsw.Connection) -> tuple[int, dict[str, int]]:
            total = int(connection.execute("SELECT count(*) FROM chunks").get)
            phrases = {
                word: [phrase for form in forms for phrase in quote_phrases(form)] for word, forms in words.items()
            }
            asked = {word: " OR ".join(found[:_MAX_MATCH_WORDS]) for word, found in phrases.items()}
            sql = "SELECT count(*) FROM words WHERE words MATCH ?"
            return total, {word: int(connection.execute(sql, (q,)).get) if q else 0 for word, q in asked.items()}

        return self._run(count)

    def rows(self, ids: Iterable[int]) -> list[MemoryRow]:
        """Return chunks in the order of their ids as given; those that are not there any more are left out."""
        ids = list(ids)
        if not ids:
            return []
        with contextlib.suppress(OSError):  # notes are found without opinions as well
            stamp = _stat(self._feedback, "st_mtime_ns", "st_size", "st_ino")
            if stamp != self._boosts_stamp:
                try:
                    self._boosts = _read_boosts(self._feedback)
                except StoreError:
                    self._boosts = {}
                self._boosts_stamp = stamp

        def read(connection: apsw.Connection) -> dict[int, MemoryRow]:
            found = {}
            sql = (
                'SELECT chunks.id, path, start, "end", heading, text, sha FROM chunks JOIN files ON files.id = file'
                " WHERE chunks.id IN (SELECT value FROM json_each(?))"
            )
            for number, path, start, end, heading, text, key in _fetch(connection, sql, str(ids)):
                if key != _hash_chunk(heading, text):
                    raise StoreDamaged(f"chunk {number} is not what was written")
                boost = self._boosts.get(key.hex(), 0.0)
                found[number] = MemoryRow(number, path, start, end, heading, text, find_note_day(path, heading), boost)
            return found

        found = self._run(read)
        return [found[number] for number in ids if number in found]

    def paths(self) -> dict[int, str]:
        """Tell of which file each chunk is."""
        return dict(self._select("SELECT chunks.id, path FROM chunks JOIN files ON files.id = file"))

    def feedback(self, number: int, step: float) -> None:
        """Raise or lower the boost of a chunk, by its id; it is kept for its text, whatever becomes of the index."""

        def keep(connection: apsw.Connection) -> None:
            with transact(connection):  # it holds other processes off the file as well
                key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
                if key is None:
                    raise StoreError(f"nothing that is remembered has the id {number}; search again")
                try:
                    boosts = _read_boosts(self._feedback)
                except StoreError:
                    set_aside(self._feedback, time.strftime("%Y%m%d-%H%M%S"))
                    boosts = {}
                value = max(-1.0, min(1.0, boosts.get(key.hex(), 0.0) + step))
                _write_boosts(self._feedback, {**boosts, key.hex(): round(value, 6)})

        self._run(keep)

    def unembedded(self, model: str, most: int, dims: int = 0, after: int = 0) -> list[tuple[int, str]]:
        """Return chunks, from an id on, that have no vector of this model, of this length if that is known."""
        sql = (
            "SELECT chunks.id, text, sha FROM chunks LEFT JOIN vectors ON block = chunks.id / ?1"
            " WHERE chunks.id > ?4 AND (NOT ?2 OR there IS NULL OR NOT there & (1 << (chunks.id % ?1)))"
            " ORDER BY chunks.id LIMIT ?3"
        )

        def select(connection: apsw.Connection) -> list[tuple[Any, ...]]:
            values = (SLOTS_PER_BLOCK, _is_model(connection, model, dims), most, after)
            return _fetch(connection, sql, *values)

        rows = self._run(select)
        self._handed = {number: key for number, _, key in rows}
        return [(number, text) for number, text, _ in rows]

    def count_unembedded(self, model: str, dims: int = 0) -> int:
        def count(connection: apsw.Connection) -> int:
            chunks = int(connection.execute("SELECT count(*) FROM chunks").get)
            return chunks - _count_vectors(connection) if _is_model(connection, model, dims) else chunks

        return self._run(count)

    def keep_vectors(self, model: str, dims: int, rows: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of chunks, `dims` signed bytes each; those of another model go.

        A chunk whose text has changed since `unembedded` gave it gets none.
        """
        rows = sorted(rows)
        if wrong := next((row for _, row in rows if len(row) != dims), None):
            raise ValueError(f"a vector has {len(wrong)} bytes instead of {dims}")

        def is_unchanged(connection: apsw.Connection, number: int) -> bool:
            key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
            return key is not None and bool(self._handed.get(number, key) == key)

        def keep(connection: apsw.Connection) -> None:
            with transact(connection):
                if _read_model(connection) != (model, dims):
                    connection.execute("DELETE FROM vectors")
                    pairs = (("model", model), ("dims", str(dims)))
                    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", pairs)
                fresh = [row for row in rows if is_unchanged(connection, row[0])]
                for block, some in groupby(fresh, lambda row: row[0] // SLOTS_PER_BLOCK):
                    sql = "SELECT there, rows FROM vectors WHERE block = ?"
                    there, held = connection.execute(sql, (block,)).get or (0, bytes(SLOTS_PER_BLOCK * dims))
                    new = bytearray(held)
                    for number, row in some:
                        slot = number % SLOTS_PER_BLOCK
                        there |= 1 << slot
                        new[slot * dims : (slot + 1) * dims] = row
                    sql = (
                        "INSERT INTO vectors VALUES (?, ?, ?)"
                        " ON CONFLICT (block) DO UPDATE SET there = excluded.there, rows = excluded.rows"
                    )
                    connection.execute(sql, (block, there, bytes(new)))

        self._run(keep)

    def vectors(self, most: int = 34) -> Iterator[list[tuple[int, int, bytes]]]:
        """Give the rows of the vectors' table, `most` at a time: the row's number, its mask, its vectors."""
        sql = "SELECT block, there, rows FROM vectors WHERE block > ? ORDER BY block LIMIT ?"
        last = -1
        while found := self._select(sql, last, most):
            last = found[-1][0]
            yield found

    def chunks_of(self, path: str) -> list[tuple[Chunk, bytes | None]]:
        """Return the chunks of a file as they are indexed, each with its vector if it has one."""

        def read(connection: apsw.Connection) -> list[tuple[Chunk, bytes | None]]:
            dims = _read_model(connection)[1]
            rows = _fetch(
                connection,
                'SELECT chunks.id, start, "end", heading, text, there, rows FROM chunks JOIN files ON files.id = file'
                " LEFT JOIN vectors ON block = chunks.id / ? WHERE path = ? ORDER BY start, chunks.id",
                *(SLOTS_PER_BLOCK, path),
            )
            found = []
            for number, start, end, heading, text, there, held in rows:
                slot = number % SLOTS_PER_BLOCK
                has_vector = there and there & (1 << slot) and len(held) == SLOTS_PER_BLOCK * dims
                vector = held[slot * dims : (slot + 1) * dims] if has_vector else None
                found.append((Chunk(start, end, heading, text), vector))
            return found

        return self._run(read)

    def model(self) -> tuple[str, int]:
        """Say whose vectors there are, and how long they are; '' and 0 before there were any."""
        return self._run(_read_model)

    def version(self) -> tuple[int, ...]:
        """Give numbers that change whenever this process or another one has written to the index."""

        def read(connection: apsw.Connection) -> tuple[int, ...]:
            return self._openings, connection.total_changes(), int(connection.execute("PRAGMA data_version").get)

        return self._run(read)

    def purge(self) -> None:
        """Bring the index up to the files, and leave nothing of what has gone in its own."""
        self.sync()
        self._select("PRAGMA wal_checkpoint(TRUNCATE)")

    def stats(self) -> dict[str, int]:
        """Count what is in the index, and its bytes against those of the notes."""

        def count(connection: apsw.Connection) -> dict[str, int]:
            files, size = connection.execute("SELECT count(*), coalesce(sum(size), 0) FROM files").get
            chunks = connection.execute("SELECT count(*) FROM chunks").get
            pages = connection.execute("PRAGMA page_count").get * connection.execute("PRAGMA page_size").get
            embedded = _count_vectors(connection)
            return {"files": files, "bytes": size, "chunks": chunks, "vectors": embedded, "index_bytes": pages}

        return self._run(count)

    def check(self) -> list[str]:
        """Look through the whole index and the files: what is damaged is built again; returns what was wrong."""

        def check_integrity(connection: apsw.Connection) -> None:
            """SQLite's own look at the pages, and a comparison of the words with the texts."""
            if (found := connection.execute("PRAGMA integrity_check(1)").get) != "ok":
                raise StoreDamaged(str(found))
            connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")

        found = list(self.sync().problems)
        try:
            self._run(check_integrity, repair=False)
        except StoreDamaged as error:
            self._rebuild()
            found.append(f"{error}; it has been built again")
        sql = "SELECT path, problem FROM files WHERE problem <> '' ORDER BY path"
        lines = [f"{path}: {problem}" for path, problem in self._select(sql)]
        return found + [line for line in lines if line not in found]

    def _select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._run(lambda connection: _fetch(connection, sql, *values))

    def _run(self, work: Callable[[apsw.Connection], _T], *, fill: bool = True, repair: bool = True) -> _T:
        """Do something with the index, to `repair` after building it again if it is not there or damaged."""
        try:
            with explain_errors(self._path):
                try:
                    return work(self._open(fill=fill))
                except apsw.SQLError as error:
                    if self._connection and _has_current_schema(self._connection):
                        raise
                    raise StoreDamaged(str(error)) from None  # a table is gone
        except StoreDamaged:
            if not repair:
                raise
            self._rebuild()
            return self._run(work, fill=fill, repair=False)

    def _open(self, *, fill: bool = True) -> apsw.Connection:
        identity = "st_dev", "st_ino"  # nobody has the file that was deleted
        if self._connection is None or (self._kept and self._file != _stat(self._path, *identity)):
            self.close()
            if self.frozen:
                self._connection = open_read_only(self._path)
            elif self._kept:
                self._connection = open_index(self._path)
                self._file = _stat(self._path, *identity)
            else:
                self._connection = _connect(":memory:", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
                self._connection.execute(_SCHEMA)
            self._openings += 1
        if fill and not self.frozen and self._connection.execute("SELECT 1 FROM files LIMIT 1").get is None:
            self._sync_files(self._connection, ignore_progress)
        return self._connection

    def _rebuild(self) -> None:
        self.close()
        with explain_errors(self._path):
            if self._kept:
                open_index(self._path, renew=True).close()

    def _sync_files(self, connection: apsw.Connection, progress: Progress) -> SyncResult:
        files = MemoryFiles(self._workspace, self._documents())
        return _IndexSync(connection, files, progress, self._feedback if self._kept else None).run()
