"""Conversations in `state.db`: turns go in whole, come back as sent, and are never deleted here.

A turn is one transaction, so a cut at any moment leaves all of it or nothing, and never half a tool call.
A chat, named by its key, has one open conversation; see store/sessions.py for the others.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import apsw

from picoclaw.messages import Message, Role, ToolCall, Turn
from picoclaw.store import calibration
from picoclaw.store.database import Database, storable
from picoclaw.store.marks import mark, set_mark

SHOWN = """
    turns.session = sessions.id AND NOT undone AND turns.id >= shown_from
    AND turns.id > coalesce((SELECT upto FROM summaries WHERE session = sessions.id ORDER BY id DESC LIMIT 1), 0)
"""
"""Which turns of a session a model should still see."""

_TURNS = f"""
    SELECT turns.id, role, text, calls, call_id FROM sessions JOIN turns ON {SHOWN} JOIN messages ON turn = turns.id
    WHERE key = ? AND ended = '' ORDER BY turns.id, messages.id
"""  # noqa: S608
_FORGET = f"""
    UPDATE sessions SET shown_from = (
        SELECT coalesce(1 + max(id), shown_from) FROM (SELECT turns.id FROM turns WHERE {SHOWN} ORDER BY id LIMIT ?2)
    ) WHERE id = ?1
"""  # noqa: S608
_FORGET_UPTO = """
    UPDATE sessions SET shown_from = max(shown_from, ?2 + 1)
    WHERE id = ?1 AND EXISTS (SELECT 1 FROM turns WHERE id = ?2 AND session = ?1)
"""
_REPLACED = f"""
    UPDATE turns SET undone = 1 WHERE id IN (
        SELECT turns.id FROM sessions JOIN turns ON {SHOWN} WHERE sessions.id = ?1 AND turns.id = ?2
    )
"""  # noqa: S608
_RESULTS = """
    UPDATE results SET turn = ?1
    WHERE turn = 0 AND process = ?2 AND session IN (SELECT id FROM sessions WHERE key = ?3)
"""
_HEARD = """
    SELECT DISTINCT heard FROM sessions JOIN turns ON session = sessions.id
    WHERE key = ?1 AND ended = '' AND NOT undone AND turns.id != ?2 AND heard != '[]'
"""
_UNREAD = "turn {} of this chat cannot be read whole in {}; a model is shown what is left of it"
_KEPT = """
    SELECT turns.id, key, substr(at, 1, 10) FROM turns JOIN sessions ON sessions.id = session
    WHERE NOT undone ORDER BY 1
