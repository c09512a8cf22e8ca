"""Jobs and heartbeats in `state.db`: what is to be said or done later, and what each heartbeat did and cost.

What is due is decided on in one transaction, so that no two processes do it, and none does it twice.
What a heartbeat has to tell goes into the outbox in the transaction that keeps how it ended, and so exactly once.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from picoclaw.messages import DEFAULT_SESSION
from picoclaw.records import NamedTuple
from picoclaw.schedules import DoneSpans, Pauses, Plan
from picoclaw.store.database import LAST_CHAT_MARK, StoreConnection, Table, get_mark, insert, update
from picoclaw.store.inbox_outbox import put_message

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
    it, as their channel calls them. What comes due within one of the spans `paused` is left out.
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
    paused: Pauses = ()


class JobDecision(NamedTuple):
    """What becomes of a job: its new state, None for its end; a text to tell, and the moment that is meant by it."""

    job: Job | None
    message: str = ""
    at: float = 0.0
    run: bool = False


_COLUMN_NAMES = {"payload": "message", "write": "may_write", "network": "may_network"}
"""Columns that are not called as the fields are; a plan has four."""


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
    return insert(connection, "jobs", **_encode_job(job))


def _update_job(connection: StoreConnection, before: Job, now: Job | None) -> None:
    if now is None:
        connection.execute("DELETE FROM jobs WHERE id = ?", (before.number,))
    elif now != before:
        update(connection, "jobs", before.number, **_encode_job(now))


def _encode_job(job: Job) -> dict[str, Any]:
    row = job._asdict() | {"done": json.dumps(job.done), "paused": json.dumps(job.paused)}
    del row["number"], row["plan"]
    plan = {"plan": job.plan.kind, "spec": job.plan.text, "zone": job.plan.zone, "due": job.plan.anchor}
    return {_COLUMN_NAMES.get(name, name): value for name, value in row.items()} | plan


_FIELDS = [name for name in Job._fields if name not in {"number", "plan"}]
_COLUMNS = ", ".join(["id, plan, spec, zone, due", *(_COLUMN_NAMES.get(name, name) for name in _FIELDS)])


def _select_jobs(connection: StoreConnection, where: str, *values: str | int) -> list[Job]:
    rows: Iterable[Any] = connection.execute(f"SELECT {_COLUMNS} FROM jobs {where}", values)  # noqa: S608
    return [_decode_job(*row) for row in rows]


def _decode_job(number: int, kind: Any, spec: str, zone: str, due: float, *rest: Any) -> Job:
    job = Job(number=number, plan=Plan(kind, spec, zone, due), **dict(zip(_FIELDS, rest, strict=True)))
    job = job._replace(write=bool(job.write), network=bool(job.network), enabled=bool(job.enabled))
    return job._replace(done=_decode_spans(job.done), paused=_decode_spans(job.paused))


def _decode_spans(text: object) -> tuple[tuple[float, float], ...]:
    return tuple((float(first), float(last)) for first, last in json.loads(str(text)))


HeartbeatOutcome = Literal["running", "silent", "said", "failed", "put off"]
HEARTBEAT_SESSION = "heartbeat"
_MAX_HEARTBEATS = 2000

_SELECT_LAST_CHAT = """
    SELECT key FROM sessions JOIN turns ON turns.session = sessions.id
    WHERE key != ?1 AND key NOT GLOB 'job [0-9]*' AND key NOT GLOB 'hook:*' AND key NOT GLOB 'openai:*'
    ORDER BY turns.id DESC LIMIT 1
"""
_SELECT_LAST = """
    SELECT id, at, boot, mono, tokens, outcome, session, text FROM beats
    WHERE outcome != 'put off' ORDER BY id DESC LIMIT 10
"""
_SELECT_NEWEST_NUMBER = "SELECT coalesce(max(id), 0) FROM beats"
_COUNT_FAILURES = """
    SELECT count(*) FROM beats WHERE outcome = 'failed'
    AND id > (SELECT coalesce(max(id), 0) FROM beats WHERE outcome IN ('silent', 'said'))
