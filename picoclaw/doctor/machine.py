"""The machine under the board's sensors: what makes a small computer with a card forget, fill up, wear out or lie.

Sources: kernel documents admin-guide/cgroup-v2.rst, block/stat.rst, filesystems/proc.rst (mounts, swaps) and
watchdog/watchdog-api.rst; proc(5); JEDEC eMMC 5.0 as shown in drivers/mmc/core/mmc.c (life_time, pre_eol_info).
"""

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from picoclaw.doctor.board import existing
from picoclaw.errors import HardwareError
from picoclaw.hw import health
from picoclaw.hw.board import Board
from picoclaw.hw.health import Row

_SECTOR, _MEGABYTE, _DAY = 512, 1_000_000, 86_400
_MUCH_A_DAY, _TOO_MUCH_A_DAY = 250 * _MEGABYTE, 1000 * _MEGABYTE
_SHORTEST_UPTIME = 3600
"""Seconds; the writes of a start say nothing about a day."""
_LEAST_FREE, _LEAST_SHARE = 100 * _MEGABYTE, 0.02
_LEAST_MEMORY_KB = 40_000
_GROUPS = ("i2c", "spi", "gpio", "dialout", "video")
_FORGETS = {
    "tmpfs": "memory",
    "ramfs": "memory",
    "overlay": "an overlay: what is written is gone after a restart",
}
_LIES = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "vfat", "exfat", "msdos")
_CONSUMED = {"0x0a": "90 to 100 %", "0x0b": "all"}


def examine(board: Board, home: Path) -> Iterator[Row]:
    """Say what is worth knowing of memory, disk, clock, groups and the system's own care; silent where all is well."""
    yield from _memory(board)
    yield from _swap(board)
    yield from _room(board, home)
    yield from _file_system(board, home)
    yield from _wear(board)
    yield from _clock(board)
    yield from _zones()
    if not board.simulated:
        yield from _groups(board)
    yield from _system(board)


def _memory(board: Board) -> Iterator[Row]:
    controllers = health.read(board, "/sys/fs/cgroup/cgroup.controllers").split()
    if controllers and "memory" not in controllers:
        files = (
            board.glob("/boot/firmware/cmdline.txt") or board.glob("/boot/cmdline.txt") or ["the kernel's command line"]
        )
        yield Row(
            "note",
            "memory limits",
            "this kernel takes systemd's MemoryMax= and does not enforce it; picoclaw's own limits hold all the same",
            f"add cgroup_enable=memory to the line in {files[0]}, and reboot",
        )
    found = re.search(r"^MemAvailable:\s+([0-9]{1,12}) kB", health.read(board, "/proc/meminfo"), re.MULTILINE)
    if found and int(found[1]) < _LEAST_MEMORY_KB:
        mend = "stop what is not needed (a desktop takes most): sudo systemctl set-default multi-user.target"
        yield Row("bad", "memory", f"only {int(found[1]) // 1000} MB are left", mend)


def _swap(board: Board) -> Iterator[Row]:
    for line in health.read(board, "/proc/swaps").splitlines()[1:]:
        name = line.split()[0] if line.split() else ""
        if name and not name.startswith("/dev/zram"):
            yield Row(
                "note",
                "swap",
                f"{name} is on the disk: it wears a card out, and what was in memory (keys too) lies there",
                "swap in compressed memory instead: sudo apt install zram-tools, then sudo swapoff " + name,
            )
    for path in board.glob("/sys/block/zram[0-9]*/backing_dev"):
        if (behind := health.read(board, path)) not in {"", "none"}:
            name = path.split("/")[3]
            how = f"{name} writes what it holds to {behind}: if that is on the card, memory (keys too) lies there"
            yield Row("note", "swap", how, "Mechanism=zram under [Main] in /etc/rpi/swap.conf, and reboot")


def _room(board: Board, home: Path) -> Iterator[Row]:
    try:
        space = board.space(existing(home))
    except HardwareError:
        return
    if space.total and (space.free < _LEAST_FREE or space.free < _LEAST_SHARE * space.total):
        mend = "sudo apt clean; sudo journalctl --vacuum-size=50M; picoclaw sessions prune --help"
        yield Row("bad", "disk space", f"only {space.free // _MEGABYTE} MB are free", mend)


