"""What a second sentence changes of the order before it: of its time, its days, its rule, its note."""

import re
from collections.abc import Collection, Mapping
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

_CLOCK = pattern(r"\b(\d\d):(\d\d)\b")
_FIXED = pattern(r"(\d+) (\d+) (.+)")
_CALENDAR = pattern(r"every (.+) at (\d\d?:\d\d.*)")
_TIMES_OF_ROW = pattern(r" every (.+?) at (\d\d:\d\d(?: and \d\d:\d\d)+)")
TIMES = frozenset({"at", "at_seconds", "cron_expr", "every_seconds"})
_NEAR_MINUTES = 180
"""How far from the time before a time of day may be for it to be meant in the same half of the day."""
_DAY_NUMBERS = {"day": "0-6", "weekday": "1-5", "weekend": "0,6", "weekend day": "0,6"}


def keep_half_day(
    when: Mapping[str, Any], last: Mapping[str, Any], result: str, *, is_bare: bool = False, is_other: bool = False
) -> dict[str, Any]:
    """Return `when`, in the half of the day of the time before (`result`); `is_other`: "make it 8" of 20:00 is 8:00."""
    told = str(when.get("at", ""))
    clock, before = _CLOCK.search(told), find_clock(last, result)
    if not clock or not (told.endswith(OCLOCK) or (is_bare and told == clock[0])) or before is None:
        return dict(when)
    early = count_minutes(clock[0])
    late = (early + 720) % 1440
    if early >= 13 * 60:
        return dict(when)
    is_night = "cron_expr" in last and early < EARLIEST_HOUR * 60 and _count_apart(early, before) > _NEAR_MINUTES
    if is_other and before in {early, late}:
        late = early + late - before
    elif _count_apart(late, before) >= min(_count_apart(early, before), _NEAR_MINUTES) and not is_night:
        return dict(when)
    return {**when, "at": told.removesuffix(OCLOCK).replace(clock[0], format_clock(late))}


def keep_clock(
    when: Mapping[str, Any], last: Mapping[str, Any], result: str, *, is_half: bool = False
) -> dict[str, Any]:
    """Return `when` at the time of day before, or 12 hours from it, in the part of the day said (`is_half`: "am", "pm")."""
    fixed, before = _FIXED.fullmatch(str(when.get("cron_expr", ""))), find_clock(last, result)
    if before is not None and "every_seconds" in when and when.get("at") == NO_HOUR:  # "every two days rather"
        return {**when, "at": format_clock(before)}
    day, _, clock = str(when.get("at", "")).rpartition(" ")
    usual = find_clock(when, "") if fixed or _CLOCK.fullmatch(clock) else None
    if usual is None or before is None:
        return dict(when)
    if not fixed:  # "in the evening", of 8:30
        before = min(before, (before + 720) % 1440, key=lambda one: _count_apart(one, usual))
    if _count_apart(usual, before) > _NEAR_MINUTES and not is_half:
        return dict(when)
    if fixed:
        return {**when, "cron_expr": f"{before % 60} {before // 60} {fixed[3]}"}
    return {**when, "at": f"{day} {format_clock(before)}".strip()}


def keep_day(when: Mapping[str, Any], last: Mapping[str, Any], *, is_bare: bool = False) -> dict[str, Any]:
    """Return `when`, on the day of the time before where only an hour is said; `is_bare`: nothing else is said of when."""
    at, (day, _, clock) = str(when.get("at", "")), str(last.get("at", "")).removesuffix(OCLOCK).rpartition(" ")
    if is_bare and day and _CLOCK.fullmatch(at):
        return {**when, "at": f"{day} {at}"}
    if not at.endswith(OCLOCK) or not day or not _CLOCK.fullmatch(clock):
        return dict(when)
    kept = str(keep_half_day(when, {"at": clock}, "")["at"])
    is_late = kept.endswith(OCLOCK) and kept[:2] < f"{EARLIEST_HOUR:02}"
    return {**when, "at": f"{day} {int(kept[:2]) + 12 * is_late:02}{kept[2:5]}"}


def _count_apart(one: int, other: int) -> int:
    """Minutes between two times of day, over midnight if that is shorter."""
    return min(abs(one - other), 1440 - abs(one - other))


def find_clock(last: Mapping[str, Any], result: str) -> int | None:
    """The time of day that the last job comes at, in minutes; None where that is not known."""
    if fixed := _FIXED.fullmatch(str(last.get("cron_expr", ""))):
        return int(fixed[2]) * 60 + int(fixed[1])
    told = str(last.get("at", ""))
    clock = _CLOCK.search(result if told.endswith(OCLOCK) else told)
    return count_minutes(clock[0]) if clock else None


