"""Whether an output may leave its safe level: arithmetic on what is declared and what has happened. Opens nothing.

All moments are seconds of CLOCK_BOOTTIME (clock_gettime(2)), which no change of the date can move.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from picoclaw.outputs.config import OFF, ON, OutputConfig, RequiredSensor, format_level
from picoclaw.records import NamedTuple

HOUR_S = 3600.0


class Refusal(NamedTuple):
    """Why not: the rule's name, and a sentence with what to try."""

    rule: str
    why: str

    def __str__(self) -> str:
        return f"rule '{self.rule}': {self.why}"


class OutputRequest(NamedTuple):
    """A wish for a level other than the safe one; no `seconds` means as long as may be."""

    level: float
    seconds: float | None
    who: str


class OnPeriod(NamedTuple):
    """A time away from the safe level; `ended` is None while it lasts."""

    began: float
    ended: float | None = None


class SensorSample(NamedTuple):
    """What the required sensor said, and when the measurement began."""

    at: float
    value: float | None
    problem: str = ""


class LimitContext(NamedTuple):
    """All that a rule looks at besides the declaration and the wish.

    `wall` is local time, None when the clock is not to be trusted. `periods` are by output, the oldest first.
    `plain` are the outputs that are only on or off because their part is.
    """

    now: float
    wall: datetime | None
    periods: Mapping[str, Sequence[OnPeriod]]
    outputs: Mapping[str, OutputConfig]
    sample: SensorSample | None = None
    stopped: str = ""
    problem: str = ""
    plain: frozenset[str] = frozenset()


def check_limits(name: str, ask: OutputRequest, moment: LimitContext) -> Refusal | None:
    """Return the first rule that speaks against it, None when none does. Going safe is never asked here."""
    if moment.stopped:
        return Refusal(
            "stop",
            f"everything is stopped ({moment.stopped}); a person ends that with /resume, or `picoclaw outputs resume`",
        )
    output = moment.outputs.get(name)
    if moment.problem:
        return Refusal("configuration", moment.problem)
    if output is None:
        return Refusal("unknown output", f"there is no {name!r}; declared: {', '.join(moment.outputs) or 'none'}")
    return next((Refusal(rule, why) for rule, check in _CHECKS if (why := check(output, ask, moment))), None)


def resolve_seconds(output: OutputConfig, ask: OutputRequest, moment: LimitContext) -> float:
    """How long it is to be on from now; without a number, until the limit since it was first switched on."""
    return _get_remaining_s(output, moment) if ask.seconds is None else ask.seconds


def _get_remaining_s(output: OutputConfig, moment: LimitContext) -> float:
    period = _get_open_period(output, moment)
    return output.longest_on_s - (moment.now - period.began if period else 0.0)


def _get_open_period(output: OutputConfig, moment: LimitContext) -> OnPeriod | None:
    periods = moment.periods.get(output.name, ())
    return periods[-1] if periods and periods[-1].ended is None else None


def _check_who(output: OutputConfig, ask: OutputRequest, _: LimitContext) -> str:
    return "" if ask.who in output.who else f"{ask.who} may not switch {output.name}; allowed: {', '.join(output.who)}"


def _check_hours(output: OutputConfig, ask: OutputRequest, moment: LimitContext) -> str:
    if not output.hours:
        return ""
    if moment.wall is None:
        return "clock not trusted: the date is not known for sure, wait for the network's time"
    first, _, last = output.hours.partition("-")
    begin, end = _parse_second_of_day(first), _parse_second_of_day(last)
    now = moment.wall.hour * HOUR_S + moment.wall.minute * 60 + moment.wall.second
    length = (end - begin) % (24 * HOUR_S) or 24 * HOUR_S
    past = (now - begin) % (24 * HOUR_S)
    if past >= length:
        return f"{output.name} may be on from {first} to {last}, and it is {moment.wall:%H:%M}"
    if length < 24 * HOUR_S and past + resolve_seconds(output, ask, moment) > length:
        return f"{output.name} has to be off at {last}: ask for at most {int(length - past)} s"
    return ""


def _parse_second_of_day(text: str) -> float:
    hour, _, minute = text.partition(":")
    return int(hour) * HOUR_S + int(minute) * 60


def _check_value(output: OutputConfig, ask: OutputRequest, moment: LimitContext) -> str:
    if (not output.graded or output.name in moment.plain) and ask.level not in {ON, OFF}:
        return f"{output.name} is only on or off, not {format_level(ask.level)}"
    return ""


