"""Adds, changes and takes out people, agents, teams, links and grants of skills; the command line and the page both call it.

What was done comes back as lines for a person. Tables are written into config.toml, grants into state.db.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from picoclaw.agents import agent_id, check_agent, list_agents, prepare_agent, select_agent
from picoclaw.channels.dashboard.live import PERSONS_CHAT
from picoclaw.channels.dashboard.login import Logins
from picoclaw.config import PEOPLE_FOLDER, SHARED_FOLDER, Config, load_config
from picoclaw.config.tables import AgentConfig, PersonConfig, TeamConfig
from picoclaw.errors import ConfigError, PicoclawError, SkillError
from picoclaw.files import explain_os_error, explain_os_errors, write_atomic
from picoclaw.messages import LOGIN_WAY
from picoclaw.records import MISSING, NamedTuple, fields, replace
from picoclaw.schema import Parameter, find_nearest, read_parameter
from picoclaw.store.people import AGENT, EVERYONE, PERSON, ContextFiles, People, SkillGrant, SkillGrants
from picoclaw.store.sessions import Sessions

if TYPE_CHECKING:
    from picoclaw.skills import Skill, SkillLibrary
    from picoclaw.store.database import Database

RESTART = "If the service runs, restart it: sudo picoclaw restart"
ROLE_WORDS = {
    "owner": "an owner: may do everything that you may, and approve actions",
    "member": "a member: reads the sensors, has own notes and reminders, switches outputs that allow members",
    "guest": "a guest: reads the sensors and has own reminders",
}
_MOST_CHARS = {"name": 100, "description": 1000}
_LAST_OWNER = (
    "That was the last owner of [people]. The owner is now the person that [telegram] or [matrix] names, otherwise the"
    " first one paired or allowed there, and the user at the board's own terminal."
)


def _write_table(config: Config, table: str, values: Mapping[str, Any] | None) -> Config:
    """Write a table, or take it out (None), and return the settings as they are then. Raises ConfigError."""
    from picoclaw.maintenance.setup import change_table
    from picoclaw.workspace import prepare_home

    prepare_home(config.home)
    change_table(config.home, table, values)
    return load_config()


# --- people ---


def find_person(config: Config, name: str) -> PersonConfig:
    """The table of a person by their name. Raises ConfigError."""
    if name not in config.people:
        near = find_nearest(name, config.people).rstrip("?") if config.people else "; there is no [people.NAME] at all"
        raise ConfigError(f"nobody is called {name!r}{near}; `picoclaw people` lists them, `people add` adds one")
    return config.people[name]


def save_person(
    config: Config, database: "Database", name: str, values: Mapping[str, Any], *, is_new: bool | None = None
) -> list[str]:
    """Add a person, or change one; `is_new` says which it has to be. Raises ConfigError and StoreError."""
    known = config.people.get(name)
    if is_new and known:
        raise ConfigError(f"[people.{name}] is there already; `picoclaw people edit` changes it")
    if is_new is False:
        find_person(config, name)
    role = values.get("role") or (known.role if known else "member")
    _write_table(config, f"people.{name}", {**values, "role": role})
    lines = [f"{name} is {ROLE_WORDS[role]}", *_warn_of_owners(config, name, role), RESTART]
    if not known and (config.home / "state.db").exists() and (kept := _set_aside(config, database, name)):
        lines.append(f"An earlier {name} has left something, which is not theirs: {_format_places(kept)}")
    if not known and config.store.url:
        lines.append(f"Boards that share the store have one {name}: what others note by that name comes here too.")
    if not known and not any(values.get(way) for way in ("telegram", "matrix", "terminal")):
        lines.append(f"Then `picoclaw telegram pair --as {name}`, `matrix pair` or `page code` prints a code for them.")
    return lines


def remove_person(config: Config, database: "Database", name: str) -> list[str]:
    """Take a person out; what they wrote is kept, and whoever gets the name next has none of it.

    Raises ConfigError and StoreError.
    """
    person = find_person(config, name)
    closed = [key for key, agent in config.agents.items() if name in agent.people]
    if person.agent in closed:  # the settings are checked at each step
        _write_table(config, f"people.{name}", {"agent": ""})
    for key in closed:
        left = [one for one in config.agents[key].people if one != name]
        _write_table(config, f"agents.{key}", {"people": left})
    _write_table(config, f"people.{name}", None)
    gone, kept = People(config.people, database).unpair(name), _set_aside(config, database, name)
    lines = [f"{name} was removed{f'; what they wrote is kept in {_format_places(kept)}' if kept else ''}", RESTART]
    lines += _warn_of_owners(config, name, "")
    lines += [f"{name} was removed from the people of the agent {key}" for key in closed]
    for way in gone:
        channel, _, user = way.partition(":")
        lines.append(f"{way} may still chat, as a guest; `picoclaw {channel} forget {user}` ends that")
    return lines


def _set_aside(config: Config, database: "Database", name: str) -> list[Path]:
    """Put away what is kept under the name of a person who is none any more; returns the folders that it is in now.

    Moved back to where they were, they are theirs again. Raises ConfigError and StoreError.
    """
    Logins(config.home).forget(person=name)
    files, grants, moved = ContextFiles(database), SkillGrants(database), []
    for grant in grants.all():
        if grant.grantee == f"{PERSON}{name}":
            grants.revoke(grant.skill, grant.grantee)
    number = 1
    while (config.home / PEOPLE_FOLDER / f"{name}.{number}").exists():
        number += 1
    Sessions(database).set_aside(f"{PERSONS_CHAT}{name}", f"{LOGIN_WAY}{name}", name, f"{PERSONS_CHAT}{name}.{number}")
    try:
        for key in ("", *config.agents):
            own = replace(config, agent=key, person=name).folder
            pages = files.list_files(agent_id(key or config.default_agent), name)
            for page in (one for one in pages if one.text):
                (own / "workspace").mkdir(parents=True, exist_ok=True)
                write_atomic(own / "workspace" / page.name, page.text.encode(errors="replace"))
            if pages or (own / "seeds.json").exists():
                if own.exists():
                    moved.append(own.rename(own.with_name(f"{name}.{number}")))
                files.delete(agent_id(key or config.default_agent), name)
            shared = (config if not key else replace(config, agent=key)).agent_folder / SHARED_FOLDER
            for path in shared.rglob("*.md"):
                text = path.read_text()
                if (mended := re.sub(rf"\((not from the owner: )member {name}\b", r"(\1former member", text)) != text:
                    write_atomic(path, mended.encode())
        letters = config.home / f"page_letters-{name}.json"
        if letters.exists():
            letters.rename(letters.with_name(f"page_letters-{name}.{number}.json"))
    except (OSError, UnicodeError) as error:
        why = explain_os_error(error) if isinstance(error, OSError) else error
        raise ConfigError(
            f"what {name} wrote cannot be put away ({why}): do it by hand, before there is another"
        ) from None
    return moved


def _format_places(folders: Sequence[Path]) -> str:
    return " and ".join(map(str, folders))


def _warn_of_owners(config: Config, name: str, role: str) -> Iterator[str]:
    """Say who is the owner when a person, who has that role now, was the last one of [people]."""
    owners = {other for other, one in config.people.items() if one.role == "owner"}
    if owners == {name} and role != "owner":
        yield _LAST_OWNER


def describe_person(name: str, person: PersonConfig, ways: Sequence[str]) -> str:
    return f"{person.role}, {', '.join(ways) or f'not paired yet: `picoclaw telegram pair --as {name}`'}"


# --- agents ---


def check_agent_key(config: Config, key: str, *, is_new: bool) -> None:
    """Raise ConfigError where there is an agent that is to be added, or none that is to be changed."""
    if is_new == (key in config.agents):
        why = "is there already; `picoclaw agents edit` changes it" if is_new else "is not there; `agents add` adds it"
        raise ConfigError(f"[agents.{key}] {why}")


def save_agent(
    config: Config,
    key: str,
    values: Mapping[str, Any],
    list_tools: Callable[[], Collection[str]],
    *,
    is_new: bool,
    pages: Mapping[str, str] | None = None,
) -> list[str]:
    """Add an agent with its folder, or change one; `pages` are those of another board's. Raises ConfigError.

    `list_tools` names the board's tools, and is asked only where the agent has some of them.
    """
    check_agent_key(config, key, is_new=is_new)
    for name, most in _MOST_CHARS.items():
        text = values.get(name, "")
        if not text.isprintable() or len(text) > most:
            raise ConfigError(f"[agents.{key}]: {name} must be one line of at most {most} characters")
    if (
        (folder := values.get("workspace"))
        and folder.startswith(("/", "~"))
        and not AgentConfig(workspace=folder).folder.is_dir()
    ):
        raise ConfigError(f"[agents.{key}]: the workspace {folder} is not there; make the folder, or mount its disk")
    before, config = config.agents.get(key), _write_table(config, f"agents.{key}", values)
    if not check_agent(config, key):
        return [f"{key} is the home's own agent", RESTART]
    chosen, lines = select_agent(config, key), []
    try:
        if pages is not None:
            from picoclaw.shared_store.home import write_agent_pages

            count = write_agent_pages(chosen.agent_folder / "workspace", pages)
            lines.append(
                f"{count} of its pages were taken over; notes and people's pages come with the next `picoclaw store sync`"
            )
        prepare_agent(chosen)
    except PicoclawError:  # then there is no agent that has no folder
        _write_table(config, f"agents.{key}", {name: getattr(before, name) for name in values} if before else None)
        raise
    lines.append(f"{key} is ready; its pages are in {chosen.agent_folder / 'workspace'}")
    lines.append(f"`picoclaw chat --agent {key}`, or /agent {key} in a chat, talks to it")
    if tools := chosen.agents[key].tools:
        from picoclaw.tools.registry import is_allowed

        known = list_tools()
        lines += [
            f"no tool of this board is called {one}; `picoclaw tools` lists them"
            for one in tools
            if not any(is_allowed(name, [one]) for name in known)
        ]
    return [*lines, RESTART]


def remove_agent(config: Config, key: str) -> list[str]:
    """Take an agent out; its folder is kept. Raises ConfigError."""
    if key not in config.agents:
        check_agent(config, key)
        raise ConfigError(f"{key} is the home's own agent, which is always there")
    folder = None if key == config.default_agent else select_agent(config, key).agent_folder
    if folder and (used := list(_list_uses(config, key))):
        raise ConfigError(f"{key} is still needed: {', '.join(used)}; change that first")
    _write_table(config, f"agents.{key}", None)
    kept = f"; its pages and notes are kept in {folder}" if folder and folder.exists() else ""
    lines = [f"{key} was removed{kept}"]
    return [*lines, "Conversations with it say so; /agent continues with another.", RESTART]


def _list_uses(config: Config, key: str) -> Iterator[str]:
    for other, targets in config.links.items():
        if key in targets or (key == other and targets):
            yield f"{other} may give tasks to {', '.join(targets)} (`picoclaw teams unlink {other} {key if key in targets else ' '.join(targets)}`)"
    yield from (
        f"the team {name} has it (`picoclaw teams edit {name} --without {key}`, or `remove {name}`)"
        for name, one in config.teams.items()
        if key in one.members
    )
    for name, person in config.people.items():
        if person.agent == key:
            yield f"it answers {name} (`picoclaw people edit {name} --agent ''`)"


def describe_agent(config: Config, key: str) -> str:
    agent, is_own = config.agents.get(key, AgentConfig()), key == config.default_agent
    kind = "the home's own" if is_own else agent.type
    about = ", ".join(filter(None, (kind, agent.model and f"model {agent.model}", " ".join(agent.tools))))
    if "*" not in agent.people:
        about += f", for {', '.join(agent.people) or 'the owner'}"
    return f"{list_agents(config)[key]} ({about})"


# --- links and teams ---


def save_team(config: Config, name: str, values: Mapping[str, Any], *, is_new: bool) -> list[str]:
    """Add a team, or change one. Raises ConfigError."""
    if is_new and name in config.teams:
        raise ConfigError(f"[teams.{name}] is there already; `picoclaw teams edit` changes it")
    if is_new and not (name.isidentifier() and name.islower()):
        raise ConfigError(f"[teams.{name}]: a name is small letters, digits and _, such as house")
    if not is_new:
        find_team(config, name)
    for key in values.get("members", ()):
        if key not in config.agents and key != config.default_agent:
            raise ConfigError(
                f"[teams.{name}]: members: there is no agent {key!r}{find_nearest(key, {config.default_agent: 0, **config.agents})}"
            )
    if is_new and not values.get("lead"):
        raise ConfigError("a team needs a lead: --lead KEY, who is one of its members")
    team = _write_table(config, f"teams.{name}", {"members": {}, **values} if is_new else values).teams[name]
    return [f"{team.lead} leads the team {name}: {', '.join(team.members)}", RESTART]


def find_team(config: Config, name: str) -> TeamConfig:
    """The table of a team by its name. Raises ConfigError."""
    if name not in config.teams:
        near = find_nearest(name, config.teams) if config.teams else "; there is no team at all"
        raise ConfigError(f"there is no team {name!r}{near}")
    return config.teams[name]


def remove_team(config: Config, name: str) -> list[str]:
    """Take a team out. Raises ConfigError."""
    find_team(config, name)
    _write_table(config, f"teams.{name}", None)
    return [f"the team {name} was removed; its agents are kept", RESTART]


def describe_team(team: TeamConfig) -> str:
    members = ", ".join(f"{key} ({role})" if role else key for key, role in team.members.items())
    return f"led by {team.lead}: {members}{team.workflow and '. '}{team.workflow}"


def link_agents(config: Config, agent: str, targets: Sequence[str], *, is_linked: bool = True) -> list[str]:
    """Let an agent give tasks to others as well, or no longer to these. Raises ConfigError."""
    kept = list(config.links.get(agent, ()))
    if not targets:
        raise ConfigError(f"{agent} has no link")
    for target in targets:
        if is_linked and target not in kept:
            kept.append(target)
        elif not is_linked and target in kept:
            kept.remove(target)
        elif not is_linked:
            led = [name for name, team in config.teams.items() if team.lead == agent and target in team.members]
            why = f"; it leads the team {led[0]}, which lets it give tasks there" if led else ""
            raise ConfigError(f"{agent} has no link to {target!r}{why}")
    return _save_links(config, agent, kept)


def _save_links(config: Config, agent: str, targets: Sequence[str]) -> list[str]:
    if not targets and agent not in config.links:
        check_agent(config, agent)
    _write_table(config, "links", {agent: list(targets)})
    return [f"{agent} may give tasks to {', '.join(targets) or 'nobody'}", RESTART]


# --- who may use which skill ---


def find_skill(library: "SkillLibrary", name: str) -> "Skill":
    """A skill by its name. Raises SkillError."""
    if name not in library.skills:
        for broken in library.broken:
            if broken.folder.name == name:
                raise SkillError(f"{broken.folder}: {broken.problem}".replace("\n", "\\n"))
        raise SkillError(f"there is no skill {name!r}{find_nearest(name, library.skills)}")
    return library.skills[name]


def find_grantee(config: Config, person: str, agent: str) -> str:
    """To whom a skill may be granted, as grants have it; '' for neither. Raises SkillError."""
    if person and agent:
        raise SkillError("name a person or an agent, one at a time")
    if person:
        if person not in config.people:
            known = find_nearest(person, config.people) if config.people else ": `picoclaw people add NAME`"
            raise SkillError(f"there is no [people.{person}]{known}")
        if (role := config.people[person].role) != "member":
            all_ = "has every skill" if role == "owner" else "is a guest; guests have the built-in skills alone"
            raise SkillError(f"{person} {all_}")
        return f"{PERSON}{person}"
    if agent:
        agents = {config.default_agent: None, **dict.fromkeys(config.agents)}
        if agent not in agents:
            raise SkillError(f"there is no agent {agent!r}{find_nearest(agent, agents)}")
        return f"{AGENT}{agent}"
    return ""


def grant_skill(
    config: Config, database: "Database", skill: "Skill", grantee: str, granted_by: str, now: datetime
) -> list[str]:
    """Let somebody use a skill; an agent gets a copy of it as it is now. Raises SkillError and StoreError."""
    from picoclaw.skills import BUILT_IN, pin_skill

    name, home = skill.name, config.home
    if skill.tier == BUILT_IN:
        raise SkillError(f"{name} came with picoclaw: everybody of the household has it")
    pinned = ""
    if grantee.startswith(AGENT):
        with explain_os_errors(SkillError, f"{name} cannot be copied for the agent"):
            pinned = pin_skill(skill, home, grantee.removeprefix(AGENT))
    SkillGrants(database).grant(SkillGrant(name, grantee, pinned, granted_by, now.isoformat(timespec="seconds")))
    who = {EVERYONE: "every member of the household"}.get(grantee, name_grantee(grantee))
    which = f" in version {pinned}, until you grant another one" if pinned else ", always in its present version"
    return [f"{who} may use {name}{which}, from the next message on"]


def revoke_skill(config: Config, database: "Database", name: str, grantee: str) -> list[str]:
    """Take a grant back, '' for all of a skill's, also of a skill or for somebody that there is no longer.

    Nothing comes back where there was none. Raises StoreError.
    """
    from picoclaw.skills import unpin_skill

    gone = SkillGrants(database).revoke(name, grantee)
    lines = []
    for grant in gone:
        if grant.grantee.startswith(AGENT):
            try:
                unpin_skill(config.home, grant.grantee.removeprefix(AGENT), grant.skill)
            except OSError as error:
                lines.append(f"the agent's copy is left, and unused: {explain_os_error(error)}")
    if gone:
        to = ", ".join(name_grantee(grant.grantee) for grant in gone)
        lines.append(f"{name} is no longer granted to {to}, from the next message on")
        if left := [name_grantee(one.grantee) for one in SkillGrants(database).all() if one.skill == name]:
            lines.append(f"it is still granted to {', '.join(left)}")
    return lines


def name_grantee(grantee: str) -> str:
    return grantee.replace(":", " ")


def describe_grant(config: Config, grant: SkillGrant, skill: "Skill | None") -> str:
    text = f"granted to {name_grantee(grant.grantee)} by {grant.granted_by} at {grant.granted_at}"
    if skill is None:
        return f"{text}; there is no such skill any more"
    if not grant.pinned:
        return text
    from picoclaw.skills import PINNED_FOLDER, find_version

    copy = config.home / PINNED_FOLDER / grant.grantee.removeprefix(AGENT) / grant.skill
    if find_version(copy) != grant.pinned:
        same = "the agent's copy of which is not that any more, and not used: grant it again"
    else:
        is_same = find_version(skill.folder) == grant.pinned
        same = "the present one" if is_same else "it has changed since: grant it again to hand that on"
    return f"{text}, version {grant.pinned}, {same}"


# --- all of it as lists and forms, for the page ---


class FormField(NamedTuple):
    """A field of a form: `kind` is "text", "lines", or "choice" of `choices`; `usual` is what it has at first."""

    name: str
    text: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    usual: str = ""


class TableRow(NamedTuple):
    """Somebody or something: `values` are the form's, without the key; () cannot be edited, and None not be removed."""

    key: str
    text: str
    values: tuple[str, ...] | None = ()


