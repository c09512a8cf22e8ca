"""The desk: everything that comes in is answered here, a chat line, a command, a due job, a heartbeat, one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from picoclaw import claims
from picoclaw.agent.context import AgentApp
from picoclaw.agent.conversation import Pictures, read_pictures
from picoclaw.agent.loop import Agent
from picoclaw.automation.heartbeat import HEARTBEAT_OK, is_check
from picoclaw.errors import StoreError
from picoclaw.messages import NO_HOOKS, Caller, Inbound, Message, Notice, Origin, Turn, TurnHooks, Usage, is_owner
from picoclaw.prompts import fill_template
from picoclaw.security.untrusted import GUEST_PREFIX, remove_untrusted
from picoclaw.store.approvals import Approval
from picoclaw.store.write_behind import UnsavedTurn
from picoclaw.tools.registry import list_texts

_NOT_STORED_NOTICE = "turns are not being kept"
BY_COMMAND = "command"
"""Who has answered, in a turn that was a command's."""


@dataclass
class Dispatcher:
    """Answers one message at a time with the parts of the app, and keeps what was said."""

    app: AgentApp
    _complaints: set[str] = field(default_factory=set)

    def answer(self, inbound: Inbound, around: TurnHooks = NO_HOOKS) -> Turn:
        """Answer one message and keep the turn; what is returned is durable, or its notice says that it is not."""
        if said := self.app.wiring.stop(inbound.text, inbound.origin):
            return _make_turn(inbound, *said, by="stop")
        if is_owner(inbound.origin) and is_check(inbound.text):
            return _make_turn(inbound, True, self.app.context_builder.checklist().answer or HEARTBEAT_OK, by=BY_COMMAND)
        if is_owner(inbound.origin) and not inbound.foreign and inbound.text.lstrip().startswith("/"):
            return self._commanded(inbound, around)
        return self._turn(inbound, around)

    @property
    def _model(self) -> str:
        """The name of the configured model."""
        return self.app.config.model.name or "default"

    def _agent(self, origin: Origin) -> Agent:
        return self.app.light_agent if origin == "heartbeat" else self.app.agent

    def _commanded(self, inbound: Inbound, around: TurnHooks) -> Turn:
        """Do a command, which is no part of the conversation; a text that is none after all is answered."""
        from picoclaw.agent import commands
        from picoclaw.agent.commands import CommandContext

        if (given := commands.parse_chat_command(replace_surrogates(inbound.text))) is None:
            return self._turn(inbound, around)
        key, usual = replace_surrogates(inbound.session), self._model
        model = self._chosen(key) or usual
        chat = CommandContext(
            self.app, key, self.app.now(), model, usual, who=inbound.who, origin=inbound.origin, stop=around.stop
        )
        answer = commands.run_chat_command(given, chat)
        if answer.made:
            return self._go_on(answer.made, answer.text, inbound, around)
        if answer.again:
            turn = self._turn(inbound._replace(text=answer.again, foreign=answer.foreign), around)
            return _add_notes(turn, answer.text)
        return _make_turn(inbound, answer.good, answer.text, by=BY_COMMAND)

    def _chosen(self, session: str) -> str:
        """The model that a conversation is to be held with, '' for the configured one."""
        try:
            return self.app.stores.sessions.model(session) if self.app.stores.config.model.base_url else ""
        except StoreError:
            return ""

    def _go_on(self, made: Approval, said: str, inbound: Inbound, around: TurnHooks) -> Turn:
        """Go on with the conversation in which a call was asked for that was made now, and answer who said yes to it.

        Without a model, or in another chat, they are told the result plainly.
        """
        plainly = "\n".join([said, *(one.outcome for one in made.each)])
        here, modelled = made.home == replace_surrogates(inbound.session), bool(self.app.stores.config.model.base_url)
        if modelled:
            number = inbound.inbox if here else 0
            numbers = " and ".join(str(one.number) for one in made.each)
            text = fill_template(self.app.prompts["approved"], {"number": numbers}, "number")
            asked = Inbound(made.home, text, _choose_origin(made), inbox=number, who=made.asked_by)
            turn = self._turn(asked, around if here else TurnHooks(stop=around.stop, shield=around.shield), made)
            if here:
                return _add_notes(turn, said if turn.stopped != "error" else plainly)
            self.app.approving.tell(made.home, plainly if turn.stopped == "error" else turn.reply)
        elif not here:
            self.app.approving.tell(made.home, plainly)
        return _make_turn(inbound, all(one.state == "done" for one in made.each), plainly, by=BY_COMMAND)

    def _turn(self, inbound: Inbound, around: TurnHooks, made: Approval | None = None) -> Turn:
        now = self.app.now()
        earlier, acts, summary, numbers = self.app.stores.earlier(inbound.session)
        if inbound.origin == "heartbeat":
            earlier, summary = [], ""
        if inbound.origin == "guest" and ":-" in inbound.session and self.app.context_builder.guest_tools() is not None:
            earlier, summary = (
                [_keep_spoken(turn) for turn in earlier],
                "",
            )  # in a group, the owner's turns are among them
        words = (message.text for turn in earlier for message in turn if message.role == "user")
        newest = "" if any(name.startswith(GUEST_PREFIX) for name in inbound.foreign) else inbound.text
        said, home = (*map(remove_untrusted, (*words, newest)),), inbound.reply_to
        cleaned, unknown = inbound._replace(text=replace_surrogates(inbound.text)), [act for _, act in acts]
        told = self.app.context_builder.build(cleaned, earlier, unknown, now, once=around.once)
        may = told.brief.only
        heard = {*told.heard, *inbound.foreign, *self.app.stores.taint(inbound.session, inbound.origin)}
        who, key, cause = inbound.who, inbound.session, inbound.cause
        caller = Caller(
            key,
            inbound.origin,
            now,
            around.say,
            heard,
            said=said,
            reply_to=home,
            may=may,
            who=who,
            cause=cause,
            asks=[],
        )
        tools = self._agent(inbound.origin).toolset
        caller.private.update(call.name for turn in earlier for message in turn for call in message.calls)
        caller.private.intersection_update(tools.private)
        caller.private.update(["a summary"] if summary else ())
        if not heard:
            made_before = (call for turn in earlier for message in turn for call in message.calls)
            caller.written.extend(text for call in made_before for text in list_texts(call))
        other = told.brief.model or self._chosen(inbound.session)
        model = other or self._model
        brief = told.brief._replace(model=other, bytes_a_token=self.app.stores.bytes_a_token(model), summary=summary)
        shown = self._pictures(inbound)
        heard.update(shown.names)  # what is written on a picture is nobody's word
        so_far = [Message("user", brief.text, images=shown.images)]
        if made:
            heard.update(
                *(one.heard for one in made.each),
                () if made.home == made.session else [f"what a {made.origin} has asked for"],
            )
            so_far += _render_made_calls(made)
        with self.app.approving.ask_at_end(caller):
            turn = self._agent(inbound.origin).resume(brief, earlier, caller, around, so_far)
        turn = self.app.stores.presentable(turn, heard, inbound)
        with around.shield():
            if turn.usage.total:  # the matcher counts nothing
                self.app.stores.heard()
            try:
                upto = numbers[turn.forgotten - 1] if turn.forgotten else 0
                done = [act for act, _ in acts]
                owed = UnsavedTurn(
                    inbound.session, turn, now, tuple(done), self._counter(turn, model), upto, inbound.inbox
                )
                doubt = self._kept(owed)
            except StoreError as error:
                turn = self._unkept(turn, error)
            else:
                turn = _add_notes(
                    turn,
                    _describe_cut(turn),
                    *self._news([doubt, self.app.rights.problem(), *told.problems, *shown.problems]),
                )
            self.app.stores.answered(inbound)
        for _, act in acts:
            turn = _add_notes(turn, f"a call of an earlier turn was cut off, its outcome is unknown: {act}")
        return turn

    def _kept(self, owed: UnsavedTurn) -> str:
        """Keep a turn; returns what should be known of it. Raises StoreError."""
        missing = len(self.app.stores.unkept)
        doubt = self.app.stores.unkept.keep(owed)
        if missing:
            self._complaints.discard(_NOT_STORED_NOTICE)
            return "; ".join(filter(None, [doubt, f"the disk takes it again: {missing} earlier turns are kept now"]))
        return doubt

    def _unkept(self, turn: Turn, error: StoreError) -> Turn:
        """Say once that turns are not kept; answers go on from memory meanwhile."""
        first = self._news([_NOT_STORED_NOTICE])
        why = "" if str(error) in turn.notice.text else f": {error}"
        goes_on = "the conversation goes on from memory, until the disk takes it or picoclaw ends"
        return _add_notes(turn, f"this turn could not be kept{why}; {goes_on}", failed=True) if first else turn

    def _counter(self, turn: Turn, model: str) -> str:
        """Whose tokens a turn has counted: its model's, by the name it was asked for by, or another's of the chain."""
        by, further = turn.provider.partition(":")[2], self.app.stores.config.models.get(model)
        return model if not by or (further and further.name == by) else by

    def _pictures(self, inbound: Inbound) -> Pictures:
        """The pictures that came with a message, where there is a model that sees."""
        config = self.app.stores.config
        seeing = any(model.images for model in (config.model, *config.models.values()))
        return read_pictures(config.workspace, inbound.attachments) if seeing and inbound.attachments else Pictures()

    def _news(self, notes: Iterable[str]) -> list[str]:
        """What has not been said by this process; a chat that repeats a complaint every turn is no help."""
        news = [note for note in dict.fromkeys(notes) if note and note not in self._complaints]
        self._complaints.update(news)
        return news


