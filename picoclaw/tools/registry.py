"""How a tool is declared, described to a model, and called: look up, check arguments, guard, run, cut.

A tool is a method marked `@tool`; its name, schema and help come from its signature and docstring. A parameter
named `caller` is handed in and never shown to the model. Every failure becomes a result the model can act on.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from picoclaw.claims import ERROR_PREFIX
from picoclaw.errors import PicoclawError, StoreError, ToolError
from picoclaw.messages import Caller, Message, ToolCall, ToolRun
from picoclaw.prompts import Templates, fill_template
from picoclaw.repetition import count_in_a_row
from picoclaw.schema import (
    InvalidArgument,
    Parameter,
    build_json_schema,
    check_arguments,
    find_nearest,
    read_parameters,
)
from picoclaw.security.policy import CallRequest, Effect, Policy
from picoclaw.security.redaction import Redactor
from picoclaw.security.untrusted import describe_source, strip_invisible
from picoclaw.window import READ_ON_TOOL, choose_dropped, count_tool_bytes, cut_result, remove_mark

Effects = tuple[Effect, ...]
EffectOf = Callable[[Mapping[str, Any]], Effects]
EffectMethod = Callable[[Any, Mapping[str, Any]], Effect | Effects]
BringsMethod = Callable[[Any, Mapping[str, Any], str, "Caller", bool], bool]
Method = TypeVar("Method", bound=Callable[..., str])

_KEEPS = frozenset({"write", "remember", "plan"})
_HIDDEN = ("self", "caller")


class Tool(NamedTuple):
    """A callable tool. `effects` are what a call with given arguments does; the first one is the main effect.

    `opens` are tools offered once this one was called, `later` parameters described only then. `brings` tells whether a
    result is untrusted text, `means` explains a call to the person who is asked, `binds` gives what else an approval holds
    for, and `is_private` tells whether a call shows the owner's data.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    effects: EffectOf
    function: Callable[..., str]
    wants_caller: bool
    only_reads: bool = False
    opens: frozenset[str] = frozenset()
    brings: Callable[[Mapping[str, Any], str, Caller, bool], bool] | None = None
    later: frozenset[str] = frozenset()
    means: Callable[[Mapping[str, Any]], str] | None = None
    binds: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None
    is_requested: Callable[[Mapping[str, Any], Caller], bool] | None = None
    is_private: Callable[[Mapping[str, Any]], bool] | None = None
    foreign_files: Callable[[Mapping[str, Any]], Sequence[str]] | None = None

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """The main effect of a call."""
        return self.effects(arguments)[0]

    def definition(self, *, called: bool = True) -> dict[str, Any]:
        """Describe the tool to a model, without its `later` parameters until it was `called`."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": build_json_schema(self.parameters, () if called else self.later),
        }


def tool(
    effect: Effect | EffectMethod,
    *,
    opens: Collection[str] = (),
    brings: bool | BringsMethod = False,
    later: Collection[str] = (),
    means: Callable[[Any, Mapping[str, Any]], str] | None = None,
    binds: Callable[[Any, Mapping[str, Any]], Mapping[str, str]] | None = None,
    is_requested: Callable[[Any, Mapping[str, Any], Caller], bool] | None = None,
    private: bool | Callable[[Any, Mapping[str, Any]], bool] = False,
    foreign_files: Callable[[Any, Mapping[str, Any]], Sequence[str]] | None = None,
) -> Callable[[Method], Method]:
    """Mark a method as a tool. `effect` is what the guard judges: one, or a method that gives one or several by the arguments.

    Such a method raises ToolError for a call that could not be done, so that nobody is asked about it. The tools that this
    one `opens` are offered only once it was called in the conversation; parameters and choices named in `later` are always
    accepted, but described only then. `brings`: the result is untrusted text, or a method that decides by the arguments,
    the result, the caller and whether the call succeeded. `means` is a method that says in plain words what a call would
    do, for the person who is asked; `binds` one that gives what else an approval holds for, by name, such as the working
    folder or the checksum of a file that it runs. `is_requested` is a method that tells whether the caller's own words ask
    for this, so that a tainted turn need not ask. `private`: the call shows, or reveals by its errors, the owner's data, or
    a method that decides by the arguments and raises nothing. `foreign_files` is a method that names files written by
    tainted turns that the call may run.
    """

    def mark(method: Method) -> Method:
        marks = effect, frozenset(opens), brings, frozenset(later), private, means, binds, is_requested, foreign_files
        method.__dict__["picoclaw_tool"] = marks
        return method

    return mark


def collect_tools(group: object) -> Iterable[Tool]:
    """List the tools of an object, in the order of their definition."""
    for name, method in vars(type(group)).items():
        if marks := getattr(method, "picoclaw_tool", None):
            effect, opens, brings, later, private, *methods = marks
            function = getattr(group, name)
            means, binds, is_requested, foreign_files = (partial(one, group) if one else None for one in methods)
            yield Tool(
                name=name,
                description=" ".join((function.__doc__ or "").split()),
                parameters=read_parameters(function, _HIDDEN),
                effects=_bind_effect(group, effect),
                function=function,
                wants_caller="caller" in getattr(function, "__annotations__", {}),
                only_reads=effect == "read" or getattr(effect, "__annotations__", {}).get("return") == Literal["read"],
                opens=opens,
                brings=partial(brings, group) if callable(brings) else (lambda *_: True) if brings else None,
                later=later,
                means=means,
                binds=binds,
                is_requested=is_requested,
                is_private=partial(private, group) if callable(private) else (lambda _: True) if private else None,
                foreign_files=foreign_files,
            )


def _bind_effect(group: object, effect: Effect | EffectMethod) -> EffectOf:
    if not callable(effect):
        return lambda _: (effect,)

    def list_effects(arguments: Mapping[str, Any]) -> Effects:
        found = effect(group, arguments)
        return found if isinstance(found, tuple) else (found,)

    return list_effects


def list_texts(call: ToolCall) -> Iterator[str]:
    for value in call.arguments.values():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text:
                yield text


class Toolset:
    """The tools of this board and configuration, and the only way to call them."""

    def __init__(
        self,
        groups: Iterable[object],
        *,
        guard: Callable[[CallRequest, Caller], object],
        journal: Callable[[ToolCall, Caller], None],
        longest_result: int,
        secrets: tuple[str, ...] = (),
        wording: Callable[[str], str | None] = lambda _: None,
        keep_whole: Callable[[str, str, Caller], int] = lambda *_: 0,
    ) -> None:
        """Collect the groups' tools.

        `guard(asked, caller)` raises Denied to stop a call, and is true when a person has just approved it; `journal(call,
        caller)` records an act durably before it is done; `longest_result` is in characters; `secrets` are masked in results;
        `wording(name)` is the owner's own description of a tool, if any; `keep_whole(tool, result, caller)` stores a result
        that is shown cut and returns its number, 0 when it cannot.
        """
        self.keep_whole = keep_whole
        self._wording = wording
        self._described: tuple[object, tuple[dict[str, Any], ...]] = None, ()
        self._tools = {t.name: t for group in groups for t in collect_tools(group)}
        self._guard = guard
        self.ended: Callable[[CallRequest, Caller, str], None] = lambda *_: None
        """Is told what came of an act, '' when it went well."""
        self.accepted: Callable[[CallRequest], None] = lambda _: None
        """Is told what a person has said yes to, before it is done."""
        self.ask_ahead: Callable[[Sequence[CallRequest], Caller], None] = lambda *_: None
        """Is told which calls are about to be made, one behind the other."""
        self._journal = journal
        self._longest_result = longest_result
        self._redact = Redactor(secrets)

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, also of those offered only at times."""
        return frozenset(self._tools)

    def shown_to_guests(self, policy: Policy) -> frozenset[str] | None:
        """The tools offered in a guest's turn; None where the policy keeps nothing private."""
        if policy.verdict("private", "", "guest")[0] == "allow":
            return None
        private = self.private
        return frozenset(
            name
            for name in self._tools
            if name not in private or policy.verdict("private", name, "guest")[0] != "refuse"
        )

    @property
    def only_reading(self) -> tuple[str, ...]:
        """The tools that never change anything."""
        return tuple(t.name for t in self._tools.values() if t.only_reads)

    def definitions(
        self, offered: Collection[str] | None = None, called: Collection[str] = (), most: int | None = None
    ) -> tuple[dict[str, Any], ...]:
        """Describe the `offered` tools (None: all), always in the same order.

        Tools that another one opens are left out until their opener is among the `called`. Beyond `most` bytes, the least
        needed tools are left out; they can still be called.
        """
        offered = self.names if offered is None else offered
        wording = {name: self._wording(name) for name in self._tools}
        key = frozenset(offered), frozenset(called), most, wording
        if self._described[0] != key:
            self._described = key, tuple(self._describe(offered, called, most, wording))
        return self._described[1]

    def _describe(
        self, offered: Collection[str], called: Collection[str], most: int | None, wording: Mapping[str, str | None]
    ) -> Iterator[dict[str, Any]]:
        closed = {name for name in offered if (openers := self.openers(name)) and openers.isdisjoint(called)}
        shown = [t for t in self._tools.values() if t.name in offered and t.name not in closed]
        found = [t.definition(called=t.name in called) for t in shown]
        found = [d | {"description": wording[d["name"]] or d["description"]} for d in found]
        left_out = choose_dropped({d["name"]: count_tool_bytes(d) for d in found}, most) if most is not None else ()
        return (d for d in found if d["name"] not in left_out)

    @property
    def private(self) -> frozenset[str]:
        """The tools that show the owner's data."""
        return frozenset(t.name for t in self._tools.values() if t.is_private and t.is_private({}))

    def opened(self, names: Collection[str]) -> frozenset[str]:
        """The tools that some others open."""
        return frozenset(name for t in self._tools.values() if t.name in names for name in t.opens)

    def openers(self, name: str) -> frozenset[str]:
        """The tools of which one has to be called before this one is offered; none for most."""
        return frozenset(tool.name for tool in self._tools.values() if name in tool.opens)

    def effect(self, call: ToolCall) -> Effect:
        """The main effect of a call; raises ToolError for one that cannot be made."""
        found = self._find(call)
        return found.effect(self._check_arguments(found, call))

    def call(self, call: ToolCall, caller: Caller) -> str:
        """Run a call and return its result for a model; errors begin with `error:`."""
        good, text = self.run(call, caller)
        return text if good else f"error: {text}"

    def announce(self, calls: Iterable[ToolCall], caller: Caller) -> None:
        """Announce calls that are about to be made, so that a person can be asked about all of them at once."""
        asked = []
        for call in calls:
            with suppress(PicoclawError):  # said when it is made
                asked.append(self.asked(call, caller))
        self.ask_ahead(asked, caller)

    def writes(self, call: ToolCall) -> bool:
        """Whether a call would write files, reminders or notes; False for an invalid one."""
        found = self._tools.get(call.name)
        try:
            return found is not None and not _KEEPS.isdisjoint(found.effects(self._check_arguments(found, call)))
        except PicoclawError:
            return False

    def run(self, call: ToolCall, caller: Caller) -> tuple[bool, str]:
        """Run a call; returns whether it succeeded, and the result or error, cut to size."""
        return self._run(call, caller, self._check_permission)

    def run_approved(self, asked: CallRequest, caller: Caller) -> tuple[bool, str]:
        """Run an approved call; the caller has made sure that it is still the same."""
        return self._run(asked.call, caller, lambda *_: (self._write_ahead(asked, caller), True))

    def _run(
        self,
        call: ToolCall,
        caller: Caller,
        admit: Callable[[Tool, ToolCall, dict[str, Any], Caller], tuple[CallRequest, bool]],
    ) -> tuple[bool, str]:
        good, asked, maker = False, None, caller
        try:
            found = self._find(call)
            arguments = self._check_arguments(found, call)
            asked, agreed = admit(found, call, arguments, caller)
            if agreed:
                maker = replace(caller, heard=set())  # what is written is the word of the owner, who has seen it
                self.accepted(asked)
            extra = {"caller": maker} if found.wants_caller else {}
            result, good = found.function(**arguments, **extra), True
        except PicoclawError as error:
            result = str(error)
        except Exception as error:  # noqa: BLE001 - a tool must not end the turn
            result = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
        caller.heard.update(maker.heard)
        if good and call.name in self.private:
            caller.private.add(call.name)
        if asked:
            self._record_taint(asked.call, result, caller, good=good)
        if asked and asked.effect != "read":
            self.ended(asked, caller, "" if good else result)
        return good, self._format_result(call.name, result, caller)

    def _record_taint(self, call: ToolCall, result: str, caller: Caller, *, good: bool) -> None:
        """Record untrusted text that a call returned; else what the model wrote, while the turn is untainted."""
        brings = self._tools[call.name].brings
        if brings and brings(call.arguments, result, caller, good):
            caller.heard.add(describe_source(ToolCall("", call.name, self._redact.values(call.arguments))))
        if not caller.heard:
            caller.written.extend(list_texts(call))

    def _find(self, call: ToolCall) -> Tool:
        if call.name not in self._tools:
            raise ToolError(f"there is no tool {call.name!r}{find_nearest(call.name, self._tools)}")
        return self._tools[call.name]

    def _check_arguments(self, found: Tool, call: ToolCall) -> dict[str, Any]:
        if call.broken:
            raise ToolError(
                f"the arguments of {call.name} are not a JSON object: {call.broken[:200]!r}; send them again"
            )
        try:
            return check_arguments(found.parameters, call.arguments)
        except InvalidArgument as error:
            raise ToolError(f"argument {error}") from None

    def _check_permission(
        self, found: Tool, call: ToolCall, arguments: dict[str, Any], caller: Caller
    ) -> tuple[CallRequest, bool]:
        """Ask the guard; returns the request, and whether a person has just approved it."""
        try:
            asked = self._build_request(found, call, arguments, caller)
        except PicoclawError:
            if found.is_private and found.is_private(arguments):  # what is wrong with it tells of what is there
                self._guard(
                    CallRequest("read", ToolCall(call.id, call.name, arguments), other_effects=("private",)), caller
                )
            raise
        agreed = bool(self._guard(asked, caller))
        return self._write_ahead(asked, caller), agreed

    def _write_ahead(self, asked: CallRequest, caller: Caller) -> CallRequest:
        try:
            if asked.effect not in {"read", "safe"}:  # what goes to safety waits for no disk, and may be done twice
                self._journal(asked.call, caller)
        except StoreError as error:
            raise ToolError(f"nothing was done, since it cannot be written down first: {error}") from None
        return asked

    def asked(self, call: ToolCall, caller: Caller | None = None, *, whole: bool = False) -> CallRequest:
        """What a call would do and what an approval of it holds for; raises ToolError for an invalid one.

        With a `caller` also whether they asked for it; `whole` gives all details also of a call that only reads.
        """
        found = self._find(call)
        return self._build_request(found, call, self._check_arguments(found, call), caller, whole=whole)

    def _build_request(
        self, found: Tool, call: ToolCall, arguments: dict[str, Any], caller: Caller | None, *, whole: bool = False
    ) -> CallRequest:
        (effect, *also), exact = found.effects(arguments), ToolCall(call.id, call.name, arguments)
        if found.is_private and found.is_private(arguments):
            also.append("private")
        if effect == "read" and not (whole or (caller and caller.planned)):
            return CallRequest(effect, exact, other_effects=tuple(also))
        means = found.means(arguments) if found.means else ""
        is_requested = bool(found.is_requested and caller and found.is_requested(arguments, caller))
        foreign_files = tuple(found.foreign_files(arguments)) if found.foreign_files else ()
        bound = found.binds(arguments) if found.binds else {}
        return CallRequest(effect, exact, means, bound, is_requested, tuple(also), foreign_files)

    def _format_result(self, name: str, result: str, caller: Caller) -> str:
        """Mask secrets, remove invisible characters, and cut out the middle."""
        result = self._redact(strip_invisible(result))
        if name != READ_ON_TOOL:
            result = remove_mark(result)
        if len(result) <= self._longest_result:
            return result
        return cut_result(result, self._longest_result, self.keep_whole(name, result, caller))


