"""Gives texts vectors: from a table of words on this board, or from an embedding server; keeps a vector in few bytes."""

import importlib
import json
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from picoclaw.config import Config
from picoclaw.config.tables import redact_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable, explain_syntax
from picoclaw.files import explain_os_error
from picoclaw.providers.retry import make_error, read_status
from picoclaw.resources import find_shipped
from picoclaw.security.redaction import StreamMask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.http_client import Client

    Vectors = NDArray[np.float32]


# Servers are asked in the format of OpenAI's /v1/embeddings or of Ollama's /api/embed.
# https://platform.openai.com/docs/api-reference/embeddings, https://docs.ollama.com/api/embed

MAX_EMBEDDED_CHARS = 2000
"""Characters of one text; what is more would not fit a small model's window."""


class EmbeddingFormat(NamedTuple):
    """One way of asking: where, in which words, and how the answer's vectors are put in the order of the texts.

    `rows` gives as many as there are texts, whatever they hold; it raises ProviderError.
    """

    path: str
    body: Callable[[str, Sequence[str]], dict[str, Any]]
    rows: Callable[[Any, int], list[Any]]


def choose_format(base_url: str) -> EmbeddingFormat:
    """Choose by the address, which at Ollama ends in /api, and in /v1 where it speaks the other format as well."""
    return OLLAMA if base_url.endswith("/api") else OPENAI


def _make_openai_body(model: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"model": model, "input": [text[:MAX_EMBEDDED_CHARS] for text in texts]}


def _make_ollama_body(model: str, texts: Sequence[str]) -> dict[str, Any]:
    return _make_openai_body(model, texts) | {"truncate": True}


def _parse_openai_rows(answer: Any, count: int) -> list[Any]:
    """By their `index`; where a server leaves that out, as they came."""
    data = _check_error(answer).get("data")
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise Unavailable("the embedding server sent no list of vectors; is its model one for embeddings?")
    places = {str(entry.get("index", place)): entry.get("embedding") for place, entry in enumerate(data)}
    if len(data) != count or places.keys() != set(map(str, range(count))):
        raise _make_count_error(count, len(data))
    return [places[str(place)] for place in range(count)]


def _parse_ollama_rows(answer: Any, count: int) -> list[Any]:
    rows = _check_error(answer).get("embeddings")
    if not isinstance(rows, list):
        raise Unavailable("the embedding server sent no list of vectors; is embedding_url that of Ollama's /api?")
    if len(rows) != count:
        raise _make_count_error(count, len(rows))
    return rows


def _make_count_error(count: int, found: int) -> Unavailable:
    return Unavailable(f"the embedding server answered {count} texts with {found} vectors, or numbered them wrongly")


def _check_error(answer: Any) -> dict[str, Any]:
    """Raise what an answer says that is an error in spite of its status."""
    if isinstance(answer, dict) and answer.get("error"):
        raise make_error(read_status(answer["error"]), answer)
    return answer if isinstance(answer, dict) else {}


OPENAI = EmbeddingFormat("/embeddings", _make_openai_body, _parse_openai_rows)
OLLAMA = EmbeddingFormat("/embed", _make_ollama_body, _parse_ollama_rows)

# Who turns texts into vectors: a table on this board, or a server. And how a vector is kept in few bytes.


_BATCH_SIZE = 64  # texts in one request
_MAX_NUMBER = 1e18  # number in a vector; its square is far from what a float holds
_INT8_PEAK = 127  # the largest number in every row, on either side of zero: a torn page of a table shows


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


def require_numpy() -> None:
    """Raise ProviderError, with what to try, where numpy is missing or cannot be loaded."""
    try:
        importlib.import_module("numpy")
    except (ImportError, RuntimeError, OSError, ValueError, AttributeError, SyntaxError) as error:
        reason = str(error).strip().partition("\n")[0] or "it is broken"
        raise ProviderError(
            f"numpy cannot be loaded: {reason}; try `pip install --force-reinstall numpy`,"
            " and on Raspberry Pi OS `sudo apt install libopenblas0`"
        ) from None


