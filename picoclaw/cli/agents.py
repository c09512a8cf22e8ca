"""`picoclaw agents` and `picoclaw teams`: the agents of this home, their pages, and which may give tasks to which.

`picoclaw summon`: a model writes the files of a new character; nothing is written without a yes to the diff.
"""

import sys
import termios
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from picoclaw.agents import AGENT_PAGES, agent_id, list_agents, select_agent
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.boards import open_store
from picoclaw.cli.common import (
    add_board_option,
    add_person_option,
    check_person,
    confirm,
    open_app,
    print_note,
    print_safe,
    print_wrapped,
    require_terminal,
)
from picoclaw.config import Config, load_config
from picoclaw.config.files import read_regular
from picoclaw.config.tables import AgentConfig
from picoclaw.errors import ConfigError, ProviderError, StoreError
from picoclaw.files import find_shipped
from picoclaw.maintenance import household
from picoclaw.prompts import count_bytes
from picoclaw.providers import ask_whole
from picoclaw.schema import find_nearest
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace import ONBOARDING_PAGE, Pages

if TYPE_CHECKING:
    from picoclaw.app import App
    from picoclaw.shared_store.home import SharedAgent


def add_agents_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": ("list the agents and their purposes (the default)", _list_agents),
            "add": ("add an agent", _change_agent),
            "edit": ("change an agent", _change_agent),
            "remove": ("remove an agent; its folder is kept", _remove_agent),
            "summon": ("let a model write an agent's pages from your description, after asking", run_summon),
            "pages": ("list, print or write a person's pages with an agent", _handle_pages),
        },
        "list",
    )
    words["list"].add_argument("--json", "print JSON")
    for word in ("add", "edit", "remove", "summon", "pages"):
        words[word].add_argument("key", "small letters, digits and _, such as garden")
    for word in ("add", "edit"):
        words[word].add_argument("--name NAME", "its display name")
        words[word].add_argument("--description TEXT", "its purpose, in a sentence")
        words[word].add_argument("--model NAME", "the NAME of a [models.NAME]; '' for [model]")
        words[word].add_argument("--tools LIST", "the only tools it may have, such as sensor_*,output; '' for all")
        words[word].add_argument("--people LIST", "who may talk to it, such as ada,bob; * for all, '' for only you")
        words[word].add_argument("--workspace FOLDER", "a folder of yours for it, outside the home")
        words[word].add_argument(
            "--type", "open: each person has their own version of all pages", choices=("open", "predefined")
        )
        words[word].add_argument("--default", "make it the home's own agent, which has the home's pages and settings")
    words["add"].add_argument("--from-store", "copy it with its pages from the store that boards share, after asking")
    words["add"].add_argument("--yes", "with --from-store: do not ask")
    _add_persona_options(words["summon"])
    words["pages"].add_argument("page", "such as USER.md", nargs="?", default="")
    add_person_option(words["pages"], "whose")
    words["pages"].add_argument("--write FILE", "write the page from this file, - for standard input")


def _remove_agent(given: Options) -> int:
    print_wrapped(*household.remove_agent(load_config(), given.key))
    return 0


def _list_agents(given: Options) -> int:
    config = load_config()
    rows = list(_describe_agents(config))
    if given.json:
        print(format_json(rows))
        return 0
    for row in rows:
        print_wrapped(f"{row['key']}  {household.describe_agent(config, row['key'])}, in {row['workspace']}")
    if len(rows) == 1:
        print_wrapped("`picoclaw agents add KEY` adds another")
    if config.store.url:
        _list_stored(config)
    return 0


def _list_stored(config: Config) -> None:
    """List the agents that the store has for this board, and this home has not."""
    try:
        with open_store(config) as store:
            from picoclaw.shared_store.home import list_shared_agents

            found = [agent for agent in list_shared_agents(store) if agent.key not in list_agents(config)]
    except StoreError as error:
        print_note(f"{error}; what is in the store is not listed")
        return
    for agent in found:
        about = " - ".join(filter(None, (agent.table.get("name"), agent.table.get("description")))) or "no description"
        print_wrapped(
            f"{agent.key}  {about} (in the store, by {agent.board}): `picoclaw agents add {agent.key} --from-store`"
        )


def _find_stored(config: Config, given: Options) -> "SharedAgent | None":
    """Show an agent as the store has it, and ask; None where it is not to be taken over. Raises ConfigError and StoreError."""
    with open_store(config) as store:
        from picoclaw.shared_store.home import list_shared_agents

        there = {agent.key: agent for agent in list_shared_agents(store)}
    if not (found := there.get(given.key)):
        known = f"it has {', '.join(sorted(there))}" if there else "it has none for this board"
        raise ConfigError(
            f"the store has no agent {given.key!r} for this board; {known}. As the administrator,"
            f" `picoclaw store setup --board {config.store.board_name} --agents …` gives it more"
        )
    written = datetime.fromtimestamp(found.at).astimezone()
    print_wrapped(f"{found.key}, as the board {found.board} has described it at {written:%Y-%m-%d %H:%M}:")
    print_wrapped(*(f"  {name} = {value!r}" for name, value in found.table.items()))
    for name, text in found.pages.items():
        print_safe(f"--- {name}", *text.splitlines())
    if given.yes:
        return found
    require_terminal("nothing was written: it takes a terminal, or --yes")
    return found if confirm("Take it over?") else None


