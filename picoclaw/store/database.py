"""Opens `state.db` and `history.db`: write-ahead logs, synced at every commit; has their tables, made by named migrations.

These are the migrations of picoclaw's own homes; maintenance/import_home.py takes over homes of other agents. The first migration of each database makes today's tables in an empty file, and brings those of an earlier one to the
same shape; databases remember its name, and those of the migrations before it, which it replaced. A change of shape is
a function at the end of the list, and the first one is not touched for it.

Knows SQLite's settings and its errors; what the tables mean is known to the modules beside this one.
Settings: https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous (FULL syncs the log at
each commit, so a transaction that was reported done survives a power cut).

A log that is there before anybody has opened the file says that the last one was cut off: then, and where damage was
met before, the file is looked through first. What is done about damage is known to maintenance/repair.py.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from weakref import WeakSet

import apsw

from picoclaw.errors import StoreDamaged, StoreError, StoreNewer
from picoclaw.files import check_regular, create_file, explain_os_error, remove_file, sync_folder
from picoclaw.text import replace_surrogates

HISTORY_FILE = "history.db"
_OLDEST = "m014_ledger"
"""The newest migration of the oldest home that opens, of 2026-11-22; there is none in a file that is being made."""

_STATE_TABLES = """
-- A session is a conversation; `key` names the chat, as `channel:chat:thread`, and the one without `ended` is open.
-- `prefix` is what every request begins with, so that a server with a prompt cache need not read it again; `agent` is
-- the key of the one it is held with ('' for the home's own), `person` whose it is, by the name in [people] ('' for the
-- owner). Numbers of sessions, turns and results are never used again: a model, an index or a summary that is being
-- written may still mean the one that had it.
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL,
    shown_from INTEGER NOT NULL DEFAULT 0, -- older turns stay here and are no longer sent to a model
    begun TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
    flushed INTEGER NOT NULL DEFAULT 0, -- the newest turn when a model last wrote down what must outlast it
    prefix TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', person TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS open_sessions ON sessions (key) WHERE ended = '';

-- `inbox` is what a turn answers, 0 for what came another way; `heard` the untrusted sources that it rests on, a JSON
-- list; `asked_by` who else than the owner has asked, such as telegram:12345: in a group they share the conversation.
CREATE TABLE IF NOT EXISTS turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions, at TEXT NOT NULL,
    provider TEXT NOT NULL, steps INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, stopped TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0,
    inbox INTEGER NOT NULL DEFAULT 0, heard TEXT NOT NULL DEFAULT '[]', asked_by TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS turns_of_session ON turns (session, id);
CREATE INDEX IF NOT EXISTS turns_of_inbox ON turns (inbox) WHERE inbox > 0;

-- The messages of a turn, exactly as they went to and came from a model.
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, turn INTEGER NOT NULL REFERENCES turns, role TEXT NOT NULL, text TEXT NOT NULL,
    calls TEXT NOT NULL DEFAULT '[]', call_id TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS messages_of_turn ON messages (turn, id);

-- What was said up to a turn, `upto`, that one included.
CREATE TABLE IF NOT EXISTS summaries (
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions, upto INTEGER NOT NULL, at TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS summaries_of_session ON summaries (session, id);

-- Results that are too long to be shown whole.
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions, at TEXT NOT NULL,
    tool TEXT NOT NULL, text TEXT NOT NULL, process TEXT NOT NULL,
    turn INTEGER NOT NULL DEFAULT 0 -- that of this process which was kept next
) STRICT;
CREATE INDEX IF NOT EXISTS results_of_session ON results (session, id);

-- The tokens of turns that are not kept any more.
CREATE TABLE IF NOT EXISTS spent (
    day TEXT NOT NULL, key TEXT NOT NULL, provider TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, PRIMARY KEY (day, key, provider)
) STRICT, WITHOUT ROWID;

-- Calls that change something, written down before they run; a row outlives its turn only after a cut. A number is
-- never used again: the one who was shown an act crosses it off by its number, perhaps much later.
CREATE TABLE IF NOT EXISTS acts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, at TEXT NOT NULL, tool TEXT NOT NULL,
    arguments TEXT NOT NULL, process TEXT NOT NULL
) STRICT;

