"""How near a question is to what is remembered, by its vector."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from picoclaw.errors import ProviderError
from picoclaw.memory.embedding.embed import Embedder
from picoclaw.memory.index.index import Index
from picoclaw.memory.index.vectors import SLOTS
from picoclaw.memory.search.fusion import shown_by_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding.embed import Vectors

_MOST = 12
_SAMPLE = 1020  # vectors, for what is usual
_MOST_KEPT = 16_000_000  # bytes
_PROBES = (
    "How many moons does Saturn have?",
    "Which composer wrote The Magic Flute?",
    "What is the atomic weight of zinc?",
    "Who painted the ceiling of the Sistine Chapel?",
    "How do bees make honey?",
    "When did the Roman Empire fall?",
    "How is a suspension bridge built?",
    "What does a central bank do?",
    "Translate thank you into Portuguese.",
    "How deep is the Mariana Trench?",
    "What are the rules of cricket?",
    "How does a jet engine work?",
    "Why do volcanoes erupt?",
    "Which vaccine protects against measles?",
    "How do I sort a list in JavaScript?",
    "What is the plot of Hamlet?",
)
_probed: dict[tuple[str, int], "Vectors"] = {}


class Near(NamedTuple):
    """Standard scores of the nearest chunks and of others asked for, and how much the best cosine shows."""

    scores: Mapping[int, float]
    shown: float


class _Part:
    """Some of an index's vectors: whose they are, the vectors, and how long each is."""

    def __init__(self, ids: "NDArray[np.int64]", rows: "NDArray[np.int8]") -> None:
        import numpy as np

        self.ids, self.rows = ids, rows
        wide = rows.astype(np.float32)
        self.lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", wide, wide), 1))
        self._usual: tuple[float, int] | None = None

    def cosines(self, wanted: "Vectors") -> "Vectors":
        import numpy as np

        # `@` would wake a second core for so little
        return np.asarray(np.einsum("ij,j->i", self.rows.astype(np.float32), wanted) / self.lengths)

    def usual(self, probes: "Vectors") -> tuple[float, int]:
        """Say how near the second of the probes comes to any of some vectors, and of how many."""
        import numpy as np

        if self._usual is None:
            some = self.rows[:_SAMPLE].astype(np.float32)
            best = (some @ probes.T / self.lengths[:_SAMPLE, None]).max(axis=0)
            self._usual = float(np.sort(best)[-2]), len(some)
        return self._usual


_kept: WeakKeyDictionary[Index, tuple[tuple[int, ...], list[_Part]]] = WeakKeyDictionary()


def near(index: Index, query: str, embedder: Embedder, others: Collection[int]) -> Near | None:
    """Compare a question with all vectors; None when there are none to compare, or it cannot be embedded."""
    import numpy as np

    if index.model()[0] != embedder.name:
        return None
    try:
        wanted, probes = embedder.embed([query])[0], probe_vectors(embedder)
    except ProviderError:
        return None  # the words alone find something too
    if index.model() != (embedder.name, len(wanted)) or not wanted.any():
        return None  # another model's, until the index has been embedded anew
    numbers, cosines = [], []
    usual = None
    for part in _parts(index, len(wanted)):
        usual = usual or part.usual(probes)
        numbers.append(part.ids)
        cosines.append(part.cosines(wanted))
    if usual is None:
        return None
    every = np.concatenate(cosines)
    spread = float(every.std()) or 1.0
    expected = usual[0] + spread * (_largest(len(every)) - _largest(usual[1]))
    scores = _best(np.concatenate(numbers), (every - every.mean()) / spread, others)
    return Near(scores, shown_by_vectors(float(every.max()), expected))


def _parts(index: Index, dims: int) -> Iterator[_Part]:
    """Give all vectors: those of the last search, if they were few and none has changed."""
    version = index.version()
    held, parts = _kept.pop(index, (None, []))
    if held != version:
        parts = []  # let go of, before there are new ones
    kept: list[_Part] = []
    size = 0
    for part in parts or filter(None, (_part(found, dims) for found in index.vectors())):
        size += part.rows.nbytes
        kept.append(part)
        if size > _MOST_KEPT:
            kept.clear()
        yield part
    if size <= _MOST_KEPT:
        _kept[index] = version, kept


def _part(found: Sequence[tuple[int, int, bytes]], dims: int) -> _Part | None:
    """Take the slots of some rows that are filled; what is not as long as it should be is damaged."""
    import numpy as np

    found = [row for row in found if len(row[2]) == SLOTS * dims]
    slots = np.arange(SLOTS)
    first = np.array([block * SLOTS for block, _, _ in found])
    masks = np.array([there for _, there, _ in found], np.int64)
    there = (masks[:, None] >> slots & 1).astype(bool).ravel()
    rows = np.frombuffer(b"".join(held for _, _, held in found), np.int8).reshape(-1, dims)
    return _Part((first[:, None] + slots).ravel()[there], rows[there]) if there.any() else None


def _best(numbers: "np.ndarray[Any, Any]", scores: "Vectors", others: Collection[int]) -> dict[int, float]:
    import numpy as np

    nearest = np.argpartition(-scores, min(_MOST, len(scores)) - 1)[:_MOST]
    asked = np.flatnonzero(np.isin(numbers, list(others)))
    return {int(numbers[i]): float(scores[i]) for i in (*nearest, *asked)}


def _largest(count: int) -> float:
    """How many standard deviations the largest of so many normal numbers is above their mean, about."""
    return math.sqrt(2 * math.log(count))


def probe_vectors(embedder: Embedder) -> "Vectors":
    """Embed questions that concern nobody's notes, once for a model. Raises ProviderError."""
    if (embedder.name, embedder.dims) not in _probed:
        found = embedder.embed(_PROBES)
        _probed.clear()
        _probed[embedder.name, embedder.dims] = found
    return _probed[embedder.name, embedder.dims]
