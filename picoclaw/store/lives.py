"""What one process had begun before it began afresh by exec, which leaves it its number and its start time.

By these a process is known (see history.alive), so that it would take what its former life left for its own.
"""

from picoclaw.store.database import Database
from picoclaw.store.history import process_identity

_BEGUN = (
    ("inbox", "process"),
    ("outbox", "begun"),
    ("acts", "process"),
    ("results", "process"),
    ("approvals", "process"),
    ("tasks", "claimed"),
    ("jobs", "claimed"),
)
"""Where the identity of the process stands that has something in hand."""


def bury(database: Database) -> None:
    """Have what this process has in hand taken for a dead one's, before it takes up anything. Raises StoreError."""
    own = process_identity()
    with database.transaction() as connection:
        for table, column in _BEGUN:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ?1 || \':before\' WHERE "{column}" = ?1',  # noqa: S608
                (own,),
            )
