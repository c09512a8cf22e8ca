"""What a sub-agent may do and take, and how tasks hang together. Pure; what cannot be is said in a ToolError."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from picoclaw.errors import ToolError
from picoclaw.messages import Message, ToolCall
from picoclaw.prompts import escape_closing, fill_template
from picoclaw.records import NamedTuple
from picoclaw.schema import InvalidArgument, Parameter, check_arguments, find_nearest
from picoclaw.store.subagent_tasks import OPEN_STATUSES, Task, TaskUsage
from picoclaw.text import pattern
from picoclaw.times import format_duration

MAX_OPEN_TASKS = 32
"""Tasks of one chat that are not done yet."""

SPAWN_TOOL = "spawn"
SPAWN_TOOLS = frozenset({SPAWN_TOOL, "spawn_status"})
DELEGATE_TOOL = "delegate"
DELEGATE_TOOLS = frozenset({DELEGATE_TOOL, "delegate_search"})
"""Tools of agents; a sub-agent, which nobody knows by name, delegates nothing."""
FORBIDDEN_TOOLS = frozenset({"first_run", "message", "sensor_add", "skill_create", "skill_update", "rule", "cron"})
"""Tools that speak with the owner, need their yes, or plan for the chat that a person is in."""

_MAX_NAME = 40
_LEAST_SECONDS, _LEAST_TOKENS = 1.0, 100


class TaskStep(NamedTuple):
    """A task as it was asked for; `needs` are names or numbers of others."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


_STEP_PARAMETERS = (
    Parameter("task", str, "what is to be done, with all that there is to know", None, required=True),
    Parameter("name", str, "", None, required=False, default=""),
    Parameter("needs", list[str], "", None, required=False, default=()),
)


def select_tools(
    tools: Collection[str],
    may: Collection[str] | None,
    asked: Sequence[str] | None,
    *,
    is_deepest: bool,
    is_agent: bool = False,
) -> frozenset[str]:
    """The tools of a sub-agent, or agent, with a task: of all those that whoever asks `may` use, the ones asked for.

    The deepest gives nothing to others. Raises ToolError for one that there is not, or that it may not be given.
    """
    away = FORBIDDEN_TOOLS | (SPAWN_TOOLS if is_deepest else frozenset())
    away |= frozenset() if is_agent and not is_deepest else DELEGATE_TOOLS
    possible = frozenset(tools if may is None else may) & frozenset(tools) - away
    for name in asked or ():
        if name not in possible:
            why = "cannot be given to a sub-agent here" if name in tools else "is no tool"
            raise ToolError(f"tools: {name!r} {why}{find_nearest(name, dict.fromkeys(sorted(possible)))}")
    return possible if asked is None else possible & frozenset(asked)


def cap_limits(asked: TaskUsage, most: TaskUsage) -> TaskUsage:
    """What a task may take: what was asked for, 0 for the usual, and never more than the settings allow."""
    steps, tokens = (min(wish or limit, limit) for wish, limit in ((asked[0], most[0]), (asked[2], most[2])))
    return TaskUsage(steps, min(asked.seconds or most.seconds, most.seconds), tokens)


def get_remaining(limits: TaskUsage, used: TaskUsage) -> TaskUsage:
    """What a task may still take; enough for a last word."""
    steps, tokens = max(1, limits.steps - used.steps), max(_LEAST_TOKENS, limits.tokens - used.tokens)
    return TaskUsage(steps, max(_LEAST_SECONDS, limits.seconds - used.seconds), tokens)


def find_awaited_task(call: ToolCall, said: Sequence[Message], children: Sequence[Task]) -> Task | None:
    """Find the task that an open call of a sub-agent's had done, and waited for; None when none was begun.

    Of several that were given the same, it is the one that no earlier call has the report of.
    """
    if call.name not in {SPAWN_TOOL, DELEGATE_TOOL} or not call.arguments.get("wait", call.name == DELEGATE_TOOL):
        return None
    is_delegated = call.name == DELEGATE_TOOL
    name, text = (str(call.arguments.get(key, "")) for key in ("agent" if is_delegated else "name", "task"))
    wanted = " ".join(name.split()), text.strip(), is_delegated
    same = [task for task in children if (task.name, task.text, bool(task.asker)) == wanted]
    calls = [other for message in said for other in message.calls if other.name == call.name]
    return same[-1] if len(same) >= sum(other.arguments == call.arguments for other in calls) else None


def parse_steps(tasks: Sequence[Mapping[str, Any]]) -> list[TaskStep]:
    found = []
    for i, given in enumerate(tasks, 1):
        try:
            values = check_arguments(
                _STEP_PARAMETERS, {("needs" if key == "depends_on" else key): value for key, value in given.items()}
            )
        except InvalidArgument as error:
            raise ToolError(f"tasks, number {i}: {error}") from None
        found.append(make_step(values["name"], values["task"], values["needs"]))
    return found


