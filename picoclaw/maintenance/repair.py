"""Checks whether everything that is kept in a home is whole, and repairs it with the last good copies in `last/`.

`state.db` is copied once a day or less, settings when they change.

Damage is what a failing card leaves: zeros in a text, bytes that are no text, nothing at all where something was. What
its owner has mistyped is no damage, and is theirs to correct. Keys have no copy, and notes have none: what was forgotten
is to be forgotten.

A check looks at what it can without an app, a board or a model, changes nothing unless it is asked to repair, and raises
nothing. The doctor asks whether the set-up works; a check asks whether anything was lost.
"""

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from picoclaw.config import load_config
from picoclaw.config.files import read_regular
from picoclaw.errors import ConfigError, PicoclawError, StoreDamaged, StoreError
from picoclaw.files import (
    DAMAGED_INFIX,
    check_reserve,
    explain_os_error,
    lock_folder,
    make_folder,
    read_file,
    remove_file,
    remove_old_damaged,
    set_aside,
    sync_folder,
    write_atomic,
)
from picoclaw.hw.kernel import CheckResult, bad, good, note
from picoclaw.maintenance import MaintenanceError, database_copy
from picoclaw.maintenance.database_copy import (
    DATABASE_MIGRATIONS,
    WAL_SUFFIXES,
    CopiedTable,
    copy_readable_rows,
    delete_orphans,
)
from picoclaw.memory import index
from picoclaw.outputs import audit as outputs
from picoclaw.security import audit, hash_chain
from picoclaw.security.redaction import Redactor
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import (
    COPIES_FOLDER,
    SUSPECT_SUFFIX,
    Database,
    mark_suspect,
    run_quick_check,
    translate_sqlite_errors,
)
from picoclaw.store.inbox_outbox import Inbox, Outbox
from picoclaw.store.jobs import Heartbeats, Jobs
from picoclaw.store.subagent_tasks import Tasks
from picoclaw.text import pattern
from picoclaw.workspace import get_owner_time

_MAX_FILE_BYTES = 1_000_000
_COPY_INTERVAL_S, _MAX_BYTES_PER_DAY = 20 * 3600.0, 10_000_000
"""How often a `state.db` is copied, and the bytes that a day's copying may write: a larger one waits longer."""


COPIED_FILES = (
    *("config.toml", "sensors.toml", "rules.toml", "outputs.toml", "policy.toml"),
    *("seeds.json", "memory-feedback.json", "page_logins.json", "page_letters.json", "page_tokens.json"),
)
_NEVER_COPIED = {"page_logins.json", "page_letters.json", "page_tokens.json"}
"""Of those that are looked after; who was let in may be shut out again."""


def _is_torn(name: str, data: bytes) -> bool:
    try:
        if name.endswith(".json"):
            return not isinstance(json.loads(data), dict | list)
        data.decode()
    except (ValueError, RecursionError):
        return True
    return not data or b"\0" in data


def copy_changed_files(home: Path) -> None:
    """Copy the small files that have changed and can be read; one that its owner has deleted loses its copy.

    Raises OSError.
    """
    import tomllib

    for name in COPIED_FILES:
        data, copy = read_small_file(home / name), home / COPIES_FOLDER / name
        if not data and not (home / name).exists():
            remove_file(copy)
        if data == read_small_file(copy) or name in _NEVER_COPIED or _is_torn(name, data):
            continue
        if name.endswith(".toml"):
            try:
                tomllib.loads(data.decode())
            except (ValueError, RecursionError):
                continue
        check_reserve("records", home)
        make_folder(copy.parent)
        write_atomic(copy, data)


def copy_state_database(home: Path, now: float, redact: Redactor | None = None) -> bool:
    """Copy `state.db` when it has changed and the last copy is old enough; tells whether it did.

    The secrets that `redact` knows, and what looks like one, are not in the copy: a message that waits for its answer
    has them, and so do reminders, questions and jobs.

    Raises OSError and MaintenanceError: what cannot be copied is damaged, or the disk is full.
    """
    source, copy = home / "state.db", home / COPIES_FOLDER / "state.db"
    if not source.exists():
        return False
    every = _COPY_INTERVAL_S * max(1.0, source.stat().st_size / _MAX_BYTES_PER_DAY)
    last = copy.stat().st_mtime if copy.exists() else 0.0
    changed = max(one.stat().st_mtime for one in (source, source.with_name(f"{source.name}-wal")) if one.exists())
    if changed <= last or abs(now - last) < every:
        return False
    check_reserve("records", home)
    make_folder(copy.parent)
    young = copy.with_name(f".{copy.name}.0.0")
    remove_file(young)
    database_copy.copy_database(source, young, lambda connection: _mask_secrets(connection, redact or Redactor()))
    database_copy.replace_database(young, copy)
    return True


