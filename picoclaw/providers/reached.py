"""A model's server as a chain reaches it: made when first needed, spared in vain requests, and told of a new key."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from picoclaw.config import Config, ModelConfig, load
from picoclaw.config.changed import Stamp, stamp
from picoclaw.errors import ConfigError, KnownDown, OverBudget, ProviderError, Refused
from picoclaw.messages import Event, Request
from picoclaw.providers import Provider, made
from picoclaw.providers.chain import Link
from picoclaw.providers.outage import Breaker
from picoclaw.providers.verdict import verdict

Make = Callable[[ModelConfig, str], Provider]


class Access(NamedTuple):
    """What is needed to ask a model."""

    model: ModelConfig
    key: str


@dataclass(slots=True)
class State:
    """How it stands with a model.

    `error` is why its newest request failed, '' when it was answered, and `at` when that was, 0 for never; to `mend`
    when nothing but its owner's doing helps. It `rests` when it was not asked last because of a cap.
    """

    error: str = ""
    at: float = 0.0
    mend: bool = False
    rests: bool = False


class Reached:
    """A provider around one that is made when it is needed, and anew when the owner has mended what it was refused."""

    def __init__(
        self,
        access: Access,
        stamp: Callable[[], Stamp] = tuple,
        again: Callable[[], Access | None] = lambda: None,
        make: Make = made,
        name: str = "",
    ) -> None:
        """`stamp` changes with the owner's files, and `again` reads them: None when it is no longer among them.

        `again` may raise ConfigError; `name` is that of its table, '' for [model].
        """
        self._name = name
        self.state = State()
        self._access, self._stamp, self._again, self._make = access, stamp, again, make
        self._seen = stamp()
        self._provider: Provider | None = None
        self._breaker = Breaker()
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
            error.args = (_placed(str(error), self._name),)
            self._note(request.model, error)
            raise
        self._breaker.worked(request.model)
        self.state = State(at=time.time())

    def _note(self, model: str, error: ProviderError) -> None:
        self._breaker.failed(model, error)
        self.state.rests = False
        action = verdict(error).action
        if action in {"compact", "give up"} or (isinstance(error, KnownDown) and self.state.error):
            return  # whoever was not asked has nothing new to say
        self.state = State(str(error), time.time(), action == "owner")
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
        self._access, self._provider, self._breaker = access or self._access, None, Breaker()
        self._refused = False


def links(config: Config, make: Make = made) -> tuple[Link, ...]:
    """The models of a home: the first, those that follow it, and those that are asked only where they are chosen.

    `make` gives what asks a server.
    """
    then = list(dict.fromkeys(config.model.then))
    found = [Link("", _reached(config, "", make), config.model.retries)]
    for name in [*then, *(name for name in config.models if name not in then)]:
        model = config.models[name]
        spare = name not in then
        found.append(
            Link(name, _reached(config, name, make), model.retries, model.context_tokens, model.answer_tokens, spare)
        )
    return tuple(found)


def told(links: Iterable[Link]) -> list[dict[str, Any]]:
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
        if isinstance(link.provider, Reached)
    ]


def access(config: Config, name: str) -> Access | None:
    """How a model is asked, by the name of its table, '' for the first; None when there is none."""
    if not name:
        return Access(config.model, config.api_key) if config.model.base_url else None
    model = config.models.get(name)
    return Access(model, config.model_keys.get(name, "")) if model else None


def _reached(config: Config, name: str, make: Make) -> Reached:
    found = access(config, name)
    given = {**os.environ, "PICOCLAW_HOME": str(config.home)}
    return Reached(
        found or Access(ModelConfig(), ""), partial(stamp, config.home), lambda: access(load(given), name), make, name
    )


def _placed(error: str, name: str) -> str:
    """Name the settings of a further model where an error names those of the first."""
    own = {"check [model] in": f"check [models.{name}] in"}
    own["check PICOCLAW_API_KEY or"] = f"check PICOCLAW_API_KEY_{name.upper()}, or {name} below [keys] in"
    for first, further in own.items() if name else ():
        error = error.replace(first, further)
    return error
