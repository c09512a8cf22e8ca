"""The owner's settings: `config.toml`, the secrets apart from it, and the environment, which wins.

Knows the keys, their types and their defaults; opens nothing but the two files.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from picoclaw.config.credentials import (
    find_vendor,
    read_api_key,
    read_brave_key,
    read_embedding_key,
    read_model_keys,
    read_telegram_token,
)
from picoclaw.config.files import read_toml
from picoclaw.config.tables import (
    HEARTBEAT_LIMITS as HEARTBEAT_LIMITS,
)
from picoclaw.config.tables import (
    ApprovalsConfig,
    BoardConfig,
    CostsConfig,
    HeartbeatConfig,
    HelpersConfig,
    HistoryConfig,
    LimitsConfig,
    MemoryConfig,
    ModelConfig,
    PageConfig,
    PromptConfig,
    SensorConfig,
    SessionsConfig,
    TelegramConfig,
    ToolsConfig,
    WebConfig,
    check_model_order,
    redact_url,
)
from picoclaw.errors import ConfigError
from picoclaw.resources import get_home
from picoclaw.schema import InvalidArgument, Parameter, check_arguments, find_nearest, read_parameter
from picoclaw.schema import Span as Span
from picoclaw.times import parse_hour_span


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the owner decided. `home` is `$PICOCLAW_HOME`; the keys never come from config.toml.

    `added` names the sensors that come from sensors.toml, which is written for the owner in conversation. `models` are
    the further ones, by the names of their tables, and `model_keys` theirs.
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
    helpers: HelpersConfig = field(default_factory=HelpersConfig)
    page: PageConfig = field(default_factory=PageConfig)
    telegram: TelegramConfig = field(default_factory=TelegramConfig)
    sensors: Mapping[str, SensorConfig] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    api_key: str = field(default="", repr=False)
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    embedding_key: str = field(default="", repr=False)
    telegram_token: str = field(default="", repr=False)
    brave_key: str = field(default="", repr=False)

    @property
    def workspace(self) -> Path:
        """The folder that the agent's file tools work in."""
        return self.home / "workspace"


_CONFIG_TABLES: dict[str, type[Any]] = {
    "model": ModelConfig,
    "limits": LimitsConfig,
    "prompt": PromptConfig,
    "memory": MemoryConfig,
    "board": BoardConfig,
    "tools": ToolsConfig,
    "approvals": ApprovalsConfig,
    "web": WebConfig,
    "heartbeat": HeartbeatConfig,
    "costs": CostsConfig,
    "history": HistoryConfig,
    "sessions": SessionsConfig,
    "helpers": HelpersConfig,
    "page": PageConfig,
    "telegram": TelegramConfig,
}


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
    sensors, models = tables.pop("sensors", {}), tables.pop("models", {})
    settings: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in _CONFIG_TABLES:
            raise ConfigError(
                f"{path}: unknown table [{name}]{find_nearest(name, _CONFIG_TABLES | {'sensors': 0, 'models': 0})}"
            )
        settings[name] = make_dataclass(_CONFIG_TABLES[name], table, f"{path}: [{name}]")
    for folder in settings.get("tools", ToolsConfig()).extra_folders:
        _check_folder(folder, f"{path}: [tools]: extra_folders")
    parse_hour_span(settings.get("heartbeat", HeartbeatConfig()).quiet, f"{path}: [heartbeat]: quiet")
    settings.get("costs", CostsConfig()).check(f"{path}: [costs")
    settings.get("page", PageConfig()).check(f"{path}: [page]")
    named = _make_named_tables(ModelConfig, models, path, "models")
    check_model_order(settings.get("model", ModelConfig()), named, path)
    return Config(
        home=home, sensors=_make_named_tables(SensorConfig, sensors, path, "sensors"), models=named, **settings
    )


def load_added_sensors(home: Path) -> dict[str, SensorConfig]:
    """Read the parts that were added in conversation, from sensors.toml; raises ConfigError."""
    path = home / "sensors.toml"
    tables = read_toml(path)
    sensors: dict[str, SensorConfig] = _make_named_tables(SensorConfig, tables.pop("sensors", {}), path, "sensors")
    if tables:
        raise ConfigError(f"{path}: [{next(iter(tables))}] does not belong here: only [sensors.NAME] does")
    return sensors


