"""`picoclaw doctor`: looks at the set-up and the board, says what is wrong and the command that mends it."""

import argparse
import json
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from picoclaw import __version__
from picoclaw.cli.common import board_option, printable
from picoclaw.config import Config, home_folder, load
from picoclaw.disk import explain
from picoclaw.errors import ConfigError, HardwareError, ProviderError, StoreError
from picoclaw.hw import health, kernel, loader, parts
from picoclaw.hw.board import Board, Wired
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Message, Request

_SUPPLY = "use a stronger power supply and a short cable"
_MENDS = {"clock": "sudo timedatectl set-ntp true", "power and throttling": _SUPPLY}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `mend` is what to do about it."""

    mark: health.Mark
    what: str
    how: str
    mend: str = ""


_ELSEWHERE = "give this user the folders above it, or set PICOCLAW_HOME to a folder of its own"


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    findings = list(examine("sim" if given.board == "sim" else "linux"))
    if given.json:
        print(json.dumps([asdict(f) for f in findings], ensure_ascii=False))
    else:
        for f in findings:
            print(printable(f"{f.mark:5} {f.what}: {f.how}") + (f"\n      → {printable(f.mend)}" if f.mend else ""))
    return 1 if any(f.mark == "bad" for f in findings) else 0


def examine(kind: str) -> Iterator[Finding]:
    """Look at everything in turn; nothing is made or changed."""
    yield Finding("good", "picoclaw", f"{__version__} on Python {platform.python_version()}, {sys.executable}")
    try:
        yield from _home(home_folder(os.environ))
        config = load()
    except ConfigError as error:
        yield Finding("bad", "settings", str(error), "mend the file named here, or move it aside")
        return
    yield Finding("good", "settings", "config.toml, secrets and environment fit")
    yield from _store(config.home)
    yield from _model(config)
    board: Board = SimBoard() if kind == "sim" else LinuxBoard()
    try:
        yield from examine_board(board, config)
    finally:
        board.close()


def _home(home: Path) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except FileNotFoundError:
        yield Finding("note", "home", f"{home} does not exist yet", "picoclaw init")
        return
    except OSError as error:
        yield Finding("bad", "home", f"{home} cannot be looked at: {explain(error)}", _ELSEWHERE)
        return
    if mode & 0o077:
        yield Finding("bad", "home", f"{home} is open to others (mode {mode:04o})", f"chmod 700 {home}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("bad", "home", f"{home} cannot be read and written by this user", f"sudo chown -R $USER {home}")
    else:
        yield Finding("good", "home", str(home))


def _store(home: Path) -> Iterator[Finding]:
    path = home / "state.db"
    if not os.path.lexists(path):
        yield Finding("note", "state.db", "not made yet; the first chat makes it")
        return
    from picoclaw.store.database import Database

    try:
        database = Database(path)
        with database.reading() as connection:
            found = connection.execute("PRAGMA quick_check(1)").get
        database.close()
    except StoreError as error:
        yield Finding("bad", "state.db", str(error))
        return
    yield Finding("good" if found == "ok" else "bad", "state.db", str(found))


def _model(config: Config) -> Iterator[Finding]:
    """Ask the server for one token: nothing less shows that address, key and model's name are right."""
    model = config.model
    if not model.base_url:
        yield Finding("note", "model", "none is configured; the built-in matcher answers", _hint())
        return
    from picoclaw.providers.openai import OpenAI

    began = time.monotonic()
    request = Request("", (Message("user", "Say ok."),), (), 16, began + 30)
    try:
        provider = OpenAI(replace(model, idle_seconds=30), config.api_key)
        for _ in provider.events(request):
            pass
        provider.close()
    except ProviderError as error:
        yield Finding("bad", "model", str(error), "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY")
        return
    yield Finding(
        "good", "model", f"{model.name or 'default'} at {model.shown_url} answers in {time.monotonic() - began:.1f} s"
    )


def _hint() -> str:
    named = [name for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY") if os.environ.get(name)]
    if named:
        return f"{named[0]} is set: set PICOCLAW_MODEL as well to use it"
    return "set base_url and name under [model] in config.toml, or PICOCLAW_BASE_URL and PICOCLAW_MODEL"


def examine_board(board: Board, config: Config) -> Iterator[Finding]:
    """Look at the board: how it is, its sensors, read once each, and its buses."""
    for mark, what, how in health.status(board, datetime.now().astimezone(), _existing(config.home)):
        yield Finding(mark, what, how, _MENDS.get(what, "") if mark == "bad" else "")
    yield from _sensors(board, config)
    yield from _buses(board)


def _sensors(board: Board, config: Config) -> Iterator[Finding]:
    readings = [kernel.read(board, sensor) for sensor in kernel.sensors(board)]
    where = loader.folders(config.home)
    wired: dict[str, Wired] = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            wired[name] = parts.wire(sensor, where)
        except ConfigError as error:
            wired.pop(name, None)
            yield Finding("bad", name, f"[sensors.{name}]: {error}", "mend that table in config.toml, or the driver")
    for name, part in wired.items():
        readings += parts.measure(board, name, part, lambda part: loader.chip(part, where).read)
    for reading in readings:
        if reading.value is None:
            yield Finding("bad", reading.sensor, f"{reading.quantity} not available: {reading.problem}")
    if working := dict.fromkeys(reading.sensor for reading in readings if reading.value is not None):
        yield Finding("good", "sensors", f"{', '.join(working)} can be read")
    if not readings and not config.sensors:
        mend = "name a part in config.toml under [sensors.NAME], or try `picoclaw chat --board sim`"
        yield Finding("note", "sensors", "the kernel knows none and none is configured", mend)


def _buses(board: Board) -> Iterator[Finding]:
    adapters = board.adapters()
    if not adapters:
        mend = "sudo raspi-config nonint do_i2c 0   (or dtparam=i2c_arm=on in /boot/firmware/config.txt and a reboot)"
        yield Finding("note", "I2C", "no /dev/i2c-N: the bus is off or there is none", mend)
    for adapter in adapters:
        try:
            board.i2c(adapter.number)
        except HardwareError as error:
            yield Finding("bad", f"i2c-{adapter.number}", str(error))
            continue
        where = " on the pin header" if adapter.header else ""
        yield Finding("good", f"i2c-{adapter.number}", f"{adapter.name}{where}")


def _existing(path: Path) -> str:
    return next(str(p) for p in (path, *path.parents) if os.path.lexists(p))