_DISABLE_MASKED_JOBS = """
    UPDATE jobs SET enabled = 0, last_status = 'failed',
    last_error = 'its command held a secret, which the copy of state.db that was put back does not have: add it again'
    WHERE kind IN ('command', 'tool') AND message != mask(message)
"""


def _mask_secrets(connection: apsw.Connection, redact: Redactor) -> None:
    """Mask the secrets in every text of a database, and disable commands that contained one."""

    def mask(*given: Any) -> str:
        text = str(given[0])
        if text[:1] in {"[", "{"}:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return redact(text)
            return text if (masked := redact.values(value)) == value else json.dumps(masked, ensure_ascii=False)
        return redact.redact_message(text)

    connection.create_scalar_function("mask", mask, 1, deterministic=True)
    connection.execute("PRAGMA secure_delete = ON")
    tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    with connection:
        if "jobs" in tables:
            connection.execute(_DISABLE_MASKED_JOBS)
        for table in tables:
            sql = "SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT' AND NOT pk"
            for (name,) in connection.execute(sql, (table,)).fetchall():
                text = f'"{name}"'
                connection.execute(f'UPDATE "{table}" SET {text} = mask({text}) WHERE {text} != mask({text})')  # noqa: S608


def is_damaged(home: Path, name: str) -> bool:
    """Tell whether one of COPIED_FILES is damaged: an empty one only where its copy says something."""
    if not (home / name).is_file():
        return False
    data = read_small_file(home / name)
    return _is_torn(name, data) and bool(data or read_small_file(home / COPIES_FOLDER / name) or name.endswith(".json"))


def restore_damaged_files(home: Path, stamp: str) -> list[str]:
    """Set aside the small files that are damaged and put their copies in their place; says so. Raises OSError.

    Where there is no copy, what the owner has written stays where it is; what can be made again just goes.
    """
    said = []
    for name in COPIED_FILES:
        path, copy = home / name, read_small_file(home / COPIES_FOLDER / name)
        if not is_damaged(home, name) or not (copy or name.endswith(".json")):
            continue
        aside = set_aside(path, stamp).name
        if copy:
            when = get_owner_time(home, (home / COPIES_FOLDER / name).stat().st_mtime)
            write_atomic(path, copy)
            said.append(f"{name} was damaged: the copy of {when:%Y-%m-%d %H:%M} is used, and {aside} is what was there")
        else:
            said.append(f"{name} was damaged and starts empty; {aside} is what was there")
    return said


def read_small_file(path: Path) -> bytes:
    """Read a regular file of up to a megabyte, nothing of any other."""
    try:
        return read_regular(path) if path.stat().st_size <= _MAX_FILE_BYTES else b""
    except (OSError, ConfigError):
        return b""


# Mends what a failing card, or a cut at the worst moment, has left of a home; its owner is told once.
#
# A damaged database gets a second name, NAME.damaged-DATE, and its log with it. What can be read of it is brought into
# the last copy, or into a new one, under a third name; with it the message that says so. Then the log goes, and the new
# file takes the place of the damaged one in one step. A cut anywhere leaves a mark beside the file, by which the next
# start begins again from the same damaged file: nothing is repaired twice, and nothing is told twice.

_TABLE_LABELS = {
    **dict.fromkeys(("sessions", "turns", "messages", "summaries", "results"), "conversations"),
    "jobs": "reminders",
    "user_context_files": "people's pages",
    **dict.fromkeys(("shared_state", "shared_rows", "shared_pages"), "what a shared store has"),
    "pulse": "tasks",
    "outbox": "messages to deliver",
    "tasks": "sub-agents' work",
    **dict.fromkeys(("approvals", "always"), "approvals"),
    **dict.fromkeys(("raw", "spans", "series"), "measurements"),
}


