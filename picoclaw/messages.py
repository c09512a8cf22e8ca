"""What the parts hand to one another: what was said, what was called, what came back, and the stop of a turn.

The order to stop all outputs is known here by its words alone, before a model or the matcher sees the message. In a hurry
nobody remembers the right words, and stopping does no harm; so many are taken, in four languages.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from threading import Event as Flag
from typing import Any, Literal

from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.text import fold_accents, pattern

_MAX_STOP_LENGTH = 60
_STOP_WORDS = """
stop stopp stoppe stoppen halt haltet anhalten notaus para parad pare paralo alto basta corta cortalo detente
arrete arretez arreter stoppez emergency
"""
_OFF_WORDS = """
off kill aus ausschalten ausmachen abschalten apaga apagad apagalo apagar eteins eteignez coupe coupez
"""
_ALL_WORDS = "all everything alles alle todo todos tout tous"
_POLITE_WORDS = """
it that now please right away immediately the outputs turn switch shut down jetzt sofort bitte mach mache schalt
schalte stell das ausgange ya ahora mismo por favor las salidas maintenant stp svp vite immediatement s il te
vous plait les sorties ca ok okay pls plz plse thanks thx danke gracias porfa plis xfa merci
"""
_NO_WORDS = "no nein nee non nope"
_AFTER_NO_WORDS = "stop stopp stoppe stoppen halt notaus arrete arretez stoppez"  # not "no para": it does not end
_IT_WORDS = "it that paralo cortalo apagalo ca ok"
_THE = r"(?:the|de[nr]|die|el|la|las|los|les?|l)"
_EXCEPTIONS = (
    r"(?:but not|aber nicht|pero no|mais pas|except|ausser|bis auf|menos|excepto|salvo|sauf|apart from) ",
    rf"(?:(?:but|aber|pero|mais|not|nur|nicht|no|pas|keep\w*|leav\w+|using|brauche?|lasse?|deja|laisse) )+{_THE} \w",  # "leave the fan on"
    rf"{_THE} \w+ (?:not|nicht|no|pas)$",  # "la bomba no"
    r"not (?:now|yet)|nicht jetzt|pas maintenant",
    r"(?:but only|aber erst|aber nur|erst|pero solo|mais seulement) ",
    r"(?:at|in|um|a las|dentro de|dans|a) (?:\d\w*|an?|einer|una|une)(?: \w+)?$",  # "in an hour"
    r".*\b(?:stays? on|bleibt an|anbleiben|se queda encendid[oa]|reste allumee?)\b",
)
_EXCEPTION = pattern("|".join(_EXCEPTIONS))
"""What takes something out of an order to switch all off, or says when; such an order is read as a sentence."""
_REASONS = (
    r"im|i m|i am|i ll|i have to|i ve got to|i got to|i gotta|i need to|i must|we re|we are|we have to|its|it s|it is|there s|gotta",
    r"because|cos|coz|cuz|bye",
    r"ich (?:bin|geh|muss|hau|fahr|will|leg)\w*|wir (?:sind|geh|muss|mussen|fahr)\w*|es (?:brennt|riecht|stinkt|ist)",
    r"weil|denn|bin|muss|geh|gehe|tschuss",
    r"(?:(?:que|q|porque|pq|xq) )?(?:me (?:voy|piro|largo|marcho|tengo que)|nos (?:vamos|piramos)|voy|vamos|salgo|tengo que|huele)",
    r"(?:(?:car|parce que?|pcq) )?(?:je (?:sors|pars|m|vais|file|dois|suis)|j y|jme|jm|jvais|jsors|jpars|on (?:s|sort|part|y|file|va)|ca sent|ca brule)",
)
_REASON = pattern(rf"(?:{'|'.join(_REASONS)})\b")
"""What begins the reason for an order to switch all off, where no comma stands before it."""
_MAX_REASON_WORDS = 5  # what is longer may say when, or for what
_STOP, _OFF, _ALL, _BESIDE, _IT, _NO, _AFTER_NO = (
    frozenset(words.split())
    for words in (_STOP_WORDS, _OFF_WORDS, _ALL_WORDS, _POLITE_WORDS, _IT_WORDS, _NO_WORDS, _AFTER_NO_WORDS)
)


def is_stop_order(text: str) -> bool:
    """Tell whether a message is nothing but the order that all outputs stop, in English, German, Spanish or French.

    Behind a comma may stand more where all is named, but no exception: "everything off, I am going to bed"; without one only
    a reason: "everything off I am out". Before it may stand a "no": "no no, stop".
    What says "stop" twice is one, whatever follows: "stop stop the hose came off".
    """
    return bool(_find_stop_order(text))


def is_stop_of_one(text: str) -> bool:
    """Whether an order to stop speaks of one thing: "stop it now". It may mean all, where it is not known of what."""
    words = frozenset(_find_stop_order(text))
    return bool(words) and not words.isdisjoint(_IT) and words.isdisjoint(_ALL)


def is_off_order(text: str) -> bool:
    """Whether an order to stop has no word for "stop": "everything off" ends nothing that is planned."""
    words = _find_stop_order(text)
    return bool(words) and _STOP.isdisjoint(words)


def is_urgent_text(text: str) -> bool:
    """Whether a message ends something: the turn, or what the outputs do. Nothing keeps it waiting."""
    return is_stop_order(text) or text.lower() == "/stop"


def _find_stop_order(text: str) -> Sequence[str]:
    """The words of a message that order a stop of all outputs, without its reason; none where it is no such order."""
    words = _split_plain(text)
    count = next((n for n, word in enumerate(words) if word not in _NO), 0)
    if count > 1 or ("," in text and count) or not _AFTER_NO.isdisjoint(words[count : count + 1]):
        words = words[count:]
    if len(words) > 1 and words[0] == words[1] and words[0] in _STOP:
        return words
    if len(text) <= _MAX_STOP_LENGTH and _orders_stop(words):
        return words
    first, rest = (_split_plain(part) for part in text.partition(",")[::2])
    if "," in text and "?" not in text and _orders_all(first) and not _EXCEPTION.match(" ".join(rest)):
        return first
    return next((words[:n] for n in range(2, len(words)) if _orders_all(words[:n]) and _tells_why(words[n:])), ())


def _orders_all(words: Sequence[str]) -> bool:
    return len(words) > 1 and not _ALL.isdisjoint(words) and _orders_stop(words)


def _tells_why(words: Sequence[str]) -> bool:
    """Whether the words behind an order to switch all off only say why: they are few, take nothing out, and name no time."""
    told = " ".join(words)
    is_short = len(words) <= _MAX_REASON_WORDS and not any(map(str.isdigit, told))
    return is_short and bool(_REASON.match(told)) and not _EXCEPTION.search(told)


def _orders_stop(words: Sequence[str]) -> bool:
    found = frozenset(words)
    ends = not found.isdisjoint(_STOP) or not (found.isdisjoint(_OFF) or found.isdisjoint(_ALL))
    return ends and found <= _STOP | _OFF | _ALL | _BESIDE


def _split_plain(text: str) -> list[str]:
    """Split a text into words of small letters without accents; none where something else than words ends it."""
    if text.lstrip().startswith("/") or "?" in text:
        return []
    return "".join(char if char.isalnum() else " " for char in fold_accents(text)).split()


MessageRole = Literal["user", "assistant", "tool"]
Origin = Literal[
    "owner", "web", "member", "guest", "cron", "heartbeat", "rule", "subagent", "mqtt", "remote", "hook", "mcp"
]
"""Who asks for a turn: the owner in person or on the page, a member of the household, another person who may chat, and
what asks unasked.

