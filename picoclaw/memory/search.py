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
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from picoclaw.errors import ProviderError
from picoclaw.memory.dates import MONTHS, DateRange, extract_days
from picoclaw.memory.embedding import Embedder
from picoclaw.memory.entries import FOREIGN, parse_entries
from picoclaw.memory.index import SLOTS_PER_BLOCK, IndexFile, MemoryRow, find_day, iter_lines, quote_phrases
from picoclaw.text import list_query_terms, pattern

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding import Vectors


MIN_SCORE = 0.35
VECTOR_WEIGHT, WORDS_WEIGHT = 0.7, 0.3
VECTOR_DEVIATIONS, DAY_BONUS, NEIGHBOUR_SHARE = 15.0, 0.4, 0.2
_BOOST_WEIGHT, _RECENCY_WEIGHT, _RECENCY_HALF_LIFE_DAYS = 0.2, 0.03, 30.0
_ASSUMED_CHUNKS = 50
"""Chunks without any of the words, thought to be there as well: three notes are too few to tell what is rare."""

_ASSUMED_COUNT = 2
"""Chunks that a word in none of them is thought to be in: it may be said in other words there."""

_TYPICAL_SHARE = 0.9
"""What a chunk of usual length has of the ideal when every word is in it once."""

_MAX_GAP = 3
"""Lines between neighbours at most: a heading and blank ones."""


def list_day_terms(days: Iterable[DateRange]) -> list[str]:
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


def is_within(day: str, days: Iterable[DateRange]) -> bool:
    """Tell whether a chunk's day, '' for unknown, is one of those."""
    return any(first.isoformat() <= day <= last.isoformat() for first, last in days)


def combine_scores(
    text: Mapping[int, float], near: Mapping[int, float] | None, on_day: Iterable[int], candidates: Iterable[int]
) -> dict[int, float]:
    """Give each candidate its value: from BM25, from standard scores of cosines, and for its day.

    A side that is missing gives its weight to the other.
    """
    best = max(text.values(), default=0.0) or 1.0
    named = set(on_day)
    dated = DAY_BONUS if text else 1.0  # where no word is found, the day is all that is known
    words = {one: text.get(one, 0.0) / best + dated * (one in named) for one in candidates}
    if near is None:
        return words
    weight = WORDS_WEIGHT if text or named else 0.0
    return {one: (1 - weight) * near.get(one, 0.0) / VECTOR_DEVIATIONS + weight * share for one, share in words.items()}


def add_neighbours(values: Mapping[int, float], rows: Iterable[MemoryRow]) -> dict[int, float]:
    """Add to each chunk a part of what those next to it in its file have, as far as they were found themselves."""
    more = dict(values)
    for one, other in pairwise(sorted(rows, key=lambda row: (row.path, row.start, row.id))):
        if one.path == other.path and other.start - one.end <= 1 + _MAX_GAP:
            more[one.id] += NEIGHBOUR_SHARE * max(0.0, values[other.id])
            more[other.id] += NEIGHBOUR_SHARE * max(0.0, values[one.id])
    return more


def compute_boost(row: MemoryRow, today: date) -> float:
    """Say how much the owner's opinion and a note's age raise a chunk's value, or lower it."""
    age = max(0, (today - date.fromisoformat(row.day)).days) if row.day else math.inf
    return _BOOST_WEIGHT * max(-1.0, min(1.0, row.boost)) + _RECENCY_WEIGHT * math.exp2(-age / _RECENCY_HALF_LIFE_DAYS)


def compute_words_confidence(
    best: float, chunks: int, having: Mapping[str, int], held: Iterable[Collection[str]]
) -> float:
    """Say which share of its words' weight a question's best chunk has; a day that it names is a word.

    `having`: in how many of the chunks each word is. `held`: which of them the best hits have, wherever in their text;
    beside it stands `best`, the highest BM25, which knows how often they have them.
    """
    rare = compute_word_weights(chunks, having)
    known = {word for word, n in having.items() if n}
    ideal = sum(compute_bm25_weight(having[word], chunks) for word in known) * _TYPICAL_SHARE
    often = min(1.0, best / ideal) * sum(rare[word] for word in known) if known else 0.0
    return max(often, *(sum(rare[word] for word in known & {*words}) for words in held), 0.0) / sum(rare.values())


