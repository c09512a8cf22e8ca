"""`picoclaw teams`: which agent may give tasks to which, and which of them are a team."""

from typing import Any

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import print_wrapped
from picoclaw.config import Config, load_config
from picoclaw.errors import ConfigError
from picoclaw.schema import find_nearest
from picoclaw.text import format_json


def options(parser: Parser) -> None:
    purposes = {
        "list": "list the links and the teams (the default)",
        "add": "add a team",
        "edit": "change a team",
        "remove": "remove a team; its agents are kept",
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
    words["edit"].add_argument("--without", repeats=True, metavar="KEY", help="an agent to remove from the team")
    for word in ("link", "unlink"):
        words[word].add_argument("agent", metavar="KEY", help="the agent that gives tasks, such as default")
        words[word].add_argument("targets", nargs="+", metavar="TO", help="the agents that get them")


def run(given: Options) -> int:
    config = load_config()
    if given.act in {"", "list", None}:
        _list_teams(config, as_json=given.json)
        return 0
    from picoclaw.maintenance import household

    match given.act:
        case "remove":
            print_wrapped(*household.remove_team(config, given.name))
        case "link" | "unlink":
            print_wrapped(*household.link_agents(config, given.agent, given.targets, is_linked=given.act == "link"))
        case _:
            print_wrapped(*_save_team(config, given))
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
    from picoclaw.maintenance.household import describe_team

    for name, team in config.teams.items():
        print_wrapped(f"team {name}, {describe_team(team)}")
    if not (links or config.teams):
        print_wrapped("no agent gives tasks to another: `picoclaw teams link KEY TO` lets it, `teams add` makes a team")


def _save_team(config: Config, given: Options) -> list[str]:
    from picoclaw.maintenance import household

    is_new = given.act == "add"
    members = {} if is_new else dict(household.find_team(config, given.name).members)
    for key in getattr(given, "without", None) or ():
        if members.pop(key, None) is None:
            raise ConfigError(f"{key!r} is no member of {given.name}{find_nearest(key, members)}")
    values: dict[str, Any] = {"members": members | household.parse_roles(given.member)}
    values |= {name: value for name in ("lead", "workflow") if (value := getattr(given, name)) is not None}
    return household.save_team(config, given.name, values, is_new=is_new)
