"""The `rule` tool: automation rules that run without a model, once the owner has approved them."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from picoclaw import schedules
from picoclaw.automation import conditions, rules
from picoclaw.automation.clock import wake_all
from picoclaw.errors import ConfigError, ToolError
from picoclaw.messages import Caller
from picoclaw.outputs import config
from picoclaw.records import NamedTuple
from picoclaw.schema import find_nearest
from picoclaw.security.policy import Effect
from picoclaw.text import pattern
from picoclaw.times import format_duration, parse_zone
from picoclaw.tools.registry import tool
from picoclaw.workspace import find_outputs_file

if TYPE_CHECKING:
    from picoclaw.automation.rules import RuleSet


Measured = Callable[[], Mapping[str, Sequence[str]]]
_OPTIONS = (
    "lasts: 5 minutes; instead: 10 minutes if greenhouse.temperature max yesterday > 37;"
    " level, only_if, margin, cooldown, again, ask"
)


class _RuleDraft(NamedTuple):
    """A rule before a call is done: what the call writes of it, what it is then, in words, and whether it was there."""

    name: str
    table: Mapping[str, Any]
    told: str
    is_known: bool


class RuleTool:
    def __init__(
        self,
        home: Path,
        measured: Measured,
        zone: Callable[[], str] = lambda: "",
        waiting: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`measured()` gives the sensors and their quantities, `zone()` the owner's time zone, `waiting()` the names of the
        rules that wait for a yes.
        """
        self._home, self._measured, self._zone, self._waiting = home, measured, zone, waiting

    def _complete(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Name a new rule as no other is named, kept or waiting, and fix what "until monday" is in its `paused`."""
        done: dict[str, Any] = {}
        options, now = arguments["options"] or {}, self._read_clock()
        if str(options.get("paused", "")).startswith("until "):
            done["options"] = {**options, "paused": _fix_pause(str(options["paused"]), now)}
        if arguments["action"] == "add" and not arguments["name"].strip():
            names = _list_names(self._load(now))
            done["name"] = make_rule_name(self._make_table({**arguments, **done}), {*names, *self._waiting()})
        return done

    def _read_clock(self) -> datetime:
        """The time now, in the zone in which rules are kept."""
        now, zone = datetime.now().astimezone(), self._zone()
        return now.astimezone(parse_zone(zone)) if zone else now

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        action = arguments["action"]
        if action == "list":
            return "read"
        try:
            draft = self._draft(arguments, self._read_clock())
        except ConfigError as error:
            raise ToolError(f"the rule cannot be: {error}") from None
        if action == "add" and draft.is_known:
            raise ToolError(f"there is a rule {draft.name!r} already: remove it first, or choose another name")
        return "instruct"

    def _means(self, arguments: Mapping[str, Any]) -> str:
        draft = self._draft(arguments, self._read_clock())
        until = f"from {draft.table['paused']} not: " if draft.table.get("paused") else "until it is resumed, not: "
        does = {"remove": "no longer: ", "pause": until, "resume": "again: "}
        return does.get(arguments["action"], "") + draft.told

    def _is_private(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments.get("action", "list") == "list")

    @tool(effect=_effect, means=_means, private=_is_private, completes=_complete)
    def rule(
        self,
        action: Literal["list", "add", "remove", "pause", "resume", "change"],
        caller: Caller,
        name: str = "",
        when: Annotated[
            str, "greenhouse.temperature > 35 for 10 minutes; every day at 6:00; change: 30; pause: friday"
        ] = "",
        notify: str = "",
        output: str = "",
        options: Annotated[dict[str, Any] | None, _OPTIONS] = None,
    ) -> str:
        """Keep rules that notify the user or switch an output when a condition becomes true."""
        if action == "list":
            found, rows, number = self._load(caller.now), [], 0
            for known, row in zip((*found.rules, *found.problems), explain_rules(found), strict=True):
                number += bool(known)
                rows.append(f"{number}. {row}" if known else row)
            return "\n".join(rows) or "no rules"
        name, table, told, is_known = self._draft(locals(), caller.now)
        if action == "remove":
            rules.remove_rule(self._home, name)
        elif is_known and action != "add":
            rules.change_rule(self._home, name, table)
        else:
            rules.add_rule(self._home, name, table, caller.now, self._zone())
        wake_all(self._home)
        if action == "pause" and table.get("paused"):
            return f"rule {name} is paused from {table['paused'].replace('; ', ', and from ')}"
        if done := {"remove": "removed", "pause": "paused", "resume": "followed again"}.get(action):
            return f"rule {name} is {done}"
        return f"the rule is {'kept' if action == 'add' else 'changed'}: {told}"

    def _draft(self, arguments: Mapping[str, Any], now: datetime) -> "_RuleDraft":
        """The rule that a call names, as it is after the call; a number in `when` of a change is another limit.

        With a whole condition, one to be changed need not be there yet: its first form may still wait for a yes.
        """
        action, said, found = arguments["action"], arguments["name"].strip(), self._load(now)
        names = _list_names(found)
        limit = arguments["when"].strip() if action == "change" else ""
        writes = action in {"add", "change"}
        table = self._make_table(arguments) if writes and not _NUMBER.fullmatch(limit) else {}
        name = "" if action == "add" else match_rule_name(said, names)
        if not name and action != "add" and "when" not in table:
            raise ToolError(f"there is no rule {said!r}; there are: {', '.join(names) or 'none'}")
        name = name or said or make_rule_name(table, names)
        known = found.rules.get(name)
        if not writes:
            table = rules.PAUSE_CHANGES.get(action, {})
            if action == "pause" and (until := arguments["when"].strip()):
                table = {"paused": _make_pauses(name, known, until, now), "enabled": None}
            told = rules.explain_rule(known) if known else f"{name}, which is not followed"
            return _RuleDraft(name, table, told, True)
        if action == "change":
            table = table or _change_limit(name, known, limit)
        written = vars(known.written) if known and action == "change" else {}
        made, measured = rules.parse_rule(name, written | table, now, self._zone()), self._measured()
        _require_measured(made, measured)
        _require_declared(made, self._home)
        told = "\nbut ".join([rules.explain_rule(made), *list_doubts(made, self._home, measured)])
        return _RuleDraft(name, table, told, name in names)

    def _make_table(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What is written of a rule; a bare quantity gets its only sensor."""
        every = {key: arguments[key] for key in ("when", "notify", "output")} | (arguments["options"] or {})
        table = {key: value for key, value in every.items() if value is not None and value != ""}
        if isinstance(table.get("when"), str):
            table["when"] = complete_sensor(table["when"], self._measured)
        return table

    def _load(self, now: datetime) -> "RuleSet":
        return rules.load_rules(self._home, now, self._zone())


# What the `rule` tool and `picoclaw rules` say of rules: in plain words, and what keeps them from working.

_BEYOND = pattern(r" (?:[<>]|is|above|below|over|under|at|rises|falls|more|less|higher|lower)\b|[<>]")
_NUMBER = pattern(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.]*\w)")
_MAX_STEM_CHARS = 24
_OF_BOARD = frozenset({"cpu"})
"""Sensors of the board itself, which nobody means who names no place."""


