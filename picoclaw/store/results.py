"""Results of tools that were too long to be shown whole, in `state.db`: kept for as long as their conversation."""

from datetime import datetime

from picoclaw.store.database import Database, fits, storable
from picoclaw.store.history import opened, process_identity

# What was taken back is not shown to a model again.
_READ = """
    SELECT text FROM results JOIN sessions ON sessions.id = session WHERE results.id = ? AND key = ? AND NOT EXISTS (
        SELECT 1 FROM turns WHERE turns.id = results.turn AND undone
    )
"""


class Results:
    """The whole results of one home."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    def keep(self, session: str, tool: str, text: str, at: datetime) -> int:
        """Keep a result durably with the chat's open conversation; returns its number.

        `at` is when the turn began, the caller's `now`. It is of the turn that this process keeps next in the chat.
        """
        row = (at.isoformat(timespec="seconds"), storable(tool), storable(text), process_identity())
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO results (session, at, tool, text, process) VALUES (?, ?, ?, ?, ?)",
                (opened(connection, session, at), *row),
            )
            return connection.last_insert_rowid()

    def read(self, session: str, number: int) -> str | None:
        """Return a result of any conversation of the chat; None for one that is not kept, or of a turn taken back."""
        with self._database.reading() as connection:
            found = connection.execute(_READ, (number, storable(session))).get if fits(number) else None
        return None if found is None else str(found)
