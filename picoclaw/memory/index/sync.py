"""Brings the index up to the files: all are looked at, those that changed are read, what differs is written."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from picoclaw.disk import spare
from picoclaw.errors import StoreDamaged
from picoclaw.markdown import blanked
from picoclaw.memory.index import feedback, vectors
from picoclaw.memory.index.chunk import Chunk, chunks
from picoclaw.memory.index.files import Content, Files, Source
from picoclaw.memory.index.tables import rows, transaction

Progress = Callable[[int, int], None]

_NOTE = re.compile(r"memory/\d{6}/(\d{4})(\d\d)(\d\d)\.md")
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_BATCH_FILES, _BATCH_CHARACTERS = 1000, 1_000_000  # in one transaction: fewer of them write less, and block longer
_ALIKE = 3  # a chunk with one word in so many of an earlier one has taken its place
_LARGEST_ID = 10_000_000  # numbers of files are taken again; a larger one is damage


class Synced(NamedTuple):
    """What a look at the files came to. `chunks` counts those that were written; `problems` are for the owner."""

    files: int
    read: int
    renamed: int
    removed: int
    chunks: int
    problems: tuple[str, ...]


@dataclass(slots=True)
class Sync:
    """One look at the files."""

    connection: apsw.Connection
    files: Files
    progress: Progress
    opinions: Path | None = None  # the file of feedback.py that follows the chunks
    read: int = 0
    renamed: int = 0
    removed: int = 0
    chunks: int = 0
    _boosts: Mapping[str, float] = field(default_factory=dict)
    _heirs: dict[str, str] = field(default_factory=dict)

    def run(self) -> Synced:
        """Follow what was renamed, forget what is gone, read what is new. Raises apsw.Error, having lost nothing."""
        count, changed, gone = self._look()
        if gone:
            changed, gone = self._rename(changed, gone)
            self._remove(gone)
        if changed and (name := self.connection.filename):
            spare("the notes' index", Path(name).parent)
        self._update(changed)
        return Synced(count, self.read, self.renamed, self.removed, self.chunks, tuple(self.files.problems))

    def _look(self) -> tuple[int, list[str], dict[int, str]]:
        """Count the files, and tell which are new or changed, and which rows have none any more."""
        last = self.connection.execute("SELECT coalesce(max(id), 0) FROM files").get
        if last > _LARGEST_ID:
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
        return {row[1]: row for row in rows(self.connection, sql, (first, end, len(first) + 1))}

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

    def _same(self, source: Source, gone: dict[int, str]) -> int | None:
        sql = "SELECT id, path FROM files WHERE inode = ? AND mtime_ns IN (?, ?) AND size = ?"
        found = rows(self.connection, sql, (source.inode, source.mtime_ns, source.mtime_ns - 1, source.size))
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
        found = rows(self.connection, "SELECT id FROM chunks WHERE file = ?", (file,))
        _forget(self.connection, [number for (number,) in found])
        self.connection.execute("DELETE FROM files WHERE id = ?", (file,))
        self.removed += 1

    def _update(self, changed: Sequence[str]) -> None:
        done = 0
        if changed and self.opinions:
            with contextlib.suppress(OSError):
                self._boosts = feedback.load(self.opinions)
        for contents, taken in self._batches(changed):
            with transaction(self.connection):
                for content in contents:
                    self._put(content)
                self._carry()
            done += taken
            self.progress(done, len(changed))

    def _batches(self, changed: Sequence[str]) -> Iterator[tuple[list[Content], int]]:
        """Read files, as many at once as memory bears; with how many were tried."""
        contents: list[Content] = []
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

    def _put(self, content: Content) -> None:
        """Make the rows of a file what it holds; another process may have done so already."""
        source, known = content.source, self._row(content.source.path)
        file = known[0] if known else None
        if known is None or known[1:] != source[1:]:
            self.read += 1
            ((file,),) = rows(
                self.connection,
                "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " mtime_ns = excluded.mtime_ns, size = excluded.size, inode = excluded.inode,"
                " problem = excluded.problem RETURNING id",
                (file, *source, content.problem),
            )
        wanted = chunks(content.text if source.path in self.files.documents else blanked(content.text))
        if day := content.day or day_of(source.path, ""):
            wanted = [chunk if day in chunk.heading else _dated(chunk, day) for chunk in wanted]
        self._put_chunks(file, wanted)

    def _put_chunks(self, file: Any, wanted: Sequence[Chunk]) -> None:
        """Leave chunks as they are whose text is the same; the others' ids go to the new ones, in their order."""
        new, spare = self._matched(file, wanted)
        if new and spare and self._boosts:
            self._inherit(new, spare)
        _forget(self.connection, spare[len(new) :])
        for chunk, old in zip(new, [*spare, *[None] * len(new)], strict=False):
            if old is not None:
                _unword(self.connection, old)
            ((number,),) = rows(
                self.connection,
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET start = excluded.start,"
                ' "end" = excluded."end", sha = excluded.sha, heading = excluded.heading, text = excluded.text'
                " RETURNING id",
                (old, file, chunk.start, chunk.end, sha(chunk.heading, chunk.text), chunk.heading, chunk.text),
            )
            self.connection.execute(
                "INSERT INTO words (rowid, text, heading) SELECT * FROM spaced_chunks WHERE id = ?", (number,)
            )
        self.chunks += len(new)

    def _inherit(self, new: Sequence[Chunk], spare: Sequence[int]) -> None:
        """Note for the chunks that go and have an opinion which of the new ones has most of their words."""
        for number in spare:
            ((key, text),) = rows(self.connection, "SELECT sha, text FROM chunks WHERE id = ?", (number,))
            if not self._boosts.get(key.hex()):
                continue
            had = {*text.split()}
            heir = max(new, key=lambda chunk: len(had.intersection(chunk.text.split())))
            if len(had.intersection(heir.text.split())) * _ALIKE >= len(had):
                self._heirs[key.hex()] = sha(heir.heading, heir.text).hex()

    def _carry(self) -> None:
        """Keep the opinions of chunks that have changed, before it is known for good that they have."""
        if self._heirs and self.opinions:
            sql = "SELECT 1 FROM chunks WHERE sha = ? LIMIT 1"
            staying = [key for key in self._heirs if rows(self.connection, sql, (bytes.fromhex(key),))]
            feedback.carry(self.opinions, self._heirs, staying)
        self._heirs = {}

    def _matched(self, file: int, wanted: Sequence[Chunk]) -> tuple[list[Chunk], list[int]]:
        """Find the chunks that are new, and the ids whose text is not there any more."""
        found = rows(self.connection, 'SELECT id, sha, start, "end" FROM chunks WHERE file = ? ORDER BY id', (file,))
        old: dict[bytes, list[tuple[int, int, int]]] = {}
        for number, key, start, end in found:
            old.setdefault(key, []).append((number, start, end))
        new = []
        for chunk in wanted:
            same = old.get(sha(chunk.heading, chunk.text))
            if not same:
                new.append(chunk)
                continue
            number, *lines = same.pop(0)
            if lines != [chunk.start, chunk.end]:
                sql = 'UPDATE chunks SET start = ?, "end" = ? WHERE id = ?'
                self.connection.execute(sql, (chunk.start, chunk.end, number))
        return new, sorted(number for rest in old.values() for number, _, _ in rest)


def day_of(path: str, heading: str) -> str:
    """Tell the day that a chunk is about, '' when neither its file's name nor its heading says it."""
    for found in (_NOTE.fullmatch(path), *reversed([*_DAY.finditer(heading)])):
        if found:
            with contextlib.suppress(ValueError):
                return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    return ""


def _dated(chunk: Chunk, day: str) -> Chunk:
    return chunk._replace(heading=f"{day} > {chunk.heading}".strip(" >"))


def sha(heading: str, text: str) -> bytes:
    """Half a SHA-256 of what is searched in a chunk."""
    import hashlib

    return hashlib.sha256(f"{heading}\0{text}".encode()).digest()[:16]


def _forget(connection: apsw.Connection, ids: Iterable[int]) -> None:
    for number in ids:
        _unword(connection, number)
        connection.execute("DELETE FROM chunks WHERE id = ?", (number,))


def _unword(connection: apsw.Connection, number: int) -> None:
    """Take a chunk's words and vector away, while its text is still there."""
    connection.execute(
        "INSERT INTO words (words, rowid, text, heading) SELECT 'delete', * FROM spaced_chunks WHERE id = ?", (number,)
    )
    vectors.drop(connection, number)
