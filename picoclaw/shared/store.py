"""What can be done with a shared store: the protocol that SQLite and PostgreSQL keep, and how one is opened by its address.

Notes in it are searched with the code that searches those of a workspace.

`tests/test_shared_store.py` is the contract: it runs on both.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory.index import MemoryRow, find_note_day
from picoclaw.memory.search import MAX_NEAREST, MIN_SCORE, SAMPLE_SIZE, MemoryHit, VectorComparison, search_memory
from picoclaw.records import NamedTuple
from picoclaw.shared.tables import Row
from picoclaw.text import fold_accents, list_query_terms, list_terms

if TYPE_CHECKING:
    from picoclaw.memory.embedding import Embedder, Vectors

Chunks = Mapping[str, Sequence["SharedChunk"]]
"""All chunks of some documents, by the documents' ids."""


class SharedChunk(NamedTuple):
    """A part of a document; `vector` is one signed byte for each dimension, or None, `model` says whose it is."""

    start: int
    end: int
    heading: str
    text: str
    vector: bytes | None = None
    model: str = ""


class ChunksState(NamedTuple):
    """How many chunks a document has, how many of them have a vector, and whose these are."""

    chunks: int = 0
    vectors: int = 0
    model: str = ""


class SearchScope(NamedTuple):
    """Whose notes are searched: an agent's, and of them those of these people; '' are nobody's own."""

    agent_id: str
    people: tuple[str, ...] = ("",)


class Changes(NamedTuple):
    """Rows that have changed, in their order, and the cursor from which on to ask for more."""

    rows: list[Row]
    cursor: str


class BoardState(NamedTuple):
    """What the store knows of a board: its `receipt` is the one of the last batch that it has put.

    `unended` names the oldest transaction that writes and has not ended, if there is one: what is later is not given yet.
    """

    receipt: str
    agents: tuple[str, ...]
    unended: str = ""


class SharedStore(Protocol):
    """One connection to a store. Every method raises StoreError, StoreUnreachable where another try may work."""

    @property
    def address(self) -> str:
        """The address as it may be shown: without a password."""

    def claim(self, board: str, nonce: str) -> BoardState:
        """Take a board's name, or take it up again with the nonce that it was taken with; a new name has no receipt.

        Raises StoreError when another board has it, or when it was revoked. To be called before `put`.
        """

    def put(self, rows: Mapping[str, Iterable[Row]], chunks: Chunks | None = None, receipt: str = "") -> dict[str, Row]:
        """Write rows, by table, in one transaction, and the `receipt` with them; what is there already is left as it is.

        Returns the conflicts: of each page that was not taken because another version is there, that one, by its id.
        The chunks of such a page are not written; those of the others take the place of all that were there.
        """

    def get(self, table: str, ids: Iterable[str]) -> list[Row]:
        """Return rows by their ids, deleted ones too, without those that are not there."""

    def list_rows(self, table: str, equal: Mapping[str, object], after: str = "", most: int = 500) -> list[Row]:
        """List rows whose columns equal these values, in the order of their ids, from an id on."""

    def count_rows(self, agent_id: str) -> dict[str, int]:
        """Count an agent's rows that are not deleted, by table."""

    def delete(self, table: str, ids: Iterable[str]) -> int:
        """Delete rows of ERASABLE for good; returns how many there were."""

    def changes(self, table: str, agent_id: str, after: str, most: int = 500) -> Changes:
        """Return an agent's rows that have changed since a cursor, '' for all; none is ever left out.

        Not one of a transaction, either, that began before the cursor was made and ended later.
        """

    def wait(self, agents: Iterable[str], seconds: float, wake: int = -1) -> bool:
        """Wait until another connection has put rows of PULLED of these agents, or the time is over; tells which it was.

        It also ends when the descriptor `wake` can be read, and at once after something that was put since the last wait, or
        where it has only now begun to listen: nothing is missed between a look and the wait behind it.
        """

    def describe_chunks(self, documents: Iterable[str]) -> dict[str, ChunksState]:
        """Say what chunks there are of some documents, by their ids; of those that have none, nothing."""

    def can_wait(self) -> bool:
        """Whether `wait` hears anything, and the server has connections enough that one may be held for it."""

    def count_chunks(self, scope: SearchScope, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]:
        """Count the chunks of a scope, and those that have any of the forms of each word."""

    def match_chunks(self, scope: SearchScope, weights: Mapping[str, float], most: int) -> list[tuple[int, float]]:
        """Find the chunks that have any of these words, with how well they fit, the best first."""

    def get_chunks(self, scope: SearchScope, numbers: Iterable[int]) -> list[MemoryRow]:
        """Return chunks by the numbers that a search has given; without the boosts, which every board has its own of."""

    def compare_vectors(
        self, scope: SearchScope, model: str, vector: Sequence[float], most: int, others: Iterable[int]
    ) -> VectorComparison | None:
        """Compare a vector with all of a scope that are the model's: the nearest, those asked for, and the usual."""

    def sample_vectors(
        self, scope: SearchScope, model: str, probes: Sequence[Sequence[float]], most: int
    ) -> tuple[float, int]:
        """Say how near the second of the probes comes to any of at most so many vectors, and of how many."""

    def close(self) -> None:
        """Let go of the store; may be called twice."""


def open_shared_store(url: str, password: str = "") -> SharedStore:
    """Open a store by its address; a `password` that is not in it is added. Raises ConfigError and StoreError."""
    scheme, _, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"} and rest.startswith("//"):
        load_postgres()
        from picoclaw.shared.postgres import PostgresStore

        return PostgresStore(url, password)
    if scheme == "sqlite" and rest.startswith("/"):
        from pathlib import Path

        from picoclaw.shared.sqlite import SqliteStore

        return SqliteStore(Path("/" + rest.lstrip("/")))
    raise ConfigError(
        "[store] url must be postgresql://USER@HOST/DATABASE, or sqlite:/FOLDER/FILE.db for homes on one machine"
    )


def load_postgres() -> None:
    """Load psycopg, which is only installed where somebody wants it. Raises ConfigError."""
    try:
        importlib.import_module("psycopg")
    except ImportError as error:
        if error.name == "psycopg":
            raise ConfigError('psycopg is not installed: pip install "picoclaw-edge[fleet]"') from None
        raise ConfigError("psycopg finds no libpq: sudo apt install libpq5") from None


# What both kinds of store do in the same way.


def check_claim(board: str, same: bool, revoked: bool) -> None:  # noqa: FBT001 - facts, no switches
    """Raise StoreError for a board that may not write."""
    if revoked:
        raise StoreError(f"the board {board!r} was revoked in the store; `picoclaw store setup` lets it in again")
    if not same:
        raise StoreError(
            f"another home uses the name {board!r} in the store: two boards need two names; if this one takes the place"
            f" of that one, run `picoclaw store setup --board {board} --replace` with the administrator's address"
        )


def index_words(heading: str, text: str) -> str:
    """What a chunk is found by, stemmed, in the order in which it stands there."""
    return " ".join(list_terms(fold_accents(f"{heading}\n{text}")))


def split_query(word: str) -> list[str]:
    """What index_words makes of a word that is asked for: several of a date, or of a run of Chinese letters."""
    return list_query_terms(fold_accents(word))


def make_memory_row(row: Sequence[object]) -> MemoryRow:
    number, path, start, end, heading, text = row
    day = find_note_day(str(path), str(heading))
    return MemoryRow(int(str(number)), str(path), int(str(start)), int(str(end)), str(heading), str(text), day, 0.0)


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
