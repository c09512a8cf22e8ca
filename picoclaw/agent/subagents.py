"""Sub-agents: runs their tasks, each as a turn of its own, as many at once in threads as memory allows.

A task is kept before each act and after it: where it was cut off is known, another process can go on with it, and
nothing is done twice. Nothing here sleeps by the clock: whoever gives a task wakes the pool, and so does a thread that
has ended.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from picoclaw.agent import workflow
from picoclaw.agent.context import AgentApp
from picoclaw.agent.conversation import Conversation
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import ConfigError, PicoclawError, StoreDamaged, StoreError, StoreNewer, ToolError, TurnStopped
from picoclaw.messages import (
    ERROR_PREFIX,
    Caller,
    End,
    Event,
    Inbound,
    Message,
    Origin,
    Stop,
    ToolRun,
    Turn,
    TurnHooks,
    is_other_person,
)
from picoclaw.records import replace
from picoclaw.security.untrusted import find_taints, limit_taints, strip_invisible
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.subagent_tasks import OPEN_STATUSES, Task, Tasks, TaskStatus, TaskUsage
from picoclaw.times import format_duration

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 20.0


class _TaskRecorder:
    """How far a task is: keeps it after each step, and counts what it takes."""

    def __init__(self, tasks: Tasks, task: Task) -> None:
        self.tasks, self.task = tasks, task
        self._began = time.monotonic()
        self._steps = self._tokens = 0

    def listen(self, event: Event | ToolRun) -> None:
        if isinstance(event, End):
            self._steps += 1
            self._tokens += event.usage.total

    def keep(self, messages: Sequence[Message]) -> None:
        """Raise TurnStopped when it was cancelled. What the disk does not take is kept with what comes next."""
        with suppress(StoreError):
            if not self.tasks.progress(self.task, messages, self.used):
                raise TurnStopped

    @property
    def used(self) -> TaskUsage:
        before = self.task.used
        seconds = before.seconds + time.monotonic() - self._began
        return TaskUsage(before.steps + self._steps, seconds, before.tokens + self._tokens)


def run_task(app: AgentApp, task: Task, stop: Stop) -> bool:
    """Do a claimed task, or go on with it, and keep how it ended; False when it was stopped and is still to be done.

    A model that cannot be reached is asked again after a while, as often as in a chat. Raises StoreError.
    """
    tasks = app.subagent_tasks
    task = tasks.get(task.number) or task
    recorder = _TaskRecorder(tasks, task)
    for attempt in range(app.config.model.retries + 1):
        try:
            turn = _run_turn(app, task, recorder, stop)
        except KeyboardInterrupt:  # while it did what it waits for
            return False
        if turn.stopped != "error" or attempt == app.config.model.retries:
            break
        stop.rest(min(_FIRST_WAIT_S * 3**attempt, _LONGEST_WAIT_S))
    if turn.stopped == "stopped":
        return False
    status: TaskStatus = "failed"
    if turn.stopped == "error":
        text = turn.notice.text or turn.reply
    elif turn.reply.strip() in {"", app.prompts["empty"].strip()}:
        text = "the model gave no answer"
    elif turn.stopped:
        text = f"it could not be brought to an end ({_STOP_REASONS[turn.stopped]}). {turn.reply}"
    else:
        status, text = "done", turn.reply
    tasks.finish(task, status, app.stores.redact(text), time.time(), recorder.used, turn.taints)
    return True


def _find_view(app: AgentApp, task: Task) -> AgentApp:
    """The app as the agent of a task has it, for the person it is done for. Raises ConfigError where it may not be done."""
    if why := app.explain_role_change(task.who, task.origin):
        raise ConfigError(why)
    if not (task.agent or task.asker):
        return app
    view, own = app.find_view(task.who, task.agent), app.config.default_agent
    if task.asker:
        from picoclaw.tools.delegate import list_targets

        if (task.agent or own) not in {target.key for target in list_targets(app.config, task.asker)}:
            raise ConfigError(f"{task.asker} may not delegate to {task.agent or own} any more")
    return view


def _run_turn(app: AgentApp, task: Task, recorder: _TaskRecorder, stop: Stop) -> Turn:
    view = _find_view(app, task)
    config, now, light = view.config, view.now(), view.light_agent
    origin: Origin = task.origin if is_other_person(task.origin) or task.origin == "mcp" else "subagent"
    limits = task.limits
    if config.agent:  # of a task that it does for another, the stricter of both
        own = config.limits
        limits = workflow.cap_limits(limits, TaskUsage(own.steps, own.seconds, own.tokens))
    # it is told what its mode asks for, with its limits and the reports that it needs
    builder = replace(
        view.context_builder,
        config=replace(config, prompt=replace(config.prompt, mode=task.mode)),
        limits=f"{limits.steps} steps, {format_duration(limits.seconds)}",
        may=light.toolset.names if task.tools is None else task.tools & light.toolset.names,
        needed=[need for number in task.needs if (need := app.subagent_tasks.get(number))],
        tidy=False,
    )
    told = builder.build(Inbound(task.key, task.text, origin, task.session, who=task.who), (), (), now)
    may = builder.may or frozenset()
    brief = told.brief._replace(
        only=may if told.brief.only is None else may & told.brief.only,
        bytes_a_token=view.stores.bytes_a_token(told.brief.model or config.model.name or "default"),
    )
    left = workflow.get_remaining(limits, recorder.used)
    agent = replace(light, limits=LimitsConfig(*left, config.limits.result_chars))
    so_far = app.subagent_tasks.messages(task) or [Message("user", brief.text)]
    so_far += _finish_awaited(app, task, so_far, stop)
    askers = (one.asker for one in app.subagent_tasks.list_above(task) if one.asker)
    caller = Caller(
        task.key,
        origin,
        now,
        lambda _: None,  # it speaks with nobody
        {*task.taint, *told.taints, *find_taints(so_far)},
        reply_to=task.session,
        may=may,
        asks=[],
        depth=task.depth,
        task=task.number,
        who=task.who,
        cause=" ".join(filter(None, ("subagent", "/".join(askers)))),
        behalf=task.origin if origin == "subagent" else "subagent",
    )
    called = {call.name for message in so_far for call in message.calls}
    caller.private.update(light.toolset.select_private(called))
    hooks = TurnHooks(listen=recorder.listen, stop=stop, keep=recorder.keep)
    with view.approving.ask_at_end(caller):
        turn = agent.turn(brief, (), caller, hooks, so_far)
    return turn._replace(taints=limit_taints(caller.taints))


def _finish_awaited(app: AgentApp, task: Task, so_far: Sequence[Message], stop: Stop) -> list[Message]:
    """The report that a task waited for when it was cut off, once that has been brought to its end; else nothing.

    Raises StoreError, and KeyboardInterrupt when it was stopped.
    """
    subagents, call = app.subagent_tasks, next(iter(Conversation([], list(so_far)).list_open_calls()), None)
    if call is None or (found := workflow.find_awaited_task(call, so_far, subagents.children(task.number))) is None:
        return []
    if found.status in OPEN_STATUSES:
        if (taken := subagents.go_on(found.number)) is None:
            return []
        found = run_task_in_turn(app, taken, stop)
    try:
        said = workflow.get_report(found)
    except ToolError as error:
        said = f"{ERROR_PREFIX}{error}"
    return [Message("tool", strip_invisible(said), call_id=call.id)]


_STOP_REASONS = {
    "steps": "too many steps",
    "seconds": "too much time",
    "tokens": "too many tokens",
    "repeated": "it called the same again and again",
}


def run_task_in_turn(app: AgentApp, task: Task, stop: Stop) -> Task:
    """Do a task for a turn that waits for it, in the turn's thread, and return it as it ended.

    Raises StoreError, and KeyboardInterrupt when that turn is to end. What a person's turn waited for ends with it;
    what a sub-agent waited for is put back like its own task.
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