def repair_home(home: Path, *, tell: bool = True) -> list[str]:
    """Mend what is damaged before anything else of a home is used; returns what was done, which its owner is told.

    Without `tell`, no message says so. Raises StoreError where that cannot be done, having changed nothing.
    """
    if not home.is_dir():
        return []
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        with lock_folder(home):
            said = [_repair_database(home / name, stamp, why, tell=tell) for name, why in _find_damaged(home)]
            files = restore_damaged_files(home, stamp)
            if tell and (news := [*files, *(line for line in said if not line.startswith("state.db"))]):
                with closing(Database(home / "state.db")) as database:
                    outbox, chat = Outbox(database), Heartbeats(database).last_chat()
                    known = {message.text for message in outbox.waiting()}
                    for text in news:
                        if text not in known:
                            outbox.put(chat, text, time.time())
    except OSError as error:
        raise StoreError(f"{error.filename or home} cannot be repaired: {explain_os_error(error)}") from None
    except MaintenanceError as error:
        raise StoreError(str(error)) from None
    return [*said, *files]


def _find_damaged(home: Path) -> Iterator[tuple[str, str]]:
    """Open each database as everybody does; give the damaged ones, which nobody may have open, and what is wrong."""
    for path in (home / name for name in DATABASE_MIGRATIONS if os.path.lexists(home / name)):
        if why := "its repair was cut off" if find_interrupted_repair(path) else _describe_damage(path):
            if pid := database_copy.find_opener(path.with_name(f"{path.name}-shm")):
                raise StoreError(f"{path} is damaged ({why}), and process {pid} has it open: end that first")
            yield path.name, why


def _describe_damage(path: Path) -> str:
    """Open and close a database, and describe its damage, '' for none. Raises StoreError."""
    try:
        Database(path, DATABASE_MIGRATIONS[path.name]).close()
    except StoreDamaged as error:
        said = str(error).partition(";")[0]
        return said.partition("(")[2].rstrip(")") or said.removeprefix(f"{path} is ")
    return ""


def _repair_database(path: Path, stamp: str, why: str, *, tell: bool) -> str:
    mark_suspect(path)
    aside = _set_aside_database(path, stamp)
    young = path.with_name(f".{path.name}.{os.getpid()}.0")
    try:
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink(missing_ok=True)
        said = _rebuild_database(path, aside, young, why, tell=tell)
        database_copy.replace_database(young, path)
    finally:
        for left in path.parent.glob(f"{young.name}*"):
            left.unlink(missing_ok=True)
    remove_file(path.with_name(path.name + SUSPECT_SUFFIX))
    remove_old_damaged(path)
    return said


def find_interrupted_repair(path: Path) -> Path | None:
    """Return the second name of a file whose repair was interrupted."""
    names = path.parent.glob(f"{path.name}{DAMAGED_INFIX}*")
    return next((known for known in names if known.samefile(path)), None)


def _set_aside_database(path: Path, stamp: str) -> Path:
    """Give the damaged file and its log a second name, unless an interrupted repair has done so."""
    if known := find_interrupted_repair(path):
        return known
    for log in path.parent.glob(f"{path.name}{DAMAGED_INFIX}*-wal"):  # a cut came before its file had the second name
        if not log.with_name(log.name.removesuffix("-wal")).exists():
            log.unlink()
    aside = path.with_name(f"{path.name}{DAMAGED_INFIX}{stamp}")
    with suppress(FileNotFoundError):
        aside.with_name(f"{aside.name}-wal").hardlink_to(path.with_name(f"{path.name}-wal"))
    aside.hardlink_to(path)
    sync_folder(path.parent)
    return aside


