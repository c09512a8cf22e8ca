"""Asks the models of a chain one after another, and at last the built-in matcher."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any

from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import ContextOverflow, MaybeTooLong, OverBudget, ProviderError, Refused, Unavailable
from picoclaw.messages import Event, Message, Notice, Request
from picoclaw.providers import FallbackProvider, Provider
from picoclaw.providers.model import ModelProvider
from picoclaw.providers.retry import RetryBudget, ask_with_retries, decide_retry
from picoclaw.providers.sanitize import fit_window, is_long, shorten_request
from picoclaw.records import NamedTuple, asdict, dataclass, field

if TYPE_CHECKING:
    from picoclaw.providers.ledger import UsageLedger


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
                for event in ask_with_retries(link, request if own else request._replace(model=""), turn.budget):
                    begun = begun or not isinstance(event, Notice)
                    yield event
                self._reported.discard(link.name)
                return
            except (Unavailable, Refused) as error:
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
