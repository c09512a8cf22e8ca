"""`picoclaw doctor`, `check`, `backup`, `restore`, `update` and `uninstall`: is all well, and how it is kept well."""

import os
import shutil
import sys
from pathlib import Path

from picoclaw import maintenance
from picoclaw.cli.arguments import Options, Parser, parse_length
from picoclaw.cli.common import (
    add_board_option,
    confirm,
    format_minute,
    format_size,
    print_note,
    print_results,
    print_safe,
    show_progress,
)
from picoclaw.errors import ConfigError
from picoclaw.files import get_home
from picoclaw.maintenance import (
    Installation,
    MaintenanceError,
    UpdateTrial,
    backup,
    database_copy,
    systemd,
    translate_os_errors,
    update,
)
from picoclaw.text import escape_unprintable
from picoclaw.workspace import get_owner_time


def add_doctor_options(parser: Parser) -> None:
    parser.add_argument("--json", "print the findings as JSON")
    parser.add_argument("--offline", "contact no server, neither of a model nor of a channel")
    add_board_option(parser)


def run_doctor(given: Options) -> int:
    from picoclaw.maintenance import doctor

    rows = doctor.run_doctor("sim" if given.board == "sim" else "linux", offline=given.offline)
    return print_results(rows, as_json=given.json)


def add_check_options(parser: Parser) -> None:
    parser.add_argument("--repair", "repair what can be repaired, and say what was done")
    parser.add_argument("--json", "print the findings as JSON")


def run_check(given: Options) -> int:
    """Print the findings; exit code 1 when something is wrong, with --repair when it still is."""
    from picoclaw.maintenance import repair

    home = get_home(os.environ)
    done = repair.repair_findings(home) if given.repair else []
    rows = list(repair.check_home(home))
    print_results([*done, *rows], as_json=given.json)
    return int(any(row.status == "bad" for row in rows))


def add_backup_options(parser: Parser) -> None:
    parser.add_argument("file", "the file to write; - for standard output (default: picoclaw-DATE.tar.gz)", nargs="?")
    parser.add_argument("--without-secrets", "leave out secrets.toml and the fleet's key")
    parser.add_argument("--check", "check that FILE is a complete backup")


def run_backup(given: Options) -> int:
    """Make a backup, or check one; exit code 1 when it could not be made, or is not good."""
    home, secrets = get_home(os.environ), not given.without_secrets
    target = given.file or f"picoclaw-{get_owner_time(home):%Y%m%d-%H%M%S}.tar.gz"
    if given.check:
        with show_progress() as draw:
            kept = backup.verify_backup(Path(target), draw)
        made_at = format_minute(home, kept.at)
        print(f"{target} is complete: {kept.files} files, made {made_at} by picoclaw {kept.version}")
        return 0
    if target == "-":
        made = backup.stream_backup(home, sys.stdout.buffer, secrets=secrets)
    else:
        with show_progress() as draw:
            made = backup.write_backup(home, Path(target).absolute(), secrets=secrets, progress=draw)
        size = Path(target).stat().st_size
        keys = "; it holds your keys, keep it to yourself" if secrets else ""
        print(f"{target}: {made.files} files, {format_size(made.size)} in {format_size(size)}{keys}")
    for left in made.left:
        print(escape_unprintable(f"not taken: {left}"), file=sys.stderr)
    return 0


def add_restore_options(parser: Parser) -> None:
    parser.add_argument("file", "a file made by `picoclaw backup`")
    parser.add_argument("--yes", "do not ask")


def run_restore(given: Options) -> int:
    """Restore after a yes, and keep what was there; exit code 1 when nothing was changed."""
    home = get_home(os.environ)
    if home.exists() and not given.yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"{home} is there already; it takes a terminal, or --yes, to put a backup in its place")
        if not confirm(f"Put the backup in the place of {home}? What is there now is kept beside it."):
            print("Nothing was changed.")
            return 1
    with show_progress() as draw:
        kept, before = backup.restore_backup(Path(given.file), home, draw)
    made = format_minute(home, kept.at)
    print_safe(f"{home} is again as it was at {made}: {kept.files} files, by picoclaw {kept.version}")
    if before:
        print(f"what was there is in {before}; delete it when you do not miss anything")
    return 0


_WATCH_SECONDS = 60
_INSTALLED_NAMES = ("versions", "current", "previous", "source", "link", "trial", "lock")
_HOME_MARKERS = ("state.db", "seeds.json", "config.toml")


def add_update_options(parser: Parser) -> None:
    parser.add_argument("source", "a wheel, a folder or a name for pip (default: as installed)", nargs="?")
    parser.exclude("--check", "--back", "--keep")
    parser.add_argument("--check", "install and test the new version, but do not use it")
    parser.add_argument("--back", "return to the version before")
    parser.add_argument("--keep", "keep the new version of an interrupted update")
    parser.add_argument("--wheels FOLDER", "use only packages from this folder, without a network")
    parser.add_argument(
        "--watch TIME",
        "how long the service must run before the update is final (default 60s)",
        type=parse_length,
        default=_WATCH_SECONDS,
    )


