"""A shared store in PostgreSQL with pgvector, over psycopg 3: roles, row security and searches are the database's own.

Needs PostgreSQL 14 and pgvector 0.7 or newer (halfvec keeps the signed bytes of our vectors as they are). Names carry
their schema, nothing is prepared, and nothing but limits is set for a session, so that a pooler between (pgbouncer, by
transaction) does no harm: rights go by the user who has logged in, and a pooler lends a connection to no other user.

Changes are in the order of the numbers of transactions, and no row is given before every older transaction is over:
https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT

`picoclaw store setup` gives a board its role with the administrator's address: it may read and write the rows of its
agents and nothing else, so that a board which is stolen shows no more.
"""

import contextlib
import json
import re
import secrets
import select
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import conninfo, errors, sql
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from picoclaw.errors import ConfigError, StoreError, StoreNewer, StoreUnreachable
from picoclaw.memory.index import MemoryRow
from picoclaw.memory.search import VectorComparison
from picoclaw.records import NamedTuple
from picoclaw.shared_store.store import (
    ERASABLE,
    MIGRATIONS,
    PULLED,
    TABLES,
    BoardState,
    Changes,
    Chunks,
    ChunksState,
    Row,
    SearchScope,
    check_claim,
    check_erasable,
    clean_text,
    complete_row,
    drop_repeated,
    index_words,
    is_conflict,
    make_memory_row,
    select_equal,
    select_ids,
    split_query,
    upsert,
)

