"""The owner's settings: `config.toml`, the secrets apart from it, and the environment, which wins.

Knows the keys, their types and their defaults; opens nothing but the two files.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.config.files import read_toml
from picoclaw.config.hours import hours
from picoclaw.config.keys import api_key, embedding_key, vendor
from picoclaw.errors import ConfigError
from picoclaw.schema import Parameter, Span, Unfit, check, nearest, parameter


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """[model]: an OpenAI-compatible server, or nothing for the built-in matcher."""

    base_url: Annotated[str, "such as http://127.0.0.1:8080/v1"] = ""
    name: Annotated[str, "the model's name at that server"] = ""
    stream: bool = True
    context_tokens: Annotated[int, Span(1024, 10_000_000), "tokens of the model's window"] = 32_768
    answer_tokens: Annotated[int, Span(16, 1_000_000), "most tokens of one answer"] = 1024
    temperature: Annotated[float | None, Span(0, 2), "sampling; left to the server unless given"] = None
    idle_seconds: Annotated[float, Span(1, 3600), "longest silence of the server"] = 120.0
    retries: Annotated[int, Span(0, 10), "further tries when the server is unreachable"] = 2

    @property
    def shown_url(self) -> str:
        """The base_url for messages."""
        return shown_url(self.base_url)


def shown_url(url: str) -> str:
    """Leave a `user:password@` out of an address, even out of one that is written wrongly."""
    return re.sub(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", r"\1", url, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """[limits]: where a turn ends at the latest."""

    steps: Annotated[int, Span(1, 1000), "model calls with tools in one turn"] = 20
    seconds: Annotated[float, Span(1, 86_400), "wall time of one turn"] = 300.0
    tokens: Annotated[int, Span(100, 100_000_000), "tokens in and out of one turn"] = 200_000
    result_chars: Annotated[int, Span(200, 1_000_000), "longest tool result shown to the model"] = 16_000


HEARTBEAT_LIMITS = LimitsConfig(steps=8, seconds=120.0, tokens=20_000)
"""Of one heartbeat."""


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """[prompt]: what the model is told of the owner's files, and how much of it."""

    mode: Annotated[Literal["full", "coordinator", "minimal", "base", "none"], "how much the model is told"] = "full"
    citations: Annotated[Literal["auto", "on", "off"], "whether an answer names the note that it is from"] = "auto"
    file_chars: Annotated[int, Span(64, 150_000), "longest part of one file"] = 20_000
    total_chars: Annotated[int, Span(64, 150_000), "of all files together"] = 24_000
    extra: Annotated[str, "a sentence of yours for every turn"] = ""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """[memory]: how notes are found, how much of them a model is told unasked, and when they are put in order."""

    embeddings: Annotated[Literal["local", "server", "off"], "who finds notes by their meaning"] = "local"
    embedding_model: Annotated[str, "the model's name at the embedding server"] = ""
    embedding_url: Annotated[str, "of the embedding server, when it is not the model's"] = ""
    messages: Annotated[bool, "whether past messages of chats are found too"] = False
    notes_chars: Annotated[int, Span(0, 150_000), "of the last days' notes in the prompt"] = 4000
    pulse_chars: Annotated[int, Span(0, 150_000), "of the pulse in the prompt"] = 5000
    dream_hour: Annotated[int, Span(-1, 23), "hour of the nightly tidying; -1 for never"] = 3
    review_minutes: Annotated[int, Span(0, 10_080), "between two reviews of the pulse; 0 for none"] = 60


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """[board]: which board to use; `auto` takes the simulated one where there is no sensor and no bus."""

    kind: Literal["auto", "linux", "sim"] = "auto"


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """[tools]: what the tools may reach."""

    exec: Annotated[Literal["allow", "ask", "off"], "shell commands asked for by the model"] = "allow"
    extra_folders: Annotated[list[str], "folders outside the workspace that file tools may use"] = field(
        default_factory=list
    )


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """[heartbeat]: how often the checklist in HEARTBEAT.md is looked at, and what that may cost."""

    enabled: bool = True
    every_minutes: Annotated[float, Span(5, 10_080), "between two heartbeats, at least"] = 30.0
    quiet: Annotated[str, 'hours without one, such as "22:00-07:00"; "" for none'] = "22:00-07:00"
    model: Annotated[str, "another model at the same server, such as a cheaper one"] = ""
    tokens_a_day: Annotated[int, Span(1000, 100_000_000), "tokens in and out of a day's heartbeats"] = 50_000

    @property
    def quiet_hours(self) -> tuple[time, time] | None:
        """When nobody is to be disturbed."""
        return hours(self.quiet, "[heartbeat]: quiet")


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """[history]: how often the sensors are measured while picoclaw runs."""

    every_seconds: Annotated[float, Span(1, 3600), "between two measurements"] = 60.0


