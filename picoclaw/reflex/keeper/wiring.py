"""Whether what outputs.toml names is there, belongs to nothing else, and can do what is asked of it. Drives nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import loader, parts
from picoclaw.hw.board import Board
from picoclaw.hw.lines import Spot, find, taken_by
from picoclaw.reflex.declared import OFF, ON, Declared, Output
from picoclaw.reflex.keeper.lines import Channel

_BUTTON = "the stop button"


class Wiring(NamedTuple):
    """What is wrong, by output; and which outputs are only on or off because their part is."""

    faults: Mapping[str, str]
    plain: frozenset[str]


def check(board: Board, home: Path, known: Declared) -> Wiring:
    """Look at each output's place. A line that two have, or that a bus needs, is nobody's."""
    faults: dict[str, str] = {}
    plain: set[str] = set()
    for name, output in known.outputs.items():
        try:
            if output.part and not _part(board, home, output):
                plain.add(name)
            elif output.pwm:
                _pwm(board, output)
        except (HardwareError, ConfigError) as error:
            faults[name] = f"{name} cannot be used: {error}"
    return Wiring({**faults, **_lines(board, known)}, frozenset(plain))


def _lines(board: Board, known: Declared) -> dict[str, str]:
    wanted = {name: (output.line, output.chip) for name, output in known.outputs.items() if output.line}
    faults: dict[str, str] = {}
    owners: dict[tuple[str, int], str] = {}
    if known.stop:
        wanted = {_BUTTON: (known.stop.line, known.stop.chip), **wanted}
    for name, (line, chip) in wanted.items():
        try:
            spot = find(board, line, chip)
        except HardwareError as error:
            faults[name] = f"{name} cannot be used: {error}"
            continue
        if bus := taken_by(board, spot):
            faults[name] = f"{name} cannot be used: {spot} belongs to {bus}, which is turned on"
        first = owners.setdefault((spot.chip.path, spot.line.offset), name)
        if first != name:
            faults |= {first: _twice(first, name, spot), name: _twice(name, first, spot)}
    faults.pop(_BUTTON, None)
    return faults


def _twice(name: str, other: str, spot: Spot) -> str:
    return f"{name} cannot be used: {spot} is also the line of {other}; correct outputs.toml"


def _part(board: Board, home: Path, output: Output) -> bool:
    """Tell whether an expander's outputs take duties."""
    folders = loader.folders(home)
    channel = Channel(parts.Drivers(board, lambda part: loader.chip(part, folders)), output, folders)
    board.i2c(output.bus)
    if not channel.graded and output.safe_level not in {ON, OFF}:
        raise ConfigError(f"safe is {output.safe}, but a {output.part} is only on or off")
    return channel.graded


def _pwm(board: Board, output: Output) -> None:
    chip, _, channel = output.pwm.partition("/")
    if not board.glob(f"/sys/class/pwm/{chip}"):
        raise ConfigError(f"there is no {chip} in /sys/class/pwm: is its overlay turned on?")
    for count in board.glob(f"/sys/class/pwm/{chip}/npwm"):
        if int(channel) >= int(board.text(count)):
            raise ConfigError(f"{chip} has no channel {channel}; it has {board.text(count)}, from 0")
