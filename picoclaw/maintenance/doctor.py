"""`picoclaw doctor`: looks at the set-up, the machine and the board, and says what is wrong and how to fix it.

Nothing is made or changed, and nothing that is wrong ends it. Sources: kernel documents networking/proc_net_tcp.rst,
admin-guide/cgroup-v2.rst, block/stat.rst, filesystems/proc.rst (mounts, swaps) and watchdog/watchdog-api.rst; proc(5);
JEDEC eMMC 5.0 as shown in drivers/mmc/core/mmc.c (life_time, pre_eol_info).
"""

import ipaddress
import os
import platform
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import apsw

from picoclaw import __version__
from picoclaw.automation import rules
from picoclaw.channels.ipc import ask_daemon, is_daemon_silent
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import BadToken
from picoclaw.channels.telegram_api import Conflict, TelegramApi, identify_bot, make_pairing
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
    StoreUnreachable,
)
from picoclaw.files import explain_os_error, get_home
from picoclaw.hw import bus_access, detect, kernel, loader
from picoclaw.hw.board import Board
from picoclaw.hw.kernel import CheckResult, bad, good, note
from picoclaw.hw.reading import WiredPart
from picoclaw.maintenance import find_installation, systemd
from picoclaw.maintenance.database_copy import DATABASE_MIGRATIONS
from picoclaw.maintenance.repair import read_small_file
from picoclaw.memory.files import MemoryFiles
from picoclaw.messages import Message, Request
from picoclaw.mqtt import read_remote
from picoclaw.outputs import config as outputs
from picoclaw.records import replace
from picoclaw.security.sandbox import SANDBOX_PATH
from picoclaw.skills import SkillLibrary, list_home_tiers
from picoclaw.store.database import run_quick_check
from picoclaw.tools.exec import ExecTools
from picoclaw.workspace import Prompts, examine_workspace, find_outputs_file, get_owner_time

_Rows = Iterator[CheckResult]


def run_doctor(kind: str, *, offline: bool = False) -> _Rows:
    """Run all checks, on the board of this kind; `offline` leaves out those that ask a server."""
    yield good("picoclaw", f"{__version__} on Python {platform.python_version()}, {sys.executable}")
    try:
        yield from _examine_home(get_home(os.environ))
        config = load_config()
    except ConfigError as error:
        yield bad("settings", str(error), "correct the file named here, or move it aside")
        return
    yield good("settings", "config.toml, secrets and environment variables are valid")
    yield from _examine_database(config.home / "state.db", "the first chat creates it")
    yield from _examine_database(config.home / "history.db", "`picoclaw run`, or an open chat, creates it")
    found = rules.load_rules(config.home, get_owner_time(config.home))
    for problem in found.problems.values():
        yield bad(rules.RULES_FILE, f"not followed: {problem}", "picoclaw rules check")
    if found.rules:
        yield good(rules.RULES_FILE, f"{', '.join(found.rules)} can be read")
    yield from _examine_workspace(config)
    used = (
        config.api_key,
        config.embedding_key,
        config.telegram_token,
        config.matrix_token,
        config.mqtt_password,
        config.store_password,
    )
    keys = (*used, *config.model_keys.values())
    yield from find_leaked_secrets(keys, config.workspace)
    yield from _examine_memory(config)
    if not offline:
        yield from examine_models(config)
    yield from examine_channels(config, offline=offline)
    yield from examine_installation()
    yield from examine_sandbox(config)
    try:
        board = detect.choose_board(kind, config)
    except ConfigError as error:
        yield bad("sim.toml", str(error), "correct it, or move it aside")
        return
    with closing(board):
        yield from examine_board(board, config)
        yield from examine_machine(board, config.home)
        yield from examine_exposure(board, config)


# The home folder: whether it can be used, by nobody else, and whether a secret has left the file it belongs in.

_ENVIRONMENT_FILES = ("/etc/default/picoclaw", "/etc/picoclaw/environment")
_SECRET_LINE = re.compile(rb"^\s*(?:export\s+)?(\w*(?:KEY|TOKEN|PASSWORD)\w*)\s*=\s*\S", re.MULTILINE)
_MIN_SECRET_LENGTH = 12  # shorter keys are placeholders such as "none", which a page may well contain


