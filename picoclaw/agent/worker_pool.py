"""The crew: does what helpers were given to do, each task in a thread of its own, as many at once as memory allows.

Nothing here sleeps by the clock: whoever gives a task rings, and so does a thread that has ended.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from picoclaw.agent.context import AgentApp
from picoclaw.agent.subagents import run_task
from picoclaw.errors import PicoclawError, StoreDamaged, StoreError, StoreNewer
from picoclaw.messages import Stop
from picoclaw.store.conversations import get_process_identity, is_process_alive
from picoclaw.store.tasks import Task, Tasks

_SMALL_MEMORY_BYTES = 1 << 30
_FEW, _SOME = 2, 4
_CLAIM_CHECK_S = 60.0
_DISK_RETRY_S = 30.0


def get_default_size() -> int:
    """How many helpers work at once on this machine: an answer that is being read takes some megabytes."""
    return _FEW if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < _SMALL_MEMORY_BYTES else _SOME


class WorkerPool:
    """The helpers that work in this process."""

    def __init__(
        self,
        own: Callable[[], AgentApp],
        ring: Callable[[], None],
        at_once: int,
        wants: Callable[[Task], bool] = lambda _: True,
    ) -> None:
        """`own()` makes what a thread works with, on the board of the process; `ring` is called when one has ended.

        At most `at_once` work, 0 for as many as this machine has memory for; `wants` says which tasks are done here.
        """
        self._own = own
        self._ring = ring
        self._most = at_once or get_default_size()
        self._wants = wants
        self._running: dict[int, tuple[threading.Thread, Stop]] = {}
        self._leaving = False
        self._hurry = False

    def step(self, tasks: Tasks, now: float) -> float | None:
        """Begin what can be begun, and end what was cancelled; returns how long to sleep, None for until it rings."""
        unfinished = {task.number: task for task in tasks.unfinished()}
        for number, (_, stop) in list(self._running.items()):
            if number not in unfinished:
                stop.say()
        while not self._leaving and len(self._running) < self._most and (task := tasks.claim(now, self._wants)):
            stop = Stop()
            thread = threading.Thread(target=self._work, args=(task, stop), name=task.key, daemon=True)
            self._running[task.number] = thread, stop
            thread.start()
        elsewhere = any(is_held_elsewhere(task) for task in unfinished.values())
        return _CLAIM_CHECK_S if elsewhere else None

    @property
    def works(self) -> bool:
        """Whether a helper works here now."""
        return bool(self._running)

    def leave(self, seconds: float = 2.0, *, hurry: bool = False) -> None:
        """Put down what is not done, for another process or another time, and wait so long for that.

        In a `hurry`, what its helpers have switched on goes off now.
        """
        self._leaving, self._hurry = True, hurry
        until = time.monotonic() + seconds
        running = list(self._running.values())
        for _, stop in running:
            stop.say()
        for thread, _ in running:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, task: Task, stop: Stop) -> None:
        try:
            app = self._own()
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
        while not _run_or_put_back(app, task, stop):
            stop.rest(_DISK_RETRY_S)
        why = ""
    except PicoclawError as error:
        why = str(error)
    finally:
        if why:
            with suppress(StoreError):
                tasks.finish(task, "lost", why, time.time())


def _run_or_put_back(app: AgentApp, task: Task, stop: Stop) -> bool:
    """Do a task, or put it back; False when the disk took neither, and might later."""
    try:
        if not run_task(app, task, stop):
            app.subagent_tasks.put_back(task)
    except (StoreDamaged, StoreNewer):
        raise
    except StoreError:
        return bool(stop)
    return True
