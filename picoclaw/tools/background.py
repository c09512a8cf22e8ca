"""Commands that go on while the conversation does: started, looked at, written to, and ended at the latest in time."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from picoclaw.errors import PicoclawError, ToolError
from picoclaw.messages import Stop
from picoclaw.sandbox.running import Running
from picoclaw.trust.policy import Effect

_MOST_RUNNING, _MOST_KEPT = 8, 20
_PATIENCE_S = 5.0


@dataclass
class Process:
    """A command of one chat; `effects` are what it may do to the world, and what is written to it through it.

    `mark` tells it from one that has its number after a restart.
    """

    number: int
    chat: str
    shown: str
    effects: tuple[Effect, ...]
    seconds: float
    running: Running | None = None
    problem: str = ""
    ending: str = ""
    mark: str = field(default_factory=lambda: os.urandom(8).hex())
    news: threading.Event = field(default_factory=threading.Event)

    def state(self) -> str:
        """Say in a few words how it is."""
        return self.ending or "runs"


class Processes:
    """The commands that run beside the chats of this process."""

    def __init__(self) -> None:
        """None yet."""
        self._all: dict[int, Process] = {}
        self._last = 0

    def begin(self, process: Process, start: Callable[[], Running]) -> Process:
        """Start a command and keep it under the next number; raises what `start` does, ToolError for one too many."""
        if sum(not one.ending for one in self._all.values()) >= _MOST_RUNNING:
            raise ToolError(f"{_MOST_RUNNING} commands run in the background already: kill one with process")
        for number in [n for n, one in self._all.items() if one.ending][: max(len(self._all) - _MOST_KEPT, 0)]:
            del self._all[number]
        begun = threading.Event()
        threading.Thread(target=_attend, args=(process, start, begun), name="command", daemon=True).start()
        begun.wait()
        if process.problem:
            raise ToolError(process.problem)
        self._last += 1
        process.number = self._last
        self._all[process.number] = process
        return process

    def of(self, chat: str) -> list[Process]:
        """List those of a chat, also those that have ended."""
        return [process for process in self._all.values() if process.chat == chat]

    def effects(self, number: int) -> tuple[Effect, ...]:
        """Tell what may come of writing to a command."""
        return self._all[number].effects if number in self._all else ("read",)

    def bound(self, number: int) -> dict[str, str]:
        """Tell which command a number names, so that a yes to it is none to a later one of that number."""
        found = self._all.get(number)
        return {"to the command": found.shown, "as it was started": found.mark} if found else {}

    def get(self, chat: str, number: int) -> Process:
        """Find one; raises ToolError."""
        found = self._all.get(number)
        if found is None or found.chat != chat:
            known = ", ".join(str(process.number) for process in self.of(chat))
            raise ToolError(f"there is no command {number} in this chat; known: {known or 'none'}")
        return found


def _attend(process: Process, start: Callable[[], Running], begun: threading.Event) -> None:
    """Start it, read what it says, end it. The kernel ends it with this very thread, however that ends."""
    try:
        running = process.running = start()
    except (PicoclawError, OSError) as error:
        process.problem = f"the command could not be started: {error}"
        return
    finally:
        begun.set()
    in_time = running.collect(time.monotonic() + process.seconds)
    code = running.close()
    process.ending = f"ended with exit code {code}" if in_time else f"stopped after {process.seconds:g} s"
    process.news.set()


def look(process: Process, seconds: float, stop: Stop) -> str:
    """Tell what it has said since the last look and how it is, at the latest after so many seconds."""
    with stop.ends(process.news.set):
        if not stop:
            process.news.wait(seconds)
        if not process.ending:
            process.news.clear()
    said = process.running.output.take() if process.running else ""
    return f"{said}[{process.state()}]"


def write(process: Process, text: str, *, end: bool) -> str:
    """Hand it a line to read; `end`: nothing comes after it. Raises ToolError."""
    running = process.running
    if process.ending or running is None or running.feed < 0:
        raise ToolError(f"command {process.number} reads nothing any more: {process.ending or 'its input has ended'}")
    data = (text if not text or text.endswith("\n") else text + "\n").encode()
    os.set_blocking(running.feed, False)
    try:
        taken = os.write(running.feed, data) if data else 0
    except (BlockingIOError, BrokenPipeError):
        raise ToolError(f"command {process.number} does not read what is written to it") from None
    if taken < len(data):
        raise ToolError(f"only {taken} of {len(data)} bytes were read")
    if end:
        running.hang_up()
    return f"{taken} bytes written"


def kill(process: Process) -> str:
    """End it with everything that it has started."""
    if process.running and not process.ending:
        process.news.clear()
        process.running.kill()
        process.news.wait(_PATIENCE_S)
    return process.state()