def _examine_home(home: Path) -> _Rows:
    own = f"sudo chown -R $USER {home}"
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except FileNotFoundError:
        yield note("home", f"{home} does not exist yet", "picoclaw init")
        return
    except OSError as error:
        advice = "give this user the folders above it, or set PICOCLAW_HOME to a folder of its own"
        yield bad("home", f"{home} cannot be checked: {explain_os_error(error)}", advice)
        return
    if mode & 0o077:
        yield bad("home", f"{home} is open to others (mode {mode:04o})", f"chmod 700 {home}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield bad("home", f"{home} cannot be read and written by this user", own)
    else:
        yield good("home", str(home))
    user = os.geteuid()
    try:  # what `sudo picoclaw` once made, the service cannot write
        theirs = [e.name for e in os.scandir(home) if user and e.stat(follow_symlinks=False).st_uid != user]
    except OSError:
        return
    if theirs:
        yield bad("home", f"{', '.join(sorted(theirs)[:3])} in it belong to another user", own)


def find_leaked_secrets(
    secrets: tuple[str, ...], workspace: Path, environments: tuple[str, ...] = _ENVIRONMENT_FILES
) -> _Rows:
    """Look for secrets in files that a model, or another user, can read."""
    wanted = [secret.encode() for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH]
    for folder, folders, names in os.walk(workspace) if wanted else ():
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder, name) for name in names):
            content = read_small_file(path)
            if any(secret in content for secret in wanted):
                fix = "remove it and create a new key: the model may have seen it"
                yield bad("secrets", f"{path} holds a key of secrets.toml, and a model reads that folder", fix)
    for path in map(Path, environments):
        try:
            open_to_all = path.stat().st_mode & 0o044
        except OSError:
            continue
        if open_to_all and (found := _SECRET_LINE.search(read_small_file(path))):
            yield bad("secrets", f"{path} can be read by others and sets {found[1].decode()}", f"chmod 600 {path}")


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


def _examine_database(path: Path, made: str) -> _Rows:
    if not os.path.lexists(path):
        yield note(path.name, f"not created yet; {made}")
        return
    try:
        found = run_quick_check(path, DATABASE_MIGRATIONS[path.name])
    except StoreError as error:
        yield bad(path.name, str(error), "picoclaw check --repair, or picoclaw restore FILE")
        return
    yield CheckResult("good" if found == "ok" else "bad", path.name, found)


def _examine_workspace(config: Config) -> _Rows:
    found = [note("workspace", *row) for row in examine_workspace(config.home)]
    yield from found or [good("workspace", f"the files in {config.workspace} are in order")]
    library = SkillLibrary(list_home_tiers(config.home))
    library.refresh()
    for broken in library.broken:
        yield note("skills", f"{broken.folder}: {broken.problem}", "picoclaw skills check")
    yield good("skills", f"{len(library.skills)} can be read")


def _examine_memory(config: Config) -> _Rows:
    files = MemoryFiles(config.workspace)
    sizes = [source.size for _, found in files.folders() for source in found]
    for problem in files.problems:
        yield note("notes", problem)
    yield good("notes", f"{len(sizes)} files with {sum(sizes)} bytes; {_describe_index(config.home / 'memory.db')}")
    if config.memory.embeddings == "off":
        yield good("embeddings", 'off: notes are found by keywords only (embeddings = "local" finds meanings too)')
        return
    fix = 'or write embeddings = "off" under [memory] in config.toml; until then notes are found by keywords only'
    try:  # in a process of its own: a numpy that was built for another processor ends the one that loads it
        tried = subprocess.run(
            [sys.executable, "-c", _EMBEDDINGS_TRIAL], capture_output=True, text=True, timeout=90, check=False
        )
    except subprocess.TimeoutExpired:
        yield bad("embeddings", "they took longer than 90 s", fix)
        return
    said = (tried.stderr if tried.returncode else tried.stdout).strip().rpartition("\n")[2]
    if tried.returncode < 0:
        yield bad("embeddings", f"loading numpy ended Python: {signal.strsignal(-tried.returncode)}", fix)
    elif tried.returncode:
        yield bad("embeddings", said, fix)
    else:
        yield good("embeddings", said)


def _describe_index(path: Path) -> str:
    """Look into the index as it is; opened the usual way, it would be brought up to the notes."""
    if not path.exists():
        return "memory.db is not created yet; the first search creates it"
    if not path.is_file():
        return "memory.db is not a regular file; move it aside, and the next search makes it"
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            count = connection.execute("SELECT count(*) FROM chunks").get
            return f"{count} passages of them can be searched"
    except apsw.Error as error:
        return (
            f"memory.db cannot be read just now ({error}); the next search repairs it, or `picoclaw memory check` does"
        )


# The models: whether their servers can be found, and answer; what is wrong with the way there is told apart from it.

