"""Ranks the chunks of notes for a question: which come first, and how sure the first is.

Order, the sum for each chunk:

    0.1    BM25 / best BM25
    0.033  standard deviations that its vector is nearer than the mean of all chunks
    0.17   1 if its day is one that the question names
    0.4    share of the question's words, weighted by rarity, in its best line; only for the first 24 by the sum so far;
           words of like meaning, by the shipped table of word vectors, count in part
    0.2    of what its neighbours in the file have

and some hundredths for the owner's rating and the age of the note, more for the age where a question asks for the last
time of something.

Score, 0 to 1, which means the same with every embedding and with none; 0.45 is certain, and four of five questions that
no note answers stay below it. By words: the share above; a word that is in no note weighs as one that is in two. By
vectors: the best cosine, where 0 is the second best cosine of 16 questions that concern nobody's notes and 1 a text
with itself; added with 0.3 for the shipped table and 1 for a model, and it never lowers the score by words. The other
hits have four fifths of the first one's score and the rest in proportion to their sum, or all of it in proportion if
they have neither a word of the question nor its day.
"""

import math
import re
from bisect import bisect_right
from calendar import monthrange
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, chain, count, pairwise
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from picoclaw.errors import ProviderError
from picoclaw.memory.embedding import Embedder, find_word_table
from picoclaw.memory.files import FOREIGN, SHARED_PREFIX, make_comparison_key, parse_entries
from picoclaw.memory.index import SLOTS_PER_BLOCK, IndexFile, MemoryRow, find_note_day, iter_lines, quote_phrases
from picoclaw.records import NamedTuple
from picoclaw.text import STOP_WORDS, fold_accents, list_query_terms, pattern
from picoclaw.times import MONTHS, NUMBERS, WEEKDAYS, find_latest_day

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from picoclaw.memory.embedding import StaticEmbedder, Vectors


_Key = TypeVar("_Key", bound=Hashable)


# The days that a question means: "last Tuesday", "in March", "on 3 May", "2026-03-01". English.
#
# Notes tell of what was, so a day without a year is the latest one that is not after today.


class DateRange(NamedTuple):
    """Some days in a row, both ends included."""

    first: date
    last: date


_VAGUE_COUNTS = {"a": 1, "an": 1, "couple of": 2, "few": 3}
_RANGE_WORDS = {"and", "to", "until", "till", "-", "–"}
_find_range_start = pattern(r"\b(?:between|from)\b").search

_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_MONTH_NAMES = "|".join(sorted([*MONTHS, *(m[:3] for m in MONTHS), "sept"], key=len, reverse=True))
_MONTH = rf"(?P<month>{_MONTH_NAMES})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join([*NUMBERS, *_VAGUE_COUNTS])})"
_UNIT = r"(?P<unit>day|night|week|month|year)s?"
_BEFORE_MONTHS = "in of during since from to until till by around for early mid late last".split()  # noqa: SIM905
_BEFORE_MONTH = "|".join(rf"(?<=\b{word} )" for word in _BEFORE_MONTHS)
_DAY_FIRST = rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s*{_YEAR})?"
_MONTH_FIRST = rf"{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s*{_YEAR})?"
_TWO_DAYS = pattern(rf"\b(\d{{1,2}}) (and|to|until|till|-|–) (\d{{1,2}}) ({_MONTH_NAMES})\b")


def extract_days(text: str, now: datetime) -> tuple[list[DateRange], str]:
    """Return the days that a text speaks of, in its order, and what it says besides."""
    text = _TWO_DAYS.sub(r"\1 \4 \2 \3 \4", " ".join(text.lower().replace("mid-", "mid ").split()))
    left, found = text.replace("\0", " "), []
    for form, read in _FORMS:
        for match in form.finditer(left):
            try:
                found.append((match.span(), read(match, now.date())))
            except (ValueError, OverflowError):  # 31 February, or beyond the calendar's ends
                continue
        left = form.sub(lambda match: "\0" * len(match[0]), left)
    return _join_ranges(sorted(found), text, now.date()), left.replace("\0", "")


def _join_ranges(found: list[tuple[tuple[int, int], DateRange]], text: str, today: date) -> list[DateRange]:
    """Make one row of days of "from 3 to 5 May" and of "since Monday"."""
    result: list[DateRange] = []
    end = 0
    for (start, after), days in found:
        lead = text[end:start].split()
        if result and " ".join(lead) in _RANGE_WORDS and _find_range_start(text[:end]):
            first = result[-1].first
            if first > days.last and (first.month, first.day) <= (days.last.month, days.last.day):
                first = first.replace(year=days.last.year)  # "between 11 August and 15 August 2023"
            if first <= days.last:
                result[-1], end = DateRange(first, days.last), after
                continue
        since = bool(lead) and lead[-1] == "since" and days.first <= today
        result.append(DateRange(days.first, today) if since else days)
        end = after
    return list(dict.fromkeys(result))


def _make_day(day: date) -> DateRange:
    return DateRange(day, day)


def _make_month(year: int, month: int) -> DateRange:
    return DateRange(date(year, month, 1), date(year, month, monthrange(year, month)[1]))


