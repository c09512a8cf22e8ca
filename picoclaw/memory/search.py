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
from picoclaw.memory.dates import MONTHS, Days, apart
from picoclaw.memory.embedding import Embedder
from picoclaw.memory.entries import FOREIGN, entries
from picoclaw.memory.index import SLOTS, Index, Row, day_of, each_line, phrases
from picoclaw.text import list_query_terms, pattern

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding import Vectors


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


# How near a question is to what is remembered, by its vector.

_MOST = 12
_SAMPLE = 1020  # vectors, for what is usual
_MOST_KEPT = 16_000_000  # bytes
_PROBES = (
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
_probed: dict[tuple[str, int], "Vectors"] = {}


class Near(NamedTuple):
    """Standard scores of the nearest chunks and of others asked for, and how much the best cosine shows."""

    scores: Mapping[int, float]
    shown: float


class _Part:
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
            some = self.rows[:_SAMPLE].astype(np.float32)
            best = (some @ probes.T / self.lengths[:_SAMPLE, None]).max(axis=0)
            self._usual = float(np.sort(best)[-2]), len(some)
        return self._usual


_kept: WeakKeyDictionary[Index, tuple[tuple[int, ...], list[_Part]]] = WeakKeyDictionary()


def near(index: Index, query: str, embedder: Embedder, others: Collection[int]) -> Near | None:
    """Compare a question with all vectors; None when there are none to compare, or it cannot be embedded."""
    import numpy as np

    if index.model()[0] != embedder.name:
        return None
    try:
        wanted, probes = embedder.embed([query])[0], probe_vectors(embedder)
    except ProviderError:
        return None  # the words alone find something too
    if index.model() != (embedder.name, len(wanted)) or not wanted.any():
        return None  # another model's, until the index has been embedded anew
    numbers, cosines = [], []
    usual = None
    for part in _parts(index, len(wanted)):
        usual = usual or part.usual(probes)
        numbers.append(part.ids)
        cosines.append(part.cosines(wanted))
    if usual is None:
        return None
    every = np.concatenate(cosines)
    spread = float(every.std()) or 1.0
    expected = usual[0] + spread * (_largest(len(every)) - _largest(usual[1]))
    scores = _best(np.concatenate(numbers), (every - every.mean()) / spread, others)
    return Near(scores, shown_by_vectors(float(every.max()), expected))


def _parts(index: Index, dims: int) -> Iterator[_Part]:
    """Give all vectors: those of the last search, if they were few and none has changed."""
    version = index.version()
    held, parts = _kept.pop(index, (None, []))
    if held != version:
        parts = []  # let go of, before there are new ones
    kept: list[_Part] = []
    size = 0
    for part in parts or filter(None, (_part(found, dims) for found in index.vectors())):
        size += part.rows.nbytes
        kept.append(part)
        if size > _MOST_KEPT:
            kept.clear()
        yield part
    if size <= _MOST_KEPT:
        _kept[index] = version, kept


def _part(found: Sequence[tuple[int, int, bytes]], dims: int) -> _Part | None:
    """Take the slots of some rows that are filled; what is not as long as it should be is damaged."""
    import numpy as np

    found = [row for row in found if len(row[2]) == SLOTS * dims]
    slots = np.arange(SLOTS)
    first = np.array([block * SLOTS for block, _, _ in found])
    masks = np.array([there for _, there, _ in found], np.int64)
    there = (masks[:, None] >> slots & 1).astype(bool).ravel()
    rows = np.frombuffer(b"".join(held for _, _, held in found), np.int8).reshape(-1, dims)
    return _Part((first[:, None] + slots).ravel()[there], rows[there]) if there.any() else None


def _best(numbers: "np.ndarray[Any, Any]", scores: "Vectors", others: Collection[int]) -> dict[int, float]:
    import numpy as np

    nearest = np.argpartition(-scores, min(_MOST, len(scores)) - 1)[:_MOST]
    asked = np.flatnonzero(np.isin(numbers, list(others)))
    return {int(numbers[i]): float(scores[i]) for i in (*nearest, *asked)}


def _largest(count: int) -> float:
    """How many standard deviations the largest of so many normal numbers is above their mean, about."""
    return math.sqrt(2 * math.log(count))


def probe_vectors(embedder: Embedder) -> "Vectors":
    """Embed questions that concern nobody's notes, once for a model. Raises ProviderError."""
    if (embedder.name, embedder.dims) not in _probed:
        found = embedder.embed(_PROBES)
        _probed.clear()
        _probed[embedder.name, embedder.dims] = found
    return _probed[embedder.name, embedder.dims]


# Which lines of a chunk say what was asked, and whether a text has a word in any of its forms. Pure.

LONGEST = 300

_ENOUGH = 0.7
"""Of what the best line has: lines with less of the question's words are about something else."""

_LENT = 0.5
"""What a word of its heading counts for a line."""

_WRAPPED = 50
"""Characters of a line that an editor may have broken; shorter ones are meant so."""

_SURE = 5
"""Letters that a word and its forms share; where they are fewer, only these endings make a form of it."""

_ENDINGS = frozenset(("", "s", "e", "es", "ed", "ing", "ings", "y", "i", "ies", "ied"))
_LETTERS = pattern(r"[^\W_]*")
_JOINT = pattern(r"\s+([/…])\s+")
_MARK = pattern(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


class Snippet(NamedTuple):
    """The lines of a chunk that match; `line` is the first of them, and `heading` what that one stands under."""

    text: str
    line: int
    heading: str


class _Entry(NamedTuple):
    """A line with those that go on with it."""

    line: int
    last: int
    heading: str
    text: str


def words_in(text: str, words: Sequence[str]) -> list[str]:
    """Tell which of the words a text has in any of their forms."""
    folded = _folded(text)
    return [word for word in words if _place(folded, word) >= 0]


def snippet(text: str, start: int, words: Mapping[str, float], most: int = LONGEST) -> Snippet:
    """Take the lines out of a chunk that have most of the words, by their weights; the first ones where none has any.

    `start`: the line of its file on which the chunk begins. A heading's words count for what stands under it.
    """
    parts = _entries(text)
    values = [_value(entry, words) for entry in parts]
    best = max(values, default=0.0)
    order = sorted(range(len(parts)), key=lambda i: (-values[i], i))
    taken: list[int] = []
    room = most + 3
    for i in order:
        if taken and (values[i] < _ENOUGH * best or len(parts[i].text) + 3 > room):
            break
        taken.append(i)
        room -= len(parts[i].text) + 3
    if not taken:
        return Snippet("", start, "")
    first = parts[min(taken)]
    return Snippet(_joined([parts[i] for i in sorted(taken)], list(words), most), start + first.line - 1, first.heading)


def _value(entry: _Entry, words: Mapping[str, float]) -> float:
    own = {*words_in(entry.text, [*words])}
    lent = {*words_in(entry.heading, [*words])} - own
    return sum(words[word] for word in own) + _LENT * sum(words[word] for word in lent)


def _joined(entries: Sequence[_Entry], words: Sequence[str], most: int) -> str:
    if len(entries) == 1:
        return _around(entries[0].text, words, most)
    out = entries[0].text
    for above, entry in pairwise(entries):
        out += f"{' / ' if entry.line == above.last + 1 else ' … '}{entry.text}"
    return out


def _around(text: str, words: Sequence[str], most: int) -> str:
    """Cut a text that is too long, so that the first of the words stays, and the mark of what is not the owner's."""
    if len(text) <= most:
        return text
    told = next((f"({entry.source}) " for entry in entries(text) if FOREIGN in entry.source), "")
    most -= len(told)
    folded = _folded(text)
    places = [at for word in words if (at := _place(folded, word)) >= 0] if len(folded) == len(text) else []
    at = min(places, default=0)
    begin = 0 if at < most * 2 // 3 else text.rfind(" ", 0, at - most // 3) + 1
    head = f"{told}…" if begin else ""
    part = text[begin : begin + most - len(head.removeprefix(told))]
    return f"{head}{part}" if begin + len(part) == len(text) else f"{head}{part[:-1]}…"


def _entries(text: str) -> list[_Entry]:
    """Put lines together that are one sentence or one item of a list; headings only where there is nothing else."""
    pieces = [piece for piece in each_line(text, len(text) + 1) if piece.text.strip()]
    plain = [piece for piece in pieces if not piece.opens] or pieces
    found: list[_Entry] = []
    for above, piece in zip([None, *plain], plain, strict=False):
        words = " ".join(piece.text.split())
        if above and above.line == piece.line - 1 and _goes_on(above.text, piece.text):
            found[-1] = found[-1]._replace(last=piece.line, text=f"{found[-1].text} {words}")
        else:
            found.append(_Entry(piece.line, piece.line, piece.heading, words))
    return [entry._replace(text=_whole(entry.text)) for entry in found]


def _whole(text: str) -> str:
    """What is not the owner's word looks like one entry, also beside others."""
    return _JOINT.sub(r"\1", text) if FOREIGN in text else text


def _goes_on(above: str, line: str) -> bool:
    if _MARK.match(line):
        return False
    return line[0].isspace() or (len(above) > _WRAPPED and line[0].islower() and above[-1] not in ".!?:;")


def _folded(text: str) -> str:
    """Write a text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


@lru_cache(maxsize=256)
def _stem(word: str) -> str:
    """What the forms of a word begin with."""
    forms = list_query_terms(_folded(word))
    stem = forms[0] if len(forms) == 1 else _folded(word)
    return stem[:-1] if len(stem) > 4 and stem[-1] in "iy" else stem


def _place(text: str, word: str) -> int:
    """Find a form of a word, -1 for nowhere; letters that are written without spaces need no beginning and no end."""
    stem = _stem(word)
    at = text.find(stem) if stem else -1
    while (
        at >= 0 and stem.isascii() and (text[at - 1 : at].isalnum() or not _is_form(text, at + len(stem), stem, word))
    ):
        at = text.find(stem, at + 1)
    return at


def _is_form(text: str, end: int, stem: str, word: str) -> bool:
    """Tell whether what follows a stem makes a form of the word: notes, noted, but neither not nor nothing."""
    if len(stem) >= _SURE:
        return True
    found = _LETTERS.match(text, end)
    rest = found[0] if found else ""
    doubled = rest.removeprefix(stem[-1]) in {"ed", "ing"}
    return (rest in _ENDINGS or doubled) and bool(rest or not word.endswith(f"{stem}e"))


# Finds what is remembered, by words, vectors and the days that a question names; fusion.py says in which order.

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
    index: Index, query: str, embedder: Embedder | None, now: datetime, most: int = 6, least: float = LEAST
) -> list[Hit]:
    """Find what the notes say about a question, the best first; nothing when they say nothing. Raises StoreError."""
    query = query.replace("\0", " ")[:_LONGEST_QUERY]
    asked = understood(query, now)
    dated = [number for number, _ in index.match(day_words(asked.days), _MOST_BY_DAY)]
    if asked.days and not dated and (said := _calendar(query)) and index.match(said[:1], 1):
        asked = Asked([*asked.plain, *said], [*asked.plain, *said], [])  # nothing is of that day; another's may name it
    chunks, having = index.document_frequencies(asked.plain)
    known = any(having.values()) or not dated  # or else "last" and "Tuesday" are in a note by chance only
    text = dict(index.match(asked.words, _MOST_BY_WORDS)) if known else {}
    if not (asked.plain or dated):
        return []
    close = near(index, query, embedder, {*text, *dated}) if embedder and asked.plain else None
    rows = index.rows(list({*text, *dated, *(close.scores if close else ())}))
    on_day = {*dated} | {row.id for row in rows if within(row.day, asked.days)}
    values = fused(text, close.scores if close else None, on_day, [row.id for row in rows])
    values = with_neighbours(values, rows)
    values = {row.id: values[row.id] * (1 + leaning(row, now.date())) for row in rows}
    found = _search_best(rows, values, most)
    words = _shown_by_words(chunks, having, text, on_day, found)
    shown = together(words, close.shown if close else None)
    best = max((values[row.id] for row in found), default=0.0)
    named = {*text} | on_day
    alone = on_day if not known else set()  # "what did I write down yesterday": the day is the answer
    scored = (
        (row, max(score(shown, values[row.id], best, named=row.id in named), LEAST * (row.id in alone)))
        for row in found
    )
    weights_ = weights(chunks, having)
    return [_hit(row, score, weights_) for row, score in scored if score >= least]


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
    return list(dict.fromkeys(part for word in found for part in _search_parts(word)))[:_MOST_WORDS]


def _search_parts(word: str) -> list[str]:
    """A run of letters of a script without spaces is not one word; the index looks for its pairs."""
    return [word] if word.isascii() else [part.strip('"').replace(" ", "") for part in phrases(word)]


def _shown_by_words(
    chunks: int, having: Mapping[str, int], text: Mapping[int, float], on_day: set[int], found: Sequence[Row]
) -> float:
    held = [{*words_in(row.text, [*having])} | ({_DAY} if row.id in on_day else set()) for row in found]
    day = {_DAY: len(on_day)} if on_day else {}
    worth_ = worth(len(on_day), chunks)
    best = max((text.get(one, 0.0) + worth_ * (one in on_day) for one in {*text, *on_day}), default=0.0)
    return shown_by_words(best, chunks, {**having, **day}, held)


def _search_best(rows: Sequence[Row], values: Mapping[int, float], most: int) -> list[Row]:
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
