"""What a day of sampling costs the card, and how long its questions take. Prints figures, judges nothing.

    python tests/bench/history.py [SECONDS] [DAYS]

Five simulated climate sensors with three quantities each, every 10 seconds by default, through the real sampler into a
real database; the clock is the bench's. Bytes and syncs are those that SQLite asks of the system, counted in its file
layer; "block writes" is the kernel's own account of this process (proc_pid_io(5)), which also holds what the file
system adds to whole pages. A journalling file system writes a little more for each sync that changes a file's size.
"""

import math
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from picoclaw.automation.sampler import Sampler
from picoclaw.hw.reading import Reading
from picoclaw.store.database import HISTORY_MIGRATIONS, Database
from picoclaw.store.samples import ClockReading, Samples, Series
from picoclaw.times import parse_range
from picoclaw.tools import sensors

SENSORS, QUANTITIES = 5, ("temperature", "humidity", "pressure")
BEGIN = datetime(2026, 7, 1, tzinfo=UTC)
COUNTED = Counter()


class File(apsw.VFSFile):
    """Counts what is written and synced."""

    def __init__(self, inherit, name, flags):
        super().__init__(inherit, name, flags)

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        COUNTED["writes"] += 1
        COUNTED["bytes"] += len(data)
        super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        COUNTED["syncs"] += 1
        super().xSync(flags)


class Vfs(apsw.VFS):
    """The system's files, counted."""

    def __init__(self):
        super().__init__("counted", "unix", makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802
        return File("unix", name, flags)


def block_bytes():
    rows = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(rows["write_bytes"]) - int(rows["cancelled_write_bytes"])


def readings(second):
    wave = math.sin(second * math.tau / 86_400)
    for number in range(SENSORS):
        for index, quantity in enumerate(QUANTITIES):
            value = 20 + number + wave * 5 + index * 20 + math.sin(second * (7 + number)) / 10
            yield Reading(f"sensor{number}", quantity, value, "bench", at=second)


def main(every, days):
    _kept = Vfs()
    home = Path(tempfile.mkdtemp(prefix="history-", dir="."))
    path = home / "history.db"
    database = Database(path, HISTORY_MIGRATIONS)
    samples = Samples(database)
    now = ClockReading("bench", 0.0, BEGIN)
    sampler = Sampler(lambda: list(readings(now.mono)), lambda: samples, every)
    print(f"{SENSORS} sensors x {len(QUANTITIES)} quantities every {every:g} s")
    print("day  bytes (MB)  writes  syncs  block writes (MB)  CPU s  file (MB)")
    for day in range(days):
        COUNTED.clear()
        blocks, cpu = block_bytes(), time.process_time()
        second = day * 86_400.0
        while second < (day + 1) * 86_400:
            now = ClockReading("bench", second, BEGIN + timedelta(seconds=second))
            sampler.step(now)
            sampler.commit(now)
            second += every
        print(
            f"{day + 1:3} {COUNTED['bytes'] / 1e6:11.1f} {COUNTED['writes']:7} {COUNTED['syncs']:6}"
            f" {(block_bytes() - blocks) / 1e6:18.1f} {time.process_time() - cpu:6.1f}"
            f" {path.stat().st_size / 1e6:10.1f}"
        )
    for text in ("last hour", "last 24 hours", "last 48 hours", "this month"):
        began = time.perf_counter()
        found = sensors.summarize_series(samples, Series("sensor0", "temperature"), parse_range(text, now.wall), 12)
        print(f"{text:14} {found.whole.good:7} readings {1000 * (time.perf_counter() - began):7.1f} ms")
    database.close()
    for leftover in home.iterdir():
        leftover.unlink()
    home.rmdir()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, int(sys.argv[2]) if len(sys.argv) > 2 else 4)
