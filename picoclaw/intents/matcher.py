"""Understands one sentence without a model: by templates with slots, by its parts, and by its topic.

Only grammar is here. Words, templates and frames are data that the owner can change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain, count, islice, pairwise
from typing import TYPE_CHECKING, Any

from picoclaw.files import find_shipped
from picoclaw.intents.arguments import (
    MAX_CONTINUED_WORDS,
    READS,
    Draft,
    find_named,
    find_way,
    list_value_words,
    word_exact,
    word_value,
)
from picoclaw.intents.changes import keep_hour
from picoclaw.intents.conversation import LOOK_UP
from picoclaw.intents.grammar import (
    FIELD,
    NEEDS_CLOCK,
    WHOLE_ROUTES,
    Grammar,
    Intent,
    IntentMatch,
    Offered,
    Template,
    TemplateEdges,
    fill_fields,
    is_complete,
    is_whole,
    make_match,
)
from picoclaw.intents.sentence import (
    NO_TURN,
    LastTurn,
    Sentence,
    SentenceSlot,
    SlotReader,
    SlotReading,
    SlotValues,
    fold_name,
)
from picoclaw.intents.spelling import SpellingCorrector, Vocabulary
from picoclaw.intents.times import NO_HOUR, OCLOCK
from picoclaw.text import pattern, stem_word

if TYPE_CHECKING:
    from picoclaw.intents.frames import Frame
    from picoclaw.intents.questions import QuestionReader
    from picoclaw.intents.topics import Features, TopicClassifier, Topics

MAX_CLASSIFIED = 30
_MAX_KEPT_TEXTS = 32  # that were read last; 20 KB each, and a message has some six
SENTENCE_END = pattern(r"(?<=[.!?]) +|, +")
_CLOCK = pattern(rf"\d\d:\d\d(?:{OCLOCK})?")
_QUOTE_MARKS = frozenset(">\"'`«»“”„‘’‹›")
_MIN_TEXT = 2  # words, of a text that is proposed
WHICH, HOLE = "which", "999"
"""The slot of a proposal that is looked for in a list, and what stands in its place until it is found there."""
_TWICE = pattern(r"\b([^\W\d_]+) \1\b")
_APOSTROPHE = pattern(r"(?<=\w)['’](?=\w)")
_LEFT_COST = 0.15  # of the score, for each word that was passed over
MIN_TOPIC_SHARE, MIN_PROPOSED = 0.6, 0.5
_TOPIC_COST = 0.01
_EMPTY_WORDS = ("questions", "filler", "plain", "polite", "ignore", "it", "reported")
_SAYING_NOTHING = ("plain", "polite", "ignore", "numbers", "units", "at", "on", "it")
SURE_PART, SURE_WHOLE, SURE_ORDER = 0.65, 0.8, 0.9
"""The share of a topic that outweighs a match of a part of the sentence, of all of it, and an order."""
SURE_STRANGE = 0.95  # where a word was never met
_OUTWEIGHED = {
    "refused": (SURE_WHOLE, 0.2),
    "swallows": (0.5, 0.15),
    "moves": (SURE_ORDER, 0.04),
    "whole": (SURE_WHOLE, 0.05),
    "part": (SURE_PART, 0.2),
}
"""By kind of match, the first that it is: it gives way to a topic with the first share, if its own have less than the second."""
MIN_HINT = 0.15  # of orders, where it is only said how a rule is set
MIN_WHEN = 0.3  # of questions when something was measured, where a date could be reckoned
MIN_DEVICE = 0.3
"""The share of orders to outputs from which on what they name is missed, where it is not declared."""
MAX_TALK_SHARE = 0.4  # of the share of an order
_OF_BOARD = frozenset({"", "board_status", "sensor_list", "sensor_read", "output", "output_history"})
"""Tools that tell of this board alone: a word that was never met changes little of what they are asked."""
SURE_BOARD = 0.7
# The shares of orders where it is said that nothing was done, and where nothing was asked.
MIN_UNDONE, MIN_ORDERED = 0.1, 0.5
_ALL_NOTES = "last 12 months"
_LONG_DAYS = frozenset({"today", "tonight", "week"})
"""Whose words may mean how often something comes, or a time of day: "this week" of every week."""
_ABOUT_ANY = frozenset({"not_wanted", "remark", "reported"})
"""Talk that may name what is measured and switched, and that a sentence is not which asks without a question."""
_SURE_OF_QUESTIONS = {"remark": SURE_WHOLE, "reported": MIN_PROPOSED, "not_wanted": SURE_PART}
"""The share from which on a question is such talk."""
_WITH_NOT = frozenset({"cron_add", "rule_pause", "rule_pause_output"})
"""Intents whose orders may have a "not" themselves."""
_HINTS = frozenset({"rule_condition", "output_planned"})
"""Intents that only say how something is said, and take any text with an "if"."""
_SAYING = ("negations", "past", "days", "until", "bounds")
_SAYING_OF_TIME = ("months", "every", "repeats", "parts")
_TIME_KINDS = frozenset({"time", "repeat", "calendar"})
_EARLIER_DAYS = frozenset({"yesterday", "day before yesterday"})
_LENGTHS = frozenset({"length", "seconds"})
_TIMED_KINDS = _TIME_KINDS | {"output"}
_SAYING_SLOTS = (("off_word", "off_verb", "off_said", "drop_verb"), ("if_word",), ("when", "often", "seconds", "pause"))
MAX_BARE_WORDS = 3
_MIN_STRANGE = 4  # letters, of a word that the classifier may not have met
_MAX_UNTOLD = 2  # words, of what is no statement yet
SURE_WORDS = 0.75  # of a request that a job makes
MAX_SHORT_WORDS = 4  # words; "how many hectopascals" is short for "do we have here"


class TemplateWalk:
    """One sentence's way through the templates."""

    def __init__(
        self,
        reader: SlotReader,
        vocabulary: Vocabulary,
        sentence: Sentence,
        ends: Sequence[int],
        polite: Mapping[int, int],
    ) -> None:
        """`ends`: where a sentence may stop; `polite`: from and to where it may be passed over."""
        self._reader, self._sentence, self._ends = reader, sentence, ends
        self._labels = [(word, "@" + vocabulary[word]) for word in sentence.words]
        self._failed: set[tuple[int, int]] = set()
        self._polite = polite
        self.lacks = frozenset(chain.from_iterable(self._labels)).isdisjoint
        """Whether a sentence has none of some words and "@concepts"."""

    def fit(self, edges: TemplateEdges, i: int, found: SlotValues, score: int = 0) -> tuple[int, SlotValues] | None:
        """The slots of the first way that ends well, and how many words it does not owe to free text."""
        if (id(edges), i) in self._failed:
            return None  # without this, nested options on a hostile text would take exponential time
        words, slots = edges.sorted
        for label in self._labels[i] if i < len(self._labels) else ():
            for then in words.get(label, ()):
                if fit := self.fit(then, i + 1, found, score + 1):
                    return fit
        fit = next(filter(None, (self._slot(slot, then, i, found, score) for slot, then in slots)), None)
        if not fit and "" in words and i in self._ends:
            return score, found
        if not fit and i in self._polite:
            fit = self.fit(edges, self._polite[i], found, score)
        if not fit:
            self._failed.add((id(edges), i))
        return fit

    def _slot(
        self, slot: SentenceSlot, then: TemplateEdges, i: int, found: SlotValues, score: int
    ) -> tuple[int, SlotValues] | None:
        for value, end in self._reader.read(slot, self._sentence, i):
            free = slot.kind == "text" or (slot.kind == "name" and value not in slot.values.values())
            gain = 0 if free else end - i + (slot.kind == "it" and not isinstance(value, list))
            fit = self.fit(then, end, add_value(found, slot, value), score + gain)
            if fit:
                return fit
        return None


def is_all(match: IntentMatch) -> bool:
    """Whether a match is of all that the sentence says."""
    return match.score == 1.0 and match.route in WHOLE_ROUTES


def is_quoted(s: Sentence, begin: int) -> bool:
    """Whether the words from `begin` on are what somebody else has said: behind a quotation mark or ">"."""
    return not _QUOTE_MARKS.isdisjoint(_APOSTROPHE.sub("", s.raw[: s.starts[begin] + 2])[: s.starts[begin] + 1])


def add_value(found: SlotValues, slot: SentenceSlot, value: Any) -> SlotValues:
    """Add a slot's value; "the soil in the greenhouse" is one place, and none of the two alone."""
    before = found.get(slot.name) if slot.joins else None
    joined = f"{before} {value}" if before and value != before else value
    return {**found, slot.name: slot.values.get(joined, joined) if slot.joins else value}


