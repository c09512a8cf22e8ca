"""Conversations in `state.db`: turns go in whole, come back as sent, and are never deleted here.

A turn is one transaction, so a cut at any moment leaves all of it or nothing, and never half a tool call.
A chat, named by its key, has one open conversation; see store/sessions.py for the others.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, get_args

from picoclaw.errors import StoreDamaged, StoreError, StoreNewer
from picoclaw.files import DiskNearlyFull, check_reserve, explain_os_error
from picoclaw.messages import Message, MessageRole, ToolCall, Turn
from picoclaw.records import NamedTuple
from picoclaw.security.untrusted import limit_taints
from picoclaw.store import ledger
from picoclaw.store.database import Database, StoreConnection, Table, get_mark, insert, is_valid_row_id, set_mark

VISIBLE_TURNS = """
    turns.session = sessions.id AND NOT undone AND turns.id >= shown_from
    AND turns.id > coalesce((SELECT upto FROM summaries WHERE session = sessions.id ORDER BY id DESC LIMIT 1), 0)
"""
"""Which turns of a session a model should still see."""

_SELECT_TURNS = f"""
    SELECT turns.id, role, text, calls, call_id FROM sessions JOIN turns ON {VISIBLE_TURNS} JOIN messages ON turn = turns.id
    WHERE key = ? AND ended = '' ORDER BY turns.id, messages.id
"""  # noqa: S608
_HIDE_OLDEST_TURNS = f"""
    UPDATE sessions SET shown_from = (
        SELECT coalesce(1 + max(id), shown_from) FROM (SELECT turns.id FROM turns WHERE {VISIBLE_TURNS} ORDER BY id LIMIT ?2)
    ) WHERE id = ?1
"""  # noqa: S608
_HIDE_TURNS_UPTO = """
    UPDATE sessions SET shown_from = max(shown_from, ?2 + 1)
    WHERE id = ?1 AND EXISTS (SELECT 1 FROM turns WHERE id = ?2 AND session = ?1)
"""
_UNDO_TURN = f"""
    UPDATE turns SET undone = 1 WHERE id IN (
        SELECT turns.id FROM sessions JOIN turns ON {VISIBLE_TURNS} WHERE sessions.id = ?1 AND turns.id = ?2
    )
"""  # noqa: S608
_ATTACH_RESULTS = """
    UPDATE results SET turn = ?1
    WHERE turn = 0 AND process = ?2 AND session IN (SELECT id FROM sessions WHERE key = ?3)
"""
_SELECT_TAINT = """
    SELECT DISTINCT heard FROM sessions JOIN turns ON session = sessions.id
    WHERE key = ?1 AND ended = '' AND NOT undone AND turns.id != ?2 AND heard != '[]'
"""
_SELECT_OTHERS = """
    SELECT turns.id FROM sessions JOIN turns ON session = sessions.id
    WHERE key = ?1 AND ended = '' AND NOT undone AND asked_by != ?2
"""
UNREAD_TAINT = "what could not be read again"
"""The source of a turn whose conversation could not be read; once it can be, the turn is kept with the real ones."""
_UNREADABLE_TURN = "turn {} of this chat cannot be read whole in {}; a model is shown what is left of it"
_SELECT_ALL_TURNS = """
    SELECT turns.id, key, substr(at, 1, 10) FROM turns JOIN sessions ON sessions.id = session
    WHERE NOT undone AND (asked_by = '' OR NOT ?) ORDER BY 1
"""


TransactionWrapper = Callable[[AbstractContextManager[StoreConnection]], AbstractContextManager[StoreConnection]]
"""Gives a transaction back as one that keeps something else as well."""


OPEN_CONDITION = "status IN ('waiting', 'running')"
"""Which sub-agents' tasks are not done yet."""

_SET_PERSON = "UPDATE sessions SET person = ?1 WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM turns WHERE session = ?2)"
_SELECT_MODEL = "SELECT model FROM sessions WHERE key = ? AND ended = ''"
_SELECT_PREFIX = "SELECT prefix FROM sessions WHERE key = ? AND ended = ''"
_SELECT_OPEN_TASK = f"""
    SELECT 1 FROM tasks WHERE session = ? AND ({OPEN_CONDITION} OR letter IN (SELECT id FROM outbox)) LIMIT 1
"""  # noqa: S608
_SELECT_SUMMARY = """
    SELECT text, upto, summaries.at FROM summaries JOIN sessions ON sessions.id = session
    WHERE key = ? AND ended = '' ORDER BY summaries.id DESC LIMIT 1
"""