def compute_word_weights(chunks: int, having: Mapping[str, int]) -> dict[str, float]:
    """Say how much words tell apart, by how many of the chunks have each."""
    counts = {word: n or _ASSUMED_COUNT for word, n in having.items()}
    return {word: math.log(1 + max(0, chunks + _ASSUMED_CHUNKS - n) / (n + 0.5)) for word, n in counts.items()}


def compute_bm25_weight(having: int, chunks: int) -> float:
    """What FTS5's bm25() gives for a word that so many chunks have."""
    return max(1e-6, math.log((chunks - having + 0.5) / (having + 0.5)))


def compute_vector_confidence(cosine: float, usual: float) -> float:
    """Place the best cosine between that of a question about something else, the least that counts, and 1."""
    return max(0.0, MIN_SCORE + (1 - MIN_SCORE) * (cosine - usual) / max(1e-6, 1 - usual))


def combine_confidence(words: float | None, vectors: float | None) -> float:
    """Say how surely the best hit has to do with the question, from what each side shows, None for a missing one."""
    if words is None or vectors is None:
        return min(1.0, words or vectors or 0.0)
    return min(1.0, max(words, VECTOR_WEIGHT * vectors + WORDS_WEIGHT * words))


def compute_hit_score(shown: float, value: float, best: float, *, named: bool) -> float:
    """Score a hit by what is shown for the first one and by its share of that one's value.

    `named`: it has a word of the question, or is of a day that this names; what is only near has to be as near.
    """
    share = max(0.0, value) / best if best > 0 else 1.0
    return shown * ((2 + share) / 3 if named else share)


# How near a question is to what is remembered, by its vector.

_MAX_NEAREST = 12
_SAMPLE_SIZE = 1020  # vectors, for what is usual
_MAX_CACHED = 16_000_000  # bytes
_PROBE_QUESTIONS = (
    "How many moons does Saturn have?",
    "Which composer wrote The Magic Flute?",
    "What is the atomic weight of zinc?",
    "Who painted the ceiling of the Sistine Chapel?",
    "How do bees make honey?",
    "When did the Roman Empire fall?",
    "How is a suspension bridge built?",
    "What does a central bank do?",
    "Translate thank you into Portuguese.",
    "How deep is the Mariana Trench?",
    "What are the rules of cricket?",
    "How does a jet engine work?",
    "Why do volcanoes erupt?",
    "Which vaccine protects against measles?",
    "How do I sort a list in JavaScript?",
    "What is the plot of Hamlet?",
)
_probe_cache: dict[tuple[str, int], "Vectors"] = {}


class VectorMatches(NamedTuple):
    """Standard scores of the nearest chunks and of others asked for, and how much the best cosine shows."""

    scores: Mapping[int, float]
    shown: float


class _VectorBlock:
    """Some of an index's vectors: whose they are, the vectors, and how long each is."""

    def __init__(self, ids: "NDArray[np.int64]", rows: "NDArray[np.int8]") -> None:
        import numpy as np

        self.ids, self.rows = ids, rows
        wide = rows.astype(np.float32)
        self.lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", wide, wide), 1))
        self._usual: tuple[float, int] | None = None

    def cosines(self, wanted: "Vectors") -> "Vectors":
        import numpy as np

        # `@` would wake a second core for so little
        return np.asarray(np.einsum("ij,j->i", self.rows.astype(np.float32), wanted) / self.lengths)

    def usual(self, probes: "Vectors") -> tuple[float, int]:
        """Say how near the second of the probes comes to any of some vectors, and of how many."""
        import numpy as np

        if self._usual is None:
            some = self.rows[:_SAMPLE_SIZE].astype(np.float32)
            best = (some @ probes.T / self.lengths[:_SAMPLE_SIZE, None]).max(axis=0)
            self._usual = float(np.sort(best)[-2]), len(some)
        return self._usual


