"""How picoclaw is installed, and whether it is still there after the next restart of the machine."""

from collections.abc import Iterator
from pathlib import Path

from picoclaw.care import place as places
from picoclaw.care import service
from picoclaw.disk import explain
from picoclaw.hw.health import Row
from picoclaw.resources import shipped

_SHIPPED = {True: "picoclaw.service", False: "user.service"}


def examine() -> Iterator[Row]:
    """Look at an update that was cut off, at the unit's file and at whether it runs."""
    place = places.find()
    if place and (trial := place.trial()):
        how = f"{trial.new} is on trial since an update that was cut off; before it was {trial.old}"
        yield Row("note", "update", how, "picoclaw update --keep, or picoclaw update --back")
    unit = service.installed()
    if unit is None:
        yield Row("note", "service", "picoclaw does not start with this machine", "sudo picoclaw service install")
        return
    system = unit.is_relative_to("/etc")
    sudo = "sudo " if system else ""
    if problem := stale(unit, shipped("systemd") / _SHIPPED[system]):
        yield Row("note", "service", problem, f"{sudo}picoclaw service install{'' if system else ' --user'}")
    if service.active():
        yield Row("good", "service", f"{unit} runs")
    else:
        start = "sudo systemctl start picoclaw" if system else "systemctl --user start picoclaw"
        yield Row("bad", "service", f"{unit} does not run", f"picoclaw service logs; {start}")


def stale(unit: Path, template: Path) -> str:
    """Say how a unit's file differs from what this picoclaw brings, empty when it does not."""
    try:
        same = unit.read_bytes() == template.read_bytes()
    except OSError as error:
        return f"{unit} cannot be compared: {explain(error)}"
    return "" if same else f"{unit} is from another picoclaw than this one"
