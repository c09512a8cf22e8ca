"""Tells the service manager how the daemon is: sd_notify(3) over its datagram socket, without a library.

The watchdog is told that all is well only while every thread keeps its promise: see progress.py.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress


def notify(environment: Mapping[str, str], *words: str) -> bool:
    """Send assignments such as READY=1; tells whether there was somebody to take them."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.settimeout(1)
        line.sendto("\n".join(words).encode(), name)
        return True
    return False


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float:
    """Return how often the manager wants to hear from us, in seconds; 0 when it does not (sd_watchdog_enabled(3))."""
    with suppress(ValueError):
        if int(environment.get("WATCHDOG_PID") or pid) == pid:
            return max(0, int(environment.get("WATCHDOG_USEC", "0"))) / 1e6
    return 0.0


class Watchdog:
    """A thread that tells the manager twice in each of its intervals that we live, as long as it is true."""

    def __init__(self, late: Callable[[], Sequence[str]], note: Callable[[str], None]) -> None:
        """`late()` names the threads that are frozen; `note` is told of them once."""
        self._late, self._note = late, note
        self._ending = threading.Event()
        self._every_s = watchdog_seconds(os.environ, os.getpid()) / 2
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin, if the manager wants it."""
        if self._every_s:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()

    def _run(self) -> None:
        said: Sequence[str] = ()
        while not self._ending.is_set():
            frozen = self._late()
            if not frozen:
                notify(os.environ, "WATCHDOG=1")
            elif frozen != said:
                self._note(f"frozen: {', '.join(frozen)}; the watchdog is not told that all is well")
            said = frozen
            self._ending.wait(self._every_s)
