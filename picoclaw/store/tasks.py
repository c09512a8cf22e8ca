"""What helpers were given to do, in `state.db`: kept before they begin, so that no kill loses a task or does it twice.

How a task ended, what becomes of those that need it, and the letter that tells the chat, are one transaction.
"""

from collections.abc import Callable, Iterable, Sequence

import apsw

from picoclaw.messages import Message
from picoclaw.store import work
from picoclaw.store.database import Database
from picoclaw.store.history import alive, process_identity
from picoclaw.store.outbox import put
from picoclaw.store.task import BEATING, IS_OPEN, OPEN, Status, Task, Used, insert, keep, read

_KEPT_S = 30 * 86_400.0
_MOST_TRIES = 3
"""A task that took its process with it so often, perhaps by filling the memory, is not begun again."""
_OF_HEARTBEATS = f"""
    SELECT coalesce(sum(CASE WHEN {IS_OPEN} THEN max(tokens, used_tokens) ELSE used_tokens END), 0) FROM tasks
    WHERE flow IN (SELECT flow FROM tasks WHERE parent = ?) AND asked >= ?
"""  # noqa: S608

Worded = Callable[[Sequence[Task]], str]
"""Words the one letter about the tasks of a workflow that has ended."""


class Tasks:
    """The tasks of one home."""

    def __init__(self, database: Database, worded: Worded) -> None:
        """Work on an open database; `worded` words the letters."""
        self._database = database
        self._worded = worded

    def add(self, tasks: Sequence[Task], now: float) -> list[Task]:
        """Keep new tasks durably, all or none; a need below 0 is one of them: -1 the first. Returns them with numbers.

        They join the workflow of what they need or of whoever asked, as long as that goes on.
        """
        with self._database.transaction() as connection:
            work.prune(connection, now - _KEPT_S)
            first = _last(connection) + 1
            given = [_with_needs(task, first + i, first) for i, task in enumerate(tasks)]
            flow = _flow(connection, given) or first
            given = [task._replace(flow=flow, asked=now) for task in given]
            for task in given:
                insert(connection, task)
            self._settle(connection, {flow}, now)
            return given

    def get(self, number: int) -> Task | None:
        """Return a task, None when there is none of that number."""
        return next(iter(self._listed("WHERE id = ?", number)), None)

    def flow(self, number: int) -> list[Task]:
        """List the tasks of a workflow."""
        return self._listed("WHERE flow = ? ORDER BY id", number)

    def children(self, number: int) -> list[Task]:
        """List what a helper has given to others."""
        return self._listed("WHERE parent = ? ORDER BY id", number)

    def of_heartbeats(self, since: float) -> int:
        """Count the tokens of helpers that heartbeats have asked for since a moment, in seconds since 1970.

        One that has not ended counts with all that it may take.
        """
        with self._database.reading() as connection:
            return int(str(connection.execute(_OF_HEARTBEATS, (BEATING, since)).get))

    def unfinished(self, session: str | None = None) -> list[Task]:
        """List what is waiting or running, of a chat or of all."""
        return self._listed(f"WHERE {IS_OPEN} AND coalesce(?, session) = session ORDER BY id", session)

    def ended(self, session: str) -> list[Task]:
        """List the tasks of a chat that nothing is to be done or told of any more."""
        return self._listed(f"WHERE {work.HAS_ENDED} ORDER BY id", session)

    def pending(self, session: str) -> bool:
        """Tell whether anything of a chat is still to be done, or to be told."""
        sql = f"SELECT 1 FROM tasks WHERE session = ? AND ({IS_OPEN} OR letter IN (SELECT id FROM outbox)) LIMIT 1"  # noqa: S608
        with self._database.reading() as connection:
            return bool(connection.execute(sql, (session,)).get)

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
            done = {int(str(row[0])) for row in connection.execute("SELECT id FROM tasks WHERE status = 'done'")}
            unfinished = read(connection, f"WHERE {IS_OPEN} ORDER BY id")
            for task in unfinished:
                if not (wants(task) and _can_be_taken(task, unfinished) and done.issuperset(task.needs)):
                    continue
                if task.tries < _MOST_TRIES:
                    return _taken(connection, task, "")  # whoever waited is gone, so the chat is told
                self._end(connection, task, "lost", f"picoclaw ended {task.tries} times while it worked on it", now)
        return None

    def go_on(self, number: int) -> Task | None:
        """Take what a helper waited for when its process ended, for that helper; None when that cannot be done now."""
        with self._database.transaction() as connection:
            found = read(connection, f"WHERE id = ? AND {IS_OPEN}", number)
            return next((_taken(connection, task, process_identity()) for task in found if is_free(task)), None)

    def messages(self, task: Task) -> list[Message]:
        """Return what a task has said and heard so far. Raises StoreDamaged."""
        with self._database.reading() as connection:
            return work.messages(connection, task.number, self._database.path)

    def progress(self, task: Task, said: Sequence[Message], used: Used) -> bool:
        """Keep how far a task is; False, and nothing is kept, when it is not this process's any more."""
        with self._database.transaction() as connection:
            if not (kept := _still_ours(connection, task)):
                return False
            work.keep(connection, task.number, said)
            keep(connection, kept._replace(used=used))
            return True

    def put_back(self, task: Task) -> None:
        """Leave a task that was begun to another process, or to a later time; that is not counted as a try."""
        with self._database.transaction() as connection:
            if kept := _still_ours(connection, task):
                keep(connection, kept._replace(status="waiting", claimed="", tries=kept.tries - 1))

    def finish(self, task: Task, status: Status, result: str, now: float, used: Used | None = None) -> bool:
        """Keep how a task ended, once: with what follows for others, and the letter when its workflow is at its end.

        False, and nothing is kept, when it is not this process's any more.
        """
        with self._database.transaction() as connection:
            if not (kept := _still_ours(connection, task)):
                return False
            kept = kept._replace(used=used or kept.used, letter=-1 if kept.waits else 0)
            self._end(connection, kept, status, result, now)
            return True

    def cancel(self, number: int, session: str, now: float) -> list[Task]:
        """Cancel a task and what it has given to others; returns those that were still open.

        The one who does it in the chat `session` knows it, and is told nothing of them but what others made of it.
        """
        with self._database.transaction() as connection:
            found = list(_open_below(connection, number))
            for task in found:
                keep(connection, task._replace(letter=-1 if task.session == session else 0))
            for task in found:
                kept = read(connection, "WHERE id = ?", task.number)[0]
                self._end(connection, kept, "cancelled", "", now)
            return found

    def reports(self, session: str, most: int) -> list[Task]:
        """List the newest tasks of a chat whose reports it was told, and no model yet in this conversation.

        What was told before the conversation was begun anew belongs to the old one.
        """
        begun = "(SELECT coalesce(max(CAST(strftime('%s', ended) AS REAL)), 0) FROM sessions WHERE key = tasks.session)"
        where = f"WHERE session = ? AND letter > 0 AND NOT heard AND ended > {begun}"
        return self._listed(f"{where} ORDER BY id DESC LIMIT ?", session, most)[::-1]

    def letters(self, session: str) -> set[int]:
        """The numbers of the letters that tell a chat of tasks, also of those that it was told."""
        return {task.letter for task in self._listed("WHERE session = ? AND letter > 0", session)}

    def set_heard(self, numbers: Iterable[int]) -> None:
        """Note that a model was shown these reports, and that the conversation holds them."""
        with self._database.transaction() as connection:
            connection.executemany("UPDATE tasks SET heard = 1 WHERE id = ?", [(number,) for number in numbers])

    def _listed(self, where: str, *values: str | int | None) -> list[Task]:
        with self._database.reading() as connection:
            return read(connection, where, *values)

    def _end(self, connection: apsw.Connection, task: Task, status: Status, result: str, now: float) -> None:
        keep(connection, task._replace(status=status, result=result, claimed="", ended=now))
        connection.execute("DELETE FROM acts WHERE session = ?", (task.key,))
        self._settle(connection, {task.flow}, now)

    def _settle(self, connection: apsw.Connection, flows: set[int], now: float) -> None:
        """Find out what cannot be done any more, and tell of a workflow that has ended."""
        for flow in flows:
            tasks = read(connection, "WHERE flow = ? ORDER BY id", flow)
            while hopeless := [task for task in tasks if task.status == "waiting" and _fails(connection, task)]:
                for task in hopeless:
                    keep(connection, task._replace(status="impossible", ended=now))
                tasks = read(connection, "WHERE flow = ? ORDER BY id", flow)
            if any(task.status in OPEN for task in tasks):
                continue
            if untold := [task for task in tasks if not task.letter]:
                number = put(connection, untold[0].session, self._worded(untold), now)
                connection.execute("UPDATE tasks SET letter = ? WHERE flow = ? AND letter = 0", (number, flow))
            work.forget(connection, flow)


