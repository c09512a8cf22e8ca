"""What differs from machine to machine in the service: whose it is, where picoclaw lies, what the board has.

Reads the machine and writes nothing. Source: systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

import grp
import pwd
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ConfigError
from picoclaw.maintenance.install import find_installation
from picoclaw.resources import find_shipped
from picoclaw.security import sandbox_launcher
from picoclaw.text import escape_unprintable

OWN_USER = "picoclaw"
EXEC_SOCKET, EXEC_SERVICE = "picoclaw-exec.socket", "picoclaw-exec@.service"
USER_UNIT_TEMPLATES = {
    "picoclaw.service": "user.service",
    EXEC_SOCKET: "user-exec.socket",
    EXEC_SERVICE: "user-exec@.service",
}
_HIDDEN_FOLDERS = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108
"""What the service does not see (ProtectHome, PrivateTmp)."""
_UNIT_SERIAL_DRIVERS = {"ttyAMA", "ttyS", "ttyUSB", "ttyACM"}
_VIRTUAL_TTYS = {"ttyprintk", "ttynull"}
_SYSUSERS_GROUPS = {"i2c", "spi", "gpio", "dialout"}
_BUS_DEVICES = ("dev/i2c-[0-9]*", "dev/spidev*", "dev/gpiochip*", "dev/ttyAMA*", "dev/ttyUSB*", "dev/ttyACM*")


class Program(NamedTuple):
    """How picoclaw is started, and the folders that it is made of."""

    command: tuple[str, ...]
    folders: tuple[Path, ...]


def find_program() -> Program:
    """Say how this very picoclaw is started: where versions lie side by side, by the link that an update moves."""
    prefix, place = Path(sys.prefix), find_installation()
    folders = {prefix, Path(sys.base_prefix), Path(sys.executable).resolve().parent, Path(__file__).parents[2]}
    own = prefix / "bin/picoclaw"
    if place:
        folders.add(place.root)
        own = place.root / "current/bin/picoclaw"
    command = (str(own),) if own.exists() else (sys.executable, "-m", "picoclaw")
    return Program(command, tuple(sorted(f for f in folders if not _is_within(f, folders - {f}))))


def get_launcher_command() -> tuple[str, ...]:
    """Say how the launcher of commands is started, by the folder that an update moves, if there is one."""
    prefix, file, place = Path(sys.prefix), Path(sandbox_launcher.__file__), find_installation(sys.prefix)
    moved = place.root / "current" if place else prefix
    if file.is_relative_to(prefix) and (moved / "bin/python").exists() and moved.samefile(prefix):
        prefix, file = moved, moved / file.relative_to(prefix)
    python = prefix / "bin/python"
    return str(python if python.exists() else sys.executable), "-I", "-S", str(file)


def _is_within(folder: Path, others: set[Path]) -> bool:
    return any(folder.is_relative_to(other) for other in others)


def is_hidden(path: Path) -> bool:
    """Tell whether a path, or what it is a link to, lies where the service does not look: in a home, in /tmp."""
    return any(p.is_relative_to(folder) for p in (path, path.resolve()) for folder in _HIDDEN_FOLDERS)


def render_own_user_drop_in(found: Program, root: Path) -> str:
    """Word the drop-in of a service with a user of its own; raises ConfigError where that user sees no picoclaw."""
    for folder in found.folders:
        if is_hidden(folder) or not _is_open_to_all(folder):
            raise ConfigError(
                f"picoclaw lies in {folder}, which the service's own user cannot see: install it below /opt, "
                "or let it run as the one whose folder it is, with --as NAME"
            )
    return _render_section([*_render_start_lines(found), *_render_device_lines(root)])


def _is_open_to_all(folder: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in (folder.resolve(), *folder.resolve().parents))


def render_user_drop_in(found: Program, root: Path, name: str) -> str:
    """Word the drop-in of a service that runs as a person, on that person's own home; raises ConfigError."""
    home = _find_user_home(name, root)
    whose = _render_user_lines(found, name, home)
    whose.insert(3, f"Environment={_quote(f'PICOCLAW_HOME={home}')}")
    return _render_section([*whose, *_render_start_lines(found), *_render_device_lines(root)])


def _find_user_home(name: str, root: Path) -> Path:
    home = Path(_get_user(name).pw_dir) / ".picoclaw"
    if not (root / home.relative_to("/")).is_dir():
        raise ConfigError(f"{home} does not exist: as {name}, run `picoclaw init` first")
    return home


def _render_user_lines(found: Program, name: str, home: Path) -> list[str]:
    return [
        f"User={name}",
        "# Nothing of the homes is seen but these; no folder in /var/lib is needed.",
        "StateDirectory=",
        "ProtectHome=tmpfs",
        f"BindPaths={_quote(str(home))}",
        *(f"BindReadOnlyPaths={_quote(str(folder))}" for folder in found.folders if is_hidden(folder)),
    ]


