"""A rule as the owner writes it in `rules.toml`, and what is meant by it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from picoclaw import ranges
from picoclaw.config import fitted
from picoclaw.errors import ConfigError
from picoclaw.rules.conditions import (
    Calendar,
    Condition,
    Gate,
    Threshold,
    amount,
    condition,
    gate,
    gate_worded,
    worded,
)
from picoclaw.schema import Span
from picoclaw.store.points import Series

NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_COOLDOWN_S = 600.0
_LEVEL = re.compile(r"on|off|\d{1,2}(?:\.\d+)? ?%?|100 ?%?")
_INSTEAD = re.compile(r"(.+?) if (.+)")


@dataclass(frozen=True, slots=True)
class Written:
    """[rules.NAME]: when it fires, and what it does then."""

    when: Annotated[str, "such as 'greenhouse.temperature > 35 for 10 minutes' or 'every day at 6:00'"]
    only_if: Annotated[str, "such as 'greenhouse.temperature max yesterday > 30'"] = ""
    notify: Annotated[str, "what the owner is told"] = ""
    output: Annotated[str, "the output to switch"] = ""
    level: Annotated[str, "on, off or percent"] = "on"
    lasts: Annotated[str, "how long, such as '5 minutes'"] = ""
    instead: Annotated[str, "such as '10 minutes if greenhouse.temperature max yesterday > 37'"] = ""
    ask: Annotated[str, "what the model is asked to do"] = ""
    margin: Annotated[float, Span(0, 1e9), "how far it has to come back before the rule fires anew"] = 0.0
    cooldown: Annotated[str, "shortest time between two firings"] = ""
    again: Annotated[str, "fires anew after this time while it stays so"] = ""
    enabled: bool = True


class Rule(NamedTuple):
    """A rule that can be followed; `lasts_s` None is as long as the output may, `again_s` 0 not at all."""

    name: str
    written: Written
    condition: Condition
    only_if: Gate | None = None
    lasts_s: float | None = None
    instead: tuple[float, Gate] | None = None
    cooldown_s: float = 0.0
    again_s: float = 0.0

    @property
    def series(self) -> list[Series]:
        """What has to be measured for it: what it follows first, then what it looks back at."""
        gates = [gate for gate in (self.only_if, self.instead[1] if self.instead else None) if gate]
        followed = [] if isinstance(self.condition, Calendar) else [self.condition.series]
        return list(dict.fromkeys([*followed, *(gate.series for gate in gates)]))

    @property
    def late_ok(self) -> bool:
        """Whether it may be done late: words may, an output never."""
        return not self.written.output


def made(name: str, table: Any, now: datetime, zone: str = "") -> Rule:
    """Make a rule of a table; raises ConfigError naming the key, what is wrong and what to write."""
    if not NAME.fullmatch(name):
        raise ConfigError("the name must be lower-case letters, digits, - and _, at most 31")
    written: Written = fitted(Written, table, "it")
    key = "when"
    try:
        found = condition(written.when, zone)
        key = "only_if"
        only_if = gate(written.only_if, now) if written.only_if else None
        key = "lasts"
        lasts_s = ranges.seconds(written.lasts) if written.lasts else None
        key = "instead"
        instead = _instead(written.instead, now) if written.instead else None
        key = "cooldown"
        usual = 0.0 if isinstance(found, Calendar) else _COOLDOWN_S
        cooldown_s = ranges.seconds(written.cooldown) if written.cooldown else usual
        key = "again"
        again_s = ranges.seconds(written.again) if written.again else 0.0
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    rule = Rule(name, written, found, only_if, lasts_s, instead, cooldown_s, again_s)
    if problem := next(_faults(rule), ""):
        raise ConfigError(problem)
    return rule


def _instead(text: str, now: datetime) -> tuple[float, Gate]:
    match = _INSTEAD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:60]!r} is not like '10 minutes if greenhouse.temperature max yesterday > 37'")
    return ranges.seconds(match[1]), gate(match[2], now)


def _faults(rule: Rule) -> Iterator[str]:
    """Combinations that cannot be meant; the first is told."""
    written = rule.written
    if not (written.notify or written.output or written.ask):
        yield "it does nothing: give notify, output or ask"
    if not _LEVEL.fullmatch(written.level):
        yield f"level: {written.level[:40]!r} is no level: use on, off, or a duty from 0 to 100 percent"
    if not written.output and (written.lasts or written.instead or written.level != "on"):
        yield f"{'lasts' if written.lasts else 'instead' if written.instead else 'level'} is only for an output"
    if written.margin and not isinstance(rule.condition, Threshold):
        yield "margin: only a value that is above or below a limit has one"
    if written.again and isinstance(rule.condition, Calendar):
        yield "again: a time of day comes again by itself"


def explained(rule: Rule) -> str:
    """Say in plain words what a rule does."""
    when = worded(rule.condition)
    said = when if isinstance(rule.condition, Calendar) else f"when {when}"
    gates = [f", if {gate_worded(rule.only_if)}"] if rule.only_if else []
    limits = "; ".join(_limits(rule))
    off = "" if rule.written.enabled else " It is switched off (enabled = false)."
    return f"{rule.name}: {said}{''.join(gates)}: {' and '.join(acts(rule))}.{f' {limits}.' if limits else ''}{off}"


def acts(rule: Rule) -> Iterator[str]:
    """Name what a rule does when it fires."""
    written = rule.written
    if written.output:
        lasts = f"for {ranges.shown(rule.lasts_s)}" if rule.lasts_s else "for as long as it may be"
        other = f" ({ranges.shown(rule.instead[0])} if {gate_worded(rule.instead[1])})" if rule.instead else ""
        yield f"switch {written.output} {written.level} {lasts}{other}"
    if written.notify:
        yield f"tell you {written.notify!r}"
    if written.ask:
        yield f"ask the model {written.ask!r}, which costs tokens and needs it to be reachable"


def _limits(rule: Rule) -> Iterator[str]:
    found = rule.condition
    if isinstance(found, Threshold) and rule.written.margin:
        back = found.limit + (-rule.written.margin if found.op[0] == ">" else rule.written.margin)
        yield f"Fires anew once it has come back to {amount(back, found.series)}"
    if rule.again_s:
        yield f"While it stays so, again every {ranges.shown(max(rule.again_s, rule.cooldown_s))}"
    if rule.cooldown_s:
        yield f"Never twice within {ranges.shown(rule.cooldown_s)}"
    if isinstance(found, Calendar) and not rule.late_ok:
        yield "Not done late when the board was off"
