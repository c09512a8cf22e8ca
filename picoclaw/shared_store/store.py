"""What a shared store holds and can do: its tables as data, and the protocol that SQLite and PostgreSQL keep.

The same names and meanings hold in both. Ids are UUIDs that follow from what a row is, so that a board that sends one
again, or two that make the same page, mean the same row. Notes are searched with the code that searches those of a workspace.
`tests/test_shared_store.py` is the contract: it runs on both.

How PostgreSQL came to its present shape is in MIGRATIONS: by name, each as the SQL that was run. What was released is
never changed: a table that changes here gets another migration, here and in sqlite.py. Each runs once, in a transaction
that the other boards wait for; see `migrate` in postgres.py.
"""

import hashlib
import importlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory.index import MemoryRow, find_note_day
from picoclaw.memory.search import MAX_NEAREST, MIN_SCORE, SAMPLE_SIZE, MemoryHit, VectorComparison, search_memory
from picoclaw.records import NamedTuple
from picoclaw.text import fold_accents, list_query_terms, list_terms, replace_surrogates

if TYPE_CHECKING:
    import psycopg

    from picoclaw.memory.embedding import Embedder, Vectors

Row = dict[str, Any]
"""A row by its columns: `id`, `agent_id`, `board`, `at`, `deleted`, and those of its table."""

ColumnType = Literal["text", "int", "real", "bool", "uuid"]
Conflict = Literal["version", "latest", "keep"]

COMMON: dict[str, ColumnType] = {
    "id": "uuid",
    "agent_id": "uuid",
    "board": "text",  # which has written it last
    "at": "real",  # when that was, in seconds since 1970 by that board's clock
    "deleted": "bool",
    "digest": "text",  # of the columns below, made by the store
}


class SharedTable(NamedTuple):
    """A table's own columns, and its rule for a row that is there already.

    version: a page. One is put in its place whose version is the next; any other is a conflict.
    latest: the later one stays. keep: the first one stays, because such a row never changes.
    """

    conflict: Conflict
    columns: Mapping[str, ColumnType]

    @property
    def all_columns(self) -> dict[str, ColumnType]:
        return {**COMMON, **self.columns}


_PAGE: dict[str, ColumnType] = {"person": "text", "path": "text", "content": "text", "version": "int"}

TABLES: dict[str, SharedTable] = {
    "agents": SharedTable("latest", {"key": "text", "settings": "text"}),
    "user_context_files": SharedTable("version", _PAGE),
    "skills": SharedTable(
        "version", {"name": "text", "owner": "text", "visibility": "text", "content": "text", "version": "int"}
    ),
    "skill_grants": SharedTable(
        "latest", {"skill": "text", "grantee": "text", "pinned": "text", "granted_by": "text", "granted_at": "text"}
    ),
    "documents": SharedTable("version", _PAGE),
    "document_versions": SharedTable("keep", {"document_id": "uuid", **_PAGE}),
    "sessions": SharedTable(
        "latest", {"person": "text", "number": "int", "key": "text", "begun": "text", "ended": "text"}
    ),
    "turns": SharedTable(
        "latest",
        {
            "session_id": "uuid",
            "number": "int",
            "said_at": "text",
            "provider": "text",
            "steps": "int",
            "prompt_tokens": "int",
            "completion_tokens": "int",
            "stopped": "text",
            "undone": "bool",
            "heard": "text",
            "asked_by": "text",
            "messages": "text",
        },
    ),
    "summaries": SharedTable("keep", {"session_id": "uuid", "upto": "uuid", "said_at": "text", "text": "text"}),
    "ledger": SharedTable(
        "latest",
        {
            "day": "text",
            "model": "text",
            "cause": "text",
            "channel": "text",
            "person": "text",
            "requests": "int",
            "prompt_tokens": "int",
            "completion_tokens": "int",
            "estimated": "int",
            "money": "real",
            "cached": "int",
            "reasoning": "int",
        },
    ),
}
"""In the order in which rows may be written. `chunks` are beside them: they follow from the documents."""

