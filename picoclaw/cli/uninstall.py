"""`picoclaw uninstall`: takes picoclaw off this machine; what it knows stays, unless that is asked for as well."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from picoclaw.cli import service
from picoclaw.maintenance import database_copy
from picoclaw.maintenance import install as places
from picoclaw.maintenance import service as units
from picoclaw.maintenance.errors import MaintenanceError, translate_os_errors
from picoclaw.maintenance.install import Installation
from picoclaw.resources import get_home

_INSTALLED_NAMES = ("versions", "current", "previous", "source", "link", "trial", "lock")
_HOME_MARKERS = ("state.db", "seeds.json", "config.toml")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--purge", action="store_true", help="delete the home as well: conversations, notes, keys")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(given: argparse.Namespace) -> int:
    """Say what will go, ask, and remove it; exit code 1 when nothing was."""
    place, home = places.find_installation(), get_home(os.environ)
    _check_can_uninstall(given, place, home)
    unit = find_own_unit(place)
    going = [str(unit)] if unit else []
    going += [f"{place.root} and {place.note('link')}"] if place else []
    going += [f"{home}, with all that it knows"] if given.purge else []
    if not _confirm(going, given):
        print("Nothing was removed.")
        return 1
    if unit:
        service.run(argparse.Namespace(act="uninstall"))
    if busy := database_copy.list_home_users(home):
        raise MaintenanceError(f"{home} is in use by {', '.join(busy)}: stop it first, then run this again")
    if given.purge:
        with translate_os_errors(home):
            shutil.rmtree(home)
        print(f"removed {home}")
    if place:
        _remove_installation(place)
    if not given.purge:
        print(f"What picoclaw knows is still in {home}.")
    return 0


def find_own_unit(place: Installation | None) -> Path | None:
    """The unit that starts this picoclaw; another installation's stays."""
    unit = units.find_installed_unit()
    if not unit or not place:
        return unit
    texts = [file.read_text(errors="replace") for file in (unit, *unit.with_name(f"{unit.name}.d").glob("*.conf"))]
    ours = (f"{place.root}/", place.note("link") or f"{place.root}/")
    return unit if any(path in text for text in texts for path in ours) else None


def _check_can_uninstall(given: argparse.Namespace, place: Installation | None, home: Path) -> None:
    """Say no to what cannot be meant."""
    if not place and not given.purge:
        raise MaintenanceError(
            f"this picoclaw ({sys.prefix}) was not installed by install.sh: remove it as it was installed"
            " (pipx uninstall picoclaw-edge, or delete the checkout)"
        )
    if given.purge and not any((home / name).exists() for name in _HOME_MARKERS):
        raise MaintenanceError(f"{home} is no home of picoclaw's; set PICOCLAW_HOME to the one that is meant")


def _confirm(going: list[str], given: argparse.Namespace) -> bool:
    if given.yes:
        return True
    if not sys.stdin.isatty():
        raise MaintenanceError("it takes a terminal, or --yes, to remove anything")
    print("This removes:", *going, sep="\n  ")
    word = "delete" if given.purge else "yes"
    return input(f"Type {word} to go on: ").strip().lower() == word


def _remove_installation(place: Installation) -> None:
    """Remove what install.sh and update made, and nothing that somebody else has put there."""
    link = Path(place.note("link") or "/nonexistent")
    with translate_os_errors(place.root):
        if link.is_symlink() and link.readlink().is_relative_to(place.root):
            link.unlink()
            print(f"removed {link}")
        for name in _INSTALLED_NAMES:
            path = place.root / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if any(place.root.iterdir()):
            print(f"{place.root} holds more than picoclaw put there, and stays")
            return
        place.root.rmdir()
    print(f"removed {place.root}")