"""


Along = Callable[[AbstractContextManager[apsw.Connection]], AbstractContextManager[apsw.Connection]]
"""Gives a transaction back as one that keeps something else as well."""


class History:
    """The turns of every session."""

    def __init__(self, database: Database) -> None:
        """Work on an open database. Whoever has something to be kept with each turn sets `along`."""
        self._database = database
        self.along: Along = lambda transaction: transaction
        self._replaced: dict[str, int] = {}
        self._unread: dict[str, list[int]] = {}

    def turns(self, session: str) -> list[tuple[Message, ...]]:
        """Return the turns of the open conversation that a model should still see, oldest first."""
        return list(self.numbered(session).values())

    def numbered(self, session: str) -> dict[int, tuple[Message, ...]]:
        """Return those turns by their numbers, without what of them cannot be read."""
        with self._database.reading() as connection:
            found, self._unread[session] = whole(connection.execute(_TURNS, (session,)))
        found.pop(self._replaced.get(session, 0), None)
        return found

    def replace(self, session: str, number: int) -> None:
        """Show a turn to no model in this process, and take it back at last when the next one is kept."""
        self._replaced[session] = number

    def kept(self) -> list[tuple[int, str, str]]:
        """List all turns that are kept and were not taken back: number, session and day."""
        with self._database.reading() as connection:
            rows = [(int(str(number)), str(key), str(day)) for number, key, day in connection.execute(_KEPT)]
        return [row for row in rows if row[0] not in self._replaced.values()]

    def turn(self, number: int) -> tuple[Message, ...]:
        """Return the messages of a turn, none for one that was never kept, or that cannot be read whole."""
        sql = "SELECT turn, role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id"
        with self._database.reading() as connection:
            found, unread = whole(connection.execute(sql, (number,)))
        return () if unread else found.get(number, ())

    def heard(self, session: str) -> frozenset[str]:
        """Name what the open conversation rests on that is nobody's word in it.

        What a model is shown no more counts as well: the answers after it were made of it.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_HEARD, (storable(session), self._replaced.get(session, 0))).fetchall()
        return frozenset(name for (names,) in rows for name in json.loads(str(names)))

    def heard_by(self, number: int) -> tuple[str, ...]:
        """Name what a turn rests on that is nobody's word in its chat."""
        with self._database.reading() as connection:
            found = connection.execute("SELECT heard FROM turns WHERE id = ?", (number,)).get
        return tuple(json.loads(str(found))) if found else ()

    def keep(
        self,
        session: str,
        turn: Turn,
        at: datetime,
        shown_acts: Sequence[int] = (),
        model: str = "",
        upto: int = 0,
        inbox: int = 0,
    ) -> str:
        """Add a finished turn; when this returns it is durable.

        The acts of this process are settled with it, and those of `unknown_acts` that the turn has shown. What the
        server's counts say of the `model` is learned; returns what the owner should know about them, or nothing. What
        no longer fitted the window goes by the number of its newest turn, `upto`: another process may have summed up
        or taken back some of it meanwhile. Within the same transaction the turn that it replaces is taken back.
        `inbox` is the number of what it answers.
        """
        replaced = self._replaced.pop(session, 0)
        with self.along(self._database.transaction()) as connection:
            conversation = opened(connection, session, at)
            connection.execute(_REPLACED, (conversation, replaced))
            if upto:
                connection.execute(_FORGET_UPTO, (conversation, upto))
            elif turn.forgotten:
                connection.execute(_FORGET, (conversation, turn.forgotten))
            connection.execute(
                "INSERT INTO turns (session, at, provider, steps, prompt_tokens, completion_tokens, stopped, inbox,"
                " heard) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    conversation,
                    at.isoformat(timespec="seconds"),
                    turn.provider,
                    turn.steps,
                    turn.usage.prompt_tokens,
                    turn.usage.completion_tokens,
                    turn.stopped,
                    inbox,
                    storable(json.dumps(turn.heard, ensure_ascii=False)),
                ),
            )
            number = connection.last_insert_rowid()
            connection.executemany(
                "INSERT INTO messages (turn, role, text, calls, call_id) VALUES (?, ?, ?, ?, ?)",
                [(number, m.role, storable(m.text), _calls(m.calls), storable(m.call_id)) for m in turn.messages],
            )
            connection.execute(_RESULTS, (number, process_identity(), storable(session)))
            _settle(connection, session, shown_acts)
            news = [calibration.learn(connection, model, turn.usage.counted), *self._damage(connection, session)]
            return "; ".join(filter(None, news))

    def _damage(self, connection: apsw.Connection, session: str) -> Iterator[str]:
        """Say of each turn once that it cannot be read."""
        for number in self._unread.pop(session, []):
            if not mark(connection, name := f"unread turn {number}"):
                set_mark(connection, name, "told")
                yield _UNREAD.format(number, self._database.path.name)

    def settle(self, session: str) -> None:
        """Cross off this process's acts of a session, when they were not part of a turn."""
        with self._database.transaction() as connection:
            _settle(connection, session)

    def begin_act(self, session: str, call: ToolCall, at: datetime) -> None:
        """Write down that a call is about to change something; durable when this returns."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO acts (session, at, tool, arguments, process) VALUES (?, ?, ?, ?, ?)",
                (
                    session,
                    at.isoformat(timespec="seconds"),
                    call.name,
                    storable(json.dumps(call.arguments, ensure_ascii=False)),
                    process_identity(),
                ),
            )

    def unknown_acts(self, session: str) -> list[tuple[int, str]]:
        """Return the acts whose process ended before their turn was kept: number and `time tool {arguments}`."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT id, at, tool, arguments, process FROM acts WHERE session = ? ORDER BY id", (session,)
            )
            return [
                (int(str(number)), f"{at} {tool} {arguments}")
                for number, at, tool, arguments, process in rows
                if not alive(str(process))
            ]


