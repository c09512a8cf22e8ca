"""What there is of the conversations in `state.db`, for people: lists, transcripts, words found, tokens used; and for how long.

What goes, goes turn by turn, the oldest first, a few in one transaction: a cut leaves whole turns, and another process
waits for a moment only. Runs of jobs, and heartbeats, are kept shortly: nobody comes back to them.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from picoclaw.messages import Message, MessageRole, ToolCall, Usage, split_context
from picoclaw.records import NamedTuple
from picoclaw.store import subagent_tasks
from picoclaw.store.conversations import (
    VISIBLE_TURNS,
    Summary,
    decode_calls,
    ensure_open_conversation,
    find_agent,
    find_open_conversation,
    find_summary,
    get_process_identity,
    group_by_turn,
    is_process_alive,
)
from picoclaw.store.database import Database, Marks, StoreConnection, Table, insert, is_valid_row_id
from picoclaw.store.ledger import Ledger
from picoclaw.text import pattern, truncate

REFERENCE_TURNS = 20
"""Newest turns of the chats by whose date age is counted: a board that was in a drawer, or whose date is wrong for an
hour, loses nothing."""

FIRST_PLAUSIBLE_YEAR = 2024
"""A board without a battery begins in an earlier year, and learns the time from the network."""

_BATCH_SIZE = 200
_JOB_RUN_DAYS, _MAX_JOB_RUNS, _MAX_HEARTBEAT_TURNS = 7, 3, 50
_DAY_S = 86_400
_ROW_BYTES = 100
_RESULTS_SHARE = 0.25
_MIN_FREED_BYTES, _MAX_REWRITTEN_BYTES = 4_000_000, 8_000_000  # the second in a few seconds on a slow card

_JOB_RUN_CONDITION = "(key = 'heartbeat' OR key GLOB 'job [0-9]* *')"
_JOB_KEY = "substr(key, 1, 3 + instr(substr(key, 5), ' '))"
_SELECT_REFERENCE_DATE = f"""
    SELECT unixepoch(at) FROM turns JOIN sessions ON sessions.id = session WHERE NOT {_JOB_RUN_CONDITION}
    ORDER BY turns.id DESC LIMIT 1 OFFSET ?
"""  # noqa: S608
# A board without a clock may have said 1970: such a turn is as old as those after it.
_SELECT_OLD = """
    SELECT id FROM {table} WHERE unixepoch(at) < ?1
    AND id <= (SELECT max(id) FROM {table} WHERE unixepoch(at) BETWEEN 1704067200 AND ?1 - 1)
"""
_SELECT_OLD_RUNS = f"""
    SELECT turns.id FROM turns JOIN (
        SELECT id, row_number() OVER (PARTITION BY {_JOB_KEY} ORDER BY id DESC) > ?1 AS many FROM sessions
        WHERE key GLOB 'job [0-9]* *' AND EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
    ) AS runs ON runs.id = session WHERE many OR unixepoch(at) < ?3
    UNION SELECT id FROM (
        SELECT turns.id, at, row_number() OVER (ORDER BY turns.id DESC) > ?2 AS many
        FROM turns JOIN sessions ON sessions.id = session WHERE key = 'heartbeat'
    ) WHERE many OR unixepoch(at) < ?3
"""  # noqa: S608
_SELECT_SIZES = {
    "turns": f"""
        SELECT turn, {_ROW_BYTES} + sum(octet_length(text) + octet_length(calls) + {_ROW_BYTES}) FROM messages
        GROUP BY turn ORDER BY turn DESC
    """,  # noqa: S608
    "results": "SELECT id, octet_length(text) FROM results ORDER BY id DESC",
}

_IN_NUMBERS = "IN (SELECT value FROM json_each(?1))"
_ADD_TOKENS_OF_TURNS = f"""
    INSERT INTO spent
        SELECT substr(at, 1, 10), CASE WHEN key GLOB 'job [0-9]* *' THEN {_JOB_KEY} ELSE key END, provider,
            sum(prompt_tokens), sum(completion_tokens)
        FROM turns JOIN sessions ON sessions.id = session
        WHERE turns.id {_IN_NUMBERS} AND prompt_tokens + completion_tokens > 0 GROUP BY 1, 2, 3
    ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens
