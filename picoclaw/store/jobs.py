"""Reminders in `state.db`: kept until they were delivered, claimed by the process that delivers them."""

from datetime import UTC, datetime
from typing import NamedTuple

import apsw

from picoclaw.store.database import Database, storable
from picoclaw.store.history import alive, process_identity


class Job(NamedTuple):
    """A reminder for a session; `due` has a zone."""

    number: int
    session: str
    message: str
    due: datetime


class Jobs:
    """What is to be said later."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    def add(self, session: str, message: str, due: datetime) -> int:
        """Keep a reminder durably; returns its number."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO jobs (session, message, due) VALUES (?, ?, ?)",
                (storable(session), storable(message), due.astimezone(UTC).timestamp()),
            )
            return connection.last_insert_rowid()

    def of(self, session: str) -> list[Job]:
        """List a session's reminders, the next first."""
        with self._database.reading() as connection:
            return _jobs(connection, "WHERE session = ?", (session,))

    def remove(self, session: str, number: int) -> bool:
        """Drop one of a session's reminders; tells whether it was there."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM jobs WHERE session = ? AND id = ?", (session, number))
            return connection.changes() > 0

    def next_due(self) -> datetime | None:
        """Return when the next unclaimed reminder is due."""
        with self._database.reading() as connection:
            found = _jobs(connection, "WHERE claimed = ''", ())
            return found[0].due if found else None

    def claim(self, now: datetime) -> list[Job]:
        """Take what is due for delivery by this process, and what a dead process had taken."""
        with self._database.transaction() as connection:
            claims = connection.execute("SELECT DISTINCT claimed FROM jobs WHERE claimed != ''").fetchall()
            for (claimed,) in claims:
                if not alive(str(claimed)):
                    connection.execute("UPDATE jobs SET claimed = '' WHERE claimed = ?", (claimed,))
            due = _jobs(connection, "WHERE claimed = '' AND due <= ?", (now.timestamp(),))
            connection.executemany(
                "UPDATE jobs SET claimed = ? WHERE id = ?", [(process_identity(), job.number) for job in due]
            )
            return due

    def delivered(self, job: Job) -> None:
        """Forget a reminder that a person has been told."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job.number,))


def _jobs(connection: apsw.Connection, where: str, values: tuple[str | float, ...]) -> list[Job]:
    rows = connection.execute(f"SELECT id, session, message, due FROM jobs {where} ORDER BY due, id", values)  # noqa: S608
    return [
        Job(int(str(number)), str(session), str(message), datetime.fromtimestamp(float(str(due)), UTC))
        for number, session, message, due in rows
    ]
