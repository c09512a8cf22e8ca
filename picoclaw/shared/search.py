"""Searches the notes in a shared store with the code that searches those of a workspace."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from picoclaw.memory.index import MemoryRow
from picoclaw.memory.search import MAX_NEAREST, MIN_SCORE, SAMPLE_SIZE, MemoryHit, VectorComparison, search_memory
from picoclaw.shared.store import SearchScope, SharedStore

if TYPE_CHECKING:
    from picoclaw.memory.embedding import Embedder, Vectors


_MAX_HITS = 6


class StoreIndex:
    """The chunks of a scope as memory.search wants them; it asks the store again for everything but the probes."""

    def __init__(self, store: SharedStore, scope: SearchScope, model: str = "", dims: int = 0) -> None:
        """`model` and `dims` are those of the embedder that questions will be embedded by."""
        self._store, self._scope, self._model, self._dims = store, scope, model, dims
        self._counted: tuple[int, dict[str, int]] = 0, {}
        self._forms: dict[str, str] = {}
        self._usual: tuple[float, int] | None = None

    def document_frequencies(self, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]:
        kept = {word: list(forms) for word, forms in words.items()}
        self._counted = self._store.count_chunks(self._scope, kept)
        self._forms = {form: word for word, forms in kept.items() for form in forms}
        return self._counted

    def match(self, words: Iterable[str], most: int) -> list[tuple[int, float]]:
        """Rare words count more, by the counts that were asked for last."""
        total, having = self._counted
        weights = {}
        for word in words:
            count = having.get(self._forms.get(word, ""), 0)
            weights[word] = 1.0 if not count else max(0.01, _rarity(total, count))
        return self._store.match_chunks(self._scope, weights, most)

    def rows(self, ids: Iterable[int]) -> list[MemoryRow]:
        return self._store.get_chunks(self._scope, ids)

    def model(self) -> tuple[str, int]:
        return self._model, self._dims

    def version(self) -> tuple[int, ...]:
        """Which languages there are is found once for as long as this object lives."""
        return (0,)

    def compare(self, wanted: "Vectors", others: Iterable[int]) -> VectorComparison | None:
        return self._store.compare_vectors(self._scope, self._model, wanted.tolist(), MAX_NEAREST, others)

    def usual(self, probes: "Vectors") -> tuple[float, int]:
        if self._usual is None:
            self._usual = self._store.sample_vectors(self._scope, self._model, probes.tolist(), SAMPLE_SIZE)
        return self._usual


def search_store(
    store: SharedStore, scope: SearchScope, query: str, embedder: "Embedder | None", now: datetime
) -> Sequence[MemoryHit]:
    """Find what the notes of a scope say about a question, as search_memory does. Raises StoreError."""
    index = StoreIndex(store, scope, embedder.name, embedder.dims) if embedder else StoreIndex(store, scope)
    return search_memory(index, query, embedder, now, _MAX_HITS, MIN_SCORE)


def _rarity(chunks: int, having: int) -> float:
    import math

    return math.log(1 + max(0, chunks - having) / (having + 0.5))
