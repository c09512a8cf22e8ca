"""The loop: ask the model, run what it asks for, until it answers or a limit is reached.

However a turn ends, the conversation stays valid: each call has its result, and the last word is an assistant's.
Knows no channel, no file and no wording; time, model, tools and templates are handed in.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from picoclaw.agent.conversation import Conversation, HistoryView
from picoclaw.answers import (
    REPEATS,
    count_in_a_row,
    count_repeated,
    find_promise,
    find_unfounded_claims,
    find_unfounded_values,
)
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import (
    ContextOverflow,
    DeadlinePassed,
    MaybeTooLong,
    PicoclawError,
    ProviderError,
    TurnStopped,
)
from picoclaw.messages import (
    ERROR_PREFIX,
    NO_HOOKS,
    Caller,
    End,
    Message,
    Notice,
    Request,
    Text,
    ToolCall,
    ToolRun,
    Turn,
    TurnContext,
    TurnHooks,
    Usage,
    strip_context,
)
from picoclaw.prompts import (
    READ_ON_TOOL,
    Templates,
    cut_bytes,
    fill_block,
    fill_template,
    get_summary_bytes,
    measure_bytes_a_token,
    split_window,
)
from picoclaw.providers import Provider, guard_events
from picoclaw.records import dataclass, field, replace
from picoclaw.text import truncate
from picoclaw.tools.registry import Toolset, list_texts

LAST_WORD_SECONDS = 60.0

CONTENT_FILTER = "content_filter"
"""How a server says that it has ended an answer that it does not want to give."""

Turns = Sequence[tuple[Message, ...]]


@dataclass(frozen=True)
class Agent:
    """What every turn needs. `prompts` are templates by name, `window` and `answer` tokens, `clock` seconds.

    Without a `window` the provider is no model: it is given the names of the tools, and the whole conversation.

    `writes` tells whether a call changes files, so that doing it twice in a row can only be a slip. It `has_last_word` at
    a limit, unless nobody would hear that.
    """

    provider: Provider
    toolset: Toolset
    prompts: Templates
    limits: LimitsConfig
    window: int
    answer: int
    clock: Callable[[], float] = time.monotonic
    writes: Callable[[ToolCall], bool] = lambda _: False
    has_last_word: bool = True

    def turn(
        self,
        brief: TurnContext,
        history: Turns,
        caller: Caller,
        hooks: TurnHooks = NO_HOOKS,
        so_far: Sequence[Message] = (),
    ) -> Turn:
        """Answer one message, after the earlier turns in `history`.

        Ctrl-C ends it like the stop of the hooks. Raises nothing that a model, a tool or a person did: `Turn.stopped`
        is '' when the model answered of its own accord, else 'steps', 'seconds', 'tokens', 'repeated', 'stopped' or
        'error'.

        A turn goes on from the messages `so_far` that `hooks.keep` was last handed. An open call that only reads is
        made again. One that acts is not: whether it was done is not known. The limits count from here.
        """
        run = _TurnRun(self, brief, history, caller, hooks, so_far)
        limit = ""
        try:
            run.finish_open_calls()
            while not limit and run.conversation.messages[-1].role != "assistant":
                try:
                    calls = run.ask()
                except DeadlinePassed:
                    limit = "seconds"
                    break
                run.make_calls(calls)
                if not calls and not run.check_answer():
                    break
                limit = run.get_reached_limit()
                if not limit:
                    run.take_typed()
            if limit and self.has_last_word:
                run.ask_last_word(limit)
        except (TurnStopped, KeyboardInterrupt):
            return run.break_off("stopped", self.prompts["stopped"])
        except ProviderError as error:
            run.note_failure(error)
            mark = fill_template(self.prompts["failed"], {"error": run.notice.text}, "error")
            return run.break_off("error", mark)
        return run.end(limit)

    def build_conversation(
        self,
        brief: TurnContext,
        history: Turns,
        messages: Sequence[Message] = (),
        keep: Callable[[str, str], int] = lambda *_: 0,
    ) -> Conversation:
        """Begin a turn's conversation: what was said before, as far as the window takes it, and the new messages."""
        said = cut_bytes(brief.summary, get_summary_bytes(self.window))
        summary = said and fill_block(self.prompts["summarised"], "", said)
        conversation = Conversation(
            list(history), list(messages or [Message("user", brief.text)]), 0, brief.relied_on, summary, keep_whole=keep
        )
        self.shorten_to_window(conversation, brief, self.tools(brief))
        return conversation

    def tools(self, brief: TurnContext) -> tuple[dict[str, Any], ...]:
        """Describe the tools of a turn; nothing that a turn calls changes them."""
        if not self.window:
            return tuple({"name": name} for name in sorted(brief.tools or self.toolset.names))
        return self.toolset.definitions(brief.tools, split_window(self.window, self.answer).tools)

    def shorten_to_window(self, conversation: Conversation, brief: TurnContext, tools: Sequence[Any]) -> None:
        """Shorten a conversation until its estimate leaves room for the answer, or nothing is left to leave out."""
        most = split_window(self.window, self.answer).request if self.window else 0
        while most and conversation.count_tokens(brief.system, tools, brief.bytes_a_token) > most:
            if not conversation.shorten(self.prompts["shortened"]):
                return


