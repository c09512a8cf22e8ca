"""Tells what a question is about by a linear classifier, trained on sentences of many voices (tests/data/sentences).

A sentence becomes tokens: names, times, lengths, numbers and quantities each become one mark, so that what was learnt of
one sensor or day holds for all. The weights are data, a file per language, made by `python tests/bench/topics.py`.
"""

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from picoclaw.files import read_file
from picoclaw.intents.grammar import Grammar
from picoclaw.intents.sentence import Sentence, SlotReader
from picoclaw.text import stem_word

MARKS = (
    ("#past", ("past",)),
    ("#time", ("when",)),
    ("#often", ("often",)),
    ("#long", ("seconds",)),
    ("#limit", ("value",)),
    ("#what", ("quantity", "noun")),
    ("#place", ("spot",)),
)
_MAX_WEIGHTS = 4_000_000  # bytes
_PREFIX = 4
"""Letters of a longer word, which stand for all of its forms."""


class Tokens:
    """Turns sentences of one language into what the classifier counts."""

    def __init__(self, book: Grammar, reader: SlotReader) -> None:
        self._reader = reader
        self._marks = [(mark, [book.slot(name) for name in names if name in book.slot_names]) for mark, names in MARKS]

    def read(self, s: Sentence, begin: int, end: int) -> list[str]:
        tokens, i = list[str](), begin
        while i < end:
            mark, stop = self._read_mark(s, i, end)
            tokens.append(mark or stem_word(s.words[i]))
            i = max(stop, i + 1)
        return tokens

    def _read_mark(self, s: Sentence, i: int, end: int) -> tuple[str, int]:
        """The mark for the longest part that begins at word `i`, and where it ends; '' where none does."""
        if hit := s.longest(s.names, i):
            return ("#place" if hit[0][0] == "sensor" else "#output"), min(hit[1], end)
        best, stop = "", i
        for mark, slots in self._marks:
            for slot in slots:
                for _, last in islice(self._reader.read(slot, s, i), 4):
                    if stop < last <= end:
                        best, stop = mark, last
        if not best and s.words[i][0].isdigit():
            return "#number", i + 1
        return best, stop


def list_features(tokens: Sequence[str]) -> set[str]:
    """Single tokens, neighbours, pairs over one word, how a sentence begins and ends, and how words begin."""
    ends = ["^", *tokens, "$"]
    features = {*tokens, *(f"{a} {b}" for a, b in pairwise(ends))}
    features |= {f"{a} _ {b}" for a, b in zip(ends, ends[2:], strict=False)}
    features |= {f"{word[:_PREFIX]}*" for word in tokens if len(word) > _PREFIX and word[0] != "#"}
    return features


class TopicClassifier:
    """The weights of one language."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """The first line has the topics, each further one a feature and its weights by the topics' numbers."""
        rows: Iterator[bytes] = iter(lines)
        self.topics: list[str] = json.loads(next(rows))
        self._weights: dict[str, str] = {}
        for row in rows:
            feature, _, weights = row.decode().partition("\t")
            self._weights[feature] = weights

    def score(self, tokens: Sequence[str]) -> list[tuple[float, str]]:
        """Each topic's share of what a sentence may be about, the likeliest first."""
        sums = [0.0] * len(self.topics)
        for feature in (*list_features(tokens), ""):
            packed = self._weights.get(feature, "")
            for n in range(0, len(packed), 3):
                sums[int(packed[n : n + 2], 36)] += int(packed[n + 2], 36) - 18
        return _share([one / SCALE for one in sums], self.topics)

    def known(self, token: str) -> bool:
        return token in self._weights


SCALE = 6.0
"""Steps of a weight of 1.0."""


def _share(sums: Sequence[float], topics: Sequence[str]) -> list[tuple[float, str]]:
    most = max(sums)
    shares = [math.exp(one - most) for one in sums]
    total = sum(shares)
    return sorted(((share / total, topic) for share, topic in zip(shares, topics, strict=True)), reverse=True)


def load_topics(file: Path) -> TopicClassifier:
    """Load what was trained. Raises OSError, ValueError."""
    unpacking = zlib.decompressobj()
    try:
        return TopicClassifier(unpacking.decompress(read_file(file), _MAX_WEIGHTS).splitlines())
    except zlib.error as error:
        raise ValueError(f"{file.name} is no file of weights: {error}; make it with tests/bench/topics.py") from error
