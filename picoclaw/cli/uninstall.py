"""`picoclaw uninstall`: takes picoclaw off this machine; what it knows stays, unless that is asked for as well."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from picoclaw.care import databases
from picoclaw.care import place as places
from picoclaw.care import service as units
from picoclaw.care.failure import CareError, worded
from picoclaw.care.place import Place
from picoclaw.cli import service
from picoclaw.config import home_folder

_OURS = ("versions", "current", "previous", "source", "link", "trial", "lock")
_MARKS = ("state.db", "seeds.json", "config.toml")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--purge", action="store_true", help="delete the home as well: conversations, notes, keys")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(given: argparse.Namespace) -> int:
    """Say what will go, ask, and remove it; exit code 1 when nothing was."""
    place, home = places.find(), home_folder(os.environ)
    _refuse(given, place, home)
    unit = own_unit(place)
    going = [str(unit)] if unit else []
    going += [f"{place.root} and {place.note('link')}"] if place else []
    going += [f"{home}, with all that it knows"] if given.purge else []
    if not _agreed(going, given):
        print("Nothing was removed.")
        return 1
    if unit:
        service.run(argparse.Namespace(act="uninstall"))
    if busy := databases.users(home):
        raise CareError(f"{home} is in use by {', '.join(busy)}: stop it first, then run this again")
    if given.purge:
        with worded(home):
            shutil.rmtree(home)
        print(f"removed {home}")
    if place:
        _remove(place)
    if not given.purge:
        print(f"What picoclaw knows is still in {home}.")
    return 0


def own_unit(place: Place | None) -> Path | None:
    """The unit that starts this picoclaw; another installation's stays."""
    unit = units.installed()
    if not unit or not place:
        return unit
    texts = [file.read_text(errors="replace") for file in (unit, *unit.with_name(f"{unit.name}.d").glob("*.conf"))]
    ours = (f"{place.root}/", place.note("link") or f"{place.root}/")
    return unit if any(path in text for text in texts for path in ours) else None


def _refuse(given: argparse.Namespace, place: Place | None, home: Path) -> None:
    """Say no to what cannot be meant."""
    if not place and not given.purge:
        raise CareError(
            f"this picoclaw ({sys.prefix}) was not installed by install.sh: remove it as it was installed"
            " (pipx uninstall picoclaw-edge, or delete the checkout)"
        )
    if given.purge and not any((home / name).exists() for name in _MARKS):
        raise CareError(f"{home} is no home of picoclaw's; set PICOCLAW_HOME to the one that is meant")


def _agreed(going: list[str], given: argparse.Namespace) -> bool:
    if given.yes:
        return True
    if not sys.stdin.isatty():
        raise CareError("it takes a terminal, or --yes, to remove anything")
    print("This removes:", *going, sep="\n  ")
    word = "delete" if given.purge else "yes"
    return input(f"Type {word} to go on: ").strip().lower() == word


def _remove(place: Place) -> None:
    """Remove what install.sh and update made, and nothing that somebody else has put there."""
    link = Path(place.note("link") or "/nonexistent")
    with worded(place.root):
        if link.is_symlink() and link.readlink().is_relative_to(place.root):
            link.unlink()
            print(f"removed {link}")
        for name in _OURS:
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
