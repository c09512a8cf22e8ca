"""The board: how it is, its sensors, read once each, its buses and its outputs."""

import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from picoclaw.config import Config
from picoclaw.errors import ConfigError
from picoclaw.hw import checkup, health, loader, parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.health import Row
from picoclaw.hw.reading import Reading, Wired
from picoclaw.reflex import declared
from picoclaw.workspace import outputs_file
from picoclaw.workspace.pages import owner_time

_SUPPLY = "use a stronger power supply and a short cable"
_MENDS = {"clock": "sudo timedatectl set-ntp true", "power and throttling": _SUPPLY}


def examine(board: Board, config: Config) -> Iterator[Row]:
    """Look at the board: how it is, its sensors, read once each, and its buses."""
    for row in health.status(board, owner_time(config.home), existing(config.home)):
        yield row._replace(mend=_MENDS.get(row.what, "") if row.mark == "bad" else "")
    yield from _sensors(board, config)
    yield from checkup.buses(board)
    yield from _outputs(config.home)


def _outputs(home: Path) -> Iterator[Row]:
    path = outputs_file(home)
    if not path.exists():
        return
    found = declared.load(path)
    for problem in found.problems:
        yield Row("bad", "outputs", problem, f"mend {path}; until then nothing can be switched on")
    digests = declared.armed(home)
    dry = [name for name, output in found.outputs.items() if digests.get(name) != output.digest]
    if dry:
        yield Row("note", "outputs", f"dry run: {', '.join(dry)}", f"picoclaw outputs arm {dry[0]}")
    if armed := [name for name in found.outputs if name not in dry]:
        yield Row("good", "outputs", f"{', '.join(armed)} can be switched")


def _sensors(board: Board, config: Config) -> Iterator[Row]:
    where = loader.folders(config.home)
    wired: dict[str, Wired] = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            wired[name] = parts.wire(sensor, where)
        except ConfigError as error:
            wired.pop(name, None)
            yield Row("bad", name, f"[sensors.{name}]: {error}", "mend that table, or the driver")
    drivers = parts.Drivers(board, lambda part: loader.chip(part, where))
    working: dict[str, None] = {}
    listed = survey.sensors(board, wired)
    for found in listed:
        readings = survey.read(board, drivers, found)
        if any(reading.value is not None for reading in readings):
            working[found.name] = None
        else:
            yield _silent(board, found, readings[0], where, {(part.bus, part.address) for part in wired.values()})
    if working:
        yield Row("good", "sensors", f"{', '.join(working)} can be read")
    if not listed and not config.sensors:
        mend = "name a part in config.toml under [sensors.NAME], or try `picoclaw chat --board sim`"
        yield Row("note", "sensors", "the kernel knows none and none is configured", mend)


def _silent(
    board: Board, sensor: survey.Found, reading: Reading, where: Sequence[Path], named: Container[tuple[int, int]]
) -> Row:
    """Say why a sensor gives nothing, and for a part on an I2C bus, who else answers there."""
    mend = ""
    if sensor.part and not sensor.kernel and sensor.part.route == "i2c" and "does not answer" in reading.problem:
        free = [a for a in loader.chip(sensor.part.part, where).ADDRESSES if (sensor.part.bus, a) not in named]
        mend = checkup.silence(board, sensor.part, free)
    return Row("bad", reading.sensor, f"{reading.what} not available: {reading.problem}", mend)


def existing(path: Path) -> str:
    """Return the path, or the nearest folder above it that there is."""
    return next(str(p) for p in (path, *path.parents) if os.path.lexists(p))
