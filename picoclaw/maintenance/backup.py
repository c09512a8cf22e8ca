"""Backups: the home as it is at one moment, in one compressed archive whose last member says what belongs into it.

What can be made again is left out (the index of the notes), and what is only true now (locks, sockets). An archive
without its last member, `backup.json`, is not whole.
"""

import glob
import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self, cast

from picoclaw import __version__
from picoclaw.errors import StoreError, explain_syntax
from picoclaw.files import (
    exchange_paths,
    explain_os_error,
    make_folder,
    open_file,
    read_file,
    sync_folder,
    write_atomic,
)
from picoclaw.maintenance import MaintenanceError, act_as_owner, database_copy, translate_os_errors
from picoclaw.records import NamedTuple
from picoclaw.store.database import Database
from picoclaw.text import pattern

Progress = Callable[[int, int], None]
"""Is told how many bytes are done, of how many."""

MANIFEST_NAME, HOME_PREFIX = "backup.json", "home/"
SECRETS_FILES = ("secrets.toml", "fleet.json")
"""What a backup need not hold, and what a restore keeps where it does not."""
_LOGIN_SUFFIX = ".token"
"""Of files in `mcp/`, which are logins at other servers, and the same."""
_EXCLUDED = pattern(
    r"last(/.*)?|[^/]*\.(suspect|damaged-.*)"
    r"|(?:agents/[^/]+/)?(?:shared/|people/[^/]+/)?(?:memory\.db.*|skills\.cache|skills\.db.*)|[^/]*\.(db-wal|db-shm|lock|sock)|outputs\.live|(wake|bell)-\d+[^/]*|before-update(/.*)?|before-migrate(/.*)?"
    r"|\.[^/]*\.\d+\.\d+|\.backup-[^/]*(/.*)?|\.unfinished"
)
MAX_DEPTH = 100
"""Folders within each other; what lies deeper is neither taken nor unpacked."""

_COMPRESSION_LEVEL = 3  # a Zero 2 W writes 5 to 10 MB a second with it, and a higher one saves a tenth


class BackupSummary(NamedTuple):
    """What a backup holds: files, their bytes before they were compressed, and what was not taken and why."""

    files: int
    size: int
    left: list[str]


def _ignore_progress(done: int, total: int) -> None:
    pass


def write_backup(
    home: Path, target: Path, *, secrets: bool = True, progress: Progress = _ignore_progress
) -> BackupSummary:
    """Write an archive whole and durably, under a name that must be free; raises MaintenanceError.

    `progress` is told of the bytes that were taken, and of how many there are.
    """
    if os.path.lexists(target):
        raise MaintenanceError(f"{target} is there already; name another file")
    young = target.with_name(f".{target.name[:40]}.{os.getpid()}.0")
    with translate_os_errors(target):
        handle = os.open(young, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                made = stream_backup(home, file, secrets=secrets, progress=progress)
                file.flush()
                os.fsync(handle)
            young.replace(target)
            sync_folder(target.parent)
        finally:
            young.unlink(missing_ok=True)
    return made


def stream_backup(
    home: Path, stream: IO[bytes], *, secrets: bool = True, progress: Progress = _ignore_progress
) -> BackupSummary:
    """Write an archive to a stream, such as standard output; raises MaintenanceError, and OSError if the stream breaks."""
    if not home.is_dir():
        raise MaintenanceError(f"{home} does not exist: there is nothing to back up")
    made = BackupSummary(0, 0, [])
    sums: dict[str, str] = {}
    with (
        _copy_databases(home) as copies,
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_COMPRESSION_LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        total = sum(_get_size(path) for path, _ in _select_files(home, copies, [], secrets=secrets))
        for path, name in _select_files(home, copies, made.left, secrets=secrets):
            try:
                member = _add_file(archive, path, name, lambda size: progress(made.size + size, total))  # noqa: B023
            except FileNotFoundError:  # it was deleted meanwhile
                continue
            sums[name] = member[0]
            made = made._replace(files=made.files + 1, size=made.size + member[1])
        about = {"picoclaw": __version__, "at": int(time.time()), "home": str(home), "files": sums}
        data = json.dumps(about, ensure_ascii=False, indent=1).encode()
        info = tarfile.TarInfo(MANIFEST_NAME)
        info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
        archive.addfile(info, io.BytesIO(data))
    return made


def _get_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


@contextmanager
def _copy_databases(home: Path) -> Iterator[dict[str, Path]]:
    """Copy the databases to a temporary folder; gives the copies by name."""
    with act_as_owner(home), translate_os_errors(home):
        folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=home))
    try:
        with act_as_owner(home):
            found = {name: folder / name for name in database_copy.DATABASE_MIGRATIONS if (home / name).exists()}
            for name, path in found.items():
                database_copy.copy_database(home / name, path)
        yield found
    finally:
        with act_as_owner(home):
            shutil.rmtree(folder, ignore_errors=True)


