"""The one door to the index: what is remembered is brought up to date, given vectors, and found."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ProviderError, StoreError
from picoclaw.memory import versions
from picoclaw.memory.embedding import Embedder, RateLimitedEmbedder, quantise
from picoclaw.memory.files import Document, MemoryFiles
from picoclaw.memory.index import IndexFile, MemoryRow, Progress
from picoclaw.memory.search import MIN_SCORE, MemoryHit, embed_probes, search_memory

_EMBED_IN_SEARCH_S, _QUICK_REQUEST_S = 0.3, 1.0
"""How long a search embeds what is new before it looks, if the last request was so quick."""

_MAX_EMBED_WAIT_S = 3.0
"""How long a search waits for an embedder, all in all; then the words alone find something."""

_MAX_IN_MEMORY_BYTES = 8_000_000
"""Bytes of notes that may be indexed in memory when the disk takes no index."""


def _ignore_progress(done: int, total: int) -> None:
    """Nobody is looking."""


class RefreshResult(NamedTuple):
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


class MemoryIndex:
    """What is remembered in one workspace. Whatever is wrong with vectors leaves the words, and is kept for `stats`."""

    def __init__(
        self,
        home: Path,
        workspace: Path,
        embedder: Callable[[], Embedder | None],
        others: Callable[[], Iterable[Document]] = tuple,
    ) -> None:
        """Open nothing yet. `embedder` is asked for when it is needed; `others` are found beside the files."""
        self.home = home
        self._path = home / "memory.db"
        self._workspace = workspace
        self._make_embedder = embedder
        self._embedder: RateLimitedEmbedder | None = None
        self._index = self._used = IndexFile(self._path, workspace, others)
        self._spare: IndexFile | None = None
        self._embedded_state: tuple[object, ...] = ()
        self._index_problem = self._embedder_problem = ""

    def search(
        self,
        query: str,
        now: datetime,
        most: int = 6,
        least: float = MIN_SCORE,
        progress: Progress = _ignore_progress,
    ) -> list[MemoryHit]:
        """Find what is remembered about a question, the best first; `progress` as for Index.sync. Raises StoreError."""
        self._used = self._sync(progress)
        try:
            return self._search_index(query, now, most, least)
        except StoreError as error:
            self._index_problem = str(error)
            if self._used is self._spare:
                raise
            self._used = self._use_spare(progress)
            return self._search_index(query, now, most, least)

    def _search_index(self, query: str, now: datetime, most: int, least: float) -> list[MemoryHit]:
        embedder = self._get_embedder()
        with embedder.limit_time(_MAX_EMBED_WAIT_S) if embedder else nullcontext():
            with suppress(ProviderError):
                self._catch_up(embedder)
            return search_memory(self._used, query, embedder, now, most, least)

    def _catch_up(self, embedder: RateLimitedEmbedder | None) -> None:
        """Embed some of what is new, if that is quick; what every search needs once shows whether it is."""
        if embedder is None or self._used.frozen or self._is_complete(self._used, embedder):
            return
        if embedder.last_seconds is None:
            embed_probes(embedder)
        if embedder.last_seconds is None or embedder.last_seconds <= _QUICK_REQUEST_S:
            self._embed(self._used, _EMBED_IN_SEARCH_S)

    def refresh(self, progress: Progress = _ignore_progress, seconds: float | None = None) -> RefreshResult:
        """Follow the files, and embed what has no vector, for so many seconds at most. Raises StoreError."""
        try:
            synced = self._index.sync(progress)
        except StoreError as error:
            self._index_problem = str(error)
            raise
        self._close_spare()
        embedded = 0
        if seconds is None or seconds > 0:
            with suppress(ProviderError):
                embedded = self._embed(self._index, seconds, progress)
        return RefreshResult(*synced, embedded, self._count_left(self._index), self.problem)

    def boost(self, number: int, step: float) -> None:
        """Raise or lower what a search has found, by its id, durably. Raises StoreError."""
        self._used.feedback(number, step)

    def forget(self, text: str) -> None:
        """Keep nothing of what was taken out of the notes, neither here nor in earlier MEMORY.md. Raises StoreError."""
        versions.forget_versions(self.home, text)
        self._index.purge()

    def row(self, number: int) -> MemoryRow:
        """Return what has an id. Raises StoreError when nothing has it any more."""
        for row in self._used.rows([number]):
            return row
        raise StoreError(f"nothing that is remembered has the id {number}; search again")

    def stats(self) -> dict[str, int | str]:
        """Count what there is; say whose vectors there are, and what is wrong in this process."""
        index = self._used
        return {**index.stats(), "model": index.model()[0], "problem": self.problem}

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
        self._close_spare()
        self._used = self._index

    # --- the index ---

    def _sync(self, progress: Progress) -> IndexFile:
        try:
            self._index.sync(progress)
        except StoreError as error:
            self._index_problem = str(error)
            return self._use_spare(progress)
        self._close_spare()
        return self._index

    def _close_spare(self) -> None:
        """The index can be written; what stood in for it goes."""
        self._index_problem = ""
        if self._spare:
            self._spare.close()
            self._spare, self._used = None, self._index

    def _use_spare(self, progress: Progress) -> IndexFile:
        """Find what can answer when the index cannot be written: one in memory, or of many notes the one as it was."""
        if self._spare is None:
            files = MemoryFiles.of(self._workspace)
            large = sum(source.size for _, sources in files.folders() for source in sources) > _MAX_IN_MEMORY_BYTES
            self._spare = IndexFile(self._path, self._workspace, kept=False, frozen=large)
        if not self._spare.frozen:
            self._spare.sync(progress)
        return self._spare

    @property
    def problem(self) -> str:
        """What keeps the index from being written, or vectors from being made; '' when nothing does."""
        unembedded = self._embedder.problem if self._embedder else self._embedder_problem
        return "; ".join(filter(None, [self._index_problem, unembedded]))

    # --- its vectors ---

    def _embed(self, index: IndexFile, seconds: float | None, progress: Progress = _ignore_progress) -> int:
        """Give vectors to what has none, and return to how many. Raises ProviderError."""
        embedder = self._get_embedder()
        if embedder is None or self._is_complete(index, embedder):
            return 0
        until = time.monotonic() + seconds if seconds is not None else float("inf")
        done, total = 0, self._count_left(index)
        for lacking in self._iter_unembedded(index, embedder):
            vectors = quantise(embedder.embed([text for _, text in lacking]))
            kept = [(number, *vector) for (number, _), vector in zip(lacking, vectors, strict=True)]
            index.keep_vectors(embedder.name, embedder.dims, kept)
            done += len(lacking)
            progress(min(done, total), total)
            if time.monotonic() > until:
                break
        return done

    def _is_complete(self, index: IndexFile, embedder: RateLimitedEmbedder) -> bool:
        return self._embedded_state == (index, index.version(), embedder.name, embedder.dims)

    def _iter_unembedded(self, index: IndexFile, embedder: RateLimitedEmbedder) -> Iterator[list[tuple[int, str]]]:
        """Give what has no vector, a few at a time; then once more, because of what has changed meanwhile."""
        for _ in range(2):
            version, last = index.version(), 0
            while lacking := index.unembedded(embedder.name, embedder.batch_size, embedder.dims, last):
                last = lacking[-1][0]
                yield lacking
            if not last:
                self._embedded_state = (index, version, embedder.name, embedder.dims)
                return

    def _get_embedder(self) -> RateLimitedEmbedder | None:
        if self._embedder is None:
            self._embedder_problem = ""
            try:
                embedder = self._make_embedder()
            except ProviderError as error:
                self._embedder_problem = str(error)
                return None
            self._embedder = RateLimitedEmbedder(embedder) if embedder else None
        return self._embedder

    def _count_left(self, index: IndexFile) -> int:
        name, dims = (self._embedder.name, self._embedder.dims) if self._embedder else index.model()
        return index.count_unembedded(name, dims) if name else 0
