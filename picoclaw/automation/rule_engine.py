"""Whether a rule fires now: arithmetic on what was measured, what was before, and clocks that are handed in.

Lengths of time are counted in seconds since the boot, which no clock that is set can move; times of day need a clock
that something vouches for, and wait without one.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from functools import partial

from picoclaw import times
from picoclaw.automation.conditions import (
    Calendar,
    Gate,
    Missing,
    SensorCondition,
    Threshold,
    ValueChange,
    compute_change,
    format_amount,
    has_changed,
    is_beyond,
)
from picoclaw.automation.rules import Rule, RuleSet, format_switch
from picoclaw.errors import PicoclawError, StoreError
from picoclaw.hw.reading import Reading
from picoclaw.records import NamedTuple, asdict, dataclass, replace
from picoclaw.schedules import DoneSpans, add_done, find_due, find_next, is_paused
from picoclaw.store.samples import ClockReading, RuleLog, SampleSpan, Series
from picoclaw.text import pattern
from picoclaw.times import format_duration

_GRACE_S = 120.0
_DAY_S = 86_400.0
_MAX_RECENT = 60


RuleSample = tuple[float | None, str]
"""What was measured: a value to be believed, or None and why there is none."""


class LastFiring(NamedTuple):
    """When a rule fired last; `wall` is 0 when no clock was to be trusted."""

    boot: str
    mono: float
    wall: float


class RuleFiring(NamedTuple):
    """A firing with its cause; `skipped` says why nothing is done."""

    rule: Rule
    why: str
    skipped: str = ""


@dataclass(frozen=True)
class RuleState:
    """The state of a rule: since when its condition holds, whether it has fired for that, and which times were handled."""

    when: str = ""
    boot: str = ""
    seen: float = 0.0
    since: float | None = None
    held: bool = False
    recent: tuple[tuple[float, float], ...] = ()
    fired: LastFiring | None = None
    looked: float = 0.0
    done: DoneSpans = ()

    def dump(self) -> str:
        """Serialise the state; the time of the last sample only where it matters, to save writes."""
        quiet = {} if self.since is not None or self.recent else {"seen": 0.0}
        return json.dumps({key: value for key, value in (asdict(self) | quiet).items() if value})


def load_state(text: str) -> RuleState:
    """Read what `dump` wrote; what does not fit is a rule that was never looked at."""
    try:
        kept = json.loads(text)
        fired = kept.pop("fired", None)
        recent = tuple((float(at), float(value)) for at, value in kept.pop("recent", ()))
        done = tuple((float(first), float(last)) for first, last in kept.pop("done", ()))
        return RuleState(**kept, recent=recent, done=done, fired=LastFiring(*fired) if fired else None)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return RuleState()


def evaluate_rule(
    rule: Rule, state: RuleState, sample: RuleSample | None, now: ClockReading, stale_s: float
) -> tuple[RuleState, RuleFiring | None]:
    """Evaluate a rule; `sample` is the newest reading of its sensor, None if it was not read.

    A silence of more than `stale_s` seconds counts as a new beginning, because nobody knows what was meanwhile.
    """
    condition = rule.condition
    if state.when != rule.written.when:
        state = RuleState(rule.written.when, fired=state.fired)
    if isinstance(condition, Calendar):
        return _evaluate_calendar(rule, condition, state, now)
    if is_paused(rule.paused, now.wall.timestamp()):  # as if it was not followed
        return RuleState(rule.written.when, fired=state.fired), None
    if sample is None:
        if not isinstance(condition, Missing):
            return state, None
        sample = (None, "it was not measured")
    if state.boot != now.boot:
        state = replace(state, since=None, recent=())
    elif now.mono - state.seen > stale_s:
        state = replace(state, since=None)
    before, state = state, replace(state, boot=now.boot, seen=now.mono)
    state, so, why = _check_condition(condition, rule.written.margin, state, sample)
    if so is None:
        return before, None
    if not so:
        return replace(state, since=None, held=False), None
    since = now.mono if state.since is None else state.since
    state = replace(state, since=since)
    held, hold_s = now.mono - since, 0.0 if isinstance(condition, ValueChange) else condition.hold_s
    if held < hold_s or not _may_fire(rule, state, now):
        return state, None
    why = f"{why} for {format_duration(held)}" if held >= 1 and hold_s else why
    return replace(state, held=True, fired=_make_last_firing(now)), RuleFiring(rule, why)


def _check_condition(
    condition: SensorCondition, margin: float, state: RuleState, sample: RuleSample
) -> tuple[RuleState, bool | None, str]:
    """Check the condition: the new state, whether it holds (None if unknown), and the reading in words."""
    what, (value, problem) = f"{condition.series.sensor} {condition.series.quantity}", sample
    if isinstance(condition, Missing):
        return state, value is None, f"{what}: {problem or 'no value'}"
    if value is None:
        return state, None, ""
    why = f"{what} {format_amount(value, condition.series)}"
    if isinstance(condition, Threshold):
        back = margin if state.held else 0.0
        limit = condition.limit - (back if condition.op[0] == ">" else -back)
        return state, is_beyond(condition.op, value, limit), why
    state = replace(state, recent=_update_recent(condition, state, value))
    values = [*(recent for _, recent in state.recent), value]
    moved = format_amount(compute_change(condition, values), condition.series)
    return state, has_changed(condition, values), f"{why}, {'up' if condition.rises else 'down'} {moved}"


def _update_recent(condition: ValueChange, state: RuleState, value: float) -> tuple[tuple[float, float], ...]:
    """The values of the window and the newest one, thinned out: of neighbours, the most extreme is kept."""
    kept = [(at, old) for at, old in state.recent if state.seen - at <= condition.within_s]
    apart = condition.within_s / _MAX_RECENT
    if not kept or state.seen - kept[-1][0] >= apart:
        kept.append((state.seen, value))
    elif value < kept[-1][1] if condition.rises else value > kept[-1][1]:
        kept[-1] = (state.seen, value)
    return tuple(kept)


def _may_fire(rule: Rule, state: RuleState, now: ClockReading) -> bool:
    passed = get_seconds_since_fired(state, now)
    if passed is None:
        return not state.held
    if passed < rule.cooldown_s:
        return False
    return not state.held or bool(rule.again_s and passed >= rule.again_s)


def get_seconds_since_fired(state: RuleState, now: ClockReading) -> float | None:
    """Seconds since the last firing, at the least; None when there was none."""
    if state.fired is None:
        return None
    if state.fired.boot == now.boot:
        return now.mono - state.fired.mono
    by_wall = now.wall.timestamp() - state.fired.wall if now.trusted and state.fired.wall else 0.0
    return max(now.mono, by_wall)


def _make_last_firing(now: ClockReading) -> LastFiring:
    return LastFiring(now.boot, now.mono, now.wall.timestamp() if now.trusted else 0.0)


def _evaluate_calendar(
    rule: Rule, condition: Calendar, state: RuleState, now: ClockReading
) -> tuple[RuleState, RuleFiring | None]:
    if not now.trusted:
        return state, None
    wall = now.wall.timestamp()
    if not state.looked or wall < state.looked - _DAY_S:  # new, or the clock was far ahead
        return replace(state, looked=wall), None
    due = find_due(condition.plan, state.looked, wall, state.done)
    if due is None:
        return state, None
    state = replace(state, looked=wall, done=add_done(condition.plan, state.done, due.last))
    if is_paused(rule.paused, due.last.moment.timestamp()):
        return state, None
    passed = get_seconds_since_fired(state, now)
    if rule.cooldown_s and passed is not None and passed < rule.cooldown_s:
        return state, None
    late_s = wall - due.last.moment.timestamp()
    why = f"it was {_format_moment(due.last.moment, now)}" + (f", {due.counted} before it missed" if due.others else "")
    late = late_s > _GRACE_S
    skipped = "an output is not switched late" if late and not rule.late_ok else ""
    fired = state.fired if skipped else _make_last_firing(now)
    return replace(state, fired=fired), RuleFiring(rule, why + f", {format_duration(late_s)} ago" * late, skipped)


def _format_moment(moment: datetime, now: ClockReading) -> str:
    local = moment.astimezone(now.wall.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.wall.date() else f"{local:%Y-%m-%d %H:%M}"


def get_rule_wait(rule: Rule, state: RuleState, now: ClockReading) -> float | None:
    """Seconds until a rule has to be looked at though nothing was measured, None for never."""
    if not isinstance(rule.condition, Calendar) or not now.trusted:
        return None
    wall = now.wall.timestamp()
    slot = find_next(rule.condition.plan, max(wall, state.looked), state.done)
    return None if slot is None else max(0.0, slot.moment.timestamp() - wall)


def describe_state(rule: Rule, state: RuleState, now: ClockReading) -> str:
    passed = get_seconds_since_fired(state, now)
    fired = "has not fired yet" if passed is None else f"fired {format_duration(passed)} ago"
    if isinstance(rule.condition, Calendar):
        slot = find_next(rule.condition.plan, now.wall.timestamp(), state.done, rule.paused) if now.trusted else None
        then = f"next {slot.moment:%a %Y-%m-%d %H:%M}" if slot else "never comes"
        return f"{fired}, {then if now.trusted else 'waits until the clock is set'}"
    if state.held:
        return f"{fired}, and it is still so"
    if state.since is not None and state.boot == now.boot:
        return f"{fired}; it has been so for {format_duration(round(state.seen - state.since), exact=True)}"
    return fired


# Follows the rules: gives each what was measured, writes down what fires, and has it done. No model, no network.

_UNTRUSTED_CHECK_S = 60.0
TOLD = "told"
_DELIVERY = pattern(r"\btold by (?:letter|message) ([0-9]{1,18}(?:, [0-9]{1,18})*)")


class RuleActions(NamedTuple):
    """The actions of rules. Each raises PicoclawError on failure.

    `tell(text)` reaches the owner and may return how, in the form of `format_delivery`,
    `switch(output, level, seconds)` asks the output supervisor, `ask(text, rule)` the model.
    """

    tell: Callable[[str], str | None]
    switch: Callable[[str, str, float | None], str]
    ask: Callable[[str, str], str]


HistoryQuery = Callable[[Series, times.TimeRange], SampleSpan | None]


class RuleEngine:
    def __init__(self, firings: Callable[[], RuleLog], actions: RuleActions, past: HistoryQuery) -> None:
        """`firings()` opens the store when it is needed; `past(series, range)` tells what was measured."""
        self._firings = firings
        self._actions = actions
        self._past = past
        self._states: dict[str, RuleState] = {}
        self._kept: dict[str, str] = {}
        self._said: set[str] = set()
        self._book: Mapping[str, Rule] = {}

    def begin(self) -> None:
        """Load the saved states; if they cannot be read, every rule starts over."""
        try:
            self._kept = self._firings().states()
        except StoreError as error:
            self._say(f"rules start over, because their saved state cannot be read: {error}")
        self._states = {name: load_state(text) for name, text in self._kept.items()}
        try:
            cut_off = self._firings().cut_off()
        except StoreError:
            return
        for number, rule, why, acts in cut_off:  # what another process did not live to end is not done again
            text = f"Rule {rule} fired ({why}), and picoclaw was stopped in the middle of it: {acts}"
            outcome = self._try(partial(self._tell, text))
            self._settle(number, f"unknown: picoclaw was stopped in the middle; {outcome}")

    def follow(self, book: RuleSet) -> None:
        """Use these rules from now on; problems with others are reported once."""
        self._book = {name: rule for name, rule in book.rules.items() if rule.written.enabled}
        for problem in book.problems.values():
            self._say(f"a rule is not followed: {problem}")
        if "" not in book.problems:  # what the owner has taken away, or switched off, has missed nothing meanwhile
            left = self._states.keys() - self._book.keys() - book.problems.keys()
            self._states |= {name: RuleState(fired=self._states[name].fired) for name in left}

    @property
    def wanted(self) -> set[Series]:
        return {series for rule in self._book.values() for series in rule.series}

    def evaluate(self, readings: Iterable[Reading], now: ClockReading, every_s: float) -> None:
        """Evaluate the rules after sensors were read, about every `every_s` seconds; a doubtful value counts as missing."""
        samples = {Series(r.sensor, r.label): (None if r.doubt else r.value, r.problem or r.doubt) for r in readings}
        failed = {series.sensor: sample for series, sample in samples.items() if sample[0] is None}
        for rule in self._book.values():
            if not isinstance(rule.condition, Calendar):
                series = rule.condition.series
                self._step(rule, samples.get(series) or failed.get(series.sensor), now, 3 * every_s)

    def tick(self, now: ClockReading) -> float | None:
        """Evaluate the rules that have times; returns the seconds until the next is due, None for never."""
        soonest: list[float] = []
        for rule in self._book.values():
            if isinstance(rule.condition, Calendar):
                self._step(rule, None, now, 0.0)
                found = get_rule_wait(rule, self._states[rule.name], now) if now.trusted else _UNTRUSTED_CHECK_S
                soonest += [] if found is None else [found]
        return min(soonest, default=None)

    def news(self) -> dict[str, str]:
        """Return the states that differ from the saved ones."""
        dumped = {name: state.dump() for name, state in self._states.items()}
        return {name: text for name, text in dumped.items() if self._kept.get(name) != text}

    def note_saved(self, states: Mapping[str, str]) -> None:
        self._kept |= states

    def _step(self, rule: Rule, sample: RuleSample | None, now: ClockReading, stale_s: float) -> None:
        before = self._states.get(rule.name, RuleState())
        after, firing = evaluate_rule(rule, before, sample, now, stale_s)
        self._states[rule.name] = after
        if firing and not firing.skipped and rule.only_if and not self._check_gate(rule.only_if, now)[0]:
            again = not isinstance(rule.condition, Calendar)  # it may be so at the next sample
            self._states[rule.name] = replace(after, held=before.held if again else after.held, fired=before.fired)
            return
        if firing:
            self._fire(firing, now)

    def _check_gate(self, gate: Gate, now: ClockReading) -> tuple[bool, str]:
        """Check a gate, and give the figure in words; without figures it does not hold."""
        try:
            span = self._past(gate.series, times.parse_range(gate.when, now.wall)) if now.trusted else None
        except (StoreError, ValueError):
            span = None
        if span is None or not span.good:
            return False, f"no figures of {gate.series.sensor} {gate.series.quantity} {gate.when}"
        value = {"min": span.low, "max": span.high, "mean": span.total / span.good}[gate.figure]
        said = (
            f"{gate.series.sensor} {gate.series.quantity} {gate.figure} {gate.when} {format_amount(value, gate.series)}"
        )
        return is_beyond(gate.op, value, gate.limit), said

    def _fire(self, firing: RuleFiring, now: ClockReading) -> None:
        rule, why, seconds = firing.rule, firing.why, firing.rule.lasts_s
        if rule.instead:
            so, figure = self._check_gate(rule.instead[1], now)
            seconds, why = (rule.instead[0] if so else seconds), f"{why}; {figure}"
        number = self._begin(rule, why, _format_actions(rule, seconds), now)
        outcome = f"not done: {firing.skipped}" if firing.skipped else self._act(rule, why, seconds)
        if firing.skipped or outcome.startswith("failed"):
            told = self._try(lambda: self._tell(f"Rule {rule.name} ({why}): {format_outcome(outcome, ())}"))
            outcome = outcome if told == TOLD else f"{outcome}; {told}"
        self._settle(number, outcome)

    def _act(self, rule: Rule, why: str, seconds: float | None) -> str:
        """Do the actions of a rule, the output first; returns the outcome."""
        written, outcomes = rule.written, []
        if written.output:
            outcomes.append(self._try(lambda: self._actions.switch(written.output, written.level, seconds)))
        if written.notify:
            outcomes.append(self._try(lambda: self._tell(f"{written.notify} ({why}; rule {rule.name})")))
        if written.ask:
            outcomes.append(self._try(lambda: self._actions.ask(f"{written.ask}\n({rule.name}: {why})", rule.name)))
        bad = [outcome for outcome in outcomes if outcome.startswith("failed")]
        return "; ".join([*bad, *(outcome for outcome in outcomes if outcome not in bad)])

    def _tell(self, text: str) -> str:
        return self._actions.tell(text) or TOLD

    @staticmethod
    def _try(act: Callable[[], str]) -> str:
        try:
            return act()
        except PicoclawError as error:
            return f"failed: {error}"

    def _begin(self, rule: Rule, why: str, acts: str, now: ClockReading) -> int | None:
        """Log a firing; if the store fails, the actions are done all the same."""
        news = self.news()
        try:
            number = self._firings().begin(rule.name, why, acts, now, news)
        except StoreError as error:
            self._say(f"what rules do cannot be written down: {error}")
            return None
        self.note_saved(news)
        return number

    def _settle(self, number: int | None, outcome: str) -> None:
        try:
            if number is not None:
                self._firings().settle(number, outcome)
        except StoreError as error:
            self._say(f"what rules do cannot be written down: {error}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._try(lambda: self._tell(text))


def format_delivery(messages: Iterable[int]) -> str:
    """Name the outbox messages that tell the owner, in the form that `format_outcome` understands."""
    return f"{TOLD} by message {', '.join(map(str, messages))}"


def format_outcome(outcome: str, waiting: Container[int]) -> str:
    """Word an outcome for the log: told, or waiting while all the messages that tell it are `waiting`."""

    def describe(found: re.Match[str]) -> str:
        messages = map(int, found[1].split(", "))
        return "waiting: not delivered yet" if all(number in waiting for number in messages) else TOLD

    return _DELIVERY.sub(describe, outcome)


def _format_actions(rule: Rule, seconds: float | None) -> str:
    written = rule.written
    lasts = f" for {times.format_duration(seconds, exact=True)}" if seconds else ""
    switch = [f"{format_switch(written)}{lasts}"] if written.output else []
    return ", ".join([*switch, *(["tell"] if written.notify else []), *(["ask the model"] if written.ask else [])])
