"""The `cron` tool: reminders, and jobs that ask, run or call something when they are due."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Annotated, Any, Literal

from picoclaw import schedules, times
from picoclaw.automation.clock import boottime, is_plausible, read_boot_id
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, ToolCall, is_other_person, is_owner
from picoclaw.schedules import JobTime, Plan, describe_plan
from picoclaw.schema import Span
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.store.jobs import Job, Jobs
from picoclaw.text import pattern
from picoclaw.tools.exec import describe_rights, parse_command
from picoclaw.tools.registry import Effects, tool

_MAX_AHEAD_S = int(times.MAX_AHEAD.total_seconds())
_MAX_NEXT_SHOWN = 3
_MAX_LEFT_OUT = _MAX_NEXT_SHOWN + 1
_MAX_MOVED_SHOWN = 5
_DAY_S = 86_400
_TIME_OF_DAY = pattern(r"\d?\d:\d\d")
_DAY_AND_TIME = pattern(r"(?:(?P<day>\d\d?)(?:st|nd|rd|th))? ?(?P<time>\d?\d:\d\d)?")
_DAY = pattern(
    r"(?:on |next |following )?[a-z]+day|(?:day after )?tomorrow|last [a-z]*day of month|\d{4}-\d\d-\d\d", re.IGNORECASE
)


def _set_time(job: Job, when: JobTime, now: datetime, mono: float) -> Job:
    """Plan a job; raises ToolError saying what is missing or wrong with the time."""
    if when.at_seconds and when.at:
        raise ToolError("give either at_seconds or at, not both")
    if when.cron_expr and (when.at_seconds or when.every_seconds):
        raise ToolError("give cron_expr alone or with at, its first day, or at_seconds and every_seconds without it")
    fresh = job._replace(boot="", mono=0.0, after=0.0, done=())
    try:
        zone = times.parse_zone(when.tz) if when.tz else None
        if when.cron_expr:
            plan = schedules.plan_cron(when.cron_expr, str(zone) if zone else _get_zone_name(now.tzinfo), now)
            known = now.timestamp() if is_plausible(now.timestamp()) else 0.0
            pauses = (
                _add_first_day(job.paused, when.at, now.astimezone(zone) if zone else now) if when.at else job.paused
            )
            return fresh._replace(plan=plan, after=known, paused=pauses)
        if when.at:
            local = now.astimezone(zone) if zone else now
            _require_date(local, "give at_seconds")
            due = times.parse_moment(when.at, local)
        elif when.at_seconds or when.every_seconds:
            due = times.add_seconds(now, when.at_seconds or when.every_seconds)
        else:
            raise ToolError(
                "the time is missing: give at_seconds, which must be more than 0, or at; every_seconds or cron_expr repeats"
            )
        ahead_s = _count_seconds_ahead(due, now)
        plan = Plan("at", anchor=due.timestamp())
        if when.every_seconds:
            plan = schedules.plan_interval(when.every_seconds, due.timestamp())
    except (ValueError, OverflowError) as error:
        raise ToolError(str(error)) from None
    # What is meant from now on goes by the clock that nobody can set, a time of day by the date.
    if when.every_seconds or when.at_seconds:
        return fresh._replace(plan=plan, boot=read_boot_id(), mono=mono + ahead_s)
    return fresh._replace(plan=plan)


def _add_first_day(pauses: schedules.Pauses, day: str, now: datetime) -> schedules.Pauses:
    """Leave out what comes again before a day. Raises ToolError, and ValueError for what is no day."""
    _require_date(now, "leave out at")
    return schedules.add_pause(pauses, schedules.parse_pause(f"until {day}", now, lambda *_: []), now.timestamp())


def _require_date(now: datetime, remedy: str) -> None:
    if not is_plausible(now.timestamp()):
        raise ToolError(f"the date was never set, the clock says {now:%Y-%m-%d %H:%M}; {remedy}")


def _count_seconds_ahead(due: datetime, now: datetime) -> float:
    ahead_s = times.get_seconds_until(due, now)
    if ahead_s <= 0:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is in the past; it is {now:%Y-%m-%d %H:%M} now")
    if ahead_s > _MAX_AHEAD_S:
        raise ToolError(f"{due:%Y-%m-%d %H:%M} is more than ten years ahead; choose an earlier time")
    return ahead_s


def _resolve_move(job: Job, when: JobTime, now: datetime) -> JobTime:
    """Complete the new time of a job: a day keeps its time of day, a time of day its day or days.

    Raises ToolError for a time that would end the repetition of a job.
    """
    clock = when.at.removesuffix(" o'clock")
    if job.plan.kind == "at":
        due = datetime.fromtimestamp(job.plan.anchor, now.tzinfo)
        day = times.DAYS_FROM.sub(r"\1", when.at.lower())
        if _DAY.fullmatch(day) or times.DAY_OF_YEAR.fullmatch(day):
            return when._replace(at=f"{when.at} {due:%H:%M}")
        own_day = _TIME_OF_DAY.fullmatch(clock) and not when.every_seconds and due.date() > now.date()
        return when._replace(at=f"{due:%Y-%m-%d} {clock.zfill(5)}") if own_day else when
    if when.cron_expr or when.every_seconds:
        return when
    if job.plan.kind == "every" and job.plan.seconds % _DAY_S == 0 and _TIME_OF_DAY.fullmatch(clock):
        due = datetime.fromtimestamp(job.plan.anchor, now.tzinfo)
        hour, minute = map(int, clock.split(":"))
        due = due.replace(hour=hour, minute=minute, second=0, microsecond=0)
        due += timedelta(seconds=job.plan.seconds if due <= now else 0)
        return JobTime(every_seconds=job.plan.seconds, at=f"{due:%Y-%m-%d %H:%M}")
    told = _DAY_AND_TIME.fullmatch(clock)
    if told and clock and (expression := schedules.change_time(job.plan, told["time"] or "", told["day"] or "")):
        return JobTime(cron_expr=expression, tz=when.tz or job.plan.zone)
    raise ToolError(
        f"job {job.number} repeats, {describe_plan(job.plan)}, and was left as it is; say how often it is to come"
        f" instead, as in: move reminder {job.number} to every day at 8"
    )


def _move_to_zone(job: Job, old: tzinfo | None, new: tzinfo | None, now: datetime) -> Job:
    """Keep a job's time of day in another zone, None for the board's own.

    Jobs that repeat by intervals or have their own zone stay as they are. A moment that would be past is a day later.
    """
    old_names = {str(old)} if old else {"", _get_zone_name(now.astimezone().tzinfo)}
    if job.plan.kind == "cron" and job.plan.zone in old_names:
        plan = job.plan._replace(zone=_get_zone_name(new))
        return job._replace(plan=plan, after=now.timestamp() if is_plausible(now.timestamp()) else job.after, done=())
    if job.plan.kind == "at" and not job.boot and job.plan.anchor > now.timestamp():
        wall = datetime.fromtimestamp(job.plan.anchor, old or schedules.BoardZone()).replace(tzinfo=None)
        zone = new or schedules.BoardZone()
        due = schedules.find_shown_time(wall, zone)
        due = due if due.timestamp() > now.timestamp() else schedules.find_shown_time(wall + timedelta(days=1), zone)
        return job._replace(plan=job.plan._replace(anchor=due.timestamp()))
    return job


def move_jobs_to_zone(jobs: Jobs, old: tzinfo | None, new: tzinfo | None, now: datetime) -> list[str]:
    """Move all jobs to a zone that has just become known; returns a line about it."""
    told = []
    for job in jobs.all():
        if job.claimed or _move_to_zone(job, old, new, now) == job:
            continue
        if moved := jobs.change(job.session, job.number, lambda job: _move_to_zone(job, old, new, now)):
            due = datetime.fromtimestamp(moved.plan.anchor, new or schedules.BoardZone())
            when = f"{due:%a %Y-%m-%d %H:%M}" if moved.plan.kind == "at" else describe_plan(moved.plan)
            told.append(f"{job.number} {when}")
    if not told:
        return []
    more = f" and {len(told) - _MAX_MOVED_SHOWN} more" if len(told) > _MAX_MOVED_SHOWN else ""
    where = new or "the board's own zone"
    return [f"What was planned keeps its time of day in {where}: {'; '.join(told[:_MAX_MOVED_SHOWN])}{more}."]


def _get_zone_name(zone: tzinfo | None) -> str:
    """The zone's IANA name, '' for the board's own."""
    if zone is None:
        return ""
    name = str(getattr(zone, "key", None) or zone)
    try:
        return str(times.parse_zone(name)) if hasattr(zone, "key") or name.startswith("UTC") else ""
    except ValueError:
        return ""


# What is shown of a job.


def list_upcoming(job: Job, now: datetime, most: int) -> list[datetime]:
    """The next due times of a job without those that are left out; raises ValueError when they cannot be known."""
    return schedules.list_coming(job.paused, now, most, partial(_list_planned, job))


def _list_planned(job: Job, after: datetime, most: int) -> list[datetime]:
    """The due times of a job from a moment on, also those that are left out."""
    if job.plan.kind == "cron":
        after = max(after, datetime.fromtimestamp(job.after, after.tzinfo))
        return [slot.moment for slot in schedules.list_occurrences(job.plan, after, most)]
    first = datetime.fromtimestamp(job.plan.anchor, after.tzinfo)
    if job.plan.kind == "every":
        passed = max(0, math.ceil((after.timestamp() - job.plan.anchor) / job.plan.seconds))
        return [times.add_seconds(first, n * job.plan.seconds) for n in range(passed, passed + most)]
    return [first]


def _list_in_owner_zone(job: Job, now: datetime, most: int) -> list[datetime]:
    name = _get_zone_name(now.tzinfo)
    zone = times.parse_zone(name) if name else schedules.BoardZone()
    return [due.astimezone(zone) for due in list_upcoming(job, now, most)]


def _format_due(due: datetime, now: datetime) -> str:
    ahead_s = times.get_seconds_until(due, now)
    return f"{_format_moment(due, now)} ({f'in {times.format_duration(ahead_s)}' if ahead_s > 0 else 'due'})"


def _format_moment(due: datetime, now: datetime) -> str:
    """Format a moment in its own zone, without the date if it is today."""
    today = now.astimezone(due.tzinfo).date()
    return due.strftime("%H:%M") if due.date() == today else due.strftime("%a %Y-%m-%d %H:%M")


def format_row(job: Job, now: datetime) -> str:
    """One line: what a job is, when it is due, and how it went."""
    try:
        due = _list_in_owner_zone(job, now, 1)
        next_ = _format_due(due[0], now) if due else "never again"
    except ValueError as error:
        next_ = f"waits: {error}"
    plan = "" if job.plan.kind == "at" else f"{describe_plan(job.plan)}, next "
    kind = "" if job.kind == "reminder" else f"{job.kind}{_format_rights(job)}: "
    when = "now" if job.claimed else next_ if job.enabled else "off"
    when += "".join(f" ({pause})" for pause in _describe_pauses(job, now)) if job.enabled else ""
    status = ""
    if job.last_status not in {"", "ok"}:
        often = f", {job.failures} times in a row" if job.failures > 1 else ""
        status = f" [{job.last_status}{often}{f': {job.last_error}' if job.last_error else ''}]"
    return f"{job.number}: {plan}{when} {kind}{job.payload}{status}"


def _describe_pauses(job: Job, now: datetime) -> Iterator[str]:
    for first, last in job.paused:
        begin, end = (_format_moment(datetime.fromtimestamp(one, now.tzinfo), now) for one in (first, last))
        if last - first <= 2 * schedules.SOON_S:
            end = _format_moment(datetime.fromtimestamp((first + last) / 2, now.tzinfo), now)
            yield from [f"without {end}"] if last > now.timestamp() else []
        elif last > now.timestamp():
            yield f"paused until {end}" if first <= now.timestamp() else f"paused from {begin} to {end}"


def _format_rights(job: Job) -> str:
    given = [name for name in ("write", "network") if getattr(job, name)]
    return f" ({', '.join(given)})" if job.kind == "command" and given else ""


def _format_details(job: Job, now: datetime) -> str:
    try:
        following = ", ".join(_format_moment(due, now) for due in _list_in_owner_zone(job, now, _MAX_NEXT_SHOWN))
    except ValueError as error:
        following = str(error)
    last = datetime.fromtimestamp(job.last_run, now.tzinfo).strftime("%Y-%m-%d %H:%M") if job.last_run else "never"
    slot = f" ({job.last_slot})" if job.last_slot else ""
    return (
        f"{format_row(job, now)}\n"
        f"next: {following if job.enabled else 'off'}\n"
        f"last: {last}{slot}, {job.last_status or 'not yet'}\n"
        f"if missed: {job.catch_up}; told: {job.deliver}; failures in a row: {job.failures}"
    )


def _format_kept(job: Job, now: datetime) -> str:
    """Say when a new job is due; a repeating one with its next three times."""
    # what names no zone is told in the owner's, whose clock may be changed until then; `now` knows today's offset only
    upcoming = list_upcoming if job.plan.kind == "cron" else _list_in_owner_zone
    following = upcoming(job, now, _MAX_NEXT_SHOWN)
    if job.plan.kind == "at":
        return f"is kept for {_format_due(following[0], now)}"
    moments = ", ".join(_format_moment(due, now) for due in following)
    ahead = times.format_duration(times.get_seconds_until(following[0], now))
    return f"is kept, {describe_plan(job.plan)}: {moments} (the first in {ahead})"


def _get_noun(job: Job) -> str:
    return "reminder" if job.kind == "reminder" else "job"


def _describe_delivery(job: Job) -> str:
    if job.session.startswith(("telegram:", "matrix:", "page:")):
        return "told in this chat" if job.kind == "reminder" else "done by `picoclaw run`, and told in this chat"
    if job.kind == "reminder":
        return "told in an open interactive `picoclaw chat`, else on Telegram or the page, late if there is none"
    return "done while `picoclaw run` or an interactive `picoclaw chat` runs"


# The `cron` tool.

_MAX_JOBS = 100
_ASKED_EFFECTS = {"exec", "actuate", "instruct", "erase"}
_CHANGING_ACTIONS = {"update", "move", "snooze", "enable", "run"}
_WORD_OF_SHELL = pattern(r"[^\s|&;<>()$`\"'=]+")
_LIST_HINT = '`picoclaw cron list`, or "list my reminders" in the chat, shows what there is'


class CronTool:
    """Reminders and jobs of the caller's chat."""

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        effects: Callable[[], Callable[[ToolCall], Effect]],
        *,
        commands: bool,
        shell: bool = False,
        agent: str = "",
        mono: Callable[[], float] = boottime,
        word_heading: Callable[[Sequence[str]], str] = lambda _: "",
    ) -> None:
        """`effects()` returns what judges a call of another tool and raises ToolError for an invalid one.

        `commands`: whether commands may be planned, `shell`: also shell lines; `mono` is the boot-time clock. `agent` is
        the key of the agent that will do what is planned. `word_heading` says "Reminder:" in the language of what a person
        has said, '' for English.
        """
        self._jobs, self._effects, self._mono = jobs, effects, mono
        self._commands, self._shell, self._agent = commands, shell, agent
        self._word_heading = word_heading

    def _find(self, number: int) -> Job | None:
        return next((job for job in self._jobs().all() if job.number == number), None) if number else None

    def _list_effects(self, arguments: Mapping[str, Any]) -> Effects:
        """A planned command needs the rights of `exec` now: nobody can be asked when it is due."""
        action = arguments["action"]
        if action in {"list", "get"}:
            return ("read",)
        known = self._find(arguments["job"]) if action in _CHANGING_ACTIONS else None
        line, kind = arguments["command"].strip(), arguments["kind"].strip().lower() or (known.kind if known else "")
        message = arguments["message"].strip() or (known.payload if known else "")
        if action in {"add", *_CHANGING_ACTIONS} and not line and kind == "tool":
            if message.partition(" ")[0] != "exec":
                return ("plan",)
            self._check_job(Job(0, "", message, Plan("at"), "tool", "skip"))
            return ("exec_planned",)
        if not line and (known is None or known.kind != "command"):
            return ("plan",)
        if not self._commands:
            raise ToolError(
                'commands are switched off: exec = "off" under [tools] in config.toml, or no tool of this agent'
            )
        if line or known is None:
            parse_command((), line, shell=self._shell)
            write, network = _parse_rights(arguments["rights"])
        else:
            write, network = known.write, known.network
        changes: Effects = ("exec",) if write else ()
        reaches: Effects = ("network", "exec_network") if network else ()
        return ("exec_planned", *changes, *reaches)

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message orders this reminder, or this change to it.

        Commands and tasks for a model never count: what runs later begins untainted. Raises ToolError for a job of
        another chat.
        """
        action, number, message = arguments["action"], arguments["job"], arguments["message"]
        kind, when = arguments["kind"].strip().lower() or "reminder", _parse_when(arguments)
        more = any(arguments[name].strip() for name in ("command", "deliver", "late", "rights")) or kind != "reminder"
        if action == "add":
            return not more and orders.is_ordered_reminder(message, when, caller)
        old = self._find(number)
        if action not in {"list", "get"} and (old is None or old.session != caller.session):
            raise _no_such_job(number)  # before anybody is asked: the question says what another chat's is about
        new = orders.find_order(action, "job", number, [old.payload], caller) if old else None
        if old is None or new is None:
            return False
        if action not in {"update", "move", "snooze"}:
            return action in {"remove", "disable", "skip"} or (old.kind == "reminder" and not more)
        if more or old.kind != "reminder" or (message and any(when)):
            return False
        return orders.is_new_text(message, new) if message else orders.is_same_time(new, when, caller.now)

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        job = self._find(arguments["job"]) if arguments["action"] != "add" else None
        said = [f"{job.kind} {job.number} is now: {job.payload}{_format_rights(job)}"] if job else []
        if arguments["command"].strip():
            write, network = _parse_rights(arguments["rights"])
            can = describe_rights(write=write, network=network) or "only look"
            said.append(f"run this line whenever it is due, unasked; it may {can}")
        return "; ".join(said)

    @tool(effect=_list_effects, means=_explain, is_requested=_is_requested)
    def cron(
        self,
        action: Literal["add", "list", "get", "update", "remove", "move", "snooze", "enable", "disable", "skip", "run"],
        caller: Caller,
        message: str = "",
        kind: Annotated[
            Literal["", "reminder", "turn", "fresh", "tool"], "turn, fresh: a task for you; tool: a call"
        ] = "",
        command: str = "",
        at_seconds: Annotated[float, Span(0, _MAX_AHEAD_S)] = 0.0,
        at: Annotated[str, "18:30, tomorrow 07:30; skip: friday, until monday"] = "",
        every_seconds: Annotated[float, Span(0, _MAX_AHEAD_S)] = 0.0,
        cron_expr: str = "",
        tz: str = "",
        deliver: Literal["", "always", "change", "failure"] = "",
        late: Annotated[Literal["", "once", "skip"], "if missed"] = "",
        job: Annotated[int, Span(0, 1_000_000_000), "its number"] = 0,
        rights: Annotated[str, "of command: write, network"] = "",
    ) -> str:
        """Keep reminders and jobs. add: message, and one of at, at_seconds, every_seconds, cron_expr."""
        jobs, now = self._jobs(), caller.now
        if action in {"list", "get"} and ":-" in caller.session:  # a group's number is negative
            caller.taints.add("cron list")  # may hold other people's words
        if action == "list":
            own = sorted(jobs.of(caller.session), key=lambda job: (job.plan.kind != "at", job.plan.anchor))
            return "\n".join(format_row(job, now) for job in own) or "no reminders"
        when, line = _parse_when(locals()), command.strip()
        fields: dict[str, Any] = {
            "kind": "command" if line else kind,
            "payload": line or message.strip(),
            "catch_up": late,
            "deliver": deliver,
        }
        write, network = _parse_rights(rights)
        fields |= {"write": write, "network": network} if line else {}
        if action == "add":
            return self._add(caller, fields, when)
        old = jobs.get(caller.session, job)
        if old is None:
            raise _no_such_job(job)
        if action in _CHANGING_ACTIONS:
            _require_owner(caller, _apply_fields(old, fields))
        elif action != "get" and is_other_person(caller.origin):
            _require_owner(caller, old)
        name = f"{_get_noun(old)} {old.number}"
        match action:
            case "get":
                return _format_details(old, now)
            case "update":
                changed = self._update(caller, old, fields, when)
            case "move":
                changed = self._update(caller, old, {}, _resolve_move(old, when, now))
            case "snooze":
                if old.plan.kind != "at" and old.kind == "reminder" and at_seconds:
                    return self._remind_once_more(caller, old, at_seconds)
                changed = self._snooze(caller, old, at_seconds)
            case "remove":
                if not jobs.remove(caller.session, old.number):
                    raise _make_gone_error(old)
                return f"{name} is removed: {old.payload}"
            case "skip":
                return f"{name} {self._skip(caller, old, when.at)}"
            case "disable":
                self._change(old, lambda job: job._replace(enabled=False))
                return f"{name} is off until it is enabled: {old.payload}"
            case "enable":
                return f"{name} {_format_kept(self._enable(caller, old), now)}"
            case "run":  # once now, beside its plan
                plan, boot = Plan("at", anchor=now.timestamp()), read_boot_id()
                once = Job(0, old.session, old.payload, plan, old.kind, old.catch_up, "always", boot=boot)
                once = once._replace(mono=self._mono(), write=old.write, network=old.network, agent=old.agent)
                once = once._replace(heading=old.heading, who=old.who)
                number = jobs.add(once)
                return f"{name} is due now, as {number} ({_describe_delivery(old)})"
        return f"{name} {_format_kept(changed, now)}: {changed.payload}"

    def _change(self, old: Job, edit: Callable[[Job], Job]) -> Job:
        if (job := self._jobs().change(old.session, old.number, edit)) is None:
            raise _make_gone_error(old)
        return job

    def _add(self, caller: Caller, fields: Mapping[str, Any], when: JobTime) -> str:
        if not fields["payload"]:
            raise ToolError("message is missing: what to remind of")
        job = _apply_fields(Job(0, caller.session, "", Plan("at"), agent=self._agent, who=caller.who), fields)
        _require_owner(caller, job)
        if job.kind == "reminder" and (heading := self._word_heading(caller.user_texts)):
            job = job._replace(heading=heading)
        job = self._keep(_set_time(self._check_job(job), when, caller.now, self._mono()))
        return (
            f"{_get_noun(job)} {job.number} {_format_kept(job, caller.now)}: {job.payload} ({_describe_delivery(job)})"
        )

    def _keep(self, job: Job) -> Job:
        if len(self._jobs().of(job.session)) >= _MAX_JOBS:
            raise ToolError(f"this chat has {_MAX_JOBS} reminders and jobs already; remove some first")
        return job._replace(number=self._jobs().add(job))

    def _update(self, caller: Caller, old: Job, fields: Mapping[str, Any], when: JobTime) -> Job:
        if old.kind == "command" and fields.get("payload") and fields["kind"] != "command":
            raise ToolError(f"job {old.number} runs a command: give command, or remove it and add another")
        if when.tz and not when.cron_expr and old.plan.kind == "cron":
            when = when._replace(cron_expr=old.plan.text)

        def edit(job: Job) -> Job:
            job = self._check_job(_apply_fields(job, fields))._replace(failures=0, last_error="")
            if fields.get("payload"):  # what is new in it is this agent's, with its tools
                job = job._replace(agent=self._agent)
            return _set_time(job, when, caller.now, self._mono())._replace(enabled=True) if any(when) else job

        return self._change(old, edit)

    def _snooze(self, caller: Caller, old: Job, seconds: float) -> Job:
        """Postpone a one-time job from its due time, or from now if that is past."""
        now = caller.now
        if old.plan.kind != "at":
            noun = _get_noun(old)
            raise ToolError(
                f"{noun} {old.number} repeats, {describe_plan(old.plan)}, and was left as it is; give it other times,"
                f" as in: move {noun} {old.number} to every day at 8"
            )
        if not seconds:
            raise ToolError("how long is missing: give at_seconds, which must be more than 0")

        def postpone(job: Job) -> Job:
            if job.plan.anchor <= now.timestamp():
                return _set_time(job, JobTime(at_seconds=seconds), now, self._mono())._replace(enabled=True)
            anchor = job.plan.anchor + seconds
            _count_seconds_ahead(datetime.fromtimestamp(anchor, now.tzinfo), now)
            mono = job.mono + seconds if job.boot else 0.0
            return job._replace(plan=job.plan._replace(anchor=anchor), mono=mono, enabled=True)

        return self._change(old, postpone)

    def _skip(self, caller: Caller, old: Job, when: str) -> str:
        """Leave out what comes within a time, and say what that is."""
        now = caller.now
        if old.plan.kind == "at":
            due = _format_due(_list_in_owner_zone(old, now, 1)[0], now)
            raise ToolError(f"{_get_noun(old)} {old.number} comes once, {due}: remove it, or move it to another time")
        try:
            pause = schedules.parse_pause(when, now, partial(list_upcoming, old))
            pauses = schedules.add_pause(old.paused, pause, now.timestamp())
            begin = max(now, datetime.fromtimestamp(pause[0], now.tzinfo))
            planned = [one for one in _list_planned(old, begin, _MAX_LEFT_OUT) if one.timestamp() < pause[1]]
        except (ValueError, OverflowError) as error:
            raise ToolError(f"{_get_noun(old)} {old.number} was left as it is: {error}") from None
        if not planned:
            raise ToolError(
                f"{_get_noun(old)} {old.number} was left as it is, it does not come then: {format_row(old, now)}"
            )
        changed = self._change(old, lambda job: job._replace(paused=pauses))
        listed = ", ".join(_format_moment(one, now) for one in planned[:_MAX_NEXT_SHOWN])
        left_out = listed if len(planned) <= _MAX_NEXT_SHOWN else f"{listed} and more"
        following = list_upcoming(changed, now, 1) if changed.enabled else []
        next_ = f"it next comes {_format_due(following[0], now)}" if following else "it does not come again"
        return f"leaves out {left_out}; {next_}: {changed.payload}"

    def _remind_once_more(self, caller: Caller, old: Job, seconds: float) -> str:
        """A repeating reminder keeps its times and comes once more."""
        once = Job(0, old.session, old.payload, Plan("at"), "reminder", old.catch_up, old.deliver, heading=old.heading)
        once = self._keep(_set_time(once, JobTime(at_seconds=seconds), caller.now, self._mono()))
        return (
            f"reminder {old.number} repeats and keeps its times ({describe_plan(old.plan)}); it comes once more as reminder"
            f" {once.number}, which {_format_kept(once, caller.now)}: {old.payload}"
        )

    def _check_job(self, job: Job) -> Job:
        """Refuse what could not be done when it is due."""
        if job.kind == "command":
            parse_command((), job.payload, shell=self._shell)
        if job.kind != "tool":
            return job
        if job.catch_up == "once":
            raise ToolError("a tool is never called late, it may switch something; leave out late")
        call = parse_tool_call(job.payload)
        effect = self._effects()(call)
        if effect in _ASKED_EFFECTS or call.name == "cron" or (call.name == "exec" and effect != "read"):
            raise ToolError(f"{call.name} may need a person's yes, and nobody is there when it is due; plan a reminder")
        return job

    def _enable(self, caller: Caller, old: Job) -> Job:
        """Plan a job anew from now: runs that were missed while it was off are not made up for."""
        now, mono = caller.now.timestamp(), self._mono()
        if old.plan.kind == "at" and old.plan.anchor <= now:
            raise ToolError(f"{_get_noun(old)} {old.number} was due once; update it with a new time")

        def restart(job: Job) -> Job:
            if job.enabled and job.paused:
                return job._replace(paused=())
            job = job._replace(enabled=True, failures=0, last_error="", paused=())
            if job.plan.kind == "every":
                plan = job.plan._replace(anchor=now + job.plan.seconds)
                return job._replace(plan=plan, boot=read_boot_id(), mono=mono + job.plan.seconds)
            return job._replace(after=now) if job.plan.kind == "cron" else job

        return self._change(old, restart)


def _parse_when(arguments: Mapping[str, Any]) -> JobTime:
    at, cron_expr, tz = (arguments[name].strip() for name in ("at", "cron_expr", "tz"))
    return JobTime(arguments["at_seconds"], at, arguments["every_seconds"], cron_expr, tz)


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
    words: set[str] = set()
    for job in jobs:
        if job.kind == "command":
            words.update(_WORD_OF_SHELL.findall(job.payload))
            with suppress(ValueError):
                words.update(shlex.split(job.payload))
    return frozenset(words)


def _require_owner(caller: Caller, job: Job) -> None:
    """Only the owner plans jobs: a turn nobody asked for may follow untrusted text."""
    if job.kind != "reminder" and not is_owner(caller.origin):
        raise ToolError(
            "only the owner can plan jobs, in their own chat or by `picoclaw cron add`; a reminder can be added here"
        )


def _apply_fields(job: Job, fields: Mapping[str, Any]) -> Job:
    """Set the fields that are not empty; another kind of job, or a new one, brings its own way to catch up."""
    given = {name: value for name, value in fields.items() if value != ""}
    kind = given.get("kind", job.kind)
    if kind != job.kind or not job.number:
        given.setdefault("catch_up", "once" if kind in {"reminder", "turn", "fresh"} else "skip")
    return job._replace(**given)


def _make_gone_error(job: Job) -> ToolError:
    return ToolError(f"{_get_noun(job)} {job.number} was due or removed meanwhile; {_LIST_HINT}")


def _no_such_job(number: int) -> ToolError:
    return ToolError(f"this chat has no reminder {number}; {_LIST_HINT}")
