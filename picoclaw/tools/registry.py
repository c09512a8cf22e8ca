"""How a tool is declared, described to a model, and called: look up, check arguments, guard, run, cut.

A tool is a method marked `@tool`; its name, schema and help come from its signature and docstring. A parameter
named `caller` is handed in and never shown to the model. Every failure becomes a result the model can act on.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from picoclaw.errors import PicoclawError, StoreError, ToolError
from picoclaw.messages import ERROR_PREFIX, OLD_TOOL_NAMES, Caller, ToolCall, is_other_person
from picoclaw.prompts import READ_ON_TOOL, choose_dropped, count_tool_bytes, cut_result, get_result_part, remove_mark
from picoclaw.records import NamedTuple, dataclass, replace
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

if TYPE_CHECKING:  # commands are run without the libraries of the store
    from picoclaw.store.conversations import Results

Effects = tuple[Effect, ...]
Arguments = Mapping[str, Any]
Method = TypeVar("Method", bound=Callable[..., str])

ON_REQUEST = frozenset(
    "gpio i2c spi serial sensor_add skill_create skill_update memory_get process output_history sensor_excursions".split()  # noqa: SIM905
)
"""The tools that a model is told of only where `[tools] offer` or a skill of the owner's names them. They can be called."""
ON_REQUEST_IN_HOUSEHOLD = ON_REQUEST | {"spawn_status"}
"""The same in a home with people, which has `memory_share` besides: the list of tools is to stay short. /tasks shows the tasks."""

_KEEPS = frozenset({"write", "remember", "share", "plan"})
_HIDDEN = ("self", "caller")


@dataclass(eq=False)
class ToolMark:
    """Marks a method as a tool; what depends on a call's arguments is given as another method of the class.

    `effect` is what the guard judges, one or several, the first being the main one; its method raises ToolError for a call
    that could not be done, so that nobody is asked about it.
    `brings`: the result is untrusted text, or a method that decides by the arguments, the result, the caller and whether the
    call succeeded. `means` says in plain words what a call would do, for the person who is asked; `binds` gives what else an
    approval holds for, by name, such as the working folder or the checksum of a file that it runs. `is_requested` tells
    whether the caller's own words ask for this, so that a tainted turn need not ask. `private`: the call shows, or reveals by
    its errors, the owner's data; its method raises nothing, and judges `{}` for the tool as a whole. `foreign_files` names
    files written by tainted turns that the call may run. `completes` gives arguments that the call leaves open, which then
    stay as they are while it waits for a yes.
    """

    effect: Effect | Callable[[Any, Arguments], Effect | Effects]
    brings: bool | Callable[[Any, Arguments, str, Caller, bool], bool] = False
    means: Callable[[Any, Arguments], str] | None = None
    binds: Callable[[Any, Arguments], Mapping[str, str]] | None = None
    is_requested: Callable[[Any, Arguments, Caller], bool] | None = None
    private: bool | Callable[[Any, Arguments], bool] = False
    foreign_files: Callable[[Any, Arguments], Sequence[str]] | None = None
    completes: Callable[[Any, Arguments], Mapping[str, Any]] | None = None

    def __call__(self, method: Method) -> Method:
        method.__dict__["picoclaw_tool"] = self
        return method


tool = ToolMark


