"""Kills the clockwork across due times, and counts what a day of nothing costs: `clock.py --kills 500`."""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clock_kills import killed
from clock_kit import Board

from picoclaw.schedules import Plan

DAY = 86_400.0
EACH = 25  # kills of one home


def idle(jobs):
    """A day in which nothing is due: how often the scheduler woke, and what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "state.db", 1_780_000_000.0)
        for number in range(jobs):
            board.add(Plan("cron", f"{number % 60} 3 1 1 *", "Europe/Berlin"), after=board.wall)
        before = board.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert before[0][0] == 0
        steps, began = board.steps, time.process_time()
        board.live(DAY)
        wrote = board.path.with_name("state.db-wal").stat().st_size
        board.database.close()
        return {"jobs": jobs, "wakes": board.steps - steps, "bytes": wrote, "cpu s": time.process_time() - began}


def busy():
    """A day with a reminder every minute: what is written for each."""
    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "state.db", 1_780_000_000.0)
        board.add(Plan("cron", "* * * * *", "Europe/Berlin"), after=board.wall)
        wrote = Path("/proc/self/io")
        before, began = _written(wrote), time.process_time()
        board.live(DAY)
        told, took = len(board.told), time.process_time() - began
        board.database.close()
        return {"told": told, "bytes each": (_written(wrote) - before) // told, "cpu ms each": 1000 * took / told}


def _written(io):
    return next(int(line.split()[1]) for line in io.read_text().splitlines() if line.startswith("wchar"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    bad = 0
    for drops_repeats in (True, False):
        found = Counter()
        for seed in range(given.seed, given.seed + given.kills // EACH):
            with tempfile.TemporaryDirectory() as folder:
                found.update(killed(folder, EACH, seed, drops_repeats=drops_repeats))
        print("a channel that knows its numbers" if drops_repeats else "a terminal", json.dumps(found))
        bad += sum(count for name, count in found.items() if name.endswith(("lost", "twice", "reported")))
    for jobs in (0, 3, 100):
        print("idle for a day", json.dumps(idle(jobs)))
    print("a reminder every minute", json.dumps(busy()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