PULLED = ("user_context_files", "skills", "skill_grants", "documents")
"""What a board takes over from others as they change; conversations and costs are only brought together."""

ERASABLE = ("document_versions", "sessions", "turns", "summaries")
"""What a board may delete for good; the others are marked as deleted, so that the other boards hear of it."""

KEPT_VERSIONS = 30
"""Earlier versions of a page that are kept."""

_NAMESPACE = uuid.UUID("6a0f3e0e-52b4-5b0b-9d7c-0d2f6f7a1c11")
_TEXT_ESCAPES = str.maketrans({"\0": "\ufffd"})  # which PostgreSQL takes in no text


def make_id(*parts: object) -> str:
    """The id of what is named by these parts: always the same."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join(map(str, parts))))


def make_version_id(document: str, version: int, digest: str) -> str:
    """The id of an earlier version of a page; the databases make the same one."""
    return str(uuid.UUID(hashlib.md5(f"{document}:{version}:{digest}".encode(), usedforsecurity=False).hexdigest()))


def clean_text(value: Any) -> Any:
    """Replace in a text what a database cannot take."""
    return replace_surrogates(value).translate(_TEXT_ESCAPES) if isinstance(value, str) else value


def complete_row(table: str, row: Mapping[str, Any], board: str) -> Row:
    """Clean a row, and add the digest and what may be left out. Raises KeyError for a column that is missing."""
    columns = TABLES[table].columns
    own = {name: clean_text(row[name]) for name in columns}
    deleted = bool(row.get("deleted", False))
    return {
        "id": row["id"],
        "agent_id": row["agent_id"],
        "board": row.get("board") or board,
        "at": float(row["at"]),
        "deleted": deleted,
        "digest": make_digest({**own, "deleted": deleted}),
        **own,
    }


def make_digest(values: Mapping[str, Any]) -> str:
    """Half a SHA-256 of some values; a version says how often they were written, and nothing of what they are."""
    said = json.dumps({**values, "version": 0}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def drop_repeated(rows: Iterable[Row]) -> list[Row]:
    """Leave the last of the rows that have the same id."""
    return list({row["id"]: row for row in rows}.values())


def check_erasable(table: str) -> None:
    if table not in ERASABLE:
        raise ValueError(f"rows of {table} are marked as deleted, not erased")


def is_conflict(table: str, row: Row, there: Row) -> bool:
    """Whether a row that was not written says something else than the one that is there."""
    return TABLES[table].conflict == "version" and there["digest"] != row["digest"]


# The SQL that both kinds of store have in common; values are `?`, names carry `prefix`.

_CONDITIONS = {
    "version": "old.version = excluded.version - 1",
    "latest": "old.digest <> excluded.digest AND excluded.at >= old.at",
}


def upsert(table: str, prefix: str, changed: str, values: str) -> str:
    """Insert a row, or let it take the place of the one that is there by the table's rule; returns the ids written."""
    names = list(TABLES[table].all_columns)
    if TABLES[table].conflict == "keep":
        rule = "DO NOTHING"
    else:
        sets = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        rule = f"DO UPDATE SET {sets}, changed = excluded.changed WHERE {_CONDITIONS[TABLES[table].conflict]}"
    return (
        f"INSERT INTO {prefix}{table} AS old ({', '.join(names)}, changed)"
        f" SELECT {', '.join(names)}, {changed} FROM {values} ON CONFLICT (id) {rule} RETURNING id"
    )


def select_equal(table: str, prefix: str, equal: Mapping[str, object]) -> str:
    """Select rows by the values of columns, then by an id to go on behind, then how many; in the order of their ids."""
    names = TABLES[table].all_columns
    if unknown := set(equal) - set(names):
        raise KeyError(f"{table} has no {', '.join(unknown)}")
    where = " AND ".join([*(f"{name} = ?" for name in equal), "id > ?"])
    return f"SELECT {', '.join(names)} FROM {prefix}{table} WHERE {where} ORDER BY id LIMIT ?"


