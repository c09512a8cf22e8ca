"""What a command is given to answer with, and what it answers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from picoclaw.agent import Agent
from picoclaw.briefing import Briefing
from picoclaw.messages import Origin, Stop
from picoclaw.providers.chain import Link
from picoclaw.store.approvals import Approval
from picoclaw.store.archive import Info
from picoclaw.store.tasks import Tasks
from picoclaw.stores import Stores
from picoclaw.tools.approving import Approving


class Answer(NamedTuple):
    """What is said to the person.

    Not `good` when nothing was done; `again` is to be answered as if just said, `foreign` names what of that may be
    nobody's word, and `made` is a call that has waited and was made now, which the conversation goes on with.
    """

    text: str
    good: bool = True
    again: str = ""
    made: Approval | None = None
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chat:
    """The chat that a command was given in, by its key, and what there is of it.

    `model` is the one that the next turn asks, `usual` the configured one, `now` the owner's wall clock. `who` gives
    the command, `origin` is what they are, and `stop` ends what it does. `links` are the configured models.
    """

    key: str
    stores: Stores
    tasks: Callable[[], Tasks]
    briefing: Callable[[], Briefing]
    agent: Callable[[], Agent]
    now: datetime
    model: str
    usual: str
    approving: Approving
    who: str
    origin: Origin
    stop: Stop | None
    links: Callable[[], Sequence[Link]] = tuple

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
