"""Understands one sentence without a model: templates with slots first, then the nearest example sentence.

Only grammar is here. Words, templates and examples are data that the owner can change.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count, islice
from typing import Any, NamedTuple

from picoclaw.providers.nearest import Nearest, Vocabulary
from picoclaw.providers.phrasebook import Book, Edges, Intent
from picoclaw.providers.sentence import Found, Hit, Reader, Sentence, Slot

MAX_CLASSIFIED = 30
MIN_SCORE = 0.42
MIN_MARGIN = 0.05
SURE = 0.79  # as good as an example's own words


class Match(NamedTuple):
    """What a text was understood as. `tool` is empty for small talk; `missing` asks for what was left out."""

    intent: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    score: float
    route: str
    missing: str = ""


class Walk:
    """One sentence's way through the templates."""

    def __init__(self, reader: Reader, vocabulary: Vocabulary, sentence: Sentence, ends: Sequence[int]) -> None:
        """`ends`: the indexes at which a sentence may stop; what follows is politeness."""
        self._reader, self._sentence, self._ends = reader, sentence, ends
        self._labels = [(word, "@" + vocabulary.names[vocabulary[word]]) for word in sentence.words]
        self._failed: set[tuple[int, int]] = set()

    def fit(self, edges: Edges, i: int, found: Found, score: int = 0) -> tuple[int, Found] | None:
        """The slots of the first way that ends well, and how many words it does not owe to free text."""
        if (id(edges), i) in self._failed:
            return None  # without this, nested options on a hostile text would take exponential time
        for label, then in edges:
            if label == "" and i in self._ends:
                return score, found
            fit = self._slot(label, then, i, found, score) if isinstance(label, Slot) else None
            if isinstance(label, str) and i < len(self._labels) and label in self._labels[i]:
                fit = self.fit(then, i + 1, found, score + 1)
            if fit:
                return fit
        self._failed.add((id(edges), i))
        return None

    def _slot(self, slot: Slot, then: Edges, i: int, found: Found, score: int) -> tuple[int, Found] | None:
        for value, end in self._reader.read(slot, self._sentence, i):
            gain = 0 if slot.kind == "text" else end - i
            fit = self.fit(then, end, {**found, slot.name: value}, score + gain)
            if fit:
                return fit
        return None


