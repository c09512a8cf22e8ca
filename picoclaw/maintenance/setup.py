"""The few settings of a new home: from options or from questions, written into the owner's files."""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path
from typing import Any

from picoclaw.automation.clock import wake_all
from picoclaw.config import RENAMED_TABLES, Config, load_config
from picoclaw.config.files import (
    OPENAI_URL,
    OPENROUTER_URL,
    add_table,
    read_regular,
    remove_table,
    rename_table,
    set_value,
)
from picoclaw.errors import ConfigError, HardwareError, PicoclawError
from picoclaw.files import explain_os_error, explain_os_errors, get_home, write_atomic
from picoclaw.http_client import Client, HTTPError, Timeout
from picoclaw.hw import detect, kernel, loader
from picoclaw.hw.board import Board
from picoclaw.maintenance import systemd
from picoclaw.records import NamedTuple, replace
from picoclaw.stores import Stores
from picoclaw.times import parse_zone
from picoclaw.tools.cron import move_jobs_to_zone
from picoclaw.tools.onboarding import read_zone, set_field

LOCAL_SERVERS = {"Ollama": "http://127.0.0.1:11434/v1", "llama.cpp": "http://127.0.0.1:8080/v1"}
_PROBE_TIMEOUT = Timeout(2.0, 2.0)
_PROBE_S = 60.0
_MAX_SHOWN_MODELS = 8
_NO_MODEL = "none; ordinary sentences about sensors, outputs, reminders and notes are understood without one"
DASHBOARD_HOSTS = {"local": "127.0.0.1", "network": "0.0.0.0"}  # noqa: S104 - the owner's choice, for their own network


class InitialSettings(NamedTuple):
    """What is to be set; "" leaves it as it is. `page` is off, local or network; `alone` takes the model away."""

    url: str = ""
    model: str = ""
    key: str = ""
    zone: str = ""
    token: str = ""
    allow: tuple[int, ...] = ()
    page: str = ""
    alone: bool = False
    matrix_server: str = ""
    matrix_token: str = ""


def write_settings(home: Path, wanted: InitialSettings) -> Iterator[str]:
    """Write the settings and say what was set; a wrong one leaves the files unchanged."""
    tables: list[tuple[str, str, Any]] = [("model", "base_url", wanted.url), ("model", "name", wanted.model)]
    tables += [("telegram", "allow", list(wanted.allow)), ("matrix", "homeserver", wanted.matrix_server)]
    if wanted.page:
        tables += [("page", "enabled", wanted.page != "off"), ("page", "host", DASHBOARD_HOSTS.get(wanted.page, ""))]
    tables = [entry for entry in tables if entry[2] != "" and entry[2] != []]
    tables += [("model", "base_url", ""), ("model", "name", "")] if wanted.alone else []
    secrets = [("", "api_key", wanted.key), ("", "telegram_token", wanted.token)]
    secrets += [("", "matrix_token", wanted.matrix_token)]
    config, kept, page = home / "config.toml", home / "secrets.toml", home / "workspace/USER.md"
    changed = {
        config: _apply_entries(read_regular(config), tables),
        kept: _apply_entries(read_regular(kept), [entry for entry in secrets if entry[2]]),
    }
    if wanted.zone:
        changed[page] = set_field(read_regular(page), "Time zone", wanted.zone)
    old = read_zone(read_regular(page))
    _write_files({path: data for path, data in changed.items() if data != read_regular(path)})
    yield from _describe_changes(wanted)
    if wanted.zone and old is None and (home / "state.db").exists():
        with closing(Stores(load_config())) as stores:
            yield from move_jobs_to_zone(stores.jobs, None, read_zone(read_regular(page)), datetime.now(UTC))
        wake_all(home)


def change_table(home: Path, table: str, values: Mapping[str, Any] | None) -> None:
    """Set values of a table of config.toml, such as people.ada, or take the table out (None). Raises ConfigError."""
    path, (kind, dot, name) = home / "config.toml", table.partition(".")
    if dot and not re.fullmatch(r"[A-Za-z0-9_-]+", name):  # the settings say what else is wrong with a name
        raise ConfigError(f"{name!r} cannot be a name in [{kind}.NAME]: small letters, digits and _, such as ada_2")
    text = read_regular(path).decode(errors="replace")
    if values is None:
        text = remove_table(text, table)
    for key, value in (values or {}).items():
        text = set_value(text, table, key, value)
    if values is not None and not values and not re.search(rf"(?m)^\s*\[{re.escape(table)}\]", text):
        text = add_table(text, table, {})
    _write_files({path: text.encode()})