class Summary(NamedTuple):
    """What was said in a conversation up to the turn `upto`, that one included; `at` is when it was written."""

    text: str
    upto: int
    at: str


def find_summary(database: Database, key: str) -> Summary | None:
    """Return the newest summary of a chat's open conversation. Raises StoreError."""
    return next((Summary(*row) for row in database.select(_SELECT_SUMMARY, key)), None)


def find_agent(database: Database, key: str) -> str:
    """Return the key of the agent that a chat's open conversation is held with, '' for the home's own. Raises StoreError."""
    return str(database.select_value("SELECT agent FROM sessions WHERE key = ? AND ended = ''", key) or "")


def has_open_tasks(database: Database, key: str) -> bool:
    """Tell whether sub-agents of a chat still have something to do or to report. Raises StoreError."""
    return bool(database.select(_SELECT_OPEN_TASK, key))


class History(Table):
    """The turns of every session."""

    def __init__(self, database: Database) -> None:
        """Work on an open database. Whoever has something to be kept with each turn sets `along`."""
        super().__init__(database)
        self.along: TransactionWrapper = lambda transaction: transaction
        self._replaced: dict[str, int] = {}
        self._unread: dict[str, list[int]] = {}

    def turns(self, session: str) -> list[tuple[Message, ...]]:
        """Return the turns of the open conversation that a model should still see, oldest first."""
        return list(self.numbered(session).values())

    def numbered(self, session: str) -> dict[int, tuple[Message, ...]]:
        """Return those turns by their numbers, without what of them cannot be read."""
        found, self._unread[session] = group_by_turn(self._database.select(_SELECT_TURNS, session))
        found.pop(self._replaced.get(session, 0), None)
        return found

    def prefix(self, session: str) -> str:
        """Return what the open conversation's requests begin with, as `keep` was given it; '' when there is none."""
        return str(self._database.select_value(_SELECT_PREFIX, session) or "")

    def model(self, session: str) -> str:
        """Return the model that the open conversation is held with, '' for the configured one."""
        return str(self._database.select_value(_SELECT_MODEL, session) or "")

    def replace(self, session: str, number: int) -> None:
        """Show a turn to no model in this process, and take it back at last when the next one is kept."""
        self._replaced[session] = number

    def kept(self, *, only_owners: bool = False) -> list[tuple[int, str, str]]:
        """List all turns that are kept and were not taken back, or the owner's of them: number, session and day."""
        rows = self._database.select(_SELECT_ALL_TURNS, only_owners)
        return [row for row in rows if row[0] not in self._replaced.values()]

    def turn(self, number: int) -> tuple[Message, ...]:
        """Return the messages of a turn, none for one that was never kept, or that cannot be read whole."""
        sql = "SELECT turn, role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id"
        found, unread = group_by_turn(self._database.select(sql, number))
        return () if unread else found.get(number, ())

    def heard(self, session: str) -> frozenset[str]:
        """Name the untrusted sources that the open conversation rests on.

        What a model is shown no more counts as well: the answers after it were made of it.
        """
        rows = self._database.select(_SELECT_TAINT, session, self._replaced.get(session, 0))
        return frozenset(name for (names,) in rows for name in json.loads(names))

    def list_turns_of_others(self, session: str, who: str) -> list[int]:
        """Number the turns of the open conversation that somebody else than `who` has asked for."""
        return [number for (number,) in self._database.select(_SELECT_OTHERS, session, who)]

    def heard_by(self, number: int) -> tuple[str, ...]:
        """Name the untrusted sources that a turn rests on."""
        found = self._database.select_value("SELECT heard FROM turns WHERE id = ?", number)
        return tuple(json.loads(found)) if found else ()

    def keep(
        self,
        session: str,
        turn: Turn,
        at: datetime,
        shown_acts: Sequence[int] = (),
        model: str = "",
        upto: int = 0,
        inbox: int = 0,
        prefix: str = "",
        asked_by: str = "",
        person: str = "",
    ) -> str:
        """Add a finished turn; when this returns it is durable.

        The acts of this process are settled with it, and those of `unknown_acts` that the turn has shown. What the
        server's counts say of the `model` is learned; returns what the owner should know about them, or nothing. What
        no longer fitted the window goes by the number of its newest turn, `upto`: another process may have summed up
        or taken back some of it meanwhile. Within the same transaction the turn that it replaces is taken back.
        `inbox` is the number of what it answers; a `prefix` takes the place of the conversation's. `asked_by`
        names who has asked where it was not the owner; a conversation that begins with it is that `person`'s.
        """
        replaced, taints = self._replaced.pop(session, 0), turn.taints
        if UNREAD_TAINT in taints:
            with suppress(ValueError):
                taints = limit_taints({*taints, *self.heard(session)} - {UNREAD_TAINT})
        with self.along(self._database.transaction()) as connection:
            conversation = ensure_open_conversation(connection, session, at)
            connection.execute(_UNDO_TURN, (conversation, replaced))
            if person:
                connection.execute(_SET_PERSON, (person, conversation))
            if prefix:
                connection.execute("UPDATE sessions SET prefix = ? WHERE id = ?", (prefix, conversation))
            if upto:
                connection.execute(_HIDE_TURNS_UPTO, (conversation, upto))
            elif turn.forgotten:
                connection.execute(_HIDE_OLDEST_TURNS, (conversation, turn.forgotten))
            used = {"prompt_tokens": turn.usage.prompt_tokens, "completion_tokens": turn.usage.completion_tokens}
            how = {"provider": turn.provider, "steps": turn.steps, "stopped": turn.stopped, **used}
            whose = {"heard": json.dumps(taints, ensure_ascii=False), "asked_by": asked_by, "inbox": inbox}
            begun = at.isoformat(timespec="seconds")
            number = insert(connection, "turns", session=conversation, at=begun, **how, **whose)
            connection.executemany(
                "INSERT INTO messages (turn, role, text, calls, call_id) VALUES (?, ?, ?, ?, ?)",
                [
                    (number, m.role, m.text, json.dumps(list_calls(m.calls), ensure_ascii=False), m.call_id)
                    for m in turn.messages
                ],
            )
            connection.execute(_ATTACH_RESULTS, (number, get_process_identity(), session))
            _delete_settled_acts(connection, session, shown_acts)
            news = [
                ledger.update_calibration(connection, model, turn.usage.counted),
                *self._damage(connection, session),
            ]
            return "; ".join(filter(None, news))

    def _damage(self, connection: StoreConnection, session: str) -> Iterator[str]:
        """Say of each turn once that it cannot be read."""
        for number in self._unread.pop(session, []):
            if not get_mark(connection, name := f"unread turn {number}"):
                set_mark(connection, name, "told")
                yield _UNREADABLE_TURN.format(number, self._database.path.name)

    def settle(self, session: str) -> None:
        """Cross off this process's acts of a session, when they were not part of a turn."""
        with self._database.transaction() as connection:
            _delete_settled_acts(connection, session)

    def begin_act(self, session: str, call: ToolCall, at: datetime) -> None:
        """Write down that a call is about to change something; durable when this returns."""
        self._database.write(
            "INSERT INTO acts (session, at, tool, arguments, process) VALUES (?, ?, ?, ?, ?)",
            session,
            at.isoformat(timespec="seconds"),
            call.name,
            json.dumps(call.arguments, ensure_ascii=False),
            get_process_identity(),
        )

    def unknown_acts(self, session: str) -> list[tuple[int, str]]:
        """Return the acts whose process ended before their turn was kept: number and `time tool {arguments}`."""
        sql = "SELECT process, id, at || ' ' || tool || ' ' || arguments FROM acts WHERE session = ? ORDER BY id"
        rows = self._database.select(sql, session)
        return [(number, text) for process, number, text in rows if not is_process_alive(process)]


