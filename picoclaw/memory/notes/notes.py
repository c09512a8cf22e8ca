"""The Markdown that is remembered: notes of the day in `memory/YYYYMM/YYYYMMDD.md`, what is lasting in `MEMORY.md`."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from picoclaw import rooted
from picoclaw.disk import add as add_to
from picoclaw.disk import create, explain, write_atomic
from picoclaw.errors import StoreError
from picoclaw.markdown import visible
from picoclaw.memory.index.files import FOLDER, ROOT_FILES, Files
from picoclaw.memory.notes.entries import FOREIGN, LONGEST, Entry, entries, key, lines_of, plain, written
from picoclaw.prompt import Page
from picoclaw.rooted import Place
from picoclaw.workspace import reading
from picoclaw.workspace.pages import without_empty

LASTING = f"{FOLDER}/MEMORY.md"
LARGEST = reading.WHOLE
"""Bytes of a file that is added to or changed."""

_MOST_SHOWN = 64_000  # characters of a day's note


class Noted(NamedTuple):
    """Where an entry stands, and what it says; `known` when it stood there before."""

    path: str
    line: int
    text: str
    known: bool


def add(workspace: Path, text: str, now: datetime, source: str = "", *, lasting: bool = False) -> Noted:
    """Note a text on the local day of `now`, or for good, unless it is known; durable when this returns.

    `source` says where it is from if it is not from the owner in their usual chat. What was noted within the hour,
    or is remembered for good, is known; for good, only the latter counts. Raises StoreError, and nothing is noted.
    """
    body, today = fit(text), now.date()
    with held(workspace):
        files = [lasting_file(workspace)] if lasting else [day_file(today), *_LASTING]
        if known := _known(workspace, body, files, now, foreign=FOREIGN in source):
            return known
        stamp = f"{today}: " if lasting else f"{now:%H:%M} "
        line = written("- ", stamp, source, body)
        return Noted(files[0], _put(workspace, files[0], line, "" if lasting else f"# {today}\n\n"), line, known=False)


def fit(text: str) -> str:
    """Make one line of what is to be noted; raises StoreError when nothing or too much is left."""
    body = plain(text)
    if not body:
        raise StoreError("text is empty; say what is to be noted")
    if len(body) > LONGEST:
        raise StoreError(
            f"text has {len(body)} characters, and a note at most {LONGEST}: note what matters, "
            f"or write all of it to a file such as {FOLDER}/NAME.md"
        )
    return body


def recent(workspace: Path, today: date, days: int = 3) -> list[Page]:
    """Return the notes of the last days that say something, the newest first; of a very long one only its end."""
    files = Files.of(workspace)
    found = ((day_file(day), files.read(day_file(day))) for day in _days(today, days))
    texts = ((path, without_empty(_end(content.text))) for path, content in found if content)
    return [Page(path, text) for path, text in texts if text]


def day_file(day: date) -> str:
    """Name the file of a day's note."""
    return f"{FOLDER}/{day:%Y%m}/{day:%Y%m%d}.md"


def lasting_file(workspace: Path) -> str:
    """Name the file of what is lasting: memory/MEMORY.md, or the one beside the other pages if only that is there."""
    there = [name for name in _LASTING if os.path.lexists(workspace / name)]
    return there[0] if there else LASTING


_LASTING = (LASTING, *ROOT_FILES)


