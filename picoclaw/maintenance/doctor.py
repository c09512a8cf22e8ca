"""The board: how it is, its sensors, read once each, its buses and its outputs."""

import ipaddress
import os
import platform
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import apsw

from picoclaw import __version__
from picoclaw.automation import rules
from picoclaw.channels.ipc import ask_daemon, is_daemon_silent
from picoclaw.channels.telegram.api import BadToken, Conflict, TelegramApi
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.updates import identify_bot
from picoclaw.config import Config, load_config
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import (
    ChannelDown,
    ChannelError,
    ConfigError,
    HardwareError,
    PicoclawError,
    ProviderError,
    StoreError,
)
from picoclaw.files import explain_os_error
from picoclaw.hw import boards, checkup, health, sensors
from picoclaw.hw import drivers as hw_drivers
from picoclaw.hw.board import Board
from picoclaw.hw.health import CheckResult
from picoclaw.hw.reading import Reading, WiredPart
from picoclaw.maintenance import install as places
from picoclaw.maintenance import service
from picoclaw.memory.files import MemoryFiles
from picoclaw.messages import Message, Request
from picoclaw.outputs import config
from picoclaw.resources import find_shipped, get_home
from picoclaw.skills.library import SkillLibrary, list_home_tiers
from picoclaw.store import history_migrations
from picoclaw.store.database import run_quick_check
from picoclaw.store.migrations import MIGRATIONS
from picoclaw.tools.exec import ExecTools
from picoclaw.workspace import examine_workspace, find_outputs_file
from picoclaw.workspace.pages import get_owner_time
from picoclaw.workspace.prompts import Prompts

_POWER_SUPPLY_ADVICE = "use a stronger power supply and a short cable"
_BOARD_REMEDIES = {"clock": "sudo timedatectl set-ntp true", "power and throttling": _POWER_SUPPLY_ADVICE}


def examine_board(board: Board, config: Config) -> Iterator[CheckResult]:
    """Look at the board: how it is, its sensors, read once each, and its buses."""
    for row in health.check_health(board, get_owner_time(config.home), find_existing_folder(config.home)):
        yield row._replace(mend=_BOARD_REMEDIES.get(row.what, "") if row.mark == "bad" else "")
    yield from _examine_sensors(board, config)
    yield from checkup.check_buses(board)
    yield from _examine_outputs(config.home)


def _examine_outputs(home: Path) -> Iterator[CheckResult]:
    path = find_outputs_file(home)
    if not path.exists():
        return
    found = config.load_outputs(path)
    for problem in found.problems:
        yield CheckResult("bad", "outputs", problem, f"mend {path}; until then nothing can be switched on")
    digests = config.load_armed(home)
    dry = [name for name, output in found.outputs.items() if digests.get(name) != output.digest]
    if dry:
        yield CheckResult("note", "outputs", f"dry run: {', '.join(dry)}", f"picoclaw outputs arm {dry[0]}")
    if armed := [name for name in found.outputs if name not in dry]:
        yield CheckResult("good", "outputs", f"{', '.join(armed)} can be switched")


def _examine_sensors(board: Board, config: Config) -> Iterator[CheckResult]:
    where = hw_drivers.list_driver_folders(config.home)
    wired: dict[str, WiredPart] = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            wired[name] = hw_drivers.resolve_part(sensor, where)
        except ConfigError as error:
            wired.pop(name, None)
            yield CheckResult("bad", name, f"[sensors.{name}]: {error}", "mend that table, or the driver")
    drivers = hw_drivers.Drivers(board, lambda part: hw_drivers.load_driver(part, where))
    working: dict[str, None] = {}
    listed = sensors.list_sensors(board, wired)
    for found in listed:
        readings = sensors.read_sensor(board, drivers, found)
        if any(reading.value is not None for reading in readings):
            working[found.name] = None
        else:
            yield _explain_silent_sensor(
                board, found, readings[0], where, {(part.bus, part.address) for part in wired.values()}
            )
    if working:
        yield CheckResult("good", "sensors", f"{', '.join(working)} can be read")
    if not listed and not config.sensors:
        mend = "name a part in config.toml under [sensors.NAME], or try `picoclaw chat --board sim`"
        yield CheckResult("note", "sensors", "the kernel knows none and none is configured", mend)


def _explain_silent_sensor(
    board: Board, sensor: sensors.Sensor, reading: Reading, where: Sequence[Path], named: Container[tuple[int, int]]
) -> CheckResult:
    """Say why a sensor gives nothing, and for a part on an I2C bus, who else answers there."""
    mend = ""
    if sensor.part and not sensor.kernel and sensor.part.route == "i2c" and "does not answer" in reading.problem:
        free = [
            a for a in hw_drivers.load_driver(sensor.part.part, where).ADDRESSES if (sensor.part.bus, a) not in named
        ]
        mend = checkup.explain_silence(board, sensor.part, free)
    return CheckResult("bad", reading.sensor, f"{reading.what} not available: {reading.problem}", mend)


