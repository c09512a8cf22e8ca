"""What is to be told to a person, in `state.db`: kept until it was told, with a number that is never used again.

That it is being told is written down before it is shown, and it is struck out afterwards. Killed in between, it is
shown again: a channel that knows a number again drops it; a terminal, which cannot, says that it may be a repetition.

A chat that is open somewhere is named in a mark with the process that has it, which is void when that process is gone.
"""

import json
from collections.abc import Sequence

from picoclaw.records import NamedTuple
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.database import StoreConnection, Table, set_mark

_OPEN_CHAT_PREFIX = "chat.open "
MERGED = "merged"
"""Where the process stands that has begun to tell a message: it is several in one, and no process tells it yet."""


class OutboxMessage(NamedTuple):
    """A text for a session; `at` is the moment it is about, in seconds since 1970.

    `begun` names the process that has begun to tell it, or is "perhaps" when the network broke off meanwhile. `approval` is the number of the kept call that it asks about,
    0 when it asks about none.
    """

    number: int
    session: str
    text: str
    at: float
    begun: str = ""
    approval: int = 0


def put_message(connection: StoreConnection, session: str, text: str, at: float, approval: int = 0) -> int:
    """Add a message within a transaction that is open; returns its number."""
    sql = "INSERT INTO outbox (session, text, at, approval) VALUES (?, ?, ?, ?)"
    connection.execute(sql, (session, text, at, approval))
    return connection.last_insert_rowid()


class Outbox(Table):
    """The messages that nobody has been told yet."""

    def put(self, session: str, text: str, at: float) -> int:
        """Add a message durably; returns its number."""
        with self._database.transaction() as connection:
            return put_message(connection, session, text, at)

    def drop_oldest(self, session: str, most: int) -> int:
        """Keep no more messages of a session than so many; returns how many were dropped."""
        sql = (
            "DELETE FROM outbox WHERE session = ?1 AND id <="
            " (SELECT id FROM outbox WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"
        )
        return self._database.write(sql, session, most)

    def merge(self, messages: Sequence[OutboxMessage], text: str) -> OutboxMessage | None:
        """Put one message in the place of several, in one moment; None when another process tells one of them."""
        last = messages[-1]
        with self._database.transaction() as connection:
            sql = "SELECT count(*) FROM outbox WHERE begun = '' AND id IN (SELECT value FROM json_each(?))"
            numbers = json.dumps([message.number for message in messages])
            if connection.execute(sql, (numbers,)).get != len(messages):
                return None
            connection.execute("DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?))", (numbers,))
            number = put_message(connection, last.session, text, last.at)
            connection.execute("UPDATE outbox SET begun = ? WHERE id = ?", (MERGED, number))
        return OutboxMessage(number, last.session, text, last.at, MERGED)

    def readdress(self, message: OutboxMessage, session: str) -> None:
        """Have a message wait for another chat, by the same number."""
        self._database.write("UPDATE outbox SET session = ?, begun = '' WHERE id = ?", session, message.number)

    def numbers(self) -> frozenset[int]:
        """The numbers of all messages that nobody has been told, also of those that are being told."""
        return frozenset(number for (number,) in self._database.select("SELECT id FROM outbox"))

    def waiting(self) -> list[OutboxMessage]:
        """List the messages that no process is telling, the oldest first."""
        rows = self._database.select("SELECT id, session, text, at, begun, approval FROM outbox ORDER BY id")
        return [message for row in rows if not is_process_alive((message := OutboxMessage(*row)).begun)]

    def begin(self, message: OutboxMessage) -> bool:
        """Write down that this process is about to tell it; tells whether it may, because no other does."""
        sql = "UPDATE outbox SET begun = ? WHERE id = ? AND begun = ?"
        return self._database.write(sql, get_process_identity(), message.number, message.begun) > 0

    def attend(self, session: str) -> None:
        """Say that this process has a chat open, and take away what dead ones have said."""
        gone = [process for process, _ in self._attended() if not is_process_alive(process)]
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM marks WHERE name = ?", [(f"{_OPEN_CHAT_PREFIX}{process}",) for process in gone]
            )
            set_mark(connection, f"{_OPEN_CHAT_PREFIX}{get_process_identity()}", session)

    def leave(self) -> None:
        """Take back that this process has a chat open."""
        self._database.write("DELETE FROM marks WHERE name = ?", f"{_OPEN_CHAT_PREFIX}{get_process_identity()}")

    def elsewhere(self) -> frozenset[str]:
        """Name the chats that other processes have open."""
        own = get_process_identity()
        return frozenset(chat for process, chat in self._attended() if process != own and is_process_alive(process))

    def _attended(self) -> list[tuple[str, str]]:
        rows = self._database.select("SELECT name, value FROM marks WHERE name GLOB ?", f"{_OPEN_CHAT_PREFIX}*")
        return [(name.removeprefix(_OPEN_CHAT_PREFIX), session) for name, session in rows]

    def put_back(self, message: OutboxMessage) -> None:
        """Take back that it is being told, because it could not be shown; what was doubtful before stays so."""
        self._database.write("UPDATE outbox SET begun = ? WHERE id = ?", message.begun, message.number)

    def strike(self, message: OutboxMessage) -> None:
        """Strike out what was told."""
        self._database.write("DELETE FROM outbox WHERE id = ?", message.number)
