"""What is done with a conversation between two turns, so that the next one fits: what must outlast it is noted, and its
older part is summarised.

Nothing that was said is deleted or changed: a summary stands beside the turns that it is of, and whatever fails leaves
all as it was, to be tried again after the next turn, and then ever more rarely.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from picoclaw.agent import Agent
from picoclaw.briefing import Briefing
from picoclaw.compaction.due import Held, Load, Rest, may_be_long, near_the_limit, why
from picoclaw.compaction.flush import Flush, owners_turns, told
from picoclaw.compaction.summarise import Summariser
from picoclaw.config import Config
from picoclaw.errors import PicoclawError, ProviderError, StoreError, TurnStopped
from picoclaw.measure import request_bytes
from picoclaw.memory.dream.direct import Model
from picoclaw.messages import Purpose, Stop
from picoclaw.prompt import Templates, estimated_tokens, size
from picoclaw.store.marks import Marks
from picoclaw.stores import Stores

_RESTS = "summary failed: "


@dataclass
class Compaction:
    """The compaction of one home's conversations. `agent` and `briefing` are made when one has grown long.

    The agent's provider is the model alone: no matcher is to sum up.
    """

    config: Config
    prompts: Templates
    stores: Stores
    agent: Callable[[], Agent]
    briefing: Callable[[], Briefing]
    now: Callable[[], datetime]
    _said: set[str] = field(default_factory=set, init=False)

    def settle(self, session: str, stop: Stop | None = None) -> list[str]:
        """Note and sum up what is due in a chat; returns what went wrong and was not said before, for the owner.

        Whoever ends it, by `stop` or Ctrl-C, finds the conversation as it was.
        """
        try:
            self._settle(session, stop)
        except (TurnStopped, KeyboardInterrupt):
            return []
        except PicoclawError as error:
            problem = f"what was said earlier could not be summed up: {' '.join(str(error).split())}"
            if problem not in self._said:
                self._said.add(problem)
                return [problem]
        return []

    def _settle(self, session: str, stop: Stop | None) -> None:
        held, settings, window = self._held(session), self.config.sessions, self.config.model.context_tokens
        model = self.stores.sessions.model(session) or self.config.model.name
        ratio = self.stores.bytes_a_token(model or "default")
        said = (message for turn in held.visible for message in turn)
        load = Load(estimated_tokens(request_bytes("", said, ()), ratio), 0, window)
        flush = None
        if held.left_out or may_be_long(load):
            flush = self._flush(session, held, ratio)
            load = load._replace(fixed=estimated_tokens(flush.fixed_bytes + size(held.summary), ratio))
        reason = why(held, load, settings.summarise_messages, settings.summarise_share)
        if reason and not self._rest(session).over(held):
            return
        if flush and (reason == "window" or near_the_limit(load)) and not self._flushed(flush, held, stop):
            return
        if reason:
            self._sum_up(session, held, stop)

    def _rest(self, session: str) -> Rest:
        """What was noted of this chat's last failure; kept with the home, because each `chat -m` is a new process."""
        numbers = Marks(self.stores.database).get(_RESTS + session).split()
        return Rest(*map(int, numbers)) if numbers else Rest()

    def _note_failure(self, session: str, held: Held) -> None:
        rest = self._rest(session).after(held)
        Marks(self.stores.database).set(_RESTS + session, " ".join(map(str, rest)))

    def _held(self, session: str) -> Held:
        sessions = self.stores.sessions
        before, turns = sessions.summary(session), sessions.unsummarised(session)
        shown = min(len(turns), len(self.stores.history.turns(session)))
        return Held(turns, shown, before.text, before.upto) if before else Held(turns, shown)

    def _flush(self, session: str, held: Held, ratio: float) -> Flush:
        now, history = self.now(), self.stores.history
        turns = owners_turns((messages, history.heard_by(number)) for number, messages in held.numbered)
        found = told(self.briefing(), session, self.prompts["flush"], turns, now)
        asked = found.brief
        summary = "" if self.stores.taint(session, "owner") else held.summary
        asked = asked._replace(
            model=asked.model or self.stores.sessions.model(session), bytes_a_token=ratio, summary=summary
        )
        return Flush(self.agent(), asked, turns, session, now, found.heard)

    def _flushed(self, flush: Flush, held: Held, stop: Stop | None) -> bool:
        """Have it done once between two summaries, however it ends; False when somebody has stopped it."""
        sessions = self.stores.sessions
        if sessions.flushed(flush.session):
            return True
        sessions.set_flushed(flush.session, held.turns[-1][0])
        if flush.heard or not flush.turns:
            return True  # what is noted then needs a yes, and nobody is asked for it here
        turn = flush.run(stop)
        sessions.spend(flush.session, turn.provider, turn.usage, flush.now)
        if turn.stopped == "stopped":
            sessions.set_flushed(flush.session, 0)
            return False
        if not stop:  # else a turn has begun, whose acts these may be; they are settled with it
            self.stores.settle(flush.session)
        return True

    def _sum_up(self, session: str, held: Held, stop: Stop | None) -> None:
        """Keep a summary, unless what it is of was taken back, erased or summed up by another meanwhile."""
        sessions, older = self.stores.sessions, held.older
        window, purpose = self.config.model.context_tokens, Purpose("summary", session)
        model = Model(self.agent().provider, window, time.monotonic, stop, purpose)
        summariser = Summariser(self.prompts, model)
        try:
            summed = summariser.summed(held.summary, [said for _, said in older])
        except ProviderError:
            with suppress(StoreError):  # why it failed is worth more
                self._note_failure(session, held)
            raise
        finally:
            sessions.spend(session, model.provider.name, summariser.usage, self.now())
        upto = older[summed.turns - 1][0]
        if sessions.add_summary(session, summed.text, upto, self.now(), held.upto) and sessions.flushed(session):
            sessions.set_flushed(session, 0)