def find_existing_folder(path: Path) -> str:
    """Return the path, or the nearest folder above it that there is."""
    return next(str(p) for p in (path, *path.parents) if os.path.lexists(p))


# Who can reach what: a key on a line that others hear, a model's server that is open to the network.
#
# Sources: proc_net_tcp (kernel document networking/proc_net_tcp.rst): local address in hexadecimal words of the
# machine's byte order, state 0A is LISTEN.

_TCP_LISTEN = "0A"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class TcpListener(NamedTuple):
    """A port that a program of this machine answers at, and the address that it is bound to."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int


def examine_exposure(board: Board, config: Config) -> Iterator[CheckResult]:
    """Look at the models' addresses, and at what listens here."""
    address = urlsplit(config.model.base_url)
    host = address.hostname or ""
    yield from _find_unencrypted_keys(config)
    if is_loopback(host):
        port = _parse_port(address.netloc, address.scheme)
        for listener in list_listeners(board):
            if listener.port == port and listener.address.is_unspecified:
                how = f"its server answers the whole network at port {port}, and asks nobody for a password"
                yield CheckResult(
                    "note", "model", how, "start it with --host 127.0.0.1 (Ollama: OLLAMA_HOST=127.0.0.1)"
                )
                break


def _find_unencrypted_keys(config: Config) -> Iterator[CheckResult]:
    further = ((f"model {name}", model, config.model_keys.get(name, "")) for name, model in config.models.items())
    for what, model, key in (("model", config.model, config.api_key), *further):
        address = urlsplit(model.base_url)
        if address.scheme == "http" and key and address.hostname and not is_local_network(address.hostname):
            how = f"{model.shown_url} is asked without encryption: the key can be read on the way"
            yield CheckResult("bad", what, how, "write https:// in base_url")


def _parse_port(netloc: str, scheme: str) -> int:
    try:
        return urlsplit(f"//{netloc}").port or _DEFAULT_PORTS.get(scheme, 0)
    except ValueError:
        return 0


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_local_network(host: str) -> bool:
    """Tell whether a name or an address belongs to this machine or its own network."""
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return is_loopback(host) or "." not in host or host.endswith((".local", ".lan", ".home.arpa", ".internal"))
    return found.is_private or found.is_loopback or found.is_link_local


def list_listeners(board: Board) -> list[TcpListener]:
    """List what listens for TCP here; nothing where the kernel does not tell."""
    found = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in health.read_text(board, path).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _TCP_LISTEN and (listener := _parse_listener(fields[1])):
                found.append(listener)
    return found


def _parse_listener(text: str) -> TcpListener | None:
    words, _, port = text.partition(":")
    try:
        raw = bytes.fromhex(words)
        if sys.byteorder == "little":
            raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
        family = socket.AF_INET6 if len(raw) == 16 else socket.AF_INET
        return TcpListener(ipaddress.ip_address(socket.inet_ntop(family, raw)), int(port, 16))
    except ValueError:
        return None


# The ways in: the daemon and what it says of itself, the Telegram bot, and who the page is open to.

_STATUS_TIMEOUT_S = 5.0
_TELEGRAM_TIMEOUT_S = 10.0
_TELEGRAM_ROW = "telegram"


def examine_channels(config: Config, *, offline: bool) -> Iterator[CheckResult]:
    """Look at each; `offline` asks only what runs on this machine."""
    yield from _examine_daemon(config)
    yield from _examine_dashboard(config)
    if config.telegram_token:
        yield from _examine_telegram_users(config)
        if not offline:
            yield _examine_telegram_bot(config)


def _examine_daemon(config: Config) -> Iterator[CheckResult]:
    said = ask_daemon(config.home, {"do": "status"}, _STATUS_TIMEOUT_S) or {}
    if not said and is_daemon_silent(config.home, _STATUS_TIMEOUT_S):
        how = f"picoclaw runs on this home and gives no answer within {_STATUS_TIMEOUT_S:.0f} s"
        yield CheckResult(
            "bad", "daemon", how, "sudo systemctl restart picoclaw; without the service: picoclaw stop, and kill it"
        )
        return
    if not said.get("running"):
        yield CheckResult(
            "note", "daemon", "picoclaw does not run on this home", "picoclaw run, or picoclaw service install"
        )
        return
    problems = said.get("problems") or []
    for problem in problems:
        yield CheckResult("bad", "daemon", str(problem), "picoclaw status tells more")
    if not problems:
        yield CheckResult("good", "daemon", f"it runs as process {said.get('pid')}, and nothing is wrong with it")


