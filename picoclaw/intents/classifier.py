"""Finds the example sentences that are nearest to a text, by the words and neighbouring pairs they share."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Any

from picoclaw.text import pattern, stem_word

# Tuned on tests/data/intents_dev.json and on leaving out each example in turn.
UNKNOWN_WEIGHT = 0.45  # how much a word that no example holds counts
PAIR_WEIGHT = 0.5
FIRST_WORD_WEIGHT = 0.7
SECOND_EXAMPLE_WEIGHT = 0.2
COUNT_PRIOR = 2
MIN_TOPIC_COUNT = 3
MIN_TOPIC_SHARE = 0.35
MAX_RARE_COUNT = 9
BAYES_WEIGHT = 0.2
BAYES_SMOOTHING = 0.3
BAYES_TEMPERATURE = 3.0
MAX_TYPO, LONG, FAR = 16, 8, 9

HEX_ADDRESS = pattern(r"0x[0-9a-f]{1,4}")
_FILE_NAME = pattern(r"[\w.~/-]*\.[^\W\d_]\w{0,7}")


class Vocabulary(dict[str, int]):
    """What each word counts as: the number of its concept, else of its stem; 0 to pass over. Fills as words are met.

    Two neighbours count as `pair(first, second)`, a negative number; so does the first word, after 0.
    """

    def __init__(
        self,
        concepts: Mapping[str, str],
        ignore: Iterable[str],
        files: Collection[str] = (),
        plain: Collection[str] = (),
    ) -> None:
        """`concepts`: words and phrases of two words with the concept they belong to; `files`: names without ending;
        `plain`: words that only look like one of a concept, as directors do.
        """
        super().__init__(dict.fromkeys(ignore, 0))
        self.names = [""]
        self._numbers = {"": 0}
        self._concepts, self._plain = concepts, plain
        self._files = files

    @cached_property
    def _phrases(self) -> dict[str, dict[str, str]]:
        phrases: dict[str, dict[str, str]] = {}
        for phrase in self._concepts:
            first, _, second = phrase.partition(" ")
            if second and phrase not in self._plain:
                phrases.setdefault(first, {})[second] = phrase
        return phrases

    def __missing__(self, word: str) -> int:
        name = word if word in self._plain else self._concepts.get(word, "")
        if not name:
            root = stem_word(word.removesuffix("'s"))
            shape = "" if word.isalpha() else self._shape(word)
            name = shape or (root if root in self._plain else self._concepts.get(root, root))
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        self[word] = number
        return number

    def _shape(self, word: str) -> str:
        if word[0].isdigit():
            return "0x0" if HEX_ADDRESS.fullmatch(word) else "0"
        if is_file_name(word, self._files):
            return "a.b"
        return "/" if word[0] in "/~" or word.startswith("./") or word[-1] == "/" else ""

    def features(self, words: Sequence[str]) -> set[int]:
        if not self._phrases.keys().isdisjoint(words):
            words = self._joined(words)
        single = [number for number in map(self.__getitem__, words) if number]
        return {*single, *map(hash_pair, [0, *single], single)}

    def _joined(self, words: Sequence[str]) -> list[str]:
        """The words, with phrases that are concepts made one."""
        joined: list[str] = []
        for word in words:
            phrase = self._phrases.get(joined[-1], {}).get(word) if joined else None
            if phrase:
                joined[-1] = phrase
            else:
                joined.append(word)
        return joined


def hash_pair(first: int, second: int) -> int:
    return -(first << 16 | second)


class ExampleClassifier:
    """The examples with their weights; scores a text against each intent."""

    def __init__(self, vocabulary: Vocabulary, examples: Mapping[str, Sequence[str]], tools: Mapping[str, str]) -> None:
        """`examples` and `tools` by intent. Weights come from the examples: a word that few of them use says more."""
        self._vocabulary, self._tools = vocabulary, tools
        self._names = [name for name, lines in examples.items() for _ in lines]
        self._lines = [line for lines in examples.values() for line in lines]
        bags: list[set[int]] = []
        self._calls: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for name, lines in examples.items():
            more = [vocabulary.features(line.split()) for line in lines]
            self._calls[tools[name]].update(chain.from_iterable(more))
            bags += more
        self._sizes = Counter(tools[name] for name in self._names)
        self._counts: Counter[int] = Counter()
        most: dict[int, int] = {}
        for calls in self._calls.values():
            self._counts.update(calls)
            most |= {feature: count for feature, count in calls.items() if count > most.get(feature, 0)}
        size = len(bags)
        self._weights = {
            f: _compute_weight(_get_feature_weight(f), count, most[f], size) for f, count in self._counts.items()
        }
        squares = {feature: weight * weight for feature, weight in self._weights.items()}
        self._norms = [math.sqrt(sum(map(squares.__getitem__, bag))) or 1.0 for bag in bags]
        self._rare = math.log(1 + len(bags)) * UNKNOWN_WEIGHT
        self._postings: defaultdict[int, list[int]] = defaultdict(list)
        for number, bag in enumerate(bags):
            for feature in bag:
                self._postings[feature].append(number)

    def known(self, word: str) -> bool:
        """Whether an example holds the word, or it is one to pass over."""
        return not self._vocabulary[word] or self._vocabulary[word] in self._counts

    def foreign(self, word: str) -> bool:
        """Whether no example of a tool holds the word."""
        number = self._vocabulary[word]
        return number != 0 and self._counts[number] <= self._calls[""][number]

    def common(self, word: str) -> bool:
        """Whether the word is too usual to be what a sentence is about."""
        return not self._vocabulary[word] or self._counts[self._vocabulary[word]] > MAX_RARE_COUNT

    def concerns(self, words: Sequence[str], tool: str) -> bool:
        """Whether a word belongs to the tool's own subject; likeness in the small words alone is chance."""
        for feature in self._vocabulary.features(words):
            told = self._counts[feature] - self._calls[""][feature]
            if feature > 0 and self._calls[tool][feature] >= max(MIN_TOPIC_COUNT, told * MIN_TOPIC_SHARE):
                return True
        return False

    def find_line(self, words: Sequence[str]) -> tuple[str, float, str]:
        """The nearest example with its intent, and how near it is."""
        nearness = self._list_nearness(self._weigh(words))
        number = max(nearness, key=lambda one: nearness[one] / self._norms[one], default=-1)
        if number < 0:
            return "", 0.0, ""
        return self._names[number], nearness[number] / self._norms[number], self._lines[number]

    def scores(self, words: Sequence[str]) -> dict[str, float]:
        """Nearness of each intent, 0 to 1: mostly the cosine of its nearest example, with a little of the second."""
        weights = self._weigh(words)
        near: defaultdict[str, list[float]] = defaultdict(lambda: [0.0])
        for number, value in self._list_nearness(weights).items():
            near[self._names[number]].append(value / self._norms[number])
        leaning = self._leaning([feature for feature in weights if feature in self._counts])
        return {
            name: (1 - BAYES_WEIGHT) * _combine_scores(values) + BAYES_WEIGHT * leaning[self._tools[name]]
            for name, values in near.items()
        }

    def _weigh(self, words: Sequence[str]) -> dict[int, float]:
        return {
            feature: self._weights.get(feature, self._rare if feature > -(1 << 16) else 0.0)
            for feature in self._vocabulary.features(words)
        }

    def _list_nearness(self, weights: Mapping[int, float]) -> dict[int, float]:
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        nearness: defaultdict[int, float] = defaultdict(float)
        for feature, weight in weights.items():
            square = weight * weight / norm
            for number in self._postings.get(feature, ()):
                nearness[number] += square
        return nearness

    def _leaning(self, features: Sequence[int]) -> dict[str, float]:
        """The tools' shares, were each feature evidence by itself; steadies a text that is like no one example."""
        logs = dict.fromkeys(self._calls, 0.0)
        for tool, calls in self._calls.items():
            size = self._sizes[tool] + 10 * BAYES_SMOOTHING
            for feature in features:
                logs[tool] += math.log((calls[feature] + BAYES_SMOOTHING) / size) * (1.0 if feature > 0 else 0.5)
        top = max(logs.values(), default=0.0)
        odds = {tool: math.exp((value - top) / BAYES_TEMPERATURE) for tool, value in logs.items()}
        return {tool: value / sum(odds.values()) for tool, value in odds.items()}


