"""The pages that are a person's own with an agent, in the table `user_context_files` of `state.db`."""

from collections.abc import Mapping
from datetime import datetime

from picoclaw.records import NamedTuple
from picoclaw.store.database import Table


class ContextFile(NamedTuple):
    """One page: `agent` is an agent's UUID, `person` a name of [people], '' for the owner.

    `version` counts the writes from 1, `at` is when the last one was, as an ISO date.
    """

    agent: str
    person: str
    name: str
    text: str
    version: int
    at: str


class ContextFiles(Table):
    def list_files(self, agent: str | None = None, person: str | None = None) -> list[ContextFile]:
        sql = (
            "SELECT agent, person, name, text, version, at FROM user_context_files"
            " WHERE agent = coalesce(?, agent) AND person = coalesce(?, person) ORDER BY agent, person, name"
        )
        return [ContextFile(*row) for row in self._database.select(sql, agent, person)]

    def read(self, agent: str, person: str, name: str) -> str | None:
        """Return what a page says, None when there is none."""
        sql = "SELECT text FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
        found = self._database.select_value(sql, agent, person, name)
        return None if found is None else str(found)

    def write(self, agent: str, person: str, name: str, text: str, at: datetime, version: int | None = None) -> bool:
        """Write a page durably; with a `version`, only where it is the present one, 0 for none. Tells whether it was."""
        with self._database.transaction() as connection:
            sql = "SELECT version FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
            before = connection.execute(sql, (agent, person, name)).get or 0
            if version not in {None, before}:
                return False
            connection.execute(
                "INSERT OR REPLACE INTO user_context_files VALUES (?, ?, ?, ?, ?, ?)",
                (agent, person, name, text, before + 1, at.isoformat(timespec="seconds")),
            )
            return True

    def seed(self, agent: str, person: str, texts: Mapping[str, str], at: datetime) -> list[str]:
        """Write those of the pages that are not there, and overwrite none; returns their names."""
        made = []
        with self._database.transaction() as connection:
            for name, text in texts.items():
                connection.execute(
                    "INSERT OR IGNORE INTO user_context_files VALUES (?, ?, ?, ?, 1, ?)",
                    (agent, person, name, text, at.isoformat(timespec="seconds")),
                )
                made += [name] * connection.changes()
        return made

    def delete(self, agent: str, person: str) -> None:
        self._database.write("DELETE FROM user_context_files WHERE agent = ? AND person = ?", agent, person)

    def rename_agent(self, old: str, new: str) -> None:
        """Give the pages with an agent to another one that has none, because its key has changed."""
        sql = "SELECT count(*) FROM user_context_files WHERE agent = ?"
        if self._database.select_value(sql, old) and not self._database.select_value(sql, new):
            self._database.write("UPDATE user_context_files SET agent = ? WHERE agent = ?", new, old)
