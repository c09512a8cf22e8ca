"""Asks the models of a chain one after another, each a few times, and at last the built-in matcher."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from picoclaw.config import Config, load_config
from picoclaw.config.files import FilesStamp, read_stamp
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import (
    CircuitOpen,
    ConfigError,
    ContextOverflow,
    KeyRefused,
    KnownDown,
    MaybeTooLong,
    NoCredit,
    OverBudget,
    ProviderError,
    Refused,
    Unavailable,
)
from picoclaw.messages import Event, Message, Notice, Request
from picoclaw.providers import FallbackProvider, Provider, make_provider
from picoclaw.providers.retry import CircuitBreaker, decide_retry
from picoclaw.providers.sanitize import fit_window, is_long, shorten_request

MAX_RETRIES = 4
"""Further tries in one turn, of all its requests at all models together."""

MAX_RETRY_S = 90.0
"""Seconds of one turn that requests which failed and the waits after them may take before none is repeated."""

_MAX_FAILED_REQUEST_S = 10.0


class ModelLink(NamedTuple):
    """One model of a chain, by the name of its table.

    With a `window` of 0 tokens requests are made for it, else each is shortened to it, and its answers to `answer`.
    `spare` when it is asked only where it is chosen.
    """

    name: str
    provider: Provider
    retries: int = 0
    window: int = 0
    answer: int = 0
    spare: bool = False


@dataclass(slots=True)
class _TurnState:
    """One turn: who is still to be asked, who has failed and why, and what trying has cost.

    `shortens` when nobody takes it whole who answers, and a shorter request of the same turn is expected; `halved` when
    half of the conversation was asked for because a server did not say why it refused the whole.
    """

    deadline: float
    order: list[ModelLink]
    problems: list[tuple[ModelLink, ProviderError]] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0
    shortens: bool = False
    halved: bool = False


class Chain:
    """Models in their order, and a fallback. Whoever has failed in a turn is not asked again before the next."""

    def __init__(
        self,
        model: Provider,
        fallback: Callable[[], FallbackProvider] | None,
        retries: int,
        sleep: Callable[[float], None] = time.sleep,
        then: Sequence[ModelLink] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`model` is the first, for whose window requests are made, with `retries` after the first try.

        The `fallback` is made when it is needed; without one the models' errors are raised. `sleep` waits between
        tries, in the seconds that `clock` gives.
        """
        self._first = ModelLink("", model, retries)
        self._then = then
        self._make_fallback = fallback
        self._sleep, self._clock = sleep, clock
        self._told: set[str] = set()
        self._turn = _TurnState(0.0, self._order(""))

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
        """See Provider.close."""
        for link in (self._first, *self._then):
            link.provider.close()
        if self.__dict__.get("_fallback"):
            self.__dict__["_fallback"].close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        self._look_for_a_new_turn(request)
        turn = self._turn
        while turn.order:
            link, begun = turn.order[0], False
            try:
                for event in self._tried(link, self._for(link, request)):
                    begun = begun or not isinstance(event, Notice)
                    yield event
                self._told.discard(link.name)
                return
            except (Unavailable, Refused) as error:
                if begun or self._is_to_be_shortened(error, request):
                    raise  # what was said is not said again by another, and a shorter request may be answered
                if error.is_unexplained and not (link.window or turn.halved) and is_long(request):
                    turn.shortens = turn.halved = True
                    raise MaybeTooLong(str(error)) from error
                yield from self._passed_over(error, request)
        if self._fallback is None:
            raise _combine_errors(turn.problems)
        self._fallback.rests = _is_resting(turn.problems)
        yield from self._fallback.events(request)

    def _is_to_be_shortened(self, error: ProviderError, request: Request) -> bool:
        """Tell whether a request overflowed that is made for its model; alone, another may take the turn whole."""
        link, *others = self._turn.order
        if not _is_overflow(link, error):
            return False
        return shorten_request(request) is not None or not any(_fits(other, request) for other in others)

    def _look_for_a_new_turn(self, request: Request) -> None:
        """A person's word begins one, and so does another time limit, except that of a turn's last word."""
        if self._turn.shortens and request.deadline == self._turn.deadline:
            return
        asked = request.messages[-1].role == "user" and not _is_steering(request.messages)
        if asked or (request.calls and request.deadline != self._turn.deadline):
            self._turn = _TurnState(request.deadline, self._order(request.model))

    def _order(self, wanted: str) -> list[ModelLink]:
        """Whom to ask, one after another: a link that is wanted by its name first."""
        links = (self._first, *self._then)
        chosen = [link for link in self._then if link.name == wanted]
        return [*chosen, *(link for link in links if not link.spare and link not in chosen)]

    def _for(self, link: ModelLink, request: Request) -> Request:
        """Another model's name is meant for the first link's server, unless it is a link's own."""
        own = link is self._first and not any(other.name == request.model for other in self._then)
        return request if own else request._replace(model="")

    def _passed_over(self, error: ProviderError, request: Request) -> Iterator[Event]:
        """Go on to the next, and say why: each time when none is left, else once, until that model answers again."""
        turn = self._turn
        link = turn.order.pop(0)
        turn.problems.append((link, error))
        if turn.order:
            if link.name not in self._told:
                instead, failed = _format_label(turn.order[0]), decide_retry(error).action == "owner"
                yield Notice(f"{_format_label(link)} was passed over, and {instead} asked: {error}", failed=failed)
            self._told.add(link.name)
            return
        if own := [problem for problem in turn.problems if _is_overflow(*problem)]:
            turn.order, turn.problems, turn.shortens = [own[0][0]], [], True
            raise own[0][1]  # whoever takes it whole does not answer, and a shorter request may be answered
        whole = _combine_errors(turn.problems)
        if self._fallback is None or _is_steering(request.messages):
            turn.order = []
            raise whole
        failed = any(isinstance(error, Refused) for _, error in turn.problems) or not self._can(request)
        yield Notice(f"{whole} - answered without a model", failed=failed)

    def _can(self, request: Request) -> bool:
        """A tool's result can be told without a model; a question only when the matcher knows what to do."""
        newest = request.messages[-1]
        return newest.role == "tool" or (self._fallback is not None and self._fallback.answers(newest.text))

    def _tried(self, link: ModelLink, request: Request) -> Iterator[Event]:
        """Ask one model, again while that is worth it and nothing of an answer was passed on."""
        request = fit_window(request, link.window, link.answer) if link.window else request
        began, attempt, halved = self._clock(), 0, not link.window
        while True:
            since, begun = self._clock(), False
            try:
                for event in link.provider.events(request):
                    begun = begun or not isinstance(event, Notice)
                    yield event
                return
            except (Refused, CircuitOpen) as error:
                less = _shorten_for(link, request, error)
                if not begun and not less and error.is_unexplained and not halved:
                    halved, less = True, _halve(request)
                if begun or not less:
                    raise
                if less.model != request.model:
                    yield Notice(f"the model {request.model!r} did not answer, so the usual one was asked: {error}")
                request = less
            except Unavailable as error:
                self._turn.failures += 1
                self._turn.seconds += self._clock() - since
                if not begun and self._waited(error, link, attempt, began, request):
                    attempt += 1
                elif not begun and error.is_unexplained and not halved and (less := _halve(request)):
                    halved, request = True, less
                else:
                    raise

    def _waited(self, error: Unavailable, link: ModelLink, attempt: int, began: float, request: Request) -> bool:
        """Wait, if it is worth it to ask again after the error of so many further tries since `began`.

        A server that was silent for long is not waited for again.
        """
        turn, now = self._turn, self._clock()
        action, wait = decide_retry(error, attempt)
        left = attempt < link.retries and turn.failures <= MAX_RETRIES and turn.seconds + wait <= MAX_RETRY_S
        worth = now + wait <= request.deadline and now - began <= _MAX_FAILED_REQUEST_S
        if action != "retry" or not left or not worth:
            return False
        turn.seconds += wait
        (request.stop.rest if request.stop is not None else self._sleep)(wait)
        return True