def _get_feature_weight(feature: int) -> float:
    return 1.0 if feature > 0 else FIRST_WORD_WEIGHT if feature > -(1 << 16) else PAIR_WEIGHT


@cache
def _compute_weight(part: float, count: int, most: int, examples: int) -> float:
    """A word that few examples hold says more, and one that a single tool's examples hold, more still."""
    return part * math.log(1 + examples / count) * most / (count + COUNT_PRIOR)


def _combine_scores(values: list[float]) -> float:
    first, second = sorted(values)[:-3:-1]
    return first if first > 0.99 else (1 - SECOND_EXAMPLE_WEIGHT) * first + SECOND_EXAMPLE_WEIGHT * second


class SpellingCorrector:
    """Mends a word that nothing knows to the one keyword it must have been meant for."""

    def __init__(self, keys: Iterable[str], vocabulary: Vocabulary, known: Collection[str]) -> None:
        """`keys`: what may be meant; `known`: ordinary words that are never corrected."""
        self._vocabulary, self._known = vocabulary, known
        self._keys: defaultdict[str, list[str]] = defaultdict(list)
        for key in keys:
            self._keys[key[0]].append(key)

    def fix(self, word: str) -> str:
        """The keyword, or `word` as it is: unknown, too short, or near to keywords of different meaning."""
        if not 4 <= len(word) <= MAX_TYPO or word in self._known or stem_word(word) in self._known:
            return word
        steps = [(_count_typos(word, key), key) for key in self._keys[word[0]]]
        least = min(steps, default=(FAR, ""))[0]
        best = {self._vocabulary[key]: key for taken, key in steps if taken == least}
        return best.popitem()[1] if least < FAR and len(best) == 1 else word


