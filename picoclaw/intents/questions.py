"""Reads a question about measurements by what it names, in any order: quantity, place, time, figure, limit.

Templates and frames come first; this is for what none of them says whole. What a short question leaves out ("and
yesterday?", "avg too", "what's the difference") is taken from the question before it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from picoclaw.intents.arguments import MAX_CONTINUED_WORDS, READS, find_sense
from picoclaw.intents.changes import LAST_LENGTH, WITH_CLOCK, find_current, keep_hour, put_at_night, put_late, step_time
from picoclaw.intents.frames import FrameReader
from picoclaw.intents.grammar import Grammar
from picoclaw.intents.sentence import Sentence, SlotReader, SlotReading, SlotValues
from picoclaw.intents.times import is_moment
from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import MONTHS, WEEKDAYS

_MAX_LEFT = 2
"""Words that say nothing to this module, and may stand in a question all the same."""
_DAY_S = 86_400
_DAYS = frozenset({"today", "yesterday", "day before yesterday", "last night", *WEEKDAYS})
_PARTS_OF_DAY = frozenset({"this morning", "this afternoon", "this evening"})
_IN_PART = pattern(r"(.+) (morning|afternoon|evening)")
_NOON_OF_NIGHT = pattern(r"night .*\b(?:0[7-9]|1[0-7]):")
_CLOCK = pattern(r"(\d\d?):(\d\d)")
_DATE = pattern(rf"\d+(?:st|nd|rd|th| (?:{'|'.join(MONTHS)}))")
_PART_NAMES = """
    both_word past beyond spot figure hottest coldest more frost_word noun quantity trend_word chart_word than_word compare_word when_word
    how_long_word how_often how_much higher_word lower_word now_word there everything getting
    past_verb own_output no_measurement value lasts earlier_step add_word per_word stay_word
    same_word
"""
_PARTS = _PART_NAMES.split()
_BESIDE = """
    than_word higher_word lower_word frost_word there everything getting past_verb own_output no_measurement
    lasts add_word stay_word same_word
"""
_ASKING = frozenset(_PARTS).difference(_BESIDE.split())
"""Parts of which a question has one, unless the classifier has said what is asked."""
_IMPLIED: Mapping[str, tuple[str, str]] = {
    "past": ("past_verb", "was"),
    "trend": ("trend_word", "trend"),
    "chart": ("chart_word", "chart"),
    "compare": ("compare_word", "compare"),
    "comparetime": ("than_word", "than"),
    "often": ("how_often", "how often"),
    "when": ("when_word", "when"),
    **{figure: ("figure", figure) for figure in ("low", "high", "mean")},
}
"""What the topic of a question says where its words do not."""
_NOW = frozenset({"now", "all"})
"""Topics that no time belongs to; what is said of one is beside them."""
_OF_TWO = frozenset({"compare", "comparetime", "more"})
_EXTREMES = ("more", "hottest", "coldest")
_COMPARING = frozenset({"than_word", "compare_word", "more", "higher_word", "lower_word"})
_OF_EXTREME = ("past", "past_verb", "when_word", "figure")
_FIGURES = frozenset({"low", "high", "mean"})


class SensorQuestion(NamedTuple):
    """What a question means: an intent and its slots; `left` words said nothing."""

    intent: str
    found: SlotValues
    left: int
    is_named: bool


class _Parts:
    """What a question names."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.left = 0
        self.passed: set[str] = set()
        self.clocks: dict[str, str] = {}
        """What a time of day means of a day before today, where its half of the day was not said."""
        self.topic = ""

    def add(self, part: str, value: Any) -> None:
        held = self.values.setdefault(part, [])
        if value not in held:
            held.append(value)

    def first(self, *parts: str) -> Any:
        return next((self.values[part][0] for part in parts if part in self.values), "")

    def has(self, *parts: str) -> bool:
        return not self.values.keys().isdisjoint(parts)