def _shorten_for(link: ModelLink, request: Request, error: ProviderError) -> Request | None:
    """What a server may be asked that has refused a request; None for nothing."""
    if isinstance(error, ContextOverflow):
        return shorten_request(request) if link.window else None
    same_key = isinstance(error, KeyRefused | NoCredit)
    return request._replace(model="") if request.model and not same_key else None


def _halve(request: Request) -> Request | None:
    """Leave out half of a long conversation; None where it is too short for that to be what a server refused."""
    return shorten_request(request) if is_long(request) else None


def _fits(link: ModelLink, request: Request) -> bool:
    """Tell whether a request fits another model's window as it is."""
    try:
        return bool(link.window) and fit_window(request, link.window, link.answer).tools == request.tools
    except ContextOverflow:
        return False


def _is_overflow(link: ModelLink, error: ProviderError) -> bool:
    """Tell whether a request was too long for the very model that it is made for."""
    return isinstance(error, ContextOverflow) and not link.window


def _is_resting(problems: Sequence[tuple[ModelLink, ProviderError]]) -> bool:
    """Tell whether nothing but the owner's cap is why no model was asked."""
    return all(isinstance(error, OverBudget) for _, error in problems)


def _format_label(link: ModelLink) -> str:
    return link.name or link.provider.name


def _combine_errors(problems: Sequence[tuple[ModelLink, ProviderError]]) -> ProviderError:
    """One error for those of all models."""
    if len(problems) == 1:
        return problems[0][1]
    text = "; ".join(f"{_format_label(link)}: {error}" for link, error in problems)
    return Refused(text) if all(isinstance(error, Refused) for _, error in problems) else Unavailable(text)


def _is_steering(messages: Sequence[Message]) -> bool:
    """Tell whether the newest words were said while tools ran: they steer what was begun, and are no new wish."""
    before = next((message for message in reversed(messages) if message.role != "user"), None)
    return messages[-1].role == "user" and before is not None and before.role == "tool"


# A model's server as a chain reaches it: made when first needed, spared in vain requests, and told of a new key.

MakeProvider = Callable[[ModelConfig, str], Provider]


class ModelAccess(NamedTuple):
    """What is needed to ask a model."""

    model: ModelConfig
    key: str


