"""How a tool is declared, described to a model, and called: look up, check arguments, guard, run, cut.

A tool is a method marked `@tool`; its name, schema and help come from its signature and docstring. A parameter
named `caller` is handed in and never shown to the model. Every failure becomes a result the model can act on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from picoclaw.errors import PicoclawError, StoreError, ToolError
from picoclaw.messages import Caller, ToolCall
from picoclaw.redact import Redactor
from picoclaw.schema import Parameter, Unfit, check, json_schema, nearest, parameters
from picoclaw.tools.describing import Descriptions, openers
from picoclaw.trust.policy import Asked, Effect
from picoclaw.untrusted import shown, source
from picoclaw.window import READ_ON, cut, unmarked

Effects = tuple[Effect, ...]
EffectOf = Callable[[Mapping[str, Any]], Effects]
EffectMethod = Callable[[Any, Mapping[str, Any]], Effect | Effects]
Method = TypeVar("Method", bound=Callable[..., str])

_KEEPS = frozenset({"write", "remember", "plan"})
_HIDDEN = ("self", "caller")


class Tool(NamedTuple):
    """A callable tool. `effects` is what a call with given arguments does to the world, the one that names it first.

    `opens` are tools that make sense once this one was called, `later` its own parameters, and words for them, that do;
    `brings` says that its result is text from outside; `means` says in plain words what a person is asked to agree to,
    `binds` what else that yes holds for.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    effects: EffectOf
    function: Callable[..., str]
    wants_caller: bool
    only_reads: bool = False
    opens: frozenset[str] = frozenset()
    brings: bool = False
    later: frozenset[str] = frozenset()
    means: Callable[[Mapping[str, Any]], str] | None = None
    binds: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None
    vouched: Callable[[Mapping[str, Any], Caller], bool] | None = None

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Tell the first effect of a call with these arguments, by which it is known."""
        return self.effects(arguments)[0]

    def definition(self, *, called: bool = True) -> dict[str, Any]:
        """Describe the tool to a model: whole once it was called."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": json_schema(self.parameters, () if called else self.later),
        }


def tool(
    effect: Effect | EffectMethod,
    *,
    opens: Collection[str] = (),
    brings: bool = False,
    later: Collection[str] = (),
    means: Callable[[Any, Mapping[str, Any]], str] | None = None,
    binds: Callable[[Any, Mapping[str, Any]], Mapping[str, str]] | None = None,
    vouched: Callable[[Any, Mapping[str, Any], Caller], bool] | None = None,
) -> Callable[[Method], Method]:
    """Mark a method as a tool; `effect` feeds the guard, and may be a method that looks at the arguments.

    One that has several effects gives them all, and the strictest rule counts.

    Such a method raises ToolError for a call that could not be done, so that nobody is asked about it. The tools that
    this one `opens` are offered only once it was called in the conversation: what is done with a result costs no bytes
    before there is one; its own parameters and choices named in `later` are understood always, and described then.
    `brings`: its result is text that nobody in the chat has said. `means` is a method that says in plain words what a
    call would have done, for the person who is asked; `binds` one that gives what else their yes holds for, by name,
    such as the folder it works in, or the checksum of a file that it runs. `vouched` is one that tells whether a word
    of whoever asks leads there, so that a tainted turn is asked no more than another.
    """

    def mark(method: Method) -> Method:
        method.__dict__["picoclaw_tool"] = effect, frozenset(opens), brings, frozenset(later), means, binds, vouched
        return method

    return mark


def tools_of(group: object) -> Iterable[Tool]:
    """List the tools of an object, in the order of their definition."""
    for name, method in vars(type(group)).items():
        marks = getattr(method, "picoclaw_tool", None)
        if marks is not None:
            effect, opens, brings, later, *methods = marks
            given = partial(effect, group) if callable(effect) else _always(effect)
            found = _tool(name, getattr(group, name), partial(_each, given))
            said, bound, vouched = (partial(one, group) if one else None for one in methods)
            reads = effect == "read"
            yield found._replace(
                only_reads=reads, opens=opens, brings=brings, later=later, means=said, binds=bound, vouched=vouched
            )


