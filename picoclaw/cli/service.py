"""`picoclaw service`: puts picoclaw into the hands of systemd, looks how it is there, and takes it out again."""

import os
import pwd
import re
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from picoclaw import files
from picoclaw.cli.arguments import Options, Parser, parse_count
from picoclaw.errors import ConfigError
from picoclaw.maintenance import systemd
from picoclaw.maintenance.systemd import DROP_IN_PATH, SYSTEMD_MISSING, UNIT_NAME, Service, run_command, run_systemctl
from picoclaw.security.sandbox import INSTALL_COMMAND, find_missing_program
from picoclaw.text import escape_unprintable, format_json

_ENVIRONMENT_FILE = "etc/picoclaw/environment"
_UDEV_SUBSYSTEMS = ("i2c-dev", "spidev", "gpio", "pwm")
_SHOWN_PROPERTIES = {
    "LoadState": "unit",
    "ActiveState": "state",
    "SubState": "step",
    "StatusText": "says",
    "ActiveEnterTimestamp": "since",
    "NRestarts": "restarts",
    "Result": "last end",
    "UnitFileState": "at boot",
    "MainPID": "process",
    "MemoryCurrent": "memory",
}
_UNSET_VALUES = {"", "[not set]", "18446744073709551615", "0"}


def options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "install": ("install a service that starts at boot, and start it", _install),
            "print": ("print the files that install would write", _print_files),
            "status": ("show whether it runs, since when, and whether its unit is up to date", _show_status),
            "logs": ("show its journal", run_logs),
            "start": ("start it now", _control_service),
            "stop": ("stop it; with the board it starts again", _control_service),
            "restart": ("restart it, for example after a change of its settings", _control_service),
            "uninstall": ("stop it and remove it from systemd; your data is kept", uninstall),
        }
    )
    install, shown = words["install"], words["print"]
    for word in (install, shown):
        word.exclude("--as", "--user")
        word.add_argument("--as NAME", "run as this person, on ~NAME/.picoclaw", dest="person")
        word.add_argument("--user", "in your own systemd session: without root, but less isolated")
    install.add_argument("--no-start", "install it without starting it; it starts at the next boot")
    words["status"].add_argument("--json", "print what systemd says as JSON")
    add_logs_options(words["logs"])


def add_logs_options(parser: Parser) -> None:
    parser.add_argument("-n LINES", "how many (default 50)", type=parse_count(0, 1_000_000), default=50)
    parser.add_argument("-f, --follow", "keep printing new lines")


def run(given: Options, root: Path = Path("/")) -> int:
    """Do it; `root` is the folder that stands for the machine's. Raises ConfigError."""
    return given.act(given, root)


def run_start(given: Options) -> int:
    return _control_service(Options(word="start", **vars(given)), Path("/"))


def run_restart(given: Options) -> int:
    return _control_service(Options(word="restart", **vars(given)), Path("/"))


def _find_installed_manager(root: Path) -> Service:
    """Find the one that is installed, the system's before the user's; raises ConfigError."""
    found = systemd.find_installed(root)
    if found is None:
        raise ConfigError(
            "no service is installed here: `sudo picoclaw service install` does that, `picoclaw run` runs it until you end it"
        )
    return found


def _render_files(given: Options, root: Path) -> dict[Path, str]:
    found = systemd.find_program()
    place = systemd.list_services(root)[given.user]
    files = systemd.load_units(place.folder, own=bool(place.user))
    if given.user:
        machine = systemd.render_session_drop_in(found)
    else:
        machine = (
            systemd.render_user_drop_in(found, root, given.person)
            if given.person
            else systemd.render_own_user_drop_in(found, root)
        )
        files[root / "etc/udev/rules.d/60-picoclaw.rules"] = systemd.read_unit_file("udev.rules")
    files[place.folder / DROP_IN_PATH] = machine
    files[place.drop_in(systemd.EXEC_SERVICE)] = systemd.render_exec_drop_in(found, root, given.person)
    if given.person:
        files[place.drop_in(systemd.EXEC_SOCKET)] = systemd.render_socket_drop_in(given.person)
    elif not given.user:
        files[root / "etc/sysusers.d/picoclaw.conf"] = systemd.read_unit_file("sysusers.conf")
    return files


def _print_files(given: Options, root: Path) -> int:
    print("\n".join(f"# {path}\n{text}" for path, text in _render_files(given, root).items()), end="")
    return 0


