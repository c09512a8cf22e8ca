"""Signals that end a process, and what they must not interrupt."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picoclaw.messages import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPEAT_WINDOW_S = 0.4
"""Who presses Ctrl-C again within this time means the same; what the first ends is being kept meanwhile."""


class TurnStopper:
    """Ends a turn by its Stop, and by Ctrl-C where that alone has not done it after a while."""

    def __init__(self, delay: float = 0.5, signals: tuple[int, ...] = _SIGNALS) -> None:
        """`delay` is that while, in seconds: what neither reads nor waits for the Stop takes longer.

        The first of `signals` interrupts the main thread like Ctrl-C; none of them does while a turn is being kept.
        """
        self._delay, self._signals = delay, signals
        self._stop: Stop | None = None
        self._lock = threading.Lock()
        self._running = False
        self._late: threading.Timer | None = None

    @contextmanager
    def turn(self) -> "Iterator[Stop]":
        """Give the Stop of one turn; calls of `end_turn` before and after it have no effect."""
        from picoclaw.messages import Stop  # not before: a chat with a daemon that runs takes only the handlers

        self._stop = stop = Stop()
        with self._lock:
            self._running = True
        try:
            yield stop
        finally:
            with self._lock:
                self._running = False
                late, self._late = self._late, None
            if late is not None:
                late.cancel()

    def shield(self) -> AbstractContextManager[None]:
        """Block interrupting signals while a turn is being stored."""
        return block_signals(self._signals)

    @property
    def is_ending(self) -> bool:
        """Whether the running turn has been told to end."""
        return self._late is not None

    def end_turn(self) -> None:
        """End the turn that runs, if one does; from any thread."""
        with self._lock:
            if not self._running or self._late is not None or self._stop is None:
                return
            self._late = threading.Timer(self._delay, self._interrupt)
            self._late.daemon = True
            self._late.start()
        self._stop.set()

    def _interrupt(self) -> None:
        with self._lock:
            if self._running:
                # to that thread, because the kernel may give a signal of the process to another, which wakes nobody
                signal.pthread_kill(threading.main_thread().ident or 0, self._signals[0])


def handle_signals() -> threading.Event:
    """Let Ctrl-C, SIGTERM and a lost connection end the turn; returns what is set when the program is to end too.

    A program that was started in the background of a script has SIGINT ignored; it is heeded again.
    """
    leaving, last = threading.Event(), -_REPEAT_WINDOW_S

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        if number != signal.SIGINT:
            leaving.set()
        elif time.monotonic() - last < _REPEAT_WINDOW_S:
            return
        last = time.monotonic()
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    return leaving


def ignore_signals() -> None:
    """Ignore further signals: everything is stored, and the process is about to end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def block_signals(signals: tuple[int, ...] = _SIGNALS) -> Iterator[None]:
    """Ignore signals while a turn is being stored."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
