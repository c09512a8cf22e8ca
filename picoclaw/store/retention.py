"""For how long conversations are kept in `state.db`, and what becomes of their place in the file.

What goes, goes turn by turn, the oldest first, a few in one transaction: a cut leaves whole turns, and another process
waits for a moment only. Runs of jobs, and heartbeats, are kept shortly: nobody comes back to them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

import apsw

from picoclaw.store.database import Database

SURE_AFTER = 20
"""Newest turns of the chats by whose date age is counted: a board that was in a drawer, or whose date is wrong for an
hour, loses nothing."""

_AT_ONCE = 200
_RUN_DAYS, _RUNS, _HEARTBEATS = 7, 3, 50
_DAY_S = 86_400
_ROW_BYTES = 100
_RESULTS_SHARE = 0.25
_LEAST_FREED, _MOST_MOVED = 4_000_000, 8_000_000  # the second in a few seconds on a slow card

_IS_RUN = "(key = 'heartbeat' OR key GLOB 'job [0-9]* *')"
_JOB = "substr(key, 1, 3 + instr(substr(key, 5), ' '))"
_SURE = f"""
    SELECT unixepoch(at) FROM turns JOIN sessions ON sessions.id = session WHERE NOT {_IS_RUN}
    ORDER BY turns.id DESC LIMIT 1 OFFSET ?
"""  # noqa: S608
# A board without a clock may have said 1970: such a turn is as old as those after it.
_OLD = """
    SELECT id FROM {table} WHERE unixepoch(at) < ?1
    AND id <= (SELECT max(id) FROM {table} WHERE unixepoch(at) BETWEEN 1704067200 AND ?1 - 1)
"""
_OLD_RUNS = f"""
    SELECT turns.id FROM turns JOIN (
        SELECT id, row_number() OVER (PARTITION BY {_JOB} ORDER BY id DESC) > ?1 AS many FROM sessions
        WHERE key GLOB 'job [0-9]* *' AND EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
    ) AS runs ON runs.id = session WHERE many OR unixepoch(at) < ?3
    UNION SELECT id FROM (
        SELECT turns.id, at, row_number() OVER (ORDER BY turns.id DESC) > ?2 AS many
        FROM turns JOIN sessions ON sessions.id = session WHERE key = 'heartbeat'
    ) WHERE many OR unixepoch(at) < ?3
"""  # noqa: S608
_SIZES = {
    "turns": f"""
        SELECT turn, {_ROW_BYTES} + sum(octet_length(text) + octet_length(calls) + {_ROW_BYTES}) FROM messages
        GROUP BY turn ORDER BY turn DESC
    """,  # noqa: S608
    "results": "SELECT id, octet_length(text) FROM results ORDER BY id DESC",
}

_IN = "IN (SELECT value FROM json_each(?1))"
_COUNT_SPENT = f"""
    INSERT INTO spent
        SELECT substr(at, 1, 10), CASE WHEN key GLOB 'job [0-9]* *' THEN {_JOB} ELSE key END, provider,
            sum(prompt_tokens), sum(completion_tokens)
        FROM turns JOIN sessions ON sessions.id = session
        WHERE turns.id {_IN} AND prompt_tokens + completion_tokens > 0 GROUP BY 1, 2, 3
    ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens
"""  # noqa: S608
_THEIR_RESULTS = f"""
    SELECT id FROM results WHERE turn {_IN}
"""  # noqa: S608
_OLD_SUMMARIES = f"""
    DELETE FROM summaries WHERE session {_IN} AND upto <= ?2
    AND id < (SELECT max(id) FROM summaries AS others WHERE others.session = summaries.session)
