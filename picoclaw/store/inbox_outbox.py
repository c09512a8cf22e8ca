"""The inbox and the outbox in `state.db`: what has come in over a channel, and what is to be told to a person.

What comes in is durable before the channel acknowledges it, and answered once: what a channel brings again (a repeated
update of Telegram) is dropped by `Inbox.put`. daemon/queue.py has the messages answered, daemon/delivery.py sends.

That one is being answered is written down with the process that does it. What a dead process has left behind is
answered again only where that repeats nothing; the person is told of the rest.

What is to be told is kept until it was told, with a number that is never used again. That it is being told is written
down before it is shown, and it is struck out afterwards. Killed in between, it is shown again: a channel that knows a
number again drops it; a terminal, which cannot, says that it may be a repetition.

A chat that is open somewhere is named in a mark with the process that has it, which is void when that process is gone.
"""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from picoclaw.messages import Origin, is_other_person
from picoclaw.records import NamedTuple
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.database import StoreConnection, Table, set_mark
from picoclaw.text import replace_surrogates

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
        self._database.write("DELETE FROM outbox WHERE id = ?", message.number)


RETRIED = -1
_MAX_ANSWERED = 2000
_SELECT = """
    SELECT key, text, who, origin, external, attachments, foreign_parts, id, process, within FROM inbox
    WHERE NOT done ORDER BY id
"""
_SELECT_REPLY = """
    SELECT text FROM messages WHERE role = 'assistant' AND turn = (SELECT max(id) FROM turns WHERE inbox = ?)
    ORDER BY id DESC LIMIT 1
"""
_SELECT_UNANSWERED = """
    SELECT text, at FROM inbox WHERE key = ? AND NOT done AND external NOT GLOB 'answer *'
    AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.inbox = inbox.id) ORDER BY id
"""
_SELECT_NUMBER = (
    "SELECT id FROM inbox WHERE key = ? AND instr(' ' || external || ' ', ' ' || ? || ' ') ORDER BY id LIMIT 1"
)
_COUNT_ACTS = "SELECT count(*) FROM acts WHERE session = ? AND process = ?"


class InboxMessage(NamedTuple):
    """Something that a person has sent over a channel; `key` is its session, `NAME:...` of the channel.

    `who` names the person or the terminal, such as `telegram:12345`, and is the same tomorrow. `external` is the
    channel's own number of it: posted again with the same key, it is dropped; '' is never the same. `attachments` are
    paths below the workspace. `number` is the inbox's, 0 before it is kept. `foreign` names what of the text is not
    that person's word, such as a forwarded message. `workspace` is the folder that the paths are below, '' for the home's.
    """

    key: str
    text: str
    who: str = ""
    origin: Origin = "owner"
    external: str = ""
    attachments: tuple[str, ...] = ()
    number: int = 0
    foreign: tuple[str, ...] = ()
    workspace: str = ""


class InterruptedMessage(NamedTuple):
    """What a process had begun to answer when it died.

    `reply` is what it had kept of that, None for nothing; `within` the number whose turn was to hear it, 0 for its own,
    RETRIED for its own after another process had died of it; `acts` tells whether something may have been done that is
    not known.
    """

    arrived: InboxMessage
    reply: str | None
    within: int
    acts: bool


class Inbox(Table):
    """What was not answered yet, and the numbers of the last that were."""

    def put(self, arrived: InboxMessage) -> InboxMessage | None:
        """Keep it durably; returns it with its number, None when it is known already."""
        arrived = arrived._replace(key=replace_surrogates(arrived.key), text=replace_surrogates(arrived.text))
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO inbox (key, text, who, origin, external, attachments, foreign_parts, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*arrived[:5], json.dumps(arrived.attachments), json.dumps(arrived.foreign), time.time()),
            )
            if not connection.changes():
                return None
            number = connection.last_insert_rowid()
            connection.execute("DELETE FROM inbox WHERE done AND id <= ?", (number - _MAX_ANSWERED,))
            if arrived.foreign or is_other_person(arrived.origin):
                workspace = Path(arrived.workspace or self._database.path.parent / "workspace").resolve()
                heard = f"a message by {arrived.who}", *arrived.foreign
                for name in arrived.attachments:
                    add_foreign_file(connection, str(workspace / name), heard)
            return arrived._replace(number=number)

    def find(self, key: str, externals: Iterable[str]) -> int:
        """Return the number of a session's message with one of these numbers of the other side; 0 for none.

        Where `external` holds several, parted by blanks, each of them counts. The last that were answered are known.
        """
        return next(filter(None, (self._database.select_value(_SELECT_NUMBER, key, one) for one in externals)), 0)

    def waiting(self) -> list[InboxMessage]:
        """List what nobody has begun to answer, the oldest first."""
        return [arrived for arrived, process, _ in self._unanswered() if not process]

    def open_texts(self, key: str) -> list[tuple[str, float]]:
        """Give what a chat has said that no kept turn answers yet, with when; without the buttons that were pressed."""
        return self._database.select(_SELECT_UNANSWERED, key)

    def begin(self, numbers: Sequence[int], within: int = 0) -> None:
        """Write down that this process is about to answer them; `within` is the number whose turn hears them."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE inbox SET process = ?, within = iif(?2, ?2, min(within, 0)) WHERE id = ?3",
                [(get_process_identity(), within, number) for number in numbers],
            )

    def put_back(self, numbers: Sequence[int]) -> None:
        """Take back that they are being answered."""
        with self._database.transaction() as connection:
            sql = "UPDATE inbox SET process = '', within = 0 WHERE id = ?"
            connection.executemany(sql, [(number,) for number in numbers])

    def try_again(self, number: int) -> None:
        """Put back what a dead process had begun, and remember that."""
        self._database.write("UPDATE inbox SET process = '', within = ? WHERE id = ?", RETRIED, number)

    def done(self, arrived: InboxMessage, message: str = "") -> None:
        """Keep that it was answered, with those that its turn has heard; a `message` goes out in the same moment."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE inbox SET done = 1, text = '' WHERE id = ?1 OR (within = ?1 AND process != '')",
                (arrived.number,),
            )
            if message:
                put_message(connection, arrived.key, message, time.time())

    def left_behind(self) -> list[InterruptedMessage]:
        """List what dead processes had begun, the oldest first."""
        return [
            InterruptedMessage(
                arrived,
                self._database.select_value(_SELECT_REPLY, max(within, 0) or arrived.number),
                within,
                bool(self._database.select_value(_COUNT_ACTS, arrived.key, process)),
            )
            for arrived, process, within in self._unanswered()
            if process and not is_process_alive(process)
        ]

    def _unanswered(self) -> list[tuple[InboxMessage, str, int]]:
        """List what was not answered, with the process that does it, and the number whose turn hears it."""
        found, rows = [], self._database.select(_SELECT)
        for key, text, who, origin, external, attachments, foreign, number, process, within in rows:
            known: Origin = origin if origin in get_args(Origin) else "guest"
            paths, parts = tuple(json.loads(attachments)), tuple(json.loads(foreign))
            found.append((InboxMessage(key, text, who, known, external, paths, number, parts), process, within))
        return found


# Files that others' words have led to, or that others have sent, until the owner has accepted them. What such a turn
# writes may be what a page wants to have run: `json.py` beside a script that is planned, a Makefile.


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
