"""The `cron` tool: reminders and jobs, from a time in a call to a plan, and from a job to words."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal, NamedTuple, get_args

from picoclaw import occurrences, times
from picoclaw.automation.clock import boottime, is_plausible, read_boot_id
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, ToolCall, is_owner
from picoclaw.occurrences import JobTime, Plan, describe_plan
from picoclaw.schema import Span
from picoclaw.security import guard
from picoclaw.security.policy import Effect
from picoclaw.store.jobs import CatchUp, DeliveryMode, Job, JobKind, Jobs
from picoclaw.text import pattern
from picoclaw.tools.exec import parse_command
from picoclaw.tools.registry import Effects, tool

MAX_AHEAD_S = int(times.MAX_AHEAD.total_seconds())
_MAX_NEXT_SHOWN = 3
_MAX_MOVED_SHOWN = 5
_TIME_OF_DAY = pattern(r"\d?\d:\d\d")
_DAY = pattern(r"(?:on )?[a-z]+day|tomorrow|\d{4}-\d\d-\d\d", re.IGNORECASE)


def set_time(job: Job, when: JobTime, now: datetime, mono: float, boot: str) -> Job:
    """Plan a job; raises ToolError saying what is missing or wrong with the time."""
    if when.at_seconds and when.at:
        raise ToolError("give either at_seconds or at, not both")
    if when.cron_expr and (when.at_seconds or when.at or when.every_seconds):
        raise ToolError("give cron_expr alone, or at, at_seconds and every_seconds without it")
    fresh = job._replace(boot="", mono=0.0, after=0.0, done=())
    try:
        zone = times.parse_zone(when.tz) if when.tz else None
        if when.cron_expr:
            return _set_cron_time(fresh, when, str(zone) if zone else _get_zone_name(now.tzinfo), now)
        due = _get_first_due(when, now.astimezone(zone) if zone and when.at else now)
        ahead_s = _count_seconds_ahead(due, now)
        plan = Plan("at", anchor=due.timestamp())
        if when.every_seconds:
            plan = occurrences.plan_interval(when.every_seconds, due.timestamp())
    except (ValueError, OverflowError) as error:
        raise ToolError(str(error)) from None
    # What is meant from now on goes by the clock that nobody can set, a time of day by the date.
    counted = bool(when.every_seconds or when.at_seconds)
    return fresh._replace(plan=plan, boot=boot if counted else "", mono=mono + ahead_s if counted else 0.0)


def _set_cron_time(job: Job, when: JobTime, zone: str, now: datetime) -> Job:
    plan = occurrences.plan_cron(when.cron_expr, zone, now)
    return job._replace(plan=plan, after=now.timestamp() if is_plausible(now.timestamp()) else 0.0)


def resolve_move(job: Job, when: JobTime, now: datetime) -> JobTime:
    """Complete the new time of a job: a day keeps its time of day, a time of day its day or days.

    Raises ToolError for a time that would end the repetition of a job.
    """
    clock = when.at.removesuffix(" o'clock")
    if job.plan.kind == "at":
        due = _to_datetime(job.plan.anchor, now)
        if _DAY.fullmatch(when.at):
            return when._replace(at=f"{when.at} {due:%H:%M}")
        own_day = _TIME_OF_DAY.fullmatch(clock) and not when.every_seconds and due.date() > now.date()
        return when._replace(at=f"{due:%Y-%m-%d} {clock.zfill(5)}") if own_day else when
    if when.cron_expr or when.every_seconds:
        return when
    if _TIME_OF_DAY.fullmatch(clock) and (expression := occurrences.change_time(job.plan, clock)):
        return JobTime(cron_expr=expression, tz=when.tz or job.plan.zone)
    raise ToolError(
        f"job {job.number} repeats, {occurrences.describe_plan(job.plan)}, and was left as it is; say how often it is to come"
        f" instead, as in: move reminder {job.number} to every day at 8"
    )


def postpone(job: Job, seconds: float, now: datetime, mono: float, boot: str) -> Job:
    """Postpone a one-time job from its due time, or from now if that is past; raises ToolError."""
    anchor = job.plan.anchor + seconds
    if job.plan.anchor <= now.timestamp():
        return set_time(job, JobTime(at_seconds=seconds), now, mono, boot)
    _count_seconds_ahead(_to_datetime(anchor, now), now)
    return job._replace(plan=job.plan._replace(anchor=anchor), mono=job.mono + seconds if job.boot else 0.0)


def move_to_zone(job: Job, old: tzinfo | None, new: tzinfo | None, now: datetime) -> Job:
    """Keep a job's time of day in another zone, None for the board's own.

    Jobs that repeat by intervals or have their own zone stay as they are. A moment that would be past is a day later.
    """
    if job.plan.kind == "cron" and job.plan.zone in (
        {str(old)} if old else {"", _get_zone_name(now.astimezone().tzinfo)}
    ):
        plan = job.plan._replace(zone=_get_zone_name(new))
        return job._replace(plan=plan, after=now.timestamp() if is_plausible(now.timestamp()) else job.after, done=())
    if job.plan.kind == "at" and not job.boot and job.plan.anchor > now.timestamp():
        wall = datetime.fromtimestamp(job.plan.anchor, old or occurrences.BoardZone()).replace(tzinfo=None)
        zone = new or occurrences.BoardZone()
        due = occurrences.find_shown_time(wall, zone)
        due = due if due.timestamp() > now.timestamp() else occurrences.find_shown_time(wall + timedelta(days=1), zone)
        return job._replace(plan=job.plan._replace(anchor=due.timestamp()))
    return job


def move_jobs_to_zone(jobs: Jobs, old: tzinfo | None, new: tzinfo | None, now: datetime) -> list[str]:
    """Move all jobs to a zone that has just become known; returns a line about it."""
    told = []
    for job in jobs.all():
        if job.claimed or move_to_zone(job, old, new, now) == job:
            continue
        if moved_ := jobs.change(job.session, job.number, lambda job: move_to_zone(job, old, new, now)):
            due = datetime.fromtimestamp(moved_.plan.anchor, new or occurrences.BoardZone())
            when = f"{due:%a %Y-%m-%d %H:%M}" if moved_.plan.kind == "at" else occurrences.describe_plan(moved_.plan)
            told.append(f"{job.number} {when}")
    more = f" and {len(told) - _MAX_MOVED_SHOWN} more" if len(told) > _MAX_MOVED_SHOWN else ""
    where = new or "the board's own zone"
    return (
        [f"What was planned keeps its time of day in {where}: {'; '.join(told[:_MAX_MOVED_SHOWN])}{more}."]
        if told
        else []
    )


def restart_plan(job: Job, now: datetime, mono: float, boot: str) -> Job:
    """Restart a job's plan from now."""
    fresh = job._replace(enabled=True, failures=0, last_error="")
    if job.plan.kind == "every":
        plan = job.plan._replace(anchor=now.timestamp() + job.plan.seconds)
        return fresh._replace(plan=plan, boot=boot, mono=mono + job.plan.seconds)
    return fresh._replace(after=now.timestamp()) if job.plan.kind == "cron" else fresh


