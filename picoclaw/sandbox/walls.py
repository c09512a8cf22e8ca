"""What a command sees and may change, written as the arguments of bubblewrap. Source: bwrap(1) of 0.8.

The whole system is there to be read, but for homes, sockets, temporary files and picoclaw's own home; of the workspace
alone something can be changed, and only by a command that asked for it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from picoclaw.sandbox.looks import Sight, sight
from picoclaw.sandbox.seccomp import INET, INET6, NETLINK, UNIX

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/tmp"  # noqa: S108
_HIDDEN = ("/home", "/root", "/run", "/srv", "/mnt", "/media")
"""What is empty there: other files and disks of the owner's, and the sockets of the system's services."""
_KEYS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/picoclaw", "/etc/credstore", "/etc/credstore.encrypted", "/etc/ssl/private", "/etc/wireguard"),
    *("/etc/wpa_supplicant", "/etc/NetworkManager/system-connections", "/etc/netplan", "/etc/krb5.keytab"),
    *("/var/lib/NetworkManager", "/var/lib/iwd", "/var/lib/systemd/credential.secret", "/var/lib/private"),
    *("/var/spool/cron", "/var/mail", "/var/backups"),
)
"""What only root may read; a picoclaw that runs as root could, so that it is empty there."""
_FRESH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
_OF_RUN = ("/run/log/journal", "/run/udev/data", "/run/utmp", "/run/mount", "/run/systemd/timesync/synchronized")
_OF_NETWORK = ("/run/avahi-daemon/socket",)
_SETTINGS = (".config/mosquitto_sub", ".config/mosquitto_pub", ".homeassistant-header")
"""Of the owner's folder: how shipped skills say that a broker or a house is reached, for commands with a network."""
_WATCH = '[ $$ = 2 ] && ( ( read -r _ </proc/self/fd/$1; kill -9 -1 ) </dev/null >/dev/null 2>&1 & ); shift; exec "$@"'
"""Ends all that is in the sandbox when we are gone; --die-with-parent misses that while the walls are put up."""
_FRESH_BYTES = 64 << 20
_FILE_BYTES = 1 << 30
_LEAST_MEMORY = 256 << 20
_PROCESSES, _OPEN_FILES = 128, 1024


class Wish(NamedTuple):
    """A command and what it asks for; `argv` is never empty, `cwd` absolute, `seconds` its longest life."""

    argv: tuple[str, ...]
    cwd: Path
    seconds: float
    write: bool = False
    network: bool = False


def _none() -> Iterable[Path]:
    return ()


class Ground(NamedTuple):
    """Where the walls stand: picoclaw's home, of which nothing is seen but the workspace; further folders to work in.

    `owner` is the owner's own folder, which is not seen either. `kept()` are files and folders that commands see and
    never change, also in the workspace: they instruct later turns.
    """

    home: Path
    workspace: Path
    owner: Path
    folders: tuple[Path, ...] = ()
    kept: Callable[[], Iterable[Path]] = _none

    def works_in(self, path: Path) -> bool:
        """Tell whether a resolved path lies where a command may be given the right to write."""
        if path.is_relative_to(self.workspace.resolve()):
            return True
        return not path.is_relative_to(self.home.resolve()) and any(
            path.is_relative_to(folder.resolve()) for folder in self.folders
        )

    def pages(self) -> list[Path]:
        """Name what no command changes, by what it is mounted as: in the workspace all that lies at its top.

        A folder there could else be moved away with the mount in it.
        """
        return list(dict.fromkeys(map(self._at_top, self.kept())))

    def _at_top(self, page: Path) -> Path:
        top = self.workspace.resolve()
        for root in (self.workspace, top):
            if page != root and page.is_relative_to(root):
                return top / page.relative_to(root).parts[0]
        return page.resolve()

    def shows(self, path: Path) -> bool:
        """Tell whether a command sees a resolved path."""
        hidden = (*_HIDDEN, *_FRESH, "/dev", *self.hidden())
        shown = self.works_in(path) or any(path.is_relative_to(page.resolve()) for page in self.kept())
        return shown or not any(path.is_relative_to(name) for name in hidden)

    def hidden(self) -> list[str]:
        """Name what is empty, so that nothing of it is seen; picoclaw's home comes last."""
        named = (*_HIDDEN, *(path for path in _KEYS if os.access(path, os.R_OK)), *map(str, self._owners()))
        found = [os.path.realpath(path) for path in named if Path(path).is_dir()]
        return [*dict.fromkeys(found), str(self.home.resolve())]

    def _owners(self) -> tuple[Path, ...]:
        """The owner's folder, unless that is the system's: a user that has none has `/` or `/usr/sbin`."""
        own = self.owner.resolve()
        return (own,) if len(own.parts) > 2 and own.parts[1] not in {"usr", "etc", "tmp"} else ()