def migrate_settings(config: Config) -> Iterator[str]:
    """Rename in the owner's files what an earlier picoclaw called otherwise, and say what was renamed."""
    path, prompts = config.home / "config.toml", config.workspace / "prompts"
    for old in config.old_tables:
        new = RENAMED_TABLES[old]
        try:
            write_atomic(path, rename_table(read_regular(path).decode(), old, new).encode())
            yield f"{path}: renamed [{old}] to [{new}]"
        except (ConfigError, OSError, UnicodeError) as error:
            yield f"{path}: {explain_os_error(error) if isinstance(error, OSError) else error}"
        with suppress(OSError):
            if not (prompts / "subagent.md").exists():
                (prompts / "helper.md").rename(prompts / "subagent.md")
                yield f"{prompts}: renamed helper.md to subagent.md"


def _apply_entries(before: bytes, entries: list[tuple[str, str, Any]]) -> bytes:
    text = before.decode(errors="replace")
    for table, key, value in entries:
        text = set_value(text, table, key, value)
    return text.encode() if entries else before


def _write_files(files: dict[Path, bytes]) -> None:
    """Write all files, or restore them if the settings are invalid together."""
    before = {path: read_regular(path) if path.exists() else None for path in files}
    try:
        for path, data in files.items():
            _write_or_delete(path, data)
        load_config()
    except ConfigError:
        for path, old in before.items():
            _write_or_delete(path, old)
        raise


def _write_or_delete(path: Path, data: bytes | None) -> None:
    """Write a file, through a link if it is one, or take it away."""
    with explain_os_errors(ConfigError, f"{path} cannot be written"):
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path.resolve(), data)


def probe_profile(home: Path) -> Iterator[str]:
    """Ask a new model two requests, and set the profile that suits it where the owner has set none."""
    from picoclaw.providers.model import probe_model

    config = load_config()
    model = config.model
    if not model.base_url or model.profile != "auto":
        return
    try:
        suits, told = probe_model(replace(model, retries=0, idle_seconds=_PROBE_S), config.api_key, _PROBE_S)
    except PicoclawError as error:
        yield f"profile: the model could not be tried ({error}); `picoclaw model probe` does it later"
        return
    used = "small" if model.is_small else "full"
    if suits != used:
        path = home / "config.toml"
        _write_files({path: _apply_entries(read_regular(path), [("model", "profile", suits)])})
    yield f"profile: {suits} ({told}); `picoclaw model test` shows how well it does"


def _describe_changes(wanted: InitialSettings) -> Iterator[str]:
    model = load_config().model
    told = {
        "model: none": wanted.alone,
        f"model: {model.name or 'the usual one'} at {model.shown_url}": wanted.url or wanted.model,
        "API key: in secrets.toml, which only you can read": wanted.key,
        f"time zone: {wanted.zone}": wanted.zone,
        "Telegram: the token is in secrets.toml; `picoclaw telegram pair` lets you in once picoclaw runs": wanted.token,
        f"Telegram: {', '.join(map(str, wanted.allow))} may talk to the bot, beside those paired": wanted.allow,
        f"Matrix: {wanted.matrix_server}; `picoclaw matrix pair` lets you in once picoclaw runs": wanted.matrix_server,
        "page: off": wanted.page == "off",
        "page: `picoclaw page code` prints the code to log in with once picoclaw runs": wanted.page in DASHBOARD_HOSTS,
    }
    yield from (text for text, so in told.items() if so)


def ask_settings(before: Config, *, again: bool) -> Iterator[InitialSettings]:
    """Ask a person on the terminal, and give each answer to be written before the next question.

    Enter takes what is proposed; what is set is asked only `again`. Raises ConfigError where the person leaves.
    """
    kept = "network" if before.page.host != DASHBOARD_HOSTS["local"] else "local"
    shown = kept if before.page.enabled else "off"
    zone = read_zone(read_regular(before.home / "workspace/USER.md"))
    print("\nA few questions; Enter keeps the value in [brackets].")
    try:
        if again or not before.model.base_url:
            yield from _ask_model(before.model.shown_url)
        if again or zone is None:
            yield InitialSettings(zone=_ask_zone())
        if again or not before.telegram_token:
            token = getpass(f"Telegram bot's token [{'as before' if before.telegram_token else 'none'}]: ").strip()
            yield InitialSettings(token=token)
        if again or not before.page.enabled:
            kinds = ("off", *DASHBOARD_HOSTS)
            page = _ask_choice("Page in a browser: off, local (this machine) or network", kinds, shown)
            yield InitialSettings(page=page if page != shown else "")
    except (EOFError, KeyboardInterrupt):
        raise ConfigError("stopped; your answers so far are saved. `picoclaw init --ask` asks again") from None


def _ask_model(before: str) -> Iterator[InitialSettings]:
    """Ask for address, name and key, or for no model any more; `before` is the address until now."""
    local = {name.lower(): url for name, url in LOCAL_SERVERS.items()}
    known = {**local, "openrouter": OPENROUTER_URL, "openai": OPENAI_URL}
    running = {name: models for name, url in local.items() if (models := list_server_models(url)) is not None}
    kinds = (*(("keep",) if before else ()), "none", *known, "other")
    proposed = "keep" if before else next(iter(running), "none")
    kind = _ask_choice(f"Model{f' (now {before})' if before else ''}: {', '.join(kinds)}", kinds, proposed)
    if kind == "keep":
        return
    if kind == "none":
        print(
            "  Then the built-in matcher answers about sensors, reminders and notes; `init --ask` adds a model later."
        )
        yield InitialSettings(alone=bool(before))
        return
    yield InitialSettings(url=known.get(kind) or _ask_address())
    if models := running.get(kind, []):
        print(f"  It has: {', '.join(models[:_MAX_SHOWN_MODELS])}")
    yield InitialSettings(model=_ask_line("  The model's name", models[0] if models else ""))
    if kind not in local:
        yield InitialSettings(key=getpass("  API key [none]: ").strip())


