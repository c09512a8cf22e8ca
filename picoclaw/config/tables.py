"""The tables of config.toml: their keys, types, bounds and defaults, and what each is for."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.errors import ConfigError
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.schema import Span
from picoclaw.text import pattern
from picoclaw.times import parse_hour_span

MILLION = 1_000_000
AGENTS_FOLDER = "agents"
"""Below it in the home, each further agent has a folder by its key."""
TABLE_NAME = pattern(r"[a-z][a-z0-9_]{0,31}")


def empty(kind: type) -> Any:
    """Make the default of a key that holds a list or a table of its own: an empty one."""
    return field(default_factory=kind)


class Price(NamedTuple):
    """What a million tokens cost, in and out, in the owner's currency."""

    prompt: float
    completion: float

    def of(self, prompt: int, completion: int) -> float:
        return (prompt * self.prompt + completion * self.completion) / MILLION


def parse_prices(given: Mapping[str, Any], where: str) -> dict[str, Price]:
    """Read a table of `"model" = [in, out]`; `where` names it in the ConfigError."""
    prices = {}
    for model, price in given.items():
        if not (isinstance(price, list) and len(price) == len(Price._fields) and all(map(_is_price, price))):
            rule = "must be [in, out], what a million tokens cost, such as [0.15, 0.6]"
            raise ConfigError(f'{where}: "{model}" {rule}, not {price!r}')
        prices[model] = Price(*map(float, price))
    return prices


