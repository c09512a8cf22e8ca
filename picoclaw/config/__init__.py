"""The owner's settings: `config.toml`, the secrets apart from it, and the environment, which wins.

Knows the keys, their types and their defaults; opens nothing but the two files.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from picoclaw.config.files import (
    find_vendor,
    read_api_key,
    read_brave_key,
    read_embedding_key,
    read_hook_secrets,
    read_matrix_token,
    read_mcp_token,
    read_mcp_tokens,
    read_metrics_token,
    read_model_keys,
    read_mqtt_password,
    read_notify_tokens,
    read_store_password,
    read_telegram_token,
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
    check_people,
    find_default_agent,
    redact_url,
)
from picoclaw.errors import ConfigError
from picoclaw.files import get_home
from picoclaw.records import MISSING, dataclass, field, fields, is_dataclass, replace
from picoclaw.schema import InvalidArgument, check_arguments, find_nearest, read_parameter
from picoclaw.schema import Parameter as Parameter
from picoclaw.times import parse_hour_span

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
_NAMED_TABLES = ("sensors", "models", "notify", "hooks", "mcp", "people", "agents", "links", "teams")
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
    sensors, models, ways = tables.pop("sensors", {}), tables.pop("models", {}), tables.pop("notify", {})
    webhooks, servers = tables.pop("hooks", {}), tables.pop("mcp", {})
    household, further = tables.pop("people", {}), tables.pop("agents", {})
    links, grouped = tables.pop("links", {}), tables.pop("teams", {})
    old_tables = tuple(old for old, new in RENAMED_TABLES.items() if old in tables and new not in tables)
    for old in old_tables:
        tables[RENAMED_TABLES[old]] = tables.pop(old)
    settings: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in _CONFIG_TABLES:
            known = _CONFIG_TABLES | dict.fromkeys(_NAMED_TABLES)
            raise ConfigError(f"{path}: unknown table [{name}]{find_nearest(name, known)}")
        settings[name] = make_dataclass(_CONFIG_TABLES[name], table, f"{path}: [{name}]")
    for folder in settings.get("tools", ToolsConfig()).extra_folders:
        where = f"{path}: [tools]: extra_folders"
        try:
            is_absolute = "\0" not in folder and Path(folder).expanduser().is_absolute()
        except RuntimeError:
            raise ConfigError(f"{where}: the ~ in {folder!r} stands for no known user; write a whole path") from None
        if not is_absolute:
            raise ConfigError(f"{where}: {folder!r} must be a whole path, such as '/srv/data' or '~/data'")
    parse_hour_span(settings.get("heartbeat", HeartbeatConfig()).quiet, f"{path}: [heartbeat]: quiet")
    settings.get("costs", CostsConfig()).check(f"{path}: [costs")
    settings.get("page", PageConfig()).check(f"{path}: [page]")
    settings.get("matrix", MatrixConfig()).check(f"{path}: [matrix]")
    settings.get("store", StoreConfig()).check(f"{path}: [store]")
    if mqtt := settings.get("mqtt"):
        mqtt.check(f"{path}: [mqtt]")
    named = _make_named_tables(ModelConfig, models, path, "models")
    notify: dict[str, NotifyConfig] = _make_named_tables(NotifyConfig, ways, path, "notify")
    hooks: dict[str, HookConfig] = _make_named_tables(HookConfig, webhooks, path, "hooks")
    checked: dict[str, Mapping[str, NotifyConfig | HookConfig]] = {"notify": notify, "hooks": hooks}
    for kind, named_tables in checked.items():
        for name, one in named_tables.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
                raise ConfigError(f"{path}: [{kind}.{name}]: a name is small letters, digits and _")
            one.check(f"{path}: [{kind}.{name}]")
    mcp: dict[str, McpConfig] = _make_named_tables(McpConfig, servers, path, "mcp") if servers else {}
    for name, server in mcp.items():
        server.check(name, f"{path}: [mcp.{name}]", home)
    people: dict[str, PersonConfig] = _make_named_tables(PersonConfig, household, path, "people")
    owners = [f"{way}:{settings[way].owner}" for way in ("telegram", "matrix") if way in settings]
    check_people(people, owners, path)
    agents: dict[str, AgentConfig] = _make_named_tables(AgentConfig, further, path, "agents")
    check_agents(agents, named, home, path)
    check_agent_people(agents, people, path)
    check_channel_agents(
        {way: settings[way].agent for way in ("telegram", "matrix", "page") if way in settings}, agents, path
    )
    for key, agent in agents.items():
        if agent.day_money and not settings.get("costs", CostsConfig()).prices:
            raise ConfigError(
                f'{path}: [agents.{key}]: day_money takes prices: "MODEL" = [in, out] under [costs.prices]'
            )
    teams: dict[str, TeamConfig] = _make_named_tables(TeamConfig, grouped, path, "teams")
    check_links(links, teams, agents, path)
    parts: dict[str, SensorConfig] = _make_named_tables(SensorConfig, sensors, path, "sensors")
    for name, sensor in parts.items():
        sensor.check(f"{path}: [sensors.{name}]")
        if sensor.mqtt and "mqtt" not in settings:
            raise ConfigError(f"{path}: [sensors.{name}]: mqtt takes a table [mqtt] with the broker's host")
    check_model_order(settings.get("model", ModelConfig()), named, path)
    return Config(
        home=home,
        sensors=parts,
        models=named,
        notify=notify,
        hooks=hooks,
        mcp=mcp,
        people=people,
        agents=agents,
        links=links,
        teams=teams,
        old_tables=old_tables,
        **settings,
    )


def load_added_sensors(home: Path) -> dict[str, SensorConfig]:
    """Read the parts that were added in conversation, from sensors.toml; raises ConfigError."""
    path = home / "sensors.toml"
    tables = read_toml(path)
    sensors: dict[str, SensorConfig] = _make_named_tables(SensorConfig, tables.pop("sensors", {}), path, "sensors")
    for name, sensor in sensors.items():
        sensor.check(f"{path}: [sensors.{name}]")
    if tables:
        raise ConfigError(f"{path}: [{next(iter(tables))}] does not belong here: only [sensors.NAME] does")
    return sensors


def _make_named_tables(kind: type[Any], tables: Any, path: Path, what: str) -> dict[str, Any]:
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: [{what}] must hold one table for each {'person' if what == 'people' else what[:-1]}, such as [{what}.NAME]"
        )
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
        telegram_token=read_telegram_token(config.home, environment),
        matrix=replace(
            config.matrix, homeserver=_check_address(config.matrix.homeserver, "[matrix]: homeserver", "https://HOST")
        ),
        matrix_token=read_matrix_token(config.home, environment),
        web=replace(config.web, searxng_url=_check_address(config.web.searxng_url, "[web]: searxng_url")),
        brave_key=read_brave_key(config.home, environment),
        mqtt_password=read_mqtt_password(config.home, environment),
        store_password=read_store_password(config.home, environment),
        metrics_token=read_metrics_token(config.home, environment),
        notify_tokens=read_notify_tokens(config.home, config.notify, environment),
        hook_secrets=read_hook_secrets(config.home, config.hooks, environment),
        mcp_token=read_mcp_token(config.home, environment),
        mcp_tokens=read_mcp_tokens(config.home, config.mcp, environment),
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
