"""Which lines of the checklist are due, without a model: by their times, their conditions, or what they name.

A line with neither is due when it is new or changed, when a sensor or a file that it names is no longer as it was, and
a day after it was asked about last.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from picoclaw.errors import HardwareError
from picoclaw.heartbeat import timing
from picoclaw.heartbeat.checklist import Item
from picoclaw.heartbeat.when import FileWhen, SensorWhen
from picoclaw.hw.reading import QUANTITIES
from picoclaw.schedule import duration
from picoclaw.slots import Plan
from picoclaw.store.beats import Known

_MOVES = {"temperature": 2.0, "humidity": 10.0, "pressure": 5.0, "level": 0.5}
_MOVES_BY = 0.2
"""How much a value has to change to be worth a question: by quantity, else in proportion."""

_AGAIN_S = 300.0
"""How long after its time a condition that does not hold is looked at once more."""

_REPEAT_S = 86_400.0
"""When a line that gives no time is asked about again."""

_FILE = re.compile(r"`([^`\n]{1,200})`|(?<![\w/.-])((?:[\w-]+/)*[\w-][\w.-]*\.\w{1,8})\b")


class Sample(NamedTuple):
    """A value some seconds ago, None where the sensor gave none."""

    age_s: float
    value: float | None


class Senses(Protocol):
    """What can be known without a model."""

    def sensors(self) -> Sequence[str]:
        """Name the sensors."""
        ...

    def read(self, sensor: str) -> Mapping[str, float]:
        """Measure now: values by quantity, those that failed left out. Raises HardwareError if there is no such one."""
        ...

    def measures(self, sensor: str) -> Sequence[str]:
        """Name what it measures, by quantity and channel; none where that is not known."""
        ...

    def past(self, sensor: str, what: str, seconds: float) -> Sequence[Sample]:
        """Return what is known of the last seconds and of the moment before, the oldest first."""
        ...

    def mark(self, path: str) -> str:
        """Tell a file's state from another; '' when it is not there."""
        ...


class Finding(NamedTuple):
    """What was found of an item: whether it is due and why; `note` is for whoever is asked about it.

    `known` is what to remember of it now, `settled` when it has been asked about. Its time comes in `next_s`, or came
    `late_s` ago.
    """

    item: Item
    due: bool
    why: str
    known: Known
    settled: Known
    note: str = ""
    next_s: float | None = None
    late_s: float = 0.0


def findings(
    items: Sequence[Item], known: Mapping[str, Known], senses: Senses, now: datetime, *, asleep: bool = False
) -> list[Finding]:
    """Look at every item; `asleep` without reading a sensor, when nobody will be asked anyway."""
    looked = _Once(senses, asleep=asleep)
    return [_finding(item, known.get(item.key), looked, now) for item in items]


class _Once:
    """Senses that read each sensor once."""

    def __init__(self, senses: Senses, *, asleep: bool) -> None:
        self._senses, self.asleep = senses, asleep
        self._read: dict[str, Mapping[str, float] | HardwareError] = {}
        self.sensors, self.past, self.mark = senses.sensors, senses.past, senses.mark
        self.measures = senses.measures

    def read(self, sensor: str) -> Mapping[str, float]:
        if self.asleep:
            raise HardwareError(f"{sensor} is not read in quiet hours")
        if sensor not in self._read:
            try:
                self._read[sensor] = self._senses.read(sensor)
            except HardwareError as error:
                self._read[sensor] = error
        found = self._read[sensor]
        if isinstance(found, HardwareError):
            raise found
        return found


def _finding(item: Item, known: Known | None, senses: _Once, now: datetime) -> Finding:
    if isinstance(item.when, SensorWhen):
        name, wrong = _meant(item.when, senses)
        if wrong:
            return _misspelt(item, wrong, known, senses, now)
        found = _sensor(item, item.when._replace(sensor=name), known or Known(), senses, now)
    elif isinstance(item.when, FileWhen):
        found = _file(item, item.when, known, senses, now)
    elif item.timing:
        return _timed(item, known, now)
    else:
        return _plain(item, known, senses, now)
    return _both(item, item.timing, found, known, senses, now) if item.timing else found


