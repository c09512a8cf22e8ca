"""Answers everything that comes in, one by one: a chat line, a command, a due job, a heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from picoclaw.agent.conversation import Pictures, read_pictures
from picoclaw.errors import ConfigError, Defect, PicoclawError, StoreDamaged, StoreError, StoreNewer, raise_defects
from picoclaw.messages import (
    ERROR_PREFIX,
    HEARTBEAT_OK,
    HOOK_SESSIONS,
    NO_HOOKS,
    ONBOARDING_TOOL,
    Caller,
    End,
    Event,
    Inbound,
    Message,
    Notice,
    Request,
    Text,
    ToolCall,
    Turn,
    TurnHooks,
    Usage,
    is_check,
    is_other_person,
    is_owner,
    split_turns,
    strip_context,
)
from picoclaw.prompts import fill_template
from picoclaw.records import dataclass, field, replace
from picoclaw.security.untrusted import GUEST_PREFIX, remove_untrusted
from picoclaw.store.conversations import UnsavedTurn
from picoclaw.text import replace_surrogates

if TYPE_CHECKING:
    from picoclaw.agent.context import AgentApp
    from picoclaw.intents.provider import IntentProvider
    from picoclaw.providers import Provider
    from picoclaw.store.approvals import Approval

_NOT_STORED_NOTICE = "turns are not being kept"
CHAT_COMMANDS = {
    "new": ("", "start a new conversation; this one is kept"),
    "clear": ("[yes]", "delete this conversation for good, after a confirmation"),
    "undo": ("", "undo the last question and its answer"),
    "retry": ("", "discard the last answer and ask again"),
    "sessions": ("[N]", "list the conversations of this chat; continue number N"),
    "context": ("", "show what fills the model's context window"),
    "usage": ("", "show the tokens used"),
    "model": ("[NAME]", "show the model of this conversation, or choose another"),
    "agent": ("[KEY]", "show the agents and which one answers here, or begin a conversation with another"),
    "tasks": ("[cancel N]", "list the tasks of sub-agents; cancel one"),
    "set": ("NAME LEVEL [TIME]", "switch an output, such as: /set pump on 10m"),
    "resume": ("", "let outputs be switched on again after STOP"),
    "job": ("pause|resume|remove N", "pause, resume or remove reminder or job N, of any chat"),
    "rule": ("pause|resume|remove NAME", "pause, resume or remove a rule"),
    "approvals": ("[N]", "list what waits for your approval; show number N in full"),
    "yes": ("[N]", "approve this chat's open question, or number N"),
    "no": ("[N]", "decline this chat's open question, or number N"),
    "always": ("N", "approve number N now and whenever exactly the same is asked again"),
    "stop": ("", "stop the turn that is running"),
    "help": ("", "this list"),
}
"""The words behind a /: what may follow each, and what it does."""
_MEMBER_COMMANDS = frozenset({"new", "clear", "undo", "retry", "sessions", "agent", "set", "help", "stop"})
"""Those of a member of the household: what concerns their own conversations, and outputs, as far as these allow it."""
_PEOPLE = frozenset({"owner", "web", "member", "guest"})
_MAX_ANSWER_WORDS = 8
_ANSWERS = frozenset({"/yes", "/no", "/always"})
BY_COMMAND = "command"
"""Who has answered, in a turn that was a command's."""


