"""The owner's settings: `config.toml`, the secrets apart from it, and the environment, which wins.

Knows the keys, their types and their defaults; opens nothing but the two files.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from picoclaw.config.files import (
    find_vendor,
    read_api_key,
    read_embedding_key,
    read_model_keys,
    read_named_secrets,
    read_secrets,
    read_toml,
)
from picoclaw.config.tables import (
    AGENTS_FOLDER,
    DEFAULT_AGENT,
    MATRIX_USER,
    TABLE_NAME,
    AgentConfig,
    PersonRole,
    SensorConfig,
    check_name,
    redact_url,
)
from picoclaw.config.tables import PEOPLE_FOLDER as PEOPLE_FOLDER
from picoclaw.config.tables import SHARED_FOLDER as SHARED_FOLDER
from picoclaw.config.tables import Config as Config
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped, get_home
from picoclaw.records import MISSING, fields, is_dataclass, replace
from picoclaw.schema import InvalidArgument, check_arguments, find_nearest, read_parameter
from picoclaw.schema import Parameter as Parameter
from picoclaw.text import pattern
from picoclaw.times import parse_zone

_CONFIG_TABLES: dict[str, type[Any]] = {
    f.name: f.type for f in fields(Config) if isinstance(f.type, type) and is_dataclass(f.type)
}
_NAMED_TABLES: dict[str, type[Any]] = {
    f.name: get_args(f.type)[1] for f in fields(Config) if is_dataclass((*get_args(f.type), None, None)[1])
}
"""The tables that hold one for each name: [sensors.NAME]."""
RENAMED_TABLES = {"helpers": "subagents"}
"""Tables of config.toml that an earlier version wrote under another name."""
_NO_SERVER = "set base_url under [model] in config.toml, or PICOCLAW_BASE_URL"


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    """Read config.toml, secrets.toml and the environment; raises ConfigError naming file, key and fix."""
    environment = os.environ if environment is None else environment
    home = get_home(environment)
    path = home / "config.toml"
    config = _make_config(home, read_toml(path), path)
    sensors = load_added_sensors(home)
    config = replace(
        config, sensors={**sensors, **config.sensors}, added=frozenset(sensors) - frozenset(config.sensors)
    )
    return _apply_environment(config, environment)


def _make_config(home: Path, tables: dict[str, Any], path: Path) -> Config:
    given = {what: tables.pop(what, {}) for what in _NAMED_TABLES}
    links = tables.pop("links", {})
    old_tables = tuple(old for old, new in RENAMED_TABLES.items() if old in tables and new not in tables)
    for old in old_tables:
        tables[RENAMED_TABLES[old]] = tables.pop(old)
    settings: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in _CONFIG_TABLES:
            known = _CONFIG_TABLES | _NAMED_TABLES | {"links": dict}
            raise ConfigError(f"{path}: unknown table [{name}]{find_nearest(name, known)}")
        settings[name] = make_dataclass(_CONFIG_TABLES[name], table, f"{path}: [{name}]")
        if hasattr(settings[name], "check"):
            settings[name].check(f"{path}: [{name}]")
    named: dict[str, Any] = {what: _make_named_tables(what, rows, path) for what, rows in given.items()}
    for kind in ("notify", "hooks", "mcp"):
        for name, one in named[kind].items():
            check_name(name, f"{path}: [{kind}.{name}]")
            one.check(f"{path}: [{kind}.{name}]", *([home] if kind == "mcp" else []))
    config = Config(home=home, links=links, old_tables=old_tables, **named, **settings)
    for check in (_check_people, _check_agents, _check_agent_people, _check_links, _check_sensors, _check_model_order):
        check(config, path)
    return config


def load_added_sensors(home: Path) -> dict[str, SensorConfig]:
    """Read the parts that were added in conversation, from sensors.toml; raises ConfigError."""
    path = home / "sensors.toml"
    tables = read_toml(path)
    sensors: dict[str, SensorConfig] = _make_named_tables("sensors", tables.pop("sensors", {}), path)
    for name, sensor in sensors.items():
        sensor.check(f"{path}: [sensors.{name}]")
    if tables:
        raise ConfigError(f"{path}: [{next(iter(tables))}] does not belong here: only [sensors.NAME] does")
    return sensors


def _make_named_tables(what: str, tables: Any, path: Path) -> dict[str, Any]:
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: [{what}] must hold one table for each {'person' if what == 'people' else what[:-1]}, such as [{what}.NAME]"
        )
    kind = _NAMED_TABLES[what]
    return {name: make_dataclass(kind, table, f"{path}: [{what}.{name}]") for name, table in tables.items()}


def make_dataclass(kind: type[Any], given: Any, where: str) -> Any:
    """Make a dataclass out of a table of TOML; `where` names file and table in the ConfigError."""
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table, not {given!r}")
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    wanted = (read_parameter(f.name, f.type, *(() if f.name in required else (None,))) for f in fields(kind))
    try:
        values = check_arguments(tuple(wanted), given)
    except InvalidArgument as error:
        raise ConfigError(f"{where}: {error}") from None
    return kind(**{name: value for name, value in values.items() if name in given})


def _apply_environment(config: Config, environment: Mapping[str, str]) -> Config:
    for variable in ("PICOCLAW_MODEL", "PICOCLAW_BASE_URL", "OPENAI_BASE_URL"):
        try:  # Python hands on bytes that are not UTF-8 as lone surrogates, which no server takes
            environment.get(variable, "").encode()
        except UnicodeError:
            raise ConfigError(f"the variable {variable} is not UTF-8 text; set it again") from None
    base_url = environment.get("PICOCLAW_BASE_URL") or environment.get("OPENAI_BASE_URL") or config.model.base_url
    name = environment.get("PICOCLAW_MODEL") or config.model.name
    if not base_url and name:
        base_url = find_vendor(name, config.model.api, environment, _NO_SERVER)
    model = replace(config.model, base_url=_check_address(base_url, "the model's base_url"), name=name)
    models = {}
    for table, further in config.models.items():
        where = f"[models.{table}]"
        url = further.base_url or find_vendor(
            further.name or table, further.api, environment, f"set base_url under {where}"
        )
        models[table] = replace(further, base_url=_check_address(url, f"{where}: base_url"))
    if model.then and not base_url:
        raise ConfigError(f"[model]: 'then' follows a model, and there is none: {_NO_SERVER}")
    memory = replace(
        config.memory, embedding_url=_check_address(config.memory.embedding_url, "[memory]: embedding_url")
    )
    embedding_key = ""
    if memory.embeddings == "server":
        url = memory.embedding_url or model.base_url
        embedding_key = read_embedding_key(config.home, url, model.base_url, environment)
    return replace(
        config,
        model=model,
        models=models,
        memory=memory,
        api_key=read_api_key(config.home, model.base_url, environment),
        model_keys=read_model_keys(config.home, {name: one.base_url for name, one in models.items()}, environment),
        embedding_key=embedding_key,
        telegram=replace(config.telegram, api_url=_check_address(config.telegram.api_url, "[telegram]: api_url")),
        matrix=replace(
            config.matrix, homeserver=_check_address(config.matrix.homeserver, "[matrix]: homeserver", "https://HOST")
        ),
        web=replace(config.web, searxng_url=_check_address(config.web.searxng_url, "[web]: searxng_url")),
        notify_tokens=read_named_secrets(config.home, "notify", config.notify, environment),
        hook_secrets=read_named_secrets(config.home, "hook", config.hooks, environment),
        mcp_tokens=read_named_secrets(config.home, "mcp", config.mcp, environment),
        **read_secrets(config.home, environment),
    )


def _check_address(url: str, what: str, form: str = "http://HOST:PORT/v1") -> str:
    url = url.rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"{what} {redact_url(url)!r} must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable() and " " not in url
    except ValueError:
        is_complete = False
    if url and not is_complete:
        raise ConfigError(f"{what} {redact_url(url)!r} is not an address: write it as {form}")
    return url


# Checks of tables against each other.

_LOGIN_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_MAX_ROLE_CHARS, _MAX_WORKFLOW_CHARS = 200, 1000
_RESERVED_NAMES = {"default", "intents", "model"}
"""What is said to go back to [model], the built-in matcher, and [model] itself."""
_OF_FURTHER_AGENTS = (
    *("model", "then", "tools", "workspace", "steps", "seconds", "tokens", "day_tokens", "day_money"),
)
_TOOL_PATTERN = pattern(r"[a-z][a-z0-9_.-]*\*?", re.IGNORECASE)


def _check_table_name(kind: str, name: str, tables: Collection[str], example: str, path: Path) -> None:
    """Refuse a name that cannot be a table's, or would be another one's in small letters."""
    if not TABLE_NAME.fullmatch(name):
        same = f"; it would be the same as [{kind}.{name.lower()}]" if name.lower() in tables else ""
        word = "key" if kind == "agents" else "name"
        rule = f"a {word} is small letters, digits and _, such as [{kind}.{example}]"
        raise ConfigError(f"{path}: [{kind}.{name}]: {rule}{same}")


def _suggest(name: str, known: Iterable[str], table: str) -> str:
    """End the message about a name that no table has: with the nearest one, or that there is no such table."""
    names = dict.fromkeys(known)
    return find_nearest(name, names) if names else f"; there is no [{table}] at all"


def _check_people(config: Config, path: Path) -> None:
    """Check [people] against the channels' owners; raises ConfigError."""
    by_way: dict[str, str] = {}
    owners = {f"telegram:{config.telegram.owner}", f"matrix:{config.matrix.owner}"}
    for name, person in config.people.items():
        where = f"{path}: [people.{name}]"
        _check_table_name("people", name, config.people, "ada", path)
        if name in get_args(PersonRole) and name != person.role:  # what they do would be told as another's doing
            raise ConfigError(f"{where}: somebody called {name} has to have that role; choose another name")
        if person.time_zone:
            try:
                parse_zone(person.time_zone)
            except ValueError as error:
                raise ConfigError(f"{where}: time_zone: {error}") from None
        if person.matrix and not MATRIX_USER.fullmatch(person.matrix):
            raise ConfigError(f"{where}: matrix: {person.matrix!r} is not a Matrix user: write it as @name:example.org")
        if person.language and not (find_shipped("templates") / "intents" / f"{person.language}.toml").is_file():
            known = ", ".join(sorted(one.stem for one in (find_shipped("templates") / "intents").glob("*.toml")))
            raise ConfigError(f"{where}: language: {person.language!r} is none that picoclaw speaks; it speaks {known}")
        if person.terminal and not _LOGIN_NAME.fullmatch(person.terminal):
            raise ConfigError(f"{where}: terminal: {person.terminal!r} is no login name, such as ada")
        if person.terminal == "root" and person.role != "owner":
            raise ConfigError(f'{where}: terminal: root reads and changes everything here; make the role "owner"')
        for way in person.ways:
            if (other := by_way.setdefault(way, name)) != name:
                raise ConfigError(f"{where}: {way} is {other} already; a person has one table")
            if way in owners and person.role != "owner":
                channel = way.partition(":")[0]
                raise ConfigError(
                    f'{where}: {way} is the owner below [{channel}]; make the role "owner", or change that'
                )


