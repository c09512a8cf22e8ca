"""`picoclaw check`: whether everything that is kept in a home is whole, and how to repair what is not.

It looks at what it can without an app, a board or a model, changes nothing unless it is asked to repair, and raises nothing.
The doctor asks whether the set-up works; this asks whether anything was lost.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from picoclaw.config import load_config
from picoclaw.errors import ConfigError, PicoclawError, StoreDamaged, StoreError
from picoclaw.files import DAMAGED_INFIX, explain_os_error, read_file
from picoclaw.hw.health import CheckResult, bad, good, note
from picoclaw.maintenance import repair
from picoclaw.maintenance.database_copy import DATABASE_MIGRATIONS, WAL_SUFFIXES
from picoclaw.memory import index
from picoclaw.outputs import audit as outputs
from picoclaw.security import audit, hash_chain
from picoclaw.store.approvals import Approvals
from picoclaw.store.copy_rows import delete_orphans
from picoclaw.store.database import COPIES_FOLDER, Database, mark_suspect, run_quick_check, translate_sqlite_errors
from picoclaw.store.inbox import Inbox
from picoclaw.store.jobs import Jobs
from picoclaw.store.outbox import Outbox
from picoclaw.store.tasks import Tasks
from picoclaw.text import pattern
from picoclaw.workspace.pages import get_owner_time

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
    return [line for line in repair.repair_home(path.parent) if line.startswith(path.name)]


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
    torn = [name for name in repair.COPIED_FILES if repair.is_damaged(home, name)]
    for name in torn:
        detail = "damaged, probably by a failing card"
        if (home / COPIES_FOLDER / name).exists() or name.endswith(".json"):
            yield bad(name, detail, repair=partial(repair.repair_home, home))
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
    if not path.exists() or repair.find_interrupted_repair(path):
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
