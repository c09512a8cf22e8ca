"""An errand: one task of a helper's, as a turn of its own, kept so that another process can go on with it.

The task is kept before each act and after it: where it was cut off is known, and nothing is done twice.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from picoclaw.agent import workflow
from picoclaw.agent.context import ContextBuilder
from picoclaw.agent.conversation import Conversation
from picoclaw.agent.loop import Agent
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import PicoclawError, StoreError, ToolError, TurnStopped
from picoclaw.hw.board import Board
from picoclaw.messages import Around, Caller, End, Event, Inbound, Message, Stop, ToolRun, Turn
from picoclaw.security.approvals import ApprovalManager
from picoclaw.security.untrusted import list_taints, strip_invisible
from picoclaw.store.database import Database
from picoclaw.store.tasks import OPEN_STATUSES, Task, Tasks, TaskStatus, TaskUsage
from picoclaw.stores import Stores
from picoclaw.times import format_duration
from picoclaw.wiring import Wiring
from picoclaw.workspace.prompts import Prompts

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 20.0
_MOST_REPORTS = 8


class SubagentApp(Protocol):
    """What a helper is given to work with: an App."""

    config: Config
    board: Board

    @property
    def prompts(self) -> Prompts:
        """The templates."""

    @property
    def stores(self) -> Stores:
        """What outlasts the process."""

    @property
    def wiring(self) -> Wiring:
        """The board and what hangs on it."""

    @property
    def light_agent(self) -> Agent:
        """The loop, with a model and without the matcher, which would take a task for a wish."""

    @property
    def briefing(self) -> ContextBuilder:
        """What a model is told."""

    @property
    def helpers(self) -> Tasks:
        """The tasks."""

    @property
    def approving(self) -> ApprovalManager:
        """What becomes of a call that needs a yes."""

    def now(self) -> datetime:
        """The time, in the owner's zone."""

    def let_go(self) -> None:
        """Close what is its own, and leave the board."""


def open_tasks(database: Database, mark: str) -> Tasks:
    """Open the tasks of a database; the `mark` says in letters what board they come from."""
    return Tasks(database, partial(workflow.format_reports, mark=mark))


def list_new_reports(home: Path, tasks: Callable[[], Tasks], session: str) -> Sequence[Task]:
    """List the reports that a chat was told and a model was not; none when the disk fails."""
    if not (home / "state.db").exists():
        return ()
    try:
        return tasks().reports(session, _MOST_REPORTS)
    except StoreError:
        return ()


def has_pending_tasks(tasks: Callable[[], Tasks], session: str) -> bool:
    """Tell whether helpers of a chat still have something to do or to say; no when the disk fails."""
    try:
        return tasks().pending(session)
    except StoreError:
        return False


def mark_reports_known(tasks: Callable[[], Tasks], numbers: Sequence[int]) -> None:
    """Note that a model knows these reports, as far as the disk lets us."""
    with suppress(StoreError):
        tasks().set_heard(numbers)


@dataclass
class _TaskProgress:
    """How far a task is: keeps it after each step, and counts what it takes."""

    tasks: Tasks
    task: Task
    began: float = field(default_factory=time.monotonic)
    steps: int = 0
    tokens: int = 0

    def hear(self, event: Event | ToolRun) -> None:
        if isinstance(event, End):
            self.steps += 1
            self.tokens += event.usage.total

    def keep(self, messages: Sequence[Message]) -> None:
        """Raise TurnStopped when it was cancelled. What the disk does not take is kept with what comes next."""
        with suppress(StoreError):
            if not self.tasks.progress(self.task, messages, self.used):
                raise TurnStopped

    @property
    def used(self) -> TaskUsage:
        before = self.task.used
        seconds = before.seconds + time.monotonic() - self.began
        return TaskUsage(before.steps + self.steps, seconds, before.tokens + self.tokens)


def run_task(house: SubagentApp, task: Task, stop: Stop) -> bool:
    """Do a claimed task, or go on with it, and keep how it ended; False when it was stopped and is still to be done.

    A model that cannot be reached is asked again after a while, as often as in a chat. Raises StoreError.
    """
    tasks = house.helpers
    task = tasks.get(task.number) or task
    track = _TaskProgress(tasks, task)
    for attempt in range(house.config.model.retries + 1):
        try:
            turn = _run_turn(house, task, track, stop)
        except KeyboardInterrupt:  # while it did what it waits for
            return False
        if turn.stopped != "error" or attempt == house.config.model.retries:
            break
        stop.rest(min(_FIRST_WAIT_S * 3**attempt, _LONGEST_WAIT_S))
    if turn.stopped == "stopped":
        return False
    status, text = _get_outcome(turn, house.prompts["empty"])
    tasks.finish(task, status, house.stores.redact(text), time.time(), track.used)
    return True


