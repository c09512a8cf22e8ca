"""Files that others' words have led to, or that others have sent, in `state.db`, until the owner has accepted them.

What such a turn writes may be what a page wants to have run: `json.py` beside a script that is planned, a Makefile.
"""

import json
import time
from collections.abc import Iterable

from picoclaw.records import NamedTuple
from picoclaw.store.database import StoreConnection, Table


class ForeignFile(NamedTuple):
    """A file by its whole path, and what the turn that wrote it had read; every write gives it a new number."""

    number: int
    path: str
    heard: tuple[str, ...]


def add_foreign_file(connection: StoreConnection, path: str, heard: Iterable[str]) -> None:
    """Remember a file, within the caller's transaction."""
    sql = "INSERT OR REPLACE INTO foreign_files (path, heard, at) VALUES (?, ?, ?)"
    connection.execute(sql, (path, json.dumps(sorted(heard), ensure_ascii=False), time.time()))


class ForeignFiles(Table):
    """What is remembered of such files."""

    def add(self, path: str, heard: Iterable[str]) -> None:
        """Remember a file durably, before it is written."""
        with self._database.transaction() as connection:
            add_foreign_file(connection, path, heard)

    def replaced(self, path: str) -> None:
        """Forget a file that was replaced as a whole by somebody's own words."""
        if self._database.select("SELECT 1 FROM foreign_files WHERE path = ?", path):
            self._database.write("DELETE FROM foreign_files WHERE path = ?", path)

    def accept(self, numbers: Iterable[int]) -> None:
        """Take files for the owner's, who was shown them; one that was written again meanwhile has another number."""
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM foreign_files WHERE number = ?", [(number,) for number in numbers])

    def all(self) -> list[ForeignFile]:
        """List them, the oldest first; also those that are not there any more."""
        rows = self._database.select("SELECT number, path, heard FROM foreign_files ORDER BY number")
        return [ForeignFile(number, path, tuple(json.loads(heard))) for number, path, heard in rows]
