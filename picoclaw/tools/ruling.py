"""What the `rule` tool and `picoclaw rules` say of rules: in plain words, and what keeps them from working."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from picoclaw.hw import parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Wired
from picoclaw.reflex import declared
from picoclaw.rules import book, rule
from picoclaw.schema import nearest
from picoclaw.store.points import Series
from picoclaw.workspace import outputs_file


def listed(found: book.Book) -> Iterator[str]:
    """Explain every rule, and say which cannot be followed."""
    yield from (rule.explained(one) for one in found.rules.values())
    yield from (f"not followed: {problem}" for problem in found.problems.values())


def doubts_of(made: rule.Rule, home: Path, measured: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Say what keeps a rule from doing what it says: a sensor or an output that is not there, or not allowed."""
    yield from (doubt for series in made.series if (doubt := _unmeasured(series, measured)))
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


def _unmeasured(series: Series, measured: Mapping[str, Sequence[str]]) -> str:
    if series.sensor not in measured:
        return (
            f"there is no sensor {series.sensor!r}{nearest(series.sensor, dict.fromkeys(measured)) if measured else ''}"
        )
    quantities = measured[series.sensor]
    if quantities and series.quantity.partition(" ")[0] not in quantities:
        return f"{series.sensor} does not measure {series.quantity}; it measures {', '.join(quantities)}"
    return ""


def measured(board: Board, wired: Mapping[str, Wired], drivers: parts.Drivers) -> dict[str, list[str]]:
    """Name the sensors and what each measures, without reading any."""
    found: dict[str, list[str]] = {}
    for sensor in survey.sensors(board, wired):
        by_kernel = [known.quantity for known in sensor.kernel]
        ours = drivers.quantities(sensor.part) if sensor.part and not by_kernel else []
        found.setdefault(sensor.name, []).extend(dict.fromkeys([*by_kernel, *ours]))
    return found