def _examine_dashboard(config: Config) -> Iterator[CheckResult]:
    page = config.page
    if page.enabled and not _is_ip_address(page.host):
        yield CheckResult(
            "bad", "page", f"host {page.host!r} is no address, so there is none", 'host = "127.0.0.1" under [page]'
        )
    elif page.enabled and not _is_own_address(page.host):
        how = f"no interface has the address {page.host} now: nobody reaches the page until one has"
        yield CheckResult("bad", "page", how, "ip addr shows what there is; then host under [page]")
    elif page.enabled and not is_loopback(page.host):
        how = f"it listens at {page.host}:{page.port}: the network sees its door, and can read what goes through"
        yield CheckResult("note", "page", how, 'host = "127.0.0.1" under [page] keeps it to this machine')
    elif page.enabled:
        yield CheckResult("good", "page", f"on this machine alone, at {page.host}:{page.port}")


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_own_address(address: str) -> bool:
    """Tell whether this machine has an address; nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _examine_telegram_users(config: Config) -> Iterator[CheckResult]:
    try:
        with closing(Pairing(config.home, config.telegram.allow, config.telegram.owner)) as pairing:
            people = pairing.people()
    except StoreError:
        return  # state.db has its own row
    if not people:
        yield CheckResult("note", _TELEGRAM_ROW, "nobody may talk to the bot yet", "picoclaw telegram pair")


def _examine_telegram_bot(config: Config) -> CheckResult:
    mends: dict[type[Exception], str] = {
        BadToken: "ask @BotFather for the token (/token), and put it into secrets.toml as telegram_token",
        Conflict: "stop the other program, or: picoclaw telegram unhook",
    }
    try:
        with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
            name = identify_bot(api, _TELEGRAM_TIMEOUT_S).name
    except (ChannelDown, ChannelError) as error:
        return CheckResult(
            "bad", _TELEGRAM_ROW, str(error), mends.get(type(error), "look at the network: ip route; resolvectl status")
        )
    return CheckResult("good", _TELEGRAM_ROW, f"@{name} answers")


# The home folder: whether it can be used, by nobody else, and whether a secret has left the file it belongs in.

_HOME_ADVICE = "give this user the folders above it, or set PICOCLAW_HOME to a folder of its own"
_ENVIRONMENT_FILES = ("/etc/default/picoclaw", "/etc/picoclaw/environment")
_SECRET_LINE = re.compile(rb"^\s*(?:export\s+)?(\w*(?:KEY|TOKEN|PASSWORD)\w*)\s*=\s*\S", re.MULTILINE)
_MAX_SCANNED_BYTES = 1_000_000
_MIN_SECRET_LENGTH = 12
"""Shorter keys are placeholders such as "none", which a page may well contain."""


def examine_home(home: Path) -> Iterator[CheckResult]:
    """Look at the folder, and at files elsewhere that hold a key for the service."""
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except FileNotFoundError:
        yield CheckResult("note", "home", f"{home} does not exist yet", "picoclaw init")
        return
    except OSError as error:
        yield CheckResult("bad", "home", f"{home} cannot be looked at: {explain_os_error(error)}", _HOME_ADVICE)
        return
    if mode & 0o077:
        yield CheckResult("bad", "home", f"{home} is open to others (mode {mode:04o})", f"chmod 700 {home}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield CheckResult(
            "bad", "home", f"{home} cannot be read and written by this user", f"sudo chown -R $USER {home}"
        )
    else:
        yield CheckResult("good", "home", str(home))
    yield from _find_other_owners(home)


def _find_other_owners(home: Path) -> Iterator[CheckResult]:
    """Files of another owner: what `sudo picoclaw` once made, the service cannot write."""
    user = os.geteuid()
    try:
        theirs = [e.name for e in os.scandir(home) if user and e.stat(follow_symlinks=False).st_uid != user]
    except OSError:
        return
    if theirs:
        mend = f"sudo chown -R $USER {home}"
        yield CheckResult("bad", "home", f"{', '.join(sorted(theirs)[:3])} in it belong to another user", mend)


def find_leaked_secrets(
    secrets: tuple[str, ...], workspace: Path, environments: tuple[str, ...] = _ENVIRONMENT_FILES
) -> Iterator[CheckResult]:
    """Look for a secret where a model, or another user, would read it."""
    wanted = [secret.encode() for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH]
    for path in _walk_files(workspace) if wanted else ():
        if any(secret in _read_content(path) for secret in wanted):
            mend = "take it out, and have the server make a new one: the model has been told it"
            yield CheckResult(
                "bad", "secrets", f"{path} holds a key of secrets.toml, and a model reads that folder", mend
            )
    for name in environments:
        path = Path(name)
        try:
            open_to_all = path.stat().st_mode & 0o044
        except OSError:
            continue
        if open_to_all and (found := _SECRET_LINE.search(_read_content(path))):
            yield CheckResult(
                "bad", "secrets", f"{path} can be read by others and sets {found[1].decode()}", f"chmod 600 {path}"
            )


def _walk_files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (Path(where, name) for name in names)


def _read_content(path: Path) -> bytes:
    """Up to a megabyte of a regular file, nothing of what cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_SCANNED_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