SCHEMA = "picoclaw."
_RECORD_TYPES = {"text": "text", "int": "bigint", "real": "double precision", "bool": "boolean", "uuid": "uuid"}
_CHUNK_TYPES = (
    'document_id uuid, start bigint, "end" bigint, heading text, text text, words text, model text, vector text'
)
_LOCK = 0x7069636F  # the advisory lock of migrations
_MIN_PGVECTOR = (0, 7)
_CONNECT_S, _STATEMENT_S, _LOCK_S, _IDLE_S = 5, 30, 10, 20
_CROWDED = 0.75
"""The part of a server's connections that may be held by boards which wait."""
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class PostgresStore:
    """One connection; it is opened when it is needed, and again after it broke. See SharedStore."""

    def __init__(self, url: str, password: str = "") -> None:
        """Read the address and connect. Raises ConfigError and StoreError."""
        self._options = read_address(url, password)
        self._password = str(self._options.get("password") or "")
        self.address = show_address(url)
        self._connection: psycopg.Connection[Any] | None = None
        self._board = ""
        self._listening: set[str] = set()
        with self._connected():
            pass

    # --- boards ---

    def claim(self, board: str, nonce: str) -> BoardState:
        with self._connected() as connection, connection.transaction():
            found = _fetch(connection, "SELECT role FROM picoclaw.boards WHERE name = %s", board)
            if not found:
                with _ignore_missing_right(connection):  # an owner of the schema needs no role for each board
                    connection.execute(
                        "INSERT INTO picoclaw.boards (name, role) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                        (board, f"{board} of {self._options['user']}"),
                    )
            connection.execute("UPDATE picoclaw.boards SET nonce = %s WHERE name = %s AND nonce = ''", (nonce, board))
            state = _fetch(
                connection,
                "SELECT nonce, receipt, revoked, pg_snapshot_xmin(now)::text, pg_snapshot_xmax(now)::text"
                " FROM picoclaw.boards, pg_current_snapshot() AS now WHERE name = %s",
                board,
            )
            agents = _fetch(connection, "SELECT agent_id FROM picoclaw.board_agents WHERE board = %s", board)
        if not state:
            raise StoreError(
                f"{self.address} knows no board {board!r} for this user: run `picoclaw store setup --board {board}` with"
                " the administrator's address, and use the address that it prints"
            )
        known, receipt, revoked, oldest, newest = state[0]
        check_claim(board, known == nonce, revoked)
        self._board = board
        return BoardState(receipt, tuple(agent for (agent,) in agents), oldest if oldest != newest else "")

    # --- rows ---

    def put(self, rows: Mapping[str, Iterable[Row]], chunks: Chunks | None = None, receipt: str = "") -> dict[str, Row]:
        conflicts: dict[str, Row] = {}
        agents: set[str] = set()
        with self._connected() as connection, connection.transaction():
            for table in (name for name in TABLES if name in rows):
                found = drop_repeated(complete_row(table, row, self._board) for row in rows[table])
                agents |= {row["agent_id"] for row in found} if table in PULLED else set()
                conflicts |= self._put_rows(connection, table, found)
            self._put_chunks(connection, {one: parts for one, parts in (chunks or {}).items() if one not in conflicts})
            if receipt:
                connection.execute("UPDATE picoclaw.boards SET receipt = %s WHERE name = %s", (receipt, self._board))
            for agent in agents:  # whose other boards are to look; nobody else does anything with costs and turns
                connection.execute("SELECT pg_notify(%s, %s)", (f"picoclaw {agent}", self._board))
        return conflicts

    def _put_rows(self, connection: "psycopg.Connection[Any]", table: str, rows: Sequence[Row]) -> dict[str, Row]:
        columns = ", ".join(f"{name} {_RECORD_TYPES[kind]}" for name, kind in TABLES[table].all_columns.items())
        values = f"jsonb_to_recordset(%s::jsonb) AS given({columns}) WHERE true"
        sql = upsert(table, SCHEMA, "pg_current_xact_id()", values)
        written = {one for (one,) in _fetch(connection, sql, json.dumps(rows, ensure_ascii=False))} if rows else set()
        left = {row["id"]: row for row in rows if row["id"] not in written}
        if not left or TABLES[table].conflict != "version":
            return {}
        found = self._select_ids(connection, table, left)
        return {row["id"]: row for row in found if is_conflict(table, left[row["id"]], row)}

    def _put_chunks(self, connection: "psycopg.Connection[Any]", chunks: Chunks) -> None:
        if not chunks:
            return
        connection.execute("DELETE FROM picoclaw.chunks WHERE document_id = ANY (%s::uuid[])", (list(chunks),))
        given = [
            {
                "document_id": document,
                "start": part.start,
                "end": part.end,
                "heading": clean_text(part.heading),
                "text": clean_text(part.text),
                "words": index_words(clean_text(part.heading), clean_text(part.text)),
                "model": part.model if part.vector else "",
                "vector": _write_vector(array("b", part.vector)) if part.vector else None,
            }
            for document, parts in chunks.items()
            for part in parts
        ]
        connection.execute(
            'INSERT INTO picoclaw.chunks (document_id, agent_id, person, path, start, "end", heading, text, words,'
            ' model, vector) SELECT document_id, agent_id, person, path, start, "end", heading, text,'
            " to_tsvector('simple', words), model, vector::halfvec"
            f" FROM jsonb_to_recordset(%s::jsonb) AS given({_CHUNK_TYPES}) JOIN"
            " (SELECT id, agent_id, person, path FROM picoclaw.documents) AS page ON page.id = document_id",
            (json.dumps(given, ensure_ascii=False),),
        )

    def get(self, table: str, ids: Iterable[str]) -> list[Row]:
        with self._connected() as connection:
            return self._select_ids(connection, table, ids)

    def _select_ids(self, connection: "psycopg.Connection[Any]", table: str, ids: Iterable[str]) -> list[Row]:
        with connection.cursor(row_factory=dict_row) as cursor:
            sql = select_ids(table, SCHEMA, "= ANY (%s::uuid[])")
            return list(cursor.execute(sql, (list(ids),)))

    def list_rows(self, table: str, equal: Mapping[str, object], after: str = "", most: int = 500) -> list[Row]:
        sql = select_equal(table, SCHEMA, equal).replace("?", "%s")
        with self._connected() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return list(cursor.execute(sql, (*equal.values(), after or _FIRST_ID, most)))

    def count_rows(self, agent_id: str) -> dict[str, int]:
        counts = (f"(SELECT count(*) FROM picoclaw.{name} WHERE agent_id = %s AND NOT deleted)" for name in TABLES)
        found = self._select(f"SELECT {', '.join(counts)}", *[agent_id] * len(TABLES))[0]
        return dict(zip(TABLES, found, strict=True))

    def delete(self, table: str, ids: Iterable[str]) -> int:
        check_erasable(table)
        with self._connected() as connection:
            return int(
                connection.execute(f"DELETE FROM picoclaw.{table} WHERE id = ANY (%s::uuid[])", (list(ids),)).rowcount
            )

    def changes(self, table: str, agent_id: str, after: str, most: int = 500) -> Changes:
        changed, _, last = after.partition(" ")
        names = ", ".join(TABLES[table].all_columns)
        with self._connected() as connection, connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(
                f"SELECT changed::text, {names} FROM picoclaw.{table}"
                " WHERE agent_id = %s AND (changed, id) > (%s::xid8, %s::uuid)"
                " AND changed < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY picoclaw."
                f"{table}.changed, id LIMIT %s",
                (agent_id, changed or "0", last or _FIRST_ID, most),
            ).fetchall()
        numbers = [row.pop("changed") for row in rows]
        return Changes(rows, f"{numbers[-1]} {rows[-1]['id']}" if rows else after)

    def wait(self, agents: Iterable[str], seconds: float, wake: int = -1) -> bool:
        until = time.monotonic() + seconds
        with self._connected() as connection:
            for agent in set(agents) - self._listening:
                connection.execute(f'LISTEN "picoclaw {agent}"')
                self._listening.add(agent)
                until = 0.0  # nobody has told of what was put since the last look: whoever waits looks once more
            while True:
                if any(notice.payload != self._board for notice in connection.notifies(timeout=0)):
                    return True
                left = until - time.monotonic()
                handles = [connection.fileno(), *([wake] if wake >= 0 else [])]
                ready = select.select(handles, [], [], left)[0] if left > 0 else []
                if connection.fileno() not in ready:
                    return False

    def describe_chunks(self, documents: Iterable[str]) -> dict[str, ChunksState]:
        found = self._select(
            "SELECT document_id, count(*), count(vector), max(model) FROM picoclaw.chunks"
            " WHERE document_id = ANY (%s::uuid[]) GROUP BY document_id",
            list(documents),
        )
        return {document: ChunksState(*state) for document, *state in found}

    def can_wait(self) -> bool:
        with self._connected() as connection:
            number, held, most = _fetch(
                connection,
                "SELECT pg_backend_pid(), (SELECT sum(numbackends)::int FROM pg_stat_database),"
                " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int",
            )[0]
        return bool(
            number == connection.info.backend_pid and held <= most * _CROWDED
        )  # a pooler gives numbers of its own

    def _select(self, sql: str, *values: Any) -> list[Any]:
        with self._connected() as connection:
            return _fetch(connection, sql, *values)

    # --- searches ---

    def count_chunks(self, scope: SearchScope, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]:
        queries = {word: _make_query(forms) for word, forms in words.items()}
        asked = {word: query for word, query in queries.items() if query}
        counts = "".join(", count(*) FILTER (WHERE words @@ %s::tsquery)" for _ in asked)
        # row security keeps @@ from the index of words (it is not leakproof), so that an agent's chunks are read: once for
        # all words, and each is unpacked once
        words_of = "words || ''::tsvector AS words" if asked else "1"
        sql = (
            f"SELECT count(*){counts} FROM (SELECT {words_of} FROM picoclaw.chunks"
            " WHERE agent_id = %s AND person = ANY (%s) OFFSET 0) AS scoped"
        )
        total, *found = self._select(sql, *asked.values(), scope.agent_id, list(scope.people))[0]
        return total, dict.fromkeys(words, 0) | dict(zip(asked, found, strict=True))

    def match_chunks(self, scope: SearchScope, weights: Mapping[str, float], most: int) -> list[tuple[int, float]]:
        terms = {query: weight for word, weight in weights.items() if (query := _make_query([word]))}
        if not terms:
            return []
        worth = " + ".join("%s * ts_rank(words, %s::tsquery, 1)" for _ in terms)
        values = [value for query, weight in terms.items() for value in (weight, query)]
        return self._select(
            f"SELECT number, {worth} AS worth FROM picoclaw.chunks WHERE agent_id = %s AND person = ANY (%s)"
            " AND words @@ %s::tsquery ORDER BY worth DESC, number LIMIT %s",
            *(*values, scope.agent_id, list(scope.people), " | ".join(terms), most),
        )

    def get_chunks(self, scope: SearchScope, numbers: Iterable[int]) -> list[MemoryRow]:
        found = self._select(
            'SELECT number, path, start, "end", heading, text FROM picoclaw.chunks'
            " WHERE number = ANY (%s) AND agent_id = %s AND person = ANY (%s)",
            *(list(numbers), scope.agent_id, list(scope.people)),
        )
        return [make_memory_row(row) for row in found]

    def compare_vectors(
        self, scope: SearchScope, model: str, vector: Sequence[float], most: int, others: Iterable[int]
    ) -> VectorComparison | None:
        found = self._select(
            "WITH scoped AS MATERIALIZED ("
            " SELECT number, 1 - (vector <=> %s::halfvec) AS cosine FROM picoclaw.chunks"
            " WHERE agent_id = %s AND person = ANY (%s) AND model = %s AND vector_dims(vector) = %s"
            "), nearest AS (SELECT number FROM scoped ORDER BY cosine DESC LIMIT %s)"
            " SELECT number, cosine, NULL, NULL, NULL FROM scoped"
            " WHERE number = ANY (%s) OR number IN (SELECT number FROM nearest)"
            " UNION ALL SELECT count(*), avg(cosine), stddev_pop(cosine), max(cosine), true FROM scoped",
            *(_write_vector(vector), scope.agent_id, list(scope.people), model, len(vector), most, list(others)),
        )
        *rows, (count, mean, deviation, best, _) = sorted(found, key=lambda row: row[4] is not None)
        if not count:
            return None
        return VectorComparison(count, mean, deviation, best, {number: cosine for number, cosine, *_ in rows})

    def sample_vectors(
        self, scope: SearchScope, model: str, probes: Sequence[Sequence[float]], most: int
    ) -> tuple[float, int]:
        found = self._select(
            "WITH taken AS MATERIALIZED (SELECT vector FROM picoclaw.chunks WHERE agent_id = %s AND person = ANY (%s)"
            " AND model = %s AND vector_dims(vector) = %s LIMIT %s),"
            " probes AS MATERIALIZED (SELECT number, one::halfvec AS probe FROM unnest(%s::text[])"
            " WITH ORDINALITY AS given (one, number))"
            " SELECT max(1 - (vector <=> probe)), count(*) FROM taken, probes GROUP BY number ORDER BY 1 DESC",
            *(scope.agent_id, list(scope.people), model, len(probes[0]), most, [_write_vector(p) for p in probes]),
        )
        return (found[min(1, len(found) - 1)][0], found[0][1]) if found else (0.0, 0)

    # --- the connection ---

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator["psycopg.Connection[Any]"]:
        """Give the connection, open it where there is none, and put what goes wrong into words."""
        with self._explained():
            connection = self._connection
            if connection is None or connection.closed:
                connection = self._connection = self._open()
            try:
                yield connection
            except psycopg.OperationalError:
                if connection.broken:
                    self.close()
                raise

    def _open(self) -> "psycopg.Connection[Any]":
        connection = connect(self._options)
        self._listening.clear()
        try:
            check_migrations(connection, self.address)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        with explain_errors(self.address, self._password):
            yield