def _check_agents(config: Config, path: Path) -> None:
    """Check [agents], also against [models]; raises ConfigError."""
    agents, models = config.agents, config.models
    defaults = [key for key, agent in agents.items() if agent.default]
    if len(defaults) > 1:
        raise ConfigError(f"{path}: [agents.{defaults[1]}]: {defaults[0]} is the default already; there is one only")
    folders: dict[Path, str] = {}
    for key, agent in agents.items():
        where = f"{path}: [agents.{key}]"
        _check_table_name("agents", key, agents, "garden", path)
        if key == DEFAULT_AGENT and defaults not in ([], [key]):
            raise ConfigError(f"{where}: {DEFAULT_AGENT} means the home's own agent, and that is {defaults[0]}")
        if agent.default or key == DEFAULT_AGENT:
            if "*" not in agent.people:
                raise ConfigError(f"{where}: people: the default agent answers everybody; name people at another one")
            if given := [name for name in _OF_FURTHER_AGENTS if getattr(agent, name)]:
                raise ConfigError(
                    f"{where}: {given[0]}: the default agent is this home: its models are those of [model], its tools"
                    " those of [tools], its limits [limits] and [costs], and its workspace is the home's"
                )
            continue
        for setting, names in (("model", filter(None, [agent.model])), ("then", agent.then)):
            for name in names:
                if name not in models and not (setting == "then" and name == "model" and agent.model):
                    near = _suggest(name, models, "models.NAME")
                    raise ConfigError(f"{where}: {setting}: there is no [models.{name}]{near}")
        if agent.model in agent.then and agent.model:
            raise ConfigError(f"{where}: then: {agent.model} is its own model already")
        for tool in agent.tools:
            if not _TOOL_PATTERN.fullmatch(tool):
                raise ConfigError(f"{where}: tools: {tool!r} is no tool's name; `picoclaw tools` lists them")
        _check_agent_folder(key, agent, config.home, folders, where)
        if agent.day_money and not config.costs.prices:
            raise ConfigError(f'{where}: day_money takes prices: "MODEL" = [in, out] under [costs.prices]')


