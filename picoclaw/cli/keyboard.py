"""What is typed, and pressed, while a turn runs."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_STDIN = 0


class KeyboardReader:
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


"""Who presses Ctrl-C again within this time means the same; what the first ends is being kept meanwhile."""