def _file_system(board: Board, home: Path) -> Iterator[Row]:
    what = "file system"
    kind, flags, point = _mounted(health.read(board, "/proc/self/mounts"), str(home))
    if "ro" in flags:
        mend = f"look why (dmesg), then sudo mount -o remount,rw {point}; after an error, check the card"
        yield Row("bad", what, f"{point} is read-only: nothing can be kept", mend)
    if kind in _FORGETS:
        mend = "sudo raspi-config nonint disable_overlayfs, or set PICOCLAW_HOME to a folder on a disk"
        yield Row("bad", what, f"{home} is in {_FORGETS[kind]}; nothing outlasts a power cut", mend)
    if kind in _LIES:
        mend = "set PICOCLAW_HOME to a folder on a disk of this machine's (ext4)"
        yield Row("bad", what, f"{home} is on {kind}, on which SQLite's logs and locks do not hold", mend)


def _mounted(mounts: str, path: str) -> tuple[str, list[str], str]:
    """Find the kind, the flags and the place of the file system that a path is on; the last mount on a place counts."""
    kind, flags, point = "", "", ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 4:
            continue
        place = parts[1].replace("\\040", " ").rstrip("/")
        if len(place) >= len(point.rstrip("/")) and f"{path}/".startswith(f"{place}/"):
            kind, flags, point = parts[2], parts[3], place or "/"
    return kind, flags.split(","), point


def _wear(board: Board) -> Iterator[Row]:
    found = re.match(r"[0-9]{1,12}", health.read(board, "/proc/uptime"))
    uptime = int(found[0]) if found else 0
    for path in board.glob("/sys/block/mmcblk[0-9]/stat"):
        name, fields = path.split("/")[3], health.read(board, path).split()
        if len(fields) > 6 and fields[6].isdigit() and uptime >= _SHORTEST_UPTIME:
            a_day = int(fields[6]) * _SECTOR * _DAY / uptime
            mark: health.Mark = "bad" if a_day > _TOO_MUCH_A_DAY else "note" if a_day > _MUCH_A_DAY else "good"
            mend = "see who writes: sudo apt install iotop, sudo iotop -aoP" if mark != "good" else ""
            yield Row(mark, "disk wear", f"{name} is written {a_day / _MEGABYTE:.0f} MB a day, by all programs", mend)
    for path in board.glob("/sys/block/mmcblk[0-9]/device/life_time"):
        used = [_CONSUMED[word] for word in health.read(board, path).lower().split() if word in _CONSUMED]
        if used:
            how = f"{path.split('/')[3]} says that {used[-1]} of its life is used up"
            yield Row("bad", "disk wear", how, "picoclaw backup, and change it")


def _clock(board: Board) -> Iterator[Row]:
    if not board.simulated and not board.glob("/sys/class/rtc/rtc[0-9]*") and not board.clock_synchronised():
        yield Row(
            "note",
            "clock",
            "there is no clock with a battery: after a power cut the date is wrong until a time server has answered",
            "nothing is done at a wrong time meanwhile; a DS3231 (dtoverlay=i2c-rtc,ds3231) does without a network",
        )


def _zones() -> Iterator[Row]:
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        yield Row("bad", "time zones", "this system has no list of time zones", "sudo apt install tzdata")


def _groups(board: Board) -> Iterator[Row]:
    """Groups of the machine's own list that were given to this user after this login began."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return
    mine = {str(number) for number in (*os.getgroups(), os.getegid())}
    listed = [line.split(":") for line in health.read(board, "/etc/group").splitlines() if line.count(":") == 3]
    late = [name for name, _, number, members in listed if user in members.split(",") and number not in mine]
    if late := [name for name in late if name in _GROUPS]:
        yield Row(
            "note", "groups", f"{user} is in {', '.join(late)}, but not yet in this login", "log out and in again"
        )


def _system(board: Board) -> Iterator[Row]:
    if board.glob("/run/log/journal") and not board.glob("/var/log/journal"):
        yield Row(
            "note",
            "system log",
            "it is kept in memory: what was said before a power cut is gone",
            "to keep it: sudo mkdir -p /var/log/journal, sudo systemctl restart systemd-journald (costs writes)",
        )
    for path in board.glob("/sys/class/watchdog/watchdog[0-9]*/state"):
        if health.read(board, path) == "inactive":
            yield Row(
                "note",
                "hardware watchdog",
                "it is there and nobody uses it: a board that hangs stays so",
                "RuntimeWatchdogSec=14 under [Manager] in /etc/systemd/system.conf, and reboot",
            )
            break