def _is_secret(inside: str) -> bool:
    return inside in SECRETS_FILES or (inside.startswith("mcp/") and inside.endswith(_LOGIN_SUFFIX))


def _select_files(home: Path, copies: dict[str, Path], left: list[str], *, secrets: bool) -> Iterator[tuple[Path, str]]:
    def closed(error: OSError) -> None:
        left.append(f"{Path(error.filename).relative_to(home)}: {explain_os_error(error)}")

    for where, folders, names in os.walk(home, onerror=closed):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if Path(where, f).is_symlink())]):
            path = Path(where, name)
            inside = str(path.relative_to(home))
            if _EXCLUDED.fullmatch(inside) or (_is_secret(inside) and not secrets):
                continue
            if inside.count("/") >= MAX_DEPTH:
                left.append(f"{inside[:80]}…: {inside.count('/')} folders deep")
                continue
            if path.is_symlink() or (path.exists() and not path.is_file()):
                left.append(f"{inside}: a link, or no regular file")
                continue
            yield copies.get(inside, path), inside


def _add_file(archive: tarfile.TarFile, path: Path, name: str, note: Callable[[int], None]) -> tuple[str, int]:
    """Add one file; returns its checksum and size. A file that shrinks meanwhile ends the backup."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        info = tarfile.TarInfo(HOME_PREFIX + name)
        info.size, info.mode, info.mtime = found.st_size, stat.S_IMODE(found.st_mode), int(found.st_mtime)
        counted = _HashingReader(file, note)
        try:
            archive.addfile(info, counted)
        except OSError as error:
            if counted.is_short:
                raise MaintenanceError(f"{path} became shorter while it was read; try again") from error
            raise
    return counted.sum.hexdigest(), info.size


class _HashingReader(io.RawIOBase):
    """A file whose checksum is computed as it is read."""

    def __init__(self, file: IO[bytes], note: Callable[[int], None]) -> None:
        """`note` is told how many bytes were read."""
        self.sum = hashlib.sha256()
        self.is_short = False
        self._file, self._note, self._count = file, note, 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.is_short = self.is_short or len(data) < size
        self.sum.update(data)
        self._count += len(data)
        self._note(self._count)
        return data


# Restoring: a backup is unpacked beside the home, proved whole, and only then takes its place, in one step.
#
# What the home was before is kept beside it.

_UNFINISHED_MARKER = ".unfinished"
"""In a folder until it has taken the home's place; what a restore that was cut off has left is known by it."""

_MAX_MANIFEST_BYTES = 50_000_000
_MAX_HEADER_BYTES = 65_536  # bytes that may stand before a file, such as a name of more than 100 characters
_HEADER_TYPES = {
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
}
_CHUNK_BYTES = 1 << 20


class BackupInfo(NamedTuple):
    """The manifest of a backup: picoclaw's version, when it was made (seconds since 1970), and the number of files."""

    version: str
    at: float
    files: int


def verify_backup(path: Path, progress: Progress = _ignore_progress) -> BackupInfo:
    """Check every file of a backup against its checksum; raises MaintenanceError."""
    return _unpack_archive(path, None, progress)


def restore_backup(path: Path, home: Path, progress: Progress = _ignore_progress) -> tuple[BackupInfo, Path | None]:
    """Replace a home by a backup; returns its manifest and where the old home is now. Raises MaintenanceError."""
    home = home.resolve()  # a link to another disk stays one, and what it leads to is replaced
    if busy := database_copy.list_home_users(home):
        raise MaintenanceError(
            f"{home} is in use by {', '.join(busy)}: stop it first, with"
            " `sudo picoclaw service stop`, or with Ctrl-C or /quit in the terminal where it runs"
        )
    with act_as_owner(home), translate_os_errors(home):
        make_folder(home.parent)
        _remove_unfinished(home)
        staged = _make_staging_folder(home)
        try:
            kept = _unpack_archive(path, staged, progress)
            logins = (str(file.relative_to(home)) for file in home.glob(f"mcp/*{_LOGIN_SUFFIX}"))
            for name in (*SECRETS_FILES, *logins):
                if (home / name).is_file() and not (staged / name).exists():
                    make_folder((staged / name).parent)
                    write_atomic(staged / name, read_file(home / name))
            for name, migrations in database_copy.DATABASE_MIGRATIONS.items():
                if (staged / name).exists():  # opening it also brings an older one up to this picoclaw
                    Database(staged / name, migrations).close()
            for folder in (*(found for found in staged.rglob("*") if found.is_dir()), staged):
                sync_folder(folder)
        except BaseException as error:
            shutil.rmtree(staged, ignore_errors=True)
            if isinstance(error, StoreError):
                raise MaintenanceError(f"the backup cannot be used: {error}") from None
            raise
        return kept, _replace_home(staged, home)


