"""A day in the life of a real daemon, in minutes: `soak.py` for two of them, `soak.py --day` for a day at 100x.

    .venv/bin/python tests/soak/soak.py [--day] [--seconds 100] [--pace 60] [--seed 1] [--keep FOLDER]

A real `picoclaw run` on the simulated board with its supervisor, a page, a bot and a model, all on loopback. People
chat and say yes, jobs and rules fire, heartbeats and sub-agents work; the servers fail in every way, and in the day form
the daemon is killed now and then and its disk is full for a while. Memory, files, threads and sizes are read every
second. At the end every promise is counted. Exit code 1 when one was not kept or something has grown.
"""

import argparse
import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import judge
from alive import House, Watcher
from furnished import BEAT_EVERY_S, GUESTS, LONGEST_ON_S, OWNER, PERIOD_S, furnish
from gauges import resident
from model_server import ModelServer
from pace import Pace
from people import (
    GUEST_SAYS,
    OWNER_SAYS,
    PATIENCE_S,
    PEACE_EVERY_S,
    PLANS,
    Browser,
    Chatter,
    Presser,
    Telegram,
    numbers,
    once,
)
from script import SAYS, TAKE_A_TOOL, Script
from telegram_server import TOKEN
from trouble import Trouble, small_disk

from picoclaw.channels.dashboard.live import PageChat
from picoclaw.messages import DEFAULT_SESSION
from picoclaw.outputs import supervisor
from picoclaw.store import database
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox
from picoclaw.store.samples import RuleLog

SHORT_S, SHORT_PACE, DAY_S, DAY_PACE = 100.0, 60, 870.0, 100
REMIND_S, IDLE_S, SLOW_REMIND_S, SLOW_IDLE_S = 300, 300, 20, 5
"""In how long a reminder is due, and how long a server may be silent; the slow ones where the clocks are not quick."""

BAD_A_DAY = 1
"""Waterings that may fail, because the supervisor has a hundredth of its patience and the same machine; sub-agents that may,
because ten minutes are all they have and the model may be silent for five."""

DUE_S = 120.0
"""Of the quick clock's: so long after it was due, whatever was promised for later has come."""

SILENT_S = 20.0
"""Of the machine's: four times as long as the model may be silent. What has no time of its own has come by then."""


