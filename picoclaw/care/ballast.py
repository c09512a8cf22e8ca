"""A file that says nothing: it goes when the disk is too full for a daemon to begin, and comes back afterwards."""

import os
from pathlib import Path

from picoclaw.disk import make_folder, remove, spare, write_atomic
from picoclaw.store.database import COPIES

NAME = "ballast"
SIZE = 1 << 20
_LEAST_FREE = 1 << 18
"""Bytes: what SQLite needs beside three databases to open them."""


def lay(home: Path) -> None:
    """Take room for a worse day, unless there is little now. Raises OSError."""
    path = home / COPIES / NAME
    if not path.exists():
        spare("records", home)
        make_folder(path.parent)
        write_atomic(path, os.urandom(SIZE))  # zeros are no room on a disk that compresses


def spend(home: Path) -> bool:
    """Give the room back where the disk is full; tells whether it did. Raises OSError."""
    path = home / COPIES / NAME
    if not path.exists():
        return False
    disk = os.statvfs(home)
    full = disk.f_bavail * disk.f_frsize < _LEAST_FREE and not disk.f_flag & os.ST_RDONLY
    if full:
        remove(path)
    return full