_FIRST_ID = "00000000-0000-0000-0000-000000000000"


def read_address(url: str, password: str = "") -> dict[str, Any]:
    """Read an address into libpq's options, with ours where it has none. Raises ConfigError."""
    try:
        options: dict[str, Any] = dict(conninfo.conninfo_to_dict(url))
    except psycopg.Error:  # whose text repeats the address
        raise ConfigError("[store] url cannot be read: it must be postgresql://USER@HOST/DATABASE") from None
    host = str(options.get("host") or options.get("hostaddr") or "")
    is_local = not host or host.startswith(("/", "127.")) or host in {"localhost", "::1"}
    if not options.get("user"):
        raise ConfigError("[store] url names no user: postgresql://USER@HOST/DATABASE")
    if password:
        options["password"] = password
    defaults = {"connect_timeout": _CONNECT_S, "sslmode": "prefer" if is_local else "require"}
    return {**defaults, **_KEEPALIVE, "application_name": "picoclaw", **options}


def show_address(url: str) -> str:
    """The address without a password and without options."""
    try:
        found = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        return "the store"
    host, port = str(found.get("host") or ""), found.get("port")
    return f"postgresql://{found.get('user', '')}@{host}{f':{port}' if port else ''}/{found.get('dbname', '')}"


def connect(options: Mapping[str, Any]) -> "psycopg.Connection[Any]":
    """Connect; a server that hangs is given up after some seconds. Raises psycopg.Error."""
    connection = psycopg.connect(autocommit=True, prepare_threshold=None, **options)
    connection.adapters.register_loader("uuid", TextLoader)  # ours are texts everywhere else
    connection.execute(
        f"SET statement_timeout = '{_STATEMENT_S}s'; SET lock_timeout = '{_LOCK_S}s';"
        f" SET idle_in_transaction_session_timeout = '{_IDLE_S}s'"
    )
    return connection