def find_open_conversation(connection: StoreConnection, key: str) -> int:
    """Return the number of a chat's open conversation, 0 when there is none."""
    return int(connection.execute("SELECT id FROM sessions WHERE key = ? AND ended = ''", (key,)).get or 0)


def ensure_open_conversation(connection: StoreConnection, key: str, at: datetime | None) -> int:
    """Return the number of a chat's open conversation, opened when there is none; it begins at its first `at`."""
    number = find_open_conversation(connection, key)
    if not number:
        connection.execute("INSERT INTO sessions (key) VALUES (?)", (key,))
        number = connection.last_insert_rowid()
    if at is not None:
        begun = at.isoformat(timespec="seconds")
        connection.execute("UPDATE sessions SET begun = ? WHERE id = ? AND begun = ''", (begun, number))
    return number


def decode_calls(text: str) -> tuple[ToolCall, ...]:
    """Read the calls of a message as they are kept. Raises ValueError, TypeError or RecursionError."""
    return tuple(make_tool_call(*call) for call in json.loads(text))


def group_by_turn(rows: Iterable[tuple[Any, ...]]) -> tuple[dict[int, tuple[Message, ...]], list[int]]:
    """Put rows of turn, role, text, calls and call id together by turn; names also the turns that are not whole.

    A call that is not what picoclaw writes is left out, and so is a turn in which nobody knows who spoke.
    """
    found: dict[int, list[Message]] = {}
    unread, lost = set[int](), set[int]()
    for number, role, text, calls, call_id in rows:
        kept, good = _decode_readable_calls(calls)
        found.setdefault(number, []).append(Message(role, text, kept, call_id))
        if role not in get_args(MessageRole):
            lost.add(number)
        elif not good:
            unread.add(number)
    turns = {number: tuple(messages) for number, messages in found.items() if number not in lost}
    return turns, sorted(unread | lost)


