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