class QuestionReader:
    """Reads questions with the slots of one language."""

    def __init__(self, book: Grammar, reader: SlotReader) -> None:
        self._book, self._reader, self._usual = book, reader, book.words["usual"]
        """The last has what is asked of a place where no quantity is said."""

    def read(
        self, s: Sentence, begin: int, end: int, topic: str = "", known: Callable[[str], bool] | None = None
    ) -> SensorQuestion | None:
        """What the words from `begin` up to `end` ask; None where they are no such question.

        `topic` is what the classifier takes the question for: with it, more words may say nothing, but none behind an
        "in" that is not `known`.
        """
        parts = self._find_parts(s, begin, end, known)
        if parts is None or parts.has("own_output", "per_word") or {"same_word", "spot"} <= parts.values.keys():
            return None
        if parts.has("no_measurement") and not topic:
            return None
        if parts.has("lasts"):
            parts.add("past", f"last {parts.first('lasts')}")  # "pressure, 72 h"
        if topic:
            return self._read_as(topic, parts, s, end - begin)
        if parts.has("noun", "quantity") and not parts.has("past_verb", "trend_word", *_COMPARING):
            parts.values.pop("how_much", None)  # "how much light on the bench?"
        before = self._read_state(s, end - begin)
        if not parts.has(*_ASKING) and not ("_limit" in before and parts.has("frost_word")):
            return None
        if parts.has("value") and not self._use_number(parts, before):
            return None
        if not before and not parts.has("spot", "noun", "quantity", "more", "hottest", "coldest", "frost_word"):
            return None
        if not before and not s.asks and parts.values.keys() <= {"spot", "past_verb"}:
            return None  # a name alone may be the answer to a question, and "bins out" asks nothing
        return self._decide(parts, before, s)

    def _read_as(self, topic: str, parts: _Parts, s: Sentence, size: int) -> SensorQuestion | None:
        """Read a question of which the classifier has said what is asked, and the words of what.

        None where a number, or what may be a time, says something that is in no part.
        """
        parts.topic = topic
        if topic in _NOW and parts.has("how_much") and parts.has("more", "higher_word", "lower_word"):
            return None  # "how many degrees warmer is it inside?" than where
        for part in () if topic in _OF_TWO | {"trend"} else ("how_much", "than_word"):
            parts.values.pop(part, None)  # "how cold did it get" compares with nothing
        if topic not in _NOW and not parts.has("past") and self._names_time(parts):
            return None  # "since lunch"
        if topic in _IMPLIED:
            parts.add(*_IMPLIED[topic])
        before = self._read_state(s, size if parts.has("spot", "noun", "quantity") else 0)
        if topic == "all":
            return SensorQuestion("sensor_read", {}, parts.left, True) if not parts.has("past", "value") else None
        if not self._settle_limit(topic, parts, before):
            return None
        if topic == "when" and not parts.has("past") and not before.get("when"):
            parts.add("past", "last 7 days")
        if not before and not parts.has(
            "spot", "noun", "quantity", "more", "hottest", "coldest", "frost_word", "beyond"
        ):
            return None
        return self._decide(parts, before, s)

    def _names_time(self, parts: _Parts) -> bool:
        """Whether a word that was passed over may be part of a time."""
        words = self._book.words
        times = [words[name] for name in ("since", "ago", "units", "parts", "days", "times")]
        return any(word in table for table in times for word in parts.passed)

    @staticmethod
    def _settle_limit(topic: str, parts: _Parts, before: Mapping[str, Any]) -> bool:
        """Take a number for the limit that is asked about; whether the topic has all that it needs."""
        number: dict[str, Any] = parts.first("value") or {}
        is_named = "_beyond" in before or "quantity" in number
        if topic == "limit" and number and is_named:
            parts.add("beyond", {"beyond": before.get("_beyond", "above"), **number})
            number = {}
        if topic in {"often", "when"} and parts.has("frost_word") and not parts.has("beyond"):
            parts.add("beyond", {"beyond": "below", "limit": "0", "quantity": "temperature"})
        if number and topic != "more":
            return False  # part of a time that was not read, or of what is not asked here
        if topic == "when" and parts.has("beyond"):
            parts.add("how_often", "how often")  # the times at which it was so
        needs = {
            "limit": ("beyond", "frost_word"),
            "often": ("beyond",),
            "when": ("beyond", "figure", "hottest", "coldest"),
        }
        return topic not in needs or parts.has(*needs[topic])

    def _find_parts(self, s: Sentence, begin: int, end: int, known: Callable[[str], bool] | None) -> _Parts | None:
        walk, parts, i, before = FrameReader(self._book, self._reader, s, begin, end), _Parts(), begin, ""
        readable = {*_PARTS} if s.referents.get("sensor") else {*_PARTS} - {"there"}
        if known is None and not s.holds(self._book.values("chart_word")):  # "humidity chart 48h"
            readable.remove("lasts")
        while i < end:
            is_either = any(s.longest(self._book.values("or_word"), n) for n in range(max(begin, i - 2), i))
            compares = before == "than_word" or is_either
            if compares and s.end_of(self._book.values("this_one"), i) == end:
                parts.add("past", str(parts.first("past")).replace("last", "this"))  # "warmer last week than this"
                break
            # the "qué" that a question begins with is no "que" of "más calor que ayer"
            part, value, stop = self._read_at(walk, i, readable - {"than_word"} if i == begin else readable)
            if stop > i:
                if part == "value" and not known and s.last.name not in READS:
                    return None
                if part == "value" and value.get("limit") == "1":
                    i = stop  # "the other one"
                    continue
                if part == "past" and before == "than_word":
                    if value in parts.values.get("past", ()):
                        return None  # "was this weekend warmer than last weekend?": one name for both
                    parts.add("than_past", value)
                if part == "past" and value.startswith("at "):
                    late = self._reader.times.put_past_noon(value[3:], " ".join(s.words[i:stop]))
                    parts.clocks[value] = f"at {late}"
                parts.add(part, value)
                before = part
                i = stop
            elif compares and s.words[i] in self._book.words["recent"]:
                parts.add("earlier_step", "last")  # "warmer this week than last"
                i += 1
            elif walk.filler[i]:
                stop = walk.filler[i][0]
                is_last = stop < end and s.words[stop] in self._book.words["recent"]
                before = "" if s.longest(self._book.words["it"], i) and not is_last else before  # "than that today"
                parts.passed.update(s.words[i:stop])
                i = stop
            elif walk.may_be_left(i, known) and (known or parts.left < _MAX_LEFT):
                parts.passed.add(s.words[i])
                parts.left, i = parts.left + 1, i + 1
            else:
                return None
        return parts

    def _read_at(self, walk: FrameReader, i: int, readable: Collection[str]) -> tuple[str, Any, int]:
        """The longest part that begins at word `i`; of two as long the one that says more."""
        best: tuple[str, Any, int] = "", "", i
        for part in filter(readable.__contains__, _PARTS):
            for value, stop in self._hits(walk, part, i):
                if stop > best[2]:
                    best = part, value, stop
        return best

    @staticmethod
    def _hits(walk: FrameReader, part: str, i: int) -> Iterator[SlotReading]:
        for value, stop in walk.read(part, i):
            if part == "beyond":
                at = stop
                while at < len(walk.filler) and not walk.read("value", at) and walk.filler[at]:
                    at = walk.filler[at][0]  # "under the ten degrees"
                for limit, last in walk.read("value", at):
                    yield {"beyond": value, **limit}, last
            else:
                yield value, stop

    def _read_state(self, s: Sentence, size: int) -> dict[str, Any]:
        """What the last question was about, where this one goes on with it."""
        refers = any(s.holds(self._book.values(name)) for name in ("reference_word", "both_word"))
        goes_on = size <= MAX_CONTINUED_WORDS or refers
        if s.last.name not in READS or not goes_on:
            return {}
        given, said = s.last.arguments, s.said_before()
        before = {name: said[name] for name in ("_figure", "_beyond", "_limit", "_other") if name in said}
        before |= {**given, "_tool": s.last.name}
        compared = [str(one) for one in s.referents.get("_sensors", ()) if one != before.get("_other")]
        if before.get("_other") == before.get("sensor") and compared:
            before["sensor"] = compared[-1]  # the last call was that of the second of two
        if "limit" in before:
            before |= {"_beyond": before["side"], "_limit": before["limit"]}
        return before

    @staticmethod
    def _use_number(parts: _Parts, before: Mapping[str, Any]) -> bool:
        """Whether a bare number takes the place of the last question's limit, or of the length of its time."""
        if before.get("_limit"):
            parts.add("beyond", {"beyond": before["_beyond"], **parts.first("value")})
            return True
        number, last = parts.first("value"), LAST_LENGTH.fullmatch(str(before.get("when", "")))
        if not last or not float(number["limit"]) > 0:
            return False
        is_hours = last[2][:3] == "day" and float(number["limit"]) == 24 * float(last[1])  # "48 hours" are 2 days
        length = f"{number['limit']} {'hour' if is_hours else last[2].rstrip('s')}s"
        is_before = parts.values.pop("earlier_step", None)
        parts.add("past", f"{length} before {last[0]}" if is_before else f"last {length}")
        return True

    def _decide(self, parts: _Parts, before: Mapping[str, Any], s: Sentence) -> SensorQuestion | None:
        asked = _Asked(parts, before, s, self._book)
        quantity = self._find_quantity(parts, asked.sensors, before)
        if quantity is None:
            return None
        asked.found |= {"quantity": quantity} if quantity else {}
        if asked.sensors or before.get("sensor"):
            asked.found["sensor"] = asked.sensors[0] if asked.sensors else before["sensor"]
        if not asked.find_times():
            return None
        asked.go_on()
        asked.find_figure()
        if asked.draws and len(asked.sensors) > 1:
            first, *more = asked.sensors
            slots = {"sensor": first, "when": asked.when, "": {"_more": [{"sensor": one} for one in more]}}
            return asked.ask("history_chart", **slots)
        if compared := asked.compare_with_before():
            return compared
        if asked.compares:
            compared = asked.compare()
            if compared or parts.has(*_COMPARING) or parts.values.keys() == {"how_much"}:  # "the difference" of one
                return compared
        intent, _, find_slots = next(row for row in _INTENTS if row[1](asked))
        return asked.ask(intent, **find_slots(asked)) if intent else None

    def _find_quantity(self, parts: _Parts, sensors: Sequence[str], before: Mapping[str, Any]) -> str | None:
        """The quantity, '' for all of them; None where several are named."""
        said = {
            str(one)
            for part in ("noun", "quantity", "more", "hottest", "coldest")
            for one in parts.values.get(part, ())
        }
        if len(said) > 1:  # "the readings of", and in English "the current voltage"
            said -= {"", *self._book.values("now_word")}
        if said:
            return said.pop() if len(said) == 1 else None
        if before and not before.get("quantity"):
            return ""  # all that it measures, as before
        usual = self._usual.get(sensors[0], "") if sensors else ""
        return usual or str(before.get("quantity", ""))


