"""A configured model, which asks its server and enters each request in the ledger; and the chain of several.

A chain asks one after another, and at last the built-in matcher.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import tzinfo
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.config import Config, load_config
from picoclaw.config.files import read_stamp
from picoclaw.config.tables import SMALL_NAME, ModelConfig, redact_url
from picoclaw.errors import (
    ConfigError,
    ContextOverflow,
    DeadlinePassed,
    Defect,
    KnownDown,
    MaybeTooLong,
    OverBudget,
    ProviderError,
    Refused,
    Unavailable,
)
from picoclaw.http_client import Client, Connection, iter_stream_lines
from picoclaw.messages import End, Event, Image, Message, Notice, Request, Text, ToolCall, Usage
from picoclaw.prompts import count_request_bytes, estimate_tokens
from picoclaw.providers import FallbackProvider, Provider, guard_events, http
from picoclaw.providers.openai import COMPLETE_CHUNK, AnswerAssembler, CompletionsFormat, get_tool_names
from picoclaw.providers.retry import PROBE_S, Attempts, CircuitBreaker, OutageProbe, RetryBudget, decide_retry
from picoclaw.providers.sanitize import encode_tool_names, fit_window, is_long, shorten_request
from picoclaw.providers.text_calls import get_user_text
from picoclaw.records import NamedTuple, asdict, dataclass, field, replace
from picoclaw.security.redaction import StreamMask
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.providers.anthropic import MessagesFormat
    from picoclaw.providers.openai import ResponsesFormat
    from picoclaw.providers.spending import UsageLedger

_FIELD = pattern(r"(data|event|id|retry|error)?:")
_IMAGE_WORDS = ("image", "vision", "multimodal", "mmproj", "multi-modal")
"""Words by which servers complain of a picture."""

_BUSY_STATUS = pattern(r"\((?:408|429|503|529)\)")
"""What passes by itself, with the same picture."""


@dataclass
class ModelState:
    """How it stands with a model.

    `error` is why its newest request failed, '' when it was answered, and `at` when that was, 0 for never; it
    `needs_owner` when nothing but its owner's doing helps. It `rests` when it was not asked last because of a cap.
    """

    error: str = ""
    at: float = 0.0
    needs_owner: bool = False
    rests: bool = False


class ModelProvider:
    """A model over one kept connection, whichever format its server speaks.

    The connection is made with the first request, and anew when the owner has changed the settings of a model that was
    refused. A server that is down, or has said that asking is no use, is not asked.
    """

    def __init__(
        self,
        model: ModelConfig,
        key: str = "",
        *,
        table: str = "",
        home: Path | None = None,
        open_ledger: "Callable[[], UsageLedger] | None" = None,
        zone: Callable[[], tzinfo | None] = lambda: None,
    ) -> None:
        """`table` names the model's settings below [models], '' for [model]; those in `home` are read again.

        The ledger is opened with a request. Times that a person reads are in the `zone`, None for the board's.
        """
        self.model, self.state = model, ModelState()
        self._key, self._table, self._home = key, table, home
        self._open_ledger, self._zone = open_ledger, zone
        self._stamp = read_stamp(home) if home else ()
        self._refused = False
        self._reset()

    def _reset(self) -> None:
        """Know nothing of the server."""
        self.name = f"{self.model.api}:{self.model.name or 'default'}"
        self._client: Client | None = None
        self._format: CompletionsFormat | MessagesFormat | ResponsesFormat = CompletionsFormat()
        if self.model.api == "anthropic":
            from picoclaw.providers import anthropic

            self._format = anthropic.MessagesFormat()
        elif self.model.api == "responses":
            from picoclaw.providers import openai

            self._format = openai.ResponsesFormat()
        self._url = self._format.url(self.model.base_url)
        self._mask = StreamMask(self._key)
        self._connection = Connection()
        self._breaker = CircuitBreaker()
        self._refused_images: tuple[Image, ...] = ()

    def close(self) -> None:
        if self._client:
            self._client.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events. Raises CircuitOpen, KnownDown and OverBudget without having asked."""
        try:
            self._reload_settings()
            self._breaker.check(request.model)
            client = self._connect()
            shown = self._select_images(request)
            name = f"{self.model.api}:{request.model}" if request.model else f"{self.model.api}:{self._model_name}"
            with self._open_ledger().record(request, name) if self._open_ledger else nullcontext() as entry:
                while True:
                    begun = False
                    try:
                        sent, names = encode_tool_names(shown)
                        for event in self._exchange(client, sent):
                            begun = True
                            if isinstance(event, ToolCall) and event.name in names:
                                event = replace(event, name=names[event.name])  # noqa: PLW2901
                            if entry:
                                entry.count(event)
                            yield event
                        break
                    except ProviderError as error:
                        error.args = (self._mask.whole(str(error)),)
                        self._record_outage(error)
                        if begun:
                            raise
                        if self._refuses_images(shown, error):
                            notice = Notice(f"the model was not shown the picture: {error}")
                            yield notice
                            shown = self._select_images(request)
                        elif not self._format.adapt(str(error)):
                            raise
        except OverBudget:
            self.state.rests = True  # which says nothing about the server
            raise
        except ProviderError as error:
            error.args = (self._locate(str(error)),)
            self._record_failure(request.model, error)
            raise
        self._outage.record_answer()
        self._breaker.record_answer(request.model)
        self.state = ModelState(at=time.time())

    @property
    def _model_name(self) -> str:
        return self.model.name or "default"

    def _reload_settings(self) -> None:
        """After a refusal, begin anew once the owner's files have changed. Raises Refused when they are wrong."""
        if not (self._refused and self._home) or (stamp := read_stamp(self._home)) == self._stamp:
            return
        self._stamp = stamp
        try:
            config = load_config({**os.environ, "PICOCLAW_HOME": str(self._home)})
        except ConfigError as error:
            raise Refused(str(error)) from None
        self.close()
        if self._table in config.models:
            self.model, self._key = config.models[self._table], config.model_keys.get(self._table, "")
        elif not self._table and config.model.base_url:
            self.model, self._key = config.model, config.api_key
        self._refused = False
        self._reset()

    def _connect(self) -> Client:
        """Make the client with the first request. Raises Refused for a key or a proxy that cannot be used."""
        if self._client is None:
            self._client = http.make_client(self._key, self._format.headers(self._key))
            probe = partial(http.probe_server, self._client, self.model.base_url, self._connection, PROBE_S)
            self._outage = OutageProbe(probe, zone=self._zone)
        return self._client

    def read_models(self) -> str:
        """The server's list of models, as it stands. Raises ProviderError."""
        return http.read_models(self._connect(), self.model.base_url, self._connection, PROBE_S)

    def _record_outage(self, error: ProviderError) -> None:
        """Remember a server that does not answer; one that says no is there."""
        if isinstance(error, Refused):
            self._outage.record_answer()
        elif isinstance(error, Unavailable) and not isinstance(error, KnownDown):
            self._outage.record_failure(error)

    def _record_failure(self, model: str, error: ProviderError) -> None:
        self._breaker.record_failure(model, error)
        self.state.rests = False
        action = decide_retry(error).action
        if action in {"compact", "give up"} or (isinstance(error, KnownDown) and self.state.error):
            return  # a server that was not asked has nothing new to say
        self.state = ModelState(str(error), time.time(), action == "owner")
        self._refused = self._refused or isinstance(error, Refused)

    def _locate(self, error: str) -> str:
        """Name the settings of a further model where an error names those of the first."""
        if not self._table:
            return error
        key = f"check PICOCLAW_API_KEY_{self._table.upper()}, or {self._table} below [keys] in"
        return error.replace("check [model] in", f"check [models.{self._table}] in").replace(
            "check PICOCLAW_API_KEY or", key
        )

    def _select_images(self, request: Request) -> Request:
        """Leave out the pictures that this model does not take, or that its server has refused in this turn."""
        images = _list_images(request)
        if not images or (self.model.images and images != self._refused_images):
            return request
        return request._replace(messages=tuple(message._replace(images=()) for message in request.messages))

    def _refuses_images(self, request: Request, error: ProviderError) -> bool:
        """Tell whether the server complains of the pictures, which are then left out."""
        images, text = _list_images(request), str(error).lower()
        busy = isinstance(error, KnownDown) or _BUSY_STATUS.search(text)
        if not images or busy or not any(word in text for word in _IMAGE_WORDS):
            return False
        self._refused_images = images
        return True

    def _exchange(self, client: Client, request: Request) -> Iterator[Event]:
        """Make one request, unless the server is known to be down; gives the events of its answer."""
        name = request.model or self._model_name
        self.name = f"{self.model.api}:{name}"
        body = self._format.body(request, self.model)
        assembler = AnswerAssembler(get_tool_names(request), get_user_text(request))
        mask, connection, wait = StreamMask(self._key), self._connection, self.model.idle_seconds
        try:
            with connection.stopped_by(request.stop):
                self._outage.check()
                with http.open_stream(
                    client, self._url, body, mask, wait=wait, deadline=request.deadline, connection=connection
                ) as pieces:
                    for chunk in self._read_chunks(pieces):
                        for event in assembler.feed(chunk):
                            yield from mask.feed(event)
            if not assembler.finish:
                raise Unavailable(f"{redact_url(self._url)} ended its answer in the middle; nothing of it was acted on")
        except ProviderError as error:
            if not (assembler.finish and isinstance(error, Unavailable)):  # else only the last mark is missing
                yield from mask.flush()
                raise
        for event in assembler.end():
            if isinstance(event, End):
                if event.finish == "length" and event.thought.parts and not assembler.spoke:
                    why = "the model thought until the limit of its answer, and said nothing: raise answer_tokens"
                    yield from mask.feed(Notice(why))
                event = _complete_end(event, request, name)  # noqa: PLW2901
            yield from mask.feed(event)

    def _read_chunks(self, pieces: Iterator[bytes]) -> Iterator[Any]:
        """What an answer consists of, up to its end; what follows is read, so that the connection serves again."""
        objects = self._read_objects(pieces)
        for chunk in self._format.chunks(objects):
            yield chunk
            if chunk is COMPLETE_CHUNK:
                http.drain(objects, self._connection)
                return

    def _read_objects(self, pieces: Iterator[bytes]) -> Iterator[Any]:
        """The JSON objects of a streamed answer or the one of a whole answer, whichever the server chose to send."""
        lines = map(self._mask.whole, iter_stream_lines(pieces))
        first = next((line for line in lines if line.strip()), "").lstrip("\ufeff")
        http.refuse_web_page(first, self._url)
        if _FIELD.match(first):
            for value in http.read_sse_objects(chain([first], lines)):
                yield COMPLETE_CHUNK if value is http.DONE_MARK else value
            http.drain(lines, self._connection)
        else:
            yield http.parse_answer_json("\n".join([first, *lines]))
            yield COMPLETE_CHUNK


