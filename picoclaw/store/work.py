"""What a helper has said and heard so far, in `state.db`, so that another process can go on with its task.

A round adds its messages; those that are kept already are written again only when they were changed.
"""

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import apsw

from picoclaw.errors import StoreDamaged
from picoclaw.messages import Message, ToolCall
from picoclaw.store.database import SET_ASIDE, storable
from picoclaw.store.task import IS_OPEN

HAS_ENDED = f"""
    session = ? AND flow NOT IN (SELECT flow FROM tasks WHERE {IS_OPEN} OR letter IN (SELECT id FROM outbox))
"""  # noqa: S608
"""Selects the tasks of a chat that nothing is to be done or told of any more."""
_KEPT_BY = """
    SELECT id FROM sessions WHERE key IN (SELECT 'helper ' || id FROM tasks WHERE flow = ?)
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
"""


def keep(connection: apsw.Connection, task: int, said: Sequence[Message]) -> None:
    """Bring what is kept of a task in line with what it has said and heard."""
    rows = connection.execute("SELECT message FROM task_messages WHERE task = ? ORDER BY place", (task,))
    kept, wanted = [str(row[0]) for row in rows], [_row(message) for message in said]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(kept, wanted, strict=False)))
    connection.execute("DELETE FROM task_messages WHERE task = ? AND place >= ?", (task, same))
    connection.executemany(
        "INSERT INTO task_messages VALUES (?, ?, ?)",
        [(task, place, row) for place, row in enumerate(wanted) if place >= same],
    )


def messages(connection: apsw.Connection, task: int, path: Path) -> list[Message]:
    """Read them; raises StoreDamaged when they are not what picoclaw writes."""
    rows = connection.execute("SELECT message FROM task_messages WHERE task = ? ORDER BY place", (task,))
    try:
        return [_message(*json.loads(str(row[0]))) for row in rows]
    except (ValueError, TypeError, RecursionError):
        raise StoreDamaged(f"{path}: what helper {task} has said is not what picoclaw writes; {SET_ASIDE}") from None


def forget(connection: apsw.Connection, flow: int) -> None:
    """Drop what the tasks of a workflow have said, and what their tools gave; their results stay."""
    connection.execute("DELETE FROM task_messages WHERE task IN (SELECT id FROM tasks WHERE flow = ?)", (flow,))
    connection.execute(f"DELETE FROM results WHERE session IN ({_KEPT_BY})", (flow,))  # noqa: S608
    connection.execute(f"DELETE FROM sessions WHERE id IN ({_KEPT_BY})", (flow,))  # noqa: S608


def prune(connection: apsw.Connection, before: float) -> None:
    """Drop tasks that were told and ended before a moment, in seconds since 1970."""
    connection.execute("DELETE FROM tasks WHERE letter != 0 AND ended > 0 AND ended < ?", (before,))


def erase(connection: apsw.Connection, session: str) -> None:
    """Delete the tasks of a chat whose workflow has ended and was told, with all that is known of them."""
    ended = f"SELECT id FROM tasks WHERE {HAS_ENDED}"  # noqa: S608
    for table, column in (("task_messages", "task"), ("tasks", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN ({ended})", (session,))  # noqa: S608


def _row(message: Message) -> str:
    calls = [[call.id, call.name, call.arguments, call.broken] for call in message.calls]
    return storable(json.dumps([message.role, message.text, calls, message.call_id], ensure_ascii=False))


def _message(role: Any, text: Any, calls: Any, call_id: Any) -> Message:
    return Message(role, text, tuple(ToolCall(*call) for call in calls), call_id)
