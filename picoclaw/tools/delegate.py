"""The tools by which an agent gives a task to another one: its own files, model and tools, and never more rights than here."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any

from picoclaw.agent import workflow
from picoclaw.config import Config
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, Stop
from picoclaw.schema import find_nearest
from picoclaw.store.tasks import Task, Tasks, TaskUsage
from picoclaw.teams import list_targets, search_targets
from picoclaw.tools.registry import tool
from picoclaw.tools.subagents import SubagentTools


class DelegateTools(SubagentTools):
    """Gives tasks to other agents with what sub-agents are given theirs with: kept first, bounded, and reported once."""

    def __init__(
        self,
        tasks: Callable[[], Tasks],
        tools: Callable[[], Collection[str]],
        tools_of: Callable[[str, str], Collection[str]],
        config: Config,
        do: Callable[[Task, Stop], Task] | None,
        ring: Callable[[], None],
    ) -> None:
        """As SubagentTools; `tools_of(who, agent)` names the tools that an agent has for a person."""
        super().__init__(tasks, tools, config.subagents, do, ring, agent=config.agent)
        self._tools_of, self._config = tools_of, config
        self._own = config.agent or config.default_agent

    def _brings_report(self, _arguments: Mapping[str, Any], _result: str, caller: Caller, _good: bool) -> bool:  # noqa: FBT001
        return bool(caller.taints)  # those of the report are among them

    @tool(effect="write", brings=_brings_report, private=True)
    def delegate(
        self,
        agent: str,
        task: str,
        caller: Caller,
        *,
        wait: Annotated[bool, "return its report; else it comes into the chat later"] = True,
    ) -> str:
        """Give a task to another agent. It sees only the text of `task`, so put in all it needs."""
        asked = self._make_delegation(agent.strip(), task, caller)
        if wait:
            ended = self._run_waiting(asked, caller)
            caller.taints.update(ended.taint)
            return workflow.get_report(ended)
        self._check_room(caller, 1)
        (added,) = self._tasks().add([asked], self._clock())
        self._wake()
        return f"given to {added.title}; the report comes into the chat by itself"

    def _make_delegation(self, agent: str, text: str, caller: Caller) -> Task:
        """Make a task for another agent; raises ToolError where it may not have one."""
        targets = {target.key: None for target in list_targets(self._config)}
        if agent not in targets:
            known = agent == self._own or agent in self._config.agents
            why = f"is not linked to {self._own}" if known else f"is no agent{find_nearest(agent, targets)}"
            raise ToolError(f"{agent!r} {why}; DELEGATION.md lists those that you may delegate to")
        asker = self._find_asker(caller)
        if agent in self._list_waiting(asker):
            raise ToolError(f"{agent} has asked for this itself; do what you can, and report the rest")
        key = "" if agent == self._config.default_agent else agent
        plain = self._make_task(caller, "full", None, TaskUsage())
        origin = asker.origin if asker else caller.origin
        plain = plain._replace(agent=key, asker=self._own, origin=origin)
        step = workflow.make_step(agent, text, ())
        may = self._tools() if caller.may is None else caller.may
        given = workflow.select_tools(
            self._tools_of(plain.who, key), may, None, is_deepest=plain.depth >= self._settings.depth, is_agent=True
        )
        return plain._replace(name=step.name, text=step.text, tools=given)

    def _list_waiting(self, task: Task | None) -> Iterator[str]:
        """The agents whose task this is a part of, besides the one that asks now."""
        while task:
            if task.asker:
                yield task.asker
            task = self._tasks().get(task.parent)

    @tool(effect="read")
    def delegate_search(self, query: str) -> str:
        """Find an agent to delegate to, by what it is for."""
        found = search_targets(list_targets(self._config), query)
        return "\n".join(map(str, found)) or "no agent is described in these words; try others"