class Tool:
    """A method marked as a tool, of one object."""

    def __init__(self, group: object, name: str, mark: ToolMark) -> None:
        self.group, self.name, self.mark = group, name, mark
        self.function: Callable[..., str] = getattr(group, name)
        self.description = " ".join((self.function.__doc__ or "").split())
        self.wants_caller = "caller" in self.function.__annotations__
        self.says_foreign = False
        """Whether its description is somebody else's words, which a turn that is shown them has read."""
        effect = mark.effect
        self.only_reads = effect == "read" or getattr(effect, "__annotations__", {}).get("return") == Literal["read"]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return read_parameters(self.function, _HIDDEN)

    def effects(self, arguments: Arguments) -> Effects:
        effect = self.mark.effect
        found = effect(self.group, arguments) if callable(effect) else effect
        return found if isinstance(found, tuple) else (found,)

    def is_private(self, arguments: Arguments) -> bool:
        private = self.mark.private
        return private(self.group, arguments) if callable(private) else private

    def run(self, arguments: dict[str, Any], caller: Caller) -> str:
        extra = {"caller": caller} if self.wants_caller else {}
        return self.function(**arguments, **extra)

    def definition(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": build_json_schema(self.parameters)}


def collect_tools(group: object) -> Iterable[Tool]:
    """List the tools of an object, in the order of their definition; a list has them ready made."""
    if isinstance(group, list):
        return group
    marks = ((name, getattr(method, "picoclaw_tool", None)) for name, method in vars(type(group)).items())
    return (Tool(group, name, mark) for name, mark in marks if mark)


class ToolGroup(NamedTuple):
    """Tools whose object is made, and its module imported, when one of them is described or called."""

    names: tuple[str, ...]
    make: Callable[[], object]


_MAX_DESCRIBED = 4  # selections of tools: a turn asks for three
_ALWAYS_OFFERED = {"first_run", "read_result", "delegate", "delegate_search"}
"""What an agent has whatever its list says: a first meeting is ended by one, long results are read with another, and
links say whether it delegates."""


def select_tools(groups: Iterable[ToolGroup], allowed: Sequence[str]) -> Iterator[ToolGroup]:
    """Leave of the tools those that an agent may use at most: names, or beginnings such as memory_*; all for none."""
    for group in groups:
        names = tuple(
            name for name in group.names if not allowed or name in _ALWAYS_OFFERED or is_allowed(name, allowed)
        )
        if names:
            yield group._replace(names=names)


def is_allowed(name: str, allowed: Sequence[str]) -> bool:
    stems = tuple(one[:-1] for one in allowed if one.endswith("*"))
    return name in allowed or (bool(stems) and name.startswith(stems))


def list_texts(call: ToolCall) -> Iterator[str]:
    for value in call.arguments.values():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text:
                yield text


class Toolset:
    """The tools of this board and configuration, and the only way to call them."""

    def __init__(
        self,
        groups: Iterable[ToolGroup | object],
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
        self._groups: dict[str, ToolGroup] = {}
        self._tools: dict[str, Tool] = {}
        for group in groups:
            if isinstance(group, ToolGroup):
                self._groups.update(dict.fromkeys(group.names, group))
            else:
                tools = {tool.name: tool for tool in collect_tools(group)}
                self._groups.update(dict.fromkeys(tools, ToolGroup(tuple(tools), lambda: None)))
                self._tools.update(tools)
        self._guard, self._journal, self._wording, self.keep_whole = guard, journal, wording, keep_whole
        self._longest_result, self._redact = longest_result, Redactor(secrets)
        self._described: dict[object, tuple[dict[str, str | None], tuple[dict[str, Any], ...]]] = {}
        self.ended: Callable[[CallRequest, Caller, str], None] = lambda *_: None
        """Is told what came of an act, '' when it went well."""
        self.accepted: Callable[[CallRequest], None] = lambda _: None
        """Is told what a person has said yes to, before it is done."""
        self.ask_ahead: Callable[[Sequence[CallRequest], Caller], None] = lambda *_: None
        """Is told which calls are about to be made, one behind the other."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, also of those offered only at times."""
        return frozenset(self._groups)

    def find(self, name: str) -> Tool:
        """Return one of these tools. Raises KeyError."""
        if name not in self._tools:
            self._tools.update((tool.name, tool) for tool in collect_tools(self._groups[name].make()))
        return self._tools[name]

    @property
    def only_reading(self) -> tuple[str, ...]:
        """The tools that never change anything."""
        return tuple(name for name in self._groups if self.only_reads(name))

    def only_reads(self, name: str) -> bool:
        """Whether a tool never changes anything; False for one that is not ours."""
        return name in self._groups and self.find(name).only_reads

    def select_private(self, names: Iterable[str]) -> frozenset[str]:
        """The tools among `names` that show the owner's data."""
        return frozenset(name for name in names if name in self._groups and self.find(name).is_private({}))

    def shown_to_guests(self, policy: Policy) -> frozenset[str] | None:
        """The tools offered in a guest's turn; None where the policy keeps nothing private."""
        if policy.verdict("private", "", "guest")[0] == "allow":
            return None
        return self.names - {
            name for name in self.select_private(self.names) if policy.verdict("private", name, "guest")[0] == "refuse"
        }

    def list_foreign(self, offered: Iterable[str]) -> tuple[str, ...]:
        """Name the tools of MCP servers that are described to a model in words that nobody vouches for."""
        return tuple(f"what {name} says of itself" for name in offered if "." in name and self.find(name).says_foreign)

    def definitions(
        self, offered: Collection[str] | None = None, most: int | None = None
    ) -> tuple[dict[str, Any], ...]:
        """Describe the `offered` tools (None: all), always in the same order.

        Beyond `most` bytes, the least needed tools are left out; they can still be called.
        """
        offered = self.names if offered is None else offered
        wording = {name: self._wording(name) for name in self._groups if name in offered}
        key = frozenset(offered), most
        kept, described = self._described.get(key, ({}, ()))
        if kept != wording or not described:
            found = []
            for name, words in wording.items():
                one = self.find(name)
                found.append(one.definition() | {"description": words or one.description})
            left_out = choose_dropped({d["name"]: count_tool_bytes(d) for d in found}, most) if most is not None else ()
            described = tuple(d for d in found if d["name"] not in left_out)
            if len(self._described) >= _MAX_DESCRIBED:
                self._described.clear()
            self._described[key] = wording, described
        return described

    def effect(self, call: ToolCall) -> Effect:
        """The main effect of a call; raises ToolError for one that cannot be made."""
        found, arguments = self._find(call)
        return found.effects(arguments)[0]

    def writes(self, call: ToolCall) -> bool:
        """Whether a call would write files, reminders or notes; False for an invalid one."""
        try:
            found, arguments = self._find(call)
            return not _KEEPS.isdisjoint(found.effects(arguments))
        except PicoclawError:
            return False

    def asked(self, call: ToolCall, caller: Caller | None = None, *, whole: bool = False) -> CallRequest:
        """What a call would do and what an approval of it holds for; raises ToolError for an invalid one.

        With a `caller` also whether they asked for it; `whole` gives all details also of a call that only reads.
        """
        return self._build_request(*self._find(call), call, caller, whole=whole)

    def announce(self, calls: Iterable[ToolCall], caller: Caller) -> None:
        """Announce calls that are about to be made, so that a person can be asked about all of them at once."""
        asked = []
        for call in calls:
            with suppress(PicoclawError):  # said when it is made
                asked.append(self.asked(call, caller))
        self.ask_ahead(asked, caller)

    def call(self, call: ToolCall, caller: Caller) -> str:
        """Run a call and return its result for a model; errors begin with `error:`."""
        good, text = self.run(call, caller)
        return text if good else f"{ERROR_PREFIX}{text}"

    def run(self, call: ToolCall, caller: Caller, approved: CallRequest | None = None) -> tuple[bool, str]:
        """Run a call; returns whether it succeeded, and the result or error, cut to size.

        The guard is not asked about an `approved` one, of which the caller has made sure that it is still the same.
        """
        good, asked, maker = False, None, caller
        try:
            found, arguments = self._find(call)
            request, agreed = (approved, True) if approved else self._ask_guard(found, arguments, call, caller)
            self._write_ahead(request, caller)
            asked = request
            if agreed:
                maker = replace(caller, taints=set())  # what is written is the word of the owner, who has seen it
                self.accepted(asked)
            result, good = found.run(arguments, maker), True
        except PicoclawError as error:
            result = str(error)
        except Exception as error:  # noqa: BLE001 - a tool must not end the turn
            result = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
        caller.taints.update(maker.taints)
        if good and found.is_private({}):
            caller.private.add(call.name)
        if asked:
            self._record_taint(asked.call, result, caller, good=good)
            if asked.effect != "read":
                self.ended(asked, caller, "" if good else result)
        result = self._redact(strip_invisible(result))
        if call.name != READ_ON_TOOL:
            result = remove_mark(result)
        if len(result) > self._longest_result:
            result = cut_result(result, self._longest_result, self.keep_whole(call.name, result, caller))
        return good, result

    def _record_taint(self, call: ToolCall, result: str, caller: Caller, *, good: bool) -> None:
        """Record untrusted text that a call returned; else what the model wrote, while the turn is untainted."""
        found = self.find(call.name)
        brings = found.mark.brings
        if brings(found.group, call.arguments, result, caller, good) if callable(brings) else brings:
            caller.taints.add(describe_source(ToolCall("", call.name, self._redact.values(call.arguments))))
        if not caller.taints:
            caller.model_texts.extend(list_texts(call))

    def _find(self, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
        """Find the tool of a call, and check its arguments; raises ToolError."""
        call = _update_call(call)
        if call.name not in self._groups:
            raise ToolError(f"there is no tool {call.name!r}{find_nearest(call.name, self._groups)}")
        if call.broken:
            raise ToolError(
                f"the arguments of {call.name} are not a JSON object: {call.broken[:200]!r}; send them again"
            )
        found = self.find(call.name)
        try:
            arguments = check_arguments(found.parameters, call.arguments)
        except InvalidArgument as error:
            raise ToolError(f"argument {error}") from None
        complete = found.mark.completes
        return found, {**arguments, **complete(found.group, arguments)} if complete else arguments

    def _ask_guard(
        self, found: Tool, arguments: dict[str, Any], call: ToolCall, caller: Caller
    ) -> tuple[CallRequest, bool]:
        """Ask the guard; returns the request, and whether a person has just approved it."""
        try:
            asked = self._build_request(found, arguments, call, caller)
        except PicoclawError:
            if found.is_private(arguments):  # what is wrong with it tells of what is there
                exact = ToolCall(call.id, found.name, arguments)
                self._guard(CallRequest("read", exact, other_effects=("private",)), caller)
            raise
        return asked, bool(self._guard(asked, caller))

    def _write_ahead(self, asked: CallRequest, caller: Caller) -> None:
        try:
            if asked.effect not in {"read", "safe"}:  # what goes to safety waits for no disk, and may be done twice
                self._journal(asked.call, caller)
        except StoreError as error:
            raise ToolError(f"nothing was done, since it cannot be written down first: {error}") from None

    def _build_request(
        self, found: Tool, arguments: dict[str, Any], call: ToolCall, caller: Caller | None, *, whole: bool = False
    ) -> CallRequest:
        (effect, *also), exact = found.effects(arguments), ToolCall(call.id, found.name, arguments)
        if found.is_private(arguments):
            also.append("private")
        if effect == "read" and not (whole or (caller and caller.planned)):
            return CallRequest(effect, exact, other_effects=tuple(also))
        mark, group = found.mark, found.group
        means = mark.means(group, arguments) if mark.means else ""
        is_requested = bool(mark.is_requested and caller and mark.is_requested(group, arguments, caller))
        foreign_files = tuple(mark.foreign_files(group, arguments)) if mark.foreign_files else ()
        bound = mark.binds(group, arguments) if mark.binds else {}
        return CallRequest(effect, exact, means, bound, is_requested, tuple(also), foreign_files)


def _update_call(call: ToolCall) -> ToolCall:
    """Give a call that was written for an earlier version its present form."""
    given = dict(call.arguments)
    if call.name == "append_file":
        given["mode"] = "append"
    elif call.name == "write_file" and "overwrite" in given and "mode" not in given:
        given["mode"] = "replace" if given.pop("overwrite") in (True, "true") else "create"
    else:
        return call
    return replace(call, name=OLD_TOOL_NAMES.get(call.name, call.name), arguments=given)


class ResultTool:
    """Stores results that are shown cut, and reads on in them."""

    def __init__(self, store: "Callable[[], Results]", longest: int) -> None:
        """`longest` is in characters, of what is shown at once."""
        self._store, self._longest = store, longest

    def keep(self, tool: str, text: str, caller: Caller) -> int:
        """Store a result; returns its number, 0 if the disk fails."""
        try:
            return self._store().keep(caller.session, tool, text, caller.now)
        except StoreError:
            return 0

    @tool(effect="read", brings=True, private=True)
    def read_result(self, number: int, caller: Caller, start: int = 0) -> str:
        """Read on in a result that was cut, as the cut says."""
        if is_other_person(caller.origin):  # in a group, the owner's are among them
            text = self._store().read_own(caller.session, number, caller.who, caller.now)
        else:
            text = self._store().read(caller.session, number)
        if text is None:
            raise ToolError(f"there is no result {number} in this chat; where one is cut, its number is told")
        if not 0 <= start < len(text):
            raise ToolError(f"result {number} has {len(text)} characters, from 0; there is none at {start}")
        return get_result_part(text, start, self._longest, number)


# `message`: something said to the person at once, before the turn's answer.


class MessageTool:
    @tool(effect="read")
    def message(self, text: str, caller: Caller) -> str:
        """Send the user a message now, before your answer."""
        if not text.strip():
            raise ToolError("text is empty")
        caller.say(text)
        return "sent"