class _Asked:
    """What is asked, of which sensors and in which times, and what the question before was about."""

    def __init__(self, parts: _Parts, before: Mapping[str, Any], s: Sentence, book: Grammar) -> None:
        self.parts, self.before, self.s, self.has = parts, before, s, parts.has
        self._book = book
        self.found: SlotValues = {}
        self.tool = str(before.get("_tool", ""))
        self.whens, self.known = ([str(one) for one in s.referents.get(name, ())] for name in ("_whens", "_sensors"))
        sensors = [str(one) for one in parts.values.get("spot", ())]
        declared = {name for _, name in s.names.values()}
        self.sensors = [one for one in sensors if one in declared] or sensors  # "the water in the tank"
        self.times: list[str] = []
        self.when = self.figure = ""
        self.is_several = False
        """Whether more than one figure is asked for, "min and max": one answer has all."""
        if self.sensors and not parts.has(*_OF_EXTREME) and any(s.list_values(book.values("more"))):
            for part in ("hottest", "coldest"):  # "hace más frío fuera", where that is both colder and coldest
                parts.values.setdefault("more", []).extend(parts.values.pop(part, []))

    def _holds(self, name: str) -> bool:
        return self.s.holds(self._book.values(name))

    def ask(self, intent: str, **slots: Any) -> SensorQuestion:
        slots = {name: value for name, value in slots.items() if value != ""}
        is_of_two = slots.keys() & {"compare", "_other"}
        if is_of_two and self._compares_in_order(places="_other" in slots):
            slots |= find_sense(self._book, self.s)
        return SensorQuestion(intent, self.found | slots, self.parts.left, self.has("spot") or bool(self.before))

    def _compares_in_order(self, *, places: bool) -> bool:
        """Whether "than" stands behind "more" and, with `places`, behind one of the two: not "and is it colder outside?"."""
        s, slots = self.s, [*map(self._book.values, ("more", "higher_word", "less_word"))]
        more = next((i for i in range(len(s.words)) if any(s.longest(slot, i) for slot in slots)), len(s.words))
        than = next((i for i in range(more, len(s.words)) if s.longest(self._book.values("than_word"), i)), 0)
        here = self._book.values("sensor")
        named = [i < than for i in range(len(s.words)) if s.longest(s.names, i) or s.longest(here, i)]
        return than > 0 and (not places or sum(named) == max(0, len(named) - 1))

    # Of what.

    def find_times(self) -> bool:
        """Take the times that are said; whether the question is about no more than it can be."""
        parts, before = self.parts, self.before
        named = [str(one) for one in parts.values.get("past", ())]
        if any(time in _DAYS - {"today", "last night"} or _DATE.fullmatch(time) for time in named):
            named = [parts.clocks.get(time, time) for time in named]
        is_apart = self.has("than_word", "compare_word") or self._is_either
        times = _join_times(named, str(before.get("when", "")))
        if len(times) == 2 and times[1] in {"today", "yesterday"} and times[0] in WEEKDAYS:
            times = [f"since {times[0]}"]  # "from Monday until today"
        if self.has("earlier_step"):  # "yesterday or the day before?"
            start = times[0] if times else str(before.get("compare") or before.get("when", ""))
            times = [*times, step_time(start, str(parts.first("earlier_step")))]
        if times == ["last night"] == [before.get("when")]:
            times = [step_time("last night", "night")]  # "heut nacht?" - "und gestern nacht?"
        self.times = times
        is_of_two = is_apart or before or parts.topic in _OF_TWO
        return all(times) and len(times) <= (2 if is_of_two else 1)

    @property
    def _is_either(self) -> bool:
        return self.has(*_EXTREMES) and self._holds("or_word")

    def go_on(self) -> None:
        """Take the sensors and times that were spoken of, where the question says "both", "that" or "also"."""
        before = self.before
        if self.has("both_word") and not self.times and not self.sensors and len(self.whens) > 1:
            self.times, self.found[""] = self.whens[-2:-1], {"_more": [{"when": self.whens[-1]}]}
        elif self.has("both_word") and not self.sensors:
            self.sensors = self.known[-2:]
        elif before and not self.sensors and (self.has("chart_word") or (self.times and before.get("chart"))):
            self.sensors = [str(one) for one in self.s.referents.get("sensor", ())]  # "show me that as a chart"
        if self.has("add_word") and before.get("sensor"):
            self.found["sensor"], self.found[""] = (
                before["sensor"],
                {"_more": [{"sensor": one} for one in self.sensors]},
            )
        self.when = self.times[0] if self.times else "" if self.has("now_word") else str(before.get("when", ""))

    def find_figure(self) -> None:
        """Take the lowest, the highest or the mean; "which is the warmest?" is of the places now."""
        ends = [figure for figure, part in (("high", "hottest"), ("low", "coldest")) if self.has(part)]
        is_then = self.when or self.sensors or self.parts.topic or self.has("past_verb", "when_word", "noun")
        self.is_several = len({*self.parts.values.get("figure", ()), *ends}) > 1
        figure = self.parts.first("figure") or (ends[0] if ends and is_then else "")
        self.figure = "" if self.is_several else str(figure)

    # Against what.

    def compare_with_before(self) -> SensorQuestion | None:
        """A comparison of what was asked before: "and in the greenhouse?", "which day was warmer?"."""
        before, has = self.before, self.has
        if (
            self.sensors
            and before.get("compare")
            and not self.times
            and self.parts.values.keys() <= {"spot", "noun", "quantity"}
        ):
            return self.ask("history_compare", when=before.get("when", ""), compare=before["compare"])
        pair = [str(before.get("when", "today")), *self.times] if self.times else self.whens[-2:]
        is_extreme = bool(before) and has(*_EXTREMES) and not self.times
        if is_extreme:
            self._take_both()
        is_day = has("when_word") and any(self._book.words["units"].get(word) == _DAY_S for word in self.s.words)
        is_which = is_extreme and not self.times and (is_day or (has("past_verb") and not has("when_word")))
        is_which = is_which and not self.sensors
        if is_which and not is_day and len(self.known) > 1:
            self.sensors = self.known[-2:]  # "and outside?" - "which was warmer?"
        elif before and len(pair) == 2 and not (self.sensors or has("now_word", "getting")):
            is_of_both = is_which or has("how_much", "compare_word", "than_word")  # and no means are compared
            if before.get("_figure") in {"low", "high"} and is_of_both and not is_day and not is_moment(pair[1]):
                more = {"_more": [{"when": pair[1]}]}
                return self.ask("history", when=pair[0], _figure=before["_figure"], **{"": more})
            if is_which and (is_day or has("more")):
                return self.ask("history_compare", when=pair[0], compare=pair[1])
        return None

    def _take_both(self) -> None:
        is_now, before = self.tool == "sensor_read", self.before
        is_of_now = is_now and not self.has("when_word")  # and not "when was it colder?"
        if is_of_now and self.sensors in ([], [before.get("sensor")]) and len(self.known) == 2:
            self.sensors = self.known  # "how warm is it outside? - and inside? - so it is warmer inside?"
        elif self.whens and not self.sensors and len(self.known) == 1 and (is_now or self._holds("now_word")):
            self.times = self.whens[-1:]  # "how warm was it at noon? - and now? - so it is colder?"
            self.parts.add("compare_word", "compare")
            self.parts.add("now_word", "now")

    @property
    def compares(self) -> bool:
        is_which = self.has("more") or (self.has("hottest", "coldest") and self.tool == "sensor_read")
        is_one_of_two = self._is_either and len(self.times) > 1 and not self.sensors[1:]  # "on Monday or on Tuesday?"
        is_told = is_one_of_two or self.has("than_word", "compare_word", "how_much")
        return is_told or self._compares_again or (is_which and len(self.sensors) > 1)

    @property
    def _compares_again(self) -> bool:
        """Whether what was compared is to be compared again: in another time, or "same for humidity"."""
        if "_other" not in self.before or self.sensors:
            return False
        if not self.has("noun", "quantity", "more"):
            return bool(self.times) or self.figure == "mean"
        return not self.has("figure", "chart_word", "trend_word", "beyond")

    def compare(self) -> SensorQuestion | None:
        """Two places now or in some time, or two times."""
        before, sensors, times = self.before, self.sensors, self.times
        if len(sensors) == 1 and before.get("sensor") not in {None, sensors[0]} and not times:
            sensors = [str(before["sensor"]), *sensors]
        if not sensors and not times and len(self.known) > 1:
            sensors = self.known[-2:]
        is_than_time = bool(times) and self.has("than_word")  # "is it warmer than yesterday?", of the first of two
        if not sensors and "_other" in before and not is_than_time:
            sensors = [str(before["sensor"]), str(before["_other"])]
        if not sensors and not times and before.get("compare"):
            return self.ask("history_compare", when=before["when"], compare=before["compare"])  # "by how much?"
        if len(sensors) > 1:
            when = times[0] if times else str(before.get("when", ""))
            slots = {"sensor": sensors[0], "_other": sensors[1]}
            if not when:
                return self.ask("compare_sensors", **slots)
            figure = str(self.parts.first("figure") or before.get("_figure", ""))
            return self.ask("history_sensors", **slots, when=when, _figure=figure if figure in {"low", "high"} else "")
        if len(times) > 1:
            is_same = times[0] == times[1]  # "this weekend and last weekend"
            when = "last 20 minutes" if times[0] == "today" and is_moment(times[1]) else times[0]
            return None if is_same else self.ask("history_compare", when=when, compare=times[1])
        return self._compare_with_time(times[0]) if times else None

    def _compare_with_time(self, time: str) -> SensorQuestion | None:
        has, before = self.has, self.before
        is_end = has("higher_word", "lower_word") and not has("more", "than_past", "compare_word")
        if before and is_end:
            return self.ask("history", when=time, _figure="high" if has("higher_word") else "low")
        then = time.removeprefix("since ")
        then = f"at {then}" if _CLOCK.fullmatch(then) else then
        is_now = is_moment(then) or then != time or has("now_word") or then[:5] == "this "
        if not is_now and has("how_much") and not has(*_COMPARING):
            return None  # "how much did it rise in the last hour?" compares nothing with that hour
        earlier = str(before.get("when", "")) if has("earlier_step") else ""  # "than the day before"
        when = "last 20 minutes" if is_now else earlier or find_current(then) or "today"
        return self.ask("history_compare", when=when, compare=then) if then != when else None

    # What is asked of it.

    @cached_property
    def limits(self) -> dict[str, Any]:
        """The limit that is asked about, its side and maybe its quantity; that of the question before where it goes on."""
        if "_limit" in self.before and self.has("frost_word"):
            return {"beyond": "below", "limit": "0"}  # "how often below 5?" - "and freezing?"
        is_other = not self.figure and not self.has("chart_word", "noun")
        if "_limit" in self.before and not self.has("beyond") and (is_other or self.asks_when):
            return {"beyond": self.before["_beyond"], "limit": self.before["_limit"]}
        found = dict(self.parts.first("beyond") or {})
        is_frost = self.has("frost_word") and found.get("limit") == "0" and not self.asks_when
        return {} if is_frost else found  # "a frost, or did it stay above zero?" asks for the frost

    @property
    def asks_when(self) -> bool:
        """Whether it is asked when, how long or how often a limit was passed, now or in the question before."""
        return self.tool == "sensor_excursions" or self.has("how_long_word", "how_often", "when_word")

    @property
    def draws(self) -> bool:
        return self.has("chart_word") or bool(self.before.get("chart"))

    @property
    def asks_past_frost(self) -> bool:
        return self.has("frost_word") and (bool(self.times) or self.has("past_verb")) and not self.figure

    @property
    def kept_figure(self) -> str:
        """The figure, or that of the question before."""
        is_one = any(is_moment(time) for time in self.times)  # "at 6:00" has no lowest
        is_kept = not (self.is_several or is_one or self.has("now_word"))
        return self.figure or (str(self.before.get("_figure", "")) if is_kept else "")

    @property
    def is_past(self) -> bool:
        is_now = self.when == "today" and not self.before and not self.kept_figure
        is_now = is_now and not self.has("past_verb", "when_word")
        is_of_time = self.kept_figure or self.when or self.has("when_word")
        return self.is_several or bool(is_of_time and not is_now)

    # The slots of the answers.

    def name_quantity(self) -> dict[str, Any]:
        """The quantity, of a limit or a figure, where none was said."""
        usual = self._book.words["usual"].get(str(self.found.get("sensor", "")), "temperature")
        return {"quantity": self.found.get("quantity") or usual}

    def name_limit(self) -> dict[str, Any]:
        stays = "yes" if self.has("stay_word") and not self.asks_when else ""  # "did it stay above 20?": of the lowest
        return {**self.name_quantity(), **self.limits, "_stays": stays}

    def name_past_limit(self) -> dict[str, Any]:
        is_last = self.has("when_word") and self._holds("last_time") and {*self.times} <= {"last 7 days"}
        found = self.name_limit()
        if not self.asks_when:
            return {**found, "when": self.when}
        # what counts how often knows no other sides
        side = {"at least": "above", "at most": "below"}.get(found["beyond"], found["beyond"])
        return {**found, "beyond": side, "when": self.when or "today", "_last": is_last or ""}

    def name_chart(self) -> dict[str, Any]:
        return {**self.name_quantity(), "when": self.when}

    def name_figure(self) -> dict[str, Any]:
        has_figure = self.kept_figure or self.is_several
        usual = "today" if has_figure and self.tool != "sensor_history" else ""  # its own time, if it was none
        return {**(self.name_quantity() if has_figure else {}), "when": self.when or usual, "_figure": self.kept_figure}

    def name_more(self) -> dict[str, Any]:
        more = [{"sensor": one} for one in self.sensors[1:]]
        return {"": {"_more": more}} if more else {}