def is_file_name(word: str, names: Collection[str]) -> bool:
    """Whether a word is a file's name: it has an ending, or is a path to one of `names`, which need none."""
    _, slash, name = word.rpartition("/")
    return bool(_FILE_NAME.fullmatch(word)) or bool(slash and name in names)


def parse_amount(text: str, numbers: Mapping[str, Any]) -> float:
    """What digits or words in `numbers` count; 0 for two words that make no number, as "five ten" do not."""
    if text in numbers or text[0].isdigit():
        return float(numbers.get(text, text))
    head, _, tail = text.partition(" ")
    first, second = numbers.get(head, 0), numbers.get(tail, 0)
    if second == 100:
        return float(first * second)
    return float(first + second) if first % 10 == 0 < second < 10 < first < 100 else 0.0


def _count_typos(word: str, key: str) -> int:
    """The distance if it may be a slip: one in a word of five letters, two in a long one, else FAR."""
    size = min(len(word), len(key))
    allowed = 2 if size >= LONG else 1
    if abs(len(word) - len(key)) > allowed or len({*word} ^ {*key}) > 2 * allowed:
        return FAR
    if size < 5 and sorted(word) != sorted(key):
        return FAR
    steps = _compute_edit_distance(word, key)
    return steps if steps <= allowed else FAR


def _compute_edit_distance(first: str, second: str) -> int:
    """How many letters must be changed, added, left out, or swapped with the next one."""
    older, old = [0] * (len(second) + 1), list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        new = [i]
        for j, other in enumerate(second, 1):
            steps = min(old[j] + 1, new[j - 1] + 1, old[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                steps = min(steps, older[j - 2] + 1)
            new.append(steps)
        older, old = old, new
    return old[-1]
