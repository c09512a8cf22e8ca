"""Jobs in `state.db`: what is to be said or done later.

What is due is decided on in one transaction, so that no two processes do it, and none does it twice.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from picoclaw.occurrences import DoneSpans, Plan
from picoclaw.records import NamedTuple
from picoclaw.store.database import StoreConnection, Table
from picoclaw.store.outbox import put_message

JobKind = Literal["reminder", "turn", "fresh", "command", "tool"]
"""A turn is one of the chat's conversation; a fresh one knows nothing of it."""
CatchUp = Literal["once", "skip"]
DeliveryMode = Literal["always", "change", "failure"]


class Job(NamedTuple):
    """Something for later; `payload` is what is said, asked, run or called.

    With `boot`, it is due when the clock of that boot which nobody can set shows `mono`. Slots up to `after` are
    decided on, those within `done` were done. `claimed` is the process that runs it, `told` marks what was last told.
    A command may change the workspace with `write`, and use the network with `network`. `agent` is the key of the agent
    that does it, '' for the home's own. `heading` stands before what a reminder says, `who` has planned
    it, as their channel calls them.
    """

    number: int
    session: str
    payload: str
    plan: Plan
    kind: JobKind = "reminder"
    catch_up: CatchUp = "once"
    deliver: DeliveryMode = "always"
    enabled: bool = True
    boot: str = ""
    mono: float = 0.0
    after: float = 0.0
    done: DoneSpans = ()
    rounds: int = 0
    last_slot: str = ""
    last_run: float = 0.0
    last_status: str = ""
    last_error: str = ""
    failures: int = 0
    told: str = ""
    claimed: str = ""
    write: bool = False
    network: bool = False
    agent: str = ""
    heading: str = "Reminder:"
    who: str = ""


class JobDecision(NamedTuple):
    """What becomes of a job: its new state, None for its end; a text to tell, and the moment that is meant by it."""

    job: Job | None
    message: str = ""
    at: float = 0.0
    run: bool = False


_COLUMNS = (
    "session, message, plan, spec, zone, due, kind, catch_up, deliver, enabled, boot, mono, after, done, rounds,"
    " last_slot, last_run, last_status, last_error, failures, told, claimed, may_write, may_network, agent, heading,"
    " who"
)
_PLACEHOLDERS = ", ".join("?" * (_COLUMNS.count(",") + 1))


class Jobs(Table):
    def add(self, job: Job) -> int:
        """Keep a job durably; returns its number, whatever number it came with."""
        with self._database.transaction() as connection:
            return _insert_job(connection, job)

    def renew(self, job: Job) -> bool:
        """Keep a job in the place of the one whose plan has the same text, with how that went; not while that runs.

        Who asks for one again and again has one, whose failures are counted. Tells whether it is kept.
        """
        with self._database.transaction() as connection:
            for old in _select_jobs(connection, "WHERE plan = ? AND spec = ?", job.plan.kind, job.plan.text):
                if old.claimed:
                    return False
                went = job._replace(last_run=old.last_run, last_status=old.last_status, last_error=old.last_error)
                _update_job(connection, old, went._replace(failures=old.failures, told=old.told))
                return True
            _insert_job(connection, job)
            return True

    def all(self) -> list[Job]:
        """List every chat's jobs, in the order in which they were added."""
        with self._database.reading() as connection:
            return _select_jobs(connection, "ORDER BY id")

    def of(self, session: str) -> list[Job]:
        """List a session's jobs, in the order in which they were added."""
        with self._database.reading() as connection:
            return _select_jobs(connection, "WHERE session = ? ORDER BY id", session)

    def get(self, session: str, number: int) -> Job | None:
        with self._database.reading() as connection:
            return next(iter(_select_jobs(connection, "WHERE session = ? AND id = ?", session, number)), None)

    def remove(self, session: str, number: int) -> bool:
        return self._database.write("DELETE FROM jobs WHERE session = ? AND id = ?", session, number) > 0

    def change(self, session: str, number: int, edit: Callable[[Job], Job]) -> Job | None:
        """Change one of a session's jobs as it is now; None when there is none."""
        with self._database.transaction() as connection:
            for job in _select_jobs(connection, "WHERE session = ? AND id = ?", session, number):
                _update_job(connection, job, edited := edit(job))
                return edited
            return None

    def decide(self, judge: Callable[[Job], JobDecision | None], number: int | None = None) -> list[JobDecision]:
        """Have every job judged, or that of a number, and keep what was decided, with its messages: all or nothing.

        Nothing is written when nothing is decided.
        """
        where, values = ("ORDER BY id", ()) if number is None else ("WHERE id = ?", (number,))
        with self._database.transaction() as connection:
            judged = [(job, decision) for job in _select_jobs(connection, where, *values) if (decision := judge(job))]
            for job, decision in judged:
                _update_job(connection, job, decision.job)
                if decision.message:
                    put_message(connection, job.session, decision.message, decision.at)
            return [decision for _, decision in judged]


def _insert_job(connection: StoreConnection, job: Job) -> int:
    connection.execute(f"INSERT INTO jobs ({_COLUMNS}) VALUES ({_PLACEHOLDERS})", _encode_job(job))  # noqa: S608
    return connection.last_insert_rowid()


def _update_job(connection: StoreConnection, before: Job, now: Job | None) -> None:
    if now is None:
        connection.execute("DELETE FROM jobs WHERE id = ?", (before.number,))
    elif now != before:
        connection.execute(
            f"UPDATE jobs SET ({_COLUMNS}) = ({_PLACEHOLDERS}) WHERE id = ?",  # noqa: S608
            (*_encode_job(now), before.number),
        )


def _encode_job(job: Job) -> tuple[Any, ...]:
    plan = job.plan
    return (
        job.session,
        job.payload,
        *(plan.kind, plan.text, plan.zone, plan.anchor),
        *(job.kind, job.catch_up, job.deliver, int(job.enabled), job.boot, job.mono, job.after),
        json.dumps(job.done),
        *(job.rounds, job.last_slot, job.last_run, job.last_status),
        job.last_error,
        *(job.failures, job.told, job.claimed, int(job.write), int(job.network), job.agent, job.heading, job.who),
    )


def _select_jobs(connection: StoreConnection, where: str, *values: str | int) -> list[Job]:
    rows: Iterable[Any] = connection.execute(f"SELECT id, {_COLUMNS} FROM jobs {where}", values)  # noqa: S608
    return [_decode_job(*row) for row in rows]


def _decode_job(number: int, session: str, payload: str, *rest: Any) -> Job:
    kind, spec, zone, due, *rest_ = rest
    job = Job(number, session, payload, Plan(kind, spec, zone, due), *rest_)
    spans = tuple((float(first), float(last)) for first, last in json.loads(str(job.done)))
    job = job._replace(write=bool(job.write), network=bool(job.network))
    return job._replace(enabled=bool(job.enabled), done=spans)
