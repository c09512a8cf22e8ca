"""Reads the owner's files of settings: regular, readable, TOML."""

import os
import stat
from pathlib import Path
from typing import Any

from picoclaw.disk import explain
from picoclaw.errors import ConfigError, explain_syntax


def read_toml(path: Path, *, private: bool = False) -> dict[str, Any]:
    """Read a file of the owner's, nothing if there is none; raises ConfigError."""
    text = read(path, private=private)
    if not text:
        return {}
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # also for a number of more digits than Python reads
        raise ConfigError(f"{path} is not valid TOML: {explain_syntax(error)}") from None


def read(path: Path, *, private: bool = False) -> bytes:
    """Read a regular file whole, nothing if there is none; a pipe in its place would keep us waiting for ever."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{path} is not a regular file: move it aside and write a text file")
            if private and mode & 0o077:
                raise ConfigError(f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {explain(error)}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
