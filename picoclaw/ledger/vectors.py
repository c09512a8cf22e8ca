"""A server of vectors, whose requests are entered in the accounts like a model's; they stay estimates."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from picoclaw.errors import ProviderError, Refused
from picoclaw.ledger.book import Book
from picoclaw.ledger.metered import ACCEPTED_S
from picoclaw.messages import Purpose
from picoclaw.prompt import estimated_tokens, size

_PURPOSE = Purpose("memory")


class Embedder(Protocol):
    """What gives texts their vectors: see memory/embedding/embed.py."""

    seconds: float

    @property
    def name(self) -> str:
        """Which vectors these are."""

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Give a row of numbers for each text. Raises ProviderError."""


class MeteredEmbedder:
    """An embedder around one that asks a server."""

    def __init__(
        self, embedder: Embedder, book: Callable[[], Book], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """The `book` is opened with a request; `clock` gives seconds."""
        self._embedder, self._open, self._clock = embedder, book, clock

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._embedder.name

    @property
    def dims(self) -> int:
        """See Embedder."""
        return self._embedder.dims

    @property
    def seconds(self) -> float:
        """See Embedder."""
        return self._embedder.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        """See Embedder."""
        self._embedder.seconds = seconds

    def embed(self, texts: Sequence[str]) -> Any:
        """See Embedder; raises OverBudget as well, without having asked."""
        tokens = estimated_tokens(sum(map(size, texts)))
        if not tokens:
            return self._embedder.embed(texts)
        book = self._open()
        line, begun = book.begin(_PURPOSE, f"vectors:{self.name}", tokens, 0), self._clock()
        try:
            return self._embedder.embed(texts)
        except ProviderError as error:
            if isinstance(error, Refused) or self._clock() - begun < ACCEPTED_S:
                book.end(line, 0, 0, known=True)
            raise
