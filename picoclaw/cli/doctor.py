"""`picoclaw doctor`: looks at the set-up and the board, says what is wrong and the command that mends it."""

import argparse
import json
import os
import platform
import signal
import stat
import sys
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from picoclaw import __version__
from picoclaw.cli.common import board_option, printable
from picoclaw.config import Config, home_folder, load
from picoclaw.disk import explain
from picoclaw.errors import ConfigError, ProviderError, StoreError
from picoclaw.hw import boards, checkup, health, loader, parts, survey
from picoclaw.hw.board import Board
from picoclaw.hw.health import Row
from picoclaw.hw.reading import Reading, Wired
from picoclaw.messages import Message, Request
from picoclaw.skills.library import Library, tiers_of
from picoclaw.workspace import Prompts, outputs_file
from picoclaw.workspace import examine as examine_workspace

_SUPPLY = "use a stronger power supply and a short cable"
_MENDS = {"clock": "sudo timedatectl set-ntp true", "power and throttling": _SUPPLY}

_TRIAL = """
from picoclaw.config import load
from picoclaw.errors import PicoclawError
from picoclaw.memory.embedding.embedders import trial
try:
    print(trial(load()))
except PicoclawError as error:
    raise SystemExit(str(error))
"""
_ELSEWHERE = "give this user the folders above it, or set PICOCLAW_HOME to a folder of its own"


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is bad."""
    findings = list(examine("sim" if given.board == "sim" else "linux"))
    if given.json:
        print(json.dumps([f._asdict() for f in findings], ensure_ascii=False))
    else:
        for f in findings:
            print(printable(f"{f.mark:5} {f.what}: {f.how}") + (f"\n      → {printable(f.mend)}" if f.mend else ""))
    return 1 if any(f.mark == "bad" for f in findings) else 0


def examine(kind: str) -> Iterator[Row]:
    """Look at everything in turn; nothing is made or changed."""
    yield Row("good", "picoclaw", f"{__version__} on Python {platform.python_version()}, {sys.executable}")
    try:
        yield from _home(home_folder(os.environ))
        config = load()
    except ConfigError as error:
        yield Row("bad", "settings", str(error), "mend the file named here, or move it aside")
        return
    yield Row("good", "settings", "config.toml, secrets and environment fit")
    yield from _store(config.home / "state.db", "the first chat makes it")
    yield from _store(config.home / "history.db", "the first interactive chat that measures makes it")
    yield from _rules(config.home)
    yield from _workspace(config)
    yield from _memory(config)
    yield from _model(config)
    try:
        board = boards.choose(kind, config)
    except ConfigError as error:
        yield Row("bad", "sim.toml", str(error), "mend it, or move it aside")
        return
    try:
        yield from examine_board(board, config)
    finally:
        board.close()


def _home(home: Path) -> Iterator[Row]:
    try:
        mode = stat.S_IMODE(home.stat().st_mode)
    except FileNotFoundError:
        yield Row("note", "home", f"{home} does not exist yet", "picoclaw init")
        return
    except OSError as error:
        yield Row("bad", "home", f"{home} cannot be looked at: {explain(error)}", _ELSEWHERE)
        return
    if mode & 0o077:
        yield Row("bad", "home", f"{home} is open to others (mode {mode:04o})", f"chmod 700 {home}")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Row("bad", "home", f"{home} cannot be read and written by this user", f"sudo chown -R $USER {home}")
    else:
        yield Row("good", "home", str(home))


def _store(path: Path, made: str) -> Iterator[Row]:
    if not os.path.lexists(path):
        yield Row("note", path.name, f"not made yet; {made}")
        return
    from picoclaw.store import chronicle
    from picoclaw.store.database import Database

    try:
        database = Database(path, chronicle.MIGRATIONS) if path.name == chronicle.NAME else Database(path)
        with database.reading() as connection:
            found = connection.execute("PRAGMA quick_check(1)").get
        database.close()
    except StoreError as error:
        yield Row("bad", path.name, str(error))
        return
    yield Row("good" if found == "ok" else "bad", path.name, str(found))


def _rules(home: Path) -> Iterator[Row]:
    from picoclaw.rules import book

    found = book.load(home, datetime.now().astimezone())
    for problem in found.problems.values():
        yield Row("bad", book.FILE, f"not followed: {problem}", "picoclaw rules check")
    if found.rules:
        yield Row("good", book.FILE, f"{', '.join(found.rules)} can be read")


def _workspace(config: Config) -> Iterator[Row]:
    """The files that a model is told, and the skills."""
    found = [Row("note", "workspace", *row) for row in examine_workspace(config.home)]
    yield from found or [Row("good", "workspace", f"the files in {config.workspace} are as they should be")]
    library = Library(tiers_of(config.home))
    library.look()
    for broken in library.broken:
        yield Row("note", "skills", f"{broken.folder}: {broken.problem}", "picoclaw skills check")
    yield Row("good", "skills", f"{len(library.skills)} can be read")


def _memory(config: Config) -> Iterator[Row]:
    """The notes, how much of them is in the index, and who finds them by their meaning."""
    from picoclaw.memory.index.files import Files

    files = Files.of(config.workspace)
    sizes = [source.size for _, found in files.folders() for source in found]
    for problem in files.problems:
        yield Row("note", "notes", problem)
    path = config.home / "memory.db"
    indexed = _indexed(path) if path.exists() else "memory.db is not made yet; the first search makes it"
    yield Row("good", "notes", f"{len(sizes)} files with {sum(sizes)} bytes; {indexed}")
    if config.memory.embeddings == "off":
        yield Row("good", "embeddings", 'off: notes are found by their words (embeddings = "local" finds meanings too)')
    else:
        yield _embeddings()


def _indexed(path: Path) -> str:
    """Look into the index as it is; opened the usual way, it would be brought up to the notes."""
    import apsw

    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            count = connection.execute("SELECT count(*) FROM chunks").get
            return f"{count} parts of them are in the index"
        finally:
            connection.close()
    except apsw.Error as error:
        return f"memory.db cannot be read just now ({error}); the next search mends it, or `picoclaw memory check`"


def _embeddings() -> Row:
    """Try them in a process of their own: a numpy that was built for another processor ends the one that loads it."""
    import subprocess

    mend = 'or write embeddings = "off" under [memory] in config.toml; until then words alone find notes'
    try:
        tried = subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return Row("bad", "embeddings", "they took longer than 90 s", mend)
    if tried.returncode < 0:
        return Row("bad", "embeddings", f"loading numpy ended Python: {signal.strsignal(-tried.returncode)}", mend)
    said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().rpartition("\n")[2]
    return Row("good", "embeddings", said) if tried.returncode == 0 else Row("bad", "embeddings", said, mend)


def _model(config: Config) -> Iterator[Row]:
    """Ask the server for one token: nothing less shows that address, key and model's name are right."""
    model = config.model
    if not model.base_url:
        yield Row("note", "model", "none is configured; the built-in matcher answers", _hint())
        return
    from picoclaw.providers.openai import OpenAI

    began = time.monotonic()
    asked = Message("user", Prompts(config.workspace)["doctor"])
    request = Request("", (asked,), (), 16, began + 30)
    try:
        provider = OpenAI(replace(model, idle_seconds=30), config.api_key)
        for _ in provider.events(request):
            pass
        provider.close()
    except ProviderError as error:
        yield Row("bad", "model", str(error), "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY")
        return
    yield Row(
        "good", "model", f"{model.name or 'default'} at {model.shown_url} answers in {time.monotonic() - began:.1f} s"
    )


