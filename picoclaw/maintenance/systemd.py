"""systemd: what differs from machine to machine in picoclaw's units, and how systemd is asked. The daemon is daemon/service.py.

Source: systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

import grp
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error, find_shipped
from picoclaw.maintenance import MaintenanceError, find_installation
from picoclaw.records import NamedTuple
from picoclaw.security import sandbox_launcher
from picoclaw.text import escape_unprintable

UNIT_NAME, DROP_IN_PATH = "picoclaw.service", "picoclaw.service.d/10-machine.conf"
OWN_USER = "picoclaw"
EXEC_SOCKET, EXEC_SERVICE = "picoclaw-exec.socket", "picoclaw-exec@.service"
USER_UNIT_TEMPLATES = {UNIT_NAME: "user.service", EXEC_SOCKET: "user-exec.socket", EXEC_SERVICE: "user-exec@.service"}
"""By a unit's name, the file that ships for a user's own session; the system's are named as the units are."""

SYSTEMD_MISSING = "{} is not here: where another program starts the services, let it start `picoclaw run`"
_TIMEOUT_S = 180.0
_HIDDEN_FOLDERS = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108
"""What the service does not see (ProtectHome, PrivateTmp)."""
_UNIT_SERIAL_DRIVERS = {"ttyAMA", "ttyS", "ttyUSB", "ttyACM"}
_VIRTUAL_TTYS = {"ttyprintk", "ttynull"}
_SYSUSERS_GROUPS = {"i2c", "spi", "gpio", "dialout"}
_BUS_DEVICES = ("dev/i2c-[0-9]*", "dev/spidev*", "dev/gpiochip*", "dev/ttyAMA*", "dev/ttyUSB*", "dev/ttyACM*")


class Service(NamedTuple):
    """The systemd unit, of the system or of the user's own session, and the folder of its files."""

    folder: Path
    user: tuple[str, ...] = ()

    @property
    def unit(self) -> Path:
        return self.folder / UNIT_NAME

    @property
    def systemctl(self) -> str:
        """How a person calls it for this unit."""
        return "systemctl --user" if self.user else "sudo systemctl"

    @property
    def install(self) -> str:
        """What a person types to have the files written again."""
        return "picoclaw service install --user" if self.user else "sudo picoclaw service install"

    def describe_change(self, name: str) -> str:
        """Explain how one of its files differs from the shipped one, '' if it does not."""
        path = self.folder / name
        try:
            same = path.read_bytes() == read_unit_file(USER_UNIT_TEMPLATES[name] if self.user else name).encode()
        except OSError as error:
            return f"{path} cannot be compared: {explain_os_error(error)}"
        return "" if same else f"{path} is from another picoclaw than this one"

    def drop_in(self, name: str) -> Path:
        return self.folder / f"{name}.d/10-machine.conf"

    def do(self, act: str) -> None:
        """`stop` or `start` it; returns when it says that it is ready. Raises MaintenanceError with systemd's words."""
        try:
            run_systemctl(self, act, UNIT_NAME)
        except ConfigError as error:
            raise MaintenanceError(str(error)) from None

    def runs(self) -> bool:
        try:
            run_systemctl(self, "is-active", UNIT_NAME)
        except ConfigError:
            return False
        return True

    def restarts(self) -> int:
        """Count how often systemd has restarted it; -1 if it does not run."""
        said = self._show("-p", "ActiveState", "-p", "NRestarts")
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        return int(found.get("NRestarts", "0") or 0) if found.get("ActiveState") == "active" else -1

    def starts(self, *paths: str) -> bool:
        """Whether its program is one of these paths or below one; else it belongs to another installation."""
        said = self._show("-p", "ExecStart")
        return any(re.search(rf"path={re.escape(path)}[/ ;]", said) for path in paths if path)

    def home(self) -> str:
        """Return PICOCLAW_HOME as the unit's file sets it, empty when it does not."""
        found = re.search(r"\bPICOCLAW_HOME=(\S+)", self._show("-p", "Environment"))
        return found[1] if found else ""

    def _show(self, *words: str) -> str:
        try:
            return run_systemctl(self, "show", UNIT_NAME, *words)
        except ConfigError:
            return ""


def list_services(root: Path = Path("/")) -> tuple[Service, Service]:
    """Return the system's and this user's own; `root` is the folder that stands for the machine's."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return Service(root / "etc/systemd/system"), Service(settings / "systemd/user", ("--user",))


def find_installed(root: Path = Path("/")) -> Service | None:
    """Return the service whose unit is there, the system's before this user's own."""
    return next((unit for unit in list_services(root) if unit.unit.exists()), None)


def find_service(*paths: str) -> Service | None:
    """Return the unit, running or not, that starts one of these programs, or one below these folders."""
    return next((unit for unit in list_services() if unit.starts(*paths)), None)


def find_running_service() -> Service | None:
    return next((unit for unit in list_services() if unit.runs()), None)


def run_systemctl(unit: Service, *words: str, more: str = "") -> str:
    """Run systemctl; returns what it printed. Raises ConfigError; `more` is the command that shows more of why."""
    return run_command("systemctl", *unit.user, *words, more=more)


def run_command(*command: str, more: str = "") -> str:
    """Run a program of systemd's; raises ConfigError with its own first words when it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise ConfigError(SYSTEMD_MISSING.format(command[0])) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"`{' '.join(command)}` failed: {error}") from None
    if done.returncode:
        words = done.stderr.strip() or done.stdout.strip()
        why = words.splitlines()[0].rstrip(".") if words else "it did not say why"
        shown = f"`{' '.join(command)}` failed: {why}{f'; `{more}` shows more' if more else ''}"
        raise ConfigError(escape_unprintable(shown))
    return done.stdout