def _list_images(request: Request) -> tuple[Image, ...]:
    return tuple(image for message in request.messages for image in message.images)


def _complete_end(end: End, request: Request, name: str) -> End:
    """Put the request's bytes beside the server's count, or guess where it counted nothing; and name who thought."""
    sent = count_request_bytes(request.system, request.messages, request.tools)
    thought = end.thought._replace(by=name) if end.thought.parts else end.thought
    if not end.usage.total:
        return End(end.finish, Usage(estimate_tokens(sent)), thought)
    prompt = end.usage.prompt_tokens
    return End(end.finish, replace(end.usage, counted=((sent, prompt),) if prompt else ()), thought)


_PROBE_SCHEMA = {
    "type": "object",
    "properties": {"do": {"const": "remind"}, "minutes": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["do", "minutes", "text"],
    "additionalProperties": False,
}
_PROBE_TOOLS = (
    {
        "name": "sensor_read",
        "description": "Measure now; gives values with units.",
        "parameters": {"type": "object", "properties": {"quantity": {"type": "string"}}},
    },
    {
        "name": "cron",
        "description": "Keep reminders.",
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["add", "list", "remove"]},
                "at_seconds": {"type": "number", "description": "seconds from now"},
                "at": {"type": "string", "description": "18:30"},
                "message": {"type": "string"},
            },
            "required": ["action"],
        },
    },
)
_PROBE_SECONDS = 720
_SMALL_SIZE = 3.5  # billions of parameters: those called 3 B have up to 3.4
_PROBE_TEXT = "Remind me in 12 minutes to close the window."


