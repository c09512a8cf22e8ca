"""Tells what a word counts as, and the keyword that a slip was meant for."""

from collections.abc import Collection, Iterable, Mapping

from picoclaw.text import stem_word

MAX_TYPO, LONG, FAR = 16, 8, 9


class Vocabulary(dict[str, str]):
    """What each word counts as: its concept, else its stem; '' to pass over. Fills as words are met."""

    def __init__(self, concepts: Mapping[str, str], ignore: Iterable[str], plain: Iterable[str]) -> None:
        """`concepts`: words with the concept they belong to; `plain`: those that only look like one, as directors do."""
        super().__init__({word: word for word in plain} | dict.fromkeys(ignore, ""))
        self._concepts = {word: concept for word, concept in concepts.items() if word not in self}

    def __missing__(self, word: str) -> str:
        stem = stem_word(word.removesuffix("'s"))
        self[word] = name = self._concepts.get(word) or self._concepts.get(stem, stem)
        return name


class SpellingCorrector:
    """Mends a word that nothing knows to the one keyword it must have been meant for."""

    def __init__(self, keys: Collection[str], vocabulary: Mapping[str, str], known: Collection[str]) -> None:
        """`keys`: what may be meant; `known`: ordinary words that are never corrected."""
        self._keys, self._vocabulary, self._known = keys, vocabulary, known

    def fix(self, word: str) -> str:
        """The keyword, or `word` as it is: unknown, too short, or near to keywords of different meaning."""
        if not 4 <= len(word) <= MAX_TYPO or word in self._known or stem_word(word) in self._known:
            return word
        steps = [(_count_typos(word, key), key) for key in self._keys if key[0] == word[0]]
        least = min(steps, default=(FAR, ""))[0]
        best = {self._vocabulary[key]: key for taken, key in steps if taken == least}
        return best.popitem()[1] if least < FAR and len(best) == 1 else word


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
