"""The text of a file as it is shown: in lines that are cut, and never more of it in memory, or passed over, than so."""

import os
from collections.abc import Iterator
from typing import BinaryIO

from picoclaw.errors import ToolError

MOST_PASSED = 64_000_000
"""Bytes of a file up to which lines are looked for."""

_LONGEST_LINE = 2000
_CHUNK = 65_536


def count(text: str, part: str) -> int:
    """Count the places where a part occurs, those that overlap as well; nothing occurs nowhere."""
    found, place = 0, text.find(part) if part else -1
    while place >= 0:
        found, place = found + 1, text.find(part, place + 1)
    return found


def decoded(data: bytes, path: str) -> str:
    """Take bytes as text; raises ToolError for what is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text (byte {error.start}); it cannot be edited") from None


def lines(file: BinaryIO) -> Iterator[str]:
    """Show each line of a file, of a long one its beginning and how long it is."""
    passed = 0
    while passed < MOST_PASSED and (line := file.readline(4 * _LONGEST_LINE)):
        length, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(min(_CHUNK, MOST_PASSED - passed - length))):
            length += len(rest)
        passed += length
        yield _shown(line, length, "" if passed < MOST_PASSED else " or more")


def _shown(line: bytes, length: int, more: str) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    whole = len(text) <= _LONGEST_LINE and length - len(line) <= len("\r\n")
    return text if whole else f"{text[:_LONGEST_LINE]} [line cut: {length} bytes{more}]"


def missing_newline(file: int) -> bytes:
    """What has to come before a new line at the end of an open file."""
    size = os.fstat(file).st_size
    return b"" if size == 0 or os.pread(file, 1, size - 1) == b"\n" else b"\n"


def row(entry: "os.DirEntry[str]") -> str:
    """Show an entry of a folder in one line, whatever its name holds."""
    name = "".join(
        char if char.isprintable() or "\udc80" <= char <= "\udcff" else f"[U+{ord(char):04X}]" for char in entry.name
    )
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    if entry.is_symlink():
        return f"{name} -> (link)"
    return f"{name}  {entry.stat(follow_symlinks=False).st_size}"
