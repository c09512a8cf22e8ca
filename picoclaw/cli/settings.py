"""The few settings of a new home: from options or from questions, written into the owner's files."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw.config import Config, home_folder, load
from picoclaw.config.edit import put
from picoclaw.config.files import read
from picoclaw.config.keys import OPENAI, OPENROUTER
from picoclaw.courier import Client, HTTPError, Timeout
from picoclaw.disk import explain, write_atomic
from picoclaw.errors import ConfigError, HardwareError
from picoclaw.hw import boards, detect, kernel, loader, parts
from picoclaw.hw.board import Board
from picoclaw.reflex.bell import ring
from picoclaw.schedule import zone_named
from picoclaw.stores import Stores
from picoclaw.tools.first_run import with_field, zone_in
from picoclaw.tools.job_times import move_to_zone

_LOCAL = {"Ollama": "http://127.0.0.1:11434/v1", "llama.cpp": "http://127.0.0.1:8080/v1"}
_PROBE = Timeout(2.0, 2.0)
_SHOWN_MODELS = 8
_LONGEST_KEY = 4096
_HOSTS = {"local": "127.0.0.1", "network": "0.0.0.0"}  # noqa: S104 - the owner's choice, for their own network


class Wanted(NamedTuple):
    """What is to be set; "" leaves it as it is. `page` is off, local or network; `alone` takes the model away."""

    url: str = ""
    model: str = ""
    key: str = ""
    zone: str = ""
    token: str = ""
    allow: tuple[int, ...] = ()
    page: str = ""
    alone: bool = False


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that answer the questions."""
    group = parser.add_argument_group("settings", "each is left as it is unless it is given")
    group.add_argument(
        "--model-url", metavar="URL", default="", help=f"an OpenAI-compatible server: {_LOCAL['Ollama']}"
    )
    group.add_argument("--model", metavar="NAME", default="", help="the model's name at that server")
    group.add_argument("--key-from", metavar="FILE", help="a file that holds its API key; - for standard input")
    group.add_argument("--zone", metavar="ZONE", default="", help="where you live: Europe/Berlin, or a city")
    group.add_argument("--telegram-token-from", metavar="FILE", help="a file with a bot's token; - for standard input")
    group.add_argument("--telegram-allow", metavar="ID", type=int, action="append", help="who may talk to the bot")
    group.add_argument("--page", choices=["off", *_HOSTS], default="", help="the page in a browser, and for whom")


def given(options_: argparse.Namespace) -> Wanted | None:
    """Take the options; None when there is none of them. Raises ConfigError."""
    if options_.key_from == options_.telegram_token_from == "-":
        raise ConfigError("standard input can hold one secret: give the other one as a file")
    wanted = Wanted(
        options_.model_url,
        options_.model,
        _secret(options_.key_from),
        _zone(options_.zone),
        _secret(options_.telegram_token_from),
        tuple(options_.telegram_allow or ()),
        options_.page,
    )
    return wanted if any(wanted) else None


def _secret(path: str | None) -> str:
    if path is None:
        return ""
    text = sys.stdin.read(_LONGEST_KEY) if path == "-" else read(Path(path)).decode(errors="replace")
    if not text.strip():
        raise ConfigError(f"{path} holds no key")
    return text.strip()


def _zone(text: str) -> str:
    try:
        return str(zone_named(text)) if text else ""
    except ValueError as error:
        raise ConfigError(f"--zone: {error}") from None