_DNS_TIMEOUT_S = 5.0


def examine_models(config: Config) -> _Rows:
    """Ask each model for a word: nothing less shows that address, key and name are right."""
    if not config.model.base_url:
        named = [name for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY") if os.environ.get(name)]
        fix = "if you want one: picoclaw init --ask"
        if named:
            fix = f"{named[0]} is set: set PICOCLAW_MODEL as well to use it"
        yield note("model", "none is configured; the built-in matcher answers", fix)
        return
    text = Prompts(config.workspace)["doctor"]
    fix = "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY"
    yield (found := _examine_model("model", config.model, config.api_key, text, fix))
    is_there = found.status == "good"
    for name, model in config.models.items():
        fix = f"check [models.{name}] in config.toml, and its key: PICOCLAW_API_KEY_{name.upper()} or [keys] {name}"
        found = _examine_model(f"model {name}", model, config.model_keys.get(name, ""), text, fix)
        unused = "; it is asked only if chosen with /model ('then' under [model] does not name it)"
        yield found if name in config.model.then else found._replace(detail=found.detail + unused)
    if is_there:
        yield _examine_profile(config)


def _examine_profile(config: Config) -> CheckResult:
    """Say in which profile the model is asked, and which suits it by what it makes of two requests."""
    from picoclaw.providers.model import probe_model

    used = "small" if config.model.is_small else "full"
    try:
        suits, told = probe_model(config.model, config.api_key)
    except ProviderError as error:
        return note("profile", f"{used}; the model could not be tried: {error}", "picoclaw model probe")
    detail = f"{used} is used (profile = {config.model.profile!r}); {told}"
    if suits == used or config.model.profile != "auto":
        return good("profile", detail)
    return note(
        "profile", detail, f'`picoclaw model test --profile {suits}` compares; set profile = "{suits}" under [model]'
    )


def _examine_model(what: str, model: ModelConfig, key: str, text: str, fix: str) -> CheckResult:
    if problem := _explain_unresolved_host(urlsplit(model.base_url).hostname or "", _DNS_TIMEOUT_S):
        return bad(what, f"{model.shown_url}: {problem}", "ip route; resolvectl status; or check base_url")
    from picoclaw.providers.model import ModelProvider

    began = time.monotonic()
    request = Request("", (Message("user", text),), (), 16, began + 30)
    try:
        with closing(ModelProvider(replace(model, idle_seconds=30), key)) as provider:
            for _ in provider.events(request):
                pass
    except ProviderError as error:
        is_clock_wrong = "certificate" in str(error) and "valid" in str(error)
        return bad(what, str(error), "set the clock: sudo timedatectl set-ntp true" if is_clock_wrong else fix)
    took = time.monotonic() - began
    return good(what, f"{model.name or 'default'} at {model.shown_url} answers in {took:.1f} s")


def _explain_unresolved_host(host: str, seconds: float) -> str:
    """Explain why a name cannot be resolved within so many seconds, '' if it can."""
    said = [f"no answer from the name server in {seconds:.0f} s"]

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, None)
            said.append("")
        except (OSError, UnicodeError) as error:
            said.append(f"the name {host} is not known here ({error})")

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(seconds)
    return said[-1]


# Connections: the daemon, channels, page, webhooks, MCP, MQTT and the shared store.

_STATUS_TIMEOUT_S = 5.0
_TELEGRAM_TIMEOUT_S = 10.0
_BROKER_TIMEOUT_S = 5.0


def examine_channels(config: Config, *, offline: bool) -> _Rows:
    """Look at each; `offline` asks only what runs on this machine."""
    yield from _examine_daemon(config.home)
    if config.page.enabled:
        yield _examine_dashboard(config.page.host, config.page.port)
    yield from _examine_programs(config)
    yield from _examine_mcp(config)
    if config.mqtt.host and not offline:
        yield _examine_broker(config)
    if config.store.url and not offline:
        yield from _examine_store(config)
    if config.matrix.homeserver and config.matrix_token:
        yield from _examine_matrix(config, offline=offline)
    if not config.telegram_token:
        return
    yield from _examine_pairing("telegram", make_pairing(config), "the bot")
    if not offline:
        yield _examine_telegram_bot(config)


