"""`picoclaw teams`: which agent may give tasks to which, and which of them are a team."""

from typing import Any

from picoclaw.cli.arguments import Options, Parser, UsageError
from picoclaw.cli.common import print_wrapped
from picoclaw.config import Config, load_config
from picoclaw.errors import ConfigError
from picoclaw.schema import find_nearest
from picoclaw.text import format_json


def options(parser: Parser) -> None:
    """Declare the verb's words."""
    purposes = {
        "list": "list the links and the teams (the default)",
        "add": "add a team",
        "edit": "change a team",
        "remove": "take a team out; its agents are kept",
        "link": "let an agent give tasks to others",
        "unlink": "no longer let an agent give tasks to others",
    }
    words = parser.add_words(purposes)
    words["list"].add_flag("--json", help="print JSON")
    for word in ("add", "edit", "remove"):
        words[word].add_argument("name", metavar="NAME", help="small letters, digits and _, such as house")
    for word in ("add", "edit"):
        words[word].add_argument("--lead", metavar="KEY", help="the agent that gives the others their tasks")
        words[word].add_argument(
            "--member",
            repeats=True,
            metavar="KEY=ROLE",
            help='an agent and what it does, such as "garden=plants, soil"',
        )
        words[word].add_argument("--workflow", metavar="TEXT", help="how they work together, in a sentence")
    words["edit"].add_argument("--without", repeats=True, metavar="KEY", help="an agent that is no member any more")
    for word in ("link", "unlink"):
        words[word].add_argument("agent", metavar="KEY", help="the agent that gives tasks, such as default")
        words[word].add_argument("targets", nargs="+", metavar="TO", help="the agents that get them")


def run(given: Options) -> int:
    """Do it."""
    config = load_config()
    match given.act:
        case "add" | "edit" | "remove":
            _change_team(config, given)
        case "link" | "unlink":
            _change_links(config, given.agent, given.targets, is_linked=given.act == "link")
        case _:
            _list_teams(config, as_json=given.json)
            return 0
    print_wrapped("A running service knows it after a restart: picoclaw restart")
    return 0


def _list_teams(config: Config, *, as_json: bool) -> None:
    if as_json:
        teams = {
            name: {"lead": team.lead, "members": team.members, "workflow": team.workflow}
            for name, team in config.teams.items()
        }
        print(format_json({"links": config.links, "teams": teams}))
        return
    links = {key: targets for key, targets in config.links.items() if targets}
    for key, targets in links.items():
        print_wrapped(f"{key} may give tasks to {', '.join(targets)}")
    for name, team in config.teams.items():
        members = ", ".join(f"{key} ({role})" if role else key for key, role in team.members.items())
        print_wrapped(f"team {name}, led by {team.lead}: {members}{team.workflow and '. '}{team.workflow}")
    if not (links or config.teams):
        print_wrapped("no agent gives tasks to another: `picoclaw teams link KEY TO` lets it, `teams add` makes a team")


def _change_team(config: Config, given: Options) -> None:
    from picoclaw.maintenance.setup import change_table

    known = config.teams.get(given.name)
    if given.act == "add" and known:
        raise ConfigError(f"[teams.{given.name}] is there already; `picoclaw teams edit` changes it")
    if given.act == "add" and not (given.name.isidentifier() and given.name.islower()):
        raise ConfigError(f"[teams.{given.name}]: a name is small letters, digits and _, such as house")
    if given.act != "add" and not known:
        near = find_nearest(given.name, config.teams) if config.teams else "; there is no team at all"
        raise ConfigError(f"there is no team {given.name!r}{near}")
    if given.act == "remove":
        change_table(config.home, f"teams.{given.name}", None)
        print_wrapped(f"the team {given.name} is taken out; its agents are kept")
        return
    members = dict(known.members) if known else {}
    for key in getattr(given, "without", None) or ():
        if members.pop(key, None) is None:
            raise ConfigError(f"{key!r} is no member of {given.name}{find_nearest(key, members)}")
    for one in given.member:
        key, _, role = one.partition("=")
        members[key.strip()] = role.strip()
    values: dict[str, Any] = {"members": members}
    values |= {name: value for name in ("lead", "workflow") if (value := getattr(given, name)) is not None}
    if given.act == "add" and "lead" not in values:
        raise UsageError("a team needs a lead: --lead KEY, who is one of its members")
    change_table(config.home, f"teams.{given.name}", values)
    team = load_config().teams[given.name]
    print_wrapped(f"{team.lead} leads the team {given.name}: {', '.join(team.members)}")


def _change_links(config: Config, agent: str, targets: list[str], *, is_linked: bool) -> None:
    from picoclaw.maintenance.setup import change_table

    kept = list(config.links.get(agent, ()))
    for target in targets:
        if is_linked and target not in kept:
            kept.append(target)
        elif not is_linked and target in kept:
            kept.remove(target)
        elif not is_linked:
            led = [name for name, team in config.teams.items() if team.lead == agent and target in team.members]
            why = f"; it leads the team {led[0]}, which lets it give tasks there" if led else ""
            raise ConfigError(f"{agent} has no link to {target!r}{why}")
    change_table(config.home, "links", {agent: kept})
    print_wrapped(f"{agent} may give tasks to {', '.join(kept) or 'nobody'}")
