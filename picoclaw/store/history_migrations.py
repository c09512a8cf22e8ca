"""How `history.db` came to its present shape; see store/migrations.py for how its functions are treated."""

import apsw

from picoclaw.store.database import Migration


def m001_samples(connection: apsw.Connection) -> None:
    """What sensors said: by boot and seconds since it in `raw`, by date in `spans`; each value is in one of them.

    `raw` is only ever added to at its end and taken from at its beginning, so that a commit writes a page or two.
    `points` are pairs of a tenth of a second after `began` (u16) and the value (float32, not a number for a failure).
    """
    connection.execute("""
        CREATE TABLE boots (
            id INTEGER PRIMARY KEY,
            boot TEXT NOT NULL UNIQUE,
            offset REAL NOT NULL, -- what to add to seconds since the boot for seconds since 1970
            trusted INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            sensor TEXT NOT NULL,
            quantity TEXT NOT NULL,
            UNIQUE (sensor, quantity)
        ) STRICT;
        CREATE TABLE raw (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boots,
            series INTEGER NOT NULL REFERENCES series,
            began REAL NOT NULL,
            points BLOB NOT NULL
        ) STRICT;
        CREATE TABLE spans (
            seconds INTEGER NOT NULL,
            at INTEGER NOT NULL,
            series INTEGER NOT NULL REFERENCES series,
            count INTEGER NOT NULL,
            failed INTEGER NOT NULL,
            total REAL NOT NULL,
            low REAL,
            high REAL,
            PRIMARY KEY (seconds, at, series)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE troubles (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boots,
            sensor TEXT NOT NULL,
            began REAL NOT NULL,
            ended REAL NOT NULL,
            times INTEGER NOT NULL,
            problem TEXT NOT NULL
        ) STRICT;
    """)


def m002_rules(connection: apsw.Connection) -> None:
    """Where each rule stands, and each time that one has fired; `outcome` is empty until it is known."""
    connection.execute("""
        CREATE TABLE rule_states (rule TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT;
        CREATE TABLE firings (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            rule TEXT NOT NULL,
            boot TEXT NOT NULL,
            began REAL NOT NULL,
            at REAL NOT NULL,
            trusted INTEGER NOT NULL,
            why TEXT NOT NULL,
            acts TEXT NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT;
    """)


def m003_set_dates(connection: apsw.Connection) -> None:
    """The second of a boot in which its date was set last; 0 when it was not."""
    connection.execute("ALTER TABLE boots ADD COLUMN set_at REAL NOT NULL DEFAULT 0")


HISTORY_MIGRATIONS: list[Migration] = [m001_samples, m002_rules, m003_set_dates]
HISTORY_FILE = "history.db"