_SMALL_MEMORY_BYTES = 1 << 30
_FEW, _SOME = 2, 4
_CLAIM_CHECK_S = 60.0
_DISK_RETRY_S = 30.0


class WorkerPool:
    """The sub-agents that work in this process."""

    def __init__(
        self,
        make_app: Callable[[], AgentApp],
        ring: Callable[[], None],
        at_once: int,
        wants: Callable[[Task], bool] = lambda _: True,
    ) -> None:
        """`make_app()` makes what a thread works with, on the board of the process; `ring` is called when one has ended.

        At most `at_once` work, 0 for as many as this machine has memory for; `wants` says which tasks are done here.
        """
        self._make_app = make_app
        self._ring = ring
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._most = at_once or (
            _FEW if memory < _SMALL_MEMORY_BYTES else _SOME
        )  # an answer being read takes megabytes
        self._wants = wants
        self._running: dict[int, tuple[threading.Thread, Stop]] = {}
        self._leaving = False
        self._hurry = False

    def step(self, tasks: Tasks, now: float) -> float | None:
        """Begin what can be begun, and end what was cancelled; returns how long to sleep, None for until it rings."""
        unfinished = {task.number: task for task in tasks.unfinished()}
        for number, (_, stop) in list(self._running.items()):
            if number not in unfinished:
                stop.set()
        while not self._leaving and len(self._running) < self._most and (task := tasks.claim(now, self._wants)):
            stop = Stop()
            thread = threading.Thread(target=self._work, args=(task, stop), name=task.key, daemon=True)
            self._running[task.number] = thread, stop
            thread.start()
        elsewhere = any(is_held_elsewhere(task) for task in unfinished.values())
        return _CLAIM_CHECK_S if elsewhere else None

    @property
    def works(self) -> bool:
        """Whether a sub-agent works here now."""
        return bool(self._running)

    def leave(self, seconds: float = 2.0, *, hurry: bool = False) -> None:
        """Put down what is not done, for another process or another time, and wait so long for that.

        In a `hurry`, what its sub-agents have switched on goes off now.
        """
        self._leaving, self._hurry = True, hurry
        until = time.monotonic() + seconds
        running = list(self._running.values())
        for _, stop in running:
            stop.set()
        for thread, _ in running:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, task: Task, stop: Stop) -> None:
        try:
            app = self._make_app()
            try:
                _run_until_settled(app, task, stop)
            finally:
                (app.wiring.abandon if self._hurry else app.wiring.leave)()
                app.close_own()
        finally:
            self._running.pop(task.number, None)
            self._ring()


def is_held_elsewhere(task: Task) -> bool:
    """Tell whether a task is another process's, which lives."""
    return bool(task.claimed) and task.claimed != get_process_identity() and is_process_alive(task.claimed)


def _run_until_settled(app: AgentApp, task: Task, stop: Stop) -> None:
    """Do a task; when the disk takes nothing, again later. One that cannot be done here is reported as lost."""
    tasks, why = app.subagent_tasks, "it ended unexpectedly"
    try:
        while True:
            try:
                if not run_task(app, task, stop):
                    tasks.put_back(task)
                break
            except (StoreDamaged, StoreNewer):
                raise
            except StoreError:
                if stop:
                    break
            stop.rest(_DISK_RETRY_S)
        why = ""
    except PicoclawError as error:
        why = str(error)
    finally:
        if why:
            with suppress(StoreError):
                tasks.finish(task, "lost", why, time.time())