def _hint() -> str:
    named = [name for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY") if os.environ.get(name)]
    if named:
        return f"{named[0]} is set: set PICOCLAW_MODEL as well to use it"
    return "set base_url and name under [model] in config.toml, or PICOCLAW_BASE_URL and PICOCLAW_MODEL"


def examine_board(board: Board, config: Config) -> Iterator[Row]:
    """Look at the board: how it is, its sensors, read once each, and its buses."""
    for row in health.status(board, datetime.now().astimezone(), _existing(config.home)):
        yield row._replace(mend=_MENDS.get(row.what, "") if row.mark == "bad" else "")
    yield from _sensors(board, config)
    yield from checkup.buses(board)
    yield from _outputs(config.home)


def _outputs(home: Path) -> Iterator[Row]:
    path = outputs_file(home)
    if not path.exists():
        return
    from picoclaw.reflex import declared

    found = declared.load(path)
    for problem in found.problems:
        yield Row("bad", "outputs", problem, f"mend {path}; until then nothing can be switched on")
    digests = declared.armed(home)
    dry = [name for name, output in found.outputs.items() if digests.get(name) != output.digest]
    if dry:
        yield Row("note", "outputs", f"dry run: {', '.join(dry)}", f"picoclaw outputs arm {dry[0]}")
    if armed := [name for name in found.outputs if name not in dry]:
        yield Row("good", "outputs", f"{', '.join(armed)} can be switched")


def _sensors(board: Board, config: Config) -> Iterator[Row]:
    where = loader.folders(config.home)
    wired: dict[str, Wired] = dict(board.wired())
    for name, sensor in config.sensors.items():
        try:
            wired[name] = parts.wire(sensor, where)
        except ConfigError as error:
            wired.pop(name, None)
            yield Row("bad", name, f"[sensors.{name}]: {error}", "mend that table, or the driver")
    drivers = parts.Drivers(board, lambda part: loader.chip(part, where))
    working: dict[str, None] = {}
    listed = survey.sensors(board, wired)
    for found in listed:
        readings = survey.read(board, drivers, found)
        if any(reading.value is not None for reading in readings):
            working[found.name] = None
        else:
            yield _silent(board, found, readings[0], where, {(part.bus, part.address) for part in wired.values()})
    if working:
        yield Row("good", "sensors", f"{', '.join(working)} can be read")
    if not listed and not config.sensors:
        mend = "name a part in config.toml under [sensors.NAME], or try `picoclaw chat --board sim`"
        yield Row("note", "sensors", "the kernel knows none and none is configured", mend)


def _silent(
    board: Board, sensor: survey.Found, reading: Reading, where: Sequence[Path], named: Container[tuple[int, int]]
) -> Row:
    """Say why a sensor gives nothing, and for a part on an I2C bus, who else answers there."""
    mend = ""
    if sensor.part and not sensor.kernel and sensor.part.route == "i2c" and "does not answer" in reading.problem:
        free = [a for a in loader.chip(sensor.part.part, where).ADDRESSES if (sensor.part.bus, a) not in named]
        mend = checkup.silence(board, sensor.part, free)
    return Row("bad", reading.sensor, f"{reading.what} not available: {reading.problem}", mend)


def _existing(path: Path) -> str:
    return next(str(p) for p in (path, *path.parents) if os.path.lexists(p))