def select_ids(table: str, prefix: str, among: str) -> str:
    """Select rows by their ids; `among` is how this database names a list."""
    return f"SELECT {', '.join(TABLES[table].all_columns)} FROM {prefix}{table} WHERE id {among}"


Migration = Callable[["psycopg.Connection[Any]"], None]


_FIRST_TABLES = {
    "agents": "key text, settings text",
    "user_context_files": "person text, path text, content text, version int",
    "skills": "name text, owner text, visibility text, content text, version int",
    "skill_grants": "skill text, grantee text, pinned text, granted_by text, granted_at text",
    "documents": "person text, path text, content text, version int",
    "document_versions": "document_id uuid, person text, path text, content text, version int",
    "sessions": "person text, number int, key text, begun text, ended text",
    "turns": "session_id uuid, number int, said_at text, provider text, steps int, prompt_tokens int,"
    " completion_tokens int, stopped text, undone bool, heard text, asked_by text, messages text",
    "summaries": "session_id uuid, upto uuid, said_at text, text text",
    "ledger": "day text, model text, cause text, channel text, requests int, prompt_tokens int, completion_tokens int,"
    " estimated int, money real, cached int, reasoning int",
}
_FIRST_COLUMNS = "id uuid, agent_id uuid, board text, at real, deleted bool, digest text"
_TYPES = {"text": 'text COLLATE "C"', "int": "bigint", "real": "double precision", "bool": "boolean", "uuid": "uuid"}


def create_tables(prefix: str, types: Mapping[str, str], changed: str, options: str = "") -> str:
    """The SQL of the first shared tables, in a database that has these names for types."""
    statements = []
    for table, own in _FIRST_TABLES.items():
        columns = [column.split() for column in f"{_FIRST_COLUMNS}, {own}".split(", ")]
        typed = ", ".join(f"{name} {types[kind]} NOT NULL" for name, kind in columns)
        statements += [
            f"CREATE TABLE {prefix}{table} ({typed}, changed {changed}, PRIMARY KEY (id)){options};",
            f"CREATE INDEX {table}_changed ON {prefix}{table} (agent_id, changed, id);",
        ]
    return "\n".join(statements)


