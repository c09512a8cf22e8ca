"""Small facts in `state.db` that outlast the process, by name: when something was last done, and with what."""

from picoclaw.store.database import StoreConnection, Table

LAST_CHAT_MARK = "chat.last"
"""The mark that names the conversation which the owner has spoken in last."""


class Marks(Table):
    """The marks of one database."""

    def get(self, name: str) -> str:
        """Return what a mark says, '' when it was never set."""
        with self._database.reading() as connection:
            return get_mark(connection, name)

    def set(self, name: str, value: str) -> None:
        """Set a mark durably; one that says the same already is not written."""
        if self.get(name) != value:
            with self._database.transaction() as connection:
                set_mark(connection, name, value)

    def moved(self, name: str, before: str, value: str) -> bool:
        """Set a mark that still says `before`; tells whether it did, which one of several processes does."""
        with self._database.transaction() as connection:
            if get_mark(connection, name) != before:
                return False
            set_mark(connection, name, value)
            return True


def get_mark(connection: StoreConnection, name: str) -> str:
    """Return what a mark says, within the caller's reading."""
    return connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).get or ""


def set_mark(connection: StoreConnection, name: str, value: str) -> None:
    """Set a mark, within the caller's transaction."""
    connection.execute("INSERT INTO marks VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", (name, value))