def _get_zone_name(zone: tzinfo | None) -> str:
    """The zone's IANA name, '' for the board's own."""
    if zone is None:
        return ""
    name = str(getattr(zone, "key", None) or zone)
    try:
        return str(times.parse_zone(name)) if hasattr(zone, "key") or name.startswith("UTC") else ""
    except ValueError:
        return ""


def _get_first_due(when: JobTime, now: datetime) -> datetime:
    if when.at:
        if not is_plausible(now.timestamp()):
            raise ToolError(f"the date was never set, the clock says {now:%Y-%m-%d %H:%M}; give at_seconds")
        return times.parse_moment(when.at, now)
    if not when.at_seconds and not when.every_seconds:
        raise ToolError(
            "the time is missing: give at_seconds, which must be more than 0, or at; every_seconds or cron_expr repeats"
        )
    return times.add_seconds(now, when.at_seconds or when.every_seconds)


def _count_seconds_ahead(due: datetime, now: datetime) -> float:
    ahead_s = times.get_seconds_until(due, now)
    if ahead_s <= 0:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is in the past; it is {now:%Y-%m-%d %H:%M} now")
    if ahead_s > MAX_AHEAD_S:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is more than ten years ahead; choose an earlier time")
    return ahead_s


def list_upcoming(job: Job, now: datetime, most: int) -> list[datetime]:
    """The next due times of a job; raises ValueError when they cannot be known."""
    if job.plan.kind == "cron":
        return [
            slot.moment for slot in occurrences.list_occurrences(job.plan, max(now, _to_datetime(job.after, now)), most)
        ]
    repeats = job.plan.seconds if job.plan.kind == "every" else 0.0
    return [times.add_seconds(_to_datetime(job.plan.anchor, now), n * repeats) for n in range(most if repeats else 1)]