"""  # noqa: S608
_EMPTY = f"SELECT id FROM sessions WHERE id {_IN} AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)"  # noqa: S608


class Pruned(NamedTuple):
    """What was deleted."""

    conversations: int = 0
    turns: int = 0
    messages: int = 0
    results: int = 0


def prune(database: Database, now: datetime, days: int, mb: float, sure_after: int = SURE_AFTER) -> Pruned:
    """Delete what is older than `days`, then the oldest of more than `mb` megabytes; nothing is written for nothing.

    Age is counted from the date of the chats' turn that is as new as `sure_after` others, or from `now` if that is
    earlier; with 0 from `now`. Raises StoreError.
    """
    turns, results = doomed(database, now, days, mb, sure_after)
    gone = Pruned()
    for some in _some(results):
        with database.erasure() as connection:
            connection.execute(f"DELETE FROM results WHERE id {_IN}", (json.dumps(some),))  # noqa: S608
            gone = gone._replace(results=gone.results + connection.changes())
    for some in _some(turns):
        with database.erasure() as connection:
            conversations, messages = _drop(connection, some)
        gone = gone._replace(
            conversations=gone.conversations + conversations,
            turns=gone.turns + len(some),
            messages=gone.messages + messages,
        )
    return gone


def doomed(
    database: Database, now: datetime, days: int, mb: float, sure_after: int = SURE_AFTER
) -> tuple[list[int], list[int]]:
    """Name what a pruning would delete: the numbers of turns and of results. Raises StoreError."""
    with database.reading() as connection:
        moment = int(now.timestamp())
        turns = set(_numbers(connection, _OLD_RUNS, _RUNS, _HEARTBEATS, moment - _RUN_DAYS * _DAY_S))
        results: set[int] = set()
        sure = connection.execute(_SURE, (sure_after - 1,)).get if sure_after else moment
        if sure is not None:
            before = min(moment, int(str(sure))) - days * _DAY_S
            turns |= set(_numbers(connection, _OLD.format(table="turns"), before))
            results |= set(_numbers(connection, _OLD.format(table="results"), before))
        if _used_bytes(connection) > mb * 1e6:
            results |= set(_beyond(connection, "results", results, mb * 1e6 * _RESULTS_SHARE))
            turns |= set(_beyond(connection, "turns", turns, mb * 1e6 * (1 - _RESULTS_SHARE)))
        results |= set(_numbers(connection, _THEIR_RESULTS, json.dumps(sorted(turns))))
    return sorted(turns), sorted(results)


def drop_turns(connection: apsw.Connection, turns: Sequence[int]) -> int:
    """Delete turns within the caller's transaction, adding up their tokens; returns how many messages went."""
    numbers = (json.dumps(turns),)
    connection.execute(_COUNT_SPENT, numbers)
    connection.execute(f"DELETE FROM messages WHERE turn {_IN}", numbers)  # noqa: S608
    messages = connection.changes()
    connection.execute(f"DELETE FROM turns WHERE id {_IN}", numbers)  # noqa: S608
    return messages


def shrink(database: Database, most_moved: int = _MOST_MOVED) -> bool:
    """Write the file anew when that is soon done and at least halves it; tells whether it did. Raises StoreError."""
    with database.reading() as connection:
        used, size = _used_bytes(connection), _pages(connection, "page_count")
    pays = size - used >= max(used, _LEAST_FREED) and used <= most_moved
    if not pays or _room(database) < 3 * used:
        return False
    database.shrink()
    return True


def _drop(connection: apsw.Connection, turns: Sequence[int]) -> tuple[int, int]:
    """Delete turns, older summaries of what they said, and the conversations that nothing is left of."""
    where = f"SELECT DISTINCT session FROM turns WHERE id {_IN}"  # noqa: S608
    sessions = json.dumps(_numbers(connection, where, json.dumps(turns)))
    messages = drop_turns(connection, turns)
    connection.execute(_OLD_SUMMARIES, (sessions, max(turns)))
    empty = json.dumps(found := _numbers(connection, _EMPTY, sessions))
    for table, column in (("summaries", "session"), ("results", "session"), ("sessions", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {_IN}", (empty,))  # noqa: S608
    return len(found), messages


def _beyond(connection: apsw.Connection, table: str, gone: set[int], most: float) -> Iterator[int]:
    """Name what is left when the newest have filled their share of the room."""
    rows = [(int(str(number)), int(str(size))) for number, size in connection.execute(_SIZES[table])]
    left = [(number, size) for number, size in rows if number not in gone]
    sums = accumulate(size for _, size in left)
    yield from (number for (number, _), total in zip(left, sums, strict=True) if total > most)


def _used_bytes(connection: apsw.Connection) -> int:
    return _pages(connection, "page_count") - _pages(connection, "freelist_count")


def _room(database: Database) -> int:
    disk = os.statvfs(database.path.parent)
    return disk.f_bavail * disk.f_frsize


def _pages(connection: apsw.Connection, count: str) -> int:
    pages, size = (int(str(connection.execute(f"PRAGMA {name}").get)) for name in (count, "page_size"))
    return pages * size


def _numbers(connection: apsw.Connection, sql: str, *values: int | str) -> list[int]:
    return [int(str(number)) for (number,) in connection.execute(sql, values)]


def _some(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + _AT_ONCE] for at in range(0, len(numbers), _AT_ONCE))