def _check_agent_key(key: str, config: Config, where: str) -> None:
    """Refuse the key of an agent that is neither the home's own nor declared."""
    known = {config.default_agent: None, **dict.fromkeys(config.agents)}
    if key not in known:
        raise ConfigError(
            f"{where}: there is no agent {key!r}{_suggest(key, known if config.agents else (), 'agents.KEY')}"
        )


def _check_agent_folder(key: str, agent: AgentConfig, home: Path, folders: dict[Path, str], where: str) -> None:
    """Refuse a folder that is another agent's, a person's or the home's, or that holds one of these."""
    usual = home / AGENTS_FOLDER / key
    if agent.workspace:
        try:
            is_absolute = "\0" not in agent.workspace and agent.folder.is_absolute()
        except RuntimeError:
            is_absolute = False
        if not is_absolute:
            raise ConfigError(f"{where}: workspace: {agent.workspace!r} must be a whole path, such as '/srv/garden'")
    folder = Path(os.path.realpath(agent.folder if agent.workspace else usual))
    real = Path(os.path.realpath(home))
    if agent.workspace and (folder.is_relative_to(real) or real.is_relative_to(folder)):
        raise ConfigError(f"{where}: workspace: {folder} is in the home, or holds it; leave workspace out for {usual}")
    for other, name in folders.items():
        if folder.is_relative_to(other) or other.is_relative_to(folder):
            raise ConfigError(f"{where}: workspace: {folder} is that of [agents.{name}], or one lies in the other")
    folders[folder] = key