# How picoclaw is installed, and whether it is still there after the next restart of the machine.

_SHIPPED_UNITS = {True: "picoclaw.service", False: "user.service"}


def examine_installation() -> Iterator[CheckResult]:
    """Look at an update that was cut off, at the unit's file and at whether it runs."""
    place = places.find_installation()
    if place and (trial := place.trial()):
        how = f"{trial.new} is on trial since an update that was cut off; before it was {trial.old}"
        yield CheckResult("note", "update", how, "picoclaw update --keep, or picoclaw update --back")
    unit = service.find_installed_unit()
    if unit is None:
        yield CheckResult(
            "note", "service", "picoclaw does not start with this machine", "sudo picoclaw service install"
        )
        return
    system = unit.is_relative_to("/etc")
    sudo = "sudo " if system else ""
    if problem := describe_stale_unit(unit, find_shipped("systemd") / _SHIPPED_UNITS[system]):
        yield CheckResult("note", "service", problem, f"{sudo}picoclaw service install{'' if system else ' --user'}")
    if service.find_running_service():
        yield CheckResult("good", "service", f"{unit} runs")
    else:
        start = "sudo systemctl start picoclaw" if system else "systemctl --user start picoclaw"
        yield CheckResult("bad", "service", f"{unit} does not run", f"picoclaw service logs; {start}")


def describe_stale_unit(unit: Path, template: Path) -> str:
    """Say how a unit's file differs from what this picoclaw brings, empty when it does not."""
    try:
        same = unit.read_bytes() == template.read_bytes()
    except OSError as error:
        return f"{unit} cannot be compared: {explain_os_error(error)}"
    return "" if same else f"{unit} is from another picoclaw than this one"


# What is kept in the home: the databases, rules, pages, skills, notes, and who finds notes by their meaning.

_EMBEDDINGS_TRIAL = """
from picoclaw.config import load_config
from picoclaw.errors import PicoclawError
from picoclaw.memory.embedding import try_embedder
try:
    print(try_embedder(load_config()))
except PicoclawError as error:
    raise SystemExit(str(error))
"""


def examine_stored_data(config: Config) -> Iterator[CheckResult]:
    """Look at the files of one home."""
    yield from _examine_database(config.home / "state.db", "the first chat makes it")
    yield from _examine_database(
        config.home / history_migrations.HISTORY_FILE, "`picoclaw run`, or an open chat, makes it"
    )
    yield from _examine_rules(config.home)
    yield from _examine_workspace(config)
    keys = config.api_key, config.embedding_key, config.telegram_token, *config.model_keys.values()
    yield from find_leaked_secrets(keys, config.workspace)
    yield from _examine_memory(config)


def _examine_database(path: Path, made: str) -> Iterator[CheckResult]:
    if not os.path.lexists(path):
        yield CheckResult("note", path.name, f"not made yet; {made}")
        return
    try:
        found = run_quick_check(
            path, history_migrations.HISTORY_MIGRATIONS if path.name == history_migrations.HISTORY_FILE else MIGRATIONS
        )
    except StoreError as error:
        yield CheckResult("bad", path.name, str(error), "picoclaw check --mend, or picoclaw restore FILE")
        return
    yield CheckResult("good" if found == "ok" else "bad", path.name, found)


def _examine_rules(folder: Path) -> Iterator[CheckResult]:
    found = rules.load_rules(folder, get_owner_time(folder))
    for problem in found.problems.values():
        yield CheckResult("bad", rules.RULES_FILE, f"not followed: {problem}", "picoclaw rules check")
    if found.rules:
        yield CheckResult("good", rules.RULES_FILE, f"{', '.join(found.rules)} can be read")