def _rebuild_database(path: Path, aside: Path, young: Path, why: str, *, tell: bool) -> str:
    """Make a new database from the copy and the readable rest; returns the report for the owner."""
    copied = _start_from_copy(path, young)
    with translate_sqlite_errors(young), closing(Database(young, DATABASE_MIGRATIONS[path.name])) as database:
        damaged = apsw.Connection(str(aside), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            damaged.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            saved = copy_readable_rows(damaged, database.connection)
        finally:
            damaged.close()  # what looking at the file has made beside it goes; a log that holds something stays
            log, index = (aside.with_name(aside.name + end) for end in database_copy.WAL_SUFFIXES)
            index.unlink(missing_ok=True)
            if log.exists() and not log.stat().st_size:
                log.unlink()
        said = _format_repair_report(why, aside.name, saved, copied)
        if tell and path.name == "state.db":
            Outbox(database).put(Heartbeats(database).last_chat(), said, time.time())
    if (found := run_quick_check(young, DATABASE_MIGRATIONS[path.name])) != "ok":
        raise StoreError(f"{path} cannot be repaired: {found}; {aside.name} is what was there")
    return said


def _start_from_copy(path: Path, young: Path) -> str:
    """Start with the last good copy; returns its date, '' if there is none."""
    copy = path.parent / COPIES_FOLDER / path.name
    try:
        if not copy.exists() or run_quick_check(copy, DATABASE_MIGRATIONS[path.name]) != "ok":
            return ""
        database_copy.copy_database(copy, young)
    except (StoreError, MaintenanceError):
        young.unlink(missing_ok=True)
        return ""
    return f"{get_owner_time(path.parent, copy.stat().st_mtime):%Y-%m-%d %H:%M}"


def _format_repair_report(why: str, aside: str, saved: Sequence[CopiedTable], copied: str) -> str:
    said = f"{aside.partition(DAMAGED_INFIX)[0]} was damaged ({why}), and is kept as {aside}. "
    torn = [one for one in saved if not one.whole]
    if not torn:
        return f"{said}All of it could be read; nothing is lost."
    rows, older = sum(one.rows for one in saved), sum(one.older for one in torn)
    named = ", ".join(sorted({_TABLE_LABELS[one.table] for one in torn if one.table in _TABLE_LABELS}))
    read = f"{rows} entries could be read" if rows else "Nothing of it could be read"
    rest = f"{older} are as they were on {copied}" if copied else "there was no copy to take the rest from"
    return f"{said}{read}; {rest}. What is newer may be lost{f' of {named}' if named else ''}: look through it."


# A file that says nothing: it goes when the disk is too full for a daemon to begin, and comes back afterwards.

RESERVE_FILE = "reserve"
RESERVE_BYTES = 1 << 20
_MIN_FREE_BYTES = 1 << 18
"""Bytes: what SQLite needs beside three databases to open them."""


def create_reserve(home: Path) -> None:
    """Create the reserve file, unless the disk is nearly full. Raises OSError."""
    path = home / COPIES_FOLDER / RESERVE_FILE
    if not path.exists():
        check_reserve("records", home)
        make_folder(path.parent)
        path.with_name("ballast").unlink(missing_ok=True)  # its name in 0.1
        write_atomic(path, os.urandom(RESERVE_BYTES))  # zeros are no room on a disk that compresses


def release_reserve(home: Path) -> bool:
    """Delete the reserve file if the disk is full; returns whether it did. Raises OSError."""
    path = home / COPIES_FOLDER / RESERVE_FILE
    if not path.exists():
        return False
    disk = os.statvfs(home)
    full = disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES and not disk.f_flag & os.ST_RDONLY
    if full:
        remove_file(path)
    return full


_Rows = Iterator[CheckResult]


def check_home(home: Path) -> _Rows:
    if not home.is_dir():
        yield note("home", f"{home} does not exist yet; picoclaw init creates it")
        return
    for check in (
        _check_permissions,
        _check_settings,
        check_databases,
        _check_memory_index,
        _check_audit_logs,
        _check_pending_work,
        _check_pages,
        check_leftovers,
    ):
        for row in check(home):
            yield row._replace(fix="picoclaw check --repair" if row.repair else "")


def repair_findings(home: Path) -> list[CheckResult]:
    """Repair what can be repaired; returns what was done, or why it could not be."""
    done: list[CheckResult] = []
    for row in list(check_home(home)):
        if row.repair is None:
            continue
        try:
            done += [CheckResult("repaired", row.name, said) for said in row.repair()]
        except PicoclawError as error:
            done.append(bad(row.name, f"cannot be repaired: {error}"))
        except OSError as error:
            done.append(bad(row.name, f"cannot be repaired: {error.filename}: {explain_os_error(error)}"))
    return done


# Whether the databases are whole: every page, every index, every row that refers to another; and their last copy.

_MAX_SHOWN_FAULTS = 3


def check_databases(home: Path) -> _Rows:
    """Check every page of the databases, and the last copy."""
    for name in DATABASE_MIGRATIONS:
        yield _check_database(home / name) if os.path.lexists(home / name) else note(name, "not created yet")
    copy = home / COPIES_FOLDER / "state.db"
    if not copy.exists():
        return
    try:
        found = run_quick_check(copy, DATABASE_MIGRATIONS[copy.name])
    except StoreDamaged as error:
        found = str(error).partition(";")[0]
    except StoreError as error:  # a full disk, say: the copy may be whole, and nothing is taken away for that
        yield bad("last copy", f"cannot be checked: {error}")
        return
    if found == "ok":
        made = get_owner_time(home, copy.stat().st_mtime)
        yield good("last copy", f"of state.db, {made:%Y-%m-%d %H:%M}")
    else:
        yield bad("last copy", found, repair=partial(_delete_copy, copy))


def _check_database(path: Path) -> CheckResult:
    fix = partial(_repair_database_file, path)
    try:
        run_quick_check(path, DATABASE_MIGRATIONS[path.name])
        with (
            translate_sqlite_errors(path),
            closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
        ):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            faults = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_MAX_SHOWN_FAULTS})")]
            if faults != ["ok"]:
                return bad(path.name, "; ".join(faults), repair=fix)
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    except StoreDamaged as error:
        return bad(path.name, str(error).partition(";")[0], repair=fix)
    except StoreError as error:
        return bad(path.name, str(error))
    if orphans:
        named = ", ".join(sorted({f"{table} without their {parent}" for table, _, parent, _ in orphans}))
        return bad(path.name, f"there are {named}", repair=partial(_delete_orphan_rows, path))
    return good(path.name, "intact")


