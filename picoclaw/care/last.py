"""The last good copies, in `last/` of the home: of `state.db` once a day or less, of settings when they change.

Damage is what a failing card leaves: zeros in a text, bytes that are no text, nothing at all where something was. What
its owner has mistyped is no damage, and is theirs to mend. Keys have no copy, and notes have none: what was forgotten
is to be forgotten.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apsw

from picoclaw.care import databases
from picoclaw.config.files import read
from picoclaw.disk import make_folder, remove, set_aside, spare, write_atomic
from picoclaw.errors import ConfigError
from picoclaw.redact import Redactor
from picoclaw.store.database import COPIES
from picoclaw.workspace.pages import owner_time

_LARGEST = 1_000_000
_EVERY_S, _A_DAY = 20 * 3600.0, 10_000_000
"""How often a `state.db` is copied, and the bytes that a day's copying may write: a larger one waits longer."""


def _torn(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return not data or b"\0" in data


def _toml(data: bytes) -> bool:
    """Whether it can be read: only that is worth a copy."""
    import tomllib

    try:
        tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _no_json(data: bytes) -> bool:
    try:
        return not isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return True


def _json(data: bytes) -> bool:
    return not _no_json(data)


def _never(_: bytes) -> bool:
    return False


_Look = Callable[[bytes], bool]
FILES: Mapping[str, tuple[_Look, _Look]] = {
    **dict.fromkeys(("config.toml", "sensors.toml", "rules.toml", "outputs.toml", "policy.toml"), (_torn, _toml)),
    **dict.fromkeys(("seeds.json", "memory-feedback.json"), (_no_json, _json)),
    **dict.fromkeys(("page_logins.json", "page_letters.json"), (_no_json, _never)),
}
"""By name in the home: what is damage to it, and when a copy is worth making; who was let in may be shut out again."""


def keep(home: Path) -> None:
    """Copy the small files that have changed; one that its owner has deleted loses its copy. Raises OSError."""
    for name, (_, good) in FILES.items():
        data, copy = _content(home / name), home / COPIES / name
        if not data:
            if not (home / name).exists():
                remove(copy)
        elif data != _content(copy) and good(data):
            spare("records", home)
            make_folder(copy.parent)
            write_atomic(copy, data)


def keep_state(home: Path, now: float, redact: Redactor | None = None) -> bool:
    """Copy `state.db` when it has changed and the last copy is old enough; tells whether it did.

    The secrets that `redact` knows, and what looks like one, are not in the copy: a message that waits for its answer
    has them, and so do reminders, questions and jobs.

    Raises OSError and CareError: what cannot be copied is damaged, or the disk is full.
    """
    source, copy = home / databases.NAMES[0], home / COPIES / databases.NAMES[0]
    if not source.exists():
        return False
    every = _EVERY_S * max(1.0, source.stat().st_size / _A_DAY)
    last = copy.stat().st_mtime if copy.exists() else 0.0
    changed = max(one.stat().st_mtime for one in (source, source.with_name(f"{source.name}-wal")) if one.exists())
    if changed <= last or abs(now - last) < every:
        return False
    spare("records", home)
    make_folder(copy.parent)
    young = copy.with_name(f".{copy.name}.0.0")
    remove(young)
    databases.copy(source, young, lambda connection: _mask(connection, redact or Redactor()))
    databases.take_place(young, copy)
    return True


_MASKED_JOBS = """
    UPDATE jobs SET enabled = 0, last_status = 'failed',
    last_error = 'its command held a secret, which the copy of state.db that was put back does not have: add it again'
    WHERE kind IN ('command', 'tool') AND message != mask(message)
"""


def _mask(connection: apsw.Connection, redact: Redactor) -> None:
    """Take the secrets out of every text of a database, and leave no command to be run that was changed by that."""

    def mask(*given: Any) -> str:
        text = str(given[0])
        if text[:1] in {"[", "{"}:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return redact(text)
            return text if (masked := redact.values(value)) == value else json.dumps(masked, ensure_ascii=False)
        return redact.said(text)

    connection.create_scalar_function("mask", mask, 1, deterministic=True)
    connection.execute("PRAGMA secure_delete = ON")
    tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    with connection:
        if "jobs" in tables:
            connection.execute(_MASKED_JOBS)
        for table in tables:
            sql = "SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT' AND NOT pk"
            for (name,) in connection.execute(sql, (table,)).fetchall():
                text = f'"{name}"'
                connection.execute(f'UPDATE "{table}" SET {text} = mask({text}) WHERE {text} != mask({text})')  # noqa: S608


def damaged(home: Path, name: str) -> bool:
    """Tell whether one of FILES is damaged: an empty one only where its copy says something."""
    path, (torn, _) = home / name, FILES[name]
    if not path.is_file():
        return False
    data = _content(path)
    return torn(data) and bool(data or _content(home / COPIES / name) or name.endswith(".json"))


def put_back(home: Path, stamp: str) -> list[str]:
    """Set aside the small files that are damaged and put their copies in their place; says so. Raises OSError.

    Where there is no copy, what the owner has written stays where it is; what can be made again just goes.
    """
    said = []
    for name in FILES:
        path, copy = home / name, _content(home / COPIES / name)
        if not damaged(home, name) or not (copy or name.endswith(".json")):
            continue
        aside = set_aside(path, stamp).name
        if copy:
            when = owner_time(home, (home / COPIES / name).stat().st_mtime)
            write_atomic(path, copy)
            said.append(f"{name} was damaged: the copy of {when:%d %b %Y %H:%M} is used, and {aside} is what was there")
        else:
            said.append(f"{name} was damaged and begins anew; {aside} is what was there")
    return said


def _content(path: Path) -> bytes:
    """Read a regular file that is not too large, nothing of any other."""
    try:
        return read(path) if path.stat().st_size <= _LARGEST else b""
    except (OSError, ConfigError):
        return b""
