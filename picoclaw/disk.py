"""The few ways picoclaw writes files: whole and durable, or an appended line that is durable, in folders that last."""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_WORDS = {
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
}


def explain(error: OSError) -> str:
    """Say in words what the operating system refused, and what to try."""
    return _WORDS.get(error.errno or 0, error.strerror or str(error))


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file so that a power cut leaves either the old content or the new; returns when it is durable.

    An existing file keeps its own mode. Raises OSError, and nothing is left behind then.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode & 0o777
    with _durable_copy(path, data, mode) as copy:
        copy.replace(path)
    sync_folder(path.parent)


def create(path: Path, data: bytes, mode: int = 0o600) -> bool:
    """Write a file whole and durably unless its name is taken; tells whether it did. Never overwrites."""
    if path.exists() or path.is_symlink():
        return False
    with _durable_copy(path, data, mode) as copy:
        try:
            path.hardlink_to(copy)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True


@contextlib.contextmanager
def _durable_copy(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    copy = path.with_name(f".{path.name[:40]}.{os.getpid()}.{threading.get_ident()}")
    try:
        handle = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file durably; a short write is taken back. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    before = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, before)
        raise
    finally:
        os.close(file)


def make_folder(path: Path, mode: int = 0o700) -> None:
    """Make a folder and those above it that are missing; returns when their names are durable. Raises OSError."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(mode)
        except FileExistsError:
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
