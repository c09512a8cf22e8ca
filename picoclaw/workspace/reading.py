"""Reads text files that an owner may have put anything in the place of: never waits, never more than memory bears."""

import codecs
import os
import stat
from collections.abc import Callable
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error

MAX_WHOLE_BYTES = 1_000_000
"""Bytes; of a larger file only its head and its tail are read."""

_HEAD_BYTES, _TAIL_BYTES = 600_000, 200_000
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class TextFiles:
    """The texts of the files below one folder, each read again when its file has changed.

    Files larger than `largest` bytes are refused, and links that lead out of `inside` if that is given. `clean` makes
    of a file's name and text what is kept.
    """

    def __init__(
        self,
        folder: Path,
        largest: int,
        inside: Path | None = None,
        clean: Callable[[str, str], str] = lambda _, text: text,
    ) -> None:
        self._folder, self._largest, self._inside, self._clean = folder, largest, inside, clean
        self._kept: dict[str, tuple[tuple[int, ...], str | ConfigError]] = {}
        self._paths: dict[str, Path] = {}

    def get(self, name: str) -> str | None:
        """Return a file's text, None when there is no such file; raises ConfigError saying why it cannot be read."""
        path = self._paths.get(name) or self._paths.setdefault(name, self._folder / name)
        found = _stat_target(path)
        if found is None:
            self._kept.pop(name, None)
            return None
        marks = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
        if name not in self._kept or self._kept[name][0] != marks:
            text: str | ConfigError
            try:
                text = self._clean(name, read_text(path, self._largest, self._inside) or "")
            except ConfigError as error:
                text = error
            self._kept[name] = marks, text
        kept = self._kept[name][1]
        if isinstance(kept, ConfigError):
            raise ConfigError(str(kept))
        return kept


def read_text(path: Path, largest: int, inside: Path | None = None) -> str | None:
    """Read a file's text without BOM and with plain line ends, None when there is none; raises ConfigError."""
    parts = _read_parts(path, largest, inside)
    if parts is None:
        return None
    if any(b"\0" in part for part in parts):
        raise _make_read_error(path, "it holds NUL bytes and is no text; save it as UTF-8 text")
    try:
        head = codecs.utf_8_decode(parts[0].removeprefix(codecs.BOM_UTF8), "strict", len(parts) == 1)[0]
        tail = "".join(f"\n{part.lstrip(_CONTINUATION_BYTES).decode()}" for part in parts[1:])
    except UnicodeDecodeError:
        raise _make_read_error(path, "it is not UTF-8; save it as UTF-8 text") from None
    return f"{head}{tail}".replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(path: Path, largest: int, inside: Path | None = None) -> bytes | None:
    """Read a file's bytes, those of its head and tail if it is large, None when there is none; raises ConfigError."""
    parts = _read_parts(path, largest, inside)
    return None if parts is None else b"\n".join(parts)


def _read_parts(path: Path, largest: int, inside: Path | None) -> list[bytes] | None:
    found = _stat_target(path)
    if found is None:
        return None
    _check_file(path, found, largest, inside)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            status = os.fstat(file.fileno())
            _check_file(path, status, largest, None)
            if status.st_size <= MAX_WHOLE_BYTES:
                return [file.read(MAX_WHOLE_BYTES)]
            head = file.read(_HEAD_BYTES)
            file.seek(-_TAIL_BYTES, os.SEEK_END)
            return [head, file.read(_TAIL_BYTES)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _make_read_error(path, explain_os_error(error)) from None


def _stat_target(path: Path) -> os.stat_result | None:
    """The state of what a name stands for in the end; None when nothing is there."""
    linked = False
    try:
        found = os.lstat(path)  # without the detour of Path.lstat: a turn looks at hundreds of names
        linked = stat.S_ISLNK(found.st_mode)
        return path.stat() if linked else found
    except (FileNotFoundError, NotADirectoryError):
        if not linked:
            return None
        raise _make_read_error(path, "it is a link that leads nowhere; correct or remove it") from None
    except OSError as error:
        raise _make_read_error(path, explain_os_error(error)) from None


def _check_file(path: Path, found: os.stat_result, largest: int, inside: Path | None) -> None:
    if inside is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside)):
        raise _make_read_error(path, f"it is a link that leads out of {inside}; put a copy in its place")
    if stat.S_ISDIR(found.st_mode):
        raise _make_read_error(path, "it is a folder; move it aside")
    if not stat.S_ISREG(found.st_mode):
        raise _make_read_error(path, "it is not a regular file; move it aside")
    if found.st_size > largest:
        raise _make_read_error(path, f"it is larger than {largest // 1000} kB; shorten it")


def _make_read_error(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {why}")