mqtt: an order for an output, over the broker; remote: a question of Home Assistant or of another board; hook: a webhook;
mcp: another program over MCP.
"""

DEFAULT_SESSION = "terminal"
TERMINAL_SESSIONS = "terminal:"
"""What the sessions of others than the owner begin with who chat at a terminal of this machine; their login name follows."""
LOGIN_WAY = "login:"
"""What somebody is called begins with who has logged in to the page as a person of config.toml; the name follows."""
ERROR_PREFIX = "error: "
"""How the result of a call that failed begins."""


def is_owner(origin: str) -> bool:
    """Tell whether the owner asks, in person: at a terminal, over a channel of theirs, or on the page."""
    return origin in {"owner", "web"}


def is_resident(origin: str) -> bool:
    """Tell whether somebody asks in person whose own workspace the turn has: the owner, or a member of the household."""
    return is_owner(origin) or origin == "member"


def is_other_person(origin: str) -> bool:
    """Tell whether somebody asks who is not the owner."""
    return is_outsider(origin) or origin == "member"


def is_outsider(origin: str) -> bool:
    """Tell whether somebody else than the owner asks, who is told nothing of what the owner keeps."""
    return origin in {"guest", "remote", "hook"}


HOOK_SESSIONS, REQUEST_SESSIONS = "hook:", "openai:"
"""What the sessions of webhooks begin with, and those of programs that wait for the answer to their request."""


TASK_SESSIONS = "subagent "
"""What the session of a task begins with, which is a sub-agent's or another agent's; its number follows."""

INTERNAL_SESSIONS = ("heartbeat", "job ", TASK_SESSIONS)
"""What the sessions begin with that are no chat of a person or a program."""


def has_reader(session: str) -> bool:
    """Tell whether somebody is there who reads what is told in a session later."""
    return not session.startswith((HOOK_SESSIONS, REQUEST_SESSIONS))


def split_context(text: str) -> tuple[str, str]:
    """Part a user's message into what its <moment> header says, '' without one, and the person's own words."""
    head, end, words = text.partition("</moment>")
    return (head.removeprefix("<moment>"), words.strip()) if end and head.startswith("<moment>") else ("", text.strip())


def strip_context(text: str) -> str:
    """What stands behind the last header: never words of a header or a report, at most fewer of the person's own."""
    return text.rpartition("</moment>")[2].strip()


