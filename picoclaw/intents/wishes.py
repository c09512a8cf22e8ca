"""Understands a text with several wishes: where they part, what the second leaves out, and which only tells something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import chain, islice
from typing import Any

from picoclaw.intents.changes import (
    CLOCK_TIME,
    TIMES,
    change_days,
    find_clock,
    join_days,
    keep_day,
    list_day_numbers,
    shift_time,
    write_cron,
)
from picoclaw.intents.conversation import LOOK_UP
from picoclaw.intents.grammar import (
    EXACT_SCORE,
    NEEDS_CLOCK,
    WHOLE_ROUTES,
    IntentMatch,
    Offered,
    Wish,
    fill_fields,
    is_complete,
    is_whole,
    make_match,
)
from picoclaw.intents.matcher import (
    MAX_BARE_WORDS,
    MAX_CLASSIFIED,
    MAX_SHORT_WORDS,
    MIN_TOPIC_SHARE,
    SENTENCE_END,
    SURE_PART,
    IntentMatcher,
)
from picoclaw.intents.sentence import MAX_CHARS, NO_TURN, LastTurn, Sentence
from picoclaw.intents.times import NO_HOUR, OCLOCK, count_minutes, count_seconds_between, format_clock
from picoclaw.messages import ToolCall
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, stem_word
from picoclaw.times import CRON_WEEKDAYS, WEEKDAYS

MIN_SEVERAL, SURE_SEVERAL = 0.02, 0.5
_MAX_WISHES = 4
_FULL_STOP = pattern(r"(?<=[.!?]) +")
_DATE = pattern(r"\d{4}-\d\d-\d\d")
_READ_ROUTES = WHOLE_ROUTES | {"topic"}
_PLANNED = ("action", "name", "level", "seconds", "quantity", "sensor")
_ORDINAL_END = pattern(r"\b(\w+) \d{1,2}\.$")
_OUTPUT_NAME = pattern(r'"name": "[^"]*"')
_PLANNED_LEVEL = pattern(r'"level": "\d')
_MIN_WHOLE_WORDS = 3  # fewer say hardly all that is wanted
_BY_VALUE = pattern(r"(?P<series>\w+\.\w+) (?P<limit>(?:above|below) \S+)")
_NOW = "last 10 minutes"
_COMPARED = ("compare_word", "more", "higher_word", "lower_word", "hottest", "coldest")
"""Slots whose words compare two places or times."""
_REPEATS = frozenset({"cron_expr", "every_seconds"})
ENDS = frozenset({"off", "remove", "disable"})
_NOTES = frozenset({"memory_store", "memory_search", "memory_forget", "memory_update"})
_LISTS = frozenset({"list_add", "list_remove"})
"""Intents that no time and no number beside them belongs to."""
_OF_TALK = frozenset({"heard_asked", "heard_told"})
_STOPS = ENDS | {"pause", "skip"}


class _Heard(NamedTuple):
    """A text, the tools that it may use, and what was done before it."""

    text: str
    offered: Offered
    last: LastTurn


class _Cut(NamedTuple):
    """A place where a sentence may part in two, and what is said before it."""

    s: Sentence
    end: int  # of the first wish
    begin: int  # of what follows, which is the same word behind a comma
    head: str
    tail: str
    ending: str  # the last word, where it is read with the first wish, too: "fan and lamp off"
    first: IntentMatch
    timed: str  # the intent that each wish has to mean
    asks: bool  # what follows begins with a question

    @property
    def is_joined(self) -> bool:
        """Whether an "and" or the like stands there."""
        return self.end < self.begin


class WishMatcher(IntentMatcher):
    def complete_hour(self, found: IntentMatch | None, text: str, offered: Offered) -> IntentMatch | None:
        """Return `found`, with the usual hour where a reminder of days lacks nothing else."""
        if not found or not (found.intent == "cron_bounded" or (found.missing and found.intent == "cron_add")):
            return found
        again = self.match(self._add_hour(self._read(text)), offered)
        return again if again and "cron_expr" in again.arguments else found

    def _add_hour(self, s: Sentence) -> str:
        """A sentence that names days once and no time of day, with the hour behind them that "on monday" has, too; or ''."""
        near = [s.words[i : i + 2 * MAX_SHORT_WORDS] for i in range(len(s.words))]
        found = [(i, i + count) for i, words in enumerate(near) if (count := self.times.count_part(words))]
        end = found[0][1] if found else 0
        for begin, stop in found:  # "every day" "except on sundays"
            end = max(end, stop) if begin <= end else 0
        # "am 24.12."
        hours = (words for i, words in enumerate(near) if not i or s.words[i - 1] not in self.words["on"])
        if not end or any(map(self.times.names_a_time, hours)) or " ".join(s.words[end:])[:1].isdigit():
            return ""
        rest = _tail(s, end)
        return f"{s.text(0, end)} {next(iter(self.words['at']))} {NO_HOUR} {rest}"

    def _match_joined(self, text: str, offered: Offered, last: LastTurn) -> IntentMatch | None:
        """What comes on days that stand apart from their hour: "on weekdays put the heater on at half five"."""
        s = self._read(text)
        when = [] if s.asks else self._join_time(self._book.slot("often"), s, range(len(s.words)))
        if is_once := len(when) < 2 and not s.asks:
            when = self._join_time(self._book.slot("when"), s, range(len(s.words)))
        if len(when) < 2 or when == [*range(when[0], when[-1] + 1)]:
            return None
        comma = next(filter(s.after_comma, range(when[0] + 1, when[-1] + 1)), 0)
        told = not set(range(comma)).issubset(when) and not any(s.longest(self._reminding, i) for i in range(comma))
        if told and any(s.longest(self._reminding, i) for i in range(comma, when[-1])):
            return None  # "the bins go on wednesday, remind me every tuesday"
        ends = [i for i in range(len(s.words)) if i not in when and (i + 1 in when or i + 1 == len(s.words))]
        begins = [i for i in range(len(s.words)) if i not in when and (i - 1 in when or i == 0)]
        rest = [s.text(first, last + 1) for first, last in zip(begins, ends, strict=True)]
        match = self.match(" ".join([*(s.words[i] for i in when), *rest]), offered, last)
        repeats = match is not None and (match.tool == "rule" or not match.arguments.keys().isdisjoint(_REPEATS))
        day = s.words[when[0] : min((i for i in begins if i > when[0]), default=when[0])]
        is_reminder = is_once and match is not None and match.intent == "cron_add" and self.times.names_a_day(day)
        if not is_whole(match) or not (repeats or is_reminder) or (is_once and self.list_parts(match)):
            return None  # "tomorrow to ... and on friday to ..." is no row of days
        message = str(match.arguments.get("message", ""))
        is_later = text.find(message) < s.starts[when[-1]] and self._moves_with_text(match)
        is_later &= not (0 in when and any(s.after_comma(i) for i in begins[:1]))
        said = Sentence(message, self.words).words
        is_order = bool(said) and said[0] not in self.words["ignore"] | self.words["tells"]
        is_plain = is_order and next(iter(self.words["at"])) not in said
        return match if is_plain or not is_later else None  # "remind me every monday to be at work at 6"

    def match_in_talk(self, text: str, offered: Offered, last: LastTurn) -> list[Wish]:
        """The wishes in a text, by what was said before where it needs that.

        A text that says all it wants means the same behind anything: "did it get above 20 in there this week" takes
        nothing off a list that was shown before. What was said before may only add to it, such as the place.
        """
        told = self.match_wishes(text, offered, last)
        if not last.call.name or len(text.split()) < _MIN_WHOLE_WORDS:
            return told
        before, self.said_before = self.said_before, dict
        alone = self.match_wishes(text, offered)
        self.said_before = before
        is_read = any(is_complete(match) and match.tool for _, match in told)
        is_whole = all(
            is_complete(match)
            and match.tool
            and not (is_read and match.arguments == LOOK_UP)
            and "_called" not in match.said
            and (match.score == 1.0 or not self.moves(match))
            for _, match in alone
        )  # what only lists does not say of what
        return _keep_place(alone, told) if is_whole and self._contradicts(text, told, alone) else told

    def _contradicts(self, text: str, told: Sequence[Wish], alone: Sequence[Wish]) -> bool:
        """Whether wishes by what was said before are other ones than a text `alone` has, and not only more of the same."""
        mine, theirs = ([match for _, match in wishes if match] for wishes in (told, alone))
        calls, wanted = ([(match.tool, self._name_places(match)) for match in matches] for matches in (mine, theirs))
        if not any(tool for tool, _ in calls):  # "then all off but the fan", "how much warmer is it inside than out?"
            return all(tool in {"output", "rule"} or _find_measured(given)[0] for tool, given in wanted)
        if not {tool for tool, _ in wanted} & _NOTES and {tool for tool, _ in calls} & _NOTES:
            return True  # "minimum of last night outside" is no thing of the list
        s = self._read(text)
        if self._has(s, "same_again", "both_word", "again_word"):
            return False  # "outdoor in the same picture"
        if any("_other" in match.said for match in mine) and self._has(s, *_COMPARED):
            return False  # "is it damper than in the greenhouse?", but not "is it freezing outside?"
        if len(calls) > len(wanted):
            return all(any(_holds(call, one) for call in calls) for one in wanted)
        if len(calls) < len(wanted):
            tools, own_tools = ({tool for tool, _ in these} for these in (calls, wanted))
            places, own_places = ({_find_measured(given)[0] for _, given in these} for these in (calls, wanted))
            return tools.isdisjoint(own_tools) or not own_places <= places | {""}
        return any(map(self._is_other, mine, theirs))

    def _is_other(self, match: IntentMatch, alone: IntentMatch) -> bool:
        """Whether a match is about something else than a text says alone."""
        given, wanted = self._name_places(match), self._name_places(alone)
        if alone.intent == "cron_add" and wanted.get("message") != self.intents["cron_add"].defaults.get("message"):
            return (given.get("action"), given.get("message")) != ("add", wanted.get("message"))
        if match.tool != alone.tool:
            is_trend = (match.tool, alone.tool) == ("sensor_read", "sensor_history")  # "is it getting colder?"
            return is_trend or match.score < alone.score  # "has the watering been done today"
        if "compare" in given.keys() - wanted.keys():
            return bool(given["compare"] == wanted.get("when"))
        (place, quantity), (own_place, own) = map(_find_measured, (given, wanted))
        if match.tool != "output" and own_place and place != own_place:
            return True  # "is it cold out there?"
        is_usual = own != "" and own == self.words["usual"].get(place)  # "soil" is its moisture
        return is_usual and quantity != own

    def _name_places(self, match: IntentMatch) -> dict[str, Any]:
        """The arguments of a match, with the names that are declared here for what they name."""
        names = {name: match.arguments[name] for name in ("sensor", "name") if name in match.arguments}
        return {**match.arguments, **{name: self._names.get(said, ("", said))[1] for name, said in names.items()}}

    def match_wishes(self, text: str, offered: Offered, last: LastTurn = NO_TURN) -> list[Wish]:
        """The wishes in a text, each with its words and what they mean: several where "and" or the like parts them."""
        s = self._read(text)
        if greeted := self._find_greeting_end(s, offered):
            behind = self.match_wishes(text[s.starts[greeted] :], offered, last)
            is_told = not any(match for _, match in behind) and self.tells(text[s.starts[greeted] :])
            if is_told or all(is_complete(match) for _, match in behind):
                return behind  # "hi there, I sowed beans today" asks nothing of today
        plain = self._drop_polite(s)
        # "could you, please?" is an order by its "please"
        if plain and not self._read(plain).holds(self.words["requests"]):
            asked = self.match_wishes(plain, offered, last)
            if all(is_complete(match) and match.tool for _, match in asked):
                return asked
        if kept := self._match_with_exception(s, offered, last):
            return [(text, match) for match in kept]
        if both := self._match_other_days(s, offered):
            return [(text, match) for match in both]
        if ahead := self._match_ahead(s, offered, last):
            return [(text, ahead)]
        parts = self._match_rewritten(self._rewrite(_Heard(text, offered, last)))
        is_done = all(is_complete(match) and match.tool for _, match in parts)
        if not is_done and (rule := self._match_condition_at(s, offered)):
            return [(text, rule)]
        told: list[Wish] = []
        for said, match in parts:
            calls = (self.list_parts(match) or self._ask_of_each(said, match)) if match else []
            told += [(said, call) for call in calls] or [(said, match)]
        told = self._share_day(self._share_beginning(told, offered))
        told = self._put_after(text, _share_length(_join_moves(told, last)), last)
        return _drop_repeated(self._join_off_later(self._say_reason(text, told, offered, last)))

    def _rewrite(self, heard: _Heard) -> _Heard:
        """What is said, without what only tells something, and with what it leaves out."""
        for rewrite in (
            self._drop_first_words,
            self._join_past,
            self._name_both,
            self._drop_wrong_time,
            self._put_last_days_first,
            self._move_bound_day,
            self._join_hour,
            self._drop_told_day,
            self._name_that_day,
            self._drop_once,
            self._drop_aside,
            self._drop_reason,
            self._drop_cause,
        ):
            heard = heard._replace(text=rewrite(heard))
        return heard

    def _match_rewritten(self, heard: _Heard) -> list[Wish]:
        """The wishes in a text, which is turned round where it is not understood as it is."""
        text, offered, last = heard
        parts = self._match_as_said(text, offered, last)
        if not all(is_complete(match) for _, match in parts) and (joined := self._join_ends(text, offered)):
            parts = self._match_as_said(joined, offered, last)
        if not any(match for _, match in parts) or any(match and match.missing for _, match in parts):
            turned = self._put_days_first(text, offered, last) if "," not in text else text
            parts = self._match_as_said(turned, offered, last) if turned != text else parts
        if len(parts) > 1:
            return parts
        said, found = parts[0]
        found = self.complete_hour(found, text, offered)
        is_sure = is_complete(found) and found.score == 1.0 and not self._ends_in_hour(found)
        again = None if is_sure else self._match_joined(text, offered, last)
        is_other = found is not None and found.route == "proposal" and found.intent != "cron_add"
        if again and not (is_other and again.intent == "cron_add"):  # "I wanted a daily report ... at 6" is no text
            return [(text, again)]
        return [(said, found)]

    def _find_greeting_end(self, s: Sentence, offered: Offered) -> int:
        """Where a greeting, or an "ok", and a comma end that a sentence begins with: "hello, alarm at 6"; 0 for none."""
        cut = next(filter(s.after_comma, range(1, min(MAX_SHORT_WORDS, len(s.words)))), 0) if "," in s.raw else 0
        if cut and s.end_of(self.words["agrees"], 0) == cut:
            return cut  # "ok, milk on the shopping list"
        greeting = self.match(s.text(0, cut), offered) if cut else None
        return cut if greeting and greeting.intent == "hello" else 0

    def _drop_polite(self, s: Sentence) -> str:
        """A text without the "please", or the "would you?", behind its last comma; '' where it has none."""
        end = max(filter(s.after_comma, range(1, len(s.words))), default=0)
        is_last, is_request = (
            end and s.end_of(table, end) == len(s.words)
            for table in (self._book.values("please_word"), self.words["requests"])
        )
        is_request = s.asks and is_request
        return s.text(0, end) + "?" * (s.asks and not is_request) if is_last or is_request else ""

    def _drop_first_words(self, heard: _Heard) -> str:
        """What is said behind an order to an output without its first words: "and then the fan", "no stop, already done it"."""
        s, begin = self._read(heard.text), 0
        if heard.last.call.name == "output":
            begin = s.end_of(self._book.values("then_word"), 0)
            if s.holds(self._book.values("already_done")):
                begin = s.end_of(self._book.values("correction"), 0) or begin
        return _tail(s, begin) if 0 < begin < len(s.words) else heard.text

    def _join_past(self, heard: _Heard) -> str:
        """The text without the comma behind a time that is past: "last night, how cold was it?"."""
        s = self._read(heard.text)
        ends = (end for _, end in self._reader.read(self._book.slot("past"), s, 0)) if "," in heard.text else ()
        cut = next(filter(s.after_comma, ends), 0)
        return f"{s.text(0, cut)} {s.text(cut, len(s.words))}{'?' * s.asks}" if cut else heard.text

    def _ask_of_each(self, text: str, match: IntentMatch) -> list[IntentMatch]:
        """A question about what was switched, once for each output that it names: "did the fan and the lamp run today"."""
        names = self.list_outputs(text) if match.tool == "output_history" else []
        each = [match._replace(arguments=match.arguments | {"name": name}) for name in names]
        return each if len(each) > 1 and match.arguments.get("name") in names else []

    def _match_condition_at(self, s: Sentence, offered: Offered) -> IntentMatch | None:
        """The rule of an order that goes by the clock and by a value: "if the soil is below 30 at 8, water for 30 seconds"."""
        for i, end, moment in self._list_moments(s) if self._says_if(s) and not s.asks else ():
            behind = s.text(end, len(s.words)) if end < len(s.words) else ""
            match = self.match(f"{s.text(0, i) if i else ''} {behind}".strip(), offered)
            by_value = is_whole(match) and _BY_VALUE.fullmatch(str(match.arguments.get("when", "")))
            if match and by_value and match.arguments.get("output"):
                gate = f"{by_value['series']} mean {_NOW} {by_value['limit']}"
                options = dict(match.arguments.get("options") or {}) | {"only_if": gate}
                return match._replace(arguments=match.arguments | {"when": moment, "options": options})
        return None

    def _match_ahead(self, s: Sentence, offered: Offered, last: LastTurn) -> IntentMatch | None:
        """A reminder so long before something: "my train is at 6, remind me half an hour before"."""
        asks = [self._reminding, self._book.values("tell_word")]
        begin = next((i for i in range(len(s.words)) if any(s.longest(table, i) for table in asks)), len(s.words))
        seconds, i, end = self._find_ahead(s, begin + 1)
        if not seconds:
            return None
        cut = next(filter(s.after_comma, range(begin, 0, -1)), 0)
        remind, polite = self.intents["cron_add"], self.words["polite"]
        is_bare = s.skip([self._lead, polite, self.words["it"], *asks], cut) == i
        more = [self._book.values(name) for name in ("too_word", "again_word")]
        if is_bare and not cut and s.skip([polite, *more], end) == len(s.words):  # "remind me 10 minutes earlier, too"
            joint = f"{next(iter(self.words['splits']))} " if any(map(s.holds, more)) else ""
            told = self.match(f"{joint}{s.text(i, end)}", offered, last) if last.call.name == "cron" else None
            return told or make_match(remind, {}, 0.0, "")
        order = s.text(cut, i)
        if is_bare:
            exact = self._read(remind.exact)
            at = next(n for n in range(1, len(exact.words)) if self.times.count_clock(exact.words[n:]))
            order = exact.text(0, at)
        rest = [s.text(end, len(s.words))] if end < len(s.words) else []
        if rest and s.words[end][0].isdigit() and not self.times.count_clock(s.words[end:]):
            rest.insert(0, next(iter(self.words["at"])))  # "10 minutes before 6"
        what = s.skip([dict.fromkeys(self.words["tells"]), dict.fromkeys(self._verbs)])
        told_before = [s.text(what if 1 < what < cut else 0, cut)] if cut else []  # "(I have) the dentist on wednesday"
        match = self.match(" ".join([order, *rest, *told_before]), offered)
        when = shift_time(match.arguments, -seconds) if is_whole(match) and match.intent == "cron_add" else {}
        return match._replace(arguments=match.arguments | when) if match and when else None

    def _find_ahead(self, s: Sentence, begin: int) -> tuple[float, int, int]:
        """A length with a "before" behind it, in seconds, and from and to where it stands; zeros where there is none."""
        ahead, within = self._book.values("ahead_word"), self.words["within"]
        for i in range(begin, len(s.words) if s.holds(ahead) else 0):
            for one, count in self.times.once(s.words[i : i + MAX_SHORT_WORDS], ""):
                end = s.end_of(ahead, i + count) if "at_seconds" in one else 0
                # not "in 10 minutes, before I go"
                if end and s.words[i] not in within and s.words[i - 1] not in within:
                    return one["at_seconds"], i, end
        return 0.0, 0, 0

    def _list_moments(self, s: Sentence) -> Iterator[tuple[int, int, str]]:
        """The times of day in a sentence, the longest first: the words of each, and what a rule calls it."""
        for i in range(len(s.words)):
            for when, end in self._reader.read(self._book.slot("calendar"), s, i):
                yield i, end, str(when)
            for when, end in self._reader.read(self._book.slot("later_on"), s, i):
                bounds = [self.words[name] for name in ("before", "bounds", "since")]  # "before 3pm" is no moment
                is_bound = any(word in table for word in s.words[max(0, i - 1) : end] for table in bounds)
                if "at" in when and self.times.names_a_time(s.words[i:end]) and not is_bound:
                    yield i, end, f"every day at {when['at'].removesuffix(OCLOCK)}"

    def _match_with_exception(self, s: Sentence, offered: Offered, last: LastTurn) -> list[IntentMatch]:
        """The calls of an order that ends with what it is not for: "all off but the fan", "lamp on, not the fan"; [] for another."""
        for i in range(1, len(s.words) if s.holds(self._exceptions) else 0):
            excepted = self._list_excepted(s, i)
            match = self.match(s.text(0, i) + "?" * s.asks, offered, last) if excepted else None
            if not is_complete(match) or match.score < 1.0 or not self.moves(match):
                continue
            calls = self.list_parts(match) or [match]
            kept = [call for call in calls if excepted.isdisjoint(re.findall(r"[\w-]+", str(call.arguments)))]
            is_change = last.call.name == "output" and len(calls) == 1  # "the lamp on, not the fan" ends the fan
            if kept and not is_change:
                return [call._replace(said={}) for call in kept]
        return []

    def _match_other_days(self, s: Sentence, offered: Offered) -> list[IntentMatch]:
        """A job, and the same at another hour on other days: "wake me every day at 7, but on sunday at 9"; [] for another text."""
        but, joint = (next(iter(table), "") for table in (self._book.values("again_but"), self.words["splits"]))
        cut = next((i for i in range(1, len(s.words)) if s.words[i] in {but, joint}), 0)
        near = (n for n in range(1, cut) if self.times.count_part(s.words[n : min(cut, n + MAX_SHORT_WORDS)]))
        clock, end = next(near, 0), cut + 1
        while end < len(s.words) and (count := self.times.count_part(s.words[end : end + MAX_SHORT_WORDS])):
            end += count
        if not clock or end < len(s.words):
            return []
        if not all(map(self._names_hour_and_day, (s.words[clock:cut], s.words[cut + 1 :]))):
            return []
        texts = (s.text(0, cut), f"{s.text(0, clock)} {_tail(s, cut + 1)}")
        first, other = (self.match(text + "?" * s.asks, offered) for text in texts)
        if not first or not other or not is_whole(first) or (first.tool, other.tool) != ("cron", "cron"):
            return []
        kept = first.arguments
        when = {name: value for name, value in other.arguments.items() if name in TIMES}
        day, _, hour = str(when.get("at", "")).rpartition(" ")
        if "cron_expr" in kept and day in CRON_WEEKDAYS:  # "on sunday", of every day
            when = {"cron_expr": write_cron(count_minutes(hour), f"* * {CRON_WEEKDAYS.index(day)}")}
        if kept.keys() & TIMES != when.keys() or not when.keys() <= {"at", "cron_expr"}:
            return []
        for each in list_day_numbers(when.get("cron_expr", "").split(" ")[-1]):
            days = change_days(kept["cron_expr"], str(each), "") if s.words[cut] == but else ""
            if each in list_day_numbers(kept["cron_expr"].split(" ")[-1]):
                if not days:
                    return []
                kept = kept | {"cron_expr": days}
        return [first._replace(arguments=kept), first._replace(arguments=first.arguments | when)]

    def _names_hour_and_day(self, words: Sequence[str]) -> bool:
        clocks = [bool(self.times.count_clock(words[n:])) for n in range(len(words))]
        return any(clocks) and any(self.times.count_part(words[n:]) and not clocks[n] for n in range(len(words)))

    @cached_property
    def _exceptions(self) -> Mapping[str, Any]:
        return {phrase: name for name in ("but_word", "not_word", "hold_verb") for phrase in self._book.values(name)}

    def is_exception(self, text: str) -> bool:
        """Whether a text is nothing but what an order before it is not for: "but not the fan"."""
        return bool(self._list_excepted(self._read(text), 0))

    def _list_excepted(self, s: Sentence, begin: int) -> set[str]:
        """The outputs that a sentence leaves out from word `begin` on; none where it says anything else there."""
        starts = [self._book.values("but_word"), self.words["narrows"], self.words["splits"]]
        outputs = {phrase: one for phrase, one in s.names.items() if one[0] == "output"}
        if begin and not s.after_comma(begin) and not any(s.longest(table, begin) for table in starts):
            return set()
        tables = [*starts, outputs, self._exceptions, *(self.words[name] for name in ("ignore", "plain", "polite"))]
        rest = range(begin, len(s.words))
        if any(s.longest(self._book.values("hold_verb"), i) for i in rest):
            tables.append(self._book.values("on_word"))
        is_all = s.skip(tables, begin) == len(s.words) and any(s.longest(self._exceptions, i) for i in rest)
        return {hit[0][1] for i in rest if (hit := s.longest(outputs, i))} if is_all else set()

    def _list_clauses(
        self, s: Sentence, *tables: Mapping[str, Any], at_comma: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Where phrases of some tables stand inside a short sentence, or a comma does, and where they end."""
        for i in range(2, len(s.words) - 1 if len(s.words) <= MAX_CLASSIFIED else 0):
            end = max(s.end_of(table, i) for table in tables)
            if end or (at_comma and s.after_comma(i)):
                yield i, end or i

    def _say_reason(self, text: str, told: list[Wish], offered: Offered, last: LastTurn) -> list[Wish]:
        """Return `told`; a reminder without a text says the reason behind it: "remind me at 6, I have to fetch the kids"."""
        said, match = told[0]
        if len(told) > 1 or "?" in text or not self._lacks_text(match):
            return told
        s = Sentence(text[:MAX_CHARS], self.words)
        has_reminder = s.holds(self._book.values("reminder_word"))
        names = ("because_word", "clause_word", "aside_word", "duty_word")
        begins = [self.words["tells"], *(self._book.values(name) for name in names)]
        for i, _ in self._list_clauses(s, *begins, at_comma=True):
            begin = s.end_of(self._book.values("because_word"), i) or i
            alone = self.match(s.text(0, i), offered, last)
            if not is_whole(alone) or not alone.arguments.get("message") or not self._lacks_text(alone):
                continue
            reason = s.text(begin, max(begin + 1, self._begin_of_polite(s)))
            why = Sentence(reason, self.words)
            if not self._is_statement(why):
                continue
            is_duty = s.end_of(self._book.values("duty_word"), begin) > 0
            if self.says_time(reason):  # "wake me in an hour, I work tonight": when it comes is said before
                return [(said, alone)] if is_duty or "at_seconds" in alone.arguments else told
            is_reminder = alone.intent != "cron_wake" and match is not None and alone.arguments == match.arguments
            tells = is_reminder and not has_reminder and not self._verbs.isdisjoint(why.words)
            if is_duty or tells:
                return [(said, alone._replace(arguments=alone.arguments | {"message": reason}))]
        return told

    def _join_off_later(self, told: list[Wish]) -> list[Wish]:
        """Return `told`; "on at 6, and off an hour later" is on for an hour."""
        if len(told) != 2:
            return told
        (_, first), (said, then) = told
        if not first or not then or first.arguments.get("kind") != "tool":
            return told
        on, off = (str(one.arguments.get("message", "")) for one in (first, then))
        name, length = _OUTPUT_NAME.search(on), then.arguments.get("at_seconds")
        is_later = self._read(said).holds(self._book.values("later_word"))
        is_same = name is not None and name[0] in off and '"off"' in off and '"seconds"' not in on
        if not length or not is_same or not is_later:
            return told
        given = first.arguments | {"message": f'{on.removesuffix("}")}, "seconds": {length}}}'}
        return [(told[0][0], first._replace(arguments=given))]

    def _lacks_text(self, match: IntentMatch | None) -> bool:
        """Whether a reminder, timer or alarm says only that it is time, or is only proposed; or nothing was understood."""
        if not match or not is_complete(match):
            return match is None or match.tool == "cron"
        usual = self.intents[match.intent].defaults.get("message")
        return match.tool == "cron" and usual is not None and match.arguments.get("message") == usual

    def _join_hour(self, heard: _Heard) -> str:
        """The text with the hour of a clause that only says when it is: "remind me of the dentist tomorrow, it's at 3"."""
        s = self._read(heard.text)
        for i in range(2, len(s.words) - 1 if "," in heard.text and s.holds(self._reminding) else 0):
            end = s.end_of(self._book.values("it_happens"), i) if s.after_comma(i) else 0
            is_hour = end and self.times.count_clock(s.words[end:]) == len(s.words) - end
            if is_hour and not any(self.times.count_clock(s.words[n:i]) for n in range(i)):
                day = next((n + days for n in range(i) if (days := self.times.count_day(s.words[n:i]))), i)
                return f"{s.text(0, day)} {_tail(s, end)} {s.text(day, i)}".strip(" ,")
        return heard.text

    def _join_ends(self, text: str, offered: Offered) -> str:
        """The text with "from 5 to 9" for "at 5 and off at 9", where that is one rule by the clock, or with "and off when" for an
        "until" before a limit; '' for another.
        """
        s = self._read(text)
        for i in range(2, len(s.words)):
            until = s.longest(self._book.values("until_limit"), i)
            if until:
                rest = self._name_limit(s, i, until[1], offered) or _tail(s, until[1])
                joined = f"{s.text(0, i)} {until[0]} {rest}"
                rules = [match for _, match in self._split(joined, offered, NO_TURN) if match and match.tool == "rule"]
                if len(rules) == 2:
                    return joined
        ends = [self._book.values(name) for name in ("off_word", "off_verb")]
        between = [self._book.values(one) for one in ("switch", "again_word", "on_word")]
        between += [self.words["splits"], self.words["it"]]
        near = [s.words[i : i + 2 * MAX_SHORT_WORDS] for i in range(len(s.words))] if any(map(s.holds, ends)) else []
        for i in range(1, len(near)):
            begin = end = i + self.times.count_clock(near[i])
            days = self.times.count_part(s.words[end : end + MAX_SHORT_WORDS]) if i < end < len(near) else 0
            if any(map(str.isdigit, s.words[end : end + days])):
                days = 0
            end += days  # "at 6 every morning, off at 8"
            is_off, on = False, ""
            while begin > i and (then := max(s.end_of(table, end) for table in (*ends, *between))):
                is_off |= any(s.end_of(table, end) == then for table in ends)
                on = s.text(end, then) if s.end_of(between[2], end) == then else on
                end = then
            behind = end + self.times.count_clock(near[end]) if begin > i and end < len(near) else end
            off = max(s.end_of(table, behind) for table in ends) if end < behind and not is_off else 0  # "um 9 aus"
            if (is_off or off) and end < behind:
                start, stop = (s.end_of(self.words["at"], n) or n for n in (i, end))
                first, last = (next(iter(self.words[name])) for name in ("span_begins", "span_ends"))
                tail = f"{s.text(stop, behind)} {s.text(begin, begin + days)} {on} {_tail(s, off or behind)}"
                joined = f"{s.text(0, i)} {first} {s.text(start, begin)} {last} {tail}"
                match = self.match(joined, offered)
                return joined if match and match.tool == "rule" else ""
        return ""

    def _name_limit(self, s: Sentence, end: int, begin: int, offered: Offered) -> str:
        """ "Below 85" for an "it drops" from word `begin` on, by the rule up to word `end` that goes by a value above it; else ''."""
        fall = max((s.end_of(self._book.values("falls_back"), n) for n in range(end, begin + 1)), default=0)
        match = self.match(s.text(0, end), offered) if fall and fall >= self._begin_of_polite(s) else None
        side, _, limit = str(match.arguments.get("when") if match else "").partition(" above ")
        below = next((said for said, meant in self._book.values("beyond").items() if meant == "below"), "")
        return f"{below} {limit.split()[0]}" if side and limit else ""

    def _ends_in_hour(self, match: IntentMatch) -> bool:
        """Whether what a reminder says ends with a time of day, which may be that of its days: "each evening the dog at 21:00"."""
        message = str(match.arguments.get("message", "")) if match.intent == "cron_add" else ""
        words = Sentence(message, self.words).words
        return any(self.times.count_clock(words[i:]) == len(words) - i for i in range(1, len(words)))

    def _share_day(self, told: Sequence[Wish]) -> list[Wish]:
        """Return `told`; a day that is named once is that of the later jobs, too: "at 6 tomorrow ... and remind me at 8"."""
        shared, last, before = list[Wish](), dict[str, Any](), ""
        for said, match in told:
            if match and match.tool == "cron" and "at" in match.arguments:
                holds = Sentence(said, self.words).holds
                today = self._book.values("today_word") or self.words["parts"]  # "tonight" is today, "at 9 pm" not
                is_bare = match.intent == before and not holds(self.words["days"]) and not holds(today)
                last = keep_day(match.arguments, last, is_bare=is_bare)
                before = match.intent
                shared.append((said, match._replace(arguments=last)))
            else:
                shared.append((said, match))
        return shared

    def _share_beginning(self, told: Sequence[Wish], offered: Offered) -> list[Wish]:
        """Return `told`; the time that the first order begins with is that of later ones: "in an hour fan on and lamp off"."""
        (text, first), *rest = told
        s, shared = self._read(text), [*told[:1]]
        names = ("later_on", "calendar") if rest and first and first.tool in {"cron", "rule"} else ()
        ends = (end for name in names for _, end in self._reader.read(self._book.slot(name), s, 0))
        end = next(ends, 0)
        for said, match in rest:
            is_now = self._read(said).holds(self._book.values("now_word"))
            moves = end and match and match.tool == "output" and self.moves(match) and not is_now
            again = self.match(f"{s.text(0, end)} {said}", offered) if moves else match
            is_alike = is_complete(again) and first is not None and again.tool == first.tool
            shared.append((said, again if is_alike or not moves else None))
        return shared

    def _put_after(self, text: str, told: Sequence[Wish], last: LastTurn) -> list[Wish]:
        """Return `told`; "then" plans what is switched or told for the end of what was switched on just before."""
        put, before = list[Wish](), last.call.arguments if last.call.name == "output" else {}
        left = before.get("seconds", 0) - sum(last.referents.get("_passed", ()))
        end, planned = ("", left) if left > 0 else None, None
        for said, match in told:
            tool = match.tool if match else ""
            given = match.arguments if match and tool in {"output", "sensor_read"} else {}
            is_after = end is not None and self._follows_then(text, said, is_first=not put)
            is_now = Sentence(said, self.words).holds(self._book.values("now_word"))
            joins = tool == "output" and not is_now  # "then off, and the fan on"
            is_again = given.get("name") == before.get("name")
            ends = "seconds" in given or (match is not None and "_until" in match.said)
            is_same = given.get("action") == "set" and is_again and not (put and ends)  # "then 10 instead"
            may_wait = (tool == "sensor_read" or given.get("action") in ENDS | {"set"}) and not is_same
            planned = (end if is_after else planned if joins else None) if may_wait else None
            if planned and is_after and put and given.get("action") == "off" and is_again:
                continue
            put.append((said, _plan(match, planned) if match and planned else match))
            clock, seconds = planned or ("", 0)
            until = match.said.get("_until", "") if match and not planned else ""
            end = (until, 0) if until else (clock, seconds + given["seconds"]) if given.get("seconds") else None
            before = given
        return put

    def _follows_then(self, text: str, said: str, *, is_first: bool) -> bool:
        """Whether a "then" stands before what a text says there, or near its beginning: "and tell me then"."""
        head, s = (Sentence(part, self.words) for part in (text[: max(0, text.rfind(said.rstrip("?")))], said))
        then, near = self._book.values("then_word"), range(1, 1 if is_first else min(len(s.words), MAX_SHORT_WORDS))
        is_behind = len(head.words) in (head.end_of(then, i) for i in range(len(head.words)))
        return is_behind or any(s.end_of(then, i) for i in near)

    def _put_last_days_first(self, heard: _Heard) -> str:
        """The text with the days first that stand behind its last comma."""
        return self._put_days_first(*heard) if "," in heard.text else heard.text

    def _put_days_first(self, text: str, offered: Offered, last: LastTurn) -> str:
        """The text with days before its hour that stand behind a comma: "remind me at 8 to water, but only on weekdays"."""
        head, comma, tail = text.rpartition(",")
        days = self._book.slot("only_days")
        if not comma and (cut := self._find_last_days(whole := self._read(text))):
            head, tail = whole.text(0, cut), f"{next(iter(self.words['narrows']))} {_tail(whole, cut)}"
        s, first = Sentence(tail, self.words), Sentence(head, self.words)
        begin = next((i for i, word in enumerate(s.words) if word not in self.words["narrows"]), 0)
        reads = (end == len(s.words) for i in (begin, begin + 1) for _, end in self._reader.read(days, s, i))
        near = (i for i in range(len(first.words)) if self.times.count_part(first.words[i : i + MAX_SHORT_WORDS]))
        if not begin or not any(reads) or (at := next(near, -1)) < 0:
            return text
        told = _tail(s, begin)
        turned = f"{first.text(0, at)} {told} {_tail(first, at)}".strip()
        match = self.match(turned, offered, last)
        repeats = match is not None and (match.tool == "rule" or "cron_expr" in match.arguments)
        return turned if repeats and is_complete(match) else text

    def _move_bound_day(self, heard: _Heard) -> str:
        """The text with a day from or until which something comes again, at its beginning or end, beside how often: "from monday on, ..."."""
        s, most = self._read(heard.text), 2 * MAX_SHORT_WORDS
        ends = {n: n + self.times.count_bound_day(s.words[n : n + most]) for n in (0, *range(1, len(s.words))[-most:])}
        begin, end = next(((n, end) for n, end in ends.items() if end > n and (not n or end == len(s.words))), (0, 0))
        rest = range(end + 1, len(s.words)) if not begin else range(begin)
        if not end or (not begin and self.tells(heard.text) and not self._begins_order(s, end % len(s.words))):
            return heard.text  # "from tomorrow I go for a run every day at 6"
        for i in rest:
            for repeat, count in self.times.repeated(s.words[i : rest.stop][: 2 * most], ""):
                if repeat.days and repeat.times:
                    bound, often = s.text(begin, end), s.text(i, i + count)
                    often = f"{often} {bound}" if s.end_of(self.words["until"], begin) else f"{bound} {often}"
                    if begin:
                        return f"{s.text(0, i)} {often} {s.text(i + count, begin)}".strip() + "?" * s.asks
                    # the verb stays in second place
                    return f"{often} {s.text(end, i)} {_tail(s, i + count)}".strip() + "?" * s.asks
        return heard.text

    def _find_last_days(self, s: Sentence) -> int:
        """Where the days begin that a sentence ends with: "at 7 and at 19 for 3 minutes every day"; 0 for none."""
        days, last = self._book.slot("only_days"), range(max(1, len(s.words) - MAX_SHORT_WORDS), len(s.words))
        return next((i for i in last for _, end in self._reader.read(days, s, i) if end == len(s.words)), 0)

    def _drop_aside(self, heard: _Heard) -> str:
        """A text up to a comma behind which it only says why, or whom it is said to."""
        text, offered, last = heard
        for comma in islice(re.finditer(", ", text[:MAX_CHARS]), _MAX_WISHES):
            rest = text[comma.end() :]
            is_name = self._is_name(rest) and not is_complete(self.match(text, offered, last))
            tells = is_name or (last.call.name and self._gives_reason(rest, is_told=True))
            match = self.match(text[: comma.start()], offered, last) if tells else None
            if is_whole(match) and match.score == 1.0:
                intent = self.intents[match.intent]
                if is_name or (intent.kind and (intent.after or match.arguments.get("action") in ENDS)):
                    return text[: comma.start()] + "?" * (text[-1:] == "?")
        return text

    def _drop_reason(self, heard: _Heard) -> str:
        """An order without the reason behind it: "stop the pump because it rains and the dog barks"."""
        text, offered, last = heard
        s = Sentence(text[:MAX_CHARS], self.words)
        for i, begin in self._list_clauses(s, self._book.values("clause_word")):
            ends = [n for i in range(begin, len(s.words)) if (n := s.end_of(self.words["splits"], i))]
            ifs = self._book.values("if_word")
            is_more = any(s.after_comma(n) or s.end_of(ifs, n) for n in range(begin, len(s.words)))
            is_more = is_more or not all(self._gives_reason(_tail(s, end)) for end in ends)
            head = s.text(0, i) + "?" * (s.asks and not s.holds(self.words["requests"]))
            match = None if is_more else self.match(head, offered, last)
            if match and match.tool == "cron" and self.says_time(_tail(s, begin)):
                continue  # "despiértame el lunes que viene a las 7"
            if is_whole(match) and match.score == 1.0 and self.moves(match):
                whole = self.match(text, offered, last)
                action = whole.arguments.get("action") if whole and whole.tool == "cron" else "none"
                is_alike = whole and (action == match.arguments.get("action") or whole.intent == match.intent)
                return text if is_complete(whole) and is_alike else head
        return text

    def _drop_cause(self, heard: _Heard) -> str:
        """The order behind a statement that says why: "my mother waters next week, so pause the watering for a week"."""
        text, offered, last = heard
        s = Sentence(text[:MAX_CHARS], self.words)
        for i, begin in self._list_clauses(s, self._book.values("so_word"), at_comma=True) if "?" not in text else ():
            is_so, head = begin > i, s.text(0, i)
            tells = not self._verbs.isdisjoint(s.words[:i]) and self._is_statement(self._read_behind_no(head))
            asks = s.end_of(self.words["questions"], 0) > 0  # "está ..."
            tells = tells and (asks or not self._begins_order(Sentence(head, self.words)))
            tells = tells or (is_so and Sentence(head, self.words).holds(self.words["negations"]))  # "no need to water"
            before = self.match(head, offered, last) if tells else None
            if not tells or (is_whole(before) and self.moves(before)):
                continue
            match = self.match(_tail(s, begin), offered, last)
            tools = {"cron", "rule", "output"} if is_so else {"cron", "rule"}
            if not is_whole(match) or match.score < 1.0 or match.tool not in tools or not self.moves(match):
                continue
            spans = ((n, m) for n in range(len(s.words)) for m in range(n + 1, n + MAX_BARE_WORDS + 1))
            days = [n for n, m in spans if self.times.names_a_day(s.words[n:m])]
            days += [n for n in range(len(s.words)) if s.longest(self._book.values("pause"), n)]  # "next week"
            has_end = not {match.arguments.get(name) for name in ("at", "when")} <= {None, "next"}
            pauses = has_end and match.arguments.get("action") in {"pause", "skip"}
            if pauses or not days or max(days) >= begin:
                return _tail(s, begin)
        return text

    def _drop_told_day(self, heard: _Heard) -> str:
        """A text behind a reminder without a part that says which day that is on: "oh no, that is a saturday, make it 8"."""
        text, _, last = heard
        found = _DATE.search("".join(last.referents.get("_result", ())))
        if last.call.name != "cron" or not found or text.rstrip().endswith("?"):
            return text
        day = WEEKDAYS[date.fromisoformat(found[0]).weekday()]
        parts = SENTENCE_END.split(text)
        tags = [part for part in parts if part.endswith("?")]  # "isn't it?"
        kept = [part for part in parts if part not in tags and not self._tells_day(part, day)]
        if len(parts) - len(kept) == len(tags):
            return text
        return ", ".join(kept) if kept and self.says_time(kept[-1]) else text

    def _name_that_day(self, heard: _Heard) -> str:
        """A text behind the reminders of a day, or behind one, with its name for "that day"."""
        text, _, last = heard
        s, those = self._read(text), self._book.values("that_day")
        at = next((i for i in range(len(s.words)) if s.end_of(those, i)), -1)
        if at < 0 or not (last.call.name == "cron" or last.call.arguments == LOOK_UP):
            return text
        day = str(self.said_before().get("_day", "")).partition(" ")[0]
        name = next((word for word, meant in self.words["days"].items() if meant == day != ""), "")
        return f"{s.text(0, at)} {name} {_tail(s, s.end_of(those, at))}".strip() if name else text

    def _drop_once(self, heard: _Heard) -> str:
        """A text without the "just once" that an alarm or a reminder ends with that comes once anyway."""
        text, offered, _ = heard
        s, once = self._read(text), self._book.values("just_once")
        ends = {self._begin_of_polite(s), len(s.words)} if s.holds(once) and not s.asks else set[int]()
        for i in range(max(2, len(s.words) - 2 * MAX_SHORT_WORDS), len(s.words) if ends else 0):
            match = self.match(s.text(0, i), offered) if s.end_of(once, i) in ends else None
            is_new = is_whole(match) and match.tool == "cron" and match.arguments.get("action") == "add"
            if match and is_new and not _REPEATS & match.arguments.keys():
                return s.text(0, i)
        return text

    def _tells_day(self, text: str, day: str) -> bool:
        """Whether a text says that it is a day of the week, and no more."""
        s = self._read(text.replace("'s ", " is "))  # "tomorrow's saturday"
        names = ("declines", "waits", "lead", "polite", "filler", "plain", "ignore", *(("it", "negations") * s.asks))
        articles = {word for word, number in self.words["numbers"].items() if isinstance(number, float)}  # "a"
        tables = [self.words["days"], dict.fromkeys(self._verbs | articles), *(self.words[name] for name in names)]
        days = {str(one) for one in s.list_values(self.words["days"])}
        is_all = s.skip(tables) == len(s.words) and not self._verbs.isdisjoint(s.words)
        return is_all and day in days <= {day, "", "tomorrow"}

    def _is_name(self, text: str) -> bool:
        """Whether a text may be whom another one is said to: one word with a capital letter that has no meaning here."""
        word = text.strip(" .!?")
        return word.isalpha() and word[0].isupper() and not {word.lower()} & {*self._book.keys, *self._names}

    def _drop_wrong_time(self, heard: _Heard) -> str:
        """What is right, of what also says what was wrong: "not monday, tuesday"; "monday not, tuesday" where one says so."""
        if heard.last.call.name not in {"cron", "rule"}:
            return heard.text
        s = self._read(heard.text)
        begin, size = self._skip_no(s), len(s.words)
        nots = [s.end_of(self._book.values("not_word"), i) or i for i in range(size)] + [size]
        times = [i + self.times.count_part(s.words[i : i + MAX_SHORT_WORDS]) for i in range(size)] + [size]
        for first, second in ((nots, times), (times, nots)):
            middle, end = first[begin], second[first[begin]]
            right = s.end_of(self._book.values("but_rather"), end) or end
            if begin < middle < end and right < times[right]:
                is_last = first is nots or any(map(s.after_comma, range(middle + 1, end + 1)))  # "tuesday, not monday"
                return _tail(s, right) if is_last else s.text(begin, middle)
        return heard.text

    def _name_both(self, heard: _Heard) -> str:
        """The text with two outputs named where it says "both" of them: "fan and lamp, turn both off"."""
        text = heard.text
        named, _, rest = text.partition(":") if ":" in text else text.partition(",")
        if len(self.list_outputs(named)) != 2:
            named, rest = rest, named
        s = Sentence(rest, self.words)
        both = next((i for i in range(len(s.words)) if s.longest(self._book.values("both_word"), i)), -1)
        asks = "?" in text or s.end_of(self.words["questions"], 0) > 0
        if both < 0 or asks or len(self.list_outputs(named)) != 2:
            return text
        end = s.end_of(self._book.values("both_word"), both)
        return f"{s.text(0, both)} {named.strip()} {_tail(s, end)}".strip()

    def _share_of_several(self, text: str, sure: float = SURE_PART) -> float:
        """How likely it is that several things are wished for, as the classifier has it where it is `sure` of anything."""
        shares = self._score(self._read(text))
        if not shares or shares[0][0] < sure:
            return SURE_PART
        return sum(share for share, name in shares if name in self.topics.several)

    def _is_one_question(self, text: str) -> bool:
        """Whether a text asks one thing and no more, as the classifier has it."""
        shares = self._score(self._read(text)) or [(0.0, "nothing")]
        (share, topic), *_ = shares
        several = sum(share for share, name in shares if name in self.topics.several and name != "?compare")
        return share >= MIN_TOPIC_SHARE and several < MIN_SEVERAL and (topic[0] == "?" or topic in self.topics.asked)

    def _asks_twice(self, text: str) -> bool:
        """Whether a second question stands behind an "and": "how long have you been up, and is the card full?"."""
        s, asks = Sentence(text, self.words), self.words["questions"]
        joints = (hit[1] for i in range(2, len(s.words) - 1) if (hit := s.longest(self.words["splits"], i)))
        return s.asks and any(s.end_of(asks, i) for i in joints)

    def _match_as_said(self, text: str, offered: Offered, last: LastTurn) -> list[Wish]:
        """The wishes in a text as it stands: what it means as a whole, or what its parts mean."""
        whole, heard = self.match(text, offered, last), _Heard(text, offered, last)
        is_sure = whole is not None and whole.score == 1.0
        if whole and (whole.route == "unclear" or self.list_parts(whole)):
            return [(text, whole)]
        readers = (self._split_now, self._split_reason, self._ask_before_trend, self._split_text, self._split_note)
        for read in readers:
            if whole and (parts := read(heard, whole)):
                return parts
        is_one = not is_sure and not last.call.name and not self._asks_twice(text) and self._is_one_question(text)
        if is_one:
            return ([] if whole else self._match_sentences(*heard)) or [(text, whole)]
        if whole and not is_sure and is_complete(whole):
            return self._split_passed_over(heard, whole)
        if whole and whole.route in WHOLE_ROUTES and (whole.tool or whole.answer):
            return self._split_whole(heard, whole)
        return self._split(*heard) or self._match_sentences(*heard) or [(text, whole)]

    def _split_now(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """An order for now and a plan: "for 3 minutes now and again at 7"."""
        is_plan = whole.tool in {"cron", "rule"} and self._read(heard.text).holds(self._book.values("now_word"))
        parts = self._split(*heard) if is_plan else []
        return parts if len(parts) > 1 and parts[0][1] and parts[0][1].tool == "output" else []

    def _split_reason(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """An order behind why, not when that was: "il fait nuit, allume la lampe"."""
        is_read = whole.route == "frame" and whole.tool != "" and not self.moves(whole)
        parts = self._match_sentences(*heard) if is_read and "," in heard.text and "?" not in heard.text else []
        return parts if parts and self.moves(parts[-1][1]) and heard.text.endswith(parts[-1][0]) else []

    def _split_text(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """What is told beside a reminder or a note, which would take it into its text."""
        if not self._moves_with_text(whole):
            return []
        is_several = self._share_of_several(heard.text, 0.0) > SURE_SEVERAL
        parts = self._split(heard.text, heard.offered, NO_TURN) if is_several or whole.tool == "memory_store" else []
        if is_several and any(match is None or match.intent != whole.intent for _, match in parts):
            return parts
        if len(parts) < 2 or not self._read(parts[1][0]).end_of(self._book.values("remind_verb"), 0):
            return []
        first, (said, second), *rest = parts
        other = second if second and second.intent != whole.intent else None
        return [first, (said, other), *rest]  # "note that they came in, and remind me in March"

    def _split_note(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """A note and an order in a sentence of its own: "note: fed the hens. Fan on."."""
        note, mark, tail = heard.text.rpartition(". ")
        order = self.match(tail, heard.offered) if mark and whole.tool == "memory_store" else None
        first = self.match(note, heard.offered, heard.last) if is_whole(order) and self.moves(order) else None
        is_note = first is not None and first.intent == whole.intent
        return [(note, first), *self._match_as_said(tail, heard.offered, heard.last)] if is_note else []

    def _split_passed_over(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """The parts of a text that is understood as a whole but for a word, where they leave none out."""
        parts = self._split(*heard)
        if parts and all(is_complete(match) for _, match in parts[: 1 if self._asks_twice(heard.text) else None]):
            return parts
        tells = heard.last.call.name == "output" != whole.tool and not self.moves(whole)  # "off, it's loud"
        return (self._match_sentences(*heard) if tells else []) or [(heard.text, whole)]

    def _split_whole(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """The parts of a text that is understood as a whole, where that leaves something open."""
        intent, alone = self.intents[whole.intent], list[Wish]([(heard.text, whole)])
        if intent.last:  # it only says what was not understood as a whole
            parts = self._split(*heard)
            done = [match for _, match in parts if is_complete(match)]
            rules = sum(one.tool == "rule" and one.arguments["action"] != "add" for one in done)  # numbers change
            if len(parts) == 1 or (parts and len(done) == len(parts) and rules < 2):
                return parts
            return self._match_sentences(*heard) or alone  # "my train is late, move the reminder for leaving to 5"
        if is_complete(whole) and intent.ask and self._has_text_slot(intent):
            parts = self._split(*heard, whole.intent) or self._match_sentences(*heard)
            return alone if not parts or _add_up(whole, [match for _, match in parts]) else parts
        s = self._read(heard.text)
        joints = (s.end_of(self.words["splits"], i) for i in range(1, len(s.words)))
        if not intent.kind and whole.tool and any(begin and self._begins_order(s, begin) for begin in joints):
            parts = self._split(*heard)  # "combien il fait et allume le ventilateur"
            if len(parts) > 1 and all(is_complete(match) for _, match in parts):
                return parts
        is_aside = heard.last.call.name == "output" and whole.tool != "output" and intent.kind == ""
        is_more = heard.last.call.name and not is_complete(whole) and whole.intent != "thanks"
        return (self._match_sentences(*heard) if whole.missing or is_more or is_aside else []) or alone

    def _ask_before_trend(self, heard: _Heard, whole: IntentMatch) -> list[Wish]:
        """The question for a value before that for its trend: "how is the pressure, is it falling?"."""
        s = Sentence(heard.text, self.words)
        for end in self._list_joints(s) if whole.intent == "history_trend" else ():
            now = self.match(f"{s.text(0, end)}?", heard.offered, heard.last)
            if is_complete(now) and now.tool == "sensor_read":
                return [(s.text(0, end), now), (heard.text, whole)]
        return []

    def _match_sentences(self, text: str, offered: Offered, last: LastTurn) -> list[Wish]:
        """The one question, or the one order, beside sentences that only tell something."""
        parts = [part for part in SENTENCE_END.split(text[:MAX_CHARS]) if not self.is_all_of(part, "polite")]
        if len(parts) == 1 and parts[0] != text and is_whole(match := self.match(parts[0], offered, last)):
            return [(parts[0], match)]  # "Thanks. And it should go off in an hour."
        ordinal = _ORDINAL_END.search(parts[0]) if parts else None
        if ordinal and ordinal[1] in self.words["on_date"]:
            return []  # "lieber am 2. Advent": no sentence ends there
        if len(parts) > 2 and self.is_all_of(parts[0], "declines", "waits", "lead"):
            parts[:2] = [f"{parts[0]}, {parts[1]}"]
        whole = [part for part in _FULL_STOP.split(text[:MAX_CHARS]) if not self.is_all_of(part, "polite")]
        asides = self._split_asides(text) if len(parts) < _MAX_WISHES else ()
        rows = chain([parts], [whole] if 1 < len(whole) < len(parts) else [], asides)
        found = (self._match_beside(one, offered, last, is_aside=one not in (parts, whole)) for one in rows)
        return next(filter(None, found), None) or self._match_about(parts, offered)

    def _match_about(self, parts: Sequence[str], offered: Offered) -> list[Wish]:
        """The order about an "it" that what is told or asked before it names: "the fan is too loud, turn it off"."""
        *told, order = parts or [""]
        s = self._read(", ".join(told))
        named = {name for kind, name in s.list_values(self._names) if kind == "output"}
        state = self.match(told[0], offered) if len(told) == 1 and "?" not in order else None
        is_asked = state is not None and state.intent == "output_state"  # "is the fan on? Turn it on."
        asks = any("?" in part for part in parts) or s.end_of(self.words["questions"], 0) > 0
        asks = (asks and not is_asked) or self._says_if(s)
        others = [self._book.values(name) for name in ("rule_word", "reminder_word")]
        others += [self.words["reported"], self.words["units"]]  # "leave the heater for an hour, then turn it on"
        asks |= any(map(s.holds, others)) or any(self._begins_order(Sentence(one, self.words)) for one in told)
        if len(named) != 1 or self.list_outputs(order) or asks:
            return []
        name = named.pop()
        match = self.match(self.put_for_it(order, name), offered)
        is_of_it = is_whole(match) and match.arguments.get("name") == name  # "tick it off" ends no pump
        return [*([(told[0], state)] if is_asked else []), (order, match)] if is_of_it else []

    def _split_asides(self, text: str) -> Iterator[list[str]]:
        """A text before and behind each word that begins a reason: "they are hot so start the fan", "fan off it is loud"."""
        s = Sentence(text[:MAX_CHARS], self.words)
        because, aside = self._book.values("because_word"), self._book.values("aside_word")
        for i, _ in self._list_clauses(s, because, aside):
            before = s.words[i - 1]
            is_bound = before in self._book.slot("unconditional").without
            is_bound |= any(s.longest(one, i - 1) for one in (because, self.words["bounds"], self.words["questions"]))
            is_bound |= s.longest(self._book.values("is_wrong"), i) is not None  # "30 is too high"
            is_bound |= before in self.words["units"] and s.words[i] in self.words["before"]  # "2 days before ..."
            end = s.end_of(aside, i)
            near = s.words[end : end + MAX_SHORT_WORDS] if end else []
            is_reason = s.longest(because, i) or (near and not self.times.count_part(near))  # "before 3 pm" is none
            if not is_bound and not s.after_comma(i) and is_reason:
                yield [s.text(0, i), _tail(s, i) + "?" * s.asks]
        states = [self._book.values(name) for name in ("quantity", "cold", "hot", "there", "here_word", "spot")]
        for i in range(2, len(s.words)) if s.end_of(aside, 0) and not s.asks else ():
            is_state = any(s.end_of(one, n) == i for one in states for n in range(max(1, i - 3), i))
            if is_state and stem_word(s.words[i]) in self._acts and not s.after_comma(i):
                yield [s.text(0, i), _tail(s, i)]  # "it is dark turn the lamp on"

    def _match_beside(self, parts: list[str], offered: Offered, last: LastTurn, *, is_aside: bool) -> list[Wish]:
        """The part of a text that asks or orders, where the others only tell something."""
        if not 1 < len(parts) <= _MAX_WISHES:
            return []
        found = [self.match(part, offered, last) for part in parts]
        told = [self._only_tells(part, match) for part, match in zip(parts, found, strict=True)]
        asked = [n for n, match in enumerate(found) if "?" in parts[n] and _answers(match) and not self.moves(match)]
        asked = [n for n in asked if len(self._read(parts[n]).words) > 1]  # not the "no?" behind what is told
        if len(asked) == 1:
            told = [one or (n != asked[0] and self._only_adds(parts[n], found[n])) for n, one in enumerate(told)]
        if is_whole(first := found[0]):
            intent = self.intents[first.intent]
            if self._can_be_undone(first) or (last.call.name and intent.after and intent.kind):
                told = [bool(n) and (one or self._gives_reason(parts[n])) for n, one in enumerate(told)]
        match = found[n := told.index(False)] if told.count(False) == 1 else None
        if match is None or not (is_whole(match) or [n] == asked):
            return []
        if self._belongs_together(match, parts, n, is_aside=is_aside):
            return []
        part, rest = parts[n], parts[:n] + parts[n + 1 :]
        if n == 0 and (self._can_be_undone(match) or (last.call.name and self.intents[match.intent].after)):
            return [(part, self._say_beside(match, rest[0]) if len(rest) == 1 and not found[1] else match)]
        is_past = any(Sentence(one, self.words).holds(self.words["past"]) for one in rest)
        is_past &= not self._begins_order(Sentence(part, self.words))  # "I had thought of it, heater on"
        byes = [one for one, said in zip(parts, found, strict=True) if said and said.intent == "goodbye"]
        reasons = [one for one in rest if one not in byes]  # "I'm off to bed, turn everything off"
        is_clear = self._can_be_undone(match) and not is_past and all(map(self._gives_reason, reasons))
        is_last = not (is_aside or parts[n + 1 :] or self._says_if(self._read(part)))
        is_clear |= match.intent in _LISTS and is_last and all(self._is_telling(self._read(one), 0) for one in rest)
        return [(part, match)] if is_clear or not self.moves(match) else []

    def _belongs_together(self, match: IntentMatch, parts: Sequence[str], n: int, *, is_aside: bool) -> bool:
        """Whether what stands beside an order or a question, the part `n`, may belong to it."""
        part, rest = parts[n], [Sentence(one, self.words) for one in (*parts[:n], *parts[n + 1 :])]
        if "_beyond" in match.said and "?" not in part:
            return True  # "a warning then, 14 and above"
        is_told = "?" not in part and any("," in one for one in parts)
        if (is_aside or is_told) and not self.moves(match):
            return True  # "it was so hot"
        if match.tool == "sensor_history" and any(one.longest(self._book.values("own_time"), 0) for one in rest):
            return True  # "how warm was it, when I was out"
        message = str(match.arguments.get("message", "")) if n < len(rest) else ""
        is_more = is_aside or any(not self._is_telling(one, 0) for one in rest if one.words)
        return is_more and message != "" and message in part  # "remind me at 6 to feed the cat, the dog"

    def _say_beside(self, match: IntentMatch, said: str) -> IntentMatch:
        """A reminder without a text that says what stands beside it: "a shout at six? Plot inspection."."""
        s = Sentence(said, self.words)
        if not self._lacks_text(match) or not self._verbs.isdisjoint(s.words):
            return match
        message = s.text(s.end_of(self._book.values("for_word"), 0), self._begin_of_polite(s))  # "for the eggs, please"
        return match._replace(arguments=match.arguments | {"message": message})

    def _can_be_undone(self, match: IntentMatch) -> bool:
        """Whether a match is an order that can be taken back, or a rule, which waits for a yes."""
        return self.moves(match) and match.tool in {"output", "cron", "rule"}

    def _after_because(self, s: Sentence) -> int:
        """Where a "because" ends that a sentence begins with, or what says that something is so, and does not ask; 0 for none."""
        aside = s.end_of(self._book.values("aside_word"), 0)
        asks = any(s.end_of(self.words["questions"], i) for i in range(aside, len(s.words)))
        names = ("because_word", "reason_word", "aside_word")[: 2 + (not asks)]
        return max(s.end_of(self._book.values(name), 0) for name in names)

    def _read_behind_no(self, text: str) -> Sentence:
        """A sentence without the "no wait" that it begins with: "no wait it is wet already"."""
        s = Sentence(text, self.words)
        begin = self._skip_no(s)
        return Sentence(_tail(s, begin), self.words) if 0 < begin < len(s.words) else s

    def _only_tells(self, text: str, match: IntentMatch | None) -> bool:
        """Whether a sentence asks and orders nothing."""
        s = self._read_behind_no(text)
        if not self._is_statement(s):
            return False
        because = self._after_because(s)
        begin = min(because, len(s.words) - 1)
        near = s.words[begin + 1 : begin + MAX_SHORT_WORDS] if self._gives_reason(text) else ()  # "exams are over"
        is_told = self._is_telling(s, begin)
        is_told |= because > s.end_of(self._book.values("because_word"), 0)  # "it is already wet"
        is_proposed = match is not None and match.route == "proposal" and not match.arguments
        reads = match is not None and match.tool != "" and ((self.moves(match) and not is_proposed) or not is_told)
        has_verb = any(word in self._verbs or word.endswith("'s") for word in (*near, *s.words[begin:][: bool(near)]))
        is_told |= has_verb or bool(match and match.answer and not match.tool and match.route in _READ_ROUTES)
        return is_told and not reads  # "it's roasting in there"

    def _only_adds(self, text: str, match: IntentMatch | None) -> bool:
        """Whether a sentence behind a question neither asks nor orders: "is all well? I have had no message since Monday."."""
        s = self._read(text)
        is_order = bool(match and match.tool) or self._asks(s, 0) or self._says_if(s) or self._begins_order(s)
        tells = not self._verbs.isdisjoint(s.words) or not (self._is_measured(s) or self.says_time(text))
        return not is_order and len(s.words) > MAX_SHORT_WORDS and tells

    def _begin_of_polite(self, s: Sentence) -> int:
        """Where the polite words begin that a sentence ends with; its length where there are none."""
        polite, ends = self.words["polite"], len(s.words)
        while begin := next((i for i in range(max(0, ends - 4), ends) if s.end_of(polite, i) == ends), 0):
            ends = begin
        return ends

    def _gives_reason(self, text: str, *, is_told: bool = False) -> bool:
        """Whether a sentence behind an order only says why: it names and orders nothing. `is_told`: it has a verb, too."""
        s, words = self._read_behind_no(text), self.words
        begin = self._after_because(s)
        is_wish = s.end_of(self._book.values("own_wish"), begin) > 0  # "I want to put the pumpkin out"
        is_wish &= not (s.asks or self._says_if(s))
        if not (is_wish or self._is_statement(s)):
            return False
        tells = begin > 0 or not self._verbs.isdisjoint(s.words) or s.words[-1] in words["it"]
        if is_told and (len(s.words) < 2 or not tells):
            return False
        is_why = is_told and s.end_of(self._book.values("reason_word"), 0) > 0  # "because he closes"
        spans = map(self._book.values, ("but_word", "drop_verb", "again_word", "every_output"))
        tables = [*spans, *(words[name] for name in ("days", "units", "declines", "agrees", "packs"))]
        tables += [words["splits"]] * (not is_why)
        tables += [dict.fromkeys(self._book.slot("message").without)]  # "..., weather permitting"
        if not self._means_quantity(self._read(text)):  # "there is little light in the greenhouse"
            tables += [{phrase: one for phrase, one in self._names.items() if one[0] == "output"}]
        if any(map(s.holds, tables)):
            return False
        if any(word[0].isdigit() or words["numbers"].get(word, 1) != 1 for word in s.words[begin:]):
            return False
        is_own = is_told and s.words[0] in self._verbs and s.words[1] in words["tells"]  # "hab ich schon"
        is_article = not words["numbers"].keys().isdisjoint(s.words[begin : begin + 1])  # "ein Gewitter kommt"
        firsts = [self._book.values(name) for name in ("off_word", "on_word", "off_verb") if not is_article]
        if any(s.end_of(table, begin) for table in (*firsts, *([] if is_own else [words["questions"]]))):
            return False
        states = {*chain(words["past"], *map(self._book.values, ("quantity", "running_word")))}
        acts = (
            word for word in s.words[begin:] if not {word, stem_word(word)} & states
        )  # "I called her", "it is warm"
        return is_wish or is_why or not any(stem_word(word) in self._acts for word in acts)

    def list_parts(self, match: IntentMatch) -> list[IntentMatch]:
        """The calls that one sentence needs: its parts, or the reading of a second sensor that it is compared with."""
        said = {} if match.missing else match.said
        if "_other" in said:
            return [match, match._replace(arguments=match.arguments | {"sensor": said["_other"]})]
        if "_wrong" in said:
            return [match._replace(arguments={"action": "off", "name": said["_wrong"]}), match]
        if "_more" in said:
            return [match, *(match._replace(arguments=match.arguments | more) for more in said["_more"])]
        parts = self.intents[match.intent].parts.split()
        return [make_match(self.intents[name], match.said, 1.0, "template") for name in parts]

    def _split(self, text: str, offered: Offered, last: LastTurn, timed: str = "") -> list[Wish]:
        """The wishes in a row; none where the first is not understood alone. `timed`: the intent that each has to mean."""
        s = Sentence(text, self.words, self._names)
        for cut in self._list_cuts(s, offered, last, timed) if len(s.words) <= MAX_CLASSIFIED else ():
            if self._is_done_for_reason(cut):
                return [(cut.head, cut.first)]
            rest = self._find_rest(cut, offered, last)
            if rest is None:
                continue
            found = [cut.first, *(match for _, match in rest)]
            if names := _find_half_days(found):
                say = fill_fields(self.say["which"], {"names": names})  # "on at 2 and off at 4"
                return [(text, IntentMatch(cut.first.intent, "", {}, say, 1.0, "unclear"))]
            if last.call.name == "cron" and any("_only" in one.said for one in found if one):
                return [(text, _join_days(found) if len(found) == 2 else None)]  # "monday to friday, then at 5"
            if not cut.is_joined and not timed and not last.call.name and self._is_one_order(text, found):
                return []
            if rest and not self._is_conditional(s, found):
                return [(cut.head, cut.first), *rest]
        return []

    def _list_cuts(self, s: Sentence, offered: Offered, last: LastTurn, timed: str) -> Iterator[_Cut]:
        """Where a sentence may part, as far as what stands before is understood."""
        questions, mark = self.words["questions"], "?" * (s.asks and not s.holds(self.words["requests"]))
        is_condition = "?" not in s.raw and s.words[:1] and s.words[0] in self.words["verbs"] and s.end_of(questions, 0)
        last_word = len(s.words) - 1
        is_half = any(s.end_of(self.words["halves"], i) > last_word for i in range(max(0, last_word - 2), last_word))
        endings = [""] if timed or is_half or last_word in s.counts else ["", _tail(s, last_word)]
        for end in islice(self._list_joints(s), _MAX_WISHES):
            begin = s.end_of(self.words["splits"], end) or end
            if begin >= len(s.words) or s.longest(self.words["bounds"], begin):
                return  # "every two hours ..., until 8": the end is of the first
            if begin == end and is_condition:
                return  # "ist es dunkel, Licht an"
            asks = s.end_of(questions, begin) > 0
            for ending in endings:
                first = self.match(f"{s.text(0, end)} {ending}{mark}", offered, last)
                if not is_complete(first) or first.route not in (_READ_ROUTES if asks else WHOLE_ROUTES):
                    continue
                is_of_both = not (ending and self._moves_with_text(first))  # not "todo: turn off the heater"
                if is_of_both and timed in {"", first.intent}:
                    head, tail = f"{s.text(0, end)}{mark}", f"{_tail(s, begin)}{mark}"
                    yield _Cut(s, end, begin, head, tail, ending, first, timed, asks)

    def _list_joints(self, s: Sentence) -> Iterator[int]:
        """The words that a comma or an "and" stands before."""
        polite = self._begin_of_polite(s)  # "a timer for the eggs, please" is one
        begins = [n for n in range(polite) if s.longest(self.words["span_begins"], n)]
        spans = [(n, n + self.times.window(s.words[n : n + MAX_SHORT_WORDS])[3]) for n in begins]
        for i in range(1, polite):
            is_joint = s.longest(self.words["splits"], i) or s.after_comma(i)
            # Neither in "a las diez y media", "treinta y cinco" and "between 8 and 22", nor behind the first word of "no, 7 is better. We eat at 8".
            if (
                is_joint
                and not s.longest(self.words["halves"], i)
                and " ".join(s.words[i - 1 : i + 2]) not in self.words["numbers"]
                and not any(begin < i < end for begin, end in spans)
                and not self.is_all_of(s.text(0, i), "declines", "waits")
            ):
                yield i

    def _is_done_for_reason(self, cut: _Cut) -> bool:
        """Whether behind something to be done at once a comma follows, and why: "lamp on, it is dark in here"."""
        first, s = cut.first, cut.s
        is_done = first.tool in {"output", "memory_store", "memory_forget"} and self.moves(first)
        is_done |= first.tool in {"cron", "rule"} and first.arguments.get("action") in _STOPS
        tells = not cut.asks or (not s.asks and s.end_of(self._book.values("aside_word"), cut.begin) > 0)  # "il y a"
        is_plain = not (cut.ending or cut.is_joined or cut.timed)
        return is_done and tells and is_plain and self._gives_reason(cut.tail, is_told=True)

    def _find_rest(self, cut: _Cut, offered: Offered, last: LastTurn) -> list[Wish] | None:
        """What follows a first wish; None where it shows that the sentence does not part there."""
        rest = self._continue(cut, offered)
        if not cut.is_joined and not all(is_complete(match) for _, match in rest):
            rest = []
        intents = [self.intents[match.intent] for match in (cut.first, *(match for _, match in rest)) if match]
        moves = any(intent.kind for intent in intents)
        if any(intent.acts for intent in intents) and cut.s.words[-1] in self.words["negates_last"]:
            return None
        is_alike = rest and rest[0][1] and rest[0][1].intent == cut.first.intent
        if cut.ending and moves and not is_alike:
            return None  # "fan and lamp are off", "fan and lamp not off"
        if moves and not self.moves(cut.first) and self._goes_on_asking(cut):
            rest = self._ask_on(cut, offered, last)
        if self._is_half_said(cut.first, cut.s, cut.begin, rest):
            rest = [(cut.tail, None)]
        scores = [match.score for match in (cut.first, *(match for _, match in rest)) if match]
        if not cut.asks and any(EXACT_SCORE < score < 1.0 for score in scores):
            return None  # a word was passed over in one of them
        return None if self._is_nearly_read(cut, rest) else rest

    def _is_nearly_read(self, cut: _Cut, rest: Sequence[Wish]) -> bool:
        """Whether an order stands behind words that no question begins with: "luz y bomba on", "every other day, at 8, pump on"."""
        if cut.asks or self.moves(cut.first) or self._asks_or_orders(cut.s, cut.end):
            return False
        is_bare = cut.end < MAX_BARE_WORDS and stem_word(cut.s.words[cut.begin]) not in self._acts
        sets = any(match and match.tool == "output" and match.arguments.get("action") == "set" for _, match in rest)
        return sets and (is_bare or not cut.is_joined)

    def _goes_on_asking(self, cut: _Cut) -> bool:
        """Whether what follows a question may be asked, too: "are the fan and the lamp on"; "how warm is it, fan on" not."""
        is_output = cut.first.tool in {"output", "output_history"}
        if not cut.is_joined and not is_output:
            return False  # "how warm is it, fan on" is two things
        asks_first = self._asks_or_orders(cut.s, cut.end)
        is_search = cut.first.tool == "memory_search"  # "when did I turn the light off and delete reminder 3"
        is_past = cut.s.holds(self.words["past"]) and not asks_first
        if cut.is_joined and (is_output or is_search or is_past):
            return True
        is_vague = cut.first.score < 1.0 and not asks_first  # "keep an eye on the tank and warn me ..."
        return is_vague or not self._begins_order(cut.s, cut.begin)

    def _ask_on(self, cut: _Cut, offered: Offered, last: LastTurn) -> list[Wish]:
        """What follows a question, as a question."""
        same = self._continue_alike(cut, offered, 4)
        if not same and self._asks_or_orders(cut.s, cut.end):
            same = self.match(f"{cut.tail}?", offered, last)
        return [(cut.tail, same)] if is_complete(same) and not self.moves(same) else []

    def _is_one_order(self, text: str, found: Sequence[IntentMatch | None]) -> bool:
        """Whether parts at a comma that mean different things are one order: "below 12 volts, turn the light off"."""
        if not any(map(self.moves, found)) or len({match.intent for match in found if match}) < 2:
            return False
        is_pair = found[-1] is None or found[-1].intent.startswith("rule_and_off")
        return not is_pair and self._share_of_several(text) < MIN_SEVERAL

    def _is_half_said(self, first: IntentMatch, s: Sentence, begin: int, rest: Sequence[Wish]) -> bool:
        """Whether what follows leaves open when or how long an order is meant: "the fan and the pump at 8 for a minute"."""
        match = rest[0][1] if rest else None
        if not match or not self.intents[first.intent].acts or s.end_of(self.words["questions"], begin):
            return False
        if match.tool == "output" and match.arguments == LOOK_UP:
            return not any(s.longest(self.words["questions"], i) for i in range(begin, len(s.words)))
        is_end = "off" in {match.arguments.get("action"), *str(match.arguments.get("message", "")).split('"')}
        tail = Sentence(_tail(s, begin), self.words)  # "and in two hours off"
        ends_it = any(tail.holds(self._book.values(one)) for one in ("off_word", "off_verb"))
        is_end |= ends_it and "seconds" in match.arguments
        is_now = any(s.longest(self._book.values("now_word"), i) for i in range(begin))
        spans = ((i, count) for i in range(len(tail.words)) for _, count in self.times.repeated(tail.words[i:], ""))
        if match.tool == "rule" and first.tool == "output" and any(i + count == len(tail.words) for i, count in spans):
            return not is_now  # "... daily at 8" of both?
        if is_end or stem_word(s.words[begin]) in self._acts or not (_switches(first) and _switches(match)):
            return False
        is_day = str(first.arguments.get("at", "")).endswith(f" {NO_HOUR}")
        if is_day and not any(self.times.names_a_time(s.words[i:begin]) for i in range(begin)):
            return True  # "monday and friday from 6 to 9"
        level = str(match.arguments.get("level", ""))
        if first.arguments.get("level") == "on" and level.isdecimal() and int(level) <= 24 and "%" not in s.raw:
            return True  # "the lamp on at 7 and 20": it may be the hour
        if is_now:  # "now and then at 8" changes nothing of now
            return bool(first.arguments.get("name") == match.arguments.get("name"))
        is_longer = "seconds" in match.arguments and {"seconds"} == match.arguments.keys() - first.arguments.keys()
        is_alike = first.arguments.get("level") == match.arguments.get("level")
        return first.tool != match.tool or (is_longer and is_alike)  # not "to 30 %, and the fan for 5 minutes"

    def _begins_order(self, s: Sentence, begin: int = 0) -> bool:
        """Whether an order begins at a word, with its verb, behind words that say nothing."""
        tables = [self._lead, *(self.words[name] for name in ("polite", "requests"))]
        begin = s.skip(tables, begin)
        if begin >= len(s.words) or s.end_of(self.words["questions"], begin):
            return False
        wishes = any(s.end_of(self.words[name], begin) for name in ("wants", "fetches"))
        return wishes or stem_word(s.words[begin]) in self._acts

    def _asks_or_orders(self, s: Sentence, end: int) -> bool:
        """Whether the words up to `end` ask, or tell to say something."""
        return any(s.longest(self.words["questions"], i) for i in range(end)) or stem_word(s.words[0]) in self._acts

    def _is_conditional(self, s: Sentence, matches: Sequence[IntentMatch | None]) -> bool:
        """Whether something would be switched at once in a sentence that says "if", or "below 12 volts, light off"."""
        switches = any(match and match.tool == "output" and self.moves(match) for match in matches)
        has_limit = not s.asks and any(match and "_beyond" in match.said for match in matches)
        tells_end = any(match and match.intent == "cron_after" for match in matches[1:])  # "... when it is done"
        return switches and (has_limit or (self._says_if(s) and not tells_end))

    def _continue(self, cut: _Cut, offered: Offered) -> list[Wish]:
        """What follows a first wish, which may leave out the words that the first began with: "and the light"."""
        if cut.timed:
            return self._continue_timed(cut, offered)
        first, tail = cut.first, cut.tail
        referents = {name: [value] for name, value in first.arguments.items() if isinstance(value, str | int | float)}
        rest = self._match_as_said(tail, offered, LastTurn(referents, ToolCall("", first.tool, first.arguments)))
        rest = [(said, None if match and _lacks_job(match) else match) for said, match in rest]
        if all(is_whole(match) for _, match in rest):
            is_bare = self.intents[first.intent].acts and len(tail.split()) <= MAX_BARE_WORDS
            is_asked = is_bare and not self.moves(rest[0][1])
            same = self._continue_alike(cut, offered, 4) if is_asked else None
            return [(tail, same)] if same else rest  # "turn on the fan and the light": not how bright it is
        if self._moves_with_text(first) and any(self.moves(match) for _, match in rest):
            return [(tail, None)]  # "note that I fed the tomatoes and remind me again in a week"
        same = self._continue_alike(cut, offered, 4)
        is_open = self.intents[first.intent].kind in {"acts", "adds"} or self._asks_twice(cut.s.raw)
        return [(tail, same)] if same or is_open else []

    def _continue_timed(self, cut: _Cut, offered: Offered) -> list[Wish]:
        """What follows a first wish at a time of its own: "remind me at 8 of the bread, at 9 of the post, at 10 of the bank"."""
        lead = self._core(cut.s)[0][-1]  # "could you remind me at 6 ..."
        for begin in range(min(cut.end, lead + 2), lead, -1):
            more = self._split(f"{cut.s.text(0, begin)} {cut.tail}", offered, NO_TURN, timed=cut.timed)
            if more and all(is_complete(match) for _, match in more):
                return more
        same = self._continue_alike(cut, offered, lead + 2)
        is_in = Sentence(cut.tail, self.words).longest(self.words["within"], 0)
        is_length = same is not None and "at_seconds" in same.arguments  # "..., a minute with the pump"
        is_meant = same and (is_in or cut.first.intent == "cron_timer" or not is_length)
        return [(cut.tail, same)] if is_meant else []

    def _continue_alike(self, cut: _Cut, offered: Offered, most: int) -> IntentMatch | None:
        """What a tail means behind the words that the first wish began with, where that is the same intent."""
        s, end, tail, first = cut.s, cut.end, cut.tail, cut.first
        told = not self.words["reported"].keys().isdisjoint(Sentence(tail, self.words).words)  # "fan off, says my wife"
        is_apart = first.tool == "memory_search" and f"? {tail}" in s.raw
        told |= is_apart and self._is_statement(Sentence(tail, self.words))  # "... the beans? It must be noted."
        is_text = self._moves_with_text(first)  # "remind me at 8 of the bread": German "die" is no "it" there
        said = [] if is_text else [self.put_for_it(s.text(0, end), tail)]  # "turn it off and the light"
        has_clock = any(self.times.count_clock(tail.split()[n:]) for n in range(2))  # "um 7 ... und um 9 am Wochenende"
        clock = next((n for n in range(1, end) if self.times.count_clock(s.words[n:])), end) if has_clock else end
        begins = [n for n in range(min(end, clock, most), 0, -1) if s.words[n - 1] not in self.words["units"]]
        said += [f"{s.text(0, begin)} {tail}" for begin in (begins[::-1] if is_text else begins)]
        named = self.list_outputs(tail)
        for text in () if told else said:
            match = self.match(text, offered)
            if not is_whole(match) or match.intent != first.intent:
                continue
            if "_reason" in match.said and tail.split()[1:] == str(match.said["_reason"]).split():
                return None  # "wake me tomorrow at 6, as I have a train"
            if "_span" in match.said and _PLANNED_LEVEL.search(str(first.arguments)):
                return None  # "the lamp at 7 to 40 and at 9 to 20"
            new = {name: value for name, value in match.arguments.items() if named or name != "name"}
            if not new.items() <= first.arguments.items():  # "..., it is hot" orders nothing
                return match
        return None


def _tail(s: Sentence, begin: int) -> str:
    """The words of a sentence from word `begin` on; '' behind its last one."""
    return s.text(begin, len(s.words))


def _answers(match: IntentMatch | None) -> bool:
    """Whether a match is all of a sentence, and a call can be made of it or it has an answer."""
    if match is None or match.route not in WHOLE_ROUTES or match.intent in _OF_TALK:
        return False
    return match.answer != "" or is_complete(match)


def _keep_place(alone: list[Wish], told: Sequence[Wish]) -> list[Wish]:
    """Return the wishes `alone`; what is to be told of the past without a place is of the one spoken of."""
    (said, match), given = alone[0], told[0][1].arguments if told[0][1] else {}
    if len(alone) > 1 or not match or match.tool != "sensor_history" or "sensor" not in given:
        return alone
    return [(said, match._replace(arguments={"sensor": given["sensor"]} | match.arguments))]


def _holds(call: tuple[str, Mapping[str, Any]], wanted: tuple[str, Mapping[str, Any]]) -> bool:
    """Whether a call is what is wanted, or that with more about the sensor that it names."""
    return call == wanted or (call[0] == wanted[0] and "sensor" in wanted[1] and wanted[1].items() <= call[1].items())


def _find_measured(given: Mapping[str, Any]) -> tuple[str, str]:
    """The place, or the output, and the quantity that arguments name, '' for each that they do not."""
    place, _, rest = str(given.get("when", "")).partition(".") if "action" in given else ("", "", "")
    named = str(given.get("sensor") or given.get("name", ""))
    return (place, rest.partition(" ")[0]) if rest else (named, str(given.get("quantity", "")))


def _join_moves(told: Sequence[Wish], last: LastTurn) -> list[Wish]:
    """Return `told`; a day and a time of day that a job is moved to are one move: "no, it's sunday, make it 8:15"."""
    joined, clock = list[Wish](), find_clock(last.call.arguments, "".join(last.referents.get("_result", ())))
    for said, match in told:
        pair = [one.arguments for one in (joined[-1][1] if joined else None, match) if one]
        moves = [str(one["at"]) for one in pair if one.get("action") == "move" and "at" in one]
        day, at = sorted(moves, key=lambda one: ":" in one) if len(moves) == 2 else ("", "")
        if match and day and ":" in at and ":" not in day and pair[0].get("job") == pair[1].get("job"):
            before = f"{day} {format_clock(clock or 0)}"
            when = keep_day({"at": at.removeprefix(f"{day} ")}, {"at": before}, is_bare=True)
            joined[-1] = said, match._replace(arguments=match.arguments | when)
        else:
            joined.append((said, match))
    return joined


def _share_length(told: list[Wish]) -> list[Wish]:
    """Return `told`; how long one rule of an output says is for all: "2 minutes at 6 on weekdays and at 19 on sundays"."""
    rules = [match for _, match in told if match and match.tool == "rule" and match.arguments.get("output")]
    options = [dict(match.arguments.get("options") or {}) for match in rules]
    lengths = {one["lasts"] for one in options if "lasts" in one}
    is_one = len({match.arguments["output"] for match in rules}) == 1 and len(rules) == len(told)
    is_on = all(one.get("level") != "off" for one in options) and all(one.arguments["action"] == "add" for one in rules)
    if not is_one or not is_on or len(lengths) != 1:
        return told
    lasts = lengths.pop()
    more = [match.arguments | {"options": {**one, "lasts": lasts}} for match, one in zip(rules, options, strict=True)]
    return [(said, match._replace(arguments=given)) for (said, _), match, given in zip(told, rules, more, strict=True)]


def _plan(match: IntentMatch, moment: tuple[str, float]) -> IntentMatch | None:
    """What is done at a time of day ('' is now) and some seconds after it; None for what ends at a time of day, and begins at none."""
    clock, seconds = moment
    order = {name: match.arguments[name] for name in _PLANNED if name in match.arguments}
    if match.missing == NEEDS_CLOCK:
        ends = [str(one).removesuffix(OCLOCK) for one in (clock, match.said.get("_until"))]
        if not all(map(CLOCK_TIME.fullmatch, ends)):
            return None
        order["seconds"] = count_seconds_between(*ends) % 43_200  # "30 % until nine, then 60 until ten"
    call = {"action": "add", "kind": "tool", "message": f"{match.tool} {json.dumps(order)}", "at_seconds": int(seconds)}
    later = match._replace(intent="output_later", tool="cron", arguments=call)
    return later._replace(said=match.said | {"_until": clock}, missing=NEEDS_CLOCK) if clock else later


def _drop_repeated(told: Sequence[Wish]) -> list[Wish]:
    """The wishes without those that an earlier one says, too, or that a later one takes in."""
    calls = [(match.tool, match.arguments, match.said) if match and match.tool else None for _, match in told]
    again = {n for n, call in enumerate(calls) if call and call in calls[:n]}
    steps = [n for n, (_, match) in enumerate(told) if match and match.intent == "output_step"]
    kept = [wish for n, wish in enumerate(told) if n not in again and n not in steps[1:]]  # "too bright, dim it"
    return [wish for n, wish in enumerate(kept) if not _takes_in(kept[n + 1 :], wish[1])]


def _takes_in(told: Sequence[Wish], match: IntentMatch | None) -> bool:
    """Whether a later call does what an earlier one does, and more: "lamp to 60, off in two hours", "too dark, make it 50"."""
    given = match.arguments if match and match.tool == "output" else {}
    later = [one.arguments for _, one in told if one and one.tool == "output"]
    if match and match.intent == "output_step":
        return any(one.get("name") == given.get("name") for one in later)
    has_end = match is not None and ("seconds" in given or "_until" in match.said)
    is_lasting = given.get("action") == "set" and not has_end  # "on low, about a third"
    return is_lasting and any(one.get("action") == "set" and one.get("name") == given.get("name") for one in later)


def _join_days(matches: Sequence[IntentMatch | None]) -> IntentMatch | None:
    """One change of a job of two, of which one says its days and the other its hour; None where they do not."""
    days, hour = sorted(matches, key=lambda one: one is None or "_only" not in one.said)
    joined = join_days(days.arguments, hour.arguments) if days and hour else None
    return days._replace(arguments=joined) if days and joined else None


def _add_up(whole: IntentMatch, parts: Sequence[IntentMatch | None]) -> bool:
    """Whether two lengths are one, with the second in a smaller unit: "timer for 1 hour and 20 minutes"."""
    found = [float(match.arguments.get("at_seconds", 0)) for match in parts if match]
    if len(found) != 2 or len(parts) != 2 or sum(found) != whole.arguments.get("at_seconds"):
        return False
    return any(found[0] % unit == 0 and found[1] < unit for unit in (60, 3600, 86_400))


def _switches(match: IntentMatch) -> bool:
    """Whether an output is switched, now or as planned."""
    return match.tool == "output" or str(match.arguments.get("message", "")).startswith("output ")


def _lacks_job(match: IntentMatch) -> bool:
    """Whether a match changes a reminder that has no number: one that the sentence itself only sets."""
    changes = match.tool == "cron" and match.arguments.get("action") not in {"add", "list"}
    return changes and "job" not in match.arguments and "_called" not in match.said


def _find_half_days(matches: Sequence[IntentMatch | None]) -> str:
    """The times of day that one may mean, where another plan has the other half of the day or such a time, too; else ''."""
    plans = [match for match in matches if match and match.tool == "cron" and "at" in match.arguments]
    times = [str(match.arguments["at"]) for match in plans]
    clocks = [time.removesuffix(OCLOCK) for time in times if time.endswith(OCLOCK)]
    clocks = [clock for clock in clocks if CLOCK_TIME.fullmatch(clock)]  # not "today 06:00"
    if len(times) < 2 or not clocks:
        return ""
    late = format_clock(count_minutes(clocks[0]) + 720)
    are_open = len(clocks) == len(times) and all("_later" in match.intent for match in plans)
    return f"{clocks[0]}, {late}" if are_open or late in times else ""