"""  # noqa: S608
_SELECT_TURN_RESULTS = f"""
    SELECT id FROM results WHERE turn {_IN_NUMBERS}
"""  # noqa: S608
_MARK_ERASED = """
    UPDATE shared_rows SET mark = 'erased' WHERE kind = 'turns' AND local IN (SELECT CAST(value AS TEXT) FROM json_each(?1))
"""
_DELETE_OLD_SUMMARIES = f"""
    DELETE FROM summaries WHERE session {_IN_NUMBERS} AND upto <= ?2
    AND id < (SELECT max(id) FROM summaries AS others WHERE others.session = summaries.session)
"""  # noqa: S608
_SELECT_EMPTY_CONVERSATIONS = (
    f"SELECT id FROM sessions WHERE id {_IN_NUMBERS} AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)"  # noqa: S608
)


class PruneResult(NamedTuple):
    conversations: int = 0
    turns: int = 0
    messages: int = 0
    results: int = 0


def prune_daily(database: Database, now: datetime, days: int, mb: float) -> None:
    """Prune once a day, for a process that answers and leaves. Raises StoreError."""
    marks, name, today = Marks(database), "pruned.day", str(now.date())
    before = marks.get(name)
    if before != today and now.year >= FIRST_PLAUSIBLE_YEAR and marks.moved(name, before, today):
        prune(database, now, days, mb)


def prune(database: Database, now: datetime, days: int, mb: float) -> None:
    """Delete conversations and usage records that are kept no longer, and shrink the file. Raises StoreError."""
    prune_conversations(database, now, days, mb)
    Ledger(lambda: database).prune()
    shrink(database)


def prune_conversations(
    database: Database, now: datetime, days: int, mb: float, sure_after: int = REFERENCE_TURNS
) -> PruneResult:
    """Delete what is older than `days`, then the oldest of more than `mb` megabytes; nothing is written for nothing.

    Age is counted from the date of the chats' turn that is as new as `sure_after` others, or from `now` if that is
    earlier; with 0 from `now`. Raises StoreError.
    """
    turns, results = select_prunable(database, now, days, mb, sure_after)
    gone = PruneResult()
    for some in _split_batches(results):
        with database.erasure() as connection:
            connection.execute(f"DELETE FROM results WHERE id {_IN_NUMBERS}", (json.dumps(some),))  # noqa: S608
            gone = gone._replace(results=gone.results + connection.changes())
    for some in _split_batches(turns):
        with database.erasure() as connection:
            conversations, messages = _delete_with_leftovers(connection, some)
        gone = gone._replace(
            conversations=gone.conversations + conversations,
            turns=gone.turns + len(some),
            messages=gone.messages + messages,
        )
    return gone


def select_prunable(
    database: Database, now: datetime, days: int, mb: float, sure_after: int = REFERENCE_TURNS
) -> tuple[list[int], list[int]]:
    """Name what a pruning would delete: the numbers of turns and of results. Raises StoreError."""
    with database.reading() as connection:
        moment = int(now.timestamp())
        turns = set(
            _select_numbers(
                connection, _SELECT_OLD_RUNS, _MAX_JOB_RUNS, _MAX_HEARTBEAT_TURNS, moment - _JOB_RUN_DAYS * _DAY_S
            )
        )
        results: set[int] = set()
        sure = connection.execute(_SELECT_REFERENCE_DATE, (sure_after - 1,)).get if sure_after else moment
        if sure is not None:
            before = min(moment, sure) - days * _DAY_S
            turns |= set(_select_numbers(connection, _SELECT_OLD.format(table="turns"), before))
            results |= set(_select_numbers(connection, _SELECT_OLD.format(table="results"), before))
        if _count_used_bytes(connection) > mb * 1e6:
            results |= set(_select_over_limit(connection, "results", results, mb * 1e6 * _RESULTS_SHARE))
            turns |= set(_select_over_limit(connection, "turns", turns, mb * 1e6 * (1 - _RESULTS_SHARE)))
        results |= set(_select_numbers(connection, _SELECT_TURN_RESULTS, json.dumps(sorted(turns))))
    return sorted(turns), sorted(results)


def delete_turns(connection: StoreConnection, turns: Sequence[int]) -> int:
    """Delete turns within the caller's transaction, adding up their tokens; returns how many messages went."""
    numbers = (json.dumps(turns),)
    connection.execute(_ADD_TOKENS_OF_TURNS, numbers)
    connection.execute(f"DELETE FROM messages WHERE turn {_IN_NUMBERS}", numbers)  # noqa: S608
    messages = connection.changes()
    connection.execute(f"DELETE FROM turns WHERE id {_IN_NUMBERS}", numbers)  # noqa: S608
    connection.execute(_MARK_ERASED, numbers)
    return messages


