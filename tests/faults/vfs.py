"""SQLite's way to the disk, watched: what a Shim writes down of it, and lets fail of it."""
# ruff: noqa: PTH110, PTH120 - pathlib calls what is replaced here

import errno
import os
from typing import TYPE_CHECKING, Any

import apsw
from card import Step

if TYPE_CHECKING:
    from shim import Shim

_SQLITE: dict[str, type[apsw.Error]] = {"open": apsw.CantOpenError, "create": apsw.CantOpenError}


class Vfs(apsw.VFS):
    """SQLite's way to the disk."""

    def __init__(self, shim: "Shim") -> None:
        self.shim = shim
        super().__init__("watched", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        path = self.shim.path(text) if text else ""
        if not path:
            return apsw.VFSFile("unix", name, flags)
        young = not os.path.exists(path)
        failed(self.shim, "create" if young else "open", path)
        return File(self.shim, name, flags, path)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        path = self.shim.path(name)
        there = path and os.path.exists(path)
        if there:
            failed(self.shim, "unlink", path)
        super().xDelete(name, syncdir)
        if there:
            folder, last = self.shim._place(path)
            self.shim.noted(Step("unlink", folder, last))
            if syncdir:
                self.shim.noted(Step("sync", folder, os.path.dirname(path)))


class File(apsw.VFSFile):
    """A file of SQLite's. The folder of a new log is synced with it (os_unix.c, UNIXFILE_DIRSYNC)."""

    def __init__(self, shim: "Shim", name: Any, flags: list[int], path: str) -> None:
        self.shim, self.path = shim, path
        young = not os.path.exists(path)
        super().__init__("unix", name, flags)
        logs = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
        self._names = young and bool(flags[0] & logs)
        self.node = shim._new(path) if young else shim.node(path)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        failed(self.shim, "write", self.path)
        super().xWrite(data, offset)
        self.shim.noted(Step("write", self.node, self.path, at=offset, data=bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        failed(self.shim, "size", self.path)
        super().xTruncate(size)
        self.shim.noted(Step("size", self.node, self.path, at=size))

    def xSync(self, flags: int) -> None:  # noqa: N802
        failed(self.shim, "sync", self.path)
        self.shim.noted(Step("sync", self.node, self.path))
        if self._names:
            self._names = False
            self.shim.noted(Step("sync", self.shim.node(os.path.dirname(self.path)), os.path.dirname(self.path)))


def failed(shim: "Shim", kind: str, path: str) -> None:
    """Let an operation of SQLite's fail as the real VFS has it fail (os_unix.c: only a full disk is told apart)."""
    try:
        short = shim._asked(f"sqlite {kind}", path)
    except OSError as error:
        raise _failure(kind, error.errno or 0) from None
    if short:
        raise apsw.FullError(f"a write of {kind} was cut short")


def _failure(kind: str, number: int) -> apsw.Error:
    if kind == "write" and number == errno.ENOSPC:
        return apsw.FullError("injected")
    if number == errno.EROFS:
        return apsw.ReadOnlyError("injected")
    return _SQLITE.get(kind, apsw.IOError)(f"injected {errno.errorcode[number]}")
