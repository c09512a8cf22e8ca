"""Plays network faults against Telegram and the model of a real daemon: `network_faults.py --faults 300`.

A real `picoclaw run` with the C library's own resolver and real TLS, in a network namespace of its own. People write
all the time. Faults of every class come one after the other, against Telegram, the model or both; now and then the
daemon is killed. At the end every message must have one answer, and every command must have been run at most once.
"""

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import network
from model_server import ModelServer, call, reply
from person import PICOCLAW, environment
from telegram_server import TOKEN, TelegramServer

from picoclaw.channels.telegram import MAYBE_REPEATED
from picoclaw.store.database import Database

AT_DOORS = (
    *("black hole", "not accepted", "refused", "reset", "half-open", "drip"),
    *(*network.PAGES, "wrong certificate", "not yet valid"),
)
OF_NAMES = ("names: silent", "names: failing", "names: another server")
KINDS = [(kind, at) for kind in AT_DOORS for at in ("telegram", "model", "both")] + [(k, "both") for k in OF_NAMES] * 2
SLOW = (
    "half-open",
    "names: silent",
    "names: another server",
)  # over when time-outs of picoclaw's or the resolver's are
BAD = ("lost", "doubled", "wrong", "run twice", "turns twice")
FIRST, MOST = 10_000, 3000
EVERY_S = 0.7
KILL_EVERY, MOST_KILLS = 12, 4
PATIENCE_S = 120.0
IDLE_S = 10
CONFIG = """
[model]
base_url = "{model}/v1"
name = "scripted"
idle_seconds = {idle}
[telegram]
api_url = "{telegram}"
allow = {allow}
[heartbeat]
enabled = false
[memory]
embeddings = "off"
dream_hour = -1
review_minutes = 0
"""


