"""Conversations in `state.db`: turns go in whole, come back as sent, and are never deleted here.

A turn is one transaction, so a cut at any moment leaves all of it or nothing, and never half a tool call.
"""

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from picoclaw.errors import StoreDamaged
from picoclaw.messages import Message, ToolCall, Turn
from picoclaw.store import calibration
from picoclaw.store.database import SET_ASIDE, Database, storable

_FORGET = """
    UPDATE sessions SET shown_from = (
        SELECT coalesce(1 + max(id), shown_from) FROM (
            SELECT id FROM turns WHERE session = sessions.id AND id >= shown_from ORDER BY id LIMIT ?2
        )
    ) WHERE key = ?1
"""


class History:
    """The turns of every session."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    def turns(self, session: str) -> list[tuple[Message, ...]]:
        """Return the turns of a session that a model should still see, oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT turns.id, role, text, calls, call_id FROM messages JOIN turns ON turns.id = messages.turn"
                " JOIN sessions ON sessions.id = turns.session"
                " WHERE sessions.key = ? AND turns.id >= sessions.shown_from ORDER BY messages.id",
                (session,),
            )
            return list(self._whole(rows).values())

    def kept(self) -> list[tuple[int, str, str]]:
        """List all turns that were ever kept: number, session and day."""
        sql = "SELECT turns.id, key, substr(at, 1, 10) FROM turns JOIN sessions ON sessions.id = session ORDER BY 1"
        with self._database.reading() as connection:
            return [(int(str(number)), str(key), str(day)) for number, key, day in connection.execute(sql)]

    def turn(self, number: int) -> tuple[Message, ...]:
        """Return the messages of a turn, none for one that was never kept."""
        sql = "SELECT turn, role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id"
        with self._database.reading() as connection:
            return self._whole(connection.execute(sql, (number,))).get(number, ())

    def _whole(self, rows: Iterable[tuple[Any, ...]]) -> dict[Any, tuple[Message, ...]]:
        found: dict[Any, list[Message]] = {}
        try:
            for number, *message in rows:
                found.setdefault(number, []).append(_message(*message))
        except (ValueError, TypeError, RecursionError):
            damage = "a message's calls are not what picoclaw writes there"
            raise StoreDamaged(f"{self._database.path} is damaged ({damage}); {SET_ASIDE}") from None
        return {number: tuple(messages) for number, messages in found.items()}

    def keep(self, session: str, turn: Turn, at: datetime, shown_acts: Sequence[int] = (), model: str = "") -> str:
        """Add a finished turn; when this returns it is durable.

        The acts of this process are settled with it, and those of `unknown_acts` that the turn has shown. What the
        server's counts say of the `model` is learned; returns what the owner should know about them, or nothing.
        """
        with self._database.transaction() as connection:
            connection.execute("INSERT INTO sessions (key) VALUES (?) ON CONFLICT DO NOTHING", (session,))
            if turn.forgotten:
                connection.execute(_FORGET, (session, turn.forgotten))
            connection.execute(
                "INSERT INTO turns (session, at, provider, steps, prompt_tokens, completion_tokens, stopped)"
                " VALUES ((SELECT id FROM sessions WHERE key = ?), ?, ?, ?, ?, ?, ?)",
                (
                    session,
                    at.isoformat(timespec="seconds"),
                    turn.provider,
                    turn.steps,
                    turn.usage.prompt_tokens,
                    turn.usage.completion_tokens,
                    turn.stopped,
                ),
            )
            number = connection.last_insert_rowid()
            connection.executemany(
                "INSERT INTO messages (turn, role, text, calls, call_id) VALUES (?, ?, ?, ?, ?)",
                [(number, m.role, storable(m.text), _calls(m.calls), storable(m.call_id)) for m in turn.messages],
            )
            _settle(connection, session, shown_acts)
            return calibration.learn(connection, model, turn.usage.counted)

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


def _settle(connection: apsw.Connection, session: str, shown: Sequence[int] = ()) -> None:
    """Nothing but what is known to be settled: another process may have died since the turn began."""
    connection.execute("DELETE FROM acts WHERE session = ? AND process = ?", (session, process_identity()))
    connection.executemany("DELETE FROM acts WHERE session = ? AND id = ?", [(session, number) for number in shown])


def _calls(calls: tuple[ToolCall, ...]) -> str:
    return storable(json.dumps([[c.id, c.name, c.arguments, c.broken] for c in calls], ensure_ascii=False))


def _message(role: Any, text: Any, calls: Any, call_id: Any) -> Message:
    return Message(role, text, tuple(_called(*call) for call in json.loads(calls)), call_id)


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
