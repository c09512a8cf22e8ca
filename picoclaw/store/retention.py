"""For how long conversations are kept in `state.db`, and what becomes of their place in the file.

What goes, goes turn by turn, the oldest first, a few in one transaction: a cut leaves whole turns, and another process
waits for a moment only. Runs of jobs, and heartbeats, are kept shortly: nobody comes back to them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from picoclaw.records import NamedTuple
from picoclaw.store.database import Database, Marks, StoreConnection
from picoclaw.store.ledger import Ledger

REFERENCE_TURNS = 20
"""Newest turns of the chats by whose date age is counted: a board that was in a drawer, or whose date is wrong for an
hour, loses nothing."""

FIRST_PLAUSIBLE_YEAR = 2024
"""A board without a battery begins in an earlier year, and learns the time from the network."""

_BATCH_SIZE = 200
_JOB_RUN_DAYS, _MAX_JOB_RUNS, _MAX_HEARTBEAT_TURNS = 7, 3, 50
_DAY_S = 86_400
_ROW_BYTES = 100
_RESULTS_SHARE = 0.25
_MIN_FREED_BYTES, _MAX_REWRITTEN_BYTES = 4_000_000, 8_000_000  # the second in a few seconds on a slow card

_JOB_RUN_CONDITION = "(key = 'heartbeat' OR key GLOB 'job [0-9]* *')"
_JOB_KEY = "substr(key, 1, 3 + instr(substr(key, 5), ' '))"
_SELECT_REFERENCE_DATE = f"""
    SELECT unixepoch(at) FROM turns JOIN sessions ON sessions.id = session WHERE NOT {_JOB_RUN_CONDITION}
    ORDER BY turns.id DESC LIMIT 1 OFFSET ?
"""  # noqa: S608
# A board without a clock may have said 1970: such a turn is as old as those after it.
_SELECT_OLD = """
    SELECT id FROM {table} WHERE unixepoch(at) < ?1
    AND id <= (SELECT max(id) FROM {table} WHERE unixepoch(at) BETWEEN 1704067200 AND ?1 - 1)
"""
_SELECT_OLD_RUNS = f"""
    SELECT turns.id FROM turns JOIN (
        SELECT id, row_number() OVER (PARTITION BY {_JOB_KEY} ORDER BY id DESC) > ?1 AS many FROM sessions
        WHERE key GLOB 'job [0-9]* *' AND EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
    ) AS runs ON runs.id = session WHERE many OR unixepoch(at) < ?3
    UNION SELECT id FROM (
        SELECT turns.id, at, row_number() OVER (ORDER BY turns.id DESC) > ?2 AS many
        FROM turns JOIN sessions ON sessions.id = session WHERE key = 'heartbeat'
    ) WHERE many OR unixepoch(at) < ?3
"""  # noqa: S608
_SELECT_SIZES = {
    "turns": f"""
        SELECT turn, {_ROW_BYTES} + sum(octet_length(text) + octet_length(calls) + {_ROW_BYTES}) FROM messages
        GROUP BY turn ORDER BY turn DESC
    """,  # noqa: S608
    "results": "SELECT id, octet_length(text) FROM results ORDER BY id DESC",
}

_IN_NUMBERS = "IN (SELECT value FROM json_each(?1))"
_ADD_SPENT_TOKENS = f"""
    INSERT INTO spent
        SELECT substr(at, 1, 10), CASE WHEN key GLOB 'job [0-9]* *' THEN {_JOB_KEY} ELSE key END, provider,
            sum(prompt_tokens), sum(completion_tokens)
        FROM turns JOIN sessions ON sessions.id = session
        WHERE turns.id {_IN_NUMBERS} AND prompt_tokens + completion_tokens > 0 GROUP BY 1, 2, 3
    ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens
"""  # noqa: S608
_SELECT_TURN_RESULTS = f"""
    SELECT id FROM results WHERE turn {_IN_NUMBERS}
"""  # noqa: S608
_MARK_ERASED = """
    UPDATE shared_rows SET mark = 'erased' WHERE kind = 'turns' AND local IN (SELECT CAST(value AS TEXT) FROM json_each(?1))
"""
_DELETE_OLD_SUMMARIES = f"""
    DELETE FROM summaries WHERE session {_IN_NUMBERS} AND upto <= ?2
    AND id < (SELECT max(id) FROM summaries AS others WHERE others.session = summaries.session)
