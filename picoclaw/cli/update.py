"""`picoclaw update`: a new version beside the old one, tried on a copy, taken into use, and given up if it fails."""

import argparse
import os
import sys
from pathlib import Path

from picoclaw.maintenance import install as places
from picoclaw.maintenance import service, update
from picoclaw.maintenance.errors import MaintenanceError
from picoclaw.maintenance.install import Installation, UpdateTrial
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable

_WATCH_SECONDS = 60.0


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a wheel, a folder or a name for pip; else what was installed from"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--check", action="store_true", help="make and try the new version, and do not use it")
    which.add_argument("--back", action="store_true", help="return to the version before")
    which.add_argument("--keep", action="store_true", help="end the trial of an update that was cut off: it stays")
    parser.add_argument("--wheels", metavar="FOLDER", help="take packages from this folder alone, without a network")
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        type=_parse_seconds,
        default=_WATCH_SECONDS,
        help="of the service, before it counts as good",
    )


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when the present version stays."""
    place = places.find_installation()
    if not place:
        raise MaintenanceError(
            f"this picoclaw ({sys.prefix}) was not installed by install.sh: update it as it was installed"
            " (a checkout: git pull; pipx: pipx upgrade picoclaw-edge)"
        )
    unit = service.find_service(str(place.root), place.note("link"))
    running = unit if unit and unit.runs() else None
    home = Path(os.environ.get("PICOCLAW_HOME") or (unit.home() if unit else "") or get_home(os.environ))
    with place.locked():
        if given.back or given.keep:
            return _end_trial(place, home, running, keep=given.keep)
        if place.trial():
            raise MaintenanceError(
                "an update was cut off; say `picoclaw update --keep` or `picoclaw update --back` first"
            )
        return _install_update(place, home, running, given)


def _install_update(place: Installation, home: Path, running: service.Service | None, given: argparse.Namespace) -> int:
    source = given.source or place.note("source")
    if not source:
        raise MaintenanceError(f"{place.root / 'source'} does not say where from; give a wheel, a folder or a name")
    if Path(source).exists():
        if not (Path(source).is_file() or Path(source).is_dir()):
            raise MaintenanceError(f"{source} is neither a file nor a folder; give a wheel, a folder or a name")
        source = str(Path(source).absolute())
    wheels = ("--no-index", "--find-links", str(Path(given.wheels).absolute())) if given.wheels else ()
    old = place.named("current")
    _print_note(f"installing {source} beside {old}; this takes some minutes on a small board")
    new = update.build_version(place, source, wheels)
    if update.is_same_version(place, old, new):
        place.tidy()
        print(f"{source} holds what is in use already; nothing was changed")
        return 0
    said = update.try_version(place.python(new), place.python(old), home)
    if given.check:
        place.tidy()
        print(f"{said} can be used; nothing was changed")
        return 0
    update.switch_version(place, new, home, running, given.watch, _print_note)
    place.keep("source", source)
    place.tidy()
    print(f"{said} is in use; `picoclaw update --back` returns to what was before")
    if not running:
        print("A chat or a daemon that runs goes on with the old version until it is started anew.")
    return 0


def _end_trial(place: Installation, home: Path, running: service.Service | None, *, keep: bool) -> int:
    trial = place.trial()
    if keep:
        if not trial:
            raise MaintenanceError("no update is on trial")
        update.end_trial(place, trial.home)
        print(f"{place.named('current')} stays")
        return 0
    trial = trial or UpdateTrial(place.named("current"), place.named("previous"), home)
    if not trial.old or trial.old == place.named("current"):
        raise MaintenanceError("there is no version before this one")
    if not (trial.home / update.SNAPSHOT_FOLDER).exists() and home.is_dir():
        worse = update.find_new_faults(place.python(trial.old), home, place.python(trial.new), home)
        if worse:
            raise MaintenanceError(
                f"{trial.old} cannot use this home any more ({', '.join(sorted(worse))}): restore a backup first"
            )
    update.roll_back(place, trial, running)
    print(f"back to {trial.old}")
    return 0


def _parse_seconds(text: str) -> float:
    if not (text.isdecimal() and text.isascii() and len(text) < 5):
        raise argparse.ArgumentTypeError("a whole number of seconds, up to 9999")
    return float(text)


def _print_note(text: str) -> None:
    print(f"picoclaw: {escape_unprintable(text)}", file=sys.stderr, flush=True)
