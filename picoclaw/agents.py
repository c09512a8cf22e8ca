"""The agents of a home: the key of each, its id, its settings, and the folder that its pages and notes are in."""

from picoclaw.config import Config
from picoclaw.config.tables import AgentConfig
from picoclaw.errors import ConfigError
from picoclaw.records import replace
from picoclaw.schema import find_nearest
from picoclaw.workspace import prepare_agent_folder
from picoclaw.workspace.templates import CreatedFiles

_NAMESPACE = "fac6df52-3717-5540-a556-6389e55ce59a"


def agent_id(key: str) -> str:
    """The UUID of an agent: the same on every board and after every start, by its key alone."""
    from uuid import UUID, uuid5

    return str(uuid5(UUID(_NAMESPACE), key))


def list_agents(config: Config) -> dict[str, str]:
    """The agents of a home by their keys, the default first, and what each is for."""
    own = config.default_agent
    tables = {own: config.agents.get(own, AgentConfig(description="this home's own agent")), **config.agents}
    return {
        key: " - ".join(filter(None, (one.name, one.description))) or "no description" for key, one in tables.items()
    }


def select_agent(config: Config, key: str) -> Config:
    """The settings of a home as an agent has them. Raises ConfigError."""
    if key not in config.agents:
        near = find_nearest(key, config.agents) if config.agents else "; there is no [agents.KEY] at all"
        raise ConfigError(f"there is no agent {key!r}{near}; `picoclaw agents` lists them")
    agent, model, api_key = config.agents[key], config.model, config.api_key
    if agent.model:
        model, api_key = config.models[agent.model], config.model_keys.get(agent.model, "")
    offer = [name for name in agent.tools if not name.endswith("*")]
    tools = replace(config.tools, offer=[*config.tools.offer, *offer])
    return replace(config, agent=key, model=model, api_key=api_key, tools=tools)


def prepare_agent(config: Config) -> CreatedFiles:
    """Make an agent's folder and its pages, where they are not there. Raises ConfigError."""
    agent = config.agents[config.agent]
    if agent.workspace and not agent.folder.is_dir():
        raise ConfigError(
            f"[agents.{config.agent}]: the workspace {agent.folder} is not there; make the folder, or mount its disk"
        )
    return prepare_agent_folder(config.agent_folder)
