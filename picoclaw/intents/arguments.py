"""The arguments of a call from what a sentence says.

A draft has the slots that a template, a frame or a question has read; the steps of a table make arguments of them: figures are
joined, times shifted, levels stepped, planned calls changed. A slot that is an argument as it stands needs no step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from picoclaw.intents.changes import (
    CLOCK_TIME,
    MOMENT,
    NEAR_MINUTES,
    add_to_rule,
    change_calendar,
    change_days,
    change_planned,
    change_rule,
    change_weekday,
    find_clock,
    find_current,
    find_moved_end,
    is_near_rule,
    is_of_left_days,
    is_of_some_days,
    keep_clock,
    keep_day,
    keep_half_day,
    keep_half_of_row,
    keep_hour,
    leave_out_time,
    move_end,
    read_amount,
    replace_words,
    shift_due,
    shift_time,
    step_order,
    step_time,
    write_cron,
)
from picoclaw.intents.grammar import Grammar, Intent, IntentMatch, fill_fields, is_complete, make_match
from picoclaw.intents.sentence import Sentence, SentenceSlot, SlotReader, SlotValues, pick_place, scale_value
from picoclaw.intents.times import (
    NO_HOUR,
    OCLOCK,
    WordTables,
    add_half_day,
    count_minutes,
    count_seconds_between,
    format_clock,
    format_whole_length,
    is_moment,
)
from picoclaw.text import pattern
from picoclaw.times import CRON_WEEKDAYS, EARLIEST_HOUR, WEEKDAYS, format_duration, parse_duration

_NUMBER_IN_NOTE = re.compile(r"\d+(?:[.,]\d+)?")
_HOUR_ALONE = pattern(rf"(\d\d):(\d\d)({re.escape(OCLOCK)})?")
_DAYS_OF_PLAN = pattern(r"\d+ (\d+) (\* \* \S+)")
READS = frozenset({"sensor_read", "sensor_history", "sensor_excursions"})
SERIES = ("sensor", "quantity")
MAX_CONTINUED_WORDS = 7
_NAMED, _NAMES = READS | {"output", "output_history"}, frozenset({"sensor", "name"})
_MAX_ITEMS = 12  # of a list, in one sentence
_BARE_CLOCK = pattern(r"[1-9][:.]\d\d|1[0-2][:.]\d\d")
_NEAR_HOUR = 60  # minutes from the hour before, where a bare number is another hour
_MIN_HOURS = 4  # of a number of hours that is more likely the hour of a rule
_SECONDS = pattern(r'"seconds": ([\d.]+)')


def list_value_words(value: Any) -> list[str]:
    """What a tool's list would have of a value: a quantity, the time of day, the first letters of a day of the week."""
    if isinstance(value, str):
        return [value]
    told = " ".join(map(str, value.values()))
    fields = str(value.get("cron_expr", "")).split()
    if len(fields) > 1 and fields[0].isdecimal() and fields[1].isdecimal():
        return [f"{int(fields[1]):02}:{int(fields[0]):02}"]
    clocks = [] if told.endswith(NO_HOUR) else [found[0] for found in CLOCK_TIME.finditer(told)]
    return clocks + [word[:3] for word in told.split() if word.isalpha()]


def word_value(slot: SentenceSlot, value: Any) -> str:
    """A value in words of any language; '' where only the sentence has them."""
    if slot.kind == "output":
        return str(value).replace("_", " ")
    if slot.kind == "term":  # "surpassed" is above
        return next((phrase for phrase, one in slot.values.items() if one == value), "")
    if slot.kind == "percent":
        return f"{value}%" if str(value).isdecimal() else ""
    if slot.kind != "seconds":
        return ""
    size, unit = next((one for one in ((3600, "h"), (60, "min")) if value % one[0] == 0), (1, "s"))
    return f"{value / size:g} {unit}"


def find_bare_amount(s: Sentence, found: SlotValues, words: WordTables) -> int:
    """The number of "make it 20", which after "in 10 minutes" is no time of day; 0 where none stands alone."""
    if "_job_amount" in found:
        return int(found["_job_amount"])
    said = s.words[s.end_of(words["declines"], 0) :]  # the "ne" of German counts nothing
    numbers = [word for word in said if word.isdecimal() or isinstance(words["numbers"].get(word), int)]
    clock = (word for name in ("at", "parts", "days", "oclock", "units", "hours", "offsets") for word in words[name])
    if len(numbers) != 1 or not set(clock).isdisjoint(s.words):
        return 0
    return int(numbers[0]) if numbers[0].isdecimal() else int(words["numbers"][numbers[0]])


def find_planned_seconds(last: Mapping[str, Any]) -> float:
    """How long the last plan or rule switches something on; 0 for another one."""
    planned, lasts = _SECONDS.search(str(last.get("message", ""))), dict(last.get("options") or {}).get("lasts")
    return float(planned[1]) if planned else parse_duration(str(lasts)) if lasts else 0.0


# From slots to arguments: each step is a function, by the slots or the intents that need it.


