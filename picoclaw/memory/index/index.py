"""The index of what is remembered: an SQLite file that can be thrown away, and is built again from the notes."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.memory.index import feedback, tables, vectors
from picoclaw.memory.index.files import Document, Files, Source
from picoclaw.memory.index.sync import Progress, Sync, Synced, day_of, sha

__all__ = ["Index", "Row", "Source", "Synced"]

MOST_WORDS = 100
"""Of a question; what is more would take long and find everything."""


_T = TypeVar("_T")


def _no_progress(done: int, total: int) -> None:
    """Nobody is looking."""


class Row(NamedTuple):
    """A chunk as it is shown; `day` is that of its note or of a date in its heading, `boost` the owner's opinion."""

    id: int
    path: str
    start: int
    end: int
    heading: str
    text: str
    day: str
    boost: float


class Index:
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
        with tables.explained(self._path):
            if self._connection:
                self._connection.close()
            self._connection = None

    def sync(self, progress: Progress = _no_progress) -> Synced:
        """Bring the index up to the files; `progress` is told how many of those that changed are done."""
        return self._asked(lambda connection: self._synced(connection, progress), fill=False)

    def match(self, words: Sequence[str], most: int) -> list[tuple[int, float]]:
        """Find the chunks that have any of the words, with how well they fit, the best first."""
        phrases = list(dict.fromkeys(phrase for word in words for phrase in tables.phrases(word)))[:MOST_WORDS]
        if not phrases:
            return []
        sql = "SELECT rowid, bm25(words) AS worth FROM words WHERE words MATCH ? ORDER BY worth LIMIT ?"
        found = self._asked(lambda connection: tables.rows(connection, sql, (" OR ".join(phrases), most)))
        return [(number, -worth) for number, worth in found]

    def document_frequencies(self, words: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Count the chunks, and those in which `match` would find each of the words."""
        sql = "SELECT count(*) FROM words WHERE words MATCH ?"

        def counted(connection: apsw.Connection) -> tuple[int, dict[str, int]]:
            total = int(connection.execute("SELECT count(*) FROM chunks").get)
            asked = {word: " OR ".join(tables.phrases(word)[:MOST_WORDS]) for word in dict.fromkeys(words)}
            return total, {word: int(connection.execute(sql, (q,)).get) if q else 0 for word, q in asked.items()}

        return self._asked(counted)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return chunks in the order of their ids as given; those that are not there any more are left out."""
        sql = (
            'SELECT chunks.id, path, start, "end", heading, text, sha FROM chunks JOIN files ON files.id = file'
            " WHERE chunks.id IN (SELECT value FROM json_each(?))"
        )
        if not ids:
            return []
        boosts = self._boosts()

        def read(connection: apsw.Connection) -> dict[int, Row]:
            return {found[0]: _row(found, boosts) for found in tables.rows(connection, sql, (str([*ids]),))}

        found = self._asked(read)
        return [found[number] for number in ids if number in found]

    def feedback(self, number: int, step: float) -> None:
        """Raise or lower the boost of a chunk, by its id; it is kept for its text, whatever becomes of the index."""

        def kept(connection: apsw.Connection) -> None:
            with tables.transaction(connection):  # it holds other processes off the file as well
                key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
                if key is None:
                    raise StoreError(f"nothing that is remembered has the id {number}; search again")
                feedback.keep(self._feedback, feedback.rescued(self._feedback), key.hex(), step)

        self._asked(kept)

    def unembedded(self, model: str, most: int, dims: int = 0, after: int = 0) -> list[tuple[int, str]]:
        """Return chunks, from an id on, that have no vector of this model, of this length if that is known."""
        rows = self._asked(lambda connection: vectors.missing(connection, (model, dims), after, most))
        self._handed = {number: key for number, _, key in rows}
        return [(number, text) for number, text, _ in rows]

    def lacking(self, model: str, dims: int = 0) -> int:
        """Count the chunks that have no vector of this model."""
        return self._asked(lambda connection: vectors.lacking(connection, (model, dims)))

    def keep_vectors(self, model: str, dims: int, rows: Sequence[tuple[int, bytes, float]]) -> None:
        """Keep the vectors of chunks, `dims` signed bytes each; those of another model go.

        A chunk whose text has changed since `unembedded` gave it gets none. What a vector's bytes are to be multiplied
        by is not kept: their directions are what is compared.
        """
        if wrong := next((row for _, row, _ in rows if len(row) != dims), None):
            raise ValueError(f"a vector has {len(wrong)} bytes instead of {dims}")

        def kept(connection: apsw.Connection) -> None:
            with tables.transaction(connection):
                fresh = [(number, row) for number, row, _ in rows if self._unchanged(connection, number)]
                vectors.keep(connection, model, dims, fresh)

        self._asked(kept)

    def _unchanged(self, connection: apsw.Connection, number: int) -> bool:
        key = connection.execute("SELECT sha FROM chunks WHERE id = ?", (number,)).get
        return key is not None and bool(self._handed.get(number, key) == key)

    def vectors(self, most: int = 34) -> Iterator[list[tuple[int, int, bytes]]]:
        """Give the rows of vectors.py's table, `most` at a time: the row's number, its mask, its vectors."""
        last = -1
        while found := self._asked(partial(vectors.blocks, after=last, most=most)):
            last = found[-1][0]
            yield found

    def model(self) -> tuple[str, int]:
        """Say whose vectors there are, and how long they are; '' and 0 before there were any."""
        return self._asked(vectors.model_of)

    def version(self) -> tuple[int, ...]:
        """Give numbers that change whenever this process or another one has written to the index."""

        def counted(connection: apsw.Connection) -> tuple[int, ...]:
            return self._openings, connection.total_changes(), int(connection.execute("PRAGMA data_version").get)

        return self._asked(counted)

    def purge(self) -> None:
        """Bring the index up to the files, and leave nothing of what has gone in its own."""
        self.sync()
        self._asked(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def stats(self) -> dict[str, int]:
        """Count what is in the index, and its bytes against those of the notes."""

        def counted(connection: apsw.Connection) -> dict[str, int]:
            ((files, size),) = tables.rows(connection, "SELECT count(*), coalesce(sum(size), 0) FROM files")
            chunks = connection.execute("SELECT count(*) FROM chunks").get
            pages = connection.execute("PRAGMA page_count").get * connection.execute("PRAGMA page_size").get
            embedded = vectors.count(connection)
            return {"files": files, "bytes": size, "chunks": chunks, "vectors": embedded, "index_bytes": pages}

        return self._asked(counted)

    def check(self) -> list[str]:
        """Look through the whole index and the files: what is damaged is built again; returns what was wrong."""
        found = list(self.sync().problems)
        try:
            self._tried(_examine)
        except StoreDamaged as error:
            self._renew()
            found.append(f"{error}; it has been built again")
        left_out = self._asked(_left_out)
        return found + [line for line in left_out if line not in found]

    # --- the file ---

    def _asked(self, work: Callable[[apsw.Connection], _T], *, fill: bool = True) -> _T:
        """Do something with the index, after building it again if it is not there or turns out to be damaged."""
        try:
            return self._tried(work, fill=fill)
        except StoreDamaged:
            self._renew()
            return self._tried(work, fill=fill)

    def _tried(self, work: Callable[[apsw.Connection], _T], *, fill: bool = True) -> _T:
        with tables.explained(self._path):
            try:
                return work(self._opened(fill=fill))
            except apsw.SQLError as error:
                if self._connection and tables.right(self._connection):
                    raise
                raise StoreDamaged(str(error)) from None  # a table is gone

    def _opened(self, *, fill: bool = True) -> apsw.Connection:
        if self._connection is None or (self._kept and self._file != _identity(self._path)):
            self.close()
            self._connection = self._connected()
            self._openings += 1
            self._file = _identity(self._path) if self._kept else (0, 0)
        if fill and not self.frozen and self._connection.execute("SELECT 1 FROM files LIMIT 1").get is None:
            self._synced(self._connection)
        return self._connection

    def _connected(self) -> apsw.Connection:
        if self.frozen:
            return tables.frozen(self._path)
        return tables.connected(self._path) if self._kept else tables.unwritten()

    def _renew(self) -> None:
        self.close()
        with tables.explained(self._path):
            if self._kept:
                tables.connected(self._path, renew=True).close()

    def _synced(self, connection: apsw.Connection, progress: Progress = _no_progress) -> Synced:
        opinions = self._feedback if self._kept else None
        return Sync(connection, Files.of(self._workspace, self._documents()), progress, opinions).run()

    def _boosts(self) -> dict[str, float]:
        with contextlib.suppress(OSError):  # notes are found without opinions as well
            changed = feedback.stamp(self._feedback)
            if changed != self._opinions[0]:
                self._opinions = changed, feedback.load(self._feedback)
        return self._opinions[1]


def _identity(path: Path) -> tuple[int, int]:
    """Tell one file of a name from the next; nobody has the one that was deleted."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return -1, -1
    return about.st_dev, about.st_ino


def _row(found: Sequence[Any], boosts: Mapping[str, float]) -> Row:
    number, path, start, end, heading, text, key = found
    if key != sha(heading, text):
        raise StoreDamaged(f"chunk {number} is not what was written")
    return Row(number, path, start, end, heading, text, day_of(path, heading), boosts.get(key.hex(), 0.0))


def _examine(connection: apsw.Connection) -> None:
    """Raise what shows damage: SQLite's own look at the pages, and a comparison of the words with the texts."""
    if (found := connection.execute("PRAGMA integrity_check(1)").get) != "ok":
        raise StoreDamaged(str(found))
    connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


def _left_out(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT path, problem FROM files WHERE problem <> '' ORDER BY path")
    return [f"{path}: {problem}" for path, problem in rows]
