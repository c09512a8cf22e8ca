"""Restoring: a backup is unpacked beside the home, proved whole, and only then takes its place, in one step.

What the home was before is kept beside it. Source: renameat2(2) (RENAME_EXCHANGE).
"""

import ctypes
import glob
import hashlib
import json
import os
import shutil
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self, cast

from picoclaw.care import databases
from picoclaw.care.archive import DEEPEST, INSIDE, LIST, SECRETS
from picoclaw.care.failure import CareError, worded
from picoclaw.care.place import as_owner
from picoclaw.disk import make_folder, open_file, read_file, sync_folder, write_atomic
from picoclaw.errors import StoreError, explain_syntax
from picoclaw.store import chronicle
from picoclaw.store.database import Database
from picoclaw.store.migrations import MIGRATIONS

_AT_FDCWD, _EXCHANGE = -100, 2
_UNFINISHED = ".unfinished"
"""In a folder that is still being unpacked; a restore that was cut off is swept away by it."""

_LARGEST_LIST = 50_000_000
_LARGEST_HEADER = 65_536  # bytes that may stand before a file, such as a name of more than 100 characters
_HEADERS = {
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
}
_CHUNK = 1 << 20


class Kept(NamedTuple):
    """What a backup says of itself: its picoclaw, when it was made (seconds since 1970), and its files."""

    version: str
    at: float
    files: int


def check(path: Path) -> Kept:
    """Read a backup whole and compare every file with its checksum; raises CareError."""
    return _unpack(path, None)


def restore(path: Path, home: Path) -> tuple[Kept, Path | None]:
    """Put a backup in the place of a home; returns what it was and where the home of before is. Raises CareError."""
    home = home.resolve()  # a link to another disk stays one, and what it leads to is replaced
    if busy := databases.users(home):
        raise CareError(
            f"{home} is in use by {', '.join(busy)}: stop it first, with"
            " `sudo picoclaw service stop`, or with Ctrl-C or /quit in the terminal where it runs"
        )
    with as_owner(home), worded(home):
        make_folder(home.parent)
        for left in home.parent.glob(f"{glob.escape(home.name)}.before-*/{_UNFINISHED}"):
            shutil.rmtree(left.parent, ignore_errors=True)
        staged = _stage(home)
        try:
            kept = _unpack(path, staged)
            if (home / SECRETS).is_file() and not (staged / SECRETS).exists():
                write_atomic(staged / SECRETS, read_file(home / SECRETS))
            _prove(staged)
            (staged / _UNFINISHED).unlink()
            for folder in (*(found for found in staged.rglob("*") if found.is_dir()), staged):
                sync_folder(folder)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        return kept, _take_place(staged, home)


def _stage(home: Path) -> Path:
    """Make the folder that changes places with the home: its name is the one that the old home is to have."""
    staged = home.with_name(f"{home.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
    while os.path.lexists(staged):
        staged = staged.with_name(f"{staged.name}a")
    staged.mkdir(0o700)
    (staged / _UNFINISHED).touch()
    return staged


def _unpack(path: Path, folder: Path | None) -> Kept:
    try:
        with open_file(path) as packed, tarfile.open(fileobj=packed, mode="r:gz", tarinfo=_Member) as archive:
            about, sums = _members(archive, path, folder)
        kept = Kept(str(about["picoclaw"]), float(about["at"]), len(sums))
        if about["files"] != sums:
            raise CareError(f"{path} is damaged: its files are not those that its list names; nothing was changed")
    except (tarfile.TarError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CareError(
            f"{path} is no whole backup of picoclaw's ({explain_syntax(error)}); nothing was changed"
        ) from None
    except OSError as error:
        raise CareError(f"{path} cannot be unpacked: {error.strerror or error}; nothing was changed") from None
    return kept


class _Member(tarfile.TarInfo):
    """A member of an archive that says no more of itself than any file needs: what it says is held in memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a block. Raises tarfile.ReadError for one that announces too much."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"{member.size} bytes of headers stand before a file")
        return member


def _members(archive: tarfile.TarFile, path: Path, folder: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Unpack the files; returns the list that the backup ends with, and the checksums of what it holds."""
    sums: dict[str, str] = {}
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # which would hold every one of them to the end
        content = archive.extractfile(member) if member.isfile() and not member.issparse() else None
        if content is None:
            raise CareError(f"{path} holds {member.name!r}, a link or a device; nothing was changed")
        if member.name == LIST and member.size <= _LARGEST_LIST:
            about = dict(json.loads(content.read()))
            _read_out(archive)
            return about, sums
        name = _inside(member.name, path)
        sums[name] = _pour(content, folder / name if folder else None, member.mode & 0o700 | 0o600)
    raise EOFError("its end is missing")


def _read_out(archive: tarfile.TarFile) -> None:
    """Read on to the end of the file: gzip's own checksum stands there, which covers names and modes as well."""
    for _ in _pieces(cast("IO[bytes]", archive.fileobj)):
        pass


def _inside(name: str, path: Path) -> str:
    """Take the name of a member apart; one that leads out of the folder is refused."""
    inside = PurePosixPath(name.removeprefix(INSIDE))
    if len(inside.parts) > DEEPEST:
        raise CareError(f"{path} holds {name[:80]!r}…, which is {len(inside.parts)} folders deep; nothing was changed")
    if not name.startswith(INSIDE) or inside.is_absolute() or ".." in inside.parts or "\0" in name:
        raise CareError(f"{path} holds {name!r}, which leads out of the home; nothing was changed")
    return str(inside)


def _pour(content: IO[bytes], target: Path | None, mode: int) -> str:
    summed = hashlib.sha256()
    if target is None:
        for data in _pieces(content):
            summed.update(data)
        return summed.hexdigest()
    make_folder(target.parent)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        for data in _pieces(content):
            summed.update(data)
            file.write(data)
        file.flush()
        os.fsync(handle)
    return summed.hexdigest()


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    while data := content.read(_CHUNK):
        yield data


def _prove(staged: Path) -> None:
    """Open the databases, which also brings older ones up to this picoclaw."""
    shapes = {"state.db": MIGRATIONS, chronicle.NAME: chronicle.MIGRATIONS}
    try:
        for path in (staged / name for name in databases.NAMES if (staged / name).exists()):
            Database(path, shapes[path.name]).close()
    except StoreError as error:
        raise CareError(f"the backup cannot be used: {error}") from None


def _take_place(staged: Path, home: Path) -> Path | None:
    if not os.path.lexists(home):
        staged.rename(home)
        sync_folder(home.parent)
        return None
    if not _exchange(staged, home):
        aside = staged.with_name(f"{staged.name}b")
        home.rename(aside)
        staged.rename(home)
        staged = aside
    sync_folder(home.parent)
    return staged


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the file system cannot."""
    with suppress(AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
        return int(done) == 0
    return False