class Draft:
    """What a sentence gives an intent, on its way to a call; the steps change what was found, in their order."""

    def __init__(self, book: Grammar, reader: SlotReader, intent: Intent, s: Sentence, found: SlotValues) -> None:
        self.book, self.reader, self.intent, self.s = book, reader, intent, s
        self.given, self.last = frozenset(found), s.last.arguments
        self.kept = self._list_kept(found)
        kept = {name: {name: value} if isinstance(value, dict) else value for name, value in self.kept.items()}
        self.found: SlotValues = kept | found

    def _list_kept(self, found: SlotValues) -> SlotValues:
        """What holds on of the last call, as the intent has it in `keeps`; not what a part of a slot says otherwise."""
        kept, s = SlotValues(), self.s
        given = dict(found)
        for part in found.values():
            given |= part if isinstance(part, dict) else {}
        is_other = "sensor" in given or given.get("quantity", "") not in {"", s.read_last("quantity")}
        for entry in self.intent.keeps.split():
            pronoun, _, keep = entry.rpartition(".")
            name = keep.lstrip("=")
            is_unnamed = name == "quantity" or _NAMES.isdisjoint(found)  # "si dentro pasa del 85"
            said = pronoun in s.words or (pronoun == "-" and s.last.name in _NAMED and is_unnamed)
            is_given = is_other and (name == "series" or (name in given and name not in found))
            if (pronoun and not said) or is_given:
                continue
            if value := s.read_last(name):
                kept[name] = value
            elif name in self.last:
                kept[name] = self.last[name]
            elif name in s.referents and name == keep:
                named = s.referents[name]
                kept[name] = named[0] if len(named) == 1 else list(named)
        return kept

    def make(self) -> IntentMatch:
        """The call, or what is said instead of it."""
        for names, step in STEPS:
            is_needed = not names or not (names.isdisjoint(self.found) and names.isdisjoint(self.intent.steps))
            if is_needed and (instead := step(self)):
                return instead
        match = make_match(self.intent, self.found, 1.0, "template")
        is_told = self.intent.tool or not self.intent.after or "{result}" not in self.intent.answer
        return match if is_told else match._replace(tool=self.s.last.name)

    def hand_over(self, intent: str, found: SlotValues) -> IntentMatch:
        """What another intent makes of the same sentence."""
        return Draft(self.book, self.reader, self.book.intents[intent], self.s, found).make()

    def holds(self, *slots: str) -> bool:
        return any(self.s.holds(self.book.values(name)) for name in slots)

    @property
    def end(self) -> str:
        """Which end of a time from one hour to another is said: the "start" or the "stop"; '' for none."""
        return "stop" if self.s.holds(self.book.words["until"]) else "start" if self.holds("from_word") else ""

    @property
    def adds_more(self) -> bool:
        """Whether a time or a day is one more, and takes the place of none: "and on sundays", "at 8 too"."""
        begins = self.s.longest(self.book.words["splits"], 0) is not None
        moves = self.holds("switch", "move_verb", "better_word", "from_word", "instead")
        replaces = self.holds("is_wrong", "enough_word")  # "too early, 5:10"
        is_more = self.holds("too_word", "add_word", "same_again") and not replaces
        return (begins and not moves) or is_more

    def ask_which(self, *names: str) -> IntentMatch:
        return self.unknown._replace(
            answer=fill_fields(self.book.say["which"], {"names": ", ".join(names)}), route="unclear"
        )

    @property
    def unknown(self) -> IntentMatch:
        return IntentMatch(self.intent.name, "", {}, self.book.say["what"], 1.0, "unknown")

    @property
    def passed(self) -> float:
        """Seconds since what was said last was said."""
        return float(sum(self.s.referents.get("_passed", ())))

    @property
    def result(self) -> str:
        """What the last call has told."""
        return "".join(self.s.referents.get("_result", ()))


def _count_times(draft: Draft) -> None:
    if draft.holds("how_often", "how_long_word", "when_word"):  # "when was it above 25?"
        draft.intent = draft.book.intents["history_excursions"]._replace(defaults=draft.intent.defaults)
        draft.found["_last"] = (draft.holds("when_word") and draft.holds("last_time")) or ""


def _choose_quantity(draft: Draft) -> None:
    """What is usual of a place, instead of the intent's own; all that it measures where both figures of it are told."""
    defaults, found = draft.intent.defaults, draft.found
    if found["sensor"] and ("both_figures" in draft.intent.steps or found.get("_figure") == ""):
        draft.intent = draft.intent._replace(defaults={**defaults, "quantity": ""})
    elif "quantity" in defaults and not any("quantity" in one for one in (found, found.get("limit", ""))):
        usual = draft.book.words["usual"].get(str(found["sensor"]), "")
        draft.found |= {"quantity": usual} if usual else {}


def _join_figures(draft: Draft) -> None:
    """Several figures of one series are told by one answer."""
    calls = draft.found.get("")
    if isinstance(calls, dict) and all(one.keys() == {"_figure"} for one in calls.get("_more", ())):
        del draft.found[""], draft.found["_figure"]


def _join_end(draft: Draft) -> None:
    """An end beside a beginning tells how long: "at 6 ... until 9"."""
    whens = [draft.found.get(name) for name in ("when", "until")]
    clocks = [CLOCK_TIME.search(str(when.get("at", ""))) if isinstance(when, dict) else None for when in whens]
    if clocks[0] and clocks[1]:
        del draft.found["until"]
        draft.found["seconds"] = count_seconds_between(clocks[0][0], clocks[1][0])


def _shift(draft: Draft) -> IntentMatch | None:
    """ "Ten minutes later": the time of the last job, or the moment that its answer named."""
    seconds = float(draft.found.pop("_shift")) * int(draft.found.pop("_way", "1"))
    seconds -= draft.passed if "at_seconds" in draft.last else 0
    last = {} if draft.last.get("action") == "snooze" else draft.last  # which tells how much later, and not when
    draft.found["when"] = shift_time(last, seconds) or shift_due(draft.result, seconds)
    is_more = draft.s.longest(draft.book.words["splits"], 0) is not None or draft.holds("too_word", "again_word")
    if draft.found["when"] and "at_seconds" not in draft.last and is_more:  # "and an hour before, too"
        return draft.hand_over("cron_again", {"when": draft.found["when"]})
    return None if draft.found["when"] else draft.unknown


def _add(draft: Draft) -> IntentMatch | None:
    """ "Five minutes more", or less, of what has been on for some time."""
    more, before = float(draft.found.pop("_add")), float(draft.found.get("seconds", 0))
    draft.found["seconds"] = int(before + more * int(draft.found.pop("_way", "1")) - draft.passed)
    is_clear = before or draft.holds("hold_verb")  # "leave it on for another hour", of what is on without an end
    return None if is_clear and draft.found["seconds"] > 0 else draft.unknown


def _read_amount(draft: Draft) -> IntentMatch | None:
    """A bare number; of what has a level and an end it may be both, unless "to" says that it is the level."""
    amount = int(draft.found.pop("_amount"))
    given = read_amount(amount, draft.last)
    if "seconds" in given and draft.s.read_last("_until") and given["level"] == "on":  # "until 10 pm"
        end = f"{amount:02}:00" if amount <= 24 else format_duration(given["seconds"])
        return draft.ask_which(f"{amount} %", end)
    if "seconds" in given and str(given["level"]).isdecimal():
        is_level = any(word in draft.book.slot("level").after for word in draft.s.words[:-1])
        return draft.hand_over("output_level", {"level": str(amount)}) if is_level else draft.unknown
    draft.found |= given
    return None