def _make_year(year: int) -> DateRange:
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def _make_period(unit: str, back: int, today: date) -> DateRange:
    """The calendar week, weekend, month or year so many before this one."""
    if unit in {"week", "weekend"}:
        monday = today - timedelta(today.weekday() + 7 * back)
        return DateRange(monday + timedelta(5 if unit == "weekend" else 0), monday + timedelta(6))
    if unit == "month":
        year, index = divmod(12 * today.year + today.month - 1 - back, 12)
        return _make_month(year, index + 1)
    return _make_year(today.year - back)


def _parse_month(match: re.Match[str]) -> int:
    return next(i for i, month in enumerate(MONTHS, 1) if month.startswith(match["month"][:3]))


def _parse_count(word: str) -> int:
    return int(word) if word.isdecimal() else _VAGUE_COUNTS.get(word, 0) or NUMBERS.index(word)


def _read_iso(match: re.Match[str], _: date) -> DateRange:
    year, month = int(match["year"]), int(match["month"])
    return _make_day(date(year, month, int(match["day"]))) if match["day"] else _make_month(year, month)


def _read_day_of_month(match: re.Match[str], today: date) -> DateRange:
    month, day = _parse_month(match), int(match["day"])
    return _make_day(date(int(match["year"]), month, day) if match["year"] else find_latest_day(day, month, today))


def _read_month(match: re.Match[str], today: date) -> DateRange:
    month = _parse_month(match)
    return _make_month(int(match["year"] or (today.year if month <= today.month else today.year - 1)), month)


def _read_ago(match: re.Match[str], today: date) -> DateRange:
    count, unit = _parse_count(match["count"]), match["unit"]
    if unit in {"month", "year"}:
        return _make_period(unit, count, today)
    day = today - timedelta(count * (7 if unit == "week" else 1))
    vague = timedelta(3 if unit == "week" else 2 if match["count"] == "few" else 0)
    return DateRange(day - vague, min(day + vague, today))


def _read_past(match: re.Match[str], today: date) -> DateRange:
    """Back from today: "in the last three weeks"."""
    length = {"day": 1, "night": 1, "week": 7, "month": 31, "year": 366}[match["unit"]]
    return DateRange(today - timedelta(length * _parse_count(match["count"])), today)


