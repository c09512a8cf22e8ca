"""Runs a command in a bubblewrap sandbox: what it may see, its system calls, its mounts, its process.

First, programs that only report and need more than the sandbox shows: network interfaces, processes, firmware. They are
listed by exact words: a system program by its bare name with only the arguments that are named here.
"""

import contextlib
import errno
import os
import re
import selectors
import shutil
import signal
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.errors import HardwareError, ToolError
from picoclaw.records import NamedTuple
from picoclaw.security.sandbox_launcher import FILTER_FD, kill_tree

if TYPE_CHECKING:
    import socket
    import subprocess


class Visibility(NamedTuple):
    """What a program is shown beyond the sandbox, read-only."""

    network: bool = False
    processes: bool = False
    devices: tuple[str, ...] = ()


_INTERFACE = r"(?:lo|(?:eth|wlan|en|wl|ww|usb|br|docker|tun|tap|wg|can|bond|vlan)[a-zA-Z0-9@.:_-]{0,14})"
_NETWORK = Visibility(network=True)
_PROCESSES = Visibility(processes=True)
_WORD = r"[A-Za-z0-9_.,:@%+=-]{1,64}"
_WORDS = rf"(?:{_WORD}(?: {_WORD})*)?"  # read in one way only: what can be in many takes for ever
_PATTERNS = r"[!-~]{1,200}(?: [!-~]{1,200})*"

_VCGENCMD_ARGUMENTS = (
    r"(?:measure_temp|measure_volts|measure_clock|get_throttled|get_mem|get_config|get_camera|get_rsts|version"
    r"|bootloader_version|bootloader_config|codec_enabled|mem_oom|mem_reloc_stats|read_ring_osc|pmic_read_adc"
    r"|hdmi_timings|otp_dump|commands)(?: [A-Za-z0-9_]{1,32})?"
)
_IP_ARGUMENTS = (
    r"(?:-(?:4|6|br|brief|s|stats|j|json|p|pretty|o|oneline|d|details|c|color=never) ){0,6}"
    rf"(?:a|addr|address|l|link|r|route|n|neigh)(?: (?:show|list|ls))?(?: (?:dev )?{_INTERFACE})?(?: up)?"
    r"|(?:r|route) get [0-9a-f.:]{2,39}"
)

_VISIBILITY_RULES: Mapping[str, tuple[Visibility, str]] = {
    "vcgencmd": (Visibility(devices=("/dev/vcio",)), _VCGENCMD_ARGUMENTS),
    "ip": (_NETWORK, _IP_ARGUMENTS),
    "ss": (_NETWORK, r"(?:-[tuwxlnpaeimos46]{1,12} ?)*"),
    "hostname": (_NETWORK, r"(?:-[IisfdA]|--all-ip-addresses)?"),
    "ifconfig": (_NETWORK, rf"(?:-a|{_INTERFACE})?"),
    "iwgetid": (_NETWORK, rf"(?:{_INTERFACE})?(?: ?-r| ?--raw)?"),
    "iwconfig": (_NETWORK, rf"(?:{_INTERFACE})?"),
    "iw": (_NETWORK, rf"dev(?: {_INTERFACE} (?:link|info|station dump))?"),
    "netstat": (_NETWORK, r"-i|(?=.*n)-[tuwxlnpaeiosr46]{1,12}(?: -[tuwxlnpaeiosr46]{1,12})*"),
    "route": (_NETWORK, r"(?=.*n)-[ne46]{1,4}"),
    "arp": (_NETWORK, r"(?=.*n)-[aen]{1,3}"),
    "cat": (_NETWORK, r"/proc/net/[a-z0-9_]{1,20}"),
    "ps": (_PROCESSES, _WORDS),
    "pgrep": (_PROCESSES, _PATTERNS),
    "pidof": (_PROCESSES, _PATTERNS),
    "pstree": (_PROCESSES, _WORDS),
    "top": (_PROCESSES, rf"(?=(?:.* )?-[a-zA-Z]*b){_WORDS}"),
}


