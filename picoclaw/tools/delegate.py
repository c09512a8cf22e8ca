"""Tasks that an agent gives to another one: to whom it may, what it is told of them and of its teams, and the tools.

The other one works with its own files, model and tools, and never with more rights than there are here.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated

from picoclaw.agent import workflow
from picoclaw.config import Config
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, Stop
from picoclaw.prompts import Page, Templates, fill_template
from picoclaw.records import NamedTuple
from picoclaw.schema import find_nearest
from picoclaw.store.subagent_tasks import Task, Tasks, TaskUsage
from picoclaw.text import remove_invisible, truncate
from picoclaw.tools.registry import tool
from picoclaw.tools.subagents import SubagentTools

DELEGATION_PAGE, TEAM_PAGE = "DELEGATION.md", "TEAM.md"
VIRTUAL_PAGES = (DELEGATION_PAGE, TEAM_PAGE)
"""What a model is told in the place of files; none of these is read or written as one."""

MAX_LISTED = 15
"""Agents that are listed in a prompt; more are found with `delegate_search`."""

_MAX_FOUND = 8
_MAX_DESCRIPTION_CHARS = 200


class DelegationTarget(NamedTuple):
    """An agent that may be given tasks: its key, what it is called, and what it is for."""

    key: str
    name: str
    description: str

    def __str__(self) -> str:
        named = f" ({self.name})" if self.name not in {"", self.key} else ""
        return f"- {self.key}{named}{self.description and ': '}{self.description}"


def list_targets(config: Config, agent: str = "") -> list[DelegationTarget]:
    """List the agents that an agent may delegate to, '' for that of these settings: its links, and whom it leads.

    For a member of the household, those that they may talk to.
    """
    own = agent or config.agent or config.default_agent
    keys = [*config.links.get(own, ())]
    roles: dict[str, str] = {}
    for team in config.teams.values():
        if team.lead == own:
            keys += [member for member in team.members if member != own]
            roles |= team.members
    if person := config.person:
        keys = [key for key in keys if key not in config.agents or config.agents[key].is_open_to(person)]
    return [_describe_target(config, key, roles.get(key, "")) for key in dict.fromkeys(keys)]


def _describe_target(config: Config, key: str, role: str) -> DelegationTarget:
    agent = config.agents.get(key)
    description = (agent and agent.description) or role or ("" if agent else "the agent of this home")
    return DelegationTarget(key, _plain(agent.name) if agent else "", _plain(description))


def _plain(text: str) -> str:
    return truncate(" ".join(remove_invisible(text).split()), _MAX_DESCRIPTION_CHARS)


def build_delegation_page(config: Config, templates: Templates) -> Page:
    """Tell an agent to whom it may delegate; empty where that is nobody."""
    targets = list_targets(config)
    if len(targets) > MAX_LISTED:
        return Page(DELEGATION_PAGE, fill_template(templates["delegation_search"], {"count": str(len(targets))}))
    content = {"content": "\n".join(map(str, targets))}
    return Page(DELEGATION_PAGE, fill_template(templates["delegation"], content, "content") if targets else "")


def build_team_page(config: Config, templates: Templates) -> Page:
    """Tell an agent of its teams; empty where it is in none."""
    own = config.agent or config.default_agent
    teams = []
    for name, team in config.teams.items():
        if own in team.members:
            rows = [str(DelegationTarget(key, "", _plain(role))) for key, role in team.members.items()]
            content = "\n".join(filter(None, [*rows, " ".join(remove_invisible(team.workflow).split())]))
            values = {"agent": own, "name": name, "lead": "you" if team.lead == own else team.lead}
            teams.append(fill_template(templates["team"], {**values, "content": content}, "content"))
    return Page(TEAM_PAGE, "\n\n".join(teams))


def search_targets(targets: Sequence[DelegationTarget], query: str) -> list[DelegationTarget]:
    """Find the agents whose key, name or description has words of the query, those with most of them first."""
    words, texts = dict.fromkeys(_list_words(query)), {target: _list_words(" ".join(target)) for target in targets}
    scores = {one: sum(any(_is_alike(word, other) for other in text) for word in words) for one, text in texts.items()}
    found = sorted((target for target in targets if scores[target]), key=lambda target: -scores[target])
    return found[:_MAX_FOUND]


_MIN_STEM = 4


def _list_words(text: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in text.casefold()).split()


def _is_alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _MIN_STEM and long.startswith(short))


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

    # the untrusted sources of the report are among the caller's by then
    @tool(effect="write", brings=lambda _self, _given, _said, caller, _good: bool(caller.taints), private=True)
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
        if any(one.asker == agent for one in self._tasks().list_above(asker)):
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

    @tool(effect="read")
    def delegate_search(self, query: str) -> str:
        """Find an agent to delegate to, by what it is for."""
        found = search_targets(list_targets(self._config), query)
        return "\n".join(map(str, found)) or "no agent is described in these words; try others"