_Fits = Callable[[_Asked], Any]
_INTENTS: Sequence[tuple[str, _Fits, Callable[[_Asked], dict[str, Any]]]] = (
    ("history_excursions", lambda q: q.limits and q.asks_when, _Asked.name_past_limit),
    ("history_limit", lambda q: q.limits and (q.when or q.has("past_verb")), _Asked.name_past_limit),
    ("sensor_limit", lambda q: q.limits, _Asked.name_limit),
    ("history_chart", lambda q: q.has("chart_word") or (q.draws and not q.figure), _Asked.name_chart),
    ("history_trend", lambda q: q.has("trend_word"), lambda q: {"when": q.when}),
    ("history_frost", lambda q: q.asks_past_frost, lambda q: {"when": q.when or "last 7 days"}),
    ("history", lambda q: q.is_past, _Asked.name_figure),
    ("", lambda q: q.has("past_verb"), lambda _: {}),  # "was it warm?": of what time is not said
    ("sensor_frost", lambda q: q.has("frost_word") and not q.has("noun", "quantity"), lambda _: {}),
    ("sensor_read", lambda _: True, _Asked.name_more),
)
"""Which intent a question has by what was read of it, the first that fits, and its slots."""


def _join_times(times: list[str], before: str) -> list[str]:
    """A day and a time of day as one, "yesterday at 12:00", one maybe said before."""
    times = [keep_hour(time, before) for time in times]
    clocks = [time for time in times if time.startswith(("at ", "from "))]
    days = [time for time in times if time in _DAYS or time.endswith((" night", " days ago")) or _DATE.fullmatch(time)]
    parts = [time.removeprefix("this ") for time in times if time in _PARTS_OF_DAY]
    if len(clocks) + len(parts) == len(days) == 1 and len(times) == 2:
        is_today = days[0] == "today" and not clocks
        return [f"this {parts[0]}" if is_today else put_at_night(f"{days[0]} {(clocks or parts)[0]}")]
    since = [time for time in times if time.removeprefix("since ") in _DAYS - {time, "today", "last night"}]
    if len(since) == len(clocks) == 1 and len(times) == 2:
        return [f"{since[0]} {clocks[0]}"]  # "since yesterday at noon"
    in_part = [found for time in times if (found := _IN_PART.fullmatch(time))]
    if len(in_part) == len(clocks) == 1 and len(times) == 2 and clocks[0].startswith("at "):
        day, part = in_part[0].groups()
        clock = put_late(clocks[0]) if part != "morning" else clocks[0]
        named = {"this": clock, "since this": f"since {clock.removeprefix('at ')}"}
        return [named.get(day, f"{day} {clock}")]
    found = WITH_CLOCK.fullmatch(before)
    if days == times and len(days) == 1 and found:
        when = put_at_night(f"{days[0]} {found[2]}")
        return times if _NOON_OF_NIGHT.search(when) else [when]
    return times