_vector_cache: WeakKeyDictionary[IndexFile, tuple[tuple[int, ...], list[_VectorBlock]]] = WeakKeyDictionary()


def search_vectors(index: IndexFile, query: str, embedder: Embedder, others: Collection[int]) -> VectorMatches | None:
    """Compare a question with all vectors; None when there are none to compare, or it cannot be embedded."""
    import numpy as np

    if index.model()[0] != embedder.name:
        return None
    try:
        wanted, probes = embedder.embed([query])[0], embed_probes(embedder)
    except ProviderError:
        return None  # the words alone find something too
    if index.model() != (embedder.name, len(wanted)) or not wanted.any():
        return None  # another model's, until the index has been embedded anew
    numbers, cosines = [], []
    usual = None
    for part in _iterate_vector_blocks(index, len(wanted)):
        usual = usual or part.usual(probes)
        numbers.append(part.ids)
        cosines.append(part.cosines(wanted))
    if usual is None:
        return None
    every = np.concatenate(cosines)
    spread = float(every.std()) or 1.0
    expected = usual[0] + spread * (_estimate_maximum(len(every)) - _estimate_maximum(usual[1]))
    scores = _select_best_scores(np.concatenate(numbers), (every - every.mean()) / spread, others)
    return VectorMatches(scores, compute_vector_confidence(float(every.max()), expected))


def _iterate_vector_blocks(index: IndexFile, dims: int) -> Iterator[_VectorBlock]:
    """Give all vectors: those of the last search, if they were few and none has changed."""
    version = index.version()
    held, parts = _vector_cache.pop(index, (None, []))
    if held != version:
        parts = []  # let go of, before there are new ones
    kept: list[_VectorBlock] = []
    size = 0
    for part in parts or filter(None, (_make_block(found, dims) for found in index.vectors())):
        size += part.rows.nbytes
        kept.append(part)
        if size > _MAX_CACHED:
            kept.clear()
        yield part
    if size <= _MAX_CACHED:
        _vector_cache[index] = version, kept


def _make_block(found: Sequence[tuple[int, int, bytes]], dims: int) -> _VectorBlock | None:
    """Take the slots of some rows that are filled; what is not as long as it should be is damaged."""
    import numpy as np

    found = [row for row in found if len(row[2]) == SLOTS_PER_BLOCK * dims]
    slots = np.arange(SLOTS_PER_BLOCK)
    first = np.array([block * SLOTS_PER_BLOCK for block, _, _ in found])
    masks = np.array([there for _, there, _ in found], np.int64)
    there = (masks[:, None] >> slots & 1).astype(bool).ravel()
    rows = np.frombuffer(b"".join(held for _, _, held in found), np.int8).reshape(-1, dims)
    return _VectorBlock((first[:, None] + slots).ravel()[there], rows[there]) if there.any() else None


def _select_best_scores(
    numbers: "np.ndarray[Any, Any]", scores: "Vectors", others: Collection[int]
) -> dict[int, float]:
    import numpy as np

    nearest = np.argpartition(-scores, min(_MAX_NEAREST, len(scores)) - 1)[:_MAX_NEAREST]
    asked = np.flatnonzero(np.isin(numbers, list(others)))
    return {int(numbers[i]): float(scores[i]) for i in (*nearest, *asked)}


def _estimate_maximum(count: int) -> float:
    """How many standard deviations the largest of so many normal numbers is above their mean, about."""
    return math.sqrt(2 * math.log(count))


def embed_probes(embedder: Embedder) -> "Vectors":
    """Embed questions that concern nobody's notes, once for a model. Raises ProviderError."""
    if (embedder.name, embedder.dims) not in _probe_cache:
        found = embedder.embed(_PROBE_QUESTIONS)
        _probe_cache.clear()
        _probe_cache[embedder.name, embedder.dims] = found
    return _probe_cache[embedder.name, embedder.dims]


# Which lines of a chunk say what was asked, and whether a text has a word in any of its forms. Pure.