_PATHS = r"(?:/[A-Za-z0-9_./-]{0,100}(?: /[A-Za-z0-9_./-]{0,100})*)?"
_OPTIONS = r"(?:-[A-Za-z0-9]{1,6}|--[a-z-]{1,20})"
_SYSTEM_OUTPUT: Mapping[str, str] = {
    **dict.fromkeys(
        ("uptime", "uname", "arch", "nproc", "id", "whoami", "pwd", "cal", "free", "lscpu", "vmstat", "locale"),
        rf"(?:{_OPTIONS}(?: |$))*(?:\d{{1,4}} ?){{0,2}}",
    ),
    "date": r"(?:-u|-R|-I[a-z]*|--utc)?(?: ?\+[^ ]{1,100})?",
    "df": rf"(?:{_OPTIONS}(?: |$))*{_PATHS}",
    "getconf": r"[A-Z_a-z]{1,40}",
    "cat": r"/proc/(?:cpuinfo|meminfo|loadavg|uptime|version|stat|vmstat|modules|device-tree/model|net/[a-z0-9_]{1,20})"
    r"|/etc/(?:os-release|debian_version|hostname|timezone)",
    **{
        name: _VISIBILITY_RULES[name][1]
        for name in ("vcgencmd", "ip", "hostname", "ifconfig", "netstat", "route", "arp")
    },
    "ss": r"(?:-[tuwxlnaeimos46]{1,12} ?)*",
}
"""Programs whose output is the system's own data, no file's content and no names given by others, so that it does not taint."""


_TAR_OPTIONS = r"[cxtzjJvfpkC]+"
_SELF_CONTAINED: Mapping[str, str] = {
    **dict.fromkeys(("mkdir", "rmdir"), r"-[pv]+|--parents|--verbose"),
    **dict.fromkeys(
        ("rm", "cp", "mv", "ln", "chmod", "touch"), r"-[aAcdDfHiLmnpPrRsTuv]+|--(?:recursive|force|verbose)"
    ),
    **dict.fromkeys(("ls", "cat", "head", "tail", "wc", "stat", "du", "cut", "uniq"), r"-[A-Za-z0-9]+"),
    **dict.fromkeys(("truncate", "tee", "sha256sum", "md5sum", "gzip", "gunzip"), r"-[A-Za-z0-9]+"),
    "sort": r"-[bdfghinMRruVkto0-9,.]+",
    "tar": rf"-{_TAR_OPTIONS}|--(?:gzip|create|extract|list|verbose|file)",
    "git": r"-[aAbdmMqsu]+|--(?:short|all|amend|stat|message|quiet)",
}
"""Programs that run no code out of a folder they work in, and their options that start no other program.

Hooks and settings of git are such code; nothing else beside them is.
"""
_GIT_COMMANDS = frozenset(
    {"status", "add", "commit", "branch", "tag", "init", "mv", "rm", "log", "restore", "switch", "checkout"}
)


def is_self_contained(argv: Sequence[str]) -> bool:
    """Whether a command runs no code from files that it does not name."""
    options = _SELF_CONTAINED.get(argv[0])
    if options is None or (argv[0] == "git" and (len(argv) < 2 or argv[1] not in _GIT_COMMANDS)):
        return False
    if argv[0] == "tar" and not (len(argv) > 1 and re.fullmatch(rf"-?{_TAR_OPTIONS}|--[a-z]+", argv[1])):
        return False  # its first word is options, also without a dash
    return all(not word.startswith("-") or word == "--" or re.fullmatch(options, word) for word in argv[1:])


def is_system_output(argv: Sequence[str]) -> bool:
    """Whether a command prints only the system's own words, nothing that somebody may have written."""
    found = _SYSTEM_OUTPUT.get(argv[0])
    return bool(found and re.fullmatch(found, " ".join(argv[1:])))


def find_visibility(argv: Sequence[str]) -> Visibility:
    found = _VISIBILITY_RULES.get(argv[0])
    if found and re.fullmatch(found[1], " ".join(argv[1:])):
        return found[0]
    return Visibility()


# The system call filter of the sandbox: what no command needs and attackers go through is refused.
#
# It stands behind the namespaces, not in their place: new namespaces and mounts, kernel keys, BPF, io_uring and the like,
# and sockets of any family but those that are named. Numbers: the kernel's syscall tables of each machine.
# Format: struct sock_filter of linux/filter.h, seccomp(2).

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_NEWUSER = 0x10000000
_X32_SYSCALL_BIT = 0x40000000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
"""Address families."""