def _examine_daemon(home: Path) -> _Rows:
    said = ask_daemon(home, {"do": "status"}, _STATUS_TIMEOUT_S) or {}
    if not said and is_daemon_silent(home, _STATUS_TIMEOUT_S):
        detail = f"picoclaw runs on this home and gives no answer within {_STATUS_TIMEOUT_S:.0f} s"
        yield bad("daemon", detail, "sudo systemctl restart picoclaw; without the service: picoclaw stop, and kill it")
    elif not said.get("running"):
        yield note("daemon", "picoclaw is not running for this home", "picoclaw run, or picoclaw service install")
    else:
        problems = [bad("daemon", str(text), "picoclaw status shows more") for text in said.get("problems") or ()]
        yield from problems or [good("daemon", f"it runs as process {said.get('pid')}, without problems")]


def _examine_dashboard(host: str, port: int) -> CheckResult:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bad(
            "page", f"host {host!r} is not an IP address, so the page is not served", 'host = "127.0.0.1" under [page]'
        )
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))  # nothing is sent
        except OSError:
            detail = f"no interface has the address {host}: the page cannot be reached"
            return bad("page", detail, "ip addr shows what there is; then host under [page]")
    if address.is_loopback:
        return good("page", f"on this machine alone, at {host}:{port}")
    detail = f"it listens at {host}:{port}: the network sees its door, and can read what goes through"
    return note("page", detail, 'host = "127.0.0.1" under [page] keeps it to this machine')


def _examine_mcp(config: Config) -> _Rows:
    """Look at MCP servers, without starting any, and at what is served over MCP."""
    if config.mcp_token and not config.page.enabled:
        yield bad("mcp", "the page is off, and /mcp uses its port", "enabled = true under [page]")
    for name, table in config.mcp.items():
        from picoclaw.mcp.pins import list_pinned

        if table.command and not shutil.which(table.command[0], path=SANDBOX_PATH):
            detail = f"{name}: there is no program {table.command[0]!r} that the sandbox finds"
            yield bad("mcp", detail, f"install it, or write its whole path into [mcp.{name}]")
        try:
            used = list_pinned(config.home, name, table)
        except ConfigError as error:
            yield bad("mcp", str(error), f"picoclaw mcp agree {name}")
            continue
        if used:
            yield good("mcp", f"{name}: {len(used)} tools are agreed to")
        else:
            yield note("mcp", f"{name}: nothing is agreed to, so nothing of it is used", f"picoclaw mcp agree {name}")


def _examine_programs(config: Config) -> _Rows:
    """Look at what programs may ask at the page's port: webhooks, and the board as a model."""
    if config.hooks and not config.page.enabled:
        yield bad("hooks", "the page is off, and webhooks use its port", "enabled = true under [page]")
    for name in config.hooks:
        if not config.hook_secrets.get(name):
            fix = f'hook_{name} = "..." below [keys] in secrets.toml: openssl rand -hex 16'
            yield bad("hooks", f"{name} has no secret, so it takes nothing", fix)
    if config.page.openai:
        from picoclaw.channels.dashboard.login import ProgramTokens

        tokens = ProgramTokens(config.home).listed()
        if not tokens:
            yield note("openai", "no program has a token", "picoclaw page token add NAME")
        elif owners := ", ".join(token.name for token in tokens if token.owner):
            detail = f"whoever has the token of {owners} counts as you in person"
            yield note("openai", detail, "picoclaw page token revoke NAME ends one")
        else:
            yield good("openai", f"{len(tokens)} programs have a token, none of them the owner's")


def _examine_store(config: Config) -> _Rows:
    from picoclaw.shared_store.store import open_shared_store

    name, where = "store", config.store.shown_url
    try:
        with closing(open_shared_store(config.store.url, config.store_password)):
            yield good(name, f"{where} answers; this board is {config.store.board_name} there")
    except StoreUnreachable as error:
        yield note(name, f"{error}; this board goes on with what it has", "picoclaw store status, once it answers")
    except (StoreError, ConfigError) as error:
        yield bad(name, str(error), "check [store] in config.toml, and store_password in secrets.toml")


def _examine_broker(config: Config) -> CheckResult:
    where = ":".join(map(str, config.mqtt.address))
    try:
        from picoclaw.mqtt.connection import listen
    except ImportError:
        return bad("mqtt", "paho-mqtt is not installed", 'pip install "picoclaw-edge[mqtt]"')
    if problem := listen(config.mqtt, config.mqtt_password, _BROKER_TIMEOUT_S):
        return bad("mqtt", f"{where}: {problem}", "check [mqtt] in config.toml, and mqtt_password in secrets.toml")
    if config.mqtt_password and not config.mqtt.tls and not is_local_network(config.mqtt.host):
        return bad("mqtt", f"{where} is used without encryption: others can read the password", "tls = true in [mqtt]")
    if config.mqtt.fleet and not find_spec("nacl"):
        from picoclaw.mqtt import MISSING_NACL

        missing, _, fix = MISSING_NACL.partition(": ")
        return bad("mqtt", missing, fix)
    return good("mqtt", f"the broker at {where} answers")


