"""What is typed, and pressed, while a turn runs."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from picoclaw.messages import Stop

_STDIN = 0


class Typing:
    """Reads the terminal during a turn, and hands on each line as it is typed."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        """`hear` is called from the thread that reads, with "/quit" at the end of the input."""
        self._hear = hear
        self._thread: threading.Thread | None = None
        self._end = -1

    def __enter__(self) -> Self:
        """Begin to read, in a thread that sleeps until something is typed."""
        end, self._end = os.pipe()
        self._thread = threading.Thread(target=self._watch, args=(end,), name="typing", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal to others; may be called twice."""
        if self._thread is not None:
            os.close(self._end)
            self._thread.join()
            self._thread = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal alone for a question to the person."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _watch(self, end: int) -> None:
        try:
            while end not in (ready := select.select([_STDIN, end], [], [])[0]) and ready:
                text = os.read(_STDIN, 65_536).decode("utf-8", "replace")
                if not text:
                    self._hear("/quit")
                    return
                for line in filter(None, map(str.strip, text.splitlines())):
                    self._hear(line)
        finally:
            os.close(end)


class Ending:
    """Ends a turn by the word for it, and by Ctrl-C where the word alone has not done it after a while."""

    def __init__(self, patience: float = 0.5, number: int = signal.SIGINT) -> None:
        """`patience` is that while, in seconds: what neither reads nor waits for the word takes longer.

        `number` is the signal that interrupts the main thread like Ctrl-C.
        """
        self._patience, self._number = patience, number
        self._stop = Stop()
        self._guard = threading.Lock()
        self._running = False
        self._late: threading.Timer | None = None

    @contextmanager
    def turn(self) -> Iterator[Stop]:
        """Give the word for one turn; what was said before is forgotten, and what is said after is not heard."""
        self._stop = stop = Stop()
        with self._guard:
            self._running = True
        try:
            yield stop
        finally:
            with self._guard:
                self._running = False
                late, self._late = self._late, None
            if late is not None:
                late.cancel()

    @property
    def said(self) -> bool:
        """Whether the turn that runs is to end."""
        return self._late is not None

    def say(self) -> None:
        """End the turn that runs, if one does; from any thread."""
        with self._guard:
            if not self._running or self._late is not None:
                return
            self._late = threading.Timer(self._patience, self._interrupt)
            self._late.daemon = True
            self._late.start()
        self._stop.say()

    def _interrupt(self) -> None:
        with self._guard:
            if self._running:
                # to that thread, because the kernel may give a signal of the process to another, which wakes nobody
                signal.pthread_kill(threading.main_thread().ident or 0, self._number)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE_S = 0.4
"""Who presses Ctrl-C again within this time means the same; what the first ends is being kept meanwhile."""


def listen_to_signals() -> threading.Event:
    """Let Ctrl-C, SIGTERM and a lost connection end the turn; returns what is set when the program is to end too.

    A program that was started in the background of a script has SIGINT ignored; it is heeded again.
    """
    leaving, last = threading.Event(), -_TWICE_S

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        if number != signal.SIGINT:
            leaving.set()
        elif time.monotonic() - last < _TWICE_S:
            return
        last = time.monotonic()
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    return leaving


def heed_no_signals() -> None:
    """Everything is done and kept; what is left is to end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let no signal in while a turn is being kept: there is nothing left to stop."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