_REFUSED_SYSCALLS = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
"""io_uring_setup, _enter, _register; open_tree, move_mount, fsopen, fsconfig, fsmount, fspick; mount_setattr."""
_CLONE3 = 435


class _SyscallNumbers(NamedTuple):
    """A machine's call numbers.

    refused: unshare, setns, mount, umount2, pivot_root, keyctl, add_key, request_key, bpf, perf_event_open,
    userfaultfd, open_by_handle_at, kexec_load, kexec_file_load, init_module, finit_module, delete_module.
    """

    architecture: int
    clone: int
    socket: int
    refused: tuple[int, ...]


_X86_64 = _SyscallNumbers(
    0xC000003E, 56, 41, (272, 308, 165, 166, 155, 250, 248, 249, 321, 298, 323, 304, 246, 320, 175, 313, 176)
)
_AARCH64 = _SyscallNumbers(
    0xC00000B7, 220, 198, (97, 268, 40, 39, 41, 219, 217, 218, 280, 241, 282, 265, 104, 294, 105, 273, 106)
)
_ARM = _SyscallNumbers(
    0x40000028, 120, 281, (337, 375, 21, 52, 218, 311, 309, 310, 386, 364, 388, 371, 347, 401, 128, 379, 129)
)
_BOTH_ARMS = (_AARCH64, _ARM)
"""A 64-bit kernel with a 32-bit system is usual on a Raspberry Pi."""
_MACHINES = {"x86_64": (_X86_64,), "aarch64": _BOTH_ARMS, "armv7l": _BOTH_ARMS, "armv6l": _BOTH_ARMS}


@cache
def build_seccomp_filter(families: Collection[int], machine: str = "") -> bytes:
    """Write the BPF program that allows sockets of these families; empty for an unknown machine."""
    known = _MACHINES.get(machine or os.uname().machine, ())
    program = [_pack_instruction(_LOAD, _ARCHITECTURE)]
    for one in known:
        block = list(_filter_machine(one, families))
        program += [_pack_instruction(_EQUAL, one.architecture, 0, len(block)), *block]
    return b"".join([*program, _pack_instruction(_RETURN, _KILL)]) if known else b""


def _filter_machine(machine: _SyscallNumbers, families: Collection[int]) -> Iterable[bytes]:
    yield _pack_instruction(_LOAD, _NUMBER)
    if machine is _X86_64:
        yield _pack_instruction(_AT_LEAST, _X32_SYSCALL_BIT, 0, 1)
        yield _return_errno(_EPERM)
    for number in (*machine.refused, *_REFUSED_SYSCALLS):
        yield _pack_instruction(_EQUAL, number, 0, 1)
        yield _return_errno(_EPERM)
    yield _pack_instruction(_EQUAL, _CLONE3, 0, 1)
    yield _return_errno(_ENOSYS)  # its flags cannot be seen; the C library goes on with clone then
    yield _pack_instruction(_EQUAL, machine.clone, 0, 4)
    yield _pack_instruction(_LOAD, _FIRST_ARGUMENT)
    yield _pack_instruction(_ANY_BIT, _CLONE_NEWUSER, 0, 1)
    yield _return_errno(_EPERM)
    yield _pack_instruction(_RETURN, _ALLOW)
    yield _pack_instruction(_EQUAL, machine.socket, 0, 2 + 2 * len(families))
    yield _pack_instruction(_LOAD, _FIRST_ARGUMENT)
    for family in families:
        yield _pack_instruction(_EQUAL, family, 0, 1)
        yield _pack_instruction(_RETURN, _ALLOW)
    yield _return_errno(_EAFNOSUPPORT)
    yield _pack_instruction(_RETURN, _ALLOW)


def _return_errno(errno: int) -> bytes:
    return _pack_instruction(_RETURN, _ERRNO | errno)


