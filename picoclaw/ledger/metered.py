"""A model's server, whose requests are entered in the accounts before they are made and corrected afterwards."""

import time
from collections.abc import Callable, Iterator

from picoclaw.errors import ProviderError, Refused
from picoclaw.ledger.book import Book, Line
from picoclaw.measure import request_bytes
from picoclaw.messages import End, Event, Request, Text, ToolCall, Usage
from picoclaw.prompt import estimated_tokens, size
from picoclaw.providers import Provider

ACCEPTED_S = 15.0
"""A connection is made or refused within ten: a server that was silent for longer has the request."""

_BY_THEMSELVES = frozenset({"dream", "review", "summary", "summon"})
"""Causes whose requests are part of no turn that is kept: their corrections are kept at once."""


class Metered:
    """A model's server whose requests are entered before they are made."""

    def __init__(
        self, provider: Provider, book: Callable[[], Book], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """The `book` is opened with a request; `clock` gives seconds."""
        self._provider, self._open, self._clock = provider, book, clock
        self._usual = provider.name

    @property
    def name(self) -> str:
        """See Provider.name."""
        return self._provider.name

    def close(self) -> None:
        """See Provider.close."""
        self._provider.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events; raises OverBudget as well, without having asked."""
        book = self._open()
        guess = estimated_tokens(request_bytes(request.system, request.messages, request.tools))
        line = book.begin(request.purpose, self._model(request), guess, request.answer_tokens)
        heard, begun = _Heard(), self._clock()
        took = Usage(guess)
        try:
            for event in self._provider.events(request):
                heard.take(event)
                yield event
        except ProviderError as error:
            idle = isinstance(error, Refused) or self._clock() - begun < ACCEPTED_S
            took = Usage() if idle and not heard.bytes else took
            raise
        finally:
            _enter(book, line, heard, took)
            if request.purpose.cause in _BY_THEMSELVES:
                book.settle()

    def _model(self, request: Request) -> str:
        return f"{self._usual.partition(':')[0]}:{request.model}" if request.model else self._usual


def _enter(book: Book, line: Line, heard: "_Heard", took: Usage) -> None:
    """Correct the entry by the server's count, or by what was heard of the answer."""
    if heard.usage is not None and heard.usage.counted:
        book.end(line, heard.usage.prompt_tokens, heard.usage.completion_tokens, known=True)
    else:
        book.end(line, took.prompt_tokens, estimated_tokens(heard.bytes), known=not took.prompt_tokens)


class _Heard:
    """How much of an answer was heard, and how the server counted it, if it did."""

    def __init__(self) -> None:
        self.bytes = 0
        self.usage: Usage | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Text):
            self.bytes += size(event.text)
        elif isinstance(event, ToolCall):
            self.bytes += size(event.name) + size(event.arguments)
        elif isinstance(event, End):
            self.usage = event.usage
