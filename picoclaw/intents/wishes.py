"""Understands a text with several wishes: where they part, what the second leaves out, and which only tells something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import chain, islice
from typing import Any

from picoclaw.intents.changes import find_clock, join_days, keep_day
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
    SURE_WHOLE,
    IntentMatcher,
)
from picoclaw.intents.sentence import MAX_CHARS, NO_TURN, LastTurn, Sentence
from picoclaw.intents.times import NO_HOUR, OCLOCK, count_minutes, format_clock
from picoclaw.messages import ToolCall
from picoclaw.text import pattern, stem_word
from picoclaw.times import WEEKDAYS

MIN_SEVERAL, SURE_SEVERAL = 0.02, 0.5
_MAX_WISHES = 4
_DATE = pattern(r"\d{4}-\d\d-\d\d")
_READ_ROUTES = WHOLE_ROUTES | {"topic"}
_PLANNED = ("action", "name", "level", "seconds", "quantity", "sensor")
_ORDINAL_END = pattern(r"(\w+) \d{1,2}\.$")
_OUTPUT_NAME = pattern(r'"name": "[^"]*"')
_PLANNED_LEVEL = pattern(r'"level": "\d')
_REPEATS = frozenset({"cron_expr", "every_seconds"})
ENDS = frozenset({"off", "remove", "disable"})
_STOPS = ENDS | {"pause", "skip"}


class WishMatcher(IntentMatcher):
    def complete_hour(self, found: IntentMatch | None, text: str, offered: Offered) -> IntentMatch | None:
        """Return `found`, with the usual hour where a reminder of days lacks nothing else."""
        lacks = found and (found.intent == "cron_bounded" or (found.missing and found.intent == "cron_add"))
        if not lacks or NO_HOUR in text:
            return found
        again = self.match(self._add_hour(self._read(text)), offered)
        return again if again and "cron_expr" in again.arguments and is_complete(again) else found

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
        rest = s.text(end, len(s.words)) if end < len(s.words) else ""
        return f"{s.text(0, end)} {next(iter(self.words['at']))} {NO_HOUR} {rest}"

    def _match_joined(self, text: str, offered: Offered, last: LastTurn) -> IntentMatch | None:
        """What comes on days that stand apart from their hour: "on weekdays put the heater on at half five"."""
        s = self._read(text)
        when = self._join_time(self._book.slot("often"), s, range(len(s.words))) if not s.asks else []
        is_once = len(when) < 2 and not s.asks
        when = self._join_time(self._book.slot("when"), s, range(len(s.words))) if is_once else when
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
        day = s.words[when[0] : min(i for i in begins if i > when[0])] if is_once and begins[-1] > when[0] else []
        is_reminder = match is not None and match.intent == "cron_add" and self.times.names_a_day(day)
        if not is_whole(match) or not (repeats or is_reminder) or (is_once and self.list_parts(match)):
            return None  # "tomorrow to ... and on friday to ..." is no row of days
        message = str(match.arguments.get("message", ""))
        is_later = text.find(message) < s.starts[when[-1]]
        is_later &= self._moves_with_text(match) and not (0 in when and any(s.after_comma(i) for i in begins[:1]))
        said = Sentence(message, self.words).words
        is_order = bool(said) and said[0] not in self.words["ignore"] | self.words["tells"]
        is_plain = is_order and next(iter(self.words["at"])) not in said
        return match if is_plain or not is_later else None  # "remind me every monday to be at work at 6"

    def match_wishes(self, text: str, offered: Offered, last: LastTurn = NO_TURN) -> list[Wish]:
        """The wishes in a text, each with its words and what they mean: several where "and" or the like parts them."""
        whole, s = text, self._read(text)
        if kept := self._match_with_exception(s, offered, last):
            return [(text, match) for match in kept]
        if last.call.name == "output" and 0 < (begin := s.end_of(self._book.values("then_word"), 0)) < len(s.words):
            text = s.text(begin, len(s.words))  # "and then the fan"
        is_done = last.call.name == "output" and s.holds(self._book.values("already_done"))
        begin = s.end_of(self._book.values("correction"), 0) if is_done else 0
        if begin and s.end_of(self._book.values("stop_word"), begin):
            text = s.text(begin, len(s.words))  # "no stop, already done it"
        text = self._name_both(text)
        text = self._drop_wrong_time(text) if last.call.name in {"cron", "rule"} else text
        text = self._put_days_first(text, offered, last) if "," in text else text
        text = self._join_hour(text) if "," in text else text
        text = self._drop_told_day(text, last)
        text = self._name_that_day(text, last)
        text = self._drop_once(text, offered)
        text = self._drop_reason(text, offered, last)
        text = self._drop_cause(text, offered, last)
        parts = self._match_as_said(text, offered, last)
        if not all(is_complete(match) for _, match in parts) and (joined := self._join_ends(text, offered)):
            parts = self._match_as_said(joined, offered, last)
        if not any(match for _, match in parts) or any(match and match.missing for _, match in parts):
            turned = self._put_days_first(text, offered, last) if "," not in text else text
            parts = self._match_as_said(turned, offered, last) if turned != text else parts
        if len(parts) == 1:
            parts = [(parts[0][0], self.complete_hour(parts[0][1], text, offered))]
            is_sure = is_complete(parts[0][1]) and parts[0][1].score == 1.0 and not self._ends_in_hour(parts[0][1])
            again = None if is_sure else self._match_joined(text, offered, last)
            found = parts[0][1]
            is_other = found is not None and found.route == "proposal" and found.intent != "cron_add"
            if again and not (is_other and again.intent == "cron_add"):  # "I wanted a daily report ... at 6" is no text
                parts = [(text, again)]
        told: list[Wish] = []
        for said, match in parts:
            calls = self.list_parts(match) if match else []
            told += [(said, call) for call in calls] or [(said, match)]
        told = self._share_beginning(told, offered)
        told = self._put_after(
            whole,
            _share_length(_join_moves(self._share_day(told), last)),
            last.call,
            sum(last.referents.get("_passed", ())),
        )
        told = self._say_reason(whole, told, offered, last) if len(told) == 1 else self._join_off_later(told)
        made = [(match.tool, match.arguments, match.said) if match and match.tool else None for _, match in told]
        told = [part for n, part in enumerate(told) if made[n] is None or made[n] not in made[:n]]
        steps = [match is not None and match.intent == "output_step" for _, match in told]
        told = [part for n, part in enumerate(told) if not (steps[n] and any(steps[:n]))]  # "too bright, dim it"
        return [part for n, part in enumerate(told) if not _takes_in(told[n + 1 :], part[1])]

    def _match_with_exception(self, s: Sentence, offered: Offered, last: LastTurn) -> list[IntentMatch]:
        """The calls of an order that ends with what it is not for: "all off but the fan", "lamp on, not the fan"; [] for another."""
        for i in range(1, len(s.words) if s.holds(self._exceptions) else 0):
            excepted = self._list_excepted(s, i)
            match = self.match(s.text(0, i) + "?" * s.asks, offered, last) if excepted else None
            if not is_complete(match) or match.score < 1.0 or not self.moves(match):
                continue
            calls = self.list_parts(match) or [match]
            kept = [call for call in calls if excepted.isdisjoint(re.findall(r"[\w-]+", str(call.arguments)))]
            is_not = any(s.longest(self._book.values("not_word"), n) for n in range(i, len(s.words)))
            is_change = last.call.name == "output" and len(calls) == 1  # "the lamp on, not the fan" ends the fan
            if kept and (len(kept) < len(calls) or (is_not and not is_change)):
                return [call._replace(said={}) for call in kept]
        return []

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
        i, named, marks = begin, set[str](), False
        tables = [*starts, *(self.words[name] for name in ("ignore", "plain", "polite"))]
        tables += [self._book.values("on_word")] * any(
            s.longest(self._book.values("hold_verb"), n) for n in range(i, len(s.words))
        )
        while i < len(s.words):
            hit, mark = s.longest(outputs, i), s.end_of(self._exceptions, i)
            end = hit[1] if hit else mark or max(s.end_of(table, i) for table in tables)
            if not end:
                return set()
            named |= {hit[0][1]} if hit else set()
            i, marks = end, marks or mark > 0
        return named if marks else set()

    def _say_reason(self, text: str, told: list[Wish], offered: Offered, last: LastTurn) -> list[Wish]:
        """Return `told`; a reminder without a text says the reason behind it: "remind me at 6, I have to fetch the kids".

        A reason that names a time says nothing of when it comes: "wake me in an hour, I work tonight".
        """
        said, match = told[0]
        if "?" in text or not self._lacks_text(match):
            return told
        s, duties = Sentence(text[:MAX_CHARS], self.words), self._book.values("duty_word")
        begins = [self._book.values(name) for name in ("because_word", "clause_word", "aside_word")]
        for i in range(2, len(s.words) - 1 if len(s.words) <= MAX_CLASSIFIED else 0):
            begin = s.end_of(begins[0], i) or i
            is_duty = s.end_of(duties, begin) > 0
            is_own = begin > i or s.words[i] in self.words["tells"]
            may_begin = is_duty or is_own or s.after_comma(i) or any(s.end_of(table, i) for table in begins)
            alone = self.match(s.text(0, i), offered, last) if may_begin and begin < len(s.words) - 1 else None
            if not is_whole(alone) or not alone.arguments.get("message") or not self._lacks_text(alone):
                continue
            reason = s.text(begin, max(begin + 1, self._begin_of_polite(s)))
            why, rest = Sentence(reason, self.words), self.match(reason, offered, last)
            if not self._is_statement(why) or (rest and (self.moves(rest) or rest.answer)):
                continue
            if self.says_time(reason):
                names_day = any(self.times.count_day(why.words[n:]) for n in range(len(why.words)))
                is_apart = (is_own and "at_seconds" in alone.arguments) or (is_duty and not names_day)
                return [(said, alone)] if is_apart else told
            is_reminder = alone.intent != "cron_wake" and not s.holds(self._book.values("reminder_word"))
            is_reminder &= alone.arguments == (match.arguments if match else {})
            if is_duty or (is_reminder and not self._verbs.isdisjoint(why.words)):
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
        is_same = name is not None and name[0] in off and '"off"' in off and '"off"' not in on and '"seconds"' not in on
        if not length or not is_same or not is_later or "at_seconds" in first.arguments:
            return told
        given = first.arguments | {"message": f'{on.removesuffix("}")}, "seconds": {length}}}'}
        return [(told[0][0], first._replace(arguments=given))]

    def _lacks_text(self, match: IntentMatch | None) -> bool:
        """Whether a reminder, timer or alarm says only that it is time, or is only proposed; or nothing was understood."""
        if not match or not is_complete(match):
            return match is None or match.tool == "cron"
        usual = self.intents[match.intent].defaults.get("message")
        return match.tool == "cron" and usual is not None and match.arguments.get("message") == usual

    def _join_hour(self, text: str) -> str:
        """The text with the hour of a clause that only says when it is: "remind me of the dentist tomorrow, it's at 3"."""
        s = self._read(text)
        for i in range(2, len(s.words) - 1 if s.holds(self._reminding) else 0):
            end = s.end_of(self._book.values("it_happens"), i) if s.after_comma(i) else 0
            is_hour = end and self.times.count_clock(s.words[end:]) == len(s.words) - end
            if is_hour and not any(self.times.count_clock(s.words[n:i]) for n in range(i)):
                day = next((n + days for n in range(i) if (days := self.times.count_day(s.words[n:i]))), i)
                return f"{s.text(0, day)} {s.text(end, len(s.words))} {s.text(day, i)}".strip(" ,")
        return text

    def _join_ends(self, text: str, offered: Offered) -> str:
        """The text with "from 5 to 9" for "at 5 and off at 9", where that is one rule by the clock, or with "and off when" for an
        "until" before a limit; '' for another.
        """
        s = self._read(text)
        for i in range(2, len(s.words)):
            until = s.longest(self._book.values("until_limit"), i)
            if until and until[1] < len(s.words):
                rest = self._name_limit(s, i, until[1], offered) or s.text(until[1], len(s.words))
                joined = f"{s.text(0, i)} {until[0]} {rest}"
                rules = [match for _, match in self._split(joined, offered, NO_TURN) if match and match.tool == "rule"]
                if len(rules) == 2 and not any(str(rule.arguments.get("when")).startswith("every ") for rule in rules):
                    return joined
        ends = [self._book.values(name) for name in ("off_word", "off_verb")]
        between = [self._book.values(one) for one in ("switch", "again_word", "on_word")]
        between += [self.words["splits"], self.words["it"]]
        near = [s.words[i : i + 2 * MAX_SHORT_WORDS] for i in range(len(s.words))] if any(map(s.holds, ends)) else []
        for i in range(1, len(near)):
            begin = end = i + self.times.count_clock(near[i])
            is_off, on = False, ""
            while begin > i and (then := max(s.end_of(table, end) for table in (*ends, *between))):
                is_off |= any(s.end_of(table, end) == then for table in ends)
                on = s.text(end, then) if s.end_of(between[2], end) == then else on
                end = then
            behind = end + self.times.count_clock(near[end]) if begin > i and end < len(near) else end
            off = 0 if is_off or behind == end else max(s.end_of(table, behind) for table in ends)  # "um 9 aus"
            if (is_off or off) and end < behind:
                at = next((n for n in range(i, begin) if s.end_of(self.words["at"], n)), i)  # "on at 6"
                start, stop = (s.end_of(self.words["at"], n) or n for n in (at, end))
                first, last = (next(iter(self.words[name])) for name in ("span_begins", "span_ends"))
                tail = f"{s.text(stop, behind)} {on} {s.text(off or behind, len(s.words))}"
                joined = f"{s.text(0, at)} {first} {s.text(start, begin)} {last} {tail}"
                match = self.match(joined, offered)
                return joined if match and match.tool == "rule" and "when" in match.arguments else ""
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
        end = next((end for end in ends if end < len(s.words)), 0)
        for said, match in rest:
            is_now = self._read(said).holds(self._book.values("now_word"))
            moves = end and match and match.tool == "output" and self.moves(match) and not is_now
            again = self.match(f"{s.text(0, end)} {said}", offered) if moves else match
            is_alike = is_complete(again) and first is not None and again.tool == first.tool
            shared.append((said, again if is_alike or not moves else None))
        return shared

    def _put_after(self, text: str, told: Sequence[Wish], last: ToolCall, passed: float) -> list[Wish]:
        """Return `told`; "then" plans what is switched or told for the end of what was switched on just before."""
        put, before = list[Wish](), last.arguments if last.name == "output" else {}
        left = before.get("seconds", 0) - passed
        end, planned = ("", left) if left > 0 else None, None
        for said, match in told:
            tool = match.tool if match else ""
            given = match.arguments if match and tool in {"output", "sensor_read"} else {}
            is_after = end is not None and self._follows_then(text, said, is_first=not put)
            is_now = Sentence(said, self.words).holds(self._book.values("now_word"))
            joins = tool == "output" and not is_now  # "then off, and the fan on"
            is_again = given.get("name") == before.get("name")
            is_same = given.get("action") == "set" and is_again  # "then 10 instead"
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

    def _put_days_first(self, text: str, offered: Offered, last: LastTurn) -> str:
        """The text with days before its hour that stand behind a comma: "remind me at 8 to water, but only on weekdays"."""
        head, comma, tail = text.rpartition(",")
        days = self._book.slot("only_days")
        if not comma and (cut := self._find_last_days(whole := self._read(text))):
            head, tail = whole.text(0, cut), f"{next(iter(self.words['narrows']))} {whole.text(cut, len(whole.words))}"
        s, first = Sentence(tail, self.words), Sentence(head, self.words)
        begin = next((i for i, word in enumerate(s.words) if word not in self.words["narrows"]), 0)
        reads = (end == len(s.words) for i in (begin, begin + 1) for _, end in self._reader.read(days, s, i))
        near = (i for i in range(len(first.words)) if self.times.count_part(first.words[i : i + MAX_SHORT_WORDS]))
        if not begin or not any(reads) or (at := next(near, -1)) < 0:
            return text
        told = s.text(begin, len(s.words))
        turned = f"{first.text(0, at) if at else ''} {told} {first.text(at, len(first.words))}".strip()
        match = self.match(turned, offered, last)
        repeats = match is not None and (match.tool == "rule" or "cron_expr" in match.arguments)
        return turned if repeats and is_complete(match) else text

    def _find_last_days(self, s: Sentence) -> int:
        """Where the days begin that a sentence ends with: "at 7 and at 19 for 3 minutes every day"; 0 for none."""
        days, last = self._book.slot("only_days"), range(max(1, len(s.words) - MAX_SHORT_WORDS), len(s.words))
        return next((i for i in last for _, end in self._reader.read(days, s, i) if end == len(s.words)), 0)

    def _drop_reason(self, text: str, offered: Offered, last: LastTurn) -> str:
        """A text up to a comma behind which it only says why, or whom it is said to, or up to a "because" behind an order."""
        for comma in islice(re.finditer(", ", text[:MAX_CHARS]), _MAX_WISHES):
            rest = text[comma.end() :]
            is_name = self._is_name(rest) and not is_complete(self.match(text, offered, last))
            tells = is_name or (last.call.name and self._gives_reason(rest, is_told=True))
            match = self.match(text[: comma.start()], offered, last) if tells else None
            if is_whole(match) and match.score == 1.0:
                intent = self.intents[match.intent]
                if is_name or (intent.kind and (intent.after or match.arguments.get("action") in ENDS)):
                    return text[: comma.start()] + "?" * (text[-1:] == "?")
        s, why = Sentence(text[:MAX_CHARS], self.words), self._book.values("clause_word")
        for i in range(2, len(s.words) - 1 if len(s.words) <= MAX_CLASSIFIED else 0):
            if not (begin := s.end_of(why, i)) or self._asks_by_accent(s, i):
                continue
            ends = [n for i in range(begin, len(s.words)) if (n := s.end_of(self.words["splits"], i))]
            rests = [s.text(end, len(s.words)) if end < len(s.words) else "" for end in ends]  # "... and the dog barks"
            ifs = self._book.values("if_word")
            is_more = any(s.after_comma(n) or s.end_of(ifs, n) for n in range(begin, len(s.words)))
            is_more = is_more or not all(map(self._gives_reason, rests))
            head = s.text(0, i) + "?" * (s.asks and not s.holds(self.words["requests"]))
            match = None if is_more else self.match(head, offered, last)
            if match and match.tool == "cron" and self.says_time(s.text(begin, len(s.words))):
                continue  # "despiértame el lunes que viene a las 7"
            if is_whole(match) and match.score == 1.0 and self.moves(match):
                whole = self.match(text, offered, last)
                alike = (
                    whole and whole.tool == "cron" and whole.arguments.get("action") == match.arguments.get("action")
                )
                return text if is_complete(whole) and (alike or whole.intent == match.intent) else head
        return text

    def _drop_cause(self, text: str, offered: Offered, last: LastTurn) -> str:
        """The order behind a statement that says why: "my mother waters next week, so pause the watering for a week"."""
        s, because = Sentence(text[:MAX_CHARS], self.words), self._book.values("so_word")
        for i in range(2, len(s.words) - 1 if len(s.words) <= MAX_CLASSIFIED and "?" not in text else 0):
            so = s.end_of(because, i)
            begin = so or i * s.after_comma(i)
            head, rest = s.text(0, i), s.text(begin, len(s.words))
            told = self._verbs & {*s.words[:i]} and self._is_statement(self._read_behind_no(head))
            asks = s.end_of(self.words["questions"], 0) > 0  # "está ..."
            told = told and (asks or not self._begins_order(Sentence(head, self.words)))
            before = self.match(head, offered, last) if begin and (told or so) else None
            if so and not told and Sentence(head, self.words).holds(self.words["negations"]):
                told = before is not None and not before.tool  # "no need to water, but turn the lamp on"
            told = told and not (is_whole(before) and self.moves(before))
            match = self.match(rest, offered, last) if begin and told else None
            tools = {"cron", "rule", "output"} if so else {"cron", "rule"}
            if not is_whole(match) or match.score < 1.0 or match.tool not in tools or not self.moves(match):
                continue
            if not so and self.intents[match.intent].after and s.end_of(self.words["negations"], begin):
                continue  # "sorry, it is on monday, not tomorrow"
            spans = ((n, m) for n in range(len(s.words)) for m in range(n + 1, n + MAX_BARE_WORDS + 1))
            days = [n for n, m in spans if self.times.names_a_day(s.words[n:m])]
            has_end = not {match.arguments.get(name) for name in ("at", "when")} <= {None, "next"}
            pauses = has_end and match.arguments.get("action") in {"pause", "skip"}
            if pauses or not days or max(days) >= begin:
                return rest
        return text

    def _drop_told_day(self, text: str, last: LastTurn) -> str:
        """A text behind a reminder without a part that says which day that is on: "oh no, that is a saturday, make it 8"."""
        found = _DATE.search("".join(last.referents.get("_result", ())))
        if last.call.name != "cron" or not found or text.rstrip().endswith("?"):
            return text
        day = WEEKDAYS[date.fromisoformat(found[0]).weekday()]
        parts = SENTENCE_END.split(text)
        tags = [part for part in parts if part.endswith("?") and len(part.split()) <= MAX_BARE_WORDS]  # "isn't it?"
        kept = [part for part in parts if part not in tags and not self._tells_day(part, day)]
        if len(parts) - len(kept) == len(tags):
            return text
        return ", ".join(kept) if kept and (self.says_time(kept[-1]) or self.has_number(kept[-1])) else text

    def _name_that_day(self, text: str, last: LastTurn) -> str:
        """A text behind the reminders of a day, or behind one, with its name for "that day"."""
        s, those = self._read(text), self._book.values("that_day")
        at = next((i for i in range(len(s.words)) if s.end_of(those, i)), -1)
        if at < 0 or not (last.call.name == "cron" or last.call.arguments == LOOK_UP):
            return text
        day = str(self.said_before().get("_day") or last.call.arguments.get("at", "")).partition(" ")[0]
        name = next((word for word, meant in self.words["days"].items() if meant == day != ""), "")
        end = s.end_of(those, at)
        return (
            f"{s.text(0, at) if at else ''} {name} {s.text(end, len(s.words)) if end < len(s.words) else ''}".strip()
            if name
            else text
        )

    def _drop_once(self, text: str, offered: Offered) -> str:
        """A text without the "just once" that an alarm or a reminder ends with that comes once anyway."""
        s, once = self._read(text), self._book.values("just_once")
        ends = {self._begin_of_polite(s), len(s.words)} if s.holds(once) and not s.asks else set[int]()
        for i in range(max(2, len(s.words) - 2 * MAX_SHORT_WORDS), len(s.words) if ends else 0):
            match = self.match(s.text(0, i), offered) if s.end_of(once, i) in ends else None
            if is_whole(match) and match.tool == "cron" and match.arguments.get("action") == "add":
                return text if _REPEATS & match.arguments.keys() else s.text(0, i)
        return text

    def _tells_day(self, text: str, day: str) -> bool:
        """Whether a text says that it is a day of the week, and no more."""
        s, i, days = self._read(text.replace("'s ", " is ")), 0, set[str]()  # "tomorrow's saturday"
        names = ("declines", "waits", "lead", "polite", "filler", "plain", "ignore", *(("it", "negations") * s.asks))
        tables = [self.words[name] for name in names]
        while i < len(s.words):
            hit = s.longest(self.words["days"], i)
            may_stand = s.words[i] in self._verbs or isinstance(self.words["numbers"].get(s.words[i]), float)  # "a"
            end = hit[1] if hit else max((i + 1) * may_stand, *(s.end_of(table, i) for table in tables))
            if not end:
                return False
            days |= {str(hit[0])} if hit else set()
            i = end
        return day in days <= {day, "", "tomorrow"} and not self._verbs.isdisjoint(s.words)

    def _is_name(self, text: str) -> bool:
        """Whether a text may be whom another one is said to: one word with a capital letter that has no meaning here."""
        word = text.strip(" .!?")
        return word.isalpha() and word[0].isupper() and not {word.lower()} & {*self._book.keys, *self._names}

    def _drop_wrong_time(self, text: str) -> str:
        """What is right, of what also says what was wrong: "not monday, tuesday"; "monday not, tuesday" where one says so."""
        s = self._read(text)
        begin, size = self._skip_no(s), len(s.words)
        nots = [s.end_of(self._book.values("not_word"), i) or i for i in range(size)] + [size]
        times = [i + self.times.count_part(s.words[i : i + MAX_SHORT_WORDS]) for i in range(size)] + [size]
        for first, second in ((nots, times), (times, nots)):
            middle, end = first[begin], second[first[begin]]
            right = s.end_of(self._book.values("but_rather"), end) or end
            wrong = s.words[middle:end] if first is nots else s.words[begin:middle]
            is_alike = self.times.names_a_day(wrong) == self.times.names_a_day(s.words[right : times[right]])
            if begin < middle < end and right < times[right] and is_alike:
                is_last = first is nots or any(map(s.after_comma, range(middle + 1, end + 1)))  # "tuesday, not monday"
                return s.text(right, len(s.words)) if is_last else s.text(begin, middle)
        return text

    def _name_both(self, text: str) -> str:
        """The text with two outputs named where it says "both" of them: "fan and lamp, turn both off"."""
        named, _, rest = text.partition(":") if ":" in text else text.partition(",")
        if len(self.list_outputs(named)) != 2:
            named, rest = rest, named
        names, s = Sentence(named, self.words), Sentence(rest, self.words)
        both = next((i for i in range(len(s.words)) if s.longest(self._book.values("both_word"), i)), -1)
        acts = any(stem_word(word) in self._acts for word in names.words)
        asks = "?" in text or s.end_of(self.words["questions"], 0) > 0
        if both < 0 or acts or asks or len(self.list_outputs(named)) != 2 or self.list_outputs(rest):
            return text
        _, end = s.longest(self._book.values("both_word"), both) or ("", both)
        tail = s.text(end, len(s.words)) if end < len(s.words) else ""
        return f"{s.text(0, both) if both else ''} {named.strip()} {tail}".strip()

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
        whole = self.match(text, offered, last)
        if whole and (whole.route == "unclear" or self.list_parts(whole)):
            return [(text, whole)]
        if whole and whole.tool in {"cron", "rule"} and self._read(text).holds(self._book.values("now_word")):
            parts = self._split(text, offered, last)
            if len(parts) > 1 and parts[0][1] and parts[0][1].tool == "output":
                return parts  # "for 3 minutes now and again at 7"
        if whole and whole.intent == "history_trend" and (now := self._find_value_asked(text, whole, offered, last)):
            return [now, (text, whole)]
        swallows = whole is not None and self._moves_with_text(whole) and not last.call.name
        if swallows and whole and self._classifier:
            is_several = self._share_of_several(text, 0.0) > SURE_SEVERAL
            parts = self._split(text, offered, last) if is_several or whole.tool == "memory_store" else []
            is_several &= any(match is None or match.intent != whole.intent for _, match in parts)
            is_sure = whole.tool != "cron" or self._share_of_several(text, 0.0) > SURE_WHOLE
            if parts and is_several and (is_sure or all(is_complete(match) for _, match in parts)):
                return parts
            second = parts[1][1] if len(parts) > 1 else None
            if len(parts) > 1 and self._read(parts[1][0]).end_of(self._book.values("remind_verb"), 0):
                other = second if second and second.intent != whole.intent else None
                return [parts[0], (parts[1][0], other), *parts[2:]]  # "note that they came in, and remind me in March"
            if second and self.moves(second) and second.intent != whole.intent:
                return [parts[0], (" ".join(said for said, _ in parts[1:]), None)]  # "note that ..., and switch it on"
        note, mark, tail = text.rpartition(". ")
        if mark and whole and whole.tool == "memory_store" and is_whole(order := self.match(tail, offered)):
            first = self.match(note, offered, last)
            if first and first.intent == whole.intent and self.moves(order) and order.score == 1.0:
                return [(note, first), *self._match_as_said(tail, offered, last)]  # "note: fed the hens. Fan on."
        twice = (whole is None or whole.score < 1.0) and self._asks_twice(text)
        if (whole is None or whole.score < 1.0) and not last.call.name and not twice and self._is_one_question(text):
            alone = [] if whole else self._match_sentences(text, offered, last)
            return alone or [(text, whole)]
        if whole and whole.score < 1.0 and is_complete(whole):  # a word was passed over
            parts = self._split(text, offered, last)
            if parts and all(is_complete(match) for _, match in (parts[:1] if twice else parts)):
                return parts
            told = last.call.name == "output" != whole.tool and not self.moves(whole)  # "off, it's loud"
            return (self._match_sentences(text, offered, last) if told else []) or [(text, whole)]
        if whole and whole.route in WHOLE_ROUTES and (whole.tool or whole.answer):
            intent = self.intents[whole.intent]
            if intent.last:  # it only says what was not understood as a whole
                parts = self._split(text, offered, last)
                done = [match for _, match in parts if is_complete(match)]
                rules = sum(one.tool == "rule" and one.arguments["action"] != "add" for one in done)  # numbers change
                if done and len(done) == len(parts) and rules < 2:
                    return parts
                if len(parts) == 1 and (unclear := parts[0][1]) and unclear.route == "unclear":
                    return parts
                alone = self._match_sentences(text, offered, last)
                orders = [one for one in alone if self.moves(one[1])]
                return orders or [(text, whole)]  # "my train is late, move the reminder for leaving to 5"
            s = self._read(text)
            joints = (s.end_of(self.words["splits"], i) for i in range(1, len(s.words)))
            if not intent.kind and whole.tool and any(begin and self._begins_order(s, begin) for begin in joints):
                parts = self._split(text, offered, last)  # "combien il fait et allume le ventilateur"
                if len(parts) > 1 and all(is_complete(match) for _, match in parts):
                    return parts
            if not is_complete(whole) or not (intent.ask and self._has_text_slot(intent)):
                is_aside = last.call.name == "output" and whole.tool != "output" and intent.kind == ""
                is_more = last.call.name and not is_complete(whole) and whole.intent != "thanks"
                goes_on = whole.missing or is_more or is_aside
                return (self._match_sentences(text, offered, last) if goes_on else []) or [(text, whole)]
            parts = self._split(text, offered, last, whole.intent)
        else:
            parts = self._split(text, offered, last)
        return parts or self._match_sentences(text, offered, last) or [(text, whole)]

    def _find_value_asked(self, text: str, trend: IntentMatch, offered: Offered, last: LastTurn) -> Wish | None:
        """The question before that of a trend, where it asks for the value itself: "how is the pressure, is it falling?"."""
        s = Sentence(text, self.words)
        for i in range(2, len(s.words) - 1):
            head = s.text(0, i)
            is_joint = s.after_comma(i) or s.end_of(self.words["splits"], i)
            now = self.match(f"{head}?", offered, last) if is_joint else None
            if is_complete(now) and now.tool == "sensor_read":
                is_same = now.arguments.get("quantity") == trend.arguments.get("quantity")
                return (head, now) if is_same else None
        return None

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
        asides = self._split_asides(text) if len(parts) < _MAX_WISHES else ()
        rows = chain([parts], asides)
        found = (self._match_beside(one, offered, last, is_aside=one is not parts) for one in rows)
        return next(filter(None, found), None) or self._match_about(parts, offered)

    def _match_about(self, parts: Sequence[str], offered: Offered) -> list[Wish]:
        """The order about an "it" that what is told before it names: "the fan is too loud, turn it off"."""
        *told, order = parts or [""]
        s = self._read(", ".join(told))
        named = {name for kind, name in s.list_values(self._names) if kind == "output"}
        asks = any("?" in part for part in parts) or self._says_if(s) or s.end_of(self.words["questions"], 0) > 0
        others = [self._book.values(name) for name in ("rule_word", "reminder_word")]
        others += [self.words["reported"], self.words["units"]]  # "leave the heater for an hour, then turn it on"
        asks |= any(map(s.holds, others)) or any(self._begins_order(Sentence(one, self.words)) for one in told)
        if len(named) != 1 or self.list_outputs(order) or asks:
            return []
        name = named.pop()
        match = self.match(self.put_for_it(order, name), offered)
        if not is_whole(match) or match.tool != "output" or not self.intents[match.intent].acts:
            return []
        return [(order, match)] if match.arguments.get("name") == name else []  # "tick it off" ends no pump

    def _split_asides(self, text: str) -> Iterator[list[str]]:
        """A text before and behind each word that begins a reason: "they are hot so start the fan", "fan off it is loud"."""
        s = Sentence(text[:MAX_CHARS], self.words)
        tables = [self._book.values(name) for name in ("because_word", "aside_word")]
        for i in range(2, len(s.words) - 1 if len(s.words) <= MAX_CLASSIFIED else 0):
            is_bound = s.words[i - 1] in self._book.slot("unconditional").without
            is_bound |= any(s.longest(one, i - 1) for one in (tables[0], self.words["bounds"], self.words["questions"]))
            is_bound |= s.longest(self._book.values("is_wrong"), i) is not None  # "30 is too high"
            is_bound |= (
                s.words[i - 1] in self.words["units"] and s.words[i] in self.words["before"]
            )  # "2 days before ..."
            end = s.end_of(tables[1], i)
            near = s.words[end : end + MAX_SHORT_WORDS] if end else []
            is_reason = s.longest(tables[0], i) or (near and not self.times.count_part(near))
            if not is_bound and not s.after_comma(i) and is_reason:  # "before 3 pm" is none
                yield [s.text(0, i), s.text(i, len(s.words)) + "?" * s.asks]

    def _match_beside(self, parts: list[str], offered: Offered, last: LastTurn, *, is_aside: bool) -> list[Wish]:
        """The part of a text that asks or orders, where the others only tell something."""
        if not 1 < len(parts) <= _MAX_WISHES:
            return []
        found = [self.match(part, offered, last) for part in parts]
        told = [self._only_tells(part, match) for part, match in zip(parts, found, strict=True)]
        if is_whole(first := found[0]):
            intent, action = self.intents[first.intent], first.arguments.get("action")
            if self._can_be_undone(first) or (last.call.name and ((intent.after and intent.kind) or action in ENDS)):
                told[0] = False
                told[1:] = [one or self._gives_reason(part) for one, part in zip(told[1:], parts[1:], strict=True)]
        if told.count(False) != 1:
            return []
        part, match = next((part, match) for part, match, tells in zip(parts, found, told, strict=True) if not tells)
        if not is_whole(match) or ("_beyond" in match.said and "?" not in part):  # "a warning then, 14 and above"
            return []
        intent = self.intents[match.intent]
        if is_aside and not intent.kind:
            return []  # "it was so hot"
        rest = [Sentence(one, self.words) for one in parts if one != part]
        own_time = self._book.values("own_time")
        if match.tool == "sensor_history" and any(one.words and one.longest(own_time, 0) for one in rest):
            return []  # "how warm was it, when I was out"
        is_more = is_aside or any(not self._is_telling(one, 0) for one in rest if one.words)
        if is_more and parts[-1] != part and (message := str(match.arguments.get("message", ""))) and message in part:
            return []  # "remind me at 6 to feed the cat, the dog"
        moves = self._can_be_undone(match) or match.arguments.get("action") in ENDS
        begins = parts[0] == part and (moves or (last.call.name and intent.after))
        reasons = [one for one in parts if one != part]
        is_past = any(Sentence(one, self.words).holds(self.words["past"]) for one in reasons)
        is_past &= not self._begins_order(Sentence(part, self.words))  # "I had thought of it, heater on"
        is_clear = begins or (moves and not is_past and all(map(self._gives_reason, reasons)))
        is_bare = "message" in intent.defaults and match.arguments.get("message") == intent.defaults["message"]
        is_bare &= len(parts) == 2 and found[1] is None and self._verbs.isdisjoint(rest[0].words)
        if begins and is_bare and not rest[0].longest(self.words["polite"], 0):  # "a shout at six? Plot inspection."
            begin, end = rest[0].end_of(self._book.values("for_word"), 0), self._begin_of_polite(rest[0])
            # "a timer for 5 minutes for the eggs, please"
            message = rest[0].text(begin, end) if begin < end else parts[1]
            match = match._replace(arguments=match.arguments | {"message": message.strip(" .!")})
        return [(part, match)] if not intent.kind or is_clear else []

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
        return Sentence(s.text(begin, len(s.words)), self.words) if 0 < begin < len(s.words) else s

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
        reads = match is not None and match.tool != "" and (self.moves(match) or not is_told)
        has_verb = any(word in self._verbs or word.endswith("'s") for word in (*near, *s.words[begin:][: bool(near)]))
        is_told |= has_verb or bool(match and match.answer and not match.tool and match.route in _READ_ROUTES)
        return is_told and not reads  # "it's roasting in there"

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
        tells = begin > 0 or not self._verbs.isdisjoint(s.words) or (s.words[:1] and s.words[-1] in words["it"])
        is_wish = s.end_of(self._book.values("own_wish"), begin) > 0  # "I want to put the pumpkin out"
        is_wish &= not (s.asks or self._says_if(s))
        is_why = is_told and s.end_of(self._book.values("reason_word"), 0) > 0  # "because he closes"
        if not (is_wish or self._is_statement(s)) or (is_told and (len(s.words) < 2 or not tells)):
            return False
        names = ("but_word", "drop_verb", "again_word", "every_output")
        tables: list[Mapping[str, Any]] = [words[name] for name in ("days", "units", "declines", "agrees", "packs")]
        tables += [words["splits"]] * (not is_why)
        outputs = {phrase: one for phrase, one in self._names.items() if one[0] == "output"}
        outputs = {} if self._means_quantity(self._read(text)) else outputs  # "there is little light in the greenhouse"
        tables += [outputs, dict.fromkeys(self._book.slot("message").without)]  # "..., weather permitting"
        tables += [*(self._book.values(name) for name in names)]
        is_more = any(word[0].isdigit() or words["numbers"].get(word, 1) != 1 for word in s.words[begin:])
        words_of = (words["past"], *(self._book.values(name) for name in ("quantity", "running_word")))
        states = frozenset(chain(*words_of))  # "I called her", "it is warm", "he is closed"
        acts = (word for word in s.words[begin:] if word not in states and stem_word(word) not in states)
        orders = not (is_wish or is_why) and any(stem_word(word) in self._acts for word in acts)
        is_more |= orders or any(map(s.holds, tables))
        is_own = is_told and s.words[0] in self._verbs and s.words[1] in words["tells"]  # "hab ich schon"
        is_article = not words["numbers"].keys().isdisjoint(s.words[begin : begin + 1])  # "ein Gewitter kommt"
        named = () if is_article else ("off_word", "on_word", "off_verb")
        firsts = [self._book.values(name) for name in named]
        firsts += [] if is_own else [words["questions"]]
        return not is_more and not any(s.end_of(table, begin) for table in firsts)

    def list_parts(self, match: IntentMatch) -> list[IntentMatch]:
        """The calls that one sentence needs: its parts, or the reading of a second sensor that it is compared with."""
        if "_other" in match.said and not match.missing and match.arguments.get("sensor") != match.said["_other"]:
            return [match, match._replace(arguments=match.arguments | {"sensor": match.said["_other"]})]
        if "_wrong" in match.said and not match.missing:
            return [match._replace(arguments={"action": "off", "name": match.said["_wrong"]}), match]
        if "_more" in match.said and not match.missing:
            return [match, *(_add_arguments(match, more) for more in match.said["_more"])]
        parts = self.intents[match.intent].parts.split()
        return [make_match(self.intents[name], match.said, 1.0, "template") for name in parts]

    def _split(self, text: str, offered: Offered, last: LastTurn, timed: str = "") -> list[Wish]:
        """The wishes in a row; none where the first is not understood alone. `timed`: the intent that each has to mean."""
        s = Sentence(text, self.words, self._names)
        if len(s.words) > MAX_CLASSIFIED:
            return []
        halves, asking = self.words["halves"], self.words["questions"]
        places = [i for i in range(1, len(s.words)) if s.longest(self.words["splits"], i) or s.after_comma(i)]
        polite = self._begin_of_polite(s)  # "a timer for the eggs, please" is one
        # Neither in "a las diez y media" nor behind the first word of "no, 7 is better. We eat at 8".
        places = [i for i in places if i < polite and not s.longest(halves, i)]
        places = [i for i in places if not self.is_all_of(s.text(0, i), "declines", "waits")]
        for i in islice(places, _MAX_WISHES):
            hit = s.longest(self.words["splits"], i)
            then = hit[1] if hit else i
            if then >= len(s.words) or s.longest(self.words["bounds"], then):
                return []  # "every two hours ..., until 8": the end is of the first
            mark = "?" * (s.asks and not s.holds(self.words["requests"]))
            if not hit and "?" not in s.raw and s.words[0] in self.words["verbs"] and s.end_of(asking, 0):
                return []  # "ist es dunkel, Licht an": a condition
            head, tail = f"{s.text(0, i)}{mark}", f"{s.text(then, len(s.words))}{mark}"
            last_word = len(s.words) - 1
            for ending in ("",) if timed or last_word in s.counts else ("", s.text(last_word, len(s.words))):
                first = self.match(f"{s.text(0, i)} {ending}{mark}", offered, last)
                asks = s.end_of(self.words["questions"], then) > 0
                if first is None or first.route not in (_READ_ROUTES if asks else WHOLE_ROUTES):
                    continue
                if not is_complete(first) or (ending and self._moves_with_text(first)):
                    continue  # "todo: turn off the heater": a thing of two ends
                if timed and first.intent != timed:
                    continue
                if i == 1 and not self.moves(first) and s.holds(self.words["ends"]):
                    continue  # "fan and lamp off": the first is not asked about
                is_done = first.tool in {"output", "memory_store", "memory_forget"} and self.moves(first)
                is_done |= first.tool in {"cron", "rule"} and first.arguments.get("action") in _STOPS
                is_told = not asks or (
                    not s.asks and s.end_of(self._book.values("aside_word"), then) > 0
                )  # "hay", "il y a"
                if is_done and is_told and not (ending or hit or timed) and self._gives_reason(tail, is_told=True):
                    return [(head, first)]  # "lamp on, it is dark in here"
                rest = self._continue(s, i, tail, first, offered, timed=bool(timed))
                if ending and first.score < 1.0 and rest and _is_other_time(first, rest[0][1]):
                    continue  # "further back, since monday"
                rest = rest if hit or all(is_complete(match) for _, match in rest) else []
                kinds = [self.intents[one.intent].kind if one else "" for one in (first, *(one for _, one in rest))]
                if "acts" in kinds and s.words[-1] in self.words["negates_last"]:
                    continue
                if ending and any(kinds) and not (rest and rest[0][1] and rest[0][1].intent == first.intent):
                    continue  # "fan and lamp are off", "fan and lamp not off"
                is_output = first.tool in {"output", "output_history"}  # "how warm is it, fan on" is two things
                is_search = first.tool == "memory_search"  # "when did I turn the light off and delete reminder 3"
                asks_first = self._asks_or_orders(s, i)
                tells = hit and (is_output or is_search or (s.holds(self.words["past"]) and not asks_first))
                is_open = (hit or is_output) and not kinds[0] and any(kinds)
                tells = tells or (first.score < 1.0 and not asks_first)  # "keep an eye on the tank and warn me ..."
                if is_open and (tells or not self._begins_order(s, then)):  # "are the fan and the lamp on"
                    same = self._continue_alike(s, i, tail, first, offered, 4)
                    same = same or (self.match(f"{tail}?", offered, last) if asks_first else None)
                    rest = [(tail, same)] if is_complete(same) and not self.moves(same) else []
                if self._is_half_said(first, s, then, rest):
                    rest = [(tail, None)]
                scores = [one.score for one in (first, *(one for _, one in rest)) if one]
                if not asks and any(EXACT_SCORE < score < 1.0 for score in scores):
                    continue  # a word was passed over in one of them
                reads = not (asks or self.moves(first) or self._asks_or_orders(s, i))
                bare = not hit or (i < MAX_BARE_WORDS and stem_word(s.words[then]) not in self._acts)
                sets = [one for _, one in rest if one and one.tool == "output" and one.arguments.get("action") == "set"]
                if reads and bare and sets:
                    continue  # "every other day, at 8, pump on", "luz y bomba on": words that were only nearly read
                if names := _find_half_days([first, *(match for _, match in rest)]):
                    say = fill_fields(self.say["which"], {"names": names})  # "on at 2 and off at 4"
                    return [(text, IntentMatch(first.intent, "", {}, say, 1.0, "unclear"))]
                found = [first, *(match for _, match in rest)]
                days_said = any("_only" in one.said for one in found if one)
                if days_said and last.call.name == "cron" and self.says_time(tail):  # "monday to friday, then at 5"
                    return [(text, _join_days(found) if len(found) == 2 else None)]
                moves = not timed and not last.call.name and any(map(self.moves, found))
                moves = moves and len({one.intent for one in found if one}) > 1
                moves = moves and found[-1] is not None and not found[-1].intent.startswith("rule_and_off")
                if moves and not hit and self._share_of_several(text) < MIN_SEVERAL:
                    return []  # "below 12 volts, turn the light off"
                if rest and not self._is_conditional(s, found):
                    return [(head, first), *rest]
        return []

    def _is_half_said(self, first: IntentMatch, s: Sentence, begin: int, rest: Sequence[Wish]) -> bool:
        """Whether what follows leaves open when or how long an order is meant: "the fan and the pump at 8 for a minute"."""
        match = rest[0][1] if rest else None
        if not match or not self.intents[first.intent].acts or s.end_of(self.words["questions"], begin):
            return False
        if match.tool == "output" and match.arguments == LOOK_UP:
            return not any(s.longest(self.words["questions"], i) for i in range(begin, len(s.words)))
        is_end = "off" in {match.arguments.get("action"), *str(match.arguments.get("message", "")).split('"')}
        tail = Sentence(s.text(begin, len(s.words)), self.words)  # "and in two hours off"
        ends_it = any(tail.holds(self._book.values(one)) for one in ("off_word", "off_verb"))
        is_end |= ends_it and "seconds" in match.arguments
        is_now = any(s.longest(self._book.values("now_word"), i) for i in range(begin))
        spans = ((i, count) for i in range(len(tail.words)) for _, count in self.times.repeated(tail.words[i:], ""))
        if match.tool == "rule" and first.tool == "output" and any(i + count == len(tail.words) for i, count in spans):
            return not is_now  # "... daily at 8" of both?
        if is_end or stem_word(s.words[begin]) in self._acts or not (_switches(first) and _switches(match)):
            return False
        is_day = str(first.arguments.get("at", "")).endswith(f" {NO_HOUR}") and "at" in match.arguments
        if is_day and not any(self.times.names_a_time(s.words[i:begin]) for i in range(begin)):
            return True  # "monday and friday from 6 to 9"
        level = str(match.arguments.get("level", ""))
        if first.arguments.get("level") == "on" and level.isdecimal() and int(level) <= 24 and "%" not in s.raw:
            return True  # or is it the hour?
        is_same, is_level = (first.arguments.get(one) == match.arguments.get(one) for one in ("name", "level"))
        if is_now:
            return is_same  # "now and then at 8" changes nothing of now
        is_longer = "seconds" in match.arguments and {"seconds"} == match.arguments.keys() - first.arguments.keys()
        return first.tool != match.tool or (is_longer and is_level)  # not "to 30 %, and the fan for 5 minutes"

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

    def _continue(
        self, s: Sentence, end: int, tail: str, first: IntentMatch, offered: Offered, *, timed: bool
    ) -> list[Wish]:
        """What follows a first wish, which may leave out the words that the first began with: "and the light"."""
        if not timed:
            call = ToolCall("", first.tool, first.arguments)
            referents = {
                name: [value] for name, value in first.arguments.items() if isinstance(value, str | int | float)
            }
            rest = self._match_as_said(tail, offered, LastTurn(referents, call))
            rest = [(said, None if match and _lacks_job(match) else match) for said, match in rest]
            reads = rest and rest[0][1] and not self.moves(rest[0][1])
            bare = reads and self.intents[first.intent].acts and len(tail.split()) <= MAX_BARE_WORDS
            if all(is_whole(match) for _, match in rest):
                same = self._continue_alike(s, end, tail, first, offered, 4) if bare else None
                devices = self._book.slot("device").before
                is_device = same is not None and str(same.arguments.get("name", "")).rpartition("_")[2] in devices
                return [(tail, same)] if is_device else rest  # "turn on the fan and the light": not how bright it is
            if self._moves_with_text(first) and any(self.moves(match) for _, match in rest):
                return [(tail, None)]  # "note that I fed the tomatoes and remind me again in a week"
        lead = self._core(s)[0][-1] if timed else 2  # "could you remind me at 6 ..."
        for begin in range(min(end, lead + 2), lead, -1) if timed else ():
            more = self._split(f"{s.text(0, begin)} {tail}", offered, NO_TURN, timed=first.intent)
            if more and all(is_complete(match) for _, match in more):
                return more  # "and at 9 of the post, and at 10 of the bank"
        same = self._continue_alike(s, end, tail, first, offered, lead + 2)
        is_in = Sentence(tail, self.words).longest(self.words["within"], 0)
        is_long = is_in or first.intent == "cron_timer"
        if same and (not timed or is_long or "at_seconds" not in same.arguments):  # "..., a minute with the pump"
            return [(tail, same)]
        moves = self.intents[first.intent].kind in {"acts", "adds"} or self._asks_twice(s.raw)
        return [(tail, None)] if moves and not timed else []

    def _continue_alike(
        self, s: Sentence, end: int, tail: str, first: IntentMatch, offered: Offered, most: int
    ) -> IntentMatch | None:
        """What a tail means behind the words that the first wish began with, where that is the same intent."""
        told = not self.words["reported"].keys().isdisjoint(Sentence(tail, self.words).words)  # "fan off, says my wife"
        is_apart = first.tool == "memory_search" and f"? {tail}" in s.raw and "?" not in tail
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
            is_more = match is not None and "_more" in match.said and len(named) == 1  # the first one again
            if not is_whole(match) or match.intent != first.intent or is_more:
                continue
            if "_span" in match.said and _PLANNED_LEVEL.search(str(first.arguments)):
                return None  # "the lamp at 7 to 40 and at 9 to 20"
            new = {name: value for name, value in match.arguments.items() if named or name != "name"}
            if not new.items() <= first.arguments.items():  # "..., it is hot" orders nothing
                return match
        return None


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
    """What is done at a time of day ('' is now) and some seconds after it; None for what itself ends at a time of day."""
    if match.missing == NEEDS_CLOCK:
        return None
    clock, seconds = moment
    order = {name: match.arguments[name] for name in _PLANNED if name in match.arguments}
    call = {"action": "add", "kind": "tool", "message": f"{match.tool} {json.dumps(order)}", "at_seconds": int(seconds)}
    later = match._replace(intent="output_later", tool="cron", arguments=call)
    return later._replace(said=match.said | {"_until": clock}, missing=NEEDS_CLOCK) if clock else later


def _is_other_time(first: IntentMatch, other: IntentMatch | None) -> bool:
    """Whether two questions are the same but for the time that they are about."""
    if other is None or first.tool != other.tool:
        return False
    return {name for name, value in first.arguments.items() if other.arguments.get(name) != value} == {"when"}


def _takes_in(told: Sequence[Wish], match: IntentMatch | None) -> bool:
    """Whether a later call does what an earlier one does, and more: "lamp to 60, off in two hours", "too dark, make it 50"."""
    given = match.arguments if match and match.tool == "output" else {}
    later = [one.arguments for _, one in told if one and one.tool == "output"]
    if match and match.intent == "output_step":
        return any(one.get("name") == given.get("name") for one in later)
    is_again = given.get("action") == "set" and "seconds" not in given  # "on low, about a third"
    is_again &= any(one.get("action") == "set" and one.get("name") == given.get("name") for one in later)
    return bool(given) and (is_again or any("seconds" in one and given.items() < one.items() for one in later))


def _join_days(matches: Sequence[IntentMatch | None]) -> IntentMatch | None:
    """One change of a job of two, of which one says its days and the other its hour; None where they do not."""
    days, hour = sorted(matches, key=lambda one: one is None or "_only" not in one.said)
    if days is None or hour is None or hour.intent != "cron_correct" or "_only" in hour.said:
        return None
    joined = join_days(days.arguments, hour.arguments)
    return days._replace(arguments=joined) if joined else None


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
    if len(times) < 2 or not clocks:
        return ""
    late = format_clock(count_minutes(clocks[0]) + 720)
    are_open = len(clocks) == len(times) and all("_later" in match.intent for match in plans)
    return f"{clocks[0]}, {late}" if are_open or late in times else ""


def _add_arguments(match: IntentMatch, more: Mapping[str, Any]) -> IntentMatch:
    """Return a match with more arguments; what begins with "_" says how the result is told, and is none."""
    told = {name: value for name, value in more.items() if name[0] == "_"}
    return match._replace(
        arguments={**match.arguments, **{name: value for name, value in more.items() if name not in told}},
        said={**match.said, **told},
    )