-- Jobs of every kind and plan. `due` is the anchor of the plan, in seconds since the epoch; `boot` and `mono` say when
-- that is by the clock of one boot that nobody can set. A cron job's slots up to `after` are decided, and those within
-- the spans `done` were done; what is due within those `paused` is left out. `claimed` names the process that runs it,
-- `agent` the one that does it ('' for the home's own), `who` whoever planned it, as their channel calls them: it is
-- done with the rights that they have by then. `heading` is in the language that a reminder was set in. A number is
-- never used again: a person, or a model, may still mean the job that had it.
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, message TEXT NOT NULL, due REAL NOT NULL,
    claimed TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL DEFAULT 'reminder', plan TEXT NOT NULL DEFAULT 'at',
    spec TEXT NOT NULL DEFAULT '', zone TEXT NOT NULL DEFAULT '', boot TEXT NOT NULL DEFAULT '',
    mono REAL NOT NULL DEFAULT 0, after REAL NOT NULL DEFAULT 0, done TEXT NOT NULL DEFAULT '[]',
    catch_up TEXT NOT NULL DEFAULT 'once', deliver TEXT NOT NULL DEFAULT 'always', enabled INTEGER NOT NULL DEFAULT 1,
    rounds INTEGER NOT NULL DEFAULT 0, last_slot TEXT NOT NULL DEFAULT '', last_run REAL NOT NULL DEFAULT 0,
    last_status TEXT NOT NULL DEFAULT '', last_error TEXT NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT 0,
    told TEXT NOT NULL DEFAULT '', may_write INTEGER NOT NULL DEFAULT 0, may_network INTEGER NOT NULL DEFAULT 0,
    agent TEXT NOT NULL DEFAULT '', heading TEXT NOT NULL DEFAULT 'Reminder:', who TEXT NOT NULL DEFAULT '', paused TEXT NOT NULL DEFAULT '[]'
) STRICT;

-- What is still to be told; `approval` is the number of the one that it asks for.
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL,
    begun TEXT NOT NULL DEFAULT '', -- the process that tells it
    approval INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What has come in over a channel, until it was answered; afterwards its number alone, so that it comes once.
-- `process` names the one that answers it, `within` the number whose turn hears it, when that is another's.
-- `foreign_parts` names what of it is not the word of whoever has sent it.
CREATE TABLE IF NOT EXISTS inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, text TEXT NOT NULL, who TEXT NOT NULL,
    origin TEXT NOT NULL, external TEXT NOT NULL,
    attachments TEXT NOT NULL, -- a JSON list of paths
    at REAL NOT NULL, process TEXT NOT NULL DEFAULT '', within INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    foreign_parts TEXT NOT NULL DEFAULT '[]' -- a JSON list
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS inbox_once ON inbox (key, external) WHERE external != '';
CREATE INDEX IF NOT EXISTS inbox_open ON inbox (id) WHERE NOT done;

-- How many bytes went into the tokens that a server counted, by model; older requests fade.
CREATE TABLE IF NOT EXISTS calibration (
    model TEXT PRIMARY KEY, bytes REAL NOT NULL CHECK (bytes >= 0), tokens REAL NOT NULL CHECK (tokens >= 0)
) STRICT;

-- Open tasks of the owner, kept for a while when they are done; the most urgent have priority 1. `since` and `done`
-- are the owner's local time, `done_at` seconds since the epoch. A number is never used again.
CREATE TABLE IF NOT EXISTS pulse (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10), session TEXT NOT NULL,
    source TEXT NOT NULL DEFAULT '', -- what it is from when it is not the owner's word
    since TEXT NOT NULL, done TEXT NOT NULL DEFAULT '', done_at REAL
) STRICT;

-- What was done when: a name and a text each.
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

-- Heartbeats in which a model was asked, `day` by the owner's calendar; `mono` are the seconds of that `boot`, which no
-- change of the date moves. A number is never used again, so that a process can tell whether another has been quicker.
CREATE TABLE IF NOT EXISTS beats (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, day TEXT NOT NULL, boot TEXT NOT NULL, mono REAL NOT NULL,
    tokens INTEGER NOT NULL, outcome TEXT NOT NULL, session TEXT NOT NULL DEFAULT '', text TEXT NOT NULL DEFAULT ''
) STRICT;

