"""The loop: ask the model, run what it asks for, until it answers or a limit is reached.

However a turn ends, the conversation stays valid: each call has its result, and the last word is an assistant's.
Knows no channel, no file and no wording; time, model, tools and templates are handed in.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from picoclaw.config import LimitsConfig
from picoclaw.conversation import Conversation
from picoclaw.errors import ContextOverflow, DeadlinePassed, ProviderError, TurnStopped
from picoclaw.hw.claims import ERROR, unfounded, words
from picoclaw.messages import Brief, Caller, End, Event, Message, Notice, Request, Text, ToolCall, ToolRun, Turn, Usage
from picoclaw.prompt import Templates, fill
from picoclaw.providers import Provider
from picoclaw.providers.repetition import REPEATS, in_a_row, repeated
from picoclaw.tools.toolset import Toolset

Listener = Callable[[Event | ToolRun], None]
SAME_CALLS, SAME_READS = 3, 4  # somebody may want to see three values, one after the other
LAST_WORD_SECONDS = 60.0
LONGEST_RESULT = 1000  # characters, of one that is told because the model says nothing


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

    def turn(
        self,
        brief: Brief,
        history: Sequence[tuple[Message, ...]],
        caller: Caller,
        listen: Listener = lambda _: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Turn:
        """Answer one message, after the earlier turns in `history`.

        `listen` hears each event as it happens; `stopping` is asked between events and between tools, and Ctrl-C
        works as well. Raises nothing that a model, a tool or a person did: `Turn.stopped` is '' when the model
        answered of its own accord, else 'steps', 'seconds', 'tokens', 'repeated', 'stopped' or 'error'.
        """
        talk = self.opened(brief, history)
        return _Running(self, brief, talk, caller, listen, stopping, self.clock() + self.limits.seconds).go()

    def opened(self, brief: Brief, history: Sequence[tuple[Message, ...]]) -> Conversation:
        """Begin a turn's conversation: what was said before, as far as the window takes it, and the new message."""
        talk = Conversation(list(history), relied_on=brief.relied_on)
        talk.say(brief.text)
        self.fit(talk, brief)
        return talk

    def tools(self, talk: Conversation, brief: Brief) -> tuple[dict[str, Any], ...]:
        """Describe the tools of a turn; what a call opens stays open while the model is shown that call."""
        called = {call.name for message in talk.shown() for call in message.calls}
        return self.toolset.definitions(brief.tools, called)

    def is_idle(self, call: ToolCall) -> bool:
        """Tell whether a call does nothing to the world outside, so that its being made in turns leads nowhere."""
        return call.name in self.toolset.only_reading or self.writes(call)

    def fit(self, talk: Conversation, brief: Brief) -> None:
        """Shorten a conversation until its estimate leaves room for the answer, or nothing is left to leave out."""
        room, template = self.window - self.answer, self.prompts["shortened"]
        while talk.tokens(brief.system, self.tools(talk, brief), brief.bytes_a_token) > room:
            if not talk.shorten(template):
                return


