"""The conversations of the chats in `state.db`: which is open, what was taken back, summarised or erased.

A chat, named by its key, has any number of conversations; the one that did not end is open. Everything here is about
that one, and one transaction, so that another process which does the same at the same time is either first or second.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from picoclaw.messages import Message, Usage
from picoclaw.store import archive, work
from picoclaw.store.archive import Hit, Info, Row, Spent
from picoclaw.store.database import Database, fits, storable
from picoclaw.store.history import SHOWN, alive, open_one, opened, process_identity, whole
from picoclaw.store.retention import SURE_AFTER, Pruned, drop_turns, prune

_NEWEST = """
    SELECT text, upto, summaries.at FROM summaries JOIN sessions ON sessions.id = session
    WHERE key = ? AND ended = '' ORDER BY summaries.id DESC LIMIT 1
"""
_UNSUMMARISED = """
    SELECT turns.id, role, text, calls, call_id FROM turns JOIN messages ON turn = turns.id
    WHERE session = ?1 AND NOT undone
    AND turns.id > coalesce((SELECT upto FROM summaries WHERE session = ?1 ORDER BY id DESC LIMIT 1), 0)
    ORDER BY turns.id, messages.id
"""
_LAST_SHOWN = f"SELECT max(turns.id) FROM sessions JOIN turns ON {SHOWN} WHERE key = ? AND ended = ''"  # noqa: S608
_SPEND = """
    INSERT INTO spent VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens
"""
_END = """
    UPDATE sessions SET ended = coalesce(?2, (SELECT at FROM turns WHERE session = sessions.id ORDER BY id DESC), begun)
    WHERE key = ?1 AND ended = ''
