"""The few ways picoclaw writes files: whole and durable, or an appended line that is durable, in folders that last; where its folders are.

Where an open `folder` is given, paths begin there, so that nothing that is swapped above it leads them elsewhere.
tests/test_durable_writes.py finds whatever in picoclaw writes without them, and knows why it may.
"""

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.records import NamedTuple

if TYPE_CHECKING:
    import socket

_ERRNO_MESSAGES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the file system is read-only: it may have been remounted after an error (see dmesg)",
    errno.EACCES: "no permission: check its owner and mode",
    errno.EPERM: "no permission: check its owner and mode",
    errno.ENOENT: "no such file or folder",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "too many symbolic links",
    errno.EIO: "the disk reported an error: the card may be failing (see dmesg)",
    errno.EMFILE: "this process has too many files open: restart it",
    errno.ENFILE: "the machine has too many files open: end a program, or restart it",
}

DAMAGED_INFIX = ".damaged-"
_MAX_DAMAGED = 3
_SQLITE_SUFFIXES = ("-wal", "-shm")

RESERVES = {
    "measurements": (64_000_000, 0.05),
    "records": (48_000_000, 0.04),
    "the notes' index": (32_000_000, 0.03),
    "new conversations": (16_000_000, 0.02),
}
"""What is kept no longer as the disk fills up, in this order, so that promises still find room: bytes that must be free
beyond it, or that share of the disk if that is less."""


def read_file(path: Path, most: int = -1, *, links: bool = True) -> bytes:
    """Read a regular file, of a large one its first `most` bytes. Raises OSError."""
    with open_file(path, links=links) as file:
        return file.read(most)


def open_file(path: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file to be read. Raises OSError, also for a pipe, without waiting, and without `links` for a link."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        check_regular(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def check_regular(path: Path, mode: int) -> None:
    """Raise OSError for what is a file of another kind, which may keep whoever opens it waiting for ever."""
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file; move it aside", str(path))


class DiskNearlyFull(OSError):
    """The room that is left is for what was promised."""

    def __init__(self, what: str, folder: Path) -> None:
        super().__init__(errno.ENOSPC, f"the disk is nearly full, without room for {what}: free some space", folder)


def explain_os_error(error: OSError) -> str:
    """Say in words what the operating system refused, and what to try."""
    words = None if isinstance(error, DiskNearlyFull) else _ERRNO_MESSAGES.get(error.errno or 0)
    return words or error.strerror or str(error)


@contextlib.contextmanager
def explain_os_errors(kind: type[PicoclawError], what: str, advice: str = "") -> Iterator[None]:
    """Raise an error of this kind in place of an OSError, which says what could not be done, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {explain_os_error(error)}{advice}") from None


def check_reserve(what: str, folder: Path) -> None:
    """Raise DiskNearlyFull where the disk of a folder has too little room for this one of RESERVES."""
    least, share = RESERVES[what]
    with contextlib.suppress(FileNotFoundError):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < min(least, share * disk.f_blocks * disk.f_frsize):
            raise DiskNearlyFull(what, folder)


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, folder: int | None = None) -> None:
    """Replace a file so that a power cut leaves either the old content or the new; returns when it is durable.

    An existing file keeps its own mode. Raises OSError, and nothing is left behind then.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path, dir_fd=folder).st_mode & 0o777
    with _write_durable_copy(path, data, mode, folder) as copy:
        os.replace(copy, path, src_dir_fd=folder, dst_dir_fd=folder)
    sync_folder(path.parent, folder=folder)