def _describe_agents(config: Config) -> Iterator[dict[str, Any]]:
    for key in list_agents(config):
        agent = config.agents.get(key, AgentConfig())
        own = config if key == config.default_agent else select_agent(config, key)
        yield {
            "key": key,
            "id": agent_id(key),
            "default": key == config.default_agent,
            "name": agent.name,
            "description": agent.description,
            "type": agent.type,
            "model": agent.model,
            "tools": agent.tools,
            "people": agent.people,
            "workspace": str(own.agent_folder / "workspace"),
        }


def _change_agent(given: Options) -> int:
    config, is_new = load_config(), given.word == "add"
    household.check_agent_key(config, given.key, is_new=is_new)
    stored = None
    if is_new and given.from_store:
        if given.key == config.default_agent:
            raise ConfigError(f"{given.key} is the home's own agent: `picoclaw store move from` brings its pages")
        if (stored := _find_stored(config, given)) is None:
            print_wrapped("Nothing was written.")
            return 1
    values: dict[str, Any] = dict(stored.table) if stored else {}
    values |= given.select("name", "description", "model", "workspace", "type")
    if values.get("model") and values["model"] not in config.models and given.model is None:
        print_note(f"there is no [models.{values.pop('model')}] here, so that it has the model of [model]")
    values |= {name: household.split_names(text) for name, text in given.select("tools", "people").items()}
    if given.default:
        values["default"] = True
    pages = stored.pages if stored else None
    print_wrapped(
        *household.save_agent(config, given.key, values, partial(_list_tools, given), is_new=is_new, pages=pages)
    )
    return 0


def _list_tools(given: Options) -> list[str]:
    with open_app(given) as app:
        return list(app.toolset.names)


def _handle_pages(given: Options) -> int:
    """List, print or write what a person has with an agent."""
    with open_app(given) as home:
        role = check_person(home.config, given.person)
        if role == "guest":
            raise ConfigError(f"{given.person} is a guest, who has no pages")
        view = home.open_view(given.person if role == "member" else "", given.key)
        pages = view.personal
        if pages is None:
            raise ConfigError(f"the owner's pages with the home's own agent are files in {view.config.workspace}")
        if given.page and given.page not in (*AGENT_PAGES, ONBOARDING_PAGE):
            raise ConfigError(f"{given.page!r} is none of the pages: {', '.join((*AGENT_PAGES, ONBOARDING_PAGE))}")
        if given.write is not None:
            if not given.page:
                raise ConfigError("--write takes the name of a page, such as USER.md")
            text = sys.stdin.read() if given.write == "-" else _read_file(given.write)
            print_wrapped(f"wrote {given.page}: {pages.write(given.page, text)} bytes")
            return 0
        if given.page:
            print_safe((pages.read_merged(given.page) or "").rstrip("\n"))
            return 0
        for name, size in pages.list_merged().items():
            whose = "their own" if pages.read(name) is not None else "the agent's"
            print_safe(f"{name:<14} {size:>6}  {whose}")
    return 0


def _read_file(path: str) -> str:
    from pathlib import Path

    if not Path(path).exists():
        raise ConfigError(f"there is no file {path}")
    return read_regular(Path(path)).decode(errors="replace")


def add_teams_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": ("list the links and the teams (the default)", _list_teams),
            "add": ("add a team", _save_team),
            "edit": ("change a team", _save_team),
            "remove": ("remove a team; its agents are kept", _remove_team),
            "link": ("let an agent give tasks to others", _link_agents),
            "unlink": ("no longer let an agent give tasks to others", _link_agents),
        },
        "list",
    )
    words["list"].add_argument("--json", "print JSON")
    for word in ("add", "edit", "remove"):
        words[word].add_argument("name", "small letters, digits and _, such as house")
    for word in ("add", "edit"):
        words[word].add_argument("--lead KEY", "the agent that gives the others their tasks")
        words[word].add_argument(
            "--member KEY=ROLE", 'an agent and what it does, such as "garden=plants, soil"', repeats=True
        )
        words[word].add_argument("--workflow TEXT", "how they work together, in a sentence")
    words["edit"].add_argument("--without KEY", "an agent to remove from the team", repeats=True)
    for word in ("link", "unlink"):
        words[word].add_argument("agent KEY", "the agent that gives tasks, such as default")
        words[word].add_argument("targets TO", "the agents that get them", nargs="+")


def _remove_team(given: Options) -> int:
    print_wrapped(*household.remove_team(load_config(), given.name))
    return 0


def _link_agents(given: Options) -> int:
    is_linked = given.word == "link"
    print_wrapped(*household.link_agents(load_config(), given.agent, given.targets, is_linked=is_linked))
    return 0


