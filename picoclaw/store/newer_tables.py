"""Migrations, gone on with from migrations.py: the tables that came with the service."""

import apsw


def m010_inbox(connection: apsw.Connection) -> None:
    """What has come in over a channel, until it was answered; afterwards its number alone, so that it comes once.

    `process` names the one that answers it, `within` the number whose turn hears it, when that is another's. A turn
    names what it answers in `inbox`, 0 for what came another way.
    """
    connection.execute("""
        CREATE TABLE inbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            text TEXT NOT NULL,
            who TEXT NOT NULL,
            origin TEXT NOT NULL,
            external TEXT NOT NULL,
            attachments TEXT NOT NULL, -- a JSON list of paths
            at REAL NOT NULL,
            process TEXT NOT NULL DEFAULT '',
            within INTEGER NOT NULL DEFAULT 0,
            done INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE UNIQUE INDEX inbox_once ON inbox (key, external) WHERE external != '';
        CREATE INDEX inbox_open ON inbox (id) WHERE NOT done;
        ALTER TABLE turns ADD COLUMN inbox INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX turns_of_inbox ON turns (inbox) WHERE inbox > 0;
    """)


def m011_approvals(connection: apsw.Connection) -> None:
    """Calls that wait for the owner's yes, what became of them, and those that were allowed for good.

    `process` is the one that makes the call, `answered` when it was answered in seconds since the epoch; lists are
    JSON. A number is never used again: a person may still mean the call that had it. A letter that asks names it.
    """
    connection.execute("""
        CREATE TABLE approvals (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            nonce TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL,
            chat TEXT NOT NULL,
            origin TEXT NOT NULL,
            asked_by TEXT NOT NULL,
            call TEXT NOT NULL,
            effect TEXT NOT NULL,
            rule TEXT NOT NULL,
            why TEXT NOT NULL,
            means TEXT NOT NULL,
            bound TEXT NOT NULL,
            digest TEXT NOT NULL,
            heard TEXT NOT NULL,
            question TEXT NOT NULL,
            at REAL NOT NULL,
            expires REAL NOT NULL,
            state TEXT NOT NULL,
            answered_by TEXT NOT NULL,
            outcome TEXT NOT NULL,
            process TEXT NOT NULL DEFAULT '',
            answered REAL NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX approvals_open ON approvals (id) WHERE state IN ('waiting', 'running');
        CREATE TABLE always (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            digest TEXT NOT NULL UNIQUE,
            question TEXT NOT NULL,
            at REAL NOT NULL,
            by TEXT NOT NULL
        ) STRICT;
        ALTER TABLE outbox ADD COLUMN approval INTEGER NOT NULL DEFAULT 0;
    """)


def m012_heard(connection: apsw.Connection) -> None:
    """What a turn rests on that is nobody's word in its chat, and what a helper's task began with: JSON lists.

    Earlier turns are judged by the tools that they have called.
    """
    connection.execute("""
        ALTER TABLE turns ADD COLUMN heard TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE tasks ADD COLUMN taint TEXT NOT NULL DEFAULT '[]';
    """)
    for tool in ("read_file", "read_result", "exec", "serial", "subagent", "spawn_status"):
        connection.execute(
            "UPDATE turns SET heard = ?1 WHERE id IN (SELECT turn FROM messages WHERE instr(calls, ?2))",
            (f'["{tool}"]', f'"{tool}"'),
        )


def m013_foreign(connection: apsw.Connection) -> None:
    """What of a message is not the word of whoever has sent it, by name: a JSON list."""
    connection.execute("ALTER TABLE inbox ADD COLUMN foreign_parts TEXT NOT NULL DEFAULT '[]'")


def m014_ledger(connection: apsw.Connection) -> None:
    """What models have taken, by day, model, cause and channel: tokens in and out, and money in the owner's currency.

    A request is in it before it is made, as an estimate; `estimated` are the tokens that no server has counted yet.
    What was counted for turns before this table came is put into it, as far as it is known what that was for.
    """
    connection.execute("""
        CREATE TABLE ledger (
            day TEXT NOT NULL,
            model TEXT NOT NULL,
            cause TEXT NOT NULL,
            channel TEXT NOT NULL,
            requests INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            estimated INTEGER NOT NULL,
            money REAL NOT NULL,
            PRIMARY KEY (day, model, cause, channel)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO ledger
            SELECT day, provider,
                CASE WHEN key = 'heartbeat' THEN 'heartbeat'
                    WHEN key GLOB 'job [0-9]*' THEN 'cron ' || substr(key, 5, instr(substr(key, 5) || ' ', ' ') - 1)
                    ELSE 'chat' END AS cause,
                CASE WHEN key GLOB 'telegram:*' THEN 'telegram' WHEN key = 'page' THEN 'page'
                    ELSE 'terminal' END AS channel,
                sum(steps), sum(prompt), sum(completion), 0, 0.0
            FROM (
                SELECT substr(at, 1, 10) AS day, key, provider, steps, prompt_tokens AS prompt,
                    completion_tokens AS completion FROM turns JOIN sessions ON sessions.id = session
                UNION ALL SELECT day, key, provider, 0, prompt_tokens, completion_tokens FROM spent
            ) WHERE prompt + completion > 0 GROUP BY 1, 2, 3, 4;
    """)


def m016_rights(connection: apsw.Connection) -> None:
    """What a planned command may do; one that was planned before had both rights, and keeps them."""
    for column in ("may_write", "may_network"):
        connection.execute(f"ALTER TABLE jobs ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE jobs SET may_write = 1, may_network = 1 WHERE kind = 'command'")


def m018_lists(connection: apsw.Connection) -> None:
    """The question that a kept call is shown by: the number of its first call, 0 before it was asked."""
    connection.execute("ALTER TABLE approvals ADD COLUMN listed INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE approvals SET listed = id")


def m017_foreign_files(connection: apsw.Connection) -> None:
    """Files that turns have written which had read others' words, by their paths; `heard` is a JSON list."""
    connection.execute("""
        CREATE TABLE foreign_files (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            path TEXT NOT NULL UNIQUE,
            heard TEXT NOT NULL,
            at REAL NOT NULL
        ) STRICT;
    """)
