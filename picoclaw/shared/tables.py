"""The tables that boards share, as data: columns, keys, and what happens to a row that two boards have written.

The same names and meanings hold in SQLite and in PostgreSQL; store.py has what can be done with them. Ids are UUIDs that
follow from what a row is, so that a board that sends one again, or two that make the same page, mean the same row.

How PostgreSQL came to its present shape is in MIGRATIONS: by name, each as the SQL that was run. What was released is
never changed: a table that changes here gets another migration, here and in sqlite.py. Each runs once, in a transaction
that the other boards wait for; see `migrate` in postgres.py.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from picoclaw.records import NamedTuple
from picoclaw.text import replace_surrogates

if TYPE_CHECKING:
    import psycopg

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
_TYPES = {
    "text": 'text COLLATE "C"',
    "int": "bigint",
    "real": "double precision",
    "bool": "boolean",
    "uuid": "uuid",
}


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