def keep_job(last: Mapping[str, Any], before: Mapping[str, Any], result: str) -> dict[str, Any]:
    """The arguments of a job behind its last change: what this says nothing of is as before. `result`: what it has told."""
    kept = {"kind", "message"} | (TIMES if last.get("action") == "update" else set())
    job = {name: before[name] for name in before if name in kept} | dict(last)
    days, clock = str(before.get("cron_expr", "")).split(" ")[2:], find_clock(last, result)
    if days and clock is not None and _CLOCK.fullmatch(str(job.get("at", "")).removesuffix(OCLOCK)):
        job["cron_expr"] = " ".join([str(clock % 60), str(clock // 60), *days])
        del job["at"]
    return job


def join_days(job: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A job of some days, at the hour of another one in the half of the day that it has; {} where that has days of its own."""
    _, _, *days = str(job.get("cron_expr", "")).split(" ")
    fixed = _FIXED.fullmatch(str(other.get("cron_expr", "")))
    clock, before = find_clock(other, str(other.get("at", ""))), find_clock(job, "")
    if not days or clock is None or before is None or (fixed and fixed[3] != "* * *"):
        return {}
    if str(other.get("at", "")).endswith(OCLOCK):
        clock = min(clock, (clock + 720) % 1440, key=lambda one: _count_apart(one, before))
    return {**job, "cron_expr": " ".join([str(clock % 60), str(clock // 60), *days])}


def keep_half_of_row(when: Mapping[str, Any], last: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Return `when`; a row of days at an hour that may be early or late comes in the half of the day of the time before."""
    fixed, before = _FIXED.fullmatch(str(when.get("cron_expr", ""))), find_clock(last, result)
    late = find_clock(when, "") if fixed else None
    if not fixed or before is None or late is None or not 13 * 60 <= late < (12 + EARLIEST_HOUR) * 60:
        return dict(when)
    is_early = _count_apart(late - 720, before) < min(_NEAR_MINUTES, _count_apart(late, before))
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
    if end == "" or not _CLOCK.fullmatch(clock):
        return clock, seconds
    if end == "stop":
        is_half = not seconds and str(when["at"]).endswith(OCLOCK)
        return begin, count_seconds_between(begin, clock) % (43_200 if is_half else 86_401)
    left = seconds - (count_seconds_between(begin, clock) if clock > begin else -count_seconds_between(clock, begin))
    return clock, left if clock != begin and left > 0 else seconds


def find_moved_end(begin: str, seconds: float, at: str) -> str:
    """The time of day that is said, where it is nearer to the end of what lasts some seconds than to its beginning; else ''."""
    clock, first = _CLOCK.fullmatch(at.removesuffix(OCLOCK)), count_minutes(begin)
    apart = [(count_minutes(clock[0]) - one) % 720 if clock else 0 for one in (first, first + int(seconds // 60))]
    return f"{at[:5]}{OCLOCK}" if min(apart[1], 720 - apart[1]) < min(apart[0], 720 - apart[0]) else ""


def is_of_some_days(when: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether a time is on some of the days that a job comes at another time: "at nine on sundays" of every day at eight."""
    new, old = (str(one.get("cron_expr", "")).split() for one in (when, last))
    return len(new) == len(old) == 5 and new[:2] != old[:2] and list_day_numbers(new[4]) < list_day_numbers(old[4])


def change_rule(
    found: Mapping[str, Any], last: Mapping[str, Any], end: str = "", *, is_more: bool = False, amount: int = 0
) -> dict[str, Any]:
    """The last rule by the clock, with what is said; {} where it is none. `end`: see move_end, or "span" for the nearer end."""
    calendar, options, when = str(last.get("when", "")), dict(last.get("options") or {}), found.get("when")
    clock, at = _CLOCK.search(calendar), ""
    calendar = when if isinstance(when, str) else calendar  # without one of its times
    if clock and isinstance(when, dict):
        before = parse_duration(str(options["lasts"])) if "lasts" in options else 0.0
        if end == "span":
            moved = find_moved_end(clock[0], before, str(when.get("at", "")))
            end, when = ("stop", {"at": moved}) if moved else ("", when)
        at, lasts = move_end(clock[0], before, when, end)
        is_far = (
            amount and _CLOCK.fullmatch(at) and _count_apart(int(at[:2]) * 60, int(clock[0][:2]) * 60) > _NEAR_MINUTES
        )
        if is_far and before and not end:  # `amount` of "make it 4", behind "at 20:00 for 3 minutes"
            at, lasts = clock[0], amount * (60.0 if before % 3600 else 3600.0)
        if not _CLOCK.fullmatch(at) or (lasts != before and not last.get("output")):
            return {}  # "make it tomorrow": a day of its own is no rule
        options |= {"lasts": format_whole_length(lasts)} if lasts != before else {}
        at = f"{calendar.rpartition(' at ')[2]} and {at}" if is_more else at
    changed = change_calendar(calendar, at, str(found.get("_only", "")), str(found.get("_except", "")), is_more=is_more)
    more = {"lasts": found.get("lasts"), "level": found.get("_percent")}
    if not changed and any(more.values()) and last.get("output") and options.get("level") != "off":
        changed = calendar  # a condition, for so long, or at such a level
    options |= {name: value for name, value in more.items() if value}
    kept = {"output": last.get("output", ""), "when": changed}
    return kept | ({"options": {"options": options}} if options else {}) if changed else {}


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


def change_calendar(calendar: str, clock: str = "", only: str = "", without: str = "", *, is_more: bool = False) -> str:
    """When a rule comes by the clock, at another time, on other days or on those too; '' where it does not, or on no day."""
    found = _CALENDAR.fullmatch(calendar)
    if not found:
        return ""
    days, at = found[1], clock or found[2]
    if only or without:
        numbers = (str(CRON_WEEKDAYS.index(day)) for day in re.findall(r"\w+", days) if day in WEEKDAYS)
        named = _DAY_NUMBERS.get(days) or ",".join(numbers)
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


def replace_words(note: str, wrong: str, right: str = "") -> str:
    """A note with other words for some; without `right`, `wrong` has both, parted by a comma; '' where it lacks them."""
    old, new = (wrong, right) if right else wrong.partition(",")[::2]
    plain, told, new = note.lower(), old.strip(" ,.").lower(), new.strip(" ,.")
    at = re.search(rf"(?<!\w){re.escape(told)}(?!\w)", plain) if told else None
    return f"{note[: at.start()]}{new}{note[at.end() :]}" if at and new and len(plain) == len(note) else ""