-- What is known of the lines of the checklist.
CREATE TABLE IF NOT EXISTS beat_lines (
    line TEXT PRIMARY KEY, after REAL NOT NULL, since REAL NOT NULL, told INTEGER NOT NULL, seen TEXT NOT NULL
) STRICT;

-- What sub-agents were given to do, how far they are, and what they have said and heard so far. `session` is the chat
-- that is told the result, `parent` the task that asked for it (0 for a turn), `flow` the number of its workflow's
-- first task, `needs` the numbers of those that have to be done before. `waits` names the process in which whoever
-- asked waits for the result, and is told by nobody else. `claimed` names the process that works on it, or means to;
-- `letter` is the one that tells the chat of it, -1 when whoever asked knows; `heard` is 1 once a model was shown it in
-- the chat; `taint` is what its text began with. The other columns are those of Task. A number is never used again.
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, parent INTEGER NOT NULL DEFAULT 0,
    depth INTEGER NOT NULL DEFAULT 1, flow INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL, text TEXT NOT NULL,
    mode TEXT NOT NULL,
    tools TEXT NOT NULL, -- a JSON list of names, null for all
    needs TEXT NOT NULL DEFAULT '[]', steps INTEGER NOT NULL, seconds REAL NOT NULL, tokens INTEGER NOT NULL,
    waits TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'waiting', claimed TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0, used_steps INTEGER NOT NULL DEFAULT 0, used_seconds REAL NOT NULL DEFAULT 0,
    used_tokens INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT '', letter INTEGER NOT NULL DEFAULT 0,
    heard INTEGER NOT NULL DEFAULT 0, asked REAL NOT NULL, ended REAL NOT NULL DEFAULT 0,
    taint TEXT NOT NULL DEFAULT '[]', agent TEXT NOT NULL DEFAULT '', asker TEXT NOT NULL DEFAULT '',
    who TEXT NOT NULL DEFAULT '', origin TEXT NOT NULL DEFAULT 'subagent'
) STRICT;
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status);
CREATE TABLE IF NOT EXISTS task_messages (
    task INTEGER NOT NULL REFERENCES tasks, place INTEGER NOT NULL,
    message TEXT NOT NULL, -- a JSON list: role, text, calls, call_id
    PRIMARY KEY (task, place)
) STRICT, WITHOUT ROWID;

-- Calls that wait for the owner's yes, and what became of them: see Approval. `process` is the one that makes the call,
-- `answered` when it was answered in seconds since the epoch; `listed` the first call of the question that it is shown
-- by, 0 before it was asked; lists are JSON. A number is never used again: a person may still mean the call that had it.
CREATE TABLE IF NOT EXISTS approvals (
    id INTEGER PRIMARY KEY AUTOINCREMENT, nonce TEXT NOT NULL UNIQUE, session TEXT NOT NULL, chat TEXT NOT NULL,
    origin TEXT NOT NULL, asked_by TEXT NOT NULL, call TEXT NOT NULL, effect TEXT NOT NULL, rule TEXT NOT NULL,
    why TEXT NOT NULL, means TEXT NOT NULL, bound TEXT NOT NULL, digest TEXT NOT NULL, heard TEXT NOT NULL,
    question TEXT NOT NULL, at REAL NOT NULL, expires REAL NOT NULL, state TEXT NOT NULL, answered_by TEXT NOT NULL,
    outcome TEXT NOT NULL, process TEXT NOT NULL DEFAULT '', answered REAL NOT NULL DEFAULT 0,
    listed INTEGER NOT NULL DEFAULT 0, told TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS approvals_open ON approvals (id) WHERE state IN ('waiting', 'running');

-- Calls that were allowed for good; `whose` is '' for the owner's, "member NAME", "guest" or "mcp".
CREATE TABLE IF NOT EXISTS always (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL, question TEXT NOT NULL, at REAL NOT NULL,
    by TEXT NOT NULL, agent TEXT NOT NULL DEFAULT '', whose TEXT NOT NULL DEFAULT '', UNIQUE (digest, agent, whose)
) STRICT;

-- Files that turns have written which had read others' words, by their paths; `heard` is a JSON list.
CREATE TABLE IF NOT EXISTS foreign_files (
    number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, heard TEXT NOT NULL, at REAL NOT NULL
) STRICT;

-- What models have taken: tokens in and out, of them read from the server's cache and spent on reasoning, and money in
-- the owner's currency. A request is in it before it is made, as an estimate; `estimated` are the tokens that no server
-- has counted yet. `agent` is the key, '' for the home's own, `person` the name in [people], '' for the owner.
CREATE TABLE IF NOT EXISTS ledger (
    day TEXT NOT NULL, model TEXT NOT NULL, cause TEXT NOT NULL, channel TEXT NOT NULL,
    agent TEXT NOT NULL DEFAULT '', person TEXT NOT NULL DEFAULT '', requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL,
    money REAL NOT NULL, cached INTEGER NOT NULL DEFAULT 0, reasoning INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, model, cause, channel, agent, person)
) STRICT, WITHOUT ROWID;

