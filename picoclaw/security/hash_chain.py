"""A log of JSON lines, each with the hash of the line before it, so that later changes are detected.

Writers hold a lock on the file (flock(2)), so that several processes append to one chain. A long file is rotated.
"""

import contextlib
import errno
import fcntl
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from picoclaw.files import append_bytes, check_regular, read_file, sync_folder, write_atomic
from picoclaw.records import dataclass

FIRST_HASH = "0" * 64
"""What the first record of all has in place of a hash."""

LOCK_TIMEOUT_S = 0.5
_TAIL_BYTES = 65_536
_MAX_TORN_SHOWN = 200


def _find_sha256() -> Callable[[bytes], Any]:
    """Use CPython's own SHA-256 module: hashlib loads OpenSSL, 4 MB at each start."""
    for name in ("_sha2", "_sha256"):
        with contextlib.suppress(ImportError):
            found: Callable[[bytes], Any] = importlib.import_module(name).sha256
            return found
    import hashlib

    return hashlib.sha256


_SHA256 = _find_sha256()


@dataclass
class ChainEnd:
    """The newest file of a chain, locked: `last` is its last line, `torn` an incomplete one that was cut off."""

    path: Path
    file: int
    last: bytes
    torn: str

    @property
    def size(self) -> int:
        return os.fstat(self.file).st_size

    def add(self, records: Sequence[Mapping[str, Any]]) -> bytes:
        """Append records durably, all or none; returns the last line. Raises OSError."""
        begins = not self.size
        append_bytes(self.file, text := self._lines(records))
        if begins:
            sync_folder(self.path.parent)
        return text.splitlines()[-1]

    def rotate(self, records: Sequence[Mapping[str, Any]], kept: int) -> bytes:
        """Start a new file with these records, keeping `kept` older files; returns the last line. Raises OSError."""
        _rotate_files(self.path, kept)
        write_atomic(self.path, text := self._lines(records))
        return text.splitlines()[-1]

    def _lines(self, records: Sequence[Mapping[str, Any]]) -> bytes:
        text, chain = b"", hash_line(self.last) if self.last else FIRST_HASH
        for record in records:
            line = json.dumps({**record, "chain": chain}).encode()
            chain = hash_line(line)
            text += line + b"\n"
        return text


def hash_line(line: bytes) -> str:
    return str(_SHA256(line).hexdigest())


@contextlib.contextmanager
def open_chain_end(path: Path) -> Iterator[ChainEnd]:
    """Lock a chain for appending; an incomplete last line is removed.

    Raises OSError, also when another process holds the lock for too long; then nothing was changed.
    """
    with _open_locked(path) as file:
        text = _read_tail(file)
        torn = text[text.rfind(b"\n") + 1 :]
        if torn:
            os.ftruncate(file, os.fstat(file).st_size - len(torn))
            text = text[: -len(torn)]
        yield ChainEnd(
            path, file, text.splitlines()[-1] if text else b"", torn[-_MAX_TORN_SHOWN:].decode("ascii", "replace")
        )


@contextlib.contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Open and lock the file that has the name now, waiting LOCK_TIMEOUT_S at most."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        file = os.open(path, flags, 0o600)
        try:
            check_regular(path, os.fstat(file).st_mode)
            if _try_lock(file) and os.path.samestat(os.fstat(file), path.stat()):
                yield file
                return
        finally:
            os.close(file)
        if time.monotonic() > until:
            raise OSError(errno.EBUSY, "it is locked by another process", str(path))
        time.sleep(0.005)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_tail(file: int) -> bytes:
    """Read the last complete line and what is torn after it."""
    size, length = os.fstat(file).st_size, 0
    while True:
        length = min(size, length + _TAIL_BYTES)
        text = os.pread(file, length, size - length)
        if length == size:
            return text
        start = text.find(b"\n", 0, text.rfind(b"\n"))
        if start >= 0:
            return text[start + 1 :]


def _rotate_files(path: Path, kept: int) -> None:
    """Give the file and its predecessors the next number; the plain name exists at every moment."""
    numbered = [path.with_name(f"{path.name}.{n}") for n in range(1, kept + 1)]
    if numbered[0].exists() and numbered[0].samefile(path):
        return  # a power cut came between this and the new file
    for older, newer in zip(reversed(numbered), [*reversed(numbered[:-1]), path], strict=True):
        with contextlib.suppress(FileNotFoundError):
            if newer == path:
                older.unlink(missing_ok=True)
                older.hardlink_to(newer)
            else:
                newer.replace(older)


def read_chain(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Give each line with its record, None for one that cannot be parsed."""
    try:
        text = read_file(path, links=False)
    except FileNotFoundError:
        return
    for line in text.splitlines():
        yield line, parse_record(line)


def parse_record(line: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def list_chain_files(path: Path, kept: int) -> list[Path]:
    """The files of a chain, the oldest first."""
    found = [one for n in range(kept, 0, -1) if (one := path.with_name(f"{path.name}.{n}")).exists()]
    if found and path.exists() and found[-1].samefile(path):
        found.pop()
    return [*found, path] if path.exists() else found


def describe_intact(count: int) -> str:
    return f"{count} record{'s' * (count != 1)}, none changed or missing"


def verify_chain(
    path: Path,
    kept: int,
    look: Callable[[Mapping[str, Any], bytes], str] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[int, str]:
    """Check every line against the hash in the next; returns how many are intact, and the first fault ('' for none).

    Lines missing at the very end are not noticed here. `look(record, line)` may report a further fault; `progress` is
    told the bytes that were read, and all there are. Raises OSError.
    """
    good, chain, read, files = 0, "", 0, list_chain_files(path, kept)
    size = sum(file.stat().st_size for file in files)
    for file in files:
        for number, (line, said) in enumerate(read_chain(file), 1):
            if said is None:
                return good, f"{file} line {number} is no record: it is torn or was changed"
            if chain and said.get("chain") != chain:
                return good, f"{file} line {number} does not follow from the one before: one was changed"
            if look and (fault := look(said, line)):
                return good, f"{file} line {number}: {fault}"
            good, chain, read = good + 1, hash_line(line), read + len(line) + 1
            progress(read, size)
    return good, ""
