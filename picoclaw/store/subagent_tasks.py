"""Tasks of sub-agents in `state.db`. The owner's open tasks are the pulse (pulse.py)."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from picoclaw.errors import StoreDamaged
from picoclaw.messages import TASK_SESSIONS, Message, Origin
from picoclaw.prompts import PromptMode
from picoclaw.records import NamedTuple
from picoclaw.store.conversations import (
    OPEN_CONDITION,
    get_process_identity,
    is_process_alive,
    list_calls,
    make_tool_call,
)
from picoclaw.store.database import DAMAGE_ADVICE, Database, StoreConnection, Table, insert, update
from picoclaw.store.inbox_outbox import put_message
from picoclaw.text import replace_surrogates

TaskStatus = Literal["waiting", "running", "done", "failed", "impossible", "cancelled", "lost"]
"""Impossible: what it needs was not done. Lost: its process ended, and it cannot be gone on with."""
OPEN_STATUSES = ("waiting", "running")
HEARTBEAT_PARENT = -1
"""The parent of what a heartbeat asked for."""


class TaskUsage(NamedTuple):
    """What a task may take, or has taken: model calls, seconds, tokens in and out."""

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0


class Task(NamedTuple):
    """Something for a sub-agent to do; see m009_tasks.

    `tools` are those that it may call, None for all; `limits` is what it may take, `used` what it has taken. `taint`
    names the untrusted sources that the turn that asked for it had read, and once it has ended those of its report.

    `agent` is the key of the agent that does it, '' for the home's own, and `asker` that of another one that has
    delegated it, '' for a sub-agent. `who` and `origin` are the Caller's of the turn that it began with.
    """

    number: int
    session: str
    name: str
    text: str
    limits: TaskUsage
    tools: frozenset[str] | None = None
    mode: PromptMode = "minimal"
    needs: tuple[int, ...] = ()
    parent: int = 0
    depth: int = 1
    flow: int = 0
    waits: str = ""
    status: TaskStatus = "waiting"
    claimed: str = ""
    tries: int = 0
    used: TaskUsage = TaskUsage()
    result: str = ""
    letter: int = 0
    heard: bool = False
    asked: float = 0.0
    ended: float = 0.0
    taint: tuple[str, ...] = ()
    agent: str = ""
    asker: str = ""
    who: str = ""
    origin: Origin = "subagent"

    @property
    def title(self) -> str:
        """Who does it, for people: an agent, or a sub-agent."""
        return f"{'agent' if self.asker else 'sub-agent'} {self.label}"

    @property
    def label(self) -> str:
        """What to call it: its name and its number."""
        return f"{self.name} ({self.number})" if self.name else str(self.number)

    @property
    def key(self) -> str:
        """Its own conversation, apart from the chat's."""
        return f"{TASK_SESSIONS}{self.number}"


_FIELDS = [name for name in Task._fields if name not in {"number", "limits", "used"}]
_COLUMNS = ", ".join(["id", *TaskUsage._fields, *(f"used_{name}" for name in TaskUsage._fields), *_FIELDS])


def update_task(connection: StoreConnection, task: Task) -> None:
    update(connection, "tasks", task.number, **_encode_task(task))


def _encode_task(task: Task) -> dict[str, Any]:
    row = task._asdict()
    del row["number"], row["limits"], row["used"]
    row["tools"] = json.dumps(None if task.tools is None else sorted(task.tools))
    row |= {"needs": json.dumps(task.needs), "taint": json.dumps(task.taint, ensure_ascii=False)}
    return row | task.limits._asdict() | {f"used_{name}": value for name, value in task.used._asdict().items()}


def select_tasks(connection: StoreConnection, where: str, *values: str | int | None) -> list[Task]:
    rows: Iterable[Any] = connection.execute(f"SELECT {_COLUMNS} FROM tasks {where}", values)  # noqa: S608
    return [_decode_task(*row) for row in rows]