class TableForm(NamedTuple):
    """All of a kind: `one` is what one is called, the first of the `fields` is its key."""

    kind: str
    title: str
    one: str
    fields: tuple[FormField, ...]
    rows: tuple[TableRow, ...]


_TABLES: dict[str, type[Any]] = {"people": PersonConfig, "agents": AgentConfig, "teams": TeamConfig}


class Household:
    """What the page shows and changes of people and agents; see the functions above."""

    def __init__(
        self, database: "Database", library: "SkillLibrary", list_tools: Callable[[], Collection[str]]
    ) -> None:
        """`list_tools` names the board's tools; the settings are read anew each time."""
        self._config, self._database, self._library = load_config(), database, library
        self._list_tools = list_tools

    def list_forms(self) -> list[TableForm]:
        """Everything there is, and how to change it. Raises ConfigError and StoreError."""
        config, people = self._config, People(self._config.people, self._database)
        agents = tuple(list_agents(config))
        rows = {
            "people": [
                TableRow(name, describe_person(name, one, people.list_ways(name)), self._read_values("people", one))
                for name, one in config.people.items()
            ],
            "agents": [
                TableRow(
                    key,
                    describe_agent(config, key),
                    self._read_values("agents", config.agents[key]) if key in config.agents else None,
                )
                for key in agents
            ],
            "links": [
                TableRow(key, f"may give tasks to {', '.join(others)}", (", ".join(others),))
                for key, others in config.links.items()
                if others
            ],
            "teams": [
                TableRow(name, describe_team(one), self._read_values("teams", one))
                for name, one in config.teams.items()
            ],
            "grants": [
                TableRow(f"{one.skill} {one.grantee}", describe_grant(config, one, self._library.skills.get(one.skill)))
                for one in SkillGrants(self._database).all()
            ],
        }
        granted = tuple(n for n, s in self._library.skills.items() if s.tier != "built-in")
        members = (f"{PERSON}{name}" for name, one in config.people.items() if one.role == "member")
        grantees = (EVERYONE, *members, *(f"{AGENT}{key}" for key in agents))
        giver = FormField("key", "the agent that gives tasks", "choice", agents)
        targets = FormField("to", "the agents that it may give tasks to, such as garden, cellar")
        skill = FormField("key", "a skill of yours", "choice", granted)
        kinds = (
            ("people", "People", "person", self._list_fields("people", "ada")),
            ("agents", "Agents", "agent", self._list_fields("agents", "garden")),
            ("links", "Links", "link", (giver, targets)),
            ("teams", "Teams", "team", self._list_fields("teams", "house")),
            (
                "grants",
                "Skills of yours for others",
                "grant",
                (skill, FormField("to", "who may use it", "choice", grantees)),
            ),
        )
        return [TableForm(kind, title, one, fields, tuple(rows[kind])) for kind, title, one, fields in kinds]

    def change(self, kind: str, act: str, key: str, given: Mapping[str, str], by: str, now: datetime) -> list[str]:
        """Add, edit or remove what a form is about. Raises ConfigError, SkillError and StoreError."""
        config, database, is_new = self._config, self._database, act == "add"
        match kind, act:
            case "people", "add" | "edit":
                return save_person(config, database, key, _parse_form(PersonConfig, given), is_new=is_new)
            case "people", "remove":
                return remove_person(config, database, key)
            case "agents", "add" | "edit":
                return save_agent(config, key, _parse_form(AgentConfig, given), self._list_tools, is_new=is_new)
            case "agents", "remove":
                return remove_agent(config, key)
            case "teams", "add" | "edit":
                return save_team(config, key, _parse_form(TeamConfig, given), is_new=is_new)
            case "teams", "remove":
                return remove_team(config, key)
            case "links", "add":
                return link_agents(config, key, _require(split_names(given.get("to", "")), "to"))
            case "links", "edit":
                return _save_links(config, key, split_names(given.get("to", "")))
            case "links", "remove":
                return link_agents(config, key, list(config.links.get(key, ())), is_linked=False)
            case "grants", "add":
                kind, _, name = _require(given.get("to", ""), "to").partition(":")
                person, agent = (name if kind == one.rstrip(":") else "" for one in (PERSON, AGENT))
                grantee = EVERYONE if kind == EVERYONE else find_grantee(config, person, agent)
                skill = find_skill(self._library, key)
                return grant_skill(config, database, skill, _require(grantee, "to"), by, now)
            case "grants", "remove":
                skill_name, _, grantee = key.partition(" ")
                if not grantee or not (lines := revoke_skill(config, database, skill_name, grantee)):
                    raise SkillError(f"{skill_name} is not granted to {name_grantee(grantee) or 'anybody'}")
                return lines
        raise ConfigError(f"there is nothing to {act!r} of {kind!r}")

    def _list_fields(self, kind: str, example: str) -> tuple[FormField, ...]:
        config, found = self._config, [FormField("key", f"its key: small letters, digits and _, such as {example}")]
        choices = {
            ("people", "agent"): ("", *list_agents(config)),
            ("agents", "model"): ("", *config.models),
            ("teams", "lead"): tuple(list_agents(config)),
        }
        for one in _list_parameters(_TABLES[kind]):
            options = choices.get((kind, one.name)) or _list_choices(one)
            shape = "choice" if options else "lines" if get_origin(one.kind) is dict else "text"
            found.append(FormField(one.name, one.description, shape, options, _format_value(one.default)))
        return tuple(found)

    @staticmethod
    def _read_values(kind: str, table: Any) -> tuple[str, ...]:
        return tuple(_format_value(getattr(table, one.name)) for one in _list_parameters(_TABLES[kind]))


