"""Frames: what a sentence has to name for it to mean something, wherever in the sentence it stands.

A template says how a sentence goes, word by word; a frame, which parts it has. The parts are read by the slots of the
grammar. What is left over decides: between the parts of a question may stand the words of `filler`, between those of an
order only those of `plain`, and anything else makes the frame no reading of the sentence. So one line of data stands for
all orders of its parts, in every language that has words for them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from picoclaw.intents.grammar import Grammar, Intent
from picoclaw.intents.sentence import Sentence, SentenceSlot, SlotReader, SlotReading, SlotValues
from picoclaw.records import NamedTuple
from picoclaw.text import stem_word

_TIMES = frozenset({"time", "repeat", "calendar", "seconds", "length", "past", "window"})
_NAMES = frozenset({"sensor", "output"})
_ORDERED = frozenset({"onoff_level", "own_driven", "run_said", "on_word", "off_word", "off_verb", "run_word", "switch"})
"""Parts behind which a length is how long an output stays on, and not how long a limit has to be passed."""
_VERBS = ("switch", "run_word", "off_verb", "level_verb", "water_verb", "verb_driven")
_NOT_LEFT = ("negations", "numbers", "units", "past", "questions")
"""Tables of words that change the meaning of what stands beside them, and are never passed over."""

Trail = tuple[tuple[SentenceSlot, Any, int], ...]
"""The slots that a sentence fills: each with its value and where it begins."""


class Piece(NamedTuple):
    """A part of a frame: one of some slots; `marks`: "?" is not needed, "+" more than once, "^" has only a time before it."""

    slots: Sequence[str]
    marks: str = ""


class Frame(NamedTuple):
    """The parts that make a sentence mean an intent; up to `left` words of a question may remain unexplained.

    `needed` are those parts that must be there, the quickest to look for first; `needs`: as those of a template.
    """

    intent: str
    pieces: Sequence[Piece]
    left: int = 0
    needed: Sequence[Piece] = ()
    needs: Sequence[frozenset[str]] = ()


class FrameFit(NamedTuple):
    """How a sentence fills a frame: `left` words were passed over, `covered` counts the words of its parts.

    `is_named`: something is named that this board has.
    """

    intent: Intent
    found: SlotValues
    left: int
    covered: int
    is_named: bool = False


class FrameReader:
    """One sentence's parts, and the frames they fill."""

    def __init__(self, book: Grammar, reader: SlotReader, s: Sentence, begin: int, end: int) -> None:
        """The words from `begin` up to `end` are the sentence, without what it begins and ends with out of politeness."""
        self._book, self._reader, self._s, self._begin, self._end = book, reader, s, begin, end
        self._readings: dict[tuple[str, int], list[SlotReading]] = {}
        self._per = book.values("per_word")
        """What asks for a figure of each day, which nothing here answers."""
        self._there: dict[str, bool] = {}

    def fits(self, frames: Sequence[Frame]) -> Iterator[FrameFit]:
        declared = {name for _, name in self._s.names.values()}
        for frame in frames:
            if not self._may_fit(frame):
                continue
            intent = self._book.intents[frame.intent]
            if (best := _FrameWalk(self, frame, intent).best()) and not _orders_two(best[2], intent):
                left, covered, trail = best
                is_named = any(slot.kind in _NAMES for slot, _, _ in trail)
                yield FrameFit(intent, _gather(trail, declared, self._splits), left, covered, is_named)

    @cached_property
    def _splits(self) -> list[int]:
        """Where an "and" stands."""
        splits = self._book.words["splits"]
        return [i for i in range(self._begin, self._end) if self._s.longest(splits, i)]

    def _may_fit(self, frame: Frame) -> bool:
        """Whether each part that is needed is somewhere, and one that comes first where the sentence may begin."""
        for piece in frame.needed:  # hundreds of times a sentence: generators would take half of its time
            stands = self._begins if "^" in piece.marks else self._is_there
            for name in piece.slots:
                if stands(name):
                    break
            else:
                return False
        return True

    def _is_there(self, name: str) -> bool:
        is_there = self._there.get(name)
        if is_there is None:
            places = self._reader.places(self._s, self._book.slot(name))
            is_there = self._there[name] = any(self.read(name, i) for i in places if self._begin <= i < self._end)
        return is_there

    def _begins(self, name: str) -> bool:
        """Whether a slot can be read where the sentence may begin."""
        return self._is_there(name) and any(self.read(name, i) for i in self._openings)

    @cached_property
    def _openings(self) -> Sequence[int]:
        """Where the first part of an order may stand: behind words that say nothing, or anywhere behind a time."""
        places = [self._begin]
        for i in places:
            if self._reader.begins_time(self._s, i):  # "please at 8 ..."
                return range(self._begin, self._end)
            places += [end for end in self.plain[i] if end < self._end and end not in places]
        return places

    def read(self, name: str, i: int) -> list[SlotReading]:
        key = (name, i)
        if (hits := self._readings.get(key)) is None:
            hits = self._readings[key] = self._read_at(self._book.slot(name), i)
        return hits

    def _read_at(self, slot: SentenceSlot, i: int) -> list[SlotReading]:
        if not (read := self._reader.read(slot, self._s, i)) or (slot.kind == "term" and self._is_one_of_two(i)):
            return []
        parted = slot.after and slot.kind in {"name", "time"}
        if parted and not self._reader.follows(slot, self._s, i, whole=slot.kind == "name"):
            return []
        hits = [(value, end) for value, end in read if end <= self._end]
        if slot.kind == "time" and slot.before:  # "in 5 minutes" is a time, "5 minutes" a length of it
            hits = [] if i in self._ends else hits
            return [hit for hit in hits if "at" in hit[0] or slot.before & set(self._s.words[i : hit[1]])]
        return [hit for hit in hits if "at" in hit[0]] if slot.after and slot.kind == "time" else hits

    @cached_property
    def _ends(self) -> frozenset[int]:
        """The words of an end: "off until tomorrow morning" is not off tomorrow morning."""
        begins = range(self._begin, self._end)
        return frozenset(word for i in begins for _, end in self.read("until_only", i) for word in range(i, end))

    def slot(self, name: str) -> SentenceSlot:
        return self._book.slot(name)

    @cached_property
    def plain(self) -> list[list[int]]:
        """Where a word that says nothing in an order ends, by where it begins."""
        places = self._pass_over("plain", "polite", "ignore", "apart")
        return [[end for end in ends if not self._is_cut(i, end)] for i, ends in enumerate(places)]

    def _is_cut(self, begin: int, end: int) -> bool:
        """Whether a phrase only begins an "if", as "des" of "dès que", is who does it, or the "too high" of the number before it."""
        s, ifs = self._s, self._book.values("if_word")
        is_wrong = begin > 0 and s.longest(self._book.values("is_wrong"), begin) is not None
        is_end = s.end_of(self._book.values("until_limit"), begin) > 0 and s.holds(self._book.values("beyond"))
        words = self._book.words
        is_who = end == begin + 1 and begin == self._begin and s.words[begin] in words["tells"] - words["it"].keys()
        if is_who and any(s.end_of(self._book.values(verb), end) for verb in _VERBS):
            return True  # "I water them every day"
        return is_end or (is_wrong and s.words[begin - 1][0].isdigit()) or s.end_of(ifs, begin) > end

    @cached_property
    def filler(self) -> list[list[int]]:
        """Where a word that says nothing in a question ends, by where it begins."""
        return self._pass_over("plain", "polite", "ignore", "filler", "lead", "wonder", "tail")

    def _pass_over(self, *names: str) -> list[list[int]]:
        tables, s = [*filter(self._s.holds, (self._book.words[name] for name in names))], self._s
        return [
            sorted(
                {hit[1] for table in tables if (hit := s.longest(table, i)) and self._may_stand(table, i, hit[1])},
                reverse=True,
            )
            if not self._is_hour(i) and not s.longest(self._per, i) and not self._is_one_of_two(i)
            else []
            for i in range(self._end)
        ]

    def _may_stand(self, table: Mapping[str, object], begin: int, end: int) -> bool:
        """Whether a phrase of a table is passed over: "that's enough, ..." as a clause of its own, and behind no "if"."""
        clauses, s = self._book.words["apart"], self._s
        if table is clauses and any(s.longest(self._book.values("if_word"), i) for i in range(begin)):
            return False
        # "it is dark" "in there"
        ends = table is not clauses or s.after_comma(end) or s.longest(clauses, end) is not None
        return end == self._end or (end < self._end and ends)

    def _is_hour(self, i: int) -> bool:
        """Whether "at one" stands there, though each of its words says nothing by itself."""
        hit, words = self._s.longest(self._book.words["at"], i), self._book.words
        if not hit or hit[1] >= self._end or self._s.longest(words["measures"], hit[1] + 1):  # "auf zwanzig Prozent"
            return False
        return isinstance(words["numbers"].get(self._s.words[hit[1]]), int)  # articles are fractions: "the next hour"

    def _is_one_of_two(self, i: int) -> bool:
        """Whether an "it" stands there that is meant beside what follows an "and": "turn it off and the lamp, too"."""
        hit, words = self._s.longest(self._book.words["it"], i), self._book.words
        return hit is not None and hit[1] < self._end and self._s.longest(words["splits"], hit[1]) is not None

    @property
    def span(self) -> tuple[int, int]:
        return self._begin, self._end

    def may_be_left(self, i: int, known: Callable[[str], bool] | None = None) -> bool:
        """Whether word `i` may remain unexplained in a question; with `known`, where what is asked is clear without it."""
        word, words = self._s.words[i], self._book.words
        is_name = i > 0 and self._s.text(i, i + 1).istitle()
        if known:
            follows = i > 0 and self._s.words[i - 1] in words["places"] and word not in words["recent"]
            is_time = word[0].isdigit() or words["numbers"].get(word, 1) != 1 or self._s.longest(self._days, i)
            is_noun = bool(words["capitals"])  # of a language whose nouns are written like names
            is_known = not follows and (not is_name or is_noun or known(stem_word(self._s.words[i])))
            return is_known and not (is_time or self._s.longest(self._per, i))
        if is_name or self._s.longest(self._s.names, i) or (i and self._s.words[i - 1] in words["places"]):
            return False
        if not word.isalpha() or any(word in words[name] for name in _NOT_LEFT) or self._s.longest(self._per, i):
            return False
        return word not in self._acts and not self._s.longest(self._days, i)

    @cached_property
    def _days(self) -> dict[str, object]:
        """What names a day: "yesterday at 3" is not "at 3"."""
        past = (self._book.values(name) for name in ("past", "earlier"))
        return {
            phrase: True
            for table in (*past, self._book.words["days"], self._book.words["calendar"])
            for phrase in table
        }

    @cached_property
    def _acts(self) -> frozenset[str]:
        return frozenset(one for word in self._book.words["acts"] for one in (word, stem_word(word)))


