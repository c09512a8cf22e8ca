"""Keeps a heart going beside a chat, and out of the way of the person who waits for the model."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from picoclaw.errors import PicoclawError
from picoclaw.heartbeat.beat import Heart, Now
from picoclaw.messages import Stop

_PEACE_S = 30.0  # whoever has just come, or been answered, is likely to ask something
_LEAVING_S = 0.5
_RETRY_S = 300.0


class HeartThread:
    """Sleeps until there may be something to do. A turn that begins ends the heartbeat in hand, which is put off."""

    def __init__(
        self,
        opened: Callable[[Stop], AbstractContextManager[tuple[Heart, Callable[[], Now]]]],
        complain: Callable[[str], None],
        peace_s: float | None = None,
    ) -> None:
        """`opened(stop)` makes the heart and its clock within the thread, with a database of its own.

        `peace_s`: for how long nobody must have asked anything.
        """
        self._opened, self._complain = opened, complain
        self._complained = ""
        self._peace_s = _PEACE_S if peace_s is None else peace_s
        self._not_before = time.monotonic() + self._peace_s
        self._stop = Stop()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._heart: Heart | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """End at once; returns the number and the tokens of a heartbeat that would not, 0 for none."""
        self._ending.set()
        self._stop.say()
        self._wake.set()
        self._thread.join(_LEAVING_S)
        heart = self._heart if self._thread.is_alive() else None
        return (heart.going, heart.used) if heart else (0, 0)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep the model free while a person waits for an answer."""
        self._stop.say()
        try:
            yield
        finally:
            self._not_before = time.monotonic() + self._peace_s
            if not self._ending.is_set():
                self._stop.unsay()
            self._wake.set()

    def _run(self) -> None:
        try:
            with self._opened(self._stop) as (heart, clock):
                self._heart = heart
                while not self._ending.is_set():
                    self._wake.clear()
                    self._wake.wait(self._step(heart, clock))
        except PicoclawError as error:
            self._complain(f"there are no heartbeats: {error}")

    def _step(self, heart: Heart, clock: Callable[[], Now]) -> float | None:
        """Returns for how many seconds there is nothing to do, None for until the turn ends."""
        if self._stop:
            return None
        if (wait := self._not_before - time.monotonic()) > 0:
            return wait
        try:
            return heart.step(clock())
        except PicoclawError as error:
            if str(error) != self._complained:
                self._complained = str(error)
                self._complain(f"heartbeats wait: {error}")
            return _RETRY_S
