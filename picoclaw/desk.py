"""The desk: everything that comes in is answered here, a chat line, a command, a due job, a heartbeat, one by one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from picoclaw.agent import Agent
from picoclaw.around import ALONE, Around
from picoclaw.briefing import Briefing
from picoclaw.errors import StoreError
from picoclaw.heartbeat.check import OK, is_check
from picoclaw.messages import Caller, Inbound, Message, Notice, Origin, Turn, Usage
from picoclaw.store.tasks import Tasks
from picoclaw.stores import Stores

BY_COMMAND = "command"
"""Who has answered, in a turn that was a command's."""


@dataclass
class Desk:
    """Answers one message at a time, and keeps what was said.

    `agent` gives the loop for an origin, `stop` brings the outputs to safety when a text orders that, `now` is the
    wall clock in the owner's zone, `model` the name of the configured model, and `tasks` those of helpers.
    """

    stores: Stores
    briefing: Callable[[], Briefing]
    agent: Callable[[Origin], Agent]
    stop: Callable[[str, str], tuple[bool, str] | None]
    now: Callable[[], datetime]
    model: str
    tasks: Callable[[], Tasks]
    _complaints: set[str] = field(default_factory=set)

    def answer(self, inbound: Inbound, around: Around = ALONE) -> Turn:
        """Answer one message and keep the turn; what is returned is durable, or its notice says that it is not."""
        well = (True, OK) if inbound.origin == "owner" and is_check(inbound.text) else None
        if said := self.stop(inbound.text, inbound.origin) or well:
            return _said(inbound, *said, by="stop")
        if inbound.origin == "owner" and inbound.text.lstrip().startswith("/"):
            return self._commanded(inbound, around)
        return self._turn(inbound, around)

    def _commanded(self, inbound: Inbound, around: Around) -> Turn:
        """Do a command, which is no part of the conversation; a text that is none after all is answered."""
        from picoclaw import commands
        from picoclaw.commands.chat import Chat

        if (given := commands.understood(clean(inbound.text))) is None:
            return self._turn(inbound, around)
        key, usual = clean(inbound.session), self.model
        model = self._chosen(key) or usual
        chat = Chat(key, self.stores, self.tasks, self.briefing, lambda: self.agent("owner"), self.now(), model, usual)
        answer = commands.answer(given, chat)
        if answer.again:
            turn = self._turn(inbound._replace(text=answer.again), around)
            return _noted(turn, answer.text)
        return _said(inbound, answer.good, answer.text, by=BY_COMMAND)

    def _chosen(self, session: str) -> str:
        """The model that a conversation is to be held with, '' for the configured one."""
        try:
            return self.stores.sessions.model(session) if self.stores.config.model.base_url else ""
        except StoreError:
            return ""

    def _turn(self, inbound: Inbound, around: Around) -> Turn:
        now = self.now()
        earlier, acts, summary, numbers = self.stores.earlier(inbound.session)
        if inbound.origin == "heartbeat":
            earlier, summary = [], ""
        words = (message.text for turn in earlier for message in turn if message.role == "user")
        said, home = (*words, inbound.text), inbound.reply_to
        told = self.briefing().told(inbound._replace(text=clean(inbound.text)), earlier, [act for _, act in acts], now)
        may = told.brief.only
        heard = set(told.heard)
        caller = Caller(inbound.session, inbound.origin, now, around.say, heard, said=said, reply_to=home, may=may)
        other = told.brief.model or self._chosen(inbound.session)
        model = other or self.model
        brief = told.brief._replace(model=other, bytes_a_token=self.stores.bytes_a_token(model), summary=summary)
        turn = self.agent(inbound.origin).turn(brief, earlier, caller, around)
        with around.shield():
            if turn.usage.total:  # the matcher counts nothing
                self.stores.heard()
            try:
                upto = numbers[turn.forgotten - 1] if turn.forgotten else 0
                shown = [act for act, _ in acts]
                doubt = self.stores.history.keep(inbound.session, turn, now, shown, model, upto, inbound.inbox)
            except StoreError as error:
                turn = _noted(turn, f"this turn could not be kept: {error}", failed=True)
            else:
                turn = _noted(turn, _shown_short(turn), *self._news([doubt, *told.problems]))
            self.stores.answered(inbound)
        for _, act in acts:
            turn = _noted(turn, f"a call of an earlier turn was cut off, its outcome is unknown: {act}")
        return turn

    def _news(self, notes: Iterable[str]) -> list[str]:
        """What has not been said by this process; a chat that repeats a complaint every turn is no help."""
        news = [note for note in dict.fromkeys(notes) if note and note not in self._complaints]
        self._complaints.update(news)
        return news


def _said(inbound: Inbound, good: bool, said: str, *, by: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", inbound.text), Message("assistant", said))
    notice = Notice("" if good else said, failed=not good)
    return Turn(said, messages, 0, (), Usage(), "" if good else "error", by, notice)


def _shown_short(turn: Turn) -> str:
    most = turn.longest_said
    return (
        f"too long for the model's window: it was shown {most} characters of that, without the middle" if most else ""
    )


def _noted(turn: Turn, *texts: str, failed: bool = False) -> Turn:
    before = turn.notice
    return turn._replace(notice=Notice("; ".join(filter(None, [before.text, *texts])), before.failed or failed))


def clean(text: str) -> str:
    """Replace lone surrogates, which undecodable input leaves behind and no database or server takes."""
    return text.encode("utf-8", "replace").decode()