@dataclass
class Dispatcher:
    """Answers one message at a time with the parts of the app, and keeps what was said."""

    app: AgentApp
    _reported: set[str] = field(default_factory=set)

    def answer(self, inbound: Inbound, hooks: TurnHooks = NO_HOOKS) -> Turn:
        """Answer one message and keep the turn; what is returned is durable, or its notice says that it is not."""
        try:
            with raise_defects():
                return self._answer(inbound, hooks)
        except Defect as error:  # met outside a turn
            return _make_turn(inbound, False, str(error), by=BY_COMMAND)

    def _answer(self, inbound: Inbound, hooks: TurnHooks) -> Turn:
        if people := self.app.config.people:
            with suppress(StoreError):
                self.app.language = people[name].language if (name := self.app.find_person(inbound.who)) else ""
        hook = self.app.config.hooks.get(inbound.session.removeprefix(HOOK_SESSIONS)) if _is_hook(inbound) else None
        if hook and not hook.answer:  # its words are told as they are
            return _make_turn(inbound, True, inbound.text, by="hook")
        if stopped := self.app.wiring.obey_stop_order(inbound.text, inbound.origin):
            good, said = stopped
            return _make_turn(inbound, good, self._translate(said, inbound, ()), by="stop")
        if (is_owner(inbound.origin) or hook) and is_check(inbound.text):
            return _make_turn(inbound, True, self.app.context_builder.checklist().answer or HEARTBEAT_OK, by=BY_COMMAND)
        may_command = is_owner(inbound.origin) or self._is_members_command(inbound)
        if may_command and not inbound.foreign and inbound.text.lstrip().startswith("/"):
            return self._run_command(inbound, hooks)
        answers = self._read_plain_answer(inbound) if is_owner(inbound.origin) and not inbound.foreign else []
        if turns := [self._run_command(inbound._replace(text=one), hooks, asked=inbound.text) for one in answers]:
            return turns[-1]._replace(reply="\n".join(turn.reply for turn in turns))
        return self._run_turn(inbound, hooks)

    def _translate(self, said: str, inbound: Inbound, turns: Sequence[Sequence[Message]] | None = None) -> str:
        """Word what a command has said in the language of the conversation, where no model answers in it.

        Given no turns, that of the message counts and no database is opened: the order to stop needs none.
        """
        if self.app.config.model.base_url:
            return said
        from picoclaw.intents.provider import IntentProvider

        with suppress(PicoclawError):
            provider = self.app.agent.provider
            if isinstance(provider, IntentProvider):
                before = self.app.stores.load_history(inbound.session)[0] if turns is None else turns
                return provider.translate(before, inbound.text, said)
        return said

    def _is_members_command(self, inbound: Inbound) -> bool:
        """Whether a member has typed a command that is theirs; in a group the conversation is not."""
        word = next(iter(inbound.text.split(maxsplit=1)), "")
        if inbound.origin != "member" or word.removeprefix("/") not in _MEMBER_COMMANDS:
            return False
        return (
            word in {"/help", "/stop"} or self.app.stores.find_shared_turns(inbound.session, inbound.who) == frozenset()
        )

    def _find_view(self, inbound: Inbound) -> tuple[AgentApp, Inbound]:
        """The app as whoever asks has it, with the agent of the conversation.

        A member who cannot be told by name is a guest: the home is not theirs. Raises ConfigError and StoreError where
        the agent is not to be had.
        """
        agent = self._find_agent(inbound) if inbound.agent is None else inbound.agent
        if agent and is_other_person(inbound.origin):
            from picoclaw.agents import check_open

            is_member = inbound.origin == "member"
            check_open(self.app.config, agent, self.app.find_view(inbound.who).config.person if is_member else "")
        if inbound.origin == "member":
            with suppress(StoreError, ConfigError):
                view = self.app.find_view(inbound.who, agent)
                if view.config.person:
                    return view, inbound
            inbound = inbound._replace(origin="guest")
        return (self.app.find_view("", agent) if agent else self.app), inbound

    def _find_agent(self, inbound: Inbound) -> str:
        """The key of the agent that a conversation is held with.

        A new chat begins with that of the person, else with that of the channel, if it is for them.
        """
        agent, config = self.app.find_agent(inbound.session), self.app.config
        if agent or not config.agents or inbound.origin not in _PEOPLE:
            return agent
        known = None if inbound.origin == "guest" else config.people.get(self.app.find_person(inbound.who))
        own = known.agent if known else ""
        first = own or config.find_channel_agent(inbound.session.partition(":")[0])
        if first in {"", config.default_agent} or next(iter(self.app.stores.sessions.listed(inbound.session)), None):
            return agent
        person = self.app.find_view(inbound.who).config.person if inbound.origin == "member" else ""
        if is_other_person(inbound.origin) and not config.agents[first].is_open_to(person):
            return agent
        self.app.stores.sessions.set_agent(inbound.session, first, self.app.now())
        return first

    def _read_plain_answer(self, inbound: Inbound) -> list[str]:
        """The commands that a plain "yes" or "no" of the owner's stands for, right behind the question, without a model.

        A model asks questions of its own, and a yes may be meant for one of these.
        """
        if self.app.config.model.base_url or len(inbound.text.split()) > _MAX_ANSWER_WORDS:
            return []
        from picoclaw.intents.provider import IntentProvider

        provider = self.app.agent.provider
        with suppress(StoreError):
            turns = self.app.stores.load_history(inbound.session)[0]
            if isinstance(provider, IntentProvider):
                return provider.read_answer(turns, replace_surrogates(inbound.text), self._is_waiting)
        return []

    def _is_waiting(self, number: int) -> bool:
        approval = self.app.stores.approvals.get(number)
        return approval is not None and approval.state == "waiting"

    def _get_model(self, session: str) -> str:
        try:
            return self.app.stores.history.model(session) if self.app.config.model.base_url else ""
        except StoreError:
            return ""

    def _run_command(self, inbound: Inbound, hooks: TurnHooks, asked: str = "") -> Turn:
        """Do a command, which is no part of the conversation; a text that is none after all is answered.

        `asked` is the plain "yes" or "no" that it stands for.
        """
        from picoclaw.agent import commands

        if (command := commands.parse_chat_command(replace_surrogates(inbound.text))) is None:
            return self._run_turn(inbound, hooks)
        app = self.app
        with suppress(ConfigError, StoreError):  # of an agent that is gone; /agent chooses another
            app = self._find_view(inbound)[0]
        key, usual = replace_surrogates(inbound.session), app.config.model.name or "default"
        chat = commands.CommandContext(
            app,
            key,
            app.now(),
            self._get_model(key) or usual,
            usual,
            who=inbound.who,
            origin=inbound.origin,
            stop=hooks.stop,
        )
        result = commands.run_chat_command(command, chat)
        if asked or inbound.text.split()[0] in _ANSWERS:
            answered = inbound._replace(text=asked)
            if result.made and not self.app.config.model.base_url and result.made.home == key:
                text = "\n".join([result.text, *(one.outcome for one in result.made.each)])
                good = all(one.state == "done" for one in result.made.each)
                return _make_turn(inbound, good, self._translate(text, answered), by=BY_COMMAND)
            result = result._replace(text=self._translate(result.text, answered))
        if result.made:
            return self._resume_after_approval(result.made, result.text, inbound, hooks)
        if result.again:
            turn = self._run_turn(inbound._replace(text=result.again, foreign=result.foreign), hooks)
            return _add_notes(turn, result.text)
        return _make_turn(inbound, result.good, result.text, by=BY_COMMAND)

    def _resume_after_approval(self, made: Approval, said: str, inbound: Inbound, hooks: TurnHooks) -> Turn:
        """Go on with the conversation in which a call was asked for that was made now, and answer who said yes to it.

        Without a model, or in another chat, they are told the result plainly.
        """
        plainly = "\n".join([said, *(one.outcome for one in made.each)])
        here = made.home == replace_surrogates(inbound.session)
        is_agents = made.home != made.session or self.app.find_agent(made.home) == made.agent
        if self.app.config.model.base_url and is_agents:  # what one agent has done is not told to another
            numbers = " and ".join(str(one.number) for one in made.each)
            text = fill_template(self.app.prompts["approved"], {"number": numbers}, "number")
            origin = made.origin if made.origin in {"web", "member", "guest"} else "owner"
            asked = Inbound(made.home, text, origin, inbox=inbound.inbox if here else 0, who=made.asked_by)
            turn = self._run_turn(asked, hooks if here else TurnHooks(stop=hooks.stop, shield=hooks.shield), made)
            if here:
                return _add_notes(turn, said if turn.stopped != "error" else plainly)
            self.app.approving.tell(made.home, plainly if turn.stopped == "error" else turn.reply)
        elif not here:
            self.app.approving.tell(made.home, plainly)
        return _make_turn(inbound, all(one.state == "done" for one in made.each), plainly, by=BY_COMMAND)

    def _run_turn(self, inbound: Inbound, hooks: TurnHooks, made: Approval | None = None) -> Turn:
        from picoclaw.tools.registry import list_texts

        try:
            app, inbound = self._find_view(inbound)
        except (StoreDamaged, StoreNewer):
            raise
        except (ConfigError, StoreError) as error:
            return _make_turn(inbound, False, f"{error}; /agent goes on with another", by=BY_COMMAND)
        stores, now = app.stores, app.now()
        has_model, is_unasked = bool(app.config.model.base_url), inbound.origin == "heartbeat" or _is_hook(inbound)
        agent = app.light_agent if is_unasked and (has_model or not _is_hook(inbound)) else app.agent
        earlier, acts, summary, numbers = stores.load_history(inbound.session)
        if is_unasked:
            earlier, summary = [], ""
        elif inbound.origin == "member" or (
            is_other_person(inbound.origin) and app.context_builder.guest_tools("guest") is not None
        ):
            # in a group, the owner's turns are among them
            others = stores.find_shared_turns(inbound.session, inbound.who)
            if others is None or others:
                own = [others is not None and number not in others for number in numbers]
                earlier = [turn if mine else _strip_tool_calls(turn) for turn, mine in zip(earlier, own, strict=True)]
                summary = ""
        cleaned = inbound._replace(text=replace_surrogates(inbound.text))
        if _is_hook(inbound) and not has_model:  # the matcher would take what others have sent for a wish
            cleaned = cleaned._replace(text=remove_untrusted(cleaned.text))
        builder = app.context_builder
        with app.prompts.hold():
            if has_model and (is_unasked or not app.config.model.is_small):
                told = builder.build(cleaned, earlier, [act for _, act in acts], now, once=hooks.once)
            else:
                told = builder.build_for_matcher(cleaned, now, once=hooks.once)
        model = told.brief.model or self._get_model(inbound.session)
        counted_as = model or app.config.model.name or "default"
        brief = told.brief._replace(model=model, bytes_a_token=stores.bytes_a_token(counted_as), summary=summary)
        sees = any(model.images for model in (app.config.model, *app.config.models.values()))
        pictures = read_pictures(app.config.workspace, inbound.attachments) if sees else Pictures()
        heard = {*told.taints, *inbound.foreign, *stores.list_taints(inbound.session, inbound.origin)}
        so_far = [Message("user", brief.text, images=pictures.images)]
        words = [message.text for turn in earlier for message in turn if message.role == "user"]
        words.append("" if any(name.startswith(GUEST_PREFIX) for name in inbound.foreign) else inbound.text)
        caller = Caller(
            inbound.session,
            inbound.origin,
            now,
            hooks.say,
            heard,
            user_texts=tuple(map(remove_untrusted, words)),
            reply_to=inbound.reply_to,
            may=brief.only,
            who=inbound.who,
            cause=inbound.cause,
            asks=[],
        )
        made_before = [call for turn in earlier for message in turn for call in message.calls]
        caller.private.update(agent.toolset.select_private({call.name for call in made_before}))
        if summary:
            caller.private.add("a summary")
        if not heard:
            caller.model_texts.extend(text for call in made_before for text in list_texts(call))
        heard.update(pictures.names)  # what is written on a picture is untrusted
        if made:
            heard.update(*(one.heard for one in made.each))
            if made.home != made.session:
                heard.add(f"what a {made.origin} has asked for")
            so_far += _render_made_calls(made)
        with app.approving.ask_at_end(caller), app.prompts.hold():
            turn = agent.turn(brief, earlier, caller, hooks, so_far)
        turn = stores.redact_turn(turn, heard, inbound)
        with hooks.shield():
            turn = self._keep(
                UnsavedTurn(
                    inbound.session,
                    turn,
                    now,
                    tuple(act for act, _ in acts),
                    self._name_counting_model(turn, counted_as),
                    numbers[turn.forgotten - 1] if turn.forgotten else 0,
                    inbound.inbox,
                    told.prefix,
                    inbound.who if is_other_person(inbound.origin) else "",
                    app.config.person,
                ),
                [*told.problems, *pictures.problems],
            )
            stores.record_answer(inbound)
        for _, act in acts:
            turn = _add_notes(turn, f"a call of an earlier turn was cut off, its outcome is unknown: {act}")
        return turn

    def _keep(self, unsaved: UnsavedTurn, problems: Sequence[str]) -> Turn:
        """Keep a turn; returns it with notes of what went wrong. Answers go on from memory while the disk takes none."""
        stores, turn = self.app.stores, unsaved.turn
        if turn.usage.total:  # the matcher counts nothing
            stores.record_overlong_told()
        missing = len(stores.write_behind)
        try:
            doubt = stores.write_behind.keep(unsaved)
        except StoreError as error:
            if not self._select_new([_NOT_STORED_NOTICE]):
                return turn
            why = "" if str(error) in turn.notice.text else f": {error}"
            goes_on = "the conversation is kept in memory until the disk can be written again or picoclaw ends"
            return _add_notes(turn, f"this turn could not be saved{why}; {goes_on}", failed=True)
        if missing:
            self._reported.discard(_NOT_STORED_NOTICE)
            again = f"the disk takes it again: {missing} earlier turns are kept now"
            doubt = f"{doubt}; {again}" if doubt else again
        cut = ""
        if most := turn.longest_said:
            cut = f"too long for the model's window: it was shown {most} characters of that, without the middle"
        return _add_notes(turn, cut, *self._select_new([doubt, self.app.rights.problem(), *problems]))

    def _name_counting_model(self, turn: Turn, model: str) -> str:
        """Whose tokens a turn has counted: its model's, by the name it was asked for by, or another's of the chain."""
        by, further = turn.provider.partition(":")[2], self.app.config.models.get(model)
        return model if not by or (further and further.name == by) else by

    def _select_new(self, notes: Iterable[str]) -> list[str]:
        """What was not reported by this process; a chat that repeats a complaint every turn is no help."""
        new = [note for note in dict.fromkeys(notes) if note and note not in self._reported]
        self._reported.update(new)
        return new


