"""What the check finds: a thing, how it is, and what mends it."""

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

from picoclaw.config import load_config
from picoclaw.errors import ConfigError, PicoclawError, StoreDamaged, StoreError
from picoclaw.files import DAMAGED_INFIX, explain_os_error
from picoclaw.maintenance import database_copy as care
from picoclaw.maintenance import repair
from picoclaw.memory import index
from picoclaw.outputs import audit as outputs
from picoclaw.security import audit, hash_chain
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import COPIES_FOLDER, Database, mark_suspect, run_quick_check, translate_sqlite_errors
from picoclaw.store.inbox import Inbox
from picoclaw.store.jobs import Jobs
from picoclaw.store.outbox import Outbox
from picoclaw.store.salvage import delete_orphans
from picoclaw.store.tasks import Tasks
from picoclaw.workspace.pages import get_owner_time


class Finding(NamedTuple):
    """One thing that was looked at. `bad`: something is lost or in danger; a `note` is good to know.

    `mend` puts it right and says what it did, None where only a person can; it raises PicoclawError or OSError.
    """

    mark: Literal["good", "note", "bad", "mended"]
    what: str
    how: str
    mend: Callable[[], Sequence[str]] | None = None


# Whether the databases are whole: every page, every index, every row that refers to another; and their last copy.

_MAX_SHOWN_FAULTS = 3


def check_databases(home: Path) -> Iterator[Finding]:
    """Look through the databases from the first page to the last."""
    for name in repair.DATABASE_MIGRATIONS:
        if os.path.lexists(home / name):
            yield _check_database(home / name)
        else:
            yield Finding("note", name, "not made yet")
    copy = home / COPIES_FOLDER / "state.db"
    if not copy.exists():
        return
    try:
        found = run_quick_check(copy, repair.DATABASE_MIGRATIONS[copy.name])
    except StoreDamaged as error:
        found = str(error).partition(";")[0]
    except StoreError as error:  # a full disk, say: the copy may be whole, and nothing is taken away for that
        yield Finding("bad", "last copy", f"cannot be looked at: {error}")
        return
    if found == "ok":
        made = get_owner_time(home, copy.stat().st_mtime)
        yield Finding("good", "last copy", f"of state.db, {made:%d %b %Y %H:%M}")
    else:
        yield Finding("bad", "last copy", found, partial(_delete_copy, copy))


def _check_database(path: Path) -> Finding:
    try:
        found, orphans = _list_faults(path)
    except StoreDamaged as error:
        return Finding("bad", path.name, str(error).partition(";")[0], partial(_repair_database_file, path))
    except StoreError as error:
        return Finding("bad", path.name, str(error))
    if found:
        return Finding("bad", path.name, "; ".join(found), partial(_repair_database_file, path))
    if orphans:
        return Finding("bad", path.name, f"there are {', '.join(orphans)}", partial(_delete_orphan_rows, path))
    return Finding("good", path.name, "whole")


def _list_faults(path: Path) -> tuple[list[str], list[str]]:
    """Say what is wrong with a file, and which of its rows refer to nothing. Raises StoreError."""
    run_quick_check(path, repair.DATABASE_MIGRATIONS[path.name])
    with (
        translate_sqlite_errors(path),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        rows = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_MAX_SHOWN_FAULTS})")]
        if rows != ["ok"]:
            return rows, []
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return [], sorted({f"{table} without their {parent}" for table, _, parent, _ in orphans})


def _repair_database_file(path: Path) -> Sequence[str]:
    mark_suspect(path)
    return [line for line in repair.repair_home(path.parent) if line.startswith(path.name)]


def _delete_orphan_rows(path: Path) -> Sequence[str]:
    with (
        closing(Database(path, repair.DATABASE_MIGRATIONS[path.name])) as database,
        database.transaction() as connection,
    ):
        return [f"{delete_orphans(connection)} entries that belong to nothing were taken away"]


def _delete_copy(copy: Path) -> Sequence[str]:
    for end in ("", *care.WAL_SUFFIXES):
        copy.with_name(copy.name + end).unlink(missing_ok=True)
    return ["the copy, which was damaged itself, was taken away; the next is made within a day"]


