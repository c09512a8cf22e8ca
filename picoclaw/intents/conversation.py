"""What a conversation was about: what "it", "the second one", "and yesterday?" and a bare answer go back to."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL
from picoclaw.intents.changes import MOMENT
from picoclaw.intents.sentence import LastTurn, Referents, fold_name
from picoclaw.messages import ERROR_PREFIX, Message, ToolCall
from picoclaw.prompts import remove_hints
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import WEEKDAYS

_MAX_AGE_S = 900
"""How long "it" can still mean what was spoken of; behind this, it has to be named."""
_SPACES = pattern(r"[^\S\n]{2,}")
_CONTROL_CHARS = {**dict.fromkeys([*range(32), 127], " "), 9: "\t", 10: "\n"}
_PAUSE = pattern(r" \((?:paused|without) [^()]*\)")
_DATELESS = pattern(r"(?<=next )\d\d:\d\d|^\d+: \d\d:\d\d")
_EVENING = "17:00"

_NAMED_WHEN_SHOWN = frozenset({"rule"})
"""Tools whose call has named what it makes before the yes that it waits for."""

LOOK_UP = {"action": "list"}
"""The arguments of a call that lists what there is, or finds the number there of what a wish names."""

_TOKEN = pattern(r"\d\d?:\d\d|\d+(?:\.\d+)?|[^\W\d_]+")
_NEAR = 0.6
"""The share of the best one's likeness that another one of a list needs to be meant as well."""


Calls = list[tuple[ToolCall, str]]
"""Calls, each with its result."""


class Talk(NamedTuple):
    """A message of a user's, the last of the `messages`, with the `turns` shortly before it and what they were about."""

    messages: Sequence[Message]
    turns: Sequence[Sequence[Message]]
    offered: Collection[Any]
    last: LastTurn

    @property
    def text(self) -> str:
        return clean_text(self.messages[-1].text)

    @property
    def asked(self) -> str:
        """What the user said before it."""
        return clean_text(self.turns[-1][0].text)

    @property
    def reply(self) -> str:
        """What that was answered with."""
        return self.turns[-1][-1].text

    @property
    def calls(self) -> Calls:
        """The calls of the last turn that had a result."""
        return [pair for turn in self.turns[-1:] for pair in list_calls(turn)]

    @property
    def called(self) -> set[str]:
        """The tools that it has called."""
        return {call.name for turn in self.turns[-1:] for message in turn for call in message.calls}

    @property
    def until_asked(self) -> Sequence[Message]:
        """The messages up to what the user said before it."""
        return self.messages[: len(self.messages) - len(self.turns[-1])]


def clean_text(text: str) -> str:
    """A user's words without the heads before them, without characters that no word has, and with single spaces between them."""
    said = text.rpartition("</moment>")[2].encode("utf-8", "replace").decode().translate(_CONTROL_CHARS)
    return _SPACES.sub(" ", said).strip()


def count_up_to_user(messages: Sequence[Message]) -> int:
    """The number of messages up to the last one of a user's; 0 for none."""
    return next((count for count in range(len(messages), 0, -1) if messages[count - 1].role == "user"), 0)


def list_user_texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "user"]


def list_calls(turn: Sequence[Message]) -> Calls:
    """The calls of a turn that had a result, with it; no list that was only looked up for another call."""
    results = {message.call_id: remove_hints(message.text) for message in turn if message.role == "tool"}
    last = next((message for message in reversed(turn) if message.calls), None)
    calls = [
        call
        for message in turn
        for call in message.calls
        if call.id in results and (message is last or call.arguments != LOOK_UP)
    ]
    return [(call, results[call.id]) for call in calls]


