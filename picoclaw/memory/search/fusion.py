"""How the words, the vectors and the days of a question become one order and one measure. Pure.

The order. Each side's best are taken together. A chunk gets 0.7 for its vector, as (cosine - mean) / (15 standard
deviations) over all chunks, and 0.3 for its words, as BM25 / the best BM25; to the latter, 0.4 of the best where its
day is one that the question names. A fifth of what its neighbours in the same file have is added. The owner's opinion
and the note's age change this by a few hundredths.

The score. The order only compares: the best of what has nothing to do with a question is the best as well. So that is
measured apart, and 0.35 means the same with every embedding and with none. Of words: which share of what the
question's words weigh, by their rarity, one chunk has; a word that is in no note weighs as one that is in two. Of
vectors: how far the best cosine is beyond those of questions that concern nobody's notes; the second best of 16 such
is 0.35, a text compared with itself is 1. The two go 0.3 to 0.7, and vectors never take from what the words show. This
is the score of the first hit; of the others, two thirds of it and as much of the last third as they have of the first
one's value, or as much of all three where they have neither a word of the question nor its day.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from itertools import pairwise

from picoclaw.memory.index.index import Row
from picoclaw.memory.search.dates import Days

LEAST = 0.35
VECTOR, TEXT = 0.7, 0.3
DEVIATIONS, DATED, BESIDE = 15.0, 0.4, 0.2
_OPINION, _RECENT, _RECENT_DAYS = 0.2, 0.03, 30.0
_FAMILIAR = 50
"""Chunks without any of the words, thought to be there as well: three notes are too few to tell what is rare."""

_UNKNOWN = 2
"""Chunks that a word in none of them is thought to be in: it may be said in other words there."""

_USUAL = 0.9
"""What a chunk of usual length has of the ideal when every word is in it once."""

_APART = 3
"""Lines between neighbours at most: a heading and blank ones."""


def day_words(days: Iterable[Days]) -> list[str]:
    """Write days as the headings of daily notes have them; of long spans only the months or the years."""
    found: list[str] = []
    for first, last in days:
        length = (last - first).days
        if length < 27:
            found += (date.fromordinal(first.toordinal() + i).isoformat() for i in range(length + 1))
        elif length <= 366:
            months = range(12 * first.year + first.month - 1, 12 * last.year + last.month)
            found += (f"{month // 12:04}-{month % 12 + 1:02}" for month in months)
        else:
            found += (f"{year:04}" for year in range(first.year, last.year + 1))
    return list(dict.fromkeys(found))


def within(day: str, days: Iterable[Days]) -> bool:
    """Tell whether a chunk's day, '' for unknown, is one of those."""
    return any(first.isoformat() <= day <= last.isoformat() for first, last in days)


def fused(
    text: Mapping[int, float], near: Mapping[int, float] | None, on_day: Iterable[int], candidates: Iterable[int]
) -> dict[int, float]:
    """Give each candidate its value: from BM25, from standard scores of cosines, and for its day.

    A side that is missing gives its weight to the other.
    """
    best = max(text.values(), default=0.0) or 1.0
    named = set(on_day)
    dated = DATED if text else 1.0  # where no word is found, the day is all that is known
    words = {one: text.get(one, 0.0) / best + dated * (one in named) for one in candidates}
    if near is None:
        return words
    weight = TEXT if text or named else 0.0
    return {one: (1 - weight) * near.get(one, 0.0) / DEVIATIONS + weight * share for one, share in words.items()}


def with_neighbours(values: Mapping[int, float], rows: Iterable[Row]) -> dict[int, float]:
    """Add to each chunk a part of what those next to it in its file have, as far as they were found themselves."""
    more = dict(values)
    for one, other in pairwise(sorted(rows, key=lambda row: (row.path, row.start, row.id))):
        if one.path == other.path and other.start - one.end <= 1 + _APART:
            more[one.id] += BESIDE * max(0.0, values[other.id])
            more[other.id] += BESIDE * max(0.0, values[one.id])
    return more


def leaning(row: Row, today: date) -> float:
    """Say how much the owner's opinion and a note's age raise a chunk's value, or lower it."""
    age = max(0, (today - date.fromisoformat(row.day)).days) if row.day else math.inf
    return _OPINION * max(-1.0, min(1.0, row.boost)) + _RECENT * math.exp2(-age / _RECENT_DAYS)


def shown_by_words(best: float, chunks: int, having: Mapping[str, int], held: Iterable[Collection[str]]) -> float:
    """Say which share of its words' weight a question's best chunk has; a day that it names is a word.

    `having`: in how many of the chunks each word is. `held`: which of them the best hits have, wherever in their text;
    beside it stands `best`, the highest BM25, which knows how often they have them.
    """
    rare = weights(chunks, having)
    known = {word for word, n in having.items() if n}
    ideal = sum(worth(having[word], chunks) for word in known) * _USUAL
    often = min(1.0, best / ideal) * sum(rare[word] for word in known) if known else 0.0
    return max(often, *(sum(rare[word] for word in known & {*words}) for words in held), 0.0) / sum(rare.values())


def weights(chunks: int, having: Mapping[str, int]) -> dict[str, float]:
    """Say how much words tell apart, by how many of the chunks have each."""
    counts = {word: n or _UNKNOWN for word, n in having.items()}
    return {word: math.log(1 + max(0, chunks + _FAMILIAR - n) / (n + 0.5)) for word, n in counts.items()}


def worth(having: int, chunks: int) -> float:
    """What FTS5's bm25() gives for a word that so many chunks have."""
    return max(1e-6, math.log((chunks - having + 0.5) / (having + 0.5)))


def shown_by_vectors(cosine: float, usual: float) -> float:
    """Place the best cosine between that of a question about something else, the least that counts, and 1."""
    return max(0.0, LEAST + (1 - LEAST) * (cosine - usual) / max(1e-6, 1 - usual))


def together(words: float | None, vectors: float | None) -> float:
    """Say how surely the best hit has to do with the question, from what each side shows, None for a missing one."""
    if words is None or vectors is None:
        return min(1.0, words or vectors or 0.0)
    return min(1.0, max(words, VECTOR * vectors + TEXT * words))


def score(shown: float, value: float, best: float, *, named: bool) -> float:
    """Score a hit by what is shown for the first one and by its share of that one's value.

    `named`: it has a word of the question, or is of a day that this names; what is only near has to be as near.
    """
    share = max(0.0, value) / best if best > 0 else 1.0
    return shown * ((2 + share) / 3 if named else share)
