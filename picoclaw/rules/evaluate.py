"""Whether a rule fires now: arithmetic on what was measured, what was before, and clocks that are handed in.

Lengths of time are counted in seconds since the boot, which no clock that is set can move; times of day need a clock
that something vouches for, and wait without one.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import NamedTuple

from picoclaw.ranges import shown
from picoclaw.rules.conditions import Calendar, Change, Missing, Threshold, amount, beyond
from picoclaw.rules.rule import Rule
from picoclaw.schedule import duration
from picoclaw.slots import Spans, come_due, next_slot, with_done
from picoclaw.store.points import Moment

_GRACE_S = 120.0
_DAY_S = 86_400.0
_MOST_RECENT = 60
_ALL = 1 - 1e-9  # 0.3 - 0.1 is a little less than 0.2


class Sample(NamedTuple):
    """What was measured: a value to be believed, or why there is none."""

    value: float | None
    problem: str = ""


class Fired(NamedTuple):
    """When a rule fired last; `wall` is 0 when no clock was to be trusted."""

    boot: str
    mono: float
    wall: float


class Firing(NamedTuple):
    """A rule that fires, with the reading that caused it; `skipped` says why nothing is done all the same."""

    rule: Rule
    why: str
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """Where a rule stands: since when it has been so, whether it has fired for that, and what was handled."""

    when: str = ""
    boot: str = ""
    seen: float = 0.0
    since: float | None = None
    held: bool = False
    recent: tuple[tuple[float, float], ...] = ()
    fired: Fired | None = None
    looked: float = 0.0
    done: Spans = ()

    def dumped(self) -> str:
        """Write it down; the moment of the last look, which every sample moves, only where something hangs on it."""
        quiet = {} if self.since is not None or self.recent else {"seen": 0.0}
        return json.dumps({key: value for key, value in (asdict(self) | quiet).items() if value})


def loaded(text: str) -> State:
    """Read what `dumped` wrote; what does not fit is a rule that was never looked at."""
    try:
        kept = json.loads(text)
        fired = kept.pop("fired", None)
        recent = tuple((float(at), float(value)) for at, value in kept.pop("recent", ()))
        done = tuple((float(first), float(last)) for first, last in kept.pop("done", ()))
        return State(**kept, recent=recent, done=done, fired=Fired(*fired) if fired else None)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return State()


def step(rule: Rule, state: State, sample: Sample | None, now: Moment, stale_s: float) -> tuple[State, Firing | None]:
    """Look at a rule once; `sample` is what its sensor said just now, None where it was not asked.

    A silence of more than `stale_s` seconds counts as a new beginning, because nobody knows what was meanwhile.
    """
    if state.when != rule.written.when:
        state = State(rule.written.when, fired=state.fired)
    if isinstance(rule.condition, Calendar):
        return _calendar(rule, rule.condition, state, now)
    if sample is None and not isinstance(rule.condition, Missing):
        return state, None
    return _sensed(rule, rule.condition, state, sample or Sample(None, "it was not measured"), (now, stale_s))


_Condition = Threshold | Change | Missing


def _sensed(
    rule: Rule, condition: _Condition, state: State, sample: Sample, when: tuple[Moment, float]
) -> tuple[State, Firing | None]:
    now, stale_s = when
    if state.boot != now.boot:
        state = replace(state, since=None, recent=())
    elif now.mono - state.seen > stale_s:
        state = replace(state, since=None)
    before, state = state, replace(state, boot=now.boot, seen=now.mono)
    state, so, why = _looked(condition, rule.written.margin, state, sample)
    if so is None:
        return before, None
    if not so:
        return replace(state, since=None, held=False), None
    since = now.mono if state.since is None else state.since
    state = replace(state, since=since)
    if now.mono - since < _hold(condition) or not _may_fire(rule, state, now):
        return state, None
    held = now.mono - since
    why = f"{why} for {duration(held)}" if held >= 1 and _hold(condition) else why
    return replace(state, held=True, fired=_fired(now)), Firing(rule, why)


def _looked(condition: _Condition, margin: float, state: State, sample: Sample) -> tuple[State, bool | None, str]:
    """Tell whether it is so now, None when that cannot be known, and the reading in words."""
    what = f"{condition.series.sensor} {condition.series.quantity}"
    if isinstance(condition, Missing):
        return state, sample.value is None, f"{what}: {sample.problem or 'no value'}"
    if sample.value is None:
        return state, None, ""
    why = f"{what} {amount(sample.value, condition.series)}"
    if isinstance(condition, Threshold):
        back = margin if state.held else 0.0
        limit = condition.limit - (back if condition.op[0] == ">" else -back)
        return state, beyond(condition.op, sample.value, limit), why
    state = replace(state, recent=_recent(condition, state, sample.value))
    values = [value for _, value in state.recent]
    moved = sample.value - min(values) if condition.rises else max(values) - sample.value
    way = "up" if condition.rises else "down"
    return state, moved >= condition.by * _ALL, f"{why}, {way} {amount(moved, condition.series)}"


def _recent(condition: Change, state: State, value: float) -> tuple[tuple[float, float], ...]:
    """The values of the time that counts, with the newest, thinned out: of some in a row the one that counts most."""
    kept = [(at, old) for at, old in state.recent if state.seen - at <= condition.within_s]
    apart = condition.within_s / _MOST_RECENT
    if not kept or state.seen - kept[-1][0] >= apart:
        kept.append((state.seen, value))
    elif value < kept[-1][1] if condition.rises else value > kept[-1][1]:
        kept[-1] = (state.seen, value)
    return tuple(kept)


def _hold(condition: _Condition) -> float:
    return 0.0 if isinstance(condition, Change) else condition.hold_s


def _may_fire(rule: Rule, state: State, now: Moment) -> bool:
    passed = since_fired(state, now)
    if passed is None:
        return not state.held
    if passed < rule.cooldown_s:
        return False
    return not state.held or bool(rule.again_s and passed >= rule.again_s)


def since_fired(state: State, now: Moment) -> float | None:
    """Seconds since the last firing, at the least; None when there was none."""
    if state.fired is None:
        return None
    if state.fired.boot == now.boot:
        return now.mono - state.fired.mono
    by_wall = now.wall.timestamp() - state.fired.wall if now.trusted and state.fired.wall else 0.0
    return max(now.mono, by_wall)


def _fired(now: Moment) -> Fired:
    return Fired(now.boot, now.mono, now.wall.timestamp() if now.trusted else 0.0)


def _calendar(rule: Rule, condition: Calendar, state: State, now: Moment) -> tuple[State, Firing | None]:
    if not now.trusted:
        return state, None
    wall = now.wall.timestamp()
    if not state.looked or wall < state.looked - _DAY_S:  # new, or the clock was far ahead
        return replace(state, looked=wall), None
    due = come_due(condition.plan, state.looked, wall, state.done)
    if due is None:
        return state, None
    state = replace(state, looked=wall, done=with_done(condition.plan, state.done, due.last))
    passed = since_fired(state, now)
    if rule.cooldown_s and passed is not None and passed < rule.cooldown_s:
        return state, None
    late_s = wall - due.last.moment.timestamp()
    why = f"it was {_shown(due.last.moment, now)}" + (f", {due.counted} before it missed" if due.others else "")
    late = late_s > _GRACE_S
    skipped = "an output is not switched late" if late and not rule.late_ok else ""
    fired = state.fired if skipped else _fired(now)
    return replace(state, fired=fired), Firing(rule, why + f", {duration(late_s)} ago" * late, skipped)


def _shown(moment: datetime, now: Moment) -> str:
    local = moment.astimezone(now.wall.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.wall.date() else f"{local:%Y-%m-%d %H:%M}"


def due_in(rule: Rule, state: State, now: Moment) -> float | None:
    """Seconds until a rule has to be looked at though nothing was measured, None for never."""
    if not isinstance(rule.condition, Calendar) or not now.trusted:
        return None
    wall = now.wall.timestamp()
    slot = next_slot(rule.condition.plan, max(wall, state.looked), state.done)
    return None if slot is None else max(0.0, slot.moment.timestamp() - wall)


def standing(rule: Rule, state: State, now: Moment) -> str:
    """Say where a rule stands."""
    passed = since_fired(state, now)
    fired = "has not fired yet" if passed is None else f"fired {duration(passed)} ago"
    if isinstance(rule.condition, Calendar):
        slot = next_slot(rule.condition.plan, now.wall.timestamp(), state.done) if now.trusted else None
        then = f"next {slot.moment:%a %Y-%m-%d %H:%M}" if slot else "never comes"
        return f"{fired}, {then if now.trusted else 'waits until the clock is set'}"
    if state.held:
        return f"{fired}, and it is still so"
    if state.since is not None and state.boot == now.boot:
        return f"{fired}; it has been so for {shown(round(state.seen - state.since))}"
    return fired
