"""Tells what a sentence is about by a linear classifier, trained on sentences of many voices (tests/data/sentences).

A sentence becomes features: names, times, lengths, numbers and quantities each become one mark, so that what was learnt of
one sensor or day holds for all. The weights are data, a file per language, made by `python tests/bench/topics.py`. What is
understood by templates and frames is named as a topic too, so that both can be held against each other.
"""

import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from picoclaw.files import read_file
from picoclaw.intents.grammar import NEEDS_CLOCK, Grammar, GrammarData, IntentMatch, fill_fields
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
_PREFIX, _PIECE = 4, 4
"""Letters of a longer word, which stand for all of its forms; and of a piece of one, which outlives a slip."""


class Features:
    """Turns sentences of one language into what the classifier counts."""

    def __init__(self, book: Grammar, reader: SlotReader) -> None:
        self._reader = reader
        self._marks = [(mark, [book.slot(name) for name in names if name in book.slot_names]) for mark, names in MARKS]

    def read(self, s: Sentence) -> set[str]:
        """The marks and stems, neighbours, pairs over one word, how it begins and ends, and pieces of the words."""
        tokens, i, features = list[str](), 0, {"??"} if s.asks else set[str]()
        while i < len(s.words):
            mark, stop = self._read_mark(s, i)
            stop = max(stop, i + 1)
            stems = [stem_word(word) for word in s.words[i:stop]]
            features.update(f"={stem}" for stem in stems if mark)
            tokens += [mark] if mark else stems
            i = stop
        for word in s.words:
            features.update(f"~{f'<{word}>'[n : n + _PIECE]}" for n in range(max(1, len(word) + 3 - _PIECE)))
        ends = ["^", *tokens, "$"]
        features.update(tokens)
        features.update(f"{a} {b}" for a, b in pairwise(ends))
        features.update(f"{a} _ {b}" for a, b in zip(ends, ends[2:], strict=False))
        features.update(f"{word[:_PREFIX]}*" for word in tokens if len(word) > _PREFIX and word[0] != "#")
        if s.asks:
            features.add(f"?? {tokens[0]}")
        return features

    def _read_mark(self, s: Sentence, i: int) -> tuple[str, int]:
        """The mark for the longest part that begins at word `i`, and where it ends; '' where none does."""
        if hit := s.longest(s.names, i):
            return ("#place" if hit[0][0] == "sensor" else "#output"), hit[1]
        best, stop = "", i
        for mark, slots in self._marks:
            for slot in slots:
                for _, last in islice(self._reader.read(slot, s, i), 4):
                    if stop < last:
                        best, stop = mark, last
        if not best and s.words[i][0].isdigit():
            return "#number", i + 1
        return best, stop


class TopicClassifier:
    """The weights of one language."""

    def __init__(self, data: bytes) -> None:
        """A line of JSON with the topics, one of features with tabs between them, then a byte for each weight of each."""
        topics, names, weights = data.split(b"\n", 2)
        self.topics: list[str] = json.loads(topics)
        size = len(self.topics)
        self._weights = {name: weights[n * size : (n + 1) * size] for n, name in enumerate(names.split(b"\t"))}

    def score(self, features: Collection[str]) -> list[tuple[float, str]]:
        """Each topic's share of what a sentence may be about, the likeliest first."""
        rows = [self._weights[one] for one in (b"", *map(str.encode, features)) if one in self._weights]
        return _share([sum(weights) / SCALE for weights in zip(*rows, strict=True)], self.topics)

    def known(self, token: str) -> bool:
        return token.encode() in self._weights


SCALE, ZERO = 10.0, ord("P")
"""Steps of a weight of 1.0; the byte of a weight of 0."""


def _share(sums: Sequence[float], topics: Sequence[str]) -> list[tuple[float, str]]:
    most = max(sums)
    shares = [math.exp(one - most) for one in sums]
    total = sum(shares)
    return sorted(((share / total, topic) for share, topic in zip(shares, topics, strict=True)), reverse=True)


def load_topics(file: Path) -> TopicClassifier:
    """Load what was trained. Raises OSError, ValueError."""
    try:
        return TopicClassifier(zlib.decompressobj().decompress(read_file(file), _MAX_WEIGHTS))
    except zlib.error as error:
        raise ValueError(f"{file.name} is no file of weights: {error}; make it with tests/bench/topics.py") from error


class Topics:
    """What the topics of sentences lead to, as the data has it under [topics]."""

    def __init__(self, tables: GrammarData) -> None:
        lists = (frozenset(tables.get(name, "").split()) for name in ("asked", "several", "ending", "chat", "own"))
        self.asked, self.several, self.ending, self.chat, self._own = lists
        self.idle = (self.chat - {"not_wanted", "reported", "nothing"}) | {"forecast", "advice"}
        """Talk that answers no wish."""
        self.talk: Mapping[str, float] = tables.get("talk", {})
        maps: Iterator[Mapping[str, str]] = (tables.get(name, {}) for name in ("meant", "proposed", "answers", "fits"))
        self.meant, self.proposed, self._answers, self._fits = maps
        self.unanswered = {part: told.split() for part, told in tables.get("unanswered", {}).items()}
        self._named: Mapping[str, str] = tables.get("named", {})

    def find_topic_of(self, match: IntentMatch) -> str:
        """The topic that a match answers; '' where it only says how to say it, or asks back."""
        given, said, intent = match.arguments, match.said, match.intent
        if match.missing not in {"", NEEDS_CLOCK} or match.route in {"unclear", "unknown"}:
            return ""
        values = {"action": "", **said, **given, "intent": intent}
        action = f"{match.tool}:{values['action']}"
        for *signs, topic in map(str.split, self._named.get(action, self._named.get(match.tool, "")).splitlines()):
            if all(_has_sign(values, sign) for sign in signs):
                return fill_fields(topic, values)
        told = self._answers.get(action, self._answers.get(match.tool, ""))
        return self._answers.get(intent, intent if intent in self._own else told)

    def is_answer(self, topic: str, names: Sequence[str]) -> bool:
        if topic == "several":
            return len(names) > 1
        if topic == "output_two":
            return len(names) > 1 and {*names} <= {"output_on", "output_off", "output_level", "output_water"}
        close = {topic, *self._fits.get(topic, "").split()}
        return all(name in close for name in names)


def _has_sign(values: Mapping[str, Any], sign: str) -> bool:
    """Whether a value is there, and, behind a "=", is as an expression says."""
    name, _, expression = sign.partition("=")
    return name in values and (not expression or re.fullmatch(expression, str(values[name]), re.DOTALL) is not None)