def write(home: Path, wanted: Wanted) -> Iterator[str]:
    """Write what is wanted and say what was set; a setting that does not fit leaves the files as they were."""
    tables: list[tuple[str, str, Any]] = [("model", "base_url", wanted.url), ("model", "name", wanted.model)]
    tables += [("telegram", "allow", list(wanted.allow))]
    if wanted.page:
        tables += [("page", "enabled", wanted.page != "off"), ("page", "host", _HOSTS.get(wanted.page, ""))]
    tables = [entry for entry in tables if entry[2] != "" and entry[2] != []]
    tables += [("model", "base_url", ""), ("model", "name", "")] if wanted.alone else []
    secrets = [("", "api_key", wanted.key), ("", "telegram_token", wanted.token)]
    config, kept, page = home / "config.toml", home / "secrets.toml", home / "workspace/USER.md"
    changed = {
        config: _with(read(config), tables),
        kept: _with(read(kept), [entry for entry in secrets if entry[2]]),
    }
    if wanted.zone:
        changed[page] = with_field(read(page), "Time zone", wanted.zone)
    old = zone_in(read(page))
    _change({path: data for path, data in changed.items() if data != read(path)})
    yield from _said(wanted)
    if wanted.zone and old is None and (home / "state.db").exists():
        with closing(Stores(load())) as stores:
            yield from move_to_zone(stores.jobs, None, zone_in(read(page)), datetime.now(UTC))
        ring(home)


def _with(before: bytes, entries: list[tuple[str, str, Any]]) -> bytes:
    text = before.decode(errors="replace")
    for table, key, value in entries:
        text = put(text, table, key, value)
    return text.encode() if entries else before


def _change(files: dict[Path, bytes]) -> None:
    """Write all of the files, or leave each as it was when they do not fit together."""
    before = {path: read(path) if path.exists() else None for path in files}
    try:
        for path, data in files.items():
            _written(path, data)
        load()
    except ConfigError:
        for path, old in before.items():
            _written(path, old)
        raise


def _written(path: Path, data: bytes | None) -> None:
    """Write a file, through a link if it is one, or take it away."""
    try:
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path.resolve(), data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {explain(error)}") from None


def _said(wanted: Wanted) -> Iterator[str]:
    model = load().model
    told = {
        "model: none": wanted.alone,
        f"model: {model.name or 'the usual one'} at {model.shown_url}": wanted.url or wanted.model,
        "API key: in secrets.toml, which only you can read": wanted.key,
        f"time zone: {wanted.zone}": wanted.zone,
        "Telegram: the token is in secrets.toml; `picoclaw telegram pair` lets you in once picoclaw runs": wanted.token,
        f"Telegram: {', '.join(map(str, wanted.allow))} may talk to the bot, beside those paired": wanted.allow,
        "page: off": wanted.page == "off",
        "page: `picoclaw page code` prints the code to log in with once picoclaw runs": wanted.page in _HOSTS,
    }
    yield from (text for text, so in told.items() if so)


def asked(before: Config) -> Iterator[Wanted]:
    """Ask a person on the terminal, and give each answer to be written before the next question.

    Enter takes what is proposed. Raises ConfigError where the person leaves.
    """
    kept = "network" if before.page.host != _HOSTS["local"] else "local"
    shown = kept if before.page.enabled else "off"
    print("\nA few questions; Enter takes what stands in [brackets].")
    try:
        yield from _model(before.model.shown_url)
        yield Wanted(zone=_asked_zone())
        token = getpass(f"Telegram bot's token [{'as before' if before.telegram_token else 'none'}]: ").strip()
        yield Wanted(token=token)
        page = _one_of("Page in a browser: off, local (this machine) or network", ("off", *_HOSTS), shown)
        yield Wanted(page=page if page != shown else "")
    except (EOFError, KeyboardInterrupt):
        raise ConfigError(
            "the questions were left; what is written so far stays, `picoclaw init --ask` asks again"
        ) from None
    for line in _found():
        print(line)