def _install(given: Options, root: Path) -> int:
    """Write, let systemd read it, start."""
    if not given.user:
        _require_root(root, "install")
    if not (given.user or given.person) and systemd.is_own_user_taken():
        raise ConfigError(
            f"{systemd.OWN_USER} is the name of a person on this machine: let the service run as that person, with --as picoclaw"
        )
    place, files = systemd.list_services(root)[given.user], _render_files(given, root)
    paths = [*files, *([] if given.user else [root / _ENVIRONMENT_FILE])]
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    folders = {folder for path in paths for folder in path.parents if not folder.exists()}
    try:
        for path, text in files.items():
            _write_file(path, text)
        if not given.user:
            _prepare_system(given, root)
        run_systemctl(place, "daemon-reload")
        run_systemctl(place, "enable", "picoclaw", systemd.EXEC_SOCKET)
        if not given.no_start:
            run_systemctl(place, "restart", systemd.EXEC_SOCKET)
            logs = f"journalctl {'--user-unit' if given.user else '--unit'} picoclaw"
            run_systemctl(place, "restart", "picoclaw", more=logs)
    except BaseException as error:
        _roll_back_install(place, before, folders)
        if isinstance(error, ConfigError):
            raise ConfigError(f"{error}; what was written has been taken back") from None
        raise
    if missing := find_missing_program():
        print(f"note: no command can be run before {missing} is installed: {INSTALL_COMMAND}")
    if given.no_start:
        print("picoclaw starts at the next boot, or with `systemctl start picoclaw`")
        return 0
    _print_next_steps(given, root)
    return 0


def _roll_back_install(place: Service, before: Mapping[Path, bytes | None], folders: Collection[Path]) -> None:
    """After a failure: files are as they were, a service and `folders` that were not there before are gone again."""
    if before[place.folder / UNIT_NAME] is None:
        for name in ("picoclaw", systemd.EXEC_SOCKET):
            with suppress(ConfigError):
                run_systemctl(place, "disable", "--now", name)
    for path, data in before.items():
        if data is not None:
            if path.read_bytes() != data:
                files.write_atomic(path, data, path.stat().st_mode & 0o777)
        elif path.exists():
            path.unlink()
            print(f"removed {path}")
    for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    with suppress(ConfigError):
        run_systemctl(place, "daemon-reload")


def _write_file(path: Path, text: str) -> None:
    """Write one file for all to read, and say whether that changed anything."""
    before = path.read_bytes() if path.exists() else None
    if before == text.encode():
        print(f"{path} is as it should be")
        return
    files.make_folder(path.parent, 0o755)
    files.write_atomic(path, text.encode(), 0o644)
    print(f"{'made' if before is None else 'replaced'} {path}")


def _prepare_system(given: Options, root: Path) -> None:
    """Make the user, its groups and the rights of the buses, and a file for variables that only root can read."""
    if not given.person:
        run_command("systemd-sysusers", str(root / "etc/sysusers.d/picoclaw.conf"))
        for group in systemd.list_bus_groups(root):
            run_command("systemd-sysusers", "--inline", f"m {systemd.OWN_USER} {group}")
    run_command("udevadm", "control", "--reload")
    run_command("udevadm", "trigger", "--action=change", *(f"--subsystem-match={bus}" for bus in _UDEV_SUBSYSTEMS))
    files.make_folder((root / _ENVIRONMENT_FILE).parent, 0o755)
    files.create_file(root / _ENVIRONMENT_FILE, systemd.read_unit_file("environment.example").encode(), 0o600)


def _print_next_steps(given: Options, root: Path) -> None:
    """Say how to talk to it, and what is not taken along."""
    if given.user:
        name = pwd.getpwuid(os.getuid()).pw_name
        print(f"picoclaw runs. It ends when you log out, unless you type once: sudo loginctl enable-linger {name}")
    elif given.person:
        print(f"picoclaw runs as {given.person}; `picoclaw chat` talks to it")
    else:
        print("picoclaw runs; talk to it with: sudo -u picoclaw picoclaw chat")
        _mention_previous_home(root)


def _mention_previous_home(root: Path) -> None:
    """Point at a home that was used until now: it is neither taken nor merged."""
    name = os.environ.get("SUDO_USER", "")
    if name and (root / "home" / name / ".picoclaw").is_dir():
        again = f"sudo picoclaw service install --as {name}"
        print(f"It starts with an empty home in /var/lib/picoclaw; to go on with /home/{name}/.picoclaw: {again}")


