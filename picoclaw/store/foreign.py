"""Files that others' words have led to, or that others have sent, in `state.db`, until the owner has accepted them.

What such a turn writes may be what a page wants to have run: `json.py` beside a script that is planned, a Makefile.
"""

import json
import time
from collections.abc import Iterable
from typing import NamedTuple

import apsw

from picoclaw.store.database import Database, replace_surrogates


class ForeignFile(NamedTuple):
    """A file by its whole path, and what the turn that wrote it had read; every write gives it a new number."""

    number: int
    path: str
    heard: tuple[str, ...]


def add_foreign_file(connection: apsw.Connection, path: str, heard: Iterable[str]) -> None:
    """Remember a file, within the caller's transaction."""
    connection.execute(
        "INSERT OR REPLACE INTO foreign_files (path, heard, at) VALUES (?, ?, ?)",
        (replace_surrogates(path), replace_surrogates(json.dumps(sorted(heard), ensure_ascii=False)), time.time()),
    )


class ForeignFiles:
    """What is remembered of such files. All methods raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, path: str, heard: Iterable[str]) -> None:
        """Remember a file durably, before it is written."""
        with self._database.transaction() as connection:
            add_foreign_file(connection, path, heard)

    def replaced(self, path: str) -> None:
        """Forget a file that was replaced as a whole by somebody's own words."""
        if any(one.path == replace_surrogates(path) for one in self.all()):
            with self._database.transaction() as connection:
                connection.execute("DELETE FROM foreign_files WHERE path = ?", (replace_surrogates(path),))

    def accept(self, numbers: Iterable[int]) -> None:
        """Take files for the owner's, who was shown them; one that was written again meanwhile has another number."""
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM foreign_files WHERE number = ?", [(number,) for number in numbers])

    def all(self) -> list[ForeignFile]:
        """List them, the oldest first; also those that are not there any more."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT number, path, heard FROM foreign_files ORDER BY number").fetchall()
        return [ForeignFile(int(str(n)), str(path), tuple(json.loads(str(heard)))) for n, path, heard in rows]