def shrink(database: Database, most_moved: int = _MAX_REWRITTEN_BYTES) -> bool:
    """Write the file anew when that is soon done and at least halves it; tells whether it did. Raises StoreError."""
    with database.reading() as connection:
        used, size = _count_used_bytes(connection), _get_page_bytes(connection, "page_count")
    pays = size - used >= max(used, _MIN_FREED_BYTES) and used <= most_moved
    if not pays or _get_free_disk_bytes(database) < 3 * used:
        return False
    database.shrink()
    return True


def _delete_with_leftovers(connection: StoreConnection, turns: Sequence[int]) -> tuple[int, int]:
    """Delete turns, older summaries of what they said, and the conversations that nothing is left of."""
    where = f"SELECT DISTINCT session FROM turns WHERE id {_IN_NUMBERS}"  # noqa: S608
    sessions = json.dumps(_select_numbers(connection, where, json.dumps(turns)))
    messages = delete_turns(connection, turns)
    connection.execute(_DELETE_OLD_SUMMARIES, (sessions, max(turns)))
    empty = json.dumps(found := _select_numbers(connection, _SELECT_EMPTY_CONVERSATIONS, sessions))
    for table, column in (("summaries", "session"), ("results", "session"), ("sessions", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} {_IN_NUMBERS}", (empty,))  # noqa: S608
    return len(found), messages


def _select_over_limit(connection: StoreConnection, table: str, gone: set[int], most: float) -> Iterator[int]:
    """Name what is left when the newest have filled their share of the room."""
    rows = connection.execute(_SELECT_SIZES[table])
    left = [(number, size) for number, size in rows if number not in gone]
    sums = accumulate(size for _, size in left)
    yield from (number for (number, _), total in zip(left, sums, strict=True) if total > most)


def _count_used_bytes(connection: StoreConnection) -> int:
    return _get_page_bytes(connection, "page_count") - _get_page_bytes(connection, "freelist_count")


def _get_free_disk_bytes(database: Database) -> int:
    disk = os.statvfs(database.path.parent)
    return disk.f_bavail * disk.f_frsize


def _get_page_bytes(connection: StoreConnection, count: str) -> int:
    pages, size = (connection.execute(f"PRAGMA {name}").get for name in (count, "page_size"))
    return int(pages * size)


def _select_numbers(connection: StoreConnection, sql: str, *values: int | str) -> list[int]:
    return [number for (number,) in connection.execute(sql, values)]


def _split_batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + _BATCH_SIZE] for at in range(0, len(numbers), _BATCH_SIZE))


_ASCII_PART = pattern(r"(?:(?!ss)[a-z0-9])+")  # where ss is asked for, ß may be written
_MAX_FIRST_WORDS_CHARS, _SNIPPET_MARGIN = 80, 70
_MONTH = timedelta(days=30)

