"""Cuts a text with entities into messages that Telegram takes: 4,096 UTF-16 units each, broken where a reader would."""

import unicodedata
from typing import Any

from picoclaw.channels.telegram.markup import Entity, Rich

MESSAGE = 4096
"""UTF-16 units of one message at most."""

_ENTITIES = 100
_BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "; ", ", ", " ")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f", "\u20e3"}


def units(text: str) -> int:
    """Count as Telegram does: a character beyond U+FFFF is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def split(whole: Rich, most: int = MESSAGE) -> list[Rich]:
    """Cut a text into messages in their order; no word is lost, and what is bold or code goes on being so."""
    parts, start, text = [], 0, whole.text
    while start < len(text):
        end = _end(text, start, most)
        shown = text[start:end].rstrip()
        if shown:
            parts.append(_part(whole, start, start + len(shown)))
        start = end
        while start < len(text) and text[start] == "\n":
            start += 1
    return parts


def wire(entities: tuple[Entity, ...], text: str) -> list[dict[str, Any]]:
    """Give entities as the Bot API takes them."""
    return [
        {"type": e.kind, "offset": units(text[: e.start]), "length": units(text[e.start : e.end])}
        | ({"url": e.more} if e.kind == "text_link" else {"language": e.more} if e.more else {})
        for e in entities[:_ENTITIES]
    ]


def _end(text: str, start: int, most: int) -> int:
    """Find where the message that begins at `start` ends."""
    end, room = start, most
    while end < len(text) and room > (text[end] > "\uffff"):
        room -= 1 + (text[end] > "\uffff")
        end += 1
    if end == len(text):
        return end
    lowest = start + (end - start) // 2
    for mark in _BREAKS:
        found = text.rfind(mark, lowest, end)
        if found >= 0:
            return found + len(mark)
    cut = end
    while cut > max(start + 1, end - 32) and _joined(text, cut):
        cut -= 1
    return end if _joined(text, cut) else cut


def _joined(text: str, at: int) -> bool:
    """Whether a character belongs to the one before it: an accent, or a part of an emoji."""
    char = text[at]
    return bool(
        unicodedata.combining(char)
        or char in _JOINERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or text[at - 1] == "\u200d"
    )


def _part(whole: Rich, start: int, end: int) -> Rich:
    within = [
        e._replace(start=max(e.start, start) - start, end=min(e.end, end) - start)
        for e in whole.entities
        if e.start < end and e.end > start
    ]
    return Rich(whole.text[start:end], tuple(e for e in within if e.end > e.start))
