"""What is left to helpers when a command has answered: done before it ends, or left to the next picoclaw."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from threading import Event

from picoclaw.agent.worker_pool import WorkerPool, is_held_elsewhere
from picoclaw.app import App
from picoclaw.automation import jobs
from picoclaw.automation.wakeup import Wakeup, wake_all
from picoclaw.channels.ipc import IpcConnection
from picoclaw.daemon.signals import block_signals
from picoclaw.store.conversations import get_process_identity
from picoclaw.store.outbox import Outbox, OutboxMessage
from picoclaw.store.tasks import Task

_NOBODY_WORKS, _CHECK_INTERVAL_S = -1.0, 60.0
_RESUME_LATER_NOTE = "picoclaw: the helpers go on when picoclaw runs again"


def run_subagents(app: App, session: str, tell: Callable[[str], None], leaving: Event | None = None) -> bool:
    """Do the tasks of a chat that no other process does, and tell each report once; Ctrl-C leaves them for later.

    False when they were left; what they had switched on goes off when the program is `leaving`. Raises StoreError and
    OSError.
    """
    outbox = Outbox(app.stores.database)

    def told() -> None:
        for letter in _claim_reports(app, session):
            tell(jobs.format_message(letter, session, time.time()))
            outbox.strike(letter)

    told()
    return _run_tasks(app, lambda task: task.session == session, told, leaving)


def run_subagents_then_report(
    app: App, session: str, tell: Callable[[list[str]], None], leaving: Event | None = None
) -> bool:
    """Do the same, and tell all reports at the end; until then none counts as told."""
    outbox, letters = Outbox(app.stores.database), _claim_reports(app, session)
    done = _run_tasks(
        app, lambda task: task.session == session, lambda: letters.extend(_claim_reports(app, session)), leaving
    )
    tell([jobs.format_message(letter, session, time.time()) for letter in letters])
    for letter in letters:
        outbox.strike(letter)
    return done


def follow_remote_subagents(app: App, session: str, line: IpcConnection, tell: Callable[[str], None]) -> None:
    """Tell the reports of helpers that the picoclaw at the other end of a line has work; Ctrl-C leaves that to it.

    Raises StoreError and OSError.
    """
    outbox, told = Outbox(app.stores.database), 0
    with closing(Wakeup(app.config.home)) as bell, suppress(KeyboardInterrupt):
        _print_waiting(waiting := app.subagent_tasks.unfinished(session))
        while True:
            left = app.subagent_tasks.unfinished(session)
            for letter in _claim_reports(app, session):
                told += 1
                tell(jobs.format_message(letter, session, time.time()))
                outbox.strike(letter)
            if not left:
                break
            bell.wait(_CHECK_INTERVAL_S, line.connection.fileno())
            if line.ended():
                print(_RESUME_LATER_NOTE, file=sys.stderr)
                return
        if waiting and not told:
            print("picoclaw: what the helpers report was told in a chat that is open", file=sys.stderr)
        return
    print("picoclaw: the helpers go on, and report in the next chat", file=sys.stderr)


def run_claimed_tasks(app: App) -> None:
    """Do the tasks that this process was asked for; their reports wait for their chats. Raises StoreError, OSError."""
    _run_tasks(app, lambda task: task.claimed == get_process_identity(), lambda: None)


def _start_tasks(app: App, crew: WorkerPool) -> float | None:
    """Let the crew begin what it can; returns how long to sleep, _STUCK when nobody is there to end what is left."""
    worked, rest = crew.works, crew.step(app.subagent_tasks, time.time())
    return _NOBODY_WORKS if rest is None and not (worked or crew.works) else rest


def _run_tasks(app: App, wants: Callable[[Task], bool], told: Callable[[], None], leaving: Event | None = None) -> bool:
    def left() -> list[Task]:
        return [task for task in app.subagent_tasks.unfinished() if wants(task) and not is_held_elsewhere(task)]

    if not (waiting := left()):
        return True
    _print_waiting(waiting)
    with closing(Wakeup(app.config.home)) as bell:
        crew = WorkerPool(lambda: App(app.config, app.board), bell.ring, app.config.helpers.at_once, wants)
        try:
            while waiting and (rest := _start_tasks(app, crew)) != _NOBODY_WORKS:
                bell.wait(rest)
                before, waiting = waiting, left()
                told()
                _wake_waiting(app, len(before) - len(waiting))
        except KeyboardInterrupt:
            pass
        finally:
            with block_signals():  # an impatient second Ctrl-C finds nothing left to end
                crew.leave(hurry=leaving is not None and leaving.is_set())
    if waiting:
        print(_RESUME_LATER_NOTE, file=sys.stderr)
    return not waiting


def _print_waiting(tasks: Sequence[Task]) -> None:
    if tasks:
        print(f"picoclaw: waiting for {len(tasks)} helper{'s' * (len(tasks) > 1)}; Ctrl-C leaves", file=sys.stderr)


def _wake_waiting(app: App, ended: int) -> None:
    """Wake those who may wait for what has ended; earlier, they would have told what is told here."""
    if ended:
        wake_all(app.config.home)


def _claim_reports(app: App, session: str) -> list[OutboxMessage]:
    """The reports to a chat that this process is the one to tell."""
    outbox, ours = Outbox(app.stores.database), app.subagent_tasks.letters(session)
    return [letter for letter in outbox.waiting() if letter.number in ours and outbox.begin(letter)]
