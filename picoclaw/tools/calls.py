"""The calls of one turn: which are made, which are refused, and what they gave."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from picoclaw.hw.claims import ERROR
from picoclaw.messages import Caller, Message, ToolCall, ToolRun
from picoclaw.prompt import Templates, fill
from picoclaw.providers.repetition import in_a_row
from picoclaw.tools.toolset import Toolset

SAME_CALLS, SAME_READS = 3, 4  # somebody may want to see three values, one after the other
LONGEST_RESULT = 1000  # characters, of one that is told because the model says nothing


@dataclass(slots=True)
class Calls:
    """Makes calls by a toolset and remembers them.

    `only` are the names of those that may be made, None for all; `writes` tells whether one changes files, so that
    doing it twice in a row can only be a slip. `stuck` says that the same was asked for again and again.
    """

    toolset: Toolset
    prompts: Templates
    only: frozenset[str] | None
    writes: Callable[[ToolCall], bool]
    clock: Callable[[], float]
    runs: list[ToolRun] = field(default_factory=list)
    newest: str = "none"
    stuck: bool = False
    _same: int = 0
    _asked: list[ToolCall] = field(default_factory=list)

    def acts(self, call: ToolCall) -> bool:
        """Tell whether a call may change something, so that it must not be made twice by mistake."""
        return call.name not in self.toolset.only_reading

    def announce(self, calls: Sequence[ToolCall], caller: Caller) -> None:
        """Tell of calls that are about to be made."""
        caller.agreed.clear()
        if len(calls) > 1:
            self.toolset.announce([call for call in calls if self.only is None or call.name in self.only], caller)

    def make(self, call: ToolCall, caller: Caller) -> ToolRun:
        """Make a call, or refuse it."""
        self._count(call)
        began = self.clock()
        if not (result := self._refused(call)):
            result = self.newest = self.toolset.call(call, caller)
        self.runs.append(ToolRun(call.name, call.arguments, result, (self.clock() - began) * 1000))
        return self.runs[-1]

    def remember(self, messages: Iterable[Message]) -> None:
        """Know the calls of a turn that another process has begun, by its messages."""
        asked: list[ToolCall] = []
        for message in messages:
            if message.role != "tool":
                asked = list(message.calls)
            elif asked:
                self.met(asked.pop(0), message.text)

    def met(self, call: ToolCall, result: str) -> None:
        """Take a call for made, with that result."""
        self._count(call)
        self.newest = result
        self.runs.append(ToolRun(call.name, call.arguments, result, 0.0))

    def begin_anew(self) -> None:
        """Count no call from before as the same: whoever asks has said something new."""
        self._asked.clear()
        self.stuck = False

    def told_alone(self) -> str:
        """The newest good result, for a model that has nothing to say about it; '' where there is none."""
        run = next((run for run in reversed(self.runs) if not run.result.startswith(ERROR)), None)
        if run is None:
            return ""
        shown = run.result if len(run.result) <= LONGEST_RESULT else f"{run.result[:LONGEST_RESULT]}…"
        return fill(self.prompts["result"], {"tool": run.name, "result": shown}, "result")

    def _count(self, call: ToolCall) -> None:
        self._asked.append(call)
        self._same = in_a_row(self._asked, self._is_idle)
        self.stuck = self._same >= (SAME_READS if self._reads_well(call) else SAME_CALLS)

    def _refused(self, call: ToolCall) -> str:
        """Why a call is not made, '' when it is."""
        only, prompts = self.only, self.prompts
        if only is not None and call.name not in only:
            return fill(prompts["not_offered"], {"tool": call.name, "tools": ", ".join(sorted(only)) or "-"}, "tools")
        before = self._results(call)
        if self.stuck:
            return fill(prompts["repeated"], {"result": before[-1]}, "result")
        if self._same > 1 and not before[-1].startswith(ERROR) and self.writes(call):
            return fill(prompts["written"], {"result": before[-1]}, "result")
        return ""

    def _results(self, call: ToolCall) -> list[str]:
        return [run.result for run in self.runs if (run.name, run.arguments) == (call.name, call.arguments)]

    def _reads_well(self, call: ToolCall) -> bool:
        """Whether a call only looks, and what it saw before was no error."""
        return not (self.acts(call) or any(result.startswith(ERROR) for result in self._results(call)))

    def _is_idle(self, call: ToolCall) -> bool:
        """Whether a call does nothing to the world outside, so that its being made in turns leads nowhere."""
        return not self.acts(call) or self.writes(call)