class _FrameWalk:
    def __init__(self, reader: FrameReader, frame: Frame, intent: Intent) -> None:
        self._reader, self._pieces, self._left = reader, frame.pieces, frame.left
        self._gaps = reader.filler if intent.kind == "" else reader.plain
        self._first = next((1 << n for n, piece in enumerate(frame.pieces) if "^" in piece.marks), 0)
        self._needed = sum(1 << n for n, piece in enumerate(frame.pieces) if "?" not in piece.marks)
        self._ordered = 1 << len(frame.pieces)  # whether the part before was one of _ORDERED
        self._memo: dict[tuple[int, int, int], tuple[int, Trail] | None] = {}

    def best(self) -> tuple[int, int, Trail] | None:
        """The words passed over, the words covered and the readings; None where the frame does not fit."""
        for left in range(self._left + 1):
            if found := self._walk(self._reader.span[0], 0, left):
                return left, found[0], found[1]
        return None

    def _walk(self, i: int, used: int, left: int) -> tuple[int, Trail] | None:
        key = (i, used, left)
        if key not in self._memo:
            self._memo[key] = None  # a reading is never empty, so that no way comes back here
            self._memo[key] = max(self._ways(i, used, left), key=lambda way: way[0], default=None)
        return self._memo[key]

    def _ways(self, i: int, used: int, left: int) -> Iterator[tuple[int, Trail]]:
        if i >= self._reader.span[1]:
            if used & self._needed == self._needed and not left:
                yield 0, ()
            return
        waits = self._first and not used & self._first
        for n, piece in enumerate(self._pieces):
            if used >> n & 1 and "+" not in piece.marks:
                continue
            for name in piece.slots:
                slot = self._reader.slot(name)
                if waits and 1 << n != self._first and slot.kind not in _TIMES:
                    continue
                if name == "hold" and used & self._ordered:
                    continue
                now = used & ~self._ordered | 1 << n | (self._ordered if name in _ORDERED else 0)
                for value, end in self._reader.read(name, i):
                    if then := self._walk(end, now, left):
                        gain = 0 if slot.kind == "text" else 2 * (end - i) + (slot.kind in _NAMES)
                        yield then[0] + gain, ((slot, value, i), *then[1])
        for end in self._gaps[i]:
            if then := self._walk(end, used, left):
                yield then
        if left and not waits and self._reader.may_be_left(i) and (then := self._walk(i + 1, used, left - 1)):
            yield then