def explain_rules(found: rules.RuleSet) -> Iterator[str]:
    """Explain every rule, and say which are not followed."""
    yield from (rules.explain_rule(one) for one in found.rules.values())
    yield from (f"not followed: {problem}" for problem in found.problems.values())


def _list_names(found: "RuleSet") -> list[str]:
    return [name for name in (*found.rules, *found.problems) if name]


def match_rule_name(name: str, names: Sequence[str]) -> str:
    """Find a rule by number or by name, however it is written; '' for none or several."""
    plain = _fold_name(name)
    if name.strip() in names or not plain:
        return name.strip() if plain else ""
    if plain.isdecimal():
        return names[int(plain) - 1] if len(plain) < 4 and 0 < int(plain) <= len(names) else ""
    fits = [known for known in names if _fold_name(known) == plain]
    return fits[0] if len(fits) == 1 else ""


def _fold_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower(), flags=re.ASCII)


def make_rule_name(table: Mapping[str, object], names: Collection[str]) -> str:
    """Make a name from the rule's output, or from what it looks at."""
    what = str(table.get("output") or _BEYOND.split(str(table.get("when", "")))[0])
    stem = re.sub(r"[\W_]+", "_", what.lower(), flags=re.ASCII)[:_MAX_STEM_CHARS].strip("_")
    stem = stem if stem[:1].isalpha() else "rule"
    return next(name for n in count(1) if (name := stem if n == 1 else f"{stem}_{n}") not in names)


