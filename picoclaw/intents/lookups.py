"""Calls that come before or instead of another: a list for what a wish names by words, another sensor for one that is missing."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from picoclaw.errors import WAITING_FOR_APPROVAL
from picoclaw.intents.changes import (
    DAY_NUMBERS,
    change_days,
    change_weekday,
    keep_half_day,
    leave_out_times,
    list_day_numbers,
)
from picoclaw.intents.conversation import LOOK_UP, find_likest, is_alike, keep_days, keep_named
from picoclaw.intents.grammar import IntentMatch, Wish, fill_fields, make_match
from picoclaw.intents.results import ResultWording
from picoclaw.intents.sentence import ANY_ONE, fold_name
from picoclaw.intents.times import add_half_day
from picoclaw.intents.wishes import WishMatcher
from picoclaw.messages import ERROR_PREFIX, ToolCall
from picoclaw.text import pattern
from picoclaw.times import CRON_WEEKDAYS, WEEKDAYS

NAME_WORD = pattern(r"[^\W\d_]+")
_ALL = "**"
"""Names all that are in the list."""
_CLOCK = pattern(r"\d\d:\d\d")
_LIMIT_ABOVE = pattern(r" above (-?[\d.]+)")
_CLOCK_OF_ROW = pattern(r" at (\d\d):(\d\d)")
_NOT_KEPT, _NOT_MEASURED = f"{ERROR_PREFIX}nothing was kept of that", f"{ERROR_PREFIX}no sensor '"
_NO_OUTPUT = f"{ERROR_PREFIX}there is no output '"
_LEFT_OF_LONGEST, _MAX_PASSED_S = pattern(r" since it was switched on: ask for at most (\d+) s"), 120
"""What is left of the longest time that an output is on, and how little it may lack of "an hour" for that to be meant."""
_NO_SENSOR, _NO_BOARD, WHICH_SENSOR = (
    f"{ERROR_PREFIX}no sensor ",
    f"{ERROR_PREFIX}no board ",
    f"{ERROR_PREFIX}which sensor? ",
)

Rows = Sequence[str]


class Lookup:
    """What is looked up for a wish in one language, and what the wish is with what was found."""

    def __init__(
        self,
        matcher: WishMatcher,
        wording: ResultWording,
        list_waiting: Callable[[], Mapping[int, str]],
        confirmed: Collection[str],
    ) -> None:
        self._matcher, self._wording, self._list_waiting, self._confirmed = matcher, wording, list_waiting, confirmed

    def find_call(self, wishes: Sequence[Wish], offered: Collection[Any]) -> ToolCall | None:
        """The call that lists what one of the wishes names, where there is one."""
        for _, match in wishes:
            if not match or match.tool not in offered:
                continue
            if "_reach" in match.said and match.arguments.get("action") == "add":
                sensor, dot, quantity = str(match.arguments["when"]).partition(" ")[0].partition(".")
                return ToolCall("", "sensor_read", {"quantity": quantity, "sensor": sensor}) if dot else None
            is_sure = match.route != "proposal" or (match.tool in self._confirmed and len(wishes) == 1)
            if "_called" in match.said and is_sure:
                return ToolCall("", match.tool, LOOK_UP)
        return None

    def use(
        self, match: IntentMatch | None, result: str, now: datetime | None, spoken: Sequence[str]
    ) -> list[IntentMatch | None]:
        """Return a wish with what was looked up, for each row where all are meant; of several, one of an output `spoken` of."""
        if match and "_reach" in match.said:
            return [self._choose_side(match, result)]
        name = match.said.get("_called", "") if match else ""
        if not match or not name:
            return [match]
        told = next(iter(self._matcher.tools[match.tool]["gives"].values()))
        rows = {row: found[1] for row in result.splitlines() if (found := re.match(told, row))}
        if name == _ALL:
            ones = (match._replace(arguments=match.arguments | {"job": int(number)}) for number in rows.values())
            return [*map(_forget_name, ones)] or [self._answer(match, self._wording.tell(match, result))]
        is_rule = match.tool == "rule" and name != ANY_ONE
        of_kind = [row for row in rows if str(match.said.get("_text", "")) in row] or [*rows]
        fits = self._find_rules(name, [*rows]) if is_rule else self._find_jobs(name, of_kind, now, spoken)
        if match.tool == "rule" and not fits and (pending := self.name_waiting(match, name)):
            return [pending]
        if len(fits) == 1:
            return [self._use_row(match, fits[0], rows[fits[0]], name)]
        intent = self._matcher.intents[match.intent]
        if not fits and intent.otherwise and ("of_output" not in intent.steps or self._matcher.list_outputs(name)):
            given = {one: value for one, value in match.arguments.items() if one not in intent.arguments}
            other = self._matcher.intents[intent.otherwise]
            return [make_match(other, {**given, "_called": name}, match.score, match.route)]
        named = name if rows or self._list_waiting() else ""
        return [self._ask_which(match, named, [rows[row] for row in fits], result)]

    def tell_waiting(self, match: IntentMatch | None, name: str = "", fits: Rows = ()) -> list[str]:
        """The rules that wait for a yes, each in a line; those of one output where it is named."""
        waiting = {n: one for n, one in self._list_waiting().items() if not name or keep_named(one, name)}
        waiting = {n: one for n, one in waiting.items() if not fits or one in fits}
        shown = ({"number": n, "means": self._wording.tell(match, means)} for n, means in waiting.items())
        return [fill_fields(self._matcher.say["waits"], one) for one in shown]

    def find_retry(
        self, text: str, call: ToolCall, result: str, sensors: Collection[str], offered: Collection[Any]
    ) -> tuple[str, dict[str, Any]] | None:
        """What is called instead of a call that has failed, by what it failed with; None where nothing is."""
        given = call.arguments
        sensor, quantity = str(given.get("sensor") or ""), str(given.get("quantity") or "")
        if result.startswith(_NO_SENSOR) and call.name == "sensor_read" and sensor and "fleet_read" in offered:
            return "fleet_read", {"board": sensor, "sensor": quantity}
        if result.startswith((_NOT_KEPT, _NOT_MEASURED)) and call.name in {"sensor_read", "sensor_history"}:
            if sensor not in sensors or not quantity:
                return None
            if self._matcher.names_quantity(text, quantity):  # of the place before, which has none
                rest = {key: value for key, value in given.items() if key != "sensor"}
                return None if self._matcher.list_named(text, "sensor") else (call.name, rest)
            usual = self._matcher.words["usual"].get(sensor, "")
            rest = {key: value for key, value in given.items() if key != "quantity"}
            return call.name, rest | ({"quantity": usual} if usual not in {"", quantity} else {})
        left = _LEFT_OF_LONGEST.search(result) if call.name == "output" else None
        if left and 0 < given.get("seconds", 0) - int(left[1]) <= _MAX_PASSED_S < int(left[1]):
            return "output", given | {"seconds": int(left[1])}  # "no, an hour", of what has been on for a moment
        if result.startswith(_NO_OUTPUT) and call.name == "rule":
            output = self._matcher.find_meant_output(given["output"])
            mended = {
                name: given[name].replace(given["output"], output) for name in ("output", "notify") if name in given
            }
            return ("rule", given | mended) if output else None
        if result.startswith(WHICH_SENSOR) and given.get("output") and "rule" in self._confirmed:
            names = self._matcher.words["names"].values()
            meant = {word for named in names if named.startswith("inside") for word in named.split()}
            inside = [one for one in result.partition(";")[0].replace(",", "").split() if one in meant]
            if len(inside) == 1:  # what is shown first may be taken for granted
                return "rule", given | {"when": f"{inside[0]}.{given['when']}"}
        return None

    def _find_jobs(self, name: str, rows: Rows, now: datetime | None, spoken: Sequence[str]) -> Rows:
        """The rows that a name means: by its words, else by the day it names, else by the time of day."""
        if name == ANY_ONE:
            near = ([row for row in rows if one in row.split(": ")[0].split()] for one in spoken)
            return next((found for found in near if len(found) == 1), rows)
        day = self._read_weekday(name)
        called = (name, day, day[:3], *self._matcher.list_outputs(name))
        if fits := [row for row in rows if any(_is_called(one, row) for one in called)]:
            return fits  # "the one on sunday" as well
        due = self._matcher.read_due_day(self._drop_on(name)) if now else ""
        if now and due and (fits := keep_days("\n".join(rows), due, now.date()).splitlines()) and fits[0] in rows:
            return fits
        clocks = self._read_clocks(name)
        return [row for row in rows if any(f" {clock}" in row for clock in clocks)]

    def _find_rules(self, name: str, rows: Rows) -> Rows:
        """The rules, whose rows are not in the owner's words, that have most of those of a name; by the clock where that says "at night"."""
        if self._matcher.names_part_of_day(name):
            rows = [row for row in rows if _CLOCK_OF_ROW.search(row)]
        return [rows[n] for n in find_likest(self._matcher.list_like(name) or name.split(), rows)]

    def name_waiting(self, match: IntentMatch, name: str) -> IntentMatch | None:
        """What to say where the rule that is to be changed waits for its yes yet; None where it does not."""
        waiting = self._list_waiting()
        fits = [*waiting.values()] if name == ANY_ONE else self._find_rules(name, [*waiting.values()])
        fits = [means for number, means in waiting.items() if name == str(number)] or fits
        if len(fits) != 1:
            return self._answer(match, "\n".join(self.tell_waiting(match, fits=fits))) if fits else None
        number = next(number for number, means in waiting.items() if means == fits[0])
        return self._answer(match, fill_fields(self._matcher.intents["rule_waits"].answer, {"waits": number}))

    def _use_row(self, match: IntentMatch, row: str, number: str, name: str) -> IntentMatch:
        """The wish for one row of a list: of several days or times of day, the others stay where one is removed."""
        one: dict[str, Any] = {"name": number} if match.tool == "rule" else {"job": int(number)}
        spans = (numbers for named, numbers in DAY_NUMBERS.items() if f" every {named} at" in row)
        named = (n for n, one in enumerate(CRON_WEEKDAYS) if f" {one}" in row)
        days = ",".join(map(str, sorted(list_day_numbers(next(spans, ""))) or named))
        clock = _CLOCK_OF_ROW.search(row)
        weekly = f"{int(clock[2])} {int(clock[1])} * * {days}" if clock and days else ""
        if match.arguments.get("action") == "remove":
            day = self._read_weekday(name)
            if day and "," in days and weekly:
                left = change_days(weekly, str(CRON_WEEKDAYS.index(day)), "")
            else:
                left = leave_out_times(row, self._read_clocks(name), days)
            one |= {"action": "move", "cron_expr": left} if left else {}
        moved = keep_half_day(match.arguments | one, {"at": clock[0] if clock else ""}, "")
        return _forget_name(match._replace(arguments=change_weekday(moved, {"cron_expr": weekly})))

    def _ask_which(self, match: IntentMatch, name: str, numbers: Sequence[str], result: str) -> IntentMatch:
        """Ask which of several rows is meant, or say that none is; no `name` where there is none at all."""
        say, exact = self._matcher.say, self._matcher.intents[match.intent].exact
        text = fill_fields(say["several" if numbers else "unnamed"], {"name": name, "exact": exact})
        if name in {ANY_ONE, ""}:
            text = fill_fields(say["which"], {"names": ", ".join(numbers)}) if numbers else ""
        waits = [] if numbers and match.tool != "rule" else self.tell_waiting(match._replace(tool="rule"))
        return self._answer(match, "\n".join([text, self._wording.tell(match, result), *waits]).strip())

    def _choose_side(self, match: IntentMatch, reading: str) -> IntentMatch:
        """A rule for when a value gets to a limit: it is below it where the value is above it now."""
        now = re.search(self._matcher.tools["sensor_read"]["row"], reading)
        side = _LIMIT_ABOVE.search(str(match.arguments["when"]))
        said = {name: value for name, value in match.said.items() if name != "_reach"}
        if not now or not now["value"] or not side or float(now["value"]) <= float(side[1]):
            return match._replace(said=said)
        turned = {"when": str(match.arguments["when"]).replace(" above ", " below ")}
        if "notify" in match.arguments:
            turned["notify"] = self._wording.tell(match, turned["when"].replace(".", ": ", 1))
        return match._replace(arguments=match.arguments | turned, said=said)

    def _read_weekday(self, name: str) -> str:
        """The day of the week that a name is; '' for none."""
        day = str(self._matcher.words["days"].get(fold_name(self._drop_on(name).lower()), ""))
        return day if day in WEEKDAYS else ""

    def _drop_on(self, name: str) -> str:
        """A name without the "on" that it begins with, as "am Sonntag" does."""
        first, _, rest = name.partition(" ")
        return rest if rest and first.lower() in self._matcher.words["on"] else name

    def _read_clocks(self, name: str) -> list[str]:
        """The times of day that a name may be, "the 7 o'clock one" both 07:00 and 19:00."""
        at = next(iter(self._matcher.words["at"]))
        hours = [*filter(_CLOCK.fullmatch, self._matcher.list_like(f"{at} {name}"))]
        return [*dict.fromkeys([*hours, *map(add_half_day, hours)])]

    @staticmethod
    def _answer(match: IntentMatch, text: str) -> IntentMatch:
        return match._replace(tool="", answer=text, said={})