def _examine_pairing(channel: str, pairing: Pairing, account: str) -> _Rows:
    with suppress(StoreError), closing(pairing):  # state.db has its own row
        if not pairing.people():
            yield note(channel, f"nobody is paired with {account} yet", f"picoclaw {channel} pair")


def _examine_matrix(config: Config, *, offline: bool) -> _Rows:
    from picoclaw.channels.matrix_api import MatrixApi, identify_account
    from picoclaw.channels.matrix_api import make_pairing as make_matrix_pairing

    yield from _examine_pairing("matrix", make_matrix_pairing(config), "the board's account")
    address = urlsplit(config.matrix.homeserver)
    if address.scheme == "http" and address.hostname and not is_local_network(address.hostname):
        yield bad("matrix", "it is used without encryption: others can read the token", "https:// in [matrix]")
    if offline:
        return
    try:
        with closing(MatrixApi(config.matrix_token, config.matrix.homeserver)) as api:
            yield good("matrix", f"the server answers, for {identify_account(api, _TELEGRAM_TIMEOUT_S)}")
    except BadToken as error:
        yield bad("matrix", str(error), "picoclaw matrix login @NAME:SERVER")
    except (ChannelDown, ChannelError) as error:
        yield bad(
            "matrix", str(error), "check homeserver under [matrix]; look at the network: ip route; resolvectl status"
        )


def _examine_telegram_bot(config: Config) -> CheckResult:
    fixes: dict[type[Exception], str] = {
        BadToken: "ask @BotFather for the token (/token), and put it into secrets.toml as telegram_token",
        Conflict: "stop the other program, or: picoclaw telegram unhook",
    }
    try:
        with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
            return good("telegram", f"@{identify_bot(api, _TELEGRAM_TIMEOUT_S).name} answers")
    except (ChannelDown, ChannelError) as error:
        return bad("telegram", str(error), fixes.get(type(error), "look at the network: ip route; resolvectl status"))


# How picoclaw is installed, whether it is there after the next restart of the machine, and whether commands can be run.

_USER_NAMESPACE_SETTINGS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
)
"""What keeps a user who is not root from making name spaces, and what to set it to."""


def examine_installation() -> _Rows:
    """Look at an update that was cut off, at the unit's file and at whether it runs."""
    place = find_installation()
    if place and (trial := place.trial()):
        detail = f"{trial.new} is on trial since an update that was cut off; before it was {trial.old}"
        yield note("update", detail, "picoclaw update --keep, or picoclaw update --back")
    service = systemd.find_installed()
    if service is None:
        yield note("service", "picoclaw is not started at boot", "sudo picoclaw service install")
        return
    if problem := service.describe_change(systemd.UNIT_NAME):
        yield note("service", problem, service.install)
    if systemd.find_running_service():
        yield good("service", f"{service.unit} runs")
    else:
        yield bad(
            "service", f"{service.unit} does not run", f"picoclaw service logs; {service.systemctl} start picoclaw"
        )


def examine_sandbox(config: Config, root: Path = Path("/")) -> _Rows:
    """Run `true` in the sandbox; no row where commands are off, or before there is a workspace."""
    if config.tools.exec == "off" or not config.workspace.is_dir():
        return
    if service := systemd.find_installed():
        yield from _examine_exec_units(service)
    try:
        said = ExecTools(config.workspace, os.environ).exec(["true"], timeout=10)
    except PicoclawError as error:
        yield bad("commands", str(error), suggest_sandbox_fix(root))
        return
    if said == "[exit code 0]":
        detail = "they run in a sandbox; without `write` or `network` they can change nothing"
        yield good("commands", detail)
    else:
        yield bad("commands", f"`true` failed in the sandbox: {said}", suggest_sandbox_fix(root))


def _examine_exec_units(service: systemd.Service) -> _Rows:
    """Check the two units that start sandboxes for the service, which may not do that itself."""
    vain = "and without it the service cannot run commands"
    for name in (systemd.EXEC_SOCKET, systemd.EXEC_SERVICE):
        if not (service.folder / name).exists():
            yield bad("commands", f"{service.folder / name} is missing, {vain}", service.install)
            return
        if problem := service.describe_change(name):
            yield note("commands", problem, service.install)
    folder = os.environ.get("XDG_RUNTIME_DIR") if service.user else None
    if not Path(folder or "/run", "picoclaw/exec.sock").exists():
        start = f"{service.systemctl} start {systemd.EXEC_SOCKET}"
        yield bad("commands", f"{systemd.EXEC_SOCKET} is not active, {vain}", start)