def _control_service(given: Options, root: Path) -> int:
    """Have systemd start or stop it, and wait until that is done."""
    place = _find_installed_manager(root)
    if not place.user:
        _require_root(root, given.word)
    run_systemctl(place, given.word, "picoclaw", more="" if given.word == "stop" else "picoclaw service logs")
    print("picoclaw has stopped" if given.word == "stop" else "picoclaw runs")
    return 0


def uninstall(_: Options, root: Path) -> int:
    """Stop, forget, take the files away; state, variables, keys and the user stay."""
    place = _find_installed_manager(root)
    if not place.user:
        _require_root(root, "uninstall")
    home = _find_service_home(place)
    if place.drop_in(systemd.EXEC_SERVICE).exists():
        run_systemctl(place, "disable", "--now", systemd.EXEC_SOCKET)
    run_systemctl(place, "disable", "--now", "picoclaw")
    drop_ins = [place.drop_in(name) for name in (UNIT_NAME, systemd.EXEC_SERVICE, systemd.EXEC_SOCKET)]
    paths = [*_render_fixed_files(place, root), *drop_ins]
    paths += [] if place.user else [root / "etc/sysusers.d/picoclaw.conf"]
    for path in paths:
        if path.exists():
            path.unlink()
            print(f"removed {path}")
    for path in drop_ins:
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    run_systemctl(place, "daemon-reload")
    keys = "" if place.user else ", its variables and keys in /etc/picoclaw and /etc/credstore"
    print(f"what it knows is still in {home}{keys}")
    return 0


def _find_service_home(place: Service) -> str:
    """Read from the drop-in where the home is, because nothing else remembers whom the service ran as."""
    try:
        found = re.search(r'PICOCLAW_HOME=([^"\n]+)', (place.folder / DROP_IN_PATH).read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else str(Path("~/.picoclaw").expanduser()) if place.user else "/var/lib/picoclaw"


def _show_status(given: Options, root: Path) -> int:
    """Print what systemd knows of it; 0 when it runs."""
    place = _find_installed_manager(root)
    asked = run_systemctl(place, "show", "picoclaw", f"--property={','.join(_SHOWN_PROPERTIES)}")
    said = dict(line.split("=", 1) for line in asked.splitlines() if "=" in line)
    stale = [str(path) for path, text in _render_fixed_files(place, root).items() if not _has_content(path, text)]
    if given.json:
        print(format_json({**said, "stale": stale}))
    else:
        for key, what in _SHOWN_PROPERTIES.items():
            value = said.get(key, "")
            if value not in _UNSET_VALUES:
                if key == "MemoryCurrent" and value.isdigit():
                    value = f"{int(value) / 1e6:.0f} MB"
                print(escape_unprintable(f"{what:9} {value}"))
        for path in stale:
            print(f"note: {path} is not what this picoclaw would write; `picoclaw service install` repairs that")
    return 0 if said.get("ActiveState") == "active" else 1


def _render_fixed_files(place: Service, root: Path) -> Mapping[Path, str]:
    """Return the files that do not depend on how it was installed."""
    files = systemd.load_units(place.folder, own=bool(place.user))
    if not place.user:
        files[root / "etc/udev/rules.d/60-picoclaw.rules"] = systemd.read_unit_file("udev.rules")
    return files


def _has_content(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def run_logs(given: Options, root: Path = Path("/")) -> int:
    """Become journalctl: it pages, colours and follows by itself."""
    place = _find_installed_manager(root)
    command = ["journalctl", "--user-unit" if place.user else "--unit", "picoclaw", "--lines", str(given.n)]
    sys.stdout.flush()
    try:
        os.execvp(command[0], [*command, *(["--follow"] if given.follow else [])])  # noqa: S606
    except FileNotFoundError:
        raise ConfigError(SYSTEMD_MISSING.format(command[0])) from None


def _require_root(root: Path, act: str) -> None:
    folder = next(path for path in (root / "etc/systemd/system", *root.glob("etc"), root) if path.exists())
    if not os.access(folder, os.W_OK):
        command = " ".join(systemd.find_program().command)
        raise ConfigError(f"{folder} cannot be written: sudo {command} service {act}, or --user for a service of yours")
