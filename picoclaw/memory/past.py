"""Past messages of the chats, to be found beside the notes where the owner wants that."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from picoclaw.memory.notes.changes import place_of
from picoclaw.memory.notes.entries import FOREIGN, plain, written
from picoclaw.memory.recollection import Document, Recollection
from picoclaw.memory.search.search import terms
from picoclaw.memory.search.snippet import words_in
from picoclaw.messages import Message, ToolCall
from picoclaw.store.history import History

BRING = frozenset({"read_file", "read_result", "exec", "serial", "subagent", "spawn_status"})
"""The tools that are marked `brings`, also those that this set-up does not have any more."""

_HEAD = re.compile(r"<moment>.*?</moment>\n?", re.DOTALL)
_PIECE = re.compile(r"\S.{0,499}(?!\S)|\S{1,500}")  # with its mark, an entry of a note is not longer
_LONGEST_NAME, _MOST_NAMED, _MOST_LOOKED_AT = 60, 2, 24


def documents(history: History) -> Iterator[Document]:
    """Give each kept turn: a path such as `chats/terminal/12`, and what was said in it. A turn never changes."""
    for number, session, day in history.kept():
        yield Document(f"chats/{session}/{number}", number, partial(_said, history, number), day)


def holding(memory: Recollection, text: str, now: datetime) -> list[str]:
    """Name the past turns that have all the words of a text, the nearest first. Raises StoreError."""
    words = terms(text)
    hits = memory.search(text, now, _MOST_LOOKED_AT, 0.0) if words else []
    told = [hit for hit in hits if not place_of(hit.path)]
    return [hit.path for hit in told if len(words_in(memory.row(hit.id).text, words)) == len(words)]


def _said(history: History, number: int) -> str:
    """What a turn adds to what is remembered: no question to the memory, and not what the memory answered."""
    turn = history.turn(number)
    calls = [call for message in turn for call in message.calls]
    names = {call.name for call in calls}
    asked = [text for text in (_HEAD.sub("", m.text, count=1) for m in turn if m.role == "user") if text]
    if "memory_forget" in names:
        return ""
    if "memory_search" in names:
        asked = [text for text in asked if not _only_asks(text)]
    told = [] if any(name.startswith("memory_") for name in names) else _answers(turn, calls)
    return "\n".join([*(f"User: {text}" for text in asked), *told])


def _only_asks(text: str) -> bool:
    return text.rstrip().endswith("?") and not re.search(r"[.!]\s|\n", text.strip())


def _answers(turn: Sequence[Message], calls: Sequence[ToolCall]) -> Iterator[str]:
    """The assistant's words; after what nobody in the chat has said, marked piece by piece as such notes are."""
    heard = [" ".join([call.name, *map(str, call.arguments.values())]) for call in calls if call.name in BRING]
    named = [name[:_LONGEST_NAME] for name in dict.fromkeys(heard)]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    source = f"{FOREIGN}: after {', '.join(named[:_MOST_NAMED])}{more}"
    for text in (message.text for message in turn if message.role == "assistant" and message.text):
        if not heard:
            yield f"Answer: {text}"
        else:
            yield from (written("- ", "", source, piece) for piece in _PIECE.findall(plain(text)))