class _TurnRun:
    """One turn in the making: its conversation, its calls, and what it has used of its limits.

    `said` is the text of the newest answer, as far as it has come.
    """

    def __init__(
        self,
        agent: Agent,
        brief: TurnContext,
        history: Turns,
        caller: Caller,
        hooks: TurnHooks,
        so_far: Sequence[Message],
    ) -> None:
        self.agent, self.brief, self.hooks, self.prompts = agent, brief, hooks, agent.prompts
        keep = agent.toolset.keep_whole
        self.conversation = agent.build_conversation(
            brief, history, so_far, lambda tool, result: keep(tool, result, caller)
        )
        allowed = [names for names in (brief.only, caller.may) if names is not None]
        only = frozenset.intersection(*allowed) | {READ_ON_TOOL} & agent.toolset.names if allowed else None
        self.calls = TurnCalls(agent.toolset, agent.prompts, only, agent.writes, agent.clock)
        self.calls.remember(self.conversation.messages)
        self.tools = agent.tools(brief)
        self.caller = caller if hooks.stop is None else replace(caller, stop=hooks.stop)
        self.steps, self.usage = 0, Usage()
        self.deadline = agent.clock() + agent.limits.seconds
        self.said = ""
        self.last_end = End("stop", Usage())
        self.notice = Notice("")
        self.question = brief.text  # the user's newest message
        self.typed: tuple[str, ...] = ()
        self.unanswered_texts: tuple[str, ...] = ()
        self.was_asked_again = False
        self.unfounded: list[str] = []
        self.saved_count = 0

    def finish_open_calls(self) -> None:
        """Give a result to each call that another process left open, without doing anything twice."""
        for call in self.conversation.list_open_calls():
            self._check_stop()
            if self.calls.may_change(call):
                self.calls.add_past(call, self.prompts["lost_act"])
                self.conversation.add_result(call, self.prompts["lost_act"])
            else:
                self._make_call(call)

    def ask(self, *, with_calls: bool = True) -> list[ToolCall]:
        """Make one request, shortened until it fits; the answer joins the conversation. Returns the calls it wants.

        After a refusal without a reason it is repeated with half of the history. If that does not help at the same
        server, later requests show the full history again.
        """
        agent, conversation, stop = self.agent, self.conversation, self.hooks.stop
        agent.shorten_to_window(conversation, self.brief, self.tools)
        whole: HistoryView | None = None
        halved_for, calls = "", list[ToolCall]()
        while True:
            try:
                self._check_stop()
                self.steps += 1
                request = Request(
                    self.brief.system,
                    conversation.list_messages(),
                    self.tools,
                    agent.answer,
                    self.deadline,
                    self.brief.model,
                    with_calls,
                    self.prompts["lost"],
                    stop,
                    self.prompts["untrusted"],
                    self.caller.purpose,
                )
                self.said, self.last_end, calls = "", End("stop", Usage()), []
                for event in guard_events(agent.provider.events(request)):
                    match event:
                        case Text():
                            self.said += event.text
                        case ToolCall():
                            calls.append(event)
                        case End():
                            self.last_end = event
                        case Notice():
                            self._add_notice(event)
                    if not isinstance(event, ToolCall):
                        self.hooks.listen(event)
                    self._check_stop()
                    if self.last_end.finish == REPEATS:
                        break  # which hangs up
            except MaybeTooLong:
                halved_for, whole = agent.provider.name, conversation.get_view()
                if conversation.history:
                    conversation.shorten(self.prompts["shortened"])
            except ContextOverflow:
                if not conversation.shorten(self.prompts["shortened"]):
                    raise
            except (PicoclawError, KeyboardInterrupt):
                conversation.restore(whole)
                raise
            else:
                break
        self.usage += self.last_end.usage
        ratio = measure_bytes_a_token(self.brief.bytes_a_token, self.last_end.usage)
        self.brief = self.brief._replace(bytes_a_token=ratio)
        calls = calls if with_calls else []
        conversation.add_answer(self._word_answer(calls, with_calls=with_calls), calls, self.last_end.thought)
        self.said = ""
        if halved_for != agent.provider.name:
            conversation.restore(whole)
        return calls

    def _word_answer(self, calls: Sequence[ToolCall], *, with_calls: bool) -> str:
        """The answer's text as it is kept: marked when it was cut, and never empty unless calls are."""
        said, finish = self.said, self.last_end.finish
        if finish == CONTENT_FILTER and not calls:
            return f"{said}\n{self.prompts['filtered']}".strip()
        if calls:
            return said if said.strip() else ""
        if not said.strip():
            return (self.calls.format_last_result() if with_calls else "") or self.prompts["empty"]
        if finish == REPEATS:
            return f"{said[: len(said) - count_repeated(said)].rstrip()}\n{self.prompts['repeats']}"
        if finish == "length":
            return f"{said}\n{fill_template(self.prompts['cut'], {'tokens': str(self.agent.answer)})}"
        return said

    def _add_notice(self, notice: Notice) -> None:
        """Add to what the person should know about how the answer came about; nothing is said twice."""
        earlier = self.notice
        texts = [earlier.text, notice.text if notice.text not in earlier.text else ""]
        self.notice = Notice("; ".join(filter(None, texts)), earlier.failed or notice.failed)

    def check_answer(self) -> bool:
        """Mark what an answer tells without a source; the first time, the model is asked to measure it, or to do it."""
        if not self.agent.window:  # the matcher makes nothing up, and the small profile looks itself
            return False
        prompts, conversation, answer = self.prompts, self.conversation, self.conversation.messages[-1]
        marks, ask = [], ""
        if self.unfounded:
            marks.append(fill_template(prompts["unfounded"], {"values": ", ".join(self.unfounded)}, "values"))
            self.unfounded = []
        can_measure = any("quantity" in tool["parameters"]["properties"] for tool in self.tools)
        shown = conversation.list_messages() if can_measure else ()
        if can_measure and (values := find_unfounded_claims(answer.text, self.question, shown, self.brief.system)):
            marks.append(fill_template(prompts["unmeasured"], {"values": ", ".join(values)}, "values"))
            ask = fill_template(prompts["measure"], {"question": strip_context(self.question)}, "question")
        elif (
            not self.calls.runs
            and self.brief.tools != frozenset()
            and (said := find_promise(answer.text, self.question))
        ):
            marks.append(prompts["promised"])
            ask = fill_template(prompts["act"], {"said": said}, "said")
        if not marks:
            return False
        mark = "\n" + "\n".join(marks) + "\n"
        conversation.messages[-1] = answer._replace(text=f"{answer.text}{mark}".rstrip())
        self.hooks.listen(Text(mark))
        first, self.was_asked_again = bool(ask) and not self.was_asked_again, True
        if first:
            conversation.instruct(ask)
        return first

    def make_calls(self, calls: Sequence[ToolCall]) -> None:
        """Make the calls of an answer, until the person says something that they do not take into account."""
        self.calls.announce(calls, self.caller)
        for call in calls:
            self._check_stop()
            if self.take_typed():
                self.conversation.fill_missing_results(self.prompts["put_off"])
                break
            if self.agent.clock() < self.deadline:
                self._make_call(call)
        if calls:
            self._keep()

    def _make_call(self, call: ToolCall) -> None:
        if acts := self.calls.may_change(call):
            self._keep()
            if self.agent.window and self.agent.writes(call):
                kept = "\n".join(list_texts(call))
                self.unfounded += find_unfounded_values(kept, self.conversation.list_messages(), self.brief.system)
        self.hooks.listen(call)
        run = self.calls.make(call, self.caller)
        self.conversation.add_result(call, run.result)
        if acts:
            self._keep()
        self.hooks.listen(run)

    def _keep(self) -> None:
        """Hand on what the turn consists of: before something is done, and what came of it."""
        if self.saved_count != len(self.conversation.messages):
            self.saved_count = len(self.conversation.messages)
            self.hooks.keep(tuple(self.conversation.messages))

    def take_typed(self) -> bool:
        """Take in what the person has typed meanwhile; not beside the matcher, which answers one thing at a time."""
        typed = tuple(self.hooks.typed()) if self.last_end.usage.total else ()  # the matcher's answers count no tokens
        for text in typed:
            self.question = fill_template(self.prompts["meanwhile"] or "{content}", {"content": text}, "content")
            self.conversation.add_user_text(self.question)
        if typed:
            self.typed += typed
            self.caller = replace(self.caller, user_texts=(*self.caller.user_texts, *typed))
            self.calls.forget_repeats()
        return bool(typed)

    def get_reached_limit(self) -> str:
        """Name the limit that is reached, '' for none."""
        limits = self.agent.limits
        if self.calls.stuck:
            return "repeated"
        if self.steps >= limits.steps:
            return "steps"
        if self.agent.clock() >= self.deadline:
            return "seconds"
        return "tokens" if self.usage.total >= limits.tokens else ""

    def ask_last_word(self, limit: str) -> None:
        """Ask once more, without tools, so that the person learns where things stand."""
        prompts, limits, conversation = self.prompts, self.agent.limits, self.conversation
        conversation.fill_missing_results(prompts["not_run"])
        if self.said:
            conversation.add_answer(self.said)
            self.said = ""
        numbers = {"steps": str(limits.steps), "seconds": f"{limits.seconds:g}", "tokens": str(limits.tokens)}
        reason = fill_template(prompts[f"limit_{limit}"], numbers)
        conversation.instruct(fill_template(prompts["limit"], {"reason": reason}, "reason"))
        self.deadline = self.agent.clock() + min(LAST_WORD_SECONDS, limits.seconds)
        try:
            self.ask(with_calls=False)
        except ProviderError as error:
            self.note_failure(error)
        if conversation.messages[-1].text == prompts["empty"]:
            conversation.messages.pop()
        if conversation.messages[-1].role != "assistant":
            used = ", ".join(dict.fromkeys(run.name for run in self.calls.runs)) or "nothing"
            known = {"reason": reason, "tools": used, "result": self.calls.newest}
            conversation.add_answer(f"{self.said}\n{fill_template(prompts['unfinished'], known, 'result')}".strip())

    def note_failure(self, error: ProviderError) -> None:
        """Note why no answer came, and which typed texts no answer has begun on."""
        self.notice = Notice(" ".join(str(error).split()), failed=True)
        if not self.said:
            self.unanswered_texts = self.typed[len(self.typed) - len(self.conversation.waiting) :]
            self.conversation.waiting.clear()

    def break_off(self, how: str, mark: str) -> Turn:
        """Answer what is open, keep what was said so far, and mark it as cut."""
        self.conversation.fill_missing_results(self.prompts["not_run"])
        self.conversation.add_answer(f"{self.said}\n{mark}".strip())
        return self.end(how)

    def end(self, how: str) -> Turn:
        return Turn(
            reply=self.conversation.messages[-1].text,
            messages=tuple(self.conversation.messages),
            steps=self.steps,
            tools=tuple(self.calls.runs),
            usage=self.usage,
            stopped=how,
            provider=self.agent.provider.name,
            notice=self.notice,
            forgotten=self.conversation.forgotten,
            unanswered_texts=self.unanswered_texts,
            longest_said=self.conversation.longest_said,
        )

    def _check_stop(self) -> None:
        if self.hooks.stop:
            raise TurnStopped