OLD_TOOL_NAMES = {"append_file": "write_file"}
"""Tools that are part of another now, which the owner's rules and skills, jobs and models may still name."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call as a model asked for it.

    `broken` holds the arguments' text when it was not a JSON object; such a call is never run, and goes back to
    the model as an empty object.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    broken: str = ""


class Thought(NamedTuple):
    """What a model thought before it spoke, in parts as its server sent them; it goes back to that model alone.

    `by` is the model's name. It is never kept: it belongs to the turn in which it was thought.
    """

    by: str = ""
    parts: tuple[dict[str, Any], ...] = ()


NO_THOUGHT = Thought()


class Image(NamedTuple):
    """A picture that came with a message; `kind` is its media type, such as `image/jpeg`. It is not kept with it."""

    kind: str
    data: bytes


class Message(NamedTuple):
    """One entry of a conversation. `calls` and `thought` only on an assistant's, `call_id` only on a tool's.

    `images` came with a user's words, which name their files, too.
    """

    role: MessageRole
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    thought: Thought = NO_THOUGHT
    images: tuple[Image, ...] = ()


def split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Part a conversation at the words of the user."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            turns.append([])
        if turns:
            turns[-1].append(message)
    return turns


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them; 0 where it did not say.

    `counted` has one pair for each request whose prompt a server did count: its bytes, as they are measured for an
    estimate, and the tokens. What is compared is the tokens alone.
    Of the prompt's tokens so many were `cached`, and of the answer's so many went into `reasoning`, as far as it is told.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    counted: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    cached: int = field(default=0, compare=False)
    reasoning: int = field(default=0, compare=False)

    def __add__(self, other: "Usage") -> "Usage":
        prompt, completion = self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens
        cached, reasoning = self.cached + other.cached, self.reasoning + other.reasoning
        return Usage(prompt, completion, self.counted + other.counted, cached, reasoning)

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Stop:
    """Tells a turn, from another thread, that nobody waits for an answer any more."""

    def __init__(self) -> None:
        self._flag = Flag()
        self._hang_up: Callable[[], None] = lambda: None

    def __bool__(self) -> bool:
        return self._flag.is_set()

    def set(self) -> None:
        """Set it, and end what is being waited for."""
        self._flag.set()
        self._hang_up()

    def clear(self) -> None:
        """Clear it, for what comes after."""
        self._flag.clear()

    def rest(self, seconds: float) -> None:
        """Sleep, but no longer than until it is set."""
        self._flag.wait(seconds)

    @contextmanager
    def ends(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """Have it end a wait: `hang_up` is called from the thread that sets it."""
        self._hang_up = hang_up
        try:
            yield
        finally:
            self._hang_up = lambda: None


class Purpose(NamedTuple):
    """What a request is made for: `cause` in a word or two, such as `chat` or `cron 3`, and the chat that is told."""

    cause: str = "chat"
    session: str = DEFAULT_SESSION


class Request(NamedTuple):
    """What a provider is asked. `tools` are definitions: name, description, parameters (JSON schema).

    `model` is another model's name, in the chain or at its first server, for this request only. Without `calls`, the
    tools are shown and none is to be called. `lost` stands for a result that is not in the conversation. `stop` ends
    the answer with TurnStopped. `untrusted` is what goes around an untrusted result, with places for its
    `name` and `content`. `purpose` is for the owner's accounts, and goes to no server.
    `schema` is the JSON schema of the answer, None for words; a server without such a thing is asked without it.
    `temperature` is for a model whose settings name none; None for the server's own.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    answer_tokens: int
    deadline: float
    model: str = ""
    calls: bool = True
    lost: str = ""
    stop: Stop | None = None
    untrusted: str = ""
    purpose: Purpose = Purpose()
    schema: dict[str, Any] | None = None
    temperature: float | None = None


