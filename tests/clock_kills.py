"""A home whose clockwork is killed again and again, and a count of what its person was told."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

from picoclaw.automation.clock import ClockWatch
from picoclaw.automation.jobs import JobOutcome
from picoclaw.automation.scheduler import Scheduler
from picoclaw.daemon.delivery import deliver_messages
from picoclaw.schedules import Plan
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import Job, Jobs

BEGIN = 1_780_000_020.0
MINUTE = 60.0


class Home:
    """Reminders and commands that are due a minute apart, and the files that hold what became of them."""

    def __init__(self, folder, minutes, *, drops_repeats):
        self.path, self.minutes, self.drops_repeats = Path(folder) / "state.db", minutes, drops_repeats
        self.shown, self.ran, self.clock = (Path(folder) / name for name in ("shown", "ran", "clock"))
        for file in (self.shown, self.ran):
            file.touch()
        self.clock.write_text(f"{BEGIN} 1000.0")
        with closing(Database(self.path)) as database:
            jobs = Jobs(database)
            for minute in range(1, minutes + 1):
                plan = Plan("at", anchor=BEGIN + minute * MINUTE)
                jobs.add(Job(0, "home", f"reminder {minute}", plan))
                jobs.add(Job(0, "home", f"command {minute}", plan, "command"))
            jobs.add(Job(0, "home", "every minute", Plan("cron", "* * * * *", "Europe/Berlin"), after=BEGIN))

    def tell(self, known, letter):
        """What a chat does that knows its numbers, or a terminal that knows none."""
        if letter.number not in known or not self.drops_repeats:
            again = " (again)" if letter.begun else ""
            with self.shown.open("a") as file:
                file.write(f"{letter.number} {letter.at:.0f} {letter.text}{again}\n")
            known.add(letter.number)

    def run(self, job):
        with self.ran.open("a") as file:
            file.write(f"{job.payload}\n")
        return JobOutcome(True, "")

    def live(self, ready=lambda: None):
        """Be the clockwork until nothing is due any more; time passes as fast as it can."""
        wall, mono = map(float, self.clock.read_text().split())
        known = {int(line.split()[0]) for line in self.shown.read_text().splitlines()}
        database = Database(self.path)
        tell = partial(deliver_messages, Outbox(database), partial(self.tell, known))
        watch = ClockWatch(lambda: True, "one boot")
        scheduler = Scheduler(Jobs(database), watch, self.run, tell, lambda _: None)
        ready()
        while True:
            wait = scheduler.step(wall, mono) or MINUTE
            if wall >= self.end:
                return
            self.go(wait)
            wall, mono = map(float, self.clock.read_text().split())

    @property
    def end(self):
        return BEGIN + (self.minutes + 0.5) * MINUTE

    def go(self, seconds):
        """Let time pass, not beyond the end; a kill leaves either the old time or the new one."""
        wall, mono = map(float, self.clock.read_text().split())
        seconds = min(seconds, self.end - wall)
        self.written(f"{wall + seconds} {mono + seconds}").replace(self.clock)

    def written(self, text):
        copy = self.clock.with_suffix(".new")
        copy.write_text(text)
        return copy

    def over(self):
        return float(self.clock.read_text().split()[0]) >= self.end

    def lone(self, number):
        """Whether it was shown once only, though it said that it may be a repetition."""
        return sum(line.startswith(f"{number} ") for line in self.shown.read_text().splitlines()) == 1

    def found(self):
        """What is wrong in the end: lost, twice, more than once a minute."""
        lines = [line.split(" ", 2) for line in self.shown.read_text().splitlines()]
        again = {number for number, _, text in lines if text.endswith(" (again)")}
        lines = [(number, at, text) for number, at, text in lines if not text.endswith(" (again)") or self.lone(number)]
        told = Counter(text.split(" (")[0] for _, _, text in lines if text.startswith("Reminder: reminder"))
        ticks = Counter(at for _, at, text in lines if text.startswith("Reminder: every"))
        ran = Counter(self.ran.read_text().splitlines())
        cut_off = {text.split("(")[1].split(")")[0] for _, _, text in lines if "cut off" in text}
        missed = sum(int(text.split("(")[1].split()[0]) for _, _, text in lines if "earlier" in text)
        with closing(sqlite3.connect(self.path)) as database:
            left = database.execute("SELECT count(*) FROM outbox").fetchone()[0]
        return {
            "reminders lost": self.minutes - len(told),
            "reminders twice": sum(told.values()) - len(told),
            "slots lost": self.minutes - len(ticks) - missed,
            "slots twice": sum(ticks.values()) - len(ticks),
            "commands twice": sum(ran.values()) - len(ran),
            "commands neither run nor reported": self.minutes - len(set(ran) | cut_off),
            "left in the outbox": left,
            "cut off": len(cut_off),
            "said to be perhaps a repetition": len(again),
        }


def killed(folder, kills, seed, *, drops_repeats=True):
    """Kill the clockwork so many times, then let it come to its end; returns what was found."""
    dice = random.Random(seed)
    home = Home(folder, kills * 6, drops_repeats=drops_repeats)  # enough for a busy machine, where each lives longer
    hit = 0
    while hit < kills and not home.over():
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            home.live(partial(os.write, writer, b"!"))
            os._exit(0)
        if dice.random() < 0.9:  # else it is killed while it begins
            os.read(reader, 1)
        time.sleep(dice.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        hit += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        os.close(reader)
        os.close(writer)
        if dice.random() < 0.2:  # and without power for some minutes
            home.go(dice.uniform(0, 4 * MINUTE))
    home.live()
    return {"killed": hit} | home.found()