def merge_calls(calls: list[tuple[ToolCall, str]]) -> list[tuple[ToolCall, str]]:
    """The calls of a turn without what was only looked up, and without one that failed where another was made instead."""
    names = [call.name for call, _ in calls]
    if len(calls) != 2 or calls[1][0].id == f"{calls[0][0].id}-1":
        return calls  # "fan and lamp on": both were made at once
    (asked, own), (_, other) = calls
    if names == ["sensor_read", "fleet_read"]:
        return [(asked, own if other.startswith(_NO_BOARD) else other)]
    is_instead = own.startswith((_NOT_KEPT, _NOT_MEASURED, WHICH_SENSOR, _NO_OUTPUT))
    is_instead |= own.startswith(ERROR_PREFIX) and _LEFT_OF_LONGEST.search(own) is not None
    has_failed = other.startswith(ERROR_PREFIX) and WAITING_FOR_APPROVAL not in other
    return calls[1:] if is_instead and names[0] == names[1] and not has_failed else calls


def _forget_name(match: IntentMatch) -> IntentMatch:
    return match._replace(missing="", said={key: value for key, value in match.said.items() if key != "_called"})


def _is_called(name: str, row: str) -> bool:
    """Whether each word of a name is in a row of a list, an ending more or less: "watering" is "water the plants"."""
    words = [fold_name(word) for word in NAME_WORD.findall(row.lower())]
    wanted = [fold_name(word) for word in NAME_WORD.findall(name.lower()) if len(word) > 1]
    return bool(wanted) and all(any(is_alike(one, word) for word in words) for one in wanted)
