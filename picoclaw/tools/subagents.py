"""The tools that start sub-agents, in the background or waiting for them, and look after them."""

import time
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal

from picoclaw.agent import workflow
from picoclaw.config.tables import UNATTENDED_LIMITS, SubagentsConfig
from picoclaw.errors import ToolError
from picoclaw.messages import DEFAULT_SESSION, Caller, Stop, is_other_person
from picoclaw.schema import Span
from picoclaw.security.untrusted import limit_taints
from picoclaw.store.conversations import get_process_identity
from picoclaw.store.jobs import HEARTBEAT_SESSION as HEARTBEAT
from picoclaw.store.subagent_tasks import HEARTBEAT_PARENT, OPEN_STATUSES, Task, Tasks, TaskUsage
from picoclaw.tools.registry import tool

_MAX_NUMBER = 1_000_000_000
_MAX_LISTED = 12
_MIN_TOKENS = 1000

Mode = Literal["minimal", "full", "base", "none"]
Names = Annotated[list[str] | None, "default: yours"]
Steps = Annotated[int, Span(0, _MAX_NUMBER)]
Seconds = Annotated[float, Span(0, _MAX_NUMBER)]


class SubagentTools:
    def __init__(
        self,
        tasks: Callable[[], Tasks],
        tools: Callable[[], Collection[str]],
        settings: SubagentsConfig,
        do: Callable[[Task, Stop], Task] | None,
        ring: Callable[[], None],
        clock: Callable[[], float] = time.time,
        agent: str = "",
    ) -> None:
        """`tools()` names all tools; `do` runs a task until it is stopped (None without a model); `ring` wakes the workers.

        `agent` is the key of the agent that has these tools, '' for the home's own.
        """
        self._agent = agent
        self._tasks, self._tools, self._settings = tasks, tools, settings
        self._run_task, self._wake, self._clock = do, ring, clock

    @tool(effect="write", brings=lambda _, arguments, _result, _caller, good: good and bool(arguments["wait"]))
    def spawn(
        self,
        task: str,
        caller: Caller,
        name: str = "",
        mode: Mode = "minimal",
        tools: Names = None,
        needs: Annotated[list[str] | None, "sub-agents whose reports it gets first"] = None,
        tasks: Annotated[list[dict[str, Any]] | None, "to do first: [{name, task, needs: [names]}]"] = None,
        steps: Steps = 0,
        seconds: Seconds = 0.0,
        tokens: Steps = 0,
        *,
        wait: Annotated[bool, "return its report; else it comes into the chat later"] = False,
    ) -> str:
        """Give a task to a sub-agent. It sees only the text of `task`, so put in all it needs."""
        limits = TaskUsage(steps, seconds, tokens)
        if wait:
            if needs or tasks:
                raise ToolError("wait takes one task: leave out needs and tasks")
            plain, step = self._make_task(caller, mode, tools, limits), workflow.make_step(name, task, ())
            return workflow.get_report(self._run_waiting(plain._replace(name=step.name, text=step.text), caller))
        wanted = workflow.parse_steps(tasks or ())
        listed = self._tasks().newest(_get_chat(caller), 4 * workflow.MAX_OPEN_TASKS)
        known = {task.name: task.number for task in listed if task.name}  # of two with one name the newer counts
        known |= {str(task.number): task.number for task in listed}
        found = workflow.resolve_needs(wanted, known)
        if task.strip() or not wanted:
            last = workflow.make_step(name, task, needs or ())
            ends = workflow.list_final_tasks(found)
            wanted.append(last)
            found = workflow.resolve_needs(wanted, known)
            found[-1] = tuple(dict.fromkeys((*found[-1], *ends)))
        self._check_room(caller, len(wanted))
        plain = self._make_task(caller, mode, tools, limits, len(wanted))
        pairs = zip(wanted, found, strict=True)
        each = [plain._replace(name=step.name, text=step.text, needs=need) for step, need in pairs]
        added = self._tasks().add(each, self._clock())
        self._wake()
        subagents = f"sub-agent{'s' if len(added) > 1 else ''} {', '.join(task.label for task in added)}"
        return f"given to {subagents}; the report comes into the chat by itself"

    def _run_waiting(self, task: Task, caller: Caller) -> Task:
        """Do a task in the turn that waits for it, and return it as it ended."""
        self._check_room(caller, 1)
        here = get_process_identity()
        (added,) = self._tasks().add(
            [task._replace(status="running", claimed=here, waits=here, tries=1)], self._clock()
        )
        return self._run_task(added, caller.stop) if self._run_task else added

    @tool(effect=lambda _, arguments: "write" if arguments["cancel"] else "read", brings=True, private=True)
    def spawn_status(
        self,
        caller: Caller,
        number: Annotated[int, Span(0, _MAX_NUMBER), "show one's report; default: list all"] = 0,
        *,
        cancel: Annotated[bool, "end it and its own sub-agents"] = False,
    ) -> str:
        """List sub-agents, show a report, or cancel one."""
        if cancel:
            return self._cancel(number, caller)
        if number:
            task = self._find_task(number, caller)
            rows = [workflow.describe_task(one, self._clock()) for one in (task, *self._tasks().children(number))]
            return "\n".join([*rows, *([] if task.status in OPEN_STATUSES else [workflow.render_report(task)])])
        chat = _get_chat(caller)
        both = {task.number: task for task in self._tasks().newest(chat, _MAX_LISTED)}
        both |= {task.number: task for task in self._tasks().unfinished(chat)}
        listed = (one for one in both.values() if not caller.task or self._is_below(one, caller.task))
        return "\n".join(workflow.describe_task(task, self._clock()) for task in listed) or "no sub-agents"

    def _cancel(self, number: int, caller: Caller) -> str:
        task = self._find_task(number, caller)
        knows = caller.task or caller.session == task.session  # what a job or a heartbeat ends, the chat is told
        ended = self._tasks().cancel(number, task.session if knows else "", self._clock())
        self._wake()
        if not ended:
            raise ToolError(f"{task.title} has ended already: {task.status}")
        return f"cancelled: {', '.join(task.label for task in ended)}"

    def _make_task(
        self, caller: Caller, mode: Mode, tools: list[str] | None, limits: TaskUsage, number: int = 1
    ) -> Task:
        """What all tasks of a call have in common; raises ToolError for what may not be asked for."""
        asker, depth, most = self._find_asker(caller), caller.depth + 1, self._settings.depth
        return Task(
            0,
            _get_chat(caller),
            "",
            "",
            workflow.cap_limits(limits, self._get_limits(asker, caller, number)),
            workflow.select_tools(self._tools(), caller.may, tools, is_deepest=depth >= most),
            mode,
            parent=HEARTBEAT_PARENT if caller.origin == HEARTBEAT else caller.task,
            depth=depth,
            flow=asker.flow if asker else 0,
            claimed=get_process_identity(),  # whoever asked has it done, as long as that process lives
            taint=limit_taints(caller.taints),
            agent=self._agent,
            who=asker.who if asker else caller.who,
            origin=asker.origin if asker else caller.origin if is_other_person(caller.origin) else "subagent",
        )

    def _find_asker(self, caller: Caller) -> Task | None:
        """The task whose turn asks, None for a turn of its own; raises ToolError where nobody may be given a task."""
        if self._run_task is None:
            raise ToolError("a sub-agent needs a model, and none is configured")
        if caller.depth >= self._settings.depth:
            raise ToolError(f"sub-agents of sub-agents end at depth {self._settings.depth}: depth in [subagents]")
        return self._tasks().get(caller.task) if caller.task else None

    def _get_limits(self, asker: Task | None, caller: Caller, number: int) -> TaskUsage:
        settings, tasks = self._settings, self._tasks()
        if asker:  # what its sub-agents took, it has taken
            given = sum(task.used.tokens for task in tasks.children(asker.number))
            return workflow.get_remaining(asker.limits, asker.used._replace(tokens=asker.used.tokens + given))
        if caller.origin != HEARTBEAT:
            return TaskUsage(settings.steps, settings.seconds, settings.tokens)
        left = UNATTENDED_LIMITS.tokens - tasks.of_heartbeats(caller.now.timestamp())
        share = min(settings.tokens, left // (number + 1))  # something stays for the next that it asks for
        if share < _MIN_TOKENS:
            raise ToolError("the sub-agents of this heartbeat may take no more tokens")
        return TaskUsage(settings.steps, settings.seconds, share)

    def _check_room(self, caller: Caller, more: int) -> None:
        if len(self._tasks().unfinished(_get_chat(caller))) + more > workflow.MAX_OPEN_TASKS:
            raise ToolError(
                f"this chat may have {workflow.MAX_OPEN_TASKS} tasks that are not done; cancel some, or wait"
            )

    def _is_below(self, task: Task, number: int) -> bool:
        return any(one.parent == number for one in self._tasks().list_above(task))

    def _find_task(self, number: int, caller: Caller) -> Task:
        found = self._tasks().get(number)
        if found is None or found.session != _get_chat(caller):
            raise ToolError(f"this chat has no sub-agent {number}; spawn_status shows them")
        if caller.task and not self._is_below(found, caller.task):
            raise ToolError(f"{found.title} is not yours: you may see and end what you have given to others")
        return found


def _get_chat(caller: Caller) -> str:
    chat = caller.reply_to or caller.session
    return DEFAULT_SESSION if chat == HEARTBEAT else chat