def _run_turn(house: SubagentApp, task: Task, track: _TaskProgress, stop: Stop) -> Turn:
    """Run the task's turn from where it is."""
    config, now = house.config, house.now()
    told = _make_context_builder(house, task).told(Inbound(task.key, task.text, "helper", task.session), (), (), now)
    may = house.light_agent.toolset.names if task.tools is None else task.tools
    brief = told.brief._replace(
        tools=may if told.brief.tools is None else may & told.brief.tools,
        only=may if told.brief.only is None else may & told.brief.only,
        bytes_a_token=house.stores.bytes_a_token(told.brief.model or config.model.name or "default"),
    )
    agent = replace(house.light_agent, limits=_get_remaining_limits(task, track.used, config.limits))
    so_far = house.helpers.messages(task) or [Message("user", brief.text)]
    so_far += _finish_awaited(house, task, so_far, stop)
    heard = {*task.taint, *told.heard, *list_taints(so_far)}
    caller = Caller(task.key, "helper", now, _discard_text, heard, reply_to=task.session, may=may, asks=[])
    caller = replace(caller, depth=task.depth, task=task.number)
    known = house.light_agent.toolset.private
    caller.private.update(call.name for message in so_far for call in message.calls if call.name in known)
    around = Around(listen=track.hear, stop=stop, keep=track.keep)
    with house.approving.ask_at_end(caller):
        return agent.resume(brief, (), caller, around, so_far)


def _finish_awaited(house: SubagentApp, task: Task, so_far: Sequence[Message], stop: Stop) -> list[Message]:
    """The report that a task waited for when it was cut off, once that has been brought to its end; else nothing.

    Raises StoreError, and KeyboardInterrupt when it was stopped.
    """
    helpers, call = house.helpers, next(iter(Conversation([], list(so_far)).unanswered()), None)
    if call is None or (found := workflow.find_awaited_task(call, so_far, helpers.children(task.number))) is None:
        return []
    if found.status in OPEN_STATUSES:
        if (taken := helpers.go_on(found.number)) is None:
            return []
        found = run_task_in_turn(house, taken, stop)
    try:
        said = workflow.get_report(found)
    except ToolError as error:
        said = f"error: {error}"
    return [Message("tool", strip_invisible(said), call_id=call.id)]


def _make_context_builder(house: SubagentApp, task: Task) -> ContextBuilder:
    """What a helper is told: in the mode that was asked for, with its limits and the reports that it needs."""
    prompt = replace(house.config.prompt, mode=task.mode)
    needed = [need for number in task.needs if (need := house.helpers.get(number))]
    return replace(
        house.briefing,
        config=replace(house.config, prompt=prompt),
        helper=f"{task.limits.steps} steps, {format_duration(task.limits.seconds)}",
        reports=lambda _: needed,
        tidy=False,
    )


def _discard_text(_text: str) -> None:
    """A helper speaks with nobody."""


def _get_remaining_limits(task: Task, used: TaskUsage, settings: LimitsConfig) -> LimitsConfig:
    """What a task may still take."""
    return LimitsConfig(*workflow.get_remaining(task.limits, used), settings.result_chars)


def _get_outcome(turn: Turn, empty: str) -> tuple[TaskStatus, str]:
    """How a task ended that was not stopped, and its report."""
    if turn.stopped == "error":
        return "failed", turn.notice.text or turn.reply
    if turn.reply.strip() in {"", empty.strip()}:
        return "failed", "the model gave no answer"
    if turn.stopped:
        return "failed", f"it could not be brought to an end ({_STOP_REASONS[turn.stopped]}). {turn.reply}"
    return "done", turn.reply


_STOP_REASONS = {
    "steps": "too many steps",
    "seconds": "too much time",
    "tokens": "too many tokens",
    "repeated": "it called the same again and again",
}


def run_task_in_turn(house: SubagentApp, task: Task, stop: Stop) -> Task:
    """Do a task for a turn that waits for it, in the turn's thread, and return it as it ended.

    Raises StoreError, and KeyboardInterrupt when that turn is to end. What a person's turn waited for ends with it;
    what a helper waited for is put back like its own task.
    """
    try:
        finished = run_task(house, task, stop)
    except PicoclawError as error:
        with suppress(StoreError):  # then it is nobody's as soon as this process ends
            house.helpers.finish(task, "lost", str(error), time.time())
        raise
    ended = house.helpers.get(task.number) or task
    if finished or ended.status not in OPEN_STATUSES:
        return ended
    if task.depth == 1:
        house.helpers.cancel(task.number, task.session, time.time())
    else:
        house.helpers.put_back(task)
    raise KeyboardInterrupt
