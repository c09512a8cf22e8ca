"""Conversations in `state.db`: turns go in whole, come back as sent, and are never deleted here.

A turn is one transaction, so a cut at any moment leaves all of it or nothing, and never half a tool call.
"""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from picoclaw.messages import Message, ToolCall, Turn
from picoclaw.store.database import Database

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
            found: dict[Any, list[Message]] = {}
            for number, *message in rows:
                found.setdefault(number, []).append(_message(*message))
            return [tuple(messages) for messages in found.values()]

    def keep(self, session: str, turn: Turn, at: datetime) -> None:
        """Add a finished turn; when this returns it is durable. The acts of this process are settled with it."""
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
                [(number, m.role, _storable(m.text), _calls(m.calls), _storable(m.call_id)) for m in turn.messages],
            )
            _settle(connection, session)

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
                    _storable(json.dumps(call.arguments, ensure_ascii=False)),
                    process_identity(),
                ),
            )

    def unknown_acts(self, session: str) -> list[str]:
        """Return the acts whose process ended before their turn was kept, as `time tool {arguments}`."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT at, tool, arguments, process FROM acts WHERE session = ? ORDER BY id", (session,)
            )
            return [f"{at} {tool} {arguments}" for at, tool, arguments, process in rows if not alive(str(process))]


def _settle(connection: apsw.Connection, session: str) -> None:
    for number, process in connection.execute("SELECT id, process FROM acts WHERE session = ?", (session,)).fetchall():
        if process == process_identity() or not alive(str(process)):
            connection.execute("DELETE FROM acts WHERE id = ?", (number,))


def _calls(calls: tuple[ToolCall, ...]) -> str:
    return _storable(json.dumps([[c.id, c.name, c.arguments, c.broken] for c in calls], ensure_ascii=False))


def _storable(text: str) -> str:
    """Replace lone surrogates, which a model may write as escapes and which are no text to SQLite."""
    return text.encode("utf-8", "replace").decode()


def _message(role: Any, text: Any, calls: Any, call_id: Any) -> Message:
    return Message(role, text, tuple(ToolCall(*call) for call in json.loads(calls)), call_id)


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
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{pid}:gone"
    return f"{pid}:gone" if state in {"Z", "X"} else f"{pid}:{fields[18]}:{boot}"
