"""Notices that the owner has written a file of settings anew, by its time and size."""

from pathlib import Path

_FILES = ("config.toml", "secrets.toml")
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp(home: Path) -> Stamp:
    """What tells the files of a home as they are now from those of another moment."""
    return tuple(_stamp(home / name) for name in _FILES)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