def _list_teams(given: Options) -> int:
    config = load_config()
    if given.json:
        teams = {
            name: {"lead": team.lead, "members": team.members, "workflow": team.workflow}
            for name, team in config.teams.items()
        }
        print(format_json({"links": config.links, "teams": teams}))
        return 0
    links = {key: targets for key, targets in config.links.items() if targets}
    for key, targets in links.items():
        print_wrapped(f"{key} may give tasks to {', '.join(targets)}")
    for name, team in config.teams.items():
        print_wrapped(f"team {name}, {household.describe_team(team)}")
    if not (links or config.teams):
        print_wrapped("no agent gives tasks to another: `picoclaw teams link KEY TO` lets it, `teams add` makes a team")
    return 0


def _save_team(given: Options) -> int:
    config, is_new = load_config(), given.word == "add"
    members = {} if is_new else dict(household.find_team(config, given.name).members)
    for key in () if is_new else given.without:
        if members.pop(key, None) is None:
            raise ConfigError(f"{key!r} is no member of {given.name}{find_nearest(key, members)}")
    values = {"members": members | household.parse_roles(given.member), **given.select("lead", "workflow")}
    print_wrapped(*household.save_team(config, given.name, values, is_new=is_new))
    return 0


_MAX_PERSONA_CHARS = 2000


def add_summon_options(parser: Parser) -> None:
    about = "the agent to change: a key of `picoclaw agents`"
    parser.add_argument("--agent KEY", about, dest="key", default="")
    _add_persona_options(parser)


def _add_persona_options(parser: Parser) -> None:
    parser.add_argument("persona WHO", 'such as "a sarcastic greenhouse keeper"', nargs="+")
    parser.add_argument("--yes", "write the model's text without asking")
    parser.add_argument("--dry-run", "print the diff and write nothing")
    add_board_option(parser)


def run_summon(given: Options) -> int:
    """Ask once, show the diff, write on consent; 1 when the model's files could not be used or written."""
    from picoclaw.agent import summon

    persona = " ".join(given.persona).strip()
    if not 0 < len(persona) <= _MAX_PERSONA_CHARS:
        raise ConfigError(f"the character must be told in 1 to {_MAX_PERSONA_CHARS} characters, not {len(persona)}")
    with open_app(given, make=not given.dry_run) as home:
        app = home.open_view("", given.key)
        workspace = app.config.workspace
        good, problem = _request_character(app, persona)
        wanted, problems = summon.list_changes(workspace, find_shipped("templates") / "workspace", good)
        for each in problems:
            print_note(each)
        if problem:
            print_note(f"{problem}; the templates {'are offered instead' if wanted else 'would change nothing'}")
        for change in wanted:
            print(escape_unprintable(summon.format_diff(change)), end="")
        if wanted and not given.dry_run:
            agreed = _confirm(by_model=bool(good), yes=given.yes)
            if not agreed:
                return 1 if agreed is None else int(not good)
            written = []
            try:  # in order; it says which, also when the disk fails in the middle
                for change in wanted:
                    if summon.write_change(workspace, change):
                        written.append(change.name)
                    else:
                        print_note(f"{change.name} was changed meanwhile and is left alone; run it again")
            finally:
                print(f"Wrote {', '.join(written) or 'nothing'}.", flush=True)
            return 1 if len(written) < len(wanted) else int(not good)
        if good and not wanted:
            print("Nothing to change.")
    return int(not good)


def _request_character(app: "App", persona: str) -> tuple[dict[str, str], str]:
    """Have the model write the files; returns those that can be used, and if there are none why."""
    from picoclaw.agent import summon

    model = app.config.model
    if not model.base_url:
        return {}, "no model is set up: `picoclaw init` does that"
    pages = Pages(app.config.agent_folder).pages(summon.SUMMON_FILES)
    tools = [name for name in app.toolset.only_reading if name != "skill_search"]
    deadline = time.monotonic() + app.config.limits.seconds
    print_note(f"asking {app.models.name}; Ctrl-C ends it")
    request, too_long = summon.build_request(app.prompts, persona, pages, tools, model, deadline)
    try:
        answer = ask_whole(app.models, request)
    except ProviderError as error:
        return {}, f"the model did not answer: {error}"
    good, problems = summon.check_files(answer, too_long, persona if model.is_small else "")
    for problem in problems:
        print_note(problem)
    counted = f"{answer.usage.prompt_tokens} tokens in, {answer.usage.completion_tokens} out"
    print_note(f"{counted}; {len(good)} files of {sum(map(count_bytes, good.values()))} bytes in all")
    return good, "" if good else "nothing of the model's answer could be used"


def _confirm(*, by_model: bool, yes: bool) -> bool | None:
    """Ask the person; None when there is nobody to ask. A --yes was not meant for templates over the owner's words."""
    if yes and by_model:
        return True
    if yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        why = "--yes is not for the templates" if yes else "it takes a terminal, or --yes"
        print_note(f"nothing was written: {why}")
        return None
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
    try:
        if confirm("Write these files?" if by_model else "Write the templates?"):
            return True
    except EOFError:
        print()
    print("Nothing was written.")
    return False