# The calls of one turn: which are made, which are refused, and what they gave.

SAME_CALLS, SAME_READS = 3, 4  # somebody may want to see three values, one after the other
MAX_SHOWN_RESULT = 1000  # characters, of one that is told because the model says nothing


@dataclass
class TurnCalls:
    """Runs the calls of one turn and remembers them.

    `only` are the tools that may be called (None: all); `writes` tells whether a call changes files, so that repeating it at
    once must be a slip. `stuck` is set when the same call was made again and again.
    """

    toolset: Toolset
    prompts: Templates
    only: frozenset[str] | None
    writes: Callable[[ToolCall], bool]
    clock: Callable[[], float]
    runs: list[ToolRun] = field(default_factory=list)
    newest: str = "none"
    stuck: bool = False
    _repeats: int = 0
    _made: list[ToolCall] = field(default_factory=list)

    def may_change(self, call: ToolCall) -> bool:
        """Whether a call may change something, so that it must not be repeated by mistake."""
        return not self.toolset.only_reads(call.name)

    def announce(self, calls: Sequence[ToolCall], caller: Caller) -> None:
        caller.agreed.clear()
        if len(calls) > 1:
            self.toolset.announce([call for call in calls if self.only is None or call.name in self.only], caller)

    def make(self, call: ToolCall, caller: Caller) -> ToolRun:
        self._count_repeats(call)
        began = self.clock()
        if not (result := self._explain_refusal(call)):
            result = self.newest = self.toolset.call(call, caller)
        self.runs.append(ToolRun(call.name, call.arguments, result, (self.clock() - began) * 1000))
        return self.runs[-1]

    def remember(self, messages: Iterable[Message]) -> None:
        """Take over the calls of a turn that another process began, from its messages."""
        asked: list[ToolCall] = []
        for message in messages:
            if message.role != "tool":
                asked = list(message.calls)
            elif asked:
                self.add_past(asked.pop(0), message.text)

    def add_past(self, call: ToolCall, result: str) -> None:
        self._count_repeats(call)
        self.newest = result
        self.runs.append(ToolRun(call.name, call.arguments, result, 0.0))

    def forget_repeats(self) -> None:
        """Count no earlier call as a repetition: the user has said something new."""
        self._made.clear()
        self.stuck = False

    def format_last_result(self) -> str:
        """The newest good result, for a model that says nothing about it; '' if there is none."""
        run = next((run for run in reversed(self.runs) if not run.result.startswith(ERROR_PREFIX)), None)
        if run is None:
            return ""
        shown = truncate(run.result, MAX_SHOWN_RESULT)
        return fill_template(self.prompts["result"], {"tool": run.name, "result": shown}, "result")

    def _count_repeats(self, call: ToolCall) -> None:
        self._made.append(call)
        # idle is what changes nothing outside
        self._repeats = count_in_a_row(self._made, lambda call: not self.may_change(call) or self.writes(call))
        has_read_well = not (self.may_change(call) or any(r.startswith(ERROR_PREFIX) for r in self._list_results(call)))
        self.stuck = self._repeats >= (SAME_READS if has_read_well else SAME_CALLS)

    def _explain_refusal(self, call: ToolCall) -> str:
        only, prompts = self.only, self.prompts
        if only is not None and call.name not in only:
            values = {"tool": call.name, "tools": ", ".join(sorted(only)) or "-"}
            return fill_template(prompts["not_offered"], values, "tools")
        before = self._list_results(call)
        if self.stuck:
            return fill_template(prompts["repeated"], {"result": before[-1]}, "result")
        if self._repeats > 1 and not before[-1].startswith(ERROR_PREFIX) and self.writes(call):
            return fill_template(prompts["written"], {"result": before[-1]}, "result")
        return ""

    def _list_results(self, call: ToolCall) -> list[str]:
        return [run.result for run in self.runs if (run.name, run.arguments) == (call.name, call.arguments)]