def _check_agent_people(config: Config, path: Path) -> None:
    """Check the `people` of agents, and the `agent` of people and channels; raises ConfigError."""
    agents, people = config.agents, config.people
    for key, agent in agents.items():
        for name in agent.people:
            if name != "*" and name not in people:
                near = _suggest(name, people, "people.NAME")
                raise ConfigError(f"{path}: [agents.{key}]: people: there is no person {name!r}{near}")
    for name, person in people.items():
        if person.agent in {"", config.default_agent}:
            continue
        where = f"{path}: [people.{name}]: agent"
        _check_agent_key(person.agent, config, where)
        if person.role == "guest":
            raise ConfigError(f"{where}: a guest has the home's own agent")
        if person.role != "owner" and not agents[person.agent].is_open_to(name):
            raise ConfigError(f"{where}: people under [agents.{person.agent}] does not have {name}")
    for channel in ("telegram", "matrix", "page"):
        if key := config.find_channel_agent(channel):
            _check_agent_key(key, config, f"{path}: [{channel}]: agent")


def _check_links(config: Config, path: Path) -> None:
    """Check [links] and [teams.NAME]; raises ConfigError.

    Links in circles are allowed: two agents may each have something that the other one needs. No task goes round in
    such a circle, because none is given to an agent that waits for it.
    """
    if not isinstance(config.links, dict):
        raise ConfigError(f'{path}: [links] must be a table of agents, such as butler = ["garden"]')
    for key, targets in config.links.items():
        where = f"{path}: [links]: {key}"
        if targets == []:  # as `picoclaw teams unlink` leaves it, also of an agent that is taken out then
            continue
        _check_agent_key(key, config, f"{path}: [links]")
        if not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
            raise ConfigError(f'{where} must be a list of agents, such as ["garden"], not {targets!r}')
        for target in targets:
            _check_agent_key(target, config, where)
            if target == key:
                raise ConfigError(f"{where} may not be linked to itself; `spawn` gives tasks to sub-agents of its own")
            if targets.count(target) > 1:
                raise ConfigError(f"{where}: {target} is there twice")
    for name, team in config.teams.items():
        where = f"{path}: [teams.{name}]"
        _check_table_name("teams", name, config.teams, "house", path)
        for member, role in team.members.items():
            _check_agent_key(member, config, f"{where}: members")
            if not (isinstance(role, str) and role.isprintable() and len(role) <= _MAX_ROLE_CHARS):
                raise ConfigError(
                    f"{where}: members: {member}: say in one line of at most {_MAX_ROLE_CHARS} characters what it does"
                )
        if team.lead not in team.members:
            members = ", ".join(team.members) or "there are none"
            raise ConfigError(f"{where}: lead: {team.lead!r} must be one of its members ({members})")
        if len(team.members) == 1:
            raise ConfigError(f"{where}: members: the lead is alone; a team has two members at least")
        if not team.workflow.isprintable() or len(team.workflow) > _MAX_WORKFLOW_CHARS:
            raise ConfigError(f"{where}: workflow must be one line of at most {_MAX_WORKFLOW_CHARS} characters")