def _decode_readable_calls(text: str) -> tuple[tuple[ToolCall, ...], bool]:
    """Read the calls of a message one by one; tells whether all of them could be."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return (), False
    if not isinstance(given, list):
        return (), False
    found = []
    for call in given:
        with suppress(TypeError):
            found.append(make_tool_call(*call))
    return tuple(found), len(found) == len(given)


def _delete_settled_acts(connection: StoreConnection, session: str, shown: Sequence[int] = ()) -> None:
    """Nothing but what is known to be settled: another process may have died since the turn began."""
    connection.execute("DELETE FROM acts WHERE session = ? AND process = ?", (session, get_process_identity()))
    connection.executemany("DELETE FROM acts WHERE session = ? AND id = ?", [(session, number) for number in shown])


def list_calls(calls: tuple[ToolCall, ...]) -> list[list[Any]]:
    """The calls of a message as they are kept; make_tool_call reads one."""
    return [[call.id, call.name, call.arguments, call.broken] for call in calls]


def make_tool_call(number: Any, name: Any, arguments: Any, broken: Any) -> ToolCall:
    """Raises TypeError for what is none."""
    if not (isinstance(arguments, dict) and all(isinstance(text, str) for text in (number, name, broken))):
        raise TypeError("a call is its id, its name, an object and a text")
    return ToolCall(number, name, arguments, broken)


def get_process_identity() -> str:
    """Name this process so that neither a later one nor one after a reboot can be taken for it."""
    return _identify_own_process(os.getpid())


@cache
def _identify_own_process(pid: int) -> str:
    return _identify_process(pid)


def is_process_alive(identity: str) -> bool:
    pid = identity.partition(":")[0]
    return pid.isdecimal() and _identify_process(int(pid)) == identity


def _identify_process(pid: int) -> str:
    """Pid, start time in clock ticks (proc(5), field 22 of stat) and boot; one that nobody has reaped is gone."""
    try:
        state, *fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"{pid}:gone"
    return f"{pid}:gone" if state in {"Z", "X"} else f"{pid}:{fields[18]}:{boot}"


# Results of tools that were too long to be shown whole, in `state.db`: kept for as long as their conversation.

# What was taken back is not shown to a model again.
_SELECT_RESULT = """
    SELECT text FROM results JOIN sessions ON sessions.id = session WHERE results.id = ?1 AND key = ?2 AND NOT EXISTS (
        SELECT 1 FROM turns WHERE turns.id = results.turn AND undone
    )