def render_exec_drop_in(found: Program, root: Path, person: str | None) -> str:
    """Word the drop-in of the unit that runs commands, as a person or as whoever the unit names."""
    whose = _render_user_lines(found, person, _find_user_home(person, root)) if person else []
    return _render_section([*whose, "ExecStart=", f"ExecStart={' '.join(map(_quote, get_launcher_command()))}"])


def render_socket_drop_in(person: str) -> str:
    """Word the drop-in of the socket through which a person's service asks for commands."""
    return _render_section([f"SocketUser={person}"], "Socket")


def _get_user(name: str) -> pwd.struct_passwd:
    try:
        person = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"there is no user {name} on this machine") from None
    if person.pw_uid == 0:
        raise ConfigError("picoclaw does not run as root: a model would have all of the board; leave out --as")
    return person


def render_session_drop_in(found: Program) -> str:
    """Word the drop-in of a user's own service."""
    return _render_section(_render_start_lines(found))


def is_own_user_taken() -> bool:
    """Tell whether the name of the service's own user belongs to a person already."""
    try:
        return pwd.getpwnam(OWN_USER).pw_uid >= 1000
    except KeyError:
        return False


def _render_section(lines: Iterable[str], section: str = "Service") -> str:
    head = "# What is so on this machine, written by `picoclaw service install`; yours belongs into `systemctl edit`."
    return "\n".join([head, f"[{section}]", *lines, ""])


def _render_start_lines(found: Program) -> Iterator[str]:
    command = " ".join(map(_quote, found.command))
    for key, words in (("ExecStart", "run"), ("ExecStopPost", "outputs safe")):
        yield f"{key}="
        yield f"{key}={command} {words}"


def _render_device_lines(root: Path) -> Iterator[str]:
    """Open what this board has and the unit does not name: further kinds of serial ports, the folders of PWM."""
    for name in list_serial_drivers(root):
        yield f"DeviceAllow=char-{name} rw"
    for chip in sorted((root / "sys/class/pwm").glob("pwmchip*")):
        yield f"ReadWritePaths={_quote(f'/{chip.resolve().relative_to(root.resolve())}')}"


def list_serial_drivers(root: Path) -> list[str]:
    """Name the drivers of serial ports that this kernel has beyond those that every unit names."""
    try:
        text = (root / "proc/devices").read_text(encoding="ascii", errors="replace").partition("Block devices")[0]
    except OSError:
        return []
    return sorted(set(re.findall(r"^ *\d+ (tty\w+)$", text, re.MULTILINE)) - _UNIT_SERIAL_DRIVERS - _VIRTUAL_TTYS)


def list_bus_groups(root: Path) -> list[str]:
    """Name the groups that own a bus on this board, and that sysusers.conf does not name."""
    owners = {path.stat().st_gid for pattern in _BUS_DEVICES for path in root.glob(pattern)} - {0}
    return sorted({_get_group_name(gid) for gid in owners} - _SYSUSERS_GROUPS - {""})


def _get_group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def _quote(word: str) -> str:
    """Write a word as systemd takes it: % begins a specifier, a blank the next word."""
    if "\n" in word:
        raise ConfigError(f"{word!r} cannot be written into a unit: it holds a line break")
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"' if re.search(r"[\s\"';]", word) else word


def load_units(folder: Path, *, own: bool) -> dict[Path, str]:
    """Return the units, which do not depend on the machine; `own`: those of a user's own session."""
    return {
        folder / name: read_unit_file(shipped_as if own else name) for name, shipped_as in USER_UNIT_TEMPLATES.items()
    }


def read_unit_file(name: str) -> str:
    """Read one of the files that ship in `systemd/`."""
    return (find_shipped("systemd") / name).read_text(encoding="utf-8")


# Where the files of a service lie, and how systemd is asked about it.

UNIT_NAME, DROP_IN_PATH = "picoclaw.service", "picoclaw.service.d/10-machine.conf"
SYSTEMD_MISSING = "{} is not here: where another program starts the services, let it start `picoclaw run`"


class UnitManager(NamedTuple):
    """One of the two managers: the machine's, or the user's own, and the folder of its units."""

    folder: Path
    user: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Tell whether there is a unit."""
        return (self.folder / UNIT_NAME).exists()

    def drop_in(self, name: str) -> Path:
        """Name the file of what is so on this machine."""
        return self.folder / f"{name}.d/10-machine.conf"


def run_systemctl(place: UnitManager, *words: str, more: str = "") -> str:
    """Run systemctl; returns what it printed. Raises ConfigError; `more` is the command that shows more of why."""
    return run_command("systemctl", *place.user, *words, more=more)


def run_command(*command: str, more: str = "") -> str:
    """Run a program of systemd's; raises ConfigError with its own first words when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise ConfigError(SYSTEMD_MISSING.format(command[0])) from None
    if done.returncode:
        raise ConfigError(_format_failure(command, done.stderr.strip() or done.stdout.strip(), more))
    return done.stdout


def _format_failure(command: Sequence[str], words: str, more: str) -> str:
    why = words.splitlines()[0].rstrip(".") if words else "it did not say why"
    return escape_unprintable(f"`{' '.join(command)}` failed: {why}{f'; `{more}` shows more' if more else ''}")