@dataclass(frozen=True, slots=True)
class SensorConfig:
    """[sensors.NAME]: a part that is wired to a bus and read by a driver of tools/hw."""

    part: Annotated[str, "the driver's name, such as bme280"]
    bus: Annotated[int | None, Span(0, 255), "the N of /dev/i2c-N, or of /dev/spidevN.M"] = None
    address: Annotated[int, Span(0x08, 0x77), "7-bit address, 0x08 to 0x77"] = 0
    chip: Annotated[int, Span(0, 255), "chip select, the M of /dev/spidevN.M"] = 0
    port: Annotated[str, "serial port such as /dev/serial0, or 1-Wire device such as 28-00000a1b2c3d"] = ""
    options: Annotated[dict[str, Any], "such as { shunt_ohms = 0.1 }, see the driver's OPTIONS"] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the owner decided. `home` is `$PICOCLAW_HOME`; the keys never come from config.toml.

    `added` names the sensors that come from sensors.toml, which is written for the owner in conversation.
    """

    home: Path
    model: ModelConfig = field(default_factory=ModelConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    board: BoardConfig = field(default_factory=BoardConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    heartbeat: HeartbeatConfig = field(default_factory=HeartbeatConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    sensors: Mapping[str, SensorConfig] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    api_key: str = field(default="", repr=False)
    embedding_key: str = field(default="", repr=False)

    @property
    def workspace(self) -> Path:
        """The folder that the agent's file tools work in."""
        return self.home / "workspace"


_TABLES: dict[str, type[Any]] = {
    "model": ModelConfig,
    "limits": LimitsConfig,
    "prompt": PromptConfig,
    "memory": MemoryConfig,
    "board": BoardConfig,
    "tools": ToolsConfig,
    "heartbeat": HeartbeatConfig,
    "history": HistoryConfig,
}


def home_folder(environment: Mapping[str, str]) -> Path:
    """Return `$PICOCLAW_HOME`, or `~/.picoclaw`."""
    folder = environment.get("PICOCLAW_HOME") or "~/.picoclaw"
    try:
        home = Path(folder).expanduser().absolute()
        str(home).encode()
    except RuntimeError:
        raise ConfigError(f"the ~ in {folder} stands for no known user; set PICOCLAW_HOME to a whole path") from None
    except UnicodeError:
        raise ConfigError("the path of picoclaw's home is not UTF-8; set PICOCLAW_HOME to another folder") from None
    return home


def load(environment: Mapping[str, str] | None = None) -> Config:
    """Read config.toml, secrets.toml and the environment; raises ConfigError naming file, key and fix."""
    environment = os.environ if environment is None else environment
    home = home_folder(environment)
    path = home / "config.toml"
    config = _from_tables(home, read_toml(path), path)
    sensors = added_sensors(home)
    config = replace(
        config, sensors={**sensors, **config.sensors}, added=frozenset(sensors) - frozenset(config.sensors)
    )
    return _with_environment(config, environment)