"""


class Summary(NamedTuple):
    """What was said in a conversation up to the turn `upto`, that one included; `at` is when it was written."""

    text: str
    upto: int
    at: str


class Sessions:
    """The conversations of every chat."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    # --- summaries ---

    def summary(self, key: str) -> Summary | None:
        """Return the newest summary of the open conversation."""
        with self._database.reading() as connection:
            for text, upto, at in connection.execute(_NEWEST, (storable(key),)).fetchall():
                return Summary(str(text), int(str(upto)), str(at))
        return None

    def unsummarised(self, key: str) -> list[tuple[int, tuple[Message, ...]]]:
        """Return the numbered turns that no summary holds, also those that a model is not shown any more."""
        with self._database.reading() as connection:
            rows = connection.execute(_UNSUMMARISED, (open_one(connection, key),))
            return list(whole(rows)[0].items())

    def add_summary(self, key: str, text: str, upto: int, at: datetime, after: int) -> bool:
        """Add the summary that follows the one up to `after`; tells whether what it is of is still so.

        Whoever takes turns back begins with the newest. So nothing was taken back as long as `upto` was not.
        """
        with self._database.transaction() as connection:
            number = open_one(connection, key)
            sql = "SELECT upto FROM summaries WHERE session = ? ORDER BY id DESC LIMIT 1"
            last = connection.execute(sql, (number,)).get or 0
            sql = "SELECT 1 FROM turns WHERE id = ? AND session = ? AND NOT undone"
            there = connection.execute(sql, (upto, number)).get
            if last != after or not there or upto <= after:
                return False
            connection.execute(
                "INSERT INTO summaries (session, upto, at, text) VALUES (?, ?, ?, ?)",
                (number, upto, at.isoformat(timespec="seconds"), storable(text)),
            )
            return True

    def spend(self, key: str, provider: str, usage: Usage, at: datetime) -> None:
        """Count the tokens of what was asked for a chat and is not kept as a turn."""
        if usage.total:
            row = (at.date().isoformat(), storable(key), provider, usage.prompt_tokens, usage.completion_tokens)
            with self._database.transaction() as connection:
                connection.execute(_SPEND, row)

    def flushed(self, key: str) -> int:
        """Return the newest turn when a model last wrote down what must outlast the conversation, 0 for never."""
        return int(self._of_open("flushed", key) or 0)

    def set_flushed(self, key: str, turn: int) -> None:
        """Remember that turn."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE sessions SET flushed = ? WHERE id = ?", (turn, open_one(connection, key)))

    # --- what a person asks for ---

    def begin_new(self, key: str, at: datetime) -> None:
        """End the open conversation, and keep it; the next turn opens another."""
        with self._database.transaction() as connection:
            _end(connection, key, at.isoformat(timespec="seconds"))

    def reopen(self, key: str, number: int) -> bool:
        """Go on with a conversation of the chat instead of the open one; tells whether there is one of that number."""
        with self._database.transaction() as connection:
            sql = "SELECT 1 FROM sessions WHERE id = ? AND key = ?"
            if not (fits(number) and connection.execute(sql, (number, storable(key))).get):
                return False
            if number != open_one(connection, key):
                _end(connection, key, None)
                connection.execute("UPDATE sessions SET ended = '' WHERE id = ?", (number,))
            return True

    def undo(self, key: str) -> tuple[Message, ...] | None:
        """Take back the newest turn that a model is shown; returns what of it can be read, None when there is none."""
        with self._database.transaction() as connection:
            last = connection.execute(_LAST_SHOWN, (storable(key),)).get
            if last is None:
                return None
            connection.execute("UPDATE turns SET undone = 1 WHERE id = ?", (last,))
            sql = "SELECT turn, role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id"
            turns, _ = whole(connection.execute(sql, (last,)))
            return next(iter(turns.values()), ())

    def erase(self, key: str) -> int:
        """Delete all that the open conversation holds, for good; returns how many messages that was.

        What helpers of the chat have ended goes too, and what is known of calls, but those that another process makes.
        """
        with self._database.erasure() as connection:
            work.erase(connection, storable(key))
            rows = connection.execute("SELECT id, process FROM acts WHERE session = ?", (key,)).fetchall()
            over = [(row,) for row, by in rows if str(by) == process_identity() or not alive(str(by))]
            connection.executemany("DELETE FROM acts WHERE id = ?", over)
            number = open_one(connection, key)  # 0 has nothing
            turns = connection.execute("SELECT id FROM turns WHERE session = ?", (number,)).fetchall()
            for table in ("summaries", "results"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608
            messages = drop_turns(connection, [int(str(turn)) for (turn,) in turns])
            connection.execute("UPDATE sessions SET begun = '', shown_from = 0, flushed = 0 WHERE id = ?", (number,))
            return messages

    def model(self, key: str) -> str:
        """Return the model that the open conversation is held with, '' for the configured one."""
        return str(self._of_open("model", key) or "")

    def set_model(self, key: str, name: str) -> None:
        """Choose that model."""
        with self._database.transaction() as connection:
            number = opened(connection, key, None)
            connection.execute("UPDATE sessions SET model = ? WHERE id = ?", (storable(name), number))

    # --- what there is ---

    def listed(self, key: str | None = None) -> list[Info]:
        """List the conversations, or those of a chat, the last used first."""
        with self._database.reading() as connection:
            return archive.listed(connection, key)

    def transcript(self, number: int) -> Iterator[Row]:
        """Give all that was said in a conversation, also what was taken back or is not shown to a model any more."""
        with self._database.reading() as connection:
            yield from archive.transcript(connection, number)

    def beside(self, number: int) -> list[tuple[str, dict[str, Any]]]:
        """Give the summaries of a conversation, and the results that were too long to be shown, each as a record."""
        with self._database.reading() as connection:
            return archive.beside(connection, number)

    def search(self, words: str, key: str | None = None, most: int = 20) -> list[Hit]:
        """Find the messages that have all the words, the newest first."""
        with self._database.reading() as connection:
            return archive.search(connection, words, key, most)

    def usage(self, now: datetime, key: str | None = None) -> list[Spent]:
        """Add up the tokens by provider, also those of turns that were deleted since; the most used first."""
        with self._database.reading() as connection:
            return archive.usage(connection, now, key)

    def prune(self, now: datetime, days: int, mb: float, sure_after: int = SURE_AFTER) -> Pruned:
        """Delete what is older than `days`, and the oldest of more than `mb` megabytes; see store/retention.py."""
        return prune(self._database, now, days, mb, sure_after)

    def _of_open(self, column: str, key: str) -> str | int | None:
        with self._database.reading() as connection:
            sql = f"SELECT {column} FROM sessions WHERE key = ? AND ended = ''"  # noqa: S608
            found = connection.execute(sql, (storable(key),)).get
            return found if found is None else str(found)


def _end(connection: apsw.Connection, key: str, at: str | None) -> None:
    """End the open conversation of a chat; one in which nothing was said yet goes."""
    connection.execute("DELETE FROM sessions WHERE key = ? AND ended = '' AND begun = ''", (storable(key),))
    connection.execute(_END, (storable(key), at))
