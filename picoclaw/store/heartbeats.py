"""Heartbeats in `state.db`: what was done, what it cost, what is to be told, and what is remembered of each line.

What is to be told goes into the outbox in the transaction that keeps how the heartbeat ended, and so exactly once.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from picoclaw.messages import DEFAULT_SESSION
from picoclaw.records import NamedTuple
from picoclaw.store.database import LAST_CHAT_MARK, StoreConnection, Table, get_mark
from picoclaw.store.outbox import put_message

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
            connection.execute(
                "INSERT INTO beats (at, day, boot, mono, tokens, outcome) VALUES (?, ?, ?, ?, ?, 'running')",
                (now.timestamp(), _format_day(now), boot, mono, reserve),
            )
            number = connection.last_insert_rowid()
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