def _examine_workspace(config: Config) -> Iterator[CheckResult]:
    """The files that a model is told, and the skills."""
    found = [CheckResult("note", "workspace", *row) for row in examine_workspace(config.home)]
    yield from found or [CheckResult("good", "workspace", f"the files in {config.workspace} are as they should be")]
    library = SkillLibrary(list_home_tiers(config.home))
    library.look()
    for broken in library.broken:
        yield CheckResult("note", "skills", f"{broken.folder}: {broken.problem}", "picoclaw skills check")
    yield CheckResult("good", "skills", f"{len(library.skills)} can be read")


def _examine_memory(config: Config) -> Iterator[CheckResult]:
    """The notes, how much of them is in the index, and who finds them by their meaning."""
    files = MemoryFiles(config.workspace)
    sizes = [source.size for _, found in files.folders() for source in found]
    for problem in files.problems:
        yield CheckResult("note", "notes", problem)
    path = config.home / "memory.db"
    indexed = _describe_index(path) if path.exists() else "memory.db is not made yet; the first search makes it"
    yield CheckResult("good", "notes", f"{len(sizes)} files with {sum(sizes)} bytes; {indexed}")
    if config.memory.embeddings == "off":
        yield CheckResult(
            "good", "embeddings", 'off: notes are found by their words (embeddings = "local" finds meanings too)'
        )
    else:
        yield _examine_embeddings()


def _describe_index(path: Path) -> str:
    """Look into the index as it is; opened the usual way, it would be brought up to the notes."""
    if not path.is_file():
        return "memory.db is not a regular file; move it aside, and the next search makes it"
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            count = connection.execute("SELECT count(*) FROM chunks").get
            return f"{count} parts of them are in the index"
        finally:
            connection.close()
    except apsw.Error as error:
        return f"memory.db cannot be read just now ({error}); the next search mends it, or `picoclaw memory check`"


def _examine_embeddings() -> CheckResult:
    """Try them in a process of their own: a numpy that was built for another processor ends the one that loads it."""
    mend = 'or write embeddings = "off" under [memory] in config.toml; until then words alone find notes'
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _EMBEDDINGS_TRIAL], capture_output=True, text=True, timeout=90, check=False
        )
    except subprocess.TimeoutExpired:
        return CheckResult("bad", "embeddings", "they took longer than 90 s", mend)
    if tried.returncode < 0:
        return CheckResult(
            "bad", "embeddings", f"loading numpy ended Python: {signal.strsignal(-tried.returncode)}", mend
        )
    said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().rpartition("\n")[2]
    return (
        CheckResult("good", "embeddings", said)
        if tried.returncode == 0
        else CheckResult("bad", "embeddings", said, mend)
    )


# The machine under the board's sensors: what makes a small computer with a card forget, fill up, wear out or lie.
#
# Sources: kernel documents admin-guide/cgroup-v2.rst, block/stat.rst, filesystems/proc.rst (mounts, swaps) and
# watchdog/watchdog-api.rst; proc(5); JEDEC eMMC 5.0 as shown in drivers/mmc/core/mmc.c (life_time, pre_eol_info).

_SECTOR_BYTES, _MEGABYTE, _DAY_S = 512, 1_000_000, 86_400
_HIGH_WRITES_PER_DAY, _MAX_WRITES_PER_DAY = 250 * _MEGABYTE, 1000 * _MEGABYTE
_MIN_UPTIME_S = 3600
"""Seconds; the writes of a start say nothing about a day."""
_MIN_FREE_BYTES, _MIN_FREE_SHARE = 100 * _MEGABYTE, 0.02
_MIN_MEMORY_KB = 40_000
_HARDWARE_GROUPS = ("i2c", "spi", "gpio", "dialout", "video")
_VOLATILE_FILE_SYSTEMS = {
    "tmpfs": "memory",
    "ramfs": "memory",
    "overlay": "an overlay: what is written is gone after a restart",
}
_UNSAFE_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "vfat", "exfat", "msdos")
_EMMC_LIFE_USED = {"0x0a": "90 to 100 %", "0x0b": "all"}


def examine_machine(board: Board, home: Path) -> Iterator[CheckResult]:
    """Say what is worth knowing of memory, disk, clock, groups and the system's own care; silent where all is well."""
    yield from _examine_ram(board)
    yield from _examine_swap(board)
    yield from _examine_disk_space(board, home)
    yield from _examine_file_system(board, home)
    yield from _examine_disk_wear(board)
    yield from _examine_clock(board)
    yield from _examine_time_zones()
    if not board.simulated:
        yield from _examine_groups(board)
    yield from _examine_system_services(board)


