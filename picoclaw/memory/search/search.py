"""Finds what is remembered, by words, vectors and the days that a question names; fusion.py says in which order."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from picoclaw.memory.embedding.embed import Embedder
from picoclaw.memory.index.index import Index, Row
from picoclaw.memory.index.sync import day_of
from picoclaw.memory.index.tables import phrases
from picoclaw.memory.search import fusion
from picoclaw.memory.search.dates import MONTHS, Days, apart
from picoclaw.memory.search.near import near
from picoclaw.memory.search.snippet import snippet, words_in
from picoclaw.pattern import pattern

_MOST_BY_WORDS, _MOST_BY_DAY = 36, 24
_LONGEST_QUERY, _MOST_WORDS = 2000, 32
_DAY = "the day"  # no word of a question has a space
_WORD = pattern(r"[^\W_]+")
_LITTLE = """
    a about am an and any are as at be been being but by can could d did do does doing don every for from had happen
    happened happens has have he her hers him his how i if in into is it its just ll m many may me might much must
    my need no not of on or our ours re remember s shall she should so some t tell than that the their theirs them
    then there these they this those to too us use used using ve very was we were what when where which who whom
    whose why will with would you your yours
"""
_SILENT = frozenset(_LITTLE.split())


class Hit(NamedTuple):
    """A chunk that was found; `day` is '' where none is known, `score` between 0 and 1.

    `snippet` has the lines that match, `line` is the first of them, and `heading` what that one stands under.
    """

    id: int
    path: str
    start: int
    end: int
    line: int
    heading: str
    day: str
    score: float
    snippet: str


class Asked(NamedTuple):
    """A question: the words to look for, those of them that say more than a day, and its days."""

    words: list[str]
    plain: list[str]
    days: list[Days]


def search(
    index: Index, query: str, embedder: Embedder | None, now: datetime, most: int = 6, least: float = fusion.LEAST
) -> list[Hit]:
    """Find what the notes say about a question, the best first; nothing when they say nothing. Raises StoreError."""
    query = query.replace("\0", " ")[:_LONGEST_QUERY]
    asked = understood(query, now)
    dated = [number for number, _ in index.match(fusion.day_words(asked.days), _MOST_BY_DAY)]
    if asked.days and not dated and (said := _calendar(query)) and index.match(said[:1], 1):
        asked = Asked([*asked.plain, *said], [*asked.plain, *said], [])  # nothing is of that day; another's may name it
    chunks, having = index.document_frequencies(asked.plain)
    known = any(having.values()) or not dated  # or else "last" and "Tuesday" are in a note by chance only
    text = dict(index.match(asked.words, _MOST_BY_WORDS)) if known else {}
    if not (asked.plain or dated):
        return []
    close = near(index, query, embedder, {*text, *dated}) if embedder and asked.plain else None
    rows = index.rows(list({*text, *dated, *(close.scores if close else ())}))
    on_day = {*dated} | {row.id for row in rows if fusion.within(row.day, asked.days)}
    values = fusion.fused(text, close.scores if close else None, on_day, [row.id for row in rows])
    values = fusion.with_neighbours(values, rows)
    values = {row.id: values[row.id] * (1 + fusion.leaning(row, now.date())) for row in rows}
    found = _best(rows, values, most)
    words = _shown_by_words(chunks, having, text, on_day, found)
    shown = fusion.together(words, close.shown if close else None)
    best = max((values[row.id] for row in found), default=0.0)
    named = {*text} | on_day
    alone = on_day if not known else set()  # "what did I write down yesterday": the day is the answer
    scored = (
        (row, max(fusion.score(shown, values[row.id], best, named=row.id in named), fusion.LEAST * (row.id in alone)))
        for row in found
    )
    weights = fusion.weights(chunks, having)
    return [_hit(row, score, weights) for row, score in scored if score >= least]


def understood(query: str, now: datetime) -> Asked:
    """Take a question apart; nothing in it is syntax."""
    days, rest = apart(query, now)
    plain = terms(rest)
    return Asked(terms(query) if plain else [], plain, days)  # "yesterday" alone is no word to look for


def _calendar(query: str) -> list[str]:
    """The month that is named, and the numbers, as a note of another day may have them; nothing without a month."""
    found = _WORD.findall(query.lower())  # "may" is silent elsewhere
    months = [word for word in found if word in MONTHS]
    return months and [*months, *(word for word in found if word.isdecimal())]


def terms(text: str) -> list[str]:
    """Split a text into the different words that are worth looking for."""
    found = (word for word in _WORD.findall(text.lower()) if word not in _SILENT)
    return list(dict.fromkeys(part for word in found for part in _parts(word)))[:_MOST_WORDS]


def _parts(word: str) -> list[str]:
    """A run of letters of a script without spaces is not one word; the index looks for its pairs."""
    return [word] if word.isascii() else [part.strip('"').replace(" ", "") for part in phrases(word)]


def _shown_by_words(
    chunks: int, having: Mapping[str, int], text: Mapping[int, float], on_day: set[int], found: Sequence[Row]
) -> float:
    held = [{*words_in(row.text, [*having])} | ({_DAY} if row.id in on_day else set()) for row in found]
    day = {_DAY: len(on_day)} if on_day else {}
    worth = fusion.worth(len(on_day), chunks)
    best = max((text.get(one, 0.0) + worth * (one in on_day) for one in {*text, *on_day}), default=0.0)
    return fusion.shown_by_words(best, chunks, {**having, **day}, held)


def _best(rows: Sequence[Row], values: Mapping[int, float], most: int) -> list[Row]:
    """Take the chunks with the highest values; of those with the same text, the first."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (-values[row.id], row.path, row.start)):
        if len(found) == most:
            break
        found.setdefault(" ".join(row.text.split()).casefold(), row)
    return list(found.values())


def _hit(row: Row, score: float, words: Mapping[str, float]) -> Hit:
    part = snippet(row.text, row.start, words)
    heading = row.heading if row.heading.endswith(part.heading) else part.heading  # a part knows none above the chunk
    day = day_of(row.path, part.heading) or row.day
    return Hit(row.id, row.path, row.start, row.end, min(part.line, row.end), heading, day, round(score, 3), part.text)
