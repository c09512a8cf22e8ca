"""Opens what somebody else has named, below a folder that may be used: only plain files, and without following a link.

A path is taken apart by its words alone, and walked from one open folder to the next: what is swapped on the way
meanwhile leads nowhere else, and what is found is what was opened.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from picoclaw.disk import make_folder

Identity = tuple[int, int]
"""What tells a folder or a file from every other, however it is spelt: its device and its inode."""

_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DEEPEST = 64
_TRIES = 3


class Place(NamedTuple):
    """A folder that may be used, with no link on the way to it, and the names from there on."""

    root: str
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where it would lie."""
        return Path(self.root, *self.parts)

    @property
    def above(self) -> "Place":
        """The folder it lies in."""
        return Place(self.root, self.parts[:-1])


def below(root: str, path: str) -> Place | None:
    """Take a whole path apart by its words; None when it does not lie in the folder."""
    whole = "/" + os.path.normpath(path).lstrip("/")
    if whole != root and not whole.startswith(f"{root.rstrip('/')}/"):
        return None
    return Place(root, tuple(filter(None, whole[len(root) :].split("/"))))


def settled(root: str, path: str) -> Place | None:
    """Follow the links of a path once, to walk the result without any; None when it leads out. Raises OSError."""
    return None if "\0" in path else below(root, os.path.realpath(path))


def identities(paths: Collection[Path]) -> frozenset[Identity]:
    """Tell what folders and files are, those that are there, links followed."""
    found = (_stat(path) for path in paths)
    return frozenset((about.st_dev, about.st_ino) for about in found if about)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, RuntimeError):
        return None


@contextmanager
def folder(place: Place, never: Collection[Identity] = (), *, make: bool = False) -> Iterator[int]:
    """Hold a folder open, only to start from; `make` makes what is missing. Raises OSError.

    The folders of `never` are not entered.
    """
    if len(place.parts) > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    if make:
        make_folder(Path(place.root))
    handle = os.open(place.root, _WAY)
    try:
        _refuse(os.fstat(handle), never)
        for name in place.parts:
            above, handle = handle, _step(handle, name, make=make)
            os.close(above)
            _refuse(os.fstat(handle), never)
        yield handle
    finally:
        os.close(handle)


def _step(handle: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _WAY, dir_fd=handle)
    except FileNotFoundError:
        if not make:
            raise
    except NotADirectoryError:
        _refuse_link(name, handle, os.stat(name, dir_fd=handle, follow_symlinks=False))
        raise
    make_folder(Path(name), folder=handle)
    return os.open(name, _WAY, dir_fd=handle)


def _refuse(about: os.stat_result, never: Collection[Identity]) -> None:
    if (about.st_dev, about.st_ino) in never:
        raise _no("it is out of reach of every tool, as is all that it holds")


def _refuse_link(name: str, handle: int, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise _no(
            f"{name} is a symbolic link to {os.readlink(name, dir_fd=handle)}, and links are not followed; name that"
        )


def look(place: Place, never: Collection[Identity] = ()) -> os.stat_result | None:
    """Look at what lies there, None when nothing does; a link, a device or a pipe raises OSError."""
    name = place.parts[-1] if place.parts else "."
    try:
        with folder(place.above, never) as handle:
            about = os.stat(name, dir_fd=handle, follow_symlinks=False)
            _refuse_link(name, handle, about)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(about.st_mode):
        _check(about)
    return about


def open_file(place: Place, never: Collection[Identity] = (), *, alone: bool = False, adds: bool = False) -> int:
    """Open a plain file to read, with `adds` to add to it as well; returns the handle. Raises OSError.

    With `alone`, a file that has a second name is not opened: it may be one of somebody else's.
    """
    if not place.parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with folder(place.above, never) as handle:
        for _ in range(_TRIES):
            if (file := _opened(place.parts[-1], handle, alone=alone, adds=adds)) >= 0:
                return file
    raise _no("it was changed over and over while it was opened; try again")


def _opened(name: str, folder_: int, *, alone: bool, adds: bool) -> int:
    """Open what was looked at; -1 when it was another by then."""
    before = os.stat(name, dir_fd=folder_, follow_symlinks=False)
    _refuse_link(name, folder_, before)
    _check(before, alone=alone)  # to open a device or a pipe may do something already
    file = os.open(name, _PLAIN | (os.O_RDWR | os.O_APPEND if adds else os.O_RDONLY), dir_fd=folder_)
    try:
        about = os.fstat(file)
        _check(about, alone=alone)
    except OSError:
        os.close(file)
        raise
    if os.path.samestat(before, about):
        return file
    os.close(file)
    return -1


def _check(about: os.stat_result, *, alone: bool = False) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kernel = _stat(Path("/proc"))
    if not stat.S_ISREG(about.st_mode) or (kernel and about.st_dev == kernel.st_dev):
        raise _no("it is not a regular file")
    if alone and about.st_nlink > 1:
        raise _no("it has a second name somewhere (a hard link); use a copy of it")


def _no(words: str) -> OSError:
    """Say in an error of the system what disk.explain gives as it is."""
    return OSError(errno.EXDEV, words)
