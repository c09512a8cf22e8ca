"""What a second sentence changes of the order or the question before it: its time, days, rule, level, note."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from picoclaw.intents.times import (
    NO_HOUR,
    OCLOCK,
    add_half_day,
    count_minutes,
    count_seconds_between,
    format_clock,
    format_whole_length,
)
from picoclaw.text import pattern
from picoclaw.times import CRON_WEEKDAYS, EARLIEST_HOUR, WEEKDAYS, parse_duration

CLOCK_TIME = pattern(r"\b(\d\d):(\d\d)\b")
MOMENT = pattern(r"\b\d{4}-\d\d-\d\d \d\d:\d\d")
LAST_LENGTH = pattern(r"last (\d+(?:\.\d+)?) (\w+)")
WITH_CLOCK = pattern(r"(?:(.+?) )?((?:at|from) \d\d?:\d\d.*)")
TIMES = frozenset({"at", "at_seconds", "cron_expr", "every_seconds"})
_FIXED = pattern(r"(\d+) (\d+) (.+)")
_CALENDAR = pattern(r"every (.+) at (\d\d?:\d\d.*)")
_WRAPS = pattern(r"from (\d\d:\d\d) to (\d\d:\d\d)")
_DAYS_AGO = pattern(r"(\d+) days ago")
_HOUR = pattern(r"\d\d?(?=:\d\d)")
_TIMES_OF_ROW = pattern(r" every (.+?) at (\d\d:\d\d(?: and \d\d:\d\d)+)")
NEAR_MINUTES = 180
"""How far from the time before a time of day may be for it to be meant in the same half of the day."""
_LATER_MINUTES = 270
"""How far behind the usual hour of a part of the day a time before may be for it to lie in that part: 23:30 of an evening, 19:00."""
_MIN_LEVEL = 5.0  # percent, that "darker" goes down to: "off" is said otherwise
_DAY_S = 86_400
_STEPS = {
    "last": {"this week": "last week", "this month": "last month"},
    "week": dict.fromkeys(("", "this week", "last 7 days"), "last week"),
    "+day": {day: f"day after {day}" for day in WEEKDAYS}
    | {"3 days ago": "day before yesterday", "day before yesterday": "yesterday", "yesterday": "today"},
}
_DAYS_BEFORE = {day: WEEKDAYS[n - 1] for n, day in enumerate(WEEKDAYS)} | {
    **dict.fromkeys(("", "today"), "yesterday"),
    "yesterday": "day before yesterday",
    "day before yesterday": "3 days ago",
    "this morning": "yesterday morning",
}
"""What comes before or after a time of the past, by steps that step_time takes."""
DAY_NUMBERS = {"day": "0-6", "weekday": "1-5", "weekend": "0,6", "weekend day": "0,6"}


def keep_half_day(
    when: Mapping[str, Any], last: Mapping[str, Any], result: str, *, is_bare: bool = False, is_other: bool = False
) -> dict[str, Any]:
    """Return `when`, in the half of the day of the time before (`result`); `is_other`: "make it 8" of 20:00 is 8:00."""
    told = str(when.get("at", ""))
    clock, before = CLOCK_TIME.search(told), find_clock(last, result)
    if not clock or not (told.endswith(OCLOCK) or (is_bare and told == clock[0])) or before is None:
        return dict(when)
    early = count_minutes(clock[0])
    late = (early + 720) % 1440
    if early >= 13 * 60:
        return dict(when)
    is_night = "cron_expr" in last and early < EARLIEST_HOUR * 60 and _count_apart(early, before) > NEAR_MINUTES
    if is_other and before in {early, late}:
        late = early + late - before
    elif _count_apart(late, before) >= min(_count_apart(early, before), NEAR_MINUTES) and not is_night:
        return dict(when)
    return {**when, "at": told.removesuffix(OCLOCK).replace(clock[0], format_clock(late))}


def keep_clock(when: Mapping[str, Any], last: Mapping[str, Any], result: str, *, is_half: bool) -> dict[str, Any]:
    """Return `when` at the time of day before, or 12 hours from it, in the part of the day said (`is_half`: "am", "pm")."""
    fixed, before = _FIXED.fullmatch(str(when.get("cron_expr", ""))), find_clock(last, result)
    if before is not None and "every_seconds" in when and when.get("at") == NO_HOUR:  # "every two days rather"
        return {**when, "at": format_clock(before)}
    day, _, clock = str(when.get("at", "")).rpartition(" ")
    usual = find_clock(when, "") if fixed or CLOCK_TIME.fullmatch(clock) else None
    if usual is None or before is None:
        return dict(when)
    if not fixed:  # "in the evening", of 8:30
        before = _choose_half(before, usual)
    is_later = (before - usual) % 1440 <= _LATER_MINUTES  # 23:00 is of every evening, too
    if _count_apart(usual, before) > NEAR_MINUTES and not is_later and not is_half:
        return dict(when)
    if fixed:
        return {**when, "cron_expr": write_cron(before, fixed[3])}
    return {**when, "at": f"{day} {format_clock(before)}".strip()}


def keep_day(when: Mapping[str, Any], last: Mapping[str, Any], *, is_bare: bool = False) -> dict[str, Any]:
    """Return `when`, on the day of the time before where only an hour is said; `is_bare`: nothing else is said of when."""
    at, (day, _, clock) = str(when.get("at", "")), str(last.get("at", "")).removesuffix(OCLOCK).rpartition(" ")
    if is_bare and day and CLOCK_TIME.fullmatch(at):
        return {**when, "at": f"{day} {at}"}
    if not at.endswith(OCLOCK) or not day or not CLOCK_TIME.fullmatch(clock):
        return dict(when)
    if str(last["at"]).endswith(OCLOCK):
        return {**when, "at": f"{day} {at}"}  # "at 6 today and off at 8": whichever half is still to come
    kept = str(keep_half_day(when, {"at": clock}, "")["at"])
    is_late = kept.endswith(OCLOCK) and kept[:2] < f"{EARLIEST_HOUR:02}"
    return {**when, "at": f"{day} {int(kept[:2]) + 12 * is_late:02}{kept[2:5]}"}


def _count_apart(one: int, other: int) -> int:
    """Minutes between two times of day, over midnight if that is shorter."""
    return min(abs(one - other), 1440 - abs(one - other))


def _choose_half(clock: int, near: int) -> int:
    """A time of day, or the one twelve hours from it where that is nearer to another."""
    return min(clock, (clock + 720) % 1440, key=lambda one: _count_apart(one, near))


def write_cron(clock: int, days: str) -> str:
    """The cron expression of a time of day, in minutes, on such days as "* * 1-5"."""
    return f"{clock % 60} {clock // 60} {days}"


def read_cron_days(job: Mapping[str, Any]) -> str:
    """On which days a job comes, as `write_cron` has them; '' where it has no cron expression."""
    return " ".join(str(job.get("cron_expr", "")).split(" ")[2:])


def find_clock(last: Mapping[str, Any], result: str) -> int | None:
    """The time of day that the last job comes at, in minutes; None where that is not known."""
    if fixed := _FIXED.fullmatch(str(last.get("cron_expr", ""))):
        return int(fixed[2]) * 60 + int(fixed[1])
    told = str(last.get("at", ""))
    clock = CLOCK_TIME.search(result if told.endswith(OCLOCK) else told)
    return count_minutes(clock[0]) if clock else None


def keep_job(last: Mapping[str, Any], before: Mapping[str, Any], result: str) -> dict[str, Any]:
    """The arguments of a job behind its last change: what this says nothing of is as before. `result`: what it has told."""
    kept = {"kind", "message"} | (TIMES if last.get("action") == "update" else set())
    job = {name: before[name] for name in before if name in kept} | dict(last)
    days, clock = read_cron_days(before), find_clock(last, result)
    if days and clock is not None and CLOCK_TIME.fullmatch(str(job.get("at", "")).removesuffix(OCLOCK)):
        job["cron_expr"] = write_cron(clock, days)
        del job["at"]
    return job


def join_days(job: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A job of some days, at the hour of another one in the half of the day that it has; {} where that has days of its own."""
    days = read_cron_days(job)
    fixed = _FIXED.fullmatch(str(other.get("cron_expr", "")))
    clock, before = find_clock(other, str(other.get("at", ""))), find_clock(job, "")
    if not days or clock is None or before is None or (fixed and fixed[3] != "* * *"):
        return {}
    if str(other.get("at", "")).endswith(OCLOCK):
        clock = _choose_half(clock, before)
    return {**job, "cron_expr": write_cron(clock, days)}


