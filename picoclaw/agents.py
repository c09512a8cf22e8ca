"""The agents of a home: the key and id of each, its settings and folder, and the pages that are a person's own with it."""

import unicodedata
from collections.abc import Callable
from datetime import datetime

from picoclaw.config import Config
from picoclaw.config.tables import DEFAULT_AGENT, AgentConfig
from picoclaw.errors import ConfigError, ToolError
from picoclaw.files import explain_os_error, find_shipped, remove_file
from picoclaw.records import replace
from picoclaw.schema import find_nearest
from picoclaw.store.people import ContextFiles
from picoclaw.workspace import MAX_PAGE_BYTES, ONBOARDING_PAGE, TEMPLATE_PAGES, prepare_folder, read_text

_NAMESPACE = "fac6df52-3717-5540-a556-6389e55ce59a"
AGENT_PAGES = tuple(name for name in TEMPLATE_PAGES if "/" not in name)
"""The pages of an agent, besides the first meeting."""
_PREDEFINED_OWN = frozenset({"USER.md", ONBOARDING_PAGE})
_MAX_OWN_PAGE_BYTES = 200_000


def agent_id(key: str) -> str:
    """The UUID of an agent: the same on every board and after every start, by its key alone."""
    from uuid import UUID, uuid5

    return str(uuid5(UUID(_NAMESPACE), key))


def list_agents(config: Config) -> dict[str, str]:
    """The agents that the owner, or the member of these settings, may talk to: keys, the default first, and purposes."""
    own = config.default_agent
    tables = {own: config.agents.get(own, AgentConfig(description="this board's own agent")), **config.agents}
    return {
        key: " - ".join(filter(None, (one.name, one.description))) or "no description"
        for key, one in tables.items()
        if not config.person or one.is_open_to(config.person)
    }


def check_open(config: Config, key: str, person: str) -> None:
    """Raise ConfigError where a member, or a guest, who is '', may not talk to an agent."""
    if key in config.agents and not config.agents[key].is_open_to(person):
        raise ConfigError(
            f"the agent {key} is not for {person or 'guests'}: people under [agents.{key}] says for whom it is"
        )


def check_agent(config: Config, key: str) -> str:
    """Return the key of an agent as conversations have it, '' for the home's own. Raises ConfigError."""
    if key == config.default_agent:
        return ""
    if key not in config.agents:
        near = find_nearest(key, config.agents) if config.agents else "; there is no [agents.KEY] at all"
        raise ConfigError(f"there is no agent {key!r}{near}; `picoclaw agents` lists them")
    return key


def select_agent(config: Config, key: str) -> Config:
    """The settings of a home as a further agent has them. Raises ConfigError."""
    key = check_agent(config, key)
    agent, model, api_key = config.agents[key], config.model, config.api_key
    models, keys = config.models, config.model_keys
    if agent.model:
        model, api_key = models[agent.model], keys.get(agent.model, "")
    if "model" in agent.then:
        models, keys = {**models, "model": replace(config.model, then=[])}, {**keys, "model": config.api_key}
    if agent.then:
        model = replace(model, then=agent.then)
    own = {name: value for name in ("steps", "seconds", "tokens") if (value := getattr(agent, name))}
    offer = [name for name in agent.tools if not name.endswith("*")]
    tools = replace(config.tools, offer=[*config.tools.offer, *offer])
    return replace(
        config,
        agent=key,
        model=model,
        models=models,
        model_keys=keys,
        api_key=api_key,
        tools=tools,
        limits=replace(config.limits, **own),
    )