def _examine_ram(board: Board) -> Iterator[CheckResult]:
    controllers = health.read_text(board, "/sys/fs/cgroup/cgroup.controllers").split()
    if controllers and "memory" not in controllers:
        files = (
            board.glob("/boot/firmware/cmdline.txt") or board.glob("/boot/cmdline.txt") or ["the kernel's command line"]
        )
        yield CheckResult(
            "note",
            "memory limits",
            "this kernel takes systemd's MemoryMax= and does not enforce it; picoclaw's own limits hold all the same",
            f"add cgroup_enable=memory to the line in {files[0]}, and reboot",
        )
    found = re.search(r"^MemAvailable:\s+([0-9]{1,12}) kB", health.read_text(board, "/proc/meminfo"), re.MULTILINE)
    if found and int(found[1]) < _MIN_MEMORY_KB:
        mend = "stop what is not needed (a desktop takes most): sudo systemctl set-default multi-user.target"
        yield CheckResult("bad", "memory", f"only {int(found[1]) // 1000} MB are left", mend)


def _examine_swap(board: Board) -> Iterator[CheckResult]:
    for line in health.read_text(board, "/proc/swaps").splitlines()[1:]:
        name = line.split()[0] if line.split() else ""
        if name and not name.startswith("/dev/zram"):
            yield CheckResult(
                "note",
                "swap",
                f"{name} is on the disk: it wears a card out, and what was in memory (keys too) lies there",
                "swap in compressed memory instead: sudo apt install zram-tools, then sudo swapoff " + name,
            )
    for path in board.glob("/sys/block/zram[0-9]*/backing_dev"):
        if (behind := health.read_text(board, path)) not in {"", "none"}:
            name = path.split("/")[3]
            how = f"{name} writes what it holds to {behind}: if that is on the card, memory (keys too) lies there"
            yield CheckResult("note", "swap", how, "Mechanism=zram under [Main] in /etc/rpi/swap.conf, and reboot")


def _examine_disk_space(board: Board, home: Path) -> Iterator[CheckResult]:
    try:
        space = board.space(find_existing_folder(home))
    except HardwareError:
        return
    if space.total and (space.free < _MIN_FREE_BYTES or space.free < _MIN_FREE_SHARE * space.total):
        mend = "sudo apt clean; sudo journalctl --vacuum-size=50M; picoclaw sessions prune --help"
        yield CheckResult("bad", "disk space", f"only {space.free // _MEGABYTE} MB are free", mend)


def _examine_file_system(board: Board, home: Path) -> Iterator[CheckResult]:
    what = "file system"
    kind, flags, point = _find_mount(health.read_text(board, "/proc/self/mounts"), str(home))
    if "ro" in flags:
        mend = f"look why (dmesg), then sudo mount -o remount,rw {point}; after an error, check the card"
        yield CheckResult("bad", what, f"{point} is read-only: nothing can be kept", mend)
    if kind in _VOLATILE_FILE_SYSTEMS:
        mend = "sudo raspi-config nonint disable_overlayfs, or set PICOCLAW_HOME to a folder on a disk"
        yield CheckResult(
            "bad", what, f"{home} is in {_VOLATILE_FILE_SYSTEMS[kind]}; nothing outlasts a power cut", mend
        )
    if kind in _UNSAFE_FILE_SYSTEMS:
        mend = "set PICOCLAW_HOME to a folder on a disk of this machine's (ext4)"
        yield CheckResult("bad", what, f"{home} is on {kind}, on which SQLite's logs and locks do not hold", mend)


def _find_mount(mounts: str, path: str) -> tuple[str, list[str], str]:
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


def _examine_disk_wear(board: Board) -> Iterator[CheckResult]:
    found = re.match(r"[0-9]{1,12}", health.read_text(board, "/proc/uptime"))
    uptime = int(found[0]) if found else 0
    for path in board.glob("/sys/block/mmcblk[0-9]/stat"):
        name, fields = path.split("/")[3], health.read_text(board, path).split()
        if len(fields) > 6 and fields[6].isdigit() and uptime >= _MIN_UPTIME_S:
            a_day = int(fields[6]) * _SECTOR_BYTES * _DAY_S / uptime
            mark: health.Mark = (
                "bad" if a_day > _MAX_WRITES_PER_DAY else "note" if a_day > _HIGH_WRITES_PER_DAY else "good"
            )
            mend = "see who writes: sudo apt install iotop, sudo iotop -aoP" if mark != "good" else ""
            yield CheckResult(
                mark, "disk wear", f"{name} is written {a_day / _MEGABYTE:.0f} MB a day, by all programs", mend
            )
    for path in board.glob("/sys/block/mmcblk[0-9]/device/life_time"):
        used = [
            _EMMC_LIFE_USED[word] for word in health.read_text(board, path).lower().split() if word in _EMMC_LIFE_USED
        ]
        if used:
            how = f"{path.split('/')[3]} says that {used[-1]} of its life is used up"
            yield CheckResult("bad", "disk wear", how, "picoclaw backup, and change it")