def create_file(path: Path, data: bytes, mode: int = 0o600, *, folder: int | None = None) -> bool:
    """Write a file whole and durably unless its name is taken; tells whether it did. Never overwrites."""
    with contextlib.suppress(FileNotFoundError):
        os.stat(path, dir_fd=folder, follow_symlinks=False)
        return False
    with _write_durable_copy(path, data, mode, folder) as copy:
        try:
            os.link(copy, path, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
    sync_folder(path.parent, folder=folder)
    return True


@contextlib.contextmanager
def _write_durable_copy(path: Path, data: bytes, mode: int, folder: int | None) -> Iterator[Path]:
    copy = path.with_name(f".{path.name[:40]}.{os.getpid()}.{threading.get_ident()}")
    try:
        _remove(copy, folder)  # what a crash has left, or somebody laid there: it may be another file's second name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(copy, flags, mode, dir_fd=folder)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        yield copy
    finally:
        _remove(copy, folder)


def _remove(path: Path, folder: int | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)


def remove_file(path: Path) -> None:
    """Take a file away, if it is there, so that it does not come back after a power cut. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def set_aside(path: Path, stamp: str) -> Path:
    """Give a damaged file the name NAME.damaged-STAMP, durably; returns that. The newest few are kept.

    Raises OSError.
    """
    aside = path.with_name(f"{path.name}{DAMAGED_INFIX}{stamp}")
    path.replace(aside)
    sync_folder(path.parent)
    remove_old_damaged(path)
    return aside


def remove_old_damaged(path: Path) -> None:
    """Take away all but the newest damaged files of this name, with what lies beside them."""
    old = sorted(
        other for other in path.parent.glob(f"{path.name}{DAMAGED_INFIX}*") if not other.name.endswith(_SQLITE_SUFFIXES)
    )
    for one in old[:-_MAX_DAMAGED]:
        for name in (one.name, *(one.name + end for end in _SQLITE_SUFFIXES)):
            one.with_name(name).unlink(missing_ok=True)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file durably; a short write is taken back, and a line that was torn stays one of its own.

    Raises OSError.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(file).st_size
        torn = size and os.pread(file, 1, size - 1) != b"\n"
        append_bytes(file, b"\n" + line if torn else line)
        if not size:
            sync_folder(path.parent)
    finally:
        os.close(file)


def append_bytes(file: int, data: bytes) -> None:
    """Add to the end of an open file durably; a short write is taken back. Raises OSError."""
    before = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, before)
        raise


def make_folder(path: Path, mode: int = 0o700, *, folder: int | None = None) -> None:
    """Make a folder and those above it that are missing; returns when their names are durable. Raises OSError."""
    missing = []
    while not _is_folder(path, folder):
        missing.append(path)
        path = path.parent
    for young in reversed(missing):
        try:
            os.mkdir(young, mode, dir_fd=folder)
        except FileExistsError:
            if not _is_folder(young, folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(young)) from None
        sync_folder(young.parent, folder=folder)


def _is_folder(path: Path, folder: int | None) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path, dir_fd=folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of a folder, and hold it (flock(2)). Raises OSError."""
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sync_folder(path: Path, *, folder: int | None = None) -> None:
    """Make a rename or a new name in the folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Opens what somebody else has named, below a folder that may be used: only plain files, and without following a link.
#
# A path is taken apart by its words alone, and walked from one open folder to the next: what is swapped on the way
# meanwhile leads nowhere else, and what is found is what was opened.

FileIdentity = tuple[int, int]
"""What tells a folder or a file from every other, however it is spelt: its device and its inode."""

_OPEN_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_DEPTH = 64
_MAX_OPEN_ATTEMPTS = 3


class RootedPath(NamedTuple):
    """A folder that may be used, with no link on the way to it, and the names from there on."""

    root: str
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return Path(self.root, *self.parts)

    @property
    def above(self) -> "RootedPath":
        return RootedPath(self.root, self.parts[:-1])


def split_path(root: str, path: str) -> RootedPath | None:
    """Take a whole path apart by its words; None when it does not lie in the folder."""
    whole = "/" + os.path.normpath(path).lstrip("/")
    if whole != root and not whole.startswith(f"{root.rstrip('/')}/"):
        return None
    return RootedPath(root, tuple(filter(None, whole[len(root) :].split("/"))))


def resolve_below(root: str, path: str) -> RootedPath | None:
    """Follow the links of a path once, to walk the result without any; None when it leads out. Raises OSError."""
    return None if "\0" in path else split_path(root, os.path.realpath(path))


def list_identities(paths: Collection[Path]) -> frozenset[FileIdentity]:
    """Tell what folders and files are, those that are there, links followed."""
    found = (_stat_or_none(path) for path in paths)
    return frozenset((about.st_dev, about.st_ino) for about in found if about)


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, RuntimeError):
        return None


@contextmanager
def open_folder(place: RootedPath, never: Collection[FileIdentity] = (), *, make: bool = False) -> Iterator[int]:
    """Hold a folder open, only to start from; `make` makes what is missing. Raises OSError.

    The folders of `never` are not entered.
    """
    if len(place.parts) > _MAX_DEPTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    if make:
        make_folder(Path(place.root))
    handle = os.open(place.root, _OPEN_FOLDER_FLAGS)
    try:
        _check_allowed(os.fstat(handle), never)
        for name in place.parts:
            above, handle = handle, _open_subfolder(handle, name, make=make)
            os.close(above)
            _check_allowed(os.fstat(handle), never)
        yield handle
    finally:
        os.close(handle)


def _open_subfolder(handle: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=handle)
    except FileNotFoundError:
        if not make:
            raise
    except NotADirectoryError:
        _check_no_link(name, handle, os.stat(name, dir_fd=handle, follow_symlinks=False))
        raise
    make_folder(Path(name), folder=handle)
    return os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=handle)


def _check_allowed(about: os.stat_result, never: Collection[FileIdentity]) -> None:
    if (about.st_dev, about.st_ino) in never:
        raise _make_os_error("it is out of reach of every tool, as is all that it holds")


def _check_no_link(name: str, handle: int, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise _make_os_error(
            f"{name} is a symbolic link to {os.readlink(name, dir_fd=handle)}, and links are not followed; name that"
        )


def stat_rooted(place: RootedPath, never: Collection[FileIdentity] = ()) -> os.stat_result | None:
    """Look at what lies there, None when nothing does; a link, a device or a pipe raises OSError."""
    name = place.parts[-1] if place.parts else "."
    try:
        with open_folder(place.above, never) as handle:
            about = os.stat(name, dir_fd=handle, follow_symlinks=False)
            _check_no_link(name, handle, about)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(about.st_mode):
        _check_plain_file(about)
    return about


def open_rooted(
    place: RootedPath, never: Collection[FileIdentity] = (), *, alone: bool = False, adds: bool = False
) -> int:
    """Open a plain file to read, with `adds` to add to it as well; returns the handle. Raises OSError.

    With `alone`, a file that has a second name is not opened: it may be one of somebody else's.
    """
    if not place.parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with open_folder(place.above, never) as handle:
        for _ in range(_MAX_OPEN_ATTEMPTS):
            if (file := _open_unchanged(place.parts[-1], handle, alone=alone, adds=adds)) >= 0:
                return file
    raise _make_os_error("it was changed over and over while it was opened; try again")


def _open_unchanged(name: str, folder_: int, *, alone: bool, adds: bool) -> int:
    """Open what was looked at; -1 when it was another by then."""
    before = os.stat(name, dir_fd=folder_, follow_symlinks=False)
    _check_no_link(name, folder_, before)
    _check_plain_file(before, alone=alone)  # to open a device or a pipe may do something already
    file = os.open(name, _OPEN_FILE_FLAGS | (os.O_RDWR | os.O_APPEND if adds else os.O_RDONLY), dir_fd=folder_)
    try:
        about = os.fstat(file)
        _check_plain_file(about, alone=alone)
    except OSError:
        os.close(file)
        raise
    if os.path.samestat(before, about):
        return file
    os.close(file)
    return -1


def _check_plain_file(about: os.stat_result, *, alone: bool = False) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kernel = _stat_or_none(Path("/proc"))
    if not stat.S_ISREG(about.st_mode) or (kernel and about.st_dev == kernel.st_dev):
        raise _make_os_error("it is not a regular file")
    if alone and about.st_nlink > 1:
        raise _make_os_error("it has a second name somewhere (a hard link); use a copy of it")


def _make_os_error(words: str) -> OSError:
    """Say in an error of the system what disk.explain gives as it is."""
    return OSError(errno.EXDEV, words)


# Unix sockets. Source: unix(7), proc(5) on /proc/self/fd.


@contextmanager
def _shorten_address(path: Path) -> Iterator[str]:
    """A socket's path may have 107 bytes; this one is short, however deep its folder lies."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange_paths(one: Path, other: Path) -> bool:
    """Let two paths change places at once; False where the C library or the file system cannot, as on FAT.

    Source: rename(2) on renameat2 and RENAME_EXCHANGE; not every musl has it.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def listen_unix(path: Path) -> "socket.socket":
    """Open a socket anew, for this user alone; the caller holds a lock that says so. Raises OSError."""
    import socket

    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _shorten_address(path) as address:
            listener.bind(address)
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def connect_unix(path: Path, seconds: float | None) -> "socket.socket | None":
    """Connect to a socket, None when nobody listens; `seconds` is how long its steps may take."""
    import socket

    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(seconds)
    try:
        with _shorten_address(path) as address:
            client.connect(address)
    except OSError:
        client.close()
        return None
    return client


@cache
def find_shipped(name: str) -> Path:
    """Return the folder `templates`, `tools/hw` or the like, wherever this picoclaw was installed from."""
    package = Path(__file__).parent
    installed = package / "shipped" / name
    return installed if installed.is_dir() else package.parent / name


def get_home(environment: Mapping[str, str]) -> Path:
    """Return `$PICOCLAW_HOME`, or `~/.picoclaw`."""
    folder = environment.get("PICOCLAW_HOME") or "~/.picoclaw"
    try:
        home = Path(folder).expanduser().absolute()
        str(home).encode()
    except RuntimeError:
        raise ConfigError(f"the ~ in {folder} stands for no known user; set PICOCLAW_HOME to a whole path") from None
    except UnicodeError:
        raise ConfigError("the path of picoclaw's home is not UTF-8; set PICOCLAW_HOME to another folder") from None
    return home