def _ask_address() -> str:
    while True:
        url = _ask_line("  Its address, such as http://192.168.1.20:8080/v1", "")
        try:
            load_config({"PICOCLAW_BASE_URL": url, "PICOCLAW_HOME": str(get_home(os.environ))})
        except ConfigError as error:
            print(f"  {error}")
        else:
            if url:
                return url


def list_server_models(url: str) -> list[str] | None:
    """List the models of a server on this machine, None when none answers."""
    try:
        with Client(proxies=False) as http, http.stream("GET", f"{url}/models", timeout=_PROBE_TIMEOUT) as answer:
            told = json.loads(b"".join(answer.iter_bytes()))
        return [str(entry["id"]) for entry in told["data"]]
    except (HTTPError, ValueError, KeyError, TypeError):
        return None


def _ask_zone() -> str:
    proposed = get_machine_zone()
    while True:
        text = _ask_line("Time zone, or a city near you", proposed)
        try:
            return str(parse_zone(text)) if text else ""
        except ValueError as error:
            print(f"  {error}")


def get_machine_zone(root: Path = Path("/")) -> str:
    """Name the zone that the machine is set to, empty when it is not known or merely UTC."""
    place = os.path.realpath(root / "etc/localtime")
    _, _, name = place.partition("zoneinfo/")
    return "" if name in {"Etc/UTC", "UTC", "Universal"} else name


def _ask_choice(question: str, kinds: tuple[str, ...], proposed: str) -> str:
    while (answer := _ask_line(question, proposed).lower()) not in kinds:
        print(f"  write one of {', '.join(kinds)}")
    return answer


def _ask_line(question: str, proposed: str) -> str:
    return input(f"{question} [{proposed or 'none'}]: ").strip() or proposed


class FoundPart(NamedTuple):
    """What answers at an address that no sensor and no output has; `parts` are the drivers that it may belong to."""

    bus: int
    address: int
    parts: list[str]
    is_certain: bool


def find_parts(board: Board, home: Path, taken: Collection[tuple[int, int]]) -> Iterator[FoundPart | str]:
    """Look who answers on the buses of the pin header, without writing to any part; a text says what cannot be checked.

    `taken` are the buses and addresses of sensors and outputs, which are left alone.
    """
    where = loader.list_driver_folders(home)
    for adapter in board.adapters():
        if not adapter.header:
            continue
        number = adapter.number
        try:
            bus = board.i2c(number)
            free = [address for address in range(detect.FIRST_ADDRESS, 0x78) if (number, address) not in taken]
            for address in [one for one in free if loader.probe(board, bus, one) == "present"]:
                found = detect.identify_part(board, number, address, where)
                yield FoundPart(number, address, list(found.identified) or found.possible, len(found.identified) == 1)
        except HardwareError as error:
            yield f"i2c-{number} cannot be checked: {error}"


def describe_settings(config: Config, board: Board, wired: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name what is set, and how it is; `wired` are the names of the sensors."""
    from picoclaw.outputs.config import load_outputs
    from picoclaw.workspace import find_outputs_file

    model = config.model
    yield "model", f"{model.name or 'the usual one'} at {model.shown_url}" if model.base_url else _NO_MODEL
    zone = read_zone(read_regular(config.home / "workspace/USER.md")) or get_machine_zone()
    yield "time zone", str(zone or "UTC; `picoclaw init --zone CITY` sets yours")
    simulated = ", simulated: there is no real one here" if board.simulated else ""
    named = [*wired, *(one.name for one in kernel.list_kernel_sensors(board) if not one.is_internal)]
    yield "sensors", (", ".join(named) or "none yet") + simulated
    try:
        file = find_outputs_file(config.home)
        yield "outputs", ", ".join(load_outputs(file).outputs) if file.exists() else "none; outputs.toml declares them"
    except ConfigError as error:
        yield "outputs", str(error)
    yield "Telegram", "on" if config.telegram_token else "off"
    yield "Matrix", config.matrix.homeserver if config.matrix_token and config.matrix.homeserver else "off"
    page = config.page
    hosts = {host: name for name, host in DASHBOARD_HOSTS.items()}
    yield "page", f"{hosts.get(page.host, page.host)}, port {page.port}" if page.enabled else "off"
    found = systemd.find_installed()
    yield "service", ("runs" if found.runs() else "installed, does not run") if found else "not installed"