class Daemon:
    """`picoclaw run`, which may be killed and comes again."""

    def __init__(self, home, **more):
        self._home, self._more = home, more
        self.log = home / "log"
        self._process = self._begun()

    def _begun(self):
        with self.log.open("ab") as log:
            words = [*PICOCLAW, "run", "--board", "sim"]
            made = environment(self._home, **self._more)
            return subprocess.Popen(words, env=made, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def killed(self):
        self._process.kill()
        self._process.wait()
        self._process = self._begun()

    def ended(self):
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Play:
    """One daemon, the network around it, and the people who write to it."""

    def __init__(self, folder, seed, stack):
        self.dice, self.folder = random.Random(seed), folder
        network.bring_up()
        papers = network.papers(folder, "telegram.test", "model.test")
        self.names = stack.enter_context(network.Names(folder))
        self.telegram = stack.enter_context(TelegramServer())
        self.telegram.people |= set(range(FIRST, FIRST + MOST))
        model = stack.enter_context(ModelServer(self._modelled))
        model._http.handle_error = lambda *_: None  # a client that leaves is part of the play
        behind = int(self.telegram.url.rpartition(":")[2])
        self.doors = {
            "telegram": stack.enter_context(network.Door(behind, papers, "telegram.test", self.dice)),
            "model": stack.enter_context(network.Door(model.port, papers, "model.test", self.dice)),
        }
        self.done = folder / "done"
        self.done.touch()
        self._configure()
        self.written = 0
        self._quiet = threading.Event()
        self._writer = threading.Thread(target=self._writes, daemon=True)
        self.daemon = Daemon(folder, SSL_CERT_FILE=str(papers.authority))
        stack.callback(self.daemon.ended)

    def _configure(self):
        home = self.folder / "picoclaw"
        home.mkdir()
        urls = {name: door.url for name, door in self.doors.items()}
        (home / "config.toml").write_text(CONFIG.format(**urls, idle=IDLE_S, allow=[*range(FIRST, FIRST + MOST)]))
        (home / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
        (home / "secrets.toml").chmod(0o600)

    def _modelled(self, body):
        """Run a command that must not be run twice, and then say so."""
        asked = [m["content"] for m in body["messages"] if m["role"] == "user"]
        number = re.findall(r"question (\d+)", str(asked[-1]))[-1]
        if body["messages"][-1]["role"] == "tool":
            return reply(f"answer to {number}.")
        return reply("", call("exec", {"command": f"echo {number} >> {self.done}"}))

    def _writes(self):
        while not self._quiet.wait(self.dice.uniform(0.5, 1.5) * EVERY_S) and self.written < MOST:
            self.telegram.says(FIRST + self.written, f"question {self.written}")
            self.written += 1

    def modelled(self):
        """Number the newest message that the model's answer to has arrived, from 0 on; -1 when there is none."""
        return max((s.chat - FIRST for s in list(self.telegram.sent) if "answer to " in s.text), default=-1)

    def until(self, so, seconds=PATIENCE_S):
        """Wait; tells whether it was in time."""
        end = time.monotonic() + seconds
        while not so() and time.monotonic() < end:
            time.sleep(0.02)
        return time.monotonic() < end

    def fault(self, kind, at, kill):
        """Have one fault begin and end; returns how many seconds later the model had answered something newer."""
        length = self.dice.uniform(0.4, 2.5)
        self._set(kind, at)
        if kill:
            cut = self.dice.uniform(0, length)
            time.sleep(cut)
            self.daemon.killed()
            length -= cut
        time.sleep(length)
        self._set("", "both")
        begun, newer = time.monotonic(), self.written
        self.until(lambda: self.modelled() >= newer)
        return time.monotonic() - begun

    def _set(self, kind, at):
        of_names = kind.startswith("names: ") and kind.removeprefix("names: ")
        self.names.mode = of_names if of_names in {"silent", "failing"} else ""
        if of_names == "another server" or not kind:
            self.names.use("127.0.0.2" if of_names else "127.0.0.1")
        for name, door in self.doors.items():
            door.mode = "" if of_names or at not in {name, "both"} else kind

    def run(self, faults, only="", *, brief=False):
        """Play faults; returns how long each took to be over, how often it was killed, and whether all was answered."""
        self._writer.start()
        assert self.until(lambda: self.modelled() >= 0), self.daemon.log.read_text()
        mixed = self.dice.sample(KINDS, len(KINDS))
        kinds = cycle(kind for kind in mixed if kind[0].startswith(only) and not (brief and kind[0] in SLOW))
        took, kills = [], 0
        for number in range(1, faults + 1):
            kind, at = next(kinds)
            kill = number % KILL_EVERY == 2 and kills < MOST_KILLS
            kills += kill
            took.append((kind, at, bool(kill), self.fault(kind, at, kill)))
            time.sleep(self.dice.uniform(0, 0.5))
        self._quiet.set()
        self._writer.join()
        drained = self.until(lambda: not self.telegram.pending and not self._left())
        return took, kills, drained

    def _left(self):
        database = Database(self.folder / "picoclaw/state.db")
        asked = database.connection.execute
        left = asked("SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM inbox WHERE NOT done)").get
        database.close()
        return left or len({sent.chat for sent in list(self.telegram.sent)}) < self.written

    def judged(self):
        """Say what was lost, answered twice, run twice, or answered by two turns."""
        told = defaultdict(list)
        for sent in self.telegram.sent:
            told[sent.chat - FIRST].append(sent.text)
        perhaps = [n for n, texts in told.items() if any(_again(text) for text in texts)]
        sure = {n: [text for text in texts if not _again(text)] for n, texts in told.items()}
        database = Database(self.folder / "picoclaw/state.db")
        turns = database.connection.execute("SELECT inbox FROM turns WHERE inbox > 0").fetchall()
        database.close()
        run = Counter(map(int, self.done.read_text().split()))
        return {
            "written": self.written,
            "modelled": sum(any("answer to" in text for text in texts) for texts in told.values()),
            "lost": [n for n in range(self.written) if n not in told],
            "doubled": {n: texts for n, texts in sure.items() if len(texts) > 1},
            "wrong": {n: texts for n, texts in told.items() if any(_other(n, text) for text in texts)},
            "perhaps": len(perhaps),
            "cut off": sum(any("was cut off while" in text for text in texts) for texts in told.values()),
            "run twice": [n for n, times in run.items() if times > 1],
            "turns twice": [n for n, times in Counter(turns).items() if times > 1],
            "log": len(self.daemon.log.read_text().splitlines()),
        }


def _again(text):
    return text.startswith(MAYBE_REPEATED) or "perhaps a repeat" in text


def _other(number, text):
    """An answer in the wrong chat."""
    return any(int(n) != number for n in re.findall(r"answer to (\d+)", text))


def one(given):
    """Play in this process, which has a network of its own; prints what came of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        play = Play(folder, given.seed, stack)
        took, kills, drained = play.run(given.faults, given.only, brief=given.brief)
        code = play.daemon.ended()
        found = play.judged() | {"took": took, "kills": kills, "drained": drained, "code": code}
        if given.log:
            Path(given.log).write_text(play.daemon.log.read_text())
    print(json.dumps(found))


def many(faults, seed, workers, log="", only="", *, brief=False):
    """Share faults out to workers; returns what each has found. `brief`: none that takes long to be over."""
    words = [__file__, "--one", f"--only={only}", *(["--brief"] if brief else [])]
    share = [faults // workers + (n < faults % workers) for n in range(workers)]
    own = [f"{log}{n}" if log else "" for n in range(workers)]
    made = [
        network.apart(*words, f"--faults={share[n]}", f"--seed={seed + n}", f"--log={own[n]}")
        for n in range(workers)
        if share[n]
    ]
    said = [each.communicate()[0] for each in made]
    return [json.loads(text.splitlines()[-1]) for text in said if text]


def shown(found, seconds):
    """Print it; tells whether anything is wrong."""
    took = [row for each in found for row in each["took"]]
    total = lambda name: sum(len(v) if isinstance(v := each[name], list | dict) else v for each in found)  # noqa: E731
    print(f"{len(took)} faults in {seconds:.0f} s, {total('kills')} kills -9, {len(found)} daemons")
    print(
        f"{total('written')} messages, {total('modelled')} answered by the model, {total('cut off')} said to be cut off"
    )
    print(", ".join(f"{name} {total(name)}" for name in (*BAD, "perhaps")), f"log lines {total('log')}", sep=", ")
    print(f"{'seconds from the end of a fault to the next answer of the model':<66}{'n':>4}{'median':>8}{'longest':>9}")
    for kind in (*AT_DOORS, *OF_NAMES):
        for at in ("telegram", "model", "both"):
            if times := sorted(row[3] for row in took if row[0] == kind and row[1] == at):
                print(f"{kind + ', ' + at:<66}{len(times):>4}{times[len(times) // 2]:>8.1f}{times[-1]:>9.1f}")
    times = sorted(row[3] for row in took)
    print(f"{'all':<66}{len(times):>4}{times[len(times) // 2]:>8.1f}{times[-1]:>9.1f}")
    ended = all(each["drained"] and not each["code"] for each in found)
    return bool(sum(map(total, BAD))) or not ended or times[-1] >= PATIENCE_S


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--log", default="", help="a file's beginning, to keep the daemons' logs in")
    parser.add_argument("--only", default="", help="what the kind of fault begins with")
    parser.add_argument("--brief", action="store_true", help="leave out what takes long to be over")
    parser.add_argument("--one", action="store_true", help="play here, in a namespace that is there already")
    given = parser.parse_args()
    if given.one:
        one(given)
        return 0
    if not network.possible():
        print("this machine gives nobody a network namespace, or has no openssl")
        return 2
    begun = time.monotonic()
    return shown(
        many(given.faults, given.seed, given.workers, given.log, given.only, brief=given.brief),
        time.monotonic() - begun,
    )


if __name__ == "__main__":
    sys.exit(main())
