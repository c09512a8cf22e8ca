"""What is kept in the home: the databases, rules, pages, skills, notes, and who finds notes by their meaning."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw

from picoclaw.config import Config
from picoclaw.doctor import home
from picoclaw.errors import StoreError
from picoclaw.hw.health import Row
from picoclaw.memory.index.files import Files
from picoclaw.rules import book
from picoclaw.skills.library import Library, tiers_of
from picoclaw.store import chronicle
from picoclaw.store.database import condition
from picoclaw.store.migrations import MIGRATIONS
from picoclaw.workspace import examine as examine_workspace
from picoclaw.workspace.pages import owner_time

_TRIAL = """
from picoclaw.config import load
from picoclaw.errors import PicoclawError
from picoclaw.memory.embedding.embedders import trial
try:
    print(trial(load()))
except PicoclawError as error:
    raise SystemExit(str(error))
"""


def examine(config: Config) -> Iterator[Row]:
    """Look at the files of one home."""
    yield from _store(config.home / "state.db", "the first chat makes it")
    yield from _store(config.home / chronicle.NAME, "`picoclaw run`, or an open chat, makes it")
    yield from _rules(config.home)
    yield from _workspace(config)
    keys = config.api_key, config.embedding_key, config.telegram_token, *config.model_keys.values()
    yield from home.leaks(keys, config.workspace)
    yield from _memory(config)


def _store(path: Path, made: str) -> Iterator[Row]:
    if not os.path.lexists(path):
        yield Row("note", path.name, f"not made yet; {made}")
        return
    try:
        found = condition(path, chronicle.MIGRATIONS if path.name == chronicle.NAME else MIGRATIONS)
    except StoreError as error:
        yield Row("bad", path.name, str(error), "picoclaw check --mend, or picoclaw restore FILE")
        return
    yield Row("good" if found == "ok" else "bad", path.name, found)


def _rules(folder: Path) -> Iterator[Row]:
    found = book.load(folder, owner_time(folder))
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


def _embeddings() -> Row:
    """Try them in a process of their own: a numpy that was built for another processor ends the one that loads it."""
    mend = 'or write embeddings = "off" under [memory] in config.toml; until then words alone find notes'
    try:
        tried = subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return Row("bad", "embeddings", "they took longer than 90 s", mend)
    if tried.returncode < 0:
        return Row("bad", "embeddings", f"loading numpy ended Python: {signal.strsignal(-tried.returncode)}", mend)
    said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().rpartition("\n")[2]
    return Row("good", "embeddings", said) if tried.returncode == 0 else Row("bad", "embeddings", said, mend)