def _examine_clock(board: Board) -> Iterator[CheckResult]:
    if not board.simulated and not board.glob("/sys/class/rtc/rtc[0-9]*") and not board.clock_synchronised():
        yield CheckResult(
            "note",
            "clock",
            "there is no clock with a battery: after a power cut the date is wrong until a time server has answered",
            "nothing is done at a wrong time meanwhile; a DS3231 (dtoverlay=i2c-rtc,ds3231) does without a network",
        )


def _examine_time_zones() -> Iterator[CheckResult]:
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        yield CheckResult("bad", "time zones", "this system has no list of time zones", "sudo apt install tzdata")


def _examine_groups(board: Board) -> Iterator[CheckResult]:
    """Groups of the machine's own list that were given to this user after this login began."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return
    mine = {str(number) for number in (*os.getgroups(), os.getegid())}
    listed = [line.split(":") for line in health.read_text(board, "/etc/group").splitlines() if line.count(":") == 3]
    late = [name for name, _, number, members in listed if user in members.split(",") and number not in mine]
    if late := [name for name in late if name in _HARDWARE_GROUPS]:
        yield CheckResult(
            "note", "groups", f"{user} is in {', '.join(late)}, but not yet in this login", "log out and in again"
        )


def _examine_system_services(board: Board) -> Iterator[CheckResult]:
    if board.glob("/run/log/journal") and not board.glob("/var/log/journal"):
        yield CheckResult(
            "note",
            "system log",
            "it is kept in memory: what was said before a power cut is gone",
            "to keep it: sudo mkdir -p /var/log/journal, sudo systemctl restart systemd-journald (costs writes)",
        )
    for path in board.glob("/sys/class/watchdog/watchdog[0-9]*/state"):
        if health.read_text(board, path) == "inactive":
            yield CheckResult(
                "note",
                "hardware watchdog",
                "it is there and nobody uses it: a board that hangs stays so",
                "RuntimeWatchdogSec=14 under [Manager] in /etc/systemd/system.conf, and reboot",
            )
            break


# The model: whether its server can be found, and answers; what is wrong with the way there is told apart from it.

_DNS_TIMEOUT_S = 5.0
_UNUSED_MODEL_NOTE = "it is asked only where it is chosen ('then' under [model] does not name it)"
_MODEL_SETTINGS_ADVICE = "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY"


def examine_models(config: Config) -> Iterator[CheckResult]:
    """Ask each server for a word: nothing less shows that address, key and model's name are right."""
    if not config.model.base_url:
        yield CheckResult("note", "model", "none is configured; the built-in matcher answers", _suggest_model_setup())
        return
    text = Prompts(config.workspace)["doctor"]
    yield _examine_model("model", config.model, config.api_key, text, _MODEL_SETTINGS_ADVICE)
    for name, model in config.models.items():
        mend = f"check [models.{name}] in config.toml, and its key: PICOCLAW_API_KEY_{name.upper()} or [keys] {name}"
        found = _examine_model(f"model {name}", model, config.model_keys.get(name, ""), text, mend)
        yield found if name in config.model.then else found._replace(how=f"{found.how}; {_UNUSED_MODEL_NOTE}")


def _examine_model(what: str, model: ModelConfig, key: str, text: str, mend: str) -> CheckResult:
    if problem := _explain_unresolved_host(urlsplit(model.base_url).hostname or "", _DNS_TIMEOUT_S):
        return CheckResult(
            "bad", what, f"{model.shown_url}: {problem}", "ip route; resolvectl status; or check base_url"
        )
    from picoclaw.providers.model import ModelProvider

    began = time.monotonic()
    request = Request("", (Message("user", text),), (), 16, began + 30)
    try:
        with closing(ModelProvider(replace(model, idle_seconds=30), key)) as provider:
            for _ in provider.events(request):
                pass
    except ProviderError as error:
        clock = "certificate" in str(error) and "valid" in str(error)
        return CheckResult("bad", what, str(error), "set the clock: sudo timedatectl set-ntp true" if clock else mend)
    took = time.monotonic() - began
    return CheckResult("good", what, f"{model.name or 'default'} at {model.shown_url} answers in {took:.1f} s")