"""


class ChecklistItemState(NamedTuple):
    """What is remembered of a line of the checklist; moments in seconds since 1970, 0 for never.

    `after`: times before it are settled. `since`: how long its condition has held. `told`: it was asked about since
    then. `seen`: what the sensors and files that it names were like when it was asked about.
    """

    after: float = 0.0
    since: float = 0.0
    told: bool = False
    seen: Mapping[str, float | str] = {}


class HeartbeatRecord(NamedTuple):
    """A heartbeat that a model was asked in; `at` in seconds since 1970, `text` what the owner is to be told.

    `mono` are the seconds of the `boot`, which nobody can set.
    """

    number: int
    at: float
    boot: str
    mono: float
    tokens: int = 0
    outcome: HeartbeatOutcome = "running"
    session: str = ""
    text: str = ""


class HeartbeatDay(NamedTuple):
    """What the day's heartbeats took, how the last one was, and how many have failed since one did not.

    `ended` are those of them that were not cut off, so that it is known why; `number` is the newest, also of those that
    were put off because a person wanted the model, which count for nothing but their tokens.
    """

    tokens: int = 0
    last: HeartbeatRecord | None = None
    failures: int = 0
    ended: int = 0
    number: int = 0


class Heartbeats(Table):
    def known(self) -> dict[str, ChecklistItemState]:
        """Return what is remembered of the lines, by their key."""
        rows = self._database.select("SELECT line, after, since, told, seen FROM beat_lines")
        return {line: _decode_item_state(*rest) for line, *rest in rows}

    def remember(self, lines: Mapping[str, ChecklistItemState]) -> None:
        """Keep what is known of the lines there are, and forget the others; nothing is written if nothing changed."""
        if lines != self.known():
            with self._database.transaction() as connection:
                _replace_item_states(connection, lines)

    def today(self, now: datetime) -> HeartbeatDay:
        """Count what has been used on the day of `now`, in its zone. One that was cut off counts with its reserve."""
        with self._database.reading() as connection:
            used = connection.execute(
                "SELECT coalesce(sum(tokens), 0) FROM beats WHERE day = ?", (_format_day(now),)
            ).get
            rows = list(connection.execute(_SELECT_LAST))
            newest = connection.execute(_SELECT_NEWEST_NUMBER).get
            ended = connection.execute(_COUNT_FAILURES).get
        beats = [HeartbeatRecord(*row) for row in rows]
        good = next((i for i, beat in enumerate(beats) if beat.outcome in {"silent", "said"}), len(beats))
        return HeartbeatDay(used, beats[0] if beats else None, good, ended, newest)

    def set_back(self, now: datetime) -> None:
        """After the clock was set back: what is written as later than now counts as of now."""
        moment = now.timestamp()
        with self._database.transaction() as connection:
            connection.execute("UPDATE beats SET at = ?1, day = ?2 WHERE at > ?1", (moment, _format_day(now)))
            connection.execute(
                "UPDATE beat_lines SET after = min(after, ?1), since = min(since, ?1) WHERE max(after, since) > ?1",
                (moment,),
            )

    def begin(self, now: datetime, boot: str, mono: float, reserve: int, last: int) -> HeartbeatRecord | None:
        """Write down durably that a model is about to be asked, with the most tokens that it may take.

        Returns None, and nothing is written, when the `last` one is not the last any more.
        """
        with self._database.transaction() as connection:
            if connection.execute(_SELECT_NEWEST_NUMBER).get != last:
                return None
            begun = {"at": now.timestamp(), "day": _format_day(now), "boot": boot, "mono": mono}
            number = insert(connection, "beats", **begun, tokens=reserve, outcome="running")
            connection.execute("DELETE FROM beats WHERE id <= ?", (number - _MAX_HEARTBEATS,))
            return HeartbeatRecord(number, now.timestamp(), boot, mono, reserve)

    def finish(self, beat: HeartbeatRecord, lines: Mapping[str, ChecklistItemState], *, told: bool = False) -> None:
        """Keep what came of it, all at once: its tokens, what is to be told and where, what is settled of the lines.

        `told`: the person has it already. One that was put off meanwhile has come to nothing.
        """
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE beats SET tokens = ?, outcome = ?, session = ?, text = ? WHERE id = ? AND outcome = 'running'",
                (beat.tokens, beat.outcome, beat.session, beat.text, beat.number),
            )
            if not connection.changes():
                return
            if beat.text and not told:
                put_message(connection, beat.session, beat.text, beat.at)
            _replace_item_states(connection, lines)

    def put_off(self, number: int, tokens: int) -> None:
        """Write down that one which still runs is given up, to be done another time."""
        sql = "UPDATE beats SET tokens = ?, outcome = 'put off' WHERE id = ? AND outcome = 'running'"
        self._database.write(sql, tokens, number)

    def last_chat(self) -> str:
        """Name the conversation that the owner has spoken in last."""
        with self._database.reading() as connection:
            return get_last_chat(connection)


def get_last_chat(connection: StoreConnection) -> str:
    """Name the conversation that the owner has spoken in last, within the caller's reading."""
    found = get_mark(connection, LAST_CHAT_MARK) or connection.execute(_SELECT_LAST_CHAT, (HEARTBEAT_SESSION,)).get
    return str(found) if found else DEFAULT_SESSION


def _format_day(now: datetime) -> str:
    return now.date().isoformat()


def _replace_item_states(connection: StoreConnection, lines: Mapping[str, ChecklistItemState]) -> None:
    connection.execute("DELETE FROM beat_lines")
    connection.executemany(
        "INSERT INTO beat_lines (line, after, since, told, seen) VALUES (?, ?, ?, ?, ?)",
        [
            (key, known.after, known.since, known.told, json.dumps(known.seen, sort_keys=True))
            for key, known in lines.items()
        ],
    )


def _decode_item_state(after: float, since: float, told: int, seen: str) -> ChecklistItemState:
    try:
        things = json.loads(seen)
    except ValueError:
        things = {}
    return ChecklistItemState(after, since, bool(told), things if isinstance(things, dict) else {})
