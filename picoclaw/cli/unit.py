"""What differs from machine to machine in the service: whose it is, where picoclaw lies, what the board has.

Reads the machine and writes nothing. Source: systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

import grp
import pwd
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from picoclaw.care.place import find
from picoclaw.errors import ConfigError
from picoclaw.resources import shipped
from picoclaw.sandbox import launcher

OWN_USER = "picoclaw"
DOOR, COMMANDS = "picoclaw-exec.socket", "picoclaw-exec@.service"
_IN_SESSION = {"picoclaw.service": "user.service", DOOR: "user-exec.socket", COMMANDS: "user-exec@.service"}
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108
"""What the service does not see (ProtectHome, PrivateTmp)."""
_IN_UNIT = {"ttyAMA", "ttyS", "ttyUSB", "ttyACM"}
_NO_PORTS = {"ttyprintk", "ttynull"}
_GROUPS = {"i2c", "spi", "gpio", "dialout"}
_NODES = ("dev/i2c-[0-9]*", "dev/spidev*", "dev/gpiochip*", "dev/ttyAMA*", "dev/ttyUSB*", "dev/ttyACM*")


class Program(NamedTuple):
    """How picoclaw is started, and the folders that it is made of."""

    command: tuple[str, ...]
    folders: tuple[Path, ...]


def program() -> Program:
    """Say how this very picoclaw is started: where versions lie side by side, by the link that an update moves."""
    prefix, place = Path(sys.prefix), find()
    folders = {prefix, Path(sys.base_prefix), Path(sys.executable).resolve().parent, Path(__file__).parents[2]}
    own = prefix / "bin/picoclaw"
    if place:
        folders.add(place.root)
        own = place.root / "current/bin/picoclaw"
    command = (str(own),) if own.exists() else (sys.executable, "-m", "picoclaw")
    return Program(command, tuple(sorted(f for f in folders if not _within(f, folders - {f}))))


def launched() -> tuple[str, ...]:
    """Say how the launcher of commands is started, by the folder that an update moves, if there is one."""
    prefix, file, place = Path(sys.prefix), Path(launcher.__file__), find(sys.prefix)
    moved = place.root / "current" if place else prefix
    if file.is_relative_to(prefix) and (moved / "bin/python").exists() and moved.samefile(prefix):
        prefix, file = moved, moved / file.relative_to(prefix)
    python = prefix / "bin/python"
    return str(python if python.exists() else sys.executable), "-I", "-S", str(file)


def _within(folder: Path, others: set[Path]) -> bool:
    return any(folder.is_relative_to(other) for other in others)


def hidden(path: Path) -> bool:
    """Tell whether a path, or what it is a link to, lies where the service does not look: in a home, in /tmp."""
    return any(p.is_relative_to(folder) for p in (path, path.resolve()) for folder in _HIDDEN)


def for_itself(found: Program, root: Path) -> str:
    """Word the drop-in of a service with a user of its own; raises ConfigError where that user sees no picoclaw."""
    for folder in found.folders:
        if hidden(folder) or not _open_to_all(folder):
            raise ConfigError(
                f"picoclaw lies in {folder}, which the service's own user cannot see: install it below /opt, "
                "or let it run as the one whose folder it is, with --as NAME"
            )
    return _worded([*_started(found), *_board(root)])


def _open_to_all(folder: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in (folder.resolve(), *folder.resolve().parents))


def for_person(found: Program, root: Path, name: str) -> str:
    """Word the drop-in of a service that runs as a person, on that person's own home; raises ConfigError."""
    home = _home(name, root)
    whose = _whose(found, name, home)
    whose.insert(3, f"Environment={_quoted(f'PICOCLAW_HOME={home}')}")
    return _worded([*whose, *_started(found), *_board(root)])


def _home(name: str, root: Path) -> Path:
    home = Path(_person(name).pw_dir) / ".picoclaw"
    if not (root / home.relative_to("/")).is_dir():
        raise ConfigError(f"{home} does not exist: as {name}, run `picoclaw init` first")
    return home


