"""`picoclaw migrate`: takes the home of another agent over, in steps that are each done once and can be taken back.

A home of an earlier picoclaw is brought up to date in store/database.py and, its settings, in setup.py.

What is about to be done stands in a journal before it is done. A run that was killed is gone on with: what is written
already is known by its digest, a job that was added by its number. Neither folder of what was before belongs into a
backup.
"""

import difflib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from picoclaw import files, schedules, workspace
from picoclaw.automation.clock import boottime, read_boot_id, wake_all
from picoclaw.config import Config, load_config
from picoclaw.config.files import set_value
from picoclaw.errors import ConfigError, ToolError
from picoclaw.files import explain_os_error, find_shipped, open_rooted, resolve_below
from picoclaw.maintenance import MaintenanceError, act_as_owner, translate_os_errors
from picoclaw.maintenance.backup import write_backup
from picoclaw.maintenance.foreign_homes import (
    MOVED_SUFFIX,
    PROGRAMS,
    ForeignAgent,
    ForeignJob,
    Kind,
    find_absent_tools,
    find_daemon,
)
from picoclaw.memory.files import FOREIGN, MAX_ENTRY_CHARS, flatten, format_memory_entry, parse_entries
from picoclaw.memory.notes import get_day_file
from picoclaw.messages import DEFAULT_SESSION
from picoclaw.records import NamedTuple
from picoclaw.schedules import Plan
from picoclaw.skills import SKILL_FILE, list_home_tiers
from picoclaw.store.jobs import Job, Jobs
from picoclaw.stores import Stores
from picoclaw.text import pattern, truncate
from picoclaw.times import parse_zone
from picoclaw.tools.exec import parse_command
from picoclaw.tools.onboarding import read_zone, set_field
from picoclaw.workspace import ONBOARDING_PAGE

Consent = Literal["", "page", "key", "skill"]
"""What is asked for by itself; "" goes with the whole."""

MOVED_NAMES = (
    ".security.yml",
    ".picoclaw.pid",
    "auth.json",
    "logs",
    "workspace/AGENT.md",
    "workspace/heartbeat.log",
    "workspace/state",
    "workspace/sessions",
    "workspace/cron",
    "config.json",
)
"""What is a Go picoclaw's alone in a home that it shares with ours; config.json, by which it is known, goes last."""

_ROOM = pattern(r"![^\s/?#]{1,250}")
_MAX_JOB_CHARS = 4000
_MAX_JOBS = 100