@contextlib.contextmanager
def explain_errors(address: str, password: str = "") -> Iterator[None]:
    """Put psycopg's errors into words, without a password. Raises StoreError and StoreUnreachable."""
    try:
        yield
    except psycopg.Error as error:
        text = _explain(error)
        kind = StoreUnreachable if is_passing(error) else StoreError
        said = f"{address}: {text}"
        raise kind(said.replace(password, "…") if password else said) from None


def is_passing(error: psycopg.Error) -> bool:
    """Whether another try may work without anybody's doing."""
    if error.sqlstate is None:  # libpq's own, and the server's while it lets nobody in
        return isinstance(error, psycopg.OperationalError) and not _NEEDS_OWNER.search(str(error))
    return error.sqlstate[:2] in {"08", "40", "53", "57", "55"} or isinstance(error, errors.ReadOnlySqlTransaction)


_NEEDS_OWNER = re.compile(
    r"password|(?:role|database) \"[^\"]*\" does not exist|pg_hba\.conf|permitted to log in|does not support SSL|certificate"
)
_EXPLANATIONS: list[tuple[str, str]] = [
    ("not permitted to log in", "this board was revoked; `picoclaw store setup` lets it in again"),
    ("password authentication failed", "it does not take the password; `picoclaw store setup` makes a new one"),
    ("no password supplied", "it asks for a password: put it into secrets.toml as store_password"),
    (r'role "[^"]*" does not exist', "it knows no such user; `picoclaw store setup` makes one for a board"),
    (r'database "[^"]*" does not exist', "it has no such database; create it, then run `picoclaw store setup`"),
    ("no pg_hba.conf entry", "it lets nobody in from here: its pg_hba.conf has no line for this user and address"),
    ("does not support SSL", "it speaks no TLS; set it up there, or add ?sslmode=disable to the address at your risk"),
    ("certificate verify failed", "its certificate is not signed by an authority that is trusted here (sslrootcert)"),
    ("does not match host name", "its certificate is for another host"),
    ("could not translate host name|Name or service not known|resolve", "there is no such host, or no network"),
    ("Connection refused", "nothing listens there: the database is down, or the port is wrong"),
    ("timeout expired|timed out|Connection timed out", "it does not answer in time"),
    (
        "too many clients|too many connections|remaining connection slots|no more connections allowed",
        "it has no connection left; raise max_connections, or use a pooler",
    ),
    (
        "server closed the connection|connection is lost|EOF detected|reset by peer|Broken pipe|is closed",
        "the connection broke",
    ),
]