def _whose(found: Program, name: str, home: Path) -> list[str]:
    return [
        f"User={name}",
        "# Nothing of the homes is seen but these; no folder in /var/lib is needed.",
        "StateDirectory=",
        "ProtectHome=tmpfs",
        f"BindPaths={_quoted(str(home))}",
        *(f"BindReadOnlyPaths={_quoted(str(folder))}" for folder in found.folders if hidden(folder)),
    ]


def for_commands(found: Program, root: Path, person: str | None) -> str:
    """Word the drop-in of the unit that runs commands, as a person or as whoever the unit names."""
    whose = _whose(found, person, _home(person, root)) if person else []
    return _worded([*whose, "ExecStart=", f"ExecStart={' '.join(map(_quoted, launched()))}"])


def for_door(person: str) -> str:
    """Word the drop-in of the socket through which a person's service asks for commands."""
    return _worded([f"SocketUser={person}"], "Socket")


def _person(name: str) -> pwd.struct_passwd:
    try:
        person = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"there is no user {name} on this machine") from None
    if person.pw_uid == 0:
        raise ConfigError("picoclaw does not run as root: a model would have all of the board; leave out --as")
    return person


def for_session(found: Program) -> str:
    """Word the drop-in of a user's own service."""
    return _worded(_started(found))


def taken() -> bool:
    """Tell whether the name of the service's own user belongs to a person already."""
    try:
        return pwd.getpwnam(OWN_USER).pw_uid >= 1000
    except KeyError:
        return False


def _worded(lines: Iterable[str], section: str = "Service") -> str:
    head = "# What is so on this machine, written by `picoclaw service install`; yours belongs into `systemctl edit`."
    return "\n".join([head, f"[{section}]", *lines, ""])


def _started(found: Program) -> Iterator[str]:
    command = " ".join(map(_quoted, found.command))
    for key, words in (("ExecStart", "run"), ("ExecStopPost", "outputs safe")):
        yield f"{key}="
        yield f"{key}={command} {words}"


def _board(root: Path) -> Iterator[str]:
    """Open what this board has and the unit does not name: further kinds of serial ports, the folders of PWM."""
    for name in serial_classes(root):
        yield f"DeviceAllow=char-{name} rw"
    for chip in sorted((root / "sys/class/pwm").glob("pwmchip*")):
        yield f"ReadWritePaths={_quoted(f'/{chip.resolve().relative_to(root.resolve())}')}"


def serial_classes(root: Path) -> list[str]:
    """Name the drivers of serial ports that this kernel has beyond those that every unit names."""
    try:
        text = (root / "proc/devices").read_text(encoding="ascii", errors="replace").partition("Block devices")[0]
    except OSError:
        return []
    return sorted(set(re.findall(r"^ *\d+ (tty\w+)$", text, re.MULTILINE)) - _IN_UNIT - _NO_PORTS)


def further_groups(root: Path) -> list[str]:
    """Name the groups that own a bus on this board, and that sysusers.conf does not name."""
    owners = {path.stat().st_gid for pattern in _NODES for path in root.glob(pattern)} - {0}
    return sorted({_name(gid) for gid in owners} - _GROUPS - {""})


def _name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def _quoted(word: str) -> str:
    """Write a word as systemd takes it: % begins a specifier, a blank the next word."""
    if "\n" in word:
        raise ConfigError(f"{word!r} cannot be written into a unit: it holds a line break")
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"' if re.search(r"[\s\"';]", word) else word


def units(folder: Path, *, own: bool) -> dict[Path, str]:
    """Return the units, which do not depend on the machine; `own`: those of a user's own session."""
    return {folder / name: text(shipped_as if own else name) for name, shipped_as in _IN_SESSION.items()}


def text(name: str) -> str:
    """Read one of the files that ship in `systemd/`."""
    return (shipped("systemd") / name).read_text(encoding="utf-8")