def _model(before: str) -> Iterator[Wanted]:
    """Ask for address, name and key, or for no model any more; `before` is the address until now."""
    running = {name: models for name, url in _LOCAL.items() if (models := models_at(url)) is not None}
    kinds = (
        *(("keep",) if before else ()),
        "none",
        *(name.lower() for name in _LOCAL),
        "openrouter",
        "openai",
        "other",
    )
    proposed = "keep" if before else next((name.lower() for name in running), "none")
    kind = _one_of(f"Model{f' (now {before})' if before else ''}: {', '.join(kinds)}", kinds, proposed)
    if kind == "keep":
        return
    if kind == "none":
        print(
            "  Then the built-in matcher answers about sensors, reminders and notes; `init --ask` adds a model later."
        )
        yield Wanted(alone=bool(before))
        return
    known = {name.lower(): url for name, url in _LOCAL.items()} | {"openrouter": OPENROUTER, "openai": OPENAI}
    yield Wanted(url=known.get(kind) or _address())
    models = next((found for name, found in running.items() if name.lower() == kind), None) or []
    if models:
        print(f"  It has: {', '.join(models[:_SHOWN_MODELS])}")
    yield Wanted(model=_line("  The model's name", models[0] if models else ""))
    if kind not in {name.lower() for name in _LOCAL}:
        yield Wanted(key=getpass("  API key [none]: ").strip())


def _address() -> str:
    while True:
        url = _line("  Its address, such as http://192.168.1.20:8080/v1", "")
        try:
            load({"PICOCLAW_BASE_URL": url, "PICOCLAW_HOME": str(home_folder(os.environ))})
        except ConfigError as error:
            print(f"  {error}")
        else:
            if url:
                return url


def models_at(url: str) -> list[str] | None:
    """List the models of a server on this machine, None when none answers."""
    try:
        with Client(proxies=False) as http, http.stream("GET", f"{url}/models", timeout=_PROBE) as answer:
            told = json.loads(b"".join(answer.iter_bytes()))
        return [str(entry["id"]) for entry in told["data"]]
    except (HTTPError, ValueError, KeyError, TypeError):
        return None


def _asked_zone() -> str:
    proposed = machine_zone()
    while True:
        text = _line("Time zone, or a city near you", proposed)
        try:
            return str(zone_named(text)) if text else ""
        except ValueError as error:
            print(f"  {error}")


def machine_zone(root: Path = Path("/")) -> str:
    """Name the zone that the machine is set to, empty when it is not known or merely UTC."""
    place = os.path.realpath(root / "etc/localtime")
    _, _, name = place.partition("zoneinfo/")
    return "" if name in {"Etc/UTC", "UTC", "Universal"} else name


def _one_of(question: str, kinds: tuple[str, ...], proposed: str) -> str:
    while (answer := _line(question, proposed).lower()) not in kinds:
        print(f"  write one of {', '.join(kinds)}")
    return answer


def _line(question: str, proposed: str) -> str:
    return input(f"{question} [{proposed or 'none'}]: ").strip() or proposed


def _found() -> Iterator[str]:
    """Say what is wired, by asking for a mere sign of life; nothing is written to any part."""
    config = load({"PICOCLAW_HOME": str(home_folder(os.environ))})
    try:
        board = boards.choose("linux", config)
    except ConfigError as error:
        yield str(error)
        return
    try:
        outside = [sensor.name for sensor in kernel.sensors(board) if not sensor.inside]
        if outside:
            yield f"The kernel reads: {', '.join(outside)}"
        yield from _on_buses(board, config.home)
    finally:
        board.close()


def _on_buses(board: Board, home: Path) -> Iterator[str]:
    for adapter in board.adapters():
        if not adapter.header:
            continue
        try:
            bus = board.i2c(adapter.number)
            answering = [address for address in range(0x08, 0x78) if parts.probe(board, bus, address) == "present"]
        except HardwareError as error:
            yield f"i2c-{adapter.number} cannot be looked at: {error}"
            continue
        for address in answering:
            names = ", ".join(detect.drivers(loader.folders(home), address)) or "unknown"
            there = f"0x{address:02x}"
            yield f'i2c-{adapter.number}: {there} answers ({names}); say in a chat "add the sensor at {there} as NAME"'