def _decode_task(number: int, *row: Any) -> Task:
    values: dict[str, Any] = dict(zip(_FIELDS, row[6:], strict=True))
    tools, *lists = (json.loads(values[name]) for name in ("tools", "needs", "taint"))
    values |= dict(zip(("needs", "taint"), map(tuple, lists), strict=True)) | {"heard": bool(values["heard"])}
    values["tools"] = None if tools is None else frozenset(tools)
    return Task(number=number, limits=TaskUsage(*row[:3]), used=TaskUsage(*row[3:6]), **values)


# What a sub-agent has said and heard so far, in `state.db`, so that another process can go on with its task.
#
# A round adds its messages; those that are kept already are written again only when they were changed.

REPORTED_CONDITION = f"""
    session = ? AND flow NOT IN (SELECT flow FROM tasks WHERE {OPEN_CONDITION} OR letter IN (SELECT id FROM outbox))
"""  # noqa: S608
"""Selects the tasks of a chat that nothing is to be done or told of any more."""
_SELECT_TASK_SESSIONS = """
    SELECT id FROM sessions WHERE key IN (SELECT 'subagent ' || id FROM tasks WHERE flow = ?)
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
"""


def save_task_messages(connection: StoreConnection, task: int, said: Sequence[Message]) -> None:
    """Bring what is kept of a task in line with what it has said and heard."""
    rows = connection.execute("SELECT message FROM task_messages WHERE task = ? ORDER BY place", (task,))
    kept, wanted = [row[0] for row in rows], [_encode_message(message) for message in said]
    pairs = enumerate(zip(kept, wanted, strict=False))
    same = next((place for place, (old, new) in pairs if old != new), min(len(kept), len(wanted)))
    connection.execute("DELETE FROM task_messages WHERE task = ? AND place >= ?", (task, same))
    connection.executemany(
        "INSERT INTO task_messages VALUES (?, ?, ?)",
        [(task, place, row) for place, row in enumerate(wanted) if place >= same],
    )


def load_task_messages(connection: StoreConnection, task: int, path: Path) -> list[Message]:
    """Read them; raises StoreDamaged when they are not what picoclaw writes."""
    rows = connection.execute("SELECT message FROM task_messages WHERE task = ? ORDER BY place", (task,))
    try:
        return [
            Message(role, text, tuple(make_tool_call(*call) for call in calls), call_id)
            for role, text, calls, call_id in (json.loads(row[0]) for row in rows)
        ]
    except (ValueError, TypeError, RecursionError):
        raise StoreDamaged(
            f"{path}: what sub-agent {task} has said is not what picoclaw writes; {DAMAGE_ADVICE}"
        ) from None


