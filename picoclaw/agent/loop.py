"""The loop: ask the model, run what it asks for, until it answers or a limit is reached.

However a turn ends, the conversation stays valid: each call has its result, and the last word is an assistant's.
Knows no channel, no file and no wording; time, model, tools and templates are handed in.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from picoclaw.agent import conversation
from picoclaw.agent.conversation import Conversation, HistoryView, Steering, StreamedAnswer, TurnBudget, add_notice
from picoclaw.claims import strip_context
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import ContextOverflow, DeadlinePassed, MaybeTooLong, PicoclawError, ProviderError, TurnStopped
from picoclaw.messages import NO_HOOKS, Caller, Message, Notice, Request, Text, ToolCall, Turn, TurnContext, TurnHooks
from picoclaw.prompts import Templates, cut_bytes, fill_block, fill_template
from picoclaw.providers import Provider
from picoclaw.tools.registry import Toolset, TurnCalls
from picoclaw.tools.results import find_opened_tools
from picoclaw.window import READ_ON_TOOL, get_summary_bytes, measure_bytes_a_token, split_window

Turns = Sequence[tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Agent:
    """What every turn needs. `prompts` are templates by name, `window` and `answer` tokens, `clock` seconds.

    `writes` tells whether a call changes files, so that doing it twice in a row can only be a slip.
    """

    provider: Provider
    toolset: Toolset
    prompts: Templates
    limits: LimitsConfig
    window: int
    answer: int
    clock: Callable[[], float] = time.monotonic
    writes: Callable[[ToolCall], bool] = lambda _: False

    def turn(self, brief: TurnContext, history: Turns, caller: Caller, around: TurnHooks = NO_HOOKS) -> Turn:
        """Answer one message, after the earlier turns in `history`.

        Ctrl-C ends it like the stop of those around it. Raises nothing that a model, a tool or a person did:
        `Turn.stopped` is '' when the model answered of its own accord, else 'steps', 'seconds', 'tokens',
        'repeated', 'stopped' or 'error'.
        """
        return self.resume(brief, history, caller, around, [Message("user", brief.text)])

    def resume(
        self, brief: TurnContext, history: Turns, caller: Caller, around: TurnHooks, so_far: Sequence[Message]
    ) -> Turn:
        """Go on with a turn from the messages that `around.keep` was last handed; else as `turn`.

        An open call that only reads is made again. One that acts is not: whether it was done is not known. The limits
        count from here.
        """
        keep = self.toolset.keep_whole
        talk = self._conversation(brief, history, so_far, lambda tool, result: keep(tool, result, caller))
        return _TurnRun(self, brief, talk, caller, around).go()

    def opened(self, brief: TurnContext, history: Turns) -> Conversation:
        """Begin a turn's conversation: what was said before, as far as the window takes it, and the new message."""
        return self._conversation(brief, history, [Message("user", brief.text)], lambda *_: 0)

    def _conversation(
        self, brief: TurnContext, history: Turns, messages: Sequence[Message], keep_whole: Callable[[str, str], int]
    ) -> Conversation:
        said = cut_bytes(brief.summary, get_summary_bytes(self.window))
        summary = said and fill_block(self.prompts["summarised"], "", said)
        talk = Conversation(list(history), list(messages), 0, brief.relied_on, summary, keep_whole=keep_whole)
        self.fit(talk, brief)
        return talk

    def tools(self, talk: Conversation, brief: TurnContext) -> tuple[dict[str, Any], ...]:
        """Describe the tools of a turn; what a call opens stays open while the model is shown that call."""
        shown = talk.shown()
        read_on, most = find_opened_tools(shown), split_window(self.window, self.answer).tools
        called = {call.name for message in shown for call in message.calls}
        return self.toolset.definitions(brief.tools and brief.tools | read_on, called | read_on, most)

    def calls(self, brief: TurnContext, caller: Caller) -> TurnCalls:
        """Begin to count the calls of a turn, which may be those alone that its brief and its caller allow."""
        allowed = [names for names in (brief.only, caller.may) if names is not None]
        only = frozenset.intersection(*allowed) | {READ_ON_TOOL} & self.toolset.names if allowed else None
        return TurnCalls(self.toolset, self.prompts, only, self.writes, self.clock)

    def fit(self, talk: Conversation, brief: TurnContext) -> None:
        """Shorten a conversation until its estimate leaves room for the answer, or nothing is left to leave out."""
        most, template = split_window(self.window, self.answer).request, self.prompts["shortened"]
        while talk.tokens(brief.system, tools := self.tools(talk, brief), brief.bytes_a_token) > most:
            while talk.tokens(brief.system, tools, brief.bytes_a_token) > most:
                if not talk.shorten(template):
                    return


