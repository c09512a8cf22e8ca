"""How a shared store in PostgreSQL came to its present shape: by name, each as the SQL that was run.

What was released is never changed: a table that changes in tables.py gets another migration, here and in sqlite.py. Each
runs once, in a transaction that the other boards wait for; see `migrate` in postgres.py.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

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
