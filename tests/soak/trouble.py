"""What goes wrong while the house is soaked."""

import contextlib
import itertools
import subprocess
import threading
import time
from collections import Counter

from script import BAD
from telegram_server import BAD_GATEWAY, black_hole, busy, half, portal, reset, reset_after

OF_TELEGRAM = {
    "reset": reset,
    "reset after": reset_after,
    "half an answer": half,
    "bad gateway": BAD_GATEWAY,
    "busy": busy(2),
    "portal": portal,
    "black hole": black_hole,
}
METHODS = ("sendMessage", "getUpdates", "*")
DISK_MB, FULL_S = 256, 8.0
EVENTFUL = 0.6
"""Share of the time in which the daemon is killed; the rest is one long life, in which growth would show."""


class Trouble(threading.Thread):
    """Has the servers fail, one after the other in every way, and in the long form the daemon die and its disk fill up.

    `events` are what happens once each, evenly spread over the first part.
    """

    def __init__(self, house, telegram, script, given, dice, browser):
        super().__init__(name="trouble", daemon=True)
        self._house, self._telegram, self._script, self._browser = house, telegram, script, browser
        self._every_s, self._dice, self._quick = given.trouble, dice, given.pace > 1
        self._events = ["kill"] * given.kills + ["full"] * given.full
        dice.shuffle(self._events)
        self._apart_s = given.seconds * EVENTFUL / (len(self._events) + 1)
        self.ending = threading.Event()
        self.done, self.kills = Counter(), 0

    def run(self):
        kinds = [("model", name) for name in BAD]
        if self._quick:  # Telegram is given up to a minute to recover
            kinds += [("telegram", name) for name in OF_TELEGRAM]
        self._dice.shuffle(kinds)
        begun = time.monotonic()
        for where, name in itertools.cycle(kinds):
            if self.ending.wait(self._every_s * self._dice.uniform(0.5, 1.5)):
                return
            self.done[f"{where}: {name}"] += 1
            if where == "model":
                self._script.bad(name)
            else:
                self._telegram.fail(self._dice.choice(METHODS), OF_TELEGRAM[name])
            if self._events and time.monotonic() - begun > self._apart_s:
                begun = time.monotonic()
                {"kill": self._kill, "full": self._fill}[self._events.pop()]()

    def _kill(self):
        self.kills += 1
        self._browser.away.set()
        self._house.killed()
        self._house.ready()
        self._browser.away.clear()

    def _fill(self):
        """Let the disk be full for a while."""
        self.done["disk full"] += 1
        reserve = self._house.folder / "reserve"
        self._browser.away.set()
        try:
            with reserve.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            self.ending.wait(FULL_S)
        finally:
            reserve.unlink()
            self._browser.away.clear()


def small_disk(folder, stack):
    """Put a small file system there; tells whether this machine let us."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "soak", str(folder)]
    with contextlib.suppress(OSError):
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
            return True
    print("no disk of its own can be mounted here: it is never full")
    return False
