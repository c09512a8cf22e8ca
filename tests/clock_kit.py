"""A board whose two clocks a test moves, and a scheduler on it with a real database that does not wait for the disk."""

import re
from functools import partial

from picoclaw.automation.clock import ClockWatch
from picoclaw.automation.jobs import JobOutcome
from picoclaw.automation.scheduler import Scheduler
from picoclaw.daemon.delivery import deliver_messages
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import Job, Jobs

FIRST_BOOT = "first boot"


class Board:
    """Time passes when it is said to; what was told and done is kept."""

    def __init__(self, path, wall, vouched=True):
        self.path, self.wall, self.mono, self.vouched, self.boot = path, wall, 1000.0, vouched, FIRST_BOOT
        self.told, self.ran, self.said, self.steps = [], [], [], 0
        self.answer = lambda job: JobOutcome(True, "done")
        self.start()

    def start(self):
        """Another process on the same home."""
        self.database = Database(self.path)
        self.database.connection.execute("PRAGMA synchronous = OFF")
        self.jobs, self.outbox = Jobs(self.database), Outbox(self.database)
        watch = ClockWatch(lambda: self.vouched, self.boot)
        tell = partial(deliver_messages, self.outbox, self.told.append)
        self.scheduler = Scheduler(self.jobs, watch, self.run, tell, self.said.append)

    def reboot(self, off_s, wall=None):
        """Without power for a while; the clock begins anew, perhaps with a wrong date."""
        self.database.close()
        self.wall = self.wall + off_s if wall is None else wall
        self.mono, self.boot = 5.0, f"boot at {self.wall}"
        self.start()

    def run(self, job):
        self.ran.append((job.number, job.last_slot))
        return self.answer(job)

    def add(self, plan, payload="tea", **more):
        return self.jobs.add(Job(0, "home", payload, plan, **more))

    def step(self):
        self.steps += 1
        return self.scheduler.step(self.wall, self.mono)

    def live(self, seconds):
        """Let time pass, and the scheduler sleep as it wants to."""
        end = self.mono + seconds
        while True:
            wait = self.step()
            left = end - self.mono
            if wait is None or wait >= left:
                self.pass_(left)
                self.step()
                return
            self.pass_(wait)

    def pass_(self, seconds):
        self.wall += seconds
        self.mono += seconds

    @property
    def texts(self):
        return [letter.text for letter in self.told]

    def missed(self, whose):
        """How many slots were reported as missed, as far as they were counted."""
        texts = [text for text in self.texts if text.startswith(whose)]
        counts = [re.search(r"(\d+) earlier ones were missed", text) for text in texts]
        return sum(int(found[1]) for found in counts if found)
