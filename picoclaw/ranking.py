"""Which of some texts fits a question best, by their words alone. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
_LITTLE = (
    "a about am an and any are at be been can did do does for from had has have how i if in is it its me my of on or so"
    " that the there this to use used using was we were what when where which who will with you your"
)
_SILENT = frozenset(_LITTLE.split())


def words(text: str) -> list[str]:
    """Split a text into the words that carry its meaning: small letters, stems, no little words."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _SILENT]


def _stem(word: str) -> str:
    """Take off what a word's form adds, as far as it helps to find: sensors, wiring and wire, watered and water."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    ending = next((end for end in ("ing", "ed", "e") if word.endswith(end) and len(word) >= len(end) + 3), "")
    return word.removesuffix(ending)


def bm25(query: str, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Score each text for the query by Okapi BM25: rare words count more, repetition and length less and less.

    `k1` says how soon a repeated word stops counting, `b` how much a long text is marked down. Never negative.
    """
    counted = [Counter(words(text)) for text in texts]
    lengths = [counts.total() for counts in counted]
    usual = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(words(query)):
        having = [i for i, counts in enumerate(counted) if word in counts]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for i in having:
            count = counted[i][word]
            scores[i] += rarity * count * (k1 + 1) / (count + k1 * (1 - b + b * lengths[i] / usual))
    return scores