def m001_shared(connection: "psycopg.Connection[Any]") -> None:
    """The shared tables, each with the number of the transaction that wrote a row last; boards and what they may see."""
    connection.execute(create_tables("picoclaw.", _TYPES, "xid8 NOT NULL DEFAULT pg_current_xact_id()"))
    connection.execute("""
        CREATE TABLE picoclaw.boards (
            name text PRIMARY KEY, role text NOT NULL UNIQUE, nonce text NOT NULL DEFAULT '',
            receipt text NOT NULL DEFAULT '', revoked boolean NOT NULL DEFAULT false
        );
        CREATE TABLE picoclaw.board_agents (
            board text NOT NULL REFERENCES picoclaw.boards ON DELETE CASCADE, agent_id uuid NOT NULL,
            PRIMARY KEY (board, agent_id)
        );
        CREATE TABLE picoclaw.chunks (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, document_id uuid NOT NULL, agent_id uuid NOT NULL,
            person text COLLATE "C" NOT NULL, path text COLLATE "C" NOT NULL, start bigint NOT NULL,
            "end" bigint NOT NULL, heading text NOT NULL, text text NOT NULL, words tsvector NOT NULL,
            model text COLLATE "C" NOT NULL, vector halfvec
        );
        CREATE INDEX chunks_document ON picoclaw.chunks (document_id);
        CREATE INDEX chunks_agent ON picoclaw.chunks (agent_id, person);
        CREATE INDEX chunks_words ON picoclaw.chunks USING gin (words);
        CREATE INDEX document_versions_document ON picoclaw.document_versions (document_id, version);
        CREATE INDEX turns_session ON picoclaw.turns (session_id);

        -- what the role that has connected may see; the definer reads the two tables for it
        CREATE FUNCTION picoclaw.visible_agents() RETURNS uuid[] LANGUAGE sql STABLE SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS $$
            SELECT coalesce(array_agg(agent_id), '{}') FROM picoclaw.board_agents
            JOIN picoclaw.boards ON name = board WHERE role = session_user AND NOT revoked
        $$;

        CREATE FUNCTION picoclaw.keep_version() RETURNS trigger LANGUAGE plpgsql
            SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            IF OLD.digest <> NEW.digest AND OLD.content <> '' THEN
                INSERT INTO picoclaw.document_versions (
                    id, agent_id, board, at, deleted, digest, document_id, person, path, content, version
                ) VALUES (
                    md5(OLD.id::text || ':' || OLD.version || ':' || OLD.digest)::uuid, OLD.agent_id, OLD.board, OLD.at,
                    OLD.deleted, OLD.digest, OLD.id, OLD.person, OLD.path, OLD.content, OLD.version
                ) ON CONFLICT DO NOTHING;
            END IF;
            DELETE FROM picoclaw.document_versions WHERE document_id = NEW.id AND version < NEW.version - 30;
            RETURN NULL;
        END $$;
        CREATE TRIGGER keep_version AFTER UPDATE ON picoclaw.documents
            FOR EACH ROW EXECUTE FUNCTION picoclaw.keep_version();

        ALTER TABLE picoclaw.boards ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.boards USING (role = session_user) WITH CHECK (role = session_user);
        ALTER TABLE picoclaw.board_agents ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.board_agents USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
    """)
    for table in (*_FIRST_TABLES, "chunks"):
        connection.execute(f"""
            ALTER TABLE picoclaw.{table} ENABLE ROW LEVEL SECURITY;
            CREATE POLICY own ON picoclaw.{table}
                USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
                WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        """)


def m002_ledger_person(connection: "psycopg.Connection[Any]") -> None:
    """For whom models were used, '' for the owner."""
    connection.execute("""ALTER TABLE picoclaw.ledger ADD COLUMN person text COLLATE "C" NOT NULL DEFAULT ''""")


def m003_own_skills(connection: "psycopg.Connection[Any]") -> None:
    """A board writes skills and grants under its own name alone, so that none is taken for another's; and not too much."""
    connection.execute("""
        CREATE FUNCTION picoclaw.own_board() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
            SET search_path = pg_catalog, pg_temp AS $$
            SELECT name FROM picoclaw.boards WHERE role = session_user AND NOT revoked
        $$;
        ALTER TABLE picoclaw.skills ADD CHECK (octet_length(content) <= 4000000 AND octet_length(name) <= 100);

        DROP POLICY own ON picoclaw.skills;
        CREATE POLICY seen ON picoclaw.skills FOR SELECT
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        CREATE POLICY added ON picoclaw.skills FOR INSERT
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]) AND board = (SELECT picoclaw.own_board()));
        CREATE POLICY changed ON picoclaw.skills FOR UPDATE
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]) AND board = (SELECT picoclaw.own_board()));

        DROP POLICY own ON picoclaw.skill_grants;
        CREATE POLICY seen ON picoclaw.skill_grants FOR SELECT
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        CREATE POLICY added ON picoclaw.skill_grants FOR INSERT
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]) AND board = (SELECT picoclaw.own_board()));
        CREATE POLICY changed ON picoclaw.skill_grants FOR UPDATE
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]) AND board = (SELECT picoclaw.own_board()));
    """)


MIGRATIONS: list[Migration] = [m001_shared, m002_ledger_person, m003_own_skills]


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
        from picoclaw.shared_store.postgres import PostgresStore

        return PostgresStore(url, password)
    if scheme == "sqlite" and rest.startswith("/"):
        from pathlib import Path

        from picoclaw.shared_store.sqlite import SqliteStore

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