def _make_named_tables(kind: type[Any], tables: Any, path: Path, what: str) -> dict[str, Any]:
    """Read the tables [WHAT.NAME], by their names."""
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: [{what}] must hold one table for each {what[:-1]}, such as [{what}.NAME]")
    return {name: make_dataclass(kind, table, f"{path}: [{what}.{name}]") for name, table in tables.items()}


def _check_folder(folder: str, where: str) -> None:
    try:
        absolute = "\0" not in folder and Path(folder).expanduser().is_absolute()
    except RuntimeError:
        raise ConfigError(f"{where}: the ~ in {folder!r} stands for no known user; write a whole path") from None
    if not absolute:
        raise ConfigError(f"{where}: {folder!r} must be a whole path, such as '/srv/data' or '~/data'")


def make_dataclass(kind: type[Any], given: Any, where: str) -> Any:
    """Make a dataclass out of a table of TOML; `where` names file and table in the ConfigError."""
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table, not {given!r}")
    wanted = _collect_keys(kind)
    try:
        values = check_arguments(wanted, given)
    except InvalidArgument as error:
        raise ConfigError(f"{where}: {error}") from None
    return kind(**{name: value for name, value in values.items() if name in given})


def _collect_keys(kind: type[Any]) -> tuple[Parameter, ...]:
    return tuple(read_parameter(f.name, f.type, *(() if _is_required(f) else (None,))) for f in fields(kind))


def _is_required(f: Any) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _apply_environment(config: Config, environment: Mapping[str, str]) -> Config:
    _check_environment_text(environment, "PICOCLAW_MODEL", "PICOCLAW_BASE_URL", "OPENAI_BASE_URL")
    base_url = environment.get("PICOCLAW_BASE_URL") or environment.get("OPENAI_BASE_URL") or config.model.base_url
    name = environment.get("PICOCLAW_MODEL") or config.model.name
    if not base_url and name:
        base_url = find_vendor(name, config.model.api, environment, _NO_SERVER)
    model = replace(config.model, base_url=_check_address(base_url, "the model's base_url"), name=name)
    models = {name: _apply_server(name, further, environment) for name, further in config.models.items()}
    if model.then and not base_url:
        raise ConfigError(f"[model]: 'then' follows a model, and there is none: {_NO_SERVER}")
    memory = replace(
        config.memory, embedding_url=_check_address(config.memory.embedding_url, "[memory]: embedding_url")
    )
    return replace(
        config,
        model=model,
        models=models,
        memory=memory,
        api_key=read_api_key(config.home, model.base_url, environment),
        model_keys=read_model_keys(config.home, {name: one.base_url for name, one in models.items()}, environment),
        embedding_key=_choose_embedding_key(config.home, memory, model.base_url, environment),
        telegram=replace(config.telegram, api_url=_check_address(config.telegram.api_url, "[telegram]: api_url")),
        telegram_token=read_telegram_token(config.home, environment),
        web=replace(config.web, searxng_url=_check_address(config.web.searxng_url, "[web]: searxng_url")),
        brave_key=read_brave_key(config.home, environment),
    )


def _apply_server(name: str, model: ModelConfig, environment: Mapping[str, str]) -> ModelConfig:
    where = f"[models.{name}]"
    url = model.base_url or find_vendor(model.name or name, model.api, environment, f"set base_url under {where}")
    return replace(model, base_url=_check_address(url, f"{where}: base_url"))


def _choose_embedding_key(home: Path, memory: MemoryConfig, base_url: str, environment: Mapping[str, str]) -> str:
    if memory.embeddings != "server":
        return ""
    return read_embedding_key(home, memory.embedding_url or base_url, base_url, environment)


def _check_address(url: str, what: str) -> str:
    url = url.rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"{what} {redact_url(url)!r} must begin with http:// or https://")
    if url and not _is_complete_url(url):
        raise ConfigError(f"{what} {redact_url(url)!r} is no address: write it as http://HOST:PORT/v1")
    return url


def _is_complete_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable() and " " not in url
    except ValueError:
        return False


def _check_environment_text(environment: Mapping[str, str], *names: str) -> None:
    """Refuse bytes that are not UTF-8, which Python hands on as lone surrogates and no server takes."""
    for name in names:
        try:
            environment.get(name, "").encode()
        except UnicodeError:
            raise ConfigError(f"the variable {name} is not UTF-8 text; set it again") from None