def _last(connection: apsw.Connection) -> int:
    """The highest number that was ever given."""
    return int(str(connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'tasks'").get))


def _with_needs(task: Task, number: int, first: int) -> Task:
    return task._replace(number=number, needs=tuple(n if n > 0 else first - n - 1 for n in task.needs))


def _flow(connection: apsw.Connection, given: Sequence[Task]) -> int:
    """The workflow that goes on and that these belong to, 0 when there is none; those that they join become one."""
    needs = {need for task in given for need in task.needs}
    rows = read(connection, f"WHERE flow IN (SELECT flow FROM tasks WHERE {IS_OPEN}) ORDER BY id")  # noqa: S608
    flows = {task.flow for task in rows if task.number in needs} | {task.flow for task in given if task.flow}
    flow = min(flows, default=0)
    for other in flows - {flow}:
        connection.execute("UPDATE tasks SET flow = ? WHERE flow = ?", (flow, other))
    return flow


def _fails(connection: apsw.Connection, task: Task) -> bool:
    found = {need.number: need.status for need in read(connection, _among(task.needs))}
    return any(found.get(need, "lost") not in {*OPEN, "done"} for need in task.needs)


def _among(numbers: Iterable[int]) -> str:
    return f"WHERE id IN ({', '.join(map(str, map(int, numbers)))})"


def _open_below(connection: apsw.Connection, number: int) -> Iterable[Task]:
    """A task and those below it, as far as they are open; one that has ended may have given work to others."""
    numbers = {number}
    for task in read(connection, "WHERE id >= ? ORDER BY id", number):  # a child is younger than its parent
        if task.number in numbers or task.parent in numbers:
            numbers.add(task.number)
            if task.status in OPEN:
                yield task


def is_free(task: Task) -> bool:
    """Tell whether this process may take a task: nobody has it, or one that is dead, or it was asked for here."""
    mine = task.status == "waiting" and task.claimed == process_identity()
    return mine or not task.claimed or not alive(task.claimed)


def _can_be_taken(task: Task, unfinished: Sequence[Task]) -> bool:
    """What a helper waited for is done by whoever goes on with that helper, so that it gets the report."""
    waited_for = task.waits and any(task.parent == other.number for other in unfinished)
    return is_free(task) and not waited_for


def _taken(connection: apsw.Connection, task: Task, waits: str) -> Task:
    taken = task._replace(status="running", claimed=process_identity(), tries=task.tries + 1, waits=waits)
    keep(connection, taken)
    return taken


def _still_ours(connection: apsw.Connection, task: Task) -> Task | None:
    found = read(connection, "WHERE id = ? AND status = 'running' AND claimed = ?", task.number, process_identity())
    return next(iter(found), None)
