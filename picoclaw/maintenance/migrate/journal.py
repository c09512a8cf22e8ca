"""Does the steps of a plan once, and takes them back: what is about to be done stands in a journal before it is done.

    migrated/KIND/journal.jsonl     what was begun, done and taken back, a line each
    before-migrate/KIND/            the home as it was before, and each file as it was before it was changed

A run that was killed is gone on with: what is written already is known by its digest, a job that was added by its
number. Neither folder of what was before belongs into a backup.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from picoclaw import files, workspace
from picoclaw.automation.wakeup import wake_all
from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.maintenance.backup import write_backup
from picoclaw.maintenance.install import MaintenanceError, act_as_owner, translate_os_errors
from picoclaw.maintenance.migrate.origins import MOVED_SUFFIX, PROGRAMS, ForeignAgent, Kind, find_daemon
from picoclaw.maintenance.migrate.plan import MigrationPlan, Step, make_content, read_page
from picoclaw.records import NamedTuple
from picoclaw.store.jobs import Job, Jobs
from picoclaw.stores import Stores

Report = Callable[[str], None]


class MigrationState(NamedTuple):
    """What the journal says: when it was begun and ended (seconds since 1970, 0 for not), what was done, agreed to and offered."""

    begun: float = 0.0
    ended: float = 0.0
    home: str = ""
    done: frozenset[str] = frozenset()
    agreed: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()
    is_undoing: bool = False


class MigrationJournal:
    def __init__(self, home: Path, kind: Kind) -> None:
        self.home, self.kind = home, kind
        self.path = home / "migrated" / kind / "journal.jsonl"
        self.kept = home / "before-migrate" / kind

    def read(self) -> list[dict[str, Any]]:
        """Read the records; a line that a cut has torn is none."""
        records = []
        with translate_os_errors(self.path), suppress(FileNotFoundError, NotADirectoryError):
            for line in files.read_file(self.path).decode(errors="replace").splitlines():
                with suppress(ValueError):
                    records.append(dict(json.loads(line)))
        return records

    def state(self) -> MigrationState:
        found = MigrationState()
        for record in self.read():
            if "begin" in record:
                found = found._replace(begun=record["begin"], home=record["home"])
            found = found._replace(
                agreed=found.agreed | frozenset(record.get("agree", ())),
                offered=found.offered | frozenset(record.get("offered", ())),
                ended=record.get("end", found.ended),
                done=found.done | frozenset(filter(None, [record.get("done"), record.get("failed")])),
                is_undoing=found.is_undoing or "undo" in record,
            )
        return found

    def note(self, **record: Any) -> None:
        """Add a record durably."""
        files.append_line(self.path, json.dumps(record, ensure_ascii=False).encode() + b"\n")


def check_daemon(agent: ForeignAgent) -> None:
    """Raise MaintenanceError while the other program runs: it would write what is read, and answer the same bot."""
    pid = find_daemon(agent.kind, agent.home)
    if agent.kind == "picoclaw" and not pid:
        with suppress(OSError, ValueError, KeyError, TypeError):
            named = int(json.loads(files.read_file(agent.home / ".picoclaw.pid"))["pid"])
            pid = named if b"picoclaw" in Path(f"/proc/{named}/cmdline").read_bytes() else 0
    if pid:
        raise MaintenanceError(f"{PROGRAMS[agent.kind].title} still runs (process {pid}): {PROGRAMS[agent.kind].stop}")


def move_aside(agent: ForeignAgent, home: Path) -> Path:
    """Move a Go picoclaw's home out of the place of ours, as a whole and by one rename; returns where it is."""
    target = home.with_name(home.name + MOVED_SUFFIX)
    if agent.home.resolve() != home.resolve() or workspace.is_own_home(home):
        return agent.home
    if os.path.lexists(target):
        raise MaintenanceError(f"{target} is there already, and {home} would be moved there; rename one of them")
    with act_as_owner(home), translate_os_errors(home):
        home.rename(target)
        files.sync_folder(home.parent)
    return target