def _pack_instruction(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


# What a command sees and may change, written as the arguments of bubblewrap. Source: bwrap(1) of 0.8.
#
# The whole system is there to be read, but for homes, sockets, temporary files and picoclaw's own home; of the workspace
# alone something can be changed, and only by a command that asked for it.

SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SANDBOX_HOME = "/tmp"  # noqa: S108
_HIDDEN_FOLDERS = ("/home", "/root", "/run", "/srv", "/mnt", "/media")
"""What is empty there: other files and disks of the owner's, and the sockets of the system's services."""
_ROOT_ONLY_PATHS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/picoclaw", "/etc/credstore", "/etc/credstore.encrypted", "/etc/ssl/private", "/etc/wireguard"),
    *("/etc/wpa_supplicant", "/etc/NetworkManager/system-connections", "/etc/netplan", "/etc/krb5.keytab"),
    *("/var/lib/NetworkManager", "/var/lib/iwd", "/var/lib/systemd/credential.secret", "/var/lib/private"),
    *("/var/spool/cron", "/var/mail", "/var/backups"),
)
"""What only root may read; a picoclaw that runs as root could, so that it is empty there."""
_TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
_VISIBLE_RUN_PATHS = (
    "/run/log/journal",
    "/run/udev/data",
    "/run/utmp",
    "/run/mount",
    "/run/systemd/timesync/synchronized",
)
_NETWORK_SOCKETS = ("/run/avahi-daemon/socket",)
_CLIENT_SETTINGS = (".config/mosquitto_sub", ".config/mosquitto_pub", ".homeassistant-header")
"""Of the owner's folder: how shipped skills say that a broker or a house is reached, for commands with a network."""
_LIFELINE_SCRIPT = (
    '[ $$ = 2 ] && ( ( read -r _ </proc/self/fd/$1; kill -9 -1 ) </dev/null >/dev/null 2>&1 & ); shift; exec "$@"'
)
"""Ends all that is in the sandbox when we are gone; --die-with-parent misses that while it sets up the sandbox."""
_TMPFS_BYTES = 64 << 20
_MAX_FILE_BYTES = 1 << 30
_MIN_MEMORY = 256 << 20
_MAX_PROCESSES, _OPEN_FILES = 128, 1024


class SandboxCommand(NamedTuple):
    """A command and its rights; `argv` is never empty, `cwd` is absolute, `seconds` the time limit."""

    argv: tuple[str, ...]
    cwd: Path
    seconds: float
    write: bool = False
    network: bool = False


class SandboxLayout(NamedTuple):
    """What a sandbox is built from: picoclaw's home, of which only the workspace is visible, and further folders.

    `owner` is the owner's home folder, which is hidden too. `kept()` are files and folders that commands may only read, also
    in the workspace, because they instruct later turns. `readable` are further folders that nothing may be written in.
    """

    home: Path
    workspace: Path
    owner: Path
    folders: tuple[Path, ...] = ()
    kept: Callable[[], Iterable[Path]] = lambda: ()
    readable: tuple[Path, ...] = ()

    def is_writable(self, path: Path) -> bool:
        """Whether a resolved path lies where a command may be given the right to write."""
        if path.is_relative_to(self.workspace.resolve()):
            return True
        return not path.is_relative_to(self.home.resolve()) and any(
            path.is_relative_to(folder.resolve()) for folder in self.folders
        )

    def list_read_only(self) -> list[Path]:
        """The read-only mounts; in the workspace always a top-level entry.

        A folder there could otherwise be moved away with the mount in it.
        """
        return list(dict.fromkeys(map(self._at_top, self.kept())))

    def _at_top(self, page: Path) -> Path:
        top = self.workspace.resolve()
        for root in (self.workspace, top):
            if page != root and page.is_relative_to(root):
                return top / page.relative_to(root).parts[0]
        return page.resolve()

    def is_visible(self, path: Path) -> bool:
        hidden = (*_HIDDEN_FOLDERS, *_TEMPORARY_FOLDERS, "/dev", *self.list_hidden())
        shown = self.is_writable(path) or any(path.is_relative_to(page.resolve()) for page in self.kept())
        return shown or not any(path.is_relative_to(name) for name in hidden)

    def list_hidden(self) -> list[str]:
        """The folders that are mounted empty; picoclaw's home comes last. With what holds a workspace elsewhere."""
        named = (
            *_HIDDEN_FOLDERS,
            *(path for path in _ROOT_ONLY_PATHS if os.access(path, os.R_OK)),
            *map(str, self._owner_folders()),
            str(self.workspace.parent),
        )
        found = [os.path.realpath(path) for path in named if Path(path).is_dir()]
        home = str(self.home.resolve())
        return [*(path for path in dict.fromkeys(found) if not path.startswith(f"{home}/") and path != home), home]

    def _owner_folders(self) -> tuple[Path, ...]:
        """The owner's home, unless it is a system folder: users without one have `/` or `/usr/sbin`."""
        own = self.owner.resolve()
        return (own,) if len(own.parts) > 2 and own.parts[1] not in {"usr", "etc", "tmp"} else ()


