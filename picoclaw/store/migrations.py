"""How the database came to its present shape: small functions, run once each, in this order, by name.

A function is never changed after a release; a change of shape is a new function at the end.
"""

from collections.abc import Callable

import apsw


def m001_conversations(connection: apsw.Connection) -> None:
    """Sessions, the turns in them, the messages of a turn exactly as they went to and came from a model."""
    connection.execute("""
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            shown_from INTEGER NOT NULL DEFAULT 0 -- older turns stay here and are no longer sent to a model
        ) STRICT;
        CREATE TABLE turns (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions,
            at TEXT NOT NULL,
            provider TEXT NOT NULL,
            steps INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            stopped TEXT NOT NULL
        ) STRICT;
        CREATE INDEX turns_of_session ON turns (session, id);
        CREATE TABLE messages (
            id INTEGER PRIMARY KEY,
            turn INTEGER NOT NULL REFERENCES turns,
            role TEXT NOT NULL,
            text TEXT NOT NULL,
            calls TEXT NOT NULL DEFAULT '[]',
            call_id TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE INDEX messages_of_turn ON messages (turn, id);
    """)


def m002_acts(connection: apsw.Connection) -> None:
    """Calls that change something, written down before they run; a row outlives its turn only after a cut.

    A number is never used again: the one who was shown an act crosses it off by its number, perhaps much later.
    """
    connection.execute("""
        CREATE TABLE acts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            at TEXT NOT NULL,
            tool TEXT NOT NULL,
            arguments TEXT NOT NULL,
            process TEXT NOT NULL
        ) STRICT;
    """)


def m003_jobs(connection: apsw.Connection) -> None:
    """Reminders; `due` in seconds since the epoch, `claimed` by the process that is telling one.

    A number is never used again: a person, or a model, may still mean the reminder that had it.
    """
    connection.execute("""
        CREATE TABLE jobs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            message TEXT NOT NULL,
            due REAL NOT NULL,
            claimed TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE INDEX jobs_by_due ON jobs (due);
    """)


def m004_calibration(connection: apsw.Connection) -> None:
    """How many bytes went into the tokens that a server counted, by model; older requests fade."""
    connection.execute("""
        CREATE TABLE calibration (
            model TEXT PRIMARY KEY,
            bytes REAL NOT NULL CHECK (bytes >= 0),
            tokens REAL NOT NULL CHECK (tokens >= 0)
        ) STRICT;
    """)


def m005_pulse(connection: apsw.Connection) -> None:
    """Open tasks, kept for a while when they are done; marks say what was done when, a name and a text each.

    `since` and `done` are the owner's local time, `done_at` seconds since the epoch. A number is never used again: a
    conversation may still mean the task that had it.
    """
    connection.execute("""
        CREATE TABLE pulse (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            text TEXT NOT NULL,
            priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10),
            session TEXT NOT NULL,
            source TEXT NOT NULL DEFAULT '', -- what it is from when it is not the owner's word
            since TEXT NOT NULL,
            done TEXT NOT NULL DEFAULT '',
            done_at REAL
        ) STRICT;
        CREATE TABLE marks (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT;
    """)


def m006_clock(connection: apsw.Connection) -> None:
    """Jobs of every kind and plan, where a reminder had one moment, and what is still to be told of them.

    `due` is the anchor of the plan; `boot` and `mono` say when that is by the clock of one boot that nobody can set.
    A cron job's slots up to `after` are decided, and those within the spans `done` were done. `claimed` names the
    process that runs it.
    """
    for column in (
        "kind TEXT NOT NULL DEFAULT 'reminder'",
        "plan TEXT NOT NULL DEFAULT 'at'",
        "spec TEXT NOT NULL DEFAULT ''",
        "zone TEXT NOT NULL DEFAULT ''",
        "boot TEXT NOT NULL DEFAULT ''",
        "mono REAL NOT NULL DEFAULT 0",
        "after REAL NOT NULL DEFAULT 0",
        "done TEXT NOT NULL DEFAULT '[]'",
        "catch_up TEXT NOT NULL DEFAULT 'once'",
        "deliver TEXT NOT NULL DEFAULT 'always'",
        "enabled INTEGER NOT NULL DEFAULT 1",
        "rounds INTEGER NOT NULL DEFAULT 0",
        "last_slot TEXT NOT NULL DEFAULT ''",
        "last_run REAL NOT NULL DEFAULT 0",
        "last_status TEXT NOT NULL DEFAULT ''",
        "last_error TEXT NOT NULL DEFAULT ''",
        "failures INTEGER NOT NULL DEFAULT 0",
        "told TEXT NOT NULL DEFAULT ''",
    ):
        connection.execute(f"ALTER TABLE jobs ADD COLUMN {column}")
    connection.execute("""
        DROP INDEX jobs_by_due;
        UPDATE jobs SET claimed = '';
        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            text TEXT NOT NULL,
            at REAL NOT NULL,
            begun TEXT NOT NULL DEFAULT '' -- the process that tells it
        ) STRICT;
    """)


def m007_heartbeat(connection: apsw.Connection) -> None:
    """Heartbeats in which a model was asked, `day` by the owner's calendar, and what is known of the checklist's lines.

    `mono` are the seconds of that `boot`, which no change of the date moves.
    A number is never used again, so that a process can tell whether another one has been quicker.
    """
    connection.execute("""
        CREATE TABLE beats (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            at REAL NOT NULL,
            day TEXT NOT NULL,
            boot TEXT NOT NULL,
            mono REAL NOT NULL,
            tokens INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            session TEXT NOT NULL DEFAULT '',
            text TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE TABLE beat_lines (
            line TEXT PRIMARY KEY,
            after REAL NOT NULL,
            since REAL NOT NULL,
            told INTEGER NOT NULL,
            seen TEXT NOT NULL
        ) STRICT;
    """)


MIGRATIONS: list[Callable[[apsw.Connection], None]] = [
    m001_conversations,
    m002_acts,
    m003_jobs,
    m004_calibration,
    m005_pulse,
    m006_clock,
    m007_heartbeat,
]
