"""What is to be told to a person, in `state.db`: kept until it was told, with a number that is never used again.

That it is being told is written down before it is shown, and it is struck out afterwards. Killed in between, it is
shown again: a channel that knows a number again drops it; a terminal, which cannot, says that it may be a repetition.

A chat that is open somewhere is named in a mark with the process that has it, which is void when that process is gone.
"""

from typing import NamedTuple

import apsw

from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.database import Database, replace_surrogates
from picoclaw.store.marks import set_mark

_OPEN_CHAT_PREFIX = "chat.open "


class OutboxMessage(NamedTuple):
    """A text for a session; `at` is the moment it is about, in seconds since 1970.

    `begun` names the process that has begun to tell it. `approval` is the number of the kept call that it asks about,
    0 when it asks about none.
    """

    number: int
    session: str
    text: str
    at: float
    begun: str = ""
    approval: int = 0


def put_message(connection: apsw.Connection, session: str, text: str, at: float, approval: int = 0) -> int:
    """Add a letter within a transaction that is open; returns its number."""
    connection.execute(
        "INSERT INTO outbox (session, text, at, approval) VALUES (?, ?, ?, ?)",
        (replace_surrogates(session), replace_surrogates(text), at, approval),
    )
    return connection.last_insert_rowid()


class Outbox:
    """The letters that nobody has been told yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, session: str, text: str, at: float) -> int:
        """Add a letter durably; returns its number."""
        with self._database.transaction() as connection:
            return put_message(connection, session, text, at)

    def readdress(self, letter: OutboxMessage, session: str) -> None:
        """Have a letter wait for another chat, by the same number."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE outbox SET session = ?, begun = '' WHERE id = ?", (session, letter.number))

    def numbers(self) -> frozenset[int]:
        """The numbers of all letters that nobody has been told, also of those that are being told."""
        with self._database.reading() as connection:
            return frozenset(int(str(number)) for (number,) in connection.execute("SELECT id FROM outbox"))

    def waiting(self) -> list[OutboxMessage]:
        """List the letters that no process is telling, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT id, session, text, at, begun, approval FROM outbox ORDER BY id")
            letters = [
                OutboxMessage(int(str(number)), str(session), str(text), float(str(at)), str(begun), int(str(approval)))
                for number, session, text, at, begun, approval in rows
            ]
        return [letter for letter in letters if not is_process_alive(letter.begun)]

    def begin(self, letter: OutboxMessage) -> bool:
        """Write down that this process is about to tell it; tells whether it may, because no other does."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE outbox SET begun = ? WHERE id = ? AND begun = ?",
                (get_process_identity(), letter.number, letter.begun),
            )
            return connection.changes() > 0

    def attend(self, session: str) -> None:
        """Say that this process has a chat open, and take away what dead ones have said. Raises StoreError."""
        gone = [process for process, _ in self._attended() if not is_process_alive(process)]
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM marks WHERE name = ?", [(f"{_OPEN_CHAT_PREFIX}{process}",) for process in gone]
            )
            set_mark(connection, f"{_OPEN_CHAT_PREFIX}{get_process_identity()}", session)

    def leave(self) -> None:
        """Take back that this process has a chat open. Raises StoreError."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM marks WHERE name = ?", (f"{_OPEN_CHAT_PREFIX}{get_process_identity()}",))

    def elsewhere(self) -> frozenset[str]:
        """Name the chats that other processes have open."""
        own = get_process_identity()
        return frozenset(
            session for process, session in self._attended() if process != own and is_process_alive(process)
        )

    def _attended(self) -> list[tuple[str, str]]:
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT name, value FROM marks WHERE name GLOB ?", (f"{_OPEN_CHAT_PREFIX}*",)
            ).fetchall()
        return [(str(name).removeprefix(_OPEN_CHAT_PREFIX), str(session)) for name, session in rows]

    def put_back(self, letter: OutboxMessage) -> None:
        """Take back that it is being told, because it could not be shown; what was doubtful before stays so."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE outbox SET begun = ? WHERE id = ?", (letter.begun, letter.number))

    def strike(self, letter: OutboxMessage) -> None:
        """Strike out what was told."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM outbox WHERE id = ?", (letter.number,))