class Matcher:
    """Tables of data, ready to understand sentences."""

    def __init__(self, data: Sequence[Mapping[str, Any]], sources: Sequence[str] = ()) -> None:
        """`data`: what is shipped, then the owner's; `sources` names the files in messages. Raises ConfigError."""
        self._book = Book()
        for number, table in enumerate(data):
            self._book.add(table, sources[number] if number < len(sources) else f"intents file {number + 1}")
        self.say, self.tools = self._book.say, self._book.tools
        self._reader = Reader(self._book.words)
        self._vocabulary = Vocabulary(self._book.concepts, self._book.words["ignore"])

    @cached_property
    def _nearest(self) -> Nearest:
        """Weighed when the first sentence comes that no template fits."""
        intents = self._book.intents
        examples = {name: intent.examples for name, intent in intents.items()}
        return Nearest(self._vocabulary, examples, {name: intent.tool for name, intent in intents.items()})

    def match(self, text: str) -> Match | None:
        """What `text` means, or None: no template fits it and no example is near enough."""
        s = Sentence(text, self._book.words)
        if not s.words:
            return None
        begins, ends = self._core(s)
        walk = Walk(self._reader, self._vocabulary, s, ends)
        fits = [
            (*fit, name)
            for i in begins
            for name, edges in self._starting(s.words[i])
            if (fit := walk.fit(edges, i, {}))
        ]
        if fits:
            _, found, name = max(fits, key=lambda fit: fit[0])
            return self._finish(self._book.intents[name], found, 1.0, "template")
        if len(s.words) > MAX_CLASSIFIED or s.holds(self._book.words["negations"]):
            return None
        return self._classify(s, begins[-1], ends[-1])

    def _starting(self, word: str) -> Iterator[tuple[str, Edges]]:
        for key in (word, "@" + self._vocabulary.names[self._vocabulary[word]], ""):
            yield from self._book.starts.get(key, ())

    def _core(self, s: Sentence) -> tuple[list[int], list[int]]:
        """Where the sentence may begin and end, with and without its polite words."""
        begins, ends = [0], [len(s.words)]
        while (hit := s.longest(self._book.words["lead"], begins[-1])) and hit[1] < len(s.words):
            begins.append(hit[1])
        while end := self._without_tail(s, begins[-1], ends[-1]):
            ends.append(end)
        return begins, ends

    def _without_tail(self, s: Sentence, begin: int, end: int) -> int:
        tails = self._book.words["tail"]
        return next((i for i in range(max(begin + 1, end - 4), end) if " ".join(s.words[i:end]) in tails), 0)

    def _classify(self, s: Sentence, begin: int, end: int) -> Match | None:
        words = s.words[begin:end]
        scores = self._nearest.scores(words)
        intents = self._book.intents
        name = max(scores, key=scores.__getitem__, default="")
        if not name or scores[name] < MIN_SCORE:
            return None
        intent = intents[name]
        near = scores[name] >= SURE or self._nearest.concerns(words, intent.tool)
        if intent.tool and not (near and self._ours(intent, s, begin)):
            return None
        rival = max((score for other, score in scores.items() if not intents[other].tool), default=0.0)
        if intent.tool and scores[name] - rival < MIN_MARGIN:
            return None
        return self._finish(intent, self._gather(intent, s, begin, end), scores[name], "example")

    def _ours(self, intent: Intent, s: Sentence, begin: int) -> bool:
        """Whether no unknown word is a proper name: "will it freeze in Madrid?" asks nothing of this board."""
        if any(slot.kind == "text" for slot in intent.slots.values()):
            return True
        unknown = (i for i in range(begin + 1, len(s.words)) if not self._nearest.known(s.words[i]))
        return not any(s.text(i, i + 1).istitle() for i in unknown)

    def _gather(self, intent: Intent, s: Sentence, begin: int, end: int) -> Found:
        """The slots of a sentence without a template: each where it first reads well, free text last."""
        found: Found = {}
        left = set(range(begin, end))
        for slot in sorted(intent.slots.values(), key=lambda slot: slot.kind == "text"):
            if slot.name in found:
                continue
            if slot.kind == "text":
                text = self._rest(slot, s, sorted(left))
                found |= {slot.name: text} if text else {}
                continue
            hits = [(value, i, stop) for i in sorted(left) for value, stop in self._likely(slot, s, i)]
            for value, i, stop in hits[:1]:
                several = slot.kind == "choice" and len({hit[0] for hit in hits}) > 1
                found[slot.name] = "" if several else value
                left -= set(range(i, stop))
        return found

    def _likely(self, slot: Slot, s: Sentence, i: int) -> Iterator[Hit]:
        """The likeliest reading at word `i`; a name that the data does not list must follow an "in the"."""
        before = i - 1
        while before > 0 and s.words[before] in slot.drop:
            before -= 1
        follows = not slot.after or (before >= 0 and s.words[before] in slot.after)
        if slot.kind in {"name", "folder"}:
            follows = s.longest(slot.values, i) is not None or (follows and not self._nearest.known(s.words[i]))
        if follows:
            yield from islice(self._reader.read(slot, s, i), 1)

    def _rest(self, slot: Slot, s: Sentence, left: list[int]) -> str:
        """Free text: what follows "about" or the like; else all of the sentence, or its unusual words."""
        for place, i in enumerate(left[:-1]):
            run = [n for n, m in zip(left[place + 1 :], count(i + 1), strict=False) if n == m]
            while len(run) > 1 and s.words[run[0]] in slot.drop:
                del run[0]
            if run and s.words[i] in slot.after:
                return s.text(run[0], run[-1] + 1)
        if slot.whole:
            return s.text(left[0], left[-1] + 1) if left else ""
        return " ".join(s.text(i, i + 1) for i in left if not self._nearest.common(s.words[i]))

    @staticmethod
    def _finish(intent: Intent, found: Found, score: float, route: str) -> Match:
        arguments = dict(intent.arguments)
        for name, value in {**intent.defaults, **found}.items():
            if isinstance(value, dict):
                arguments |= value
            elif name and value != "":
                arguments[name] = value
        missing = next((question for name, question in intent.ask.items() if name not in found), "")
        return Match(intent.name, intent.tool, arguments, intent.answer, score, route, missing)
