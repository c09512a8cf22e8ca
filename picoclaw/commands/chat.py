"""What a command is given to answer with, and what it answers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from picoclaw.agent import Agent
from picoclaw.briefing import Briefing
from picoclaw.store.archive import Info
from picoclaw.store.tasks import Tasks
from picoclaw.stores import Stores


class Answer(NamedTuple):
    """What is said to the person. Not `good` when nothing was done; `again` is to be answered as if just said."""

    text: str
    good: bool = True
    again: str = ""


@dataclass(frozen=True)
class Chat:
    """The chat that a command was given in, by its key, and what there is of it.

    `model` is the one that the next turn asks, `usual` the configured one, `now` the owner's wall clock.
    """

    key: str
    stores: Stores
    tasks: Callable[[], Tasks]
    briefing: Callable[[], Briefing]
    agent: Callable[[], Agent]
    now: datetime
    model: str
    usual: str

    def open_one(self) -> Info | None:
        """The conversation that goes on, None when nothing was said in it yet."""
        return next((info for info in self.stores.sessions.listed(self.key) if not info.ended), None)


def told(info: Info) -> str:
    """Describe a conversation in a line."""
    turns = f"{info.turns} turn{'s' * (info.turns != 1)}"
    return f"{info.last[:16].replace('T', ' ')}, {turns}: {info.first or 'all of it was taken back'}"


def short(text: str, most: int = 300) -> str:
    """Put a text into one line that is no longer than so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def number_in(text: str) -> int:
    """Read the number of something that is counted from 1; 0 for what is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else 0