_SELECT_CONVERSATIONS = """
    SELECT id, key, begun, ended,
        (SELECT at FROM turns WHERE session = sessions.id ORDER BY id DESC LIMIT 1),
        (SELECT count(*) FROM turns WHERE session = sessions.id AND NOT undone),
        (SELECT count(*) FROM turns JOIN messages ON turn = turns.id WHERE session = sessions.id AND NOT undone),
        (SELECT text FROM messages WHERE role = 'user' AND turn = (
            SELECT id FROM turns WHERE session = sessions.id AND NOT undone ORDER BY id LIMIT 1
        ) ORDER BY id LIMIT 1),
        (SELECT sum(prompt_tokens + completion_tokens) FROM turns WHERE session = sessions.id),
        agent
    FROM sessions WHERE key = coalesce(?, key) AND EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
    ORDER BY (SELECT max(id) FROM turns WHERE session = sessions.id) DESC
"""
_SELECT_TRANSCRIPT = """
    SELECT role, text, calls, at, undone, turn, call_id, provider, stopped FROM turns JOIN messages ON turn = turns.id
    WHERE session = ? ORDER BY turns.id, messages.id
"""
_SEARCH_MESSAGES = """
    SELECT session, key, turn, at, role, text, undone FROM messages CROSS JOIN turns ON turns.id = turn
    CROSS JOIN sessions ON sessions.id = session
    WHERE key = coalesce(?1, key) AND instr(lower(text), ?2) ORDER BY messages.id DESC
"""
_SUM_TOKENS = """
    SELECT provider, day >= ?1 AS today, day >= ?2 AS month, sum(prompt), sum(completion) FROM (
        SELECT key, provider, substr(at, 1, 10) AS day, prompt_tokens AS prompt, completion_tokens AS completion
            FROM turns JOIN sessions ON sessions.id = session
        UNION ALL SELECT key, provider, day, prompt_tokens, completion_tokens FROM spent
    ) WHERE key = coalesce(?3, key) AND prompt + completion > 0 GROUP BY 1, 2, 3
"""
_EXTRA_TABLES = {"summary": ("upto, at, text", "summaries"), "result": ("id, turn, at, tool, text", "results")}


class ConversationInfo(NamedTuple):
    """A conversation: turns and messages but those taken back, the person's `first` words, the tokens of all of it.

    `begun`, `ended` and `last`, when it was last used, are ISO dates; `ended` is '' for the open one. `agent` is the key of
    the agent that it is held with, '' for the home's own.
    """

    number: int
    key: str
    begun: str
    ended: str
    last: str
    turns: int
    messages: int
    first: str
    tokens: int
    agent: str = ""


class TranscriptRow(NamedTuple):
    """A message of a transcript, with what is known of its turn; calls that cannot be read are shown as one broken."""

    role: MessageRole
    text: str
    calls: tuple[ToolCall, ...]
    at: str
    undone: bool
    turn: int
    call_id: str
    provider: str
    stopped: str


class MessageMatch(NamedTuple):
    """A message that was searched for: its conversation's number and chat, its turn, and the words around it."""

    number: int
    key: str
    turn: int
    at: str
    role: MessageRole
    snippet: str
    undone: bool


class ProviderUsage(NamedTuple):
    """Tokens that a provider took today, in the last 30 days, and ever."""

    provider: str
    today: Usage
    month: Usage
    ever: Usage


def _format_first_words(text: str) -> str:
    return truncate(" ".join(split_context(text)[1].split()), _MAX_FIRST_WORDS_CHARS)


def _decode_calls_leniently(text: str) -> tuple[ToolCall, ...]:
    try:
        return decode_calls(text)
    except (ValueError, TypeError, RecursionError):
        return (ToolCall("", "?", {}, text),)


def search_messages(connection: StoreConnection, words: str, key: str | None, most: int) -> list[MessageMatch]:
    """Find the messages that have all the words, in whatever case, the newest first."""
    wanted = words.casefold().split()
    found: list[MessageMatch] = []
    for row in connection.execute(_SEARCH_MESSAGES, (key, _choose_search_part(wanted))) if wanted else ():
        number, chat, turn, at, role, text, undone = row
        said = split_context(text)[1]
        if all(word in said.casefold() for word in wanted):
            found.append(MessageMatch(number, chat, turn, at, role, _cut_snippet(said, wanted), bool(undone)))
            if len(found) >= most:
                break
    return found