def quantise(vectors: "Vectors") -> list[bytes]:
    """Turn each row into signed bytes; its direction, which is what is compared, stays what it was."""
    import numpy as np

    peaks = np.abs(vectors).max(axis=1, initial=0.0) / _INT8_PEAK
    whole = np.rint(vectors / np.where(peaks == 0, 1, peaks)[:, None]).astype(np.int8)
    return [row.tobytes() for row in whole]


def normalise(rows: "NDArray[Any]") -> "Vectors":
    """Stretch each row to the length 1; one without any length stays as it is."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)


class RemoteEmbedder:
    """A server that embeds, in the format that its address tells. Connects when the first text comes."""

    def __init__(self, base_url: str, model: str, key: str = "", seconds: float = 30.0) -> None:
        """`seconds`: the longest that one request of at most 64 texts may take. Raises ProviderError."""
        require_numpy()
        self.name, self.dims = model, 0
        self._format = choose_format(base_url)
        self._url, self._key, self.seconds = f"{base_url}{self._format.path}", key, seconds
        self._mask = StreamMask(key)
        self._client: Client | None = None
        self.record: Callable[[Sequence[str], str], AbstractContextManager[None]] = lambda *_: nullcontext()

    def close(self) -> None:
        """Give the connection back."""
        if self._client:
            self._client.close()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """See Embedder.embed; blank texts are not sent. Raises Unavailable, or Refused when the owner has to act."""
        import numpy as np

        sent = [place for place, text in enumerate(texts) if text.strip()]
        batches = [sent[begin : begin + _BATCH_SIZE] for begin in range(0, len(sent), _BATCH_SIZE)]
        with self.record(texts, self.name):  # the owner's ledger, which may refuse it
            parts = [self._request([texts[place] for place in batch]) for batch in batches]
        out = np.zeros((len(texts), self.dims), np.float32)
        if parts:
            out[sent] = np.concatenate(parts)
        return out

    def _request(self, texts: list[str]) -> "Vectors":
        """One request, and what it costs at most: some time, one connection."""
        from picoclaw.providers import http

        try:
            if self._client is None:
                self._client = http.make_client(self._key)
            until = time.monotonic() + self.seconds
            body = self._format.body(self.name, texts)
            with http.open_stream(
                self._client, self._url, body, self._mask, wait=self.seconds, deadline=until
            ) as pieces:
                text = self._mask.whole(b"".join(pieces).decode("utf-8", "replace"))
            http.refuse_web_page(text, self._url)
            return self._check_length(_read_vectors(self._format, http.parse_answer_json(text), len(texts)))
        except DeadlinePassed:
            raise Unavailable(f"{redact_url(self._url)} took longer than {self.seconds:.2g} s") from None
        except ProviderError as error:
            error.args = (self._mask.whole(str(error)),)
            raise

    def _check_length(self, rows: "Vectors") -> "Vectors":
        if self.dims not in {0, rows.shape[1]}:
            raise Refused(
                f"the embedding server now sends {rows.shape[1]} numbers for a text instead of {self.dims}:"
                f" the model behind {self.name!r} has changed; start picoclaw again to embed with the new one"
            )
        self.dims = int(rows.shape[1])
        return rows


def _read_vectors(form: EmbeddingFormat, answer: Any, count: int) -> "Vectors":
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
    if not (np.abs(rows) < _MAX_NUMBER).all():
        raise Unavailable("the embedding server sent a vector with NaN, infinity or a number without measure in it")
    return normalise(rows)


# Asks an embedder no more than it bears, and no longer than whoever waits does.

_PAUSE_AFTER_ERROR_S = 60.0
"""How long an embedder that has failed is not asked again."""

_MAX_REQUEST_S = 30.0
"""What one request may take when nobody waits."""

_MAX_BATCH_SIZE, _SLOW_S = 64, 0.5


class RateLimitedEmbedder:
    """An embedder that is left alone for a while after it has failed, and asked for less when it is slow."""

    def __init__(self, embedder: Embedder) -> None:
        """Take the embedder; asks it nothing yet."""
        self._embedder = embedder
        self._until = 0.0
        self._deadline = float("inf")
        self.problem = ""
        self.batch_size = 8
        self.seconds = _MAX_REQUEST_S
        self.last_seconds: float | None = None

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._embedder.name

    @property
    def dims(self) -> int:
        """See Embedder."""
        return self._embedder.dims

    @contextmanager
    def limit_time(self, seconds: float) -> Iterator[None]:
        """All that is asked meanwhile takes no longer than this together."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = float("inf")

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """See Embedder. `last_seconds` is what the last request has taken. Raises ProviderError."""
        began = time.monotonic()
        if began < self._until:
            raise Unavailable(self.problem)
        if began >= self._deadline:
            raise Unavailable(f"{self.name} is too slow for a search")
        self._embedder.seconds = min(self.seconds, self._deadline - began)
        try:
            rows = self._embedder.embed(texts)
        except ProviderError as error:
            self.problem, self._until = str(error), time.monotonic() + _PAUSE_AFTER_ERROR_S
            self.batch_size = max(1, self.batch_size // 2)
            raise
        finally:
            self.last_seconds = time.monotonic() - began
        if self.last_seconds > _SLOW_S:
            self.batch_size = max(1, min(self.batch_size, len(texts)) // 2)
        elif len(texts) >= self.batch_size:
            self.batch_size = min(_MAX_BATCH_SIZE, self.batch_size * 2)
        self.problem = ""
        return rows


# Cuts a text into the pieces of BERT's uncased vocabulary, as its reference implementation does.


_MAX_WORD = 100  # characters; a longer one is unknown as a whole
_MAX_CHARACTERS = 10_000  # how many of Unicode's are remembered
_DROPPED_CATEGORIES = frozenset(("Cc", "Cf", "Co", "Cs", "Mn"))  # control characters, private ones, accents
_IDEOGRAPHS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class _CharacterMap(dict[int, str]):
    """What becomes of each character, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        made = _map_character(chr(code))
        if len(self) < _MAX_CHARACTERS:
            self[code] = made
        return made


def _map_character(character: str) -> str:
    """A blank, nothing, a word of its own, or a small letter."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category.startswith("Z"):
        return " "
    if character == "\ufffd" or category in _DROPPED_CATEGORIES:
        return ""
    sign = category.startswith("P") or (character.isascii() and not character.isalnum())
    if sign or any(ord(character) in block for block in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()


class WordPieceTokenizer:
    """A vocabulary, ready to cut."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary`: the pieces in the order of their numbers; `##` begins those that go on with a word."""
        self._numbers = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._characters = _CharacterMap()

    def tokens(self, text: str) -> list[int]:
        """Number the pieces of a text; a word that cannot be made of pieces is left out."""
        return list(chain.from_iterable(pieces for _, pieces in self.words(text)))

    def words(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Give each word of a text, in small letters without accents, and the numbers of its pieces."""
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        for word in text.translate(self._characters).split():
            number = self._numbers.get(word)
            yield word, self._pieces(word) if number is None else [number]

    def _pieces(self, word: str) -> list[int]:
        """Take the longest piece that fits, again and again; nothing when the word is not used up."""
        out: list[int] = []
        start = 0
        if len(word) > _MAX_WORD:
            return out
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), 0)
            if not end:
                return []
            out.append(self._numbers[mark + word[start:end]])
            start = end
        return out


# Vectors without a model: a text's is the mean of the rows that a shipped table has for its pieces of words.

_TABLE, _VOCABULARY, _ROWS, _SCALES = "table.json", "vocabulary.txt", "rows.int8", "scales.f32"


class StaticEmbedder:
    """A table made by tools/embeddings/distil.py. Of its rows, those that a text needs are read from the disk."""

    seconds = 0.0  # nobody is waited for

    def __init__(self, folder: Path) -> None:
        """Raises ProviderError when the table is missing or damaged, or numpy is."""
        require_numpy()
        import numpy as np

        self._folder = folder
        try:
            about = json.loads((folder / _TABLE).read_bytes())
            vocabulary = self._read_checked(_VOCABULARY, about).decode().split("\n")[:-1]
            self.name, self.dims = str(about["name"]), int(about["dims"])
            self._scales = np.frombuffer(self._read_checked(_SCALES, about), "<f4").reshape(len(vocabulary))
            self._rows = _map_rows(folder / _ROWS, len(vocabulary), self.dims)
        except OSError as error:
            raise self._table_error(f"{Path(error.filename or folder).name}: {explain_os_error(error)}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._table_error(f"they are damaged ({explain_syntax(error)})") from None
        self.pieces = WordPieceTokenizer(vocabulary)

    def embed(self, texts: Sequence[str], weights: Callable[[int], float] | None = None) -> "Vectors":
        """See Embedder.embed; `weights` says how much more or less a piece, by its number, counts than usual."""
        import numpy as np

        out = np.zeros((len(texts), self.dims), np.float32)
        for place, text in enumerate(texts):
            numbers = self.pieces.tokens(text)
            if not numbers:
                continue
            rows = self._rows[numbers]
            if (np.abs(rows).max(axis=1) != _INT8_PEAK).any():
                raise self._table_error(f"{_ROWS} is damaged")
            shares = self._scales[numbers]
            if weights:
                shares = shares * np.array([weights(number) for number in numbers], np.float32)
            out[place] = shares @ rows
        return normalise(out)

    def _read_checked(self, name: str, about: Any) -> bytes:
        """Read a file whole, and see that it is the one that the table was made with."""
        import hashlib

        data = (self._folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != about["files"][name]:
            raise ValueError(f"{name} is not what it was made as")
        return data

    def _table_error(self, why: str) -> ProviderError:
        return ProviderError(
            f"the word vectors in {self._folder} cannot be used: {why}; install picoclaw again to have them back"
        )


def _map_rows(path: Path, count: int, dims: int) -> "NDArray[np.int8]":
    """A file's bytes as rows, none of them read yet."""
    import numpy as np

    found = np.memmap(path, np.int8, "r")
    if found.size != count * dims:
        raise ValueError(f"{path.name} has {found.size} bytes")
    return found.reshape(count, dims)


# Chooses, by the settings, who gives notes their vectors; whatever is wrong with that, words alone find them.

_TRIAL_TEXT = "the boiler's pressure"


class EmbedderChoice(NamedTuple):
    """Who it is; nobody where that was chosen, or where the problem says why not."""

    embedder: Embedder | None
    problem: str = ""


def choose_embedder(config: Config) -> EmbedderChoice:
    """Make the embedder that [memory] asks for. Imports numpy; connects to nothing yet."""
    memory = config.memory
    if memory.embeddings == "off":
        return EmbedderChoice(None)
    try:
        if memory.embeddings == "local":
            return EmbedderChoice(StaticEmbedder(find_shipped("templates") / "embeddings"))
        if missing := _find_missing_setting(config):
            return EmbedderChoice(None, f'embeddings = "server" needs {missing} under [memory] in config.toml')
        return EmbedderChoice(
            RemoteEmbedder(memory.embedding_url or config.model.base_url, memory.embedding_model, config.embedding_key)
        )
    except ProviderError as error:
        return EmbedderChoice(None, str(error))


def _find_missing_setting(config: Config) -> str:
    if not config.memory.embedding_model:
        return "embedding_model, the model's name at that server,"
    embeds = config.model.base_url and config.model.api != "anthropic"  # which has no such thing
    return "" if config.memory.embedding_url or embeds else "embedding_url, the server's address,"


def try_embedder(config: Config) -> str:
    """Embed a few words; says who did it. Raises ProviderError."""
    embedder, problem = choose_embedder(config)
    if problem:
        raise ProviderError(problem)
    if embedder is None:
        return "off: words alone find notes"
    embedder.embed([_TRIAL_TEXT])
    return f"{embedder.name}, {embedder.dims} numbers a text"