def _to_datetime(seconds: float, now: datetime) -> datetime:
    return datetime.fromtimestamp(seconds, now.tzinfo)


def format_due(due: datetime, now: datetime) -> str:
    ahead_s = times.get_seconds_until(due, now)
    shown = format_moment(due, now)
    return f"{shown} (in {times.format_duration(ahead_s)})" if ahead_s > 0 else f"{shown} (due)"


def format_moment(due: datetime, now: datetime) -> str:
    """Format a moment in its own zone, without the date if it is today."""
    today = now.astimezone(due.tzinfo).date()
    return due.strftime("%H:%M") if due.date() == today else due.strftime("%a %Y-%m-%d %H:%M")


def _list_in_owner_zone(job: Job, now: datetime, most: int) -> list[datetime]:
    name = _get_zone_name(now.tzinfo)
    zone = times.parse_zone(name) if name else occurrences.BoardZone()
    return [due.astimezone(zone) for due in list_upcoming(job, now, most)]


def format_row(job: Job, now: datetime) -> str:
    """One line: what a job is, when it is due, and how it went."""
    try:
        due = _list_in_owner_zone(job, now, 1)
        next_ = format_due(due[0], now) if due else "never again"
    except ValueError as error:
        next_ = f"waits: {error}"
    plan = "" if job.plan.kind == "at" else f"{occurrences.describe_plan(job.plan)}, next "
    kind = "" if job.kind == "reminder" else f"{job.kind}{format_rights(job)}: "
    stands = "now" if job.claimed else next_ if job.enabled else "off"
    return f"{job.number}: {plan}{stands} {kind}{job.payload}{_format_status(job)}"


def format_rights(job: Job) -> str:
    given = [name for name in ("write", "network") if getattr(job, name)]
    return f" ({', '.join(given)})" if job.kind == "command" and given else ""


def _format_status(job: Job) -> str:
    if job.last_status in {"", "ok"}:
        return ""
    often = f", {job.failures} times in a row" if job.failures > 1 else ""
    why = f": {job.last_error}" if job.last_error else ""
    return f" [{job.last_status}{often}{why}]"


def format_details(job: Job, now: datetime) -> str:
    try:
        following = ", ".join(format_moment(due, now) for due in _list_in_owner_zone(job, now, _MAX_NEXT_SHOWN))
    except ValueError as error:
        following = str(error)
    last = datetime.fromtimestamp(job.last_run, now.tzinfo).strftime("%Y-%m-%d %H:%M") if job.last_run else "never"
    slot = f" ({job.last_slot})" if job.last_slot else ""
    return "\n".join(
        [
            format_row(job, now),
            f"next: {following if job.enabled else 'off'}",
            f"last: {last}{slot}, {job.last_status or 'not yet'}",
            f"if missed: {job.catch_up}; told: {job.deliver}; failures in a row: {job.failures}",
        ]
    )


def format_kept(job: Job, now: datetime) -> str:
    """Say when a new job is due; a repeating one with its next three times."""
    if job.plan.kind == "at":
        return f"is kept for {format_due(list_upcoming(job, now, 1)[0], now)}"
    following = list_upcoming(job, now, _MAX_NEXT_SHOWN)
    moments = ", ".join(format_moment(due, now) for due in following)
    ahead = times.format_duration(times.get_seconds_until(following[0], now))
    return f"is kept, {occurrences.describe_plan(job.plan)}: {moments} (the first in {ahead})"


