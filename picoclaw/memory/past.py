"""Past messages of the chats, to be found beside the notes where the owner wants that."""

import re
from collections.abc import Iterator
from functools import partial

from picoclaw.memory.recollection import Document
from picoclaw.store.history import History

_HEAD = re.compile(r"<moment>.*?</moment>\n?", re.DOTALL)
_WHO = {"user": "User", "assistant": "Answer"}


def documents(history: History) -> Iterator[Document]:
    """Give each kept turn: a path such as `chats/terminal/12`, and what was said in it. A turn never changes."""
    for number, session, day in history.kept():
        yield Document(f"chats/{session}/{number}", number, partial(_said, history, number), day)


def _said(history: History, number: int) -> str:
    said = ((message.role, _HEAD.sub("", message.text, count=1)) for message in history.turn(number))
    return "\n".join(f"{_WHO[role]}: {text}" for role, text in said if role in _WHO and text)
