"""Backups: the home as it is at one moment, in one compressed archive whose last member says what belongs into it.

What can be made again is left out (the index of the notes), and what is only true now (locks, sockets). An archive
without its last member, `backup.json`, is not whole.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from picoclaw import __version__
from picoclaw.care import databases
from picoclaw.care.failure import CareError, worded
from picoclaw.care.place import as_owner
from picoclaw.disk import explain, sync_folder

LIST, INSIDE = "backup.json", "home/"
SECRETS = "secrets.toml"
_LEFT_OUT = re.compile(
    r"last(/.*)?|[^/]*\.(suspect|damaged-.*)"
    r"|memory\.db.*|skills\.cache|[^/]*\.(db-wal|db-shm|lock|sock)|outputs\.live|bell-\d+[^/]*|before-update(/.*)?"
    r"|\.[^/]*\.\d+\.\d+|\.backup-[^/]*(/.*)?"
)
DEEPEST = 100
"""Folders within each other; what lies deeper is neither taken nor unpacked."""

_LEVEL = 3  # a Zero 2 W writes 5 to 10 MB a second with it, and a higher one saves a tenth


class Made(NamedTuple):
    """What a backup holds: files, their bytes before they were compressed, and what was not taken and why."""

    files: int
    size: int
    left: list[str]


def write(home: Path, target: Path, *, secrets: bool = True) -> Made:
    """Write an archive whole and durably, under a name that must be free; raises CareError."""
    if os.path.lexists(target):
        raise CareError(f"{target} is there already; name another file")
    young = target.with_name(f".{target.name[:40]}.{os.getpid()}.0")
    with worded(target):
        handle = os.open(young, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                made = pour(home, file, secrets=secrets)
                file.flush()
                os.fsync(handle)
            young.replace(target)
            sync_folder(target.parent)
        finally:
            young.unlink(missing_ok=True)
    return made


def pour(home: Path, stream: IO[bytes], *, secrets: bool = True) -> Made:
    """Send an archive into a stream, such as standard output; raises CareError, OSError when the stream breaks."""
    if not home.is_dir():
        raise CareError(f"{home} does not exist: there is nothing to back up")
    made = Made(0, 0, [])
    sums: dict[str, str] = {}
    with (
        _copies(home) as copies,
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for path, name in _chosen(home, copies, made.left, secrets=secrets):
            try:
                member = _add(archive, path, name)
            except FileNotFoundError:  # it was deleted meanwhile
                continue
            sums[name] = member[0]
            made = made._replace(files=made.files + 1, size=made.size + member[1])
        about = {"picoclaw": __version__, "at": int(time.time()), "home": str(home), "files": sums}
        data = json.dumps(about, ensure_ascii=False, indent=1).encode()
        info = tarfile.TarInfo(LIST)
        info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
        archive.addfile(info, io.BytesIO(data))
    return made


@contextmanager
def _copies(home: Path) -> Iterator[dict[str, Path]]:
    """Copy the databases to where they hold still, by name."""
    with as_owner(home), worded(home):
        folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=home))
    try:
        with as_owner(home):
            found = {name: folder / name for name in databases.NAMES if (home / name).exists()}
            for name, path in found.items():
                databases.copy(home / name, path)
        yield found
    finally:
        with as_owner(home):
            shutil.rmtree(folder, ignore_errors=True)


def _chosen(home: Path, copies: dict[str, Path], left: list[str], *, secrets: bool) -> Iterator[tuple[Path, str]]:
    def closed(error: OSError) -> None:
        left.append(f"{Path(error.filename).relative_to(home)}: {explain(error)}")

    for where, folders, names in os.walk(home, onerror=closed):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if Path(where, f).is_symlink())]):
            path = Path(where, name)
            inside = str(path.relative_to(home))
            if _LEFT_OUT.fullmatch(inside) or (inside == SECRETS and not secrets):
                continue
            if inside.count("/") >= DEEPEST:
                left.append(f"{inside[:80]}…: {inside.count('/')} folders deep")
                continue
            if path.is_symlink() or (path.exists() and not path.is_file()):
                left.append(f"{inside}: a link, or no regular file")
                continue
            yield copies.get(inside, path), inside


def _add(archive: tarfile.TarFile, path: Path, name: str) -> tuple[str, int]:
    """Add one file; returns its checksum and size. A file that shrinks meanwhile ends the backup."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        info = tarfile.TarInfo(INSIDE + name)
        info.size, info.mode, info.mtime = found.st_size, stat.S_IMODE(found.st_mode), int(found.st_mtime)
        counted = _Counted(file)
        try:
            archive.addfile(info, counted)
        except OSError as error:
            if counted.short:
                raise CareError(f"{path} became shorter while it was read; try again") from error
            raise
    return counted.sum.hexdigest(), info.size


class _Counted(io.RawIOBase):
    """A file whose bytes are summed up as they are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sum = hashlib.sha256()
        self.short = False
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Hand the bytes on."""
        data = self._file.read(size)
        self.short = self.short or len(data) < size
        self.sum.update(data)
        return data
