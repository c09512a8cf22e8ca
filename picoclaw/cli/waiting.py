"""What is left to helpers when a command has answered: done before it ends, or left to the next picoclaw."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from threading import Event

from picoclaw.app import App
from picoclaw.channels.line import Line
from picoclaw.cli.keys import uninterrupted
from picoclaw.crew import Crew, held_elsewhere
from picoclaw.reflex import post
from picoclaw.reflex.bell import Bell, ring
from picoclaw.store.history import process_identity
from picoclaw.store.outbox import Letter, Outbox
from picoclaw.store.task import Task

_STUCK, _LOOK_S = -1.0, 60.0
_GO_ON = "picoclaw: the helpers go on when picoclaw runs again"


def helped(app: App, session: str, tell: Callable[[str], None], leaving: Event | None = None) -> bool:
    """Do the tasks of a chat that no other process does, and tell each report once; Ctrl-C leaves them for later.

    False when they were left; what they had switched on goes off when the program is `leaving`. Raises StoreError and
    OSError.
    """
    outbox = Outbox(app.stores.database)

    def told() -> None:
        for letter in _begun(app, session):
            tell(post.worded(letter, session, time.time()))
            outbox.strike(letter)

    told()
    return _done(app, lambda task: task.session == session, told, leaving)


def helped_together(app: App, session: str, tell: Callable[[list[str]], None], leaving: Event | None = None) -> bool:
    """Do the same, and tell all reports at the end; until then none counts as told."""
    outbox, letters = Outbox(app.stores.database), _begun(app, session)
    done = _done(app, lambda task: task.session == session, lambda: letters.extend(_begun(app, session)), leaving)
    tell([post.worded(letter, session, time.time()) for letter in letters])
    for letter in letters:
        outbox.strike(letter)
    return done


def followed(app: App, session: str, line: Line, tell: Callable[[str], None]) -> None:
    """Tell the reports of helpers that the picoclaw at the other end of a line has work; Ctrl-C leaves that to it.

    Raises StoreError and OSError.
    """
    outbox, told = Outbox(app.stores.database), 0
    with closing(Bell(app.config.home)) as bell, suppress(KeyboardInterrupt):
        _say_waiting(waiting := app.helpers.unfinished(session))
        while True:
            left = app.helpers.unfinished(session)
            for letter in _begun(app, session):
                told += 1
                tell(post.worded(letter, session, time.time()))
                outbox.strike(letter)
            if not left:
                break
            bell.wait(_LOOK_S, line.connection.fileno())
            if line.ended():
                print(_GO_ON, file=sys.stderr)
                return
        if waiting and not told:
            print("picoclaw: what the helpers report was told in a chat that is open", file=sys.stderr)
        return
    print("picoclaw: the helpers go on, and report in the next chat", file=sys.stderr)


def finished(app: App) -> None:
    """Do the tasks that this process was asked for; their reports wait for their chats. Raises StoreError, OSError."""
    _done(app, lambda task: task.claimed == process_identity(), lambda: None)


def _begun_here(app: App, crew: Crew) -> float | None:
    """Let the crew begin what it can; returns how long to sleep, _STUCK when nobody is there to end what is left."""
    worked, rest = crew.works, crew.step(app.helpers, time.time())
    return _STUCK if rest is None and not (worked or crew.works) else rest


def _done(app: App, wants: Callable[[Task], bool], told: Callable[[], None], leaving: Event | None = None) -> bool:
    def left() -> list[Task]:
        return [task for task in app.helpers.unfinished() if wants(task) and not held_elsewhere(task)]

    if not (waiting := left()):
        return True
    _say_waiting(waiting)
    with closing(Bell(app.config.home)) as bell:
        crew = Crew(lambda: App(app.config, app.board), bell.ring, app.config.helpers.at_once, wants)
        try:
            while waiting and (rest := _begun_here(app, crew)) != _STUCK:
                bell.wait(rest)
                before, waiting = waiting, left()
                told()
                _pass_on(app, len(before) - len(waiting))
        except KeyboardInterrupt:
            pass
        finally:
            with uninterrupted():  # an impatient second Ctrl-C finds nothing left to end
                crew.leave(hurry=leaving is not None and leaving.is_set())
    if waiting:
        print(_GO_ON, file=sys.stderr)
    return not waiting


def _say_waiting(tasks: Sequence[Task]) -> None:
    if tasks:
        print(f"picoclaw: waiting for {len(tasks)} helper{'s' * (len(tasks) > 1)}; Ctrl-C leaves", file=sys.stderr)


def _pass_on(app: App, ended: int) -> None:
    """Wake those who may wait for what has ended; earlier, they would have told what is told here."""
    if ended:
        ring(app.config.home)


def _begun(app: App, session: str) -> list[Letter]:
    """The reports to a chat that this process is the one to tell."""
    outbox, ours = Outbox(app.stores.database), app.helpers.letters(session)
    return [letter for letter in outbox.waiting() if letter.number in ours and outbox.begin(letter)]