def _suggest_model_setup() -> str:
    named = [name for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY") if os.environ.get(name)]
    if named:
        return f"{named[0]} is set: set PICOCLAW_MODEL as well to use it"
    return "set base_url and name under [model] in config.toml, or PICOCLAW_BASE_URL and PICOCLAW_MODEL"


def _explain_unresolved_host(host: str, seconds: float) -> str:
    """Say why a name stands for no address, empty when it does; a resolver that hangs is not waited for longer."""
    said = [f"no answer from the name server in {seconds:.0f} s"]

    def ask() -> None:
        try:
            socket.getaddrinfo(host, None)
            said.append("")
        except (OSError, UnicodeError) as error:
            said.append(f"the name {host} is not known here ({error})")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return said[-1]


# Commands: whether the walls that they are run in can be made, by making some, and whether the service can too.

_SANDBOX_ROW = "commands"
_EXEC_SOCKET, _EXEC_SERVICE = "picoclaw-exec.socket", "picoclaw-exec@.service"
_USER_NAMESPACE_SETTINGS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
)
"""What keeps a user who is not root from making name spaces, and what to set it to."""


def examine_sandbox(config: Config, root: Path = Path("/")) -> Iterator[CheckResult]:
    """Run a command that does nothing; silent where commands are off, or before there is a workspace."""
    if config.tools.exec == "off" or not config.workspace.is_dir():
        return
    if unit := service.find_installed_unit():
        yield from _examine_exec_units(unit)
    try:
        said = ExecTools(config.workspace, os.environ).exec(["true"], timeout=10)
    except PicoclawError as error:
        yield CheckResult("bad", _SANDBOX_ROW, str(error), suggest_sandbox_fix(root))
        return
    if said == "[exit code 0]":
        yield CheckResult(
            "good", _SANDBOX_ROW, "they run within walls of their own; without `write` or `network` they change nothing"
        )
    else:
        yield CheckResult(
            "bad", _SANDBOX_ROW, f"`true` did not do well within the walls: {said}", suggest_sandbox_fix(root)
        )


def _examine_exec_units(unit: Path) -> Iterator[CheckResult]:
    """Look at the two units beside the service's own, which is not allowed to make walls."""
    system = unit.is_relative_to("/etc")
    install = "sudo picoclaw service install" if system else "picoclaw service install --user"
    for name in (_EXEC_SOCKET, _EXEC_SERVICE):
        file, template = unit.parent / name, name if system else name.replace("picoclaw-", "user-")
        if not file.exists():
            yield CheckResult(
                "bad", _SANDBOX_ROW, f"{file} is not there, and without it the service runs none", install
            )
            return
        if problem := describe_stale_unit(file, find_shipped("systemd") / template):
            yield CheckResult("note", _SANDBOX_ROW, problem, install)
    door = Path("/run" if system else os.environ.get("XDG_RUNTIME_DIR") or "/run", "picoclaw/exec.sock")
    if not door.exists():
        user = "sudo systemctl" if system else "systemctl --user"
        yield CheckResult(
            "bad",
            _SANDBOX_ROW,
            f"{_EXEC_SOCKET} is not active, and without it the service runs none",
            f"{user} start {_EXEC_SOCKET}",
        )


def suggest_sandbox_fix(root: Path) -> str:
    """Say what lets walls be made."""
    for path, closed, setting in _USER_NAMESPACE_SETTINGS:
        file = root / path.lstrip("/")
        if file.exists() and file.read_text(encoding="ascii").strip() == closed:
            return f"echo {setting} | sudo tee /etc/sysctl.d/60-picoclaw.conf, then sudo sysctl --system"
    return "sudo apt install bubblewrap"


# The doctor: looks at the set-up, the machine and the board, and says what is wrong and the command that mends it.
#
# Nothing is made or changed, and nothing that is wrong ends it.


def run_doctor(kind: str, *, offline: bool = False) -> Iterator[CheckResult]:
    """Look at everything in turn, on the board of this kind; `offline` leaves out what asks a server."""
    yield CheckResult("good", "picoclaw", f"{__version__} on Python {platform.python_version()}, {sys.executable}")
    try:
        yield from examine_home(get_home(os.environ))
        config = load_config()
    except ConfigError as error:
        yield CheckResult("bad", "settings", str(error), "mend the file named here, or move it aside")
        return
    yield CheckResult("good", "settings", "config.toml, secrets and environment fit")
    yield from examine_stored_data(config)
    if not offline:
        yield from examine_models(config)
    yield from examine_channels(config, offline=offline)
    yield from examine_installation()
    yield from examine_sandbox(config)
    yield from _examine_hardware(kind, config)


def _examine_hardware(kind: str, config: Config) -> Iterator[CheckResult]:
    try:
        board = boards.choose_board(kind, config)
    except ConfigError as error:
        yield CheckResult("bad", "sim.toml", str(error), "mend it, or move it aside")
        return
    try:
        yield from examine_board(board, config)
        yield from examine_machine(board, config.home)
        yield from examine_exposure(board, config)
    finally:
        board.close()
