"""Who turns texts into vectors: a table on this board, or a server. And how a vector is kept in few bytes."""

import importlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from picoclaw.config.tables import redact_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable
from picoclaw.memory.embedding_formats import Format, format_of
from picoclaw.security.redaction import StreamMask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.http_client import Client


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.http_client import Client

    Vectors = NDArray[np.float32]

_BATCH = 64  # texts in one request
_LARGEST = 1e18  # number in a vector; its square is far from what a float holds
_PEAK = 127


class Embedder(Protocol):
    """Something that gives texts of like meaning vectors of like direction."""

    seconds: float
    """The longest that one request to a server may take; whoever asks may change it."""

    @property
    def name(self) -> str:
        """Which vectors these are: those of different names cannot be compared."""

    @property
    def dims(self) -> int:
        """How many numbers a vector has; 0 while that is not known."""

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Give a row of unit length for each text, of zeros when nothing in it is known. Raises ProviderError."""


def need_numpy() -> None:
    """Raise ProviderError, with what to try, where numpy is missing or cannot be loaded."""
    try:
        importlib.import_module("numpy")
    except (ImportError, RuntimeError, OSError, ValueError, AttributeError, SyntaxError) as error:
        reason = str(error).strip().partition("\n")[0] or "it is broken"
        raise ProviderError(
            f"numpy cannot be loaded: {reason}; try `pip install --force-reinstall numpy`,"
            " and on Raspberry Pi OS `sudo apt install libopenblas0`"
        ) from None


def quantised(vectors: "Vectors") -> list[tuple[bytes, float]]:
    """Turn each row into signed bytes and what to multiply them by; ranks stay what they were."""
    import numpy as np

    peaks = np.abs(vectors).max(axis=1, initial=0.0) / _PEAK
    whole = np.rint(vectors / np.where(peaks == 0, 1, peaks)[:, None]).astype(np.int8)
    return [(row.tobytes(), float(peak)) for row, peak in zip(whole, peaks, strict=True)]


def unit(rows: "NDArray[Any]") -> "Vectors":
    """Stretch each row to the length 1; one without any length stays as it is."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)


class Remote:
    """A server that embeds, in the format that its address tells. Connects when the first text comes."""

    def __init__(self, base_url: str, model: str, key: str = "", seconds: float = 30.0) -> None:
        """`seconds`: the longest that one request of at most 64 texts may take. Raises ProviderError."""
        need_numpy()
        self.name, self.dims = model, 0
        self._format = format_of(base_url)
        self._url, self._key, self.seconds = f"{base_url}{self._format.path}", key, seconds
        self._mask = StreamMask(key)
        self._client: Client | None = None

    def close(self) -> None:
        """Give the connection back."""
        if self._client:
            self._client.close()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """See Embedder.embed; blank texts are not sent. Raises Unavailable, or Refused when the owner has to act."""
        import numpy as np

        sent = [place for place, text in enumerate(texts) if text.strip()]
        batches = [sent[begin : begin + _BATCH] for begin in range(0, len(sent), _BATCH)]
        parts = [self._asked([texts[place] for place in batch]) for batch in batches]
        out = np.zeros((len(texts), self.dims), np.float32)
        if parts:
            out[sent] = np.concatenate(parts)
        return out

    def _asked(self, texts: list[str]) -> "Vectors":
        """One request, and what it costs at most: some time, one connection."""
        from picoclaw.providers import http

        try:
            if self._client is None:
                self._client = http.client(self._key)
            until = time.monotonic() + self.seconds
            body = self._format.body(self.name, texts)
            with http.posted(self._client, self._url, body, self._mask, wait=self.seconds, deadline=until) as pieces:
                text = self._mask.whole(b"".join(pieces).decode("utf-8", "replace"))
            http.refuse_web_page(text, self._url)
            return self._checked(_read(self._format, http.parsed(text), len(texts)))
        except DeadlinePassed:
            raise Unavailable(f"{redact_url(self._url)} took longer than {self.seconds:.2g} s") from None
        except ProviderError as error:
            error.args = (self._mask.whole(str(error)),)
            raise

    def _checked(self, rows: "Vectors") -> "Vectors":
        if self.dims not in {0, rows.shape[1]}:
            raise Refused(
                f"the embedding server now sends {rows.shape[1]} numbers for a text instead of {self.dims}:"
                f" the model behind {self.name!r} has changed; start picoclaw again to embed with the new one"
            )
        self.dims = int(rows.shape[1])
        return rows


def _read(form: Format, answer: Any, count: int) -> "Vectors":
    """The vectors of an answer in the order of the texts."""
    import numpy as np

    try:
        rows = np.array(form.rows(answer, count), float)
    except (ValueError, TypeError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or not rows.size:
        raise Unavailable(
            "the embedding server sent vectors of unequal length, or something else than lists of numbers"
        )
    if not (np.abs(rows) < _LARGEST).all():
        raise Unavailable("the embedding server sent a vector with NaN, infinity or a number without measure in it")
    return unit(rows)


# Asks an embedder no more than it bears, and no longer than whoever waits does.

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
