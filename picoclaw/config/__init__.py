"""The owner's settings: `config.toml`, the secrets apart from it, and the environment, which wins.

Knows the keys, their types and their defaults; opens nothing but the two files.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
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
    AgentConfig,
    ApprovalsConfig,
    BoardConfig,
    CostsConfig,
    HeartbeatConfig,
    HistoryConfig,
    HookConfig,
    LimitsConfig,
    MatrixConfig,
    McpConfig,
    MemoryConfig,
    ModelConfig,
    MqttConfig,
    NotifyConfig,
    PageConfig,
    PersonConfig,
    PromptConfig,
    SensorConfig,
    SessionsConfig,
    StoreConfig,
    SubagentsConfig,
    TeamConfig,
    TelegramConfig,
    ToolsConfig,
    WebConfig,
    check_agent_people,
    check_agents,
    check_channel_agents,
    check_links,
    check_model_order,
    check_name,
    check_people,
    find_default_agent,
    redact_url,
)
from picoclaw.errors import ConfigError
from picoclaw.files import get_home
from picoclaw.records import MISSING, dataclass, field, fields, is_dataclass, replace
from picoclaw.schema import InvalidArgument, check_arguments, find_nearest, read_parameter
from picoclaw.schema import Parameter as Parameter

PEOPLE_FOLDER, SHARED_FOLDER = "people", "shared"
"""Below it in the home, each member of the household has a folder by their name."""


@dataclass(frozen=True)
class Config:
    """Everything the owner decided. `home` is `$PICOCLAW_HOME`; the keys never come from config.toml.

    `added` names the sensors that come from sensors.toml, which is written for the owner in conversation. `models` are
    the further ones, by the names of their tables, and `model_keys` theirs. `old_tables` are those of config.toml that
    have another name now. `person` is the member of the household whose view of the home this is, '' for the owner's,
    and `agent` the key of the agent, '' for the home's own.
    """

    home: Path
    model: ModelConfig = field(default_factory=ModelConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    board: BoardConfig = field(default_factory=BoardConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)
    web: WebConfig = field(default_factory=WebConfig)
    heartbeat: HeartbeatConfig = field(default_factory=HeartbeatConfig)
    costs: CostsConfig = field(default_factory=CostsConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    subagents: SubagentsConfig = field(default_factory=SubagentsConfig)
    page: PageConfig = field(default_factory=PageConfig)
    telegram: TelegramConfig = field(default_factory=TelegramConfig)
    matrix: MatrixConfig = field(default_factory=MatrixConfig)
    mqtt: MqttConfig = field(default_factory=MqttConfig)
    store: StoreConfig = field(default_factory=StoreConfig, repr=False)
    sensors: Mapping[str, SensorConfig] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    old_tables: tuple[str, ...] = ()
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    notify: Mapping[str, NotifyConfig] = field(default_factory=dict, repr=False)
    hooks: Mapping[str, HookConfig] = field(default_factory=dict)
    mcp: Mapping[str, McpConfig] = field(default_factory=dict)
    people: Mapping[str, PersonConfig] = field(default_factory=dict, repr=False)
    agents: Mapping[str, AgentConfig] = field(default_factory=dict)
    links: Mapping[str, Sequence[str]] = field(default_factory=dict)
    teams: Mapping[str, TeamConfig] = field(default_factory=dict)
    person: str = ""
    agent: str = ""
    api_key: str = field(default="", repr=False)
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    embedding_key: str = field(default="", repr=False)
    telegram_token: str = field(default="", repr=False)
    matrix_token: str = field(default="", repr=False)
    brave_key: str = field(default="", repr=False)
    mqtt_password: str = field(default="", repr=False)
    store_password: str = field(default="", repr=False)
    notify_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    hook_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    metrics_token: str = field(default="", repr=False)
    mcp_token: str = field(default="", repr=False)
    mcp_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        """Where the workspace is, and the index of its notes: the home, an agent's folder, or a member's part of these."""
        return self.agent_folder / PEOPLE_FOLDER / self.person if self.person else self.agent_folder

    @property
    def agent_folder(self) -> Path:
        """Where the agent's own pages are, which hold for everybody."""
        if not self.agent:
            return self.home
        agent = self.agents[self.agent]
        return agent.folder if agent.workspace else self.home / AGENTS_FOLDER / self.agent

    @property
    def default_agent(self) -> str:
        """The key of the home's own agent."""
        return find_default_agent(self.agents)

    def find_channel_agent(self, channel: str) -> str:
        """The agent that answers in a new chat of a channel, '' for the home's own."""
        agents = {"telegram": self.telegram.agent, "matrix": self.matrix.agent, "page": self.page.agent}
        return agents.get(channel, "")

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def shared_folder(self) -> Path | None:
        """Where the notes with the agent are that everybody of the household finds; None where the owner is alone."""
        return self.agent_folder / SHARED_FOLDER if self.people else None


_CONFIG_TABLES: dict[str, type[Any]] = {
    f.name: f.type for f in fields(Config) if isinstance(f.type, type) and is_dataclass(f.type)
}
_NAMED_TABLES: dict[str, type[Any]] = {
    "sensors": SensorConfig,
    "models": ModelConfig,
    "notify": NotifyConfig,
    "hooks": HookConfig,
    "mcp": McpConfig,
    "people": PersonConfig,
    "agents": AgentConfig,
    "teams": TeamConfig,
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
    people: dict[str, PersonConfig] = named["people"]
    agents: dict[str, AgentConfig] = named["agents"]
    channels = {way: settings[way] for way in ("telegram", "matrix", "page") if way in settings}
    check_people(people, [f"{way}:{one.owner}" for way, one in channels.items() if way != "page"], path)
    check_agents(agents, named["models"], home, path)
    check_agent_people(agents, people, path)
    check_channel_agents({way: one.agent for way, one in channels.items()}, agents, path)
    for key, agent in agents.items():
        if agent.day_money and not settings.get("costs", CostsConfig()).prices:
            raise ConfigError(
                f'{path}: [agents.{key}]: day_money takes prices: "MODEL" = [in, out] under [costs.prices]'
            )
    check_links(links, named["teams"], agents, path)
    for name, sensor in named["sensors"].items():
        sensor.check(f"{path}: [sensors.{name}]")
        if sensor.mqtt and "mqtt" not in settings:
            raise ConfigError(f"{path}: [sensors.{name}]: mqtt takes a table [mqtt] with the broker's host")
    check_model_order(settings.get("model", ModelConfig()), named["models"], path)
    return Config(home=home, links=links, old_tables=old_tables, **named, **settings)


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