def keep_half_of_row(when: Mapping[str, Any], last: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Return `when`; a row of days at an hour that may be early or late comes in the half of the day of the time before."""
    fixed, before = _FIXED.fullmatch(str(when.get("cron_expr", ""))), find_clock(last, result)
    late = find_clock(when, "") if fixed else None
    if not fixed or before is None or late is None or not 13 * 60 <= late < (12 + EARLIEST_HOUR) * 60:
        return dict(when)
    is_early = _count_apart(late - 720, before) < min(NEAR_MINUTES, _count_apart(late, before))
    return {**when, "cron_expr": f"{fixed[1]} {int(fixed[2]) - 12} {fixed[3]}"} if is_early else dict(when)


def change_weekday(when: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """A day that takes the place of the one of a weekly job: "saturday rather" of "every sunday at 9"."""
    fields = str(last.get("cron_expr", "")).split(" ")
    day = str(when.get("at", ""))
    if len(fields) != 5 or not fields[4].isdecimal() or day not in WEEKDAYS:
        return dict(when)
    kept = {name: value for name, value in when.items() if name != "at"}
    return kept | {"cron_expr": " ".join([*fields[:4], str(CRON_WEEKDAYS.index(day))])}


def move_end(begin: str, seconds: float, when: Mapping[str, Any], end: str) -> tuple[str, float]:
    """When what lasts some seconds begins, and how long: another "start" keeps the end, another "stop" the start."""
    if "seconds" in when:  # from one time to another
        return str(keep_half_day(when, {"at": begin}, "")["at"]).removesuffix(OCLOCK), when["seconds"]
    before = format_clock(count_minutes(begin) + int(seconds // 60) * (end == "stop"))
    clock = str(keep_half_day(when, {"at": before}, "", is_other=not end).get("at", "")).removesuffix(OCLOCK)
    if end == "" or not CLOCK_TIME.fullmatch(clock):
        return clock, seconds
    if end == "stop":
        is_half = not seconds and str(when["at"]).endswith(OCLOCK)
        return begin, count_seconds_between(begin, clock) % (43_200 if is_half else 86_401)
    left = seconds - (count_seconds_between(begin, clock) if clock > begin else -count_seconds_between(clock, begin))
    return clock, left if clock != begin and left > 0 else seconds


def find_moved_end(begin: str, seconds: float, at: str) -> str:
    """The time of day that is said, where it is nearer to the end of what lasts some seconds than to its beginning; else ''."""
    clock, first = CLOCK_TIME.fullmatch(at.removesuffix(OCLOCK)), count_minutes(begin)
    apart = [(count_minutes(clock[0]) - one) % 720 if clock else 0 for one in (first, first + int(seconds // 60))]
    return f"{at[:5]}{OCLOCK}" if min(apart[1], 720 - apart[1]) < min(apart[0], 720 - apart[0]) else ""


def _read_lasts(options: Mapping[str, Any]) -> float:
    """How many seconds a rule switches something on; 0 for as long as it takes."""
    return parse_duration(str(options["lasts"])) if "lasts" in options else 0.0


def is_near_rule(last: Mapping[str, Any], clock: str) -> bool:
    """Whether a time of day is near to the beginning or the end of the last rule by the clock."""
    begin = CLOCK_TIME.search(str(last.get("when", "")))
    lasts = _read_lasts(dict(last.get("options") or {}))
    ends = [count_minutes(begin[0]), count_minutes(begin[0]) + int(lasts // 60)] if begin else []
    return any((count_minutes(clock) - one + NEAR_MINUTES) % 720 <= 2 * NEAR_MINUTES for one in ends)


def is_of_some_days(when: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether a time is on some of the days that a job comes at another time: "at nine on sundays" of every day at eight."""
    new, old = (str(one.get("cron_expr", "")).split() for one in (when, last))
    return len(new) == len(old) == 5 and new[:2] != old[:2] and list_day_numbers(new[4]) < list_day_numbers(old[4])


def is_of_left_days(when: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether a time is on days that a job was just changed to leave out: "fridays at 7", behind "but not on fridays"."""
    new, old = (str(one.get("cron_expr", "")).split() for one in (when, last))
    is_changed = len(new) == len(old) == 5 and last.get("action") != "add"
    return is_changed and not list_day_numbers(new[4]) & list_day_numbers(old[4])


def change_rule(
    found: Mapping[str, Any], last: Mapping[str, Any], end: str, *, is_more: bool = False, amount: int = 0
) -> dict[str, Any]:
    """The last rule by the clock, with what is said; {} where it is none. `end`: see move_end, or "span" for the nearer end."""
    calendar, options, when = str(last.get("when", "")), dict(last.get("options") or {}), found.get("when")
    clock, output, at = CLOCK_TIME.search(calendar), last.get("output", ""), ""
    if isinstance(when, str):
        calendar = when  # without one of its times
    elif clock and isinstance(when, dict):
        before = _read_lasts(options)
        at, lasts = _move_times(clock[0], before, when, end, amount)
        if not CLOCK_TIME.fullmatch(at) or (lasts != before and not output):
            return {}  # "make it tomorrow": a day of its own is no rule
        options |= {"lasts": format_whole_length(lasts)} if lasts != before else {}
        at = f"{calendar.rpartition(' at ')[2]} and {at}" if is_more else at
    changed = change_calendar(calendar, at, str(found.get("_only", "")), str(found.get("_except", "")), is_more=is_more)
    more = {"lasts": found.get("lasts"), "level": found.get("_percent")}
    if more["lasts"] and parse_duration(str(more["lasts"])) >= _DAY_S:
        return {}  # "only for three days": not how long something is on
    first = str(found.get("at", "")).removeprefix("until ")
    if first or (any(more.values()) and output and options.get("level") != "off"):
        changed = changed or calendar  # a condition, for so long, at such a level, or from such a day on
    more["paused"] = first and f"until {first}"
    options |= {name: value for name, value in more.items() if value}
    made = {"output": output, "notify": "" if output else last.get("notify", ""), "when": changed}
    made |= {"options": {"options": options}} if options else {}
    return {name: value for name, value in made.items() if value} if changed else {}


def _move_times(begin: str, before: float, when: Mapping[str, Any], end: str, amount: int) -> tuple[str, float]:
    """When a rule by the clock begins, and how long it lasts, with another time; `amount`: the bare number that this was."""
    if end == "span":
        moved = find_moved_end(begin, before, str(when.get("at", "")))
        end, when = ("stop", {"at": moved}) if moved else ("", when)
    at, lasts = move_end(begin, before, when, end)
    if amount and before and not end and CLOCK_TIME.fullmatch(at):
        apart = _count_apart(int(at[:2]) * 60, int(begin[:2]) * 60)
        if apart > NEAR_MINUTES:  # "make it 4", behind "at 20:00 for 3 minutes"
            return begin, amount * (60.0 if before % 3600 else 3600.0)
    return at, lasts


def add_to_rule(order: Mapping[str, Any], condition: str) -> dict[str, Any]:
    """A rule that switches by a condition what an order would switch at once."""
    options = {"lasts": format_whole_length(order["seconds"])} if order.get("seconds") else {}
    level = "off" if order["action"] == "off" else str(order.get("level", "on"))
    options |= {"level": level} if level != "on" else {}
    made = {"action": "add", "when": condition, "output": order["name"]}
    return made | ({"options": options} if options else {})


def leave_out_times(row: str, clocks: Collection[str], days: str) -> str:
    """The cron expression of a row of the list without some of its times of day; '' where it has none of them, or no others."""
    told = _TIMES_OF_ROW.search(row)
    times = told[2].split(" and ") if told else []
    left = [time for time in times if time not in clocks]
    if not told or not 0 < len(left) < len(times):
        return ""
    on = {"day": "*", "weekday": "1-5", "weekend day": "0,6"}.get(told[1], days)
    return f"{int(left[0][3:])} {','.join(str(int(time[:2])) for time in left)} * * {on}"


def leave_out_time(last: Mapping[str, Any], at: str) -> dict[str, Any]:
    """When the last job or rule comes without one of its times of day, in arguments; {} where it has no such, or no other."""
    clock, rule = at.removesuffix(OCLOCK), _CALENDAR.fullmatch(str(last.get("when", "")))
    minute, hours, *days = [*str(last.get("cron_expr", "")).split(" "), ""][:5]
    times = rule[2].split(" and ") if rule else [f"{hour:0>2}:{minute:0>2}" for hour in hours.split(",")]
    gone = clock if clock in times or clock == at else add_half_day(clock)
    left = [time for time in times if time != gone]
    if len(left) in {0, len(times)}:
        return {}
    if rule:
        return {"when": f"every {rule[1]} at {' and '.join(left)}"}
    return {"cron_expr": " ".join([minute, ",".join(str(int(time[:2])) for time in left), *days])}


def change_calendar(calendar: str, clock: str, only: str = "", without: str = "", *, is_more: bool = False) -> str:
    """When a rule comes by the clock, at another time, on other days or on those too; '' where it does not, or on no day."""
    found = _CALENDAR.fullmatch(calendar)
    if not found:
        return ""
    days, at = found[1], clock or found[2]
    if only or without:
        numbers = (str(CRON_WEEKDAYS.index(day)) for day in re.findall(r"\w+", days) if day in WEEKDAYS)
        named = DAY_NUMBERS.get(days) or ",".join(numbers)
        kept = list_day_numbers(named) if named and (is_more or without) else set()
        days = _name_days(list_day_numbers(only) | kept if only else kept - list_day_numbers(without))
    return f"every {days} at {at}" if days else ""


def list_day_numbers(days: str) -> set[int]:
    """The days of a cron expression, "1-5", "0,6" or "*": 0 is Sunday."""
    found: set[int] = set()
    for part in filter(None, days.replace("*", "0-6").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _name_days(numbers: set[int]) -> str:
    whole = {"0-6": "day", "1-5": "weekday"}
    several = next((name for days, name in whole.items() if numbers == list_day_numbers(days)), "")
    return several or " and ".join(day for n, day in enumerate(WEEKDAYS, 1) if n % 7 in numbers)


def replace_words(note: str, wrong: str, right: str) -> str:
    """A note with other words for some; without `right`, `wrong` has both, parted by a comma; '' where it lacks them."""
    old, new = (wrong, right) if right else (*re.split(r",(?!\d)", wrong, maxsplit=1), "")[:2]
    plain, told, new = note.lower(), old.strip(" ,.").lower(), new.strip(" ,.")
    at = re.search(rf"(?<!\w){re.escape(told)}(?!\w)", plain) if told else None
    return f"{note[: at.start()]}{new}{note[at.end() :]}" if at and new and len(plain) == len(note) else ""


def change_planned(call: str, name: str, value: Any) -> str:
    """A planned call of the tool `output` with another length or output; '' for any other job."""
    tool, _, text = call.partition(" ")
    value = int(value) if name == "seconds" else value
    return f"output {json.dumps(json.loads(text) | {name: value})}" if tool == "output" and text[:1] == "{" else ""


def change_days(expression: str, day: str, only: str, *, is_more: bool = False) -> str:
    """A cron expression on `only` some days, or on those too, or without one; '' where none is left, or it has no such form."""
    fields = expression.split(" ", 5)
    if len(fields) < 5:
        return ""
    days = list_day_numbers(fields[4])
    left = days | list_day_numbers(only) if is_more else days - list_day_numbers(day)
    if only and not is_more:
        return " ".join([*fields[:4], only, *fields[5:]])
    told = ",".join(map(str, sorted(left))) if len(left) < len(WEEKDAYS) else "*"
    return " ".join([*fields[:4], told, *fields[5:]]) if left and left != days else ""


def shift_time(last: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """When the last job comes that much later, in arguments; {} where that is another day, or not known."""
    if "at_seconds" in last:
        moved = float(last["at_seconds"]) + seconds
        return {"at_seconds": int(moved)} if moved > 0 else {}
    at, before = str(last.get("at", "")), find_clock(last, str(last.get("at", "")))
    if before is None or not 0 <= before + seconds / 60 < 24 * 60:
        return {}
    moved = int(before + seconds / 60)
    if "cron_expr" in last:
        return {"cron_expr": write_cron(moved, read_cron_days(last))}
    return {"at": CLOCK_TIME.sub(format_clock(moved), at)}


def shift_due(result: str, seconds: float) -> dict[str, Any]:
    """When the last job comes that much later, by the moment that its answer named: "comes on Sat 2026-11-28 17:00"; {} for none."""
    found = MOMENT.search(result)
    moved = datetime.fromisoformat(found[0]) + timedelta(seconds=seconds) if found else None
    return {"at": f"{moved:%Y-%m-%d %H:%M}"} if moved else {}


def read_amount(amount: int, last: Mapping[str, Any]) -> dict[str, Any]:
    """What a bare number changes of the last order: how long, where it had a length, else the level."""
    if seconds := float(last.get("seconds") or 0):
        sizes = (86_400, 3600, 60, 1)[seconds < 2 * 86_400 :]  # "in 24 hours" counts hours, "in 2 days" days
        # "make it 5", of 4.5 hours, is none of minutes
        unit = next(
            size
            for size in sizes
            if (seconds >= size and seconds % (size / 2 if size == 3600 else size) == 0) or size == 1
        )
        unit = 60 if unit == 3600 and amount > 24 else unit  # "make it 45", of an hour
        return {"seconds": amount * unit, "level": last.get("level", "on")}
    return {"level": str(amount)}


def step_order(level: str, step: str, last: Mapping[str, Any]) -> dict[str, Any]:
    """A level so much higher or lower (on is 100, off 0); with "*" a share of it, or of the length where that was said."""
    is_share, size = step[0] == "*", float(step.lstrip("*"))
    if is_share and last.get("seconds") and level == "on":
        seconds = float(last["seconds"]) * size
        return {"seconds": int(seconds) if seconds.is_integer() else seconds}
    now = {"on": 100.0, "off": 0.0}.get(level, 0.0) if level.isalpha() else float(level.rstrip("% "))
    then = now * size if is_share else now + size
    return {"level": f"{min(100.0, max(min(now, _MIN_LEVEL), then)):g}"}


def step_time(when: str, step: str) -> str:
    """The time before another one, by a "day", a "night", a "week" or its own length ("same"): of "yesterday" "day before
    yesterday"; by "+day" or "+night" the one after it, by "last" the last one of a week or month; '' where that has no name.
    """
    size, ahead = step.lstrip("+"), step[0] == "+"
    last = LAST_LENGTH.fullmatch(when)
    if last and (step == "same" or (step != "last" and when in {"last 1 day", "last 24 hours"})):
        return f"{last[1]} {last[2]} before {when}"
    if (found := WITH_CLOCK.fullmatch(when)) and step != "last":
        wraps = _WRAPS.fullmatch(found[2])
        is_night = wraps is not None and wraps[1] > wraps[2]
        unit = size if found[1] or is_night else "day"
        day = step_time(found[1] or ("last night" if is_night else "today"), f"{'+' * ahead}{unit}")
        return f"{day} {found[2]}" if day else ""
    if size == "night" or (size not in {"week", "last"} and "night" in when):
        day = when.replace("night before last", "day before yesterday").removesuffix(" night")
        day = "yesterday" if day in {"last", "today", ""} else day
        earlier = step_time(day, f"{'+' * ahead}day")
        return f"{earlier} night" if earlier not in {"", "today"} else ""
    if (found := _DAYS_AGO.fullmatch(when)) and step not in _STEPS:
        return f"{int(found[1]) + 1} days ago"
    return _STEPS.get(step, _DAYS_BEFORE).get(when, "")


def find_current(when: str) -> str:
    """The week or month that is compared with the last one: part of a day says little beside it."""
    return next((now for now, last in _STEPS["last"].items() if last == when), "")


def keep_hour(when: str, before: str) -> str:
    """Return `when`; "yesterday at the same time", or on Tuesday, means the hour that was said before."""
    day, found = when.removeprefix("this time "), WITH_CLOCK.fullmatch(before)
    return f"{day} {found[2]}" if found and day not in {when, "last week"} else when


def put_at_night(when: str) -> str:
    """Return `when`; 10:00 of a night is 22:00."""
    return put_late(when) if "night " in when else when


def put_late(when: str) -> str:
    """Return `when`, its hours from seven to eleven in the evening."""
    return _HOUR.sub(lambda hour: f"{int(hour[0]) + 12 * (6 < int(hour[0]) < 12):02}", when)