def split_names(text: str) -> list[str]:
    """The names of a list such as "ada, bob"."""
    return text.replace(",", " ").split()


def _require(value: Any, name: str) -> Any:
    if not value:
        raise ConfigError(f"{name!r} is missing")
    return value


def _list_parameters(table: type[Any]) -> list[Parameter]:
    """The fields of a table; the default of one without any is ''."""
    usual = [one.default_factory() if callable(one.default_factory) else one.default for one in fields(table)]
    return [
        read_parameter(one.name, one.type, "" if default is MISSING else default)
        for one, default in zip(fields(table), usual, strict=True)
    ]


def _list_choices(parameter: Parameter) -> tuple[str, ...]:
    if parameter.kind is bool:
        return ("no", "yes")
    return tuple(get_args(parameter.kind)) if get_origin(parameter.kind) is Literal else ()


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key} = {role}".rstrip(" =") for key, role in value.items())
    if isinstance(value, list):
        return ", ".join(value)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value or "")


def parse_roles(lines: Sequence[str]) -> dict[str, str]:
    """The members of a team and what each does, from KEY=ROLE."""
    parted = (line.partition("=") for line in lines)
    return {key.strip(): role.strip() for key, _, role in parted}


def _parse_form(table: type[Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The values of a table from the texts of a form. Raises ConfigError."""
    known, found = {one.name: one for one in _list_parameters(table)}, {}
    for name, raw in given.items():
        if name not in known:
            raise ConfigError(f"there is no field {name!r}{find_nearest(name, known)}")
        kind, text = known[name].kind, raw.strip()
        value: Any = text
        if kind is bool:
            value = text == "yes"
        elif kind is int:
            if not (text.isascii() and text.isdigit()) and text:
                raise ConfigError(f"{name} must be a number, not {text!r}")
            value = int(text or 0)
        elif get_origin(kind) is list:
            value = split_names(text)
        elif get_origin(kind) is dict:
            value = parse_roles([line for line in text.splitlines() if line.strip()])
        found[name] = value
    return found
