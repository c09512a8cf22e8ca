"""A sentence as words, and the readers that turn some of them into values: numbers, times of day, names, files."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from picoclaw.intents.times import (
    RepeatTime,
    TimeReader,
    WordTables,
    count_seconds_between,
    format_whole_length,
    merge_jobs,
    parse_amount,
)
from picoclaw.messages import ToolCall
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, stem_word

MAX_CHARS = 4000  # a note may be longer than this, a request is not
MAX_WORDS = 64
_MAX_PHRASE_WORDS = 7  # of what a table has
_MIN_HEAD = 2  # letters, of a compound word
_KINDS = """
    address calendar choice days dir every file folder it label length minutes name number one output past pause percent repeat seconds
    sensor term text time value window
"""
SLOT_KINDS = frozenset(_KINDS.split())
UNWEIGHTED_KINDS = frozenset({"every", "it", "one", "percent", "output", "past", "sensor", "term", "days"})
"""Kinds whose words are no concept."""

_KINDS_OF_TALK = frozenset({"it", "one"})
"""Kinds that are read by what was said before."""

LISTED_KINDS = frozenset({"choice", "term", "days"})
"""Kinds that are read as one of their values."""

NO_CALL = ToolCall("", "")
ANY_ONE = "*"
"""Names the only one there is, in a list where what was asked for has no name."""
Names = Mapping[str, tuple[str, str]]
"""By what something may be called: "sensor" or "output", and its name."""
SlotValues = dict[str, Any]
SlotReading = tuple[Any, int]

_WORD = pattern(
    r"(?<![^\n])\+(?=\d)|(?<![\d,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,]*\d)|[^\s,;!?¡¿\"()\[\]{}<>*`“”„…]+|(?<=\s)[<>](?= ?-?\d)"
)
_DECIMAL_COMMA = pattern(r"(?<=\d),(?=\d)")
_AMOUNTS, _AMOUNT_PART = pattern(r"(?:\d+(?:[.:]\d+)?[a-z]+)+"), pattern(r"\d+(?:[.:]\d+)?|[a-z]+")
_LETTERS = pattern(r"[a-z]+")
_HEX_ADDRESS = pattern(r"0x[0-9a-f]{1,4}")
_FILE_NAME = pattern(r"[\w.~/-]*\.[^\W\d_]\w{0,7}")
_WEB_NAME = pattern(r"\.(?:com|org|net|uk|io)(?:/|$)")
_FOUND_NOTE = pattern(r"(?m)\d\d:\d\d \([^)\n]*\) ([^\n/]+?)(?= / |$)")
_SUBJECT = pattern(r"(?i)(.+? (?:is|are|ist|sind|liegt|steht|está|están|est|sont)) \S")
_ISH = pattern(r"(\d{1,2}(?:[:.]\d\d)?)ish")
_HOURS = pattern(r"(\d{1,2})h(\d\d)?")
_FOUR_DIGITS = pattern(r"(0\d)([0-5]\d)", re.ASCII)
_DIGITS = pattern(r"\d{1,9}", re.ASCII)
_PERCENT = pattern(
    r"(\d{1,3}(?:\.\d{1,2})?|[a-z]+(?: [a-z]+)?) ?(?:%|percent|per cent|prozent|por ciento|pour cent)(?= |$)", re.ASCII
)
_LEVEL = pattern(r"[1-9]\d?|100", re.ASCII)
_NO_HOUR = 40  # nor a temperature: a fan "on at 30" may be meant to wait for 30 °C
_VALUE = pattern(r"(\d{1,7}(?:\.\d{1,4})?)(°|%|[a-z°]{1,3})?", re.ASCII)
_DATE = pattern(r"\d{4}-\d\d-\d\d", re.ASCII)
_MAX_REPEAT_WORDS = 3  # before its last one
_MAX_TIME_WORDS = 20  # words
_MINUS = frozenset("-−")
_DASHES = frozenset("-−–—")
_SPAN_WORDS = frozenset({"to", "till", "until", "through", "or", *_DASHES})
_LABEL = pattern(r"[a-z0-9][a-z0-9_-]*")
_PLANNED_NAME = pattern(r'^output .*"name": "([\w-]+)"')
_LIST = pattern(r"(\w+) list(?:: | |$)")
_CONDITION = pattern(
    r"(?P<series>(?:(?P<sensor>[\w-]+)\.)?(?P<quantity>\w+)) (?P<was>above|below|at least|at most) (?P<limit>-?\d[\d.]*)"
)
_AND_WORDS = frozenset({"and", "&", "plus"})
_THOUSANDS = {"": pattern(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"), ",": pattern(r"\d{1,3}(?:[. ]\d{3})+(?:,\d+)?")}
"""By the mark of decimals where that is a comma: "10,000.5", or "10.000,5" and "10 000,5"."""
_MARKS_OF = {"": str.maketrans("", "", ","), ",": str.maketrans(",", ".", ". ")}
_SPACED_WORD = pattern(rf"(?<![\d.,])\d{{1,3}}(?: \d{{3}})+(?:\.\d+)?(?![\d.,]*\d)|{_WORD.pattern}")
_CLAUSE_MARKS = frozenset(",.;:!?")
_VOWELS = frozenset("aeiouhy")
_UMLAUTS = {ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue", ord("ß"): "ss"}
_SIGNS = frozenset("+-|=")
_TRIMMED_CHARS = "¿¡ \t\r\n.,;:?\"'“”„«»‹›"


class SentenceSlot(NamedTuple):
    """A part of a sentence that becomes an argument; `kind` says how it is read.

    `never`: words that it does not begin with, or has not. `after`: words that a name or a level stands behind. `before`:
    of a label, the nouns that it ends with; of a time or length, words of which it has one. `drop`: words that are passed
    over before it. `part`: of a time, the part of the day that is meant, "same" or "morning"; of a calendar day, "span"; of an
    output or a number, "declared" where there has to be an output here. `whole`: nothing of it may be left out.
    `joins`: two readings in one sentence name one thing together; `without`: phrases that no text of it has;
    `numbered`: words that a text, or a time, does not follow when it begins with a number, as in "reminder 3", "al 20".
    The kind is also the name of the method of SlotReader that reads it.
    """

    name: str
    kind: str
    values: Mapping[str, str]
    never: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    part: str = ""
    whole: bool = False
    joins: bool = False
    without: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()


def pick_place(items: Sequence[Any], place: int) -> list[Any]:
    """The item at a place, 1 the first and -1 the last; [] where there is none."""
    index = place - (place > 0)
    return [items[index]] if -len(items) <= index < len(items) else []


Referents = dict[str, list[Any]]
"""The values that each argument had in the last turn: one is what "it" means, several need a question."""


class LastTurn(NamedTuple):
    """What a text goes on with: what "it" may mean, and the last call."""

    referents: Referents
    call: ToolCall


NO_TURN = LastTurn({}, NO_CALL)


class Sentence:
    """A text and its words in lower case, with where each came from."""

    def __init__(self, raw: str, words: WordTables, names: Names = MappingProxyType({})) -> None:
        """Short forms ("what's", "90s", "half-past") become several words with one origin.

        `names` has what has a name here, by what it may be called.
        """
        self.raw, self.names, self._tables = raw, names, words
        self.referents: Mapping[str, Sequence[Any]] = {}
        """The values that "it" may mean, by the name of a slot."""
        self.last = NO_CALL
        self.said_before: Callable[[], Mapping[str, Any]] = dict
        self._hits: dict[int, tuple[Mapping[str, Any], dict[int, SlotReading]]] = {}
        self.readings: dict[tuple[int, int], Sequence[SlotReading]] = {}
        """What a SlotReader has read, by the slot's id and the word: templates, frames and questions ask for the same."""
        self.readings_of_talk: dict[tuple[int, int], Sequence[SlotReading]] = {}
        """What it has read of slots that depend on what was said before."""
        self.ends_of_times: dict[str, list[int]] = {}
        """Where several times of day in a row end that begin at a word, by the part of the day that is meant."""
        self.shares: list[tuple[float, str]] = []
        """What the classifier makes of it."""
        split, starts = _split_text(raw[:MAX_CHARS], words)
        self.words, self.starts = [*split], [*starts]
        self.spelt = tuple(self.words)
        self.asks = raw.rstrip()[-1:] == "?"

    def respell(self, known: Collection[str], fix: Callable[[str], str]) -> None:
        """Mend the words that are not known, but for names, which have a capital letter; free text stays as it was written.

        One that is known behind an article without its apostrophe is two: "lair" is "l' air", and "jveux" is "je veux".
        """
        for i in reversed(range(len(self.words))):
            word = self.words[i]
            if (
                word not in known
                and word.isalpha()
                and (self._tables["capitals"] or not (i and self.raw[self.starts[i]].isupper()))
            ):
                if parts := self._split_elided(word, known):
                    begin = self.starts[i]
                    self.words[i : i + 1], self.starts[i : i + 1] = parts, [begin, begin + len(word) - len(parts[1])]
                    self.spelt = (*self.spelt[:i], *parts, *self.spelt[i + 1 :])
                else:
                    self.words[i] = f"{word}g" if f"{word}g" in known and word.endswith("in") else fix(word)

    def _split_elided(self, word: str, known: Collection[str]) -> list[str]:
        for elided in self._tables["elisions"]:
            rest = word.removeprefix(elided[:-1])
            if len(rest) > 2 and rest in known:  # "dan" is "dann"
                return [elided if rest[0] in _VOWELS else f"{elided[:-1]}e", rest]
        return []

    @cached_property
    def counts(self) -> frozenset[int]:
        """Where a number may count the outputs that are named, and is no level of one: "lamp and fan off, the two"."""
        tables, last = self._tables, len(self.spelt) - 1
        numbers = [i for i, word in enumerate(self.spelt) if word.isdecimal() or word in tables["numbers"]]
        behind = {i for i in numbers if i and self.spelt[i - 1] in tables["counting"] and not self.after_comma(i)}
        if last in numbers and len({name for kind, name in self.list_values(self.names) if kind == "output"}) > 1:
            behind.add(last)  # nor is it of each: "lamp and fan at 8"
        return frozenset(behind)

    @cached_property
    def denies(self) -> bool:
        """Whether a "not" was left out of its words, as questions need none: "it isn't done"."""
        expand, said = self._tables["expand"], self.raw.lower().replace("’", "'").split()
        whole = (word if "'" in word else f"{word[:-1]}'t" for word in said)  # "isnt"
        return any(word.endswith("n't") and "not" not in expand.get(word, "not") for word in whole)

    def text(self, first: int, end: int) -> str:
        """The words from `first` up to `end` as they were written; the last word brings all that follows."""
        places = [*self.starts, len(self.raw)]
        return self.raw[places[first] : places[end] if end < len(self.words) else len(self.raw)].strip(_TRIMMED_CHARS)

    def read_last(self, name: str) -> str:
        """What the last call was about besides its arguments: the "list", a rule's "sensor", "quantity", both as "series",
        its "limit", its side ("was") and the other one ("opposite"), or a "_figure" that was asked for; '' for none.
        """
        if name[0] == "_":
            return str(self.said_before().get(name, ""))
        if name == "name" and self.last.name == "cron":
            found = _PLANNED_NAME.search(str(self.last.arguments.get("message", "")))
            return found[1] if found else ""
        if name == "list":
            given = str(self.last.arguments.get("text") or self.last.arguments.get("query") or "")
            return found[1] if (found := _LIST.match(given)) else ""
        if name in {"old_note", "subject"}:
            return self._read_last_note(name)
        found = _CONDITION.match(str(self.last.arguments.get("when", ""))) if self.last.name == "rule" else None
        if found and name == "opposite":
            return "above" if found["was"] in {"below", "at most"} else "below"
        return str(found.groupdict().get(name) or "") if found else ""

    def _read_last_note(self, name: str) -> str:
        """The note that was made or found last, and what it begins with up to its verb."""
        is_list, told = self.last.name == "memory_search", str(self.referents.get("_result", [""])[0])
        given = str(self.last.arguments.get("text") or self.last.arguments.get("new") or "")
        notes = ["", *(_FOUND_NOTE.findall(told) if is_list else self.referents.get("text", [given]))]
        place = next(iter(self.list_values(self._tables["ordinals"])), -(len(notes) == 2))  # "the last one"
        note = notes[place] if -len(notes) < place < (len(notes) if is_list else 0) else ""
        if name == "old_note":
            return note
        begin = _SUBJECT.match(note)
        return begin[1] if begin else ""

    def after_comma(self, i: int) -> bool:
        return 0 < i < len(self.words) and self.raw[: self.starts[i]].rstrip(" ¿¡")[-1:] in _CLAUSE_MARKS

    def longest(self, table: Mapping[str, Any], i: int) -> SlotReading | None:
        """The value of the longest phrase of `table` that stands at word `i`, and where it ends."""
        if (kept := self._hits.get(id(table))) is None:
            kept = self._hits[id(table)] = table, self._find_hits(table)  # with it, so that no other one gets its id
        return kept[1].get(i)

    def _find_hits(self, table: Mapping[str, Any]) -> dict[int, SlotReading]:
        """The value of the longest phrase of `table` at each word where one stands, and where it ends."""
        if not self.holds(table):
            return {}
        found = [(i, ends, next(filter(table.__contains__, ends), "")) for i, ends in enumerate(self._phrases)]
        return {i: (table[phrase], ends[phrase]) for i, ends, phrase in found if phrase}

    def end_of(self, table: Mapping[str, Any], i: int) -> int:
        """Where the longest phrase of `table` that stands at word `i` ends; 0 where none does."""
        hit = self.longest(table, i)
        return hit[1] if hit else 0

    def skip(self, tables: Sequence[Mapping[str, Any]], i: int = 0) -> int:
        """Where the phrases of some tables end that stand one behind the other from word `i` on."""
        while end := max(self.end_of(table, i) for table in tables):
            i = end
        return i

    @cached_property
    def _phrases(self) -> list[dict[str, int]]:
        """What may stand in a table at each word, the longest first, with where it ends."""
        rows = [range(min(i + _MAX_PHRASE_WORDS, len(self.words)), i, -1) for i in range(len(self.words))]
        return [{" ".join(self.words[i:end]): end for end in row} for i, row in enumerate(rows)]

    @cached_property
    def _all_phrases(self) -> frozenset[str]:
        return frozenset().union(*self._phrases)

    def holds(self, table: Mapping[str, Any]) -> bool:
        return not table.keys().isdisjoint(self._all_phrases)

    def list_values(self, table: Mapping[str, Any]) -> list[Any]:
        """The values of the phrases of `table` that stand in the sentence, the longest at each word."""
        return [hit[0] for i in range(len(self.words)) if (hit := self.longest(table, i))]