def build_environment(ours: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """The environment of commands: locale and time zone of ours, and the variables that are named."""
    given = {name: ours[name] for name in names if ours.get(name)}
    kept = {name: ours[name] for name in ("LANG", "LC_ALL", "TZ") if ours.get(name)}
    return given | {"PATH": SANDBOX_PATH, "HOME": SANDBOX_HOME, "TERM": "dumb"} | kept


def build_bwrap_arguments(
    command: SandboxCommand,
    layout: SandboxLayout,
    variables: Mapping[str, str],
    *,
    filter_fd: int = 0,
    lifeline: int = 0,
) -> list[str]:
    """Build the command line.

    `filter_fd` is where bwrap reads the seccomp filter, `lifeline` a pipe that closes when we end; 0 for none.
    """
    seen = find_visibility(command.argv)
    words = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if command.network or seen.network else ["--unshare-net"]
    words += [] if seen.processes else ["--unshare-pid"]
    words += ["--new-session", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    words += _build_mount_arguments(command, layout, seen)
    for name, value in variables.items():
        words += ["--setenv", name, value]
    words += ["--chdir", str(command.cwd)]
    words += ["--seccomp", str(filter_fd)] if filter_fd else []
    words += (
        ["--", "/bin/sh", "-c", _LIFELINE_SCRIPT, "sh", str(lifeline)] if lifeline and not seen.processes else ["--"]
    )
    return [*words, *_build_limit_arguments(command.seconds), *command.argv]


def _build_mount_arguments(command: SandboxCommand, layout: SandboxLayout, seen: Visibility) -> Iterator[str]:
    """The mounts in order: later ones lie over earlier ones."""
    workspace, (*hidden, home) = str(layout.workspace.resolve()), layout.list_hidden()
    yield from ("--ro-bind", "/", "/", "--dev", "/dev")
    yield from ("--ro-bind", "/proc", "/proc") if seen.processes else ("--proc", "/proc", "--remount-ro", "/proc")
    for path in (*(path for path in _TEMPORARY_FOLDERS if not Path(path).is_symlink()), *hidden):
        yield from ("--size", str(_TMPFS_BYTES), "--tmpfs", path)
    for path in (*_ROOT_ONLY_PATHS, *(str(path) for path in Path("/etc/ssh").glob("ssh_host_*_key"))):
        if os.access(path, os.R_OK) and os.path.isfile(path):  # noqa: PTH113 - or a link
            yield from ("--ro-bind", "/dev/null", path)
    resolver = os.path.realpath("/etc/resolv.conf")
    sockets = (resolver, *_NETWORK_SOCKETS) if resolver.startswith("/run/") else _NETWORK_SOCKETS
    for path in (*_VISIBLE_RUN_PATHS, *(sockets if command.network else ())):
        yield from ("--ro-bind-try", path, path)
    for folder in layout.readable:
        yield from ("--ro-bind-try", *[str(folder.resolve())] * 2)
    for folder in layout.folders:
        yield from ("--bind-try" if command.write else "--ro-bind-try", *[str(folder.resolve())] * 2)
    yield from ("--tmpfs", home)
    yield from ("--bind" if command.write else "--ro-bind", workspace, workspace)
    for page in layout.list_read_only():
        yield from ("--ro-bind-try", *[str(page.resolve())] * 2)
    every = (*layout.folders, *layout.readable)
    reopened = [folder.resolve() for folder in every if folder.resolve() != Path("/")]
    for path in (*hidden, home):
        if path == home or not any(Path(path).is_relative_to(folder) for folder in reopened):
            yield from ("--remount-ro", path)
    for name in _CLIENT_SETTINGS if command.network else ():
        yield from ("--ro-bind-try", str(layout.owner / name), f"{SANDBOX_HOME}/{name}")
    for device in seen.devices:
        yield from ("--dev-bind-try", device, device)
    yield from ("--remount-ro", "/dev")


def _build_limit_arguments(seconds: float) -> list[str]:
    """Limit each process; set inside, so that only those of the sandbox are counted."""
    memory = max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2, _MIN_MEMORY)
    cpu = int(seconds * (os.cpu_count() or 1)) + 2
    return [
        *("prlimit", "--core=0", f"--cpu={cpu}", f"--data={memory}", f"--fsize={_MAX_FILE_BYTES}"),
        *(f"--nofile={_OPEN_FILES}", f"--nproc={_MAX_PROCESSES}", "--"),
    ]


# Keeps the names of what instructs later turns, while a command runs that may change the folder they lie in.
#
# What is there is mounted over itself, read-only. A mount needs something to lie on: where there is nothing yet, an empty
# file or folder stands in, and goes with the last of the commands that it was made for.

_placeholder_lock = threading.Lock()
_placeholders: dict[Path, list[int]] = {}
"""What was made: its inode, and how many commands need it."""


def hold_placeholders(pages: Iterable[Path]) -> list[Path]:
    """Create each missing page and return those that `release_placeholders` has to be given.

    A name with a suffix is a file. Raises OSError, and ToolError for a link, on which nothing can be mounted.
    """
    held: list[Path] = []
    try:
        held.extend(page for page in pages if _make_placeholder(page))
    except BaseException:
        release_placeholders(held)
        raise
    return held


def release_placeholders(held: Iterable[Path]) -> None:
    """Remove placeholders no command needs any more, unless something was put there meanwhile."""
    for page in held:
        with _placeholder_lock:
            _placeholders[page][1] -= 1
            if _placeholders[page][1]:
                continue
            made, _ = _placeholders.pop(page)
            with suppress(OSError):
                found = page.lstat()
                if not page.suffix:
                    page.rmdir()
                elif found.st_ino == made and not found.st_size:
                    page.unlink()


def _make_placeholder(page: Path) -> bool:
    """Create the page if it is missing; True if it is a placeholder."""
    if page.is_symlink():
        raise ToolError(
            f"{page} is a link, which a command with write could turn: put in its place what it leads to, or leave"
            " out write"
        )
    with _placeholder_lock:
        if page in _placeholders:
            _placeholders[page][1] += 1
            return True
        try:
            if page.suffix:
                os.close(os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o400))
            else:
                page.mkdir(0o700)
        except FileExistsError:
            return False
        _placeholders[page] = [page.lstat().st_ino, 1]
        return True