@dataclass(slots=True)
class ModelState:
    """How it stands with a model.

    `error` is why its newest request failed, '' when it was answered, and `at` when that was, 0 for never; to `mend`
    when nothing but its owner's doing helps. It `rests` when it was not asked last because of a cap.
    """

    error: str = ""
    at: float = 0.0
    mend: bool = False
    rests: bool = False


class ConfiguredProvider:
    """A provider around one that is made when it is needed, and anew when the owner has mended what it was refused."""

    def __init__(
        self,
        access: ModelAccess,
        stamp: Callable[[], FilesStamp] = tuple,
        again: Callable[[], ModelAccess | None] = lambda: None,
        make: MakeProvider = make_provider,
        name: str = "",
    ) -> None:
        """`stamp` changes with the owner's files, and `again` reads them: None when it is no longer among them.

        `again` may raise ConfigError; `name` is that of its table, '' for [model].
        """
        self._name = name
        self.state = ModelState()
        self._access, self._stamp, self._again, self._make = access, stamp, again, make
        self._seen = stamp()
        self._provider: Provider | None = None
        self._breaker = CircuitBreaker()
        self._refused = False

    @property
    def name(self) -> str:
        """See Provider.name."""
        model = self._access.model
        return self._provider.name if self._provider else f"{model.api}:{model.name or 'default'}"

    @property
    def model(self) -> ModelConfig:
        """How it is asked."""
        return self._access.model

    def close(self) -> None:
        """See Provider.close."""
        if self._provider:
            self._provider.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events. Raises NotAsked as well, while asking is no use."""
        try:
            self._renew()
            self._breaker.heed(request.model)
            self._provider = self._provider or self._make(*self._access)
            yield from self._provider.events(request)
        except OverBudget:
            self.state.rests = True  # which says nothing about the server
            raise
        except ProviderError as error:
            error.args = (_locate_error(str(error), self._name),)
            self._note(request.model, error)
            raise
        self._breaker.worked(request.model)
        self.state = ModelState(at=time.time())

    def _note(self, model: str, error: ProviderError) -> None:
        self._breaker.failed(model, error)
        self.state.rests = False
        action = decide_retry(error).action
        if action in {"compact", "give up"} or (isinstance(error, KnownDown) and self.state.error):
            return  # whoever was not asked has nothing new to say
        self.state = ModelState(str(error), time.time(), action == "owner")
        self._refused = self._refused or isinstance(error, Refused)

    def _renew(self) -> None:
        """After a refusal, begin anew once the owner's files have changed. Raises Refused when they are wrong."""
        if not self._refused or (seen := self._stamp()) == self._seen:
            return
        self._seen = seen
        try:
            access = self._again()
        except ConfigError as error:
            raise Refused(str(error)) from None
        self.close()
        self._access, self._provider, self._breaker = access or self._access, None, CircuitBreaker()
        self._refused = False


def build_links(config: Config, make: MakeProvider = make_provider) -> tuple[ModelLink, ...]:
    """The models of a home: the first, those that follow it, and those that are asked only where they are chosen.

    `make` gives what asks a server.
    """
    then = list(dict.fromkeys(config.model.then))
    found = [ModelLink("", _build_provider(config, "", make), config.model.retries)]
    for name in [*then, *(name for name in config.models if name not in then)]:
        model = config.models[name]
        spare = name not in then
        found.append(
            ModelLink(
                name,
                _build_provider(config, name, make),
                model.retries,
                model.context_tokens,
                model.answer_tokens,
                spare,
            )
        )
    return tuple(found)


def describe_links(links: Iterable[ModelLink]) -> list[dict[str, Any]]:
    """Tell how it stands with each model, as data."""
    return [
        {
            "name": link.name,
            "model": link.provider.model.name or "default",
            "url": link.provider.model.shown_url,
            "chosen": not link.spare,
        }
        | asdict(link.provider.state)
        for link in links
        if isinstance(link.provider, ConfiguredProvider)
    ]


def read_access(config: Config, name: str) -> ModelAccess | None:
    """How a model is asked, by the name of its table, '' for the first; None when there is none."""
    if not name:
        return ModelAccess(config.model, config.api_key) if config.model.base_url else None
    model = config.models.get(name)
    return ModelAccess(model, config.model_keys.get(name, "")) if model else None


def _build_provider(config: Config, name: str, make: MakeProvider) -> ConfiguredProvider:
    found = read_access(config, name)
    given = {**os.environ, "PICOCLAW_HOME": str(config.home)}
    return ConfiguredProvider(
        found or ModelAccess(ModelConfig(), ""),
        partial(read_stamp, config.home),
        lambda: read_access(load_config(given), name),
        make,
        name,
    )


def _locate_error(error: str, name: str) -> str:
    """Name the settings of a further model where an error names those of the first."""
    own = {"check [model] in": f"check [models.{name}] in"}
    own["check PICOCLAW_API_KEY or"] = f"check PICOCLAW_API_KEY_{name.upper()}, or {name} below [keys] in"
    for first, further in own.items() if name else ():
        error = error.replace(first, further)
    return error
