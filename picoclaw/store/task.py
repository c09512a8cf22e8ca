"""A task of a helper's as a row of `state.db`."""

import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import apsw

from picoclaw.prompt import Mode
from picoclaw.store.database import storable

Status = Literal["waiting", "running", "done", "failed", "impossible", "cancelled", "lost"]
"""Impossible: what it needs was not done. Lost: its process ended, and it cannot be gone on with."""
OPEN = ("waiting", "running")
BEATING = -1
"""The parent of what a heartbeat asked for."""
IS_OPEN = "status IN ('waiting', 'running')"


class Used(NamedTuple):
    """What a task may take, or has taken: model calls, seconds, tokens in and out."""

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0


class Task(NamedTuple):
    """Something for a helper to do; see m009_tasks.

    `tools` are those that it may call, None for all; `limits` is what it may take, `used` what it has taken. `taint`
    names what the turn that asked for it had read, that is nobody's word.
    """

    number: int
    session: str
    name: str
    text: str
    limits: Used
    tools: frozenset[str] | None = None
    mode: Mode = "minimal"
    needs: tuple[int, ...] = ()
    parent: int = 0
    depth: int = 1
    flow: int = 0
    waits: str = ""
    status: Status = "waiting"
    claimed: str = ""
    tries: int = 0
    used: Used = Used()
    result: str = ""
    letter: int = 0
    heard: bool = False
    asked: float = 0.0
    ended: float = 0.0
    taint: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What to call it: its name and its number."""
        return f"{self.name} ({self.number})" if self.name else str(self.number)

    @property
    def key(self) -> str:
        """Its own conversation, apart from the chat's."""
        return f"helper {self.number}"


_COLUMNS = (
    "session, name, text, steps, seconds, tokens, tools, mode, needs, parent, depth, flow, waits, status, claimed,"
    " tries, used_steps, used_seconds, used_tokens, result, letter, heard, asked, ended, taint"
)
_PLACES = ", ".join("?" * (_COLUMNS.count(",") + 1))


def insert(connection: apsw.Connection, task: Task) -> None:
    """Add a task under its number."""
    values = (task.number, *_values(task))
    connection.execute(f"INSERT INTO tasks (id, {_COLUMNS}) VALUES (?, {_PLACES})", values)  # noqa: S608


def keep(connection: apsw.Connection, task: Task) -> None:
    """Write a task as it is now."""
    connection.execute(
        f"UPDATE tasks SET ({_COLUMNS}) = ({_PLACES}) WHERE id = ?",  # noqa: S608
        (*_values(task), task.number),
    )


def _values(task: Task) -> tuple[Any, ...]:
    return (
        *(storable(task.session), storable(task.name), storable(task.text), *task.limits),
        *(json.dumps(None if task.tools is None else sorted(task.tools)), task.mode, json.dumps(task.needs)),
        *(task.parent, task.depth, task.flow, task.waits, task.status, task.claimed, task.tries, *task.used),
        *(storable(task.result), task.letter, int(task.heard), task.asked, task.ended),
        storable(json.dumps(task.taint, ensure_ascii=False)),
    )


def read(connection: apsw.Connection, where: str, *values: str | int | None) -> list[Task]:
    """List the tasks that a condition selects."""
    rows: Iterable[Any] = connection.execute(f"SELECT id, {_COLUMNS} FROM tasks {where}", values)  # noqa: S608
    return [_task(*row) for row in rows]


def _task(number: int, session: str, name: str, text: str, *rest: Any) -> Task:
    steps, seconds, tokens, tools, mode, needs, *more = rest
    parent, depth, flow, waits, status, claimed, tries, *last = more
    used, (result, letter, heard, asked, ended, taint) = Used(*last[:3]), last[3:]
    names = json.loads(tools)
    may = None if names is None else frozenset[str](names)
    task = Task(number, session, name, text, Used(steps, seconds, tokens), may, mode, tuple(json.loads(needs)))
    task = task._replace(parent=parent, depth=depth, flow=flow, waits=waits, status=status, claimed=claimed)
    task = task._replace(tries=tries, used=used, result=result, letter=letter, heard=bool(heard))
    return task._replace(asked=asked, ended=ended, taint=tuple(json.loads(taint)))