def open_one(connection: apsw.Connection, key: str) -> int:
    """Return the number of a chat's open conversation, 0 when there is none."""
    return int(connection.execute("SELECT id FROM sessions WHERE key = ? AND ended = ''", (storable(key),)).get or 0)


def opened(connection: apsw.Connection, key: str, at: datetime | None) -> int:
    """Return the number of a chat's open conversation, opened when there is none; it begins at its first `at`."""
    number = open_one(connection, key)
    if not number:
        connection.execute("INSERT INTO sessions (key) VALUES (?)", (storable(key),))
        number = connection.last_insert_rowid()
    if at is not None:
        begun = at.isoformat(timespec="seconds")
        connection.execute("UPDATE sessions SET begun = ? WHERE id = ? AND begun = ''", (begun, number))
    return number


def calls_of(text: str) -> tuple[ToolCall, ...]:
    """Read the calls of a message as they are kept. Raises ValueError, TypeError or RecursionError."""
    return tuple(_called(*call) for call in json.loads(text))


def whole(rows: Iterable[tuple[Any, ...]]) -> tuple[dict[int, tuple[Message, ...]], list[int]]:
    """Put rows of turn, role, text, calls and call id together by turn; names also the turns that are not whole.

    A call that is not what picoclaw writes is left out, and so is a turn in which nobody knows who spoke.
    """
    found: dict[int, list[Message]] = {}
    unread, lost = set[int](), set[int]()
    for number, role, text, calls, call_id in rows:
        kept, good = _readable(calls)
        found.setdefault(number, []).append(Message(role, text, kept, call_id))
        if role not in get_args(Role):
            lost.add(number)
        elif not good:
            unread.add(number)
    turns = {number: tuple(messages) for number, messages in found.items() if number not in lost}
    return turns, sorted(unread | lost)


def _readable(text: str) -> tuple[tuple[ToolCall, ...], bool]:
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
            found.append(_called(*call))
    return tuple(found), len(found) == len(given)


def _settle(connection: apsw.Connection, session: str, shown: Sequence[int] = ()) -> None:
    """Nothing but what is known to be settled: another process may have died since the turn began."""
    connection.execute("DELETE FROM acts WHERE session = ? AND process = ?", (session, process_identity()))
    connection.executemany("DELETE FROM acts WHERE session = ? AND id = ?", [(session, number) for number in shown])


def _calls(calls: tuple[ToolCall, ...]) -> str:
    return storable(json.dumps([[c.id, c.name, c.arguments, c.broken] for c in calls], ensure_ascii=False))


def _called(number: Any, name: Any, arguments: Any, broken: Any) -> ToolCall:
    if not (isinstance(arguments, dict) and all(isinstance(text, str) for text in (number, name, broken))):
        raise TypeError("a call is its id, its name, an object and a text")
    return ToolCall(number, name, arguments, broken)


def process_identity() -> str:
    """Name this process so that neither a later one nor one after a reboot can be taken for it."""
    return _identity(os.getpid())


def alive(identity: str) -> bool:
    """Tell whether the process of that identity still runs."""
    pid = identity.partition(":")[0]
    return pid.isdecimal() and _identity(int(pid)) == identity


def _identity(pid: int) -> str:
    """Pid, start time in clock ticks (proc(5), field 22 of stat) and boot; one that nobody has reaped is gone."""
    try:
        state, *fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"{pid}:gone"
    return f"{pid}:gone" if state in {"Z", "X"} else f"{pid}:{fields[18]}:{boot}"