def _orders_two(trail: Trail, intent: Intent) -> bool:
    """Whether the parts are of two orders: "to 60 %, off at ten", "the lamp to 30 % and the fan on"."""
    levels = {value for slot, value, _ in trail if slot.name == "level"}
    kinds = [slot.kind for slot, _, _ in trail if slot.kind in {"output", "percent", "seconds"}]
    ends = (n for n, pair in enumerate(pairwise(kinds), 2) if pair == ("output", "percent"))
    return "output" in kinds[next(ends, len(kinds)) :] or (len(levels) > 1 and bool(intent.make))


def _gather(trail: Trail, declared: Collection[str], splits: Sequence[int]) -> SlotValues:
    """The values of the slots; further ones are calls of their own.

    "The water in the tank" is one, unless it is `declared` or an "and" stands between, at one of `splits`.
    """
    found: SlotValues = {}
    more: dict[str, list[Any]] = {}
    begins: dict[str, int] = {}
    for slot, value, i in trail:
        before, begin = found.get(slot.name, ""), begins.setdefault(slot.name, i)
        is_one = slot.joins and before not in declared and not any(begin < split < i for split in splits)
        if not slot.name or before == "" or is_one:
            found[slot.name] = value
        elif value not in ("", before) and value not in more.setdefault(slot.name, []):
            more[slot.name].append(value)
    calls: list[dict[str, Any]] = [{}]
    for name, values in more.items():
        calls = [call | {name: value} for call in calls for value in (found[name], *values)]
    return found | ({"": {"_more": calls[1:]}} if len(calls) > 1 else {})


def read_frames(book: Grammar) -> list[Frame]:
    """Frames as the compiler has kept them."""

    @cache
    def list_needs(*names: str) -> Sequence[frozenset[str]]:
        return book.list_needs([[f"{{{name}}}"] for name in names])

    frames = []
    for intent, rows, left in book.frames:
        pieces = [Piece(*row) for row in rows]
        needed = [piece for piece in pieces if "?" not in piece.marks]
        needed.sort(key=lambda piece: not list_needs(*piece.slots))
        needs = [words for piece in needed for words in list_needs(*piece.slots)]
        frames.append(Frame(intent, pieces, left, needed, needs))
    return frames


def rank_fit(fit: FrameFit) -> tuple[int, int, bool]:
    return -fit.left, fit.covered, fit.intent.acts
