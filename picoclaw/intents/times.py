"""Reads when: lengths of time, times of day, what repeats, and times that are past."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from picoclaw.records import NamedTuple
from picoclaw.text import pattern
from picoclaw.times import CRON_WEEKDAYS, EARLIEST_HOUR, MONTHS


class WordTables(dict[str, dict[str, Any]]):
    """The tables of words of a language, which never change."""

    __hash__ = object.__hash__  # type: ignore[assignment]


_DAY_SETS = {"day": "*", "weekday": "1-5", "weekend": "0,6"}
_WORKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
_DAY_S = 86_400
_FUTURE_TABLE_TEXT = """
    joins within at on on_date numbers days months parts hours offsets every repeats alternates before_day begins until
"""
_FUTURE_TABLES = _FUTURE_TABLE_TEXT.split()
_NUMBER = pattern(r"\d+")
_DAY_OF_MONTH = pattern(r"[1-9]|[12][0-9]|3[01]")
_ORDINAL = "st|nd|rd|th|er"
_CLOCK = pattern(r"\d\d:\d\d")
_GLUED_HALF = pattern(r"(?<=\d)(?=[ap]\.?m\b)")  # "3am"
_REST = pattern(r"[1-5]\d$")
_PAST_TABLES = "at since recent back joins numbers span_begins hours offsets months on on_date".split()  # noqa: SIM905
_OTHER_TABLES = "halves quarters units from_now to oclock ago splits onwards span_ends excepts behind_day".split()  # noqa: SIM905
_TABLES = {*_FUTURE_TABLES, *_PAST_TABLES, *_OTHER_TABLES}
_HOURS = frozenset({"fixed", "hour"})
_MIN_BARE = 5  # "tomorrow 2 parcels" counts something
_MAX_TIMES = 24  # a day, of what comes "every half hour between 10 and 4"
_HOUR_SIGN = pattern(r"\d\d? hs?(?: |$)")
_END = "(?:(?= )|$) ?"
NO_HOUR = "09:00"
"""What a day is given that was said without an hour."""
_EARLIEST, _FIRST_LATE = f"{EARLIEST_HOUR:02}:00", 30
"""Before this hour, and from this minute of the day on, a plain time of day that comes again is after noon: "ten to one"."""
OCLOCK = " o'clock"
"""Behind a time of day: the next time that a clock with twelve hours shows it."""


class RepeatTime(NamedTuple):
    """Something that comes again: at times of day on some days, or every so many seconds."""

    days: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    seconds: float = 0.0
    begins: str = ""
    """The first day, where one was said: "every day at 8 from monday"."""
    until: str = ""
    lasts: float = 0.0
    """Seconds that each lasts, where it was said from when to when; 0 where it was not."""

    @property
    def arguments(self) -> dict[str, Any]:
        """How a job is told."""
        if self.seconds:
            return {"every_seconds": _round_if_whole(self.seconds)} | ({"at": self.times[0]} if self.times else {})
        date = next((day for day in self.days if day[:1].isdigit()), "*").split()
        dates, month = date[0], str(MONTHS.index(date[1]) + 1) if len(date) > 1 else "*"
        days = ",".join(_DAY_SETS.get(day) or str(CRON_WEEKDAYS.index(day)) for day in self.days if dates == "*") or "*"
        jobs, until = [], self.until and f" until {self.until}"
        for minute in dict.fromkeys(time[3:] for time in self.times):
            hours = ",".join(str(int(time[:2])) for time in self.times if time[3:] == minute)
            job = {"cron_expr": f"{int(minute)} {hours} {dates} {month} {days}{until}"}
            jobs.append(job | ({"at": self.begins} if self.begins else {}))
        return merge_jobs(jobs)

    @property
    def text(self) -> str:
        """How a rule is told; '' when it cannot be."""
        if self.until or any(day[0].isdigit() for day in self.days) or len({time[3:] for time in self.times}) > 1:
            return ""
        if self.times:
            return f"every {' and '.join(self.days)} at {' and '.join(self.times)}" if self.days else ""
        return f"every {format_whole_length(self.seconds)}".replace("every 1 ", "every ")


def _list_weekdays(days: Sequence[str]) -> list[str]:
    sets = {
        "day": CRON_WEEKDAYS,
        "weekday": _WORKDAYS,
        "weekend": [day for day in CRON_WEEKDAYS if day not in _WORKDAYS],
    }
    return [one for day in days for one in sets.get(day, [day])]


def _join_weekdays(days: Sequence[str]) -> tuple[str, ...]:
    """The days by the shortest name for them."""
    return next(((name,) for name in _DAY_SETS if {*_list_weekdays([name])} == {*days}), tuple(days))


def merge_jobs(jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of the first job, with those of the others, which differ in their time alone, as "_more"."""
    return jobs[0] | ({"_more": [*jobs[1:]]} if len(jobs) > 1 else {})