def probe_model(model: ModelConfig, key: str = "", seconds: float = 120.0) -> tuple[str, str]:
    """Ask a model two requests: one for a tool's call, one for an answer by a JSON schema.

    Returns the profile that suits it, and what it did. How well a model of 1.5 B calls tools differs from one try to
    the next, so a small one is told by its name, or by its size where the server tells that. Raises ProviderError.
    """
    ask, deadline = Message("user", _PROBE_TEXT), time.monotonic() + seconds

    def listen(request: Request) -> list[Event]:
        with closing(ModelProvider(model, key)) as provider:  # a slow server may close a connection that it has kept
            return list(provider.events(request))

    try:
        events = listen(Request("You keep reminders.", (ask,), _PROBE_TOOLS, 128, deadline))
        request = Request(
            "Answer with one JSON object.", (ask,), (), 128, deadline, schema=_PROBE_SCHEMA, temperature=0
        )
        text = "".join(event.text for event in listen(request) if isinstance(event, Text))
    except DeadlinePassed:
        raise DeadlinePassed(
            f"two short requests took longer than {seconds:g} s; try again while nothing else asks the server"
        ) from None
    calls = [event for event in events if isinstance(event, ToolCall)]
    good = [c for c in calls if c.name == "cron" and c.arguments.get("at_seconds") == _PROBE_SECONDS]
    has_called = len(calls) == len(good) == 1
    try:
        keeps_schema = json.loads(text).get("do") == "remind"
    except (ValueError, AttributeError):
        keeps_schema = False
    called = "called a tool as it should" if has_called else "did not call a tool as it should"
    told = f"asked once, it {called} and {'kept' if keeps_schema else 'did not keep'} to a JSON schema"
    size = _read_size(model, key)
    is_small = size <= _SMALL_SIZE if size else bool(SMALL_NAME.search(model.name.lower()))
    if size or is_small:
        told += f"; it has {size:.2g} billion parameters" if size else "; by its name it has few parameters"
    return "full" if has_called and not is_small else "small", told


