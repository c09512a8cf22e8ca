"""The facade of the memory index: what is remembered is brought up to date, given vectors, and found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.errors import ProviderError, StoreError
from picoclaw.memory.files import (
    FOREIGN,
    MEMORY_FOLDER,
    SHARED_PREFIX,
    Document,
    MemoryFiles,
    flatten,
    format_memory_entry,
    make_comparison_key,
    parse_entries,
)
from picoclaw.memory.index import IndexFile, MemoryRow, Progress, SyncResult, ignore_progress
from picoclaw.memory.notes import parse_entry_place
from picoclaw.memory.search import (
    MIN_SCORE,
    MemoryHit,
    embed_probes,
    extract_terms,
    find_words,
    merge_hits,
    merge_scopes,
    search_memory,
    search_vectors,
)
from picoclaw.messages import strip_context
from picoclaw.security.untrusted import GUEST_PREFIX, find_taints
from picoclaw.store.conversations import History
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.memory.embedding import Embedder, RateLimitedEmbedder

_EMBED_IN_SEARCH_S, _QUICK_REQUEST_S = 0.3, 1.0
"""How long a search embeds what is new before it looks, if the last request was so quick."""

_MAX_EMBED_WAIT_S = 3.0
"""How long a search waits for an embedder, all in all; then the words alone find something."""

_MAX_IN_MEMORY_BYTES = 8_000_000
"""Bytes of notes that may be indexed in memory when the disk takes no index."""


class MemoryIndex:
    """What is remembered in one workspace. Whatever is wrong with vectors leaves the words, and is kept for `stats`."""

    def __init__(
        self,
        home: Path,
        workspace: Path,
        embedder: Callable[[], Embedder | None],
        others: Callable[[], Iterable[Document]] = tuple,
        min_score: float = MIN_SCORE,
        shared: Path | None = None,
        name: str = "memory.db",
    ) -> None:
        """Open nothing yet. `embedder` is asked for when it is needed; `others` are found beside the files.

        `min_score` is that from which on a hit is certain where a search does not say. `shared` is the folder of the
        notes that the household shares: what is found there has negative ids, and paths that begin with `shared/`.
        `name` is that of the index.
        """
        self._min_score = min_score
        self.shared = MemoryIndex(shared, shared, self.get_embedder, min_score=min_score) if shared else None
        self.home, self._workspace = home, workspace
        self._path = home / name
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
        least: float | None = None,
        progress: Progress = ignore_progress,
        also: Iterable[str] = (),
    ) -> list[MemoryHit]:
        """Find what is remembered about a question, as search_memory does; `progress` as for IndexFile.sync.

        `also`: the same question in other words.

        Raises StoreError.
        """
        least = self._min_score if least is None else least
        found = self._search_own((query, *also), now, most, least, progress)
        if not (self.shared and self.shared.is_used):
            return found
        everybodys = self.shared.search(query, now, most, least, progress, also)
        said = [make_comparison_key(one.body) for hit in found for one in parse_entries(self.row(hit.id).text)]
        return merge_scopes(found, everybodys, said, most, least)

    def _search_own(
        self, queries: Sequence[str], now: datetime, most: int, least: float, progress: Progress
    ) -> list[MemoryHit]:
        try:
            self._sync(progress)
            return self._search_index(queries, now, most, least)
        except StoreError as error:
            self._index_problem = str(error)
        self._use_spare(progress)
        return self._search_index(queries, now, most, least)

    def _search_index(self, queries: Sequence[str], now: datetime, most: int, least: float) -> list[MemoryHit]:
        embedder = self.get_embedder()
        with embedder.limit_time(_MAX_EMBED_WAIT_S) if embedder else nullcontext():
            if embedder:
                self._embed_new(embedder)
            found = [search_memory(self._used, query, embedder, now, most, least) for query in queries]
            return found[0] if len(found) == 1 else merge_hits(found, most)

    def _embed_new(self, embedder: RateLimitedEmbedder) -> None:
        """Give vectors to what is new before a search, if that is quick."""
        if not self._used.frozen and not self._is_complete(self._used, embedder):
            with suppress(ProviderError):
                if embedder.last_seconds is None:
                    embed_probes(embedder)  # what every search needs once shows whether it is quick
                if (embedder.last_seconds or 0.0) <= _QUICK_REQUEST_S:
                    self._embed(self._used, _EMBED_IN_SEARCH_S)

    def compare(self, query: str) -> dict[str, float]:
        """Tell how near what is remembered is to a question, by path, in standard scores; {} where vectors are missing.

        Raises StoreError.
        """
        if (embedder := self.get_embedder()) is None:
            return {}
        self._sync(ignore_progress)
        with embedder.limit_time(_MAX_EMBED_WAIT_S):
            self._embed_new(embedder)
            paths = self._used.paths()
            found = search_vectors(self._used, query, embedder, sorted(paths))
        near: dict[str, float] = {}
        for number, score in found[0].items() if found else ():
            near[paths[number]] = max(score, near.get(paths[number], score))
        return near

    def refresh(self, progress: Progress = ignore_progress, seconds: float | None = None) -> SyncResult:
        """Follow the files, and embed what has no vector, for so many seconds at most. Raises StoreError."""
        synced = self._sync(progress)
        embedded = 0
        if seconds is None or seconds > 0:
            with suppress(ProviderError):
                embedded = self._embed(self._index, seconds, progress)
        done = synced._replace(embedded=embedded, left=self._count_left(self._index), problem=self.problem)
        if self.shared and self.shared.is_used:
            more = self.shared.refresh(progress, seconds)
            counts = {name: getattr(done, name) + getattr(more, name) for name in SyncResult._fields[:-1]}
            done = done._replace(**counts)
        return done

    def boost(self, number: int, step: float) -> None:
        """Raise or lower what a search has found, by its id, durably. Raises StoreError."""
        if number < 0 and self.shared:
            self.shared.boost(-number, step)
        else:
            self._used.feedback(number, step)

    def forget(self, text: str) -> None:
        """Keep nothing of what was taken out of the notes, neither here nor in earlier MEMORY.md. Raises StoreError."""
        from picoclaw.memory import versions

        versions.forget_versions(self.home, text)
        self._index.purge()

    def row(self, number: int) -> MemoryRow:
        """Return what has an id. Raises StoreError when nothing has it any more."""
        if number < 0 and self.shared:
            row = self.shared.row(-number)
            return row._replace(id=number, path=f"{SHARED_PREFIX}{row.path}")
        for row in self._used.rows([number]):
            return row
        raise StoreError(f"nothing that is remembered has the id {number}; search again")

    def stats(self) -> dict[str, int | str]:
        """Count what there is; say whose vectors there are, and what is wrong in this process."""
        shared = {"shared_files": self.shared.stats()["files"]} if self.shared and self.shared.is_used else {}
        return {**self._used.stats(), **shared, "model": self._used.model()[0], "problem": self.problem}

    def check(self) -> list[str]:
        """Compare the index with the files and build it again where it is damaged; says what was wrong."""
        more = [f"{SHARED_PREFIX}{line}" for line in self.shared.check()] if self.shared and self.shared.is_used else []
        try:
            return [*self._index.check(), *more]
        except StoreError as error:
            return [str(error), *more]

    def close(self) -> None:
        """Let go of the files; may be called twice, and the memory be used again."""
        if self.shared:
            self.shared.close()
        with suppress(StoreError):
            self._index.close()
        self._drop_spare()
        if self._embedder:
            self._embedder.close()

    @property
    def is_used(self) -> bool:
        return (self._workspace / MEMORY_FOLDER).is_dir()

    @property
    def problem(self) -> str:
        """What keeps the index from being written, or vectors from being made; '' when nothing does."""
        unembedded = self._embedder.problem if self._embedder else self._embedder_problem
        return "; ".join(filter(None, [self._index_problem, unembedded]))

    def _sync(self, progress: Progress) -> SyncResult:
        try:
            synced = self._index.sync(progress)
        except StoreError as error:
            self._index_problem = str(error)
            raise
        self._drop_spare()
        return synced

    def _drop_spare(self) -> None:
        self._index_problem = ""
        if self._spare:
            self._spare.close()
        self._spare, self._used = None, self._index

    def _use_spare(self, progress: Progress) -> None:
        """Use what can answer when the index cannot be written: one in memory, or of many notes the one as it was."""
        if self._spare is None:
            folders = MemoryFiles(self._workspace).folders()
            large = sum(source.size for _, sources in folders for source in sources) > _MAX_IN_MEMORY_BYTES
            self._spare = IndexFile(self._path, self._workspace, kept=False, frozen=large)
        if not self._spare.frozen:
            self._spare.sync(progress)
        self._used = self._spare

    def _embed(self, index: IndexFile, seconds: float | None, progress: Progress = ignore_progress) -> int:
        """Give vectors to what has none, and return to how many. Raises ProviderError."""
        from picoclaw.memory.embedding import quantise

        embedder = self.get_embedder()
        if embedder is None or self._is_complete(index, embedder):
            return 0
        until = time.monotonic() + seconds if seconds is not None else float("inf")
        done, total = 0, self._count_left(index)
        for lacking in self._iter_unembedded(index, embedder):
            vectors = quantise(embedder.embed([text for _, text in lacking]))
            kept = [(number, vector) for (number, _), vector in zip(lacking, vectors, strict=True)]
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

    def get_embedder(self) -> RateLimitedEmbedder | None:
        """Make the embedder, or give the one there is; None for none, and where it cannot be made."""
        from picoclaw.memory.embedding import RateLimitedEmbedder

        if self._embedder is None:
            self._embedder_problem = ""
            try:
                embedder = self._make_embedder()
            except ProviderError as error:
                self._embedder_problem = str(error)
                return None
            if isinstance(embedder, RateLimitedEmbedder):
                self._embedder = embedder
            else:
                self._embedder = RateLimitedEmbedder(embedder) if embedder else None
        return self._embedder

    def _count_left(self, index: IndexFile) -> int:
        name, dims = (self._embedder.name, self._embedder.dims) if self._embedder else index.model()
        return index.count_unembedded(name, dims) if name else 0


# Past messages of the chats, to be found beside the notes where the owner wants that.

_PIECE = pattern(r"\S.{0,499}(?!\S)|\S{1,500}")  # with its mark, an entry of a note is not longer
_MAX_NAME_CHARS, _MAX_NAMES, _MAX_HITS = 60, 2, 24


def list_past_turns(history: History) -> Iterator[Document]:
    """Give each kept turn of the owner's: a path such as `chats/terminal/12`, and what was said. It never changes."""
    for number, session, day in history.kept(only_owners=True):
        yield Document(f"chats/{session}/{number}", number, partial(_extract_turn_text, history, number), day)