# The calls of one turn: which are made, which are refused, and what they gave.

SAME_CALLS, SAME_READS = 3, 4  # somebody may want to see three values, one after the other
MAX_SHOWN_RESULT = 1000  # characters, of one that is told because the model says nothing


@dataclass(slots=True)
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
        return call.name not in self.toolset.only_reading

    def announce(self, calls: Sequence[ToolCall], caller: Caller) -> None:
        caller.agreed.clear()
        if len(calls) > 1:
            self.toolset.announce([call for call in calls if self.only is None or call.name in self.only], caller)

    def make(self, call: ToolCall, caller: Caller) -> ToolRun:
        """Run a call, or refuse it."""
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
        shown = run.result if len(run.result) <= MAX_SHOWN_RESULT else f"{run.result[:MAX_SHOWN_RESULT]}…"
        return fill_template(self.prompts["result"], {"tool": run.name, "result": shown}, "result")

    def _count_repeats(self, call: ToolCall) -> None:
        self._made.append(call)
        self._repeats = count_in_a_row(self._made, self._is_idle)
        self.stuck = self._repeats >= (SAME_READS if self._has_read_well(call) else SAME_CALLS)

    def _explain_refusal(self, call: ToolCall) -> str:
        only, prompts = self.only, self.prompts
        if only is not None and call.name not in only:
            return fill_template(
                prompts["not_offered"], {"tool": call.name, "tools": ", ".join(sorted(only)) or "-"}, "tools"
            )
        before = self._list_results(call)
        if self.stuck:
            return fill_template(prompts["repeated"], {"result": before[-1]}, "result")
        if self._repeats > 1 and not before[-1].startswith(ERROR_PREFIX) and self.writes(call):
            return fill_template(prompts["written"], {"result": before[-1]}, "result")
        return ""

    def _list_results(self, call: ToolCall) -> list[str]:
        return [run.result for run in self.runs if (run.name, run.arguments) == (call.name, call.arguments)]

    def _has_read_well(self, call: ToolCall) -> bool:
        return not (
            self.may_change(call) or any(result.startswith(ERROR_PREFIX) for result in self._list_results(call))
        )

    def _is_idle(self, call: ToolCall) -> bool:
        """Whether repeating a call is pointless: it changes nothing outside."""
        return not self.may_change(call) or self.writes(call)