"""
_SELECT_OWN_RESULT = f"""{_SELECT_RESULT} AND (
        (results.turn = 0 AND results.at = ?4)
        OR EXISTS (SELECT 1 FROM turns WHERE turns.id = results.turn AND asked_by = ?3)
    )
"""  # noqa: S608


class Results(Table):
    def keep(self, session: str, tool: str, text: str, at: datetime) -> int:
        """Keep a result durably with the chat's open conversation; returns its number.

        `at` is when the turn began, the caller's `now`. It is of the turn that this process keeps next in the chat.
        """
        with self._database.transaction() as connection:
            conversation = ensure_open_conversation(connection, session, at)
            connection.execute(
                "INSERT INTO results (session, at, tool, text, process) VALUES (?, ?, ?, ?, ?)",
                (conversation, at.isoformat(timespec="seconds"), tool, text, get_process_identity()),
            )
            return connection.last_insert_rowid()

    def read(self, session: str, number: int) -> str | None:
        """Return a result of any conversation of the chat; None for one that is not kept, or of a turn taken back."""
        return self._database.select_value(_SELECT_RESULT, number, session) if is_valid_row_id(number) else None

    def read_own(self, session: str, number: int, who: str, at: datetime) -> str | None:
        """Return such a result of a turn that `who` has asked for, or of the one that began `at`: others share a group."""
        values = number, session, who, at.isoformat(timespec="seconds")
        return self._database.select_value(_SELECT_OWN_RESULT, *values) if is_valid_row_id(number) else None


# Turns that the disk did not take: a model is shown them as if they were kept, and they are kept as soon as it takes
# them, in their order. A conversation that is new gives way while the last of the room is for what was promised.


_MAX_UNSAVED = 50


class UnsavedTurn(NamedTuple):
    """A turn with all that History.keep is told of it."""

    session: str
    turn: Turn
    at: datetime
    acts: tuple[int, ...] = ()
    model: str = ""
    upto: int = 0
    inbox: int = 0
    prefix: str = ""
    asked_by: str = ""
    person: str = ""


class TurnWriteBehind:
    """What one process owes to the disk; of more than 50 turns, the oldest are lost with the process."""

    def __init__(self, folder: Path, history: Callable[[], History]) -> None:
        """`history` opens the conversations, which lie in `folder`, or raises StoreError."""
        self._folder, self._history = folder, history
        self._unsaved: deque[UnsavedTurn] = deque(maxlen=_MAX_UNSAVED)

    def turns(self, session: str) -> list[tuple[Message, ...]]:
        """Return the unsaved turns of a conversation, the oldest first."""
        return [unsaved.turn.messages for unsaved in self._unsaved if unsaved.session == session]

    def has_turns_of_others(self, session: str, who: str) -> bool:
        """Whether somebody else than `who` has asked for one of the unsaved turns."""
        return any(unsaved.session == session and unsaved.asked_by != who for unsaved in self._unsaved)

    def heard(self, session: str) -> frozenset[str]:
        """Name the untrusted sources of a conversation's unsaved turns."""
        return frozenset(
            name for unsaved in self._unsaved if unsaved.session == session for name in unsaved.turn.taints
        )

    def keep(self, unsaved: UnsavedTurn) -> str:
        """Save a turn, after those that are unsaved; returns what History.keep does.

        Raises StoreError where the disk does not take it; then it is remembered.
        """
        try:
            self._spare(unsaved.session)
            self.settle()
            return self._history().keep(*unsaved)
        except (StoreDamaged, StoreNewer):
            raise
        except StoreError:
            self._unsaved.append(unsaved)
            raise

    def settle(self) -> None:
        """Save what is unsaved, as far as the disk takes it. Raises StoreError."""
        while self._unsaved:
            self._history().keep(*self._unsaved[0])
            self._unsaved.popleft()

    def __len__(self) -> int:
        return len(self._unsaved)

    def _spare(self, session: str) -> None:
        """Keep a new conversation from taking the room that is left. Raises StoreError."""
        try:
            check_reserve("new conversations", self._folder)
        except DiskNearlyFull as error:
            if not self._history().numbered(session):
                raise StoreError(explain_os_error(error)) from None
