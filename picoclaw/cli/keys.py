"""What is typed, and pressed, while a turn runs."""

import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_STDIN = 0


class Typing:
    """Reads the terminal during a turn: /stop interrupts it like Ctrl-C, other lines are kept for afterwards."""

    def __init__(self, kept: deque[str], urgent: Callable[[str], bool]) -> None:
        """`urgent` sees each line at once, and tells whether it has dealt with it; `kept` receives the others."""
        self._kept = kept
        self._urgent = urgent
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
                    self._kept.append("/quit")
                    return
                self._take(text)
        finally:
            os.close(end)

    def _take(self, text: str) -> None:
        for line in text.splitlines():
            if line.strip() == "/stop" or self._urgent(line):
                os.kill(os.getpid(), signal.SIGINT)
            elif line.strip():
                self._kept.append(line.strip())


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def listen_to_signals() -> threading.Event:
    """Let Ctrl-C, SIGTERM and a lost connection end the turn; returns what is set when the program is to end too.

    A program that was started in the background of a script has SIGINT ignored; it is heeded again.
    """
    leaving = threading.Event()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            leaving.set()
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