class Program(NamedTuple):
    """The command that starts picoclaw, and the folders of its code."""

    command: tuple[str, ...]
    folders: tuple[Path, ...]


def find_program() -> Program:
    """Find how this picoclaw is started; in an installation with versions, by the link that an update moves."""
    prefix, place = Path(sys.prefix), find_installation()
    folders = {prefix, Path(sys.base_prefix), Path(sys.executable).resolve().parent, Path(__file__).parents[2]}
    own = prefix / "bin/picoclaw"
    if place:
        folders.add(place.root)
        own = place.root / "current/bin/picoclaw"
    command = (str(own),) if own.exists() else (sys.executable, "-m", "picoclaw")
    outermost = (one for one in folders if not any(one.is_relative_to(other) for other in folders - {one}))
    return Program(command, tuple(sorted(outermost)))


def get_launcher_command() -> tuple[str, ...]:
    """Say how the launcher of commands is started, by the folder that an update moves, if there is one."""
    prefix, file, place = Path(sys.prefix), Path(sandbox_launcher.__file__), find_installation(sys.prefix)
    moved = place.root / "current" if place else prefix
    if file.is_relative_to(prefix) and (moved / "bin/python").exists() and moved.samefile(prefix):
        prefix, file = moved, moved / file.relative_to(prefix)
    python = prefix / "bin/python"
    return str(python if python.exists() else sys.executable), "-I", "-S", str(file)


def _is_hidden(path: Path) -> bool:
    """Whether a path, or its target, is in a folder that the service cannot see, such as /home and /tmp."""
    return any(p.is_relative_to(folder) for p in (path, path.resolve()) for folder in _HIDDEN_FOLDERS)


def render_own_user_drop_in(found: Program, root: Path) -> str:
    """Render the drop-in of a service with a user of its own; raises ConfigError if that user cannot read picoclaw."""
    for folder in found.folders:
        above = (folder.resolve(), *folder.resolve().parents)
        if _is_hidden(folder) or not all(path.stat().st_mode & 0o001 for path in above):
            raise ConfigError(
                f"picoclaw lies in {folder}, which the service's own user cannot see: install it below /opt, "
                "or let it run as the one whose folder it is, with --as NAME"
            )
    return _render_section([*_render_start_lines(found), *_render_device_lines(root)])


def render_user_drop_in(found: Program, root: Path, name: str) -> str:
    """Render the drop-in of a service that runs as a person, on that person's home; raises ConfigError."""
    home = _find_user_home(name, root)
    lines = _render_user_lines(found, name, home)
    lines.insert(3, f"Environment={_quote(f'PICOCLAW_HOME={home}')}")
    return _render_section([*lines, *_render_start_lines(found), *_render_device_lines(root)])


def _find_user_home(name: str, root: Path) -> Path:
    try:
        person = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"there is no user {name} on this machine") from None
    if person.pw_uid == 0:
        raise ConfigError("picoclaw does not run as root: a model would have all of the board; leave out --as")
    home = Path(person.pw_dir) / ".picoclaw"
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
        *(f"BindReadOnlyPaths={_quote(str(folder))}" for folder in found.folders if _is_hidden(folder)),
    ]


def render_exec_drop_in(found: Program, root: Path, person: str | None) -> str:
    """Render the drop-in of the unit that runs commands, as a person or as the unit's own user."""
    lines = _render_user_lines(found, person, _find_user_home(person, root)) if person else []
    return _render_section([*lines, "ExecStart=", f"ExecStart={' '.join(map(_quote, get_launcher_command()))}"])


def render_socket_drop_in(person: str) -> str:
    """Render the drop-in of the socket through which a person's service asks for commands."""
    return _render_section([f"SocketUser={person}"], "Socket")


def render_session_drop_in(found: Program) -> str:
    return _render_section(_render_start_lines(found))


def is_own_user_taken() -> bool:
    """Whether the name of the service's user already belongs to a person."""
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
    """Allow the devices of this board that the unit does not name: further kinds of serial ports, PWM folders."""
    try:
        text = (root / "proc/devices").read_text(encoding="ascii", errors="replace").partition("Block devices")[0]
    except OSError:
        text = ""
    drivers = set(re.findall(r"^ *\d+ (tty\w+)$", text, re.MULTILINE))
    for name in sorted(drivers - _UNIT_SERIAL_DRIVERS - _VIRTUAL_TTYS):
        yield f"DeviceAllow=char-{name} rw"
    for chip in sorted((root / "sys/class/pwm").glob("pwmchip*")):
        yield f"ReadWritePaths={_quote(f'/{chip.resolve().relative_to(root.resolve())}')}"


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
    if "\n" in word:
        raise ConfigError(f"{word!r} cannot be written into a unit: it holds a line break")
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"' if re.search(r"[\s\"';]", word) else word


def load_units(folder: Path, *, own: bool) -> dict[Path, str]:
    """Return the units, which do not depend on the machine; `own`: those of a user's own session."""
    return {folder / name: read_unit_file(shipped if own else name) for name, shipped in USER_UNIT_TEMPLATES.items()}


def read_unit_file(name: str) -> str:
    return (find_shipped("systemd") / name).read_text(encoding="utf-8")
