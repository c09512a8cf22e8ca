"""Reads a question about measurements by what it names, in any order: quantity, place, time, figure, limit.

Templates and frames come first; this is for what none of them says whole. What a short question leaves out ("and
yesterday?", "avg too", "what's the difference") is taken from the question before it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from picoclaw.intents.arguments import MAX_CONTINUED_WORDS, READS
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
_PERIODS = frozenset({"week", "month", "year"})
_PARTS_OF_DAY = frozenset({"this morning", "this afternoon", "this evening"})
_IN_PART = pattern(r"(.+) (morning|afternoon|evening)")
_NOON_OF_NIGHT = pattern(r"night .*\b(?:0[7-9]|1[0-7]):")
_CLOCK = pattern(r"(\d\d?):(\d\d)")
_DATE = pattern(rf"\d+(?:st|nd|rd|th| (?:{'|'.join(MONTHS)}))")
_PART_NAMES = """
    both_word past beyond spot figure hottest coldest more frost_word noun quantity trend_word chart_word than_word compare_word when_word
    how_long_word how_often how_much fahrenheit higher_word lower_word now_word there everything getting
    past_verb own_output no_measurement value lasts earlier_step add_word per_word stay_word
    same_word
"""
_PARTS = _PART_NAMES.split()
_BESIDE = """
    than_word fahrenheit higher_word lower_word frost_word there everything getting past_verb own_output no_measurement
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
        if topic:
            return self._read_as(topic, parts, s, end - begin)
        if parts.has("lasts"):
            if parts.has("past"):
                return None
            parts.add("past", f"last {parts.first('lasts')}")
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
        if topic != "trend":
            parts.values.pop("getting", None)  # "am I going to sweat?"
        for part in () if topic in _OF_TWO | {"trend"} else ("how_much", "than_word"):
            parts.values.pop(part, None)  # "how cold did it get" compares with nothing
        if topic in _NOW and (parts.has("now_word") or not parts.has("past")):
            for part in ("past", "lasts", *(("past_verb",) if parts.has("now_word") else ())):
                parts.values.pop(part, None)
        length = str(parts.first("lasts"))
        if length and topic in {*_FIGURES, "past", "trend", "chart"} and not parts.has("past"):
            parts.add("past", f"last {length}")  # "pressure, 72 h"
        elif length:
            return None
        if topic not in _NOW and not parts.has("past") and self._names_time(parts, topic):
            return None  # "since lunch"
        if topic in _IMPLIED:
            parts.add(*_IMPLIED[topic])
        before = self._read_state(s, size if parts.has("spot", "noun", "quantity") else 0)
        if topic == "more" and not before:
            if (parts.values.keys() <= {"spot", "past_verb"} and not s.asks) or not parts.has(
                "spot", "noun", "quantity"
            ):
                return None  # a name alone may be the answer to a question
            topic = "now"
        if topic == "all":
            return SensorQuestion("sensor_read", {}, parts.left, True) if not parts.has("past", "value") else None
        if not self._settle_limit(topic, parts, before):
            return None
        if topic in _FIGURES | {"often"} and not parts.has("past") and not before.get("when"):
            parts.add("past", "today")
        if topic == "when" and not parts.has("past") and not before.get("when"):
            parts.add("past", "last 7 days")
        if not before and not parts.has(
            "spot", "noun", "quantity", "more", "hottest", "coldest", "frost_word", "beyond"
        ):
            return None
        return self._decide(parts, before, s)

    def _names_time(self, parts: _Parts, topic: str) -> bool:
        """Whether a word that was passed over may be part of a time."""
        words = self._book.words
        times = [words[name] for name in ("since", "ago", "units", "parts", "days", "times")]
        times += [words["recent"]] if topic != "when" else []  # "when was it last above 30"
        return any(word in table for table in times for word in parts.passed)

    @staticmethod
    def _settle_limit(topic: str, parts: _Parts, before: Mapping[str, Any]) -> bool:
        """Take a number for the limit that is asked about; whether the topic has all that it needs."""
        number: dict[str, Any] = parts.first("value") or {}
        is_named = "_beyond" in before or "quantity" in number
        if topic == "limit" and number and is_named and not parts.has("beyond", "frost_word"):
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
        return bool(before) or topic not in needs or parts.has(*needs[topic])

    def _find_parts(self, s: Sentence, begin: int, end: int, known: Callable[[str], bool] | None) -> _Parts | None:
        walk, parts, i, before = FrameReader(self._book, self._reader, s, begin, end), _Parts(), begin, ""
        draws = s.holds(self._book.values("chart_word"))  # "humidity chart 48h"
        while i < end:
            is_either = any(s.longest(self._book.values("or_word"), n) for n in range(max(begin, i - 2), i))
            compares = before == "than_word" or is_either
            if compares and s.end_of(self._book.values("this_one"), i) == end:
                last = str(parts.first("past"))
                if not last.startswith("last ") or last.removeprefix("last ") not in _PERIODS:
                    return None
                parts.add("past", last.replace("last", "this"))  # "warmer last week than this"
                break
            part, value, stop = self._read_at(walk, s, i)
            if part == "lasts" and known is None and not draws:
                part, value, stop = self._read_at(walk, s, i, without=part)
            if stop > i:
                if part == "value" and not known and s.last.name not in READS:
                    return None
                if part == "value" and value.get("limit") == "1" and not s.words[i][0].isdigit():
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
            elif (walk.may_be_left(i, known) or self._is_living(walk, s, i)) and (known or parts.left < _MAX_LEFT):
                parts.passed.add(s.words[i])
                parts.left, i = parts.left + 1, i + 1
            else:
                return None
        return parts

    def _is_living(self, walk: FrameReader, s: Sentence, i: int) -> bool:
        """Whether a plant stands there for which something is asked, and no place: "wie viel Licht hatten die Sämlinge?"."""
        return i > 0 and s.words[i - 1] not in self._book.words["places"] and bool(walk.read("living", i))

    def _read_at(self, walk: FrameReader, s: Sentence, i: int, without: str = "") -> tuple[str, Any, int]:
        """The longest part that begins at word `i`; of two as long the one that says more."""
        best: tuple[str, Any, int] = "", "", i
        for part in _PARTS:
            if part == without:
                continue
            for value, stop in self._hits(walk, s, part, i):
                if stop > best[2]:
                    best = part, value, stop
        return best

    def _hits(self, walk: FrameReader, s: Sentence, part: str, i: int) -> Iterator[SlotReading]:
        if part == "there" and not s.referents.get("sensor"):
            return
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
        before |= {name: value for name, value in given.items() if value} | {"_tool": s.last.name}
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
        if not last or "quantity" in number or not float(number["limit"]) > 0 or parts.has("past"):
            return False
        is_hours = last[2][:3] == "day" and float(number["limit"]) == 24 * float(last[1])  # "48 hours" are 2 days
        length = f"{number['limit']} {'hour' if is_hours else last[2].rstrip('s')}s"
        is_before = parts.values.pop("earlier_step", None)
        parts.add("past", f"{length} before {last[0]}" if is_before else f"last {length}")
        return True

    def _decide(self, parts: _Parts, before: Mapping[str, Any], s: Sentence) -> SensorQuestion | None:
        found: SlotValues = {}
        sensors = [str(one) for one in parts.values.get("spot", ())]
        declared = {name for _, name in s.names.values()}
        if not declared.isdisjoint(sensors):  # "the water in the tank"
            sensors = [one for one in sensors if one in declared]
        if not before and sensors and any(s.list_values(self._book.values("more"))) and not parts.has(*_OF_EXTREME):
            for part in ("hottest", "coldest"):  # "hace más frío fuera", where that is both colder and coldest
                parts.values.setdefault("more", []).extend(parts.values.pop(part, []))
        quantity = self._find_quantity(parts, sensors, before)
        if quantity is None:
            return None
        found |= {"quantity": quantity} if quantity else {}
        if sensors or before.get("sensor"):
            found["sensor"] = sensors[0] if sensors else before["sensor"]
        named = [str(one) for one in parts.values.get("past", ())]
        if parts.has("compare_word") and len(named) == 1:
            since = named[0].removeprefix("since ")  # "between yesterday and today"
            pair = [] if named[0] == "saturday to sunday" else named[0].split(" to ")
            named = [since, "today"] if since != named[0] and since in _DAYS else pair or named
        if any(time in _DAYS - {"today", "last night"} or _DATE.fullmatch(time) for time in named):
            named = [parts.clocks.get(time, time) for time in named]
        is_either = parts.has("more", "hottest", "coldest") and s.holds(self._book.values("or_word"))
        apart = parts.has("than_word", "compare_word") or is_either
        times = _join_times(named, str(before.get("when", "")), apart=apart)
        if len(times) == 2 and times[1] in {"today", "yesterday"} and times[0] in WEEKDAYS:
            times = [f"since {times[0]}"]  # "from Monday until today"
        if parts.has("earlier_step"):  # "yesterday or the day before?"
            start = times[0] if times else str(before.get("compare") or before.get("when", ""))
            if not (earlier := step_time(start, str(parts.first("earlier_step")))):
                return None
            times = [*times, earlier]
        if times == ["last night"] == [before.get("when")] and parts.values.keys() <= {"past", "past_verb"}:
            times = [step_time("last night", "night")]  # "heut nacht?" - "und gestern nacht?"
        if len(times) > (2 if apart or before or parts.topic in _OF_TWO else 1):
            return None
        whens, known = ([str(one) for one in s.referents.get(name, ())] for name in ("_whens", "_sensors"))
        if parts.has("both_word") and before and not times and not sensors and len(whens) > 1:
            times, found[""] = whens[-2:-1], {"_more": [{"when": whens[-1]}]}
        elif parts.has("both_word") and not sensors:
            sensors = known[-2:]
        elif before and not sensors and (parts.has("chart_word") or (times and before.get("chart"))):
            sensors = [str(one) for one in s.referents.get("sensor", ())]  # "show me that as a chart"
        if parts.has("add_word") and before.get("sensor") and sensors:
            found["sensor"], found[""] = before["sensor"], {"_more": [{"sensor": one} for one in sensors]}
        begins_now = s.longest(self._book.values("now_word"), 0) and not s.asks
        if before.get("chart") and begins_now and parts.has("noun", "quantity"):
            parts.values.pop("now_word", None)  # "now the pressure": the next chart
        when = times[0] if times else "" if parts.has("now_word") else str(before.get("when", ""))
        is_then = when or sensors or parts.topic or parts.has("past_verb", "when_word", "noun")
        extreme = "high" if parts.has("hottest") else "low" if parts.has("coldest") else ""
        figure = parts.first("figure") or (extreme if is_then else "")  # "which is the warmest?": of the places now
        ends = [figure for figure, part in (("high", "hottest"), ("low", "coldest")) if parts.has(part)]
        is_several = len({*parts.values.get("figure", ()), *ends}) > 1
        figure = "" if is_several else figure  # "min and max": one answer has all
        limit = parts.first("beyond")
        if not limit and "_limit" in before and parts.has("frost_word"):
            limit = {"beyond": "below", "limit": "0"}  # "how often below 5?" - "and freezing?"

        def ask(intent: str, **more: Any) -> SensorQuestion:
            more = {name: value for name, value in more.items() if value != ""}
            return SensorQuestion(intent, found | more, parts.left, parts.has("spot") or bool(before))

        if (parts.has("chart_word") or before.get("chart")) and len(sensors) > 1:
            found["sensor"], found[""] = sensors[0], {"_more": [{"sensor": one} for one in sensors[1:]]}
            return ask("history_chart", when=when)
        if sensors and before.get("compare") and not times and not parts.values.keys() - {"spot", "noun", "quantity"}:
            return ask("history_compare", when=before.get("when", ""), compare=before["compare"])  # "in the greenhouse"
        pair = [str(before.get("when", "today")), *times] if times else whens[-2:]
        if parts.has("more", "hottest", "coldest") and before and not times:
            is_now = before["_tool"] == "sensor_read"
            if is_now and sensors in ([], [before.get("sensor")]) and len(known) == 2:
                sensors = known  # "how warm is it outside? - and inside? - so it is warmer inside?"
            elif whens and not sensors and len(known) == 1 and (is_now or s.holds(self._book.values("now_word"))):
                times = whens[-1:]  # "how warm was it at noon? - and now? - so it is colder?"
                parts.add("compare_word", "compare")
                parts.add("now_word", "now")
        goes_on = "_other" in before and not sensors and self._goes_on_with_two(parts, before, quantity, times, figure)
        is_day = parts.has("when_word") and any(self._book.words["units"].get(word) == _DAY_S for word in s.words)
        is_which = not times and bool(before) and (is_day or (parts.has("past_verb") and not parts.has("when_word")))
        is_which = is_which and not sensors and parts.has("more", "hottest", "coldest")
        compares = parts.has("compare_word") and len({*known}) < 2 and not times
        if is_which and not is_day and len(known) > 1 and parts.has("more"):
            sensors = known[-2:]  # "and outside?" - "which was warmer?"
        elif before and len(pair) == 2 and not (sensors or parts.has("now_word", "getting")):
            is_of_both = is_which or parts.has("how_much", "compare_word", "than_word")  # and no means are compared
            if before.get("_figure") in {"low", "high"} and is_of_both and not is_day and not is_moment(pair[1]):
                return ask("history", when=pair[0], _figure=before["_figure"], **{"": {"_more": [{"when": pair[1]}]}})
            if before["_tool"] == "sensor_history" and (compares or (is_which and (is_day or parts.has("more")))):
                return ask("history_compare", when=pair[0], compare=pair[1])
        is_which = parts.has("more") or (parts.has("hottest", "coldest") and before.get("_tool") == "sensor_read")
        is_either = is_either and len(times) > 1 and not sensors[1:]  # "was it warmer on Wednesday or Thursday?"
        goes_on = goes_on or is_either
        if goes_on or parts.has("than_word", "compare_word", "how_much") or (is_which and len(sensors) > 1):
            compared = self._compare(parts, sensors, times, before, known, ask)
            is_bare = parts.values.keys() == {"how_much"}  # "the difference" of one
            if compared or is_bare or is_either or parts.has(*_COMPARING) or len(sensors) > 1:
                return compared
        others = ("chart_word", "trend_word", "now_word")
        times_told = before.get("_tool") == "sensor_excursions" and not parts.has(*others)
        is_limit = "_limit" in before and bool(times or sensors) and not figure and not parts.has("chart_word", "noun")
        if (
            limit
            or ("_limit" in before and (parts.has("how_long_word", "how_often", "when_word") or times_told))
            or is_limit
        ):
            limits = limit or {"beyond": before["_beyond"], "limit": before["_limit"]}
            usual = self._usual.get(str(found.get("sensor", "")), "temperature")
            found.setdefault("quantity", limits.get("quantity", usual))
            limits = {name: value for name, value in limits.items() if name != "quantity"}
            if parts.has("how_long_word", "how_often", "when_word") or times_told:
                is_last = (
                    parts.has("when_word") and s.holds(self._book.values("last_time")) and {*times} <= {"last 7 days"}
                )
                return ask("history_excursions", when=when or "today", _last=is_last or "", **limits)
            if parts.has("stay_word"):
                limits["_stays"] = "yes"  # "did it stay above 20?" is about the lowest
            return (
                ask("history_limit", when=when, **limits)
                if when or parts.has("past_verb")
                else ask("sensor_limit", **limits)
            )
        if parts.has("chart_word") or (before.get("chart") and not figure):
            found.setdefault("quantity", "temperature") if not found.get("sensor") else None
            return ask("history_chart", when=when)
        if parts.has("trend_word") or (parts.has("more", "quantity") and parts.has("getting") and not figure):
            return ask("history_trend", when=when)
        if parts.has("frost_word") and (times or parts.has("past_verb")) and not figure:
            return ask("history_frost", when=when or "last 7 days")
        is_one = any(is_moment(time) for time in times)  # "at 6:00" has no lowest
        kept_figure = str(before.get("_figure", ""))
        if kept_figure in {"low", "high"} and quantity != before.get("quantity") and parts.has("past_verb"):
            kept_figure = ""
        figure = figure or ("" if is_several or is_one or parts.has("now_word") else kept_figure)
        is_now = when == "today" and not before and not figure and not parts.has("past_verb", "when_word")
        if (figure or is_several) and not found.get("quantity"):
            found["quantity"] = self._usual.get(str(found.get("sensor", "")), "temperature")
        if is_several or ((figure or when or parts.has("when_word")) and not is_now):
            kept = {"_figure": figure} if figure else {}
            is_kept = before.get("_tool") == "sensor_history"  # its own time, if it was none
            return ask("history", when=when or ("today" if (figure or is_several) and not is_kept else ""), **kept)
        if parts.has("past_verb") and not before:
            return None  # "was it warm?": of what time is not said
        if parts.has("fahrenheit"):
            return ask("sensor_fahrenheit")
        if parts.has("frost_word") and not parts.has("noun", "quantity"):
            return ask("sensor_frost")
        if len(sensors) > 1:
            found[""] = {"_more": [{"sensor": one} for one in sensors[1:]]}
        return ask("sensor_read")

    @staticmethod
    def _goes_on_with_two(
        parts: _Parts, before: Mapping[str, Any], quantity: str, times: Sequence[str], figure: str
    ) -> bool:
        """Whether what was compared is to be compared again: in another time, or "same for humidity"."""
        if not parts.has("noun", "quantity", "more"):
            return bool(times) or figure == "mean"
        is_other = quantity not in {"", before.get("quantity")}
        return is_other and not parts.has("figure", "chart_word", "trend_word", "beyond")

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
        kept = str(before.get("quantity", ""))
        if kept and kept != self._usual.get(str(before.get("sensor", "")), ""):
            return kept
        return usual or kept

    @staticmethod
    def _compare(
        parts: _Parts,
        sensors: Sequence[str],
        times: Sequence[str],
        before: Mapping[str, Any],
        known: Sequence[str],
        ask: Callable[..., SensorQuestion],
    ) -> SensorQuestion | None:
        """Two places now or in some time, or two times."""
        if len(sensors) == 1 and before.get("sensor") not in {None, sensors[0]} and not times:
            sensors = [str(before["sensor"]), *sensors]
        if not sensors and not times and len(known) > 1:
            sensors = known[-2:]
        is_quantity = parts.has("noun", "quantity", "more")
        if not sensors and "_other" in before and (times or is_quantity or parts.has("how_much", "figure")):
            sensors = [str(before["sensor"]), str(before["_other"])]
        if not sensors and not times and before.get("compare"):
            return ask("history_compare", when=before["when"], compare=before["compare"])  # "by how much?"
        if len(sensors) > 1:
            when = times[0] if times else str(before.get("when", ""))
            if not when:
                return ask("compare_sensors", sensor=sensors[0], _other=sensors[1])
            figure = str(parts.first("figure") or before.get("_figure", ""))
            end = figure if figure in {"low", "high"} else ""
            return ask("history_sensors", sensor=sensors[0], _other=sensors[1], when=when, _figure=end)
        if len(times) > 1:
            is_same = times[0] == times[1]  # "this weekend and last weekend"
            when = "last 20 minutes" if times[0] == "today" and is_moment(times[1]) else times[0]
            return None if is_same else ask("history_compare", when=when, compare=times[1])
        is_end = parts.has("higher_word", "lower_word") and not parts.has("more", "than_past", "compare_word")
        if times and before and is_end:
            return ask("history", when=times[0], _figure="high" if parts.has("higher_word") else "low")
        if times:
            then = times[0].removeprefix("since ")
            then = f"at {then}" if _CLOCK.fullmatch(then) else then
            is_now = is_moment(then) or then != times[0] or parts.has("now_word") or then[:5] == "this "
            if not is_now and parts.has("how_much") and parts.values.keys().isdisjoint(_COMPARING):
                return None  # "how much did it rise in the last hour?" compares nothing with that hour
            earlier = str(before.get("when", "")) if parts.has("earlier_step") else ""  # "than the day before"
            when = "last 20 minutes" if is_now else earlier or find_current(then) or "today"
            return ask("history_compare", when=when, compare=then) if then != when else None
        return None


def _join_times(times: list[str], before: str, *, apart: bool) -> list[str]:
    """A day and a time of day as one, "yesterday at 12:00", one maybe said before; a night `apart` is another time."""
    times = [keep_hour(time, before) for time in times]
    nights = [f"{time} night" for time in times if time in {"yesterday", "day before yesterday", *WEEKDAYS}]
    if len(nights) == 1 and "last night" in times and not apart:
        times = [*nights, *(time for time in times if time not in {"last night", nights[0].removesuffix(" night")})]
    clocks = [time for time in times if time.startswith(("at ", "from "))]
    days = [time for time in times if time in _DAYS or time.endswith((" night", " days ago")) or _DATE.fullmatch(time)]
    parts = [time.removeprefix("this ") for time in times if time in _PARTS_OF_DAY]
    if len(clocks) + len(parts) == len(days) == 1 and len(times) == 2:
        is_today = days[0] == "today" and not clocks
        return [f"this {parts[0]}" if is_today else put_at_night(f"{days[0]} {(clocks or parts)[0]}")]
    since = [time for time in times if time.removeprefix("since ") in _DAYS - {time, "today", "last night"}]
    if len(since) == len(clocks) == 1 and len(times) == 2 and clocks[0].startswith("at "):
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