def _check_model_order(config: Config, path: Path) -> None:
    """Check the names of [models.NAME] and `then` of [model]; raises ConfigError."""
    first, models = config.model, config.models
    for name, model in models.items():
        if not TABLE_NAME.fullmatch(name) or name in _RESERVED_NAMES:
            rule = f"a name is small letters, digits and _, and none of {', '.join(sorted(_RESERVED_NAMES))}"
            raise ConfigError(f"{path}: [models.{name}]: {rule}")
        if name == first.name:
            raise ConfigError(f"{path}: [models.{name}]: [model] asks for a model of that name; take another name")
        if model.then:
            raise ConfigError(f"{path}: [models.{name}]: 'then' belongs under [model], which names the whole order")
    for name in first.then:
        if name == "intents":
            raise ConfigError(f"{path}: [model]: 'then' without 'intents': the built-in matcher is always the last")
        if name not in models:
            near = _suggest(name, models, "models.NAME")
            raise ConfigError(f"{path}: [model]: 'then' names {name!r}, and there is no [models.{name}]{near}")


def _check_sensors(config: Config, path: Path) -> None:
    """Check [sensors.NAME], also against [mqtt]; raises ConfigError."""
    for name, sensor in config.sensors.items():
        sensor.check(f"{path}: [sensors.{name}]")
        if sensor.mqtt and not config.mqtt.host:
            raise ConfigError(f"{path}: [sensors.{name}]: mqtt takes a table [mqtt] with the broker's host")