def _convert_value(name: str, number: str, measure: str) -> SlotValues:
    """A value in the unit of its quantity: "20" of "distance 0.01" is 0.2; `_scale` is for a later one without a unit."""
    quantity, *scale = measure.split()
    if not scale:
        return {name: number, "quantity": quantity}
    return {name: scale_value(number, measure), "quantity": quantity, "_scale": measure}


def scale_value(number: str, measure: str) -> str:
    _, factor, *zero = measure.split()
    value = float(number) * float(factor) + float(zero[0] if zero else 0)
    return f"{round(value, 1) if zero else value:.6g}"


@lru_cache  # a message has some ten texts, and each is asked for again and again
def _split_text(raw: str, words: WordTables) -> tuple[list[str], list[int]]:
    """The words of a text, and where each begins in it."""
    split, starts = list[str](), list[int]()
    comma = next(iter(words["decimals"]), "")
    text = (_DECIMAL_COMMA if comma else _find_comma_of_unit(words)).sub(".", raw)
    for found in (_SPACED_WORD if comma else _WORD).finditer(text):
        said = raw[found.start() : found.end()].rstrip(".%")
        is_thousand = _THOUSANDS[comma].fullmatch(said) is not None
        said = said.translate(_MARKS_OF[comma]) if is_thousand else found[0]
        spelt = said.lower().replace("’", "'").lstrip("':=+|-").rstrip("':=+|-.")
        word = fold_name(spelt) or "+" * (found[0] == "+" and not split)  # "+5 min"
        parts = _split_word(spelt, word, split, words)
        split += parts
        is_amount = len(parts) == 2 and word[0].isdigit()
        is_joined = len(parts) > 1 and word not in words["expand"] and not is_amount
        if is_joined and "".join(parts) == word.replace("-", ""):
            starts += [found.start() + at for at in _find_pieces(found[0].lower(), parts)]
            split[-len(parts)] = words["expand"].get(parts[0], parts[0])  # "lisez-moi"
            continue
        elided = re.search("['’]", found[0]) if parts and parts[0][-1:] == "'" else None
        starts += [found.start()] * (1 if elided else len(parts))
        starts += [found.start() + elided.end()] * (len(parts) - 1) if elided else []
    del split[MAX_WORDS:]
    for i in range(1, len(split) - 1):
        before, word, after = split[i - 1 : i + 2]
        if word in words["more"] and after in words["units"] and (before[0].isdigit() or before in words["numbers"]):
            split[i : i + 2] = after, word  # "10 minutes more"
    return split, starts


