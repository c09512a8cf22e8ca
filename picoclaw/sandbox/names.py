"""Keeps the names of what instructs later turns, while a command runs that may change the folder they lie in.

What is there is mounted over itself, read-only. A mount needs something to lie on: where there is nothing yet, an empty
file or folder stands in, and goes with the last of the commands that it was made for.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from picoclaw.errors import ToolError

_lock = threading.Lock()
_stands_in: dict[Path, list[int]] = {}
"""What was made: its inode, and how many commands need it."""


def hold(pages: Iterable[Path]) -> list[Path]:
    """Let each of the pages be there, and return those that `release` has to be told.

    A name with an ending is a file's. Raises OSError, and ToolError for a link, on which nothing can be mounted.
    """
    held: list[Path] = []
    try:
        held.extend(page for page in pages if _made(page))
    except BaseException:
        release(held)
        raise
    return held


def release(held: Iterable[Path]) -> None:
    """Take away what stands in for nobody any more, unless somebody has put something there meanwhile."""
    for page in held:
        _let_go(page)


def _made(page: Path) -> bool:
    """Make it if need be; tells whether it stands in for something."""
    if page.is_symlink():
        raise ToolError(
            f"{page} is a link, which a command with write could turn: put in its place what it leads to, or leave"
            " out write"
        )
    with _lock:
        if page in _stands_in:
            _stands_in[page][1] += 1
            return True
        try:
            if page.suffix:
                os.close(os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o400))
            else:
                page.mkdir(0o700)
        except FileExistsError:
            return False
        _stands_in[page] = [page.lstat().st_ino, 1]
        return True


def _let_go(page: Path) -> None:
    with _lock:
        _stands_in[page][1] -= 1
        if _stands_in[page][1]:
            return
        made, _ = _stands_in.pop(page)
        with suppress(OSError):
            found = page.lstat()
            if not page.suffix:
                page.rmdir()
            elif found.st_ino == made and not found.st_size:
                page.unlink()