def make_step(name: str, text: str, needs: Sequence[str]) -> TaskStep:
    """Make a task of what was given, and refuse what cannot be one."""
    name, text = " ".join(name.split()), text.strip()
    if not text:
        raise ToolError("task is empty: say what is to be done, with all that the sub-agent must know")
    if len(name) > _MAX_NAME or not name.isprintable():
        raise ToolError(f"name must be at most {_MAX_NAME} printable characters, such as frost")
    if name.isdecimal():
        raise ToolError(f"name {name!r} looks like a task's number; take a word")
    return TaskStep(name, text, tuple(need.strip() for need in needs if need.strip()))


def resolve_needs(steps: Sequence[TaskStep], known: Mapping[str, int]) -> list[tuple[int, ...]]:
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
                raise ToolError(f"{step.name or 'a task'} needs {need!r}, which is no task{find_nearest(need, places)}")
    found = [tuple(dict.fromkeys(places[need] for need in step.needs)) for step in steps]
    # those that can never begin because they wait for each other, or for such
    left = {-i: {need for need in wanted if need < 0} for i, wanted in enumerate(found, 1)}
    while ready := [place for place, wanted in left.items() if not wanted]:
        for place in ready:
            del left[place]
        for wanted in left.values():
            wanted.difference_update(ready)
    if left:
        waiting = ", ".join(steps[-place - 1].name or f"task {-place}" for place in left)
        raise ToolError(f"{waiting}: these wait for each other; one must be first")
    return found


def list_final_tasks(needs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The tasks that no other one needs, whose reports are the outcome."""
    needed = {need for wanted in needs for need in wanted}
    return tuple(-i for i in range(1, len(needs) + 1) if -i not in needed)


# How the outcome of sub-agents' tasks is worded: for the chat, for a model, in a list. Pure.

MAX_REPORT_CHARS = 4000
"""Characters of a report that is handed on to a model; the chat is told all of it."""

_LONGEST_STEP, _LONGEST_TEXT = 300, 80
_REPORT = '<report name="{name}">\n{content}\n</report>'
_CLOSING = pattern(r"</(?=\s*report\b)", re.IGNORECASE)
_END_WORDS = {"failed": "failed", "lost": "was lost", "impossible": "was not begun", "cancelled": "was cancelled"}


def format_reports(tasks: Sequence[Task], mark: str = "") -> str:
    """Word the one message about tasks that have ended together, in the order in which they were asked for.

    A report that another one was made of is only begun. The `mark` says what all of it comes from.
    """
    if len(tasks) == 1:
        who = "Agent" if tasks[0].asker else "Sub-agent"
        return f"{who} {describe_task_outcome(tasks[0])} {mark}".rstrip()
    used = {need for task in tasks if task.status == "done" for need in task.needs}
    counts = [f"{sum(task.status == status for task in tasks)} {words}" for status, words in _END_WORDS.items()]
    wrong = ", ".join(count for count in counts if not count.startswith("0 "))
    agents = "agents" if any(task.asker for task in tasks) else "sub-agents"
    head = f"{len(tasks)} {agents} have ended{f', {wrong}' if wrong else ''}:"
    rows = (
        cut_report(describe_task_outcome(task), _LONGEST_STEP) if task.number in used else describe_task_outcome(task)
        for task in tasks
    )
    return "\n".join([head, *(f"- {row}" for row in rows), *([mark] if mark else [])])


def describe_task_outcome(task: Task) -> str:
    """Say who has ended how, and with what report."""
    how, why = _explain_end(task)
    return f"{task.label}{how and ' '}{how}{why and ': '}{why}"


def _explain_end(task: Task) -> tuple[str, str]:
    """How a task ended when it was not done, and what there is to say of it."""
    why = task.result.strip() or ("what it needs was not done" if task.status == "impossible" else "")
    return _END_WORDS.get(task.status, ""), why


def cut_report(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}… [{len(text) - most} characters more]"


def get_report(task: Task) -> str:
    """Give the report to whoever waits for it. Raises ToolError when it was not done."""
    if task.status != "done":
        raise ToolError(f"{'agent' if task.asker else 'sub-agent'} {describe_task_outcome(task)}")
    return render_report(task)


def render_report(task: Task, template: str = _REPORT, most: int = MAX_REPORT_CHARS) -> str:
    """Put the report of a task, however it ended, into a tagged block that it cannot close by itself, for a model."""
    said = cut_report(": ".join(filter(None, _explain_end(task))), most)
    content = _CLOSING.sub("< /", escape_closing(said))
    return fill_template(template or "{content}", {"name": task.label, "content": content}, "content")


def describe_task(task: Task, now: float) -> str:
    """Describe a task in a line; `now` in seconds since 1970."""
    needs = f", after {', '.join(map(str, task.needs))}" if task.status == "waiting" and task.needs else ""
    spent = f", {task.used.steps} of {task.limits.steps} steps" if task.status == "running" else ""
    what, at = ("asked", task.asked) if task.status in OPEN_STATUSES else ("ended", task.ended)
    when = f"{what} {format_duration(max(0.0, now - at))} ago"
    return (
        f"{task.label}: {task.status}{needs}{spent}, {when}: {cut_report(' '.join(task.text.split()), _LONGEST_TEXT)}"
    )
