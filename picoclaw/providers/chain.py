"""Tries the configured model a few times and, when it stays unreachable, lets the built-in matcher answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from picoclaw.errors import ContextOverflow, Refused, Unavailable
from picoclaw.messages import Event, Message, Notice, Request
from picoclaw.providers import Fallback, Provider
from picoclaw.providers.outage import KnownDown

_FIRST_WAIT_S, _LONGEST_WAIT_S, _PATIENCE_S = 0.5, 20.0, 10.0


class Chain:
    """One model with a fallback. Once it has fallen back in a turn it stays there until the next."""

    def __init__(
        self,
        model: Provider,
        fallback: Callable[[], Fallback],
        retries: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make the `fallback` when it is first needed.

        `retries` are further tries after the first; `sleep` waits between them, in seconds.
        """
        self._model = model
        self._make_fallback = fallback
        self._retries = retries
        self._sleep = sleep
        self._fallen = False

    @cached_property
    def _fallback(self) -> Fallback:
        return self._make_fallback()

    @property
    def name(self) -> str:
        """The name of whichever answered last."""
        return self._fallback.name if self._fallen else self._model.name

    def close(self) -> None:
        """See Provider.close."""
        self._model.close()
        if "_fallback" in self.__dict__:
            self._fallback.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        if request.messages[-1].role == "user":
            self._fallen = False
        begun = self._fallen
        if not self._fallen:
            try:
                for event in self._tried(request):
                    begun = True
                    yield event
                return
            except ContextOverflow:
                raise  # a shorter request may be answered
            except (Unavailable, Refused) as error:
                if begun or _meanwhile(request.messages):
                    raise
                self._fallen = True
                failed = isinstance(error, Refused) or not self._can(request)
                yield Notice(f"{error} - answered without a model", failed=failed)
        yield from self._fallback.events(request)

    def _can(self, request: Request) -> bool:
        """A tool's result can be told without a model; a question only when the matcher knows what to do."""
        newest = request.messages[-1]
        return newest.role == "tool" or self._fallback.answers(newest.text)

    def _tried(self, request: Request) -> Iterator[Event]:
        """Retry as long as nothing of an answer was passed on; what a person has read is not said again.

        A server that is known to be away, or was silent for long, is not waited for again.
        """
        since = time.monotonic()
        for attempt in range(self._retries + 1):
            begun = False
            try:
                for event in self._model.events(request):
                    begun = True
                    yield event
                return
            except ContextOverflow:
                raise
            except Refused as error:
                if begun or not request.model:
                    raise
                yield Notice(f"the model {request.model!r} did not answer, so the configured one was asked: {error}")
                yield from self._tried(request._replace(model=""))
                return
            except Unavailable as error:
                wait = error.retry_after or _FIRST_WAIT_S * 3**attempt
                known = isinstance(error, KnownDown) and not attempt
                if begun or known or attempt == self._retries or not _worth(wait, since, request.deadline):
                    raise
                (request.stop.rest if request.stop is not None else self._sleep)(wait)


def _meanwhile(messages: Sequence[Message]) -> bool:
    """Tell whether the newest words were said while tools ran: they steer what was begun, and are no new wish."""
    before = next((message for message in reversed(messages) if message.role != "user"), None)
    return messages[-1].role == "user" and before is not None and before.role == "tool"


def _worth(wait: float, since: float, deadline: float) -> bool:
    """Tell whether to try again after `wait` seconds what was begun at `since`."""
    now = time.monotonic()
    return wait <= _LONGEST_WAIT_S and now + wait <= deadline and now - since <= _PATIENCE_S