def _choose_search_part(words: Sequence[str]) -> str:
    """Choose what SQLite, which knows no case but that of ASCII, looks for, to leave out most of what is not meant."""
    return max((part for word in words for part in _ASCII_PART.findall(word)), key=len, default="")


def _cut_snippet(text: str, words: Iterable[str]) -> str:
    at = min(max(0, text.casefold().find(word)) for word in words)
    begin, end = max(0, at - _SNIPPET_MARGIN), at + _SNIPPET_MARGIN
    cut = " ".join(text[begin:end].split())
    return f"{'…' * (begin > 0)}{cut}{'…' * (end < len(text))}"


def sum_provider_usage(connection: StoreConnection, now: datetime, key: str | None) -> list[ProviderUsage]:
    """Add up the tokens by provider, for the calendar of `now`; the most used first."""
    found: dict[str, ProviderUsage] = {}
    days = (now.date().isoformat(), (now - _MONTH).date().isoformat())
    for name, today, month, prompt, completion in connection.execute(_SUM_TOKENS, (*days, key)):
        used = Usage(prompt, completion)
        before = found.get(name, ProviderUsage(name, Usage(), Usage(), Usage()))
        found[name] = before._replace(
            today=before.today + used if today else before.today,
            month=before.month + used if month else before.month,
            ever=before.ever + used,
        )
    return sorted(found.values(), key=lambda spent: -spent.ever.total)


# The conversations of the chats in `state.db`: which is open, what was taken back, summarised or erased.
#
# A chat, named by its key, has any number of conversations; the one that did not end is open. Everything here is about
# that one, and one transaction, so that another process which does the same at the same time is either first or second.

_SELECT_UNSUMMARISED = """
    SELECT turns.id, role, text, calls, call_id FROM turns JOIN messages ON turn = turns.id
    WHERE session = ?1 AND NOT undone
    AND turns.id > coalesce((SELECT upto FROM summaries WHERE session = ?1 ORDER BY id DESC LIMIT 1), 0)
    ORDER BY turns.id, messages.id
"""
_SELECT_LAST_VISIBLE = f"SELECT max(turns.id) FROM sessions JOIN turns ON {VISIBLE_TURNS} WHERE key = ? AND ended = ''"  # noqa: S608
_ADD_SPENT_TOKENS = """
    INSERT INTO spent VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens
"""
_SELECT_AGENT = "SELECT agent FROM sessions WHERE key = ? AND ended = ''"
_END_CONVERSATION = """
    UPDATE sessions SET ended = coalesce(?2, (SELECT at FROM turns WHERE session = sessions.id ORDER BY id DESC), begun)
    WHERE key = ?1 AND ended = ''
"""