"""  # noqa: S608
_SELECT_EMPTY_CONVERSATIONS = (
    f"SELECT id FROM sessions WHERE id {_IN_NUMBERS} AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)"  # noqa: S608
)


class PruneResult(NamedTuple):
    conversations: int = 0
    turns: int = 0
    messages: int = 0
    results: int = 0


def prune_daily(database: Database, now: datetime, days: int, mb: float) -> None:
    """Prune once a day, for a process that answers and leaves. Raises StoreError."""
    marks, name, today = Marks(database), "pruned.day", str(now.date())
    before = marks.get(name)
    if before != today and now.year >= FIRST_PLAUSIBLE_YEAR and marks.moved(name, before, today):
        prune(database, now, days, mb)


def prune(database: Database, now: datetime, days: int, mb: float) -> None:
    """Delete conversations and usage records that are kept no longer, and shrink the file. Raises StoreError."""
    prune_conversations(database, now, days, mb)
    Ledger(lambda: database).prune()
    shrink(database)


def prune_conversations(
    database: Database, now: datetime, days: int, mb: float, sure_after: int = REFERENCE_TURNS
) -> PruneResult:
    """Delete what is older than `days`, then the oldest of more than `mb` megabytes; nothing is written for nothing.

    Age is counted from the date of the chats' turn that is as new as `sure_after` others, or from `now` if that is
    earlier; with 0 from `now`. Raises StoreError.
    """
    turns, results = select_prunable(database, now, days, mb, sure_after)
    gone = PruneResult()
    for some in _split_batches(results):
        with database.erasure() as connection:
            connection.execute(f"DELETE FROM results WHERE id {_IN_NUMBERS}", (json.dumps(some),))  # noqa: S608
            gone = gone._replace(results=gone.results + connection.changes())
    for some in _split_batches(turns):
        with database.erasure() as connection:
            conversations, messages = _delete_with_leftovers(connection, some)
        gone = gone._replace(
            conversations=gone.conversations + conversations,
            turns=gone.turns + len(some),
            messages=gone.messages + messages,
        )
    return gone


def select_prunable(
    database: Database, now: datetime, days: int, mb: float, sure_after: int = REFERENCE_TURNS
) -> tuple[list[int], list[int]]:
    """Name what a pruning would delete: the numbers of turns and of results. Raises StoreError."""
    with database.reading() as connection:
        moment = int(now.timestamp())
        turns = set(
            _select_numbers(
                connection, _SELECT_OLD_RUNS, _MAX_JOB_RUNS, _MAX_HEARTBEAT_TURNS, moment - _JOB_RUN_DAYS * _DAY_S
            )
        )
        results: set[int] = set()
        sure = connection.execute(_SELECT_REFERENCE_DATE, (sure_after - 1,)).get if sure_after else moment
        if sure is not None:
            before = min(moment, sure) - days * _DAY_S
            turns |= set(_select_numbers(connection, _SELECT_OLD.format(table="turns"), before))
            results |= set(_select_numbers(connection, _SELECT_OLD.format(table="results"), before))
        if _count_used_bytes(connection) > mb * 1e6:
            results |= set(_select_over_limit(connection, "results", results, mb * 1e6 * _RESULTS_SHARE))
            turns |= set(_select_over_limit(connection, "turns", turns, mb * 1e6 * (1 - _RESULTS_SHARE)))
        results |= set(_select_numbers(connection, _SELECT_TURN_RESULTS, json.dumps(sorted(turns))))
    return sorted(turns), sorted(results)


def delete_turns(connection: StoreConnection, turns: Sequence[int]) -> int:
    """Delete turns within the caller's transaction, adding up their tokens; returns how many messages went."""
    numbers = (json.dumps(turns),)
    connection.execute(_ADD_SPENT_TOKENS, numbers)
    connection.execute(f"DELETE FROM messages WHERE turn {_IN_NUMBERS}", numbers)  # noqa: S608
    messages = connection.changes()
    connection.execute(f"DELETE FROM turns WHERE id {_IN_NUMBERS}", numbers)  # noqa: S608
    connection.execute(_MARK_ERASED, numbers)
    return messages


def shrink(database: Database, most_moved: int = _MAX_REWRITTEN_BYTES) -> bool:
    """Write the file anew when that is soon done and at least halves it; tells whether it did. Raises StoreError."""
    with database.reading() as connection:
        used, size = _count_used_bytes(connection), _get_page_bytes(connection, "page_count")
    pays = size - used >= max(used, _MIN_FREED_BYTES) and used <= most_moved
    if not pays or _get_free_disk_bytes(database) < 3 * used:
        return False
    database.shrink()
    return True


def _delete_with_leftovers(connection: StoreConnection, turns: Sequence[int]) -> tuple[int, int]:
    """Delete turns, older summaries of what they said, and the conversations that nothing is left of."""
    where = f"SELECT DISTINCT session FROM turns WHERE id {_IN_NUMBERS}"  # noqa: S608
    sessions = json.dumps(_select_numbers(connection, where, json.dumps(turns)))
    messages = delete_turns(connection, turns)
    connection.execute(_DELETE_OLD_SUMMARIES, (sessions, max(turns)))
    empty = json.dumps(found := _select_numbers(connection, _SELECT_EMPTY_CONVERSATIONS, sessions))
    for table, column in (("summaries", "session"), ("results", "session"), ("sessions", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {_IN_NUMBERS}", (empty,))  # noqa: S608
    return len(found), messages


def _select_over_limit(connection: StoreConnection, table: str, gone: set[int], most: float) -> Iterator[int]:
    """Name what is left when the newest have filled their share of the room."""
    rows = connection.execute(_SELECT_SIZES[table])
    left = [(number, size) for number, size in rows if number not in gone]
    sums = accumulate(size for _, size in left)
    yield from (number for (number, _), total in zip(left, sums, strict=True) if total > most)


def _count_used_bytes(connection: StoreConnection) -> int:
    return _get_page_bytes(connection, "page_count") - _get_page_bytes(connection, "freelist_count")


def _get_free_disk_bytes(database: Database) -> int:
    disk = os.statvfs(database.path.parent)
    return disk.f_bavail * disk.f_frsize


def _get_page_bytes(connection: StoreConnection, count: str) -> int:
    pages, size = (connection.execute(f"PRAGMA {name}").get for name in (count, "page_size"))
    return int(pages * size)


def _select_numbers(connection: StoreConnection, sql: str, *values: int | str) -> list[int]:
    return [number for (number,) in connection.execute(sql, values)]


def _split_batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + _BATCH_SIZE] for at in range(0, len(numbers), _BATCH_SIZE))