class Step(NamedTuple):
    """One thing to do: a file of ours to write, a job to add or a file to move, and how a person is told of it.

    `how` says what is done to the file `path` in our home with `value`; `name` is the step's own in the journal.
    """

    name: str
    told: str
    consent: Consent = ""
    how: Literal["write", "append", "set", "field", "remove", "job", "move"] = "write"
    path: str = ""
    value: Any = None
    foreign: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The page, key or skill that it is about."""
        return self.name.partition(" ")[2].partition(" ")[0]


class MigrationPlan(NamedTuple):
    """The steps in their order, what is left out and why, and the home that they are for."""

    agent: ForeignAgent
    steps: list[Step]
    left: list[tuple[str, str]]
    home: Path


def make_plan(
    agent: ForeignAgent, config: Config, now: datetime, *, keys: bool, jobs: int = 0, agreed: Collection[str] = ()
) -> MigrationPlan:
    """Decide what becomes of each thing.

    `keys` says that keys are taken, `jobs` counts those that there are, `agreed` names steps of a run to go on with.
    """
    left = list(agent.not_taken)
    title = PROGRAMS[agent.kind].title
    with suppress(ValueError):
        now = now.astimezone(parse_zone(agent.zone)) if agent.zone else now
    notes = [] if shares_workspace(agent, config) else _plan_notes(agent, title)
    steps = [*_plan_pages(agent, config, title), *notes, *_plan_zone(agent, config, left)]
    steps += [*_plan_settings(agent, config, left), *_plan_keys(agent, config, left)]
    steps += [step for name in sorted(agent.skills) for step in _plan_skill(agent, config, name, agreed, left)]
    tokens = {
        "telegram": config.telegram_token or (keys and agent.telegram_token),
        "matrix": config.matrix_token or (keys and agent.matrix_token),
    }
    people = {*map(str, (*agent.telegram_people, *config.telegram.allow))}
    for job in agent.jobs:
        if jobs >= _MAX_JOBS:
            left.append((f"job {job.name}", f"there are {_MAX_JOBS} already"))
            continue
        try:
            made, why = _make_job(job, now, people, [name for name, token in tokens.items() if token])
        except (ValueError, OverflowError, ToolError) as error:
            left.append((f"job {job.name}", str(error)))
            continue
        jobs += 1
        when = schedules.describe_plan(made.plan)
        if made.plan.kind == "at":
            when = f"{datetime.fromtimestamp(made.plan.anchor, now.tzinfo):%Y-%m-%d %H:%M}"
        kind = "" if made.kind == "reminder" else "a command, " if made.kind == "command" else "a task for the model, "
        where = "" if made.session == DEFAULT_SESSION else f", told in {made.session}"
        told = f"job {job.name}: {kind}{when}{where}: {truncate(' '.join(made.payload.split()), 60)}"
        remarks = [f"paused: {why}"] if why else []
        if made.plan.kind == "cron" and not made.plan.zone:
            remarks.append("no zone is said there: it goes by the board's own")
        steps.append(Step(f"job {job.id}", told, how="job", value=made, remarks=tuple(remarks)))
    if agent.kind == "picoclaw" and _is_same(agent.home, config.home):
        beside = agent.home.with_name(f"{agent.home.name}-sipeed")
        names = sorted(path.name for path in agent.home.glob("config.json.*")) + list(MOVED_NAMES)
        for name in names:
            if (agent.home / name).exists():
                steps.append(
                    Step(f"move {name}", f"{name}: moved to {beside}", how="move", path=name, value=str(beside / name))
                )
        left.append(("pages, memory and skills", "both programs use those in this workspace; they stay as they are"))
    return MigrationPlan(agent, steps, left, config.home)


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def shares_workspace(agent: ForeignAgent, config: Config) -> bool:
    return _is_same(agent.workspace, config.workspace)


def _plan_pages(agent: ForeignAgent, config: Config, title: str) -> Iterator[Step]:
    if shares_workspace(agent, config):
        return
    for name, text in agent.pages.items():
        before = read_page(config.home, f"workspace/{name}")
        own = before.decode(errors="replace")
        if text.strip() in own:
            continue
        remarks = tuple(find_absent_tools(text))
        count = f"{text.count(chr(10))} lines"
        if name == "memory/MEMORY.md" and parse_entries(own):
            section = f"\n## From {title}\n\n{text}"
            yield Step(
                f"page {name}", f"{name}: {count}, added below yours", "page", "append", f"workspace/{name}", section
            )
            continue
        shipped = find_shipped("templates") / "workspace" / name
        is_own = bool(before) and shipped.exists() and before != shipped.read_bytes()
        told = (
            f"{name}: {count}, {'in the place of yours, which is kept' if is_own else 'in the place of the template'}"
        )
        yield Step(f"page {name}", told, "page", "write", f"workspace/{name}", text, remarks=remarks)
    if {"USER.md", "IDENTITY.md"} & set(agent.pages):
        page = f"workspace/{ONBOARDING_PAGE}"
        yield Step("first meeting", "the first meeting is left out: it has your pages", how="remove", path=page)


def _plan_notes(agent: ForeignAgent, title: str) -> Iterator[Step]:
    """Notes of days are marked as not from the owner: nobody has looked at each of them."""
    for day in sorted(agent.notes):
        lines = [line for stamp, body in agent.notes[day] for line in _format_entry(stamp, body, title)]
        path = f"workspace/{get_day_file(day)}"
        told = f"notes of {day}: {len(lines)}"
        yield Step(f"notes {day}", told, how="append", path=path, value=_NoteLines(f"# {day}\n\n", lines))


class _NoteLines(NamedTuple):
    head: str
    lines: list[str]


def _format_entry(stamp: str, body: str, title: str) -> Iterator[str]:
    words, most = flatten(body), MAX_ENTRY_CHARS - 100
    while words:
        cut = len(words) if len(words) <= most else (words.rfind(" ", 0, most) + 1) or most
        yield format_memory_entry("- ", stamp, f"{FOREIGN}: {title}", words[:cut].strip())
        words = words[cut:]


def _plan_zone(agent: ForeignAgent, config: Config, left: list[tuple[str, str]]) -> Iterator[Step]:
    if not agent.zone or read_zone(read_page(config.home, "workspace/USER.md")) is not None:
        return
    try:
        zone = str(parse_zone(agent.zone))
    except ValueError as error:
        left.append((f"time zone {agent.zone[:40]}", str(error)))
        return
    yield Step("time zone", f"time zone {zone}, in USER.md", how="field", path="workspace/USER.md", value=zone)


def _plan_settings(agent: ForeignAgent, config: Config, left: list[tuple[str, str]]) -> Iterator[Step]:
    model, ours = agent.model, config.model
    if model and ours.base_url and (ours.base_url, ours.name) != (model.base_url, model.name):
        left.append((f"model {model.name}", f"yours stays: {ours.name or 'the usual one'} at {ours.shown_url}"))
    elif model and not ours.base_url:
        entries: list[tuple[str, str, Any]] = [("model", "base_url", model.base_url), ("model", "name", model.name)]
        if model.api != "openai":
            entries.append(("model", "api", model.api))
        if 1024 <= model.context_tokens <= 10_000_000:
            entries.append(("model", "context_tokens", model.context_tokens))
        yield Step("model", f"model {model.name} at {model.base_url}", how="set", path="config.toml", value=entries)
    if new := [number for number in agent.telegram_people if number not in config.telegram.allow]:
        entries = [("telegram", "allow", [*config.telegram.allow, *new])]
        told = f"Telegram: {', '.join(map(str, new))} may talk to the bot"
        yield Step("telegram people", told, how="set", path="config.toml", value=entries)
    server, matrix = agent.matrix_server, config.matrix
    if server and matrix.homeserver not in {"", server}:
        left.append((f"Matrix account at {server}", f"yours stays, at {matrix.homeserver}"))
    elif server:
        if not matrix.homeserver:
            entries = [("matrix", "homeserver", server)]
            yield Step("matrix", f"Matrix: the account at {server}", how="set", path="config.toml", value=entries)
        if people := [user for user in agent.matrix_people if user not in matrix.allow]:
            entries = [("matrix", "allow", [*matrix.allow, *people])]
            told = f"Matrix: {', '.join(people)} may talk to it"
            yield Step("matrix people", told, how="set", path="config.toml", value=entries)


def _plan_keys(agent: ForeignAgent, config: Config, left: list[tuple[str, str]]) -> Iterator[Step]:
    model = agent.model
    if model and model.key and not config.api_key and config.model.base_url in {"", model.base_url}:
        value = [("", "api_key", model.key)]
        yield Step("key api_key", f"the API key for {model.base_url}", "key", "set", "secrets.toml", value)
    if agent.matrix_token and not config.matrix_token and config.matrix.homeserver in {"", agent.matrix_server}:
        value = [("", "matrix_token", agent.matrix_token)]
        yield Step(
            "key matrix_token",
            f"the token of the account at {agent.matrix_server}",
            "key",
            "set",
            "secrets.toml",
            value,
        )
    if agent.telegram_token and config.telegram_token:
        if agent.telegram_token != config.telegram_token:
            left.append(("Telegram token", "yours stays"))
    elif agent.telegram_token:
        value = [("", "telegram_token", agent.telegram_token)]
        yield Step("key telegram_token", "the token of the Telegram bot", "key", "set", "secrets.toml", value)


def _plan_skill(
    agent: ForeignAgent, config: Config, name: str, agreed: Collection[str], left: list[tuple[str, str]]
) -> Iterator[Step]:
    skill = agent.skills[name]
    if shares_workspace(agent, config):
        return
    tier = next((tier for tier, folder in list_home_tiers(config.home) if (folder / name).exists()), "")
    if tier and f"skill {name} {SKILL_FILE}" not in agreed:  # else it is there because a run was killed
        if not all(
            read_page(config.home, f"workspace/skills/{name}/{path}") == data for path, data in skill.files.items()
        ):
            left.append((f"skill {name}", f"there is a {tier} skill of that name"))
        return
    told = f"skill {name} ({len(skill.files)} files): {skill.description}"
    for number, path in enumerate(sorted(skill.files)):
        place = f"workspace/skills/{name}/{path}"
        said = told if not number else ""
        remarks = skill.notes if not number else ()
        yield Step(
            f"skill {name} {path}", said, "skill", "write", place, skill.files[path], path != "SKILL.md", remarks
        )


def _make_job(job: ForeignJob, now: datetime, people: Collection[str], channels: Collection[str]) -> tuple[Job, str]:
    """Make a job of ours, and say why it is paused, '' if it is not. Raises ValueError and ToolError for what cannot be."""
    if len(job.text) > _MAX_JOB_CHARS:
        raise ValueError(f"its text has {len(job.text)} characters; at most {_MAX_JOB_CHARS} are taken")
    wall = now.timestamp()
    boot, mono, after = "", 0.0, 0.0
    if job.expression:
        zone = str(parse_zone(job.zone)) if job.zone else ""
        plan, after = schedules.plan_cron(job.expression, zone, now), wall
    elif job.interval_s:
        due = job.next_at if wall < job.next_at <= wall + job.interval_s else wall + job.interval_s
        plan, boot, mono = schedules.plan_interval(job.interval_s, due), read_boot_id(), boottime() + due - wall
    elif job.at:
        if job.at <= wall:
            raise ValueError(f"it was due on {datetime.fromtimestamp(job.at, now.tzinfo):%Y-%m-%d %H:%M}")
        plan = Plan("at", anchor=job.at)
    else:
        raise ValueError("when it is due is not said")
    session, why = DEFAULT_SESSION, "" if job.is_on else "it was off there"
    if (job.channel == "telegram" and job.chat in people) or (job.channel == "matrix" and _ROOM.fullmatch(job.chat)):
        session = f"{job.channel}:{job.chat}"
        if job.channel not in channels:
            why = f"{job.channel} has no token here; `picoclaw cron enable` lets it go on when it has"
    elif job.channel:
        why = f"it was told in {job.channel} {job.chat}".rstrip() + ", which is not here"
    kind: Any = {"reminder": "reminder", "task": "fresh", "command": "command"}[job.kind]
    if job.kind == "command":
        parse_command((), job.text, shell=False)
        why = "it runs a command; `picoclaw cron enable` asks for what that may do"
    made = Job(0, session, job.text, plan, kind, "skip" if kind == "command" else "once", enabled=not why)
    return made._replace(boot=boot, mono=mono, after=after, deliver="failure" if job.is_silent else "always"), why


def make_content(step: Step, before: bytes) -> bytes | None:
    """What a step makes of a file; None takes it away. Raises ConfigError."""
    text = before.decode("utf-8", "surrogateescape")
    if step.how == "remove":
        return None
    if step.how == "field":
        return set_field(before, "Time zone", step.value)
    if step.how == "set":
        for table, key, value in step.value:
            text = set_value(text, table, key, value)
    elif step.how == "append" and isinstance(step.value, _NoteLines):
        known = set(text.splitlines())
        text = text or step.value.head
        text += "" if text.endswith("\n") else "\n"
        text += "".join(f"{line}\n" for line in step.value.lines if line not in known)
    elif step.how == "append":
        text += step.value if step.value not in text else ""
    else:
        return step.value if isinstance(step.value, bytes) else str(step.value).encode()
    return text.encode("utf-8", "surrogateescape")


def read_page(home: Path, path: str) -> bytes:
    """Read a file of ours, nothing where there is none. Raises ConfigError for one that leads out of the home."""
    try:
        place = resolve_below(str(home.resolve()), f"{home.resolve()}/{path}")
        if place is None:
            raise ConfigError(f"{home / path} is a link that leads out of the home; put a copy in its place")
        with os.fdopen(open_rooted(place), "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise ConfigError(f"{home / path} cannot be read: {explain_os_error(error)}") from None


def diff_page(step: Step, home: Path) -> list[str]:
    before = read_page(home, step.path)
    after = make_content(step, before) or b""
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    name = step.path.removeprefix("workspace/")
    return list(difflib.unified_diff(old, new, f"{name} (yours)", f"{name} (after)", lineterm=""))


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