class SentenceForms:
    """Where a sentence begins and ends without its polite words, and whether it asks, wishes, orders, tells or denies something."""

    def __init__(self, book: Grammar) -> None:
        self._book, self.words = book, book.words
        self._reader = SlotReader(book.words)
        self.times = self._reader.times
        self._lead = self.words["lead"] | self.words["wonder"]
        self._acts = self._reader.acts
        self._verbs = self.words["verbs"].keys() | self.words["past"].keys()

    def _core(self, s: Sentence) -> tuple[list[int], list[int], Mapping[int, int]]:
        """Where the sentence may begin and end, with and without its polite words, and from and to where these stand."""
        polite = {i: hit[1] for i in range(len(s.words)) if (hit := s.longest(self.words["polite"], i))}
        begins, ends = [0], [len(s.words)]
        while end := s.end_of(self._lead, begins[-1]) or polite.get(begins[-1], 0) or self._after_no(s, begins[-1]):
            if end >= len(s.words):
                break
            begins.append(end)
        backwards = {end: start for start, end in reversed(list(polite.items()))}
        while (end := self._without_tail(s, begins[-1], ends[-1]) or backwards.get(ends[-1], 0)) > begins[-1]:
            ends.append(end)
        return begins, ends, polite

    def _without_tail(self, s: Sentence, begin: int, end: int) -> int:
        tails = self.words["tail"]
        return next((i for i in range(max(begin + 1, end - 4), end) if " ".join(s.words[i:end]) in tails), 0)

    def _skip_no(self, s: Sentence) -> int:
        """Where a sentence begins behind its "no,"."""
        start = 0
        while hit := s.longest(self.words["polite"], start) or s.longest(self._lead, start):
            if s.longest(self.words["declines"], start) or s.longest(self.words["waits"], start):
                break
            start = hit[1]
        return self._after_no(s, start)

    def _after_no(self, s: Sentence, i: int) -> int:
        """Where a "no," or "no wait" ends that stands at word `i`; 0 where none does."""
        if (end := s.end_of(self.words["waits"], i)) and end < len(s.words):
            return end
        end = s.end_of(self.words["declines"], i)
        if not 0 < end < len(s.words):
            return 0
        negations, is_one = self.words["negations"], end == i + 1
        is_doubled = is_one and s.end_of(self.words["declines"], end) == end + 1  # "no no make it 30"
        is_order = is_one and stem_word(s.words[end]) in self._acts and not s.longest(negations, i)
        is_order &= s.longest(self.words["it"], end + 1) is not None  # "no make it 30"
        is_short = len(s.words) <= end + 2 or s.longest(self._book.values("is_wrong"), end + 1) is not None
        is_number = is_short and s.words[end].isdecimal()  # "no 17 degrees"
        is_end = is_one and s.words[-1][0].isdigit() and len(s.words) <= end + MAX_BARE_WORDS
        is_end &= s.end_of(self.words["until"], end) > 0  # "no until 11"
        if not (s.after_comma(end) or is_doubled or is_order or is_number or is_end):
            return 0
        is_refusal = not is_one and any(s.longest(negations, n) for n in range(end, len(s.words)))
        return 0 if is_refusal else end  # "no thank you, please do not ..."

    def _asks(self, s: Sentence, begin: int) -> bool:
        """Whether a sentence asks: by its mark, the word it begins with, or as "I wonder whether ..."."""
        words = self.words
        return s.asks or s.end_of(words["questions"], begin) > 0 or s.holds(words["wonder"])

    def _wonders(self, s: Sentence) -> bool:
        """Whether a sentence begins as one that asks without asking: "I wonder whether ...", "I don't remember if ..."."""
        return any(s.end_of(self.words["wonder"], i) for i in self._core(s)[0])

    def _asks_to_act(self, s: Sentence) -> bool:
        """Whether something is to be done, and not only told: "can you close the door?"."""
        return s.holds(self.words["requests"]) and not self._has(s, "tell_word")

    def _is_wish(self, s: Sentence, begin: int = -1) -> bool:
        """Whether a sentence is no question but "could you ...?"; its first word counts where `begin` is given."""
        words = self.words
        if s.holds(words["requests"]):
            return True
        if "?" in s.raw:
            return False
        if begin < 0 or not s.end_of(words["questions"], begin) or s.end_of(words["negations"], begin):
            return True
        if begin and s.words[begin - 1] in words["polite"] and s.end_of(self._book.values("let_verb"), begin):
            return True  # "please have the lamp come on"
        begin += s.words[begin] in words["narrows"]  # French "que le week-end"
        return self.times.count_part(s.words[begin : begin + MAX_SHORT_WORDS]) > 0  # "esta noche" is no "está"

    def _wishes(self, s: Sentence, *, is_behind: bool = False) -> bool:
        """Whether a sentence wishes that something is done, or what stands behind a comma or an "and" in it."""
        if not s.words:
            return False
        begin, words = self._core(s)[0][-1], self.words
        asked = [i for i in range(begin) if s.end_of(words["requests"], i)]
        later = [i for i in range(begin + 1, len(s.words)) if s.after_comma(i) or s.words[i - 1] in words["splits"]]
        for i in later:  # "..., so kindly pause it"
            end = s.end_of(self._lead, i) or s.end_of(words["polite"], i)
            later += [end] if end < len(s.words) and end not in {0, *later} else []
        later += [] if is_behind else [begin]
        acts = (self._orders(s, i) and s.words[i] not in words["tells"] for i in later)
        later += [] if is_behind or s.end_of(words["questions"], begin) else asked
        return any(acts) or any(s.end_of(words["requests"], i) for i in later)

    def _orders(self, s: Sentence, begin: int) -> bool:
        """Whether a sentence begins with the verb of an order, or ends with one: "das Licht ausmachen"."""
        if stem_word(s.words[begin]) in self._acts:
            return True
        ends, end = self.words["ends"], len(s.words)
        return not self._asks(s, begin) and any(s.end_of(ends, i) in {end, i + 2} for i in range(begin + 1, end))

    def _is_telling(self, s: Sentence, begin: int) -> bool:
        """Whether a sentence begins with who does something, has a verb, and neither asks nor orders: "I've got no milk"."""
        if s.words[begin] not in self.words["tells"] or self._asks(s, begin) or self._orders(s, begin):
            return False
        return not self._verbs.isdisjoint(s.words[begin + 1 :])

    def _is_statement(self, s: Sentence) -> bool:
        """Whether a sentence asks nothing, says no "not" or "if", and is not about what somebody has said."""
        if not s.words or s.asks or is_quoted(s, len(s.words) - 1) or self._says_if(s):
            return False
        negations = self.words["negations"]
        says_who = s.words[0] in self.words["tells"] and not s.longest(negations, 0)
        if s.longest(self._book.values("not_word"), 0) or (s.holds(negations) and not says_who):
            return False  # but "I cannot hear it" says no to nothing
        own = s.end_of(self._book.values("aside_word"), 0)  # "I think it is ..."
        wrong = self._book.values("is_wrong")  # "30 is too high"
        return not any(
            (i >= own and s.longest(self.words["reported"], i)) or (word[0].isdigit() and s.longest(wrong, i + 1))
            for i, word in enumerate(s.words)
        )

    def _is_told(self, text: str) -> bool:
        """Whether a text tells something: it has a verb, and does not begin with an order or a question."""
        s = Sentence(text, self.words)
        orders = stem_word(s.words[0]) in self._acts or s.end_of(self.words["questions"], 0) > 0
        return self._is_statement(s) and not orders and not self._verbs.isdisjoint(s.words)

    def _says_if(self, s: Sentence) -> bool:
        """Whether an "if" stands in a sentence: "s'il vous plaît" is none, and "at the minute" at its end neither."""
        ifs, polite, end = self._book.values("if_word"), self.words["polite"], len(s.words)
        now = next((i for i in range(max(0, end - 3), end) if s.end_of(self._book.values("now_word"), i) == end), end)
        return any(s.longest(ifs, i) and not s.longest(polite, i) for i in range(now))

    def _is_negated(self, s: Sentence, end: int, ends: Sequence[str] = ()) -> bool:
        """Whether a "not" stands up to word `end`, but for a "no," that only answers; `ends`: spans of what is to end."""
        if not s.holds(self.words["negations"]):
            return False
        begin = self._skip_no(s)
        begin = s.end_of(self.words["wonder"], begin) or begin  # "I don't remember whether it ran"
        if ends:
            tables = [self._book.values(name) for name in ends]
            said = {n for i in range(end) for table in tables if (hit := s.longest(table, i)) for n in range(i, hit[1])}
            return any(s.longest(self.words["negations"], i) and i not in said for i in range(begin, end))
        for name in ("drop_verb", "stop_word", "wrong_one", "skip_word"):  # "forget it" as a whole is an order
            if end_of := s.end_of(self._book.values(name), begin):
                begin = end_of
                break
        polite = self.words["polite"]  # "if it is no trouble" is none
        hits = [(i, hit[1]) for i in range(begin, end) if (hit := s.longest(polite, i)) and hit[1] - i > 2]
        return any(
            s.longest(self.words["negations"], i) and not self._ends_output(s, i)
            for i in range(begin, end)
            if not any(n < i < to for n, to in hits)
        )

    def _ends_output(self, s: Sentence, i: int) -> bool:
        """Whether a verb at word `i` ends an output that is named behind it: "at ten stop the fan" negates nothing."""
        then = s.end_of(self._book.values("off_verb"), i)
        then += 0 < then < len(s.words) and s.words[then] in self.words["ignore"]
        return then > 0 and (s.longest(s.names, then) or (("",), 0))[0][0] == "output"

    def _has(self, s: Sentence, *names: str) -> bool:
        """Whether a phrase of one of some slots stands in a sentence."""
        return any(s.holds(self._book.values(name)) for name in names)