def suggest_sandbox_fix(root: Path) -> str:
    """Suggest how to let this user create namespaces."""
    for path, closed, setting in _USER_NAMESPACE_SETTINGS:
        file = root / path.lstrip("/")
        if file.exists() and file.read_text(encoding="ascii").strip() == closed:
            return f"echo {setting} | sudo tee /etc/sysctl.d/60-picoclaw.conf, then sudo sysctl --system"
    return "sudo apt install bubblewrap"


# The board: how it is, its sensors, read once each, its buses and its outputs.

_BOARD_REMEDIES = {
    "clock": "sudo timedatectl set-ntp true",
    "power and throttling": "use a stronger power supply and a short cable",
}


def examine_board(board: Board, config: Config) -> _Rows:
    for row in kernel.check_health(board, get_owner_time(config.home), _find_existing_folder(config.home)):
        yield row._replace(fix=_BOARD_REMEDIES.get(row.name, "") if row.status == "bad" else "")
    yield from _examine_sensors(board, config)
    yield from bus_access.check_buses(board)
    path = find_outputs_file(config.home)
    if not path.exists():
        return
    found = outputs.load_outputs(path)
    for problem in found.problems:
        yield bad("outputs", problem, f"correct {path}; until then nothing can be switched on")
    digests = outputs.load_armed(config.home)
    dry = [name for name, output in found.outputs.items() if digests.get(name) != output.digest]
    if dry:
        yield note("outputs", f"not armed, dry run only: {', '.join(dry)}", f"picoclaw outputs arm {dry[0]}")
    if armed := [name for name in found.outputs if name not in dry]:
        yield good("outputs", f"{', '.join(armed)} can be switched")


def _examine_sensors(board: Board, config: Config) -> _Rows:
    where = loader.list_driver_folders(config.home)
    wired: dict[str, WiredPart] = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            wired[name] = loader.resolve_part(sensor, where)
        except ConfigError as error:
            wired.pop(name, None)
            yield bad(name, f"[sensors.{name}]: {error}", "correct that table, or the driver")
    remote = partial(read_remote, config.home)
    drivers = loader.Drivers(board, lambda part: loader.load_driver(part, where), remote=remote)
    working: dict[str, None] = {}
    listed = loader.list_sensors(board, wired)
    for found in listed:
        readings = loader.read_sensor(board, drivers, found)
        if any(reading.value is not None for reading in readings):
            working[found.name] = None
            continue
        first = readings[0]
        fix = _explain_silence(board, found, first.problem, where, wired)
        yield bad(first.sensor, f"{first.label} not available: {first.problem}", fix)
    if working:
        yield good("sensors", f"{', '.join(working)} can be read")
    if not listed and not config.sensors:
        fix = "name a part in config.toml under [sensors.NAME], or try `picoclaw chat --board sim`"
        yield note("sensors", "none is set up, and none has a driver in the kernel", fix)


def _explain_silence(
    board: Board, sensor: loader.Sensor, problem: str, where: Sequence[Path], wired: dict[str, WiredPart]
) -> str:
    """Explain the silence of a part on an I2C bus by what else answers there."""
    part = sensor.part
    if not part or sensor.kernel or part.route != "i2c" or "does not answer" not in problem:
        return ""
    taken = {other.address for other in wired.values() if other.bus == part.bus}
    free = [address for address in loader.load_driver(part.part, where).ADDRESSES if address not in taken]
    return bus_access.explain_silence(board, part, free)


def _find_existing_folder(path: Path) -> str:
    """Return the path, or the nearest folder above it that there is."""
    return next(str(p) for p in (path, *path.parents) if os.path.lexists(p))


# The machine under the board's sensors: memory, disk, wear of the card, clock, groups.

_SECTOR_BYTES, _MEGABYTE, _DAY_S = 512, 1_000_000, 86_400
_HIGH_WRITES_PER_DAY, _MAX_WRITES_PER_DAY = 250 * _MEGABYTE, 1000 * _MEGABYTE
_MIN_UPTIME_S = 3600  # the writes of a start say nothing about a day
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