def _remove_unfinished(home: Path) -> None:
    """Remove the remains of an interrupted restore; the home itself is complete, even if it is still marked."""
    with suppress(FileNotFoundError):
        (home / _UNFINISHED_MARKER).unlink()
        sync_folder(home)
    name = glob.escape(f"{home.name}.before-")
    marked = (path.parent for path in home.parent.glob(f"{name}*/{_UNFINISHED_MARKER}"))
    for left in (*home.parent.glob(f".{name}*"), *marked):
        shutil.rmtree(left, ignore_errors=True)


def _make_staging_folder(home: Path) -> Path:
    """Make the folder to unpack into; it is swapped with the home, so its name is the one that the old home gets."""
    staged = home.with_name(f"{home.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
    while os.path.lexists(staged):
        staged = staged.with_name(f"{staged.name}a")
    young = staged.with_name(f".{staged.name}")  # nobody sees a folder without its mark
    young.mkdir(0o700)
    (young / _UNFINISHED_MARKER).touch()
    young.rename(staged)
    return staged


def _unpack_archive(path: Path, folder: Path | None, progress: Progress) -> BackupInfo:
    try:
        with open_file(path) as packed, tarfile.open(fileobj=packed, mode="r:gz", tarinfo=_LimitedTarInfo) as archive:
            total = os.fstat(packed.fileno()).st_size
            about, sums = _extract_members(archive, path, folder, lambda: progress(packed.tell(), total))
        kept = BackupInfo(str(about["picoclaw"]), float(about["at"]), len(sums))
        if about["files"] != sums:
            raise MaintenanceError(
                f"{path} is damaged: its files are not those that its list names; nothing was changed"
            )
    except (tarfile.TarError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise MaintenanceError(
            f"{path} is no whole backup of picoclaw's ({explain_syntax(error)}); nothing was changed"
        ) from None
    except OSError as error:
        raise MaintenanceError(f"{path} cannot be unpacked: {error.strerror or error}; nothing was changed") from None
    return kept


class _LimitedTarInfo(tarfile.TarInfo):
    """A member of an archive with limited headers, because tarfile holds them in memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a block. Raises tarfile.ReadError for one that announces too much."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADER_TYPES and member.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"{member.size} bytes of headers stand before a file")
        return member


def _extract_members(
    archive: tarfile.TarFile, path: Path, folder: Path | None, note: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Unpack the files; returns the manifest and the checksums of the files."""
    sums: dict[str, str] = {}
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # which would hold every one of them to the end
        content = archive.extractfile(member) if member.isfile() and not member.issparse() else None
        if content is None:
            raise MaintenanceError(f"{path} holds {member.name!r}, a link or a device; nothing was changed")
        if member.name == MANIFEST_NAME and member.size <= _MAX_MANIFEST_BYTES:
            about = dict(json.loads(content.read()))
            for _ in _read_chunks(cast("IO[bytes]", archive.fileobj)):
                pass  # gzip's own checksum stands at the end, which covers names and modes as well
            return about, sums
        name = _parse_member_name(member.name, path)
        sums[name] = _extract_file(content, folder / name if folder else None, member.mode & 0o700 | 0o600, note)
    raise EOFError("its end is missing")


def _parse_member_name(name: str, path: Path) -> str:
    """Check the name of a member; one that leads out of the folder is refused."""
    inside = PurePosixPath(name.removeprefix(HOME_PREFIX))
    if len(inside.parts) > MAX_DEPTH:
        raise MaintenanceError(
            f"{path} holds {name[:80]!r}…, which is {len(inside.parts)} folders deep; nothing was changed"
        )
    if not name.startswith(HOME_PREFIX) or inside.is_absolute() or ".." in inside.parts or "\0" in name:
        raise MaintenanceError(f"{path} holds {name!r}, which leads out of the home; nothing was changed")
    return str(inside)


def _extract_file(content: IO[bytes], target: Path | None, mode: int, note: Callable[[], None]) -> str:
    summed = hashlib.sha256()
    if target is None:
        for data in _read_chunks(content):
            summed.update(data)
            note()
        return summed.hexdigest()
    make_folder(target.parent)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        for data in _read_chunks(content):
            summed.update(data)
            file.write(data)
            note()
        file.flush()
        os.fsync(handle)
    return summed.hexdigest()


def _read_chunks(content: IO[bytes]) -> Iterator[bytes]:
    while data := content.read(_CHUNK_BYTES):
        yield data


def _replace_home(staged: Path, home: Path) -> Path | None:
    before = staged if os.path.lexists(home) else None
    if before is None:
        staged.rename(home)
    elif not exchange_paths(staged, home):
        before = staged.with_name(f"{staged.name}b")
        home.rename(before)
        staged.rename(home)
    sync_folder(home.parent)
    (home / _UNFINISHED_MARKER).unlink()
    return before
