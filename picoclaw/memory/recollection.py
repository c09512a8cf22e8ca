"""The one door to the index: what is remembered is brought up to date, given vectors, and found."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from picoclaw.errors import ProviderError, StoreError, Unavailable
from picoclaw.memory.dream import versions
from picoclaw.memory.embedding.embed import Embedder, quantised
from picoclaw.memory.index.files import Document, Files
from picoclaw.memory.index.index import Index, Row
from picoclaw.memory.index.sync import Progress
from picoclaw.memory.search.fusion import LEAST
from picoclaw.memory.search.search import Hit, search

if TYPE_CHECKING:
    from picoclaw.memory.embedding.embed import Vectors

__all__ = ["Document", "Recollection", "Refreshed"]

_SEARCH_S = 0.3
"""How long a search embeds what is new before it looks."""

_REST_S = 60.0
"""How long an embedder that has failed is not asked again."""

_MOST_AT_ONCE, _SLOW_S = 64, 0.5
_SMALL = 8_000_000
"""Bytes of notes that may be indexed in memory when the disk takes no index."""


def _no_progress(done: int, total: int) -> None:
    """Nobody is looking."""


class Refreshed(NamedTuple):
    """What Synced says; how many vectors were made, how many are left to make; and why, if they cannot be made."""

    files: int
    read: int
    renamed: int
    removed: int
    chunks: int
    problems: tuple[str, ...]
    embedded: int
    left: int
    problem: str


class _Patient:
    """An embedder that is left alone for a while after it has failed, and asked for less when it is slow."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._until = 0.0
        self.problem = ""
        self.at_once = 8

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dims(self) -> int:
        return self._embedder.dims

    def embed(self, texts: Sequence[str]) -> "Vectors":
        began = time.monotonic()
        if began < self._until:
            raise Unavailable(self.problem)
        try:
            rows = self._embedder.embed(texts)
        except ProviderError as error:
            self.problem, self._until = str(error), time.monotonic() + _REST_S
            self.at_once = max(1, self.at_once // 2)
            raise
        if time.monotonic() - began > _SLOW_S:
            self.at_once = max(1, min(self.at_once, len(texts)) // 2)
        elif len(texts) >= self.at_once:
            self.at_once = min(_MOST_AT_ONCE, self.at_once * 2)
        self.problem = ""
        return rows


class Recollection:
    """What is remembered in one workspace. Whatever is wrong with vectors leaves the words, and is kept for `stats`."""

    def __init__(
        self,
        home: Path,
        workspace: Path,
        embedder: Callable[[], Embedder | None],
        others: Callable[[], Iterable[Document]] = tuple,
    ) -> None:
        """Open nothing yet. `embedder` is asked for when it is needed; `others` are found beside the files."""
        self._path = home / "memory.db"
        self._workspace = workspace
        self._choose = embedder
        self._embedder: _Patient | None = None
        self._index = self._used = Index(self._path, workspace, others)
        self._spare: Index | None = None
        self._complete: tuple[object, ...] = ()
        self._unwritten = self._unchosen = ""

    def search(self, query: str, now: datetime, most: int = 6, least: float = LEAST) -> list[Hit]:
        """Find what is remembered about a question, the best first. Raises StoreError."""
        self._used = self._synced()
        try:
            return self._found(query, now, most, least)
        except StoreError as error:
            self._unwritten = str(error)
            if self._used is self._spare:
                raise
            self._used = self._other()
            return self._found(query, now, most, least)

    def _found(self, query: str, now: datetime, most: int, least: float) -> list[Hit]:
        with suppress(ProviderError):
            self._embed(self._used, _SEARCH_S)
        return search(self._used, query, self._embedder, now, most, least)

    def refresh(self, progress: Progress = _no_progress, seconds: float | None = None) -> Refreshed:
        """Follow the files, and embed what has no vector, for so many seconds at most. Raises StoreError."""
        try:
            synced = self._index.sync(progress)
        except StoreError as error:
            self._unwritten = str(error)
            raise
        self._settled()
        embedded = 0
        if seconds is None or seconds > 0:
            with suppress(ProviderError):
                embedded = self._embed(self._index, seconds, progress)
        return Refreshed(*synced, embedded, self._left(self._index), self._problem())

    def boost(self, number: int, step: float) -> None:
        """Raise or lower what a search has found, by its id, durably. Raises StoreError."""
        self._used.feedback(number, step)

    def forget(self, text: str) -> None:
        """Keep nothing of what was taken out of the notes, neither here nor in earlier MEMORY.md. Raises StoreError."""
        versions.forget(self._path.parent, text)
        self._index.purge()

    def row(self, number: int) -> Row:
        """Return what has an id. Raises StoreError when nothing has it any more."""
        for row in self._used.rows([number]):
            return row
        raise StoreError(f"nothing that is remembered has the id {number}; search again")

    def stats(self) -> dict[str, int | str]:
        """Count what there is; say whose vectors there are, and what was wrong the last time."""
        index = self._used
        return {**index.stats(), "model": index.model()[0], "problem": self._problem()}

    def check(self) -> list[str]:
        """Compare the index with the files and build it again where it is damaged; says what was wrong."""
        try:
            return self._index.check()
        except StoreError as error:
            return [str(error)]

    def close(self) -> None:
        """Let go of the files; may be called twice, and the memory be used again."""
        with suppress(StoreError):
            self._index.close()
        self._settled()
        self._used = self._index

    # --- the index ---

    def _synced(self) -> Index:
        try:
            self._index.sync()
        except StoreError as error:
            self._unwritten = str(error)
            return self._other()
        self._settled()
        return self._index

    def _settled(self) -> None:
        """The index can be written; what stood in for it goes."""
        self._unwritten = ""
        if self._spare:
            self._spare.close()
            self._spare, self._used = None, self._index

    def _other(self) -> Index:
        """Find what can answer when the index cannot be written: one in memory, or of many notes the one as it was."""
        if self._spare is None:
            files = Files.of(self._workspace)
            if sum(source.size for _, sources in files.folders() for source in sources) > _SMALL:
                return self._index
            self._spare = Index(self._path, self._workspace, kept=False)
        self._spare.sync()
        return self._spare

    def _problem(self) -> str:
        unembedded = self._embedder.problem if self._embedder else self._unchosen
        return "; ".join(filter(None, [self._unwritten, unembedded]))

    # --- its vectors ---

    def _embed(self, index: Index, seconds: float | None, progress: Progress = _no_progress) -> int:
        """Give vectors to what has none, and return to how many. Raises ProviderError."""
        embedder = self._chosen()
        if embedder is None or self._complete == (index, index.version(), embedder.name, embedder.dims):
            return 0
        until = time.monotonic() + seconds if seconds is not None else float("inf")
        done, total = 0, self._left(index)
        for lacking in self._lacking(index, embedder):
            vectors = quantised(embedder.embed([text for _, text in lacking]))
            kept = [(number, *vector) for (number, _), vector in zip(lacking, vectors, strict=True)]
            index.keep_vectors(embedder.name, embedder.dims, kept)
            done += len(lacking)
            progress(min(done, total), total)
            if time.monotonic() > until:
                break
        return done

    def _lacking(self, index: Index, embedder: _Patient) -> Iterator[list[tuple[int, str]]]:
        """Give what has no vector, a few at a time; then once more, because of what has changed meanwhile."""
        for _ in range(2):
            version, last = index.version(), 0
            while lacking := index.unembedded(embedder.name, embedder.at_once, embedder.dims, last):
                last = lacking[-1][0]
                yield lacking
            if not last:
                self._complete = (index, version, embedder.name, embedder.dims)
                return

    def _chosen(self) -> _Patient | None:
        if self._embedder is None:
            self._unchosen = ""
            try:
                embedder = self._choose()
            except ProviderError as error:
                self._unchosen = str(error)
                return None
            self._embedder = _Patient(embedder) if embedder else None
        return self._embedder

    def _left(self, index: Index) -> int:
        name, dims = (self._embedder.name, self._embedder.dims) if self._embedder else index.model()
        return index.lacking(name, dims) if name else 0
