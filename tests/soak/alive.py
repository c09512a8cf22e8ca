"""The daemon in its home, and what is seen of it while it is soaked."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from furnished import LONGEST_ON_S
from gauges import Sample, below, opened, resident, threads
from person import PICOCLAW, environment

from picoclaw.channels import ipc
from picoclaw.outputs.supervisor import read_holder

CODE = """
import sys
from pathlib import Path
from picoclaw.channels.dashboard.login import make_code
print(make_code(Path(sys.argv[1])))
"""
LATE_S = 90.0
"""Of the quick clock's: how much longer than it may an output is seen on, because looking takes a moment."""


class House:
    """The daemon in its home, which is killed and comes again."""

    def __init__(self, folder, pace):
        self.folder, self.home, self._pace = folder, folder / "picoclaw", pace
        self.log = folder.parent / "log"
        self.life, self.died, self.dying = 0, "", False
        self.process = self._begun()

    def _begun(self):
        made = environment(self.folder, **self._pace.environment)
        with self.log.open("ab") as log:
            words = [*PICOCLAW, "run", "--board", "sim"]
            return subprocess.Popen(words, env=made, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def ready(self, seconds=30):
        """Wait until it has begun."""
        end = time.monotonic() + seconds
        while not self.asked("status"):
            assert time.monotonic() < end, self.log.read_text(errors="replace")
            time.sleep(0.1)

    def asked(self, word):
        """Ask it something over its socket; nothing when it does not answer."""
        with contextlib.suppress(OSError):
            return ipc.ask_daemon(self.home, {"do": word}, 3)
        return None

    def killed(self):
        self.dying = True
        self.process.kill()
        self.process.wait()
        self.process = self._begun()
        self.life, self.dying = self.life + 1, False

    def ended(self):
        """Have it end in order; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def code(self):
        """A code for the page, by the quick clock."""
        made = environment(self.folder, **self._pace.environment)
        words = [sys.executable, "-c", CODE, str(self.home)]
        return subprocess.run(words, env=made, capture_output=True, text=True, check=True).stdout.strip()


class Watcher(threading.Thread):
    """Reads the gauges once a second, and looks how long the outputs are on."""

    def __init__(self, house, pace, script):
        super().__init__(name="watcher", daemon=True)
        self._house, self._pace, self._script = house, pace, script
        self.ending = threading.Event()
        self.samples, self.problems, self.too_long = [], Counter(), []
        self.longest_queue = 0
        self._ends = {}

    def run(self):
        while not self.ending.wait(1.0):
            life, process = self._house.life, self._house.process
            if process.poll() is not None:
                if process is self._house.process and not (self._house.dying or self.ending.is_set()):
                    self._house.died = f"it ended by itself with {process.returncode}"
                continue
            self._look(life, process.pid)
            if status := self._house.asked("status"):
                self._told(status)

    def _look(self, life, pid):
        home = self._house.home
        files, sockets = opened(pid)
        supervisor = read_holder(home)
        sample = Sample(
            time.monotonic(), life, resident(pid), files, sockets, threads(pid), resident(supervisor.worker),
            *below(home), self._house.log.stat().st_size,
            sum(self._script.asked.values()),
        )  # fmt: skip
        if sample.rss_kb and sample.life == self._house.life:
            self.samples.append(sample)

    def _told(self, status):
        now = self._pace.now()
        self.longest_queue = max(self.longest_queue, status.get("queue", 0))
        self.problems.update(re.sub(r"\d+", "N", one)[:90] for one in status["problems"])
        for one in status["outputs"].get("outputs", []):
            name, left = one["name"], one["left"]
            if left is None:
                self._ends.pop(name, None)
                continue
            ends = self._ends.get(name, 0.0)
            if now + left > ends + LATE_S:  # another lease than the last time
                ends = self._ends[name] = now + left
            if now > ends + LATE_S or left > LONGEST_ON_S[name]:
                self.too_long.append(f"{name} {now - ends:.0f} s beyond its end, {left:.0f} s left")