def check_memory_index(home: Path) -> Iterator[Finding]:
    """Look through the index of the notes, which can be made again."""
    path = home / "memory.db"
    if not path.exists():
        return
    try:
        with index.explain_errors(path), closing(index.open_read_only(path)) as connection:
            found = [str(row) for (row,) in connection.execute(f"PRAGMA integrity_check({_MAX_SHOWN_FAULTS})")]
    except StoreError as error:
        found = [str(error)]
    if found == ["ok"]:
        yield Finding("good", path.name, "whole")
    else:
        yield Finding("bad", path.name, "; ".join(found), partial(_recreate_index, path))


def _recreate_index(path: Path) -> Sequence[str]:
    with index.explain_errors(path):
        index.open_index(path, renew=True).close()
    return ["emptied; the next search makes it again from the notes"]


# Whether the files of a home can be read, by nobody else, and what a cut has left lying about.

_PRIVATE_FILES = (
    "secrets.toml",
    "state.db",
    "history.db",
    "audit.log",
    "audit.head",
    "page_logins.json",
    "memory.db",
    "outputs.audit",
    "last/state.db",
)
_TEMPORARY_NAME = re.compile(r"\.[^/]*\.(\d+)\.\d+(-wal|-shm|-journal)?|\.backup-.*")
_MIN_LEFTOVER_AGE_S = 3600.0
_MAX_PAGE_BYTES = 10_000_000


def check_permissions(home: Path) -> Iterator[Finding]:
    """Look whether others may read what is nobody's business."""
    files = [home / name for name in _PRIVATE_FILES if (home / name).is_file()]
    wrong = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    for path in wrong:
        yield Finding("bad", path.name, f"{path} can be read by others", partial(_restrict_permissions, path, 0o600))
    if opened := stat.S_IMODE(home.stat().st_mode) & 0o077:
        mark: Literal["bad", "note"] = "bad" if opened & 0o022 else "note"  # whoever writes to it can replace any file
        may = "written" if opened & 0o022 else "listed"
        yield Finding(mark, "home", f"{home} can be {may} by others", partial(_restrict_permissions, home, 0o700))
    elif not wrong:
        yield Finding("good", "permissions", f"{home} and what is private in it are the owner's alone")


def _restrict_permissions(path: Path, mode: int) -> Sequence[str]:
    path.chmod(mode)
    return [f"{path} is the owner's alone now (mode {mode:04o})"]


def check_settings(home: Path) -> Iterator[Finding]:
    """Read the settings, and look for damage in the small files."""
    torn = [name for name in repair.COPIED_FILES if repair.is_damaged(home, name)]
    for name in torn:
        copied = (home / COPIES_FOLDER / name).exists() or name.endswith(".json")
        put_back = partial(repair.repair_home, home) if copied else None
        better = "" if copied else "; there is no copy of it: write it anew"
        yield Finding("bad", name, f"damaged, as a failing card leaves files{better}", put_back)
    if torn:
        return
    try:
        load_config({**os.environ, "PICOCLAW_HOME": str(home)})
    except ConfigError as error:
        yield Finding("bad", "settings", str(error))
    else:
        yield Finding("good", "settings", "can be read")


def check_pages(home: Path) -> Iterator[Finding]:
    """Look for damage in the owner's pages and notes, of which there is one copy only: theirs."""
    found = 0
    for path in sorted((home / "workspace").rglob("*.md")):
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_PAGE_BYTES else b""
        except OSError as error:
            yield Finding("bad", "notes", f"{path} cannot be read: {explain_os_error(error)}")
            continue
        found += 1
        if b"\0" in data:
            yield Finding("bad", "notes", f"{path} holds zeros, as a failing card leaves them: bring it from a backup")
    yield Finding("good", "notes", f"{found} pages can be read")


def check_leftovers(home: Path) -> Iterator[Finding]:
    """Look for what a cut has left half made, and for damaged files that are kept to be looked at."""
    old = time.time() - _MIN_LEFTOVER_AGE_S
    left = [
        p
        for p in home.rglob(".*")
        if (m := _TEMPORARY_NAME.fullmatch(p.name)) and (_is_process_gone(m[1]) or p.lstat().st_mtime < old)
    ]
    if left:
        named = ", ".join(path.name for path in left[:3])
        yield Finding(
            "note", "leftovers", f"{len(left)} of writing that was cut off: {named}", partial(_delete_leftovers, left)
        )
    aside = sorted(p.name for p in home.glob(f"*{DAMAGED_INFIX}*") if not p.name.endswith(care.WAL_SUFFIXES))
    if aside:
        yield Finding("note", "damaged files", f"kept to be looked at, and yours to delete: {', '.join(aside)}")