def families(wish: Wish) -> tuple[int, ...]:
    """Name the kinds of sockets that a command may make: without a network none that reaches another program."""
    return (INET, INET6, NETLINK, UNIX) if wish.network else (INET, INET6, NETLINK)


def environment(ours: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """Make the environment of commands; of ours it takes how people write, what time it is, and what is named."""
    given = {name: ours[name] for name in names if ours.get(name)}
    kept = {name: ours[name] for name in ("LANG", "LC_ALL", "TZ") if ours.get(name)}
    return given | {"PATH": PATH, "HOME": HOME, "TERM": "dumb"} | kept


def walls(
    wish: Wish, ground: Ground, variables: Mapping[str, str], *, filter_fd: int = 0, lifeline: int = 0
) -> list[str]:
    """Word the whole command.

    `filter_fd` is where bwrap reads the filter of system calls, `lifeline` a pipe that ends with us; 0 for none.
    """
    seen = sight(wish.argv)
    words = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if wish.network or seen.network else ["--unshare-net"]
    words += [] if seen.processes else ["--unshare-pid"]
    words += ["--new-session", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    words += _files(wish, ground, seen)
    for name, value in variables.items():
        words += ["--setenv", name, value]
    words += ["--chdir", str(wish.cwd)]
    words += ["--seccomp", str(filter_fd)] if filter_fd else []
    words += ["--", "/bin/sh", "-c", _WATCH, "sh", str(lifeline)] if lifeline and not seen.processes else ["--"]
    return [*words, *_limits(wish.seconds), *wish.argv]


def _files(wish: Wish, ground: Ground, seen: Sight) -> Iterator[str]:
    """Say what is mounted where, in this order: what comes later lies over what came before."""
    workspace, (*hidden, home) = str(ground.workspace.resolve()), ground.hidden()
    yield from ("--ro-bind", "/", "/", "--dev", "/dev")
    yield from ("--ro-bind", "/proc", "/proc") if seen.processes else ("--proc", "/proc", "--remount-ro", "/proc")
    yield from _emptied(hidden)
    for path in (*_OF_RUN, *(_resolver() if wish.network else ())):
        yield from ("--ro-bind-try", path, path)
    for folder in ground.folders:
        yield from ("--bind-try" if wish.write else "--ro-bind-try", *[str(folder.resolve())] * 2)
    yield from ("--tmpfs", home)
    yield from ("--bind" if wish.write else "--ro-bind", workspace, workspace)
    for page in ground.pages():
        yield from ("--ro-bind-try", *[str(page.resolve())] * 2)
    for path in (*_uncovered(hidden, ground.folders), home):
        yield from ("--remount-ro", path)
    for name in _SETTINGS if wish.network else ():
        yield from ("--ro-bind-try", str(ground.owner / name), f"{HOME}/{name}")
    for device in seen.devices:
        yield from ("--dev-bind-try", device, device)
    yield from ("--remount-ro", "/dev")


def _uncovered(hidden: Iterable[str], folders: Iterable[Path]) -> list[str]:
    """Leave out what the owner has opened again as a whole, with a folder that is it or holds it."""
    opened = [folder.resolve() for folder in folders if folder.resolve() != Path("/")]
    return [path for path in hidden if not any(Path(path).is_relative_to(folder) for folder in opened)]


def _emptied(hidden: Iterable[str]) -> Iterator[str]:
    for path in (*(path for path in _FRESH if not Path(path).is_symlink()), *hidden):
        yield from ("--size", str(_FRESH_BYTES), "--tmpfs", path)
    for path in _keys():
        yield from ("--ro-bind", "/dev/null", path)


def _keys() -> list[str]:
    """Name the single files of root's that we can read, and nobody else should."""
    named = (*_KEYS, *(str(path) for path in Path("/etc/ssh").glob("ssh_host_*_key")))
    return [path for path in named if os.access(path, os.R_OK) and os.path.isfile(path)]  # noqa: PTH113 - or a link


def _resolver() -> tuple[str, ...]:
    """Where names are looked up, if that is said in /run."""
    found = os.path.realpath("/etc/resolv.conf")
    return (found, *_OF_NETWORK) if found.startswith("/run/") else _OF_NETWORK


def _limits(seconds: float) -> list[str]:
    """Bound what each process may take; inside, so that only those of the sandbox are counted."""
    memory = max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2, _LEAST_MEMORY)
    cpu = int(seconds * (os.cpu_count() or 1)) + 2
    return [
        *("prlimit", "--core=0", f"--cpu={cpu}", f"--data={memory}", f"--fsize={_FILE_BYTES}"),
        *(f"--nofile={_OPEN_FILES}", f"--nproc={_PROCESSES}", "--"),
    ]