def _both(item: Item, plan: Plan, found: Finding, known: Known | None, senses: _Once, now: datetime) -> Finding:
    """A condition with a time: it is judged when its time has come, and once more a moment later."""
    timed = _timed(item, known, now)
    after, next_s = timed.known.after, timed.next_s
    why = found.why if timed.due else timed.why
    if timed.due and not found.due and not senses.asleep:
        ahead = (0.0 if plan.kind == "every" else _AGAIN_S) - timed.late_s
        after, next_s = (after, ahead) if ahead > 0 else (timed.settled.after, None)
        why += "" if ahead > 0 else ", so this time has passed"
    return found._replace(
        due=timed.due and found.due,
        why=why,
        known=found.known._replace(after=after),
        settled=found.settled._replace(after=timed.settled.after, told=False),
        next_s=next_s,
    )


def _meant(when: SensorWhen, senses: Senses) -> tuple[str, str]:
    """Name the sensor that a condition means, or say what is wrong with it."""
    name = next((name for name in senses.sensors() if name.casefold() == when.sensor.casefold()), "")
    if not name:
        there = ", ".join(senses.sensors()) or "none"
        return "", f"there is no sensor {when.sensor!r} (there are: {there})"
    measured = senses.measures(name)
    if not measured or when.what in measured:
        return name, ""
    return name, f"{name} does not measure {when.what!r} (it measures: {', '.join(measured)})"


def _misspelt(item: Item, wrong: str, known: Known | None, senses: _Once, now: datetime) -> Finding:
    """A condition on something that nobody measures counts as words, which somebody then asks about."""
    plain = _plain(item._replace(text=item.whole, timing=None, when=None), known, senses, now)
    return plain._replace(why=f"{wrong}, so it counts as plain text; {plain.why}")


def _timed(item: Item, known: Known | None, now: datetime) -> Finding:
    """A time counts from when the line was first seen; several that were missed are one."""
    assert item.timing
    moment = now.timestamp()
    known = known if known and known.after else Known(moment)
    try:
        slot = timing.following(item.timing, datetime.fromtimestamp(known.after, now.tzinfo))
    except ValueError as error:
        return Finding(item, False, str(error), known, known)
    ahead = slot.timestamp() - moment
    why = f"its time has come ({slot:%H:%M})" if ahead <= 0 else f"its time comes {_shown(slot, now)}"
    settled = known._replace(after=moment)
    return Finding(item, ahead <= 0, why, known, settled, next_s=max(ahead, 0.0), late_s=max(-ahead, 0.0))


def _shown(slot: datetime, now: datetime) -> str:
    return f"{slot:%H:%M}" if slot.date() == now.date() else f"{slot:%a %H:%M}"


def _sensor(item: Item, when: SensorWhen, known: Known, senses: Senses, now: datetime) -> Finding:
    """A condition is asked about once for as long as it holds."""
    name, moment = f"{when.sensor}.{when.what}", now.timestamp()
    try:
        value = senses.read(when.sensor).get(when.what)
    except HardwareError as error:
        return Finding(item, False, str(error), known, known)
    shown = f"{name} is {value:g} {_unit(when.what)}".rstrip() if value is not None else f"{name} gives no value"
    if not when.holds(value):
        still = known if value is None else known._replace(since=0.0, told=False)
        return Finding(item, False, shown, still, still)
    since = _since(when, known, senses.past(when.sensor, when.what, when.for_s), moment)
    holding = known._replace(since=since, told=known.told and known.since > 0)
    lasts = f"{shown} for {duration(moment - since)}" if when.for_s else shown
    settled = holding._replace(told=True)
    if moment - since < when.for_s:
        return Finding(item, False, f"{lasts}, not yet for {duration(when.for_s)}", holding, settled)
    if holding.told:
        return Finding(item, False, f"{lasts}, which was asked about already", holding, settled)
    return Finding(item, True, lasts, holding, settled, lasts)


def _unit(what: str) -> str:
    return QUANTITIES[what.partition(" ")[0]].unit