def _read_job_amount(draft: Draft) -> IntentMatch | None:
    """ "Make it 20", which after "in 10 minutes" is no time of day."""
    if not (amount := find_bare_amount(draft.s, draft.found, draft.book.words)):
        return None
    length = read_amount(amount, {"seconds": draft.last.get("at_seconds")}).get("seconds")
    is_told = draft.s.read_last("_span") or draft.s.holds(draft.book.words["within"])
    lasts = read_amount(amount, {"seconds": 0 if is_told else find_planned_seconds(draft.last)}).get("seconds")
    if length and lasts and (due := CLOCK_TIME.search(draft.result)):  # of "in an hour for 2 minutes"
        later = length - float(draft.last["at_seconds"])
        return draft.ask_which(format_duration(lasts), format_clock(count_minutes(due[0]) + int(later // 60)))
    if "_job_amount" in draft.found and not length:  # "make it 50" of what is planned is no time
        if amount <= 24:
            return draft.unknown
        if lasts and '"on"' not in str(draft.last["message"]):
            return draft.ask_which(format_duration(lasts), f"{amount} %")
        given = {"_length": lasts} if lasts else {"_planned_level": str(amount)}
        return draft.hand_over("output_later_length" if lasts else "output_later_level", given)
    draft.found |= {"when": {"at_seconds": length}} if length else {}
    draft.found.pop("_job_amount", None)
    return None


def _end_wrong_one(draft: Draft) -> None:
    if draft.last.get("name") != draft.found.get("name"):
        draft.found.setdefault("_wrong", draft.last.get("name", ""))


def _choose_minutes(draft: Draft) -> IntentMatch | None:
    """A number for what is on for some time is minutes again, and no level."""
    is_it = "name" not in draft.given or draft.s.holds(draft.book.words["it"])
    is_amount = draft.last.get("level") == "on" and isinstance(draft.found["level"], int)
    if is_it and is_amount and draft.last.get("seconds"):
        return draft.hand_over("output_amount", {"_amount": draft.found["level"]})
    return None


def _keep_level(draft: Draft) -> None:
    """ "Leave it on": as it is."""
    levels = draft.s.referents.get("level", ()) if draft.s.last.name == "output_history" else ()
    if levels or "level" in draft.last:
        draft.found["level"] = draft.last.get("level", *levels)


def _plan_off(draft: Draft) -> IntentMatch | None:
    """ "Off in ten minutes" of what is on in a way that is not known."""
    if "level" in draft.found or not draft.found.get("name") or "seconds" not in draft.found:
        return None
    later = {"name": draft.found["name"], "at_seconds": draft.found["seconds"]}
    return draft.hand_over("output_it_off_later", later)


def _remind_after(draft: Draft) -> IntentMatch | None:
    """ "Remind me afterwards": when what was switched on for some time ends."""
    left = int(float(draft.last.get("seconds") or 0) - draft.passed)
    draft.found["when"] = {"at_seconds": left}
    return None if left > 0 else draft.unknown._replace(answer=word_exact(draft.book, "cron_after"))


def _keep_series(draft: Draft) -> None:
    if draft.s.last.name in READS and len(draft.s.words) <= MAX_CONTINUED_WORDS:
        draft.found = {name: draft.last[name] for name in SERIES if name in draft.last} | draft.found


def _compare_now(draft: Draft) -> None:
    """ "Warmer than an hour ago?" is about now, "more light than last week?" about this week."""
    is_today, then = draft.found.get("when", "today") == "today", str(draft.found.get("compare", ""))
    if "when" not in draft.given and not draft.holds("now_word") and (whole := find_current(then)):
        draft.found["when"] = whole
    elif is_today and (is_moment(then) or then[:5] == "this " or draft.holds("now_word")):  # "than this morning"
        draft.found["when"] = "last 20 minutes"


def _keep_hour(draft: Draft) -> None:
    if isinstance(draft.found["when"], str):
        draft.found["when"] = keep_hour(draft.found["when"], str(draft.last.get("when", "")))


def _step_back(draft: Draft) -> IntentMatch | None:
    """ "And the day before?", "and the three before?": of "today" these are none."""
    when, step = str(draft.last.get("when", "")), str(draft.found.pop("_earlier"))
    counts = {n for word in draft.s.words if isinstance(n := draft.book.words["numbers"].get(word, 0), int) and n > 1}
    if step == "same" and counts and not any(when.startswith(f"last {n} ") for n in counts):
        return draft.unknown
    draft.found["when"] = step_time(when, step) or "yesterday"
    return None


def _find_named(draft: Draft) -> None:
    draft.found |= find_named(draft.book, draft.intent, draft.s, draft.found)


def _find_sense(draft: Draft) -> None:
    draft.found |= find_sense(draft.book, draft.s)


def find_sense(book: Grammar, s: Sentence) -> SlotValues:
    """Whether a question to be answered by yes or no asks for "more" or "less"; nothing where it is none."""

    def holds(*names: str) -> bool:
        return any(s.holds(book.values(name)) for name in names)

    asks_what = any(s.end_of(book.values("what_word"), i) for i in range(2))  # not the "que" of "más frío que dentro"
    if asks_what or holds("or_word", "how_much", "compare_word"):
        return {}
    senses = {"less": ("less_word",), "more": ("more", "higher_word")}
    return next(({"_sense": sense} for sense, names in senses.items() if holds(*names)), {})


def _read_of_it(draft: Draft) -> None:
    """ "Was it ever above 26?", "is it warm?": what the last reading, or the last rule, was of."""
    if draft.s.last.name not in READS | {"rule"} or "it" not in draft.s.words or "sensor" in draft.found:
        return
    limits = "it_limit" in draft.intent.steps
    last = {one: draft.last.get(one) or draft.s.read_last(one) for one in SERIES}
    is_same = draft.found.get("quantity", "") in {"", last["quantity"]}
    if "quantity" not in draft.given if limits else is_same:
        names = SERIES if limits else SERIES[:1]
        draft.found |= {name: last[name] for name in names if last[name]}


def _change_days(draft: Draft) -> IntentMatch | None:
    """ "Only on weekdays", "not on sundays": at the time of the last job, where it had no days."""
    clock = find_clock(draft.last, draft.result)
    only, adds = str(draft.found.get("_only", "")), draft.intent.name in {"cron_days", "cron_again"}
    is_more = draft.adds_more and adds
    if is_more and "cron_expr" not in draft.last and only.replace(",", "").isdecimal():
        again = "cron_skip" if draft.last.get("action") == "skip" else "cron_again"
        named = [{"when": {"at": WEEKDAYS[int(day) - 1]}} for day in only.split(",")]
        first, *more = (draft.hand_over(again, day) for day in named)  # "sunday too", of one that comes on saturday
        return first._replace(said={**first.said, "_more": [one.arguments for one in more]}) if more else first
    if clock is not None and "cron_expr" not in draft.last and "_only" in draft.found:
        clock += 720 * (clock < 720 and draft.holds("evening_word"))
        draft.found["cron_expr"] = write_cron(clock, "* * *")
    told = [str(draft.found.get(name, "")) for name in ("cron_expr", "_except", "_only")]
    days = change_days(*told, is_more=draft.intent.name == "cron_days" and is_more and "cron_expr" in draft.last)
    if not days and draft.found.get("_except") and draft.found.get("cron_expr"):
        return draft.unknown  # "not on wednesday" of every wednesday is one time
    draft.found |= {"cron_expr": days} if days else {}
    return None


def _leave_out_time(draft: Draft) -> IntentMatch | None:
    """ "Not at 19": one of several times of day."""
    left = leave_out_time(draft.last, str(draft.found.pop("_left").get("at", "")))
    draft.found |= left
    return None if left else draft.unknown._replace(answer=draft.book.say["stays_set"], route="unclear")


def _plan_other_way(draft: Draft) -> IntentMatch | None:
    """ "On at 6" of what is to go off is one plan more; "off at 9" of what is to go off at 10 is another time of it."""
    is_alike = ('"off"' in str(draft.last.get("message"))) == (draft.intent.name == "output_it_off_later")
    if draft.s.last.name != "cron" or not is_alike or draft.adds_more:
        return None
    return draft.hand_over("cron_correct", {"when": draft.found["when"]})


def _move(draft: Draft) -> IntentMatch | None:
    """Another time of a job, in the half of the day that it had; another length where it switches something on for one."""
    is_shift = "_shift" in draft.given
    is_timed = not is_shift and '"seconds"' in str(draft.last.get("message", ""))
    is_within = draft.s.holds(draft.book.words["within"])
    if is_timed and not is_within and (length := _find_length(draft)):  # "make it 2 hours"
        return draft.hand_over("output_later_length", {"_length": length})
    near = (draft.s.words[i:] for i in range(len(draft.s.words)))
    names_hour = any(draft.reader.times.names_a_time(one, halves=True) for one in near)
    when, is_named = draft.found.get("when"), "_called" in draft.found
    is_twice = draft.holds("same_again") or (draft.holds("switch") and draft.holds("too_word") and not names_hour)
    is_more = draft.adds_more and (draft.intent.name == "cron_correct" or (is_twice and not is_named))
    is_later = draft.adds_more and is_within and draft.holds("too_word")  # "and in four weeks too"
    if is_later or (is_more and not is_shift and (names_hour or "at" in (when or ()))):
        return draft.hand_over("cron_again", {"when": when})  # "and at 2 on sundays"
    if not isinstance(when, dict):
        return None
    if moved := _move_end(draft, when, is_timed=is_timed):
        return moved
    is_of_both = "at_seconds" in when and "at_seconds" in draft.last and bool(draft.s.referents.get("name"))
    if is_of_both and not find_bare_amount(draft.s, draft.found, draft.book.words):
        return draft.unknown  # "a quarter of an hour will do", of an output and a reminder
    is_replaced = draft.holds("switch", "move_verb", "instead", "correction", "better_word", "from_word")
    if draft.intent.after and not is_replaced and is_of_some_days(when, draft.last):  # "at nine on sundays"
        return draft.unknown._replace(answer=draft.book.say["stays_set"])
    if draft.intent.after and not is_replaced and is_of_left_days(when, draft.last):
        return draft.hand_over("cron_again", {"when": when})
    is_last = bool(draft.intent.after) or (draft.s.holds(draft.book.words["it"]) and not is_named)
    if when.keys() == {"at_seconds"} and not is_shift and not is_within:
        return _move_by(draft, when["at_seconds"], is_last=is_last)
    return _move_last(draft, when, is_told=names_hour or is_shift, is_other=is_replaced) if is_last else None


def _skip_or_move(draft: Draft) -> IntentMatch | None:
    """ "Not until Saturday" moves what comes once, and leaves out times of what repeats."""
    is_until = draft.end == "stop" or draft.s.holds(draft.book.words["before"])
    if is_until and not str(draft.found.get("at", "until ")).startswith("until "):
        draft.found["at"] = f"until {draft.found['at']}"  # "no, not until Monday"
    then = str(draft.found.get("at", "")).removeprefix("until ")
    comes_once = "cron_expr" not in draft.last and not {"at", "at_seconds"}.isdisjoint(draft.last)
    if draft.intent.tool != "cron" or not comes_once or then in {"", draft.found.get("at")}:
        return None
    draft.intent = draft.book.intents["cron_correct"]
    draft.found = {"job": draft.found["job"], "when": {"at": then}}
    return _move_last(draft, draft.found["when"], is_told=CLOCK_TIME.search(then) is not None, is_other=True)


def _move_end(draft: Draft, when: Mapping[str, Any], *, is_timed: bool) -> IntentMatch | None:
    """Another beginning or end of a plan that switches something on for some time: "until 9", "make it 9:30" of "from 6 to 9"."""
    clock, end = CLOCK_TIME.search(str(draft.last.get("at", ""))), draft.end
    lasts = find_planned_seconds(draft.last)
    is_span = is_timed and not end and clock is not None and draft.s.read_last("_span") != ""
    if clock and is_span and (moved_end := find_moved_end(clock[0], lasts, str(when.get("at", "")))):
        end, when = "stop", {"at": moved_end}
    ends = end == "stop" and not draft.holds("snooze_word", "move_verb")  # "snooze it till 8"
    if "seconds" not in when and not ends and not (end and is_timed):
        return None
    if not clock or '"set"' not in str(draft.last.get("message", "")):
        return draft.unknown
    before = find_clock(draft.last, draft.result)
    at, seconds = move_end(clock[0] if before is None else format_clock(before), lasts, when, end)
    moved = {"at": str(draft.last["at"]).removesuffix(OCLOCK).replace(clock[0], at)}
    return draft.hand_over("output_later_length", {"_length": seconds, "when": moved})


def _move_last(draft: Draft, when: Mapping[str, Any], *, is_told: bool, is_other: bool) -> IntentMatch | None:
    """Another time of the last job: in the half of the day, or at the hour that it had, where only a part of it is said."""
    s, words = draft.s, draft.book.words
    parts = words["parts"]
    says_oclock = s.holds(words["oclock"]) and not draft.holds("too_word")  # "à la même heure aussi"
    if not is_told and not says_oclock and not find_bare_amount(s, draft.found, words):
        is_half = any(parts.get(word, ("",))[0] == word for word in s.words)  # "pm, I meant"
        when = keep_clock(when, draft.last, draft.result, is_half=is_half)
    is_part = not parts.keys().isdisjoint(s.words)
    is_bare = not is_part and any(map(_BARE_CLOCK.fullmatch, s.words))
    is_late = (find_clock(draft.last, draft.result) or 0) >= 720
    when = keep_half_day(when, draft.last, draft.result, is_bare=is_bare, is_other=is_other or is_late)
    if (names := _name_length_or_hour(draft, when)) and not s.read_last("_span"):
        return draft.ask_which(names)
    late = when.get("cron_expr", "").split(" ")[1:2]
    if not is_part and not any(word[:2] in late for word in s.words):
        when = keep_half_of_row(when, draft.last, draft.result)
    draft.found["when"] = change_weekday(when, draft.last)
    return None


def _name_length_or_hour(draft: Draft, when: Mapping[str, Any]) -> str:
    """What "make it 5" may be, of "at 8 for 2 minutes"; '' where it is near the hour before (of a rule, or far: see change_rule), or no bare number."""
    is_rule = "when" in draft.last
    told, most = ({"at": draft.last["when"]}, NEAR_MINUTES) if is_rule else (draft.last, 720)
    lasts, before = find_planned_seconds(draft.last), find_clock(told, draft.result)
    amount, clock = find_bare_amount(draft.s, draft.found, draft.book.words), find_clock(when, str(when.get("at", "")))
    if not lasts or not amount or clock is None or before is None:
        return ""
    apart = (clock - before) % 720
    length = read_amount(amount, {"seconds": lasts})["seconds"]
    is_near = lasts >= 3600 and abs(length - lasts) <= 3600  # "make it 5", of 4.5 hours from 17:30
    is_far = _NEAR_HOUR < min(apart, 720 - apart) <= most
    return f"{format_duration(length)}, {amount}:00" if is_near or is_far else ""


def _move_by(draft: Draft, seconds: float, *, is_last: bool) -> IntentMatch | None:
    """ "Bring it forward 20 minutes": so much earlier or later, where it has a time of day; else so long from now."""
    way, moves = next(iter(draft.s.list_values(draft.book.values("shift_way"))), ""), draft.holds("move_verb")
    if moves and "_called" in draft.found:
        later = {"_called": draft.found["_called"], "at_seconds": seconds}
        unclear = draft.unknown._replace(answer=word_exact(draft.book, "cron_move"))
        return unclear if way == "-1" else draft.hand_over("cron_snooze", later)
    if is_last and (way or (moves and "at_seconds" not in draft.last)):
        draft.found |= {"_shift": seconds, "_way": way or "1"}
        return _shift(draft)
    return None


def _keep_day(draft: Draft) -> IntentMatch | None:
    """A further reminder comes on the day of the last one, or so long after that: "and an hour later to go to bed"."""
    if not isinstance(when := draft.found.get("when"), dict):
        return None
    later, message = draft.book.values("later_word"), str(draft.found.get("message", ""))
    head = draft.s.raw.partition(message)[0] if message else draft.s.raw
    ends = [i for i, start in enumerate(draft.s.starts) if start < len(head) and draft.s.longest(later, i)]
    if "at_seconds" in when and ends:
        when = shift_time(draft.last, when["at_seconds"]) or shift_due(draft.result, when["at_seconds"])
        draft.found["when"] = when
        return None if when else draft.unknown
    draft.found["when"] = keep_day(when, draft.last)
    return None


def _find_length(draft: Draft) -> float:
    """The length of time that is all a sentence says of when; 0 where it names a time of day."""
    s, slot = draft.s, draft.book.slot("for_length")
    if s.holds(draft.book.words["at"]):
        return 0.0
    readings = (value for i in range(len(s.words)) for value, _ in draft.reader.read(slot, s, i))
    return float(next(readings, 0.0))


def _retime_rule(draft: Draft) -> IntentMatch | None:
    """Other times, days, or another length of the last rule by the clock."""
    rule, when, words = draft.found.get("rule", ""), draft.found.get("when"), draft.book.words
    amount = find_bare_amount(draft.s, draft.found, words)
    if isinstance(when, dict) and "at" not in when and (length := _find_length(draft)):
        clock = format_clock(int(length // 60)) if _MIN_HOURS * 3600 <= length < 86_400 else ""
        is_hour = any(word in words["oclock"] and word in words["units"] for word in draft.s.words)
        if is_hour and clock and is_near_rule(draft.last, clock):
            draft.found = {"when": {"at": f"{clock}{OCLOCK}"}}  # "neuf heures et demie" behind "de sept à neuf heures"
        else:
            draft.found = {"lasts": format_whole_length(length)}  # "make it an hour and a half"
    end = draft.end or ("span" if draft.s.read_last("_span") and not draft.adds_more else "")
    is_of_days = not {"_only", "_except"}.isdisjoint(draft.found)
    if is_of_days and not str(draft.last.get("when", "every ")).startswith("every "):
        return draft.hand_over("rule_hours", {})  # "but only on weekdays" of a limit
    if not end and isinstance(when, dict) and (names := _name_length_or_hour(draft, when)):
        return draft.ask_which(names)
    retimed = change_rule(draft.found, draft.last, end, is_more=draft.adds_more, amount=amount)
    draft.found = {**retimed, "rule": rule}
    return None if retimed else draft.unknown


def _end_rule(draft: Draft) -> IntentMatch | None:
    """ "... and off at 9", behind a rule by the clock: on the same days, at the next such hour."""
    calendar, at = str(draft.last.get("when", "")), str(draft.found["when"]["at"])
    begin, end = CLOCK_TIME.search(calendar), CLOCK_TIME.search(at)
    clock = end[0] if end else ""
    if begin and clock < begin[0] and at.endswith(OCLOCK):
        clock = add_half_day(clock)
    draft.found["when"] = change_calendar(calendar, clock) if end and at.removesuffix(OCLOCK) == end[0] else ""
    return None if draft.found["when"] else draft.unknown


def _replace_words(draft: Draft) -> IntentMatch | None:
    note, *wrong = str(draft.found.get("old_note", "")), str(draft.found.get("_wrong_words", ""))
    right, number = str(draft.found.get("_right_words", "")), draft.found.pop("_right_number", None)
    if isinstance(number, dict):  # "sorry, it was 24": the only number there is
        wrong = _NUMBER_IN_NOTE.findall(note)
        right = (_NUMBER_IN_NOTE.findall(draft.s.raw) or [str(number["_right_number"])])[-1]
    draft.found["new_note"] = replace_words(note, wrong[0], right) if len(wrong) == 1 else ""
    return None if draft.found["new_note"] else draft.unknown


def _put_on_list(draft: Draft) -> IntentMatch | None:
    """ "And the eggs", behind a list, is one more thing on it; "and the eggs?" asks whether they are there."""
    intent = "list_again" if draft.s.asks else "list_more"
    item = draft.found.get("query") or draft.found["text"]
    return draft.hand_over(intent, {"_item": item}) if draft.s.read_last("list") else None


def _plan_again(draft: Draft) -> IntentMatch | None:
    """Set the last job once more on another day, at the time of day that the last answer named."""
    when, clock = draft.found.get("when"), CLOCK_TIME.search(draft.result)
    if not isinstance(when, dict):
        return None
    is_within = draft.s.holds(draft.book.words["within"]) and draft.holds("too_word")
    is_again = (draft.holds("again_word") or is_within) and draft.s.longest(draft.book.words["splits"], 0)
    if when.keys() == {"at_seconds"} and not is_again:
        return draft.unknown  # "2 minutes more" is no second one, "and again in 2 hours" is
    if when.get("at") in WEEKDAYS and "cron_expr" in draft.last:  # "also on sunday"
        return draft.hand_over("cron_days", {"_only": str(CRON_WEEKDAYS.index(when["at"]))})
    hour = _HOUR_ALONE.fullmatch(str(when.get("at", "")))
    if hour and (days := _DAYS_OF_PLAN.fullmatch(str(draft.last.get("cron_expr", "")))):  # "and at 20:00 too"
        late = 12 if hour[3] and (int(hour[1]) < EARLIEST_HOUR or int(hour[1]) == int(days[1])) else 0
        when = {"cron_expr": f"{int(hour[2])} {(int(hour[1]) + late) % 24} {days[2]}"}
    if clock and not CLOCK_TIME.search(str(when.get("at", "00:00"))):
        when = when | {"at": f"{when['at']} {clock[0]}"}
    if "cron_expr" not in draft.last and (due := MOMENT.search(draft.result)):
        when = keep_day(when, {"at": due[0]}, is_bare=True)  # of another day than today
    dropped = {"cron_expr", "job"}
    draft.found = {name: value for name, value in draft.found.items() if name not in dropped} | {"when": when}
    return None if CLOCK_TIME.search(str(when.get("at", "00:00"))) else draft.unknown  # a day alone is no time


def _change_planned(draft: Draft) -> IntentMatch | None:
    for name, slot in (("seconds", "_length"), ("name", "_planned"), ("level", "_planned_level")):
        if changed := draft.found.get(slot):
            draft.found["message"] = change_planned(str(draft.found.get("message", "")), name, changed)
            if not draft.found["message"]:
                return draft.unknown
    return None


def _change_limit(draft: Draft) -> IntentMatch | None:
    """The limit of the last rule, in the unit that it had; a rule by the clock has none."""
    limit, former = draft.found["limit"], str(dict(draft.found.pop("_former", None) or {}).get("_former", ""))
    is_other = former not in {"", draft.s.read_last("limit")}  # "30 is too high, make it 28" of two rules
    if draft.intent.after == "rule" and (is_other or str(draft.last.get("when", "")).startswith("every ")):
        return draft.unknown
    if draft.intent.after == "rule" and isinstance(limit, dict):
        measured = {str(one).split()[0] for one in draft.book.words["measures"].values()}
        quantity = draft.s.read_last("quantity")
        if quantity in measured and limit.get("quantity", quantity) != quantity:
            return draft.unknown  # "make it 60 %" of a rule by temperature: the level of the fan
        scale = "" if "_scale" in limit else draft.s.read_last("_scale")
        limit = {name: one for name, one in limit.items() if name != "quantity"}
        draft.found["limit"] = limit | ({"limit": scale_value(limit["limit"], scale)} if scale else {})
    return None


def _set_level(draft: Draft) -> IntentMatch | None:
    """A level, or so much more or less than before: "brighter by 20 percent", "a bit darker"."""
    found, last = draft.found, draft.last
    if draft.intent.name == "output_step" and found.get("name") != last.get("name"):
        return draft.unknown  # "dim the lamp", behind the fan
    level = found["level"] = str(found["level"]) if isinstance(found["level"], int) else found["level"]
    is_said = "level" in draft.given
    if is_said and draft.intent.tool == "output" and (way := find_way(draft.book, draft.s, found)):
        before = last.get("level") if last.get("name") == found.get("name") else None
        if before is None or not str(level).isdecimal():
            return draft.unknown._replace(answer=word_exact(draft.book, "output_level"))
        found["level"] = step_order(str(before), _word_step(draft, way), {})["level"]
    if is_said:
        found.pop("_step", None)  # "a bit brighter, say 65"
    lowers = is_said and draft.holds("lower_verb")
    if step := str(found.get("_step", "")):
        step = step.replace("+", "-") if step[0] == "+" and draft.s.read_last("_lowers") else step
        step = step.replace("25", "10") if draft.holds("bit_word") else step  # "a bit brighter"
        if found["level"] == "on" and step[0] == "+":
            del found["level"]  # "a bit more" of a pump: of what cannot be told
            return None
        found |= step_order(str(found["level"]), step, last)
        lowers = step[0] == "-" and "." not in step  # "less" goes no way of its own, which "more" would go on
    found |= {"_lowers": "yes"} if lowers else {}  # "dim it to 30 %" - "a bit more"
    return None


def _step_by(draft: Draft) -> IntentMatch | None:
    """So many percent less than before, of a level that was said."""
    before, step = str(draft.last.get("level")), str(draft.found.pop("_step", ""))
    way = -1 if step[:1] == "-" or (not step and draft.s.read_last("_lowers")) else 1
    is_known = before.isdecimal() or (before == "on" and way < 0 and not draft.last.get("seconds"))
    if not is_known or draft.found.get("name") != draft.last.get("name"):
        return draft.unknown._replace(answer=word_exact(draft.book, "output_level"))
    draft.found |= step_order(before, _word_step(draft, way), {}) | ({"_lowers": "yes"} if way < 0 else {})
    return None


def _word_step(draft: Draft, way: int) -> str:
    """A step up or down by a number that is said, or by a share of what it is: "by half"."""
    size = int(draft.found["level"])
    numbers = draft.book.words["numbers"]
    is_share = all(word.rstrip("%") != str(size) and numbers.get(word) != size for word in draft.s.words)
    return f"*{1 + way * size / 100:g}" if is_share else str(way * size)


def find_way(book: Grammar, s: Sentence, found: SlotValues) -> int:
    """Whether a level goes up (1) or down (-1) by the number that is said; 0 where it goes to that number."""
    by, lowers, raises = (book.values(name) for name in ("by_word", "lower_verb", "raise_verb"))
    ends = [(i, hit[1]) for i in range(len(s.words) - 1) if (hit := s.longest(by, i))]
    numbers = [s.words[end].rstrip("%") for _, end in ends]
    numbers += [hit[0] for _, end in ends if (hit := s.longest(book.values("level"), end))]  # "by a third"
    if str(found["level"]) not in numbers:
        return 0
    step = str(next(iter(s.list_values(book.values("step"))), ""))
    return -1 if step[:1] == "-" or s.holds(lowers) else int(bool(step) or s.holds(raises))


def _find_reach(draft: Draft) -> None:
    """ "When it gets to 15" may be from above or from below, which the value now tells."""
    if draft.intent.tool == "rule" and (draft.holds("reach_word") or not draft.holds("beyond")):  # "when it has 15"
        draft.found["_reach"] = "yes"


def _find_before(draft: Draft) -> None:
    before = draft.s.read_last(f"_before {draft.found['name']}")
    draft.found |= {"_before": before} if before else {}


def _find_rule_of(draft: Draft) -> None:
    """The rule that has a number in its condition, of those that the last answer told; all where these are several."""
    old = draft.found.pop("_old")
    number = str(old["_old"]) if isinstance(old, dict) else ""
    told = draft.book.tools["rule"]["gives"]["rule"]
    rows = [(row[1], one[row.end() :]) for one in draft.result.splitlines() if (row := re.search(told, one))]
    rules = [rule for rule, condition in rows if number in re.findall(r"[\d.]*\d", condition)]
    draft.found |= {"rule": rules if len(rules) > 1 else rules[0]} if rules else {}


def _add_to_rule(draft: Draft) -> IntentMatch | None:
    """An order that goes on with the rule that was shown is a rule of the same condition: "and turn on the fan, too"."""
    s, condition = draft.s, [draft.s.read_last(name) for name in ("series", "was", "limit")]
    adds = s.longest(draft.book.words["splits"], 0) or draft.holds("too_word")
    if s.last.arguments.get("action") != "add" or not adds or not all(condition) or not draft.intent.kind:
        return None
    order = make_match(draft.intent, draft.found, 1.0, "template")
    if order.tool != "output" or not is_complete(order):
        return None
    arguments = add_to_rule(order.arguments, " ".join(condition))
    return order._replace(intent="rule_also", tool="rule", arguments=arguments, said={})


def _find_listed(draft: Draft) -> None:
    """What "that one" or "the second" names of the list that was shown or added to last."""
    words, s = draft.book.words, draft.s
    said = Sentence(str(draft.found["_item"]), words)
    ends = {len(said.words)}
    place = hit if (hit := said.longest(words["ordinals"], 0)) and hit[1] in ends else None
    is_order = not draft.intent.acts  # "then put it", of "then put it on the list"
    pronoun = any(said.end_of(words["it"], i) in ends for i in range(len(said.words) if is_order else 1))
    if not place and not pronoun:
        return
    if not draft.intent.acts:  # "put it on the list"
        note = s.read_last("old_note").rpartition(" list: ")[2] if pronoun else ""
        draft.found["_item"] = note or []
        return
    items = [one["item"] for one in re.finditer(draft.book.tools["memory_search"]["row"], draft.result)]
    items = items or [told for one in s.referents.get("text", ()) if (told := str(one).partition(": ")[2])]
    items = [", ".join(items)] if len(items) > 1 and not place and draft.holds("plural_word") else items
    if place:
        items = pick_place(items, place[0])
    draft.found["_item"] = items[0] if len(items) == 1 else items


def _part_items(draft: Draft) -> IntentMatch | None:
    """ "Milk and bread" are two lines of a list, that can be taken off one by one."""
    named = draft.found["_item"]
    items = _list_items(draft.book, named) if isinstance(named, str) else []
    if items and draft.intent.adds and _may_be_several(draft.book, items, named):
        say = fill_fields(draft.book.say["one_or_more"], {"item": items[0]})
        return make_match(draft.intent, draft.found, 1.0, "unclear")._replace(missing=say)
    if len(items) < 2:
        draft.found["_item"] = items[0] if items else named
        return None
    return _call_for_each(draft, "_item", items)


def _may_be_several(book: Grammar, items: Sequence[str], text: str) -> bool:
    """Whether the first of the things in a text may be more than one, where a language links what is one: "pan leche y huevos"."""
    links, numbers, words = book.values("item_link"), book.words["numbers"], Sentence(items[0], book.words).words
    most = 1 if len(items) == 2 and "," not in text else 2
    is_plain = all(word.isalpha() and word not in links and word not in numbers for word in words)
    return bool(links) and is_plain and len(words) > most


def _counts_packs(book: Grammar, s: Sentence, i: int) -> bool:
    """Whether what stands behind a comma only says how much of a thing: "compost, 2 bags"."""
    number, pack = [*s.words[i : i + 2], ""][:2]
    is_number = number.isdecimal() or number in book.words["numbers"]
    packs = book.words["packs"]
    count = 1 if number in packs else 2 if is_number and pack in packs else 0  # "eggs, a dozen and a half"
    end = s.end_of(book.words["halves"], i + count) or i + count
    ends = end >= len(s.words) or s.after_comma(end) or s.longest(book.words["splits"], end) is not None
    return count > 0 and ends


def _list_items(book: Grammar, text: str) -> list[str]:
    """The things in a text that names several: parted by commas and "and", each without its article."""
    s, drop = Sentence(text, book.words), book.slot("item").drop
    items, begin = list[str](), 0
    reasons = [book.values(name) for name in ("because_word", "aside_word")]
    for i in range(1, len(s.words) + 1):
        is_joint = i < len(s.words) and not s.longest(book.words["halves"], i)
        joint = s.longest(book.words["splits"], i) if is_joint else None
        # "Dr. Noack" is one
        is_short = i < len(s.words) and len(s.words[i - 1]) < 3 and s.raw[: s.starts[i]].rstrip()[-1:] == "."
        if i < len(s.words) and not joint and (is_short or not s.after_comma(i) or _counts_packs(book, s, i)):
            continue
        if items and s.after_comma(begin) and any(s.longest(table, begin) for table in reasons):
            break  # "milk, we are out of it"
        while begin < i - 1 and s.words[begin] in drop:
            begin += 1
        if i - begin > 1 and all(word in book.values("staple") for word in s.words[begin:i]):
            items += [s.text(n, n + 1) for n in range(begin, i)]  # "milk eggs bread"
        elif begin < i and s.end_of(book.words["requests"], begin) == i:
            pass  # "I need milk. Could you put it on the list?"
        elif begin < i and not (items and s.longest(book.words["it"], begin + 1)):  # "the bread, knock it off"
            items.append(s.text(begin, i))
        begin = joint[1] if joint else i
    return items[:_MAX_ITEMS]


def _plan_each(draft: Draft) -> IntentMatch | None:
    """ "Everything off at ten": a call for each output."""
    every = draft.found.pop("name")
    return _call_for_each(draft, "name", [every["name"], *(one["name"] for one in every.get("_more", ()))])


def _take_both(draft: Draft) -> IntentMatch | None:
    """ "Turn both off", "cancel both": a call for each."""
    if "both_jobs" in draft.intent.steps:
        return _take_both_spoken_of(draft)
    values = draft.found.get("name") if draft.intent.tool == "output" else None
    names = draft.s.list_values(draft.s.names) if values else ()
    if isinstance(values, str) and draft.holds("two_word") and not any(kind == "output" for kind, _ in names):
        values = draft.s.referents.get("_both")  # "is the fan on?" - "and the pump?" - "turn both off"
        if not values and draft.found["name"] in draft.s.referents.get("name", ()):
            return IntentMatch(draft.intent.name, "", {}, draft.book.say["what"], 1.0, "unknown")
    if not values or not isinstance(values, list) or not draft.holds("both_word", "plural_word"):
        return None
    return _call_for_each(draft, "name", values)


def _take_both_spoken_of(draft: Draft) -> IntentMatch | None:
    """ "Cancel both", "pause them": a call for each reminder or rule that was spoken of; of more than two, ask which."""
    kind = "job" if draft.intent.tool == "cron" else "rule"
    spoken, meant = list(draft.s.referents.get(f"{kind}s", ())), draft.found.get(kind)
    is_it = isinstance(meant, list) or meant in spoken
    if len(spoken) < 2 or not is_it or not draft.holds("both_word", "plural_word"):
        return None
    match = make_match(draft.intent, draft.found, 1.0, "template") if len(spoken) == 2 else None
    draft.found[kind] = spoken
    return _call_for_each(draft, kind, spoken) if match and not match.missing else None


def _call_for_each(draft: Draft, name: str, values: Sequence[Any]) -> IntentMatch:
    first, *more = (make_match(draft.intent, draft.found | {name: value}, 1.0, "template") for value in values)
    return first._replace(said={**first.said, "_more": [one.arguments for one in more]})


def _ask_which(draft: Draft) -> IntentMatch | None:
    """An "it" that may be several, or nothing."""
    for kind, names in draft.found.items():
        rules = draft.s.referents.get("rule", ()) if kind == "job" and draft.intent.otherwise else ()
        if isinstance(names, list) and rules and not names:  # "pause it", of a rule
            found = draft.found | {"job": "", "rule": rules[0] if len(rules) == 1 else list(rules)}
            return draft.hand_over(draft.intent.otherwise, found)
        if isinstance(names, list):
            answer = fill_fields(draft.book.say["which" if names else "what"], {"names": ", ".join(map(str, names))})
            return IntentMatch(draft.intent.name, "", {}, answer, 1.0, "unclear" if names else "unknown")
    return None


def _tell_nobody(draft: Draft) -> IntentMatch | None:
    """A rule like the last one, which told nobody."""
    if "was" not in draft.kept or "notify" in draft.last:
        return None
    match = make_match(draft.intent, draft.found, 1.0, "template")
    match.arguments.pop("notify", None)
    return match


STEPS: Sequence[tuple[frozenset[str], Callable[[Draft], IntentMatch | None]]] = [
    (frozenset(names.split()), step)
    for names, step in (
        ("count_times", _count_times),
        ("sensor", _choose_quantity),
        ("_figure", _join_figures),
        ("until", _join_end),
        ("_shift", _shift),
        ("_add", _add),
        ("_amount", _read_amount),
        ("end_wrong_one", _end_wrong_one),
        ("choose_minutes", _choose_minutes),
        ("keep_level", _keep_level),
        ("plan_off", _plan_off),
        ("read_job_amount", _read_job_amount),
        ("remind_after", _remind_after),
        ("keep_series", _keep_series),
        ("compare_now", _compare_now),
        ("_earlier", _step_back),
        ("when", _keep_hour),
        ("", _find_named),
        ("compare _other", _find_sense),
        ("it_limit it_place", _read_of_it),
        ("_left", _leave_out_time),
        ("_only _except", _change_days),
        ("plan_other_way", _plan_other_way),
        ("move", _move),
        ("skip_or_move", _skip_or_move),
        ("keep_day", _keep_day),
        ("retime_rule", _retime_rule),
        ("end_rule", _end_rule),
        ("_wrong_words _right_number", _replace_words),
        ("on_list", _put_on_list),
        ("plan_again", _plan_again),
        ("_length _planned _planned_level", _change_planned),
        ("limit", _change_limit),
        ("beyond", _find_reach),
        ("find_before", _find_before),
        ("step_by", _step_by),
        ("level", _set_level),
        ("_old", _find_rule_of),
        ("name", _add_to_rule),
        ("_item", _find_listed),
        ("_item", _part_items),
        ("plan_each", _plan_each),
        ("name both_jobs", _take_both),
        ("", _ask_which),
        ("was", _tell_nobody),
    )
]
"""What a draft needs that has one of some slots, or whose intent has one of them in `steps`; '' is always. What a step returns
is said or done instead."""


def find_named(book: Grammar, intent: Intent, s: Sentence, found: SlotValues) -> SlotValues:
    """The one sensor, output or part of the board that a question names, where nothing of it was read as that."""
    if intent.tool == "board_status" and not intent.arguments and "_part" not in found:
        parts = {*s.list_values(book.values("part_of_board"))}
        return {"_part": parts.pop()} if len(parts) == 1 else {}
    series = dict.fromkeys(READS, ("sensor", "sensor")) | {"output_history": ("output", "name")}
    kind, name = series.get(intent.tool, ("", ""))
    if not kind or found.get(name) or intent.after:
        return {}
    named = {one for what, one in s.list_values(s.names) if what == kind}
    return {name: named.pop()} if len(named) == 1 else {}


def word_exact(book: Grammar, intent: str) -> str:
    """What asks for a sentence that does mean an intent."""
    return fill_fields(book.say["near"], {"exact": book.intents[intent].exact})