@contextmanager
def held(workspace: Path) -> Iterator[None]:
    """Hold the memory's files against other picoclaws that change them. Raises StoreError."""
    found = place(workspace, FOLDER)
    try:
        with rooted.folder(found, make=True) as way:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=way)
    except OSError as error:
        raise StoreError(f"the folder {FOLDER} cannot be used: {explain(error)}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def place(workspace: Path, path: str) -> Place:
    """Return where a file of the memory really lies. Raises StoreError when a link leads out of the memory."""
    root = os.path.realpath(workspace)
    found = rooted.settled(root, f"{root}/{path}")
    if found is None or (found.parts[:1] != (FOLDER,) and "/".join(found.parts) not in ROOT_FILES):
        raise StoreError(f"{path} leads out of the memory: a symbolic link is in its way; put a copy in its place")
    return found


def content(workspace: Path, path: str) -> str | None:
    """Read a file as it can be written back: bytes that are no UTF-8 are kept. None when there is none.

    What a crash has left of a write that never came, NUL bytes at the end, is not part of it. Raises StoreError.
    """
    try:
        with os.fdopen(rooted.open_file(place(workspace, path)), "rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {explain(error)}") from None
    if len(data) > LARGEST:
        raise StoreError(f"{path} is larger than {LARGEST // 1000} kB; shorten it")
    text = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise StoreError(f"{path} holds NUL bytes and is no text; move it aside")
    return text


def keep(workspace: Path, path: str, text: str) -> None:
    """Write a file whole and durably, as `content` read it. Raises StoreError; the file is as it was then."""
    found = place(workspace, path)
    try:
        with suppress(FileNotFoundError):
            os.close(rooted.open_file(found, adds=True))  # an owner may have locked it
        with rooted.folder(found.above) as way:
            write_atomic(Path(found.parts[-1]), text.encode("utf-8", "surrogateescape"), folder=way)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {explain(error)}") from None


def _put(workspace: Path, path: str, line: str, head: str) -> int:
    """Add an entry to the end of a file on a line of its own; returns the number of the line."""
    before = content(workspace, path)
    text = f"{_ended(before)}{line}\n" if before else f"{head}{line}\n"
    if line not in visible(text, trusting=True):
        raise StoreError(f"{path} has a comment that is never closed, so what is added would not be seen; close it")
    found = place(workspace, path)
    try:
        if before is None and _created(found, text):
            return len(lines_of(text))
        torn = not _added(found, before, text)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {explain(error)}") from None
    if torn:  # its end goes
        keep(workspace, path, text)
    return len(lines_of(text))


def _created(found: Place, text: str) -> bool:
    with rooted.folder(found.above, make=True) as way:
        return create(Path(found.parts[-1]), text.encode("utf-8", "surrogateescape"), folder=way)


def _added(found: Place, before: str | None, text: str) -> bool:
    """Add what a text has more than before; not where the file does not end with it."""
    file = rooted.open_file(found, adds=True)
    try:
        if before is not None and os.fstat(file).st_size != len(before.encode("utf-8", "surrogateescape")):
            return False
        add_to(file, text.removeprefix(before or "").encode("utf-8", "surrogateescape"))
    finally:
        os.close(file)
    return True


def _ended(text: str) -> str:
    """End a text so that an item of a list can follow it."""
    if not text.endswith(("\n", "\r")):
        text += "\n"
    last = next(reversed(entries(text)), None)
    ends_in_item = last is not None and bool(last.bullet) and last.last == len(lines_of(text))
    return text if ends_in_item or not lines_of(text)[-1].strip() else f"{text}\n"


def _known(workspace: Path, body: str, paths: Iterable[str], now: datetime, *, foreign: bool) -> Noted | None:
    """Find an entry that says the same; the owner's word is not known from somebody else's."""
    wanted, files = key(body), Files.of(workspace)
    for path in paths:
        found = files.read(path)
        for entry in entries(found.text) if found and wanted else ():
            if key(entry.body) == wanted and (foreign or FOREIGN not in entry.source) and not _past(entry, now):
                return Noted(path, entry.first, shown(entry), known=True)
    return None


def _past(entry: Entry, now: datetime) -> bool:
    """Whether a time stands before an entry that is more than an hour ago: the same may have happened again."""
    return entry.stamp[2:3] == ":" and entry.stamp[:5] < f"{now - timedelta(hours=1):%H:%M}" < f"{now:%H:%M}"


def shown(entry: Entry) -> str:
    """Say an entry in one line, as it is written."""
    return written("", entry.stamp, entry.source, " ".join(entry.body.split()))


def _days(today: date, count: int) -> Iterator[date]:
    for back in range(min(count, today.toordinal())):
        yield date.fromordinal(today.toordinal() - back)


def _end(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[-_MOST_SHOWN:].partition("\n")[2]