def _explain(error: psycopg.Error) -> str:
    known = {
        errors.QueryCanceled: f"it took longer than {_STATEMENT_S} seconds and was stopped",
        errors.ReadOnlySqlTransaction: "it is read-only now (a standby, or being maintained); what is new waits here",
        errors.AdminShutdown: "it is being shut down",
        errors.CannotConnectNow: "it is starting up or shutting down",
        errors.InvalidPassword: _EXPLANATIONS[1][1],
        errors.InvalidSchemaName: "it is not set up: run `picoclaw store setup` with the administrator's address",
        errors.UndefinedTable: "it is not set up: run `picoclaw store setup` with the administrator's address",
        errors.DiskFull: "its disk is full",
        errors.InsufficientPrivilege: f"this user may not do that ({' '.join(str(error).split())})",
    }
    for kind, text in known.items():
        if isinstance(error, kind):
            return text
    said = " ".join(str(error).split())
    return next((text for form, text in _EXPLANATIONS if re.search(form, said)), said[:300] or type(error).__name__)


@contextlib.contextmanager
def _ignore_missing_right(connection: "psycopg.Connection[Any]") -> Iterator[None]:
    with contextlib.suppress(errors.InsufficientPrivilege), connection.transaction():
        yield


def _fetch(connection: "psycopg.Connection[Any]", sql: str, *values: object) -> list[Any]:
    return list(connection.execute(sql, values))


def _write_vector(values: Iterable[float]) -> str:
    return f"[{','.join(f'{value:.7g}' for value in values)}]"