-- Pages that are a person's own with an agent: `agent` is the UUID of its key, `version` counts the writes.
CREATE TABLE IF NOT EXISTS user_context_files (
    agent TEXT NOT NULL, person TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1, at TEXT NOT NULL, PRIMARY KEY (agent, person, name)
) STRICT, WITHOUT ROWID;

-- Who besides the owner may use a skill: everyone, person:NAME or agent:KEY; an agent's is pinned to a version.
CREATE TABLE IF NOT EXISTS skill_grants (
    skill TEXT NOT NULL, grantee TEXT NOT NULL, pinned TEXT NOT NULL, granted_by TEXT NOT NULL,
    granted_at TEXT NOT NULL, PRIMARY KEY (skill, grantee)
) STRICT, WITHOUT ROWID;

-- What a store that several boards share knows of this home; nothing in a home that shares none. A row of
-- `shared_rows` is `local` here and `id` there; `mark` changes with what it says, and is 'erased' once it is deleted
-- here. A page's `base` is the compressed text that both had last, as its `version` there.
CREATE TABLE IF NOT EXISTS shared_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shared_rows (
    kind TEXT NOT NULL, local TEXT NOT NULL, id TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (kind, local)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shared_pages (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL, path TEXT NOT NULL, version INTEGER NOT NULL,
    digest TEXT NOT NULL, base BLOB NOT NULL, stamp TEXT NOT NULL, chunks TEXT NOT NULL
) STRICT;

-- Skills of other boards that wait for the owner's yes here, and what they are granted there; no library reads them.
-- `content` is compressed, as shared_store/skills.py has it.
CREATE TABLE IF NOT EXISTS shared_skills (
    board TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, content BLOB NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (board, name)
) STRICT;
CREATE TABLE IF NOT EXISTS shared_skill_grants (
    board TEXT NOT NULL, skill TEXT NOT NULL, grantee TEXT NOT NULL, pinned TEXT NOT NULL, granted_by TEXT NOT NULL,
    granted_at TEXT NOT NULL, PRIMARY KEY (board, skill, grantee)
) STRICT, WITHOUT ROWID;
"""

_HISTORY_TABLES = """
-- Each boot: `offset` is what to add to seconds since it for seconds since 1970, `set_at` the second in which its date
-- was set last, 0 when it was not.
CREATE TABLE IF NOT EXISTS boots (
    id INTEGER PRIMARY KEY, boot TEXT NOT NULL UNIQUE, offset REAL NOT NULL, trusted INTEGER NOT NULL,
    set_at REAL NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, sensor TEXT NOT NULL, quantity TEXT NOT NULL, UNIQUE (sensor, quantity)
) STRICT;

-- What sensors said: by boot and seconds since it in `raw`, by date in `spans`; each value is in one of them. `raw` is
-- only ever added to at its end and taken from at its beginning, so that a commit writes a page or two. `points` are
-- pairs of a tenth of a second after `began` (u16) and the value (float32, not a number for a failure).
CREATE TABLE IF NOT EXISTS raw (
    id INTEGER PRIMARY KEY, boot INTEGER NOT NULL REFERENCES boots, series INTEGER NOT NULL REFERENCES series,
    began REAL NOT NULL, points BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS spans (
    seconds INTEGER NOT NULL, at INTEGER NOT NULL, series INTEGER NOT NULL REFERENCES series, count INTEGER NOT NULL,
    failed INTEGER NOT NULL, total REAL NOT NULL, low REAL, high REAL, PRIMARY KEY (seconds, at, series)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS troubles (
    id INTEGER PRIMARY KEY, boot INTEGER NOT NULL REFERENCES boots, sensor TEXT NOT NULL, began REAL NOT NULL,
    ended REAL NOT NULL, times INTEGER NOT NULL, problem TEXT NOT NULL
) STRICT;

-- Where each rule stands, and each time that one has fired; `outcome` is empty until it is known.
CREATE TABLE IF NOT EXISTS rule_states (rule TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS firings (
    id INTEGER PRIMARY KEY AUTOINCREMENT, rule TEXT NOT NULL, boot TEXT NOT NULL, began REAL NOT NULL,
    at REAL NOT NULL, trusted INTEGER NOT NULL, why TEXT NOT NULL, acts TEXT NOT NULL, outcome TEXT NOT NULL
) STRICT;
"""


def m035_tables(connection: apsw.Connection) -> None:
    """Make the tables, or bring those of a home since 2026-11-22 to their shape; raises StoreError for an older one.

    What the migrations from m015 to m033 did, each unless the database names it as done.
    """
    done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    if not done:
        connection.execute(_STATE_TABLES)
        return
    if "m034_tables" in done:
        _add_missing(connection, _STATE_TABLES)
        return
    if _OLDEST not in done:
        raise StoreError(
            f"{connection.filename} was written by a picoclaw from before 2026-11-22; nothing was changed;"
            " open the home once with a version of 2026-11-26"
        )
    _add_missing(connection, _STATE_TABLES)
    remade = {"ledger": "m029_whose", "always": "m032_standing_approvals"}
    remade = {table: name for table, name in remade.items() if name not in done}
    for table in remade:  # their keys have changed
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    connection.execute(_STATE_TABLES)
    if "m015_pulse_priority" not in done:  # 10 was the most urgent
        connection.execute("UPDATE pulse SET priority = max(1, 10 - priority)")
    if "m016_rights" not in done:  # every command had both
        connection.execute("UPDATE jobs SET may_write = 1, may_network = 1 WHERE kind = 'command'")
    if "m018_lists" not in done:
        connection.execute("UPDATE approvals SET listed = id")
    if "m019_subagents" not in done:  # they were called helpers
        for table, column in (("sessions", "key"), ("acts", "session"), ("approvals", "session")):
            connection.execute(
                f"UPDATE {table} SET {column} = 'subagent' || substr({column}, 7) WHERE {column} GLOB 'helper [0-9]*'"  # noqa: S608 - our own names
            )
        connection.execute("UPDATE approvals SET origin = 'subagent' WHERE origin = 'helper'")
    if "ledger" in remade:  # what was used before counts as the owner's with the home's own agent
        connection.execute("""
            INSERT INTO ledger (day, model, cause, channel, requests, prompt_tokens, completion_tokens, estimated, money,
                cached, reasoning)
                SELECT day, model, iif(cause = 'helper', 'subagent', cause), channel, requests, prompt_tokens,
                completion_tokens, estimated, money, cached, reasoning FROM old_ledger;
            UPDATE shared_rows SET local = json_insert(local, '$[4]', '', '$[5]', '') WHERE kind = 'ledger';
        """)
    if "always" in remade:  # for the agent that asked then; only the owner's, as far as that is known
        connection.execute("""
            INSERT INTO always (id, digest, question, at, by, agent)
                SELECT id, digest, question, at, by, coalesce((SELECT agent FROM approvals
                WHERE approvals.digest = old.digest AND state IN ('done', 'failed') ORDER BY id DESC LIMIT 1), '')
                FROM old_always AS old WHERE NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.digest = old.digest
                AND origin IN ('member', 'guest', 'remote', 'hook', 'mcp'));
        """)
    for table in remade:
        connection.execute(f"DROP TABLE old_{table}")


def m004_tables(connection: apsw.Connection) -> None:
    """Make the tables of `history.db`, or add what one of before lacks."""
    _add_missing(connection, _HISTORY_TABLES)


def _add_missing(connection: apsw.Connection, tables: str) -> None:
    """Make the tables and indexes that are missing, and add the columns that are; each of these has a default."""
    connection.execute(tables)
    with closing(apsw.Connection(":memory:")) as new:
        new.execute(tables)
        for table, column, kind, default in new.execute(
            "SELECT t.name, c.name, c.type, c.dflt_value FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
            " WHERE t.type = 'table' AND t.sql NOT NULL"
        ):
            if not connection.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", (table, column)).get:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind} NOT NULL DEFAULT {default}")


MIGRATIONS: list[Callable[[apsw.Connection], None]] = [m035_tables]
HISTORY_MIGRATIONS: list[Callable[[apsw.Connection], None]] = [m004_tables]


_BUSY_TIMEOUT_MS, _CHECKPOINT_TIMEOUT_MS = 5000, 100
_FILES_PER_DATABASE = 3
Migration = Callable[[apsw.Connection], None]
DAMAGE_ADVICE = (
    "nothing was changed; `picoclaw check --repair` saves what can be read, or move it aside to start with an empty one"
)
COPIES_FOLDER = "last"
"""The folder beside a database that holds its last good copy."""
SUSPECT_SUFFIX = ".suspect"
"""The end of the name of an empty file beside a database in which damage was met."""


def is_valid_row_id(number: int) -> bool:
    """Whether a number that somebody gave can be that of a row; SQLite's have 64 bits."""
    return number.bit_length() < 64


class StoreConnection(apsw.Connection):
    """A connection whose rows are untyped, because the tables are STRICT, and which replaces surrogates in texts."""

    def execute(self, statements: str, bindings: Any = (), **options: Any) -> Any:
        return super().execute(statements, _clean_values(bindings), **options)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], **options: Any) -> Any:
        return super().executemany(statements, map(_clean_values, sequenceofbindings), **options)


def _clean_values(values: Iterable[Any]) -> list[Any]:
    return [replace_surrogates(value) if isinstance(value, str) else value for value in values]


class Database:
    """One connection to one file. Every write goes through `transaction()`."""

    def __init__(self, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Open the file, or make it; raises StoreDamaged, StoreNewer or StoreError, having changed nothing."""
        self.path = path
        with self._explained():
            if not path.exists():
                _create_database(path, migrations)
            check_regular(path, path.stat().st_mode)
            _check_not_empty(path)
            mark = path.with_name(path.name + SUSPECT_SUFFIX)
            unclean = mark.exists() or (path.with_name(path.name + "-wal").exists() and not _is_open(path))
            self.connection = _connect(path)
            try:
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, unclean)
                _check_schema(self.connection, path, migrations, thorough=unclean)
                if mark.exists():
                    _check_integrity(self.connection, path, "integrity_check")  # the tables' indexes as well
                    remove_file(mark)
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                _migrate(self.connection, migrations)
            except BaseException:
                self.connection.close()
                raise
            with _OPEN_DATABASES_LOCK:
                _OPEN_DATABASES.add(self)

    def close(self) -> None:
        """Fold the log into the file and let go of it; may be called twice."""
        with _OPEN_DATABASES_LOCK:
            _OPEN_DATABASES.discard(self)
        with self._explained():
            self.connection.close()

    def select(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query. Raises StoreError."""
        with self._explained():
            return list(self.connection.execute(sql, values))

    def select_value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row of a query, None when there is none. Raises StoreError."""
        return next((row[0] for row in self.select(sql, *values)), None)

    def write(self, sql: str, *values: Any) -> int:
        """Execute one statement durably; returns how many rows it has changed. Raises StoreError."""
        with self.transaction() as connection:
            connection.execute(sql, values)
            return connection.changes()

    @contextlib.contextmanager
    def transaction(self, *, sync: bool = True) -> Iterator[StoreConnection]:
        """All of the block or none of it, durable when the block is left. Raises StoreError.

        Without `sync` the end of the process takes nothing from it, but a power cut may, until the next one is synced.
        """
        with self._explained():
            if not sync:
                self.connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with transact(self.connection):
                    yield self.connection
            finally:
                if not sync:
                    self.connection.execute("PRAGMA synchronous = FULL")

    @contextlib.contextmanager
    def erasure(self) -> Iterator[StoreConnection]:
        """A transaction whose deleted content is gone from the file and, unless it is read, from the log.

        The copy that may hold it still goes as well. Raises StoreError.
        """
        with self._explained():
            with self.transaction() as connection:
                yield connection
            self._fold()
            remove_file(self.path.parent / COPIES_FOLDER / self.path.name)

    def shrink(self) -> None:
        """Write the file anew without its empty pages; others wait meanwhile. Raises StoreError."""
        with self._explained():
            self.connection.execute("VACUUM")
            self._fold()

    def _fold(self) -> None:
        """Empty the log into the file, but wait shortly for a reader: writers wait meanwhile."""
        self.connection.set_busy_timeout(_CHECKPOINT_TIMEOUT_MS)
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.connection.set_busy_timeout(_BUSY_TIMEOUT_MS)

    @contextlib.contextmanager
    def reading(self) -> Iterator[StoreConnection]:
        """Give the connection for queries, with SQLite's errors put into words."""
        with self._explained():
            yield self.connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with translate_sqlite_errors(self.path):
                yield
        except StoreDamaged:
            if self in _OPEN_DATABASES:
                mark_suspect(self.path)
            raise


def insert(connection: StoreConnection, table: str, **values: object) -> int:
    """Add a row within a transaction that is open; returns its number."""
    sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608
    connection.execute(sql, tuple(values.values()))
    return connection.last_insert_rowid()


def update(connection: StoreConnection, table: str, number: int, **values: object) -> None:
    """Change a row within a transaction that is open."""
    sql = f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?"  # noqa: S608
    connection.execute(sql, (*values.values(), number))


class Table:
    """Something that is kept in an open database. All methods raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database


@contextlib.contextmanager
def transact(connection: apsw.Connection) -> Iterator[None]:
    """All of the block or none of it, also when it is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Put SQLite's errors about a file into words."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{path} is damaged ({error}); {DAMAGE_ADVICE}") from None
    except apsw.Error as error:
        raise StoreError(
            f"{path}: {_explain_disk_error(path, error) or SQLITE_ERROR_TEXTS.get(type(error), str(error))}"
        ) from None
    except OSError as error:
        raise StoreError(f"{path}: {explain_os_error(error)}") from None


def _explain_disk_error(path: Path, error: apsw.Error) -> str:
    """Say what is wrong with the disk itself, which SQLite often cannot tell; '' for nothing that can be seen."""
    if not isinstance(error, apsw.FullError | apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError):
        return ""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return explain_os_error(OSError(errno.EROFS, ""))
    return explain_os_error(OSError(errno.ENOSPC, "")) if not disk.f_bavail else _explain_file_limit()


def _explain_file_limit() -> str:
    """Say that hardly a file can be opened any more, where that is what is wrong; a database takes three."""
    try:
        left = os.sysconf("SC_OPEN_MAX") - sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError as error:
        return explain_os_error(error) if error.errno in {errno.EMFILE, errno.ENFILE} else ""
    return explain_os_error(OSError(errno.EMFILE, "")) if left <= _FILES_PER_DATABASE else ""


def run_quick_check(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> str:
    """Look whether a file is whole, and change nothing: `ok`, or what SQLite found. Raises as Database does."""
    with translate_sqlite_errors(path):
        _check_not_empty(path)
        with contextlib.closing(_connect(path)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _check_schema(connection, path, migrations, thorough=False)
            return str(connection.execute("PRAGMA quick_check(1)").get)


def _check_not_empty(path: Path) -> None:
    if path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is empty, and a database never is; {DAMAGE_ADVICE}")


def mark_suspect(path: Path) -> None:
    """Remember that damage was met, as far as the disk lets us: the next to open the file looks it through."""
    DAMAGE_DETECTED.set()
    with contextlib.suppress(OSError):
        create_file(path.with_name(path.name + SUSPECT_SUFFIX), b"")


def _check_integrity(connection: apsw.Connection, path: Path, check: str) -> None:
    if (found := connection.execute(f"PRAGMA {check}(1)").get) != "ok":
        finding = " ".join(str(found).removeprefix("*** in database main ***").split())
        raise StoreDamaged(f"{path} is damaged ({finding}); {DAMAGE_ADVICE}")


DAMAGE_DETECTED = threading.Event()
"""Set as soon as this process has met damage in a database that it had opened."""

_OPEN_DATABASES_LOCK = threading.Lock()
_OPEN_DATABASES: WeakSet[Database] = WeakSet()
"""What this process has open: a log that is there because of that is no sign of a power cut, and nothing is checked."""


def _is_open(path: Path) -> bool:
    with _OPEN_DATABASES_LOCK:
        return any(one.path.exists() and one.path.samefile(path) for one in _OPEN_DATABASES)


SQLITE_ERROR_TEXTS: dict[type[apsw.Error], str] = {
    apsw.FullError: "the disk is full: free some space",
    apsw.ReadOnlyError: "it cannot be written: check the owner, the mode, and whether the disk is read-only",
    apsw.CantOpenError: "it cannot be opened: check the owner and mode of the file and its folder",
    apsw.BusyError: "another picoclaw has kept it locked for 5 seconds; stop the other one",
    apsw.IOError: "the disk reported an error: it may be full, or the card may be failing (see dmesg)",
}


def _connect(path: Path) -> StoreConnection:
    """Open a file; on a disk that is read-only as it is there, since SQLite can make no index of its log beside it."""
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY and not path.with_name(f"{path.name}-wal").exists():
        name, flags = f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = StoreConnection(name, flags=flags)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    return connection


def _create_database(path: Path, migrations: Sequence[Migration]) -> None:
    """Build the file with its tables under another name first: under its own name it is never half made."""
    young = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    young.unlink(missing_ok=True)
    handle = os.open(young, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with contextlib.closing(_connect(young)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # synced once, below
            connection.execute("PRAGMA journal_mode = MEMORY")
            with transact(connection):
                connection.execute("CREATE TABLE migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT")
                for migration in migrations:
                    _run_migration(connection, migration)
            connection.execute("PRAGMA journal_mode = WAL")
        os.fsync(handle)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(young)
    finally:
        os.close(handle)
        for leftover in path.parent.glob(young.name + "*"):
            leftover.unlink(missing_ok=True)
    sync_folder(path.parent)


def _run_migration(connection: apsw.Connection, migration: Migration) -> None:
    migration(connection)
    connection.execute("INSERT INTO migrations VALUES (?, datetime('now'))", (migration.__name__,))


def _check_schema(connection: apsw.Connection, path: Path, migrations: Sequence[Migration], *, thorough: bool) -> None:
    known = {migration.__name__ for migration in migrations}
    columns = {str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info('migrations')")}
    if columns != {"name", "at"}:
        raise StoreDamaged(f"{path} is not picoclaw's database; {DAMAGE_ADVICE}")
    done = {str(name) for (name,) in connection.execute("SELECT name FROM migrations")}
    first = min(known, default="")  # it replaced those whose names stand before it
    if newer := sorted(name for name in done - known if name > first):
        raise StoreNewer(
            f"{path} was written by a newer picoclaw (it holds {newer[-1]}); nothing was changed; update picoclaw"
        )
    if thorough:
        _check_integrity(connection, path, "quick_check")


def _migrate(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # overwritten with zeros: a deleted message was somebody's words
    connection.execute("PRAGMA cache_size = -400")  # KiB of pages kept in memory
    connection.execute("PRAGMA foreign_keys = OFF")  # a table that is made anew is missing for a moment
    done = {str(name) for (name,) in connection.execute("SELECT name FROM migrations")}
    missing = [migration for migration in migrations if migration.__name__ not in done]
    for migration in missing:
        with transact(connection):  # another process may have done it meanwhile
            if not connection.execute("SELECT 1 FROM migrations WHERE name = ?", (migration.__name__,)).get:
                _run_migration(connection, migration)
    if missing:  # a log that begins anew takes less of a small disk; waits for nobody
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("PRAGMA foreign_keys = ON")


# Small facts in `state.db` that outlast the process, by name: when something was last done, and with what.


LAST_CHAT_MARK = "chat.last"
"""The mark that names the conversation which the owner has spoken in last."""


class Marks(Table):
    def get(self, name: str) -> str:
        """Return what a mark says, '' when it was never set."""
        with self._database.reading() as connection:
            return get_mark(connection, name)

    def set(self, name: str, value: str) -> None:
        """Set a mark durably; one that says the same already is not written."""
        if self.get(name) != value:
            with self._database.transaction() as connection:
                set_mark(connection, name, value)

    def moved(self, name: str, before: str, value: str) -> bool:
        """Set a mark that still says `before`; tells whether it did, which one of several processes does."""
        with self._database.transaction() as connection:
            if get_mark(connection, name) != before:
                return False
            set_mark(connection, name, value)
            return True


def get_mark(connection: StoreConnection, name: str) -> str:
    """Return what a mark says, within the caller's reading."""
    return connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).get or ""


def set_mark(connection: StoreConnection, name: str, value: str) -> None:
    """Set a mark, within the caller's transaction."""
    connection.execute("INSERT INTO marks VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", (name, value))