@lru_cache
def _find_comma_of_unit(words: WordTables) -> re.Pattern[str]:
    """A comma in a number that a unit stands behind: "1,5 minutes" is no list, in a language that writes 1.5."""
    units = "|".join(map(re.escape, sorted({*words["units"], *words["measures"]}, key=len, reverse=True)))
    return pattern(rf"(?<=\d),(?=\d\d? ?(?:{units})(?![a-z]))", re.IGNORECASE)


def _split_word(spelt: str, word: str, before: Sequence[str], words: WordTables) -> list[str]:
    """The words that one stands for: "what's" and "90s" are two, "1h30m" four, "0630" is a time of day."""
    if spelt in words["accents"]:
        return str(words["accents"][spelt]).split()
    if word in words["expand"]:
        return str(words["expand"][word]).split()
    units = words["units"].keys() | words["parts"].keys()
    if _AMOUNTS.fullmatch(word) and {*_LETTERS.findall(word)} <= units:
        return _AMOUNT_PART.findall(word)
    if about := _ISH.fullmatch(word):
        return [about[1]]
    if clock := _FOUR_DIGITS.fullmatch(word):
        return [f"{clock[1]}:{clock[2]}"]
    if (clock := _HOURS.fullmatch(word)) and (clock[2] or "h" in words["oclock"]):
        is_length = "h" not in words["oclock"] or any(" ".join(before[-n:]) in words["lasting"] for n in (1, 2))
        if not is_length or clock[2] is None:
            return [f"{clock[1]}:{clock[2] or '00'}"]
        hour, minute = (next(u for u, size in words["units"].items() if size == one) for one in (3600, 60))
        return [clock[1], hour, clock[2], minute]
    if "'" in word and f"{word.partition(chr(39))[0]}'" in words["elisions"]:
        return word.replace("'", "' ", 1).replace("-", " ").split()
    if "-" in word and word.replace("-", "").isalpha():
        parts = word.replace("-", " ").split()
        return [word] if all(part in words["days"] for part in parts) else parts  # "tue-thu" are not those two
    return _split_clitic(word, words) or (_split_compound(word, words["compounds"]) if word else [])