def find_past_turns(memory: MemoryIndex, text: str, now: datetime) -> list[str]:
    """Name the past turns that have all the words of a text, the nearest first. Raises StoreError."""
    words = extract_terms(text)
    hits = memory.search(text, now, _MAX_HITS, 0.0) if words else []
    turns = [hit for hit in hits if hit.id > 0 and not parse_entry_place(hit.path)]
    return [hit.path for hit in turns if len(find_words(memory.row(hit.id).text, words)) == len(words)]


def _extract_turn_text(history: History, number: int) -> str:
    """What a turn adds to what is remembered: no question to the memory, and not what the memory answered."""
    turn = history.turn(number)
    names = {call.name for message in turn for call in message.calls}
    if "memory_forget" in names:
        return ""
    asked = [text for m in turn if m.role == "user" if (text := strip_context(m.text))]
    if "memory_search" in names:
        asked = [
            text for text in asked if not text.rstrip().endswith("?") or re.search(r"[.!]\s|\n", text.strip())
        ]  # not what is only a question
    heard = history.heard_by(number) or list(find_taints(turn))
    guests = [name for name in heard if name.startswith(GUEST_PREFIX)]  # a guest's words are not the owner's
    said = [*_mark_texts("User", asked, guests)]
    if not any(name.startswith("memory_") for name in names):
        answers = [message.text for message in turn if message.role == "assistant" and message.text]
        said += _mark_texts("Answer", answers, heard)
    return "\n".join(said)


def _mark_texts(who: str, texts: Iterable[str], heard: Sequence[str]) -> Iterator[str]:
    """What somebody has said; after what nobody in the chat has said, marked piece by piece as such notes are."""
    named = [name[:_MAX_NAME_CHARS] for name in dict.fromkeys(heard)]
    more = f" and {len(named) - _MAX_NAMES} more" if len(named) > _MAX_NAMES else ""
    source = f"{FOREIGN}: after {', '.join(named[:_MAX_NAMES])}{more}"
    for text in texts:
        if heard:
            yield from (format_memory_entry("- ", "", source, piece) for piece in _PIECE.findall(flatten(text)))
        else:
            yield f"{who}: {text}"