def run_plan(home: Path, plan: MigrationPlan, agreed: Collection[str], report: Report) -> None:
    """Do the steps that are agreed to and not done yet. Raises MaintenanceError; what is done is in the journal then.

    Steps without a consent of their own are done in the first run only.
    """
    agent = plan.agent
    check_daemon(agent)
    journal = MigrationJournal(home, agent.kind)
    with act_as_owner(home), translate_os_errors(home):
        files.make_folder(journal.path.parent)
        files.make_folder(journal.kept)
        with files.lock_folder(journal.path.parent):
            state = journal.state()
            if state.is_undoing:
                raise MaintenanceError("it is being taken back: `picoclaw migrate --undo` goes on with that")
            if not state.begun:
                if not workspace.is_own_home(home):
                    journal.note(fresh=True)
                workspace.prepare_home(home, restore=any("fresh" in record for record in journal.read()))
                archive = journal.kept / f"home-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
                archive.unlink(missing_ok=True)
                write_backup(home, archive)
                moved = str(home) if agent.home == home.with_name(home.name + MOVED_SUFFIX) else ""
                journal.note(
                    begin=time.time(), home=str(agent.home), backup=archive.name, moved=moved, agree=sorted(agreed)
                )
                report(f"kept what was there before: {archive}")
            elif new := sorted(set(agreed) - state.agreed):
                journal.note(agree=new)
            run = _Run(home, journal, PROGRAMS[agent.kind].title, report)
            with closing(run):
                for step in plan.steps:
                    is_wanted = step.name in {*agreed, *state.agreed} if step.consent else not state.ended
                    if is_wanted and step.name not in state.done:
                        run.do(step)
            if not state.ended:
                journal.note(end=time.time(), offered=[step.name for step in plan.steps if step.consent])
    wake_all(home)


class _Run:
    """One run: does steps, each written down before and after."""

    def __init__(self, home: Path, journal: MigrationJournal, title: str, report: Report) -> None:
        self._home, self._journal, self._title, self._report = home, journal, title, report
        self._begun = {record["doing"]: record for record in journal.read() if "doing" in record}
        self._count = sum("doing" in record for record in journal.read())
        self._stores: Stores | None = None

    def close(self) -> None:
        if self._stores:
            self._stores.close()

    def _open(self) -> Stores:
        if self._stores is None:
            self._stores = Stores(load_config())
        return self._stores

    def do(self, step: Step) -> None:
        """Do a step; a file that cannot be changed is reported, and the rest is done."""
        try:
            if step.how == "job":
                self._add_job(step)
            elif step.how == "move":
                self._move(step)
            else:
                self._write(step)
        except ConfigError as error:
            self._journal.note(failed=step.name)
            self._report(f"not done: {step.told or step.name}: {error}")
            return
        self._journal.note(done=step.name)
        if step.told:
            paused = "; ".join(remark for remark in step.remarks if step.how == "job")
            self._report(f"done: {step.told}{f' ({paused})' if paused else ''}")

    def _write(self, step: Step) -> None:
        is_there = os.path.lexists(self._home / step.path)
        before = read_page(self._home, step.path)
        content = make_content(step, before)
        begun = self._begun.get(step.name)
        if (content == before and is_there) or (content is None and not is_there):
            return
        if begun and is_there and begun["sha"] == _digest(before):
            return  # it was written, and the run was killed before it could say so
        kept = ""
        if is_there:
            self._count += 1
            kept = f"{self._count:04}"
            files.write_atomic(self._journal.kept / kept, before)
        sha = "" if content is None else _digest(content)
        self._journal.note(doing=step.name, path=step.path, before=kept, sha=sha)
        if step.foreign:
            self._open().foreign_files.add(str(self._home / step.path), [self._title])
        write_page(self._home, step.path, content)
        if step.how == "set":
            try:
                load_config()
            except ConfigError:
                write_page(self._home, step.path, before if is_there else None)
                raise

    def _add_job(self, step: Step) -> None:
        jobs, wanted = self._open().jobs, step.value
        there = jobs.all()
        begun = self._begun.get(step.name)
        if begun is None and any(_is_same_job(job, _describe_job(wanted)) for job in there):
            return  # the owner has it already
        if begun is None:
            last = max((job.number for job in there), default=0)
            begun = {"doing": step.name, "job": _describe_job(wanted), "last": last}
            self._journal.note(**begun)
        if not any(job.number > begun["last"] and _is_same_job(job, begun["job"]) for job in there):
            jobs.add(wanted)

    def _move(self, step: Step) -> None:
        self._journal.note(doing=step.name, move=step.path, to=step.value)
        _rename(self._home / step.path, Path(step.value))


