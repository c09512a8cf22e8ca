"""What there is of the conversations in `state.db`, for people: lists, transcripts, words found, tokens used."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

import apsw

from picoclaw.messages import Role, ToolCall, Usage
from picoclaw.store.history import calls_of

_HEAD = re.compile(r"\A<moment>.*?</moment>\n?", re.DOTALL)
_ASCII = re.compile(r"(?:(?!ss)[a-z0-9])+")  # where ss is asked for, ß may be written
_FIRST_CHARS, _AROUND_CHARS = 80, 70
_MONTH = timedelta(days=30)

_LISTED = """
    SELECT id, key, begun, ended,
        (SELECT at FROM turns WHERE session = sessions.id ORDER BY id DESC LIMIT 1),
        (SELECT count(*) FROM turns WHERE session = sessions.id AND NOT undone),
        (SELECT count(*) FROM turns JOIN messages ON turn = turns.id WHERE session = sessions.id AND NOT undone),
        (SELECT text FROM messages WHERE role = 'user' AND turn = (
            SELECT id FROM turns WHERE session = sessions.id AND NOT undone ORDER BY id LIMIT 1
        ) ORDER BY id LIMIT 1),
        (SELECT sum(prompt_tokens + completion_tokens) FROM turns WHERE session = sessions.id)
    FROM sessions WHERE key = coalesce(?, key) AND EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)
    ORDER BY (SELECT max(id) FROM turns WHERE session = sessions.id) DESC
"""
_TRANSCRIPT = """
    SELECT role, text, calls, at, undone, turn, call_id, provider, stopped FROM turns JOIN messages ON turn = turns.id
    WHERE session = ? ORDER BY turns.id, messages.id
"""
_FOUND = """
    SELECT session, key, turn, at, role, text, undone FROM messages CROSS JOIN turns ON turns.id = turn
    CROSS JOIN sessions ON sessions.id = session
    WHERE key = coalesce(?1, key) AND instr(lower(text), ?2) ORDER BY messages.id DESC
"""
_USED = """
    SELECT provider, day >= ?1 AS today, day >= ?2 AS month, sum(prompt), sum(completion) FROM (
        SELECT key, provider, substr(at, 1, 10) AS day, prompt_tokens AS prompt, completion_tokens AS completion
            FROM turns JOIN sessions ON sessions.id = session
        UNION ALL SELECT key, provider, day, prompt_tokens, completion_tokens FROM spent
    ) WHERE key = coalesce(?3, key) AND prompt + completion > 0 GROUP BY 1, 2, 3
"""
_BESIDE = {"summary": ("upto, at, text", "summaries"), "result": ("id, turn, at, tool, text", "results")}


class Info(NamedTuple):
    """A conversation: turns and messages but those taken back, the person's `first` words, the tokens of all of it.

    `begun`, `ended` and `last`, when it was last used, are ISO dates; `ended` is '' for the open one.
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


class Row(NamedTuple):
    """A message of a transcript, with what is known of its turn; calls that cannot be read are shown as one broken."""

    role: Role
    text: str
    calls: tuple[ToolCall, ...]
    at: str
    undone: bool
    turn: int
    call_id: str
    provider: str
    stopped: str


class Hit(NamedTuple):
    """A message that was searched for: its conversation's number and chat, its turn, and the words around it."""

    number: int
    key: str
    turn: int
    at: str
    role: Role
    snippet: str
    undone: bool


class Spent(NamedTuple):
    """Tokens that a provider took today, in the last 30 days, and ever."""

    provider: str
    today: Usage
    month: Usage
    ever: Usage


def spoken(text: str) -> str:
    """Return what the person said, without the head of the moment that a model is told with it."""
    return _HEAD.sub("", text, count=1)


def listed(connection: apsw.Connection, key: str | None) -> list[Info]:
    """List the conversations, or those of a chat, the last used first."""
    return [_info(*row) for row in connection.execute(_LISTED, (key,))]


def _info(*row: object) -> Info:
    number, key, begun, ended, last, turns, messages, first, tokens = row
    words = " ".join(spoken(str(first or "")).split())
    short = words if len(words) <= _FIRST_CHARS else f"{words[: _FIRST_CHARS - 1]}…"
    dates = str(begun), str(ended), str(last)
    counts = int(str(turns)), int(str(messages))
    return Info(int(str(number)), str(key), *dates, *counts, short, int(str(tokens)))


def transcript(connection: apsw.Connection, number: int) -> Iterator[Row]:
    """Give all that was said in a conversation, in its order."""
    for role, text, calls, at, undone, turn, call_id, provider, stopped in connection.execute(_TRANSCRIPT, (number,)):
        said = cast("Role", role), str(text), _calls(str(calls)), str(at), bool(undone)
        yield Row(*said, int(str(turn)), str(call_id), str(provider), str(stopped))


def beside(connection: apsw.Connection, number: int) -> list[tuple[str, dict[str, Any]]]:
    """Give the summaries and the whole results of a conversation, each with its kind."""
    found: list[tuple[str, dict[str, Any]]] = []
    for kind, (columns, table) in _BESIDE.items():
        rows = connection.execute(f"SELECT {columns} FROM {table} WHERE session = ? ORDER BY id", (number,))  # noqa: S608
        found += [(kind, dict(zip(columns.split(", "), row, strict=True))) for row in rows]
    return found


def _calls(text: str) -> tuple[ToolCall, ...]:
    try:
        return calls_of(text)
    except (ValueError, TypeError, RecursionError):
        return (ToolCall("", "?", {}, text),)


def search(connection: apsw.Connection, words: str, key: str | None, most: int) -> list[Hit]:
    """Find the messages that have all the words, in whatever case, the newest first."""
    wanted = words.casefold().split()
    found: list[Hit] = []
    for row in connection.execute(_FOUND, (key, _part(wanted))) if wanted else ():
        number, chat, turn, at, role, text, undone = map(str, row)
        said = spoken(text)
        if all(word in said.casefold() for word in wanted):
            around = _snippet(said, wanted)
            found.append(Hit(int(number), chat, int(turn), at, cast("Role", role), around, undone != "0"))
            if len(found) >= most:
                break
    return found


def _part(words: Sequence[str]) -> str:
    """Choose what SQLite, which knows no case but that of ASCII, looks for, to leave out most of what is not meant."""
    return max((part for word in words for part in _ASCII.findall(word)), key=len, default="")


def _snippet(text: str, words: Iterable[str]) -> str:
    at = min(max(0, text.casefold().find(word)) for word in words)
    begin, end = max(0, at - _AROUND_CHARS), at + _AROUND_CHARS
    cut = " ".join(text[begin:end].split())
    return f"{'…' * (begin > 0)}{cut}{'…' * (end < len(text))}"


def usage(connection: apsw.Connection, now: datetime, key: str | None) -> list[Spent]:
    """Add up the tokens by provider, for the calendar of `now`; the most used first."""
    found: dict[str, Spent] = {}
    days = (now.date().isoformat(), (now - _MONTH).date().isoformat())
    for name, today, month, prompt, completion in connection.execute(_USED, (*days, key)):
        used = Usage(int(str(prompt)), int(str(completion)))
        before = found.get(str(name), Spent(str(name), Usage(), Usage(), Usage()))
        found[before.provider] = before._replace(
            today=before.today + used if today else before.today,
            month=before.month + used if month else before.month,
            ever=before.ever + used,
        )
    return sorted(found.values(), key=lambda spent: -spent.ever.total)