# Starts a command in its sandbox, as a child or by the sandbox service, collects its output, and ends it.

INSTALL_COMMAND = "sudo apt install bubblewrap"
_PROGRAMS = {"bwrap": "bubblewrap", "prlimit": "prlimit (util-linux)", "choom": "choom (util-linux)"}
_SERVICE_SOCKET = "picoclaw/exec.sock"
LOST_EXIT_CODE = -1000
"""The exit code where the service did not say how it ended."""
_HEAD, _TAIL = 96_000, 32_000  # bytes; what of it is shown is another matter
_CHUNK_BYTES = 65_536
_REAP_TIMEOUT_S = 5.0
running_commands: "set[RunningCommand]" = set()
"""The commands that run now."""


class SandboxMissing(HardwareError):
    """Commands cannot be run because this machine cannot create the sandbox."""


class CommandOutput:
    """Keeps the head and the tail of a command's output. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head, self._tail, self._dropped = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        with self._lock:
            room = max(_HEAD - len(self._head), 0)
            self._head += data[:room]
            self._tail += data[room:]
            if (excess := len(self._tail) - _TAIL) > 0:
                self._dropped += excess
                del self._tail[:excess]

    def take(self) -> str:
        """Return what is kept, with the number of dropped bytes, and start again."""
        with self._lock:
            head, tail, dropped = self._head, self._tail, self._dropped
            self._head, self._tail, self._dropped = bytearray(), bytearray(), 0
        gap = f"\n[cut: {dropped} bytes left out here; send the output to a file to read it all]\n" if dropped else ""
        whole = head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace")
        return whole if not whole or whole.endswith("\n") else whole + "\n"


class _ChildProcess:
    """A bwrap that is our child; `ended` is readable once it has ended, `held` is our end of its lifeline."""

    def __init__(self, process: "subprocess.Popen[bytes]", held: int) -> None:
        self._process, self._held = process, held
        self.ended = os.pidfd_open(process.pid)

    def kill(self) -> None:
        if self._process.returncode is None:
            kill_tree(self._process.pid)

    def reap(self) -> int:
        os.close(self.ended)
        os.close(self._held)
        return self._process.wait()


class _ServiceProcess:
    """A bwrap of the sandbox service; closing the connection ends it."""

    def __init__(self, connection: "socket.socket") -> None:
        self._connection = connection
        self.ended = connection.fileno()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(1)  # SHUT_WR: it can still say how that ended

    def reap(self) -> int:
        self._connection.settimeout(_REAP_TIMEOUT_S)
        with self._connection, contextlib.suppress(OSError, ValueError):
            return int(self._connection.recv(32))
        return LOST_EXIT_CODE


class RunningCommand:
    """A started command. Its methods are for one thread, except `kill` and `close_stdin`."""

    def __init__(
        self, process: _ChildProcess | _ServiceProcess, pipe: int, feed: int, held: list[Path], errors: int = -1
    ) -> None:
        """`pipe` delivers its output, `feed` is its input (-1 for none); `held` placeholders end with it.

        `errors` delivers what it writes to stderr, -1 where that is part of the output.
        """
        self._sandbox, self.pipe, self.stdin, self._held, self.errors = process, pipe, feed, held, errors
        self.output, self.exit_code, self._lock = CommandOutput(), 0, threading.Lock()
        self._is_killed = False
        os.set_blocking(pipe, False)
        self.has_side_effects = False
        """Whether it may write or use the network."""
        running_commands.add(self)

    def wait(self, deadline: float) -> bool:
        """Collect output until the command has ended, even if a child keeps the pipe open; False at the deadline."""
        selector = selectors.DefaultSelector()
        selector.register(self._sandbox.ended, selectors.EVENT_READ)
        selector.register(self.pipe, selectors.EVENT_READ)
        try:
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(left)}
                if self.pipe in ready and not self._drain():
                    selector.unregister(self.pipe)
                if self._sandbox.ended in ready:
                    self._drain()
                    return True
            return False
        finally:
            selector.close()

    def _drain(self) -> bool:
        """Read at most one chunk; False at the end of the output."""
        try:
            data = os.read(self.pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        self.output.add(data)
        return bool(data)

    def kill(self) -> None:
        """Kill it with everything that it has started; from any thread."""
        self._is_killed = True
        self._sandbox.kill()

    def close(self) -> int:
        """Kill it if it still runs, and release its resources; returns the exit code."""
        running_commands.discard(self)
        self._sandbox.kill()
        self.exit_code = self._sandbox.reap()
        if self._is_killed and self.exit_code == 128 + signal.SIGKILL:  # bwrap could tell before it was killed too
            self.exit_code = -signal.SIGKILL
        os.close(self.pipe)
        if self.errors >= 0:
            os.close(self.errors)
        self.close_stdin()
        release_placeholders(self._held)
        return self.exit_code

    def close_stdin(self) -> None:
        with self._lock:
            feed, self.stdin = self.stdin, -1
        if feed >= 0:
            os.close(feed)


def kill_running_commands() -> None:
    """Kill every running command: their threads, which hold the time limits, are about to end."""
    for one in list(running_commands):
        one.kill()


def start_command(
    command: SandboxCommand,
    layout: SandboxLayout,
    variables: Mapping[str, str],
    given: str | None = "",
    *,
    apart: bool = False,
) -> RunningCommand:
    """Start a command that reads `given`, or with None what is written to its `stdin`; `apart` keeps its stderr apart.

    Raises SandboxMissing where no sandbox can be made, OSError and ToolError when the command cannot be started.
    """
    with contextlib.ExitStack() as stack:
        source, feed = _open_stdin(given, stack)
        pipe, out = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, out)
        errors, err = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if apart else (-1, out)
        if apart:
            os.set_blocking(err, True)  # its end, which others share
            stack.callback(os.close, err)
        held: list[Path] = []
        try:
            held = (
                hold_placeholders(page for page in layout.list_read_only() if layout.is_writable(page.parent))
                if command.write
                else []
            )
            process = _start_process(command, layout, variables, (source, out, err))
        except BaseException:
            for file in {pipe, feed, errors} - {-1}:
                os.close(file)
            release_placeholders(held)
            raise
    begun = RunningCommand(process, pipe, feed, held, errors)
    begun.has_side_effects = command.write or command.network
    return begun


def _open_stdin(text: str | None, stack: contextlib.ExitStack) -> tuple[int, int]:
    """Make the descriptor that a command reads, and our end of it."""
    if text is None:
        source, feed = os.pipe2(os.O_CLOEXEC)
    else:
        source, feed = os.memfd_create("stdin") if text else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
    stack.callback(os.close, source)
    if text:
        _write_all(source, text.encode())
    return source, feed


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)


def _start_process(
    command: SandboxCommand, layout: SandboxLayout, variables: Mapping[str, str], streams: tuple[int, int, int]
) -> _ChildProcess | _ServiceProcess:
    filter_ = os.memfd_create("filter")
    try:
        # UNIX sockets, which reach other programs, only with a network
        families = (INET, INET6, NETLINK, UNIX) if command.network else (INET, INET6, NETLINK)
        program = build_seccomp_filter(families)
        _write_all(filter_, program)
        if socket_path := find_service_socket(os.environ):
            words = build_bwrap_arguments(command, layout, variables, filter_fd=FILTER_FD if program else 0)
            given, out, err = streams
            return _start_by_service(socket_path, words, (given, out, filter_, *([err] if err != out else [])))
        if missing := find_missing_program():
            raise SandboxMissing(
                f"{missing} is not installed, and no command is run outside of a sandbox: {INSTALL_COMMAND}"
            )
        return _start_child(command, layout, variables, streams, filter_ if program else 0)
    finally:
        os.close(filter_)


def _start_child(
    command: SandboxCommand,
    layout: SandboxLayout,
    variables: Mapping[str, str],
    streams: tuple[int, int, int],
    filter_: int,
) -> _ChildProcess:
    """Start a child with a lifeline: a pipe that closes when we end, however that happens.

    Each command has its own, so that it can only cut itself off.
    """
    import subprocess

    line, held = os.pipe2(os.O_CLOEXEC)
    try:
        words = build_bwrap_arguments(command, layout, variables, filter_fd=filter_, lifeline=line)
        process = subprocess.Popen(
            ["choom", "-n", "1000", "--", *words],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=(filter_, line) if filter_ else (line,),
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        return _ChildProcess(process, held)
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(line)


def _start_by_service(socket_path: str, words: list[str], fds: tuple[int, ...]) -> _ServiceProcess:
    """Ask the service, passing the descriptors, so that output takes the same way as from a child."""
    import socket

    text = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    if len(text) > 2_000_000:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.connect(socket_path)
        socket.send_fds(connection, [b"%08d" % len(text)], fds)
        connection.sendall(text)
    except OSError as error:
        connection.close()
        raise SandboxMissing(
            f"{socket_path} does not answer ({error.strerror}): systemctl status picoclaw-exec.socket"
        ) from None
    return _ServiceProcess(connection)


def find_service_socket(environment: Mapping[str, str]) -> str:
    """Find the socket of this user's sandbox service; '' where we start bwrap ourselves."""
    named = environment.get("PICOCLAW_EXEC_SOCKET")
    folders = ("/run", environment.get("XDG_RUNTIME_DIR") or "/run")
    for socket_path in (named,) if named else (f"{folder}/{_SERVICE_SOCKET}" for folder in folders):
        with contextlib.suppress(OSError):
            found = Path(socket_path).stat()
            if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid():
                return socket_path
    return ""


def find_missing_program() -> str:
    """Name the package of a missing program, '' when all are there."""
    return next((package for name, package in _PROGRAMS.items() if not shutil.which(name)), "")