def _is_process_gone(writer: str | None) -> bool:
    """Tell whether the process that a half-written file is named after lives no more; what names none is not known."""
    return bool(writer and int(writer)) and not Path("/proc", str(writer)).exists()


def _delete_leftovers(left: Sequence[Path]) -> Sequence[str]:
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return [f"{len(left)} taken away"]


# Whether what was written down can still be believed: the audits, and what was promised.


def check_audit_logs(home: Path) -> Iterator[Finding]:
    """Hold every record against the one before it. What was changed stays to be seen; a torn end is closed."""
    for name, verify in ((audit.LOG_NAME, _verify_call_audit), (outputs.AUDIT_FILE, _verify_output_audit)):
        if not (home / name).exists():
            continue
        try:
            good, fault = verify(home)
        except OSError as error:
            yield Finding("bad", name, f"cannot be read: {explain_os_error(error)}")
            continue
        if not fault:
            yield Finding("good", name, f"{good} records follow from each other")
        elif _is_torn(home / name):
            yield Finding("bad", name, "its last record was torn by a cut", partial(_close_torn_record, home / name))
        else:
            yield Finding("bad", name, f"{fault}; it is left as it is, and picoclaw audit shows it")


def _verify_call_audit(home: Path) -> tuple[int, str]:
    found = audit.verify_audit(home)
    return found.good, found.fault


def _verify_output_audit(home: Path) -> tuple[int, str]:
    return outputs.verify(home)


def _is_torn(path: Path) -> bool:
    data = hash_chain.read_regular_file(path)
    return bool(data) and not data.endswith(b"\n")


def _close_torn_record(path: Path) -> Sequence[str]:
    if path.name == audit.LOG_NAME:
        audit.AuditLog(path.parent).write("check")
    else:
        outputs.write_record(path.parent, "check")
    return ["the torn record is kept in one that says so"]


def check_pending_work(home: Path) -> Iterator[Finding]:
    """Read every promise as those do who keep it."""
    path = home / "state.db"
    if not path.exists() or repair.find_interrupted_repair(path):
        return
    readers = {
        "reminders": lambda database: len(Jobs(database).all()),
        "inbox": lambda database: len(Inbox(database).waiting()),
        "outbox": lambda database: len(Outbox(database).waiting()),
        "helpers' tasks": lambda database: len(Tasks(database, lambda _: "").unfinished()),
        "questions": lambda database: len(Approvals(database).waiting()),
    }
    try:
        with closing(Database(path)) as database:
            for what, read in readers.items():
                yield _check_readable(what, partial(read, database))
    except StoreError as error:
        yield Finding("bad", "promises", str(error).partition(";")[0])


def _check_readable(what: str, read: partial[int]) -> Finding:
    try:
        return Finding("good", what, f"{read()} wait")
    except (StoreError, ValueError, TypeError) as error:
        return Finding("bad", what, f"cannot be read: {error}; picoclaw sessions and picoclaw cron show more")


# `picoclaw check`: whether everything that is kept in a home is whole, and what mends what is not.
#
# It looks at what it can without an app, a board or a model, changes nothing unless it is to mend, and raises nothing.
# The doctor asks whether the set-up works; this asks whether anything was lost.


def check_home(home: Path) -> Iterator[Finding]:
    """Look at everything in turn."""
    if not home.is_dir():
        yield Finding("note", "home", f"{home} does not exist yet; picoclaw init makes it")
        return
    yield from check_permissions(home)
    yield from check_settings(home)
    yield from check_databases(home)
    yield from check_memory_index(home)
    yield from check_audit_logs(home)
    yield from check_pending_work(home)
    yield from check_pages(home)
    yield from check_leftovers(home)


def repair_findings(home: Path) -> list[Finding]:
    """Mend what can be mended; returns what was done, or why it could not be."""
    done: list[Finding] = []
    for finding in list(check_home(home)):
        if finding.mend is None:
            continue
        try:
            done += [Finding("mended", finding.what, said) for said in finding.mend()]
        except PicoclawError as error:
            done.append(Finding("bad", finding.what, f"cannot be mended: {error}"))
        except OSError as error:
            done.append(Finding("bad", finding.what, f"cannot be mended: {error.filename}: {explain_os_error(error)}"))
    return done