def _since(when: SensorWhen, known: Known, past: Sequence[Sample], moment: float) -> float:
    """Since when it holds: from the samples without a break before now, or from when it was first seen to hold."""
    began, broken = moment, False
    for sample in reversed(past):
        if not when.holds(sample.value):
            broken = True
            break
        began = moment - sample.age_s
    return began if broken or not known.since else min(began, known.since)


def _file(item: Item, when: FileWhen, known: Known | None, senses: Senses, now: datetime) -> Finding:
    mark, moment = senses.mark(when.path), now.timestamp()
    if when.fate == "changed":
        if known is None:
            first = Known(moment, seen={when.path: mark})
            return Finding(item, False, f"{when.path} is watched from now on", first, first)
        changed = mark != known.seen.get(when.path)
        why = f"{when.path} has {'changed' if mark else 'gone'}" if changed else f"{when.path} has not changed"
        return Finding(item, changed, why, known, Known(moment, seen={when.path: mark}), why)
    known = known or Known()
    holds = bool(mark) == (when.fate == "exists")
    why = f"{when.path} is {'there' if mark else 'not there'}"
    if not holds:
        return Finding(item, False, why, known._replace(told=False), known)
    why += ", which was asked about already" if known.told else ""
    return Finding(item, not known.told, why, known, known._replace(told=True), why)


def _plain(item: Item, known: Known | None, senses: _Once, now: datetime) -> Finding:
    seen = _named(item.text, senses, known.seen if known else {})
    settled = Known(now.timestamp(), told=True, seen=seen)
    if known is None or not known.told:
        return Finding(item, True, "it is new", known or Known(), settled)
    changes = [_change(thing, known.seen.get(thing), seen.get(thing)) for thing in sorted({*known.seen, *seen})]
    if why := ", ".join(filter(None, changes)):
        return Finding(item, True, why, known, settled, why)
    ahead = known.after + _REPEAT_S - now.timestamp()
    if ahead <= 0:
        return Finding(item, True, "it was asked about a day ago", known, settled, next_s=0.0)
    again = f"it is asked about again {_shown(datetime.fromtimestamp(known.after + _REPEAT_S, now.tzinfo), now)}"
    rest = f"nothing has changed of what it names ({', '.join(seen)})" if seen else "it names no sensor and no file"
    return Finding(
        item, False, f"{rest}; {again}, unless it is given a time such as (hourly)", known, settled, next_s=ahead
    )


def _named(text: str, senses: _Once, before: Mapping[str, float | str]) -> dict[str, float | str]:
    """The sensors and files that a text names, as they are now."""
    found: dict[str, float | str] = {}
    for name in senses.sensors():
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
            try:
                values = senses.read(name)
            except HardwareError:
                found |= {
                    what: value for what, value in before.items() if senses.asleep and what.startswith(f"{name}.")
                }
                continue
            found |= {f"{name}.{what}": value for what, value in values.items()}
    for path in _paths(text):
        if (mark := senses.mark(path)) or path in before:
            found[path] = mark
    return found


def files(item: Item) -> list[str]:
    """Name the files that an item speaks of, whether they are there or not."""
    if isinstance(item.when, FileWhen):
        return [item.when.path] if item.when.fate == "changed" else []
    return [] if item.timing or item.when else _paths(item.text)


def _paths(text: str) -> list[str]:
    return [match[1] or match[2] for match in _FILE.finditer(text)]


def _change(thing: str, before: float | str | None, after: float | str | None) -> str:
    """Say how a sensor or a file differs enough, or nothing."""
    if before is None or after is None or isinstance(before, str) or isinstance(after, str):
        if before == after:
            return ""
        gone = f"{thing} gives no value any more" if isinstance(before, float | int) else f"{thing} has changed"
        return gone if after is None else f"{thing} has changed"
    quantity = thing.rpartition(".")[2].partition(" ")[0]
    step = _MOVES.get(quantity, _MOVES_BY * max(abs(before), abs(after)))
    return f"{thing} went from {before:g} to {after:g}" if abs(after - before) > step else ""