class IntentMatcher(SentenceForms):
    """Tables of data, ready to understand sentences."""

    def __init__(self, data: Sequence[Mapping[str, Any]] | Grammar, sources: Sequence[str] = ()) -> None:
        """`data`: what is shipped, then the owner's; `sources` names the files in messages. Raises ConfigError."""
        if not isinstance(data, Grammar):
            from picoclaw.intents.compiler import compile_grammar  # a start reads what was compiled before

            data = Grammar(compile_grammar(data, sources))
        super().__init__(data)
        self.say, self.tools, self.intents = data.say, data.tools, data.intents
        words = data.words
        self._vocabulary = Vocabulary(data.concepts, words["ignore"] | words["polite"], words["ordinary"])
        self._speller = SpellingCorrector(words["mend"], self._vocabulary, words["ordinary"])
        self.said_before: Callable[[], Mapping[str, Any]] = dict
        """What was said of the last turn's call besides its arguments; asked for where a sentence goes on with it."""
        self._declared: Mapping[str, str] = {}
        self._names = dict[str, tuple[str, str]]()
        self._sentences: dict[str, Sentence] = {}

    @cached_property
    def _frames(self) -> Sequence[Frame]:
        from picoclaw.intents.frames import read_frames  # a sentence that a template fits needs none

        return read_frames(self._book)

    @cached_property
    def _questions(self) -> QuestionReader:
        from picoclaw.intents.questions import QuestionReader

        return QuestionReader(self._book, self._reader)

    @cached_property
    def _features(self) -> Features:
        from picoclaw.intents.topics import Features

        return Features(self._book, self._reader)

    @cached_property
    def topics(self) -> Topics:
        from picoclaw.intents.topics import Topics

        return Topics(self._book.topics)

    @cached_property
    def _classifier(self) -> TopicClassifier | None:
        """What was trained for the language; None where nothing was."""
        from picoclaw.intents.topics import load_topics

        file = find_shipped("templates") / f"intents/{self._book.language}.topics"
        try:
            return load_topics(file) if self._book.language else None
        except (OSError, ValueError):
            return None

    def _read(self, text: str) -> Sentence:
        """A text with its errors mended, once for all who ask for it."""
        if (s := self._sentences.get(text)) is None:
            if len(self._sentences) >= _MAX_KEPT_TEXTS:
                self._sentences.clear()
            s = Sentence(text, self.words, self._names)
            s.respell(self._book.keys, self._speller.fix)
            self._sentences[text] = s
        return s

    def _score(self, s: Sentence) -> list[tuple[float, str]]:
        """The share of each topic, the likeliest first; [] where no weights are, or too many words."""
        if not s.shares and self._classifier and 0 < len(s.words) <= MAX_CLASSIFIED:
            s.shares[:] = self._classifier.score(self._features.read(s))
        return s.shares

    def list_named(self, text: str, kind: str) -> list[str]:
        """The outputs, or the sensors, that a text names."""
        return [*dict.fromkeys(name for what, name in self._read(text).list_values(self._names) if what == kind)]

    def word_exact(self, intent: str) -> str:
        return word_exact(self._book, intent)

    def list_outputs(self, text: str) -> list[str]:
        return self.list_named(text, "output")

    def learn_names(self, names: Mapping[str, str]) -> None:
        """Take the names that the owner has given, each with "sensor" or "output", in place of the former ones."""
        if names == self._declared:
            return
        self._sentences.clear()
        phrases, places = dict[str, tuple[str, str]](), self._book.values("sensor")
        for name, kind in names.items():
            said = {fold_name(name), fold_name(name).replace("_", " ").replace("-", " ")}
            said.update(word for word, meant in self.words["names"].items() if name in meant.split())
            said.update(word for word, place in places.items() if place == name and kind == "sensor")
            phrases |= dict.fromkeys(said - phrases.keys(), (kind, name))
        self._declared, self._names = names, phrases

    def find_meant_output(self, name: str) -> str:
        """The declared output that a misspelt name was meant for; '' for none, or several."""
        named = {phrase: one for phrase, (kind, one) in self._names.items() if kind == "output"}
        return named.get(SpellingCorrector(named, named, ()).fix(fold_name(name)), "")

    def find_undeclared_device(self, text: str) -> str:
        """What a text most likely wants to switch that is not declared here, such as a heater; '' for none."""
        s, orders = self._read(text), self.topics.proposed.keys() | {"output_can"}
        named = next((word for word in s.words if word in self._book.slot("device").before), "")
        share = sum(share for share, name in self._score(s) if name in orders and name.startswith("output"))
        is_question = s.asks and not s.holds(self.words["requests"])  # "is the heater on?"
        if share < MIN_DEVICE or is_question or s.holds(self.words["past"]) or "output" not in self._declared.values():
            return ""
        return "" if named in self._names or self.list_outputs(text) else named

    def match(self, text: str, offered: Offered = None, last: LastTurn = NO_TURN) -> IntentMatch | None:
        """What `text` means, or None: no template and no frame fits it, and the classifier knows no topic.

        Without `offered`, nothing that acts is understood; `last` is what the text goes on with.
        """
        if joined := self._join_day(s := self._read(text)):
            planned = self._match_in_order(joined, offered, last)
            is_plan = is_whole(planned) and planned.tool in {"cron", "rule"} and self.moves(planned)
            if planned and is_plan and (self.times.count_day(s.words) or not self._has_own_text(planned)):
                return planned  # but not "remind me on sunday to be there at 8"
        return self._match_in_order(text, offered, last)

    def _match_in_order(self, text: str, offered: Offered, last: LastTurn) -> IntentMatch | None:
        s = copy(self._read(text))  # both share what is read without what was said before
        (s.referents, s.last), s.said_before, s.readings_of_talk = last, self.said_before, {}
        if not s.words:
            return None
        begins, ends, polite = self._core(s)
        found = self._judge(self._find(s, begins, ends, polite, offered), s, begins[-1], ends[-1], offered)
        if found is None or self._is_beside(found, s):
            return None
        if found.tool == "memory_search" and not found.arguments:
            return found._replace(arguments={"query": _ALL_NOTES}, missing="")  # "show me my notes"
        if found.tool == "cron" and found.arguments == LOOK_UP and "_day" not in found.said:
            days = {day for day in self._list_due_days(s) if day not in _LONG_DAYS}
            found = found._replace(said={**found.said, "_day": days.pop()}) if len(days) == 1 else found
        if found.intent == "unmeasured":
            return self._match_measured(found, s, offered)
        if found.tool in {"output", "output_history"} and not self.moves(found) and self._is_on_another(s):
            return None
        when = str(found.arguments.get("when", ""))
        if when.startswith("at ") and "compare" in found.arguments:  # "warmer at noon than at the same time yesterday"
            compared = keep_hour(str(found.arguments["compare"]), when)
            found = found._replace(arguments={**found.arguments, "compare": compared})
        if found.tool in READS and self._is_of_soil(found, s):
            return make_match(self.intents["unmeasured"], {}, 1.0, "frame")
        if found.tool in READS and self._asks_of_extreme(found, s):
            return None
        if found.tool == "output_history" and found.route in {"frame", "topic"} and self._means_quantity(s):
            return None
        if "_named" in found.said:  # a rule by what it is about, which the list of them tells
            topic_name = self.topics.find_topic_of(found)
            like = self._propose(topic_name, [found.intent], s, begins[-1], ends[-1], offered or ())
            return like._replace(route=found.route, missing="") if like and "_called" in like.said else found
        if found.intent == "history_limit" and self._has(s, "whole_time") and not self._has(s, "went_word"):
            # "was it above 20 all night?" asks for no hour of it
            return found._replace(said={**found.said, "_stays": "yes"})
        if "sensors_ok" in self.intents[found.intent].parts.split() and self._has(s, "past_verb"):
            # "was anything wrong?", of which only now is told
            return found._replace(said={**found.said, "_past": "yes"})
        told = self._tell_instead(found, s, begins)
        return told and self._compare_since(told)

    def _is_beside(self, found: IntentMatch, s: Sentence) -> bool:
        """Whether a sentence orders something, or says "if", where it was understood as thanks or as a question."""
        if found.intent in self.topics.idle:
            return self._wishes(s, is_behind=True)  # "thanks for that, and turn the lamp on"
        if found.intent == "output_pronoun_off" and s.end_of(self._book.values("ended_word"), 0) == len(s.words):
            return True  # "stopped" may only tell what is so
        if s.asks or found.tool not in READS | {"output_history"}:
            return False
        if found.tool == "sensor_read" and "_beyond" in found.said and self._says_if(s):
            return True  # "and only if it is below 60" asks nothing
        if not any(kind == "output" for kind, _ in s.list_values(s.names)):
            return False
        if found.tool in READS:
            return s.last.name == "output" and self._adds_to_switching(s)
        return self._has(s, "off_word") and self._has(s, "on_word")  # "off, and the fan on", "lamp on and at 10 off"

    def _asks_by_accent(self, s: Sentence, i: int) -> bool:
        """Whether word `i` asks, and another one without its accent may not: "qué" and "que"."""
        word = s.text(i, i + 1).lower()
        return fold_name(word) != word and s.end_of(self.words["questions"], i) > 0

    def _is_on_another(self, s: Sentence) -> bool:
        """Whether what is named as an output belongs to something that is not here: "the light on the heater"."""
        known = [s.names, *(self._book.values(name) for name in ("living", "here_word", "list"))]
        known += [self.words[name] for name in ("days", "parts", "units", "recent", "times", "numbers", "filler")]
        past = self._book.slot("past")
        for i in range(1, len(s.words)):
            end = s.end_of(self._book.values("part_of"), i)
            is_known = any(s.longest(table, end) or s.end_of(table, i) > end for table in known)
            if end and self._names_output_to(s, i) and not is_known:
                return end < len(s.words) and not any(any(self._reader.read(past, s, at)) for at in (i, end))
        return False

    @staticmethod
    def _names_output_to(s: Sentence, end: int) -> bool:
        """Whether the name of an output stands up to word `end`."""
        hits = (s.longest(s.names, i) for i in range(end))
        return any(hit is not None and hit[0][0] == "output" and hit[1] == end for hit in hits)

    def _is_of_soil(self, found: IntentMatch, s: Sentence) -> bool:
        """Whether a question is about the soil of a place, which the air there says nothing of."""
        soil, places = self._book.values("soil_word"), {"", *(name for _, name in s.names.values())}
        is_soil = any(s.longest(soil, i) and not s.longest(s.names, i) for i in range(len(s.words)))
        return is_soil and found.arguments.get("sensor", "") in places

    def _compare_since(self, found: IntentMatch) -> IntentMatch:
        """Return a match; "has it dropped since yesterday?" compares now with that day: a change per hour says little of it."""
        when = str(found.arguments.get("when", ""))
        day = when.removeprefix("since ")
        if found.intent != "history_trend" or day == when or day not in _EARLIER_DAYS:
            return found
        times = {"when": "last 20 minutes", "compare": day}
        return make_match(self.intents["history_compare"], {**found.arguments, **times}, found.score, found.route)

    def _asks_of_extreme(self, found: IntentMatch, s: Sentence) -> bool:
        """Whether a question is about another quantity at the hour of the highest or lowest one told: "and how humid was it then?"."""
        is_other = found.arguments.get("quantity") != s.last.arguments.get("quantity")
        is_then = self._has(s, "then_moment") and self._has(s, "past_verb")
        return is_other and is_then and s.last.name in READS and s.said_before().get("_figure") in {"low", "high"}

    def _match_measured(self, found: IntentMatch, s: Sentence, offered: Offered) -> IntentMatch | None:
        """Return "I don't measure that", or what is asked where a quantity is named, of which that would be false: "what's
        the pressure doing? My knee says rain."; None where that is not clear.
        """
        clauses = SENTENCE_END.split(s.raw)
        if len(clauses) == 1 and found.route == "template":
            return found  # "what is my blood pressure?"
        clause = next((self._read(text) for text in clauses if self._names_measured(self._read(text))), None)
        if clause is None:
            return None if found.score < 1.0 and self._asks_to_act(s) else found
        begins, ends, _ = self._core(clause)
        by_topic = ("?now", SURE_WHOLE, 0.0, clause, begins[-1], ends[-1], offered)
        match = self.match(clause.raw, offered) if len(clauses) > 1 else self._match_topic(*by_topic)
        return match if match and match.tool in READS and is_complete(match) else None

    def _names_condition(self, s: Sentence) -> bool:
        """Whether a sentence names what a rule goes by, or has to do with: a quantity, a limit, a time, what is declared; or the
        weather, which no rule goes by.
        """
        names = ("quantity", "noun", "more", "hot", "cold", "frost_word", "beyond", "unmeasured_word", "soil_word")
        tables = [s.names, *map(self._book.values, names)]
        return any(map(s.holds, tables)) or self.says_time(s.raw)

    def _names_measured(self, s: Sentence) -> bool:
        """Whether a clause names a quantity, or asks "how humid", and nothing that no sensor here can measure."""
        others = self._has(s, "unmeasured_word", "soil_word")
        asks = s.asks or s.end_of(self.words["questions"], 0) > 0
        names = ("noun", "quantity")[: 1 + asks]
        return not others and any(any(s.list_values(self._book.values(name))) for name in names)

    def _tell_instead(self, found: IntentMatch, s: Sentence, begins: Sequence[int]) -> IntentMatch | None:
        """Return a match; what is said instead where the question asks for what that does not tell, such as a time."""
        topic = self.topics.find_topic_of(found) if not self.intents[found.intent].after else ""
        told = {topic, f"{topic}!" if s.holds(self.words["negations"]) else topic}
        ifs, ends = self._book.values("if_word"), {*begins, len(s.words)}
        for part, (instead, *topics) in self.topics.unanswered.items():
            if told.isdisjoint(topics) or not s.holds(table := self._book.values(part)):
                continue
            hits = [(i, hit[1]) for i in range(len(s.words)) if (hit := s.longest(table, i))]
            if any(s.end_of(ifs, i) < end or not ends.isdisjoint((i, end)) for i, end in hits):
                return make_match(self.intents[instead], {}, 1.0, "frame") if instead in self.intents else None
        return found

    def _join_day(self, s: Sentence) -> str:
        """The text with its day before its only time of day, and without the "for" before it: "tomorrow turn the fan on at 8",
        "set me for sunday the alarm at 6:45"; '' for another one.
        """
        asks = s.asks and not s.holds(self.words["requests"])
        tables = (self.words["days"], self.words["calendar"], self._book.values("only_days"))
        if asks or not any(map(s.holds, tables)):
            return ""
        begin, day = next(((i, n) for i in range(len(s.words)) if (n := self._count_days(s, i))), (0, 0))
        behind = begin + day
        if not day:
            return ""
        spans = {i: self.times.count_clock(s.words[i:]) for i in range(len(s.words))}
        at = next((i for i, count in spans.items() if count), 0)
        within = range(at, at + spans.get(at, 0))
        if at <= behind or any(count and i not in within for i, count in spans.items()):
            return ""
        if any(self.times.count_day(s.words[i:]) for i in range(behind, len(s.words))):
            return ""
        if begin and any(s.after_comma(i) or s.end_of(self.words["splits"], i) for i in range(behind, at + 1)):
            return ""
        leads = (self.words["to"], self.words["at"], self._book.values("for_word"))
        led = begin - (begin > 1 and any(s.words[begin - 1] in table for table in leads))
        head, between = s.text(0, led) if led else "", s.text(behind, at)
        return (
            f"{head} {between} {s.raw[s.starts[begin] : s.starts[behind]].strip(' ,')} {s.raw[s.starts[at] :]}".strip()
        )

    def _count_days(self, s: Sentence, i: int) -> int:
        """How many words from word `i` on name a day that is not today, or, behind the first word, the days of what comes again."""
        near = s.words[i : i + MAX_SHORT_WORDS]
        is_hour = not i or self.times.names_a_time(near) or self.times.names_a_day(near[:1])
        return self.times.count_day(s.words[i:]) or (0 if is_hour else self.times.count_part(near))

    def _has_own_text(self, match: IntentMatch) -> bool:
        """Whether a job says what was said, or is looked for by it."""
        usual = self.intents[match.intent].defaults.get("message", "")
        own = match.arguments.get("message", usual) != usual and match.arguments.get("kind") != "tool"
        return own or "_called" in match.said

    def _adds_to_switching(self, s: Sentence) -> bool:
        """Whether a sentence goes on with what was switched at a time: "and the light at ten" asks for no light of the bench."""
        times = (self.times.names_a_time(s.words[i:]) for i in range(len(s.words)))
        asks = s.holds(self.words["questions"])
        moved = s.last.arguments.get("action") in {"set", "off"}
        return moved and s.longest(self.words["splits"], 0) is not None and not asks and any(times)

    def _find(
        self, s: Sentence, begins: Sequence[int], ends: Sequence[int], polite: Mapping[int, int], offered: Offered
    ) -> IntentMatch | None:
        """What a sentence means by its words, before the classifier is asked."""
        walk = TemplateWalk(self._reader, self._vocabulary, s, ends, polite)
        fits = self._fit_templates(s, walk, begins, ends, offered)
        best = max(fits, key=_rank)[0] if fits else None
        is_stop = best is not None and best.intent == "stop" and any(kind == "output" for kind, _ in s.names.values())
        if best and (is_stop or (best.intent == "unmeasured" and self._is_measured(s))):
            best, fits = None, []

        def ask() -> IntentMatch | None:
            return self._match_question(s, begins[-1], ends[-1])

        if best and best.tool and best.missing in {"", NEEDS_CLOCK}:
            if best.answer == "{result}" and self._goes_on(best, s):  # the question knows what the words leave out
                return asked if (asked := ask()) and asked.score == 1.0 else best
            return best
        if framed := self._match_frame(s, begins, ends, offered, best):
            is_sure = framed.score == 1.0 and framed.route != "unknown" and not self._goes_on(framed, s)
            asked = None if is_sure else ask()
            return asked if asked and (asked.score == 1.0 or framed.route == "unknown") else framed
        if best is None or not (best.tool or best.answer):
            unclear = next((match for match, _ in fits if match.route in {"unclear", "unknown"}), best)
            best = max(self._fits(s, walk, begins, kind="last"), key=_rank, default=(unclear, 0))[0]
        # "what is the highest this week"
        is_talk = best is not None and best.intent in {"nothing", "place_bare"} and s.last.name in READS
        is_unknown = best is not None and best.route == "unknown"
        if (best and not is_unknown and not is_talk) or len(s.words) > MAX_CLASSIFIED:
            return best
        asked = ask()
        is_sure = asked is not None and asked.score == 1.0
        return asked or best if is_sure or is_unknown or s.holds(self.words["negations"]) else best or asked

    def _fit_templates(
        self, s: Sentence, walk: TemplateWalk, begins: Sequence[int], ends: Sequence[int], offered: Offered
    ) -> list[tuple[IntentMatch, int]]:
        """What templates that read, add or act make of a sentence, else those of a question behind a comma in it."""
        fits, words, quoted = self._fits(s, walk, begins, offered), self.words, is_quoted(s, begins[-1])
        for i in begins if not s.end_of(words["negations"], begins[-1]) else begins[-1:]:
            wished = self._is_wish(s, i) and not quoted
            for match, score in self._fits(s, walk, [i], offered, kind="adds"):
                missing = match.missing or ("" if wished else word_exact(self._book, match.intent))
                fits.append((match._replace(missing=missing), score))
        stops = s.last.name == "output" and s.longest(self._book.values("stop_word"), 0) is not None
        negated = s.words[-1] in words["negates_last"] and not stops  # "stop, not after all"
        negated |= s.denies and self._is_telling(s, begins[-1])  # "I haven't got the milk"
        if offered is not None and self._is_wish(s) and not negated and not quoted:
            exact = TemplateWalk(self._reader, self._vocabulary, s, ends[:1], {})
            asks = s.asks and s.holds(words["requests"]) and not s.holds(words["polite"])  # "could you, please?"
            acts = self._fits(s, exact, {*begins[:1], self._skip_no(s)}, kind="acts")  # "forget it, cancel that one"
            fits += [fit for fit in acts if self.intents[fit[0].intent].polite or not asks]
        if fits or stem_word(s.words[begins[-1]]) in self._acts:
            return fits
        later = filter(s.after_comma, range(begins[-1] + 1, len(s.words)))
        questions = [i for i in later if s.end_of(words["questions"], i)]  # "brrr, how cold is it?"
        return self._fits(s, walk, questions, offered, whole=True)

    def _goes_on(self, match: IntentMatch, s: Sentence) -> bool:
        """Whether a question leaves out what the one before it has named: "and below 10?", "is that warmer than yesterday?"."""
        intent = self.intents[match.intent]
        if s.last.name not in READS:
            return False
        if intent.after and not intent.kind:
            return True
        if match.tool not in READS:
            return False
        marks = ("than_word", "when_word")[: 1 + (len(s.referents.get("_whens", ())) > 1)]  # "which day was drier?"
        is_now = s.last.name == "sensor_read" or self._has(s, "now_word")  # "and now?" - "so is it warmer?"
        is_of_then = is_now and s.referents.get("_whens") and any(s.list_values(self._book.values("more")))
        compares = bool(is_of_then) or self._has(s, *marks)
        if "sensor" in match.arguments and ("_other" in match.said or not compares):
            return False
        return (
            compares
            or "chart" in match.arguments
            or "chart" in s.last.arguments
            or self._has(s, "both_word")
            or s.longest(self.words["splits"], 0) is not None
            or (len(s.words) <= MAX_CONTINUED_WORDS and "it" in s.words and bool(s.last.arguments.get("sensor")))
        )

    def _judge(
        self, found: IntentMatch | None, s: Sentence, begin: int, end: int, offered: Offered
    ) -> IntentMatch | None:
        """Return `found`, or what another topic leads to where the classifier is sure that the sentence is about that."""
        if self._classifier is None or len(s.words) > MAX_CLASSIFIED or is_quoted(s, begin):
            return found
        found = self._judge_hint(found, s)
        if found and self._goes_without_topic(found, s):
            return found
        topics, shares = self.topics, self._score(s)
        share, topic = shares[0]
        if topic in _ABOUT_ANY and self._wonders(s):
            return found
        talk = sum(one for one, name in shares if name not in topics.proposed and name not in topics.several)
        leads = share >= (MIN_PROPOSED if topic in topics.proposed else MIN_TOPIC_SHARE)

        def lead(share: float) -> IntentMatch | None:
            return self._match_topic(topic, share, talk, s, begin, end, offered) if leads else None

        if found is None:
            return lead(share)
        told = topics.find_topic_of(found._replace(missing=""))
        if self._only_introduces(found, told, topic, s):
            other = lead(share) if share >= MIN_TOPIC_SHARE else None
            is_same = other is not None and told != "" and topics.find_topic_of(other) == told
            return other if other and other.arguments and not is_same else found
        if self._is_settled(found, told, share, topic):
            return found
        if told[:1] == "?" and self._is_elsewhere(found, s):
            other = lead(SURE_WHOLE)
            if other and "sensor" in other.arguments and not self._is_elsewhere(other, s):
                return other  # "du sol sur sept jours"
        is_asked = topic == "output_can" and share >= MIN_PROPOSED and told in topics.proposed and self.moves(found)
        if is_asked and s.holds(self.words["requests"]):  # "can you turn on the fan?"
            return self._propose(told, topics.proposed[told].split(), s, begin, end, offered or ()) or found
        if not self._is_outweighed(found, told, shares):
            return found
        other = lead(share)
        if other is None:  # "how much water is left in the tank?" is of no other sensor
            return found if told in {"", "unmeasured"} else None
        return found if self._says_better(found, other) else other

    def _judge_hint(self, found: IntentMatch | None, s: Sentence) -> IntentMatch | None:
        """Return a match; None where it only says how a rule is set, and the sentence wants none."""
        if found is None or found.intent not in _HINTS:
            return found
        topics, shares = self.topics, self._score(s)
        orders = sum(share for share, name in shares if name in topics.proposed)
        if orders < max(MIN_HINT, sum(share for share, name in shares if name in topics.chat - {"nothing"})):
            return None  # "if my husband knew what I buy"
        if found.intent == "rule_condition" and not self._names_condition(s):  # "tell me when the postman comes"
            return make_match(self.intents["unseen_condition"], {}, found.score, found.route)
        return found

    def _swallows(self, match: IntentMatch) -> bool:
        """Whether a match adds free text, which another wish may be part of."""
        intent = self.intents[match.intent]
        return intent.adds and self._has_text_slot(intent)

    def _goes_without_topic(self, found: IntentMatch, s: Sentence) -> bool:
        """Whether a match goes on with what was said before, of which the classifier knows nothing, or is "note: ..."."""
        intent, swallows = self.intents[found.intent], self._swallows(found)
        if intent.after or intent.only or (s.last.name and not swallows):
            return True
        return swallows and s.raw.partition(str(found.arguments.get("text")))[0].rstrip()[-1:] == ":"

    def _only_introduces(self, found: IntentMatch, told: str, topic: str, s: Sentence) -> bool:
        """Whether a match says only how a thing is said, shows only what is to be changed, or has only one of several figures."""
        intent, is_order = self.intents[found.intent], topic in self.topics.proposed
        if told == "?past" != topic and topic[0] == "?":
            return True
        if is_order and found.arguments == LOOK_UP and topic.startswith(f"{found.tool}_"):
            return True
        has_number = any(word[0].isdigit() for word in s.words) or s.holds(self.words["ordinals"])
        is_numbered = has_number and intent.name.endswith(("_several", "_unclear"))
        return is_order and not intent.tool and (intent.last or intent.name == "nothing") and not is_numbered

    def _is_settled(self, found: IntentMatch, told: str, share: float, topic: str) -> bool:
        """Whether a match of the whole sentence stays, whatever the topic: talk, or what is denied within an order."""
        if not is_all(found):
            return False
        if found.intent in _WITH_NOT and topic in {"not_wanted", "clock"}:
            return True  # "do not let me forget to turn the heater off"
        is_asked = share >= SURE_WHOLE and not told and (topic[0] == "?" or topic in self.topics.asked)
        is_asked |= found.intent == "what_if"
        return topic in self.topics.chat - _ABOUT_ANY or (found.answer != "" and not found.tool and not is_asked)

    def _is_outweighed(self, found: IntentMatch, told: str, shares: Sequence[tuple[float, str]]) -> bool:
        """Whether the likeliest topic has so much more than those which a match answers that the match is wrong."""
        share, topic = shares[0]
        if not told:
            return share >= SURE_WHOLE and not (is_all(found) and (found.tool or found.missing))
        swallows = self._swallows(found) and topic not in self.topics.several
        if swallows and topic in self.topics.proposed:  # a reminder is one, repeated or not
            alike = self.intents[self.topics.proposed[topic].split()[0]]
            swallows = not (alike.adds and alike.tool == found.tool)
        elif found.arguments.get("kind") == "tool":
            swallows = False
        kinds = {
            "refused": topic == "not_wanted",
            "swallows": swallows,
            "moves": self.moves(found),
            "whole": is_all(found),
        }
        sure, least = _OUTWEIGHED[next((kind for kind, is_one in kinds.items() if is_one), "part")]
        several = [told] * (1 + len(found.said.get("_more", ())))
        return share >= sure and sum(one for one, name in shares if self.topics.is_answer(name, several)) < least

    def _says_better(self, found: IntentMatch, other: IntentMatch) -> bool:
        """Whether an outweighed match still says what is missing better than what the topic leads to."""
        is_shown = (
            is_all(found) and found.tool == "output" and not self.moves(found)
        )  # "dim the lamp": its level, and to what
        is_said = is_all(found) and self.moves(found) and not self._has_own_text(found)  # word by word, as an alarm
        is_bare = other.route == "proposal" and not other.arguments
        return is_bare and (found.missing != "" or is_shown or is_said)  # what is missing, asked for by its name

    def _match_topic(
        self, topic: str, share: float, talk: float, s: Sentence, begin: int, end: int, offered: Offered
    ) -> IntentMatch | None:
        """What a sentence about a topic means by what it names, at most proposed; `talk` is the share of no order."""
        if topic in self.topics.proposed:
            if offered is None or talk > MAX_TALK_SHARE * share or not self._may_order(topic, share, s, begin):
                return None
            return self._propose(topic, self.topics.proposed[topic].split(), s, begin, end, offered)
        name, *given = self.topics.meant.get(topic, topic).split()
        intent = self.intents.get(name)
        if topic[0] == "?" or (intent is not None and intent.tool):
            is_order = stem_word(s.words[begin]) in self._acts or self._is_negated(s, end)
            if share < SURE_WHOLE and (is_order or self._is_telling(s, begin)):
                return None
            if not s.asks and s.holds(self.words["negations"]):
                return None  # "no need to list the files"
        if topic[0] == "?":
            found = self._questions.read(s, begin, end, topic[1:], self._classifier.known if self._classifier else None)
            match = found and make_match(self.intents[found.intent], found.found, share - _TOPIC_COST, "topic")
            return match if match and not match.missing else None
        if intent is None or not self._may_mean(intent, topic, share, s, begin):
            return None
        if topic == "memory_what":
            return make_match(intent, {}, share - _TOPIC_COST, "topic")
        slots = self._fill_intent(intent, dict(one.split("=") for one in given), s, begin, end)
        if slots is None:
            return None
        match = make_match(intent, slots, share - _TOPIC_COST, "topic")
        if intent.tool and share < SURE_WHOLE and not match.said and match.arguments.keys() <= intent.arguments.keys():
            return None  # nothing in the words says the same
        return match if not match.missing else None

    def _may_mean(self, intent: Intent, topic: str, share: float, s: Sentence, begin: int) -> bool:
        """Whether the intent of a topic can be what a sentence means by this share, at this point, and with all its words."""
        if (intent.after and not _is_after(intent, s)) or (intent.kind and intent.tool):
            return False
        # a language has no words for it
        is_unsaid = not intent.tool and not intent.parts and "{result}" in intent.answer
        if is_unsaid or topic == "nothing" or self._says_more(s, topic, share):
            return False
        if topic == "memory_what":
            return True
        is_of_board = intent.tool in _OF_BOARD and topic in self.topics.asked - {"clock"}  # not "the time in Tokyo"
        is_sure = share >= (SURE_BOARD if is_of_board else SURE_STRANGE) or intent.tool == "memory_search"
        if self._is_strange(s, begin, intent) and ("_list" in intent.defaults or not is_sure):
            return False
        # "and for how long altogether" goes on with something
        is_later = not self.words["splits"].keys().isdisjoint((s.words[0], s.words[begin]))
        return not (is_later and intent.tool)

    def _fill_intent(self, intent: Intent, given: SlotValues, s: Sentence, begin: int, end: int) -> SlotValues | None:
        """The slots of an intent that a topic means, by what a sentence names; None where it names none to look for."""
        slots = self._gather(intent, s, begin, end) | given
        if "_list" in intent.defaults:
            named = s.list_values(self._book.values("list"))
            places = [i for i in range(len(s.words)) if s.longest(self._book.values("list_word"), i)]
            near = [word for i in places for word in (*s.words[max(0, i - 1) : i], *s.words[i + 1 :])]
            if not named and not self._empty.issuperset(near):
                return None  # "on my christmas list"
            slots = {"_list": named[0]} if named else {}
        slots |= find_named(self._book, intent, s, slots)
        if intent.tool == "output":
            outputs = {name for kind, name in s.list_values(s.names) if kind == "output"}
            slots.pop("_name", None)
            slots |= {"_name": outputs.pop()} if len(outputs) == 1 else {}
        if intent.tool == "memory_search" and self._has_text_slot(intent):
            slot = self._book.slot("query")
            empty = self._empty | slot.after | slot.drop
            query = [s.text(i, i + 1) for i in range(begin, end) if s.words[i] not in empty]
            asks = s.asks or any(word in self.words["questions"] for word in s.words)
            if not query or not asks or s.holds(self.words["general"]):
                return None
            slots |= {"query": " ".join(query)}
        return slots

    def _may_order(self, topic: str, share: float, s: Sentence, begin: int) -> bool:
        """Whether a sentence may be an order about a topic, and does not only tell, deny or limit something."""
        words, is_output = self.words, topic.startswith("output")
        if not self._is_wish(s, begin) and (share < SURE_ORDER or "?" in s.raw):
            return False  # but "everything off now" is one
        if self._says_if(s) and not topic.startswith("rule_"):
            return False
        if topic == "memory_forget" and self._has(s, "keep_word"):
            return False
        said_no = s.end_of(words["declines"], begin)  # "no alarm tomorrow"
        if s.words[begin] not in words["it"] and 0 < said_no < len(s.words) and not s.after_comma(said_no):
            return False
        was = s.holds(words["past"])
        tells = s.words[begin] in words["tells"] and (was or words["verbs"].keys().isdisjoint(s.words))
        if is_output and (tells or (":" in s.raw and was)):
            return False
        ends = () if topic not in self.topics.ending else ("off_verb", "drop_verb")[: 1 + (not is_output)]
        return not self._is_negated(s, len(s.words), ends)

    def _means_quantity(self, s: Sentence) -> bool:
        """Whether what may be an output's name is what is measured: "when did it get light?" asks of no lamp."""
        quantities, switching = self._book.values("quantity"), ("on_word", "off_word", "running_word")
        named = [i for i in range(len(s.words)) if (hit := s.longest(s.names, i)) and hit[0][0] == "output"]
        is_switched = self._has(s, *switching)
        return bool(named) and not is_switched and all(s.longest(quantities, i) for i in named)

    def _is_elsewhere(self, match: IntentMatch, s: Sentence) -> bool:
        """Whether the place in a match is none that is declared here: "du sol sur sept jours"."""
        places = {*self._book.values("sensor"), *(name for _, name in s.names.values()), "cpu"}
        is_other = "_other" in match.said and match.said["_other"] not in {name for _, name in s.names.values()}
        return is_other or not places.issuperset(str(match.arguments.get("sensor", "cpu")).split())

    def _is_strange(self, s: Sentence, begin: int, intent: Intent) -> bool:
        """Whether a word stands in the sentence that the classifier has not met; what only answers may have any like it."""
        known = self._classifier.known if self._classifier else bool
        return any(
            len(word) >= _MIN_STRANGE
            and word.isalpha()
            and not s.longest(s.names, i)
            and not known(
                stem_word(word) if (intent.tool or intent.name == "clock") and i >= begin else f"~<{word[:3]}"
            )
            for i, word in enumerate(s.words)
        )

    def _propose(
        self, topic: str, names: Sequence[str], s: Sentence, begin: int, end: int, offered: Collection[Any]
    ) -> IntentMatch | None:
        """Ask whether a sentence is meant that is understood as a whole, made of the parts of one that is not."""
        if topic.startswith("cron_") and any(self._list_driven(s, begin)) and not s.holds(self._reminding):
            return None  # "water in an hour for 2 minutes" wakes nobody
        for name in names:
            for sentence in self.intents[name].proposes:
                text, left = self._fill(sentence, s, begin, end)
                plain = self._read(text)  # by its words alone
                match = self._find(plain, [0], [len(plain.words)], {}, offered) if text else None
                if (
                    is_whole(match)
                    and match.score == 1.0
                    # "a third brighter" is no third
                    and not (
                        "level" in match.arguments
                        and (self._has(s, "step") or find_way(self._book, s, match.arguments))
                    )
                    and self._names_driven(s, match)
                    and self.topics.is_answer(topic, [self.topics.find_topic_of(match)])
                ):
                    names_one = WHICH in FIELD.findall(sentence)
                    ends = (n for n, i in enumerate(left) if s.after_comma(i) and self._list_named(s, left[:n]))
                    left = left[: next(ends, len(left))] if names_one else left  # "..., it is too humid"
                    like = self._list_named(s, left) if names_one else []
                    named = " ".join(s.text(i, i + 1) for i in left if s.words[i] in like)
                    if names_one and (not named or match.tool != "rule"):
                        break  # nothing says which
                    if named:
                        said = {**match.said, "_called": named}
                        given = {name: value for name, value in match.arguments.items() if value != HOLE}
                        match = match._replace(arguments=given, said=said, route="proposal")
                        return match._replace(missing=word_exact(self._book, name))
                    return match._replace(missing=fill_fields(self.say["meant"], {"done": text}), route="proposal")
        intent = self.intents[topic if topic in names else names[0]]
        return (
            IntentMatch(intent.name, intent.tool, {}, "", 0.0, "proposal", word_exact(self._book, intent.name))
            if intent.exact
            else None
        )

    def _names_driven(self, s: Sentence, match: IntentMatch) -> bool:
        """Whether the output that a match switches is named, or has a verb: "heat the beds" is no "water the plants"."""
        driven = str(match.arguments.get({"rule": "output", "output": "name"}.get(match.tool, ""), ""))
        named = {name for kind, name in s.list_values(s.names) if kind == "output"}
        named = named.union(*(self._list_driven(s, i) for i in range(len(s.words))))
        return driven in named or {*driven.split("_")} <= {"", *s.words}

    def _list_driven(self, s: Sentence, i: int) -> Iterator[str]:
        """What is switched by the verb, or the noun, at a word: "the watering" is of the pump."""
        if any(s.longest(self._book.values(name), i) for name in ("water_verb", "water_noun")):
            yield "pump"
        yield from (hit[0] for hit in (s.longest(self._book.values("verb_driven"), i),) if hit)

    def begins_with_driven(self, text: str) -> bool:
        """Whether a text begins with the verb of an output: "water in an hour for 2 minutes"."""
        s = self._read(text)
        return bool(s.words) and any(self._list_driven(s, self._core(s)[0][-1]))

    def put_until(self, order: str, until: str) -> str:
        """An order with another time in the place of its "all night", '' where it has none, or `until` is no such time."""
        s, told = Sentence(order, self.words), Sentence(until, self.words)
        begins = bool(told.words) and told.end_of(self.words["until"], 0) > 0
        for i in range(len(s.words)) if begins else ():
            if end := s.end_of(self._book.values("night_long"), i):
                tail = s.text(end, len(s.words)) if end < len(s.words) else ""
                return f"{s.text(0, i) if i else ''} {until.strip(' .!')} {tail}".strip()
        return ""

    def is_all_of(self, text: str, *tables: str) -> bool:
        """Whether a text is phrases of some tables of words, and nothing else but polite ones."""
        s, i, said = self._read(text), 0, ""
        while names := [n for n in (*tables, "polite", "tail" if said else "lead") if s.end_of(self.words[n], i)]:
            i, said = s.end_of(self.words[names[0]], i), said or names[0] * (names[0] in tables)
        return said != "" and i == len(s.words)

    def read_place(self, text: str) -> int:
        """Which of a list a text of a few words names by its place, -1 the last; 0 where it names none."""
        return next(iter(self._read(text).list_values(self.words["ordinals"])), 0)

    def asks_when_measured(self, text: str) -> bool:
        """Whether a text likely asks when a value was so, and for no date: "when did it get dark yesterday?"."""
        is_named = any(self._read(text).list_values(self._book.values("quantity")))
        return is_named and any(name == "?when" and share >= MIN_WHEN for share, name in self._score(self._read(text)))

    def names_quantity(self, text: str, quantity: str) -> bool:
        """Whether a text says what is measured."""
        s = self._read(text)
        return any(quantity in s.list_values(self._book.values(name)) for name in ("noun", "quantity"))

    def read_due_day(self, text: str) -> str:
        """The day or days of what is to come that a text names, and nothing else, as `keep_days` has them; '' for none."""
        s = self._read(text)
        hit = s.longest(self._book.values("due_day"), 0) if s.words else None
        return str(hit[0]) if hit and hit[1] == len(s.words) else ""

    def _list_due_days(self, s: Sentence) -> Iterator[str]:
        i = 0
        while i < len(s.words):
            hit = s.longest(self._book.values("due_day"), i)
            if hit:
                yield str(hit[0])
            i = hit[1] if hit else i + 1

    def list_like(self, text: str) -> list[str]:
        """The words of a name that was said for one of a list, with what the tools call them."""
        s = self._read(text)
        return self._list_named(s, range(len(s.words)))

    def _list_named(self, s: Sentence, left: Sequence[int]) -> list[str]:
        """Those of some words that may name one of a list, with what the tools call the names, values and times in them."""
        words = [s.words[i] for i in left if s.words[i] not in self._empty and stem_word(s.words[i]) not in self._acts]
        for i in left:
            words += [hit[0][1]] if (hit := s.longest(s.names, i)) else []
            words += [*self._list_driven(s, i)]  # "the watering"
            for name in ("noun", "quantity", "when", "often"):
                for value, _ in islice(self._reader.read(self._book.slot(name), s, i), 1):
                    words += list_value_words(value)
        return words

    def _fill(self, sentence: str, s: Sentence, begin: int, end: int) -> tuple[str, list[int]]:
        """A sentence with the words that another one has for its slots, and the words left; '' where one is missing, or these say something."""
        left, told = list(range(begin, end)), {WHICH: HOLE}
        names = FIELD.findall(sentence)
        named = [name for name in names if name != WHICH]
        for name in sorted(named, key=lambda name: self._book.slot(name).kind == "text"):
            slot, taken = self._book.slot(name), list[int]()
            if slot.kind == "text":
                told[name] = self._fill_text(slot, s, left)
            else:
                told[name], taken = self._fill_value(slot, s, left, is_change=WHICH in names)
            if not told[name]:
                return "", left
            left = [i for i in left if i not in taken]
        if "off_said" in names and any(s.longest(self._book.values("on_word"), i) for i in left):
            return "", left  # "light on every day at 6, off at 9" orders both
        text = fill_fields(sentence, told)
        filled = Sentence(_TWICE.sub(r"\1", text), self.words)
        if WHICH in names:
            return filled.raw, left  # which says which
        kept = set(chain.from_iterable(Sentence(text, self.words).words for text in told.values()))
        tables = _SAYING + _SAYING_OF_TIME * any(self._book.slot(name).kind in _TIMED_KINDS for name in names)
        says = any(s.words[i] not in kept and self._says(s, i, filled, tables) for i in left)
        return "" if says else filled.raw, left

    def _fill_text(self, slot: SentenceSlot, s: Sentence, left: list[int]) -> str:
        """What a proposal says, of the words that are left; '' for hardly any, or where a time is counted back from it."""
        text = self._follow(slot, s, left) or self._pick_text(s, left) if slot.after else self._rest(slot, s, left)
        spoken, before = Sentence(text, self.words).words, self.words["before"]
        counts_back = any(one in self.words["units"] and then in before for one, then in pairwise(spoken))
        return "" if counts_back or len(text.split()) < _MIN_TEXT else text  # "2 hours before the film"

    def _fill_value(
        self, slot: SentenceSlot, s: Sentence, left: list[int], *, is_change: bool
    ) -> tuple[str, list[int]]:
        """What the longest part that a slot reads is called in a proposal, and its words; '' where none is."""
        spans = self.words["span_begins"] if slot.kind in _LENGTHS else ()  # "de six heures à vingt heures"
        hits = [
            (stop - i, -i, value)
            for i in left
            for value, stop in islice(self._reader.read(slot, s, i), 1)
            if set(range(i, stop)) <= {*left}
            and not (i and s.words[i - 1] in spans and s.longest(self.words["span_ends"], stop))
        ]
        if slot.kind == "value" and is_change and len({str(hit[2]) for hit in hits}) > 1:
            to = self._book.slot("level").after | self.words["span_ends"].keys()  # "from 28 to 26"
            hits = [hit for hit in hits if s.words[-hit[1] - 1] in to][:1]
        size, start, value = max(hits, key=lambda hit: hit[:2], default=(0, 0, None))
        if slot.kind in _TIME_KINDS and len(apart := self._join_time(slot, s, left)) > size:
            return " ".join(s.text(i, i + 1) for i in apart), apart
        said = (word_value(slot, value) or s.text(-start, size - start)) if size else ""
        return said, list(range(-start, size - start))

    def _join_time(self, slot: SentenceSlot, s: Sentence, left: Sequence[int]) -> list[int]:
        """The words of a time whose parts stand apart, where they make one in a row: "On Sundays let the pump run at nine"."""
        found = list[int]()
        for i in left:
            near = s.words[i : i + 2 * MAX_SHORT_WORDS]
            count = self.times.count_part(near) if i not in found else 0
            is_of_output = found and near[0] in self.words["on"]  # "mondays, lamp on at six"
            if not count and found[-1:] == [i - 1] and near[0] in self._book.values("and_word"):
                count = int(self.times.count_part(near[1:]) > 0)  # "mondays, wednesdays and fridays"
            if count and not (is_of_output and self.times.count_part(near[1:]) == count - 1):
                found += range(i, i + count)
        row = Sentence(" ".join(s.words[i] for i in found), self.words)
        hours = (self.times.names_a_time(row.words[i:]) and ":" not in word for i, word in enumerate(row.words))
        begun = sum(b > a for a, b in pairwise([False, *hours]))  # "um 21 Uhr" is one
        clocks = max(begun, sum(":" in word for word in row.words))  # as is "at 06:30"
        if not {*found} <= {*left} or clocks > 1:
            return []
        return found if any(end == len(row.words) for _, end in self._reader.read(slot, row, 0)) else []

    def _pick_text(self, s: Sentence, left: Sequence[int]) -> str:
        """What is to be said, where no word leads to it: behind a colon, else the longest of the words left in a row."""
        empty = self._empty | self._reminding.keys()
        runs = [list[int]()]
        for i in left:
            if runs[-1] and (i != runs[-1][-1] + 1 or s.after_comma(i)):
                runs.append([])
            if runs[-1] or s.words[i] not in empty:
                runs[-1].append(i)
        behind = [run for run in runs if run and ": " in s.raw[: s.starts[run[0]]]]
        run = max(behind or runs, key=len)
        return s.text(run[0], run[-1] + 1) if run and not any(s.words[i] in self._reminding for i in run) else ""

    def _says(self, s: Sentence, i: int, filled: Sentence, tables: Sequence[str]) -> bool:
        """Whether a word changes what a sentence orders, so that it cannot be passed over where `filled` is proposed."""
        word = s.words[i]
        for names in _SAYING_SLOTS:
            slots = [self._book.slot(name) for name in names]
            if any(True for slot in slots for _ in self._reader.read(slot, s, i)):
                places = range(len(filled.words)) if names is not _SAYING_SLOTS[-1] else ()
                return not any(True for slot in slots for n in places for _ in self._reader.read(slot, filled, n))
        hit = s.longest(s.names, i)
        is_condition = self._has(filled, "if_word")
        if hit and (hit[0][0] == "output" or is_condition):
            named = (filled.longest(s.names, n) for n in range(len(filled.words)))
            return not any(one and one[0] == hit[0] for one in named)  # unless it says the same again
        is_number = not word.isalpha() or self.words["numbers"].get(word, 1) != 1  # "the" and "a" are one, too
        return is_number or any(s.longest(self.words[name], i) for name in tables)

    def _is_measured(self, s: Sentence) -> bool:
        """Whether what is not measured elsewhere is the name of a sensor here: the level of a tank."""
        hits = [hit[0] if (hit := s.longest(s.names, i)) else ("", "") for i in range(len(s.words))]
        others = self._book.values("unmeasured_word")
        strange = any(s.longest(others, i) for i, hit in enumerate(hits) if hit[0] != "sensor")
        return not strange and any(kind == "sensor" and name in self.words["usual"] for kind, name in hits)

    def _match_question(self, s: Sentence, begin: int, end: int) -> IntentMatch | None:
        """What a sentence asks about measurements by what it names."""
        if "than_word" not in self._book.slot_names:
            return None
        goes_on = s.last.name in READS
        if is_quoted(s, begin) or self._is_telling(s, begin) or (not goes_on and self._orders(s, begin)):
            return None
        found = self._questions.read(s, begin, end)
        is_of_here = found is not None and found.found.keys() >= {"sensor", "when", "_figure"}  # "today, on average"
        if not goes_on and not is_of_here and s.holds(self.words["general"]):
            return None
        is_clear = found is not None and (found.intent != "sensor_read" or "quantity" in found.found)
        if not found or (found.left and not (is_clear and found.is_named)):
            return None
        match = make_match(self.intents[found.intent], found.found, 1.0 - found.left * _LEFT_COST, "frame")
        return None if match.missing else match

    def _match_frame(
        self, s: Sentence, begins: Sequence[int], ends: Sequence[int], offered: Offered, best: IntentMatch | None
    ) -> IntentMatch | None:
        """What a sentence means by the parts that it has, where no template says it; `best` is what one half says."""
        from picoclaw.intents.frames import FrameReader, rank_fit

        frames = self._open_frames(s, begins, ends, offered)
        if not frames or (best and best.answer and not best.tool and best.route != "unknown"):
            return None
        asking = FrameReader(self._book, self._reader, s, begins[-1], ends[-1])
        is_same = (begins[-1], ends[-1]) == (begins[0], ends[0])
        moving = asking if is_same else FrameReader(self._book, self._reader, s, begins[0], ends[0])
        moves = [f for f in frames if self.intents[f.intent].kind]
        readers = [(asking, [f for f in frames if not self.intents[f.intent].kind]), (moving, moves)]
        if (behind := self._skip_no(s)) < ends[0]:  # "no, 2"
            readers.append((FrameReader(self._book, self._reader, s, behind, ends[0]), moves))
        goes_on = len(s.words) <= MAX_SHORT_WORDS or s.longest(self.words["splits"], 0) is not None
        is_general = s.holds(self.words["general"]) or (best is not None and not best.tool)
        is_past = self._has(s, "past_verb")
        waits = not is_past and self._has(s, "tell_word") and self._has(s, "if_word")
        fits = [
            fit._replace(covered=fit.covered + MAX_CLASSIFIED * (goes_on and bool(fit.intent.after or fit.intent.acts)))
            for reader, open_frames in readers
            for fit in reader.fits(open_frames)
            if fit.intent.kind or (not waits and (not is_general or (fit.is_named and not fit.left)))
        ]
        compares = self._has(s, "more", "higher_word", "lower_word") and self._has(s, "how_much")
        unknown = None
        for fit in sorted(fits, key=lambda fit: (*rank_fit(fit), bool(fit.intent.after)), reverse=True):
            if fit.left and best is not None:
                break
            match = self._planned(self._make_match(fit.intent, s, fit.found), s)
            if match is None:
                continue
            if match.route == "template":
                match = match._replace(route="frame")
            is_now = match.tool == "sensor_read" and match.intent != "sensor_ok" and match.route == "frame"
            if is_now and (compares or is_past):
                continue  # "how many degrees warmer is it inside?", "did it freeze at the weekend?"
            is_clear = match.missing in {"", NEEDS_CLOCK}
            if match.route == "unknown" or (fit.intent.after and not is_clear):
                unknown = unknown or match  # an "it" of nothing: another reading may need none
            elif best is None or is_clear:
                return match._replace(score=match.score - fit.left * _LEFT_COST)
        return unknown if best is None else None

    def _open_frames(self, s: Sentence, begins: Sequence[int], ends: Sequence[int], offered: Offered) -> list[Frame]:
        """The frames whose words are in a sentence, of what a sentence of its form, said at this point, may mean."""
        kinds = {kind for kind in ("", "adds", "acts") if self._may_be(kind, s, begins, ends, offered)}
        asks = s.asks and s.longest(s.names, begins[-1]) is not None  # "pump running?"
        orders = not asks and self._orders(s, begins[-1])
        said = frozenset(s.words)
        near = [frame for frame in self._frames if not any(map(said.isdisjoint, frame.needs))]
        asked = [self.intents[name] for name in {frame.intent for frame in near}]
        open_intents = {
            intent.name
            for intent in asked
            if intent.kind in kinds
            and (not intent.only or intent.tool in (offered or ()))
            and (not intent.after or _is_after(intent, s))
            and not (intent.name == "unmeasured" and self._is_measured(s))
        }
        return [
            frame
            for frame in near
            if frame.intent in open_intents and (not orders or any("^" in piece.marks for piece in frame.pieces))
        ]

    def _may_be(self, kind: str, s: Sentence, begins: Sequence[int], ends: Sequence[int], offered: Offered) -> bool:
        """Whether a sentence of this form may be meant to read, to add or to act."""
        words, begin = self.words, begins[-1]
        if is_quoted(s, begin) or (self._is_negated(s, len(s.words) if kind else ends[-1]) and (kind or not s.asks)):
            return False
        if not kind:
            return not self._is_telling(s, begin)
        asks = s.holds(words["requests"])
        # "quand il fait ..., allume"
        is_condition = "?" not in s.raw and any(s.longest(self._book.values("if_word"), at) for at in begins)
        if not (is_condition or self._is_wish(s, begin)) or (kind == "acts" and offered is None):
            return False
        return kind == "adds" or asks or "?" not in s.raw

    def moves(self, match: IntentMatch | None) -> bool:
        """Whether a match acts or adds, or is to be taken where nothing else fits."""
        return match is not None and self.intents[match.intent].kind != ""

    def _moves_with_text(self, match: IntentMatch) -> bool:
        """Whether a match acts or adds by free text, which a further wish may be part of."""
        return self.moves(match) and self._has_text_slot(self.intents[match.intent])

    def find_topic(self, text: str) -> str:
        """What a text is about, '' where that is not sure."""
        shares = self._score(self._read(text))
        return shares[0][1] if shares and shares[0][0] >= MIN_TOPIC_SHARE else ""

    def list_topics(self, text: str, least: float) -> set[str]:
        """What a text may be about, each with the `least` share or more."""
        return {topic for share, topic in self._score(self._read(text)) if share >= least}

    def tells(self, text: str) -> bool:
        """Whether a text of some words only tells something."""
        s = self._read(text)
        asks = s.end_of(self.words["questions"], 0) > 0 if s.words else True
        return len(s.words) > _MAX_UNTOLD and not asks and self._is_statement(s) and not self._wishes(s)

    def _fits(
        self,
        s: Sentence,
        walk: TemplateWalk,
        begins: Collection[int],
        offered: Offered = None,
        *,
        whole: bool = False,
        kind: str = "",
    ) -> list[tuple[IntentMatch, int]]:
        """What templates of a kind make of the words from one of `begins` on, and how well; `whole`: none with free text."""
        found = []
        for i in begins:
            for template in self._starting(s, i, kind):
                if any(map(walk.lacks, template.needs)):
                    continue
                intent = self._book.intents[template.intent]
                if intent.only and intent.tool not in (offered or ()):
                    continue
                if intent.after and not _is_after(intent, s):
                    continue
                fit = walk.fit(template.edges, i, {})
                if fit and (not whole or (intent.tool and fit[0] >= len(s.words) - i)):
                    match = self._planned(self._make_match(intent, s, fit[1]), s)
                    score = fit[0] + ("request" in fit[1]) + bool(intent.after)
                    if match:  # "delete the one with the fan" is of what was listed last
                        found.append((match, 2 * score + ("_called" in match.said and match.tool == s.last.name)))
        return found

    def _make_match(self, intent: Intent, s: Sentence, found: SlotValues) -> IntentMatch:
        return Draft(self._book, self._reader, intent, s, found).make()

    def _has_text_slot(self, intent: Intent) -> bool:
        return any(slot.kind == "text" for slot in self._book.slots(intent))

    def _planned(self, match: IntentMatch, s: Sentence) -> IntentMatch | None:
        """Return `match` as it is to be done; None where it is not what was said."""
        if "request" in match.arguments:
            return self._plan_request(match, s)
        if match.intent == "memory_store":
            match = self._drop_note_head(match)
        if self._is_misread(match, s):
            return None
        reason = str(match.said.get("_reason", ""))
        end = s.raw.find(reason) if reason else 0
        if any(self._asks_by_accent(s, i) for i, start in enumerate(s.starts) if start < end):
            return None  # "enciende la luz, qué humedad hay"
        asked, _, told = str(match.arguments.get("query", "")).partition("? ")
        is_search = match.tool == "memory_search" and told != ""  # "when did I sow the beans? It must be noted."
        return match._replace(arguments=match.arguments | {"query": asked}) if is_search else match

    def _drop_note_head(self, match: IntentMatch) -> IntentMatch:
        """Return a note without the "as a note:" before it, or the question for it where nothing but that was said."""
        head, colon, note = str(match.arguments.get("text", "")).partition(":")
        s = Sentence(head, self.words)
        begin = s.end_of(self.words["it"], 0)
        end, instead = (s.end_of(self._book.values(name), begin) for name in ("as_note", "instead"))
        if note.strip() and len(s.words) in {end, instead}:
            return match._replace(arguments=match.arguments | {"text": note.strip()})
        tables = [self.words["it"], self.words["ignore"], *map(self._book.values, ("answer_word", "noun"))]
        is_answer = all(any(s.longest(table, i) for table in tables) for i in range(len(s.words)))  # "that value"
        is_empty = s.words and not colon and (end or is_answer)
        return make_match(self.intents["memory_what"], {}, match.score, match.route) if is_empty else match

    def _is_misread(self, match: IntentMatch, s: Sentence) -> bool:
        """Whether the texts or the times of a match say that something else was meant."""
        given = match.arguments
        if match.tool == "memory_search":
            query = str(given.get("query", ""))
            asked, _, told = query.partition("? ")
            if told:
                return self._is_meant(asked) or not self._is_told(told)
            return self._is_watering(query)  # "when did I last water?", which the pump's history tells
        if match.intent == "memory_more" and not self._is_told(str(given["text"])):
            return True
        if match.tool == "memory_store":
            note = str(given.get("text"))
            return self._is_of_reminders(note) or (match.intent == "memory_store" and self._names_a_list(note))
        old, new = (str(given.get(name, "")) for name in ("old", "new"))
        if match.intent == "memory_rewrite" and old and new:  # "change that to the red pot" leaves open what is in it
            return self._is_told(old) and not self._is_told(new)
        if match.intent == "cron_cook":
            dish = Sentence(str(given.get("message", "")), self.words).words
            return not self._book.values("staple").keys() >= {*dish} or self._lacks_message(match, s)
        if match.intent in {"output_later", "output_later_off"} and self._leaves_as_it_is(s):
            return True  # "lass die Lampe um 8 aus" is no time at which it goes off
        if match.intent == "output_state" and self._has(s, "list", "list_word"):
            return True  # "is the fan on the list?"
        if match.intent == "cron_left" and self.list_outputs(str(match.said.get("_called", ""))):
            return True  # "how long left on the pump?"
        if match.tool in READS and "compare" not in given and self._ends_in_this_one(s):
            return True  # "was it warmer last week than this?"
        if given.get("compare") == given.get("when", ""):
            return True  # "was it colder last night than the night before?", of which only the nights were read
        if str(match.said.get("_when", "")).endswith(NO_HOUR):
            return True  # "what is on tomorrow?" asks for a day
        return self._lacks_message(match, s) or self._is_meant(str(given.get("content", "")))

    def _plan_request(self, match: IntentMatch, s: Sentence) -> IntentMatch | None:
        """Return `match` with its "request" made the call of a job; None where a job cannot make it, or it is not what was said."""
        arguments = dict(match.arguments)
        request = arguments.pop("request")
        is_past = not self.words["recent"].keys().isdisjoint(request.lower().split()) or self._has(s, "of_night")
        if is_past or self._says_if(Sentence(request, self.words)):
            return None  # "of the last 24 hours" and "when it was on" are no times at which to tell
        wanted = self.match(request)
        if not is_complete(wanted) or self.moves(wanted) or wanted.tool == match.tool:
            return None  # "tell me what is due at 6"
        if wanted.route == "frame" and wanted.score < SURE_WORDS:
            return None  # "take out the trash"
        if wanted.tool == "output" and (len(request.split()) < MAX_BARE_WORDS or self._has(s, "want_word")):
            return None  # "fan", "could I have the fan on every day at 8?"
        at = arguments.get("at", "")
        if wanted.tool == "output_history" and (at or "at " in str(wanted.arguments.get("when", ""))):
            return None  # "tell me who turned the lamp on at 3"
        apart = [word for word in s.words if word not in request.lower().split()]
        is_hour_said = any(word[0].isdigit() or self.words["numbers"].get(word) == 9 for word in apart)
        if wanted.tool in READS and at.endswith(NO_HOUR) and "tomorrow" not in at and not is_hour_said:
            return None  # "for tuesday", "for today": what was measured then
        call = f"{wanted.tool} {json.dumps(wanted.arguments, ensure_ascii=False)}"
        return match._replace(arguments=arguments | {"kind": "tool", "message": call})

    def _is_watering(self, text: str) -> bool:
        """Whether all words of a text say that something, or a plant, was watered."""
        s, tables = (
            Sentence(text, self.words),
            [*map(self._book.values, ("water_verb", "watered_word", "last_time", "living"))],
        )
        return s.skip(tables) == len(s.words) and any(map(s.holds, tables[:2]))

    def _lacks_message(self, match: IntentMatch, s: Sentence) -> bool:
        """Whether a reminder would have no text: none was said, only a time, or what leads to something that is left out."""
        message = str(match.arguments.get("message", ""))
        is_said = message in s.raw
        joint = Sentence(message, self.words).end_of(self.words["splits"], 0)  # "... at 5 and turn on the pump"
        is_too = fold_name(message.lower()) in self._book.values("too_word")
        if message and is_said and (joint or is_too or self._says_nothing(message)):
            return True
        if not is_complete(match):
            return False
        asked = [i for i, start in enumerate(s.starts) if start == s.raw.find(message)] if is_said and message else []
        tells = self._book.values("tell_word")
        if any(s.words[i] in self.words["questions"] and any(s.end_of(tells, n) == i for n in range(i)) for i in asked):
            return True  # "tell me what is on at 6"
        if not message:
            return match.tool == "cron" and match.arguments.get("action") == "add"
        order = self.match(message, {"output"}) if is_said and not s.holds(self._reminding) else None
        if is_complete(order) and order.tool == "output" and self.moves(order):  # "on mondays at 7 water for 90 s"
            return True
        return self._is_cut_off(message, match, s)

    def _is_cut_off(self, message: str, match: IntentMatch, s: Sentence) -> bool:
        """Whether the text of a reminder is what another part of the sentence says more of: a time, or what leads to one."""
        text = Sentence(message, self.words)
        words = text.words
        if text.end_of(self._book.values("it_happens"), 0) == len(words):
            return True  # "..., it's at 3"
        joints = [0, *(text.end_of(self.words["splits"], i) for i in range(1, len(words)))]
        leads = (self._book.values("for_word"), self.words["to"], self.words["units"])
        numbers = (n + 1 for n in joints if n < len(words) and words[n].isdecimal())
        if "at_seconds" in match.arguments and any(text.end_of(table, n) for n in numbers for table in leads):
            return True  # "5 minutes for the eggs and 8 for the pasta" are two
        if words and not {words[-1], f"{words[-1]}'"}.isdisjoint(self.words["bounds"]):
            return True  # "drink every two hours until" "6"
        if len(words) > 1 and words[-1] in self.words["before"] and self._says_nothing(" ".join(words[:-1])):
            return True  # "10 minutes before" "6"
        if day := self.times.count_part(words[:MAX_SHORT_WORDS]):
            rest, is_clock = words[day:MAX_SHORT_WORDS], _CLOCK.fullmatch(str(match.arguments.get("at", "")))
            head = Sentence(message.partition(":")[0], self.words).words
            if day == len(head) or (rest and (is_clock or rest[0] in self.words["to"])):
                return True  # "remind me tomorrow of it at 8"
        end = words[:-1] if any(word in self._book.values("again_word") for word in words[-1:]) else words
        tails = {" ".join(end[-n:]) for n in (1, 2)}
        is_first = not s.raw.rstrip(" .!?").endswith(message)
        names = ("splits", *(("to", "negations", "reported") if is_first else ()))  # "they say in an hour ..."
        return message in s.raw and any(
            not tails.isdisjoint(self.words[name]) for name in names
        )  # "... and again" "at 6"

    def _is_of_reminders(self, text: str) -> bool:
        """Whether a text that is to be noted begins as "a reminder for thursday: ..."."""
        s, reminders = Sentence(text, self.words), self._book.values("reminder_word")
        drop = self._book.slot("called_job").never
        i = next((i for i, word in enumerate(s.words) if word not in drop or s.end_of(reminders, i)), 0)
        return bool(s.words) and s.end_of(reminders, i) > 0

    def _ends_in_this_one(self, s: Sentence) -> bool:
        """Whether a sentence ends in "than this"."""
        than, this = (self._book.values(name) for name in ("than_word", "this_one"))
        return any(s.end_of(this, s.end_of(than, i)) == len(s.words) for i in range(len(s.words)) if s.longest(than, i))

    def _leaves_as_it_is(self, s: Sentence) -> bool:
        """Whether a sentence leaves something off, or on for the night: "leave the fan on tonight"."""
        leaves = s.end_of(self._book.values("leave_verb"), self._core(s)[0][-1]) > 0
        return leaves and self._has(s, "left_off", "sleep_time")

    def begins_with_no(self, text: str) -> bool:
        """Whether a text corrects something by a "no," before it."""
        s = self._read(text)
        begin = self._skip_no(s) if s.words and not s.asks else 0
        return begin > 0 and not s.end_of(self.words["questions"], begin)

    def _names_a_list(self, text: str) -> bool:
        """Whether a text that is to be noted only says where it belongs: "on the shopping list"."""
        s, lists = Sentence(text, self.words), [self._book.values(name) for name in ("list", "list_word")]
        said = {n for i in range(len(s.words)) for table in lists for n in range(i, s.end_of(table, i))}
        return bool(said) and all(i in said or word in self._empty for i, word in enumerate(s.words))

    @cached_property
    def _empty(self) -> frozenset[str]:
        return frozenset(word for name in _EMPTY_WORDS for word in self.words[name])

    @cached_property
    def _reminding(self) -> Mapping[str, Any]:
        return {**self._book.values("remind_verb"), **self._book.values("reminder_word")}

    def _says_nothing(self, text: str) -> bool:
        """Whether a text has but numbers, a limit and words without a meaning of their own: "rather 30", "under 5 degrees"."""
        s = Sentence(text, self.words)
        tables = [self._book.values(name) for name in ("instead", "again_word", "remind_verb", "shift_way")]
        tables += [self.words[name] for name in _SAYING_NOTHING]
        tables += [dict.fromkeys((word for word in s.words if word[0].isdigit()), "")]
        beyond = s.longest(self._book.values("beyond"), 0)
        if beyond and any(True for _ in self._reader.read(self._book.slot("value"), s, beyond[1])):
            return True
        return s.skip(tables) == len(s.words)

    def _is_meant(self, text: str) -> bool:
        """Whether a text that is to be written stands for something else: "the current temperature", "the same"."""
        words = fold_name(text.lower()).split()
        if any(" ".join(words[i:]) in self.words["it"] for i in range(len(words))):
            return True
        wanted = self.match(text) if words else None
        return is_complete(wanted) and not self.moves(wanted)

    def _starting(self, s: Sentence, i: int, kind: str) -> Iterator[Template]:
        """The templates of a kind that may begin at word `i`; those that add something do not with a slot at a "do not"."""
        word = s.words[i]
        words = (word, "@" + self._vocabulary[word])
        bare = kind != "adds" or not s.end_of(self.words["negations"], i)
        return chain.from_iterable(self._book.starting(key, kind) for key in ((*words, "") if bare else words))

    def put_for_it(self, text: str, name: str) -> str:
        """A text with a name in the place of its "it", '' where it has none."""
        s = Sentence(text, self.words)
        for i in range(len(s.words)):
            if (hit := s.longest(self.words["it"], i)) and hit[1] not in s.counts:  # "Lüfter aus, die drei"
                tail = s.text(hit[1], len(s.words)) if hit[1] < len(s.words) else ""
                is_parted = i == 0 or s.starts[i] > s.starts[i - 1]  # "apágalo" is one
                head = s.text(0, i) if i and is_parted else " ".join(s.words[:i])
                return f"{head} {name.strip(' .!?')} {tail}"
        return ""

    def drop_lead(self, text: str) -> str:
        """A text without the words that may stand before a request."""
        s = self._read(text)
        return s.text(self._core(s)[0][-1], len(s.words)) if s.words else ""

    def choose_refusal(self, text: str) -> str:
        """What is said to a text that was not understood, as a key of `say` or the intent that a talk is answered by."""
        s, words = self._read(text), self.words
        shares = self._score(s)
        share, topic = max(((share, name) for share, name in shares if name in self.topics.talk), default=(0.0, ""))
        is_measured = topic == "unmeasured" and (self._names_measured(s) or self._asks_to_act(s))
        is_false = is_measured or (topic in _ABOUT_ANY and self._wonders(s))
        if share >= self.topics.talk.get(topic, 1.0) and not is_false and not self._says_more(s, topic, share):
            return self.topics.meant.get(topic, topic)
        orders = sum(share for share, name in shares if name in self.topics.proposed)
        asks = s.asks or s.end_of(words["questions"], 0) or self._wonders(s)
        if asks and orders < MIN_ORDERED and not s.holds(words["requests"]):
            return "no_model"
        return "undone" if orders > MIN_UNDONE or self._names_any(s) or self._wishes(s) else "unknown"

    def has_number(self, text: str) -> bool:
        """Whether a text says a number; "a" and "one" are none."""
        numbers = self.words["numbers"]
        return any(word[0].isdigit() or numbers.get(word, 1) != 1 for word in self._read(text).words)

    def says_both(self, text: str) -> bool:
        return self._has(self._read(text), "both_word")

    def names_part_of_day(self, text: str) -> bool:
        """Whether a word of a text is one for a part of the day, whatever stands before it: "night"."""
        parts = {phrase.split()[-1] for phrase, (_, usual) in self.words["parts"].items() if usual}
        return not parts.isdisjoint(self._read(text).words)

    def says_time(self, text: str) -> bool:
        """Whether a text names a day or a time of day."""
        words = self._read(text).words
        return any(self.times.count_part(words[i : i + MAX_SHORT_WORDS]) for i in range(len(words)))

    def _says_more(self, s: Sentence, topic: str, share: float) -> bool:
        """Whether talk is not all that a sentence is: it wishes something, or names something beside it, as "..., merci" and
        "ok then 8 to 20"; who says what will be, or what was, has not asked for it.
        """
        questions = self.words["questions"]
        asks = s.asks or s.end_of(questions, 0) > 0
        if asks and share < _SURE_OF_QUESTIONS.get(topic, 0.0):
            return True
        if topic == "forecast" and not asks and not s.end_of(questions, 1) and len(s.words) > MAX_BARE_WORDS:
            return True
        if topic == "remark" and self.says_time(s.raw):
            return True  # "sorry, it is at half past nine"
        if topic == "not_wanted" and s.holds(self.words["until"]):
            return True  # "leave the fan on until it is below 22"
        if topic in self.topics.idle and share < SURE_STRANGE and self._wishes(s):
            return True
        if self._greets_first(s, topic):
            return True
        if topic not in self.topics.chat - _ABOUT_ANY or not self._names_any(s):
            return False
        head = s.raw.rpartition(",")[0]
        if not head.strip():
            return share < SURE_WHOLE and any(word[0].isdigit() for word in s.words)
        shares = self._score(self._read(head))
        return bool(shares) and shares[0][1] not in self.topics.chat

    def _greets_first(self, s: Sentence, topic: str) -> bool:
        """Whether a greeting or thanks only begins a question about something else: "hello, is the pump all right?"."""
        rest = SENTENCE_END.split(s.raw)[1:]
        if topic not in self.topics.chat or not s.asks or not rest:
            return False
        is_chat = (
            shares[0][1] in self.topics.chat - {"nothing"} for part in rest if (shares := self._score(self._read(part)))
        )
        is_long = max(len(part.split()) for part in rest) > MAX_BARE_WORDS
        return any(map(self.says_time, rest)) or (is_long and not all(is_chat))

    def _names_any(self, s: Sentence) -> bool:
        """Whether a sentence names what is declared here, a quantity or a number."""
        tables = [s.names, *(self._book.values(name) for name in ("quantity", "noun"))]
        return any(word[0].isdigit() for word in s.words) or any(map(s.holds, tables))

    def _gather(self, intent: Intent, s: Sentence, begin: int, end: int) -> SlotValues:
        """The slots of a sentence without a template: each where it first reads well, free text last."""
        found: SlotValues = {}
        left = set(range(begin, end))
        for slot in sorted(self._book.slots(intent), key=lambda slot: slot.kind == "text"):
            if slot.name in found:
                continue
            if slot.kind == "text":
                text = self._rest(slot, s, sorted(left))
                found |= {slot.name: text} if text else {}
                continue
            hits = [(value, i, stop) for i in sorted(left) for value, stop in self._likely(slot, s, i)]
            if slot.joins:
                apart = [hit for n, hit in enumerate(hits) if all(other[2] <= hit[1] for other in hits[:n])]
                for value, i, stop in apart:
                    found = add_value(found, slot, value)
                    left -= set(range(i, stop))
                continue
            for value, i, stop in hits[:1]:
                several = slot.kind == "choice" and len({hit[0] for hit in hits}) > 1
                found[slot.name] = "" if several else value
                left -= set(range(i, stop))
        return found

    def _likely(self, slot: SentenceSlot, s: Sentence, i: int) -> Iterator[SlotReading]:
        """The likeliest reading at word `i`; a name that the data does not list must follow an "in the"."""
        follows = not slot.after or self._reader.follows(slot, s, i)
        if slot.kind in {"name", "folder"}:
            follows = s.longest(slot.values, i) is not None or (follows and s.words[i] not in self._book.keys)
        if follows:
            yield from islice(self._reader.read(slot, s, i), 1)

    def _follow(self, slot: SentenceSlot, s: Sentence, left: list[int]) -> str:
        """What follows a word that such a text follows, '' for nothing."""
        for place, i in enumerate(left[:-1]):
            run = [n for n, m in zip(left[place + 1 :], count(i + 1), strict=False) if n == m]
            while len(run) > 1 and s.words[run[0]] in slot.drop:
                del run[0]
            if run and s.words[i] in slot.after and s.words[run[0]] not in self._reminding:
                return s.text(run[0], run[-1] + 1)
        return ""

    def _rest(self, slot: SentenceSlot, s: Sentence, left: list[int]) -> str:
        """Free text: what follows "about" or the like; else all of the sentence, or its unusual words."""
        if text := self._follow(slot, s, left):
            return text
        if slot.whole:
            return s.text(left[0], left[-1] + 1) if left else ""
        return " ".join(s.text(i, i + 1) for i in left if self._vocabulary[s.words[i]] and s.words[i] not in slot.drop)


def _is_after(intent: Intent, s: Sentence) -> bool:
    """Whether the last call is one that an intent goes on with: a tool, "tool:action", "new" for none, what "waits"."""
    name, wanted = s.last.name, intent.after.split()
    if wanted == ["waits"]:
        return "waits" in s.referents
    if name == "output_history" and "name" in s.last.arguments and "output" in wanted:
        return True  # "how long was it on yesterday?" - "off"
    return (name or "new") in wanted or f"{name}:{s.last.arguments.get('action', '')}" in wanted


def _rank(fit: tuple[IntentMatch, int]) -> tuple[bool, int, bool, int]:
    """How well a template fits; of two that lack something, that lacks less: "wake me" only the hour."""
    match, score = fit
    is_complete = match.missing in {"", NEEDS_CLOCK} and match.route == "template"
    return is_complete, score, not match.tool, len(match.arguments) if match.missing else 0
