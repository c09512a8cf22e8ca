"""Vectors without a model: a text's is the mean of the rows that a shipped table has for its pieces of words."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.disk import explain
from picoclaw.errors import ProviderError, explain_syntax
from picoclaw.memory.embedding.embed import need_numpy, unit
from picoclaw.memory.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding.embed import Vectors

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
            raise self._unusable(f"{Path(error.filename or folder).name}: {explain(error)}") from None
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
