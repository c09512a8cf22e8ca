"""How a tool is declared, described to a model, and called: look up, check arguments, guard, run, cut.

A tool is a method marked `@tool`; its name, schema and help come from its signature and docstring. A parameter
named `caller` is handed in and never shown to the model. Every failure becomes a result the model can act on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from picoclaw.errors import PicoclawError, ToolError
from picoclaw.measure import tool_bytes
from picoclaw.messages import Caller, ToolCall
from picoclaw.schema import Parameter, Unfit, check, json_schema, nearest, parameters
from picoclaw.window import READ_ON, cut, given_up, unmarked

Effect = Literal["read", "write", "network", "exec", "actuate", "switch", "instruct"]
EffectOf = Callable[[Mapping[str, Any]], Effect]
EffectMethod = Callable[[Any, Mapping[str, Any]], Effect]
Method = TypeVar("Method", bound=Callable[..., str])

_HIDDEN = ("self", "caller")
_LONGEST_HEARD = 100
_SHORTEST_SECRET = 8  # what a server without keys is given, such as "none", is no secret and a common word


class Tool(NamedTuple):
    """A callable tool. `effect` is what a call with given arguments does to the world.

    `opens` are tools that make sense once this one was called, `later` its own parameters, and words for them, that do;
    `brings` says that its result is text from outside; `means` says in plain words what a person is asked to agree to.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    effect: EffectOf
    function: Callable[..., str]
    wants_caller: bool
    only_reads: bool = False
    opens: frozenset[str] = frozenset()
    brings: bool = False
    later: frozenset[str] = frozenset()
    means: Callable[[Mapping[str, Any]], str] | None = None

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
) -> Callable[[Method], Method]:
    """Mark a method as a tool; `effect` feeds the guard, and may be a method that looks at the arguments.

    Such a method raises ToolError for a call that could not be done, so that nobody is asked about it. The tools that
    this one `opens` are offered only once it was called in the conversation: what is done with a result costs no bytes
    before there is one; its own parameters and choices named in `later` are understood always, and described then.
    `brings`: its result is text that nobody in the chat has said. `means` is a method that says in plain words what a
    call would have done, for the person who is asked.
    """

    def mark(method: Method) -> Method:
        method.__dict__["picoclaw_tool"] = effect, frozenset(opens), brings, frozenset(later), means
        return method

    return mark


def tools_of(group: object) -> Iterable[Tool]:
    """List the tools of an object, in the order of their definition."""
    for name, method in vars(type(group)).items():
        marks = getattr(method, "picoclaw_tool", None)
        if marks is not None:
            effect, opens, brings, later, means = marks
            found = _tool(name, getattr(group, name), partial(effect, group) if callable(effect) else _always(effect))
            said = partial(means, group) if means else None
            yield found._replace(only_reads=effect == "read", opens=opens, brings=brings, later=later, means=said)


def _tool(name: str, function: Callable[..., str], effect: EffectOf) -> Tool:
    annotations = getattr(function, "__annotations__", {})
    return Tool(
        name=name,
        description=" ".join((function.__doc__ or "").split()),
        parameters=parameters(function, _HIDDEN),
        effect=effect,
        function=function,
        wants_caller="caller" in annotations,
    )


def _always(effect: Effect) -> EffectOf:
    return lambda _arguments: effect


class Toolset:
    """The tools of this board and configuration, and the one way to call them."""

    def __init__(
        self,
        groups: Iterable[object],
        *,
        guard: Callable[[Effect, ToolCall, Caller], None],
        journal: Callable[[ToolCall, Caller], None],
        longest_result: int,
        secrets: tuple[str, ...] = (),
        wording: Callable[[str], str | None] = lambda _: None,
        keep_whole: Callable[[str, str, Caller], int] = lambda *_: 0,
    ) -> None:
        """Collect the groups' tools.

        `guard(effect, call, caller)` raises Denied to stop a call; `journal(call, caller)` writes down an act
        durably before it is done; `longest_result` is in characters; `secrets` never appear in a result;
        `wording(name)` is the owner's own description of a tool, if there is one; `keep_whole(tool, result, caller)`
        keeps a result that is shown cut and returns its number, 0 when it cannot.
        """
        self.keep_whole = keep_whole
        self._wording = wording
        self._tools = {t.name: t for group in groups for t in tools_of(group)}
        self._guard = guard
        self._journal = journal
        self._longest_result = longest_result
        self._secrets = tuple(s for s in secrets if len(s) >= _SHORTEST_SECRET)

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
        kept = {name: openers for name in named if (openers := self.openers(name))}
        closed = {name for name, openers in kept.items() if openers.isdisjoint(called)}
        shown = (
            t.definition(called=t.name in called)
            for t in self._tools.values()
            if t.name in named and t.name not in closed
        )
        found = tuple(d | {"description": self._wording(d["name"]) or d["description"]} for d in shown)
        away = given_up({d["name"]: tool_bytes(d) for d in found}, most) if most is not None else ()
        return tuple(d for d in found if d["name"] not in away)

    def opened(self, names: Collection[str]) -> frozenset[str]:
        """Name the tools that some open."""
        return frozenset(name for t in self._tools.values() if t.name in names for name in t.opens)

    def openers(self, name: str) -> frozenset[str]:
        """Name the tools of which one has to be called before this one is offered; none for most."""
        return frozenset(t.name for t in self._tools.values() if name in t.opens)

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
            return found is not None and found.effect(self._checked(found, call)) == "write"
        except PicoclawError:
            return False

    def run(self, call: ToolCall, caller: Caller) -> tuple[bool, str]:
        """Run one call; returns whether it went well, and the result or what was wrong, cut to size."""
        good = False
        try:
            found = self._find(call)
            arguments = self._checked(found, call)
            self._admit(found, call, arguments, caller)
            extra = {"caller": caller} if found.wants_caller else {}
            if found.brings:
                caller.heard.add(" ".join([call.name, *(str(value) for value in arguments.values())])[:_LONGEST_HEARD])
            result, good = found.function(**arguments, **extra), True
        except PicoclawError as error:
            result = str(error)
        except Exception as error:  # noqa: BLE001 - a tool must not end the turn
            result = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
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

    def _admit(self, found: Tool, call: ToolCall, arguments: dict[str, Any], caller: Caller) -> None:
        effect = found.effect(arguments)
        exact = ToolCall(call.id, call.name, arguments)
        plain = {"which means": found.means(arguments)} if found.means and effect != "read" else {}
        self._guard(effect, ToolCall(call.id, call.name, arguments | plain), caller)
        if effect != "read":
            self._journal(exact, caller)

    def _presentable(self, name: str, result: str, caller: Caller) -> str:
        """Without secrets and lone surrogates (from file names that are not UTF-8), and with its middle cut out."""
        result = result.encode("utf-8", "replace").decode()
        for secret in self._secrets:
            result = result.replace(secret, "[secret]")
        if name != READ_ON:
            result = unmarked(result)
        if len(result) <= self._longest_result:
            return result
        return cut(result, self._longest_result, self.keep_whole(name, result, caller))