def _split_compound(word: str, tails: Collection[str]) -> list[str]:
    """A word and what it ends with, where that is one of `tails`: "gewaechshaustemperatur" is "gewaechshaus temperatur"."""
    tail = max((tail for tail in tails if word.endswith(tail)), key=len, default=word)
    head = word.removesuffix(tail)
    return [head, tail] if len(head) > _MIN_HEAD else [word]


def _find_pieces(word: str, parts: Sequence[str]) -> Iterator[int]:
    """Where each of the words begins that a longer one was split into: "Katzen-Erinnerung" has a text for each."""
    at = 0
    for part in parts:
        at = next((n for n in range(at, len(word)) if fold_name(word[n:]).startswith(part)), at)
        yield at
        at += 1


def _split_clitic(word: str, words: WordTables) -> list[str]:
    """A verb and the pronouns that it ends with, as `clitics` has them: "apagamelo" is "apaga lo"; else nothing."""
    for tail, told in words["clitics"].items():
        head = word.removesuffix(tail)
        if head != word and (head := words["expand"].get(head, head)) in words["hosts"]:
            return [head, *told.split()]
    return []


def fold_name(word: str) -> str:
    """Write a word as names are written, and as many type it: lüfter is luefter, éclairage eclairage."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_UMLAUTS))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def _is_file_name(word: str, names: Collection[str]) -> bool:
    """Whether a word is a file's name: it has an ending, or is a path to one of `names`, which need none."""
    _, slash, name = word.rpartition("/")
    return bool(_FILE_NAME.fullmatch(word)) or bool(slash and name in names)


def list_first_words(slot: SentenceSlot) -> frozenset[str]:
    """The words that a slot begins with which is read as one of its values; none for another one."""
    return frozenset(phrase.partition(" ")[0] for phrase in slot.values if slot.kind in LISTED_KINDS)


