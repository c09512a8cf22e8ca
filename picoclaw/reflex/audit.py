"""`outputs.audit`: one JSON line for every act and every refusal, each with the hash of the line before it.

It is the only state there is: cooldowns and used duty are read back from it. Whoever appends holds the file's
lock (flock(2)), so that several processes make one chain.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from picoclaw.disk import sync_folder, write_atomic
from picoclaw.reflex.clock import boot_id, boottime
from picoclaw.reflex.rules import Spell

NAME = "outputs.audit"
LONGEST = 1_000_000
KEPT = 8
_FIRST = "0" * 64
_LOCK_S = 0.5
_TAIL = 65_536
_FAR_S = 1e10
History = dict[str, list[Spell]]


def write(home: Path, act: str, history: Mapping[str, Sequence[Spell]] | None = None, **more: Any) -> None:
    """Append a record durably; when the file has grown long, begin a new one with `history` as its first record.

    A torn last line, which a power cut leaves, is taken out of the chain and kept in a record of its own.
    Raises OSError (also when another process holds the lock for too long); then nothing was added.
    """
    path = home / NAME
    with _locked(path) as file:
        text = _tail(file)
        torn = text[text.rfind(b"\n") + 1 :]
        if torn:
            os.ftruncate(file, os.fstat(file).st_size - len(torn))
            text = text[: -len(torn)]
        chain = _hash(text.splitlines()[-1]) if text else _FIRST
        records = [_record("torn", {"why": torn[-200:].decode("ascii", "replace")})] if torn else []
        records.append(_record(act, more))
        if history is not None and os.fstat(file).st_size > LONGEST:
            records.insert(0, _record("rotated", {"history": {n: list(map(list, s)) for n, s in history.items()}}))
            _rotate(path, _lines(records, chain))
        else:
            _append(file, _lines(records, chain))
        if not text:
            sync_folder(home)


def _append(file: int, text: bytes) -> None:
    """Add to the end, durably; what a full disk cuts short is taken back."""
    before = os.fstat(file).st_size
    try:
        written = 0
        while written < len(text):
            written += os.pwrite(file, text[written:], before + written)
        os.fsync(file)
    except OSError:
        os.ftruncate(file, before)
        raise


def _record(act: str, more: Mapping[str, Any]) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"at": at, "boot": boot_id(), "t": round(boottime(), 3), "act": act, **more}


def _lines(records: Sequence[Mapping[str, Any]], chain: str) -> bytes:
    text = b""
    for record in records:
        line = json.dumps({**record, "chain": chain}).encode()
        chain = _hash(line)
        text += line + b"\n"
    return text


def _hash(line: bytes) -> str:
    import hashlib

    return hashlib.sha256(line).hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the file that has the name now, with its lock; a process that is stuck with it does not hold us up."""
    until = time.monotonic() + _LOCK_S
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            _regular(file, path)
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


def _tail(file: int) -> bytes:
    """The end of the file from the beginning of a line on: the last whole line, and what is torn after it."""
    size, length = os.fstat(file).st_size, 0
    while True:
        length = min(size, length + _TAIL)
        text = os.pread(file, length, size - length)
        if length == size:
            return text
        start = text.find(b"\n", 0, text.rfind(b"\n"))
        if start >= 0:
            return text[start + 1 :]


def _rotate(path: Path, text: bytes) -> None:
    """At every moment there is a file of the name, because the old one is given its further name first."""
    numbered = [path.with_name(f"{path.name}.{n}") for n in range(1, KEPT + 1)]
    for older, newer in zip(reversed(numbered), [*reversed(numbered[:-1]), path], strict=True):
        with contextlib.suppress(FileNotFoundError):
            if newer == path:
                older.unlink(missing_ok=True)
                older.hardlink_to(newer)
            else:
                newer.replace(older)
    write_atomic(path, text)


def records(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Read a file's lines, each with what it says, or None where it says nothing that can be understood."""
    try:
        text = content(path)
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        yield line, said if isinstance(said, dict) else None


def content(path: Path) -> bytes:
    """Read a regular file whole; a pipe in its place would keep us waiting for ever. Raises OSError."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
        _regular(file.fileno(), path)
        return file.read()


def _regular(file: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def files(home: Path) -> list[Path]:
    """Return what is kept, the oldest first."""
    kept = [home / f"{NAME}.{n}" for n in range(KEPT, 0, -1)]
    return [path for path in [*kept, home / NAME] if path.exists()]


def verify(home: Path) -> tuple[int, str]:
    """Hold every line against the next one's hash; returns how many there are, and the first fault in words.

    That lines are missing at the very end cannot be seen.
    """
    count, chain = 0, ""
    for path in files(home):
        for number, (line, said) in enumerate(records(path), 1):
            if said is None:
                return count, f"{path} line {number} is no record: it is torn or was changed"
            if chain and said.get("chain") != chain:
                return count, f"{path} line {number} does not follow from the line before it: one of them was changed"
            count, chain = count + 1, _hash(line)
    return count, ""


def replay(home: Path) -> History:
    """Read back what each output did, in seconds of this boot's CLOCK_BOOTTIME; raises OSError.

    What happened before this boot is placed as late as it can have been: the last record of an earlier boot at
    the beginning of the next, so that no clock of the day is needed. A time away from the safe level that nothing
    ended is as long as was asked for, and ended with its boot.
    """
    boots: list[tuple[str, list[dict[str, Any]]]] = []
    for _, said in records(home / NAME):
        if said is None or not _is_moment(said.get("t")):
            continue
        if not boots or boots[-1][0] != said.get("boot"):
            boots.append((str(said.get("boot")), []))
        boots[-1][1].append(said)
    history: History = {}
    for boot, acts in boots:
        asked = _boot(history, acts)
        if boot != boot_id():
            _end_boot(history, asked, float(acts[-1]["t"]))
    return history


def _is_moment(t: object) -> bool:
    return isinstance(t, int | float) and 0 <= t < _FAR_S


def _boot(history: History, acts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Add the records of one boot; returns how long each open spell may have lasted."""
    asked: dict[str, float] = {}
    for record in acts:
        act, name, t = record.get("act"), str(record.get("name", "")), float(record["t"])
        if act == "rotated":
            history.clear()
            history.update(_kept(record.get("history")))
        elif act in {"on", "renew"}:
            asked[name] = float(record.get("seconds", 0))
            spells = history.setdefault(name, [])
            if not spells or spells[-1].ended is not None:
                spells.append(Spell(t))
        elif act in {"off", "safe"}:
            _close(history.get(name, []), t)
        elif act in {"start", "rescue"}:
            for spells in history.values():
                _close(spells, t)
    return asked


def _close(spells: list[Spell], t: float) -> None:
    if spells and spells[-1].ended is None:
        spells[-1] = Spell(spells[-1].began, t)


def _end_boot(history: History, asked: Mapping[str, float], last: float) -> None:
    for name, spells in history.items():
        if spells and spells[-1].ended is None:
            spells[-1] = Spell(min(spells[-1].began, last - asked.get(name, 0.0)), last)
        spells[:] = [Spell(s.began - last, None if s.ended is None else s.ended - last) for s in spells]


def _kept(history: Any) -> History:
    """What a rotated file's first record says; what is not of its shape is left out."""
    found: History = {}
    for name, spells in history.items() if isinstance(history, dict) else ():
        pairs = spells if isinstance(spells, list) else []
        found[name] = [Spell(*pair) for pair in pairs if isinstance(pair, list) and _is_spell(pair)]
    return found


def _is_spell(pair: list[Any]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], int | float) and isinstance(pair[1], int | float | None)
