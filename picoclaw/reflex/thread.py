"""The one thread for everything that needs no model: it sleeps until the next thing is due, and never polls."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from picoclaw.errors import StoreError
from picoclaw.reflex import clock
from picoclaw.reflex.bell import Bell

_LONGEST_SLEEP_S = 86_400.0
_UNWATCHED_S = 600.0
_PATIENCE_S = 5.0
_STEP_S = 120.0
Step = Callable[[float, float], float | None]
"""Takes the date and the clock that nobody can set; returns how long it may sleep, None for until the bell."""


class ReflexThread:
    """Steps through what it is given, whenever something is due, the bell of its home rings or the date is set."""

    def __init__(
        self,
        home: Path,
        opened: Callable[[ExitStack], Sequence[Step]],
        say: Callable[[str], None],
        expect: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        """`opened(stack)` is called in the thread and makes what is stepped; `say` tells a person what is wrong.

        `expect` is told in how many seconds the thread will be heard of again, None for when its bell rings. Raises
        OSError when the home folder takes no bell.
        """
        self._opened = opened
        self._say = say
        self._expect = expect
        self._bell = Bell(home)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="reflex", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ring(self) -> None:
        """Have it look again; may be called from any thread."""
        self._bell.ring()

    def stop(self) -> None:
        """End, and wait until the thread has let go of what it opened; one that hangs keeps its bell."""
        self._ending = True
        self._bell.ring()
        self._thread.join(_PATIENCE_S)
        if not self._thread.is_alive():
            self._bell.close()

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                steps = self._opened(stack)
            except StoreError as error:
                self._say(f"reminders and jobs cannot be done: {error}")
                return
            watch = clock.step_watch()
            stack.callback(_closed, watch)
            while not self._ending:
                self._expect(_STEP_S)
                waits = [step(time.time(), clock.boottime()) for step in steps]
                wait = min((wait for wait in waits if wait is not None), default=None)
                if wait is not None:
                    wait = min(max(0.0, wait), _LONGEST_SLEEP_S if watch >= 0 else _UNWATCHED_S)
                self._expect(None if wait is None else wait + _STEP_S)
                self._bell.wait(wait, watch)
                if watch >= 0:
                    clock.steps(watch)


def _closed(file: int) -> None:
    if file >= 0:
        os.close(file)