class Soak:
    """One of them, from the first start to the last count."""

    def __init__(self, folder, given, stack):
        self.given, self.dice = given, random.Random(given.seed)
        self.pace = Pace(folder, given.pace)
        given.pace = self.pace.pace
        if self.pace.problem:
            print(f"the clocks go at their own pace, so that what needs hours does not come: {self.pace.problem}")
        self.script = Script(REMIND_S if given.pace > 1 else SLOW_REMIND_S)
        self.telegram = stack.enter_context(Telegram(self.pace))
        self.telegram.people |= set(GUESTS)
        model = stack.enter_context(ModelServer(self.script))
        model._http.handle_error = lambda *_: None  # a client that leaves is part of the play
        live = folder / "home"
        live.mkdir()
        given.full = given.full if given.full and small_disk(live, stack) else 0
        port = furnish(live, model.url, self.telegram.url, TOKEN, IDLE_S if given.pace > 1 else SLOW_IDLE_S)
        self.house = House(live, self.pace)
        stack.callback(self._put_down)
        self.house.ready()
        counted = numbers()
        gap = given.seconds / 100
        self.owner = Chatter(
            self.telegram, OWNER, itertools.chain(PLANS, itertools.cycle(OWNER_SAYS)), gap / 2, counted
        )
        guests = (
            Chatter(self.telegram, who, itertools.cycle(GUEST_SAYS), gap * (2 + n), counted)
            for n, who in enumerate(GUESTS)
        )
        self.chatters = [self.owner, *guests]
        self.presser = Presser(self.telegram)
        self.browser = Browser(port, self.house.code, gap, counted, self.telegram.rest_of_peace)
        self.watcher = Watcher(self.house, self.pace, self.script)
        self.trouble = Trouble(self.house, self.telegram, self.script, given, self.dice, self.browser)
        self.begun = self.pace.now()

    def _put_down(self):
        if self.house.process.poll() is None:
            self.house.ended()
        watch = supervisor.read_holder(self.house.home).watchdog
        if watch and resident(watch):
            os.kill(watch, signal.SIGTERM)

    def _load_matcher(self):
        """Say everything twice while the model fails, in the first meeting and behind it: what the built-in matcher loads
        for that is no growth later."""
        self.script.is_down = True
        for kind in (*OWNER_SAYS, *PLANS, *SAYS) * 2:
            self.owner.ask(kind)
        self.script.is_down = False
        end = time.monotonic() + PATIENCE_S
        while not self.owner.numbers() and time.monotonic() < end:  # the model is not asked again at once
            self.owner.ask("ask")
            time.sleep(0.2)

    def lived(self):
        """Let everybody live for so long, then let what was begun come to its end; returns the exit code."""
        self._load_matcher()
        everybody = [*self.chatters, self.presser, self.browser, self.watcher]
        for one in everybody:
            one.start()
        soon = time.monotonic() + 30
        while not all(map(self.script.promised, PLANS)) and time.monotonic() < soon:
            time.sleep(0.1)  # nothing fails before everything is planned that is counted
        later = (REMIND_S + DUE_S) / self.pace.pace if self.pace.pace > 1 else 2.0 * SLOW_REMIND_S
        quiet = self.given.seconds - later
        self.trouble.start()
        end = time.monotonic() + quiet
        while time.monotonic() < end and not self.house.died:
            time.sleep(0.5)
        self.trouble.ending.set()
        self.trouble.join()
        for one in (*self.chatters, self.browser):
            one.ending.set()
        for one in (*self.chatters, self.browser):
            one.join(60)
        time.sleep(later)
        soon = time.monotonic() + SILENT_S
        while len(set(self._told(r"Sub-agent (\d+)"))) < len(self.script.promised("help")) and time.monotonic() < soon:
            time.sleep(0.2)  # the last failure of the model's may have been for a sub-agent
        self.ended_at = self.pace.now()
        self.status = self.house.asked("status") or {}
        for one in (self.presser, self.watcher):
            one.ending.set()
            one.join(10)
        return self.house.ended()

    def rows(self, code):
        """Everything that is judged."""
        spent, faults = self.ended_at - self.begun, sum(self.trouble.done.values()) + 5 * self.trouble.kills
        yield judge.same("ended in order", (code, self.house.died), (0, ""))
        yield judge.Row(
            "Traceback" not in self.house.log.read_text(errors="replace"), "tracebacks", "looked for in the log"
        )
        yield from judge.steady(self.watcher.samples, day=self.given.day, faults=faults)
        for one in self.chatters:
            yield judge.none(f"messages of {one.who} without an answer, of {len(one.asked)}", one.lost)
            more = len(self.presser.pressed) if one is self.owner else 0  # a yes is answered as well, if badly
            yield judge.within(f"answers to {one.who}", len(one.answers()), len(one.asked), len(one.asked) + more)
            yield judge.none(f"answers to {one.who} that came twice, and what came between", [*one.list_repeats()])
        asked = self.browser.asked
        yield judge.none(f"at the page lost, of {asked} in {self.browser.visits} visits", self.browser.lost)
        yield judge.none("at the page: troubles", self.browser.troubles[:3])
        yield from self._promises()
        yield from self._clockwork(spent)
        left = [path.name for path in self.house.home.rglob(".*") if re.fullmatch(r"\..+\.\d+\.\d+", path.name)]
        yield judge.most("copies that were begun and left", len(left), self.trouble.kills + self.given.full)
        yield judge.none("outputs on too long", self.watcher.too_long[:3])
        outputs = self.status.get("outputs", {}).get("outputs", [])
        yield judge.none(
            "outputs beyond their time at the end",
            [one for one in outputs if (one["left"] or 0) > LONGEST_ON_S[one["name"]]],
        )
        yield judge.same(
            "outputs that a supervisor has left on", (self.house.home / supervisor.LIVE_FILE).exists(), False
        )
        with contextlib.closing(Database(self.house.home / "state.db")) as kept:
            letters = [one.session for one in Outbox(kept).waiting() if one.session != DEFAULT_SESSION]
            yield judge.none("waiting at the end", [*letters, *(one.key for one in Inbox(kept).waiting())])
        for name in ("state.db", database.HISTORY_FILE):
            with contextlib.closing(
                Database(self.house.home / name, *([database.HISTORY_MIGRATIONS] if "h" in name else []))
            ) as kept:
                yield judge.same(f"{name} is", kept.connection.execute("PRAGMA integrity_check").get, "ok")

    def _promises(self):
        """What a tool has done was done once, and what was promised for later has come."""
        undone = [kind for kind in (*PLANS, *OWNER_SAYS) if kind in TAKE_A_TOOL and not self.script.promised(kind)]
        yield judge.none("wishes of which no tool has done one", undone)
        told, found = once(self.telegram.texts(OWNER)), self._told
        with contextlib.closing(Database(self.house.home / "state.db")) as kept:
            rows = kept.connection.execute("SELECT text FROM tasks WHERE status = 'failed'").fetchall()
        failed = [int(str(text).split()[-1]) for (text,) in rows]
        done = [number for number in self.script.promised("help") if number not in failed]
        path = self.house.home / "workspace/soak.txt"
        lines = [int(n) for n in re.findall(r"line (\d+)", path.read_text())] if path.exists() else []
        yield from judge.each_once("lines of a file", self.script.promised("file"), lines)
        yield from judge.each_once("reminders", self.script.promised("remind"), found(r"Reminder: tea (\d+)"))
        yield from judge.each_once("reports of sub-agents", done, found(r"soak report (\d+)"))
        yield judge.same("sub-agents that failed and said so", len(set(found(r"Sub-agent (\d+) failed"))), len(failed))
        yield judge.most("sub-agents that failed", len(failed), self.trouble.kills + self.given.full + BAD_A_DAY)
        yeses, pressed = found(r"Number (\d+) was done"), len(self.presser.pressed)
        yield judge.each_once("yeses", [], yeses)[1]
        refused = len(re.findall(r"/yes was not done|answered this: '/yes|Number \d+ has failed", "\n".join(told)))
        yield judge.within("yeses", len(set(yeses)), pressed - refused, pressed)

    def _told(self, words):
        """The numbers that the owner was told with such words."""
        return [int(n) for text in once(self.telegram.texts(OWNER)) for n in re.findall(words, text)]

    def _clockwork(self, spent):
        """What was due by the clock has come as often as it was."""
        told, apart = once(self.telegram.texts(OWNER)), 1.5 + self.trouble.kills + self.given.full + spent / 43_200
        with contextlib.closing(Database(self.house.home / database.HISTORY_FILE, database.HISTORY_MIGRATIONS)) as kept:
            water, hot = (RuleLog(kept).log(5000, rule) for rule in ("water", "hot"))
        yield judge.about("the rule that waters", len(water), spent / 600, apart)
        bad = [one.outcome for one in water if "valve1 is on" not in one.outcome]
        yield judge.most(
            "waterings that failed, and said so", len(bad), self.trouble.kills + self.given.full + BAD_A_DAY
        )
        yield judge.about("the rule that says it is hot", len(hot), spent / PERIOD_S, apart)
        cut = sum("stopped in the middle" in one.outcome for one in hot)  # which is told in other words
        alarms = judge.times(told, "soak: it is hot")
        yield judge.within("its alarms on Telegram", alarms, len(hot) - cut, len(hot))
        shown = sum("soak: it is hot" in one.text for one in PageChat(self.house.home).outbox.all())
        seen = sum(one.outcome.count(",") for one in hot)  # those with a second letter: somebody had logged in by then
        yield judge.within("its alarms at the page", shown, 0 if self.given.day else seen, seen)  # which keeps the last
        for words, every in (("soak drips", 900), ("soak strikes", 1200)):
            yield judge.about(f"job: {words}", judge.times(told, words), spent / every, apart)
        ticks = judge.times(told, "soak ticks")
        failed = self.trouble.done.total() / 10
        yield judge.about("job: soak ticks", ticks, spent / 1200, apart + failed)
        beats = self.script.asked["heartbeat"]
        most = spent / BEAT_EVERY_S + 2 + failed  # one that was answered badly is asked again
        yield judge.within("heartbeats", beats, int(spent / PEACE_EVERY_S / 2), int(most))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--day", action="store_true", help="a day at 100x, with kills")
    parser.add_argument("--seconds", type=float, help="of the machine's")
    parser.add_argument("--pace", type=int, help="how many times as fast the clocks go; 1 needs no C compiler")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trouble", type=float, default=2.0, help="seconds between two failures of a server")
    parser.add_argument("--kills", type=int, help="how often the daemon is killed")
    parser.add_argument("--full", type=int, help="how often the disk is full for a while; for root, who can mount one")
    parser.add_argument("--keep", type=Path, help="a folder that does not exist, for the home and the log")
    given = parser.parse_args()
    given.seconds = given.seconds or (DAY_S if given.day else SHORT_S)
    given.kills = (6 if given.day else 0) if given.kills is None else given.kills
    given.full = (2 if given.day else 0) if given.full is None else given.full
    given.pace = given.pace or (DAY_PACE if given.day else SHORT_PACE)
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="picoclaw-soak-")))
        folder.mkdir(exist_ok=True)
        soak = Soak(folder, given, stack)
        rows = list(soak.rows(soak.lived()))
        print_out(soak, rows)
    sys.exit("\n".join(f"BAD  {row.what}: {row.found}" for row in rows if not row.good) or 0)


