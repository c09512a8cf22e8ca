"""What a helper may do and take, and how tasks hang together. Pure; what cannot be is said in a ToolError."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from picoclaw.errors import ToolError
from picoclaw.messages import Message, ToolCall
from picoclaw.schema import Parameter, Unfit, check, nearest
from picoclaw.store.task import Task, Used

DEEPEST = 3
MOST = 32
"""Tasks of one chat that are not done yet."""

WAITING = "subagent"
ASKING = frozenset({"spawn", WAITING, "spawn_status", "spawn_cancel"})
NEVER = frozenset(
    {"first_run", "message", "sensor_add", "skill_create", "skill_update", "rule", "cron"},
)
"""Tools that speak with the owner, need their yes, or plan for the chat that a person is in."""

_LONGEST_NAME = 40
_LEAST_SECONDS, _LEAST_TOKENS = 1.0, 100


class Step(NamedTuple):
    """A task as it was asked for; `needs` are names or numbers of others."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


_STEP = (
    Parameter("task", str, "what is to be done, with all that there is to know", None, required=True),
    Parameter("name", str, "", None, required=False, default=""),
    Parameter("needs", list[str], "", None, required=False, default=()),
)


def allowed(
    tools: Collection[str], may: Collection[str] | None, asked: Sequence[str] | None, depth: int
) -> frozenset[str]:
    """The tools of a helper: of all those that whoever asks `may` use, the ones that were asked for.

    `depth` is the helper's. Raises ToolError for one that there is not, or that it may not be given.
    """
    away = NEVER | (ASKING if depth >= DEEPEST else frozenset())
    possible = frozenset(tools if may is None else may) & frozenset(tools) - away
    for name in asked or ():
        if name not in possible:
            why = "cannot be given to a helper here" if name in tools else "is no tool"
            raise ToolError(f"tools: {name!r} {why}{nearest(name, dict.fromkeys(sorted(possible)))}")
    return possible if asked is None else possible & frozenset(asked)


def limited(asked: Used, most: Used) -> Used:
    """What a task may take: what was asked for, 0 for the usual, and never more than the settings allow."""
    steps, tokens = (min(wish or limit, limit) for wish, limit in ((asked[0], most[0]), (asked[2], most[2])))
    return Used(steps, min(asked.seconds or most.seconds, most.seconds), tokens)


def left(limits: Used, used: Used) -> Used:
    """What a task may still take; enough for a last word."""
    steps, tokens = max(1, limits.steps - used.steps), max(_LEAST_TOKENS, limits.tokens - used.tokens)
    return Used(steps, max(_LEAST_SECONDS, limits.seconds - used.seconds), tokens)


def awaited(call: ToolCall, said: Sequence[Message], children: Sequence[Task]) -> Task | None:
    """Find the task that an open call of a helper's had done, and waited for; None when none was begun.

    Of several that were given the same, it is the one that no earlier call has the report of.
    """
    if call.name != WAITING:
        return None
    same = [task for task in children if _is_given(call, task)]
    calls = [other for message in said for other in message.calls if other.name == WAITING]
    return same[-1] if len(same) >= sum(other.arguments == call.arguments for other in calls) else None


def _is_given(call: ToolCall, task: Task) -> bool:
    name, text = (str(call.arguments.get(key, "")) for key in ("name", "task"))
    return (task.name, task.text) == (" ".join(name.split()), text.strip())


def steps_of(tasks: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Read the tasks of a workflow as a model writes them."""
    found = []
    for i, given in enumerate(tasks, 1):
        try:
            values = check(_STEP, {("needs" if key == "depends_on" else key): value for key, value in given.items()})
        except Unfit as error:
            raise ToolError(f"tasks, number {i}: {error}") from None
        found.append(step(values["name"], values["task"], values["needs"]))
    return found


def step(name: str, text: str, needs: Sequence[str]) -> Step:
    """Make a task of what was given, and refuse what cannot be one."""
    name, text = " ".join(name.split()), text.strip()
    if not text:
        raise ToolError("task is empty: say what is to be done, with all that the helper must know")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise ToolError(f"name must be at most {_LONGEST_NAME} printable characters, such as frost")
    if name.isdecimal():
        raise ToolError(f"name {name!r} looks like a task's number; take a word")
    return Step(name, text, tuple(need.strip() for need in needs if need.strip()))


def needs_of(steps: Sequence[Step], known: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Find out what each task needs: -1 for the first of these, and so on, or the number of one that is `known`.

    `known` has earlier tasks by number and by name. Raises ToolError for two of one name, for a need that nothing
    goes by, and for tasks that need each other.
    """
    names = [step.name for step in steps if step.name]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ToolError(f"two tasks are named {twice!r}; give each a name of its own")
    places = {**known, **{step.name: -i for i, step in enumerate(steps, 1) if step.name}}
    for step in steps:
        for need in step.needs:
            if need not in places:
                raise ToolError(f"{step.name or 'a task'} needs {need!r}, which is no task{nearest(need, places)}")
    found = [tuple(dict.fromkeys(places[need] for need in step.needs)) for step in steps]
    if circle := _circle(found):
        waiting = ", ".join(steps[-i - 1].name or f"task {-i}" for i in circle)
        raise ToolError(f"{waiting}: these wait for each other; one must be first")
    return found


def _circle(needs: Sequence[Sequence[int]]) -> list[int]:
    """Those that can never begin because they wait for each other, or for such; by their places, -1 the first."""
    left = {-i: {need for need in wanted if need < 0} for i, wanted in enumerate(needs, 1)}
    while ready := [place for place, wanted in left.items() if not wanted]:
        for place in ready:
            del left[place]
        for wanted in left.values():
            wanted.difference_update(ready)
    return list(left)


def last(needs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The tasks that no other one needs, whose reports are the outcome."""
    needed = {need for wanted in needs for need in wanted}
    return tuple(-i for i in range(1, len(needs) + 1) if -i not in needed)