def find_referents(turn: Sequence[Message], gives: Mapping[str, Mapping[str, str]]) -> Referents:
    """What the calls of a turn were about; `gives` has, by tool and argument, what finds its values in a result."""
    referents: Referents = {}
    for call, result in list_calls(turn):
        if result.startswith(ERROR_PREFIX) and (
            WAITING_FOR_APPROVAL not in result or call.name not in _NAMED_WHEN_SHOWN
        ):
            continue
        told = result.rpartition(MEANING_PREFIX)[2]
        for name, value in call.arguments.items():
            referents.setdefault(name, []).append(value)
        for name, expression in gives.get(call.name, {}).items():
            found = re.findall(expression, told)
            if found and name not in call.arguments:
                referents.setdefault(name, []).extend(int(one) if one.isdecimal() else one for one in found)
    return {
        name: list(dict.fromkeys(str(one) if isinstance(one, dict | list) else one for one in values))
        for name, values in referents.items()
    }


def is_recent(turn: Sequence[Message], since: Message) -> bool:
    """Whether a turn was a few minutes before a message at most; one without a time counts."""
    return count_seconds_passed(turn, since) <= _MAX_AGE_S


def count_seconds_passed(turn: Sequence[Message], since: Message) -> float:
    """Seconds from a turn to a message, by the minute; 0 where one has no time."""
    before, after = (MOMENT.search(message.text.rpartition("</moment>")[0]) for message in (turn[0], since))
    if not before or not after:
        return 0.0
    return (datetime.fromisoformat(after[0]) - datetime.fromisoformat(before[0])).total_seconds()


def keep_days(rows: str, when: str, today: date) -> str:
    """The jobs of a list that come on a day, "tonight", at the "weekend" or in a week; what repeats as far as its days are told."""
    left = 6 - today.weekday()
    begin, end = {
        "tomorrow": (1, 1),
        "day_after": (2, 2),
        "weekend": (max(0, left - 1), left),
        "week": (0, max(3, left)),
        "next_week": (left + 1, left + 7),
    }.get(when, (0, 0))
    if when in WEEKDAYS:
        begin = end = (WEEKDAYS.index(when) - today.weekday()) % 7
    names = {WEEKDAYS[(today.weekday() + n) % 7] for n in range(begin, end + 1)} | {"day"}
    names |= set() if names <= {"saturday", "sunday", "day"} else {"weekday"}
    kept = []
    for row in rows.splitlines():
        due = _PAUSE.sub("", row)
        said = MOMENT.search(due) or _DATELESS.search(due)
        days = {*row.split()} & {*WEEKDAYS, "weekday", "day"}
        ahead = (date.fromisoformat(said[0][:10]) - today).days if said and "-" in said[0] else 0 if said else -1
        is_late = when != "tonight" or said is None or said[0][-5:] >= _EVENING or ("every" in row and not days)
        if (begin <= ahead <= end and is_late) or (ahead < begin and "every" in row and (not days or days & names)):
            kept.append(row)
    return "\n".join(kept) or "no reminders"


def keep_named(rows: str, name: str) -> str:
    """The rows of a list that name an output; '' for none."""
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return "\n".join(row for row in rows.splitlines() if named.search(row))


def find_likest(words: Sequence[str], rows: Sequence[str]) -> list[int]:
    """Which rows of a list have most of some words, an ending more or less: a word counts less that many rows have."""
    tokens = [split_words(row) for row in rows]
    hits = [[any(is_alike(one, other) for other in row) for row in tokens] for one in {*split_words(" ".join(words))}]
    sums = [sum(1 / sum(hit) for hit in hits if hit[n]) for n in range(len(rows))]
    most = max(sums, default=0.0)
    return [n for n, one in enumerate(sums) if one and one > most * _NEAR]


def split_words(text: str) -> list[str]:
    tokens = _TOKEN.findall(fold_name(text.lower()).replace("_", " "))
    return [word for word in tokens if len(word) > 2 or word.isdecimal()]


def is_alike(one: str, other: str) -> bool:
    """Whether two words are the same but for an ending."""
    short, long = sorted((one, other), key=len)
    stem = short[: max(4, min(len(short), 5))]
    return short == long or (len(short) > 3 and len(long) - len(short) < 4 and long.startswith(stem))