class Text(NamedTuple):
    text: str


class End(NamedTuple):
    """The last event of a completion; `finish` is the server's word for why it ended."""

    finish: str
    usage: Usage
    thought: Thought = NO_THOUGHT


class Notice(NamedTuple):
    """Something the person should know about how the answer came about; not part of the answer.

    `failed` when the owner has to correct something.
    """

    text: str
    failed: bool = False


class TurnContext(NamedTuple):
    """What a turn begins with: the system text, and the user's message with its head.

    `tools` are the names of those that are offered, `only` of those that may be called, None for all; `model` is
    another one than the configured; `bytes_a_token` the ratio to estimate by. `relied_on` are parts of earlier
    messages that have to be said again should those be forgotten. `summary` says what came before the earlier turns
    that are shown.
    """

    system: str
    text: str
    tools: frozenset[str] | None = None
    only: frozenset[str] | None = None
    model: str = ""
    bytes_a_token: float = 4.0
    relied_on: tuple[str, ...] = ()
    summary: str = ""


Event = Text | ToolCall | End | Notice


@dataclass(frozen=True)
class Caller:
    """Who asked for a turn; handed to tools beside the model's arguments, never shown to the model.

    `now` is the wall clock when the turn began, with its zone. `say` delivers a message to the chat at once. `taints`
    names the untrusted sources that the turn has read: files, the output of commands, a serial line.
    `user_texts` are the messages of whoever asks, in this conversation, and `model_texts` what a model has put into its
    calls before it has read anything of that kind.

    `who` names the person on the channel, such as `telegram:12345`, '' where there is one only.

    `reply_to` is the session that a later report goes to, the turn's own unless a job or a heartbeat asks. `depth` is 0
    in a turn that a person, a job or a heartbeat asked for, 1 in a sub-agent's, `task` that sub-agent's number, and `may` the
    tools that it may call, None for all. `stop` ends the turn, and what a tool of it waits for. `cause` names for the
    accounts what asks, where the origin does not. `planned`: it is a command that was planned, and is due.
    `private` names the tools by which the conversation has read what is the owner's: files, notes, the output of
    commands. `asks` gathers the numbers of the calls that were kept for a yes, for one question at the turn's end; None
    has each asked about at once. `agreed` is what a person has said to calls that are about to be made, by digest.
    `behalf` is for whom a task is done that was given to an agent: what is decided is the stricter of both.
    """

    session: str
    origin: Origin
    now: datetime
    say: Callable[[str], None]
    taints: set[str] = field(default_factory=set, compare=False)
    user_texts: tuple[str, ...] = ()
    reply_to: str = ""
    depth: int = 0
    task: int = 0
    may: frozenset[str] | None = None
    stop: Stop = field(default_factory=Stop, compare=False)
    who: str = ""
    cause: str = ""
    model_texts: list[str] = field(default_factory=list, compare=False)
    planned: bool = False
    private: set[str] = field(default_factory=set, compare=False)
    asks: list[int] | None = field(default=None, compare=False)
    agreed: dict[str, bool] = field(default_factory=dict, compare=False)
    behalf: Origin | None = None

    @property
    def purpose(self) -> Purpose:
        usual = self.origin if self.origin in {"cron", "heartbeat", "rule", "subagent", "hook"} else "chat"
        return Purpose(self.cause or usual, self.reply_to or self.session)