def _read_size(model: ModelConfig, key: str) -> float:
    """The billions of parameters of a model, as llama.cpp tells them with its name; 0 where a server does not."""
    with closing(ModelProvider(model, key)) as provider, suppress(ProviderError, ValueError, TypeError, KeyError):
        listed = json.loads(provider.read_models())["data"]
        rows = [row for row in listed if row["id"] == model.name] or listed
        return float(rows[0]["meta"]["n_params"]) / 1e9 if len(rows) == 1 else 0.0
    return 0.0


class ModelLink(NamedTuple):
    """One model of a chain, by the name of its table, asked so many times again when it fails.

    With a `window` of 0 tokens requests are made for it, else each is shortened to it, and its answers to `answer`.
    `on_request_only` when it is asked only if chosen with /model.
    """

    name: str
    provider: Provider
    retries: int = 0
    window: int = 0
    answer: int = 0
    on_request_only: bool = False

    @property
    def label(self) -> str:
        return self.name or self.provider.name


@dataclass
class _TurnState:
    """One turn: who is still to be asked, who has failed and why, and what trying again may cost.

    `shortens` when nobody who takes it whole answers, and a shorter request of the same turn is expected; `halved` when
    half of the conversation was asked for because a server did not say why it refused the whole.
    """

    deadline: float
    order: list[ModelLink]
    budget: RetryBudget
    problems: list[tuple[ModelLink, ProviderError]] = field(default_factory=list)
    shortens: bool = False
    halved: bool = False