def _from_tables(home: Path, tables: dict[str, Any], path: Path) -> Config:
    sensors = tables.pop("sensors", {})
    settings: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in _TABLES:
            raise ConfigError(f"{path}: unknown table [{name}]{nearest(name, _TABLES | {'sensors': 0})}")
        settings[name] = fitted(_TABLES[name], table, f"{path}: [{name}]")
    for folder in settings.get("tools", ToolsConfig()).extra_folders:
        _check_folder(folder, f"{path}: [tools]: extra_folders")
    hours(settings.get("heartbeat", HeartbeatConfig()).quiet, f"{path}: [heartbeat]: quiet")
    return Config(home=home, sensors=_sensors(sensors, path), **settings)


def added_sensors(home: Path) -> dict[str, SensorConfig]:
    """Read the parts that were added in conversation, from sensors.toml; raises ConfigError."""
    path = home / "sensors.toml"
    tables = read_toml(path)
    sensors = _sensors(tables.pop("sensors", {}), path)
    if tables:
        raise ConfigError(f"{path}: [{next(iter(tables))}] does not belong here: only [sensors.NAME] does")
    return sensors


def _sensors(tables: Any, path: Path) -> dict[str, SensorConfig]:
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: [sensors] must hold one table for each sensor, such as [sensors.porch]")
    return {name: fitted(SensorConfig, table, f"{path}: [sensors.{name}]") for name, table in tables.items()}


def _check_folder(folder: str, where: str) -> None:
    try:
        absolute = "\0" not in folder and Path(folder).expanduser().is_absolute()
    except RuntimeError:
        raise ConfigError(f"{where}: the ~ in {folder!r} stands for no known user; write a whole path") from None
    if not absolute:
        raise ConfigError(f"{where}: {folder!r} must be a whole path, such as '/srv/data' or '~/data'")


def fitted(kind: type[Any], given: Any, where: str) -> Any:
    """Make a dataclass out of a table of TOML; `where` names file and table in the ConfigError."""
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table, not {given!r}")
    wanted = _keys(kind)
    try:
        values = check(wanted, given)
    except Unfit as error:
        raise ConfigError(f"{where}: {error}") from None
    return kind(**{name: value for name, value in values.items() if name in given})


def _keys(kind: type[Any]) -> tuple[Parameter, ...]:
    return tuple(parameter(f.name, f.type, *(() if _required(f) else (None,))) for f in fields(kind))


def _required(f: Any) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    _check_text(environment, "PICOCLAW_MODEL", "PICOCLAW_BASE_URL", "OPENAI_BASE_URL")
    base_url = environment.get("PICOCLAW_BASE_URL") or environment.get("OPENAI_BASE_URL") or config.model.base_url
    name = environment.get("PICOCLAW_MODEL") or config.model.name
    if not base_url and name:
        base_url = vendor(name, environment)
    model = replace(config.model, base_url=_address(base_url, "the model's base_url"), name=name)
    memory = replace(config.memory, embedding_url=_address(config.memory.embedding_url, "[memory]: embedding_url"))
    return replace(
        config,
        model=model,
        memory=memory,
        api_key=api_key(config.home, model.base_url, environment),
        embedding_key=_embedding_key(config.home, memory, model.base_url, environment),
    )


def _embedding_key(home: Path, memory: MemoryConfig, base_url: str, environment: Mapping[str, str]) -> str:
    if memory.embeddings != "server":
        return ""
    return embedding_key(home, memory.embedding_url or base_url, base_url, environment)


def _address(url: str, what: str) -> str:
    url = url.rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"{what} {shown_url(url)!r} must begin with http:// or https://")
    return url


def _check_text(environment: Mapping[str, str], *names: str) -> None:
    """Refuse bytes that are not UTF-8, which Python hands on as lone surrogates and no server takes."""
    for name in names:
        try:
            environment.get(name, "").encode()
        except UnicodeError:
            raise ConfigError(f"the variable {name} is not UTF-8 text; set it again") from None