def examine_machine(board: Board, home: Path) -> _Rows:
    """Check memory, disk, clock, groups and system services; no rows where all is well."""
    yield from _examine_ram(board)
    yield from _examine_disk(board, home)
    yield from _examine_disk_wear(board)
    yield from _examine_clock(board)
    if not board.simulated:
        yield from _examine_groups(board)
    if board.glob("/run/log/journal") and not board.glob("/var/log/journal"):
        detail = "it is kept in memory, and lost in a power cut"
        fix = "to store it on disk: sudo mkdir -p /var/log/journal, sudo systemctl restart systemd-journald (costs writes)"
        yield note("system log", detail, fix)
    watchdogs = board.glob("/sys/class/watchdog/watchdog[0-9]*/state")
    if any(kernel.read_text(board, path) == "inactive" for path in watchdogs):
        fix = "RuntimeWatchdogSec=14 under [Manager] in /etc/systemd/system.conf, and reboot"
        yield note("hardware watchdog", "the board has one that is not in use: a board that hangs stays hung", fix)


def _examine_ram(board: Board) -> _Rows:
    controllers = kernel.read_text(board, "/sys/fs/cgroup/cgroup.controllers").split()
    if controllers and "memory" not in controllers:
        files = board.glob("/boot/firmware/cmdline.txt") or board.glob("/boot/cmdline.txt")
        detail = (
            "this kernel takes systemd's MemoryMax= and does not enforce it; picoclaw's own limits hold all the same"
        )
        line = files[0] if files else "the kernel's command line"
        yield note("memory limits", detail, f"add cgroup_enable=memory to the line in {line}, and reboot")
    found = re.search(r"^MemAvailable:\s+([0-9]{1,12}) kB", kernel.read_text(board, "/proc/meminfo"), re.MULTILINE)
    if found and int(found[1]) < _MIN_MEMORY_KB:
        fix = "stop what is not needed (a desktop takes most): sudo systemctl set-default multi-user.target"
        yield bad("memory", f"only {int(found[1]) // 1000} MB are left", fix)
    for line in kernel.read_text(board, "/proc/swaps").splitlines()[1:]:
        name = next(iter(line.split()), "")
        if name and not name.startswith("/dev/zram"):
            detail = f"{name} is on the disk: it wears a card out, and what was in memory (keys too) lies there"
            fix = f"swap in compressed memory instead: sudo apt install zram-tools, then sudo swapoff {name}"
            yield note("swap", detail, fix)
    for path in board.glob("/sys/block/zram[0-9]*/backing_dev"):
        if (behind := kernel.read_text(board, path)) not in {"", "none"}:
            name = path.split("/")[3]
            detail = f"{name} writes what it holds to {behind}: if that is on the card, memory (keys too) lies there"
            yield note("swap", detail, "Mechanism=zram under [Main] in /etc/rpi/swap.conf, and reboot")


def _examine_disk(board: Board, home: Path) -> _Rows:
    try:
        space = board.space(_find_existing_folder(home))
    except HardwareError:
        space = None
    if space and space.total and space.free < max(_MIN_FREE_BYTES, _MIN_FREE_SHARE * space.total):
        fix = "sudo apt clean; sudo journalctl --vacuum-size=50M; picoclaw sessions prune --help"
        yield bad("disk space", f"only {space.free // _MEGABYTE} MB are free", fix)
    kind, flags, point = _find_mount(kernel.read_text(board, "/proc/self/mounts"), str(home))
    if "ro" in flags:
        fix = f"look why (dmesg), then sudo mount -o remount,rw {point}; after an error, check the card"
        yield bad("file system", f"{point} is read-only: nothing can be saved", fix)
    if kind in _VOLATILE_FILE_SYSTEMS:
        fix = "sudo raspi-config nonint disable_overlayfs, or set PICOCLAW_HOME to a folder on a disk"
        yield bad("file system", f"{home} is in {_VOLATILE_FILE_SYSTEMS[kind]}; everything is lost in a power cut", fix)
    if kind in _UNSAFE_FILE_SYSTEMS:
        fix = "set PICOCLAW_HOME to a folder on a disk of this machine's (ext4)"
        yield bad("file system", f"{home} is on {kind}, where SQLite's logs and locks are not reliable", fix)


def _find_mount(mounts: str, path: str) -> tuple[str, list[str], str]:
    """Find type, flags and mount point of the file system of a path; of several mounts at a point the last counts."""
    kind, flags, point = "", "", ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 4:
            continue
        place = parts[1].replace("\\040", " ").rstrip("/")
        if len(place) >= len(point.rstrip("/")) and f"{path}/".startswith(f"{place}/"):
            kind, flags, point = parts[2], parts[3], place or "/"
    return kind, flags.split(","), point


