"""Past messages of the chats, to be found beside the notes where the owner wants that."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

from picoclaw.memory.entries import FOREIGN, flatten, format_memory_entry
from picoclaw.memory.files import Document
from picoclaw.memory.memory import MemoryIndex
from picoclaw.memory.notes import parse_entry_place
from picoclaw.memory.search import extract_terms, find_words
from picoclaw.security.untrusted import GUEST_PREFIX, find_taints
from picoclaw.store.conversations import History

_CONTEXT_HEADER = re.compile(r"<moment>.*?</moment>\n?", re.DOTALL)
_PIECE = re.compile(r"\S.{0,499}(?!\S)|\S{1,500}")  # with its mark, an entry of a note is not longer
_MAX_NAME_CHARS, _MAX_NAMES, _MAX_HITS = 60, 2, 24


def list_past_turns(history: History) -> Iterator[Document]:
    """Give each kept turn: a path such as `chats/terminal/12`, and what was said in it. A turn never changes."""
    for number, session, day in history.kept():
        yield Document(f"chats/{session}/{number}", number, partial(_extract_turn_text, history, number), day)


def find_past_turns(memory: MemoryIndex, text: str, now: datetime) -> list[str]:
    """Name the past turns that have all the words of a text, the nearest first. Raises StoreError."""
    words = extract_terms(text)
    hits = memory.search(text, now, _MAX_HITS, 0.0) if words else []
    told = [hit for hit in hits if not parse_entry_place(hit.path)]
    return [hit.path for hit in told if len(find_words(memory.row(hit.id).text, words)) == len(words)]


def _extract_turn_text(history: History, number: int) -> str:
    """What a turn adds to what is remembered: no question to the memory, and not what the memory answered."""
    turn = history.turn(number)
    calls = [call for message in turn for call in message.calls]
    names = {call.name for call in calls}
    asked = [text for text in (_CONTEXT_HEADER.sub("", m.text, count=1) for m in turn if m.role == "user") if text]
    if "memory_forget" in names:
        return ""
    if "memory_search" in names:
        asked = [text for text in asked if not _is_only_question(text)]
    heard = history.heard_by(number) or list(find_taints(turn))
    theirs = [name for name in heard if name.startswith(GUEST_PREFIX)]  # a guest's words are not the owner's
    answers = [message.text for message in turn if message.role == "assistant" and message.text]
    told = [] if any(name.startswith("memory_") for name in names) else _mark_texts("Answer", answers, heard)
    return "\n".join([*_mark_texts("User", asked, theirs), *told])


def _is_only_question(text: str) -> bool:
    return text.rstrip().endswith("?") and not re.search(r"[.!]\s|\n", text.strip())


def _mark_texts(who: str, texts: Iterable[str], heard: Sequence[str]) -> Iterator[str]:
    """What somebody has said; after what nobody in the chat has said, marked piece by piece as such notes are."""
    named = [name[:_MAX_NAME_CHARS] for name in dict.fromkeys(heard)]
    more = f" and {len(named) - _MAX_NAMES} more" if len(named) > _MAX_NAMES else ""
    source = f"{FOREIGN}: after {', '.join(named[:_MAX_NAMES])}{more}"
    for text in texts:
        if not heard:
            yield f"{who}: {text}"
        else:
            yield from (format_memory_entry("- ", "", source, piece) for piece in _PIECE.findall(flatten(text)))