class SlotReader:
    """Reads slots out of a sentence: every reading is (value, index behind it), the likeliest first."""

    def __init__(self, words: WordTables) -> None:
        self._words = words
        self.times = TimeReader(words)
        self._firsts: dict[int, frozenset[str]] = {}

    @cached_property
    def acts(self) -> frozenset[str]:
        """The verbs of orders, by their stems."""
        return frozenset(map(stem_word, self._words["acts"]))

    def read(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterable[SlotReading]:
        if i >= len(s.words):
            return ()
        if slot.kind == "text":
            return self._text(slot, s, i)
        if slot.kind in LISTED_KINDS and s.words[i] not in self._first_words(slot):
            return ()
        kept, key = (
            s.readings if slot.kind not in _KINDS_OF_TALK and slot.part != "same" else s.readings_of_talk,
            (id(slot), i),
        )
        if (hits := kept.get(key)) is None:
            reader: Callable[[SentenceSlot, Sentence, int], Iterator[SlotReading]] = getattr(self, f"_{slot.kind}")
            hits = kept[key] = tuple(reader(slot, s, i))
        return hits

    def places(self, s: Sentence, slot: SentenceSlot) -> Sequence[int]:
        """Where a slot may begin: at the words that its values begin with, anywhere if it has none."""
        first = self._first_words(slot) if slot.kind in LISTED_KINDS else None
        return range(len(s.words)) if first is None else [i for i, word in enumerate(s.words) if word in first]

    def _first_words(self, slot: SentenceSlot) -> frozenset[str]:
        words = self._firsts.get(id(slot))
        if words is None:
            words = self._firsts[id(slot)] = list_first_words(slot)
        return words

    def begins_time(self, s: Sentence, i: int) -> bool:
        """Whether a time, or a length of it, may stand at word `i`."""
        near = s.words[i : i + _MAX_TIME_WORDS]
        return any(True for _ in self.times.once(near, "")) or any(True for _ in self.times.repeated(near, ""))

    def _text(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        first = i
        while first < len(s.words) - 1 and s.words[first] in slot.drop:
            first += 1
        if s.words[first] in slot.never or self._is_of_number(slot, s, i):
            return
        if not slot.name and "?" in s.raw[: s.starts[first]] and self._begins_more(s, first):
            return  # "is the fan on? Turn it on now."
        for end in range(first + 1, len(s.words) + 1):
            is_parted = slot.name == "_called" and end > first + 1 and s.after_comma(end - 1)
            polite = s.end_of(self._words["polite"], first) if end == first + 1 else 0  # "thank you cards"
            is_begun = first < polite < len(s.words) and not s.after_comma(first) and not s.after_comma(polite)
            if is_parted or (slot.without and not is_begun and self._is_condition(slot, s, end - 1)):
                return
            if not self._belongs_to_text(slot, s, end):
                yield s.text(first, end), end

    def _begins_more(self, s: Sentence, i: int) -> bool:
        """Whether an order, or one more question, begins at word `i`: "I want you to turn it on", "and the lamp?"."""
        if s.longest(self._words["splits"], i):
            return True
        begin = s.end_of(self._words["lead"], i) or i
        return begin < len(s.words) and stem_word(s.words[begin]) in self.acts

    def _belongs_to_text(self, slot: SentenceSlot, s: Sentence, i: int) -> bool:
        """Whether what says nothing elsewhere goes on with the text before word `i`: "the milk man", "slugs again"."""
        words = self._words
        is_kept = slot.name in {"text", "message"}  # no query
        if not (s.longest(words["polite"], i) or (is_kept and s.longest(words["tail"], i))) or s.after_comma(i):
            return False
        return s.longest(words["text_words"], i) is not None or s.words[i - 1] in words["unended"]

    def _is_of_number(self, slot: SentenceSlot, s: Sentence, i: int) -> bool:
        """Whether word `i` is a number that tells which one: "reminder 3" is no reminder of "3"."""
        before = s.words[i - 1] if i else ""
        word = s.words[i].lstrip("#")
        return before in slot.numbered and (word.isdecimal() or isinstance(self._words["numbers"].get(word), int))

    def _is_condition(self, slot: SentenceSlot, s: Sentence, i: int) -> bool:
        """Whether a phrase that the slot must do without stands at word `i`; "check if" is no condition."""
        found = any(" ".join(s.words[i:end]) in slot.without for end in range(i + 1, min(i + 4, len(s.words)) + 1))
        return found and not (s.words[i] == "if" and i > 0 and s.words[i - 1] in self._words["whether"])

    @staticmethod
    def _choice(slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        hit = s.longest(slot.values, i)
        while hit:  # "co2 ppm" says one thing twice, "temperature, humidity" is no single choice
            yield hit
            value, end = hit
            joint = end < len(s.words) and s.words[end] in _AND_WORDS
            hit = s.longest(slot.values, end + joint)
            if hit and hit[0] != value:
                is_all = (joint or s.after_comma(end)) and not slot.joins  # of two places each is asked about
                hit = ("", hit[1]) if is_all else None

    _term = _choice

    def _days(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """One day or several, as the numbers of a cron expression: "mondays and thursdays"."""
        found, hit = list[SlotReading](), s.longest(slot.values, i)
        while hit:
            found.insert(0, (f"{found[0][0]},{hit[0]}" if found else hit[0], hit[1]))
            begin = s.end_of(self._words["splits"], hit[1]) or hit[1]
            hit = s.longest(slot.values, s.end_of(self._words["on"], begin) or begin)
        yield from found

    def _sensor(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A sensor that is declared here, by any of its names; else a place that the data knows, as it was said."""
        yield from self._declared(s, i, "sensor")
        if (hit := s.longest(slot.values, i)) and not s.longest(s.names, i):
            yield hit[0] if hit[0] == "cpu" else s.text(i, hit[1]).lower(), hit[1]

    def _output(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """An output that is declared here, by any of its names; where none is declared, what is called as devices are."""
        yield from self._declared(s, i, "output")
        if slot.part != "declared" and all(kind != "output" for kind, _ in s.names.values()):
            yield from self._label(slot, s, i)

    @staticmethod
    def _every(slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """All outputs that are declared."""
        names = list(dict.fromkeys(name for kind, name in s.names.values() if kind == "output"))
        if names and (hit := s.longest(slot.values, i)) and hit[0]:
            more = [{slot.name: name} for name in names[1:]]
            yield {slot.name: names[0]} | ({"_more": more} if more else {}), hit[1]

    @staticmethod
    def _declared(s: Sentence, i: int, kind: str) -> Iterator[SlotReading]:
        if (hit := s.longest(s.names, i)) and hit[0][0] == kind:
            yield hit[0][1], hit[1]

    @staticmethod
    def follows(slot: SentenceSlot, s: Sentence, i: int, *, whole: bool = False) -> bool:
        """Whether word `i` stands behind "in the" or the like; `whole`: behind no bare "in"."""
        before = i - 1
        if whole and (before < 0 or s.words[before] not in slot.drop | slot.numbered):
            return False
        while before > 0 and s.words[before] in slot.drop:
            before -= 1
        return before >= 0 and s.words[before] in slot.after

    def _it(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """What was spoken of: "it", "the second one" of several; a list where unclear. With `values` it is their words, and nothing where unclear."""
        name = slot.name.lstrip("_")
        is_noted = name == "job" and s.last.name == "memory_store"  # "..., and note ..."
        known = () if is_noted else s.referents.get(name, ())
        if s.last.name == "output" and s.last.arguments.get("action") == "list" and (asked := s.read_last(f"_{name}")):
            known = [asked]  # "is the lamp on?" - "turn it off"
        if slot.part and s.last.name == "cron" and (planned := s.read_last(name)):
            known = [planned]  # "lamp on at 18:00" - "turn it off at 22:00"
        hit = s.longest(slot.values or self._words["it"], i)
        if hit:
            yield known[0] if len(known) == 1 else "" if slot.values else list(known), hit[1]
        place = None if slot.values else s.longest(self._words["ordinals"], i)
        listed = s.referents.get(f"{name}s", known)  # "the first" is one of a list, also after the second was removed
        if place and s.referents.keys().isdisjoint(("job", "rule")) and s.last.arguments.get("action") == "list":
            yield [], place[1]  # of an empty list
        if place and listed:
            yield from ((one, place[1]) for one in (pick_place(listed, place[0]) if place[0] else [min(listed)]))

    @staticmethod
    def _one(slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """What was spoken of, by its noun ("the rule"), else the only one there is."""
        known = s.referents.get(slot.name, ())
        if hit := s.longest(slot.values, i):
            yield known[0] if len(known) == 1 else {"_called": ANY_ONE}, hit[1]

    def _name(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        yield from self._choice(slot, s, i)
        if s.longest(s.names, i) or s.words[i].isdecimal() or ":" in s.words[i]:
            return
        number = s.longest(self._words["numbers"], i)
        if number and self._words["units"].keys() & s.words[number[1] : number[1] + 1]:
            return  # "sur deux jours"
        if s.words[i][0].isdigit() and self.times.read_date(s.words[i : i + 4])[1] == len(s.words) - i:
            return  # "on the 14th"
        for end in range(i + 1, min(i + 3, len(s.words)) + 1):
            word = s.words[end - 1]
            if end > i + 1 and (s.after_comma(end - 1) or s.longest(s.names, end - 1)):
                return
            foreign = end > 1 and word not in slot.values and s.text(end - 1, end)[:1].isupper()
            is_other = any(word in table for table in (slot.never, self._words["polite"], self._words["months"]))
            if foreign or is_other or not word[0].isalnum():
                return  # "in Berlin" is no place of the owner's
            yield s.text(i, end).lower(), end

    def _label(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A name of the owner's, never corrected: "grow light 2" is grow_light_2. `before` has its noun, `part` a mark behind."""
        known = next((end for _, end in self._declared(s, i, "output")), MAX_WORDS)
        for end in range(i + 1, min(i + 3, len(s.words)) + 1):
            if end > known and not s.spelt[end - 1].isdigit():
                return  # "the lamp as well" names the lamp
            words = [fold_name(word) for word in s.spelt[i:end]]
            spelt = s.spelt[end - 1]
            if spelt in self._words["negations"] or spelt in self._words["questions"]:
                return
            if (
                (end > i + 1 and s.after_comma(end - 1))
                or spelt in slot.never
                or not words[0][0].isalpha()
                or not _LABEL.fullmatch(words[-1])
            ):
                return
            noun = words[-1] if len(words) == 1 or not words[-1].isdigit() else words[-2]
            is_apart = not slot.part or s.after_comma(end)
            tails = tuple(one[1:] for one in slot.before if one[0] == "-")  # "-liste"
            has_noun = noun.endswith(tails) if tails else noun in slot.before or not noun.isalpha()
            if is_apart and (not slot.before or has_noun):
                yield "_".join(words), end

    def _file(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        if _is_file_name(s.words[i], self._words["filenames"]) and not _WEB_NAME.search(s.words[i]):
            yield s.text(i, i + 1), i + 1
        yield from self._choice(slot, s, i)

    def _folder(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        yield from self._choice(slot, s, i)
        if s.words[i] not in slot.never and not _is_file_name(s.words[i], self._words["filenames"]):
            yield s.text(i, i + 1), i + 1

    def _dir(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        word = s.words[i]
        path = word[-1] == "/" or ("/" in word and word[0] in "/~.")
        yield from self._folder(slot, s, i) if path else self._choice(slot, s, i)

    @staticmethod
    def _address(_slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        if _HEX_ADDRESS.fullmatch(s.words[i]):
            yield int(s.words[i], 16), i + 1

    def _number(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        word = s.words[i].lstrip("#")
        if slot.part == "declared" and all(kind != "output" for kind, _ in s.names.values()):
            return
        if word in slot.never or (slot.name == "level" and i in s.counts) or (i and s.words[i - 1] in slot.drop):
            return  # "until ten" is an hour
        if slot.name == "job" and s.longest(self._words["units"], i + 1):
            return  # "timer 5 minutes" is none of a number
        gap = s.raw[: s.starts[i] + 1].rstrip(word).rstrip() if i else ""
        if s.raw[s.starts[i]] in _MINUS or (gap and gap[-1] in _DASHES):
            return
        value = int(word) if _DIGITS.fullmatch(word) else self._words["numbers"].get(word)
        if isinstance(value, int):
            yield value, i + 1
        if not slot.before:  # nobody counts bytes in hex
            yield from self._address(slot, s, i)

    def _minutes(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A number alone, of minutes, in seconds: "add 5"."""
        return ((value * 60, end) for value, end in self._number(slot, s, i))

    def _time(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """When something is, once, or how long from now."""
        near = s.words[i : i + _MAX_TIME_WORDS]
        if i and s.words[i - 1] in self._words["every"]:
            return  # once is not every time
        if s.longest(self._words["every"], i) and any(self.times.repeated(near, slot.part)):
            return  # "un día sí y otro no" is not "un día"
        if end := self._find_end_of_several(slot, s, i):
            yield from self._several_times(slot, s, i, end)
            return
        lengths, count = self.times.lengths(near) if slot.name == "when" and not slot.part else ([], 0)
        if lengths:
            yield merge_jobs(lengths), i + count
            return
        stops = slot.drop if slot.before else slot.without  # "in 10 minutes for 30 seconds": when, and how long
        near = near[: next((at for at in range(1, len(near)) if near[at] in stops), len(near))]
        led = s.words[max(0, i - 1) : i] if near[0].isdecimal() else []  # "au 4" is a day
        led = [word for word in led if word in self._words["on_date"]]
        if self.times.is_date_of_months([*led, *near]):
            return
        if slot.part == "date":  # "recuérdame el 14 pagar ...", but not "el 3 de mayo"
            near = near[:2] if self.times.is_bare_date(near) and not self.times.count_day(near) else near[:1]
        for value, count in self._times_once(slot, s, i, near, led):
            lacks = {"until": "at" not in value, "_left": not str(value.get("at"))[:1].isdigit()}
            if lacks.get(slot.name) or not slot.never.isdisjoint(s.words[i : i + count]):
                continue
            if not slot.numbered.isdisjoint(led or near[: "".join(near[1:2]).isdecimal()]):
                continue
            is_length = slot.kind == "seconds"  # "on Saturday at 12 for an hour"
            if (is_length or not self._otherwise(s, i, i + count)) and not self._apart(s, i, i + count):
                yield value, i + count

    def _several_times(self, slot: SentenceSlot, s: Sentence, i: int, end: int) -> Iterator[SlotReading]:
        """Times of day in a row, where nothing else is said of when: "at 8, 12 and 18", "monday wednesday and friday at 8"."""
        times, count = self.times.several(s.words[i : i + _MAX_TIME_WORDS], "")
        is_list = slot.name == "when" and not slot.part and _SPAN_WORDS.isdisjoint(s.words[i:end])
        if not is_list or i + count != end or self._otherwise(s, i, end):
            return
        parted = sum(bool(s.after_comma(at) or s.longest(self._words["splits"], at)) for at in range(i + 1, end))
        are_days = all(" " in time for time in times)
        outside = (at for at in range(len(s.words)) if not i <= at < end)
        alone = not any(self.times.names_a_time(s.words[at : at + _MAX_TIME_WORDS]) for at in outside)
        if alone and (are_days or parted == len(times) - 1):
            yield merge_jobs([{"at": time} for time in times]), end

    def _times_once(
        self, slot: SentenceSlot, s: Sentence, i: int, near: list[str], led: list[str]
    ) -> list[SlotReading]:
        """What the words from `i` on may mean as a time, with how many of them it takes."""
        words = self._words
        readings = [(value, n - len(led)) for value, n in self.times.once([*led, *near], slot.part)]
        back = words["back" if slot.kind == "seconds" else "before"]  # "the day before" is not in a day
        is_back = any(near[end + 1 :] and near[end] in back for _, end in readings)
        repeats = (s.longest(words["repeats"], at) for at in range(max(0, i - _MAX_REPEAT_WORDS), i))
        is_repeat = any(hit and hit[1] > i for hit in repeats)  # "three times a day" is not "a day"
        if s.words[i] in words["ignore"] or is_back or is_repeat:
            readings = [one for one in readings if "at_seconds" not in one[0]]
        was_clock = slot.part == "same" and not s.last.arguments.keys().isdisjoint(("at", "cron_expr"))
        is_hour = any(word in words["oclock"] and word in words["units"] for word in near)
        if is_hour and (was_clock or slot.part == "morning"):
            # "plutôt six heures" is no length where it was seven o'clock, nor is "mets le réveil pour six heures"
            at = next(iter(words["at"])).split()
            clocks = ((value, count - len(at)) for value, count in self.times.once([*at, *near], slot.part))
            readings = [reading for reading in clocks if "at" in reading[0] and reading[1] > 0] + readings
        return readings

    def _window(self, _slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """From one time of day to another: when something begins, and how long it lasts."""
        is_bare = s.last.name != "" and s.holds(self._words["oclock"])  # "ok, then 8 to 19 o'clock"
        day, first, last, count = self.times.window(s.words[i : i + _MAX_TIME_WORDS], bare=is_bare, ahead=True)
        if count:
            first = first[:5] if s.last.name == "rule" and "o'clock" not in self._words["oclock"] else first
            seconds = count_seconds_between(first[:5], last)
            yield {"at": f"{day} {first}".strip(), "seconds": seconds, "_span": "yes"}, i + count

    def _find_end_of_several(self, slot: SentenceSlot, s: Sentence, i: int) -> int:
        """The end of more than one time of day named in a row, this one among them: "at 8, 12 and 18"; else 0."""
        if (ends := s.ends_of_times.get(slot.part)) is None:
            near = [s.words[at : at + _MAX_TIME_WORDS] for at in range(len(s.words))]
            ends = [at + self.times.several(words, slot.part)[1] for at, words in enumerate(near)]
            s.ends_of_times[slot.part] = ends
        return next((end for end in ends[max(0, i - _MAX_TIME_WORDS) : i + 1] if end > i), 0)

    def _apart(self, s: Sentence, first: int, end: int) -> bool:
        """Whether a day stands alone here and a time of day elsewhere: which is meant cannot be told."""
        if not self.times.names_a_day(s.words[first:end]):
            return False
        elsewhere = (i for i in range(len(s.words)) if not first <= i < end)
        return any(self.times.names_a_time(s.words[i : i + _MAX_TIME_WORDS]) for i in elsewhere)

    def _repeat(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        for repeat, end in self._repeated(slot, s, i):
            if slot.part == "span" and repeat.lasts and repeat.until:  # which no rule has
                yield repeat.arguments | {"seconds": repeat.lasts, "_span": "yes"}, end
            elif slot.part != "span" and not repeat.lasts:
                yield repeat.arguments, end

    def _calendar(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        for repeat, end in self._repeated(slot, s, i):
            if repeat.text and (repeat.lasts or slot.part != "span"):
                lasts = {"lasts": format_whole_length(repeat.lasts), "_span": "yes"} if repeat.lasts else {}
                begins = {"_begins": repeat.begins} if repeat.begins else {}
                more = lasts | begins
                yield {slot.name: repeat.text, **more} if more else repeat.text, end

    def _repeated(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[tuple[RepeatTime, int]]:
        for repeat, count in self.times.repeated(s.words[i : i + _MAX_TIME_WORDS], slot.part):
            outside = (at for at in range(len(s.words)) if not i <= at < i + count)
            within = any(self.times.range(s.words[at : at + _MAX_TIME_WORDS]) for at in outside)
            bounds = (at for at in range(len(s.words)) if s.longest(self._words["bounds"], at))
            if not within and not self._otherwise(s, i, i + count) and all(i <= at < i + count for at in bounds):
                yield repeat, i + count

    def _otherwise(self, s: Sentence, first: int, end: int) -> bool:
        """Whether a day is named beside a time: without its "on Friday", a reminder would come at the wrong one."""
        hits = ((i, s.longest(self._words["calendar"], i)) for i in range(len(s.words)))
        begin = first - (first > 0 and s.words[first - 1] in self._words["on"])  # "fan on" "monday to friday"
        dates = (i for i in range(len(s.words)) if not begin <= i < end and self.times.is_bare_date(s.words[i : i + 2]))
        return any(i < begin or hit[1] > end for i, hit in hits if hit) or any(True for _ in dates)

    def _past(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A time that is past: "yesterday", "in the last 24 hours", "since monday", "on 2026-11-20", "from monday to friday"."""
        if i and s.words[i - 1] in self._words["every"]:
            return  # once is not every time
        yield from self._days_between(slot, s, i)
        for at in range(i, len(s.words)):
            if hit := s.longest(slot.values, at):
                yield from self._same_hour(hit, s.end_of(self._words["same_hour"], hit[1]))
                yield hit
            elif (then := s.end_of(self._words["same_hour"], at)) and (hit := self._named_day(slot, s, then)):
                yield from self._same_hour(hit, hit[1])
            elif _DATE.fullmatch(s.words[at]):
                yield s.words[at], at + 1
            since = at + 1 if s.words[at] in self._words["since"] and at + 1 < len(s.words) else 0
            if since and (hit := s.longest(slot.values, since)):
                yield f"since {hit[0].removeprefix('at ')}", hit[1]
            for value, count in self.times.past(s.words[at : at + _MAX_TIME_WORDS]):
                yield value, at + count
            if s.words[at] not in slot.drop:
                return

    @staticmethod
    def _same_hour(day: SlotReading, end: int) -> Iterator[SlotReading]:
        """ "On Tuesday at the same time": no such time is there of today, or of a night."""
        if end and str(day[0]).endswith(("day", "days ago")) and day[0] != "today":
            yield f"this time {day[0]}", end

    def _pause(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A time ahead, in which something is left out: "next time", "tomorrow", "until friday", "for 3 days"."""
        if hit := s.longest(slot.values, i):
            yield hit
        elif found := self.times.pause(s.words[i : i + _MAX_TIME_WORDS]):
            yield found[0], i + found[1]

    def _days_between(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        begins = s.longest(self._words["span_begins"], i)
        first = self._named_day(slot, s, begins[1] if begins else i)
        is_span = first and (begins or not s.longest(self._words["splits"], first[1]))  # not "monday and today"
        ends = first and is_span and s.longest(self._words["span_ends"], first[1])
        last = ends and self._named_day(slot, s, ends[1])
        if first and last:
            yield f"since {first[0]}" if last[0] == "today" else f"{first[0]} to {last[0]}", last[1]

    @staticmethod
    def _named_day(slot: SentenceSlot, s: Sentence, i: int) -> SlotReading | None:
        """A day in words, behind what may stand before it."""
        while i < len(s.words) - 1 and s.words[i] in slot.drop and not s.longest(slot.values, i):
            i += 1
        return s.longest(slot.values, i)

    def _seconds(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """How long: "90 s", "half an hour"; with none of the words in `never`, which tell when."""
        for value, end in self._time(slot, s, i):
            signs = any(s.raw[s.starts[at]] in _SIGNS for at in range(i, end))
            signs = signs or (i > 0 and s.words[i - 1] in slot.never)
            is_led = not slot.before or not slot.before.isdisjoint(s.words[i:end])
            if "at_seconds" in value and not signs and is_led:
                yield value["at_seconds"], end

    def _length(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A length in words, whatever else is said of when."""
        for value, count in self.times.once(s.words[i : i + _MAX_TIME_WORDS], slot.part):
            if "at_seconds" in value and slot.never.isdisjoint(s.words[i : i + count]):
                yield format_whole_length(value["at_seconds"]), i + count

    def _value(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """A measured value, with what is measured in its unit: "21.5 °C", "minus 5", "20%"."""
        at = i + (s.words[i] == slot.part)
        numbers = self._words["numbers"]
        spoken = s.words[at] if at < len(s.words) else ""
        found = _VALUE.fullmatch(str(numbers[spoken]) if isinstance(numbers.get(spoken), int) else spoken)
        if not found:
            return
        sign = "-" if at > i or s.raw[s.starts[at]] in _MINUS else ""
        measures = self._words["measures"]
        number = f"{sign}{found[1]}"
        two = f"{spoken} {s.words[at + 1]}" if spoken in numbers and at + 1 < len(s.words) else ""
        if two and (both := parse_amount(two, numbers)):
            number, at = f"{sign}{both:g}", at + 1  # "twenty five"
        hit = s.longest(measures, at + 1)
        if not found[2] and hit:
            yield _convert_value(slot.name, number, hit[0]), hit[1]
        elif not found[2]:
            yield {slot.name: number}, at + 1
        elif found[2] in measures:
            yield _convert_value(slot.name, number, measures[found[2]]), at + 1

    def _percent(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        lengths = (count for value, count in self.times.once(s.words[i : i + 4], "") if "at_seconds" in value)
        hit = s.longest(slot.values, i)
        ends = s.words[hit[1] - 1 : hit[1] + 1] if hit else []
        is_hour = len(ends) > 1 and ends[0] in self._words["offsets"] and ends[1][0].isdigit()
        if hit and i + max(lengths, default=0) <= hit[1] and not is_hour:
            yield hit  # but "half an hour" is no half, nor is "half 7"
        found = _PERCENT.match(" ".join(s.words[i : i + 4]))
        value = parse_amount(found[1], self._words["numbers"]) if found and s.raw[s.starts[i]] not in _SIGNS else 0.0
        if found and value:
            yield f"{value:g}", i + len(found[0].split())
        elif self._is_bare_level(slot, s, i):
            yield s.words[i], i + 1

    def _is_bare_level(self, slot: SentenceSlot, s: Sentence, i: int) -> bool:
        """Whether word `i` is a number from 1 to 100 with no unit behind "to", or a high one behind "at"."""
        if not i or not _LEVEL.fullmatch(s.words[i]):
            return False
        is_at = s.words[i - 1] in self._words["at"] and int(s.words[i]) > _NO_HOUR
        if s.words[i - 1] not in slot.after and not is_at:
            return False
        tables = (
            self._words[name]
            for name in ("units", "oclock", "measures", "months", "parts", "quarters", "days", "offsets")
        )
        return not any(s.longest(table, i + 1) for table in tables)
