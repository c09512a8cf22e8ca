"""Stands between picoclaw and the disk: writes down what it does to a folder, and lets any of it fail.

Python's `os` and `open` are replaced in this process, which is one that was forked for it, and SQLite is given a VFS of
its own. What another process does is not seen. `Shim.steps` is what `card.Card` takes.
"""
# ruff: noqa: PTH109, PTH112, PTH115, PTH116, PTH118, PTH119, PTH120 - pathlib calls what is replaced here

import builtins
import io
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from card import ROOT, Step
from vfs import Vfs

_WRITES = os.O_WRONLY | os.O_RDWR
Fault = Callable[[str, str], "BaseException | str | None"]
"""Asked before each operation, with its kind and path: an OSError to raise, "short" for half a write, None for nothing.

Kinds: read (opened to be read), open (to be written), create, write, sync, rename, link, unlink, mkdir, size, connect,
and the same with "sqlite " before them.
"""

_REAL = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}
_OPEN, _CONNECT = io.open, socket.create_connection


def no_fault(_kind: str, _path: str) -> None:
    """Nothing fails."""


class Shim:
    """Watches what is done below `root`, which exists, in this process from `begin` on, for good."""

    def __init__(self, root: Path, fault: Fault = no_fault) -> None:
        self.root = os.path.realpath(root)
        self.fault = fault
        self.steps: list[Step] = []
        self.kinds: list[str] = []
        self._lock = threading.RLock()
        self._nodes: dict[int, int] = {os.stat(root).st_ino: ROOT}
        self._last = ROOT

    def event(self, what: Any) -> None:
        """Write down what the world has seen by now."""
        with self._lock:
            self.steps.append(Step("event", what=what))

    def begin(self) -> None:
        """Take the place of the real functions."""
        for name in ("open", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "truncate", "rename", "replace"):
            setattr(os, name, getattr(self, f"_{name}"))
        for name in ("link", "unlink", "mkdir", "rmdir", "symlink", "mkfifo"):
            setattr(os, name, getattr(self, f"_{name}"))
        os.remove = self._unlink
        builtins.open = io.open = self._file  # type: ignore[assignment]
        socket.create_connection = self._connect
        self._vfs = Vfs(self)

    # Paths

    def path(self, name: Any, folder: int | None = None) -> str:
        """The real path of a name below the root, '' for one elsewhere."""
        if isinstance(name, int):
            found = os.readlink(f"/proc/self/fd/{name}")
        else:
            text = os.fsdecode(name)
            base = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
            whole = os.path.join(base, text)
            found = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
            if os.path.basename(whole) in {"", ".", ".."}:
                found = os.path.realpath(whole)
        return found if found == self.root or found.startswith(f"{self.root}/") else ""

    def _asked(self, kind: str, path: str) -> str:
        """Count an operation; raise what it is to fail with."""
        with self._lock:
            self.kinds.append(kind)
        found = self.fault(kind, path)
        if isinstance(found, BaseException):
            raise found
        return found or ""

    def node(self, path: str) -> int:
        """The number of what has a name, given when it is first seen."""
        found = _REAL["lstat"](path)
        if found.st_ino not in self._nodes:
            self._made(path, found)
        return self._nodes[found.st_ino]

    def _new(self, path: str) -> int:
        """Write down that something has come to be."""
        found = _REAL["lstat"](path)
        return self._made(path, found)

    def _made(self, path: str, found: os.stat_result) -> int:
        with self._lock:
            self._last += 1
            self._nodes[found.st_ino] = self._last
            kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}
            kind = kinds.get(stat.S_IFMT(found.st_mode), "file")
            self.steps += [Step("new", self._last, kind), Step("link", *self._place(path), self._last)]
            return self._last

    def _place(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self.node(folder), name

    def noted(self, step: Step) -> None:
        """Write a step down."""
        with self._lock:
            self.steps.append(step)

    # Python's functions

    def _open(self, name: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = self.path(name, dir_fd)
        if not path:
            return _REAL["open"](name, flags, mode, dir_fd=dir_fd)
        with self._lock:
            young = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            self._asked("create" if young else "open" if flags & _WRITES else "read", path)
            handle = _REAL["open"](name, flags, mode, dir_fd=dir_fd)
            if young:
                self._new(path)
            elif flags & os.O_TRUNC and flags & _WRITES:
                self.noted(Step("size", self.node(path), path))
            return handle

    def _mine(self, handle: int) -> str:
        """The path of an open file below the root that is a plain file or a folder."""
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        return self.path(handle) if kind in {stat.S_IFREG, stat.S_IFDIR} else ""

    def _number(self, handle: int) -> int:
        return self._nodes[os.fstat(handle).st_ino]

    def _write(self, handle: int, data: Any) -> int:
        path = self._mine(handle)
        if not path:
            return _REAL["write"](handle, data)
        with self._lock:
            if self._asked("write", path) == "short":
                data = bytes(data)[: max(1, len(data) // 2)]
            end = _REAL["write"](handle, data)
            at = os.lseek(handle, 0, os.SEEK_CUR) - end
            self.noted(Step("write", self._number(handle), path, at=at, data=bytes(data)[:end]))
            return end

    def _pwrite(self, handle: int, data: Any, at: int) -> int:
        if not (path := self._mine(handle)):
            return _REAL["pwrite"](handle, data, at)
        with self._lock:
            self._asked("write", path)
            end = _REAL["pwrite"](handle, data, at)
            self.noted(Step("write", self._number(handle), path, at=at, data=bytes(data)[:end]))
            return end

    def _fsync(self, handle: int) -> None:
        if path := self._mine(handle):
            with self._lock:
                self._asked("sync", path)
                self.noted(Step("sync", self.node(path) if os.path.isdir(path) else self._number(handle), path))
        else:
            _REAL["fsync"](handle)

    _fdatasync = _fsync

    def _ftruncate(self, handle: int, size: int) -> None:
        if path := self._mine(handle):
            self._asked("size", path)
            self.noted(Step("size", self._number(handle), path, at=size))
        _REAL["ftruncate"](handle, size)

    def _truncate(self, name: Any, size: int) -> None:
        if isinstance(name, int):
            self._ftruncate(name, size)
            return
        if path := self.path(name):
            self._asked("size", path)
            self.noted(Step("size", self.node(os.path.realpath(path)), path, at=size))
        _REAL["truncate"](name, size)

    def _rename(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        here, there = self.path(old, src_dir_fd), self.path(new, dst_dir_fd)
        with self._lock:
            if there:
                self._asked("rename", there)
            node = self.node(here) if here else 0
            _REAL["rename"](old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if here and there:
                (source, name), (target, to) = self._place(here), self._place(there)
                self.noted(Step("rename", source, name, target, to, what=node))

    _replace = _rename

    def _link(self, old: Any, new: Any, *, follow_symlinks: bool = True, **given: Any) -> None:
        here, there = self.path(old, given.get("src_dir_fd")), self.path(new, given.get("dst_dir_fd"))
        with self._lock:
            if there:
                self._asked("link", there)
            _REAL["link"](old, new, follow_symlinks=follow_symlinks, **given)
            if here and there:
                self.noted(Step("link", *self._place(there), self.node(here)))

    def _unlink(self, name: Any, *, dir_fd: int | None = None) -> None:
        path = self.path(name, dir_fd)
        with self._lock:
            if path and os.path.lexists(path):
                self._asked("unlink", path)
            _REAL["unlink"](name, dir_fd=dir_fd)
            if path:
                self.noted(Step("unlink", *self._place(path)))

    def _rmdir(self, name: Any, *, dir_fd: int | None = None) -> None:
        path = self.path(name, dir_fd)
        _REAL["rmdir"](name, dir_fd=dir_fd)
        if path:
            self.noted(Step("unlink", *self._place(path)))

    def _mkdir(self, name: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        path = self.path(name, dir_fd)
        with self._lock:
            if path:
                self._asked("mkdir", path)
            _REAL["mkdir"](name, mode, dir_fd=dir_fd)
            if path:
                self._new(path)

    def _mkfifo(self, name: Any, mode: int = 0o666, *, dir_fd: int | None = None) -> None:
        path = self.path(name, dir_fd)
        with self._lock:
            if path:
                self._asked("create", path)
            _REAL["mkfifo"](name, mode, dir_fd=dir_fd)
            if path:
                self._new(path)

    def _symlink(self, old: Any, new: Any, *given: Any, **more: Any) -> None:
        assert not self.path(new), f"no symbolic link is expected at {new}"
        _REAL["symlink"](old, new, *given, **more)

    def _connect(self, *given: Any, **more: Any) -> socket.socket:
        self._asked("connect", "")
        return _CONNECT(*given, **more)

    def _file(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        whole = (file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not set(mode) & set("wxa+") or not self._is_plain(file):
            return _OPEN(*whole)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener or _opener(self))
        raw.shim = self
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    def _is_plain(self, file: Any) -> bool:
        return bool(self._mine(file) if isinstance(file, int) else self.path(file))


def _opener(shim: Shim) -> Callable[[str, int], int]:
    return lambda path, flags: shim._open(path, flags, 0o666)


class _Raw(io.FileIO):
    """A file whose writes are written down."""

    shim: Shim

    def write(self, data: Any) -> int:
        return self.shim._write(self.fileno(), bytes(data))