# The `cron` tool: reminders, and jobs that ask, run or call something when they are due.

_MAX_JOBS = 100
_ASKED_EFFECTS = {"exec", "actuate", "instruct", "erase"}
_DELIVERIES = {
    (
        "reminder",
        False,
    ): "told in an open interactive `picoclaw chat`, else on Telegram or the page, late if there is none",
    ("job", False): "done while `picoclaw run` or an interactive `picoclaw chat` runs",
    ("reminder", True): "told in this chat",
    ("job", True): "done by `picoclaw run`, and told in this chat",
}
"""What becomes of it in a terminal's chat, and in one of the daemon's channels."""
_CHANNELS = ("telegram:", "page:")
_LATER_ARGUMENTS = {
    *("get", "update", "move", "snooze", "enable", "disable", "run"),
    *("command", "rights", "every_seconds", "tz", "deliver", "late", "job"),
}
_CHANGING_ACTIONS = {"update", "move", "snooze", "enable", "run"}
_WORD_OF_SHELL = re.compile(r"[^\s|&;<>()$`\"'=]+")
EffectOf = Callable[[ToolCall], Effect]


class _JobFields(NamedTuple):
    """The requested fields of a job; empty ones were not given."""

    kind: JobKind | Literal[""]
    payload: str
    catch_up: CatchUp | Literal[""]
    deliver: DeliveryMode | Literal[""]
    when: JobTime
    write: bool = False
    network: bool = False


def _parse_when(arguments: Mapping[str, Any]) -> JobTime:
    at, cron_expr, tz = (arguments[name].strip() for name in ("at", "cron_expr", "tz"))
    return JobTime(arguments["at_seconds"], at, arguments["every_seconds"], cron_expr, tz)