@dataclass(slots=True)
class _TurnRun:
    """One turn in the making; `answer` is the newest one, as far as it has come."""

    agent: Agent
    brief: TurnContext
    talk: Conversation
    caller: Caller
    around: TurnHooks
    spent: TurnBudget = field(init=False)
    calls: TurnCalls = field(init=False)
    steering: Steering = field(init=False)
    answer: StreamedAnswer = field(default_factory=StreamedAnswer)
    sent: bool = False
    kept: int = 0
    notice: Notice = field(default_factory=lambda: Notice(""))

    def __post_init__(self) -> None:
        agent = self.agent
        self.spent = TurnBudget(agent.limits, agent.clock)
        self.calls = agent.calls(self.brief, self.caller)
        self.calls.remember(self.talk.messages)
        if self.around.stop is not None:
            self.caller = replace(self.caller, stop=self.around.stop)
        self.steering = Steering(self.talk, self.around.typed, agent.prompts["meanwhile"], self.brief.text)

    def go(self) -> Turn:
        prompts = self.agent.prompts
        try:
            self._finish_open_calls()
            if limit := self._run_rounds():
                self._ask_last_word(limit)
        except (TurnStopped, KeyboardInterrupt):
            return self._break_off("stopped", prompts["stopped"])
        except ProviderError as error:
            self._fail(error)
            return self._break_off("error", fill_template(prompts["failed"], {"error": self.notice.text}, "error"))
        return self._turn(limit)

    def _finish_open_calls(self) -> None:
        """Give a result to each call that another process left open, without doing anything twice."""
        for call in self.talk.unanswered():
            self._check_stop()
            if self.calls.may_change(call):
                self.calls.add_past(call, self.agent.prompts["lost_act"])
                self.talk.result(call, self.agent.prompts["lost_act"])
            else:
                self._make(call)

    def _run_rounds(self) -> str:
        """Go round until the model answers ('') or a limit ends it (its name)."""
        while self.talk.messages[-1].role != "assistant":
            try:
                calls = self._ask()
            except DeadlinePassed:
                return "seconds"
            self._run(calls)
            if not calls and not self._ask_to_measure():
                return ""
            if limit := "repeated" if self.calls.stuck else self.spent.reached():
                return limit
            self._take_typed()
        return ""

    def _ask(self, *, calls: bool = True) -> list[ToolCall]:
        """Make one request, shortened until it fits; the answer joins the conversation.

        Where half of the conversation is only tried because a server does not say what is wrong, and that server does
        not answer then either, the whole is shown again from the next request on.
        """
        self.agent.fit(self.talk, self.brief)
        template, name = self.agent.prompts["shortened"], ""
        whole: HistoryView | None = None
        while True:
            try:
                made = self._answer(calls=calls)
            except MaybeTooLong:
                name, whole = self.agent.provider.name, self.talk.whole()
                if self.talk.history:
                    self.talk.shorten(template)
            except ContextOverflow:
                if not self.talk.shorten(template):
                    raise
            except (PicoclawError, KeyboardInterrupt):
                self.talk.restore(whole)
                raise
            else:
                if name != self.agent.provider.name:
                    self.talk.restore(whole)
                return made

    def _answer(self, *, calls: bool) -> list[ToolCall]:
        self._check_stop()
        self.spent.steps += 1
        agent, brief, stop = self.agent, self.brief, self.around.stop
        shown, most, until, purpose = self.talk.shown(), agent.answer, self.spent.deadline, self.caller.purpose
        tools, lost, wrap = agent.tools(self.talk, brief), agent.prompts["lost"], agent.prompts["untrusted"]
        request = Request(brief.system, shown, tools, most, until, brief.model, calls, lost, stop, wrap, purpose)
        self.answer = answer = StreamedAnswer()
        for event in agent.provider.events(request):
            answer.take(event)
            self.notice = add_notice(self.notice, event)
            if not isinstance(event, ToolCall):
                self.around.listen(event)
            self._check_stop()
            if answer.repeats:
                break  # which hangs up
        self.spent.usage += answer.end.usage
        self.brief = brief._replace(bytes_a_token=measure_bytes_a_token(brief.bytes_a_token, answer.end.usage))
        if not calls:
            answer.calls.clear()
        instead = (self.calls.format_last_result() if calls else "") or agent.prompts["empty"]
        self.talk.answer(answer.worded(agent.prompts, most, instead), answer.calls, answer.end.thought)
        answer.said = ""
        return answer.calls

    def _ask_to_measure(self) -> bool:
        """Mark what an answer without a call gives as measured; the first time, the model is asked to measure it."""
        prompts, brief, asked = self.agent.prompts, self.brief, self.steering.newest
        can = any("quantity" in tool["parameters"]["properties"] for tool in self.agent.tools(self.talk, brief))
        mark = conversation.mark_unmeasured(self.talk, asked, brief.system, prompts["unmeasured"]) if can else ""
        if not mark:
            return False
        self.around.listen(Text(mark))
        first, self.sent = not self.sent, True
        if first:
            self.talk.instruct(fill_template(prompts["measure"], {"question": strip_context(asked)}, "question"))
        return first

    def _run(self, calls: Sequence[ToolCall]) -> None:
        """Make the calls of an answer, until the person says something that they do not take into account."""
        self.calls.announce(calls, self.caller)
        for call in calls:
            self._check_stop()
            if self._take_typed():
                self.talk.settle(self.agent.prompts["put_off"])
                break
            if not self.spent.late:
                self._make(call)
        if calls:
            self._keep()

    def _make(self, call: ToolCall) -> None:
        if acts := self.calls.may_change(call):
            self._keep()
        self.around.listen(call)
        run = self.calls.make(call, self.caller)
        self.talk.result(call, run.result)
        if acts:
            self._keep()
        self.around.listen(run)

    def _keep(self) -> None:
        """Hand on what the turn consists of: before something is done, and what came of it."""
        if self.kept != len(self.talk.messages):
            self.kept = len(self.talk.messages)
            self.around.keep(tuple(self.talk.messages))

    def _take_typed(self) -> bool:
        """Take in what the person has said meanwhile; not beside the matcher, which answers one thing at a time."""
        said = self.steering.heed() if self.answer.end.usage.total else ()  # the matcher's answers count no tokens
        if said:
            self.caller = replace(self.caller, said=(*self.caller.said, *said))
            self.calls.forget_repeats()
        return bool(said)

    def _ask_last_word(self, limit: str) -> None:
        """Ask once more, without tools, so that the person learns where things stand."""
        prompts = self.agent.prompts
        self.talk.settle(prompts["not_run"])
        if self.answer.said:
            self.talk.answer(self.answer.said)
            self.answer.said = ""
        reason = self.spent.reason(limit, prompts)
        self.talk.instruct(fill_template(prompts["limit"], {"reason": reason}, "reason"))
        self.spent.allow_last_word()
        try:
            self._ask(calls=False)
        except ProviderError as error:
            self._fail(error)
        if self.talk.messages[-1].text == prompts["empty"]:
            self.talk.messages.pop()
        if self.talk.messages[-1].role != "assistant":
            used = ", ".join(dict.fromkeys(run.name for run in self.calls.runs)) or "nothing"
            known = {"reason": reason, "tools": used, "result": self.calls.newest}
            self.talk.answer(f"{self.answer.said}\n{fill_template(prompts['unfinished'], known, 'result')}".strip())

    def _check_stop(self) -> None:
        if self.around.stop:
            raise TurnStopped

    def _fail(self, error: ProviderError) -> None:
        """Note why no answer came; what was typed before it, and nobody has begun to answer, is handed back."""
        self.notice = Notice(" ".join(str(error).split()), failed=True)
        if not self.answer.said:
            self.steering.hand_back()

    def _break_off(self, how: str, mark: str) -> Turn:
        """Answer what is open, keep what was said so far, and mark it as cut."""
        self.talk.settle(self.agent.prompts["not_run"])
        self.talk.answer(f"{self.answer.said}\n{mark}".strip())
        return self._turn(how)

    def _turn(self, how: str) -> Turn:
        return Turn(
            reply=self.talk.messages[-1].text,
            messages=tuple(self.talk.messages),
            steps=self.spent.steps,
            tools=tuple(self.calls.runs),
            usage=self.spent.usage,
            stopped=how,
            provider=self.agent.provider.name,
            notice=self.notice,
            forgotten=self.talk.forgotten,
            unheard=self.steering.unheard,
            longest_said=self.talk.longest_said,
        )