MAX_SNIPPET_CHARS = 300

_MIN_SHARE = 0.7
"""Of what the best line has: lines with less of the question's words are about something else."""

_HEADING_WEIGHT = 0.5
"""What a word of its heading counts for a line."""

_MIN_WRAPPED_CHARS = 50
"""Characters of a line that an editor may have broken; shorter ones are meant so."""

_LONG_STEM_CHARS = 5
"""Letters that a word and its forms share; where they are fewer, only these endings make a form of it."""

_ENDINGS = frozenset(("", "s", "e", "es", "ed", "ing", "ings", "y", "i", "ies", "ied"))
_LETTERS = pattern(r"[^\W_]*")
_SEPARATOR = pattern(r"\s+([/…])\s+")
_LIST_MARKER = pattern(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


class Snippet(NamedTuple):
    """The lines of a chunk that match; `line` is the first of them, and `heading` what that one stands under."""

    text: str
    line: int
    heading: str


class _SnippetEntry(NamedTuple):
    """A line with those that go on with it."""

    line: int
    last: int
    heading: str
    text: str


def find_words(text: str, words: Sequence[str]) -> list[str]:
    """Tell which of the words a text has in any of their forms."""
    folded = _fold(text)
    return [word for word in words if _find_word(folded, word) >= 0]


def make_snippet(text: str, start: int, words: Mapping[str, float], most: int = MAX_SNIPPET_CHARS) -> Snippet:
    """Take the lines out of a chunk that have most of the words, by their weights; the first ones where none has any.

    `start`: the line of its file on which the chunk begins. A heading's words count for what stands under it.
    """
    parts = _split_entries(text)
    values = [_score_entry(entry, words) for entry in parts]
    best = max(values, default=0.0)
    order = sorted(range(len(parts)), key=lambda i: (-values[i], i))
    taken: list[int] = []
    room = most + 3
    for i in order:
        if taken and (values[i] < _MIN_SHARE * best or len(parts[i].text) + 3 > room):
            break
        taken.append(i)
        room -= len(parts[i].text) + 3
    if not taken:
        return Snippet("", start, "")
    first = parts[min(taken)]
    return Snippet(
        _join_entries([parts[i] for i in sorted(taken)], list(words), most), start + first.line - 1, first.heading
    )


def _score_entry(entry: _SnippetEntry, words: Mapping[str, float]) -> float:
    own = {*find_words(entry.text, [*words])}
    lent = {*find_words(entry.heading, [*words])} - own
    return sum(words[word] for word in own) + _HEADING_WEIGHT * sum(words[word] for word in lent)


def _join_entries(entries: Sequence[_SnippetEntry], words: Sequence[str], most: int) -> str:
    if len(entries) == 1:
        return _shorten(entries[0].text, words, most)
    out = entries[0].text
    for above, entry in pairwise(entries):
        out += f"{' / ' if entry.line == above.last + 1 else ' … '}{entry.text}"
    return out


def _shorten(text: str, words: Sequence[str], most: int) -> str:
    """Cut a text that is too long, so that the first of the words stays, and the mark of what is not the owner's."""
    if len(text) <= most:
        return text
    told = next((f"({entry.source}) " for entry in parse_entries(text) if FOREIGN in entry.source), "")
    most -= len(told)
    folded = _fold(text)
    places = [at for word in words if (at := _find_word(folded, word)) >= 0] if len(folded) == len(text) else []
    at = min(places, default=0)
    begin = 0 if at < most * 2 // 3 else text.rfind(" ", 0, at - most // 3) + 1
    head = f"{told}…" if begin else ""
    part = text[begin : begin + most - len(head.removeprefix(told))]
    return f"{head}{part}" if begin + len(part) == len(text) else f"{head}{part[:-1]}…"


def _split_entries(text: str) -> list[_SnippetEntry]:
    """Put lines together that are one sentence or one item of a list; headings only where there is nothing else."""
    pieces = [piece for piece in iter_lines(text, len(text) + 1) if piece.text.strip()]
    plain = [piece for piece in pieces if not piece.is_heading] or pieces
    found: list[_SnippetEntry] = []
    for above, piece in zip([None, *plain], plain, strict=False):
        words = " ".join(piece.text.split())
        if above and above.line == piece.line - 1 and _is_continuation(above.text, piece.text):
            found[-1] = found[-1]._replace(last=piece.line, text=f"{found[-1].text} {words}")
        else:
            found.append(_SnippetEntry(piece.line, piece.line, piece.heading, words))
    return [entry._replace(text=_join_foreign(entry.text)) for entry in found]


def _join_foreign(text: str) -> str:
    """What is not the owner's word looks like one entry, also beside others."""
    return _SEPARATOR.sub(r"\1", text) if FOREIGN in text else text


def _is_continuation(above: str, line: str) -> bool:
    if _LIST_MARKER.match(line):
        return False
    return line[0].isspace() or (len(above) > _MIN_WRAPPED_CHARS and line[0].islower() and above[-1] not in ".!?:;")


def _fold(text: str) -> str:
    """Write a text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


@lru_cache(maxsize=256)
def _get_stem(word: str) -> str:
    """What the forms of a word begin with."""
    forms = list_query_terms(_fold(word))
    stem = forms[0] if len(forms) == 1 else _fold(word)
    return stem[:-1] if len(stem) > 4 and stem[-1] in "iy" else stem


def _find_word(text: str, word: str) -> int:
    """Find a form of a word, -1 for nowhere; letters that are written without spaces need no beginning and no end."""
    stem = _get_stem(word)
    at = text.find(stem) if stem else -1
    while (
        at >= 0 and stem.isascii() and (text[at - 1 : at].isalnum() or not _is_form(text, at + len(stem), stem, word))
    ):
        at = text.find(stem, at + 1)
    return at


def _is_form(text: str, end: int, stem: str, word: str) -> bool:
    """Tell whether what follows a stem makes a form of the word: notes, noted, but neither not nor nothing."""
    if len(stem) >= _LONG_STEM_CHARS:
        return True
    found = _LETTERS.match(text, end)
    rest = found[0] if found else ""
    doubled = rest.removeprefix(stem[-1]) in {"ed", "ing"}
    return (rest in _ENDINGS or doubled) and bool(rest or not word.endswith(f"{stem}e"))


# Finds what is remembered, by words, vectors and the days that a question names; fusion.py says in which order.

_MAX_BY_WORDS, _MAX_BY_DAY = 36, 24
_MAX_QUERY_CHARS, _MAX_TERMS = 2000, 32
_DAY_TERM = "the day"  # no word of a question has a space
_WORD = pattern(r"[^\W_]+")
_STOP_WORD_TEXT = """
    a about am an and any are as at be been being but by can could d did do does doing don every for from had happen
    happened happens has have he her hers him his how i if in into is it its just ll m many may me might much must
    my need no not of on or our ours re remember s shall she should so some t tell than that the their theirs them
    then there these they this those to too us use used using ve very was we were what when where which who whom
    whose why will with would you your yours
"""
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())


class MemoryHit(NamedTuple):
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


class ParsedQuery(NamedTuple):
    """A question: the words to look for, those of them that say more than a day, and its days."""

    words: list[str]
    plain: list[str]
    days: list[DateRange]


def search_memory(
    index: IndexFile, query: str, embedder: Embedder | None, now: datetime, most: int = 6, least: float = MIN_SCORE
) -> list[MemoryHit]:
    """Find what the notes say about a question, the best first; nothing when they say nothing. Raises StoreError."""
    query = query.replace("\0", " ")[:_MAX_QUERY_CHARS]
    asked = parse_query(query, now)
    dated = [number for number, _ in index.match(list_day_terms(asked.days), _MAX_BY_DAY)]
    if asked.days and not dated and (said := _find_calendar_terms(query)) and index.match(said[:1], 1):
        asked = ParsedQuery(
            [*asked.plain, *said], [*asked.plain, *said], []
        )  # nothing is of that day; another's may name it
    chunks, having = index.document_frequencies(asked.plain)
    known = any(having.values()) or not dated  # or else "last" and "Tuesday" are in a note by chance only
    text = dict(index.match(asked.words, _MAX_BY_WORDS)) if known else {}
    if not (asked.plain or dated):
        return []
    close = search_vectors(index, query, embedder, {*text, *dated}) if embedder and asked.plain else None
    rows = index.rows(list({*text, *dated, *(close.scores if close else ())}))
    on_day = {*dated} | {row.id for row in rows if is_within(row.day, asked.days)}
    values = combine_scores(text, close.scores if close else None, on_day, [row.id for row in rows])
    values = add_neighbours(values, rows)
    values = {row.id: values[row.id] * (1 + compute_boost(row, now.date())) for row in rows}
    found = _select_best_rows(rows, values, most)
    words = _measure_words(chunks, having, text, on_day, found)
    shown = combine_confidence(words, close.shown if close else None)
    best = max((values[row.id] for row in found), default=0.0)
    named = {*text} | on_day
    alone = on_day if not known else set()  # "what did I write down yesterday": the day is the answer
    scored = (
        (row, max(compute_hit_score(shown, values[row.id], best, named=row.id in named), MIN_SCORE * (row.id in alone)))
        for row in found
    )
    weights_ = compute_word_weights(chunks, having)
    return [_make_hit(row, score, weights_) for row, score in scored if score >= least]


def parse_query(query: str, now: datetime) -> ParsedQuery:
    """Take a question apart; nothing in it is syntax."""
    days, rest = extract_days(query, now)
    plain = extract_terms(rest)
    return ParsedQuery(extract_terms(query) if plain else [], plain, days)  # "yesterday" alone is no word to look for


def _find_calendar_terms(query: str) -> list[str]:
    """The month that is named, and the numbers, as a note of another day may have them; nothing without a month."""
    found = _WORD.findall(query.lower())  # "may" is silent elsewhere
    months = [word for word in found if word in MONTHS]
    return months and [*months, *(word for word in found if word.isdecimal())]


def extract_terms(text: str) -> list[str]:
    """Split a text into the different words that are worth looking for."""
    found = (word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)
    return list(dict.fromkeys(part for word in found for part in _split_unspaced(word)))[:_MAX_TERMS]


def _split_unspaced(word: str) -> list[str]:
    """A run of letters of a script without spaces is not one word; the index looks for its pairs."""
    return [word] if word.isascii() else [part.strip('"').replace(" ", "") for part in quote_phrases(word)]


def _measure_words(
    chunks: int, having: Mapping[str, int], text: Mapping[int, float], on_day: set[int], found: Sequence[MemoryRow]
) -> float:
    held = [{*find_words(row.text, [*having])} | ({_DAY_TERM} if row.id in on_day else set()) for row in found]
    day = {_DAY_TERM: len(on_day)} if on_day else {}
    worth_ = compute_bm25_weight(len(on_day), chunks)
    best = max((text.get(one, 0.0) + worth_ * (one in on_day) for one in {*text, *on_day}), default=0.0)
    return compute_words_confidence(best, chunks, {**having, **day}, held)


def _select_best_rows(rows: Sequence[MemoryRow], values: Mapping[int, float], most: int) -> list[MemoryRow]:
    """Take the chunks with the highest values; of those with the same text, the first."""
    found: dict[str, MemoryRow] = {}
    for row in sorted(rows, key=lambda row: (-values[row.id], row.path, row.start)):
        if len(found) == most:
            break
        found.setdefault(" ".join(row.text.split()).casefold(), row)
    return list(found.values())


def _make_hit(row: MemoryRow, score: float, words: Mapping[str, float]) -> MemoryHit:
    part = make_snippet(row.text, row.start, words)
    heading = row.heading if row.heading.endswith(part.heading) else part.heading  # a part knows none above the chunk
    day = find_day(row.path, part.heading) or row.day
    return MemoryHit(
        row.id, row.path, row.start, row.end, min(part.line, row.end), heading, day, round(score, 3), part.text
    )
