"""What is left to subagents when a command has answered: done before it ends, or left to the next picoclaw."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from threading import Event

from picoclaw.agent.subagents import WorkerPool, is_held_elsewhere
from picoclaw.app import App
from picoclaw.automation.jobs import format_message
from picoclaw.automation.wakeup import Wakeup, wake_all
from picoclaw.channels.ipc import IpcConnection
from picoclaw.daemon.signals import block_signals
from picoclaw.store.conversations import get_process_identity
from picoclaw.store.outbox import Outbox, OutboxMessage
from picoclaw.store.tasks import Task

_CHECK_INTERVAL_S = 60.0
RESUME_LATER_NOTE = "the helpers go on when picoclaw runs again"


def finish_subagents(
    app: App,
    session: str,
    tell: Callable[[list[str]], None],
    note: Callable[[str], None],
    *,
    at_end: bool = False,
    line: IpcConnection | None = None,
    leaving: Event | None = None,
) -> bool:
    """Have the tasks of a chat done, here or by the daemon at the other end of a `line`, and tell the reports.

    `tell` is handed each report by itself, or `at_end` all of them; then they count as told. Ctrl-C leaves the tasks for
    later; False when they were left here. What they had switched on goes off when the program is `leaving`. Raises
    StoreError and OSError.
    """
    outbox = Outbox(app.stores.database)
    held: list[OutboxMessage] = []
    told = 0

    def tell_messages(messages: list[OutboxMessage]) -> None:
        tell([format_message(message, session, time.time()) for message in messages])
        for message in messages:
            outbox.strike(message)

    def report() -> None:
        nonlocal told
        ours = app.subagent_tasks.letters(session)
        for message in outbox.waiting():
            if message.number in ours and outbox.begin(message):  # no other process tells it
                told += 1
                held.append(message) if at_end else tell_messages([message])

    if line:
        done = True
        waiting = app.subagent_tasks.unfinished(session)
        if not _follow(app, session, line, report, note):
            note("the helpers go on, and report in the next chat" if not line.ended() else RESUME_LATER_NOTE)
        elif waiting and not told:
            note("what the helpers report was told in a chat that is open")
    else:
        report()
        done = _run_tasks(app, lambda task: task.session == session, report, note, leaving)
    if at_end:
        tell_messages(held)
    return done


def _follow(
    app: App, session: str, line: IpcConnection, report: Callable[[], None], note: Callable[[str], None]
) -> bool:
    """Wait for the tasks that a daemon has done; False when Ctrl-C or the end of the daemon ends that."""
    with closing(Wakeup(app.config.home)) as wakeup, suppress(KeyboardInterrupt):
        _note_waiting(app.subagent_tasks.unfinished(session), note)
        while True:
            left = app.subagent_tasks.unfinished(session)
            report()
            if not left:
                return True
            wakeup.wait(_CHECK_INTERVAL_S, line.connection.fileno())
            if line.ended():
                return False
    return False


def run_claimed_tasks(app: App, note: Callable[[str], None]) -> None:
    """Do the tasks that this process was asked for; their reports wait for their chats. Raises StoreError, OSError."""
    _run_tasks(app, lambda task: task.claimed == get_process_identity(), lambda: None, note)


def _run_tasks(
    app: App,
    is_wanted: Callable[[Task], bool],
    report: Callable[[], None],
    note: Callable[[str], None],
    leaving: Event | None = None,
) -> bool:
    def list_left() -> list[Task]:
        return [task for task in app.subagent_tasks.unfinished() if is_wanted(task) and not is_held_elsewhere(task)]

    if not (waiting := list_left()):
        return True
    _note_waiting(waiting, note)
    with closing(Wakeup(app.config.home)) as wakeup:
        pool = WorkerPool(lambda: App(app.config, app.board), wakeup.ring, app.config.helpers.at_once, is_wanted)
        try:
            while waiting:
                worked, rest = pool.works, pool.step(app.subagent_tasks, time.time())
                if rest is None and not (worked or pool.works):  # nobody is there to end what is left
                    break
                wakeup.wait(rest)
                before, waiting = waiting, list_left()
                report()
                if len(before) > len(waiting):  # not earlier: those who wait would have told what is told here
                    wake_all(app.config.home)
        except KeyboardInterrupt:
            pass
        finally:
            with block_signals():  # an impatient second Ctrl-C finds nothing left to end
                pool.leave(hurry=leaving is not None and leaving.is_set())
    if waiting:
        note(RESUME_LATER_NOTE)
    return not waiting


def _note_waiting(tasks: Sequence[Task], note: Callable[[str], None]) -> None:
    if tasks:
        note(f"waiting for {len(tasks)} helper{'s' * (len(tasks) > 1)}; Ctrl-C leaves")