def _make_turn(inbound: Inbound, good: bool, said: str, *, by: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", inbound.text), Message("assistant", said))
    notice = Notice("" if good else said, failed=not good)
    return Turn(said, messages, 0, (), Usage(), "" if good else "error", by, notice)


def _keep_spoken(turn: Sequence[Message]) -> tuple[Message, ...]:
    """Leave of a turn what everybody in the chat has seen: what was said, and the answer."""
    said = [message._replace(text=claims.strip_context(message.text)) for message in turn if message.role == "user"]
    answer = [message for message in turn if message.role == "assistant"][-1:]
    return (*said, *(Message("assistant", message.text) for message in answer))


def _render_made_calls(made: Approval) -> list[Message]:
    """Show a model the calls that have waited as its own, with the results: none of that is anybody's word."""
    calls = tuple(replace(one.call, id=f"yes{one.number:06d}") for one in made.each)
    results = (one.outcome if one.state == "done" else f"error: {one.outcome}" for one in made.each)
    shown = [Message("tool", text, call_id=call.id) for call, text in zip(calls, results, strict=True)]
    return [Message("assistant", "", calls), *shown]


def _choose_origin(made: Approval) -> Origin:
    return made.origin if made.origin in {"web", "guest"} else "owner"


def _describe_cut(turn: Turn) -> str:
    most = turn.longest_said
    return (
        f"too long for the model's window: it was shown {most} characters of that, without the middle" if most else ""
    )


def _add_notes(turn: Turn, *texts: str, failed: bool = False) -> Turn:
    before = turn.notice
    return turn._replace(notice=Notice("; ".join(filter(None, [before.text, *texts])), before.failed or failed))


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which undecodable input leaves behind and no database or server takes."""
    return text.encode("utf-8", "replace").decode()
