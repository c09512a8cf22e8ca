"""What the `rule` tool and `picoclaw rules` say of rules: in plain words, and what keeps them from working."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from picoclaw.errors import ToolError
from picoclaw.hw import parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Wired
from picoclaw.reflex import declared
from picoclaw.rules import book, conditions, rule
from picoclaw.schema import nearest
from picoclaw.store.points import Series
from picoclaw.workspace import outputs_file

_BEYOND = re.compile(r" (?:[<>]|is|above|below|over|under|at|rises|falls|more|less|higher|lower)\b|[<>]")
_LONGEST_STEM = 24
_OF_BOARD = frozenset({"cpu"})
"""Sensors of the board itself, which nobody means who names no place."""


def listed(found: book.Book) -> Iterator[str]:
    """Explain every rule, and say which cannot be followed."""
    yield from (rule.explained(one) for one in found.rules.values())
    yield from (f"not followed: {problem}" for problem in found.problems.values())


def numbered(found: book.Book) -> Iterator[str]:
    """List the rules with the numbers that they can be named by."""
    number = 0
    for name, row in zip((*found.rules, *found.problems), listed(found), strict=True):
        number += bool(name)
        yield f"{number}. {row}" if name else row


def meant(name: str, names: Sequence[str]) -> str:
    """Find a rule by its number, or by its name however it is written; '' when there is none, or several."""
    plain = _plain(name)
    if name.strip() in names or not plain:
        return name.strip() if plain else ""
    if plain.isdecimal():
        return names[int(plain) - 1] if len(plain) < 4 and 0 < int(plain) <= len(names) else ""
    fits = [known for known in names if _plain(known) == plain]
    return fits[0] if len(fits) == 1 else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower(), flags=re.ASCII)


def new_name(table: Mapping[str, object], names: Collection[str]) -> str:
    """Make up a name for a rule: of its output, or of what it looks at."""
    what = str(table.get("output") or _BEYOND.split(str(table.get("when", "")))[0])
    stem = re.sub(r"[\W_]+", "_", what.lower(), flags=re.ASCII)[:_LONGEST_STEM].strip("_")
    stem = stem if stem[:1].isalpha() else "rule"
    return next(name for n in count(1) if (name := stem if n == 1 else f"{stem}_{n}") not in names)


def doubts_of(made: rule.Rule, home: Path, measured: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Say what keeps a rule from doing what it says: a sensor or an output that is not there, or not allowed."""
    yield from _unmeasured_of(made, measured)
    if not made.written.output:
        return
    outputs = declared.load(outputs_file(home)).outputs
    name = declared.meant(made.written.output, outputs)
    if name not in outputs:
        yield f"there is no output {name!r}{nearest(name, outputs) if outputs else ': outputs.toml declares none'}"
    elif "rule" not in outputs[name].who:
        yield f'rules may not switch {name}: its declaration needs who = ["owner", "rule"]'
    elif declared.armed(home).get(name) != outputs[name].digest:
        yield f"{name} is not armed, so it will not be driven: `picoclaw outputs arm {name}`"


def refuse_unmeasured(made: rule.Rule, measured: Mapping[str, Sequence[str]]) -> None:
    """Refuse a rule on what nothing measures: it would wait for ever. Raises ToolError naming what is measured."""
    if problem := next(_unmeasured_of(made, measured), ""):
        raise ToolError(f"{problem.partition('; known:')[0]}; {_all_of(measured)}".replace("?; ", "? "))


def with_sensor(when: str, measured: Callable[[], Mapping[str, Sequence[str]]]) -> str:
    """Complete "humidity above 80": the sensor is the only one that measures it, besides the board's own.

    Raises ToolError naming the sensors where there is none, or several.
    """
    quantity = conditions.bare_quantity(when)
    if not quantity:
        return when
    there = measured()
    found = [
        sensor for sensor, quantities in there.items() if quantity in {each.partition(" ")[0] for each in quantities}
    ]
    fits = [sensor for sensor in found if sensor not in _OF_BOARD] or found
    if len(fits) == 1:
        return f"{fits[0]}.{conditions.plain(when)}"
    if not fits:
        raise ToolError(f"no sensor here measures {quantity}; {_all_of(there)}")
    raise ToolError(
        f"which sensor? {quantity} is measured by {', '.join(fits)}; name one, as in: tell me when the {fits[0]}"
        f" {quantity} is above 30"
    )


def _all_of(measured: Mapping[str, Sequence[str]]) -> str:
    there = ", ".join(f"{sensor} ({', '.join(quantities)})" for sensor, quantities in measured.items())
    return f"measured are: {there}" if there else "no sensor is set up"


def _unmeasured_of(made: rule.Rule, measured: Mapping[str, Sequence[str]]) -> Iterator[str]:
    return (problem for series in made.series if (problem := _unmeasured(series, measured)))


def _unmeasured(series: Series, measured: Mapping[str, Sequence[str]]) -> str:
    if series.sensor not in measured:
        return (
            f"there is no sensor {series.sensor!r}{nearest(series.sensor, dict.fromkeys(measured)) if measured else ''}"
        )
    quantities = measured[series.sensor]
    if quantities and series.quantity not in quantities:
        return f"{series.sensor} does not measure {series.quantity}; it measures {', '.join(quantities)}"
    return ""


def measured(board: Board, wired: Mapping[str, Wired], drivers: parts.Drivers) -> dict[str, list[str]]:
    """Name the sensors and what each measures, with its channels, without reading any."""
    found: dict[str, list[str]] = {}
    for sensor in survey.sensors(board, wired):
        by_kernel = [f"{known.quantity} {known.channel}".rstrip() for known in sensor.kernel]
        ours = drivers.channels(sensor.part) if sensor.part and not by_kernel else []
        found.setdefault(sensor.name, []).extend(dict.fromkeys([*by_kernel, *ours]))
    return found