def _is_price(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= MILLION


_SMALL_WINDOW = 4096  # tokens
SMALL_NAME = pattern(r"(?<![\d.x])(?<!-a)(?:[0-3](?:\.\d+)?b|(?<![a-z_])\d{2,3}m)(?![a-z])")
"""How names tell of 3 B parameters and less: qwen2.5:1.5b, qwen1.5b, SmolLM2-135M; not 8x3b, nor 30b-a3b."""


@dataclass(frozen=True)
class ModelConfig:
    """[model] or [models.NAME]: the model, its server and its limits. Without a model, the built-in matcher answers."""

    base_url: Annotated[str, "the server's address, such as http://127.0.0.1:8080/v1"] = ""
    name: Annotated[str, "the model's name at that server"] = ""
    stream: Annotated[bool, "whether answers are streamed"] = True
    context_tokens: Annotated[int, Span(1024, 10_000_000), "size of the model's context window, in tokens"] = 32_768
    answer_tokens: Annotated[int, Span(16, 1_000_000), "longest answer, in tokens"] = 1024
    temperature: Annotated[float | None, Span(0, 2), "sampling temperature; default: the server's"] = None
    idle_seconds: Annotated[float, Span(1, 3600), "seconds that picoclaw waits while the server sends nothing"] = 120.0
    retries: Annotated[int, Span(0, 10), "retries when a request fails"] = 2
    api: Annotated[Literal["openai", "responses", "anthropic"], "the protocol of the server"] = "openai"
    images: Annotated[bool, "whether pictures are sent to the model"] = False
    profile: Annotated[
        Literal["auto", "full", "small"],
        "full: all tools; small: the matcher first, then one short prompt; auto: by the model's window and name",
    ] = "auto"
    then: Annotated[list[str], "names of [models.NAME] to ask when this one does not answer, in that order"] = empty(
        list
    )

    @property
    def is_small(self) -> bool:
        """Whether it is asked in the small profile: few tokens, and no tools but flat verbs."""
        if self.profile != "auto":
            return self.profile == "small"
        return self.context_tokens <= _SMALL_WINDOW or bool(SMALL_NAME.search(self.name.lower()))

    @property
    def shown_url(self) -> str:
        return redact_url(self.base_url)


def redact_url(url: str) -> str:
    """Leave a `user:password@` out of an address, even out of one that is written wrongly."""
    return re.sub(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", r"\1", url, flags=re.DOTALL)


@dataclass(frozen=True)
class LimitsConfig:
    """[limits]: the limits of a turn."""

    steps: Annotated[int, Span(1, 1000), "model calls with tools in one turn"] = 20
    seconds: Annotated[float, Span(1, 86_400), "seconds that one turn may take"] = 300.0
    tokens: Annotated[int, Span(100, 100_000_000), "tokens in and out of one turn"] = 200_000
    result_chars: Annotated[int, Span(200, 1_000_000), "longest tool result shown to the model"] = 16_000


UNATTENDED_LIMITS = LimitsConfig(steps=8, seconds=120.0, tokens=20_000)
"""Of one turn that nobody waits for: a heartbeat or a webhook."""


@dataclass(frozen=True)
class PromptConfig:
    """[prompt]: the prompt, and how much of your files it includes."""

    mode: Annotated[
        Literal["full", "coordinator", "minimal", "base", "none"], "which parts of the instructions the model gets"
    ] = "full"
    citations: Annotated[Literal["auto", "on", "off"], "whether answers name the notes that they use"] = "auto"
    file_chars: Annotated[int, Span(64, 150_000), "most characters of one file"] = 20_000
    total_chars: Annotated[int, Span(64, 150_000), "most characters of all files together"] = 24_000
    extra: Annotated[str, "a sentence of yours, added to every turn"] = ""


@dataclass(frozen=True)
class MemoryConfig:
    """[memory]: how notes are found, how much of them a model gets without asking, and when they are tidied."""

    embeddings: Annotated[
        Literal["local", "table", "server", "off"],
        "the vectors of semantic search; local: minilm if it is installed, otherwise the included table",
    ] = "local"
    embedding_model: Annotated[str, "the model's name at the embedding server"] = ""
    embedding_url: Annotated[str, "the address of the embedding server, if it is not the model's"] = ""
    min_score: Annotated[float, Span(0.0, 1.0), "the score from which on a result counts as certain"] = 0.45
    messages: Annotated[bool, "whether a search also finds past messages of chats"] = False
    notes_chars: Annotated[int, Span(0, 150_000), "most characters of the last days' notes that the model gets"] = 4000
    pulse_chars: Annotated[int, Span(0, 150_000), "most characters of the open tasks that the model gets"] = 5000
    dream_hour: Annotated[int, Span(-1, 23), "hour at which MEMORY.md is tidied; -1 for never"] = 3
    review_minutes: Annotated[int, Span(0, 10_080), "minutes between two reviews of the open tasks; 0 for none"] = 60


@dataclass(frozen=True)
class SessionsConfig:
    """[sessions]: when the older part of a conversation is summarised, and how long conversations are kept."""

    summarise_messages: Annotated[
        int, Span(0, 100_000), "number of messages from which on the older ones are summarised; 0: no limit"
    ] = 40
    summarise_share: Annotated[
        float, Span(0.1, 0.95), "share of the model's window from which on they are summarised"
    ] = 0.6
    keep_days: Annotated[int, Span(1, 100_000), "days after which conversations are deleted"] = 365
    keep_mb: Annotated[int, Span(1, 100_000), "megabytes above which the oldest are deleted"] = 100


@dataclass(frozen=True)
class SubagentsConfig:
    """[subagents]: the number of sub-agents at once, and the limits of each task."""

    at_once: Annotated[int, Span(0, 16), "sub-agents at once; 0: 2 with less than 1 GB of memory, otherwise 4"] = 0
    steps: Annotated[int, Span(1, 1000), "model calls with tools of one task"] = 20
    seconds: Annotated[float, Span(1, 86_400), "seconds that one task may take"] = 600.0
    tokens: Annotated[int, Span(100, 100_000_000), "tokens in and out of one task"] = 200_000
    depth: Annotated[int, Span(1, 8), "how deep sub-agents may nest: 2 for a sub-agent of a sub-agent"] = 3


@dataclass(frozen=True)
class BoardConfig:
    """[board]: which board to use; `auto` takes the simulated one where there is no sensor and no bus."""

    kind: Annotated[Literal["auto", "linux", "sim"], "linux: the real board; sim: the simulated one"] = "auto"


@dataclass(frozen=True)
class ToolsConfig:
    """[tools]: what tools may do and access."""

    exec: Annotated[Literal["allow", "ask", "off"], "whether the model may run commands"] = "allow"
    shell: Annotated[bool, "whether commands may be shell lines, not only a program with arguments"] = False
    extra_folders: Annotated[list[str], "folders outside the workspace that file tools may use"] = empty(list)
    environment: Annotated[list[str], "names of further environment variables for commands"] = empty(list)
    offer: Annotated[list[str], "further tools that are described to the model, such as i2c"] = empty(list)

    def check(self, where: str) -> None:
        """Raise ConfigError for a folder that is no whole path; `where` names the table."""
        for folder in self.extra_folders:
            try:
                is_absolute = "\0" not in folder and Path(folder).expanduser().is_absolute()
            except RuntimeError:
                raise ConfigError(
                    f"{where}: extra_folders: the ~ in {folder!r} stands for no known user; write a whole path"
                ) from None
            if not is_absolute:
                raise ConfigError(
                    f"{where}: extra_folders: {folder!r} must be a whole path, such as '/srv/data' or '~/data'"
                )


@dataclass(frozen=True)
class ApprovalsConfig:
    """[approvals]: calls that wait for your yes."""

    minutes: Annotated[float, Span(1, 10_080), "minutes after which an unanswered question expires"] = 15.0


@dataclass(frozen=True)
class WebConfig:
    """[web]: reading and searching the public web."""

    enabled: Annotated[bool, "whether the model may read pages"] = True
    search: Annotated[Literal["off", "duckduckgo", "brave", "searxng"], "the search engine"] = "off"
    searxng_url: Annotated[str, "the address of your SearXNG, such as http://192.168.1.5:8888"] = ""
    seconds: Annotated[float, Span(1, 120), "longest time for one page, in seconds"] = 20.0


@dataclass(frozen=True)
class HeartbeatConfig:
    """[heartbeat]: how often the checklist in HEARTBEAT.md is checked, and what it may cost."""

    enabled: Annotated[bool, "whether it is checked automatically"] = True
    every_minutes: Annotated[float, Span(5, 10_080), "minutes between two heartbeats, at least"] = 30.0
    quiet: Annotated[str, 'hours without heartbeats, such as "22:00-07:00"; "" for none'] = "22:00-07:00"
    model: Annotated[str, "another model: the NAME of a [models.NAME], or a model at [model]'s server"] = ""
    tokens_a_day: Annotated[int, Span(1000, 100_000_000), "tokens in and out for the heartbeats of a day"] = 50_000

    @property
    def quiet_hours(self) -> tuple[time, time] | None:
        return parse_hour_span(self.quiet, "[heartbeat]: quiet")

    def check(self, where: str) -> None:
        parse_hour_span(self.quiet, f"{where}: quiet")


@dataclass(frozen=True)
class CostsConfig:
    """[costs]: daily limits for models, and their prices."""

    day_tokens: Annotated[int, Span(0, 10_000_000_000), "tokens in and out per day; 0 for no cap"] = 0
    day_money: Annotated[float, Span(0, 1_000_000), "money per day, in your currency; 0 for no cap"] = 0.0
    currency: Annotated[str, "your currency, such as EUR (only for display)"] = ""
    prices: Annotated[dict[str, Any], "by model: [in, out], the prices of a million tokens"] = empty(dict)

    @property
    def by_model(self) -> dict[str, Price]:
        """The prices; raises ConfigError."""
        return parse_prices(self.prices, "[costs.prices]")

    def check(self, where: str) -> None:
        """Raise ConfigError for prices that are none, and for a cap that nothing could be counted for; see `where`."""
        known = parse_prices(self.prices, f"{where[:-1]}.prices]")
        if self.day_money and not known:
            raise ConfigError(f'{where}: day_money takes prices: "MODEL" = [in, out] under [costs.prices]')


@dataclass(frozen=True)
class HistoryConfig:
    """[history]: how often the sensors are measured while picoclaw runs."""

    every_seconds: Annotated[float, Span(1, 3600), "seconds between two measurements"] = 60.0


ChannelAgent = Annotated[
    str, "the agent that answers in new chats here, unless the person has their own; '': the home's own"
]
_ORIGIN = pattern(r"https?://[^\s/@?#,]+/?", re.IGNORECASE)


@dataclass(frozen=True)
class PageConfig:
    """[page]: a chat and a dashboard for browsers."""

    enabled: Annotated[bool, "whether it is served"] = False
    host: Annotated[str, "the address to listen at; 0.0.0.0 for the whole network"] = "127.0.0.1"
    port: Annotated[int, Span(1, 65_535), "the port to listen at"] = 8737
    names: Annotated[list[str], "other names of the board in your network"] = empty(list)
    origins: Annotated[list[str], "its public addresses behind a proxy, such as https://shed.example"] = empty(list)
    proxies: Annotated[list[str], "addresses of these proxies, whose X-Forwarded-For header is trusted"] = empty(list)
    openai: Annotated[bool, "whether programs with a token of yours may use the board as an OpenAI model"] = False
    agent: ChannelAgent = ""

    def check(self, where: str) -> None:
        """Raise ConfigError for an origin that no request could ever match."""
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(f"{where}: origins: {origin!r} must be like https://shed.example, without a path")


@dataclass(frozen=True)
class TelegramConfig:
    """[telegram]: the Telegram bot; its token is in secrets.toml."""

    allow: Annotated[list[int], "numbers of people who may chat, in addition to paired people"] = empty(list)
    api_url: Annotated[str, "the address of the Bot API server"] = "https://api.telegram.org"
    owner: Annotated[int, Span(0, 2**52), "your number; 0: the first person paired, or the first in allow"] = 0
    agent: ChannelAgent = ""


MATRIX_USER = pattern(r"@[^\s:]{1,200}:[A-Za-z0-9.:\[\]-]{1,230}")


@dataclass(frozen=True)
class MatrixConfig:
    """[matrix]: the board's account on a Matrix server; its access token is in secrets.toml."""

    homeserver: Annotated[str, "the address of the account's server, such as https://matrix.example.org"] = ""
    allow: Annotated[list[str], 'people who may chat, such as "@ann:example.org", in addition to paired people'] = (
        empty(list)
    )
    owner: Annotated[str, 'you, such as "@me:example.org"; "": the first person paired, or the first in allow'] = ""
    agent: ChannelAgent = ""

    def check(self, where: str) -> None:
        """Raise ConfigError for people whom no server could have."""
        for user in filter(None, (*self.allow, self.owner)):
            if not MATRIX_USER.fullmatch(user):
                raise ConfigError(f"{where}: {user!r} is not a Matrix user: write it as @name:example.org")


PersonRole = Literal["owner", "member", "guest"]


@dataclass(frozen=True)
class PersonConfig:
    """[people.NAME]: a person of the household, their accounts and their role."""

    role: Annotated[
        PersonRole,
        "owner: as you; member: with notes and reminders of their own; guest: may read sensors, the rest needs your approval",
    ] = "member"
    telegram: Annotated[int, Span(0, 2**52), "their Telegram number; 0: none, or paired"] = 0
    matrix: Annotated[str, "their Matrix name, such as @ada:example.org"] = ""
    terminal: Annotated[str, "their login name on this machine, for `picoclaw chat`"] = ""
    time_zone: Annotated[str, "their time zone, such as Europe/Berlin; '': the one they have told picoclaw"] = ""
    agent: Annotated[str, "the agent that answers in their new chats; '': the home's own"] = ""
    language: Annotated[
        str, "their language, such as de, if their message does not show it; '': the only one heard, or English"
    ] = ""

    @property
    def ways(self) -> tuple[str, ...]:
        """What a channel calls them, such as telegram:12345."""
        ways = ("telegram", self.telegram), ("matrix", self.matrix), ("terminal", self.terminal)
        return tuple(f"{way}:{name}" for way, name in ways if name)


def check_name(name: str, where: str) -> None:
    """Raise ConfigError for what cannot be the name of a table."""
    if not TABLE_NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name is small letters, digits and _")


DEFAULT_AGENT = "default"
"""The key of the home's own agent, unless a table has `default = true`."""


@dataclass(frozen=True)
class AgentConfig:
    """[agents.KEY]: a further agent of this home, with pages, notes and conversations of its own."""

    name: Annotated[str, "its display name; '': its key"] = ""
    description: Annotated[str, "its purpose, in a sentence; people and other agents choose by it"] = ""
    model: Annotated[str, "the NAME of a [models.NAME]; '': as [model]"] = ""
    tools: Annotated[list[str], "the only tools it may use, such as sensor_read or memory_*; empty: all"] = empty(list)
    workspace: Annotated[str, "a folder of yours for its files; '': agents/KEY in the home"] = ""
    type: Annotated[
        Literal["open", "predefined"],
        "open: each person has their own version of all pages; predefined: only of USER.md",
    ] = "predefined"
    default: Annotated[bool, "whether it is the home's own agent, which answers unless another is chosen"] = False
    people: Annotated[list[str], 'who may talk to it besides you: names of [people.NAME], or "*" for everybody'] = (
        field(default_factory=lambda: ["*"])
    )
    then: Annotated[
        list[str], 'models to ask if its own fails, in this order: names of [models.NAME], or "model" for [model]'
    ] = empty(list)
    steps: Annotated[int, Span(0, 1000), "model calls with tools in one of its turns; 0: as under [limits]"] = 0
    seconds: Annotated[float, Span(0, 86_400), "seconds that one of its turns may take; 0: as under [limits]"] = 0.0
    tokens: Annotated[int, Span(0, 100_000_000), "tokens in and out of one of its turns; 0: as under [limits]"] = 0
    day_tokens: Annotated[int, Span(0, 10_000_000_000), "its tokens per day, within those under [costs]; 0: no cap"] = 0
    day_money: Annotated[float, Span(0, 1_000_000), "its money per day, within that under [costs]; 0: no cap"] = 0.0

    def is_open_to(self, person: str) -> bool:
        """Whether a member of the household may talk to it, or a guest, who is ''."""
        return "*" in self.people or (bool(person) and person in self.people)

    @property
    def folder(self) -> Path:
        """The folder that the owner has chosen for it."""
        return Path(self.workspace).expanduser()


@dataclass(frozen=True)
class TeamConfig:
    """[teams.NAME]: agents that work together; the lead may give tasks to each of the others."""

    lead: Annotated[str, "the agent that gives the others their tasks; one of the members"]
    members: Annotated[dict[str, Any], 'the agents and what each does, such as { garden = "plants and soil" }']
    workflow: Annotated[str, "how they work together, in a sentence; it is sent to each of them"] = ""


@dataclass(frozen=True)
class NotifyConfig:
    """[notify.NAME]: a further service for alarms: ntfy, or a webhook."""

    kind: Annotated[Literal["ntfy", "webhook"], "the kind of service"]
    url: Annotated[str, "the address, such as https://ntfy.sh/TOPIC; its token: [keys] notify_NAME in secrets.toml"]
    urgency: Annotated[Literal["low", "default", "high", "urgent"], "priority of the notification"] = "high"
    quiet: Annotated[str, 'hours in which notifications are silent, such as "22:00-07:00"; "" for none'] = ""

    def check(self, where: str) -> None:
        """Raise ConfigError, without the address, for what nothing could be sent to."""
        parse_hour_span(self.quiet, f"{where}: quiet")
        if not re.fullmatch(r"https?://[^\s/@?#]+/[^\s@]+", self.url):
            raise ConfigError(f"{where}: url must be like https://ntfy.sh/TOPIC, without a user and a password")


_MAX_HOOK_WORDS, _MAX_HOOK_FIELDS = 2000, 20


@dataclass(frozen=True)
class HookConfig:
    """[hooks.NAME]: a webhook: a post of another program to http://BOARD:8737/hooks/NAME becomes a message."""

    words: Annotated[str, "the message; {a.path} is a field of the JSON that is posted, {event} GitHub's name of it"]
    kind: Annotated[
        Literal["signed", "github", "token"],
        "how the sender proves that it knows the secret: Standard Webhooks, GitHub's signature, or the secret itself",
    ] = "signed"
    answer: Annotated[bool, "whether the agent answers the message; false: it is sent to you as it is"] = True
    to: Annotated[str, 'where the answer goes: "telegram", "page", ...; "": the chat that you used last'] = ""
    per_minute: Annotated[int, Span(1, 600), "posts accepted per minute; more are refused"] = 20

    def check(self, where: str) -> None:
        """Raise ConfigError for words that say nothing, or for more than a message holds."""
        if not self.words.strip() or len(self.words) > _MAX_HOOK_WORDS:
            raise ConfigError(f"{where}: words must be 1 to {_MAX_HOOK_WORDS} characters")
        if self.words.count("{") > _MAX_HOOK_FIELDS:
            raise ConfigError(f"{where}: words may hold {_MAX_HOOK_FIELDS} fields at most")


_MAX_TOPIC_BYTES = 1000
_BOARD_NAME = pattern(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class StoreConfig:
    """[store]: the store that several boards share; it is used if url is set."""

    url: Annotated[
        str, "its address: postgresql://USER@HOST/DATABASE, or sqlite:/FOLDER/FILE.db for homes of one machine"
    ] = ""
    board: Annotated[str, "the board's name there; '': the host name"] = ""

    @property
    def board_name(self) -> str:
        return self.board or re.sub(r"[^a-z0-9_-]", "-", os.uname().nodename.lower())[:48].strip("-_") or "board"

    @property
    def shown_url(self) -> str:
        return redact_url(self.url)

    def check(self, where: str) -> None:
        """Raise ConfigError for what is no address; `where` names the table."""
        if self.url and not re.match(r"(?:postgres(?:ql)?://|sqlite:/)", self.url):
            raise ConfigError(
                f"{where}: url must be postgresql://USER@HOST/DATABASE, or sqlite:/FOLDER/FILE.db for homes on one machine"
            )
        if self.board and not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,47}", self.board):
            raise ConfigError(f"{where}: board takes small letters, digits, - and _, 48 at most, not {self.board!r}")


@dataclass(frozen=True)
class MqttConfig:
    """[mqtt]: your MQTT broker; it is used if host is set."""

    host: Annotated[str, "the broker's name or address"] = ""
    port: Annotated[int, Span(0, 65_535), "its port; 0: 1883, or 8883 with tls"] = 0
    tls: Annotated[bool, "whether the connection is encrypted"] = False
    ca: Annotated[str, "file with the certificate of the broker's authority; '': those that the system trusts"] = ""
    cert: Annotated[str, "file with the board's own certificate, for brokers that ask for one"] = ""
    key: Annotated[str, "file with the key of that certificate"] = ""
    user: Annotated[str, "the user's name; the password is mqtt_password in secrets.toml"] = ""
    name: Annotated[str, "the board's name at the broker: its topics begin with picoclaw/NAME; '': the host name"] = ""
    keep_alive_seconds: Annotated[int, Span(10, 3600), "seconds of silence after which the connection is checked"] = 60
    discovery: Annotated[str, "the discovery topic of Home Assistant; '': nothing is published"] = "homeassistant"
    questions_an_hour: Annotated[
        int,
        Span(0, 1000),
        "questions an hour that Home Assistant, or anybody at the broker, may ask the agent; 0: none",
    ] = 0
    reminder_texts: Annotated[bool, "whether the text of the next reminder is published, not only its time"] = False
    fleet: Annotated[bool, "whether paired boards may read its sensors and stop its outputs"] = False

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port or (8883 if self.tls else 1883)

    @property
    def base(self) -> str:
        """What the board's own topics begin with."""
        return f"picoclaw/{self.name or re.sub(r'[^A-Za-z0-9_-]', '-', os.uname().nodename)[:64] or 'board'}"

    def check(self, where: str) -> None:
        """Raise ConfigError for what no broker could be reached with."""
        if not self.host or not self.host.isprintable() or re.search(r"[\s/@]", self.host):
            raise ConfigError(f"{where}: host must be the broker's name or address, such as 192.168.1.5")
        if self.name and not _BOARD_NAME.fullmatch(self.name):
            raise ConfigError(f"{where}: name must be 1 to 64 letters, digits, - and _, not {self.name!r}")
        if self.discovery and not re.fullmatch(r"[\w-]{1,64}(/[\w-]{1,64})*", self.discovery):
            raise ConfigError(f"{where}: discovery must be a topic such as homeassistant, not {self.discovery!r}")
        if bool(self.cert) != bool(self.key):
            raise ConfigError(f"{where}: cert and key belong together")
        if (self.ca or self.cert) and not self.tls:
            raise ConfigError(f"{where}: ca, cert and key take tls = true")


@dataclass(frozen=True)
class SensorConfig:
    """[sensors.NAME]: a part that is wired to a bus and read by one of the drivers, or a topic of the MQTT broker."""

    part: Annotated[str, "the driver's name, such as bme280"] = ""
    bus: Annotated[int | None, Span(0, 255), "the N of /dev/i2c-N, or of /dev/spidevN.M"] = None
    address: Annotated[int, Span(0x08, 0x77), "7-bit address, 0x08 to 0x77"] = 0
    chip: Annotated[int, Span(0, 255), "chip select, the M of /dev/spidevN.M"] = 0
    port: Annotated[str, "serial port such as /dev/serial0, or 1-Wire device such as 28-00000a1b2c3d"] = ""
    options: Annotated[dict[str, Any], "options of the driver, such as { shunt_ohms = 0.1 }"] = empty(dict)
    mqtt: Annotated[str, "instead of part: the topic of its values"] = ""
    field: Annotated[str, "with mqtt: where the value is in JSON, such as SI7021.Temperature or values[0]"] = ""
    unit: Annotated[str, "with mqtt: the published unit, such as °C"] = ""
    quantity: Annotated[str, "with mqtt: the quantity, if field and unit do not tell it"] = ""
    availability: Annotated[str, "with mqtt: the topic that says online or offline"] = ""
    stale_minutes: Annotated[float, Span(0.1, 10_080), "with mqtt: minutes after which a value is too old"] = 90.0

    def check(self, where: str) -> None:
        """Raise ConfigError for what can neither be read over a bus nor heard from a broker."""
        if bool(self.part) == bool(self.mqtt):
            both = (
                "'part' and 'mqtt' exclude each other" if self.part else "'part' is missing: the driver's name, such as"
            )
            raise ConfigError(f"{where}: {both}" + ("" if self.part else " bme280, or 'mqtt': the topic of its values"))
        if self.part and (self.field or self.unit or self.quantity or self.availability):
            raise ConfigError(f"{where}: field, unit, quantity and availability belong to mqtt, not to a part")
        if self.mqtt and (self.address or self.bus is not None or self.chip or self.port or self.options):
            raise ConfigError(f"{where}: bus, address, chip, port and options belong to a part, not to mqtt")
        for topic in filter(None, (self.mqtt, self.availability)):
            if re.search(r"[+#\0]", topic) or len(topic.encode("utf-8", "replace")) > _MAX_TOPIC_BYTES:
                raise ConfigError(f"{where}: {topic[:80]!r} must be one topic, without + and #")


_HERE_ONLY = ("folders", "write", "network", "environment")


@dataclass(frozen=True)
class McpConfig:
    """[mcp.NAME]: an MCP server, whose tools the agent has as NAME.tool once you have agreed to them."""

    command: Annotated[list[str], "the program and its arguments; it runs in the sandbox of commands"] = empty(list)
    url: Annotated[str, "instead of command: the address of a server; its token: [keys] mcp_NAME"] = ""
    tools: Annotated[list[str], "names of the tools to use; empty: all"] = empty(list)
    descriptions: Annotated[
        Literal["names", "shown", "trusted"],
        "how a model sees a tool: names: its name and arguments; shown: also the server's description, as untrusted text;"
        " trusted: the same, as your own words",
    ] = "names"
    folders: Annotated[list[str], "with command: folders that it may read"] = empty(list)
    write: Annotated[list[str], "with command: folders that it may read and change"] = empty(list)
    network: Annotated[bool, "with command: whether it may use the network"] = False
    environment: Annotated[list[str], "with command: names of environment variables for it"] = empty(list)
    seconds: Annotated[float, Span(1, 3600), "seconds that a call may take"] = 60.0
    idle_minutes: Annotated[float, Span(0.1, 1440), "minutes without a call after which the server is stopped"] = 10.0
    client_id: Annotated[str, "with url: the OAuth client that you have registered; '': registered automatically"] = ""

    @property
    def is_contained(self) -> bool:
        """Whether whatever it does can change nothing but its own temporary files, because the sandbox says so."""
        return bool(self.command) and not self.network and not self.write

    def check(self, where: str, home: Path) -> None:
        """Raise ConfigError for a server that could not be run or reached, or would see what is picoclaw's own."""
        if bool(self.command) == bool(self.url):
            raise ConfigError(f"{where}: takes either command, a list such as ['npx', 'some-server'], or url")
        if self.url and (given := [key for key in _HERE_ONLY if getattr(self, key)]):
            raise ConfigError(f"{where}: {' and '.join(given)} belong to a command, not to a url")
        if self.command and self.client_id:
            raise ConfigError(f"{where}: client_id belongs to a url, not to a command")
        if self.url and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@#]*)?", self.url):
            raise ConfigError(f"{where}: url must be like https://mcp.example/mcp, without a user and a password")
        own = home.resolve()
        for folder in (*self.folders, *self.write):
            path = Path(folder).expanduser()
            if not path.is_absolute():
                raise ConfigError(f"{where}: {folder!r} must be a whole path, such as '/srv/data' or '~/data'")
            if own.is_relative_to(path.resolve()) or path.resolve().is_relative_to(own):
                raise ConfigError(f"{where}: {folder!r} holds what is picoclaw's own; name a folder beside {home}")


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
        return next((key for key, agent in self.agents.items() if agent.default), DEFAULT_AGENT)

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