@dataclass(slots=True)
class _Running:
    """One turn in the making."""

    agent: Agent
    brief: Brief
    talk: Conversation
    caller: Caller
    listen: Listener
    stopping: Callable[[], bool]
    deadline: float
    runs: list[ToolRun] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    said: str = ""
    same: int = 0
    stuck: bool = False
    called: list[ToolCall] = field(default_factory=list)
    sent: bool = False
    newest: str = "none"
    notice: Notice = field(default_factory=lambda: Notice(""))

    def go(self) -> Turn:
        prompts = self.agent.prompts
        try:
            if limit := self._until_answered():
                self._last_word(limit)
        except (TurnStopped, KeyboardInterrupt):
            return self._broken_off("stopped", prompts["stopped"])
        except ProviderError as error:
            self._note(error)
            return self._broken_off("error", fill(prompts["failed"], {"error": self.notice.text}, "error"))
        return self._turn(limit)

    def _until_answered(self) -> str:
        """Go round until the model answers ('') or a limit ends it (its name)."""
        while True:
            try:
                calls = self._ask()
            except DeadlinePassed:
                return "seconds"
            for call in calls:
                self._check_stop()
                if self.agent.clock() < self.deadline:
                    self._run(call)
            if not calls and not self._sent_to_measure():
                return ""
            if limit := self._limit():
                return limit

    def _ask(self, *, calls: bool = True) -> list[ToolCall]:
        """Make one request, shortened until it fits; the answer joins the conversation."""
        self.agent.fit(self.talk, self.brief)
        while True:
            try:
                return self._answer(calls=calls)
            except ContextOverflow:
                if not self.talk.shorten(self.agent.prompts["shortened"]):
                    raise

    def _answer(self, *, calls: bool) -> list[ToolCall]:
        self._check_stop()
        self.steps += 1
        agent, brief = self.agent, self.brief
        tools, lost = agent.tools(self.talk, brief), agent.prompts["lost"]
        request = Request(brief.system, self.talk.shown(), tools, agent.answer, self.deadline, brief.model, calls, lost)
        made: list[ToolCall] = []
        end = End("stop", Usage())
        for event in agent.provider.events(request):
            match event:
                case Text():
                    self.said += event.text
                case ToolCall():
                    made.append(event)
                case End():
                    end = event
                case Notice():
                    self.notice = event
            if not isinstance(event, ToolCall):
                self.listen(event)
            self._check_stop()
            if end.finish == REPEATS:
                break  # which hangs up
        self.usage += end.usage
        made = made if calls else []
        self.talk.answer(self._worded(end, made, alone=calls), made)
        self.said = ""
        return made

    def _worded(self, end: End, calls: list[ToolCall], *, alone: bool) -> str:
        prompts, said = self.agent.prompts, self.said
        if not said.strip():
            return "" if calls else (self._result_alone() if alone else "") or prompts["empty"]
        if calls:
            return said
        if end.finish == REPEATS:
            return f"{said[: len(said) - repeated(said)].rstrip()}\n{prompts['repeats']}"
        if end.finish == "length":
            return f"{said}\n{fill(prompts['cut'], {'tokens': str(self.agent.answer)})}"
        return said

    def _result_alone(self) -> str:
        """The newest good result, for a model that has nothing to say about it; '' where there is none."""
        run = next((run for run in reversed(self.runs) if not run.result.startswith(ERROR)), None)
        if run is None:
            return ""
        shown = run.result if len(run.result) <= LONGEST_RESULT else f"{run.result[:LONGEST_RESULT]}…"
        return fill(self.agent.prompts["result"], {"tool": run.name, "result": shown}, "result")

    def _sent_to_measure(self) -> bool:
        """Mark what an answer without a call gives as measured; the first time, the model is asked to measure it."""
        answer, prompts, brief = self.talk.messages[-1], self.agent.prompts, self.brief
        can = any("quantity" in tool["parameters"]["properties"] for tool in self.agent.tools(self.talk, brief))
        values = unfounded(answer.text, brief.text, self.talk.shown(), brief.system) if can else []
        if not values:
            return False
        mark = Text(f"\n{fill(prompts['unmeasured'], {'values': ', '.join(values)}, 'values')}\n")
        self.listen(mark)
        self.talk.messages[-1] = answer._replace(text=f"{answer.text}{mark.text}".rstrip())
        first, self.sent = not self.sent, True
        if first:
            self.talk.instruct(fill(prompts["measure"], {"question": words(brief.text)}, "question"))
        return first

    def _run(self, call: ToolCall) -> None:
        self.called.append(call)
        self.same = in_a_row(self.called, self.agent.is_idle)
        self.stuck = self.same >= (SAME_READS if self._reads_well(call) else SAME_CALLS)
        self.listen(call)
        began = self.agent.clock()
        if not (result := self._refused(call)):
            result = self.newest = self.agent.toolset.call(call, self.caller)
        run = ToolRun(call.name, call.arguments, result, (self.agent.clock() - began) * 1000)
        self.runs.append(run)
        self.talk.result(call, result)
        self.listen(run)

    def _refused(self, call: ToolCall) -> str:
        """Why a call is not made, '' when it is."""
        only, prompts = self.brief.only, self.agent.prompts
        if only is not None and call.name not in only:
            return fill(prompts["not_offered"], {"tool": call.name, "tools": ", ".join(sorted(only))}, "tools")
        before = self._results(call)
        if self.stuck:
            return fill(prompts["repeated"], {"result": before[-1]}, "result")
        if self.same > 1 and not before[-1].startswith(ERROR) and self.agent.writes(call):
            return fill(prompts["written"], {"result": before[-1]}, "result")
        return ""

    def _results(self, call: ToolCall) -> list[str]:
        return [run.result for run in self.runs if (run.name, run.arguments) == (call.name, call.arguments)]

    def _reads_well(self, call: ToolCall) -> bool:
        """Whether a call only looks, and what it saw before was no error."""
        return call.name in self.agent.toolset.only_reading and not any(
            result.startswith(ERROR) for result in self._results(call)
        )

    def _limit(self) -> str:
        limits = self.agent.limits
        reached = {
            "repeated": self.stuck,
            "steps": self.steps >= limits.steps,
            "seconds": self.agent.clock() >= self.deadline,
            "tokens": self.usage.total >= limits.tokens,
        }
        return next((name for name, over in reached.items() if over), "")

    def _last_word(self, limit: str) -> None:
        """Ask once more, without tools, so that the person learns where things stand."""
        prompts = self.agent.prompts
        self.talk.settle(prompts["not_run"])
        if self.said:
            self.talk.answer(self.said)
            self.said = ""
        limits = self.agent.limits
        numbers = {"steps": limits.steps, "seconds": f"{limits.seconds:g}", "tokens": limits.tokens}
        reason = fill(prompts[f"limit_{limit}"], {name: str(number) for name, number in numbers.items()})
        self.talk.instruct(fill(prompts["limit"], {"reason": reason}, "reason"))
        self.deadline = self.agent.clock() + min(LAST_WORD_SECONDS, self.agent.limits.seconds)
        try:
            self._ask(calls=False)
        except ProviderError as error:
            self._note(error)
        if self.talk.messages[-1].text == prompts["empty"]:
            self.talk.messages.pop()
        if self.talk.messages[-1].role != "assistant":
            used = ", ".join(dict.fromkeys(run.name for run in self.runs)) or "nothing"
            known = {"reason": reason, "tools": used, "result": self.newest}
            self.talk.answer(f"{self.said}\n{fill(prompts['unfinished'], known, 'result')}".strip())

    def _check_stop(self) -> None:
        if self.stopping():
            raise TurnStopped

    def _note(self, error: ProviderError) -> None:
        self.notice = Notice(" ".join(str(error).split()), failed=True)

    def _broken_off(self, how: str, mark: str) -> Turn:
        """Answer what is open, keep what was said so far, and mark it as cut."""
        self.talk.settle(self.agent.prompts["not_run"])
        self.talk.answer(f"{self.said}\n{mark}".strip())
        return self._turn(how)

    def _turn(self, how: str) -> Turn:
        return Turn(
            reply=self.talk.messages[-1].text,
            messages=tuple(self.talk.messages),
            steps=self.steps,
            tools=tuple(self.runs),
            usage=self.usage,
            stopped=how,
            provider=self.agent.provider.name,
            notice=self.notice,
            forgotten=self.talk.forgotten,
        )
