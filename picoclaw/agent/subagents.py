"""An errand: one task of a helper's, as a turn of its own, kept so that another process can go on with it.

The task is kept before each act and after it: where it was cut off is known, and nothing is done twice.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from picoclaw.agent import workflow
from picoclaw.agent.context import AgentApp, ContextBuilder
from picoclaw.agent.conversation import Conversation
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import PicoclawError, StoreError, ToolError, TurnStopped
from picoclaw.messages import Caller, End, Event, Inbound, Message, Stop, ToolRun, Turn, TurnHooks
from picoclaw.security.untrusted import find_taints, strip_invisible
from picoclaw.store.database import Database
from picoclaw.store.tasks import OPEN_STATUSES, Task, Tasks, TaskStatus, TaskUsage
from picoclaw.times import format_duration

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 20.0


def open_tasks(database: Database, mark: str) -> Tasks:
    """Open the tasks of a database; the `mark` says in letters what board they come from."""
    return Tasks(database, partial(workflow.format_reports, mark=mark))


def has_pending_tasks(tasks: Callable[[], Tasks], session: str) -> bool:
    """Tell whether helpers of a chat still have something to do or to say; no when the disk fails."""
    try:
        return tasks().pending(session)
    except StoreError:
        return False


@dataclass
class _TaskRecorder:
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


def run_task(app: AgentApp, task: Task, stop: Stop) -> bool:
    """Do a claimed task, or go on with it, and keep how it ended; False when it was stopped and is still to be done.

    A model that cannot be reached is asked again after a while, as often as in a chat. Raises StoreError.
    """
    tasks = app.subagent_tasks
    task = tasks.get(task.number) or task
    track = _TaskRecorder(tasks, task)
    for attempt in range(app.config.model.retries + 1):
        try:
            turn = _run_turn(app, task, track, stop)
        except KeyboardInterrupt:  # while it did what it waits for
            return False
        if turn.stopped != "error" or attempt == app.config.model.retries:
            break
        stop.rest(min(_FIRST_WAIT_S * 3**attempt, _LONGEST_WAIT_S))
    if turn.stopped == "stopped":
        return False
    status, text = _get_outcome(turn, app.prompts["empty"])
    tasks.finish(task, status, app.stores.redact(text), time.time(), track.used)
    return True


def _run_turn(app: AgentApp, task: Task, track: _TaskRecorder, stop: Stop) -> Turn:
    config, now = app.config, app.now()
    told = _make_context_builder(app, task).build(Inbound(task.key, task.text, "helper", task.session), (), (), now)
    may = app.light_agent.toolset.names if task.tools is None else task.tools
    brief = told.brief._replace(
        tools=may if told.brief.tools is None else may & told.brief.tools,
        only=may if told.brief.only is None else may & told.brief.only,
        bytes_a_token=app.stores.bytes_a_token(told.brief.model or config.model.name or "default"),
    )
    agent = replace(app.light_agent, limits=_get_remaining_limits(task, track.used, config.limits))
    so_far = app.subagent_tasks.messages(task) or [Message("user", brief.text)]
    so_far += _finish_awaited(app, task, so_far, stop)
    heard = {*task.taint, *told.taints, *find_taints(so_far)}
    caller = Caller(task.key, "helper", now, _discard_text, heard, reply_to=task.session, may=may, asks=[])
    caller = replace(caller, depth=task.depth, task=task.number)
    known = app.light_agent.toolset.private
    caller.private.update(call.name for message in so_far for call in message.calls if call.name in known)
    around = TurnHooks(listen=track.hear, stop=stop, keep=track.keep)
    with app.approving.ask_at_end(caller):
        return agent.turn(brief, (), caller, around, so_far)


def _finish_awaited(app: AgentApp, task: Task, so_far: Sequence[Message], stop: Stop) -> list[Message]:
    """The report that a task waited for when it was cut off, once that has been brought to its end; else nothing.

    Raises StoreError, and KeyboardInterrupt when it was stopped.
    """
    helpers, call = app.subagent_tasks, next(iter(Conversation([], list(so_far)).unanswered()), None)
    if call is None or (found := workflow.find_awaited_task(call, so_far, helpers.children(task.number))) is None:
        return []
    if found.status in OPEN_STATUSES:
        if (taken := helpers.go_on(found.number)) is None:
            return []
        found = run_task_in_turn(app, taken, stop)
    try:
        said = workflow.get_report(found)
    except ToolError as error:
        said = f"error: {error}"
    return [Message("tool", strip_invisible(said), call_id=call.id)]


def _make_context_builder(app: AgentApp, task: Task) -> ContextBuilder:
    """What a helper is told: in the mode that was asked for, with its limits and the reports that it needs."""
    prompt = replace(app.config.prompt, mode=task.mode)
    needed = [need for number in task.needs if (need := app.subagent_tasks.get(number))]
    return replace(
        app.context_builder,
        config=replace(app.config, prompt=prompt),
        limits=f"{task.limits.steps} steps, {format_duration(task.limits.seconds)}",
        needed=needed,
        tidy=False,
    )


def _discard_text(_text: str) -> None:
    """A helper speaks with nobody."""


def _get_remaining_limits(task: Task, used: TaskUsage, settings: LimitsConfig) -> LimitsConfig:
    return LimitsConfig(*workflow.get_remaining(task.limits, used), settings.result_chars)


def _get_outcome(turn: Turn, empty: str) -> tuple[TaskStatus, str]:
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


def run_task_in_turn(app: AgentApp, task: Task, stop: Stop) -> Task:
    """Do a task for a turn that waits for it, in the turn's thread, and return it as it ended.

    Raises StoreError, and KeyboardInterrupt when that turn is to end. What a person's turn waited for ends with it;
    what a helper waited for is put back like its own task.
    """
    try:
        finished = run_task(app, task, stop)
    except PicoclawError as error:
        with suppress(StoreError):  # then it is nobody's as soon as this process ends
            app.subagent_tasks.finish(task, "lost", str(error), time.time())
        raise
    ended = app.subagent_tasks.get(task.number) or task
    if finished or ended.status not in OPEN_STATUSES:
        return ended
    if task.depth == 1:
        app.subagent_tasks.cancel(task.number, task.session, time.time())
    else:
        app.subagent_tasks.put_back(task)
    raise KeyboardInterrupt