class PersonalPages:
    """The pages that are a person's own with an agent, beside those that it has for everybody.

    `names` are a person's own: of an open agent all seven, of a predefined one USER.md and BOOTSTRAP.md. `shared` are the
    others, which no chat writes. `private` are never taken from the agent's: the home's USER.md is the owner's.
    """

    def __init__(self, config: Config, files: Callable[[], ContextFiles], now: Callable[[], datetime]) -> None:
        """Opens nothing yet; the agent and the person are those of `config`."""
        key = config.agent or config.default_agent
        is_open = key in config.agents and config.agents[key].type == "open"
        self.agent, self.person = agent_id(key), config.person
        self.names = frozenset({*AGENT_PAGES, ONBOARDING_PAGE}) if is_open else _PREDEFINED_OWN
        self.shared = frozenset(AGENT_PAGES) - self.names
        self.private = frozenset() if config.agent else frozenset({"USER.md", "HEARTBEAT.md", ONBOARDING_PAGE})
        self._called = list_agents(config)[key].partition(" - ")[0] if config.agent else "picoclaw"
        self._folder, self._base = config.folder, config.agent_folder / "workspace"
        self._files, self._now = files, now
        self._is_renamed = not config.agent and key != DEFAULT_AGENT

    def find(self, path: str) -> str:
        """The page that a path in the workspace means, however it is spelt; '' for none."""
        folded = unicodedata.normalize("NFKC", path).casefold()
        return next((name for name in (*AGENT_PAGES, ONBOARDING_PAGE) if name.casefold() == folded), "")

    def read(self, name: str) -> str | None:
        """Return what the person's own page says, None when they have none. Raises StoreError."""
        return self._files().read(self.agent, self.person, name) if name in self.names else None

    def read_merged(self, name: str) -> str | None:
        """Return the person's own page, else the agent's, None for neither. Raises StoreError and ConfigError."""
        own = self.read(name)
        return self._read_base(name) if own is None else own

    def list_merged(self) -> dict[str, int]:
        """The pages that read_merged finds, and their bytes. Raises StoreError and ConfigError."""
        found = {name: self.read_merged(name) for name in (*AGENT_PAGES, ONBOARDING_PAGE)}
        return {name: len(text.encode(errors="replace")) for name, text in found.items() if text}

    def check_writable(self, name: str) -> None:
        """Raise ToolError for a page that holds for everybody."""
        if name in self.shared:
            raise ToolError(
                f"{name} holds for everybody who talks to {self._called}, so no chat changes it; the owner does, in {self._base}"
            )

    def write(self, name: str, text: str) -> int:
        """Write the person's own page; returns its bytes. Raises ToolError and StoreError."""
        self.check_writable(name)
        if (size := len(text.encode(errors="replace"))) > _MAX_OWN_PAGE_BYTES:
            raise ToolError(
                f"{name} would have {size} bytes, more than {_MAX_OWN_PAGE_BYTES}; put some of it into notes"
            )
        self._files().write(self.agent, self.person, name, text, self._now())
        return size

    def _read_base(self, name: str) -> str | None:
        if name == ONBOARDING_PAGE:
            return None  # once it was ended it must not come back
        if name in self.private:
            return _read_template(name)
        return read_text(self._base / name, MAX_PAGE_BYTES, self._base)

    def prepare(self, known: str = "") -> None:
        """Make the person's folder, take over pages that lie in it, and seed the others, once; nothing is overwritten.

        `known` is what USER.md says of the person elsewhere, once they were asked there: then they are not asked again,
        unless the agent has a BOOTSTRAP.md of its own. Raises StoreError and ConfigError.
        """
        files, now = self._files(), self._now()
        if self._is_renamed:
            files.rename_agent(agent_id(DEFAULT_AGENT), self.agent)
        if self.person:
            self._take_over(files, now)
        has_folder = bool(self.person) and (self._folder / "seeds.json").exists()
        if not (has_folder or files.list_files(self.agent, self.person)):
            meeting = None
            if ONBOARDING_PAGE not in self.private:
                meeting = read_text(self._base / ONBOARDING_PAGE, MAX_PAGE_BYTES, self._base)
            if meeting is None:
                meeting = "" if known else _read_template(ONBOARDING_PAGE)
            page = known or self._read_base("USER.md") or _read_template("USER.md")
            files.seed(self.agent, self.person, {ONBOARDING_PAGE: meeting, "USER.md": page}, now)
        if self.person:
            prepare_folder(self._folder, ("memory/MEMORY.md",))

    def _take_over(self, files: ContextFiles, now: datetime) -> None:
        """Bring pages that are files into the table: those of an earlier version, and what the owner puts there."""
        folder = self._folder / "workspace"
        for name in sorted(self.names):
            if (text := read_text(folder / name, MAX_PAGE_BYTES, folder)) is not None:
                files.write(self.agent, self.person, name, text, now)
                try:
                    remove_file(folder / name)
                except OSError as error:
                    raise ConfigError(f"{folder / name} cannot be removed: {explain_os_error(error)}") from None


def _read_template(name: str) -> str:
    return read_text(find_shipped("templates") / "workspace" / name, MAX_PAGE_BYTES) or ""


def prepare_agent(config: Config) -> None:
    """Make an agent's folder and its pages, where they are not there. Raises ConfigError."""
    agent = config.agents[config.agent]
    if agent.workspace and not agent.folder.is_dir():
        raise ConfigError(
            f"[agents.{config.agent}]: the workspace {agent.folder} is not there; make the folder, or mount its disk"
        )
    prepare_folder(config.agent_folder)
