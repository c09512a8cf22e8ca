"""Which agents an agent may delegate to, and what it is told of them and of its teams: made of the settings, in no file."""

from collections.abc import Sequence

from picoclaw.config import Config
from picoclaw.prompts import Page, Templates, fill_template
from picoclaw.records import NamedTuple
from picoclaw.text import remove_invisible, truncate

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
    words = _list_words(query)
    scores = {target: _count_shared(words, _list_words(" ".join(target))) for target in targets}
    found = sorted((target for target in targets if scores[target]), key=lambda target: -scores[target])
    return found[:_MAX_FOUND]


_MIN_STEM = 4


def _list_words(text: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in text.casefold()).split()


def _count_shared(words: Sequence[str], others: Sequence[str]) -> int:
    """Count the words that are among others, or share their beginning with one: plant, plants."""
    return sum(any(_is_alike(word, other) for other in others) for word in dict.fromkeys(words))


def _is_alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _MIN_STEM and long.startswith(short))
