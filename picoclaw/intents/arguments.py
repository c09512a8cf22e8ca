"""The arguments of a call from what a sentence says: figures joined, times shifted, levels stepped, planned calls changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from picoclaw.intents.sentence import Sentence, SentenceSlot, SlotValues
from picoclaw.intents.times import NO_HOUR, count_seconds_between
from picoclaw.text import pattern

CLOCK_TIME = pattern(r"(\d\d):(\d\d)")
_MIN_LEVEL = 5.0  # percent, that "darker" goes down to: "off" is said otherwise
_DUE = pattern(r"\d{4}-\d\d-\d\d \d\d:\d\d")


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


def change_planned(call: str, name: str, value: Any) -> str:
    """A planned call of the tool `output` with another length or output; '' for any other job."""
    tool, _, text = call.partition(" ")
    value = int(value) if name == "seconds" else value
    return f"output {json.dumps(json.loads(text) | {name: value})}" if tool == "output" and text[:1] == "{" else ""


def plan_again(found: SlotValues, result: str) -> SlotValues:
    """A day for the same once more, at the time of day that the last answer named."""
    when, clock = found.get("when"), CLOCK_TIME.search(result)
    if not isinstance(when, dict):
        return found
    day = (
        {"at": f"{when['at']} {clock[0]}"} if clock and CLOCK_TIME.search(str(when.get("at", "00:00"))) is None else {}
    )
    return {name: value for name, value in found.items() if name != "cron_expr"} | {"when": when | day}


def change_days(expression: str, day: str, only: str) -> str:
    """A cron expression on `only` some days, or without one; '' where none would be left, or it has no such form."""
    fields = expression.split(" ", 5)
    if len(fields) < 5:
        return ""
    if only:
        return " ".join([*fields[:4], only, *fields[5:]])
    days: list[int] = []
    for part in fields[4].replace("*", "0-6").split(","):
        first, _, last = part.partition("-")
        days += range(int(first), int(last or first) + 1)
    left = [str(one) for one in days if one not in set(map(int, day.split(",")))]
    return " ".join([*fields[:4], ",".join(left), *fields[5:]]) if left and len(left) < len(days) else ""


def join_figures(found: SlotValues) -> SlotValues:
    """The same where several figures of one series are asked for, which one answer has."""
    more = found[""].get("_more", ()) if isinstance(found.get(""), dict) else ()
    if not more or any(one.keys() != {"_figure"} for one in more):
        return found
    return {name: value for name, value in found.items() if name not in {"", "_figure"}}


def leave_out(found: SlotValues) -> SlotValues:
    """The same without the output that "all but the light" leaves out."""
    every = found.get("name")
    if "_but" not in found or not isinstance(every, dict):
        return found
    names = [str(one["name"]) for one in (every, *every.get("_more", ())) if one["name"] != found["_but"]]
    more = {"_more": [{"name": name} for name in names[1:]]} if len(names) > 1 else {}
    rest = {name: value for name, value in found.items() if name not in {"_but", "name"}}
    return rest | ({"name": {"name": names[0]} | more} if names else {})


def join_end(found: SlotValues) -> SlotValues:
    """The same where an end beside a beginning tells how long: "at 6 ... until 9"."""
    times = [
        CLOCK_TIME.search(str(value.get("at", ""))) if isinstance(value := found.get(name), dict) else None
        for name in ("when", "until")
    ]
    if not times[0] or not times[1]:
        return found
    seconds = count_seconds_between(times[0][0], times[1][0])
    return {name: value for name, value in found.items() if name != "until"} | {"seconds": seconds}


def shift_time(last: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """When the last job comes that much later, in arguments; {} where that is another day, or not known."""
    if "at_seconds" in last:
        moved = float(last["at_seconds"]) + seconds
        return {"at_seconds": int(moved)} if moved > 0 else {}
    expression = str(last.get("cron_expr", ""))
    fields = expression.split(" ")
    clock = CLOCK_TIME.search(str(last.get("at", "")))
    if clock and "cron_expr" not in last:
        minutes = int(clock[1]) * 60 + int(clock[2]) + seconds / 60
    elif len(fields) > 1 and fields[0].isdecimal() and fields[1].isdecimal():
        minutes = int(fields[1]) * 60 + int(fields[0]) + seconds / 60
    else:
        return {}
    if not 0 <= minutes < 24 * 60:
        return {}
    hour, minute = divmod(int(minutes), 60)
    if clock and "cron_expr" not in last:
        return {"at": str(last["at"]).replace(clock[0], f"{hour:02}:{minute:02}")}
    return {"cron_expr": " ".join([str(minute), str(hour), *fields[2:]])}


def shift_due(result: str, seconds: float) -> dict[str, Any]:
    """The same from the moment that the last answer named: "comes on Sat 2026-11-28 17:00"."""
    found = _DUE.search(result)
    moved = datetime.fromisoformat(found[0]) + timedelta(seconds=seconds) if found else None
    return {"at": f"{moved:%Y-%m-%d %H:%M}"} if moved else {}


def find_bare_amount(s: Sentence, found: SlotValues, words: Mapping[str, Mapping[str, Any]]) -> int:
    """The number of "make it 20", which after "in 10 minutes" is no time of day; 0 where none stands alone."""
    if "_job_amount" in found:
        return int(found["_job_amount"])
    numbers = [word for word in s.words if word.isdecimal() or isinstance(words["numbers"].get(word), int)]
    clock = (word for name in ("at", "parts", "days", "oclock", "units", "hours", "offsets") for word in words[name])
    if len(numbers) != 1 or not set(clock).isdisjoint(s.words):
        return 0
    return int(numbers[0]) if numbers[0].isdecimal() else int(words["numbers"][numbers[0]])


def read_amount(amount: int, last: Mapping[str, Any]) -> SlotValues:
    """What a bare number changes of the last order: how long, where it had a length, else the level."""
    if seconds := float(last.get("seconds") or 0):
        unit = next(size for size in (3600, 60, 1) if (seconds >= size and seconds % size == 0) or size == 1)
        return {"seconds": amount * unit, "level": last.get("level", "on")}
    return {"level": str(amount)}


def step_order(level: str, step: str, last: Mapping[str, Any]) -> SlotValues:
    """A level in percent that is so much higher or lower, on is 100 and off 0; with a "*" a share of the level, or of the
    length where that is what was said.
    """
    is_share, size = step[0] == "*", float(step.lstrip("*"))
    if is_share and last.get("seconds") and level == "on":
        seconds = float(last["seconds"]) * size
        return {"seconds": int(seconds) if seconds.is_integer() else seconds}
    now = {"on": 100.0, "off": 0.0}.get(level, 0.0) if level.isalpha() else float(level.rstrip("% "))
    then = now * size if is_share else now + size
    return {"level": f"{min(100.0, max(min(now, _MIN_LEVEL), then)):g}"}