class CronTool:
    """Reminders and jobs of the caller's chat."""

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        effects: Callable[[], EffectOf],
        *,
        commands: bool,
        shell: bool = False,
        mono: Callable[[], float] = boottime,
    ) -> None:
        """`effects()` returns what judges a call of another tool and raises ToolError for an invalid one.

        `commands`: whether commands may be planned, `shell`: also shell lines; `mono` is the boot-time clock.
        """
        self._jobs = jobs
        self._effects = effects
        self._commands, self._shell = commands, shell
        self._mono = mono

    def _list_effects(self, arguments: Mapping[str, Any]) -> Effects:
        """A planned command needs the rights of `exec` now: nobody can be asked when it is due."""
        action = arguments["action"]
        if action in {"list", "get"}:
            return ("read",)
        number = arguments["job"] if action in _CHANGING_ACTIONS else 0
        known = next((job for job in self._jobs().all() if job.number == number), None) if number else None
        line, kind = arguments["command"].strip(), arguments["kind"].strip().lower() or (known.kind if known else "")
        message = arguments["message"].strip() or (known.payload if known else "")
        if action in {"add", *_CHANGING_ACTIONS} and not line and kind == "tool":
            if message.partition(" ")[0] != "exec":
                return ("plan",)
            self._check_job(Job(0, "", message, Plan("at"), "tool", "skip"), _JobFields("tool", "", "", "", JobTime()))
            return ("exec_planned",)
        if not line and (known is None or known.kind != "command"):
            return ("plan",)
        if not self._commands:
            raise ToolError('commands are switched off: exec = "off" under [tools] in config.toml')
        if line:
            parse_command((), line, shell=self._shell)
        job = known if known and not line else None
        write, network = (job.write, job.network) if job else _parse_rights(arguments["rights"])
        changes: Effects = ("exec",) if write else ()
        reaches: Effects = ("network", "exec_network") if network else ()
        return ("exec_planned", *changes, *reaches)

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message orders this reminder, or this change to it.

        Commands and tasks for a model never count: what runs later begins untainted.
        """
        action, number, message = arguments["action"], arguments["job"], arguments["message"]
        kind, when = arguments["kind"].strip().lower() or "reminder", _parse_when(arguments)
        more = any(arguments[name].strip() for name in ("command", "deliver", "late", "rights")) or kind != "reminder"
        if action == "add":
            return not more and guard.is_ordered_reminder(message, when, caller)
        old = next((job for job in self._jobs().all() if number and job.number == number), None)
        new = guard.find_order(action, "job", number, [old.payload], caller) if old else None
        if old is None or new is None:
            return False
        if action not in {"update", "move", "snooze"}:
            return action in {"remove", "disable"} or (old.kind == "reminder" and not more)
        if more or old.kind != "reminder" or (message and any(when)):
            return False
        return guard.is_new_text(message, new) if message else guard.is_same_time(new, when, caller.now)

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        number = arguments["job"] if arguments["action"] != "add" else 0
        known = (job for job in self._jobs().all() if job.number == number) if number else ()
        was = next((f"{job.kind} {number} is now: {job.payload}{format_rights(job)}" for job in known), "")
        if not arguments["command"].strip():
            return was
        write, network = _parse_rights(arguments["rights"])
        can = ["change files in the workspace"] * write + ["use the network, your own included"] * network
        said = f"run this line whenever it is due, unasked; it may {' and '.join(can) or 'only look'}"
        return "; ".join(filter(None, [was, said]))

    @tool(effect=_list_effects, later=_LATER_ARGUMENTS, means=_explain, is_requested=_is_requested)
    def cron(
        self,
        action: Literal["add", "list", "get", "update", "remove", "move", "snooze", "enable", "disable", "run"],
        caller: Caller,
        message: str = "",
        kind: str = "",
        command: str = "",
        at_seconds: Annotated[float, Span(0, MAX_AHEAD_S)] = 0.0,
        at: Annotated[str, "18:30, tomorrow 07:30"] = "",
        every_seconds: Annotated[float, Span(0, MAX_AHEAD_S)] = 0.0,
        cron_expr: str = "",
        tz: str = "",
        deliver: str = "",
        late: str = "",
        job: Annotated[int, Span(0, 1_000_000_000)] = 0,
        rights: str = "",
    ) -> str:
        """Keep reminders. add: message, time; kind turn: a task then."""
        if action == "list":
            return self._list(caller)
        when = _parse_when(locals())
        ran = command.strip()
        named: Any = "command" if ran else _parse_choice("kind", kind)
        told = _parse_choice("late", late), _parse_choice("deliver", deliver)
        fields = _JobFields(named, ran or message.strip(), *told, when, *_parse_rights(rights))
        if action == "add":
            return self._add(caller, fields)
        old = self._jobs().get(caller.session, job)
        if old is None:
            raise ToolError(f"this chat has no reminder {job}; {_LIST_HINT}")
        if action in _CHANGING_ACTIONS:
            _require_owner(caller, _apply_fields(old, fields))
        elif action != "get" and caller.origin == "guest":
            _require_owner(caller, old)
        if action == "snooze":
            return self._snooze(caller, old, at_seconds)
        if action == "move":
            fields = _JobFields("", "", "", "", resolve_move(old, when, caller.now))
        if action in {"update", "move"}:
            return self._update(caller, old, fields)
        acts = {"get": self._get, "remove": self._remove, "enable": self._enable, "disable": self._disable}
        return acts.get(action, self._run)(caller, old)

    def _list(self, caller: Caller) -> str:
        _taint_group_chat(caller)
        jobs = sorted(self._jobs().of(caller.session), key=lambda job: (job.plan.kind != "at", job.plan.anchor))
        return "\n".join(format_row(job, caller.now) for job in jobs) or "no reminders"

    def _add(self, caller: Caller, fields: _JobFields) -> str:
        if not fields.payload:
            raise ToolError("message is missing: what to remind of")
        if len(self._jobs().of(caller.session)) >= _MAX_JOBS:
            raise ToolError(f"this chat has {_MAX_JOBS} reminders and jobs already; remove some first")
        job = _apply_fields(Job(0, caller.session, "", Plan("at"), fields.kind or "reminder"), fields)
        _require_owner(caller, job)
        job = set_time(self._check_job(job, fields), fields.when, caller.now, self._mono(), read_boot_id())
        job = job._replace(number=self._jobs().add(job))
        return (
            f"{_get_noun(job)} {job.number} {format_kept(job, caller.now)}: {job.payload} ({_describe_delivery(job)})"
        )

    def _update(self, caller: Caller, old: Job, fields: _JobFields) -> str:
        if old.kind == "command" and fields.payload and fields.kind != "command":
            raise ToolError(f"job {old.number} runs a command: give command, or remove it and add another")
        when = fields.when
        if when.tz and not when.cron_expr and old.plan.kind == "cron":
            when = when._replace(cron_expr=old.plan.text)
        plain = not any(when)

        def edited(job: Job) -> Job:
            job = self._check_job(_apply_fields(job, fields), fields)._replace(failures=0, last_error="")
            return (
                job if plain else set_time(job, when, caller.now, self._mono(), read_boot_id())._replace(enabled=True)
            )

        job = self._jobs().change(caller.session, old.number, edited)
        return (
            f"{_get_noun(old)} {old.number} {format_kept(job, caller.now)}: {job.payload}" if job else _raise_gone(old)
        )

    def _snooze(self, caller: Caller, old: Job, seconds: float) -> str:
        """Postpone a one-time job; a repeating reminder keeps its times and comes once more."""
        if old.plan.kind != "at" and old.kind == "reminder" and seconds:
            return self._remind_once_more(caller, old, seconds)
        if old.plan.kind != "at":
            raise ToolError(
                f"{_get_noun(old)} {old.number} repeats, {describe_plan(old.plan)}, and was left as it is; give it other times,"
                f" as in: move {_get_noun(old)} {old.number} to every day at 8"
            )
        if not seconds:
            raise ToolError("how long is missing: give at_seconds, which must be more than 0")
        mono, boot = self._mono(), read_boot_id()
        job = self._jobs().change(
            caller.session,
            old.number,
            lambda job: postpone(job, seconds, caller.now, mono, boot)._replace(enabled=True),
        )
        return (
            f"{_get_noun(old)} {old.number} {format_kept(job, caller.now)}: {job.payload}" if job else _raise_gone(old)
        )

    def _remind_once_more(self, caller: Caller, old: Job, seconds: float) -> str:
        if len(self._jobs().of(caller.session)) >= _MAX_JOBS:
            raise ToolError(f"this chat has {_MAX_JOBS} reminders and jobs already; remove some first")
        once = Job(0, old.session, old.payload, Plan("at"), "reminder", old.catch_up, old.deliver)
        once = set_time(once, JobTime(at_seconds=seconds), caller.now, self._mono(), read_boot_id())
        once = once._replace(number=self._jobs().add(once))
        return (
            f"reminder {old.number} repeats and keeps its times ({describe_plan(old.plan)}); it comes once more as reminder"
            f" {once.number}, which {format_kept(once, caller.now)}: {old.payload}"
        )

    def _check_job(self, job: Job, fields: _JobFields) -> Job:
        """Refuse what could not be done when it is due."""
        if job.kind == "command":
            parse_command((), job.payload, shell=self._shell)
        if job.kind != "tool":
            return job
        if fields.catch_up == "once":
            raise ToolError("a tool is never called late, it may switch something; leave out late")
        call = parse_tool_call(job.payload)
        effect = self._effects()(call)
        if effect in _ASKED_EFFECTS or call.name == "cron" or (call.name == "exec" and effect != "read"):
            raise ToolError(f"{call.name} may need a person's yes, and nobody is there when it is due; plan a reminder")
        return job

    def _get(self, caller: Caller, job: Job) -> str:
        _taint_group_chat(caller)
        return format_details(job, caller.now)

    def _remove(self, caller: Caller, job: Job) -> str:
        return (
            f"{_get_noun(job)} {job.number} is removed"
            if self._jobs().remove(caller.session, job.number)
            else _raise_gone(job)
        )

    def _enable(self, caller: Caller, job: Job) -> str:
        """Runs that were missed while it was off are not made up for."""
        if job.plan.kind == "at" and job.plan.anchor <= caller.now.timestamp():
            raise ToolError(f"{_get_noun(job)} {job.number} was due once; update it with a new time")
        mono, boot = self._mono(), read_boot_id()
        now = self._jobs().change(caller.session, job.number, lambda job: restart_plan(job, caller.now, mono, boot))
        return f"{_get_noun(job)} {job.number} {format_kept(now, caller.now)}" if now else _raise_gone(job)

    def _disable(self, caller: Caller, job: Job) -> str:
        done = self._jobs().change(caller.session, job.number, lambda job: job._replace(enabled=False))
        return f"{_get_noun(job)} {job.number} is off until it is enabled" if done else _raise_gone(job)

    def _run(self, caller: Caller, job: Job) -> str:
        """Run it once now, beside its plan."""
        plan = Plan("at", anchor=caller.now.timestamp())
        once = Job(0, job.session, job.payload, plan, job.kind, job.catch_up, "always", boot=read_boot_id())
        number = self._jobs().add(once._replace(mono=self._mono(), write=job.write, network=job.network))
        return f"{_get_noun(job)} {job.number} is due now, as {number} ({_describe_delivery(job)})"


_CHOICES: dict[str, tuple[str, ...]] = {
    "kind": ("reminder", "turn", "fresh", "tool"),
    "late": get_args(CatchUp),
    "deliver": get_args(DeliveryMode),
}
"""What the plain texts among the arguments may be: spelled out in the definition, they would cost bytes every turn."""


def _parse_choice(name: str, text: str) -> Any:
    word = text.strip().lower()
    if word and word not in _CHOICES[name]:
        raise ToolError(f"{name} must be one of {', '.join(map(repr, _CHOICES[name]))}, not {text[:60]!r}")
    return word


def _parse_rights(text: str) -> tuple[bool, bool]:
    given = set(text.lower().replace(",", " ").split())
    if unknown := given - {"write", "network"}:
        raise ToolError(f"rights must be 'write', 'network', 'write network' or nothing, not {min(unknown)[:60]!r}")
    return "write" in given, "network" in given


def parse_tool_call(payload: str) -> ToolCall:
    """Parse a job's call: the tool's name, and its arguments as JSON."""
    name, _, text = payload.partition(" ")
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {name} are not a JSON object: {text[:60]!r}")
    return ToolCall("job", name, arguments)


def list_command_words(jobs: Iterable[Job]) -> frozenset[str]:
    """The words of planned commands; a file named by one will be run."""
    commands = [job.payload for job in jobs if job.kind == "command"]
    return frozenset(word for line in commands for word in (*_WORD_OF_SHELL.findall(line), *_split_shell(line)))


def _split_shell(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _taint_group_chat(caller: Caller) -> None:
    """In a group chat (negative number), a listing may hold other people's words."""
    if ":-" in caller.session:
        caller.heard.add("cron list")


