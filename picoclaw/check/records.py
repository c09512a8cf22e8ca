"""Whether what was written down can still be believed: the audits, and what was promised."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from picoclaw.care import mend
from picoclaw.check.finding import Finding
from picoclaw.disk import explain
from picoclaw.errors import StoreError
from picoclaw.reflex import audit as outputs
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database
from picoclaw.store.inbox import Inbox
from picoclaw.store.jobs import Jobs
from picoclaw.store.outbox import Outbox
from picoclaw.store.tasks import Tasks
from picoclaw.trust import audit, chain


def audits(home: Path) -> Iterator[Finding]:
    """Hold every record against the one before it. What was changed stays to be seen; a torn end is closed."""
    for name, verify in ((audit.NAME, _of_calls), (outputs.NAME, _of_outputs)):
        if not (home / name).exists():
            continue
        try:
            good, fault = verify(home)
        except OSError as error:
            yield Finding("bad", name, f"cannot be read: {explain(error)}")
            continue
        if not fault:
            yield Finding("good", name, f"{good} records follow from each other")
        elif _is_torn(home / name):
            yield Finding("bad", name, "its last record was torn by a cut", partial(_closed, home / name))
        else:
            yield Finding("bad", name, f"{fault}; it is left as it is, and picoclaw audit shows it")


def _of_calls(home: Path) -> tuple[int, str]:
    found = audit.verify(home)
    return found.good, found.fault


def _of_outputs(home: Path) -> tuple[int, str]:
    return outputs.verify(home)


def _is_torn(path: Path) -> bool:
    data = chain.content(path)
    return bool(data) and not data.endswith(b"\n")


def _closed(path: Path) -> Sequence[str]:
    if path.name == audit.NAME:
        audit.Audit(path.parent).write("check")
    else:
        outputs.write(path.parent, "check")
    return ["the torn record is kept in one that says so"]


def promises(home: Path) -> Iterator[Finding]:
    """Read every promise as those do who keep it."""
    path = home / "state.db"
    if not path.exists() or mend.begun(path):
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
                yield _read(what, partial(read, database))
    except StoreError as error:
        yield Finding("bad", "promises", str(error).partition(";")[0])


def _read(what: str, read: partial[int]) -> Finding:
    try:
        return Finding("good", what, f"{read()} wait")
    except (StoreError, ValueError, TypeError) as error:
        return Finding("bad", what, f"cannot be read: {error}; picoclaw sessions and picoclaw cron show more")
