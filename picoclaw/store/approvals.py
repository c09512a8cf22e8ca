"""Calls that wait for a yes, in `state.db`: kept whole, answered once, never made twice. Who may approve: security/guard.py.

A call goes from `waiting` to `running`, durably before it is made, and on to how it ended. One that is found running
when its process is gone may have been done or not: it is told as `unknown`, and nobody makes it again.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Literal, cast

from picoclaw.errors import Denied
from picoclaw.messages import Caller, Origin, ToolCall, is_other_person, is_owner
from picoclaw.records import NamedTuple
from picoclaw.security.policy import CallRequest, Decision, Effect, compute_digest, join_questions
from picoclaw.security.untrusted import strip_invisible
from picoclaw.store import inbox_outbox
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.database import Database, StoreConnection, Table, insert, is_valid_row_id
from picoclaw.text import truncate

ApprovalState = Literal["waiting", "running", "done", "failed", "refused", "expired", "void", "replaced", "unknown"]
"""refused: the owner said no; void: what it would do had changed by the time of the yes; unknown: cut off in it."""

MAX_WAITING_PER_SESSION, MAX_WAITING = 20, 100
_OPEN_STATES: tuple[ApprovalState, ...] = ("waiting", "running")
_REFUSAL_COOLDOWN_S = 600.0
_CLOCK_TOLERANCE_S = 60.0  # a clock that was set back by more must not lengthen the life of a question
_RETENTION_S = 30 * 86400.0
_MAX_SUMMARY_CHARS = 100
_COLUMNS = (
    "id, nonce, session, chat, origin, asked_by, call, effect, rule, why, means, bound, digest, heard, question, at,"
    " expires, state, answered_by, outcome, listed, told, agent"
)


class Approval(NamedTuple):
    """A kept call. `session` is the conversation it was made in, `chat` the one that the owner is asked in.

    `number` names it for a person and is never used again; `nonce` is what a button carries. `question` is the whole
    text that a yes is given to, `heard` what the turn had read; `at` and `expires` are seconds since 1970.
    `answered_by` is who has answered, `outcome` the result of the call, or why there is none. `listed` is the number of
    the first call of the question that shows it, 0 before it was asked. `told` is another conversation than `session`
    that hears of it: the chat of a person whose task an agent was given. `agent` is the key of the agent whose call it is. One that stands for a question, or an answer,
    of several calls has them in `several`.
    """

    number: int
    nonce: str
    session: str
    chat: str
    origin: Origin
    asked_by: str
    call: ToolCall
    effect: Effect
    rule: str
    why: str
    means: str
    bound: Mapping[str, str]
    digest: str
    heard: tuple[str, ...]
    question: str
    at: float
    expires: float
    state: ApprovalState = "waiting"
    answered_by: str = ""
    outcome: str = ""
    listed: int = 0
    told: str = ""
    agent: str = ""
    several: tuple["Approval", ...] = ()

    @property
    def each(self) -> tuple["Approval", ...]:
        return self.several or (self,)

    @property
    def shown(self) -> str:
        """What a person is shown, and gives the yes to, each call whole."""
        if not self.several:
            return f"{self.question}\n({self.why})"
        return join_questions(one.numbered for one in self.several)

    @property
    def is_new(self) -> bool:
        """Whether none of its calls was answered yet."""
        return all(one.state == "waiting" for one in self.each)

    @property
    def numbered(self) -> str:
        """The same, each with its number."""
        return self.shown if self.several else f"number {self.number}: {self.shown}"

    @property
    def answers(self) -> str:
        """How it is answered by typing."""
        n = self.number
        if not self.several:
            return f"/yes {n}, /no {n}, or /always {n} to allow exactly this for good"
        return (
            f"/yes or /no for all of them, or with a number for one, such as /yes {n}; /always {n} allows one for good"
        )

    @property
    def shortly(self) -> str:
        """What the call would do, in one line: its plain meaning, else the beginning of the question."""
        return truncate(" ".join((self.plainly or self.question).split()), _MAX_SUMMARY_CHARS)

    @property
    def plainly(self) -> str:
        """What the call means, "output · pump: on, 10 min", '' where only the call itself says it."""
        return f"{self.call.name.replace('_', ' ')} · {strip_invisible(self.means)}" if self.means else ""

    @property
    def home(self) -> str:
        """The conversation that hears what became of it: nobody reads that of a job, a heartbeat or a sub-agent."""
        return self.told or (self.session if self.origin in {"owner", "web", "member", "guest"} else self.chat)

    @property
    def asked(self) -> CallRequest:
        """The call as the guard has seen it."""
        return CallRequest(self.effect, self.call, self.means, self.bound)


class StandingApproval(NamedTuple):
    """A call that was allowed for good: `digest` is what of it has to be the same, `at` seconds since 1970.

    It holds for the `agent` whose call it was, by its key, and for whoever asked that one: `whose` is '' for the owner and
    what runs unasked for them, "member NAME", "guest" or "mcp".
    """

    number: int
    digest: str
    question: str
    at: float
    by: str
    agent: str = ""
    whose: str = ""


class Approvals(Table):
    """The kept calls of one database, and those that were allowed for good."""

    def __init__(self, database: Database, wall: Callable[[], float] = time.time) -> None:
        """Work on an open database; `wall` gives seconds since 1970."""
        super().__init__(database)
        self._wall = wall

    def open(
        self,
        asked: CallRequest,
        caller: Caller,
        decision: Decision,
        chat: str,
        question: str,
        minutes: float,
        agent: str = "",
    ) -> int:
        """Keep a call, and put a message with the `question` into `chat`; returns its number.

        It is only kept, for `ask`, where its turn gathers what it asks (`caller.asks`). The same call that waits in
        that conversation already keeps its number, and is not asked about again. Raises Denied when too many wait, or
        the owner has just said no to it.
        """
        now, exact = self._wall(), compute_digest(asked)
        with self._database.transaction() as connection:
            self._expire(connection, now)
            same = "SELECT id FROM approvals WHERE session = ? AND digest = ? AND agent = ? AND state = 'waiting'"
            if found := connection.execute(same, (caller.session, exact, agent)).get:
                return int(found)
            self._replace_changed(connection, asked.call, caller.session)
            _check_approval_limits(connection, caller, exact, now)
            call = _encode_json([asked.call.id, asked.call.name, asked.call.arguments])
            about = {"call": call, "effect": asked.effect, "means": asked.means, "digest": exact}
            about |= {"bound": _encode_json(dict(asked.bound)), "rule": decision.rule, "why": decision.why}
            whose = {"session": caller.session, "origin": caller.origin, "asked_by": caller.who, "agent": agent}
            whose |= {"heard": _encode_json(sorted(caller.taints)), "process": get_process_identity()}
            whose |= {"told": caller.reply_to if caller.task and is_other_person(caller.origin) else ""}
            asks = {"nonce": os.urandom(12).hex(), "chat": chat, "question": question}
            state = {"at": now, "expires": now + minutes * 60, "state": "waiting", "answered_by": "", "outcome": ""}
            number = insert(connection, "approvals", **asks, **state, **about, **whose)
            if caller.asks is None:
                self._ask(connection, [number], caller.now.tzinfo)
            connection.execute("DELETE FROM approvals WHERE at < ? AND state != 'waiting'", (now - _RETENTION_S,))
            return number

    def _replace_changed(self, connection: StoreConnection, call: ToolCall, session: str) -> None:
        """End what still waits in the conversation and is changed by a new call, so that no yes does both."""
        name = call.arguments.get("name")
        if call.arguments.get("action") != "change" or not name:
            return
        for one in reversed(self._where("session = ? AND state = 'waiting'", (session,))):
            if one.call.name == call.name and one.call.arguments.get("name") == name:
                replaced = "UPDATE approvals SET state = 'replaced', outcome = ? WHERE id = ?"
                connection.execute(replaced, ("a later question took its place", one.number))
                return

    def ask(self, numbers: Sequence[int], zone: tzinfo | None) -> Approval | None:
        """Ask about calls that were only kept, by one message; returns the question, None when none of them waits.

        What it lists stays as it is from here on. Their time begins now.
        """
        with self._database.transaction() as connection:
            return self._ask(connection, numbers, zone)

    def _ask(self, connection: StoreConnection, numbers: Sequence[int], zone: tzinfo | None) -> Approval | None:
        found = filter(None, map(self.get, numbers))
        new = [one.number for one in found if one.state == "waiting" and not one.listed]
        for number in new:
            connection.execute("UPDATE approvals SET listed = ? WHERE id = ?", (new[0], number))
        if not new:
            return None
        self._renew(connection, new[0])
        if asked := self.question(new[0]):
            until = datetime.fromtimestamp(asked.expires, zone)
            inbox_outbox.put_message(
                connection, asked.chat, format_approval_question(asked, until), self._wall(), asked.number
            )
        return asked

    def renew(self, listed: int) -> None:
        """Let what still waits of a question wait for its whole time again: it is being done, one call by one."""
        with self._database.transaction() as connection:
            self._expire(connection, self._wall())
            self._renew(connection, listed)

    def _renew(self, connection: StoreConnection, listed: int) -> None:
        renew = "UPDATE approvals SET expires = ?1 + expires - at, at = ?1 WHERE listed = ?2 AND state = 'waiting'"
        connection.execute(renew, (self._wall(), listed))

    def question(self, number: int) -> Approval | None:
        """Return the question that shows a call: it waits as long as one of its calls does."""
        one = self.get(number)
        every = self._where("listed = ?", (one.listed,)) if one and one.listed else []
        if len(every) <= 1:
            return one
        states, by = {call.state for call in every}, [call.answered_by for call in every if call.answered_by]
        state = next((state for state in _OPEN_STATES if state in states), every[0].state)
        return every[0]._replace(state=state, answered_by=by[-1] if by else "", several=tuple(every))

    def questions(self, ended: int) -> list[Approval]:
        """List the questions that wait, behind those of the newest calls that have ended; the oldest first."""
        calls = [*reversed(self.ended(ended)), *self._where("state = 'running'"), *self.waiting()]
        leads = dict.fromkeys(call.listed for call in calls if call.listed)
        return [found for number in leads if (found := self.question(number))]

    def left(self) -> list[list[int]]:
        """List the calls that dead processes have kept and not asked about, those of a conversation together."""
        sql = "SELECT session, id, process FROM approvals WHERE state = 'waiting' AND listed = 0 ORDER BY id"
        found: dict[str, list[int]] = {}
        for session, number, process in self._database.select(sql):
            if not is_process_alive(process):
                found.setdefault(session, []).append(number)
        return list(found.values())

    def get(self, number: int) -> Approval | None:
        return next(iter(self._where("id = ?", (number,))), None) if is_valid_row_id(number) else None

    def waiting(self) -> list[Approval]:
        """List what waits for an answer, the oldest first; what has expired by now is not among it."""
        now = self._wall()
        rows = self._where("state = 'waiting'")
        return [one for one in rows if not (one.listed and _is_expired(one.at, one.expires, now))]

    def ended(self, most: int = 20) -> list[Approval]:
        """List what was answered or has expired, the newest first."""
        return self._where("state NOT IN ('waiting', 'running')", (), f"id DESC LIMIT {most:d}")

    def answer(self, number: int, by: str, *, yes: bool, nonce: str | None = None) -> "Approval | str":
        """Take an answer: a yes makes it `running`, durably, and whoever gets it returned has to make the call.

        Returns why not where it waits no more, which is so for all but one of several answers. `nonce` is checked
        where a button was pressed; `by` names the person. A no is final: who changes their mind asks for it anew.
        """
        now = self._wall()
        with self._database.transaction() as connection:
            self._expire(connection, now)
            found = self.get(number)
            if found is None or (nonce is not None and nonce != found.nonce):
                return f"there is no question number {number}" + (" with that button" if found else "")
            if found.state != "waiting":
                return f"number {number} {STATE_TEXTS[found.state]}"
            state = "running" if yes else "refused"
            connection.execute(
                "UPDATE approvals SET state = ?, answered_by = ?, outcome = ?, process = ?, answered = ? WHERE id = ?",
                (state, by, "" if yes else "the owner said no", get_process_identity(), now, number),
            )
            return found._replace(state=cast("ApprovalState", state), answered_by=by, outcome="")

    def settle(self, number: int, state: ApprovalState, outcome: str, heard: Sequence[str]) -> None:
        """Keep how a call that was running has ended."""
        sql = "UPDATE approvals SET state = ?, outcome = ?, heard = ? WHERE id = ? AND state = 'running'"
        self._database.write(sql, state, outcome, _encode_json(sorted(heard)), number)

    def expired(self) -> list[Approval]:
        """End what nobody has answered in time, and tell the chats of it; returns those that this call has ended."""
        with self._database.transaction() as connection:
            return [found for number in self._expire(connection, self._wall()) if (found := self.get(number))]

    def next_expiry(self) -> float | None:
        """When the next question ends unanswered, in seconds since 1970; None when nothing waits."""
        sql = "SELECT min(expires) FROM approvals WHERE state = 'waiting' AND listed"
        return self._database.select_value(sql)  # type: ignore[no-any-return]

    def cut_off(self) -> list[Approval]:
        """Find what dead processes were doing, and tell the chats that its outcome is unknown; returns those."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT id, process FROM approvals WHERE state = 'running'").fetchall()
            dead = [number for number, process in rows if not is_process_alive(process)]
            for number in dead:
                self._end(connection, number, "unknown", "picoclaw ended while it was being done: look whether it was")
            return [found for number in dead if (found := self.get(number))]

    def allow(self, approval: Approval, by: str, whose: str = "") -> int:
        """Allow exactly this call for good, to its agent and for whoever asked it; returns the number of the rule."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO always (digest, question, at, by, agent, whose) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (approval.digest, approval.question, self._wall(), by, approval.agent, whose),
            )
            same = "SELECT id FROM always WHERE digest = ? AND agent = ? AND whose = ?"
            return int(connection.execute(same, (approval.digest, approval.agent, whose)).get)

    def always(self) -> list[StandingApproval]:
        rows = self._database.select("SELECT id, digest, question, at, by, agent, whose FROM always ORDER BY id")
        return [StandingApproval(*row) for row in rows]

    def revoke(self, number: int) -> bool:
        """Take back what was allowed for good; tells whether there was a rule of that number."""
        return self._database.write("DELETE FROM always WHERE id = ?", number if is_valid_row_id(number) else 0) > 0

    def _expire(self, connection: StoreConnection, now: float) -> list[int]:
        rows = self._where("state = 'waiting' AND listed")  # the time of the others begins when they are asked about
        late = [one.number for one in rows if _is_expired(one.at, one.expires, now)]
        for number in late:
            self._end(connection, number, "expired", "nobody answered in time, and it was not done")
        return late

    def _end(self, connection: StoreConnection, number: int, state: ApprovalState, outcome: str) -> None:
        """End one that was not answered, or not brought to an end, and tell the chats of it."""
        connection.execute("UPDATE approvals SET state = ?, outcome = ? WHERE id = ?", (state, outcome, number))
        if found := self.get(number):
            for key in dict.fromkeys((found.chat, found.home)):
                inbox_outbox.put_message(
                    connection, key, f"number {number} {STATE_TEXTS[state]} ({found.shortly})", self._wall()
                )

    def _where(self, condition: str, values: Sequence[Any] = (), order: str = "id") -> list[Approval]:
        sql = f"SELECT {_COLUMNS} FROM approvals WHERE {condition} ORDER BY {order}"  # noqa: S608
        return [
            Approval(*row)._replace(
                call=ToolCall(*json.loads(row[6])), bound=json.loads(row[11]), heard=tuple(json.loads(row[13]))
            )
            for row in self._database.select(sql, *values)
        ]


STATE_TEXTS: Mapping[ApprovalState, str] = {
    "running": "is being done",
    "done": "was answered already: it was done",
    "failed": "was answered already: it was tried, and failed",
    "refused": "was refused: the answer was no, and it was not done; ask for it anew",
    "expired": "has expired: nobody answered in time, and it was not done",
    "void": "was not done: it had changed meanwhile",
    "replaced": "was replaced by a later question",
    "unknown": "was cut off; whether it was done is not known",
}
"""How a question stands that waits no more, as the end of a sentence that begins with its number."""


def format_approval_question(asked: Approval, until: datetime) -> str:
    """Word the message that asks for a yes: each call whole, why it has to be asked about, and how to answer."""
    numbers = " and ".join(str(one.number) for one in asked.each)
    wait = "numbers {} wait" if asked.several else "number {} waits"
    return f"{wait.format(numbers)} for your approval until {until:%H:%M}:\n{asked.shown}\n{asked.answers}"


def _check_approval_limits(connection: StoreConnection, caller: Caller, exact: str, now: float) -> None:
    """Raise Denied where asking once more would only weary the owner.

    What they have said since their no, in a turn that has read nothing of others, may be the same wish again.
    """
    session, since = caller.session, now - _REFUSAL_COOLDOWN_S
    if is_owner(caller.origin) and not caller.taints:
        since = max(since, min(now, caller.now.timestamp()))
    no = "SELECT id FROM approvals WHERE session = ? AND digest = ? AND state = 'refused' AND answered > ?"
    if found := connection.execute(no, (session, exact, since)).get:
        raise Denied(
            f"the answer to exactly this was no a moment ago (number {found}), so it is not asked about again so soon"
        )
    waits = "SELECT count(*), coalesce(sum(session = ?), 0) FROM approvals WHERE state = 'waiting'"
    everywhere, here = connection.execute(waits, (session,)).get
    if here >= MAX_WAITING_PER_SESSION or everywhere >= MAX_WAITING:
        raise Denied(
            f"{max(here, everywhere)} calls wait for the owner's yes already; nothing more is asked until then"
        )


def _is_expired(at: float, expires: float, now: float) -> bool:
    return now >= expires or now < at - _CLOCK_TOLERANCE_S


def _encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