def _repair_database_file(path: Path) -> Sequence[str]:
    mark_suspect(path)
    return [line for line in repair_home(path.parent) if line.startswith(path.name)]


def _delete_orphan_rows(path: Path) -> Sequence[str]:
    with closing(Database(path, DATABASE_MIGRATIONS[path.name])) as database, database.transaction() as connection:
        return [f"{delete_orphans(connection)} orphaned entries were deleted"]


def _delete_copy(copy: Path) -> Sequence[str]:
    for end in ("", *WAL_SUFFIXES):
        copy.with_name(copy.name + end).unlink(missing_ok=True)
    return ["the copy was damaged too and was deleted; the next one is made within a day"]


def _check_memory_index(home: Path) -> _Rows:
    path = home / "memory.db"
    if not path.exists():
        return
    try:
        if index.is_unfilled(path):
            return
        with index.explain_errors(path), closing(index.open_read_only(path)) as connection:
            found = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_MAX_SHOWN_FAULTS})")]
    except StoreError as error:
        found = [str(error)]
    if found == ["ok"]:
        yield good(path.name, "intact")
    else:
        yield bad(path.name, "; ".join(found), repair=partial(_recreate_index, path))


def _recreate_index(path: Path) -> Sequence[str]:
    with index.explain_errors(path):
        index.open_index(path, renew=True).close()
    return ["emptied; the next search rebuilds it from the notes"]


# Whether the files of a home can be read, by nobody else, and what a cut has left lying about.

_PRIVATE_FILES = (
    *("secrets.toml", "state.db", "history.db", "memory.db", "last/state.db"),
    *("audit.log", "audit.head", "outputs.audit", "page_logins.json", "page_tokens.json"),
)
_TEMPORARY_NAME = pattern(r"\.[^/]*\.(\d+)\.\d+(-wal|-shm|-journal)?|\.backup-.*")
_MIN_LEFTOVER_AGE_S = 3600.0
_MAX_PAGE_BYTES = 10_000_000


def _check_permissions(home: Path) -> _Rows:
    files = [home / name for name in _PRIVATE_FILES if (home / name).is_file()]
    wrong = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    for path in wrong:
        yield bad(path.name, f"{path} can be read by others", repair=partial(_restrict_permissions, path, 0o600))
    fix = partial(_restrict_permissions, home, 0o700)
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o022:  # whoever writes to it can replace any file
        yield bad("home", f"{home} can be written by others", repair=fix)
    elif mode & 0o077:
        yield note("home", f"{home} can be listed by others", repair=fix)
    elif not wrong:
        yield good("permissions", f"{home} and the private files in it are readable by their owner only")


def _restrict_permissions(path: Path, mode: int) -> Sequence[str]:
    path.chmod(mode)
    return [f"{path} can now be read by its owner only (mode {mode:04o})"]


