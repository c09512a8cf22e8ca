"""Mends what a failing card, or a cut at the worst moment, has left of a home; its owner is told once.

A damaged database gets a second name, NAME.damaged-DATE, and its log with it. What can be read of it is brought into
the last copy, or into a new one, under a third name; with it the letter that tells so. Then the log goes, and the new
file takes the place of the damaged one in one step. A cut anywhere leaves a mark beside the file, by which the next
start begins again from the same damaged file: nothing is mended twice, and nothing is told twice.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from picoclaw.care import databases, last
from picoclaw.care.failure import CareError
from picoclaw.disk import DAMAGED, drop_oldest, explain, remove, sync_folder
from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.store import chronicle
from picoclaw.store.beats import Beats
from picoclaw.store.database import COPIES, SUSPECT, Database, Migration, condition, explained, suspect
from picoclaw.store.migrations import MIGRATIONS
from picoclaw.store.outbox import Outbox
from picoclaw.store.salvage import Saved, salvage
from picoclaw.workspace.pages import owner_time

SHAPES: Mapping[str, Sequence[Migration]] = {"state.db": MIGRATIONS, chronicle.NAME: chronicle.MIGRATIONS}
_NAMES = {
    **dict.fromkeys(("sessions", "turns", "messages", "summaries", "results"), "conversations"),
    "jobs": "reminders",
    "pulse": "tasks",
    "outbox": "letters",
    "tasks": "helpers' work",
    **dict.fromkeys(("approvals", "always"), "approvals"),
    **dict.fromkeys(("raw", "spans", "series"), "measurements"),
}


def whole(home: Path, *, tell: bool = True) -> list[str]:
    """Mend what is damaged before anything else of a home is used; returns what was done, which its owner is told.

    Without `tell`, no letter says so. Raises StoreError where that cannot be done, having changed nothing.
    """
    if not home.is_dir():
        return []
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        with _alone(home):
            said = [line for name in SHAPES for line in _database(home / name, stamp, tell=tell)]
            files = last.put_back(home, stamp)
            if tell and (news := [*files, *(line for line in said if not line.startswith("state.db"))]):
                _tell(home, news)
    except OSError as error:
        raise StoreError(f"{error.filename or home} cannot be mended: {explain(error)}") from None
    except CareError as error:
        raise StoreError(str(error)) from None
    return [*said, *files]


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _database(path: Path, stamp: str, *, tell: bool) -> Iterator[str]:
    """Look at one database as whoever opens it does, and mend it if it is damaged."""
    if not os.path.lexists(path):
        return
    if why := "its mending was cut off" if begun(path) else damage(path):
        if pid := databases.opener(path.with_name(f"{path.name}-shm")):
            raise StoreError(f"{path} is damaged ({why}), and process {pid} has it open: end that first")
        yield _mended(path, stamp, why, tell=tell)


def damage(path: Path) -> str:
    """Open and close a database, and say what of it is damaged, '' for nothing. Raises StoreError."""
    try:
        Database(path, SHAPES[path.name]).close()
    except StoreDamaged as error:
        said = str(error).partition(";")[0]
        return said.partition("(")[2].rstrip(")") or said.removeprefix(f"{path} is ")
    return ""


def _mended(path: Path, stamp: str, why: str, *, tell: bool) -> str:
    suspect(path)
    aside = _aside(path, stamp)
    young = path.with_name(f".{path.name}.{os.getpid()}.0")
    try:
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink(missing_ok=True)
        said = _rebuilt(path, aside, young, why, tell=tell)
        databases.take_place(young, path)
    finally:
        for left in path.parent.glob(f"{young.name}*"):
            left.unlink(missing_ok=True)
    remove(path.with_name(path.name + SUSPECT))
    drop_oldest(path)
    return said


def begun(path: Path) -> Path | None:
    """Return the second name of a file whose mending was cut off."""
    names = path.parent.glob(f"{path.name}{DAMAGED}*")
    return next((known for known in names if known.samefile(path)), None)


def _aside(path: Path, stamp: str) -> Path:
    """Give the damaged file and its log a second name; a mending that was cut off has done so already."""
    if known := begun(path):
        return known
    for log in path.parent.glob(f"{path.name}{DAMAGED}*-wal"):  # a cut came before its file had the second name
        if not log.with_name(log.name.removesuffix("-wal")).exists():
            log.unlink()
    aside = path.with_name(f"{path.name}{DAMAGED}{stamp}")
    with suppress(FileNotFoundError):
        aside.with_name(f"{aside.name}-wal").hardlink_to(path.with_name(f"{path.name}-wal"))
    aside.hardlink_to(path)
    sync_folder(path.parent)
    return aside


def _rebuilt(path: Path, aside: Path, young: Path, why: str, *, tell: bool) -> str:
    """Make a whole database of the copy and of what can be read; returns what its owner is told."""
    copied = _copy(path, young)
    with explained(young), closing(Database(young, SHAPES[path.name])) as database:
        damaged = apsw.Connection(str(aside), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            damaged.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            saved = salvage(damaged, database.connection)
        finally:
            damaged.close()
            _tidy(aside)
        said = _worded(why, aside.name, saved, copied)
        if tell and path.name == "state.db":
            Outbox(database).put(Beats(database).last_chat(), said, time.time())
    if (found := condition(young, SHAPES[path.name])) != "ok":
        raise StoreError(f"{path} cannot be mended: {found}; {aside.name} is what was there")
    return said


def _tidy(aside: Path) -> None:
    """Take away what looking at the damaged file has made beside it; a log that holds something stays."""
    log, index = (aside.with_name(aside.name + end) for end in databases.BESIDE)
    index.unlink(missing_ok=True)
    if log.exists() and not log.stat().st_size:
        log.unlink()


def _copy(path: Path, young: Path) -> str:
    """Begin with the last good copy; returns of when it is, '' where there is none."""
    copy = path.parent / COPIES / path.name
    try:
        if not copy.exists() or condition(copy, SHAPES[path.name]) != "ok":
            return ""
        databases.copy(copy, young)
    except (StoreError, CareError):
        young.unlink(missing_ok=True)
        return ""
    return f"{owner_time(path.parent, copy.stat().st_mtime):%d %b %Y %H:%M}"


def _worded(why: str, aside: str, saved: Sequence[Saved], copied: str) -> str:
    """Say what was lost, in words of the owner's."""
    said = f"{aside.partition(DAMAGED)[0]} was damaged ({why}), and is kept as {aside}. "
    torn = [one for one in saved if not one.whole]
    if not torn:
        return f"{said}All that it held could be read, and nothing is lost."
    rows, older = sum(one.rows for one in saved), sum(one.older for one in torn)
    named = ", ".join(sorted({_NAMES[one.table] for one in torn if one.table in _NAMES}))
    read = f"{rows} entries could be read" if rows else "Nothing of it could be read"
    rest = f"{older} are as they were on {copied}" if copied else "there was no copy to take the rest from"
    return f"{said}{read}; {rest}. What is newer may be lost{f' of {named}' if named else ''}: look through it."


def _tell(home: Path, news: Sequence[str]) -> None:
    """Leave a letter for whoever the owner talks to, unless it waits there already."""
    with closing(Database(home / "state.db")) as database:
        outbox, chat = Outbox(database), Beats(database).last_chat()
        known = {letter.text for letter in outbox.waiting()}
        for text in news:
            if text not in known:
                outbox.put(chat, text, time.time())