_LIST_HINT = '`picoclaw cron list`, or "list my reminders" in the chat, shows what there is'


def _require_owner(caller: Caller, job: Job) -> None:
    """Only the owner plans jobs: a turn nobody asked for may follow untrusted text."""
    if job.kind != "reminder" and not is_owner(caller.origin):
        raise ToolError(
            "only the owner can plan jobs, in their own chat or by `picoclaw cron add`; a reminder can be added here"
        )


def _apply_fields(job: Job, fields: _JobFields) -> Job:
    kind = fields.kind or job.kind
    usual: CatchUp = "once" if kind in {"reminder", "turn", "fresh"} else "skip"
    anew = kind == "command" and bool(fields.payload)
    return job._replace(
        kind=kind,
        write=fields.write if anew else job.write,
        network=fields.network if anew else job.network,
        payload=fields.payload or job.payload,
        catch_up=fields.catch_up or (usual if kind != job.kind or not job.number else job.catch_up),
        deliver=fields.deliver or job.deliver,
    )


def _get_noun(job: Job) -> str:
    return "reminder" if job.kind == "reminder" else "job"


def _describe_delivery(job: Job) -> str:
    return _DELIVERIES[_get_noun(job), job.session.startswith(_CHANNELS)]


def _raise_gone(job: Job) -> str:
    raise ToolError(f"{_get_noun(job)} {job.number} was due or removed meanwhile; {_LIST_HINT}")
