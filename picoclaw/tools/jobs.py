"""The `cron` tool: reminders, told without any model when they are due."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from picoclaw import schedule
from picoclaw.errors import ToolError
from picoclaw.messages import Caller
from picoclaw.schema import Span
from picoclaw.store.jobs import Job, Jobs
from picoclaw.tools.toolset import Effect, tool

_LONGEST_S = int(schedule.LONGEST.total_seconds())


class Reminders:
    """Reminders of the chat that the turn belongs to, and of no other."""

    def __init__(self, jobs: Callable[[], Jobs]) -> None:
        """`jobs()` opens the store when it is first needed."""
        self._jobs = jobs

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "read" if arguments["action"] == "list" else "write"

    @tool(effect=_effect)
    def cron(
        self,
        action: Literal["add", "list", "remove"],
        caller: Caller,
        message: str = "",
        at_seconds: Annotated[float, Span(0, _LONGEST_S), "seconds from now"] = 0.0,
        at: Annotated[str, "or a time: 18:30, tomorrow 07:30, 2026-12-01 08:00"] = "",
        job: Annotated[int, Span(0, 1_000_000_000), "number to remove"] = 0,
    ) -> str:
        """Keep reminders. add needs message and at_seconds or at."""
        if action == "list":
            rows = [_row(job, caller.now) for job in self._jobs().of(caller.session)]
            return "\n".join(rows) or "no reminders"
        if action == "remove":
            return self._remove(caller.session, job)
        return self._add(caller, message.strip(), at_seconds, at)

    def _add(self, caller: Caller, message: str, at_seconds: float, at: str) -> str:
        if not message:
            raise ToolError("message is missing: what to remind of")
        at = at.strip()
        if not at_seconds and not at:  # small models send 0 and "" for what they leave out
            raise ToolError("the time is missing: give at_seconds, which must be more than 0, or at")
        if at_seconds and at:
            raise ToolError("give either at_seconds or at, not both")
        due = _moment(at_seconds, at, caller.now)
        ahead_s = schedule.seconds_until(due, caller.now)
        if ahead_s <= 0:
            raise ToolError(f"{due:%Y-%m-%d %H:%M} is in the past; it is {caller.now:%Y-%m-%d %H:%M} now")
        if ahead_s > _LONGEST_S:
            raise ToolError(f"{due:%Y-%m-%d %H:%M} is more than ten years ahead; choose an earlier time")
        number = self._jobs().add(caller.session, message, due)
        return (
            f"reminder {number} is kept for {_when(due, caller.now)}: {message}"
            " (told in an open interactive `picoclaw chat`, late if none is open then)"
        )

    def _remove(self, session: str, number: int) -> str:
        if not self._jobs().remove(session, number):
            raise ToolError(f"this chat has no reminder {number}; action list shows them")
        return f"reminder {number} is removed"


def _moment(at_seconds: float, at: str, now: datetime) -> datetime:
    try:
        return schedule.later(now, at_seconds) if at_seconds else schedule.at(at, now)
    except (ValueError, OverflowError) as error:
        raise ToolError(str(error)) from None


def _when(due: datetime, now: datetime) -> str:
    local, ahead_s = due.astimezone(now.tzinfo), schedule.seconds_until(due, now)
    shown = local.strftime("%H:%M") if local.date() == now.date() else local.strftime("%a %Y-%m-%d %H:%M")
    return f"{shown} (in {schedule.duration(ahead_s)})" if ahead_s > 0 else f"{shown} (due)"


def _row(job: Job, now: datetime) -> str:
    return f"{job.number}: {_when(job.due, now)} {job.message}"