def _check_settings(home: Path) -> _Rows:
    torn = [name for name in COPIED_FILES if is_damaged(home, name)]
    for name in torn:
        detail = "damaged, probably by a failing card"
        if (home / COPIES_FOLDER / name).exists() or name.endswith(".json"):
            yield bad(name, detail, repair=partial(repair_home, home))
        else:
            yield bad(name, f"{detail}; there is no copy of it: write a new one")
    if torn:
        return
    try:
        load_config({**os.environ, "PICOCLAW_HOME": str(home)})
    except ConfigError as error:
        yield bad("settings", str(error))
    else:
        yield good("settings", "can be read")


def _check_pages(home: Path) -> _Rows:
    """Look for damage in the owner's pages and notes, which are not copied."""
    found = 0
    for path in sorted((home / "workspace").rglob("*.md")):
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_PAGE_BYTES else b""
        except OSError as error:
            yield bad("notes", f"{path} cannot be read: {explain_os_error(error)}")
            continue
        found += 1
        if b"\0" in data:
            yield bad("notes", f"{path} holds zero bytes, as a failing card leaves them: restore it from a backup")
    yield good("notes", f"{found} pages can be read")


def check_leftovers(home: Path) -> _Rows:
    """Look for unfinished files of interrupted writes, and for damaged files that were set aside."""
    old = time.time() - _MIN_LEFTOVER_AGE_S
    left = [
        p
        for p in home.rglob(".*")
        if (m := _TEMPORARY_NAME.fullmatch(p.name)) and (_is_process_gone(m[1]) or p.lstat().st_mtime < old)
    ]
    if left:
        detail = f"{len(left)} unfinished files of interrupted writes: {', '.join(path.name for path in left[:3])}"
        yield note("leftovers", detail, repair=partial(_delete_leftovers, left))
    if aside := sorted(p.name for p in home.glob(f"*{DAMAGED_INFIX}*") if not p.name.endswith(WAL_SUFFIXES)):
        yield note("damaged files", f"kept for inspection; you may delete them: {', '.join(aside)}")


def _is_process_gone(writer: str | None) -> bool:
    """Whether the process that a temporary file is named after has ended; False if it names none."""
    return bool(writer and int(writer)) and not Path("/proc", str(writer)).exists()


def _delete_leftovers(left: Sequence[Path]) -> Sequence[str]:
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return [f"{len(left)} deleted"]


# Whether what was written down can still be believed: the audits, and what was promised.


def _check_audit_logs(home: Path) -> _Rows:
    """Verify both logs. A torn last record can be closed; changed records are left as they are."""

    def close_torn(write: Callable[[], object]) -> Sequence[str]:
        write()
        return ["the incomplete record is kept and marked as such"]

    logs: tuple[tuple[str, Callable[[Path], tuple[Any, ...]], Callable[[], object]], ...] = (
        (audit.LOG_NAME, audit.verify_audit, lambda: audit.AuditLog(home).write("check")),
        (outputs.AUDIT_FILE, outputs.verify, lambda: outputs.write_record(home, "check")),
    )
    for name, verify, write in logs:
        if not (home / name).exists():
            continue
        try:
            count, *_, fault = verify(home)
            is_torn = bool(fault) and read_file(home / name, links=False)[-1:] not in {b"", b"\n"}
        except OSError as error:
            yield bad(name, f"cannot be read: {explain_os_error(error)}")
            continue
        if not fault:
            yield good(name, hash_chain.describe_intact(count))
        elif is_torn:
            detail = "its last record is incomplete, as after a power cut"
            yield bad(name, detail, repair=partial(close_torn, write))
        else:
            yield bad(name, f"{fault}; it is not repaired; picoclaw audit shows it")


def _check_pending_work(home: Path) -> _Rows:
    """Read everything that is still to be done, as the daemon reads it."""
    path = home / "state.db"
    if not path.exists() or find_interrupted_repair(path):
        return
    try:
        with closing(Database(path)) as database:
            readers: dict[str, Callable[[], Sequence[object]]] = {
                "reminders": Jobs(database).all,
                "inbox": Inbox(database).waiting,
                "outbox": Outbox(database).waiting,
                "sub-agents' tasks": Tasks(database, lambda _: "").unfinished,
                "questions": Approvals(database).waiting,
            }
            for what, read in readers.items():
                try:
                    yield good(what, f"{len(read())} wait")
                except (StoreError, ValueError, TypeError) as error:
                    yield bad(what, f"cannot be read: {error}; picoclaw sessions and picoclaw cron show more")
    except StoreError as error:
        yield bad("promises", str(error).partition(";")[0])
