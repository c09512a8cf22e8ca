"""What is due while a chat waits for its person, in a thread that sleeps until then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from picoclaw.app import App
from picoclaw.chores import Chores
from picoclaw.errors import StoreError, TurnStopped
from picoclaw.messages import Stop
from picoclaw.schedule import seconds_until

_LONGEST_SLEEP_S = 3600.0  # a clock that was set meanwhile is noticed after this at the latest
_INTERRUPTED_S, _FAILED_S = 60.0, 900.0


class IdleThread:
    """Does chores between turns. A turn that begins ends the one in hand, which is done another time."""

    def __init__(self, app: App, tell: Callable[[str], None], session: str = "") -> None:
        """Share the board and the settings of `app`, and nothing that it has opened; `tell` shows a line.

        After each turn the chat `session` is settled, where one is named.
        """
        self._app = App(app.config, app.board)
        self._session = session
        self._answered: list[str] = []
        self._busy = False
        self._tell = tell
        self._stop = Stop()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._complained = ""
        self._thread = threading.Thread(target=self._run, name="idle", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for a chore to be put down."""
        self._ending.set()
        self._stop.say()
        self._wake.set()
        self._thread.join(2)

    @contextmanager
    def turn(self, session: str = "") -> Iterator[None]:
        """Keep the model free while a person waits for an answer; `session` is settled after it, if one is named."""
        self._busy = True
        self._stop.say()
        try:
            yield
        finally:
            if (key := session or self._session) and key not in self._answered:
                self._answered.append(key)
            self._busy = False
            self._wake.set()

    def _run(self) -> None:
        chores = self._app.chores(self._stop)
        try:
            while not self._ending.is_set():
                self._wake.clear()
                self._wake.wait(self._step(chores))
        finally:
            self._app.let_go()

    def _settle(self) -> None:
        """Settle the conversation that has waited longest; one that a person interrupts has its turn again."""
        if self._answered:
            key = self._answered.pop(0)
            for line in self._app.settle(key, self._stop):
                self._tell(line)
            if self._stop and key not in self._answered:
                self._answered.append(key)

    def _not_now(self) -> bool:
        """Tell whether a person waits; else take the word back, which whoever it was meant for has heeded by now."""
        if not self._busy:
            self._stop.unsay()
        return self._busy or self._ending.is_set()

    def _step(self, chores: Chores) -> float | None:
        """Do what is due; returns how long to sleep in seconds, None for until the turn ends."""
        if self._not_now():
            return None
        try:
            self._settle()
            if self._answered:
                return 0.0
            now = self._app.now()
            if seconds_until(chores.next_due(now), now) <= 0:
                for line in chores.run(now):
                    self._tell(line)
            now = self._app.now()
            return min(max(0.0, seconds_until(chores.next_due(now), now)), _LONGEST_SLEEP_S)
        except TurnStopped:
            return _INTERRUPTED_S
        except StoreError as error:
            if str(error) != self._complained:
                self._complained = str(error)
                self._tell(f"what is done between turns waits: {error}")
            return _FAILED_S