def _tool(name: str, function: Callable[..., str], effects: EffectOf) -> Tool:
    annotations = getattr(function, "__annotations__", {})
    return Tool(
        name=name,
        description=" ".join((function.__doc__ or "").split()),
        parameters=parameters(function, _HIDDEN),
        effects=effects,
        function=function,
        wants_caller="caller" in annotations,
    )


def _always(effect: Effect) -> Callable[[Mapping[str, Any]], Effect]:
    return lambda _arguments: effect


def _each(effect: Callable[[Mapping[str, Any]], Effect | Effects], arguments: Mapping[str, Any]) -> Effects:
    found = effect(arguments)
    return found if isinstance(found, tuple) else (found,)


class Toolset:
    """The tools of this board and configuration, and the one way to call them."""

    def __init__(
        self,
        groups: Iterable[object],
        *,
        guard: Callable[[Asked, Caller], None],
        journal: Callable[[ToolCall, Caller], None],
        longest_result: int,
        secrets: tuple[str, ...] = (),
        wording: Callable[[str], str | None] = lambda _: None,
        keep_whole: Callable[[str, str, Caller], int] = lambda *_: 0,
    ) -> None:
        """Collect the groups' tools.

        `guard(asked, caller)` raises Denied to stop a call; `journal(call, caller)` writes down an act
        durably before it is done; `longest_result` is in characters; `secrets` never appear in a result;
        `wording(name)` is the owner's own description of a tool, if there is one; `keep_whole(tool, result, caller)`
        keeps a result that is shown cut and returns its number, 0 when it cannot.
        """
        self.keep_whole = keep_whole
        self._wording, self._descriptions = wording, Descriptions()
        self._tools = {t.name: t for group in groups for t in tools_of(group)}
        self._guard = guard
        self.ended: Callable[[Asked, Caller, str], None] = lambda *_: None
        """Is told what came of an act, '' when it went well."""
        self._journal = journal
        self._longest_result = longest_result
        self._redact = Redactor(secrets)

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, also of those that are only offered at times."""
        return frozenset(self._tools)

    @property
    def only_reading(self) -> tuple[str, ...]:
        """The names of the tools that change nothing, whatever their arguments are."""
        return tuple(t.name for t in self._tools.values() if t.only_reads)

    def definitions(
        self, offered: Collection[str] | None = None, called: Collection[str] = (), most: int | None = None
    ) -> tuple[dict[str, Any], ...]:
        """Describe the tools that are offered, None for all, always in the same order.

        Of those that another tool opens, the ones are described whose opener is among the `called`. Where all of them
        have more than `most` bytes, the least needed are left out; they can be called nevertheless.
        """
        named = self.names if offered is None else offered
        wording = {name: self._wording(name) for name in self._tools}
        return self._descriptions.of(self._tools.values(), named, called, most, wording)

    def opened(self, names: Collection[str]) -> frozenset[str]:
        """Name the tools that some open."""
        return frozenset(name for t in self._tools.values() if t.name in names for name in t.opens)

    def openers(self, name: str) -> frozenset[str]:
        """Name the tools of which one has to be called before this one is offered; none for most."""
        return openers(self._tools.values(), name)

    def effect(self, call: ToolCall) -> Effect:
        """Tell what a call would do to the world; raises ToolError for one that cannot be made."""
        found = self._find(call)
        return found.effect(self._checked(found, call))

    def call(self, call: ToolCall, caller: Caller) -> str:
        """Run one call and return its result for a model; what went wrong begins with `error:`."""
        good, text = self.run(call, caller)
        return text if good else f"error: {text}"

    def writes(self, call: ToolCall) -> bool:
        """Tell whether a call would write to files, reminders or notes; no when it is not known."""
        found = self._tools.get(call.name)
        try:
            return found is not None and not _KEEPS.isdisjoint(found.effects(self._checked(found, call)))
        except PicoclawError:
            return False

    def run(self, call: ToolCall, caller: Caller) -> tuple[bool, str]:
        """Run one call; returns whether it went well, and the result or what was wrong, cut to size."""
        return self._run(call, caller, self._admit)

    def run_approved(self, asked: Asked, caller: Caller) -> tuple[bool, str]:
        """Run a call that the owner has said yes to; whoever calls this has made sure that it is still the same."""
        agreed = replace(caller, heard=set())  # what is written is the word of the owner, who has seen it
        good, text = self._run(asked.call, agreed, lambda *_: self._begin(asked, caller))
        caller.heard.update(agreed.heard)
        return good, text

    def _run(
        self, call: ToolCall, caller: Caller, admit: Callable[[Tool, ToolCall, dict[str, Any], Caller], Asked]
    ) -> tuple[bool, str]:
        good, asked = False, None
        try:
            found = self._find(call)
            arguments = self._checked(found, call)
            asked = admit(found, call, arguments, caller)
            extra = {"caller": caller} if found.wants_caller else {}
            if found.brings:
                caller.heard.add(source(ToolCall("", call.name, self._redact.values(arguments))))
            result, good = found.function(**arguments, **extra), True
        except PicoclawError as error:
            result = str(error)
        except Exception as error:  # noqa: BLE001 - a tool must not end the turn
            result = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
        if asked and asked.effect != "read":
            self.ended(asked, caller, "" if good else result)
        return good, self._presentable(call.name, result, caller)

    def _find(self, call: ToolCall) -> Tool:
        if call.name not in self._tools:
            raise ToolError(f"there is no tool {call.name!r}{nearest(call.name, self._tools)}")
        return self._tools[call.name]

    def _checked(self, found: Tool, call: ToolCall) -> dict[str, Any]:
        if call.broken:
            raise ToolError(
                f"the arguments of {call.name} are not a JSON object: {call.broken[:200]!r}; send them again"
            )
        try:
            return check(found.parameters, call.arguments)
        except Unfit as error:
            raise ToolError(f"argument {error}") from None

    def _admit(self, found: Tool, call: ToolCall, arguments: dict[str, Any], caller: Caller) -> Asked:
        asked = self._asked(found, call, arguments, caller)
        self._guard(asked, caller)
        return self._begin(asked, caller)

    def _begin(self, asked: Asked, caller: Caller) -> Asked:
        try:
            if asked.effect != "read":
                self._journal(asked.call, caller)
        except StoreError as error:
            raise ToolError(f"nothing was done, since it cannot be written down first: {error}") from None
        return asked

    def asked(self, call: ToolCall, caller: Caller | None = None) -> Asked:
        """Tell what a call would do, and what a yes to it holds for; raises ToolError for one that cannot be made.

        With a `caller` also whether a word of theirs leads there.
        """
        found = self._find(call)
        return self._asked(found, call, self._checked(found, call), caller)

    def _asked(self, found: Tool, call: ToolCall, arguments: dict[str, Any], caller: Caller | None) -> Asked:
        (effect, *also), exact = found.effects(arguments), ToolCall(call.id, call.name, arguments)
        if effect == "read":
            return Asked(effect, exact)
        means = found.means(arguments) if found.means else ""
        vouched = bool(found.vouched and caller and found.vouched(arguments, caller))
        return Asked(effect, exact, means, found.binds(arguments) if found.binds else {}, vouched, tuple(also))

    def _presentable(self, name: str, result: str, caller: Caller) -> str:
        """Without secrets, without what no eye sees, and with its middle cut out."""
        result = self._redact(shown(result))
        if name != READ_ON:
            result = unmarked(result)
        if len(result) <= self._longest_result:
            return result
        return cut(result, self._longest_result, self.keep_whole(name, result, caller))