def _examine_disk_wear(board: Board) -> _Rows:
    found = re.match(r"[0-9]{1,12}", kernel.read_text(board, "/proc/uptime"))
    uptime = int(found[0]) if found else 0
    for path in board.glob("/sys/block/mmcblk[0-9]/stat"):
        name, fields = path.split("/")[3], kernel.read_text(board, path).split()
        if len(fields) > 6 and fields[6].isdigit() and uptime >= _MIN_UPTIME_S:
            a_day = int(fields[6]) * _SECTOR_BYTES * _DAY_S / uptime
            detail = f"{name} is written {a_day / _MEGABYTE:.0f} MB a day, by all programs"
            fix = "see who writes: sudo apt install iotop, sudo iotop -aoP"
            if a_day > _HIGH_WRITES_PER_DAY:
                yield CheckResult("bad" if a_day > _MAX_WRITES_PER_DAY else "note", "disk wear", detail, fix)
            else:
                yield good("disk wear", detail)
    for path in board.glob("/sys/block/mmcblk[0-9]/device/life_time"):
        words = kernel.read_text(board, path).lower().split()
        if used := [_EMMC_LIFE_USED[word] for word in words if word in _EMMC_LIFE_USED]:
            detail = f"{path.split('/')[3]} says that {used[-1]} of its life is used up"
            yield bad("disk wear", detail, "picoclaw backup, and change it")


def _examine_clock(board: Board) -> _Rows:
    if not board.simulated and not board.glob("/sys/class/rtc/rtc[0-9]*") and not board.clock_synchronised():
        detail = (
            "the board has no clock with a battery: after a power cut the date is wrong until a time server answers"
        )
        fix = "until then nothing that has a time is done; a DS3231 (dtoverlay=i2c-rtc,ds3231) keeps the time without a network"
        yield note("clock", detail, fix)
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        yield bad("time zones", "this system has no list of time zones", "sudo apt install tzdata")


def _examine_groups(board: Board) -> _Rows:
    """Find hardware groups that this user was added to after the login."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return
    mine = {str(number) for number in (*os.getgroups(), os.getegid())}
    listed = [line.split(":") for line in kernel.read_text(board, "/etc/group").splitlines() if line.count(":") == 3]
    late = [name for name, _, number, members in listed if user in members.split(",") and number not in mine]
    if late := [name for name in late if name in _HARDWARE_GROUPS]:
        yield note(
            "groups", f"{user} is in {', '.join(late)}, but not yet in this login session", "log out and in again"
        )


# Who can reach what: a key on a line that others hear, a model's server that is open to the network.

_TCP_LISTEN = "0A"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def examine_exposure(board: Board, config: Config) -> _Rows:
    """Look at the models' addresses, and at what listens here."""
    further = ((f"model {name}", model, config.model_keys.get(name, "")) for name, model in config.models.items())
    for what, model, key in (("model", config.model, config.api_key), *further):
        address = urlsplit(model.base_url)
        if address.scheme == "http" and key and address.hostname and not is_local_network(address.hostname):
            detail = f"{model.shown_url} is used without encryption: others on the network can read the key"
            yield bad(what, detail, "write https:// in base_url")
    address = urlsplit(config.model.base_url)
    try:
        port = address.port or _DEFAULT_PORTS.get(address.scheme)
    except ValueError:
        return
    if is_loopback(address.hostname or "") and any(
        heard == port and bound.is_unspecified for bound, heard in list_listeners(board)
    ):
        detail = f"its server answers the whole network at port {port}, without a password"
        yield note("model", detail, "start it with --host 127.0.0.1 (Ollama: OLLAMA_HOST=127.0.0.1)")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_local_network(host: str) -> bool:
    """Whether a host is this machine or in its own network."""
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return is_loopback(host) or "." not in host or host.endswith((".local", ".lan", ".home.arpa", ".internal"))
    return found.is_private or found.is_loopback or found.is_link_local


def list_listeners(board: Board) -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """List the addresses and ports that are listened to by TCP, as far as the kernel tells."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in kernel.read_text(board, path).splitlines()[1:]:
            fields = line.split()
            if len(fields) < 4 or fields[3] != _TCP_LISTEN:
                continue
            digits, _, port = fields[1].partition(":")
            try:
                raw = bytes.fromhex(digits)
                if sys.byteorder == "little":  # the address is in words of the machine's byte order
                    raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
                yield ipaddress.ip_address(raw), int(port, 16)
            except ValueError:
                continue