def _make_query(words: Iterable[str]) -> str:
    """Write words as a tsquery; one that is several terms is a phrase. Terms are letters and digits only."""
    phrases = [split_query(word) for word in words]
    said = [" <-> ".join(f"'{term}'" for term in phrase) for phrase in phrases if phrase]
    return " | ".join(f"({one})" for one in dict.fromkeys(said))


# How the database came to its present shape.


def check_migrations(connection: "psycopg.Connection[Any]", address: str) -> None:
    """Migrate what is older, if this user may; raises StoreNewer and StoreError where it cannot be used."""
    done: list[str] = []
    try:
        done = refuse_newer(connection, address)
        if len(done) < len(MIGRATIONS):
            migrate(connection)
    except errors.InsufficientPrivilege:
        what = "was set up by an older picoclaw" if done else "is not set up"
        raise StoreError(f"{address} {what}: run `picoclaw store setup` with the administrator's address") from None


def refuse_newer(connection: "psycopg.Connection[Any]", address: str) -> list[str]:
    """List the migrations that were done; raises StoreNewer for one that is not known here."""
    done = _list_migrations(connection)
    if newer := sorted(set(done) - {migration.__name__ for migration in MIGRATIONS}):
        raise StoreNewer(
            f"{address} was set up by a newer picoclaw (it holds {newer[-1]}); nothing was changed; update picoclaw"
        )
    return done


def _list_migrations(connection: "psycopg.Connection[Any]") -> list[str]:
    # asked of the catalogue itself: to_regclass may answer from a cache that is older than the lock of `migrate`
    found = "SELECT 1 FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace"
    if not _fetch(connection, f"{found} WHERE nspname = 'picoclaw' AND relname = 'migrations'"):
        return []
    return [name for (name,) in _fetch(connection, "SELECT name FROM picoclaw.migrations ORDER BY name")]


def migrate(connection: "psycopg.Connection[Any]") -> list[str]:
    """Bring the database to this version, in one transaction that others wait for; returns what was done."""
    with connection.transaction():
        # a million rows take more than _STATEMENT_S, and who comes second waits for that; but a lock that the first one
        # cannot have is given up, because everybody queues behind it
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_S}s'")
        done = _list_migrations(connection)
        missing = [migration for migration in MIGRATIONS if migration.__name__ not in done]
        if missing and not done:
            _prepare_schema(connection)
        for migration in missing:
            migration(connection)
            connection.execute("INSERT INTO picoclaw.migrations (name) VALUES (%s)", (migration.__name__,))
    return [migration.__name__ for migration in missing]