class Chain:
    """Models in their order, and a fallback. A model that has failed in a turn is not asked again before the next."""

    def __init__(
        self,
        first: ModelLink,
        fallback: Callable[[], FallbackProvider] | None,
        *,
        then: Sequence[ModelLink] = (),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Requests are made for the window of the `first`.

        The `fallback` is made when it is needed; without one the models' errors are raised. `sleep` waits between
        tries, in the seconds that `clock` gives.
        """
        self._first, self._then = first, then
        self._make_fallback = fallback
        self._sleep, self._clock = sleep, clock
        self._reported: set[str] = set()
        self._turn = self._begin_turn(0.0, "")

    @cached_property
    def _fallback(self) -> FallbackProvider | None:
        return self._make_fallback() if self._make_fallback else None

    @property
    def name(self) -> str:
        """The name of whichever answered last."""
        turn = self._turn
        if not turn.order and self._fallback:
            return self._fallback.name
        return (turn.order[0] if turn.order else turn.problems[-1][0]).provider.name

    def close(self) -> None:
        for link in (self._first, *self._then):
            link.provider.close()
        if fallback := self.__dict__.get("_fallback"):
            fallback.close()

    def events(self, request: Request) -> Iterator[Event]:
        turn = self._turn
        # a new message of the user begins a turn, and so does another deadline, except for the final request without tools
        if not (turn.shortens and request.deadline == turn.deadline):
            asked = request.messages[-1].role == "user" and not _is_steering(request.messages)
            if asked or (request.calls and request.deadline != turn.deadline):
                turn = self._turn = self._begin_turn(request.deadline, request.model)
        while turn.order:
            link, begun = turn.order[0], False
            # another model's name is meant for the first link's server, unless it is a link's own
            own = link is self._first and not any(other.name == request.model for other in self._then)
            try:
                attempts = Attempts(link, request if own else request._replace(model=""), turn.budget)
                while True:
                    since = turn.budget.clock()
                    try:
                        for event in guard_events(link.provider.events(attempts.request)):
                            begun = begun or not isinstance(event, Notice)
                            yield event
                        self._reported.discard(link.name)
                        return
                    except (Refused, Unavailable) as error:
                        yield from attempts.renew(error, since, begun=begun)
            except (Unavailable, Refused, Defect) as error:
                if begun or self._may_be_shortened(error, request):
                    raise  # what was said is not said again by another, and a shorter request may be answered
                if error.is_unexplained and not (link.window or turn.halved) and is_long(request):
                    turn.shortens = turn.halved = True
                    raise MaybeTooLong(str(error)) from error
                yield from self._skip_model(error, request)
        if self._fallback is None:
            raise _combine_errors(turn.problems)
        self._fallback.rests = all(isinstance(error, OverBudget) for _, error in turn.problems)
        yield from self._fallback.events(request)

    def _begin_turn(self, deadline: float, wanted: str) -> _TurnState:
        """The links are asked one after another, one that is `wanted` by its name first."""
        chosen = [link for link in self._then if link.name == wanted]
        usual = [link for link in (self._first, *self._then) if not link.on_request_only and link not in chosen]
        return _TurnState(deadline, [*chosen, *usual], RetryBudget(self._sleep, self._clock))

    def _may_be_shortened(self, error: ProviderError, request: Request) -> bool:
        """Tell whether a request overflowed that is made for its model; alone, another may take the turn whole."""
        link, *others = self._turn.order
        if not _is_overflow(link, error):
            return False
        return shorten_request(request) is not None or not any(_fits(other, request) for other in others)

    def _skip_model(self, error: ProviderError, request: Request) -> Iterator[Event]:
        """Go on to the next, and say why: each time when none is left, else once, until that model answers again."""
        turn = self._turn
        link = turn.order.pop(0)
        turn.problems.append((link, error))
        if turn.order:
            if link.name not in self._reported:
                failed = decide_retry(error).action == "owner"
                yield Notice(f"{link.label} was passed over, and {turn.order[0].label} asked: {error}", failed=failed)
            self._reported.add(link.name)
            return
        if own := [problem for problem in turn.problems if _is_overflow(*problem)]:
            turn.order, turn.problems, turn.shortens = [own[0][0]], [], True
            raise own[0][
                1
            ]  # no model whose window is large enough is left: the caller shortens the request for this one
        combined = _combine_errors(turn.problems)
        if self._fallback is None or _is_steering(request.messages):
            raise combined
        # a tool's result can be told without a model; a question only when the matcher knows what to do
        newest = request.messages[-1]
        can = newest.role == "tool" or self._fallback.answers(newest.text)
        failed = not can or any(isinstance(error, Refused) for _, error in turn.problems)
        yield Notice(f"{combined} - answered without a model", failed=failed)


def _fits(link: ModelLink, request: Request) -> bool:
    """Tell whether a request fits another model's window as it is."""
    try:
        return bool(link.window) and fit_window(request, link.window, link.answer).tools == request.tools
    except ContextOverflow:
        return False


def _is_overflow(link: ModelLink, error: ProviderError) -> bool:
    """Tell whether a request was too long for the very model that it is made for."""
    return isinstance(error, ContextOverflow) and not link.window


def _combine_errors(problems: Sequence[tuple[ModelLink, ProviderError]]) -> ProviderError:
    if len(problems) == 1:
        return problems[0][1]
    text = "; ".join(f"{link.label}: {error}" for link, error in problems)
    return Refused(text) if all(isinstance(error, Refused) for _, error in problems) else Unavailable(text)


def _is_steering(messages: Sequence[Message]) -> bool:
    """Tell whether the newest words were said while tools ran: they steer what was begun, and are no new request."""
    before = next((message for message in reversed(messages) if message.role != "user"), None)
    return messages[-1].role == "user" and before is not None and before.role == "tool"


def build_links(
    config: Config,
    open_ledger: "Callable[[], UsageLedger] | None" = None,
    zone: Callable[[], tzinfo | None] = lambda: None,
) -> tuple[ModelLink, ...]:
    """The models of a home: the first, those that follow it, and those that are asked only where they are chosen."""

    def make(model: ModelConfig, key: str, name: str) -> ModelProvider:
        return ModelProvider(model, key, table=name, home=config.home, open_ledger=open_ledger, zone=zone)

    own = config.agents[config.agent].model if config.agent else ""  # an agent's own model is the first
    links = [ModelLink("", make(config.model, config.api_key, own), config.model.retries)]
    for name in dict.fromkeys((*config.model.then, *(name for name in config.models if name != own))):
        model, on_request_only = config.models[name], name not in config.model.then
        provider = make(model, config.model_keys.get(name, ""), name)
        links.append(
            ModelLink(name, provider, model.retries, model.context_tokens, model.answer_tokens, on_request_only)
        )
    return tuple(links)


def describe_links(links: Iterable[ModelLink]) -> list[dict[str, Any]]:
    """Tell how it stands with each model, as data."""
    return [
        {
            "name": link.name,
            "model": link.provider.model.name or "default",
            "url": link.provider.model.shown_url,
            "chosen": not link.on_request_only,
        }
        | asdict(link.provider.state)
        for link in links
        if isinstance(link.provider, ModelProvider)
    ]