class Inbound(NamedTuple):
    """Something to be answered: a chat line, a due job or a heartbeat.

    `reply_to` is the session that a later report goes to, when that is another one. `inbox` is its number in the
    inbox, 0 when it came another way. `who` names the person on the channel, and `foreign` what of it is not that
    person's word, such as a forwarded message. `cause` is the Caller's. `attachments` are the files that came with it,
    by their paths below the workspace; the text names them. `agent` is the key of the agent that answers, None for that
    of the conversation.
    """

    session: str
    text: str
    origin: Origin = "owner"
    reply_to: str = ""
    inbox: int = 0
    who: str = ""
    foreign: tuple[str, ...] = ()
    cause: str = ""
    attachments: tuple[str, ...] = ()
    agent: str | None = None


class ToolRun(NamedTuple):
    """A tool call that was answered, with its result and how long it took."""

    name: str
    arguments: dict[str, Any]
    result: str
    ms: float


class Turn(NamedTuple):
    """What became of an Inbound. `stopped` is empty when the model answered of its own accord.

    `messages` are what the turn adds to the conversation; `forgotten` earlier turns no longer fitted the window.
    `unanswered_texts` were typed during the turn, and no model has seen them: they are not among the messages, and the
    caller has them answered next. `longest_said` is set where so many characters of what was said were shown at most.
    `taints` names the untrusted sources it rests on, as Caller's; it is kept with the turn.
    """

    reply: str
    messages: tuple[Message, ...]
    steps: int
    tools: tuple[ToolRun, ...]
    usage: Usage
    stopped: str
    provider: str
    notice: Notice
    forgotten: int = 0
    unanswered_texts: tuple[str, ...] = ()
    longest_said: int = 0
    taints: tuple[str, ...] = ()

    @property
    def unsaid_notice(self) -> str:
        """The notice, as far as whoever was shown the reply has not read it there."""
        told = "; ".join(part for part in self.notice.text.split("; ") if part not in self.reply)
        return self.notice.text if self.stopped == "error" else told


Listener = Callable[[Event | ToolRun], None]


@dataclass(frozen=True)
class TurnHooks:
    """What a channel, or a sub-agent, has to do with a turn.

    `say` delivers messages that come ahead of the answer, `listen` hears each event as it happens. `typed` gives what
    the person has said since it was last asked, to be heeded between two tools. `stop` ends the turn, also while the
    model's server is silent. `keep` is handed the turn's messages before something is done, when it is done, and after
    each round, so that it can be gone on with; it raises nothing but TurnStopped. `shield` holds off interruptions
    while the turn is being kept. `once`: who asks leaves with the answer, and is asked nothing back.
    """

    say: Callable[[str], None] = lambda _: None
    listen: Listener = lambda _: None
    typed: Callable[[], Sequence[str]] = tuple
    stop: Stop | None = None
    keep: Callable[[Sequence[Message]], None] = lambda _: None
    shield: Callable[[], AbstractContextManager[None]] = nullcontext
    once: bool = False


NO_HOOKS = TurnHooks()


ONBOARDING_TOOL = "first_run"
"""The tool that notes what is said at the first meeting; it is offered as long as that is open."""

# Health check messages, answered without a model.

HEARTBEAT_OK = "HEARTBEAT_OK"
_MAX_CHECK_LENGTH = 40
_CHECK_PHRASES = {"heartbeat", "heart beat", "heartbeat check", "health check", "healthcheck"}


def is_check(text: str) -> bool:
    """Tell whether a message asks for nothing but a sign of life."""
    if len(text) > _MAX_CHECK_LENGTH:
        return False
    words = "".join(char if char.isalnum() else " " for char in text.casefold()).split()
    return " ".join(words).removesuffix(" please") in _CHECK_PHRASES