def _check_longest_on(output: OutputConfig, ask: OutputRequest, moment: LimitContext) -> str:
    seconds, room = resolve_seconds(output, ask, moment), _get_remaining_s(output, moment)
    if room <= 0:
        return f"{output.name} has been on for its {output.longest_on_s:g} s; switch it off first"
    if seconds > room:
        since = " since it was switched on" if _get_open_period(output, moment) else ""
        return f"{output.name} may be on for {output.longest_on_s:g} s{since}: ask for at most {math.floor(room)} s"
    return "" if seconds > 0 else "seconds must be more than 0"


def _check_shortest_off(output: OutputConfig, _: OutputRequest, moment: LimitContext) -> str:
    periods = moment.periods.get(output.name, ())
    if not periods or periods[-1].ended is None:
        return ""
    rest = periods[-1].ended + output.shortest_off_s - moment.now
    return f"{output.name} has to rest for {output.shortest_off_s:g} s: wait {math.ceil(rest)} s" if rest > 0 else ""


def _check_duty(output: OutputConfig, ask: OutputRequest, moment: LimitContext) -> str:
    if output.duty_s_per_hour is None:
        return ""
    left = output.duty_s_per_hour - sum_on_time(moment.periods.get(output.name, ()), moment.now)
    # An hour that begins now holds no more than an hour of it.
    if min(resolve_seconds(output, ask, moment), HOUR_S) <= left or output.duty_s_per_hour >= HOUR_S:
        return ""
    hint = f"ask for at most {math.floor(left)} s" if left >= 1 else "wait"
    return f"{output.name} may be on {output.duty_s_per_hour:g} s of any hour, {max(0, math.floor(left))} s are left: {hint}"


def sum_on_time(periods: Sequence[OnPeriod], now: float) -> float:
    """Seconds away from the safe level in the hour before now."""
    since = now - HOUR_S
    return sum(max(0.0, (now if s.ended is None else s.ended) - max(s.began, since)) for s in periods)


def _check_toggles(output: OutputConfig, _: OutputRequest, moment: LimitContext) -> str:
    if output.toggles_per_hour is None or _get_open_period(output, moment):
        return ""
    recent = sum(period.began > moment.now - HOUR_S for period in moment.periods.get(output.name, ()))
    if recent < output.toggles_per_hour:
        return ""
    return f"{output.name} was switched on {recent} times in the last hour, its limit is {output.toggles_per_hour}"


def _check_exclusion(output: OutputConfig, _: OutputRequest, moment: LimitContext) -> str:
    for name, other in moment.outputs.items():
        apart = name in output.excludes or output.name in other.excludes
        if apart and name != output.name and _get_open_period(other, moment):
            return f"{output.name} must not be on together with {name}, which is on; switch that off first"
    return ""


def _check_sensor(output: OutputConfig, _: OutputRequest, moment: LimitContext) -> str:
    return check_required_sensor(output.needed, moment.sample, moment.now) if output.needed else ""


def check_required_sensor(needs: RequiredSensor, sample: SensorSample | None, now: float) -> str:
    """Say what is wrong with the required sensor, nothing when it is fresh and in range."""
    what = f"{needs.quantity} of {needs.sensor}"
    if sample is None:
        return f"{what} was not measured yet"
    if sample.value is None or sample.problem:
        return f"{what} {'cannot be measured' if sample.value is None else 'is doubtful'}: {sample.problem}"
    if now - sample.at > needs.fresh_s:
        return f"{what} is {now - sample.at:.0f} s old, it has to be younger than {needs.fresh_s:g} s"
    if needs.low is not None and sample.value < needs.low:
        return f"{what} is {sample.value:g}, below {needs.low:g}"
    if needs.high is not None and sample.value > needs.high:
        return f"{what} is {sample.value:g}, above {needs.high:g}"
    return ""


_CHECKS: tuple[tuple[str, Callable[[OutputConfig, OutputRequest, LimitContext], str]], ...] = (
    ("who", _check_who),
    ("hours", _check_hours),
    ("value", _check_value),
    ("longest_on", _check_longest_on),
    ("shortest_off", _check_shortest_off),
    ("duty", _check_duty),
    ("toggles", _check_toggles),
    ("exclusion", _check_exclusion),
    ("sensor", _check_sensor),
)
"""In this order; the sensor last, because it takes the longest to ask."""


def prune_periods(periods: Sequence[OnPeriod], output: OutputConfig | None, now: float) -> Iterator[OnPeriod]:
    """Keep what a rule can still look at: an hour, the longest rest, and always the last."""
    horizon = now - max(HOUR_S, output.shortest_off_s if output else 24 * HOUR_S)
    yield from (s for s in periods[:-1] if s.ended is None or s.ended > horizon)
    yield from periods[-1:]