def list_doubts(made: rules.Rule, home: Path, measured: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Say what keeps a rule from working: a sensor or output that is missing or not allowed."""
    yield from _list_unmeasured(made, measured)
    if not made.written.output:
        return
    outputs = config.load_outputs(find_outputs_file(home)).outputs
    name = config.match_name(made.written.output, outputs)
    if name not in outputs:
        yield f"there is no output {name!r}{find_nearest(name, outputs) if outputs else ': outputs.toml declares none'}"
    elif "rule" not in outputs[name].who:
        yield f'rules may not switch {name}: its declaration needs who = ["owner", "rule"]'
    elif (longest := outputs[name].longest_on_s) < (made.lasts_s or 0.0):
        yield f"{name} may be on for {format_duration(longest, exact=True)} at most, and is not switched on for longer"
    elif config.load_armed(home).get(name) != outputs[name].digest:
        yield f"{name} is not armed, so it will not be driven: `picoclaw outputs arm {name}`"


def _fix_pause(text: str, now: datetime) -> str:
    """Write "until monday" as a rule has it; what is no such time stays as it is, and is refused as every other."""
    try:
        return rules.format_pauses((schedules.parse_pause(text, now, lambda *_: []),), now)
    except ValueError:
        return text


def _make_pauses(name: str, rule: rules.Rule | None, text: str, now: datetime) -> str:
    """What is written of a rule that is left out for some time, beside its other pauses. Raises ToolError."""
    if rule is None:
        raise ToolError(f"{name} is not followed anyway: `picoclaw rules` says why")

    def list_times(after: datetime, most: int) -> list[datetime]:
        found = rule.condition
        slots = schedules.list_occurrences(found.plan, after, most) if isinstance(found, conditions.Calendar) else ()
        return [slot.moment.astimezone(after.tzinfo) for slot in slots]

    try:
        pause = schedules.parse_pause(
            text, now, lambda after, most: schedules.list_coming(rule.paused, after, most, list_times)
        )
        first = datetime.fromtimestamp(pause[0], now.tzinfo)
        planned = list_times(first, 1) if isinstance(rule.condition, conditions.Calendar) else [first]
        if not planned or planned[0].timestamp() >= pause[1]:
            raise ToolError(f"{name} was left as it is: it does nothing then")
        return rules.format_pauses(schedules.add_pause(rule.paused, pause, now.timestamp()), now)
    except (ValueError, OverflowError) as error:
        raise ToolError(f"{name} was left as it is: {error}") from None


def _change_limit(name: str, rule: rules.Rule | None, limit: str) -> dict[str, str]:
    """What is written otherwise of a rule with another limit, in its condition and its message. Raises ToolError."""
    if rule is None or not isinstance(rule.condition, conditions.Threshold) or not _NUMBER.fullmatch(limit):
        raise ToolError(f"{name} has no limit to be changed to {limit!r}: remove the rule, and add another one")
    changed = {}
    for key, text in (("when", rule.written.when), ("notify", rule.written.notify)):
        if found := next((one for one in _NUMBER.finditer(text) if float(one[0]) == rule.condition.limit), None):
            changed[key] = f"{text[: found.start()]}{limit}{text[found.end() :]}"
    return changed


def _require_measured(made: rules.Rule, measured: Mapping[str, Sequence[str]]) -> None:
    """Refuse a rule on what nothing measures: it would wait for ever. Raises ToolError."""
    if problem := next(_list_unmeasured(made, measured), ""):
        raise ToolError(f"{problem.partition('; known:')[0]}; {_describe_measured(measured)}".replace("?; ", "? "))


def _require_declared(made: rules.Rule, home: Path) -> None:
    """Refuse a rule of an output that is not among those declared, where there are some. Raises ToolError."""
    outputs = config.load_outputs(find_outputs_file(home)).outputs
    if made.written.output and outputs and (name := config.match_name(made.written.output, outputs)) not in outputs:
        raise ToolError(f"there is no output {name!r}; declared: {', '.join(outputs)}")


def complete_sensor(when: str, measured: Callable[[], Mapping[str, Sequence[str]]]) -> str:
    """Complete "humidity above 80" by the only sensor that measures it, besides the board's own.

    Raises ToolError naming the sensors where there is none, or several.
    """
    quantity = conditions.find_bare_quantity(when)
    if not quantity:
        return when
    there = measured()
    found = [
        sensor for sensor, quantities in there.items() if quantity in {each.partition(" ")[0] for each in quantities}
    ]
    fits = [sensor for sensor in found if sensor not in _OF_BOARD] or found
    if len(fits) == 1:
        return f"{fits[0]}.{conditions.normalize_condition(when)}"
    if not fits:
        raise ToolError(f"no sensor here measures {quantity}; {_describe_measured(there)}")
    raise ToolError(
        f"which sensor? {quantity} is measured by {', '.join(fits)}; name one, as in: tell me when the {fits[0]}"
        f" {quantity} is above 30"
    )


def _describe_measured(measured: Mapping[str, Sequence[str]]) -> str:
    there = ", ".join(f"{sensor} ({', '.join(quantities)})" for sensor, quantities in measured.items())
    return f"measured are: {there}" if there else "no sensor is set up"


def _list_unmeasured(made: rules.Rule, measured: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for sensor, quantity in made.series:
        quantities = measured.get(sensor)
        if quantities is None:
            yield f"there is no sensor {sensor!r}{find_nearest(sensor, dict.fromkeys(measured)) if measured else ''}"
        elif quantities and quantity not in quantities:
            yield f"{sensor} does not measure {quantity}; it measures {', '.join(quantities)}"