def run_update(given: Options) -> int:
    """Make a new version beside the old one, try it, use it; exit code 1 when the present version stays."""
    place = maintenance.find_installation()
    if not place:
        raise MaintenanceError(
            f"this picoclaw ({sys.prefix}) was not installed by install.sh: update it as it was installed"
            " (a checkout: git pull; pipx: pipx upgrade picoclaw-edge)"
        )
    unit = systemd.find_service(str(place.root), place.note("link"))
    running = unit if unit and unit.runs() else None
    home = Path(os.environ.get("PICOCLAW_HOME") or (unit.home() if unit else "") or get_home(os.environ))
    with place.lock():
        if given.back or given.keep:
            return _end_trial(place, home, running, keep=given.keep)
        if place.trial():
            raise MaintenanceError(
                "an update was cut off; run `picoclaw update --keep` or `picoclaw update --back` first"
            )
        return _install_update(place, home, running, given)


def _install_update(place: Installation, home: Path, running: systemd.Service | None, given: Options) -> int:
    source = given.source or place.note("source")
    if not source:
        raise MaintenanceError(f"{place.root / 'source'} does not say where from; give a wheel, a folder or a name")
    if Path(source).exists():
        if not (Path(source).is_file() or Path(source).is_dir()):
            raise MaintenanceError(f"{source} is neither a file nor a folder; give a wheel, a folder or a name")
        source = str(Path(source).absolute())
    wheels = ("--no-index", "--find-links", str(Path(given.wheels).absolute())) if given.wheels else ()
    old = place.get_version("current")
    print_note(f"installing {source} beside {old}; this takes some minutes on a small board")
    with show_progress() as draw:
        new = update.build_version(place, source, wheels, draw if sys.stderr.isatty() else None)
    if update.is_same_version(place, old, new):
        place.tidy()
        print(f"{source} holds what is in use already; nothing was changed")
        return 0
    said = update.try_version(place.python(new), place.python(old), home)
    if given.check:
        place.tidy()
        print(f"{said} can be used; nothing was changed")
        return 0
    with show_progress() as draw:
        update.switch_version(place, new, home, running, given.watch, print_note, draw)
    place.keep("source", source)
    place.tidy()
    print(f"{said} is in use; `picoclaw update --back` returns to what was before")
    if not running:
        print("A chat or a daemon that runs goes on with the old version until it is restarted.")
    return 0


def _end_trial(place: Installation, home: Path, running: systemd.Service | None, *, keep: bool) -> int:
    trial = place.trial()
    if keep:
        if not trial:
            raise MaintenanceError("no update is on trial")
        update.end_trial(place, trial.home)
        print(f"{place.get_version('current')} stays")
        return 0
    trial = trial or UpdateTrial(place.get_version("current"), place.get_version("previous"), home)
    if not trial.old or trial.old == place.get_version("current"):
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


def add_uninstall_options(parser: Parser) -> None:
    parser.add_argument("--purge", "delete the home as well: conversations, notes, keys")
    parser.add_argument("--yes", "do not ask")


def run_uninstall(given: Options) -> int:
    """Say what will go, ask, and remove it; exit code 1 when nothing was."""
    place, home = maintenance.find_installation(), get_home(os.environ)
    if not place and not given.purge:
        raise MaintenanceError(
            f"this picoclaw ({sys.prefix}) was not installed by install.sh: remove it as it was installed"
            " (pipx uninstall picoclaw-edge, or delete the checkout)"
        )
    if given.purge and not any((home / name).exists() for name in _HOME_MARKERS):
        raise MaintenanceError(f"{home} is not a home of picoclaw's; set PICOCLAW_HOME to the one that is meant")
    unit = find_own_unit(place)
    going = [str(unit)] if unit else []
    going += [f"{place.root} and {place.note('link')}"] if place else []
    going += [f"{home}, with all that it knows"] if given.purge else []
    if not given.yes:
        if not sys.stdin.isatty():
            raise MaintenanceError("it takes a terminal, or --yes, to remove anything")
        print("This removes:", *going, sep="\n  ")
        word = "delete" if given.purge else "yes"
        if input(f"Type {word} to go on: ").strip().lower() != word:
            print("Nothing was removed.")
            return 1
    if unit:
        from picoclaw.cli.service import uninstall

        uninstall(given, Path("/"))
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
    found = systemd.find_installed()
    unit = found.unit if found else None
    if not unit or not place:
        return unit
    texts = [file.read_text(errors="replace") for file in (unit, *unit.with_name(f"{unit.name}.d").glob("*.conf"))]
    ours = (f"{place.root}/", place.note("link") or f"{place.root}/")
    return unit if any(path in text for text in texts for path in ours) else None


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