def print_out(soak, rows):
    """What was done, and each row, the bad ones last."""
    hours = (soak.ended_at - soak.begun) / 3600
    kinds = Counter(kind for one in soak.chatters for kind in one.asked.values())
    print(f"{hours:.1f} hours in {soak.given.seconds:.0f} s; asked of the model: {dict(soak.script.asked)}")
    print(f"said: {dict(kinds)}; longest queue {soak.watcher.longest_queue}; slowest answer ", end="")
    print(f"{max(one.slowest for one in soak.chatters):.1f} s; killed {soak.trouble.kills} times")
    print(f"failures: {dict(soak.trouble.done)}")
    if soak.watcher.problems:
        print(f"status has said: {dict(soak.watcher.problems.most_common(8))}")
    for row in sorted(rows, key=lambda row: not row.good):
        print(f"{'ok ' if row.good else 'BAD'}  {row.what}: {row.found}")
    if not all(row.good for row in rows):
        print(soak.house.log.read_text(errors="replace")[-3000:])
    if soak.given.keep:
        shutil.copytree(soak.house.home, soak.given.keep / "kept", ignore=shutil.ignore_patterns("*.sock", "wake-*"))
        (soak.given.keep / "owner").write_text("\n---\n".join(soak.telegram.texts(OWNER)))
        (soak.given.keep / "samples").write_text("\n".join(" ".join(map(str, one)) for one in soak.watcher.samples))


if __name__ == "__main__":
    main()