class TimeReader:
    """The tables of numbers, units and times of day, ready to read the words at the beginning of a text."""

    def __init__(self, words: WordTables) -> None:
        self._words = words
        self._skips: dict[str, re.Pattern[str]] = {}

    @cached_property
    def _any_of(self) -> dict[str, str]:
        any_of = {name: _make_alternatives(table) for name, table in self._words.items() if name in _TABLES}
        numbers = {word: value for word, value in self._words["numbers"].items() if isinstance(value, int)}
        tens = {word: value for word, value in numbers.items() if 10 <= value < 60}
        lengths = {unit: 1 for unit in self._words["units"] if unit.split()[0] not in self._words["oclock"]}
        any_of["lengths"] = _make_alternatives(lengths)
        any_of |= {"whole": _make_alternatives(numbers), "tens": _make_alternatives(tens)}
        any_of["counted"] = _make_alternatives({word: 1 for word in numbers if word not in self._words["no_hours"]})
        both = _make_alternatives(dict.fromkeys(word for word in self._words["at"] if word in self._words["joins"]))
        any_of["span"] = (
            rf"(?:{both}) (?:\d+|{any_of['whole']}) (?:{any_of['units']})(?: |$)"  # "for 3 hours" is no "at 3"
        )
        return any_of

    @cached_property
    def _first_words(self) -> frozenset[str]:
        return frozenset(phrase.split()[0] for table in _FUTURE_TABLES for phrase in self._words[table])

    @cached_property
    def _first_past_words(self) -> frozenset[str]:
        return frozenset(phrase.split()[0] for table in _PAST_TABLES for phrase in self._words[table])

    @cached_property
    def _and(self) -> re.Pattern[str]:
        """What may stand between two times of day, besides a comma."""
        return pattern(rf"(?:(?:and|or|then|also|plus|again|&|to|till|until|through|-|–|{self._any_of['splits']}) )*")

    @cached_property
    def _span(self) -> re.Pattern[str]:
        any_of = self._any_of
        return pattern(
            rf"(?:(?:{any_of['joins']}) )*(?P<n>\d{{1,6}}(?:\.\d{{1,3}})?|(?:{any_of['numbers']})"
            rf"(?: (?:{any_of['numbers']}))?)(?P<before> (?:{any_of['halves']}))? (?P<unit>{any_of['units']})"
            rf"(?P<after> (?:{any_of['halves']}))?(?: (?:{any_of['from_now']}))?{_END}",
            re.ASCII,
        )

    @cached_property
    def _bare(self) -> re.Pattern[str]:
        any_of = self._any_of
        return pattern(
            rf"(?:{any_of['within']}) (?P<n>\d{{1,3}}|{any_of['whole']})(?=$| (?:{any_of['to']})(?: |$))", re.ASCII
        )

    @cached_property
    def _moment(self) -> re.Pattern[str]:
        any_of = self._any_of
        return pattern(
            rf"(?:(?:{any_of['on']}) )*(?P<at>(?!{any_of['span']})(?:{any_of['at']}) )*"
            rf"(?:(?P<from_day>{self._from_day.pattern})?"
            rf"(?P<day>{any_of['days']}|\d{{4}}-\d\d-\d\d|{self._date}|{self._ahead.pattern})"
            rf"(?P<behind> (?:{self._ahead.pattern}|{any_of['behind_day']})(?= |$))?|(?P<part>{any_of['parts']})|"
            rf"(?P<past>(?:{any_of['offsets']}) )?"
            rf"(?:(?P<fixed>{any_of['hours']})|(?P<hour>\d\d?|{any_of['counted']})(?P<minute>[:.][0-5]\d)?"
            rf"(?(at)(?! (?:{any_of['lengths']})(?: |$))|(?! (?:{any_of['units']})(?: |$))))"  # "à sept heures" is no length
            rf"(?P<oclock> (?:{any_of['oclock']})(?P<minutes> (?:[1-5]\d|{any_of['tens']})"
            rf"(?! (?:{any_of['units']}|{any_of['oclock']})(?: |$)))?|(?= (?:{any_of['parts']})(?: |$)))?"
            rf"(?P<quarter> (?:{any_of['quarters']}))?){_END}",
            re.ASCII,
        )

    @cached_property
    def _from_day(self) -> re.Pattern[str]:
        """So many days before or after a day that follows: "two days before", "a week on"."""
        any_of = self._any_of
        counts = {word: value for word, value in self._words["numbers"].items() if isinstance(value, int) or value == 1}
        counted = rf"(?:(?:\d{{1,2}}|{_make_alternatives(counts)}) )?"
        return pattern(rf"{counted}(?:{any_of['before_day']}) (?:(?:{any_of['on']}) )*")

    @cached_property
    def _ahead(self) -> re.Pattern[str]:
        """A number of days or weeks from now."""
        units = {one: 1 for one, size in self._words["units"].items() if size in {_DAY_S, 7 * _DAY_S}}
        days = _make_alternatives(units)
        return pattern(rf"(?:{self._any_of['within']}) (?:\d{{1,3}}|{self._any_of['whole']}) (?:{days})(?= |$)")

    @cached_property
    def _date(self) -> str:
        """The expression for a day of the year, or of the month: "24 december", "december the 24th", "the 25th", "día 25"."""
        months = f"(?:{self._any_of['months']})"
        no_weekday = rf"(?! (?:{self._weekdays}){_END})"  # "the 2nd sunday"
        return (
            rf"(?:(?:the|le|den|dia) )?(?:\d\d?(?:{_ORDINAL})?(?: (?:of|de|del))?|(?:{self._any_of['whole']}) (?:of|de)) {months}"
            rf"|{months} (?:the )?\d\d?(?:{_ORDINAL})?"
            rf"|(?:the )?\d\d?(?:st|nd|rd|th){no_weekday}|dia \d\d?(?! (?:{self._any_of['units']})(?: |$)){self._figures}"
        )

    @cached_property
    def _weekdays(self) -> str:
        return _make_alternatives({phrase: day for phrase, day in self._words["days"].items() if day in CRON_WEEKDAYS})

    @cached_property
    def _dated(self) -> re.Pattern[str]:
        """A weekday before its date: "friday the 4th", "viernes 4"."""
        number = r"[1-9]|[12]\d|3[01]" if self._words["on_date"] else "(?!)"
        bare = rf"(?P<bare>(?:{number})(?= (?:{self._any_of['at']}) |$))"
        return pattern(
            rf"(?:(?:{self._any_of['on']}|{self._any_of['at']}) )?(?:{self._weekdays}) (?={bare}|(?:{self._date}){_END})"
        )

    @cached_property
    def _figures(self) -> str:
        """More choices behind what leads to a date, where points do not part hours from minutes: "am 24.12.", "mejor el 16"."""
        leads = self._words["on_date"]
        befores = [*leads, *self._words["before_day"]]
        behind = "|".join([*(rf"(?<={re.escape(one)} )" for one in befores), rf"(?:{self._any_of['on_date']}) "])
        of_month = rf"(?:[1-9]|[12]\d|3[01])(?:er)?(?=$| (?:{'|'.join(self._any_of[one] for one in ('at', 'to', 'on', 'parts'))})(?= |$))"
        return rf"|(?:{behind})(?:(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])|{of_month})" if leads else ""

    def _skip(self, table: str, tail: str, start: int = 0) -> int:
        """Where a phrase of a table ends that stands at `start`, with something behind it; 0 for none."""
        if table not in self._skips:
            self._skips[table] = pattern(rf"(?:{self._any_of[table]}) ")
        found = self._skips[table].match(tail, start)
        return found.end() if found else 0

    def _skip_and(self, tail: str, start: int) -> int:
        """Where an "and" between two times ends that stands at `start`; `start` where none does."""
        found = self._and.match(tail, start)
        return found.end() if found else start

    @cached_property
    def _repeats(self) -> re.Pattern[str]:
        return pattern(rf"(?P<days>{self._any_of['repeats']}){_END}")

    @cached_property
    def _named_day(self) -> re.Pattern[str]:
        any_of = self._any_of
        return pattern(rf"(?P<day>{any_of['days']}|\d{{4}}-\d\d-\d\d)(?: (?:{any_of['onwards']}))?{_END}")

    @cached_property
    def _another(self) -> re.Pattern[str]:
        """A weekday behind another one."""
        words = self._words
        days = {phrase: day for phrase, day in {**words["days"], **words["repeats"]}.items() if day in CRON_WEEKDAYS}
        return pattern(rf"(?:(?:{self._any_of['joins']}) )?(?P<day>{_make_alternatives(days)}){_END}")

    def _may_begin(self, near: Sequence[str]) -> bool:
        return bool(near) and (near[0] in self._first_words or near[0][0].isdigit())

    def once(self, near: Sequence[str], part: str) -> Iterator[tuple[dict[str, Any], int]]:
        """How much later, or at what time of day, in arguments of a job; with how many words say so."""
        if not self._may_begin(near):
            return
        if near[0] in self._words["on"] and near[1:2] and near[1] in {near[0], *self._words["at"]}:
            return  # "put the kettle on at 7"
        tail = " ".join(near)
        if self._yearly.match(tail):
            return  # "on 3 may every year"
        clock = self._clock(tail, part, bare=part == "same", once=True)
        is_counted = clock[0] and self._ahead.match(tail)  # "in 2 days at 8"
        readings = [clock] if is_counted else [self._duration(tail), clock]
        for value, end in reversed(readings) if self._from_day.match(tail) else readings:
            if value:
                yield value, _count_words(tail, end)

    def several(self, near: Sequence[str], part: str) -> tuple[tuple[str, ...], int]:
        """More than one time of day in a row, as in "at 7 and at 19", and how many words name them; 0 where none do."""
        if not self._may_begin(near):
            return (), 0
        tail = " ".join(near)
        times, end = self._clocks(tail, part)
        return (times, _count_words(tail, end)) if len(times) > 1 else ((), 0)

    def lengths(self, near: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
        """More than one length in a row, as in "in 20 minutes and in an hour", and how many words name them; 0 where none do."""
        tail, end = " ".join(near), 0
        jobs = list[dict[str, Any]]()
        while True:
            start = self._skip_and(tail, end) if jobs else 0
            is_next = self._skip("within", tail, start) > 0 and (start > end or not jobs)
            value, count = self._duration(tail[start:]) if is_next else ({}, 0)
            if not value:
                return (jobs, _count_words(tail, end)) if len(jobs) > 1 else ([], 0)
            jobs.append(value)
            end = start + count

    def range(self, near: Sequence[str]) -> bool:
        """Whether the words are "from" one time of day to another."""
        return len(near) > 1 and near[0] == "from" and self._clocks("at " + " ".join(near[1:]), "")[0][1:] != ()

    def pause(self, near: Sequence[str]) -> tuple[str, int] | None:
        """A time ahead, as `schedules.parse_pause` reads it, and how many words name it; None for none."""
        tail = " ".join(near)
        until = self._skip("until", tail)
        for begin in (until, self._skip("span_ends", tail)) if until else (0,):  # "hasta las 6"
            value, end = self._clock(tail[begin:], "same", bare=until > 0, once=True)
            is_day = value and not _CLOCK.fullmatch(value["at"])
            if is_day or (value and until and value["at"] != "00:00"):  # "bis zum 24."
                return f"{'until ' if until else ''}{value['at']}", _count_words(tail, begin + end)
        if until == 0 and (day := self._day.match(tail)):
            return "today", _count_words(tail, day.end())
        if until == 0 and (span := self._span.match(tail)):
            return format_whole_length(self._seconds(span)), _count_words(tail, span.end())
        return None

    def window(self, near: Sequence[str], *, bare: bool = False, ahead: bool = False) -> tuple[str, str, str, int]:
        """A day ('' for none), two times of day and how many words name them, as in "tomorrow from 6 to 9"; 0 for none.

        `bare`: also "6 to 9"; else the first has a word before it, as in "at 6 until 9", or a day. `ahead`: it is to come.
        """
        tail, none = " ".join(near), ("", "", "", 0)
        day = self._day.match(tail)
        start = day.end() if day else 0
        part = self._skip("parts", tail, start)  # "this evening from 6 to 10"
        spans = self._skip("span_begins", tail, part or start)
        is_begun = spans or day or bare or self._skip("at", tail)
        found = self._two_clocks(tail, start, spans, bare=bare) if is_begun or tail[:1].isdigit() else None
        if not found:
            return none
        first, last, begins, ends, end = found
        (early, _, one), (late_day, _, other) = first.rpartition(" "), last.rpartition(" ")
        later = None if day or early or bare else self._day.match(tail, end)
        if not (is_begun or later) or not _CLOCK.fullmatch(one) or not _CLOCK.fullmatch(other):
            return none
        if late_day and (day or early):
            return none
        if one < "12:00" and other == "00:00" and "12" in near:
            other = "12:00"  # "between 8 and 12 this morning"
        if one == "12:00" or self._get_half(ends) == "pm":
            late = self.put_past_noon(one, begins), self.put_past_noon(other, ends)
            one, other = late if late[0] < late[1] else (one, other)  # "between 1 and 3 pm"
        half = self._get_half(tail[start:part].strip()) if part and spans else ""
        if half in {"pm", "night"}:
            one, late_end = add_half_day(one), add_half_day(other)
            other = max(other, late_end) if late_end > one else other  # "from 10 to 2" ends at night
        said = day or later
        named = self._words["days"][said["day"]] if said else early or late_day
        if ahead and not half:
            one, other = self._put_ahead(one, other, begins, ends, is_day=named != "")
        return named, one, other, _count_words(tail, later.end() if later else end)

    def _two_clocks(self, tail: str, start: int, spans: int, *, bare: bool) -> tuple[str, str, str, str, int] | None:
        """Two times of day behind a "from" that ends at `spans`, or at `start`, how they are said, and where they end."""
        begin = spans or start
        first, stop = self._bare_clock(tail[begin:], begun=spans > 0)
        until = self._skip("span_ends", tail, begin + stop) if first else 0
        joint = tail[begin + stop : until].strip() if not spans else ""
        if joint in self._words["splits"] or (joint in self._words["at"] and self._skip("at", tail, start)):
            return None  # "at 6 and 9" are two times, and "a las 6, a las 9"
        behind = self._another.search(tail, until) if until and bare else None  # "from 5 to 9 pm monday to friday"
        rest = tail[until : behind.start() if behind else None] if until else ""
        last, more = self._bare_clock(rest, begun=spans > 0)
        end = until + more
        if not last or self._length_word.match(tail, end):
            return None
        return first["at"], last["at"], tail[begin : begin + stop], tail[until:end], end

    def _put_ahead(self, one: str, other: str, first: str, last: str, *, is_day: bool) -> tuple[str, str]:
        """Two times of day to come, in the halves of the day that are meant: "from 6 to 10 tonight", "from 10 to 2"."""
        begins, ends = self._get_half(first), self._get_half(last)
        is_plain = max(one, other) < "13" and "0" not in (first[:1], last[:1])
        late = add_half_day(one)
        if ends and not begins:
            is_late = other < one if ends == "am" else late < other or other < _EARLIEST
            return (late if is_late else one), other
        if begins or ends or not is_plain or (is_day and "o'clock" not in self._words["oclock"]):
            return one, other
        one = late if is_day and one < _EARLIEST else one
        return f"{one}{'' if is_day or one > '12' else OCLOCK}", _find_end(one, other)

    def _bare_clock(self, tail: str, *, begun: bool = False) -> tuple[dict[str, Any], int]:
        """A time of day that no "at" has to stand before, also "15 h"; `begun`: behind a "from", also "sept heures"."""
        is_hour = begun and tail.partition(" ")[2].partition(" ")[0] in self._words["oclock"]
        at = f"{next(iter(self._words['at']))} " if is_hour or _HOUR_SIGN.match(tail) else ""
        value, end = self._clock(at + tail, "", bare=True)
        return value, end - len(at) if value else 0

    @cached_property
    def _day(self) -> re.Pattern[str]:
        return pattern(rf"(?:(?:{self._any_of['on']}) )*(?P<day>{self._any_of['days']}){_END}")

    @cached_property
    def _length_word(self) -> re.Pattern[str]:
        """Behind "between 2 and 5" this makes no time of day of it."""
        return pattern(rf"(?:{self._any_of['lengths']}|{_make_alternatives(self._words['measures'])})(?: |$)")

    def count_day(self, near: Sequence[str]) -> int:
        """How many words at the beginning name a day that is not today."""
        found = self._day.match(" ".join(near)) if self._may_begin(near) else None
        return _count_words(found[0], found.end()) if found and self._words["days"][found["day"]] else 0

    def is_bare_date(self, near: Sequence[str]) -> bool:
        """Whether words begin with a day of the month by its number alone, and anything behind it: "el 14 pagar"."""
        is_led = len(near) > 1 and near[0] == next(iter(self._words["on_date"]), "")
        return is_led and bool(_DAY_OF_MONTH.fullmatch(near[1]))

    def count_clock(self, near: Sequence[str]) -> int:
        """How many words at the beginning name a time of day, "at 8", or the time from one to another."""
        day, _, _, count = self.window(near)
        if count and not day:
            return count
        return next((count for _, count in self.once(near, "same")), 0) if self.names_a_time(near) else 0

    def names_a_day(self, words: Sequence[str]) -> bool:
        """Whether words name a day or a part of it and no hour: "on friday", "tonight"."""
        is_half = set(words) <= {"am", "pm"}  # "I am away"
        piece = None if is_half else self._moment.fullmatch(" ".join(words))
        return piece is not None and (piece["day"] or (piece["part"] and not piece["hour"])) is not None

    def names_a_time(self, near: Sequence[str], *, halves: bool = False) -> bool:
        """Whether the words begin with a time of day: "at 8", with `halves` also "10 am"."""
        piece = self._moment.match(" ".join(near)) if self._may_begin(near) else None
        said = piece and (piece["at"] or piece["minute"] or (piece["oclock"] if halves else None))
        hour = piece and (piece["fixed"] or (piece["hour"] and said))
        return hour is not None

    def count_part(self, near: Sequence[str]) -> int:
        """How many words a part of a time has that may be completed elsewhere: days, or a time of day; 0 for none."""
        tail, pieces = " ".join(near), []
        if self._may_begin(near):
            piece = self._moment.match(tail)
            is_clear = piece and (
                piece["day"] or piece["part"] or piece["oclock"] is not None or self.names_a_time(near)
            )
            pieces = [found.end() for found in (piece if is_clear else None, self._repeats.match(tail)) if found]
            pieces += [self._interval(tail, "")[1]]
            pieces += [found.end() for one in (self._monthly, self._yearly) if (found := one.match(tail))]
            day, *_, size = self.window(near)  # "from 16 to 20 o'clock"
            pieces += [_count_chars(near[:size])] if not day else []
            pieces += [_count_chars(near[:2])] if self.is_bare_date(near) else []
        if at := self._skip("excepts", tail):
            pieces += [self._days(tail, at, plain=True)[2]]
        return _count_words(tail, max(pieces, default=0))

    def is_date_of_months(self, near: Sequence[str]) -> bool:
        """Whether words begin with a day of every month or year: "the 3rd of every month" is not the 3rd."""
        tail = " ".join(near)
        return any(one.match(tail) for one in (self._monthly, self._yearly)) if self._may_begin(near) else False

    def repeated(self, near: Sequence[str], part: str) -> Iterator[tuple[RepeatTime, int]]:
        """What comes again: "every 30 minutes", "every day at 7", "at 18:00 on weekdays"."""
        if not self._may_begin(near):
            return
        tail = " ".join(near)
        # "every month on the first" is not every 30 days
        is_dated = self._monthly.match(tail) or self._yearly.match(tail)
        for read in (self._calendar, self._interval)[: 1 if is_dated else 2]:
            repeat, end = read(tail, part)
            if repeat:
                yield repeat, _count_words(tail, end)

    def count_bound_day(self, near: Sequence[str]) -> int:
        """How many words at the beginning tell from which day on, or until which: "from monday on"; 0 for none."""
        tail = " ".join(near)
        ends = (read(tail, 0)[1] for read in (self._first_day, self._last_day))
        return _count_words(tail, max(ends))

    def past(self, near: Sequence[str]) -> Iterator[tuple[str, int]]:
        """A time that is past and needs arithmetic: "last 24 hours", "3 days ago", "since 6:00"."""
        if near[0] not in self._first_past_words and not near[0][0].isdigit():
            return
        tail = " ".join(near)
        since = self._skip("since", tail)
        if self._skip("span_begins", tail) and (window := self.window(near))[3] and not window[0]:
            yield f"from {window[1]} to {window[2]}", window[3]
        yield from self._past_dates(tail, since)
        if not since:
            yield from self._past_clocks(tail, near)
        else:
            value, end = self._clock(tail[since:], "", bare=near[1:2] != ["1"])
            if value and " " not in value["at"] and not self._length_word.match(tail, since + end):
                yield f"since {value['at']}", _count_words(tail, since + end)
        yield from self._past_lengths(tail, near)

    def _past_dates(self, tail: str, since: int) -> Iterator[tuple[str, int]]:
        """A day of the year or of the month, alone, with a time of day, or up to another one."""
        day, end = self._past_day(tail, since)
        if not day:
            return
        value, more = self._clock(tail[end:], "")
        clock = value["at"] if value and _CLOCK.fullmatch(value["at"]) else ""
        then = 0 if since or clock else self._skip("span_ends", tail, end)
        last, stop = self._past_day(tail, then) if then else ("", 0)
        if last:
            yield f"{day} to {last}", _count_words(tail, stop)
            return
        told = f" at {self.put_past_noon(clock, tail[end:][:more])}" if clock else ""
        yield f"{'since ' if since else ''}{day}{told}", _count_words(tail, end + more if clock else end)

    def _past_clocks(self, tail: str, near: Sequence[str]) -> Iterator[tuple[str, int]]:
        """A time of day, "at noon", or one of a weekday, "at four on Thursday"."""
        if near[0] == "this" and (near[1:2] == [] or near[1] not in self._words["hours"]):
            return  # "this second"
        value, end = self._clock(tail, "")
        day, _, clock = value.get("at", "").rpartition(" ")
        if day in CRON_WEEKDAYS and clock != NO_HOUR and near[0] in self._words["at"]:
            yield f"{day} at {self.put_past_noon(clock, tail[:end])}", _count_words(tail, end)
        is_said = near[0] in self._words["at"] or ":" in near[0] or end > len(near[0]) + 1
        is_value = tail[end:].partition(" ")[0] in self._words["measures"]  # "around 12 volts"
        is_day = self._day.fullmatch(tail[self._skip("at", tail) : end])  # "what about today", "was it on today"
        is_hour = is_said and not (is_value or is_day or self._words["parts"].get(tail[:end].strip()))
        if is_hour and not day and _CLOCK.fullmatch(clock):
            yield f"at {clock}", _count_words(tail, end)

    def _past_lengths(self, tail: str, near: Sequence[str]) -> Iterator[tuple[str, int]]:
        """The last hours or days, and so many ago."""
        counts = near[0].isdigit() or self._words["numbers"].get(near[0], 1) != 1
        is_behind = counts and near[1:2] != [] and near[1] in self._words["recent"]  # "9 derniers jours"
        length = f"{near[0]} {' '.join(near[2:])}" if is_behind else tail[self._skip("recent", tail) :]
        if length != tail and (span := self._span.match(length)):
            stop = len(tail) - len(length) + span.end()
            yield f"last {format_whole_length(self._seconds(span))}", _count_words(tail, stop)
        back = self._skip("back", tail)
        if span := self._span.match(tail, back):
            end = span.end() if back else self._skip("ago", f"{tail} ", span.end())
            seconds = self._seconds(span)
            days = f"{seconds / _DAY_S:g} days" if seconds % _DAY_S == 0 else format_whole_length(seconds)
            if end:
                yield f"{days} ago", _count_words(tail, end)

    @cached_property
    def _dates(self) -> Sequence[re.Pattern[str]]:
        """The ways to say a day of the year, or of the month."""
        any_of = self._any_of
        year = r"(?:(?: (?:of|de|del))? (?P<year>(?:19|20)\d\d))?"
        ways = (
            rf"(?:dia )?(?P<day>\d\d?|{any_of['whole']})(?:{_ORDINAL})?(?: (?:of|de|del))? (?P<month>{any_of['months']}){year}",
            rf"(?P<month>{any_of['months']}) (?:the )?(?P<day>\d\d?)(?:{_ORDINAL})?{year}",
            rf"(?P<day>\d\d?)(?:{_ORDINAL})",
            rf"dia (?P<day>\d\d?)(?! (?:{any_of['units']})(?: |$))",
            *([r"(?P<day>\d\d?)\.(?P<month>\d\d?)(?:\.(?P<year>\d{4}))?"] if self._words["decimals"] else ()),
        )
        begin = rf"(?:(?:{any_of['on']}|the|le|den|el) )*"
        return (
            *(pattern(rf"{begin}{way}{_END}") for way in ways),
            pattern(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"),
        )

    def read_date(self, near: Sequence[str]) -> tuple[str, int]:
        """A day of the year as "3 may", "3 may 2027" or, of a month, "3", and how many words name it; 0 for none."""
        tail = " ".join(near)
        found = next((found for date in self._dates if (found := date.match(tail))), None)
        said = found.groupdict("") if found else {}
        month = said.get("month", "")
        if not found or (month.isdigit() and not 0 < int(month) <= len(MONTHS)):
            return "", 0
        day = f"{parse_amount(said['day'], self._words['numbers']):g}"
        month = MONTHS[int(month) - 1] if month.isdigit() else self._words["months"].get(month, "")
        return " ".join(filter(None, (day, month, said.get("year")))), _count_words(found[0], found.end())

    def _get_half(self, said: str) -> str:
        """The half of the day that is said beside an hour: "am", "pm", "night"; '' for none."""
        said = _GLUED_HALF.sub(" ", f" {said.rstrip(' ?!.').replace(',', ' ')} ")
        return next((half for part, (half, _) in self._words["parts"].items() if f" {part} " in said), "")

    def _put_behind(self, before: Sequence[str], clock: str, said: str) -> str:
        """Return `clock`, twelve hours later where a bare hour stands behind a later one: "at 9, 12, 3 and 5", "at 8 and 8"."""
        is_plain = ":" not in said and not self._get_half(said) and set(said.split()).isdisjoint(self._words["oclock"])
        if not before or not is_plain or not clock[:2].isdigit() or len(before[0]) != len(clock):
            return clock
        return add_half_day(clock) if clock <= before[0] < add_half_day(clock) else clock

    def _has_twelve_hours(self, said: Sequence[str]) -> bool:
        """Whether an hour may be one of twelve: "at 4 o'clock" may, "um 4 Uhr" and "a las 4 horas" not."""
        return "o'clock" in self._words["oclock"] or self._words["oclock"].keys().isdisjoint(said)

    def put_past_noon(self, clock: str, said: str) -> str:
        """Return `clock` of a day that is past, in the afternoon where an hour up to six was said alone ("Thursday at four", not "um 4 Uhr")."""
        is_early = clock[:2].isdigit() and 1 <= int(clock[:2]) <= 6
        return add_half_day(clock) if is_early and self._is_either_half(clock, said) else clock

    def _past_day(self, tail: str, start: int) -> tuple[str, int]:
        """A day of the year, or of the month, as a time that is past is told it, "3 may" or "12th", and where it ends."""
        start = self._skip("span_begins", tail, start) or start
        near = tail[start:].split()
        told, count = self.read_date(near)
        if not told and self.is_bare_date(near) and self._words["oclock"].keys().isdisjoint(near[2:3]):
            told, count = near[1], 2
        number, *rest = told.split() or ["0"]
        said, end = " ".join(near[:count]), start + _count_chars(near[:count])
        is_else = len(rest) > 1 or not _NUMBER.search(said) or "." in said
        if is_else or not 1 <= int(number) <= 31 or (not rest and said.endswith("er")):  # "zwei 2er"
            return "", start
        return (told if rest else _name_day_of_month(int(number))), min(end, len(tail))

    def _interval(self, tail: str, part: str) -> tuple[RepeatTime | None, int]:
        other = self._skip("alternates", tail)
        if other and (day := self._another.match(tail, other)):  # "every other friday"
            repeat, end = self._spaced(14.0 * _DAY_S, tail, day.end(), part)
            return repeat and repeat._replace(times=(f"{self._name_weekday(day)} {repeat.times[0]}",)), end
        named = self._repeats.match(tail)
        length = self._words["repeats"][named["days"]] if named else ""
        if named and length.isdecimal():  # "un jour sur deux"
            return self._spaced(float(length), tail, named.end(), part)
        every = self._skip("every", tail)
        rest = tail[every:] if every else ""
        if span := self._span.match(rest):
            end = len(tail) - len(rest) + span.end()
        elif span := self._span.match(f"1 {rest}"):  # "every hour"
            end = len(tail) - len(rest) + span.end() - 2
        seconds = self._seconds(span) if span else 0
        if not span or not seconds:
            return None, 0
        if seconds < _DAY_S:
            last, stop = self._last_day(tail, end)
            if last and seconds % 3600 == 0 and _DAY_S % seconds == 0:  # a cron expression can end on a day
                hours = range(0, 24, int(seconds // 3600))
                return RepeatTime(("day",), tuple(f"{hour:02}:00" for hour in hours), until=last), stop
            return self._list_within(seconds, tail, end, part) or (RepeatTime(seconds=seconds), end)
        return self._spaced(seconds, tail, end, part) if seconds > _DAY_S else (None, 0)

    def _list_within(self, seconds: float, tail: str, end: int, part: str) -> tuple[RepeatTime, int] | None:
        """The times of "every hour between 10 and 4", on every day or on some; None for others, or too many."""
        first, lasts, more = self._hours(tail[end:], part)
        if not lasts or seconds % 60 or lasts / seconds >= _MAX_TIMES:
            return None
        begin, count = count_minutes(first[0]), int(lasts // seconds) + 1
        clocks = tuple(format_clock(int(begin + n * seconds // 60)) for n in range(count))
        days, _, stop = self._days(tail, end + more)
        return RepeatTime(days or ("day",), clocks), stop or end + more

    def _spaced(self, seconds: float, tail: str, end: int, part: str) -> tuple[RepeatTime | None, int]:
        """Days apart, each at one time of day."""
        times, more = self._clocks(tail[end:], part, again=True)
        return (RepeatTime(times=times or (NO_HOUR,), seconds=seconds), end + more) if len(times) < 2 else (None, 0)

    def _calendar(self, tail: str, part: str) -> tuple[RepeatTime | None, int]:
        """Days, and times of day or the time from one to another, in either order, and from or until which day."""
        begins, start = self._first_day(tail, 0)
        if start:
            repeat, end = self._calendar(tail[start:], part)
            return repeat and repeat._replace(begins=begins), start + end
        until, start = self._last_day(tail, 0)
        if start:
            repeat, end = self._calendar(tail[start:], part)
            return repeat and repeat._replace(until=until), start + end
        days, half, end = self._days(tail, 0)
        times, lasts, begin = ((), 0.0, 0) if days else self._hours(tail, part)
        if times:
            days, half, end = self._days(tail, begin)
            times = self._hours(tail, half)[0] if half and ":" not in half else times  # "at ten every night"
        if not days:
            return None, 0
        days, end = self._leave_out(days, tail, end)
        begins, end = self._first_day(tail, end)
        last, end = self._last_day(tail, end)
        if not times:
            times, lasts, more = self._hours(tail[end:], part if ":" in half else half or part)
            days, end = self._leave_out(days, tail, end + more)
        if not times and half:
            times = tuple(half.split()) if ":" in half else (self._resolve({"part": half}, ""),)
        begins, end = (begins, end) if begins else self._first_day(tail, end)
        last, end = (last, end) if last else self._last_day(tail, end)
        if not days or not times or any(len(time) != 5 for time in times):
            return None, 0
        return RepeatTime(days, times, begins=begins, until=last, lasts=lasts), end

    def _hours(self, tail: str, part: str) -> tuple[tuple[str, ...], float, int]:
        """Times of day, or one and the seconds from it to another, and where they end."""
        near = tail.split()
        day, first, last, count = self.window(near, bare=True) if near else ("", "", "", 0)
        if count and not day:
            said, half = " ".join(near[:count]), self._words["parts"].get(part, ("",))[0]
            is_plain = "o'clock" in self._words["oclock"] and ":" not in said and max(first, last) < "13"
            if (half or is_plain) and not self._get_half(said):  # "every evening from half past five until nine"
                half = half or ("pm" if "01:00" <= first < _EARLIEST else "")  # "from 5 to 9", but not "from 8 to 10"
                first = f"{_compute_hour(int(first[:2]), half):02}{first[2:]}"
                last = _find_end(first, last)
            return (first,), count_seconds_between(first, last), _count_chars(near[:count])
        times, end = self._clocks(tail, part, again=True)
        return times, 0.0, end

    def _leave_out(self, days: tuple[str, ...], tail: str, start: int) -> tuple[tuple[str, ...], int]:
        """The days without those of "except on sundays", and where that ends."""
        at = self._skip("excepts", tail, start)
        out, _, end = self._days(tail, at, plain=True) if at else ((), "", 0)
        if not out:
            return days, start
        return _join_weekdays([day for day in _list_weekdays(days) if day not in _list_weekdays(out)]), end

    def _first_day(self, tail: str, start: int) -> tuple[str, int]:
        """The day of "from friday on", as a job is told it, and where that ends."""
        day, end = self._bound_day("begins", tail, start)
        ends = self._skip("span_ends", tail, end) if end > start else 0
        return ("", start) if ends and self._another.match(tail, ends) else (day, end)  # "from monday to friday"

    def _last_day(self, tail: str, start: int) -> tuple[str, int]:
        """The day of "until friday", as a job is told it, and where that ends."""
        day, end = self._bound_day("until", tail, start)
        return (day or "today", end) if end > start else ("", start)

    def _bound_day(self, table: str, tail: str, start: int) -> tuple[str, int]:
        """The day behind a word of a table, "" for today, and where it ends; `start` where there is none."""
        begin = self._skip(table, tail, start)
        begin = begin and (self._skip("on", tail, begin) or begin)
        if begin and (found := self._named_day.match(tail, begin)):
            return str(self._words["days"].get(found["day"], found["day"])), found.end()
        near = tail[begin:].split() if begin else []
        told, count = self.read_date(near)
        return (told, min(begin + _count_chars(near[:count]), len(tail))) if " " in told else ("", start)

    def _days(self, tail: str, start: int, *, plain: bool = False) -> tuple[tuple[str, ...], str, int]:
        """Days that come again, the part of them that was said, and where they end; `plain`: also "sunday" for "sundays"."""
        named, words = self._another, self._words
        first = named.match(tail, self._skip("span_begins", tail, start) or start)
        until = self._skip("span_ends", tail, first.end()) if first else 0
        last = named.match(tail, until) if until else None
        if first and last and tail[first.end() : until].strip() not in words["splits"]:  # "monday to saturday"
            begins, ends = self._name_weekday(first), self._name_weekday(last)
            week = [*CRON_WEEKDAYS, *CRON_WEEKDAYS][CRON_WEEKDAYS.index(begins) :]
            return _join_weekdays(week[: week.index(ends, 1) + 1]), "", last.end()
        if found := self._yearly.match(tail, start):
            date = self.read_date((found["date"] or found["date_"]).split())[0]
            return ((date,), "", found.end()) if date else ((), "", 0)  # "every year on the 3rd"
        if found := self._monthly.match(tail, start):
            number = parse_amount(found["n"] or found["m"] or found["k"], words["numbers"])
            return ((f"{number:g}",), "", found.end()) if 1 <= number <= 31 else ((), "", 0)
        if found := self._repeats.match(tail, start):
            day, _, half = words["repeats"][found["days"]].partition(" ")
            if day.isdecimal() or day.startswith(("month", "year")):
                return (), "", 0
        elif plain and first:
            found, day, half = first, self._name_weekday(first), ""
        else:
            return (), "", 0
        days, end = [day], found.end()
        while day in CRON_WEEKDAYS and (more := named.match(tail, end)):
            days.append(self._name_weekday(more))
            end = more.end()
        return tuple(days), half, end

    @cached_property
    def _monthly(self) -> re.Pattern[str]:
        """A day of every month: "on the 3rd of every month", "every month on the first"."""
        any_of, repeats = self._any_of, self._words["repeats"]
        every, of_month = (
            _make_alternatives({phrase: 1 for phrase, day in repeats.items() if day == name})
            for name in ("month", "month's")
        )
        before = _make_alternatives({**self._words["on"], **dict.fromkeys(("the", "el", "le", "dia"))})
        date = (
            rf"(?:(?:{before}) )*(?P<%s>\d\d?(?={_ORDINAL})|(?<=\w )\d\d?|{any_of['whole']})"
            rf"(?:{_ORDINAL})?(?: day)?"
        )
        each = rf"(?:{any_of['every']}) {date % 'k'} (?:{of_month})"  # "every first of the month"
        return pattern(rf"(?:{date % 'n'} (?:{every})|(?:{every}) {date % 'm'}|{each}){_END}", re.ASCII)

    @cached_property
    def _yearly(self) -> re.Pattern[str]:
        """A day of every year: "every year on 3 may", "on 3 may every year"."""
        any_of = self._any_of
        every = _make_alternatives({phrase: 1 for phrase, day in self._words["repeats"].items() if day == "year"})
        before = _make_alternatives({**self._words["on"], **dict.fromkeys(("the", "el", "le", "den"))})
        date = (
            rf"(?:(?:{before}) )*(?P<date%s>(?:\d\d?(?:{_ORDINAL})?|{any_of['whole']})(?: (?:of|de|del))? "
            rf"(?:{any_of['months']})|(?:{any_of['months']}) (?:the )?\d\d?(?:{_ORDINAL})?{self._figures})"
        )
        return pattern(rf"(?:(?:{every}|{any_of['every']}) {date % ''}|{date % '_'} (?:{every})){_END}", re.ASCII)

    def _name_weekday(self, found: re.Match[str]) -> str:
        return str(self._words["repeats"].get(found["day"]) or self._words["days"][found["day"]])

    def _clocks(self, tail: str, part: str, *, again: bool = False) -> tuple[tuple[str, ...], int]:
        """Times of day: "at 7", "at 7 and at 19"; "monday and friday at 7" is at 7 on both."""
        times, days = list[str](), 0
        end = 0
        while True:
            start = self._skip_and(tail, end) if times else end
            if times and self._span.match(tail, self._skip("at", tail, start) or start):
                break  # "every day at 6 for 2 hours"
            word = tail[start:].partition(" ")[0]
            joined = start > end or self._words["numbers"].get(word) != 1  # "um 20 Uhr ein" is no second time
            value, more = self._clock(tail[start:], part, bare=bool(times) and joined, again=again)
            if not value:
                break
            said = tail[start : start + more]
            is_today = not again and "" in (self._words["days"].get(word) for word in said.split())
            at = f"today {value['at']}" if is_today else value["at"]
            if is_today or (times[:1] and times[0].startswith("today ") and " " not in at):
                at += OCLOCK if self._is_either_half(value["at"], said) else ""
            times.append(at if part else self._put_behind(times[-1:], at, said))
            end = start + more
            if self.names_a_day(tail[start:end].split()):
                day, (_, behind, clock) = times[-1].rpartition(" ")[0], times[-2:][0].rpartition(" ")
                is_behind = len(times) > 1 and not days and behind  # "at 6 tomorrow and sunday"
                times[-1] = f"{day} {clock}" if is_behind else times[-1]
                days += days + 1 == len(times)
            if self._last_day(tail, end)[0]:
                break
        if 0 < days < len(times):
            clock = times[days].rpartition(" ")[2]
            times[:days] = [f"{time.rpartition(' ')[0]} {clock}".strip() for time in times[:days]]
        return tuple(times), end

    def _is_either_half(self, clock: str, said: str) -> bool:
        """Whether a time of day may be before noon or after it: "at 6", but not "at 6 pm" or "um 6 Uhr"."""
        is_bare = ":" not in said and not self._get_half(said) and clock < "12"
        return is_bare and self._has_twelve_hours(said.split())

    def _duration(self, tail: str) -> tuple[dict[str, Any], int]:
        """Seconds from now: "in 90 s", "half an hour", "one hour and ten minutes"."""
        seconds, before, end = 0.0, 0.0, 0
        while found := self._span.match(tail, end):
            if end and any(self._skip("within", tail, at) for at in (end, self._skip_and(tail, end))):
                break  # "for 5 minutes" "in an hour", "in 20 minutes" "and in 40 minutes"
            unit = self._words["units"][found["unit"]]
            is_round = unit == _DAY_S and not end and self._skip("within", tail)
            days = self._words["round_days"].get(found["n"]) if is_round else None  # "dans quinze jours"
            part = days * unit if days else self._seconds(found)
            is_same = end > 0 and part >= before and found.start("n") == found.start()  # "a little while, 20 min"
            seconds, before, end = part + (0.0 if is_same else seconds), unit, found.end()
            if unit in {60, 3600} and (
                rest := _REST.match(tail, end)
            ):  # "1 min 30" ends in seconds, "1 h 30" in minutes
                return {"at_seconds": _round_if_whole(seconds + int(rest[0]) * unit / 60)}, rest.end()
        if not end and (bare := self._bare.match(tail)):  # "in 20" is minutes
            seconds, end = parse_amount(bare["n"], self._words["numbers"]) * 60, bare.end()
        return ({"at_seconds": _round_if_whole(seconds)} if seconds else {}), end

    def _seconds(self, span: re.Match[str]) -> float:
        halves = bool(span["before"]) + bool(span["after"])
        number = parse_amount(span["n"], self._words["numbers"]) + halves / 2
        return float(number * self._words["units"][span["unit"]])

    def _clock(
        self, tail: str, part: str, *, bare: bool = False, once: bool = False, again: bool = False
    ) -> tuple[dict[str, Any], int]:
        """A time of day: "18:30", "tomorrow 07:30" or "2026-12-01 08:00"; `once` and `again`: see _resolve."""
        if dated := self._dated.match(tail):  # of "friday the 4th", the date
            lead = f"{next(iter(self._words['on_date']))} " if dated["bare"] else ""
            value, end = self._clock(lead + tail[dated.end() :], part, bare=bare, once=once, again=again)
            return value, dated.end() + end - len(lead) if value else 0
        found: dict[str, str] = {}
        end = 0
        while piece := self._moment.match(tail, end):
            new = {name: text for name, text in piece.groupdict().items() if text is not None}
            alone = "hour" in new and not new.keys() & {"at", "past", "minute", "oclock", "quarter"}
            if alone and not bare and self._ends_there(found, new["hour"], tail[piece.end() :], again=again):
                alone = False  # "thursday 10"
            twice = (found.keys() & new.keys()) - {"at", "oclock", "minutes"}
            if (alone and not bare) or twice or (_HOURS & found.keys() and _HOURS & new.keys()):
                break  # "noon to 2"
            found, end = found | new, piece.end()
        unit = tail[end:].partition(" ")[0]
        if unit in self._words["measures"] and (len(unit) > 1 or not unit.isalpha()) and found.keys() <= {"at", "hour"}:
            return {}, 0  # "warn me at 2 degrees"
        when = self._resolve(found, part, once=once, again=again) if end else ""
        return ({"at": when} if when else {}), end

    def _ends_there(self, found: Mapping[str, str], hour: str, tail: str, *, again: bool) -> bool:
        """Whether a number behind a day is its hour: nothing follows, or what is to be done then, "sunday 9 feed the cat"."""
        word = tail.partition(" ")[0]
        if "day" not in found:
            return again and (not tail or word in self._words["to"])  # "weekdays 9"
        counts = word in self._words["measures"] or word in self._words["packs"] or not word.isalpha()
        return not tail or word in self._words["to"] or (hour.isdigit() and int(hour) >= _MIN_BARE and not counts)

    def _resolve(self, found: dict[str, str], part: str, *, once: bool = False, again: bool = False) -> str:
        """The time as a job is told it; one of `once` that may be in either half of the day is the next that comes, and
        one that comes `again` is in the afternoon rather than in the night: "ten to three", "halb vier".
        """
        half, clock = self._words["parts"].get(found.get("part", part), ("", NO_HOUR))
        has_hour, either = not found.keys().isdisjoint(_HOURS), False
        behind = str(self._words["behind_day"].get(found.get("behind", "").strip(), ""))
        half = half or ("am" if ":" in behind and behind < "12" else "")  # "4:45 tomorrow early"
        if has_hour:
            minutes, either = self._find_minutes(found, half, once=once, again=again)
            if minutes > 24 * 60:
                return ""
            clock = format_clock(minutes)
        elif part == "same" and "part" not in found:
            clock = ""
        day = self._words["days"].get(found.get("day", ""), found.get("day", ""))
        if behind == "next" and day not in CRON_WEEKDAYS:
            return ""
        day = f"next {day}" if behind == "next" else day  # "tuesday of next week"
        clock = behind if ":" in behind and clock in {NO_HOUR, ""} else clock  # "tomorrow early"
        moved = self._count_days_moved(found)
        if moved and not day:
            return f"in {moved} days {clock}" if moved > 0 else ""
        if "day" in found and not day and clock == NO_HOUR and not has_hour:
            return ""  # "today" alone is no hour of it
        if self._ahead.fullmatch(day):
            if not has_hour and "part" not in found:
                return ""
            day = f"in {self._duration(day)[0]['at_seconds'] // _DAY_S} days"
        is_today = once and has_hour and "day" in found and not day
        day = "today" if is_today else self._name_date(day) + (f" {moved:+d} days" if moved else "")
        return f"{day.removeprefix('the ')} {clock}{OCLOCK if either else ''}".strip()

    def _find_minutes(self, found: Mapping[str, str], half: str, *, once: bool, again: bool) -> tuple[int, bool]:
        """The minutes from midnight to a time of day, and whether it may be in either half of the day."""
        words, oclock, either = self._words, found.get("oclock", ""), False
        if "hour" in found:
            hour = _compute_hour(int(parse_amount(found["hour"], words["numbers"])), half)
            is_late = "o'clock" in words["oclock"] and found["hour"][0] != "0" and hour < EARLIEST_HOUR  # "4:30"
            is_bare = once and not half and ("minute" not in found or is_late)
            either = is_bare and not words["days"].get(found.get("day", ""), found.get("day")) and 1 <= hour < 12
            is_early = is_bare and not either and 1 <= hour < EARLIEST_HOUR
            hour += 12 * (is_early and self._has_twelve_hours(oclock.split()))
        else:
            hour = words["hours"][found["fixed"]]
        minutes = hour * 60 + int(found.get("minute", ":0")[1:])
        minutes += int(parse_amount(found.get("minutes", " 0").strip(), words["numbers"]))
        minutes += words["offsets"].get(found.get("past", "").strip(), 0)
        minutes += words["quarters"].get(found.get("quarter", "").strip(), 0)
        is_turned = not found.keys().isdisjoint({"past", "quarter"}) or "o'clock" in words["oclock"]
        is_plain = again and is_turned and not half and "hour" in found and "minute" not in found
        is_night = is_plain and hour and _FIRST_LATE <= minutes < EARLIEST_HOUR * 60
        return minutes + 12 * 60 * bool(is_night), either

    def _name_date(self, day: str) -> str:
        """A day as a job is told it: a date by its number, as in "3 may" and "12th"."""
        figures = day.rpartition(" ")[2].removesuffix("er")
        if month := next((month for word in day.split() if (month := self._words["months"].get(word))), ""):
            number = _NUMBER.search(day)
            return f"{number[0] if number else self._words['numbers'][day.split()[-3]]} {month}"  # "the first of may"
        if figures.isdecimal():
            return _name_day_of_month(int(figures))
        return self.read_date([figures])[0] if "." in figures else day

    def _count_days_moved(self, found: Mapping[str, str]) -> int:
        """How many days a day is away from the one that is named: "a week on tuesday", "two days before the 24th"."""
        before, behind = found.get("from_day", "").split(), found.get("behind", "").strip()
        known = self._words["behind_day"].get(behind)
        days = known if isinstance(known, int) else 0
        if behind and known is None:
            days = int(self._duration(behind)[0]["at_seconds"] // _DAY_S)
        for i in (0, 1):
            sizes = (self._words["before_day"].get(" ".join(before[i:end])) for end in range(len(before), i, -1))
            if size := next(filter(None, sizes), 0):
                return days + int(parse_amount(before[0], self._words["numbers"]) if i else 1) * int(size)
        return days


def is_moment(when: str) -> bool:
    """Whether a time that is past is one that "now" is compared with: "this time yesterday", "an hour ago", "at noon"."""
    return when.endswith("ago") or when.startswith(("this time", "at "))


def _name_day_of_month(number: int) -> str:
    """The day as a job or a time that is past is told it: "12th"."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 * (number // 10 != 1), "th")
    return f"{number}{ending}"


def count_minutes(clock: str) -> int:
    """The minutes from midnight to a time of day."""
    return int(clock[:2]) * 60 + int(clock[3:5])


def format_clock(minutes: int) -> str:
    """The time of day that is so many minutes from midnight, of any day."""
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def count_seconds_between(first: str, last: str) -> int:
    """Seconds from one time of day to the next of another."""
    return (count_minutes(last) - count_minutes(first)) % 1440 * 60 or 86_400


def parse_amount(text: str, numbers: Mapping[str, Any]) -> float:
    """What digits or words in `numbers` count; 0 for two words that make no number, as "five ten" do not."""
    if text in numbers or text[0].isdigit():
        return float(numbers.get(text, text))
    head, _, tail = text.partition(" ")
    first, second = numbers.get(head, 0), numbers.get(tail, 0)
    if second == 100:
        return float(first * second)
    return float(first + second) if first % 10 == 0 < second < 10 < first < 100 else 0.0


def _count_words(tail: str, end: int) -> int:
    return len(tail[:end].split())


def _count_chars(words: Sequence[str]) -> int:
    """Where the words end at the beginning of a text, with the space behind them."""
    return sum(len(word) + 1 for word in words)


def _round_if_whole(seconds: float) -> float:
    return int(seconds) if seconds.is_integer() else seconds


def format_whole_length(seconds: float) -> str:
    """Say a length of time in its largest whole unit; a day is 24 hours."""
    for name, size in (("day", _DAY_S), ("hour", 3600), ("minute", 60)):
        if seconds % size == 0 and seconds >= size * (2 if name == "day" else 1):
            return f"{seconds / size:g} {name}{'' if seconds == size else 's'}"
    return f"{seconds:g} seconds"


def _compute_hour(hour: int, half: str) -> int:
    """The hour of 24: as it stands, unless a part of the day is named; the night has early hours and late ones."""
    if half == "am" or (half == "night" and hour in {1, 2, 3, 4, 12}):
        return hour % 12 if hour == 12 else hour
    return hour + 12 if half and hour < 12 else hour


def _make_alternatives(table: Mapping[str, Any]) -> str:
    return "|".join(re.escape(phrase) for phrase in sorted(table, key=len, reverse=True)) or r"(?!)"


def _find_end(first: str, last: str) -> str:
    """The time of day of twelve hours that comes first after another one."""
    ends = [last] if int(last[:2]) > 12 else [last, format_clock(count_minutes(last) % 720 + 720)]
    return min(ends, key=lambda end: count_seconds_between(first, end))


def add_half_day(clock: str) -> str:
    """A time of day past noon: "06:00" is 18:00."""
    return f"{int(clock[:2]) + 12:02}{clock[2:]}" if clock < "12:00" else clock