class Sessions(Table):
    # --- summaries ---

    def summary(self, key: str) -> Summary | None:
        """Return the newest summary of the open conversation."""
        return find_summary(self._database, key)

    def unsummarised(self, key: str) -> list[tuple[int, tuple[Message, ...]]]:
        """Return the numbered turns that no summary holds, also those that a model is not shown any more."""
        with self._database.reading() as connection:
            rows = connection.execute(_SELECT_UNSUMMARISED, (find_open_conversation(connection, key),))
            return list(group_by_turn(rows)[0].items())

    def add_summary(self, key: str, text: str, upto: int, at: datetime, after: int) -> bool:
        """Add the summary that follows the one up to `after`; tells whether what it is of is still so.

        Whoever takes turns back begins with the newest. So nothing was taken back as long as `upto` was not.
        """
        with self._database.transaction() as connection:
            number = find_open_conversation(connection, key)
            sql = "SELECT upto FROM summaries WHERE session = ? ORDER BY id DESC LIMIT 1"
            last = connection.execute(sql, (number,)).get or 0
            sql = "SELECT 1 FROM turns WHERE id = ? AND session = ? AND NOT undone"
            there = connection.execute(sql, (upto, number)).get
            if last != after or not there or upto <= after:
                return False
            insert(connection, "summaries", session=number, upto=upto, at=at.isoformat(timespec="seconds"), text=text)
            return True

    def spend(self, key: str, provider: str, usage: Usage, at: datetime) -> None:
        """Count the tokens of what was asked for a chat and is not kept as a turn."""
        if usage.total:
            row = (at.date().isoformat(), key, provider, usage.prompt_tokens, usage.completion_tokens)
            self._database.write(_ADD_SPENT_TOKENS, *row)

    def flushed(self, key: str) -> int:
        """Return the newest turn when a model last wrote down what must outlast the conversation, 0 for never."""
        sql = "SELECT flushed FROM sessions WHERE key = ? AND ended = ''"
        return int(self._database.select_value(sql, key) or 0)

    def set_flushed(self, key: str, turn: int) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE sessions SET flushed = ? WHERE id = ?", (turn, find_open_conversation(connection, key))
            )

    # --- what a person asks for ---

    def begin_new(self, key: str, at: datetime) -> None:
        """End the open conversation, and keep it; the next turn opens another, with the same agent."""
        with self._database.transaction() as connection:
            agent = connection.execute(_SELECT_AGENT, (key,)).get or ""
            _end_conversation(connection, key, at.isoformat(timespec="seconds"))
            _open_with_agent(connection, key, agent)

    def reopen(self, key: str, number: int) -> bool:
        """Go on with a conversation of the chat instead of the open one; tells whether there is one of that number."""
        with self._database.transaction() as connection:
            sql = "SELECT 1 FROM sessions WHERE id = ? AND key = ?"
            if not (is_valid_row_id(number) and connection.execute(sql, (number, key)).get):
                return False
            if number != find_open_conversation(connection, key):
                _end_conversation(connection, key, None)
                connection.execute("UPDATE sessions SET ended = '' WHERE id = ?", (number,))
            return True

    def undo(self, key: str) -> tuple[Message, ...] | None:
        """Take back the newest turn that a model is shown; returns what of it can be read, None when there is none."""
        with self._database.transaction() as connection:
            last = connection.execute(_SELECT_LAST_VISIBLE, (key,)).get
            if last is None:
                return None
            connection.execute("UPDATE turns SET undone = 1 WHERE id = ?", (last,))
            sql = "SELECT turn, role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id"
            turns, _ = group_by_turn(connection.execute(sql, (last,)))
            return next(iter(turns.values()), ())

    def erase(self, key: str) -> int:
        """Delete all that the open conversation holds, for good; returns how many messages that was.

        What sub-agents of the chat have ended goes too, and what is known of calls, but those that another process makes.
        """
        with self._database.erasure() as connection:
            subagent_tasks.delete_reported_tasks(connection, key)
            rows = connection.execute("SELECT id, process FROM acts WHERE session = ?", (key,)).fetchall()
            over = [(row,) for row, by in rows if str(by) == get_process_identity() or not is_process_alive(str(by))]
            connection.executemany("DELETE FROM acts WHERE id = ?", over)
            number = find_open_conversation(connection, key)  # 0 has nothing
            turns = connection.execute("SELECT id FROM turns WHERE session = ?", (number,)).fetchall()
            for table in ("summaries", "results"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608
            messages = delete_turns(connection, [turn for (turn,) in turns])
            connection.execute("UPDATE sessions SET begun = '', shown_from = 0, flushed = 0 WHERE id = ?", (number,))
            return messages

    def set_aside(self, key: str, who: str, person: str, name: str) -> None:
        """Take from whoever is called `person` next what was theirs: the chat `key`, which is `name` from then on.

        What waits there, what `who` has planned and asked, and what was allowed for good is not done any more.
        """
        with self._database.transaction() as connection:
            for sql in (
                "UPDATE sessions SET key = ?4 WHERE key = ?1",
                "UPDATE sessions SET person = ?4 WHERE person = ?3",
                "UPDATE tasks SET session = ?4 WHERE session = ?1",
                "UPDATE approvals SET session = ?4, expires = 0 WHERE state = 'waiting' AND ?1 IN (session, told)",
                "UPDATE approvals SET expires = 0 WHERE state = 'waiting' AND asked_by = ?2",
                "DELETE FROM jobs WHERE session = ?1 OR who = ?2",
                "DELETE FROM outbox WHERE session = ?1",
                "DELETE FROM inbox WHERE key = ?1 AND done = 0",
                "DELETE FROM always WHERE whose = 'member ' || ?3",
            ):
                count = max(int(one) for one in re.findall(r"\?(\d)", sql))
                connection.execute(sql, (key, who, person, name)[:count])

    def set_model(self, key: str, name: str) -> None:
        with self._database.transaction() as connection:
            number = ensure_open_conversation(connection, key, None)
            connection.execute("UPDATE sessions SET model = ? WHERE id = ?", (name, number))

    def agent(self, key: str) -> str:
        """Return the key of the agent that the open conversation is held with, '' for the home's own."""
        return find_agent(self._database, key)

    def set_agent(self, key: str, agent: str, at: datetime) -> None:
        """Hold the chat's conversation with that agent: the open one ends unless it is, or nothing was said in it."""
        with self._database.transaction() as connection:
            if (connection.execute(_SELECT_AGENT, (key,)).get or "") != agent:
                _end_conversation(connection, key, at.isoformat(timespec="seconds"))
                _open_with_agent(connection, key, agent)

    # --- what there is ---

    def listed(self, key: str | None = None) -> list[ConversationInfo]:
        """List the conversations, or those of a chat, the last used first."""
        rows = self._database.select(_SELECT_CONVERSATIONS, key)
        return [ConversationInfo(*row)._replace(first=_format_first_words(row[7] or "")) for row in rows]

    def transcript(self, number: int) -> Iterator[TranscriptRow]:
        """Give all that was said in a conversation, also what was taken back or is not shown to a model any more."""
        with self._database.reading() as connection:
            for role, text, calls, at, undone, *rest in connection.execute(_SELECT_TRANSCRIPT, (number,)):
                yield TranscriptRow(role, text, _decode_calls_leniently(calls), at, bool(undone), *rest)

    def beside(self, number: int) -> list[tuple[str, dict[str, Any]]]:
        """Give the summaries of a conversation, and the results that were too long to be shown, each as a record."""
        found: list[tuple[str, dict[str, Any]]] = []
        for kind, (columns, table) in _EXTRA_TABLES.items():
            rows = self._database.select(f"SELECT {columns} FROM {table} WHERE session = ? ORDER BY id", number)  # noqa: S608
            found += [(kind, dict(zip(columns.split(", "), row, strict=True))) for row in rows]
        return found

    def search(self, words: str, key: str | None = None, most: int = 20) -> list[MessageMatch]:
        """Find the messages that have all the words, the newest first."""
        with self._database.reading() as connection:
            return search_messages(connection, words, key, most)

    def usage(self, now: datetime, key: str | None = None) -> list[ProviderUsage]:
        """Add up the tokens by provider, also those of turns that were deleted since; the most used first."""
        with self._database.reading() as connection:
            return sum_provider_usage(connection, now, key)

    def prune(self, now: datetime, days: int, mb: float, sure_after: int = REFERENCE_TURNS) -> PruneResult:
        """Delete what is older than `days`, and the oldest of more than `mb` megabytes."""
        return prune_conversations(self._database, now, days, mb, sure_after)


def _open_with_agent(connection: StoreConnection, key: str, agent: str) -> None:
    if agent:
        number = ensure_open_conversation(connection, key, None)
        connection.execute("UPDATE sessions SET agent = ? WHERE id = ?", (agent, number))


def _end_conversation(connection: StoreConnection, key: str, at: str | None) -> None:
    """End the open conversation of a chat; one in which nothing was said yet goes."""
    connection.execute("DELETE FROM sessions WHERE key = ? AND ended = '' AND begun = ''", (key,))
    connection.execute(_END_CONVERSATION, (key, at))