def _prepare_schema(connection: "psycopg.Connection[Any]") -> None:
    found = _fetch(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if not found:
        connection.execute("CREATE EXTENSION vector")
        found = _fetch(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    version = str(found[0][0])
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _MIN_PGVECTOR:
        raise StoreError(
            f"the database has pgvector {version}, and 0.7 or newer is needed (ALTER EXTENSION vector UPDATE)"
        )
    connection.execute("CREATE SCHEMA picoclaw")
    connection.execute(
        "CREATE TABLE picoclaw.migrations (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
    )


GROUP = "picoclaw_boards"
_BOARD_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")
_MAX_CONNECTIONS = 6
_LIMITS = {"statement_timeout": "30s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "20s"}


class BoardRole(NamedTuple):
    """What a board connects with, and which other boards have one of its agents."""

    address: str
    password: str
    migrations: list[str]
    sharing: dict[str, list[str]]


def check_board_name(board: str) -> str:
    if not _BOARD_NAME.fullmatch(board):
        raise ConfigError(f"{board!r} is no name for a board: it takes small letters, digits, - and _, 48 at most")
    return board


@contextlib.contextmanager
def administer(url: str, password: str = "") -> Iterator["psycopg.Connection[Any]"]:
    """Connect as the administrator. Raises ConfigError and StoreError."""
    options = read_address(url, password)
    with explain_errors(show_address(url), str(options.get("password") or "")):
        connection = connect(options)
        with contextlib.closing(connection):
            yield connection


def set_up_board(url: str, password: str, board: str, agents: Mapping[str, str], *, replaces: bool) -> BoardRole:
    """Make or renew schema, roles and the board's rights; `agents` are its keys and ids. Raises StoreError.

    The board gets a new password. `replaces` lets another home take the board's name.
    """
    role, fresh = f"picoclaw_{check_board_name(board)}", secrets.token_urlsafe(24)
    with administer(url, password) as connection:
        refuse_newer(connection, show_address(url))
        done = migrate(connection)
        with connection.transaction():
            _make_group(connection)
            known = _fetch_rows(connection, "SELECT role FROM picoclaw.boards WHERE name = %s", board)
            exists = _fetch_rows(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", role)
            if exists and known != [(role,)]:
                raise StoreError(f"this server has a user {role!r} already, for another database; take another --board")
            if known and known != [(role,)]:
                raise StoreError(f"the board {board!r} writes as the user who owns the tables; take another --board")
            _make_role(connection, role, fresh, is_new=not exists)
            connection.execute(
                "INSERT INTO picoclaw.boards (name, role) VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET revoked = false",
                (board, role),
            )
            if replaces:
                connection.execute("UPDATE picoclaw.boards SET nonce = '' WHERE name = %s", (board,))
            connection.execute("DELETE FROM picoclaw.board_agents WHERE board = %s", (board,))
            for agent in agents.values():
                connection.execute("INSERT INTO picoclaw.board_agents VALUES (%s, %s)", (board, agent))
            sharing = {
                key: [
                    name
                    for (name,) in _fetch_rows(
                        connection,
                        "SELECT board FROM picoclaw.board_agents WHERE agent_id = %s AND board <> %s ORDER BY 1",
                        agent,
                        board,
                    )
                ]
                for key, agent in agents.items()
            }
    return BoardRole(_make_address(url, role), fresh, done, sharing)


def revoke_board(url: str, password: str, board: str) -> int:
    """Let a board in no more, and end its connections; returns how many. What it has written stays. Raises StoreError."""
    with administer(url, password) as connection:
        found = _fetch_rows(
            connection, "UPDATE picoclaw.boards SET revoked = true WHERE name = %s RETURNING role", board
        )
        if not found:
            known = ", ".join(
                name for (name,) in _fetch_rows(connection, "SELECT name FROM picoclaw.boards ORDER BY 1")
            )
            raise StoreError(f"the store knows no board {board!r}; it has {known or 'none'}")
        role = found[0][0]
        if _fetch_rows(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", role):
            connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(role)))
        ended = _fetch_rows(
            connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role
        )
        return len(ended)


def _make_group(connection: "psycopg.Connection[Any]") -> None:
    """The rights that all boards have on the tables; which rows they are is the policies' matter."""
    if not _fetch_rows(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", GROUP):
        connection.execute(f"CREATE ROLE {GROUP} NOLOGIN")
    tables = ", ".join(f"picoclaw.{name}" for name in (*TABLES, "chunks"))
    erasable = ", ".join(f"picoclaw.{name}" for name in (*ERASABLE, "chunks"))
    for right in (
        "USAGE ON SCHEMA picoclaw",
        f"SELECT, INSERT, UPDATE ON {tables}",
        f"DELETE ON {erasable}",
        "SELECT ON picoclaw.migrations, picoclaw.boards, picoclaw.board_agents",
        "UPDATE (nonce, receipt) ON picoclaw.boards",
    ):
        connection.execute(f"GRANT {right} TO {GROUP}")


def _make_role(connection: "psycopg.Connection[Any]", role: str, password: str, *, is_new: bool) -> None:
    name = sql.Identifier(role)
    if is_new:
        connection.execute(sql.SQL("CREATE ROLE {}").format(name))
    # the server, and its log, are only given what a password is compared with
    secret = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(
        sql.SQL(
            "ALTER ROLE {} LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
            f" CONNECTION LIMIT {_MAX_CONNECTIONS} PASSWORD {{}}"
        ).format(name, sql.Literal(secret))
    )
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(GROUP), name))
    for setting, value in _LIMITS.items():
        connection.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(setting), sql.Literal(value))
        )
    database = sql.Identifier(str(connection.info.dbname))
    connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))


def _make_address(url: str, role: str) -> str:
    """The administrator's address as the board's: with its user, and without a password."""
    scheme, _, rest = url.partition("://")
    authority, slash, tail = rest.partition("/")
    return f"{scheme}://{role}@{authority.rpartition('@')[2]}{slash}{tail}"


def _fetch_rows(connection: "psycopg.Connection[Any]", statement: str, *values: object) -> list[Any]:
    return list(connection.execute(statement, values))
