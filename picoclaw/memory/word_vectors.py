"""Cuts a text into the pieces of BERT's uncased vocabulary, as its reference implementation does."""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.errors import ProviderError, explain_syntax
from picoclaw.files import explain_os_error
from picoclaw.memory.embedding import need_numpy, unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding import Vectors


_LONGEST_WORD = 100  # characters; a longer one is unknown as a whole
_MOST_CHARACTERS = 10_000  # how many of Unicode's are remembered
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Mn"))  # control characters, private ones, accents
_IDEOGRAPHS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class _Characters(dict[int, str]):
    """What becomes of each character, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        made = _made_of(chr(code))
        if len(self) < _MOST_CHARACTERS:
            self[code] = made
        return made


def _made_of(character: str) -> str:
    """A blank, nothing, a word of its own, or a small letter."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category.startswith("Z"):
        return " "
    if character == "\ufffd" or category in _UNSEEN:
        return ""
    sign = category.startswith("P") or (character.isascii() and not character.isalnum())
    if sign or any(ord(character) in block for block in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()


class WordPiece:
    """A vocabulary, ready to cut."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary`: the pieces in the order of their numbers; `##` begins those that go on with a word."""
        self._numbers = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._characters = _Characters()

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
        if len(word) > _LONGEST_WORD:
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
_PEAK = 127  # the largest number of every row, on whichever side of zero: a torn page shows


class StaticTable:
    """A table made by tools/embeddings/distil.py. Of its rows, those that a text needs are read from the disk."""

    seconds = 0.0  # nobody is waited for

    def __init__(self, folder: Path) -> None:
        """Raises ProviderError when the table is missing or damaged, or numpy is."""
        need_numpy()
        import numpy as np

        self._folder = folder
        try:
            about = json.loads((folder / _TABLE).read_bytes())
            vocabulary = self._sound(_VOCABULARY, about).decode().split("\n")[:-1]
            self.name, self.dims = str(about["name"]), int(about["dims"])
            self._scales = np.frombuffer(self._sound(_SCALES, about), "<f4").reshape(len(vocabulary))
            self._rows = _mapped(folder / _ROWS, len(vocabulary), self.dims)
        except OSError as error:
            raise self._unusable(f"{Path(error.filename or folder).name}: {explain_os_error(error)}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unusable(f"they are damaged ({explain_syntax(error)})") from None
        self.pieces = WordPiece(vocabulary)

    def embed(self, texts: Sequence[str], weights: Callable[[int], float] | None = None) -> "Vectors":
        """See Embedder.embed; `weights` says how much more or less a piece, by its number, counts than usual."""
        import numpy as np

        out = np.zeros((len(texts), self.dims), np.float32)
        for place, text in enumerate(texts):
            numbers = self.pieces.tokens(text)
            if not numbers:
                continue
            rows = self._rows[numbers]
            if (np.abs(rows).max(axis=1) != _PEAK).any():
                raise self._unusable(f"{_ROWS} is damaged")
            shares = self._scales[numbers]
            if weights:
                shares = shares * np.array([weights(number) for number in numbers], np.float32)
            out[place] = shares @ rows
        return unit(out)

    def _sound(self, name: str, about: Any) -> bytes:
        """Read a file whole, and see that it is the one that the table was made with."""
        data = (self._folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != about["files"][name]:
            raise ValueError(f"{name} is not what it was made as")
        return data

    def _unusable(self, why: str) -> ProviderError:
        return ProviderError(
            f"the word vectors in {self._folder} cannot be used: {why}; install picoclaw again to have them back"
        )


def _mapped(path: Path, count: int, dims: int) -> "NDArray[np.int8]":
    """A file's bytes as rows, none of them read yet."""
    import numpy as np

    found = np.memmap(path, np.int8, "r")
    if found.size != count * dims:
        raise ValueError(f"{path.name} has {found.size} bytes")
    return found.reshape(count, dims)