def write_page(home: Path, path: str, content: bytes | None) -> None:
    """Write a file of ours durably, through no link out of the home; None takes it away. Raises OSError, ConfigError."""
    place = files.resolve_below(str(home.resolve()), f"{home.resolve()}/{path}")
    if place is None or not place.parts:
        raise ConfigError(f"{home / path} is a link that leads out of the home; put a copy in its place")
    with files.open_folder(place.above, make=content is not None) as folder:
        if content is not None:
            files.write_atomic(Path(place.parts[-1]), content, folder=folder)
        else:
            with suppress(FileNotFoundError):
                os.unlink(place.parts[-1], dir_fd=folder)
            os.fsync(os.open(place.above.path, os.O_RDONLY | os.O_DIRECTORY))


def _rename(source: Path, target: Path) -> None:
    if os.path.lexists(source) and not os.path.lexists(target):
        files.make_folder(target.parent)
        source.rename(target)
        files.sync_folder(target.parent)
        files.sync_folder(source.parent)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _describe_job(job: Job) -> list[str]:
    return [job.session, job.payload, job.kind, job.plan.kind, job.plan.text, job.plan.zone]


def _is_same_job(job: Job, wanted: list[str]) -> bool:
    return _describe_job(job) == wanted


# The way back: the last step first. What was changed since is left as it is, and said.


def undo(home: Path, kind: Kind) -> Iterator[str]:
    """Take back all that was done, and say what could not be. Raises MaintenanceError."""
    journal = MigrationJournal(home, kind)
    beside = home.with_name(home.name + MOVED_SUFFIX)
    if kind == "picoclaw" and not home.exists() and beside.exists() and any(home.parent.glob(f"{home.name}.undone-*")):
        _rename(beside, home)
        yield f"{home} is the Go program's again"
        return
    if not journal.state().begun:
        raise MaintenanceError(f"nothing was taken over from {PROGRAMS[kind].title}")
    with act_as_owner(home), translate_os_errors(home), files.lock_folder(journal.path.parent):
        records = journal.read()
        undone = {record["undone"] for record in records if "undone" in record}
        if not any("undo" in record for record in records):
            journal.note(undo=time.time())
        waiting = [(number, one) for number, one in enumerate(records) if "doing" in one and number not in undone]
        with closing(Stores(load_config())) as stores:
            while waiting:
                number, record = waiting.pop()
                said = list(_undo_step(home, journal, record, stores.jobs))
                journal.note(undone=number)
                if not any(
                    other["path"] == record["path"] for _, other in waiting if "path" in other and "path" in record
                ):
                    yield from said
        moved = next((record.get("moved", "") for record in records if "begin" in record), "")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        if not moved:  # else it goes with the folder
            journal.path.replace(journal.path.with_name(f"undone-{stamp}.jsonl"))
            files.sync_folder(journal.path.parent)
        for kept in journal.kept.glob("[0-9]*"):  # they may hold keys
            kept.unlink()
    wake_all(home)
    if moved and beside.exists():
        with act_as_owner(home), translate_os_errors(home):
            _rename(home, home.with_name(f"{home.name}.undone-{stamp}"))
            _rename(beside, home)
        yield f"{home} is the Go program's again; what was made here is in {home.name}.undone-{stamp}"


def _undo_step(home: Path, journal: MigrationJournal, record: dict[str, Any], jobs: Jobs) -> Iterator[str]:
    if "job" in record:
        for job in jobs.all():
            if job.number > record["last"] and _is_same_job(job, record["job"]):
                jobs.remove(job.session, job.number)
                yield f"removed job {job.number}: {job.payload[:60]}"
                return
        return
    if "move" in record:
        _rename(Path(record["to"]), home / record["move"])
        for folder in Path(record["to"]).parents:
            if folder == home.parent:
                break
            with suppress(OSError):
                folder.rmdir()
        yield f"moved {record['move']} back"
        return
    path = record["path"]
    is_there = os.path.lexists(home / path)
    now = read_page(home, path)
    before = files.read_file(journal.kept / record["before"]) if record["before"] else None
    if (now if is_there else None) == before:
        return
    if (_digest(now) if is_there else "") != record["sha"]:
        kept = f"; what it was is {journal.kept / record['before']}" if record["before"] else ""
        yield f"left as it is, for it was changed since: {path}{kept}"
        return
    write_page(home, path, before)
    for folder in (home / path).parents if before is None else ():
        if folder in {home, home / "workspace"}:
            break
        with suppress(OSError):
            folder.rmdir()
    yield f"{path} is as it was" if before is not None else f"removed {path}"