def _read_weekday(match: re.Match[str], today: date) -> DateRange:
    """The latest such day before today."""
    return _make_day(today - timedelta((today.weekday() - WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1))


def _read_week_before(match: re.Match[str], today: date) -> DateRange:
    """The seven days before a day: "the week before 16 November"."""
    before = _read_day_of_month(match, today).first
    return DateRange(before - timedelta(7), before - timedelta(1))


def _compile_form(text: str) -> re.Pattern[str]:
    return pattern(rf"(?<![\w-]){text}(?![\w-])")


# In this order: what an earlier form has read is not read again.
_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str], date], DateRange]]] = [
    (_compile_form(r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?:t[\d:.]+z?)?"), _read_iso),
    (_compile_form(rf"week\s+before\s+(?:the\s+)?{_DAY_FIRST}"), _read_week_before),
    (_compile_form(rf"week\s+before\s+{_MONTH_FIRST}"), _read_week_before),
    (_compile_form(_DAY_FIRST), _read_day_of_month),
    (_compile_form(_MONTH_FIRST), _read_day_of_month),
    (_compile_form(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}"), _read_month),
    (_compile_form(rf"(?:{_BEFORE_MONTH})(?P<month>{_MONTH_NAMES})(?P<year>)"), _read_month),
    (_compile_form(rf"(?P<month>{'|'.join(m for m in MONTHS if m not in {'march', 'may'})})(?P<year>)"), _read_month),
    (_compile_form(r"(?:the\s+)?day\s+before\s+yesterday"), lambda _, today: _make_day(today - timedelta(2))),
    (_compile_form(r"yesterday|last\s+night"), lambda _, today: _make_day(today - timedelta(1))),
    (_compile_form(r"today|tonight|this\s+(?:morning|afternoon|evening)"), lambda _, today: _make_day(today)),
    (_compile_form(rf"(?:a\s+)?{_COUNT}\s+{_UNIT}\s+ago"), _read_ago),
    (_compile_form(rf"(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}"), _read_past),
    (
        _compile_form(r"(?P<which>last|past|previous|this)\s+(?P<unit>weekend|week|month|year)"),
        lambda match, today: _make_period(match["unit"], int(match["which"] != "this"), today),
    ),
    (_compile_form(rf"(?:(?:last|this|past|on)\s+)?{_WEEKDAY}"), _read_weekday),
    (
        _compile_form(r"on\s+the\s+(?P<day>\d{1,2})(?:st|nd|rd|th)"),
        lambda match, today: _make_day(find_latest_day(int(match["day"]), 0, today)),
    ),
    (_compile_form(rf"(?:(?:in|of|during|since|year)\s+){_YEAR}"), lambda match, _: _make_year(int(match["year"]))),
]


# What is found, in which order, and how surely.

MIN_SCORE = 0.45
"""From this on a hit is certain; `[memory] min_score` is the owner's own."""

MAX_UNCERTAIN = 3
"""How many hits there are where fewer are certain."""

OWN_FACTOR = 1.2
"""What the score of a person's own notes is multiplied by, beside those that the household shares."""

_MIN_UNCERTAIN = 0.1  # of a single word; below it, it is the nearest of what has nothing to do with it
_MIN_NEAR = 0.05  # the same for a model's vector alone, which says more than a word
_NEAR_SHARE = 0.78  # of the least score, from which on others are shown beside what is certain
WORDS_WEIGHT, DAY_WEIGHT, DEVIATION_WEIGHT, ENTRY_WEIGHT, NEIGHBOUR_SHARE = 0.1, 0.17, 0.033, 0.4, 0.2
WORDS_ALONE_WEIGHT = 0.3
_MAX_RATED = 24  # chunks whose lines are looked at one by one
_MIN_ALIKE = 0.3  # cosine of words from which on one counts for another, in part
_TABLE_TRUST, _MODEL_TRUST = 0.3, 1.0
_DAY_SCORE = 0.7  # where a question names nothing but a day
_BOOST_WEIGHT = 0.2
_RECENCY = 0.03, 30.0  # weight, and days after which it is half
_RECENCY_LAST = 0.3, 120.0  # where the question asks for the last time
_asks_last = pattern(r"\b(?:last|latest|newest|(?:most )?recent(?:ly)?)\b").search
_MAX_NEIGHBOUR_GAP = 3  # lines between neighbours: a heading and blank ones
_MAX_BY_WORDS, _MAX_BY_DAY = 36, 24
_MAX_QUERY_CHARS, _MAX_TERMS = 2000, 32
_DAY_TERM = "the day"  # no word of a question has a space
_WORD = pattern(r"[^\W_]+")
_ENTRY_END = "\1"
_PLAIN = {code: " " for code in range(2, 127) if not chr(code).isalnum()}
_QUESTION_WORD_TEXT = """
    as being but by could d doing don every happen happened happens he her hers him his into just ll m many may might
    much must need no not our ours re remember s shall she should some t tell than their theirs them then these they
    those too us ve very whom whose why would yours
"""
_QUESTION_WORDS = STOP_WORDS.union(_QUESTION_WORD_TEXT.split())


class MemoryHit(NamedTuple):
    """A chunk that was found; `day` is '' where none is known, `score` between 0 and 1.

    `snippet` has the lines that match, `line` is the first of them, and `heading` what that one stands under.
    One that is not certain is shown because nothing better was found.
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
    is_certain: bool = True


class VectorComparison(NamedTuple):
    """The cosines of a question with all vectors there are: what is usual, and those of the nearest and of some others."""

    vectors: int
    mean: float
    deviation: float
    best: float
    cosines: dict[int, float]


class SearchIndex(Protocol):
    """What is searched: the index of a workspace, or a store that boards share. Its methods are as IndexFile has them."""

    def match(self, words: Iterable[str], most: int) -> list[tuple[int, float]]: ...
    def document_frequencies(self, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]: ...
    def rows(self, ids: Iterable[int]) -> list[MemoryRow]: ...
    def model(self) -> tuple[str, int]: ...
    def version(self) -> tuple[int, ...]: ...


class ComparingIndex(SearchIndex, Protocol):
    """One that compares vectors where they are."""

    def compare(self, wanted: "Vectors", others: Iterable[int]) -> VectorComparison | None: ...
    def usual(self, probes: "Vectors") -> tuple[float, int]:
        """Say how near the second of the probes comes to any of some vectors, and of how many."""


class _Question(NamedTuple):
    """What a question looks for: days and `dated`, the chunks that name them; `words`, and `plain`, those besides the days.

    `rest` is the question without what says the days.
    """

    days: list[DateRange]
    dated: list[int]
    words: list[str]
    plain: list[str]
    rest: str


def _read_question(index: SearchIndex, query: str, now: datetime) -> _Question:
    days, rest = extract_days(query, now)
    plain = extract_terms(rest)  # which say more than a day
    words = extract_terms(query) if plain else []  # "yesterday" alone is no word to look for
    dated = [number for number, _ in index.match(list_day_terms(days), _MAX_BY_DAY)]
    if days and not dated:  # a note of another day may name the month and the numbers
        spoken = _WORD.findall(query.lower())
        months = [word for word in spoken if word in MONTHS]
        if months and index.match(months[:1], 1):
            plain = words = [*plain, *months, *filter(str.isdecimal, spoken)]
            days = []
    return _Question(days, dated, words, plain, rest)


def search_memory(
    index: SearchIndex, query: str, embedder: Embedder | None, now: datetime, most: int = 6, least: float = MIN_SCORE
) -> list[MemoryHit]:
    """Find what the notes say about a question, the best first. Raises StoreError.

    Those below the `least` score are not certain; there are only as many of them as make MAX_UNCERTAIN of all.
    """
    query = query.replace("\0", " ")[:_MAX_QUERY_CHARS]
    days, dated, words, plain, rest = _read_question(index, query, now)
    languages = _find_languages(index)
    forms = {word: list_forms(word, languages) for word in words}
    plain = [word for word in plain if forms.get(word, True)]
    chunk_count, word_counts = index.document_frequencies({word: forms.get(word, [word]) for word in plain})
    if not (plain or dated):
        return []
    # with a date, and no other word that any note has, matches of "last" or "Tuesday" are chance
    goes_by_words = any(word_counts.values()) or not dated
    bm25_scores = dict(index.match(chain(*forms.values()), _MAX_BY_WORDS)) if goes_by_words else {}
    by_vectors = search_vectors(index, query, embedder, {*bm25_scores, *dated}) if embedder and plain else None
    z_scores, nearest = by_vectors or (None, 0.0)
    rows = index.rows({*bm25_scores, *dated, *(z_scores or ())})
    on_day = {*dated}
    on_day |= {row.id for row in rows if any(str(first) <= row.day <= str(last) for first, last in days)}
    values = combine_scores(bm25_scores, z_scores, on_day, [row.id for row in rows])
    weights = _compute_word_weights(chunk_count, word_counts)
    day_weight = _compute_word_weights(chunk_count, {_DAY_TERM: len(on_day)})[_DAY_TERM] if on_day else 0.0
    total = sum(weights.values()) + day_weight
    word_table = find_word_table(embedder) if by_vectors and embedder else None
    rated = rate_lines(sorted(rows, key=lambda row: -values[row.id])[:_MAX_RATED], weights, word_table, forms)
    exact_shares, similar_shares = (
        {id_: (max(shares[side], default=0.0) + day_weight * (id_ in on_day)) / total for id_, shares in rated.items()}
        for side in (0, 1)
    )
    for number, share in similar_shares.items():
        values[number] += ENTRY_WEIGHT * share
    values = add_neighbours(values, rows)
    weight, half_life = _RECENCY_LAST if _asks_last(rest) else _RECENCY
    for row in rows:
        age = max(0, (now.date() - date.fromisoformat(row.day)).days) if row.day else math.inf
        values[row.id] *= 1 + _BOOST_WEIGHT * row.boost + weight * math.exp2(-age / half_life)
    distinct: dict[str, MemoryRow] = {}
    for row in sorted(rows, key=lambda row: (-values[row.id], row.path, row.start)):
        if len(distinct) < most:
            distinct.setdefault(" ".join(row.text.split()).casefold(), row)
    found = list(distinct.values())
    certainty = max((exact_shares.get(row.id, 0.0) for row in found), default=0.0)
    similarity = max((similar_shares.get(row.id, 0.0) for row in found), default=0.0)
    is_near = False
    if by_vectors:
        trust = _TABLE_TRUST if word_table and embedder and word_table.name == embedder.name else _MODEL_TRUST
        certainty = max(certainty, similarity + trust * nearest)
        is_near = trust == _MODEL_TRUST and nearest > _MIN_NEAR
    is_certain = certainty >= least
    is_possible = certainty >= _MIN_UNCERTAIN or is_near or (similarity > 0 and len(plain) > 1)
    best = max((values[row.id] for row in found), default=0.0)
    hits: list[MemoryHit] = []
    for row in found:
        share = max(0.0, values[row.id]) / best if best > 0 else 1.0
        score = min(1.0, certainty) * ((4 + share) / 5 if row.id in bm25_scores or row.id in on_day else share)
        if not goes_by_words and row.id in on_day:  # "what did I write down yesterday": the day is the answer
            score = max(score, _DAY_SCORE)
        if score >= (least * _NEAR_SHARE if is_certain else least) or (
            is_possible and not is_certain and len(hits) < MAX_UNCERTAIN
        ):
            part = make_snippet(row.text, row.start, weights, shares=rated[row.id][1] if row.id in rated else ())
            heading = row.heading if row.heading.endswith(part.heading) else part.heading  # it knows none above it
            day, line = find_note_day(row.path, part.heading) or row.day, min(part.line, row.end)
            place = row.path, row.start, row.end, line, heading, day
            hits.append(MemoryHit(row.id, *place, round(score, 3), part.text, is_certain=score >= least))
    return sorted(hits, key=lambda hit: not hit.is_certain)


def merge_hits(found: Iterable[Sequence[MemoryHit]], most: int) -> list[MemoryHit]:
    """Make one list of what was found for a question in several words: by the best score, each chunk once."""
    best: dict[int, MemoryHit] = {}
    for hit in sorted(chain(*found), key=lambda hit: -hit.score):
        best.setdefault(hit.id, hit)
    certain = [hit for hit in best.values() if hit.is_certain]
    return certain[:most] or list(best.values())[: min(most, MAX_UNCERTAIN)]


def merge_scopes(
    own: Iterable[MemoryHit], shared: Iterable[MemoryHit], said: Collection[str], most: int, least: float
) -> list[MemoryHit]:
    """Make one list of what was found in a person's notes and in those of the household, by `score`.

    A person's own count for more, which makes nothing certain that was not. What the person has noted as well is shown
    once: `said` are the comparison keys of the entries in their own hits.
    """
    left = [hit for hit in shared if not _is_said(hit.snippet, said)]
    rated = [(hit, OWN_FACTOR * hit.score) for hit in own]
    rated += [(hit._replace(id=-hit.id, path=f"{SHARED_PREFIX}{hit.path}"), hit.score) for hit in left]
    is_certain = any(hit.is_certain for hit, _ in rated)
    if is_certain:
        rated = [(hit, score) for hit, score in rated if hit.is_certain or hit.score >= least * _NEAR_SHARE]
    rated.sort(key=lambda pair: (not pair[0].is_certain, -pair[1]))
    hits = [hit._replace(score=round(min(1.0, score), 3)) for hit, score in rated]
    return hits[: most if is_certain else min(most, MAX_UNCERTAIN)]


def _is_said(snippet: str, said: Collection[str]) -> bool:
    """Whether each of the lines that a snippet is made of is one of the entries; of a shortened one a part counts."""

    def is_one(part: str) -> bool:
        keys = [make_comparison_key(entry.body.replace("…", " ")) for entry in parse_entries(part)]
        return bool(keys) and all(key in said or ("…" in part and any(key in one for one in said)) for key in keys)

    return is_one(snippet) or all(map(is_one, _SNIPPET_JOINT.split(snippet)))


def extract_terms(text: str) -> list[str]:
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if word.isascii():
            found += [] if word in _QUESTION_WORDS else [word]
        else:  # a run of letters of a script without spaces is not one word; the index looks for its pairs
            found += (part.strip('"').replace(" ", "") for part in quote_phrases(word))
    return list(dict.fromkeys(found))[:_MAX_TERMS]


# German, Spanish and French notes. FTS5 stems English words only, so the others are looked for in all of their forms.

_LANGUAGES = {
    "German": (
        "und nicht ist der mit auf",
        (
            "aber als am an auch aus bei bin da dem den des die dein deine du ein eine einem einen einer es für gibt habe"
            " das haben hat ich ihr im in ins kein man mein meine meinem meinen meiner noch nur ob oder sein sind über um uns"
            " unser unsere vom von vor wann war waren warum was welche welchem welchen welcher welches wem wen wer wie wir"
            " wird wo wurde zu zum zur"
        ),
        ("e", "en", "er", "ern", "es", "n", "s"),
    ),
    "Spanish": (
        "una por del el",
        (
            "a al con como cual cuando cuándo cuánto cuántos cuál cómo de donde dónde en era es ese los las que esta este está fue"
            " ha hay he la le lo me mi mis más no nos o para pero qué quién se son su sus tengo tiene un y yo"
        ),
        ("o", "a", "os", "as", "e", "es", "s"),
    ),
    "French": (
        "une avec sur est du",
        (
            "a ai au aux avons ce ces cette combien comment dans de des elle en et il j je l la le les leur ma me mes mon ne nous on"
            " où ou par pas pour pourquoi quand que quel quelle quelles quels qui quoi sa se ses son sont t un vous à"
            " été était"
        ),
        ("e", "es", "s", "x"),
    ),
}
_LANGUAGE_SHARE = 20  # one chunk in so many has words that only such a language has
_MIN_STEM_CHARS = 3
_language_cache: WeakKeyDictionary[SearchIndex, tuple[tuple[int, ...], list[str]]] = WeakKeyDictionary()


def _find_languages(index: SearchIndex) -> list[str]:
    """Tell which languages besides English notes are written in, by their little words."""
    version = index.version()
    cached, languages = _language_cache.get(index, (None, []))
    if cached != version:
        marks = {name: marks.split() for name, (marks, _, _) in _LANGUAGES.items()}
        chunks, having = index.document_frequencies(marks)
        languages = [name for name, count in having.items() if count * _LANGUAGE_SHARE > chunks]
        _language_cache[index] = version, languages
    return languages


@lru_cache(maxsize=256)
def _list_little_words(language: str) -> frozenset[str]:
    marks, others, _ = _LANGUAGES[language]
    return frozenset([*marks.split(), *others.split()])


def list_forms(word: str, languages: Iterable[str]) -> list[str]:
    """Write a word in the forms that it may have in these languages, itself first; none for one that says nothing."""
    found = [word]
    for language in languages:
        if word in _list_little_words(language):
            return []
        endings = _LANGUAGES[language][2]
        folded = fold_accents(word)
        ending = max((end for end in endings if folded.endswith(end)), key=len, default="")
        stems = [stem for stem in (folded, folded.removesuffix(ending)) if len(stem) >= _MIN_STEM_CHARS]
        if folded.isalpha():
            found += [f"{stem}{end}" for stem in stems for end in ("", *endings)]
            found += [f"{folded}*"] if language == "German" and len(folded) >= _LONG_STEM_CHARS else []  # its compounds
    return list(dict.fromkeys(found))


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


def combine_scores(
    bm25_scores: Mapping[_Key, float],
    z_scores: Mapping[_Key, float] | None,
    on_day: Collection[_Key],
    candidates: Iterable[_Key],
    weights: tuple[float, float] | None = None,
) -> dict[_Key, float]:
    """Give each candidate its value: from BM25, from standard scores of cosines, and for its day.

    `weights` are those of BM25 and of the cosines, where they are not notes'.
    """
    words, deviation = weights or (WORDS_ALONE_WEIGHT if z_scores is None else WORDS_WEIGHT, DEVIATION_WEIGHT)
    best = max(bm25_scores.values(), default=0.0) or 1.0
    day = DAY_WEIGHT if bm25_scores else ENTRY_WEIGHT  # where no word is found, the day is all that is known
    return {
        one: words * bm25_scores.get(one, 0.0) / best
        + deviation * (z_scores or {}).get(one, 0.0)
        + day * (one in on_day)
        for one in candidates
    }


def combine_documents(
    text: Mapping[str, float], near: Mapping[str, float], weights: tuple[float, float]
) -> Mapping[str, float]:
    """Make one score of BM25 and of the standard scores of vectors, each of the best one's, by document.

    What has no word of the question is found if it is nearer to it than the nearest of so many would be by chance; where
    nothing is, vectors tell nothing, and `text` is returned.
    """
    least, best = estimate_maximum(len(near)) if near else math.inf, max(near.values(), default=0.0)
    if best < least:
        return text
    shares = {name: max(0.0, score) / best for name, score in near.items()}
    return combine_scores(text, shares, (), {*text, *(n for n, score in near.items() if score >= least)}, weights)


def add_neighbours(values: Mapping[int, float], rows: Iterable[MemoryRow]) -> dict[int, float]:
    """Add to each chunk a part of what those next to it in its file have, as far as they were found themselves."""
    more = dict(values)
    for one, other in pairwise(sorted(rows, key=lambda row: (row.path, row.start, row.id))):
        if one.path == other.path and other.start - one.end <= 1 + _MAX_NEIGHBOUR_GAP:
            more[one.id] += NEIGHBOUR_SHARE * max(0.0, values[other.id])
            more[other.id] += NEIGHBOUR_SHARE * max(0.0, values[one.id])
    return more


_ASSUMED_CHUNKS = 50  # without any of the words, thought to be there as well: three notes cannot tell what is rare
_ASSUMED_COUNT = 2  # chunks that a word in none of them is thought to be in: it may be said in other words there


def rate_lines(
    rows: Sequence[MemoryRow],
    words: Mapping[str, float],
    table: "StaticEmbedder | None",
    forms: Mapping[str, Sequence[str]],
) -> dict[int, tuple[list[float], list[float]]]:
    """For each line of some chunks, the total weight of the words that its entry or its heading has.

    Twice: of the words alone, and with words of like meaning by the table.
    """
    if not rows:
        return {}
    entries: list[str] = []
    places: list[list[int]] = []  # of each row's lines: which entry has them
    for row in rows:
        places.append([])
        above, heading = "", row.heading
        for line in row.text.split("\n"):
            if line.startswith("#"):
                heading = f"{heading} {line}"
            if above and line.strip() and _is_continuation(above, line):
                entries[-1] += f" {line}"
            else:
                entries.append(f"{heading} {line}")
            places[-1].append(len(entries) - 1)
            above = line
    folded = [fold_accents(entry) for entry in entries]
    starts = list(accumulate((len(entry) + 1 for entry in folded[:-1]), initial=0))
    joined = "\n".join(folded)
    having = {
        word: {bisect_right(starts, at) - 1 for form in forms.get(word, [word]) for at in _find_forms(joined, form)}
        for word in words
    }
    exact = [0.0] * len(entries)
    for word, found in having.items():
        for at in found:
            exact[at] += words[word]
    alike = _rate_alike(folded, words, having, table) if table and words else exact
    return {
        row.id: ([exact[at] for at in lines], [alike[at] for at in lines])
        for row, lines in zip(rows, places, strict=True)
    }


def _rate_alike(
    entries: Sequence[str], words: Mapping[str, float], having: Mapping[str, Collection[int]], table: "StaticEmbedder"
) -> list[float]:
    """Weigh the words that entries have in other words; `having` says which entries have each as it is."""
    import numpy as np

    numbers: defaultdict[str, int] = defaultdict(count().__next__)  # of all words that there are
    said = np.array([numbers[word] for word in f" {_ENTRY_END} ".join([*entries, ""]).translate(_PLAIN).split()])
    ends = np.flatnonzero(said == numbers[_ENTRY_END])
    # one number is not like another
    asked, known = (table.embed_words(["" if word.isdecimal() else word for word in some]) for some in (words, numbers))
    near = np.maximum((asked @ known.T - _MIN_ALIKE) / (1 - _MIN_ALIKE), 0)
    best = np.maximum.reduceat(near[:, said], np.concatenate([[0], ends[:-1] + 1]), axis=1)
    for row, word in zip(best, words, strict=True):
        row[list(having[word])] = 1
    return [float(share) for share in np.array(list(words.values())) @ best]


def _compute_word_weights(chunks: int, having: Mapping[str, int]) -> dict[str, float]:
    """Say how much words tell apart, by how many of the chunks have each."""
    counts = {word: n or _ASSUMED_COUNT for word, n in having.items()}
    return {word: math.log(1 + max(0, chunks + _ASSUMED_CHUNKS - n) / (n + 0.5)) for word, n in counts.items()}


# How near a question is to what is remembered, by its vector.

MAX_NEAREST = 12
_FAR_ABOVE = 2.0  # standard deviations, above which the nearest are looked for first
_MAX_DOUBT = 0.4
SAMPLE_SIZE = 1020  # vectors, for what is usual
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


class _VectorBlock:
    """Some of an index's vectors, and how long each is."""

    def __init__(self, ids: "NDArray[np.int64]", rows: "NDArray[np.int8]") -> None:
        import numpy as np

        self.ids, self.rows = ids, rows
        wide = rows.astype(np.float32)
        self.lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", wide, wide), 1))
        self._usual: tuple[float, int] | None = None

    def usual(self, probes: "Vectors") -> tuple[float, int]:
        """Say how near the second of the probes comes to any of some vectors, and of how many."""
        import numpy as np

        if self._usual is None:
            some = self.rows[:SAMPLE_SIZE].astype(np.float32)
            best = (some @ probes.T / self.lengths[:SAMPLE_SIZE, None]).max(axis=0)
            self._usual = float(np.sort(best)[-2]), len(some)
        return self._usual


_vector_cache: WeakKeyDictionary[IndexFile, tuple[tuple[int, ...], list[_VectorBlock]]] = WeakKeyDictionary()


def search_vectors(
    index: SearchIndex, query: str, embedder: Embedder, others: Iterable[int]
) -> tuple[dict[int, float], float] | None:
    """Compare a question with all vectors; None when there are none to compare, or it cannot be embedded.

    Returns standard scores of the nearest chunks and of the `others`, and how far the best of all is beyond what is
    usual for questions about something else: 1 for the same text, below 0 for what is not even that near.
    """
    if index.model()[0] != embedder.name:
        return None
    try:
        wanted, probes = embedder.embed([query])[0], embed_probes(embedder)
    except ProviderError:
        return None  # the words alone find something too
    if index.model() != (embedder.name, len(wanted)) or not wanted.any():
        return None  # another model's, until the index has been embedded anew
    if isinstance(index, IndexFile):
        usual, found = _compare_blocks(index, wanted, probes, others)
    else:
        store = cast("ComparingIndex", index)
        found = store.compare(wanted, others)
        usual = store.usual(probes) if found else None
    if usual is None or found is None:
        return None
    spread = found.deviation or 1.0
    expected = usual[0] + spread * (estimate_maximum(found.vectors) - estimate_maximum(usual[1]))
    beyond = (found.best - expected) / max(1e-6, 1 - expected)
    return {one: (cosine - found.mean) / spread for one, cosine in found.cosines.items()}, max(-_MAX_DOUBT, beyond)


def _compare_blocks(
    index: IndexFile, wanted: "Vectors", probes: "Vectors", others: Iterable[int]
) -> tuple[tuple[float, int] | None, VectorComparison | None]:
    import numpy as np

    ids, cosines = [], []
    usual = None
    for block in _iter_vector_blocks(index, len(wanted)):
        usual = usual or block.usual(probes)
        ids.append(block.ids)
        # `@` would wake a second core for so little
        cosines.append(np.einsum("ij,j->i", block.rows.astype(np.float32), wanted) / block.lengths)
    if usual is None:
        return None, None
    return usual, summarise_cosines(np.concatenate(ids), np.concatenate(cosines), others)


def summarise_cosines(
    numbers: "NDArray[np.int64]", every: "NDArray[np.float32]", others: Iterable[int], most: int = MAX_NEAREST
) -> VectorComparison:
    """Take from all cosines, in the order of their numbers, what a search needs."""
    import numpy as np

    mean, spread = every.mean(), float(every.std()) or 1.0
    above = np.flatnonzero(every - mean > _FAR_ABOVE * spread)  # few; sorting them all takes long
    above = above if len(above) >= most else np.arange(len(every))
    nearest = above[np.argpartition(-every[above], min(most, len(above)) - 1)[:most]]
    wanted_ids = np.array(list(others), np.int64)
    asked = np.minimum(np.searchsorted(numbers, wanted_ids), len(numbers) - 1)  # they come in order
    asked = asked[numbers[asked] == wanted_ids]
    cosines = {int(numbers[i]): float(every[i]) for i in (*nearest, *asked)}
    return VectorComparison(len(every), float(mean), float(every.std()), float(every.max()), cosines)


def _iter_vector_blocks(index: IndexFile, dims: int) -> Iterator[_VectorBlock]:
    """Give all vectors: those of the last search, if they were few and none has changed."""
    version = index.version()
    cached, blocks = _vector_cache.pop(index, (None, []))
    if cached != version:
        blocks = []  # let go of, before there are new ones
    kept: list[_VectorBlock] = []
    size = 0
    for block in blocks or filter(None, (_make_block(found, dims) for found in index.vectors())):
        size += block.rows.nbytes
        kept.append(block)
        if size > _MAX_CACHED:
            kept.clear()
        yield block
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


def estimate_maximum(count: int) -> float:
    """How many standard deviations the largest of so many normal numbers is above their mean, about."""
    return math.sqrt(2 * math.log(count))


def embed_probes(embedder: Embedder) -> "Vectors":
    """Embed questions that concern nobody's notes, once for a model. Raises ProviderError."""
    key = embedder.name, embedder.dims
    if key not in _probe_cache:
        found = embedder.embed(_PROBE_QUESTIONS)
        _probe_cache.clear()
        key = embedder.name, embedder.dims  # which a server's first answer tells
        _probe_cache[key] = found
    return _probe_cache[key]


# Which lines of a chunk say what was asked, and whether a text has a word in any of its forms. Pure.

_MAX_SNIPPET_CHARS = 300
_MAX_WHOLE_CHARS = 1500  # of what was noted in some time, where that is all that was asked
_MIN_LINE_SHARE = 0.7  # of what the best line has; lines with less of the question's words are about something else
_HEADING_WEIGHT = 0.5  # what a word of its heading counts for a line
_MIN_WRAPPED_CHARS = 50  # of a line that an editor may have broken; shorter ones are meant so
_LONG_STEM_CHARS = 5  # that a word and its forms share; where they are fewer, only these endings make a form of it
_ENDINGS = frozenset(("", "s", "e", "es", "ed", "ing", "ings", "y", "i", "ies", "ied"))
_LETTERS = pattern(r"[^\W_]*")
_SEPARATOR = pattern(r"\s+([/…])\s+")
_LIST_MARKER = pattern(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_SNIPPET_JOINT = pattern(r" [/…] ")


class Snippet(NamedTuple):
    """The lines of a chunk that match; `line` is the first of them, and `heading` what that one stands under."""

    text: str
    line: int
    heading: str


class _SnippetEntry(NamedTuple):
    line: int
    last: int
    heading: str
    text: str


def find_words(text: str, words: Iterable[str]) -> list[str]:
    """Tell which of the words a text has in any of their forms."""
    folded = fold_accents(text)
    return [word for word in words if _find_word(folded, word) >= 0]


def make_snippet(
    text: str, start: int, words: Mapping[str, float], most: int = 0, shares: Sequence[float] = ()
) -> Snippet:
    """Take the lines out of a chunk that have most of the words, by their weights; the first ones where none has any.

    `start`: the line of its file on which the chunk begins. A heading's words count for what stands under it. Without words
    all lines count.
    `shares`: what `rate_lines` gives its lines, in the place of that.
    """
    entries = _split_entries(text)
    most = most or (_MAX_SNIPPET_CHARS if words else _MAX_WHOLE_CHARS)
    values = []
    for entry in entries:
        if shares:
            values.append(max(shares[entry.line - 1 : entry.last]))
            continue
        own = {*find_words(entry.text, words)}
        lent = {*find_words(entry.heading, words)} - own
        values.append(sum(words[word] for word in own) + _HEADING_WEIGHT * sum(words[word] for word in lent))
    best = max(values, default=0.0)
    taken: list[int] = []
    room = most + 3
    for i in sorted(range(len(entries)), key=lambda i: (-values[i], i)):
        if taken and (values[i] < _MIN_LINE_SHARE * best or len(entries[i].text) + 3 > room):
            break
        taken.append(i)
        room -= len(entries[i].text) + 3
    if not taken:
        return Snippet("", start, "")
    first, *others = [entries[i] for i in sorted(taken)]
    out = first.text if others else _shorten(first.text, words, most)
    for above, entry in pairwise([first, *others]):
        out += f"{' / ' if entry.line == above.last + 1 else ' … '}{entry.text}"
    return Snippet(out, start + first.line - 1, first.heading)


def _shorten(text: str, words: Iterable[str], most: int) -> str:
    """Cut a long text around the first of the words; keep the mark of what is not the owner's."""
    if len(text) <= most:
        return text
    source = next((f"({entry.source}) " for entry in parse_entries(text) if FOREIGN in entry.source), "")
    most -= len(source)
    folded = fold_accents(text)
    places = [at for word in words if (at := _find_word(folded, word)) >= 0] if len(folded) == len(text) else []
    at = min(places, default=0)
    begin = 0 if at < most * 2 // 3 else text.rfind(" ", 0, at - most // 3) + 1
    head = f"{source}…" if begin else ""
    part = text[begin : begin + most - bool(begin)]
    return f"{head}{part}" if begin + len(part) == len(text) else f"{head}{part[:-1]}…"


def _split_entries(text: str) -> list[_SnippetEntry]:
    """Put lines together that are one sentence or one item of a list; headings only where there is nothing else."""
    lines = [line for line in iter_lines(text, len(text) + 1) if line.text.strip()]
    plain = [line for line in lines if not line.is_heading] or lines
    found: list[_SnippetEntry] = []
    for above, line in zip([None, *plain], plain, strict=False):
        words = " ".join(line.text.split())
        if above and above.line == line.line - 1 and _is_continuation(above.text, line.text):
            found[-1] = found[-1]._replace(last=line.line, text=f"{found[-1].text} {words}")
        else:
            found.append(_SnippetEntry(line.line, line.line, line.heading, words))
    # what is not the owner's word looks like one entry, also beside others
    return [e._replace(text=_SEPARATOR.sub(r"\1", e.text)) if FOREIGN in e.text else e for e in found]


def _is_continuation(above: str, line: str) -> bool:
    if _LIST_MARKER.match(line):
        return False
    return line[0].isspace() or (len(above) > _MIN_WRAPPED_CHARS and line[0].islower() and above[-1] not in ".!?:;")


@lru_cache(maxsize=256)
def _get_stem(word: str) -> str:
    """What the forms of a word begin with."""
    forms = list_query_terms(fold_accents(word))
    return forms[0] if len(forms) == 1 else fold_accents(word)


def _find_word(text: str, word: str) -> int:
    return next(_find_forms(text, word), -1)


def _find_forms(text: str, word: str) -> Iterator[int]:
    """Find the forms of a word; letters that are written without spaces need no beginning and no end."""
    stem = _get_stem(word)
    at = text.find(stem) if stem else -1
    while at >= 0:
        if not stem.isascii() or (not text[at - 1 : at].isalnum() and _is_form(text, at + len(stem), stem, word)):
            yield at
        at = text.find(stem, at + 1)


def _is_form(text: str, end: int, stem: str, word: str) -> bool:
    """Tell whether what follows a stem makes a form of the word: notes, noted, but neither not nor nothing."""
    if len(stem) >= _LONG_STEM_CHARS:
        return True
    found = _LETTERS.match(text, end)
    rest = found[0] if found else ""
    doubled = rest.removeprefix(stem[-1]) in {"ed", "ing"}
    return (rest in _ENDINGS or doubled) and bool(rest or not word.endswith(f"{stem}e"))
