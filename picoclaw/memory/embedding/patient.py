"""Asks an embedder no more than it bears, and no longer than whoever waits does."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from picoclaw.errors import ProviderError, Unavailable
from picoclaw.memory.embedding.embed import Embedder

if TYPE_CHECKING:
    from picoclaw.memory.embedding.embed import Vectors

_REST_S = 60.0
"""How long an embedder that has failed is not asked again."""

_LONGEST_S = 30.0
"""What one request may take when nobody waits."""

_MOST_AT_ONCE, _SLOW_S = 64, 0.5


class Patient:
    """An embedder that is left alone for a while after it has failed, and asked for less when it is slow."""

    def __init__(self, embedder: Embedder) -> None:
        """Take the embedder; asks it nothing yet."""
        self._embedder = embedder
        self._until = 0.0
        self._deadline = float("inf")
        self.problem = ""
        self.at_once = 8
        self.seconds = _LONGEST_S
        self.took: float | None = None

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._embedder.name

    @property
    def dims(self) -> int:
        """See Embedder."""
        return self._embedder.dims

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """All that is asked meanwhile takes no longer than this together."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = float("inf")

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """See Embedder. `took` is what the last request has taken. Raises ProviderError."""
        began = time.monotonic()
        if began < self._until:
            raise Unavailable(self.problem)
        if began >= self._deadline:
            raise Unavailable(f"{self.name} is too slow for a search")
        self._embedder.seconds = min(self.seconds, self._deadline - began)
        try:
            rows = self._embedder.embed(texts)
        except ProviderError as error:
            self.problem, self._until = str(error), time.monotonic() + _REST_S
            self.at_once = max(1, self.at_once // 2)
            raise
        finally:
            self.took = time.monotonic() - began
        if self.took > _SLOW_S:
            self.at_once = max(1, min(self.at_once, len(texts)) // 2)
        elif len(texts) >= self.at_once:
            self.at_once = min(_MOST_AT_ONCE, self.at_once * 2)
        self.problem = ""
        return rows
