"""How a shared store in PostgreSQL came to its present shape: by name, each as the SQL that was run.

What was released is never changed: a table that changes in tables.py gets another migration, here and in sqlite.py. Each
runs once, in a transaction that the other boards wait for; see `migrate` in postgres.py.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

Migration = Callable[["psycopg.Connection[Any]"], None]


def m001_shared(connection: "psycopg.Connection[Any]") -> None:
    """The shared tables, each with the number of the transaction that wrote a row last; boards and what they may see."""
    connection.execute("""
        CREATE TABLE picoclaw.agents (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
            settings text COLLATE "C" NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY
            (id)
        );
        CREATE INDEX agents_changed ON picoclaw.agents (agent_id, changed, id);
        CREATE TABLE picoclaw.user_context_files (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, person text COLLATE "C" NOT NULL,
            path text COLLATE "C" NOT NULL, content text COLLATE "C" NOT NULL, version bigint NOT NULL, changed
            xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX user_context_files_changed ON picoclaw.user_context_files (agent_id, changed, id);
        CREATE TABLE picoclaw.skills (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
            owner text COLLATE "C" NOT NULL, visibility text COLLATE "C" NOT NULL, content text COLLATE "C" NOT
            NULL, version bigint NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX skills_changed ON picoclaw.skills (agent_id, changed, id);
        CREATE TABLE picoclaw.skill_grants (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, skill text COLLATE "C" NOT NULL,
            grantee text COLLATE "C" NOT NULL, pinned text COLLATE "C" NOT NULL, granted_by text COLLATE "C" NOT
            NULL, granted_at text COLLATE "C" NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
            PRIMARY KEY (id)
        );
        CREATE INDEX skill_grants_changed ON picoclaw.skill_grants (agent_id, changed, id);
        CREATE TABLE picoclaw.documents (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, person text COLLATE "C" NOT NULL,
            path text COLLATE "C" NOT NULL, content text COLLATE "C" NOT NULL, version bigint NOT NULL, changed
            xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX documents_changed ON picoclaw.documents (agent_id, changed, id);
        CREATE TABLE picoclaw.document_versions (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, document_id uuid NOT NULL, person
            text COLLATE "C" NOT NULL, path text COLLATE "C" NOT NULL, content text COLLATE "C" NOT NULL,
            version bigint NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX document_versions_changed ON picoclaw.document_versions (agent_id, changed, id);
        CREATE TABLE picoclaw.sessions (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, person text COLLATE "C" NOT NULL,
            number bigint NOT NULL, key text COLLATE "C" NOT NULL, begun text COLLATE "C" NOT NULL, ended text
            COLLATE "C" NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX sessions_changed ON picoclaw.sessions (agent_id, changed, id);
        CREATE TABLE picoclaw.turns (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, session_id uuid NOT NULL, number
            bigint NOT NULL, said_at text COLLATE "C" NOT NULL, provider text COLLATE "C" NOT NULL, steps bigint
            NOT NULL, prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL, stopped text COLLATE "C"
            NOT NULL, undone boolean NOT NULL, heard text COLLATE "C" NOT NULL, asked_by text COLLATE "C" NOT
            NULL, messages text COLLATE "C" NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
            PRIMARY KEY (id)
        );
        CREATE INDEX turns_changed ON picoclaw.turns (agent_id, changed, id);
        CREATE TABLE picoclaw.summaries (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, session_id uuid NOT NULL, upto
            uuid NOT NULL, said_at text COLLATE "C" NOT NULL, text text COLLATE "C" NOT NULL, changed xid8 NOT
            NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX summaries_changed ON picoclaw.summaries (agent_id, changed, id);
        CREATE TABLE picoclaw.ledger (
            id uuid NOT NULL, agent_id uuid NOT NULL, board text COLLATE "C" NOT NULL, at double precision NOT
            NULL, deleted boolean NOT NULL, digest text COLLATE "C" NOT NULL, day text COLLATE "C" NOT NULL,
            model text COLLATE "C" NOT NULL, cause text COLLATE "C" NOT NULL, channel text COLLATE "C" NOT NULL,
            requests bigint NOT NULL, prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL,
            estimated bigint NOT NULL, money double precision NOT NULL, cached bigint NOT NULL, reasoning bigint
            NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (id)
        );
        CREATE INDEX ledger_changed ON picoclaw.ledger (agent_id, changed, id);
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
        ALTER TABLE picoclaw.agents ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.agents
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.user_context_files ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.user_context_files
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.skills ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.skills
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.skill_grants ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.skill_grants
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.documents ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.documents
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.document_versions ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.document_versions
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.sessions ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.sessions
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.turns ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.turns
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.summaries ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.summaries
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.ledger ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.ledger
            USING (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]))
            WITH CHECK (agent_id = ANY ((SELECT picoclaw.visible_agents())::uuid[]));
        ALTER TABLE picoclaw.chunks ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON picoclaw.chunks
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