def delete_reported_tasks(connection: StoreConnection, session: str) -> None:
    """Delete the tasks of a chat whose workflow has ended and was told, with all that is known of them."""
    ended = f"SELECT id FROM tasks WHERE {REPORTED_CONDITION}"  # noqa: S608
    for table, column in (("task_messages", "task"), ("tasks", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN ({ended})", (session,))  # noqa: S608


def _encode_message(message: Message) -> str:
    row = [message.role, message.text, list_calls(message.calls), message.call_id]
    return replace_surrogates(json.dumps(row, ensure_ascii=False))


# What sub-agents were given to do, in `state.db`: kept before they begin, so that no kill loses a task or does it twice.
#
# How a task ended, what becomes of those that need it, and the message that tells the chat, are one transaction.

_RETENTION_S = 30 * 86_400.0
_MAX_TRIES = 3
"""A task that took its process with it so often, perhaps by filling the memory, is not begun again."""
_SUM_HEARTBEAT_TOKENS = f"""
    SELECT coalesce(sum(CASE WHEN {OPEN_CONDITION} THEN max(tokens, used_tokens) ELSE used_tokens END), 0) FROM tasks
    WHERE flow IN (SELECT flow FROM tasks WHERE parent = ?) AND asked >= ?
"""  # noqa: S608

ReportFormatter = Callable[[Sequence[Task]], str]
"""Words the one message about the tasks of a workflow that has ended."""


class Tasks(Table):
    def __init__(self, database: Database, worded: ReportFormatter) -> None:
        """Work on an open database; `worded` words the messages."""
        super().__init__(database)
        self._worded = worded

    def add(self, tasks: Sequence[Task], now: float) -> list[Task]:
        """Keep new tasks durably, all or none; a need below 0 is one of them: -1 the first. Returns them with numbers.

        They join the workflow of what they need or of whoever asked, as long as that goes on.
        """
        with self._database.transaction() as connection:
            old = "DELETE FROM tasks WHERE letter != 0 AND ended > 0 AND ended < ?"
            connection.execute(old, (now - _RETENTION_S,))
            given_last = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'tasks'"
            first = connection.execute(given_last).get + 1
            given = [
                task._replace(number=first + i, needs=tuple(n if n > 0 else first - n - 1 for n in task.needs))
                for i, task in enumerate(tasks)
            ]
            flow = _join_workflow(connection, given) or first
            given = [task._replace(flow=flow, asked=now) for task in given]
            for task in given:
                insert(connection, "tasks", id=task.number, **_encode_task(task))
            self._settle(connection, flow, now)
            return given

    def get(self, number: int) -> Task | None:
        return next(iter(self._listed("WHERE id = ?", number)), None)

    def flow(self, number: int) -> list[Task]:
        return self._listed("WHERE flow = ? ORDER BY id", number)

    def list_above(self, task: Task | None) -> Iterator[Task]:
        """A task, and those that it is a part of, the innermost first."""
        while task:
            yield task
            task = self.get(task.parent) if task.parent else None

    def children(self, number: int) -> list[Task]:
        return self._listed("WHERE parent = ? ORDER BY id", number)

    def of_heartbeats(self, since: float) -> int:
        """Count the tokens of sub-agents that heartbeats have asked for since a moment, in seconds since 1970.

        One that has not ended counts with all that it may take.
        """
        return int(self._database.select_value(_SUM_HEARTBEAT_TOKENS, HEARTBEAT_PARENT, since))

    def unfinished(self, session: str | None = None) -> list[Task]:
        """List what is waiting or running, of a chat or of all."""
        return self._listed(f"WHERE {OPEN_CONDITION} AND coalesce(?, session) = session ORDER BY id", session)

    def ended(self, session: str) -> list[Task]:
        """List the tasks of a chat that nothing is to be done or told of any more."""
        return self._listed(f"WHERE {REPORTED_CONDITION} ORDER BY id", session)

    def newest(self, session: str, most: int) -> list[Task]:
        """List the newest tasks of a chat, the newest last."""
        return self._listed("WHERE session = ? ORDER BY id DESC LIMIT ?", session, most)[::-1]

    def claim(self, now: float, wants: Callable[[Task], bool] = lambda _: True) -> Task | None:
        """Take the first task that is wanted and can be begun or gone on with; None when there is none.

        Each is taken by one process only, and from another one when that is dead. One that nobody will go on with is
        reported as lost.
        """
        unfinished = self.unfinished()
        if not any(_can_be_taken(task, unfinished) and wants(task) for task in unfinished):
            return None  # and nothing is written
        with self._database.transaction() as connection:
            done = {row[0] for row in connection.execute("SELECT id FROM tasks WHERE status = 'done'")}
            unfinished = select_tasks(connection, f"WHERE {OPEN_CONDITION} ORDER BY id")
            for task in unfinished:
                if not (wants(task) and _can_be_taken(task, unfinished) and done.issuperset(task.needs)):
                    continue
                if task.tries < _MAX_TRIES:
                    return _start_task(connection, task, "")  # whoever waited is gone, so the chat is told
                self._end(connection, task, "lost", f"picoclaw ended {task.tries} times while it worked on it", now)
        return None

    def go_on(self, number: int) -> Task | None:
        """Take what a sub-agent waited for when its process ended, for that sub-agent; None when that cannot be done now."""
        with self._database.transaction() as connection:
            found = select_tasks(connection, f"WHERE id = ? AND {OPEN_CONDITION}", number)
            return (
                _start_task(connection, found[0], get_process_identity()) if found and is_claimable(found[0]) else None
            )

    def messages(self, task: Task) -> list[Message]:
        """Return what a task has said and heard so far. Raises StoreDamaged."""
        with self._database.reading() as connection:
            return load_task_messages(connection, task.number, self._database.path)

    def progress(self, task: Task, said: Sequence[Message], used: TaskUsage) -> bool:
        """Keep how far a task is; False, and nothing is kept, when it is not this process's any more."""
        with self._database.transaction() as connection:
            if not (kept := _get_own_task(connection, task)):
                return False
            save_task_messages(connection, task.number, said)
            update_task(connection, kept._replace(used=used))
            return True

    def put_back(self, task: Task) -> None:
        """Leave a task that was begun to another process, or to a later time; that is not counted as a try."""
        with self._database.transaction() as connection:
            if kept := _get_own_task(connection, task):
                update_task(connection, kept._replace(status="waiting", claimed="", tries=kept.tries - 1))

    def finish(
        self,
        task: Task,
        status: TaskStatus,
        result: str,
        now: float,
        used: TaskUsage | None = None,
        taint: Sequence[str] = (),
    ) -> bool:
        """Keep how a task ended, once: with what follows for others, and the message when its workflow is at its end.

        `taint` names what its report rests on. False, and nothing is kept, when it is not this process's any more.
        """
        with self._database.transaction() as connection:
            if not (kept := _get_own_task(connection, task)):
                return False
            kept = kept._replace(
                used=used or kept.used, letter=-1 if kept.waits else 0, taint=tuple(taint) or kept.taint
            )
            self._end(connection, kept, status, result, now)
            return True

    def cancel(self, number: int, session: str, now: float) -> list[Task]:
        """Cancel a task and what it has given to others; returns those that were still open.

        The one who does it in the chat `session` knows it, and is told nothing of them but what others made of it.
        """
        with self._database.transaction() as connection:
            found = list(_iterate_open_subtree(connection, number))
            for task in found:
                update_task(connection, task._replace(letter=-1 if task.session == session else 0))
            for task in found:
                kept = select_tasks(connection, "WHERE id = ?", task.number)[0]
                self._end(connection, kept, "cancelled", "", now)
            return found

    def reports(self, session: str, most: int) -> list[Task]:
        """List the newest tasks of a chat whose reports it was told, and no model yet in this conversation.

        What was told before the conversation was begun anew belongs to the old one.
        """
        begun = "(SELECT coalesce(max(CAST(strftime('%s', ended) AS REAL)), 0) FROM sessions WHERE key = tasks.session)"
        where = f"WHERE session = ? AND letter > 0 AND NOT heard AND ended > {begun}"
        return self._listed(f"{where} ORDER BY id DESC LIMIT ?", session, most)[::-1]

    def message_numbers(self, session: str) -> set[int]:
        """The numbers of the messages that tell a chat of tasks, also of those that it was told."""
        return {task.letter for task in self._listed("WHERE session = ? AND letter > 0", session)}

    def set_heard(self, numbers: Iterable[int]) -> None:
        """Note that a model was shown these reports, and that the conversation holds them."""
        with self._database.transaction() as connection:
            connection.executemany("UPDATE tasks SET heard = 1 WHERE id = ?", [(number,) for number in numbers])

    def _listed(self, where: str, *values: str | int | None) -> list[Task]:
        with self._database.reading() as connection:
            return select_tasks(connection, where, *values)

    def _end(self, connection: StoreConnection, task: Task, status: TaskStatus, result: str, now: float) -> None:
        update_task(connection, task._replace(status=status, result=result, claimed="", ended=now))
        connection.execute("DELETE FROM acts WHERE session = ?", (task.key,))
        self._settle(connection, task.flow, now)

    def _settle(self, connection: StoreConnection, flow: int, now: float) -> None:
        """Find out what cannot be done any more, and tell of a workflow that has ended."""
        tasks = select_tasks(connection, "WHERE flow = ? ORDER BY id", flow)
        while hopeless := [task for task in tasks if task.status == "waiting" and _has_failed_needs(connection, task)]:
            for task in hopeless:
                update_task(connection, task._replace(status="impossible", ended=now))
            tasks = select_tasks(connection, "WHERE flow = ? ORDER BY id", flow)
        if any(task.status in OPEN_STATUSES for task in tasks):
            return
        if untold := [task for task in tasks if not task.letter]:
            number = put_message(connection, untold[0].session, self._worded(untold), now)
            connection.execute("UPDATE tasks SET letter = ? WHERE flow = ? AND letter = 0", (number, flow))
        # drop what the tasks of a workflow have said, and what their tools gave; their results stay
        connection.execute("DELETE FROM task_messages WHERE task IN (SELECT id FROM tasks WHERE flow = ?)", (flow,))
        connection.execute(f"DELETE FROM results WHERE session IN ({_SELECT_TASK_SESSIONS})", (flow,))  # noqa: S608
        connection.execute(f"DELETE FROM sessions WHERE id IN ({_SELECT_TASK_SESSIONS})", (flow,))  # noqa: S608


def _join_workflow(connection: StoreConnection, given: Sequence[Task]) -> int:
    """The workflow that goes on and that these belong to, 0 when there is none; those that they join become one."""
    needs = {need for task in given for need in task.needs}
    rows = select_tasks(connection, f"WHERE flow IN (SELECT flow FROM tasks WHERE {OPEN_CONDITION}) ORDER BY id")  # noqa: S608
    flows = {task.flow for task in rows if task.number in needs} | {task.flow for task in given if task.flow}
    flow = min(flows, default=0)
    for other in flows - {flow}:
        connection.execute("UPDATE tasks SET flow = ? WHERE flow = ?", (flow, other))
    return flow


def _has_failed_needs(connection: StoreConnection, task: Task) -> bool:
    where = "WHERE id IN (SELECT value FROM json_each(?))"
    found = {need.number: need.status for need in select_tasks(connection, where, json.dumps(task.needs))}
    return any(found.get(need, "lost") not in {*OPEN_STATUSES, "done"} for need in task.needs)


def _iterate_open_subtree(connection: StoreConnection, number: int) -> Iterable[Task]:
    """A task and those below it, as far as they are open; one that has ended may have given work to others."""
    numbers = {number}
    for task in select_tasks(connection, "WHERE id >= ? ORDER BY id", number):  # a child is younger than its parent
        if task.number in numbers or task.parent in numbers:
            numbers.add(task.number)
            if task.status in OPEN_STATUSES:
                yield task


def is_claimable(task: Task) -> bool:
    """Tell whether this process may take a task: nobody has it, or one that is dead, or it was asked for here."""
    mine = task.status == "waiting" and task.claimed == get_process_identity()
    return mine or not task.claimed or not is_process_alive(task.claimed)


def _can_be_taken(task: Task, unfinished: Sequence[Task]) -> bool:
    """What a sub-agent waited for is done by whoever goes on with that sub-agent, so that it gets the report."""
    waited_for = task.waits and any(task.parent == other.number for other in unfinished)
    return is_claimable(task) and not waited_for


def _start_task(connection: StoreConnection, task: Task, waits: str) -> Task:
    taken = task._replace(status="running", claimed=get_process_identity(), tries=task.tries + 1, waits=waits)
    update_task(connection, taken)
    return taken


def _get_own_task(connection: StoreConnection, task: Task) -> Task | None:
    found = select_tasks(
        connection, "WHERE id = ? AND status = 'running' AND claimed = ?", task.number, get_process_identity()
    )
    return next(iter(found), None)


# What one process had begun before it began afresh by exec, which leaves it its number and its start time.
#
# By these a process is known (see history.alive), so that it would take what its former life left for its own.

_PROCESS_COLUMNS = (
    ("inbox", "process"),
    ("outbox", "begun"),
    ("acts", "process"),
    ("results", "process"),
    ("approvals", "process"),
    ("tasks", "claimed"),
    ("jobs", "claimed"),
)
"""Where the identity of the process stands that has something in hand."""


def abandon_own_work(database: Database) -> None:
    """Have what this process has in hand taken for a dead one's, before it takes up anything. Raises StoreError."""
    own = get_process_identity()
    with database.transaction() as connection:
        for table, column in _PROCESS_COLUMNS:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ?1 || \':before\' WHERE "{column}" = ?1',  # noqa: S608
                (own,),
            )
