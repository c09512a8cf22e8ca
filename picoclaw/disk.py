"""The few ways picoclaw writes files: whole and durable, or an appended line that is durable, in folders that last.

Where an open `folder` is given, paths begin there, so that nothing that is swapped above it leads them elsewhere.
"""

import contextlib
import errno
import os
import stat
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


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, folder: int | None = None) -> None:
    """Replace a file so that a power cut leaves either the old content or the new; returns when it is durable.

    An existing file keeps its own mode. Raises OSError, and nothing is left behind then.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path, dir_fd=folder).st_mode & 0o777
    with _durable_copy(path, data, mode, folder) as copy:
        os.replace(copy, path, src_dir_fd=folder, dst_dir_fd=folder)
    sync_folder(path.parent, folder=folder)


def create(path: Path, data: bytes, mode: int = 0o600, *, folder: int | None = None) -> bool:
    """Write a file whole and durably unless its name is taken; tells whether it did. Never overwrites."""
    with contextlib.suppress(FileNotFoundError):
        os.stat(path, dir_fd=folder, follow_symlinks=False)
        return False
    with _durable_copy(path, data, mode, folder) as copy:
        try:
            os.link(copy, path, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
    sync_folder(path.parent, folder=folder)
    return True


@contextlib.contextmanager
def _durable_copy(path: Path, data: bytes, mode: int, folder: int | None) -> Iterator[Path]:
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


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file durably; a short write is taken back. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        add(file, data)
    finally:
        os.close(file)


def add(file: int, data: bytes) -> None:
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


def sync_folder(path: Path, *, folder: int | None = None) -> None:
    """Make a rename or a new name in the folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