def _is_hook(inbound: Inbound) -> bool:
    return inbound.origin == "hook"


def _make_turn(inbound: Inbound, good: bool, said: str, *, by: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", inbound.text), Message("assistant", said))
    notice = Notice("" if good else said, failed=not good)
    return Turn(said, messages, 0, (), Usage(), "" if good else "error", by, notice)


def _strip_tool_calls(turn: Sequence[Message]) -> tuple[Message, ...]:
    """Leave of a turn what everybody in the chat has seen: what was said, and the answer."""
    said = [message._replace(text=strip_context(message.text)) for message in turn if message.role == "user"]
    answer = [message for message in turn if message.role == "assistant"][-1:]
    return (*said, *(Message("assistant", message.text) for message in answer))


def _render_made_calls(made: Approval) -> list[Message]:
    """Show a model the calls that have waited as its own, with the results: none of that is anybody's word."""
    calls = tuple(replace(one.call, id=f"yes{one.number:06d}") for one in made.each)
    results = (one.outcome if one.state == "done" else f"{ERROR_PREFIX}{one.outcome}" for one in made.each)
    shown = [Message("tool", text, call_id=call.id) for call, text in zip(calls, results, strict=True)]
    return [Message("assistant", "", calls), *shown]


def _add_notes(turn: Turn, *texts: str, failed: bool = False) -> Turn:
    before = turn.notice
    return turn._replace(notice=Notice("; ".join(filter(None, [before.text, *texts])), before.failed or failed))


# A model, with the first meeting held by the matcher where the model lets it drop, as small ones do.

_TURNS_BEFORE_MATCHER = 2
"""Turns; in the first a model may only greet."""


class OnboardingProvider:
    """What belongs to an open meeting is answered by the matcher once it leads, and all else by the model.

    The meeting is open where its tool is offered.
    """

    def __init__(
        self,
        model: Provider,
        matcher: Callable[[], IntentProvider],
        leads: Callable[[Sequence[Sequence[Message]]], bool],
        invitation: Callable[[], str],
    ) -> None:
        """Make the `matcher` when it `leads` a meeting after some turns; the `invitation` to it follows an answer."""
        self._model = model
        self._make_matcher = matcher
        self._leads = leads
        self._invitation = invitation
        self._leading = False

    @cached_property
    def _matcher(self) -> IntentProvider:
        return self._make_matcher()

    @property
    def name(self) -> str:
        return self._matcher.name if self._leading else self._model.name

    def close(self) -> None:
        self._model.close()

    def events(self, request: Request) -> Iterator[Event]:
        rest = tuple(tool for tool in request.tools if tool["name"] != ONBOARDING_TOOL)
        if len(rest) == len(request.tools) or not self._leads(split_turns(request.messages)[:-1]):
            self._leading = False
            return self._model.events(request)
        if request.messages[-1].role == "user":
            self._leading = request.calls and self._matcher.meets(request.messages)
        if self._leading:
            return self._matcher.events(request)
        return self._invited(request._replace(tools=rest))

    def _invited(self, request: Request) -> Iterator[Event]:
        """The model's answer; when it says something and calls nothing, the invitation follows it, once."""
        said = called = False
        invitation = "" if _is_onboarding_known(request, self._invitation()) else self._invitation()
        for event in self._model.events(request):
            said, called = said or isinstance(event, Text), called or isinstance(event, ToolCall)
            if isinstance(event, End) and said and not called and invitation:
                yield Text(f"\n\n{invitation}")
            yield event


def is_onboarding_dropped(turns: Sequence[Sequence[Message]]) -> bool:
    """Tell whether a conversation's first two turns went by without a word about the meeting being noted."""
    begun = turns[:_TURNS_BEFORE_MATCHER]
    return len(begun) == _TURNS_BEFORE_MATCHER and not any(
        call.name == ONBOARDING_TOOL for turn in begun for m in turn for call in m.calls
    )


def _is_onboarding_known(request: Request, invitation: str) -> bool:
    """Whether the meeting has begun in this conversation, or the owner was invited to it."""
    return any(
        (message.role == "assistant" and invitation in message.text)
        or any(call.name == ONBOARDING_TOOL for call in message.calls)
        for message in request.messages
    )
