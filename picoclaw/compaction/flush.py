"""The turn before a summary, in which a model may write down what must outlast the conversation.

It is asked as in the chat, with the same words and tools before it, so that a server knows most of the request already.
It may call few of them, and nothing of the turn is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from picoclaw.agent import Agent
from picoclaw.around import Around
from picoclaw.briefing import Briefing, Told
from picoclaw.conversation import Conversation
from picoclaw.measure import request_bytes
from picoclaw.messages import Brief, Caller, End, Event, Inbound, Message, Request, Stop, Turn, Usage
from picoclaw.providers import Provider
from picoclaw.store.archive import spoken
from picoclaw.untrusted import OTHERS, own

MAY = frozenset(
    {
        "memory_store",
        "memory_search",
        "memory_get",
        "memory_update",
        "read_file",
        "write_file",
        "edit_file",
        "append_file",
        "list_dir",
    }
)
STEPS, SECONDS = 5, 90.0
_LEFT_OUT = "[…]"


@dataclass(frozen=True, slots=True)
class Flush:
    """One such turn of the chat `session`, after the `turns` that it shows; `now` is the wall clock.

    `heard` names what it is told that is nobody's word.
    """

    agent: Agent
    brief: Brief
    turns: Sequence[tuple[Message, ...]]
    session: str
    now: datetime
    heard: tuple[str, ...] = ()

    @property
    def fixed_bytes(self) -> int:
        """What a request of this chat has beside the conversation."""
        tools = self.agent.tools(Conversation(list(self.turns)), self.brief)
        return request_bytes(self.brief.system, (), tools)

    def run(self, stop: Stop | None) -> Turn:
        """Have the turn; how it ended is in the result, and whatever it says is for nobody."""
        limits = replace(self.agent.limits, steps=STEPS, seconds=SECONDS, tokens=STEPS * self.agent.window)
        agent = replace(self.agent, provider=_Wordless(self.agent.provider), limits=limits)
        may = MAY & agent.toolset.names
        caller = Caller(self.session, "owner", self.now, _nobody, set(self.heard), may=may, cause="summary")
        return agent.turn(self.brief, self.turns, caller, Around(stop=stop))


class _Wordless:
    """A provider that is not asked for the last word of a turn at its limit: nobody would hear it."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name

    def events(self, request: Request) -> Iterator[Event]:
        if request.calls:
            yield from self._provider.events(request)
        else:
            yield End("stop", Usage())

    def close(self) -> None:
        self._provider.close()


def owners_turns(turns: Iterable[tuple[Sequence[Message], Sequence[str]]]) -> list[tuple[Message, ...]]:
    """Leave in turns what may be noted without asking the owner: of those that have read what is nobody's word, theirs.

    Each turn comes with what it has read. After a guest has spoken it is not known who said what, so the rest is left
    out.
    """
    found: list[tuple[Message, ...]] = []
    for messages, heard in turns:
        if any(name.startswith(OTHERS) for name in heard):
            break
        if heard:
            said = "\n".join(own(spoken(message.text)) for message in messages if message.role == "user").strip()
            found.append((Message("user", said or _LEFT_OUT), Message("assistant", _LEFT_OUT)))
        else:
            found.append(tuple(messages))
    return found


def told(briefing: Briefing, session: str, template: str, turns: Sequence[tuple[Message, ...]], now: datetime) -> Told:
    """Make the brief of such a turn, without what is not the owner's; nothing is taken for told by it."""
    inbound = Inbound(session, template)
    return replace(briefing, tidy=False, foreign=False).told(inbound, turns, (), now)


def _nobody(_text: str) -> None:
    """Nobody is told anything."""
